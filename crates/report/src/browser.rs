//! Page of `tailback serve --web`: a browser runs the test there, and shows its report.

use crate::html::head_of_site;
use maud::{DOCTYPE, html};

/// File of the site: path, media type, true if compressed by gzip, content.
pub type SiteFile = (&'static str, &'static str, bool, &'static [u8]);

#[cfg(not(target_family = "wasm"))]
const SCRIPTS: &str = "text/javascript; charset=utf-8";

/// Files of the site, but for its page and the analysis.
#[cfg(not(target_family = "wasm"))]
pub const FILES: &[SiteFile] = &[
    ("/report.js", SCRIPTS, false, crate::html::SCRIPT.as_bytes()),
    (
        "/web.js",
        SCRIPTS,
        false,
        include_bytes!("../web/dist/web.js"),
    ),
    (
        "/web_probe.js",
        SCRIPTS,
        false,
        include_bytes!("../web/dist/web_probe.js"),
    ),
    (
        "/web_load.js",
        SCRIPTS,
        false,
        include_bytes!("../web/dist/web_load.js"),
    ),
];

/// Renders the page.
pub fn page() -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (head_of_site("Tailback: test this link"))
            body {
                main {
                    section id="run" {
                        p.meta { b { "Tailback" } }
                        h1 { "Where do packets wait on this link, how long, and why?" }
                        p.says {
                            "The test takes about a minute. It fills the link in each direction for some seconds, while small packets measure the delay. "
                            "So it uses as much data as the link carries in half a minute: about 400 MB at 100 Mbit/s. "
                            "Calls and downloads of others in your network suffer meanwhile, and disturb the result. "
                            "The result stays in this browser."
                        }
                        p.tools {
                            button.start id="start" type="button" disabled { "Start the test" }
                            button id="stop" type="button" hidden { "Stop" }
                            button id="save" type="button" hidden { "Save at the server" }
                        }
                        p id="status" role="status" aria-live="polite" { "Loading …" }
                        progress id="progress" max="1" value="0" hidden aria-label="Progress of the phase" {}
                        dl.key id="now" hidden {
                            @for (id, name) in [("now-phase", "Phase of 4"), ("now-rtt", "Round trip"), ("now-down", "Download"), ("now-up", "Upload")] {
                                div { dt { (name) } dd { b id=(id) { "–" } } }
                            }
                        }
                        noscript { p.bad { "The test needs JavaScript." } }
                    }
                    div id="report" {}
                }
                footer { p { "Measured by " code { "tailback serve --web" } ", with the analysis of " code { "tailback test" } "." } }
                script src="report.js" defer {}
                script src="web.js" defer {}
            }
        }
    }
    .into_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_names_only_files_of_its_site() {
        let page = page();
        let named: Vec<&str> = page
            .split("src=\"")
            .skip(1)
            .filter_map(|rest| rest.split('"').next())
            .collect();
        assert_eq!(named.len(), 2);
        for name in named {
            assert!(FILES.iter().any(|f| f.0[1..] == *name), "{name}");
        }
    }
}
