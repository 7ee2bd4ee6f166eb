//! State of a fleet in words: the table of its points, its log, and what is said of a point.

use super::{Hub, Log, ReleaseStatus, Status};
use report::table::{Cell, Column, Table};
use std::collections::BTreeMap;
use std::fmt::Write;

/// Sentences about a point's health and its runs.
///
/// # Errors
/// The ledger cannot be read.
pub fn about_point(hub: &Hub, name: &str) -> anyhow::Result<Vec<String>> {
    let status = hub.status()?;
    let Some(p) = status.points.iter().find(|p| p.name == name) else {
        return Ok(Vec::new());
    };
    let why = p.why.as_ref().map(|why| format!(": {why}"));
    let mut says = vec![format!("Health {}{}.", p.health, why.unwrap_or_default())];
    let runs: Vec<String> = p.runs.iter().map(|(how, n)| format!("{n} {how}")).collect();
    if !runs.is_empty() {
        says.push(format!("Runs: {}.", runs.join(", ")));
    }
    says.extend(p.remarks.iter().map(|remark| format!("{remark}.")));
    Ok(says)
}

/// Time since something, in the unit that suits it.
fn ago(s: i64) -> String {
    match s {
        ..120 => format!("{s} s ago"),
        120..7200 => format!("{} min ago", s / 60),
        7200..172_800 => format!("{} h ago", s / 3600),
        172_800.. => format!("{} d ago", s / 86_400),
    }
}

/// Lines about the newest release.
fn release_text(release: &ReleaseStatus) -> String {
    let counts = release.points;
    let parts = [
        (counts.proven, "proven"),
        (counts.trying, "trying"),
        (counts.waiting, "waiting"),
        (counts.failed, "failed"),
    ];
    let parts = parts.iter().filter(|(n, _)| *n > 0);
    let parts: Vec<String> = parts.map(|(n, word)| format!("{n} {word}")).collect();
    let parts = match parts.is_empty() {
        true => "no point can take it yet".to_owned(),
        false => parts.join(", "),
    };
    let mut out = format!(
        "release {}, {} % of the points since {} s: {parts}\n",
        release.version, release.share, release.since_s
    );
    if let Some(halted) = &release.halted {
        let _ = writeln!(out, "release {} is halted: {halted}", release.version);
    }
    out
}

impl Log {
    /// Line for each change.
    pub fn text(&self) -> String {
        let mut out = String::new();
        if self.changes.is_empty() {
            out += "Nothing was changed yet.\n";
        }
        for line in &self.changes {
            let at = jiff::Timestamp::from_second(line.time_s).unwrap_or_default();
            let at = at.strftime("%Y-%m-%d %H:%M:%SZ");
            let what = base::text::clean(&line.what);
            let _ = writeln!(out, "{at}  {}: {what}", base::text::clean(&line.who));
        }
        out
    }
}

impl Status {
    /// Table of the points, and what is said of them, with empty lines in between; `columns` is the width of the terminal.
    pub fn text(&self, columns: usize) -> String {
        let mut out = self.head();
        if self.points.is_empty() {
            return out;
        }
        out += "\n";
        out += &self.table().text(columns);
        for remark in self.remarks() {
            let _ = writeln!(out, "\n{remark}");
        }
        out
    }

    /// Lines about the fleet as a whole.
    pub(super) fn head(&self) -> String {
        let plan = self.plan.map_or("no plan".into(), |n| format!("plan {n}"));
        let count = ops::counted(self.points.len() as u64, "point");
        let mut out = format!("{count}, {plan}\n");
        if self.points.is_empty() {
            out += "Invite one: tailback hub invite --name NAME\n";
            return out;
        }
        if let Some(release) = &self.release {
            out += &release_text(release);
        }
        for second in &self.clickhouse {
            let (there, waiting) = (second.recordings, second.waiting);
            let there = ops::counted(there, "recording");
            let _ = write!(out, "{}: {there}, {waiting} waiting", second.address);
            let why = second.why.as_ref().map(|why| format!(": {why}"));
            let _ = writeln!(out, "{}", base::text::clean(&why.unwrap_or_default()));
        }
        let mut versions: BTreeMap<&str, u64> = BTreeMap::new();
        for version in self.points.iter().filter_map(|p| p.agent.as_deref()) {
            *versions.entry(version).or_default() += 1;
        }
        if versions.len() > 1 {
            let each = versions.iter().map(|(v, n)| format!("{v} at {n}"));
            let _ = writeln!(out, "versions: {}", each.collect::<Vec<_>>().join(", "));
        }
        out
    }

    /// Table of the points.
    pub(super) fn table(&self) -> Table {
        let columns = [
            Column::words("point"),
            Column::words("health"),
            "reported".into(),
            "measured".into(),
            "recordings".into(),
            "rows".into(),
            "waiting".into(),
            "plan".into(),
        ];
        let mut table = Table::new("", columns);
        for p in &self.points {
            let times = [p.reported_s_ago, p.measured_s_ago].map(|s| Cell::from(s.map(ago)));
            let counts = [Some(p.recordings), Some(p.rows), p.spool_recordings, p.plan];
            let cells = std::iter::once(p.health.to_string().into()).chain(times);
            table.row(p.name.clone(), cells.chain(counts.map(Cell::from)));
        }
        table
    }

    /// Sentences about each point that is not well or waits for something.
    pub(super) fn remarks(&self) -> Vec<String> {
        let mut all = Vec::new();
        for p in &self.points {
            let says = p.why.iter().chain(&p.remarks);
            all.extend(says.map(|says| format!("{}: {says}", p.name)));
            if p.quarantined > 0 {
                let n = ops::counted(p.quarantined, "recording");
                all.push(format!("{}: {n} in quarantine", p.name));
            }
        }
        all
    }
}
