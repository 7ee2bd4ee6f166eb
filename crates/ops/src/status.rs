//! `tailback status`: state of a monitor that runs elsewhere, from its recording.

use crate::progress::{Observer, Shared};
use crate::scan::{self, Source};
use crate::unsettled::Unsettled;
use crate::{Progress, usage};
use analysis::monitor_state::{Collected, MonitorState, Probe, STATE_VERSION, TargetState};
use base::Duration;
use base::print::{DELAY, SPAN, percent};
use base::record::{Status, TableId, Text};
use experiment::monitor::{MonitorPlan, Target};
use report::table::{Cell, Column, Table};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use store::Lock;

/// Shortest and longest time to look back.
pub(crate) const SHORTEST: Duration = Duration::from_secs(1);
pub(crate) const LONGEST: Duration = Duration::from_secs(7 * 86_400);

/// Recording of a monitor, and the time to look back.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plan {
    pub recording: PathBuf,
    /// Time before now to which the figures belong.
    pub last: Duration,
}

/// State of the monitor.
pub struct Answer {
    pub state: MonitorState,
}

impl Answer {
    /// # Errors
    /// None: a state is plain data.
    pub fn json(&self) -> anyhow::Result<serde_json::Value> {
        Ok(serde_json::to_value(&self.state)?)
    }

    /// Text for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let s = &self.state;
        const SECOND: i64 = 1_000_000_000;
        let at = crate::times::stamp(s.at_ns.div_euclid(SECOND) * SECOND);
        let head = match &s.writer {
            Some(writer) => format!("{}: {writer} writes it. {at}", s.title),
            None => format!("{}: no process writes it. Last row: {at}", s.title),
        };
        let title = format!("Last {}", SPAN.print(s.window_s));
        let mut out = report::terminal::wrapped(&head, width.min(110)).join("\n");
        out += "\n\n";
        out += &table(s, &title).text(width);
        out
    }

    /// Plain numbers, a row a target.
    pub fn csv(&self) -> String {
        let mut out = String::from(
            "target,rows,answered,lost,rtt_ms,median_ms,p95_ms,ipdv_ms,silent_s,is_out\n",
        );
        let number = |v: Option<f64>| v.map_or(String::new(), |v| v.to_string());
        for t in &self.state.targets {
            let name = match t.target.contains([',', '"', '\n']) {
                true => format!("\"{}\"", t.target.replace('"', "\"\"")),
                false => t.target.clone(),
            };
            let counts = [t.rows, t.answered, t.lost]
                .map(|n| n.to_string())
                .join(",");
            let figures = [t.rtt_ms, t.median_ms, t.p95_ms, t.ipdv_ms, t.silent_s];
            let figures = figures.map(number).join(",");
            let out_now = t.is_out.map_or(String::new(), |o| o.to_string());
            out += &format!("{name},{counts},{figures},{out_now}\n");
        }
        out
    }

    /// True if a target has been silent for longer than this, or if no process writes the recording.
    pub fn is_silent_for(&self, limit: Duration) -> bool {
        let late = |t: &TargetState| match t.silent_s {
            Some(s) => s > limit.as_secs_f64(),
            None => t.is_out != Some(false),
        };
        self.state.writer.is_none() || self.state.targets.iter().any(late)
    }
}

fn table(s: &MonitorState, title: &str) -> Table {
    let heads = ["target", "RTT", "median", "95 %", "IPDV", "lost"].map(Column::from);
    let heads = heads.into_iter().chain([Column::words("now")]);
    let delay = |ms: Option<f64>| Cell::from(ms.map(|ms| DELAY.print(ms)));
    let rows = s.targets.iter().map(|t| {
        let loss = t.loss.map(|l| format!("{} %", percent(l)));
        let now = match (t.is_out, t.silent_s) {
            (Some(true), Some(s)) => format!("no answer for {}", SPAN.print(s)),
            (Some(true), None) => "no answer in all this time".into(),
            (Some(false), Some(_)) => "answers".into(),
            (Some(false), None) => "no answer yet".into(),
            (None, _) => "-".into(),
        };
        let cells = vec![
            delay(t.rtt_ms),
            delay(t.median_ms),
            delay(t.p95_ms),
            delay(t.ipdv_ms),
            Cell::from(loss),
            Cell::from(now),
        ];
        (t.target.clone(), cells)
    });
    Table::new(title, heads).with(rows)
}

