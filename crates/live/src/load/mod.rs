//! Load: bulk TCP flows to or from the server, sampled on time at both ends.
//!
//! The sender's TCP_INFO and the receiver's byte count both become rows. The server's samples are fetched when the load
//! has stopped, and put on our clock by the exchange with the shortest turn.

#[cfg(target_os = "linux")]
pub(crate) mod ceiling;
pub(crate) mod exchange;
#[cfg(target_os = "linux")]
mod far_capture;
pub(crate) mod flow;
#[cfg(target_os = "linux")]
mod foreign;
#[cfg(target_os = "linux")]
pub(crate) mod kernel;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/kernel.rs"]
pub(crate) mod kernel;
pub mod lent;
#[cfg(target_os = "linux")]
pub(crate) mod paced;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/paced.rs"]
pub(crate) mod paced;
mod payload;
#[cfg(target_os = "linux")]
pub(crate) mod pump;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere/pump.rs"]
pub(crate) mod pump;
mod shared;
mod turn;
#[cfg(target_os = "linux")]
pub(crate) mod whole;

pub use exchange::{Access, Line, Peer};
#[cfg(target_os = "linux")]
pub use far_capture::FarCapture;
#[cfg(target_os = "linux")]
pub(crate) use flow::fill;
#[cfg(target_os = "linux")]
pub use foreign::{ForeignPlan, ForeignProbe};
pub use kernel::{CongestionControls, NoSuchCongestionControl};
pub use turn::{Standing, Turn};

use crate::clock::Clock;
use crate::tally::Tally;
use base::record::{Direction, Event, Row};
use base::{BitsPerSec, Duration};
use flow::{Done, Gauge, Worker};
use measure::control::{
    ControlError, DatagramCount, Detail, FlowReport, Limits, Refusal, Request, Response, SessionId,
};
use measure::keys::Pin;
use pump::Payload;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Sender;
use std::thread::JoinHandle;

/// Greatest number of flows of one load.
pub const MOST_FLOWS: u32 = 64;
/// Share of its busy time above which a flow was held back by something other than the network.
const HELD_BACK_SHARE: f64 = 0.1;

/// Settings of a load.
#[derive(Clone, Debug)]
pub struct LoadPlan {
    pub peer: Peer,
    pub direction: Direction,
    /// Number of flows at once, 1 to [`MOST_FLOWS`].
    pub flows: u32,
    /// Number of the first flow within the recording; the others follow.
    pub first_flow: i64,
    /// Congestion control by the kernel's name; without one CUBIC, or Reno if CUBIC is not available.
    pub congestion: Option<String>,
    /// Time after which the flows end by themselves.
    pub duration: Duration,
    /// Interval between the samples of each flow, at both ends.
    pub sample: Duration,
    /// Rate of datagrams in whole IP packets, shared by the flows, for a load without TCP.
    pub udp_rate: Option<BitsPerSec>,
    /// Counter of the traffic: connections and their reports, not datagrams.
    pub tally: Tally,
}

/// Reason why a load could not start, or ended.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    #[error(
        "no connection to {server} (TCP) within {waited}: {source}. Is `tailback serve` running there, and the port open?"
    )]
    Unreachable {
        server: SocketAddr,
        waited: Duration,
        source: io::Error,
    },
    #[error("{server} took the connection, then failed with {what}: {source}")]
    Talk {
        server: SocketAddr,
        what: &'static str,
        source: io::Error,
    },
    #[error("{server}: {error}")]
    Protocol {
        server: SocketAddr,
        error: ControlError,
    },
    #[error(
        "wrong key: {server} has no such user and key. `tailback serve keys list` shows the users there; a key may have expired"
    )]
    WrongKey { server: SocketAddr },
    #[error("{server} serves only users with a key: give one with --key-file")]
    KeyNeeded { server: SocketAddr },
    #[error(
        "{server} has no keys, and one was given: leave --key-file out, or start `tailback serve` with --keys"
    )]
    NoKeyThere { server: SocketAddr },
    #[error(
        "{server} has the public key {seen}, and {expected} was expected: it is another server, or somebody on the path takes its place"
    )]
    WrongPin {
        server: SocketAddr,
        expected: Pin,
        seen: Pin,
    },
    #[error(
        "no TLS with {server}: {source}. The server may be full, or of an older release; without --pin nothing is encrypted"
    )]
    Tls {
        server: SocketAddr,
        source: io::Error,
    },
    #[error("{server} refused: {text}")]
    Refused {
        server: SocketAddr,
        why: Refusal,
        text: String,
    },
    #[error(
        "another client is loading the uplink of {server}, and two loads at once would measure each other. Try again in {:.0} (place {} in the queue), or wait for it without --no-wait",
        standing.after, standing.place
    )]
    Loaded {
        server: SocketAddr,
        standing: Standing,
    },
    #[error(transparent)]
    Congestion(#[from] NoSuchCongestionControl),
    #[error("{flows} flows cannot be started: choose 1 to {most}")]
    Flows { flows: u32, most: u32 },
    #[error(
        "{server} vanished: flow {flow} ended after {bytes} bytes because {why}. What was measured until then is kept"
    )]
    Vanished {
        server: SocketAddr,
        flow: i64,
        bytes: u64,
        why: &'static str,
    },
    #[error("flow {flow} failed after {bytes} bytes: {source}")]
    Flow {
        flow: i64,
        bytes: u64,
        source: io::Error,
    },
}

