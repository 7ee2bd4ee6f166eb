//! Reports over the recordings of many points: the digest of each recording, and the comparison of the points.

use crate::analyse;
use crate::progress::Shared;
use crate::scan::{self, Source};
use crate::{Progress, usage};
use analysis::before_after::Round;
use analysis::over_days::over_days;
use analysis::points::{compare, distributions};
use base::record::{Status, TableId, Text};
use base::sketch::Sketch;
use report::terminal::Style;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

pub use analysis::over_days::OverDays;
pub use analysis::points::{Day, Delays, Hour, Point, Points};

/// Digest of a recording: all that a report keeps of it.
#[derive(Default)]
pub struct Digest {
    /// Days of a monitor's probes.
    pub days: Vec<Day>,
    /// Hours of the same probes.
    pub hours: Vec<Hour>,
    /// A test's figures.
    pub round: Option<Round>,
}

const HOUR_NS: i64 = 3_600_000_000_000;
const DAY_NS: i64 = 24 * HOUR_NS;

/// Makes the digest of a recording. Experiments leave nothing.
///
/// # Errors
/// A recording that cannot be read, or whose probes were thinned.
pub fn digest(path: &Path, progress: &mut dyn Progress) -> anyhow::Result<Digest> {
    let shared = Shared::new(progress);
    let from = Source {
        path,
        observer: &shared,
    };
    let mut digest = Digest::default();
    match &*scan::meta(from)?.verb {
        "test" => digest.round = Some(Round::of(&analyse::test(from)?.0)),
        "monitor" => (digest.days, digest.hours) = probes(from)?,
        _ => {}
    }
    Ok(digest)
}

/// Days and hours of the probes to each target.
fn probes(from: Source<'_>) -> anyhow::Result<(Vec<Day>, Vec<Hour>)> {
    let mut is_thinned = false;
    scan::scan(from, TableId::Distribution, &["t_ns"], &mut |rows| {
        is_thinned |= !rows.is_empty();
    })?;
    anyhow::ensure!(!is_thinned, "its oldest probes were thinned");
    let mut days: BTreeMap<(Text, i64), Day> = BTreeMap::new();
    let mut hours: BTreeMap<(Text, i64), Hour> = BTreeMap::new();
    scan::probes(from, |target, sent_ns, rtt_ns, status| {
        let missed = match status {
            Status::Ok => false,
            Status::Late | Status::Lost | Status::LostUp | Status::LostDown => true,
            Status::Duplicate | Status::Invalid | Status::NotSent => return,
        };
        let at = |length: i64| (target.clone(), sent_ns.div_euclid(length));
        let day = days.entry(at(DAY_NS)).or_default();
        let hour = hours.entry(at(HOUR_NS)).or_default();
        day.judged += 1;
        hour.judged += 1;
        day.missed += u64::from(missed);
        hour.missed += u64::from(missed);
        if let (false, Some(rtt)) = (missed, rtt_ns) {
            day.rtts.add(rtt.unsigned_abs());
            hour.rtts.add(rtt.unsigned_abs());
        }
    })?;
    let days = days.into_iter().map(|((target, number), day)| Day {
        target: target.to_string(),
        date: date(number.saturating_mul(DAY_NS)),
        ..day
    });
    let hours = hours.into_iter().map(|((target, number), hour)| Hour {
        target: target.to_string(),
        date: date(number.saturating_mul(HOUR_NS)),
        hour: number.rem_euclid(24).unsigned_abs(),
        ..hour
    });
    Ok((days.collect(), hours.collect()))
}

/// Date (UTC) of a time, UNIX ns.
pub fn date(t_ns: i64) -> String {
    let at = jiff::Timestamp::from_nanosecond(i128::from(t_ns));
    let day = |t: jiff::Timestamp| t.to_zoned(jiff::tz::TimeZone::UTC).date().to_string();
    at.map_or_else(|_| "unknown".into(), day)
}

/// Points side by side, with the page about them.
pub struct Answer {
    pub points: Points,
    page: String,
}

/// Compares points, and groups of points with the same value of a label.
///
/// # Errors
/// Nothing was measured; no point has the label.
pub fn run(points: &[Point], by: Option<&str>) -> anyhow::Result<Answer> {
    if points
        .iter()
        .all(|p| p.days.is_empty() && p.rounds.is_empty())
    {
        return Err(usage("no point has measured anything in these days"));
    }
    if let Some(label) = by
        && !points.iter().any(|p| p.labels.contains_key(label))
    {
        let known: BTreeSet<&str> = points
            .iter()
            .flat_map(|p| p.labels.keys())
            .map(|k| &**k)
            .collect();
        let known: Vec<&str> = known.into_iter().collect();
        let known = match known.is_empty() {
            true => "none has any".to_owned(),
            false => format!("there are {}", known.join(", ")),
        };
        return Err(usage(format!(
            "--by {label}: no point has this label; {known} (tailback fleet label)"
        )));
    }
    let found = compare(points, by);
    let drawn = found
        .targets
        .iter()
        .map(|t| distributions(points, &t.target, by))
        .collect::<Vec<_>>();
    Ok(Answer {
        page: report::points::page(&found, &drawn),
        points: found,
    })
}

/// One point over its days, with the page about it.
pub struct PointAnswer {
    pub point: OverDays,
    page: String,
}

