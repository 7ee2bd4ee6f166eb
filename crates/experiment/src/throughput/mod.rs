//! Throughput of a link by each of the usual methods, and the waits of packets meanwhile.
//!
//! **Method.** The link is filled, one method after the other, by several TCP connections, by one, and by datagrams
//! faster than it. Counting begins after a warm-up, so that slow start is left out. The interface's own counters are
//! read beside each; they include cross traffic. Probes of a session run all the time: round trips at rest and under
//! each load, and count as a part of the rate.
//!
//! **Source.** Borlaug 2014, section 3.5.1 and figure 15: three connections after a warm-up, with latency under load and jitter
//! (SamKnows); one connection with the interface's counters, the *passive throughput*, and the capacity by UDP (BISMark).
//!
//! **Deviations.** Jitter is the mean difference of successive round trips (RFC 3393's delay variation of consecutive
//! packets, there and back); the document names no formula. Latency of the last mile is the kind `path`'s.
//!
//! **Units.** bit/s of whole IP packets, unless payload is said; ms.

mod steps;

use super::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use super::spec::{How, Spec};
use super::trains::Ways;
use crate::{phases, rate};
use base::Duration;
use base::noted::Noted;
use base::noted::throughput::{Method, Step, ThroughputNote};
use base::print::significant;
use base::print::{DELAY, RATE};
use base::record::{Direction, Recording};
use base::spec::{Params as _, params};
use base::words::Words;
use stats::{Delays, Figure};
use std::ops::Range;

const DOCUMENT: &str = "Borlaug 2014, section 3.5.1";
/// Rates of cross traffic from which it counts (Borlaug 2014, section 3.5.1), bit/s down and up.
const OTHERS_BPS: [(Direction, f64); 2] = [(Direction::Down, 64e3), (Direction::Up, 32e3)];
/// Largest size of a packet's link-layer header that an interface counts: Ethernet.
const LINK_HEADER: f64 = 14.0;
/// Share by which datagrams that bring less than TCP did not fill the link.
const SHORT: f64 = 0.02;
/// Length of a stretch for one point of the plot, s.
const POINT_S: f64 = 0.5;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "throughput": "How much does the link carry, measured by several methods, and how long do packets wait meanwhile?", ["Borlaug 2014, section 3.5.1", "RFC 3148", "RFC 3393"] {
        /// direction to fill
        direction: Ways = "both";
        /// connections of the first method
        flows: u32 = "3" ["2".."64"], DOCUMENT;
        /// warm-up: time from the start of a step until counting starts
        warm_up: Duration = "5 s" ["0 s".."60 s"], DOCUMENT;
        /// counted time of a step; less if the budget ends
        hold: Duration = "10 s" ["1 s".."600 s"];
        /// idle time before the first step
        idle: Duration = "10 s" ["1 s".."600 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "two minutes at the link's full rate, less if the budget ends",
    beside_others: false,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::Throughput::new(w.read(), setting)))),
    answer,
};

/// Step with the figures of the tables.
struct Seen {
    step: Step,
    /// Payload rate.
    payload: Figure,
    /// Rate of whole IP packets, the session's probes included.
    packets: Figure,
    /// Rate on the interface, cross traffic and link-layer headers included; null if it was not read.
    interface_bps: Option<f64>,
    /// Share of a TCP or UDP load's packets that is no payload, and packets in a second.
    packets_per_s: Option<f64>,
    delays: Delays,
    lost: Figure,
    /// Course: s since the step began, Mbit/s of payload.
    course: Vec<(f64, Option<f64>)>,
}

fn name(step: &Step) -> String {
    match step.method {
        Method::Several => format!("{} connections", step.flows),
        Method::One => "one connection".into(),
        Method::Datagrams => "datagrams".into(),
    }
}

fn key(method: Method) -> &'static str {
    match method {
        Method::Several => "several",
        Method::One => "one",
        Method::Datagrams => "datagrams",
    }
}

