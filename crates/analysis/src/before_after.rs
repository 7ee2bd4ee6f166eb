//! Tests side by side: each figure of the first network beside that of the others, and if they differ by more than
//! chance. A network is one test, or several rounds.
//!
//! **Method.** Runs are independent, so the errors of two figures add in squares. A difference counts if its 95 %
//! interval leaves out zero. The first network is the reference. A figure of several rounds is their mean, with Student's
//! interval of the spread between rounds, without what is below zero: no delay, rate or size is negative. A figure of a medium, such as cable, is the mean of its networks', with Student's
//! interval of the spread between them; of one network it is the network's own, and
//! no change is told.
//!
//! **Source.** D. G. Altman, D. Machin, T. N. Bryant and M. J. Gardner, "Statistics with Confidence", 2000: method of
//! variance estimates recovery for a difference of two figures with intervals.
//!
//! A single test stands for its network with the spread that tests of one link have beside their own errors.
//!
//! **Limits.** That spread is the one of links whose load and rate are the same in each test: what differs between two hours of a
//! day, rounds show. With many figures, one in twenty differs by chance alone.

use crate::answer::{Answer, DirectionAnswer, QueueIs};
use base::Bytes;
use base::print::{DELAY, RATE, RPM, SIZE, Unit};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::{Figure, student_t95};
use std::collections::BTreeMap;

/// Version of this shape in `--json`.
pub const VERSION: u32 = 1;

/// Networks side by side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BeforeAfter {
    /// Version of the shape, [`VERSION`].
    pub version: u32,
    /// Networks, the reference first.
    pub tests: Vec<Test>,
    /// Figures of all networks.
    pub rows: Vec<Row>,
    /// Media that the networks belong to, side by side in the same way; absent if no network has one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub media: Option<Box<BeforeAfter>>,
}

/// Runs of one network.
#[derive(Clone, Debug)]
pub struct Network {
    /// Name of the network, or of its recording.
    pub name: String,
    /// Medium, such as cable or wireless, if it was said.
    pub medium: Option<String>,
    /// Its runs.
    pub rounds: Vec<Round>,
}

/// Run of a test, as far as runs are compared.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Round {
    /// Name of the run.
    pub title: String,
    /// Start, UNIX ns.
    pub started_ns: i64,
    /// Grade of the added delay.
    pub grade: String,
    /// True if it went to its planned end.
    pub complete: bool,
    /// Figures by their keys, as in [`FIGURES`].
    pub figures: BTreeMap<String, Figure>,
}

impl Round {
    /// Takes from an answer what is compared.
    pub fn of(answer: &Answer) -> Round {
        let figures = FIGURES.iter();
        Round {
            title: answer.title.clone(),
            started_ns: answer.started_ns,
            grade: answer.grade.letter.clone(),
            complete: answer.complete,
            figures: figures
                .map(|(key, .., of)| ((*key).to_owned(), of(answer)))
                .collect(),
        }
    }

    /// Figure of a key; unknown if an older release made the round.
    pub fn figure(&self, key: &str) -> Figure {
        let unknown =
            || Figure::cannot_tell("the release that made this run did not know the figure");
        self.figures.get(key).cloned().unwrap_or_else(unknown)
    }
}

/// One of the networks, or one of the media.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Test {
    /// Name of the network, of its recording, or of the medium.
    pub name: String,
    /// Medium of the network.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    /// Number of networks of the medium.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub networks: Option<u64>,
    /// Name of the first run.
    pub title: String,
    /// Number of runs.
    pub rounds: u64,
    /// Start of the first run, UNIX ns.
    pub started_ns: i64,
    /// Grade of the added delay; of several runs all that occur, in the order of the runs.
    pub grade: String,
    /// True if all runs went to their planned end.
    pub complete: bool,
}

/// Figure of all networks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Row {
    /// Key of the figure, with its unit.
    pub key: String,
    /// Name of the figure.
    pub name: String,
    /// Figure of each network.
    pub figures: Vec<Figure>,
    /// Change from the first network to each of the others.
    pub changes: Vec<Change>,
}

