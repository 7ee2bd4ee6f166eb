//! States of the senders of transfers as qlog 0.3, JSON text sequences (RFC 7464), a file a flow in one directory.
//!
//! Each sample of a sender is an event `recovery:metrics_updated`. The transfers are of TCP; the event is that of QUIC, whose
//! fields mean the same. The vantage point is the host that sends: the client of uploads, the server of downloads.
//!
//! **Source.** draft-ietf-quic-qlog-main-schema-02 and draft-ietf-quic-qlog-quic-events-02, which are qlog 0.3.

use super::{Written, stop};
use crate::scan::{self, Source};
use anyhow::Context;
use base::record::{Direction, Flow, Meta, Row, TableId};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use store::disk;

/// Most flows, and so open files.
const MOST_FLOWS: usize = 256;

struct Begun {
    path: PathBuf,
    out: BufWriter<File>,
    rows: u64,
}

/// Writes the samples that hold a sender's state.
pub(super) fn write(
    from: Source<'_>,
    meta: &Meta,
    directory: &Path,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    std::fs::create_dir(directory)
        .with_context(|| format!("cannot create {}", directory.display()))?;
    let written = flows(from, meta, directory);
    if !written.as_ref().is_ok_and(|w| !w.0.is_empty()) {
        // It was begun by this run and holds nothing that cannot be had again.
        let _ = std::fs::remove_dir_all(directory);
    }
    written
}

fn flows(
    from: Source<'_>,
    meta: &Meta,
    directory: &Path,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    let mut files: BTreeMap<i64, Begun> = BTreeMap::new();
    let (mut failed, mut receivers, mut beyond) = (None, 0u64, 0u64);
    scan::each_row(from, TableId::Flow, &mut |row| {
        let Row::Flow(flow) = row else { return };
        if failed.is_some() {
            return;
        }
        if flow.cwnd_bytes.is_none() && flow.srtt_ns.is_none() {
            receivers += 1;
        } else if !files.contains_key(&flow.flow) && files.len() >= MOST_FLOWS {
            beyond += 1;
        } else {
            failed = sample(&mut files, meta, directory, &flow).err();
        }
    })?;
    failed.map_or(Ok(()), Err)?;
    stop(from)?;
    let mut written = Vec::new();
    for begun in files.into_values() {
        let file = begun
            .out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        written.push(Written {
            file: begun.path,
            rows: begun.rows,
        });
    }
    let told = |n: u64, what: String| (n > 0).then(|| format!("{n} {what}"));
    let left = [
        told(
            receivers,
            "samples of receivers, which qlog has no event for".into(),
        ),
        told(
            beyond,
            format!("samples of flows beyond the first {MOST_FLOWS}"),
        ),
    ];
    Ok((written, left.into_iter().flatten().collect()))
}

fn sample(
    files: &mut BTreeMap<i64, Begun>,
    meta: &Meta,
    directory: &Path,
    flow: &Flow,
) -> anyhow::Result<()> {
    let begun = match files.entry(flow.flow) {
        Entry::Occupied(begun) => begun.into_mut(),
        Entry::Vacant(place) => place.insert(begin(meta, directory, flow)?),
    };
    begun.rows += 1;
    record(&mut begun.out, &event(meta.started_ns, flow))
}

/// Begins the file of a flow.
fn begin(meta: &Meta, directory: &Path, flow: &Flow) -> anyhow::Result<Begun> {
    let (way, host) = match flow.direction {
        Direction::Up => ("up", "client"),
        Direction::Down => ("down", "server"),
    };
    let path = directory.join(format!("flow-{}-{way}.sqlog", flow.flow));
    let file =
        disk::create_new(&path).with_context(|| format!("cannot create {}", path.display()))?;
    let mut out = BufWriter::new(file);
    let head = json!({
        "qlog_version": "0.3",
        "qlog_format": "JSON-SEQ",
        "title": format!("{}: flow {} {way}", meta.title, flow.flow),
        "trace": {
            "vantage_point": { "name": "tailback", "type": host },
            "common_fields": {
                "protocol_type": ["TCP"],
                "time_format": "relative",
                "reference_time": meta.started_ns as f64 / 1e6,
            },
        },
    });
    record(&mut out, &head)?;
    Ok(Begun { path, out, rows: 0 })
}

fn event(started_ns: i64, flow: &Flow) -> Value {
    let ms = |ns: i64| ns as f64 / 1e6;
    let fields = [
        ("smoothed_rtt", flow.srtt_ns.map(ms)),
        ("rtt_variance", flow.rttvar_ns.map(ms)),
        ("min_rtt", flow.min_rtt_ns.map(ms)),
        ("congestion_window", flow.cwnd_bytes.map(|b| b as f64)),
        ("ssthresh", flow.ssthresh_bytes.map(|b| b as f64)),
    ];
    let known = fields.into_iter().filter_map(|(name, value)| {
        let value = value?;
        // Bytes are whole numbers.
        let number = match value.fract() == 0.0 {
            true => json!(value as i64),
            false => json!(value),
        };
        Some((name.to_owned(), number))
    });
    json!({
        "time": ms(flow.t_ns.saturating_sub(started_ns)),
        "name": "recovery:metrics_updated",
        "data": known.collect::<serde_json::Map<_, _>>(),
    })
}

fn record(out: &mut impl Write, value: &Value) -> anyhow::Result<()> {
    writeln!(out, "\u{1e}{value}")?;
    Ok(())
}
