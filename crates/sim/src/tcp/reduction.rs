//! Reduction of the window to ssthresh during recovery.
//!
//! **Source**: RFC 9937, "Proportional Rate Reduction (PRR)" (2025), section 6; and Linux before 3.2, after M. Mathis,
//! J. Semke, J. Mahdavi, "The Rate-Halving Algorithm for TCP Congestion Control" (draft-mathis-tcp-ratehalving-00,
//! 1999).
//!
//! **Deviations**: the share that is due is rounded up to whole segments, as Linux counts it (`tcp_cwnd_reduction`).
//!
//! **Units**: bytes of payload.
//!
//! **Validated against**: `tests/tcp.rs`; ns-2's Linux agent in `docs/book/sim-vs-ns2.md` for rate halving.

/// Proportional rate reduction, RFC 9937 section 6.
#[derive(Clone, Copy, Debug, Default)]
pub struct Proportional {
    delivered: u64,
    /// Bytes sent since the recovery started.
    out: u64,
    /// `RecoverFS`.
    flight: u64,
}

impl Proportional {
    /// Starts a recovery. Section 6.1: `flight` is the bytes outstanding at the start, without those already delivered
    /// by then.
    pub fn new(flight: u64) -> Proportional {
        Proportional {
            delivered: 0,
            out: 0,
            flight,
        }
    }

    /// Counts sent bytes.
    pub fn sent(&mut self, bytes: u64) {
        self.out += bytes;
    }

    /// Section 6.2: bytes that may be sent after an ACK that delivered `delivered` bytes with `pipe` in flight. `safe`
    /// is true if the ACK advanced and nothing more was lost.
    pub fn allowance(
        &mut self,
        delivered: u64,
        pipe: u64,
        ssthresh: u64,
        safe: bool,
        mss: u64,
    ) -> u64 {
        self.delivered += delivered;
        let send = if pipe > ssthresh {
            let share = u128::from(self.delivered) * u128::from(ssthresh);
            let due = (share.div_ceil(u128::from(self.flight)) as u64).saturating_sub(self.out);
            due.div_ceil(mss) * mss
        } else {
            let catch_up = self.delivered.saturating_sub(self.out).max(delivered);
            (catch_up + if safe { mss } else { 0 }).min(ssthresh - pipe)
        };
        // The first retransmission leaves at once.
        if self.out == 0 { send.max(mss) } else { send }
    }
}

/// Rate halving: every second ACK takes a segment from the window.
#[derive(Clone, Copy, Debug, Default)]
pub struct Halving {
    window: u64,
    /// True if the next ACK takes a segment.
    due: bool,
}

impl Halving {
    /// Creates a reduction from this window.
    pub fn new(window: u64) -> Halving {
        Halving { window, due: false }
    }

    /// Present window, bytes.
    pub fn window(&self) -> u64 {
        self.window
    }

    /// Window after this ACK: down to `floor` of ssthresh, and at most one segment more than is in flight.
    pub fn next(&mut self, ssthresh: u64, floor: f64, inflight: u64, mss: u64) -> u64 {
        if self.due && self.window as f64 > floor * ssthresh as f64 {
            self.window = self.window.saturating_sub(mss);
        }
        self.due = !self.due;
        self.window = self.window.min(inflight + mss).max(mss);
        self.window
    }
}
