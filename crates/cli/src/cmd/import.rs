//! `tailback import`: other tools' files as a recording.

use super::{counted, print, usage};
use crate::Outcome;
use base::record::{FORMAT_VERSION, Meta, Origin};
use jiff::Timestamp;
use jiff::tz::TimeZone;
use std::path::{Path, PathBuf};
use store::import::{Format, Imported, Settings, import, recognise};

#[derive(clap::Args)]
#[command(
    about = "Make a recording of other tools' files: irtt, flent, fping, ping, SmokePing, and the delay and traffic monitors' CSV",
    after_help = "What kind a file is, is told by its content; all files go into one recording. A line that makes no sense is left out and named."
)]
pub struct Args {
    /// The files, in the order of time where they follow each other
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Where the recording goes [default: the first file's name, ending in .rec]
    #[arg(short, long, value_name = "RECORDING")]
    output: Option<PathBuf>,
    /// What the files are, if their content should not decide
    #[arg(long, value_name = "FORMAT", value_parser = format)]
    format: Option<Format>,
    /// Time zone of local times in the files, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// When the first probe left, for ping and fping without -D, such as 2026-05-04T15:55:00Z [default: when the file was last written]
    #[arg(long, value_name = "TIME")]
    start: Option<Timestamp>,
    /// Time between probes, for ping and fping without -D [default: what the text tells, or 1s]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// What the traffic monitor's rates count: its flag -p
    #[arg(long, value_enum, default_value_t = Unit::Kbit)]
    rate_unit: Unit,
    /// A name for people, such as "home ADSL"
    #[arg(long, default_value = "")]
    title: String,
    /// Print what was imported, left out and repaired as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Unit {
    Bit,
    Kbit,
    Mbit,
}

fn format(word: &str) -> Result<Format, String> {
    let known = Format::ALL.iter().copied();
    known.clone().find(|f| f.word() == word).ok_or_else(|| {
        let words: Vec<_> = known.map(Format::word).collect();
        format!("known are {}", words.join(", "))
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut files = Vec::new();
    for path in &args.files {
        let format = args.format.map_or_else(|| recognise(path), Ok)?;
        files.push((path.clone(), format));
    }
    let zone = match &args.zone {
        Some(name) => TimeZone::get(name).map_err(|e| {
            usage(format!(
                "--zone {name}: {e}. Give a name such as Europe/Oslo or UTC"
            ))
        })?,
        None => TimeZone::system(),
    };
    let interval_ns = args.interval.as_deref().map(|text| {
        text.parse::<base::Duration>()
            .map(|d| d.as_nanos() as i64)
            .map_err(|e| usage(format!("--interval: {e}")))
    });
    let settings = Settings {
        start_ns: args.start.map_or_else(|| written_ns(&args.files[0]), nanos),
        interval_ns: interval_ns.transpose()?,
        rate_unit: match args.rate_unit {
            Unit::Bit => 1.0,
            Unit::Kbit => 1e3,
            Unit::Mbit => 1e6,
        },
        zone,
    };
    let output = args.output.clone().unwrap_or_else(|| {
        let name = args.files[0].file_stem().unwrap_or_default();
        Path::new(name).with_extension("rec")
    });
    let meta = Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Imported,
        verb: "import".into(),
        title: args.title.clone(),
        plan: serde_json::json!({
            "files": files.iter().map(|(path, format)| serde_json::json!({
                "file": path.file_name().map(|n| n.to_string_lossy()), "format": format.word(),
            })).collect::<Vec<_>>(),
            "zone": settings.zone.iana_name(),
        }),
        ..Meta::default()
    };
    let options = store::Options {
        name: if args.output.is_some() {
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
    let path = writer.path().to_path_buf();
    let imported = import(&files, &settings, writer).map_err(anyhow::Error::from);
    let closed = imported.and_then(|(writer, all)| {
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
        Ok(all)
    });
    let all = closed.inspect_err(|_| {
        // It was begun by this command and holds nothing that cannot be had again.
        let _ = std::fs::remove_dir_all(&path);
    })?;
    if args.json {
        let files: Vec<_> = all.iter().map(json).collect();
        let whole = serde_json::json!({ "recording": path, "files": files });
        print(&format!("{}\n", serde_json::to_string_pretty(&whole)?))?;
    } else {
        let told: String = all.iter().map(told).collect();
        // Lines of the file are quoted in it.
        print(&told)?;
        eprintln!("{}", path.display());
    }
    Ok(Outcome::Done)
}

fn nanos(time: Timestamp) -> i64 {
    i64::try_from(time.as_nanosecond()).unwrap_or_default()
}

fn written_ns(path: &Path) -> i64 {
    let modified = std::fs::metadata(path).and_then(|m| m.modified());
    let time = modified.ok().and_then(|t| Timestamp::try_from(t).ok());
    time.map_or(0, nanos)
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

fn json(file: &Imported) -> serde_json::Value {
    serde_json::json!({
        "file": file.path, "format": file.format.word(), "rows": file.rows,
        "from_ns": file.span_ns.map(|s| s.0), "to_ns": file.span_ns.map(|s| s.1),
        "repairs": file.repairs, "lines_left_out": file.wrong, "for_example": file.examples, "notes": file.notes,
    })
}
