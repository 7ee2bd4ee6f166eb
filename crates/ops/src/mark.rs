//! `tailback mark`: moments of a recording that a user marks, by hand or by a command.

use crate::progress::{Event as News, Observer, Shared};
use crate::scan::{self, Contents, Source};
use crate::{Progress, times, usage};
use analysis::moments::{LONGEST, Moment};
use anyhow::Context;
use base::record::Row;
use jiff::tz::TimeZone;
use live::clock::wall_ns;
use live::printed::{Line, Printed};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::path::{Path, PathBuf};
use std::time::Duration;
use store::Lock;

/// Version of the shape in `--json`.
const MARKS_VERSION: u32 = 1;
/// Longest time that lines wait to be written together.
const ROUND: Duration = Duration::from_millis(200);
/// Most moments of one command: it may print without end.
const MOST: usize = 1_000;

/// Recording, and what is marked in it. Without a text and a command, its moments are listed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub recording: PathBuf,
    pub text: Option<String>,
    /// Time of the moment, such as 2026-05-16T09:17; by default now.
    pub at: Option<String>,
    /// Time zone of times without one; by default this host's.
    pub zone: Option<String>,
    /// Command of which each printed line is a moment.
    pub command: Option<String>,
}

/// Marked moments of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Marks {
    /// Version of the shape.
    pub version: u32,
    /// Number of moments that this run added.
    pub added: usize,
    /// All moments of the recording, in the order of time.
    pub moments: Vec<Moment>,
}

/// Answer of `tailback mark`.
pub struct Answer {
    pub marks: Marks,
    /// Zone of the times in the text.
    zone: TimeZone,
}

impl Answer {
    /// Text for a terminal of this width: all moments, a line each.
    pub fn text(&self, width: usize) -> String {
        match self.marks.moments.is_empty() {
            true => "No moment is marked.\n".into(),
            false => report::statistics::moments(&self.marks.moments, &self.zone).text(width),
        }
    }
}

/// Marks moments, and returns all of the recording.
///
/// # Errors
/// A recording that cannot be read or added to, a time outside it, a command that fails.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let zone = times::zone(plan.zone.as_deref())?;
    let from = Source {
        path: &plan.recording,
        observer,
    };
    let added = match (&plan.text, &plan.command) {
        (Some(_), Some(_)) => {
            return Err(usage("give a text or --mark-on, not both"));
        }
        (Some(text), None) => by_hand(plan, text, from, &zone)?,
        (None, Some(command)) => by_command(plan, command, from)?,
        (None, None) if plan.at.is_some() => return Err(usage("--at needs a text")),
        (None, None) => 0,
    };
    Ok(Answer {
        marks: Marks {
            version: MARKS_VERSION,
            added,
            moments: scan::moments(from)?,
        },
        zone,
    })
}

/// Marks one moment.
fn by_hand(plan: &Plan, text: &str, from: Source<'_>, zone: &TimeZone) -> anyhow::Result<usize> {
    if text.chars().count() > LONGEST {
        return Err(usage(format!(
            "the text has more than {LONGEST} characters: a plot has no room for it"
        )));
    }
    let t_ns = match &plan.at {
        Some(at) => {
            let t_ns = times::instant("--at", at, zone)?;
            check_inside(from, t_ns, at)?;
            t_ns
        }
        None => {
            check_open(from)?;
            wall_ns()
        }
    };
    let moment = Moment::new(t_ns, text).ok_or_else(|| usage("the text is empty"))?;
    add(from.path, &[moment])?;
    Ok(1)
}

