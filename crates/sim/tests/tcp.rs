//! TCP in the network: growth, sawtooth, repair of losses, timers.

use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Ecn, Packet, Time};
use congestion::registry::CONTROLLERS;
use link::qdisc::registry::AnyQdisc;
use link::qdisc::{Backlog, Fates, Qdisc, Reason, fifo};
use link::rate::Rate;
use link::{Link, LinkParams};
use sim::network::{Blind, Happening, Network, Observer};
use sim::segment::{Segment, flag};
use sim::tcp::{Sender, Settings};
use std::collections::BTreeSet;
use std::fmt::Write;
use std::sync::Arc;

fn line(rate: u64, delay: Duration, queue: &str) -> LinkParams {
    LinkParams::plain(
        Rate::fixed(BitsPerSec::new(rate)).unwrap(),
        delay,
        queue.parse().unwrap(),
    )
}

fn settings(controller: &str) -> Settings {
    Settings {
        controller: Arc::new(controller.parse().unwrap()),
        mss: Bytes::new(960),
        header: Bytes::new(40),
        delayed_ack: false,
        ..Settings::default()
    }
}

/// Drops the packets that arrive as these numbers, from 0; the SYN is 0.
struct DropThese {
    numbers: BTreeSet<u64>,
    seen: u64,
    inner: fifo::Fifo,
}

impl Qdisc for DropThese {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        self.seen += 1;
        if self.numbers.contains(&(self.seen - 1)) {
            fates.dropped(packet, Reason::EarlyDrop);
        } else {
            self.inner.enqueue(now, packet, fates);
        }
    }
    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        self.inner.dequeue(now, fates)
    }
    fn backlog(&self) -> Backlog {
        self.inner.backlog()
    }
    fn next_wakeup(&self) -> Option<Time> {
        None
    }
}

/// One connection over 8 Mbit/s (a packet of 1000 bytes takes 1 ms) and 100 ms, dropping some packets.
fn path(settings: &Settings, bytes: u64, dropped: &[u64]) -> Network {
    let streams = Streams::new(1);
    let mut network = Network::default();
    let params = line(8_000_000, Duration::from_millis(50), "fifo:packets=10000");
    let qdisc = DropThese {
        numbers: dropped.iter().copied().collect(),
        seen: 0,
        inner: fifo::Fifo::new(fifo::Params {
            packets: None,
            bytes: None,
        }),
    };
    let custom = AnyQdisc::Custom(Box::new(qdisc));
    let there = network.add_ready_link(Link::with_qdisc(&params, custom, &streams, "there"));
    let back = network.add_link(
        &line(1_000_000_000, Duration::from_millis(50), "fifo"),
        &streams,
        "back",
    );
    network.connect(settings, &[there], &[back], Time::ZERO, bytes, &streams);
    network
}

#[test]
fn slow_start_doubles_the_window_each_round_trip() {
    let mut network = path(&settings("newreno"), u64::MAX, &[]);
    // The SYN takes 0.04 + 50 + 50 ms; then a round trip is about 101 ms.
    let mut windows = Vec::new();
    for round in 0..4 {
        network.run_until(Time::from_millis(190 + 101 * round), &mut Blind);
        windows.push(network.connections[0].sender.controller().cwnd.get() / 960);
    }
    assert_eq!(windows, [10, 20, 40, 80]);
}

/// One long flow over that path with a queue of `packets`; share of the line's rate that is used, and
/// the times of recoveries, from 20 s on.
fn sawtooth(packets: u64, seconds: u64) -> (f64, Vec<f64>) {
    let streams = Streams::new(1);
    let mut network = Network::default();
    let there = network.add_link(
        &line(
            8_000_000,
            Duration::from_millis(50),
            &format!("fifo:packets={packets}"),
        ),
        &streams,
        "there",
    );
    let back = network.add_link(
        &line(1_000_000_000, Duration::from_millis(50), "fifo"),
        &streams,
        "back",
    );
    let bytes = u64::MAX;
    network.connect(
        &settings("newreno"),
        &[there],
        &[back],
        Time::ZERO,
        bytes,
        &streams,
    );
    network.run_until(Time::from_secs(20), &mut Blind);
    let before = network.link_stats(there).delivered.bytes.bits();
    let (mut times, mut recoveries) =
        (Vec::new(), network.connections[0].sender.stats().recoveries);
    for ms in (20_000..=(20 + seconds) * 1000).step_by(10) {
        network.run_until(Time::from_millis(ms), &mut Blind);
        let now = network.connections[0].sender.stats();
        assert_eq!(now.timeouts, 0);
        if now.recoveries > recoveries {
            recoveries = now.recoveries;
            times.push(ms as f64 / 1000.0);
        }
    }
    let bits = network.link_stats(there).delivered.bytes.bits() - before;
    (bits as f64 / (8e6 * seconds as f64), times)
}

