//! BIC: a binary search between the window at which a loss occurred and the reduced one, limited to a maximum step per
//! RTT. Beyond the old window it probes, slowly at first.
//!
//! **Source**: L. Xu, K. Harfoush, I. Rhee, "Binary Increase Congestion Control (BIC) for Fast
//! Long-Distance Networks", INFOCOM 2004, section III; constants as in Linux 2.6.8 to 2.6.18, whose
//! default it was.
//!
//! **Deviations**: near the target the search divides by 4, not by 2, and its last step is spread over several RTTs
//! (`smooth`), both as in Linux. Delayed ACKs need no correction because bytes are counted.
//!
//! **Units**: segments; the window in bytes.
//!
//! **Validated against**: the tests below, by hand from section III.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use crate::window::Window;
use base::spec::params;
use base::{Bytes, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "bic": "searches by halves for the window at which congestion was met", [
        "L. Xu, K. Harfoush, I. Rhee, Binary Increase Congestion Control (BIC) for Fast Long-Distance Networks, INFOCOM 2004",
    ] {
        /// fraction of the window kept on a loss
        beta: f64 as Probability = "0.8" ["0.01".."0.99"], "Linux";
        /// most segments that one RTT may add
        max_increment: f64 = "16" ["1".."1000"], "Linux; S_max of section III";
        /// windows of fewer segments follow Reno
        low_window: f64 = "14" ["0".."100000"], "section III";
        /// RTTs to add one segment near the old window
        smooth: f64 = "5" ["1".."1000"], "Linux: 20/4";
        /// reduce further if a loss comes at a smaller window than before
        fast_convergence: bool = "true", "section III.C";
        /// most segments that an ACK may add in slow start
        abc: u64 = "2" ["1".."1000000"], "RFC 3465 section 2.3";
    }
}

/// Divisor of the remaining distance in the binary search (Linux BICTCP_B).
const DIVISOR: f64 = 4.0;

/// BIC: a binary search for the window of the last congestion.
#[derive(Clone, Copy, Debug)]
pub struct Bic {
    params: Params,
    window: Window,
    /// Window in segments at the last congestion event; none before the first.
    last_max: Option<f64>,
    undo: Option<Option<f64>>,
}

impl Bic {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Bic {
        Bic {
            params: *params,
            window: Window::new(setup),
            last_max: None,
            undo: None,
        }
    }

    /// Returns the segments that a whole window of ACKs adds.
    fn increment(&self) -> f64 {
        let p = &self.params;
        let cwnd = self.window.cwnd_segments();
        let Some(last_max) = self.last_max.filter(|_| cwnd > p.low_window) else {
            return 1.0;
        };
        let slow = 1.0 / p.smooth;
        let step = if cwnd < last_max {
            // Section III.B: binary search.
            let left = (last_max - cwnd) / DIVISOR;
            if left <= 1.0 { slow } else { left }
        } else if cwnd < last_max + DIVISOR {
            // Section III.A: probing for a new maximum, slowly at first, then faster.
            slow
        } else {
            (cwnd - last_max) / (DIVISOR - 1.0)
        };
        step.min(p.max_increment)
    }

    fn kept(&self, flight: Bytes) -> f64 {
        let reference = self.window.reference(flight);
        if self.window.cwnd_segments() <= self.params.low_window {
            reference / 2.0
        } else {
            reference * self.params.beta
        }
    }

    fn meet_congestion(&mut self) {
        let cwnd = self.window.cwnd_segments();
        self.window.remember();
        self.undo = Some(self.last_max);
        self.last_max = Some(match self.last_max {
            Some(last_max) if cwnd < last_max && self.params.fast_convergence => {
                cwnd * (1.0 + self.params.beta) / 2.0
            }
            _ => cwnd,
        });
    }
}

impl Controller for Bic {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
        }
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        if !self.window.may_grow(ack) {
            return;
        }
        let mut acked = ack.newly_acked.get() as f64;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked, self.params.abc as f64);
        }
        if acked > 0.0 {
            let grown = self.increment() * (acked / self.window.cwnd).min(1.0);
            self.window
                .set(self.window.cwnd + grown * self.window.mss, 1.0);
        }
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        match *congestion {
            Congestion::Loss { flight } | Congestion::Ecn { flight } => {
                self.meet_congestion();
                self.window.reduce(self.kept(flight), 2.0);
            }
            Congestion::Rto { repeated: true, .. } => self.window.collapse(None),
            Congestion::Rto { flight, .. } => {
                self.meet_congestion();
                self.window.collapse(Some(self.kept(flight)));
            }
            Congestion::Spurious => {
                if self.window.undo()
                    && let Some(last_max) = self.undo.take()
                {
                    self.last_max = last_max;
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
            variables: [self.last_max.map(|w| ("last_max_segments", w)), None, None],
            ..self.window.state(self.window.phase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, flight, loss};

    const MSS: u64 = 1000;

    fn bic(segments: u64) -> Bic {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), segments);
        let mut c = Bic::new(&Params::default(), &setup);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c
    }
    /// Returns the segments that a window of ACKs adds.
    fn round(c: &mut Bic) -> f64 {
        let before = c.cwnd().get();
        c.on_ack(Time::ZERO, &ack(c, before));
        (c.cwnd().get() - before) as f64 / MSS as f64
    }

    #[test]
    fn the_search_adds_a_quarter_of_what_is_left_and_at_most_sixteen() {
        let mut c = bic(1000);
        assert_eq!(c.cwnd(), Bytes::new(800 * MSS));
        // 200 left: a quarter would be 50.
        assert_eq!(round(&mut c), 16.0);
        let mut c = bic(100);
        // 20 left: 5; then 15 left: 3.75.
        assert_eq!((round(&mut c), round(&mut c)), (5.0, 3.75));
    }

    #[test]
    fn near_the_old_window_it_creeps_and_beyond_it_speeds_up() {
        let mut c = bic(20);
        // 4 left.
        assert_eq!(round(&mut c), 0.2);
        let mut rounds: Vec<f64> = (0..120).map(|_| round(&mut c)).collect();
        rounds.dedup();
        assert_eq!(rounds[0], 0.2);
        assert!(rounds.is_sorted(), "{rounds:?}");
        assert_eq!(rounds.last(), Some(&16.0));
    }

    #[test]
    fn small_windows_behave_as_reno() {
        let mut c = bic(10);
        assert_eq!(c.cwnd(), Bytes::new(5 * MSS));
        assert_eq!(round(&mut c), 1.0);
    }

    #[test]
    fn fast_convergence_gives_way() {
        let mut c = bic(100);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        // 80 < 100: 80·1.8/2 = 72.
        assert_eq!(c.state().variables[0], Some(("last_max_segments", 72.0)));
    }
}
