//! `tailback import`: other tools' files as a recording.

use crate::{Progress, counted, times, usage};
use base::Duration;
use base::record::{FORMAT_VERSION, Meta, Origin};
use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use store::import::{Format, Imported, Settings, import, recognise};

/// Files to import into one recording.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Files, in the order of time if one continues another.
    pub files: Vec<PathBuf>,
    /// Recording to write; by default the first file's name, ending in .rec.
    pub output: Option<PathBuf>,
    /// Name of all files' format; by default their content decides.
    pub format: Option<String>,
    /// Time zone of local times in the files; by default this host's.
    pub zone: Option<String>,
    /// Time of the first probe, UNIX ns, for files without times; by default the file's own.
    pub start_ns: Option<i64>,
    /// Interval between probes, for files without times.
    pub interval: Option<Duration>,
    /// Unit in which the traffic monitor counts.
    pub rate_unit: RateUnit,
    /// Name of the recording in reports.
    pub title: String,
}

/// Unit of a rate.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum RateUnit {
    Bit,
    #[default]
    Kbit,
    Mbit,
}

/// Recording, and the result of each file's import.
pub struct Answer {
    pub recording: PathBuf,
    pub files: Vec<Imported>,
}

/// Format with this name.
///
/// # Errors
/// Lists the known words.
pub fn format(word: &str) -> Result<Format, String> {
    let known = Format::ALL.iter().copied();
    known.clone().find(|f| f.word() == word).ok_or_else(|| {
        let words: Vec<_> = known.map(Format::word).collect();
        format!("known are {}", words.join(", "))
    })
}

impl Plan {
    /// Plan as a recording stores it: files without their directories, which are private.
    fn recorded(&self) -> Plan {
        let bare = |path: &PathBuf| path.file_name().map(PathBuf::from);
        Plan {
            files: self.files.iter().filter_map(bare).collect(),
            output: None,
            ..self.clone()
        }
    }
}

/// Imports the files.
///
/// # Errors
/// Files that cannot be read or hold nothing, and outputs that exist already.
pub fn run(plan: &Plan, _progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let Some(first) = plan.files.first() else {
        return Err(usage("give at least one file"));
    };
    let given = plan.format.as_deref().map(format).transpose();
    let given = given.map_err(|e| usage(format!("format: {e}")))?;
    let mut files = Vec::new();
    for path in &plan.files {
        let format = given.map_or_else(|| recognise(path), Ok)?;
        files.push((path.clone(), format));
    }
    let settings = Settings {
        start_ns: plan.start_ns.unwrap_or_else(|| written_ns(first)),
        interval_ns: plan.interval.map(|d| d.as_nanos() as i64),
        rate_unit: match plan.rate_unit {
            RateUnit::Bit => 1.0,
            RateUnit::Kbit => 1e3,
            RateUnit::Mbit => 1e6,
        },
        zone: times::zone(plan.zone.as_deref())?,
    };
    let output = plan.output.clone().unwrap_or_else(|| {
        let name = first.file_stem().unwrap_or_default();
        Path::new(name).with_extension("rec")
    });
    let meta = meta(plan, &files, &settings);
    let options = store::Options {
        name: if plan.output.is_some() {
            store::Name::Exact
        } else {
            store::Name::NextFree
        },
        utc_offset_s: settings
            .zone
            .to_offset(Timestamp::from_nanosecond(i128::from(settings.start_ns))?)
            .seconds(),
        ..store::Options::default()
    };
    let writer = options.create(&output, meta.clone())?;
    let recording = writer.path().to_path_buf();
    let imported = import(&files, &settings, writer).map_err(anyhow::Error::from);
    let closed = imported.and_then(|(writer, all)| {
        close(writer, &all, meta)?;
        Ok(all)
    });
    let files = closed.inspect_err(|_| {
        // It was begun by this run and holds nothing that cannot be had again.
        let _ = std::fs::remove_dir_all(&recording);
    })?;
    Ok(Answer { recording, files })
}

fn meta(plan: &Plan, files: &[(PathBuf, Format)], settings: &Settings) -> Meta {
    Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Imported,
        verb: "import".into(),
        title: plan.title.clone(),
        plan: serde_json::json!({
            "files": files.iter().map(|(path, format)| serde_json::json!({
                "file": path.file_name().map(|n| n.to_string_lossy()), "format": format.word(),
            })).collect::<Vec<_>>(),
            "zone": settings.zone.iana_name(),
            "again": plan.recorded(),
        }),
        ..Meta::default()
    }
}

fn close(writer: store::Writer, all: &[Imported], meta: Meta) -> anyhow::Result<()> {
    let spans: Vec<(i64, i64)> = all.iter().filter_map(|i| i.span_ns).collect();
    let first = spans.iter().map(|s| s.0).min().ok_or_else(|| {
        anyhow::anyhow!(
            "nothing to import: {}",
            all.iter().map(told).collect::<String>().trim()
        )
    })?;
    writer.close(Meta {
        started_ns: first,
        ended_ns: spans.iter().map(|s| s.1).max(),
        complete: true,
        ..meta
    })?;
    Ok(())
}

/// Time as UNIX ns; 0 if it does not fit.
pub fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn written_ns(path: &Path) -> i64 {
    let modified = std::fs::metadata(path).and_then(|m| m.modified());
    let time = modified.ok().and_then(|t| Timestamp::try_from(t).ok());
    time.map_or(0, nanos)
}

impl Answer {
    /// Imported, skipped and repaired items, for a terminal. The text quotes lines of the files.
    pub fn text(&self) -> String {
        self.files.iter().map(told).collect()
    }

    /// Imported, skipped and repaired items as JSON.
    pub fn json(&self) -> Document {
        Document {
            recording: self.recording.clone(),
            files: self.files.iter().map(FileImport::new).collect(),
        }
    }
}

fn told(file: &Imported) -> String {
    let mut text = format!(
        "{}: {}, {} rows\n",
        file.path.display(),
        file.format.word(),
        file.rows
    );
    for (what, count) in &file.repairs {
        text += &format!("  {count} × {what}\n");
    }
    if file.wrong > 0 {
        text += &format!("  {} left out:\n", counted(file.wrong, "line"));
        for example in &file.examples {
            text += &format!("    {example}\n");
        }
    }
    for note in &file.notes {
        text += &format!("  {note}\n");
    }
    text
}

/// Output of `tailback import --json`.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Document {
    /// Recording that was written.
    pub recording: PathBuf,
    pub files: Vec<FileImport>,
}

/// Result of one file's import.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct FileImport {
    pub file: PathBuf,
    pub format: &'static str,
    /// Rows written.
    pub rows: u64,
    /// Time of the first row, UNIX ns.
    pub from_ns: Option<i64>,
    /// Time of the last row, UNIX ns.
    pub to_ns: Option<i64>,
    /// Repairs with their counts.
    pub repairs: BTreeMap<String, u64>,
    pub lines_left_out: u64,
    /// Some of the lines that were left out, each with the reason.
    pub for_example: Vec<String>,
    pub notes: Vec<String>,
}

impl FileImport {
    fn new(file: &Imported) -> FileImport {
        FileImport {
            file: file.path.clone(),
            format: file.format.word(),
            rows: file.rows,
            from_ns: file.span_ns.map(|s| s.0),
            to_ns: file.span_ns.map(|s| s.1),
            repairs: file
                .repairs
                .iter()
                .map(|(what, n)| ((*what).to_owned(), *n))
                .collect(),
            lines_left_out: file.wrong,
            for_example: file.examples.clone(),
            notes: file.notes.clone(),
        }
    }
}
