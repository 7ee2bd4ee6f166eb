//! Many measuring points over many days: delays and losses of each, its tests, and groups of points side by side.
//!
//! **Method.** Median and quantiles of a point are those of all of its probes. Two probes of one minute say nearly the same, so
//! what may be due to chance is told from days: the 95 % point of each day, their mean, and Student's interval of the spread
//! between days, as many of them as they are worth where each resembles the one before. A day with less than half as many probes
//! as the median day is left out of it. A point is worse than most if its interval lies above the median of all points, and better
//! if it lies below. That interval is wider, the more points there are: of fleets whose points are all alike, one in twenty has a
//! point of which that is said (Bonferroni). A group's figures are means of its points', with Student's interval of the spread
//! between points.
//!
//! **Source.** None: Student's interval of means; `before_after` for the tests.
//!
//! **Limits.** A month shows little of what lasts for a week: intervals of such days are still too narrow.

use crate::before_after::{FIGURES, Is, Round, grades, mean, not_negative};
use base::sketch::Sketch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;
use std::collections::{BTreeMap, BTreeSet};

/// Version of this shape in `--json`.
pub const VERSION: u32 = 1;

/// Round trips, ns; quantiles within 0.4 %.
pub type Rtts = Sketch<7>;

/// Day (UTC) of a point's probes to a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Day {
    /// Name of the target.
    pub target: String,
    /// Date, such as 2026-11-24.
    pub date: String,
    /// Probes whose fate is known.
    pub judged: u64,
    /// Probes not answered in time.
    pub missed: u64,
    /// Round trips of the others.
    pub rtts: Rtts,
}

/// Round trips of an hour, ns, coarse because there are many hours; quantiles within 1.6 %.
pub type HourRtts = Sketch<5>;

/// Hour (UTC) of a point's probes to a target.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Hour {
    /// Name of the target.
    pub target: String,
    /// Date, such as 2026-11-24.
    pub date: String,
    /// Hour of the day, 0 to 23.
    pub hour: u64,
    /// Probes whose fate is known.
    pub judged: u64,
    /// Probes not answered in time.
    pub missed: u64,
    /// Round trips of the others.
    pub rtts: HourRtts,
}

/// Point with all that is known of it.
#[derive(Clone, Debug, Default)]
pub struct Point {
    /// Name of the point.
    pub name: String,
    /// Facts that its operator gave, such as provider and technology.
    pub labels: BTreeMap<String, String>,
    /// Its days.
    pub days: Vec<Day>,
    /// Its hours, where somebody asked for them.
    pub hours: Vec<Hour>,
    /// Its tests.
    pub rounds: Vec<Round>,
    /// Rates that its provider promises up and down, bit/s.
    pub promised: [Option<f64>; 2],
}

/// Points side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Points {
    /// Version of the shape, [`VERSION`].
    pub version: u32,
    /// Label by which points are grouped.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// First and last day with probes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub days: Option<(String, String)>,
    /// Delays of all points to each target.
    pub targets: Vec<Target>,
    /// Tests of all points.
    pub tests: Vec<Tests>,
    /// Tests of all groups.
    pub group_tests: Vec<Tests>,
}

impl Points {
    /// The same without single points, and without groups of fewer than `least` points.
    #[must_use]
    pub fn of_groups(mut self, least: u64) -> Points {
        for target in &mut self.targets {
            target.points.clear();
            target.groups.retain(|g| g.points >= least);
        }
        self.targets.retain(|t| !t.groups.is_empty());
        self.tests.clear();
        self.group_tests.retain(|g| g.points >= least);
        self
    }
}

/// Delays to one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Target {
    /// Name of the target.
    pub target: String,
    /// Median of all points' `p95_day_ms`.
    pub middle_ms: Option<f64>,
    /// Points, the highest `p95_day_ms` first.
    pub points: Vec<Delays>,
    /// Groups, the highest first; absent without a label.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub groups: Vec<Delays>,
}

