//! Statistics of monitors over drawn links, judged against the law of each link.
//!
//! `cargo run --release -p lab -- monitor-draws --seed 1 --count 400`

mod course;
mod family;
mod judge;
mod page;

use crate::asked::Asked;
use crate::chance::Chance;
use crate::draws::judge::Judged;
use analysis::series::{Cuts, Outline, Plan, Probe, Series};
use analysis::statistics::TargetStatistics;
use analysis::survey::{Request, Span, target};
use anyhow::Context;
use base::record::Status;
use course::{Fate, fates};
use family::Draw;

/// Lengths of a recording in the course that tells the law of its link.
const LAW: usize = 60;
/// Probes of that course.
const MOST: usize = 4_000_000;
const DAY_NS: i64 = 86_400_000_000_000;
/// Limits of reliability.
const LIMITS_NS: [i64; 3] = [30_000_000, 100_000_000, 200_000_000];

/// Arguments of `monitor-draws`.
#[derive(clap::Args)]
#[command(about = "Analyse monitors of random links whose law is known, and judge each figure")]
pub struct Args {
    #[command(flatten)]
    asked: Asked,
}

/// A draw and what was said of it.
struct Outcome {
    draw: Draw,
    judged: Vec<Judged>,
}

/// Statistics of probes with these fates.
fn analysed(fates: &[Fate], draw: &Draw, parts: bool) -> anyhow::Result<TargetStatistics> {
    let interval_s = draw.interval_s;
    let interval_ns = (interval_s * 1e9) as i64;
    let sent = || (fates.iter().enumerate()).filter(|(_, f)| **f != Fate::NotSent);
    let mut outline = Outline::default();
    sent().for_each(|(i, _)| outline.add(i as i64 * interval_ns));
    let length_ns = fates.len() as i64 * interval_ns;
    let at = |slot: usize| slot as i64 * interval_ns;
    let (from, probes) = draw.span;
    let spans = Vec::from_iter(parts.then(|| Span {
        name: "span".into(),
        from_ns: at(from),
        to_ns: at(from + probes),
    }));
    let width = if parts { draw.window } else { fates.len() };
    let windows = (0..fates.len() / width).map(|i| Span {
        name: format!("window {i}"),
        from_ns: at(i * width),
        to_ns: at((i + 1) * width),
    });
    let cuts = Cuts {
        window_ns: parts.then_some(at(width)),
        edges: spans.iter().flat_map(|s| [s.from_ns, s.to_ns]).collect(),
        days: (0..=length_ns / DAY_NS + 1).map(|d| d * DAY_NS).collect(),
        limits_ns: LIMITS_NS.to_vec(),
        ..Cuts::default()
    };
    let plan = Plan::new(&outline, cuts).context("no probes")?;
    let mut series = Series::new(plan);
    for (i, fate) in sent() {
        let rtt_ns = match fate {
            Fate::Answered(ms) => Some((ms * 1e6) as i64),
            _ => None,
        };
        series.add(Probe {
            sent_ns: i as i64 * interval_ns,
            rtt_ns,
            status: match rtt_ns {
                Some(_) => Status::Ok,
                None => Status::Lost,
            },
        });
    }
    series.finish(1);
    let request = Request {
        limits_ns: LIMITS_NS.to_vec(),
        sliding_ns: 600_000_000_000,
        matched: true,
        windows: windows.collect(),
        spans,
        ..Request::default()
    };
    Ok(target("udp", &series, &request))
}

/// Draws a monitor, analyses it as a user would, and judges what is said.
fn outcome(seed: u64, number: u64) -> anyhow::Result<Outcome> {
    let draw = family::draw(seed, number);
    let course = |name: &str, probes: usize| {
        let chance = Chance::new(seed, &format!("{name} {number}"));
        fates(draw.link, draw.interval_s, chance, probes, &draw.events)
    };
    let met = course("course", draw.probes);
    let said = analysed(&met, &draw, true)?;
    let lost: Vec<bool> = met.iter().map(|f| *f == Fate::Lost).collect();
    let mut judged = judge::events(&draw, &lost, &said);
    if draw.events.is_empty() {
        let long = (draw.probes * LAW).min(MOST);
        let law = analysed(&course("law", long), &draw, false)?;
        judged.extend(judge::figures(&said, &law));
        judged.extend(judge::stretches(&draw.link, &said, &law.whole));
        let again = analysed(&course("again", draw.probes), &draw, false)?;
        judged.extend(judge::differences([&said.whole, &again.whole]));
    }
    Ok(Outcome { draw, judged })
}

/// Analyses the monitors that are asked for.
///
/// # Errors
/// A page that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let asked = &args.asked;
    let all = asked.each(|number| outcome(asked.seed, number))?;
    if asked.only.is_some() {
        println!("{}\n{:?}", all[0].draw.told(), all[0].draw.events);
    }
    let text = page::text(asked.seed, &all);
    asked.tell(include_str!("page.md"), &text, &page::list(&all))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::draws::judge::Verdict;
    use std::collections::BTreeSet;

    #[test]
    fn figures_of_random_monitors_are_right_and_their_intervals_hold_the_law() {
        let seed = 2027;
        let outcomes = (0..120).map(|number| outcome(seed, number).unwrap());
        let judged: Vec<Judged> = outcomes.flat_map(|o| o.judged).collect();
        let wrong: Vec<&Judged> = (judged.iter())
            .filter(|j| j.verdict == Verdict::Wrong)
            .collect();
        assert!(wrong.len() * 50 <= judged.len(), "seed {seed}: {wrong:#?}");
        let share = |of: &dyn Fn(&Judged) -> bool| {
            let intervals = judged.iter().filter(|j| j.covered.is_some() && of(j));
            let (mut hold, mut all) = (0, 0);
            for j in intervals {
                all += 1;
                hold += usize::from(j.covered == Some(true));
            }
            (hold, all)
        };
        let (hold, all) = share(&|_| true);
        assert!(hold * 100 >= all * 95, "{hold} of {all}");
        for stretch in ["95 % in a window", "95 % in a span"] {
            let (hold, all) = share(&|j| j.figure == stretch);
            assert!(
                all > 30 && hold * 100 >= all * 90,
                "{stretch}: {hold} of {all}"
            );
        }
        // No event of the host is taken for one of the network.
        let holes = |j: &&&Judged| matches!(j.figure, "outages" | "gaps" | "availability");
        assert_eq!(wrong.iter().filter(holes).count(), 0, "{wrong:#?}");
    }

    #[test]
    fn a_seed_draws_every_law_and_change() {
        let draws: Vec<Draw> = (0..200).map(|n| family::draw(5, n)).collect();
        let laws: BTreeSet<_> = draws.iter().map(|d| d.family).collect();
        assert_eq!(laws.len(), family::FAMILIES.len());
        let changes = draws.iter().flat_map(|d| &d.events);
        let kinds: BTreeSet<_> = changes
            .map(|e| match e.change {
                family::Change::Outage => 0,
                family::Change::Path { .. } => 1,
                family::Change::Queue { .. } => 2,
                family::Change::Gap => 3,
            })
            .collect();
        assert_eq!(kinds.len(), 4);
    }
}
