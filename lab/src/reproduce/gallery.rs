//! The pages of `tailback-lab reproduce`: what a document says, what we get, and the plot beside it.

use super::contents::{Contents, Entry, Made};
use super::reproduction::{Case, Comparison, in_words};
use super::{Item, Yield};
use base::print::significant;
use base::record::{Queue, Recording};
use ops::model::calculation::TABLE_A1;
use report::plot::{Axis, Curve, Draw, PlotSpec, distribution};
use report::table::{Column, Table};
use sim::Scenario;
use sim::document::{Plot, PlotKind, Side, State};
use sim::journey::ipdv_ms;
use sim::run::began_ns;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Steps of a distribution.
const STEPS: usize = 200;
/// A rate over time is a mean over so much, where the plot does not say.
const RATE_STEP_S: f64 = 1.0;

fn row_state(c: &Comparison) -> String {
    match (c.state, c.trend) {
        (State::Reproduced, _) => "reproduced".into(),
        (State::Trend, Some(Side::Below)) => "in trend: below 1".into(),
        (State::Trend, _) => "in trend: above 1".into(),
        (State::Near, _) => match c.near {
            Some(near) => format!("near: {}", band(near)),
            None => "near".into(),
        },
        (State::NotReproducible, _) => "no".into(),
    }
}

/// Four digits; the unit stands beside.
fn shown(value: f64) -> String {
    significant(value, 4)
}

fn ours(c: &Comparison) -> String {
    match c.ours.half {
        // The same value in every run leaves the rounding of its mean.
        Some(half) if half > 1e-9 * c.ours.mean.abs() => {
            format!("{} ± {}", shown(c.ours.mean), significant(half, 2))
        }
        _ => shown(c.ours.mean),
    }
}

fn band([low, high]: [f64; 2]) -> String {
    format!("{} to {}", shown(low), shown(high))
}

fn cells(c: &Comparison) -> [String; 6] {
    [
        c.label.clone(),
        c.unit.clone(),
        match c.printed {
            Some(printed) => shown(printed),
            None if c.is_ours_alone() => String::new(),
            None => "in words".into(),
        },
        ours(c),
        match c.is_ours_alone() {
            true => String::new(),
            false => band(c.reproduced),
        },
        match c.is_ours_alone() {
            true => String::new(),
            false => row_state(c),
        },
    ]
}

const HEADS: [&str; 6] = [
    "figure",
    "unit",
    "printed",
    "ours",
    "counts as reproduced",
    "",
];

/// Returns the comparison as a table.
fn table(compared: &[Comparison]) -> Table {
    Table::new("", HEADS.map(Column::words)).with(compared.iter().map(|c| {
        let [label, cells @ ..] = cells(c);
        (label, cells.to_vec())
    }))
}

/// Returns the comparison for a terminal of this width.
pub fn text(item: &Item, compared: &[Comparison], state: State, width: usize) -> String {
    let d = &item.reproduction.document;
    let mut out = format!("{}: {}\n", item.id, d.title);
    if !compared.is_empty() {
        out += &table(compared).text(width);
    }
    let because = match state == d.state {
        true => &d.because,
        false => "a figure is outside its band",
    };
    let _ = writeln!(out, "{}\n", in_words(state, because));
    out
}

/// The rows of a regression in the layout of table A.1 of Thombre 2020; nothing where there are none.
fn predictions(item: &Item, got: &Yield) -> String {
    let Some(case) = item.reproduction.cases().into_iter().next() else {
        return String::new();
    };
    let row = |n: u64| -> Option<(u64, Vec<String>)> {
        let cells = TABLE_A1
            .iter()
            .map(|c| got.first(&case, &format!("row.{n}.{c}")).map(shown));
        Some((n, cells.collect::<Option<_>>()?))
    };
    let heads = [
        "row",
        "actual",
        "predicted",
        "standard error",
        "95 % lower limit of an individual",
        "upper",
    ];
    let table = Table::new("", heads).with((1..).map_while(row));
    match table.rows.is_empty() {
        true => String::new(),
        false => format!(
            "The first run in the layout of the document's table A.1, in Mbit:\n\n{}\n",
            table.markdown()
        ),
    }
}