/// Delays of a point, or of a group of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// Name of the point, or value of the label.
    pub name: String,
    /// Number of points.
    pub points: u64,
    /// Days with probes, of all points.
    pub days: u64,
    /// Probes whose fate is known.
    pub probes: u64,
    /// Share of them not answered in time, %.
    pub lost_percent: f64,
    /// Median of the round trips; absent if no probe was answered.
    pub median_ms: Option<f64>,
    /// Their 95 % point.
    pub p95_ms: Option<f64>,
    /// Their 99 % point.
    pub p99_ms: Option<f64>,
    /// 95 % point of a day, mean over days; of a group, mean over its points.
    pub p95_day_ms: Figure,
    /// Share of a day's probes that are not answered, mean over days, %; of a group, mean over its points.
    pub lost_day_percent: Figure,
    /// Comparison of `p95_day_ms` with the median of all points.
    pub against_most: Is,
}

/// Tests of a point, or of a group of points.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tests {
    /// Name of the point, or value of the label.
    pub name: String,
    /// Number of points with tests.
    pub points: u64,
    /// Number of tests.
    pub tests: u64,
    /// Grades that occur.
    pub grades: String,
    /// Figures by their keys, means over the tests; of a group, means over its points.
    pub figures: BTreeMap<String, Figure>,
    /// Share of the promised rate up that was reached, %.
    pub reached_up_percent: Figure,
    /// The same down.
    pub reached_down_percent: Figure,
}

/// Distribution of the round trips of a point or a group, for a plot.
pub struct Distribution {
    /// Name of the point, or value of the label.
    pub name: String,
    /// Probes whose fate is known.
    pub judged: u64,
    /// Round trips.
    pub rtts: Rtts,
}

/// Probability with which an interval does not hold the truth.
const CHANCE: f64 = 0.05;
/// Reason why a figure of one day has no interval.
const ONE_DAY: &str = "one whole day does not show how much days differ";
const ONE_POINT: &str = "one point does not show how much points differ";
/// Value of the label of points that have none.
const NO_LABEL: &str = "(none)";

/// Compares points, and groups of points with the same value of a label.
pub fn compare(points: &[Point], by: Option<&str>) -> Points {
    let dates = points.iter().flat_map(|p| &p.days).map(|d| &d.date);
    let (first, last) = (dates.clone().min(), dates.max());
    // Our own probes ahead of the others.
    let names: BTreeSet<(bool, &String)> = points
        .iter()
        .flat_map(|p| &p.days)
        .map(|d| (!crate::phases::is_own(&d.target), &d.target))
        .collect();
    let tested: Vec<&Point> = points.iter().filter(|p| !p.rounds.is_empty()).collect();
    let tests: Vec<Tests> = tested.iter().map(|p| own_tests(p)).collect();
    let groups = by.map(|label| grouped(tested.iter().copied(), label));
    Points {
        version: VERSION,
        by: by.map(str::to_owned),
        days: first.cloned().zip(last.cloned()),
        targets: names
            .into_iter()
            .map(|(_, name)| target(name, points, by))
            .collect(),
        group_tests: groups
            .into_iter()
            .flatten()
            .map(|(name, members)| group_tests(name, &members, &tests))
            .collect(),
        tests,
    }
}

/// Distributions of the round trips to a target: of the groups, or of the points.
pub fn distributions(points: &[Point], target: &str, by: Option<&str>) -> Vec<Distribution> {
    let whole = |name: String, members: &[&Point]| {
        let all = Summed::of(members.iter().flat_map(|p| days(p, target)));
        Distribution {
            name,
            judged: all.judged,
            rtts: all.rtts,
        }
    };
    let mut all: Vec<Distribution> = match by {
        Some(label) => grouped(points.iter(), label)
            .into_iter()
            .map(|(name, members)| whole(name, &members))
            .collect(),
        None => points.iter().map(|p| whole(p.name.clone(), &[p])).collect(),
    };
    all.retain(|d| d.judged > 0);
    all
}

