//! Makes the binary smaller while it is linked by LLD, rustc's own linker on this target: functions of equal machine
//! code are folded, and relative relocations are packed where the C library of this machine reads them (glibc 2.36).

use std::process::Command;

/// Analysis for browsers, which the binary brings along.
const ANALYSIS: &str = "web/browser.wasm.gz";

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if !std::path::Path::new(ANALYSIS).exists() {
        println!(
            "cargo::error=crates/cli/{ANALYSIS} is not built: run `make assets` (needs Node.js 20 or newer with npm), then build again"
        );
    }
    let (host, target) = (std::env::var("HOST"), std::env::var("TARGET"));
    if target.as_deref() != Ok("x86_64-unknown-linux-gnu") {
        return;
    }
    println!("cargo::rustc-link-arg-bins=-Wl,--icf=all");
    if host == target && glibc().is_some_and(|version| version >= (2, 36)) {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
}

/// Returns the version of this machine's glibc: `getconf` prints it as `glibc 2.36`.
fn glibc() -> Option<(u32, u32)> {
    let output = Command::new("getconf")
        .arg("GNU_LIBC_VERSION")
        .output()
        .ok()?;
    let text = String::from_utf8(output.stdout).ok()?;
    let (major, minor) = text.trim().strip_prefix("glibc ")?.split_once('.')?;
    Some((major.parse().ok()?, minor.split('.').next()?.parse().ok()?))
}
