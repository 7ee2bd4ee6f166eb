//! `nat`, `ports`, `middlebox`, `ipv6` and `ecn`: networks in which translators, filters and proxies stand.

use crate::accuracy::cell::{
    At, Cell, Is, Plant, Truth, alerts, near, no_alerts, row, says, share,
};
use crate::accuracy::line::Line;
use testkit::networks::planted::{self, BY_BOTH, FREE};

fn line(delay_ms: f64) -> Line {
    let queue = "fifo:bytes=1MB";
    Line::up(100e6, queue).down(100e6, queue).delay(delay_ms)
}

/// Two addresses of the server, and those outside.
fn addresses() -> Vec<Plant> {
    vec![
        Plant::FarShell(planted::SECOND_ADDRESS),
        Plant::NearShell(planted::outside()),
    ]
}

fn nat(what: &str, rules: Option<String>, truths: Vec<Truth>) -> Cell {
    let mut plants = addresses();
    plants.extend(rules.map(Plant::NearRules));
    let kind = "nat:sockets=6,during=100 ms";
    Cell::network(kind, line(2.0), (what, plants), truths)
}

fn nats() -> Vec<Cell> {
    let none = |filtering: &str| vec![row("translation", "no"), row("filtering", filtering)];
    let mut all = vec![
        nat("no translator", None, none(FREE)),
        nat(
            "no translator, a firewall",
            Some(planted::FIREWALL.into()),
            none(BY_BOTH),
        ),
    ];
    all.extend(planted::nats().map(|n| {
        let ports = if n.keeps_ports() { "kept" } else { "changed" };
        let truths = vec![
            row("translation", "yes"),
            row("mapping", n.mapping),
            row("filtering", n.filtering),
            row("ports", ports),
        ];
        nat(n.what, Some(n.rules()), truths)
    }));
    all.push(nat(
        "translator that gives one of two addresses by chance",
        Some(planted::by_chance()),
        vec![
            row("translation", "yes"),
            near(&["external_addresses"], 2.0, 0.0),
            alerts("alternates"),
        ],
    ));
    let mut plants = addresses();
    plants.push(Plant::NearRules(planted::translator(
        &planted::one_address(),
        None,
    )));
    plants.push(Plant::NearShell(planted::forgets()));
    all.push(Cell::network(
        "nat:sockets=2,during=0 ms,lifetime=8 s",
        line(2.0),
        (
            "translator that forgets after 3 s, and after 6 s of talk",
            plants,
        ),
        // The silences that are tried are a sixth apart.
        vec![
            share(&["lifetime_once_ms"], planted::ASKED_S * 1e3, 0.16),
            share(&["lifetime_ms"], planted::TALKED_S * 1e3, 0.16),
        ],
    ));
    all.push(Cell::network(
        "nat:sockets=2,during=0 ms",
        line(2.0),
        (
            "the server has one address only",
            vec![
                Plant::NearShell(planted::outside()),
                Plant::NearRules(planted::translator(&planted::one_address(), None)),
            ],
        ),
        vec![
            row("mapping", "needs a second address of the server"),
            row("filtering", BY_BOTH),
        ],
    ));
    all
}

fn ports() -> Vec<Cell> {
    let open = |n| near(&["open"], n, 0.0);
    let planted = vec![
        Plant::Impostor(planted::IMPOSTOR),
        Plant::Taken(planted::TAKEN),
        Plant::NearRules(planted::PORT_RULES.into()),
    ];
    let clean = vec![open(10.0), no_alerts()];
    let mut is: Vec<Truth> = planted::PORTS_ARE
        .map(|(port, what)| row(port, what))
        .into();
    is.push(open(2.0));
    vec![
        Cell::network(planted::PORTS, line(2.0), ("", Vec::new()), clean),
        Cell::network(
            planted::PORTS,
            line(2.0),
            ("ports blocked, refused, answered and in use", planted),
            is,
        ),
    ]
}

