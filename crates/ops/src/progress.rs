//! Progress of a run: its news, and the question if it should stop.

use base::Duration;
use experiment::monitor::MonitorStatus;
use experiment::steps::Told;
#[cfg(target_os = "linux")]
use live::control::Status as ControlStatus;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use store::Recovered;

/// News of a run.
#[derive(Clone, Copy)]
pub enum Event<'e> {
    /// The work can be interrupted from here on: the run asks [`Progress::interrupted`].
    Interruptible,
    /// Share of the work done, from 0 to 1.
    Share(f64),
    /// End of the work whose shares were reported.
    Finished,
    /// Recording that rows go to from now on; `resumed` if it had rows before.
    Recording { path: &'e Path, resumed: bool },
    /// File or directory that was written.
    Wrote(&'e Path),
    /// Sentence about the course of the run.
    Said(&'e str),
    /// Doubt, damage or failure that a reader of the figures must know.
    Warned(&'e str),
    /// State of an experiment; `rtt` computes the present round trip.
    Stage {
        progress: &'e experiment::Progress<'e>,
        rtt: &'e dyn Fn() -> Option<Duration>,
    },
    /// Event of an experiment's steps.
    Told(Told),
    /// State of all targets of a monitor.
    Monitor(&'e MonitorStatus),
    /// State of a gateway under control, once a second.
    #[cfg(target_os = "linux")]
    Control(&'e ControlStatus),
    /// State of a captured interface, once a second; its first line is the summary.
    Capture(&'e str),
}

/// Receiver of the news of a run, such as a terminal or a Python callback.
pub trait Progress: Send {
    /// Takes one piece of news.
    fn tell(&mut self, event: Event<'_>);

    /// Returns true to end the run early; rows up to then are kept.
    fn interrupted(&mut self) -> bool {
        false
    }
}

/// Ignores all news: there is no observer.
impl Progress for () {
    fn tell(&mut self, _event: Event<'_>) {}
}

/// Observer: the progress of a run, shared by its threads.
pub trait Observer: Sync {
    /// Takes one event.
    fn tell(&self, event: Event<'_>);
    /// Returns true to end the run early.
    fn interrupted(&self) -> bool;
    /// Reports the damage of a recording's files, once for each file.
    fn recovered(&self, notes: Vec<Recovered>);
}

impl dyn Observer + '_ {
    /// Tells how the run goes on.
    pub fn say(&self, text: &str) {
        self.tell(Event::Said(text));
    }

    /// Tells a doubt or trouble.
    pub fn warn(&self, text: &str) {
        self.tell(Event::Warned(text));
    }

    /// Tells a file that was written.
    pub fn wrote(&self, path: &Path) {
        self.tell(Event::Wrote(path));
    }

    /// Tells the share of the work done, from 0 to 1.
    pub fn share(&self, share: f64) {
        self.tell(Event::Share(share));
    }
}

/// Shared [`Progress`] behind a lock, with the files whose damage has been reported.
pub struct Shared<'p> {
    progress: Mutex<&'p mut dyn Progress>,
    damaged: Mutex<BTreeSet<PathBuf>>,
}

impl<'p> Shared<'p> {
    /// Puts a progress behind a lock.
    pub fn new(progress: &'p mut dyn Progress) -> Shared<'p> {
        Shared {
            progress: Mutex::new(progress),
            damaged: Mutex::default(),
        }
    }
}

/// Locks `mutex`. A thread that panicked ends the run elsewhere; the others may still report.
fn locked<T>(lock: &Mutex<T>) -> MutexGuard<'_, T> {
    lock.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Observer for Shared<'_> {
    fn tell(&self, event: Event<'_>) {
        locked(&self.progress).tell(event);
    }

    fn interrupted(&self) -> bool {
        locked(&self.progress).interrupted()
    }

    fn recovered(&self, notes: Vec<Recovered>) {
        for note in notes {
            if locked(&self.damaged).insert(note.file.clone()) {
                self.tell(Event::Warned(&note.to_string()));
            }
        }
    }
}
