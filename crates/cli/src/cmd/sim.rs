//! `tailback sim`: packets, queues and TCP in virtual time.

use super::{print, usage, write_file};
use crate::Outcome;
use anyhow::Context;
use base::record::{FORMAT_VERSION, Meta, Origin};
use indicatif::{ProgressBar, ProgressStyle};
use sim::batch::{Estimate, Job, estimates, run_all};
use sim::{Draft, Scenario};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(clap::Args)]
#[command(
    about = "Simulate a scenario, packet by packet, in virtual time",
    long_about = "Simulates a scenario, packet by packet, in virtual time: any queue discipline, any congestion controller, \
        any number of flows. The same seed gives the same result, on any number of cores.",
    after_help = "Examples:\n  tailback sim scenarios/dumbbell.toml\n  \
        tailback sim scenarios/dumbbell.toml --set link.rate='2 Mbit/s' --set flow.0.count=4\n  \
        tailback sim scenarios/dumbbell.toml --sweep link.queue='fifo;codel;pie' --seeds 15\n  \
        tailback sim scenarios/dumbbell.toml -o run.rec"
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
    /// Print the figures as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

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
        let text = draft
            .describe()
            .map_err(|e| usage(format!("{file}: {e}")))?;
        print(&text)?;
        return Ok(Outcome::Done);
    }
    let points = sweep(&draft, &args.sweep).map_err(|e| usage(format!("{file}: {e}")))?;
    let jobs: Vec<Job> = points
        .iter()
        .flat_map(|point| {
            (0..args.seeds).map(|i| Job {
                scenario: point.scenario.clone(),
                seed: point.scenario.seed.wrapping_add(i),
            })
        })
        .collect();
    live::signal::catch_interrupt();
    let outcomes = run_jobs(&jobs, super::threads(args.threads))?;
    let done = outcomes.iter().flatten().count();
    if let Some(output) = &args.output {
        record_points(&points, output)?;
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
        print(&table(&results))?;
    }
    if done < jobs.len() {
        eprintln!(
            "tailback: ended early: {done} of {} runs are complete and counted",
            jobs.len()
        );
        return Ok(Outcome::CouldNotMeasure);
    }
    Ok(Outcome::Done)
}

fn split<'a>(pair: &'a str, option: &str, example: &str) -> anyhow::Result<(&'a str, &'a str)> {
    let (key, value) = pair.split_once('=').ok_or_else(|| {
        usage(format!(
            "{option} {pair}: write KEY=VALUE, such as {example}"
        ))
    })?;
    Ok((key.trim(), value.trim()))
}

/// Every combination of the swept values, the last key changing fastest.
fn sweep(draft: &Draft, sweeps: &[String]) -> anyhow::Result<Vec<Point>> {
    let mut drafts = vec![(Vec::new(), draft.clone())];
    for sweep in sweeps {
        let (key, values) = split(sweep, "--sweep", "link.queue=codel,pie")?;
        let separator = if values.contains(';') { ';' } else { ',' };
        let mut next = Vec::new();
        for (labels, draft) in &drafts {
            for value in values.split(separator).map(str::trim) {
                let mut draft = draft.clone();
                draft.set(key, value, "--sweep")?;
                let mut labels: Vec<(String, String)> = labels.clone();
                labels.push((key.to_string(), value.to_string()));
                next.push((labels, draft));
            }
        }
        drafts = next;
    }
    drafts
        .into_iter()
        .map(|(labels, draft)| {
            let scenario = draft.finish()?;
            Ok(Point { labels, scenario })
        })
        .collect()
}

