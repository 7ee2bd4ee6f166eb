//! Readings beside a monitor: threads read the modem by the user's command, and the radios, at an interval.
//!
//! The command is a stranger: a run is ended after [`LONGEST`], and its lines beyond [`LINES`] are not read.

use crate::progress::Observer;
use analysis::{modem, radio};
use anyhow::Context;
use base::record::{Radio, Row, Text};
use live::printed::{Ended, Printed};
use live::wifi::Stations;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Longest run of a command.
const LONGEST: Duration = Duration::from_secs(20);
/// Most lines of a run of the user's command.
const LINES: usize = 64;
/// Most lines of ModemManager's command: some modems, with 140 each.
const MANAGER_LINES: usize = 2_000;
/// Most troubles that are told.
const TOLD: usize = 20;
/// Interval at which a thread looks whether it has to stop.
const TICK: Duration = Duration::from_millis(100);
/// Readings after which ModemManager is asked anew if it had no modem.
const ASK_AGAIN: u32 = 12;
/// State of each modem that ModemManager knows, with its connected bearers; nothing without ModemManager.
const MANAGER: &str = r#"export LC_ALL=C
for modem in $(mmcli -L -K | sed -n 's/^modem-list[.]value.*: //p'); do
    state=$(mmcli -m "$modem" -K) && printf '%s\n' "$state"
    mmcli -m "$modem" --signal-get -K
    mmcli -m "$modem" --location-get -K
    for bearer in $(printf '%s\n' "$state" | sed -n 's/^modem[.]generic[.]bearers[.]value.*: //p'); do
        mmcli -b "$bearer" -K
    done
done 2>/dev/null
exit 0"#;

/// Rows of a reading, and what was wrong with it.
type Reading = (Vec<Row>, Vec<String>);

/// Thread that reads something at an interval. Dropping it ends the reading.
pub(super) struct Reader {
    of: &'static str,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
    troubles: Receiver<String>,
    told: BTreeSet<String>,
}

impl Reader {
    /// Starts to read at an interval; the readings go to `rows`. `of` is the option that asked for them.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub(super) fn start(
        of: &'static str,
        every: Duration,
        rows: Sender<Row>,
        mut read: impl FnMut(&AtomicBool) -> Reading + Send + 'static,
    ) -> anyhow::Result<Reader> {
        let stop: Arc<AtomicBool> = Arc::default();
        let (tell, troubles) = channel();
        let stopped = stop.clone();
        let turns = move || {
            let mut next = Instant::now();
            while !stopped.load(Ordering::Acquire) {
                let now = Instant::now();
                if now < next {
                    std::thread::sleep(TICK.min(next - now));
                    continue;
                }
                // Readings that took longer than the interval are not made up for.
                next = (next + every).max(now);
                let (found, faults) = read(&stopped);
                if found.into_iter().any(|row| rows.send(row).is_err()) {
                    break;
                }
                faults.into_iter().for_each(|f| drop(tell.send(f)));
            }
        };
        let thread = std::thread::Builder::new().name("readings".into());
        let thread = thread.spawn(turns);
        Ok(Reader {
            of,
            stop,
            thread: Some(thread.with_context(|| format!("cannot start a thread for {of}"))?),
            troubles,
            told: BTreeSet::new(),
        })
    }

    /// Tells each trouble once.
    pub(super) fn tell(&mut self, observer: &dyn Observer) {
        while let Ok(trouble) = self.troubles.try_recv() {
            if self.told.len() < TOLD && self.told.insert(trouble.clone()) {
                observer.warn(&format!("{}: {trouble}", self.of));
            }
        }
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Reading of the modem by the user's command.
pub(super) fn modem(command: String) -> impl FnMut(&AtomicBool) -> Reading + Send {
    move |stopped| match run(&command, LINES, stopped) {
        Ok((t_ns, lines)) => {
            let told = modem::read(t_ns, &lines);
            let modem = told.modem.map(Row::Modem);
            let radio = told.radio.map(Row::Radio);
            (modem.into_iter().chain(radio).collect(), told.faults)
        }
        Err(fault) => (Vec::new(), vec![fault]),
    }
}

/// Reading of the radios of this host: Wi-Fi by the kernel, cellular modems by ModemManager. Of these interfaces alone,
/// unless none is named.
pub(super) fn radios(interfaces: Vec<String>) -> impl FnMut(&AtomicBool) -> Reading + Send {
    let wifi = Stations::open().ok();
    let mut rest = 0;
    move |stopped| {
        let mut rows: Vec<Radio> = wifi.as_ref().map(of_wifi).unwrap_or_default();
        // A host without modems is not asked each time.
        if rest == 0 {
            let manager = run(MANAGER, MANAGER_LINES, stopped).unwrap_or_default();
            let found = radio::mmcli::read(manager.0, &manager.1);
            rest = if found.is_empty() { ASK_AGAIN } else { 1 };
            rows.extend(found);
        }
        rest -= 1;
        let wanted =
            |row: &Radio| interfaces.is_empty() || interfaces.iter().any(|i| **i == *row.interface);
        rows.retain(|row| wanted(row));
        (rows.into_iter().map(Row::Radio).collect(), Vec::new())
    }
}

/// Access point of each Wi-Fi interface; none if the kernel does not tell.
fn of_wifi(wifi: &Stations) -> Vec<Radio> {
    let t_ns = live::clock::wall_ns();
    let rate = |bps: Option<u64>| bps.and_then(|b| i64::try_from(b).ok());
    let row = |(interface, station): (String, measure::nl80211::Station)| {
        let [a, b, c, d, e, f] = station.bssid;
        let cell = format!("{a:02x}:{b:02x}:{c:02x}:{d:02x}:{e:02x}:{f:02x}");
        Radio {
            technology: Some(Text::from("wifi")),
            cell: Some(cell.into()),
            rssi_dbm: station.signal_dbm.map(f64::from),
            down_bps: rate(station.rx_bps),
            up_bps: rate(station.tx_bps),
            ..Radio::at(t_ns, &interface)
        }
    };
    wifi.read().into_iter().map(row).collect()
}

/// Runs a command once; gives the time of its last line, and its lines.
fn run(command: &str, most: usize, stopped: &AtomicBool) -> Result<(i64, Vec<String>), String> {
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
            Ok(Some(line)) if lines.len() < most => {
                t_ns = line.t_ns;
                lines.push(line.text);
            }
            Ok(Some(_)) => return Err(format!("it printed more than {most} lines")),
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
        run(command, LINES, &AtomicBool::new(false)).map(|(_, lines)| lines)
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
        let read = modem("echo rate_down=8mbit".into());
        let reader = Reader::start("--modem-cmd", every, rows, read).unwrap();
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
