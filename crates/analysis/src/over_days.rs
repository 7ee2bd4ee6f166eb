//! One measuring point over its days: delays of each day, days that stand out, weekdays, hours of the day, the last week beside
//! the weeks before, and its tests.
//!
//! **Method.** A day's figures are those of its probes. A day stands out if its 95 % point differs from the median of the others
//! by more than three times their scatter (the median of absolute deviations, times 1.4826) and by more than a tenth: F. Hampel,
//! "The Influence Curve and Its Role in Robust Estimation", Journal of the American Statistical Association 69, 1974. The last
//! same hour of several days is described by its 95 % points: their mean, with Student's interval of the spread between days. The last
//! seven days are set beside the days before by the difference of the means of their 95 % points, with Welch's interval.
//!
//! Days that resemble those before them are worth fewer.
//!
//! **Limits.** A week shows little of what lasts for days, so that intervals of weeks are too narrow then. A day with less
//! than half as many probes as the median day counts in no mean, and never stands out; so it is with hours. Both are those of
//! UTC.

use crate::before_after::{FIGURES, Is};
use crate::points::{Day, Hour, Point, mean_of_days, worth};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Figure, median, moments, student_t95};
use std::collections::{BTreeMap, BTreeSet};

/// Version of this shape in `--json`.
pub const VERSION: u32 = 1;

/// Days needed before one can stand out.
const ENOUGH: usize = 8;
/// Scatters, and share of the usual value, by which a day has to differ.
const SCATTERS: f64 = 3.0;
const SHARE: f64 = 0.1;
/// Standard deviation of a normal law in terms of its median absolute deviation.
const NORMAL: f64 = 1.4826;
/// Days of the last week, and of the weeks before that are set beside it.
const WEEK: usize = 7;
const BEFORE: usize = 28;
/// Hours of a day.
const HOURS: u64 = 24;
/// Names of the days of the week.
const WEEKDAYS: [&str; 7] = [
    "Monday",
    "Tuesday",
    "Wednesday",
    "Thursday",
    "Friday",
    "Saturday",
    "Sunday",
];

/// Point over its days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct OverDays {
    /// Version of the shape, [`VERSION`].
    pub version: u32,
    /// Name of the point.
    pub point: String,
    /// Facts that its operator gave.
    pub labels: BTreeMap<String, String>,
    /// Delays to each target, our own probes first.
    pub targets: Vec<TargetDays>,
    /// Tests, the oldest first.
    pub tests: Vec<DatedTest>,
}

/// Delays to one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetDays {
    /// Name of the target.
    pub target: String,
    /// Days with probes, the oldest first.
    pub days: Vec<DayDelays>,
    /// Days of the week, Monday first; those without a day are left out.
    pub weekdays: Vec<Weekday>,
    /// Hours of the day (UTC); those without a probe are left out.
    #[serde(default)]
    pub hours: Vec<HourOfDay>,
    /// 95 % point of a day, mean of the last seven days with probes.
    pub last_week_ms: Figure,
    /// The same of up to 28 days before them.
    pub before_ms: Figure,
    /// Difference of the two means.
    pub change_ms: Figure,
}

/// Delays of a day.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DayDelays {
    /// Date (UTC).
    pub date: String,
    /// Probes whose fate is known.
    pub probes: u64,
    /// Share of them not answered in time, %.
    pub lost_percent: f64,
    /// 5 % point of the round trips; absent if no probe was answered.
    pub p5_ms: Option<f64>,
    /// Their median.
    pub median_ms: Option<f64>,
    /// Their 95 % point.
    pub p95_ms: Option<f64>,
    /// Their 99 % point.
    pub p99_ms: Option<f64>,
    /// Comparison of the 95 % point with the other days: `worse` and `better` stand out.
    pub against_others: Is,
}

/// Day of the week.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Weekday {
    /// English name.
    pub name: String,
    /// Number of such days.
    pub days: u64,
    /// 95 % point of such a day, mean.
    pub p95_day_ms: Figure,
}

/// Hour of the day, over all days.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HourOfDay {
    /// Begin, 0 to 23 (UTC).
    pub hour: u64,
    /// Number of days on which it was measured.
    pub days: u64,
    /// Share of its probes not answered in time, %.
    pub lost_percent: f64,
    /// Median round trip of such an hour, mean.
    pub median_hour_ms: Figure,
    /// 95 % point of such an hour, mean.
    pub p95_hour_ms: Figure,
}

/// Test with its date.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DatedTest {
    /// Start, UNIX ns.
    pub started_ns: i64,
    /// Grade of the added delay.
    pub grade: String,
    /// Figures by their keys.
    pub figures: BTreeMap<String, Figure>,
}

