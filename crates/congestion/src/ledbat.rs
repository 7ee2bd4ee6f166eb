//! LEDBAT: background transport. It aims at a fixed additional delay and backs off when other traffic makes the queue
//! longer.
//!
//! **Source**: RFC 6817, "Low Extra Delay Background Transport (LEDBAT)" (Shalunov, Hazel, Iyengar,
//! Kuehlewind, 2012), section 2.4.
//!
//! **Deviations**: if the endpoint has no one-way delays, RTTs take their place; queues in the return direction then
//! count, too.
//!
//! **Units**: ns for delays; the window in bytes.
//!
//! **Validated against**: the tests below, by hand from section 2.4.2.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use crate::window::Window;
use base::spec::params;
use base::{Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "ledbat": "background: gives way to anybody else, by one-way delay", [
        "RFC 6817, Low Extra Delay Background Transport (LEDBAT)",
    ] {
        /// target queueing delay
        target: Duration = "100 ms" ["1 us".."1000 s"], "RFC 6817 section 2.5";
        /// segments per RTT added while the queue is empty
        gain: f64 = "1" ["0.001".."1"], "RFC 6817 section 2.5";
        /// segments allowed beyond those in flight
        allowed_increase: u64 = "1" ["1".."1000000"], "RFC 6817 section 2.5";
        /// smallest window in segments
        min_window: u64 = "2" ["1".."1000000"], "RFC 6817 section 2.5";
    }
}

/// Minutes of base delays kept. Section 2.5: 10.
const BASE_HISTORY: usize = 10;
const MINUTE: Duration = Duration::from_secs(60);
/// Samples whose minimum is the current delay. Section 2.5: at least 4.
const CURRENT_FILTER: usize = 4;

/// LEDBAT: a background transfer that yields to other traffic, by one-way delay.
#[derive(Clone, Copy, Debug)]
pub struct Ledbat {
    params: Params,
    window: Window,
    /// Smallest delay of each of the last minutes, newest first.
    base: [Option<Duration>; BASE_HISTORY],
    minute_began: Time,
    current: [Option<Duration>; CURRENT_FILTER],
    next: usize,
}

impl Ledbat {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Ledbat {
        let mut window = Window::new(setup);
        window.set(0.0, params.min_window as f64);
        window.initial = window.cwnd;
        Ledbat {
            params: *params,
            window,
            base: [None; BASE_HISTORY],
            minute_began: Time::ZERO,
            current: [None; CURRENT_FILTER],
            next: 0,
        }
    }

    fn least(&self) -> f64 {
        self.params.min_window as f64
    }

    fn sample(&mut self, now: Time, delay: Duration) {
        self.current[self.next % CURRENT_FILTER] = Some(delay);
        self.next = (self.next + 1) % CURRENT_FILTER;
        if now.saturating_since(self.minute_began) >= MINUTE {
            self.base.rotate_right(1);
            self.base[0] = None;
            self.minute_began = now;
        }
        self.base[0] = Some(self.base[0].map_or(delay, |b| b.min(delay)));
    }

    /// Returns the queueing delay (section 2.4.2).
    fn queueing_delay(&self) -> Option<Duration> {
        let least = |delays: &[Option<Duration>]| delays.iter().flatten().min().copied();
        Some(least(&self.current)?.saturating_sub(least(&self.base)?))
    }
}

