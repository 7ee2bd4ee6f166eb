//! Flow of a load at this end: its thread, from the connection to the last sample.

#[cfg(target_os = "linux")]
use super::DatagramOutcome;
use super::exchange::{Line, Turn};
use super::kernel::{TcpInfo, close_abruptly, congestion_of};
#[cfg(target_os = "linux")]
use super::paced::Paced;
use super::paced::payload_for;
use super::pump::{End, Payload, Pump};
use super::{FlowOutcome, LoadError, LoadPlan, Progress, event};
use crate::clock::{Clock, mono_ns};
use base::record::{Direction, Flow, Row};
use base::{BitsPerSec, Duration};
use measure::control::{
    Accepted, ControlError, FlowSpec, Limits, Request, Response, SenderState, SessionId,
};
use std::collections::VecDeque;
#[cfg(target_os = "linux")]
use std::net::SocketAddr;
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Time without progress after which a flow has lost its far end.
const VANISHED_AFTER: Duration = Duration::from_secs(15);
/// Time after our end at which the far end ends a flow by itself, in case we cannot tell it.
const GRACE: Duration = Duration::from_secs(5);

/// State of a running flow that other threads may read.
#[derive(Default)]
pub struct Meter {
    pub bytes: AtomicU64,
    /// Monotonic time of its last progress.
    pub moved: AtomicI64,
    pub alive: AtomicBool,
}

impl Meter {
    /// Takes the payload so far.
    pub fn set(&self, now: i64, bytes: u64) {
        if self.bytes.swap(bytes, Ordering::Relaxed) != bytes {
            self.moved.store(now, Ordering::Relaxed);
        }
    }

    /// Marks the begin of the flow, or its end.
    pub fn live(&self, alive: bool) {
        if alive {
            self.moved.store(mono_ns(), Ordering::Relaxed);
        }
        self.alive.store(alive, Ordering::Relaxed);
    }
}

/// Meters of all flows of a load, read together.
#[derive(Default)]
pub struct Gauge {
    meters: Vec<Arc<Meter>>,
    /// Readings of about the last second: monotonic time, bytes.
    history: Mutex<VecDeque<(i64, u64)>>,
}

impl Gauge {
    /// Adds the meter of a further flow.
    pub fn add(&mut self) -> Arc<Meter> {
        let meter = Arc::<Meter>::default();
        self.meters.push(meter.clone());
        meter
    }

    /// State of the load.
    pub fn progress(&self) -> Progress {
        let now = mono_ns();
        let meters = self.meters.iter();
        let bytes = meters
            .clone()
            .map(|m| m.bytes.load(Ordering::Relaxed))
            .sum();
        let running = meters.clone().filter(|m| m.alive.load(Ordering::Relaxed));
        let alive = running.count() as u32;
        let moved = meters.map(|m| m.moved.load(Ordering::Relaxed)).max();
        let moved = moved.unwrap_or(now);
        let mut history = self.history.lock().unwrap_or_else(PoisonError::into_inner);
        while history.len() > 1 && now - history[1].0 >= 1_000_000_000 {
            history.pop_front();
        }
        let rate = history
            .front()
            .filter(|(t, _)| now > *t)
            .map(|(t, before)| {
                let bits = u128::from(bytes - before) * 8_000_000_000;
                BitsPerSec::new((bits / (now - t) as u128) as u64)
            });
        history.push_back((now, bytes));
        Progress {
            bytes,
            rate,
            alive,
            still_for: Duration::from_nanos((now - moved).max(0) as u64),
        }
    }
}

pub struct Done {
    pub outcome: FlowOutcome,
    /// Exchange that started it, and the server's clock in between. Null if it never started.
    pub began: Option<(Turn, i64)>,
    pub limits: Limits,
}

pub struct Worker {
    pub plan: LoadPlan,
    pub session: SessionId,
    pub index: u32,
    pub clock: Clock,
    pub rows: Sender<Row>,
    pub stop: Arc<AtomicBool>,
    pub meter: Arc<Meter>,
    /// Data to send; none for a receiver.
    pub payload: Option<Payload>,
    pub ready: Sender<(i64, Result<(), LoadError>)>,
}

/// Result of a successful start.
struct Started {
    stream: Line,
    turn: Turn,
    accepted: Accepted,
    congestion: String,
}

