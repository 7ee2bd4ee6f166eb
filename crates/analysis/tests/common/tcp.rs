//! A small TCP: CUBIC (RFC 9438) with selective acknowledgements, delayed acknowledgements and
//! retransmission time-out, one packet the unit. Enough to fill queues the way real transfers do.

use std::collections::BTreeSet;

pub const MSS: i64 = 1448;
/// ns
pub type Ns = i64;
const S_MAX: Ns = 100_000_000_000;

pub struct Sender {
    /// The most packets under way that the socket buffers allow.
    most: f64,
    pub next: i64,
    pub acked: i64,
    sacked: BTreeSet<i64>,
    lost: BTreeSet<i64>,
    resent: BTreeSet<i64>,
    sent_at: std::collections::BTreeMap<i64, (Ns, bool)>,
    pub cwnd: f64,
    pub ssthresh: Option<f64>,
    recovery: Option<i64>,
    w_max: f64,
    epoch: Option<Ns>,
    round_end: i64,
    round_min: Ns,
    pub srtt: Option<f64>,
    pub rttvar: f64,
    pub min_rtt: Ns,
    pub retransmits: i64,
    pub last_progress: Ns,
    backoff: i64,
}

impl Sender {
    pub fn new(most: f64) -> Sender {
        Sender {
            most,
            next: 0,
            acked: 0,
            sacked: BTreeSet::new(),
            lost: BTreeSet::new(),
            resent: BTreeSet::new(),
            sent_at: Default::default(),
            cwnd: 10.0,
            ssthresh: None,
            recovery: None,
            w_max: 0.0,
            epoch: None,
            round_end: 0,
            round_min: Ns::MAX,
            srtt: None,
            rttvar: 0.0,
            min_rtt: Ns::MAX,
            retransmits: 0,
            last_progress: 0,
            backoff: 1,
        }
    }

    fn in_flight(&self) -> i64 {
        self.next - self.acked - self.sacked.len() as i64 - self.lost.len() as i64
            + self.resent.iter().filter(|s| self.lost.contains(s)).count() as i64
    }

    /// The packet to send now, if the window has room.
    pub fn transmit(&mut self, now: Ns) -> Option<i64> {
        if self.in_flight() >= self.cwnd.clamp(1.0, self.most) as i64 {
            return None;
        }
        if self.acked == self.next {
            self.last_progress = now;
        }
        let missing = self.lost.iter().copied().find(|s| !self.resent.contains(s));
        let (seq, again) = match missing {
            Some(seq) => {
                self.resent.insert(seq);
                self.retransmits += 1;
                self.last_progress = now;
                (seq, true)
            }
            None => {
                self.next += 1;
                (self.next - 1, false)
            }
        };
        self.sent_at.insert(seq, (now, again));
        Some(seq)
    }

    pub fn rto(&self) -> Ns {
        let srtt = self.srtt.unwrap_or(1e9);
        ((srtt + (4.0 * self.rttvar).max(2e8)) as Ns) * self.backoff
    }

    pub fn time_out(&mut self, now: Ns) {
        if self.acked == self.next || now - self.last_progress < self.rto() {
            return;
        }
        self.reduce(now);
        self.cwnd = 1.0;
        self.lost = (self.acked..self.next)
            .filter(|s| !self.sacked.contains(s))
            .collect();
        self.resent.clear();
        self.recovery = Some(self.next);
        self.last_progress = now;
        self.backoff = (self.backoff * 2).min(16);
    }

    fn reduce(&mut self, now: Ns) {
        // RFC 9438 §4.6 and §4.7: factor 0.7 and fast convergence.
        self.w_max = if self.cwnd < self.w_max {
            self.cwnd * 0.85
        } else {
            self.cwnd
        };
        self.cwnd = (self.cwnd * 0.7).max(2.0);
        self.ssthresh = Some(self.cwnd);
        self.epoch = None;
        self.recovery = Some(self.next);
        let _ = now;
    }

