//! Exit from slow start before it overshoots, because the RTT has grown. HyStart++ slows growth down first and leaves
//! only if the RTT stays high. Classic HyStart, as in Linux, leaves at once, and also if a train of ACKs lasts half the
//! smallest RTT.
//!
//! **Source**: RFC 9406, "HyStart++: Modified Slow Start for TCP" (Balasubramanian, Huang, Olson, 2023),
//! section 4. Classic: S. Ha, I. Rhee, "Taming the Elephants: New TCP Slow Start", Computer Networks 55,
//! 2011, with the constants of Linux.
//!
//! **Deviations**: HyStart++ rounds are counted in delivered data instead of SND.NXT, which is equivalent for
//! acknowledged data. Classic: the train may last half the smallest RTT, as Linux has it for senders that do not pace.
//!
//! **Units**: ns; windows in bytes.
//!
//! **Validated against**: the tests below, whose numbers follow from section 4.2 by hand.

use crate::controller::Ack;
use crate::window::{Rounds, Window};
use base::spec::choices;
use base::{Duration, Time};

choices! {
    /// Rule that ends slow start before a loss does.
    pub enum Mode {
        /// RFC 9406.
        PlusPlus = "plusplus",
        /// Linux's classic HyStart.
        Classic = "classic",
        /// No rule: only congestion ends slow start.
        Off = "off",
    }
}

// RFC 9406 section 4.3.
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
const MIN_RTT_DIVISOR: u64 = 8;
const N_RTT_SAMPLE: u32 = 8;
const CSS_GROWTH_DIVISOR: f64 = 4.0;
const CSS_ROUNDS: u64 = 5;
// Linux net/ipv4/tcp_cubic.c: module parameters of HyStart.
const LOW_WINDOW_SEGMENTS: f64 = 16.0;
const ACK_TRAIN_GAP: Duration = Duration::from_millis(2);

#[derive(Clone, Copy, Debug)]
pub(crate) struct Hystart {
    mode: Mode,
    rounds: Rounds,
    /// Smallest RTT of this round and of the last one.
    current: Option<Duration>,
    last: Option<Duration>,
    samples: u32,
    /// Conservative slow start: the smallest RTT that led to it, and the round in which it started.
    css: Option<(Duration, u64)>,
    round_start: Time,
    last_ack: Time,
}

impl Hystart {
    /// Creates the detector of a new connection.
    pub fn new(mode: Mode) -> Hystart {
        Hystart {
            mode,
            rounds: Rounds::default(),
            current: None,
            last: None,
            samples: 0,
            css: None,
            round_start: Time::ZERO,
            last_ack: Time::ZERO,
        }
    }

    /// True during conservative slow start.
    pub fn in_css(&self) -> bool {
        self.css.is_some()
    }

    /// Processes one ACK in slow start: lets the window grow by at most `limit` segments, leaves slow start if due.
    /// Returns the rest of the ACK for congestion avoidance.
    pub fn slow_start(&mut self, now: Time, ack: &Ack, window: &mut Window, limit: f64) -> f64 {
        let acked = ack.newly_acked.get() as f64;
        match self.mode {
            Mode::Off => window.slow_start(acked, limit),
            // Section 4.3: only for the first slow start, while ssthresh still has its initial value.
            Mode::PlusPlus if window.ssthresh.is_finite() => window.slow_start(acked, limit),
            Mode::PlusPlus => self.plus_plus(ack, acked, window, limit),
            Mode::Classic => {
                let left = window.slow_start(acked, limit);
                if window.in_slow_start() && self.classic(now, ack, window) {
                    window.ssthresh = window.cwnd;
                }
                left
            }
        }
    }

    fn plus_plus(&mut self, ack: &Ack, acked: f64, window: &mut Window, limit: f64) -> f64 {
        if self.rounds.begins(ack) {
            self.last = self.current.take();
            self.samples = 0;
            if let Some((_, began)) = self.css
                && self.rounds.count() - began >= CSS_ROUNDS
            {
                window.ssthresh = window.cwnd;
                self.css = None;
                return acked;
            }
        }
        self.sample(ack);
        let enough = self.samples >= N_RTT_SAMPLE;
        match (self.css, self.current, self.last) {
            (None, Some(current), Some(last)) if enough => {
                let threshold = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                if current >= last + threshold {
                    self.css = Some((current, self.rounds.count()));
                }
            }
            // The RTT fell again: it was jitter.
            (Some((baseline, _)), Some(current), _) if enough && current < baseline => {
                self.css = None;
            }
            _ => {}
        }
        if self.css.is_some() {
            let grown = acked.min(limit * window.mss) / CSS_GROWTH_DIVISOR;
            window.set(window.cwnd + grown, 1.0);
            0.0
        } else {
            window.slow_start(acked, limit)
        }
    }

