//! Compound TCP: Reno's window plus a delay window, which grows fast while the RTT shows no queue and shrinks as one
//! builds up.
//!
//! **Source**: K. Tan, J. Song, Q. Zhang, M. Sridharan, "A Compound TCP Approach for High-Speed and Long
//! Distance Networks", INFOCOM 2006, section III; draft-sridharan-tcpm-ctcp-02, "Compound TCP: A New TCP
//! Congestion Control for High-Speed and Long Distance Networks" (2008), section 3.
//!
//! **Deviations**: gamma is a parameter; its tuning from the backlog at the last loss (TUBE) is omitted.
//!
//! **Units**: segments; windows in bytes.
//!
//! **Validated against**: the tests below, by hand from equations 3 to 5 of the paper.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use crate::math::power_three_quarters;
use crate::window::{Rounds, Window};
use base::spec::params;
use base::{Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "compound": "Reno's window and one that grows fast while there is no queue", [
        "K. Tan, J. Song, Q. Zhang, M. Sridharan, A Compound TCP Approach for High-Speed and Long Distance Networks, INFOCOM 2006",
    ] {
        /// growth factor of the delay window
        alpha: f64 = "0.125" ["0.001".."10"], "section III";
        /// fraction by which a loss reduces the window
        beta: f64 as Probability = "0.5" ["0.01".."0.99"], "section III";
        /// queued segments above which the delay window shrinks
        gamma: f64 = "30" ["0.1".."100000"], "section III";
        /// speed at which the delay window shrinks
        zeta: f64 = "1" ["0.01".."100"], "section III";
        /// windows of fewer segments follow Reno
        low_window: f64 = "38" ["0".."100000"], "draft-sridharan-tcpm-ctcp-02";
        /// count whole segments: halves rounded down, slow start while the window equals ssthresh
        whole: bool = "false", "Linux";
        /// most segments that an ACK may add in slow start
        abc: u64 = "2" ["1".."1000000"], "RFC 3465 section 2.3";
    }
}

/// Compound TCP: Reno's window plus a delay-based one.
#[derive(Clone, Copy, Debug)]
pub struct Compound {
    params: Params,
    /// Whole window: limit on outstanding data.
    window: Window,
    /// Delay window, part of the whole window, in segments.
    dwnd: f64,
    rounds: Rounds,
    /// Sum of this round's RTTs in seconds, and their number.
    rtts: (f64, u32),
    undo_dwnd: f64,
}

impl Compound {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Compound {
        Compound {
            params: *params,
            window: Window::new(setup).whole(params.whole),
            dwnd: 0.0,
            rounds: Rounds::default(),
            rtts: (0.0, 0),
            undo_dwnd: 0.0,
        }
    }

    /// Applies equation 5, once per RTT.
    fn follow_delay(&mut self, least: Duration) {
        let (sum_s, samples) = self.rtts;
        let win = self.window.cwnd_segments();
        let (base_s, rtt_s) = (least.as_secs_f64(), sum_s / f64::from(samples));
        // Expected minus actual rate, times the base RTT: segments in the queue.
        let diff = win * (1.0 - base_s / rtt_s);
        let before = self.dwnd;
        if win < self.params.low_window {
            self.dwnd = 0.0;
        } else if diff < self.params.gamma {
            // Reno's own segment per RTT is part of the growth.
            self.dwnd += (self.params.alpha * power_three_quarters(win) - 1.0).max(0.0);
        } else {
            self.dwnd = (self.dwnd - self.params.zeta * diff).max(0.0);
        }
        let grown = (self.dwnd - before) * self.window.mss;
        self.window.set(self.window.cwnd + grown, 2.0);
    }
}