/// The page of one item, as Markdown.
pub fn page(item: &Item, compared: &[Comparison], got: &Yield, pictures: &[PlotSpec]) -> String {
    let d = &item.reproduction.document;
    let mut out = format!("# {}\n\n", d.title);
    let _ = writeln!(
        out,
        "*{}*: **{}**.\n",
        d.place,
        in_words(d.state, &d.because)
    );
    let _ = writeln!(out, "**What the document says.** {}\n", d.says.trim());
    if !d.setup.is_empty() {
        let _ = writeln!(out, "**What we set up.** {}\n", d.setup.trim());
    }
    if !compared.is_empty() {
        out += &table(compared).markdown();
        if d.seeds > 1 {
            let _ = writeln!(
                out,
                "\nMeans over {} runs; ± is the half of the 95 % confidence interval.",
                d.seeds
            );
        }
        out.push('\n');
    }
    out.push_str(&predictions(item, got));
    let file = item.id.rsplit('/').next().unwrap_or(item.id);
    for (i, picture) in pictures.iter().enumerate() {
        let _ = writeln!(out, "![{}]({file}-{}.svg)\n", picture.title, i + 1);
    }
    let _ = writeln!(
        out,
        "Made by `cargo run --release -p lab -- reproduce {} -o DIR` from [the scenario](../../../../scenarios/{}.toml).",
        item.id, item.id
    );
    out
}

/// The index of all figures and tables; the states are those that the files declare, which a run confirms.
pub fn index(items: &[Item], all: &[Contents]) -> String {
    let mut out = String::from(
        "# Gallery\n\nEvery figure and table of five published works ([sources](../../sources.md)) in which there is something to compute. *Reproduced*: every printed figure\n\
         comes out within what the document leaves open; *reproduced in trend*: of each figure that does not, the document states\n\
         which of two is larger, and ours agree with 95 % confidence, by another amount; *nearly reproduced*: some figures lie\n\
         outside, within the same order of magnitude; *not reproducible*, with the reason. Pages are made by one command of a source tree,\n\
         `cargo run --release -p lab -- reproduce --all -o docs/book/gallery`; `thombre-2020/figure-6.13` in place of `--all` makes the one that has that figure. What needs real time, a\n\
         namespace or a recording of weeks is made by the command that stands beside it, and its result is on the page of the\n\
         book that is named.\n",
    );
    for document in all {
        let mut table = Table::new("", ["in the document", "what", "made by", "state"]);
        let mut counted: BTreeMap<State, usize> = BTreeMap::new();
        for entry in &document.entries {
            if let Some((state, cells)) = row(items, entry) {
                *counted.entry(state).or_default() += entry.of.len();
                table.row(entry.of.join(", "), cells);
            }
        }
        let counted = |state: State| counted.get(&state).copied().unwrap_or(0);
        let _ = writeln!(
            out,
            "\n## {}\n\n{}.\n\n{} reproduced, {} in trend, {} nearly, {} not reproducible.\n\n{}",
            document.cite,
            document.source,
            counted(State::Reproduced),
            counted(State::Trend),
            counted(State::Near),
            counted(State::NotReproducible),
            table.markdown(),
        );
        let _ = writeln!(
            out,
            "Nothing to compute (drawings, photographs, screens, algorithms, equipment, others' statistics): {}.",
            document.nothing.join(", ")
        );
    }
    out
}

/// Returns the state of an entry, and its row behind the label.
fn row(items: &[Item], entry: &Entry) -> Option<(State, [String; 3])> {
    let (what, made, state, because) = match &entry.made {
        Made::Here { page } => {
            let item = items.iter().find(|i| i.id == *page)?;
            let d = &item.reproduction.document;
            let made = format!("[{page}]({page}.md)");
            (&d.title, made, d.state, &d.because)
        }
        Made::Elsewhere(e) => {
            let page = match e.book.as_str() {
                "" => String::new(),
                book => format!("[{book}](../{book})"),
            };
            let made = match (e.run.as_str(), page.as_str()) {
                ("", page) => page.to_string(),
                (run, "") => format!("`{run}`"),
                (run, page) => format!("`{run}`, {page}"),
            };
            (&e.what, made, e.state, &e.because)
        }
    };
    let cells = [what.clone(), made, in_words(state, because)];
    Some((state, cells))
}

