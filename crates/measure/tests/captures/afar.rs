//! Senders far from the capture: what held them back, by the timestamps that their packets echo; and transmissions for
//! nothing, by those that ACKs echo.

use crate::packets::{self, ACK, MS, PSH, SYN, T0, Tcp};
use measure::track::Connection;

/// Segments of 1000 bytes, SACK.
const OPTIONS: [u8; 8] = [2, 4, 3, 232, 4, 2, 1, 1];
/// Time from the capture to the sender and back.
const AWAY: i64 = 20;

/// Packets of one connection with 1000 bytes of data in each segment. Times are in milliseconds, as the clocks of both ends.
struct Line {
    stamped: bool,
    packets: Vec<(i64, Tcp)>,
}

impl Line {
    /// Captured beside the receiver, whose answer to the SYN comes at once.
    fn new(stamped: bool) -> Line {
        let mut line = Line {
            stamped,
            packets: Vec::new(),
        };
        line.add(0, Tcp::there(1000, 0, 0).flags(SYN).options(&OPTIONS), 0, 0);
        let answer = Tcp::back(5000, 1001, 0).flags(SYN | ACK).options(&OPTIONS);
        line.add(0, answer, 0, 0);
        line.add(AWAY, Tcp::there(1001, 5001, 0), AWAY, 0);
        line
    }

    fn add(&mut self, at: i64, packet: Tcp, value: i64, echo: i64) {
        let stamps = Tcp::there(0, 0, 0).timestamps((1000 + value) as u32, (1000 + echo) as u32);
        let packet = match self.stamped {
            true => packet.and(stamps),
            false => packet,
        };
        let id = self.packets.len() as u16 + 1;
        self.packets.push((T0 + at * MS, packet.id(id)));
    }

    /// The `n`-th segment passes at `at`, sent when the ACK of `heard` had come.
    fn data(&mut self, at: i64, n: u32, heard: i64) {
        self.add(at, Tcp::there(1001 + 1000 * n, 5001, 1000), at, heard);
    }

    /// ACK of the first `n` segments, sent at `at`, that echoes a packet of `echo`.
    fn ack(&mut self, at: i64, n: u32, echo: i64) {
        self.add(at, Tcp::back(5001, 1001 + 1000 * n, 0), at, echo);
    }

    /// The last segment has 900 bytes and PSH.
    fn last_is_short(&mut self) {
        let [.., (_, data), (_, ack)] = &mut self.packets[..] else {
            panic!("no data");
        };
        (data.payload, data.flags) = (900, ACK | PSH);
        ack.ack -= 100;
    }

    fn track(&self) -> Connection {
        packets::track(&self.packets, usize::MAX)
            .connections
            .remove(0)
    }

    /// Time without data to send, with a full window, and the rest, ms.
    fn limited(&self) -> [i64; 3] {
        let l = self.track().halves[0].detail().unwrap().limited();
        [l.sender_ns, l.receiver_ns, l.network_ns].map(|ns| ns / MS)
    }
}

/// Ten segments, each acknowledged at once and sent when the one before was; the last ACK leaves at 230 ms, and nothing is left
/// to send.
fn one_by_one(stamped: bool) -> Line {
    let mut line = Line::new(stamped);
    for n in 0..10 {
        let at = 50 + AWAY * i64::from(n);
        line.data(at, n, at - AWAY);
        line.ack(at, n + 1, at);
    }
    line.last_is_short();
    line
}

#[test]
fn a_pause_of_a_sender_begins_when_it_has_heard_that_all_arrived() {
    let before = one_by_one(true).limited();
    let mut line = one_by_one(true);
    let next = Tcp::there(1001 + 9900, 5001, 1000);
    line.add(1230, next, 1230, 230);
    let now = line.limited();
    // From the last packet on: it was the last one, and was acknowledged at once.
    assert_eq!(now[0] - before[0], 1000, "{before:?} {now:?}");
    assert!(line.track().windows_told(0));
}

#[test]
fn a_sender_that_repeats_its_last_data_waits_for_its_application_once_that_is_acknowledged() {
    let mut line = one_by_one(true);
    let before = line.limited();
    // A full segment comes again, sent before the ACK of the last one arrived.
    line.data(300, 8, 190);
    line.add(300, Tcp::back(5001, 1001 + 9900, 0), 300, 300);
    let next = Tcp::there(1001 + 9900, 5001, 1000);
    line.add(1300, next, 1300, 300);
    let now = line.limited();
    let waits = now[0] - before[0];
    assert_eq!(waits, 70 + 1000, "{before:?} {now:?}");
}