/// State of the load, for a live display.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Progress {
    /// Payload bytes so far: acknowledged for uploads, received for downloads.
    pub bytes: u64,
    /// Rate over about the last second; null until there are two readings.
    pub rate: Option<BitsPerSec>,
    /// Number of flows that still run.
    pub alive: u32,
    /// Time since the last progress of any flow.
    pub still_for: Duration,
}

/// Outcome of one flow.
#[derive(Debug)]
pub struct FlowOutcome {
    pub flow: i64,
    /// Payload bytes: acknowledged for uploads, received for downloads.
    pub bytes: u64,
    /// Congestion control of its sender.
    pub congestion: String,
    /// Counts of datagrams; those of the server are null if it did not report.
    pub datagrams: Option<DatagramOutcome>,
    /// Reason why the flow ended early; null if it did not.
    pub error: Option<LoadError>,
}

/// Counts of a flow's datagrams.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DatagramOutcome {
    pub sent: Option<u64>,
    pub received: Option<u64>,
    /// Datagrams that came after one with a higher number.
    pub reordered: Option<u64>,
    /// Datagrams that were never received. A few may have been in flight when the flow ended.
    pub lost: Option<u64>,
}

/// Outcome of a load.
#[derive(Debug)]
pub struct LoadOutcome {
    pub flows: Vec<FlowOutcome>,
    /// Reports of the server; empty if they could not be fetched.
    pub reports: Vec<FlowReport>,
    /// Reason why there is no report.
    pub report_error: Option<LoadError>,
    /// Largest error of the server's samples on our clock: half the shortest turn.
    pub placed_within: Duration,
}

/// Running load. Dropping it stops it.
pub struct Load {
    plan: LoadPlan,
    session: SessionId,
    clock: Clock,
    rows: Sender<Row>,
    stop: Arc<AtomicBool>,
    gauge: Gauge,
    threads: Vec<JoinHandle<Done>>,
    /// Flows that never started.
    failed: Vec<FlowOutcome>,
}

/// Load that has ended here, whose server has yet to report.
pub struct Stopped {
    plan: LoadPlan,
    session: SessionId,
    clock: Clock,
    rows: Sender<Row>,
    done: Vec<Done>,
    failed: Vec<FlowOutcome>,
}

/// True for errors that another try, or another flow, will meet again.
fn is_final(e: &LoadError) -> bool {
    match e {
        LoadError::WrongKey { .. }
        | LoadError::KeyNeeded { .. }
        | LoadError::NoKeyThere { .. }
        | LoadError::WrongPin { .. }
        | LoadError::Congestion(_) => true,
        LoadError::Refused { why, .. } => {
            matches!(why, Refusal::UnknownCongestion | Refusal::Malformed)
        }
        _ => false,
    }
}

pub(crate) fn event(clock: &Clock, rows: &Sender<Row>, kind: &str, subject: &str, detail: &str) {
    // Whoever listened may be gone; the load then ends on its own.
    let _ = rows.send(Row::Event(Event {
        t_ns: clock.unix_ns(),
        kind: kind.into(),
        subject: subject.into(),
        detail: detail.into(),
    }));
}

