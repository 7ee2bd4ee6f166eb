//! Shared parts of window-based controllers: the window with slow start, byte counting, halving and undo; round trips
//! counted in data; pacing derived from a window.
//!
//! **Source**: RFC 5681, "TCP Congestion Control" (Allman, Paxson, Blanton, 2009), section 3.1;
//! RFC 3465, "TCP Congestion Control with Appropriate Byte Counting (ABC)" (Allman, 2003), section 2.
//!
//! **Units**: bytes, with fractions, because an ACK may add less than one byte.

use crate::controller::{Ack, ControllerState, Setup};
use base::{BitsPerSec, Bytes, Duration};

/// Largest window that is kept: 1 TB, far above any path's capacity, and exact in a double.
const MOST_BYTES: f64 = 1e12;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Window {
    /// Payload of a full segment, bytes.
    pub mss: f64,
    /// Initial window, bytes.
    pub initial: f64,
    /// Congestion window, bytes.
    pub cwnd: f64,
    /// Slow-start threshold; infinite until the first congestion event.
    pub ssthresh: f64,
    /// True to count in whole segments, as Linux does: ssthresh is rounded down, slow start continues while the window
    /// equals it, and a step of congestion avoidance takes one ACK more than the window has segments.
    whole: bool,
    /// True if slow start follows a time-out.
    after_rto: bool,
    /// Bytes acknowledged since the window last grew by a segment, in congestion avoidance.
    counted: f64,
    /// Window and ssthresh before the last reduction.
    undo: Option<(f64, f64)>,
}

impl Window {
    /// Creates the window of a new connection.
    pub fn new(setup: &Setup) -> Window {
        let mss = setup.mss.get().max(1) as f64;
        Window {
            mss,
            initial: setup.initial_window.get() as f64,
            cwnd: (setup.initial_window.get() as f64).clamp(mss, MOST_BYTES),
            ssthresh: f64::INFINITY,
            whole: false,
            after_rto: false,
            counted: 0.0,
            undo: None,
        }
    }

    /// Window that is told in whole segments, or not.
    pub fn whole(self, whole: bool) -> Window {
        Window { whole, ..self }
    }

    /// True if the window is below the threshold.
    #[inline]
    pub fn in_slow_start(&self) -> bool {
        self.cwnd < self.slow_start_end()
    }

    #[inline]
    fn slow_start_end(&self) -> f64 {
        self.ssthresh + if self.whole { self.mss } else { 0.0 }
    }

    /// Returns `ssthresh` bytes as this window stores it: at least 2 segments (RFC 5681 equation 4).
    fn kept(&self, ssthresh: f64) -> f64 {
        let kept = match self.whole {
            true => (ssthresh / self.mss).floor() * self.mss,
            false => ssthresh,
        };
        kept.max(2.0 * self.mss)
    }

    /// Congestion window in segments.
    #[inline]
    pub fn cwnd_segments(&self) -> f64 {
        self.cwnd / self.mss
    }

    /// Sets the window to `bytes`, but at least `least` segments.
    #[inline]
    pub fn set(&mut self, bytes: f64, least: f64) {
        self.cwnd = bytes.clamp(least * self.mss, MOST_BYTES);
    }

    /// True if this ACK may let the window grow.
    #[inline]
    pub fn may_grow(&self, ack: &Ack) -> bool {
        // RFC 7661 section 4.3 and Linux: in slow start a window more than half full counts as used, because it doubles
        // within one RTT.
        let used = ack.cwnd_limited
            || self.in_slow_start() && 2.0 * ack.inflight_before.get() as f64 > self.cwnd;
        used && !ack.in_recovery
    }

    /// Grows the window by RFC 5681 equation 2 with the byte counting of RFC 3465 section 2.2: by the bytes
    /// acknowledged, at most `limit` segments per ACK, up to ssthresh. Returns the rest of `acked` for congestion
    /// avoidance.
    pub fn slow_start(&mut self, acked: f64, limit: f64) -> f64 {
        // RFC 3465 section 2.3: after a time-out an ACK may cover data delivered long ago.
        let limit = if self.after_rto { 1.0 } else { limit };
        let grown = acked.min(limit * self.mss);
        let end = self.slow_start_end();
        let room = end - self.cwnd;
        if grown < room {
            self.set(self.cwnd + grown, 1.0);
            return 0.0;
        }
        self.set(end, 1.0);
        self.after_rto = false;
        self.counted = 0.0;
        acked - room
    }

