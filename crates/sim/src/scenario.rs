//! Scenarios: a TOML file with units and defaults, of which single values can be overridden.

use crate::calendar::Began;
use crate::document::Document;
use crate::error::ScenarioError;
use crate::fault::Fault;
use crate::flow::Flow;
use crate::gateway::Control;
use crate::lblca_ports::Routers;
use crate::tcp::Settings;
use crate::topology::TopologySpec;
use base::words::nearest;
use base::{Bytes, Duration};
use congestion::ControllerSpec;
use congestion::rtt;
use link::DirectionSpec;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use std::sync::Arc;
use toml::Table;

/// A whole simulation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// Title, one line.
    #[serde(default)]
    pub title: String,
    /// Length of the run.
    pub duration: Duration,
    /// Date of the experiment, such as `2014-05-04T15:55:00Z`; dates the recording.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub began: Option<Began>,
    /// End of the warm-up: figures count from here.
    #[serde(default)]
    pub warmup: Duration,
    /// Seed of all random effects.
    #[serde(default = "one")]
    pub seed: u64,
    /// Shape of the network.
    #[serde(default = "dumbbell")]
    pub topology: TopologySpec,
    /// Intervals of the samples.
    #[serde(default)]
    pub sample: Sample,
    /// The link under study; in a row, each of its links. A graph has edges instead.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link: Option<DirectionSpec>,
    /// Reverse direction; default: as `link`, with a queue that never fills.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reverse: Option<DirectionSpec>,
    /// Access links between hosts and routers, both directions; default: ten times as fast as `link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub access: Option<DirectionSpec>,
    /// Settings of TCP.
    #[serde(default)]
    pub tcp: Tcp,
    /// Link-by-link congestion avoidance: the watched links become its ports.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lblca: Option<Routers>,
    /// Latency control at a gateway before the first watched link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub control: Option<Control>,
    /// Sources, in order.
    #[serde(default, rename = "flow")]
    pub flows: Vec<Flow>,
    /// Links of `topology = "graph"`.
    #[serde(default, rename = "edge", skip_serializing_if = "Vec::is_empty")]
    pub edges: Vec<EdgeSpec>,
    /// Named phases, as in `tailback test`: `idle`, `up`, `down`, `both`.
    #[serde(default, rename = "phase", skip_serializing_if = "Vec::is_empty")]
    pub phases: Vec<Phase>,
    /// Faults of the measuring host.
    #[serde(default, rename = "fault", skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<Fault>,
    /// Source of the experiment and its printed results; not part of the simulation.
    #[serde(default, skip_serializing)]
    pub document: Option<Document>,
}

fn one() -> u64 {
    1
}
fn dumbbell() -> TopologySpec {
    "dumbbell".parse().expect("it is in the table")
}

/// Intervals between rows of the recording.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Sample {
    /// Interval of samples of the queues.
    pub queue: Duration,
    /// Interval of samples of TCP.
    pub flow: Duration,
    /// Interface counters in front of the first watched link: bytes handed to it and bytes received from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub traffic: Option<Duration>,
}

impl Default for Sample {
    fn default() -> Sample {
        Sample {
            queue: Duration::from_millis(10),
            flow: Duration::from_millis(100),
            traffic: None,
        }
    }
}

