use super::*;
use crate::testing::{Line, ack, loss, rto};
use base::rng::Streams;

const RTT: Duration = Duration::from_millis(50);

fn bbr() -> Bbr3 {
    let setup = Setup::new(Bytes::new(1000));
    let rng = Streams::new(1).stream("test");
    Bbr3::new(&Params::default(), &setup, Time::ZERO, rng)
}
/// Makes a link of 10 Mbit/s and 50 ms, which holds 62.5 segments.
fn line() -> Line {
    Line::new(BitsPerSec::from_mbps(10), RTT)
}

#[test]
fn over_a_plain_line_it_finds_rate_and_round_trip_and_keeps_the_queue_short() {
    let (mut c, mut line) = (bbr(), line());
    line.run(&mut c, Time::from_secs(5));
    assert!(c.mode.is_probe_bw(), "{:?}", c.mode);
    assert!((c.bw * 8.0 / 1e7 - 1.0).abs() < 0.02, "{}", c.bw * 8.0);
    assert!(
        c.min_rtt.unwrap() < Duration::from_millis(54),
        "{:?}",
        c.min_rtt
    );
    assert!(line.utilisation() > 0.9, "{}", line.utilisation());
    assert!(
        line.mean_queue() < Duration::from_millis(30),
        "{}",
        line.mean_queue()
    );
}

#[test]
fn startup_ends_when_three_round_trips_bring_no_quarter_more() {
    let (mut c, mut line) = (bbr(), line());
    let mut phases = vec!["startup"];
    while phases.len() < 6 {
        let until = line.now + Duration::from_millis(1);
        line.run(&mut c, until);
        let phase = c.state().phase;
        if phases.last() != Some(&phase) {
            phases.push(phase);
        }
        assert!(line.now < Time::from_secs(5), "{phases:?}");
    }
    // Inflight is low when Drain ends, so Down lasts for one ACK the first time.
    let order = [
        "startup",
        "drain",
        "probe-bw-cruise",
        "probe-bw-refill",
        "probe-bw-up",
        "probe-bw-down",
    ];
    assert_eq!(phases, order);
}

#[test]
fn probes_come_as_often_as_a_reno_flow_would_lose_or_every_two_to_three_seconds() {
    let (mut c, mut line) = (bbr(), line());
    line.run(&mut c, Time::from_secs(2));
    let mut probes = Vec::new();
    let mut last = c.mode;
    while line.now < Time::from_secs(9) {
        let until = line.now + Duration::from_millis(1);
        line.run(&mut c, until);
        if c.mode == Mode::Refill && last != Mode::Refill {
            probes.push(line.now);
        }
        last = c.mode;
    }
    assert!((2..=4).contains(&probes.len()), "{probes:?}");
    for pair in probes.windows(2) {
        let gap = pair[1] - pair[0];
        assert!(
            gap > Duration::from_secs(2) && gap < Duration::from_millis(3_400),
            "{gap}"
        );
    }
}

#[test]
fn every_ten_seconds_it_halves_what_is_in_flight() {
    let (mut c, mut line) = (bbr(), line());
    let mut least = u64::MAX;
    while line.now < Time::from_secs(12) {
        let until = line.now + Duration::from_millis(1);
        line.run(&mut c, until);
        if c.mode == Mode::ProbeRtt {
            least = least.min(c.cwnd().get());
        }
    }
    // Half of 62.5 segments of 1000 bytes; the smallest RTT includes a segment's own transmission time, too.
    assert!((30_000..34_000).contains(&least), "{least}");
}

#[test]
fn a_short_buffer_bounds_it_in_the_long_term() {
    let (mut c, mut line) = (bbr(), line());
    line.buffer = Some(10);
    line.run(&mut c, Time::from_secs(20));
    let longterm = c.bounds.inflight_longterm;
    assert!((40_000.0..90_000.0).contains(&longterm), "{longterm}");
    assert!(line.utilisation() > 0.8, "{}", line.utilisation());
    let sent = 20 * 10_000_000 / 8_000;
    assert!(line.drops < sent / 50, "{} drops of {sent}", line.drops);
}

