//! CUBIC: after a reduction the window grows along a cubic curve of the elapsed time, steep at first, flat around the
//! window at which congestion occurred, then steep again; never slower than Reno.
//!
//! **Source**: RFC 9438, "CUBIC for Fast and Long-Distance Networks" (Xu, Ha, Rhee, Goel, Eggert, 2023),
//! section 4. Slow start ends as described in [`crate::hystart`] (section 4.10). `variant=linux`: differences in
//! net/ipv4/tcp_cubic.c of Linux 6, described at `Variant`.
//!
//! **Deviations**: a reduction starts from the flight or the window, whichever is smaller (section 4.6 takes the
//! flight), so that segments of limited transmit do not count. The cube root uses Newton's method, so that all machines
//! agree to the bit. Linux's milliseconds are not imitated.
//!
//! **Units**: segments and seconds in the equations, as printed; the window in bytes.
//!
//! **Validated against**: `reference/congestion_cubic.py`, written from section 4 with 60 decimal digits,
//! by the traces in `tests/golden/cubic/`; the average window of section 5.1 in `tests/theory.rs`; the
//! variant by the queues of the Linux kernel in docs/book/sim-vs-linux.md.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use crate::hystart::{Hystart, Mode};
use crate::math::cube_root;
use crate::window::Window;
use base::spec::{choices, params};
use base::{Bytes, Duration, Time};

choices! {
/// Implementation of CUBIC.
pub enum Variant {
    Rfc9438 = "rfc9438",
    /// Reno-friendly window that continues to grow by 3(1−β)/(1+β); section 4.3 sets this to 1 once the old window is
    /// restored. The curve is evaluated one smallest RTT ahead, not one smoothed RTT (section 4.2), so that the window
    /// lags behind it in a deep queue. Everything is counted in whole segments: below its origin the curve is rounded up,
    /// above it down, and the window follows by whole segments too.
    Linux = "linux",
}
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "cubic": "grows along a cubic curve of the time since the last congestion; the Internet's default", [
        "RFC 9438, CUBIC for Fast and Long-Distance Networks",
        "RFC 9406, HyStart++: Modified Slow Start for TCP",
    ] {
        /// linux: never as fast as Reno again, and the curve is evaluated one smallest RTT ahead
        variant: Variant = "rfc9438", "RFC 9438 sections 4.2 and 4.3; Linux";
        /// steepness of the curve, segments/s³
        c: f64 = "0.4" ["0.001".."100"], "RFC 9438 section 5.1";
        /// fraction of the window kept on congestion
        beta: f64 as Probability = "0.7" ["0.01".."0.99"], "RFC 9438 section 4.6";
        /// reduce further if congestion comes at a smaller window than before
        fast_convergence: bool = "true", "RFC 9438 section 4.7";
        /// never grow slower than Reno
        reno_friendly: bool = "true", "RFC 9438 section 4.3";
        /// rule that ends slow start before a loss: plusplus (RFC 9406), classic (Linux), off
        hystart: Mode = "plusplus", "RFC 9438 section 4.10";
        /// most segments that an ACK may add in slow start
        abc: u64 = "8" ["1".."1000000"], "RFC 9406 section 4.3";
    }
}

/// Stage of congestion avoidance.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Epoch {
    /// Start (t_epoch), shifted by the time that was application-limited.
    start: Time,
    /// Time at which the curve is at its origin.
    k_s: f64,
    /// Window at the curve's origin.
    w_max: f64,
    /// Window that Reno would have.
    w_est: f64,
}

/// CUBIC: a window along a cubic curve of the time since the last congestion.
#[derive(Clone, Copy, Debug)]
pub struct Cubic {
    params: Params,
    window: Window,
    hystart: Hystart,
    /// W_max in segments, set by the last congestion event; none before the first and after a time-out.
    w_max: Option<f64>,
    /// Window in segments at the last congestion event.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    last_ack: Time,
    /// State that a spurious congestion event restores besides the window.
    undo: Option<(Option<f64>, f64, Option<Epoch>)>,
    counted: Counted,
}

/// Counters of Linux's variant, in segments.
#[derive(Clone, Copy, Debug, Default)]
struct Counted {
    /// Acknowledged since the window last grew.
    credit: f64,
    /// Acknowledged since Reno's window last grew.
    reno: f64,
    /// Acknowledged segments for which the window grows by one.
    each: f64,
    /// Time and window of the last evaluation of the curve.
    at: Time,
    window: f64,
}

/// Linux: while the window stays, the curve is evaluated no more often than this.
const EVALUATION: Duration = Duration::from_nanos(31_250_000);

