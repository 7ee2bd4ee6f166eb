//! The page's script and style are built from `web/` before the crate; see `web/README.md`.

use std::path::Path;

fn main() {
    let parts = ["page.js", "live.js", "page.css", "uplot-licence.txt"]
        .map(|name| format!("web/dist/{name}"));
    for part in &parts {
        println!("cargo::rerun-if-changed={part}");
    }
    if let Some(missing) = parts.iter().find(|p| !Path::new(p).exists()) {
        println!(
            "cargo::error=crates/report/{missing} is not built: run `make assets` (needs Node.js 20 or newer with npm), then build again"
        );
    }
}
