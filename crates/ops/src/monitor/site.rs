//! Web site of a monitor: its page, the state of this second as JSON, and metrics. All answers come from memory.
//!
//! A thread of low priority renders the page while somebody looks at it: at most every 30 s, and never for more than a
//! twentieth of the time.

use super::history::{History, Second};
use super::metrics;
use crate::progress::Shared;
use crate::report;
use live::monitor::MonitorStatus;
use live::web::{Reply, Site as WebSite};
use serde::Serialize;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Shortest time between two pages.
const PAUSE: Duration = Duration::from_secs(30);
/// Pause after a page, in times of its rendering.
const REST: u32 = 19;
/// Time since the last request after which nobody looks.
const LOOKING: Duration = Duration::from_secs(60);
/// Seconds of each target that the page shows.
const SHOWN: usize = 120;
/// Interval at which the thread looks for work.
const ROUND: Duration = Duration::from_millis(250);

/// Site, shared by the monitor, the server and the thread that renders.
pub(super) struct Site {
    state: Mutex<State>,
    stop: AtomicBool,
}

#[derive(Default)]
struct State {
    status: Option<MonitorStatus>,
    history: History,
    /// Latest page and its number.
    page: Option<Arc<String>>,
    number: u64,
    asked: Option<Instant>,
}

/// State of this second, for the page's script.
#[derive(Serialize)]
struct Live<'s> {
    elapsed_s: f64,
    /// Number of the latest page.
    page: u64,
    interface: Option<&'s str>,
    down_bps: Option<u64>,
    up_bps: Option<u64>,
    targets: Vec<LiveTarget<'s>>,
}

#[derive(Serialize)]
struct LiveTarget<'s> {
    name: &'s str,
    rtt_ms: Option<f64>,
    ipdv_ms: Option<f64>,
    sent: u64,
    lost: u64,
    /// Silence of the outage in progress, s.
    outage_s: Option<f64>,
    trouble: Option<&'s str>,
    seconds: Vec<Second>,
}

impl Site {
    pub(super) fn new() -> Arc<Site> {
        Arc::new(Site {
            state: Mutex::default(),
            stop: AtomicBool::new(false),
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes the state of a second.
    pub(super) fn take(&self, status: &MonitorStatus) {
        let mut state = self.state();
        state.history.take(status);
        state.status = Some(status.clone());
    }

    /// Starts the thread that renders the page of a recording.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub(super) fn render(self: &Arc<Site>, recording: PathBuf) -> std::io::Result<Renderer> {
        let site = self.clone();
        std::thread::Builder::new()
            .name("page".into())
            .spawn(move || {
                live::host::be_nice();
                site.keep_fresh(&recording);
            })?;
        Ok(Renderer(self.clone()))
    }

    fn keep_fresh(&self, recording: &std::path::Path) {
        let mut next: Option<Instant> = None;
        while !self.stop.load(Ordering::Acquire) {
            let asked = self.state().asked;
            let looked_at = asked.is_some_and(|at| at.elapsed() < LOOKING);
            if looked_at && next.is_none_or(|at| Instant::now() >= at) {
                let began = Instant::now();
                // A recording without a probe yet has no page.
                if let Ok(page) = report::live_page(recording, &Shared::new(&mut ())) {
                    let mut state = self.state();
                    state.page = Some(Arc::new(page));
                    state.number += 1;
                }
                live::host::release_memory();
                next = Some(Instant::now() + PAUSE.max(began.elapsed() * REST));
                if self.state().page.is_none() {
                    next = Some(Instant::now() + Duration::from_secs(2));
                }
            }
            std::thread::park_timeout(ROUND);
        }
    }

    fn live(&self) -> Option<Vec<u8>> {
        let mut state = self.state();
        state.asked = Some(Instant::now());
        let status = state.status.as_ref()?;
        let targets = status.targets.iter().map(|t| {
            let recent = state.history.of(&t.name);
            let seconds = recent.map(|r| {
                let skipped = r.seconds.len().saturating_sub(SHOWN);
                r.seconds.iter().skip(skipped).copied().collect()
            });
            LiveTarget {
                name: &t.name,
                rtt_ms: t.rtt.map(|d| d.as_millis_f64()),
                ipdv_ms: t.ipdv().map(|d| d.as_millis_f64()),
                sent: t.judged(),
                lost: t.unanswered(),
                outage_s: recent.and_then(|r| r.outage()).map(|d| d.as_secs_f64()),
                trouble: t.trouble.as_deref(),
                seconds: seconds.unwrap_or_default(),
            }
        });
        let live = Live {
            elapsed_s: status.elapsed.as_secs_f64(),
            page: state.number,
            interface: status.interface.as_deref(),
            down_bps: status.down.map(|r| r.get()),
            up_bps: status.up.map(|r| r.get()),
            targets: targets.collect(),
        };
        serde_json::to_vec(&live).ok()
    }

    fn page(&self) -> Vec<u8> {
        let page = {
            let mut state = self.state();
            state.asked = Some(Instant::now());
            state.page.clone()
        };
        match page {
            Some(page) => page.as_bytes().to_vec(),
            None => report::empty_live_page().into_bytes(),
        }
    }

    fn metrics(&self, accepts: &str) -> Option<Reply> {
        let state = self.state();
        let status = state.status.as_ref()?;
        let wants_protobuf = accepts.contains("application/vnd.google.protobuf");
        Some(match wants_protobuf {
            true => Reply {
                kind: metrics::PROTOBUF,
                body: metrics::protobuf(status),
            },
            false => Reply {
                kind: metrics::TEXT,
                body: metrics::text(status).into_bytes(),
            },
        })
    }
}

impl WebSite for Site {
    fn get(&self, path: &str, accepts: &str) -> Option<Reply> {
        match path {
            "/" => Some(Reply {
                kind: "text/html; charset=utf-8",
                body: self.page(),
            }),
            "/live.json" => Some(Reply {
                kind: "application/json",
                body: self.live()?,
            }),
            "/metrics" => self.metrics(accepts),
            _ => None,
        }
    }
}

/// Thread that renders, until it is dropped.
pub(super) struct Renderer(Arc<Site>);

impl Drop for Renderer {
    fn drop(&mut self) {
        // A page of weeks takes a while: nobody waits for it.
        self.0.stop.store(true, Ordering::Release);
    }
}
