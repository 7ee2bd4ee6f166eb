//! `tailback whatif`: cures tried on the twin of a link, and ranked.

mod page;
mod text;

use crate::progress::{Event as News, Observer, Shared};
use crate::scan::{Source, whole};
use crate::{Progress, read_text, threads, usage, write_file};
use ::twin::whatif::{Cure, Home, Question, WhatIf, ask, cure};
pub use ::twin::whatif::{Filled, Goal};
use ::twin::{Doubt, Means, Trust, Twin};
use anyhow::Context;
use link::LinkSpec;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// File in a recording that holds its twin with all figures.
const KEPT: &str = "twin.json";
/// Most twins among which seeds are shared.
const MOST_TWINS: usize = 4;

/// Link or recording, and the cures to try.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub of: Of,
    /// Cures as written; without any, the usual ones.
    #[serde(default)]
    pub cures: Vec<String>,
    #[serde(rename = "for")]
    pub goal: Goal,
    pub load: Filled,
    /// Seeds of each cure.
    pub seeds: u64,
    /// First seed.
    pub seed: u64,
    #[serde(default)]
    pub threads: Option<usize>,
    /// True to ask a twin that its recording rejects.
    #[serde(default)]
    pub anyway: bool,
}

/// Origin of the twin.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Of {
    /// Recording of `tailback test`.
    Recording(PathBuf),
    /// Known link.
    Link(Box<LinkSpec>),
}

impl Of {
    /// Reads what a user named: a recording's directory, else a link.
    ///
    /// # Errors
    /// Neither a recording nor a link.
    pub fn parse(name: &str, set: &[String]) -> anyhow::Result<Of> {
        if !Path::new(name).is_dir() {
            return Ok(Of::Link(Box::new(crate::links::parse(name, set)?)));
        }
        match set {
            [] => Ok(Of::Recording(name.into())),
            [first, ..] => Err(usage(format!(
                "--set {first} changes a link, and {name} is a recording: use its twin.toml"
            ))),
        }
    }
}

/// Ranked cures.
pub struct Answer {
    pub found: WhatIf,
    /// Doubt about the twin, if there is one.
    pub doubt: Option<String>,
}

/// Tries the cures of a plan.
///
/// # Errors
/// A recording that has no twin, a cure that cannot be read, an interruption.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
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
    let Homes {
        homes,
        error,
        doubt,
    } = homes(plan, &means, observer)?;
    let cures = cures(&plan.cures, &homes[0])?;
    let question = Question {
        homes,
        cures,
        goal: plan.goal,
        load: plan.load,
        seeds: plan.seeds,
        doubt: error,
    };
    let found = ask(&question, &means).map_err(|e| usage(e.to_string()))?;
    observer.tell(News::Finished);
    Ok(Answer { found, doubt })
}

/// Cures as written, behind the link as it is; without any, the usual ones.
///
/// # Errors
/// A cure that cannot be read.
pub(crate) fn cures(written: &[String], home: &Home) -> anyhow::Result<Vec<Cure>> {
    if written.is_empty() {
        return Ok(cure::usual(home));
    }
    let mut all = vec![Cure::none()];
    for text in written {
        all.push(Cure::parse(text).map_err(|e| usage(e.to_string()))?);
    }
    Ok(all)
}

/// Homes behind the twins.
pub(crate) struct Homes {
    pub(crate) homes: Vec<Home>,
    /// Errors of the twins' delays.
    pub(crate) error: Doubt,
    /// Doubt about them, in words.
    pub(crate) doubt: Option<String>,
}

/// Homes behind the twins of a plan.
///
/// # Errors
/// A recording that has no twin, or a rejected one.
pub(crate) fn homes(plan: &Plan, means: &Means, observer: &dyn Observer) -> anyhow::Result<Homes> {
    let home = |link: LinkSpec, controller: &str, burst: u64| Home {
        link,
        router: None,
        controller: Arc::new(
            controller
                .parse()
                .unwrap_or_else(|_| "cubic".parse().expect("cubic is in the table")),
        ),
        ecn: false,
        burst,
    };
    let path = match &plan.of {
        Of::Link(link) => {
            return Ok(Homes {
                homes: vec![home((**link).clone(), "cubic", 1)],
                error: Doubt::default(),
                doubt: None,
            });
        }
        Of::Recording(path) => path,
    };
    let twin = match kept(path)? {
        Some(twin) => twin,
        None => {
            observer.say("The recording has no twin yet: fitting one.");
            let recording = whole(Source { path, observer })?;
            let twin = ::twin::fit(&recording, means);
            let twin = twin.map_err(|e| usage(format!("{}: {e}", path.display())))?;
            keep(path, &twin)?;
            twin
        }
    };
    let doubt = match twin.trust {
        Trust::Agrees => None,
        Trust::Rejected if !plan.anyway => {
            return Err(usage(format!(
                "the twin of {} is not this link, so its answers would be about another one: {}. `tailback twin` shows the comparison; --anyway asks it all the same",
                path.display(),
                twin.because.first().map_or("", String::as_str)
            )));
        }
        Trust::Doubtful | Trust::Rejected => Some(twin.because.join("; ")),
    };
    let links = twin.alike(MOST_TWINS);
    let homes = links
        .into_iter()
        .map(|link| home(link, &twin.controller, twin.burst));
    Ok(Homes {
        homes: homes.collect(),
        error: twin.doubt(),
        doubt,
    })
}

/// Keeps a twin in its recording.
///
/// # Errors
/// A directory that cannot be written to.
pub(crate) fn keep(recording: &Path, twin: &Twin) -> anyhow::Result<()> {
    let text = serde_json::to_string_pretty(twin).context("the twin")?;
    write_file(&recording.join(KEPT), &text)?;
    write_file(&recording.join("twin.toml"), &twin.link.to_toml())
}

/// Twin that a recording holds, if this version wrote it.
fn kept(recording: &Path) -> anyhow::Result<Option<Twin>> {
    let path = recording.join(KEPT);
    if !path.is_file() {
        return Ok(None);
    }
    let text = read_text(&path)?;
    let twin: Option<Twin> = serde_json::from_str(&text).ok();
    Ok(twin.filter(|t| t.version == ::twin::answer::TWIN_VERSION))
}

impl Answer {
    /// Figures as JSON.
    ///
    /// # Errors
    /// Figures that are no JSON, which cannot happen.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        let mut json = serde_json::to_value(&self.found)?;
        json["doubt"] = serde_json::to_value(&self.doubt)?;
        Ok(json)
    }

    /// Text for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        text::whatif(self, width)
    }

    /// HTML page.
    pub fn page(&self) -> String {
        page::page(self).html()
    }
}
