//! What senders and receivers do of their own accord: bursts, waiting, bunches of ACKs, queues, needless repairs.

use crate::packets::{self, ACK, MS, PSH, SYN, T0, Tcp};
use measure::track::{BurstKind, Cause, Half, Traffic, queue};

const US: i64 = 1000;
/// The other end takes segments of 1000 bytes, and understands SACK.
const MSS_1000: [u8; 8] = [2, 4, 3, 232, 4, 2, 1, 1];

/// Packets of one connection, seen at its client: 30 ms to the server and back.
struct Line {
    packets: Vec<(i64, Tcp)>,
}

impl Line {
    fn new() -> Line {
        let mut line = Line {
            packets: Vec::new(),
        };
        line.at(0, Tcp::there(1000, 0, 0).flags(SYN).options(&MSS_1000));
        line.at(
            30 * MS,
            Tcp::back(5000, 1001, 0).flags(SYN | ACK).options(&MSS_1000),
        );
        line.at(30 * MS + 20 * US, Tcp::there(1001, 5001, 0));
        line
    }

    fn at(&mut self, t: i64, packet: Tcp) {
        let id = self.packets.len() as u16 + 1;
        self.packets.push((T0 + t, packet.id(id)));
    }

    /// So many segments of 1000 bytes 10 µs apart, from the `first`-th on.
    fn send(&mut self, t: i64, first: u32, segments: u32) {
        for i in 0..segments {
            self.at(
                t + i64::from(i) * 10 * US,
                Tcp::there(1001 + 1000 * (first + i), 5001, 1000),
            );
        }
    }

    /// An ACK of the first `segments`.
    fn ack(&mut self, t: i64, segments: u32) {
        self.at(t, Tcp::back(5001, 1001 + 1000 * segments, 0));
    }

    /// Six segments one by one, each answered after 30 ms; ends at 660 ms.
    fn warmed_up() -> Line {
        let mut line = Line::new();
        for i in 0..6 {
            let t = (100 + 100 * i64::from(i)) * MS;
            line.send(t, i, 1);
            line.ack(t + 30 * MS, i + 1);
        }
        line
    }

    fn track(&self) -> Traffic {
        let mut packets = self.packets.clone();
        packets.sort_by_key(|p| p.0);
        packets::track(&packets, usize::MAX)
    }

    fn there(&self) -> Half {
        self.track().connections[0].halves[0].clone()
    }

    fn bursts(&self) -> [u64; 4] {
        self.there().detail().unwrap().bursts.count
    }
}

const OFFLOAD: usize = BurstKind::Offload as usize;
const ACKS: usize = BurstKind::Acks as usize;
const APPLICATION: usize = BurstKind::Application as usize;

#[test]
fn a_burst_is_put_down_to_what_released_it() {
    let only = |kind: usize, n: u64| {
        let mut counts = [0; 4];
        counts[kind] = n;
        counts
    };
    let mut line = Line::warmed_up();
    assert_eq!(line.bursts(), [0; 4], "single segments are none");
    // After a pause, and no ACK since the last segment: the application wrote.
    line.send(900 * MS, 6, 4);
    assert_eq!(line.bursts(), only(APPLICATION, 1));

    // One ACK of four segments releases four at once.
    line.ack(930 * MS, 10);
    line.send(930 * MS + 50 * US, 10, 4);
    let mut counts = only(APPLICATION, 1);
    counts[ACKS] = 1;
    assert_eq!(line.bursts(), counts);

    // Two ACKs of two segments each, and only then four segments: gathered for a super-segment that was cut before the
    // capture, or by a sender that paces.
    line.ack(960 * MS, 12);
    line.ack(970 * MS, 14);
    line.send(975 * MS, 14, 4);
    counts[BurstKind::Unknown as usize] = 1;
    assert_eq!(line.bursts(), counts);

    // A packet of three segments was not yet cut.
    line.ack(1005 * MS, 18);
    line.at(1100 * MS, Tcp::there(19_001, 5001, 3000));
    counts[OFFLOAD] = 1;
    assert_eq!(line.bursts(), counts);
}

