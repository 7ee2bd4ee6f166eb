//! Traffic by application: names in handshakes and DNS answers, sessions against a plain model.

use base::rng::{Rng, Streams, uniform};
use measure::applications::hello::{Hello, bare, in_records};
use measure::applications::{Applications, Found, Initials, Length, Via, read_answer};
use measure::capture::compose::{self, Outer, Tcp, Udp};
use measure::capture::frame::{self, flag};
use measure::capture::{LinkType, Record};
use std::net::Ipv4Addr;

/// Packets of `reference/quic_initial.py`.
const RFC9001: &[u8] = include_bytes!("../../../fuzz/corpus/application/rfc9001-0");
const PIECES: [&[u8]; 2] = [
    include_bytes!("../../../fuzz/corpus/application/version_2_in_pieces-0"),
    include_bytes!("../../../fuzz/corpus/application/version_2_in_pieces-1"),
];

fn example() -> Hello {
    Hello::Name("example.com".into())
}

/// ClientHello of RFC 9001 appendix A.2, without QUIC around it.
fn hello() -> Vec<u8> {
    let mut initials = Initials::default();
    assert!(initials.datagram(RFC9001));
    initials.handshake()
}

/// The same in records of so many bytes, as TLS over TCP sends it.
fn records(hello: &[u8], of: usize) -> Vec<u8> {
    let record = |part: &[u8]| {
        let length = (part.len() as u16).to_be_bytes();
        [&[22, 3, 1][..], &length, part].concat()
    };
    hello.chunks(of).flat_map(record).collect()
}

#[test]
fn a_quic_handshake_has_the_name_once_all_of_its_pieces_are_there() {
    assert_eq!(bare(&hello()), example());
    for order in [[0, 1], [1, 0]] {
        let mut initials = Initials::default();
        assert!(initials.datagram(PIECES[order[0]]));
        assert_eq!(bare(&initials.handshake()), Hello::Cut);
        assert!(initials.datagram(PIECES[order[1]]));
        assert_eq!(bare(&initials.handshake()), example());
    }
    // One changed bit anywhere is noticed: the packet is authentic, or not read.
    for place in 0..RFC9001.len() {
        let mut changed = RFC9001.to_vec();
        changed[place] ^= 1;
        let mut initials = Initials::default();
        let read = initials.datagram(&changed);
        assert!(
            !read || bare(&initials.handshake()) == example(),
            "byte {place}"
        );
    }
}

#[test]
fn a_handshake_cut_anywhere_waits_for_the_rest() {
    let hello = hello();
    for of in [7, 100, 16_384] {
        let whole = records(&hello, of);
        assert_eq!(in_records(&whole), example());
        for end in 0..whole.len() {
            assert_eq!(in_records(&whole[..end]), Hello::Cut, "{of}, {end}");
        }
    }
    let strange = b"GET / HTTP/1.1\r\nHost: example.com\r\n\r\n";
    assert_eq!(in_records(strange), Hello::Without);
    assert_eq!(bare(b"\x02\0\0\0"), Hello::Without);
    let mut long = hello.clone();
    long[1] = 200;
    assert_eq!(bare(&long), Hello::Without, "a length that nobody sends");
}

/// DNS answer with an alias and two addresses.
fn answer(id: u8) -> Vec<u8> {
    let mut bytes = vec![0, id, 0x81, 0x80, 0, 1, 0, 3, 0, 0, 0, 0];
    bytes.extend(b"\x03WWW\x07example\x03net\0\0\x01\0\x01");
    let record = |kind: u8, data: &[u8]| {
        let head = [0xc0, 12, 0, kind, 0, 1, 0, 0, 0, 60, 0, data.len() as u8];
        [&head[..], data].concat()
    };
    bytes.extend(record(5, b"\x01a\xc0\x10"));
    bytes.extend(record(1, &[192, 0, 2, id]));
    bytes.extend(record(
        28,
        &[0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, id],
    ));
    bytes
}

#[test]
fn answers_of_dns_give_addresses_under_the_name_that_was_asked() {
    let (name, addresses) = read_answer(&answer(7)).expect("an answer");
    assert_eq!(name, "www.example.net");
    let texts: Vec<String> = addresses.iter().map(ToString::to_string).collect();
    assert_eq!(texts, ["192.0.2.7", "2001:db8::7"]);
    let mut question = answer(7);
    question[2] &= 0x7f;
    assert_eq!(read_answer(&question), None);
    for end in 0..answer(7).len() {
        let _ = read_answer(&answer(7)[..end]);
    }
}

