//! Rounds of datagrams with growing hop limits and of ICMP echo, beside probes of a session and fresh TCP connections: at
//! rest, then under load up, then down.
//!
//! Without a load there is no session: any host can be the server, for it gets no more than a traceroute and a ping once
//! a second. Rows of the table `delay` have the targets `hop1`, `hop2`, … (the datagrams; those of one round have one
//! `seq`), `echo1`, … and `icmp` (ICMP echo to the hops and to the server), `landmark1`, …, `udp` and `tcp-connect`;
//! events of the kind `path` describe the hops.

use super::Params;
use super::by_size::{self, TIMES};
use crate::ask::{Answer, Ask, End, Path, Trace, Tracing};
use crate::course::{Course, OfCourse};
use crate::host::{Counted, Fresh, Load, Probing, Stopped};
use crate::run::{TICK, TURN};
use crate::spec::Setting;
use crate::steps::{Action, Stage};
use base::{Bytes, Duration};
use serde_json::{Value, json};
use std::cell::RefCell;
use std::net::IpAddr;
use std::rc::Rc;

/// Hops more that are tried at once: the server's kernel answers few datagrams that come too far.
const MORE: usize = 3;
/// Limit on the answers of hops that are tried the first time.
const FIRST: Duration = Duration::from_secs(1);
/// Silent hops in a row after which no further one is expected to answer.
const SILENT: usize = 6;
/// Limit on the time in which queues drain.
const DRAIN: Duration = Duration::from_secs(20);
/// Interval of the probes of the session.
const SESSION: Duration = Duration::from_millis(100);
/// Fresh connections that may be open at a time.
const AT_ONCE: usize = 8;

/// State that the end of a run needs, also of one that ends early.
#[derive(Default)]
struct State {
    landmarks: Vec<(String, IpAddr)>,
    phase: Option<&'static str>,
    loading: bool,
    /// True once there is a session.
    agreed: bool,
    /// Hops that answered, and true if they did over IPv6.
    found: (usize, bool),
    /// True while there is a tracer.
    traces: bool,
}

type Shared = Rc<RefCell<State>>;

/// # Errors
/// None: the budget bounds the loads.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    let budget = setting.budget;
    let state = Shared::default();
    let ending = state.clone();
    let course = OfCourse::new(Duration::ZERO, move |course| async move {
        let run = Run {
            course,
            params,
            budget,
            state,
        };
        run.all().await?;
        end(&run.course, &run.state).await
    });
    Ok(course.ended_by(move |course| async move { end(&course, &ending).await }))
}

struct Run {
    course: Course,
    params: Params,
    budget: Bytes,
    state: Shared,
}

impl Run {
    async fn all(&self) -> Result<(), Stopped> {
        self.landmarks().await?;
        let loads = !self.params.load.directions().is_empty();
        if loads {
            self.course.act(Action::Turn(TURN)).await;
        }
        self.course.act(Action::Count(Counted::Interface)).await;
        if loads {
            // The server agrees before anything is sent towards it that it could mind.
            self.agree().await;
        }
        let landmarks = self.state.borrow().landmarks.clone();
        let tracing = Tracing {
            hops: self.params.hops,
            landmarks: landmarks.into_iter().map(|l| l.1).collect(),
            echoes_within: self.params.interval / 3,
        };
        self.course.ask(Ask::Trace(Trace::Open(tracing))).await;
        self.state.borrow_mut().traces = true;
        self.discover().await;
        self.by_size().await;
        let on = Trace::On(self.params.interval);
        self.course.ask(Ask::Trace(on)).await;
        self.phases().await;
        Ok(())
    }

    async fn landmarks(&self) -> Result<(), Stopped> {
        for name in &self.params.landmarks {
            let name = name.to_string();
            let address = match self.course.ask(Ask::Resolve(name.clone())).await {
                Some(Answer::Resolved(Ok(address))) => address,
                Some(Answer::Resolved(Err(e))) => return Err(Stopped::Unusable { why: e.text }),
                _ => continue,
            };
            self.state.borrow_mut().landmarks.push((name, address));
        }
        Ok(())
    }

