//! The file of `tailback analyse --tables`: its tables, their spans and their rows.

use super::spans::exclusions;
use crate::read_text;
use crate::statistics::Ask;
use crate::times;
use crate::usage;
use analysis::statistics::{Statistics, TargetStatistics};
use analysis::survey::Span;
use jiff::tz::TimeZone;
use report::Table;
use report::layout::{Sheet, table};
use serde::Deserialize;
use std::path::{Path, PathBuf};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    /// Time zone of the times in the file.
    zone: Option<String>,
    /// File of times to exclude, relative to this file.
    exclude: Option<PathBuf>,
    #[serde(rename = "table")]
    sheets: Vec<Sheet>,
}

pub(crate) struct Layout {
    sheets: Vec<Sheet>,
}

/// Name of a sheet's span, by the sheet's position.
fn name(sheet: usize) -> String {
    format!("table {}", sheet + 1)
}

impl Layout {
    /// Adds the spans and limits of the file's tables to `ask`, instead of those given.
    pub(crate) fn read(path: &Path, ask: &mut Ask) -> anyhow::Result<Layout> {
        let what = path.display();
        let file: File =
            toml::from_str(&read_text(path)?).map_err(|e| usage(format!("{what}: {e}")))?;
        if let Some(zone) = &file.zone {
            ask.zone = times::zone(Some(zone))?;
        }
        if let Some(gaps) = &file.exclude {
            let beside = path.parent().unwrap_or(Path::new("")).join(gaps);
            ask.exclusions.extend(exclusions(&beside, &ask.zone)?);
        }
        ask.spans.clear();
        ask.limits_ns.clear();
        for (i, sheet) in file.sheets.iter().enumerate() {
            ask.limits_ns
                .extend(sheet.limits.iter().map(|ms| (ms * 1e6).round() as i64));
            let (from, to) = match (&sheet.from, &sheet.to) {
                (None, None) => continue,
                (Some(from), Some(to)) => (from, to),
                _ => {
                    return Err(usage(format!(
                        "{what}: {:?}: give from and to, or neither",
                        sheet.caption
                    )));
                }
            };
            let at = |text: &str| times::instant(&what.to_string(), text, &ask.zone);
            let (from_ns, to_ns) = (at(from)?, at(to)?);
            if from_ns >= to_ns {
                return Err(usage(format!(
                    "{what}: {:?}: it ends before it begins",
                    sheet.caption
                )));
            }
            ask.spans.push(Span {
                name: name(i),
                from_ns,
                to_ns,
            });
        }
        if let Some(ns) = ask.limits_ns.iter().find(|ns| **ns <= 0) {
            return Err(usage(format!(
                "{what}: a limit of {ns} ns: give ms above zero"
            )));
        }
        ask.limits_ns.sort_unstable();
        ask.limits_ns.dedup();
        Ok(Layout {
            sheets: file.sheets,
        })
    }

    /// Tables, each with its caption.
    pub(crate) fn tables(
        &self,
        s: &Statistics,
        t: &TargetStatistics,
        zone: &TimeZone,
    ) -> Vec<(String, Table)> {
        let one = |(i, sheet): (usize, &Sheet)| {
            let span = t.spans.iter().find(|s| s.name == name(i));
            let of = span.unwrap_or(&t.whole);
            (sheet.caption.clone(), table(sheet, s, t, of, zone))
        };
        self.sheets.iter().enumerate().map(one).collect()
    }
}
