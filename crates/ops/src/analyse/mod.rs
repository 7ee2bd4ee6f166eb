//! `tailback analyse`: the figures of recordings.

mod counted;
pub mod hidden_queue;
mod layout;
mod paths;
pub(crate) mod patterns;
pub(crate) mod probes;
mod spans;

use crate::progress::{Observer, Shared};
use crate::scan::{self, Source};
use crate::statistics::{self, Ask, NoProbes};
use crate::{Progress, queue_samples, times, trace, usage};
use analysis::answer::Answer as TestAnswer;
use analysis::compare::{self, SideBySide};
use analysis::counted::CountedTraffic;
use analysis::hidden_queue::HiddenQueue;
use analysis::inside::Inside;
use analysis::services::Can;
use analysis::statistics::{Statistics, TargetStatistics};
use analysis::together::{Link, Together, together};
use analysis::which_queue::{WhichQueue, which_queue};
use base::record::{Meta, Recording, TableId};
use base::{BitsPerSec, Duration};
use experiment::ProbeAnswer;
use experiment::routes::Routes;
use jiff::tz::TimeZone;
use layout::Layout;
use report::Table;
use report::terminal::Style;
use serde::{Deserialize, Serialize};
use std::io::Write;
use std::path::PathBuf;

/// Question to recordings. Times, spans and files are as a person writes them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    pub recordings: Vec<PathBuf>,
    /// True to give statistics, even of a test.
    pub statistics: bool,
    /// Begin of the time range, such as 2026-05-16T09:17 or 2026-05-16T07:17:20Z.
    pub from: Option<String>,
    pub to: Option<String>,
    /// Time zone of days and of times without one; by default this host's.
    pub zone: Option<String>,
    /// Length of the windows that get figures of their own.
    pub window: Option<Duration>,
    /// Length of the sliding window.
    pub sliding: Option<Duration>,
    /// Further spans as NAME=FROM/TO.
    pub spans: Vec<String>,
    /// File of times to exclude.
    pub exclude: Option<PathBuf>,
    /// True to exclude times in which the base line shows a fault of the instrument.
    pub exclude_faults: bool,
    /// Limits of reliability in ms.
    pub limits: Vec<f64>,
    /// Tables of services: `built-in` or files.
    pub services: Vec<String>,
    /// True if a failing service fails the run.
    pub fail: bool,
    /// True to treat the recordings as redundant uplinks.
    pub together: bool,
    /// Interval between RTT samples for the estimate of a modem's hidden queue; none for other figures.
    pub hidden_queue: Option<Duration>,
    /// True to judge the queue alone.
    pub queue: bool,
    /// True to look for patterns of radio and satellite links alone.
    pub patterns: bool,
    /// True to look for changes of routes alone.
    pub paths: bool,
    /// File that lays out the tables.
    pub tables: Option<PathBuf>,
    /// Uplink rate; by default estimated, if possible.
    pub rate_up: Option<BitsPerSec>,
    pub rate_down: Option<BitsPerSec>,
    /// Target to analyse, instead of all.
    pub target: Option<String>,
    pub threads: Option<usize>,
    /// True to print all tables of statistics instead of one screen.
    pub full: bool,
}

/// Figures of recordings.
pub struct Answer {
    pub found: Found,
    /// Zone of the times in the text.
    pub zone: TimeZone,
    /// True if a service or a use fails, in the whole or any part.
    pub fails: bool,
    /// True if the text of statistics has all tables; otherwise it fits a screen.
    pub full: bool,
}

/// Figures by the kind of recording and of question.
pub enum Found {
    /// Queue of each recording.
    Queues(Vec<WhichQueue>),
    /// Patterns of radio and satellite links in each recording.
    Patterns(Vec<patterns::RecordingPatterns>),
    /// Routes of each path over time.
    Routes(Vec<Routes>),
    /// Answer of one probe's recording.
    Probe(Box<(ProbeAnswer, Meta)>),
    /// Several recordings of one kind of probe, by name.
    Probes(Vec<(String, ProbeAnswer)>),
    /// A capture's recording.
    Capture(Box<trace::Loaded>),
    /// A test's recording.
    Test(Box<(TestAnswer, Recording)>),
    HiddenQueue(Box<HiddenQueue>),
    /// Queues and transfers of a recording without probes.
    QueueSamples(Box<Inside>),
    /// Traffic of a recording without probes.
    Traffic(Box<CountedTraffic>),
    Statistics(Box<Statistics>),
    /// Tables in the layout of a file, one list for each recording.
    Laid(Vec<Vec<(String, Table)>>),
    /// Several recordings side by side.
    Compared(Box<SideBySide>),
}

