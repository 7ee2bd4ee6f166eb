use super::{bench, near, probe};
use base::BitsPerSec;
use sim::craft::Hosts;

/// Chapter 6 of Gao 2012: 1.97 Mbit/s, 1452 bytes, 51 at once, 25 of two senders, evenly spaced.
#[test]
fn the_advice_for_the_documents_line_is_the_documents() {
    let up = "rate = \"2035 kbit/s\"\ndelay = \"1.36 ms\"\nqueue = \"fifo:packets=50\"";
    let hosts = Hosts {
        v6: true,
        access: BitsPerSec::from_mbps(1000),
        ..Hosts::default()
    };
    let outcome = probe("envelope", &mut bench(up, hosts));
    near(&outcome, "lossless_bps", 1.97e6, 25e3);
    near(&outcome, "burst_packets", 51.0, 0.0);
    near(&outcome, "two_senders_packets", 25.0, 0.0);
    near(&outcome, "best_payload_bytes", 1452.0, 0.0);
    assert_eq!(outcome.advice.len(), 4, "{:?}", outcome.advice);
    assert!(outcome.says.starts_with("Safe up"), "{}", outcome.says);
}
