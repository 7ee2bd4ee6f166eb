//! `tailback sim`: packets, queues and TCP in virtual time.

mod kept;
mod output;
mod runs;
mod table;

pub use kept::Shard;

use crate::links::files_beside;
use crate::progress::{Event, Observer, Shared};
use crate::{Progress, threads, usage};
use serde::{Deserialize, Serialize};
use sim::batch::{Job, differences, estimates, run_all};
use sim::{Draft, Scenario};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Scenario to simulate, with the values to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Scenario as TOML.
    pub scenario: String,
    /// Path of the scenario, for messages and for the files that it names.
    pub file: PathBuf,
    /// Values to change, KEY=VALUE.
    pub set: Vec<String>,
    /// Values to try, KEY=A,B.
    pub sweep: Vec<String>,
    /// Number of seeds, starting at the scenario's.
    pub seeds: u64,
    /// Recording of the first seed; with a sweep, a directory with one for each value.
    pub output: Option<PathBuf>,
    /// Captures to write, LINK=FILE.
    pub pcap: Vec<String>,
    /// Bytes kept of each captured packet.
    pub snaplen: u32,
    pub threads: Option<usize>,
    /// Directory of finished runs: those in it are not run again.
    pub keep: Option<PathBuf>,
    /// Part of the runs to make; needs `keep`.
    pub shard: Option<Shard>,
    /// File for the figures of every run, CSV or Parquet.
    pub runs: Option<PathBuf>,
    /// True to show the differences from the first swept value.
    pub differences: bool,
}

impl Default for Plan {
    fn default() -> Plan {
        Plan {
            scenario: String::new(),
            file: PathBuf::new(),
            set: Vec::new(),
            sweep: Vec::new(),
            seeds: 1,
            output: None,
            pcap: Vec::new(),
            snaplen: 128,
            threads: None,
            keep: None,
            shard: None,
            runs: None,
            differences: false,
        }
    }
}

/// Figures of all runs.
pub struct Answer {
    points: Vec<Point>,
    /// Outcomes of all points and seeds, in order; none for a run that did not end.
    outcomes: Vec<Option<sim::Outcome>>,
    seeds: u64,
    /// Part of the runs that was to be made.
    shard: Option<Shard>,
    /// True to show the differences from the first point.
    differences: bool,
}

/// Largest number of runs: their figures are kept until the end.
const MOST_RUNS: u64 = 200_000;

/// Figures of one combination of swept values; `tailback sim --json` prints a list of them.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct PointFigures<'a> {
    /// Swept keys with their values.
    pub set: BTreeMap<String, String>,
    /// Figures over all seeds, each named by its link or flow.
    pub estimates: BTreeMap<String, sim::Estimate>,
    /// Differences from the first combination, each seed compared with itself; absent for the first, and for one seed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub differences: Option<BTreeMap<String, sim::Estimate>>,
    /// Figures of each seed.
    pub runs: Vec<&'a sim::Outcome>,
}

/// Combination of swept values.
struct Point {
    labels: Vec<(String, String)>,
    scenario: Scenario,
}

impl Plan {
    /// Plan of a scenario's file.
    ///
    /// # Errors
    /// A file that cannot be read.
    pub fn of_file(file: &Path) -> anyhow::Result<Plan> {
        let scenario = std::fs::read_to_string(file)
            .map_err(|e| usage(format!("cannot read the scenario {}: {e}", file.display())))?;
        Ok(Plan {
            scenario,
            file: file.to_owned(),
            ..Plan::default()
        })
    }

    /// Plan that simulates a recording's scenario again.
    ///
    /// # Errors
    /// A scenario that this version does not know.
    pub fn of_recorded(scenario: &Scenario) -> anyhow::Result<Plan> {
        Ok(Plan {
            scenario: toml::to_string(scenario)?,
            file: "scenario.toml".into(),
            ..Plan::default()
        })
    }

    /// The scenario with the plan's values set.
    fn draft(&self) -> anyhow::Result<Draft> {
        let file = self.file.display();
        let mut draft = Draft::new(&self.scenario).map_err(|e| usage(format!("{file}: {e}")))?;
        for pair in &self.set {
            let (key, value) = split(pair, "--set", "link.queue=codel")?;
            draft
                .set(key, value, "--set")
                .map_err(|e| usage(format!("--set {e}")))?;
        }
        Ok(draft)
    }

