//! Web site of a monitor: its page, the state of this second as JSON, single probes, and metrics. All answers come from
//! memory.
//!
//! A thread of low priority renders the page while somebody looks at it: at most every 30 s, and never for more than a
//! twentieth of the time. Another one reads the single probes of a time that a reader has zoomed to; the page asks
//! again until they are there.

use super::history::{History, Second};
use super::metrics::families;
use crate::metrics::{PROTOBUF, TEXT, protobuf, text};
use crate::progress::Shared;
use crate::report;
use ::report::data::PageProbes;
use ::report::plots::SINGLE;
use experiment::monitor::{MonitorStatus, Target};
use live::web::{Reply, Site as WebSite};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
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

/// Times whose single probes are kept, and for how long: an open recording grows.
const KEPT: usize = 8;
const FRESH: Duration = Duration::from_secs(60);

/// Site, shared by the monitor, the server and the thread that renders.
pub(super) struct Site {
    /// Groups of the targets that have one, by the target's name.
    groups: BTreeMap<String, String>,
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
    /// Content of the plots that the page can zoom.
    zoomed: report::Zoomed,
    asked: Option<Instant>,
    /// Times whose single probes were asked for, the oldest first.
    single: VecDeque<Single>,
}

/// Single probes of a time.
struct Single {
    asked: Instant,
    /// UNIX time, ms.
    span: (i64, i64),
    /// Answer, once it was read.
    json: Option<Arc<Vec<u8>>>,
}

/// Reads `probes/FROM/TO`, UNIX times in milliseconds.
fn single(path: &str) -> Option<(i64, i64)> {
    /// Latest time that still is one in nanoseconds.
    const LATEST_MS: i64 = i64::MAX / 1_000_000;
    let (from, to) = path
        .strip_prefix('/')?
        .strip_prefix(SINGLE)?
        .split_once('/')?;
    let (from, to): (i64, i64) = (from.parse().ok()?, to.parse().ok()?);
    (0 <= from && from < to && to <= LATEST_MS).then_some((from, to))
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
    /// Place in the tree of targets.
    group: Option<&'s str>,
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
    pub(super) fn new(targets: &[Target]) -> Arc<Site> {
        let group = |t: &Target| Some((t.name(), t.group.clone()?));
        Arc::new(Site {
            groups: targets.iter().filter_map(group).collect(),
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

    /// Starts the threads that render the page of a recording, and read its single probes.
    ///
    /// # Errors
    /// A thread that cannot be started.
    pub(super) fn render(self: &Arc<Site>, recording: PathBuf) -> std::io::Result<Renderer> {
        let renderer = Renderer(self.clone());
        type Work = fn(&Site, &Path);
        let works: [(&str, Work); 2] = [("page", Site::keep_fresh), ("probes", Site::read_single)];
        for (name, work) in works {
            let (site, recording) = (self.clone(), recording.clone());
            std::thread::Builder::new()
                .name(name.into())
                .spawn(move || {
                    live::host::be_nice();
                    work(&site, &recording);
                })?;
        }
        Ok(renderer)
    }

    /// Reads the single probes that are asked for, one time after the other.
    fn read_single(&self, recording: &Path) {
        while !self.stop.load(Ordering::Acquire) {
            let wanted = {
                let mut state = self.state();
                state.single.retain(|s| s.asked.elapsed() < FRESH);
                let waiting = state.single.iter().find(|s| s.json.is_none());
                waiting.map(|s| (s.span, state.zoomed.clone()))
            };
            let Some((span, zoomed)) = wanted else {
                std::thread::park_timeout(ROUND);
                continue;
            };
            let ns = (span.0 * 1_000_000, span.1 * 1_000_000);
            let found = report::single_probes(recording, &zoomed, ns, &Shared::new(&mut ()));
            let found = found.unwrap_or_else(|e| PageProbes::none(&format!("{e:#}")));
            let json = serde_json::to_vec(&found).unwrap_or_default();
            live::host::release_memory();
            let mut state = self.state();
            if let Some(s) = state.single.iter_mut().find(|s| s.span == span) {
                s.json = Some(Arc::new(json));
            }
        }
    }

    /// Returns the single probes of a time, or `null` until they are read.
    fn single(&self, span: (i64, i64)) -> Vec<u8> {
        let mut state = self.state();
        let known = state.single.iter().find(|s| s.span == span);
        if let Some(json) = known.and_then(|s| s.json.clone()) {
            return json.to_vec();
        }
        if known.is_none() {
            if state.single.len() >= KEPT {
                state.single.pop_front();
            }
            state.single.push_back(Single {
                asked: Instant::now(),
                span,
                json: None,
            });
        }
        b"null".to_vec()
    }

    fn keep_fresh(&self, recording: &Path) {
        let mut next: Option<Instant> = None;
        while !self.stop.load(Ordering::Acquire) {
            let asked = self.state().asked;
            let looked_at = asked.is_some_and(|at| at.elapsed() < LOOKING);
            if looked_at && next.is_none_or(|at| Instant::now() >= at) {
                let began = Instant::now();
                // A recording without a probe yet has no page.
                if let Ok(page) = report::live_page(recording, &Shared::new(&mut ())) {
                    let mut state = self.state();
                    state.page = Some(Arc::new(page.html));
                    state.zoomed = page.zoomed;
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
                group: self.groups.get(&*t.name).map(String::as_str),
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
                kind: PROTOBUF,
                body: protobuf(&families(status)),
            },
            false => Reply {
                kind: TEXT,
                body: text(&families(status)).into_bytes(),
            },
        })
    }
}

impl WebSite for Site {
    fn get(&self, path: &str, accepts: &str, _token: Option<&str>) -> Option<Reply> {
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
            _ => Some(Reply {
                kind: "application/json",
                body: self.single(single(path)?),
            }),
        }
    }
}

/// Threads that render and read, until it is dropped.
pub(super) struct Renderer(Arc<Site>);

impl Drop for Renderer {
    fn drop(&mut self) {
        // A page of weeks takes a while: nobody waits for it.
        self.0.stop.store(true, Ordering::Release);
    }
}
