//! Page loads in a real browser, as the steps of experiments ask for them.

mod browser;
mod netlog;
mod visit;

use crate::clock::Clock;
use crate::tally::Tally;
use base::noted::page::{HttpOver, PageEnd};
use base::{Bytes, Duration};
use browser::{Browser, BrowserError, Options};
use experiment::Stopped;
use experiment::ask::{Answer, Browse, Halt, Logged, Visiting};
use experiment::host::Meanwhile;
use netlog::Passed;
use std::collections::BTreeMap;
use std::path::Path;
use visit::Visit;

/// A page without a network: the first page of a process pays for what the process has yet to start.
const WARM: &str = "data:text/html,<p>tailback</p>";
const WARM_WITHIN: std::time::Duration = std::time::Duration::from_secs(30);

/// Browser to use, and the one that runs.
#[derive(Default)]
pub(crate) struct Browsing {
    options: Option<Options>,
    running: Vec<Running>,
    /// Transports of all visits, in their order.
    visited: Vec<HttpOver>,
}

struct Running {
    over: HttpOver,
    browser: Browser,
    /// Part of the tally that this browser made.
    counted: Passed,
    visits: Vec<Visit>,
}

/// Time, traffic and loads of the host.
pub(crate) struct Around<'a> {
    pub clock: Clock,
    pub tally: &'a Tally,
    /// True if a load has ended, or nothing of it has moved for this long.
    pub is_stuck: &'a mut dyn FnMut(Duration) -> bool,
    pub going_on: &'a mut dyn FnMut(Meanwhile) -> bool,
}

fn unusable(e: BrowserError) -> Stopped {
    Stopped::Unusable { why: e.to_string() }
}

const MISSING: Stopped = Stopped::Cannot {
    what: "load a page without a browser",
};

impl Browsing {
    /// # Errors
    /// There is no browser, or it fails.
    pub fn ask(&mut self, ask: &Browse, around: &mut Around) -> Result<Answer, Stopped> {
        match ask {
            Browse::Find { path, trust } => {
                let path = browser::find(path.as_deref().map(Path::new));
                self.options = Some(Options {
                    path: path.map_err(unusable)?,
                    trust: trust.clone(),
                });
                Ok(Answer::Done)
            }
            Browse::Start { over, origins } => self.start(over, origins),
            Browse::Visit(visiting) => {
                let mut all = self.running.iter_mut();
                let running = all.find(|r| r.over == visiting.over).ok_or(MISSING)?;
                let visit = running.visit(visiting, around)?;
                if visit.is_ok() {
                    self.visited.push(visiting.over);
                }
                Ok(Answer::Visited(visit))
            }
            Browse::Stop => {
                let stopped = self.running.drain(..).map(|r| (r.over, r.stop(around)));
                let mut logged: BTreeMap<_, _> =
                    stopped.map(|(over, of)| (over, of.into_iter())).collect();
                let each = |over| logged.get_mut(&over).and_then(Iterator::next).flatten();
                Ok(Answer::Browsed(
                    std::mem::take(&mut self.visited)
                        .into_iter()
                        .map(each)
                        .collect(),
                ))
            }
        }
    }

    fn start(&mut self, all: &[HttpOver], origins: &[String]) -> Result<Answer, Stopped> {
        let options = self.options.as_ref().ok_or(MISSING)?;
        let mut product = String::new();
        for &over in all {
            let mut browser = Browser::start(options, over, origins).map_err(unusable)?;
            let warm = visit::visit(&mut browser, WARM, WARM_WITHIN, &mut || true);
            drop(warm.map_err(unusable)?);
            product.clone_from(&browser.product);
            self.running.push(Running {
                over,
                browser,
                counted: Passed::default(),
                visits: Vec::new(),
            });
        }
        Ok(Answer::Browser(product))
    }
}

impl Running {
    fn visit(
        &mut self,
        visiting: &Visiting,
        around: &mut Around,
    ) -> Result<Result<experiment::ask::Visit, Halt>, Stopped> {
        let Visiting {
            url,
            over: _,
            patience,
            most,
            stuck,
        } = visiting;
        let most = around.tally.bytes() + *most;
        let mut halt = None;
        let mut going_on = || {
            let tally = around.tally.bytes();
            let now = around.clock.now();
            let wanted = (around.going_on)(Meanwhile { now, tally });
            if stuck.is_some_and(|stuck| (around.is_stuck)(stuck)) {
                halt = halt.or(Some(Halt::Load));
            } else if tally >= most {
                halt = halt.or(Some(Halt::Traffic));
            }
            wanted && halt.is_none()
        };
        let visit = visit::visit(&mut self.browser, url, patience.to_std(), &mut going_on);
        let Some(visit) = visit.map_err(unusable)? else {
            // Without a reason of its own it was ended by whoever watches, who hears no answer.
            return Ok(Err(halt.unwrap_or(Halt::Load)));
        };
        if let PageEnd::Loaded(loaded) = &visit.end {
            let brought = Passed::of_object(loaded.bytes);
            self.count(self.counted + brought, around.tally);
        }
        let found = experiment::ask::Visit {
            began_ns: around.clock.from_mono_ns(visit.began_ns),
            ended_ns: around.clock.from_mono_ns(visit.ended_ns),
            end: visit.end.clone(),
        };
        self.visits.push(visit);
        Ok(Ok(found))
    }

    /// Whole packets of the browser since the last time; of a page at first only what it brought.
    fn count(&mut self, now: Passed, tally: &Tally) {
        let packets = now.packets.saturating_sub(self.counted.packets);
        let bytes = now.bytes.saturating_sub(self.counted.bytes);
        tally.add(packets, Bytes::new(bytes));
        self.counted.packets += packets;
        self.counted.bytes += bytes;
    }

    /// Closes the browser; gives what its log says of each visit.
    fn stop(mut self, around: &Around) -> Vec<Option<Logged>> {
        let visits = std::mem::take(&mut self.visits);
        let Running {
            browser, counted, ..
        } = self;
        let Some(log) = browser.close().and_then(netlog::read) else {
            return visits.iter().map(|_| None).collect();
        };
        let packets = log.passed.packets.saturating_sub(counted.packets);
        let bytes = log.passed.bytes.saturating_sub(counted.bytes);
        around.tally.add(packets, Bytes::new(bytes));
        let logged = |v: &Visit| {
            let ms = |t: i64| t as f64 * 1e-6;
            // The log's times are cut to whole milliseconds.
            let (from, to) = (ms(v.began_ns) - 1.0, ms(v.ended_ns));
            let (opened, lookups, longest_ms) =
                netlog::within(&log, from, to, &v.remotes, &v.hosts);
            Some(Logged {
                opened,
                lookups,
                longest_ms,
            })
        };
        visits.iter().map(logged).collect()
    }
}