    /// Grows the window by `alpha` segments for each window of data acknowledged (RFC 3465 section 2.1).
    pub fn additive_increase(&mut self, acked: f64, alpha: f64) {
        self.counted += acked;
        // One step suffices for any real ACK; a stretch over several windows counts once.
        let step = self.cwnd + if self.whole { self.mss } else { 0.0 };
        if self.counted >= step {
            self.counted = (self.counted - step).min(self.cwnd);
            self.set(self.cwnd + alpha * self.mss, 1.0);
        }
    }

    /// Returns the bytes from which a reduction starts: the flight (RFC 5681 equation 4), but never more than the
    /// window, so that segments of limited transmit do not count.
    pub fn reference(&self, flight: Bytes) -> f64 {
        (flight.get() as f64).min(self.cwnd)
    }

    /// Stores the state that [`Window::undo`] restores.
    pub fn remember(&mut self) {
        self.undo = Some((self.cwnd, self.ssthresh));
    }

    /// Reduces ssthresh and cwnd to `ssthresh` bytes, ssthresh to no less than 2 segments (RFC 5681 equation 4), cwnd
    /// to no less than `least` segments.
    pub fn reduce(&mut self, ssthresh: f64, least: f64) {
        self.ssthresh = self.kept(ssthresh);
        let window = if self.whole { self.ssthresh } else { ssthresh };
        self.set(window.min(self.cwnd), least);
        self.counted = 0.0;
        self.after_rto = false;
    }

    /// Reduces the window to one segment, the loss window, after a time-out (RFC 5681 section 3.1).
    pub fn collapse(&mut self, ssthresh: Option<f64>) {
        if let Some(ssthresh) = ssthresh {
            self.ssthresh = self.kept(ssthresh);
        }
        self.cwnd = self.mss;
        self.counted = 0.0;
        self.after_rto = true;
    }

    /// Lowers the window to `window` bytes, at least one segment; ssthresh stays.
    pub fn settle(&mut self, window: Bytes) {
        self.set(self.cwnd.min(window.get() as f64), 1.0);
    }

    /// Restores the state before the last reduction, which was spurious. Never lowers anything (RFC 9438 section 4.9).
    pub fn undo(&mut self) -> bool {
        let Some((cwnd, ssthresh)) = self.undo.take() else {
            return false;
        };
        self.cwnd = self.cwnd.max(cwnd);
        self.ssthresh = self.ssthresh.max(ssthresh);
        self.after_rto = false;
        true
    }

    /// Limits the window to the initial one after a long idle period (RFC 5681 section 4.1).
    pub fn restart(&mut self) {
        self.cwnd = self.cwnd.min(self.initial.max(self.mss));
        self.counted = 0.0;
    }

    /// Returns the window, rounded to the nearest byte.
    #[inline]
    pub fn cwnd_bytes(&self) -> Bytes {
        // Rounds half up; adding and truncating is cheaper than a call to round.
        Bytes::new((self.cwnd.max(self.mss) + 0.5) as u64)
    }
    /// Slow-start threshold in bytes; none before the first congestion.
    #[inline]
    pub fn ssthresh_bytes(&self) -> Option<Bytes> {
        self.ssthresh
            .is_finite()
            .then(|| Bytes::new(self.ssthresh.round() as u64))
    }
    /// State for recordings, with the name of the phase.
    pub fn state(&self, phase: &'static str) -> ControllerState {
        ControllerState {
            cwnd: self.cwnd_bytes(),
            ssthresh: self.ssthresh_bytes(),
            pacing_rate: None,
            phase,
            variables: [None; 3],
        }
    }
    /// Name of the phase: slow start, avoidance.
    pub fn phase(&self) -> &'static str {
        if self.in_slow_start() {
            "slow-start"
        } else {
            "congestion-avoidance"
        }
    }
}

/// Counter of round trips in terms of data: a round trip is over when data is acknowledged that was sent after the
/// previous round trip was over.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rounds {
    next: Bytes,
    count: u64,
}