#[test]
fn a_burst_that_a_sack_released_is_put_down_to_it() {
    let mut line = Line::warmed_up();
    line.send(900 * MS, 6, 8);
    let hole = Tcp::back(5001, 7001, 0).sack(&[(10_001, 15_001)]);
    line.at(930 * MS, hole);
    line.send(930 * MS + 50 * US, 14, 4);
    let mut counts = [0; 4];
    (counts[APPLICATION], counts[ACKS]) = (1, 1);
    assert_eq!(line.bursts(), counts);
}

#[test]
fn a_burst_of_a_sender_that_had_more_to_send_is_not_its_applications() {
    // Two segments filled the window; the ACK of the first opens it.
    let mut line = Line::warmed_up();
    line.packets.last_mut().unwrap().1.window = 2000;
    line.send(700 * MS, 6, 2);
    line.ack(730 * MS, 7);
    line.send(730 * MS + 50 * US, 8, 4);
    let mut counts = [0; 4];
    counts[ACKS] = 1;
    assert_eq!(line.bursts(), counts);
    // The ACK of all that was under way, at once followed by more than it can have let go: the congestion window grew.
    let after = |wait: i64, short: bool| {
        let mut line = Line::warmed_up();
        line.send(700 * MS, 6, 1);
        if short {
            line.packets.last_mut().unwrap().1.flags = ACK | PSH;
            line.packets.last_mut().unwrap().1.payload = 900;
        }
        line.ack(730 * MS, 7);
        line.packets.last_mut().unwrap().1.ack -= 100 * u32::from(short);
        line.send(730 * MS + wait, 7, 4);
        line.bursts()
    };
    let only = |kind: BurstKind| BurstKind::ALL.map(|k| u64::from(k == kind));
    assert_eq!(after(50 * US, false), only(BurstKind::Unknown));
    assert_eq!(after(50 * US, true), only(BurstKind::Application));
    assert_eq!(after(50 * MS, false), only(BurstKind::Application));
}

#[test]
fn what_is_lost_within_a_burst_is_put_down_to_it_but_not_its_first_segment() {
    use measure::track::Blame;
    let blamed = |lost: u32| {
        let mut line = Line::warmed_up();
        line.send(900 * MS, 6, 4);
        line.ack(930 * MS, 6 + lost);
        line.at(1300 * MS, Tcp::there(7001 + 1000 * lost, 5001, 1000));
        line.ack(1330 * MS, 10);
        line.there()
            .events()
            .losses()
            .map(|l| l.blame)
            .collect::<Vec<_>>()
    };
    assert_eq!(blamed(0), [Blame::Neither]);
    assert_eq!(blamed(2), [Blame::Burst(BurstKind::Application)]);
}

/// Round trips without a delay of the receiver, where one burst of so many segments after the other is acknowledged: for each
/// `every` of them at once, for the rest 40 ms later. Their number and the longest, ms.
fn prompt(segments: u32, every: u32) -> (u32, i64) {
    let mut line = Line::new();
    for burst in 0..20 {
        let (t, first) = ((100 + 200 * i64::from(burst)) * MS, burst * segments);
        line.send(t, first, segments);
        for k in 1..=segments {
            let held = if k % every == 0 { 0 } else { 40 };
            if held == 0 || k == segments {
                let sent = t + i64::from(k - 1) * 10 * US;
                line.ack(sent + (30 + held) * MS, first + k);
            }
        }
    }
    let half = line.there();
    let bins = &half.detail().unwrap().course.bins;
    let count = bins.iter().map(|b| b.prompt_count).sum();
    let most = bins.iter().filter_map(|b| b.prompt_ns()).max();
    (count, most.unwrap_or(0) / MS)
}

#[test]
fn acks_that_waited_for_more_segments_than_two_tell_no_round_trip() {
    // Every second segment, as RFC 9293 has it: each ACK is prompt.
    assert_eq!(prompt(10, 2), (100, 30));
    // Eight, and two for which a timer ran out.
    let (count, most) = prompt(10, 8);
    assert!((10..=20).contains(&count), "{count}");
    assert_eq!(most, 30);
    // It waits for more than there ever are: all ACKs are held back.
    assert_eq!(prompt(10, 16).0, 0);
}

