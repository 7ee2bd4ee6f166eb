//! Link-by-link congestion avoidance as its author calculated it: buffers as numbers in time steps, and the smallest
//! buffers that stay between the set-points.
//!
//! In each step a router receives the output of its neighbours and new arrivals, and sends at the rate that
//! [`link::lblca::Port`] sets. The last routers deliver to receivers that accept everything. A receiver feeds back a
//! half-full buffer, the value that the law steers to.
//!
//! **Source.** S. K. Thombre, *Design and Performance Analysis of Link-by-Link Congestion Avoidance Algorithm for the
//! Multiplexed Traffic in the Internet*, PhD thesis, IIT Guwahati 2020, section 6.2.
//!
//! **Units**: sizes in Mbit, rates in Mbit/s, steps of one second, as in the thesis's table 6.1.

use crate::error::ScenarioError;
use base::rng::{Rng, Streams, uniform};
use link::lblca::{Buffer, Feedback, Lblca, Port};
use serde::Deserialize;
use statrs::function::gamma::gamma;
use std::collections::BTreeMap;

/// Routers and the traffic that arrives at them.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    /// Law of the routers.
    #[serde(default)]
    pub law: Lblca,
    /// Mean size of one arrival.
    #[serde(default = "one")]
    pub unit: f64,
    /// Law of the arrivals.
    #[serde(default)]
    pub arrivals: Arrivals,
    /// Squared coefficient of variation of the interarrival times, for `hyperexponential`.
    #[serde(default = "four")]
    pub scv: f64,
    /// Shape of the interarrival times, for `weibull`.
    #[serde(default = "heavy")]
    pub shape: f64,
    /// Default capacity of every link, as a multiple of the mean rate through it.
    #[serde(default = "ample")]
    pub capacity: f64,
    /// Steps that feedback takes, Δx.
    #[serde(default = "step")]
    pub delay: usize,
    /// Rate that receivers feed back.
    #[serde(default)]
    pub receiver: Receiver,
    /// Number of steps in which the buffers must stay between the set-points.
    #[serde(default = "thousand")]
    pub steps: usize,
    /// Routers that differ, by name.
    pub router: BTreeMap<String, Router>,
}

fn one() -> f64 {
    1.0
}
fn four() -> f64 {
    4.0
}
/// Weibull shape of TCP and UDP traffic together: Thombre, table 3.1.
fn heavy() -> f64 {
    0.519_675
}
fn ample() -> f64 {
    1.4
}
fn step() -> usize {
    1
}
fn thousand() -> usize {
    1000
}

/// Law of the arrivals in a step.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Arrivals {
    #[default]
    Poisson,
    Hyperexponential,
    Weibull,
}

/// Feedback to the last router, which the source leaves open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Receiver {
    /// The mean rate of the traffic that arrives.
    #[default]
    Mean,
    /// The capacity of the link to the receiver.
    Link,
}

/// Keys of one router.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Router {
    /// Mean rate of new arrivals from outside.
    #[serde(default)]
    pub arrival: f64,
    /// Next router; a receiver if absent or empty.
    #[serde(default)]
    pub next: Option<String>,
    /// Capacity of its outgoing link.
    #[serde(default)]
    pub capacity: Option<f64>,
}

/// Steps at the start in which the buffers leave their first state, half full.
const SETTLING: usize = 20;
/// Resolution of the sizes tried, in mean rates times a step.
const FINEST: f64 = 0.01;
const LARGEST: f64 = 20.0;
/// Most routers, most steps of all routers together, and most arrivals of one.
const ROUTERS: usize = 1000;
const STEPS: usize = 20_000_000;
const ARRIVALS: f64 = 1e8;

/// Network with names resolved, and the arrivals of each step.
struct Plan {
    names: Vec<String>,
    law: Lblca,
    next: Vec<Option<usize>>,
    before: Vec<Vec<usize>>,
    /// Mean rate through each router.
    mean: Vec<f64>,
    capacity: Vec<f64>,
    delay: usize,
    receiver: Receiver,
    arrivals: Vec<Vec<f64>>,
}

