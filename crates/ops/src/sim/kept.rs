//! Finished runs in a directory, each in a file that is named by its content: the scenario with its seed, and this
//! program's version. A sweep can so be interrupted and continued, and divided between processes and machines: the union
//! of their directories is the directory of the whole.

use crate::usage;
use anyhow::Context;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use sim::Outcome;
use sim::batch::{Job, run_each};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Part of the runs: every `of`-th, beginning with number `part`, which counts from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Shard {
    /// Number of the part, from 1.
    pub part: usize,
    /// Number of parts.
    pub of: usize,
}

impl FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Shard, String> {
        let numbers = text.split_once('/');
        let numbers = numbers.and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match numbers {
            Some((part, of)) if (1..=of).contains(&part) => Ok(Shard { part, of }),
            _ => Err("write I/N with I from 1 to N, such as 2/8".into()),
        }
    }
}

impl Shard {
    /// True for the number of a run, from 0, that belongs to this part.
    pub fn has(self, number: usize) -> bool {
        number % self.of == self.part - 1
    }
}

/// Makes the runs that the directory does not have yet, and keeps them there. Returns all outcomes; none for a run of
/// another shard, or one that did not end.
///
/// # Errors
/// A scenario that cannot be run, a directory that cannot be written.
pub fn run(
    directory: &Path,
    shard: Option<Shard>,
    jobs: &[Job],
    threads: usize,
    stop: &AtomicBool,
    progress: &(dyn Fn(f64) + Sync),
) -> anyhow::Result<Vec<Option<Outcome>>> {
    std::fs::create_dir_all(directory)
        .map_err(|e| usage(format!("cannot create {}: {e}", directory.display())))?;
    let paths = jobs.iter().map(|job| Ok(directory.join(name(job)?)));
    let paths = paths.collect::<anyhow::Result<Vec<PathBuf>>>()?;
    let mine = |number: &usize| shard.is_none_or(|s| s.has(*number));
    let all = 0..jobs.len();
    let mut outcomes: Vec<Option<Outcome>> = all
        .clone()
        .map(|number| mine(&number).then(|| kept(&paths[number])).flatten())
        .collect();
    let missing: Vec<usize> = all.filter(|n| mine(n) && outcomes[*n].is_none()).collect();
    let to_run: Vec<Job> = missing.iter().map(|n| jobs[*n].clone()).collect();
    let failed = Mutex::new(None);
    let keep = |at: usize, outcome: &Outcome| {
        if let Err(e) = write(&paths[missing[at]], outcome) {
            failed.lock().expect("no holder panicked").get_or_insert(e);
            stop.store(true, Ordering::Relaxed);
        }
    };
    let made = run_each(&to_run, threads, stop, progress, &keep)?;
    if let Some(e) = failed.into_inner().expect("no holder panicked") {
        return Err(e);
    }
    for (number, outcome) in missing.into_iter().zip(made) {
        outcomes[number] = outcome;
    }
    Ok(outcomes)
}

/// Name of a run's file.
fn name(job: &Job) -> anyhow::Result<String> {
    let scenario = sim::Scenario {
        seed: job.seed,
        ..(*job.scenario).clone()
    };
    let of = serde_json::json!({
        "version": env!("CARGO_PKG_VERSION"),
        "scenario": scenario,
    });
    let digest = Sha256::digest(serde_json::to_vec(&of).context("the scenario as JSON")?);
    let hex: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
    Ok(hex + ".json")
}

/// Outcome that a file holds; none if it is missing or damaged, and the run is then made again.
fn kept(path: &Path) -> Option<Outcome> {
    serde_json::from_slice(&std::fs::read(path).ok()?).ok()
}

fn write(path: &Path, outcome: &Outcome) -> anyhow::Result<()> {
    let text = serde_json::to_vec(outcome).context("an outcome as JSON")?;
    store::disk::write_whole(path, &text)
        .map_err(|e| anyhow::anyhow!("cannot keep a run in {}: {e}", path.display()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_of_a_sweep_have_each_run_once() {
        for of in 1..9 {
            let shards: Vec<Shard> = (1..=of).map(|part| Shard { part, of }).collect();
            for number in 0..40 {
                let owners = shards.iter().filter(|s| s.has(number)).count();
                assert_eq!(owners, 1, "{number} of {of}");
            }
        }
        for wrong in ["", "0/3", "4/3", "1", "1/0", "a/b", "1/2/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
