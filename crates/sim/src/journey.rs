//! Delay of each packet of a flow from its first departure to its first arrival, retransmissions included. Papers call
//! it the instantaneous delay, and the difference from the packet before it the instantaneous jitter.

use crate::error::ScenarioError;
use crate::network::{Happening, Observer};
use crate::plan::{self, End, Plan};
use crate::scenario::Scenario;
use crate::segment::{Segment, flag};
use crate::summary::{Stats, Summary};
use base::{Duration, Packet, Time};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// A packet that has arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Journey {
    /// Packet number from 0, in the order of first departures.
    pub number: u64,
    /// Departure.
    pub sent: Time,
    /// Time until the arrival.
    pub lasted: Duration,
}

/// Delay and jitter of a flow's packets, summarised.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Journeys {
    /// Delays, ms.
    pub delay_ms: Stats,
    /// Largest packet delay variation: difference in delay between a packet and the one sent just before it, either way.
    pub jitter_ms: f64,
    /// Largest delay minus smallest: the peak-to-peak jitter of papers that do not compare neighbours.
    pub range_ms: f64,
}

struct Followed {
    /// Number of its `[[flow]]`.
    group: usize,
    /// First byte, or datagram number, that has not been sent yet.
    fresh: u64,
    sent: u64,
    /// Packets in flight by first byte or number: packet number and time of first departure.
    under_way: BTreeMap<u64, (u64, Time)>,
    journeys: Vec<Journey>,
}

/// Follows flows; costs a look-up for each of their packets.
pub(crate) struct Follower {
    /// Followed flows by the flow of their packets.
    flows: BTreeMap<u64, Followed>,
}

impl Follower {
    /// Follows the first flow of each `[[flow]]` that asks for it.
    pub fn new(scenario: &Scenario, plan: &Plan) -> Follower {
        let groups = scenario.flows.iter().enumerate();
        let flows = groups.filter(|(_, f)| f.follow).filter_map(|(group, _)| {
            let first = plan.flows.iter().find(|f| f.group == group)?;
            let id = match first.end {
                End::Tcp(i) => {
                    let network = &plan.network;
                    let mut own = network
                        .host(i)
                        .channels()
                        .iter()
                        .map(|c| &network.connections[*c]);
                    own.find(|c| !c.is_back())?.flow()
                }
                End::Datagrams(i) => plan.network.datagrams[i].flows().0,
            };
            let followed = Followed {
                group,
                fresh: 0,
                sent: 0,
                under_way: BTreeMap::new(),
                journeys: Vec::new(),
            };
            Some((id.0, followed))
        });
        Follower {
            flows: flows.collect(),
        }
    }

    /// True if no packet is followed.
    pub fn is_empty(&self) -> bool {
        self.flows.is_empty()
    }

    /// Packets of this `[[flow]]` that have arrived, in the order of first departures.
    pub fn of(&self, group: usize) -> Option<Vec<Journey>> {
        let mine = self.flows.values().find(|f| f.group == group)?;
        let mut journeys = mine.journeys.clone();
        journeys.sort_by_key(|j| j.number);
        Some(journeys)
    }
}

impl Observer for Follower {
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        let Some(followed) = self.flows.get_mut(&packet.flow.0) else {
            return;
        };
        // Segments that open or close a connection have neither payload nor a number.
        if segment.is(flag::SYN | flag::ACK) {
            return;
        }
        match what {
            Happening::Sent if segment.seq >= followed.fresh => {
                followed.fresh = segment.end().max(segment.seq + 1);
                followed.under_way.insert(segment.seq, (followed.sent, now));
                followed.sent += 1;
            }
            Happening::Received => {
                if let Some((number, sent)) = followed.under_way.remove(&segment.seq) {
                    followed.journeys.push(Journey {
                        number,
                        sent,
                        lasted: now.saturating_since(sent),
                    });
                }
            }
            _ => {}
        }
    }
}

/// Packet delay variation by the number of the packet, in ms ([`stats::ipdv`]).
pub fn ipdv_ms(journeys: &[Journey]) -> Vec<(i64, f64)> {
    let delay = |j: &Journey| (j.number as i64, j.lasted.as_secs_f64() * 1e3);
    stats::ipdv(&journeys.iter().map(delay).collect::<Vec<_>>()).collect()
}

/// Summary of the packets that left at or after `from`; `None` if none of them arrived.
pub(crate) fn summed(journeys: &[Journey], from: Time) -> Option<Journeys> {
    let journeys: Vec<Journey> = journeys
        .iter()
        .copied()
        .filter(|j| j.sent >= from)
        .collect();
    let mut delays = Summary::default();
    journeys.iter().for_each(|j| delays.add_span(j.lasted));
    let variations = ipdv_ms(&journeys).into_iter();
    let jitter_ms = variations.fold(0.0, |most: f64, (_, ms)| most.max(ms.abs()));
    (!journeys.is_empty()).then(|| Journeys {
        delay_ms: Stats::of_ns(&delays),
        jitter_ms,
        range_ms: (delays.max().unwrap_or(0) - delays.min().unwrap_or(0)) as f64 / 1e6,
    })
}

/// Runs a scenario and follows every packet of the flows that ask for it; results by the name of the flow.
///
/// # Errors
/// The scenario cannot be run.
pub fn journeys(
    scenario: &Scenario,
    seed: u64,
) -> Result<BTreeMap<String, Vec<Journey>>, ScenarioError> {
    let mut plan = plan::build(scenario, seed)?;
    let mut follower = Follower::new(scenario, &plan);
    plan.network
        .run_until(Time::ZERO + scenario.duration, &mut follower);
    let groups = scenario.labels().into_iter().enumerate();
    let named = groups.filter_map(|(i, label)| Some((label, follower.of(i)?)));
    Ok(named.collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draft;

    #[test]
    fn what_is_sent_again_counts_from_its_first_departure() {
        let text = r#"
            duration = "5 s"
            link = { rate = "1 Mbit/s", delay = "10 ms", queue = "fifo:packets=5" }
            flow = [{ kind = "bulk", follow = true }, { kind = "cbr", rate = "10 kbit/s", size = "100 B", follow = true }]
        "#;
        let scenario = Draft::new(text).unwrap().finish().unwrap();
        let all = journeys(&scenario, 1).unwrap();
        let outcome = crate::run(&scenario, 1, None, &mut |_| true).unwrap();
        let (tcp, udp) = (&outcome.flows[0], &outcome.flows[1]);
        let (of_tcp, of_udp) = (tcp.journeys.unwrap(), udp.journeys.unwrap());
        assert!(tcp.retransmits > 0);
        // A packet's own delay is at most six transmissions of 12 ms, 20 ms of propagation, and the access links.
        assert!(tcp.delay_ms.unwrap() < 100.0 && of_tcp.delay_ms.max > 100.0);
        assert!(of_tcp.delay_ms.mean > tcp.delay_ms.unwrap());
        assert!(of_tcp.jitter_ms <= of_tcp.range_ms);
        // Datagrams are sent once.
        assert_eq!(Some(of_udp.delay_ms.mean), udp.delay_ms);
        // Every payload is delivered once, and numbers rise.
        let of_tcp = &all["bulk"];
        assert!(of_tcp.windows(2).all(|w| w[0].number < w[1].number));
        let delivered = tcp.goodput_bps * 5.0 / 8.0 / 1448.0;
        assert!((of_tcp.len() as f64 - delivered).abs() <= 60.0);
    }
}