#[test]
fn silence_after_a_full_segment_is_no_pause() {
    // Four segments in flight, whose ACKs take 520 ms to the sender and back. One ACK of the last four arrives.
    let mut line = Line::new(true);
    let sent = |n: u32| 50 + 130 * i64::from(n);
    for n in 0_u32..20 {
        let heard = n.checked_sub(4).map_or(0, sent);
        line.data(sent(n), n, heard);
        if !(16..19).contains(&n) {
            line.ack(sent(n), n + 1, sent(n));
        }
    }
    line.data(sent(19) + 520, 20, sent(19));
    let [sender, receiver, network] = line.limited();
    assert_eq!((sender, receiver), (0, 0));
    assert!(network > 2000, "{network}");
}

#[test]
fn a_full_window_shows_though_the_capture_sees_everything_acknowledged() {
    // Windows of three segments, ACKs that take 100 ms to the sender and back.
    let mut line = Line::new(true);
    for n in 0..60 {
        let at = 50 + 100 * i64::from(n / 3) + i64::from(n % 3);
        line.data(at, n, at - 100);
        line.add(
            at,
            Tcp::back(5001, 1001 + 1000 * (n + 1), 0).window(3000),
            at,
            at,
        );
    }
    let [sender, receiver, network] = line.limited();
    assert!(
        receiver > 10 * (sender + network),
        "{sender} {receiver} {network}"
    );
}

#[test]
fn a_sender_that_spreads_out_what_an_ack_lets_go_is_not_held_back_by_the_window_meanwhile() {
    // Windows of three segments, which pass 30 ms apart. One ACK for all three goes back 40 ms before the next ones.
    let limited = |at_once: bool| {
        let mut line = Line::new(true);
        for round in 0..40 {
            let first = 50 + 100 * i64::from(round);
            for k in 0..3 {
                let passes = first + 30 * i64::from(k);
                let left = if at_once { first } else { passes };
                let segment = Tcp::there(1001 + 1000 * (3 * round + k), 5001, 1000);
                line.add(passes, segment, left, first - 40);
            }
            let ack = Tcp::back(5001, 1001 + 3000 * (round + 1), 0).window(3000);
            line.add(first + 60, ack, first + 60, first);
        }
        line.limited()
    };
    let [at_once, spread] = [true, false].map(limited);
    assert_eq!((at_once[0], spread[0]), (0, 0));
    assert!(at_once[1] > 10 * at_once[2], "{at_once:?}");
    // Until the third has left.
    assert!(spread[2] > spread[1], "{spread:?}");
    assert!(spread[1] > 1000, "{spread:?}");
}

#[test]
fn without_timestamps_the_window_and_the_network_are_not_told_apart() {
    assert!(!one_by_one(false).track().windows_told(0));
}

/// A transfer whose begin the capture lacks: full segments 100 ms apart, each of which a receiver beside the capture
/// acknowledges 40 ms later. Their sender has heard of the ACK before the last `lag`.
fn late_answers(stamped: bool, lag: u32) -> Line {
    let mut line = Line {
        stamped,
        packets: Vec::new(),
    };
    let sent = |n: u32| 100 * i64::from(n);
    for n in 0..30 {
        line.data(sent(n), n, n.checked_sub(lag).map_or(0, |n| sent(n) + 40));
        line.ack(sent(n) + 40, n + 1, sent(n));
    }
    line
}

#[test]
fn a_receiver_that_answers_late_does_not_make_its_sender_idle() {
    let line = late_answers(false, 4);
    let [sender, _, network] = line.limited();
    assert_eq!(sender, 0);
    assert!(network > 2000, "{network}");
    assert!(
        !line.track().windows_told(0),
        "where the sender is does not show"
    );
    // Keystrokes are all that there was.
    let mut line = late_answers(false, 1);
    for (n, (_, packet)) in (0..).zip(line.packets.iter_mut()).skip(2) {
        let end = 2001 + 100 * (n / 2);
        if n % 2 == 0 {
            (packet.seq, packet.payload, packet.flags) = (end - 100, 100, ACK | PSH);
        } else {
            packet.ack = end;
        }
    }
    let [sender, _, network] = line.limited();
    assert!(sender > 10 * network, "{sender} {network}");
}

#[test]
fn a_sender_that_has_not_heard_of_an_ack_is_far() {
    // The first ACK comes back only with the 30th segment: no ACK tells how far it is.
    let [sender, _, network] = late_answers(true, 31).limited();
    assert_eq!(sender, 0);
    assert!(network > 2000, "{network}");
}

