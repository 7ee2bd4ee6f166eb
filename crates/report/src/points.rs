//! Many measuring points: tables for the terminal and the page, and the page with the distributions.

use crate::plot::{Axis, PlotSpec, Series};
use crate::sheet::{Section, Sheet};
use crate::table::{Cell, Column, Notes, Table};
use crate::terminal::{Page, Paint, Style};
use analysis::before_after::{FIGURES, Is};
use analysis::points::{Delays, Distribution, Points, Target, Tests};
use base::print::{DELAY, PERCENT, RPM_SHORT, percent};

/// Curves of one plot: more cannot be told apart.
const CURVES: usize = 8;
/// Rows of one table in a terminal.
const ROWS: usize = 12;
/// Steps of each curve.
const STEPS: usize = 400;

/// Explains the columns of the delays.
const EXPLAINED: &str = "Median, 95 %, 99 %: of all probes that were answered in time. Day's 95 %: the 95 % point of a day, mean \
     over days; of a group, mean over its points. In brackets: the interval that holds that mean with 95 % confidence. Against most: \
     worse or better if this interval, made wider for the number of points, lies above or below the median of all points.";

/// Renders the answer for a terminal.
pub fn text(found: &Points, style: Style) -> String {
    let mut page = Page::new(style);
    page.paragraph(&about(found), 0, Some(Paint::Faint));
    page.gap();
    for said in sentences(found) {
        page.paragraph(&said, 0, Some(Paint::Strong));
    }
    page.gap();
    let mut notes = Notes::default();
    for (_, mut table) in tables(found, Shown::Terminal) {
        let left = table.truncate(ROWS);
        page.table(&table, &mut notes);
        if left > 0 {
            page.paragraph(
                &format!("{left} more: --output and --json have all of them."),
                2,
                Some(Paint::Faint),
            );
            page.gap();
        }
    }
    page.paragraph(EXPLAINED, 2, Some(Paint::Faint));
    page.gap();
    page.reasons(&notes);
    page.finish()
}

/// Numbers of points and days.
fn about(found: &Points) -> String {
    let counted = |all: &[Delays]| all.iter().map(|d| d.points).sum::<u64>();
    let targets = found.targets.iter();
    let points = targets.map(|t| counted(&t.points).max(counted(&t.groups)));
    let tested = |all: &[Tests]| all.iter().map(|t| t.points).sum::<u64>();
    let points = points.max().unwrap_or_default();
    let points = points
        .max(tested(&found.tests))
        .max(tested(&found.group_tests));
    let days = match &found.days {
        Some((first, last)) if first == last => format!(" · {first}"),
        Some((first, last)) => format!(" · {first} to {last}"),
        None => String::new(),
    };
    let sum = |all: &[Tests]| all.iter().map(|t| t.tests).sum::<u64>();
    let tests = sum(&found.tests).max(sum(&found.group_tests));
    let of = |n: u64, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
    format!("{}{days} · {}", of(points, "point"), of(tests, "test"))
}

/// Sentence about each target: the median point, the slowest and the fastest.
fn sentences(found: &Points) -> Vec<String> {
    let sentence = |t: &Target| {
        let known = || {
            t.points
                .iter()
                .filter_map(|p| Some((&p.name, p.p95_day_ms.value()?)))
        };
        let (slowest, fastest) = (known().next()?, known().next_back()?);
        let [most, least] =
            [slowest, fastest].map(|(name, ms)| format!("{} ({name})", DELAY.print(ms)));
        let middle = t.middle_ms?;
        Some(format!(
            "{}: the 95 % point of a day is {} at the median point, {least} to {most}.",
            t.target,
            DELAY.print(middle)
        ))
    };
    found.targets.iter().filter_map(sentence).collect()
}

/// Place of a table.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Shown {
    Terminal,
    Page,
}

/// All tables with their headings: groups ahead of points, delays ahead of tests.
fn tables(found: &Points, shown: Shown) -> Vec<(String, Table)> {
    let by = found.by.as_deref().unwrap_or_default();
    let delays = |t: &Target, of: &[Delays], groups: bool| {
        let title = match groups {
            true => format!("{}, by {by}", t.target),
            false => t.target.clone(),
        };
        (
            format!("Delays to {title}"),
            delays(&title, of, groups, shown),
        )
    };
    let tests = |of: &[Tests], groups: bool| {
        let title = match groups {
            true => format!("Tests, by {by}"),
            false => "Tests".to_owned(),
        };
        (!of.is_empty()).then(|| (title.clone(), tests(&title, of, groups)))
    };
    let groups = found.targets.iter().filter(|t| !t.groups.is_empty());
    let mut all: Vec<(String, Table)> = groups.map(|t| delays(t, &t.groups, true)).collect();
    all.extend(tests(&found.group_tests, true));
    let single = found.targets.iter().filter(|t| !t.points.is_empty());
    all.extend(single.map(|t| delays(t, &t.points, false)));
    all.extend(tests(&found.tests, false));
    all
}

/// Word for a comparison.
pub(crate) fn against(is: Is) -> &'static str {
    match is {
        Is::Better => "better",
        Is::Worse => "worse",
        Is::Same => "same",
        Is::CannotTell => "-",
    }
}