/// Change of a figure from the first network to another.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Change {
    /// Direction of the change.
    pub is: Is,
    /// Difference, with its 95 % interval.
    pub difference: Figure,
}

/// Direction of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Is {
    Better,
    Worse,
    /// No more than chance explains.
    Same,
    CannotTell,
}

type Of = fn(&Answer) -> Figure;

/// Definition of a figure: key, name, unit, true if more is better, access.
type Definition = (&'static str, &'static str, Unit, bool, Of);

/// Figures that are compared.
pub const FIGURES: [Definition; 8] = [
    ("added_up_p95_ms", "Upload adds, 95 %", DELAY, false, |a| {
        a.up.added.p95_ms.clone()
    }),
    (
        "added_down_p95_ms",
        "Download adds, 95 %",
        DELAY,
        false,
        |a| a.down.added.p95_ms.clone(),
    ),
    ("goodput_up_bps", "Rate up", RATE, true, |a| {
        a.up.goodput_bps.clone()
    }),
    ("goodput_down_bps", "Rate down", RATE, true, |a| {
        a.down.goodput_bps.clone()
    }),
    ("base_rtt_ms", "RTT at rest", DELAY, false, |a| {
        a.base_rtt_ms.clone()
    }),
    ("rpm", "Responsiveness", RPM, true, |a| {
        a.responsiveness.rpm.clone()
    }),
    ("queue_up_bytes", "Queue up", SIZE, false, |a| queue(&a.up)),
    ("queue_down_bytes", "Queue down", SIZE, false, |a| {
        queue(&a.down)
    }),
];

/// Size of a direction's queue; a lower bound is none.
fn queue(direction: &DirectionAnswer) -> Figure {
    match (direction.queue_is, direction.queue_bytes.value()) {
        (QueueIs::AtLeast, Some(bytes)) => Figure::cannot_tell(format!(
            "the queue holds at least {}, and how much more is unknown",
            Bytes::new(bytes as u64)
        )),
        _ => direction.queue_bytes.clone(),
    }
}

/// Standard deviation of a figure between tests of one link, beyond the errors within the tests, as a share of the figure.
///
/// **Source.** Twelve tests of each of ten links (`crates/link/links`, virtual time): the share with which 95 of 100 pairs of tests of one
/// link are told as alike. Without it 9 to 23 of 100 pairs seemed to differ in six of the eight figures.
fn spread(key: &str) -> f64 {
    match key {
        "added_up_p95_ms" | "added_down_p95_ms" => 0.065,
        "goodput_up_bps" | "goodput_down_bps" => 0.001,
        "rpm" => 0.14,
        "queue_up_bytes" | "queue_down_bytes" => 0.02,
        _ => 0.0,
    }
}

/// The figure of a single test as one of its network: no test shows what another one of the same link would.
fn of_network(figure: &Figure, key: &str) -> Figure {
    match figure {
        Figure::Is { value, low, high } => {
            let more = 1.96 * spread(key) * value.abs();
            Figure::Is {
                value: *value,
                low: value - (value - low).hypot(more),
                high: value + (high - value).hypot(more),
            }
        }
        unknown @ Figure::CannotTell { .. } => unknown.clone(),
    }
}

/// Compares networks with the first of them, and their media with the medium of the first.
pub fn compare(networks: &[Network]) -> BeforeAfter {
    let rows: Vec<Vec<Figure>> = networks.iter().map(figures).collect();
    let tests = networks.iter().map(|n| Test {
        medium: n.medium.clone(),
        ..test(&n.name, &n.rounds.iter().collect::<Vec<_>>())
    });
    BeforeAfter {
        media: media(networks, &rows).map(Box::new),
        ..side_by_side(tests.collect(), &rows)
    }
}

/// Figures of a network, in the order of [`FIGURES`].
fn figures(network: &Network) -> Vec<Figure> {
    let all = FIGURES
        .iter()
        .map(|(key, ..)| mean(network.rounds.iter().map(|r| r.figure(key))));
    all.collect()
}

