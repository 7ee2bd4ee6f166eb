//! When the line was there, by what a monitor noted of the interface each few seconds; where nothing was noted, the share
//! of the minutes of each hour in which at least one probe was answered, of those in which any was sent. Up to two months
//! by day and hour, longer spans by week and day.

use super::material::{Material, Minutes};
use super::{calendar, framed};
use crate::svg::{INNER, LEFT, short};
use base::units::significant;
use maud::{Markup, html};
use std::collections::BTreeMap;

const TOP: f64 = 66.0;
/// Most days that have a row each.
const MOST_ROWS: i64 = 62;

pub fn draw(m: &Material) -> Markup {
    let hours = match &m.stability {
        Some(s) => s.hours.clone(),
        None => m.availability(),
    };
    let all = hours.values().fold(Minutes::default(), |a, b| Minutes {
        asked: a.asked + b.asked,
        answered: a.answered + b.answered,
    });
    let (first, last) = match (hours.keys().next(), hours.keys().last()) {
        (Some(a), Some(b)) => (a.0, b.0),
        _ => (0, 0),
    };
    let (height, cells) = if last - first < MOST_ROWS {
        by_hour(&hours, first, last)
    } else {
        by_day(&hours, first, last)
    };
    framed(
        m,
        height,
        "availability",
        html! {
            text.small x=(LEFT + INNER) y="20" text-anchor="end" {
                @if let Some(s) = &m.stability {
                    (share(all)) " of " (all.asked) " intervals of " (significant(s.interval_ns as f64 / 1e9, 3)) " s of " (s.interface)
                    " were up, with an address and answered; " (all.asked - all.answered) " were not"
                } @else {
                    (share(all)) " of " (all.asked) " minutes with probes had an answer; " (all.asked - all.answered) " had none"
                    @if m.thinned { " (thinned intervals count as a whole)" }
                }
            }
            (cells)
        },
    )
}

/// Never rounded up to 100 %.
fn share(m: Minutes) -> String {
    if m.asked == m.answered {
        return "100 %".into();
    }
    let p = 100.0 * f64::from(m.answered) / f64::from(m.asked.max(1));
    format!("{} %", significant((p * 1e4).floor() / 1e4, 6))
}

fn cell(x: f64, y: f64, width: f64, height: f64, minutes: Option<&Minutes>, name: &str) -> Markup {
    let (x, y, w, h) = (
        short(x + 0.5),
        short(y + 0.5),
        short(width - 1.0),
        short(height - 1.0),
    );
    html! {
        @match minutes {
            None => { rect.unknown x=(x) y=(y) width=(w) height=(h) {} }
            Some(m) => {
                // Even one minute of sixty must be seen: half of the colour is for that.
                @let gone = f64::from(m.asked - m.answered) / f64::from(m.asked.max(1));
                rect class=(if gone > 0.0 { "out" } else { "sound" }) x=(x) y=(y) width=(w) height=(h) opacity=(if gone > 0.0 { format!("{:.2}", 0.4 + 0.6 * gone) } else { "0.55".into() }) {
                    title { (name) ": " (share(*m)) " of " (m.asked) }
                }
            }
        }
    }
}

fn by_hour(hours: &BTreeMap<(i64, usize), Minutes>, first: i64, last: i64) -> (f64, Markup) {
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

fn by_day(hours: &BTreeMap<(i64, usize), Minutes>, first: i64, last: i64) -> (f64, Markup) {
    const ROW: f64 = 24.0;
    let mut days: BTreeMap<i64, Minutes> = BTreeMap::new();
    for ((day, _), m) in hours {
        let sum = days.entry(*day).or_default();
        sum.asked += m.asked;
        sum.answered += m.answered;
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_silent_minute_is_never_rounded_away() {
        assert_eq!(
            share(Minutes {
                asked: 525_600,
                answered: 525_599
            }),
            "99.9998 %"
        );
        assert_eq!(
            share(Minutes {
                asked: 5,
                answered: 5
            }),
            "100 %"
        );
    }
}
