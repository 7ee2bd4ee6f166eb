//! Limits of a sender: the receiver's window, its own application, or the network.
//!
//! **Source.** The three states are those of TCP's own bookkeeping in Linux (busy, window-limited, idle) and of T-RAT
//! (Zhang, Breslau, Paxson, Shenker 2002), inferred from packets. **Limits.** A sender whose application writes whole
//! segments slower than the path could carry them looks like a sender that the network limits.

/// Limit of a sender.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Limit {
    /// Application: the sender has sent all it has. The last segment was short, or all is acknowledged.
    #[default]
    Sender,
    /// Receiver: no further full segment fits into the offered window.
    Receiver,
    /// Network: the congestion window, a loss being repaired, or pacing.
    Network,
}

/// Time spent in each state, from the first data sent to the last acknowledged, ns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limited {
    /// Time without data to send, ns.
    pub sender_ns: i64,
    /// Time in which the receiver's window was full, ns.
    pub receiver_ns: i64,
    /// Remaining time, ns.
    pub network_ns: i64,
}

/// Window that a receiver offers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Offer {
    /// Bytes, unless the scale is unknown.
    pub bytes: u64,
    /// True if the handshake told the scale (RFC 7323).
    pub scaled: bool,
}

impl Offer {
    /// Window, if it is known.
    fn known(self) -> Option<u64> {
        self.scaled.then_some(self.bytes)
    }

    /// Least shift of an unknown scale at which so many bytes fit into it; 0 before any window was offered.
    fn shift(self, bytes: u64) -> usize {
        if self.bytes == 0 {
            return 0;
        }
        let times = bytes.div_ceil(self.bytes).max(1);
        (u64::BITS - (times - 1).leading_zeros()).min(BEYOND as u32) as usize
    }
}

/// Greatest shift of a scale (RFC 7323 section 2.3), and a greater one.
const SHIFT: usize = 14;
const BEYOND: usize = SHIFT + 1;
/// Part of the time in which a window may seem exceeded: the capture missed ACKs.
const EXCEEDED: f64 = 0.1;
/// Part of the time for which a window may have been full, and still did not hold the sender back.
const FULL: f64 = 0.02;

/// Times by the least shift of a window of unknown scale, ns.
#[derive(Clone, Copy, Debug, Default)]
struct Shifts {
    /// Shift at which a further full segment fits into it.
    room: [i64; BEYOND + 1],
    /// Shift at which it is not exceeded.
    within: [i64; BEYOND + 1],
}

impl Shifts {
    /// True if the window was hardly ever full, whatever its scale is. One that was exceeded is not the scale.
    fn were_open(&self, all_ns: i64) -> bool {
        let sum = |of: &[i64]| of.iter().map(|ns| *ns as f64).sum::<f64>();
        (0..=SHIFT).all(|shift| {
            let exceeded = sum(&self.within[shift + 1..]);
            let full = sum(&self.room[shift + 1..]);
            exceeded > EXCEEDED * sum(&self.within) || full <= FULL * all_ns as f64
        })
    }
}

/// Current state, and its start.
#[derive(Clone, Copy, Debug, Default)]
pub struct Limits {
    since: i64,
    state: Limit,
    begun: bool,
    /// True once the FIN is acknowledged: nothing more is counted.
    over: bool,
    /// True if the receiver's window opened just now.
    opened: bool,
    /// Shifts of a window of unknown scale, while only the network is seen to hold the sender back.
    shifts: Option<[usize; 2]>,
    by_shift: Shifts,
    /// Times by cause.
    pub spent: Limited,
}

/// Sender's knowledge at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Bytes in flight.
    pub outstanding: u64,
    /// Window offered by the receiver.
    pub window: Offer,
    /// Payload of a full segment, bytes.
    pub mss: u64,
    /// True if the last segment sent was a full one: more data was ready.
    pub more: bool,
    /// True while a loss is being repaired.
    pub repairing: bool,
    /// Bytes in flight before the latest ACK that it heard of, and the window then, if it sends what that let go.
    pub before: Option<(u64, Offer)>,
    /// True once its FIN is acknowledged.
    pub over: bool,
}

impl Moment {
    /// True if the window was full before the latest ACK.
    fn was_full(&self) -> bool {
        let full = |(bytes, window): (u64, Offer)| {
            window
                .known()
                .is_some_and(|w| bytes.saturating_add(self.mss) > w)
        };
        self.before.is_some_and(full)
    }

