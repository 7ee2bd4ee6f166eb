//! Reno: slow start up to a threshold, then one segment per RTT; half the flight after a loss, one segment after a
//! time-out.
//!
//! **Source**: RFC 5681, "TCP Congestion Control" (Allman, Paxson, Blanton, 2009), section 3; in its
//! first form RFC 2001, "TCP Slow Start, Congestion Avoidance, Fast Retransmit, and Fast Recovery
//! Algorithms" (Stevens, 1997). ECN as RFC 3168, "The Addition of Explicit Congestion Notification
//! (ECN) to IP" (2001), section 6.1.2.
//!
//! **Deviations**: bytes are counted as in RFC 3465, "TCP Congestion Control with Appropriate Byte Counting (ABC)"
//! (2003), and as in Linux, so that delayed ACKs do not slow growth down; `count=acks` is RFC 5681's own rule, and `abc=1`
//! its rule for slow start alone. Inflating the window
//! by duplicate ACKs (section 3.2, steps 3 and 4) is left to endpoints without SACK: they estimate what has left the
//! network, and report it in [`crate::Ack::inflight`]. A spurious loss restores the window.
//!
//! **Units**: bytes, with fractions.
//!
//! **Validated against**: `reference/congestion_reno.py`, written from the RFC in whole bytes, by the traces in
//! `tests/golden/reno/`; the square-root law, 1.22/√p segments, in `tests/theory.rs`.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Recovery, Sent, Setup};
use crate::window::Window;
use base::spec::{choices, params};
use base::{Bytes, Time};

choices! {
/// Unit in which acknowledgements let the window grow.
pub enum Count {
    /// Bytes that an ACK reports.
    Bytes = "bytes",
    /// ACKs: each counts as one segment at most, so that a receiver that delays ACKs halves the growth.
    Acks = "acks",
}
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "reno": "half the window on a loss, a segment a round trip; without SACK recovery ends at the first new ACK", [
        "RFC 5681, TCP Congestion Control",
        "RFC 2001, TCP Slow Start, Congestion Avoidance, Fast Retransmit, and Fast Recovery Algorithms",
    ] {
        /// most segments that an ACK may add in slow start
        abc: u64 = "2" ["1".."1000000"], "RFC 3465 section 2.3";
        /// let the window grow by the bytes acknowledged, or by a segment an ACK at most
        count: Count = "bytes", "RFC 3465 section 2, Linux; RFC 5681 section 3.1";
        /// count whole segments: halves rounded down, slow start while the window equals ssthresh
        whole: bool = "false", "Linux";
        /// fraction of the window kept on a loss
        beta: f64 as Probability = "0.5" ["0.01".."0.99"], "RFC 5681 equation 4";
        /// fraction of the window kept on an ECN mark; 0.8 is RFC 8511's
        beta_ecn: f64 as Probability = "0.5" ["0.01".."0.99"], "RFC 3168 section 6.1.2";
    }
}

/// Reno: half the window on a loss, one segment more a round trip.
#[derive(Clone, Copy, Debug)]
pub struct Reno {
    params: Params,
    window: Window,
}

impl Reno {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Reno {
        Reno {
            params: *params,
            window: Window::new(setup).whole(params.whole),
        }
    }
}

