//! Near against far: on which hop a load makes packets wait.
//!
//! The datagrams of one round leave within milliseconds of each other, so that what they share of the way delays them
//! alike. What load adds between two hops is the median, over the rounds, of the farther one's round trip less the
//! nearer one's, under load less at rest. A delay that a hop has and a farther one has not is the hop's own: routers
//! answer such datagrams in their control plane, when they have nothing better to do. It is no queue on the way, and
//! such a hop tells nothing about one.

use stats::Figure;
use std::collections::BTreeMap;

/// Less than this is not looked for: hosts and switches add as much, ms.
pub const LEAST_MS: f64 = 2.0;
/// Rounds that both hops must have answered.
const ROUNDS: usize = 5;

/// Round trips by round at one place on the path.
#[derive(Clone, Debug)]
pub struct Place {
    /// Which hop; none for a far end whose distance is not known.
    pub hop: Option<usize>,
    pub idle: BTreeMap<i64, f64>,
    pub loaded: BTreeMap<i64, f64>,
}

impl Place {
    /// This host, to which there is no way.
    fn here() -> Place {
        Place {
            hop: Some(0),
            idle: BTreeMap::new(),
            loaded: BTreeMap::new(),
        }
    }

    fn is_here(&self) -> bool {
        self.hop == Some(0)
    }
}

/// What load adds on a stretch of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// The stretch begins behind this hop; 0 is this host.
    pub behind: usize,
    /// And ends at this one; none where the far end's distance is not known.
    pub to: Option<usize>,
    /// ms.
    pub added: Figure,
}

impl Stretch {
    /// Whether load makes packets wait there.
    pub fn waits(&self) -> bool {
        matches!(self.added, Figure::Is { low, .. } if low > LEAST_MS)
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    pub stretches: Vec<Stretch>,
    /// Hops with a delay under load that farther ones do not share, and how much it is at least, ms.
    pub own: BTreeMap<usize, f64>,
    /// Hops that answered in too few rounds.
    pub sparse: Vec<usize>,
}

impl Differences {
    /// The stretch on which load adds most.
    pub fn queue(&self) -> Option<&Stretch> {
        let value = |s: &Stretch| s.added.value().unwrap_or(0.0);
        let waits = self.stretches.iter().filter(|s| s.waits());
        waits.max_by(|a, b| value(a).total_cmp(&value(b)))
    }
}

/// `places` from near to far; the last one is trusted to answer without delay of its own.
pub fn differences(places: &[Place]) -> Differences {
    let mut found = Differences::default();
    let enough = |p: &&Place| p.idle.len() >= ROUNDS && p.loaded.len() >= ROUNDS;
    found.sparse = places
        .iter()
        .filter(|p| !enough(p))
        .filter_map(|p| p.hop)
        .collect();
    let mut kept: Vec<&Place> = Vec::new();
    for place in places.iter().filter(enough).rev() {
        let own = kept
            .iter()
            .filter_map(|farther| match added(place, farther) {
                Figure::Is { high, .. } if high < -LEAST_MS => Some(-high),
                _ => None,
            });
        match (own.reduce(f64::max), place.hop) {
            (Some(own), Some(hop)) => drop(found.own.insert(hop, own)),
            _ => kept.push(place),
        }
    }
    kept.reverse();
    let here = Place::here();
    let mut nearer = &here;
    for place in kept {
        found.stretches.push(Stretch {
            behind: nearer.hop.unwrap_or(0),
            to: place.hop,
            added: added(nearer, place),
        });
        nearer = place;
    }
    found
}

/// What load adds between two places, ms.
pub fn added(near: &Place, far: &Place) -> Figure {
    let between = |near_at: &BTreeMap<i64, f64>, far_at: &BTreeMap<i64, f64>| -> Vec<f64> {
        let both = far_at.iter().filter_map(|(round, far)| {
            if near.is_here() {
                return Some(*far);
            }
            Some(far - near_at.get(round)?)
        });
        both.collect()
    };
    less(
        &between(&near.loaded, &far.loaded),
        &between(&near.idle, &far.idle),
    )
}

/// The median of `loaded` less that of `idle`; its interval takes in those of both.
pub fn less(loaded: &[f64], idle: &[f64]) -> Figure {
    for (n, when) in [(loaded.len(), "under load"), (idle.len(), "at rest")] {
        if n < ROUNDS {
            return Figure::cannot_tell(format!(
                "{n} round trips {when}, and it takes {ROUNDS} at least"
            ));
        }
    }
    match (
        stats::quantile_figure(loaded, 0.5),
        stats::quantile_figure(idle, 0.5),
    ) {
        (
            Figure::Is { value, low, high },
            Figure::Is {
                value: rest,
                low: least,
                high: most,
            },
        ) => Figure::Is {
            value: value - rest,
            low: low - most,
            high: high - least,
        },
        (Figure::CannotTell { cannot_tell }, _) | (_, Figure::CannotTell { cannot_tell }) => {
            Figure::cannot_tell(cannot_tell)
        }
    }
}

/// By how much round trips vary from one to the next: from the tenth to the ninetieth percentile, ms.
pub fn spread(ms: &[f64]) -> Option<f64> {
    let sorted = stats::sorted(ms);
    if sorted.len() < ROUNDS {
        return None;
    }
    let at = |p| stats::quantile_of_sorted(&sorted, p);
    Some(at(0.9)? - at(0.1)?)
}

/// The first place from which on round trips vary at rest, which is no queue of our load's: `spreads` of the places from
/// near to far, ms. Gives its index and by how much.
pub fn varies(spreads: &[f64]) -> Option<(usize, f64)> {
    let mut before = 0.0f64;
    for (i, &here) in spreads.iter().enumerate() {
        let shared = spreads[i..].iter().all(|s| *s >= 0.4 * here);
        if here > LEAST_MS && here > 3.0 * before && shared {
            return Some((i, here));
        }
        before = before.max(here);
    }
    None
}
