//! `tailback trace --each`: captures as repetitions of one measurement, with the mean and the standard deviation of each figure
//! over the captures of a directory.

mod hours;
mod transfers;

use super::Plan;
use crate::progress::Observer;
use crate::{usage, write_file};
use base::print::{Unit, significant};
use report::plot::{Axis, PlotSpec, Series, nice_top};
use report::table::{Column, Table};
use serde::Serialize;
use stats::Moments;
use std::fmt::Write;
use std::path::{Path, PathBuf};

/// Figure that each capture has, or lacks.
struct Kind {
    key: &'static str,
    name: &'static str,
    /// Unit; `None` for numbers without one.
    unit: Option<Unit>,
}

impl Kind {
    /// Prints values in the unit that fits the largest of them, with `between` them.
    fn print(&self, values: &[f64], between: &str) -> String {
        let most = values.iter().copied().fold(0.0, f64::max);
        let (unit, size) = self.unit.map_or(("", 1.0), |u| u.fitting(most));
        let texts: Vec<String> = values.iter().map(|v| significant(v / size, 3)).collect();
        format!("{} {unit}", texts.join(between))
            .trim_end()
            .to_owned()
    }
}

/// One capture.
struct Run {
    file: String,
    /// Group that it belongs to.
    group: String,
    /// Time of its first packet, UNIX ns.
    begin_ns: Option<i64>,
    /// Values in the order of the kinds.
    figures: Vec<Option<f64>>,
}

/// Figures of captures, group by group.
pub struct Answer {
    kinds: &'static [Kind],
    runs: Vec<Run>,
    notes: Vec<String>,
    /// Step of time in which arrivals are counted, with --traffic.
    step_s: Option<f64>,
}

/// Reads each capture on its own.
pub(super) fn run(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<Answer> {
    let files = files(&plan.files)?;
    let mut notes = Vec::new();
    let answer = match &plan.traffic {
        None => {
            let read = |path: &Path, notes: &mut Vec<String>| transfers::read(path, plan, notes);
            let runs = each(&files, observer, &mut notes, read)?;
            Answer {
                kinds: transfers::KINDS,
                runs,
                notes,
                step_s: None,
            }
        }
        Some(traffic) => {
            let (runs, step_s) = hours::read_all(&files, traffic, observer, &mut notes)?;
            Answer {
                kinds: hours::KINDS,
                runs,
                notes,
                step_s: Some(step_s),
            }
        }
    };
    observer.tell(crate::Event::Finished);
    if let Some(directory) = &plan.plots {
        answer.draw(directory, observer)?;
    }
    Ok(answer)
}

/// Time of the first packet, and the figures in the order of the kinds.
type Figures = (Option<i64>, Vec<Option<f64>>);

/// Reads captures one by one, until the run is interrupted.
fn each(
    files: &[(String, PathBuf)],
    observer: &dyn Observer,
    notes: &mut Vec<String>,
    mut read: impl FnMut(&Path, &mut Vec<String>) -> anyhow::Result<Figures>,
) -> anyhow::Result<Vec<Run>> {
    let mut runs = Vec::new();
    for (n, (group, path)) in files.iter().enumerate() {
        if observer.interrupted() {
            notes.push(format!("interrupted after {n} of {} captures", files.len()));
            break;
        }
        observer.share(n as f64 / files.len() as f64);
        let (begin_ns, figures) = read(path, notes)?;
        let file = path.file_name().unwrap_or(path.as_os_str());
        runs.push(Run {
            file: file.to_string_lossy().into_owned(),
            group: group.clone(),
            begin_ns,
            figures,
        });
    }
    Ok(runs)
}

/// Names of files that are captures; directories are searched for these.
const ENDINGS: [&str; 3] = ["pcap", "pcapng", "cap"];

fn is_capture(path: &Path) -> bool {
    let name = path.to_string_lossy().to_lowercase();
    let bare = ["gz", "zst"]
        .iter()
        .find_map(|e| name.strip_suffix(e)?.strip_suffix('.'));
    let bare = bare.unwrap_or(&name);
    ENDINGS
        .iter()
        .any(|e| bare.strip_suffix(e).is_some_and(|s| s.ends_with('.')))
}

/// Captures with their groups: the directory's name, or none for files that are given by name.
fn files(paths: &[PathBuf]) -> anyhow::Result<Vec<(String, PathBuf)>> {
    let mut found = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            return Err(usage(
                "--each reads captures one by one: give files or directories, not standard input",
            ));
        }
        if !path.is_dir() {
            found.push(("files".to_owned(), path.clone()));
            continue;
        }
        let name = path.display();
        let entries = std::fs::read_dir(path).map_err(|e| usage(format!("{name}: {e}")))?;
        let mut inside = entries
            .map(|e| Ok(e?.path()))
            .collect::<std::io::Result<Vec<_>>>()
            .map_err(|e| usage(format!("{name}: {e}")))?;
        inside.retain(|p| p.is_file() && is_capture(p));
        if inside.is_empty() {
            return Err(usage(format!(
                "{name} holds no captures: their names must end in .{}, perhaps with .gz or .zst behind it",
                ENDINGS.join(", .")
            )));
        }
        inside.sort();
        let whole = std::fs::canonicalize(path).unwrap_or_else(|_| path.clone());
        let group = whole.file_name().unwrap_or(whole.as_os_str());
        let group = group.to_string_lossy().into_owned();
        found.extend(inside.into_iter().map(|p| (group.clone(), p)));
    }
    Ok(found)
}

