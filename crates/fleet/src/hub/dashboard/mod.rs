//! Dashboard of a hub: the state of all points, reports over them, the page of each measurement's latest recording, and
//! metrics. Read-only. A reader sees the points of their scope, and of no other point a name.
//!
//! A thread of low priority draws what somebody has asked for in the last minute. All pages come from memory.

mod metrics;
mod painter;
mod public;

pub use public::Public;

use super::readers::Scope;
use super::{Hub, Measured, Push, about_point};
use crate::task::ReadTask;
use crate::unix_s;
use live::web::{Reply, Site, Web};
use painter::Painter;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// Time since the last request for a page after which nobody looks at it.
const LOOKING: Duration = Duration::from_secs(60);
/// Time for which metrics hold: shorter than between two scrapes.
const SCRAPE: Duration = Duration::from_secs(5);
/// Pages at a time.
const PAGES: usize = 32;
const HTML: &str = "text/html; charset=utf-8";
const HEAD: &str = "<!doctype html><meta charset=\"utf-8\"><meta name=\"viewport\" content=\"width=device-width\">\
    <style>:root{color-scheme:light dark}body{font-family:sans-serif;margin:2rem}\
    td,th{padding:.2rem 1rem .2rem 0;text-align:left}</style>";

/// Page that somebody has asked for.
struct Page {
    asked: Instant,
    /// Recording that was drawn, or number of the overview.
    of: String,
    html: Option<Arc<Vec<u8>>>,
}

struct Pages {
    hub: Hub,
    /// Live values of points, shared with the hub that serves them.
    push: Arc<Push>,
    /// Pages by what their readers see and their path.
    pages: Mutex<BTreeMap<(Scope, String), Page>>,
    /// Metrics that were read last, and when.
    metrics: Mutex<Option<(Instant, String)>>,
}

/// Dashboard, until it is dropped.
pub struct Dashboard {
    web: Web,
    _painter: Painter,
}

impl Dashboard {
    /// Serves the dashboard of the hub in that directory; `push` is that of the hub which serves its points.
    ///
    /// # Errors
    /// An address that cannot be bound, and one that others reach without a token.
    pub fn start(
        data: &Path,
        read: ReadTask,
        listen: SocketAddr,
        token: Option<String>,
        push: Arc<Push>,
    ) -> anyhow::Result<Dashboard> {
        let pages = Arc::new(Pages {
            hub: Hub::open(data, read)?,
            push,
            pages: Mutex::default(),
            metrics: Mutex::default(),
        });
        let web = Web::start(listen, token, pages.clone())?;
        let scratch = data.join("dashboard.html");
        let painter = Painter::start("dashboard", move || pages.paint(&scratch))?;
        Ok(Dashboard {
            web,
            _painter: painter,
        })
    }

    /// Address that it listens on.
    pub fn address(&self) -> SocketAddr {
        self.web.address()
    }
}

impl Pages {
    fn all(&self) -> MutexGuard<'_, BTreeMap<(Scope, String), Page>> {
        self.pages.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Draws the pages that are looked at and out of date; forgets the others.
    fn paint(&self, scratch: &Path) {
        let hub = &self.hub;
        let wanted: Vec<((Scope, String), String)> = {
            let mut all = self.all();
            all.retain(|_, page| page.asked.elapsed() < LOOKING);
            all.iter()
                .map(|(key, page)| (key.clone(), page.of.clone()))
                .collect()
        };
        for (key, drawn_of) in wanted {
            let (scope, path) = &key;
            let painted = match View::of(path) {
                None | Some(View::Overview) => {
                    overview(hub, scope).map(|html| Some((String::new(), html)))
                }
                Some(View::Report(by)) => report(hub, scope, by, &drawn_of),
                Some(View::Point(name)) => point(hub, scope, name, &drawn_of),
                Some(View::Recording(point, name)) => seen(hub, scope, point)
                    .and_then(|()| recording(hub, (point, name), &drawn_of, scratch)),
            };
            let (of, html) = match painted {
                Ok(Some(painted)) => painted,
                Ok(None) => continue,
                Err(e) => (
                    drawn_of,
                    format!(
                        "{HEAD}<p>{}",
                        base::text::clean(&escaped(&format!("{e:#}")))
                    ),
                ),
            };
            if let Some(page) = self.all().get_mut(&key) {
                (page.of, page.html) = (of, Some(Arc::new(html.into_bytes())));
            }
        }
    }
}

