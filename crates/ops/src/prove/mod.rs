//! `tailback prove`: a cure on and off in random blocks, and a test of the difference: in virtual time, or with the kernel's
//! TCP over emulated links.

mod emulated;
mod page;
pub mod real;
mod text;

use crate::progress::{Event as News, Observer, Shared};
use crate::whatif::{self, Filled, Goal, Of};
use crate::{Progress, threads, usage};
use ::twin::Means;
use ::twin::prove::{FEWEST_PAIRS, Trial, detectable, pilot, prove};
pub use ::twin::prove::{Measure, Proof, Verdict};
use ::twin::whatif::{Home, Question, ask};
use anyhow::Context;
use base::Duration;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Cure to prove.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub of: Of,
    /// Cure as written, or `best` for the best of the usual ones.
    pub cure: String,
    pub measure: Measure,
    pub load: Filled,
    /// Pairs of blocks.
    pub pairs: u64,
    /// Counted part of each block.
    #[serde(default)]
    pub block: Option<Duration>,
    pub seed: u64,
    /// True for virtual time; false for the kernel's TCP over emulated links.
    pub virtual_time: bool,
    #[serde(default)]
    pub threads: Option<usize>,
    /// True to ask a twin that its recording rejects.
    #[serde(default)]
    pub anyway: bool,
    /// Directory for the recordings of the blocks; only with emulated links.
    #[serde(default)]
    pub output: Option<PathBuf>,
}

/// Outcome of a proof.
pub struct Answer {
    pub proof: Proof,
    /// Cure that was proved.
    pub cure: String,
    /// Directory of the recordings, if there are any.
    pub recordings: Option<PathBuf>,
    pub on: On,
}

/// Link that the blocks ran on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum On {
    VirtualTime,
    EmulatedLinks,
    RealLink,
}

/// Carries a proof out.
///
/// # Errors
/// A plan with too few pairs, a link or cure that cannot be used, an interruption.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    if plan.pairs < FEWEST_PAIRS {
        return Err(too_few(plan.pairs));
    }
    if !plan.virtual_time {
        only_bulk(plan.load)?;
        if plan.measure == Measure::Page {
            return Err(usage(
                "pages are fetched in virtual time only: add --virtual, or choose --measure delay",
            ));
        }
        // Namespaces must be entered while this process has a single thread.
        live::emulate::prepare()?;
    }
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    observer.tell(News::Interruptible);
    let stop = AtomicBool::new(false);
    let share = |share: f64| {
        observer.share(share);
        stop.fetch_or(observer.interrupted(), Ordering::Relaxed);
    };
    let means = Means {
        threads: threads(plan.threads),
        seed: plan.seed,
        stop: &stop,
        progress: &share,
    };
    let (off, on, cure) = homes(plan, &means, observer)?;
    let trial = Trial {
        off,
        on,
        measure: plan.measure,
        load: plan.load,
        pairs: plan.pairs,
        block: plan.block,
    };
    if plan.virtual_time {
        let proof = prove(&trial, &means).map_err(|e| usage(e.to_string()))?;
        observer.tell(News::Finished);
        return Ok(Answer {
            proof,
            cure,
            recordings: None,
            on: On::VirtualTime,
        });
    }
    let chance = pilot(&trial, &means).map_err(|e| usage(e.to_string()))?;
    let shown = detectable(&chance, plan.pairs);
    if let Some(difference) = shown {
        observer.say(&text::power(plan.pairs, plan.measure, difference));
    }
    let (proof, recordings) = emulated::run(plan, &trial, shown, observer)?;
    observer.tell(News::Finished);
    Ok(Answer {
        proof,
        cure,
        recordings: Some(recordings),
        on: On::EmulatedLinks,
    })
}

/// Refuses a load with streams beside bulk transfers, which only a simulation makes.
fn only_bulk(load: Filled) -> anyhow::Result<()> {
    match load {
        Filled::Up | Filled::Down | Filled::Both => Ok(()),
        Filled::Evening | Filled::Work => Err(usage(format!(
            "--load {} is made in virtual time only: add --virtual, or choose up, down or both",
            load.name()
        ))),
    }
}

fn too_few(pairs: u64) -> anyhow::Error {
    usage(format!(
        "--pairs {pairs}: {FEWEST_PAIRS} pairs are needed, because fewer cannot show any difference at 5 %"
    ))
}

/// Makes the directory for the recordings of the blocks.
fn folder(named: Option<&PathBuf>) -> anyhow::Result<PathBuf> {
    let now = jiff::Zoned::now();
    let default = || format!("tailback-prove-{}", now.strftime("%Y%m%d-%H%M%S")).into();
    let folder = named.cloned().unwrap_or_else(default);
    std::fs::create_dir(&folder)
        .with_context(|| format!("cannot make the directory {}", folder.display()))?;
    Ok(folder)
}

/// Homes without and with the cure, and the cure.
fn homes(
    plan: &Plan,
    means: &Means,
    observer: &dyn Observer,
) -> anyhow::Result<(Home, Home, String)> {
    let question = whatif::Plan {
        of: plan.of.clone(),
        cures: Vec::new(),
        goal: match plan.measure {
            Measure::Delay => Goal::Gaming,
            Measure::Call => Goal::Calls,
            Measure::Page => Goal::Web,
            Measure::Goodput => Goal::Bulk,
        },
        load: plan.load,
        seeds: 10,
        seed: plan.seed,
        threads: plan.threads,
        anyway: plan.anyway,
    };
    let whatif::Homes { homes, doubt, .. } = whatif::homes(&question, means, observer)?;
    if let Some(doubt) = doubt {
        observer.warn(&format!("The twin is doubtful: {doubt}"));
    }
    let off = homes[0].clone();
    let written = match &*plan.cure {
        "best" => {
            let usual = whatif::cures(&[], &off)?;
            let found = ask(
                &Question {
                    homes,
                    cures: usual,
                    goal: question.goal,
                    load: plan.load,
                    seeds: question.seeds,
                    doubt: ::twin::Doubt::default(),
                },
                means,
            );
            let found = found.map_err(|e| usage(e.to_string()))?;
            let best = found.tried.into_iter().find(|t| {
                // A faster link is bought, not configured.
                t.cure != ::twin::whatif::Cure::none().text && !t.cure.contains(".rate=")
            });
            best.map(|t| t.cure)
                .ok_or_else(|| usage("no cure was tried"))?
        }
        written => written.to_owned(),
    };
    let cures = whatif::cures(std::slice::from_ref(&written), &off)?;
    let on = cures[1].apply(&off).map_err(|e| usage(e.to_string()))?;
    Ok((off, on, written))
}

impl Answer {
    /// Figures as JSON.
    ///
    /// # Errors
    /// Figures that are no JSON, which cannot happen.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        let mut json = serde_json::to_value(&self.proof)?;
        json["cure"] = self.cure.as_str().into();
        json["virtual_time"] = (self.on == On::VirtualTime).into();
        json["real_link"] = (self.on == On::RealLink).into();
        Ok(json)
    }

    /// Text for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        text::proof(self, width)
    }

    /// HTML page.
    pub fn page(&self) -> String {
        page::page(self).html()
    }
}
