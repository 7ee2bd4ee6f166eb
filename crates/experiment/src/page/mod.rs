//! Load times of pages in a real browser, on the idle link and beside a load, and the page's own load on the link.
//!
//! **Method.** Iterations of several loads of each page, one of them while our own load fills the link. Nothing is
//! cached: neither objects, nor connections, nor names. The browser's own figures are used (Navigation Timing's
//! `loadEventEnd`), and its log for the connections. Probes of a session run beside them.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks",
//! UTFSM, sections 6.3.4 and 7.4 and tables 5, 6 and 9; A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian
//! Institute of Technology Delhi 2012, table 3.1.1 (connections of a page, and what schedulers do to long flows).
//!
//! **Deviations.** Times between iterations are one parameter: the document waits from half a minute to a minute and a half.
//!
//! **Units.** ms; ratios in per cent, as in the document's tables.

mod beside;
mod set;
mod steps;

use super::answer::{Draw, Figured, Outcome, Plot, Quantity, Series, Table};
use super::spec::{How, Spec};
use super::trains::Ends;
use base::Duration;
use base::noted::Noted;
use base::noted::page::{HttpOver, Loaded, PageEnd, PageLoad, PageNote};
use base::print::DELAY;
use base::print::significant;
use base::record::{Recording, Status};
use base::spec::{Params as _, choices, params};
use stats::Figure;
use std::collections::BTreeMap;
use std::sync::Arc;

const DOCUMENT: &str = "Catalán 2014, section 6.3.4";

choices! {
    /// Transports of the pages.
    pub enum Http { Any = "any", Tcp = "tcp", Quic = "quic", Both = "both" }
}

impl Http {
    /// Transports of each page.
    fn transports(self) -> &'static [HttpOver] {
        match self {
            Http::Any => &[HttpOver::Any],
            Http::Tcp => &[HttpOver::Tcp],
            Http::Quic => &[HttpOver::Quic],
            Http::Both => &[HttpOver::Tcp, HttpOver::Quic],
        }
    }
}

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "page": "How long do pages take to load in a browser, idle and under load, and how many connections do they open?", ["Catalán 2014, section 6.3.4",
            "Chandele 2012, table 3.1.1",
            "W3C, Navigation Timing Level 2",
            "RFC 9114, HTTP/3",] {
        /// pages to load, such as https://www.example.org/; several are separated by semicolons; a comma is written %2C
        url: Vec<Arc<str>> as List(Url);
        /// number of iterations
        iterations: u32 = "5" ["1".."100"], DOCUMENT;
        /// loads of each page in each iteration
        loads: u32 = "10" ["1".."1000"], DOCUMENT;
        /// numbers of the iterations with a load beside them; 0 for none
        loaded: Vec<u64> = "2" ["0".."100"], DOCUMENT;
        /// direction of the load
        direction: Ends = "up", DOCUMENT;
        /// flows of the load
        flows: u32 = "1" ["1".."64"], DOCUMENT;
        /// transport: TCP (HTTP/2 and 1.1), QUIC (HTTP/3), both in turn and compared, or any, which the browser chooses
        http: Http = "any";
        /// time from the begin of the load to the first page, and pause between iterations
        settle: Duration = "30 s" ["0 s".."3600 s"], DOCUMENT;
        /// time after which a page counts as failed
        patience: Duration = "180 s" ["1 s".."3600 s"];
        /// path of Chromium or Chrome; by default the first of chromium, google-chrome and the like in PATH
        browser: Option<Arc<str>>;
        /// public keys of certificates to accept although they are not trusted, for sites of your own: SHA-256 of the
        /// key, base64
        trust: Vec<Arc<str>>;
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "two minutes and the time of 50 page loads; the bytes of the pages, and the link's full rate for 30 s and ten page loads",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |w, recording| answer(&w.read(), recording),
};

/// Ratio of loaded to idle times from which a person notices the load. Sources: 10 to 15 times (Gettys), here 1.4 to
/// 25.
const SLOWED: f64 = 1.5;
/// Shortest transfer whose rate is compared with itself, ms.
const LONG_MS: f64 = 2000.0;
/// Share of the first third's bytes below which the last third of a long transfer was slowed down.
const THROTTLED: f64 = 0.5;

