//! A gateway in front of the link under study: the section `[control]` of a scenario. It drops or marks packets before they
//! enter the link, by the estimated wait in the link's queue, which it cannot see.
//!
//! The gateway sees what a real one sees; the true wait serves only for the figures. There are two hosts:
//!
//! - `packets`: each packet is judged as it is handed over. An ACK that ends at the last byte of a packet sent once gives
//!   an RTT sample (Karn's rule).
//! - `kernel`: `tailback control` on Linux. The kernel's side counts packets and obeys orders, user space wakes up at
//!   intervals, and the answers to the flow of kind `probe` are the samples. It stands before the link, or behind it
//!   (`control.download`), where the probes that have crossed the link are the answers.
//!
//! **Source.** Borlaug 2014, section 6.3, figures 51 to 54.

mod kernel;

use self::kernel::Kernel;
use crate::error::ScenarioError;
use crate::network::{LinkIndex, Network, Observer};
use crate::segment::{Segment, flag};
use base::rng::{Rng, Streams, uniform};
use base::{Duration, Ecn, Packet, Time};
use control::download::{Download, Inbound};
use control::queue::Sent;
use control::upload::{Controller, Decision, UPDATE, Upload, Why};
use link::qdisc::Verdict;
use link::rate::Rate;
use serde::{Deserialize, Serialize};
use std::collections::{HashMap, VecDeque};

/// Host of the controller.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Host {
    /// Judges each packet; ACKs are the samples.
    #[default]
    Packets,
    /// Reads the kernel's counters and gives it orders; answers to probes are the samples.
    Kernel,
}

/// The section `[control]`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Control {
    /// Host of the controller.
    #[serde(default)]
    pub host: Host,
    /// Gateway before the link: keeps its queue short without shaping.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upload: Option<Upload>,
    /// Gateway behind the link: marks and drops packets that have crossed it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub download: Option<Download>,
}

const SHORTEST: Duration = Duration::from_millis(1);

impl Control {
    /// # Errors
    /// A value out of range.
    pub(crate) fn check(&self, probes: u64) -> Result<(), ScenarioError> {
        if self.host == Host::Kernel && probes != 1 {
            return Err(ScenarioError::Invalid(format!(
                "control.host = \"kernel\": one [[flow]] of kind \"probe\" gives the samples; here are {probes}"
            )));
        }
        if self.upload.is_some() == self.download.is_some() {
            return Err(ScenarioError::Invalid(
                "control: either control.upload, a gateway before the link, or control.download, one behind it".into(),
            ));
        }
        if let Some(Download { target, .. }) = self.download
            && (target < SHORTEST || self.host == Host::Packets)
        {
            return Err(ScenarioError::Invalid(format!(
                "control.download: target = \"{target}\": the target is at least {SHORTEST}, and control.host = \"kernel\""
            )));
        }
        if let Some(Upload { target, cap, .. }) = self.upload
            && (target < SHORTEST || cap <= target)
        {
            return Err(ScenarioError::Invalid(format!(
                "control.upload: target = \"{target}\", cap = \"{cap}\": the target is at least {SHORTEST}, and the cap is above it"
            )));
        }
        Ok(())
    }
}

/// Figures of the controller after the warm-up.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct ControlOutcome {
    /// Root mean square error of the estimated wait, ms.
    pub wait_rmse_ms: Option<f64>,
    /// Mean error of the estimated wait, ms.
    pub wait_bias_ms: Option<f64>,
    /// Root mean square error of the capacity while the queue stands, as a share of the link's rate.
    pub capacity_rmse: Option<f64>,
    /// Packets dropped and marked at the gateway; under the host `kernel` those of the warm-up, too.
    pub signals: u64,
    /// Share of the updates at which the wait was not trusted: others' queue, or probes that bypass the queue.
    pub distrusted: f64,
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
    hands: Hands,
    link: LinkIndex,
    back: LinkIndex,
    rate: Rate,
    sums: Sums,
}

/// Host of the controller at work.
enum Hands {
    Packets(Packets),
    Kernel(Kernel),
    Behind(Kernel<Inbound>),
}

/// Controller that judges each packet.
struct Packets {
    controller: Controller,
    sent: HashMap<u64, VecDeque<Unacked>>,
    /// Highest byte of each flow that was handed over.
    highest: HashMap<u64, u64>,
    draws: Rng,
}

