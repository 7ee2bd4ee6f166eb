//! The way to the server, hop by hop, at rest and under load: what `tailback probe path` carries out.
//!
//! Rounds of datagrams with growing hop limits and of ICMP echo go on from the beginning to the end, beside the
//! probes of a session with the server and fresh TCP connections. Meanwhile the line is at rest, then loaded upwards,
//! then downwards. Without a load there is no session: any host can be the server, for it gets no more than a
//! traceroute and a ping once a second. Rows of the table `delay` have the targets `hop1`, `hop2`, … (the datagrams; those of one round have one
//! `seq`), `echo1`, … and `icmp` (ICMP echo to the hops and to the server), `udp` and `tcp-connect`; events of the kind `path` say who stands where.

mod gateway;
mod tracer;

pub use gateway::{Gateway, towards};

use crate::clock::Clock;
use crate::craft::CraftError;
use crate::errand::{Errand, REPORTS_WITHIN, Stage, TICK};
use crate::load::{ForeignPlan, ForeignProbe, Load};
use crate::probe::Prober;
use crate::traffic::TrafficMonitor;
use base::record::Direction;
use base::{Bytes, Duration, Time};
use serde_json::{Value, json};
use std::io;
use std::net::IpAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use tracer::{End, Tracer};

/// How many hops more are tried at once: the server's kernel answers few that come too far.
const MORE: usize = 3;
/// How long those who are tried the first time may take.
const FIRST: Duration = Duration::from_secs(1);
/// Hops in a row that say nothing, after which none is expected to.
const SILENT: usize = 6;
/// Queues have drained when the round trip is as at rest, or by then.
const DRAIN: Duration = Duration::from_secs(20);

/// What to trace, and under which load.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Shared by the loads; of whole IP packets, both directions together.
    pub budget: Bytes,
    /// The one that leads to the server where not given.
    pub interface: Option<String>,
    pub idle: Duration,
    pub load: Duration,
    /// Which ways to load, one after the other.
    pub directions: Vec<Direction>,
    /// From one round to the next. Routers of Linux answer once a second.
    pub interval: Duration,
    pub hops: usize,
    pub flows: u32,
    /// Other hosts that get an ICMP echo a round, with their names.
    pub landmarks: Vec<(String, IpAddr)>,
}

/// Traces until all phases are over. Runs in the calling thread's network namespace.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), CraftError> {
    if !plan.directions.is_empty() {
        errand.take_turn(crate::errand::TURN)?;
    }
    let traffic = errand.traffic(plan.interface.as_deref())?;
    let server = errand.peer.server.ip().to_canonical();
    let mut run = Run {
        plan,
        errand,
        traffic: &traffic,
    };
    // The server agrees before anything is sent towards it that it could mind.
    let agreed = match plan.directions.is_empty() {
        true => None,
        false => Some(run.agree()?),
    };
    let (clock, rows) = (run.errand.clock, run.errand.rows.clone());
    let mut tracer = Tracer::open(server, plan.hops, clock, rows, run.errand.tally.clone())
        .map_err(CraftError::socket("trace the route"))?;
    tracer.echoes_within = plan.interval / 3;
    tracer.landmarks = plan.landmarks.iter().map(|l| l.1).collect();
    let found = run.discover(&mut tracer);
    let rounds = Rounds::start(tracer, plan.interval, clock)
        .map_err(CraftError::socket("start a thread"))?;
    let result = found.and_then(|()| run.phases(&rounds, agreed.as_ref()));
    let (tracer, failed) = rounds.stop();
    if let Some(agreed) = agreed {
        agreed.foreign.stop();
        agreed.prober.stop();
    }
    run.tell(&tracer, server);
    tracer.finish();
    traffic.stop();
    result?;
    failed.map_err(CraftError::socket("send towards the hops"))
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
    traffic: &'a TrafficMonitor,
}

/// Probes of a server that has agreed to them.
struct Agreed {
    prober: Prober,
    foreign: ForeignProbe,
}