/// The plots of an item.
///
/// # Errors
/// A plot of something that its runs do not have.
pub fn pictures(item: &Item, got: &Yield) -> Result<Vec<PlotSpec>, String> {
    let plots = item.reproduction.document.plots.iter();
    plots.map(|plot| picture(item, plot, got)).collect()
}

fn picture(item: &Item, plot: &Plot, got: &Yield) -> Result<PlotSpec, String> {
    let cases = item.reproduction.cases_of(plot);
    let mut drawn = match plot.kind {
        PlotKind::Sweep => sweep(item, plot, &cases, got)?,
        PlotKind::Course => Drawn {
            series: stepped(plot, &cases, got),
            title: plot.title.clone(),
            span: window(plot),
        },
        _ => case_by_case(item, plot, &cases, got)?,
    };
    let (unit, distribution_of) = axes(plot.kind);
    if distribution_of.is_some() {
        drawn.span = None;
    }
    if let Some([from, to]) = plot.line {
        drawn.series.push(Curve {
            name: String::new(),
            draw: Draw::Thin,
            colour: 0,
            points: vec![(from[0], Some(from[1])), (to[0], Some(to[1]))],
        });
    }
    let series = drawn.series;
    let from_zero = distribution_of.is_some() || by_number(plot.kind);
    let span = drawn.span.unwrap_or_else(|| span(&series, from_zero));
    if series.iter().all(|s| s.points.is_empty()) {
        return Err(format!("plot \"{}\" has nothing to show", plot.title));
    }
    let x = match (plot.kind, distribution_of) {
        (PlotKind::Sweep | PlotKind::Course, _) => &*plot.x,
        (_, Some(what)) => what,
        (kind, None) if by_number(kind) => "packet number",
        _ => "time, s",
    };
    let y = match plot.y.as_str() {
        "" => unit,
        y => y,
    };
    let x = Axis::even(x, span.0, span.1);
    let series = series.into_iter().map(Into::into).collect();
    Ok(match distribution_of.map(|_| 100.0).or(plot.top) {
        None => PlotSpec::lines(drawn.title, x, y, series),
        Some(top) => PlotSpec::single(drawn.title, x, Axis::even(y, 0.0, top), series),
    })
}

/// Lines of a picture, its title, and its horizontal span where that is known.
struct Drawn {
    series: Vec<Curve>,
    title: String,
    span: Option<(f64, f64)>,
}

/// The stretch that the plot asks for.
fn window(plot: &Plot) -> Option<(f64, f64)> {
    plot.window
        .map(|[from, to]| (from.as_secs_f64(), to.as_secs_f64()))
}

/// Unit of the vertical axis, and the quantity of the horizontal one of a distribution.
fn axes(kind: PlotKind) -> (&'static str, Option<&'static str>) {
    match kind {
        PlotKind::QueueDelay => ("waiting time, ms", None),
        PlotKind::Backlog => ("packets in the queue", None),
        PlotKind::Window => ("congestion window, segments", None),
        PlotKind::DelayCdf => ("samples below, %", Some("waiting time, ms")),
        PlotKind::Rtt => ("round trip, ms", None),
        PlotKind::RttCdf => ("probes below, %", Some("round trip, ms")),
        PlotKind::Throughput => ("delivered, Mbit/s", None),
        PlotKind::Goodput => ("goodput, kbit/s", None),
        PlotKind::Sequence => ("packet number", None),
        PlotKind::Journeys => ("delay, ms", None),
        PlotKind::Jitter => ("change of delay from the packet before, ms", None),
        PlotKind::Sweep | PlotKind::Course => ("", None),
    }
}

/// The span that holds all points.
fn span(series: &[Curve], from_zero: bool) -> (f64, f64) {
    let xs = || series.iter().flat_map(|s| &s.points).map(|p| p.0);
    let most = xs().fold(0.0, f64::max);
    if from_zero {
        return (0.0, most * 1.02);
    }
    let least = xs().fold(f64::INFINITY, f64::min).min(most);
    let room = (most - least) * 0.03;
    (least - room, most + room)
}

