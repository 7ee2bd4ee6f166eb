//! A gateway in front of the link under study: the section `[control]` of a scenario. It drops or marks packets before they
//! enter the link, by the estimated wait in the link's queue, which it cannot see.
//!
//! The gateway sees what a real one sees: each packet that it hands over, and the ACKs that come back. An ACK that ends at
//! the last byte of a packet sent once gives an RTT sample (Karn's rule). The true wait serves only for the figures.
//!
//! **Source.** Borlaug 2014, section 6.3, figures 51 to 54.

use crate::error::ScenarioError;
use crate::network::{LinkIndex, Network, Observer};
use crate::segment::{Segment, flag};
use base::rng::{Rng, Streams, uniform};
use base::{Duration, Packet, Time};
use control::upload::{Controller, Decision, Sent, UPDATE, Upload, Why};
use link::qdisc::Verdict;
use link::rate::Rate;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// The section `[control]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Keeps the queue of the link short without shaping.
    pub upload: Upload,
}

const SHORTEST: Duration = Duration::from_millis(1);

impl Control {
    /// # Errors
    /// A value out of range.
    pub(crate) fn check(&self) -> Result<(), ScenarioError> {
        let Upload { target, cap, .. } = self.upload;
        if target < SHORTEST || cap <= target {
            return Err(ScenarioError::Invalid(format!(
                "control.upload: target = \"{target}\", cap = \"{cap}\": the target is at least {SHORTEST}, and the cap is above it"
            )));
        }
        Ok(())
    }
}

/// Figures of the controller after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ControlOutcome {
    /// Root mean square error of the estimated wait, ms.
    pub wait_rmse_ms: Option<f64>,
    /// Mean error of the estimated wait, ms.
    pub wait_bias_ms: Option<f64>,
    /// Root mean square error of the capacity while the queue stands, as a share of the link's rate.
    pub capacity_rmse: Option<f64>,
    /// Packets dropped and marked at the gateway.
    pub signals: u64,
    /// Share of the updates at which the wait was unknown.
    pub blind: f64,
}

/// Packet that was handed over and is not yet acknowledged.
#[derive(Clone, Copy)]
struct Unacked {
    /// Byte after its last.
    end: u64,
    sent: Sent,
}

/// Time over which the true rate of a link that varies is averaged.
const MEAN: Duration = Duration::from_millis(100);
/// Most packets of one flow that wait for their ACKs.
const MOST: usize = 4096;

/// The gateway as an observer; without a section `[control]` it observes nothing.
#[derive(Default)]
pub(crate) struct Gateway {
    acting: Option<Box<Acting>>,
}

struct Acting {
    controller: Controller,
    link: LinkIndex,
    back: LinkIndex,
    rate: Rate,
    sent: HashMap<u64, VecDeque<Unacked>>,
    /// Highest byte of each flow that was handed over.
    highest: HashMap<u64, u64>,
    draws: Rng,
    sums: Sums,
}

#[derive(Default)]
struct Sums {
    updates: u64,
    blind: u64,
    signals: u64,
    known: f64,
    error: f64,
    squares: f64,
    rated: f64,
    rate_squares: f64,
}

impl Gateway {
    /// A gateway before `link`, of that rate, whose ACKs come over `back`.
    pub fn new(
        control: &Control,
        (link, back): (LinkIndex, LinkIndex),
        rate: Rate,
        streams: &Streams,
    ) -> Gateway {
        let acting = Acting {
            controller: Controller::new(control.upload),
            link,
            back,
            rate,
            sent: HashMap::new(),
            highest: HashMap::new(),
            draws: streams.stream("gateway"),
            sums: Sums::default(),
        };
        Gateway {
            acting: Some(Box::new(acting)),
        }
    }

    /// True if no control acts on the link.
    pub fn is_empty(&self) -> bool {
        self.acting.is_none()
    }

    /// Time of the next update.
    pub fn due(&self) -> Time {
        self.acting
            .as_ref()
            .map_or(Time::MAX, |a| a.controller.due())
    }

