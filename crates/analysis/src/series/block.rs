//! A probe, counts of probes by their fate, and a block of them.

use base::record::Status;

/// One probe, as far as statistics are concerned.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    pub sent_ns: i64,
    pub rtt_ns: Option<i64>,
    pub status: Status,
}

impl Probe {
    /// Whether it went out: no further answer, no slot that was missed.
    pub fn was_sent(&self) -> bool {
        self.status.was_sent()
    }
    /// The round trip where it can be trusted.
    pub fn rtt(&self) -> Option<i64> {
        self.status.trusted(self.rtt_ns)
    }
}

/// Probes by what became of them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    pub ok: u64,
    pub late: u64,
    /// Never answered.
    pub lost: u64,
    pub duplicates: u64,
    pub invalid: u64,
    pub not_sent: u64,
    /// Probes that the network kept from leaving.
    pub cut_off: u64,
}

impl Counts {
    pub fn add(&mut self, o: &Counts) {
        self.ok += o.ok;
        self.late += o.late;
        self.lost += o.lost;
        self.duplicates += o.duplicates;
        self.invalid += o.invalid;
        self.not_sent += o.not_sent;
        self.cut_off += o.cut_off;
    }
    pub fn sent(&self) -> u64 {
        let answered = self.ok.saturating_add(self.late);
        answered
            .saturating_add(self.lost)
            .saturating_add(self.invalid)
    }
    /// Not answered within the limit for loss.
    pub fn missed(&self) -> u64 {
        self.late + self.lost
    }
    /// Probes of which is known whether they were answered in time; those that the network kept from leaving were not.
    pub fn judged(&self) -> u64 {
        self.ok + self.late + self.lost + self.cut_off
    }
    pub(super) fn count(&mut self, status: Status) {
        *match status {
            Status::Ok => &mut self.ok,
            Status::Late => &mut self.late,
            Status::Lost | Status::LostUp | Status::LostDown => &mut self.lost,
            Status::Duplicate => &mut self.duplicates,
            Status::Invalid => &mut self.invalid,
            Status::NotSent => &mut self.not_sent,
        } += 1;
    }
}

/// A stretch of time whose probes belong together in every figure.
#[derive(Clone, Debug)]
pub struct Block {
    pub from_ns: i64,
    pub to_ns: i64,
    pub counts: Counts,
    /// Round trips of the answered probes, ns; ascending once the series is finished.
    pub rtts: Vec<i64>,
    /// Which exclusion it lies in.
    pub excluded: Option<usize>,
}

impl Block {
    /// Of the judged probes, how many were answered within `limit_ns`.
    pub fn within(&self, limit_ns: i64) -> u64 {
        self.rtts.partition_point(|r| *r <= limit_ns) as u64
    }
}

/// True if a time of that length overlaps one of these spans, which are in order.
pub fn overlaps(spans: &[(i64, i64)], t_ns: i64, length_ns: i64) -> bool {
    let reach = t_ns.saturating_add(length_ns);
    let next = spans.partition_point(|(_, to)| *to < t_ns);
    spans.get(next).is_some_and(|(from, _)| *from <= reach)
}
