use super::{bench, figure, near, probe};
use base::BitsPerSec;
use sim::craft::Hosts;

/// 100 Mbit/s towards the line, as the document's hosts have.
fn hosts(v6: bool) -> Hosts {
    Hosts {
        v6,
        access: BitsPerSec::from_mbps(100),
        ..Hosts::default()
    }
}

const SHDSL: &str = "rate = \"2035 kbit/s\"\ndelay = \"1.36 ms\"\nqueue = \"fifo:packets=50\"";

#[test]
fn the_documents_line_cuts_after_1452_and_2888_bytes_over_ipv6() {
    let outcome = probe("sizes", &mut bench(SHDSL, hosts(true)));
    near(&outcome, "best_payload_bytes", 1452.0, 0.0);
    near(&outcome, "first_edge_bytes", 1452.0, 0.0);
    near(&outcome, "second_edge_bytes", 2888.0, 0.0);
    near(&outcome, "path_mtu_bytes", 1500.0, 0.0);
    // Figure 3.5: what arrives falls at both edges.
    let brings = |size: &str| {
        let row = outcome.tables[0].rows.iter().find(|r| r[0] == size);
        row.expect("it was held")[2].parse::<f64>().unwrap()
    };
    assert!(
        brings("1453") < 0.85 * brings("1452"),
        "{:?}",
        outcome.evidence
    );
    assert!(
        brings("2889") < 0.7 * brings("2888"),
        "{:?}",
        outcome.evidence
    );
    // Figures 3.3 and 3.4: nearly all first fragments arrive, and hardly any second ones beyond what the line has room for.
    let (first, ..) = figure(&outcome, "first_fragments_arrived");
    let (second, ..) = figure(&outcome, "second_fragments_arrived");
    assert!(first > second + 0.1, "{first} {second}");
    // Figure 3.6: far less than B²/b arrives once the line is overloaded.
    let last = outcome.tables[1].rows.last().expect("rates");
    let of = |i: usize| last[i].parse::<f64>().unwrap();
    assert!(of(2) < 0.8 * of(1), "{last:?}");
    let first = &outcome.tables[1].rows[0];
    assert_eq!(
        first[0], first[2],
        "below what the link carries nothing is lost"
    );
}

#[test]
fn edges_are_found_on_lines_of_other_mtu_rate_and_protocol() {
    for (mtu, v6, first, second) in [
        (1500, false, 1472.0, 2952.0),
        (1492, true, 1444.0, 2872.0),
        (1420, false, 1392.0, 2792.0),
        (1280, true, 1232.0, 2456.0),
    ] {
        let up = format!(
            "rate = \"10 Mbit/s\"\ndelay = \"3 ms\"\nqueue = \"fifo:packets=60\"\nmtu = \"{mtu} B\""
        );
        let outcome = probe("sizes", &mut bench(&up, hosts(v6)));
        near(&outcome, "path_mtu_bytes", f64::from(mtu), 0.0);
        near(&outcome, "first_edge_bytes", first, 0.0);
        near(&outcome, "second_edge_bytes", second, 0.0);
    }
}
