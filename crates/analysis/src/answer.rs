//! The answer of `tailback test`: the analysis fills this shape, `--json` prints it and the report draws it. A figure
//! that is not known says why; it is never zero instead.

use crate::host_load::HostSummary;
use crate::services::Can;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Delays, Figure, Ipdv};

/// Version of this shape in `--json`.
pub const ANSWER_VERSION: u32 = 1;

/// Answer of a test.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Answer {
    /// Version of the shape, [`ANSWER_VERSION`].
    pub version: u32,
    /// Name of the run.
    pub title: String,
    /// Start of the run, UNIX ns.
    pub started_ns: i64,
    /// Length of the run, s.
    pub duration_s: f64,
    /// True if the run went to its planned end.
    pub complete: bool,
    /// Smallest round trip of the unloaded link, hosts' own share left out.
    pub base_rtt_ms: Figure,
    /// Idle, download, upload, both: in the order in which they ran.
    pub phases: Vec<PhaseAnswer>,
    /// Bottleneck of the downlink.
    pub down: DirectionAnswer,
    /// Bottleneck of the uplink.
    pub up: DirectionAnswer,
    /// The direction in which packets wait longest under load, or `None` where neither adds delay that matters.
    pub worst_direction: Option<base::record::Direction>,
    /// Round trips per minute under load.
    pub responsiveness: Responsiveness,
    /// Grade of the added delay.
    pub grade: Grade,
    /// Relation of the two ends' clocks.
    pub clock: ClockAnswer,
    /// Errors and limits of the instrument.
    pub instrument: Instrument,
    /// Findings, gravest first, each with its evidence.
    pub findings: Vec<Finding>,
    /// Recommended settings, ready to paste.
    pub advice: Vec<Advice>,
    /// Uses of a home's link: calls, games, video, web, work.
    #[serde(default)]
    pub uses: Vec<UseAnswer>,
}

/// Verdict on a use of the link under load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct UseAnswer {
    /// Name of the use.
    pub name: String,
    /// Verdict.
    pub can: Can,
    /// Figure that decided, with its limit.
    pub because: String,
    /// Limit of the 95 % point of the round trip, ms.
    pub rtt_limit_ms: f64,
}

/// Round trips and loss in one phase.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PhaseAnswer {
    /// `idle`, `down`, `up` or `both`.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// True if the figures were stable when the phase ended.
    pub stable: bool,
    /// Reason why the phase was not stable, or the time until it was.
    pub stability: String,
    /// Round trips of the probes on their own flow, warm-up left out.
    pub rtt: Delays,
    /// Packet delay variation of those round trips.
    #[serde(default)]
    pub ipdv: Ipdv,
    /// Delay added upstream, from one-way delays.
    pub added_up: Delays,
    /// Delay added downstream.
    pub added_down: Delays,
    /// Round trips that the load's own packets saw (TCP_INFO of the sender), weighted by time; null in the idle phase.
    pub in_flow_rtt: Option<Delays>,
    /// Loss of the probes.
    pub loss: Loss,
    /// Payload rate of the load.
    pub goodput_down_bps: Option<Figure>,
    /// Payload rate of the upload.
    pub goodput_up_bps: Option<Figure>,
    /// Traffic of others on the interface while the test ran; null if no interface was watched, or if the link's queues
    /// held the load of an earlier phase for most of it.
    pub cross_traffic_bps: Option<f64>,
    /// Share of probes answered within each limit, loss counted as not answered.
    pub reliability: Vec<Reliability>,
}

/// Loss of probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Loss {
    /// Probes sent.
    pub sent: u64,
    /// Probes without an answer in time.
    pub lost: u64,
    /// Probes lost on the uplink.
    pub lost_up: u64,
    /// Probes lost on the downlink.
    pub lost_down: u64,
    /// Answers after the limit for loss.
    pub late: u64,
    /// Further answers to a probe.
    pub duplicates: u64,
    /// Probes with impossible times.
    pub invalid: u64,
    /// Slots in which nothing was sent.
    pub not_sent: u64,
    /// lost / sent × 100, with its interval.
    pub percent: Figure,
    /// Lengths of runs of consecutive losses: (length, how often).
    pub bursts: Vec<(u64, u64)>,
    /// Loss pattern in words: none, single, in bursts, at the top of the queue.
    pub pattern: String,
}

/// Share of probes answered within a limit.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Reliability {
    /// Limit of the round trip, ms.
    pub limit_ms: f64,
    /// Share of the probes, 0 to 1.
    pub share: Figure,
}