    fn classic(&mut self, now: Time, ack: &Ack, window: &Window) -> bool {
        if self.rounds.begins(ack) {
            self.round_start = now;
            self.last_ack = now;
            self.current = None;
            self.samples = 0;
        }
        let least = ack.min_rtt.or(ack.rtt);
        let (Some(least), true) = (least, window.cwnd_segments() >= LOW_WINDOW_SEGMENTS) else {
            return false;
        };
        if now.saturating_since(self.last_ack) <= ACK_TRAIN_GAP {
            self.last_ack = now;
            if now.saturating_since(self.round_start) > least / 2 {
                return true;
            }
        }
        let enough = self.samples >= N_RTT_SAMPLE;
        self.sample(ack);
        let threshold = (least / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
        enough && self.current.is_some_and(|c| c > least + threshold)
    }

    fn sample(&mut self, ack: &Ack) {
        if let Some(rtt) = ack.rtt {
            // RTTs of one hour do not occur; the bound keeps sums exact.
            let rtt = rtt.min(Duration::from_secs(3600));
            self.current = Some(self.current.map_or(rtt, |c| c.min(rtt)));
            self.samples = self.samples.saturating_add(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::controller::Setup;
    use base::Bytes;

    const MSS: u64 = 1000;

    /// Runs slow start over rounds of the given RTTs in ms; ACKs of a round come `gap` apart. Returns the window in
    /// segments after each round, and the round in which slow start was left.
    fn run(mode: Mode, rtts: &[u64], gap: Duration) -> (Vec<u64>, Option<usize>) {
        let setup = Setup::with_initial_segments(Bytes::new(MSS), 10);
        let mut window = Window::new(&setup);
        let mut hystart = Hystart::new(mode);
        let (mut delivered, mut now, mut left) = (0, Time::ZERO, None);
        let mut windows = Vec::new();
        let least = Duration::from_millis(*rtts.iter().min().unwrap());
        for (round, rtt) in rtts.iter().enumerate() {
            let at_start = delivered;
            let segments = window.cwnd_bytes().get() / MSS;
            now += Duration::from_millis(*rtt);
            for i in 0..segments {
                delivered += MSS;
                let ack = Ack {
                    newly_acked: Bytes::new(MSS),
                    rtt: Some(Duration::from_millis(*rtt)),
                    min_rtt: Some(least),
                    delivered: Bytes::new(delivered),
                    prior_delivered: Bytes::new(at_start),
                    cwnd_limited: true,
                    ..Ack::default()
                };
                if window.in_slow_start() {
                    hystart.slow_start(now + gap * i, &ack, &mut window, 8.0);
                    if !window.in_slow_start() {
                        left = left.or(Some(round));
                    }
                }
            }
            windows.push(window.cwnd_bytes().get() / MSS);
        }
        (windows, left)
    }

    #[test]
    fn off_and_steady_round_trips_keep_doubling() {
        for mode in [Mode::Off, Mode::PlusPlus, Mode::Classic] {
            let gap = Duration::from_nanos(1);
            assert_eq!(run(mode, &[100; 4], gap), (vec![20, 40, 80, 160], None));
        }
    }

    #[test]
    fn plusplus_slows_to_a_quarter_when_the_round_trip_grows_and_leaves_after_five_rounds() {
        // Threshold for 100 ms: 12.5 ms, an eighth. 112 ms is not enough, 113 ms is.
        let gap = Duration::from_nanos(1);
        assert_eq!(run(Mode::PlusPlus, &[100, 112, 112], gap).0, [20, 40, 80]);
        // Round 2 has 20 ACKs: 7 grow by one, from the eighth on by a quarter: 20+7+13/4 = 30.25.
        // Then 30·1/4 more each round, and on the first ACK of the fifth round after it is over.
        let (windows, left) = run(
            Mode::PlusPlus,
            &[100, 113, 113, 113, 113, 113, 113, 113],
            gap,
        );
        assert_eq!(windows, [20, 30, 37, 47, 58, 73, 73, 73]);
        assert_eq!(left, Some(6));
    }

    #[test]
    fn plusplus_slows_at_the_threshold_itself() {
        // RFC 9406 section 4.2: an eighth of 120 ms is 15 ms, and 135 ms is "at least" that more.
        let gap = Duration::from_nanos(1);
        assert_eq!(run(Mode::PlusPlus, &[120, 135], gap).0, [20, 30]);
        assert_eq!(run(Mode::PlusPlus, &[120, 134], gap).0, [20, 40]);
    }

    #[test]
    fn plusplus_takes_up_speed_again_when_it_was_jitter() {
        let gap = Duration::from_nanos(1);
        let (windows, left) = run(Mode::PlusPlus, &[100, 120, 100, 100], gap);
        // Round 3 has 30 ACKs: 7 by a quarter, 23 by one: 30.25+1.75+23 = 55.
        assert_eq!(windows, [20, 30, 55, 110]);
        assert_eq!(left, None);
    }

    #[test]
    fn classic_leaves_at_once_when_the_round_trip_grows() {
        let gap = Duration::from_nanos(1);
        let (_, left) = run(Mode::Classic, &[100, 100, 113, 113], gap);
        assert_eq!(left, Some(2));
        assert_eq!(run(Mode::Classic, &[100, 100, 112, 112], gap).1, None);
    }

    #[test]
    fn classic_leaves_when_acks_come_in_a_train_of_half_a_round_trip() {
        // 1 ms apart: 20 segments are a train of 20 ms, 40 of 40 ms, 80 of 80 ms > 50 ms.
        let (windows, left) = run(Mode::Classic, &[100; 5], Duration::from_millis(1));
        assert_eq!(left, Some(3));
        // 51 ms after the first of 80 ACKs, 52 of them have come.
        assert_eq!(windows[3], 80 + 52);
    }
}
