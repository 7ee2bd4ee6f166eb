//! State of the modem beside a monitor: a thread runs the user's command at an interval and reads what it prints.
//!
//! The command is a stranger: a run is ended after [`LONGEST`], and its lines beyond [`LINES`] are not read.

use crate::progress::Observer;
use analysis::modem;
use anyhow::Context;
use base::record::Row;
use live::printed::{Ended, Printed};
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest run of the command.
const LONGEST: Duration = Duration::from_secs(20);
/// Most lines of a run.
const LINES: usize = 64;
/// Most troubles that are told.
const TOLD: usize = 20;
/// Interval at which the thread looks whether it has to stop.
const TICK: Duration = Duration::from_millis(100);

/// Thread that reads the modem. Dropping it ends the command.
pub(super) struct ModemReader {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    troubles: Receiver<String>,
    told: BTreeSet<String>,
}

impl ModemReader {
    /// Starts to run `command` at an interval; its readings go to `rows`.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub(super) fn start(
        command: &str,
        every: Duration,
        rows: Sender<Row>,
    ) -> anyhow::Result<ModemReader> {
        let stop: Arc<AtomicBool> = Arc::default();
        let (tell, troubles) = channel();
        let (stopped, command) = (stop.clone(), command.to_owned());
        let read = move || {
            let mut next = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                let now = Instant::now();
                if now < next {
                    std::thread::sleep(TICK.min(next - now));
                    continue;
                }
                // Runs that took longer than the interval are not made up for.
                next = (next + every).max(now);
                let faults = match run(&command, &stopped) {
                    Ok((t_ns, lines)) => {
                        let (row, faults) = modem::read(t_ns, &lines);
                        if row.is_some_and(|row| rows.send(Row::Modem(row)).is_err()) {
                            break;
                        }
                        faults
                    }
                    Err(fault) => vec![fault],
                };
                faults.into_iter().for_each(|f| drop(tell.send(f)));
            }
        };
        let thread = std::thread::Builder::new().name("modem".into()).spawn(read);
        Ok(ModemReader {
            stop,
            thread: Some(thread.context("cannot start a thread for --modem-cmd")?),
            troubles,
            told: BTreeSet::new(),
        })
    }

    /// Tells each trouble once.
    pub(super) fn tell(&mut self, observer: &dyn Observer) {
        while let Ok(trouble) = self.troubles.try_recv() {
            if self.told.len() < TOLD && self.told.insert(trouble.clone()) {
                observer.warn(&format!("--modem-cmd: {trouble}"));
            }
        }
    }
}

impl Drop for ModemReader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Runs the command once; gives the time of its last line, and its lines.
fn run(command: &str, stopped: &AtomicBool) -> Result<(i64, Vec<String>), String> {
    let mut printed = Printed::start(command).map_err(|e| format!("cannot start: {e}"))?;
    let until = Instant::now() + LONGEST;
    let (mut t_ns, mut lines) = (0, Vec::new());
    loop {
        if stopped.load(Ordering::Acquire) {
            return Ok((0, Vec::new()));
        }
        if Instant::now() >= until {
            return Err(format!("a run did not end within {} s", LONGEST.as_secs()));
        }
        match printed.wait(TICK) {
            Ok(Some(line)) if lines.len() < LINES => {
                t_ns = line.t_ns;
                lines.push(line.text);
            }
            Ok(Some(_)) => return Err(format!("it printed more than {LINES} lines")),
            Ok(None) => {}
            Err(Ended) => break,
        }
    }
    // It has closed its output, and may take a moment to end.
    while Instant::now() < until {
        match printed.status().map_err(|e| e.to_string())? {
            Some(status) if status.success() => return Ok((t_ns, lines)),
            Some(status) => return Err(format!("it ended with {status}")),
            None => std::thread::sleep(Duration::from_millis(10)),
        }
    }
    Err(format!("a run did not end within {} s", LONGEST.as_secs()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn once(command: &str) -> Result<Vec<String>, String> {
        run(command, &AtomicBool::new(false)).map(|(_, lines)| lines)
    }

    #[test]
    fn lines_of_a_run_are_taken_and_floods_and_failures_are_told() {
        assert_eq!(once("echo a=1; echo b=2").unwrap(), ["a=1", "b=2"]);
        assert!(once("yes").unwrap_err().contains("more than 64 lines"));
        assert!(once("exit 4").unwrap_err().contains("exit status: 4"));
    }

    #[test]
    fn readings_come_at_the_interval_and_end_with_the_reader() {
        let (rows, taken) = channel();
        let every = Duration::from_millis(200);
        let reader = ModemReader::start("echo rate_down=8mbit", every, rows).unwrap();
        let mut times = Vec::new();
        while times.len() < 3 {
            let Row::Modem(row) = taken.recv().unwrap() else {
                panic!("another row")
            };
            assert_eq!(row.down_bps, Some(8_000_000));
            times.push(row.t_ns);
        }
        assert!(times[2] - times[0] >= 300_000_000, "{times:?}");
        drop(reader);
        assert!(taken.iter().count() <= 2, "no reading after the end");
    }
}
