//! Tests that need real time. A host has places for tests that mostly wait; a test that needs the whole host takes all of
//! them. Only the run of a test that had the host for itself can fail it.

use std::cell::Cell;
use std::fs::{File, TryLockError};
use std::io::Write;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Tests that may wait beside each other, each of which uses a small share of a core.
const PLACES: usize = 6;
/// Time between two looks for a free place.
const PATIENCE: Duration = Duration::from_millis(20);
/// Time between two looks at the clock.
const TICK: Duration = Duration::from_millis(2);
/// A thread that wakes up this much too late disturbs a measurement of milliseconds.
const STALL: Duration = Duration::from_millis(25);
/// Lateness that disturbs if it is frequent: the limit from which our own senders call a datagram late.
const LATE: Duration = Duration::from_millis(2);
/// Share of late looks at the clock from which a host is busy.
const BUSY: f64 = 0.005;
/// Runs of a test on a host that disturbs each of them; the last one counts whatever happens.
const RUNS: u32 = 3;

thread_local! {
    /// Number of places that this thread holds.
    static HELD: Cell<usize> = const { Cell::new(0) };
}

/// Places of the host that a test holds, in this process and in others.
pub struct Places {
    /// Locked; the locks go with the files.
    files: Vec<File>,
}

impl Drop for Places {
    fn drop(&mut self) {
        HELD.with(|held| held.set(held.get() - self.files.len()));
    }
}

/// Waits until no other test needs real time, and takes the whole host. A thread that has it already goes on. Tests that wait
/// beside each other come first: no place is kept free for this one, or most of the host would idle until the last is free.
///
/// # Panics
/// If a lock's file in the temporary directory cannot be opened, or this thread holds one place only.
pub fn alone() -> Places {
    let held = HELD.with(Cell::get);
    assert!(held == 0 || held == PLACES, "this test holds a place");
    if held == PLACES {
        return taken(Vec::new());
    }
    loop {
        let free: Option<Vec<File>> = (0..PLACES).map(if_free).collect();
        match free {
            Some(files) => return taken(files),
            None => std::thread::sleep(PATIENCE),
        }
    }
}

/// Waits for a place beside other tests that mostly wait, and takes it. A thread that has one already goes on.
///
/// # Panics
/// If a lock's file in the temporary directory cannot be opened.
pub fn beside() -> Places {
    if HELD.with(Cell::get) > 0 {
        return taken(Vec::new());
    }
    loop {
        match (0..PLACES).find_map(if_free) {
            Some(file) => return taken(vec![file]),
            None => std::thread::sleep(PATIENCE),
        }
    }
}

/// Place of that number, locked, unless a test holds it.
fn if_free(number: usize) -> Option<File> {
    let file = place(number);
    match file.try_lock() {
        Ok(()) => Some(file),
        Err(TryLockError::WouldBlock) => None,
        Err(TryLockError::Error(e)) => panic!("cannot lock place {number}: {e}"),
    }
}

fn taken(files: Vec<File>) -> Places {
    HELD.with(|held| held.set(held.get() + files.len()));
    Places { files }
}

fn place(number: usize) -> File {
    let path = std::env::temp_dir().join(format!("tailback-real-time-{number}.lock"));
    File::options()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&path)
        .unwrap_or_else(|e| panic!("cannot open {}: {e}", path.display()))
}

/// Runs a test alone. If it fails while the host stalls or is busy, says so and runs it once more, twice at most.
///
/// # Panics
/// If the test fails while the host is calm, or three times.
pub fn real_time(test: impl Fn()) {
    let _alone = alone();
    let watched = |run: &mut dyn FnMut()| {
        let watch = Watch::start();
        run();
        watch.stop()
    };
    again(&test, &watched, &tell);
}

/// Runs a test that mostly waits beside others. The others disturb it: if it fails, it runs once more, alone.
///
/// # Panics
/// If the test fails alone, too.
pub fn real_time_beside(test: impl Fn()) {
    first_then(&test, &|failure| {
        tell(&format!(
            "failed beside others ({failure}): once more, alone"
        ));
        real_time(&test);
    });
}

fn first_then(test: &dyn Fn(), again: &dyn Fn(&str)) {
    let place = beside();
    let failure = catch_unwind(AssertUnwindSafe(test)).err();
    drop(place);
    if let Some(failure) = failure {
        let text = failure.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| failure.downcast_ref::<&str>().copied());
        let short: String = text.unwrap_or_default().chars().take(200).collect();
        again(&short);
    }
}

/// Says this of the running test on the real standard error, which `cargo xtask test` reads of tests that pass, too.
fn tell(words: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // A test does not fail because nobody reads this.
    let _ = writeln!(std::io::stderr(), "\nAGAIN {name}: {words}");
}

