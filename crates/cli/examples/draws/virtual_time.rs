//! Draws in virtual time.

use crate::family::{Draw, Family, Kind, draw};
use crate::judge::{Judged, judge};
use crate::truth::truth;
use analysis::answer::Answer;
use anyhow::Context;
use base::record::Recording;
use sim::bufferbloat::{Decide, Plan, Seen, run};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

/// A draw with what was said of it.
pub struct Result {
    pub number: u64,
    pub family: Family,
    /// The link in a line.
    pub link: String,
    pub judged: Vec<Judged>,
    /// Time that the run took, s.
    pub took_s: f64,
    /// Simulated or real duration of the test, s.
    pub lasted_s: f64,
}

/// The decisions of the real test.
struct Analysis;

impl Decide for Analysis {
    fn stable(&mut self, so_far: &Recording, phase: &str, now_ns: i64) -> (bool, String) {
        let s = analysis::stable(so_far, phase, now_ns);
        (s.stable, s.why)
    }
}

pub fn plan(draw: &Draw) -> Plan {
    let mut plan = Plan::new(draw.link.clone(), draw.seed);
    plan.hosts = draw.hosts;
    plan.cross.clone_from(&draw.cross);
    plan.tcp.burst = draw.burst;
    plan
}

fn answer(draw: &Draw) -> anyhow::Result<(Answer, Recording, Seen)> {
    let outcome = run(&plan(draw), &mut Analysis)?;
    let answer = analysis::analyse_test(&outcome.recording, &analysis::Options::default())?;
    Ok((answer, outcome.recording, outcome.seen))
}

pub fn describe(draw: &Draw) -> String {
    let direction = |d: &link::DirectionSpec| {
        let rate = match &d.rate {
            link::RateSpec::Fixed(r) => format!("{r:.3}"),
            link::RateSpec::Steps { steps, .. } => {
                format!("{} steps from {:.3}", steps.len(), steps[0].rate)
            }
            _ => "opportunities".into(),
        };
        let mut parts = vec![rate, d.queue.to_string(), format!("{:.3}", d.delay)];
        parts.extend(d.jitter.as_ref().map(|j| format!("jitter {j}")));
        parts.extend(d.loss.as_ref().map(|l| format!("loss {l}")));
        parts.extend(d.reorder.as_ref().map(|r| format!("reorder {r}")));
        parts.join(" ")
    };
    let mut text = format!(
        "up {} | down {}",
        direction(&draw.link.up),
        direction(&draw.link.down)
    );
    for (name, l) in ["up", "down"].iter().zip(&draw.hosts.limits) {
        if let Some(w) = l.receive_window {
            text += &format!(" | {name} window {w:.3}");
        }
        if let Some(r) = l.application {
            text += &format!(" | {name} application {r:.3}");
        }
        if let Some(r) = l.reader {
            text += &format!(" | {name} reader {r:.3}");
        }
    }
    for x in &draw.cross {
        let whose = if x.here { "here" } else { "elsewhere" };
        text += &format!(" | cross {} {:.3} {whose}", x.direction, x.rate);
    }
    text
}

/// # Errors
/// A draw that cannot be run.
pub fn result(draw: &Draw) -> anyhow::Result<Result> {
    let began = std::time::Instant::now();
    let (answer, _, seen) = answer(draw).with_context(|| format!("draw {}", draw.number))?;
    let truth = truth(draw, &seen);
    Ok(Result {
        number: draw.number,
        family: draw.family,
        link: describe(draw),
        judged: judge(&answer, &truth),
        took_s: began.elapsed().as_secs_f64(),
        lasted_s: answer.duration_s,
    })
}

/// # Errors
/// A draw that cannot be run.
pub fn many(seed: u64, count: u64, threads: usize) -> anyhow::Result<Vec<Result>> {
    let next = AtomicU64::new(0);
    let done: Mutex<Vec<anyhow::Result<Result>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= count {
                        break;
                    }
                    let one = result(&draw(seed, number, Kind::Virtual));
                    done.lock().expect("no holder panicked").push(one);
                }
            });
        }
    });
    let mut all = done
        .into_inner()
        .expect("no holder panicked")
        .into_iter()
        .collect::<anyhow::Result<Vec<Result>>>()?;
    all.sort_by_key(|r| r.number);
    Ok(all)
}

/// Runs one draw and prints all that is known of it.
///
/// # Errors
/// A draw that cannot be run.
pub fn one(draw: &Draw) -> anyhow::Result<()> {
    let (answer, recording, seen) = answer(draw)?;
    let truth = truth(draw, &seen);
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
