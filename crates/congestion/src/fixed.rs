//! Three controllers that omit one mechanism each, to show its purpose: a fixed window (neither slow start nor
//! congestion avoidance), slow start without congestion avoidance, and congestion avoidance without slow start.
//!
//! **Source**: V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988: figure 3 (TCP without
//! slow start sends its whole window at once), figure 8 (conversations without congestion avoidance).
//!
//! **Deviations**: none; the retransmission timer still backs off, which 4.2BSD did too.
//!
//! **Units**: bytes.
//!
//! **Validated against**: the tests below; the figures themselves are scenarios of the simulator.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Recovery, Sent, Setup};
use crate::window::Window;
use base::spec::params;
use base::{Bytes, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "none": "a fixed window, full from the first segment on; repairs by time-out alone", [
        "V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988, figure 3",
    ] {
        /// the window, or the largest that it may grow to
        window: Bytes = "65535 B" ["1 B".."100 GB"], "RFC 9293 section 3.1";
    }
}

/// Fixed window.
#[derive(Clone, Copy, Debug)]
pub struct FixedWindow {
    window: Bytes,
}

impl FixedWindow {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> FixedWindow {
        FixedWindow {
            window: params.window.max(setup.mss),
        }
    }
}

impl Controller for FixedWindow {
    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}
    fn on_ack(&mut self, _now: Time, _ack: &Ack) {}
    fn on_congestion(&mut self, _now: Time, _congestion: &Congestion) {}
    fn cwnd(&self) -> Bytes {
        self.window
    }
    fn recovery(&self) -> Recovery {
        Recovery::Timer
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            cwnd: self.cwnd(),
            ssthresh: None,
            pacing_rate: None,
            phase: "fixed",
            variables: [None; 3],
        }
    }
}

/// Slow start up to a window, also after each time-out, without congestion avoidance.
#[derive(Clone, Copy, Debug)]
pub struct NoAvoidance {
    window: Window,
}

impl NoAvoidance {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> NoAvoidance {
        let mut window = Window::new(setup);
        window.ssthresh = (params.window.get() as f64).max(window.mss);
        window.set(window.cwnd.min(window.ssthresh), 1.0);
        NoAvoidance { window }
    }
}

impl Controller for NoAvoidance {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
        }
    }
    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        if self.window.may_grow(ack) && self.window.in_slow_start() {
            self.window.slow_start(ack.newly_acked.get() as f64, 1.0);
        }
    }
    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match congestion {
            Congestion::Rto { .. } => {
                self.window.remember();
                self.window.collapse(None);
            }
            Congestion::Spurious => {
                self.window.undo();
            }
            Congestion::Loss { .. } | Congestion::Ecn { .. } => {}
        }
    }
    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn ssthresh(&self) -> Option<Bytes> {
        self.window.ssthresh_bytes()
    }
    fn recovery(&self) -> Recovery {
        Recovery::Timer
    }
    fn state(&self) -> ControllerState {
        let phase = if self.window.in_slow_start() {
            "slow-start"
        } else {
            "fixed"
        };
        self.window.state(phase)
    }
}

/// Congestion avoidance from a full window, without slow start: any loss halves the window, then one segment per RTT.
#[derive(Clone, Copy, Debug)]
pub struct NoSlowStart {
    window: Window,
}

impl NoSlowStart {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> NoSlowStart {
        let mut window = Window::new(setup);
        window.set(params.window.get() as f64, 1.0);
        window.ssthresh = window.cwnd;
        NoSlowStart { window }
    }
}

impl Controller for NoSlowStart {
    fn on_sent(&mut self, _now: Time, _sent: &Sent) {}
    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        if self.window.may_grow(ack) {
            self.window
                .additive_increase(ack.newly_acked.get() as f64, 1.0);
        }
    }
    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match congestion {
            Congestion::Loss { flight }
            | Congestion::Ecn { flight }
            | Congestion::Rto {
                flight,
                repeated: false,
            } => {
                self.window.remember();
                self.window
                    .reduce(self.window.reference(*flight) / 2.0, 2.0);
                self.window.ssthresh = self.window.cwnd;
            }
            Congestion::Rto { repeated: true, .. } => {}
            Congestion::Spurious => {
                self.window.undo();
                self.window.ssthresh = self.window.cwnd;
            }
        }
    }
    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn state(&self) -> ControllerState {
        let mut state = self.window.state("congestion-avoidance");
        state.ssthresh = None;
        state
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, flight, loss, rto};

    const MSS: u64 = 512;

    fn jacobson() -> (Params, Setup) {
        (
            Params {
                window: Bytes::new(32 * MSS),
            },
            Setup::with_initial_segments(Bytes::new(MSS), 1),
        )
    }

    #[test]
    fn a_fixed_window_is_full_from_the_first_segment_on() {
        let (params, setup) = jacobson();
        let mut c = FixedWindow::new(&params, &setup);
        for _ in 0..100 {
            c.on_ack(Time::ZERO, &ack(&c, MSS));
        }
        c.on_congestion(Time::ZERO, &rto(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(32 * MSS));
        assert_eq!(c.recovery(), Recovery::Timer);
    }

    #[test]
    fn without_avoidance_slow_start_leads_back_to_the_full_window_each_time() {
        let (params, setup) = jacobson();
        let mut c = NoAvoidance::new(&params, &setup);
        for _ in 0..3 {
            assert_eq!(c.cwnd(), Bytes::new(MSS));
            for _ in 0..31 {
                c.on_ack(Time::ZERO, &ack(&c, MSS));
            }
            assert_eq!(c.cwnd(), Bytes::new(32 * MSS));
            c.on_ack(Time::ZERO, &ack(&c, MSS));
            assert_eq!(c.cwnd(), Bytes::new(32 * MSS));
            c.on_congestion(Time::ZERO, &rto(flight(&c)));
        }
    }

    #[test]
    fn without_slow_start_a_loss_halves_and_a_window_of_acks_adds_a_segment() {
        let (params, setup) = jacobson();
        let mut c = NoSlowStart::new(&params, &setup);
        assert_eq!(c.cwnd(), Bytes::new(32 * MSS));
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(16 * MSS));
        for _ in 0..16 {
            c.on_ack(Time::ZERO, &ack(&c, MSS));
        }
        assert_eq!(c.cwnd(), Bytes::new(17 * MSS));
        c.on_congestion(Time::ZERO, &rto(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(17 * MSS / 2));
    }
}
