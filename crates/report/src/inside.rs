//! Report of a recording with the state of queues and transfers: as text, as plots, and as a page.

use crate::html::head;
use crate::plot::{Axis, Draw, PlotSpec, Series};
use crate::table::{Cell, Table};
use crate::words::{self, when};
use analysis::inside::{Inside, Samples};
use base::print::{DELAY, PERCENT, RATE, SIZE, SPAN, number};
use base::record::Direction;
use jiff::tz::TimeZone;
use maud::{DOCTYPE, html};

/// Number of transfers with their own line in a plot: the largest.
const LINES: usize = 6;
/// Number of transfers listed; `--json` has all.
const LISTED: usize = 40;
/// Steps of a rate over time.
const STEPS: i64 = 60;

/// Returns a table of the queues and a table of the transfers, one row each.
pub fn tables(i: &Inside) -> Vec<Table> {
    let mut all = Vec::new();
    if !i.queues.is_empty() {
        all.push(queues(i));
    }
    if !i.flows.is_empty() {
        all.push(transfers(i));
    }
    all
}

fn queues(i: &Inside) -> Table {
    let heads = [
        "",
        "wait p50",
        "p95",
        "p99",
        "max",
        "empty",
        "most waiting",
        "delivered",
        "drops",
        "marks",
    ];
    let rows = i.queues.iter().map(|q| {
        let most = format!(
            "{}, {} packets",
            SIZE.print(q.backlog_max_bytes as f64),
            q.backlog_max_packets
        );
        let cells: Vec<Cell> = vec![
            Cell::figure(&q.wait_p50_ms, DELAY),
            Cell::figure(&q.wait_p95_ms, DELAY),
            Cell::figure(&q.wait_p99_ms, DELAY),
            Cell::figure(&q.wait_max_ms, DELAY),
            Cell::figure(&q.empty.map(|share| share * 100.0), PERCENT),
            most.into(),
            Cell::figure(&q.delivered_bps, RATE),
            q.drops.to_string().into(),
            q.marks.to_string().into(),
        ];
        (&*q.queue, cells)
    });
    Table::new("Queues", heads).with(rows)
}

fn transfers(i: &Inside) -> Table {
    let heads = [
        "",
        "lasted",
        "payload",
        "throughput",
        "sent again",
        "RTT min",
        "RTT p50",
        "RTT p95",
        "waited p50",
    ];
    let title = match i.flows.len() {
        n if n > LISTED => format!("Transfers (the {LISTED} of {n} that carried most)"),
        _ => "Transfers".into(),
    };
    let rows = busiest(i, LISTED).into_iter().map(|at| {
        let f = &i.flows[at];
        let cells: Vec<Cell> = vec![
            SPAN.print(f.seconds).into(),
            SIZE.print(f.bytes as f64).into(),
            Cell::figure(&f.throughput_bps, RATE),
            f.retransmits.map(|n| n.to_string()).into(),
            Cell::figure(&f.rtt_min_ms, DELAY),
            Cell::figure(&f.rtt_p50_ms, DELAY),
            Cell::figure(&f.rtt_p95_ms, DELAY),
            Cell::figure(&f.waited_p50_ms, DELAY),
        ];
        (name(i, at), cells)
    });
    Table::new(title, heads).with(rows)
}

/// Returns remarks that the tables do not contain.
pub fn remarks(i: &Inside) -> Vec<String> {
    let mut all = Vec::new();
    let waited = i
        .flows
        .iter()
        .filter_map(|f| Some((f.waited_p50_ms.value()?, f)));
    let mut waited: Vec<_> = waited.collect();
    waited.sort_by(|a, b| a.0.total_cmp(&b.0));
    if let [(least, _), .., (most, flow)] = &waited[..] {
        all.push(match most - least > 0.1 * most {
            true => format!(
                "Waited longest: transfer {} {}, {} in the median beyond its least round trip; the shortest wait is {}.",
                flow.flow,
                words::direction(flow.direction),
                DELAY.print(*most),
                DELAY.print(*least)
            ),
            false => format!(
                "All transfers waited about as long: {} in the median beyond their least round trips.",
                DELAY.print(*most)
            ),
        });
    }
    for f in &i.fairness {
        all.push(format!(
            "Jain's fairness of the {} transfers {}: {}.",
            f.flows,
            words::direction(f.direction),
            number(f.index)
        ));
    }
    if !i.queues.is_empty() {
        all.push(
            "Waits are those of the packet that left last before each sample: peaks between two are missed."
                .into(),
        );
    }
    all
}