impl Network {
    /// Finds the smallest buffers that stay between the set-points in every step, each proportional to the mean rate
    /// through its router. Returns:
    /// - `buffer.NAME` in Mbit and `mean.NAME` in Mbit/s
    /// - `factor`: the size over the mean rate times a step
    /// - `filled.NAME` and `filled_sd.NAME`: mean and standard deviation of the fill level, as a share
    /// - `found`: 1, or 0 if no size up to 20 steps' worth suffices; the others are then absent
    ///
    /// # Errors
    /// Routers that form a ring or lead nowhere, or invalid rates.
    pub fn smallest(&self, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
        let plan = self.plan(seed)?;
        let Some(factor) = plan.smallest() else {
            return Ok(BTreeMap::from([("found".into(), 0.0)]));
        };
        let mut figures = BTreeMap::from([("found".into(), 1.0), ("factor".into(), factor)]);
        let courses = plan.courses(factor);
        for ((name, mean), course) in plan.names.iter().zip(&plan.mean).zip(courses) {
            figures.insert(format!("buffer.{name}"), factor * mean);
            figures.insert(format!("mean.{name}"), *mean);
            let settled = course.get(SETTLING..).unwrap_or_default();
            let count = settled.len() as f64;
            let filled = settled.iter().sum::<f64>() / count;
            let variance = settled.iter().map(|s| (s - filled).powi(2)).sum::<f64>() / count;
            figures.insert(format!("filled.{name}"), filled);
            figures.insert(format!("filled_sd.{name}"), variance.sqrt());
        }
        Ok(figures)
    }

    /// Fill level of each buffer, step by step, at the sizes of [`Network::smallest`]; empty if no size suffices.
    ///
    /// # Errors
    /// Errors of [`Network::smallest`].
    pub fn courses(&self, seed: u64) -> Result<Vec<(String, Vec<f64>)>, ScenarioError> {
        let plan = self.plan(seed)?;
        let courses = plan.smallest().map(|factor| plan.courses(factor));
        Ok(plan
            .names
            .into_iter()
            .zip(courses.into_iter().flatten())
            .collect())
    }

    fn plan(&self, seed: u64) -> Result<Plan, ScenarioError> {
        let invalid = |text: String| Err(ScenarioError::Invalid(text));
        let names: Vec<String> = self.router.keys().cloned().collect();
        let steps = self.steps.saturating_mul(names.len());
        if !(1..=ROUTERS).contains(&names.len()) || self.steps <= SETTLING || steps > STEPS {
            return invalid(format!(
                "there are 1 to {ROUTERS} routers with more than {SETTLING} steps each, and at most {STEPS} steps in all"
            ));
        }
        let at = |name: &str| names.iter().position(|n| n == name);
        let mut next = Vec::new();
        for (name, router) in &self.router {
            let rates = [router.arrival, router.capacity.unwrap_or(1.0), self.unit];
            if rates.iter().any(|r| !(0.0..=1e9).contains(r)) {
                return invalid(format!("router.{name}: rates are from 0 to 10⁹ Mbit/s"));
            }
            let arrivals = router.arrival * self.steps as f64;
            if arrivals > ARRIVALS * self.unit {
                return invalid(format!(
                    "router.{name}: more than {ARRIVALS} arrivals: choose a larger unit, or fewer steps"
                ));
            }
            next.push(
                match router
                    .next
                    .as_deref()
                    .filter(|n| !n.is_empty())
                    .map(|n| (n, at(n)))
                {
                    Some((n, None)) => {
                        return invalid(format!("router.{name}: next = \"{n}\" is not a router"));
                    }
                    Some((_, to)) => to,
                    None => None,
                },
            );
        }
        let mut mean: Vec<f64> = vec![0.0; names.len()];
        for (i, router) in self.router.values().enumerate() {
            let (mut at, mut hops) = (Some(i), 0);
            while let Some(j) = at {
                mean[j] += router.arrival;
                at = next[j];
                hops += 1;
                if hops > names.len() {
                    return invalid(format!("router.{}: next leads round in a ring", names[i]));
                }
            }
        }
        if let Some(i) = mean.iter().position(|m| *m <= 0.0) {
            return invalid(format!("router.{}: nothing passes it", names[i]));
        }
        let before = (0..names.len())
            .map(|i| (0..names.len()).filter(|j| next[*j] == Some(i)).collect())
            .collect();
        let streams = Streams::new(seed);
        let arrivals = self
            .router
            .iter()
            .map(|(name, r)| self.arrive(r.arrival, &mut streams.stream(name)))
            .collect();
        let capacity = self
            .router
            .values()
            .zip(&mean)
            .map(|(r, mean)| r.capacity.unwrap_or(self.capacity * mean))
            .collect();
        Ok(Plan {
            names,
            law: self.law.clone(),
            next,
            before,
            mean,
            capacity,
            delay: self.delay,
            receiver: self.receiver,
            arrivals,
        })
    }

