//! Laws of traffic in captures of an hour each, by the hour and by the share of TCP: section 3.1 of Thombre 2020.

use super::{Answer, Kind, Run, Spread, each};
use crate::progress::Observer;
use crate::times::stamp;
use crate::trace::TrafficPlan;
use crate::trace::traffic::{self, quantities};
use analysis::traffic::TrafficAnswer;
use base::Duration;
use base::print::{PERCENT, significant};
use report::plot::{Axis, Draw, PlotSpec, Series, nice_top};
use report::table::{Cell, Column, Table};
use stats::fit::Family;
use std::fmt::Write;
use std::path::PathBuf;

/// Share of TCP, then shape and scale of three quantities of TCP, UDP and both.
pub(super) const KINDS: &[Kind] = &[
    number("packets", "Packets of TCP and UDP"),
    Kind {
        key: "tcp_share_percent",
        name: "Share of TCP",
        unit: Some(PERCENT),
    },
    number("tcp_arrivals_shape", "TCP: arrival rate, shape"),
    number("tcp_arrivals_scale_pps", "TCP: arrival rate, scale"),
    number("tcp_sizes_shape", "TCP: datagram size, shape"),
    number("tcp_sizes_scale_bytes", "TCP: datagram size, scale"),
    number("tcp_gaps_shape", "TCP: inter-arrival time, shape"),
    number("tcp_gaps_scale_ms", "TCP: inter-arrival time, scale"),
    number("udp_arrivals_shape", "UDP: arrival rate, shape"),
    number("udp_arrivals_scale_pps", "UDP: arrival rate, scale"),
    number("udp_sizes_shape", "UDP: datagram size, shape"),
    number("udp_sizes_scale_bytes", "UDP: datagram size, scale"),
    number("udp_gaps_shape", "UDP: inter-arrival time, shape"),
    number("udp_gaps_scale_ms", "UDP: inter-arrival time, scale"),
    number("both_arrivals_shape", "TCP+UDP: arrival rate, shape"),
    number("both_arrivals_scale_pps", "TCP+UDP: arrival rate, scale"),
    number("both_sizes_shape", "TCP+UDP: datagram size, shape"),
    number("both_sizes_scale_bytes", "TCP+UDP: datagram size, scale"),
    number("both_gaps_shape", "TCP+UDP: inter-arrival time, shape"),
    number("both_gaps_scale_ms", "TCP+UDP: inter-arrival time, scale"),
    number("hurst", "TCP+UDP: Hurst parameter"),
];

/// Place of the share of TCP among the kinds.
const SHARE: usize = 1;
/// Place of the first law; each class has six numbers.
const LAWS: usize = 2;
/// Numbers of a class: shape and scale of three quantities.
const OF_CLASS: usize = 6;

const fn number(key: &'static str, name: &'static str) -> Kind {
    Kind {
        key,
        name,
        unit: None,
    }
}

/// Reads captures with one step of time for all, in seconds: the shape of arrivals depends on it. Without a step in the
/// plan it is the longest that a capture takes for itself.
pub(super) fn read_all(
    files: &[(String, PathBuf)],
    plan: &TrafficPlan,
    observer: &dyn Observer,
    notes: &mut Vec<String>,
) -> anyhow::Result<(Vec<Run>, f64)> {
    let mut steps = Vec::new();
    let asked = traffic::step_ns(plan)?;
    let mut runs = each(files, observer, notes, |path, notes| {
        let (answer, begin_ns) = traffic::of_with(path, asked, notes)?;
        steps.push(answer.step_s);
        Ok((begin_ns, figures(&answer)))
    })?;
    let step_s = steps.iter().copied().fold(0.0, f64::max);
    let others = runs.iter_mut().zip(files).zip(&steps);
    for ((run, (_, path)), _) in others.filter(|(_, step)| **step < step_s) {
        let step_ns = Duration::from_secs_f64(step_s).as_nanos() as i64;
        // What is to be said of the file was said above.
        let (answer, _) = traffic::of_with(path, Some(step_ns), &mut Vec::new())?;
        run.figures = figures(&answer);
    }
    runs.sort_by(|a, b| (a.begin_ns, &a.file).cmp(&(b.begin_ns, &b.file)));
    runs.iter_mut().for_each(|r| r.group = group(r));
    Ok((runs, step_s))
}

/// Figures of one capture.
fn figures(answer: &TrafficAnswer) -> Vec<Option<f64>> {
    let both = answer.classes.last();
    let mut figures = vec![
        both.map(|c| c.packets as f64),
        answer.tcp_share_of_packets.map(|s| 100.0 * s),
    ];
    for class in &answer.classes {
        for (_, _, size, pick) in quantities() {
            let fit = pick(class).of(Family::Weibull);
            let parameter = |i: usize| fit.and_then(|f| f.parameters.get(i)?.1.value());
            figures.push(parameter(0));
            figures.push(parameter(1).map(|v| v / size));
        }
    }
    let steady = both.filter(|c| !c.hurst.unsteady);
    figures.push(steady.and_then(|c| c.hurst.wavelet.value()));
    figures
}

