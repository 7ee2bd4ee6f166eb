//! `tailback compare`: recordings side by side, and if they differ by more than chance.

use crate::progress::{Observer, Shared};
use crate::scan::Source;
use crate::{Progress, analyse, report as drawing, usage, write_file};
use analysis::answer::Answer as TestAnswer;
use analysis::before_after::{self, BeforeAfter, Round};
use base::record::{Recording, Status};
use report::compared::Overlay;
use report::terminal::Style;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::{Path, PathBuf};

/// Networks to compare, the reference first.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub networks: Vec<Network>,
    /// Page to write.
    pub output: Option<PathBuf>,
}

/// Recordings of one network, a round each.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Network {
    pub name: String,
    /// Medium, such as cable or wireless.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub medium: Option<String>,
    pub rounds: Vec<PathBuf>,
}

impl Network {
    /// Reads a recording, `NAME=RECORDING,RECORDING…` or `MEDIUM/NAME=…`. A path that exists is a recording whatever its
    /// name.
    pub fn parse(text: &str) -> Network {
        match text.split_once('=') {
            Some((name, rounds)) if !Path::new(text).exists() => Network {
                name: name.to_owned(),
                medium: name.split_once('/').map(|(medium, _)| medium.to_owned()),
                rounds: rounds.split(',').map(PathBuf::from).collect(),
            },
            _ => Network {
                name: text.to_owned(),
                medium: None,
                rounds: vec![text.into()],
            },
        }
    }
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
    if plan.networks.len() < 2 {
        return Err(usage(
            "give at least two recordings: the first is the reference",
        ));
    }
    let recordings: Vec<&PathBuf> = plan.networks.iter().flat_map(|n| &n.rounds).collect();
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let source = |path| Source { path, observer };
    let are_tests = recordings.iter().map(|p| analyse::has_phases(source(p)));
    let are_tests: Vec<bool> = are_tests.collect::<anyhow::Result<_>>()?;
    if !are_tests.contains(&true) {
        drop(shared);
        return statistics(plan, progress);
    }
    if let Some(other) = are_tests.iter().position(|t| !t) {
        return Err(usage(format!(
            "{} is no test, and others are: compare tests with tests, or all with `tailback analyse --statistics`",
            recordings[other].display()
        )));
    }
    let mut all = Vec::new();
    let mut phases: Vec<Overlay> = Vec::new();
    for network in &plan.networks {
        let mut rounds = Vec::new();
        for path in &network.rounds {
            let (answer, recording) = analyse::test(source(path))?;
            if plan.output.is_some() {
                add_phases(&mut phases, &network.name, &answer, &recording);
            }
            rounds.push(Round::of(&answer));
        }
        all.push(before_after::Network {
            name: network.name.clone(),
            medium: network.medium.clone(),
            rounds,
        });
    }
    let found = before_after::compare(&all);
    if let Some(output) = &plan.output {
        write_file(output, &report::compared::tests_page(&found, &phases))?;
        observer.wrote(output);
    }
    Ok(Answer::Tests(found))
}

/// Compares recordings that are no tests, and draws their page.
fn statistics(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    if let Some(n) = plan.networks.iter().find(|n| n.rounds.len() > 1) {
        return Err(usage(format!(
            "{}: rounds are of tests, and these are other recordings",
            n.name
        )));
    }
    let recordings: Vec<PathBuf> = plan
        .networks
        .iter()
        .flat_map(|n| n.rounds.clone())
        .collect();
    if plan.output.is_some() {
        let page = drawing::Plan {
            recordings: recordings.clone(),
            output: plan.output.clone(),
            ..drawing::Plan::default()
        };
        drawing::run(&page, progress)?;
    }
    let plan = analyse::Plan {
        recordings,
        ..analyse::Plan::default()
    };
    Ok(Answer::Statistics(Box::new(analyse::run(&plan, progress)?)))
}

/// Adds the round trips of a test's phases to those of its network.
fn add_phases(all: &mut Vec<Overlay>, network: &str, answer: &TestAnswer, recording: &Recording) {
    for phase in &answer.phases {
        let during = phase.from_ns..phase.to_ns;
        let probes = recording
            .delay
            .iter()
            .filter(|d| during.contains(&d.sent_ns));
        let judged = probes.filter(|d| {
            !matches!(
                d.status,
                Status::Invalid | Status::Duplicate | Status::NotSent
            )
        });
        let rtts = judged.map(|d| d.rtt_ns.map(|ns| ns as f64 / 1e6));
        let at = all.iter().position(|o| o.phase == phase.name);
        let at = at.unwrap_or_else(|| {
            all.push(Overlay {
                phase: phase.name.clone(),
                networks: Vec::new(),
            });
            all.len() - 1
        });
        let networks = &mut all[at].networks;
        match networks.last_mut().filter(|(name, _)| name == network) {
            Some((_, probes)) => probes.extend(rtts),
            None => networks.push((network.to_owned(), rtts.collect())),
        }
    }
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
