//! Crafted trains: carries out a [`Sending`] against our server and gives every datagram's fate.
//!
//! It protects the link and other hosts: a train goes only to a server that has agreed to it over TCP and has proven
//! its address. The loop of `experiment` keeps to a budget, and starts nothing while there is cross traffic.

pub(crate) mod fragments;
mod others;
pub(crate) mod passage;

pub use experiment::{Progress, Watch};
pub use others::Others;

use crate::clock::{Clock, mono_ns};
use crate::error::CraftError;
use crate::load::LoadError;
use crate::load::exchange::{Line, Peer};
use crate::load::kernel::random_bytes;
use crate::load::paced::headers;
use crate::load::pump::wait;
use crate::sockets::{Setup, Sockets};
use base::program::{Facts, Fate, Program, Sending, Train};
use base::record::{Direction, Row};
use base::{Bytes, Duration};
use experiment::host::Passing;
use experiment::{Bounds, OfTrains, Stopped};
use fragments::Watcher;
use measure::control::{Accepted, FlowSpec, Request, Response, SessionId, Stamps, finished};
use nix::poll::PollFlags;
use passage::{QUIET_NS, Waits};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// Interval at which the watcher is told of a running train.
const TICK: Duration = Duration::from_millis(100);
/// Time by which UDP has to get through.
const READY_WITHIN_NS: i64 = 12_000_000_000;
/// Interval of the checks for the server's cookie meanwhile.
const ANSWER_NS: i64 = 2_000_000;
/// Time by which the server's stamps have to arrive, even over GPRS.
const STAMPS_WITHIN_NS: i64 = 300_000_000_000;
/// Part of a time by which two clocks may differ over it.
const CLOCKS_AGREE: u64 = 100;
/// Delay from the last agreement until programs that are sent at once start together.
const LEAD_NS: i64 = 20_000_000;

/// Limits of a run.
#[derive(Clone, Debug)]
pub struct Plan {
    pub peer: Peer,
    /// Number of the first train: trains of one recording are numbered in order.
    pub first_train: i64,
    /// Upper limit on whole IP packets, both directions combined.
    pub budget: Bytes,
    /// Interface whose counters are read; by default the one towards the server.
    pub interface: Option<String>,
    /// True to wait while another client loads the server's uplink; false to fail at once.
    pub waits: bool,
    /// Policy towards cross traffic.
    pub others: experiment::Others,
}

impl Plan {
    /// Limits in the form of the experiments' loop.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            first_train: self.first_train,
            budget: self.budget,
            others: self.others,
            waits: self.waits,
        }
    }
}

/// Asks `next` for trains until there are no more; it sees every train so far. Runs in the calling thread's network
/// namespace.
///
/// # Errors
/// The first error that ends the run; rows up to then were sent.
pub fn run(
    plan: &Plan,
    next: &mut dyn FnMut(&[Train]) -> Option<Sending>,
    clock: Clock,
    rows: &Sender<Row>,
    watch: &mut dyn Watch,
) -> Result<Vec<Train>, CraftError> {
    let setup = Setup {
        interface: plan.interface.clone(),
        ..Setup::new(plan.peer.clone(), clock, rows.clone())
    };
    let mut steps = OfTrains::new(next);
    experiment::run(&mut steps, &plan.bounds(), &mut Sockets::new(setup), watch)
}

/// Sends a train at once. Runs in the calling thread's network namespace.
///
/// # Errors
/// The server refuses, vanishes or is unreachable; `passing` stops the run.
pub(crate) fn train(
    (peer, clock): (&Peer, Clock),
    sending: &Sending,
    first: i64,
    passing: &mut dyn FnMut(Passing) -> bool,
) -> Result<Vec<Train>, CraftError> {
    let run = Run {
        peer,
        clock,
        headers: headers(peer.server) as u32,
    };
    let agreed = sending.programs.iter();
    let agreed = agreed
        .map(|p| run.agree(sending.direction, p))
        .collect::<Result<Vec<_>, _>>()?;
    run.carry_out(sending, first, &agreed, passing)
}

struct Run<'a> {
    peer: &'a Peer,
    clock: Clock,
    headers: u32,
}

/// Agreed train: the facts that both of its ends need.
struct Agreed {
    stream: Line,
    socket: UdpSocket,
    token: u64,
    program: Program,
    /// Start of the agreement, ns of the monotonic clock.
    began: i64,
}

/// Time from the first of the stamps to the last.
fn spanned(stamps: &Stamps) -> Duration {
    let all = || stamps.stamps.iter().map(|s| s.at_ns);
    match (all().min(), all().max()) {
        (Some(first), Some(last)) => Duration::from_nanos(first.abs_diff(last)),
        _ => Duration::ZERO,
    }
}

