//! Writer of a monitor's rows: nothing stays in memory, closed days become Parquet, and the disk is kept from filling
//! up. It never ends the measurement: failures are reported and tried again.

use super::thinning::{self, Guard, Kept};
use crate::progress::Observer;
use base::record::{Event, Row};
use jiff::Zoned;
use live::clock::wall_ns;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;
use store::Writer;

/// Longest time that rows wait before they are written together.
const ROUND: Duration = Duration::from_millis(500);
/// Interval of the checks for closed days and free space.
const HOUSEKEEPING_NS: i64 = 60_000_000_000;
/// Time from midnight until a day is closed: the rows of unanswered probes come three minutes late.
const GRACE_NS: i64 = 600_000_000_000;

/// Thread that takes the rows of a monitor.
pub(crate) struct MonitorWriter {
    pub(crate) rows: Sender<Row>,
    /// Sentences about the disk, for an observer.
    said: Receiver<String>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Writer>,
}

impl MonitorWriter {
    pub(crate) fn start(writer: Writer, guard: Guard) -> std::io::Result<MonitorWriter> {
        let (rows, inbox) = channel();
        let (say, said) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let keeper = Keeper {
            path: writer.path().to_owned(),
            writer,
            guard,
            say,
            stop: stop.clone(),
            told: None,
            refused: 0,
            chores: None,
            troubles: BTreeSet::new(),
        };
        let thread = std::thread::Builder::new()
            .name("writer".into())
            .stack_size(512 << 10)
            .spawn(move || keeper.run(&inbox))?;
        Ok(MonitorWriter {
            rows,
            said,
            stop,
            thread,
        })
    }

    /// Forwards the sentences about the disk since the last call.
    pub(crate) fn tell(&self, observer: &dyn Observer) {
        self.said.try_iter().for_each(|line| observer.warn(&line));
    }

    /// Waits until every row has been taken. Returns the writer, to be closed.
    pub(crate) fn finish(self, observer: &dyn Observer) -> Writer {
        self.stop.store(true, Ordering::Release);
        self.thread.thread().unpark();
        let writer = self.thread.join().expect("the writer does not panic");
        self.said.try_iter().for_each(|line| observer.warn(&line));
        writer
    }
}

struct Keeper {
    path: PathBuf,
    writer: Writer,
    guard: Guard,
    say: Sender<String>,
    stop: Arc<AtomicBool>,
    /// Latest failure, until the next success.
    told: Option<String>,
    /// Rows that were refused and not yet reported.
    refused: u64,
    chores: Option<JoinHandle<Kept>>,
    /// Problems of the last housekeeping.
    troubles: BTreeSet<String>,
}

impl Keeper {
    fn run(mut self, inbox: &Receiver<Row>) -> Writer {
        let mut next_chores = wall_ns();
        loop {
            // Before the rows are taken: nothing that was handed in earlier is left behind.
            let last = self.stop.load(Ordering::Acquire);
            for row in inbox.try_iter() {
                let result = self.writer.write(row);
                self.note(result.err().map(|e| e.to_string()));
            }
            let result = self.writer.tick(wall_ns());
            self.note(result.err().map(|e| e.to_string()));
            self.tell_refused();
            if last {
                break;
            }
            let now = wall_ns();
            if now >= next_chores || next_chores - now > 2 * HOUSEKEEPING_NS {
                next_chores = now + HOUSEKEEPING_NS;
                self.begin_chores(now);
            }
            self.end_chores(false);
            std::thread::park_timeout(ROUND);
        }
        self.end_chores(true);
        self.writer
    }

    /// Sends a sentence to the observer; it need not be there.
    fn say(&self, line: &str) {
        let _ = self.say.send(line.to_owned());
    }

    /// Reports a problem of the disk when it begins and when it ends.
    fn note(&mut self, trouble: Option<String>) {
        match (&self.told, trouble) {
            (None, Some(e)) => {
                self.say(&format!("{e} Measuring goes on."));
                self.told = Some(e);
            }
            (Some(_), None) if !self.writer.is_behind() => {
                self.say("the disk takes rows again");
                self.told = None;
            }
            _ => {}
        }
    }

    /// Reports refused rows as missing in the recording, once there is space again.
    fn tell_refused(&mut self) {
        let refused = self.writer.rows_refused();
        if refused > self.refused && self.told.is_none() {
            let missing = refused - self.refused;
            self.refused = refused;
            self.event(&format!("{{\"rows_missed\":{missing}}}"));
        }
    }

    fn event(&mut self, detail: &str) {
        let event = Event {
            t_ns: wall_ns(),
            kind: "disk".into(),
            subject: "recording".into(),
            detail: detail.into(),
        };
        let result = self.writer.write(event.into());
        self.note(result.err().map(|e| e.to_string()));
    }

    /// Starts housekeeping in its own thread: a day is turned into Parquet while the next one is recorded.
    fn begin_chores(&mut self, now_ns: i64) {
        let zone = Zoned::now().offset().seconds();
        self.writer.set_utc_offset(zone);
        let released = self.writer.release_days_before(now_ns - GRACE_NS);
        if let Err(e) = released {
            self.note(Some(e.to_string()));
        }
        if self.chores.is_some() {
            return;
        }
        let first_open = self.writer.first_open_day();
        let today = Zoned::now().date().to_string();
        let before = first_open.map_or(today.clone(), |day| day.min(today));
        let (path, guard, stop) = (self.path.clone(), self.guard, self.stop.clone());
        let thread = std::thread::Builder::new()
            .name("chores".into())
            .stack_size(512 << 10)
            .spawn(move || {
                live::host::be_nice();
                chores(&path, &before, guard, &|| !stop.load(Ordering::Acquire))
            });
        match thread {
            Ok(thread) => self.chores = Some(thread),
            Err(e) => self.say(&format!("cannot start a thread for housekeeping: {e}")),
        }
    }

    fn tell(&mut self, line: &str) {
        self.say(line);
        self.event(line);
    }

    fn end_chores(&mut self, wait: bool) {
        let Some(thread) = self.chores.take() else {
            return;
        };
        if !wait && !thread.is_finished() {
            self.chores = Some(thread);
            return;
        }
        let kept = thread.join().unwrap_or_else(|_| Kept {
            troubles: vec!["housekeeping failed: this is a fault of the program".into()],
            ..Kept::default()
        });
        kept.steps.iter().for_each(|line| self.tell(line));
        // A trouble that stays is told once.
        let troubles = BTreeSet::from_iter(kept.troubles);
        let new: Vec<String> = troubles.difference(&self.troubles).cloned().collect();
        new.iter().for_each(|line| self.tell(line));
        if troubles.is_empty() && !self.troubles.is_empty() {
            self.tell("housekeeping works again, and there is room enough");
        }
        self.troubles = troubles;
        live::host::release_memory();
    }
}

/// Closes days and frees space; ends soon after `go_on` says no.
fn chores(path: &Path, before: &str, guard: Guard, go_on: &dyn Fn() -> bool) -> Kept {
    // A damaged file is told of once, when the recording is gone on with; it stays as it is.
    let sealed = store::seal_days(path, before, go_on);
    let mut kept = thinning::keep_room(path, before, guard, go_on);
    kept.troubles.extend(sealed.err().map(|e| e.to_string()));
    kept
}