/// Plots the queueing delay of each queue.
///
/// # Errors
/// A recording without queues.
pub fn waits(i: &Inside, samples: &Samples) -> Result<PlotSpec, String> {
    if samples.queues.is_empty() {
        return Err("no queue was sampled".into());
    }
    let lines = samples.queues.iter().map(|q| {
        let points = q.waits_ms().map(|(t, ms)| (since(i, t), ms));
        (q.name.clone(), direction_of(&q.name), points.collect())
    });
    let title = "How long packets waited in the queue";
    let series = Series::of_directions(lines.collect());
    Ok(chart(i, title, "waiting time, ms", series))
}

/// Direction of a queue, from its name, such as `up` or `hop2/down`.
fn direction_of(queue: &str) -> Option<Direction> {
    match queue.rsplit('/').next() {
        Some("up") => Some(Direction::Up),
        Some("down") => Some(Direction::Down),
        _ => None,
    }
}

/// Plots the RTT of the transfers' own packets.
pub fn round_trips(i: &Inside, samples: &Samples) -> Option<PlotSpec> {
    let mut any = false;
    let busiest = busiest(i, LINES).into_iter();
    let lines = busiest.map(|at| {
        let ms = |ns: Option<i64>| ns.map(|ns| ns as f64 / 1e6);
        let all = samples.flows[at].all.iter();
        let points: Vec<_> = all.map(|s| (since(i, s.t_ns), ms(s.srtt_ns))).collect();
        any |= points.iter().any(|p| p.1.is_some());
        (name(i, at), Some(i.flows[at].direction), points)
    });
    let lines = Series::of_directions(lines.collect());
    any.then(|| {
        let title = format!("Round trips of the transfers{}", some(i));
        chart(i, &title, "round trip, ms", lines)
    })
}

/// Plots the payload rate of each transfer.
pub fn throughput(i: &Inside, samples: &Samples) -> Option<PlotSpec> {
    let step = ((i.to_ns - i.from_ns) / STEPS).max(1);
    let rates: Vec<(usize, Vec<(i64, f64)>)> = busiest(i, LINES)
        .into_iter()
        .map(|at| {
            let bytes = samples.flows[at].bytes();
            let mut kept: Vec<(i64, i64)> = Vec::new();
            for b in bytes {
                if kept.last().is_none_or(|k| b.0 - k.0 >= step) {
                    kept.push(b);
                }
            }
            let rates = kept.windows(2).map(|w| {
                let seconds = (w[1].0 - w[0].0) as f64 / 1e9;
                (w[1].0, (w[1].1 - w[0].1) as f64 * 8.0 / seconds)
            });
            (at, rates.collect())
        })
        .collect();
    let most = rates.iter().flat_map(|r| &r.1).map(|r| r.1);
    let most = most.fold(0.0, f64::max);
    let (unit, size) = RATE.fitting(most);
    let lines = rates.iter().map(|(at, rates)| {
        let points = rates.iter();
        let points = points.map(|(t, bps)| (since(i, *t), Some(bps / size)));
        (name(i, *at), Some(i.flows[*at].direction), points.collect())
    });
    let lines = Series::of_directions(lines.collect());
    (most > 0.0).then(|| {
        let title = format!("Throughput of the transfers{}", some(i));
        chart(i, &title, &format!("payload, {unit}"), lines)
    })
}

fn since(i: &Inside, t_ns: i64) -> f64 {
    (t_ns - i.from_ns) as f64 / 1e9
}

fn some(i: &Inside) -> String {
    match i.flows.len() {
        n if n > LINES => format!(" (the {LINES} of {n} that carried most)"),
        _ => String::new(),
    }
}

pub(crate) fn name(i: &Inside, at: usize) -> String {
    let f = &i.flows[at];
    match &f.name {
        Some(name) => format!("{name} {}", words::direction(f.direction)),
        None => format!("{} {}", f.flow, words::direction(f.direction)),
    }
}

