//! Batches of runs: seeds and swept values in parallel, one run per core. The results do not depend on the number of
//! cores.

use crate::error::ScenarioError;
use crate::estimate::Estimate;
use crate::run::{Outcome, run};
use crate::scenario::Scenario;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// A run to make.
#[derive(Clone, Debug)]
pub struct Job {
    /// Scenario to run.
    pub scenario: Arc<Scenario>,
    /// Seed of the run.
    pub seed: u64,
}

/// Makes all runs on up to `threads` threads. `progress` gets the share that is done, 0 to 1. Once `stop` is set,
/// unfinished runs end early and are left out. Results are in the order of the jobs.
///
/// # Errors
/// The error of the first job that cannot be run.
pub fn run_all(
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(f64) + Sync),
) -> Result<Vec<Option<Outcome>>, ScenarioError> {
    run_each(jobs, threads, stop, progress, &|_, _| ())
}

/// Does the same, and passes each outcome with the number of its job to `done` as soon as it is there.
///
/// # Errors
/// The error of the first job that cannot be run.
pub fn run_each(
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(f64) + Sync),
    done: &(dyn Fn(usize, &Outcome) + Sync),
) -> Result<Vec<Option<Outcome>>, ScenarioError> {
    let parts = Mutex::new(vec![0.0f64; jobs.len()]);
    let results = in_parallel(jobs, threads, &|at, job| {
        if stop.load(Ordering::Relaxed) {
            return None;
        }
        let whole = job.scenario.duration.as_secs_f64();
        let result = run(&job.scenario, job.seed, None, &mut |now| {
            let mut parts = parts.lock().expect("no holder panicked");
            parts[at] = now.as_secs_f64() / whole;
            progress(parts.iter().sum::<f64>() / jobs.len() as f64);
            !stop.load(Ordering::Relaxed)
        });
        parts.lock().expect("no holder panicked")[at] = 1.0;
        let cut = matches!(&result, Ok(o) if o.simulated_s < whole * 0.999_999);
        if let (false, Ok(outcome)) = (cut, &result) {
            done(at, outcome);
        }
        (!cut).then_some(result)
    });
    results.into_iter().map(Option::transpose).collect()
}

/// Processes items on up to `threads` threads; results are in the order of the items.
pub fn in_parallel<T: Sync, R: Send>(
    items: &[T],
    threads: usize,
    work: &(dyn Fn(usize, &T) -> R + Sync),
) -> Vec<R> {
    let next = AtomicUsize::new(0);
    let results: Mutex<Vec<Option<R>>> = Mutex::new(items.iter().map(|_| None).collect());
    let worker = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            let result = work(at, item);
            results.lock().expect("no holder panicked")[at] = Some(result);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(items.len()) {
            scope.spawn(worker);
        }
        worker();
    });
    let results = results.into_inner().expect("no holder panicked");
    let all = results.into_iter();
    all.map(|r| r.expect("every item was worked on")).collect()
}

/// Name of the gateway's figures.
pub const CONTROL: &str = "control";

/// Every figure of a run by its name, such as `link.queue_ms.mean` or `bulk.goodput_bps`.
pub fn figures(outcome: &Outcome) -> BTreeMap<String, f64> {
    let mut all = BTreeMap::new();
    let mut collect = |name: &str, value: serde_json::Value| flatten(name, &value, &mut all);
    for link in &outcome.links {
        collect(&link.name, serde_json::to_value(link).unwrap_or_default());
    }
    for flow in &outcome.flows {
        collect(&flow.name, serde_json::to_value(flow).unwrap_or_default());
    }
    if let Some(control) = &outcome.control {
        collect(CONTROL, serde_json::to_value(control).unwrap_or_default());
    }
    all
}

fn flatten(name: &str, value: &serde_json::Value, all: &mut BTreeMap<String, f64>) {
    match value {
        serde_json::Value::Object(fields) => {
            for (key, value) in fields {
                flatten(&format!("{name}.{key}"), value, all);
            }
        }
        other => {
            if let Some(number) = other.as_f64() {
                all.insert(name.to_string(), number);
            }
        }
    }
}

/// Estimates of the differences of every figure between two scenarios, from pairs of runs with the same seed: the second
/// less the first. The same chance in both runs makes their interval narrower than those of the figures.
pub fn differences(pairs: &[(&Outcome, &Outcome)]) -> BTreeMap<String, Estimate> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for (first, second) in pairs {
        let before = figures(first);
        for (name, value) in figures(second) {
            if let Some(before) = before.get(&name) {
                values.entry(name).or_default().push(value - before);
            }
        }
    }
    let named = values.into_iter();
    let named = named.filter_map(|(name, values)| Estimate::of(&values).map(|e| (name, e)));
    named.collect()
}

/// Estimates of every figure over several seeds, each with its interval.
pub fn estimates(outcomes: &[&Outcome]) -> BTreeMap<String, Estimate> {
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for outcome in outcomes {
        for (name, value) in figures(outcome) {
            values.entry(name).or_default().push(value);
        }
    }
    values
        .into_iter()
        .filter_map(|(name, values)| Estimate::of(&values).map(|e| (name, e)))
        .collect()
}
