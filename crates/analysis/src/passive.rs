//! Waits seen in passing, and findings on them, in the words of `test`.
//!
//! **Source.** The thresholds of [`crate::findings`]. **Limits.** The link was not loaded on purpose. A queue that did
//! not show may still be there under load, so its absence is no praise.

use crate::answer::{Finding, Severity};
use crate::findings::is_bloat;
use crate::thresholds::BAD_MS;
use base::print::DELAY;
use schemars::JsonSchema;
use serde::Serialize;
use stats::Figure;

/// Way on which packets waited, seen from the point of capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    /// Data towards a host, beyond the capture.
    Towards,
    /// Data from a host, before the capture.
    From,
    /// ACKs from a host, before the capture.
    AcksFrom,
    /// Data towards a host, and the ACKs that came back: nothing tells which of them waited.
    RoundTrip,
}

/// Waits on one way.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct Waiting {
    /// Host at the other end of the way, or "the server".
    pub host: String,
    /// Way of the packets.
    pub way: Way,
    /// Least round trip to that host, ms; null before the capture.
    pub base_ms: Option<f64>,
    /// Median wait, ms.
    pub median_ms: Figure,
    /// 95 % point of the wait, ms.
    pub p95_ms: Figure,
    /// Longest wait, ms.
    pub max_ms: f64,
    /// Time of one full packet at the highest rate seen, ms; 0 where that is not known.
    pub packet_ms: f64,
    /// True if the way was hardly ever seen empty: then every wait may be longer.
    pub at_least: bool,
    /// Measured time, s.
    pub measured_s: f64,
}

impl Waiting {
    /// Way in a few words, such as "data towards 192.0.2.1".
    pub fn words(&self) -> String {
        let host = &self.host;
        match self.way {
            Way::Towards => format!("data towards {host}"),
            Way::From => format!("data from {host}"),
            Way::AcksFrom => format!("ACKs from {host}"),
            Way::RoundTrip => format!("round trips to {host}"),
        }
    }

    /// Figure of the waits in words.
    pub fn told(&self, figure: &Figure) -> String {
        match figure {
            Figure::Is { low, .. } if self.at_least && *low == 0.0 => "cannot tell".into(),
            Figure::Is { low, .. } if self.at_least => format!("at least {}", DELAY.print(*low)),
            Figure::Is { value, low, high } => DELAY.interval(*value, *low, *high),
            Figure::CannotTell { cannot_tell } => format!("cannot tell: {cannot_tell}"),
        }
    }

    /// Least 95 % point that the interval leaves open, ms.
    fn least_ms(&self) -> f64 {
        match self.p95_ms {
            Figure::Is { low, .. } => low,
            Figure::CannotTell { .. } => 0.0,
        }
    }
}

/// Finding on the waits, if there is one.
pub fn finding(w: &Waiting) -> Option<Finding> {
    let least_ms = w.least_ms();
    if !is_bloat(least_ms, w.packet_ms) {
        return None;
    }
    let (host, wait) = (&w.host, w.told(&w.p95_ms));
    let up_to = match w.at_least {
        true => String::new(),
        false => "up to ".into(),
    };
    let says = match w.way {
        Way::Towards => {
            format!("Data towards {host} waits {up_to}{wait} in a queue beyond the capture.")
        }
        Way::From => format!("Data from {host} waits {up_to}{wait} in a queue before the capture."),
        Way::AcksFrom => {
            format!("ACKs from {host} wait {up_to}{wait} in a queue before the capture.")
        }
        Way::RoundTrip => format!(
            "Data towards {host} and its ACKs wait {up_to}{wait} in queues beyond the capture; nothing tells which of the two does."
        ),
    };
    let median = w.told(&w.median_ms);
    let beyond = (w.base_ms).map_or("the least seen".into(), |base| {
        format!("the base of {}", DELAY.print(base))
    });
    Some(Finding {
        severity: if least_ms >= BAD_MS {
            Severity::Bad
        } else {
            Severity::Warning
        },
        says,
        evidence: vec![format!(
            "delay added beyond {beyond}: median {median}, 95 % {wait}, most {}, over {:.1} s",
            DELAY.print(w.max_ms),
            w.measured_s
        )],
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn waiting(p95_ms: f64) -> Waiting {
        Waiting {
            host: "192.0.2.1".into(),
            way: Way::Towards,
            base_ms: Some(10.0),
            median_ms: Figure::exactly(p95_ms / 2.0),
            p95_ms: Figure::exactly(p95_ms),
            max_ms: 2.0 * p95_ms,
            packet_ms: 0.1,
            at_least: false,
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

    #[test]
    fn a_wait_that_may_be_none_is_no_finding() {
        let open = Waiting {
            p95_ms: Figure::Is {
                value: 100.0,
                low: 10.0,
                high: 300.0,
            },
            ..waiting(100.0)
        };
        assert!(finding(&open).is_none());
    }
}
