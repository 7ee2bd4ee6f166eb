//! Differences between near and far hops: the hop on which a load makes packets wait.
//!
//! The datagrams of one round leave within milliseconds of each other, so the part of the path that they share delays
//! them alike. The delay that load adds between two hops is the median, over the rounds, of the farther one's round
//! trip less the nearer one's, under load less at rest. A delay that a hop has and a farther one does not is the hop's
//! own: routers answer such datagrams in their control plane, when they have nothing better to do. That is no queue on
//! the path, and such a hop tells nothing about one.

use stats::Figure;
use std::collections::BTreeMap;

/// Least delay that is looked for: hosts and switches add as much, ms.
pub const LEAST_MS: f64 = 2.0;
/// Share of rounds lost under load from which on those that came through waited less than most.
const MANY_LOST: f64 = 0.05;
/// Number of rounds that both hops must have answered.
const ROUNDS: usize = 5;

/// Round trips by round at one place on the path.
#[derive(Clone, Debug)]
pub struct Place {
    /// Number of the hop; none for a server at an unknown distance.
    pub hop: Option<usize>,
    /// Round trips at rest by round, ms.
    pub idle: BTreeMap<i64, f64>,
    /// Round trips under load by round, ms.
    pub loaded: BTreeMap<i64, f64>,
    /// Share of rounds without an answer under load, beyond that at rest: 0 to 1.
    pub lost: f64,
}

impl Place {
    /// Place of this host, with a round trip of zero.
    fn here() -> Place {
        Place {
            hop: Some(0),
            idle: BTreeMap::new(),
            loaded: BTreeMap::new(),
            lost: 0.0,
        }
    }

    fn is_here(&self) -> bool {
        self.hop == Some(0)
    }
}

/// Delay that load adds on a stretch of the path.
#[derive(Clone, Debug, PartialEq)]
pub struct Stretch {
    /// Hop behind which the stretch begins; 0 is this host.
    pub behind: usize,
    /// Hop at which it ends; none if the server's distance is unknown.
    pub to: Option<usize>,
    /// Added delay, ms.
    pub added: Figure,
}

impl Stretch {
    /// True if load makes packets wait there.
    pub fn waits(&self) -> bool {
        matches!(self.added, Figure::Is { low, .. } if low > LEAST_MS)
    }
}

/// Delay that load adds along a path.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Differences {
    /// Stretches from near to far.
    pub stretches: Vec<Stretch>,
    /// Hops with a delay under load that farther ones do not share, and its lower bound, ms.
    pub own: BTreeMap<usize, f64>,
    /// Hops that answered in too few rounds.
    pub sparse: Vec<usize>,
}

impl Differences {
    /// Stretch on which load adds most.
    pub fn queue(&self) -> Option<&Stretch> {
        let value = |s: &Stretch| s.added.value().unwrap_or(0.0);
        let waits = self.stretches.iter().filter(|s| s.waits());
        waits.max_by(|a, b| value(a).total_cmp(&value(b)))
    }
}

/// Differences along the path. `places` are ordered from near to far; the last one is trusted to answer without delay
/// of its own.
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
    let most = kept.last().and_then(|last| at_most(last));
    let mut nearer = &here;
    for place in kept {
        let added = added(nearer, place);
        found.stretches.push(Stretch {
            behind: nearer.hop.unwrap_or(0),
            to: place.hop,
            // Those that a full queue drops would have waited longer than those that came through, and no longer than
            // what waits on the whole path.
            added: match (added, most) {
                (Figure::Is { value, low, high }, Some(most))
                    if place.lost > nearer.lost + MANY_LOST =>
                {
                    Figure::Is {
                        value,
                        low,
                        high: high.max(most),
                    }
                }
                (added, _) => added,
            },
        });
        nearer = place;
    }
    found
}

/// Upper end of the delay that load adds on the whole path to a place if the rounds that it loses there would have waited
/// longest, ms.
fn at_most(place: &Place) -> Option<f64> {
    let of = |rounds: &BTreeMap<i64, f64>| rounds.values().copied().collect::<Vec<f64>>();
    let median = 0.5 / (1.0 - place.lost.clamp(0.0, 0.45));
    match (
        stats::quantile_figure(&of(&place.loaded), median),
        stats::quantile_figure(&of(&place.idle), 0.5),
    ) {
        (Figure::Is { high, .. }, Figure::Is { low, .. }) => Some(high - low),
        _ => None,
    }
}

/// Delay that load adds between two places, ms.
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

/// Median of `loaded` less that of `idle`; its interval includes those of both.
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

/// Variation of round trips from one to the next: from the tenth to the ninetieth percentile, ms.
pub fn spread(ms: &[f64]) -> Option<f64> {
    let sorted = stats::sorted(ms);
    if sorted.len() < ROUNDS {
        return None;
    }
    let at = |p| stats::quantile_of_sorted(&sorted, p);
    Some(at(0.9)? - at(0.1)?)
}

/// First place from which on round trips vary at rest, for reasons other than our load: `spreads` of the places from
/// near to far, ms. Returns its index and the variation.
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