fn run_jobs(jobs: &[Job], threads: usize) -> anyhow::Result<Vec<Option<sim::Outcome>>> {
    let bar = ProgressBar::new(1000).with_style(
        ProgressStyle::with_template("{bar:40} {percent} %  {eta} left")
            .context("the progress bar's template")?,
    );
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

/// Writes the recording of the first seed of each point.
fn record_points(points: &[Point], output: &Path) -> anyhow::Result<()> {
    if points.len() > 1 {
        std::fs::create_dir_all(output)
            .map_err(|e| usage(format!("cannot create {}: {e}", output.display())))?;
    }
    for point in points {
        let path = match points.len() {
            1 => output.to_owned(),
            _ => output.join(format!("{}.rec", file_name(point))),
        };
        record(&point.scenario, &path)?;
        write_file(
            &path.join("scenario.toml"),
            &toml_of(&point.scenario).context("the scenario as TOML")?,
        )?;
        eprintln!("{}", path.display());
    }
    Ok(())
}

fn toml_of(scenario: &Scenario) -> anyhow::Result<String> {
    Ok(toml::to_string(scenario)?)
}

fn file_name(point: &Point) -> String {
    let parts: Vec<String> = point
        .labels
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    parts
        .join(",")
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "=,.-_".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn record(scenario: &Scenario, path: &Path) -> anyhow::Result<()> {
    let mut meta = Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Simulated,
        verb: "sim".into(),
        title: scenario.title.clone(),
        started_ns: sim::run::EPOCH_NS,
        plan: serde_json::to_value(scenario).context("the scenario")?,
        ..Meta::default()
    };
    let mut writer = store::Writer::create(path, meta.clone())?;
    let mut failed = None;
    let outcome = sim::run(
        scenario,
        scenario.seed,
        Some(&mut |row| {
            if failed.is_none() {
                failed = writer.write(row).err();
            }
        }),
        &mut |_| !live::signal::interrupted(),
    )?;
    if let Some(e) = failed {
        return Err(e.into());
    }
    let end_ns = (outcome.simulated_s * 1e9).round() as i64;
    meta.ended_ns = Some(meta.started_ns + end_ns);
    meta.complete = outcome.simulated_s >= scenario.duration.as_secs_f64() * 0.999_999;
    writer.close(meta)?;
    Ok(())
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

/// What the table shows of a link or of flows: heading, figure, factor, digits.
type Column = (&'static str, &'static str, f64, usize);

const LINK: &[Column] = &[
    ("Mbit/s", "delivered_bps", 1e-6, 2),
    ("used %", "utilisation", 100.0, 1),
    ("queue ms", "queue_ms.mean", 1.0, 2),
    ("p95", "queue_ms.p95", 1.0, 1),
    ("max", "queue_ms.max", 1.0, 1),
    ("drops", "drops", 1.0, 0),
    ("drop %", "drop_share", 100.0, 3),
    ("marks", "marks", 1.0, 0),
];
const FLOW: &[Column] = &[
    ("Mbit/s", "goodput_bps", 1e-6, 3),
    ("fairness", "fairness", 1.0, 3),
    ("one way ms", "delay_ms", 1.0, 2),
    ("p95", "delay_p95_ms", 1.0, 1),
    ("rtt ms", "rtt_ms.mean", 1.0, 2),
    ("loss %", "loss", 100.0, 3),
    ("sent again", "retransmits", 1.0, 0),
    ("timeouts", "timeouts", 1.0, 0),
    ("transfer ms", "transfer_ms", 1.0, 1),
];

fn table(results: &[(&Point, Vec<&sim::Outcome>)]) -> String {
    let mut out = String::new();
    for (what, columns) in [("link", LINK), ("flow", FLOW)] {
        let mut rows: Vec<Vec<String>> = Vec::new();
        for (point, outcomes) in results {
            let Some(first) = outcomes.first() else {
                continue;
            };
            let all = estimates(outcomes);
            let names: Vec<&str> = match what {
                "link" => first.links.iter().map(|l| l.name.as_str()).collect(),
                _ => first.flows.iter().map(|f| f.name.as_str()).collect(),
            };
            for name in names {
                let mut row: Vec<String> = point.labels.iter().map(|(_, v)| v.clone()).collect();
                row.push(name.to_string());
                for (_, figure, factor, digits) in columns {
                    let estimate = all.get(&format!("{name}.{figure}"));
                    row.push(estimate.map_or("-".into(), |e| shown(e, *factor, *digits)));
                }
                rows.push(row);
            }
        }
        let Some((point, _)) = results.first() else {
            continue;
        };
        let mut heads: Vec<String> = point.labels.iter().map(|(k, _)| k.clone()).collect();
        heads.push(what.to_string());
        heads.extend(columns.iter().map(|c| c.0.to_string()));
        // A column in which nothing stands says nothing.
        let used: Vec<usize> = (0..heads.len())
            .filter(|i| rows.iter().any(|r| r[*i] != "-"))
            .collect();
        let width = |i: usize| {
            let cells = rows.iter().map(|r| r[i].chars().count());
            cells.max().unwrap_or(0).max(heads[i].chars().count())
        };
        let left = point.labels.len();
        for row in std::iter::once(&heads).chain(&rows) {
            for i in &used {
                let (cell, w) = (&row[*i], width(*i));
                let _ = match *i <= left {
                    true => write!(out, "{cell:<w$}  "),
                    false => write!(out, "{cell:>w$}  "),
                };
            }
            out.truncate(out.trim_end().len());
            out.push('\n');
        }
        out.push('\n');
    }
    if let Some(runs) = results.first().map(|r| r.1.len()).filter(|n| *n > 1) {
        let _ = writeln!(
            out,
            "{runs} seeds; ± is the half of the 95 % confidence interval"
        );
    }
    out
}

fn shown(e: &Estimate, factor: f64, digits: usize) -> String {
    let mean = format!("{:.digits$}", e.mean * factor);
    match e.half {
        Some(half) if half > 0.0 => format!("{mean} ±{:.digits$}", half * factor),
        _ => mean,
    }
}