    async fn agree(&self) {
        let probing = Probing {
            interval: SESSION,
            shortest: SESSION,
        };
        self.course.act(Action::Probe(probing)).await;
        self.state.borrow_mut().agreed = true;
        let fresh = Fresh {
            interval: self.params.interval,
            at_once: AT_ONCE,
        };
        self.course.act(Action::Fresh(Some(fresh))).await;
    }

    async fn tick(&self, name: &str, elapsed: Duration, whole: Duration, note: String) {
        let stage = Stage {
            name: name.into(),
            number: 1,
            elapsed,
            whole,
            note,
            ..Stage::default()
        };
        self.course.act(Action::Show(stage)).await;
        self.course.wait(TICK).await;
    }

    /// A few hops more each time until the server answers, or no hop does any more.
    async fn discover(&self) {
        let most = self.params.hops;
        let (mut tried, mut farthest) = (0, 0);
        while tried < most && tried < farthest + SILENT {
            tried = (tried + MORE).min(most);
            let began = self.course.now();
            let round = Trace::Round {
                hops: tried,
                bytes: None,
                within: FIRST,
            };
            let Some(Answer::Path(path)) = self.course.ask(Ask::Trace(round)).await else {
                return;
            };
            let took = self.course.now().saturating_since(began);
            let note = format!("{tried} hops tried");
            self.tick("finding the hops", took, FIRST, note).await;
            farthest = path.hops.len();
            self.state.borrow_mut().found = (farthest, path.server.is_ipv6());
            if path.ends() {
                return;
            }
        }
    }

    /// Rounds of packets of several sizes, each after an event with its block and size. Sizes take turns within a block.
    async fn by_size(&self) {
        let (hops, v6) = self.state.borrow().found;
        let sizes = by_size::sizes(v6);
        let each = TIMES * sizes.len();
        let rounds = if hops > 0 {
            self.params.blocks * each
        } else {
            0
        };
        let whole = self.params.interval * rounds as u64;
        let start = self.course.now();
        for n in 0..rounds {
            let began = self.course.now();
            let bytes = sizes[n % sizes.len()];
            let detail = json!({ "block": n / each, "bytes": bytes }).to_string();
            self.course
                .act(Action::event("path", "sized", detail))
                .await;
            let round = Trace::Round {
                hops,
                bytes: Some(bytes),
                within: FIRST,
            };
            if self.course.ask(Ask::Trace(round)).await.is_none() {
                return;
            }
            let note = format!("packets of {bytes} B");
            let elapsed = began.saturating_since(start);
            loop {
                self.tick("capacity by size", elapsed, whole, note.clone())
                    .await;
                if self.course.now().saturating_since(began) >= self.params.interval {
                    break;
                }
            }
        }
        let end = Action::event("path", "sized_end", "");
        self.course.act(end).await;
    }

    async fn phases(&self) {
        self.phase("idle", self.params.idle, None).await;
        let rest = self.round_trip().await.map(|r| r.1);
        let ways = self.params.load.directions();
        let share = Bytes::new(self.budget.get() / ways.len().max(1) as u64);
        for (number, &direction) in (0..).zip(ways) {
            if number > 0 {
                self.course.act(Action::LookForOthers(1)).await;
            }
            let load = Load {
                number,
                direction,
                flows: self.params.flows,
                congestion: None,
                duration: self.params.hold * 2,
                sample: TICK,
                datagrams: None,
            };
            self.state.borrow_mut().loading = true;
            self.course.act(Action::Load(load)).await;
            let bounds = Some((number, share));
            self.phase(direction.word(), self.params.hold, bounds).await;
            self.course.act(Action::StopLoad(None)).await;
            self.drain(rest).await;
            self.course.act(Action::Collect).await;
            self.state.borrow_mut().loading = false;
        }
    }