/// A figure over the values of a sweep; printed values beyond the picture stand in the title.
fn sweep(item: &Item, plot: &Plot, cases: &[Case], got: &Yield) -> Result<Drawn, String> {
    let (series, beyond) = swept(item, plot, cases, got)?;
    let mut title = plot.title.clone();
    if !beyond.is_empty() {
        let values: Vec<String> = beyond.into_iter().map(shown).collect();
        let _ = write!(
            title,
            " (beyond the picture: printed {})",
            values.join(", ")
        );
    }
    Ok(Drawn {
        series,
        title,
        span: window(plot),
    })
}

/// The lines of each case over time or packets.
fn case_by_case(item: &Item, plot: &Plot, cases: &[Case], got: &Yield) -> Result<Drawn, String> {
    let mut series = Vec::new();
    let mut span = window(plot);
    let several = cases.len() > 1;
    for (colour, case) in cases.iter().enumerate() {
        let scenario = item
            .reproduction
            .scenario(case)
            .map_err(|e| e.to_string())?;
        if !by_number(plot.kind) {
            span.get_or_insert((0.0, scenario.duration.as_secs_f64()));
        }
        let lines = match plot.kind {
            PlotKind::Sequence => sequence(plot, case, &scenario, got),
            PlotKind::Journeys | PlotKind::Jitter => packet_by_packet(plot, case, got),
            _ => over_time(plot, case, &scenario, got),
        };
        let many = lines.len() > 1;
        for (i, (name, draw, points)) in lines.into_iter().enumerate() {
            series.push(Curve {
                name: named(if several { &case.variant } else { "" }, &name, many),
                draw,
                colour: if many { colour + i } else { colour },
                points,
            });
        }
    }
    Ok(Drawn {
        series,
        title: plot.title.clone(),
        span,
    })
}

/// The horizontal axis counts packets.
fn by_number(kind: PlotKind) -> bool {
    matches!(kind, PlotKind::Journeys | PlotKind::Jitter)
}

/// A line for each flow that is followed.
fn packet_by_packet(plot: &Plot, case: &Case, got: &Yield) -> Vec<(String, Draw, Points)> {
    let all = got.journeys.get(case).into_iter().flatten();
    let wanted = all.filter(|(name, _)| plot.of.as_ref().is_none_or(|of| of == *name));
    let line = |(name, journeys): (&String, &Vec<sim::journey::Journey>)| {
        let points: Points = match plot.kind {
            PlotKind::Jitter => ipdv_ms(journeys)
                .into_iter()
                .map(|(number, ms)| (number as f64, Some(ms.abs())))
                .collect(),
            _ => journeys
                .iter()
                .map(|j| (j.number as f64, Some(j.lasted.as_secs_f64() * 1e3)))
                .collect(),
        };
        (name.clone(), Draw::Dots, points)
    };
    wanted.map(line).collect()
}

fn named(variant: &str, name: &str, many: bool) -> String {
    match (variant, name, many) {
        ("", n, true) => n.into(),
        (v, n, true) => format!("{v}: {n}"),
        (v, _, false) => v.into(),
    }
}

type Points = Vec<(f64, Option<f64>)>;

/// A line for each part of a calculation, over its steps from 1 on.
fn stepped(plot: &Plot, cases: &[Case], got: &Yield) -> Vec<Curve> {
    let window = plot.window.map_or((0.0, f64::INFINITY), |[from, to]| {
        (from.as_secs_f64(), to.as_secs_f64())
    });
    let parts = cases.iter().flat_map(|case| {
        let parts = got.courses.get(case).into_iter().flatten();
        parts.map(move |(name, course)| {
            (
                named(if cases.len() > 1 { &case.variant } else { "" }, name, true),
                course,
            )
        })
    });
    let line = |(colour, (name, course)): (usize, (String, &Vec<f64>))| Curve {
        name,
        draw: Draw::Line,
        colour,
        points: (1..)
            .map(f64::from)
            .zip(course)
            .filter(|(step, _)| (window.0..=window.1).contains(step))
            .map(|(step, value)| (step, Some(value * plot.factor)))
            .collect(),
    };
    parts.enumerate().map(line).collect()
}

