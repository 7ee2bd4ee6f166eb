use super::{bench, figure, near, probe};
use base::Duration;
use sim::craft::Hosts;

#[test]
fn the_documents_line_takes_51_of_every_size_and_two_senders_25_each() {
    let up = "rate = \"2035 kbit/s\"\ndelay = \"1.36 ms\"\nqueue = \"fifo:packets=50\"";
    let outcome = probe(
        "burst",
        &mut bench(
            up,
            Hosts {
                v6: true,
                ..Hosts::default()
            },
        ),
    );
    for row in &outcome.tables[0].rows {
        assert_eq!(row[1..4], ["51", "52", "51"], "{row:?}");
    }
    near(&outcome, "burst_packets", 51.0, 0.0);
    near(&outcome, "queue_packets", 50.0, 0.0);
    near(&outcome, "counts_packets", 1.0, 0.0);
    near(&outcome, "two_senders_packets", 25.0, 0.0);
    assert!(
        outcome.evidence[0].ends_with(": drop-tail"),
        "{:?}",
        outcome.evidence
    );
    assert!(
        outcome.evidence[2].ends_with("1 lost"),
        "{:?}",
        outcome.evidence
    );
}

#[test]
fn queues_of_packets_and_of_bytes_are_told_apart_over_rates_and_sizes() {
    for rate in ["500 kbit/s", "5 Mbit/s", "50 Mbit/s"] {
        for (queue, packets) in [
            ("fifo:packets=10", true),
            ("fifo:packets=200", true),
            ("fifo:bytes=15kB", false),
            ("fifo:bytes=200kB", false),
        ] {
            let up = format!("rate = \"{rate}\"\ndelay = \"4 ms\"\nqueue = \"{queue}\"");
            let outcome = probe("burst:most=8192", &mut bench(&up, Hosts::default()));
            near(
                &outcome,
                "counts_packets",
                f64::from(u8::from(packets)),
                0.0,
            );
            let truth = match queue {
                "fifo:packets=10" => 10.0,
                "fifo:packets=200" => 200.0,
                "fifo:bytes=15kB" => (15_000.0f64 / 1480.0).floor(),
                _ => (200_000.0f64 / 1480.0).floor(),
            };
            // At 50 Mbit/s a packet leaves in the time in which 20 arrive.
            near(
                &outcome,
                "queue_packets",
                truth,
                if rate == "50 Mbit/s" { 2.0 } else { 0.0 },
            );
        }
    }
}

/// Of 50 bytes more fit than are tried; three sizes agree, and the fourth does not gainsay them.
#[test]
fn what_a_queue_counts_is_told_although_one_size_found_no_end_of_it() {
    let up = "rate = \"5 Mbit/s\"\ndelay = \"4 ms\"\nqueue = \"fifo:bytes=200kB\"";
    let outcome = probe("burst", &mut bench(up, Hosts::default()));
    near(&outcome, "counts_packets", 0.0, 0.0);
    assert!(outcome.says.contains("counts bytes"), "{}", outcome.says);
}

#[test]
fn a_line_that_loses_at_random_still_shows_its_queue() {
    let up =
        "rate = \"2 Mbit/s\"\nqueue = \"fifo:packets=50\"\nloss = \"random:probability=0.002\"";
    let outcome = probe(
        "burst:size=1000,repeats=5",
        &mut bench(up, Hosts::default()),
    );
    near(&outcome, "burst_packets", 51.0, 0.0);
}

#[test]
fn a_queue_longer_than_what_is_tried_is_at_least_that() {
    let up = "rate = \"2 Mbit/s\"\nqueue = \"fifo:packets=5000\"";
    let outcome = probe("burst:size=100,most=256", &mut bench(up, Hosts::default()));
    let (value, low, high) = figure(&outcome, "burst_packets");
    assert_eq!((value, low), (256.0, 256.0));
    assert!(
        high > 1e6 && outcome.says.contains("256"),
        "{}",
        outcome.says
    );
}

#[test]
fn a_slow_host_does_not_make_the_queue_longer() {
    // 100 Mbit/s towards a line of 20: of five packets that come, one leaves.
    let hosts = Hosts {
        access: base::BitsPerSec::from_mbps(100),
        stamp_late: Duration::from_micros(50),
        ..Hosts::default()
    };
    let up = "rate = \"20 Mbit/s\"\nqueue = \"fifo:packets=50\"";
    let outcome = probe("burst:size=1452", &mut bench(up, hosts));
    assert!(
        figure(&outcome, "burst_packets").0 > 60.0,
        "{}",
        outcome.says
    );
    near(&outcome, "queue_packets", 50.0, 1.0);
}
