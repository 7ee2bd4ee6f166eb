//! The run: one thread that probes, reads the counters, asks the controller, and gives its orders to the kernel.

use super::counters::{Counters, adjustment};
use super::desk::Desk;
use super::down::{Down, DownStatus};
use super::hook::Side;
use super::offload::Offload;
use super::probes::Probes;
use super::settings::{Directions, Settings, decision_row};
use super::shaper::Shaping;
use super::{ControlError, check_interface, first};
use crate::clock::Clock;
use crate::load::{Access, Peer};
use crate::probe::host::{PROBES, random, wake_exactly};
use base::record::{Decision as DecisionRow, Direction, Event, Row};
use base::rng::Streams;
use base::{Duration, Time};
use control::agent::{Agent, Counts};
use control::upload::{Decision, Why};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use serde::{Deserialize, Serialize};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;

/// State of a run, for a live display and for `tailback control status`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
pub struct Status {
    pub wan: String,
    pub server: SocketAddr,
    pub applied: bool,
    pub elapsed_s: f64,
    pub why: Why,
    pub wait_ms: Option<f64>,
    pub probed_wait_ms: Option<f64>,
    pub capacity_bps: Option<f64>,
    /// Rate that passes the interface, mean of the last second.
    pub rate_bps: Option<f64>,
    pub passed_bytes: u64,
    pub signals: u64,
    pub marks: u64,
    pub drops: u64,
    /// Rate of the shaper of uploads, if there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub shaper_bps: Option<f64>,
    /// State of the downloads, if they are controlled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down: Option<DownStatus>,
    /// Reason why the server does not answer, if known.
    pub trouble: Option<String>,
}

/// Questions of the run to its caller, about once a second.
pub trait Overseer {
    fn status(&mut self, status: &Status);
    /// True if the user asked to stop.
    fn interrupted(&mut self) -> bool;
}

const SECOND: Duration = Duration::from_secs(1);
/// Time by which orders may be early, so that one wake-up serves a probe and the orders.
const SLACK: Duration = Duration::from_millis(2);

/// Reasons why a wait is over, besides time.
#[derive(Clone, Copy)]
struct Woken {
    desk: bool,
    /// A signal came, or a second is over: ask if the user wants to stop.
    signal: bool,
}

/// Rows that wait for the end of a second: each hand-over wakes two threads.
struct Outbox {
    waiting: Vec<Row>,
    to: Sender<Row>,
}

impl Outbox {
    fn send(&mut self) {
        for row in self.waiting.drain(..) {
            // Nobody listens any more when the run is being given up.
            let _ = self.to.send(row);
        }
    }
}

/// Gateway under control; dropping it restores the interface.
pub struct Gateway {
    settings: Settings,
    clock: Clock,
    rows: Outbox,
    desk: Desk,
    probes: Probes,
    counters: Counters,
    /// Bytes that the link adds to each packet beyond the kernel's count.
    adjustment: i64,
    /// Shaper that follows the decisions, instead of signals.
    shaping: Option<Shaping>,
    /// Control of the downloads, if it is asked for.
    down: Option<Down>,
    agent: Agent,
    /// Check of the counters of hook or shaper; none in a dry run, which changes nothing.
    offload: Option<Offload>,
    began: Time,
    /// Times of the next idle row, and the next report.
    idle_row: Time,
    second: Time,
    second_bytes: u64,
    rate: Option<f64>,
    last: Option<Decision>,
    trouble: Option<String>,
}

