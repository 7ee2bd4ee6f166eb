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
    /// Times by cause.
    pub spent: Limited,
}

/// Sender's knowledge at one moment.
#[derive(Clone, Copy, Debug)]
pub struct Moment {
    /// Bytes in flight.
    pub outstanding: u64,
    /// Window offered by the receiver; `None` if it is not known.
    pub window: Option<u64>,
    /// Payload of a full segment, bytes.
    pub mss: u64,
    /// True if the last segment sent was a full one: more data was ready.
    pub more: bool,
    /// True while a loss is being repaired.
    pub repairing: bool,
    /// True if the window is full, whatever is outstanding.
    pub full: bool,
    /// True once its FIN is acknowledged.
    pub over: bool,
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
                    self.spent.network_ns = self.spent.network_ns.saturating_add(waited)
                }
            }
        }
        if now.outstanding > 0 {
            self.begun = true;
        }
        self.over |= now.over;
        self.since = self.since.max(t);
        let before = self.state;
        self.state = match now {
            Moment {
                window: Some(w),
                mss,
                ..
            } if w < mss => Limit::Receiver,
            Moment { outstanding: 0, .. } => Limit::Sender,
            Moment {
                repairing: true, ..
            } => Limit::Network,
            Moment {
                window: Some(w),
                outstanding,
                mss,
                ..
            } if now.full || outstanding + mss > w => Limit::Receiver,
            Moment { more: false, .. } => Limit::Sender,
            _ => Limit::Network,
        };
        self.opened = before == Limit::Receiver && self.state == Limit::Network;
    }

    /// True if the sender had data to send and a window for it: only the network held it back.
    #[inline]
    pub fn is_network(&self) -> bool {
        self.begun && self.state == Limit::Network && !self.opened
    }
}
