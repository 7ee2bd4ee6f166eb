//! What happens next: for each thing that can act by itself, the instant at which it next will. A tree of
//! minima with four children to a node; equal times come in the order in which the things were added.
//!
//! **Source**: the tournament tree of D. E. Knuth, "The Art of Computer Programming", volume 3, section
//! 5.4.1, with four contestants to a match, so that a match is half a cache line.
//!
//! There is one place for each thing and none for each event: putting an event off is one store and as
//! many matches as it decides, nothing is ever cancelled, and the size is that of the network however
//! many packets are under way.

use base::Time;

const NEVER: u64 = u64::MAX;

/// A match: four siblings.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
struct Siblings([u64; 4]);

/// Node 3 is the root. The children of node `n` are the nodes from `4 (n - 2)`, so that siblings begin at
/// a multiple of four.
const ROOT: usize = 3;

#[derive(Debug)]
pub struct Agenda {
    nodes: Vec<Siblings>,
    /// The first node of the lowest level.
    leaves: usize,
    levels: u32,
    places: usize,
}

impl Default for Agenda {
    fn default() -> Agenda {
        Agenda {
            nodes: vec![Siblings([NEVER; 4])],
            leaves: ROOT,
            levels: 0,
            places: 0,
        }
    }
}

impl Agenda {
    /// A place for one more thing, which does not act yet.
    pub fn add(&mut self) -> u32 {
        let place = self.places;
        self.places += 1;
        if place >= 1 << (2 * self.levels) {
            self.grow();
        }
        u32::try_from(place).expect("fewer than 2^32 things that act")
    }

    /// One more level below.
    fn grow(&mut self) {
        let times: Vec<u64> = (0..self.places - 1)
            .map(|place| self.node(self.leaves + place))
            .collect();
        self.levels += 1;
        self.leaves = 4 * (self.leaves - 2);
        let end = self.leaves + (1 << (2 * self.levels));
        self.nodes.clear();
        self.nodes.resize(end / 4, Siblings([NEVER; 4]));
        for (place, time) in times.into_iter().enumerate() {
            self.set(
                place as u32,
                (time != NEVER).then_some(Time::from_nanos(time)),
            );
        }
    }

    #[inline]
    fn node(&self, node: usize) -> u64 {
        self.nodes[node / 4].0[node % 4]
    }

    /// When the thing at `place` acts next.
    #[inline]
    pub fn get(&self, place: u32) -> Time {
        Time::from_nanos(self.node(self.leaves + place as usize))
    }

    /// From now on, the thing at `place` acts next at that time; `None`: not by itself.
    #[inline]
    pub fn set(&mut self, place: u32, at: Option<Time>) {
        let mut node = self.leaves + place as usize;
        let mut least = at.map_or(NEVER, Time::as_nanos);
        loop {
            let siblings = &mut self.nodes[node / 4].0;
            siblings[node % 4] = least;
            if node == ROOT {
                return;
            }
            let [a, b, c, d] = *siblings;
            least = a.min(b).min(c.min(d));
            node = node / 4 + 2;
            if self.node(node) == least {
                return;
            }
        }
    }

    /// Who acts next and when, unless that is after `until`.
    #[inline]
    pub fn first_until(&self, until: Time) -> Option<(Time, u32)> {
        let least = self.node(ROOT);
        if least > until.as_nanos() || least == NEVER {
            return None;
        }
        let mut node = ROOT;
        for _ in 0..self.levels {
            let [a, b, c, _] = self.nodes[node - 2].0;
            let (not_a, not_b, not_c) = (a != least, b != least, c != least);
            let child = usize::from(not_a)
                + usize::from(not_a & not_b)
                + usize::from(not_a & not_b & not_c);
            node = 4 * (node - 2) + child;
        }
        Some((Time::from_nanos(least), (node - self.leaves) as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            for step in 0..2000 {
                if model.is_empty() || draw(8) == 0 {
                    assert_eq!(agenda.add() as usize, model.len());
                    model.push(None);
                }
                let place = draw(model.len() as u64) as usize;
                let at = (draw(4) > 0).then(|| Time::from_nanos(draw(500)));
                agenda.set(place as u32, at);
                model[place] = at;
                let until = Time::from_nanos(draw(500));
                let set = model.iter().enumerate();
                let first = set.filter_map(|(i, at)| at.map(|at| (at, i as u32))).min();
                let due = first.filter(|(at, _)| *at <= until);
                assert_eq!(agenda.first_until(until), due, "seed {seed}, step {step}");
            }
        }
    }
}