/// Compares the media; `None` if fewer than two are named.
fn media(networks: &[Network], figures: &[Vec<Figure>]) -> Option<BeforeAfter> {
    let mut names: Vec<&String> = Vec::new();
    for medium in networks.iter().filter_map(|n| n.medium.as_ref()) {
        if !names.contains(&medium) {
            names.push(medium);
        }
    }
    if names.len() < 2 {
        return None;
    }
    let of = |name: &String| {
        let all = networks.iter().zip(figures);
        all.filter(|(n, _)| n.medium.as_ref() == Some(name)).unzip()
    };
    let (mut tests, mut rows) = (Vec::new(), Vec::new());
    for name in names {
        let (members, theirs): (Vec<&Network>, Vec<&Vec<Figure>>) = of(name);
        let runs: Vec<&Round> = members.iter().flat_map(|n| &n.rounds).collect();
        tests.push(Test {
            networks: Some(members.len() as u64),
            ..test(name, &runs)
        });
        let figure = |i: usize| mean(theirs.iter().map(|f| f[i].clone()));
        rows.push((0..FIGURES.len()).map(figure).collect());
    }
    let mut found = side_by_side(tests, &rows);
    let is_alone: Vec<bool> = found.tests.iter().map(|t| t.networks == Some(1)).collect();
    for row in &mut found.rows {
        let others = row.changes.iter_mut().zip(&is_alone[1..]);
        for (change, _) in others.filter(|(_, other)| is_alone[0] || **other) {
            *change = Change {
                is: Is::CannotTell,
                difference: Figure::cannot_tell(ONE_NETWORK),
            };
        }
    }
    Some(found)
}

/// Reason why a medium of one network is not compared.
const ONE_NETWORK: &str =
    "one network does not show how much those of its medium differ; two of each medium do";

/// Sets the figures of each test beside those of the first.
fn side_by_side(tests: Vec<Test>, all: &[Vec<Figure>]) -> BeforeAfter {
    let rows = FIGURES
        .iter()
        .enumerate()
        .map(|(i, (key, name, _, more, _))| {
            let figures: Vec<Figure> = all.iter().map(|f| f[i].clone()).collect();
            let of_networks: Vec<Figure> = (figures.iter().enumerate())
                .map(|(k, figure)| match tests.get(k) {
                    Some(test) if test.rounds == 1 => of_network(figure, key),
                    _ => figure.clone(),
                })
                .collect();
            let (first, others) = match of_networks.split_first() {
                Some((first, others)) => (first.clone(), others),
                None => (Figure::cannot_tell("there is no test"), &[][..]),
            };
            Row {
                key: (*key).into(),
                name: (*name).into(),
                changes: others.iter().map(|f| change(&first, f, *more)).collect(),
                figures: figures.into_iter().map(not_negative).collect(),
            }
        });
    BeforeAfter {
        version: VERSION,
        rows: rows.collect(),
        tests,
        media: None,
    }
}

/// Grades that occur, in the order of the runs.
pub(crate) fn grades<'r>(rounds: impl IntoIterator<Item = &'r Round>) -> String {
    let mut grades: Vec<&str> = Vec::new();
    for round in rounds {
        if !grades.contains(&round.grade.as_str()) {
            grades.push(&round.grade);
        }
    }
    grades.join(", ")
}

fn test(name: &str, rounds: &[&Round]) -> Test {
    let first = rounds.first();
    Test {
        name: name.to_owned(),
        medium: None,
        networks: None,
        title: first.map(|a| a.title.clone()).unwrap_or_default(),
        rounds: rounds.len() as u64,
        started_ns: first.map_or(0, |a| a.started_ns),
        grade: grades(rounds.iter().copied()),
        complete: rounds.iter().all(|a| a.complete),
    }
}

/// Mean of several rounds' or networks' figures, with Student's interval. Of one it is its own.
pub(crate) fn mean(rounds: impl Iterator<Item = Figure>) -> Figure {
    let all: Vec<Figure> = rounds.collect();
    if let [only] = &all[..] {
        return only.clone();
    }
    let known: Vec<f64> = all.iter().filter_map(|f| f.value()).collect();
    let n = known.len() as f64;
    if known.len() < 2 {
        let why = all.iter().find_map(|f| match f {
            Figure::CannotTell { cannot_tell } => Some(cannot_tell.clone()),
            Figure::Is { .. } => None,
        });
        return Figure::cannot_tell(why.unwrap_or_else(|| "there is no run".into()));
    }
    let middle = known.iter().sum::<f64>() / n;
    let variance = known.iter().map(|v| (v - middle).powi(2)).sum::<f64>() / (n - 1.0);
    let half = student_t95(n - 1.0) * (variance / n).sqrt();
    Figure::Is {
        value: middle,
        low: middle - half,
        high: middle + half,
    }
}

