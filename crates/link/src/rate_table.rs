//! Rates or delays over time as a table of comma-separated values, the usual form of measured ones.
//!
//! **Format**: the first line names the columns. One is `t_s`, `t_ms`, `t_us` or `t_ns`, one is `rate_bps`, `rate_kbps`
//! or `rate_mbps`, and for delays `delay_s`, `delay_ms`, `delay_us` or `delay_ns`; others are ignored. Each further line holds from its time to the next line's. Times count from the
//! first of them, whatever its value. Empty lines and lines that start with `#` are comments.

use base::words::hint;
use base::{BitsPerSec, Duration};
use serde::{Deserialize, Serialize};

/// Step of a schedule: from `at` on, counted from the start of the run, the link has `rate`.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Step {
    /// Time from which the rate holds.
    pub at: Duration,
    /// Rate from then on.
    pub rate: BitsPerSec,
}

const TIMES: [(&str, f64); 4] = [("t_s", 1e9), ("t_ms", 1e6), ("t_us", 1e3), ("t_ns", 1.0)];
const DELAYS: [(&str, f64); 4] = [
    ("delay_s", 1e9),
    ("delay_ms", 1e6),
    ("delay_us", 1e3),
    ("delay_ns", 1.0),
];
const RATES: [(&str, f64); 3] = [("rate_bps", 1.0), ("rate_kbps", 1e3), ("rate_mbps", 1e6)];

/// Finds the column with a known name; returns its index and the size of its unit.
fn column(heads: &[&str], known: &[(&str, f64)]) -> Result<(usize, f64), String> {
    let found = known.iter().find_map(|(name, unit)| {
        let at = heads.iter().position(|head| head == name)?;
        Some((at, *unit))
    });
    found.ok_or_else(|| {
        let names: Vec<&str> = known.iter().map(|k| k.0).collect();
        let near = heads.iter().map(|head| hint(head, &names));
        format!(
            "line 1 names the columns and needs one of {}; it has {}.{}",
            names.join(", "),
            heads.join(", "),
            near.max_by_key(String::len).unwrap_or_default()
        )
    })
}

/// Reads rates.
///
/// # Errors
/// Fails with the number of the invalid line, and the reason.
pub fn parse(text: &str) -> Result<Vec<Step>, String> {
    let steps = columns(text, &RATES)?.into_iter();
    let step = |(at, bps): (Duration, f64)| Step {
        at,
        rate: BitsPerSec::new(bps.round() as u64),
    };
    Ok(steps.map(step).collect())
}

/// Reads delays; each holds from its time on.
///
/// # Errors
/// Fails with the number of the invalid line, and the reason.
pub fn parse_delays(text: &str) -> Result<Vec<(Duration, Duration)>, String> {
    let steps = columns(text, &DELAYS)?.into_iter();
    Ok(steps
        .map(|(at, ns)| (at, Duration::from_nanos(ns.round() as u64)))
        .collect())
}

/// Reads the times and one of the known columns, in its base unit.
fn columns(text: &str, known: &[(&str, f64)]) -> Result<Vec<(Duration, f64)>, String> {
    let mut lines = text
        .lines()
        .enumerate()
        .map(|(i, line)| (i + 1, line.trim()))
        .filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let (_, head) = lines.next().ok_or("the table is empty")?;
    let heads: Vec<&str> = head.split(',').map(str::trim).collect();
    let (time, time_ns) = column(&heads, &TIMES)?;
    let (which, unit) = column(&heads, known)?;
    let mut steps: Vec<(Duration, f64)> = Vec::new();
    let mut first: Option<f64> = None;
    for (number, line) in lines {
        let cells: Vec<&str> = line.split(',').map(str::trim).collect();
        let value = |column: usize| -> Result<f64, String> {
            let cell = cells.get(column).copied().unwrap_or("");
            let value = cell
                .parse::<f64>()
                .ok()
                .filter(|v| v.is_finite() && *v >= 0.0);
            value.ok_or_else(|| {
                format!(
                    "line {number}: \"{cell}\" is not a number from 0 on in column {}",
                    heads[column]
                )
            })
        };
        let t = value(time)?;
        // Large UNIX times lose precision in floating point, so the first time is subtracted before conversion to
        // nanoseconds.
        let at = (t - *first.get_or_insert(t)) * time_ns;
        let at = Duration::from_nanos(at.max(0.0).round() as u64);
        if let Some(last) = steps.last().filter(|last| last.0 >= at) {
            return Err(format!(
                "line {number}: {at} comes after {}; each line must be later than the one before",
                last.0
            ));
        }
        steps.push((at, value(which)? * unit));
    }
    Ok(steps)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_found_by_name_and_times_count_from_the_first() {
        let text = "# a drive\nnote,rate_mbps,t_s\na,8,1700000000.5\n\nb,0.25,1700000002\nc,0,1700000003\n";
        let steps = parse(text).unwrap();
        let read: Vec<_> = steps.iter().map(|s| (s.at, s.rate.get())).collect();
        assert_eq!(
            read,
            [
                (Duration::ZERO, 8_000_000),
                (Duration::from_millis(1500), 250_000),
                (Duration::from_millis(2500), 0),
            ]
        );
        assert_eq!(
            parse("t_ms,rate_kbps\n0,8\n1500,0.25").unwrap()[1].at,
            Duration::from_millis(1500)
        );
    }

    #[test]
    fn what_is_wrong_is_named_with_its_line() {
        for (text, said) in [
            ("", "empty"),
            ("t_s,rate_mpbs\n0,1", "Did you mean \"rate_mbps\"?"),
            ("time,rate_bps\n0,1", "needs one of t_s"),
            ("t_s,rate_bps\n0,1\n1,fast", "line 3: \"fast\""),
            ("t_s,rate_bps\n0,-1", "line 2: \"-1\""),
            ("t_s,rate_bps\n0,1\n1", "line 3: \"\""),
            ("t_s,rate_bps\n0,1\n1,1\n1,2", "line 4: 1 s comes after 1 s"),
        ] {
            let error = parse(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
