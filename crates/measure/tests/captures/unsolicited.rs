//! Who spoke first, and whether anybody had asked.

use crate::packets::{ACK, RST, SYN};
use measure::capture::{LinkType, Record, frame};
use measure::unsolicited::{Kind, Watch};

const HOME: [u8; 4] = [192, 168, 1, 7];
const FAR: [u8; 4] = [198, 51, 100, 9];
const OTHER: [u8; 4] = [203, 0, 113, 77];

fn ip(protocol: u8, src: [u8; 4], dst: [u8; 4], body: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0];
    p.extend((20 + body.len() as u16).to_be_bytes());
    p.extend([0, 1, 0, 0, 64, protocol, 0, 0]);
    p.extend(src);
    p.extend(dst);
    p.extend(body);
    p
}

fn tcp(src: ([u8; 4], u16), dst: ([u8; 4], u16), flags: u8) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(src.1.to_be_bytes());
    b.extend(dst.1.to_be_bytes());
    b.extend([0, 0, 0, 1, 0, 0, 0, 0, 0x50, flags, 1, 0, 0, 0, 0, 0]);
    ip(6, src.0, dst.0, &b)
}

fn udp(src: ([u8; 4], u16), dst: ([u8; 4], u16)) -> Vec<u8> {
    let mut b = Vec::new();
    b.extend(src.1.to_be_bytes());
    b.extend(dst.1.to_be_bytes());
    b.extend([0, 12, 0, 0, 1, 2, 3, 4]);
    ip(17, src.0, dst.0, &b)
}

fn unreachable(from: [u8; 4], about: &[u8]) -> Vec<u8> {
    let mut b = vec![3, 3, 0, 0, 0, 0, 0, 0];
    b.extend(&about[..28]);
    ip(1, from, HOME, &b)
}

fn watch(packets: &[Vec<u8>]) -> Watch {
    let mut w = Watch::default();
    for (i, p) in packets.iter().enumerate() {
        let record = Record {
            t_ns: Some(i as i64),
            link: LinkType::RAW,
            interface: 0,
            original_len: p.len() as u32,
            data: p,
        };
        w.packet(i as i64, &frame::parse(&record).unwrap());
    }
    w
}

/// What home itself does, so that it is known as home: it asks two servers and is answered.
fn ordinary() -> Vec<Vec<u8>> {
    let mut all = Vec::new();
    for (far, port) in [(FAR, 50_000), (OTHER, 50_001)] {
        for _ in 0..20 {
            all.push(tcp(
                (HOME, port),
                (far, 443),
                if all.is_empty() { SYN } else { ACK },
            ));
            all.push(tcp((far, 443), (HOME, port), ACK));
        }
        all.push(udp((HOME, 5353), (far, 53)));
        all.push(udp((far, 53), (HOME, 5353)));
    }
    all
}

#[test]
fn what_home_asked_for_or_takes_up_is_not_listed() {
    let mut all = ordinary();
    // A service at home: asked, and it answers.
    all.push(tcp((OTHER, 7000), (HOME, 22), SYN));
    all.push(tcp((HOME, 22), (OTHER, 7000), SYN | ACK));
    let asked = udp((HOME, 6000), (FAR, 33_434));
    all.push(asked.clone());
    all.push(unreachable(OTHER, &asked));
    let found = watch(&all).finish(&[]);
    assert_eq!(found.home, [std::net::IpAddr::from(HOME)]);
    assert_eq!(found.list, []);
}

#[test]
fn each_kind_of_packet_that_nobody_asked_for_is_told() {
    let mut all = ordinary();
    for port in [23, 23, 2323] {
        all.push(tcp((FAR, 40_000 + port), (HOME, port), SYN));
        all.push(tcp((HOME, port), (FAR, 40_000 + port), RST | ACK));
    }
    all.push(tcp((FAR, 41_000), (HOME, 445), SYN));
    all.push(tcp((OTHER, 80), (HOME, 1234), SYN | ACK));
    all.push(udp((OTHER, 9999), (HOME, 1900)));
    all.push(ip(1, OTHER, HOME, &[8, 0, 0, 0, 0, 5, 0, 1]));
    all.push(unreachable(FAR, &udp((HOME, 61_000), (OTHER, 44_444))));
    all.push(udp((OTHER, 1), ([224, 0, 0, 251], 5353)));
    let found = watch(&all).finish(&[]);
    let mut list: Vec<(Kind, u16, u64)> = found
        .list
        .iter()
        .map(|u| (u.kind, u.port, u.packets))
        .collect();
    list.sort();
    assert_eq!(
        list,
        [
            (Kind::Refused, 23, 2),
            (Kind::Refused, 2323, 1),
            (Kind::Unanswered, 445, 1),
            (Kind::Stray, 1234, 1),
            (Kind::Datagram, 1900, 1),
            (Kind::Ping, 5, 1),
            (Kind::Error, 0x0303, 1),
        ]
    );
    assert_eq!(found.group_packets, 1);
}

#[test]
fn home_can_be_named_and_is_not_guessed_between_two_strangers() {
    let strangers = [tcp((FAR, 1), (OTHER, 2), SYN), udp((FAR, 3), (OTHER, 4))];
    let found = watch(&strangers).finish(&[]);
    assert_eq!((found.home.len(), found.list.len()), (0, 0));
    let found = watch(&strangers).finish(&[([203, 0, 113, 0].into(), 24)]);
    assert_eq!(found.list.len(), 2);
    let found = watch(&strangers).finish(&[([198, 51, 100, 0].into(), 24)]);
    assert_eq!(found.list.len(), 0);
}
