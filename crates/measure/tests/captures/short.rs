//! Packets of which less was kept than their headers: what can be the same as of whole ones is, the rest is not said.

use crate::packets::{ACK, MS, SYN, T0, Tcp};
use crate::tracking::{feed, story};
use measure::capture::{LinkType, Record, frame};
use measure::ends::{Capture, match_ends};
use measure::track::{Act, Cause, Connection, Settings, Tracker, Traffic, Watch};
use proptest::prelude::*;

/// Ethernet, IPv4 and TCP take 54 bytes of it.
const SHORT: usize = 64;

fn track(packets: &[(i64, Tcp)], snaplen: usize) -> Traffic {
    let mut tracker = Tracker::new(Settings::default());
    for (ms, p) in packets {
        feed(&mut tracker, T0 + ms * MS, &p.ethernet(), snaplen);
    }
    tracker.finish()
}

/// All that does not stand in options.
fn said(c: &Connection) -> String {
    let half = |i: usize| {
        let h = &c.halves[i];
        let e = h.events();
        let again: Vec<_> = e
            .retransmissions
            .iter()
            .map(|r| (r.t_ns, r.before_ns, r.position, r.bytes))
            .collect();
        let counts = (
            e.out_of_order,
            e.duplicate_acks,
            e.zero_windows,
            e.keep_alives,
            e.breaks.len(),
        );
        let course = h
            .detail()
            .map(|d| (d.course.clone(), d.bursts.count, d.bunches));
        format!("{:?} {:?} {again:?} {counts:?} {course:?}", h.counts, h.rtt)
    };
    format!(
        "{} {} {:?} {}\n{}\n{}",
        c.a,
        c.b,
        (c.first_ns, c.last_ns),
        c.duplicates,
        half(0),
        half(1)
    )
}

proptest! {
    #[test]
    fn of_64_bytes_everything_is_said_that_does_not_stand_in_the_options(fates in proptest::collection::vec(0u8..6, 1..40)) {
        let packets = story(&fates);
        let (whole, short) = (track(&packets, usize::MAX), track(&packets, SHORT));
        prop_assert_eq!(whole.connections.len(), short.connections.len());
        for (w, s) in whole.connections.iter().zip(&short.connections) {
            prop_assert_eq!(said(w), said(s));
            // Whatever they were called, they are the same packets.
            let causes = |c: &Connection| c.halves[0].events().by_cause.iter().sum::<u64>();
            prop_assert_eq!(causes(w), causes(s));
            // That there were timestamps shows; what the receiver had twice does not.
            prop_assert!(s.halves[0].timestamps);
            prop_assert_eq!(s.halves[1].events().dsacks, 0);
        }
        let cut = packets.iter().filter(|(_, p)| p.options.len() > 10).count() as u64;
        prop_assert_eq!((whole.totals.cut_options_packets, short.totals.cut_options_packets), (0, cut));
    }
}

/// A handshake whose SYNs offer windows scaled by 128 behind 14 bytes of other options, and ten segments of 1000 bytes into
/// a window of 500, scaled or not.
fn scaled() -> Vec<(i64, Tcp)> {
    let options = [
        2, 4, 3, 232, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ];
    let mut p = vec![
        (0, Tcp::there(1000, 0, 0).flags(SYN).options(&options)),
        (
            20,
            Tcp::back(5000, 1001, 0).flags(SYN | ACK).options(&options),
        ),
    ];
    for i in 0..10u32 {
        let t = 40 + 100 * i64::from(i);
        p.push((t, Tcp::there(1001 + 1000 * i, 5001, 1000).window(500)));
        p.push((t + 20, Tcp::back(5001, 2001 + 1000 * i, 0).window(500)));
    }
    p
}

#[derive(Default)]
struct Windows(Vec<Option<u32>>);

impl Watch for Windows {
    fn act(&mut self, act: Act) {
        if let Act::Acknowledged { window, .. } = act {
            self.0.push(window);
        }
    }
}

#[test]
fn windows_are_scaled_where_both_ends_agreed_and_not_told_where_that_is_not_known() {
    let run = |packets: &[(i64, Tcp)], snaplen: usize| {
        let mut windows = Windows::default();
        let mut tracker = Tracker::new(Settings::default());
        for (ms, p) in packets {
            let data = p.ethernet();
            let r = Record {
                t_ns: Some(T0 + ms * MS),
                link: LinkType::ETHERNET,
                interface: 0,
                original_len: data.len() as u32,
                data: &data[..data.len().min(snaplen)],
            };
            let frame = frame::parse(&r);
            tracker.packet_watched(r.t_ns, r.original_len, frame.as_ref(), &mut windows);
        }
        let c = tracker.finish().connections.remove(0);
        let waited = c.halves[0].detail().map_or(0, |d| d.limited().receiver_ns);
        (
            c.windows_known(),
            windows.0.last().copied().flatten(),
            waited,
        )
    };
    let packets = scaled();
    assert_eq!(run(&packets, usize::MAX), (true, Some(64_000), 0));
    assert_eq!(
        run(&packets, SHORT),
        (false, None, 0),
        "the scale was cut off"
    );
    assert_eq!(
        run(&packets[2..], usize::MAX),
        (false, None, 0),
        "the handshake was missed"
    );
    // One end that scales nothing is enough for both.
    let mut plain = packets.clone();
    plain[1].1.options = vec![2, 4, 3, 232];
    let (known, window, waited) = run(&plain, SHORT);
    assert_eq!((known, window), (true, Some(500)));
    assert!(
        waited > 100 * MS,
        "segments of 1000 bytes do not fit into 500"
    );
}

#[test]
fn the_initial_window_is_not_told_where_the_begin_was_missed() {
    let packets = scaled();
    let initial =
        |from: usize| track(&packets[from..], usize::MAX).connections[0].halves[0].initial_window();
    assert_eq!((initial(0), initial(2)), (Some(1000), None));
}

#[test]
fn a_repair_after_sack_that_was_cut_off_has_no_reason_that_shows() {
    let mut p = scaled();
    let t = 2000;
    for i in 10..14u32 {
        p.push((t, Tcp::there(1001 + 1000 * i, 5001, 1000)));
    }
    let sack = |to: u32| Tcp::back(5001, 11_001, 0).sack(&[(12_001, to)]);
    p.push((t + 20, sack(13_001)));
    p.push((t + 20, sack(14_001)));
    p.push((t + 21, Tcp::there(11_001, 5001, 1000)));
    let cause = |snaplen| {
        track(&p, snaplen).connections[0].halves[0]
            .events()
            .retransmissions[0]
            .cause
    };
    assert_eq!(
        (cause(usize::MAX), cause(SHORT)),
        (Cause::Sack, Cause::Unknown)
    );
}

#[test]
fn an_end_that_kept_less_is_no_middlebox_that_removes_options() {
    let packets = scaled();
    let end = |snaplen: usize| {
        let mut capture = Capture::default();
        for (ms, p) in &packets {
            let data = p.clone().id(7 + *ms as u16).ethernet();
            let r = Record {
                t_ns: Some(T0 + ms * MS),
                link: LinkType::ETHERNET,
                interface: 0,
                original_len: data.len() as u32,
                data: &data[..data.len().min(snaplen)],
            };
            capture.packet(T0 + ms * MS, &frame::parse(&r).unwrap());
        }
        capture
    };
    let matched = match_ends(&end(usize::MAX), &end(SHORT));
    assert_eq!(matched.pairs.len(), packets.len());
    let up = &matched.flows[0].up;
    assert_eq!(
        (up.lost, up.changes.syn, up.changes.timestamp_changed),
        (0, None, 0)
    );
}