    /// Combinations of values to run.
    fn points(&self) -> anyhow::Result<Vec<Point>> {
        let draft = self.draft()?;
        let runs = self.sweep.iter().fold(self.seeds, |runs, sweep| {
            runs.saturating_mul(values_of(sweep).count() as u64)
        });
        if runs > MOST_RUNS {
            return Err(usage(format!(
                "--sweep and --seeds ask for {runs} runs: at most {MOST_RUNS} at once"
            )));
        }
        let points = sweep(&draft, &self.sweep, &self.file)
            .map_err(|e| usage(format!("{}: {e}", self.file.display())))?;
        if points.len() > 1 && !self.pcap.is_empty() {
            return Err(usage(format!(
                "--pcap writes one run's packets, and --sweep asks for {} of them: choose one with --set",
                points.len()
            )));
        }
        Ok(points)
    }
}

/// Describes the whole scenario with the origin of each value, and runs nothing.
///
/// # Errors
/// A scenario that cannot be run.
pub fn describe(plan: &Plan) -> anyhow::Result<String> {
    let draft = plan.draft()?;
    let mut read = files_beside(&plan.file);
    let shown = draft.describe(&mut read).and_then(|text| {
        let links = sim::capture::links(&draft.finish_reading(&mut read)?)?;
        Ok(format!("{text}\n# Links, for --pcap: {}\n", few(&links)))
    });
    shown.map_err(|e| usage(format!("{}: {e}", plan.file.display())))
}

/// Simulates all points and seeds, and writes recordings and captures.
///
/// # Errors
/// A scenario that cannot be run, outputs that exist already or cannot be written.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    if plan.seeds == 0 {
        return Err(usage("seeds: at least one is needed"));
    }
    if plan.shard.is_some() && plan.keep.is_none() {
        return Err(usage("shard: name the directory that keeps the runs"));
    }
    if let Some(path) = &plan.runs {
        runs::check(path)?;
    }
    let points = plan.points()?;
    if plan.differences && (points.len() < 2 || plan.seeds < 2) {
        return Err(usage(
            "differences: they compare swept values, seed by seed: give --sweep with two values or more, and --seeds 2 or more",
        ));
    }
    let threads = match added_code(&points)? {
        Some(name) if plan.keep.is_some() => return Err(cannot_keep(name)),
        // Python's runs would only wait for each other: on two threads they take ten times the processor time.
        Some(_) => 1,
        None => threads(plan.threads),
    };
    let first = &points[0].scenario;
    let recordings = match &plan.output {
        Some(output) => output::recordings(&points, output)?,
        None => Vec::new(),
    };
    let captures = output::captures(first, &plan.pcap, plan.snaplen)?;
    let jobs: Vec<Job> = points
        .iter()
        .flat_map(|point| {
            let scenario = Arc::new(point.scenario.clone());
            (0..plan.seeds).map(move |i| Job {
                scenario: scenario.clone(),
                seed: scenario.seed.wrapping_add(i),
            })
        })
        .collect();
    observer.tell(Event::Interruptible);
    let outcomes = match (&recordings[..], &jobs[..]) {
        // The one run is the one to record.
        ([_], [_]) => output::record_points(&points, &recordings, observer)?,
        _ => {
            let outcomes = run_jobs(plan, &jobs, threads, observer)?;
            output::record_points(&points, &recordings, observer)?;
            outcomes
        }
    };
    if !plan.pcap.is_empty() {
        captures.write(first, observer)?;
    }
    let answer = Answer {
        points,
        outcomes,
        seeds: plan.seeds,
        shard: plan.shard,
        differences: plan.differences,
    };
    if let Some(path) = &plan.runs {
        runs::write(path, &answer.results())?;
        observer.wrote(path);
    }
    Ok(answer)
}

/// Name of a discipline, a controller or a source in the scenarios that the program has added.
fn added_code(points: &[Point]) -> anyhow::Result<Option<&'static str>> {
    for point in points {
        if let Some(name) = point.scenario.added()?.first() {
            return Ok(Some(name));
        }
    }
    Ok(None)
}

fn cannot_keep(name: &str) -> anyhow::Error {
    usage(format!(
        "keep: a kept run is found by its scenario and version, and \"{name}\" is code of its own, which may change: \
         leave keep out"
    ))
}