#[test]
fn a_buffer_of_one_bandwidth_delay_product_keeps_the_line_full() {
    // 100 ms at a packet a millisecond: 100 packets.
    let (used, _) = sawtooth(100, 200);
    assert!(used > 0.998, "{used}");
    // With a tenth of it the window swings between 55 and 111 around a pipe of 100: some of each swing
    // leaves the line idle.
    let (used, _) = sawtooth(10, 200);
    assert!((0.75..0.90).contains(&used), "{used}");
}

#[test]
fn renos_sawtooth_has_the_period_of_the_pipe() {
    // The window grows from W/2 to W = pipe + buffer + 1 = 202 segments, one a round trip; the round
    // trip is the window in milliseconds while the line is full: the sum of 101 … 202, 15.45 s.
    let (_, times) = sawtooth(100, 200);
    let periods: Vec<f64> = times.windows(2).map(|w| w[1] - w[0]).collect();
    assert!(periods.len() >= 10, "{times:?}");
    let mean = periods.iter().sum::<f64>() / periods.len() as f64;
    assert!((mean / 15.45 - 1.0).abs() < 0.03, "{mean} s: {periods:?}");
}

#[test]
fn without_sack_what_arrives_after_a_lost_segment_does_not_release_it_all_again() {
    // One lost segment of a window of 40: the one sent again acknowledges all behind it. Users saw a
    // tenth of Tahoe's packets sent again where one in a hundred was lost.
    let settings = Settings {
        sack: false,
        ..settings("tahoe")
    };
    let mut network = path(&settings, 400 * 960, &[50]);
    network.run_until(Time::from_secs(30), &mut Blind);
    let stats = network.connections[0].sender.stats();
    assert_eq!(network.connections[0].receiver.received(), 400 * 960);
    assert_eq!((stats.retransmits, stats.timeouts), (1, 0));
}

/// A readable table of what passes.
#[derive(Default)]
struct Table {
    text: String,
}

impl Observer for Table {
    fn packet(&mut self, now: Time, what: Happening, _packet: &Packet, s: &Segment) {
        let what = match what {
            Happening::Sent => "sends",
            Happening::Dropped(_) => "loses",
            Happening::Received => return,
        };
        let ms = now.as_secs_f64() * 1e3;
        // Only the receiver echoes what the data took to arrive.
        let closing = s.is(flag::ACK) && s.delay.is_zero() && !s.is(flag::SYN);
        let fin = if s.is(flag::FIN) { " FIN" } else { "" };
        let _ = match (s.is(flag::SYN), s.is(flag::ACK)) {
            _ if closing => writeln!(self.text, "{ms:9.3} sender   {what} ACK"),
            (true, false) => writeln!(self.text, "{ms:9.3} sender   {what} SYN"),
            (true, true) => writeln!(self.text, "{ms:9.3} receiver {what} SYN ACK"),
            (false, true) => {
                let blocks: Vec<String> = s
                    .blocks()
                    .iter()
                    .map(|b| format!("{}-{}", b.0 / 960, b.1 / 960))
                    .collect();
                writeln!(
                    self.text,
                    "{ms:9.3} receiver {what} ACK {} {}{fin}",
                    s.ack / 960,
                    blocks.join(" ")
                )
            }
            _ => writeln!(self.text, "{ms:9.3} sender   {what} {}{fin}", s.seq / 960),
        };
    }
}

