use super::{bench, figure, near, probe};
use sim::craft::Hosts;

#[test]
fn buffers_are_found_within_a_tenth_over_rates_and_sizes() {
    for (rate, bytes) in [
        (700_000u64, 37_625u64), // Borlaug 2014: 430 ms
        (700_000, 200_000),
        (2_000_000, 76_500),
        (10_000_000, 312_500),
        (10_000_000, 30_000),
        (50_000_000, 1_000_000),
        (65_000, 24_375), // 3 s of GPRS
    ] {
        let up =
            format!("rate = \"{rate} bit/s\"\ndelay = \"20 ms\"\nqueue = \"fifo:bytes={bytes}\"");
        let outcome = probe("buffer", &mut bench(&up, Hosts::default()));
        let ms = bytes as f64 * 8e3 / rate as f64;
        near(&outcome, "queue_ms", ms, 0.1 * ms);
        near(&outcome, "queue_bytes", bytes as f64, 0.1 * bytes as f64);
        near(&outcome, "link_bps", rate as f64, 0.02 * rate as f64);
        assert!(
            outcome.figures.iter().all(|f| f.key != "bucket_bytes"),
            "{up}: {}",
            outcome.says
        );
    }
}

#[test]
fn a_burst_allowance_is_found_with_its_size_and_both_rates() {
    for (peak, sustained, bucket) in [(20e6, 10e6, 1e6), (10e6, 2e6, 2e6), (50e6, 20e6, 5e6)] {
        let up = format!(
            "rate = \"{peak} bit/s\"\ndelay = \"10 ms\"\nqueue = \"tbf:rate={sustained} bit/s,burst={bucket},limit=150\""
        );
        let outcome = probe("buffer", &mut bench(&up, Hosts::default()));
        near(&outcome, "sustained_bps", sustained, 0.05 * sustained);
        near(&outcome, "peak_bps", peak, 0.05 * peak);
        near(&outcome, "bucket_bytes", bucket, 0.1 * bucket);
        assert!(
            outcome.evidence.iter().any(|e| e.contains("two steps")),
            "{:?}",
            outcome.evidence
        );
    }
}

/// The bucket lasted as long as the first flood, and its last two stretches passed for the rate from then on.
#[test]
fn a_bucket_that_runs_empty_as_the_flood_ends_takes_another_flood_or_is_not_told() {
    let up = "rate = \"19.68 Mbit/s\"\ndelay = \"49.58 ms\"\nqueue = \"tbf:rate=11615282 bit/s,burst=4000000,limit=22\"";
    let outcome = probe("buffer", &mut bench(up, Hosts::default()));
    near(&outcome, "sustained_bps", 11_615_282.0, 0.02 * 11_615_282.0);
    near(&outcome, "bucket_bytes", 4e6, 4e5);
    // A length of the flood that is given allows no other.
    let outcome = probe("buffer:hold=4s", &mut bench(up, Hosts::default()));
    for key in [
        "queue_ms",
        "queue_bytes",
        "link_bps",
        "bucket_bytes",
        "sustained_bps",
    ] {
        let figure = outcome.figure(key);
        assert!(
            figure.value().is_none(),
            "{key}: {figure:?}; {}",
            outcome.says
        );
    }
    near(&outcome, "peak_bps", 19.68e6, 0.02 * 19.68e6);
}

/// `check` called an FQ-CoDel queue too large: it holds seconds of a flood, and nothing of what others send.
#[test]
fn a_queue_that_drops_before_it_is_full_is_told_from_one_that_does_not() {
    for mbit in [1, 5, 20] {
        for (queue, managed) in [
            ("codel", true),
            ("fq_codel", true),
            ("pie", true),
            ("fq_pie", true),
            ("cake", true),
            ("fifo:packets=20", false),
            ("fifo:packets=300", false),
            ("fifo:bytes=100kB", false),
            ("tbf:rate=500 kbit/s,burst=100kB,limit=60", false),
        ] {
            let up = format!("rate = \"{mbit} Mbit/s\"\ndelay = \"10 ms\"\nqueue = \"{queue}\"");
            let outcome = probe("buffer", &mut bench(&up, Hosts::default()));
            let said = outcome.says.contains("drops before it is full");
            assert_eq!(said, managed, "{up}: {}", outcome.says);
            let (early, ..) = figure(&outcome, "lost_early");
            assert_eq!(early > 0.0, managed, "{up}: {early}");
        }
    }
}

#[test]
fn a_queue_that_holds_more_than_was_sent_is_at_least_what_was_seen() {
    let up = "rate = \"1 Mbit/s\"\nqueue = \"fifo:packets=100000\"";
    let outcome = probe("buffer:hold=5s", &mut bench(up, Hosts::default()));
    assert!(
        outcome.says.contains("at least") && !outcome.doubts.is_empty(),
        "{}",
        outcome.says
    );
    assert!(figure(&outcome, "queue_ms").0 > 3000.0);
}
