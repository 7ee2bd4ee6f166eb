//! Store of the frames of packets that wait in the link, found by the packet's id.

use base::PacketId;

/// Length up to which frames (acknowledgements, probes) get small slots: a queue full of them must not cost a full
/// frame's memory each.
const SMALL: usize = 192;
/// Number of slots made at a time.
const CHUNK: usize = 256;

#[derive(Clone, Copy, Default)]
struct Slot {
    /// Length of the slot's frame.
    len: u32,
    /// Number of times that the slot has been used, which makes ids differ.
    uses: u32,
    /// Number of copies of the packet in the link; 0 if the slot is free.
    copies: u32,
}

struct Pool {
    slot: usize,
    chunks: Vec<Box<[u8]>>,
    slots: Vec<Slot>,
    free: Vec<u32>,
}

impl Pool {
    fn new(slot: usize) -> Pool {
        Pool {
            slot,
            chunks: Vec::new(),
            slots: Vec::new(),
            free: Vec::new(),
        }
    }

    /// Chunk of a frame, and its range in the chunk.
    fn place(&self, index: u32) -> (usize, std::ops::Range<usize>) {
        let index = index as usize;
        let from = index % CHUNK * self.slot;
        (index / CHUNK, from..from + self.slots[index].len as usize)
    }

    fn put(&mut self, frame: &[u8]) -> u32 {
        let index = self.free.pop().unwrap_or_else(|| {
            let first = self.slots.len() as u32;
            self.chunks.push(vec![0; self.slot * CHUNK].into());
            self.slots.resize(self.slots.len() + CHUNK, Slot::default());
            self.free.extend((first + 1..first + CHUNK as u32).rev());
            first
        });
        let slot = &mut self.slots[index as usize];
        (slot.len, slot.copies) = (frame.len() as u32, 1);
        let (chunk, range) = self.place(index);
        self.chunks[chunk][range].copy_from_slice(frame);
        index
    }
}

/// Frames by packet id. The store grows to the most frames that ever waited at once, and keeps that size: nothing is
/// allocated in a steady state.
pub(super) struct Frames {
    pools: [Pool; 2],
}

impl Frames {
    pub(super) fn new(longest: usize) -> Frames {
        Frames {
            pools: [Pool::new(SMALL), Pool::new(longest.max(SMALL))],
        }
    }

    /// Stores a frame, which must not be longer than the longest that was announced. No id comes twice within four
    /// thousand million uses of its slot.
    pub(super) fn put(&mut self, frame: &[u8]) -> PacketId {
        let pool = usize::from(frame.len() > SMALL);
        let index = self.pools[pool].put(frame);
        let uses = self.pools[pool].slots[index as usize].uses;
        PacketId(u64::from(uses) << 32 | u64::from(index) << 1 | pool as u64)
    }

    fn find(&self, id: PacketId) -> (usize, u32) {
        let (pool, index) = ((id.0 & 1) as usize, (id.0 as u32) >> 1);
        let slot = self.pools[pool].slots[index as usize];
        // Else the link gave back a packet once too often, or one that it never got.
        assert!(
            slot.copies > 0 && slot.uses == (id.0 >> 32) as u32,
            "packet {id:?} is not held"
        );
        (pool, index)
    }

    pub(super) fn get(&self, id: PacketId) -> &[u8] {
        let (pool, index) = self.find(id);
        let (chunk, range) = self.pools[pool].place(index);
        &self.pools[pool].chunks[chunk][range]
    }

    pub(super) fn get_mut(&mut self, id: PacketId) -> &mut [u8] {
        let (pool, index) = self.find(id);
        let (chunk, range) = self.pools[pool].place(index);
        &mut self.pools[pool].chunks[chunk][range]
    }

    /// Counts one more copy of the packet.
    pub(super) fn duplicate(&mut self, id: PacketId) {
        let (pool, index) = self.find(id);
        self.pools[pool].slots[index as usize].copies += 1;
    }

    /// Removes one copy; the frame goes with the last.
    pub(super) fn remove(&mut self, id: PacketId) {
        let (pool, index) = self.find(id);
        let pool = &mut self.pools[pool];
        let slot = &mut pool.slots[index as usize];
        slot.copies -= 1;
        if slot.copies == 0 {
            slot.uses = slot.uses.wrapping_add(1);
            pool.free.push(index);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl Frames {
        /// Number of slots.
        pub(in crate::emulate) fn slots(&self) -> usize {
            self.pools.iter().map(|p| p.slots.len()).sum()
        }
        /// Number of waiting frames.
        pub(in crate::emulate) fn held(&self) -> usize {
            self.pools
                .iter()
                .map(|p| p.slots.len() - p.free.len())
                .sum()
        }
    }

    #[test]
    fn each_frame_comes_back_whole_and_slots_are_used_again() {
        let mut frames = Frames::new(1514);
        let mut held = std::collections::BTreeMap::new();
        for round in 0..4_000u32 {
            let frame: Vec<u8> = (0..1 + round as usize * 7 % 1514)
                .map(|i| (i as u32 ^ round) as u8)
                .collect();
            let id = frames.put(&frame);
            assert!(held.insert(id, frame).is_none(), "an id came twice");
            if round % 3 != 0 {
                let (id, frame) = held.pop_first().expect("something is held");
                assert_eq!(frames.get(id), &frame[..]);
                frames.remove(id);
            }
        }
        assert_eq!(frames.held(), held.len());
        for (id, frame) in held {
            assert_eq!(frames.get(id), &frame[..]);
            frames.remove(id);
        }
        assert_eq!(frames.held(), 0);
    }

    #[test]
    fn a_frame_stays_until_its_last_copy_has_gone() {
        let mut frames = Frames::new(1514);
        let id = frames.put(&[7; 60]);
        frames.duplicate(id);
        frames.remove(id);
        assert_eq!(frames.get(id), &[7; 60]);
        frames.remove(id);
        assert_eq!(frames.held(), 0);
    }

    #[test]
    #[should_panic(expected = "is not held")]
    fn a_packet_that_the_link_gives_back_twice_stops_the_run() {
        let mut frames = Frames::new(1514);
        let id = frames.put(&[1, 2, 3]);
        frames.remove(id);
        frames.get(id);
    }
}
