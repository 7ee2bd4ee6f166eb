//! Waits of the packets of a simulated capture, as the simulator knows them.

use super::family::{Draw, Way};
use super::senders::{Copies, Sender};
use super::taken::Taken;
use base::{Packet, Time};
use sim::network::{Connection, Happening, Observer};
use sim::segment::Segment;
use std::collections::BTreeMap;

/// Stretch of time whose packets are one sample, s.
const STEP_S: f64 = 0.05;
/// Stretches for which a wait holds where no packet tells it: half a second.
const HELD_STEPS: i64 = 10;

/// A packet that arrived.
#[derive(Clone, Copy)]
pub struct Passed {
    flow: u64,
    sent_s: f64,
    arrived_s: f64,
    wait_ms: f64,
}

/// Waits of the packets between the captured hosts.
pub struct Truth {
    ways: [Way; 2],
    taken: Taken,
    /// Direction of each captured flow, by its number: 0 from left to right, and true for one with data.
    flows: BTreeMap<u64, (usize, bool)>,
    under_way: BTreeMap<u64, f64>,
    /// Packets of each direction: ACKs, and data.
    passed: [[Vec<Passed>; 2]; 2],
    pub copies: Copies,
    pub senders: Vec<Sender>,
}

impl Truth {
    pub fn new(draw: &Draw, senders: Vec<Sender>, flows: BTreeMap<u64, (usize, bool)>) -> Truth {
        Truth {
            ways: draw.ways,
            taken: draw.taken,
            flows,
            under_way: BTreeMap::new(),
            passed: Default::default(),
            copies: Copies::default(),
            senders,
        }
    }

    /// Adds a step of time of the senders.
    pub fn look(&mut self, now: Time, all: &[Connection]) {
        if !self.taken.holds(seconds(now)) {
            return;
        }
        self.senders.iter_mut().for_each(|s| s.look(all));
    }

    /// Data, or ACKs, that arrived on a way.
    pub fn of(&self, way: usize, data: bool) -> &[Passed] {
        &self.passed[way][usize::from(data)]
    }

    /// Every packet that arrived, as lines with tabs.
    pub fn table(&self) -> String {
        let mut lines = String::from("way\tdata\tflow\tsent_s\tarrived_s\twait_ms\n");
        for (way, kinds) in self.passed.iter().enumerate() {
            for (data, passed) in kinds.iter().enumerate() {
                for p in passed {
                    let (flow, sent_s, arrived_s, wait_ms) =
                        (p.flow, p.sent_s, p.arrived_s, p.wait_ms);
                    lines += &format!(
                        "{way}\t{data}\t{flow}\t{sent_s:.6}\t{arrived_s:.6}\t{wait_ms:.3}\n"
                    );
                }
            }
        }
        lines
    }
}

impl Observer for Truth {
    fn packet(&mut self, now: Time, what: Happening, packet: &Packet, segment: &Segment) {
        let Some((way, data)) = self.flows.get(&packet.flow.0).copied() else {
            return;
        };
        let now_s = seconds(now);
        // A handshake is no data.
        if data && segment.len == 0 {
            return;
        }
        if data && self.taken.holds(now_s) {
            self.copies.packet(what, packet, segment);
        }
        if what == Happening::Sent {
            self.under_way.insert(packet.id.0, now_s);
            return;
        }
        let Some(sent_s) = self.under_way.remove(&packet.id.0) else {
            return;
        };
        if what == Happening::Received && self.taken.holds(sent_s) && self.taken.holds(now_s) {
            let least_ms = self.ways[way].least_ms(packet.len.get() as f64);
            self.passed[way][usize::from(data)].push(Passed {
                flow: packet.flow.0,
                sent_s,
                arrived_s: now_s,
                wait_ms: (now_s - sent_s) * 1e3 - least_ms,
            });
        }
    }
}

fn seconds(at: Time) -> f64 {
    at.as_nanos() as f64 / 1e9
}

/// Waits of data and of the ACKs that left when it arrived.
pub fn round_trips(data: &[Passed], acks: &[Passed]) -> Vec<Passed> {
    let back = by_step(acks.iter().map(|ack| (0, ack.sent_s, ack.wait_ms)));
    let with_ack = data.iter().filter_map(|data| {
        let ack_ms = back.get(&(0, step(data.arrived_s)))?;
        Some(Passed {
            wait_ms: data.wait_ms + ack_ms,
            ..*data
        })
    });
    with_ack.collect()
}

/// Mean wait of each stretch of time, in ascending order. One without packets of a flow has that of the nearest with some, if
/// that is near.
pub fn steps(waits: &[Passed]) -> Vec<f64> {
    let means = by_step(waits.iter().map(|w| (w.flow, w.arrived_s, w.wait_ms)));
    let mut flows: BTreeMap<u64, Vec<(i64, f64)>> = BTreeMap::new();
    for ((flow, at), wait) in means {
        flows.entry(flow).or_default().push((at, wait));
    }
    let mut all = Vec::new();
    for steps in flows.values() {
        all.extend(steps.iter().map(|s| s.1));
        for pair in steps.windows(2) {
            let [(from, before), (to, after)] = [pair[0], pair[1]];
            let near = (from + 1..to).filter_map(|at| {
                let [since, until] = [at - from, to - at];
                let wait = if since <= until { before } else { after };
                (since.min(until) <= HELD_STEPS).then_some(wait)
            });
            all.extend(near);
        }
    }
    all.sort_by(f64::total_cmp);
    all
}

fn step(at_s: f64) -> i64 {
    (at_s / STEP_S) as i64
}

fn by_step(waits: impl Iterator<Item = (u64, f64, f64)>) -> BTreeMap<(u64, i64), f64> {
    let mut sums: BTreeMap<(u64, i64), (f64, f64)> = BTreeMap::new();
    for (flow, at_s, wait_ms) in waits {
        let sum = sums.entry((flow, step(at_s))).or_default();
        *sum = (sum.0 + wait_ms, sum.1 + 1.0);
    }
    sums.into_iter()
        .map(|(at, (sum, n))| (at, sum / n))
        .collect()
}
