//! Signals on systems other than Linux: Ctrl-C alone.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

/// Time of the first interrupt.
static INTERRUPTED: OnceLock<Instant> = OnceLock::new();

/// Time after the first interrupt in which others belong to it, as on Linux.
const SAME: Duration = Duration::from_secs(1);

/// Exit code of a program that Ctrl-C ended (128 and the number of SIGINT).
const ENDED: i32 = 130;

/// Makes Ctrl-C set a flag; one that comes more than a second later ends the process.
pub fn catch_interrupt() {
    // A second call finds the handler of the first, which does the same.
    let _ = ctrlc::set_handler(|| {
        if interrupted_before(SAME) {
            std::process::exit(ENDED);
        }
        interrupt();
    });
}

fn interrupted_before(span: Duration) -> bool {
    INTERRUPTED.get().is_some_and(|at| at.elapsed() > span)
}

/// Asks the run to end, as the first Ctrl-C does.
pub fn interrupt() {
    INTERRUPTED.get_or_init(Instant::now);
}

/// True after Ctrl-C.
pub fn interrupted() -> bool {
    INTERRUPTED.get().is_some()
}