/// Form of an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    Text,
    Json,
    Markdown,
    Csv,
}

impl Plan {
    /// True if only statistics answer the question.
    fn asks_for_statistics(&self) -> bool {
        let given = [&self.from, &self.to, &self.zone, &self.target];
        self.statistics
            || self.exclude_faults
            || given.iter().any(|a| a.is_some())
            || self.window.is_some()
            || self.sliding.is_some()
            || !self.spans.is_empty()
            || self.exclude.is_some()
            || !self.limits.is_empty()
            || !self.services.is_empty()
            || self.rate_up.is_some()
            || self.rate_down.is_some()
            || self.fail
            || self.together
            || self.hidden_queue.is_some()
            || self.tables.is_some()
    }

    /// True if the text has all tables: one of them was asked for.
    fn asks_for_tables(&self) -> bool {
        self.full
            || self.window.is_some()
            || self.sliding.is_some()
            || !self.spans.is_empty()
            || !self.limits.is_empty()
            || !self.services.is_empty()
    }

    /// True if queues and transfers may answer the question of a recording without probes.
    fn takes_without_probes(&self) -> bool {
        self.recordings.len() == 1
            && !(self.fail || self.together || self.tables.is_some() || self.window.is_some())
            && self.services.is_empty()
            && self.spans.is_empty()
            && self.limits.is_empty()
            && self.target.is_none()
    }
}

/// Reads the recordings and answers the plan.
///
/// # Errors
/// Recordings that cannot be read, and plans that do not fit them.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    if plan.recordings.is_empty() {
        return Err(usage("give at least one recording"));
    }
    times::zone(plan.zone.as_deref())?;
    if plan.queue {
        if plan.asks_for_statistics() {
            return Err(usage(
                "--queue judges the whole recording: leave out all other options but --json",
            ));
        }
        return Ok(plain(queues(plan, observer)?));
    }
    if plan.patterns {
        if plan.asks_for_statistics() {
            return Err(usage(
                "--patterns reads whole recordings: leave out all other options but --json",
            ));
        }
        let one = |path: &PathBuf| patterns::of(Source { path, observer });
        let all: anyhow::Result<Vec<_>> = plan.recordings.iter().map(one).collect();
        return Ok(plain(Found::Patterns(all?)));
    }
    if plan.paths {
        let but_zone = Plan {
            zone: None,
            ..plan.clone()
        };
        if but_zone.asks_for_statistics() {
            return Err(usage(
                "--paths reads whole recordings: leave out all other options but --zone and --json",
            ));
        }
        let ask = spans::ask(plan)?;
        let all = plan.recordings.iter();
        let all: Vec<Source> = all.map(|path| Source { path, observer }).collect();
        return Ok(answer(Found::Routes(paths::of(&all)?), ask.zone, false));
    }
    if !plan.asks_for_statistics()
        && let Some(found) = by_kind(plan, observer)?
    {
        return Ok(plain(found));
    }
    let mut ask = spans::ask(plan)?;
    if let Some(every) = plan.hidden_queue {
        let found = hidden(plan, &ask, every, observer)?;
        return Ok(answer(found, ask.zone, false));
    }
    let layout = match &plan.tables {
        Some(path) => Some(Layout::read(path, &mut ask)?),
        None => None,
    };
    let mut all = Vec::new();
    for path in &plan.recordings {
        let from = Source { path, observer };
        match one(from, &ask, plan.exclude_faults) {
            Ok(s) => all.push((from, s)),
            Err(why) if why.is::<NoProbes>() && plan.takes_without_probes() => {
                let found = without_probes(from, &ask, why)?;
                return Ok(answer(found, ask.zone, false));
            }
            Err(why) => return Err(why),
        }
    }
    let fails = match plan.services.is_empty() {
        true => all.iter().any(|(_, s)| a_use_fails(s)),
        false => all.iter().any(|(_, s)| failing(s)),
    };
    let found = match (layout, plan.together) {
        (Some(layout), _) => {
            let laid = |(_, s): &(Source, Statistics)| layout.tables(s, main_target(s), &ask.zone);
            Found::Laid(all.iter().map(laid).collect())
        }
        (None, false) if all.len() == 1 => {
            let (_, only) = all.swap_remove(0);
            Found::Statistics(Box::new(only))
        }
        (None, together) => several(all, &ask, together)?,
    };
    Ok(Answer {
        full: plan.asks_for_tables(),
        ..answer(found, ask.zone, fails)
    })
}

