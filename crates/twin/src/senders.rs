//! Names of congestion controllers.

use base::words::WordsError;
use congestion::ControllerSpec;

/// Controller by its name here or in the Linux kernel.
///
/// # Errors
/// A name that neither knows.
pub fn controller_named(name: &str) -> Result<ControllerSpec, WordsError> {
    match name {
        "bbr" => "bbr1",
        "reno" => "newreno",
        name => name,
    }
    .parse()
}
