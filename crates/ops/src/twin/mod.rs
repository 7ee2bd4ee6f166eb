//! `tailback twin`: a model of a link, fitted to a recording of `tailback test` and checked.

mod export;
mod page;
mod text;

use crate::progress::{Event as News, Observer, Shared};
use crate::scan::{Source, whole};
use crate::{Progress, threads, usage, write_file};
pub use ::twin::Trust;
use ::twin::{Means, Twin};
use anyhow::Context;
use link::LinkSpec;
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};

/// Recording to fit a link to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub recording: PathBuf,
    /// Link to check against the recording, instead of a fitted one.
    #[serde(default)]
    pub link: Option<LinkSpec>,
    /// Link file to write; by default `twin.toml` in the recording.
    #[serde(default)]
    pub output: Option<PathBuf>,
    /// Directory for the link's files of other emulators.
    #[serde(default)]
    pub export: Option<PathBuf>,
    /// First seed of the simulated runs.
    #[serde(default = "one")]
    pub seed: u64,
    #[serde(default)]
    pub threads: Option<usize>,
}

fn one() -> u64 {
    1
}

/// Twin, and the file that holds it.
pub struct Answer {
    pub twin: Twin,
    /// Link file; none if a link was checked.
    pub wrote: Option<PathBuf>,
}

/// Fits a twin, or checks a given link.
///
/// # Errors
/// A recording that cannot be read or fitted, and a link file that cannot be written.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    observer.tell(News::Interruptible);
    let recording = whole(Source {
        path: &plan.recording,
        observer,
    })?;
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
    let twin = match &plan.link {
        None => ::twin::fit(&recording, &means),
        Some(link) => ::twin::check(&recording, link, &means),
    };
    let twin = twin.map_err(|e| usage(format!("{}: {e}", plan.recording.display())))?;
    let wrote = match plan.link {
        Some(_) => None,
        None => {
            let inside = plan.recording.join("twin.toml");
            let path = plan.output.clone().unwrap_or(inside);
            match &plan.output {
                Some(path) => write_file(path, &twin.link.to_toml())?,
                // `tailback whatif` finds it there.
                None => crate::whatif::keep(&plan.recording, &twin)?,
            }
            observer.wrote(&path);
            Some(path)
        }
    };
    if let Some(folder) = &plan.export {
        std::fs::create_dir_all(folder)
            .with_context(|| format!("cannot make the directory {}", folder.display()))?;
        for file in export::files(&twin.link) {
            let path = folder.join(file.name);
            write_file(&path, &file.text)?;
            observer.wrote(&path);
        }
    }
    observer.tell(News::Finished);
    Ok(Answer { twin, wrote })
}

impl Answer {
    /// Figures as JSON.
    ///
    /// # Errors
    /// Figures that are no JSON, which cannot happen.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::to_value(&self.twin)?)
    }

    /// Text for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        text::twin(&self.twin, self.wrote.as_deref(), width)
    }

    /// HTML page.
    pub fn page(&self) -> String {
        page::page(&self.twin).html()
    }
}