/// Round trips of the plot's target, in order of their departure.
fn round_trips(
    plot: &Plot,
    recording: &Recording,
    seconds: impl Fn(i64) -> f64,
    in_ms: impl Fn(Option<i64>) -> Option<f64>,
) -> Points {
    let target = plot
        .of
        .as_deref()
        .or(recording.delay.first().map(|d| &*d.target));
    let mine = recording
        .delay
        .iter()
        .filter(|d| Some(&*d.target) == target);
    let mut trips: Points = mine
        .map(|d| (seconds(d.sent_ns), in_ms(d.rtt_ns)))
        .collect();
    // Rows come in the order of the answers.
    trips.sort_by(|a, b| a.0.total_cmp(&b.0));
    trips
}

fn over_time(
    plot: &Plot,
    case: &Case,
    scenario: &Scenario,
    got: &Yield,
) -> Vec<(String, Draw, Points)> {
    let Some(recording) = got.recordings.get(case) else {
        return Vec::new();
    };
    let seconds = |t_ns: i64| (t_ns - began_ns(scenario)) as f64 / 1e9;
    let step_s = plot.step.map(|s| s.as_secs_f64());
    if plot.kind == PlotKind::Goodput {
        return goodputs(plot, scenario, recording, step_s.unwrap_or(RATE_STEP_S));
    }
    if plot.kind == PlotKind::Window {
        return windows(plot, scenario, recording);
    }
    let window = plot.window.unwrap_or([scenario.warmup, scenario.duration]);
    let inside = |t_s: &f64| (window[0].as_secs_f64()..=window[1].as_secs_f64()).contains(t_s);
    let in_ms = |ns: Option<i64>| ns.map(|ns| ns as f64 / 1e6);
    let below = |points: &mut dyn Iterator<Item = (f64, Option<f64>)>| {
        let shown = points.filter(|p| inside(&p.0));
        distribution(&mut shown.filter_map(|p| p.1).collect::<Vec<f64>>(), STEPS)
    };
    if matches!(plot.kind, PlotKind::Rtt | PlotKind::RttCdf) {
        let trips = round_trips(plot, recording, seconds, in_ms);
        let points = match plot.kind {
            PlotKind::RttCdf => below(&mut trips.into_iter()),
            _ => trips,
        };
        return vec![(String::new(), Draw::Line, points)];
    }
    let queue = plot
        .of
        .as_deref()
        .or(recording.queue.first().map(|q| &*q.queue));
    let rows: Vec<&Queue> = recording
        .queue
        .iter()
        .filter(|q| Some(&*q.queue) == queue)
        .collect();
    let mut waits = rows.iter().map(|q| (seconds(q.t_ns), in_ms(q.sojourn_ns)));
    let points: Points = match (plot.kind, step_s) {
        (PlotKind::Throughput, _) => rates(
            rows.iter().map(|q| (seconds(q.t_ns), q.delivered_bytes)),
            step_s.unwrap_or(RATE_STEP_S),
            1e-6,
        ),
        (PlotKind::DelayCdf, _) => below(&mut waits),
        (PlotKind::Backlog, _) => {
            let packets = rows
                .iter()
                .map(|q| (seconds(q.t_ns), Some(q.backlog_packets as f64)));
            packets.collect()
        }
        (_, Some(step_s)) => means(waits, step_s),
        (_, None) => waits.collect(),
    };
    vec![(String::new(), Draw::Line, points)]
}

/// Sum of all flows' congestion windows, in segments.
fn windows(plot: &Plot, scenario: &Scenario, recording: &Recording) -> Vec<(String, Draw, Points)> {
    let segments: BTreeMap<i64, u64> = flows(plot, scenario)
        .map(|(number, _, mss)| (number as i64, mss))
        .collect();
    let mut windows: BTreeMap<i64, f64> = BTreeMap::new();
    for row in &recording.flow {
        if let (Some(cwnd), Some(mss)) = (row.cwnd_bytes, segments.get(&row.flow)) {
            *windows.entry(row.t_ns).or_default() += cwnd as f64 / *mss as f64;
        }
    }
    let began_ns = began_ns(scenario);
    let points = windows
        .into_iter()
        .map(|(t_ns, w)| ((t_ns - began_ns) as f64 / 1e9, Some(w)));
    vec![(String::new(), Draw::Line, points.collect())]
}