#[test]
fn acks_for_keystrokes_were_held_back_however_many_they_are_for() {
    let mut line = Line::new();
    for n in 0..20_u32 {
        let t = (100 + 200 * i64::from(n)) * MS;
        for k in 0..2 {
            let typed = Tcp::there(1001 + 100 * (2 * n + k), 5001, 100).flags(ACK | PSH);
            line.at(t + i64::from(k) * 10 * US, typed);
        }
        line.at(t + 70 * MS, Tcp::back(5001, 1001 + 200 * (n + 1), 0));
    }
    let half = line.there();
    let bins = &half.detail().unwrap().course.bins;
    assert!(bins.iter().all(|b| b.prompt_count == 0));
    assert!(half.rtt.count > 10, "{}", half.rtt.count);
}

#[test]
fn what_the_capture_does_not_hold_was_acknowledged_before() {
    // Each ACK is held back for 40 ms. Of the data, the capture misses every second segment.
    let mut line = Line::new();
    for n in 0..20_u32 {
        let t = (100 + 200 * i64::from(n)) * MS;
        line.send(t, 2 * n, 1);
        line.ack(t + 30 * MS, 2 * n + 2);
        line.send(t + 100 * MS, 2 * n + 2, 1);
        line.ack(t + 170 * MS, 2 * n + 3);
    }
    let half = line.there();
    let bins = &half.detail().unwrap().course.bins;
    let prompt: u32 = bins.iter().map(|b| b.prompt_count).sum();
    assert_eq!(prompt, 0);
    assert!(half.rtt.count >= 20, "{}", half.rtt.count);
}

#[test]
fn time_is_put_down_to_window_application_or_network() {
    let limited = |line: &Line| line.there().detail().unwrap().limited();
    let before = limited(&Line::warmed_up());
    let spent = |line: &Line| {
        let now = limited(line);
        (
            (now.sender_ns - before.sender_ns) / MS,
            (now.receiver_ns - before.receiver_ns) / MS,
            (now.network_ns - before.network_ns) / MS,
        )
    };
    // From the last ACK at 630 ms to 700 ms there was nothing to send. Then two full segments fill the window for 30 ms.
    let mut line = Line::warmed_up();
    line.packets.last_mut().unwrap().1.window = 2000;
    line.send(700 * MS, 6, 2);
    line.ack(730 * MS, 8);
    let (sender, receiver, network) = spent(&line);
    assert_eq!((sender, network), (70, 0));
    assert!((29..=30).contains(&receiver), "{receiver}");
    // The same two segments into an open window: the network's 30 ms.
    let mut line = Line::warmed_up();
    line.send(700 * MS, 6, 2);
    line.ack(730 * MS, 8);
    assert_eq!(spent(&line), (70, 0, 30));
    // A short segment was all there was.
    let mut line = Line::warmed_up();
    line.at(700 * MS, Tcp::there(7001, 5001, 300).flags(ACK | PSH));
    line.at(730 * MS, Tcp::back(5001, 7301, 0));
    assert_eq!(spent(&line), (100, 0, 0));
    // A closed window stays the receiver's fault until it opens.
    let mut line = Line::warmed_up();
    line.packets.last_mut().unwrap().1.window = 0;
    line.at(1030 * MS, Tcp::back(5001, 7001, 0));
    line.send(1040 * MS, 6, 1);
    assert_eq!(spent(&line), (10, 400, 0));
    assert_eq!(
        line.track().connections[0].halves[1].events().zero_windows,
        1
    );
}

#[test]
fn acks_that_come_closer_together_than_their_data_left_are_bunched() {
    let bunches = |gap: i64| {
        let mut line = Line::warmed_up();
        for i in 0..5u32 {
            line.send((700 + 10 * i64::from(i)) * MS, 6 + i, 1);
            line.ack(800 * MS + i64::from(i) * gap, 7 + i);
        }
        let b = line.there().detail().unwrap().bunches;
        (b.rows, b.acks)
    };
    assert_eq!(bunches(50 * US), (1, 5));
    assert_eq!(bunches(10 * MS), (0, 0), "as far apart as the data");
}

