//! One load of one page, with nothing cached: a browser context of its own has no cache, no connections, no names looked up,
//! no sessions of TLS and no cookies, and is thrown away afterwards.

use super::browser::{Browser, BrowserError};
use super::netlog::host_of;
use crate::clock::mono_ns;
use base::noted::page::{Loaded, PageEnd, Transfer};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

/// Interval at which the caller is asked to continue.
const TICK: Duration = Duration::from_millis(100);
/// Time for messages of the network process that follow the one that the page is complete.
const STRAGGLERS: Duration = Duration::from_millis(100);

/// Result of a page load.
#[derive(Debug)]
pub struct Visit {
    pub end: PageEnd,
    /// By the monotonic clock.
    pub began_ns: i64,
    pub ended_ns: i64,
    /// `address:port` of everything that answered.
    pub remotes: BTreeSet<String>,
    pub hosts: BTreeSet<String>,
}

/// One object that was asked for.
#[derive(Debug, Default)]
struct Object {
    connection: Option<u64>,
    protocol: String,
    cached: bool,
    failed: bool,
    bytes: u64,
    /// When its answer began, and when all of it was there; s of the monotonic clock.
    answered: Option<f64>,
    finished: Option<f64>,
    /// When parts of it came, s of the monotonic clock, and how many bytes.
    parts: Vec<(f64, u64)>,
}

/// Observations of a page so far.
#[derive(Debug, Default)]
struct Page {
    main: String,
    session: String,
    loader: Option<String>,
    /// By session and number of the request.
    objects: BTreeMap<(String, String), Object>,
    remotes: BTreeSet<String>,
    hosts: BTreeSet<String>,
    end: Option<PageEnd>,
    loaded_at: Option<f64>,
    /// Protocol of the page itself, and the services that its server announces.
    main_protocol: String,
    alt_svc: String,
}

/// Loads a page. `going_on` is asked often; where it says no there is nothing to tell.
///
/// # Errors
/// The browser failed; a page that does is a [`PageEnd`].
pub fn visit(
    browser: &mut Browser,
    url: &str,
    patience: Duration,
    going_on: &mut dyn FnMut() -> bool,
) -> Result<Option<Visit>, BrowserError> {
    let none = json!({});
    let context = browser.call(None, "Target.createBrowserContext", &none)?;
    let context = json!({ "browserContextId": context["browserContextId"] });
    let mut about = context.clone();
    about["url"] = "about:blank".into();
    let target = browser.call(None, "Target.createTarget", &about)?["targetId"].clone();
    let attach = json!({ "targetId": target, "flatten": true });
    let session = browser.call(None, "Target.attachToTarget", &attach)?["sessionId"].clone();
    let mut page = Page {
        main: target.as_str().unwrap_or("").into(),
        session: session.as_str().unwrap_or("").into(),
        ..Page::default()
    };
    let session = page.session.clone();
    let session = Some(session.as_str());
    browser.call(session, "Page.enable", &none)?;
    browser.call(session, "Network.enable", &none)?;
    browser.call(session, "Target.setAutoAttach", &auto_attach())?;
    let began_ns = mono_ns();
    let began = Instant::now();
    let navigation = browser.send(session, "Page.navigate", &json!({ "url": url }))?;
    while page.end.is_none() && page.loaded_at.is_none() {
        if !going_on() {
            return Ok(None);
        }
        if began.elapsed() >= patience {
            page.end = Some(PageEnd::TimedOut);
            break;
        }
        if let Some(message) = browser.message(TICK)? {
            page.take(browser, &message, navigation)?;
        }
    }
    let ended_ns = mono_ns();
    if let Some(at) = page.loaded_at {
        let began = Instant::now();
        loop {
            let left = STRAGGLERS.saturating_sub(began.elapsed());
            match browser.message(left)? {
                Some(message) => page.take(browser, &message, navigation)?,
                None if left.is_zero() => break,
                None => {}
            }
        }
        if page.end.is_none() {
            let asked = json!({ "expression": TIMES, "returnByValue": true });
            let times = browser.call(session, "Runtime.evaluate", &asked)?;
            page.end = Some(page.loaded(&times["result"]["value"], at));
        }
    }
    browser.call(None, "Target.disposeBrowserContext", &context)?;
    let visit = Visit {
        end: page.end.unwrap_or(PageEnd::TimedOut),
        began_ns,
        ended_ns,
        remotes: page.remotes,
        hosts: page.hosts,
    };
    Ok(Some(visit))
}

/// Frames of other sites and workers are targets of their own, whose requests are the page's too.
fn auto_attach() -> Value {
    json!({ "autoAttach": true, "waitForDebuggerOnStart": true, "flatten": true })
}

