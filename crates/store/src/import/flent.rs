//! `.flent.gz`, data format version 4 and earlier versions with the same field names.
//!
//! Series of delays become probes; series of rates become samples of a transfer (bytes so far). The raw values are used
//! if present; `results` has them interpolated to a common step.

use super::file::{Fault, Imported};
use super::out::Out;
use base::record::{Delay, Direction, Flow, Status, Text};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;

#[derive(Deserialize)]
struct Flent {
    version: Option<u32>,
    metadata: Metadata,
    #[serde(default)]
    x_values: Vec<f64>,
    #[serde(default)]
    results: BTreeMap<String, Vec<Option<f64>>>,
    #[serde(default)]
    raw_values: BTreeMap<String, Vec<Value>>,
}

#[derive(Deserialize)]
struct Metadata {
    #[serde(rename = "T0")]
    t0: Option<String>,
    #[serde(rename = "TIME")]
    time: Option<String>,
    #[serde(rename = "SERIES_META", default)]
    series: BTreeMap<String, Value>,
}

/// Latest time accepted, s; i64 nanoseconds hold it with a margin.
const LATEST_S: f64 = 9e9;

/// Raw value, or value of `results`.
struct Point {
    t_ns: i64,
    value: Option<f64>,
    seq: Option<i64>,
    owd_up_ms: Option<f64>,
    owd_down_ms: Option<f64>,
    lost: Option<Status>,
    /// True if `t` is the arrival time of the answer, not the send time of the probe.
    at_receipt: bool,
}

pub fn read(bytes: &[u8], out: &mut Out, told: &mut Imported) -> Result<(), Fault> {
    let flent: Flent =
        serde_json::from_slice(bytes).map_err(|e| Fault::Unreadable(e.to_string()))?;
    if flent.version.is_some_and(|v| v > 4) {
        told.notes.push(format!(
            "written as version {} of flent's format; this build knows 4",
            flent.version.unwrap_or_default()
        ));
    }
    let begin = [&flent.metadata.t0, &flent.metadata.time]
        .into_iter()
        .flatten()
        .find_map(|t| instant(t))
        .ok_or_else(|| Fault::Unreadable("neither T0 nor TIME in its metadata is a time".into()))?;
    let mut flow = 0;
    let names: Vec<&String> = flent
        .results
        .keys()
        .chain(flent.raw_values.keys())
        .collect();
    let mut done: Vec<&str> = Vec::new();
    for name in names {
        if done.contains(&&**name) {
            continue;
        }
        done.push(name);
        let raw = flent.raw_values.get(name).filter(|r| !r.is_empty());
        let derived = ["avg", "sum", "totals", "total", "average"];
        let last = name.rsplit(' ').next().unwrap_or_default();
        if raw.is_none() && derived.contains(&last) {
            continue;
        }
        let meta = flent.metadata.series.get(name);
        let units = meta.and_then(|m| m.get("UNITS")).and_then(Value::as_str);
        let runner = meta.and_then(|m| m.get("RUNNER")).and_then(Value::as_str);
        let points: Vec<Point> = match raw {
            Some(raw) => points(raw, runner == Some("IrttRunner"), told, name),
            None => {
                let values = flent.results.get(name).into_iter().flatten();
                let at =
                    |x: f64| begin.saturating_add((x.clamp(0.0, LATEST_S) * 1e9).round() as i64);
                let pairs = flent.x_values.iter().zip(values);
                pairs.map(|(x, v)| Point::bare(at(*x), *v)).collect()
            }
        };
        let delays = units == Some("ms") || name.starts_with("Ping (ms)");
        let lower = name.to_lowercase();
        let direction = if lower.contains("download") {
            Some(Direction::Down)
        } else if lower.contains("upload") {
            Some(Direction::Up)
        } else {
            None
        };
        let rates = units.is_none_or(|u| u == "Mbit/s" || u == "Mbits/s");
        match direction {
            _ if delays => probes(&points, name, raw.is_none(), out),
            Some(direction) if rates => {
                transfer(&points, flow, direction, out);
                flow += 1;
            }
            _ => told.notes.push(format!(
                "series {name:?} ({}) is neither a delay nor a rate and is left out",
                units.unwrap_or("unit unknown")
            )),
        }
    }
    Ok(())
}