/// Ten segments beside their sender, 30 ms from the receiver; the last ACK comes at 530 ms.
fn beside_the_sender() -> Line {
    let mut line = Line::new(true);
    for n in 0..10 {
        let at = 50 + 50 * i64::from(n);
        line.data(at, n, at - AWAY);
        line.ack(at + 30, n + 1, at);
    }
    line
}

#[test]
fn an_ack_that_echoes_the_first_transmission_shows_the_second_as_needless() {
    let needless = |echo: i64| {
        let mut line = beside_the_sender();
        line.data(600, 10, 530);
        line.data(900, 10, 530);
        line.ack(930, 11, echo);
        line.track().halves[0].events().needless
    };
    assert_eq!((needless(600), needless(900)), (1, 0));
}

#[test]
fn each_report_of_a_second_copy_is_of_another_transmission() {
    let needless = |reports: i64| {
        let mut line = beside_the_sender();
        for k in 0..4 {
            line.data(600 + 300 * k, 10, 530);
        }
        line.ack(1800, 11, 1500);
        for k in 0..reports {
            let report = Tcp::back(5001, 12_001, 0).sack(&[(11_001, 12_001)]);
            line.add(1810 + k, report, 1810 + k, 1500);
        }
        line.track().halves[0].events().needless
    };
    assert_eq!([0, 1, 2, 3, 4].map(needless), [0, 1, 2, 3, 3]);
}

#[test]
fn a_sender_that_repeated_what_had_arrived_repairs_nothing_from_then_on() {
    let mut line = one_by_one(true);
    // Its last data comes again, sent before the ACK arrived. Then a short one each second, acknowledged at once.
    let short = |n: u32| Tcp::there(1001 + 9900 + 100 * n, 5001, 100).flags(ACK | PSH);
    line.add(
        300,
        Tcp::there(1001 + 9000, 5001, 900).flags(ACK | PSH),
        300,
        210,
    );
    let before = line.limited();
    for n in 0..4 {
        let at = 1300 + 1000 * i64::from(n);
        line.add(at, short(n), at, at - 980);
        line.add(at, Tcp::back(5001, 1001 + 9900 + 100 * (n + 1), 0), at, at);
    }
    let now = line.limited();
    assert_eq!(now[0] - before[0], 4000, "{before:?} {now:?}");
}

/// Ten segments beside their sender, without SACK or timestamps, each acknowledged after 30 ms as the SYN was. The eleventh and
/// two more leave at 600 ms.
fn without_sack() -> Line {
    let mut line = Line {
        stamped: false,
        packets: Vec::new(),
    };
    let mss = &OPTIONS[..4];
    line.add(0, Tcp::there(1000, 0, 0).flags(SYN).options(mss), 0, 0);
    let answer = Tcp::back(5000, 1001, 0).flags(SYN | ACK).options(mss);
    line.add(30, answer, 0, 0);
    line.add(30, Tcp::there(1001, 5001, 0), 0, 0);
    for n in 0..10 {
        line.data(50 + 50 * i64::from(n), n, 0);
        line.ack(80 + 50 * i64::from(n), n + 1, 0);
    }
    (10..13).for_each(|n| line.data(600, n, 0));
    line
}

#[test]
fn without_sack_a_duplicate_after_the_repair_shows_which_were_needless() {
    // Times of ACKs of the first so many segments, after the eleventh and the twelfth left again at 900 ms.
    let needless = |acks: &[(i64, u32)]| {
        let mut line = without_sack();
        line.data(900, 10, 0);
        line.data(900, 11, 0);
        acks.iter().for_each(|(at, n)| line.ack(*at, *n, 0));
        line.track().halves[0].events().needless
    };
    // The twelfth had arrived: its second copy is answered by a duplicate.
    assert_eq!(needless(&[(930, 13), (931, 13)]), 1);
    // It had not: the repair of each is acknowledged.
    assert_eq!(needless(&[(930, 11), (931, 13)]), 0);
    // One of the two ACKs was lost: nothing tells.
    assert_eq!(needless(&[(931, 13)]), 0);
}

#[test]
fn a_copy_acknowledged_sooner_than_any_packet_was_for_nothing() {
    let needless = |after: i64| {
        let mut line = without_sack();
        line.data(900, 10, 0);
        line.ack(900 + after, 13, 0);
        line.track().halves[0].events().needless
    };
    assert_eq!([5, 20, 30, 60].map(needless), [1, 1, 0, 0]);
}

