//! Captures made from others by what damage and ill will do to files.

use measure::capture::{LinkType, Reader, Record, frame};
use measure::ends::{Capture, match_ends};
use measure::track::{Act, Settings, Tracker, Watch, queue};

/// SplitMix64 (Steele, Lea, Flood 2014).
pub struct Chance(pub u64);

impl Chance {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }
    fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Numbers at which lengths, times and sequence numbers go wrong.
const EDGES: [u32; 12] = [
    0,
    1,
    2,
    0x7f,
    0xff,
    0x7fff,
    0xffff,
    0x1_0000,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffe,
    0xffff_ffff,
];

/// One file changed in one to eight places.
pub fn mutate(chance: &mut Chance, files: &[Vec<u8>]) -> Vec<u8> {
    let mut file = files[chance.below(files.len())].clone();
    for _ in 0..=chance.below(8) {
        let at = chance.below(file.len() + 1);
        let len = chance.below(200).min(file.len() - at);
        match chance.below(9) {
            0 => file.truncate(at),
            1 => drop(file.drain(at..at + len)),
            2 => {
                let copy = file[at..at + len].to_vec();
                let to = chance.below(file.len() + 1);
                file.splice(to..to, copy);
            }
            3 => {
                let other = &files[chance.below(files.len())];
                let from = chance.below(other.len() + 1);
                let part = other[from..(from + len * 4).min(other.len())].to_vec();
                file.splice(at..at, part);
            }
            4 if len >= 4 => {
                let edge = EDGES[chance.below(EDGES.len())];
                let edge = if chance.below(2) == 0 {
                    edge.to_be()
                } else {
                    edge
                };
                file[at..at + 4].copy_from_slice(&edge.to_ne_bytes());
            }
            5 if len >= 2 => {
                let edge = EDGES[chance.below(7)] as u16;
                file[at..at + 2].copy_from_slice(&edge.to_be_bytes());
            }
            6 => file[at..at + len].fill(chance.next() as u8),
            _ if len > 0 => file[at] ^= 1 << chance.below(8),
            _ => {}
        }
    }
    file
}

struct Listener(u64);

impl Watch for Listener {
    fn act(&mut self, act: Act) {
        if let Act::Sent { bytes, fresh, .. } = act {
            assert!(fresh <= bytes);
        }
        self.0 += 1;
    }
}

/// Reads and follows whatever `bytes` are, and checks what must hold of anything.
pub fn survive(bytes: &[u8]) {
    let Ok(mut reader) = Reader::new(bytes) else {
        return;
    };
    let settings = |most_live| Settings {
        most_live,
        ..Settings::default()
    };
    let (mut tracker, mut crowded) = (Tracker::new(settings(1000)), Tracker::new(settings(3)));
    let mut listener = Listener(0);
    let (mut kept, mut packets) = (0, 0);
    while let Some(r) = reader.next_record().unwrap() {
        (kept, packets) = (kept + r.data.len(), packets + 1);
        tracker.record(&r);
        let frame = frame::parse(&r);
        crowded.packet_watched(r.t_ns, r.original_len, frame.as_ref(), &mut listener);
        // The same bytes as another link layer.
        let other = Record {
            link: LinkType(packets as u16 % 300),
            interface: 0,
            ..r
        };
        frame::parse(&other);
    }
    assert!(kept <= bytes.len());
    assert_eq!(reader.offset(), bytes.len() as u64);
    let traffic = tracker.finish();
    assert_eq!(traffic.totals.packets, packets as u64);
    for c in &traffic.connections {
        assert!(c.first_ns <= c.last_ns);
        for h in &c.halves {
            let n = &h.counts;
            // SYN and FIN can be among what was sent again.
            assert!(n.unique_bytes <= n.data_bytes);
            assert!(n.data_packets <= n.packets);
            assert!(h.rtt.count == 0 || h.rtt.min_ns <= h.rtt.max_ns);
            h.rtt_at(0.5);
            let e = h.events();
            e.losses().count();
            assert!(e.time_in_breaks_ns() >= 0);
            if let Some(d) = h.detail() {
                d.peak_bps(h.rtt.min_ns);
                let l = d.limited();
                assert!(l.sender_ns >= 0 && l.receiver_ns >= 0 && l.network_ns >= 0);
            }
        }
    }
    let ways = traffic
        .connections
        .iter()
        .flat_map(|c| [0, 1].map(|way| (c, way)));
    queue::waits(ways.map(|(c, way)| queue::Trail::of(c, way)));
    let crowded = crowded.finish();
    assert_eq!(crowded.totals.packets, packets as u64);
}

/// Matches two files as both ends of a path.
pub fn survive_as_ends(near: &[u8], far: &[u8]) {
    let [near, far] = [near, far].map(|bytes| {
        let mut end = Capture::default();
        if let Ok(mut reader) = Reader::new(bytes) {
            while let Some(r) = reader.next_record().unwrap() {
                if let (Some(t), Some(f)) = (r.t_ns, frame::parse(&r)) {
                    end.packet(t, &f);
                }
            }
        }
        end
    });
    let matched = match_ends(&near, &far);
    // A segment that was cut on the way makes a pair with each of its parts.
    assert!(matched.pairs.len() <= near.len() + far.len());
}
