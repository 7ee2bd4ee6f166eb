//! Library between a process and its machine: it records changes of files for power cuts, and moves the wall clock.

use std::path::Path;
use std::process::Command;

const SOURCE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/src/machine.c");

/// Builds the library, for the variable LD_PRELOAD of a process; `machine.c` says what it does. Returns its path.
///
/// # Panics
/// If there is no C compiler, which the build of the program needs, too.
pub fn machine_library(directory: &Path) -> String {
    let library = directory.join("machine.so");
    let built = Command::new("cc")
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library)
        .args([SOURCE, "-ldl"])
        .status();
    assert!(built.is_ok_and(|status| status.success()), "cc {SOURCE}");
    library
        .into_os_string()
        .into_string()
        .expect("a plain path")
}
