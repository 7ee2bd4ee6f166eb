//! Kinds that send crafted trains of datagrams.

use crate::accuracy::cell::{At, Cell, Is, Plant, Truth, near, says, share};
use crate::accuracy::line::Line;

const FIFTY: &str = "fifo:packets=50";
const QUEUES: [&str; 5] = [
    "fifo:packets=20",
    "fifo:bytes=200000",
    "codel",
    "fq_codel",
    "pie",
];
const SHARES: [f64; 5] = [0.0, 0.2, 0.4, 0.6, 0.8];

/// Payload's share of a rate of whole IP packets with 1452 bytes of payload.
fn payload(rate: f64, v6: bool) -> f64 {
    rate * 1452.0 / if v6 { 1500.0 } else { 1480.0 }
}

/// The step of `sweep`.
fn step(payload: f64) -> f64 {
    (payload / 100.0).max(25e3).min(payload / 20.0)
}

fn sweep(rate: f64, queue: &str, v6: bool) -> Cell {
    let is = payload(rate, v6);
    let line = Line::up(rate, queue);
    let line = if v6 { line.v6() } else { line };
    Cell::bench("sweep", line, vec![near(&["lossless_bps"], is, step(is))])
}

fn burst(rate: f64, queue: &str, packets: f64, by: f64) -> Cell {
    let counts = f64::from(u8::from(queue.contains("packets")));
    let truths = vec![
        near(&["queue_packets"], packets, by),
        near(&["counts_packets"], counts, 0.0),
        drop_tail(": drop-tail"),
    ];
    Cell::bench("burst", Line::up(rate, queue), truths)
}

fn drop_tail(is: &str) -> Truth {
    Truth {
        at: At::Evidence("drop-tail"),
        is: Is::Words(is.into()),
    }
}

/// CoDel drops at its head as soon as packets have waited too long for a tenth of a second.
fn burst_codel(rate: f64, queue: &str) -> Cell {
    let truths = vec![drop_tail(": not drop-tail")];
    Cell::bench("burst", Line::up(rate, queue), truths)
}

/// PIE lets bursts of 150 ms pass (RFC 8033, section 4.4): one that comes at a gigabit a second meets its limit of 1000 packets only,
/// of which a few leave meanwhile.
fn burst_pie(rate: f64) -> Cell {
    let truths = vec![
        near(&["queue_packets"], 1000.0, 2.0),
        drop_tail(": drop-tail"),
    ];
    Cell::bench("burst", Line::up(rate, "pie"), truths)
}

fn sizes(rate: f64, mtu: u32, v6: bool, edges: [f64; 2]) -> Cell {
    let truths = vec![
        near(&["path_mtu_bytes"], f64::from(mtu), 0.0),
        near(&["first_edge_bytes"], edges[0], 0.0),
        near(&["second_edge_bytes"], edges[1], 0.0),
    ];
    let line = Line::up(rate, FIFTY).with("mtu", format!("{mtu} B"));
    Cell::bench("sizes", if v6 { line.v6() } else { line }, truths)
}

/// Truth of pairs on a full drop-tail queue at F times its rate (F from 1 to 2): the first always finds the place that was freed
/// since the pair before, and the second what is left: of two sent 2/F get through. Evenly spaced ones lose as many.
fn spacing(rate: f64, queue: &str, count: u32) -> Cell {
    // The kind's highest rate, of what comes out.
    let factor = 1.624;
    let lost = 2.0 - 2.0 / factor;
    // A share of trains of some thousand.
    let by = 0.02;
    let plateau = payload(rate, false);
    let truths = vec![
        near(&["pairs_first_lost"], 0.0, by),
        near(&["pairs_second_lost"], lost, by),
        Truth {
            at: At::Figures(&["even_first_lost", "even_second_lost"]),
            is: Is::Near { value: lost, by },
        },
        share(&["plateau_bps"], plateau, 0.01),
    ];
    let probe = format!("spacing:count={count}");
    Cell::bench(probe, Line::up(rate, queue), truths)
}