/// Group of a capture by its share of TCP, a tenth each.
fn group(run: &Run) -> String {
    match run.figures[SHARE] {
        None => "neither TCP nor UDP".into(),
        Some(percent) => {
            let tenth = (percent / 10.0).floor().clamp(0.0, 9.0) as u32;
            format!("TCP {:>2} to {} %", 10 * tenth, 10 * (tenth + 1))
        }
    }
}

/// Tables for a terminal of this width.
pub(super) fn text(answer: &Answer, width: usize) -> String {
    let mut out = String::new();
    for group in answer.groups() {
        let step_ms = significant(1e3 * answer.step_s.unwrap_or_default(), 3);
        let _ = writeln!(
            out,
            "{group} of the packets: {}; arrivals in steps of {step_ms} ms\n\
             Parameters of the Weibull distribution, mean ± SD",
            answer.count(group)
        );
        out += &table_3_1(answer, group).text(width);
        out.push('\n');
    }
    let _ = writeln!(out, "Shape of TCP+UDP in each capture, by time (UTC)");
    out + &by_time(answer).text(width)
}

/// Table 3.1 with deviations.
fn table_3_1(answer: &Answer, group: &str) -> Table {
    let mut table = Table::new("", ["", "TCP only", "UDP only", "TCP+UDP"]);
    for (q, (name, unit, _, _)) in quantities().into_iter().enumerate() {
        table.row(format!("{name}, {unit}"), [""; 3]);
        for (p, label) in ["  a) shape (β)", "  b) scale (η)"].into_iter().enumerate() {
            let cell = |class: usize| {
                let spread = answer.spread(group, LAWS + OF_CLASS * class + 2 * q + p);
                spread.as_ref().map_or(Cell::Absent, cell)
            };
            table.row(label, [0, 1, 2].map(cell));
        }
    }
    table
}

fn cell(s: &Spread) -> Cell {
    Cell::Estimate {
        mean: significant(s.mean, 4),
        half: s
            .sd
            .map_or_else(String::new, |sd| format!("± {}", significant(sd, 2))),
    }
}

/// Places of the shapes of both protocols together: arrivals, sizes, gaps.
const SHAPES: [(usize, &str); 3] = [
    (LAWS + 2 * OF_CLASS, "arrivals"),
    (LAWS + 2 * OF_CLASS + 2, "sizes"),
    (LAWS + 2 * OF_CLASS + 4, "gaps"),
];

fn by_time(answer: &Answer) -> Table {
    let heads = [
        "begin", "file", "packets", "TCP, %", "arrivals", "sizes", "gaps", "Hurst",
    ];
    let mut columns: Vec<Column> = heads.map(Column::from).into();
    columns[1] = Column::words("file");
    let mut table = Table::new("", columns);
    for run in &answer.runs {
        // Nine digits behind the second help nobody here.
        let begin = run.begin_ns.map_or_else(
            || "-".to_owned(),
            |t| stamp(t.saturating_sub(t.rem_euclid(1_000_000_000))),
        );
        let number = |k: usize, digits| {
            run.figures[k].map_or(Cell::Absent, |v| Cell::Is(significant(v, digits)))
        };
        let mut cells = vec![Cell::Is(run.file.clone())];
        cells.push(run.figures[0].map_or(Cell::Absent, |n| Cell::Is(format!("{n}"))));
        cells.push(number(SHARE, 3));
        cells.extend(SHAPES.map(|(k, _)| number(k, 3)));
        cells.push(number(KINDS.len() - 1, 2));
        table.row(begin, cells);
    }
    table
}

/// Shapes over time, and over the share of TCP.
pub(super) fn plots(answer: &Answer) -> Vec<(String, PlotSpec)> {
    let shapes = || SHAPES.iter().map(|(k, _)| *k);
    let all = answer
        .runs
        .iter()
        .flat_map(|r| shapes().filter_map(|k| r.figures[k]));
    let top = nice_top(all.fold(0.1, f64::max));
    let y = || Axis::even("Shape of the Weibull distribution", 0.0, top);
    let origin = answer.runs.iter().filter_map(|r| r.begin_ns).min();
    let hours = |r: &Run| Some(r.begin_ns?.saturating_sub(origin?) as f64 / 3.6e12);
    let share = |r: &Run| r.figures[SHARE];
    let series = |x: &dyn Fn(&Run) -> Option<f64>, draw: Draw| -> Vec<Series> {
        let one = |(i, (k, name)): (usize, &(usize, &str))| {
            let points = answer
                .runs
                .iter()
                .filter_map(|r| Some((x(r)?, r.figures[*k])));
            Series::numbered(*name, draw, i, points.collect())
        };
        SHAPES.iter().enumerate().map(one).collect()
    };
    let end = answer.runs.iter().filter_map(hours).fold(0.0, f64::max);
    let mut plots = Vec::new();
    if end > 0.0 {
        let x = Axis::even("time since the first capture, h", 0.0, end);
        let plot = PlotSpec::single("TCP+UDP by the hour", x, y(), series(&hours, Draw::Knots));
        plots.push(("hours".to_owned(), plot));
    }
    let x = Axis::even("TCP's share of the packets, %", 0.0, 100.0);
    let plot = PlotSpec::single(
        "TCP+UDP by the share of TCP",
        x,
        y(),
        series(&share, Draw::Marks),
    );
    plots.push(("share".to_owned(), plot));
    plots
}
