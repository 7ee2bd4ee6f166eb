use super::{bench, figure, line, near, probe};
use base::BitsPerSec;
use base::record::Direction;
use sim::craft::{Bench, Hosts};

/// The line of Gao 2012 carries 1.97 Mbit/s of payload in datagrams of 1452 bytes over IPv6.
const SHDSL: &str = "rate = \"2035 kbit/s\"\ndelay = \"1.36 ms\"\nqueue = \"fifo:packets=50\"";

fn v6() -> Hosts {
    Hosts {
        v6: true,
        ..Hosts::default()
    }
}

#[test]
fn the_documents_line_is_found_within_a_step() {
    // 2.035 × 1452 / 1500.
    let outcome = probe("sweep", &mut bench(SHDSL, v6()));
    near(&outcome, "lossless_bps", 1.96988e6, 25e3);
    near(&outcome, "plateau_bps", 1.96988e6, 2e3);
    near(&outcome, "link_bps", 2.035e6, 2e3);
}

#[test]
fn the_documents_own_steps_find_the_same_and_show_the_plateau() {
    let outcome = probe("sweep:mode=full,from=1.9Mbit/s", &mut bench(SHDSL, v6()));
    near(&outcome, "lossless_bps", 1.96988e6, 25e3);
    let achieved: Vec<f64> = outcome.plots[0].series[0]
        .points
        .iter()
        .filter_map(|p| p.1)
        .collect();
    assert!(
        achieved.len() >= 5 && achieved.iter().all(|r| *r < 1.98),
        "{achieved:?}"
    );
}

#[test]
fn rates_are_found_whatever_the_line_its_queue_and_the_size() {
    for rate in [200_000u64, 2_000_000, 20_000_000, 100_000_000] {
        for queue in [
            "fifo:packets=20",
            "fifo:bytes=200kB",
            "codel",
            "fq_codel",
            "pie",
        ] {
            for size in [200u64, 1452] {
                // 200 bytes a packet make 20 of them a queue of hardly anything; it is the same line.
                let up = format!("rate = \"{rate} bit/s\"\ndelay = \"5 ms\"\nqueue = \"{queue}\"");
                let outcome = probe(
                    &format!("sweep:size={size}"),
                    &mut bench(&up, Hosts::default()),
                );
                let truth = rate as f64 * size as f64 / (size + 28) as f64;
                let step = (truth / 100.0).max(25e3).min(truth / 20.0);
                near(&outcome, "lossless_bps", truth, step);
                let (_, low, high) = figure(&outcome, "lossless_bps");
                assert!(
                    low <= truth * 1.001 && truth <= high * 1.001,
                    "{up} {size}: {low} to {high}, truth {truth}"
                );
            }
        }
    }
}

#[test]
fn the_other_direction_is_another_line() {
    let mut spec = line("rate = \"1 Mbit/s\"");
    spec.down.rate = link::RateSpec::Fixed(BitsPerSec::from_mbps(8));
    let mut bench = Bench::new(&spec, Hosts::default()).unwrap();
    let outcome = probe("sweep:direction=down", &mut bench);
    near(&outcome, "lossless_bps", 8e6 * 1452.0 / 1480.0, 80e3);
    assert_eq!(Direction::Down as usize, 1);
}

#[test]
fn a_line_that_loses_at_random_has_no_such_rate_and_that_is_said() {
    let up = "rate = \"2 Mbit/s\"\nloss = \"random:probability=0.05\"";
    let outcome = probe("sweep", &mut bench(up, Hosts::default()));
    assert!(
        outcome.figure("lossless_bps").value().is_none(),
        "{}",
        outcome.says
    );
    assert!(
        outcome.says.contains("whatever the rate"),
        "{}",
        outcome.says
    );
}

#[test]
fn jitter_is_no_overload() {
    let up = "rate = \"5 Mbit/s\"\njitter = \"normal:mean=3ms,sd=2ms\"";
    let outcome = probe("sweep", &mut bench(up, Hosts::default()));
    near(&outcome, "lossless_bps", 5e6 * 1452.0 / 1480.0, 60e3);
}

#[test]
fn nothing_that_arrives_is_no_rate() {
    let outcome = probe(
        "sweep",
        &mut bench(
            "rate = \"1 Mbit/s\"\nloss = \"random:probability=1\"",
            Hosts::default(),
        ),
    );
    assert!(outcome.says.starts_with("Cannot tell"), "{}", outcome.says);
}
