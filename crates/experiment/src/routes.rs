//! Changes of a route, from traces of the same path at several times.
//!
//! **Method.** Each trace gives the addresses that answered for a hop. Those of one trace belong together. Two addresses that
//! different traces show are compared by the runs test: if they are mixed in time, routers share load between them, and they
//! belong together, too. If they follow each other, the route changed. With too few traces neither can be told.
//!
//! **Source.** A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi 2012, section
//! 3.4 (f); A. Wald and J. Wolfowitz, "On a Test Whether Two Samples are from the Same Population", 1940.
//!
//! **Limits.** A route that flaps from trace to trace looks like shared load. A change that lasts for less than a few traces is
//! not told. A hop that does not answer tells nothing.

use crate::path;
use crate::path::seen::{Seen, Who};
use base::record::Recording;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::net::IpAddr;

/// Probability of an order below which it is no chance: one change must not be invented among many hops.
const CHANCE: f64 = 2e-4;
/// The same above which an order counts as mixed.
const MIXED: f64 = 0.05;

/// One trace of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visit {
    /// Begin, UNIX ns.
    pub at_ns: i64,
    /// Addresses that answered for each hop, from hop 1.
    pub hops: Vec<BTreeSet<IpAddr>>,
}

/// Path that several traces are of.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema)]
pub struct Place {
    /// Title of the recordings.
    pub title: String,
    /// Gateway of the measuring host; null if it is unknown.
    pub gateway: Option<IpAddr>,
    /// Address of the far end; null if it is unknown.
    pub to: Option<IpAddr>,
}

/// Finding on a hop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Fate {
    /// One address in all traces.
    Same,
    /// Addresses that are mixed in time: routers share load, or the route flaps.
    Shared,
    /// Addresses that follow each other.
    Changed,
    /// Different addresses, in too few traces to tell the two apart. A changed hop may have such addresses, too.
    CannotTell,
}

/// Addresses of a hop that belong together.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hosts {
    /// Addresses in their order.
    pub addresses: Vec<IpAddr>,
    /// Traces in which one of them answered.
    pub traces: u32,
    /// First of these traces, UNIX ns.
    pub first_ns: i64,
    /// Last of these traces, UNIX ns.
    pub last_ns: i64,
}

/// Hop over all traces.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Hop {
    /// Number, from 1.
    pub hop: u8,
    /// Finding.
    pub fate: Fate,
    /// Traces in which it answered.
    pub answered: u32,
    /// Hosts in the order of their first traces.
    pub hosts: Vec<Hosts>,
}

/// Change of the route.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Last trace of the route before, UNIX ns.
    pub after_ns: i64,
    /// First trace of the new one, UNIX ns.
    pub by_ns: i64,
    /// Hops that changed: the addresses before and behind.
    pub hops: Vec<Changed>,
}

/// Hop of a change.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Changed {
    /// Number, from 1.
    pub hop: u8,
    /// Addresses before.
    pub from: Vec<IpAddr>,
    /// Addresses then.
    pub to: Vec<IpAddr>,
}

/// Routes of one path over time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Routes {
    /// Path.
    pub place: Place,
    /// Traces.
    pub traces: u32,
    /// First trace, UNIX ns.
    pub from_ns: i64,
    /// Last trace, UNIX ns.
    pub to_ns: i64,
    /// Changes in the order of time.
    pub changes: Vec<Change>,
    /// Hops that answered at least once.
    pub hops: Vec<Hop>,
}

/// Path and trace of a recording of `probe path`; null of other recordings.
pub fn visit(recording: &Recording) -> Option<(Place, Visit)> {
    let kind = crate::spec_of(recording).ok()?.kind().entry.name;
    if kind != path::SPEC.entry.name {
        return None;
    }
    let seen = Seen::of(recording);
    let parsed = |text: &Option<String>| text.as_ref().and_then(|a| a.parse().ok());
    let place = Place {
        title: recording.meta.title.clone(),
        gateway: parsed(&seen.gateway),
        to: parsed(&seen.server),
    };
    let addresses = |who: &Who| {
        let all = who.addresses.iter();
        all.filter_map(|a| a.parse().ok()).collect()
    };
    let visit = Visit {
        at_ns: recording.meta.started_ns,
        hops: seen.hops.iter().map(addresses).collect(),
    };
    Some((place, visit))
}

/// Routes of a path; null without a trace.
pub fn routes(place: Place, mut visits: Vec<Visit>) -> Option<Routes> {
    visits.sort_by_key(|v| v.at_ns);
    let (first, last) = (visits.first()?, visits.last()?);
    let many = visits.iter().map(|v| v.hops.len()).max().unwrap_or(0);
    let mut hops = Vec::new();
    let mut steps = Vec::new();
    for number in 0..many.min(usize::from(u8::MAX)) {
        let series = Series::of(&visits, number);
        if series.traces.is_empty() {
            continue;
        }
        steps.extend(series.steps());
        hops.push(series.hop());
    }
    Some(Routes {
        place,
        traces: visits.len() as u32,
        from_ns: first.at_ns,
        to_ns: last.at_ns,
        changes: changes(steps),
        hops,
    })
}

