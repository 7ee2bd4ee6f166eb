//! Iterations of several page loads each, some of them while our own load fills the link, beside probes of a session.
//!
//! A browser is started for each iteration, and each page load has a context of its own, so that nothing is cached.

use super::{Http, Params};
use crate::ask::{Answer, Ask, Browse, Halt, Visit, Visiting};
use crate::course::{Course, OfCourse};
use crate::host::{Counted, Load, Probing, Stopped};
use crate::run::{TICK, TURN};
use crate::spec::Setting;
use crate::steps::{Action, Stage};
use base::noted::page::{HttpOver, PageEnd, PageLoad, PageNote};
use base::{Bytes, Duration};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

/// Latest end of a load, which ends by itself then.
const LONGEST: Duration = Duration::from_secs(3600);
/// A load in which nothing has moved for this long fills no link.
const STUCK: Duration = Duration::from_secs(10);
/// Interval of the probes of the session.
const SESSION: Duration = Duration::from_millis(100);
/// Failed loads of every page at the beginning after which no more are tried.
const TRIED: u32 = 3;

/// Loads that were tried and those that succeeded, by address and transport.
type Tried = BTreeMap<(String, HttpOver), (u32, u32)>;

/// State that the end of a run needs, also of one that ends early.
#[derive(Default)]
struct State {
    browses: bool,
    loads: bool,
    probes: bool,
    /// Page loads of this browser: address and outcome.
    visits: Vec<(String, PageLoad)>,
}

type Shared = Rc<RefCell<State>>;

/// # Errors
/// No page is named.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    if params.url.is_empty() {
        return Err(Stopped::Unusable {
            why: "which page? Name it, for example: tailback probe page:url=https://www.example.org/ SERVER".into(),
        });
    }
    let origins = match params.http {
        Http::Quic | Http::Both => params
            .url
            .iter()
            .map(|url| origin(url))
            .collect::<Result<_, _>>()?,
        Http::Any | Http::Tcp => Vec::new(),
    };
    let budget = setting.budget;
    let state = Shared::default();
    let ending = state.clone();
    let course = OfCourse::new(Duration::ZERO, move |course| async move {
        let run = Run {
            course,
            params,
            origins,
            budget,
            state,
            tried: RefCell::default(),
        };
        run.all().await;
        end(&run.course, &run.state).await;
        Ok(())
    });
    Ok(course.ended_by(move |course| async move {
        end(&course, &ending).await;
        Ok(())
    }))
}

/// Host and port of an address, for QUIC.
///
/// # Errors
/// The address is not of HTTPS, without which there is no HTTP/3.
fn origin(url: &str) -> Result<String, Stopped> {
    let Some(rest) = url.strip_prefix("https://") else {
        return Err(Stopped::Unusable {
            why: format!(
                "HTTP/3 needs an address with https://, and {url} has none: give another address, or http=any"
            ),
        });
    };
    let authority = rest.split(['/', '?', '#']).next().unwrap_or(rest);
    let authority = authority.rsplit('@').next().unwrap_or(authority);
    // An address of IPv6 has colons of its own, in brackets.
    let has_port = authority
        .rsplit(']')
        .next()
        .is_some_and(|t| t.contains(':'));
    Ok(match has_port {
        true => authority.to_owned(),
        false => format!("{authority}:443"),
    })
}

struct Run {
    course: Course,
    params: Params,
    /// Hosts and ports that QUIC asks at once.
    origins: Vec<String>,
    tried: RefCell<Tried>,
    budget: Bytes,
    state: Shared,
}

impl Run {
    async fn all(&self) {
        let find = Browse::Find {
            path: self.params.browser.as_deref().map(str::to_owned),
            trust: self.params.trust.iter().map(ToString::to_string).collect(),
        };
        self.course.ask(Ask::Browse(find)).await;
        if !self.params.loaded.is_empty() {
            self.course.act(Action::Turn(TURN)).await;
        }
        self.course.act(Action::Count(Counted::Interface)).await;
        let probing = Probing {
            interval: SESSION,
            shortest: SESSION,
        };
        self.course.act(Action::Probe(probing)).await;
        self.state.borrow_mut().probes = true;
        self.iterations().await;
    }