pub fn fill(row: &mut Flow, s: &SenderState) {
    let int = |v: u64| i64::try_from(v).ok();
    row.cwnd_bytes = int(s.cwnd_bytes);
    row.ssthresh_bytes = s.ssthresh_bytes.and_then(int);
    row.srtt_ns = s.srtt_ns.and_then(int);
    row.rttvar_ns = s.rttvar_ns.and_then(int);
    row.min_rtt_ns = s.min_rtt_ns.and_then(int);
    row.delivered_bytes = s.delivered_bytes.and_then(int);
    row.retransmits = int(s.retransmits);
    row.delivery_rate_bps = s.delivery_rate_bps.and_then(int);
    row.mss_bytes = int(s.mss_bytes);
}

impl Worker {
    fn flow(&self) -> i64 {
        self.plan.first_flow + i64::from(self.index)
    }

    /// Share of this flow in the rate of datagrams.
    fn rate(&self) -> Option<BitsPerSec> {
        self.plan.udp_rate.map(|r| r / u64::from(self.plan.flows))
    }

    pub fn run(self) -> Done {
        let begun = self.begin();
        let (result, started) = match begun {
            Ok(s) => (Ok(()), Some(s)),
            Err(e) => (Err(e), None),
        };
        self.meter.live(started.is_some());
        let _ = self.ready.send((self.flow(), result));
        let mut done = Done {
            outcome: FlowOutcome {
                flow: self.flow(),
                bytes: 0,
                congestion: String::new(),
                datagrams: None,
                error: None,
            },
            began: None,
            limits: Limits::default(),
        };
        if let Some(Started {
            stream,
            turn,
            accepted,
            congestion,
        }) = started
        {
            done.began = Some((turn, accepted.server_ns));
            done.outcome.congestion = congestion;
            let end = match self.rate() {
                None => self.carry(&stream, &mut done),
                Some(rate) => self.carry_datagrams(&stream, &accepted, rate, &mut done),
            };
            done.outcome.bytes = self.meter.bytes.load(Ordering::Relaxed);
            done.outcome.error = self.verdict(end, &stream, done.outcome.bytes);
            if let Some(e) = &done.outcome.error {
                event(
                    &self.clock,
                    &self.rows,
                    "fault",
                    &format!("flow {}", self.flow()),
                    &e.to_string(),
                );
            }
            close_abruptly(&stream);
        }
        self.meter.live(false);
        done
    }

    fn begin(&self) -> Result<Started, LoadError> {
        let plan = &self.plan;
        let wanted = plan.congestion.as_deref();
        let up = plan.direction == Direction::Up;
        // The receiver's choice does not matter, so a name this kernel lacks must not stop it.
        let stream = plan.peer.connect(wanted.filter(|_| up))?;
        let spec = FlowSpec {
            session: self.session,
            flow: self.index,
            duration: plan.duration + GRACE,
            sample: plan.sample,
        };
        let request = match plan.direction {
            direction if plan.udp_rate.is_some() => {
                let rate = self.rate().unwrap_or_default();
                Request::Datagrams {
                    spec,
                    direction,
                    rate,
                    payload_bytes: payload_for(rate),
                }
            }
            Direction::Up => Request::Upload { spec },
            Direction::Down => Request::Download {
                spec,
                congestion: wanted.unwrap_or_default().to_string(),
            },
        };
        let (response, turn) = plan.peer.ask(&stream, &request, &self.stop)?;
        let Response::Accepted(accepted) = response else {
            return Err(LoadError::Protocol {
                server: plan.peer.server,
                error: ControlError::Malformed {
                    what: "another answer than consent to a flow",
                },
            });
        };
        let congestion = match up {
            _ if plan.udp_rate.is_some() => String::new(),
            true => congestion_of(&stream),
            false => accepted.congestion.clone(),
        };
        let detail = serde_json::json!({ "direction": plan.direction, "congestion": congestion });
        event(
            &self.clock,
            &self.rows,
            "flow",
            &format!("flow {}", self.flow()),
            &detail.to_string(),
        );
        Ok(Started {
            stream,
            turn,
            accepted,
            congestion,
        })
    }

