//! Cells of the dumbbell of Thombre 2020 as ns-2 has them (docs/book/sim-vs-ns2.md): one of each queue, with few and with
//! many TCP flows.

use sim::batch::{Job, estimates, run_all};
use sim::{Draft, Outcome};
use std::sync::atomic::AtomicBool;

const SCENARIO: &str = include_str!("../../../scenarios/ns2.toml");
const NS2: &str = include_str!("../../../reference/ns2_dumbbell.csv");

/// Queue with its limit there, the same in our words, TCP flows of ten, kbit/s of each of the others.
const CELLS: [(&str, &str, u32, u32); 4] = [
    (
        "RED 50",
        "red:variant=ns2,weight=0.00168634,slot=2.667ms,limit=50",
        2,
        448,
    ),
    (
        "RED 50",
        "red:variant=ns2,weight=0.00168634,slot=2.667ms,limit=50",
        8,
        448,
    ),
    ("DropTail 50", "fifo:packets=49", 8, 64),
    ("DropTail 1000", "fifo:packets=999", 8, 448),
];

fn theirs(queue: &str, tcp: u32, kbps: u32, figure: &str) -> f64 {
    let mut lines = NS2.lines().filter(|l| !l.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row = [
        queue,
        "homogeneous",
        &tcp.to_string(),
        &kbps.to_string(),
        "reno",
    ]
    .join(",");
    let row = lines.find(|l| l.starts_with(&row)).expect("a cell");
    let at = head.iter().position(|h| *h == figure).expect("a column");
    row.split(',').nth(at).unwrap().parse().unwrap()
}

#[test]
fn reno_shares_the_line_with_datagrams_as_in_ns2() {
    for (queue, ours, tcp, kbps) in CELLS {
        let mut draft = Draft::new(SCENARIO).unwrap();
        for (key, value) in [
            ("link.queue", ours.to_string()),
            ("tcp.controller", "newreno:abc=1".into()),
            ("tcp.rate_halving", "0.5".into()),
            ("flow.1.count", (tcp - 1).to_string()),
            ("flow.2.count", (9 - tcp).to_string()),
            ("flow.2.rate", format!("{kbps} kbit/s")),
            ("flow.3.rate", format!("{kbps} kbit/s")),
        ] {
            draft.set(key, &value, "test").unwrap();
        }
        let scenario = draft.finish().unwrap();
        let jobs = (1..=5).map(|seed| Job {
            scenario: scenario.clone().into(),
            seed,
        });
        let jobs: Vec<Job> = jobs.collect();
        let outcomes = run_all(&jobs, 2, &AtomicBool::new(false), &|_| ()).unwrap();
        let outcomes: Vec<&Outcome> = outcomes.iter().flatten().collect();
        let all = estimates(&outcomes);
        let goodput = all["tcp.goodput_bps"].mean + all["tcp_tag.goodput_bps"].mean;
        // What the queue holds and drops, what comes through, and a share that is allowed: what phases and ns-2's
        // time-outs move. TCP that is shut out gets a few packets more or less.
        for (figure, ours, allowed) in [
            ("queue_ms", all["link.queue_ms.mean"].mean, 0.03),
            ("drop_pct", all["link.drop_share"].mean * 100.0, 0.08),
            (
                "goodput_kbps",
                goodput / 1e3,
                if tcp > 2 { 0.03 } else { 0.3 },
            ),
            ("udp_owd_ms", all["udp_tag.delay_ms"].mean, 0.03),
        ] {
            let theirs = theirs(queue, tcp, kbps, figure);
            assert!(
                (ours / theirs - 1.0).abs() <= allowed,
                "{queue}, {tcp} TCP, {kbps} kbit/s: {figure} {ours} here, {theirs} in ns-2"
            );
        }
    }
}