    /// Runs one phase; with a load, until its share of the budget is spent.
    async fn phase(&self, name: &'static str, whole: Duration, load: Option<(u32, Bytes)>) {
        self.course.act(Action::event("phase", name, "")).await;
        self.state.borrow_mut().phase = Some(name);
        let (began, before) = (self.course.now(), self.course.tally());
        loop {
            let elapsed = self.course.now().saturating_since(began);
            let mut note = match self.round_trip().await {
                Some((_, rtt)) => format!("{rtt:.1}"),
                None => String::new(),
            };
            if let Some((number, most)) = load {
                if let Some(rate) = self.course.load(number).and_then(|l| l.rate) {
                    note += &format!(", {rate:.3}");
                }
                if self.course.tally() - before >= most {
                    let why = format!(
                        "the load ended after {elapsed:.2}: its share of the budget was spent, {most:.3}"
                    );
                    self.course.act(Action::event("path", "budget", why)).await;
                    break;
                }
            }
            if elapsed >= whole {
                break;
            }
            self.tick(name, elapsed, whole, note).await;
        }
        phase_end(&self.course, &self.state).await;
    }

    async fn drain(&self, rest: Option<Duration>) {
        let began = self.course.now();
        loop {
            let elapsed = self.course.now().saturating_since(began);
            // Of a datagram that left after the load ended.
            let since = self.round_trip().await;
            let since = since.filter(|(at, rtt)| at.saturating_since(began) > *rtt);
            let quiet = match (since, rest) {
                (Some((_, rtt)), Some(rest)) => rtt <= rest + rest / 2 + Duration::from_millis(5),
                _ => false,
            };
            if quiet || elapsed >= DRAIN {
                return;
            }
            self.tick("letting queues drain", elapsed, DRAIN, String::new())
                .await;
        }
    }

    async fn round_trip(&self) -> Option<(base::Time, Duration)> {
        match self.course.ask(Ask::Trace(Trace::Latest)).await {
            Some(Answer::RoundTrip(latest)) => latest,
            _ => None,
        }
    }
}

async fn phase_end(course: &Course, state: &Shared) {
    let phase = state.borrow_mut().phase.take();
    if let Some(name) = phase {
        course.act(Action::event("phase_end", name, "")).await;
    }
}

/// Ends all that runs and describes the hops, also of a run that ends early.
async fn end(course: &Course, state: &Shared) -> Result<(), Stopped> {
    phase_end(course, state).await;
    let State {
        landmarks,
        loading,
        agreed,
        traces,
        ..
    } = state.take();
    if loading {
        course.act(Action::StopLoad(None)).await;
        course.act(Action::Collect).await;
    }
    let path = match traces {
        true => course.ask(Ask::Trace(Trace::End)).await,
        false => None,
    };
    if agreed {
        course.act(Action::Fresh(None)).await;
        course.act(Action::StopProbes).await;
    }
    let Some(Answer::Path(path)) = path else {
        return Ok(());
    };
    tell(course, &path, &landmarks).await;
    match path.failed {
        None => Ok(()),
        Some(why) => Err(Stopped::Unusable {
            why: format!("cannot send towards the hops: {why}"),
        }),
    }
}

/// Writes an event for each hop and landmark, one for the gateway, and one if there was no echo.
async fn tell(course: &Course, path: &Path, landmarks: &[(String, IpAddr)]) {
    let event = async |subject: &str, detail: String| {
        course.act(Action::event("path", subject, detail)).await;
    };
    if let Some(Answer::Gateway(Some((address, interface)))) = course.ask(Ask::Gateway).await {
        let detail = json!({ "address": address, "interface": interface });
        event("gateway", detail.to_string()).await;
    }
    event("server", json!({ "address": path.server }).to_string()).await;
    for (name, address) in landmarks {
        let detail = json!({ "name": name, "address": address });
        event("landmark", detail.to_string()).await;
    }
    if let Some(why) = &path.no_echo {
        event("no_echo", why.clone()).await;
    }
    for (i, hop) in path.hops.iter().enumerate() {
        let end = match hop.end {
            None => Value::Null,
            Some(End::Server) => json!("server"),
            Some(End::Refuses(kind, code)) => json!({ "icmp_type": kind, "icmp_code": code }),
        };
        let detail = json!({ "addresses": hop.addresses, "end": end });
        event(&format!("hop{}", i + 1), detail.to_string()).await;
    }
}
