//! The binary `tailback`.

#![forbid(unsafe_code)]

/// Analysis for browsers, which `serve --web` hands out, compressed by gzip; empty until `make assets` has built it.
#[cfg(target_os = "linux")]
const ANALYSIS: &[u8] = include_bytes!("../web/browser.wasm.gz");

fn main() -> std::process::ExitCode {
    #[cfg(target_os = "linux")]
    ops::web::bring_analysis(ANALYSIS);
    cli::main()
}
