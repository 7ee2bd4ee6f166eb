//! Probes of one target as irtt's JSON, format 1, as irtt 0.9 writes it.
//!
//! Times of the server are on its own clock, as there. Values that only irtt's own client knows, such as the errors of its
//! timer, are absent.

use super::{Written, probes};
use crate::scan::Source;
use base::record::{Delay, Status};
use serde::Serialize;
use serde_json::{Value, json};
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;

#[derive(Serialize)]
struct RoundTrip {
    seqno: i64,
    lost: &'static str,
    timestamps: Timestamps,
    delay: Delays,
    ipdv: Delays,
}

#[derive(Serialize)]
struct Timestamps {
    client: Ends,
    server: Ends,
}

#[derive(Serialize)]
struct Ends {
    receive: Stamp,
    send: Stamp,
}

/// Wall time, UNIX ns.
#[derive(Serialize)]
struct Stamp {
    #[serde(skip_serializing_if = "Option::is_none")]
    wall: Option<i64>,
}

/// Round trip and both ways, ns.
#[derive(Clone, Copy, Default, Serialize)]
struct Delays {
    #[serde(skip_serializing_if = "Option::is_none")]
    receive: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    rtt: Option<i64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    send: Option<i64>,
}

impl Delays {
    /// Absolute differences from the round trip before, where both are known.
    fn since(&self, before: &Delays) -> Delays {
        let difference = |a: Option<i64>, b: Option<i64>| Some(a?.abs_diff(b?) as i64);
        Delays {
            receive: difference(self.receive, before.receive),
            rtt: difference(self.rtt, before.rtt),
            send: difference(self.send, before.send),
        }
    }
}

/// Counts and values for the summary.
#[derive(Default)]
struct Totals {
    first_ns: Option<i64>,
    last_ns: i64,
    sent: u64,
    answered: u64,
    late: u64,
    lost_up: u64,
    lost_down: u64,
    duplicates: u64,
    /// Rows that irtt has no words for: probes that were never sent, or whose answer cannot be trusted.
    others: u64,
    delays: BTreeMap<&'static str, Vec<f64>>,
}

/// Round trip of a row; null for rows that are none.
fn round_trip(delay: &Delay, before: Option<&(i64, Delays)>) -> Option<RoundTrip> {
    let rtt = delay.status.trusted(delay.rtt_ns);
    let lost = match delay.status {
        Status::Ok | Status::Late if rtt.is_some() => "false",
        Status::LostUp => "true_up",
        Status::LostDown => "true_down",
        Status::Lost | Status::Late => "true",
        Status::Ok | Status::Duplicate | Status::Invalid | Status::NotSent => return None,
    };
    let far = rtt.and(delay.remote_rx_ns.zip(delay.remote_tx_ns));
    let came = rtt.and_then(|rtt| {
        let held = far.map_or(0, |(rx, tx)| tx.saturating_sub(rx));
        delay.sent_ns.checked_add(rtt)?.checked_add(held)
    });
    let way = |to: Option<i64>, from: Option<i64>| to?.checked_sub(from?);
    let delays = Delays {
        rtt,
        send: (delay.owd_up_ns).or_else(|| way(far.map(|f| f.0), Some(delay.sent_ns))),
        receive: (delay.owd_down_ns).or_else(|| way(came, far.map(|f| f.1))),
    };
    let previous = before.filter(|b| b.0.checked_add(1) == Some(delay.seq));
    Some(RoundTrip {
        seqno: delay.seq,
        lost,
        timestamps: Timestamps {
            client: Ends {
                receive: Stamp { wall: came },
                send: Stamp {
                    wall: Some(delay.sent_ns),
                },
            },
            server: Ends {
                receive: Stamp {
                    wall: far.map(|f| f.0),
                },
                send: Stamp {
                    wall: far.map(|f| f.1),
                },
            },
        },
        delay: delays,
        ipdv: previous.map_or(Delays::default(), |b| delays.since(&b.1)),
    })
}

