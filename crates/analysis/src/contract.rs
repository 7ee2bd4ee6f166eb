//! Measured rates against contracted rates.
//!
//! **Method.** The rate of the link counted in whole IP packets, the most that a contract could mean, is compared with
//! the contracted rate. If its whole interval lies below the tolerance, the link gives too little. If the interval
//! straddles the tolerance, nothing is claimed.
//!
//! **Source.** Catalán 2014, tables 1, 7 and 8 (measured beside contracted rates).
//!
//! **Limits.** A test to a far server measures the slowest link of the path, which need not be the access link.
//! Providers count bytes below IP, which takes a few per cent: hence the tolerance of a tenth.

use crate::answer::{Answer, DirectionAnswer, Severity};
use base::BitsPerSec;
use base::record::Recording;
use stats::Figure;

/// Share of the contracted rate below which the link is said to give too little.
const TOLERANCE: f64 = 0.9;

/// The contracted rates, as they stand under `contract` in the recording's known facts of the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Promised {
    /// Contracted rate of the downlink.
    pub down: BitsPerSec,
    /// Contracted rate of the uplink.
    pub up: BitsPerSec,
}

/// Contracted rates of a recording; none if it has none.
pub fn promised(rec: &Recording) -> Option<Promised> {
    let contract = rec.meta.known_link.as_ref()?.get("contract")?;
    let rate = |direction: &str| contract.get(direction)?.as_str()?.parse().ok();
    Some(Promised {
        down: rate("down")?,
        up: rate("up")?,
    })
}

impl Promised {
    /// Findings, one for each direction: severity, sentence, numbers.
    pub fn kept(&self, a: &Answer) -> Vec<(Severity, String, Vec<String>)> {
        let one = |what: &str, d: &DirectionAnswer, promised: BitsPerSec| {
            let Figure::Is { value, low, high } = d.link_rate_bps else {
                return None;
            };
            let mbit = |bps: f64| format!("{:.3} Mbit/s", bps / 1e6);
            let share = value / promised.get() as f64;
            let evidence = vec![format!(
                "{} in whole IP packets ({} to {}); the contract says {promised}",
                mbit(value),
                mbit(low),
                mbit(high)
            )];
            let least = TOLERANCE * promised.get() as f64;
            Some(if high < least {
                let says = format!(
                    "The {what} gives {:.0} % of the contracted {promised}.",
                    100.0 * share
                );
                (Severity::Warning, says, evidence)
            } else if low >= least {
                (
                    Severity::Good,
                    format!(
                        "The {what} keeps its contract of {promised} ({:.0} %).",
                        100.0 * share
                    ),
                    evidence,
                )
            } else {
                let says = format!(
                    "Whether the {what} keeps its contract of {promised} cannot be told: the rate is not known well enough."
                );
                (Severity::Note, says, evidence)
            })
        };
        [
            one("download", &a.down, self.down),
            one("upload", &a.up, self.up),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Meta;

    #[test]
    fn the_contract_is_read_from_the_recording() {
        let known = serde_json::json!({ "contract": { "down": "50 Mbit/s", "up": "10 Mbit/s" } });
        let meta = Meta {
            known_link: Some(known),
            ..Meta::default()
        };
        let rec = Recording {
            meta,
            ..Recording::default()
        };
        let wanted = Promised {
            down: BitsPerSec::from_mbps(50),
            up: BitsPerSec::from_mbps(10),
        };
        assert_eq!(promised(&rec), Some(wanted));
        assert_eq!(promised(&Recording::default()), None);
    }
}
