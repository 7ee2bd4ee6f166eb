//! Outputs of a capture's rows: a recording, CSV, or both.

use super::answer::Held;
use super::packets::Notes;
use super::rows;
use crate::usage;
use anyhow::Context;
use base::record::{FORMAT_VERSION, Meta, Origin, Table};
use measure::track::Traffic;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use store::{CsvWriter, StoreError, Writer};

/// Places of the rows.
#[derive(Clone)]
pub(super) struct Outputs {
    /// Recording, for `tailback analyse` and `tailback report`.
    pub(super) output: Option<PathBuf>,
    /// Directory of the same tables as CSV.
    pub(super) csv: Option<PathBuf>,
}

impl Outputs {
    /// True if there is an output.
    pub(super) fn any(&self) -> bool {
        self.output.is_some() || self.csv.is_some()
    }
}

/// Greatest number of days with rows: each is a file, and a damaged capture may claim a day for every packet.
const MOST_DAYS: usize = 62;
const DAY_NS: i64 = 86_400_000_000_000;

/// Writer of the rows.
pub struct Keep {
    recording: Option<Writer>,
    csv: Option<CsvWriter>,
    meta: Meta,
    days: BTreeSet<i64>,
    today: i64,
    first_ns: Option<i64>,
    last_ns: i64,
    /// Rows of days beyond that number, which are left out.
    pub left_out: u64,
    /// First error of the disk; nothing is written after it.
    fault: Option<StoreError>,
    /// True if the rows can be made again: an incomplete output is then removed.
    again: bool,
}

impl Keep {
    /// Creates the outputs. `live` rows cannot be made again, so they are written to disk within a second.
    ///
    /// # Errors
    /// A recording or directory that exists already or cannot be created.
    pub(super) fn create(
        outputs: &Outputs,
        title: String,
        plan: serde_json::Value,
        live: bool,
    ) -> anyhow::Result<Keep> {
        let meta = Meta {
            format: FORMAT_VERSION,
            writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
            origin: Origin::Captured,
            verb: "trace".into(),
            plan,
            title,
            ..Meta::default()
        };
        let refused = |e: StoreError| match e {
            StoreError::Exists { .. } => usage(e.to_string()),
            e => e.into(),
        };
        let csv = outputs.csv.as_deref().map(CsvWriter::create);
        let csv = csv.transpose().map_err(refused)?;
        let recording = match &outputs.output {
            Some(path) => {
                let options = store::Options {
                    durable: Some(live),
                    ..store::Options::default()
                };
                Some(options.create(path, meta.clone()).map_err(refused)?)
            }
            None => None,
        };
        Ok(Keep {
            recording,
            csv,
            meta,
            days: BTreeSet::new(),
            today: i64::MIN,
            first_ns: None,
            last_ns: 0,
            left_out: 0,
            fault: None,
            again: !live,
        })
    }

    pub fn path(&self) -> Option<&Path> {
        self.recording.as_ref().map(Writer::path)
    }

    pub fn push<T: Table>(&mut self, row: T) {
        let t = row.time_ns();
        let day = t.div_euclid(DAY_NS);
        if day != self.today {
            if !self.days.contains(&day) && self.days.len() >= MOST_DAYS {
                self.left_out += 1;
                return;
            }
            self.days.insert(day);
            self.today = day;
        }
        if self.fault.is_some() {
            return;
        }
        self.first_ns = Some(self.first_ns.map_or(t, |f| f.min(t)));
        self.last_ns = self.last_ns.max(t);
        let mut done = match &mut self.csv {
            Some(csv) => csv.push(&row),
            None => Ok(()),
        };
        if let Some(recording) = &mut self.recording {
            done = done.and(recording.push(row));
        }
        self.fault = done.err();
    }

    /// Writes the contents of the capture besides connections. Adds notes on what could not be written.
    pub(super) fn whole(&mut self, traffic: &Traffic, held: &Held, notes: &mut Notes) {
        for c in &traffic.conversations {
            self.push(rows::conversation(c));
        }
        if self.left_out > 0 {
            notes.said.push(format!(
                "the packets claim more than {MOST_DAYS} days: {} rows of others are not kept",
                self.left_out
            ));
        }
        let last = self.last_ns;
        for note in &notes.said {
            self.push(rows::event(last, rows::DAMAGE, String::new(), note.clone()));
        }
        for c in &notes.comments {
            let at = c.frame.map_or(String::new(), |f| f.to_string());
            self.push(rows::event(last, rows::COMMENT, at, c.text.clone()));
        }
        let held = serde_json::to_string(held).expect("counts are plain data");
        self.push(rows::event(last, rows::CAPTURE, String::new(), held));
    }

    /// Removes the incomplete outputs.
    pub fn abandon(self) {
        let path = self.path().map(Path::to_path_buf);
        drop(self.recording);
        if let Some(path) = path {
            let _ = std::fs::remove_dir_all(path);
        }
    }

    /// Sets the time, UNIX ns, of a running capture.
    pub fn tick(&mut self, now_ns: i64) {
        if let (Some(recording), None) = (&mut self.recording, &self.fault) {
            self.fault = recording.tick(now_ns).err();
        }
    }

    /// Closes the outputs.
    ///
    /// # Errors
    /// An error of the disk, now or before.
    pub fn close(self, complete: bool) -> anyhow::Result<()> {
        let path = self.path().map(Path::to_path_buf);
        let meta = Meta {
            started_ns: self.first_ns.unwrap_or(0),
            ended_ns: Some(self.last_ns),
            complete,
            ..self.meta
        };
        let mut result = self.fault.map_or(Ok(()), Err);
        if let Some(recording) = self.recording {
            if self.again && result.is_err() {
                drop(recording);
            } else {
                result = result.and(recording.close(meta).map(drop));
            }
        }
        if let Some(csv) = self.csv {
            result = result.and(csv.close().map(drop));
        }
        match (result, path) {
            (Ok(()), _) => Ok(()),
            (Err(e), Some(path)) if self.again => {
                // It was begun by this command and holds nothing that cannot be had again.
                let _ = std::fs::remove_dir_all(&path);
                Err(e).with_context(|| format!("{} was not made", path.display()))
            }
            (Err(e), _) => Err(e.into()),
        }
    }
}