/// Page behind a path.
enum View<'p> {
    Overview,
    /// Points side by side, perhaps grouped by a label.
    Report(Option<&'p str>),
    /// One point over its days.
    Point(&'p str),
    /// Point and measurement.
    Recording(&'p str, &'p str),
}

impl View<'_> {
    fn of(path: &str) -> Option<View<'_>> {
        match path {
            "/" => Some(View::Overview),
            "/report" => Some(View::Report(None)),
            _ => match path.strip_prefix("/report/") {
                Some(label) => Some(View::Report(Some(label))),
                None => Some(match path.strip_prefix("/p/")?.split_once('/') {
                    Some((point, name)) => View::Recording(point, name),
                    None => View::Point(path.strip_prefix("/p/")?),
                }),
            },
        }
    }
}

fn escaped(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
}

/// Refuses a point that a reader does not see, as one that is not there.
fn seen(hub: &Hub, scope: &Scope, point: &str) -> anyhow::Result<()> {
    let labels = hub.ledger().labels(point)?;
    anyhow::ensure!(scope.holds(&labels), "there is no point {point}");
    Ok(())
}

/// Points that a reader sees, with what they measured.
fn measured(hub: &Hub, scope: &Scope) -> anyhow::Result<Measured> {
    let mut measured = hub.measured(("", ""))?;
    measured.points.retain(|p| scope.holds(&p.labels));
    Ok(measured)
}

fn overview(hub: &Hub, scope: &Scope) -> anyhow::Result<String> {
    let mut status = hub.status()?;
    let mut points = Vec::new();
    for point in status.points {
        if scope.holds(&hub.ledger().labels(&point.name)?) {
            points.push(point);
        }
    }
    status.points = points;
    let mut html = format!("{HEAD}<title>Fleet</title><h1>Fleet</h1>");
    html += "<meta http-equiv=\"refresh\" content=\"5\">";
    let labels = match scope {
        Scope::All => hub.label_keys()?,
        // Names of labels that only other points have are not theirs to read.
        Scope::Label(key, _) => vec![key.clone()],
    };
    let by = labels
        .iter()
        .map(|key| format!(" · <a href=\"/report/{key}\">by {key}</a>"));
    html += &format!(
        "<p><a href=\"/report\">Report</a>{}",
        by.collect::<String>()
    );
    html += &status.table().html("points").into_string();
    for point in &status.points {
        let mut links = String::new();
        for name in hub.latest(&point.name)?.keys() {
            links += &format!(" <a href=\"/p/{0}/{name}\">{name}</a>", point.name);
        }
        links += &format!(" · <a href=\"/live/{}\">live</a>", point.name);
        html += &format!("<p><a href=\"/p/{0}\">{0}</a>:{links}", point.name);
    }
    let says = std::iter::once(status.head()).chain(status.remarks());
    // A release and its points are the operator's.
    let says = says.filter(|_| *scope == Scope::All);
    says.for_each(|says| html += &format!("<p>{}", escaped(&says)));
    Ok(html)
}

/// Draws a report over all points, once a minute.
fn report(
    hub: &Hub,
    scope: &Scope,
    by: Option<&str>,
    drawn: &str,
) -> anyhow::Result<Option<(String, String)>> {
    let minute = jiff::Timestamp::now().as_second() / 60;
    if drawn == minute.to_string() {
        return Ok(None);
    }
    let measured = measured(hub, scope)?;
    let answer = ops::points::run(&measured.points, by)?;
    Ok(Some((minute.to_string(), answer.page().to_owned())))
}

