//! What is said of connections, on packets whose story is known.

use crate::packets::{ACK, FIN, MS, RST, SYN, T0, Tcp, pcap};
use measure::capture::{LinkType, Reader, Record, frame};
use measure::track::{
    Act, BurstKind, Cause, Connection, Half, MarkKind, Settings, Tracker, Traffic, Watch,
};
use proptest::prelude::*;

/// Times in milliseconds.
fn track_with(settings: Settings, packets: &[(i64, Tcp)]) -> Traffic {
    let mut tracker = Tracker::new(settings);
    for (ms, p) in packets {
        feed(&mut tracker, T0 + ms * MS, &p.ethernet(), usize::MAX);
    }
    tracker.finish()
}

pub fn feed(tracker: &mut Tracker, t: i64, data: &[u8], snaplen: usize) {
    let record = Record {
        t_ns: Some(t),
        link: LinkType::ETHERNET,
        interface: 0,
        original_len: data.len() as u32,
        data: &data[..data.len().min(snaplen)],
    };
    tracker.packet(
        record.t_ns,
        record.original_len,
        frame::parse(&record).as_ref(),
    );
}

fn track(packets: &[(i64, Tcp)]) -> Traffic {
    track_with(Settings::default(), packets)
}

fn only(traffic: &Traffic) -> &Half {
    assert_eq!(traffic.connections.len(), 1);
    &traffic.connections[0].halves[0]
}

/// SYN, SYN-ACK, ACK, in 20 ms; the next byte is 1001 there and 5001 back.
fn opened() -> Vec<(i64, Tcp)> {
    vec![
        (0, Tcp::there(1000, 0, 0).flags(SYN)),
        (20, Tcp::back(5000, 1001, 0).flags(SYN | ACK)),
        (20, Tcp::there(1001, 5001, 0)),
    ]
}

#[test]
fn a_quiet_connection_is_counted_and_timed() {
    let mut p = opened();
    for i in 0..10u32 {
        let t = 100 + 50 * i64::from(i);
        p.push((t, Tcp::there(1001 + 1000 * i, 5001, 1000)));
        p.push((t + 30, Tcp::back(5001, 2001 + 1000 * i, 0)));
    }
    p.push((700, Tcp::there(11_001, 5001, 0).flags(FIN | ACK)));
    p.push((730, Tcp::back(5001, 11_002, 0)));
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.counts.unique_bytes, 10_000);
    assert_eq!(half.counts.data_packets, 10);
    assert_eq!(half.counts.retransmitted_packets, 0);
    // The SYN in 20 ms, ten segments and the FIN in 30.
    assert_eq!(half.rtt.count, 12);
    assert_eq!(half.rtt.sum_ns, 350 * MS);
    assert_eq!((half.rtt.min_ns, half.rtt.max_ns), (20 * MS, 30 * MS));
    assert_eq!(half.counts.outstanding_max, 1000);
}

#[test]
fn karns_rule_takes_no_round_trip_from_what_was_sent_twice() {
    let mut p = opened();
    p.extend([
        (100, Tcp::there(1001, 5001, 500)),
        (400, Tcp::there(1001, 5001, 500)),
        (430, Tcp::back(5001, 1501, 0)),
        (500, Tcp::there(1501, 5001, 500)),
        (540, Tcp::back(5001, 2001, 0)),
    ]);
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.events().acked_ambiguously, 1);
    assert_eq!(half.rtt.count, 2, "the SYN's and the last segment's");
    assert_eq!(half.rtt.max_ns, 40 * MS);
    assert_eq!(
        (
            half.counts.retransmitted_packets,
            half.counts.retransmitted_bytes
        ),
        (1, 500)
    );
    assert_eq!(half.events().retransmissions[0].cause, Cause::Timeout);
    assert_eq!(half.counts.unique_bytes, 1000);
}

/// Five segments, of which the first is lost.
fn one_lost() -> Vec<(i64, Tcp)> {
    let mut p = opened();
    for i in 0..5 {
        p.push((100 + i64::from(i), Tcp::there(1001 + 1000 * i, 5001, 1000)));
    }
    p
}