    /// Amount that arrives in each step, at a mean rate.
    fn arrive(&self, rate: f64, rng: &mut Rng) -> Vec<f64> {
        let mut sizes = vec![0.0; self.steps];
        if rate > 0.0 {
            let mean = self.unit / rate;
            let mut now = mean * self.between(rng);
            while (now as usize) < self.steps {
                sizes[now as usize] += self.unit;
                now += mean * self.between(rng);
            }
        }
        sizes
    }

    /// Random interarrival time of mean 1.
    fn between(&self, rng: &mut Rng) -> f64 {
        let exponential = -(1.0 - uniform(rng)).ln();
        match self.arrivals {
            Arrivals::Poisson => exponential,
            // Two phases with balanced means: each contributes half of the time.
            Arrivals::Hyperexponential => {
                let short = 0.5 * (1.0 + ((self.scv - 1.0) / (self.scv + 1.0)).max(0.0).sqrt());
                let phase = if uniform(rng) < short {
                    short
                } else {
                    1.0 - short
                };
                exponential / (2.0 * phase)
            }
            Arrivals::Weibull => exponential.powf(1.0 / self.shape) / gamma(1.0 + 1.0 / self.shape),
        }
    }
}

impl Plan {
    /// Smallest factor at which every buffer stays between the set-points.
    fn smallest(&self) -> Option<f64> {
        let law: link::lblca::LblcaParams = self.law.words().read();
        let within = law.lower..=law.upper;
        let tried = (1..=(LARGEST / FINEST) as u32).map(|i| f64::from(i) * FINEST);
        tried.into_iter().find(|factor| {
            let mut fits = true;
            self.run(*factor, |step, shares| {
                fits = step < SETTLING || shares.iter().all(|s| within.contains(s));
                fits
            });
            fits
        })
    }

    /// Fill level of each buffer after each step.
    fn courses(&self, factor: f64) -> Vec<Vec<f64>> {
        let mut courses = vec![Vec::new(); self.names.len()];
        self.run(factor, |_, shares| {
            courses.iter_mut().zip(shares).for_each(|(c, s)| c.push(*s));
            true
        });
        courses
    }

