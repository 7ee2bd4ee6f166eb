//! Public page of a hub: groups of points that are large enough that nothing about a single one shows. Read-only, without a token.

use super::painter::Painter;
use super::{HEAD, HTML, escaped};
use crate::hub::Hub;
use crate::task::ReadTask;
use live::web::{Reply, Site, Web};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Points of the smallest group that is shown.
pub const LEAST: u64 = 5;
/// Time between two drawings.
const EVERY: Duration = Duration::from_secs(300);

#[derive(Default)]
struct Shown {
    html: Mutex<Vec<u8>>,
}

/// Public page, until it is dropped.
pub struct Public {
    web: Web,
    _painter: Painter,
}

impl Public {
    /// Serves the groups by a label of the hub in that directory.
    ///
    /// # Errors
    /// An address that cannot be bound; the hub cannot be opened.
    pub fn start(
        data: &Path,
        read: ReadTask,
        listen: SocketAddr,
        by: String,
    ) -> anyhow::Result<Public> {
        let hub = Hub::open(data, read)?;
        let shown = Arc::new(Shown::default());
        let web = Web::open(listen, shown.clone())?;
        let mut last: Option<Instant> = None;
        let painter = Painter::start("public", move || {
            if last.is_none_or(|last| last.elapsed() >= EVERY) {
                let html = page(&hub, &by);
                *shown.html.lock().unwrap_or_else(PoisonError::into_inner) = html;
                live::host::release_memory();
                last = Some(Instant::now());
            }
        })?;
        Ok(Public {
            web,
            _painter: painter,
        })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.web.address()
    }
}

/// Page of the groups, or a sentence about why there is none.
fn page(hub: &Hub, by: &str) -> Vec<u8> {
    let drawn = hub
        .measured(("", ""))
        .and_then(|measured| ops::points::public(&measured.points, by, LEAST));
    match drawn {
        Ok(answer) => answer.page().as_bytes().to_vec(),
        // The reason may name labels of the operator: it goes to the log.
        Err(e) => {
            eprintln!("tailback hub: nothing is public yet: {e:#}");
            let why = format!("No group of {LEAST} points or more has measured yet.");
            format!("{HEAD}<title>Fleet</title><p>{}", escaped(&why)).into_bytes()
        }
    }
}

impl Site for Shown {
    fn get(&self, path: &str, _accepts: &str, _token: Option<&str>) -> Option<Reply> {
        let html = self.html.lock().unwrap_or_else(PoisonError::into_inner);
        (path == "/").then(|| Reply {
            kind: HTML,
            body: html.clone(),
        })
    }
}