/// Output of `--json`.
#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Whole {
    notes: Vec<String>,
    /// Step of time in which arrivals are counted, one for all captures; null without --traffic.
    step_s: Option<f64>,
    groups: Vec<Group>,
    captures: Vec<Capture>,
}

/// Captures that count as repetitions of one measurement.
#[derive(Serialize, schemars::JsonSchema)]
struct Group {
    name: String,
    captures: usize,
    figures: Vec<Spread>,
}

/// Distribution of a figure over the captures of a group. Rates in bit/s, times in ms or s as the key says.
#[derive(Serialize, schemars::JsonSchema)]
struct Spread {
    key: &'static str,
    name: &'static str,
    /// Captures that have the figure.
    captures: usize,
    mean: f64,
    /// Standard deviation of the sample; null with one capture.
    sd: Option<f64>,
    median: f64,
    least: f64,
    most: f64,
}

/// One capture.
#[derive(Serialize, schemars::JsonSchema)]
struct Capture {
    file: String,
    group: String,
    /// Time of its first packet.
    begin_ns: Option<i64>,
    /// Figures by key; null where the capture has none.
    figures: std::collections::BTreeMap<&'static str, Option<f64>>,
}

impl Answer {
    /// Groups in the order of their first capture.
    fn groups(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        for run in &self.runs {
            if !names.contains(&run.group.as_str()) {
                names.push(&run.group);
            }
        }
        if self.step_s.is_some() {
            names.sort_unstable();
        }
        names
    }

    /// Number of captures of a group, in words.
    fn count(&self, group: &str) -> String {
        let count = self.runs.iter().filter(|r| r.group == group).count();
        crate::counted(count as u64, "capture")
    }

    /// Known values of a figure in a group.
    fn values(&self, group: &str, kind: usize) -> Vec<f64> {
        let its = self.runs.iter().filter(|r| r.group == group);
        its.filter_map(|r| r.figures[kind]).collect()
    }

    fn spread(&self, group: &str, kind: usize) -> Option<Spread> {
        let values = self.values(group, kind);
        let Moments {
            n,
            mean,
            sd,
            min,
            max,
            ..
        } = stats::moments(&values)?;
        Some(Spread {
            key: self.kinds[kind].key,
            name: self.kinds[kind].name,
            captures: n,
            mean,
            sd: (n > 1).then_some(sd),
            median: stats::median(&values)?,
            least: min,
            most: max,
        })
    }

