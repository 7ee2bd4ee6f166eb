//! State of a gateway for Prometheus.

use super::Status;
use crate::metrics::{Family, Kind, Point, Value, text};

/// Metric: its name after `tailback_control_`, its type, its help, and its value; none if unknown.
type Metric = (&'static str, Kind, &'static str, fn(&Status) -> Option<f64>);

/// All metrics, in the order of the text.
const METRICS: &[Metric] = &[
    (
        "applied",
        Kind::Gauge,
        "1 if orders are carried out, 0 in a dry run",
        |s| Some(f64::from(u8::from(s.applied))),
    ),
    (
        "acting",
        Kind::Gauge,
        "1 while the wait is known and trusted, 0 while every packet passes",
        |s| Some(f64::from(u8::from(s.why.is_own()))),
    ),
    (
        "wait_seconds",
        Kind::Gauge,
        "Estimated wait in the hidden queue",
        |s| s.wait_ms.map(|w| w * 1e-3),
    ),
    (
        "probed_wait_seconds",
        Kind::Gauge,
        "Wait that the newest probe met",
        |s| s.probed_wait_ms.map(|w| w * 1e-3),
    ),
    (
        "capacity_bits_per_second",
        Kind::Gauge,
        "Estimated capacity of the uplink",
        |s| s.capacity_bps,
    ),
    (
        "rate_bits_per_second",
        Kind::Gauge,
        "Rate that passes the interface, mean of the last second",
        |s| s.rate_bps,
    ),
    (
        "passed_bytes_total",
        Kind::Counter,
        "Bytes that passed the interface",
        |s| Some(s.passed_bytes as f64),
    ),
    (
        "signals_total",
        Kind::Counter,
        "Signals that the law ordered",
        |s| Some(s.signals as f64),
    ),
    (
        "marks_total",
        Kind::Counter,
        "Packets marked with CE",
        |s| Some(s.marks as f64),
    ),
    ("drops_total", Kind::Counter, "Packets dropped", |s| {
        Some(s.drops as f64)
    }),
    (
        "shaper_bits_per_second",
        Kind::Gauge,
        "Rate of the shaper of uploads",
        |s| s.shaper_bps,
    ),
    (
        "down_shaper_bits_per_second",
        Kind::Gauge,
        "Rate of the shaper of downloads",
        |s| s.down.as_ref()?.shaper_bps,
    ),
    (
        "down_wait_seconds",
        Kind::Gauge,
        "Wait of downloads in the provider's queue",
        |s| s.down.as_ref()?.wait_ms.map(|w| w * 1e-3),
    ),
    (
        "down_capacity_bits_per_second",
        Kind::Gauge,
        "Estimated capacity of the downlink",
        |s| s.down.as_ref()?.capacity_bps,
    ),
    (
        "down_passed_bytes_total",
        Kind::Counter,
        "Bytes received at the interface",
        |s| Some(s.down.as_ref()?.passed_bytes as f64),
    ),
    (
        "down_marks_total",
        Kind::Counter,
        "Packets of downloads marked with CE",
        |s| Some(s.down.as_ref()?.marks as f64),
    ),
    (
        "down_drops_total",
        Kind::Counter,
        "Packets of downloads dropped",
        |s| Some(s.down.as_ref()?.drops as f64),
    ),
];

/// Text of all metrics; what is unknown is left out.
pub fn render(status: &Status) -> String {
    let family = |(name, kind, help, value): &Metric| {
        let value = value(status).filter(|v| v.is_finite())?;
        Some(Family {
            name: format!("tailback_control_{name}").into(),
            help,
            kind: *kind,
            points: vec![Point {
                labels: vec![("interface".into(), status.wan.clone())],
                value: Value::Number(value),
            }],
        })
    };
    let families: Vec<Family> = METRICS.iter().filter_map(family).collect();
    text(&families)
}

#[cfg(test)]
mod tests {
    use super::*;
    use live::control::Why;

    #[test]
    fn unknown_figures_are_left_out() {
        let status = Status {
            wan: "eth0".into(),
            server: ([192, 0, 2, 1], 7117).into(),
            applied: true,
            elapsed_s: 3.0,
            why: Why::Others,
            wait_ms: Some(12.5),
            probed_wait_ms: None,
            capacity_bps: Some(1e7),
            rate_bps: None,
            passed_bytes: 1500,
            signals: 3,
            marks: 1,
            drops: 2,
            shaper_bps: None,
            down: None,
            trouble: None,
        };
        let text = render(&status);
        let lines: Vec<_> = text.lines().filter(|l| !l.starts_with('#')).collect();
        assert_eq!(
            lines,
            [
                "tailback_control_applied{interface=\"eth0\"} 1",
                "tailback_control_acting{interface=\"eth0\"} 0",
                "tailback_control_wait_seconds{interface=\"eth0\"} 0.0125",
                "tailback_control_capacity_bits_per_second{interface=\"eth0\"} 10000000",
                "tailback_control_passed_bytes_total{interface=\"eth0\"} 1500",
                "tailback_control_signals_total{interface=\"eth0\"} 3",
                "tailback_control_marks_total{interface=\"eth0\"} 1",
                "tailback_control_drops_total{interface=\"eth0\"} 2",
            ]
        );
    }
}