/// One packet of a session.
struct Packet {
    t_ns: i64,
    frame: Vec<u8>,
}

const CLIENT: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

fn outer(server: u8, is_up: bool) -> Outer {
    let server = Ipv4Addr::new(192, 0, 2, server);
    let (src, dst) = if is_up {
        (CLIENT, server)
    } else {
        (server, CLIENT)
    };
    Outer {
        src_mac: [2; 6],
        dst_mac: [4; 6],
        src,
        dst,
        id: 1,
        ttl: 64,
        traffic_class: 0,
    }
}

/// A frame between a client's port and a server.
fn segment(
    server: u8,
    ports: (u16, u16),
    is_up: bool,
    flags: u8,
    seq: u32,
    data: &[u8],
) -> Vec<u8> {
    let (src_port, dst_port) = if is_up { ports } else { (ports.1, ports.0) };
    let tcp = Tcp {
        src_port,
        dst_port,
        seq,
        ack: 1,
        flags,
        accurate: false,
        window: 1000,
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: &[],
        payload: data.len() as u32,
    };
    let mut frame = compose::tcp(&outer(server, is_up), &tcp).kept(65_536);
    let at = frame.len() - data.len();
    frame[at..].copy_from_slice(data);
    frame
}

fn datagram(server: u8, ports: (u16, u16), is_up: bool, data: &[u8]) -> Vec<u8> {
    let (src_port, dst_port) = if is_up { ports } else { (ports.1, ports.0) };
    let udp = Udp {
        src_port,
        dst_port,
        head: data,
        payload: data.len() as u32,
    };
    compose::udp(&outer(server, is_up), &udp).kept(65_536)
}

fn found(mut packets: Vec<Packet>) -> Found {
    packets.sort_by_key(|p| p.t_ns);
    let mut applications = Applications::default();
    for p in &packets {
        let record = Record {
            t_ns: Some(p.t_ns),
            link: LinkType::ETHERNET,
            interface: 0,
            original_len: p.frame.len() as u32,
            data: &p.frame,
        };
        applications.packet(p.t_ns, &frame::parse(&record).expect("a frame"));
    }
    applications.finish()
}

const SECOND: i64 = 1_000_000_000;

/// Packets of a TCP session of this length, with a ClientHello if it is wanted.
fn session(
    chance: &mut Rng,
    (server, port): (u8, u16),
    from_ns: i64,
    length_ns: i64,
    handshake: Option<&[u8]>,
) -> Vec<Packet> {
    let ports = (40_000 + (uniform(chance) * 20_000.0) as u16, port);
    let first = (uniform(chance) * f64::from(u32::MAX)) as u32;
    let at = |part: f64| from_ns + (length_ns as f64 * part) as i64;
    let mut packets = vec![
        Packet {
            t_ns: from_ns,
            frame: segment(server, ports, true, flag::SYN, first, &[]),
        },
        Packet {
            t_ns: at(0.01),
            frame: segment(server, ports, false, flag::SYN | flag::ACK, 5, &[]),
        },
    ];
    if let Some(hello) = handshake {
        let cut = 1 + (uniform(chance) * (hello.len() - 2) as f64) as usize;
        let next = first.wrapping_add(1);
        for (part, place, data) in [(0.02, 0, &hello[..cut]), (0.03, cut, &hello[cut..])] {
            let seq = next.wrapping_add(place as u32);
            packets.push(Packet {
                t_ns: at(part),
                frame: segment(server, ports, true, flag::ACK, seq, data),
            });
        }
    }
    for (part, is_up, flags) in [
        (0.5, false, flag::ACK),
        (0.9, true, flag::FIN | flag::ACK),
        (1.0, false, flag::FIN | flag::ACK),
    ] {
        packets.push(Packet {
            t_ns: at(part),
            frame: segment(server, ports, is_up, flags, 9, &[]),
        });
    }
    packets
}

