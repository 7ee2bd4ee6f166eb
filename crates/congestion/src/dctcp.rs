//! DCTCP: estimates the marked fraction of its data and reduces the window by half of it, once per RTT. Shallow marking
//! thresholds therefore keep queues short and the link busy.
//!
//! **Source**: RFC 8257, "Data Center TCP (DCTCP): TCP Congestion Control for Data Centers" (Bensley,
//! Thaler, Balasubramanian, Eggert, Judd, 2017), section 3; M. Alizadeh et al., "Data Center TCP
//! (DCTCP)", SIGCOMM 2010.
//!
//! **Deviations**: the window does not grow in the RTT after a reduction, as in Linux; section 3.4 leaves this open.
//!
//! **Units**: alpha from 0 to 1; the window in bytes.
//!
//! **Validated against**: the tests below; `tests/theory.rs` checks alpha against √(2/W).

use crate::controller::{Ack, Congestion, Controller, ControllerState, EcnUse, Sent, Setup};
use crate::window::{Rounds, Window};
use base::spec::params;
use base::{Bytes, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "dctcp": "reduces by half of the part that is marked; for data centres", [
        "RFC 8257, Data Center TCP (DCTCP): TCP Congestion Control for Data Centers",
    ] {
        /// weight of the newest RTT
        g: f64 as Probability = "0.0625" ["0.01".."0.99"], "RFC 8257 section 4.2";
        /// marked fraction that a new connection assumes
        alpha: f64 as Probability = "1" ["0".."1"], "RFC 8257 section 4.2";
        /// most segments that an ACK may add in slow start
        abc: u64 = "2" ["1".."1000000"], "RFC 3465 section 2.3";
        /// count whole segments, and alpha in parts of 1024: a reduction by less than a segment is none
        whole: bool = "false", "Linux";
    }
}

/// DCTCP: a reduction by half of the marked share.
#[derive(Clone, Copy, Debug)]
pub struct Dctcp {
    params: Params,
    window: Window,
    alpha: f64,
    rounds: Rounds,
    acked: f64,
    marked: f64,
    /// Bytes delivered at the last reduction; the next may follow one RTT later.
    reduced_at: Option<Bytes>,
}

impl Dctcp {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Dctcp {
        Dctcp {
            params: *params,
            window: Window::new(setup).whole(params.whole),
            alpha: params.alpha,
            rounds: Rounds::default(),
            acked: 0.0,
            marked: 0.0,
            reduced_at: None,
        }
    }

    /// Updates alpha by section 3.3, steps 1 to 8.
    fn estimate(&mut self, ack: &Ack) {
        let ended = self.rounds.begins(ack);
        self.acked += ack.newly_acked.get() as f64;
        self.marked += ack.ce_bytes.min(ack.newly_acked).get() as f64;
        if ended && self.acked > 0.0 {
            let m = self.marked / self.acked;
            self.alpha = match self.params.whole {
                true => in_parts(self.alpha, self.params.g, m),
                false => (1.0 - self.params.g) * self.alpha + self.params.g * m,
            };
            (self.acked, self.marked) = (0.0, 0.0);
        }
    }
}

/// Alpha after a round as Linux counts it, in whole parts of 1024: old and new share are each rounded down, and an alpha too
/// small to lose a part becomes zero.
fn in_parts(alpha: f64, g: f64, marked: f64) -> f64 {
    const PARTS: f64 = 1024.0;
    let alpha = alpha * PARTS;
    let lost = match (alpha * g).floor() {
        0.0 => alpha,
        lost => lost,
    };
    ((alpha - lost + (marked * PARTS * g).floor()) / PARTS).min(1.0)
}

