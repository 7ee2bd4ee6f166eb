//! Other tools' files as rows of a recording: the files of the thesis this project began with, and those of irtt,
//! flent, fping, ping and SmokePing.
//!
//! A file's format is told by its content. A line that makes no sense is left out, counted and quoted with its number;
//! the rest is imported. What is known to be wrong with a tool's files is repaired, and each repair is counted. Both
//! are kept in the recording as events (`import`, `repair`).
//!
//! Rows go to Parquet by the column, on a second thread.

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

/// What kind of file it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// The delay monitor's answered packets.
    Delay,
    /// The delay monitor's packets without an answer.
    Dropped,
    /// The traffic monitor's rates.
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
    /// A SmokePing `.rrd`, or what `rrdtool dump` makes of it.
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

/// What the files themselves do not say.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the host was whose files hold local times.
    pub zone: TimeZone,
    /// When the first probe left, UNIX ns, for text without times.
    pub start_ns: i64,
    /// Time between probes, for text without times. Where the text does not tell it either: a second.
    pub interval_ns: Option<i64>,
    /// Bits a second in one unit of the traffic monitor's rates: its prefix was a flag that the file does not hold.
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

/// What became of one file.
#[derive(Clone, Debug)]
pub struct Imported {
    pub path: PathBuf,
    pub format: Format,
    pub rows: u64,
    /// Lines that were left out, and the first few of them with their numbers.
    pub wrong: u64,
    pub examples: Vec<String>,
    /// What was repaired, and how often.
    pub repairs: BTreeMap<&'static str, u64>,
    /// What a reader of the figures should know.
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

/// Tells the format by the file's first lines.
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
    // The first line may be a header, the second one a damaged one.
    text.lines()
        .take(20)
        .find_map(|line| monitor::guess(line).or_else(|| ping::guess(line)))
}

/// Opens a file, and what is inside where it is compressed.
fn open(path: &Path) -> io::Result<Box<dyn BufRead + Send>> {
    let mut file = BufReader::with_capacity(1 << 20, File::open(path)?);
    Ok(if file.fill_buf()?.starts_with(&[0x1f, 0x8b]) {
        Box::new(BufReader::with_capacity(1 << 20, MultiGzDecoder::new(file)))
    } else {
        Box::new(file)
    })
}

/// Puts the rows of all files into the recording that `writer` has begun, which remains to be closed.
///
/// # Errors
/// `Io`, `Unreadable`, `Store`: the recording is then worth nothing.
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
        // What the disk said comes first: it is why the reader stopped.
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

/// What the recording itself keeps of the import.
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

/// Why a file cannot be read at all.
enum Fault {
    Io(io::Error),
    Unreadable(String),
}

impl From<io::Error> for Fault {
    fn from(e: io::Error) -> Fault {
        Fault::Io(e)
    }
}