#[derive(Default)]
struct Sums {
    updates: u64,
    blind: u64,
    distrusted: u64,
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
        let draws = streams.stream("gateway");
        let upload = control.upload.unwrap_or_default();
        let hands = match (control.download, control.host) {
            (Some(download), _) => Hands::Behind(Kernel::new(Inbound::new(download), draws)),
            (None, Host::Packets) => Hands::Packets(Packets {
                controller: Controller::new(upload),
                sent: HashMap::new(),
                highest: HashMap::new(),
                draws,
            }),
            (None, Host::Kernel) => Hands::Kernel(Kernel::new(Controller::new(upload), draws)),
        };
        let acting = Acting {
            hands,
            link,
            back,
            rate,
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
        match self.acting.as_ref().map(|a| &a.hands) {
            None => Time::MAX,
            Some(Hands::Packets(packets)) => packets.controller.due(),
            Some(Hands::Kernel(kernel)) => kernel.due(),
            Some(Hands::Behind(kernel)) => kernel.due(),
        }
    }

    /// Updates the controller, and compares it with the link if the warm-up is over.
    pub fn update(&mut self, now: Time, network: &Network, warmed: bool) {
        let Some(acting) = &mut self.acting else {
            return;
        };
        let decision = match &mut acting.hands {
            Hands::Packets(packets) => Some(packets.controller.update(now)),
            Hands::Kernel(kernel) => kernel.wake(now),
            Hands::Behind(kernel) => kernel.wake(now),
        };
        if let Some(decision) = decision.filter(|_| warmed) {
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
        let acting = self.acting.as_ref()?;
        let sums = &acting.sums;
        let mean = |sum: f64, n: f64| (n > 0.0).then(|| sum / n);
        Some(ControlOutcome {
            wait_rmse_ms: mean(sums.squares, sums.known).map(f64::sqrt),
            wait_bias_ms: mean(sums.error, sums.known),
            capacity_rmse: mean(sums.rate_squares, sums.rated).map(f64::sqrt),
            signals: match &acting.hands {
                Hands::Packets(_) => sums.signals,
                Hands::Kernel(kernel) => kernel.signals(),
                Hands::Behind(kernel) => kernel.signals(),
            },
            distrusted: sums.distrusted as f64 / sums.updates.max(1) as f64,
            blind: sums.blind as f64 / sums.updates.max(1) as f64,
        })
    }
}

impl Sums {
    fn add(&mut self, decision: &Decision, backlog: f64, rate: f64) {
        self.updates += 1;
        self.signals += decision.signals;
        self.distrusted += u64::from(matches!(decision.why, Why::Others | Why::Bypassed));
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

impl Packets {
    fn admit(&mut self, now: Time, packet: &Packet, segment: &Segment) -> Verdict {
        let draws = &mut self.draws;
        let draw = || uniform(draws);
        let verdict = self.controller.packet(now, packet.len, packet.ecn, draw);
        if verdict != Verdict::Drop {
            self.handed_over(now, packet, segment);
        }
        verdict
    }

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
        match &mut self.acting {
            Some(acting) if link == acting.link => match &mut acting.hands {
                Hands::Packets(packets) => packets.admit(now, packet, segment),
                Hands::Kernel(kernel) => kernel.admit(now, packet, segment),
                Hands::Behind(_) => Verdict::Forward,
            },
            _ => Verdict::Forward,
        }
    }

    fn exit(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) -> Verdict {
        match &mut self.acting {
            Some(acting) if link == acting.link => match &mut acting.hands {
                Hands::Behind(kernel) => kernel.arrived(now, packet, segment),
                _ => Verdict::Forward,
            },
            _ => Verdict::Forward,
        }
    }

    fn left(&mut self, now: Time, link: LinkIndex, packet: &Packet, segment: &Segment) {
        if let Some(acting) = &mut self.acting
            && link == acting.back
            && segment.is(flag::ACK)
            && let Hands::Packets(packets) = &mut acting.hands
        {
            packets.acknowledged(now, packet, segment);
        }
    }

    fn answer(&mut self, now: Time, _flow: usize, probe: &Segment, _ecn: Ecn) {
        if let Some(acting) = &mut self.acting
            && let Hands::Kernel(kernel) = &mut acting.hands
        {
            kernel.answered(now, probe);
        }
    }
}
