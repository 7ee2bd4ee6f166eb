//! Import of other tools' files as rows of a recording: the files of the thesis on which this project is based, and
//! those of irtt, flent, fping, ping and SmokePing.
//!
//! The content determines a file's format. An invalid line is skipped, counted and quoted with its number; the rest is
//! imported. Known defects of a tool's files are repaired, and each repair is counted. The recording keeps both as
//! events (`import`, `repair`).
//!
//! Rows go to Parquet by column, on a second thread.

mod dstat;
mod flent;
mod irtt;
mod lines;
mod monitor;
mod numbers;
mod out;
mod ping;
mod rrd;
mod train;

use crate::{StoreError, Writer};
use base::record::{Event, Text};
use flate2::read::MultiGzDecoder;
use jiff::tz::TimeZone;
use lines::Lines;
use out::Out;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

/// Format of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Answered packets of the delay monitor.
    Delay,
    /// Unanswered packets of the delay monitor.
    Dropped,
    /// Rates of the traffic monitor.
    Traffic,
    /// `dstat --output`.
    Dstat,
    /// `irtt client -o`.
    Irtt,
    /// `.flent.gz`.
    Flent,
    /// Standard output of `fping` with -l, -c or -C.
    Fping,
    /// Standard output of `ping`.
    Ping,
    /// SmokePing `.rrd`, or its `rrdtool dump`.
    Rrd,
}

impl Format {
    pub const ALL: &[Format] = &[
        Format::Delay,
        Format::Dropped,
        Format::Traffic,
        Format::Dstat,
        Format::Irtt,
        Format::Flent,
        Format::Fping,
        Format::Ping,
        Format::Rrd,
    ];

    pub const fn word(self) -> &'static str {
        match self {
            Format::Delay => "delay",
            Format::Dropped => "dropped",
            Format::Traffic => "traffic",
            Format::Dstat => "dstat",
            Format::Irtt => "irtt",
            Format::Flent => "flent",
            Format::Fping => "fping",
            Format::Ping => "ping",
            Format::Rrd => "rrd",
        }
    }
}

/// Settings for facts that the files do not contain.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Time zone of the host whose files hold local times.
    pub zone: TimeZone,
    /// Send time of the first probe, UNIX ns, for text without times.
    pub start_ns: i64,
    /// Time between probes, for text without times. If the text does not give it either: 1 s.
    pub interval_ns: Option<i64>,
    /// Traffic monitor's unit in bit/s: its prefix was a flag that the file does not contain.
    pub rate_unit: f64,
}

#[derive(Debug, thiserror::Error)]
pub enum ImportError {
    #[error("cannot read {}: {source}", path.display())]
    Io { path: PathBuf, source: io::Error },
    #[error(
        "{}: what kind of file is this? It begins with {begins:?}. Known: {}. Name one with --format to have it read as that.",
        path.display(),
        Format::ALL.iter().map(|f| f.word()).collect::<Vec<_>>().join(", ")
    )]
    Unknown { path: PathBuf, begins: String },
    #[error("{} does not read as {}: {why}", path.display(), format.word())]
    Unreadable {
        path: PathBuf,
        format: Format,
        why: String,
    },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Result of importing one file.
#[derive(Clone, Debug)]
pub struct Imported {
    pub path: PathBuf,
    pub format: Format,
    pub rows: u64,
    /// Number of skipped lines; the next field quotes the first few with their numbers.
    pub wrong: u64,
    pub examples: Vec<String>,
    /// Repairs, and how often each was made.
    pub repairs: BTreeMap<&'static str, u64>,
    /// Notes for readers of the figures.
    pub notes: Vec<String>,
    /// First and last instant of its rows.
    pub span_ns: Option<(i64, i64)>,
}

impl Imported {
    const MOST_EXAMPLES: usize = 5;

    fn repaired(&mut self, what: &'static str) {
        *self.repairs.entry(what).or_default() += 1;
    }

    fn wrong(&mut self, line: u64, why: impl std::fmt::Display) {
        self.wrong += 1;
        if self.examples.len() < Self::MOST_EXAMPLES {
            self.examples.push(format!("line {line}: {why}"));
        }
    }
}

/// Determines the format from the file's first lines.
///
/// # Errors
/// `Io`, `Unknown`.
pub fn recognise(path: &Path) -> Result<Format, ImportError> {
    let mut head = vec![0; 16_384];
    let io = |source| ImportError::Io {
        path: path.to_owned(),
        source,
    };
    let mut source = open(path).map_err(io)?;
    let mut len = 0;
    while len < head.len() {
        match source.read(&mut head[len..]).map_err(io)? {
            0 => break,
            n => len += n,
        }
    }
    head.truncate(len);
    let text = String::from_utf8_lossy(&head);
    guess(&head, &text).ok_or_else(|| ImportError::Unknown {
        path: path.to_owned(),
        begins: text.chars().take(60).collect(),
    })
}

