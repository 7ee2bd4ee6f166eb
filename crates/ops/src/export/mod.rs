//! `tailback export`: recordings in other tools' formats.

mod atlas;
mod flent;
mod irtt;
mod ooni;
mod openmetrics;
mod probes;
mod qlog;

use crate::progress::{Event as News, Observer, Shared};
use crate::scan::{self, Source};
use crate::{Progress, usage};
use anyhow::Context;
use base::record::TableId;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use store::{CsvWriter, JsonWriter, StoreError, disk};

/// Version of the shape in `--json`.
const EXPORT_VERSION: u32 = 1;

/// Format of another tool.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Format {
    /// A file of comma-separated values for each table.
    #[default]
    Csv,
    /// A file of JSON Lines for each table.
    Json,
    /// A Parquet file for each table.
    Parquet,
    /// Probes of one target as `irtt client -o` writes them, JSON format 1.
    Irtt,
    /// Probes and transfers as a data file of flent, format 4.
    Flent,
    /// Probes as results of RIPE Atlas's measurement `ping`.
    Atlas,
    /// Counters and histograms of probes each minute, as OpenMetrics text with times.
    Openmetrics,
    /// State of the senders of transfers as qlog, a file a flow.
    Qlog,
    /// Probes as measurements in OONI's base data format, a line for each target and minute.
    Ooni,
}

impl Format {
    /// All formats, with their names and what they hold.
    pub const ALL: [(Format, &'static str, &'static str); 9] = [
        (Format::Csv, "csv", "comma-separated values, a file a table"),
        (Format::Json, "json", "JSON Lines, a file a table"),
        (Format::Parquet, "parquet", "Parquet, a file a table"),
        (
            Format::Irtt,
            "irtt",
            "probes of one target, as irtt writes them (JSON format 1)",
        ),
        (
            Format::Flent,
            "flent",
            "probes and transfers, as flent writes them (format 4)",
        ),
        (
            Format::Atlas,
            "atlas",
            "probes, as RIPE Atlas gives the results of ping",
        ),
        (
            Format::Openmetrics,
            "openmetrics",
            "counters and histograms a minute, to fill a Prometheus",
        ),
        (Format::Qlog, "qlog", "senders of transfers, a file a flow"),
        (
            Format::Ooni,
            "ooni",
            "probes, as measurements in OONI's base format",
        ),
    ];

    /// Format of that name.
    ///
    /// # Errors
    /// Lists the known names.
    pub fn named(name: &str) -> Result<Format, String> {
        let found = Format::ALL.iter().find(|f| f.1 == name);
        found.map(|f| f.0).ok_or_else(|| {
            let names: Vec<&str> = Format::ALL.iter().map(|f| f.1).collect();
            format!("known are {}", names.join(", "))
        })
    }

    fn name(self) -> &'static str {
        let found = Format::ALL.iter().find(|f| f.0 == self);
        found.map_or("", |f| f.1)
    }

    /// Ending of the output: a directory for formats of tables, a file for those of one program.
    fn ending(self) -> &'static str {
        match self {
            Format::Csv => "csv",
            Format::Json => "jsonl",
            Format::Parquet => "parquet",
            Format::Irtt => "irtt.json",
            Format::Flent => "flent.gz",
            Format::Atlas => "atlas.json",
            Format::Openmetrics => "openmetrics.txt",
            Format::Qlog => "qlog",
            Format::Ooni => "ooni.jsonl",
        }
    }
}

/// Recording, and what is to be written of it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    pub recording: PathBuf,
    pub format: Format,
    /// Directory or file to write; by default the recording's name with another ending.
    pub output: Option<PathBuf>,
    /// Tables to write; all by default.
    pub tables: Vec<String>,
    /// Target of the probes to write, for formats of probes.
    pub target: Option<String>,
}

/// Outcome of an export.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Exported {
    /// Version of the shape.
    pub version: u32,
    /// Format of the files.
    pub format: Format,
    /// Files with what they hold.
    pub files: Vec<Written>,
    /// Contents of the recording that the format has no place for.
    pub left_out: Vec<String>,
}

/// File that was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Written {
    /// Path of the file.
    pub file: PathBuf,
    /// Rows, round trips or values in it.
    pub rows: u64,
}

impl Exported {
    /// Text for a terminal: a line for each file, and for what is left out.
    pub fn text(&self) -> String {
        let rows =
            |w: &Written| format!("{}: {}\n", w.file.display(), crate::counted(w.rows, "row"));
        let mut text: String = self.files.iter().map(rows).collect();
        for left in &self.left_out {
            text.push_str(&format!("Left out: {left}\n"));
        }
        text
    }
}

