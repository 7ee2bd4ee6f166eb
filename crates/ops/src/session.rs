//! Set-up and end of a run that records: clock, recording, recorder, both ends on this machine, and the files of the
//! run.

#[cfg(target_os = "linux")]
mod embedded;

#[cfg(target_os = "linux")]
pub(crate) use embedded::Embedded;

use crate::progress::{Event as News, Observer};
use crate::recorder::{Recorder, Shared};
use crate::write_file;
use anyhow::Context;
use base::Duration;
use base::record::{Event, Meta, Recording, Row};
use experiment::bufferbloat::rtt_now;
use experiment::steps::Told;
use experiment::{Failure as _, Progress, Watch};
use live::CraftError;
use live::clock::Clock;
use live::load::Access;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};
use store::StoreError;

/// Doubt about every figure that is measured on systems other than Linux.
#[cfg(not(target_os = "linux"))]
pub(crate) const TIMED_BY_PROGRAM: &str = "packets were timed by the program, not by the kernel: a busy processor adds to \
    delays. Counters of the interface were not read: cross traffic is unknown";

/// Recording in progress.
pub(crate) struct Session {
    pub(crate) clock: Clock,
    pub(crate) path: PathBuf,
    pub(crate) recorder: Recorder,
}

impl Session {
    /// Creates the recording; by default its name is the current time.
    ///
    /// # Errors
    /// A recording that exists already or cannot be written.
    pub(crate) fn start(
        output: Option<&Path>,
        meta: impl FnOnce(Clock) -> anyhow::Result<Meta>,
    ) -> anyhow::Result<Session> {
        let clock = Clock::start();
        let meta = meta(clock)?;
        let options = store::Options {
            name: match output {
                Some(_) => store::Name::Exact,
                None => store::Name::NextFree,
            },
            utc_offset_s: jiff::Zoned::now().offset().seconds(),
            ..store::Options::default()
        };
        let path = output.map_or_else(default_path, Path::to_owned);
        let writer = options.create(&path, meta.clone())?;
        let path = writer.path().to_path_buf();
        let recording = Recording {
            meta,
            ..Recording::default()
        };
        Ok(Session {
            clock,
            path,
            recorder: Recorder::start(writer, recording, clock),
        })
    }

    /// Watches a run on behalf of `observer`; a disk that takes no more rows interrupts it.
    pub(crate) fn watch<'w>(&self, observer: &'w dyn Observer) -> Watched<'w> {
        Watched {
            observer,
            shared: self.recorder.shared.clone(),
            clock: self.clock,
            disk: self.recorder.failure(),
        }
    }

    /// Records all rows of an experiment in virtual time.
    pub(crate) fn record(&self, recording: Recording) {
        for row in rows(recording) {
            // The recorder outlives the run; if it is gone, the run is being torn down.
            let _ = self.recorder.rows.send(row);
        }
    }

    /// Waits for the last row and closes the recording; `result` is the outcome of the run.
    pub(crate) fn finish(self, result: &anyhow::Result<()>) -> Closed {
        self.finish_at(result, None)
    }

    /// The same, of a run whose time is another one than the clock's.
    pub(crate) fn finish_at(self, result: &anyhow::Result<()>, ended_ns: Option<i64>) -> Closed {
        let (mut recording, writer, written) = self.recorder.finish();
        recording.meta.complete = result.is_ok() && written.is_ok();
        recording.meta.ended_ns = ended_ns.or_else(|| Some(self.clock.unix_ns()));
        let closed = writer.close(recording.meta.clone());
        Closed {
            recording,
            path: self.path,
            written: written.and(closed.map(drop)),
        }
    }

    /// Records a doubt about all figures.
    pub(crate) fn doubt(&self, subject: &str, doubt: &str) {
        let event = Event {
            t_ns: self.clock.unix_ns(),
            kind: "doubt".into(),
            subject: subject.into(),
            detail: doubt.into(),
        };
        let _ = self.recorder.rows.send(event.into());
    }
}