/// Truth of a burst: one packet is in transmission, the queue holds so many, and while it arrives at a gigabit a second some leave;
/// each of two senders has half of that.
fn envelope(rate: f64, packets: f64) -> Cell {
    let is = payload(rate, false);
    let burst = 1.0 + (packets / (1.0 - rate / 1e9)).floor();
    let truths = vec![
        near(&["lossless_bps"], is, step(is)),
        near(&["burst_packets"], burst, 0.0),
        near(&["two_senders_packets"], (burst / 2.0).floor(), 0.0),
        near(&["best_payload_bytes"], 1472.0, 0.0),
        near(&["path_mtu_bytes"], 1500.0, 0.0),
    ];
    let queue = format!("fifo:packets={packets}");
    Cell::bench("envelope", Line::up(rate, queue), truths)
}

fn buffer(rate: f64, bytes: f64) -> Cell {
    let truths = vec![
        share(&["queue_ms"], bytes * 8e3 / rate, 0.1),
        share(&["queue_bytes"], bytes, 0.1),
    ];
    Cell::bench(
        "buffer",
        Line::up(rate, format!("fifo:bytes={bytes}")),
        truths,
    )
}

fn bucket(peak: f64, sustained: f64, bytes: f64) -> Cell {
    let queue = format!("tbf:rate={sustained} bit/s,burst={bytes},limit=150");
    let truths = vec![
        share(&["peak_bps"], peak, 0.05),
        share(&["sustained_bps"], sustained, 0.05),
        share(&["bucket_bytes"], bytes, 0.1),
    ];
    Cell::bench("buffer", Line::up(peak, queue), truths)
}

fn capacity(rate: f64, others: f64) -> Cell {
    let free = rate * (1.0 - others);
    let truths = vec![
        share(&["capacity_bps"], rate, 0.05),
        share(&["available_bps"], free, 0.15),
        share(&["sizes_bps"], rate, 0.05),
        share(&["chirps_bps"], free, 0.15),
        share(&["between_bps"], free, 0.15),
    ];
    let line = Line::up(rate, "fifo:packets=100").others(others);
    Cell::bench("capacity", line, truths)
}

fn radio(idle: f64, wake: f64) -> Cell {
    let truths = vec![
        near(&["idle_timeout_ms"], idle * 1e3, 1e3),
        share(&["wake_ms"], wake * 1e3, 0.05),
    ];
    let line = Line::up(0.3e6, FIFTY).with("sleep", format!("radio:idle={idle} s,wake={wake} s"));
    Cell::bench("radio", line, truths)
}

pub fn bench() -> Vec<Cell> {
    let mut all = Vec::new();
    for rate in [0.2e6, 2e6, 20e6, 100e6] {
        all.extend(QUEUES.map(|queue| sweep(rate, queue, false)));
    }
    for rate in [0.5e6, 5e6, 50e6] {
        let by = if rate > 20e6 { 2.0 } else { 0.0 };
        all.extend([
            burst(rate, "fifo:packets=10", 10.0, by),
            burst(rate, "fifo:packets=200", 200.0, by),
            burst(rate, "fifo:bytes=15000", 10.0, by),
            burst(rate, "fifo:bytes=200000", 135.0, by),
        ]);
    }
    for rate in [0.5e6, 2e6, 5e6] {
        all.extend(["codel", "fq_codel"].map(|queue| burst_codel(rate, queue)));
        all.push(burst_pie(rate));
    }
    all.extend([
        sizes(2e6, 1500, true, [1452.0, 2888.0]),
        sizes(10e6, 1500, false, [1472.0, 2952.0]),
        sizes(10e6, 1492, true, [1444.0, 2872.0]),
        sizes(10e6, 1420, false, [1392.0, 2792.0]),
        sizes(10e6, 1280, true, [1232.0, 2456.0]),
    ]);
    for rate in [0.5e6, 2e6, 20e6] {
        all.extend(["fifo:packets=20", "fifo:packets=200"].map(|q| spacing(rate, q, 4000)));
    }
    all.extend([
        envelope(0.5e6, 20.0),
        envelope(2e6, 50.0),
        envelope(20e6, 100.0),
    ]);
    all.extend(
        [
            (0.7e6, 37_625.0),
            (0.7e6, 200_000.0),
            (2e6, 76_500.0),
            (10e6, 312_500.0),
            (10e6, 30_000.0),
            (50e6, 1_000_000.0),
            (65e3, 24_375.0),
        ]
        .map(|(rate, bytes)| buffer(rate, bytes)),
    );
    all.extend([
        bucket(20e6, 10e6, 1e6),
        bucket(10e6, 2e6, 2e6),
        bucket(50e6, 20e6, 5e6),
    ]);
    for rate in [2e6, 20e6, 100e6] {
        all.extend(SHARES.map(|share| capacity(rate, share)));
    }
    all.extend(
        [(2.0, 0.3), (5.0, 0.6), (10.0, 1.6), (50.0, 2.0)].map(|(idle, wake)| radio(idle, wake)),
    );
    all
}