/// Writes a recording in another format. Nothing is written over; an incomplete output is removed.
///
/// # Errors
/// A recording that cannot be read, a format that cannot hold it, an output that exists or cannot be written.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Exported> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    observer.tell(News::Interruptible);
    let from = Source {
        path: &plan.recording,
        observer,
    };
    let meta = scan::meta(from)?;
    let output = plan.output.clone().unwrap_or_else(|| {
        let name = plan.recording.file_stem().unwrap_or_default();
        Path::new(name).with_extension(plan.format.ending())
    });
    let of_tables = matches!(plan.format, Format::Csv | Format::Json | Format::Parquet);
    if of_tables && plan.target.is_some() {
        let name = plan.format.name();
        return Err(usage(format!(
            "--target is of formats of probes, and {name} has whole tables"
        )));
    }
    if !of_tables && !plan.tables.is_empty() {
        let name = plan.format.name();
        return Err(usage(format!(
            "--tables is of formats of tables, and {name} has none"
        )));
    }
    if plan.format == Format::Qlog && plan.target.is_some() {
        return Err(usage(
            "--target is of formats of probes, and qlog has transfers",
        ));
    }
    if !of_tables && std::fs::symlink_metadata(&output).is_ok() {
        return Err(StoreError::Exists { path: output }.into());
    }
    let (files, left_out) = match plan.format {
        Format::Irtt => irtt::write(from, &output, plan.target.as_deref())?,
        Format::Flent => flent::write(from, &meta, &output, plan.target.as_deref())?,
        Format::Atlas => atlas::write(from, &output, plan.target.as_deref())?,
        Format::Openmetrics => openmetrics::write(from, &output, plan.target.as_deref())?,
        Format::Qlog => qlog::write(from, &meta, &output)?,
        Format::Ooni => ooni::write(from, &output, plan.target.as_deref())?,
        format => (
            tables(from, &output, format, &wanted(&plan.tables)?)?,
            Vec::new(),
        ),
    };
    if files.is_empty() {
        return Err(usage(format!(
            "{} has no rows to export",
            plan.recording.display()
        )));
    }
    Ok(Exported {
        version: EXPORT_VERSION,
        format: plan.format,
        files,
        left_out,
    })
}

/// Tables of these names; all if none is named.
fn wanted(names: &[String]) -> anyhow::Result<Vec<TableId>> {
    if names.is_empty() {
        return Ok(TableId::ALL.to_vec());
    }
    let named = |name: &String| {
        let found = TableId::ALL.iter().find(|t| t.spec().name == name);
        found.copied().ok_or_else(|| {
            let known: Vec<&str> = TableId::ALL.iter().map(|t| t.spec().name).collect();
            usage(format!(
                "no table is called {name:?}; known are {}",
                known.join(", ")
            ))
        })
    };
    // A table that is named twice is written once.
    let wanted: anyhow::Result<BTreeSet<TableId>> = names.iter().map(named).collect();
    Ok(wanted?.into_iter().collect())
}

/// Writes tables into a directory, a file each.
fn tables(
    from: Source<'_>,
    directory: &Path,
    format: Format,
    tables: &[TableId],
) -> anyhow::Result<Vec<Written>> {
    let existed = directory.exists();
    let written = match format {
        Format::Csv => {
            let csv = CsvWriter::create(directory)?;
            rows(from, tables, csv, CsvWriter::push_row, CsvWriter::close)
        }
        Format::Json => {
            let json = JsonWriter::create(directory)?;
            rows(from, tables, json, JsonWriter::push_row, JsonWriter::close)
        }
        _ => parquet(from, directory, tables),
    };
    let is_empty = written.as_ref().map_or(true, Vec::is_empty);
    if is_empty && !existed {
        // It was begun by this run and holds nothing that cannot be had again.
        let _ = std::fs::remove_dir_all(directory);
    }
    written
}

/// Writes each row of the tables. Returns the files.
fn rows<W>(
    from: Source<'_>,
    tables: &[TableId],
    mut writer: W,
    push: impl Fn(&mut W, &base::record::Row) -> Result<(), StoreError>,
    close: impl FnOnce(W) -> Result<Vec<PathBuf>, StoreError>,
) -> anyhow::Result<Vec<Written>> {
    let mut counts = Vec::new();
    for &table in tables {
        let (mut count, mut fault) = (0, None);
        scan::each_row(from, table, &mut |row| {
            count += 1;
            if fault.is_none() {
                fault = push(&mut writer, &row).err();
            }
        })?;
        if let Some(e) = fault {
            return Err(e.into());
        }
        stop(from)?;
        counts.extend((count > 0).then_some((table, count)));
    }
    // The files come in the order of the tables.
    counts.sort();
    let files = close(writer)?;
    let written = files.into_iter().zip(counts);
    Ok(written
        .map(|(file, (_, rows))| Written { file, rows })
        .collect())
}

fn parquet(from: Source<'_>, directory: &Path, tables: &[TableId]) -> anyhow::Result<Vec<Written>> {
    std::fs::create_dir_all(directory)
        .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
    if std::fs::read_dir(directory)?.next().is_some() {
        let path = directory.to_owned();
        return Err(StoreError::Exists { path }.into());
    }
    let mut written = Vec::new();
    for &table in tables {
        let file = directory.join(table.spec().name).with_extension("parquet");
        let (rows, notes) = store::write_parquet(from.path, table, &file)?;
        from.observer.recovered(notes);
        stop(from)?;
        written.extend((rows > 0).then_some(Written { file, rows }));
    }
    Ok(written)
}

/// Fills a file, which appears as a whole. Returns what `fill` gives.
fn in_one_file<T>(
    output: &Path,
    fill: impl FnOnce(&mut BufWriter<File>) -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    let (file, part) = disk::create_temporary(output, ".tmp")
        .with_context(|| format!("cannot write beside {}", output.display()))?;
    let mut out = BufWriter::new(file);
    let written = fill(&mut out).and_then(|filled| {
        let file = out
            .into_inner()
            .map_err(std::io::IntoInnerError::into_error)?;
        file.sync_all()?;
        std::fs::rename(&part, output)?;
        Ok(filled)
    });
    written.inspect_err(|_| {
        let _ = std::fs::remove_file(&part);
    })
}

/// Ends the export if the user asks for it.
fn stop(from: Source<'_>) -> anyhow::Result<()> {
    match from.observer.interrupted() {
        true => Err(anyhow::anyhow!("interrupted")),
        false => Ok(()),
    }
}
