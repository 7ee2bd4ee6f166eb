//! `tailback compare`: recordings side by side, and if they differ by more than chance.

use crate::progress::{Observer, Shared};
use crate::scan::Source;
use crate::{Progress, analyse, usage};
use analysis::before_after::{BeforeAfter, compare};
use report::terminal::Style;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;

/// Recordings to compare, the reference first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub recordings: Vec<PathBuf>,
}

/// Comparison by the kind of the recordings.
pub enum Answer {
    /// Tests.
    Tests(BeforeAfter),
    /// Statistics of any other recordings.
    Statistics(Box<analyse::Answer>),
}

/// Compares recordings.
///
/// # Errors
/// Fewer than two recordings, tests beside other recordings, and recordings that cannot be read.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    if plan.recordings.len() < 2 {
        return Err(usage(
            "give at least two recordings: the first is the reference",
        ));
    }
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let source = |path| Source { path, observer };
    let are_tests = plan
        .recordings
        .iter()
        .map(|p| analyse::has_phases(source(p)));
    let are_tests: Vec<bool> = are_tests.collect::<anyhow::Result<_>>()?;
    if !are_tests.contains(&true) {
        drop(shared);
        let plan = analyse::Plan {
            recordings: plan.recordings.clone(),
            ..analyse::Plan::default()
        };
        return Ok(Answer::Statistics(Box::new(analyse::run(&plan, progress)?)));
    }
    if let Some(other) = are_tests.iter().position(|t| !t) {
        return Err(usage(format!(
            "{} is no test, and others are: compare tests with tests, or all with `tailback analyse --statistics`",
            plan.recordings[other].display()
        )));
    }
    let mut all = Vec::new();
    for path in &plan.recordings {
        let (answer, _) = analyse::test(Source { path, observer })?;
        all.push((path.display().to_string(), answer));
    }
    Ok(Answer::Tests(compare(&all)))
}

impl Answer {
    /// Writes the answer as text, or as JSON.
    ///
    /// # Errors
    /// Errors of the output.
    pub fn write(&self, json: bool, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
        match (self, json) {
            (Answer::Tests(found), true) => {
                serde_json::to_writer_pretty(&mut *out, found)?;
                writeln!(out)?;
                Ok(())
            }
            (Answer::Tests(found), false) => {
                out.write_all(report::terminal::before_after(found, style).as_bytes())?;
                Ok(())
            }
            (Answer::Statistics(found), true) => found.write(analyse::Format::Json, style, out),
            (Answer::Statistics(found), false) => found.write(analyse::Format::Text, style, out),
        }
    }
}