/// Means over equal steps.
fn means(points: impl Iterator<Item = (f64, Option<f64>)>, step_s: f64) -> Points {
    let mut steps: BTreeMap<u64, (f64, u32)> = BTreeMap::new();
    for (t_s, value) in points {
        if let Some(value) = value {
            let (sum, n) = steps.entry((t_s / step_s) as u64).or_default();
            *sum += value;
            *n += 1;
        }
    }
    let mean =
        |(at, (sum, n)): (u64, (f64, u32))| ((at as f64 + 0.5) * step_s, Some(sum / f64::from(n)));
    steps.into_iter().map(mean).collect()
}

/// Increase of a count of bytes in each step, in bits a second times `factor`.
fn rates(counts: impl Iterator<Item = (f64, i64)>, step_s: f64, factor: f64) -> Points {
    let mut points = Vec::new();
    let mut last: Option<(f64, i64)> = None;
    for (t_s, count) in counts {
        match last {
            Some((from_s, from)) if t_s - from_s >= step_s * 0.999 => {
                let rate = (count - from) as f64 * 8.0 / (t_s - from_s) * factor;
                points.push(((from_s + t_s) / 2.0, Some(rate)));
                last = Some((t_s, count));
            }
            Some(_) => {}
            None => last = Some((t_s, count)),
        }
    }
    points
}

/// Number and label of each flow, each of a count by itself; only of the group that the plot names.
fn flows<'a>(
    plot: &'a Plot,
    scenario: &'a Scenario,
) -> impl Iterator<Item = (usize, String, u64)> + 'a {
    let each = scenario.flows.iter().flat_map(|flow| {
        let mss = scenario.tcp_of(flow).map_or(1, |tcp| tcp.mss.get());
        (0..flow.count).map(move |i| match flow.count {
            1 => (flow.label(), flow.label(), mss),
            _ => (flow.label(), format!("{} {}", flow.label(), i + 1), mss),
        })
    });
    each.enumerate()
        .filter(|(_, (group, _, _))| plot.of.as_ref().is_none_or(|of| of == group))
        .map(|(number, (_, name, mss))| (number, name, mss))
}

fn goodputs(
    plot: &Plot,
    scenario: &Scenario,
    recording: &Recording,
    step_s: f64,
) -> Vec<(String, Draw, Points)> {
    let began_ns = began_ns(scenario);
    let line = |(number, name, _): (usize, String, u64)| {
        let mine = recording.flow.iter().filter(|f| f.flow == number as i64);
        let counts =
            mine.filter_map(|f| Some(((f.t_ns - began_ns) as f64 / 1e9, f.bytes_received?)));
        (name, Draw::Line, rates(counts, step_s, 1e-3))
    };
    let lines = flows(plot, scenario).map(line);
    lines.filter(|(_, _, points)| !points.is_empty()).collect()
}

/// Sequence plot. One flow: new packets and retransmissions; several flows: each in its colour.
fn sequence(
    plot: &Plot,
    case: &Case,
    scenario: &Scenario,
    got: &Yield,
) -> Vec<(String, Draw, Points)> {
    let Some(all) = got.departures.get(case) else {
        return Vec::new();
    };
    let of = |number: usize, mss: u64, again: Option<bool>| -> Points {
        let mine = all
            .iter()
            .filter(|d| d.flow == number && again.is_none_or(|a| a == d.again));
        mine.map(|d| (d.at.as_secs_f64(), Some((d.seq / mss) as f64)))
            .collect()
    };
    let flows: Vec<(usize, String, u64)> = flows(plot, scenario)
        .filter(|(number, _, _)| all.iter().any(|d| d.flow == *number))
        .collect();
    match &flows[..] {
        [(number, _, mss)] => [("sent", false), ("sent again", true)]
            .map(|(name, again)| (name.to_string(), Draw::Dots, of(*number, *mss, Some(again))))
            .into(),
        many => many
            .iter()
            .map(|(number, name, mss)| (name.clone(), Draw::Dots, of(*number, *mss, None)))
            .collect(),
    }
}

