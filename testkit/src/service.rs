//! Programs that serve until somebody ends them.

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::io::{BufRead, BufReader};
use std::process::Child;

/// Process that dies with the test.
pub struct Service(pub Child);

impl Drop for Service {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Service {
    /// Waits until a process, whose standard error is a pipe, says something after these words, such as an address.
    ///
    /// # Panics
    /// If it ends before.
    #[track_caller]
    pub fn told(mut child: Child, words: &str) -> (Service, String) {
        let said = BufReader::new(child.stderr.take().expect("standard error is a pipe"));
        let service = Service(child);
        let mut lines = said.lines().map_while(Result::ok);
        let mut before = Vec::new();
        let found = lines.find_map(|line| {
            let Some((_, after)) = line.split_once(words) else {
                before.push(line);
                return None;
            };
            let is_end = |c: char| c.is_whitespace() || matches!(c, ';' | ',');
            Some(after.split(is_end).next()?.to_owned())
        });
        // What it says later must not fill the pipe.
        std::thread::spawn(move || lines.for_each(drop));
        let found = found.unwrap_or_else(|| panic!("it does not say {words:?}: {before:?}"));
        (service, found)
    }

    /// Ends it as Ctrl-C does. True if it says that all went well.
    ///
    /// # Panics
    /// If it has ended already.
    #[track_caller]
    pub fn end(mut self) -> bool {
        let pid = Pid::from_raw(self.0.id().cast_signed());
        kill(pid, Signal::SIGINT).expect("it runs");
        self.0.wait().expect("it ends").success()
    }
}