impl Gateway {
    /// Opens the session with the server, then attaches the program, unless this is a dry run.
    ///
    /// # Errors
    /// The server, the interface or the kernel refuses; nothing is changed then.
    pub fn start(
        settings: Settings,
        server: SocketAddr,
        access: &Access,
        clock: Clock,
        rows: Sender<Row>,
    ) -> Result<Gateway, ControlError> {
        let local = |what| move |source| ControlError::Local { what, source };
        check_interface(&settings.wan)?;
        let place = settings.apply.then(|| super::inspect(&settings.wan));
        if place.transpose()?.is_some_and(|p| p.owned) {
            return Err(ControlError::Owned {
                interface: settings.wan,
            });
        }
        let desk = Desk::open(&settings.wan)?;
        let Settings {
            interval, patience, ..
        } = settings;
        let mut probes = Probes::open(
            server,
            access,
            interval,
            patience,
            settings.shape_up.is_some(),
            clock,
        )?;
        if settings.shape_down.is_some() {
            let wan = &settings.wan;
            probes
                .tap(wan)
                .map_err(|source| match source.raw_os_error() {
                    Some(libc::EPERM) => ControlError::NotAllowed {
                        what: "see answers before the shaper",
                        source,
                    },
                    _ => local("see answers before the shaper")(source),
                })?;
        }
        let seed = u64::from_be_bytes(random().map_err(local("draw a random number"))?);
        let mut upload = settings.upload;
        let up = settings.directions != Directions::Down;
        let shaping = Shaping::of(settings.shape_up.as_deref(), &settings, clock.now())?;
        // A train through a shaper shows that.
        if upload.capacity.is_none() && up && shaping.is_none() {
            let peer = Peer {
                server,
                access: access.clone(),
                patience,
            };
            upload.capacity = first::capacity(&peer, settings.overhead, clock);
        }
        let acts = settings.apply && up;
        let counters = Counters::open(&settings, Side::Egress, acts && shaping.is_none())?;
        let adjustment = adjustment(&settings, Side::Egress);
        let offload = acts.then(|| Offload::open(&settings.wan, Side::Egress));
        let offload = offload.transpose()?;
        let now = clock.now();
        let streams = Streams::new(seed);
        let down = match settings.directions {
            Directions::Up => None,
            _ => Some(Down::open(&settings, streams.stream("down"), clock)?),
        };
        let mut agent = Agent::new(upload, streams.stream("gateway"), now);
        agent.set_interval(settings.interval);
        Ok(Gateway {
            agent,
            settings,
            offload,
            clock,
            rows: Outbox {
                waiting: Vec::new(),
                to: rows,
            },
            desk,
            probes,
            counters,
            adjustment,
            shaping,
            down,
            began: now,
            idle_row: now,
            second: now + SECOND,
            second_bytes: 0,
            rate: None,
            last: None,
            trouble: None,
        })
    }

    /// Controls until it is told to stop, then restores the interface.
    ///
    /// # Errors
    /// The counters cannot be read, or orders cannot be given: the interface is restored.
    pub fn run(mut self, overseer: &mut dyn Overseer) -> Result<Status, ControlError> {
        wake_exactly(PROBES);
        let result = self.control(overseer);
        let status = self.status();
        let Gateway {
            probes, mut rows, ..
        } = self;
        probes.close(&mut rows.waiting);
        rows.send();
        result
            .map(|()| status)
            .map_err(|source| ControlError::Local {
                what: "read the counters or give orders",
                source,
            })
    }

    fn control(&mut self, overseer: &mut dyn Overseer) -> io::Result<()> {
        loop {
            let woken = self.wait();
            let counts = self.send()?;
            let now = self.clock.now();
            if counts.is_some() || now + SLACK >= self.agent.due() {
                self.hear()?;
                self.act(now, counts)?;
            }
            self.probes.advance(&mut self.rows.waiting);
            if now >= self.second {
                self.each_second(now)?;
                overseer.status(&self.status());
            }
            if woken.signal && overseer.interrupted() {
                return Ok(());
            }
            let status = || serde_json::to_string(&self.status()).unwrap_or_default();
            if woken.desk && self.desk.answer(&status) {
                return Ok(());
            }
        }
    }

    /// Waits for the next thing to do.
    fn wait(&self) -> Woken {
        let own = self.agent.due().min(self.second);
        let next = self.probes.next_wakeup().min(own);
        let wait = next.saturating_since(self.clock.now());
        let timeout = TimeSpec::from_duration(wait.to_std());
        // Answers wait for the next tick: the kernel has stamped them.
        let mut fds = [PollFd::new(self.desk.fd(), PollFlags::POLLIN)];
        let interrupted = ppoll(&mut fds, Some(timeout), None).is_err();
        Woken {
            desk: interrupted || fds[0].any().unwrap_or(true),
            signal: interrupted || self.clock.now() >= self.second,
        }
    }

    /// Sends probes that are due. Returns what had passed with the last of them, if any was sent.
    fn send(&mut self) -> io::Result<Option<Counts>> {
        let Gateway {
            probes,
            counters,
            shaping,
            clock,
            ..
        } = self;
        let mut failed = None;
        let mut newest = None;
        probes.transmit(&mut || match counters.read() {
            Ok(counts) => {
                newest = Some(counts);
                if let Some(shaping) = shaping {
                    shaping.passed.read(clock.now(), counts.bytes);
                }
                counts.bytes
            }
            Err(e) => {
                failed = Some(e);
                0
            }
        });
        failed.map_or(Ok(newest), Err)
    }

    /// Hands answers to the agent.
    fn hear(&mut self) -> io::Result<()> {
        let now = self.clock.now();
        for mut answered in self.probes.look() {
            if let Some(shaping) = &self.shaping {
                let sent = &mut answered.sent;
                sent.total = shaping.passed.at(sent.departed).unwrap_or(sent.total);
            }
            self.agent.answered(now, &answered);
            if let Some(down) = &mut self.down {
                down.answered(now, &answered);
            }
        }
        Ok(())
    }