#[test]
fn three_duplicate_acks_and_a_repair_are_a_fast_retransmission() {
    let mut p = one_lost();
    for i in 0..4i64 {
        p.push((121 + i, Tcp::back(5001, 1001, 0)));
    }
    p.push((126, Tcp::there(1001, 5001, 1000)));
    p.push((146, Tcp::back(5001, 6001, 0)));
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.events().retransmissions.len(), 1);
    assert_eq!(half.events().retransmissions[0].cause, Cause::Fast);
    assert_eq!(
        half.events().retransmissions[0].position,
        1,
        "behind the SYN"
    );
    assert_eq!(
        traffic.connections[0].halves[1]
            .events()
            .triple_duplicate_acks,
        1
    );
    // Everything above the hole waited for the repair: none of it is a round trip.
    assert_eq!(half.rtt.count, 1);
}

#[test]
fn sack_above_a_hole_explains_a_repair_without_three_duplicates() {
    let mut p = one_lost();
    p.push((130, Tcp::back(5001, 1001, 0).sack(&[(2001, 6001)])));
    p.push((131, Tcp::there(1001, 5001, 1000)));
    p.push((150, Tcp::back(5001, 6001, 0)));
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.events().retransmissions[0].cause, Cause::Sack);
    assert_eq!(traffic.connections[0].halves[1].events().sack_acks, 1);
}

#[test]
fn what_follows_a_timeout_up_to_where_it_struck_is_recovery() {
    let mut p = one_lost();
    p.extend([
        (1400, Tcp::there(1001, 5001, 1000)),
        (1420, Tcp::back(5001, 2001, 0)),
        (1421, Tcp::there(2001, 5001, 1000)),
        (1422, Tcp::there(3001, 5001, 1000)),
        (1442, Tcp::back(5001, 6001, 0)),
        (1500, Tcp::there(6001, 5001, 1000)),
    ]);
    let causes: Vec<Cause> = only(&track(&p))
        .events()
        .retransmissions
        .iter()
        .map(|r| r.cause)
        .collect();
    assert_eq!(causes, [Cause::Timeout, Cause::Recovery, Cause::Recovery]);
}

#[test]
fn the_last_segment_sent_again_after_two_round_trips_is_a_tail_probe() {
    let mut p = opened();
    for i in 0..5 {
        p.push((100 + i64::from(i), Tcp::there(1001 + 1000 * i, 5001, 1000)));
    }
    p.push((124, Tcp::back(5001, 4001, 0)));
    p.push((170, Tcp::there(5001, 5001, 1000)));
    assert_eq!(
        only(&track(&p)).events().retransmissions[0].cause,
        Cause::TailProbe
    );
}

#[test]
fn a_long_outage_is_one_break_with_its_waits() {
    let mut p = opened();
    p.push((100, Tcp::there(1001, 5001, 1000)));
    let times = [100, 320, 760, 1640, 3400, 6920];
    for t in &times[1..] {
        p.push((*t, Tcp::there(1001, 5001, 1000)));
    }
    p.push((6945, Tcp::back(5001, 2001, 0)));
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.events().breaks.len(), 1);
    let b = &half.events().breaks[0];
    assert_eq!(b.sent_ns, times.map(|t| T0 + t * MS));
    assert_eq!(b.resumed_ns, Some(T0 + 6945 * MS));
    assert!(
        half.events()
            .retransmissions
            .iter()
            .all(|r| r.cause == Cause::Timeout)
    );
}

#[test]
fn behind_the_loss_a_late_packet_is_a_repair_and_an_overtaken_one_is_reordered() {
    let stamped = |seq, ts| Tcp::there(seq, 5001, 1000).timestamps(ts, 1);
    let mut p = opened();
    p.extend([
        (100, stamped(1001, 10)),
        (101, stamped(3001, 11)),
        (140, stamped(2001, 50)),
        (200, stamped(5001, 71)),
        (201, stamped(4001, 70)),
    ]);
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.events().out_of_order, 2);
    assert_eq!(
        (half.events().upstream_repairs, half.events().reordered),
        (1, 1)
    );
    assert_eq!(half.counts.retransmitted_packets, 0);
    // Without timestamps the identification says it.
    let mut p = opened();
    p.extend([
        (100, Tcp::there(1001, 5001, 1000).id(10)),
        (101, Tcp::there(3001, 5001, 1000).id(12)),
        (140, Tcp::there(2001, 5001, 1000).id(15)),
        (200, Tcp::there(5001, 5001, 1000).id(17)),
        (201, Tcp::there(4001, 5001, 1000).id(16)),
    ]);
    let traffic = track(&p);
    let events = only(&traffic).events();
    assert_eq!((events.upstream_repairs, events.reordered), (1, 1));
}