/// Largest printed value that is drawn, as a multiple of our largest: beyond, ours would lie flat on the axis.
const DRAWN: f64 = 4.0;

/// Line with its printed values: name, points, printed.
type Line = (String, Points, Points);

/// Curves of lines, and the printed values that lie too far above to be drawn.
fn drawn(lines: Vec<Line>) -> (Vec<Curve>, Vec<f64>) {
    let mut series = Vec::new();
    let values = lines.iter().flat_map(|l| &l.1).filter_map(|p| p.1);
    let highest = values.fold(0.0, f64::max) * DRAWN;
    let mut beyond = Vec::new();
    // What is printed has the colour of its line; one key says what the crosses are.
    let mut key = "crosses: printed";
    for (colour, (name, points, printed)) in lines.into_iter().enumerate() {
        let near = |p: &(f64, Option<f64>)| p.1.is_none_or(|v| v <= highest);
        let (printed, above): (Points, Points) = printed.into_iter().partition(near);
        beyond.extend(above.into_iter().filter_map(|p| p.1));
        let ours = if name.is_empty() { "ours".into() } else { name };
        series.push(Curve {
            name: ours,
            draw: Draw::Knots,
            colour,
            points,
        });
        if !printed.is_empty() {
            series.push(Curve {
                name: std::mem::take(&mut key).into(),
                draw: Draw::Marks,
                colour,
                points: printed,
            });
        }
    }
    (series, beyond)
}

/// Lines and marks, and the printed values that lie too far above to be drawn.
fn swept(
    item: &Item,
    plot: &Plot,
    cases: &[Case],
    got: &Yield,
) -> Result<(Vec<Curve>, Vec<f64>), String> {
    let d = &item.reproduction.document;
    let figure = plot.figure.as_deref().unwrap_or_default();
    let x_of = |case: &Case| {
        let (list, name) = match d.points.is_empty() {
            true => (&d.variants, &case.variant),
            false => (&d.points, &case.at),
        };
        let found = list.iter().find(|v| v.name == *name).and_then(|v| v.x);
        found.ok_or(format!(
            "\"{name}\" needs x: plot \"{}\" shows it",
            plot.title
        ))
    };
    let mut lines: Vec<Line> = Vec::new();
    let mut found = false;
    for case in cases {
        let name = match d.points.is_empty() {
            true => "",
            false => case.variant.as_str(),
        };
        let x = x_of(case)?;
        // A run may have no such figure at this value; that none has it is a slip.
        let mean = got.mean(case, figure);
        found |= mean.is_some();
        if lines.last().is_none_or(|l| l.0 != name) {
            lines.push((name.into(), Vec::new(), Vec::new()));
        }
        let (_, points, printed) = lines.last_mut().expect("one was put there");
        points.push((x, mean.map(|m| m * plot.factor)));
        let expected = d.expectations.iter().filter(|e| {
            e.figure == figure && e.over.is_none() && item.reproduction.case_of(e) == *case
        });
        printed
            .extend(expected.filter_map(|e| Some((x, Some(e.printed? * plot.factor / e.factor)))));
    }
    if !found {
        return Err(format!("no run has a figure \"{figure}\""));
    }
    Ok(drawn(lines))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_what_the_count_rises_by_over_the_time_it_took() {
        // 125 kB each 100 ms are 10 Mbit/s; then nothing comes.
        let counts = (0..40).map(|i| (f64::from(i) * 0.1, 125_000 * i64::from(i.min(20))));
        let rates = rates(counts, 1.0, 1e-6);
        let shown: Vec<f64> = rates.iter().map(|p| p.1.unwrap().round()).collect();
        assert_eq!(shown, [10.0, 10.0, 0.0]);
        assert!((rates[0].0 - 0.5).abs() < 1e-9);
    }

    #[test]
    fn a_mean_over_a_step_leaves_out_what_was_not_measured() {
        let points = [
            (0.1, Some(1.0)),
            (0.2, None),
            (0.3, Some(3.0)),
            (2.5, Some(7.0)),
        ];
        let means = means(points.into_iter(), 1.0);
        assert_eq!(means, [(0.5, Some(2.0)), (2.5, Some(7.0))]);
    }
}