fn guess(head: &[u8], text: &str) -> Option<Format> {
    let start = text.trim_start();
    if head.starts_with(b"RRD\0") || (start.starts_with("<?xml") && text.contains("<rrd>")) {
        return Some(Format::Rrd);
    }
    if start.starts_with('{') {
        let irtt = text.contains("\"irtt\"") || text.contains("\"round_trips\"");
        return Some(if irtt { Format::Irtt } else { Format::Flent });
    }
    if start.starts_with("\"Dstat") || start.starts_with("\"pcp-dstat") {
        return Some(Format::Dstat);
    }
    // The first line may be a header, the second one damaged.
    text.lines()
        .take(20)
        .find_map(|line| monitor::guess(line).or_else(|| ping::guess(line)))
}

/// Opens a file, decompressing it if necessary.
fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    Ok(if file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}

/// Writes the rows of all files into the recording that `writer` has started; the caller closes it.
///
/// # Errors
/// `Io`, `Unreadable`, `Store`: the recording is unusable then.
pub fn import(
    files: &[(PathBuf, Format)],
    settings: &Settings,
    mut writer: Writer,
) -> Result<(Writer, Vec<Imported>), ImportError> {
    let (pages, inbox) = sync_channel::<out::Page>(4);
    let mut out = Out::new(pages, writer.utc_offset_s());
    std::thread::scope(|scope| {
        let saver = scope.spawn(move || {
            for page in inbox {
                writer.append(page.table, page.day, &page.batch)?;
            }
            Ok::<Writer, StoreError>(writer)
        });
        let read = read_all(files, settings, &mut out);
        out.finish();
        drop(out);
        // The disk's error comes first: it is the reason why the reader stopped.
        let writer = saver.join().expect("the saver does not panic")?;
        Ok((writer, read?))
    })
}

fn read_all(
    files: &[(PathBuf, Format)],
    settings: &Settings,
    out: &mut Out,
) -> Result<Vec<Imported>, ImportError> {
    let mut all = Vec::new();
    let mut numbers = numbers::Numbers::default();
    for (path, format) in files {
        let mut told = Imported {
            path: path.clone(),
            format: *format,
            rows: 0,
            wrong: 0,
            examples: Vec::new(),
            repairs: BTreeMap::new(),
            notes: Vec::new(),
            span_ns: None,
        };
        out.begin();
        let io = |source| ImportError::Io {
            path: path.clone(),
            source,
        };
        let source = open(path).map_err(io)?;
        let whole = |mut source: Box<dyn BufRead + Send>| {
            let mut bytes = Vec::new();
            source.read_to_end(&mut bytes).map(|_| bytes)
        };
        let name: Text = path
            .file_stem()
            .map_or("".into(), |s| s.to_string_lossy().into());
        let lines = Lines::new;
        let read = match format {
            Format::Delay => monitor::delay(lines(source), settings, out, &mut told, &mut numbers),
            Format::Dropped => {
                monitor::dropped(lines(source), settings, out, &mut told, &mut numbers)
            }
            Format::Traffic => monitor::traffic(lines(source), settings, out, &mut told),
            Format::Dstat => dstat::read(lines(source), settings, out, &mut told),
            Format::Irtt => irtt::read(&whole(source).map_err(io)?, out, &mut told),
            Format::Flent => flent::read(&whole(source).map_err(io)?, out, &mut told),
            Format::Fping => ping::fping(lines(source), settings, out, &mut told),
            Format::Ping => ping::ping(lines(source), settings, out, &mut told),
            Format::Rrd => rrd::read(&whole(source).map_err(io)?, &name, out, &mut told),
        };
        read.map_err(|fault| match fault {
            Fault::Io(source) => io(source),
            Fault::Unreadable(why) => ImportError::Unreadable {
                path: path.clone(),
                format: *format,
                why,
            },
        })?;
        if out.broken() {
            break;
        }
        told.rows = out.rows();
        told.span_ns = out.span_ns();
        all.push(told);
    }
    numbers.tell(&mut all);
    for told in &all {
        events(told, out);
    }
    Ok(all)
}

/// Adds the events that the recording keeps about the import.
fn events(told: &Imported, out: &mut Out) {
    let Some((t_ns, _)) = told.span_ns else {
        return;
    };
    let subject: Text = told
        .path
        .file_name()
        .map_or("".into(), |s| s.to_string_lossy().into());
    let mut event = |kind: &str, detail: serde_json::Value| {
        out.push(&Event {
            t_ns,
            kind: kind.into(),
            subject: subject.clone(),
            detail: detail.to_string().into(),
        });
    };
    event(
        "import",
        serde_json::json!({
            "format": told.format.word(), "rows": told.rows, "lines_left_out": told.wrong,
            "for_example": told.examples, "notes": told.notes,
        }),
    );
    for (what, count) in &told.repairs {
        event("repair", serde_json::json!({"what": what, "count": count}));
    }
}

/// Reason why a file cannot be read at all.
enum Fault {
    Io(io::Error),
    Unreadable(String),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Fault {
        Fault::Io(e)
    }
}
