//! Statistics of a recording of any length, in two passes over its columns: the first finds its time range and
//! interval, the second everything else.

use crate::host_load;
use crate::scan::{self, Source};
use crate::times;
use crate::unsettled::Unsettled;
use crate::usage;
use analysis::holes::Holes;
use analysis::incidents::{cut_off, incidents};
use analysis::moments::moments;
use analysis::phases;
use analysis::saturation::{Carried, Full};
use analysis::series::{Counts, Cuts, Outline, Plan, Probe, Series, overlaps};
use analysis::services::Table;
use analysis::statistics::{Excluded, STATISTICS_VERSION, ShiftCause, Statistics, UnsettledEnd};
use analysis::survey::{Request, Span, target};
use analysis::uplinks::uplinks;
use anyhow::Context;
use base::record::{
    Availability, Direction, Event, Exclusion, Meta, Origin, Recording, Row, Status, TableId, Text,
};
use jiff::tz::TimeZone;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Question to a recording.
#[derive(Clone)]
pub(crate) struct Ask {
    pub zone: TimeZone,
    /// Begin of the time range.
    pub from_ns: Option<i64>,
    pub to_ns: Option<i64>,
    pub window_ns: Option<i64>,
    /// Length of the sliding window; by default ten minutes, or a tenth of a short recording.
    pub sliding_ns: Option<i64>,
    pub spans: Vec<Span>,
    pub exclusions: Vec<Exclusion>,
    pub limits_ns: Vec<i64>,
    pub services: Vec<Table>,
    /// Rate of the uplink.
    pub up_bps: Option<f64>,
    pub down_bps: Option<f64>,
    /// Target to analyse, instead of all.
    pub target: Option<String>,
    pub threads: usize,
}

impl Ask {
    /// Question for all figures, within the usual limits.
    pub(crate) fn of(zone: TimeZone, threads: usize) -> Ask {
        let limits = analysis::reliability::LIMITS_MS.iter();
        Ask {
            zone,
            threads,
            limits_ns: limits.map(|ms| (ms * 1e6) as i64).collect(),
            from_ns: None,
            to_ns: None,
            window_ns: None,
            sliding_ns: None,
            spans: Vec::new(),
            exclusions: Vec::new(),
            services: Vec::new(),
            up_bps: None,
            down_bps: None,
            target: None,
        }
    }
}

/// Error: a recording, or a span of it, has no probe.
#[derive(Debug)]
pub(crate) struct NoProbes(String);

