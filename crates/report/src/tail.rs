//! Page of a fleet's dashboard with the live values of one point. Its script asks the hub for them.

use crate::html::live_head;
use maud::{DOCTYPE, PreEscaped, html};

const SCRIPT: &str = include_str!("../web/dist/tail.js");

/// Returns the page of a point.
pub fn page(point: &str) -> String {
    html! {
        (DOCTYPE)
        html lang="en" {
            (live_head(&format!("{point}, live")))
            body {
                main {
                    header {
                        h1 { (point) ", live" }
                        p { a href="/" { "Fleet" } " · " a href={ "/p/" (point) } { "Days of this point" } }
                    }
                    div id="tail" data-point=(point) {
                        p class="evidence" { "Each probe of the last minute, as the point records it. This needs a script." }
                    }
                }
                script { (PreEscaped(SCRIPT)) }
            }
        }
    }
    .into_string()
}