/// Points by the value of a label.
fn grouped<'p>(
    points: impl Iterator<Item = &'p Point>,
    label: &str,
) -> BTreeMap<String, Vec<&'p Point>> {
    let mut groups: BTreeMap<String, Vec<&Point>> = BTreeMap::new();
    for point in points {
        let value = point.labels.get(label).cloned();
        groups
            .entry(value.unwrap_or_else(|| NO_LABEL.into()))
            .or_default()
            .push(point);
    }
    groups
}

fn days<'p>(point: &'p Point, target: &str) -> impl Iterator<Item = &'p Day> {
    point.days.iter().filter(move |d| d.target == target)
}

/// Sums over days.
#[derive(Default)]
struct Summed {
    days: u64,
    judged: u64,
    missed: u64,
    rtts: Rtts,
}

impl Summed {
    fn of<'d>(days: impl Iterator<Item = &'d Day>) -> Summed {
        days.fold(Summed::default(), |mut all, day| {
            all.days += 1;
            all.judged = all.judged.saturating_add(day.judged);
            all.missed = all.missed.saturating_add(day.missed);
            all.rtts.merge(&day.rtts);
            all
        })
    }

    fn delays(&self, name: &str, points: u64) -> Delays {
        let quantile = |p: f64| self.rtts.quantile(p).map(|ns| ns / 1e6);
        Delays {
            name: name.into(),
            points,
            days: self.days,
            probes: self.judged,
            lost_percent: share(self.missed, self.judged),
            median_ms: quantile(0.5),
            p95_ms: quantile(0.95),
            p99_ms: quantile(0.99),
            p95_day_ms: Figure::cannot_tell(ONE_DAY),
            lost_day_percent: Figure::cannot_tell(ONE_DAY),
            against_most: Is::CannotTell,
        }
    }
}

fn share(part: u64, of: u64) -> f64 {
    100.0 * part as f64 / of.max(1) as f64
}

/// Mean of several values with Student's interval; unknown of fewer than two, for this reason.
fn mean_of(values: &[f64], alone: &str) -> Figure {
    not_negative(interval(values, values.len() as f64, CHANCE, alone))
}

/// The same of days in their order: days that resemble those before are worth fewer.
pub(crate) fn mean_of_days(values: &[f64]) -> Figure {
    not_negative(interval(values, worth(values), CHANCE, ONE_DAY))
}

/// Number of independent days that these are worth, in their order.
pub(crate) fn worth(days: &[f64]) -> f64 {
    let n = days.len() as f64;
    let share = stats::effective_size(days) / n;
    let memory = (1.0 - share) / (1.0 + share);
    if memory <= 0.0 {
        return n;
    }
    // A few days show less of a memory than there is (M. G. Kendall, Biometrika 41, 1954).
    let memory = (memory + (1.0 + 3.0 * memory) / n).min(0.95);
    (n * (1.0 - memory) / (1.0 + memory)).max(1.5)
}

/// Mean with the interval that it misses with the probability `chance`, of values that are worth so many.
fn interval(values: &[f64], worth: f64, chance: f64, alone: &str) -> Figure {
    let Some(m) = stats::moments(values).filter(|m| m.n > 1) else {
        return Figure::cannot_tell(alone);
    };
    let half = stats::student_t(worth - 1.0, chance / 2.0) * m.sd / worth.sqrt();
    Figure::Is {
        value: m.mean,
        low: m.mean - half,
        high: m.mean + half,
    }
}

/// Delays of a point or a group to a target, and what its place among the others is told from.
struct Placed {
    delays: Delays,
    /// 95 % points of its days, or means of its points.
    p95s: Vec<f64>,
    /// Number of independent values that they are worth.
    worth: f64,
}

impl Placed {
    /// Comparison with the median of all, one of so many comparisons.
    fn against(&self, middle: Option<f64>, comparisons: usize) -> Is {
        let chance = CHANCE / comparisons.max(1) as f64;
        match (interval(&self.p95s, self.worth, chance, ""), middle) {
            (Figure::Is { low, .. }, Some(middle)) if low > middle => Is::Worse,
            (Figure::Is { high, .. }, Some(middle)) if high < middle => Is::Better,
            (Figure::Is { .. }, Some(_)) => Is::Same,
            _ => Is::CannotTell,
        }
    }
}