impl std::fmt::Display for NoProbes {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for NoProbes {}

const TEN_MINUTES: i64 = 600_000_000_000;
/// Longest recording: figures are kept for each minute, and a clock that was wrong once would make a century of them.
const LONGEST_NS: i64 = 20 * 366 * 86_400 * 1_000_000_000;
/// Largest number of windows; beyond it the user has to ask for longer ones.
const MOST_WINDOWS: i64 = 100_000;

/// Statistics of a recording's probes, each target by itself.
///
/// # Errors
/// A recording without probes, or one that spans too long a time.
pub(crate) fn statistics(from: Source<'_>, ask: &Ask) -> anyhow::Result<Statistics> {
    let meta = scan::meta(from)?;
    let unsettled = Unsettled::of(from)?;
    // Neither needs the other: on two cores they take as long as the longer.
    let (outlines, carried) = std::thread::scope(|scope| {
        let carried = scope.spawn(|| carried(from));
        let outlines = outlines(from, ask, &unsettled);
        (outlines, carried.join().expect("reading does not panic"))
    });
    let (outlines, carried) = (outlines?, carried?);
    let (from_ns, to_ns) = span(from, ask, &outlines)?;
    let days = times::days(from_ns, to_ns, &ask.zone)?;
    let windows = windows(ask, &days, (from_ns, to_ns))?;
    let (events, availability) = events(from)?;
    let mut incidents = incidents(&events, &availability);
    let kept_back = |target: &str| cut_off(&events, &incidents, target, to_ns);
    let kept_back: BTreeMap<Text, Vec<(i64, i64)>> =
        outlines.keys().map(|t| (t.clone(), kept_back(t))).collect();
    incidents.retain(|i| i.from_ns < to_ns && from_ns <= i.to_ns);
    let mut moments = moments(&events);
    moments.retain(|m| (from_ns..to_ns).contains(&m.t_ns));
    let mut exclusions: Vec<Exclusion> = meta.exclusions.clone();
    exclusions.extend(ask.exclusions.iter().cloned());
    let request = Request {
        windows,
        calendar: days.clone(),
        phases: phases(events, &meta, to_ns),
        spans: ask.spans.clone(),
        limits_ns: ask.limits_ns.clone(),
        sliding_ns: ask
            .sliding_ns
            .unwrap_or_else(|| TEN_MINUTES.min((to_ns - from_ns) / 10)),
        services: ask.services.clone(),
        full: full(ask, &outlines, carried, (from_ns, to_ns)),
        incidents,
        // Answers to our own probes carry their numbers.
        matched: !matches!(meta.origin, Origin::Simulated | Origin::Imported),
        // A day of a recording of one day is the whole.
        days: if days.len() > 1 {
            days.clone()
        } else {
            Vec::new()
        },
    };
    let cuts = cuts(&request, &days, ask, &exclusions);
    let span = (from_ns, to_ns);
    let (series, interfaces) = std::thread::scope(|scope| {
        let interfaces = scope.spawn(|| host_load::interfaces(from, span, &[]));
        let series = series(from, ask, &outlines, kept_back, &cuts);
        (series, interfaces.join().expect("reading does not panic"))
    });
    let (series, interfaces) = (series?, interfaces?);
    let mut targets: Vec<_> = series
        .iter()
        .map(|(name, s)| target(name, s, &request))
        .collect();
    // Our own probes first, others by name.
    targets.sort_by_key(|t| !analysis::phases::is_own(&t.target));
    if unsettled.is_young {
        let because = "the recording is too young: no probe is old enough to be lost";
        targets.iter_mut().for_each(|t| t.without_loss(because));
    }
    let samples = host_load::samples(from, span)?;
    let watched = availability.iter().map(|a| a.interface.to_string());
    let watched = watched.collect();
    Ok(Statistics {
        host: host_load::summary(from, samples, span, &targets)?,
        modem: host_load::modem(from, span)?,
        radios: host_load::radios(from, span, &targets, &watched)?,
        interfaces,
        uplinks: uplinks(&availability, span),
        version: STATISTICS_VERSION,
        title: meta.title,
        origin: meta.origin,
        complete: meta.complete,
        from_ns,
        to_ns,
        unsettled: unsettled.open.map(|(from_ns, to_ns)| UnsettledEnd {
            from_ns,
            to_ns,
            is_all: unsettled.is_young,
        }),
        excluded: excluded(exclusions, &series),
        incidents: request.incidents,
        moments,
        targets,
    })
}

type Outlines = BTreeMap<Text, Outline>;

/// Checks that the recording has probes of the target that was asked for, at any time.
///
/// # Errors
/// Lists its targets.
fn known(from: Source<'_>, ask: &Ask) -> anyhow::Result<()> {
    let Some(asked) = &ask.target else {
        return Ok(());
    };
    let seen = scan::Contents::of(from)?.targets;
    if seen.is_empty() || seen.contains_key(&**asked) {
        return Ok(());
    }
    let names: Vec<&str> = seen.keys().map(|k| &**k).collect();
    Err(usage(format!(
        "{} holds no probes of target {asked:?}. It has: {}",
        from.display(),
        names.join(", ")
    )))
}

/// Time range of all targets' probes.
fn span(from: Source<'_>, ask: &Ask, outlines: &Outlines) -> anyhow::Result<(i64, i64)> {
    let span = |f: fn((i64, i64)) -> i64| outlines.values().filter_map(|o| o.span()).map(f);
    let (Some(from_ns), Some(last)) = (span(|s| s.0).min(), span(|s| s.1).max()) else {
        known(from, ask)?;
        return Err(anyhow::Error::new(NoProbes(format!(
            "{} holds no probes{}",
            from.display(),
            ask.target.as_ref().map_or(
                ": statistics are of probes, which a scenario has with [[flow]] kind = \"probe\""
                    .into(),
                |t| format!(" of target {t:?} in the span that was asked for")
            )
        ))));
    };
    let to_ns = last + 1;
    if to_ns - from_ns > LONGEST_NS {
        return Err(usage(format!(
            "{}: its probes go from {} to {}, and statistics are of twenty years at most; cut a span out with --from and --to",
            from.display(),
            times::stamp(from_ns),
            times::stamp(last)
        )));
    }
    Ok((from_ns, to_ns))
}

fn windows(ask: &Ask, days: &[Span], (from_ns, to_ns): (i64, i64)) -> anyhow::Result<Vec<Span>> {
    match ask.window_ns {
        Some(length) if (to_ns - from_ns) / length > MOST_WINDOWS => Err(usage(format!(
            "--window: {} windows are too many to print; make them longer, or cut a span out with --from and --to",
            (to_ns - from_ns) / length
        ))),
        Some(length) => Ok(times::windows(days, length, (from_ns, to_ns), &ask.zone)),
        None => Ok(Vec::new()),
    }
}

/// Times in which the link was full, by direction.
fn full(
    ask: &Ask,
    outlines: &Outlines,
    carried: Carried,
    (from_ns, to_ns): (i64, i64),
) -> Vec<Full> {
    let shortest = outlines.values().map(Outline::interval_ns).min();
    let rates = carried.rates(from_ns, to_ns, shortest.unwrap_or(0).saturating_mul(20));
    let directions = [(Direction::Up, ask.up_bps), (Direction::Down, ask.down_bps)];
    directions
        .into_iter()
        .filter_map(|(direction, given)| rates.full(direction, given))
        .collect()
}

fn cuts(request: &Request, days: &[Span], ask: &Ask, exclusions: &[Exclusion]) -> Cuts {
    let edges = request
        .phases
        .iter()
        .chain(&request.spans)
        .map(|s| (s.from_ns, s.to_ns))
        .chain(request.full.iter().flat_map(|f| f.spans.iter().copied()))
        .flat_map(|(a, b)| [a, b])
        .collect();
    Cuts {
        days: days.iter().map(|d| d.from_ns).collect(),
        window_ns: ask.window_ns,
        edges,
        exclusions: exclusions.to_vec(),
        limits_ns: ask.limits_ns.clone(),
    }
}

/// Reads every probe into its target's series.
fn series(
    from: Source<'_>,
    ask: &Ask,
    outlines: &Outlines,
    mut kept_back: BTreeMap<Text, Vec<(i64, i64)>>,
    cuts: &Cuts,
) -> anyhow::Result<BTreeMap<Text, Series>> {
    let mut series = BTreeMap::new();
    for (name, outline) in outlines {
        let plan = Plan::new(outline, cuts.clone());
        let mut one = Series::new(plan.context("a target has at least one probe")?);
        one.cut_off(kept_back.remove(name).unwrap_or_default());
        series.insert(name.clone(), one);
    }
    read(from, &mut series)?;
    series.values_mut().for_each(|s| s.finish(ask.threads));
    Ok(series)
}

/// Exclusions, each with the number of its probes.
fn excluded(exclusions: Vec<Exclusion>, series: &BTreeMap<Text, Series>) -> Vec<Excluded> {
    let one = |(i, span): (usize, Exclusion)| {
        let blocks = series.values().flat_map(|s| &s.blocks);
        let inside = blocks.filter(|b| b.excluded == Some(i));
        Excluded {
            probes: inside.map(|b| b.counts.sent()).sum(),
            span,
        }
    };
    exclusions.into_iter().enumerate().map(one).collect()
}

/// Times in which the base line shows a fault of the instrument, as exclusions.
pub(crate) fn faults(s: &Statistics) -> Vec<Exclusion> {
    let shifts = s.targets.iter().flat_map(|t| &t.baseline.shifts);
    shifts
        .filter(|s| s.cause == ShiftCause::Instrument)
        .map(|s| Exclusion {
            from_ns: s.from_ns,
            to_ns: s.to_ns,
            reason: format!(
                "the instrument: base line {:+.0} ms, {} × the interval between probes",
                s.step_ms,
                s.intervals.unwrap_or_default()
            ),
        })
        .collect()
}

/// Due time of each judged probe of a target, and the number of limits that its answer missed. Thinned probes are not
/// among them: only their counts are left. `interval_ns`: interval between probes.
pub(crate) fn missed(
    from: Source<'_>,
    target: &str,
    interval_ns: i64,
    ask: &Ask,
) -> anyhow::Result<Vec<(i64, u8)>> {
    let (events, availability) = events(from)?;
    let incidents = incidents(&events, &availability);
    let kept_back = cut_off(&events, &incidents, target, i64::MAX);
    let mut left_out = scan::meta(from)?.exclusions;
    left_out.extend(ask.exclusions.iter().cloned());
    let counts = |t: i64| {
        ask.from_ns.is_none_or(|from| t >= from)
            && ask.to_ns.is_none_or(|to| t < to)
            && !left_out.iter().any(|x| (x.from_ns..x.to_ns).contains(&t))
    };
    let limits = ask.limits_ns.len();
    let mut all = Vec::new();
    scan::probes(from, |name, sent_ns, rtt_ns, status| {
        let p = Probe {
            sent_ns,
            rtt_ns,
            status,
        };
        let judged = match status {
            Status::Invalid | Status::Duplicate => false,
            Status::NotSent => overlaps(&kept_back, sent_ns, interval_ns),
            _ => true,
        };
        if **name == *target && judged && counts(sent_ns) {
            let missed = p
                .rtt()
                .map_or(limits, |rtt| ask.limits_ns.partition_point(|l| *l < rtt));
            all.push((sent_ns, missed as u8));
        }
    })?;
    Ok(all)
}

/// Gaps, outages and availability of each target that has probes in that time.
pub(crate) fn holes(from: Source<'_>, ask: &Ask) -> anyhow::Result<BTreeMap<Text, Holes>> {
    let outlines = outlines(from, ask, &Unsettled::of(from)?)?;
    let mut exclusions = scan::meta(from)?.exclusions;
    exclusions.extend(ask.exclusions.iter().cloned());
    let cuts = Cuts {
        exclusions,
        ..Cuts::default()
    };
    let (events, availability) = events(from)?;
    let incidents = incidents(&events, &availability);
    let mut all = BTreeMap::new();
    for (name, outline) in &outlines {
        let Some(plan) = Plan::new(outline, cuts.clone()) else {
            continue;
        };
        let mut series = Series::of_holes(plan);
        series.cut_off(cut_off(&events, &incidents, name, i64::MAX));
        all.insert(name.clone(), series);
    }
    read(from, &mut all)?;
    let found = all.into_iter();
    Ok(found
        .map(|(name, s)| (name, analysis::holes::holes(&s)))
        .collect())
}

/// Time range of each target's probes with a known fate, within the requested one.
fn outlines(from: Source<'_>, ask: &Ask, unsettled: &Unsettled) -> anyhow::Result<Outlines> {
    let wanted = |t: i64| {
        ask.from_ns.is_none_or(|from| t >= from)
            && ask.to_ns.is_none_or(|to| t < to)
            && unsettled.counts(t)
    };
    let mine = |name: &Text| ask.target.as_ref().is_none_or(|t| **t == **name);
    let mut all: Vec<(Text, Outline)> = Vec::new();
    let place = |all: &mut Vec<(Text, Outline)>, name: &Text| {
        all.iter().position(|(n, _)| n == name).unwrap_or_else(|| {
            all.push((name.clone(), Outline::default()));
            all.len() - 1
        })
    };
    let mut words: Vec<Text> = Vec::new();
    let columns = ["sent_ns", "target"];
    scan::scan(from, TableId::Delay, &columns, &mut |rows| {
        let Some(targets) = rows.words("target", &mut words) else {
            return;
        };
        let places: Vec<Option<usize>> = (0..words.len())
            .map(|w| {
                let used = mine(&words[w]) && targets.contains(&(w as u32));
                used.then(|| place(&mut all, &words[w]))
            })
            .collect();
        let sent = rows.ints("sent_ns");
        for (i, t) in targets.iter().enumerate() {
            if let (Some(place), Some(sent)) = (places[*t as usize], sent.get(i))
                && wanted(sent)
            {
                all[place].1.add(sent);
            }
        }
    })?;
    scan::thinned(from, &mut |row| {
        if mine(&row.target) && wanted(row.t_ns) {
            let at = place(&mut all, &row.target);
            all[at]
                .1
                .add_thinned(row.t_ns, row.interval_ns, row.sent_packets.max(0) as u64);
        }
    })?;
    for m in unsettled.lost.iter().filter(|m| mine(&m.target)) {
        if wanted(m.sent_ns) {
            let at = place(&mut all, &m.target);
            all[at].1.add(m.sent_ns);
        }
    }
    all.retain(|(_, o)| o.rows() > 0);
    Ok(all.into_iter().collect())
}

/// Events in the order of writing, and rows on interfaces.
fn events(from: Source<'_>) -> anyhow::Result<(Vec<Event>, Vec<Availability>)> {
    let (mut events, mut availability) = (Vec::new(), Vec::new());
    scan::each_row(from, TableId::Event, &mut |row| {
        if let Row::Event(e) = row {
            events.push(e);
        }
    })?;
    scan::each_row(from, TableId::Availability, &mut |row| {
        if let Row::Availability(a) = row {
            availability.push(a);
        }
    })?;
    Ok((events, availability))
}

fn phases(event: Vec<Event>, meta: &Meta, end_ns: i64) -> Vec<Span> {
    let recording = Recording {
        meta: meta.clone(),
        event,
        ..Recording::default()
    };
    let span = |p: phases::Phase| Span {
        name: p.name.clone(),
        from_ns: p.warm_ns,
        to_ns: p.to_ns,
    };
    let all = phases::phases(&recording, Some(end_ns));
    all.into_iter().map(span).collect()
}

/// Traffic of the busiest interface.
fn carried(from: Source<'_>) -> anyhow::Result<Carried> {
    let mut all: Vec<(Text, Carried)> = Vec::new();
    let mut last = 0;
    scan::all_traffic(from, &mut |name, t, length, rx, tx| {
        if all.get(last).is_none_or(|(n, _)| *n != *name) {
            last = all
                .iter()
                .position(|(n, _)| *n == *name)
                .unwrap_or_else(|| {
                    all.push((name.clone(), Carried::default()));
                    all.len() - 1
                });
        }
        all[last].1.add(t, length, rx, tx);
    })?;
    let bytes = |c: &(Text, Carried)| c.1.bytes();
    let busiest = all.into_iter().max_by(|a, b| bytes(a).total_cmp(&bytes(b)));
    Ok(busiest.map_or_else(Carried::default, |(_, c)| c))
}

fn read(from: Source<'_>, series: &mut BTreeMap<Text, Series>) -> anyhow::Result<()> {
    let mut names: Vec<Text> = Vec::new();
    let mut all: Vec<&mut Series> = Vec::new();
    for (name, s) in series.iter_mut() {
        names.push(name.clone());
        all.push(s);
    }
    // Target of the last probe, and its place; most rows share one text with the row before.
    let mut last: Option<(Text, Option<usize>)> = None;
    scan::probes(from, |name, sent_ns, rtt_ns, status| {
        let at = match &last {
            Some((of, at)) if Arc::ptr_eq(of, name) => *at,
            _ => {
                let at = names.iter().position(|n| n == name);
                last = Some((name.clone(), at));
                at
            }
        };
        if let Some(at) = at {
            all[at].add(Probe {
                sent_ns,
                rtt_ns,
                status,
            });
        }
    })?;
    let mut unread = None;
    scan::thinned(from, &mut |row| {
        let Some(i) = names.iter().position(|n| *n == row.target) else {
            return;
        };
        let count = |n: i64| n.max(0) as u64;
        let counts = Counts {
            ok: count(row.ok_packets),
            late: count(row.late_packets),
            lost: count(row.lost_packets),
            invalid: count(row.invalid_packets),
            not_sent: count(row.not_sent_packets),
            ..Counts::default()
        };
        let added = row.rtts().map_err(|e| e.to_string()).and_then(|h| {
            let added = all[i].add_thinned(row.t_ns, row.interval_ns, &counts, &h);
            added.map_err(|e| e.to_string())
        });
        if let Err(why) = added {
            unread = Some(scan::unreadable(from, &row, &why));
        }
    })?;
    match unread {
        Some(why) => Err(anyhow::anyhow!(why)),
        None => Ok(()),
    }
}
