//! Each figure of an answer beside the truth: right, cannot tell, or wrong.
//!
//! **Tolerances.** A rate within 5 %; a delay or a queue within 10 %, one full packet or 1 ms; and any figure whose 95 %
//! interval holds the truth and is no wider than 25 % to either side. A bound is wrong where it exceeds the truth.

use crate::draws::truth::{Class, DirectionTruth, Truth};
use analysis::answer::{Answer, DirectionAnswer, Discipline, QueueIs};
use base::record::Direction;
use stats::Figure;
use std::fmt;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Verdict {
    Right,
    CannotTell,
    Wrong,
}

#[derive(Clone, Debug)]
pub struct Judged {
    pub figure: &'static str,
    pub direction: Option<Direction>,
    pub verdict: Verdict,
    pub said: String,
    pub truth: String,
    /// True if the 95 % interval holds the truth; none where there is no interval, or no single truth.
    pub covered: Option<bool>,
}

/// The figures in the order of the tables.
pub const FIGURES: &[&str] = &[
    "base RTT",
    "link rate",
    "queue ms",
    "queue bytes",
    "discipline",
    "added p95",
    "grade",
    "cross traffic",
    "advice",
];

/// Range in which a truth may lie.
#[derive(Clone, Copy)]
struct Range {
    low: f64,
    high: f64,
    share: f64,
    slack: f64,
}

impl Range {
    fn one(value: f64, share: f64, slack: f64) -> Range {
        Range {
            low: value,
            high: value,
            share,
            slack,
        }
    }

    fn near(&self, value: f64) -> bool {
        let below = self.low - (self.low * self.share).max(self.slack);
        let above = self.high + (self.high * self.share).max(self.slack);
        (below..=above).contains(&value)
    }

    fn held(&self, low: f64, high: f64) -> bool {
        low <= self.high && self.low <= high
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.low == self.high {
            true => write!(f, "{:.4}", self.low),
            false => write!(f, "{:.4} to {:.4}", self.low, self.high),
        }
    }
}

fn said(figure: &Figure) -> String {
    match figure {
        Figure::Is { value, low, high } => format!("{value:.4} ({low:.4} to {high:.4})"),
        Figure::CannotTell { cannot_tell } => format!("cannot tell: {cannot_tell}"),
    }
}

fn verdict(figure: &Figure, range: Range) -> (Verdict, Option<bool>) {
    let Figure::Is { value, low, high } = figure else {
        return (Verdict::CannotTell, None);
    };
    let narrow = (high - value).max(value - low) <= 0.25 * value.abs();
    let held = range.held(*low, *high);
    let right = range.near(*value) || (narrow && held);
    let covered = (range.low == range.high).then_some(held);
    (
        if right {
            Verdict::Right
        } else {
            Verdict::Wrong
        },
        covered,
    )
}

fn judged(
    figure: &'static str,
    direction: Option<Direction>,
    claim: &Figure,
    range: Range,
) -> Judged {
    let (verdict, covered) = verdict(claim, range);
    Judged {
        figure,
        direction,
        verdict,
        said: said(claim),
        truth: range.to_string(),
        covered,
    }
}

pub fn judge(answer: &Answer, truth: &Truth) -> Vec<Judged> {
    let (low, high) = truth.base_ms;
    let varies = truth.up.varies() || truth.down.varies();
    let exact = !varies && high - low < 0.02 * low + 0.2;
    let base = match exact {
        // What is left are hosts' stamps.
        true => Range::one(low, 0.10, 1.0),
        false => Range {
            low,
            high,
            share: 0.10,
            slack: 1.0,
        },
    };
    let mut all = vec![judged("base RTT", None, &answer.base_rtt_ms, base)];
    for (claim, t) in [(&answer.up, &truth.up), (&answer.down, &truth.down)] {
        let rate = Range::one(t.rate, 0.05, 0.0);
        all.push(judged(
            "link rate",
            Some(t.direction),
            &claim.link_rate_bps,
            rate,
        ));
        all.push(queue(claim, t, false));
        all.push(queue(claim, t, true));
        all.push(discipline(claim, t));
        all.extend(added(claim, t));
    }
    all.extend(grade(answer, truth));
    all.push(cross(answer, truth));
    for t in [&truth.up, &truth.down] {
        all.extend(advice(answer, t));
    }
    all
}

