//! The event queue: a 4-ary heap over packed keys. Equal times leave in the order in which they were
//! scheduled.
//!
//! **Source**: D. B. Johnson, "Priority Queues with Update and Finding Minimum Spanning Trees", 1975
//! (d-ary heaps); the replaced top is the "hold" operation of the event-queue literature.
//!
//! The popped top leaves a hole that the next scheduled event fills: handling one event usually
//! schedules one other, and one sift is then enough for both.

use base::Time;

/// When an event happens, which was scheduled first among equals, and what it is for: 60 bits of
/// nanoseconds (36 years), 40 bits of number, 28 bits of source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Key(u128);

const SOURCE_BITS: u32 = 28;
const NUMBER_BITS: u32 = 40;

/// The latest instant that can be scheduled.
pub const LATEST: Time = Time::from_nanos((1 << 60) - 2);

impl Key {
    /// Later than every event.
    pub const NEVER: Key = Key(u128::MAX);

    #[inline]
    pub fn time(self) -> Time {
        Time::from_nanos((self.0 >> (SOURCE_BITS + NUMBER_BITS)) as u64)
    }
    #[inline]
    pub fn source(self) -> u32 {
        (self.0 as u32) & ((1 << SOURCE_BITS) - 1)
    }
}

/// Where the root stands, so that every group of four siblings begins at a multiple of four.
const ROOT: usize = 3;

#[derive(Debug)]
pub struct EventQueue {
    /// Complete groups of siblings; places without an event hold [`Key::NEVER`].
    keys: Vec<Key>,
    /// One past the last event.
    end: usize,
    /// The root has been taken and not yet been replaced.
    hole: bool,
    number: u64,
}

impl Default for EventQueue {
    fn default() -> EventQueue {
        EventQueue {
            keys: vec![Key::NEVER; ROOT + 1],
            end: ROOT,
            hole: false,
            number: 0,
        }
    }
}

impl EventQueue {
    pub fn is_empty(&self) -> bool {
        self.end == ROOT || (self.hole && self.end == ROOT + 1)
    }

    /// Schedules an event and returns its key. Times after [`LATEST`] count as that.
    #[inline]
    pub fn schedule(&mut self, at: Time, source: u32) -> Key {
        debug_assert!(source < 1 << SOURCE_BITS);
        let number = self.number;
        self.number += 1;
        assert!(
            number < 1 << NUMBER_BITS,
            "more than 2^40 events in one run"
        );
        let at = at.min(LATEST).as_nanos();
        let key = Key((u128::from(at) << (SOURCE_BITS + NUMBER_BITS))
            | (u128::from(number) << SOURCE_BITS)
            | u128::from(source));
        if self.hole {
            self.hole = false;
            self.sift_down(key);
        } else {
            if self.end == self.keys.len() {
                self.keys.extend([Key::NEVER; 4]);
            }
            self.end += 1;
            self.sift_up(self.end - 1, key);
        }
        key
    }

    /// The earliest event, unless it is later than `until`.
    #[inline]
    pub fn pop_until(&mut self, until: Time) -> Option<Key> {
        if self.hole {
            self.close();
        }
        if self.end == ROOT {
            return None;
        }
        let top = self.keys[ROOT];
        if top.time() > until {
            return None;
        }
        self.hole = true;
        Some(top)
    }

    /// Fills the hole with the last event.
    fn close(&mut self) {
        self.hole = false;
        self.end -= 1;
        let last = std::mem::replace(&mut self.keys[self.end], Key::NEVER);
        if self.end > ROOT {
            self.sift_down(last);
        }
    }

    #[inline]
    fn sift_up(&mut self, mut at: usize, key: Key) {
        while at > ROOT {
            let parent = at / 4 + 2;
            if self.keys[parent] <= key {
                break;
            }
            self.keys[at] = self.keys[parent];
            at = parent;
        }
        self.keys[at] = key;
    }

    #[inline]
    fn sift_down(&mut self, key: Key) {
        let mut at = ROOT;
        loop {
            let first = 4 * (at - 2);
            let Some(&[a, b, c, d]) = self.keys.get(first..first + 4) else {
                break;
            };
            let (left, i) = if b < a { (b, 1) } else { (a, 0) };
            let (right, j) = if d < c { (d, 3) } else { (c, 2) };
            let (least, child) = if right < left { (right, j) } else { (left, i) };
            if key <= least {
                break;
            }
            self.keys[at] = least;
            at = first + child;
        }
        self.keys[at] = key;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;
    use std::collections::BTreeSet;

    #[test]
    fn equal_times_leave_in_the_order_in_which_they_were_scheduled() {
        let mut queue = EventQueue::default();
        for source in 0..100 {
            queue.schedule(Time::from_millis(u64::from(source % 3)), source);
        }
        let mut left = Vec::new();
        while let Some(key) = queue.pop_until(LATEST) {
            left.push((key.time(), key.source()));
        }
        let mut sorted = left.clone();
        sorted.sort();
        assert_eq!((left.len(), &left), (100, &sorted));
        assert!(queue.is_empty());
    }

    #[test]
    fn nothing_later_than_asked_for_leaves() {
        let mut queue = EventQueue::default();
        queue.schedule(Time::from_millis(5), 1);
        assert_eq!(queue.pop_until(Time::from_millis(4)), None);
        assert_eq!(
            queue.pop_until(Time::from_millis(5)).map(Key::source),
            Some(1)
        );
        assert_eq!(queue.pop_until(LATEST), None);
    }

    #[test]
    fn random_schedules_and_pops_agree_with_a_sorted_set() {
        for seed in 0..50 {
            let mut rng = Streams::new(seed).stream("heap");
            let mut draw = |n: u64| (base::rng::uniform(&mut rng) * n as f64) as u64;
            let (mut queue, mut model) = (EventQueue::default(), BTreeSet::new());
            for step in 0..2000 {
                if draw(5) < 3 {
                    let key = queue.schedule(Time::from_nanos(draw(500)), step % 1000);
                    model.insert(key);
                } else {
                    let until = Time::from_nanos(draw(500));
                    let first = model.first().copied().filter(|k| k.time() <= until);
                    assert_eq!(queue.pop_until(until), first, "seed {seed}, step {step}");
                    if let Some(first) = first {
                        model.remove(&first);
                    }
                }
            }
        }
    }
}