    /// Runs with sizes of `factor` mean rates. Calls `each` with the fill levels after every step, until it returns
    /// false.
    fn run(&self, factor: f64, mut each: impl FnMut(usize, &[f64]) -> bool) {
        let n = self.names.len();
        let size: Vec<f64> = self.mean.iter().map(|m| factor * m).collect();
        let mut ports: Vec<Port> = (0..n)
            .map(|i| Port::new(&self.law, self.mean[i], self.capacity[i], 1.0))
            .collect();
        // Feedback arrives `delay` steps later.
        let mut told: Vec<Vec<(f64, f64)>> = (0..n)
            .map(|i| vec![(0.5 * size[i], self.mean[i]); self.delay + 1])
            .collect();
        let mut filled: Vec<f64> = size.iter().map(|s| 0.5 * s).collect();
        let mut shares = vec![0.5; n];
        let mut sent = self.mean.clone();
        for step in 0..self.arrivals[0].len() {
            for i in 0..n {
                let from: f64 = self.before[i].iter().map(|j| sent[*j]).sum();
                let inflow = from + self.arrivals[i][step];
                filled[i] = (filled[i] + inflow - sent[i]).clamp(0.0, size[i]);
                shares[i] = filled[i] / size[i];
            }
            if !each(step, &shares) {
                return;
            }
            let slot = step % (self.delay + 1);
            for i in 0..n {
                told[i][slot] = (filled[i], sent[i]);
            }
            let oldest = (step + 1) % (self.delay + 1);
            for i in 0..n {
                let own = Buffer {
                    occupancy: filled[i],
                    size: size[i],
                };
                let next = match self.next[i] {
                    Some(j) => Feedback {
                        buffer: Buffer {
                            occupancy: told[j][oldest].0,
                            size: size[j],
                        },
                        rate: told[j][oldest].1,
                        share: self.mean[i] / self.mean[j],
                    },
                    None => Feedback {
                        buffer: Buffer {
                            occupancy: 0.5 * size[i],
                            size: size[i],
                        },
                        rate: match self.receiver {
                            Receiver::Mean => self.mean[i],
                            Receiver::Link => self.capacity[i],
                        },
                        share: 1.0,
                    },
                };
                // A router sends no more than it holds.
                sent[i] = ports[i].rate(own, next).min(filled[i]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn network(text: &str) -> Network {
        toml::from_str(text).unwrap()
    }

    fn in_line(rate: f64, more: &str) -> Network {
        network(&format!(
            "{more}\n[router]\nB1 = {{ arrival = {rate}, next = \"B2\" }}\nB2 = {{ next = \"B3\" }}\nB3 = {{}}\n"
        ))
    }

    #[test]
    fn arrivals_have_the_rate_and_the_spread_of_their_law() {
        for (law, scv) in [
            ("poisson", 1.0),
            ("hyperexponential", 4.0),
            // Γ(1+2/β)/Γ(1+1/β)² − 1 at β = 0.519675, by a table of Γ.
            ("weibull", 4.465),
        ] {
            let network = in_line(100.0, &format!("arrivals = \"{law}\"\nsteps = 20000"));
            let sizes = network.arrive(100.0, &mut Streams::new(3).stream("x"));
            let mean = sizes.iter().sum::<f64>() / sizes.len() as f64;
            let variance =
                sizes.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / sizes.len() as f64;
            // The variance of a renewal process's count tends to scv·mean; three standard errors.
            let error = 3.0 * (scv * 100.0 / 20_000f64).sqrt();
            assert!((mean - 100.0).abs() < error, "{law}: {mean}");
            assert!(
                (variance / mean / scv - 1.0).abs() < 0.1,
                "{law}: {}",
                variance / mean
            );
        }
    }

    #[test]
    fn buffers_stay_between_the_set_points_at_the_size_found_and_not_just_below() {
        let network = in_line(170.0, "");
        let figures = network.smallest(1).unwrap();
        let factor = figures["factor"];
        assert!((2.0..3.2).contains(&factor), "{factor}");
        let plan = network.plan(1).unwrap();
        let inside = |f: f64| {
            let settled = |course: &Vec<f64>| {
                course[SETTLING..]
                    .iter()
                    .all(|share| (0.1..=0.9).contains(share))
            };
            plan.courses(f).iter().all(settled)
        };
        assert!(inside(factor) && !inside(factor - FINEST));
        let courses = network.courses(1).unwrap();
        assert_eq!((courses.len(), courses[0].1.len()), (3, 1000));
        // At 0.4, (6.5) leaves the rate unchanged.
        assert!((figures["filled.B1"] - 0.4).abs() < 0.02, "{figures:?}");
    }

    #[test]
    fn a_receiver_that_tells_the_rate_of_its_link_wants_a_buffer_in_proportion_to_it() {
        let with = |capacity: f64, receiver: &str| {
            let text = format!("receiver = \"{receiver}\"\nsteps = 300");
            let mut network = in_line(170.0, &text);
            let last = network.router.get_mut("B3").expect("it is there");
            last.capacity = Some(capacity * 170.0);
            network.smallest(1).unwrap()["factor"]
        };
        // The rate is constant if 0.4 of the buffer equals one step's arrivals: (6.5) at the middle.
        assert!((with(2.0, "link") / 5.0 - 1.0).abs() < 0.05);
        assert!((with(2.0, "mean") / 2.5 - 1.0).abs() < 0.05);
    }

    #[test]
    fn nothing_passes_under_6_6_as_printed() {
        let network = in_line(170.0, "law = \"lblca:floor=printed\"\nsteps = 100");
        assert_eq!(
            network.smallest(1).unwrap(),
            BTreeMap::from([("found".to_string(), 0.0)])
        );
        assert!(network.courses(1).unwrap().is_empty());
    }

    #[test]
    fn a_ring_and_a_name_that_is_none_are_refused() {
        let ring = network("[router]\nA = { arrival = 1, next = \"B\" }\nB = { next = \"A\" }\n");
        assert!(ring.smallest(1).unwrap_err().to_string().contains("ring"));
        let lost = network("[router]\nA = { arrival = 1, next = \"C\" }\n");
        assert!(
            lost.smallest(1)
                .unwrap_err()
                .to_string()
                .contains("not a router")
        );
    }
}
