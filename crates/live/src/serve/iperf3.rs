//! Server for the clients of iperf3: TCP in either direction or in both.
//!
//! A test is a load like any other: it takes the client's turn on the uplink, and its bytes, the server's rate and the
//! number of flows have their limits. Tests over UDP are refused, for nothing in them proves the client's address.

use super::admission::{Admitted, LOOK, accept};
use super::quota::{FlowPermit, Permit, Refused, Use};
use super::shared::Shared;
use super::sync::{lock, runtime};
use crate::clock::mono_ns;
use crate::iperf3::{
    ACCESS_DENIED, CLIENT_TERMINATE, COOKIE, CREATE_STREAMS, Carried, DISPLAY_RESULTS,
    EXCHANGE_RESULTS, Fault, PARAM_EXCHANGE, Parameters, SERVER_ERROR, TEST_END, TEST_RUNNING,
    TEST_START, framed, results,
};
use crate::load::kernel::{
    TcpInfo, choose_congestion, close_abruptly, congestion_of, random_bytes, set_notsent_lowat,
};
use crate::load::pump::Payload;
use crate::sys::option;
use base::record::Direction;
use futures_util::future::{join, join_all};
use measure::control::{Ended, FlowSpec, Refusal, SessionId};
use measure::guest::Counts;
use socket2::SockRef;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, TcpListener};
use std::os::fd::AsRawFd;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::sync::mpsc;
use tokio::task::LocalSet;
use tokio::time::{sleep, timeout};

/// Time for each answer of a client.
const PATIENCE: Duration = Duration::from_secs(10);
/// Time without a byte after which a stream ends.
const SILENCE_NS: i64 = 15_000_000_000;
/// Time beyond its own length that a test may take: its streams begin and end one after the other.
const SPARE_NS: i64 = 20_000_000_000;
/// Longest parameters of a client, and longest results: those of 64 streams have 10 kB.
const MOST_PARAMETERS: usize = 8 << 10;
const MOST_RESULTS: usize = 64 << 10;
/// Bytes read at once, and those that wait in a socket beyond what TCP has sent.
const BLOCK: usize = 128 << 10;
const WAITING: u32 = 128 << 10;
/// Length of the load's samples; nobody asks for them.
const SAMPLE: base::Duration = base::Duration::from_secs(1);

/// Stream of a test, with its place among the server's connections.
type Stream = (TcpStream, Permit);

/// Tests that wait for their streams.
type Tests = RefCell<BTreeMap<[u8; COOKIE], (IpAddr, mpsc::Sender<Stream>)>>;

struct Server {
    shared: Arc<Shared>,
    tests: Tests,
    published: Arc<Mutex<Counts>>,
}

/// Serves until the server stops.
pub(super) fn run(
    listener: TcpListener,
    shared: &Arc<Shared>,
    published: &Arc<Mutex<Counts>>,
) -> io::Result<()> {
    let runtime = runtime()?;
    let server = Rc::new(Server {
        shared: shared.clone(),
        tests: Tests::default(),
        published: published.clone(),
    });
    LocalSet::new().block_on(&runtime, async {
        let greet = |admitted: Admitted| {
            let server = server.clone();
            tokio::task::spawn_local(async move {
                let Admitted {
                    stream,
                    permit,
                    from,
                    ..
                } = admitted;
                server.greet(stream, permit, from.ip()).await;
            });
        };
        accept(listener, shared, greet).await
    })
}

/// Reason why a conversation ends early.
enum Over {
    /// The client hung up, or fell silent.
    Gone,
    Refused(Refused),
    Cannot(Fault),
}

impl From<io::Error> for Over {
    fn from(_: io::Error) -> Over {
        Over::Gone
    }
}

async fn within<T>(what: impl Future<Output = io::Result<T>>) -> Result<T, Over> {
    match timeout(PATIENCE, what).await {
        Ok(Ok(done)) => Ok(done),
        Ok(Err(_)) | Err(_) => Err(Over::Gone),
    }
}