impl Seen {
    fn of(step: Step, recording: &Recording) -> Seen {
        let counts = step.warm_ns..step.ended_ns;
        let carried = rate::carried(recording, step.direction, counts.clone());
        let payload = match &carried {
            // Where all of them arrived the line was not full.
            Some(c) if step.method == Method::Datagrams && all_arrived(&step) => {
                let least = c.goodput().value().unwrap_or(0.0);
                Figure::cannot_tell(format!(
                    "all of them arrived: it carries {} of payload at least",
                    RATE.print(least)
                ))
            }
            Some(c) => c.goodput(),
            None => Figure::cannot_tell("it was sampled for less than half a second"),
        };
        let bytes = carried.as_ref().map_or(0.0, rate::Carried::bytes);
        let payload_bytes = step.payload_bytes.map_or_else(
            || rate::mss(recording, step.direction, counts.clone()),
            |p| p as f64,
        );
        let packet_bytes = step.packet_bytes.map_or_else(
            || payload_bytes + rate::header_bytes(payload_bytes),
            |p| p as f64,
        );
        // Either end of the count may be a packet off.
        let payload = match bytes > payload_bytes {
            true => payload.widened(payload_bytes / bytes),
            false => payload,
        };
        let load = payload.map(|bps| bps * packet_bytes / payload_bytes);
        let beside_bps = probes_bps(recording, step.direction, counts.clone());
        let (delays, lost) = probed(recording, counts.clone());
        let whole = rate::carried(recording, step.direction, step.began_ns..step.ended_ns);
        let course = whole.map_or_else(Vec::new, |c| {
            let point = |(from, to, bps): (i64, i64, f64)| {
                let middle = from + (to - from) / 2 - step.began_ns;
                (middle as f64 * 1e-9, Some(bps * 1e-6))
            };
            let stretches = (c.seconds() / POINT_S).max(1.0) as usize;
            c.batches(stretches).into_iter().map(point).collect()
        });
        Seen {
            interface_bps: interface_bps(recording, step.direction, &counts),
            packets_per_s: load.value().map(|bps| bps / 8.0 / packet_bytes),
            packets: load.map(|bps| bps + beside_bps),
            payload,
            delays,
            lost,
            course,
            step,
        }
    }

    /// Rate on the interface beyond this step's own; null if it was not read.
    fn others_bps(&self) -> Option<f64> {
        let own = self.packets.value()? + self.packets_per_s? * LINK_HEADER * 8.0;
        Some((self.interface_bps? - own).max(0.0))
    }
}

/// True if all datagrams arrived but a few at the end, which were in flight.
fn all_arrived(step: &Step) -> bool {
    match (step.sent, step.received) {
        (Some(sent), Some(received)) => received as f64 >= 0.98 * sent as f64,
        _ => false,
    }
}