/// The queue's size, the bound of it, or what a law lets it grow to.
fn queue(claim: &DirectionAnswer, t: &DirectionTruth, in_bytes: bool) -> Judged {
    let (name, figure) = match in_bytes {
        false => ("queue ms", &claim.queue_ms),
        true => ("queue bytes", &claim.queue_bytes),
    };
    let scale = if in_bytes { t.rate / 8e3 } else { 1.0 };
    let slack = t.packet_ms().max(1.0) * scale;
    let mut j = match claim.queue_is {
        QueueIs::Size => size(name, figure, t, in_bytes, slack),
        QueueIs::Controlled => {
            let range = Range {
                low: t.saw.median_load_ms * scale,
                high: t.saw.most_ms * scale,
                share: 0.10,
                slack,
            };
            let mut j = judged(name, Some(t.direction), figure, range);
            j.covered = None;
            if t.class == Class::DropTail && !mostly_by_law(t) && j.verdict == Verdict::Right {
                // A plain queue is kept short by nobody; what it holds is its size.
                let whole = t.limit_bytes / t.rate * 8e3 * scale;
                if !Range::one(whole, 0.10, slack).near(figure.value().unwrap_or(0.0)) {
                    j.verdict = Verdict::Wrong;
                    j.truth = format!("drop-tail of {whole:.4}");
                }
            }
            j
        }
        QueueIs::AtLeast => bound(name, figure, t, in_bytes, slack),
    };
    j.said = format!("{:?} {}", claim.queue_is, j.said);
    j
}

fn mostly_by_law(t: &DirectionTruth) -> bool {
    t.saw.dropped_by_law > 9 * t.saw.dropped_full
}

/// True if at least a tenth of the drops happened because the queue was full.
fn met_its_end(t: &DirectionTruth) -> bool {
    t.saw.dropped_full > 0 && t.saw.dropped_full * 9 >= t.saw.dropped_by_law
}

fn size(
    name: &'static str,
    figure: &Figure,
    t: &DirectionTruth,
    in_bytes: bool,
    slack: f64,
) -> Judged {
    let full = (t.limit_bytes / 1500.0).floor() * 1500.0;
    // Small packets may use what is left of a limit in bytes.
    let rest = match t.class {
        Class::Policer => 0.0,
        _ => t.limit_bytes - full,
    };
    let bytes = match t.queue_bytes {
        Some(bytes) => bytes,
        // The limit of a law's queue was met as well, so it has a size.
        None if met_its_end(t) => full,
        None => {
            let mut j = judged(name, Some(t.direction), figure, Range::one(0.0, 0.0, 0.0));
            j.truth = format!("no size: {:?}", t.class);
            j.covered = None;
            return j;
        }
    };
    let range = match (in_bytes, t.varies()) {
        (true, _) => Range {
            low: bytes,
            high: bytes + rest,
            share: 0.10,
            slack,
        },
        (false, _) => Range {
            low: bytes * 8e3 / t.rate_high,
            high: (bytes + rest) * 8e3 / t.rate_low,
            share: 0.10,
            slack,
        },
    };
    let mut j = judged(name, Some(t.direction), figure, range);
    if t.varies() && !in_bytes {
        j.covered = None;
    } else if let Figure::Is { low, high, .. } = figure {
        j.covered = Some(range.held(*low, *high));
    }
    j
}

