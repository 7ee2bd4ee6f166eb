//! Prober: one thread that sends probes on time and reads their fates at intervals.
//!
//! It sleeps until the next slot, sends, and sleeps again. The kernel stamps answers and transmit times and holds them
//! until there are enough to be worth a system call: an arrival wakes nobody. So a probe costs one wake-up and two to
//! four system calls.

mod error;
pub use crate::sys::thread as host;
mod thread;
#[cfg(target_os = "linux")]
pub mod wire;
#[cfg(not(target_os = "linux"))]
#[path = "elsewhere.rs"]
pub mod wire;

pub use error::ProbeError;

use crate::clock::Clock;
use crate::load::{Access, Peer};
use crate::tally::Tally;
use crate::traffic::Reader;
use base::record::{Row, Text};
use base::{BitsPerSec, Bytes, Duration};
use measure::handshake::Handshake;
use measure::keys::{Credential, SessionKeys};
use measure::ledger::Slots;
use measure::session::{Params, Session, Stats};
use measure::wire::{Ask, DATAGRAM_LEN, MAX_LEN, TAG_LEN, boot_proof};
use std::io;
use std::net::SocketAddr;
use std::sync::mpsc::{self, Sender};
use std::sync::{Arc, Mutex, MutexGuard};
use std::thread::JoinHandle;
use thread::{Command, Driver};
use wire::{Kind, Wire};

/// Settings of a prober.
#[derive(Clone, Debug)]
pub struct ProbePlan {
    pub server: SocketAddr,
    pub interval: Duration,
    /// Shortest interval that [`Prober::set_interval`] may set later.
    pub shortest_interval: Duration,
    /// Key that signs probes, or the pin of a server that gives one inside TLS.
    pub access: Access,
    /// Time after which an unanswered probe is lost.
    pub lost_after: Duration,
    /// Silence after which the server counts as gone.
    pub silent_after: Duration,
    /// TOS or traffic-class byte of probes and answers: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Longest time to try to reach the server.
    pub patience: Duration,
    /// Name of the target in the recording.
    pub target: Text,
    /// Counter of sent and received packets, without trains.
    pub tally: Tally,
    /// Interface whose counters are read at each probe while [`Prober::count`] asks for it.
    pub interface: Option<Text>,
}

impl ProbePlan {
    /// Default settings: ten milliseconds between probes, ten seconds until one is lost, no marks.
    pub fn new(server: SocketAddr) -> ProbePlan {
        ProbePlan {
            server,
            interval: Duration::from_millis(10),
            shortest_interval: Duration::from_millis(10),
            access: Access::default(),
            lost_after: Duration::from_secs(10),
            silent_after: Duration::from_secs(10),
            tos: 0,
            patience: Duration::from_secs(5),
            target: "udp".into(),
            tally: Tally::default(),
            interface: None,
        }
    }

    /// Size of the IP packet of a probe, and of its answer.
    pub fn ip_size(&self) -> Bytes {
        Bytes::new(
            (DATAGRAM_LEN
                + if self.access.signs_probes() {
                    TAG_LEN
                } else {
                    0
                }) as u64
                + u64::from(ip_overhead(self.server)),
        )
    }
}

/// Size of the IP and UDP headers.
fn ip_overhead(server: SocketAddr) -> u16 {
    if server.ip().to_canonical().is_ipv4() {
        28
    } else {
        48
    }
}

/// Counts of the prober so far.
#[derive(Clone, Copy, Debug, Default)]
pub struct ProbeSummary {
    pub session: Stats,
    /// Processor time of the prober's thread.
    pub cpu: Duration,
    /// System calls of the prober's thread, without those of the channel its rows go through.
    pub system_calls: u64,
    /// True if the thread runs at a real-time priority.
    pub realtime: bool,
    /// Far clock minus near clock and its uncertainty, ns, for any asymmetry of the path.
    pub far_ahead_ns: Option<(i64, i64)>,
}

/// Result of a short train of packets: rough rates at the bottleneck, of whole IP packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrainEstimate {
    pub up: BitsPerSec,
    pub down: BitsPerSec,
}

