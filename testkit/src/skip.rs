//! Skips of tests that the host cannot run.

/// Environment variable that turns a skip into a failure.
const REQUIRE: &str = "TAILBACK_REQUIRE_NETNS";

/// Says that a test is skipped, and why.
///
/// # Panics
/// If `TAILBACK_REQUIRE_NETNS` is set: there, a skip is a failure.
#[track_caller]
pub fn skip(why: &str) {
    assert!(
        std::env::var_os(REQUIRE).is_none(),
        "{REQUIRE} is set, yet: {why}"
    );
    eprintln!("skipped: {why}");
}

/// True if the program under test has the analysis for browsers: it has none where the toolchain has no WebAssembly.
pub fn has_browser_analysis() -> bool {
    let built = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/../crates/cli/web/browser.wasm.gz"
    );
    std::fs::metadata(built).is_ok_and(|file| file.len() > 0)
}
