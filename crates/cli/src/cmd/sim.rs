//! `tailback sim`: packets, queues and TCP in virtual time.

mod output;
mod table;

use super::{print, usage};
use crate::Outcome;
use crate::link_arg::files_beside;
use anyhow::Context;
use indicatif::{HumanDuration, ProgressBar, ProgressState, ProgressStyle};
use sim::batch::{Job, estimates, run_all};
use sim::{Draft, Scenario};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(clap::Args)]
#[command(
    about = "Simulate a scenario, packet by packet, in virtual time",
    long_about = "Simulates a scenario, packet by packet, in virtual time: any queue discipline, any congestion controller, \
        any number of flows: bulk TCP, web pages, sessions, video, calls, probes. The same seed gives the same result, on any number of cores.",
    after_help = "Examples:\n  tailback sim scenarios/dumbbell.toml\n  \
        tailback sim scenarios/dumbbell.toml --set link.rate='2 Mbit/s' --set flow.0.count=4\n  \
        tailback sim scenarios/dumbbell.toml --sweep link.queue='fifo;codel;pie' --seeds 15\n  \
        tailback sim scenarios/dumbbell.toml -o run.rec\n  \
        tailback sim scenarios/dumbbell.toml --pcap link=bottleneck.pcapng --pcap s0=sender.pcapng --pcap d0=receiver.pcapng\n  \
        tailback sim scenarios/evening.toml --sweep link.queue='fifo:bytes=37625;fq_codel'\n\n\
        A scenario has a duration, [link] and at least one [[flow]] with a kind; --print shows the rest.\n\
        To choose from: tailback list sources, disciplines, controllers. Every key: docs/book/sim.md"
)]
pub struct Args {
    /// The scenario, a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Change one value, such as link.rate='2 Mbit/s' or flow.0.tcp.controller=reno
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run with each of several values, such as link.queue=codel,pie (separate by ; where values have commas)
    #[arg(long, value_name = "KEY=A,B")]
    sweep: Vec<String>,
    /// Run with so many seeds, from the scenario's on; figures get 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Show the whole scenario with where each value comes from, and run nothing
    #[arg(long)]
    print: bool,
    /// Write a recording; with a sweep, a directory with one recording for each value
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Capture where a link begins, as Wireshark reads it: what enters the link, before its queue, and what comes out of
    /// the link in the other direction. LINK is a link's name, or a host's; --print shows them
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<String>,
    /// Bytes kept of each captured packet
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..=65_549))]
    snaplen: u32,
    /// Print the figures as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
}

/// Their figures are kept until the end.
const MOST_RUNS: u64 = 200_000;

/// One combination of swept values.
struct Point {
    labels: Vec<(String, String)>,
    scenario: Scenario,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let file = args.scenario.display();
    let text = std::fs::read_to_string(&args.scenario)
        .map_err(|e| usage(format!("cannot read the scenario {file}: {e}")))?;
    let mut draft = Draft::new(&text).map_err(|e| usage(format!("{file}: {e}")))?;
    for pair in &args.set {
        let (key, value) = split(pair, "--set", "link.queue=codel")?;
        draft
            .set(key, value, "--set")
            .map_err(|e| usage(format!("--set {e}")))?;
    }
    if args.print {
        let mut read = files_beside(&args.scenario);
        let shown = draft.describe(&mut read).and_then(|text| {
            Ok((
                text,
                sim::capture::links(&draft.finish_reading(&mut read)?)?,
            ))
        });
        let (text, links) = shown.map_err(|e| usage(format!("{file}: {e}")))?;
        print(&format!("{text}\n# Links, for --pcap: {}\n", few(&links)))?;
        return Ok(Outcome::Done);
    }
    let runs = args.sweep.iter().fold(args.seeds, |runs, sweep| {
        runs.saturating_mul(values_of(sweep).count() as u64)
    });
    if runs > MOST_RUNS {
        return Err(usage(format!(
            "--sweep and --seeds ask for {runs} runs: at most {MOST_RUNS} at once"
        )));
    }
    let points =
        sweep(&draft, &args.sweep, &args.scenario).map_err(|e| usage(format!("{file}: {e}")))?;
    if points.len() > 1 && !args.pcap.is_empty() {
        return Err(usage(format!(
            "--pcap writes one run's packets, and --sweep asks for {} of them: choose one with --set",
            points.len()
        )));
    }
    let first = &points[0].scenario;
    let recordings = match &args.output {
        Some(output) => output::recordings(&points, output)?,
        None => Vec::new(),
    };
    let captures = output::captures(first, &args.pcap, args.snaplen)?;
    let jobs: Vec<Job> = points
        .iter()
        .flat_map(|point| {
            let scenario = Arc::new(point.scenario.clone());
            (0..args.seeds).map(move |i| Job {
                scenario: scenario.clone(),
                seed: scenario.seed.wrapping_add(i),
            })
        })
        .collect();
    live::signal::catch_interrupt();
    let outcomes = match (&recordings[..], &jobs[..]) {
        // The one run is the one to record.
        ([_], [_]) => output::record_points(&points, &recordings)?,
        _ => {
            let outcomes = run_jobs(&jobs, super::threads(args.threads))?;
            output::record_points(&points, &recordings)?;
            outcomes
        }
    };
    let done = outcomes.iter().flatten().count();
    if !args.pcap.is_empty() {
        captures.write(first)?;
    }
    let results: Vec<(&Point, Vec<&sim::Outcome>)> = points
        .iter()
        .zip(outcomes.chunks(args.seeds as usize))
        .map(|(point, chunk)| (point, chunk.iter().flatten().collect()))
        .collect();
    if args.json {
        print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&as_json(&results))?
        ))?;
    } else {
        print(&table::table(&results))?;
    }
    if done < jobs.len() {
        eprintln!(
            "tailback: ended early: {done} of {} runs are complete and counted{}",
            jobs.len(),
            missing(&results, args.seeds)
        );
        return Ok(Outcome::CouldNotMeasure);
    }
    Ok(Outcome::Done)
}

