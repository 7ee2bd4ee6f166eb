//! `tailback analyse --patterns`: patterns of radio and satellite links in a recording.

use crate::scan::{self, Source};
use analysis::patterns::{Found, Passage, Pattern, Patterns};
use base::print::DELAY;
use base::record::{Status, TableId, Text};
use report::table::{Cell, Column, Table, wrapped};
use report::terminal::Style;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Patterns of one recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct RecordingPatterns {
    /// Name of the recording.
    pub title: String,
    /// Patterns of each target with answers.
    pub targets: Vec<TargetPatterns>,
}

/// Patterns of one target.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetPatterns {
    pub target: String,
    pub patterns: Vec<Pattern>,
}

/// Probes that wait until all sent before them are known: rows are written when a probe's fate is.
const WAITING: usize = 4096;

#[derive(Default)]
struct Watched {
    waiting: BTreeMap<i64, Passage>,
    patterns: Patterns,
    answers: u64,
}

impl Watched {
    fn add(&mut self, p: Passage) {
        self.answers += u64::from(p.rtt_ns.is_some());
        self.waiting.insert(p.sent_ns, p);
        if self.waiting.len() > WAITING
            && let Some((_, first)) = self.waiting.pop_first()
        {
            self.patterns.add(first);
        }
    }

    fn finish(mut self) -> Vec<Pattern> {
        self.waiting
            .into_values()
            .for_each(|p| self.patterns.add(p));
        self.patterns.finish()
    }
}

/// Reads the probes of a recording.
pub(super) fn of(from: Source<'_>) -> anyhow::Result<RecordingPatterns> {
    let title = scan::meta(from)?.title;
    let mut targets: BTreeMap<Text, Watched> = BTreeMap::new();
    let (mut names, mut words): (Vec<Text>, Vec<Text>) = (Vec::new(), Vec::new());
    let columns = [
        "sent_ns",
        "rtt_ns",
        "remote_rx_ns",
        "remote_tx_ns",
        "target",
        "status",
        "late_send_ns",
    ];
    scan::scan(from, TableId::Delay, &columns, &mut |rows| {
        let [sent, rtt, rx, tx, late] = [
            "sent_ns",
            "rtt_ns",
            "remote_rx_ns",
            "remote_tx_ns",
            "late_send_ns",
        ]
        .map(|c| rows.ints(c));
        let Some(named) = rows.words("target", &mut names) else {
            return;
        };
        let Some(states) = rows.words("status", &mut words) else {
            return;
        };
        for i in 0..rows.len() {
            let state = &*words[states[i] as usize];
            let is_answered = state == Status::Ok.word() || state == Status::Late.word();
            let Some(sent_ns) = sent
                .get(i)
                .filter(|_| is_answered || state == Status::Lost.word())
            else {
                continue;
            };
            let passage = Passage {
                sent_ns,
                rtt_ns: rtt.get(i).filter(|_| is_answered),
                far_ns: rx.get(i).zip(tx.get(i)),
                late_ns: late.get(i),
            };
            targets
                .entry(names[named[i] as usize].clone())
                .or_default()
                .add(passage);
        }
    })?;
    let targets = targets.into_iter().filter(|(_, w)| w.answers > 0);
    Ok(RecordingPatterns {
        title,
        targets: targets
            .map(|(target, watched)| TargetPatterns {
                target: target.to_string(),
                patterns: watched.finish(),
            })
            .collect(),
    })
}

/// Text of the answer for a terminal.
pub(super) fn text(all: &[RecordingPatterns], style: Style) -> String {
    let mut out = String::new();
    for recording in all {
        let _ = writeln!(out, "{}", recording.title);
        for t in &recording.targets {
            let mut table = Table::new("", ["pattern", "found", "period"].map(Column::words));
            for p in &t.patterns {
                let found = match p.found {
                    Found::Yes => "yes",
                    Found::No => "no",
                    Found::CannotTell => "cannot tell",
                };
                let period = p.period_ms.as_ref();
                let period = period.map_or(Cell::Absent, |ms| Cell::figure(ms, DELAY));
                table.row(p.name.clone(), [Cell::from(found), period]);
            }
            let _ = write!(out, "\n{}\n{}", t.target, table.text(style.width));
            for p in &t.patterns {
                for line in wrapped(&format!("{}: {}", p.name, p.because), style.width) {
                    let _ = writeln!(out, "{line}");
                }
            }
        }
    }
    out
}