fn middleboxes() -> Vec<Cell> {
    let reads = "No box was found that reads, changes or blocks what passes.";
    let clean = vec![
        says(reads),
        row("against viruses", "none found"),
        no_alerts(),
    ];
    let boxes = vec![Plant::Boxes, Plant::NearRules(planted::DIVERTED.into())];
    let shut = vec![
        Plant::FarRules(planted::NO_TIMESTAMPS),
        Plant::NearRules(planted::WEB_SHUT.into()),
        Plant::NearShell(planted::NO_PIECES_UP.into()),
    ];
    let is =
        |all: &[(&'static str, &str)]| all.iter().map(|(what, part)| row(what, *part)).collect();
    vec![
        Cell::network("middlebox:eicar=true", line(2.0), ("", Vec::new()), clean),
        Cell::network(
            "middlebox:eicar=true",
            line(2.0),
            (
                "a proxy for the web, which looks for viruses, and a forwarder of names",
                boxes,
            ),
            is(&planted::DIVERTED_IS),
        ),
        Cell::network(
            "middlebox",
            line(2.0),
            (
                "port 80 shut, datagrams in pieces dropped, time stamps taken away",
                shut,
            ),
            is(&planted::SHUT_IS),
        ),
    ]
}

fn ipv6(kind: &str, what: &str, script: Option<&str>, truths: Vec<Truth>) -> Cell {
    let mut plants = Vec::new();
    plants.extend(script.map(|s| Plant::NearShell(s.into())));
    Cell::network(kind, line(5.0), (what, plants), truths)
}

fn versions() -> Vec<Cell> {
    let mtu = |v| near(&["path_mtu_bytes"], v, 0.0);
    vec![
        ipv6(
            "ipv6:count=5",
            "",
            None,
            vec![
                says("reached over both versions"),
                mtu(1500.0),
                near(&["connect_v6_ms"], 10.0, 1.0),
                near(&["connect_v4_ms"], 10.0, 1.0),
                row("datagrams in pieces, up", "arrive"),
                row("datagrams in pieces, down", "arrive"),
                row("packets with destination options", "arrive"),
            ],
        ),
        ipv6(
            "ipv6:count=3",
            "IPv6 configured and dead",
            Some(planted::V6_BROKEN),
            vec![says("IPv4 only"), alerts("nothing gets through")],
        ),
        ipv6(
            "ipv6:count=3",
            "IPv6 packets above 1400 bytes vanish",
            Some(planted::V6_HOLE),
            vec![mtu(1400.0), alerts("vanish without a word")],
        ),
        ipv6(
            "ipv6:count=3",
            "no IPv6",
            Some(planted::NO_V6),
            vec![
                says("no way to IPv6"),
                Truth {
                    at: At::Figures(&["path_mtu_bytes"]),
                    is: Is::CannotTell,
                },
            ],
        ),
    ]
}

fn markings() -> Vec<Cell> {
    let kept = |key, share| near(key, share, 0.0);
    let cleared = Plant::NearRules(planted::ECN_CLEARED.into());
    let replaced = Plant::FarRules(planted::EF_REPLACED);
    let dropped = Plant::NearRules(planted::NQB_DROPPED_DOWN.into());
    vec![
        Cell::network(
            "ecn",
            line(5.0),
            ("", Vec::new()),
            vec![
                kept(&["up_v4_ecn_kept"], 1.0),
                kept(&["up_v4_dscp_kept"], 1.0),
                kept(&["down_v4_ecn_kept"], 1.0),
                kept(&["down_v4_dscp_kept"], 1.0),
                no_alerts(),
            ],
        ),
        Cell::network(
            "ecn",
            line(5.0),
            (
                "ECN cleared up, EF replaced by CS1 up",
                vec![cleared, replaced],
            ),
            vec![
                kept(&["up_v4_ecn_kept"], 0.0),
                near(&["up_v4_dscp_kept"], 6.0 / 7.0, 1e-9),
                kept(&["down_v4_ecn_kept"], 1.0),
                kept(&["down_v4_dscp_kept"], 1.0),
            ],
        ),
        Cell::network(
            "ecn",
            line(5.0),
            ("NQB dropped down", vec![dropped]),
            vec![
                kept(&["up_v4_ecn_kept"], 1.0),
                kept(&["up_v4_dscp_kept"], 1.0),
                kept(&["down_v4_ecn_kept"], 1.0),
                near(&["down_v4_dscp_kept"], 6.0 / 7.0, 1e-9),
            ],
        ),
    ]
}

pub fn all() -> Vec<Cell> {
    [nats(), ports(), middleboxes(), versions(), markings()]
        .into_iter()
        .flatten()
        .collect()
}