#[test]
fn losses_while_cruising_bound_it_for_now_by_seven_tenths() {
    let (mut c, mut line) = (bbr(), line());
    line.run(&mut c, Time::from_secs(5));
    c.mode = Mode::Cruise;
    c.cycle_stamp = line.now;
    c.rounds_since_probe = 0;
    let (bw, cwnd) = (c.bw, c.cwnd);
    let lost = Lost {
        bytes: Bytes::new(1000),
        delivered: c.next_round,
        ..Lost::default()
    };
    c.on_lost(line.now, &lost);
    assert_eq!(
        c.bounds.bw_shortterm,
        f64::INFINITY,
        "only at the end of the round trip"
    );
    c.bw_latest = 0.0;
    c.inflight_latest = 0.0;
    let end = Ack {
        delivered: c.next_round + Bytes::new(1000),
        prior_delivered: c.next_round,
        rate: None,
        ..ack(&c, 1000)
    };
    c.on_ack(line.now, &end);
    assert_eq!(c.bounds.bw_shortterm, 0.7 * bw);
    assert_eq!(c.bounds.inflight_shortterm, 0.7 * cwnd);
    assert_eq!(c.bw, 0.7 * bw);
    // The loss was spurious.
    c.on_congestion(line.now, &Congestion::Spurious);
    assert_eq!(c.bounds.bw_shortterm, f64::INFINITY);
}

#[test]
fn the_window_at_which_losses_crossed_two_percent_becomes_the_bound() {
    let (mut c, mut line) = (bbr(), line());
    line.run(&mut c, Time::from_secs(5));
    c.mode = Mode::Up;
    c.is_bw_probe_sample = true;
    let lost = |lost_since_sent| Lost {
        bytes: Bytes::new(1000),
        tx_in_flight: Bytes::new(100_000),
        lost_since_sent: Bytes::new(lost_since_sent),
        delivered: c.next_round,
        app_limited: false,
    };
    let (safe, too_high) = (lost(2_000), lost(3_000));
    c.on_lost(line.now, &safe);
    assert_eq!(c.mode, Mode::Up, "2 % is no more than 2 %");
    c.on_lost(line.now, &too_high);
    // (0.02·99 000 - 2 000)/0.98 < 0: it was crossed before this segment.
    assert_eq!((c.mode, c.bounds.inflight_longterm), (Mode::Down, 99_000.0));
    assert!(c.prev_probe_too_high);
}

#[test]
fn a_time_out_leaves_one_segment_and_recovery_gives_the_window_back() {
    let (mut c, mut line) = (bbr(), line());
    line.run(&mut c, Time::from_secs(5));
    let before = c.cwnd();
    c.on_congestion(line.now, &loss(before.get()));
    c.cwnd = 20_000.0;
    let end = Ack {
        in_recovery: false,
        ..ack(&c, 1000)
    };
    c.on_ack(line.now, &end);
    assert!(c.cwnd().get() + 20_000 > before.get());
    c.on_congestion(line.now, &rto(10_000));
    assert_eq!(c.cwnd(), Bytes::new(1000));
}

/// Makes a controller that has found 1 MB/s and 50 ms and is in `mode`.
fn settled(mode: Mode) -> Bbr3 {
    let mut c = bbr();
    c.max_bw = [1e6, 1e6];
    c.bw = 1e6;
    c.min_rtt = Some(RTT);
    c.full_bw_reached = true;
    c.cwnd = 100_000.0;
    c.mode = mode;
    c
}

