//! What one direction has sent and the other has not yet acknowledged, and what is missing between.

use std::collections::VecDeque;

/// A stretch of sequence space as it was last sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    pub start: u64,
    pub end: u64,
    /// Last transmission.
    pub t: i64,
    /// How often it was sent again.
    pub again: u32,
    pub sacked: bool,
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
    ring: VecDeque<Segment>,
    holes: Vec<Hole>,
    pub forgotten: u64,
    sacked_bytes: u64,
}

impl Segments {
    #[inline]
    pub fn push(&mut self, start: u64, end: u64, t: i64) {
        if self.ring.len() >= MOST {
            self.forgotten += 1;
            self.ring.pop_front();
        }
        self.ring.push_back(Segment {
            start,
            end,
            t,
            again: 0,
            sacked: false,
        });
    }

    pub fn front(&self) -> Option<&Segment> {
        self.ring.front()
    }
    pub fn pop_front(&mut self) -> Option<Segment> {
        let gone = self.ring.pop_front()?;
        if gone.sacked {
            self.sacked_bytes -= gone.end - gone.start;
        }
        Some(gone)
    }
    /// The front begins at `start` from now on: what was before it is acknowledged.
    pub fn trim_front(&mut self, start: u64) {
        if let Some(f) = self.ring.front_mut() {
            if f.sacked {
                self.sacked_bytes -= start - f.start;
            }
            f.start = start;
        }
    }

    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }

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
        self.ring.partition_point(|s| s.end <= position)
    }

    /// Puts what filled a hole in its place; parts that are there already stay.
    pub fn insert(&mut self, start: u64, end: u64, t: i64) {
        let at = self.index_at(start);
        let free = |s: &Segment| s.start >= end;
        if self.ring.get(at).is_none_or(free) {
            self.ring.insert(
                at,
                Segment {
                    start,
                    end,
                    t,
                    again: 0,
                    sacked: false,
                },
            );
        }
    }

    /// Marks everything in `start..end` as sent again at `t`; says what the first of it was before.
    pub fn resent(&mut self, start: u64, end: u64, t: i64) -> Option<Segment> {
        let from = self.index_at(start);
        let before = self.ring.get(from).copied().filter(|s| s.start < end);
        for segment in self.ring.range_mut(from..) {
            if segment.start >= end {
                break;
            }
            segment.again += 1;
            segment.t = t;
        }
        before
    }

    /// Marks what lies wholly in `start..end` as received out of order.
    pub fn sack(&mut self, start: u64, end: u64) {
        let from = self.index_at(start);
        for segment in self.ring.range_mut(from..) {
            if segment.end > end {
                break;
            }
            if segment.start >= start && !segment.sacked {
                segment.sacked = true;
                self.sacked_bytes += segment.end - segment.start;
            }
        }
    }

    pub fn missing(&self) -> u64 {
        self.holes.iter().map(|h| h.end - h.start).sum()
    }
}