/// TCP settings; see [`Settings`].
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Congestion controller.
    pub controller: ControllerSpec,
    /// Payload of a full segment.
    pub mss: Bytes,
    /// IP and TCP headers of a data segment.
    pub header: Bytes,
    /// True if data wait for the handshake.
    pub handshake: bool,
    /// Initial window in segments; default: RFC 6928's.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub initial_window: Option<u64>,
    /// True if ACKs are delayed.
    pub delayed_ack: bool,
    /// Segments that a delayed ACK waits for.
    pub ack_every: u32,
    /// Longest delay of an ACK.
    pub ack_delay: Duration,
    /// Segments at the begin that are acknowledged at once.
    pub quick_acks: u32,
    /// True if every segment is acknowledged while the receive window grows.
    pub window_growth: bool,
    /// True for selective acknowledgements.
    pub sack: bool,
    /// True for limited transmit (RFC 3042).
    pub limited_transmit: bool,
    /// Duplicate ACKs that mean a loss.
    pub dup_thresh: u64,
    /// True if losses are found by time (RFC 8985).
    pub rack: bool,
    /// Fraction of ssthresh down to which recovery lowers the window; default: RFC 9937's reduction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate_halving: Option<f64>,
    /// True for tail loss probes (RFC 8985 section 7).
    pub tail_loss_probe: bool,
    /// True if ECN is negotiated; controllers that stand on marks have it in any case.
    pub ecn: bool,
    /// True if segments are paced under any controller.
    pub pacing: bool,
    /// True if paced segments leave in quanta of a millisecond.
    pub pacing_quantum: bool,
    /// Segments that leave together.
    pub burst: u64,
    /// Greatest number of bytes in flight.
    pub receive_window: Bytes,
    /// True if the window restarts after a silence (RFC 5681 section 4.1).
    pub idle_restart: bool,
    /// Minimum retransmission timeout: added to the RTT as in Linux, or a floor of the whole timeout with `rto_rfc`.
    pub min_rto: Duration,
    /// First retransmission time-out.
    pub initial_rto: Duration,
    /// True if the least time-out is of the whole time-out (RFC 6298).
    pub rto_rfc: bool,
}

impl Default for Tcp {
    fn default() -> Tcp {
        let s = Settings::default();
        Tcp {
            controller: (*s.controller).clone(),
            mss: s.mss,
            header: s.header,
            handshake: s.handshake,
            initial_window: s.initial_window,
            delayed_ack: s.delayed_ack,
            ack_every: s.ack_every,
            ack_delay: s.ack_delay,
            quick_acks: s.quick_acks,
            window_growth: s.window_growth,
            sack: s.sack,
            limited_transmit: s.limited_transmit,
            dup_thresh: s.dup_thresh,
            rack: s.rack,
            rate_halving: s.rate_halving,
            tail_loss_probe: s.tail_loss_probe,
            ecn: s.ecn,
            pacing: s.pacing,
            pacing_quantum: s.pacing_quantum,
            burst: s.burst,
            receive_window: s.receive_window,
            idle_restart: s.idle_restart,
            min_rto: s.rto.min,
            initial_rto: s.rto.initial,
            rto_rfc: s.rto.floor == rtt::Floor::Whole,
        }
    }
}

impl Tcp {
    /// Settings for an endpoint.
    pub fn settings(&self) -> Settings {
        Settings {
            controller: Arc::new(self.controller.clone()),
            mss: self.mss,
            header: self.header,
            handshake: self.handshake,
            initial_window: self.initial_window,
            delayed_ack: self.delayed_ack,
            ack_every: self.ack_every,
            ack_delay: self.ack_delay,
            quick_acks: self.quick_acks,
            window_growth: self.window_growth,
            sack: self.sack,
            limited_transmit: self.limited_transmit,
            dup_thresh: self.dup_thresh,
            rack: self.rack,
            rate_halving: self.rate_halving,
            tail_loss_probe: self.tail_loss_probe,
            ecn: self.ecn,
            pacing: self.pacing,
            max_pace: None,
            pacing_quantum: self.pacing_quantum,
            burst: self.burst,
            receive_window: self.receive_window,
            idle_restart: self.idle_restart,
            rto: rtt::Params {
                initial: self.initial_rto,
                min: self.min_rto,
                floor: if self.rto_rfc {
                    rtt::Floor::Whole
                } else {
                    rtt::Floor::Deviation
                },
                ..rtt::Params::linux()
            },
            dscp: 0,
        }
    }
}

/// Reads exactly two node names; serde's own array of two would accept more.
fn two_nodes<'de, D: Deserializer<'de>>(from: D) -> Result<[String; 2], D::Error> {
    let nodes = Vec::<String>::deserialize(from)?;
    match <[String; 2]>::try_from(nodes) {
        Ok(two) if two.iter().all(|node| !node.is_empty()) => Ok(two),
        Ok(two) => Err(D::Error::custom(format!(
            "between = {two:?}: each node needs a name"
        ))),
        Err(nodes) => Err(D::Error::custom(format!(
            "between = {nodes:?}: two nodes, such as [\"a\", \"b\"]"
        ))),
    }
}