/// Plots the congestion window of each transfer.
pub fn windows(i: &Inside, samples: &Samples) -> Option<PlotSpec> {
    let mut any = false;
    let lines = busiest(i, LINES).into_iter().map(|at| {
        let kb = |bytes: Option<i64>| bytes.map(|bytes| bytes as f64 / 1e3);
        let all = samples.flows[at].all.iter();
        let points: Vec<_> = all.map(|s| (since(i, s.t_ns), kb(s.cwnd_bytes))).collect();
        any |= points.iter().any(|p| p.1.is_some());
        (name(i, at), Some(i.flows[at].direction), points)
    });
    let lines = Series::of_directions(lines.collect());
    any.then(|| {
        let title = format!("Congestion windows{}", some(i));
        chart(i, &title, "window, kB", lines)
    })
}

/// Plots the drops and marks of each queue, by step.
///
/// # Errors
/// A recording without queues, or without drops and marks.
pub fn signals(i: &Inside, samples: &Samples) -> Result<PlotSpec, String> {
    if samples.queues.is_empty() {
        return Err("no queue was sampled".into());
    }
    let step = ((i.to_ns - i.from_ns) / STEPS).max(1);
    let mut lines = Vec::new();
    for queue in &samples.queues {
        for (what, counts) in [("drops", [true, false]), ("marks", [false, true])] {
            let count = |s: &analysis::inside::QueueSample| match counts {
                [true, _] => s.drops,
                _ => s.marks,
            };
            let mut kept: Vec<(i64, i64)> = Vec::new();
            for s in &queue.all {
                if kept.last().is_none_or(|k| s.t_ns - k.0 >= step) {
                    kept.push((s.t_ns, count(s)));
                }
            }
            let each = kept
                .windows(2)
                .map(|w| (since(i, w[1].0), Some((w[1].1 - w[0].1) as f64)));
            let points: Vec<(f64, Option<f64>)> = each.collect();
            if points.iter().any(|p| p.1.is_some_and(|n| n > 0.0)) {
                let name = match samples.queues.len() {
                    1 => what.to_owned(),
                    _ => format!("{}: {what}", queue.name),
                };
                lines.push((name, None, points));
            }
        }
    }
    if lines.is_empty() {
        return Err("no packet was dropped or marked".into());
    }
    let seconds = step as f64 / 1e9;
    let y = format!("packets in {}", SPAN.print(seconds));
    Ok(chart(
        i,
        "Drops and marks",
        &y,
        Series::of_directions(lines),
    ))
}

/// Plots the wait of the fullest queue against the sum of the windows of all transfers at the same time, in thirds of the time:
/// a standing queue is one place, a sawtooth a slope that is gone along again and again, an instability a circle.
///
/// # Errors
/// A recording without queues or windows.
pub fn phase(i: &Inside, samples: &Samples) -> Result<PlotSpec, String> {
    let longest = |q: &analysis::inside::QueueSamples| {
        let waits = q.waits_ms().filter_map(|(_, ms)| ms);
        waits.fold(0.0, f64::max)
    };
    let fullest = samples.queues.iter();
    let queue = fullest.max_by(|a, b| longest(a).total_cmp(&longest(b)));
    let queue = queue.ok_or("no queue was sampled")?;
    let mut places = vec![0; samples.flows.len()];
    let mut windows: Vec<Option<i64>> = vec![None; samples.flows.len()];
    let mut thirds = [const { Vec::new() }; 3];
    let span = (i.to_ns - i.from_ns).max(1);
    for (t_ns, wait) in queue.waits_ms() {
        for ((flow, place), window) in samples.flows.iter().zip(&mut places).zip(&mut windows) {
            while let Some(s) = flow.all.get(*place).filter(|s| s.t_ns <= t_ns) {
                *window = s.cwnd_bytes.or(*window);
                *place += 1;
            }
        }
        let known = windows.iter().flatten();
        if let (Some(ms), true) = (wait, windows.iter().any(Option::is_some)) {
            let sum: i64 = known.sum();
            let third = (i128::from(t_ns - i.from_ns) * 3 / i128::from(span)).clamp(0, 2);
            thirds[third as usize].push((sum as f64 / 1e3, Some(ms)));
        }
    }
    let points = || thirds.iter().flatten();
    if points().next().is_none() {
        return Err("no window of a transfer was sampled".into());
    }
    let most = points().map(|p| p.0).fold(0.0, f64::max);
    let names = ["first third of the time", "second", "last"];
    let named = names.into_iter().zip(thirds.clone()).enumerate();
    let series = named.map(|(at, (name, points))| Series::numbered(name, Draw::Dots, at, points));
    let title = match i.title.trim() {
        "" => "Wait against window".to_owned(),
        name => format!("{name}: wait against window"),
    };
    let x = Axis::up_to("windows of all transfers, kB", most);
    let y = format!("wait in {}, ms", queue.name);
    Ok(PlotSpec::lines(title, x, y, series.collect()))
}

