//! Availability by day and hour, up to two months; longer spans by week and day. With probes it is the share of the
//! time with due probes that lies outside outages, as `analysis::holes` finds them. A recording without probes shows
//! what its host noted of the interface.

use super::calendar;
use super::material::{Intervals, Material, Part};
use crate::plot::{Axis, Panel, PlotSpec, Rectangle, Series, Shape};
use crate::words::nines;
use base::print::significant;
use std::collections::BTreeMap;

/// Largest number of days with a row each.
const MOST_ROWS: i64 = 62;

pub fn plot(m: &Material) -> PlotSpec {
    let noted = m.stability.as_ref().map(|s| {
        let hours = s.hours.iter().map(|(at, n)| (*at, part(n)));
        (s, hours.collect::<BTreeMap<_, _>>())
    });
    let hours = match &noted {
        Some((_, hours)) if m.available.is_empty() => hours,
        _ => &m.available,
    };
    let total = |hours: &BTreeMap<(i64, usize), Part>| {
        let mut all = Part::default();
        hours.values().for_each(|p| all.add(*p));
        all
    };
    let (first, last) = match (hours.keys().next(), hours.keys().last()) {
        (Some(a), Some(b)) => (a.0, b.0),
        _ => (0, 0),
    };
    let (x, mut panel) = if last - first < MOST_ROWS {
        by_hour(hours, first, last)
    } else {
        by_day(hours, first, last)
    };
    let probes = (!m.available.is_empty()).then(|| {
        format!(
            "Available for {} % of the probed time",
            nines(total(&m.available).share())
        )
    });
    let interface = noted.as_ref().map(|(s, hours)| {
        format!(
            "{} % of {} intervals of {} s of {} were up{}",
            nines(total(hours).share()),
            total(hours).all,
            significant(s.interval_ns as f64 / 1e9, 3),
            s.interface,
            if s.asked { " and answered" } else { "" }
        )
    });
    let said: Vec<String> = probes.into_iter().chain(interface).collect();
    panel.note = said.join("; ");
    PlotSpec {
        title: "availability".into(),
        x,
        panels: vec![panel],
        ..PlotSpec::default()
    }
}

fn part(n: &Intervals) -> Part {
    Part {
        all: f64::from(n.all),
        good: f64::from(n.successful),
    }
}

fn cell(x: f64, y: f64, part: Option<&Part>, name: &str) -> Rectangle {
    let gone = part.map(|p| 1.0 - p.share());
    let (class, opacity) = match gone {
        None => ("unknown", 1.0),
        // Even one minute of sixty must be visible: the opacity starts at 0.4.
        Some(gone) if gone > 0.0 => ("out", 0.4 + 0.6 * gone),
        Some(_) => ("sound", 0.55),
    };
    Rectangle {
        class,
        x: (x, x + 1.0),
        y: (y, y + 1.0),
        opacity,
        text: None,
        says: part.map_or(String::new(), |p| format!("{name}: {} %", nines(p.share()))),
    }
}

fn panel(rows: i64, row: f64, names: Vec<(f64, String)>, cells: Vec<Rectangle>) -> Panel {
    Panel {
        y: Axis::even("", rows as f64, 0.0).marked(names),
        height: row * rows as f64,
        series: vec![Series::new("", "", Shape::Cells(cells))],
        ..Panel::default()
    }
}

fn by_hour(hours: &BTreeMap<(i64, usize), Part>, first: i64, last: i64) -> (Axis, Panel) {
    let days = last - first + 1;
    let row = (420.0 / days as f64).clamp(9.0, 26.0);
    let step = (14.0 / row).ceil() as usize;
    let names = (0..days).step_by(step).map(|i| {
        let name = calendar::month_day(first + i);
        (i as f64 + 0.5, name)
    });
    let cells = (first..=last).flat_map(|day| {
        (0..24).map(move |h| {
            let name = format!("{} {h:02} h", calendar::day_name(day));
            cell(h as f64, (day - first) as f64, hours.get(&(day, h)), &name)
        })
    });
    let panel = panel(days, row, names.collect(), cells.collect());
    (calendar::hours_of_the_day(), panel)
}

fn by_day(hours: &BTreeMap<(i64, usize), Part>, first: i64, last: i64) -> (Axis, Panel) {
    let mut days: BTreeMap<i64, Part> = BTreeMap::new();
    for ((day, _), part) in hours {
        days.entry(*day).or_default().add(*part);
    }
    let monday = first - calendar::weekday(first) as i64;
    let weeks = (last - monday) / 7 + 1;
    // A column of a week is as wide as a row is high, or narrower.
    let shown = weeks.max(33);
    let step = (shown as usize).div_ceil(11);
    let marks = (0..weeks).step_by(step).map(|week| {
        let date = calendar::date(monday + 7 * week);
        (week as f64 + 0.5, date.to_string())
    });
    let names = ["Mon", "", "Wed", "", "Fri", "", "Sun"].iter().enumerate();
    let names = names.map(|(d, name)| (d as f64 + 0.5, (*name).to_owned()));
    let cells = (first..=last).map(|day| {
        let at = day - monday;
        let name = calendar::date(day).to_string();
        cell((at / 7) as f64, (at % 7) as f64, days.get(&day), &name)
    });
    let x = Axis {
        above: true,
        ..Axis::even("", 0.0, shown as f64).marked(marks.collect())
    };
    (x, panel(7, 24.0, names.collect(), cells.collect()))
}