/// Makes the rate of datagrams a lower bound if TCP brought more than they did: hosts lost or held back datagrams that
/// the link would have carried. Returns the reasons.
fn bound_datagrams(steps: &mut [Seen]) -> Vec<String> {
    let most = |direction: Direction| {
        let tcp = steps
            .iter()
            .filter(|s| s.step.direction == direction && s.step.method != Method::Datagrams);
        let told = tcp.filter_map(|s| Some((s.packets.value()?, name(&s.step))));
        told.max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let mosts = WAYS.map(|way| (way, most(way)));
    let mut doubts = Vec::new();
    for s in steps
        .iter_mut()
        .filter(|s| s.step.method == Method::Datagrams)
    {
        let Some((bps, by)) = mosts
            .iter()
            .find(|m| m.0 == s.step.direction)
            .and_then(|m| m.1.as_ref())
        else {
            continue;
        };
        let Figure::Is { value, high, .. } = s.packets else {
            continue;
        };
        if value >= (1.0 - SHORT) * bps || high >= *bps {
            continue;
        }
        let why = format!(
            "{} by datagrams and {} by {by}: this host or the far one lost or held back datagrams that the link would have carried",
            RATE.print(value),
            RATE.print(*bps)
        );
        doubts.push(format!(
            "{}, datagrams: at least {why}",
            s.step.direction.word()
        ));
        let unknown = Figure::cannot_tell(format!("at least {why}"));
        (s.payload, s.packets) = (unknown.clone(), unknown);
        s.packets_per_s = None;
    }
    doubts
}

/// Rate on the interface in that direction, cross traffic included.
fn interface_bps(recording: &Recording, direction: Direction, range: &Range<i64>) -> Option<f64> {
    let rows = recording.traffic.iter();
    let (mut bytes, mut ns) = (0.0, 0.0);
    for t in rows.filter(|t| range.contains(&t.t_ns) && t.interval_ns > 0) {
        let counted = match direction {
            Direction::Up => t.tx_bytes,
            Direction::Down => t.rx_bytes,
        };
        bytes += counted? as f64;
        ns += t.interval_ns as f64;
    }
    (ns > 0.0).then(|| bytes * 8e9 / ns)
}

/// Rate of the session's probes that crossed the link in this direction, whole IP packets.
fn probes_bps(recording: &Recording, direction: Direction, range: Range<i64>) -> f64 {
    let seconds = (range.end.saturating_sub(range.start) as f64 * 1e-9).max(1e-3);
    let probes = phases::crossing(recording, range);
    let bytes = analysis::Options::default()
        .with_facts_of(recording)
        .probe_ip_bytes;
    analysis::loss::crossed(&probes, direction) * bytes * 8.0 / seconds
}

/// Round trips of the session's probes, and the share that was lost.
fn probed(recording: &Recording, range: Range<i64>) -> (Delays, Figure) {
    let probes = phases::own_probes(recording, range);
    let ms: Vec<f64> = probes.iter().filter_map(|d| d.rtt_ms()).collect();
    let sent = probes.iter().filter(|d| d.status.was_sent());
    let lost: Vec<bool> = sent.map(|d| d.status.is_lost()).collect();
    let lost = match lost.is_empty() {
        true => Figure::cannot_tell("no probe was sent meanwhile"),
        false => stats::share(&lost),
    };
    (stats::delays(&ms, "no probe was answered meanwhile"), lost)
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let (mut idle, mut steps) = (None, Vec::new());
    for (_, note) in ThroughputNote::all_of(recording) {
        match note {
            ThroughputNote::Idle { began_ns, ended_ns } => idle = Some(began_ns..ended_ns),
            ThroughputNote::Step(step) => steps.push(Seen::of(step, recording)),
        }
    }
    let Some(idle) = idle else {
        return Outcome::cannot_tell("it ended before the link was seen at rest");
    };
    let (rest, rest_lost) = probed(recording, idle.clone());
    let short = bound_datagrams(&mut steps);
    let mut out = Outcome {
        says: says(&steps, &rest),
        tables: vec![table(&steps, &rest, &rest_lost)],
        plots: plots(&steps, recording, idle.start),
        ..Outcome::default()
    };
    out.figures = vec![
        Figured::time(
            "latency_ms",
            "round trip at rest, median",
            rest.p50_ms.clone(),
        ),
        Figured::time("jitter_ms", "jitter at rest", jitter(recording, idle)),
    ];
    for s in &steps {
        let (way, method) = (s.step.direction.word(), key(s.step.method));
        let told = name(&s.step);
        out.figures.extend([
            Figured::rate(
                &format!("{way}_{method}_bps"),
                &format!("{way}, {told}"),
                s.packets.clone(),
            ),
            Figured::time(
                &format!("{way}_{method}_latency_ms"),
                &format!("{way}, {told}: round trip meanwhile, median"),
                s.delays.p50_ms.clone(),
            ),
        ]);
        if let Some(cut) = &s.step.cut {
            out.doubts
                .push(format!("{way}, {told}, ended before its time: {cut}"));
        }
        let limit = OTHERS_BPS.iter().find(|o| o.0 == s.step.direction);
        let others = s.others_bps().zip(limit).filter(|(bps, (_, most))| {
            // What is sent again, probes and acknowledgements are ours too: a twentieth of the load at most.
            *bps > most + 0.05 * s.packets.value().unwrap_or(0.0)
        });
        // Datagrams beyond what the line carries pass the interface too.
        let overload = s.step.method == Method::Datagrams && s.step.direction == Direction::Up;
        if let Some((bps, _)) = others.filter(|_| !overload) {
            out.doubts.push(format!(
                "{way}, {told}: {} passed the interface that were not this run's; together with it that is what the link carries",
                RATE.print(bps)
            ));
        }
    }
    out.doubts.extend(short);
    out.evidence = evidence(&steps);
    out
}

/// Jitter of round trips.
fn jitter(recording: &Recording, range: Range<i64>) -> Figure {
    let probes = phases::own_probes(recording, range);
    let trips: Vec<(i64, f64)> = probes
        .iter()
        .filter_map(|d| Some((d.seq, d.rtt_ms()?)))
        .collect();
    stats::jitter(&trips)
}

fn of(steps: &[Seen], direction: Direction, method: Method) -> Option<&Seen> {
    steps
        .iter()
        .find(|s| (s.step.direction, s.step.method) == (direction, method))
}

const WAYS: [Direction; 2] = [Direction::Up, Direction::Down];

fn says(steps: &[Seen], rest: &Delays) -> String {
    let most = |direction: Direction| {
        let all = steps.iter().filter(|s| s.step.direction == direction);
        let bps = all.filter_map(|s| s.packets.value());
        let most = bps.max_by(f64::total_cmp)?;
        Some(format!("{} {}", RATE.print(most), direction.word()))
    };
    let found: Vec<String> = WAYS.into_iter().filter_map(most).collect();
    if found.is_empty() {
        return "Cannot tell: no step has a rate.".into();
    }
    let mut text = format!("The line carries {}.", found.join(" and "));
    let waited = |direction: Direction| {
        let several = of(steps, direction, Method::Several)?;
        let loaded = several.delays.p50_ms.value()?;
        let beside = format!("{} filling it", name(&several.step));
        Some(format!(
            "{} with {beside} {}",
            DELAY.print(loaded),
            direction.word()
        ))
    };
    let waited: Vec<String> = WAYS.into_iter().filter_map(waited).collect();
    if let (Some(rest), false) = (rest.p50_ms.value(), waited.is_empty()) {
        text += &format!(
            " A round trip takes {}, and {} at rest.",
            waited.join(", "),
            DELAY.print(rest)
        );
    }
    text
}

/// Differences between the methods whose intervals do not overlap.
fn evidence(steps: &[Seen]) -> Vec<String> {
    let mut out = Vec::new();
    for direction in WAYS {
        let seen = |method| of(steps, direction, method);
        if let (Some(several), Some(one)) = (seen(Method::Several), seen(Method::One)) {
            out.extend(compared(direction, several, one));
        }
        if let (Some(datagrams), Some(several)) = (seen(Method::Datagrams), seen(Method::Several)) {
            out.extend(compared(direction, datagrams, several));
        }
    }
    out
}

fn compared(direction: Direction, most: &Seen, other: &Seen) -> Option<String> {
    let bounds = |s: &Seen| match s.packets {
        Figure::Is { value, low, high } => Some((value, low, high)),
        Figure::CannotTell { .. } => None,
    };
    let ((a, a_low, a_high), (b, b_low, b_high)) = (bounds(most)?, bounds(other)?);
    let (most, other) = (name(&most.step), name(&other.step));
    let way = direction.word();
    Some(if a_low > b_high || b_low > a_high {
        let share = significant(b / a * 100.0, 3);
        format!("{way}: {other} reached {share} % of what {most} did")
    } else {
        format!("{way}: {other} and {most} do not differ by more than their intervals")
    })
}

fn cell(figure: &Figure, scale: f64) -> String {
    match figure {
        Figure::Is { value, .. } => significant(value * scale, 4),
        Figure::CannotTell { .. } => "–".into(),
    }
}

fn table(steps: &[Seen], rest: &Delays, rest_lost: &Figure) -> Table {
    let delays = |d: &Delays, lost: &Figure| {
        [
            cell(&d.p50_ms, 1.0),
            cell(&d.p95_ms, 1.0),
            cell(lost, 100.0),
        ]
    };
    let mut rows = vec![{
        let mut row = vec!["at rest".to_string(), "–".into(), "–".into(), "–".into()];
        row.extend(delays(rest, rest_lost));
        row
    }];
    rows.extend(steps.iter().map(|s| {
        let interface = s.interface_bps;
        let mut row = vec![
            format!("{}, {}", s.step.direction.word(), name(&s.step)),
            cell(&s.payload, 1e-6),
            cell(&s.packets, 1e-6),
            interface.map_or("–".into(), |bps| significant(bps * 1e-6, 4)),
        ];
        row.extend(delays(&s.delays, &s.lost));
        row
    }));
    Table::new(
        "By method: Mbit/s, and what probes saw meanwhile",
        [
            "method",
            "payload",
            "whole packets",
            "on the interface",
            "round trip, ms",
            "95 %, ms",
            "lost, %",
        ],
        rows,
    )
}

fn plots(steps: &[Seen], recording: &Recording, began_ns: i64) -> Vec<Plot> {
    let mut out: Vec<Plot> = WAYS
        .into_iter()
        .filter_map(|direction| {
            let its = steps.iter().filter(|s| s.step.direction == direction);
            let series: Vec<Series> = its
                .map(|s| Series::new(name(&s.step), Draw::Line, s.course.clone()))
                .collect();
            (!series.is_empty()).then(|| {
                Plot::new(
                    format!("What was carried, {}", direction.word()),
                    ("s since a method began", "Mbit/s of payload"),
                    series,
                )
            })
        })
        .collect();
    let probes = phases::own_probes(recording, i64::MIN..i64::MAX);
    let points = probes.iter().map(|d| {
        let s = (d.sent_ns - began_ns) as f64 * 1e-9;
        (s, d.rtt_ms())
    });
    out.push(Plot::new(
        "Round trips of the whole run",
        ("s", "ms"),
        vec![Series::new("", Draw::Line, points.collect())],
    ));
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn seen(method: Method, direction: Direction, bps: (f64, f64, f64)) -> Seen {
        let figure = Figure::Is {
            value: bps.0,
            low: bps.1,
            high: bps.2,
        };
        Seen {
            step: Step {
                method,
                direction,
                flows: 3,
                began_ns: 0,
                warm_ns: 1,
                ended_ns: 2,
                payload_bytes: None,
                packet_bytes: None,
                sent: None,
                received: None,
                cut: None,
            },
            payload: figure.clone(),
            packets: figure,
            interface_bps: None,
            packets_per_s: Some(1.0),
            delays: stats::delays(&[], "none"),
            lost: Figure::cannot_tell("none"),
            course: Vec::new(),
        }
    }

    /// Rate of datagrams 12 % low on private links, with no doubt beside it, as users saw.
    #[test]
    fn datagrams_that_bring_less_than_tcp_are_a_bound_and_say_why() {
        use Direction::{Down, Up};
        for (several, datagrams, up, bound) in [
            (90e6, (79.2e6, 78.0e6, 80.0e6), Up, true),
            (90e6, (89.0e6, 88.9e6, 89.1e6), Up, false),
            (90e6, (79.2e6, 60.0e6, 95.0e6), Up, false),
            (70e6, (79.2e6, 78.0e6, 80.0e6), Up, false),
            // What the other direction carries says nothing of this one.
            (90e6, (79.2e6, 78.0e6, 80.0e6), Down, false),
        ] {
            let mut steps = vec![
                seen(Method::Several, up, (several, several, several)),
                seen(Method::One, Up, (10e6, 10e6, 10e6)),
                seen(Method::Datagrams, Up, datagrams),
            ];
            let doubts = bound_datagrams(&mut steps);
            assert_eq!(doubts.len(), usize::from(bound), "{doubts:?}");
            assert_eq!(steps[2].packets.value().is_none(), bound);
            assert!(steps[0].packets.value().is_some() && steps[1].packets.value().is_some());
            if bound {
                let says = &doubts[0];
                assert!(
                    says.contains("at least 79.2") && says.contains("and 90 Mbit/s by 3"),
                    "{says}"
                );
            }
        }
    }
}
