//! Probes and transfers as a data file of flent, format 4: raw values, which hold the truth, and `results` at one step, which
//! flent plots.

use super::{Written, probes};
use crate::scan::{self, Source};
use anyhow::Context;
use base::record::{Direction, Meta, Row, TableId};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::path::Path;

/// Step of `results`, s: flent's default.
const STEP_S: f64 = 0.2;
/// Longest gap that is interpolated, s.
const GAP_S: f64 = 1.0;
/// Most steps of `results`.
const MOST_STEPS: f64 = 5e6;

/// Values of a series over time.
#[derive(Default)]
struct Series {
    /// Time, UNIX ns, and value; null if the probe was lost.
    points: Vec<(i64, Option<f64>)>,
    units: &'static str,
    /// Sequence numbers, of probes.
    seqs: Vec<i64>,
}

impl Series {
    fn raw(&self) -> Value {
        let point = |(i, &(t_ns, value)): (usize, &(i64, Option<f64>))| {
            let mut point = json!({ "t": t_ns as f64 / 1e9, "val": value });
            if let Some(seq) = self.seqs.get(i) {
                point["seq"] = json!(seq);
            }
            if value.is_none() {
                point["lost"] = json!(true);
            }
            point
        };
        self.points.iter().enumerate().map(point).collect()
    }

    /// Values at these times, on lines between neighbours that are near each other; null elsewhere.
    fn at_steps(&self, begin_ns: i64, steps: usize) -> Vec<Option<f64>> {
        let known: Vec<(f64, f64)> = self
            .points
            .iter()
            .filter_map(|&(t, v)| Some(((t - begin_ns) as f64 / 1e9, v?)))
            .collect();
        let at = |step: usize| {
            let x = step as f64 * STEP_S;
            let after = known.partition_point(|p| p.0 < x);
            let next = known.get(after)?;
            if next.0 == x {
                return Some(next.1);
            }
            let before = known.get(after.checked_sub(1)?)?;
            let gap = next.0 - before.0;
            let share = (x - before.0) / gap;
            (gap <= GAP_S).then_some(before.1 + share * (next.1 - before.1))
        };
        (0..steps).map(at).collect()
    }
}

/// Series of a recording, by flent's names.
fn series(from: Source<'_>, target: Option<&str>) -> anyhow::Result<BTreeMap<String, Series>> {
    let mut all: BTreeMap<String, Series> = BTreeMap::new();
    probes::each(from, &mut |delay| {
        if target.is_some_and(|t| *delay.target != *t) || !delay.status.was_sent() {
            return;
        }
        let series = all
            .entry(format!("Ping (ms) {}", delay.target))
            .or_default();
        series.units = "ms";
        let rtt_ms = delay.rtt_ms();
        // The time is that of the answer, as of flent's own pings.
        let after = delay
            .rtt_ns
            .filter(|_| rtt_ms.is_some())
            .unwrap_or_default();
        series
            .points
            .push((delay.sent_ns.saturating_add(after), rtt_ms));
        series.seqs.push(delay.seq);
    })?;
    let mut last: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    scan::each_row(from, TableId::Flow, &mut |row| {
        let Row::Flow(flow) = row else { return };
        let (bytes, way) = match flow.direction {
            Direction::Up => (flow.bytes_acked.or(flow.delivered_bytes), "upload"),
            Direction::Down => (flow.bytes_received, "download"),
        };
        let Some(bytes) = bytes else { return };
        let before = last.insert(flow.flow, (flow.t_ns, bytes));
        let series = all
            .entry(format!("TCP {way} BE::{}", flow.flow + 1))
            .or_default();
        series.units = "Mbits/s";
        if let Some((t, had)) = before.filter(|b| b.0 < flow.t_ns && b.1 <= bytes) {
            let rate = (bytes - had) as f64 * 8e3 / (flow.t_ns - t) as f64;
            series.points.push((flow.t_ns, Some(rate)));
        }
    })?;
    all.retain(|_, s| !s.points.is_empty());
    for series in all.values_mut() {
        // The answers of probes may overtake each other.
        let mut order: Vec<usize> = (0..series.points.len()).collect();
        order.sort_by_key(|&i| series.points[i].0);
        series.points = order.iter().map(|&i| series.points[i]).collect();
        if !series.seqs.is_empty() {
            series.seqs = order.iter().map(|&i| series.seqs[i]).collect();
        }
    }
    Ok(all)
}

