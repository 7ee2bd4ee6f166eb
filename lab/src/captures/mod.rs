//! `tailback trace` over captures of drawn transfers, judged against what the simulator knows.
//!
//! `cargo run --release -p lab -- capture-draws --seed 1 --count 200`

mod family;
mod judge;
mod offload;
mod page;
mod raw;
mod senders;
mod taken;
mod truth;

use crate::asked::Asked;
use crate::draws::judge::Judged;
use anyhow::{Context, bail};
use family::Draw;
use senders::Sender;
use sim::capture::{self, Capture};
use sim::plan::End;
use sim::run::began_ns;
use sim::{Draft, plan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use truth::Truth;

/// Port of the first connection in a capture of the simulator.
const FIRST_PORT: u16 = 50_000;

/// Arguments of `capture-draws`.
#[derive(clap::Args)]
#[command(about = "Read captures of random transfers whose truth is known, and judge each figure")]
pub struct Args {
    #[command(flatten)]
    asked: Asked,
    /// Keep the captures, and the waits of their packets, in this directory
    #[arg(long)]
    keep: Option<PathBuf>,
}

/// A draw and what was said of it.
struct Outcome {
    draw: Draw,
    judged: Vec<Judged>,
}

/// Simulates a draw; returns its capture and the waits of its packets.
fn simulate(draw: &Draw) -> anyhow::Result<(Vec<u8>, Truth)> {
    let scenario = Draft::new(&draw.scenario)?.finish()?;
    let mut plan = plan::build(&scenario, 1)?;
    let point = capture::find(&scenario, draw.point)?;
    let capture = Capture::new(
        &scenario,
        &mut plan,
        1,
        taken::SNAPLEN,
        vec![(point, Vec::new())],
    )?;
    let (mut flows, mut senders) = (BTreeMap::new(), Vec::new());
    let left = plan.flows[0].hosts.0.min(plan.flows[0].hosts.1);
    // Ports as captures number them: those of the first connections of all flows, then of their others.
    let mut others = plan.flows.len()..;
    for (number, instance) in plan.flows.iter().enumerate() {
        let End::Tcp(application) = instance.end else {
            bail!("a flow without TCP");
        };
        for (channel, k) in plan.network.host(application).channels().iter().enumerate() {
            let place = match channel {
                0 => number,
                _ => others.next().context("no more ports")?,
            };
            if instance.group >= draw.captured {
                continue;
            }
            let connection = &plan.network.connections[*k];
            let way = usize::from(connection.is_back() != (instance.hosts.0 != left));
            let flow = connection.flow().0;
            flows.insert(flow, (way, true));
            flows.insert(connection.back_flow().0, (1 - way, false));
            let port = FIRST_PORT + u16::try_from(place)?;
            senders.push(Sender::new(*k, flow, way, port));
        }
    }
    let mut both = (Truth::new(draw, senders, flows), capture);
    let (mut now, end) = (base::Time::ZERO, base::Time::ZERO + scenario.duration);
    while now < end {
        now = (now + senders::STEP).min(end);
        plan.network.run_until(now, &mut both);
        both.0.look(now, &plan.network.connections);
    }
    let mut packets = raw::read(&both.1.finish()?.remove(0))?;
    if let Some(host) = draw.offload {
        packets = offload::joined(packets, host);
    }
    let packets = draw.taken.kept(packets, began_ns(&scenario));
    Ok((raw::write(&packets)?, both.0))
}

/// Reads a capture as a user would, and judges what is said.
fn outcome(seed: u64, number: u64, keep: Option<&Path>) -> anyhow::Result<Outcome> {
    let draw = family::draw(seed, number);
    let (file, truth) = simulate(&draw).with_context(|| format!("capture {number}"))?;
    let scratch = testkit::TempDir::new("capture");
    let folder = keep.unwrap_or(&scratch);
    let path = folder.join(format!("{number}.pcapng"));
    std::fs::write(&path, file).with_context(|| path.display().to_string())?;
    let plan = ops::trace::Plan {
        files: vec![path],
        ..ops::trace::Plan::default()
    };
    let mut said = Vec::new();
    ops::trace::run(&plan, &mut ())?.json(&mut said)?;
    if keep.is_some() {
        let path = folder.join(format!("{number}.tsv"));
        std::fs::write(&path, truth.table()).with_context(|| path.display().to_string())?;
    }
    let judged = judge::all(&draw, &truth, &serde_json::from_slice(&said)?);
    Ok(Outcome { draw, judged })
}

/// Reads the captures that are asked for.
///
/// # Errors
/// A capture that cannot be made or read, a page that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    if let Some(folder) = &args.keep {
        std::fs::create_dir_all(folder).with_context(|| folder.display().to_string())?;
    }
    let asked = &args.asked;
    let all = asked.each(|number| outcome(asked.seed, number, args.keep.as_deref()))?;
    if asked.only.is_some() {
        println!("{}{:?}", all[0].draw.scenario, all[0].draw.taken);
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
    fn figures_of_random_captures_are_right_and_their_intervals_hold_the_truth() {
        let seed = 2026;
        let outcomes = (0..160).map(|number| outcome(seed, number, None).unwrap());
        let judged: Vec<Judged> = outcomes.flat_map(|o| o.judged).collect();
        let count = |of: &dyn Fn(&Judged) -> bool| judged.iter().filter(|j| of(j)).count();
        let wrong: Vec<&Judged> = (judged.iter())
            .filter(|j| j.verdict == Verdict::Wrong)
            .collect();
        let right = count(&|j| j.verdict == Verdict::Right);
        assert!(wrong.len() * 20 <= judged.len(), "seed {seed}: {wrong:#?}");
        assert!(right * 3 >= judged.len() * 2, "{right} of {}", judged.len());
        let (intervals, hold) = (
            count(&|j| j.covered.is_some()),
            count(&|j| j.covered == Some(true)),
        );
        assert!(hold * 100 >= intervals * 93, "{hold} of {intervals}");
    }

    #[test]
    fn a_seed_draws_every_place_and_kind() {
        let draws: Vec<Draw> = (0..200).map(|n| family::draw(5, n)).collect();
        let points: BTreeSet<_> = draws.iter().map(|d| d.point).collect();
        let families: BTreeSet<_> = draws.iter().map(|d| d.family).collect();
        assert_eq!((points.len(), families.len()), (3, family::FAMILIES.len()));
        let stamped = draws.iter().filter(|d| d.stamped).count();
        assert!((120..190).contains(&stamped), "{stamped}");
    }
}