fn bound(
    name: &'static str,
    figure: &Figure,
    t: &DirectionTruth,
    in_bytes: bool,
    slack: f64,
) -> Judged {
    // A packet waits for what is left of the one in transmission, too.
    let most_ms = ((t.limit_bytes + 1500.0) * 8e3 / t.rate_low).max(t.saw.most_ms);
    let truth = if in_bytes { t.limit_bytes } else { most_ms };
    // A host's stamps are not exact to less than a millisecond.
    let over = match in_bytes {
        true => slack.min(0.10 * truth),
        false => slack.min((0.10 * truth).max(1.0)),
    };
    let verdict = match figure.value() {
        None => Verdict::CannotTell,
        Some(v) if v > truth + over => Verdict::Wrong,
        Some(v) if v >= truth / 2.0 => Verdict::Right,
        Some(_) => Verdict::CannotTell,
    };
    Judged {
        figure: name,
        direction: Some(t.direction),
        verdict,
        said: said(figure),
        truth: format!("at most {truth:.4}"),
        covered: None,
    }
}

fn discipline(claim: &DirectionAnswer, t: &DirectionTruth) -> Judged {
    let right = match (claim.discipline.is, t.class) {
        (Discipline::CannotTell, _) => None,
        (Discipline::DropTail, Class::DropTail) => Some(true),
        // The law's own limit was met before, or beside it.
        (Discipline::DropTail, Class::Aqm) => Some(met_its_end(t)),
        (Discipline::Aqm, Class::Aqm) => Some(true),
        (Discipline::Policer, Class::Policer) => Some(true),
        (Discipline::FairQueueingAqm | Discipline::FairQueueing, Class::FairAqm) => Some(true),
        _ => Some(false),
    };
    Judged {
        figure: "discipline",
        direction: Some(t.direction),
        verdict: match right {
            None => Verdict::CannotTell,
            Some(true) => Verdict::Right,
            Some(false) => Verdict::Wrong,
        },
        said: format!("{:?}", claim.discipline.is),
        truth: format!(
            "{:?}, dropped {} full, {} by law",
            t.class, t.saw.dropped_full, t.saw.dropped_by_law
        ),
        covered: None,
    }
}

/// None where nobody saw what the probes waited.
fn added(claim: &DirectionAnswer, t: &DirectionTruth) -> Option<Judged> {
    let (queue, all) = t.saw.probe_p95_ms?;
    let range = Range {
        low: queue.min(all),
        high: all.max(queue),
        share: 0.10,
        slack: t.packet_ms().max(1.0),
    };
    let mut j = judged("added p95", Some(t.direction), &claim.added.p95_ms, range);
    j.covered = None;
    Some(j)
}

/// The delay that decides a direction's grade: what the load met, or, where it did not fill the link, what it would meet.
/// None where nobody saw what the probes waited.
fn graded(t: &DirectionTruth) -> Option<(f64, bool)> {
    let met = t.saw.graded_ms?;
    Some(match (t.filled(), t.queue_ms()) {
        (false, Some(full)) if full > met => (full, false),
        _ => (met, true),
    })
}

fn grade(answer: &Answer, truth: &Truth) -> Option<Judged> {
    let (up, down) = (graded(&truth.up)?, graded(&truth.down)?);
    let (worst, t) = if up.0 > down.0 {
        (up, &truth.up)
    } else {
        (down, &truth.down)
    };
    let slack = (worst.0 * 0.10).max(1.0).max(t.packet_ms());
    let letters: Vec<&str> = [worst.0 - slack, worst.0, worst.0 + slack]
        .map(analysis::grade::letter)
        .to_vec();
    let letter = answer.grade.letter.as_str();
    let verdict = match letter {
        "?" => Verdict::CannotTell,
        l if letters.contains(&l) => Verdict::Right,
        // Between the end letters lies one more where a step is short.
        l if between(l, letters[0], letters[2]) => Verdict::Right,
        _ => Verdict::Wrong,
    };
    Some(Judged {
        figure: "grade",
        direction: None,
        verdict,
        said: format!("{letter} ({})", said(&answer.grade.added_ms)),
        truth: format!(
            "{} ({:.1} ms {}{})",
            letters[1],
            worst.0,
            t.direction,
            if worst.1 {
                ""
            } else {
                ", were the link filled"
            }
        ),
        covered: None,
    })
}

