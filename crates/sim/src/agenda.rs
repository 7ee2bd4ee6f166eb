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
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            places: Vec::new(),
            slots: Box::new([NOBODY; WHEELS * SLOTS]),
            used: [0; WHEELS],
            wheels: 0,
            present: 0,
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
            (time, first) = self.least_from(next, time, first);
        }
        if time > until.as_nanos() {
            return None;
        }
        self.present = time;
        if next != NOBODY && wheel > 0 {
            self.bring_down(wheel * SLOTS + digit);
        }
        Some((Time::from_nanos(time), first))
    }

    /// Earliest entry of the list that continues at `at`.
    fn least_from(&self, mut at: u32, mut time: u64, mut first: u32) -> (u64, u32) {
        while at != NOBODY {
            let place = &self.places[at as usize];
            if (place.time, at) < (time, first) {
                (time, first) = (place.time, at);
            }
            at = place.next;
        }
        (time, first)
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
    fn random_changes_agree_with_a_search_through_all() {
        for seed in 0..50 {
            let mut rng = Streams::new(seed).stream("agenda");
            let mut draw = |n: u64| (base::rng::uniform(&mut rng) * n as f64) as u64;
            let (mut agenda, mut model) = (Agenda::default(), Vec::new());
            let mut now = Time::ZERO;
            for step in 0..2000 {
                if model.is_empty() || draw(8) == 0 {
                    assert_eq!(agenda.add() as usize, model.len());
                    model.push(None);
                }
                let place = draw(model.len() as u64) as usize;
                // A few nanoseconds to hours ahead, and often the same time twice.
                let digits = draw(44);
                let span = draw(1 << digits);
                let at = (draw(4) > 0).then(|| now + Duration::from_nanos(span / 8 * 8));
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