#[test]
fn a_lost_segment_is_sent_again_after_three_selective_acknowledgements() {
    // Data segments 4 and 20 are lost: packets 5 and 22, the SYN being 0 and segment 4 again 21; 30 segments in all.
    let mut network = path(&settings("newreno"), 30 * 960, &[5, 22]);
    let mut table = Table::default();
    network.run_until(Time::from_secs(5), &mut table);
    let text: String = table
        .text
        .lines()
        .map(|l| format!("{}\n", l.trim_end()))
        .collect();
    let golden = include_str!("golden/fast_retransmit.txt");
    let expected: String = golden
        .lines()
        .filter(|l| !l.starts_with('#'))
        .map(|l| format!("{l}\n"))
        .collect();
    assert_eq!(text, expected, "what happened:\n{text}");
    assert!(network.connections[0].sender.is_idle());
}

#[test]
fn a_lost_tail_is_found_by_a_probe_and_not_by_the_timer() {
    let mut network = path(&settings("newreno"), 8 * 960, &[8]);
    network.run_until(Time::from_secs(2), &mut Blind);
    let sender = &network.connections[0].sender;
    assert!(sender.is_idle());
    assert_eq!(
        (sender.stats().timeouts, sender.stats().tail_probes),
        (0, 1)
    );
    // Without probes it takes the time-out.
    let without = Settings {
        tail_loss_probe: false,
        ..settings("newreno")
    };
    let mut network = path(&without, 8 * 960, &[8]);
    network.run_until(Time::from_secs(2), &mut Blind);
    let stats = network.connections[0].sender.stats();
    assert_eq!((stats.timeouts, stats.tail_probes), (1, 0));
}

#[test]
fn without_a_handshake_data_arrives_after_one_way() {
    for (handshake, received) in [(true, 0), (false, 960)] {
        let settings = Settings {
            handshake,
            ..settings("newreno")
        };
        let mut network = path(&settings, 960, &[]);
        network.run_until(Time::from_millis(52), &mut Blind);
        assert_eq!(network.connections[0].receiver.received(), received);
    }
}

#[test]
fn by_count_a_loss_shows_when_the_third_segment_after_it_has_arrived() {
    let settings = Settings {
        handshake: false,
        rack: false,
        ..settings("newreno")
    };
    for (segments, timeouts) in [(3, 1), (4, 0)] {
        let mut network = path(&settings, segments * 960, &[0]);
        network.run_until(Time::from_secs(5), &mut Blind);
        let c = &network.connections[0];
        assert_eq!(c.receiver.received(), segments * 960);
        assert_eq!((c.sender.stats().timeouts, c.lost), (timeouts, 1));
    }
}

#[test]
fn halving_the_rate_leaves_a_smaller_window_after_many_losses_than_reducing_in_proportion() {
    let dropped: Vec<u64> = (40..60).collect();
    let after = |rate_halving| {
        let settings = Settings {
            rate_halving,
            ..settings("newreno")
        };
        let mut network = path(&settings, u64::MAX, &dropped);
        let mut seen = false;
        for ms in (0..5_000).step_by(5) {
            network.run_until(Time::from_millis(ms), &mut Blind);
            let sender = &network.connections[0].sender;
            seen |= sender.stats().recoveries == 1;
            let all_sent_again = sender.stats().retransmits >= 20;
            if seen && all_sent_again && sender.acknowledged() > 70 * 960 {
                let state = sender.controller();
                return state.cwnd.get() as f64 / state.ssthresh.unwrap().get() as f64;
            }
        }
        panic!("there was no recovery");
    };
    assert!(after(None) >= 1.0, "{}", after(None));
    assert!(after(Some(0.5)) < 0.9, "{}", after(Some(0.5)));
}

#[test]
fn a_lost_syn_is_sent_again_after_a_second() {
    let mut network = path(&settings("newreno"), 960, &[0]);
    network.run_until(Time::from_millis(1150), &mut Blind);
    assert_eq!(network.connections[0].receiver.received(), 0);
    network.run_until(Time::from_millis(1155), &mut Blind);
    assert_eq!(network.connections[0].receiver.received(), 960);
}

#[test]
fn the_receive_window_bounds_the_rate() {
    let limited = Settings {
        receive_window: Bytes::new(20 * 960),
        ..settings("cubic")
    };
    let mut network = path(&limited, u64::MAX, &[]);
    network.run_until(Time::from_secs(20), &mut Blind);
    // 20 segments in a round trip of 101.04 ms, 19.9 s long.
    let got = network.connections[0].receiver.received() as f64;
    assert!(
        (got / (20.0 * 960.0 * 19.9 / 0.10104) - 1.0).abs() < 0.01,
        "{got}"
    );
}