#[test]
fn a_partial_overlap_counts_only_what_was_there() {
    let mut p = opened();
    p.push((100, Tcp::there(1001, 5001, 1000)));
    p.push((500, Tcp::there(1501, 5001, 1000)));
    let counts = only(&track(&p)).counts;
    assert_eq!(
        (counts.retransmitted_packets, counts.retransmitted_bytes),
        (1, 500)
    );
    assert_eq!(counts.unique_bytes, 1500);
}

#[test]
fn sequence_numbers_wrap() {
    let mut p = vec![
        (0, Tcp::there(u32::MAX - 1500, 0, 0).flags(SYN)),
        (20, Tcp::back(5000, u32::MAX - 1499, 0).flags(SYN | ACK)),
    ];
    let mut seq = u32::MAX - 1499;
    for i in 0..6 {
        p.push((100 + 50 * i, Tcp::there(seq, 5001, 1000)));
        seq = seq.wrapping_add(1000);
        p.push((120 + 50 * i, Tcp::back(5001, seq, 0)));
    }
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.counts.unique_bytes, 6000);
    assert_eq!((half.rtt.count, half.missing_bytes), (7, 0));
}

#[test]
fn another_syn_begins_another_connection_and_the_same_one_is_a_repetition() {
    let syn = |seq| Tcp::there(seq, 0, 0).flags(SYN);
    let same = track(&[(0, syn(7)), (1000, syn(7)), (3000, syn(7))]);
    assert_eq!(same.connections.len(), 1);
    assert_eq!(only(&same).counts.retransmitted_packets, 2);
    let other = track(&[(0, syn(7)), (1000, syn(900))]);
    assert_eq!(other.connections.len(), 2);
    let reset = track(&[
        (0, syn(7)),
        (1, Tcp::back(0, 8, 0).flags(RST | ACK)),
        (2, syn(90_000)),
    ]);
    assert_eq!(reset.connections.len(), 2);
    assert!(reset.connections[0].reset);
}

#[test]
fn bytes_into_a_closed_window_are_probes_and_no_data() {
    let mut p = opened();
    p.extend([
        (100, Tcp::there(1001, 5001, 1000)),
        (120, Tcp::back(5001, 2001, 0).window(0)),
        (400, Tcp::there(2001, 5001, 1)),
        (420, Tcp::back(5001, 2001, 0).window(0)),
    ]);
    let traffic = track(&p);
    let half = only(&traffic);
    assert_eq!(half.events().window_probes, 1);
    assert_eq!(half.counts.unique_bytes, 1000);
    assert_eq!(traffic.connections[0].halves[1].events().zero_windows, 2);
}

#[test]
fn an_ack_of_bytes_nobody_saw_is_a_fault_of_the_capture() {
    let mut p = opened();
    p.push((100, Tcp::there(1001, 5001, 1000)));
    p.push((120, Tcp::back(5001, 4001, 0)));
    p.push((130, Tcp::there(4001, 5001, 1000)));
    let traffic = track(&p);
    assert_eq!(traffic.connections[0].halves[1].events().acks_of_unseen, 1);
    assert_eq!(only(&traffic).missing_bytes, 2000);
}

#[test]
fn a_clock_that_steps_back_bends_no_round_trip() {
    let mut p = opened();
    p.push((100, Tcp::there(1001, 5001, 1000)));
    p.push((90, Tcp::back(5001, 2001, 0)));
    let traffic = track(&p);
    assert_eq!(traffic.connections[0].backward, 1);
    assert_eq!(only(&traffic).rtt.min_ns, 0);
}

#[test]
fn a_flood_of_half_open_connections_is_bounded_and_counted() {
    let settings = Settings {
        most_live: 100,
        ..Settings::default()
    };
    let mut tracker = Tracker::new(settings);
    let mut syn = Tcp::there(1, 0, 0).flags(SYN).ethernet();
    for i in 0..10_000u32 {
        syn[26..30].copy_from_slice(&(0x0b00_0000 + i).to_be_bytes());
        feed(&mut tracker, T0 + i64::from(i), &syn, 64);
    }
    let traffic = tracker.finish();
    assert!(traffic.connections.len() <= 100);
    assert_eq!(
        traffic.totals.evicted as usize + traffic.connections.len(),
        10_000
    );
    assert_eq!(traffic.totals.tcp_packets, 10_000);
}

