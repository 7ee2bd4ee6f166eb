//! Datagrams that are told, and the ways in which lines are measured side by side: `train`, `throughput`.

use crate::accuracy::cell::{Cell, between, near, share};
use crate::accuracy::line::Line;

/// Payload of `train`'s datagrams, and the whole packet, bytes.
const PAYLOAD: f64 = 1000.0;
const PACKET: f64 = 1028.0;
/// The session's ten probes a second each way, of 92 bytes at most, bit/s.
const PROBES: f64 = 10.0 * 92.0 * 8.0;

/// Five seconds at this many times the line's rate, in whole packets. Of an overload the line takes what it carries in that time,
/// and a queue of so many packets its fill and the one in transmission.
fn train(rate: f64, queue: &str, times: f64, queued: Option<f64>) -> Cell {
    let count = (times * rate * 5.0 / (PACKET * 8.0)).floor();
    let payload = (times * rate * PAYLOAD / PACKET).round();
    let probe = format!("train:direction=up,count={count},size=1000,rate={payload} bit/s");
    let carried = rate * PAYLOAD / PACKET;
    let mut truths = Vec::new();
    match queued {
        _ if times < 1.0 => truths.extend([
            near(&["up_lost"], 0.0, 0.0),
            share(&["up_received_bps"], payload, 0.002),
            // The sending host's timers.
            between(&["up_wait_p95_ms"], 0.0, 0.3),
        ]),
        Some(packets) => {
            let taken = rate * 5.0 / (PACKET * 8.0) + packets + 1.0;
            let full_ms = packets * PACKET * 8e3 / rate;
            truths.extend([
                near(&["up_lost"], 1.0 - taken / count, 0.01),
                share(&["up_received_bps"], carried, 0.01),
                // Between a place that has just become free and one more.
                near(&["up_wait_p95_ms"], full_ms, 1.5 * PACKET * 8e3 / rate),
            ]);
        }
        None => truths.push(share(&["up_received_bps"], carried, 0.02)),
    }
    Cell::bench(probe, Line::up(rate, queue), truths)
}

/// TCP keeps a drop-tail queue half full at least and cannot go faster than the line; datagrams fill it.
fn throughput(rate: f64, queue: &str, full_ms: Option<f64>) -> Cell {
    let line = Line::up(rate, queue);
    let base = 2.0 * line.delay_ms;
    let most = rate - PROBES;
    let mut truths = vec![
        between(&["up_several_bps"], 0.94 * most, 1.003 * rate),
        between(&["up_one_bps"], 0.85 * most, 1.003 * rate),
        share(&["up_datagrams_bps"], most, 0.015),
        near(&["latency_ms"], base, 1.0),
    ];
    if let Some(full) = full_ms {
        truths.extend([
            between(
                &["up_several_latency_ms"],
                base + 0.4 * full,
                base + 1.05 * full,
            ),
            between(
                &["up_datagrams_latency_ms"],
                base + 0.85 * full,
                base + 1.05 * full,
            ),
        ]);
    }
    let probe = "throughput:direction=up,warm_up=3 s,hold=6 s,idle=2 s";
    Cell::link(probe, line, truths)
}

pub fn bench() -> Vec<Cell> {
    let mut all = Vec::new();
    for rate in [0.5e6, 5e6, 50e6] {
        for (queue, queued) in [
            ("fifo:packets=20", Some(20.0)),
            ("fifo:packets=200", Some(200.0)),
            ("codel", None),
            ("fq_codel", None),
            ("pie", None),
        ] {
            all.push(train(rate, queue, 0.7, queued));
            all.push(train(rate, queue, 2.0, queued));
        }
    }
    all
}

pub fn kernel() -> Vec<Cell> {
    vec![
        train(5e6, "fifo:packets=20", 2.0, Some(20.0)).linked(),
        throughput(2e6, "fifo:bytes=75000", Some(300.0)),
        throughput(6e6, "fifo:bytes=60000", Some(80.0)),
        throughput(20e6, "fifo:bytes=250000", Some(100.0)),
        throughput(20e6, "codel", None),
        throughput(6e6, "fq_codel", None),
        throughput(6e6, "pie", None),
    ]
}
