//! The page's script and style are built from `web/` before the crate; see `web/README.md`.

use std::path::Path;

fn main() {
    let mut names = vec![
        "page.js",
        "live.js",
        "film.js",
        "tail.js",
        "page.css",
        "uplot-licence.txt",
    ];
    // WebAssembly is built from this crate itself, among others.
    if std::env::var("CARGO_CFG_TARGET_FAMILY").as_deref() != Ok("wasm") {
        names.extend(["web.js", "web_probe.js", "web_load.js"]);
    }
    let parts: Vec<String> = names
        .iter()
        .map(|name| format!("web/dist/{name}"))
        .collect();
    for part in &parts {
        println!("cargo::rerun-if-changed={part}");
    }
    if let Some(missing) = parts.iter().find(|p| !Path::new(p).exists()) {
        println!(
            "cargo::error=crates/report/{missing} is not built: run `make assets` (needs Node.js 20 or newer with npm), then build again"
        );
    }
}