/// Runs `test`, and once more whenever it failed under a disturbance. `watched` runs what it is given and names the
/// disturbance it saw meanwhile; `tell` announces another run.
fn again(
    test: &dyn Fn(),
    watched: &dyn Fn(&mut dyn FnMut()) -> Option<String>,
    tell: &dyn Fn(&str),
) {
    for _ in 1..RUNS {
        let mut failure = None;
        let disturbed = watched(&mut || failure = catch_unwind(AssertUnwindSafe(test)).err());
        match (failure, disturbed) {
            (None, _) => return,
            (Some(_), Some(why)) => tell(&format!("the host disturbed it ({why}): once more")),
            (Some(failure), None) => {
                eprintln!("the host did not disturb this test");
                resume_unwind(failure);
            }
        }
    }
    test();
}

/// Thread that looks how late it wakes up.
struct Watch {
    stop: Arc<AtomicBool>,
    thread: JoinHandle<Lateness>,
}

/// Lateness of a thread's wakes.
#[derive(Default)]
struct Lateness {
    longest: Duration,
    /// Wakes of the thread.
    wakes: u32,
    /// Those that were late.
    late: u32,
}

impl Watch {
    fn start() -> Watch {
        let stop = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let mut seen = Lateness::default();
            while !told.load(Ordering::Relaxed) {
                let began = Instant::now();
                std::thread::sleep(TICK);
                seen.woke(began.elapsed().saturating_sub(TICK));
            }
            seen
        });
        Watch { stop, thread }
    }

    /// The disturbance in words, if there was one.
    fn stop(self) -> Option<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().expect("it only sleeps").disturbance()
    }
}

impl Lateness {
    fn woke(&mut self, late: Duration) {
        self.longest = self.longest.max(late);
        self.wakes += 1;
        self.late += u32::from(late > LATE);
    }

    /// The disturbance of a measurement in words.
    fn disturbance(&self) -> Option<String> {
        if self.longest >= STALL {
            let ms = self.longest.as_millis();
            return Some(format!("a thread woke up {ms} ms late"));
        }
        (f64::from(self.late) > f64::from(self.wakes) * BUSY).then(|| {
            let (late, wakes) = (self.late, self.wakes);
            format!("a thread woke up late {late} of {wakes} times")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicU64;

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
        let failed = catch_unwind(AssertUnwindSafe(|| again(&test, &watched, &|_| {}))).is_err();
        (runs.get(), failed)
    }

    #[test]
    fn only_a_failure_under_a_disturbance_gets_another_run() {
        assert_eq!(tried(0, false), (1, false));
        assert_eq!(tried(0, true), (1, false));
        assert_eq!(tried(1, false), (1, true));
        assert_eq!(tried(1, true), (2, false));
        assert_eq!(tried(2, true), (3, false));
        assert_eq!(tried(3, true), (3, true));
    }

    #[test]
    fn one_long_stall_or_many_short_ones_disturb_and_a_few_short_ones_do_not() {
        let disturbs = |wakes: &[(u32, u64)]| {
            let mut seen = Lateness::default();
            for &(times, ms) in wakes {
                (0..times).for_each(|_| seen.woke(Duration::from_millis(ms)));
            }
            seen.disturbance()
        };
        assert_eq!(disturbs(&[(1000, 0), (4, 5)]), None);
        let late = "a thread woke up late 10 of 1010 times";
        assert_eq!(disturbs(&[(1000, 0), (10, 5)]).as_deref(), Some(late));
        let stalled = "a thread woke up 30 ms late";
        assert_eq!(disturbs(&[(1000, 0), (1, 30)]).as_deref(), Some(stalled));
    }

    #[test]
    fn what_fails_beside_others_is_judged_by_its_run_alone() {
        let tried = |fails: bool| {
            let again = Cell::new(0);
            let test = || assert!(!fails, "a failure");
            first_then(&test, &|failure| {
                assert_eq!((failure, HELD.with(Cell::get)), ("a failure", 0));
                again.set(again.get() + 1);
            });
            again.get()
        };
        assert_eq!((tried(false), tried(true)), (0, 1));
    }

    #[test]
    fn a_test_alone_has_no_other_beside_it_and_no_more_than_the_places_are_taken() {
        static INSIDE: AtomicU64 = AtomicU64::new(0);
        let enter = |weight: u64| {
            let places = PLACES as u64;
            assert!(INSIDE.fetch_add(weight, Ordering::SeqCst) + weight <= places);
            std::thread::sleep(Duration::from_millis(5));
            INSIDE.fetch_sub(weight, Ordering::SeqCst);
        };
        std::thread::scope(|s| {
            for _ in 0..4 {
                s.spawn(move || {
                    let _outer = alone();
                    let _inner = alone();
                    let _place = beside();
                    enter(PLACES as u64);
                });
            }
            for _ in 0..12 {
                s.spawn(move || {
                    let _outer = beside();
                    let _inner = beside();
                    enter(1);
                });
            }
        });
    }
}
