//! Emulated links, or a skip where the host allows none.

use crate::skip;
use link::LinkSpec;
use live::clock::Clock;
use live::emulate::{EmulateError, Emulation, Options};
use live::serve::{PortSet, ServeConfig, Server};

/// Link whose directions are these tables of a link's file.
///
/// # Panics
/// If the tables describe no link.
#[track_caller]
pub fn spec(up: &str, down: &str) -> LinkSpec {
    let text = format!("name = \"test\"\ntitle = \"test\"\n[up]\n{up}\n[down]\n{down}\n");
    LinkSpec::parse(&text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// Emulates these links in a row; `None` if the host allows no namespaces.
///
/// # Panics
/// If the emulation fails for another reason, or a skip is a failure here.
#[track_caller]
pub fn start(hops: &[LinkSpec]) -> Option<Emulation> {
    start_with(hops, Options::new(Clock::start()))
}

/// Emulates these links in a row with other options.
///
/// # Panics
/// As [`start`] does.
#[track_caller]
pub fn start_with(hops: &[LinkSpec], options: Options) -> Option<Emulation> {
    match Emulation::start(hops, options) {
        Ok(emulation) => Some(emulation),
        Err(e @ (EmulateError::NotAllowed { .. } | EmulateError::Kernel { .. })) => {
            skip(&e.to_string());
            None
        }
        Err(e) => panic!("{e}"),
    }
}

/// Starts our server at the far end, on the usual port; it opens any port that is asked for.
///
/// # Panics
/// If it cannot start.
pub fn serve(line: &Emulation) -> Server {
    let start = || {
        Server::start(ServeConfig {
            allow_listen: PortSet::any(),
            ..ServeConfig::default()
        })
    };
    line.far().run(start).expect("enters").expect("serves")
}