/// Edge of a graph.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct EdgeSpec {
    /// Two nodes; `link` leads from the first to the second.
    #[serde(deserialize_with = "two_nodes")]
    pub between: [String; 2],
    /// Name in tables and recordings; default `a>b`. The reverse link is `b>a`, or `name/back`.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// True if the scenario studies this link's queue.
    #[serde(default)]
    pub watch: bool,
    /// Link of the edge.
    pub link: DirectionSpec,
    /// Reverse direction; default: as `link`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub back: Option<DirectionSpec>,
}

/// Named time of a scenario.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phase {
    /// Name of the phase.
    pub name: String,
    /// Begin, since the start of the run.
    pub from: Duration,
    /// End, since the start of the run.
    pub to: Duration,
    /// Warm-up within the phase: its figures count from this long after its start.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub warmup: Option<Duration>,
}

/// Returns the text of a file, or the reason why it cannot be read.
pub type ReadFile<'a> = &'a mut dyn FnMut(&str) -> Result<String, String>;

impl Scenario {
    /// Name of each `[[flow]]` in tables; a name that is already taken gets a number.
    pub fn labels(&self) -> Vec<String> {
        let mut labels: Vec<String> = Vec::new();
        for flow in &self.flows {
            let label = flow.label();
            let numbered = (2..).map(|n| format!("{label}-{n}"));
            let free = std::iter::once(label.clone())
                .chain(numbered)
                .find(|name| !labels.contains(name));
            labels.extend(free);
        }
        labels
    }

    /// Reads the files named by the scenario's links.
    pub(crate) fn load_traces(&mut self, read: ReadFile) -> Result<(), ScenarioError> {
        let named = |key: String, link: &mut DirectionSpec, read: ReadFile| {
            let of = |part, result: Result<(), link::SpecError>| {
                result.map_err(|e| ScenarioError::Invalid(format!("{key}.{part}: {e}")))
            };
            of("rate", link.rate.load(read))?;
            of("delays", link.load_delays(read))
        };
        for (key, link) in [
            ("link", &mut self.link),
            ("reverse", &mut self.reverse),
            ("access", &mut self.access),
        ] {
            if let Some(link) = link {
                named(key.into(), link, read)?;
            }
        }
        for (i, edge) in self.edges.iter_mut().enumerate() {
            named(format!("edge.{i}.link"), &mut edge.link, read)?;
            if let Some(back) = &mut edge.back {
                named(format!("edge.{i}.back"), back, read)?;
            }
        }
        Ok(())
    }

    /// Names of disciplines, controllers and sources that the program has added: their code is not this version's.
    ///
    /// # Errors
    /// A scenario that cannot be run.
    pub fn added(&self) -> Result<Vec<&'static str>, ScenarioError> {
        let mut names = Vec::new();
        for edge in &crate::plan::graph_of(self)?.edges {
            names.extend(edge.link.queue.is_added().then(|| edge.link.queue.name()));
        }
        for flow in &self.flows {
            let controller = self.tcp_of(flow)?.controller;
            names.extend(controller.is_added().then(|| controller.name()));
            names.extend(flow.spec().is_added().then(|| flow.kind()));
        }
        Ok(names)
    }

    /// TCP settings of a flow: `[tcp]` with the flow's overrides.
    ///
    /// # Errors
    /// An unknown key or an invalid value.
    pub fn tcp_of(&self, flow: &Flow) -> Result<Tcp, ScenarioError> {
        let mut table = Table::try_from(&self.tcp).expect("settings are plain data");
        table.extend(flow.tcp.clone());
        table.try_into().map_err(|e: toml::de::Error| {
            ScenarioError::Toml(format!(
                "flow \"{}\": tcp: {}",
                flow.label(),
                hinted(e.message())
            ))
        })
    }
}

/// Adds the nearest match to serde's message about an unknown field or variant.
pub(crate) fn hinted(message: &str) -> String {
    let mut quoted = message.split('`').skip(1).step_by(2);
    let known: Vec<&str>;
    let hint = match quoted.next() {
        Some(word) if message.contains("unknown field") || message.contains("unknown variant") => {
            known = quoted.collect();
            nearest(word, &known)
        }
        _ => None,
    };
    // Replaces Rust's names of number types with plain words.
    let message = &message
        .replace("expected u64", "expected a whole number from 0 on")
        .replace("expected u32", "expected a whole number from 0 on")
        .replace("expected f64", "expected a number");
    match hint {
        Some(hint) => format!("{}. Did you mean \"{hint}\"?", message.trim_end()),
        None => message.trim_end().to_string(),
    }
}
