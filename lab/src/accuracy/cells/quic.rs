//! `quic`: networks that leave UDP port 443 alone, block it, or police it.

use crate::accuracy::cell::{Cell, Plant, Truth, near, says};
use crate::accuracy::line::Line;

/// A network in which nftables treat what comes from UDP port 443 so.
fn network(what: &str, rule: &str, truths: Vec<Truth>) -> Cell {
    let table = format!("chain in {{ type filter hook input priority 0; udp sport 443 {rule}; }}");
    let line = Line::up(20e6, "fifo:packets=120").down(20e6, "fifo:packets=120");
    Cell::network(
        "quic:pairs=3,time=7s",
        line.delay(10.0),
        (what, vec![Plant::NearRules(table)]),
        truths,
    )
}

pub fn all() -> Vec<Cell> {
    vec![
        network(
            "nothing in the way",
            "accept",
            vec![says("QUIC is treated like TCP down")],
        ),
        network(
            "UDP port 443 is blocked",
            "drop",
            vec![says("QUIC to UDP port 443 is blocked")],
        ),
        network(
            "UDP port 443 is policed to 8 Mbit/s",
            "limit rate over 1000 kbytes/second burst 20 kbytes drop",
            vec![
                says("QUIC is policed down"),
                near(&["quic_of_tcp_down"], 0.42, 0.1),
            ],
        ),
    ]
}