/// Running prober; dropping it stops it.
pub struct Prober {
    commands: Sender<Command>,
    shared: Arc<Mutex<Shared>>,
    thread: Option<JoinHandle<()>>,
    min_interval: Duration,
    server: SocketAddr,
}

#[derive(Default)]
struct Shared {
    summary: ProbeSummary,
    trouble: Option<ProbeError>,
}

/// Time until kernel receive times work: they are missing for 4 to 13 ms after the request, if no other process on the
/// host uses them.
const WARM_UP: Duration = Duration::from_millis(50);

impl Prober {
    /// Opens a session with the server and starts probing; rows go to `rows` until [`Prober::stop`].
    ///
    /// # Errors
    /// Reason why there is no session: no server, wrong key, no budget, no socket.
    pub fn start(plan: ProbePlan, clock: Clock, rows: Sender<Row>) -> Result<Prober, ProbeError> {
        let server = plan.server;
        let local = |what: &'static str| {
            move |source: io::Error| ProbeError::Local {
                what,
                server,
                source: Arc::new(source),
            }
        };
        let peer = Peer {
            server,
            access: plan.access.clone(),
            patience: plan.patience,
        };
        let key = peer.probe_key().map_err(|e| ProbeError::Key(Arc::new(e)))?;
        let mut wire = Wire::open(Kind::Udp, server, clock, &plan.access.outlet)
            .map_err(|e| gone(&e, server).unwrap_or_else(|| local("open a UDP socket")(e)))?;
        let asked_at = clock.now();
        wire.set_tos(plan.tos)
            .map_err(local("set the traffic class"))?;

        let (grant, keys) = shake_hands(&mut wire, &plan, key, clock)?;
        let warm = asked_at + WARM_UP;
        host::sleep_until(clock.mono_of(warm));
        let params = Params {
            lost_after: plan.lost_after,
            kept_for: plan.lost_after * 3 / 2,
            origin_unix_ns: clock.from_mono_ns(clock.mono_of(base::Time::ZERO)),
            target: plan.target.clone(),
            keys,
            grant,
            // Fifteen seconds of probes each millisecond.
            capacity: 16_384,
        };
        let key = u64::from_be_bytes(host::random().map_err(local("draw a random number"))?);
        let begin = clock.now() + Duration::from_millis(1);
        let slots = Slots::new(begin, plan.interval, 0).spread(key);
        let mut session = Session::new(params, slots);
        if grant.origin_unix_ns != 0 {
            session.expect_same_clock(grant.origin_unix_ns - clock.from_mono_ns(0));
        }
        let (commands, inbox) = mpsc::channel();
        let shared = Arc::new(Mutex::new(Shared::default()));
        let counters = plan.interface.as_deref().map(Reader::open).transpose();
        let counters = counters.map_err(local("read the interface's counters"))?;
        let mut driver = Driver::new(wire, session, clock, plan, rows, inbox, shared.clone());
        driver.counters = counters;
        let thread = std::thread::Builder::new()
            .name("probe".into())
            .spawn(move || driver.run())
            .map_err(local("start a thread"))?;
        let min_interval = Duration::from_nanos(grant.min_interval_ns);
        Ok(Prober {
            commands,
            shared,
            thread: Some(thread),
            min_interval,
            server,
        })
    }

    /// Changes the interval from the next slot on. Returns the interval in use: the server may allow no shorter one.
    pub fn set_interval(&self, interval: Duration) -> Duration {
        let granted = interval.max(self.min_interval);
        // A thread that has ended has said why: see `health`.
        let _ = self.commands.send(Command::Interval(granted));
        granted
    }

    /// Reads the counters of the plan's interface at each probe from the next slot on, or no longer.
    pub fn count(&self, counting: bool) {
        // A thread that has ended has said why: see `health`.
        let _ = self.commands.send(Command::Count(counting));
    }

    /// Sends `count` packets of `ip_size` back to back, which the server sends back together, and reads the rate of
    /// either direction from their spacing. `None` if too few came back. Blocks for a few seconds at most. Eight of
    /// 1200 bytes take 1.2 s on a link of 65 kbit/s in each direction.
    ///
    /// # Errors
    /// The prober has ended.
    pub fn train(&self, count: u8, ip_size: Bytes) -> Result<Option<TrainEstimate>, ProbeError> {
        let (reply, answer) = mpsc::channel();
        let payload = ip_size
            .get()
            .saturating_sub(u64::from(ip_overhead(self.server)));
        let payload = usize::try_from(payload).unwrap_or(MAX_LEN).min(MAX_LEN);
        let _ = self.commands.send(Command::Train {
            count,
            payload,
            reply,
        });
        let arrivals = answer.recv().map_err(|_| {
            self.health().err().unwrap_or(ProbeError::Ended {
                server: self.server,
            })
        })?;
        Ok(thread::estimate(&arrivals, ip_size))
    }

    /// Checks that the server still answers.
    ///
    /// # Errors
    /// Reason why it does not.
    pub fn health(&self) -> Result<(), ProbeError> {
        lock(&self.shared).trouble.clone().map_or(Ok(()), Err)
    }

    pub fn summary(&self) -> ProbeSummary {
        lock(&self.shared).summary
    }

    /// Stops sending, waits for late answers (a few round trips), and writes all open slots.
    pub fn stop(mut self) -> ProbeSummary {
        self.join();
        self.summary()
    }

    fn join(&mut self) {
        let _ = self.commands.send(Command::Stop);
        if let Some(thread) = self.thread.take() {
            thread.join().expect("the prober's thread does not panic");
        }
    }
}

