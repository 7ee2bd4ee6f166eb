//! What one direction has sent and the other has not yet acknowledged, and what is missing between.

use super::table::Touch;

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
    /// Most connections never have more than one outstanding: until one has, it lies here.
    one: Option<Segment>,
    /// Those before `head` are acknowledged and will be overwritten. Once anything lay here, all do.
    store: Vec<Segment>,
    head: u32,
    rare: Option<Box<Rare>>,
}

/// What most connections never have.
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
    #[inline(always)]
    pub fn push(&mut self, segment: Segment) {
        if self.store.len() == self.store.capacity() && !self.make_room() {
            self.one = Some(segment);
            return;
        }
        self.store.push(segment);
    }

    /// `false` where the segment is the only one. It does not get the segment: what is handed over lies in memory,
    /// and to read it from there as a whole right after it was written in parts takes longer than all the rest.
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

    #[inline(always)]
    pub fn front(&self) -> Option<&Segment> {
        self.waiting().first()
    }

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

    /// The front begins at `start` from now on: what was before it is acknowledged.
    pub fn trim_front(&mut self, start: u64) {
        let Some(front) = self.waiting_mut().first_mut() else {
            return;
        };
        let (gone, sacked) = (start - front.start, front.sacked);
        front.bytes -= gone as u32;
        front.start = start;
        if sacked {
            self.rare_mut().sacked_bytes -= gone;
        }
    }

    #[cold]
    fn rare_mut(&mut self) -> &mut Rare {
        self.rare.get_or_insert_default()
    }

    #[inline(always)]
    pub fn sacked_bytes(&self) -> u64 {
        self.rare.as_ref().map_or(0, |r| r.sacked_bytes)
    }

    #[inline]
    pub fn has_holes(&self) -> bool {
        self.rare.as_ref().is_some_and(|r| !r.holes.is_empty())
    }

    pub fn add_hole(&mut self, hole: Hole) {
        let holes = &mut self.rare_mut().holes;
        let at = holes.partition_point(|h| h.start < hole.start);
        holes.insert(at, hole);
    }

    /// Cuts `start..end` out of the holes: the bytes that were missing until now, with the hole that the first of them lay in.
    pub fn fill(&mut self, start: u64, end: u64) -> (u64, Option<Hole>) {
        let (mut filled, mut first) = (0, None);
        let holes = &mut self.rare_mut().holes;
        let mut i = holes.partition_point(|h| h.end <= start);
        while let Some(hole) = holes.get(i).copied() {
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
            self.store.extend(self.one.take());
            self.store.insert(self.head as usize + at, segment);
        }
    }

    /// Marks everything in `start..end` as sent again at `t`; says what the first of it was before.
    pub fn resent(&mut self, start: u64, end: u64, t: i64) -> Option<Segment> {
        let from = self.index_at(start);
        let before = self.waiting().get(from).copied().filter(|s| s.start < end);
        for segment in &mut self.waiting_mut()[from..] {
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
        let mut bytes = 0;
        for segment in &mut self.waiting_mut()[from..] {
            if segment.end() > end {
                break;
            }
            if segment.start >= start && !segment.sacked {
                segment.sacked = true;
                bytes += u64::from(segment.bytes);
            }
        }
        if bytes > 0 {
            self.rare_mut().sacked_bytes += bytes;
        }
    }

    pub fn missing(&self) -> u64 {
        let holes = self.rare.iter().flat_map(|r| &r.holes);
        holes.map(|h| h.end - h.start).sum()
    }
}
