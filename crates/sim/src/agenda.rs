//! Event queue: for each thing that can act by itself, the time at which it acts next. Ties are resolved by the order
//! in which the things were added.
//!
//! **Source**: G. Varghese, A. Lauck, "Hashed and Hierarchical Timing Wheels", IEEE/ACM Transactions on Networking
//! 5(6), 1997, scheme 7; with the rule of a radix heap (R. Ahuja, K. Mehlhorn, J. Orlin, R. Tarjan, "Faster Algorithms
//! for the Shortest Path Problem", Journal of the ACM 37(2), 1990): a time lies on the wheel of the highest digit in
//! which it differs from the present. So an entry moves down only when its turn comes, and never if it is then alone in
//! its slot.
//!
//! There is one place for each thing and none for each event. Postponing an event moves it from one list to another,
//! whatever the size of the network and the number of packets in flight.

use base::Time;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Bits of a digit: a wheel has 64 slots, and one 64-bit word has a bit for each slot in use.
const DIGIT: u32 = 6;
const SLOTS: usize = 1 << DIGIT;
/// Number of wheels; eleven digits cover 64 bits.
const WHEELS: usize = 16;
const NEVER: u64 = u64::MAX;
const NOBODY: u32 = u32::MAX;

/// Wheel by the number of the highest bit in which two times differ.
const WHEEL_OF_BIT: [u8; 64] = {
    let mut wheels = [0; 64];
    let mut bit = 0;
    while bit < 64 {
        wheels[bit] = (bit as u32 / DIGIT) as u8;
        bit += 1;
    }
    wheels
};

#[derive(Clone, Copy, Debug)]
struct Place {
    time: u64,
    /// Neighbours in the list of its slot.
    next: u32,
    previous: u32,
    /// Wheel and slot; meaningless if nothing is due.
    slot: u32,
}

/// Agenda of events in the order of time; equal times keep the order of insertion.
#[derive(Debug)]
pub struct Agenda {
    places: Vec<Place>,
    /// First entry of each slot's list.
    slots: Box<[u32; WHEELS * SLOTS]>,
    /// Bits of the slots in use, by wheel, and of the wheels in use.
    used: [u64; WHEELS],
    wheels: u32,
    /// Present time: nothing is due before it.
    present: u64,
    /// Time at which very many things act, and their places; a place that acts at another time by now is ignored.
    tied: u64,
    ties: BinaryHeap<Reverse<u32>>,
}

/// Number of things with one time up to which a search through all of them is fastest.
const FEW: usize = 16;

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            places: Vec::new(),
            slots: Box::new([NOBODY; WHEELS * SLOTS]),
            used: [0; WHEELS],
            wheels: 0,
            present: 0,
            tied: NEVER,
            ties: BinaryHeap::new(),
        }
    }
}

impl Agenda {
    /// Adds a place for one more thing, which has no event yet.
    pub fn add(&mut self) -> u32 {
        let place = u32::try_from(self.places.len()).expect("fewer than 2^32 things that act");
        self.places.push(Place {
            time: NEVER,
            next: NOBODY,
            previous: NOBODY,
            slot: 0,
        });
        place
    }

    /// Next time at which the thing at `place` acts.
    #[inline]
    pub fn get(&self, place: u32) -> Time {
        Time::from_nanos(self.places[place as usize].time)
    }

    /// Sets the next time at which the thing at `place` acts; `None`: no event. The time must not precede the last
    /// event taken.
    #[inline]
    pub fn set(&mut self, place: u32, at: Option<Time>) {
        if self.places[place as usize].time != NEVER {
            self.take_out(place);
        }
        let time = at.map_or(NEVER, Time::as_nanos);
        self.places[place as usize].time = time;
        if time != NEVER {
            self.put_in(place, time);
        }
    }