/// Follows a point over its days.
pub fn over_days(point: &Point) -> OverDays {
    let names: BTreeSet<(bool, &String)> = point
        .days
        .iter()
        .map(|d| (!crate::phases::is_own(&d.target), &d.target))
        .collect();
    let mut tests: Vec<DatedTest> = point
        .rounds
        .iter()
        .map(|round| DatedTest {
            started_ns: round.started_ns,
            grade: round.grade.clone(),
            figures: FIGURES
                .iter()
                .map(|(key, ..)| ((*key).to_owned(), round.figure(key)))
                .collect(),
        })
        .collect();
    tests.sort_by_key(|t| t.started_ns);
    OverDays {
        version: VERSION,
        point: point.name.clone(),
        labels: point.labels.clone(),
        targets: names
            .into_iter()
            .map(|(_, name)| target(name, &point.days, &point.hours))
            .collect(),
        tests,
    }
}

fn target(name: &str, all: &[Day], hours: &[Hour]) -> TargetDays {
    let mut own: Vec<&Day> = all.iter().filter(|d| d.target == name).collect();
    own.sort_by(|a, b| a.date.cmp(&b.date));
    let mut counts: Vec<u64> = own.iter().map(|d| d.judged).collect();
    counts.sort_unstable();
    let usual = counts.get(counts.len() / 2).copied().unwrap_or_default();
    let is_whole = |d: &Day| d.judged > 0 && d.judged * 2 >= usual;
    let mut days: Vec<DayDelays> = own.iter().map(|d| delays(d)).collect();
    // Date and 95 % point of each whole day.
    let whole: Vec<(&str, f64)> = own
        .iter()
        .zip(&days)
        .filter(|(d, _)| is_whole(d))
        .filter_map(|(d, figures)| Some((&*d.date, figures.p95_ms?)))
        .collect();
    let judged: Vec<Is> = own
        .iter()
        .map(|d| against(whole.iter().find(|w| w.0 == d.date), &whole))
        .collect();
    for (day, is) in days.iter_mut().zip(judged) {
        day.against_others = is;
    }
    let p95s: Vec<f64> = whole.iter().map(|w| w.1).collect();
    let (before, last) = p95s.split_at(p95s.len().saturating_sub(WEEK));
    let before = &before[before.len().saturating_sub(BEFORE)..];
    TargetDays {
        target: name.into(),
        weekdays: weekdays(&whole),
        hours: hours_of_day(name, hours),
        last_week_ms: mean_day(last),
        before_ms: mean_day(before),
        change_ms: difference(before, last),
        days,
    }
}

fn delays(day: &Day) -> DayDelays {
    let quantile = |p: f64| day.rtts.quantile(p).map(|ns| ns / 1e6);
    DayDelays {
        date: day.date.clone(),
        probes: day.judged,
        lost_percent: 100.0 * day.missed as f64 / day.judged.max(1) as f64,
        p5_ms: quantile(0.05),
        median_ms: quantile(0.5),
        p95_ms: quantile(0.95),
        p99_ms: quantile(0.99),
        against_others: Is::CannotTell,
    }
}

/// Compares a day with the others; a day that is not whole, or one of few, cannot be told.
fn against(day: Option<&(&str, f64)>, whole: &[(&str, f64)]) -> Is {
    let Some((date, p95)) = day.filter(|_| whole.len() >= ENOUGH) else {
        return Is::CannotTell;
    };
    let others: Vec<f64> = (whole.iter())
        .filter(|w| w.0 != *date)
        .map(|w| w.1)
        .collect();
    let Some(usual) = median(&others) else {
        return Is::CannotTell;
    };
    let off: Vec<f64> = others.iter().map(|o| (o - usual).abs()).collect();
    let scatter = NORMAL * median(&off).unwrap_or_default();
    let far = (SCATTERS * scatter).max(SHARE * usual);
    match p95 - usual {
        more if more > far => Is::Worse,
        less if less < -far => Is::Better,
        _ => Is::Same,
    }
}

fn weekdays(whole: &[(&str, f64)]) -> Vec<Weekday> {
    let of = |number: usize| {
        let same = whole.iter().filter(|w| weekday(w.0) == Some(number));
        let p95s: Vec<f64> = same.map(|w| w.1).collect();
        (!p95s.is_empty()).then(|| Weekday {
            name: WEEKDAYS[number].into(),
            days: p95s.len() as u64,
            p95_day_ms: mean_day(&p95s),
        })
    };
    (0..WEEKDAYS.len()).filter_map(of).collect()
}

