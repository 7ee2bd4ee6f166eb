//! Random surroundings of a link: address translators, blocked ports, middleboxes, resolvers, versions of IP and hops, and
//! what the kinds that ask about them shall find.

use crate::accuracy::cell::{At, Cell, Is, On, Truth, near, no_alerts, row, seen};
use crate::accuracy::line::Line;
use crate::chance::Chance;
use base::record::{Event, Recording};
use base::{Bytes, Duration};
use measure::control::listen::Transport;
use sim::bufferbloat::Network;
use sim::bufferbloat::network::{Block, Depends, Nat, Resolver, Router, Version};
use std::net::Ipv4Addr;

/// Kinds that ask about the surroundings.
pub const KINDS: [&str; 7] = ["nat", "ports", "middlebox", "dns", "ipv6", "path", "check"];

/// Address of the resolver in use.
const RESOLVER: &str = "192.0.2.53";
/// Ports that are tried.
const TCP: [(u16, &str); 5] = [
    (22, "TCP 22"),
    (25, "TCP 25"),
    (80, "TCP 80"),
    (443, "TCP 443"),
    (993, "TCP 993"),
];
const UDP: [(u16, &str); 4] = [
    (53, "UDP 53"),
    (123, "UDP 123"),
    (443, "UDP 443"),
    (51_820, "UDP 51820"),
];

/// A cell of this kind, and the name of its impairment.
pub fn draw(c: &mut Chance, kind: &str) -> (Cell, &'static str) {
    let line = Line::up(c.log(300e3, 100e6).round(), "fifo:packets=100")
        .delay((c.log(1.0, 300.0) * 1e3).round() / 1e3);
    let (line, impaired) = match kind {
        // Its load fills the queue through few losses only.
        "path" if c.is(0.7) => (line, "none"),
        "path" => {
            let text = format!("random:probability={:.6}", c.log(1e-4, 1e-2));
            (line.with("loss", text), "random loss")
        }
        _ => impaired(c, line),
    };
    let mut network = Network::default();
    let (probe, line, truths) = match kind {
        "nat" => nat(c, &mut network, line),
        "ports" => ports(c, &mut network, line),
        "middlebox" => middlebox(c, &mut network, line),
        "dns" => dns(c, &mut network, line),
        "ipv6" => ipv6(c, &mut network, line),
        "check" => check(c, &mut network, line, impaired),
        _ => path(c, &mut network, line),
    };
    let cell = Cell {
        probe,
        on: On::Around(line, Box::new(network)),
        truths,
    };
    (cell, impaired)
}

/// Losses both ways on a good half of the links.
fn impaired(c: &mut Chance, line: Line) -> (Line, &'static str) {
    let (name, text) = match c.unit() {
        u if u < 0.45 => return (line, "none"),
        u if u < 0.7 => (
            "random loss",
            format!("random:probability={:.6}", c.log(1e-3, 0.15)),
        ),
        u if u < 0.85 => {
            let (share, length) = (c.log(5e-3, 0.1), c.log(2.0, 15.0));
            let r = 1.0 / length;
            let p = r * share / (1.0 - share);
            (
                "losses in groups",
                format!("gilbert_elliott:p={p:.6},r={r:.6}"),
            )
        }
        _ => (
            "outages",
            format!(
                "outage:start={:.3} s,lasts={:.3} s,every={:.3} s",
                c.uniform(0.1, 5.0),
                c.log(0.2, 4.0),
                c.uniform(12.0, 60.0)
            ),
        ),
    };
    (
        line.with("loss", text.clone()).with_down("loss", text),
        name,
    )
}

type Drawn = (String, Line, Vec<Truth>);

fn word(depends: Depends) -> &'static str {
    match depends {
        Depends::Not => "endpoint-independent",
        Depends::OnAddress => "address-dependent",
        Depends::OnAddressAndPort => "address- and port-dependent",
    }
}