impl Run<'_, '_> {
    fn agree(&self) -> Result<Agreed, CraftError> {
        let prober = self.errand.session()?;
        let foreign = ForeignPlan {
            peer: self.errand.peer.clone(),
            interval: self.plan.interval,
            at_once: 8,
            tally: self.errand.tally.clone(),
        };
        let foreign = ForeignProbe::start(foreign, self.errand.clock, self.errand.rows.clone())
            .map_err(CraftError::socket("start fresh connections"))?;
        Ok(Agreed { prober, foreign })
    }

    fn tick(
        &mut self,
        name: &str,
        elapsed: Duration,
        whole: Duration,
        note: String,
    ) -> Result<(), CraftError> {
        self.errand.go_on(Stage {
            name,
            number: 1,
            elapsed,
            whole,
            note,
        })?;
        std::thread::sleep(TICK.to_std());
        Ok(())
    }

    /// Who stands on the way: a few hops more each time until the server answers, or nobody does any more.
    fn discover(&mut self, tracer: &mut Tracer) -> Result<(), CraftError> {
        let most = self.plan.hops;
        let mut tried = 0;
        while tracer.last().is_none() && tried < most && tried < tracer.farthest() + SILENT {
            tried = (tried + MORE).min(most);
            let began = self.errand.clock.now();
            tracer
                .round(tried)
                .map_err(CraftError::socket("send towards the hops"))?;
            tracer.listen(FIRST, true);
            let took = self.errand.clock.now() - began;
            self.tick(
                "finding the hops",
                took,
                FIRST,
                format!("{tried} hops tried"),
            )?;
        }
        Ok(())
    }

    fn phases(&mut self, rounds: &Rounds, agreed: Option<&Agreed>) -> Result<(), CraftError> {
        self.phase("idle", self.plan.idle, None, rounds, agreed)?;
        let rest = rounds.round_trip();
        let ways = self.plan.directions.clone();
        let share = Bytes::new(self.plan.budget.get() / ways.len().max(1) as u64);
        for (i, direction) in ways.into_iter().enumerate() {
            if i > 0 {
                self.errand.look_for_others(self.traffic, 1)?;
            }
            let most = self.plan.load + self.plan.load;
            let load = self.errand.load(direction, self.plan.flows, most)?;
            let word = direction.word();
            let bounds = Some((&load, share));
            let went = self.phase(word, self.plan.load, bounds, rounds, agreed);
            let stopped = load.stop();
            let drained = went.and_then(|()| self.drain(rounds, rest));
            stopped.collect(REPORTS_WITHIN);
            drained?;
        }
        Ok(())
    }

    /// With a load: until as much was put on the line as may be.
    fn phase(
        &mut self,
        name: &str,
        whole: Duration,
        load: Option<(&Load, Bytes)>,
        rounds: &Rounds,
        agreed: Option<&Agreed>,
    ) -> Result<(), CraftError> {
        self.errand.event("phase", name, "");
        let began = self.errand.clock.now();
        let before = self.errand.tally.bytes();
        let result = loop {
            let elapsed = self.errand.clock.now() - began;
            if let Some(Err(e)) = agreed.map(|a| a.prober.health()) {
                break Err(e.into());
            }
            let mut note = match rounds.round_trip() {
                Some(rtt) => format!("{rtt:.1}"),
                None => String::new(),
            };
            if let Some((load, most)) = load {
                if let Some(rate) = load.progress().rate {
                    note += &format!(", {rate:.3}");
                }
                if self.errand.spent_since(before) >= most {
                    let why = format!(
                        "the load ended after {elapsed:.2}: its share of the budget was spent, {most:.3}"
                    );
                    self.errand.event("path", "budget", &why);
                    break Ok(());
                }
            }
            if elapsed >= whole {
                break Ok(());
            }
            if let Err(e) = self.tick(name, elapsed, whole, note) {
                break Err(e);
            }
        };
        self.errand.event("phase_end", name, "");
        result
    }