/// Results of one address over one transport.
struct Site<'a> {
    url: &'a str,
    over: HttpOver,
    /// Address, and the transport if there are two.
    name: String,
    loads: Vec<&'a PageLoad>,
}

impl<'a> Site<'a> {
    fn good(&self, beside: bool) -> impl Iterator<Item = &'a Loaded> {
        let these = self.loads.iter().filter(move |l| l.loaded == beside);
        these.filter_map(|l| match &l.end {
            PageEnd::Loaded(loaded) => Some(&**loaded),
            _ => None,
        })
    }

    fn of(&self, beside: bool, f: impl Fn(&Loaded) -> Option<f64>) -> Vec<f64> {
        self.good(beside).filter_map(f).collect()
    }

    fn times(&self, iteration: u32) -> Vec<f64> {
        let these = self.loads.iter().filter(|l| l.iteration == iteration);
        let loaded = these.filter_map(|l| match &l.end {
            PageEnd::Loaded(loaded) => Some(loaded.load_ms),
            _ => None,
        });
        loaded.collect()
    }

    fn count(&self, f: fn(&PageEnd) -> bool) -> usize {
        self.loads.iter().filter(|l| f(&l.end)).count()
    }

    fn mean(&self, beside: bool) -> Figure {
        let of = if beside {
            "beside a load"
        } else {
            "on the idle link"
        };
        match self.of(beside, |l| Some(l.load_ms)) {
            none if none.is_empty() => {
                Figure::cannot_tell(format!("no load of the page {of} succeeded"))
            }
            times => mean_above_zero(&times),
        }
    }
}

fn mean(values: &[f64]) -> Option<f64> {
    stats::moments(values).map(|m| m.mean)
}

/// Mean with its interval, which for few values of much variance would reach below zero.
fn mean_above_zero(values: &[f64]) -> Figure {
    match stats::mean_figure(values) {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low: low.max(0.0),
            high,
        },
        none => none,
    }
}

/// Greatest value in per cent of the least.
fn spread(values: &[f64]) -> Option<f64> {
    let m = stats::moments(values)?;
    (m.min > 0.0).then(|| m.max / m.min * 100.0)
}

fn bounds(f: &Figure) -> Option<(f64, f64, f64)> {
    match f {
        Figure::Is { value, low, high } => Some((*value, *low, *high)),
        Figure::CannotTell { .. } => None,
    }
}

/// Ratio of a page's load times, beside the load and idle.
fn ratio(idle: &Figure, loaded: &Figure) -> Figure {
    match (bounds(idle), bounds(loaded)) {
        (Some((i, i_low, i_high)), Some((l, l_low, l_high))) if i_low > 0.0 => Figure::Is {
            value: l / i,
            low: (l_low / i_high).max(0.0),
            high: l_high / i_low,
        },
        (None, _) => Figure::cannot_tell("no load of the page on the idle link succeeded"),
        (_, None) => Figure::cannot_tell("no load of the page beside a load succeeded"),
        _ => Figure::cannot_tell("too few loads for an interval"),
    }
}

/// Loads by address in the order of their first load, and by transport.
fn sites<'a>(notes: &'a [(&'a str, PageNote)], http: Http) -> Vec<Site<'a>> {
    let mut sites: Vec<Site> = Vec::new();
    let mut order: Vec<&str> = Vec::new();
    for (url, note) in notes {
        let PageNote::Load(load) = note else {
            continue;
        };
        if !order.contains(url) {
            order.push(url);
        }
        let of_it = |s: &&mut Site| s.url == *url && s.over == load.over;
        match sites.iter_mut().find(of_it) {
            Some(site) => site.loads.push(load),
            None => sites.push(Site {
                url,
                over: load.over,
                name: match http {
                    Http::Both => format!("{url} over {}", load.over.named()),
                    _ => (*url).to_owned(),
                },
                loads: vec![load],
            }),
        }
    }
    sites.sort_by_key(|s| (order.iter().position(|u| *u == s.url), s.over));
    sites
}

/// Results of each address, over one transport or two.
fn pages<'a, 'b>(sites: &'a [Site<'b>]) -> Vec<&'a [Site<'b>]> {
    sites.chunk_by(|a, b| a.url == b.url).collect()
}

