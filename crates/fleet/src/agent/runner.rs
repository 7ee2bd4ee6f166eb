//! Runs of measurements, each a process of its own: a fault of one ends neither the agent nor another run.

use crate::plan::Measurement;
use crate::task::Task;
use anyhow::Context;
use live::interrupted_with_parent;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Time that a run has to close its recording after the signal.
const GRACE: Duration = Duration::from_secs(30);
/// Time for which a monitor outlives its period, so that the next one starts beside it.
const HAND_OVER: Duration = Duration::from_secs(30);
/// End of a run's messages that is kept as its reason.
const TOLD: u64 = 300;

/// Run under way.
pub struct Running {
    pub measurement: String,
    pub number: u64,
    pub due_s: u64,
    pub recording: String,
    child: Child,
    messages: PathBuf,
    began: Instant,
    ends: Instant,
    asked: Option<Instant>,
    pub task: Task,
    /// Server at which the hub gave the point its turn.
    pub turn: Option<String>,
    /// Reason for which the start was late.
    pub waited: Option<String>,
    /// Recording of the run that takes over from this one.
    pub successor: Option<String>,
}

/// End of a run.
pub struct Ended {
    pub complete: bool,
    pub reason: Option<String>,
}

/// Starts a run that writes `recording`.
pub fn start(
    home: &Path,
    measurement: &Measurement,
    task: Task,
    (number, due_s): (u64, u64),
    recording: &str,
) -> anyhow::Result<Running> {
    let plan = home.join(format!("{}.plan.json", measurement.name));
    let messages = home.join(format!("{}.messages", measurement.name));
    std::fs::write(&plan, serde_json::to_vec(&task.plan)?)
        .with_context(|| format!("cannot write {}", plan.display()))?;
    let told =
        File::create(&messages).with_context(|| format!("cannot write {}", messages.display()))?;
    let program = std::env::current_exe().context("cannot find the program itself")?;
    let mut command = Command::new(program);
    command.arg("run").arg(&plan).arg("--quiet");
    command
        .arg("--output")
        .arg(home.join("spool").join(recording));
    if let Some(pin) = &task.pin {
        command.arg("--pin").arg(pin.to_string());
    }
    // Without its agent, a monitor would write on forever.
    let child = interrupted_with_parent(&mut command)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(told)
        .spawn()
        .context("cannot start a measurement")?;
    Ok(Running {
        measurement: measurement.name.clone(),
        number,
        due_s,
        recording: recording.into(),
        child,
        messages,
        began: Instant::now(),
        ends: Instant::now() + longest(measurement, &task),
        asked: None,
        task,
        turn: None,
        waited: None,
        successor: None,
    })
}

/// Time after which the agent ends a run. A monitor that lasts as long as its period is ended by the next one.
fn longest(m: &Measurement, task: &Task) -> Duration {
    let most = Duration::from_secs(m.at_most_s);
    match task.is_endless() && m.at_most_s >= m.every_s {
        true => most + Duration::from_secs(m.jitter_s) + HAND_OVER,
        false => most,
    }
}

impl Running {
    /// Looks if the run has ended. Asks it to end when its time is over, and ends it some time later.
    ///
    /// # Errors
    /// The process cannot be looked after.
    pub fn poll(&mut self) -> anyhow::Result<Option<Ended>> {
        if let Some(status) = self.child.try_wait()? {
            let complete = status.success() || (self.task.is_endless() && self.asked.is_some());
            let reason = (!complete).then(|| self.last_words(&status.to_string()));
            return Ok(Some(Ended { complete, reason }));
        }
        match self.asked {
            None if Instant::now() >= self.ends => self.ask(),
            Some(asked) if asked.elapsed() > GRACE => self.child.kill()?,
            _ => {}
        }
        Ok(None)
    }

    /// Time since the start.
    pub fn elapsed(&self) -> base::Duration {
        base::Duration::from_nanos(self.began.elapsed().as_nanos() as u64)
    }

    /// Names the run that takes over. This one goes on until that one records, for one more period at most.
    pub fn hand_over_to(&mut self, recording: &str, period_s: u64) {
        self.successor = Some(recording.into());
        self.ends = Instant::now() + Duration::from_secs(period_s);
    }

    /// Asks the run to end, as Ctrl-C does.
    pub fn ask(&mut self) {
        if self.asked.is_none() {
            self.asked = Some(Instant::now());
            // If it has ended meanwhile, there is nothing to ask.
            let _ = kill(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGINT);
        }
    }

    /// End of what the run wrote to its messages.
    fn last_words(&self, status: &str) -> String {
        let read = || -> std::io::Result<String> {
            let mut file = File::open(&self.messages)?;
            let size = file.metadata()?.len();
            file.seek(SeekFrom::Start(size.saturating_sub(TOLD)))?;
            let mut bytes = Vec::new();
            file.take(TOLD).read_to_end(&mut bytes)?;
            Ok(String::from_utf8_lossy(&bytes).trim().to_owned())
        };
        let told = read().unwrap_or_default();
        match told.is_empty() {
            true => status.to_owned(),
            false => base::text::clean(&told).into_owned(),
        }
    }
}