/// Delays of a point to a target.
fn delays(point: &Point, target: &str) -> Option<Placed> {
    let all: Vec<&Day> = days(point, target).collect();
    let mut counts: Vec<u64> = all.iter().map(|d| d.judged).collect();
    counts.sort_unstable();
    let usual = *counts.get(counts.len() / 2)?;
    let whole = || all.iter().filter(|d| d.judged > 0 && d.judged * 2 >= usual);
    let p95s: Vec<f64> = whole()
        .filter_map(|d| d.rtts.quantile(0.95))
        .map(|ns| ns / 1e6)
        .collect();
    let lost: Vec<f64> = whole().map(|d| share(d.missed, d.judged)).collect();
    let delays = Delays {
        p95_day_ms: mean_of_days(&p95s),
        lost_day_percent: mean_of_days(&lost),
        ..Summed::of(all.iter().copied()).delays(&point.name, 1)
    };
    let worth = worth(&p95s);
    Some(Placed {
        delays,
        p95s,
        worth,
    })
}

/// Delays of a group to a target, from those of its points.
fn group(name: &str, members: &[&Point], target: &str) -> Option<Placed> {
    let each: Vec<Placed> = members.iter().filter_map(|p| delays(p, target)).collect();
    if each.is_empty() {
        return None;
    }
    let known = |of: fn(&Delays) -> &Figure| -> Vec<f64> {
        let values = each.iter().filter_map(|p| of(&p.delays).value());
        values.collect()
    };
    let p95s = known(|d| &d.p95_day_ms);
    let delays = Delays {
        p95_day_ms: mean_of(&p95s, ONE_POINT),
        lost_day_percent: mean_of(&known(|d| &d.lost_day_percent), ONE_POINT),
        ..Summed::of(members.iter().flat_map(|p| days(p, target))).delays(name, each.len() as u64)
    };
    Some(Placed {
        delays,
        worth: p95s.len() as f64,
        p95s,
    })
}

fn target(name: &str, points: &[Point], by: Option<&str>) -> Target {
    let all: Vec<Placed> = points.iter().filter_map(|p| delays(p, name)).collect();
    let known = all.iter().filter_map(|p| p.delays.p95_day_ms.value());
    let mut known: Vec<f64> = known.collect();
    known.sort_by(f64::total_cmp);
    let middle_ms = (known.len() >= 3).then(|| known[known.len() / 2]);
    let groups = by
        .map(|label| grouped(points.iter(), label))
        .unwrap_or_default();
    let groups = groups
        .iter()
        .filter_map(|(value, members)| group(value, members, name));
    let groups: Vec<Placed> = groups.collect();
    Target {
        target: name.into(),
        middle_ms,
        points: ranked(all, middle_ms),
        groups: ranked(groups, middle_ms),
    }
}

/// The highest first, each compared with the median of all points.
fn ranked(all: Vec<Placed>, middle_ms: Option<f64>) -> Vec<Delays> {
    let comparisons = all.len();
    let placed = all.into_iter().map(|p| Delays {
        against_most: p.against(middle_ms, comparisons),
        ..p.delays
    });
    let mut list: Vec<Delays> = placed.collect();
    let order = |d: &Delays| d.p95_day_ms.value().or(d.p95_ms).unwrap_or(f64::INFINITY);
    list.sort_by(|a, b| order(b).total_cmp(&order(a)));
    list
}

/// Share of a promised rate that was reached.
fn reached(figure: &Figure, promised: Option<f64>) -> Figure {
    match (figure, promised) {
        (Figure::Is { value, low, high }, Some(rate)) if rate > 0.0 => Figure::Is {
            value: 100.0 * value / rate,
            low: 100.0 * low / rate,
            high: 100.0 * high / rate,
        },
        (Figure::Is { .. }, _) => Figure::cannot_tell("the promised rate is unknown"),
        (unknown, _) => unknown.clone(),
    }
}