/// Hours of the day of one target. An hour with less than half as many probes as the median hour does not count.
fn hours_of_day(target: &str, all: &[Hour]) -> Vec<HourOfDay> {
    let own: Vec<&Hour> = all.iter().filter(|h| h.target == target).collect();
    let mut counts: Vec<u64> = own.iter().map(|h| h.judged).collect();
    counts.sort_unstable();
    let usual = counts.get(counts.len() / 2).copied().unwrap_or_default();
    let of = |hour: u64| {
        let same: Vec<&&Hour> = (own.iter())
            .filter(|h| h.hour == hour && h.judged > 0 && h.judged * 2 >= usual)
            .collect();
        let mean_of = |p: f64| {
            let ms = same.iter().filter_map(|h| Some(h.rtts.quantile(p)? / 1e6));
            mean_day(&ms.collect::<Vec<f64>>())
        };
        let sum = |of: fn(&Hour) -> u64| same.iter().map(|h| of(h)).sum::<u64>() as f64;
        (!same.is_empty()).then(|| HourOfDay {
            hour,
            days: same.len() as u64,
            lost_percent: 100.0 * sum(|h| h.missed) / sum(|h| h.judged),
            median_hour_ms: mean_of(0.5),
            p95_hour_ms: mean_of(0.95),
        })
    };
    (0..HOURS).filter_map(of).collect()
}

/// Number of a date's day of the week, 0 for Monday: M. Keith, T. Craver, "The Ultimate Perpetual Calendar?", Journal of
/// Recreational Mathematics 22(4), 1990.
fn weekday(date: &str) -> Option<usize> {
    let mut parts = date.splitn(3, '-').map(|p| p.parse::<i64>().ok());
    let (year, month, day) = (parts.next()??, parts.next()??, parts.next()??);
    let before_march = i64::from(month < 3);
    let year_of = year - before_march;
    let shift = match before_march {
        1 => year,
        _ => year - 2,
    };
    let sunday_is_0 = 23 * month / 9 + day + 4 + shift + year_of.div_euclid(4)
        - year_of.div_euclid(100)
        + year_of.div_euclid(400);
    Some((sunday_is_0 + 6).rem_euclid(7) as usize)
}

/// Mean with Student's interval.
fn mean_day(p95s: &[f64]) -> Figure {
    match p95s {
        [] => Figure::cannot_tell("no whole day was measured"),
        days => mean_of_days(days),
    }
}