impl Controller for Dctcp {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
        }
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        self.estimate(ack);
        if self.reduced_at.is_some_and(|at| ack.prior_delivered >= at) {
            self.reduced_at = None;
        }
        if ack.ce_bytes > Bytes::ZERO && self.reduced_at.is_none() && !ack.in_recovery {
            // Section 3.3 step 9: cwnd = cwnd · (1 - alpha/2).
            self.window.remember();
            let kept = match self.params.whole {
                true => {
                    let segments = self.window.cwnd_segments().floor();
                    let fewer = (segments * self.alpha / 2.0).floor();
                    self.window.cwnd * (segments - fewer) / segments.max(1.0)
                }
                false => self.window.cwnd * (1.0 - self.alpha / 2.0),
            };
            self.window.reduce(kept, 2.0);
            self.reduced_at = Some(ack.delivered);
        }
        if self.reduced_at.is_some() || !self.window.may_grow(ack) {
            return;
        }
        let mut acked = ack.newly_acked.get() as f64;
        if self.window.in_slow_start() {
            acked = self.window.slow_start(acked, self.params.abc as f64);
        }
        self.window.additive_increase(acked, 1.0);
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        // Section 3.5: losses as in RFC 5681. Marks are reported with the ACKs; an endpoint without accurate feedback
        // reports them as this event.
        let window = &mut self.window;
        match *congestion {
            Congestion::Loss { flight } | Congestion::Ecn { flight } => {
                window.remember();
                window.reduce(window.reference(flight) / 2.0, 2.0);
            }
            Congestion::Rto { repeated: true, .. } => window.collapse(None),
            Congestion::Rto { flight, .. } => {
                window.remember();
                window.collapse(Some(window.reference(flight) / 2.0));
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
    fn ecn(&self) -> EcnUse {
        EcnUse::Dctcp
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            variables: [Some(("alpha", self.alpha)), None, None],
            ..self.window.state(self.window.phase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Flow, flight, loss};
    use base::Duration;

    const MSS: u64 = 1000;
    const RTT: Duration = Duration::from_millis(1);

    fn dctcp(alpha: f64) -> (Dctcp, Flow) {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 100);
        let params = Params {
            alpha,
            ..Params::default()
        };
        let mut c = Dctcp::new(&params, &setup);
        c.window.ssthresh = c.window.cwnd;
        (c, Flow::new(RTT))
    }

    #[test]
    fn alpha_is_the_smoothed_part_that_is_marked() {
        let (mut c, mut flow) = dctcp(1.0);
        // Nothing marked: 15/16 per RTT; the round of the first ACK counts, too.
        flow.round(&mut c, MSS, RTT);
        let first = c.alpha;
        flow.round(&mut c, MSS, RTT);
        assert_eq!(c.alpha, first * 15.0 / 16.0);
        // A quarter marked from here on: towards 1/4.
        flow.marked_of_hundred = 25;
        (0..200).for_each(|_| flow.round(&mut c, MSS, RTT));
        assert!((c.alpha - 0.25).abs() < 0.06, "{}", c.alpha);
    }

    #[test]
    fn marks_reduce_by_half_of_alpha_once_in_a_round_trip() {
        let (mut c, mut flow) = dctcp(0.5);
        flow.marked_of_hundred = 100;
        let mut ack = flow.ack(&c, MSS, RTT);
        ack.ce_bytes = ack.newly_acked;
        c.on_ack(Time::ZERO, &ack);
        // The first ACK ends a round of its own, all marked: 15/16·0.5 + 1/16 = 0.53125.
        assert_eq!(
            c.cwnd(),
            Bytes::new((100_000.0f64 * (1.0 - 0.53125 / 2.0)).round() as u64)
        );
        let reduced = c.cwnd();
        for _ in 0..50 {
            let ack = Ack {
                ce_bytes: Bytes::new(MSS),
                newly_acked: Bytes::new(MSS),
                delivered: ack.delivered + Bytes::new(MSS),
                prior_delivered: Bytes::ZERO,
                ..ack
            };
            c.on_ack(Time::ZERO, &ack);
        }
        assert_eq!(c.cwnd(), reduced);
    }

    #[test]
    fn in_whole_segments_small_alphas_reduce_nothing_and_fade_to_zero() {
        // By hand: 512 of 1024 lose 32 and gain 16 of a quarter marked; 15 are too few to lose a sixteenth.
        assert_eq!(in_parts(512.0 / 1024.0, 0.0625, 0.25), 496.0 / 1024.0);
        assert_eq!(in_parts(15.0 / 1024.0, 0.0625, 0.0), 0.0);
        assert_eq!(in_parts(15.0 / 1024.0, 0.0625, 0.02), 1.0 / 1024.0);
        assert_eq!(in_parts(1.0, 0.0625, 1.0), 1.0);
        let reduced = |alpha: f64, whole: bool| {
            let (mut c, mut flow) = dctcp(alpha);
            c.params.whole = whole;
            c.window = c.window.whole(whole);
            c.rounds = Rounds::default();
            let mut ack = flow.ack(&c, MSS, RTT);
            ack.ce_bytes = ack.newly_acked;
            c.on_ack(Time::ZERO, &ack);
            c.cwnd().get()
        };
        // 0.01 and a round that is marked give 0.07: 3.5 of 100 segments go, and 3 in whole ones.
        assert_eq!(reduced(0.01, true), 97_000);
        assert!((96_000..97_000).contains(&reduced(0.01, false)));
    }

    #[test]
    fn a_loss_halves() {
        let (mut c, _) = dctcp(0.01);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(50 * MSS));
        assert_eq!(c.ecn(), EcnUse::Dctcp);
    }

    #[test]
    fn the_next_reduction_may_follow_when_what_was_sent_after_the_last_is_acknowledged() {
        let (mut c, mut flow) = dctcp(0.5);
        let mut tell = |c: &mut Dctcp, delivered, prior_delivered| {
            let mut ack = flow.ack(c, MSS, RTT);
            ack.ce_bytes = ack.newly_acked;
            ack.delivered = Bytes::new(delivered);
            ack.prior_delivered = Bytes::new(prior_delivered);
            let before = c.cwnd();
            c.on_ack(Time::ZERO, &ack);
            c.cwnd() < before
        };
        assert!(tell(&mut c, 500_000, 400_000));
        assert!(!tell(&mut c, 501_000, 499_000));
        assert!(tell(&mut c, 560_000, 500_000));
    }
}