fn answer(params: &Params, recording: &Recording) -> Outcome {
    let notes: Vec<(&str, PageNote)> = PageNote::all_of(recording).collect();
    let sites = sites(&notes, params.http);
    if sites.is_empty() {
        return Outcome::cannot_tell("no page was loaded");
    }
    let iterations = params.iterations;
    let mut outcome = Outcome {
        tables: tables(&sites, iterations),
        plots: plots(&sites, iterations),
        ..Outcome::default()
    };
    for (_, note) in &notes {
        match note {
            PageNote::Browser { product } => {
                outcome
                    .evidence
                    .push(format!("loaded by {product}, nothing cached"));
            }
            PageNote::CutShort { iteration, why } => {
                outcome
                    .doubts
                    .push(format!("iteration {iteration} ended early: {why}"));
            }
            PageNote::Load(_) => {}
        }
    }
    let pages = pages(&sites);
    let many = pages.len() > 1;
    let mut said = Vec::new();
    for (i, page) in pages.iter().enumerate() {
        let key = match i {
            0 => String::new(),
            n => format!("page{}_", n + 1),
        };
        if let [tcp, quic] = page {
            said.push(beside::both((tcp, quic), (&key, many), &mut outcome));
            continue;
        }
        for site in *page {
            let of = if many { site.url } else { "" };
            let idle_and_loaded = one(site, (&key, of), &mut outcome);
            said.push(headline(site, &idle_and_loaded, &mut outcome));
        }
    }
    outcome.tables.extend(beside::table(&pages));
    if let Some(of_all) = set::of(&sites, &mut outcome) {
        // Each page is in the tables; what did not load is said.
        said.retain(|s| s.starts_with("Cannot tell"));
        said.insert(0, of_all);
    }
    outcome.says = said.join(" ");
    outcome.evidence.extend(round_trips(&sites, recording));
    outcome
}

/// Figures of one address: load times, connections, objects, and what became of long transfers.
fn figures(
    site: &Site,
    (key, of): (&str, &str),
    (idle, loaded): (&Figure, &Figure),
    kept: &Figure,
) -> Vec<Figured> {
    use Quantity::{Count, Share, Size, Time};
    let counted = |f: fn(&Loaded) -> Option<f64>| match site.of(false, f) {
        none if none.is_empty() => Figure::cannot_tell("it was not seen"),
        seen => mean_above_zero(&seen),
    };
    let opened = counted(|l| l.connections_opened.map(f64::from));
    let used = counted(|l| Some(f64::from(l.connections_used)));
    let requests = counted(|l| Some(f64::from(l.requests)));
    let bytes = counted(|l| Some(l.bytes as f64));
    let failed = site.count(|e| !matches!(e, PageEnd::Loaded(_)));
    let mut all = vec![("idle_ms", "time to load a page, idle", Time, idle.clone())];
    if site.loads.iter().any(|l| l.loaded) {
        let times = ratio(idle, loaded);
        all.push((
            "loaded_ms",
            "time to load a page under load",
            Time,
            loaded.clone(),
        ));
        all.push(("ratio", "times as long under load", Count, times));
    }
    let slowed = "last third of a long transfer against its first";
    let failed = Figure::exactly(failed as f64);
    all.extend([
        (
            "connections_opened",
            "connections opened by a page",
            Count,
            opened,
        ),
        ("connections_used", "of those used", Count, used),
        ("requests", "objects of a page", Count, requests),
        ("bytes", "bytes of a page", Size, bytes),
        ("long_flow_share", slowed, Share, kept.clone()),
        ("failed", "loads that did not succeed", Count, failed),
    ]);
    let name = |what: &str| match of {
        "" => what.to_owned(),
        _ => format!("{what}, {of}"),
    };
    let figured = |(k, what, unit, figure): (&str, &str, Quantity, Figure)| {
        Figured::new(&format!("{key}{k}"), &name(what), unit, figure)
    };
    all.into_iter().map(figured).collect()
}

/// Load times of a page, idle and under load.
type Times = (Figure, Figure);

