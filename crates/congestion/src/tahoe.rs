//! Tahoe: every loss, found by duplicate ACKs or by the timer, leaves one segment and slow start up to half of the
//! outstanding data. There is no fast recovery.
//!
//! **Source**: V. Jacobson, "Congestion Avoidance and Control", SIGCOMM 1988, sections 1 and 3 and
//! appendix D; 4.3BSD-Tahoe added the fast retransmit.
//!
//! **Deviations**: bytes are counted as in Reno ([`crate::reno`]); `abc=1` is the paper's rule with one ACK per
//! segment.
//!
//! **Units**: bytes, with fractions.
//!
//! **Validated against**: the tests below, by hand.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Recovery, Sent, Setup};
use crate::window::Window;
use base::spec::params;
use base::{Bytes, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Params for "tahoe": "one segment and slow start after any loss", [
        "V. Jacobson, Congestion Avoidance and Control, SIGCOMM 1988",
    ] {
        /// most segments that an ACK may add in slow start
        abc: u64 = "1" ["1".."1000000"], "the paper";
    }
}

/// Tahoe: one segment and slow start after any loss.
#[derive(Clone, Copy, Debug)]
pub struct Tahoe {
    params: Params,
    window: Window,
}

impl Tahoe {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Tahoe {
        Tahoe {
            params: *params,
            window: Window::new(setup),
        }
    }
}

impl Controller for Tahoe {
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
        self.window.additive_increase(acked, 1.0);
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        let window = &mut self.window;
        match *congestion {
            Congestion::Loss { flight }
            | Congestion::Rto {
                flight,
                repeated: false,
            } => {
                window.remember();
                window.collapse(Some(window.reference(flight) / 2.0));
            }
            Congestion::Rto { repeated: true, .. } => window.collapse(None),
            // Tahoe is older than ECN: half, as RFC 3168 requires of any TCP.
            Congestion::Ecn { flight } => {
                window.remember();
                window.reduce(window.reference(flight) / 2.0, 2.0);
            }
            Congestion::Spurious => {
                window.undo();
            }
        }
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn ssthresh(&self) -> Option<Bytes> {
        self.window.ssthresh_bytes()
    }
    fn recovery(&self) -> Recovery {
        Recovery::Restart
    }
    fn state(&self) -> ControllerState {
        self.window.state(self.window.phase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, flight, loss};

    #[test]
    fn a_loss_leaves_one_segment_and_slow_start_to_half() {
        let setup = Setup::with_initial_segments(Bytes::new(512), 1);
        let mut c = Tahoe::new(&Params::default(), &setup);
        for _ in 0..31 {
            c.on_ack(Time::ZERO, &ack(&c, 512));
        }
        assert_eq!(c.cwnd(), Bytes::new(32 * 512));
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(
            (c.cwnd(), c.ssthresh()),
            (Bytes::new(512), Some(Bytes::new(16 * 512)))
        );
        // 15 ACKs to the threshold, then a whole window for each segment.
        for _ in 0..15 + 16 {
            c.on_ack(Time::ZERO, &ack(&c, 512));
        }
        assert_eq!(c.cwnd(), Bytes::new(17 * 512));
        assert_eq!(c.recovery(), Recovery::Restart);
    }

    #[test]
    fn each_time_out_leaves_one_segment_and_only_the_first_sets_the_threshold() {
        let setup = Setup::with_initial_segments(Bytes::new(512), 32);
        let mut c = Tahoe::new(&Params::default(), &setup);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        for _ in 0..3 {
            c.on_ack(Time::ZERO, &ack(&c, 512));
        }
        let again = Congestion::Rto {
            flight: Bytes::new(4 * 512),
            repeated: true,
        };
        c.on_congestion(Time::ZERO, &again);
        assert_eq!(
            (c.cwnd(), c.ssthresh()),
            (Bytes::new(512), Some(Bytes::new(16 * 512)))
        );
    }
}
