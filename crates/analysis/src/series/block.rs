//! A probe, counts of probes by their fate, and a block of them.

use base::record::Status;

/// Probe, with the fields that statistics need.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Probe {
    /// Send time, UNIX ns.
    pub sent_ns: i64,
    /// Round trip, ns; none without an answer.
    pub rtt_ns: Option<i64>,
    /// Fate of the probe.
    pub status: Status,
}

impl Probe {
    /// True if the probe was sent: it is neither a further answer nor a missed slot.
    pub fn was_sent(&self) -> bool {
        self.status.was_sent()
    }
    /// Round trip, if it can be trusted.
    pub fn rtt(&self) -> Option<i64> {
        self.status.trusted(self.rtt_ns)
    }
}

/// Counts of probes by fate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Probes answered in time.
    pub ok: u64,
    /// Probes answered after the limit for loss.
    pub late: u64,
    /// Never answered.
    pub lost: u64,
    /// Further answers to a probe.
    pub duplicates: u64,
    /// Probes with impossible times.
    pub invalid: u64,
    /// Slots in which nothing was sent.
    pub not_sent: u64,
    /// Probes that the network kept from leaving.
    pub cut_off: u64,
}

impl Counts {
    /// Adds other counts.
    pub fn add(&mut self, o: &Counts) {
        self.ok += o.ok;
        self.late += o.late;
        self.lost += o.lost;
        self.duplicates += o.duplicates;
        self.invalid += o.invalid;
        self.not_sent += o.not_sent;
        self.cut_off += o.cut_off;
    }
    /// Probes sent.
    pub fn sent(&self) -> u64 {
        let answered = self.ok.saturating_add(self.late);
        answered
            .saturating_add(self.lost)
            .saturating_add(self.invalid)
    }
    /// Probes not answered within the limit for loss.
    pub fn missed(&self) -> u64 {
        self.late + self.lost
    }
    /// Probes whose fate is known: answered in time or not. Probes that the network kept from leaving were not.
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

/// Unit of the delay variations that a block keeps, ns: four bytes hold up to seven minutes.
pub const VARIATION_NS: i64 = 100;

/// Stretch of time whose probes belong together in every figure.
#[derive(Clone, Debug)]
pub struct Block {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Counts of the block's probes.
    pub counts: Counts,
    /// Round trips of the answered probes, ns; ascending once the series is finished.
    pub rtts: Vec<i64>,
    /// Sizes of the packet delay variation, in units of [`VARIATION_NS`]; ascending once the series is finished.
    pub variations: Vec<u32>,
    /// Index of the exclusion that covers the block.
    pub excluded: Option<usize>,
}

impl Block {
    /// Number of judged probes that were answered within `limit_ns`.
    pub fn within(&self, limit_ns: i64) -> u64 {
        self.rtts.partition_point(|r| *r <= limit_ns) as u64
    }
}

/// True if the time of length `length_ns` from `t_ns` overlaps one of these spans, which are in order.
pub fn overlaps(spans: &[(i64, i64)], t_ns: i64, length_ns: i64) -> bool {
    let reach = t_ns.saturating_add(length_ns);
    let next = spans.partition_point(|(_, to)| *to < t_ns);
    spans.get(next).is_some_and(|(from, _)| *from <= reach)
}