/// A transfer with losses, repairs and reordering, from numbers that proptest chooses; each packet has an
/// identification of its own, as a host gives it.
pub fn story(fates: &[u8]) -> Vec<(i64, Tcp)> {
    let mut p = opened();
    let mut id = 1;
    let mut t = 100;
    let mut send = |p: &mut Vec<(i64, Tcp)>, t: i64, seq: u32, ts: u32| {
        id += 1;
        p.push((t, Tcp::there(seq, 5001, 1000).timestamps(ts, 1).id(id)));
    };
    for (i, fate) in fates.iter().enumerate() {
        let seq = 1001 + 1000 * i as u32;
        match fate {
            0 => {
                send(&mut p, t, seq, t as u32);
                send(&mut p, t + 260, seq, t as u32 + 260);
                t += 260;
            }
            _ => send(&mut p, t, seq, t as u32),
        }
        let ack = Tcp::back(5001, seq + 1000, 0).id(9000 + i as u16);
        let stamped = Tcp::back(0, 0, 0).timestamps(2, t as u32);
        match fate {
            1 => {}
            2 => p.push((t + 25, ack.and(stamped))),
            // RFC 2883: it had come twice.
            3 if i > 0 => {
                let twice = Tcp::back(0, 0, 0).sack(&[(seq - 1000, seq)]);
                p.push((t + 25, ack.and(stamped).and(twice)));
            }
            _ => p.push((t + 25, ack)),
        }
        t += 30;
    }
    p
}

/// Everything that is said of a capture, as text.
fn said(traffic: &Traffic) -> String {
    framed(traffic, |frame| frame)
}

/// The same with other numbers of packets.
fn framed(traffic: &Traffic, number: impl Fn(u32) -> u32) -> String {
    let events = |h: &Half| {
        let mut e = h.events().clone();
        (e.twice_here, e.twice_elsewhere) = (0, 0);
        for r in &mut e.retransmissions {
            (r.frame, r.before_frame) = (number(r.frame), number(r.before_frame));
        }
        e.marks.iter_mut().for_each(|m| m.frame = number(m.frame));
        let breaks = e.breaks.iter_mut().flat_map(|b| &mut b.frames);
        breaks.for_each(|f| *f = number(*f));
        e
    };
    let half = |h: &Half| (h.counts, h.rtt, events(h));
    let line = |c: &Connection| format!("{} {} {:?}\n", c.a, c.b, c.halves.each_ref().map(half));
    traffic.connections.iter().map(line).collect()
}