#[test]
fn a_report_spares_only_its_bytes_of_a_large_packet() {
    let lost = |reports: u32| {
        let mut line = beside_the_sender();
        for at in [600, 900] {
            line.add(at, Tcp::there(11_001, 5001, 3000), at, 530);
        }
        line.ack(930, 13, 900);
        for k in 0..reports {
            let left = 11_001 + 1000 * k;
            let report = Tcp::back(5001, 14_001, 0).sack(&[(left, left + 1000)]);
            line.add(940, report, 940, 900);
        }
        let half = &line.track().halves[0];
        let lost: u64 = half.events().losses().map(|l| l.bytes).sum();
        (lost, half.events().needless)
    };
    assert_eq!([0, 1, 3].map(lost), [(3000, 0), (2000, 0), (0, 1)]);
}

/// Lost bytes, and those of them that may have been repaired in vain.
fn losses(line: &Line) -> (u64, u64) {
    let half = &line.track().halves[0];
    let losses: Vec<_> = half.events().losses().collect();
    let bytes = |all: bool| {
        let of = losses.iter().filter(|l| all || l.doubtful);
        of.map(|l| l.bytes).sum()
    };
    (bytes(true), bytes(false))
}

#[test]
fn a_repair_beside_needless_ones_is_doubtful_unless_the_receiver_had_shown_a_hole() {
    // Four segments again after a time-out; the ACK says how many had arrived, by a report each. What was not reported may have
    // been: reports get lost.
    let told = |reports: u32, hole: bool| {
        let mut line = beside_the_sender();
        (10..15).for_each(|n| line.data(600, n, 530));
        if hole {
            let above = Tcp::back(5001, 11_001, 0).sack(&[(15_001, 16_001)]);
            line.add(630, above, 630, 530);
        }
        (10..14).for_each(|n| line.data(900, n, 530));
        line.ack(930, 15, 530);
        for k in 0..reports {
            let left = 11_001 + 1000 * k;
            let report = Tcp::back(5001, 16_001, 0).sack(&[(left, left + 1000)]);
            line.add(931, report, 931, 530);
        }
        losses(&line)
    };
    assert_eq!(told(0, false), (4000, 0));
    assert_eq!(told(1, false), (3000, 3000));
    assert_eq!(told(4, false), (0, 0));
    assert_eq!(told(1, true), (3000, 0));
}

#[test]
fn a_repair_whose_ack_the_capture_lacks_is_doubtful() {
    let told = |ack: Option<(u32, i64)>| {
        let mut line = beside_the_sender();
        line.data(600, 10, 530);
        line.data(900, 10, 530);
        line.data(920, 11, 530);
        if let Some((segments, echo)) = ack {
            line.ack(950, segments, echo);
        }
        losses(&line)
    };
    assert_eq!(told(Some((11, 900))), (1000, 0));
    // The capture ends before the ACK; or the ACK for more is of a later segment, so that there was one for this before.
    assert_eq!(told(None), (1000, 1000));
    assert_eq!(told(Some((12, 920))), (1000, 1000));
}

#[test]
fn an_ack_that_echoes_a_repair_shows_that_nothing_had_arrived_however_soon_it_comes() {
    // The handshake and the ten segments took 30 ms; the path has become shorter.
    let told = |stamped: bool| {
        let mut line = without_sack();
        line.stamped = stamped;
        line.data(900, 10, 0);
        line.ack(910, 11, 900);
        losses(&line)
    };
    assert_eq!((told(true), told(false)), ((1000, 0), (0, 0)));
    // Round trips by SACK count, too: here 10 ms, less than that of any other segment.
    let lost = |sack: bool| {
        let mut line = without_sack();
        if sack {
            line.add(
                610,
                Tcp::back(5001, 11_001, 0).sack(&[(12_001, 14_001)]),
                0,
                0,
            );
        }
        line.data(900, 10, 0);
        line.ack(915, 13, 0);
        losses(&line).0
    };
    assert_eq!((lost(false), lost(true)), (0, 1000));
}

#[test]
fn an_ack_of_a_packet_from_before_the_capture_tells_no_round_trip() {
    // A sender that sends everything again; the ACKs of the first copies come 4 ms after the second ones, if they `echo` as the
    // first ones did.
    let said = |stamped: bool, echo: i64| {
        let mut line = Line {
            stamped,
            packets: Vec::new(),
        };
        for n in 0..20 {
            let at = 1000 + 30 * i64::from(n);
            line.data(at, n, 0);
            line.ack(at + 4, n + 1, echo + 30 * i64::from(n));
        }
        let half = line.track().halves[0].clone();
        (half.rtt.count, half.events().acked_ambiguously)
    };
    assert_eq!(said(true, 100), (0, 20));
    assert_eq!(said(true, 1000), (20, 0));
    // The eleventh echoes the first packet that was captured.
    assert_eq!(said(true, 700), (10, 10));
    assert_eq!(said(false, 100), (20, 0), "nothing tells it");
}