fn timed_out(e: &io::Error) -> bool {
    matches!(
        e.kind(),
        io::ErrorKind::TimedOut | io::ErrorKind::WouldBlock
    )
}

impl Run<'_> {
    /// Sends greetings until the server has heard one and says so.
    fn greet(
        &self,
        stream: &Line,
        socket: &UdpSocket,
        token: u64,
        stop: &AtomicBool,
    ) -> Result<Response, LoadError> {
        let began = mono_ns();
        loop {
            passage::hello(socket, token);
            let again = mono_ns() + TICK.as_nanos() as i64;
            let mut told = false;
            while !told && mono_ns() < again {
                told = wait(stream, PollFlags::POLLIN, ANSWER_NS).intersects(PollFlags::POLLIN);
                passage::prove(socket, token);
            }
            if told {
                return self.peer.hear(stream, began + READY_WITHIN_NS, stop);
            }
            if mono_ns() - began > READY_WITHIN_NS {
                return Err(LoadError::Talk {
                    server: self.peer.server,
                    what: "its answer",
                    source: io::ErrorKind::TimedOut.into(),
                });
            }
        }
    }

    fn agree(&self, direction: Direction, program: &Program) -> Result<Agreed, CraftError> {
        let peer = self.peer;
        let stop = AtomicBool::new(false);
        let began = mono_ns();
        let stream = peer.connect(None)?;
        let request = Request::Train {
            spec: FlowSpec {
                session: SessionId(random_bytes()),
                flow: 0,
                duration: program.time(),
                sample: Duration::from_secs(1),
            },
            direction,
            program: program.clone(),
        };
        let Response::Accepted(Accepted {
            duration,
            udp_port,
            udp_token: token,
            ..
        }) = peer.ask(&stream, &request, &stop)?.0
        else {
            return Err(CraftError::Unexpected {
                server: peer.server,
            });
        };
        if duration < program.time() {
            return Err(CraftError::TooLong {
                server: peer.server,
                granted: duration,
                needed: program.time(),
            });
        }
        let far = SocketAddr::new(peer.server.ip(), udp_port);
        let any: SocketAddr = if far.is_ipv4() {
            ([0u8; 4], 0).into()
        } else {
            ([0u16; 8], 0).into()
        };
        let socket = passage::socket(any, far, &peer.access.outlet)
            .map_err(CraftError::socket("open a UDP socket for a train"))?;
        let greeted = mono_ns();
        let ready = self.greet(&stream, &socket, token, &stop);
        match ready {
            Ok(Response::Ready) => Ok(Agreed {
                stream,
                socket,
                token,
                program: program.clone(),
                began,
            }),
            Ok(_) => Err(CraftError::Unexpected {
                server: peer.server,
            }),
            // Other failures to talk are the server's own, and no firewall's.
            Err(LoadError::Talk { source, .. }) if timed_out(&source) => Err(CraftError::NoUdp {
                server: far,
                waited: Duration::from_nanos((mono_ns() - greeted) as u64),
            }),
            Err(e) => Err(e.into()),
        }
    }

    /// Sends all programs of a sending at once, a thread for each; this one watches.
    fn carry_out(
        &self,
        sending: &Sending,
        first: i64,
        agreed: &[Agreed],
        watch: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, CraftError> {
        let stop = AtomicBool::new(false);
        let passed = AtomicU64::new(0);
        let start = mono_ns() + LEAD_NS;
        let (clock, peer, headers) = (self.clock, self.peer, self.headers);
        let ends = std::thread::scope(|scope| {
            let threads: Vec<_> = agreed
                .iter()
                .enumerate()
                .map(|(i, agreed)| {
                    let end = End {
                        agreed,
                        peer,
                        clock,
                        stop: &stop,
                        passed: &passed,
                    };
                    let facts = Facts {
                        stage: sending.stage.clone(),
                        direction: sending.direction,
                        program: agreed.program.clone(),
                        headers,
                        refused: 0,
                        overflowed: 0,
                        fragments_sent: None,
                        fragments_received: None,
                    };
                    let train = Train::new(first + i as i64, facts);
                    scope.spawn(move || end.run(train, start))
                })
                .collect();
            while threads.iter().any(|t| !t.is_finished()) {
                let elapsed = Duration::from_nanos((mono_ns() - start).max(0) as u64);
                let passing = Passing {
                    elapsed,
                    datagrams: passed.load(Ordering::Relaxed),
                };
                if !watch(passing) {
                    stop.store(true, Ordering::Relaxed);
                }
                // A short train is not waited for longer than it takes.
                let pause = if elapsed < TICK { TICK / 50 } else { TICK / 5 };
                std::thread::sleep(pause.to_std());
            }
            threads
                .into_iter()
                .map(|t| t.join().expect("the end of a train does not panic"))
                .collect::<Result<Vec<_>, _>>()
        });
        if stop.load(Ordering::Relaxed) {
            return Err(Stopped::Interrupted.into());
        }
        ends
    }
}