    #[inline]
    fn take_out(&mut self, place: u32) {
        let Place {
            next,
            previous,
            slot,
            ..
        } = self.places[place as usize];
        if next != NOBODY {
            self.places[next as usize].previous = previous;
        }
        if previous != NOBODY {
            self.places[previous as usize].next = next;
            return;
        }
        let slot = slot as usize % (WHEELS * SLOTS);
        self.slots[slot] = next;
        if next == NOBODY {
            let wheel = slot / SLOTS;
            self.used[wheel] &= !(1 << (slot % SLOTS));
            if self.used[wheel] == 0 {
                self.wheels &= !(1 << wheel);
            }
        }
    }

    #[inline]
    fn put_in(&mut self, place: u32, time: u64) {
        debug_assert!(time >= self.present);
        let highest = 63 - ((time ^ self.present) | 1).leading_zeros();
        let wheel = usize::from(WHEEL_OF_BIT[highest as usize]) % WHEELS;
        let digit = (time >> (DIGIT * wheel as u32)) as usize % SLOTS;
        let slot = wheel * SLOTS + digit;
        self.used[wheel] |= 1 << digit;
        self.wheels |= 1 << wheel;
        if time == self.tied {
            self.ties.push(Reverse(place));
        }
        let next = std::mem::replace(&mut self.slots[slot], place);
        if next != NOBODY {
            self.places[next as usize].previous = place;
        }
        let entry = &mut self.places[place as usize];
        (entry.next, entry.previous, entry.slot) = (next, NOBODY, slot as u32);
    }

    /// Next thing to act and its time, unless that is after `until`. A thing that has acted must be
    /// [`set`](Agenda::set) before the next call.
    #[inline]
    pub fn first_until(&mut self, until: Time) -> Option<(Time, u32)> {
        if self.wheels == 0 {
            return None;
        }
        let wheel = self.wheels.trailing_zeros() as usize % WHEELS;
        let digit = self.used[wheel].trailing_zeros() as usize % SLOTS;
        let mut first = self.slots[wheel * SLOTS + digit];
        let Place { mut time, next, .. } = self.places[first as usize];
        if next != NOBODY {
            if self.begin_of(wheel, digit) > until.as_nanos() {
                return None;
            }
            (time, first) = match wheel == 0 && time == self.tied {
                true => (time, self.first_tied()),
                false => self.least_from(wheel, next, time, first),
            };
        }
        if time > until.as_nanos() {
            return None;
        }
        debug_assert!(self.places[first as usize].time == time);
        self.present = time;
        if next != NOBODY && wheel > 0 {
            self.bring_down(wheel * SLOTS + digit);
        }
        Some((Time::from_nanos(time), first))
    }

    /// Earliest entry of the list that continues at `at`.
    fn least_from(
        &mut self,
        wheel: usize,
        mut at: u32,
        mut time: u64,
        mut first: u32,
    ) -> (u64, u32) {
        let (list, mut length) = (first, 1);
        while at != NOBODY {
            let place = &self.places[at as usize];
            if (place.time, at) < (time, first) {
                (time, first) = (place.time, at);
            }
            length += 1;
            at = place.next;
        }
        // All entries of a slot of the lowest wheel have the same time.
        if length > FEW && wheel == 0 {
            self.gather(list, time);
        }
        (time, first)
    }

    /// Earliest time that belongs to a slot.
    fn begin_of(&self, wheel: usize, digit: usize) -> u64 {
        let above = u64::MAX
            .checked_shl(DIGIT * (wheel as u32 + 1))
            .unwrap_or(0);
        self.present & above | (digit as u64) << (DIGIT * wheel as u32)
    }

    /// Sorts the places of a list whose entries all have the same time.
    #[cold]
    fn gather(&mut self, mut at: u32, time: u64) {
        self.tied = time;
        self.ties.clear();
        while at != NOBODY {
            self.ties.push(Reverse(at));
            at = self.places[at as usize].next;
        }
    }