    fn drain(&mut self, rounds: &Rounds, rest: Option<Duration>) -> Result<(), CraftError> {
        let began = self.errand.clock.now();
        loop {
            let elapsed = self.errand.clock.now() - began;
            let quiet = match (rounds.round_trip_since(began), rest) {
                (Some(rtt), Some(rest)) => rtt <= rest + rest / 2 + Duration::from_millis(5),
                _ => false,
            };
            if quiet || elapsed >= DRAIN {
                return Ok(());
            }
            self.tick("letting queues drain", elapsed, DRAIN, String::new())?;
        }
    }

    /// Who stood where: an event a hop, one for the gateway, one where there was no echo.
    fn tell(&self, tracer: &Tracer, server: IpAddr) {
        if let Some(gateway) = gateway::towards(server) {
            let detail = json!({ "address": gateway.address, "interface": gateway.interface });
            self.errand.event("path", "gateway", &detail.to_string());
        }
        self.errand
            .event("path", "server", &json!({ "address": server }).to_string());
        for (name, address) in &self.plan.landmarks {
            let detail = json!({ "name": name, "address": address });
            self.errand.event("path", "landmark", &detail.to_string());
        }
        if let Some(why) = tracer.no_echo() {
            self.errand.event("path", "no_echo", why);
        }
        for (i, hop) in tracer.hops[..tracer.known()].iter().enumerate() {
            let end = match hop.end {
                None => Value::Null,
                Some(End::Server) => json!("server"),
                Some(End::Refuses(kind, code)) => json!({ "icmp_type": kind, "icmp_code": code }),
            };
            let detail = json!({ "addresses": hop.addresses, "end": end });
            self.errand
                .event("path", &format!("hop{}", i + 1), &detail.to_string());
        }
    }
}

type Failed = Result<(), io::Error>;

/// The thread that sends a round an interval.
struct Rounds {
    stop: Arc<AtomicBool>,
    latest: Arc<Mutex<Option<(Time, Duration)>>>,
    thread: JoinHandle<(Tracer, Failed)>,
}

impl Rounds {
    fn start(mut tracer: Tracer, interval: Duration, clock: Clock) -> io::Result<Rounds> {
        let stop = Arc::new(AtomicBool::new(false));
        let latest = Arc::new(Mutex::new(None));
        let (its_stop, its_latest) = (stop.clone(), latest.clone());
        let thread = std::thread::Builder::new()
            .name("path".into())
            .stack_size(256 << 10)
            .spawn(move || {
                crate::probe::host::wake_exactly(crate::probe::host::PROBES);
                let mut due = clock.now();
                while !its_stop.load(Ordering::Relaxed) {
                    let hops = tracer.known();
                    if let Err(e) = tracer.round(hops) {
                        return (tracer, Err(e));
                    }
                    let half = due + interval / 2;
                    tracer.listen(half.saturating_since(clock.now()), false);
                    tracer.echo_round();
                    // Whoever is late leaves out rounds rather than sending two at once.
                    due = (due + interval).max(clock.now());
                    while clock.now() < due && !its_stop.load(Ordering::Relaxed) {
                        tracer.listen(due.saturating_since(clock.now()).min(TICK), false);
                        *its_latest.lock().unwrap_or_else(PoisonError::into_inner) =
                            tracer.farthest_round_trip();
                    }
                }
                (tracer, Ok(()))
            })?;
        Ok(Rounds {
            stop,
            latest,
            thread,
        })
    }

    /// The latest to the farthest hop that answered.
    fn round_trip(&self) -> Option<Duration> {
        Some(self.latest()?.1)
    }

    fn round_trip_since(&self, began: Time) -> Option<Duration> {
        let (at, rtt) = self.latest()?;
        // Left after that, too.
        (at.saturating_since(began) > rtt).then_some(rtt)
    }

    fn latest(&self) -> Option<(Time, Duration)> {
        *self.latest.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn stop(self) -> (Tracer, Failed) {
        self.stop.store(true, Ordering::Relaxed);
        self.thread
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}
