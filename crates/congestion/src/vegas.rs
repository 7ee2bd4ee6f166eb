//! Vegas: compares its rate with the rate on an empty path, and keeps a few segments in the bottleneck's queue.
//!
//! **Source**: L. Brakmo, L. Peterson, "TCP Vegas: End to End Congestion Avoidance on a Global Internet",
//! IEEE JSAC 13(8), 1995, sections 3.2 and 3.3.
//!
//! **Deviations**: the RTT of a round is the smallest of its samples, as in Linux, instead of one distinguished
//! segment's, so delayed ACKs do not look like a queue. The paper's own retransmission rules belong to the endpoint.
//!
//! **Units**: segments, seconds; the window in bytes.
//!
//! **Validated against**: the tests below, by hand from section 3.2.

use crate::controller::{Ack, Congestion, Controller, ControllerState, Sent, Setup};
use crate::window::{Rounds, Window};
use base::spec::params;
use base::{Bytes, Duration, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "vegas": "keeps two to four segments in the bottleneck's queue, by comparing round trips", [
        "L. Brakmo, L. Peterson, TCP Vegas: End to End Congestion Avoidance on a Global Internet, IEEE JSAC 13(8), 1995",
    ] {
        /// queued segments below which the window grows
        alpha: f64 = "2" ["0.1".."100000"], "section 3.2, Linux";
        /// queued segments above which the window shrinks
        beta: f64 = "4" ["0.1".."100000"], "section 3.2, Linux";
        /// queued segments that end slow start
        gamma: f64 = "1" ["0.1".."100000"], "section 3.3";
        /// fraction of the window kept on a loss
        kept: f64 as Probability = "0.75" ["0.01".."0.99"], "the authors' code";
    }
}

/// Vegas: two to four segments in the bottleneck's queue, by round trips.
#[derive(Clone, Copy, Debug)]
pub struct Vegas {
    params: Params,
    window: Window,
    rounds: Rounds,
    /// Smallest RTT of this round.
    least: Option<Duration>,
    /// Latest estimate of segments in the queue.
    queued: f64,
}

impl Vegas {
    /// Creates the controller of a new connection.
    pub fn new(params: &Params, setup: &Setup) -> Vegas {
        Vegas {
            params: *params,
            window: Window::new(setup),
            rounds: Rounds::default(),
            least: None,
            queued: 0.0,
        }
    }

    /// Adjusts the window once per RTT, from the smallest RTT of the round.
    fn compare(&mut self, base: Duration, rtt: Duration, limited: bool) {
        let window = &mut self.window;
        let cwnd = window.cwnd_segments();
        // Section 3.2: (Expected - Actual) · BaseRTT.
        self.queued = cwnd * (1.0 - base.as_secs_f64() / rtt.as_secs_f64().max(1e-9));
        if window.in_slow_start() {
            if self.queued > self.params.gamma {
                // Section 3.3: the last doubling was too much; reduce by an eighth.
                window.set(window.cwnd * 7.0 / 8.0, 2.0);
                window.ssthresh = window.cwnd;
            }
        } else if self.queued < self.params.alpha {
            if limited {
                window.set(window.cwnd + window.mss, 2.0);
            }
        } else if self.queued > self.params.beta {
            window.set(window.cwnd - window.mss, 2.0);
            window.ssthresh = window.ssthresh.min(window.cwnd);
        }
    }
}

impl Controller for Vegas {
    fn on_sent(&mut self, _now: Time, sent: &Sent) {
        if sent.idle.is_some_and(|idle| idle.restart) {
            self.window.restart();
        }
    }

    fn on_ack(&mut self, _now: Time, ack: &Ack) {
        let ended = self.rounds.begins(ack);
        if ack.in_recovery {
            self.least = None;
            return;
        }
        if ended && let (Some(rtt), Some(base)) = (self.least.take(), ack.min_rtt) {
            self.compare(base, rtt, self.window.may_grow(ack));
        }
        if let Some(rtt) = ack.rtt {
            self.least = Some(self.least.map_or(rtt, |l| l.min(rtt)));
        }
        // Section 3.3: slow start doubles every other round trip and measures in between.
        let doubling = self.rounds.count() % 2 == 1;
        if self.window.in_slow_start() && doubling && self.window.may_grow(ack) {
            self.window.slow_start(ack.newly_acked.get() as f64, 2.0);
        }
    }

    fn on_congestion(&mut self, _now: Time, congestion: &Congestion) {
        let window = &mut self.window;
        match *congestion {
            Congestion::Loss { flight } | Congestion::Ecn { flight } => {
                window.remember();
                window.reduce(window.reference(flight) * self.params.kept, 2.0);
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
        self.least = None;
    }

    fn cwnd(&self) -> Bytes {
        self.window.cwnd_bytes()
    }
    fn ssthresh(&self) -> Option<Bytes> {
        self.window.ssthresh_bytes()
    }
    fn state(&self) -> ControllerState {
        ControllerState {
            variables: [Some(("queued_segments", self.queued)), None, None],
            ..self.window.state(self.window.phase())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Flow, flight, loss};

    const MSS: u64 = 1000;

    fn vegas(segments: u64) -> (Vegas, Flow) {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), segments);
        let c = Vegas::new(&Params::default(), &setup);
        (c, Flow::new(Duration::from_millis(100)))
    }
    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    #[test]
    fn slow_start_doubles_every_other_round_trip() {
        let (mut c, mut flow) = vegas(4);
        let windows: Vec<u64> = (0..5)
            .map(|_| {
                flow.round(&mut c, MSS, ms(100));
                c.cwnd().get() / MSS
            })
            .collect();
        assert_eq!(windows, [8, 8, 16, 16, 32]);
    }

    #[test]
    fn slow_start_ends_with_a_segment_in_the_queue() {
        let (mut c, mut flow) = vegas(20);
        // 110 ms: 1 - 100/110 of 40 segments, 3.6, are queued.
        flow.round(&mut c, MSS, ms(100));
        flow.round(&mut c, MSS, ms(110));
        flow.round(&mut c, MSS, ms(110));
        assert_eq!(c.state().phase, "congestion-avoidance");
        assert_eq!(c.cwnd(), Bytes::new(35 * MSS));
    }

    #[test]
    fn it_keeps_between_two_and_four_segments_in_the_queue() {
        let (mut c, mut flow) = vegas(40);
        c.on_congestion(Time::ZERO, &loss(flight(&c)));
        assert_eq!(c.cwnd(), Bytes::new(30 * MSS));
        // A path that holds 25 segments in 100 ms: the rest is queued.
        for _ in 0..40 {
            let rtt = Duration::from_nanos(c.cwnd().get() * 100_000_000 / (25 * MSS));
            flow.round(&mut c, MSS, rtt.max(ms(100)));
        }
        let queued = c.cwnd().get() / MSS - 25;
        assert!((2..=4).contains(&queued), "{queued}");
    }

    #[test]
    fn with_two_to_four_segments_queued_the_window_stands() {
        // 100 segments; 2.5, 3.9, 1.9 and 4.5 of them queued.
        for (queued, expected) in [(2.5, 100), (3.9, 100), (1.9, 101), (4.5, 99)] {
            let (mut c, _) = vegas(100);
            c.window.ssthresh = c.window.cwnd;
            let rtt = Duration::from_secs_f64(0.1 / (1.0 - queued / 100.0));
            c.compare(ms(100), rtt, true);
            assert_eq!(c.cwnd(), Bytes::new(expected * MSS), "{queued}");
        }
    }
}
