//! Tests that need real time: one at a time on the host, and once more if the host disturbed them.

use std::cell::Cell;
use std::fs::File;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(2);
/// A thread that wakes up this much too late disturbs a measurement of milliseconds.
const STALL: Duration = Duration::from_millis(25);

thread_local! {
    static HELD: Cell<u32> = const { Cell::new(0) };
}

/// Holds off all other tests that need real time, in this process and in others.
pub struct Alone {
    /// Locked; the lock goes with the file.
    _file: Option<File>,
}

/// Waits until no other test needs real time. A thread that holds the lock already goes on.
///
/// # Panics
/// If the lock's file in the temporary directory cannot be opened.
pub fn alone() -> Alone {
    let first = HELD.with(|held| held.replace(held.get() + 1)) == 0;
    let file = first.then(|| {
        let path = std::env::temp_dir().join("tailback-real-time.lock");
        let file = File::options()
            .create(true)
            .truncate(false)
            .write(true)
            .open(&path)
            .unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()));
        file.lock()
            .unwrap_or_else(|e| panic!("cannot lock {}: {e}", path.display()));
        file
    });
    Alone { _file: file }
}

impl Drop for Alone {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - 1));
    }
}

/// Runs a test alone. If it fails while the host stalls, says so and runs it once more.
///
/// # Panics
/// If the test fails while the host is calm, or twice.
pub fn real_time(test: impl Fn()) {
    let _alone = alone();
    twice(&test, &|run| {
        let watch = Watch::start();
        run();
        watch.stop()
    });
}

/// Runs `test` once, and once more if it failed under a disturbance. `watched` runs what it is given and names the
/// disturbance it saw meanwhile.
fn twice(test: &dyn Fn(), watched: &dyn Fn(&mut dyn FnMut()) -> Option<String>) {
    let mut failure = None;
    let disturbed = watched(&mut || failure = catch_unwind(AssertUnwindSafe(test)).err());
    match (failure, disturbed) {
        (None, _) => {}
        (Some(_), Some(why)) => {
            eprintln!("the host disturbed this test ({why}): it runs once more");
            test();
        }
        (Some(failure), None) => {
            eprintln!("the host did not disturb this test");
            resume_unwind(failure);
        }
    }
}

/// Thread that looks how late it wakes up.
struct Watch {
    stop: Arc<AtomicBool>,
    longest_ns: Arc<AtomicU64>,
    thread: JoinHandle<()>,
}

impl Watch {
    fn start() -> Watch {
        let (stop, longest_ns) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (told, longest) = (Arc::clone(&stop), Arc::clone(&longest_ns));
        let thread = std::thread::spawn(move || {
            let longest: Arc<AtomicU64> = longest;
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(TICK);
                let late = began.elapsed().saturating_sub(TICK);
                longest.fetch_max(late.as_nanos() as u64, Ordering::Relaxed);
            }
        });
        Watch {
            stop,
            longest_ns,
            thread,
        }
    }

    /// The longest stall in words, if it was long enough to disturb.
    fn stop(self) -> Option<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only sleeps");
        let longest = Duration::from_nanos(self.longest_ns.load(Ordering::Relaxed));
        (longest >= STALL).then(|| format!("a thread woke up {} ms late", longest.as_millis()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs a test that fails `failures` times, on a host that is disturbed or not; returns the runs and if it failed.
    fn tried(failures: u32, disturbed: bool) -> (u32, bool) {
        let runs = Cell::new(0);
        let test = || {
            runs.set(runs.get() + 1);
            assert!(runs.get() > failures, "a failure");
        };
        let watched = |run: &mut dyn FnMut()| {
            run();
            disturbed.then(|| "made up".to_owned())
        };
        let failed = catch_unwind(AssertUnwindSafe(|| twice(&test, &watched))).is_err();
        (runs.get(), failed)
    }

    #[test]
    fn only_a_failure_under_a_disturbance_gets_a_second_run() {
        assert_eq!(tried(0, false), (1, false));
        assert_eq!(tried(0, true), (1, false));
        assert_eq!(tried(1, false), (1, true));
        assert_eq!(tried(1, true), (2, false));
        assert_eq!(tried(2, true), (2, true));
    }

    #[test]
    fn threads_take_turns_and_one_thread_may_ask_twice() {
        static INSIDE: AtomicU64 = AtomicU64::new(0);
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(|| {
                    let _outer = alone();
                    let _inner = alone();
                    assert_eq!(INSIDE.fetch_add(1, Ordering::SeqCst), 0);
                    std::thread::sleep(Duration::from_millis(5));
                    INSIDE.fetch_sub(1, Ordering::SeqCst);
                });
            }
        });
    }
}