/// Returns the indexes of the largest transfers, in their original order.
pub(crate) fn busiest(i: &Inside, most: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..i.flows.len()).collect();
    order.sort_by_key(|at| std::cmp::Reverse(i.flows[*at].bytes));
    order.truncate(most);
    order.sort_unstable();
    order
}

fn chart(i: &Inside, title: &str, y: &str, series: Vec<Series>) -> PlotSpec {
    let title = match i.title.trim() {
        "" => title.to_owned(),
        name => format!("{name}: {title}"),
    };
    let x = Axis::even("time, s", 0.0, since(i, i.to_ns));
    PlotSpec::lines(title, x, y, series)
}

/// Returns `simulated · from … to …`.
pub fn heading(i: &Inside, zone: &TimeZone) -> String {
    format!(
        "{} · {} · {} to {}{}",
        match i.title.trim() {
            "" => "Tailback",
            title => title,
        },
        words::origin(i.origin),
        when(i.from_ns, zone),
        when(i.to_ns, zone),
        if i.complete { "" } else { " · not complete" }
    )
}

/// Renders one page that fetches nothing and needs no script.
pub fn page(i: &Inside, samples: &Samples, zone: &TimeZone) -> String {
    let title = match i.title.trim() {
        "" => "Tailback report",
        title => title,
    };
    let pictures = [
        waits(i, samples).ok(),
        signals(i, samples).ok(),
        throughput(i, samples),
        windows(i, samples),
        phase(i, samples).ok(),
        round_trips(i, samples),
    ];
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, None))
            body {
                main {
                    header {
                        p.meta { (heading(i, zone)) }
                        h1 { (title) }
                        @for remark in remarks(i) { p { (remark) } }
                    }
                    @for picture in pictures.iter().flatten() {
                        section { figure.still tabindex="0" { (picture.picture()) } }
                    }
                    @for (number, table) in tables(i).iter().enumerate() {
                        section {
                            h2 { (table.title) }
                            (table.html(&format!("inside-{number}")))
                        }
                    }
                    section {
                        h2 { "Cannot tell" }
                        ul { @for why in &i.cannot_tell { li { (why) } } }
                    }
                }
                footer { p { "This page fetches nothing." } }
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Queues in any order keep the colours of their directions.
    #[test]
    fn a_direction_has_one_colour_whatever_the_order() {
        for names in [["up", "down"], ["down", "up"], ["hop2/down", "hop1/up"]] {
            let line = |name: &&str| ((*name).to_owned(), direction_of(name), Vec::new());
            let series = Series::of_directions(names.iter().map(line).collect());
            for s in series {
                let own = if s.name.ends_with("up") {
                    "fine up"
                } else {
                    "fine down"
                };
                assert_eq!(s.class, own);
            }
        }
        let all = ["up", "hop/up", "core"].map(|n| (n.to_owned(), direction_of(n), Vec::new()));
        let classes: Vec<String> = Series::of_directions(all.into())
            .into_iter()
            .map(|s| s.class)
            .collect();
        assert_eq!(classes, ["fine up", "fine up d1", "fine s3"]);
        // Six uploads: six styles, none of them that of a download.
        let all = (0..6).map(|i| (i.to_string(), Some(Direction::Up), Vec::new()));
        let series = Series::of_directions(all.collect());
        let mut classes: Vec<&str> = series.iter().map(|s| s.class.as_str()).collect();
        assert!(
            classes[0] == "fine up" && !classes.contains(&"fine down"),
            "{classes:?}"
        );
        classes.sort_unstable();
        classes.dedup();
        assert_eq!(classes.len(), 6);
    }
}
