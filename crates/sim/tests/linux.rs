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
    with(&[("flow.0.count", flows), ("link.queue", queue)])
}

/// The same with these settings of the scenario.
fn with(settings: &[(&str, &str)]) -> [f64; 4] {
    let mut draft = Draft::new(SCENARIO).unwrap();
    for (key, value) in settings {
        draft.set(key, value, "test").unwrap();
    }
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

/// Figures of seconds 0 to 10 of one flow; the kernel's are in reference/linux_controllers_golden.csv.
fn start(controller: &str, queue: &str) -> [f64; 4] {
    with(&[
        ("flow.0.count", "1"),
        ("flow.0.start", "0 s"),
        ("flow.0.spread", "1 ms"),
        ("warmup", "100 ms"),
        ("duration", "10.1 s"),
        ("tcp.controller", controller),
        ("link.queue", queue),
    ])
}

#[test]
fn cubic_leaves_slow_start_before_a_queue_of_one_bandwidth_delay_product_overflows() {
    let [goodput, mean, _, drops] = start("cubic:variant=linux,hystart=classic", "fifo:packets=83");
    // The kernel: 9.247 Mbit/s, 66.2 ms, 11 drops (0.13 %). Ours had 311 drops when it acknowledged every second segment.
    assert!((goodput / 9.247 - 1.0).abs() < 0.02, "{goodput}");
    assert!((mean / 66.165 - 1.0).abs() < 0.1, "{mean}");
    assert!((0.08..0.2).contains(&drops), "{drops}");
}

#[test]
fn losses_after_a_recovery_began_reduce_the_window_again() {
    // The kernel: 6.759 Mbit/s. With one reduction fewer Reno reaches 7.7.
    let [goodput, ..] = start("reno:whole=true", "codel:mtu=1514");
    assert!((goodput / 6.759 - 1.0).abs() < 0.05, "{goodput}");
}

#[test]
fn bbr_keeps_the_queues_that_the_kernels_keeps() {
    let settled = |flows| {
        let [_, mean, p95, _] = with(&[
            ("flow.0.count", flows),
            ("tcp.controller", "bbr1"),
            ("link.queue", "fifo:packets=1000"),
        ]);
        (mean, p95)
    };
    // The kernel: mean and 95th percentile from the tenth second on; a packet is 1.2 ms.
    let (mean, p95) = settled("1");
    assert!(
        (mean - 8.4).abs() < 1.3 && (p95 - 26.7).abs() < 2.7,
        "{mean} {p95}"
    );
    let (mean, p95) = settled("4");
    assert!((mean / 144.4 - 1.0).abs() < 0.1, "{mean}");
    assert!((p95 / 180.7 - 1.0).abs() < 0.1, "{p95}");
}
