//! UDP flow through routers whose buffers are filled by cross traffic: the share that survives each hop.
//!
//! Each router has its own cross traffic, TCP and UDP as Weibull streams of table 3.1, and serves one datagram of mean
//! size per slot. A router stores a datagram of the flow that fits into its free buffer and forwards it to the next
//! router. A datagram that does not fit is lost.
//!
//! **Source.** S. K. Thombre, *Design and Performance Analysis of Link-by-Link Congestion Avoidance Algorithm for the
//! Multiplexed Traffic in the Internet*, PhD thesis, IIT Guwahati 2020, sections 5.1 and 5.1.1, algorithm 1; the
//! traffic is (3.4) with table 3.1.
//!
//! **Deviations.** The algorithm counts packets at routers 1 to H−1 (`while h < H`); here at all H. The source prints
//! neither the buffer size nor the service rate of a router.
//!
//! **Units.** Bytes; slots of the service time of one datagram of mean size.

use crate::error::ScenarioError;
use base::rng::{Rng, Streams, uniform};
use serde::Deserialize;
use statrs::function::gamma::gamma;
use std::collections::BTreeMap;

/// Model of a packet's delay over several hops.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Hops {
    /// TCP's share of the cross traffic, α.
    pub share: f64,
    /// Number of hops.
    pub hops: u32,
    /// Datagrams that the flow sends.
    pub datagrams: u32,
    /// Size of each datagram, bytes.
    pub size: f64,
    /// Mean number of slots between two datagrams; gaps are exponential.
    pub gap: f64,
    /// Datagrams that a router serves per unit of time, θ.
    pub served: f64,
    /// Buffer of a router, bytes.
    pub buffer: f64,
    /// Datagrams of TCP.
    pub tcp: Stream,
    /// Datagrams of UDP.
    pub udp: Stream,
}

/// Weibull laws, each as shape and scale: sizes in bytes, rates in datagrams per unit of time.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stream {
    /// Shape and scale of the arrivals.
    pub rate: [f64; 2],
    /// Shape and scale of the sizes.
    pub size: [f64; 2],
}

impl Default for Hops {
    fn default() -> Hops {
        Hops {
            share: 0.92,
            hops: 10,
            datagrams: 1000,
            size: 210.0,
            gap: 10.0,
            served: 12.45,
            buffer: 40_000.0,
            // Thombre, table 3.1.
            tcp: Stream {
                rate: [1.34266, 10.8176],
                size: [0.811_221, 712.344],
            },
            udp: Stream {
                rate: [1.29519, 2.72557],
                size: [1.10141, 826.505],
            },
        }
    }
}

/// Slots of cross traffic before the flow starts.
const SETTLING: u64 = 500;
/// Number of equal stretches of the flow, of which the worst is reported.
const STRETCHES: usize = 10;

fn mean([shape, scale]: [f64; 2]) -> f64 {
    scale * gamma(1.0 + 1.0 / shape)
}

fn draw([shape, scale]: [f64; 2], rng: &mut Rng) -> f64 {
    scale * (-(1.0 - uniform(rng)).ln()).powf(1.0 / shape)
}

impl Hops {
    fn check(&self) -> Result<(), ScenarioError> {
        let invalid = |text: String| Err(ScenarioError::Invalid(text));
        if !(0.0..=1.0).contains(&self.share) {
            return invalid(format!("share = {}: from 0 to 1", self.share));
        }
        if !(1..=1000).contains(&self.hops) || !(1..=1_000_000).contains(&self.datagrams) {
            return invalid("hops are from 1 to 1000, datagrams from 1 to 1000000".into());
        }
        let [a, b] = [self.tcp, self.udp].map(|s| [s.rate, s.size].concat());
        let all = [a, b, vec![self.size, self.gap, self.served, self.buffer]].concat();
        match all.iter().find(|v| !(**v > 0.0 && **v < 1e12)) {
            Some(wrong) => invalid(format!(
                "{wrong}: sizes, rates, shapes and gaps are above 0"
            )),
            None => Ok(()),
        }
    }