impl Rounds {
    /// True if a new round trip starts with this ACK.
    pub fn begins(&mut self, ack: &Ack) -> bool {
        let begins = ack.prior_delivered >= self.next;
        if begins {
            self.next = ack.delivered;
            self.count += 1;
        }
        begins
    }
    /// Starts a round trip now.
    pub fn restart(&mut self, delivered: Bytes) {
        self.next = delivered;
    }
    /// Number of round trips so far.
    pub fn count(&self) -> u64 {
        self.count
    }
}

/// Returns the segments of `mss` that leave together at a paced rate: a millisecond of it, at most 64 kB, and two at least above
/// 1.2 Mbit/s (Linux, `tcp_tso_autosize`, `bbr_tso_segs_goal`).
pub fn send_quantum(rate: BitsPerSec, mss: Bytes) -> u64 {
    let least = if rate.get() < 1_200_000 { 1 } else { 2 };
    let most = (65_536 / mss.get().max(1)).max(least);
    (rate.get() / 8 / 1024 / mss.get().max(1)).clamp(least, most)
}

/// Returns `window` spread over one RTT, times `gain`: the pacing rate of an endpoint whose controller names none.
/// Linux uses a gain of 2 in slow start and 1.2 otherwise, so that pacing does not limit the window. `None` if the RTT
/// is unknown.
pub fn window_rate(window: Bytes, srtt: Duration, gain: f64) -> Option<BitsPerSec> {
    let rate = gain * window.get() as f64 * 8.0 / srtt.as_secs_f64();
    // At least 1 bit/s: a rate of zero would never finish.
    (!srtt.is_zero()).then(|| BitsPerSec::new(rate.max(1.0) as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn initial_windows_are_those_of_the_documents() {
        // RFC 6928 section 2; RFC 5681 section 3.1.
        let iw = |mss| Setup::new(Bytes::new(mss)).initial_window.get();
        assert_eq!(
            (iw(1460), iw(1448), iw(536), iw(8960)),
            (14_600, 14_480, 5_360, 17_920)
        );
        let iw = |mss| Setup::rfc5681(Bytes::new(mss)).initial_window.get();
        assert_eq!(
            (iw(1095), iw(1096), iw(1460), iw(2191)),
            (4_380, 3_288, 4_380, 4_382)
        );
    }

    #[test]
    fn in_whole_segments_as_linux_counts_nine_of_nineteen_stay_and_the_next_ack_makes_ten() {
        // tcp_reno_ssthresh, tcp_slow_start and tcp_cong_avoid of Linux 2.6.22, by hand; and RFC 5681 beside them.
        let after = |whole, acks| {
            let mut window = Window::new(&Setup::new(Bytes::new(1000))).whole(whole);
            window.set(19_000.0, 1.0);
            window.reduce(9_500.0, 2.0);
            for _ in 0..acks {
                let mut acked = 1000.0;
                if window.in_slow_start() {
                    acked = window.slow_start(acked, 1.0);
                }
                window.additive_increase(acked, 1.0);
            }
            window.cwnd
        };
        assert_eq!(
            [0, 1, 11, 12].map(|n| after(true, n)),
            [9e3, 10e3, 10e3, 11e3]
        );
        assert_eq!(
            [0, 1, 9, 10].map(|n| after(false, n)),
            [9.5e3, 9.5e3, 9.5e3, 10.5e3]
        );
    }

    #[test]
    fn a_round_trip_passes_when_what_was_sent_in_it_is_acknowledged() {
        let mut rounds = Rounds::default();
        let mut begins = |delivered, prior_delivered| {
            rounds.begins(&Ack {
                delivered: Bytes::new(delivered),
                prior_delivered: Bytes::new(prior_delivered),
                ..Ack::default()
            })
        };
        // Ten segments sent at once: only the first starts a round trip.
        assert!(begins(1, 0));
        assert!((2..=10).all(|d| !begins(d, 0)));
        // The next ones were sent as those were acknowledged.
        assert!(begins(11, 1));
        assert!((12..=20).all(|d| !begins(d, d - 10)));
        assert!(begins(21, 11));
        assert_eq!(rounds.count(), 3);
    }

    #[test]
    fn pacing_spreads_the_window_over_the_round_trip() {
        // 100 kB in 100 ms are 8 Mbit/s.
        let rate = |srtt| window_rate(Bytes::new(100_000), srtt, 1.2);
        assert_eq!(
            rate(Duration::from_millis(100)),
            Some(BitsPerSec::from_kbps(9_600))
        );
        assert_eq!(rate(Duration::ZERO), None);
    }
}
