//! Findings from round trips seen in passing, in the words of `test`.
//!
//! **Source.** The thresholds of [`crate::findings`]. **Limits.** The link was not loaded on purpose. A queue that did
//! not show may still be there under load, so its absence is no praise.

use crate::answer::{Finding, Severity};
use crate::findings::is_bloat;

/// Waiting beyond the point of capture.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// Destination of the data: a host, or "the hosts that were called".
    pub towards: String,
    /// Least round trip, ms.
    pub base_ms: f64,
    /// Median wait, ms.
    pub median_ms: f64,
    /// 95 % point of the wait, ms.
    pub p95_ms: f64,
    /// Longest wait, ms.
    pub max_ms: f64,
    /// Time of one full packet at the highest rate seen; 0 where that is not known.
    pub packet_ms: f64,
    /// Measured time, s.
    pub measured_s: f64,
}

/// Finding on the waits, if there is one.
pub fn finding(w: &Waiting) -> Option<Finding> {
    if !is_bloat(w.p95_ms, w.packet_ms) {
        return None;
    }
    Some(Finding {
        severity: if w.p95_ms >= 200.0 {
            Severity::Bad
        } else {
            Severity::Warning
        },
        says: format!(
            "Data towards {} waits up to {:.0} ms in a queue beyond the capture.",
            w.towards, w.p95_ms
        ),
        evidence: vec![format!(
            "delay added beyond the base of {:.1} ms: median {:.1} ms, 95 % {:.1} ms, most {:.1} ms, over {:.1} s",
            w.base_ms, w.median_ms, w.p95_ms, w.max_ms, w.measured_s
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(p95_ms: f64) -> Waiting {
        Waiting {
            towards: "192.0.2.1".into(),
            base_ms: 10.0,
            median_ms: p95_ms / 2.0,
            p95_ms,
            max_ms: 2.0 * p95_ms,
            packet_ms: 0.1,
            measured_s: 5.0,
        }
    }

    #[test]
    fn short_waits_are_no_finding_and_long_ones_a_bad_one() {
        assert!(finding(&waiting(29.0)).is_none());
        let warned = finding(&waiting(60.0)).unwrap();
        assert_eq!(warned.severity, Severity::Warning);
        assert!(warned.says.contains("60 ms"), "{}", warned.says);
        assert_eq!(finding(&waiting(400.0)).unwrap().severity, Severity::Bad);
        // On a slow line one packet alone takes long.
        let slow = Waiting {
            packet_ms: 30.0,
            ..waiting(60.0)
        };
        assert!(finding(&slow).is_none());
    }
}
