//! Both ends of a path: packets sent at one, and what a path that is known made of them at the other.

use crate::packets::{ACK, MS, SYN, T0, Tcp, ethernet};
use base::rng::{Streams, uniform};
use measure::capture::{LinkType, Record, frame};
use measure::ends::{Capture, Fragments, LostWhy, Matched, Way, match_ends};
use std::collections::BTreeSet;

type Packets = Vec<(i64, Vec<u8>)>;

/// The far clock runs three days behind.
const OFFSET: i64 = -259_200_000 * MS;
const BASE: i64 = 10 * MS;

fn capture(packets: &[(i64, Vec<u8>)]) -> Capture {
    let mut c = Capture::default();
    for (t, data) in packets {
        let record = Record {
            t_ns: Some(*t),
            link: LinkType::ETHERNET,
            interface: 0,
            original_len: data.len() as u32,
            data,
        };
        c.packet(*t, &frame::parse(&record).unwrap());
    }
    c
}

fn ends(near: &Packets, far: &Packets) -> Matched {
    let sorted = |p: &Packets| {
        let mut p = p.clone();
        p.sort_by_key(|(t, _)| *t);
        capture(&p)
    };
    match_ends(&sorted(near), &sorted(far))
}

/// Behind the path: one hop later, on the far clock.
fn crossed(sent: i64, data: &[u8]) -> (i64, Vec<u8>) {
    let mut data = data.to_vec();
    data[22] -= 1;
    (sent + BASE + OFFSET, data)
}

/// `n` segments of 1 000 bytes from the near end, and their ACKs.
fn segment(i: u32) -> Vec<u8> {
    Tcp::there(1 + i * 1000, 1, 1000)
        .id(i as u16 + 1)
        .timestamps(i, 0)
        .ethernet()
}

fn ack(i: u32, seq: u32) -> Vec<u8> {
    Tcp::back(1, seq, 0).id(i as u16 + 1).ethernet()
}

/// Data up that all arrives but what `lost` names, which is sent again 100 ms later; an ACK down for each.
fn transfer(n: u32, lost: &BTreeSet<u32>) -> (Packets, Packets) {
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for i in 0..n {
        let t = T0 + i64::from(i) * MS;
        near.push((t, segment(i)));
        if lost.contains(&i) {
            let again = Tcp::there(1 + i * 1000, 1, 1000)
                .id((n + i) as u16 + 1)
                .timestamps(n + i, 0)
                .ethernet();
            let t = t + 100 * MS;
            far.push(crossed(t, &again));
            near.push((t, again));
        } else {
            far.push(crossed(t, &segment(i)));
        }
        let data = ack(i, 1001 + i * 1000);
        near.push((t + 2 * BASE, crossed(0, &data).1));
        far.push((t + BASE + OFFSET, data));
    }
    (near, far)
}

#[test]
fn every_loss_is_named_and_its_repair_is_told_from_it() {
    let mut rng = Streams::new(9).stream("ends/loss");
    let lost: BTreeSet<u32> = (1..900).filter(|_| uniform(&mut rng) < 0.05).collect();
    let (near, far) = transfer(1000, &lost);
    let m = ends(&near, &far);
    let [flow] = &m.flows[..] else {
        panic!("{} flows", m.flows.len())
    };
    assert_eq!(flow.near.0.to_string(), "10.0.0.1:50000");
    assert_eq!(flow.up.lost, lost.len() as u64);
    assert_eq!(flow.up.repeated_after_loss, lost.len() as u64);
    assert_eq!((flow.up.repeated_after_arrival, flow.down.lost), (0, 0));
    assert_eq!((flow.up.ambiguous, m.outside), (0, 0));
    let named: BTreeSet<u32> = m.lost.iter().map(|l| (l.seq - 1) / 1000).collect();
    assert_eq!(named, lost);
    let mut sorted = near.clone();
    sorted.sort_by_key(|(t, _)| *t);
    for l in &m.lost {
        assert_eq!(sorted[l.frame as usize - 1].0, l.t_ns);
    }
    assert!(
        m.pairs
            .iter()
            .filter(|p| p.way == Way::Up)
            .all(|p| p.far_ns - p.near_ns == BASE + OFFSET)
    );
    assert!(
        m.pairs
            .iter()
            .filter(|p| p.way == Way::Down)
            .all(|p| p.near_ns - p.far_ns == BASE - OFFSET)
    );
    // A repair may be behind what was sent before it, but it is not overtaken between the ends.
    assert_eq!((flow.up.reordered, flow.up.duplicated), (0, 0));
    assert_eq!(flow.up.changes.hops.keys().collect::<Vec<_>>(), [&1]);
}

