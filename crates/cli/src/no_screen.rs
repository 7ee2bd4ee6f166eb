//! Screen of a monitor on systems other than Linux, where there is none.

use experiment::monitor::MonitorStatus;
use report::terminal::Style;
use std::io;

/// Screen that cannot be opened.
pub enum Live {}

/// Returns false.
pub fn is_possible() -> bool {
    false
}

impl Live {
    /// # Errors
    /// Always.
    pub fn start(_: Style) -> io::Result<Live> {
        Err(io::ErrorKind::Unsupported.into())
    }

    pub fn screen(&self) -> &Live {
        self
    }

    pub fn name(&self, _: &str) {
        match *self {}
    }

    pub fn say(&self, _: &str) {
        match *self {}
    }

    pub fn take(&self, _: &MonitorStatus) {
        match *self {}
    }

    pub fn finish(self) -> Vec<String> {
        match self {}
    }
}