/// Follows one point over its days; `says` are sentences of the fleet about it, such as its health.
///
/// # Errors
/// There is no such point, or it has measured nothing.
pub fn point(points: &[Point], name: &str, says: &[String]) -> anyhow::Result<PointAnswer> {
    let Some(own) = points.iter().find(|p| p.name == name) else {
        let known: Vec<&str> = points.iter().map(|p| &*p.name).take(20).collect();
        return Err(usage(format!(
            "--point {name}: there is no such point; there are {}",
            known.join(", ")
        )));
    };
    if own.days.is_empty() && own.rounds.is_empty() {
        return Err(usage(format!(
            "{name} has measured nothing in these days that a report shows: monitors and tests"
        )));
    }
    let found = over_days(own);
    Ok(PointAnswer {
        page: report::over_days::page(&found, says),
        point: found,
    })
}

impl PointAnswer {
    /// Text for a terminal.
    pub fn text(&self, style: Style) -> String {
        report::over_days::text(&self.point, style)
    }

    /// Page, complete without a script.
    pub fn page(&self) -> &str {
        &self.page
    }
}

/// Compares groups of points for the public: nothing about a single point, and nothing about fewer than `least` of them.
///
/// # Errors
/// Nothing was measured; no point has the label; no group is large enough.
pub fn public(points: &[Point], by: &str, least: u64) -> anyhow::Result<Answer> {
    let found = run(points, Some(by))?.points.of_groups(least);
    if found.targets.is_empty() && found.group_tests.is_empty() {
        return Err(usage(format!(
            "no group by {by} has {least} points that measured"
        )));
    }
    let drawn = found.targets.iter().map(|t| {
        let mut all = distributions(points, &t.target, Some(by));
        all.retain(|d| t.groups.iter().any(|g| g.name == d.name));
        all
    });
    let drawn: Vec<_> = drawn.collect();
    Ok(Answer {
        page: report::points::page(&found, &drawn),
        points: found,
    })
}

impl Answer {
    /// Text for a terminal.
    pub fn text(&self, style: Style) -> String {
        report::points::text(&self.points, style)
    }

    /// Page, complete without a script.
    pub fn page(&self) -> &str {
        &self.page
    }
}

/// Round trips as steps: value and count, ns.
pub fn steps<const BITS: u32>(rtts: &Sketch<BITS>) -> Vec<(u64, u64)> {
    rtts.counts().collect()
}

/// Round trips of such steps.
pub fn of_steps<const BITS: u32>(steps: &[(u64, u64)]) -> Sketch<BITS> {
    let mut rtts = Sketch::default();
    steps
        .iter()
        .for_each(|(value, count)| rtts.add_many(*value, *count));
    rtts
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams};
    use rand::RngExt;

    fn point(rng: &mut Rng, number: usize, group: Option<usize>, targets: &[usize]) -> Point {
        let mut point = Point {
            name: format!("village-{number}-"),
            ..Point::default()
        };
        if let Some(group) = group {
            point
                .labels
                .insert("provider".into(), format!("acme-{group}-"));
        }
        for target in targets {
            for date in 1..=3 {
                let mut day = Day {
                    target: format!("udp-{target}"),
                    date: format!("2026-11-{date:02}"),
                    judged: 100,
                    ..Day::default()
                };
                day.rtts
                    .add_many(rng.random_range(1..100u64) * 1_000_000, 100);
                point.days.push(day);
            }
        }
        point
    }

    /// Fleets drawn at random: each group that is shown has five points that measured there, and no point and no smaller group has its
    /// name on the page.
    #[test]
    fn the_public_sees_no_point_and_no_small_group() {
        let mut shown = 0;
        for seed in 0..100 {
            let mut rng = Streams::new(seed).stream("public");
            let groups = rng.random_range(1..6);
            let mut sizes: BTreeMap<(Option<usize>, usize), u64> = BTreeMap::new();
            let points: Vec<Point> = (0..rng.random_range(1..40))
                .map(|number| {
                    let group = rng.random_bool(0.9).then(|| rng.random_range(0..groups));
                    let targets: Vec<usize> = (0..3).filter(|_| rng.random_bool(0.6)).collect();
                    for target in &targets {
                        // Points without the label are a group, too.
                        *sizes.entry((group, *target)).or_default() += 1;
                    }
                    point(&mut rng, number, group, &targets)
                })
                .collect();
            let large = sizes.values().filter(|n| **n >= 5).count();
            let Ok(answer) = public(&points, "provider", 5) else {
                assert_eq!(large, 0, "seed {seed}");
                continue;
            };
            let groups_shown: Vec<_> = answer
                .points
                .targets
                .iter()
                .flat_map(|t| &t.groups)
                .collect();
            assert_eq!(groups_shown.len(), large, "seed {seed}");
            assert!(groups_shown.iter().all(|g| g.points >= 5), "seed {seed}");
            shown += large;
            assert!(!answer.page().contains("village-"), "seed {seed}");
            for group in 0..groups {
                let name = format!("acme-{group}-");
                let is_shown = groups_shown.iter().any(|g| g.name == name);
                assert_eq!(
                    answer.page().contains(&name),
                    is_shown,
                    "seed {seed}: {name}"
                );
            }
        }
        assert!(shown > 100, "{shown}");
    }
}