#[test]
fn a_flow_is_of_one_end_only_if_the_other_captured_as_well() {
    let (near, far) = transfer(100, &BTreeSet::new());
    let other = |port: u16, i: u32| {
        let mut data = segment(i);
        data[34..36].copy_from_slice(&port.to_be_bytes());
        data
    };
    // Before the first packet that both have, among them, so late that it was under way at the end, and after it.
    for (at, seen_by_both) in [(-1, false), (20, true), (115, false), (200, false)] {
        let (mut one, mut two) = (near.clone(), far.clone());
        one.push((T0 + at * MS, other(1, 500)));
        two.push((T0 + at * MS + OFFSET, other(2, 600)));
        let m = ends(&one, &two);
        let only = usize::from(seen_by_both);
        assert_eq!((m.near_only_flows, m.far_only_flows), (only, only), "{at}");
        assert_eq!(m.flows.len(), 1);
    }
}

#[test]
fn ends_swapped_mirror_it() {
    let lost = BTreeSet::from([5, 6, 7, 200]);
    let (near, far) = transfer(300, &lost);
    let (a, b) = (ends(&near, &far), ends(&far, &near));
    assert_eq!(a.flows[0].up, b.flows[0].down);
    assert_eq!(a.flows[0].down, b.flows[0].up);
    assert_eq!(a.pairs.len(), b.pairs.len());
}

#[test]
fn without_identification_or_timestamp_order_and_delay_tell_the_copies_apart() {
    // Every field of a repair is that of the lost segment: only when it came says which one came.
    let bare = |i: u32| Tcp::there(1 + i * 1000, 1, 1000).ethernet();
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for i in 0..50u32 {
        let t = T0 + i64::from(i) * MS;
        near.push((t, bare(i)));
        if i == 20 {
            near.push((t + 100 * MS, bare(i)));
            far.push(crossed(t + 100 * MS, &bare(i)));
        } else {
            far.push(crossed(t, &bare(i)));
        }
    }
    let m = ends(&near, &far);
    assert_eq!((m.lost.len(), m.lost[0].t_ns), (1, T0 + 20 * MS));
    assert_eq!(m.flows[0].up.ambiguous, 1);
}

#[test]
fn overtaking_and_doubling_are_counted() {
    let (near, mut far) = transfer(100, &BTreeSet::new());
    // Segment 40 is overtaken by three; segment 60 comes twice, 5 ms apart.
    let at = far
        .iter()
        .position(|(_, d)| *d == crossed(0, &segment(40)).1)
        .unwrap();
    far[at].0 += 3 * MS + MS / 2;
    let copy = far
        .iter()
        .find(|(_, d)| *d == crossed(0, &segment(60)).1)
        .unwrap()
        .clone();
    far.push((copy.0 + 5 * MS, copy.1));
    let up = ends(&near, &far).flows[0].up.clone();
    assert_eq!((up.reordered, up.reordering_extent), (1, 3));
    assert_eq!((up.duplicated, up.lost, up.sent), (1, 0, 100));
}

#[test]
fn what_the_receiver_acknowledged_was_not_lost_but_not_captured() {
    let (near, mut far) = transfer(100, &BTreeSet::new());
    let gone = crossed(0, &segment(30)).1;
    far.retain(|(_, d)| *d != gone);
    let m = ends(&near, &far);
    assert_eq!((m.flows[0].up.lost, m.flows[0].up.not_captured), (0, 1));
    assert_eq!(m.lost[0].why, LostWhy::NotCaptured);
    // The same at the near end: nobody lost it.
    let (mut near, far) = transfer(100, &BTreeSet::new());
    near.retain(|(_, d)| *d != segment(30));
    let up = &ends(&near, &far).flows[0].up;
    assert_eq!((up.lost, up.downstream_only), (0, 1));
}

