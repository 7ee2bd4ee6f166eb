//! Log-in pages (captive portals) on systems other than Linux, where they are not looked for.

/// Treatment of log-in pages, which needs Linux.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogIn {
    pub check: Option<String>,
    pub command: Option<String>,
}