/// Load times of one address over one transport; adds its figures, evidence and doubts.
fn one(site: &Site, (key, of): (&str, &str), outcome: &mut Outcome) -> Times {
    let (idle, loaded) = (site.mean(false), site.mean(true));
    let kept = long_flows(site);
    let figures = figures(site, (key, of), (&idle, &loaded), &kept);
    outcome.figures.extend(figures);
    outcome.evidence.extend(connections(site));
    if let Some(share) = kept.value().filter(|s| *s < THROTTLED) {
        outcome.evidence.push(format!(
            "long transfers of {} are slowed down: the last third of their time brings {} % of what the first third did",
            site.name,
            significant(share * 100.0, 2)
        ));
    }
    doubts(site, outcome);
    (idle, loaded)
}

/// True if the load slows a page by more than chance, and by more than a person would overlook. Advises on the queue then,
/// once for all pages.
fn is_slowed((idle, loaded): &Times, outcome: &mut Outcome) -> bool {
    let slowed = bounds(&ratio(idle, loaded)).is_some_and(|(t, low, _)| t >= SLOWED && low > 1.0);
    let advice = "pages wait behind the load's packets: `tailback test` finds that queue and says how to keep it short";
    if slowed && !outcome.advice.iter().any(|a| a == advice) {
        outcome.advice.push(advice.into());
    }
    slowed
}

/// Sentence on the load times of one page.
fn headline(site: &Site, times: &Times, outcome: &mut Outcome) -> String {
    let page = &site.name;
    let tried_beside = site.loads.iter().any(|l| l.loaded);
    match (times.0.value(), times.1.value()) {
        (Some(i), Some(l)) => {
            let verdict = match is_slowed(times, outcome) {
                true => format!("{} times as long", significant(l / i, 2)),
                false if l / i >= SLOWED => "too few loads to tell that from chance".into(),
                false => "the load hardly slows it".into(),
            };
            format!(
                "{page} takes {} to load on the idle link and {} under load: {verdict}.",
                DELAY.print(i),
                DELAY.print(l)
            )
        }
        (Some(i), None) if !tried_beside => {
            format!("{page} takes {} to load on the idle link.", DELAY.print(i))
        }
        (Some(i), None) => format!(
            "{page} takes {} to load on the idle link, and does not load under load.",
            DELAY.print(i)
        ),
        (None, Some(l)) => {
            format!(
                "{page} takes {} to load under load; on the idle link no load succeeded.",
                DELAY.print(l)
            )
        }
        (None, ..) => format!(
            "Cannot tell: no load of {page} succeeded; {}.",
            reasons(site)
        ),
    }
}

/// Reasons of failed loads, each once with its count.
fn reasons(site: &Site) -> String {
    let mut counted: BTreeMap<String, usize> = BTreeMap::new();
    for load in &site.loads {
        let why = match &load.end {
            PageEnd::Loaded(_) => continue,
            PageEnd::TimedOut => "not there in time".to_owned(),
            PageEnd::Failed { why } => why.clone(),
            PageEnd::Redirected { to, status } => match status {
                Some(status) => format!("HTTP {status} leads to {to}: give that address"),
                None => format!("the page itself leads to {to}: give that address"),
            },
        };
        *counted.entry(why).or_default() += 1;
    }
    let said = counted.iter().map(|(why, n)| format!("{n} × {why}"));
    said.collect::<Vec<_>>().join("; ")
}

fn doubts(site: &Site, outcome: &mut Outcome) {
    let failed = site.count(|e| !matches!(e, PageEnd::Loaded(_)));
    if failed > 0 {
        outcome.doubts.push(format!(
            "{failed} of {} loads of {} did not succeed and are in no mean: {}",
            site.loads.len(),
            site.name,
            reasons(site)
        ));
    }
    let all = || site.good(false).chain(site.good(true));
    let broken = all().filter(|l| l.failed_requests > 0).count();
    if broken > 0 {
        outcome.doubts.push(format!(
            "in {broken} loads of {} some object failed: the page was quicker without it",
            site.name
        ));
    }
    let cached = all().filter(|l| l.cached_requests > 0).count();
    if cached > 0 {
        outcome.doubts.push(format!(
            "in {cached} loads of {} some object came out of a cache",
            site.name
        ));
    }
}

/// Median ratio of the last third to the first third of long transfers.
fn long_flows(site: &Site) -> Figure {
    let shares = site.of(false, |l| {
        let t = l.longest.as_ref().filter(|t| t.took_ms >= LONG_MS)?;
        let (first, last) = t.thirds_bytes?;
        (first > 0).then(|| last as f64 / first as f64)
    });
    match shares.is_empty() {
        true => Figure::cannot_tell(format!(
            "no object whose parts the browser tells of took {} s: give the address of a large one",
            LONG_MS * 1e-3
        )),
        false => stats::quantile_figure(&shares, 0.5),
    }
}

