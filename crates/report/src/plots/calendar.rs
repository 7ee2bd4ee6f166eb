//! Civil time along an axis.

use crate::plot::Axis;
use jiff::civil::Date;
use jiff::tz::TimeZone;
use jiff::{Timestamp, ToSpan, Zoned};

const SECOND: i64 = 1_000_000_000;
const HOUR: i64 = 3600 * SECOND;
const DAY: i64 = 24 * HOUR;

/// Converter to the civil time of one zone; it looks the offset up once per hour.
pub struct Clock {
    zone: TimeZone,
    hour: i64,
    offset_s: i64,
}

/// Calendar position of an instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Days since 1970-01-01.
    pub day: i64,
    /// Hour of the day, 0 to 23.
    pub hour: usize,
}

impl Clock {
    pub fn new(zone: TimeZone) -> Clock {
        Clock {
            zone,
            hour: i64::MIN,
            offset_s: 0,
        }
    }

    pub fn local(&mut self, t_ns: i64) -> Local {
        let hour = t_ns.div_euclid(HOUR / 4);
        if hour != self.hour {
            self.hour = hour;
            self.offset_s = i64::from(self.zone.to_offset(stamp(t_ns)).seconds());
        }
        let local = t_ns.saturating_add(self.offset_s * SECOND);
        Local {
            day: local.div_euclid(DAY),
            hour: (local.rem_euclid(DAY) / HOUR) as usize,
        }
    }
}

fn stamp(t_ns: i64) -> Timestamp {
    Timestamp::from_nanosecond(i128::from(t_ns)).unwrap_or_default()
}

pub fn date(day: i64) -> Date {
    stamp(day.saturating_mul(DAY))
        .to_zoned(TimeZone::UTC)
        .date()
}

/// Returns the weekday; 0 is Monday.
pub fn weekday(day: i64) -> usize {
    // 1970-01-01 was a Thursday.
    (day + 3).rem_euclid(7) as usize
}

/// Formats as `2014-05-04`.
pub fn day_name(day: i64) -> String {
    date(day).to_string()
}

/// Formats as `05-04`, where there is no room for the year.
pub fn month_day(day: i64) -> String {
    date(day).strftime("%m-%d").to_string()
}

fn zoned(t_ns: i64, zone: &TimeZone) -> Zoned {
    stamp(t_ns).to_zoned(zone.clone())
}

/// Formats as `2014-05-04 15:55:07 to 2014-05-24 23:59:00 (UTC+02)`.
pub fn span(from_ns: i64, to_ns: i64, zone: &TimeZone) -> String {
    let (from, to) = (zoned(from_ns, zone), zoned(to_ns, zone));
    let whole = "%Y-%m-%d %H:%M:%S";
    let end = if from.date() == to.date() {
        "%H:%M:%S"
    } else {
        whole
    };
    format!(
        "{} to {} (UTC{})",
        from.strftime(whole),
        to.strftime(end),
        from.offset()
    )
}

/// Returns round instants within a span, at most nine, with their names.
pub fn marks(from_ns: i64, to_ns: i64, zone: &TimeZone) -> Vec<(i64, String)> {
    const STEPS_S: [i64; 17] = [
        1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10_800, 21_600, 43_200,
    ];
    let length_s = (to_ns - from_ns) as f64 / 1e9;
    if length_s < 5.0 {
        // Fractions of a second have no civil names: seconds since the start.
        return crate::plot::even_marks(0.0, length_s)
            .into_iter()
            .map(|s| {
                (
                    from_ns + (s * 1e9) as i64,
                    format!("+{} s", base::print::number(s)),
                )
            })
            .collect();
    }
    if let Some(step) = STEPS_S.iter().find(|s| length_s / **s as f64 <= 8.0) {
        // Round in local time: multiples since the preceding midnight.
        let midnight = zoned(from_ns, zone)
            .start_of_day()
            .map_or(from_ns, |z| z.timestamp().as_nanosecond() as i64);
        let first = (from_ns - midnight).div_euclid(step * SECOND);
        let name = |t: i64| {
            let z = zoned(t, zone);
            match (step, z.hour(), z.minute(), z.second()) {
                (_, 0, 0, 0) => z.date().to_string(),
                (s, ..) if *s < 60 => z.strftime("%H:%M:%S").to_string(),
                _ => z.strftime("%H:%M").to_string(),
            }
        };
        return (first..first + 12)
            .map(|i| midnight + i * step * SECOND)
            .filter(|t| (from_ns..=to_ns).contains(t))
            .map(|t| (t, name(t)))
            .collect();
    }
    let days = length_s / 86_400.0;
    let at = |d: Date| {
        d.to_zoned(zone.clone())
            .map(|z| z.timestamp().as_nanosecond() as i64)
    };
    let first = zoned(from_ns, zone).date();
    let dates: Vec<Date> = if days <= 56.0 {
        let step = [1, 2, 3, 7]
            .into_iter()
            .find(|s| days / f64::from(*s) <= 8.0)
            .unwrap_or(7);
        (0..60)
            .map(|i| first.saturating_add((i * step).days()))
            .collect()
    } else {
        let months = days / 30.4;
        let step = [1, 2, 3, 6, 12]
            .into_iter()
            .find(|s| months / f64::from(*s) <= 8.0);
        let step = step.unwrap_or(12 * (months / 96.0).ceil() as i32);
        let begin = first.first_of_month();
        (0..20)
            .map(|i| begin.saturating_add((i * step).months()))
            .collect()
    };
    let form = if days <= 56.0 { "%Y-%m-%d" } else { "%Y-%m" };
    dates
        .into_iter()
        .filter_map(|d| Some((at(d).ok()?, d.strftime(form).to_string())))
        .filter(|(t, _)| (from_ns..=to_ns).contains(t))
        .collect()
}

/// Returns the horizontal axis of a day, with its marks above.
pub(super) fn hours_of_the_day() -> Axis {
    let marks = (0..24).step_by(3);
    let marks = marks.map(|h| (f64::from(h) + 0.5, format!("{h:02} h")));
    Axis {
        above: true,
        ..Axis::even("", 0.0, 24.0).marked(marks.collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOON: i64 = 1_399_204_800 * SECOND; // 2014-05-04 12:00 UTC, a Sunday

    #[test]
    fn the_calendar_is_that_of_the_zone() {
        let mut oslo = Clock::new(TimeZone::get("Europe/Oslo").unwrap());
        let at = oslo.local(NOON + 11 * HOUR);
        assert_eq!(
            (day_name(at.day), at.hour, weekday(at.day)),
            ("2014-05-05".into(), 1, 0)
        );
        assert_eq!(Clock::new(TimeZone::UTC).local(NOON).hour, 12);
    }

    #[test]
    fn marks_are_round_and_few_whatever_the_span() {
        let zone = TimeZone::get("Asia/Kathmandu").unwrap();
        for seconds in [
            1,
            7,
            60,
            420,
            3600,
            90_000,
            700_000,
            1_814_400,
            6_000_000,
            40_000_000,
            900_000_000,
        ] {
            let to = NOON + 12_345 + seconds * SECOND;
            let marks = marks(NOON + 12_345, to, &zone);
            assert!((2..=10).contains(&marks.len()), "{seconds}: {marks:?}");
            assert!(marks.windows(2).all(|w| w[0].0 < w[1].0));
        }
        let hours = marks(NOON, NOON + 6 * HOUR, &TimeZone::UTC);
        assert_eq!(hours[0], (NOON, "12:00".into()));
        assert_eq!(
            marks(NOON, NOON + 21 * DAY, &TimeZone::UTC)[0].1,
            "2014-05-07"
        );
    }
}