fn run_jobs(
    plan: &Plan,
    jobs: &[Job],
    threads: usize,
    observer: &dyn Observer,
) -> anyhow::Result<Vec<Option<sim::Outcome>>> {
    let stop = AtomicBool::new(false);
    let progress = |share| {
        observer.share(share);
        if observer.interrupted() {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let outcomes = match &plan.keep {
        Some(directory) => kept::run(directory, plan.shard, jobs, threads, &stop, &progress),
        None => run_all(jobs, threads, &stop, &progress).map_err(Into::into),
    };
    observer.tell(Event::Finished);
    outcomes
}

impl Answer {
    fn results(&self) -> Vec<(&Point, Vec<&sim::Outcome>)> {
        let chunks = self.outcomes.chunks(self.seeds as usize);
        let pairs = self.points.iter().zip(chunks);
        pairs
            .map(|(point, chunk)| (point, chunk.iter().flatten().collect()))
            .collect()
    }

    /// Returns the tables for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        if self.shard.is_some() {
            let done = self.outcomes.iter().flatten().count();
            let (mine, all) = (self.asked(), self.outcomes.len());
            return format!("{done} of the {mine} runs of this shard are kept ({all} in all)\n");
        }
        let results = self.results();
        match self.differences {
            true => {
                let of = |at: usize| self.differences(at).unwrap_or_default();
                let others = results.get(1..).unwrap_or_default();
                let what = match results.first().map(|(point, _)| &point.labels[..]) {
                    Some(labels) => named(labels),
                    None => String::new(),
                };
                table::differences(others, &|at| of(at + 1), &what, width)
            }
            false => table::table(&results, &|at| estimates(&results[at].1), width),
        }
    }

    /// Differences of a point from the first, each seed compared with itself.
    fn differences(&self, at: usize) -> Option<BTreeMap<String, sim::Estimate>> {
        let mut chunks = self.outcomes.chunks(self.seeds as usize);
        let first = chunks.next().filter(|_| at > 0 && self.seeds > 1)?;
        let own = chunks.nth(at - 1)?;
        let pairs = first.iter().zip(own);
        let pairs: Vec<_> = pairs
            .filter_map(|(a, b)| Some((a.as_ref()?, b.as_ref()?)))
            .collect();
        Some(differences(&pairs))
    }

    /// Figures of each point and run.
    pub fn json(&self) -> Vec<PointFigures<'_>> {
        let results = self.results().into_iter().enumerate();
        let figures = results.map(|(at, (point, runs))| PointFigures {
            set: point.labels.iter().cloned().collect(),
            estimates: estimates(&runs),
            differences: self.differences(at),
            runs,
        });
        figures.collect()
    }

    /// Missing runs, in words; `None` if all came to their end.
    pub fn ended_early(&self) -> Option<String> {
        let done = self.outcomes.iter().flatten().count();
        let runs = self.asked();
        (done < runs).then(|| {
            let missing = match self.shard {
                None => missing(&self.results(), self.seeds),
                Some(_) => String::new(),
            };
            format!("ended early: {done} of {runs} runs are complete and counted{missing}")
        })
    }

    /// Number of runs that were to be made.
    fn asked(&self) -> usize {
        let all = 0..self.outcomes.len();
        let mine = |number: &usize| self.shard.is_none_or(|s| s.has(*number));
        all.filter(mine).count()
    }
}

/// Swept keys with their values.
fn named(labels: &[(String, String)]) -> String {
    let labels = labels.iter().map(|(key, value)| format!("{key}={value}"));
    labels.collect::<Vec<String>>().join(" ")
}

/// Values of a sweep that lack runs, with the number of those runs.
fn missing(results: &[(&Point, Vec<&sim::Outcome>)], seeds: u64) -> String {
    let lacking = results.iter().filter_map(|(point, outcomes)| {
        let left = seeds - outcomes.len() as u64;
        let labels = named(&point.labels);
        (left > 0 && !labels.is_empty()).then(|| match seeds {
            1 => labels,
            _ => format!("{labels} ({left} of {seeds} seeds)"),
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

/// Values in KEY=A,B or KEY=A;B.
fn values_of(sweep: &str) -> impl Iterator<Item = &str> {
    let values = sweep.split_once('=').map_or("", |(_, values)| values);
    let separator = if values.contains(';') { ';' } else { ',' };
    values.split(separator).map(str::trim)
}

/// List of names, shortened if there are very many.
fn few(names: &[String]) -> String {
    let more = match names.len() {
        0..=20 => String::new(),
        n => format!(", … ({n} in all)"),
    };
    format!("{}{more}", names[..names.len().min(20)].join(", "))
}

/// Combinations of the swept values, the last key changing fastest.
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
