//! Results of RIPE Atlas's measurement `ping`: a JSON array, or a result a line.
//!
//! A result has the time of its first packet in whole seconds, and no times of the others: they are one second apart, as
//! Atlas sends them, unless the file was written by `tailback export`, which adds them.
//!
//! **Source.** RIPE Atlas, "Documentation of data structures", results of firmware 4460 and later.

use super::file::{Fault, Imported};
use super::out::Out;
use base::record::{Delay, Status, Text};
use serde::Deserialize;
use std::collections::BTreeMap;

/// Time between the packets of a result.
const STEP_NS: i64 = 1_000_000_000;
/// Most packets of a result that are read; Atlas sends 16.
const MOST_PACKETS: i64 = 1000;
/// Latest time and longest round trip accepted, s.
const LATEST_S: i64 = 9_000_000_000;
const LONGEST_MS: f64 = 3_600_000.0;

#[derive(Deserialize)]
struct Measured {
    #[serde(rename = "type")]
    kind: String,
    timestamp: i64,
    prb_id: i64,
    dst_name: Option<String>,
    dst_addr: Option<String>,
    #[serde(default)]
    result: Vec<Packet>,
}

#[derive(Deserialize)]
struct Packet {
    rtt: Option<f64>,
    x: Option<serde_json::Value>,
    dup: Option<serde_json::Value>,
    /// Answer to a packet of an earlier result.
    late: Option<serde_json::Value>,
    #[serde(rename = "tailback_sent_ns")]
    sent_ns: Option<i64>,
}

pub fn read(bytes: &[u8], out: &mut Out, told: &mut Imported) -> Result<(), Fault> {
    let unreadable = |e: serde_json::Error| Fault::Unreadable(e.to_string());
    let first = bytes.iter().find(|b| !b.is_ascii_whitespace());
    let values: Vec<serde_json::Value> = match first {
        Some(b'[') => serde_json::from_slice(bytes).map_err(unreadable)?,
        _ => serde_json::Deserializer::from_slice(bytes)
            .into_iter()
            .collect::<Result<_, _>>()
            .map_err(unreadable)?,
    };
    let mut others: BTreeMap<String, u64> = BTreeMap::new();
    let mut next: BTreeMap<Text, i64> = BTreeMap::new();
    let (mut spaced, mut late, mut unsent) = (0u64, 0u64, 0u64);
    for (place, value) in (1..).zip(values) {
        let measured: Measured = match serde_json::from_value(value) {
            Ok(measured) => measured,
            Err(e) => {
                told.wrong(place, e);
                continue;
            }
        };
        if measured.kind != "ping" {
            *others
                .entry(measured.kind.chars().take(20).collect())
                .or_default() += 1;
            continue;
        }
        if !(0..LATEST_S).contains(&measured.timestamp) {
            told.wrong(place, format_args!("the timestamp {}", measured.timestamp));
            continue;
        }
        let to = measured.dst_name.or(measured.dst_addr).unwrap_or_default();
        let target: Text = format!("atlas {} {to}", measured.prb_id).trim_end().into();
        let seq = next.entry(target.clone()).or_default();
        for (k, packet) in (0..MOST_PACKETS).zip(measured.result) {
            let status = match packet.status() {
                Some(status) => status,
                None if packet.late.is_some() => {
                    late += 1;
                    continue;
                }
                None => {
                    unsent += 1;
                    continue;
                }
            };
            let told_ns = packet
                .sent_ns
                .filter(|ns| (0..LATEST_S * 1_000_000_000).contains(ns));
            spaced += u64::from(told_ns.is_none() && k > 0);
            let reckoned = measured.timestamp * 1_000_000_000 + k * STEP_NS;
            out.push(&Delay {
                rtt_ns: packet.rtt.map(|ms| (ms * 1e6).round() as i64),
                status,
                ..Delay::unanswered(told_ns.unwrap_or(reckoned), *seq, target.clone())
            });
            *seq += i64::from(status != Status::Duplicate);
        }
    }
    let mut note = |n: u64, what: &str| {
        if n > 0 {
            told.notes.push(format!("{n} × {what}"));
        }
    };
    note(
        spaced,
        "packet placed a second after the one before: the file has no time of it",
    );
    note(late, "answer to a packet of an earlier result: left out");
    note(
        unsent,
        "packet that was not sent, or whose fate cannot be read: left out",
    );
    for (kind, count) in others {
        note(
            count,
            &format!("result of the measurement {kind:?}, which is no ping: left out"),
        );
    }
    Ok(())
}

impl Packet {
    /// Fate; null of a packet that has none.
    fn status(&self) -> Option<Status> {
        let rtt = self.rtt.filter(|ms| *ms > 0.0 && *ms < LONGEST_MS);
        match (rtt, &self.x) {
            _ if self.late.is_some() => None,
            (Some(_), _) if self.dup.is_some() => Some(Status::Duplicate),
            (Some(_), _) => Some(Status::Ok),
            (None, Some(_)) => Some(Status::Lost),
            (None, None) => None,
        }
    }
}