/// Traces in which a hop answered, each with the group of its addresses.
struct Series {
    number: u8,
    traces: Vec<(i64, usize)>,
    groups: Vec<BTreeSet<IpAddr>>,
    /// Groups that are neither known to be mixed with a larger one nor known to follow it.
    open: BTreeSet<usize>,
}

impl Series {
    fn of(visits: &[Visit], number: usize) -> Series {
        let mut groups: Vec<BTreeSet<IpAddr>> = Vec::new();
        let answered = visits.iter().filter_map(|v| {
            let all = v.hops.get(number).filter(|all| !all.is_empty())?;
            Some((v.at_ns, all))
        });
        let answered: Vec<(i64, &BTreeSet<IpAddr>)> = answered.collect();
        for (_, all) in &answered {
            let mut joined: BTreeSet<IpAddr> = (*all).clone();
            groups.retain(|group| {
                let apart = group.is_disjoint(&joined);
                if !apart {
                    joined.extend(group);
                }
                apart
            });
            groups.push(joined);
        }
        let mut series = Series {
            number: u8::try_from(number + 1).unwrap_or(u8::MAX),
            traces: Vec::new(),
            groups,
            open: BTreeSet::new(),
        };
        series.label(&answered);
        while let Some((a, b)) = series.mixed() {
            let more = series.groups.swap_remove(b);
            series.groups[a].extend(more);
            series.label(&answered);
        }
        series
    }

    fn label(&mut self, answered: &[(i64, &BTreeSet<IpAddr>)]) {
        let group = |all: &BTreeSet<IpAddr>| {
            let its = self.groups.iter().position(|g| !g.is_disjoint(all));
            its.unwrap_or(0)
        };
        self.traces = answered.iter().map(|(at, all)| (*at, group(all))).collect();
    }

    /// Two groups that are mixed in time, the first with the lower number. Without such a pair `open` is known.
    fn mixed(&mut self) -> Option<(usize, usize)> {
        self.open.clear();
        for a in 0..self.groups.len() {
            for b in a + 1..self.groups.len() {
                let order: Vec<bool> = self
                    .traces
                    .iter()
                    .filter(|t| t.1 == a || t.1 == b)
                    .map(|t| t.1 == a)
                    .collect();
                let first = order.iter().filter(|is| **is).count() as u64;
                let second = order.len() as u64 - first;
                let runs = 1 + order.windows(2).filter(|w| w[0] != w[1]).count() as u64;
                let told = stats::in_turn::at_most(first, second, 2) <= CHANCE;
                match stats::in_turn::at_most(first, second, runs) {
                    p if p <= CHANCE => {}
                    p if p >= MIXED && told => return Some((a, b)),
                    _ if first < second => drop(self.open.insert(a)),
                    _ => drop(self.open.insert(b)),
                }
            }
        }
        None
    }

    fn fate(&self) -> Fate {
        match self.groups.len() {
            1 if self.groups[0].len() == 1 => Fate::Same,
            1 => Fate::Shared,
            many if many - self.open.len() < 2 => Fate::CannotTell,
            _ => Fate::Changed,
        }
    }

    /// Moments between which one group follows the other.
    fn steps(&self) -> Vec<(i64, i64, Changed)> {
        if self.fate() != Fate::Changed {
            return Vec::new();
        }
        let addresses = |group: usize| self.groups[group].iter().copied().collect();
        let told = self.traces.iter().copied();
        let told: Vec<(i64, usize)> = told.filter(|t| !self.open.contains(&t.1)).collect();
        let pairs = told.windows(2).filter(|w| w[0].1 != w[1].1);
        let step = |w: &[(i64, usize)]| {
            let changed = Changed {
                hop: self.number,
                from: addresses(w[0].1),
                to: addresses(w[1].1),
            };
            (w[0].0, w[1].0, changed)
        };
        pairs.map(step).collect()
    }

    fn hop(&self) -> Hop {
        let mut hosts: BTreeMap<usize, Hosts> = BTreeMap::new();
        for (at_ns, group) in &self.traces {
            let one = hosts.entry(*group).or_insert_with(|| Hosts {
                addresses: self.groups[*group].iter().copied().collect(),
                traces: 0,
                first_ns: *at_ns,
                last_ns: *at_ns,
            });
            one.traces += 1;
            one.last_ns = *at_ns;
        }
        let mut hosts: Vec<Hosts> = hosts.into_values().collect();
        hosts.sort_by_key(|h| h.first_ns);
        Hop {
            hop: self.number,
            fate: self.fate(),
            answered: self.traces.len() as u32,
            hosts,
        }
    }
}

