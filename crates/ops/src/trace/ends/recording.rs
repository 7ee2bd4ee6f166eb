//! Matched packets as a recording: every packet up is a probe, and the next one down its answer.

use super::{Ends, Plan};
use analysis::two_ends::TwoClocks;
use base::record::{Delay, Event, FORMAT_VERSION, Meta, Origin, Row, Status, Traffic};
use measure::ends::{LostWhy, Way};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Name of the packets' target in the recording.
const TARGET: &str = "capture";
/// Longest time until an answer: a later packet is no answer, because the far end held it for too long to pair them.
const HELD_NS: i64 = 1_000_000_000;
const TRAFFIC_NS: i64 = 100_000_000;

pub fn write(ends: &Ends, path: &Path, plan: &Plan) -> anyhow::Result<PathBuf> {
    let clocks = ends
        .clocks
        .as_ref()
        .map_err(|why| anyhow::anyhow!("there is no delay to keep in {}: {why}", path.display()))?;
    let (near, far) = (&plan.files[..], &plan.far[..]);
    let names = |files: &[PathBuf]| -> Vec<String> {
        let name = |p: &PathBuf| p.file_name().map(|n| n.to_string_lossy().into_owned());
        files.iter().filter_map(name).collect()
    };
    let rows = rows(ends, clocks);
    let first = rows.iter().map(Row::time_ns).min();
    let meta = Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Captured,
        verb: "trace".into(),
        title: format!("{} to {}", names(near).join(" "), names(far).join(" ")),
        plan: serde_json::json!({ "near": names(near), "far": names(far), "again": plan.recorded() }),
        started_ns: first.unwrap_or(0),
        ..Meta::default()
    };
    let options = store::Options {
        name: store::Name::Exact,
        ..store::Options::default()
    };
    let mut writer = options.create(path, meta.clone())?;
    let path = writer.path().to_path_buf();
    let last = rows.iter().map(Row::time_ns).max();
    for row in rows {
        writer.write(row)?;
    }
    writer.close(Meta {
        ended_ns: last,
        complete: true,
        ..meta
    })?;
    Ok(path)
}

fn rows(ends: &Ends, clocks: &TwoClocks) -> Vec<Row> {
    let half = clocks.base_round_trip_ns().map(|b| b / 2.0);
    let mut down: Vec<(i64, i64, usize)> = Vec::new();
    for (i, s) in ends.seen.iter().enumerate().filter(|(_, s)| !s.up) {
        down.push((s.far_ns, s.near_ns, i));
    }
    down.sort_unstable();
    let mut delays: Vec<Delay> = Vec::new();
    for s in ends.seen.iter().filter(|s| s.up) {
        let next = down.get(down.partition_point(|d| d.0 < s.far_ns));
        let answer = next.filter(|d| d.0 - s.far_ns <= HELD_NS);
        let owd = |wait: f64| half.map(|h| (h + wait.max(0.0)) as i64);
        delays.push(Delay {
            remote_rx_ns: Some(s.far_ns),
            remote_tx_ns: answer.map(|d| d.0),
            // What the far end held is taken out: no clock's offset is left in it.
            rtt_ns: answer.map(|d| (d.1 - s.near_ns) - (d.0 - s.far_ns)),
            owd_up_ns: owd(clocks.wait_ns(s)),
            owd_down_ns: answer.and_then(|d| owd(clocks.wait_ns(&ends.seen[d.2]))),
            status: if answer.is_some() {
                Status::Ok
            } else {
                Status::Invalid
            },
            ..Delay::unanswered(s.near_ns, 0, TARGET.into())
        });
    }
    for l in ends.matched.lost.iter().filter(|l| l.why == LostWhy::Here) {
        let (sent_ns, status) = match l.way {
            Way::Up => (l.t_ns, Status::LostUp),
            Way::Down => (clocks.near_of(l.t_ns), Status::LostDown),
        };
        delays.push(Delay {
            status,
            ..Delay::unanswered(sent_ns, 0, TARGET.into())
        });
    }
    delays.sort_by_key(|d| d.sent_ns);
    for (i, d) in delays.iter_mut().enumerate() {
        d.seq = i as i64;
    }
    let said = match half {
        Some(_) => {
            "one-way delays assume that the quickest packets took equally long both ways; what is above that is not assumed"
        }
        None => "packets were seen in one direction only",
    };
    let event = Event {
        t_ns: delays.first().map_or(0, |d| d.sent_ns),
        kind: "clock".into(),
        subject: "fitted".into(),
        detail: said.into(),
    };
    let mut rows: Vec<Row> = vec![event.into()];
    rows.extend(delays.into_iter().map(Row::from));
    rows.extend(traffic(ends));
    rows
}

/// Bytes of the matched packets in each step of time.
fn traffic(ends: &Ends) -> impl Iterator<Item = Row> {
    let mut steps: BTreeMap<i64, (i64, i64)> = BTreeMap::new();
    for p in &ends.matched.pairs {
        let step = steps.entry(p.near_ns.div_euclid(TRAFFIC_NS)).or_default();
        match p.way {
            Way::Up => step.1 += i64::from(p.bytes),
            Way::Down => step.0 += i64::from(p.bytes),
        }
    }
    let row = |(step, (rx, tx)): (i64, (i64, i64))| Traffic {
        t_ns: (step + 1) * TRAFFIC_NS,
        interval_ns: TRAFFIC_NS,
        interface: TARGET.into(),
        rx_bytes: Some(rx),
        tx_bytes: Some(tx),
    };
    steps.into_iter().map(row).map(Row::from)
}