async fn say(stream: &mut TcpStream, state: i8) -> Result<(), Over> {
    within(stream.write_all(&state.to_be_bytes())).await
}

async fn json(stream: &mut TcpStream, most: usize) -> Result<Vec<u8>, Over> {
    let length = within(stream.read_u32()).await? as usize;
    if length > most {
        return Err(Over::Cannot(Fault::Parameters));
    }
    let mut text = vec![0; length];
    within(stream.read_exact(&mut text)).await?;
    Ok(text)
}

impl Server {
    fn count(&self, change: impl FnOnce(&mut Counts)) {
        change(&mut lock(&self.published));
    }

    /// Tells the stream of a test that is there from a new test.
    async fn greet(&self, mut stream: TcpStream, permit: Permit, from: IpAddr) {
        let mut cookie = [0; COOKIE];
        if within(stream.read_exact(&mut cookie)).await.is_err() {
            return self.count(|c| c.ignored += 1);
        }
        let its = self.tests.borrow().get(&cookie).cloned();
        if let Some((client, test)) = its {
            if client == from && self.shared.quota.serve(&permit).is_ok() {
                // A stream too many finds no room.
                let _ = test.try_send((stream, permit));
            }
            return;
        }
        self.count(|c| c.sessions += 1);
        let ended = self.talk(&mut stream, &permit, (from, cookie)).await;
        self.tests.borrow_mut().remove(&cookie);
        self.count(|c| c.sessions -= 1);
        let last: Vec<u8> = match ended {
            Ok(()) => return self.count(|c| c.answered += 1),
            Err(Over::Gone) => return self.count(|c| c.ignored += 1),
            Err(Over::Refused((why, text))) => {
                self.shared.refused(from, why, &text);
                ACCESS_DENIED.to_be_bytes().into()
            }
            Err(Over::Cannot(fault)) => {
                let text = "iperf3 asks for what this server does not do";
                self.shared.refused(from, Refusal::Malformed, text);
                let mut bytes = vec![SERVER_ERROR as u8];
                bytes.extend((fault as u32).to_be_bytes());
                bytes.extend([0; 4]);
                bytes
            }
        };
        self.count(|c| c.throttled += 1);
        let _ = within(stream.write_all(&last)).await;
    }

    /// Runs one test.
    async fn talk(
        &self,
        control: &mut TcpStream,
        permit: &Permit,
        (from, cookie): (IpAddr, [u8; COOKIE]),
    ) -> Result<(), Over> {
        self.shared.quota.serve(permit).map_err(Over::Refused)?;
        say(control, PARAM_EXCHANGE).await?;
        let asked =
            Parameters::read(&json(control, MOST_PARAMETERS).await?).map_err(Over::Cannot)?;
        if asked.up + asked.down > self.shared.quota.budgets().flows_per_client {
            return Err(Over::Cannot(Fault::Streams));
        }
        let flows = self.flows(permit, &asked).map_err(Over::Refused)?;
        let (sender, mut receiver) = mpsc::channel(flows.len());
        self.tests.borrow_mut().insert(cookie, (from, sender));
        say(control, CREATE_STREAMS).await?;
        let mut streams = Vec::new();
        for (direction, flow) in flows {
            let come = timeout(PATIENCE, receiver.recv()).await;
            let (stream, permit) = come.ok().flatten().ok_or(Over::Gone)?;
            if direction == Direction::Down {
                prepare(&stream, &asked)?;
            }
            streams.push((stream, permit, direction, flow));
        }
        self.tests.borrow_mut().remove(&cookie);
        say(control, TEST_START).await?;
        say(control, TEST_RUNNING).await?;

        let test = Test {
            shared: &self.shared,
            asked: &asked,
            began: mono_ns(),
            over: Cell::new(false),
            failed: Cell::new(false),
        };
        let congestion = streams.first().map(|(stream, ..)| congestion(stream));
        // A client that still reads takes a closed stream for an error: they stay open to the end.
        let carrying = (streams.iter_mut())
            .map(|(stream, _, direction, flow)| test.carry(stream, *direction, flow));
        let (ended, carried) = join(test.watch(control), join_all(carrying)).await;
        ended?;
        say(control, EXCHANGE_RESULTS).await?;
        json(control, MOST_RESULTS).await?;
        let ours = results(&carried, asked.down > 0, congestion.flatten().as_deref());
        within(control.write_all(&framed(&ours))).await?;
        say(control, DISPLAY_RESULTS).await?;
        // The client's farewell; some hang up without it.
        let _ = within(control.read_i8()).await;
        Ok(())
    }

