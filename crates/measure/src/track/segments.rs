//! What one direction has sent and the other has not yet acknowledged, and what is missing between.

/// A stretch of sequence space as it was last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    /// Last transmission.
    pub t: i64,
    bytes: u32,
    /// The burst in which it was sent first.
    pub burst: u32,
    /// How often it was sent again.
    pub again: u16,
    pub sacked: bool,
}

impl Segment {
    /// No segment is longer than what a window's 32 bits can span.
    #[inline]
    pub fn new(start: u64, end: u64, t: i64, burst: u32) -> Segment {
        Segment {
            start,
            t,
            bytes: u32::try_from(end - start).unwrap_or(u32::MAX),
            burst,
            again: 0,
            sacked: false,
        }
    }

    #[inline]
    pub fn end(&self) -> u64 {
        self.start + u64::from(self.bytes)
    }
}

/// Sequence space below the highest byte that was never seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hole {
    pub start: u64,
    pub end: u64,
    /// When what lies above it arrived, with that packet's identification and timestamp.
    pub t: i64,
    pub id: u32,
    pub tsval: Option<u32>,
}

/// Beyond it the oldest are forgotten: no window holds more full segments.
const MOST: usize = 65_536;

/// In order of sequence, without overlap.
#[derive(Clone, Debug, Default)]
pub struct Segments {
    /// Those before `head` are acknowledged and will be overwritten.
    store: Vec<Segment>,
    head: usize,
    holes: Vec<Hole>,
    pub forgotten: u64,
    sacked_bytes: u64,
}

impl Segments {
    #[inline]
    pub fn push(&mut self, segment: Segment) {
        if self.store.len() == self.store.capacity() {
            self.make_room();
        }
        self.store.push(segment);
    }

    #[cold]
    fn make_room(&mut self) {
        // Most connections never have more than one outstanding.
        if self.store.capacity() == 0 {
            self.store.reserve_exact(1);
            return;
        }
        if self.store.len() - self.head >= MOST {
            self.forgotten += (self.store.len() - self.head - MOST / 2) as u64;
            while self.store.len() - self.head > MOST / 2 {
                self.pop_front();
            }
        }
        if self.head > self.store.len() / 2 {
            self.store.drain(..self.head);
            self.head = 0;
        }
    }

    #[inline]
    fn waiting(&self) -> &[Segment] {
        &self.store[self.head..]
    }

    #[inline]
    pub fn front(&self) -> Option<&Segment> {
        self.store.get(self.head)
    }
    #[inline]
    pub fn pop_front(&mut self) {
        let Some(gone) = self.store.get(self.head) else {
            return;
        };
        if gone.sacked {
            self.sacked_bytes -= u64::from(gone.bytes);
        }
        self.head += 1;
        if self.head == self.store.len() {
            self.store.clear();
            self.head = 0;
        }
    }
    /// The front begins at `start` from now on: what was before it is acknowledged.
    pub fn trim_front(&mut self, start: u64) {
        if let Some(f) = self.store.get_mut(self.head) {
            let gone = start - f.start;
            if f.sacked {
                self.sacked_bytes -= gone;
            }
            f.bytes -= gone as u32;
            f.start = start;
        }
    }

    #[inline]
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

    #[inline]
    pub fn has_holes(&self) -> bool {
        !self.holes.is_empty()
    }

    pub fn add_hole(&mut self, hole: Hole) {
        let at = self.holes.partition_point(|h| h.start < hole.start);
        self.holes.insert(at, hole);
    }

    /// Cuts `start..end` out of the holes: the bytes that were missing until now, with the hole that the first of them lay in.
    pub fn fill(&mut self, start: u64, end: u64) -> (u64, Option<Hole>) {
        let (mut filled, mut first) = (0, None);
        let mut i = self.holes.partition_point(|h| h.end <= start);
        while let Some(hole) = self.holes.get(i).copied() {
            if hole.start >= end {
                break;
            }
            first.get_or_insert(hole);
            let (from, to) = (hole.start.max(start), hole.end.min(end));
            filled += to - from;
            let left = (hole.start < from).then_some(Hole { end: from, ..hole });
            let right = (to < hole.end).then_some(Hole { start: to, ..hole });
            match (left, right) {
                (None, None) => {
                    self.holes.remove(i);
                    continue;
                }
                (Some(one), None) | (None, Some(one)) => self.holes[i] = one,
                (Some(one), Some(other)) => {
                    self.holes[i] = one;
                    self.holes.insert(i + 1, other);
                }
            }
            i += 1;
        }
        (filled, first)
    }

    fn index_at(&self, position: u64) -> usize {
        self.waiting().partition_point(|s| s.end() <= position)
    }

    /// Puts what filled a hole in its place; parts that are there already stay.
    pub fn insert(&mut self, segment: Segment) {
        let at = self.index_at(segment.start);
        let free = |s: &Segment| s.start >= segment.end();
        if self.waiting().get(at).is_none_or(free) {
            self.store.insert(self.head + at, segment);
        }
    }

    /// Marks everything in `start..end` as sent again at `t`; says what the first of it was before.
    pub fn resent(&mut self, start: u64, end: u64, t: i64) -> Option<Segment> {
        let from = self.index_at(start);
        let before = self.waiting().get(from).copied().filter(|s| s.start < end);
        for segment in &mut self.store[self.head + from..] {
            if segment.start >= end {
                break;
            }
            segment.again = segment.again.saturating_add(1);
            segment.t = t;
        }
        before
    }

    /// Marks what lies wholly in `start..end` as received out of order.
    pub fn sack(&mut self, start: u64, end: u64) {
        let from = self.index_at(start);
        for segment in &mut self.store[self.head + from..] {
            if segment.end() > end {
                break;
            }
            if segment.start >= start && !segment.sacked {
                segment.sacked = true;
                self.sacked_bytes += u64::from(segment.bytes);
            }
        }
    }

    pub fn missing(&self) -> u64 {
        self.holes.iter().map(|h| h.end - h.start).sum()
    }
}
