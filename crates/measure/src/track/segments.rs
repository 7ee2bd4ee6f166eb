//! Segments of one direction that are sent and not yet acknowledged, and the holes between them.

use super::table::Touch;

/// Range of sequence space as it was last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Position of its first byte.
    pub start: u64,
    /// Time of the last transmission, ns.
    pub t: i64,
    bytes: u32,
    /// Number of the captured packet that sent it last; 0 if it has no number.
    pub frame: u32,
    /// Burst in which it was first sent.
    pub burst: u32,
    /// Number of retransmissions.
    pub again: u8,
    /// True if its last byte is not that of the packet sent, or if part of that was retransmitted: an ACK of it gives
    /// no RTT.
    pub cut: bool,
    /// True if it is selectively acknowledged.
    pub sacked: bool,
    /// Place in a super-segment.
    pub joined: Joined,
}

/// Place within a super-segment of more than two segments that left the sender at once.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Joined {
    /// Outside of a super-segment.
    #[default]
    No,
    /// Start of the super-segment, from its first byte on.
    First,
    /// Inside the super-segment.
    Inner,
}

impl Segment {
    /// Creates a segment. It is never longer than the 32 bits of a window can span.
    #[inline]
    pub fn new(start: u64, end: u64, (t, frame): (i64, u32), burst: u32) -> Segment {
        Segment {
            start,
            t,
            bytes: u32::try_from(end - start).unwrap_or(u32::MAX),
            frame,
            burst,
            again: 0,
            cut: false,
            sacked: false,
            joined: Joined::No,
        }
    }

    /// Marks a packet that is split into segments of `mss` on the path.
    #[cold]
    pub fn in_super_segment(self, mss: u32) -> Segment {
        let joined = if self.bytes > 2 * mss {
            Joined::First
        } else {
            Joined::No
        };
        Segment { joined, ..self }
    }

    /// Position after its last byte.
    #[inline]
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.bytes)
    }
}

/// Sequence space below the highest byte that was never seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    /// Position of its first byte.
    pub start: u64,
    /// Position after its last byte.
    pub end: u64,
    /// Arrival time of the data above it, with that packet's identification and timestamp.
    pub t: i64,
    /// IP identification of the packet with that data.
    pub id: u32,
    /// TCP timestamp of the packet with that data.
    pub tsval: Option<u32>,
}

/// Maximum number of segments; beyond it the oldest are forgotten. No window holds more full segments.
const MOST: usize = 65_536;

/// Outstanding segments in the order of sequence, without overlap.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    /// Single segment, for the many connections that never have more than one outstanding.
    one: Option<Segment>,
    /// All segments once there was more than one. Those before `head` are acknowledged and will be overwritten.
    store: Vec<Segment>,
    head: u32,
    rare: Option<Box<Rare>>,
}

/// Fields that most connections never need.
#[derive(Clone, Debug, Default)]
struct Rare {
    holes: Vec<Hole>,
    sacked_bytes: u64,
}

impl Touch for Segments {
    fn touch(&self) -> u64 {
        self.one.map_or(0, |s| s.start) ^ u64::from(self.head)
    }
}

impl Segments {
    /// Appends a segment.
    #[inline(always)]
    pub fn push(&mut self, segment: Segment) {
        if self.store.len() == self.store.capacity() && !self.make_room() {
            self.one = Some(segment);
            return;
        }
        self.store.push(segment);
    }

    /// Moves the single segment to the store if there is a second one; `false` if the segment is the only one. It does
    /// not receive the segment: passing it through memory, written in parts and read as a whole, takes longer than
    /// everything else.
    #[inline(never)]
    fn make_room(&mut self) -> bool {
        if self.store.capacity() == 0 {
            let Some(first) = self.one.take() else {
                return false;
            };
            self.store.reserve_exact(4);
            self.store.push(first);
            return true;
        }
        if self.waiting().len() >= MOST {
            while self.waiting().len() > MOST / 2 {
                self.pop_front();
            }
        }
        let head = self.head as usize;
        if head > self.store.len() / 2 {
            self.store.drain(..head);
            self.head = 0;
        }
        true
    }

    #[inline(always)]
    fn waiting(&self) -> &[Segment] {
        match &self.one {
            Some(one) => std::slice::from_ref(one),
            None => &self.store[self.head as usize..],
        }
    }

    #[inline(always)]
    fn waiting_mut(&mut self) -> &mut [Segment] {
        match &mut self.one {
            Some(one) => std::slice::from_mut(one),
            None => &mut self.store[self.head as usize..],
        }
    }

    /// Oldest segment.
    #[inline(always)]
    pub fn front(&self) -> Option<&Segment> {
        self.waiting().first()
    }

    /// Removes the oldest segment.
    #[inline(always)]
    pub fn pop_front(&mut self) {
        let Some(gone) = self.waiting().first() else {
            return;
        };
        if gone.sacked {
            let bytes = u64::from(gone.bytes);
            self.rare_mut().sacked_bytes -= bytes;
        }
        if self.one.take().is_some() {
            return;
        }
        self.head += 1;
        if self.head as usize == self.store.len() {
            self.store.clear();
            self.head = 0;
        }
    }

    /// Removes everything before `start`: it is acknowledged.
    pub fn trim_front(&mut self, start: u64) {
        let Some(front) = self.waiting_mut().first_mut() else {
            return;
        };
        let (gone, sacked) = (start - front.start, front.sacked);
        front.bytes -= gone as u32;
        front.start = start;
        if front.joined == Joined::First {
            front.joined = Joined::Inner;
        }
        if sacked {
            self.rare_mut().sacked_bytes -= gone;
        }
    }

