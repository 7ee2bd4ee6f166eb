//! Probes as measurements in OONI's base data format, a measurement a line.
//!
//! A measurement has the probes of one target within a minute. The test has a name of our own.
//! As in OONI's, times in `test_keys` are seconds since `measurement_start_time`, failures have the names of df-007, and nothing
//! tells who measured: address, country and network are those that stand for "unknown".
//!
//! **Source.** OONI, specification of data formats, df-000-base 0.2.0 and df-007-errors.

use super::probes::{self, Group};
use super::{Written, in_one_file};
use crate::scan::Source;
use base::record::{Delay, Status};
use jiff::Timestamp;
use serde_json::{Value, json};
use std::io::Write;
use std::path::Path;

/// Version of the base format.
const FORMAT: &str = "0.2.0";
/// Version of `test_keys`.
const TEST_VERSION: &str = "0.1.0";
/// Limits of a measurement.
const MEASUREMENT: Group = Group {
    most: 6000,
    span_ns: 60 * SECOND_NS,
};
const SECOND_NS: i64 = 1_000_000_000;

/// Writes the probes of all targets, or of one.
pub(super) fn write(
    from: Source<'_>,
    output: &Path,
    target: Option<&str>,
) -> anyhow::Result<(Vec<Written>, Vec<String>)> {
    let mut test_start_ns = None;
    let (rows, others) = in_one_file(output, |out| {
        probes::groups(from, target, &MEASUREMENT, &mut |target, probes| {
            let first_ns = probes.first().map_or(0, |p| p.sent_ns);
            let test_ns = *test_start_ns.get_or_insert(first_ns);
            writeln!(out, "{}", measurement(target, probes, test_ns)?)?;
            Ok(())
        })
    })?;
    let file = output.to_owned();
    Ok((vec![Written { file, rows }], probes::left(others)))
}

/// Whole second in UTC, as OONI writes times.
fn second(t_ns: i64) -> anyhow::Result<String> {
    let time = Timestamp::from_second(t_ns.div_euclid(SECOND_NS))?;
    Ok(time.strftime("%Y-%m-%d %H:%M:%S").to_string())
}

/// One measurement.
fn measurement(target: &str, probes: &[Delay], test_ns: i64) -> anyhow::Result<Value> {
    let first_ns = probes.first().map_or(0, |p| p.sent_ns);
    let last_ns = probes.last().map_or(0, |p| p.sent_ns);
    let start_ns = first_ns.div_euclid(SECOND_NS) * SECOND_NS;
    let since = |t_ns: i64| t_ns.saturating_sub(start_ns) as f64 / 1e9;
    let ping = |p: &Delay| {
        // Sums of nanoseconds, so that the difference of both times is the round trip.
        let answered_ns = p.rtt_ns.map(|rtt| p.sent_ns.saturating_add(rtt));
        json!({
            "t0": since(p.sent_ns),
            "t": answered_ns.map(since),
            "failure": p.rtt_ns.is_none().then_some("generic_timeout_error"),
            "x_duplicate": p.status == Status::Duplicate,
        })
    };
    let first_answers = || probes.iter().filter(|p| p.status != Status::Duplicate);
    let sent = first_answers().count();
    let answered = first_answers().filter(|p| p.rtt_ns.is_some()).count();
    Ok(json!({
        "annotations": {},
        "data_format_version": FORMAT,
        "input": target,
        "measurement_start_time": second(first_ns)?,
        "probe_asn": "AS0",
        "probe_cc": "ZZ",
        "probe_ip": "127.0.0.1",
        "probe_network_name": "",
        "report_id": "",
        "resolver_asn": "AS0",
        "resolver_ip": "127.0.0.2",
        "resolver_network_name": "",
        "software_name": "tailback",
        "software_version": env!("CARGO_PKG_VERSION"),
        "test_helpers": {},
        "test_keys": {
            "failure": (answered == 0).then_some("generic_timeout_error"),
            "sent": sent,
            "answered": answered,
            "pings": probes.iter().map(ping).collect::<Vec<_>>(),
        },
        "test_name": "tailback_rtt",
        "test_runtime": (last_ns.saturating_sub(first_ns)) as f64 / 1e9,
        "test_start_time": second(test_ns)?,
        "test_version": TEST_VERSION,
    }))
}