    /// First of the places that act at the time of the ties; there is one.
    fn first_tied(&mut self) -> u32 {
        while let Some(Reverse(place)) = self.ties.peek().copied() {
            if self.places[place as usize].time == self.tied {
                return place;
            }
            self.ties.pop();
        }
        unreachable!("every place of the list is among the ties")
    }

    /// Moves the entries of a slot that has become present to lower wheels.
    fn bring_down(&mut self, slot: usize) {
        let (wheel, digit) = (slot / SLOTS, slot % SLOTS);
        self.used[wheel] &= !(1 << digit);
        if self.used[wheel] == 0 {
            self.wheels &= !(1 << wheel);
        }
        let mut at = std::mem::replace(&mut self.slots[slot], NOBODY);
        while at != NOBODY {
            let Place { time, next, .. } = self.places[at as usize];
            self.put_in(at, time);
            at = next;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use base::rng::Streams;

    #[test]
    fn equal_times_come_in_the_order_in_which_the_things_were_added() {
        let mut agenda = Agenda::default();
        let places: Vec<u32> = (0..100).map(|_| agenda.add()).collect();
        for place in places.iter().rev() {
            agenda.set(*place, Some(Time::from_millis(u64::from(place % 3))));
        }
        let mut came = Vec::new();
        while let Some((at, place)) = agenda.first_until(Time::MAX) {
            came.push((at, place));
            agenda.set(place, None);
        }
        let mut sorted = came.clone();
        sorted.sort();
        assert_eq!((came.len(), &came), (100, &sorted));
    }

    #[test]
    fn many_things_at_one_time_are_not_searched_for_each() {
        // A search through all of them for each would take minutes.
        let mut agenda = Agenda::default();
        let places: Vec<u32> = (0..300_000).map(|_| agenda.add()).collect();
        let (start, later) = (Time::from_secs(1), Time::from_secs(2));
        for place in places.iter().rev() {
            agenda.set(*place, Some(start));
        }
        let mut came = Vec::new();
        while let Some((at, place)) = agenda.first_until(later) {
            // Every second thing acts a second time, now or later.
            let again = (at == start && place % 2 == 0 && came.len() % 3 == 0)
                .then_some(if place % 4 == 0 { later } else { start });
            came.push((at, place));
            agenda.set(place, again.filter(|again| *again > at));
        }
        assert!(came.is_sorted() && came.len() > places.len());
    }

    #[test]
    fn random_changes_agree_with_a_search_through_all() {
        for seed in 0..50 {
            let mut rng = Streams::new(seed).stream("agenda");
            let mut draw = |n: u64| (base::rng::uniform(&mut rng) * n as f64) as u64;
            let (mut agenda, mut model) = (Agenda::default(), Vec::new());
            let mut now = Time::ZERO;
            for step in 0..2000 {
                if model.is_empty() || draw(8) == 0 || seed % 5 == 0 && model.len() < 60 {
                    assert_eq!(agenda.add() as usize, model.len());
                    model.push(None);
                }
                let place = draw(model.len() as u64) as usize;
                // A few nanoseconds to hours ahead, and often the same time twice.
                let digits = draw(44);
                let span = draw(1 << digits);
                let coarse = if seed % 5 == 0 { 1 << 40 } else { 8 };
                let at = (draw(4) > 0).then(|| now + Duration::from_nanos(span / coarse * coarse));
                agenda.set(place as u32, at);
                model[place] = at;
                let digits = draw(44);
                let until = now + Duration::from_nanos(draw(1 << digits));
                let set = model.iter().enumerate();
                let first = set.filter_map(|(i, at)| at.map(|at| (at, i as u32))).min();
                let due = first.filter(|(at, _)| *at <= until);
                assert_eq!(agenda.first_until(until), due, "seed {seed}, step {step}");
                if let Some((at, place)) = due {
                    now = at;
                    let next = (draw(2) == 0).then(|| now + Duration::from_nanos(draw(3)));
                    agenda.set(place, next);
                    model[place as usize] = next;
                }
            }
        }
    }
}
