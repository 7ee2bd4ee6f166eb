//! One measuring point over its days: tables for the terminal and the page, and the plots of the page.

use crate::plot::{Axis, Panel, PlotSpec, Series, Shape, nice_top};
use crate::points::against;
use crate::sheet::{Section, Sheet};
use crate::table::{Cell, Column, Notes, Table};
use crate::terminal::{Page, Paint, Style};
use analysis::before_after::{FIGURES, Is};
use analysis::over_days::{DatedTest, DayDelays, HourOfDay, OverDays, TargetDays};
use base::print::{DELAY, RPM_SHORT, percent};
use jiff::civil::Date;
use stats::Figure;

/// Newest days and tests of a table in a terminal.
const ROWS: usize = 14;
/// Dates named below a plot, at most.
const DATES: usize = 6;

/// Explains the columns of the days.
const EXPLAINED: &str = "Days and hours are those of UTC. An hour's 95 % is the mean of its 95 % points over days. Against others: worse or better if the day's 95 % point differs from the median of the \
     other days by more than three times their scatter, and by more than a tenth. Intervals hold the mean with 95 % confidence, as \
     far as days are independent.";

/// Renders the answer for a terminal.
pub fn text(found: &OverDays, style: Style) -> String {
    let mut page = Page::new(style);
    page.paragraph(&about(found), 0, Some(Paint::Faint));
    page.gap();
    for target in &found.targets {
        page.paragraph(&lately(target), 0, Some(Paint::Strong));
    }
    page.gap();
    let mut notes = Notes::default();
    for (_, mut table, newest_last) in tables(found) {
        let left = match newest_last {
            true => table.keep_last(ROWS),
            false => 0,
        };
        page.table(&table, &mut notes);
        if left > 0 {
            page.paragraph(
                &format!("{left} earlier: --output and --json have all of them."),
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

fn about(found: &OverDays) -> String {
    let labels = found.labels.iter().map(|(k, v)| format!(" · {k} {v}"));
    let days = found.targets.iter().map(|t| t.days.len()).max();
    let days = match days.unwrap_or_default() {
        1 => "1 day".to_owned(),
        n => format!("{n} days"),
    };
    let tests = match found.tests.len() {
        1 => "1 test".to_owned(),
        n => format!("{n} tests"),
    };
    format!(
        "{}{} · {days} · {tests}",
        found.point,
        labels.collect::<String>()
    )
}

/// Sentence about the last week and the weeks before.
fn lately(target: &TargetDays) -> String {
    let said = |f: &Figure| f.print(DELAY);
    let week = match said(&target.last_week_ms) {
        Ok(week) => format!(
            "{}: the 95 % point of a day was {week} in the last week",
            target.target
        ),
        Err(why) => return format!("{}: cannot tell the last week: {why}.", target.target),
    };
    let change = match (&target.change_ms, said(&target.before_ms)) {
        (Figure::Is { value, low, high }, Ok(before)) => {
            let than = match (*low > 0.0, *high < 0.0) {
                (true, _) => "more than",
                (_, true) => "less than",
                _ => "not shown to differ from",
            };
            let by = match *low > 0.0 || *high < 0.0 {
                true => format!(
                    " by {}",
                    DELAY.interval(
                        value.abs(),
                        low.abs().min(high.abs()),
                        low.abs().max(high.abs())
                    )
                ),
                false => String::new(),
            };
            format!(", {than} the {before} of the weeks before{by}")
        }
        _ => String::new(),
    };
    format!("{week}{change}.")
}

/// Tables with their headings; true for those whose newest row is the last.
fn tables(found: &OverDays) -> Vec<(String, Table, bool)> {
    let mut all = Vec::new();
    for target in &found.targets {
        let title = format!("Days of {}", target.target);
        all.push((title, days(&target.target, &target.days), true));
        if target.weekdays.len() > 1 {
            let title = format!("Days of the week of {}", target.target);
            all.push((title, weekdays(&target.target, target), false));
        }
        if target.hours.len() > 1 {
            let title = format!("Hours of the day of {}", target.target);
            all.push((title, hours(&target.target, &target.hours), false));
        }
    }
    if !found.tests.is_empty() {
        all.push(("Tests".into(), tests(&found.tests), true));
    }
    all
}

fn days(title: &str, all: &[DayDelays]) -> Table {
    let mut heads = vec![Column::words("")];
    heads.extend(["Probes", "Lost", "Median", "95 %", "99 %"].map(Column::from));
    heads.push(Column::words("Against others"));
    let mut table = Table::new(title, heads);
    let delay = |ms: Option<f64>| Cell::from(ms.map(|ms| DELAY.print(ms)));
    for d in all {
        let lost = format!("{} %", percent(d.lost_percent / 100.0));
        let mut cells: Vec<Cell> = vec![d.probes.into(), lost.into()];
        cells.extend([d.median_ms, d.p95_ms, d.p99_ms].map(delay));
        cells.push(against(d.against_others).to_owned().into());
        table.row(d.date.clone(), cells);
    }
    table
}

fn weekdays(title: &str, target: &TargetDays) -> Table {
    let heads = vec![Column::words(""), "Days".into(), "Day's 95 %".into()];
    let mut table = Table::new(title, heads);
    for day in &target.weekdays {
        let cells = vec![day.days.into(), Cell::figure(&day.p95_day_ms, DELAY)];
        table.row(day.name.clone(), cells);
    }
    table
}

fn hours(title: &str, all: &[HourOfDay]) -> Table {
    let mut heads = vec![Column::words("")];
    heads.extend(["Days", "Lost", "Hour's median", "Hour's 95 %"].map(Column::from));
    let mut table = Table::new(title, heads);
    for h in all {
        let lost = format!("{} %", percent(h.lost_percent / 100.0));
        let mut cells: Vec<Cell> = vec![h.days.into(), lost.into()];
        cells.extend([&h.median_hour_ms, &h.p95_hour_ms].map(|f| Cell::figure(f, DELAY)));
        table.row(format!("{:02}:00", h.hour), cells);
    }
    table
}

fn tests(all: &[DatedTest]) -> Table {
    let shown = || FIGURES.iter().filter(|(key, ..)| !key.starts_with("queue"));
    let mut heads = vec![Column::words(""), Column::words("Grade")];
    heads.extend(shown().map(|(_, name, ..)| Column::from(*name)));
    let mut table = Table::new("Tests", heads);
    for test in all {
        let mut cells: Vec<Cell> = vec![test.grade.clone().into()];
        cells.extend(shown().map(|(key, _, unit, ..)| {
            let unit = if *key == "rpm" { RPM_SHORT } else { *unit };
            test.figures
                .get(*key)
                .map_or(Cell::Absent, |figure| Cell::figure(figure, unit))
        }));
        table.row(time(test.started_ns), cells);
    }
    table.without_empty_columns()
}

/// Start of a test, UTC, to the minute.
fn time(ns: i64) -> String {
    jiff::Timestamp::from_nanosecond(i128::from(ns)).map_or_else(
        |_| "unknown".into(),
        |t| t.strftime("%Y-%m-%d %H:%M").to_string(),
    )
}

/// Plots the delays and losses of the days.
fn plot(target: &TargetDays) -> Option<PlotSpec> {
    let dated: Vec<(Date, &DayDelays)> = target
        .days
        .iter()
        .filter_map(|d| Some((d.date.parse().ok()?, d)))
        .collect();
    let first = dated.first()?.0;
    let at = |date: Date| {
        first
            .until(date)
            .map_or(0.0, |span| f64::from(span.get_days()))
    };
    let places: Vec<(f64, &DayDelays)> = dated.iter().map(|(date, d)| (at(*date), *d)).collect();
    let last = places.last()?.0;
    // A day without probes interrupts lines and bands.
    let mut days: Vec<Option<(f64, &DayDelays)>> = Vec::new();
    for (i, place) in places.iter().enumerate() {
        if i > 0 && place.0 - places[i - 1].0 > 1.5 {
            days.push(None);
        }
        days.push(Some(*place));
    }
    let band = days.iter().map(|d| {
        let (x, d) = (*d)?;
        Some((x, d.p5_ms?, d.p95_ms?))
    });
    let line = |of: fn(&DayDelays) -> Option<f64>| -> Vec<(f64, Option<f64>)> {
        let gap = |i: usize| places.get(i).map_or(last, |p| p.0);
        days.iter()
            .enumerate()
            .map(|(i, d)| d.map_or((gap(i), None), |(x, d)| (x, of(d))))
            .collect()
    };
    let standing = places
        .iter()
        .filter(|(_, d)| matches!(d.against_others, Is::Worse | Is::Better))
        .map(|(x, d)| (*x, d.p95_ms));
    let most = places
        .iter()
        .filter_map(|(_, d)| d.p95_ms)
        .fold(1.0, f64::max);
    let lost = places
        .iter()
        .map(|(_, d)| d.lost_percent)
        .fold(0.1, f64::max);
    let every = places.len().div_ceil(DATES).max(1);
    let marks = dated.iter().step_by(every);
    let marks = marks.map(|(date, _)| (at(*date), date.strftime("%d %b").to_string()));
    Some(PlotSpec {
        untitled: true,
        title: format!("Days of {}", target.target),
        x: Axis::even("day (UTC)", -0.5, last + 0.5).marked(marks.collect()),
        panels: vec![
            Panel {
                y: Axis::even("Round-trip time, ms", 0.0, nice_top(most * 1.05)),
                height: 220.0,
                series: vec![
                    Series::new("5 to 95 %", "range", Shape::Band(band.collect()))
                        .sampled("swatch"),
                    Series::new("median", "fine s3", Shape::Knots(line(|d| d.median_ms))),
                    Series::new("stands out", "marks s1", Shape::Crosses(standing.collect())),
                ],
                ..Panel::default()
            },
            Panel {
                y: Axis::even("Lost, %", 0.0, nice_top(lost)),
                height: 90.0,
                series: vec![Series::new(
                    "",
                    "gone",
                    Shape::Bars(
                        places
                            .iter()
                            .map(|(x, d)| (*x, 0.0, d.lost_percent))
                            .collect(),
                    ),
                )],
                ..Panel::default()
            },
        ],
        ..PlotSpec::default()
    })
}

/// Plots the hours of the day, the interval of each hour's 95 % point as a band.
fn plot_of_hours(target: &TargetDays) -> Option<PlotSpec> {
    let known: Vec<(f64, f64, f64, f64)> = target
        .hours
        .iter()
        .filter_map(|h| match h.p95_hour_ms {
            Figure::Is { value, low, high } => Some((h.hour as f64, value, low, high)),
            Figure::CannotTell { .. } => None,
        })
        .collect();
    let most = known.iter().map(|k| k.3).fold(1.0, f64::max);
    // Each figure holds for its whole hour; hours without one interrupt line and band.
    let mut band = Vec::new();
    let mut line = Vec::new();
    for (i, (hour, value, low, high)) in known.iter().enumerate() {
        if i > 0 && hour - known[i - 1].0 > 1.5 {
            band.push(None);
            line.push((*hour, None));
        }
        for x in [*hour, hour + 1.0] {
            band.push(Some((x, *low, *high)));
            line.push((x, Some(*value)));
        }
    }
    let marks = (0..=24).step_by(3);
    let marks = marks.map(|hour| (f64::from(hour), format!("{hour:02}:00")));
    (known.len() > 1).then(|| PlotSpec {
        untitled: true,
        title: format!("Hours of the day of {}", target.target),
        x: Axis::even("time of day (UTC)", 0.0, 24.0).marked(marks.collect()),
        panels: vec![Panel {
            y: Axis::even("Round-trip time, ms", 0.0, nice_top(most * 1.05)),
            height: 180.0,
            series: vec![
                Series::new("95 % interval", "range", Shape::Band(band)).sampled("swatch"),
                Series::new("an hour's 95 % point, mean", "fine s3", Shape::Line(line)),
            ],
            ..Panel::default()
        }],
        ..PlotSpec::default()
    })
}

/// Renders the page; `says` are sentences of the fleet about the point, such as its health.
pub fn page(found: &OverDays, says: &[String]) -> String {
    let mut sections: Vec<Section> = found
        .targets
        .iter()
        .map(|t| Section {
            heading: format!("Delays to {}", t.target),
            says: vec![lately(t)],
            plots: plot(t).into_iter().chain(plot_of_hours(t)).collect(),
            ..Section::default()
        })
        .collect();
    sections.extend(
        tables(found)
            .into_iter()
            .map(|(heading, table, _)| Section {
                heading,
                table: Some(Table {
                    title: String::new(),
                    ..table
                }),
                ..Section::default()
            }),
    );
    if let Some(last) = sections.last_mut() {
        last.note = EXPLAINED.into();
    }
    Sheet {
        about: about(found),
        title: found.point.clone(),
        says: says.join(" "),
        sections,
    }
    .html()
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::points::{Day, Hour, Point};

    fn point(days: &[(&str, f64)]) -> OverDays {
        let days = days.iter().map(|(date, ms)| {
            let mut day = Day {
                target: "udp".into(),
                date: (*date).into(),
                judged: 100,
                ..Day::default()
            };
            day.rtts.add_many((ms * 1e6) as u64, 100);
            day
        });
        analysis::over_days::over_days(&Point {
            name: "village-17".into(),
            days: days.collect(),
            ..Point::default()
        })
    }

    #[test]
    fn days_without_probes_leave_a_gap_in_the_plot() {
        let found = point(&[
            ("2026-11-01", 10.0),
            ("2026-11-02", 11.0),
            ("2026-11-05", 12.0),
        ]);
        let spec = plot(&found.targets[0]).expect("there are days");
        let Shape::Band(band) = &spec.panels[0].series[0].shape else {
            panic!("the first series is the band")
        };
        let xs: Vec<Option<f64>> = band.iter().map(|b| b.map(|b| b.0)).collect();
        assert_eq!(xs, [Some(0.0), Some(1.0), None, Some(4.0)]);
    }

    /// Hours of two days, with a gap: each figure holds for its whole hour, and nothing is drawn between.
    #[test]
    fn hours_without_probes_leave_a_gap_in_the_plot() {
        let mut all = Point::default();
        for (date, hour) in [1, 2].iter().flat_map(|d| [0, 1, 5].map(|h| (d, h))) {
            let mut own = Hour {
                target: "udp".into(),
                date: format!("2026-11-{date:02}"),
                hour,
                judged: 100,
                ..Hour::default()
            };
            own.rtts.add_many(1_000_000 * (10 + date), 100);
            all.hours.push(own);
            let mut day = Day {
                target: "udp".into(),
                date: format!("2026-11-{date:02}"),
                judged: 300,
                ..Day::default()
            };
            day.rtts.add_many(10_000_000, 300);
            all.days.push(day);
        }
        let found = analysis::over_days::over_days(&all);
        let spec = plot_of_hours(&found.targets[0]).expect("there are hours");
        let Shape::Band(band) = &spec.panels[0].series[0].shape else {
            panic!("the first series is the band")
        };
        let xs: Vec<Option<f64>> = band.iter().map(|b| b.map(|b| b.0)).collect();
        let [at_5, at_6] = [Some(5.0), Some(6.0)];
        assert_eq!(
            xs,
            [Some(0.0), Some(1.0), Some(1.0), Some(2.0), None, at_5, at_6]
        );
        assert_eq!(hours("udp", &found.targets[0].hours).rows.len(), 3);
    }

    #[test]
    fn a_name_from_elsewhere_stays_text_and_few_days_say_why_nothing_is_told() {
        let mut found = point(&[("2026-11-01", 10.0)]);
        found.point = "<script>".into();
        let page = page(&found, &["<b>".into()]);
        assert!(!page.contains("<script>") && page.contains("&lt;script&gt;"));
        assert!(!page.contains("<b>Tail") || page.contains("&lt;b&gt;"));
        let style = Style {
            width: 80,
            colour: false,
            unicode: false,
        };
        let text = text(&found, style);
        assert!(text.contains("cannot tell the last week"), "{text}");
        assert!(text.lines().all(|l| l.chars().count() <= 80), "{text}");
    }
}