impl Totals {
    fn add(&mut self, delay: &Delay, trip: Option<&RoundTrip>) {
        let Some(trip) = trip else {
            match delay.status {
                Status::Duplicate => self.duplicates += 1,
                _ => self.others += 1,
            }
            return;
        };
        self.first_ns.get_or_insert(delay.sent_ns);
        self.last_ns = delay.sent_ns;
        self.sent += 1;
        self.answered += u64::from(trip.lost == "false");
        self.late += u64::from(delay.status == Status::Late);
        self.lost_up += u64::from(trip.lost == "true_up");
        self.lost_down += u64::from(trip.lost == "true_down");
        let values = [
            ("rtt", trip.delay.rtt),
            ("send_delay", trip.delay.send),
            ("receive_delay", trip.delay.receive),
            ("ipdv_round_trip", trip.ipdv.rtt),
            ("ipdv_send", trip.ipdv.send),
            ("ipdv_receive", trip.ipdv.receive),
        ];
        for (name, value) in values {
            if let Some(value) = value {
                self.delays.entry(name).or_default().push(value as f64);
            }
        }
    }

    /// Summary under irtt's names.
    fn stats(&self) -> Value {
        let percent = |n: u64| 100.0 * n as f64 / self.sent.max(1) as f64;
        let first = self.first_ns.unwrap_or_default();
        let start = jiff::Timestamp::from_nanosecond(i128::from(first)).unwrap_or_default();
        let mut stats = json!({
            "start_time": start.to_string(),
            "duration": self.last_ns.saturating_sub(first),
            "packets_sent": self.sent,
            "packets_received": self.answered,
            "packet_loss_percent": percent(self.sent - self.answered),
            "upstream_loss_percent": percent(self.lost_up),
            "downstream_loss_percent": percent(self.lost_down),
            "duplicates": self.duplicates,
            "late_packets": self.late,
        });
        for (name, values) in &self.delays {
            if let (Some(m), Some(median)) = (stats::moments(values), stats::median(values)) {
                let whole = |ns: f64| ns.round() as i64;
                stats[*name] = json!({
                    "total": whole(values.iter().sum()),
                    "n": m.n,
                    "min": whole(m.min),
                    "max": whole(m.max),
                    "mean": whole(m.mean),
                    "median": whole(median),
                    "stddev": whole(m.sd),
                    "variance": whole(m.sd * m.sd),
                });
            }
        }
        stats
    }

    fn left_out(&self) -> Vec<String> {
        let told = |n: u64, what: &str| (n > 0).then(|| format!("{n} {what}"));
        [
            told(
                self.duplicates,
                "second answers, which irtt counts and does not keep",
            ),
            told(
                self.others,
                "probes that were not sent or whose answer cannot be trusted",
            ),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Writes the probes of a target.
pub(super) fn write(
    from: Source<'_>,
    output: &Path,
    target: Option<&str>,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    let target = probes::one_target(from, target)?;
    let totals = super::in_one_file(output, |out| trips(from, &target, out))?;
    let written = Written {
        file: output.to_owned(),
        rows: totals.sent,
    };
    Ok((vec![written], totals.left_out()))
}

/// Writes the file; the summary follows the round trips, from which it is made.
fn trips(from: Source<'_>, target: &str, out: &mut impl Write) -> anyhow::Result<Totals> {
    let version = json!({ "irtt": "0.9.0", "protocol": 1, "json_format": 1 });
    write!(out, "{{\"version\":{version},\"round_trips\":[")?;
    let mut totals = Totals::default();
    let (mut before, mut failed) = (None, None);
    let mut interval = None;
    probes::each(from, &mut |delay| {
        if *delay.target != *target || failed.is_some() {
            return;
        }
        let trip = round_trip(delay, before.as_ref());
        totals.add(delay, trip.as_ref());
        let Some(trip) = trip else { return };
        if totals.sent == 2 {
            interval = Some(
                delay
                    .sent_ns
                    .saturating_sub(totals.first_ns.unwrap_or_default()),
            );
        }
        let comma = if totals.sent > 1 { "," } else { "" };
        failed = writeln!(out, "{comma}")
            .map_err(anyhow::Error::from)
            .and_then(|()| Ok(serde_json::to_writer(&mut *out, &trip)?))
            .err();
        before = Some((trip.seqno, trip.delay));
    })?;
    if let Some(e) = failed {
        return Err(e);
    }
    let params = json!({ "proto_version": 1, "interval": interval.unwrap_or_default() });
    let config = json!({ "remote_address": target, "params": params });
    writeln!(
        out,
        "],\n\"config\":{config},\n\"stats\":{}}}",
        totals.stats()
    )?;
    Ok(totals)
}