    /// Runs the chain of routers. Returns `received`, `share_received`, `worst_stretch` (the least share of ten equal
    /// stretches), `first_loss_hop` if anything is lost, and `hop.N`, the datagrams that passed each hop.
    ///
    /// # Errors
    /// Invalid values.
    pub fn run(&self, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
        self.check()?;
        let streams = Streams::new(seed);
        let mut rng = streams.stream("flow");
        let mut at = SETTLING as f64;
        // Slot and number of each datagram still in flight.
        let mut flow: Vec<(u64, usize)> = (0..self.datagrams as usize)
            .map(|i| {
                at -= self.gap * (1.0 - uniform(&mut rng)).ln();
                (at as u64, i)
            })
            .collect();
        let mut figures = BTreeMap::new();
        let sent = flow.len();
        for hop in 1..=self.hops {
            let before = flow.len();
            flow = self.pass(flow, &mut streams.stream(&format!("router/{hop}")));
            figures.insert(format!("hop.{hop}"), flow.len() as f64);
            if flow.len() < before && !figures.contains_key("first_loss_hop") {
                figures.insert("first_loss_hop".into(), f64::from(hop));
            }
        }
        let received = flow.len() as f64;
        figures.insert("received".into(), received);
        figures.insert("share_received".into(), received / sent as f64);
        let stretch = sent.div_ceil(STRETCHES);
        let mut counts = vec![0usize; sent.div_ceil(stretch)];
        flow.iter().for_each(|(_, i)| counts[i / stretch] += 1);
        let full = counts[..sent / stretch].iter().min().copied();
        if let Some(least) = full {
            figures.insert("worst_stretch".into(), least as f64 / stretch as f64);
        }
        Ok(figures)
    }

    /// Datagrams that one router stores.
    fn pass(&self, flow: Vec<(u64, usize)>, rng: &mut Rng) -> Vec<(u64, usize)> {
        let parts = [(self.share, self.tcp), (1.0 - self.share, self.udp)];
        let service: f64 = parts.iter().map(|(w, s)| w * mean(s.size)).sum();
        let mut queue = 0.0f64;
        let mut stored = Vec::with_capacity(flow.len());
        let last = flow.last().map_or(0, |(slot, _)| *slot);
        let mut next = flow.into_iter().peekable();
        for slot in 0..=last {
            // A unit of time has θ slots.
            let work: f64 = parts
                .iter()
                .filter(|(w, _)| *w > 0.0)
                .map(|(w, s)| w * draw(s.rate, rng) * draw(s.size, rng))
                .sum();
            queue = (queue + work / self.served).min(self.buffer);
            while let Some(datagram) = next.next_if(|(at, _)| *at == slot) {
                if queue + self.size <= self.buffer {
                    queue += self.size;
                    stored.push(datagram);
                }
            }
            queue = (queue - service).max(0.0);
        }
        stored
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn received(text: &str) -> f64 {
        let hops: Hops = toml::from_str(text).unwrap();
        hops.run(1).unwrap()["share_received"]
    }

    #[test]
    fn more_tcp_more_hops_and_larger_datagrams_leave_less() {
        let of = |share: f64, hops: u32, size: u32| {
            received(&format!(
                "share = {share}\nhops = {hops}\nsize = {size}\nserved = 10\nbuffer = 10000\ndatagrams = 4000"
            ))
        };
        assert!(of(1.0, 10, 210) < of(0.5, 10, 210) && of(0.5, 10, 210) <= 1.0);
        assert!(of(1.0, 20, 210) < of(1.0, 10, 210) && of(1.0, 10, 210) < of(1.0, 1, 210));
        assert!(of(1.0, 10, 1500) < of(1.0, 10, 210));
    }

    #[test]
    fn without_background_worth_the_name_everything_passes_unless_it_is_larger_than_a_buffer() {
        let idle =
            "[tcp]\nrate = [1, 1e-6]\nsize = [1, 700]\n[udp]\nrate = [1, 1e-6]\nsize = [1, 700]";
        assert_eq!(received(idle), 1.0);
        assert_eq!(
            received(&format!("size = 1500\nbuffer = 1499\n{idle}")),
            0.0
        );
    }

    #[test]
    fn what_passes_one_hop_agrees_with_the_share_of_time_in_which_it_fits() {
        // Exponential work in each slot, never served faster than it arrives: the queue of an M/M/1-like chain. With as
        // much buffer as the law needs, losses at h independent hops multiply.
        let one = received(
            "share = 1\nhops = 1\nserved = 10\nbuffer = 8000\ndatagrams = 20000\ngap = 40",
        );
        let four = received(
            "share = 1\nhops = 4\nserved = 10\nbuffer = 8000\ndatagrams = 20000\ngap = 40",
        );
        assert!((four - one.powi(4)).abs() < 0.03, "{one} {four}");
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let hops: Hops = toml::from_str("buffer = -1").unwrap();
        assert!(hops.run(1).unwrap_err().to_string().contains("-1"));
    }
}