/// Steps of single hops, those of one moment together: hops that were silent in a trace have wider intervals.
fn changes(mut steps: Vec<(i64, i64, Changed)>) -> Vec<Change> {
    steps.sort_by_key(|s| (s.1, s.2.hop));
    let mut all: Vec<Change> = Vec::new();
    for (after_ns, by_ns, changed) in steps {
        // Intervals that overlap may be of one moment; a hop changes once in it.
        let same = all.last_mut().filter(|c| {
            let again = c.hops.iter().any(|h| h.hop == changed.hop);
            after_ns < c.by_ns && c.after_ns < by_ns && !again
        });
        match same {
            Some(change) => {
                change.after_ns = change.after_ns.max(after_ns);
                change.by_ns = change.by_ns.min(by_ns);
                change.hops.push(changed);
            }
            None => all.push(Change {
                after_ns,
                by_ns,
                hops: vec![changed],
            }),
        }
    }
    all.iter_mut().for_each(|c| c.hops.sort_by_key(|h| h.hop));
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    fn pick(rng: &mut Rng, count: usize) -> usize {
        ((uniform(rng) * count as f64) as usize).min(count - 1)
    }

    fn place() -> Place {
        Place {
            title: "t".into(),
            gateway: None,
            to: None,
        }
    }

    fn address(hop: usize, number: usize) -> IpAddr {
        [10, hop as u8, number as u8, 1].into()
    }

    /// Traces of a path of which some hops share load, some are silent at times, and some change at these moments.
    fn draw(rng: &mut Rng, moments: &[usize], count: usize) -> (Vec<Visit>, [usize; 2]) {
        let hops = 3 + pick(rng, 12);
        let first = pick(rng, hops);
        let last = first + pick(rng, hops - first);
        let wide: Vec<usize> = (0..hops)
            .map(|_| 1 + pick(rng, 4) / 2 * pick(rng, 3))
            .collect();
        let silent: Vec<f64> = (0..hops)
            .map(|_| {
                if uniform(rng) < 0.3 {
                    uniform(rng) * 0.5
                } else {
                    0.0
                }
            })
            .collect();
        let visits = (0..count).map(|number| {
            let route = moments.iter().filter(|m| **m <= number).count();
            let of = |hop: usize, rng: &mut Rng| {
                if uniform(rng) < silent[hop] {
                    return BTreeSet::new();
                }
                let its = if (first..=last).contains(&hop) {
                    route * 8
                } else {
                    0
                };
                BTreeSet::from([address(hop, its + pick(rng, wide[hop]))])
            };
            Visit {
                at_ns: number as i64 * 3_600_000_000_000,
                hops: (0..hops).map(|hop| of(hop, rng)).collect(),
            }
        });
        (visits.collect(), [first, last])
    }

    #[test]
    fn changes_are_found_and_shared_load_is_none() {
        let seed = 20_261_127;
        println!("seed {seed}");
        let mut rng = Streams::new(seed).stream("routes");
        let (mut invented, mut found, mut planted) = (0, 0, 0);
        for number in 0..400 {
            let count = 24 + pick(&mut rng, 150);
            let moments: Vec<usize> = match number % 4 {
                0 => Vec::new(),
                1 => vec![count / 4 + pick(&mut rng, count / 2)],
                _ => vec![count / 3, 2 * count / 3],
            };
            let (visits, [first, last]) = draw(&mut rng, &moments, count);
            let seen = routes(place(), visits).expect("traces");
            let hour = |ns: i64| ns / 3_600_000_000_000;
            planted += moments.len();
            for moment in &moments {
                let its = |c: &&Change| {
                    hour(c.after_ns) < *moment as i64 && *moment as i64 <= hour(c.by_ns)
                };
                found += usize::from(seen.changes.iter().any(|c| its(&c)));
            }
            for change in &seen.changes {
                let of_moment = moments
                    .iter()
                    .any(|m| hour(change.after_ns) < *m as i64 && *m as i64 <= hour(change.by_ns));
                let of_hops = change
                    .hops
                    .iter()
                    .all(|h| (first..=last).contains(&(usize::from(h.hop) - 1)));
                if !of_moment || !of_hops {
                    invented += 1;
                    println!("{number}: {moments:?}, hops {first} to {last}: {change:?}");
                }
            }
        }
        println!("{found} of {planted} changes found, {invented} invented");
        assert!(found * 100 >= planted * 90, "{found} of {planted}");
        assert!(invented * 100 <= planted, "{invented}");
    }

    #[test]
    fn a_route_that_returns_has_two_changes() {
        let traces = |hosts: &[usize]| -> Vec<Visit> {
            let one = |(n, host): (usize, &usize)| Visit {
                at_ns: n as i64,
                hops: vec![BTreeSet::from([address(1, *host)])],
            };
            hosts.iter().enumerate().map(one).collect()
        };
        let hosts = [[0; 12], [1; 12], [0; 12]].concat();
        let seen = routes(place(), traces(&hosts)).expect("traces");
        let moments: Vec<i64> = seen.changes.iter().map(|c| c.by_ns).collect();
        assert_eq!((moments, seen.hops[0].fate), (vec![12, 24], Fate::Changed));
        // Four traces do not tell a change from shared load.
        let seen = routes(place(), traces(&[0, 0, 1, 1])).expect("traces");
        assert_eq!(
            (seen.changes.len(), seen.hops[0].fate),
            (0, Fate::CannotTell)
        );
    }
}