    async fn iterations(&self) {
        let (params, mut before) = (&self.params, false);
        for iteration in 1..=params.iterations {
            let beside = params.loaded.contains(&u64::from(iteration));
            if iteration > 1 {
                if before || !beside {
                    self.rest(iteration, false).await;
                }
                let look = Action::LookForOthers(iteration as usize);
                self.course.act(look).await;
            }
            if beside {
                self.fill().await;
                self.rest(iteration, true).await;
            }
            let any = self.iteration(iteration, beside).await;
            stop_loads(&self.course, &self.state).await;
            if iteration == 1 && !any {
                let why = "not one page has loaded, so that no more were tried";
                self.cut(iteration, why.into()).await;
                return;
            }
            if self.course.tally() >= self.budget && iteration < params.iterations {
                let budget = self.budget;
                let why = format!("the budget of {budget:.3} is spent: give a larger --budget");
                self.cut(iteration + 1, why).await;
                return;
            }
            before = beside;
        }
    }

    async fn cut(&self, iteration: u32, why: String) {
        let note = PageNote::CutShort { iteration, why };
        self.course.note(&note, "").await;
    }

    /// Fills the link.
    async fn fill(&self) {
        self.state.borrow_mut().loads = true;
        for (number, &direction) in (0..).zip(self.params.direction.directions()) {
            let load = Load {
                number,
                direction,
                flows: self.params.flows,
                congestion: None,
                duration: LONGEST,
                sample: TICK,
                datagrams: None,
            };
            self.course.act(Action::Load(load)).await;
        }
    }

    /// True if the load no longer fills the link, or may not.
    fn ended(&self, beside: bool) -> Option<Halt> {
        let mut loads = self.course.loads().into_iter();
        if beside && loads.any(|l| l.alive == 0 || l.still_for >= STUCK) {
            return Some(Halt::Load);
        }
        (self.course.tally() >= self.budget).then_some(Halt::Traffic)
    }

    fn why(&self, halt: Halt) -> String {
        match halt {
            Halt::Load => "the load beside it ended by itself".into(),
            Halt::Traffic => format!(
                "{:.3} were sent, which is the budget: give a larger --budget, or a shorter settle and fewer loads",
                self.course.tally()
            ),
        }
    }

    async fn rest(&self, iteration: u32, beside: bool) {
        let (began, whole) = (self.course.now(), self.params.settle);
        loop {
            let elapsed = self.course.now().saturating_since(began);
            if elapsed >= whole || self.ended(beside).is_some() {
                return;
            }
            let rate = self.course.loads().first().and_then(|l| l.rate);
            let stage = Stage {
                name: match beside {
                    true => "filling the link".into(),
                    false => "letting the link rest".into(),
                },
                number: iteration as usize,
                elapsed,
                whole,
                note: rate.map_or_else(String::new, |rate| format!("{rate:.3}")),
                ..Stage::default()
            };
            self.course.act(Action::Show(stage)).await;
            self.course
                .wait(whole.saturating_sub(elapsed).min(TICK))
                .await;
        }
    }

    /// One browser's page loads. Returns true if any page has loaded.
    async fn iteration(&self, iteration: u32, beside: bool) -> bool {
        self.state.borrow_mut().browses = true;
        let start = Browse::Start {
            over: self.params.http.transports().to_vec(),
            origins: self.origins.clone(),
        };
        let product = match self.course.ask(Ask::Browse(start)).await {
            Some(Answer::Browser(product)) => product,
            _ => String::new(),
        };
        if iteration == 1 {
            self.course.note(&PageNote::Browser { product }, "").await;
        }
        self.visits(iteration, beside).await;
        close(&self.course, &self.state).await
    }

    async fn visits(&self, iteration: u32, beside: bool) {
        let (params, began) = (&self.params, self.course.now());
        let transports = params.http.transports();
        let each = params.url.len() * transports.len();
        let whole = f64::from(params.loads) * each as f64;
        let (mut done, mut said) = (0.0, String::new());
        for number in 1..=params.loads {
            for (url, over) in self.order().await {
                if self.is_hopeless(url, over) {
                    done += 1.0;
                    continue;
                }
                let elapsed = self.course.now().saturating_since(began);
                let stage = Stage {
                    name: if beside {
                        "loaded".into()
                    } else {
                        "idle".into()
                    },
                    number: iteration as usize,
                    elapsed,
                    // As long as those before it took.
                    whole: Duration::from_secs_f64(
                        elapsed.as_secs_f64() * whole / f64::max(done, 1.0),
                    ),
                    note: format!("{} of {whole} {said}", done + 1.0),
                    ..Stage::default()
                };
                self.course.act(Action::Show(stage)).await;
                let visit = match self.ended(beside) {
                    Some(halt) => Err(halt),
                    None => self.visit(url, over, beside).await,
                };
                let visit = match visit {
                    Ok(visit) => visit,
                    Err(halt) => return self.cut(iteration, self.why(halt)).await,
                };
                let end = as_asked(over, visit.end);
                let mut tried = self.tried.borrow_mut();
                let counted = tried.entry((url.to_owned(), over)).or_default();
                counted.0 += 1;
                counted.1 += u32::from(matches!(end, PageEnd::Loaded(_)));
                drop(tried);
                said = told(&end);
                done += 1.0;
                let load = PageLoad {
                    iteration,
                    number,
                    loaded: beside,
                    over,
                    began_ns: visit.began_ns,
                    ended_ns: visit.ended_ns,
                    end,
                };
                self.state.borrow_mut().visits.push((url.to_string(), load));
            }
            let loaded = |v: &(String, PageLoad)| matches!(v.1.end, PageEnd::Loaded(_));
            let none = !self.state.borrow().visits.iter().any(loaded);
            if iteration == 1 && number == TRIED && none {
                return;
            }
        }
    }