/// All rows of a simulated experiment.
fn rows(recording: Recording) -> impl Iterator<Item = Row> {
    let Recording {
        delay,
        traffic,
        counter,
        flow,
        datagram,
        host,
        connection,
        segment,
        event,
        ..
    } = recording;
    (delay.into_iter().map(Row::Delay))
        .chain(traffic.into_iter().map(Row::Traffic))
        .chain(counter.into_iter().map(Row::Counter))
        .chain(flow.into_iter().map(Row::Flow))
        .chain(datagram.into_iter().map(Row::Datagram))
        .chain(host.into_iter().map(Row::HostLoad))
        .chain(connection.into_iter().map(|c| Row::Connection(Box::new(c))))
        .chain(segment.into_iter().map(Row::Segment))
        .chain(event.into_iter().map(Row::Event))
}

/// Recording of a run that names none: the current time, in this directory.
pub fn default_path() -> PathBuf {
    format!(
        "tailback-{}.rec",
        jiff::Zoned::now().strftime("%Y%m%d-%H%M%S")
    )
    .into()
}

/// Checks that a client can reach this server through its outlet, and tells doubts.
///
/// # Errors
/// An interface that is not there, or that no route leaves by.
pub(crate) fn reached(
    server: SocketAddr,
    access: &Access,
    observer: &dyn Observer,
) -> anyhow::Result<SocketAddr> {
    if let Some(doubt) = access.outlet.check(server.ip())? {
        observer.warn(&doubt);
    }
    Ok(server)
}

/// Title of a run to a server.
pub(crate) fn towards(server: &str, interface: Option<&str>) -> String {
    let through = interface.map_or_else(String::new, |i| format!(" through {i}"));
    format!("The line to {server}{through}")
}

/// Closed recording.
pub(crate) struct Closed {
    pub(crate) recording: Recording,
    pub(crate) path: PathBuf,
    /// Result of writing to the disk.
    pub(crate) written: Result<(), StoreError>,
}

/// Files and outcome of a run, beside its figures.
pub struct End {
    pub recording: PathBuf,
    /// Path of the report; none if the recording is incomplete.
    pub page: Option<PathBuf>,
    /// Reason of the interruption, if the user ended the run early.
    pub interrupted: Option<String>,
    /// Failure in spite of which there are figures.
    pub failed: Option<anyhow::Error>,
}

impl Closed {
    /// Removes a recording without rows, and returns the reason why there are none.
    pub(crate) fn abandon(self, why: anyhow::Error) -> anyhow::Error {
        if let Err(e) = self.written {
            return e.into();
        }
        let path = &self.path;
        match std::fs::remove_dir_all(path) {
            Ok(()) => why,
            Err(e) => anyhow::Error::from(e).context(format!(
                "cannot remove the empty recording {}",
                path.display()
            )),
        }
    }

    /// Writes the report beside the figures; `verb` names the run in messages.
    pub(crate) fn end(self, result: anyhow::Result<()>, verb: &str, page: &str) -> End {
        let mut end = End {
            recording: self.path,
            page: None,
            interrupted: None,
            failed: None,
        };
        let written = self
            .written
            .context("the figures above are whole, but the recording is not")
            .and_then(|()| {
                let file = end.recording.join("report.html");
                write_file(&file, page)?;
                Ok(file)
            });
        match (written, result) {
            (Err(e), _) => end.failed = Some(e),
            (Ok(file), result) => {
                end.page = Some(file);
                match result {
                    Ok(()) => {}
                    Err(e) if interrupted(&e) => end.interrupted = Some(e.to_string()),
                    Err(e) => {
                        end.failed = Some(e.context(format!(
                            "the {verb} ended early; what was measured until then is above and in the recording"
                        )));
                    }
                }
            }
        }
        end
    }
}

/// True if the user ended the run.
fn interrupted(e: &anyhow::Error) -> bool {
    let known = e.downcast_ref::<CraftError>();
    known.is_some_and(|e| e.interrupted())
}

/// Watcher of a run, for an observer.
pub(crate) struct Watched<'w> {
    observer: &'w dyn Observer,
    shared: Shared,
    clock: Clock,
    disk: Arc<Mutex<Option<String>>>,
}

impl Watch for Watched<'_> {
    fn progress(&mut self, progress: &Progress) {
        let rtt = || -> Option<Duration> {
            let rows = self.shared.lock().expect("no holder panicked");
            rtt_now(&rows, self.clock.unix_ns())
        };
        self.observer.tell(News::Stage {
            progress,
            rtt: &rtt,
        });
    }

    fn interrupted(&mut self) -> bool {
        self.observer.interrupted() || self.disk.lock().expect("no holder panicked").is_some()
    }

    fn told(&mut self, told: Told) {
        self.observer.tell(News::Told(told));
    }
}