proptest! {
    #[test]
    fn every_packet_captured_twice_gives_the_same_report(fates in proptest::collection::vec(0u8..6, 1..40)) {
        let once = story(&fates);
        let twice: Vec<(i64, Tcp)> = once.iter().flat_map(|p| [p.clone(), p.clone()]).collect();
        let whole = track(&twice);
        prop_assert_eq!(said(&track(&once)), framed(&whole, |frame| frame.div_ceil(2)));
        prop_assert_eq!(whole.connections[0].duplicates, once.len() as u64);
    }

    #[test]
    fn a_snaplen_of_64_changes_nothing_but_options(fates in proptest::collection::vec(0u8..6, 1..40)) {
        let run = |snaplen: usize| {
            let mut tracker = Tracker::new(Settings::default());
            for (ms, p) in story(&fates) {
                // No options, so that 64 bytes hold every header.
                feed(&mut tracker, T0 + ms * MS, &p.options(&[]).ethernet(), snaplen);
            }
            said(&tracker.finish())
        };
        prop_assert_eq!(run(64), run(usize::MAX));
    }

    #[test]
    fn ends_swapped_mirror_the_report(fates in proptest::collection::vec(0u8..6, 1..40)) {
        let there = story(&fates);
        let back: Vec<(i64, Tcp)> = there.iter().map(|(t, p)| (*t, Tcp { back: !p.back, ..p.clone() })).collect();
        let (a, b) = (track(&there), track(&back));
        let (a, b) = (&a.connections[0], &b.connections[0]);
        prop_assert_eq!((a.a.port, a.b.port), (b.b.port, b.a.port));
        for (x, y) in a.halves.iter().zip(&b.halves) {
            prop_assert_eq!((x.counts, x.rtt, &x.events()), (y.counts, y.rtt, &y.events()));
        }
    }

    #[test]
    fn a_file_cut_in_two_and_put_together_gives_the_same_totals(
        fates in proptest::collection::vec(0u8..6, 1..40), at in any::<prop::sample::Index>(),
    ) {
        let packets: Vec<(i64, Vec<u8>)> = story(&fates).iter().map(|(ms, p)| (T0 + ms * MS, p.ethernet())).collect();
        let run = |parts: &[&[(i64, Vec<u8>)]]| {
            let mut tracker = Tracker::new(Settings::default());
            for part in parts {
                let file = pcap(false, true, 1, 65_535, part);
                let mut reader = Reader::new(&file[..]).unwrap();
                while let Some(r) = reader.next_record().unwrap() {
                    tracker.packet(r.t_ns, r.original_len, frame::parse(&r).as_ref());
                }
            }
            said(&tracker.finish())
        };
        let (first, second) = packets.split_at(at.index(packets.len() + 1));
        prop_assert_eq!(run(&[&packets]), run(&[first, second]));
    }

    #[test]
    fn how_packets_are_handed_over_and_where_they_lie_changes_nothing(
        fates in proptest::collection::vec(0u8..6, 1..40), seed in any::<u64>(),
    ) {
        struct Deaf;
        impl Watch for Deaf {
            fn act(&mut self, _: Act) {}
        }
        let packets: Vec<(i64, Vec<u8>)> = story(&fates).iter().map(|(ms, p)| (T0 + ms * MS, p.ethernet())).collect();
        let run = |way: u8| {
            let mut tracker = Tracker::new(Settings { seed, ..Settings::default() });
            for (i, (t, data)) in packets.iter().enumerate() {
                let r = Record { t_ns: Some(*t), link: LinkType::ETHERNET, interface: 0, original_len: data.len() as u32, data };
                let frame = frame::parse(&r);
                match way {
                    0 => tracker.record(&r),
                    1 => tracker.packet(r.t_ns, r.original_len, frame.as_ref()),
                    2 => tracker.packet_watched(r.t_ns, r.original_len, frame.as_ref(), &mut Deaf),
                    _ if i % 3 == 0 => tracker.packet_watched(r.t_ns, r.original_len, frame.as_ref(), &mut Deaf),
                    _ => tracker.record(&r),
                }
            }
            let totals = format!("{:?}", tracker.totals);
            said(&tracker.finish()) + &totals
        };
        let told = said(&track(&story(&fates)));
        prop_assert!(run(0).starts_with(&told));
        for way in 1..4 {
            prop_assert_eq!(run(0), run(way));
        }
    }

    #[test]
    fn bytes_are_conserved(fates in proptest::collection::vec(0u8..6, 1..60)) {
        let traffic = track(&story(&fates));
        let c = only(&traffic).counts;
        // A repeated SYN or FIN would be the only difference.
        prop_assert_eq!(c.data_bytes, c.unique_bytes + c.retransmitted_bytes);
        prop_assert_eq!(c.unique_bytes, 1000 * fates.len() as u64);
        prop_assert_eq!(c.retransmitted_packets, fates.iter().filter(|f| **f == 0).count() as u64);
    }
}

#[test]
fn a_second_answer_to_one_syn_does_not_split_the_connection() {
    // Which of the two the client takes, and whether the second comes before its ACK or after.
    for (taken, late) in [(5000, false), (5000, true), (21_000_000, false)] {
        let mut p = vec![
            (0, Tcp::there(1000, 0, 0).flags(SYN)),
            (20, Tcp::back(5000, 1001, 0).flags(SYN | ACK)),
        ];
        let other = Tcp::back(21_000_000, 1001, 0).flags(SYN | ACK);
        p.push((if late { 22 } else { 20 }, other));
        p.push((21, Tcp::there(1001, taken + 1, 0)));
        p.push((25, Tcp::there(1001, taken + 1, 100)));
        p.push((45, Tcp::back(taken + 1, 1101, 206)));
        p.push((46, Tcp::there(1101, taken + 207, 0)));
        p.push((50, Tcp::back(taken + 207, 1101, 0).flags(FIN | ACK)));
        p.sort_by_key(|p| p.0);
        let traffic = track(&p);
        assert_eq!(traffic.connections.len(), 1, "{taken} {late}");
        let back = &traffic.connections[0].halves[1];
        assert_eq!(
            (back.counts.unique_bytes, back.missing_bytes),
            (206, 0),
            "{taken} {late}"
        );
        let marks = back.events().marks.iter();
        assert_eq!(marks.filter(|m| m.kind == MarkKind::OtherSyn).count(), 1);
        assert_eq!(traffic.connections[0].halves[0].events().acks_of_unseen, 0);
    }
}

