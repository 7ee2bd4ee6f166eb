//! Prague: DCTCP for the Internet, the sender of L4S. It marks its data ECT(1), smooths the marked fraction, reduces by
//! half of it, grows on unmarked data, paces, and behaves as if no RTT were shorter than 25 ms.
//!
//! **Source**: draft-briscoe-iccrg-prague-congestion-control-04, "Prague Congestion Control" (De Schepper,
//! Tilmans, Briscoe, Goel, 2024); the requirements are in RFC 9331, "The Explicit Congestion
//! Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S)" (2023), section 4.
//!
//! **Deviations**: falling back to Classic behaviour if the bottleneck's marks are Classic is omitted, because it is
//! off by default in the Linux code.
//!
//! **Units**: alpha from 0 to 1; the window in bytes, seconds.
//!
//! **Validated against**: the tests below; `tests/theory.rs` checks the window at a constant marking fraction, 2/p
//! segments.

use crate::controller::{Ack, Congestion, Controller, ControllerState, EcnUse, Sent, Setup};
use crate::window::{Rounds, Window, window_rate};
use base::spec::params;
use base::{BitsPerSec, Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "prague": "DCTCP for the Internet: the sender of L4S", [
        "draft-briscoe-iccrg-prague-congestion-control-04, Prague Congestion Control",
        "RFC 9331, The Explicit Congestion Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S)",
    ] {
        /// weight of the newest sample
        g: f64 as Probability = "0.0625" ["0.01".."0.99"], "the draft";
        /// marked fraction that a new connection assumes
        alpha: f64 as Probability = "1" ["0".."1"], "RFC 8257 section 4.2";
        /// shortest RTT that its behaviour assumes
        virtual_rtt: Duration = "25 ms" ["1 us".."1000 s"], "the draft";
        /// RTTs before `virtual_rtt` applies
        transition: u64 = "500" ["0".."1000000"], "the Linux code";
        /// most segments that an ACK may add in slow start
        abc: u64 = "2" ["1".."1000000"], "RFC 3465 section 2.3";
    }
}

/// Prague: the scalable sender of L4S.
#[derive(Clone, Copy, Debug)]
pub struct Prague {
    params: Params,
    window: Window,
    alpha: f64,
    rounds: Rounds,
    /// Round trips since slow start ended.
    avoided: u64,
    acked: f64,
    marked: f64,
    estimated: Time,
    reduced_at: Option<Bytes>,
    srtt: Option<Duration>,
}

impl Prague {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Prague {
        Prague {
            params: *params,
            window: Window::new(setup),
            alpha: params.alpha,
            rounds: Rounds::default(),
            avoided: 0,
            acked: 0.0,
            marked: 0.0,
            estimated: Time::ZERO,
            reduced_at: None,
            srtt: None,
        }
    }

    fn is_rtt_independent(&self) -> bool {
        self.avoided >= self.params.transition
    }

    /// Updates the average once per virtual RTT (the draft), so that flows of different RTTs agree on the marked
    /// fraction.
    fn estimate(&mut self, now: Time, ack: &Ack) {
        let ended = self.rounds.begins(ack);
        self.acked += ack.newly_acked.get() as f64;
        self.marked += ack.ce_bytes.min(ack.newly_acked).get() as f64;
        if !ended {
            return;
        }
        if !self.window.in_slow_start() {
            self.avoided += 1;
        }
        let due = !self.is_rtt_independent()
            || now.saturating_since(self.estimated) >= self.params.virtual_rtt;
        if due && self.acked > 0.0 {
            let m = self.marked / self.acked;
            self.alpha = (1.0 - self.params.g) * self.alpha + self.params.g * m;
            (self.acked, self.marked) = (0.0, 0.0);
            self.estimated = now;
        }
    }

    /// Returns the segments that one RTT adds. The draft: a flow of the virtual RTT V adds one segment per V, which is
    /// S/V² in rate; at an RTT of R that is (R/V)² segments.
    fn increment(&self) -> f64 {
        let virtual_s = self.params.virtual_rtt.as_secs_f64();
        match self.srtt {
            Some(srtt) if self.is_rtt_independent() && srtt.as_secs_f64() < virtual_s => {
                let ratio = srtt.as_secs_f64() / virtual_s;
                ratio * ratio
            }
            _ => 1.0,
        }
    }
}

