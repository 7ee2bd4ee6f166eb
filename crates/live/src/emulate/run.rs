//! Programs behind a link.

use super::{EmulateError, Emulation, NetNs, Options, Summary};
use crate::sys::keeper::Plan;
use crate::sys::{exec, signal};
use link::LinkSpec;
use nix::sys::signal::{SigSet, SigmaskHow, Signal, kill, sigprocmask};
use nix::unistd::Pid;
use std::ffi::OsString;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Signals that are forwarded to the command.
const PASSED_ON: [Signal; 6] = [
    Signal::SIGINT,
    Signal::SIGTERM,
    Signal::SIGHUP,
    Signal::SIGQUIT,
    Signal::SIGUSR1,
    Signal::SIGUSR2,
];
/// Interval of the checks on the command, if its end is not announced.
const LOOK: Duration = Duration::from_millis(100);
/// Time that the far program may take to finish after it was asked to.
const GRACE: Duration = Duration::from_secs(1);

/// Programs to run, each with its arguments.
#[derive(Clone, Debug, Default)]
pub struct Programs {
    /// Program at the near end. When it ends, everything ends.
    pub near: Vec<OsString>,
    /// Program at the far end, if any: started first, without input, ended with the near one.
    pub far: Option<Vec<OsString>>,
    /// True if the standard output of both goes to this process's standard error.
    pub apart: bool,
}

impl Programs {
    fn output(&self) -> Stdio {
        match self.apart {
            true => std::io::stderr().into(),
            false => Stdio::inherit(),
        }
    }
}

/// Outcome of a run behind a link.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Exit code of the near program; 128 plus the signal's number if a signal ended it.
    pub code: i32,
    /// Status of the far program, if it ended by itself without success.
    pub far_failed: Option<ExitStatus>,
    pub summary: Summary,
}

/// Runs programs behind the chain of links. `near` and `far` are host names of the two ends there.
///
/// Signals sent to this process are forwarded, and processes that the programs leave behind end with them. Call it on a
/// thread that lives until it returns.
///
/// # Errors
/// Errors of [`Emulation::start`], and failure to start a program.
pub fn run_command(
    hops: &[LinkSpec],
    programs: &Programs,
    options: Options,
    held: &HeldSignals,
) -> Result<Outcome, EmulateError> {
    run_blocked(hops, programs, options, &held.ours)
}

/// Signals that wait for [`run_command`] to forward them. Threads that start while this lives leave them alone too, so
/// hold them before the first thread starts.
pub struct HeldSignals {
    ours: SigSet,
    before: SigSet,
}

impl HeldSignals {
    /// # Errors
    /// A kernel that refuses to block signals.
    pub fn hold() -> Result<HeldSignals, EmulateError> {
        let mut ours = SigSet::from_iter(PASSED_ON);
        ours.add(Signal::SIGCHLD);
        let mut before = SigSet::empty();
        sigprocmask(SigmaskHow::SIG_BLOCK, Some(&ours), Some(&mut before))
            .map_err(EmulateError::errno("block signals"))?;
        Ok(HeldSignals { ours, before })
    }
}

impl Drop for HeldSignals {
    fn drop(&mut self) {
        // A mask that was valid before is valid again.
        let _ = sigprocmask(SigmaskHow::SIG_SETMASK, Some(&self.before), None);
    }
}

fn run_blocked(
    hops: &[LinkSpec],
    programs: &Programs,
    options: Options,
    ours: &SigSet,
) -> Result<Outcome, EmulateError> {
    let emulation = Emulation::start(hops, options)?;
    let mut far = match &programs.far {
        Some(argv) => {
            let streams = (Stdio::null(), programs.output());
            Some(Guarded(start(argv, emulation.far(), streams)?))
        }
        None => None,
    };
    let streams = (Stdio::inherit(), programs.output());
    let mut near = Guarded(start(&programs.near, emulation.near(), streams)?);
    let status = near.wait_passing_on(ours)?;
    let far_failed = match &mut far {
        Some(far) => far.end()?,
        None => None,
    };
    // The keeper's own code is the command's; a signal hit the keeper itself only where someone killed it.
    let code = status
        .code()
        .or_else(|| std::os::unix::process::ExitStatusExt::signal(&status).map(|s| 128 + s))
        .unwrap_or(1);
    Ok(Outcome {
        code,
        far_failed,
        summary: emulation.stop()?,
    })
}

/// Program that is killed when dropped, with all that it started.
struct Guarded(Child);

impl Drop for Guarded {
    fn drop(&mut self) {
        // Both fail only where it has ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guarded {
    fn wait_passing_on(&mut self, ours: &SigSet) -> Result<ExitStatus, EmulateError> {
        loop {
            if let Some(status) = self.ended()? {
                return Ok(status);
            }
            if let Some(signal) = next_signal(ours) {
                self.send(signal)?;
            }
        }
    }

    fn ended(&mut self) -> Result<Option<ExitStatus>, EmulateError> {
        self.0
            .try_wait()
            .map_err(EmulateError::kernel("wait for the command behind the link"))
    }

    fn send(&self, signal: Signal) -> Result<(), EmulateError> {
        kill(Pid::from_raw(self.0.id() as i32), signal).map_err(EmulateError::errno(format!(
            "pass {signal} on to the command"
        )))
    }

    /// Asks the program to finish, then kills it. Returns its status if it had failed before.
    fn end(&mut self) -> Result<Option<ExitStatus>, EmulateError> {
        if let Some(status) = self.ended()? {
            return Ok(Some(status).filter(|s| !s.success()));
        }
        self.send(Signal::SIGTERM)?;
        let asked = Instant::now();
        while asked.elapsed() < GRACE && self.ended()?.is_none() {
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(None)
    }
}

fn start(
    argv: &[OsString],
    ns: &NetNs,
    (input, output): (Stdio, Stdio),
) -> Result<Child, EmulateError> {
    let (program, arguments) = argv.split_first().ok_or(EmulateError::NoCommand)?;
    let plan = Plan::new(hosts(
        &std::fs::read_to_string("/etc/hosts").unwrap_or_default(),
    ));
    let mut command = Command::new(program);
    command.args(arguments).stdin(input).stdout(output);
    exec::kept(&mut command, ns.clone(), plan);
    command.spawn().map_err(|source| EmulateError::Command {
        program: program.to_string_lossy().into_owned(),
        source,
    })
}

/// Waits a moment for a signal sent to this process alone. A signal of the terminal reaches the command by itself.
fn next_signal(ours: &SigSet) -> Option<Signal> {
    let (signal, sent_by_kernel) = signal::wait(ours, LOOK)?;
    Some(signal).filter(|s| *s != Signal::SIGCHLD && !sent_by_kernel)
}

/// The host's names with ours in front, so that ours are found first.
fn hosts(of_host: &str) -> String {
    let (near_v4, far_v4, near_v6, far_v6) =
        (super::NEAR_V4, super::FAR_V4, super::NEAR_V6, super::FAR_V6);
    format!("{near_v4}\tnear\n{far_v4}\tfar\n{near_v6}\tnear\n{far_v6}\tfar\n{of_host}")
}