    /// Every page once over each transport, which of them first is chance.
    async fn order(&self) -> Vec<(&str, HttpOver)> {
        let (urls, transports) = (&self.params.url, self.params.http.transports());
        let coins = match transports.len() {
            1 => Vec::new(),
            _ => self.course.random(urls.len()).await,
        };
        let mut order = Vec::new();
        for (i, url) in urls.iter().enumerate() {
            let mut over = transports.to_vec();
            if coins.get(i).is_some_and(|c| c & 1 == 1) {
                over.reverse();
            }
            order.extend(over.into_iter().map(|o| (&**url, o)));
        }
        order
    }

    /// True if a page never loads over one of two transports: each try may take its whole patience.
    fn is_hopeless(&self, url: &str, over: HttpOver) -> bool {
        let tried = self.tried.borrow();
        let counted = tried.get(&(url.to_owned(), over));
        self.params.http == Http::Both && counted.is_some_and(|&(n, good)| n >= TRIED && good == 0)
    }

    async fn visit(&self, url: &str, over: HttpOver, beside: bool) -> Result<Visit, Halt> {
        let left = self.budget.get().saturating_sub(self.course.tally().get());
        let visiting = Visiting {
            url: url.to_owned(),
            over,
            patience: self.params.patience,
            most: Bytes::new(left),
            stuck: beside.then_some(STUCK),
        };
        match self.course.ask(Ask::Browse(Browse::Visit(visiting))).await {
            Some(Answer::Visited(visited)) => visited,
            _ => Err(Halt::Load),
        }
    }
}

/// Outcome of a load whose transport was prescribed: a page that came over another has failed.
fn as_asked(over: HttpOver, end: PageEnd) -> PageEnd {
    match end {
        PageEnd::Loaded(l) if !over.allows(&l.main_protocol) => PageEnd::Failed {
            why: format!(
                "the page came over {}, not over {}",
                l.main_protocol,
                over.named()
            ),
        },
        end => end,
    }
}

/// Outcome of a page load, for the live view.
fn told(end: &PageEnd) -> String {
    match end {
        PageEnd::Loaded(l) => format!("{:.0} ms", l.load_ms),
        PageEnd::Redirected { .. } => "redirected".into(),
        PageEnd::TimedOut => "timed out".into(),
        PageEnd::Failed { why } => why.clone(),
    }
}

async fn stop_loads(course: &Course, state: &Shared) {
    if std::mem::take(&mut state.borrow_mut().loads) {
        course.act(Action::StopLoad(None)).await;
        course.act(Action::Collect).await;
    }
}

/// Closes the browser and describes its page loads, with what its log says of their connections. Returns true if any page
/// has loaded.
async fn close(course: &Course, state: &Shared) -> bool {
    if !std::mem::take(&mut state.borrow_mut().browses) {
        return false;
    }
    let visits = std::mem::take(&mut state.borrow_mut().visits);
    let logged = match course.ask(Ask::Browse(Browse::Stop)).await {
        Some(Answer::Browsed(logged)) => logged,
        _ => Vec::new(),
    };
    let mut logged = logged.into_iter();
    let mut any = false;
    for (url, mut load) in visits {
        let logged = logged.next().flatten();
        if let PageEnd::Loaded(loaded) = &mut load.end {
            any = true;
            if let Some(logged) = logged {
                loaded.connections_opened = Some(logged.opened);
                loaded.lookups = Some(logged.lookups);
                loaded.lookup_ms = logged.longest_ms;
            }
        }
        course.note(&PageNote::Load(load), &url).await;
    }
    any
}

/// Ends all that runs.
async fn end(course: &Course, state: &Shared) {
    close(course, state).await;
    stop_loads(course, state).await;
    if std::mem::take(&mut state.borrow_mut().probes) {
        course.act(Action::StopProbes).await;
    }
}