    fn carry(&self, stream: &TcpStream, done: &mut Done) -> End {
        let began = mono_ns();
        let pump = Pump {
            socket: stream,
            until: began + self.plan.duration.as_nanos() as i64,
            sample: self.plan.sample,
            patience: VANISHED_AFTER,
            #[cfg(target_os = "linux")]
            gate: None,
            stop: &self.stop,
        };
        let mut followed = self.plan.tally.follow(self.plan.peer.server);
        match &self.payload {
            Some(payload) => {
                // What the exchange before the flow has had acknowledged is no payload.
                let before = TcpInfo::read(stream)
                    .ok()
                    .and_then(|i| i.bytes_acked())
                    .unwrap_or(0);
                pump.send(payload, &mut |now, taken, info| {
                    followed.count(info);
                    let acked = info.bytes_acked().map(|b| b.saturating_sub(before));
                    let mut row =
                        Flow::about(self.clock.from_mono_ns(now), self.flow(), Direction::Up);
                    row.bytes_acked = acked.and_then(|b| i64::try_from(b).ok());
                    fill(&mut row, &info.sender());
                    // Where the system does not tell what was acknowledged, what it has taken.
                    self.meter.set(now, acked.unwrap_or(taken));
                    done.limits = info.limits();
                    self.keep(row)
                })
            }
            None => pump.receive(&mut |now, bytes| {
                followed.look(stream);
                let mut row =
                    Flow::about(self.clock.from_mono_ns(now), self.flow(), Direction::Down);
                row.bytes_received = i64::try_from(bytes).ok();
                self.meter.set(now, bytes);
                self.keep(row)
            }),
        }
    }

    #[cfg(not(target_os = "linux"))]
    fn carry_datagrams(&self, _: &TcpStream, _: &Accepted, _: BitsPerSec, _: &mut Done) -> End {
        End::Failed(std::io::Error::other("datagrams at a rate need Linux"))
    }

    #[cfg(target_os = "linux")]
    fn carry_datagrams(
        &self,
        stream: &TcpStream,
        accepted: &Accepted,
        rate: BitsPerSec,
        done: &mut Done,
    ) -> End {
        let to = SocketAddr::new(self.plan.peer.server.ip(), accepted.udp_port);
        let socket = match self.plan.peer.access.outlet.socket_to(to) {
            Ok(s) => s,
            Err(e) => return End::Failed(e),
        };
        let began = mono_ns();
        let paced = Paced {
            socket: &socket,
            control: stream,
            token: accepted.udp_token,
            until: began + self.plan.duration.as_nanos() as i64,
            sample: self.plan.sample,
            patience: VANISHED_AFTER,
            gate: None,
            stop: &self.stop,
        };
        let mut outcome = DatagramOutcome::default();
        let end = match &self.payload {
            Some(filling) => {
                let size = payload_for(rate);
                paced.send(
                    None,
                    &mut |_, _| Some(rate),
                    size,
                    filling,
                    &mut |now, sent| {
                        outcome.sent = Some(sent);
                        self.meter.set(now, sent * u64::from(size));
                        ControlFlow::Continue(())
                    },
                )
            }
            None => paced.receive(&mut |now, bytes, count| {
                outcome.received = Some(count.received);
                outcome.reordered = Some(count.reordered);
                let mut row =
                    Flow::about(self.clock.from_mono_ns(now), self.flow(), Direction::Down);
                row.bytes_received = i64::try_from(bytes).ok();
                self.meter.set(now, bytes);
                self.keep(row)
            }),
        };
        done.outcome.datagrams = Some(outcome);
        end
    }

    fn keep(&self, row: Flow) -> ControlFlow<()> {
        match self.rows.send(Row::Flow(row)) {
            Ok(()) => ControlFlow::Continue(()),
            // Nobody records any more.
            Err(_) => ControlFlow::Break(()),
        }
    }

    fn verdict(&self, end: End, stream: &Line, bytes: u64) -> Option<LoadError> {
        let vanished = |why| LoadError::Vanished {
            server: self.plan.peer.server,
            flow: self.flow(),
            bytes,
            why,
        };
        match end {
            End::Stopped | End::TimeUp | End::Enough => None,
            End::PeerClosed => {
                let told = if self.payload.is_some() {
                    self.plan.peer.last_words(stream)
                } else {
                    None
                };
                Some(told.unwrap_or_else(|| vanished("the server closed the connection")))
            }
            End::Stalled => Some(vanished("nothing moved for 15 s")),
            End::Failed(source) => Some(LoadError::Flow {
                flow: self.flow(),
                bytes,
                source,
            }),
        }
    }
}