#[test]
fn the_initial_window_is_what_left_before_the_first_ack_of_data() {
    let mut line = Line::new();
    line.send(31 * MS, 0, 10);
    line.ack(61 * MS, 10);
    line.send(62 * MS, 10, 20);
    assert_eq!(line.there().counts.initial_window, 10_000);
    assert_eq!(line.there().counts.outstanding_max, 20_000);
}

#[test]
fn a_time_out_whose_first_copy_had_arrived_is_needless() {
    let mut line = Line::warmed_up();
    line.send(700 * MS, 6, 3);
    line.send(1100 * MS, 6, 1);
    line.ack(1110 * MS, 9);
    // RFC 2883: the receiver tells that the second copy came as well.
    line.at(1130 * MS, Tcp::back(5001, 10_001, 0).sack(&[(7001, 8001)]));
    let half = line.there();
    let r = half.events().retransmissions[0];
    assert_eq!((r.cause, r.needless), (Cause::Timeout, true));
    assert_eq!(half.events().losses().count(), 0);
    assert_eq!(line.track().connections[0].halves[1].events().dsacks, 1);
}

#[test]
fn a_fast_retransmission_of_what_was_only_overtaken_is_needless() {
    let repaired = |after: i64, told: bool| {
        let mut line = Line::warmed_up();
        line.send(700 * MS, 6, 5);
        for i in 0..4 {
            line.ack(731 * MS + i * 10 * US, 6);
        }
        line.send(731 * MS + 50 * US, 6, 1);
        line.ack((731 + after) * MS, 11);
        if told {
            line.at(762 * MS, Tcp::back(5001, 12_001, 0).sack(&[(7001, 8001)]));
        }
        let half = line.there();
        let r = half.events().retransmissions[0];
        (r.cause, r.needless)
    };
    assert_eq!(repaired(1, true), (Cause::Fast, true));
    // No ACK of the repair comes back sooner than in a round trip.
    assert_eq!(repaired(1, false), (Cause::Fast, true));
    assert_eq!(repaired(31, false), (Cause::Fast, false));
}

#[test]
fn one_segment_in_flight_is_probed_before_its_time_out() {
    let again = |after: i64, sack: bool| {
        let mut line = Line::warmed_up();
        if !sack {
            line.packets[1].1.options = vec![2, 4, 3, 232];
        }
        line.send(700 * MS, 6, 1);
        line.send((700 + after) * MS, 6, 1);
        line.there().events().retransmissions[0].cause
    };
    // Two round trips and the 40 ms for which an ACK may be held back; the timer would run out after 230 ms.
    assert_eq!(again(100, true), Cause::TailProbe);
    assert_eq!(again(231, true), Cause::Timeout);
    assert_ne!(
        again(100, false),
        Cause::TailProbe,
        "who has no SACK probes nothing"
    );
}

#[test]
fn what_round_trips_exceed_the_least_by_is_waiting() {
    let mut line = Line::warmed_up();
    // A queue that grows by 10 ms with each of twenty pairs of segments, half a second apart.
    for i in 0..20u32 {
        let t = (1000 + 500 * i64::from(i)) * MS;
        line.send(t, 6 + 2 * i, 2);
        line.ack(t + (30 + 10 * i64::from(i)) * MS + 10 * US, 8 + 2 * i);
    }
    let traffic = line.track();
    let ways = [0, 1].map(|way| queue::Trail::of(&traffic.connections[0], way));
    let waits = queue::waits(ways.into_iter());
    assert_eq!(waits.len(), 1, "only one direction carried data");
    let w = &waits[0];
    assert_eq!((w.trail, w.base_ns), (0, Some(30 * MS)));
    let round = w.round.as_ref().expect("it has round trips");
    let most = round.course.iter().map(|(_, wait)| *wait).max();
    assert_eq!(most, Some(190 * MS));
    // ACKs of single segments may have been held back: they count for the least round trip only.
    assert_eq!(round.course.len() as u64 - round.filled, 20);
}