    /// Renews the orders by these counters, or by what they are now.
    fn act(&mut self, now: Time, counts: Option<Counts>) -> io::Result<()> {
        let counts = match counts {
            Some(counts) => counts,
            None => self.counters.read()?,
        };
        let (decision, orders) = self.agent.wake(now, counts);
        self.counters.order(&orders, self.clock);
        if let Some(decision) = decision {
            if let Some(shaping) = &mut self.shaping {
                shaping.follow(&decision, self.agent.controller(), counts.bytes)?;
            }
            self.decided(now, decision);
        }
        if let Some(down) = &mut self.down {
            let row = down.act(now)?;
            self.rows.waiting.extend(row.map(Row::Decision));
        }
        Ok(())
    }

    /// Records a decision: each is a row while there is traffic.
    fn decided(&mut self, now: Time, decision: Decision) {
        let changed = self.last.is_none_or(|l| l.why != decision.why);
        let active = decision.signals > 0 || !decision.wait.is_zero();
        if changed || active || now >= self.idle_row {
            self.idle_row = now + SECOND;
            let row = self.row(&decision);
            self.rows.waiting.push(Row::Decision(row));
        }
        self.last = Some(decision);
    }

    fn row(&self, decision: &Decision) -> DecisionRow {
        DecisionRow {
            applied: self.settings.apply && self.settings.directions != Directions::Down,
            passed_bytes: self.agent.seen().bytes as i64,
            signals: self.signals() as i64,
            probability: self.agent.controller().probability(),
            marks: self.agent.seen().marks as i64,
            drops: self.agent.seen().drops as i64,
            shaper_bps: self.shaping.as_ref().map(|s| s.rate_bps() as i64),
            ..decision_row(&self.settings, Direction::Up, decision, self.clock)
        }
    }

    /// Signals ordered so far; a shaper needs none.
    fn signals(&self) -> u64 {
        self.shaping.as_ref().map_or(self.agent.signals(), |_| 0)
    }

    fn each_second(&mut self, now: Time) -> io::Result<()> {
        let span = now.saturating_since(self.second) + SECOND;
        let bytes = self.agent.seen().bytes.saturating_sub(self.second_bytes);
        self.rate = Some(bytes as f64 * 8.0 / span.as_secs_f64());
        self.second_bytes = self.agent.seen().bytes;
        if let Some(down) = &mut self.down {
            down.each_second(span)?;
        }
        self.second = now + SECOND;
        let shaped = self
            .shaping
            .as_mut()
            .map(Shaping::each_second)
            .transpose()?;
        if let Some(offload) = &mut self.offload {
            let seen = self.agent.seen();
            let adjusted = self.adjustment * seen.packets as i64;
            let seen = shaped.unwrap_or(seen.bytes.saturating_add_signed(-adjusted));
            // Without the counters nothing speaks against the hook.
            let unseen = offload.check(seen).unwrap_or(false);
            self.agent.set_unseen(unseen);
        }
        let trouble = self.probes.trouble().map(str::to_owned);
        if trouble != self.trouble {
            let detail = serde_json::json!({ "server": trouble });
            self.rows.waiting.push(Row::Event(Event {
                t_ns: self.clock.unix_ns(),
                kind: "control".into(),
                subject: self.settings.wan.as_str().into(),
                detail: detail.to_string().into(),
            }));
            self.trouble = trouble;
        }
        self.rows.send();
        Ok(())
    }

    fn status(&self) -> Status {
        let known = self.last.filter(|d| d.why != Why::Blind);
        Status {
            wan: self.settings.wan.clone(),
            server: self.probes.server(),
            applied: self.settings.apply,
            elapsed_s: self.clock.now().saturating_since(self.began).as_secs_f64(),
            why: self.last.map_or(Why::Blind, |d| d.why),
            wait_ms: known.map(|d| d.wait.as_millis_f64()),
            probed_wait_ms: self.last.and_then(|d| d.probed).map(|w| w.as_millis_f64()),
            capacity_bps: self.last.and_then(|d| d.capacity).map(|c| c.value * 8.0),
            rate_bps: self.rate,
            passed_bytes: self.agent.seen().bytes,
            signals: self.signals(),
            marks: self.agent.seen().marks,
            drops: self.agent.seen().drops,
            shaper_bps: self.shaping.as_ref().map(Shaping::rate_bps),
            down: self.down.as_ref().map(Down::status),
            trouble: self.trouble.clone(),
        }
    }
}