#[test]
fn sums_are_those_of_a_plain_model_over_random_sessions() {
    let hello = records(&hello(), 16_384);
    for seed in 1..=60 {
        println!("seed {seed}");
        let chance = &mut Streams::new(seed).stream("applications");
        let mut packets = Vec::new();
        let (mut named, mut ssh) = (Vec::new(), Vec::new());
        let (mut named_bytes, mut known) = (0, 0);
        for _ in 0..(1.0 + uniform(chance) * 40.0) as usize {
            let from_ns = (uniform(chance) * 3600.0) as i64 * SECOND;
            let length_ns = (uniform(chance) * 800.0 * SECOND as f64) as i64;
            let is_named = uniform(chance) < 0.5;
            let place = if is_named { (1, 443) } else { (2, 22) };
            let its = session(
                chance,
                place,
                from_ns,
                length_ns,
                is_named.then_some(&hello),
            );
            if is_named {
                named.push(length_ns);
                named_bytes += its.iter().map(|p| p.frame.len() as u64 - 14).sum::<u64>();
            } else {
                ssh.push(length_ns);
            }
            packets.extend(its);
        }
        // A DNS answer names the server without a handshake.
        if uniform(chance) < 0.5 {
            known = 1;
            let t_ns = 100;
            packets.push(Packet {
                t_ns,
                frame: datagram(9, (5353, 53), false, &answer(2)),
            });
        }
        let found = found(packets);
        let lengths = |sum: &measure::applications::Sum| -> Vec<i64> {
            assert!(sum.lengths.iter().all(|l| l.is_whole));
            let mut ns: Vec<i64> = sum.lengths.iter().map(|l| l.ns as i64).collect();
            ns.sort_unstable();
            ns
        };
        named.sort_unstable();
        ssh.sort_unstable();
        if !named.is_empty() {
            let (sum, via) = &found.servers["example.com"];
            assert_eq!((lengths(sum), via), (named.clone(), &vec![Via::Tls]));
            assert_eq!(sum.bytes, named_bytes);
            assert_eq!(lengths(&found.services["https (TCP 443)"]), named);
        }
        if !ssh.is_empty() {
            assert_eq!(lengths(&found.services["ssh (TCP 22)"]), ssh);
            let named_by_dns = found
                .servers
                .get("www.example.net")
                .map_or(0, |s| s.0.sessions);
            assert_eq!(named_by_dns, known * ssh.len() as u64);
        }
        assert_eq!(found.cut_handshakes, 0);
    }
}

#[test]
fn silence_ends_a_conversation_and_the_end_of_the_capture_leaves_it_open() {
    let data = [0; 20];
    let at = |t_s: i64| Packet {
        t_ns: t_s * SECOND,
        frame: datagram(3, (5000, 123), true, &data),
    };
    // The first packet of the capture may be in the middle of a conversation.
    let mut packets = vec![Packet {
        t_ns: 0,
        frame: datagram(4, (6000, 500), true, &data),
    }];
    packets.extend([100, 110, 140, 260, 300].map(at));
    let found = found(packets);
    let sum = &found.services["ntp (UDP 123)"];
    let length = |s: u64, is_whole| Length {
        ns: s * SECOND as u64,
        is_whole,
    };
    assert_eq!(sum.lengths, [length(40, true), length(40, false)]);
    assert!(found.services["isakmp (UDP 500)"].lengths.is_empty());
    assert_eq!(found.nameless.sessions, 3);
}

#[test]
fn quic_is_named_by_its_handshake_and_a_cut_capture_says_so() {
    let at = |t_s: i64, data: &[u8]| Packet {
        t_ns: t_s * SECOND,
        frame: datagram(5, (7000, 443), true, data),
    };
    let both = found(vec![at(0, PIECES[0]), at(1, PIECES[1])]);
    assert_eq!(both.servers["example.com"].1, [Via::Quic]);
    assert_eq!(both.services["QUIC"].sessions, 1);
    let half = found(vec![at(0, PIECES[0])]);
    assert_eq!((half.cut_handshakes, half.nameless.sessions), (1, 1));
}

#[test]
fn times_that_no_clock_shows_bring_nothing_down() {
    let at = |t_ns| Packet {
        t_ns,
        frame: datagram(3, (5000, 123), true, &[0; 20]),
    };
    let found = found([i64::MIN, -1, 0, 1, i64::MAX].map(at).into());
    let sum = &found.services["ntp (UDP 123)"];
    assert_eq!((sum.packets, sum.sessions), (5, 2));
}
