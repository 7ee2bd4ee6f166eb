//! Westwood+: Reno whose window after a loss is the delivery rate times the smallest RTT, so that a loss without a
//! queue costs little.
//!
//! **Source**: L. Grieco, S. Mascolo, "Performance Evaluation and Comparison of Westwood+, New Reno, and
//! Vegas TCP Congestion Control", ACM CCR 34(2), 2004, section 2; S. Mascolo et al., "TCP Westwood:
//! Bandwidth Estimation for Enhanced Transport over Wireless Links", MobiCom 2001.
//!
//! **Deviations**: none. A sample covers at least 50 ms, as in Linux.
//!
//! **Units**: bytes per second; the window in bytes.
//!
//! **Validated against**: the tests below, by hand.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use crate::window::Window;
use base::spec::params;
use base::{Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "westwood": "Westwood+: after a loss, what the path delivered times its least round trip", [
        "L. Grieco, S. Mascolo, Performance Evaluation and Comparison of Westwood+, New Reno, and Vegas TCP Congestion Control, ACM CCR 34(2), 2004",
    ] {
        /// weight of the old estimate
        smoothing: f64 as Probability = "0.875" ["0.01".."0.99"], "section 2";
        /// shortest time that a sample covers
        least_sample: Duration = "50 ms" ["1 us".."1000 s"], "Linux";
        /// most segments that an ACK may add in slow start
        abc: u64 = "2" ["1".."1000000"], "RFC 3465 section 2.3";
    }
}

/// Westwood+: a window from the delivery rate after a loss.
#[derive(Clone, Copy, Debug)]
pub struct Westwood {
    params: Params,
    window: Window,
    /// Estimated bandwidth in bytes per second, once measured.
    estimate: Option<f64>,
    /// Start of the current sample, and bytes delivered since.
    sample: Option<(Time, f64)>,
    min_rtt: Option<Duration>,
}

impl Westwood {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Westwood {
        Westwood {
            params: *params,
            window: Window::new(setup),
            estimate: None,
            sample: None,
            min_rtt: None,
        }
    }

    fn measure(&mut self, now: Time, ack: &Ack) {
        self.min_rtt = ack.min_rtt.or(self.min_rtt);
        let Some((since, delivered)) = &mut self.sample else {
            self.sample = Some((now, 0.0));
            return;
        };
        *delivered += ack.newly_acked.get() as f64;
        let span = now.saturating_since(*since);
        // Section 2: one sample per RTT.
        if span
            >= ack
                .srtt
                .unwrap_or(Duration::ZERO)
                .max(self.params.least_sample)
        {
            let rate = *delivered / span.as_secs_f64();
            let w = self.params.smoothing;
            self.estimate = Some(self.estimate.map_or(rate, |e| w * e + (1.0 - w) * rate));
            self.sample = Some((now, 0.0));
        }
    }

    /// Returns the estimated capacity of the path; half the flight if there is no estimate.
    fn threshold(&self, flight: Bytes) -> f64 {
        match (self.estimate, self.min_rtt) {
            (Some(estimate), Some(min_rtt)) => estimate * min_rtt.as_secs_f64(),
            _ => self.window.reference(flight) / 2.0,
        }
    }
}

impl Controller for Westwood {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if let Some(idle) = sent.idle {
            // An idle period says nothing about the path.
            self.sample = None;
            if idle.restart {
                self.window.restart();
            }
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        self.measure(now, ack);
        if !self.window.may_grow(ack) {
            return;
        }
        let mut acked = ack.newly_acked.get() as f64;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked, self.params.abc as f64);
        }
        self.window.additive_increase(acked, 1.0);
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match *congestion {
            Congestion::Loss { flight } | Congestion::Ecn { flight } => {
                self.window.remember();
                self.window.reduce(self.threshold(flight), 2.0);
            }
            Congestion::Rto { repeated: true, .. } => self.window.collapse(None),
            Congestion::Rto { flight, .. } => {
                self.window.remember();
                self.window.collapse(Some(self.threshold(flight)));
            }
            Congestion::Spurious => {
                self.window.undo();
            }
        }
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn ssthresh(&self) -> Option<Bytes> {
        self.window.ssthresh_bytes()
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            variables: [self.estimate.map(|e| ("estimate_bps", e * 8.0)), None, None],
            ..self.window.state(self.window.phase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Flow, flight, loss};

    const MSS: u64 = 1000;

    #[test]
    fn a_loss_leaves_what_the_path_delivers_times_its_least_round_trip() {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 100);
        let mut c = Westwood::new(&Params::default(), &setup);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(50 * MSS), "no estimate yet: half");
        let mut flow = Flow::new(Duration::from_millis(100));
        (0..60).for_each(|_| flow.round(&mut c, MSS, Duration::from_millis(100)));
        // About 110 segments in 100 ms, no queue: the loss hardly reduces the window.
        let before = c.cwnd().get();
        c.on_congestion(flow.now, &loss(before));
        let kept = c.cwnd().get() as f64 / before as f64;
        assert!((0.9..=1.0).contains(&kept), "{kept}");
    }

    #[test]
    fn a_queue_of_a_whole_round_trip_makes_it_halve() {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 100);
        let mut c = Westwood::new(&Params::default(), &setup);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        let mut flow = Flow::new(Duration::from_millis(100));
        (0..60).for_each(|_| flow.round(&mut c, MSS, Duration::from_millis(200)));
        let before = c.cwnd().get();
        c.on_congestion(flow.now, &loss(before));
        let kept = c.cwnd().get() as f64 / before as f64;
        assert!((0.45..=0.5).contains(&kept), "{kept}");
    }

    #[test]
    fn the_estimate_is_seven_eighths_old() {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 100);
        let mut c = Westwood::new(&Params::default(), &setup);
        let mut flow = Flow::new(Duration::from_millis(100));
        let mut tell = |c: &mut Westwood, at_ms, bytes| {
            let mut ack = flow.ack(c, MSS, Duration::from_millis(100));
            ack.newly_acked = Bytes::new(bytes);
            c.on_ack(Time::from_millis(at_ms), &ack);
            c.estimate
        };
        assert_eq!(tell(&mut c, 0, MSS), None);
        assert_eq!(tell(&mut c, 99, MSS), None, "not yet a round trip");
        // 10 kB in 100 ms, then 20 kB.
        assert_eq!(tell(&mut c, 100, 9 * MSS), Some(1e5));
        assert_eq!(tell(&mut c, 200, 20 * MSS), Some(0.875e5 + 0.25e5));
    }

    #[test]
    fn a_silence_does_not_lower_the_estimate() {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 100);
        let mut c = Westwood::new(&Params::default(), &setup);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        let mut flow = Flow::new(Duration::from_millis(100));
        (0..20).for_each(|_| flow.round(&mut c, MSS, Duration::from_millis(100)));
        let before = c.estimate;
        flow.now += Duration::from_secs(60);
        c.on_sent(flow.now, &crate::testing::idle(false));
        let ack = flow.ack(&c, MSS, Duration::from_millis(100));
        c.on_ack(flow.now, &ack);
        assert_eq!(c.estimate, before);
    }
}