impl Load {
    /// Connects all flows and starts them. Returns when each flow has started or failed.
    ///
    /// # Errors
    /// No flow could be started, or the server refused one for a reason that will not go away. If some flows
    /// started, the load runs with those, and an event reports the others.
    pub fn start(plan: LoadPlan, clock: Clock, rows: Sender<Row>) -> Result<Load, LoadError> {
        if plan.flows == 0 || plan.flows > MOST_FLOWS {
            return Err(LoadError::Flows {
                flows: plan.flows,
                most: MOST_FLOWS,
            });
        }
        let session = SessionId(kernel::random_bytes());
        let mut load = Load {
            session,
            clock,
            rows,
            stop: Arc::default(),
            gauge: Gauge::default(),
            threads: Vec::new(),
            failed: Vec::new(),
            plan,
        };
        let payload = (load.plan.direction == Direction::Up).then(Payload::new);
        let (ready, began) = std::sync::mpsc::channel();
        for index in 0..load.plan.flows {
            let meter = load.gauge.add();
            let worker = Worker {
                plan: load.plan.clone(),
                session,
                index,
                clock,
                rows: load.rows.clone(),
                stop: load.stop.clone(),
                meter,
                payload: payload.clone(),
                ready: ready.clone(),
            };
            let thread = std::thread::Builder::new()
                .name(format!("load-{}-{index}", load.plan.direction))
                .stack_size(256 << 10)
                .spawn(move || worker.run())
                .map_err(|source| LoadError::Flow {
                    flow: load.plan.first_flow + i64::from(index),
                    bytes: 0,
                    source,
                })?;
            load.threads.push(thread);
        }
        drop(ready);
        let mut running = 0;
        for (flow, result) in began.iter().take(load.threads.len()) {
            match result {
                Ok(()) => running += 1,
                Err(e) => load.failed.push(FlowOutcome {
                    flow,
                    bytes: 0,
                    congestion: String::new(),
                    datagrams: None,
                    error: Some(e),
                }),
            }
        }
        let finals = |f: &FlowOutcome| f.error.as_ref().is_some_and(is_final);
        if running == 0 || load.failed.iter().any(finals) {
            // The reason that concerns every flow is the one to report.
            load.failed.sort_by_key(|f| !finals(f));
            if let Some(e) = load.failed.drain(..).find_map(|f| f.error) {
                return Err(e);
            }
        }
        for f in &load.failed {
            let text = f
                .error
                .as_ref()
                .map(ToString::to_string)
                .unwrap_or_default();
            event(
                &load.clock,
                &load.rows,
                "fault",
                &format!("flow {}", f.flow),
                &text,
            );
        }
        Ok(load)
    }

    pub fn direction(&self) -> Direction {
        self.plan.direction
    }

    pub fn progress(&self) -> Progress {
        self.gauge.progress()
    }

    /// Ends all flows with a reset, within about a tenth of a second, for any backlog.
    pub fn stop(mut self) -> Stopped {
        let done = self.join();
        Stopped {
            plan: self.plan.clone(),
            session: self.session,
            clock: self.clock,
            rows: self.rows.clone(),
            done,
            failed: std::mem::take(&mut self.failed),
        }
    }

    fn join(&mut self) -> Vec<Done> {
        self.stop.store(true, Ordering::Relaxed);
        self.threads
            .drain(..)
            .map(|t| {
                t.join()
                    .unwrap_or_else(|panic| std::panic::resume_unwind(panic))
            })
            .filter(|d| d.began.is_some())
            .collect()
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for t in self.threads.drain(..) {
            let _ = t.join();
        }
    }
}

/// Completes a flow's outcome by the far end's report of it.
fn take_theirs(f: &mut FlowOutcome, theirs: Option<&FlowReport>, direction: Direction) {
    if let Some(r) = theirs.filter(|r| r.direction == Direction::Down) {
        f.congestion.clone_from(&r.congestion);
    }
    let Some(ours) = &mut f.datagrams else { return };
    if let Some(theirs) = theirs.and_then(last_count) {
        match direction {
            Direction::Up => {
                ours.received = Some(theirs.received);
                ours.reordered = Some(theirs.reordered);
            }
            Direction::Down => ours.sent = Some(theirs.expected),
        }
    }
    ours.lost = ours
        .sent
        .zip(ours.received)
        .map(|(s, r)| s.saturating_sub(r));
}

fn last_count(report: &FlowReport) -> Option<DatagramCount> {
    match report.samples.last()?.detail {
        Detail::Datagrams(count) => Some(count),
        _ => None,
    }
}

/// Congestion window of a connection, in packets.
///
/// # Errors
/// Errors of `getsockopt`, which has none for an open TCP socket.
pub fn congestion_window(socket: &std::net::TcpStream) -> io::Result<u64> {
    let state = kernel::TcpInfo::read(socket)?.sender();
    Ok(state.cwnd_bytes.checked_div(state.mss_bytes).unwrap_or(0))
}

/// Rows of the server's samples of a flow on our clock, given how far its own clock is ahead.
pub(crate) fn reported(
    report: &FlowReport,
    flow: i64,
    ahead_ns: i64,
) -> impl Iterator<Item = base::record::Flow> {
    report.samples.iter().filter_map(move |s| {
        let at = i64::try_from(s.at.as_nanos()).unwrap_or(i64::MAX);
        let t_ns = report.start_ns.wrapping_sub(ahead_ns).saturating_add(at);
        let bytes = i64::try_from(s.bytes).ok();
        let mut row = base::record::Flow::about(t_ns, flow, report.direction);
        match &s.detail {
            Detail::Sender(state) => {
                row.bytes_acked = bytes;
                flow::fill(&mut row, state);
            }
            // What a sender of datagrams has sent is neither acknowledged nor received.
            Detail::Datagrams(_) if report.direction == Direction::Down => return None,
            Detail::Receiver | Detail::Datagrams(_) => row.bytes_received = bytes,
        }
        Some(row)
    })
}

