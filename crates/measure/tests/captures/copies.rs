//! Captures that hold packets twice: taken on all interfaces of a router or a bridge, by a mirror port; and networks that
//! deliver packets twice.

use crate::model::{Plan, run};
use crate::packets::Tcp;
use crate::repairs::track;
use base::rng::{Rng, Streams, uniform};
use measure::capture::{LinkType, Record};
use measure::track::{Connection, MarkKind, Settings, Tracker};

const DRAWS: u64 = 40;

/// A frame of a capture on all interfaces: its direction at the interface, and the interface.
fn cooked(second: bool, p: &[u8], interface: u32, outgoing: bool) -> Vec<u8> {
    let kind = if outgoing { 4 } else { 0 };
    let mut f = if second {
        let [a, b, c, d] = interface.to_be_bytes();
        vec![
            8, 0, 0, 0, a, b, c, d, 0, 1, kind, 6, 2, 2, 2, 2, 2, 2, 0, 0,
        ]
    } else {
        vec![0, kind, 0, 1, 0, 6, 2, 2, 2, 2, 2, 2, 0, 0, 8, 0]
    };
    f.extend(p);
    f
}

/// The same packet in IPv6: no identification.
fn six(p: &Tcp, hops: u8) -> Vec<u8> {
    let four = p.ip();
    let mut six = vec![0x60, 0, 0, 0];
    six.extend((four.len() as u16 - 20).to_be_bytes());
    six.extend([6, hops]);
    for at in [12, 16] {
        six.extend([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0]);
        six.extend(&four[at..at + 4]);
    }
    six.extend(&four[20..]);
    six
}

type Frames = Vec<(i64, LinkType, u32, Vec<u8>)>;

fn tracked(frames: &Frames, seed: u64) -> Connection {
    let mut sorted: Vec<_> = frames.iter().collect();
    sorted.sort_by_key(|f| f.0);
    let mut tracker = Tracker::new(Settings {
        seed,
        ..Settings::default()
    });
    for (t, link, interface, data) in sorted {
        tracker.record(&Record {
            t_ns: Some(*t),
            link: *link,
            interface: *interface,
            original_len: data.len() as u32,
            data: &data[..data.len().min(140)],
        });
    }
    let mut traffic = tracker.finish();
    assert_eq!(traffic.connections.len(), 1);
    traffic.connections.remove(0)
}

/// All that is said of the senders.
fn said(c: &Connection) -> String {
    let half = |h: &measure::track::Half| {
        let mut e = h.events().clone();
        (e.twice_here, e.twice_elsewhere) = (0, 0);
        e.marks.clear();
        for r in &mut e.retransmissions {
            (r.frame, r.before_frame) = (0, 0);
        }
        e.breaks.iter_mut().for_each(|b| b.frames.clear());
        format!("{:?} {:?} {e:?}", h.counts, h.rtt)
    };
    c.halves.iter().map(half).collect()
}

fn small(seed: u64) -> Plan {
    Plan {
        joined: 1,
        bytes: 400_000,
        ..Plan::draw(seed)
    }
}

/// Every packet of a run, made into frames.
fn frames(plan: &Plan, mut make: impl FnMut(&mut Frames, i64, &Tcp)) -> Frames {
    let mut all = Vec::new();
    for (t, p) in &run(plan).packets {
        make(&mut all, *t, p);
    }
    all
}

/// How long a packet waits on a router: mostly microseconds, at times a queue of up to 0.3 s in the direction of the data.
fn held(rng: &mut Rng, p: &Tcp, standing: i64) -> i64 {
    10_000 + (uniform(rng) * 40_000.0) as i64 + if p.back { 0 } else { standing }
}

#[test]
fn a_router_s_two_interfaces_give_each_packet_once_with_any_seed() {
    for seed in 1..=DRAWS {
        let plan = Plan {
            stamps: seed % 2 == 0,
            ..small(seed)
        };
        for (version, second) in [(4, false), (4, true), (6, false), (6, true)] {
            let link = if second {
                LinkType::LINUX_SLL2
            } else {
                LinkType::LINUX_SLL
            };
            let mut rng = Streams::new(seed).stream("copies/router");
            let standing = (uniform(&mut rng) * 3e8) as i64;
            let mut last = [0; 2];
            let pass = |p: &Tcp, hops: u8, out: bool| {
                let interface = 2 + u32::from(out != p.back);
                let ip = if version == 6 {
                    six(p, hops)
                } else {
                    // No identification, as many hosts send where nothing may be cut.
                    Tcp {
                        ttl: hops,
                        id: 0,
                        ..p.clone()
                    }
                    .ip()
                };
                let mut data = cooked(second, &ip, interface, out);
                if version == 6 {
                    let at = if second { 0 } else { 14 };
                    data[at..at + 2].copy_from_slice(&[0x86, 0xdd]);
                }
                data
            };
            let once = frames(&plan, |all, t, p| {
                all.push((t, link, 0, pass(p, 64, false)))
            });
            let twice = frames(&plan, |all, t, p| {
                all.push((t, link, 0, pass(p, 64, false)));
                let way = usize::from(p.back);
                last[way] = (t + held(&mut rng, p, standing)).max(last[way] + 1000);
                all.push((last[way], link, 0, pass(p, 63, true)));
            });
            let (a, b) = (tracked(&once, 1), tracked(&twice, seed));
            assert_eq!(said(&a), said(&b), "IPv{version} {second} {plan:?}");
            assert_eq!(b.duplicates, once.len() as u64, "{plan:?}");
            assert_eq!((a.duplicates, b.doubled), (0, 0));
        }
    }
}