fn nat(c: &mut Chance, network: &mut Network, line: Line) -> Drawn {
    const DEPENDS: [Depends; 3] = [Depends::Not, Depends::OnAddress, Depends::OnAddressAndPort];
    let translates = c.is(0.8);
    let once_s = c.log(10.0, 150.0);
    let talked_s = once_s * c.log(1.0, 3.0);
    let nat = Nat {
        translates,
        mapping: c.pick(&DEPENDS),
        filtering: c.pick(&DEPENDS),
        addresses: c.pick(&[1, 1, 2, 3]),
        lifetime: (
            Duration::from_secs_f64(once_s),
            Duration::from_secs_f64(talked_s),
        ),
        hairpin: c.is(0.5),
    };
    network.nat = nat;
    let mut truths = vec![
        row("translation", if translates { "yes" } else { "no" }),
        row("filtering", word(nat.filtering)),
    ];
    let mut probe = "nat".to_owned();
    if translates {
        truths.push(row("mapping", word(nat.mapping)));
        if nat.mapping == Depends::Not || !nat.hairpin {
            truths.push(row("hairpinning", if nat.hairpin { "yes" } else { "no" }));
        }
        if c.is(0.4) {
            probe += ":lifetime=5min";
            for (key, s) in [
                (&["lifetime_once_ms"], once_s),
                (&["lifetime_ms"], talked_s),
            ] {
                truths.push(near(key, s * 1e3, 0.1 * s * 1e3));
            }
        }
    }
    (probe, line, truths)
}

/// A block at random, and what `ports` calls it.
fn block(c: &mut Chance) -> Option<(Block, &'static str)> {
    const BLOCKS: [(Block, &str); 5] = [
        (Block::Silent, "blocked silently"),
        (Block::Refused, "refused by a box on the way"),
        (Block::Somebody, "answered by somebody else"),
        (Block::AnswerLost, "the answer is blocked"),
        (Block::InUse, "cannot tell"),
    ];
    c.is(0.4).then(|| c.pick(&BLOCKS))
}

fn ports(c: &mut Chance, network: &mut Network, line: Line) -> Drawn {
    let tcp = TCP.map(|(port, name)| (Transport::Tcp, port, name));
    let udp = UDP.map(|(port, name)| (Transport::Udp, port, name));
    let mut truths = Vec::new();
    for (transport, port, name) in tcp.into_iter().chain(udp) {
        let found = block(c).map_or("open", |(block, found)| {
            network.ports.insert((transport, port), block);
            found
        });
        truths.push(row(name, found));
    }
    let list = |of: &[(u16, &str)]| {
        let of: Vec<String> = of.iter().map(|(port, _)| port.to_string()).collect();
        of.join(";")
    };
    let probe = format!("ports:tcp={},udp={}", list(&TCP), list(&UDP));
    (probe, line, truths)
}

fn middlebox(c: &mut Chance, network: &mut Network, line: Line) -> Drawn {
    const BOXES: [(Block, &str); 6] = [
        (Block::Changed, "reads and changes"),
        (Block::Silent, "altogether"),
        (Block::Refused, "altogether"),
        (Block::Somebody, "in the server's place"),
        (Block::Reads, "one that reads: "),
        (Block::InUse, "cannot tell"),
    ];
    let mut truths = Vec::new();
    for (transport, port, name) in [
        (Transport::Tcp, 80, "for the web (HTTP)"),
        (Transport::Udp, 53, "for names (DNS)"),
    ] {
        let found = match c.is(0.5) {
            true => {
                // A query for a name has nothing that such a box would write in another way.
                let boxes = match transport {
                    Transport::Tcp => &BOXES[..],
                    Transport::Udp => &BOXES[1..],
                };
                let (block, found) = c.pick(boxes);
                network.ports.insert((transport, port), block);
                found
            }
            false => "none found",
        };
        truths.push(row(name, found));
    }
    network.v4.fragments = c.is(0.5);
    let pieces = match network.v4.fragments {
        true => "none found",
        false => "do not arrive",
    };
    truths.push(row("that blocks datagrams in pieces, up", pieces));
    truths.push(row("that blocks datagrams in pieces, down", pieces));
    ("middlebox".into(), line, truths)
}