    /// Flows of a test, in the order in which its client opens the streams.
    fn flows<'a>(
        &self,
        permit: &'a Permit,
        asked: &Parameters,
    ) -> Result<Vec<(Direction, FlowPermit<'a>)>, Refused> {
        let session = SessionId(random_bytes());
        let seconds = asked
            .seconds
            .map(|s| base::Duration::from_secs(s + asked.omitted));
        let directions = (0..asked.up)
            .map(|_| Direction::Up)
            .chain((0..asked.down).map(|_| Direction::Down));
        let flow = |(number, direction): (usize, Direction)| {
            let spec = FlowSpec {
                session,
                flow: number as u32,
                duration: seconds.unwrap_or(base::Duration::MAX),
                sample: SAMPLE,
            };
            let usage = match direction {
                Direction::Up => Use::Upload,
                Direction::Down => Use::Download,
            };
            let flow = self.shared.quota.flow(permit, &spec, direction, usage)?;
            self.shared.counters.flows.fetch_add(1, Ordering::Relaxed);
            Ok((direction, flow))
        };
        directions.enumerate().map(flow).collect()
    }
}

/// Sets what the client asked for on a stream that sends.
fn prepare(stream: &TcpStream, asked: &Parameters) -> Result<(), Over> {
    if let Some(name) = &asked.congestion {
        choose_congestion(SockRef::from(stream), Some(name))
            .map_err(|_| Over::Cannot(Fault::Congestion))?;
    }
    if let Some(rate) = asked.rate {
        // Bytes a second, as `unsigned long`.
        let bytes = (rate.get() / 8).to_ne_bytes();
        let (level, name) = (libc::SOL_SOCKET, libc::SO_MAX_PACING_RATE);
        option::set(stream.as_raw_fd(), level, name, &bytes)?;
    }
    Ok(())
}

/// The kernel's view of a stream.
fn with_std<T>(stream: &TcpStream, read: impl FnOnce(&std::net::TcpStream) -> T) -> Option<T> {
    let copy = SockRef::from(stream).try_clone().ok()?;
    Some(read(&copy.into()))
}

fn congestion(stream: &TcpStream) -> Option<String> {
    with_std(stream, congestion_of)
}

/// A test that runs.
struct Test<'a> {
    shared: &'a Shared,
    asked: &'a Parameters,
    began: i64,
    /// True once the client has ended it.
    over: Cell<bool>,
    /// True once the server has ended it: a budget is spent, another client's turn has come, or nothing moves.
    failed: Cell<bool>,
}

