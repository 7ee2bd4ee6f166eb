//! Draws in virtual time.

use crate::draws::family::{Draw, Kind};
use crate::draws::judge::judge;
use crate::draws::results::{Result, describe};
use crate::draws::truth::{in_virtual_time, truth};
use analysis::answer::Answer;
use anyhow::Context;
use base::record::Recording;
use sim::bufferbloat::{Plan, Seen, run};

pub fn plan(draw: &Draw) -> Plan {
    let mut plan = Plan::new(draw.link.clone(), draw.seed);
    plan.hosts = draw.hosts;
    plan.cross.clone_from(&draw.cross);
    plan.tcp.burst = draw.burst;
    plan
}

fn answer(draw: &Draw) -> anyhow::Result<(Answer, Recording, Seen)> {
    let outcome = run(&plan(draw))?;
    let answer = analysis::analyse_test(&outcome.recording, &analysis::Options::default())?;
    Ok((answer, outcome.recording, outcome.seen))
}

/// # Errors
/// A draw that cannot be run.
pub fn result(draw: &Draw) -> anyhow::Result<Result> {
    let began = std::time::Instant::now();
    let (answer, _, seen) = answer(draw).with_context(|| format!("draw {}", draw.number))?;
    let truth = truth(draw, in_virtual_time(draw, &seen));
    Ok(Result {
        number: draw.number,
        kind: Kind::Virtual,
        doubt: false,
        complete: true,
        family: draw.family,
        link: describe(draw),
        judged: judge(&answer, &truth),
        took_s: began.elapsed().as_secs_f64(),
        lasted_s: answer.duration_s,
    })
}

/// Runs one draw and prints all that is known of it.
///
/// # Errors
/// A draw that cannot be run.
pub fn one(draw: &Draw) -> anyhow::Result<()> {
    let (answer, recording, seen) = answer(draw)?;
    let truth = truth(draw, in_virtual_time(draw, &seen));
    println!(
        "draw {} ({}): {}",
        draw.number,
        draw.family.name(),
        describe(draw)
    );
    for t in [&truth.up, &truth.down] {
        println!("{}: {t:?}", t.direction);
    }
    print!(
        "{}",
        report::terminal::text(
            &answer,
            &recording,
            report::terminal::Style {
                width: 110,
                colour: false,
                unicode: true
            }
        )
    );
    for d in [&answer.up, &answer.down] {
        println!("{:?}", d.discipline);
    }
    for e in recording
        .event
        .iter()
        .filter(|e| matches!(&*e.kind, "phase_end" | "held_back" | "doubt" | "train"))
    {
        println!(
            "{:.1} s {} {}: {}",
            (e.t_ns - recording.meta.started_ns) as f64 / 1e9,
            e.kind,
            e.subject,
            e.detail
        );
    }
    for j in judge(&answer, &truth) {
        println!(
            "{:?} {} {}: said {}; truth {}",
            j.verdict,
            j.figure,
            j.direction.map_or("", |d| d.word()),
            j.said,
            j.truth
        );
    }
    Ok(())
}