impl Controller for Compound {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
            self.dwnd = 0.0;
        }
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        let ended = self.rounds.begins(ack);
        if !self.window.may_grow(ack) {
            self.rtts = (0.0, 0);
            return;
        }
        let mut acked = ack.newly_acked.get() as f64;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked, self.params.abc as f64);
            self.rtts = (0.0, 0);
        } else {
            if let (true, Some(least)) = (ended && self.rtts.0 > 0.0, ack.min_rtt) {
                self.follow_delay(least);
            }
            if ended {
                self.rtts = (0.0, 0);
            }
            if let Some(rtt) = ack.rtt {
                self.rtts = (
                    self.rtts.0 + rtt.as_secs_f64(),
                    self.rtts.1.saturating_add(1),
                );
            }
        }
        // Equation 3: one segment for each whole window acknowledged.
        self.window.additive_increase(acked, 1.0);
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        let window = &mut self.window;
        match *congestion {
            Congestion::Loss { flight } | Congestion::Ecn { flight } => {
                window.remember();
                self.undo_dwnd = self.dwnd;
                // Equation 4: the whole falls to (1-β), Reno's part to half; the rest is the delay window.
                let win = window.cwnd_segments();
                let cwnd = (win - self.dwnd).max(0.0);
                self.dwnd = (win * (1.0 - self.params.beta) - cwnd / 2.0).max(0.0);
                window.reduce(window.reference(flight) * (1.0 - self.params.beta), 2.0);
                self.dwnd = self.dwnd.min(window.cwnd_segments());
            }
            Congestion::Rto { repeated: true, .. } => window.collapse(None),
            Congestion::Rto { flight, .. } => {
                window.remember();
                self.undo_dwnd = self.dwnd;
                self.dwnd = 0.0;
                window.collapse(Some(window.reference(flight) / 2.0));
            }
            Congestion::Spurious => {
                if window.undo() {
                    self.dwnd = self.undo_dwnd;
                }
            }
        }
    }

    fn settle(&mut self, window: Bytes) {
        self.window.settle(window);
    }
    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn ssthresh(&self) -> Option<Bytes> {
        self.window.ssthresh_bytes()
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            variables: [Some(("dwnd_segments", self.dwnd)), None, None],
            ..self.window.state(self.window.phase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Flow, flight, loss};

    const MSS: u64 = 1000;

    fn compound(segments: u64) -> Compound {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 2 * segments);
        let mut c = Compound::new(&Params::default(), &setup);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c.dwnd = 0.0;
        c
    }
    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn without_a_queue_it_adds_an_eighth_of_the_window_to_three_quarters() {
        let mut c = compound(256);
        let mut flow = Flow::new(ms(100));
        flow.round(&mut c, MSS, ms(100));
        // The first round only measures and adds Reno's segment: 257^(3/4)/8 - 1 = 7.02.
        assert_eq!(c.cwnd(), Bytes::new(257 * MSS));
        flow.round(&mut c, MSS, ms(100));
        let grown = c.state().variables[0].unwrap().1;
        assert!(
            (grown - (257f64.powf(0.75) / 8.0 - 1.0)).abs() < 1e-9,
            "{grown}"
        );
    }

    #[test]
    fn with_a_queue_of_more_than_gamma_the_delay_window_gives_way() {
        let mut c = compound(256);
        c.dwnd = 100.0;
        let mut flow = Flow::new(ms(100));
        // 20 % longer: a sixth of 257 segments, 42.8, are queued.
        flow.round(&mut c, MSS, ms(120));
        flow.round(&mut c, MSS, ms(120));
        let left = c.state().variables[0].unwrap().1;
        assert!((left - (100.0 - 257.0 / 6.0)).abs() < 1e-9, "{left}");
    }

    #[test]
    fn small_windows_are_renos() {
        let mut c = compound(20);
        let mut flow = Flow::new(ms(100));
        (0..3).for_each(|_| flow.round(&mut c, MSS, ms(100)));
        assert_eq!(c.cwnd(), Bytes::new(23 * MSS));
    }

    #[test]
    fn a_loss_halves_the_whole() {
        let mut c = compound(256);
        c.dwnd = 156.0;
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        // 256/2 in all, of which Reno's 100/2.
        assert_eq!((c.cwnd(), c.dwnd), (Bytes::new(128 * MSS), 78.0));
    }

    #[test]
    fn a_spurious_loss_brings_both_windows_back() {
        let mut c = compound(256);
        c.dwnd = 156.0;
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c.on_congestion(Time::ZERO, &Congestion::Spurious);
        assert_eq!((c.cwnd(), c.dwnd), (Bytes::new(256 * MSS), 156.0));
    }
}