    /// Writes all figures as JSON.
    ///
    /// # Errors
    /// Errors of the receiver.
    pub fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        let group = |name: &str| Group {
            name: name.to_owned(),
            captures: self.runs.iter().filter(|r| r.group == name).count(),
            figures: (0..self.kinds.len())
                .filter_map(|k| self.spread(name, k))
                .collect(),
        };
        let capture = |r: &Run| Capture {
            file: r.file.clone(),
            group: r.group.clone(),
            begin_ns: r.begin_ns,
            figures: self
                .kinds
                .iter()
                .map(|k| k.key)
                .zip(r.figures.iter().copied())
                .collect(),
        };
        let whole = Whole {
            notes: self.notes.clone(),
            step_s: self.step_s,
            groups: self.groups().into_iter().map(group).collect(),
            captures: self.runs.iter().map(capture).collect(),
        };
        serde_json::to_writer_pretty(out, &whole)
    }

    /// Returns the tables for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let mut out = String::new();
        for n in &self.notes {
            let _ = writeln!(out, "! {n}");
        }
        if self.step_s.is_some() {
            return out + &hours::text(self, width);
        }
        for group in self.groups() {
            let _ = writeln!(out, "{group}: {}", self.count(group));
            out += &self.table(group).text(width);
            out.push('\n');
        }
        out + transfers::LEGEND
    }

    fn table(&self, group: &str) -> Table {
        let columns = ["", "n", "mean ± SD", "median", "range"];
        let mut table = Table::new("", columns.map(Column::from));
        for (k, kind) in self.kinds.iter().enumerate() {
            let Some(s) = self.spread(group, k) else {
                continue;
            };
            let means: Vec<f64> = [s.mean].into_iter().chain(s.sd).collect();
            let values = [
                s.captures.to_string(),
                kind.print(&means, " ± "),
                kind.print(&[s.median], ""),
                kind.print(&[s.least, s.most], " to "),
            ];
            table.row(kind.name, values);
        }
        table
    }

    /// Draws the distribution of each figure, a curve for each group.
    fn draw(&self, directory: &Path, observer: &dyn Observer) -> anyhow::Result<()> {
        std::fs::create_dir_all(directory)
            .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
        let mut plots: Vec<(String, PlotSpec)> = Vec::new();
        if self.step_s.is_some() {
            plots.extend(hours::plots(self));
        } else {
            plots.extend((0..self.kinds.len()).filter_map(|k| self.distribution(k)));
        }
        for (name, plot) in plots {
            let path = directory.join(format!("{name}.svg"));
            write_file(&path, &plot.svg())?;
            observer.wrote(&path);
        }
        Ok(())
    }

    fn distribution(&self, k: usize) -> Option<(String, PlotSpec)> {
        let kind = &self.kinds[k];
        let groups = self.groups();
        let all: Vec<Vec<f64>> = groups.iter().map(|g| self.values(g, k)).collect();
        let most = all.iter().flatten().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let (unit, size) = kind.unit.map_or(("", 1.0), |u| u.fitting(most));
        let top = nice_top(most / size);
        let curve = |(i, (name, values)): (usize, (&&str, &Vec<f64>))| {
            let sorted = stats::sorted(values);
            let n = sorted.len() as f64;
            let steps = sorted.iter().enumerate();
            let steps = steps.map(|(i, v)| (v / size, 100.0 * (i + 1) as f64 / n));
            let points = [(0.0, 0.0)].into_iter().chain(steps);
            let points: Vec<_> = points.chain([(top, 100.0)]).collect();
            Series::stairs(format!("{name} (n = {n})"), i, points)
        };
        let drawn = groups.iter().zip(&all).filter(|(_, v)| !v.is_empty());
        let series = drawn.enumerate().map(curve).collect();
        let unit = if unit.is_empty() {
            String::new()
        } else {
            format!(", {unit}")
        };
        let x = Axis::even(format!("{}{unit}", kind.name), 0.0, top);
        let y = Axis::even("Share of the captures up to it, %", 0.0, 100.0);
        let name = kind.key.replace('_', "-");
        Some((name, PlotSpec::single(kind.name, x, y, series)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn captures_are_known_by_their_names() {
        for (name, is) in [
            ("a.pcap", true),
            ("A.PCAPNG.gz", true),
            ("b.cap.zst", true),
            ("pcap", false),
            ("a.pcap.txt", false),
            ("a.gz", false),
            ("notes.xcap", false),
        ] {
            assert_eq!(is_capture(Path::new(name)), is, "{name}");
        }
    }
}