#[test]
fn a_mirror_port_gives_each_packet_once() {
    for seed in 1..=DRAWS {
        let plan = small(seed);
        for version in [4, 6] {
            let link = if version == 6 {
                LinkType::IPV6
            } else {
                LinkType::IPV4
            };
            let ip = |p: &Tcp| if version == 6 { six(p, 60) } else { p.ip() };
            let once = frames(&plan, |all, t, p| all.push((t, link, 0, ip(p))));
            let twice = frames(&plan, |all, t, p| {
                all.push((t, link, 0, ip(p)));
                all.push((t + 900, link, 0, ip(p)));
            });
            let (a, b) = (tracked(&once, 1), tracked(&twice, seed));
            assert_eq!(said(&a), said(&b), "IPv{version} {plan:?}");
            assert_eq!(
                (b.duplicates, b.doubled),
                (once.len() as u64, 0),
                "{plan:?}"
            );
            assert!(
                b.halves[0]
                    .events()
                    .marks
                    .iter()
                    .all(|m| m.kind != MarkKind::Doubled)
            );
        }
    }
}

#[test]
fn what_the_network_delivers_twice_is_neither_captured_twice_nor_sent_again() {
    for seed in 1..=DRAWS {
        let plan = small(seed);
        let mut rng = Streams::new(seed).stream("copies/network");
        let share = 0.002 + 0.05 * uniform(&mut rng);
        let (mut n, mut doubled) = (0, 0);
        let link = LinkType::IPV4;
        let twice = frames(&plan, |all, t, p| {
            all.push((t, link, 0, p.ip()));
            n += 1;
            // Not the handshake, of which nothing yet tells a share.
            if n > 20 && !p.back && uniform(&mut rng) < share {
                all.push((t + 1000 + (uniform(&mut rng) * 5e5) as i64, link, 0, p.ip()));
                doubled += 1;
            }
        });
        let c = tracked(&twice, seed);
        assert_eq!((c.duplicates, c.doubled), (0, doubled), "{plan:?}");
        let truth = run(&plan).again.len();
        assert_eq!(
            c.halves[0].events().retransmissions.len(),
            truth,
            "{plan:?}"
        );
        let marks = c.halves[0].events().marks.iter();
        assert_eq!(
            marks.filter(|m| m.kind == MarkKind::Doubled).count() as u64,
            doubled
        );
    }
}

#[test]
fn two_interfaces_of_one_file_are_two_places() {
    let plan = small(3);
    let once = track(&run(&plan));
    let twice = frames(&plan, |all, t, p| {
        all.push((t, LinkType::ETHERNET, 0, p.ethernet()));
        all.push((t + 5_000, LinkType::ETHERNET, 1, p.ethernet()));
    });
    let c = tracked(&twice, 7);
    assert_eq!(said(&once), said(&c));
}

#[test]
fn a_bridge_and_a_router_in_one_capture_give_each_packet_once() {
    for seed in 1..=DRAWS {
        let plan = small(seed);
        let link = LinkType::LINUX_SLL2;
        let once = frames(&plan, |all, t, p| {
            all.push((t, link, 0, cooked(true, &p.ip(), 5, false)))
        });
        // In at a bridge's port, in at the bridge, out of the router one hop later.
        let thrice = frames(&plan, |all, t, p| {
            let port = if p.back { 7 } else { 5 };
            let out = if p.back { 5 } else { 7 };
            let hop = Tcp {
                ttl: p.ttl - 1,
                ..p.clone()
            };
            all.push((t, link, 0, cooked(true, &p.ip(), port, false)));
            all.push((t + 700, link, 0, cooked(true, &p.ip(), 6, false)));
            all.push((t + 1500, link, 0, cooked(true, &hop.ip(), out, true)));
        });
        let (a, b) = (tracked(&once, 1), tracked(&thrice, seed));
        assert_eq!(said(&a), said(&b), "{plan:?}");
        assert_eq!(
            (b.duplicates, b.doubled),
            (2 * once.len() as u64, 0),
            "{plan:?}"
        );
    }
}

#[test]
fn what_the_network_doubles_ahead_of_a_router_is_doubled_once() {
    for seed in 1..=DRAWS {
        let plan = small(seed);
        let mut rng = Streams::new(seed).stream("copies/both");
        let link = LinkType::LINUX_SLL;
        let (mut n, mut doubled) = (0, 0);
        let all = frames(&plan, |all, t, p| {
            let hop = Tcp {
                ttl: p.ttl - 1,
                ..p.clone()
            };
            let mut pass = |t: i64| {
                all.push((t, link, 0, cooked(false, &p.ip(), 0, false)));
                all.push((t + 900, link, 0, cooked(false, &hop.ip(), 0, true)));
            };
            pass(t);
            n += 1;
            if n > 20 && !p.back && uniform(&mut rng) < 0.03 {
                pass(t + 20_000);
                doubled += 1;
            }
        });
        let c = tracked(&all, seed);
        assert_eq!(c.doubled, doubled, "{plan:?}");
        assert_eq!(c.duplicates, n + doubled, "{plan:?}");
        assert_eq!(
            c.halves[0].events().retransmissions.len(),
            run(&plan).again.len()
        );
    }
}