fn own_tests(point: &Point) -> Tests {
    let of = |key: &str| not_negative(mean(point.rounds.iter().map(|r| r.figure(key))));
    let figures: BTreeMap<String, Figure> = FIGURES
        .iter()
        .map(|(key, ..)| ((*key).to_owned(), of(key)))
        .collect();
    let [up, down] = point.promised;
    Tests {
        name: point.name.clone(),
        points: 1,
        tests: point.rounds.len() as u64,
        grades: grades(&point.rounds),
        reached_up_percent: reached(&figures["goodput_up_bps"], up),
        reached_down_percent: reached(&figures["goodput_down_bps"], down),
        figures,
    }
}

fn group_tests(name: String, members: &[&Point], all: &[Tests]) -> Tests {
    let its: Vec<&Tests> = all
        .iter()
        .filter(|t| members.iter().any(|p| p.name == t.name))
        .collect();
    let over = |of: &dyn Fn(&Tests) -> Option<f64>| {
        let known: Vec<f64> = its.iter().filter_map(|t| of(t)).collect();
        mean_of(&known, ONE_POINT)
    };
    let figures = FIGURES
        .iter()
        .map(|(key, ..)| ((*key).to_owned(), over(&|t| t.figures[*key].value())));
    Tests {
        name,
        points: its.len() as u64,
        tests: its.iter().map(|t| t.tests).sum(),
        grades: grades(members.iter().flat_map(|p| &p.rounds)),
        figures: figures.collect(),
        reached_up_percent: over(&|t| t.reached_up_percent.value()),
        reached_down_percent: over(&|t| t.reached_down_percent.value()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Rng, Streams, uniform};

    /// Nearly normal value of variance 1.
    fn normal(rng: &mut Rng) -> f64 {
        (0..12).map(|_| uniform(rng)).sum::<f64>() - 6.0
    }

    /// Day whose round trips are all `ms`.
    fn day(date: usize, ms: f64, probes: u64) -> Day {
        let mut day = Day {
            target: "udp".into(),
            date: format!("2026-11-{:02}", date + 1),
            judged: probes,
            ..Day::default()
        };
        day.rtts.add_many((ms * 1e6) as u64, probes);
        day
    }

    fn point(name: &str, days: Vec<Day>) -> Point {
        Point {
            name: name.into(),
            days,
            ..Point::default()
        }
    }

    /// Days scatter about 40 ms: the interval holds it in 95 of 100 points, whatever the number of days.
    #[test]
    fn the_interval_of_days_holds_the_truth() {
        for days in [2, 5, 30] {
            let mut held = 0;
            for seed in 0..1_000 {
                let mut rng = Streams::new(seed).stream("days");
                let days = (0..days)
                    .map(|d| day(d, 40.0 + 4.0 * normal(&mut rng), 100))
                    .collect();
                let found = compare(&[point("a", days)], None);
                if let Figure::Is { low, high, .. } = found.targets[0].points[0].p95_day_ms {
                    held += usize::from((low..high).contains(&40.0));
                }
            }
            assert!((930..=970).contains(&held), "{days} days: {held} of 1000");
        }
    }

    /// Half of each day is that of the day before. Days taken for independent would hold it in three points of four.
    #[test]
    fn the_interval_of_days_that_resemble_each_other_holds_the_truth() {
        for days in [10, 30] {
            let mut held = 0;
            for seed in 0..1_000 {
                let mut rng = Streams::new(seed).stream("weather");
                let mut weather = normal(&mut rng);
                let days = (0..days)
                    .map(|d| {
                        weather = 0.5 * weather + 0.75f64.sqrt() * normal(&mut rng);
                        day(d, 40.0 + 4.0 * weather, 100)
                    })
                    .collect();
                let found = compare(&[point("a", days)], None);
                if let Figure::Is { low, high, .. } = found.targets[0].points[0].p95_day_ms {
                    held += usize::from((low..high).contains(&40.0));
                }
            }
            assert!(held >= 890, "{days} days: {held} of 1000");
        }
    }

    /// Points that are all alike: few fleets have one that is called worse than most, or better. One that is not is.
    #[test]
    fn a_point_is_called_worse_if_it_is_more_than_chance() {
        let (mut called, mut noticed) = ([0; 2], 0);
        for seed in 0..50 {
            let mut rng = Streams::new(seed).stream("points");
            let mut one = |i: usize| {
                let ms = if i == 0 { 60.0 } else { 40.0 };
                let days = (0..30)
                    .map(|d| day(d, ms + 4.0 * normal(&mut rng), 100))
                    .collect();
                point(&format!("p{i}"), days)
            };
            let points: Vec<Point> = (0..40).map(&mut one).collect();
            let target = &compare(&points, None).targets[0];
            assert_eq!(target.points[0].name, "p0", "seed {seed}");
            noticed += usize::from(target.points[0].against_most == Is::Worse);
            called[0] += target.points[1..]
                .iter()
                .filter(|p| p.against_most == Is::Worse)
                .count();
            called[1] += target.points[1..]
                .iter()
                .filter(|p| p.against_most == Is::Better)
                .count();
        }
        assert_eq!(noticed, 50);
        // Each as often as in one fleet of forty.
        assert!(called[0] <= 5 && called[1] <= 5, "{called:?} in 50 fleets");
    }

    #[test]
    fn quantiles_are_of_all_probes_and_groups_of_all_points() {
        let mut a = point("a", vec![day(0, 10.0, 900), day(1, 30.0, 100)]);
        a.labels.insert("provider".into(), "x".into());
        let mut b = point("b", vec![day(0, 50.0, 1000)]);
        b.labels.insert("provider".into(), "x".into());
        let c = point("c", vec![day(0, 20.0, 1000)]);
        let found = compare(&[a, b, c], Some("provider"));
        let target = &found.targets[0];
        let near = |got: Option<f64>, ms: f64| got.is_some_and(|got| (got - ms).abs() < ms * 0.004);
        let of = |name: &str| {
            target
                .points
                .iter()
                .find(|p| p.name == name)
                .expect("it is there")
        };
        assert!(near(of("a").median_ms, 10.0) && near(of("a").p95_ms, 30.0));
        // Its second day has too few probes, so that one day is left.
        assert_eq!(of("a").p95_day_ms, Figure::cannot_tell(ONE_DAY));
        let x = target
            .groups
            .iter()
            .find(|g| g.name == "x")
            .expect("it is there");
        assert_eq!((x.points, x.days, x.probes), (2, 3, 2000));
        assert!(near(x.p95_ms, 50.0), "{x:?}");
        assert!(
            target
                .groups
                .iter()
                .any(|g| g.name == NO_LABEL && g.points == 1)
        );
        assert_eq!(found.days, Some(("2026-11-01".into(), "2026-11-02".into())));
    }

    #[test]
    fn a_promised_rate_is_set_beside_what_the_tests_reached() {
        let round = |bps: f64| Round {
            title: String::new(),
            started_ns: 0,
            grade: "B".into(),
            complete: true,
            figures: BTreeMap::from([("goodput_up_bps".to_owned(), Figure::exactly(bps))]),
        };
        let tested = Point {
            rounds: vec![round(4e6), round(5e6), round(6e6)],
            promised: [Some(10e6), None],
            ..point("a", Vec::new())
        };
        let found = &compare(&[tested], None).tests[0];
        let Figure::Is { value, low, high } = found.reached_up_percent else {
            panic!("{found:?}")
        };
        assert!(
            (value - 50.0).abs() < 1e-9 && low < 45.0 && high > 55.0,
            "{found:?}"
        );
        assert_eq!(found.reached_down_percent.value(), None);
        assert_eq!((found.tests, &*found.grades), (3, "B"));
    }
}
