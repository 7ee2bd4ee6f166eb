//! `check` on lines of several rates, buffers and disciplines, clean ones and one with faults.

use crate::accuracy::cell::{Cell, Plant, Truth, alerts, near, no_alerts, row, says, share};
use crate::accuracy::line::Line;
use live::emulate::FAR_V4;
use testkit::networks::planted;
use testkit::networks::resolver::{BOGUS, Dnssec, Manner, SIGNED};

const RESOLVER: u16 = 5301;

fn kind() -> String {
    format!(
        "check:count=100,resolvers={FAR_V4}:{RESOLVER},zone=test,signed={SIGNED},bogus={BOGUS},tcp=25; 80; 443; 2001,udp=123; 443"
    )
}

fn checked(
    line: Line,
    what: &str,
    mut plants: Vec<Plant>,
    manner: Manner,
    more: Vec<Truth>,
) -> Cell {
    plants.insert(0, Plant::Resolver(RESOLVER, manner));
    // A small packet there and back, and what two programs take.
    let mut truths = vec![
        near(&["latency_ms"], 2.0 * line.delay_ms, 2.0),
        near(&["path_mtu_v4_bytes"], 1500.0, 0.0),
        near(&["path_mtu_v6_bytes"], 1500.0, 0.0),
        near(&["dns_ms"], 2.0 * line.delay_ms + manner.new_ms as f64, 3.0),
    ];
    truths.extend(more);
    Cell::network(kind(), line, (what, plants), truths)
}

fn good() -> Manner {
    Manner {
        dnssec: Dnssec::Checks,
        ..Manner::default()
    }
}

/// Nothing is wrong with it. Of a drop-tail queue the size is known.
fn clean(delay_ms: f64, up: (f64, &str), down: (f64, &str), buffers: Vec<Truth>) -> Cell {
    let line = Line::up(up.0, up.1).down(down.0, down.1).delay(delay_ms);
    let mut more = vec![
        near(&["ports_blocked"], 0.0, 0.0),
        says("Nothing is wrong"),
        no_alerts(),
    ];
    more.extend(buffers);
    checked(line, "", Vec::new(), good(), more)
}

fn buffers(up_ms: f64, down_ms: f64) -> Vec<Truth> {
    vec![
        share(&["buffer_up_ms"], up_ms, 0.1),
        share(&["buffer_down_ms"], down_ms, 0.1),
    ]
}

pub fn all() -> Vec<Cell> {
    let faults = vec![
        Plant::NearRules(planted::NO_MAIL.into()),
        Plant::NearShell(planted::NO_PIECES_UP.into()),
    ];
    let slow = Manner {
        new_ms: 1300,
        dnssec: Dnssec::Strips,
        ..Manner::default()
    };
    let faulty = Line::up(2e6, "fifo:bytes=300000")
        .down(20e6, "fifo:bytes=200000")
        .delay(10.0);
    vec![
        clean(
            10.0,
            (5e6, "fifo:bytes=60000"),
            (20e6, "fifo:bytes=200000"),
            buffers(96.0, 80.0),
        ),
        clean(
            25.0,
            (1e6, "fifo:bytes=30000"),
            (8e6, "fifo:bytes=100000"),
            buffers(240.0, 100.0),
        ),
        clean(
            5.0,
            (20e6, "fifo:packets=100"),
            (50e6, "fifo:packets=200"),
            Vec::new(),
        ),
        clean(10.0, (5e6, "fq_codel"), (20e6, "fq_codel"), Vec::new()),
        clean(10.0, (5e6, "pie"), (20e6, "codel"), Vec::new()),
        checked(
            faulty,
            "port 25 blocked, datagrams in pieces dropped, a slow resolver that strips signatures, a buffer of 1.2 s",
            faults,
            slow,
            vec![
                near(&["ports_blocked"], 1.0, 0.0),
                share(&["buffer_up_ms"], 1200.0, 0.1),
                share(&["buffer_down_ms"], 80.0, 0.1),
                alerts("the buffer up is too large"),
                alerts("for new names"),
                alerts("blocked silently: TCP 25"),
                alerts("blocks datagrams in pieces, up"),
                alerts("strips signatures"),
                row("loss", "fine"),
                row("delay", "fine"),
                row("buffer down", "fine"),
            ],
        ),
    ]
}
