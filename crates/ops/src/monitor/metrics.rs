//! State of a monitor for Prometheus.

use crate::metrics::{Family, Kind, Point, Value};
use experiment::monitor::{LIMITS, MonitorStatus, TargetStatus};
use std::path::Path;

/// Name of the family of round trips.
const RTT: &str = "tailback_rtt_seconds";

/// Metrics of the state.
pub(super) fn families(status: &MonitorStatus) -> Vec<Family> {
    let targets = &status.targets;
    let named = |t: &TargetStatus| ("target".into(), t.name.to_string());
    let probes = targets.iter().flat_map(|t| {
        let fates = [
            ("answered", t.answered - t.late),
            ("late", t.late),
            ("lost", t.lost),
            ("not_sent", t.not_sent),
        ];
        fates.map(|(fate, n)| Point {
            labels: vec![named(t), ("fate".into(), fate.to_owned())],
            value: Value::Number(n as f64),
        })
    });
    let round_trips = targets.iter().map(|t| Point {
        labels: vec![named(t)],
        value: histogram(t),
    });
    let ipdv = targets.iter().filter_map(|t| {
        Some(Point {
            labels: vec![named(t)],
            value: Value::Number(t.ipdv()?.as_secs_f64()),
        })
    });
    let rates = [("down", status.down), ("up", status.up)];
    let rates = rates.into_iter().filter_map(|(direction, rate)| {
        let interface = ("interface".into(), status.interface.as_ref()?.to_string());
        Some(Point {
            labels: vec![interface, ("direction".into(), direction.to_owned())],
            value: Value::Number(rate?.get() as f64),
        })
    });
    let family = |name: &'static str, help, kind, points: Vec<Point>| Family {
        name: name.into(),
        help,
        kind,
        points,
    };
    vec![
        family(
            "tailback_probes_total",
            "Probes by their fate.",
            Kind::Counter,
            probes.collect(),
        ),
        family(RTT, "Round trips.", Kind::Histogram, round_trips.collect()),
        family(
            "tailback_ipdv_seconds",
            "Mean size of the last ten steps between successive round trips (RFC 3393).",
            Kind::Gauge,
            ipdv.collect(),
        ),
        family(
            "tailback_interface_bits_per_second",
            "Rate of the interface.",
            Kind::Gauge,
            rates.collect(),
        ),
    ]
}

fn histogram(t: &TargetStatus) -> Value {
    let mut count = 0;
    let limits = LIMITS.iter().map(|limit| limit.as_secs_f64());
    let classic = limits.chain([f64::INFINITY]).zip(t.within);
    let cumulative = classic.map(|(limit, n)| {
        count += n;
        (limit, count)
    });
    Value::Histogram {
        classic: cumulative.collect(),
        native: t.buckets.clone(),
        sum: t.sum.as_secs_f64(),
    }
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
    /// A bucket's limit is not below the round trip, and that of the bucket before it is.
    #[test]
    fn a_round_trip_lies_in_its_bucket() {
        use base::Duration;
        use base::rng::{Streams, uniform};
        let mut rng = Streams::new(1).stream("bucket");
        for _ in 0..10_000 {
            let seconds = 10f64.powf(uniform(&mut rng) * 9.0 - 7.0);
            let rtt = Duration::from_nanos((seconds * 1e9) as u64);
            let index = f64::from(experiment::monitor::bucket(rtt));
            let limit = |i: f64| (i / 8.0).exp2();
            let seconds = rtt.as_secs_f64();
            assert!(seconds <= limit(index) * (1.0 + 1e-12), "{rtt:?}");
            assert!(seconds > limit(index - 1.0) * (1.0 - 1e-12), "{rtt:?}");
        }
    }
}
