//! Verbs in another process than the command's own, such as a Python interpreter: their output goes to a face instead
//! of the terminal, and a face, not a signal, interrupts them.

use crate::{Outcome, parse, told};
use ops::Event;
use std::cell::RefCell;
use std::ffi::OsString;
use std::fmt;
use std::sync::Arc;

/// Receiver of what a verb prints.
pub trait Face: Send + Sync {
    /// Takes data, which the command writes to standard output.
    fn print(&self, data: &[u8]);
    /// Takes narration, which the command writes to standard error.
    fn say(&self, text: &str);
    /// Takes one piece of news of a run.
    fn tell(&self, event: Event<'_>);
    /// Returns true to end the run early; rows up to then are kept.
    fn interrupted(&self) -> bool;
}

/// End of a verb that could not be carried out.
#[derive(Debug)]
pub struct Failure {
    /// Sentence that says what failed, with its causes.
    pub message: String,
    /// Sentence that says what to try, if there is one.
    pub hint: Option<String>,
    /// True if the request must change; the command exits with 2.
    pub usage: bool,
    /// Error of code that the program has added, if that ended the run.
    pub added: Option<base::plugged::Failure>,
}

thread_local! {
    static FACE: RefCell<Option<Arc<dyn Face>>> = const { RefCell::new(None) };
}

/// Face of this thread's verb, if it runs for one.
pub(crate) fn face() -> Option<Arc<dyn Face>> {
    FACE.with_borrow(Clone::clone)
}

/// Does a part of a verb's work on this thread, for the face of that verb.
pub(crate) fn within<T>(face: Option<Arc<dyn Face>>, work: impl FnOnce() -> T) -> T {
    let before = FACE.replace(face);
    let done = work();
    FACE.set(before);
    done
}

/// Verb that takes the rights or the terminal of its process, or starts this program again.
#[derive(Debug)]
struct NeedsAProcess(&'static str);

impl fmt::Display for NeedsAProcess {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "`tailback {}` needs a process of its own", self.0)
    }
}

impl std::error::Error for NeedsAProcess {}

/// Refuses a verb that needs a process of its own if there is a face.
pub(crate) fn only_as_a_process(verb: &'static str) -> anyhow::Result<()> {
    match face() {
        Some(_) => Err(NeedsAProcess(verb).into()),
        None => Ok(()),
    }
}

/// Carries out a command line without the program's name, on this thread.
///
/// # Errors
/// Wrong arguments, and everything else that makes the command exit with 2 or 3 without figures.
pub fn run(arguments: Vec<OsString>, face: Arc<dyn Face>) -> Result<Outcome, Failure> {
    let cli = match parse(arguments) {
        Ok(cli) => cli,
        Err(e) if !e.use_stderr() => {
            face.print(e.render().to_string().as_bytes());
            return Ok(Outcome::Done);
        }
        Err(e) => return Err(refused(&e)),
    };
    within(Some(face), || cli.verb.run()).map_err(|e| {
        let process = e.downcast_ref::<NeedsAProcess>();
        Failure {
            message: told(&e),
            hint: process.map(|of| format!("start the command `tailback {}` beside Python", of.0)),
            usage: process.is_some() || ops::is_usage(&e),
            added: e.chain().find_map(added),
        }
    })
}

fn added(cause: &(dyn std::error::Error + 'static)) -> Option<base::plugged::Failure> {
    match cause.downcast_ref() {
        Some(sim::ScenarioError::Added(failure)) => Some(failure.clone()),
        _ => None,
    }
}

/// Error in the arguments: its first paragraph, and clap's tip as the hint.
fn refused(e: &clap::Error) -> Failure {
    let text = e.render().to_string();
    let told = text.split("\n\n").next().unwrap_or_default();
    let tip = text.lines().find_map(|l| l.trim().strip_prefix("tip: "));
    Failure {
        message: told.trim_start_matches("error: ").trim().to_owned(),
        hint: Some(
            tip.unwrap_or("see the function's docstring for its arguments")
                .to_owned(),
        ),
        usage: true,
        added: None,
    }
}

/// Makes a signal end the run early, unless a face does.
pub(crate) fn catch_interrupt() {
    if face().is_none() {
        live::signal::catch_interrupt();
    }
}

/// True once the run is to end early.
pub(crate) fn interrupted() -> bool {
    face().map_or_else(live::signal::interrupted, |face| face.interrupted())
}