impl Point {
    fn bare(t_ns: i64, value: Option<f64>) -> Point {
        Point {
            t_ns,
            value,
            seq: None,
            owd_up_ms: None,
            owd_down_ms: None,
            lost: None,
            at_receipt: false,
        }
    }
}

fn points(raw: &[Value], irtt: bool, told: &mut Imported, name: &str) -> Vec<Point> {
    let mut points = Vec::with_capacity(raw.len());
    for (place, value) in (1..).zip(raw) {
        let number = |key: &str| value.get(key).and_then(Value::as_f64);
        let Some(t) = number("t").filter(|t| (0.0..LATEST_S).contains(t)) else {
            told.wrong(place, format_args!("{name:?}: {value} has no time"));
            continue;
        };
        let lost = value.get("lost").and_then(Value::as_bool) == Some(true);
        let direction = value.get("lost_dir").and_then(Value::as_str);
        points.push(Point {
            t_ns: (t * 1e9).round() as i64,
            value: number("val"),
            seq: value.get("seq").and_then(Value::as_i64),
            owd_up_ms: number("owd_up"),
            owd_down_ms: number("owd_down"),
            lost: lost.then_some(match direction {
                Some("up") => Status::LostUp,
                Some("down") => Status::LostDown,
                _ => Status::Lost,
            }),
            at_receipt: !irtt,
        });
    }
    points
}

/// Converts a delay series to probes. Steps without a value in `results` were not measured and give no probe.
fn probes(points: &[Point], name: &str, steps: bool, out: &mut Out) {
    let target: Text = name.into();
    let ns = |ms: f64| (ms * 1e6).round() as i64;
    for (place, p) in (0..).zip(points) {
        let rtt_ns = p.value.filter(|_| p.lost.is_none()).map(ns);
        if rtt_ns.is_none() && steps {
            continue;
        }
        let before = rtt_ns.filter(|_| p.at_receipt).unwrap_or_default();
        out.push(&Delay {
            rtt_ns,
            owd_up_ns: p.owd_up_ms.map(ns),
            owd_down_ns: p.owd_down_ms.map(ns),
            status: match rtt_ns {
                Some(_) => Status::Ok,
                None => p.lost.unwrap_or(Status::Lost),
            },
            ..Delay::unanswered(
                p.t_ns.saturating_sub(before),
                p.seq.unwrap_or(place),
                target.clone(),
            )
        });
    }
}

/// Converts a rate series to a transfer. A rate holds for the time since the preceding point.
fn transfer(points: &[Point], flow: i64, direction: Direction, out: &mut Out) {
    let mut bytes = 0.0;
    let mut before: Option<i64> = None;
    for p in points {
        if let (Some(earlier), Some(rate_mbps)) = (before, p.value) {
            bytes += rate_mbps * 1e6 / 8.0 * ((p.t_ns as f64 - earlier as f64) / 1e9);
        }
        before = Some(p.t_ns);
        let so_far = Some(bytes.round() as i64);
        let mut sample = Flow::about(p.t_ns, flow, direction);
        match direction {
            Direction::Up => sample.bytes_acked = so_far,
            Direction::Down => sample.bytes_received = so_far,
        }
        out.push(&sample);
    }
}

/// Parses `2026-01-01T00:00:00.000000Z`; without a zone it is UTC, as flent writes it.
fn instant(text: &str) -> Option<i64> {
    let stamp: Option<jiff::Timestamp> = text.parse().ok();
    let stamp = stamp.or_else(|| format!("{text}Z").parse().ok())?;
    i64::try_from(stamp.as_nanosecond()).ok()
}
