//! Services that a recording's link can carry.
//!
//! **Method.** A service requires that a share of its messages arrives within a time. Recordings have round trips. A
//! service that waits for its answer is judged by its limit; one that sends in one direction by twice its limit, as if
//! both directions took equally long. It passes if the whole 95 % interval of the reliability lies above its
//! requirement, and fails if the whole interval lies below. Otherwise the verdict is "cannot tell".
//!
//! **Source.** Borlaug 2014, table 2, equation (1); each built-in table names its own.

use base::Duration;
use base::print::significant;
use schemars::JsonSchema;
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};
use stats::Figure;
use stats::Z95;

/// Tables that are built in.
pub const BUILT_IN: &str = include_str!("services.toml");

/// Table of services.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Table {
    /// Name of the table.
    pub name: String,
    /// Source of the table's figures.
    #[serde(default)]
    pub source: String,
    /// Services in order.
    #[serde(rename = "service")]
    pub services: Vec<Service>,
}

/// Service with its requirements.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Service {
    /// Name of the service.
    pub name: String,
    /// Longest time that a message may take.
    pub latency: Duration,
    /// Direction of its messages: one way, or a round trip.
    #[serde(default)]
    pub way: Way,
    /// Share of the messages that must be in time, 0 to 1; also read as `"99.9 %"`.
    #[serde(deserialize_with = "share")]
    pub reliability: f64,
}

fn share<'de, D: Deserializer<'de>>(from: D) -> Result<f64, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a share such as 0.995 or \"99.5 %\"")]
    enum Share {
        Of(f64),
        Percent(String),
    }
    match Share::deserialize(from)? {
        Share::Of(share) => Ok(share),
        // Through the exponent: the quotient by 100 is not the number nearest to 0.999.
        Share::Percent(text) => (text.strip_suffix('%').map(str::trim))
            .and_then(|number| format!("{number}e-2").parse().ok())
            .ok_or_else(|| {
                D::Error::custom(format!("{text:?} is no share such as 0.995 or \"99.5 %\""))
            }),
    }
}

/// Directions of a service's messages.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Way {
    #[default]
    OneWay,
    RoundTrip,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(rename = "table")]
    tables: Vec<Table>,
}

/// Reason why a table cannot be read.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ServicesError {
    #[error("{0}")]
    Unreadable(String),
    #[error("service \"{service}\": {why}")]
    Impossible { service: String, why: String },
}

/// # Errors
/// If the text is no such table, or holds impossible requirements.
pub fn read(text: &str) -> Result<Vec<Table>, ServicesError> {
    let file: File = toml::from_str(text).map_err(|e| ServicesError::Unreadable(e.to_string()))?;
    for s in file.tables.iter().flat_map(|t| &t.services) {
        let impossible = |why: String| ServicesError::Impossible {
            service: s.name.clone(),
            why,
        };
        if !(s.reliability > 0.0 && s.reliability < 1.0) {
            let why = format!(
                "reliability {} is not between 0 and 1 (98 % is 0.98; no measurement proves 1)",
                s.reliability
            );
            return Err(impossible(why));
        }
        if s.latency.is_zero() {
            return Err(impossible("nothing arrives within no time".into()));
        }
    }
    Ok(file.tables)
}

impl Service {
    /// Limit for round trips.
    pub fn limit_ns(&self) -> i64 {
        let once = i64::try_from(self.latency.as_nanos()).unwrap_or(i64::MAX);
        match self.way {
            Way::OneWay => once.saturating_mul(2),
            Way::RoundTrip => once,
        }
    }

    /// Number of probes, all answered in time, that prove the required reliability: Wilson's lower end is n / (n + z²).
    pub fn probes_needed(&self) -> u64 {
        (Z95 * Z95 * self.reliability / (1.0 - self.reliability)).ceil() as u64
    }
}

/// Verdict on a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Can {
    Pass,
    Fail,
    CannotTell,
}