/// The bottleneck of one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DirectionAnswer {
    /// Payload rate under load.
    pub goodput_bps: Figure,
    /// Rate of the bottleneck counted in whole IP packets.
    pub link_rate_bps: Figure,
    /// Standard deviation of the full link's rate as a share of its mean; null where the link was not full long enough to say.
    #[serde(default)]
    pub rate_varies: Option<f64>,
    /// Wait of a packet in the full queue.
    pub queue_ms: Figure,
    /// Backlog of the full queue: `queue_ms` × `link_rate_bps`.
    pub queue_bytes: Figure,
    /// Meaning of `queue_ms`: the queue's size, or only a bound or level of it.
    pub queue_is: QueueIs,
    /// Base round trip × link rate.
    pub bdp_bytes: Figure,
    /// `queue_bytes` / `bdp_bytes`.
    pub factor_too_large: Figure,
    /// Delay added under load in this direction (p50, p95, p99, max), from the phase that loads it alone.
    pub added: Delays,
    /// Kind of the queue, with the evidence.
    pub discipline: DisciplineGuess,
    /// Median round trip of the load's own packets minus that of the probes, in the same phase.
    pub in_flow_minus_probe_ms: Figure,
}

/// Meaning of the size of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum QueueIs {
    /// The queue was seen full: `queue_ms` is the size of the buffer.
    Size,
    /// The queue was never seen full: the buffer is at least this large.
    AtLeast,
    /// An AQM keeps the queue short: `queue_ms` is the level to which it let the queue grow.
    Controlled,
}

/// Kind of a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Discipline {
    DropTail,
    Aqm,
    FairQueueing,
    /// Fair queueing whose queues an AQM keeps short.
    FairQueueingAqm,
    /// No queue: traffic above the rate is dropped at once.
    Policer,
    CannotTell,
}

/// Verdict on the kind of a queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DisciplineGuess {
    /// Kind of the queue.
    pub is: Discipline,
    /// Evidence, one line for each observation, with its numbers.
    pub evidence: Vec<String>,
    /// Measurement that would settle a verdict of `cannot_tell`.
    pub would_settle: Option<String>,
}

/// Round trips per minute, draft-ietf-ippm-responsiveness.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Responsiveness {
    /// Document and variant that define the number.
    pub formula: String,
    /// The score of the draft: the mean of `foreign_rpm` and `loaded_rpm`.
    pub rpm: Figure,
    /// Score of fresh connections.
    pub foreign_rpm: Figure,
    /// Score of the load's own connections.
    pub loaded_rpm: Figure,
    /// The other common formula: 60 000 / mean of both trimmed means in ms.
    pub harmonic_rpm: Figure,
    /// Trimmed mean of the fresh connections' times, ms.
    pub foreign_ms: Figure,
    /// Trimmed mean of the load's own round trips, ms.
    pub loaded_ms: Figure,
}

/// Grade of the added delay.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Grade {
    /// `A+` to `F`, or `?`.
    pub letter: String,
    /// Name and thresholds of the scale, and what it was applied to.
    pub scale: String,
    /// The figure that decided.
    pub added_ms: Figure,
}

/// Trust in the one-way delays.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClockAnswer {
    /// Far clock minus near clock at the start.
    pub offset_ms: Figure,
    /// Drift of the far clock against the near one, parts in a million.
    pub drift_ppm: Figure,
    /// Trust in words: both ends share one clock, or the bound from the smallest round trip and its assumptions.
    pub trust: String,
}

/// Errors and limits of the instrument itself.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Instrument {
    /// Slots of the plan.
    pub probes_planned: u64,
    /// Probes sent.
    pub probes_sent: u64,
    /// Slots in which the host sent nothing.
    pub missed_slots: u64,
    /// Delay that the hosts added and that was subtracted, over all answered probes.
    pub host_share: Delays,
    /// Lateness of sending.
    pub late_send: Delays,
    /// Largest share of all processors that was busy, 0 to 1.
    pub cpu_max: Option<f64>,
    /// Load of this host's processors; null if it was not sampled.
    #[serde(default)]
    pub host: Option<HostSummary>,
    /// Reasons to distrust the run, empty where there are none.
    pub doubts: Vec<String>,
}

/// Severity of a finding.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "lowercase")]
pub enum Severity {
    Good,
    Note,
    Warning,
    Bad,
}

/// Finding with its evidence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Finding {
    /// Severity of the finding.
    pub severity: Severity,
    /// Sentence that a person can act on.
    pub says: String,
    /// The numbers behind it.
    pub evidence: Vec<String>,
}

/// Recommended setting.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Advice {
    /// Effect of the setting, in one sentence.
    pub what: String,
    /// System that the commands are for: `Linux`, `OpenWrt`, `any router`.
    pub on: String,
    /// Commands, one a line, that run beside the script; empty if the setting is an entry in a menu.
    pub commands: Vec<String>,
    /// Script that the commands run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub script: Option<Script>,
}

/// Script of an advice. It may be run twice, is undone by its argument `off`, and survives a reboot.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Script {
    /// Name of the file, without a directory.
    pub file: String,
    /// Text of the file.
    pub text: String,
}