/// Cuts off the part of an interval below zero, which holds no figure. Changes are told from the whole interval.
pub(crate) fn not_negative(figure: Figure) -> Figure {
    match figure {
        Figure::Is { value, low, high } if value >= 0.0 => Figure::Is {
            value,
            low: low.max(0.0),
            high,
        },
        other => other,
    }
}

/// Change from `a` to `b`.
fn change(a: &Figure, b: &Figure, more_is_better: bool) -> Change {
    let difference = match (a, b) {
        (
            Figure::Is { value, low, high },
            Figure::Is {
                value: v,
                low: l,
                high: h,
            },
        ) => {
            let (below, above) = ((v - l).hypot(high - value), (h - v).hypot(value - low));
            Figure::Is {
                value: v - value,
                low: v - value - below,
                high: v - value + above,
            }
        }
        (Figure::CannotTell { cannot_tell }, _) | (_, Figure::CannotTell { cannot_tell }) => {
            Figure::cannot_tell(cannot_tell.clone())
        }
    };
    let is = match &difference {
        Figure::CannotTell { .. } => Is::CannotTell,
        Figure::Is { low, .. } if *low > 0.0 && more_is_better => Is::Better,
        Figure::Is { high, .. } if *high < 0.0 && !more_is_better => Is::Better,
        Figure::Is { low, high, .. } if *low > 0.0 || *high < 0.0 => Is::Worse,
        Figure::Is { .. } => Is::Same,
    };
    Change { is, difference }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    /// Pairs of samples of 40 normal values: equal means differ by chance in one of twenty pairs, means that are three
    /// standard errors apart nearly always.
    #[test]
    fn a_change_is_told_if_it_is_more_than_chance() {
        let mut wrong = [0; 2];
        let pairs = 2_000;
        for seed in 0..pairs {
            let mut rng = Streams::new(seed).stream("pair");
            let mut sample = |mean: f64| {
                let n = 40;
                let values: Vec<f64> = (0..n)
                    .map(|_| mean + (0..12).map(|_| uniform(&mut rng)).sum::<f64>() - 6.0)
                    .collect();
                let m = values.iter().sum::<f64>() / f64::from(n);
                let var = values.iter().map(|v| (v - m).powi(2)).sum::<f64>() / f64::from(n - 1);
                let half = 1.96 * (var / f64::from(n)).sqrt();
                Figure::Is {
                    value: m,
                    low: m - half,
                    high: m + half,
                }
            };
            let (a, b, c) = (sample(50.0), sample(50.0), sample(51.2));
            wrong[0] += usize::from(change(&a, &b, false).is != Is::Same);
            wrong[1] += usize::from(change(&a, &c, false).is != Is::Worse);
            assert_eq!(
                change(&a, &c, true).is == Is::Better,
                change(&a, &c, false).is == Is::Worse
            );
        }
        let share = |n: usize| n as f64 / pairs as f64;
        assert!((0.03..0.08).contains(&share(wrong[0])), "{wrong:?}");
        assert!(share(wrong[1]) < 0.005, "{wrong:?}");
    }

    /// Rounds that scatter: the interval of their mean holds the truth in 95 of 100 networks, whatever their number.
    #[test]
    fn the_interval_of_rounds_holds_the_truth() {
        for n in [2, 3, 5, 10] {
            let mut held = 0;
            for seed in 0..2_000 {
                let mut rng = Streams::new(seed).stream("rounds");
                let mut round = || {
                    let chance: f64 = (0..12).map(|_| uniform(&mut rng)).sum();
                    Figure::exactly(100.0 + 20.0 * (chance - 6.0))
                };
                let rounds: Vec<Figure> = (0..n).map(|_| round()).collect();
                if let Figure::Is { low, high, .. } = mean(rounds.into_iter()) {
                    held += usize::from((low..high).contains(&100.0));
                }
            }
            let share = held as f64 / 2_000.0;
            assert!((0.935..0.965).contains(&share), "{n} rounds: {share}");
        }
    }

    /// Users saw "212 ms (-2435 to 2859)". Delays of two rounds, with a tail as delays have.
    #[test]
    fn an_interval_of_rounds_does_not_reach_below_zero() {
        for seed in 0..2_000 {
            let mut rng = Streams::new(seed).stream("two rounds");
            let mut round = || Figure::exactly(200.0 * (-uniform(&mut rng).max(1e-9).ln()));
            let figures = [
                mean([round(), round()].into_iter()),
                mean([round(), round()].into_iter()),
            ];
            let rows = figures.each_ref().map(|f| vec![f.clone(); FIGURES.len()]);
            let found = side_by_side(Vec::new(), &rows);
            for (shown, whole) in found.rows[0].figures.iter().zip(&figures) {
                let (Figure::Is { low, value, high }, Figure::Is { low: from, .. }) =
                    (shown, whole)
                else {
                    panic!("seed {seed}: {shown:?}")
                };
                assert!(
                    *low >= 0.0 && low <= value && value <= high,
                    "seed {seed}: {shown:?}"
                );
                assert_eq!(*low, from.max(0.0), "seed {seed}");
            }
            assert_eq!(
                found.rows[0].changes[0],
                change(&figures[0], &figures[1], false),
                "seed {seed}"
            );
        }
    }

    #[test]
    fn one_round_keeps_its_own_interval_and_unknown_rounds_are_left_out() {
        let known = |value: f64| Figure::Is {
            value,
            low: value - 1.0,
            high: value + 1.0,
        };
        let unknown = Figure::cannot_tell("no probes");
        assert_eq!(mean([known(5.0)].into_iter()), known(5.0));
        assert_eq!(mean([known(5.0), unknown.clone()].into_iter()), unknown);
        let both = mean([known(5.0), unknown, known(7.0)].into_iter());
        assert_eq!(both.value(), Some(6.0));
    }

    /// Two tests of one link differ by more than their own intervals. Rounds bring their own spread.
    #[test]
    fn a_single_test_says_less_of_its_network_than_of_itself() {
        let network = |values: &[f64]| {
            let round = |value: &f64| Round {
                title: "t".into(),
                started_ns: 0,
                grade: "A".into(),
                complete: true,
                figures: FIGURES
                    .iter()
                    .map(|(key, ..)| {
                        let figure = Figure::Is {
                            value: *value,
                            low: 0.999 * value,
                            high: 1.001 * value,
                        };
                        ((*key).to_owned(), figure)
                    })
                    .collect(),
            };
            Network {
                name: "n".into(),
                medium: None,
                rounds: values.iter().map(round).collect(),
            }
        };
        let is = |a: &[f64], b: &[f64]| {
            let found = compare(&[network(a), network(b)]);
            found
                .rows
                .iter()
                .map(|row| row.changes[0].is)
                .collect::<Vec<_>>()
        };
        let single = is(&[100.0], &[110.0]);
        assert_eq!(single[..2], [Is::Same, Is::Same]);
        assert_eq!(single[2..4], [Is::Better, Is::Better]);
        assert_eq!(single[5], Is::Same, "responsiveness");
        assert_eq!(is(&[100.0], &[130.0])[0], Is::Worse);
        assert_eq!(
            is(&[99.0, 100.0, 101.0], &[109.0, 110.0, 111.0])[0],
            Is::Worse
        );
    }

    #[test]
    fn what_one_of_them_cannot_tell_is_not_compared() {
        let known = Figure::exactly(5.0);
        let unknown = Figure::cannot_tell("no probes");
        for (a, b) in [(&known, &unknown), (&unknown, &known)] {
            let found = change(a, b, true);
            assert_eq!(found.is, Is::CannotTell);
            assert_eq!(found.difference, unknown);
        }
        assert_eq!(change(&known, &known, true).is, Is::Same);
    }
}