/// Near end of one train.
struct End<'a> {
    agreed: &'a Agreed,
    peer: &'a Peer,
    clock: Clock,
    stop: &'a AtomicBool,
    /// Datagrams that have left, or arrived, for a live display.
    passed: &'a AtomicU64,
}

impl End<'_> {
    fn run(&self, mut train: Train, start: i64) -> Result<Train, CraftError> {
        let Agreed {
            socket, program, ..
        } = self.agreed;
        let up = train.facts.direction == Direction::Up;
        let watcher = Watcher::start(socket, program, up);
        let (here, there) = if up {
            self.send(start)?
        } else {
            self.receive()?
        };
        let fragments = watcher.map(Watcher::stop);
        let (sent, received) = if up { (&here, &there) } else { (&there, &here) };
        train.facts.refused = sent.refused;
        train.facts.overflowed = received.overflowed;
        (train.facts.fragments_sent, train.facts.fragments_received) = if up {
            (fragments, there.fragments)
        } else {
            (there.fragments, fragments)
        };
        for stamp in &sent.stamps {
            if let Some(fate) = train.fates.get_mut(stamp.seq as usize) {
                fate.sent_ns = Some(stamp.at_ns);
            }
        }
        for stamp in &received.stamps {
            if let Some(
                fate @ Fate {
                    sent_ns: Some(_), ..
                },
            ) = train.fates.get_mut(stamp.seq as usize)
            {
                (fate.received_ns, fate.ecn) = (Some(stamp.at_ns), Some(stamp.ecn));
            }
        }
        Ok(train)
    }

    /// Time by which the far end has told its stamps.
    fn until(&self) -> i64 {
        let time = self.agreed.program.time().as_nanos() as i64;
        self.agreed.began + time + STAMPS_WITHIN_NS
    }

    fn hear(&self) -> Result<Stamps, CraftError> {
        let server = self.peer.server;
        match self.peer.hear(&self.agreed.stream, self.until(), self.stop) {
            Ok(Response::Stamps(stamps)) => {
                let took = Duration::from_nanos((mono_ns() - self.agreed.began) as u64);
                match spanned(&stamps) {
                    spanned if spanned > took + took / CLOCKS_AGREE => Err(CraftError::Untrue {
                        server,
                        spanned,
                        took,
                    }),
                    _ => Ok(stamps),
                }
            }
            Ok(_) => Err(CraftError::Unexpected { server }),
            Err(_) if self.stop.load(Ordering::Relaxed) => Err(Stopped::Interrupted.into()),
            Err(e) => Err(e.into()),
        }
    }

    fn send(&self, start: i64) -> Result<(Stamps, Stamps), CraftError> {
        let Agreed {
            stream,
            socket,
            token,
            program,
            ..
        } = self.agreed;
        let left = passage::send(
            socket,
            *token,
            program,
            self.clock,
            (start, Waits::First),
            &mut |left| {
                self.passed
                    .fetch_max(left.stamps.len() as u64, Ordering::Relaxed);
                !self.stop.load(Ordering::Relaxed)
            },
        )
        .map_err(CraftError::socket("send a train"))?;
        if left.cut {
            return Err(Stopped::Interrupted.into());
        }
        stream
            .say(&finished(left.stamps.len() as u64))
            .map_err(CraftError::socket("tell the server that a train has left"))?;
        let here = Stamps {
            stamps: left.stamps,
            refused: left.refused,
            ..Stamps::default()
        };
        Ok((here, self.hear()?))
    }

    fn receive(&self) -> Result<(Stamps, Stamps), CraftError> {
        let Agreed {
            stream,
            socket,
            token,
            program,
            ..
        } = self.agreed;
        let mut told = None;
        let arrived = passage::receive(
            socket,
            *token,
            program,
            self.clock,
            Waits::First,
            &mut |arrived| {
                let now = mono_ns();
                let late = now >= self.until();
                let count = arrived.stamps.len() as u64;
                self.passed.fetch_max(count, Ordering::Relaxed);
                if told.is_none()
                    && wait(stream, PollFlags::POLLIN, 0).intersects(PollFlags::POLLIN)
                {
                    told = Some(now);
                }
                !self.stop.load(Ordering::Relaxed)
                    && !late
                    && count < program.count()
                    && told.is_none_or(|at| now - at.max(arrived.latest) < QUIET_NS)
            },
        )
        .map_err(CraftError::socket("receive a train"))?;
        let here = Stamps {
            stamps: arrived.stamps,
            overflowed: arrived.overflowed,
            ..Stamps::default()
        };
        Ok((here, self.hear()?))
    }
}
