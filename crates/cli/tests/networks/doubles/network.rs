//! What makes a line a test network: further addresses, the kernel's own translators and filters (nftables).

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

/// Whether the kernel and this system have what is needed; says why not.
pub fn can_translate(ns: &NetNs) -> bool {
    let mut command = Command::new("sh");
    command.args([
        "-c",
        "nft add table ip tailback && nft delete table ip tailback",
    ]);
    let tried = ns.command(&mut command).output().expect("a shell");
    if !tried.status.success() {
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        assert!(
            std::env::var_os("TAILBACK_REQUIRE_NETNS").is_none(),
            "nftables are required here: {why}"
        );
        eprintln!("skipped: {why}");
    }
    tried.status.success()
}

/// Replaces all rules inside by this table of IPv4.
pub fn rules(ns: &NetNs, table: &str) {
    let text = format!("flush ruleset\ntable ip tailback {{\n{table}\n}}");
    sh(ns, &format!("nft -f - <<'END'\n{text}\nEND"));
}