impl Controller for Ledbat {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        if let Some(delay) = ack.one_way_delay.or(ack.rtt) {
            self.sample(now, delay);
        }
        let (Some(queueing), false) = (self.queueing_delay(), ack.in_recovery) else {
            return;
        };
        let target_s = self.params.target.as_secs_f64();
        let off_target = (target_s - queueing.as_secs_f64()) / target_s;
        let acked = ack.newly_acked.get() as f64;
        let window = &mut self.window;
        let change = self.params.gain * off_target * acked * window.mss / window.cwnd;
        // Section 2.4.2: limited to the data in flight plus a small allowance.
        let allowed =
            ack.inflight_before.get() as f64 + self.params.allowed_increase as f64 * window.mss;
        let wanted = (window.cwnd + change).min(allowed);
        let least = self.params.min_window as f64;
        window.set(wanted, least);
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        let least = self.least();
        let window = &mut self.window;
        match *congestion {
            // Section 2.4.2: half, at most once per RTT.
            Congestion::Loss { .. } | Congestion::Ecn { .. } => {
                window.remember();
                let half = (window.cwnd / 2.0).max(least * window.mss);
                window.set(half.min(window.cwnd), 1.0);
            }
            Congestion::Rto { .. } => {
                window.remember();
                window.collapse(None);
            }
            Congestion::Spurious => {
                window.undo();
            }
        }
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn state(&self) -> ControllerState {
        let queueing = self.queueing_delay();
        let base = self.base.iter().flatten().min();
        ControllerState {
            ssthresh: None,
            variables: [
                queueing.map(|d| ("queueing_ns", d.as_nanos() as f64)),
                base.map(|d| ("base_ns", d.as_nanos() as f64)),
                None,
            ],
            ..self.window.state("ledbat")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Flow, loss};

    const MSS: u64 = 1000;

    fn ledbat() -> (Ledbat, Flow) {
        let c = Ledbat::new(&Params::default(), &Setup::new(Bytes::new(MSS)));
        (c, Flow::new(Duration::from_millis(50)))
    }
    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn an_empty_queue_adds_a_segment_a_round_trip() {
        let (mut c, mut flow) = ledbat();
        assert_eq!(c.cwnd(), Bytes::new(2 * MSS));
        (0..50).for_each(|_| flow.round(&mut c, MSS, ms(50)));
        let segments = c.cwnd().get() / MSS;
        assert!((48..=52).contains(&segments), "{segments}");
    }

    #[test]
    fn it_settles_at_the_target_delay() {
        let (mut c, mut flow) = ledbat();
        // A path that holds 40 segments in 50 ms. One-way delays are half the RTT in this test, so 100 ms of queue add
        // 200 ms to the RTT: 250 ms in all, 200 segments, approached by 1/160 per RTT.
        for _ in 0..1200 {
            let rtt = ms(50).max(Duration::from_nanos(
                c.cwnd().get() * 50_000_000 / (40 * MSS),
            ));
            flow.round(&mut c, MSS, rtt);
        }
        let segments = c.cwnd().get() as f64 / MSS as f64;
        assert!((segments - 200.0).abs() < 1.0, "{segments}");
    }

    #[test]
    fn a_queue_of_others_makes_it_give_way() {
        let (mut c, mut flow) = ledbat();
        (0..50).for_each(|_| flow.round(&mut c, MSS, ms(50)));
        let before = c.cwnd();
        (0..10).for_each(|_| flow.round(&mut c, MSS, ms(450)));
        assert!(c.cwnd() < before);
        (0..200).for_each(|_| flow.round(&mut c, MSS, ms(450)));
        assert_eq!(c.cwnd(), Bytes::new(2 * MSS));
    }

    #[test]
    fn the_base_delay_is_forgotten_after_ten_minutes() {
        let (mut c, mut flow) = ledbat();
        flow.round(&mut c, MSS, ms(50));
        let base = |c: &Ledbat| c.state().variables[1].unwrap().1;
        assert_eq!(base(&c), 25e6);
        for minute in 1..=10 {
            flow.now = Time::from_secs(61 * minute);
            flow.round(&mut c, MSS, ms(80));
            let expected = if minute < 10 { 25e6 } else { 40e6 };
            assert_eq!(base(&c), expected, "minute {minute}");
        }
    }

    #[test]
    fn a_loss_halves_and_leaves_two_segments() {
        let (mut c, mut flow) = ledbat();
        (0..10).for_each(|_| flow.round(&mut c, MSS, ms(50)));
        let before = c.cwnd().get();
        c.on_congestion(Time::ZERO, &loss(before));
        assert_eq!(c.cwnd().get(), (before as f64 / 2.0).round() as u64);
        (0..9).for_each(|_| c.on_congestion(Time::ZERO, &loss(MSS)));
        assert_eq!(c.cwnd(), Bytes::new(2 * MSS));
    }

    #[test]
    fn the_window_is_at_most_a_segment_more_than_what_is_in_flight() {
        let (mut c, mut flow) = ledbat();
        (0..50).for_each(|_| flow.round(&mut c, MSS, ms(50)));
        let mut ack = flow.ack(&c, MSS, ms(50));
        ack.inflight_before = Bytes::new(10 * MSS);
        c.on_ack(flow.now, &ack);
        assert_eq!(c.cwnd(), Bytes::new(11 * MSS));
    }

    #[test]
    fn the_least_delay_of_the_last_ten_minutes_counts_whichever_minute_it_was() {
        let (mut c, mut flow) = ledbat();
        // One sample per minute: 80 ms, but 60 ms in the third.
        for minute in 0..12 {
            flow.now = Time::from_secs(61 * minute + 1);
            let rtt = ms(if minute == 2 { 60 } else { 80 });
            flow.round(&mut c, MSS, rtt);
            let expected = if !(2..12).contains(&minute) {
                40e6
            } else {
                30e6
            };
            assert_eq!(
                c.state().variables[1].unwrap().1,
                expected,
                "minute {minute}"
            );
        }
    }
}