/// Sentence on a page's connections.
fn connections(site: &Site) -> Option<String> {
    let first = site.good(false).next().or_else(|| site.good(true).next())?;
    let many = |n: u32, what: &str| match n {
        1 => format!("1 {what}"),
        n => format!("{n} {what}s"),
    };
    let used = first.connections_used;
    let opened = match first.connections_opened {
        Some(n) => format!("opens {}, of which it uses {used}", many(n, "connection")),
        None => format!("uses {}", many(used, "connection")),
    };
    Some(format!(
        "{} asks {} for {} over {} and {opened}",
        site.name,
        many(first.hosts, "host"),
        many(first.requests, "object"),
        first.protocols.join(", "),
    ))
}

/// Effect of the load on the link: the session's own round trips while pages loaded.
fn round_trips(sites: &[Site], recording: &Recording) -> Option<String> {
    let during = |beside: bool| -> Option<f64> {
        let spans: Vec<(i64, i64)> = sites
            .iter()
            .flat_map(|s| &s.loads)
            .filter(|l| l.loaded == beside)
            .map(|l| (l.began_ns, l.ended_ns))
            .collect();
        let rtts: Vec<f64> = recording
            .delay
            .iter()
            .filter(|d| d.status == Status::Ok)
            .filter(|d| spans.iter().any(|s| (s.0..=s.1).contains(&d.sent_ns)))
            .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
            .collect();
        stats::quantile_of_sorted(&stats::sorted(&rtts), 0.5)
    };
    let (idle, loaded) = (during(false)?, during(true)?);
    Some(format!(
        "meanwhile the round trip to the server was {} ms idle and {} ms under load (medians)",
        significant(idle, 3),
        significant(loaded, 3)
    ))
}

fn cell(value: Option<f64>, places: usize) -> String {
    value.map_or("–".into(), |v| format!("{v:.places$}"))
}

fn table(title: &str, first: &str, columns: &[String], rows: Vec<Vec<String>>) -> Table {
    let head = std::iter::once(first.to_owned()).chain(columns.iter().cloned());
    Table {
        title: title.into(),
        columns: head.collect(),
        rows,
    }
}

/// Tables of the source, in its layout, then further ones.
fn tables(sites: &[Site], iterations: u32) -> Vec<Table> {
    let numbers: Vec<String> = (1..=iterations).map(|i| i.to_string()).collect();
    let texts = |all: &[&str]| all.iter().map(|t| (*t).to_owned()).collect::<Vec<_>>();
    let rows = |f: &dyn Fn(&Site) -> Vec<String>| -> Vec<Vec<String>> {
        let row = |s: &Site| std::iter::once(s.name.clone()).chain(f(s)).collect();
        sites.iter().map(row).collect()
    };
    let means =
        |s: &Site| -> Vec<Option<f64>> { (1..=iterations).map(|i| mean(&s.times(i))).collect() };
    let extremes = rows(&|s| {
        let known: Vec<f64> = means(s).into_iter().flatten().collect();
        let m = stats::moments(&known);
        vec![
            cell(m.as_ref().map(|m| m.min), 1),
            cell(m.as_ref().map(|m| m.max), 1),
            cell(spread(&known), 5),
        ]
    });
    let own = rows(&|s| {
        (1..=iterations)
            .map(|i| cell(spread(&s.times(i)), 5))
            .collect()
    });
    let loads = rows(&|s| means(s).into_iter().map(|m| cell(m, 2)).collect());
    let ends: [fn(&PageEnd) -> bool; 4] = [
        |e| matches!(e, PageEnd::Loaded(_)),
        |e| matches!(e, PageEnd::Failed { .. }),
        |e| matches!(e, PageEnd::TimedOut),
        |e| matches!(e, PageEnd::Redirected { .. }),
    ];
    let counts = rows(&|s| {
        let all = std::iter::once(s.loads.len().to_string());
        all.chain(ends.iter().map(|f| s.count(*f).to_string()))
            .collect()
    });
    let mut tables = vec![
        table(
            "Minimum, maximum and variation ratio (%) of the iterations' means, ms",
            "Name",
            &texts(&["min", "max", "ratio"]),
            extremes,
        ),
        table("Ratio over own iteration (%)", "Name", &numbers, own),
        table("Total load means (ms)", "Name", &numbers, loads),
        table(
            "Loads",
            "Name",
            &texts(&["all", "loaded", "failed", "timed out", "redirected"]),
            counts,
        ),
    ];
    tables.extend(sites.iter().map(does));
    tables
}