    #[cold]
    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    /// Bytes selectively acknowledged.
    #[inline(always)]
    pub fn sacked_bytes(&self) -> u64 {
        self.rare.as_ref().map_or(0, |r| r.sacked_bytes)
    }

    /// True if there are holes.
    #[inline]
    pub fn has_holes(&self) -> bool {
        self.rare.as_ref().is_some_and(|r| !r.holes.is_empty())
    }

    /// Adds a hole.
    pub fn add_hole(&mut self, hole: Hole) {
        let holes = &mut self.rare_mut().holes;
        let at = holes.partition_point(|h| h.start < hole.start);
        holes.insert(at, hole);
    }

    /// Cuts `start..end` out of the holes. Calls `found` for each range that was missing until now, in order, and
    /// returns the hole of the first of them.
    pub fn fill(&mut self, start: u64, end: u64, mut found: impl FnMut(u64, u64)) -> Option<Hole> {
        let mut first = None;
        let holes = &mut self.rare_mut().holes;
        let mut i = holes.partition_point(|h| h.end <= start);
        while let Some(hole) = holes.get(i).copied() {
            if hole.start >= end {
                break;
            }
            first.get_or_insert(hole);
            let (from, to) = (hole.start.max(start), hole.end.min(end));
            found(from, to);
            let left = (hole.start < from).then_some(Hole { end: from, ..hole });
            let right = (to < hole.end).then_some(Hole { start: to, ..hole });
            match (left, right) {
                (None, None) => {
                    holes.remove(i);
                    continue;
                }
                (Some(one), None) | (None, Some(one)) => holes[i] = one,
                (Some(one), Some(other)) => {
                    holes[i] = one;
                    holes.insert(i + 1, other);
                }
            }
            i += 1;
        }
        first
    }

    fn index_at(&self, position: u64) -> usize {
        self.waiting().partition_point(|s| s.end() <= position)
    }

    /// Inserts the data that filled a hole, if nothing lies there.
    pub fn insert(&mut self, segment: Segment) {
        let at = self.index_at(segment.start);
        let free = |s: &Segment| s.start >= segment.end();
        if self.waiting().get(at).is_none_or(free) {
            self.store.extend(self.one.take());
            self.store.insert(self.head as usize + at, segment);
        }
    }

    /// Splits a segment at `position`: retransmissions and SACK blocks need not have the borders of the first
    /// transmission, which may have been a super-segment of offload. Both pieces are marked as cut if `both`, otherwise
    /// the one before the border.
    #[cold]
    fn split(&mut self, position: u64, both: bool) {
        let at = self.index_at(position);
        let Some(whole) = self.waiting_mut().get_mut(at) else {
            return;
        };
        if whole.start >= position {
            return;
        }
        let tail = Segment {
            start: position,
            bytes: (whole.end() - position) as u32,
            joined: match whole.joined {
                Joined::No => Joined::No,
                Joined::First | Joined::Inner => Joined::Inner,
            },
            cut: whole.cut | both,
            ..*whole
        };
        whole.bytes = (position - whole.start) as u32;
        whole.cut = true;
        self.store.extend(self.one.take());
        self.store.insert(self.head as usize + at + 1, tail);
    }

    /// Marks the bytes `start..end` as retransmitted at `t` by packet `frame`; returns the earlier state of the first
    /// of them.
    pub fn resent(&mut self, start: u64, end: u64, (t, frame): (i64, u32)) -> Option<Segment> {
        self.split(start, true);
        self.split(end, true);
        let from = self.index_at(start);
        let before = self.waiting().get(from).copied().filter(|s| s.start < end);
        for segment in &mut self.waiting_mut()[from..] {
            if segment.start >= end {
                break;
            }
            segment.again = segment.again.saturating_add(1);
            segment.t = t;
            segment.frame = frame;
        }
        before
    }

    /// Marks the bytes `start..end` as received out of order. Returns the segment of them that was sent last, if it was
    /// sent once and none of the others later.
    pub fn sack(&mut self, start: u64, end: u64) -> Option<Segment> {
        let from = self.index_at(start);
        // Most blocks repeat known data.
        let news = |s: &Segment| s.start >= end || !s.sacked;
        let at = from + self.waiting()[from..].iter().position(news)?;
        if self.waiting()[at].start >= end {
            return None;
        }
        self.split(start, false);
        self.split(end, false);
        let mut bytes = 0;
        let mut latest: Option<Segment> = None;
        for segment in &mut self.waiting_mut()[at..] {
            if segment.start >= end {
                break;
            }
            if !segment.sacked && segment.start >= start {
                segment.sacked = true;
                bytes += u64::from(segment.bytes);
                if latest.is_none_or(|l| l.t <= segment.t) {
                    latest = Some(*segment);
                }
            }
        }
        if bytes > 0 {
            self.rare_mut().sacked_bytes += bytes;
        }
        latest.filter(|l| l.again == 0)
    }

    /// Assigns the number of a burst to the latest segments, each at most `gap` after the previous one and the last of
    /// them at `t`. Returns the first of them and their bytes.
    pub fn gather(&mut self, t: i64, gap: i64, burst: u32) -> Option<(Segment, u64)> {
        let (mut later, mut bytes, mut first) = (t, 0, None);
        for segment in self.waiting_mut().iter_mut().rev() {
            if segment.again > 0 || later - segment.t > gap {
                break;
            }
            segment.burst = burst;
            later = segment.t;
            bytes += u64::from(segment.bytes);
            first = Some(*segment);
        }
        first.map(|f| (f, bytes))
    }

    /// Bytes in holes.
    pub fn missing(&self) -> u64 {
        let holes = self.rare.iter().flat_map(|r| &r.holes);
        holes.map(|h| h.end - h.start).sum()
    }
}