impl Cubic {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Cubic {
        Cubic {
            params: *params,
            window: Window::new(setup).whole(params.variant == Variant::Linux),
            hystart: Hystart::new(params.hystart),
            w_max: None,
            cwnd_prior: 0.0,
            epoch: None,
            last_ack: Time::ZERO,
            undo: None,
            counted: Counted::default(),
        }
    }

    /// Grows the window as `bictcp_update` and `tcp_cong_avoid_ai` of Linux do.
    fn avoid_by_count(&mut self, now: Time, ack: &Ack, acked: f64) {
        let cwnd = self.window.cwnd_segments().floor();
        let segments = acked / self.window.mss;
        let stale = now.saturating_since(self.counted.at) > EVALUATION;
        self.counted.reno += segments;
        if stale || self.counted.window != cwnd || self.epoch.is_none() {
            (self.counted.at, self.counted.window) = (now, cwnd);
            self.counted.each = self.segments_for_one(now, ack, cwnd, segments);
        }
        let (credit, each) = (&mut self.counted.credit, self.counted.each);
        let mut grown = 0.0;
        if *credit >= each {
            (*credit, grown) = (0.0, 1.0);
        }
        *credit += segments;
        let more = (*credit / each).floor();
        *credit -= more * each;
        self.window
            .set((cwnd + grown + more) * self.window.mss, 1.0);
    }

    /// Segments to be acknowledged for the window to grow by one.
    fn segments_for_one(&mut self, now: Time, ack: &Ack, cwnd: f64, acked: f64) -> f64 {
        let (c, beta) = (self.params.c, self.params.beta);
        let w_max = self.w_max;
        let epoch = match &mut self.epoch {
            Some(epoch) => epoch,
            none => {
                self.counted.reno = acked;
                let beyond = w_max.filter(|w| *w > cwnd);
                none.insert(Epoch {
                    start: now,
                    k_s: beyond.map_or(0.0, |w| cube_root((w - cwnd) / c)),
                    w_max: beyond.unwrap_or(cwnd),
                    w_est: cwnd,
                })
            }
        };
        let ahead = ack.min_rtt.or(ack.rtt).unwrap_or(Duration::ZERO);
        let elapsed = now.saturating_since(epoch.start).as_secs_f64();
        let d = elapsed + ahead.as_secs_f64() - epoch.k_s;
        let target = epoch.w_max + (c * d * d * d).trunc();
        let mut each = match target > cwnd {
            true => (cwnd / (target - cwnd)).floor(),
            false => 100.0 * cwnd,
        };
        if w_max.is_none() {
            each = each.min(20.0);
        }
        if self.params.reno_friendly {
            let one = (cwnd * (1.0 + beta) / (3.0 * (1.0 - beta)))
                .floor()
                .max(1.0);
            let steps = (self.counted.reno / one).floor();
            self.counted.reno -= steps * one;
            epoch.w_est += steps;
            if epoch.w_est > cwnd {
                each = each.min((cwnd / (epoch.w_est - cwnd)).floor());
            }
        }
        each.max(2.0)
    }

    fn avoid(&mut self, now: Time, ack: &Ack, acked: f64) {
        let cwnd = self.window.cwnd_segments();
        let c = self.params.c;
        let epoch = match &mut self.epoch {
            Some(epoch) => epoch,
            none => {
                // Section 4.2. If no congestion event led here (4.8: time-out, 4.10: slow start ended by itself) or the
                // window is beyond W_max, the curve starts at its origin.
                let w_max = self.w_max.filter(|w| *w > cwnd);
                if self.w_max.is_none() {
                    self.cwnd_prior = cwnd;
                }
                none.insert(Epoch {
                    start: now,
                    k_s: w_max.map_or(0.0, |w| cube_root((w - cwnd) / c)),
                    w_max: w_max.unwrap_or(cwnd),
                    w_est: cwnd,
                })
            }
        };
        let t_s = now.saturating_since(epoch.start).as_secs_f64();
        let rtt_s = ack.srtt.or(ack.rtt).unwrap_or(Duration::ZERO).as_secs_f64();
        // Equation 1.
        let w_cubic = |t_s: f64| {
            let d = t_s - epoch.k_s;
            c * d * d * d + epoch.w_max
        };
        let segments_acked = acked / self.window.mss;
        // Equation 4. Section 4.3: once the Reno estimate has reached the old window, it grows as fast as Reno.
        let beta = self.params.beta;
        let alpha = if epoch.w_est < self.cwnd_prior {
            3.0 * (1.0 - beta) / (1.0 + beta)
        } else {
            1.0
        };
        epoch.w_est += alpha * segments_acked / cwnd;
        if self.params.reno_friendly && w_cubic(t_s) < epoch.w_est {
            // It may be below a window that the curve had reached: an ACK never reduces the window.
            self.window
                .set(epoch.w_est.max(cwnd) * self.window.mss, 1.0);
            return;
        }
        // Sections 4.2, 4.4 and 4.5.
        let target = w_cubic(t_s + rtt_s).clamp(cwnd, 1.5 * cwnd);
        let grown = (target - cwnd) / cwnd * segments_acked;
        self.window.set((cwnd + grown) * self.window.mss, 1.0);
    }

