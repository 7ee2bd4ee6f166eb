//! Where ways meet: the packets on their way to a link that several others feed. When each of them gets
//! there is known ahead; the link takes them in that order, many at once.

use base::Time;

/// A packet that will be at the link then. The least comes first: by time, then by the place of the link
/// that it comes from, then in the order in which they were pushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Arrival {
    pub at: Time,
    /// Of the link that it comes from, in the agenda.
    pub from: u32,
    pub number: u32,
    /// Its place in the routes.
    pub position: u32,
    pub len: u32,
}

impl Arrival {
    #[inline]
    fn key(&self) -> u128 {
        u128::from(self.at.as_nanos()) << 32 | u128::from(self.from)
    }
}

#[derive(Debug)]
pub struct Merge {
    /// In order from `head` on; what is before has been taken.
    sorted: Vec<Arrival>,
    head: usize,
    /// In the order in which they were pushed.
    fresh: Vec<Arrival>,
    /// Of all of them.
    first: Time,
    /// Room for sorting.
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

/// Sorts by time, then by place, and leaves equals in their order. Times are spread over a span, so most of the work
/// is putting each into its part of it, which takes as long for each however many there are.
#[derive(Debug, Default)]
struct Sorter {
    sorted: Vec<Arrival>,
    /// Of each part of the span: how many there are, then where the next of it goes.
    parts: Vec<u32>,
}

impl Sorter {
    fn sort(&mut self, list: &mut Vec<Arrival>) {
        // What comes from one sender is in order already: a few such rows are merged soonest.
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
        // Parts of a power of two, so many that a few fall into each.
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

/// As many rows in order are no longer merged.
const MANY_ROWS: usize = 32;

impl Merge {
    /// Whether it comes before all that are there.
    #[inline]
    pub fn push(&mut self, arrival: Arrival) -> bool {
        self.fresh.push(arrival);
        let first = arrival.at < self.first;
        if first {
            self.first = arrival.at;
        }
        first
    }

    /// When the first arrives.
    pub fn first(&self) -> Option<Time> {
        (self.first < Time::MAX).then_some(self.first)
    }

    /// Puts what was pushed in its place; then [`take`](Merge::take) gives all in order.
    pub fn sort(&mut self) {
        if self.fresh.is_empty() {
            return;
        }
        self.sorter.sort(&mut self.fresh);
        if self.head > self.sorted.len() / 2 {
            self.sorted.drain(..self.head);
            self.head = 0;
        }
        // From the end, only as far as what was there has to make room.
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

    /// The next one, if it arrives by then.
    #[inline]
    pub fn take(&mut self, until: Time) -> Option<Arrival> {
        let next = *self.sorted.get(self.head)?;
        if next.at > until {
            return None;
        }
        self.head += 1;
        Some(next)
    }

    /// All that were due have been taken.
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