    /// Least shifts of the window's scale: with room for a further full segment, and without being exceeded.
    fn shifts(&self) -> [usize; 2] {
        let now = (self.outstanding, self.window);
        let of = |more: u64| {
            let both = [Some(now), self.before].into_iter().flatten();
            let shift = |(bytes, window): (u64, Offer)| window.shift(bytes.saturating_add(more));
            both.map(shift).max().unwrap_or(0)
        };
        [of(self.mss), of(0)]
    }
}

impl Limits {
    /// Assigns the time up to `t` to its cause.
    #[inline]
    pub fn at(&mut self, t: i64, now: Moment) {
        if self.begun && !self.over {
            let waited = (t - self.since).max(0);
            match self.state {
                Limit::Sender => self.spent.sender_ns = self.spent.sender_ns.saturating_add(waited),
                Limit::Receiver => {
                    self.spent.receiver_ns = self.spent.receiver_ns.saturating_add(waited)
                }
                Limit::Network => {
                    self.spent.network_ns = self.spent.network_ns.saturating_add(waited);
                    if let Some([room, within]) = self.shifts {
                        let by = &mut self.by_shift;
                        by.room[room] = by.room[room].saturating_add(waited);
                        by.within[within] = by.within[within].saturating_add(waited);
                    }
                }
            }
        }
        if now.outstanding > 0 {
            self.begun = true;
        }
        self.over |= now.over;
        self.since = self.since.max(t);
        let before = self.state;
        let window = now.window.known();
        let is_full = |w: u64| now.outstanding.saturating_add(now.mss) > w;
        self.state = match now {
            Moment { mss, .. } if window.is_some_and(|w| w < mss) => Limit::Receiver,
            Moment { outstanding: 0, .. } => Limit::Sender,
            Moment {
                repairing: true, ..
            } => Limit::Network,
            _ if now.was_full() || window.is_some_and(is_full) => Limit::Receiver,
            Moment { more: false, .. } => Limit::Sender,
            _ => Limit::Network,
        };
        let is_open = self.state == Limit::Network && !now.repairing && !now.window.scaled;
        self.shifts = is_open.then(|| now.shifts());
        self.opened = before == Limit::Receiver && self.state == Limit::Network;
    }

    /// True if a window of unknown scale was hardly ever full, whatever the scale is.
    pub fn were_open(&self) -> bool {
        let s = &self.spent;
        let all_ns = s.sender_ns.saturating_add(s.receiver_ns);
        self.by_shift.were_open(all_ns.saturating_add(s.network_ns))
    }

    /// Limit that holds the sender back, or that the latest ACK has just lifted.
    #[inline]
    pub fn limit(&self) -> Limit {
        match self.opened {
            true => Limit::Receiver,
            false => self.state,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A sender with more to send for ten seconds, with so many bytes in flight each millisecond beside this window.
    fn were_open(bytes: u64, in_flight: impl Fn(u64) -> u64) -> bool {
        let mut limits = Limits::default();
        let window = Offer {
            bytes,
            scaled: false,
        };
        for ms in 0..10_000 {
            let now = Moment {
                outstanding: in_flight(ms),
                window,
                mss: 1000,
                more: true,
                repairing: false,
                before: None,
                over: false,
            };
            limits.at(ms as i64 * 1_000_000, now);
        }
        limits.were_open()
    }

    #[test]
    fn a_window_of_unknown_scale_that_is_never_full_is_open() {
        // A sawtooth between 30 and 60 windows: on no scale is it full for long.
        assert!(were_open(500, |ms| 500 * (30 + ms % 30)));
        // Always 45 windows: it would be exceeded at 32, and hardly half full at 64.
        assert!(were_open(500, |_| 500 * 45));
    }

    #[test]
    fn a_window_of_unknown_scale_may_be_full_where_a_power_of_two_of_it_is_in_flight() {
        assert!(!were_open(500, |_| 500 * 64));
        assert!(!were_open(500, |_| 500 * 64 - 999));
        // Now and then the capture missed an ACK.
        let with_misses = |ms: u64| 500 * if ms.is_multiple_of(50) { 80 } else { 64 };
        assert!(!were_open(500, with_misses));
        // Full for a tenth of the time.
        assert!(!were_open(500, |ms| 500 * if ms < 1000 { 64 } else { 40 }));
    }
}