impl Controller for Reno {
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
        if self.params.count == Count::Acks {
            acked = acked.min(self.window.mss);
        }
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked, self.params.abc as f64);
        }
        self.window.additive_increase(acked, 1.0);
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        let window = &mut self.window;
        match *congestion {
            Congestion::Loss { flight } => {
                window.remember();
                // Equation 4, and section 3.2 step 6: the window is deflated to ssthresh.
                window.reduce(window.reference(flight) * self.params.beta, 2.0);
            }
            Congestion::Ecn { flight } => {
                window.remember();
                window.reduce(window.reference(flight) * self.params.beta_ecn, 2.0);
            }
            Congestion::Rto { flight, repeated } => {
                // Section 3.1: ssthresh stays if the same segment had timed out before.
                if repeated {
                    window.collapse(None);
                } else {
                    window.remember();
                    window.collapse(Some(window.reference(flight) * self.params.beta));
                }
            }
            Congestion::Spurious => {
                window.undo();
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
    fn recovery(&self) -> Recovery {
        Recovery::FirstAck
    }
    fn state(&self) -> ControllerState {
        self.window.state(self.window.phase())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{ack, flight, idle, loss, rto};

    const MSS: u64 = 1000;

    fn reno() -> Reno {
        Reno::new(
            &Params::default(),
            &Setup::with_initial_segments(Bytes::new(MSS), 10),
        )
    }
    fn acks(c: &mut Reno, n: usize) {
        for _ in 0..n {
            c.on_ack(Time::ZERO, &ack(c, MSS));
        }
    }

    #[test]
    fn slow_start_doubles_in_a_round_trip_and_avoidance_adds_a_segment() {
        let mut c = reno();
        acks(&mut c, 10);
        assert_eq!(c.cwnd(), Bytes::new(20 * MSS));
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(
            (c.cwnd(), c.ssthresh()),
            (Bytes::new(10 * MSS), Some(Bytes::new(10 * MSS)))
        );
        acks(&mut c, 10);
        assert_eq!(c.cwnd(), Bytes::new(11 * MSS));
        acks(&mut c, 10);
        assert_eq!(c.cwnd(), Bytes::new(11 * MSS));
        acks(&mut c, 1);
        assert_eq!(c.cwnd(), Bytes::new(12 * MSS));
    }

    #[test]
    fn counted_acks_grow_by_one_segment_each_at_most() {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 10);
        let grown = |count, acked: u64| {
            let params = Params {
                count,
                ..Params::default()
            };
            let mut c = Reno::new(&params, &setup);
            c.on_congestion(Time::ZERO, &loss(10 * MSS));
            // A window of five segments, in congestion avoidance: twenty segments in ACKs of this size.
            for _ in 0..20 * MSS / acked {
                c.on_ack(Time::ZERO, &ack(&c, acked));
            }
            c.cwnd().get() / MSS
        };
        let (bytes, acks) = (Count::Bytes, Count::Acks);
        assert_eq!(grown(bytes, MSS), grown(bytes, 2 * MSS));
        assert_eq!(grown(bytes, MSS), grown(acks, MSS));
        assert_eq!((grown(acks, MSS), grown(acks, 2 * MSS)), (8, 6));
        // Half a segment counts as half.
        assert_eq!(grown(acks, MSS / 2), grown(bytes, MSS / 2));
    }

    #[test]
    fn a_delayed_ack_counts_for_two_segments_and_a_stretched_one_for_no_more() {
        let mut c = reno();
        c.on_ack(Time::ZERO, &ack(&c, 2 * MSS));
        assert_eq!(c.cwnd(), Bytes::new(12 * MSS));
        c.on_ack(Time::ZERO, &ack(&c, 8 * MSS));
        assert_eq!(c.cwnd(), Bytes::new(14 * MSS));
    }

    #[test]
    fn after_a_time_out_slow_start_leads_to_half_the_flight() {
        let mut c = reno();
        c.on_congestion(Time::ZERO, &rto(flight(&c)));
        assert_eq!(
            (c.cwnd(), c.ssthresh()),
            (Bytes::new(MSS), Some(Bytes::new(5 * MSS)))
        );
        // The same segment again: ssthresh stays.
        c.on_congestion(
            Time::ZERO,
            &Congestion::Rto {
                flight: Bytes::new(MSS),
                repeated: true,
            },
        );
        assert_eq!(c.ssthresh(), Some(Bytes::new(5 * MSS)));
        acks(&mut c, 4);
        assert_eq!(
            (c.cwnd(), c.state().phase),
            (Bytes::new(5 * MSS), "congestion-avoidance")
        );
    }

    #[test]
    fn a_spurious_loss_brings_the_window_back() {
        let mut c = reno();
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        c.on_congestion(Time::ZERO, &Congestion::Spurious);
        assert_eq!((c.cwnd(), c.ssthresh()), (Bytes::new(10 * MSS), None));
        // Only once.
        c.on_congestion(Time::ZERO, &Congestion::Spurious);
        assert_eq!(c.cwnd(), Bytes::new(10 * MSS));
    }

    #[test]
    fn a_window_that_is_not_filled_does_not_grow() {
        let mut c = reno();
        let unlimited = Ack {
            cwnd_limited: false,
            inflight_before: Bytes::new(5 * MSS),
            ..ack(&c, MSS)
        };
        c.on_ack(Time::ZERO, &unlimited);
        assert_eq!(c.cwnd(), Bytes::new(10 * MSS));
        let recovering = Ack {
            in_recovery: true,
            ..ack(&c, MSS)
        };
        c.on_ack(Time::ZERO, &recovering);
        assert_eq!(c.cwnd(), Bytes::new(10 * MSS));
    }

    #[test]
    fn a_silence_longer_than_the_time_out_restarts_from_the_initial_window() {
        let mut c = reno();
        acks(&mut c, 50);
        assert_eq!(c.cwnd(), Bytes::new(60 * MSS));
        c.on_sent(Time::ZERO, &idle(false));
        assert_eq!(c.cwnd(), Bytes::new(60 * MSS));
        c.on_sent(Time::ZERO, &idle(true));
        assert_eq!(c.cwnd(), Bytes::new(10 * MSS));
    }

    #[test]
    fn a_flight_of_limited_transmit_does_not_raise_the_threshold() {
        let mut c = reno();
        c.on_congestion(Time::ZERO, &loss(12 * MSS));
        assert_eq!(c.cwnd(), Bytes::new(5 * MSS));
        c.on_congestion(Time::ZERO, &loss(2 * MSS));
        assert_eq!(c.cwnd(), Bytes::new(2 * MSS));
    }
}