impl Drop for Prober {
    fn drop(&mut self) {
        if self.thread.is_some() && !std::thread::panicking() {
            self.join();
        }
    }
}

fn lock(shared: &Mutex<Shared>) -> MutexGuard<'_, Shared> {
    shared
        .lock()
        .expect("nobody panics while holding this lock")
}

/// Meaning of a socket's error for the path to the server, if it has one.
fn gone(e: &io::Error, server: SocketAddr) -> Option<ProbeError> {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => Some(ProbeError::PortClosed { server }),
        io::ErrorKind::NetworkUnreachable
        | io::ErrorKind::HostUnreachable
        | io::ErrorKind::AddrNotAvailable
        | io::ErrorKind::PermissionDenied
        | io::ErrorKind::NetworkDown => Some(ProbeError::Unreachable {
            server,
            why: e.to_string(),
        }),
        _ => None,
    }
}

fn shake_hands(
    wire: &mut Wire,
    plan: &ProbePlan,
    key: Option<Credential>,
    clock: Clock,
) -> Result<(measure::wire::Grant, Option<SessionKeys>), ProbeError> {
    let server = plan.server;
    let local = |what: &'static str| {
        move |source: io::Error| ProbeError::Local {
            what,
            server,
            source: Arc::new(source),
        }
    };
    let nonce = u64::from_be_bytes(host::random().map_err(local("draw a random number"))?);
    let ask = Ask {
        interval_ns: plan.interval.min(plan.shortest_interval).as_nanos(),
        duration_s: 0,
        tos: plan.tos,
        boot_proof: boot_proof(&host::boot_id(), nonce),
    };
    let mut handshake = Handshake::new(clock.now(), nonce, ask, key, plan.patience);
    let mut buffer = [0u8; MAX_LEN];
    loop {
        let now = clock.now();
        handshake.handle_timeout(now);
        if let Some(outcome) = handshake.outcome() {
            return outcome
                .map(|grant| (grant, handshake.keys()))
                .map_err(|failure| ProbeError::from_failure(failure, server, ask.interval_ns));
        }
        while let Some(len) = handshake.poll_transmit(now, &mut buffer) {
            match wire.send(&buffer[..len], None) {
                Ok(()) => plan.tally.datagram(server, len),
                Err(e) => gone(&e, server).map_or(Ok(()), Err)?,
            }
        }
        let wait = handshake
            .next_wakeup()
            .map_or(Duration::ZERO, |t| t.saturating_since(now));
        match wire.receive_within(wait.max(Duration::from_millis(1)), &mut buffer) {
            Ok(len) => {
                plan.tally.datagram(server, len);
                handshake.handle_datagram(clock.now(), &buffer[..len]);
            }
            Err(e) => {
                if let Some(error) = gone(&e, server) {
                    return Err(error);
                }
            }
        }
    }
}
