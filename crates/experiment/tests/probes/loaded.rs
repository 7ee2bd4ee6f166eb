//! Kinds that probe and load, over lines in virtual time.

use super::figure;
use base::rng::{Streams, uniform};
use base::{BitsPerSec, Bytes};
use experiment::Outcome;
use link::LinkSpec;
use sim::bufferbloat::Plan;

fn over(spec: &str, link: LinkSpec, seed: u64, budget: Bytes) -> Outcome {
    super::over(spec, &Plan::new(link, seed), budget)
}

fn line(up_bps: u64, down_bps: u64, delay_us: u64, queue: &str) -> LinkSpec {
    let way = |name: &str, bps: u64| {
        format!(
            "[{name}]\nrate = \"{bps} bit/s\"\ndelay = \"{delay_us} us\"\nqueue = \"{queue}\"\n"
        )
    };
    let text = format!(
        "name = \"t\"\ntitle = \"t\"\n{}{}",
        way("up", up_bps),
        way("down", down_bps)
    );
    LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{text}: {e}"))
}

#[test]
fn the_round_trip_at_rest_is_the_lines() {
    for seed in 0..20 {
        let mut rng = Streams::new(seed).stream("rtt");
        let delay_us = 200 + (uniform(&mut rng) * 50_000.0) as u64;
        let bps = 300_000 + (uniform(&mut rng) * 90e6) as u64;
        let link = line(bps, bps, delay_us, "fifo:packets=100");
        let outcome = over(
            "rtt:count=40,interval=20ms",
            link,
            seed,
            Bytes::new(1 << 20),
        );
        let (value, ..) = figure(&outcome, "median_ms");
        // A packet of 98 bytes or so, each way.
        let truth = 2.0 * (delay_us as f64 / 1e3 + 100.0 * 8e3 / bps as f64);
        assert!(
            (value - truth).abs() < 0.15 + 0.05 * truth,
            "seed {seed}: {value} ms, truth {truth} ms"
        );
        assert_eq!(figure(&outcome, "lost").0, 0.0, "{}", outcome.says);
    }
}

#[test]
fn each_method_of_throughput_finds_the_lines_rate() {
    for seed in 0..6 {
        let mut rng = Streams::new(seed).stream("throughput");
        let mut bps = || (1e6 * 30f64.powf(uniform(&mut rng))) as u64;
        let (up, down) = (bps(), bps());
        let link = line(up, down, 8_000, "fifo:packets=80");
        let outcome = over(
            "throughput:hold=5s,idle=2s,warm_up=4s",
            link,
            seed,
            Bytes::new(4_000_000_000),
        );
        for (way, truth) in [("up", up), ("down", down)] {
            for method in ["several", "one", "datagrams"] {
                let (value, ..) = figure(&outcome, &format!("{way}_{method}_bps"));
                let off = value / truth as f64 - 1.0;
                assert!(
                    off.abs() < 0.05,
                    "seed {seed}: {way} by {method}: {value} of {}",
                    BitsPerSec::new(truth)
                );
            }
        }
    }
}

#[test]
fn a_small_budget_cuts_steps_short_and_is_kept() {
    let budget = Bytes::new(3_000_000);
    let link = line(10_000_000, 10_000_000, 5_000, "fifo:packets=80");
    let outcome = over("throughput:idle=1s", link, 1, budget);
    let cut = outcome
        .doubts
        .iter()
        .filter(|d| d.contains("its share of the budget"));
    assert_eq!(cut.count(), 6, "{:?}", outcome.doubts);
}
