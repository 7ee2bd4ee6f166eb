//! Limits outside the network: windows, buffers and processors that held a load back.
//!
//! **Method.** The sender's kernel counts how long each flow was held back by the receive window and by its own buffer.
//! The load writes an event for a flow where that is more than a tenth of its busy time. A processor of this host that
//! was busy throughout is the third limit. The fourth is the server's `--max-rate`; the server counts how long it
//! waited.
//!
//! **Source.** tcp_info of Linux (`tcpi_rwnd_limited`, `tcpi_sndbuf_limited`, `tcpi_busy_time`); RFC 6349 section 3
//! (buffers and windows before throughput).
//!
//! **Limits.** The far end's processors are not seen.

use crate::phases::Phase;
use base::record::{Flow, Recording};
use std::collections::{BTreeMap, BTreeSet};

/// Share of the flows that a limit has to hold back to count for the load.
const FLOWS: f64 = 0.5;
/// Share of a processor's time above which it is the limit.
const BUSY: f64 = 0.95;

/// A limit, and how strongly it acted.
#[derive(Clone, Debug, PartialEq)]
pub struct HeldBack {
    /// Name of the limit, such as `receive window`.
    pub by: String,
    /// Share of the time, 0 to 1.
    pub share: f64,
}

impl HeldBack {
    /// Sentence for a figure that this limit makes unknown.
    pub fn says(&self) -> String {
        let owner = match self.by.as_str() {
            "receive window" => "the receiver's window",
            "send buffer" => "the sender's socket buffer",
            "server ceiling" => "the rate limit of the server's operator (--max-rate)",
            other => other,
        };
        format!(
            "{owner} held the load back for {:.0} % of its time, not the link",
            100.0 * self.share
        )
    }
}

/// The limit that held back at least half of the flows whose samples are `rows`, or `None`.
pub fn held_back(rec: &Recording, rows: &[&Flow], phase: &Phase) -> Option<HeldBack> {
    let flows: BTreeSet<i64> = rows.iter().map(|f| f.flow).collect();
    let mut by: BTreeMap<String, (usize, f64)> = BTreeMap::new();
    for e in rec.event.iter().filter(|e| &*e.kind == "held_back") {
        let Some(flow) = e
            .subject
            .strip_prefix("flow ")
            .and_then(|n| n.parse::<i64>().ok())
        else {
            continue;
        };
        let Ok(detail) = serde_json::from_str::<serde_json::Value>(&e.detail) else {
            continue;
        };
        let (Some(limit), Some(share)) = (
            detail.get("by").and_then(|b| b.as_str()),
            detail
                .get("share")
                .and_then(serde_json::Value::as_f64)
                .filter(|s| (0.0..=1.0).contains(s)),
        ) else {
            continue;
        };
        if flows.contains(&flow) {
            let sum = by.entry(limit.to_owned()).or_default();
            *sum = (sum.0 + 1, sum.1 + share);
        }
    }
    let strongest = by
        .into_iter()
        .filter(|(_, (n, _))| *n as f64 >= FLOWS * flows.len() as f64)
        .map(|(by, (n, sum))| HeldBack {
            by,
            share: sum / n as f64,
        })
        .max_by(|a, b| a.share.total_cmp(&b.share));
    // TCP that loses packets is limited by that, however busy the host is.
    strongest.or_else(|| {
        if lost(rows) {
            None
        } else {
            processor(rec, phase)
        }
    })
}

/// True if any flow sent packets again.
fn lost(rows: &[&Flow]) -> bool {
    let mut first: BTreeMap<i64, i64> = BTreeMap::new();
    rows.iter()
        .filter_map(|f| Some((f.flow, f.retransmits?)))
        .any(|(flow, n)| n > *first.entry(flow).or_insert(n))
}

/// Limit by this host's processors: all of them busy in most samples of the phase.
fn processor(rec: &Recording, phase: &Phase) -> Option<HeldBack> {
    let samples: Vec<f64> = rec
        .host
        .iter()
        .filter(|h| phase.steady().contains(&h.t_ns))
        .filter_map(|h| h.cpu.filter(|c| c.is_finite()))
        .collect();
    let busy = samples.iter().filter(|c| **c >= BUSY).count();
    (samples.len() >= 3 && busy * 2 > samples.len()).then(|| HeldBack {
        by: "the processors of this host".into(),
        share: busy as f64 / samples.len() as f64,
    })
}