#[test]
fn the_pipe_is_full_at_the_third_round_trip_without_a_quarter_more() {
    let mut c = bbr();
    c.round_start = true;
    let rate = |rate| Sample {
        rate,
        ..Sample::default()
    };
    c.check_full_bw(&rate(100.0));
    c.check_full_bw(&rate(125.0));
    assert_eq!((c.full_bw, c.full_bw_count), (125.0, 0));
    for (count, reached) in [(1, false), (2, false), (3, true)] {
        c.check_full_bw(&rate(156.0));
        assert_eq!((c.full_bw_count, c.full_bw_reached), (count, reached));
    }
}

#[test]
fn six_acks_with_losses_of_more_than_two_percent_end_startup() {
    let after = |earlier: u32, lost: f64| {
        let mut c = bbr();
        c.losses_in_round = earlier;
        c.loss_round_start = true;
        c.inflight_latest = 70_000.0;
        c.min_rtt = Some(RTT);
        c.max_bw[1] = 1e6;
        let ack = Ack {
            newly_lost: Bytes::new(1000),
            in_recovery: true,
            ..Ack::default()
        };
        let s = Sample {
            tx_in_flight: 100_000.0,
            lost,
            ..Sample::default()
        };
        c.check_startup(&ack, &s);
        (c.mode, c.bounds.inflight_longterm)
    };
    // 1 MB/s in 50 ms are 50 kB; 70 kB were delivered in the round trip.
    assert_eq!(after(5, 3_000.0), (Mode::Drain, 70_000.0));
    assert_eq!(after(4, 3_000.0).0, Mode::Startup);
    assert_eq!(after(5, 2_000.0).0, Mode::Startup);
}

#[test]
fn the_most_delivered_is_forgotten_after_two_cycles() {
    let mut c = settled(Mode::Down);
    c.max_bw = [1e6, 5e5];
    c.ack_phase = AckPhase::ProbeStopping;
    c.round_start = true;
    let s = Sample {
        rate: 5e5,
        ..Sample::default()
    };
    c.adapt_long_term(&Ack::default(), &s);
    assert_eq!(c.max_bw(), 5e5);
    // Nothing was measured in this cycle: the old value stays.
    c.ack_phase = AckPhase::ProbeStopping;
    c.adapt_long_term(&Ack::default(), &s);
    assert_eq!(c.max_bw(), 5e5);
}

#[test]
fn after_a_probe_that_went_too_high_the_next_is_cautious_and_then_repeated() {
    let mut c = settled(Mode::Up);
    c.bounds.inflight_longterm = 80_000.0;
    c.prev_probe_too_high = true;
    c.ack_phase = AckPhase::ProbeFeedback;
    let ack = |inflight| Ack {
        inflight: Bytes::new(inflight),
        ..Ack::default()
    };
    let s = Sample {
        tx_in_flight: 70_000.0,
        ..Sample::default()
    };
    c.update_cycle(Time::from_secs(1), &ack(79_000), &s);
    assert_eq!(c.mode, Mode::Up);
    c.update_cycle(Time::from_secs(1), &ack(80_000), &s);
    assert_eq!((c.mode, c.prev_probe_precautionary), (Mode::Down, true));
    // A round trip without too many losses: probe again at once.
    c.round_start = true;
    c.update_cycle(Time::from_secs(1), &ack(80_000), &s);
    assert_eq!(c.mode, Mode::Refill);
}

#[test]
fn the_long_term_bound_grows_by_one_two_four_segments_a_round_trip() {
    let mut c = settled(Mode::Up);
    c.bounds.inflight_longterm = 100_000.0;
    c.raise_slope();
    let mut grown = Vec::new();
    for _ in 0..4 {
        let before = c.bounds.inflight_longterm;
        c.cwnd = before;
        // A window of ACKs; the first starts the round trip.
        let segments = (before / 1000.0) as u64;
        for i in 0..segments {
            c.round_start = i == segments - 1;
            let ack = Ack {
                newly_acked: Bytes::new(1000),
                cwnd_limited: true,
                ..Ack::default()
            };
            c.cwnd = c.bounds.inflight_longterm;
            c.probe_upward(&ack);
        }
        grown.push((c.bounds.inflight_longterm - before) / 1000.0);
    }
    assert_eq!(grown[0], 1.0);
    for (i, segments) in grown.iter().enumerate() {
        let by_law = f64::from(1u32 << i);
        assert!((segments - by_law).abs() <= 1.0, "{grown:?}");
    }
}