#[test]
fn delayed_acknowledgements_wait_for_segments() {
    let acks = |delayed_ack, ack_every| {
        let s = Settings {
            delayed_ack,
            ack_every,
            quick_acks: 0,
            window_growth: false,
            ..settings("cubic")
        };
        let mut network = path(&s, 2000 * 960, &[]);
        network.run_until(Time::from_secs(10), &mut Blind);
        assert!(network.connections[0].sender.is_idle());
        network.link_stats(1).delivered.packets
    };
    assert_eq!(acks(false, 8), 2001);
    for every in [2, 4, 8] {
        let least = 2000 / u64::from(every);
        let is = acks(true, every);
        assert!((least..least + 40).contains(&is), "{is} of {every} each");
    }
}

#[test]
fn marks_reduce_the_window_without_a_retransmission() {
    let streams = Streams::new(1);
    let mut network = Network::default();
    let ecn = Settings {
        ecn: true,
        ..settings("cubic")
    };
    let there = network.add_link(
        &line(8_000_000, Duration::from_millis(50), "codel:ecn=true"),
        &streams,
        "there",
    );
    let back = network.add_link(
        &line(1_000_000_000, Duration::from_millis(50), "fifo"),
        &streams,
        "back",
    );
    let bytes = u64::MAX;
    network.connect(&ecn, &[there], &[back], Time::ZERO, bytes, &streams);
    network.run_until(Time::from_secs(30), &mut Blind);
    let stats = network.connections[0].sender.stats();
    assert!(
        stats.ecn_reductions > 3 && stats.retransmits == 0,
        "{stats:?}"
    );
    assert!(network.link_stats(there).marked.packets >= stats.ecn_reductions);
}

#[test]
fn every_controller_delivers_every_byte_whatever_the_line_does() {
    for spec in CONTROLLERS {
        for sack in [true, false] {
            for seed in 0..6u64 {
                let streams = Streams::new(seed);
                let mut network = Network::default();
                let mut there = line(5_000_000, Duration::from_millis(10), "fifo:packets=20");
                there.loss = Some("random:probability=0.02".parse().unwrap());
                if seed % 2 == 1 {
                    there.reorder = Some("late:probability=0.02,delay=4ms".parse().unwrap());
                    there.duplicate = 0.01;
                }
                let mut home = line(5_000_000, Duration::from_millis(10), "fifo:packets=50");
                home.loss = Some("random:probability=0.01".parse().unwrap());
                let (there, back) = (
                    network.add_link(&there, &streams, "there"),
                    network.add_link(&home, &streams, "back"),
                );
                let s = Settings {
                    sack,
                    delayed_ack: seed % 3 == 0,
                    pacing: seed % 3 == 1,
                    burst: 1 + seed % 4,
                    ..settings(spec.entry.name)
                };
                let bytes = 500_000;
                network.connect(&s, &[there], &[back], Time::ZERO, bytes, &streams);
                // Without a controller and SACK, time-outs double up to two minutes.
                network.run_until(Time::from_secs(3600), &mut Blind);
                let c = &network.connections[0];
                assert_eq!(
                    (
                        c.receiver.received(),
                        c.sender.acknowledged(),
                        c.sender.is_idle(),
                        network.under_way()
                    ),
                    (bytes, bytes, true, 0),
                    "{}, sack {sack}, seed {seed}: {:?}",
                    spec.entry.name,
                    c.sender.stats()
                );
                assert_eq!(c.sender.inflight(), 0);
            }
        }
    }
}

#[test]
fn controllers_that_stand_on_marks_send_ect_without_being_told() {
    for (controller, negotiated, expected) in [
        ("cubic", false, Ecn::NotEct),
        ("cubic", true, Ecn::Ect0),
        ("dctcp", false, Ecn::Ect0),
        ("prague", false, Ecn::Ect1),
    ] {
        let settings = Settings {
            ecn: negotiated,
            ..settings(controller)
        };
        let sender = Sender::new(Arc::new(settings), &Streams::new(1), "flow");
        assert_eq!(sender.ecn(), expected, "{controller}, {negotiated}");
    }
}
