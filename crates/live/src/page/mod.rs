//! Loads of pages in a real browser, on the idle line and beside a load: what `tailback probe page` carries out.
//!
//! Iterations of several loads each follow each other. A browser is started for each iteration, and each load has a context
//! of its own, so that nothing is cached. Our own load fills the line during some iterations. The probes of a session go on
//! from the beginning to the end, so that it is seen what the load does to the line. Each load is a note ([`PageNote`]).

mod browser;
mod netlog;
mod visit;

pub use browser::BrowserError;

use crate::craft::CraftError;
use crate::errand::{Errand, REPORTS_WITHIN, Stage, TICK};
use crate::load::Load;
use crate::probe::ProbeError;
use crate::traffic::TrafficMonitor;
use base::noted::page::{PageEnd, PageLoad, PageNote};
use base::record::Direction;
use base::{Bytes, Duration};
use browser::{Browser, Options};
use netlog::Passed;
use std::path::PathBuf;
use visit::Visit;

/// A load ends by itself, at the latest.
const LONGEST: Duration = Duration::from_secs(3600);
/// A load in which nothing moved for so long fills no line.
const STUCK: Duration = Duration::from_secs(10);

/// What to load, how often, and beside what.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Of whole IP packets, both directions together; those of pages as far as the browser tells of them.
    pub budget: Bytes,
    /// The one that leads to the server where not given.
    pub interface: Option<String>,
    pub urls: Vec<String>,
    pub iterations: u32,
    /// Of each address in each iteration.
    pub loads: u32,
    /// Which iterations have a load beside them, from 1.
    pub beside_load: Vec<u64>,
    pub directions: Vec<Direction>,
    pub flows: u32,
    /// From the beginning of a load to the first page beside it, from its end to the next iteration, and between two.
    pub settle: Duration,
    /// A page that takes longer has failed.
    pub patience: Duration,
    /// In place of the one in PATH.
    pub browser: Option<PathBuf>,
    pub trust: Vec<String>,
}

