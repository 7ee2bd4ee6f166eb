//! Probes that the network kept from leaving, in stretches.

/// A stretch of such probes, one after the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeptBack {
    /// First of them, UNIX ns.
    pub from_ns: i64,
    /// Interval after the last one, UNIX ns.
    pub to_ns: i64,
    /// Number of probes.
    pub count: u64,
}

/// Adds probes from an instant on. They come mostly in order.
pub(super) fn push(all: &mut Vec<KeptBack>, from_ns: i64, count: u64, interval_ns: i64) {
    let length = interval_ns.saturating_mul(i64::try_from(count).unwrap_or(i64::MAX));
    let next = KeptBack {
        from_ns,
        to_ns: from_ns.saturating_add(length),
        count,
    };
    match all.last_mut().filter(|last| last.from_ns <= from_ns) {
        Some(last) if follows(last, &next, interval_ns) => join(last, &next),
        _ => all.push(next),
    }
}

/// Half an interval of slack: labels are planned times or those of the call.
fn follows(last: &KeptBack, next: &KeptBack, interval_ns: i64) -> bool {
    next.from_ns <= last.to_ns.saturating_add(interval_ns / 2)
}

fn join(last: &mut KeptBack, next: &KeptBack) {
    last.to_ns = last.to_ns.max(next.to_ns);
    last.count = last.count.saturating_add(next.count);
}

/// Orders stretches, and joins those without a probe between them.
pub(super) fn joined(mut all: Vec<KeptBack>, interval_ns: i64) -> Vec<KeptBack> {
    all.sort_unstable_by_key(|k| k.from_ns);
    let mut apart: Vec<KeptBack> = Vec::new();
    for next in all {
        match apart.last_mut() {
            Some(last) if follows(last, &next, interval_ns) => join(last, &next),
            _ => apart.push(next),
        }
    }
    apart
}