    /// Updates the controller, and compares it with the link if the warm-up is over.
    pub fn update(&mut self, now: Time, network: &Network, warmed: bool) {
        let Some(acting) = &mut self.acting else {
            return;
        };
        let decision = acting.controller.update(now);
        if warmed {
            let stats = network.link_stats(acting.link);
            let since = now.saturating_since(Time::ZERO);
            let rate = acting.rate.mean_between(since, since + MEAN).get() as f64 / 8.0;
            acting
                .sums
                .add(&decision, stats.backlog.bytes.get() as f64, rate);
        }
    }

    /// Outcome of the control so far; `None` if none acts.
    pub fn outcome(&self) -> Option<ControlOutcome> {
        let sums = &self.acting.as_ref()?.sums;
        let mean = |sum: f64, n: f64| (n > 0.0).then(|| sum / n);
        Some(ControlOutcome {
            wait_rmse_ms: mean(sums.squares, sums.known).map(f64::sqrt),
            wait_bias_ms: mean(sums.error, sums.known),
            capacity_rmse: mean(sums.rate_squares, sums.rated).map(f64::sqrt),
            signals: sums.signals,
            blind: sums.blind as f64 / sums.updates.max(1) as f64,
        })
    }
}

impl Sums {
    fn add(&mut self, decision: &Decision, backlog: f64, rate: f64) {
        self.updates += 1;
        self.signals += decision.signals;
        if decision.why == Why::Blind || rate <= 0.0 {
            self.blind += 1;
            return;
        }
        let truth_ms = backlog / rate * 1e3;
        let error = decision.wait.as_millis_f64() - truth_ms;
        self.known += 1.0;
        self.error += error;
        self.squares += error * error;
        if let Some(capacity) = decision.capacity
            && truth_ms > UPDATE.as_millis_f64() / 3.0
        {
            self.rated += 1.0;
            self.rate_squares += (capacity.value / rate - 1.0).powi(2);
        }
    }
}

impl Acting {
    fn handed_over(&mut self, now: Time, packet: &Packet, segment: &Segment) {
        if segment.len == 0 {
            return;
        }
        let flow = packet.flow.0;
        let highest = self.highest.entry(flow).or_default();
        let waiting = self.sent.entry(flow).or_default();
        if segment.end() <= *highest || waiting.len() >= MOST {
            // A retransmission: ACKs of what is in flight may be its.
            waiting.clear();
            return;
        }
        *highest = segment.end();
        waiting.push_back(Unacked {
            end: segment.end(),
            sent: Sent {
                departed: now,
                total: self.controller.total(),
            },
        });
    }

    fn acknowledged(&mut self, now: Time, packet: &Packet, segment: &Segment) {
        // The reverse direction of a connection has the next number.
        let Some(waiting) = (packet.flow.0.checked_sub(1)).and_then(|f| self.sent.get_mut(&f))
        else {
            return;
        };
        let before = waiting.len();
        let mut newest = None;
        while waiting.front().is_some_and(|s| s.end <= segment.ack) {
            newest = waiting.pop_front();
        }
        // A receiver acknowledges every second segment at once, a single one after a while (RFC 5681, section 4.2).
        let prompt = before - waiting.len() >= 2;
        if let Some(sent) = newest.filter(|s| s.end == segment.ack) {
            let rtt = now.saturating_since(sent.sent.departed);
            self.controller.sample(now, sent.sent, rtt, prompt);
        }
    }
}

impl Observer for Gateway {
    fn admit(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) -> Verdict {
        let Some(acting) = &mut self.acting else {
            return Verdict::Forward;
        };
        if link != acting.link {
            return Verdict::Forward;
        }
        let draws = &mut acting.draws;
        let draw = || uniform(draws);
        let verdict = acting.controller.packet(now, packet.len, packet.ecn, draw);
        if verdict != Verdict::Drop {
            acting.handed_over(now, packet, segment);
        }
        verdict
    }

    fn left(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) {
        if let Some(acting) = &mut self.acting
            && link == acting.back
            && segment.is(flag::ACK)
        {
            acting.acknowledged(now, packet, segment);
        }
    }
}