impl Stopped {
    /// Fetches the server's samples, for at most `limit`, and writes them as rows on our clock.
    ///
    /// The queue that the load has filled may still be draining: allow for that. Our own samples are kept even if the
    /// server does not answer.
    pub fn collect(self, limit: Duration) -> LoadOutcome {
        let peer = Peer {
            patience: limit,
            ..self.plan.peer.clone()
        };
        let answer = self.ask_for_report(&peer);
        let (shortest, ahead_ns) = self.clocks_compared();
        let (reports, report_error) = match answer {
            Ok(r) => (r, None),
            Err(e) => {
                event(
                    &self.clock,
                    &self.rows,
                    "fault",
                    "report of the far end",
                    &e.to_string(),
                );
                (Vec::new(), Some(e))
            }
        };
        for report in &reports {
            self.write_report(report, ahead_ns);
            self.count_last(report);
        }
        let held = |limits: &Limits, flow| self.write_limits(limits, flow);
        for d in &self.done {
            held(&d.limits, d.outcome.flow);
        }
        for r in &reports {
            held(&r.limits, self.plan.first_flow + i64::from(r.flow));
        }
        let mut flows: Vec<FlowOutcome> = self
            .done
            .into_iter()
            .map(|d| d.outcome)
            .chain(self.failed)
            .collect();
        flows.sort_by_key(|f| f.flow);
        for f in &mut flows {
            let number = |r: &&FlowReport| self.plan.first_flow + i64::from(r.flow) == f.flow;
            let theirs = reports.iter().find(number);
            take_theirs(f, theirs, self.plan.direction);
            if let Some(counts) = &f.datagrams {
                let detail = serde_json::to_string(counts).unwrap_or_default();
                let subject = format!("flow {}", f.flow);
                event(&self.clock, &self.rows, "datagrams", &subject, &detail);
            }
        }
        LoadOutcome {
            flows,
            reports,
            report_error,
            placed_within: Duration::from_nanos((shortest / 2).max(0) as u64),
        }
    }

    /// Asks the far end for its report of all flows.
    fn ask_for_report(&self, peer: &Peer) -> Result<Vec<FlowReport>, LoadError> {
        peer.connect(None).and_then(|stream| {
            let request = Request::Report {
                session: self.session,
            };
            let answer = peer.ask(&stream, &request, &AtomicBool::new(false));
            self.plan.tally.connection(&stream);
            match answer?.0 {
                Response::Report(flows) => Ok(flows),
                _ => Err(LoadError::Protocol {
                    server: peer.server,
                    error: ControlError::Malformed {
                        what: "another answer than a report",
                    },
                }),
            }
        })
    }

    /// Shortest turn of a request and its answer, and by how much the far end's clock was ahead in it, ns.
    fn clocks_compared(&self) -> (i64, i64) {
        // Before the link was full, turns were short and the clocks best compared.
        self.done
            .iter()
            .filter_map(|d| d.began)
            .map(|(turn, server_ns)| {
                let midpoint = self
                    .clock
                    .from_mono_ns(turn.sent + (turn.answered - turn.sent) / 2);
                (turn.answered - turn.sent, server_ns.wrapping_sub(midpoint))
            })
            .min()
            .unwrap_or_default()
    }

    fn write_report(&self, report: &FlowReport, ahead_ns: i64) {
        let flow = self.plan.first_flow + i64::from(report.flow);
        for row in reported(report, flow, ahead_ns) {
            let _ = self.rows.send(Row::Flow(row));
        }
    }

    /// Counts the data that a sender had in flight when its download was reset: they still arrived.
    fn count_last(&self, report: &FlowReport) {
        let last = report.samples.last().map(|s| s.detail);
        if let (Direction::Down, Some(Detail::Sender(state))) = (report.direction, last) {
            let followed = self.plan.tally.follow(self.plan.peer.server);
            followed.still_coming(state.cwnd_bytes, state.mss_bytes);
        }
    }

    fn write_limits(&self, limits: &Limits, flow: i64) {
        let busy = limits.busy.as_secs_f64();
        for (by, time) in [
            ("receive window", limits.receive_window),
            ("send buffer", limits.send_buffer),
            ("server ceiling", limits.server_ceiling),
        ] {
            // Busy time ends with the last acknowledgement, the others with the flow.
            let share = (time.as_secs_f64() / busy).min(1.0);
            if busy > 0.0 && share > HELD_BACK_SHARE {
                let detail = serde_json::json!({ "by": by, "share": share });
                event(
                    &self.clock,
                    &self.rows,
                    "held_back",
                    &format!("flow {flow}"),
                    &detail.to_string(),
                );
            }
        }
    }
}
