//! Probes as results of RIPE Atlas's measurement `ping`, a result a line of one JSON array.
//!
//! A result has up to three probes of a target, as those of Atlas by default. Atlas has no times of single packets, so each
//! has one under a name of our own, which its readers pass over.
//!
//! **Source.** RIPE Atlas, "Documentation of data structures", results of firmware 5080.

use super::{Written, in_one_file, probes};
use crate::scan::Source;
use base::record::{Delay, Status};
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::net::IpAddr;
use std::path::Path;

/// Firmware whose results these are like.
const FIRMWARE: u32 = 5080;
/// Probes of a result.
const MOST: usize = 3;
/// Longest time between the first and the last probe of a result, ns.
const LONGEST_NS: i64 = 60_000_000_000;

/// Results so far.
struct Results<'a, W> {
    out: &'a mut W,
    open: BTreeMap<String, Vec<Delay>>,
    /// Results and probes written.
    count: u64,
    probes: u64,
    others: u64,
}

/// Writes the probes of all targets, or of one.
pub(super) fn write(
    from: Source<'_>,
    output: &Path,
    target: Option<&str>,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    let wanted = probes::only(from, target)?;
    let (rows, others) = in_one_file(output, |out| {
        let mut results = Results {
            out,
            open: BTreeMap::new(),
            count: 0,
            probes: 0,
            others: 0,
        };
        let mut failed = None;
        probes::each(from, &mut |delay| {
            if failed.is_none() && wanted.as_ref().is_none_or(|w| *w == *delay.target) {
                failed = results.add(delay).err();
            }
        })?;
        failed.map_or(Ok(()), Err)?;
        results.finish()
    })?;
    let left = (others > 0)
        .then(|| format!("{others} probes that were not sent or whose answer cannot be trusted"));
    let file = output.to_owned();
    Ok((vec![Written { file, rows }], left.into_iter().collect()))
}

impl<W: Write> Results<'_, W> {
    fn add(&mut self, delay: &Delay) -> anyhow::Result<()> {
        let fits = match delay.status {
            Status::Ok | Status::Late | Status::Duplicate => {
                delay.status == Status::Late || delay.rtt_ns.is_some()
            }
            Status::Lost | Status::LostUp | Status::LostDown => true,
            Status::Invalid | Status::NotSent => false,
        };
        if !fits {
            self.others += 1;
            return Ok(());
        }
        let target = delay.target.to_string();
        let open = self.open.entry(target.clone()).or_default();
        let span = open
            .first()
            .map_or(0, |first| delay.sent_ns.saturating_sub(first.sent_ns));
        if open.len() >= MOST || !(0..LONGEST_NS).contains(&span) {
            let full = std::mem::take(open);
            self.result(&target, &full)?;
        }
        self.open.entry(target).or_default().push(delay.clone());
        Ok(())
    }

    fn result(&mut self, target: &str, probes: &[Delay]) -> anyhow::Result<()> {
        let comma = if self.count == 0 { "[\n" } else { ",\n" };
        write!(self.out, "{comma}{}", result(target, probes))?;
        self.count += 1;
        self.probes += probes.len() as u64;
        Ok(())
    }

    fn finish(mut self) -> anyhow::Result<(u64, u64)> {
        for (target, probes) in std::mem::take(&mut self.open) {
            self.result(&target, &probes)?;
        }
        writeln!(self.out, "{}", if self.count == 0 { "[]" } else { "\n]" })?;
        Ok((self.probes, self.others))
    }
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
