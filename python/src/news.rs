//! News of a run, kept for the thread of Python's that waits for it.

use cli::Face;
use ops::Event;
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// News of a run since the last look, and all that it printed.
#[derive(Default)]
pub struct News {
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    printed: Vec<u8>,
    /// Sentences for a reader of the figures: doubts, damage, files written.
    notes: Vec<String>,
    latest: Option<Latest>,
}

/// Progress of a run.
pub struct Latest {
    /// Share of the work done, from 0 to 1, if it is known.
    pub share: Option<f64>,
    /// Present step of the work, or empty.
    pub text: String,
}

impl News {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks the run to end.
    pub fn stop(&self) {
        self.stop.store(true, Ordering::Relaxed);
    }

    /// Takes the progress since the last call.
    pub fn latest(&self) -> Option<Latest> {
        self.state().latest.take()
    }

    /// Takes the data and the notes of a run that is over.
    pub fn finish(&self) -> (Vec<u8>, Vec<String>) {
        let mut state = self.state();
        (mem::take(&mut state.printed), mem::take(&mut state.notes))
    }
}

impl Face for News {
    fn print(&self, data: &[u8]) {
        self.state().printed.extend_from_slice(data);
    }

    fn say(&self, text: &str) {
        let lines = text.lines().filter(|l| !l.trim().is_empty());
        self.state().notes.extend(lines.map(str::to_owned));
    }

    fn tell(&self, event: Event<'_>) {
        let show = |share, text: &str| {
            self.state().latest = Some(Latest {
                share,
                text: text.to_owned(),
            });
        };
        match event {
            Event::Share(share) => show(Some(share), ""),
            Event::Finished => show(Some(1.0), ""),
            Event::Stage { progress, .. } => {
                let whole = progress.whole.as_secs_f64().max(1e-3);
                let share = (progress.elapsed.as_secs_f64() / whole).min(1.0);
                show(Some(share), progress.stage);
            }
            Event::Capture(text) => show(None, text.lines().next().unwrap_or_default()),
            #[cfg(target_os = "linux")]
            Event::Control(status) => show(None, &ops::control::line(status)),
            Event::Warned(text) => self.say(text),
            Event::Said(text) => show(None, text),
            Event::Recording { path, .. } | Event::Wrote(path) => {
                show(None, &path.display().to_string());
            }
            Event::Interruptible | Event::Told(_) | Event::Monitor(_) => {}
        }
    }

    fn interrupted(&self) -> bool {
        self.stop.load(Ordering::Relaxed)
    }
}