    /// Updates the state for a congestion event before the window falls (sections 4.6 and 4.7).
    fn meet_congestion(&mut self) {
        // Linux counts whole segments: of two windows that differ by less, neither came earlier.
        let cwnd = match self.params.variant {
            Variant::Linux => self.window.cwnd_segments().floor(),
            Variant::Rfc9438 => self.window.cwnd_segments(),
        };
        self.window.remember();
        self.undo = Some((self.w_max, self.cwnd_prior, self.epoch));
        self.cwnd_prior = cwnd;
        self.w_max = Some(match self.w_max {
            Some(w_max) if cwnd < w_max && self.params.fast_convergence => {
                cwnd * (1.0 + self.params.beta) / 2.0
            }
            _ => cwnd,
        });
        self.epoch = None;
        self.counted.credit = 0.0;
    }
}

impl Controller for Cubic {
    #[inline]
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if let Some(idle) = sent.idle {
            if idle.restart {
                self.window.restart();
                self.epoch = None;
            } else {
                // Section 4.2: t excludes the time in which the window did not change because there was nothing to
                // send.
                if let Some(epoch) = &mut self.epoch {
                    epoch.start = later(epoch.start, idle.lasted);
                }
                self.last_ack = later(self.last_ack, idle.lasted);
            }
        }
    }

    #[inline]
    fn on_ack(&mut self, now: Time, ack: &Ack) {
        let since_last = now.saturating_since(self.last_ack);
        self.last_ack = now.max(self.last_ack);
        if !self.window.may_grow(ack) {
            if let Some(epoch) = &mut self.epoch {
                epoch.start = later(epoch.start, since_last);
            }
            return;
        }
        let mut acked = ack.newly_acked.get() as f64;
        if self.window.in_slow_start() {
            let limit = self.params.abc as f64;
            acked = self.hystart.slow_start(now, ack, &mut self.window, limit);
            if self.window.in_slow_start() || acked <= 0.0 {
                return;
            }
        }
        match self.params.variant {
            Variant::Rfc9438 => self.avoid(now, ack, acked),
            Variant::Linux => self.avoid_by_count(now, ack, acked),
        }
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match *congestion {
            Congestion::Loss { flight } => {
                self.meet_congestion();
                let ssthresh = self.window.reference(flight) * self.params.beta;
                self.window.reduce(ssthresh, 2.0);
            }
            Congestion::Ecn { flight } => {
                self.meet_congestion();
                let ssthresh = self.window.reference(flight) * self.params.beta;
                // Section 4.6: a mark may leave one segment.
                self.window.reduce(ssthresh, 1.0);
            }
            Congestion::Rto { repeated: true, .. } => self.window.collapse(None),
            Congestion::Rto { flight, .. } => {
                self.meet_congestion();
                let ssthresh = self.window.reference(flight) * self.params.beta;
                self.window.collapse(Some(ssthresh));
                // Section 4.8: the next stage starts at its origin.
                self.w_max = None;
            }
            Congestion::Spurious => {
                let lower = self.window.cwnd;
                if self.window.undo()
                    && let Some((w_max, cwnd_prior, epoch)) = self.undo.take()
                    && lower < self.window.cwnd
                {
                    // Section 4.9.
                    (self.w_max, self.cwnd_prior, self.epoch) = (w_max, cwnd_prior, epoch);
                }
            }
        }
    }

    fn settle(&mut self, window: Bytes) {
        self.window.settle(window);
    }
    #[inline]
    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    #[inline]
    fn ssthresh(&self) -> Option<Bytes> {
        self.window.ssthresh_bytes()
    }
    fn state(&self) -> ControllerState {
        let phase = if self.window.in_slow_start() && self.hystart.in_css() {
            "conservative-slow-start"
        } else {
            self.window.phase()
        };
        ControllerState {
            variables: [
                self.w_max.map(|w| ("w_max_segments", w)),
                self.epoch.map(|e| ("k_s", e.k_s)),
                self.epoch.map(|e| ("w_est_segments", e.w_est)),
            ],
            ..self.window.state(phase)
        }
    }
}

