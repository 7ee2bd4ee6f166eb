//! Probes as results of RIPE Atlas's measurement `ping`, a result a line of one JSON array.
//!
//! A result has up to three probes of a target, as those of Atlas by default. Atlas has no times of single packets, so each
//! has one under a name of our own, which its readers pass over.
//!
//! **Source.** RIPE Atlas, "Documentation of data structures", results of firmware 5080.

use super::probes::{self, Group};
use super::{Written, in_one_file};
use crate::scan::Source;
use base::record::{Delay, Status};
use serde_json::{Value, json};
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

/// Firmware whose results these are like.
const FIRMWARE: u32 = 5080;
/// Probes of a result, and the longest time between the first and the last one.
const RESULT: Group = Group {
    most: 3,
    span_ns: 60_000_000_000,
};

/// Writes the probes of all targets, or of one.
pub(super) fn write(
    from: Source<'_>,
    output: &Path,
    target: Option<&str>,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    let (rows, others) = in_one_file(output, |out| {
        let mut results = 0u64;
        let counts = probes::groups(from, target, &RESULT, &mut |target, probes| {
            let comma = if results == 0 { "[\n" } else { ",\n" };
            write!(out, "{comma}{}", result(target, probes))?;
            results += 1;
            Ok(())
        })?;
        writeln!(out, "{}", if results == 0 { "[]" } else { "\n]" })?;
        Ok(counts)
    })?;
    let file = output.to_owned();
    Ok((vec![Written { file, rows }], probes::left(others)))
}

/// One result.
fn result(target: &str, probes: &[Delay]) -> Value {
    let ms = |ns: i64| ns as f64 / 1e6;
    let first = probes.first().map_or(0, |p| p.sent_ns);
    let packet = |p: &Delay| {
        let mut packet = match p.rtt_ns {
            Some(rtt) => json!({ "rtt": ms(rtt) }),
            None => json!({ "x": "*" }),
        };
        if p.status == Status::Duplicate {
            packet["dup"] = 1.into();
        }
        packet["tailback_sent_ns"] = p.sent_ns.into();
        packet
    };
    let of = |status: Status| probes.iter().filter(|p| p.status == status).count();
    let copies = of(Status::Duplicate);
    let answers = probes.iter().filter(|p| p.status != Status::Duplicate);
    let rtts: Vec<f64> = answers.filter_map(|p| p.rtt_ns.map(ms)).collect();
    // Atlas writes -1 where nothing was answered.
    let found = stats::moments(&rtts);
    let (min, max, mean) = found.map_or((-1.0, -1.0, -1.0), |m| (m.min, m.max, m.mean));
    let protocol = match target {
        t if t.starts_with("icmp") => "ICMP",
        t if t.starts_with("tcp") => "TCP",
        _ => "UDP",
    };
    let mut result = json!({
        "fw": FIRMWARE,
        "lts": -1,
        "msm_id": 0,
        "msm_name": "Ping",
        "prb_id": 0,
        "type": "ping",
        "timestamp": first.div_euclid(1_000_000_000),
        "dst_name": target,
        "proto": protocol,
        "sent": probes.len() - copies,
        "rcvd": rtts.len(),
        "dup": copies,
        "min": min,
        "max": max,
        "avg": mean,
        "result": probes.iter().map(packet).collect::<Vec<_>>(),
    });
    let words = target.split([' ', '/', ',']);
    if let Some(address) = words.filter_map(|w| w.parse::<IpAddr>().ok()).next() {
        result["af"] = if address.is_ipv4() { 4 } else { 6 }.into();
        result["dst_addr"] = address.to_string().into();
    }
    result
}
