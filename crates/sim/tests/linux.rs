//! The queues that TCP keeps in the kernel's own disciplines and in ours, over the same path
//! (docs/book/sim-vs-linux.md): each figure is as it was, and within the kernel's tolerance.

use sim::batch::{Job, estimates, run_all};
use sim::{Draft, Outcome};
use std::sync::atomic::AtomicBool;

const SCENARIO: &str = include_str!("../../../scenarios/linux.toml");
const KERNEL: &str = include_str!("../../../reference/linux_qdisc_golden.csv");
const OURS: &str = include_str!("golden/linux.txt");

/// Goodput in Mbit/s, mean and 95th percentile of the queue's delay in ms, drops in %.
fn figures(flows: &str, queue: &str) -> [f64; 4] {
    let mut draft = Draft::new(SCENARIO).unwrap();
    draft.set("flow.0.count", flows, "test").unwrap();
    draft.set("link.queue", queue, "test").unwrap();
    let scenario = draft.finish().unwrap();
    let jobs: Vec<Job> = (1..=5)
        .map(|seed| Job {
            scenario: scenario.clone().into(),
            seed,
        })
        .collect();
    let outcomes = run_all(&jobs, 2, &AtomicBool::new(false), &|_| ()).unwrap();
    let outcomes: Vec<&Outcome> = outcomes.iter().flatten().collect();
    let all = estimates(&outcomes);
    [
        all["bulk.goodput_bps"].mean * 1e-6,
        all["link.queue_ms.mean"].mean,
        all["link.queue_ms.p95"].mean,
        all["link.drop_share"].mean * 100.0,
    ]
}

/// The same of the kernel's runs, each with its standard deviation.
fn kernel(discipline: &str, flows: &str) -> [(f64, f64); 4] {
    let mut lines = KERNEL.lines().filter(|l| !l.starts_with('#'));
    let head: Vec<&str> = lines.next().unwrap().split(',').collect();
    let row: Vec<&str> = lines
        .map(|l| l.split(',').collect::<Vec<_>>())
        .find(|row| row[..2] == [discipline, flows])
        .expect("the kernel has it");
    let at = |name: &str| {
        let i = head.iter().position(|h| *h == name).expect("a column");
        (row[i].parse().unwrap(), row[i + 1].parse().unwrap())
    };
    [
        "goodput_mbps",
        "qdelay_mean_ms",
        "qdelay_p95_ms",
        "drop_pct",
    ]
    .map(at)
}

#[test]
fn the_queues_of_the_kernels_disciplines_are_ours_too() {
    let mut now = String::new();
    for line in OURS.lines() {
        let words: Vec<&str> = line.splitn(7, ' ').collect();
        let [discipline, flows, .., queue] = words[..] else {
            panic!("{line}");
        };
        if discipline == "#" {
            continue;
        }
        let ours = figures(flows, queue);
        // Share of the kernel's figure, and one packet where it is a delay.
        let slack = [(0.1, 0.0), (0.1, 1.2), (0.1, 1.2), (0.2, 0.0)];
        for (i, (theirs, sd)) in kernel(discipline, flows).into_iter().enumerate() {
            let allowed = (slack[i].0 * theirs).max(2.0 * sd + slack[i].1);
            assert!(
                (ours[i] - theirs).abs() <= allowed,
                "{discipline}, {flows} flows, figure {i}: {} here, {theirs} ± {sd} in the kernel",
                ours[i]
            );
        }
        let ours = ours.map(|f| format!("{f:.4}")).join(" ");
        now += &format!("{discipline} {flows} {ours} {queue}\n");
    }
    let then: String = OURS
        .lines()
        .filter(|l| !l.starts_with('#'))
        .flat_map(|l| [l, "\n"])
        .collect();
    assert_eq!(
        now, then,
        "our own figures changed: if that is meant, bench/sim_linux.py --golden writes them anew"
    );
}