/// The kernel's own token-bucket queue before a line of 6 Mbit/s with 60 kB, which are 80 ms.
fn own(what: &str, tbf: Option<(u32, u32)>, mut truths: Vec<Truth>) -> Cell {
    let line = Line::up(6e6, "fifo:bytes=60000").down(20e6, "fifo:bytes=200000");
    let mut plants = Vec::new();
    if let Some((mbit, bytes)) = tbf {
        plants.push(Plant::NearShell(format!(
            "tc qdisc replace dev link0 root tbf rate {mbit}mbit burst 2000 limit {bytes}"
        )));
        let ms = f64::from(bytes) * 8e-3 / f64::from(mbit);
        truths.extend([
            share(&["own_bytes"], f64::from(bytes), 0.1),
            share(&["own_ms"], ms, 0.1),
        ]);
    }
    Cell::network("buffer:own=true", line, (what, plants), truths)
}

pub fn kernel() -> Vec<Cell> {
    let shdsl = 2.035e6;
    let rtt = |line: Line, bytes: f64| {
        let ms = 2.0 * line.delay_ms + bytes * 8e3 / line.rate + bytes * 8e3 / 1e9;
        Cell::link("rtt", line, vec![near(&["mean_ms"], ms, 0.05)])
    };
    let bench = vec![
        rtt(Line::up(shdsl, FIFTY), 80.0),
        rtt(Line::up(20e6, "fq_codel").delay(25.0), 80.0),
        sweep(shdsl, FIFTY, true),
        sweep(20e6, "fifo:bytes=200000", false),
        sweep(20e6, "codel", false),
        burst(shdsl, FIFTY, 50.0, 0.0),
        burst(5e6, "fifo:bytes=50000", 33.0, 0.0),
        burst(20e6, "fifo:packets=200", 200.0, 2.0),
        sizes(20e6, 1492, false, [1464.0, 2936.0]),
        spacing(10e6, FIFTY, 1000),
        envelope(10e6, 50.0),
        buffer(0.7e6, 37_625.0),
        buffer(10e6, 312_500.0),
        bucket(20e6, 10e6, 1e6),
    ];
    let line = || Truth {
        at: At::Figures(&["line_ms"]),
        is: Is::CannotTell,
    };
    let mut all: Vec<Cell> = bench.into_iter().map(Cell::linked).collect();
    all.extend([
        own("", None, vec![share(&["line_ms"], 80.0, 0.1)]),
        own(
            "sender's own queue of 100 kB at 3 Mbit/s",
            Some((3, 100_000)),
            vec![
                line(),
                share(&["queue_ms"], 100e3 * 8.0 / 3e3, 0.1),
                says("the sending host's own queue"),
            ],
        ),
        own(
            "sender's own queue of 90 kB at 9 Mbit/s",
            Some((9, 90_000)),
            vec![share(&["line_ms"], 80.0, 0.1)],
        ),
    ]);
    all.extend(SHARES.map(|share| capacity(20e6, share).linked()));
    all.extend([0.0, 0.5].map(|share| capacity(2e6, share).linked()));
    all.push(radio(10.0, 1.6).linked());
    all
}
