//! Import of other tools' files as rows of a recording: the files of the thesis on which this project is based, and
//! those of irtt, flent, fping, ping, SmokePing, RIPE Atlas and qlog.
//!
//! The content determines a file's format. An invalid line is skipped, counted and quoted with its number; the rest is
//! imported. Known defects of a tool's files are repaired, and each repair is counted. The recording keeps both as
//! events (`import`, `repair`).
//!
//! Rows go to Parquet by column, on a second thread.

mod atlas;
mod dstat;
mod file;
mod flent;
mod irtt;
mod lines;
mod monitor;
mod numbers;
mod out;
mod ping;
mod qlog;
mod rrd;
mod train;

use crate::{StoreError, Writer};
use base::record::{Event, Text};
use file::Fault;
pub use file::{Format, ImportError, Imported, Settings};
use flate2::read::MultiGzDecoder;
use lines::Lines;
use out::Out;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::mpsc::sync_channel;

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
    if start.starts_with('\u{1e}') || start.starts_with('{') && text.contains("\"qlog_") {
        return Some(Format::Qlog);
    }
    if start.starts_with(['[', '{']) && text.contains("\"prb_id\"") {
        return Some(Format::Atlas);
    }
    if start.starts_with('{') {
        let irtt = text.contains("\"irtt\"") || text.contains("\"round_trips\"");
        return Some(if irtt { Format::Irtt } else { Format::Flent });
    }
    if ["\"Dstat", "\"pcp-dstat", "\"dool", "\"Dool"]
        .iter()
        .any(|head| start.starts_with(head))
    {
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
    let mut flows = 0;
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
            Format::Atlas => atlas::read(&whole(source).map_err(io)?, out, &mut told),
            Format::Qlog => qlog::read(&whole(source).map_err(io)?, out, &mut told, &mut flows),
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
