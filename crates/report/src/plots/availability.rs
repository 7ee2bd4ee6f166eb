//! Availability by day and hour, up to two months; longer spans by week and day. With probes it is the share of the
//! time with due probes that lies outside outages, as `analysis::holes` finds them. A recording without probes shows
//! what its host noted of the interface.

use super::calendar;
use super::frame::framed;
use super::material::{Intervals, Material, Part};
use crate::svg::{INNER, LEFT, short};
use crate::words::nines;
use base::units::significant;
use maud::{Markup, html};
use std::collections::BTreeMap;

const TOP: f64 = 66.0;
/// Largest number of days with a row each.
const MOST_ROWS: i64 = 62;

pub fn draw(m: &Material) -> Markup {
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
    let (height, cells) = if last - first < MOST_ROWS {
        by_hour(hours, first, last)
    } else {
        by_day(hours, first, last)
    };
    framed(
        m,
        height,
        "availability",
        html! {
            text.small x=(LEFT + INNER) y="20" text-anchor="end" {
                @if !m.available.is_empty() {
                    "Available for " (nines(total(&m.available).share())) " % of the time in which probes were due"
                }
                @if let Some((s, hours)) = &noted {
                    @if !m.available.is_empty() { "; " }
                    (nines(total(hours).share())) " % of " (total(hours).all) " intervals of " (significant(s.interval_ns as f64 / 1e9, 3)) " s of " (s.interface)
                    " were up, with an address and answered"
                }
            }
            (cells)
        },
    )
}

fn part(n: &Intervals) -> Part {
    Part {
        all: f64::from(n.all),
        good: f64::from(n.successful),
    }
}

fn cell(x: f64, y: f64, width: f64, height: f64, part: Option<&Part>, name: &str) -> Markup {
    let (x, y, w, h) = (
        short(x + 0.5),
        short(y + 0.5),
        short(width - 1.0),
        short(height - 1.0),
    );
    html! {
        @match part {
            None => { rect.unknown x=(x) y=(y) width=(w) height=(h) {} }
            Some(p) => {
                // Even one minute of sixty must be visible: the opacity starts at 0.4.
                @let gone = 1.0 - p.share();
                rect class=(if gone > 0.0 { "out" } else { "sound" }) x=(x) y=(y) width=(w) height=(h) opacity=(if gone > 0.0 { format!("{:.2}", 0.4 + 0.6 * gone) } else { "0.55".into() }) {
                    title { (name) ": " (nines(p.share())) " %" }
                }
            }
        }
    }
}

fn by_hour(hours: &BTreeMap<(i64, usize), Part>, first: i64, last: i64) -> (f64, Markup) {
    let days = last - first + 1;
    let row = (420.0 / days as f64).clamp(9.0, 26.0);
    let width = INNER / 24.0;
    let names = (14.0 / row).ceil() as i64;
    let markup = html! {
        @for h in (0..24).step_by(3) {
            text.small x=(short(LEFT + width * (h as f64 + 0.5))) y=(TOP - 8.0) text-anchor="middle" { (format!("{h:02} h")) }
        }
        @for day in first..=last {
            @let y = TOP + row * (day - first) as f64;
            @if (day - first) % names == 0 {
                text.small x=(LEFT - 8.0) y=(short(y + row / 2.0 + 4.0)) text-anchor="end" { (calendar::day_name(day)) }
            }
            @for h in 0..24 {
                (cell(LEFT + width * h as f64, y, width, row, hours.get(&(day, h)), &format!("{} {h:02} h", calendar::day_name(day))))
            }
        }
    };
    (TOP + row * days as f64 + 34.0, markup)
}

fn by_day(hours: &BTreeMap<(i64, usize), Part>, first: i64, last: i64) -> (f64, Markup) {
    const ROW: f64 = 24.0;
    let mut days: BTreeMap<i64, Part> = BTreeMap::new();
    for ((day, _), part) in hours {
        days.entry(*day).or_default().add(*part);
    }
    let monday = first - calendar::weekday(first) as i64;
    let weeks = (last - monday) / 7 + 1;
    let width = (INNER / weeks as f64).min(24.0);
    let names = (70.0 / width).ceil() as i64;
    let markup = html! {
        @for (d, name) in ["Mon", "", "Wed", "", "Fri", "", "Sun"].iter().enumerate() {
            text.small x=(LEFT - 8.0) y=(short(TOP + ROW * d as f64 + 16.0)) text-anchor="end" { (name) }
        }
        @for week in (0..weeks).step_by(names as usize) {
            text.small x=(short(LEFT + width * week as f64)) y=(TOP - 8.0) { (calendar::date(monday + 7 * week).strftime("%-d %b %Y").to_string()) }
        }
        @for day in first..=last {
            @let at = day - monday;
            (cell(LEFT + width * (at / 7) as f64, TOP + ROW * (at % 7) as f64, width, ROW, days.get(&day), &calendar::date(day).to_string()))
        }
    };
    (TOP + 7.0 * ROW + 40.0, markup)
}
