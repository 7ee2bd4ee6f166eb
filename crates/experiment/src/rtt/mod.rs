//! Round trip of a small packet.
//!
//! **Method.** Numbered datagrams of 80 bytes on a flow of their own, stamped by both kernels; the hosts' own delays
//! are left out. The mean deviation is that of `ping`: the mean distance from the mean.
//!
//! **Source.** P. Gao, "Campus-Wide Smart Grid Communication Network Project Report", EPFL 2012, section 2.3.1 (50
//! packets, min/avg/max/mdev); RFC 2681, A Round-trip Delay Metric for IPPM.
//!
//! **Units.** ms.

mod steps;

use super::answer::{Draw, Figured, Outcome, Plot, Series};
use super::spec::{How, Spec};
use base::Duration;
use base::print::significant;
use base::record::{Delay, Recording, Status};
use base::spec::{Params as _, params};
use base::words::Words;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "rtt": "What is the round-trip time of a small packet on the idle link?", ["P. Gao, Campus-Wide Smart Grid Communication Network Project Report, EPFL 2012",] {
        /// packets
        count: u64 = "50" ["2".."100000"], "Gao 2012, section 2.3.1";
        /// interval between packets
        interval: Duration = "100 ms" ["1 ms".."60 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "five seconds, 8 kB",
    beside_others: true,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, _| Ok(Box::new(steps::Rtt::new(w.read())))),
    answer,
};

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let probes: Vec<&Delay> = recording
        .delay
        .iter()
        .filter(|d| &*d.target == "udp")
        .collect();
    let ok = |d: &&&Delay| d.status == Status::Ok;
    let ms: Vec<f64> = probes
        .iter()
        .filter(ok)
        .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
        .collect();
    let d = stats::delays(&ms, "no packet was answered");
    let Some(m) = stats::moments(&ms) else {
        return Outcome::cannot_tell("no packet was answered");
    };
    let sent = probes.iter().filter(|d| d.status.was_sent());
    let lost: Vec<bool> = sent.map(|d| d.status.is_lost()).collect();
    let missed = lost.iter().filter(|lost| **lost).count();
    let began = probes.iter().map(|d| d.sent_ns).min().unwrap_or(0);
    let show = |v: f64| significant(v, 4);
    let point = |d: &&Delay| {
        let ms = d.rtt_ns.filter(|_| d.status == Status::Ok);
        (
            (d.sent_ns - began) as f64 * 1e-9,
            ms.map(|ns| ns as f64 * 1e-6),
        )
    };
    Outcome {
        says: format!(
            "Round trip min/avg/max/mdev {}/{}/{}/{} ms; {missed} of {} lost.",
            show(m.min),
            show(m.mean),
            show(m.max),
            show(m.mdev),
            lost.len()
        ),
        figures: [
            ("min_ms", "smallest round trip", d.min_ms),
            ("mean_ms", "mean", d.mean_ms),
            ("median_ms", "median", d.p50_ms),
            ("max_ms", "largest", d.max_ms),
            ("mdev_ms", "mean deviation", d.mdev_ms),
        ]
        .into_iter()
        .map(|(key, name, figure)| Figured::time(key, name, figure))
        .chain([Figured::share("lost", "lost", stats::share(&lost))])
        .collect(),
        plots: vec![Plot::new(
            "Round trips",
            ("s", "ms"),
            vec![Series::new(
                "",
                Draw::Marks,
                probes.iter().map(point).collect(),
            )],
        )],
        ..Outcome::default()
    }
}