/// Difference of two means with Welch's interval.
fn difference(before: &[f64], last: &[f64]) -> Figure {
    let (Some(a), Some(b)) = (moments(before), moments(last)) else {
        return Figure::cannot_tell("there are no days before the last week");
    };
    if before.len() < 2 || last.len() < 2 {
        return Figure::cannot_tell("one day does not show how much days differ");
    }
    let (n, m) = (worth(before), worth(last));
    let (va, vb) = (a.sd * a.sd / n, b.sd * b.sd / m);
    let value = b.mean - a.mean;
    let sum = va + vb;
    if sum <= 0.0 {
        return Figure::exactly(value);
    }
    let degrees = sum * sum / (va * va / (n - 1.0) + vb * vb / (m - 1.0));
    let half = student_t95(degrees) * sum.sqrt();
    Figure::Is {
        value,
        low: value - half,
        high: value + half,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
    }

    fn point(p95s: &[f64]) -> Point {
        let day = |(i, ms): (usize, &f64)| {
            let mut day = Day {
                target: "udp".into(),
                date: format!("2026-{:02}-{:02}", 1 + i / 28, 1 + i % 28),
                judged: 1000,
                ..Day::default()
            };
            day.rtts.add_many((ms * 1e6) as u64, 1000);
            day
        };
        Point {
            days: p95s.iter().enumerate().map(day).collect(),
            ..Point::default()
        }
    }

    /// Evenings that are slow on every day, drawn at random: the interval of an hour's mean holds its truth in about 95 of 100
    /// draws, and no hour of another target and no hour that was hardly measured is in it.
    #[test]
    fn a_slow_hour_of_the_day_shows_with_an_interval() {
        let mut held = 0;
        for seed in 0..400 {
            let mut rng = Streams::new(seed).stream("hours");
            let mut hours = Vec::new();
            for day in 1..=10 {
                for hour in 0..24 {
                    let truth = if hour == 20 { 180.0 } else { 40.0 };
                    let mut own = Hour {
                        target: "udp".into(),
                        date: format!("2026-11-{day:02}"),
                        hour,
                        judged: 100,
                        missed: 1,
                        ..Hour::default()
                    };
                    let ms = truth + 10.0 * normal(&mut rng);
                    own.rtts.add_many((ms.max(1.0) * 1e6) as u64, 99);
                    hours.push(Hour {
                        target: "other".into(),
                        ..own.clone()
                    });
                    hours.push(own);
                }
            }
            let mut short = Hour {
                target: "udp".into(),
                date: "2026-11-11".into(),
                hour: 20,
                judged: 3,
                ..Hour::default()
            };
            short.rtts.add_many(1_000_000_000, 3);
            hours.push(short);
            let found = hours_of_day("udp", &hours);
            assert_eq!(found.len(), 24, "seed {seed}");
            let evening = &found[20];
            assert_eq!(
                (evening.hour, evening.days, evening.lost_percent),
                (20, 10, 1.0)
            );
            let Figure::Is { value, low, high } = evening.p95_hour_ms else {
                panic!("seed {seed}: {evening:?}")
            };
            assert!((160.0..200.0).contains(&value), "seed {seed}: {value}");
            // The sketch's own step is far below the spread between days.
            held += u32::from(low <= 180.0 && 180.0 <= high);
        }
        assert!((360..=396).contains(&held), "{held} of 400");
    }

    #[test]
    fn days_of_the_week_are_those_of_the_calendar() {
        // As `date -d DATE +%u` has them, less one.
        for (date, number) in [
            ("2026-11-27", 4),
            ("2026-01-01", 3),
            ("2024-02-29", 3),
            ("2000-01-01", 5),
            ("1970-01-01", 3),
            ("2100-03-01", 0),
            ("2025-12-28", 6),
        ] {
            assert_eq!(weekday(date), Some(number), "{date}");
        }
        assert_eq!(weekday("unknown"), None);
    }

    /// Fewer than one in fifty of 28 days that are alike stand out; one that is twice as long does, always.
    #[test]
    fn a_day_stands_out_if_it_is_more_than_chance() {
        let (mut false_alarms, mut noticed) = (0, 0);
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("days");
            let mut p95s: Vec<f64> = (0..28).map(|_| 40.0 + 4.0 * normal(&mut rng)).collect();
            p95s[9] = 80.0;
            let found = over_days(&point(&p95s));
            let days = &found.targets[0].days;
            noticed += usize::from(days[9].against_others == Is::Worse);
            let others = days.iter().enumerate().filter(|(i, _)| *i != 9);
            false_alarms += others.filter(|(_, d)| d.against_others != Is::Same).count();
        }
        assert_eq!(noticed, 200);
        assert!(false_alarms < 200 * 27 / 50, "{false_alarms} of 5400");
        let few = over_days(&point(&[40.0, 40.0, 90.0]));
        assert_eq!(few.targets[0].days[2].against_others, Is::CannotTell);
    }

    /// The interval of the change of a week holds the truth in 95 of 100 points, with other scatter before and after.
    #[test]
    fn the_interval_of_a_change_holds_the_truth() {
        let mut held = 0;
        for seed in 0..1000 {
            let mut rng = Streams::new(seed).stream("weeks");
            let p95s: Vec<f64> = (0..35)
                .map(|i| match i < 28 {
                    true => 40.0 + 2.0 * normal(&mut rng),
                    false => 45.0 + 6.0 * normal(&mut rng),
                })
                .collect();
            let found = over_days(&point(&p95s));
            if let Figure::Is { low, high, .. } = found.targets[0].change_ms {
                held += usize::from((low..high).contains(&5.0));
            }
        }
        assert!((930..=970).contains(&held), "{held} of 1000");
    }

    /// The same where half of each day is that of the day before, and nothing changes.
    #[test]
    fn the_interval_of_a_change_knows_that_days_resemble_each_other() {
        let mut held = 0;
        for seed in 0..1000 {
            let mut rng = Streams::new(seed).stream("weather");
            let mut weather = normal(&mut rng);
            let p95s: Vec<f64> = (0..35)
                .map(|_| {
                    weather = 0.5 * weather + 0.75f64.sqrt() * normal(&mut rng);
                    40.0 + 4.0 * weather
                })
                .collect();
            let found = over_days(&point(&p95s));
            if let Figure::Is { low, high, .. } = found.targets[0].change_ms {
                held += usize::from((low..high).contains(&0.0));
            }
        }
        assert!(held >= 870, "{held} of 1000");
    }

    #[test]
    fn days_of_few_probes_are_shown_and_count_in_no_mean() {
        let mut all = point(&[40.0; 20]);
        all.days[19].judged = 100;
        all.days[19].rtts = crate::points::Rtts::default();
        all.days[19].rtts.add_many(900_000_000, 100);
        let found = over_days(&all);
        let target = &found.targets[0];
        assert_eq!(target.days.len(), 20);
        assert_eq!(target.days[19].against_others, Is::CannotTell);
        let week = target.last_week_ms.value().expect("seven days");
        assert!((week - 40.0).abs() < 0.2, "{week}");
        assert_eq!(target.weekdays.iter().map(|w| w.days).sum::<u64>(), 19);
    }
}
