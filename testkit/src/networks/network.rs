//! Additions that turn a link into a test network: further addresses, the kernel's own translators and filters (nftables).

use crate::skip;
use live::emulate::NetNs;
use std::process::Command;

/// Runs a shell command inside; its errors are the test's.
pub fn sh(ns: &NetNs, script: &str) {
    let mut command = Command::new("sh");
    command.args(["-e", "-c", script]);
    let out = ns.command(&mut command).output().expect("a shell");
    let told = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.success(), "{script}: {told}");
}

/// True if the host has nftables; otherwise the test is skipped.
pub fn can_translate(ns: &NetNs) -> bool {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "nft add table ip tailback && nft delete table ip tailback",
    ]);
    let tried = ns.command(&mut command).output().expect("a shell");
    if !tried.status.success() {
        skip(&format!(
            "nftables: {}",
            String::from_utf8_lossy(&tried.stderr)
        ));
    }
    tried.status.success()
}

/// Replaces all rules inside by this table of IPv4.
pub fn rules(ns: &NetNs, table: &str) {
    let text = format!("flush ruleset\ntable ip tailback {{\n{table}\n}}");
    sh(ns, &format!("nft -f - <<'END'\n{text}\nEND"));
}
