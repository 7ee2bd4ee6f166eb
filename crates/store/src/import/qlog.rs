//! Samples of QUIC senders in qlog: JSON, or JSON text sequences (RFC 7464).
//!
//! `metrics_updated` becomes rows of `flow`, one connection a flow. A value stays until an event changes it. The sender is
//! the host of the vantage point: the direction is up at a client and down at a server.
//!
//! **Source.** draft-ietf-quic-qlog-main-schema and draft-ietf-quic-qlog-quic-events, from qlog 0.3 on, in which events and
//! times are written in one of two forms each.

use super::file::{Fault, Imported};
use super::out::Out;
use base::record::{Direction, Flow};
use serde_json::Value;

/// Latest time accepted, ms since 1970.
const LATEST_MS: f64 = 9e12;
/// Longest round trip, ms, and largest window, bytes, that are believed.
const LONGEST_MS: f64 = 3_600_000.0;
const LARGEST: f64 = 9e15;

/// Time and connection of the events of one trace.
#[derive(Default)]
struct Trace {
    flow: i64,
    direction: Option<Direction>,
    /// Time to which others are relative, ms since 1970; null if it is unknown.
    epoch_ms: Option<f64>,
    /// True if each time counts from the event before.
    deltas: bool,
    before_ms: f64,
    state: Option<Flow>,
    unplaced: u64,
}

/// Reads a file; `flows` counts those of all files.
pub fn read(
    bytes: &[u8],
    out: &mut Out,
    told: &mut Imported,
    flows: &mut i64,
) -> Result<(), Fault> {
    let unreadable = |e: serde_json::Error| Fault::Unreadable(e.to_string());
    let mut traces = Vec::new();
    if bytes.contains(&0x1e) {
        let mut records = bytes.split(|b| *b == 0x1e);
        let texts = records.by_ref().filter(|r| !r.trim_ascii().is_empty());
        let mut trace = Trace::numbered(flows);
        for (place, text) in (0..).zip(texts) {
            match serde_json::from_slice::<Value>(text) {
                Ok(value) if place == 0 => trace.begin(&value["trace"], &value),
                Ok(value) => trace.event(&value, out),
                // A program that is stopped leaves half of its last record.
                Err(e) => told.wrong(place, e),
            }
        }
        traces.push(trace);
    } else {
        let file: Value = serde_json::from_slice(bytes).map_err(unreadable)?;
        for value in file["traces"].as_array().into_iter().flatten() {
            let mut trace = Trace::numbered(flows);
            trace.begin(value, &file);
            for event in value["events"].as_array().into_iter().flatten() {
                trace.event(event, out);
            }
            traces.push(trace);
        }
    }
    let unplaced: u64 = traces.iter().map(|t| t.unplaced).sum();
    if unplaced > 0 {
        told.notes.push(format!(
            "{unplaced} events have times since an unknown begin: left out"
        ));
    }
    if out.rows() == 0 && unplaced == 0 {
        return Err(Fault::Unreadable(
            "it has no event metrics_updated, which holds the state of a sender".into(),
        ));
    }
    Ok(())
}

impl Trace {
    /// The next flow.
    fn numbered(flows: &mut i64) -> Trace {
        let flow = *flows;
        *flows += 1;
        Trace {
            flow,
            ..Trace::default()
        }
    }

    fn begin(&mut self, trace: &Value, file: &Value) {
        let common = &trace["common_fields"];
        let of = |key: &str| match &common[key] {
            Value::Null => trace[key].clone(),
            value => value.clone(),
        };
        let server =
            trace["vantage_point"]["type"] == "server" || file["vantage_point"]["type"] == "server";
        self.direction = Some(if server {
            Direction::Down
        } else {
            Direction::Up
        });
        let format = of("time_format");
        let format = format.as_str().unwrap_or("absolute");
        self.deltas = matches!(format, "delta" | "relative_to_previous_event");
        let reference = of("reference_time");
        self.epoch_ms = match (format, &reference) {
            ("absolute", _) => Some(0.0),
            (_, Value::Number(n)) => n.as_f64(),
            (_, Value::Object(_)) => {
                let written = reference["epoch"].as_str().unwrap_or_default();
                let epoch: Option<jiff::Timestamp> = written.parse().ok();
                epoch.map(|t| t.as_millisecond() as f64)
            }
            _ => None,
        };
    }

    fn event(&mut self, event: &Value, out: &mut Out) {
        let (Some(time), Some(name)) = (event["time"].as_f64(), event["name"].as_str()) else {
            return;
        };
        let elapsed = if self.deltas {
            self.before_ms + time
        } else {
            time
        };
        self.before_ms = elapsed;
        let known = ["recovery:metrics_updated", "quic:recovery_metrics_updated"];
        if !known.contains(&name) {
            return;
        }
        let at_ms = self.epoch_ms.map(|epoch| epoch + elapsed);
        let Some(at_ms) = at_ms.filter(|ms| (0.0..LATEST_MS).contains(ms)) else {
            self.unplaced += 1;
            return;
        };
        let direction = self.direction.unwrap_or(Direction::Up);
        let state = self
            .state
            .get_or_insert_with(|| Flow::about(0, self.flow, direction));
        state.t_ns = (at_ms * 1e6) as i64;
        let data = &event["data"];
        let set = |key: &str, most: f64, scale: f64, to: &mut Option<i64>| {
            if let Some(value) = data[key].as_f64().filter(|v| (0.0..most).contains(v)) {
                *to = Some((value * scale).round() as i64);
            }
        };
        set("smoothed_rtt", LONGEST_MS, 1e6, &mut state.srtt_ns);
        set("rtt_variance", LONGEST_MS, 1e6, &mut state.rttvar_ns);
        set("min_rtt", LONGEST_MS, 1e6, &mut state.min_rtt_ns);
        set("congestion_window", LARGEST, 1.0, &mut state.cwnd_bytes);
        set("ssthresh", LARGEST, 1.0, &mut state.ssthresh_bytes);
        out.push(state);
    }
}