/// Marks a moment for each line that a command prints, until it ends or the user stops it.
fn by_command(plan: &Plan, command: &str, from: Source<'_>) -> anyhow::Result<usize> {
    if plan.at.is_some() {
        return Err(usage(
            "--at is of a text: lines of --mark-on have their own times",
        ));
    }
    check_open(from)?;
    from.observer.tell(News::Interruptible);
    let mut printed = Printed::start(command).context("cannot start the command of --mark-on")?;
    let mut added = 0;
    while !from.observer.interrupted() {
        let Ok(first) = printed.wait(ROUND) else {
            break;
        };
        let mut lines: Vec<Line> = first.into_iter().collect();
        while let Ok(Some(line)) = printed.wait(Duration::ZERO) {
            lines.push(line);
            if lines.len() >= MOST {
                break;
            }
        }
        let moments = lines.iter().filter_map(|l| Moment::new(l.t_ns, &l.text));
        let moments: Vec<Moment> = moments.take(MOST - added).collect();
        if !moments.is_empty() {
            add(from.path, &moments)?;
            added += moments.len();
            for m in &moments {
                from.observer.say(&format!("marked: {}", m.text));
            }
        }
        if added >= MOST {
            let what = format!("--mark-on: {MOST} lines are marked; the command is ended");
            from.observer.warn(&what);
            return Ok(added);
        }
    }
    if let Some(status) = printed.status()?
        && !status.success()
    {
        anyhow::bail!("--mark-on: the command ended with {status}; {added} lines of it are marked");
    }
    Ok(added)
}

/// Adds moments to a recording, beside its writer.
fn add(recording: &Path, moments: &[Moment]) -> anyhow::Result<()> {
    let rows: Vec<Row> = moments.iter().map(|m| m.event().into()).collect();
    let offset = jiff::Zoned::now().offset().seconds();
    Ok(store::append(recording, &rows, offset)?)
}

/// Refuses to mark the present in a recording that nobody writes.
fn check_open(from: Source<'_>) -> anyhow::Result<()> {
    scan::meta(from)?;
    if Lock::held_by(from.path).is_some() {
        return Ok(());
    }
    Err(usage(format!(
        "no process writes {}: name the time with --at, such as --at 2026-05-16T09:17",
        from.display()
    )))
}

/// Refuses a time before or after the rows of a recording.
fn check_inside(from: Source<'_>, t_ns: i64, at: &str) -> anyhow::Result<()> {
    let Some((first, last)) = Contents::of(from)?.span else {
        return Ok(());
    };
    let is_open = Lock::held_by(from.path).is_some();
    let last = if is_open { last.max(wall_ns()) } else { last };
    if (first..=last).contains(&t_ns) {
        return Ok(());
    }
    Err(usage(format!(
        "--at {at}: the recording is from {} to {}",
        times::stamp(first),
        times::stamp(last)
    )))
}

/// Lines of a monitor's command of --mark-on, which become moments.
pub(crate) struct Follower {
    printed: Option<Printed>,
    added: usize,
}

impl Follower {
    /// Starts the command, if there is one.
    ///
    /// # Errors
    /// The shell cannot be started.
    pub(crate) fn start(command: Option<&str>) -> anyhow::Result<Follower> {
        let started = command.map(Printed::start).transpose();
        Ok(Follower {
            printed: started.context("cannot start the command of --mark-on")?,
            added: 0,
        })
    }

    /// Rows of the lines since the last call. The end of the command is reported once.
    pub(crate) fn rows(&mut self, observer: &dyn Observer) -> Vec<Row> {
        let mut rows = Vec::new();
        while let Some(printed) = &self.printed {
            match printed.wait(Duration::ZERO) {
                Ok(Some(line)) => {
                    let moment = Moment::new(line.t_ns, &line.text);
                    rows.extend(moment.map(|m| Row::from(m.event())));
                }
                Ok(None) => break,
                Err(_) => {
                    observer.warn("the command of --mark-on has ended");
                    self.printed = None;
                }
            }
            if self.added + rows.len() >= MOST {
                observer.warn(&format!(
                    "--mark-on: {MOST} lines are marked; the command is ended"
                ));
                self.printed = None;
            }
        }
        self.added += rows.len();
        rows
    }
}