/// Row of the table on a page: its name, its value, and its number of digits after the point.
type Line = (&'static str, fn(&Loaded) -> Option<f64>, usize);

/// Number of objects that came over such a protocol; older recordings lack it.
fn came(loaded: &Loaded, is_it: fn(&str) -> bool) -> Option<f64> {
    let these = loaded.by_protocol.iter().filter(|(p, _)| is_it(p));
    (!loaded.by_protocol.is_empty()).then(|| f64::from(these.map(|(_, n)| n).sum::<u32>()))
}

/// Table on a page, idle and under load: means.
fn does(site: &Site) -> Table {
    let lines: [Line; 13] = [
        ("objects", |l| Some(f64::from(l.requests)), 1),
        ("over HTTP/3", |l| came(l, |p| p.starts_with("h3")), 1),
        ("over HTTP/2", |l| came(l, |p| p == "h2"), 1),
        ("over HTTP/1", |l| came(l, |p| p.starts_with("http/1")), 1),
        ("kB", |l| Some(l.bytes as f64 * 1e-3), 1),
        ("hosts", |l| Some(f64::from(l.hosts)), 1),
        (
            "connections opened",
            |l| l.connections_opened.map(f64::from),
            1,
        ),
        (
            "connections used",
            |l| Some(f64::from(l.connections_used)),
            1,
        ),
        ("names looked up", |l| l.lookups.map(f64::from), 1),
        ("longest lookup, ms", |l| l.lookup_ms, 0),
        ("first byte, ms", |l| Some(l.first_byte_ms), 1),
        ("first paint, ms", |l| l.paint_ms, 1),
        ("all loaded, ms", |l| Some(l.load_ms), 1),
    ];
    let rows = lines.iter().map(|(name, f, places)| {
        let of = |beside| cell(mean(&site.of(beside, f)), *places);
        vec![(*name).to_owned(), of(false), of(true)]
    });
    Table {
        title: format!("What {} does, means", site.name),
        columns: vec!["".into(), "idle".into(), "under load".into()],
        rows: rows.collect(),
    }
}

fn plots(sites: &[Site], iterations: u32) -> Vec<Plot> {
    let s = |ms: f64| ms * 1e-3;
    let each = |site: &Site| -> Plot {
        let part = |beside: bool, what: &str| {
            Series::new(
                what,
                Draw::Marks,
                site.loads
                    .iter()
                    .enumerate()
                    .filter(|(_, l)| l.loaded == beside)
                    .filter_map(|(i, l)| match &l.end {
                        PageEnd::Loaded(loaded) => Some((i as f64 + 1.0, Some(s(loaded.load_ms)))),
                        _ => None,
                    })
                    .collect(),
            )
        };
        let parts = [part(false, "idle"), part(true, "under load")];
        Plot::new(
            format!("Time to load {}", site.name),
            ("load", "s"),
            parts.into_iter().filter(|p| !p.points.is_empty()).collect(),
        )
    };
    // Addresses are too long for a legend: pages are numbered as the tables' rows are.
    let means = sites.iter().enumerate().map(|(n, site)| {
        Series::new(
            match sites.len() {
                1 => "mean".into(),
                _ => format!("page {}", n + 1),
            },
            Draw::Knots,
            (1..=iterations)
                .map(|i| (f64::from(i), mean(&site.times(i)).map(s)))
                .collect(),
        )
    });
    let all = Plot::new("Total load means", ("iteration", "s"), means.collect());
    let plots = sites.iter().map(each).chain([all]);
    // Of a page that never loaded there is nothing to draw.
    let drawn = |p: &Series| p.points.iter().any(|p| p.1.is_some());
    plots.filter(|p| p.series.iter().any(drawn)).collect()
}