/// Reads the state of a monitor.
///
/// # Errors
/// A recording that cannot be read, or one of another verb.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let source = Source {
        path: &plan.recording,
        observer,
    };
    let meta = scan::meta(source)?;
    if meta.verb != "monitor" {
        return Err(usage(format!(
            "{} is not of a monitor: see it with `tailback analyse`",
            source.display()
        )));
    }
    if !(SHORTEST..=LONGEST).contains(&plan.last) {
        return Err(usage("--last must be from 1 s to 7 days"));
    }
    // A plan of another version has no targets that can be read: those of the rows remain.
    let planned: Option<MonitorPlan> = serde_json::from_value(meta.plan.clone()).ok();
    let planned = planned.map(|p| p.targets).unwrap_or_default();
    let owner = Lock::held_by(&plan.recording);
    let now_ns = live::clock::wall_ns();
    let window_ns = plan.last.as_nanos() as i64;
    let last_row_ns = match owner {
        Some(_) => None,
        None => last_row(source)?,
    };
    let at_ns = if owner.is_some() {
        now_ns
    } else {
        last_row_ns.unwrap_or(now_ns)
    };
    let from_ns = at_ns.saturating_sub(window_ns);
    let (mut collected, names) = collected(source, from_ns)?;
    let last_row_ns = collected.last_ns().or(last_row_ns);
    add_missing(source, from_ns, &mut collected)?;
    let interval_ns = |name: &str| {
        let target = planned.iter().find(|t| t.name() == name);
        target.map_or(0, |t| t.interval.as_nanos() as i64)
    };
    let mut all: Vec<String> = planned.iter().map(Target::name).collect();
    all.extend(
        names
            .into_iter()
            .filter(|n| !planned.iter().any(|t| t.name() == **n))
            .map(|n| n.to_string()),
    );
    let targets = all.iter().map(|name| {
        let time = (at_ns, window_ns);
        collected.state(name, time, interval_ns(name), owner.is_some())
    });
    let state = MonitorState {
        version: STATE_VERSION,
        title: meta.title,
        writer: owner.as_ref().map(ToString::to_string),
        at_ns,
        last_row_ns,
        window_s: plan.last.as_secs_f64(),
        targets: targets.collect(),
    };
    Ok(Answer { state })
}

/// Time of the latest probe of a recording that nobody writes.
fn last_row(from: Source<'_>) -> anyhow::Result<Option<i64>> {
    let mut last = None;
    scan::scan_last_day(from, TableId::Delay, &["sent_ns"], &mut |rows| {
        let sent = rows.ints("sent_ns");
        last = (0..rows.len()).filter_map(|i| sent.get(i)).max().max(last);
    })?;
    Ok(last)
}

/// Probes sent since a time, and the names of their targets in the order of their first row.
fn collected(from: Source<'_>, from_ns: i64) -> anyhow::Result<(Collected, Vec<Text>)> {
    let mut collected = Collected::default();
    let mut names: Vec<Text> = Vec::new();
    let mut words: Vec<Text> = Vec::new();
    let columns = ["seq", "sent_ns", "rtt_ns", "target", "status"];
    scan::scan_since(from, TableId::Delay, &columns, from_ns, &mut |rows| {
        let (seq, sent, rtt) = (rows.ints("seq"), rows.ints("sent_ns"), rows.ints("rtt_ns"));
        let (Some(targets), Some(states)) = (
            rows.words("target", &mut words),
            rows.words("status", &mut words),
        ) else {
            return;
        };
        let status = |word: &Text| Status::ALL.iter().copied().find(|s| s.word() == &**word);
        let status: Vec<Option<Status>> = words.iter().map(status).collect();
        for i in 0..rows.len() {
            let (Some(seq), Some(sent_ns), Some(status)) =
                (seq.get(i), sent.get(i), status[states[i] as usize])
            else {
                continue;
            };
            if sent_ns < from_ns {
                continue;
            }
            let name = &words[targets[i] as usize];
            if !names.contains(name) {
                names.push(name.clone());
            }
            let probe = Probe {
                seq,
                sent_ns,
                rtt_ns: rtt.get(i),
                status,
            };
            collected.push(name, probe);
        }
    })?;
    Ok((collected, names))
}

/// Adds the probes that are lost and have no row yet.
fn add_missing(from: Source<'_>, from_ns: i64, collected: &mut Collected) -> anyhow::Result<()> {
    for m in Unsettled::of(from)?.lost {
        if m.sent_ns >= from_ns {
            let probe = Probe {
                seq: m.seq,
                sent_ns: m.sent_ns,
                rtt_ns: None,
                status: Status::Lost,
            };
            collected.push(&m.target, probe);
        }
    }
    Ok(())
}