fn dns(c: &mut Chance, network: &mut Network, line: Line) -> Drawn {
    let farther_ms = c.log(0.5, 150.0);
    let known_ms = c.log(0.1, 200.0);
    let new_ms = known_ms + c.log(5.0, 1500.0);
    let silent = c.is(0.1);
    let checks = c.is(0.5);
    let millis = |ms: f64| Duration::from_secs_f64(ms * 1e-3);
    network.resolvers = vec![Resolver {
        farther: millis(farther_ms),
        known: millis(known_ms),
        new: millis(new_ms),
        checks,
        silent,
        ..Resolver::default()
    }];
    let base_ms = 2.0 * line.delay_ms;
    let way_ms = base_ms + 2.0 * farther_ms;
    let packet_ms = 800.0 * 1e3 / line.rate;
    let by = 1.0 + packet_ms;
    let mut truths = Vec::new();
    if silent {
        truths.push(row_of(RESOLVER, 7, "the resolver: no answer"));
        return ("dns".into(), line, truths);
    }
    truths.push(about(&["way_ms"], way_ms + packet_ms, by));
    truths.push(about(&["own_ms"], new_ms, 0.05 * new_ms + by));
    truths.push(about(
        &["cold_ms"],
        way_ms + new_ms + packet_ms,
        0.05 * (way_ms + new_ms) + by,
    ));
    let signatures = match checks {
        true => "checks",
        false => "hands on, unchecked",
    };
    truths.push(row_of(RESOLVER, 6, signatures));
    // The limits of docs/book/probe/dns.md. What lies near one may be called either.
    let far = |value: f64, limit: f64| (value / limit - 1.0).abs() > 0.15;
    let slow = 30f64.max(way_ms / 2.0);
    let clear = far(known_ms, slow)
        && far(new_ms, 330.0)
        && far(way_ms, 100.0)
        && far(way_ms, 1.5 * base_ms + 10.0);
    if clear {
        let blamed = match () {
            () if known_ms > slow => "the resolver",
            () if new_ms > 330.0 => "the resolver, for new names",
            () if way_ms < 100.0 => "nobody",
            () if way_ms > 1.5 * base_ms + 10.0 => "its distance",
            () => "the link",
        };
        truths.push(Truth {
            at: At::Row(RESOLVER, 7),
            is: Is::Blames(blamed),
        });
        if blamed == "nobody" && checks && !line.text().contains("loss") {
            truths.push(no_alerts());
        }
    }
    ("dns".into(), line, truths)
}

/// A truth that is not as exact as the figure's interval: hosts and packet sizes are left out.
fn about(key: &'static [&'static str; 1], value: f64, by: f64) -> Truth {
    seen(key, Box::new(move |_| Ok(value)), 0.0, by)
}

fn row_of(name: &'static str, column: usize, words: &str) -> Truth {
    Truth {
        at: At::Row(name, column),
        is: Is::Words(words.into()),
    }
}

fn ipv6(c: &mut Chance, network: &mut Network, line: Line) -> Drawn {
    let mtu = c.uniform(1280.0, 1500.0).round();
    let version = Version {
        mtu: Bytes::new(mtu as u64),
        tells_mtu: c.is(0.5),
        fragments: c.is(0.5),
        extensions: [c.is(0.5), c.is(0.5)],
        blocked: c.is(0.2),
    };
    network.v6 = Some(version);
    let rtt = 2.0 * line.delay_ms;
    let packet_ms = 800.0 * 1e3 / line.rate;
    let by = 0.5 + packet_ms;
    let mut truths = vec![
        row("IPv4", "works"),
        about(&["udp_v4_ms"], rtt + packet_ms, by),
        near(&["path_mtu_v4_bytes"], 1500.0, 0.0),
    ];
    if version.blocked {
        truths.push(row("IPv6", "nothing comes back"));
        return ("ipv6".into(), line, truths);
    }
    truths.push(row("IPv6", "works"));
    truths.push(about(&["udp_v6_ms"], rtt + packet_ms, by));
    truths.push(near(&["path_mtu_bytes"], mtu, 0.0));
    let pieces = match version.fragments {
        true => "arrive",
        false => "did not arrive",
    };
    for name in ["datagrams in pieces, up", "datagrams in pieces, down"] {
        truths.push(Truth {
            at: At::Row(name, 1),
            is: match version.fragments {
                true => Is::Exactly("arrive"),
                false => Is::Words(pieces.into()),
            },
        });
    }
    ("ipv6".into(), line, truths)
}