#[test]
fn what_only_one_capture_was_there_for_is_not_judged() {
    let (near, mut far) = transfer(100, &BTreeSet::new());
    far.retain(|(t, _)| (T0 + 30 * MS..T0 + 60 * MS).contains(&(t - OFFSET)));
    let m = ends(&near, &far);
    assert_eq!((m.flows[0].up.lost, m.flows[0].down.lost), (0, 0));
    assert_eq!(m.pairs.len() as u64 + m.outside, near.len() as u64);
}

#[test]
fn translated_addresses_are_recognised_by_what_the_packets_hold() {
    let (near, mut far) = transfer(60, &BTreeSet::from([20]));
    for (_, d) in &mut far {
        // 10.0.0.1:50000 is 198.51.100.200:61000 out there: above the server's address, where it was below.
        for at in [26, 30] {
            if d[at..at + 4] == [10, 0, 0, 1] {
                d[at..at + 4].copy_from_slice(&[198, 51, 100, 200]);
                let port = if at == 26 { 34 } else { 36 };
                d[port..port + 2].copy_from_slice(&61_000u16.to_be_bytes());
            }
        }
    }
    let m = ends(&near, &far);
    let [flow] = &m.flows[..] else {
        panic!("{} flows", m.flows.len())
    };
    assert!(flow.addresses_changed());
    assert_eq!(flow.far.0.to_string(), "198.51.100.200:61000");
    assert_eq!((flow.up.lost, flow.up.sent, flow.down.sent), (1, 61, 60));
}

#[test]
fn segments_cut_by_an_offload_are_matched_by_their_bytes() {
    // The near end sees 4 000 bytes at once, the wire four segments; of one of them a piece is lost.
    let big = |i: u32, again: u32| {
        Tcp::there(1 + i * 4000, 1, 4000)
            .id((i * 8 + 1) as u16)
            .timestamps(again, 0)
            .ethernet()
    };
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for i in 0..40u32 {
        let t = T0 + i64::from(i) * 5 * MS;
        near.push((t, big(i, i)));
        for k in 0..4u32 {
            if (i, k) == (10, 2) {
                continue;
            }
            let piece = Tcp::there(1 + i * 4000 + k * 1000, 1, 1000)
                .id((i * 8 + k + 1) as u16)
                .timestamps(i, 0)
                .ethernet();
            far.push(crossed(t + i64::from(k) * MS / 10, &piece));
        }
        let data = ack(i, 4001 + i * 4000);
        near.push((t + 2 * BASE, crossed(0, &data).1));
        far.push((t + BASE + OFFSET, data));
    }
    let again = Tcp::there(1 + 10 * 4000 + 2000, 1, 1000)
        .id(999)
        .timestamps(77, 0)
        .ethernet();
    near.push((T0 + 90 * MS, again.clone()));
    far.push(crossed(T0 + 90 * MS, &again));
    let up = ends(&near, &far).flows[0].up.clone();
    assert_eq!((up.lost, up.arrived, up.sent), (1, 40, 41));
    assert_eq!((up.repeated_after_loss, up.repeated_after_arrival), (1, 0));
    assert_eq!(up.changes.cut_or_joined, 40);
    assert_eq!(up.downstream_only, 0);
}

#[test]
fn what_a_middlebox_rewrites_is_told_and_does_not_unmatch() {
    let (mut near, mut far) = transfer(50, &BTreeSet::new());
    // Clamps the MSS, takes the window scale out, shifts our sequence numbers, clears ECN, rewrites the identification.
    let syn = |seq: u32, options: &[u8]| {
        Tcp::there(seq, 0, 0)
            .flags(SYN)
            .id(7)
            .options(options)
            .ethernet()
    };
    near.push((T0 - 50 * MS, syn(0, &[2, 4, 5, 180, 1, 3, 3, 7])));
    for (_, d) in near.iter_mut().filter(|(_, d)| d[26..30] == [10, 0, 0, 1]) {
        d[15] |= 2;
    }
    far.push(crossed(T0 - 50 * MS, &syn(0, &[2, 4, 4, 176, 1, 1, 1, 1])));
    let shift = 3_000_000_000u32;
    for (_, d) in &mut far {
        let (at, by) = if d[26..30] == [10, 0, 0, 1] {
            (38, shift)
        } else {
            (42, shift)
        };
        let field = u32::from_be_bytes(d[at..at + 4].try_into().unwrap());
        d[at..at + 4].copy_from_slice(&field.wrapping_add(by).to_be_bytes());
        if at == 38 {
            d[18] ^= 0x55;
        }
    }
    let m = ends(&near, &far);
    let up = &m.flows[0].up;
    assert_eq!((up.sent, up.lost), (51, 0));
    let c = &up.changes;
    assert_eq!(c.sequence_shift, shift);
    assert_eq!((c.ecn_cleared, c.identification_changed), (51, 51));
    let (before, after) = c.syn.unwrap();
    assert_eq!((before.mss, after.mss), (Some(1460), Some(1200)));
    assert_eq!((before.window_scale, after.window_scale), (Some(7), None));
    assert_eq!(m.flows[0].down.lost, 0);
}