#[test]
fn it_paces_a_hundredth_below_the_estimate() {
    let mut c = settled(Mode::Up);
    c.set_pacing_rate(1.25);
    assert_eq!(c.pacing_rate(), Some(BitsPerSec::new(9_900_000)));
}

#[test]
fn what_comes_bunched_is_allowed_on_top_of_the_path() {
    let mut c = settled(Mode::Cruise);
    c.extra_start = Time::from_secs(1);
    let ack = Ack {
        newly_acked: Bytes::new(30_000),
        ..Ack::default()
    };
    // 10 ms at 1 MB/s would be 10 kB; the amount counted before, zero, was less: it starts anew.
    c.update_aggregation(Time::from_millis(1_010), &ack);
    assert_eq!(c.extra_acked.get(), 30_000.0);
    c.set_cwnd(&ack);
    // Twice 50 kB, and 30.
    assert_eq!(c.cwnd, 130_000.0);
}

#[test]
fn it_cruises_with_fifteen_percent_of_the_long_term_bound_left_to_others() {
    let mut c = settled(Mode::Cruise);
    c.bounds.inflight_longterm = 80_000.0;
    c.set_cwnd(&Ack::default());
    assert_eq!(c.cwnd, 68_000.0);
    // At least a segment.
    c.bounds.inflight_longterm = 5_000.0;
    assert_eq!(c.inflight_with_headroom(), 4_000.0);
}

#[test]
fn small_windows_probe_after_as_many_round_trips_as_segments_and_at_most_sixty_three() {
    let mut c = settled(Mode::Cruise);
    c.cycle_stamp = Time::from_secs(1);
    c.probe_wait = Duration::from_secs(2);
    // 1 MB/s in 50 ms: 50 segments.
    c.rounds_since_probe = 49;
    assert!(!c.is_time_to_probe(Time::from_secs(3)));
    assert!(c.is_time_to_probe(Time::from_millis(3_001)));
    c.rounds_since_probe = 50;
    assert!(c.is_time_to_probe(Time::from_secs(3)));
    c.bw = 1e7;
    c.cwnd = 1e6;
    assert!(!c.is_time_to_probe(Time::from_secs(3)));
    c.rounds_since_probe = 63;
    assert!(c.is_time_to_probe(Time::from_secs(3)));
}

#[test]
fn draining_ends_after_three_round_trips_at_the_latest() {
    let mut c = settled(Mode::Drain);
    c.drain_start_round = 10;
    let ack = Ack {
        inflight: Bytes::new(90_000),
        ..Ack::default()
    };
    c.round_count = 13;
    c.check_drain(Time::ZERO, &ack);
    assert_eq!(c.mode, Mode::Drain);
    c.round_count = 14;
    c.check_drain(Time::ZERO, &ack);
    assert_eq!(c.mode, Mode::Down);
}

#[test]
fn a_probe_that_the_long_term_bound_holds_back_does_not_count_as_a_full_pipe() {
    let mut c = settled(Mode::Up);
    c.bounds.inflight_longterm = 100_000.0;
    (c.full_bw, c.full_bw_count) = (9e5, 2);
    let ack = Ack {
        cwnd_limited: true,
        ..Ack::default()
    };
    let s = Sample {
        rate: 1e6,
        ..Sample::default()
    };
    assert!(!c.is_time_to_go_down(&ack, &s));
    assert_eq!((c.full_bw, c.full_bw_count), (1e6, 0));
}