impl Controller for Prague {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
        }
    }

    fn on_ack(&mut self, now: Time, ack: &Ack) {
        self.srtt = ack.srtt.or(self.srtt);
        self.estimate(now, ack);
        if self.reduced_at.is_some_and(|at| ack.prior_delivered >= at) {
            self.reduced_at = None;
        }
        let clean = ack.newly_acked.saturating_sub(ack.ce_bytes).get() as f64;
        if self.window.may_grow(ack) && clean > 0.0 {
            let mut acked = clean;
            if self.window.in_slow_start() && ack.ce_bytes == Bytes::ZERO {
                acked = self.window.slow_start(acked, self.params.abc as f64);
            }
            // The draft: every ACK adds its share, even in a round trip with marks; only marked bytes add nothing.
            if !self.window.in_slow_start() {
                let grown =
                    self.increment() * self.window.mss * (acked / self.window.cwnd).min(1.0);
                self.window.set(self.window.cwnd + grown, 2.0);
            }
        }
        if ack.ce_bytes > Bytes::ZERO && self.reduced_at.is_none() && !ack.in_recovery {
            self.window.remember();
            let kept = self.window.cwnd * (1.0 - self.alpha / 2.0);
            self.window.reduce(kept, 2.0);
            self.reduced_at = Some(ack.delivered);
        }
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        // The draft: losses as in Reno.
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
    fn pacing_rate(&self) -> Option<BitsPerSec> {
        // The draft: twice the window's rate while it doubles, otherwise exactly that rate.
        let gain = if self.window.cwnd < self.window.ssthresh / 2.0 {
            2.0
        } else {
            1.0
        };
        window_rate(self.cwnd(), self.srtt?, gain)
    }
    fn ecn(&self) -> EcnUse {
        EcnUse::L4s
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            pacing_rate: self.pacing_rate(),
            variables: [Some(("alpha", self.alpha)), None, None],
            ..self.window.state(self.window.phase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Flow, flight, loss};

    const MSS: u64 = 1000;

    fn prague(transition: u64) -> Prague {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 100);
        let params = Params {
            transition,
            ..Params::default()
        };
        let mut c = Prague::new(&params, &setup);
        c.window.ssthresh = c.window.cwnd;
        c
    }

    #[test]
    fn it_grows_a_segment_a_round_trip_and_less_for_short_ones_once_settled() {
        let mut c = prague(500);
        let mut flow = Flow::new(Duration::from_millis(5));
        flow.round(&mut c, MSS, Duration::from_millis(5));
        // Each ACK adds 1/W, so a round trip adds a little less than one.
        assert!(
            (c.cwnd().get() as f64 / 1000.0 - 101.0).abs() < 0.01,
            "{}",
            c.cwnd()
        );
        // A fifth of the virtual RTT: a twenty-fifth of a segment.
        let mut c = prague(0);
        let mut flow = Flow::new(Duration::from_millis(5));
        flow.round(&mut c, MSS, Duration::from_millis(5));
        assert!(
            (c.cwnd().get() as f64 / 1000.0 - 100.04).abs() < 0.002,
            "{}",
            c.cwnd()
        );
        // Long RTTs are not changed.
        let mut c = prague(0);
        let mut flow = Flow::new(Duration::from_millis(50));
        flow.round(&mut c, MSS, Duration::from_millis(50));
        assert!(
            (c.cwnd().get() as f64 / 1000.0 - 101.0).abs() < 0.01,
            "{}",
            c.cwnd()
        );
    }

    #[test]
    fn marks_reduce_by_half_of_alpha_and_losses_by_half() {
        let mut c = prague(500);
        c.alpha = 0.2;
        let mut flow = Flow::new(Duration::from_millis(50));
        let mut ack = flow.ack(&c, MSS, Duration::from_millis(50));
        ack.ce_bytes = ack.newly_acked;
        c.on_ack(Time::ZERO, &ack);
        // The ACK itself: alpha = 15/16·0.2 + 1/16 = 0.25.
        assert_eq!(c.cwnd(), Bytes::new(87_500));
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(43_750));
    }

    #[test]
    fn it_paces_at_its_window_a_round_trip() {
        let mut c = prague(500);
        assert_eq!(c.pacing_rate(), None);
        let mut flow = Flow::new(Duration::from_millis(100));
        let ack = flow.ack(&c, MSS, Duration::from_millis(100));
        c.on_ack(Time::ZERO, &ack);
        // 100 kB in 100 ms.
        let rate = c.pacing_rate().unwrap();
        assert!(
            rate >= BitsPerSec::from_mbps(8) && rate < BitsPerSec::from_kbps(8_010),
            "{rate}"
        );
        assert_eq!(c.ecn(), EcnUse::L4s);
    }

    #[test]
    fn once_settled_alpha_moves_once_a_virtual_round_trip() {
        let mut c = prague(0);
        let mut flow = Flow::new(Duration::from_millis(5));
        let mut alphas = Vec::new();
        for _ in 0..50 {
            flow.round(&mut c, MSS, Duration::from_millis(5));
            alphas.push(c.alpha);
        }
        alphas.dedup();
        // 250 ms hold ten of 25 ms.
        assert!((9..=11).contains(&alphas.len()), "{}", alphas.len());
    }
}