fn check(c: &mut Chance, network: &mut Network, line: Line, impaired: &str) -> Drawn {
    let mut truths = Vec::new();
    let mut blocked = 0;
    for (port, _) in TCP {
        if let Some((block, _)) = block(c)
            && block != Block::InUse
        {
            network.ports.insert((Transport::Tcp, port), block);
            blocked += 1;
        }
    }
    truths.push(near(&["ports_blocked"], f64::from(blocked), 0.0));
    let fine = |name| Truth {
        at: At::Row(name, 1),
        is: Is::Exactly("fine"),
    };
    network.v4.fragments = c.is(0.5);
    if network.v4.fragments {
        truths.push(fine("datagrams in pieces, up"));
        truths.push(fine("datagrams in pieces, down"));
    }
    let clean = impaired == "none";
    if clean {
        truths.push(fine("loss"));
        truths.push(fine("bursts of loss"));
    }
    // Over a long way, lookups are late, and the link is to blame.
    if clean && line.delay_ms < 45.0 {
        truths.push(fine("lookups of names"));
    }
    // What losses at random do to a flood is the kind `buffer`'s.
    let rate = c.log(500e3, 30e6).round();
    let packets = (c.log(20.0, 900.0) * rate / 12e6).max(10.0).round();
    let line = line
        .way_up(rate, format!("fifo:packets={packets}"))
        .down(rate, "fifo:packets=50");
    if clean {
        let held_ms = packets * 12e6 / rate;
        truths.push(about(
            &["buffer_up_ms"],
            held_ms,
            0.1 * held_ms + 12e6 / rate,
        ));
        truths.push(about(&["link_up_bps"], rate, 0.05 * rate));
    }
    ("check".into(), line, truths)
}

/// Median of what a small packet would have waited in the link's queue at any time after the load's first quarter.
fn waited(recording: &Recording, rate: f64) -> Result<f64, String> {
    const EVERY_NS: i64 = 10_000_000;
    let at = |kind: &str| {
        let its = |e: &&Event| *e.kind == *kind && &*e.subject == "up";
        recording.event.iter().find(its).map(|e| e.t_ns)
    };
    let (Some(from), Some(to)) = (at("phase"), at("phase_end")) else {
        return Err("nothing was loaded".into());
    };
    let from = from + (to - from) / 4;
    // A packet that arrives between two others waits until the first of them, full-sized mostly, has left.
    let leaving_ns = (12e12 / rate) as i64;
    let mut packets = recording.queue.iter().map(|q| {
        let waits = q.sojourn_ns.unwrap_or(0);
        (q.t_ns, q.t_ns + waits + leaving_ns)
    });
    let mut waits = Vec::new();
    let (mut next, mut leaves) = (packets.next(), i64::MIN);
    for t in (from..to).step_by(EVERY_NS as usize) {
        while let Some((_, until)) = next.filter(|(arrives, _)| *arrives <= t) {
            leaves = until;
            next = packets.next();
        }
        waits.push(leaves.saturating_sub(t).max(0) as f64 * 1e-6);
    }
    let waits = stats::sorted(&waits);
    stats::quantile_of_sorted(&waits, 0.5).ok_or_else(|| "nothing waited".into())
}

fn path(c: &mut Chance, network: &mut Network, line: Line) -> Drawn {
    let rate = c.log(500e3, 20e6).round();
    let delay_ms = (c.log(1.0, 60.0) * 1e3).round() / 1e3;
    // 5 ms to half a second.
    let packets = (c.log(5.0, 500.0) * rate / 12e6).max(8.0).round();
    let line = line
        .way_up(rate, format!("fifo:packets={packets}"))
        .down(rate, "fifo:packets=100")
        .delay(delay_ms);
    let hops = 2 + c.uniform(0.0, 5.0) as usize;
    // The link's packets wait on the way to the first router beyond it.
    let queued = 1 + c.uniform(0.0, hops as f64) as usize;
    let mut delay_us = 0;
    network.routers = (1..=hops)
        .map(|hop| {
            delay_us += c.log(50.0, 3e3) as u64;
            Router {
                address: Ipv4Addr::new(10, 0, 0, hop as u8).into(),
                delay: Duration::from_micros(delay_us),
                beyond: hop >= queued,
                at_most_every: match c.is(0.2) {
                    true => Duration::from_secs(1),
                    false => Duration::ZERO,
                },
                silent: c.is(0.15),
                quotes: c.pick(&[8, 28]),
            }
        })
        .collect();
    let truths = vec![
        near(&["queue_hop_up"], queued as f64, 0.0),
        Truth {
            at: At::Figures(&["queue_up_ms"]),
            is: Is::Seen {
                of: Box::new(move |recording| waited(recording, rate)),
                share: 0.15,
                plus: 3.0,
            },
        },
        near(&["icmp_favoured_up"], 0.0, 0.0),
    ];
    ("path:load=up".into(), line, truths)
}
