//! Departure time of each TCP segment: the data of a time–sequence diagram.

use crate::error::ScenarioError;
use crate::network::{Happening, Observer};
use crate::plan::{self, End};
use crate::scenario::Scenario;
use crate::segment::Segment;
use base::{Packet, Time};
use std::collections::BTreeMap;

/// A segment with payload that leaves its host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Departure {
    /// Time of the departure.
    pub at: Time,
    /// Number of the flow in the order of the scenario; a `[[flow]]` with a count has several.
    pub flow: usize,
    /// First byte of its payload, from 0.
    pub seq: u64,
    /// True if it is a retransmission.
    pub again: bool,
}

struct Notes {
    /// State by the flow of the packets: number of the flow, and first byte not sent yet.
    flows: BTreeMap<u64, (usize, u64)>,
    departures: Vec<Departure>,
}

impl Observer for Notes {
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        if what != Happening::Sent || segment.len == 0 {
            return;
        }
        let Some((flow, fresh)) = self.flows.get_mut(&packet.flow.0) else {
            return;
        };
        self.departures.push(Departure {
            at: now,
            flow: *flow,
            seq: segment.seq,
            again: segment.seq < *fresh,
        });
        *fresh = segment.end().max(*fresh);
    }
}

/// Runs a scenario and records every departure of a segment.
///
/// # Errors
/// The scenario cannot be run.
pub fn departures(scenario: &Scenario, seed: u64) -> Result<Vec<Departure>, ScenarioError> {
    let mut plan = plan::build(scenario, seed)?;
    let tcp = plan.flows.iter().enumerate();
    let flows = tcp.filter_map(|(number, flow)| match flow.end {
        End::Tcp(i) => Some((plan.network.connections[i].flow().0, (number, 0))),
        End::Datagrams(_) => None,
    });
    let mut notes = Notes {
        flows: flows.collect(),
        departures: Vec::new(),
    };
    plan.network
        .run_until(Time::ZERO + scenario.duration, &mut notes);
    Ok(notes.departures)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Draft;

    #[test]
    fn what_is_sent_again_is_told_from_what_is_new() {
        let text = r#"
            duration = "3 s"
            link = { rate = "1 Mbit/s", delay = "10 ms", queue = "fifo:packets=5" }
            flow = [{ kind = "bulk" }, { kind = "cbr", rate = "10 kbit/s", size = "100 B" }]
        "#;
        let scenario = Draft::new(text).unwrap().finish().unwrap();
        let all = departures(&scenario, 1).unwrap();
        let mut seen = std::collections::BTreeSet::new();
        for d in &all {
            assert_eq!(d.again, !seen.insert(d.seq), "{d:?}");
            assert_eq!(d.flow, 0);
        }
        let again = all.iter().filter(|d| d.again).count();
        let outcome = crate::run(&scenario, 1, None, &mut |_| true).unwrap();
        assert_eq!(again as u64, outcome.flows[0].retransmits);
        assert!(again > 0);
    }
}