#[test]
fn a_packet_captured_twice_at_its_sender_was_sent_once() {
    let (near, far) = transfer(50, &BTreeSet::from([10]));
    let doubled: Packets = near
        .iter()
        .flat_map(|(t, d)| [(*t, d.clone()), (t + 500, d.clone())])
        .collect();
    let (once, twice) = (ends(&near, &far), ends(&doubled, &far));
    assert_eq!(once.flows[0].up, twice.flows[0].up);
    assert_eq!(twice.near_copies, near.len() as u64);
}

#[test]
fn first_and_second_fragments_are_counted_at_both_ends() {
    let piece = |id: u16, offset: u16, more: bool, len: usize| {
        let mut p = vec![0x45, 0];
        p.extend((20 + len as u16).to_be_bytes());
        p.extend(id.to_be_bytes());
        p.extend(((offset / 8) | if more { 0x2000 } else { 0 }).to_be_bytes());
        p.extend([64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        p.extend(vec![id as u8; len]);
        ethernet(0x0800, &p)
    };
    let (mut near, mut far) = (Vec::new(), Vec::new());
    for id in 1..=100u16 {
        let t = T0 + i64::from(id) * MS;
        let (first, second) = (piece(id, 0, true, 1480), piece(id, 1480, false, 100));
        near.push((t, first.clone()));
        near.push((t + 1000, second.clone()));
        // Every fourth loses its second piece, every tenth both, the 55th its first.
        if id % 10 != 0 && id != 55 {
            far.push(crossed(t, &first));
        }
        if id % 10 != 0 && id % 4 != 0 {
            far.push(crossed(t + 1000, &second));
        }
    }
    // The last of all arrives, or it would count as still under way.
    let last = piece(500, 0, true, 1480);
    near.push((T0 + 200 * MS, last.clone()));
    far.push(crossed(T0 + 200 * MS, &last));
    let m = ends(&near, &far);
    let want = Fragments {
        sent: [101, 100, 0],
        arrived: [90, 70, 0],
        datagrams: 101,
        whole: 70,
        lost_first_only: 1,
        lost_second_only: 20,
        lost_both: 10,
    };
    assert_eq!(m.fragments[0], want);
    assert_eq!(m.flows[0].up.lost, 101 + 100 - 160);
    assert!(m.flows[0].pieces);
}

#[test]
fn captures_that_share_nothing_match_nothing() {
    let (near, _) = transfer(30, &BTreeSet::new());
    let other: Packets = (0..30u32)
        .map(|i| {
            (
                T0,
                Tcp::there(77_000 + i * 900, 5, 900)
                    .flags(ACK)
                    .id(i as u16)
                    .timestamps(900 + i, 1)
                    .ethernet(),
            )
        })
        .collect();
    let m = ends(&near, &other);
    assert_eq!((m.pairs.len(), m.lost.len()), (0, 0));
    assert_eq!(ends(&Vec::new(), &near).pairs.len(), 0);
}

/// A datagram over IPv4 whose payload begins with `words`.
fn datagram(src: [u8; 4], dst: [u8; 4], ports: (u16, u16), id: u16, words: &[u8]) -> Vec<u8> {
    let mut p = vec![0x45, 0];
    p.extend((28 + words.len() as u16).to_be_bytes());
    p.extend(id.to_be_bytes());
    p.extend([0, 0, 255, 17, 0, 0]);
    p.extend(src);
    p.extend(dst);
    p.extend(ports.0.to_be_bytes());
    p.extend(ports.1.to_be_bytes());
    p.extend((8 + words.len() as u16).to_be_bytes());
    p.extend([0, 0]);
    p.extend(words);
    ethernet(0x0800, &p)
}

#[test]
fn what_stays_on_each_link_is_not_matched_with_the_like_on_the_other_and_bends_no_clock() {
    for seed in 1..=30 {
        let mut rng = Streams::new(seed).stream("ends/local");
        let mut between = |low: f64, high: f64| low + (high - low) * uniform(&mut rng);
        let (near, far) = transfer(300, &BTreeSet::from([17, 90]));
        let alone = ends(&near, &far);
        let (mut noisy_near, mut noisy_far) = (near.clone(), far.clone());
        // The same questions on both links, at any time: of mDNS, SSDP, LLMNR, a search for a server, NetBIOS.
        let talk: [([u8; 4], u16, &[u8]); 5] = [
            (
                [224, 0, 0, 251],
                5353,
                b"\0\0\0\0\0\x01\0\0\0\0\0\0\x09_services",
            ),
            ([239, 255, 255, 250], 1900, b"M-SEARCH * HTTP/1.1\r\n"),
            ([224, 0, 0, 252], 5355, b"\x12\x34\0\0\0\x01\0\0\0\0\0\0"),
            ([255, 255, 255, 255], 67, b"\x01\x01\x06\0\x39\x03\xf3\x26"),
            ([192, 168, 1, 255], 137, b"\x80\x01\x01\x10\0\x01\0\0"),
        ];
        for (to, port, words) in talk {
            for i in 0..(between(1.0, 20.0) as u16) {
                let from = |end: u8| {
                    if port == 67 {
                        [0; 4]
                    } else {
                        [192, 168, end, 10 + i as u8 % 3]
                    }
                };
                let t = T0 + (between(0.0, 299.0) * 1e6) as i64;
                noisy_near.push((t, datagram(from(1), to, (port, port), i, words)));
                let t = T0 + OFFSET + (between(0.0, 299.0) * 1e6) as i64;
                noisy_far.push((t, datagram(from(2), to, (port, port), i, words)));
            }
        }
        let noisy = ends(&noisy_near, &noisy_far);
        assert_eq!(noisy.flows.len(), 1, "seed {seed}");
        assert_eq!(noisy.pairs, alone.pairs, "seed {seed}");
        let lost = |m: &Matched| m.lost.iter().map(|l| (l.t_ns, l.seq)).collect::<Vec<_>>();
        assert_eq!(lost(&noisy), lost(&alone), "seed {seed}");
    }
}

#[test]
fn a_translated_flow_whose_times_cannot_be_those_of_the_others_is_another() {
    let (mut near, mut far) = transfer(100, &BTreeSet::new());
    // Twenty different questions to the same server, from two hosts of two networks, an hour apart.
    for i in 0..20u8 {
        let words = [i, i ^ 0x55, 1, 2, 3, 4, 5, 6, 7, 8];
        let t = T0 + i64::from(i) * MS;
        let server = [9, 9, 9, 9];
        near.push((
            t,
            datagram([10, 1, 0, 1], server, (5000, 53), u16::from(i) + 1, &words),
        ));
        let late = t + OFFSET + 3_600_000 * MS;
        far.push((
            late,
            datagram([10, 2, 0, 1], server, (6000, 53), u16::from(i) + 1, &words),
        ));
    }
    assert_eq!(ends(&near, &far).flows.len(), 1);
    // At the right time it is the same flow.
    for (t, data) in &mut far {
        *t -= if data[23] == 17 {
            3_600_000 * MS - BASE
        } else {
            0
        };
    }
    assert_eq!(ends(&near, &far).flows.len(), 2);
}

#[test]
fn what_the_network_doubles_between_the_ends_at_once_is_no_copy_of_the_capture() {
    let (near, mut far) = transfer(200, &BTreeSet::new());
    let again: Packets = far.iter().skip(50).step_by(40).cloned().collect();
    let doubled = again.iter().filter(|(_, d)| d[26 + 3] == 1).count() as u64;
    far.extend(again.into_iter().map(|(t, d)| (t + 300, d)));
    let m = ends(&near, &far);
    assert_eq!((m.flows[0].up.duplicated, m.far_copies), (doubled, 0));
}
