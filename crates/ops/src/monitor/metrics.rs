//! State of a monitor in Prometheus' text format, for the textfile collector of node_exporter.
//!
//! **Source.** Prometheus, "Exposition formats", version 0.0.4; the base units of its naming conventions: seconds, bits.

use base::Duration;
use live::monitor::{LIMITS, MonitorStatus, TargetStatus};
use std::fmt::Write;
use std::path::Path;

/// Returns the state as text.
pub(super) fn text(status: &MonitorStatus) -> String {
    let mut out = String::new();
    let targets = &status.targets;
    head(
        &mut out,
        "tailback_probes_total",
        "counter",
        "Probes by their fate.",
    );
    for t in targets {
        let fates = [
            ("answered", t.answered - t.late),
            ("late", t.late),
            ("lost", t.lost),
            ("not_sent", t.not_sent),
        ];
        for (fate, n) in fates {
            let target = escaped(&t.name);
            line(
                &mut out,
                "tailback_probes_total",
                &format!("target=\"{target}\",fate=\"{fate}\""),
                n,
            );
        }
    }
    head(
        &mut out,
        "tailback_rtt_seconds",
        "histogram",
        "Round trips.",
    );
    for t in targets {
        histogram(&mut out, t);
    }
    head(
        &mut out,
        "tailback_ipdv_seconds",
        "gauge",
        "Mean size of the last ten steps between successive round trips (RFC 3393).",
    );
    for t in targets {
        if let Some(ipdv) = t.ipdv() {
            let label = format!("target=\"{}\"", escaped(&t.name));
            line(&mut out, "tailback_ipdv_seconds", &label, seconds(ipdv));
        }
    }
    head(
        &mut out,
        "tailback_interface_bits_per_second",
        "gauge",
        "Rate of the interface.",
    );
    if let Some(name) = &status.interface {
        for (direction, rate) in [("down", status.down), ("up", status.up)] {
            if let Some(rate) = rate {
                let label = format!("interface=\"{}\",direction=\"{direction}\"", escaped(name));
                line(
                    &mut out,
                    "tailback_interface_bits_per_second",
                    &label,
                    rate.get(),
                );
            }
        }
    }
    out
}

fn histogram(out: &mut String, t: &TargetStatus) {
    let target = escaped(&t.name);
    let mut count = 0;
    for (limit, n) in LIMITS.iter().zip(t.within) {
        count += n;
        let label = format!("target=\"{target}\",le=\"{}\"", seconds(*limit));
        line(out, "tailback_rtt_seconds_bucket", &label, count);
    }
    count += t.within[LIMITS.len()];
    let label = format!("target=\"{target}\"");
    line(
        out,
        "tailback_rtt_seconds_bucket",
        &format!("{label},le=\"+Inf\""),
        count,
    );
    line(out, "tailback_rtt_seconds_sum", &label, seconds(t.sum));
    line(out, "tailback_rtt_seconds_count", &label, count);
}

fn seconds(d: Duration) -> f64 {
    d.as_secs_f64()
}

fn head(out: &mut String, name: &str, kind: &str, help: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn line(out: &mut String, name: &str, labels: &str, value: impl std::fmt::Display) {
    let _ = writeln!(out, "{name}{{{labels}}} {value}");
}

/// Value of a label, escaped as the format asks.
fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\")
        .replace('"', "\\\"")
        .replace('\n', "\\n")
}

/// Replaces the file as a whole, so that a reader never sees half of it.
///
/// # Errors
/// Errors of the file system.
pub(super) fn write(file: &Path, text: &str) -> std::io::Result<()> {
    let mut fresh = file.as_os_str().to_owned();
    fresh.push(".new");
    std::fs::write(&fresh, text)?;
    std::fs::rename(&fresh, file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_cannot_end_their_quotes() {
        assert_eq!(escaped("a\"b\\c\nd"), "a\\\"b\\\\c\\nd");
    }
}
