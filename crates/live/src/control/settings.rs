//! Settings of a run, and the row of one of its decisions.

use crate::clock::Clock;
use base::record::{Decision as DecisionRow, Direction};
use base::{Bytes, Duration};
use control::download::Download;
use control::shape::Shape;
use control::upload::{Decision, Upload, Why};
use serde::{Deserialize, Serialize};

/// Directions to control.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Directions {
    #[default]
    Up,
    Down,
    Both,
}

/// Settings of a run; the recording stores them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Settings {
    /// WAN interface of the gateway.
    pub wan: String,
    /// Directions to control.
    #[serde(default)]
    pub directions: Directions,
    /// Law, target and cap of the upload.
    pub upload: Upload,
    /// Target of the download.
    #[serde(default)]
    pub download: Download,
    /// Interface whose shaper follows the uplink, instead of signals.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape_up: Option<String>,
    /// Interface whose shaper follows the downlink: an IFB device.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shape_down: Option<String>,
    /// Target of the shapers.
    #[serde(default)]
    pub shape: Shape,
    /// Interval between probes.
    pub interval: Duration,
    /// Bytes that the link adds to each packet beyond its IP size; may be negative.
    pub overhead: i64,
    /// Packets of at most this IP size are never signalled.
    pub small: Bytes,
    /// DSCPs that are never signalled: the real-time band.
    pub exempt: Vec<u8>,
    /// True to act; false for a dry run.
    pub apply: bool,
    /// Longest wait for the server at the start.
    pub patience: Duration,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            wan: String::new(),
            directions: Directions::default(),
            upload: Upload::default(),
            download: Download::default(),
            shape_up: None,
            shape_down: None,
            shape: Shape::default(),
            interval: Duration::from_millis(20),
            overhead: 0,
            small: Bytes::new(256),
            // Expedited forwarding (RFC 3246), voice admit (RFC 5865).
            exempt: vec![46, 44],
            apply: false,
            patience: Duration::from_secs(5),
        }
    }
}

/// Row of a decision without the counts.
pub(super) fn decision_row(
    settings: &Settings,
    direction: Direction,
    decision: &Decision,
    clock: Clock,
) -> DecisionRow {
    let ns = |d: Duration| d.as_nanos() as i64;
    let bps = |bytes_per_s: f64| (bytes_per_s.is_finite()).then_some((bytes_per_s * 8.0) as i64);
    let capacity = decision.capacity;
    let why = serde_json::to_value(decision.why).unwrap_or_default();
    DecisionRow {
        t_ns: clock.from_mono_ns(clock.mono_of(decision.at)),
        interface: settings.wan.as_str().into(),
        direction,
        why: why.as_str().unwrap_or_default().into(),
        applied: settings.apply,
        wait_ns: (decision.why != Why::Blind).then(|| ns(decision.wait)),
        probed_wait_ns: decision.probed.map(ns),
        capacity_bps: capacity.and_then(|c| bps(c.value)),
        capacity_low_bps: capacity.and_then(|c| bps(c.low)),
        capacity_high_bps: capacity.and_then(|c| bps(c.high)),
        passed_bytes: 0,
        signals: 0,
        probability: None,
        marks: 0,
        drops: 0,
        shaper_bps: None,
    }
}