impl Test<'_> {
    fn until(&self, flow: &FlowPermit) -> i64 {
        let length = i64::try_from(flow.duration.as_nanos()).unwrap_or(i64::MAX);
        self.began.saturating_add(length).saturating_add(SPARE_NS)
    }

    fn goes_on(&self) -> bool {
        !self.over.get() && !self.failed.get() && !self.shared.stop.load(Ordering::Relaxed)
    }

    /// Waits for the client's end of the test.
    async fn watch(&self, control: &mut TcpStream) -> Result<(), Over> {
        let ended = loop {
            match timeout(LOOK, control.read_i8()).await {
                Ok(Ok(TEST_END)) => break Ok(()),
                Ok(Ok(CLIENT_TERMINATE) | Err(_)) => break Err(Over::Gone),
                // Other states are not for this time.
                Ok(Ok(_)) => break Err(Over::Cannot(Fault::Parameters)),
                Err(_) if !self.goes_on() => {
                    let text = "the test was ended: its bytes or its time are spent, or another client waits";
                    break Err(Over::Refused((Refusal::Spent, text.into())));
                }
                Err(_) => {}
            }
        };
        self.over.set(true);
        ended
    }

    /// Carries the load of one stream until the end of the test.
    async fn carry(
        &self,
        stream: &mut TcpStream,
        direction: Direction,
        flow: &mut FlowPermit<'_>,
    ) -> Carried {
        let until = self.until(flow);
        let omitted = self.began + self.asked.omitted as i64 * 1_000_000_000;
        let mut carrying = Carrying {
            shared: self.shared,
            buffer: match direction {
                Direction::Up => vec![0; BLOCK],
                Direction::Down => Vec::new(),
            },
            total: 0,
        };
        if direction == Direction::Down {
            with_std(stream, |s| set_notsent_lowat(s, WAITING));
        }
        let (mut warm, mut moved) = (None, mono_ns());
        let ended = loop {
            let now = mono_ns();
            if now >= omitted {
                warm.get_or_insert(carrying.total);
            }
            if !self.goes_on() {
                break Ended::ByClient;
            }
            if now >= until || now - moved > SILENCE_NS {
                break Ended::TimeUp;
            }
            match timeout(LOOK, carrying.step(stream, direction)).await {
                Err(_) => continue,
                Ok(Ok(0) | Err(_)) => break Ended::ByClient,
                Ok(Ok(_)) => moved = mono_ns(),
            }
            if !flow.spend(carrying.total) {
                break Ended::Budget;
            }
        };
        if direction == Direction::Down {
            // A client that waits for the rest of a block hears that there is none.
            let _ = stream.shutdown().await;
        }
        flow.with_report(|r| r.ended = ended);
        self.failed
            .set(self.failed.get() || ended != Ended::ByClient);
        let sender = with_std(stream, |s| {
            close_abruptly(s);
            TcpInfo::read(s).ok()
        });
        Carried {
            bytes: carrying.total - warm.unwrap_or(carrying.total),
            retransmits: (sender.flatten())
                .filter(|_| direction == Direction::Down)
                .map(|info| info.sender().retransmits),
            seconds: (mono_ns() - omitted.max(self.began)).max(0) as f64 / 1e9,
        }
    }
}

/// Bytes of one stream.
struct Carrying<'a> {
    shared: &'a Shared,
    buffer: Vec<u8>,
    total: u64,
}

impl Carrying<'_> {
    /// Moves some bytes, once the server's rate limit lets them pass.
    async fn step(&mut self, stream: &mut TcpStream, direction: Direction) -> io::Result<usize> {
        let shared = self.shared;
        let wait = shared.ceiling.wait_ns(mono_ns());
        if wait > 0 {
            sleep(Duration::from_nanos(wait.unsigned_abs())).await;
        }
        let most = shared.ceiling.chunk();
        let (n, counter) = match direction {
            Direction::Up => {
                let room = self.buffer.len().min(most);
                let n = stream.read(&mut self.buffer[..room]).await?;
                (n, &shared.counters.bytes_received)
            }
            Direction::Down => {
                let payload = shared.payload.get_or_init(Payload::new);
                let chunk = payload.chunk(self.total as usize);
                let n = stream.write(&chunk[..chunk.len().min(most)]).await?;
                (n, &shared.counters.bytes_sent)
            }
        };
        let bytes = n as u64;
        self.total += bytes;
        counter.fetch_add(bytes, Ordering::Relaxed);
        shared.ceiling.book(mono_ns(), bytes);
        Ok(n)
    }
}
