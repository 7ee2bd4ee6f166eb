//! Verbs: a command line is carried out on a thread of its own, while Python's thread waits without the interpreter.

use crate::error;
use crate::news::News;
use crate::plugins;
use cli::{Failure, Outcome};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::any::Any;
use std::ffi::OsString;
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Interval at which a waiting thread looks for Ctrl-C.
const LOOK: Duration = Duration::from_millis(50);
/// Shortest interval between two calls of a progress callback.
const SHOW: Duration = Duration::from_millis(100);
/// Time for an interrupted run to end before its caller goes on without it.
const GRACE: Duration = Duration::from_millis(80);
/// Stack of a verb's thread: as much as a process's first thread has.
const STACK: usize = 8 << 20;

/// Interrupted runs that have not ended yet: they still close their recordings.
static LEFT: Mutex<Vec<JoinHandle<()>>> = Mutex::new(Vec::new());

type Done = Result<Outcome, Failure>;

/// Carries out a command line, without the program's name.
///
/// Returns the outcome ("done", "above" or "could not measure"), the data that the command prints, and its notes.
/// `progress` is called with a share from 0 to 1 (or None) and a text, at most ten times a second; its exceptions end
/// the run.
#[pyfunction]
#[pyo3(signature = (arguments, progress=None))]
pub fn run<'py>(
    py: Python<'py>,
    arguments: Vec<OsString>,
    progress: Option<Bound<'py, PyAny>>,
) -> PyResult<Bound<'py, PyTuple>> {
    let news = Arc::new(News::default());
    let (told, done) = sync_channel(1);
    let (done, face) = (Mutex::new(done), news.clone());
    let work = move || {
        // The interpreter's state of this thread lives as long as the run: each call of a plug-in is then cheap.
        let done = Python::attach(|py| py.detach(|| cli::run(arguments, face)));
        // The receiver may have gone on without this run.
        let _ = told.send(done);
    };
    let thread = std::thread::Builder::new()
        .name("verb".into())
        .stack_size(STACK)
        .spawn(work)
        .map_err(|e| error(py, "Error", &format!("cannot start a thread: {e}"), None))?;
    let outcome = match wait(py, &done, &news, progress.as_ref()) {
        Ok(Some(outcome)) => outcome,
        Ok(None) => return Err(broken(py, thread)),
        Err(e) => {
            news.stop();
            if let Err(RecvTimeoutError::Timeout) = next(py, &done, GRACE) {
                LEFT.lock()
                    .unwrap_or_else(PoisonError::into_inner)
                    .push(thread);
            }
            return Err(e);
        }
    };
    let (printed, notes) = news.finish();
    let outcome = match outcome {
        Ok(Outcome::Above) => "above",
        Ok(Outcome::CouldNotMeasure) => "could not measure",
        Ok(Outcome::Done | Outcome::Child(_)) => "done",
        Err(failure) => return Err(failed(py, &failure)),
    };
    (outcome, PyBytes::new(py, &printed), notes).into_pyobject(py)
}

/// Waits for the end of a run; none if its thread panicked.
fn wait(
    py: Python<'_>,
    done: &Mutex<Receiver<Done>>,
    news: &News,
    progress: Option<&Bound<'_, PyAny>>,
) -> PyResult<Option<Done>> {
    let mut shown: Option<Instant> = None;
    loop {
        match next(py, done, LOOK) {
            Ok(end) => return Ok(Some(end)),
            Err(RecvTimeoutError::Disconnected) => return Ok(None),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
        }
        let due = shown.is_none_or(|at| at.elapsed() >= SHOW);
        if let Some((progress, latest)) = progress.filter(|_| due).zip(news.latest()) {
            progress.call1((latest.share, latest.text))?;
            shown = Some(Instant::now());
        }
    }
}

/// Waits for the end of a run without the interpreter.
fn next(
    py: Python<'_>,
    done: &Mutex<Receiver<Done>>,
    most: Duration,
) -> Result<Done, RecvTimeoutError> {
    py.detach(|| {
        let done = done.lock().unwrap_or_else(PoisonError::into_inner);
        done.recv_timeout(most)
    })
}

fn failed(py: Python<'_>, failure: &Failure) -> PyErr {
    let added = failure.added.as_ref();
    if let Some(e) = added.and_then(|added| plugins::raised(py, added)) {
        return e;
    }
    let class = if failure.usage { "UsageError" } else { "Error" };
    error(py, class, &failure.message, failure.hint.as_deref())
}

/// Error of a run whose thread panicked: a broken invariant of ours.
fn broken(py: Python<'_>, thread: JoinHandle<()>) -> PyErr {
    let told = py.detach(|| thread.join()).err();
    let told = told.as_deref().map_or("no message", panic_text);
    let hint = "this is a defect of tailback: please report it with the call that led here";
    error(py, "Error", &format!("internal error: {told}"), Some(hint))
}

fn panic_text(payload: &(dyn Any + Send)) -> &str {
    let text = payload.downcast_ref::<String>().map(String::as_str);
    text.or_else(|| payload.downcast_ref().copied())
        .unwrap_or("no message")
}

/// Waits at most this many seconds for interrupted runs that still close their recordings.
#[pyfunction]
pub fn settle(py: Python<'_>, seconds: f64) {
    let left = std::mem::take(&mut *LEFT.lock().unwrap_or_else(PoisonError::into_inner));
    let until = Instant::now() + Duration::from_secs_f64(seconds.clamp(0.0, 60.0));
    py.detach(|| {
        while Instant::now() < until && !left.iter().all(JoinHandle::is_finished) {
            std::thread::sleep(LOOK);
        }
    });
}

/// Runs the command `tailback` with these arguments, and returns its exit code.
#[pyfunction]
pub fn main(py: Python<'_>, arguments: Vec<OsString>) -> u8 {
    py.detach(|| cli::exit_code(arguments))
}