#[derive(Debug, thiserror::Error)]
pub enum PageError {
    #[error(transparent)]
    Craft(#[from] CraftError),
    #[error(transparent)]
    Probe(#[from] ProbeError),
    #[error(transparent)]
    Browser(#[from] BrowserError),
}

/// Makes all iterations. Runs in the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), PageError> {
    let options = Options {
        path: browser::find(plan.browser.as_deref())?,
        trust: plan.trust.clone(),
    };
    if !plan.beside_load.is_empty() {
        errand.take_turn(crate::errand::TURN)?;
    }
    let traffic = errand.traffic(plan.interface.as_deref())?;
    let prober = errand.session()?;
    let mut run = Run {
        plan,
        errand,
        traffic: &traffic,
        options,
        counted: Passed::default(),
        said: String::new(),
    };
    let result = run.iterations();
    prober.stop();
    traffic.stop();
    result
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
    traffic: &'a TrafficMonitor,
    options: Options,
    /// What is in the tally of all that the browser of this iteration did.
    counted: Passed,
    /// How the latest load ended, for the live view.
    said: String,
}

impl Run<'_, '_> {
    fn iterations(&mut self) -> Result<(), PageError> {
        let mut before = false;
        for iteration in 1..=self.plan.iterations {
            let beside = self.plan.beside_load.contains(&u64::from(iteration));
            if iteration > 1 {
                if before || !beside {
                    self.rest(iteration, &[])?;
                }
                self.errand
                    .look_for_others(self.traffic, iteration as usize)?;
            }
            let loads = if beside { self.fill()? } else { Vec::new() };
            let settled = if beside {
                self.rest(iteration, &loads)
            } else {
                Ok(())
            };
            let went = settled.and_then(|()| self.iteration(iteration, &loads));
            let stopped: Vec<_> = loads.into_iter().map(Load::stop).collect();
            for s in stopped {
                s.collect(REPORTS_WITHIN);
            }
            let any = went?;
            if iteration == 1 && !any {
                self.cut(
                    iteration,
                    "not one page has loaded, so that no more were tried",
                );
                return Ok(());
            }
            if self.errand.tally.bytes() >= self.plan.budget && iteration < self.plan.iterations {
                let why = format!(
                    "the budget of {:.3} is spent: give a larger --budget",
                    self.plan.budget
                );
                self.cut(iteration + 1, &why);
                return Ok(());
            }
            before = beside;
        }
        Ok(())
    }

    fn cut(&self, iteration: u32, why: &str) {
        let note = PageNote::CutShort {
            iteration,
            why: why.into(),
        };
        self.note("", &note);
    }

    fn note(&self, subject: &str, note: &PageNote) {
        self.errand.note(note, subject);
    }

    /// Fills the line.
    fn fill(&mut self) -> Result<Vec<Load>, CraftError> {
        let flows = self.plan.flows;
        let ways = self.plan.directions.iter();
        ways.map(|&way| self.errand.load(way, flows, LONGEST))
            .collect()
    }

    /// Why the load no longer fills the line, or may not.
    fn ended(&self, loads: &[Load]) -> Option<String> {
        let mut states = loads.iter().map(Load::progress);
        if states.any(|s| s.alive == 0 || s.still_for >= STUCK) {
            return Some("the load beside it ended by itself".into());
        }
        let spent = self.errand.tally.bytes();
        (spent >= self.plan.budget).then(|| {
            format!(
                "{spent:.3} were sent, which is the budget: give a larger --budget, or a shorter settle and fewer loads"
            )
        })
    }

    fn rest(&mut self, iteration: u32, loads: &[Load]) -> Result<(), PageError> {
        let began = self.errand.clock.now();
        let whole = self.plan.settle;
        loop {
            let elapsed = self.errand.clock.now() - began;
            if elapsed >= whole || self.ended(loads).is_some() {
                return Ok(());
            }
            let (stage, note) = match loads.first().and_then(|l| l.progress().rate) {
                _ if loads.is_empty() => ("letting the line rest", String::new()),
                None => ("filling the line", String::new()),
                Some(rate) => ("filling the line", format!("{rate:.3}")),
            };
            self.tick(stage, iteration, elapsed, whole, note)?;
            std::thread::sleep((whole.saturating_sub(elapsed)).min(TICK).to_std());
        }
    }

    fn tick(
        &mut self,
        name: &str,
        iteration: u32,
        elapsed: Duration,
        whole: Duration,
        note: String,
    ) -> Result<(), CraftError> {
        self.errand.go_on(Stage {
            name,
            number: iteration as usize,
            elapsed,
            whole,
            note,
        })
    }

    /// Whole packets of the browser since the last time; of a page at first only what it brought.
    fn count(&mut self, now: Passed) {
        let packets = now.packets.saturating_sub(self.counted.packets);
        let bytes = now.bytes.saturating_sub(self.counted.bytes);
        self.errand.tally.add(packets, Bytes::new(bytes));
        self.counted.packets += packets;
        self.counted.bytes += bytes;
    }

    /// Whether any page has loaded.
    fn iteration(&mut self, iteration: u32, loads: &[Load]) -> Result<bool, PageError> {
        let mut browser = Browser::start(&self.options)?;
        self.counted = Passed::default();
        if iteration == 1 {
            let product = browser.product.clone();
            self.note("", &PageNote::Browser { product });
        }
        // The first page of a process pays for what the process has yet to start.
        let warm = visit::visit(&mut browser, WARM, WARM_WITHIN, &mut || true)?;
        drop(warm);
        let mut visits: Vec<(String, u32, Visit)> = Vec::new();
        let result = self.visits(iteration, loads, &mut browser, &mut visits);
        let log = browser.close().and_then(netlog::read);
        if let Some(log) = &log {
            self.count(log.passed);
        }
        let mut any = false;
        for (url, number, mut v) in visits {
            if let PageEnd::Loaded(loaded) = &mut v.end {
                any = true;
                if let Some(log) = &log {
                    let ms = |t: i64| t as f64 * 1e-6;
                    // The log's times are cut to whole milliseconds.
                    let (from, to) = (ms(v.began_ns) - 1.0, ms(v.ended_ns));
                    let (opened, lookups, longest) =
                        netlog::within(log, from, to, &v.remotes, &v.hosts);
                    loaded.connections_opened = Some(opened);
                    (loaded.lookups, loaded.lookup_ms) = (Some(lookups), longest);
                }
            }
            let load = PageLoad {
                iteration,
                number,
                loaded: !loads.is_empty(),
                began_ns: self.errand.clock.from_mono_ns(v.began_ns),
                ended_ns: self.errand.clock.from_mono_ns(v.ended_ns),
                end: v.end,
            };
            self.note(&url, &PageNote::Load(load));
        }
        result?;
        Ok(any)
    }

    fn visits(
        &mut self,
        iteration: u32,
        loads: &[Load],
        browser: &mut Browser,
        visits: &mut Vec<(String, u32, Visit)>,
    ) -> Result<(), PageError> {
        let plan = self.plan;
        let began = self.errand.clock.now();
        let whole = f64::from(plan.loads) * plan.urls.len() as f64;
        for number in 1..=plan.loads {
            for url in &plan.urls {
                let stage = if loads.is_empty() { "idle" } else { "loaded" };
                let elapsed = self.errand.clock.now() - began;
                // As long as those before it took.
                let share = whole / (visits.len() as f64).max(1.0);
                let all = Duration::from_secs_f64(elapsed.as_secs_f64() * share);
                let note = format!("{} of {whole} {}", visits.len() + 1, self.said);
                let mut ended = self.ended(loads);
                let mut stopped = None;
                let mut going_on = || {
                    let now = self.errand.clock.now() - began;
                    if let Err(e) = self.tick(stage, iteration, now, all.max(now), note.clone()) {
                        stopped = Some(e);
                    }
                    if ended.is_none() {
                        ended = self.ended(loads);
                    }
                    stopped.is_none() && ended.is_none()
                };
                let patience = plan.patience.to_std();
                let went = visit::visit(browser, url, patience, &mut going_on)?;
                if let Some(e) = stopped {
                    return Err(e.into());
                }
                let Some(visit) = went else {
                    self.cut(iteration, &ended.unwrap_or_default());
                    return Ok(());
                };
                self.said = match &visit.end {
                    PageEnd::Loaded(l) => {
                        let brought = Passed::of_object(l.bytes);
                        self.count(self.counted + brought);
                        format!("{:.0} ms", l.load_ms)
                    }
                    PageEnd::Redirected { .. } => "redirected".into(),
                    PageEnd::TimedOut => "timed out".into(),
                    PageEnd::Failed { why } => why.clone(),
                };
                visits.push((url.clone(), number, visit));
            }
            let loaded = |v: &(_, _, Visit)| matches!(v.2.end, PageEnd::Loaded(_));
            if iteration == 1 && number == TRIED && !visits.iter().any(loaded) {
                return Ok(());
            }
        }
        Ok(())
    }
}

/// Where so many loads of every page fail from the beginning, the others would too.
const TRIED: u32 = 3;
/// A page without a network.
const WARM: &str = "data:text/html,<p>tailback</p>";
const WARM_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);