/// Returns `t + d`, saturating at the largest time.
fn later(t: Time, d: Duration) -> Time {
    Time::from_nanos(t.as_nanos().saturating_add(d.as_nanos()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, flight, loss, rto};

    const MSS: u64 = 1000;

    fn cubic(segments: u64, params: Params) -> Cubic {
        Cubic::new(
            &params,
            &Setup::with_initial_segments(Bytes::new(MSS), segments),
        )
    }
    fn alone() -> Params {
        Params {
            reno_friendly: false,
            ..Params::default()
        }
    }
    fn variable(c: &Cubic, name: &str) -> Option<f64> {
        let found = c
            .state()
            .variables
            .into_iter()
            .flatten()
            .find(|v| v.0 == name);
        found.map(|v| v.1)
    }
    /// Sends a window of ACKs every 100 ms from `from` to `until`, spread over the RTT.
    fn run(c: &mut Cubic, from: Time, until: Time) {
        let mut now = from;
        while now < until {
            let acks = c.cwnd().get() / MSS;
            for _ in 0..acks {
                c.on_ack(now, &ack(c, MSS));
                now += Duration::from_nanos(100_000_000 / acks);
            }
        }
    }

    #[test]
    fn k_is_the_time_to_the_old_window() {
        // RFC 9438 equation 2: W_max = 1000, cwnd = 700: K = ∛(300/0.4) = ∛750 = 9.0856 s.
        let mut c = cubic(1000, alone());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(700 * MSS));
        c.on_ack(Time::ZERO, &ack(&c, MSS));
        let k_s = variable(&c, "k_s").unwrap();
        assert!((k_s - 9.085_603).abs() < 1e-6, "{k_s}");
    }

    #[test]
    fn the_window_follows_the_curve() {
        // W_cubic(t + RTT) = 0.4 (t + 0.1 - 9.0856)³ + 1000.
        let mut c = cubic(1000, alone());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        let mut from = Time::ZERO;
        for (t_s, by_hand) in [
            (2, 863.6),
            (5, 974.7),
            (9, 1000.0),
            (12, 1011.0),
            (15, 1087.0),
        ] {
            run(&mut c, from, Time::from_secs(t_s));
            from = Time::from_secs(t_s);
            let segments = c.cwnd().get() as f64 / MSS as f64;
            assert!(
                (segments / by_hand - 1.0).abs() < 0.001,
                "{t_s} s: {segments}, not {by_hand}"
            );
        }
    }

    #[test]
    fn growth_in_a_round_trip_is_at_most_half_the_window() {
        let mut c = cubic(10, alone());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c.on_ack(Time::ZERO, &ack(&c, MSS));
        let before = c.cwnd().get();
        // After an hour the curve is far above; 7 ACKs are one RTT.
        for _ in 0..7 {
            c.on_ack(Time::from_secs(3600), &ack(&c, MSS));
        }
        assert!(c.cwnd().get() <= before * 3 / 2 + 1);
        assert!(c.cwnd().get() > before * 7 / 5);
    }

    #[test]
    fn small_windows_grow_as_reno_does_with_alpha_nine_seventeenths() {
        // Section 4.3: α = 3·0.3/1.7 = 0.5294 while below the old window of 10, then 1.
        let mut c = cubic(10, Params::default());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c.on_ack(Time::ZERO, &ack(&c, 7 * MSS));
        let w_est = variable(&c, "w_est_segments").unwrap();
        assert!((w_est - (7.0 + 9.0 / 17.0)).abs() < 1e-12, "{w_est}");
        // Far below the curve's K of ∛(3/0.4) = 1.96 s the cubic term still wins at first.
        let mut now = Time::ZERO;
        for _ in 0..40 {
            let acks = c.cwnd().get() / MSS;
            (0..acks).for_each(|_| c.on_ack(now, &ack(&c, MSS)));
            now += Duration::from_millis(1);
        }
        // 6 rounds to 10 segments, then one segment a round.
        let segments = c.cwnd().get() as f64 / MSS as f64;
        assert!((segments - (10.0 + 34.0)).abs() < 2.0, "{segments}");
    }

    #[test]
    fn linux_never_grows_as_fast_as_reno_and_looks_only_the_least_round_trip_ahead() {
        let linux = Params {
            variant: Variant::Linux,
            ..Params::default()
        };
        let mut c = cubic(10, linux);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        for round in 0..40 {
            let acks = c.cwnd().get() / MSS;
            let now = Time::from_millis(round);
            (0..acks).for_each(|_| c.on_ack(now, &ack(&c, MSS)));
        }
        // 40 rounds of 9/17 segments, from 7; the RFC's is at 44 by then.
        let segments = c.cwnd().get() as f64 / MSS as f64;
        assert!(
            (segments - (7.0 + 40.0 * 9.0 / 17.0)).abs() < 2.0,
            "{segments}"
        );

        // At the curve's origin one ACK in 1000 moves the RFC's window by ((t − K + RTT)³·C + W − cwnd)/cwnd. Linux looks
        // 0.5 s ahead, where the curve has gained a twentieth of a segment: nothing in whole ones.
        let step = |params: Params, acks: u64| {
            let mut c = cubic(1000, params);
            let ack = Ack {
                srtt: Some(Duration::from_secs(2)),
                min_rtt: Some(Duration::from_millis(500)),
                ..ack(&c, MSS)
            };
            c.window.reduce(999.0 * MSS as f64, 1.0);
            c.window.set(1000.0 * MSS as f64, 1.0);
            (0..acks).for_each(|_| c.on_ack(Time::ZERO, &ack));
            c.window.cwnd_segments() - 1000.0
        };
        let alone_linux = Params {
            reno_friendly: false,
            ..linux
        };
        assert!((step(alone(), 1) - 0.4 * 8.0 / 1000.0).abs() < 1e-9);
        assert_eq!(step(alone_linux, 1), 0.0);
    }

    #[test]
    fn fast_convergence_gives_way_when_congestion_comes_earlier() {
        let mut c = cubic(1000, Params::default());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(variable(&c, "w_max_segments"), Some(1000.0));
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        // 700 < 1000: W_max = 700·(1+0.7)/2 = 595.
        assert_eq!(variable(&c, "w_max_segments"), Some(595.0));
        assert_eq!(c.cwnd(), Bytes::new(490 * MSS));
    }

    #[test]
    fn after_a_time_out_avoidance_begins_at_its_origin() {
        let mut c = cubic(100, Params::default());
        c.on_congestion(Time::ZERO, &rto(flight(&c)));
        assert_eq!(
            (c.cwnd(), c.ssthresh()),
            (Bytes::new(MSS), Some(Bytes::new(70 * MSS)))
        );
        for _ in 0..70 {
            c.on_ack(Time::from_secs(1), &ack(&c, MSS));
        }
        assert_eq!(variable(&c, "k_s"), Some(0.0));
        assert_eq!(c.state().phase, "congestion-avoidance");
    }

    #[test]
    fn a_spurious_loss_brings_the_curve_back() {
        let mut c = cubic(1000, Params::default());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        run(&mut c, Time::ZERO, Time::from_secs(3));
        let before = c.state();
        c.on_congestion(Time::from_secs(3), &loss(flight(&c)));
        assert_ne!(c.state(), before);
        c.on_congestion(Time::from_secs(3), &Congestion::Spurious);
        assert_eq!(c.state(), before);
    }

    #[test]
    fn time_without_data_does_not_count() {
        let grown = |pause: bool| {
            let mut c = cubic(1000, alone());
            c.on_congestion(Time::ZERO, &loss(flight(&c)));
            run(&mut c, Time::ZERO, Time::from_secs(2));
            let mut now = Time::from_secs(2);
            if pause {
                now = Time::from_secs(12);
                c.on_sent(now, &crate::testing::idle(false));
            }
            run(&mut c, now, now + Duration::from_secs(1));
            c.cwnd().get()
        };
        assert_eq!(grown(true), grown(false));
    }

    #[test]
    fn time_with_a_window_that_nobody_fills_does_not_count() {
        let mut c = cubic(1000, alone());
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c.on_ack(Time::ZERO, &ack(&c, MSS));
        let before = c.cwnd();
        for s in 1..=20 {
            let unlimited = Ack {
                cwnd_limited: false,
                ..ack(&c, MSS)
            };
            c.on_ack(Time::from_secs(s), &unlimited);
        }
        assert_eq!(c.cwnd(), before);
        // The curve is where it was: one ACK adds little.
        c.on_ack(Time::from_secs(20), &ack(&c, MSS));
        assert!(c.cwnd().get() - before.get() < MSS);
    }

    #[test]
    fn a_loss_at_the_same_window_keeps_it_as_the_maximum() {
        let mut c = cubic(1000, Params::default());
        c.w_max = Some(1000.0);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(variable(&c, "w_max_segments"), Some(1000.0));
    }
}
