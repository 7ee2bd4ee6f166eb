//! State of a fleet for Prometheus: `/metrics` of the dashboard.
//!
//! Delays and losses are those of the present day (UTC), as far as recordings have come back. Of tests, the
//! latest one of thirty days counts.

use super::super::{Hub, Measured, Status};
use ops::metrics::{Family, Kind, Point, Value, text};
use std::borrow::Cow;

/// Labels of a value.
type Labels = Vec<(Cow<'static, str>, String)>;

/// Shares of the round trips that are told.
const SHARES: [(f64, &str); 2] = [(0.5, "0.5"), (0.95, "0.95")];
/// Figures of the latest test in both directions, as one metric.
struct OfTest {
    name: &'static str,
    help: &'static str,
    /// Keys of the figures up and down.
    keys: [&'static str; 2],
    /// Unit of the figures in that of the metric.
    unit: f64,
}

const TESTS: [OfTest; 2] = [
    OfTest {
        name: "tailback_point_test_added_delay_seconds",
        help: "Delay that load added in the latest test, 95 % point.",
        keys: ["added_up_p95_ms", "added_down_p95_ms"],
        unit: 1e-3,
    },
    OfTest {
        name: "tailback_point_test_goodput_bits_per_second",
        help: "Goodput of the latest test.",
        keys: ["goodput_up_bps", "goodput_down_bps"],
        unit: 1.0,
    },
];

/// Age of the oldest test that counts as the latest one, s.
const OLDEST_S: i64 = 30 * 86_400;

/// Reads the ledger, and returns the metrics as text.
pub(super) fn read(hub: &Hub, now_s: i64) -> anyhow::Result<String> {
    let date = |s: i64| -> anyhow::Result<String> {
        let date = jiff::Timestamp::from_second(s)?.strftime("%Y-%m-%d");
        Ok(date.to_string())
    };
    let today = date(now_s)?;
    let mut measured = hub.measured((&date(now_s - OLDEST_S)?, ""))?;
    for point in &mut measured.points {
        point.days.retain(|day| day.date == today);
    }
    Ok(text(&families(&hub.status()?, &measured, now_s)))
}

fn families(status: &Status, measured: &Measured, now_s: i64) -> Vec<Family> {
    let mut all = Families::default();
    for p in &status.points {
        let of = |more: &[(&'static str, &str)]| {
            let more = more
                .iter()
                .map(|(key, value)| ((*key).into(), (*value).to_owned()));
            std::iter::once(("point".into(), p.name.clone()))
                .chain(more)
                .collect::<Labels>()
        };
        let health = p.health.to_string();
        all.gauge(
            "tailback_point_health",
            "1 for the health that a point has.",
            of(&[("health", &health)]),
            Some(1.0),
        );
        let since = |ago: Option<i64>| ago.map(|s| (now_s - s) as f64);
        all.gauge(
            "tailback_point_reported_timestamp_seconds",
            "Time of the latest report.",
            of(&[]),
            since(p.reported_s_ago),
        );
        all.gauge(
            "tailback_point_measured_timestamp_seconds",
            "End of the latest recording in the store.",
            of(&[]),
            since(p.measured_s_ago),
        );
        all.counter(
            "tailback_point_recordings_total",
            "Recordings in the store.",
            of(&[]),
            p.recordings,
        );
        all.counter(
            "tailback_point_quarantined_total",
            "Recordings in quarantine.",
            of(&[]),
            p.quarantined,
        );
        all.counter(
            "tailback_point_rows_total",
            "Rows in the store.",
            of(&[]),
            p.rows,
        );
        all.counter(
            "tailback_point_stored_bytes_total",
            "Bytes in the store.",
            of(&[]),
            p.bytes,
        );
        let number = |n: Option<u64>| n.map(|n| n as f64);
        all.gauge(
            "tailback_point_spool_bytes",
            "Bytes that wait at the point.",
            of(&[]),
            number(p.spool_bytes),
        );
        all.gauge(
            "tailback_point_rows_outstanding",
            "Rows that the point has closed and the hub does not have.",
            of(&[]),
            p.rows_outstanding.map(|n| n as f64),
        );
        for (period, spent) in [("day", p.spent_today), ("month", p.spent_this_month)] {
            all.gauge(
                "tailback_point_spent_bytes",
                "Traffic of the point on this day and in this month (UTC).",
                of(&[("period", period)]),
                number(spent),
            );
        }
        for (outcome, n) in &p.runs {
            all.counter(
                "tailback_point_runs_total",
                "Runs by their outcome.",
                of(&[("outcome", outcome)]),
                *n,
            );
        }
    }
    for second in &status.clickhouse {
        let of = |state: &str| {
            vec![
                ("address".into(), second.address.clone()),
                ("state".into(), state.to_owned()),
            ]
        };
        for (state, n) in [("there", second.recordings), ("waiting", second.waiting)] {
            all.gauge(
                "tailback_clickhouse_recordings",
                "Recordings whose rows are all in a ClickHouse server, and those that wait for it.",
                of(state),
                Some(n as f64),
            );
        }
    }
    for p in &measured.points {
        let mut info: Labels = vec![("point".into(), p.name.clone())];
        info.extend(
            p.labels
                .iter()
                .map(|(key, value)| (Cow::Owned(label(key)), value.clone())),
        );
        all.gauge(
            "tailback_point_info",
            "Labels of the point.",
            info,
            Some(1.0),
        );
        for day in &p.days {
            let of = || {
                vec![
                    ("point".into(), p.name.clone()),
                    ("target".into(), day.target.clone()),
                ]
            };
            if day.judged > 0 {
                let lost = day.missed as f64 / day.judged as f64;
                all.gauge(
                    "tailback_point_lost_ratio",
                    "Part of the day's probes that were lost or late.",
                    of(),
                    Some(lost),
                );
            }
            for (share, says) in SHARES {
                let mut labels: Labels = of();
                labels.push(("quantile".into(), says.to_owned()));
                let rtt = day.rtts.quantile(share).map(|ns| ns * 1e-9);
                all.gauge(
                    "tailback_point_rtt_seconds",
                    "Round trips of the day, quantiles.",
                    labels,
                    rtt,
                );
            }
        }
        let Some(latest) = p.rounds.iter().max_by_key(|round| round.started_ns) else {
            continue;
        };
        for test in TESTS {
            for (direction, key) in ["up", "down"].into_iter().zip(test.keys) {
                let labels = vec![
                    ("point".into(), p.name.clone()),
                    ("direction".into(), direction.to_owned()),
                ];
                let value = latest.figure(key).value().map(|v| v * test.unit);
                all.gauge(test.name, test.help, labels, value);
            }
        }
    }
    all.0
}

/// Name of a label as Prometheus allows it, apart from the names of our own.
fn label(key: &str) -> String {
    let allowed = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    format!("label_{}", key.chars().map(allowed).collect::<String>())
}

/// Metrics under construction, in the order in which they came first.
#[derive(Default)]
struct Families(Vec<Family>);

impl Families {
    fn gauge(
        &mut self,
        name: &'static str,
        help: &'static str,
        labels: Labels,
        value: Option<f64>,
    ) {
        if let Some(value) = value.filter(|v| v.is_finite()) {
            self.add((name, help, Kind::Gauge), labels, value);
        }
    }

    fn counter(&mut self, name: &'static str, help: &'static str, labels: Labels, value: u64) {
        self.add((name, help, Kind::Counter), labels, value as f64);
    }

    fn add(
        &mut self,
        (name, help, kind): (&'static str, &'static str, Kind),
        labels: Labels,
        value: f64,
    ) {
        let point = Point {
            labels,
            value: Value::Number(value),
        };
        match self.0.iter_mut().find(|family| family.name == name) {
            Some(family) => family.points.push(point),
            None => self.0.push(Family {
                name: name.into(),
                help,
                kind,
                points: vec![point],
            }),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hub::{Health, PointStatus};
    use ops::points::{Day, Point as Measuring};
    use std::collections::BTreeMap;

    #[test]
    fn every_series_is_unique_and_what_is_unknown_is_left_out() {
        let point = PointStatus {
            name: "village-17".into(),
            health: Health::Late,
            why: None,
            agent: None,
            plan: None,
            reported_s_ago: Some(10),
            measured_s_ago: None,
            recordings: 3,
            quarantined: 0,
            rows: 900,
            bytes: 5000,
            spool_recordings: None,
            spool_bytes: None,
            rows_outstanding: Some(-1),
            spent_today: None,
            spent_this_month: None,
            remarks: Vec::new(),
            release: None,
            runs: BTreeMap::from([("done".into(), 3)]),
        };
        let status = Status {
            plan: None,
            release: None,
            clickhouse: Vec::new(),
            points: vec![point],
        };
        let mut day = Day {
            target: "udp".into(),
            judged: 200,
            missed: 2,
            ..Day::default()
        };
        day.rtts.add_many(20_000_000, 198);
        let test = |started_ns: i64, ms: f64| {
            let figures = serde_json::json!({
                "added_up_p95_ms": { "value": ms, "low": ms, "high": ms },
                "goodput_down_bps": { "value": 2e6, "low": 1e6, "high": 3e6 },
            });
            serde_json::json!({
                "title": "load", "started_ns": started_ns, "grade": "C", "complete": true, "figures": figures,
            })
        };
        let tests = serde_json::json!([test(7, 250.0), test(5, 90.0)]);
        let measuring = Measuring {
            name: "village-17".into(),
            labels: BTreeMap::from([("pro-vider".into(), "A \"quoted\" one".into())]),
            days: vec![day],
            rounds: serde_json::from_value(tests).expect("tests"),
            ..Measuring::default()
        };
        let measured = Measured {
            points: vec![measuring],
            left_out: Vec::new(),
        };
        let all = text(&families(&status, &measured, 1_800_000_000));
        for line in [
            "tailback_point_health{point=\"village-17\",health=\"late\"} 1",
            "tailback_point_reported_timestamp_seconds{point=\"village-17\"} 1799999990",
            "tailback_point_runs_total{point=\"village-17\",outcome=\"done\"} 3",
            "tailback_point_info{point=\"village-17\",label_pro_vider=\"A \\\"quoted\\\" one\"} 1",
            "tailback_point_lost_ratio{point=\"village-17\",target=\"udp\"} 0.01",
            "tailback_point_test_added_delay_seconds{point=\"village-17\",direction=\"up\"} 0.25",
            "tailback_point_test_goodput_bits_per_second{point=\"village-17\",direction=\"down\"} 2000000",
        ] {
            assert!(all.lines().any(|l| l == line), "{line} in\n{all}");
        }
        assert!(!all.contains("spool_bytes") && !all.contains("measured_timestamp"));
        let series = all.lines().filter(|l| !l.starts_with('#'));
        let mut names: Vec<&str> = series
            .map(|l| l.rsplit_once(' ').expect("a value").0)
            .collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