/// Navigation Timing and Paint Timing, ms since the browser was sent there.
const TIMES: &str = "(() => { \
    const n = performance.getEntriesByType('navigation')[0]; \
    const p = performance.getEntriesByType('paint').map(e => e.startTime); \
    return { load: n.loadEventEnd, first: n.responseStart, paint: p.length ? Math.min(...p) : null }; \
})()";

impl Page {
    fn take(
        &mut self,
        browser: &mut Browser,
        message: &Value,
        navigation: u64,
    ) -> Result<(), BrowserError> {
        let params = &message["params"];
        let session = message["sessionId"].as_str().unwrap_or("");
        if message["id"] == navigation {
            let text = message["result"]["errorText"].as_str();
            let refused = message["error"]["message"].as_str();
            if let (Some(why), None) = (text.or(refused), &self.end) {
                self.end = Some(PageEnd::Failed { why: why.into() });
            }
            return Ok(());
        }
        match message["method"].as_str().unwrap_or("") {
            "Target.attachedToTarget" => {
                let its = params["sessionId"].as_str();
                let none = json!({});
                browser.send(its, "Network.enable", &none)?;
                browser.send(its, "Target.setAutoAttach", &auto_attach())?;
                browser.send(its, "Runtime.runIfWaitingForDebugger", &none)?;
            }
            "Page.javascriptDialogOpening" => {
                let accept = json!({ "accept": true });
                browser.send(Some(session), "Page.handleJavaScriptDialog", &accept)?;
            }
            "Inspector.targetCrashed" if session == self.session => {
                let why = "the page crashed in the browser".into();
                self.end.get_or_insert(PageEnd::Failed { why });
            }
            "Page.loadEventFired" if session == self.session => {
                self.loaded_at = self.loaded_at.or(params["timestamp"].as_f64());
            }
            "Network.requestWillBeSent" => self.asked(session, params),
            "Network.responseReceived" => self.answered(session, params),
            "Network.dataReceived" => {
                let at = params["timestamp"].as_f64();
                let bytes = params["encodedDataLength"].as_u64();
                if let (Some(o), Some(at), Some(n)) = (self.object(session, params), at, bytes) {
                    // What came compressed is told of at the end only, as 0 until then.
                    let n = if n > 0 {
                        n
                    } else {
                        params["dataLength"].as_u64().unwrap_or(0)
                    };
                    o.parts.push((at, n));
                }
            }
            "Network.loadingFinished" => {
                let bytes = params["encodedDataLength"].as_f64().unwrap_or(0.0);
                let at = params["timestamp"].as_f64();
                if let Some(o) = self.object(session, params) {
                    o.bytes = bytes as u64;
                    o.finished = at;
                }
            }
            "Network.loadingFailed" => {
                if let Some(o) = self.object(session, params) {
                    o.failed = true;
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn object(&mut self, session: &str, params: &Value) -> Option<&mut Object> {
        let number = params["requestId"].as_str()?;
        self.objects
            .get_mut(&(session.to_owned(), number.to_owned()))
    }

    fn asked(&mut self, session: &str, params: &Value) {
        let url = params["request"]["url"].as_str().unwrap_or("");
        if !url.starts_with("http") {
            return;
        }
        let after = params["timestamp"].as_f64() > self.loaded_at && self.loaded_at.is_some();
        if after {
            return;
        }
        let main = session == self.session
            && params["type"] == "Document"
            && params["frameId"].as_str() == Some(&self.main);
        if main {
            let loader = params["loaderId"].as_str().map(str::to_owned);
            let status = params["redirectResponse"]["status"].as_u64();
            let elsewhere = self.loader.is_some() && self.loader != loader;
            if status.is_some() || elsewhere {
                self.end.get_or_insert(PageEnd::Redirected {
                    to: url.into(),
                    status: status.and_then(|s| u16::try_from(s).ok()),
                });
            }
            self.loader = loader;
        }
        self.hosts.insert(host_of(url).to_owned());
        let number = params["requestId"].as_str().unwrap_or("").to_owned();
        self.objects
            .entry((session.to_owned(), number))
            .or_default();
    }

    fn answered(&mut self, session: &str, params: &Value) {
        let response = &params["response"];
        let status = response["status"].as_u64().unwrap_or(0);
        let main = session == self.session
            && params["type"] == "Document"
            && params["frameId"].as_str() == Some(&self.main);
        let remote = response["remoteIPAddress"].as_str().map(|ip| {
            let port = response["remotePort"].as_u64().unwrap_or(0);
            match ip.contains(':') && !ip.starts_with('[') {
                true => format!("[{ip}]:{port}"),
                false => format!("{ip}:{port}"),
            }
        });
        if main {
            self.main_protocol = response["protocol"].as_str().unwrap_or("").to_owned();
            self.alt_svc = header(&response["headers"], "alt-svc");
        }
        let Some(o) = self.object(session, params) else {
            return;
        };
        o.cached = response["fromDiskCache"] == true || response["fromServiceWorker"] == true;
        o.failed = status >= 400;
        o.answered = params["timestamp"].as_f64();
        response["protocol"]
            .as_str()
            .unwrap_or("")
            .clone_into(&mut o.protocol);
        o.connection = response["connectionId"]
            .as_f64()
            .filter(|id| *id > 0.0 && !o.cached)
            .map(|id| id as u64);
        self.remotes.extend(remote.filter(|r| !r.starts_with(':')));
        if main && status >= 400 {
            let why = format!("the server answered HTTP {status}");
            self.end.get_or_insert(PageEnd::Failed { why });
        }
    }

    fn loaded(&self, times: &Value, at: f64) -> PageEnd {
        let time = |key: &str| times[key].as_f64();
        let (Some(load_ms), Some(first_byte_ms)) =
            (time("load").filter(|t| *t > 0.0), time("first"))
        else {
            let why = "the browser does not say how long it took".into();
            return PageEnd::Failed { why };
        };
        let count = |f: fn(&Object) -> bool| self.objects.values().filter(|o| f(o)).count() as u32;
        let used: BTreeSet<u64> = self.objects.values().filter_map(|o| o.connection).collect();
        let spoken = self.objects.values().map(|o| o.protocol.clone());
        let protocols: BTreeSet<String> = spoken.filter(|p| !p.is_empty()).collect();
        let mut by_protocol = BTreeMap::new();
        let answered = self.objects.values().map(|o| &o.protocol);
        for protocol in answered.filter(|p| !p.is_empty()) {
            *by_protocol.entry(protocol.clone()).or_default() += 1;
        }
        let whole = |o: &Object| match o.bytes {
            // It was still coming when the page was ready.
            0 => o.parts.iter().map(|p| p.1).sum(),
            n => n,
        };
        PageEnd::Loaded(Box::new(Loaded {
            load_ms,
            paint_ms: time("paint").filter(|t| *t <= load_ms),
            first_byte_ms,
            requests: self.objects.len() as u32,
            failed_requests: count(|o| o.failed),
            cached_requests: count(|o| o.cached),
            bytes: self.objects.values().map(whole).sum(),
            hosts: self.hosts.len() as u32,
            protocols: protocols.into_iter().collect(),
            main_protocol: self.main_protocol.clone(),
            by_protocol,
            alt_svc: self.alt_svc.clone(),
            connections_used: used.len() as u32,
            connections_opened: None,
            lookups: None,
            lookup_ms: None,
            longest: self.longest(at),
        }))
    }

    fn longest(&self, at: f64) -> Option<Transfer> {
        let transfers = self.objects.values().filter_map(|o| o.transfer(at));
        let told = |t: &Transfer| t.thirds_bytes.is_some();
        transfers.max_by(|a, b| {
            let by_time = a.took_ms.total_cmp(&b.took_ms);
            told(a).cmp(&told(b)).then(by_time)
        })
    }
}

/// Longest header that is kept, characters.
const HEADER: usize = 200;

/// Value of a header, whose name a server may write in any case; empty if there is none.
fn header(headers: &Value, name: &str) -> String {
    let mut all = headers.as_object().into_iter().flatten();
    let found = all.find(|(key, _)| key.eq_ignore_ascii_case(name));
    let value = found.and_then(|(_, v)| v.as_str()).unwrap_or("");
    value.chars().take(HEADER).collect()
}

/// Fewer parts say nothing about their rate over time. Of scripts the browser tells of the last one only.
const ENOUGH_PARTS: usize = 6;

impl Object {
    /// Its way until `at`; none where nothing of it came over time.
    fn transfer(&self, at: f64) -> Option<Transfer> {
        let parts = || self.parts.iter().filter(|p| p.0 <= at);
        let begin = self.answered?;
        let took = self.finished.unwrap_or(at).min(at) - begin;
        let third = |from: f64, to: f64| -> u64 {
            let inside = parts().filter(|p| (from..=to).contains(&((p.0 - begin) / took)));
            inside.map(|p| p.1).sum()
        };
        (took > 0.0).then(|| Transfer {
            bytes: match self.bytes {
                0 => parts().map(|p| p.1).sum(),
                n => n,
            },
            took_ms: took * 1e3,
            thirds_bytes: (parts().count() >= ENOUGH_PARTS)
                .then(|| (third(0.0, 1.0 / 3.0), third(2.0 / 3.0, 1.0))),
        })
    }
}