#[test]
fn probes_of_a_closed_window_are_told_with_data_and_without() {
    // Linux asks with the last byte's number and no data, others send the next byte.
    for data in [0, 1] {
        let mut p = opened();
        p.push((100, Tcp::there(1001, 5001, 1000)));
        p.push((120, Tcp::back(5001, 2001, 0).window(0)));
        for i in 0..3 {
            let t = 320 + 200 * i;
            p.push((t, Tcp::there(2000 + data, 5001, data as usize)));
            p.push((t + 20, Tcp::back(5001, 2001, 0).window(0)));
        }
        p.push((1000, Tcp::back(5001, 2001 + data, 0)));
        p.push((1001, Tcp::there(2001 + data, 5001, 1000)));
        p.push((1021, Tcp::back(5001, 3001 + data, 0)));
        let traffic = track(&p);
        let [there, back] = &traffic.connections[0].halves;
        assert_eq!(there.events().window_probes, 3);
        assert_eq!(back.events().zero_windows, 4);
        assert_eq!((back.events().acks_of_unseen, there.missing_bytes), (0, 0));
        assert_eq!(there.counts.unique_bytes, 2000 + u64::from(data));
        assert_eq!(there.events().retransmissions, []);
        let probes = there
            .events()
            .marks
            .iter()
            .filter(|m| m.kind == MarkKind::WindowProbe);
        assert_eq!(probes.map(|m| m.frame).collect::<Vec<_>>(), [6, 8, 10]);
    }
}

#[test]
fn few_round_trips_have_their_percentiles_too() {
    for n in 1..=4u32 {
        let mut p = opened();
        for i in 0..n {
            let t = 100 + 100 * i64::from(i);
            p.push((t, Tcp::there(1001 + 1000 * i, 5001, 1000)));
            p.push((t + 30 + i64::from(i), Tcp::back(5001, 2001 + 1000 * i, 0)));
        }
        let end = 1001 + 1000 * n;
        p.push((900, Tcp::there(end, 5001, 0).flags(FIN | ACK)));
        p.push((950, Tcp::back(5001, end + 1, 0)));
        let traffic = track(&p);
        let half = only(&traffic);
        let mut all: Vec<u64> = (0..u64::from(n)).map(|i| 30 + i).chain([20, 50]).collect();
        all.sort_unstable();
        for share in [0.01, 0.5, 0.95, 1.0] {
            // Linear between order statistics.
            let at = share * (all.len() - 1) as f64;
            let [below, above] = [at.floor(), at.ceil()].map(|k| all[k as usize] as f64);
            let want = (below + (above - below) * at.fract()) * MS as f64;
            let got = half.rtt_at(share).unwrap();
            assert!((got - want).abs() < 1.0, "{n} {share}: {got} {want}");
        }
    }
}

#[test]
fn jumbo_frames_without_a_handshake_are_no_offload() {
    for (size, offload) in [(8948, false), (2896, true), (14_480, true), (1448, false)] {
        let mut p = Vec::new();
        for i in 0..40u32 {
            let (t, seq) = (100 + 30 * i64::from(i), 1001 + 4 * size * i);
            for k in 0..4 {
                p.push((t, Tcp::there(seq + k * size, 5001, size as usize)));
            }
            p.push((t + 20, Tcp::back(5001, seq + 4 * size, 0)));
        }
        let traffic = track(&p);
        let bursts = only(&traffic).detail().unwrap().bursts.count;
        let found = bursts[BurstKind::Offload as usize] > 0;
        assert_eq!(found, offload, "{size}: {bursts:?}");
    }
}