fn between(letter: &str, first: &str, last: &str) -> bool {
    const ORDER: [&str; 6] = ["A+", "A", "B", "C", "D", "F"];
    let at = |l: &str| ORDER.iter().position(|o| *o == l);
    matches!((at(letter), at(first), at(last)), (Some(l), Some(a), Some(z)) if a <= l && l <= z)
}

fn cross(answer: &Answer, truth: &Truth) -> Judged {
    let told = (answer.phases.iter())
        .filter_map(|p| p.cross_traffic_bps)
        .fold(0.0, f64::max);
    let verdict = match (told > 0.0, truth.cross, truth.cross_here) {
        (true, false, _) => Verdict::Wrong,
        (true, true, _) | (false, false, _) => Verdict::Right,
        // Nobody on this host can see what another host sends.
        (false, true, _) => Verdict::CannotTell,
    };
    Judged {
        figure: "cross traffic",
        direction: None,
        verdict,
        said: format!("{told:.0} bit/s"),
        truth: match (truth.cross, truth.cross_here) {
            (false, _) => "none".into(),
            (true, true) => "some, on this host's interface".into(),
            (true, false) => "some, of another host".into(),
        },
        covered: None,
    }
}

/// Rate of the shaper that is advised for a direction, bit/s.
fn shaper(answer: &Answer, direction: Direction) -> Option<f64> {
    let name = match direction {
        Direction::Up => "UP_KBIT=",
        Direction::Down => "DOWN_KBIT=",
    };
    let mut scripts = answer.advice.iter().filter_map(|a| a.script.as_ref());
    let set = scripts.find_map(|s| s.text.lines().find_map(|l| l.strip_prefix(name)))?;
    let kbit: String = set.chars().take_while(char::is_ascii_digit).collect();
    // 0 leaves a direction unshaped.
    let kbit = kbit.parse::<f64>().ok().filter(|k| *k > 0.0)?;
    Some(kbit * 1e3)
}

/// A fixed shaper is right where load adds a delay that is noticed and the rate is fixed; its rate is below the link's.
fn advice(answer: &Answer, t: &DirectionTruth) -> Option<Judged> {
    let (met, filled) = graded(t)?;
    let limit = 30f64.max(2.5 * t.packet_ms());
    let slack = (limit * 0.15).max(t.packet_ms()).max(1.0);
    let told = shaper(answer, t.direction);
    let varies = t.rate_high > 1.15 * t.rate_low;
    let bloat = met > limit + slack;
    let none = met < limit - slack;
    let verdict = match told {
        // Below the lowest rate a fixed shaper cures a varying link, too.
        Some(rate) if varies && (rate > t.rate_low || rate < 0.6 * t.rate_low) => Verdict::Wrong,
        Some(_) if none => Verdict::Wrong,
        Some(_) if varies => Verdict::Right,
        Some(rate) if (0.75..=1.0).contains(&(rate / t.rate)) => Verdict::Right,
        Some(_) => Verdict::Wrong,
        None if bloat && !varies && filled => Verdict::CannotTell,
        None if bloat && !filled => Verdict::CannotTell,
        None => Verdict::Right,
    };
    Some(Judged {
        figure: "advice",
        direction: Some(t.direction),
        verdict,
        said: told.map_or("no shaper".into(), |r| format!("shaper of {r:.0} bit/s")),
        truth: format!(
            "{met:.1} ms added{}, rate {:.0}{}",
            if filled { "" } else { " were the link filled" },
            t.rate,
            match varies {
                true => format!(", from {:.0}", t.rate_low),
                false => String::new(),
            }
        ),
        covered: None,
    })
}