fn answer(found: Found, zone: TimeZone, fails: bool) -> Answer {
    Answer {
        found,
        zone,
        fails,
        full: false,
    }
}

/// Answer whose text has no times of a zone.
fn plain(found: Found) -> Answer {
    answer(found, TimeZone::UTC, false)
}

/// Answer determined by the recording's kind; `None` if statistics are needed.
fn by_kind(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<Option<Found>> {
    let source = |path| Source { path, observer };
    let [path] = &plan.recordings[..] else {
        let probes = plan.recordings.iter().map(|p| probes::made(source(p)));
        let probes: Vec<bool> = probes.collect::<anyhow::Result<_>>()?;
        return Ok(match probes.iter().all(|p| *p) {
            true => Some(Found::Probes(probes::answers(&plan.recordings, observer)?)),
            false => None,
        });
    };
    let from = source(path);
    Ok(if probes::made(from)? {
        Some(Found::Probe(Box::new(probes::answer(from)?)))
    } else if trace::made(from)? {
        Some(Found::Capture(Box::new(trace::load(from)?)))
    } else if has_phases(from)? {
        Some(Found::Test(Box::new(test(from)?)))
    } else {
        None
    })
}

/// Judges the queue of each recording.
fn queues(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<Found> {
    let one = |path: &PathBuf| {
        let recording = scan::whole(Source { path, observer })?;
        Ok(which_queue(&recording))
    };
    let all: anyhow::Result<Vec<_>> = plan.recordings.iter().map(one).collect();
    Ok(Found::Queues(all?))
}

/// Compares recordings; the targets of a single one count as its links.
fn several(all: Vec<(Source<'_>, Statistics)>, ask: &Ask, as_one: bool) -> anyhow::Result<Found> {
    let named: Vec<(String, &Statistics, &TargetStatistics)> = match &all[..] {
        // The links of one place may be targets of one recording.
        [(_, s)] => s.targets.iter().map(|t| (t.target.clone(), s, t)).collect(),
        _ => all
            .iter()
            .map(|(from, s)| (from.display().to_string(), s, main_target(s)))
            .collect(),
    };
    let joint = match as_one {
        true => Some(joined(&all, &named, ask)?),
        false => None,
    };
    let comparison = compare::compare(&named);
    Ok(Found::Compared(Box::new(SideBySide {
        version: compare::COMPARISON_VERSION,
        comparison,
        recordings: all.into_iter().map(|(_, s)| s).collect(),
        together: joint,
    })))
}

fn joined(
    all: &[(Source<'_>, Statistics)],
    named: &[(String, &Statistics, &TargetStatistics)],
    ask: &Ask,
) -> anyhow::Result<Together> {
    let mut links = Vec::new();
    for (i, (name, _, t)) in named.iter().enumerate() {
        let from = all[i.min(all.len() - 1)].0;
        links.push(Link {
            name: name.clone(),
            statistics: t,
            probes: statistics::missed(from, &t.target, (t.interval_ms * 1e6) as i64, ask)?,
        });
    }
    together(links, &ask.limits_ns).map_err(|e| usage(format!("--together: {e}")))
}

fn failing(s: &Statistics) -> bool {
    let verdicts = s.targets.iter().flat_map(|t| &t.services);
    verdicts.flat_map(|v| &v.spans).any(|j| j.can == Can::Fail)
}

/// True if a use of a home fails at a target.
fn a_use_fails(s: &Statistics) -> bool {
    let uses = s.targets.iter().flat_map(|t| &t.uses);
    uses.map(|u| u.can).any(|can| can == Can::Fail)
}

/// Figures of queues and transfers alone; `why` is the reason why there are no others.
fn without_probes(from: Source<'_>, ask: &Ask, why: anyhow::Error) -> anyhow::Result<Found> {
    if queue_samples::had_probes(from) {
        return Err(why);
    }
    match queue_samples::gathered(from, ask.from_ns, ask.to_ns)? {
        Some((answer, _)) => Ok(Found::QueueSamples(Box::new(answer))),
        None => match counted::counted(from, ask)? {
            Some(traffic) => Ok(Found::Traffic(Box::new(traffic))),
            None => Err(why),
        },
    }
}

/// Estimates the modem's hidden queue from bytes sent and one RTT sample per interval.
fn hidden(
    plan: &Plan,
    ask: &Ask,
    every: Duration,
    observer: &dyn Observer,
) -> anyhow::Result<Found> {
    let [path] = &plan.recordings[..] else {
        return Err(usage("--hidden-queue is of one recording"));
    };
    if every < Duration::from_millis(1) {
        return Err(usage(format!(
            "--every {every}: give a time of a millisecond or more, such as 1s"
        )));
    }
    let found = hidden_queue::analysed(Source { path, observer }, ask, every)?;
    Ok(Found::HiddenQueue(Box::new(found)))
}

/// Answer of a test's recording, and the recording.
pub(crate) fn test(from: Source<'_>) -> anyhow::Result<(TestAnswer, Recording)> {
    let recording = scan::whole(from)?;
    let answer = analysis::analyse_test(&recording, &analysis::Options::default())?;
    Ok((answer, recording))
}

/// True if the recording has the phases of a test.
pub(crate) fn has_phases(from: Source<'_>) -> anyhow::Result<bool> {
    scan::meta(from)?;
    let mut words = Vec::new();
    let mut found = false;
    scan::scan(from, TableId::Event, &["kind"], &mut |rows| {
        rows.words("kind", &mut words);
        found |= words.iter().any(|w| **w == *"phase");
    })?;
    Ok(found)
}

fn one(from: Source<'_>, ask: &Ask, without_faults: bool) -> anyhow::Result<Statistics> {
    let s = statistics::statistics(from, ask)?;
    let faults = statistics::faults(&s);
    if !without_faults || faults.is_empty() {
        return Ok(s);
    }
    let mut again = ask.clone();
    again.exclusions.extend(faults);
    statistics::statistics(from, &again)
}

/// Target of our own probes, or the target that was probed most.
pub(crate) fn main_target(s: &Statistics) -> &TargetStatistics {
    let own = s.targets.iter().find(|t| t.target == "udp");
    own.or_else(|| s.targets.iter().max_by_key(|t| t.whole.sent))
        .expect("statistics have at least one target")
}

impl Answer {
    /// Writes the answer in a format. Text, Markdown and CSV are equal if an answer has no tables.
    ///
    /// # Errors
    /// Errors of the writer.
    pub fn write(&self, format: Format, style: Style, out: &mut dyn Write) -> anyhow::Result<()> {
        match format {
            Format::Json => self.json(out),
            Format::Text => Ok(out.write_all(self.text(style).as_bytes())?),
            Format::Markdown | Format::Csv => {
                Ok(out.write_all(self.tables(format, style).as_bytes())?)
            }
        }
    }

    fn json(&self, out: &mut dyn Write) -> anyhow::Result<()> {
        match &self.found {
            Found::Queues(all) => all.iter().try_for_each(|q| pretty(q, out)),
            Found::Patterns(all) => pretty(all, out),
            Found::Routes(all) => pretty(all, out),
            Found::Probe(probe) => pretty(&probe.0, out),
            Found::Probes(named) => pretty(&named.iter().map(|(_, a)| a).collect::<Vec<_>>(), out),
            Found::Capture(loaded) => {
                loaded.json(&mut *out, true).map_err(std::io::Error::from)?;
                Ok(writeln!(out)?)
            }
            Found::Test(test) => pretty(&test.0, out),
            Found::HiddenQueue(answer) => pretty(answer, out),
            Found::QueueSamples(answer) => pretty(answer, out),
            Found::Traffic(traffic) => pretty(traffic, out),
            Found::Statistics(s) => pretty(s, out),
            Found::Compared(all) => pretty(all, out),
            // Tables for people: `analyse` without a layout has the figures.
            Found::Laid(_) => Ok(out.write_all(self.tables(Format::Csv, PLAIN).as_bytes())?),
        }
    }

    /// Text of the answer for a terminal.
    pub fn text(&self, style: Style) -> String {
        use report::terminal;
        let zone = &self.zone;
        match &self.found {
            Found::Queues(all) => {
                let text = all.iter().map(|q| terminal::which_queue(q, style));
                text.collect()
            }
            Found::Patterns(all) => patterns::text(all, style),
            Found::Routes(all) => paths::text(all, style, zone),
            Found::Probe(probe) => terminal::probe(&probe.0, &probe.1, style),
            Found::Probes(named) => {
                terminal::captioned(&report::again::tables(named), style)
                    + &terminal::pictures(&report::again::over_the_day(named), style)
            }
            Found::Capture(loaded) => loaded.text(style.width),
            Found::Test(test) => terminal::text(&test.0, &test.1, style),
            Found::HiddenQueue(answer) => {
                terminal::captioned(&[report::hidden_queue::table(answer, zone)], style)
            }
            Found::QueueSamples(answer) => terminal::inside(answer, style, zone),
            Found::Traffic(traffic) => terminal::counted(traffic, style, zone),
            Found::Statistics(s) if self.full => terminal::statistics(s, style, zone),
            Found::Statistics(s) => terminal::overview(s, style, zone),
            Found::Laid(all) => {
                let each = all.iter().map(|tables| terminal::captioned(tables, style));
                each.collect()
            }
            Found::Compared(all) => {
                terminal::comparison(&all.comparison, all.together.as_ref(), style, zone)
            }
        }
    }

    fn tables(&self, format: Format, style: Style) -> String {
        let form: fn(&[Table]) -> String = match format {
            Format::Markdown => report::statistics::markdown,
            _ => report::statistics::csv,
        };
        match &self.found {
            Found::HiddenQueue(answer) => {
                form(&[report::hidden_queue::table(answer, &self.zone).1])
            }
            Found::QueueSamples(answer) => form(&report::inside::tables(answer)),
            Found::Traffic(traffic) => form(&report::counted::all(traffic, &self.zone)),
            Found::Statistics(s) if format == Format::Csv => report::tidy::csv(s),
            Found::Statistics(s) => form(&report::statistics::all(s, &self.zone)),
            Found::Laid(all) => {
                let lines = if format == Format::Markdown {
                    "\n\n"
                } else {
                    "\n"
                };
                let each = all.iter().flatten();
                each.map(|(caption, t)| {
                    format!("{caption}{lines}{}", form(std::slice::from_ref(t)))
                })
                .collect()
            }
            Found::Compared(all) => {
                let mut tables = report::statistics::comparison(&all.comparison);
                tables.extend(all.together.iter().map(report::statistics::together));
                form(&tables)
            }
            Found::Queues(_)
            | Found::Patterns(_)
            | Found::Routes(_)
            | Found::Probe(_)
            | Found::Probes(_)
            | Found::Capture(_)
            | Found::Test(_) => self.text(style),
        }
    }
}

/// Style without a terminal.
const PLAIN: Style = Style {
    width: 100,
    colour: false,
    unicode: true,
};

/// Writes a value as indented JSON and ends the line.
pub(crate) fn pretty(value: &impl Serialize, out: &mut dyn Write) -> anyhow::Result<()> {
    serde_json::to_writer_pretty(&mut *out, value).map_err(std::io::Error::from)?;
    Ok(writeln!(out)?)
}