/// Which values of a sweep lack runs, and how many.
fn missing(results: &[(&Point, Vec<&sim::Outcome>)], seeds: u64) -> String {
    let lacking = results.iter().filter_map(|(point, outcomes)| {
        let left = seeds - outcomes.len() as u64;
        let labels = point
            .labels
            .iter()
            .map(|(key, value)| format!("{key}={value}"));
        let labels: Vec<String> = labels.collect();
        (left > 0 && !labels.is_empty()).then(|| match seeds {
            1 => labels.join(" "),
            _ => format!("{} ({left} of {seeds} seeds)", labels.join(" ")),
        })
    });
    let lacking: Vec<String> = lacking.collect();
    match lacking.is_empty() {
        true => String::new(),
        false => format!("; missing: {}", few(&lacking)),
    }
}

fn split<'a>(pair: &'a str, option: &str, example: &str) -> anyhow::Result<(&'a str, &'a str)> {
    let (key, value) = pair.split_once('=').ok_or_else(|| {
        usage(format!(
            "{option} {pair}: write KEY=VALUE, such as {example}"
        ))
    })?;
    Ok((key.trim(), value.trim()))
}

/// Of KEY=A,B or KEY=A;B.
fn values_of(sweep: &str) -> impl Iterator<Item = &str> {
    let values = sweep.split_once('=').map_or("", |(_, values)| values);
    let separator = if values.contains(';') { ';' } else { ',' };
    values.split(separator).map(str::trim)
}

/// Names in a row, not all of very many.
fn few(names: &[String]) -> String {
    let more = match names.len() {
        0..=20 => String::new(),
        n => format!(", … ({n} in all)"),
    };
    format!("{}{more}", names[..names.len().min(20)].join(", "))
}

/// Every combination of the swept values, the last key changing fastest.
fn sweep(draft: &Draft, sweeps: &[String], file: &Path) -> anyhow::Result<Vec<Point>> {
    let mut drafts: Vec<(Vec<(String, String)>, Draft)> = vec![(Vec::new(), draft.clone())];
    for sweep in sweeps {
        let (key, _) = split(sweep, "--sweep", "link.queue=codel,pie")?;
        if drafts[0].0.iter().any(|(swept, _)| swept == key) {
            anyhow::bail!(
                "--sweep {key} is given twice: write all of its values in one, such as {key}=A,B"
            );
        }
        let mut next = Vec::new();
        for (labels, draft) in &drafts {
            for value in values_of(sweep) {
                let mut draft = draft.clone();
                draft.set(key, value, "--sweep")?;
                let mut labels = labels.clone();
                labels.push((key.to_string(), value.to_string()));
                next.push((labels, draft));
            }
        }
        drafts = next;
    }
    drafts
        .into_iter()
        .map(|(labels, draft)| {
            let scenario = draft.finish_reading(&mut files_beside(file))?;
            Ok(Point { labels, scenario })
        })
        .collect()
}

/// In thousandths.
fn bar() -> anyhow::Result<ProgressBar> {
    let style = ProgressStyle::with_template("{bar:40} {percent} %  {left}")
        .context("the progress bar's template")?
        // Nothing can be told of the time before the first step.
        .with_key("left", |bar: &ProgressState, out: &mut dyn Write| {
            if bar.pos() > 0 {
                let _ = write!(out, "{} left", HumanDuration(bar.eta()));
            }
        });
    Ok(ProgressBar::new(1000).with_style(style))
}

fn run_jobs(jobs: &[Job], threads: usize) -> anyhow::Result<Vec<Option<sim::Outcome>>> {
    let bar = bar()?;
    let stop = AtomicBool::new(false);
    let outcomes = run_all(jobs, threads, &stop, &|share| {
        bar.set_position((share * 1000.0) as u64);
        if live::signal::interrupted() {
            stop.store(true, Ordering::Relaxed);
        }
    });
    bar.finish_and_clear();
    Ok(outcomes?)
}

fn as_json(results: &[(&Point, Vec<&sim::Outcome>)]) -> serde_json::Value {
    let points = results.iter().map(|(point, outcomes)| {
        let labels: BTreeMap<_, _> = point.labels.iter().cloned().collect();
        serde_json::json!({
            "set": labels,
            "estimates": estimates(outcomes),
            "runs": outcomes,
        })
    });
    serde_json::Value::Array(points.collect())
}
