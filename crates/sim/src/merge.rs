//! Merge point: packets in flight towards a link that several others feed. Their arrival times are known ahead; the
//! link takes many at once, in that order.

use base::Time;

/// A future arrival of a packet at the link. The order is by time, then by the place of the previous link, then by
/// order of insertion.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    /// Time of the arrival.
    pub at: Time,
    /// Place of the previous link in the agenda.
    pub from: u32,
    /// Order among arrivals at the same time.
    pub number: u32,
    /// Position in the routes.
    pub position: u32,
    /// Bytes of the IP packet.
    pub len: u32,
}

impl Arrival {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 32 | u128::from(self.from)
    }
}

/// Merge of packets from several links in the order of time.
#[derive(Debug)]
pub struct Merge {
    /// Sorted arrivals; those before `head` have been taken.
    sorted: Vec<Arrival>,
    head: usize,
    /// Arrivals not sorted yet, in the order of insertion.
    fresh: Vec<Arrival>,
    /// Earliest of all arrivals.
    first: Time,
    /// Scratch space for sorting.
    sorter: Sorter,
}

impl Default for Merge {
    fn default() -> Merge {
        Merge {
            sorted: Vec::new(),
            head: 0,
            fresh: Vec::new(),
            first: Time::MAX,
            sorter: Sorter::default(),
        }
    }
}

/// Stable sort by time, then by place. Times spread over a range, so a bucket sort takes constant time per arrival.
#[derive(Debug, Default)]
struct Sorter {
    sorted: Vec<Arrival>,
    /// Counters per bucket: number of arrivals, then the position of the next one.
    parts: Vec<u32>,
}

impl Sorter {
    fn sort(&mut self, list: &mut Vec<Arrival>) {
        // Arrivals from one sender are in order already: merging a few such rows is fastest.
        let breaks = list.windows(2).filter(|two| two[1].at < two[0].at);
        let rows = breaks.take(MANY_ROWS).count();
        if rows < MANY_ROWS {
            list.sort_by_key(Arrival::key);
            return;
        }
        let (mut least, mut most) = (u64::MAX, 0);
        for arrival in list.iter() {
            let at = arrival.at.as_nanos();
            (least, most) = (least.min(at), most.max(at));
        }
        // Bucket width: a power of two with a few arrivals per bucket.
        let shift = ((most - least) / (list.len() as u64 / 4)).max(1).ilog2() + 1;
        let part = |arrival: &Arrival| ((arrival.at.as_nanos() - least) >> shift) as usize;
        self.parts.clear();
        self.parts.resize(((most - least) >> shift) as usize + 1, 0);
        for arrival in list.iter() {
            self.parts[part(arrival)] += 1;
        }
        let mut before = 0;
        for count in &mut self.parts {
            before += std::mem::replace(count, before);
        }
        self.sorted.clear();
        self.sorted.resize(list.len(), list[0]);
        for arrival in list.iter() {
            let next = &mut self.parts[part(arrival)];
            self.sorted[*next as usize] = *arrival;
            *next += 1;
        }
        let mut from = 0;
        for to in &self.parts {
            let to = *to as usize;
            if to - from > 1 {
                self.sorted[from..to].sort_by_key(Arrival::key);
            }
            from = to;
        }
        std::mem::swap(list, &mut self.sorted);
    }
}

/// Number of sorted rows from which merging is slower than bucket sort.
const MANY_ROWS: usize = 32;

impl Merge {
    /// Adds an arrival; returns true if it comes before all others.
    #[inline]
    pub fn push(&mut self, arrival: Arrival) -> bool {
        self.fresh.push(arrival);
        let first = arrival.at < self.first;
        if first {
            self.first = arrival.at;
        }
        first
    }

    /// Time of the first arrival.
    pub fn first(&self) -> Option<Time> {
        (self.first < Time::MAX).then_some(self.first)
    }

    /// Sorts the inserted arrivals; then [`take`](Merge::take) returns all in order.
    pub fn sort(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.sorter.sort(&mut self.fresh);
        if self.head > self.sorted.len() / 2 {
            self.sorted.drain(..self.head);
            self.head = 0;
        }
        // Merges from the end, only as far as older arrivals have to move.
        let mut from = self.sorted.len();
        self.sorted.extend_from_slice(&self.fresh);
        while let Some(last) = self.fresh.pop() {
            while from > self.head && self.sorted[from - 1].key() > last.key() {
                from -= 1;
                self.sorted[from + self.fresh.len() + 1] = self.sorted[from];
            }
            self.sorted[from + self.fresh.len()] = last;
        }
    }

    /// The next arrival, if it is due by `until`.
    #[inline]
    pub fn take(&mut self, until: Time) -> Option<Arrival> {
        let next = *self.sorted.get(self.head)?;
        if next.at > until {
            return None;
        }
        self.head += 1;
        Some(next)
    }

    /// Frees the memory of the arrivals taken, once all due ones have been.
    pub fn done(&mut self) {
        if self.head == self.sorted.len() {
            self.sorted.clear();
            self.head = 0;
        }
        let fresh = self.fresh.iter().map(|a| a.at).min();
        let sorted = self.sorted.get(self.head).map(|a| a.at);
        self.first = fresh.into_iter().chain(sorted).min().unwrap_or(Time::MAX);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn random_arrivals_come_in_the_order_of_a_stable_sort() {
        for seed in 0..50 {
            let mut rng = Streams::new(seed).stream("merge");
            let mut draw = |n: u64| (uniform(&mut rng) * n as f64) as u64;
            let (mut merge, mut model) = (Merge::default(), Vec::new());
            let mut now = 0;
            for number in 0..400 {
                let arrival = Arrival {
                    at: Time::from_nanos(now + 1 + draw(40)),
                    from: draw(4) as u32,
                    number,
                    position: 0,
                    len: 0,
                };
                let before = model.iter().map(|a: &Arrival| a.at).min();
                assert_eq!(merge.push(arrival), before.is_none_or(|b| arrival.at < b));
                model.push(arrival);
                assert_eq!(merge.first(), model.iter().map(|a| a.at).min());
                let seldom = if seed < 40 { 1 + seed % 9 } else { 200 };
                if draw(seldom) == 0 {
                    now += draw(30);
                    merge.sort();
                    model.sort_by_key(|a| (a.at, a.from));
                    let due = model.partition_point(|a| a.at.as_nanos() <= now);
                    for arrival in model.drain(..due) {
                        assert_eq!(merge.take(Time::from_nanos(now)), Some(arrival), "{seed}");
                    }
                    assert_eq!(merge.take(Time::from_nanos(now)), None);
                    merge.done();
                }
            }
        }
    }
}
