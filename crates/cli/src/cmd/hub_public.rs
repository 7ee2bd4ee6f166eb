//! Public page of a hub: groups of points that are large enough that nothing about a single one shows. Read-only, without a token.

use super::hub_web::{HEAD, HTML, escaped};
use super::task;
use fleet::hub::Hub;
use live::web::{Reply, Site, Web};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Points of the smallest group that is shown.
pub const LEAST: u64 = 5;
/// Time between two drawings, and between two looks if it is time to stop.
const EVERY: Duration = Duration::from_secs(300);
const ROUND: Duration = Duration::from_millis(500);

#[derive(Default)]
struct Shown {
    html: Mutex<Vec<u8>>,
    stop: AtomicBool,
}

/// Public page, until it is dropped.
pub struct Public {
    shown: Arc<Shown>,
    web: Web,
    painter: Option<JoinHandle<()>>,
}

impl Public {
    /// Serves the groups by a label of the hub in that directory.
    ///
    /// # Errors
    /// An address that cannot be bound; the hub cannot be opened.
    pub fn start(data: &Path, listen: SocketAddr, by: String) -> anyhow::Result<Public> {
        let hub = Hub::open(data, task::read)?;
        let shown = Arc::new(Shown::default());
        let web = Web::open(listen, shown.clone())?;
        let drawn = shown.clone();
        let painter = std::thread::Builder::new()
            .name("public".into())
            .spawn(move || {
                live::host::be_nice();
                let mut last: Option<Instant> = None;
                while !drawn.stop.load(Ordering::Acquire) {
                    if last.is_none_or(|last| last.elapsed() >= EVERY) {
                        let html = page(&hub, &by);
                        *drawn.html.lock().unwrap_or_else(PoisonError::into_inner) = html;
                        live::host::release_memory();
                        last = Some(Instant::now());
                    }
                    std::thread::park_timeout(ROUND);
                }
            })?;
        Ok(Public {
            shown,
            web,
            painter: Some(painter),
        })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.web.address()
    }
}

impl Drop for Public {
    fn drop(&mut self) {
        self.shown.stop.store(true, Ordering::Release);
        if let Some(painter) = self.painter.take() {
            painter.thread().unpark();
            let _ = painter.join();
        }
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
    fn get(&self, path: &str, _accepts: &str) -> Option<Reply> {
        let html = self.html.lock().unwrap_or_else(PoisonError::into_inner);
        (path == "/").then(|| Reply {
            kind: HTML,
            body: html.clone(),
        })
    }
}
