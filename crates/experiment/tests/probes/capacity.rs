use super::{bench, figure, near, probe};
use base::BitsPerSec;
use base::record::Direction;
use sim::craft::{Cross, Hosts};

/// A line that others use to this share.
fn shared(rate_mbps: u64, queue: &str, share: f64, seed: u64) -> experiment::Outcome {
    let up = format!("rate = \"{rate_mbps} Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"{queue}\"");
    let hosts = Hosts {
        seed,
        ..Hosts::default()
    };
    let mut bench = bench(&up, hosts);
    if share > 0.0 {
        let rate = BitsPerSec::new((rate_mbps as f64 * 1e6 * share) as u64);
        bench.share_with(Direction::Up, Cross { rate });
    }
    probe("capacity", &mut bench)
}

#[test]
fn capacity_is_found_within_a_twentieth_and_what_is_free_within_15_percent_beside_others() {
    for rate_mbps in [2, 20, 100] {
        for share in [0.0, 0.2, 0.4, 0.6, 0.8] {
            let outcome = shared(rate_mbps, "fifo:packets=100", share, 1);
            let capacity = rate_mbps as f64 * 1e6;
            let free = capacity * (1.0 - share);
            near(&outcome, "capacity_bps", capacity, 0.05 * capacity);
            near(&outcome, "available_bps", free, 0.15 * free);
        }
    }
}

#[test]
fn the_interval_of_what_is_free_holds_the_truth_as_often_as_it_says() {
    let runs = 12;
    let held = (0..runs).filter(|seed| {
        let outcome = shared(20, "fifo:packets=100", 0.5, 10 + seed);
        let (_, low, high) = figure(&outcome, "available_bps");
        (low..=high).contains(&10e6)
    });
    // 95 % each: fewer than nine of twelve come once in five thousand times.
    assert!(held.count() >= 9);
}

#[test]
fn a_line_that_loses_at_random_and_one_under_an_aqm_are_told_all_the_same() {
    for up in [
        "queue = \"fifo:packets=100\"\nloss = \"random:probability=0.01\"",
        "queue = \"codel\"",
        "queue = \"fifo:packets=15\"",
    ] {
        let up = format!("rate = \"10 Mbit/s\"\ndelay = \"5 ms\"\n{up}");
        let mut bench = bench(&up, Hosts::default());
        let rate = BitsPerSec::from_mbps(4);
        bench.share_with(Direction::Up, Cross { rate });
        let outcome = probe("capacity", &mut bench);
        near(&outcome, "capacity_bps", 10e6, 0.5e6);
        near(&outcome, "available_bps", 6e6, 0.9e6);
    }
}

/// Each method's own failure, as the page and the table say.
#[test]
fn jitter_and_a_burst_allowance_are_where_pairs_fail() {
    let up = "rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\njitter = \"normal:mean=3ms,sd=2ms\"\nqueue = \"fifo:packets=100\"";
    let outcome = probe("capacity", &mut bench(up, Hosts::default()));
    assert!(
        outcome.figure("pairs_bps").value().is_none()
            && outcome
                .evidence
                .iter()
                .any(|e| e.contains("pairs cannot tell")),
        "{:?}",
        outcome.figures
    );
    let up = "rate = \"20 Mbit/s\"\ndelay = \"5 ms\"\nqueue = \"tbf:rate=10 Mbit/s,burst=1000000,limit=150\"";
    let outcome = probe("capacity", &mut bench(up, Hosts::default()));
    near(&outcome, "pairs_bps", 20e6, 1e6);
}