    pub fn ack(&mut self, now: Ns, cumulative: i64, sack: &[i64]) {
        let before = self.acked + self.sacked.len() as i64;
        let mut sample = None;
        let mut newest = 0;
        let mut first = |s: &mut Self, seq: i64| {
            if let Some((at, again)) = s.sent_at.remove(&seq) {
                newest = newest.max(at);
                if !again && sample.is_none() {
                    sample = Some(now - at);
                }
            }
        };
        for seq in self.acked..cumulative {
            first(self, seq);
            self.sacked.remove(&seq);
            self.lost.remove(&seq);
            self.resent.remove(&seq);
        }
        if cumulative > self.acked {
            self.acked = cumulative;
            self.last_progress = now;
            self.backoff = 1;
        }
        let from = self.acked;
        for seq in sack.iter().copied().filter(|s| *s >= from) {
            if self.sacked.insert(seq) {
                // Linux restarts the timer on any new information.
                self.last_progress = now;
                first(self, seq);
                self.lost.remove(&seq);
                self.resent.remove(&seq);
            }
        }
        if let Some(rtt) = sample {
            self.min_rtt = self.min_rtt.min(rtt);
            self.round_min = self.round_min.min(rtt);
            let r = rtt as f64;
            match self.srtt {
                None => (self.srtt, self.rttvar) = (Some(r), r / 2.0),
                Some(s) => {
                    self.rttvar += ((s - r).abs() - self.rttvar) / 4.0;
                    self.srtt = Some(s + (r - s) / 8.0);
                }
            }
        }
        // RFC 6675: lost with three packets above it that arrived.
        if let Some(third) = self.sacked.iter().rev().nth(2).copied() {
            let missing: Vec<i64> = (self.acked..third)
                .filter(|s| !self.sacked.contains(s) && !self.lost.contains(s))
                .collect();
            if !missing.is_empty() && self.recovery.is_none_or(|r| self.acked >= r) {
                self.reduce(now);
            }
            self.lost.extend(missing);
        }
        // RFC 8985: a retransmission is lost where something sent well after it has arrived.
        let late = newest - self.min_rtt.min(S_MAX) / 4;
        let again: Vec<i64> = self
            .resent
            .iter()
            .copied()
            .filter(|s| self.sent_at.get(s).is_some_and(|x| x.0 < late))
            .collect();
        for seq in again {
            self.resent.remove(&seq);
        }
        let newly = (self.acked + self.sacked.len() as i64 - before).max(0);
        if self.recovery.is_some_and(|r| self.acked >= r) {
            self.recovery = None;
        }
        if self.recovery.is_none() || self.cwnd < 2.0 {
            self.grow(now, newly);
        }
        if self.acked >= self.round_end {
            // HyStart's delay rule, as Linux has it: leave slow start once a round's smallest round trip has grown.
            let threshold =
                self.min_rtt.min(S_MAX) + (self.min_rtt / 8).clamp(4_000_000, 16_000_000);
            if self.ssthresh.is_none()
                && self.cwnd >= 16.0
                && self.round_min > threshold
                && self.round_min < Ns::MAX
            {
                self.ssthresh = Some(self.cwnd);
            }
            (self.round_end, self.round_min) = (self.next, Ns::MAX);
        }
    }

    fn grow(&mut self, now: Ns, acked: i64) {
        let n = acked as f64;
        if self.ssthresh.is_none_or(|s| self.cwnd < s) {
            self.cwnd += n;
            return;
        }
        let epoch = *self.epoch.get_or_insert(now);
        if self.w_max < self.cwnd {
            self.w_max = self.cwnd;
        }
        let t = (now - epoch) as f64 / 1e9 + self.srtt.unwrap_or(0.0) / 1e9;
        // RFC 9438 §4.2: C = 0.4, β = 0.7.
        let k = (self.w_max * 0.3 / 0.4).cbrt();
        let target = self.w_max + 0.4 * (t - k).powi(3);
        let rate = ((target - self.cwnd) / self.cwnd).clamp(0.01 / self.cwnd, 0.5);
        // §4.3: never slower than Reno with α = 3 (1 − β) / (1 + β).
        self.cwnd += n * rate.max(0.53 / self.cwnd);
    }
}

#[derive(Default)]
pub struct Receiver {
    pub next: i64,
    held: BTreeSet<i64>,
    pub unacked: i64,
}

impl Receiver {
    /// Whether an acknowledgement is due at once.
    pub fn take(&mut self, seq: i64) -> bool {
        if seq >= self.next {
            self.held.insert(seq);
        }
        let in_order = seq == self.next;
        while self.held.remove(&self.next) {
            self.next += 1;
        }
        self.unacked += 1;
        !in_order || !self.held.is_empty() || self.unacked >= 2
    }

    pub fn sack(&mut self) -> Vec<i64> {
        self.unacked = 0;
        self.held.iter().copied().collect()
    }
}
