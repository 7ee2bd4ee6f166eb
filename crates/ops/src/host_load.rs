//! Devices at the near end of a recording: the measuring host with its processors, its interfaces and the seconds in which
//! it was busy, the modem, and the radios.

use crate::scan::{self, Source};
use analysis::counted::{Bins, InterfaceTraffic, MOST};
use analysis::host_load::{HostSamples, HostSummary, SecondCounter};
use analysis::modem::{ModemSummary, Readings};
use analysis::radio::{self, Counter, RadioBeside, RadioReadings, RadioSummary};
use analysis::statistics::TargetStatistics;
use analysis::survey::Span;
use base::record::{Row, TableId};
use std::collections::BTreeSet;

/// Reads the samples of the host's load within a time range.
pub(crate) fn samples(
    from: Source<'_>,
    (from_ns, to_ns): (i64, i64),
) -> anyhow::Result<HostSamples> {
    let mut samples = HostSamples::default();
    scan::each_row(from, TableId::HostLoad, &mut |row| {
        if let Row::HostLoad(row) = row
            && (from_ns..=to_ns).contains(&row.t_ns)
        {
            samples.add(&row);
        }
    })?;
    Ok(samples)
}

/// Reads the state of the modem within a time range.
pub(crate) fn modem(
    from: Source<'_>,
    (from_ns, to_ns): (i64, i64),
) -> anyhow::Result<Option<ModemSummary>> {
    let mut readings = Readings::default();
    scan::each_row(from, TableId::Modem, &mut |row| {
        if let Row::Modem(row) = row
            && (from_ns..=to_ns).contains(&row.t_ns)
        {
            readings.add(&row);
        }
    })?;
    Ok(readings.summary())
}

/// Reads the state of the radios within a time range, with the probes of the targets beside it. `watched` are the
/// interfaces whose availability was recorded.
pub(crate) fn radios(
    from: Source<'_>,
    span: (i64, i64),
    targets: &[TargetStatistics],
    watched: &BTreeSet<String>,
) -> anyhow::Result<Vec<RadioSummary>> {
    let mut readings = RadioReadings::default();
    scan::each_row(from, TableId::Radio, &mut |row| {
        if let Row::Radio(row) = row
            && (span.0..=span.1).contains(&row.t_ns)
        {
            readings.add(&row);
        }
    })?;
    let radios = readings.finish();
    let mut counters: Vec<(usize, usize, Counter<'_>)> = Vec::new();
    for (i, t) in targets.iter().enumerate() {
        let slow_ms = t.whole.rtt.point(0.95).value().unwrap_or(f64::INFINITY);
        for (at, radio) in radios.iter().enumerate() {
            if radio::passes(&t.target, &radio.summary.interface, watched, radios.len()) {
                counters.push((i, at, Counter::new(radio, &t.target, slow_ms)));
            }
        }
    }
    if !counters.is_empty() {
        scan::probes_about(from, span, |name, sent_ns, rtt_ns, status| {
            let mine = targets.iter().position(|t| t.target == **name);
            if (span.0..span.1).contains(&sent_ns) {
                let its = counters.iter_mut().filter(|(i, ..)| Some(*i) == mine);
                its.for_each(|(.., counter)| counter.probe(sent_ns, rtt_ns, status));
            }
        })?;
    }
    let found: Vec<(usize, RadioBeside)> = counters
        .into_iter()
        .map(|(_, at, counter)| (at, counter.finish()))
        .collect();
    let mut all: Vec<RadioSummary> = radios.into_iter().map(|r| r.summary).collect();
    for (at, beside) in found {
        all[at].beside.push(beside);
    }
    Ok(all)
}

/// Reads the traffic of the first interfaces of a recording, and returns the busiest first.
pub(crate) fn interfaces(
    from: Source<'_>,
    span: (i64, i64),
    days: &[Span],
) -> anyhow::Result<Vec<InterfaceTraffic>> {
    let midnight = days.first().map_or(span.0, |d| d.from_ns);
    let mut bins: Vec<Bins> = Vec::new();
    scan::interfaces(from, &mut |name, t, length, rx, tx| {
        let place = bins.iter().position(|b| *b.name() == **name);
        let place = place.or_else(|| {
            (bins.len() < MOST).then(|| {
                bins.push(Bins::new(name, span, midnight));
                bins.len() - 1
            })
        });
        if let Some(place) = place {
            bins[place].add(t, length, rx, tx);
        }
    })?;
    let mut interfaces: Vec<_> = bins.iter().map(|b| b.traffic(days)).collect();
    let bytes = |i: &InterfaceTraffic| i.whole.down.bytes + i.whole.up.bytes;
    interfaces.sort_by(|a, b| bytes(b).total_cmp(&bytes(a)));
    Ok(interfaces)
}

/// Summary of the samples, with the bad seconds of each target if the host was ever busy.
pub(crate) fn summary(
    from: Source<'_>,
    samples: HostSamples,
    span: (i64, i64),
    targets: &[TargetStatistics],
) -> anyhow::Result<Option<HostSummary>> {
    let Some(mut summary) = samples.summary() else {
        return Ok(None);
    };
    let busy = samples.busy();
    if busy.is_empty() {
        return Ok(Some(summary));
    }
    let counter = |t: &TargetStatistics| {
        let slow_ms = t.whole.rtt.point(0.95).value();
        SecondCounter::new(&t.target, slow_ms.unwrap_or(f64::INFINITY), &busy)
    };
    let mut counters: Vec<SecondCounter<'_>> = targets.iter().map(counter).collect();
    scan::probes_about(from, span, |name, sent_ns, rtt_ns, status| {
        let mine = targets.iter().position(|t| t.target == **name);
        if let (Some(i), true) = (mine, (span.0..span.1).contains(&sent_ns)) {
            counters[i].probe(sent_ns, rtt_ns, status);
        }
    })?;
    let seconds = counters.into_iter().map(SecondCounter::finish);
    summary.seconds = seconds.filter(|s| s.bad + s.others > 0).collect();
    Ok(Some(summary))
}