fn delays(title: &str, all: &[Delays], groups: bool, shown: Shown) -> Table {
    let is_page = shown == Shown::Page;
    let mut heads = vec![Column::words("")];
    if groups {
        heads.push("Points".into());
    }
    if is_page {
        heads.extend(["Days", "Probes"].map(Column::from));
    }
    heads.push("Lost".into());
    heads.extend(["Median", "95 %"].map(Column::from));
    heads.extend(is_page.then(|| Column::from("99 %")));
    heads.push("Day's 95 %".into());
    heads.push(Column::words("Against most"));
    let mut table = Table::new(title, heads);
    for d in all {
        let mut cells: Vec<Cell> = Vec::new();
        if groups {
            cells.push(d.points.into());
        }
        let delay = |ms: Option<f64>| Cell::from(ms.map(|ms| DELAY.print(ms)));
        if is_page {
            cells.extend([d.days.into(), d.probes.into()]);
        }
        cells.push(format!("{} %", percent(d.lost_percent / 100.0)).into());
        cells.extend([d.median_ms, d.p95_ms].map(delay));
        cells.extend(is_page.then(|| delay(d.p99_ms)));
        cells.push(Cell::figure(&d.p95_day_ms, DELAY));
        cells.push(against(d.against_most).to_owned().into());
        table.row(d.name.clone(), cells);
    }
    table
}

fn tests(title: &str, all: &[Tests], groups: bool) -> Table {
    let mut heads = vec![Column::words("")];
    if groups {
        heads.push("Points".into());
    }
    heads.push("Tests".into());
    heads.push(Column::words("Grades"));
    let shown = || FIGURES.iter().filter(|(key, ..)| !key.starts_with("queue"));
    heads.extend(shown().map(|(_, name, ..)| Column::from(*name)));
    heads.extend(["Of promised up", "Of promised down"].map(Column::from));
    let mut table = Table::new(title, heads);
    for t in all {
        let mut cells: Vec<Cell> = Vec::new();
        if groups {
            cells.push(t.points.into());
        }
        cells.push(t.tests.into());
        cells.push(t.grades.clone().into());
        cells.extend(shown().map(|(key, _, unit, ..)| {
            let unit = if *key == "rpm" { RPM_SHORT } else { *unit };
            Cell::figure(&t.figures[*key], unit)
        }));
        let reached = [&t.reached_up_percent, &t.reached_down_percent];
        cells.extend(reached.map(|f| Cell::figure(f, PERCENT)));
        table.row(t.name.clone(), cells);
    }
    table.without_empty_columns()
}

/// Plots the share of each group's or point's probes answered within a time; of many the first and the last of this order.
fn plot(all: &[Distribution], order: &[Delays]) -> PlotSpec {
    let place = |d: &Distribution| {
        order
            .iter()
            .position(|o| o.name == d.name)
            .unwrap_or(usize::MAX)
    };
    let mut chosen: Vec<&Distribution> = all.iter().collect();
    chosen.sort_by_key(|d| place(d));
    if chosen.len() > CURVES {
        let last = chosen.split_off(chosen.len() - CURVES / 2);
        chosen.truncate(CURVES / 2);
        chosen.extend(last);
    }
    let low = chosen
        .iter()
        .filter_map(|d| d.rtts.min())
        .min()
        .unwrap_or(1_000_000);
    let high = chosen
        .iter()
        .filter_map(|d| d.rtts.max())
        .max()
        .unwrap_or(low);
    let [low, high] = [low, high].map(|ns| (ns as f64 / 1e6).max(1e-3));
    let series = chosen.iter().enumerate();
    PlotSpec::single(
        "",
        Axis::logarithmic("round-trip time, ms (logarithmic)", low * 0.97, high * 1.03),
        Axis::even("Probes answered within, %", 0.0, 100.0),
        series
            .map(|(i, d)| Series::stairs(d.name.clone(), i, curve(d)))
            .collect(),
    )
}

fn curve(d: &Distribution) -> Vec<(f64, f64)> {
    let mut sum = 0u64;
    let steps = d.rtts.counts().map(|(ns, n)| {
        sum += n;
        (ns as f64 / 1e6, 100.0 * sum as f64 / d.judged.max(1) as f64)
    });
    let steps: Vec<(f64, f64)> = steps.collect();
    let every = steps.len().div_ceil(STEPS).max(1);
    let last = steps.len().saturating_sub(1);
    let start = steps.first().map(|(ms, _)| (*ms, 0.0));
    let kept = steps
        .iter()
        .enumerate()
        .filter(|(i, _)| i % every == 0 || *i == last);
    start
        .into_iter()
        .chain(kept.map(|(_, step)| *step))
        .collect()
}

/// Renders the page; `of` has the distributions of each target in the order of the answer.
pub fn page(found: &Points, of: &[Vec<Distribution>]) -> String {
    let plots = found.targets.iter().zip(of).map(|(t, all)| {
        let order = if t.groups.is_empty() { &t.points } else { &t.groups };
        let left_out = match all.len() > CURVES {
            true => format!(" Of {}, the four with the highest 95 % point of a day and the four with the lowest.", all.len()),
            false => String::new(),
        };
        Section {
            heading: format!("Distribution of the round trips to {}", t.target),
            says: vec![format!("{WITHIN}{left_out}")],
            plots: vec![PlotSpec { untitled: true, ..plot(all, order) }],
            ..Section::default()
        }
    });
    let of_table = |(heading, table): (String, Table)| Section {
        heading,
        table: Some(Table {
            title: String::new(),
            ..table
        }),
        ..Section::default()
    };
    let mut sections: Vec<Section> = plots.collect();
    sections.extend(tables(found, Shown::Page).into_iter().map(of_table));
    if let Some(last) = sections.last_mut() {
        last.note = EXPLAINED.into();
    }
    Sheet {
        about: about(found),
        title: "Fleet".into(),
        says: sentences(found).join(" "),
        sections,
    }
    .html()
}

/// Explains a distribution.
const WITHIN: &str = "Share of the probes answered within a time. A lost probe is never answered: a curve with losses ends below 100\u{a0}%.";