#[test]
fn peaks_of_waiting_are_lower_over_longer_stretches() {
    // A pair of segments every 40 ms, of which every fifth waits 30 ms.
    let mut line = Line::new();
    for n in 0..400_u32 {
        let t = (100 + 40 * i64::from(n)) * MS;
        line.send(t, 2 * n, 2);
        let wait = if n % 5 == 4 { 30 } else { 0 };
        line.ack(t + (30 + wait) * MS + 10 * US, 2 * n + 2);
    }
    let traffic = line.track();
    let ways = [0, 1].map(|way| queue::Trail::of(&traffic.connections[0], way));
    let waits = queue::waits(ways.into_iter());
    let round = waits[0].round.as_ref().expect("it has round trips");
    let [short, long] = [&round.waits, &round.longer].map(|w| w.quantile(0.95).unwrap() / 1e6);
    assert!((14.0..=31.0).contains(&short), "{short} ms");
    assert!(long < 0.8 * short, "{long} ms, {short} ms");
}

#[test]
fn a_wait_is_of_the_time_at_which_its_data_arrived_however_late_the_ack_comes() {
    let stamps = |value: i64, echo: i64| {
        let ms = |ns: i64| (1000 + ns / MS) as u32;
        Tcp::there(0, 0, 0).timestamps(ms(value), ms(echo))
    };
    let mut line = Line::new();
    for (t, (_, packet)) in [0, 15 * MS, 30 * MS].iter().zip(&mut line.packets) {
        *packet = packet.clone().and(stamps(*t, 0));
    }
    // Pairs of segments 20 ms apart, which wait up to 25 ms. Data on the way back holds up ten ACKs at once.
    let wait = |n: u32| 5 * i64::from((n % 10).min(10 - n % 10));
    for n in 0..400_u32 {
        let t = (100 + 20 * i64::from(n)) * MS;
        for k in 0..2 {
            let data = Tcp::there(1001 + 1000 * (2 * n + k), 5001, 1000);
            line.at(t + i64::from(k) * 10 * US, data.and(stamps(t, t)));
        }
        let arrived = t + (15 + wait(n)) * MS;
        let held = (100 + 20 * (i64::from(n) / 10 * 10 + 9) + 60) * MS;
        let back = match n {
            // Nothing was in the way of the first ones.
            0..20 => arrived + 15 * MS,
            _ => held + 15 * MS + i64::from(n % 10) * 10 * US,
        };
        let ack = Tcp::back(5001, 1001 + 2000 * (n + 1), 0);
        line.at(back, ack.and(stamps(arrived, t)));
    }
    let traffic = line.track();
    let ways = [0, 1].map(|way| queue::Trail::of(&traffic.connections[0], way));
    let waits = queue::waits(ways.into_iter());
    let towards = waits[0].towards.as_ref().expect("timestamps tell it");
    // One bin for each pair, not one for each row of ACKs.
    let own = towards.course.len() as u64 - towards.filled;
    assert!(own > 300, "{own}");
    for (at, is) in [(0.1, 3.0), (0.5, 12.0), (0.9, 22.0)] {
        let said = towards.waits.quantile(at).unwrap() / 1e6;
        assert!((said - is).abs() <= 4.0, "{at}: {said} ms");
    }
}

#[test]
fn without_a_handshake_the_common_part_of_large_packets_is_their_segment() {
    let segment = |sizes: &[usize], pushed: bool| {
        let mut line = Line::new();
        line.packets.clear();
        let mut seq = 1001;
        for (n, size) in sizes.iter().enumerate() {
            let data = Tcp::there(seq, 5001, *size);
            let flags = if pushed { ACK | PSH } else { ACK };
            line.at(n as i64 * MS, data.flags(flags));
            seq += *size as u32;
        }
        let half = line.there();
        (half.segment_bytes, half.wire_packets())
    };
    assert_eq!(
        segment(&[5164, 10_328, 7746, 1291], false),
        (1291, 4 + 8 + 6 + 1)
    );
    assert_eq!(
        segment(&[5164, 7746], false),
        (2582, 5),
        "as far as it shows"
    );
    // Jumbo frames, of which the window or the end of the data cut some.
    assert_eq!(segment(&[8948, 8948, 3000, 8948], false), (8948, 4));
    assert_eq!(
        segment(&[8948, 8948, 4474], true).1,
        segment(&[8948, 8948, 4473], true).1
    );
}