/// Name of the flent test whose plots fit these series.
fn test_name(all: &BTreeMap<String, Series>) -> &'static str {
    match all.keys().any(|k| k.starts_with("TCP")) {
        true => "rrul_be_nflows",
        false => "ping",
    }
}

/// Values of series at the steps; null where a series has none.
type Results = BTreeMap<String, Vec<Option<f64>>>;

/// Adds the sums and means that flent's plots show, of the series whose names begin alike.
fn derive(results: &mut Results) {
    let names = [
        ("TCP upload", "TCP upload sum", "TCP upload avg"),
        ("TCP download", "TCP download sum", "TCP download avg"),
        ("TCP", "TCP totals", ""),
        ("Ping (ms)", "", "Ping (ms) avg"),
    ];
    let mut derived = Results::new();
    for (begin, sum, mean) in names {
        let of: Vec<_> = results.iter().filter(|r| r.0.starts_with(begin)).collect();
        let steps = of.first().map_or(0, |r| r.1.len());
        for step in 0..steps {
            let known: Vec<f64> = of.iter().filter_map(|r| r.1[step]).collect();
            let total = (!known.is_empty()).then(|| known.iter().sum::<f64>());
            for (name, value) in [(sum, total), (mean, total.map(|t| t / known.len() as f64))] {
                if !name.is_empty() {
                    derived.entry(name.to_owned()).or_default().push(value);
                }
            }
        }
    }
    results.extend(derived);
}

/// Writes the probes, of one target if it is named, and the transfers.
pub(super) fn write(
    from: Source<'_>,
    meta: &Meta,
    output: &Path,
    target: Option<&str>,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    if target.is_some() {
        probes::one_target(from, target)?;
    }
    let all = series(from, target)?;
    let times = || all.values().flat_map(|s| s.points.iter().map(|p| p.0));
    let (Some(begin), Some(end)) = (times().min(), times().max()) else {
        return Ok((Vec::new(), Vec::new()));
    };
    let length_s = (end - begin) as f64 / 1e9;
    if length_s / STEP_S > MOST_STEPS {
        return Err(crate::usage(format!(
            "{length_s:.0} s are too long for flent, whose files have a value each {STEP_S} s: {} s at most",
            MOST_STEPS * STEP_S
        )));
    }
    let steps = (length_s / STEP_S) as usize + 1;
    let mut results: Results = all
        .iter()
        .map(|(k, s)| (k.clone(), s.at_steps(begin, steps)))
        .collect();
    derive(&mut results);
    let raw: BTreeMap<_, _> = all.iter().map(|(k, s)| (k, s.raw())).collect();
    let about: BTreeMap<_, _> = all
        .iter()
        .map(|(k, s)| (k, json!({ "UNITS": s.units })))
        .collect();
    let time = jiff::Timestamp::from_nanosecond(i128::from(begin)).unwrap_or_default();
    let time = format!("{time:.6}");
    let file = json!({
        "version": 4,
        "metadata": {
            "NAME": test_name(&all),
            "TITLE": meta.title,
            "TIME": time,
            "T0": time,
            "STEP_SIZE": STEP_S,
            "LENGTH": length_s,
            "TOTAL_LENGTH": length_s,
            "HOST": "",
            "LOCAL_HOST": "",
            "DATA_FILENAME": output.file_name().map(|n| n.to_string_lossy()),
            "NOTE": format!("written by {}", meta.writer),
            "SERIES_META": about,
        },
        "x_values": (0..steps).map(|s| s as f64 * STEP_S).collect::<Vec<_>>(),
        "results": results,
        "raw_values": raw,
    });
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    serde_json::to_writer(&mut packed, &file)?;
    store::disk::write_whole(output, &packed.finish()?)
        .with_context(|| format!("cannot write {}", output.display()))?;
    let written = Written {
        file: output.to_owned(),
        rows: all.values().map(|s| s.points.len() as u64).sum(),
    };
    Ok((vec![written], left_out(from)?))
}

/// Tables of the recording that flent has no place for.
fn left_out(from: Source<'_>) -> anyhow::Result<Vec<String>> {
    let kept = [TableId::Delay, TableId::Flow];
    let mut left = Vec::new();
    for &table in TableId::ALL.iter().filter(|t| !kept.contains(t)) {
        if !store::table_files(from.path, table)?.is_empty() {
            left.push(table.spec().name);
        }
    }
    let told = (!left.is_empty()).then(|| format!("the tables {}", left.join(", ")));
    Ok(told.into_iter().collect())
}