/// Verdicts on one service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Verdict {
    /// Name of the table.
    pub table: String,
    /// Name of the service.
    pub service: String,
    /// Longest time of a message, ms.
    pub latency_ms: f64,
    /// Direction of its messages.
    pub way: Way,
    /// Limit for round trips that the service was judged by.
    pub limit_ms: f64,
    /// Required share, 0 to 1.
    pub required: f64,
    /// Verdicts, one for each span, such as the whole and each phase.
    pub spans: Vec<Judged>,
}

/// Verdict on a service in one span.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Judged {
    /// Name of the span.
    pub span: String,
    /// Verdict.
    pub can: Can,
    /// Measured share.
    pub share: Figure,
    /// Reason for a verdict of "cannot tell".
    pub because: String,
}

/// Judges one service. `share` is the reliability within the service's limit, of `judged` probes in `span`.
pub fn judge(s: &Service, span: &str, share: Figure, judged: u64) -> Judged {
    let (can, because) = match &share {
        Figure::Is { low, .. } if *low >= s.reliability => (Can::Pass, String::new()),
        Figure::Is { high, .. } if *high < s.reliability => (Can::Fail, String::new()),
        Figure::Is { .. } if judged < s.probes_needed() => (
            Can::CannotTell,
            format!(
                "{judged} probes are too few: {} in a row would prove {} %",
                s.probes_needed(),
                significant(100.0 * s.reliability, 12)
            ),
        ),
        Figure::Is { .. } => (
            Can::CannotTell,
            "what is asked for lies within the interval: the misses come in bunches, and a longer recording would tell".into(),
        ),
        Figure::CannotTell { cannot_tell } => (Can::CannotTell, cannot_tell.clone()),
    };
    Judged {
        span: span.into(),
        can,
        share,
        because,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use stats::wilson;

    fn five_nines() -> Service {
        Service {
            name: "x".into(),
            latency: Duration::from_millis(10),
            way: Way::OneWay,
            reliability: 0.99999,
        }
    }

    #[test]
    fn a_share_is_read_as_a_number_and_in_percent_and_nothing_else_is() {
        let of = |share: &str| {
            read(&format!(
                "[[table]]\nname = \"t\"\n[[table.service]]\nname = \"s\"\nlatency = \"1 s\"\nreliability = {share}"
            ))
        };
        for text in ["0.999", "\"99.9 %\"", "\"99.9%\""] {
            assert_eq!(
                of(text).unwrap()[0].services[0].reliability,
                0.999,
                "{text}"
            );
        }
        for text in ["\"99.9\"", "\"%\"", "\"150 %\"", "99.9", "true"] {
            assert!(of(text).is_err(), "{text}");
        }
    }

    #[test]
    fn the_built_in_tables_are_sound() {
        let tables = read(BUILT_IN).unwrap();
        assert!(tables.len() >= 3);
        assert!(tables.iter().all(|t| !t.source.is_empty()));
        // Borlaug 2014, table 2: five services, the strictest within 5 s and 99.5 %.
        let grid = &tables[0].services;
        assert_eq!(grid.len(), 5);
        assert_eq!(grid[4].latency, Duration::from_secs(5));
    }

    #[test]
    fn five_nines_take_384_143_probes_without_a_miss() {
        let s = five_nines();
        assert_eq!(s.limit_ns(), 20_000_000);
        let n = s.probes_needed();
        assert_eq!(n, 384_143);
        let of = |n: u64| judge(&s, "whole", wilson(n as f64, n as f64), n).can;
        assert_eq!((of(n), of(n - 1000)), (Can::Pass, Can::CannotTell));
        let missed = judge(&s, "whole", wilson(90_000.0, 100_000.0), 100_000);
        assert_eq!(missed.can, Can::Fail);
    }

    #[test]
    fn a_table_that_asks_for_certainty_is_refused() {
        let text = "[[table]]\nname=\"t\"\n[[table.service]]\nname=\"a\"\nlatency=\"1 s\"\nreliability=1.0";
        assert!(
            read(text)
                .unwrap_err()
                .to_string()
                .contains("no measurement proves 1")
        );
        assert!(read("[[table]]\nnam=1").is_err());
    }
}