/// Draws a point over its days, once a minute.
fn point(
    hub: &Hub,
    scope: &Scope,
    name: &str,
    drawn: &str,
) -> anyhow::Result<Option<(String, String)>> {
    seen(hub, scope, name)?;
    let minute = jiff::Timestamp::now().as_second() / 60;
    if drawn == minute.to_string() {
        return Ok(None);
    }
    let mut measured = hub.measured_with_hours(name, ("", ""))?;
    measured.points.retain(|p| scope.holds(&p.labels));
    let answer = ops::points::point(&measured.points, name, &about_point(hub, name)?)?;
    Ok(Some((minute.to_string(), answer.page().to_owned())))
}

/// Draws the latest recording of a measurement, if it is another one than was drawn before.
fn recording(
    hub: &Hub,
    (point, name): (&str, &str),
    drawn: &str,
    scratch: &Path,
) -> anyhow::Result<Option<(String, String)>> {
    let latest = hub.latest(point)?;
    let latest = latest
        .get(name)
        .ok_or_else(|| anyhow::anyhow!("no recording of {name} of {point}"))?;
    if latest == drawn {
        return Ok(None);
    }
    let recording: PathBuf = hub.recordings(point).join(latest);
    let plan = ops::report::Plan {
        recordings: vec![recording],
        output: Some(scratch.to_owned()),
        ..ops::report::Plan::default()
    };
    ops::report::run(&plan, &mut ())?;
    let html = std::fs::read_to_string(scratch)?;
    std::fs::remove_file(scratch)?;
    live::host::release_memory();
    Ok(Some((latest.clone(), html)))
}

impl Pages {
    /// Metrics of this moment; those of the last [`SCRAPE`] will do. Of 10,000 points they take a second to read.
    fn metrics(&self) -> Option<Reply> {
        let mut last = self.metrics.lock().unwrap_or_else(PoisonError::into_inner);
        let is_fresh = |(at, _): &(Instant, String)| at.elapsed() < SCRAPE;
        if !last.as_ref().is_some_and(is_fresh) {
            match metrics::read(&self.hub, unix_s()) {
                Ok(text) => *last = Some((Instant::now(), text)),
                Err(e) => {
                    eprintln!("tailback hub: no metrics: {e:#}");
                    return None;
                }
            }
        }
        let (_, text) = last.as_ref()?;
        Some(Reply {
            kind: ops::metrics::TEXT,
            body: text.clone().into_bytes(),
        })
    }
}

impl Pages {
    /// Page of a point's live values, or the values since a number: `POINT` and `POINT/NUMBER`.
    fn live(&self, scope: &Scope, rest: &str) -> Option<Reply> {
        let (point, since) = match rest.split_once('/') {
            Some((point, since)) => (point, Some(since.parse().ok()?)),
            None => (rest, None),
        };
        self.hub.ledger().point(point).ok()??;
        seen(&self.hub, scope, point).ok()?;
        let Some(since) = since else {
            return Some(Reply {
                kind: HTML,
                body: ::report::tail::page(point).into_bytes(),
            });
        };
        let values = self.push.look(point, since)?;
        Some(Reply {
            kind: "application/json",
            body: serde_json::to_vec(&values).ok()?,
        })
    }
}

impl Site for Pages {
    fn knows(&self, token: &str) -> bool {
        self.hub.scope_of(token).is_some()
    }

    fn get(&self, path: &str, _accepts: &str, token: Option<&str>) -> Option<Reply> {
        let scope = match token {
            Some(token) => self.hub.scope_of(token)?,
            None => Scope::All,
        };
        if path == "/metrics" {
            return (scope == Scope::All).then(|| self.metrics()).flatten();
        }
        if let Some(rest) = path.strip_prefix("/live/") {
            return self.live(&scope, rest);
        }
        let mut all = self.all();
        let is_known = View::of(path).is_some();
        let key = (scope, path.to_owned());
        if !is_known || all.len() >= PAGES && !all.contains_key(&key) {
            return None;
        }
        let page = all.entry(key).or_insert_with(|| Page {
            asked: Instant::now(),
            of: String::new(),
            html: None,
        });
        page.asked = Instant::now();
        let waiting = || {
            format!("{HEAD}<meta http-equiv=\"refresh\" content=\"1\"><p>Drawing …").into_bytes()
        };
        Some(Reply {
            kind: HTML,
            body: page
                .html
                .as_ref()
                .map_or_else(waiting, |html| html.to_vec()),
        })
    }
}
