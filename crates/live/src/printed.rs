//! Lines that a command of the user prints, each with the time at which it came. The command is a stranger: its lines are
//! cut at a length, and it waits if nobody takes them.

use crate::clock::wall_ns;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use std::io::{self, Read};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::time::Duration;

/// Longest line, in bytes; what follows is dropped.
const LONGEST: usize = 1_000;
/// Number of lines that wait to be taken.
const WAITING: usize = 100;

/// Line of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Line {
    /// Wall clock when its end was read, UNIX ns.
    pub t_ns: i64,
    pub text: String,
}

/// Command that runs, and its lines. Dropping it ends the command and all that it started.
pub struct Printed {
    child: Child,
    lines: Receiver<Line>,
}

impl Printed {
    /// Starts `sh -c COMMAND` without input, in a process group of its own.
    ///
    /// # Errors
    /// The shell or a thread cannot be started.
    pub fn start(command: &str) -> io::Result<Printed> {
        Printed::start_with(command, &[])
    }

    /// Does the same with variables in the command's environment.
    ///
    /// # Errors
    /// Errors of [`Printed::start`].
    pub fn start_with(command: &str, variables: &[(&str, &str)]) -> io::Result<Printed> {
        let mut child = Command::new("sh")
            .args(["-c", command])
            .envs(variables.iter().copied())
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (send, lines) = sync_channel(WAITING);
        let out = child.stdout.take();
        let printed = Printed { child, lines };
        // A thread that is blocked in reading ends with the command.
        std::thread::Builder::new()
            .name("printed".into())
            .stack_size(256 << 10)
            .spawn(move || {
                if let Some(out) = out {
                    read_lines(out, &send);
                }
            })?;
        Ok(printed)
    }

    /// Waits for a line; `None` if none came in that time.
    ///
    /// # Errors
    /// Returns [`Ended`] once the command has closed its output and all lines are taken.
    pub fn wait(&self, most: Duration) -> Result<Option<Line>, Ended> {
        match self.lines.recv_timeout(most) {
            Ok(line) => Ok(Some(line)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(Ended),
        }
    }

    /// Returns the exit status if the command has ended.
    ///
    /// # Errors
    /// The errors of the operating system.
    pub fn status(&mut self) -> io::Result<Option<ExitStatus>> {
        self.child.try_wait()
    }
}

/// The command has closed its output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ended;

impl Drop for Printed {
    fn drop(&mut self) {
        if let Ok(None) = self.child.try_wait() {
            let group = Pid::from_raw(self.child.id().cast_signed());
            // The group is ours: it was made for this child, which has not been waited for.
            let _ = killpg(group, Signal::SIGTERM);
            std::thread::sleep(Duration::from_millis(50));
            let _ = killpg(group, Signal::SIGKILL);
        }
        let _ = self.child.wait();
    }
}

/// Sends each line until the output ends or nobody listens.
fn read_lines(mut out: ChildStdout, send: &SyncSender<Line>) {
    let mut line: Vec<u8> = Vec::new();
    let mut piece = [0; 4096];
    loop {
        let n = match out.read(&mut piece) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(_) => break,
        };
        for byte in &piece[..n] {
            match byte {
                b'\n' if send.send(finished(&mut line)).is_err() => return,
                b'\n' => {}
                byte if line.len() < LONGEST => line.push(*byte),
                _ => {}
            }
        }
    }
    if !line.is_empty() {
        let _ = send.send(finished(&mut line));
    }
}

fn finished(line: &mut Vec<u8>) -> Line {
    let text = String::from_utf8_lossy(line).into_owned();
    line.clear();
    Line {
        t_ns: wall_ns(),
        text,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// All lines and the status of a command.
    fn all(command: &str) -> (Vec<Line>, Option<i32>) {
        let mut printed = Printed::start(command).expect("a shell");
        let mut lines = Vec::new();
        while let Ok(line) = printed.wait(Duration::from_secs(20)) {
            lines.push(line.expect("a line in time"));
        }
        let status = printed.child.wait().expect("its status");
        (lines, status.code())
    }

    #[test]
    fn lines_come_in_order_with_rising_times_and_the_last_needs_no_end() {
        let (lines, status) = all("echo one; echo; printf three; exit 7");
        let texts: Vec<&str> = lines.iter().map(|l| l.text.as_str()).collect();
        assert_eq!(texts, ["one", "", "three"]);
        assert!(lines.windows(2).all(|w| w[0].t_ns <= w[1].t_ns));
        assert_eq!(status, Some(7));
    }

    #[test]
    fn a_line_without_end_takes_no_memory_and_bytes_that_are_no_text_are_replaced() {
        let (lines, _) = all("head -c 3000000 /dev/zero | tr '\\0' x; echo; printf '\\377\\n'");
        assert_eq!(lines[0].text.len(), LONGEST);
        assert_eq!(lines[1].text, "\u{fffd}");
    }

    #[test]
    fn dropping_it_ends_the_command_and_what_it_started() {
        let printed = Printed::start("sleep 1000 & echo $!; wait").expect("a shell");
        let line = printed
            .wait(Duration::from_secs(20))
            .expect("runs")
            .expect("a line");
        let pid = Pid::from_raw(line.text.parse().expect("a number"));
        drop(printed);
        let gone = || {
            let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            // A zombie waits for its new parent; it runs no more.
            stat.rsplit(')')
                .next()
                .is_none_or(|s| s.trim().is_empty() || s.trim().starts_with('Z'))
        };
        let came = (0..200).any(|_| {
            std::thread::sleep(Duration::from_millis(10));
            gone()
        });
        assert!(came, "process {pid} goes on");
    }
}
