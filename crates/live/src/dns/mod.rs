//! Lookups that are timed: of names that no cache has, and of the same again; and what a resolver makes of signatures.
//!
//! The way to a resolver is timed apart, by TCP connections to its port, which its kernel answers, whether it takes or
//! refuses them. What is left of a lookup is the resolver's own.

mod message;
mod resolvers;

pub use message::{Manner, Question};
pub use resolvers::{PUBLIC, Resolver, in_use};

use crate::clock::{Clock, mono_ns};
use crate::load::kernel::random_bytes;
use base::noted::Noted;
use base::noted::dns::{Answer, Asked, DnsNote, way_target};
use base::record::{Delay, Row, Status};
use base::{Bytes, Duration};
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::Sender;

/// A resolver that has not answered so often in a row is left alone.
const GIVEN_UP_AFTER: u32 = 3;
/// A connection to a resolver's port takes no longer than this, or something swallows it.
const WAY_WITHIN: Duration = Duration::from_secs(1);
/// What one lookup puts on the line at most: a query, an answer as large as was allowed, a refused connection.
const LOOKUP: u64 = 1700;

#[derive(Clone, Debug)]
pub struct Plan {
    pub resolvers: Vec<Resolver>,
    /// Names below this one are made up; nobody's cache has them.
    pub zone: String,
    /// Made-up names that each resolver is asked for.
    pub count: u32,
    /// From the begin of one lookup to that of the next.
    pub interval: Duration,
    /// A lookup without an answer for so long is lost.
    pub patience: Duration,
    /// A name with valid signatures, and one with wrong ones; none where signatures are not asked about.
    pub signed: Option<(String, String)>,
}

impl Plan {
    /// The most that this puts on the line.
    pub fn cost(&self) -> Bytes {
        let each = u64::from(self.count) * 3 + if self.signed.is_some() { 3 } else { 0 };
        Bytes::new(self.resolvers.len() as u64 * each * LOOKUP)
    }

    /// How long it takes where all answer soon.
    pub fn time(&self) -> Duration {
        let each = u64::from(self.count) * 2 + if self.signed.is_some() { 3 } else { 0 };
        self.interval * (self.resolvers.len() as u64 * each)
    }
}

#[derive(Debug, thiserror::Error)]
pub enum DnsError {
    #[error("\"{name}\" is no name that can be asked for")]
    Name { name: String },
    #[error("cannot open a socket to the resolver {resolver}: {source}")]
    Socket { resolver: String, source: io::Error },
    #[error("interrupted")]
    Interrupted,
}

/// What became of a lookup.
struct Fate {
    sent_ns: i64,
    rtt_ns: Option<i64>,
    answer: Option<Answer>,
    problem: Option<String>,
}

struct Asker<'a> {
    resolver: &'a Resolver,
    socket: UdpSocket,
    silent: u32,
    ways_lost: u32,
    left_alone: bool,
    lookups: i64,
    ways: i64,
}

/// Asks every resolver in turn. `going_on` is called between lookups with what was just asked and is false to end.
///
/// # Errors
/// There is no socket, or the user wants no more.
pub fn run(
    plan: &Plan,
    clock: Clock,
    rows: &Sender<Row>,
    going_on: &mut dyn FnMut(&str) -> bool,
) -> Result<(), DnsError> {
    let mut askers = plan
        .resolvers
        .iter()
        .map(|resolver| {
            let note = DnsNote::Resolver {
                origin: resolver.origin,
                name: resolver.name.clone(),
            };
            let _ = rows.send(note.event(clock.unix_ns(), &resolver.text()).into());
            Asker::new(resolver)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut run = Run {
        plan,
        clock,
        rows,
        due: mono_ns(),
        going_on,
    };
    for _ in 0..plan.count {
        for asker in &mut askers {
            let label: [u8; 8] = random_bytes();
            let label: String = label.iter().map(|b| char::from(b'a' + b % 26)).collect();
            let name = format!("tailback-{label}.{}", plan.zone);
            run.way(asker);
            run.lookup(asker, Asked::Cold, &name)?;
            run.lookup(asker, Asked::Warm, &name)?;
        }
    }
    if let Some((signed, bogus)) = &plan.signed {
        for asker in &mut askers {
            run.lookup(asker, Asked::Signed, signed)?;
            run.lookup(asker, Asked::Bogus, bogus)?;
            run.lookup(asker, Asked::BogusUnchecked, bogus)?;
        }
    }
    Ok(())
}

struct Run<'a> {
    plan: &'a Plan,
    clock: Clock,
    rows: &'a Sender<Row>,
    /// When the next lookup may begin, monotonic.
    due: i64,
    going_on: &'a mut dyn FnMut(&str) -> bool,
}

impl Run<'_> {
    fn delay(&self, target: &str, seq: i64, sent_ns: i64, rtt_ns: Option<i64>) {
        let row = Delay {
            sent_ns,
            seq,
            target: target.into(),
            rtt_ns,
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: None,
            remote_tx_ns: None,
            host_ns: None,
            late_send_ns: None,
            status: if rtt_ns.is_some() {
                Status::Ok
            } else {
                Status::Lost
            },
            ecn: None,
            dscp: None,
        };
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(row.into());
    }

    /// The way there and back.
    fn way(&self, asker: &mut Asker) {
        if asker.left_alone || asker.ways_lost >= GIVEN_UP_AFTER {
            return;
        }
        let began = mono_ns();
        let made =
            std::net::TcpStream::connect_timeout(&asker.resolver.address, WAY_WITHIN.to_std());
        let took = mono_ns() - began;
        // A refusal comes from there as well.
        let answered = match made {
            Ok(_) => true,
            Err(e) => e.kind() == io::ErrorKind::ConnectionRefused,
        };
        asker.ways_lost = if answered { 0 } else { asker.ways_lost + 1 };
        let target = way_target(&asker.resolver.text());
        let sent = self.clock.from_mono_ns(began);
        self.delay(&target, asker.ways, sent, answered.then_some(took));
        asker.ways += 1;
    }

    fn lookup(&mut self, asker: &mut Asker, asked: Asked, name: &str) -> Result<(), DnsError> {
        let resolver = asker.resolver.text();
        if asker.left_alone {
            return Ok(());
        }
        let wait = self.due - mono_ns();
        if wait > 0 {
            std::thread::sleep(std::time::Duration::from_nanos(wait as u64));
        }
        if !(self.going_on)(&resolver) {
            return Err(DnsError::Interrupted);
        }
        self.due = mono_ns() + self.plan.interval.as_nanos() as i64;
        let fate = asker.ask(asked, name, self.plan.patience, self.clock)?;
        let (seq, timed) = match asked {
            Asked::Cold => (asker.lookups, true),
            Asked::Warm => (asker.lookups, true),
            _ => (0, false),
        };
        if asked == Asked::Warm {
            asker.lookups += 1;
        }
        if timed {
            self.delay(&asked.target(&resolver), seq, fate.sent_ns, fate.rtt_ns);
        }
        asker.silent = if fate.answer.is_some() {
            0
        } else {
            asker.silent + 1
        };
        let note = DnsNote::Lookup {
            asked,
            seq,
            name: name.to_owned(),
            answer: fate.answer,
            problem: fate.problem,
        };
        let now = self.clock.unix_ns();
        let _ = self.rows.send(note.event(now, &resolver).into());
        // While signatures are asked about, silence is an answer of its own.
        if timed && asker.silent >= GIVEN_UP_AFTER {
            asker.left_alone = true;
            let note = DnsNote::GivenUp {
                after: asker.silent,
            };
            let _ = self.rows.send(note.event(now, &resolver).into());
        }
        Ok(())
    }
}

impl<'a> Asker<'a> {
    fn new(resolver: &'a Resolver) -> Result<Asker<'a>, DnsError> {
        let any: SocketAddr = if resolver.address.is_ipv4() {
            ([0u8; 4], 0).into()
        } else {
            ([0u16; 8], 0).into()
        };
        let failed = |source| DnsError::Socket {
            resolver: resolver.text(),
            source,
        };
        let socket = UdpSocket::bind(any).map_err(failed)?;
        // Connected, so that only its answers come and a refusal is heard of.
        socket.connect(resolver.address).map_err(failed)?;
        Ok(Asker {
            resolver,
            socket,
            silent: 0,
            ways_lost: 0,
            left_alone: false,
            lookups: 0,
            ways: 0,
        })
    }

    fn ask(
        &self,
        asked: Asked,
        name: &str,
        patience: Duration,
        clock: Clock,
    ) -> Result<Fate, DnsError> {
        let manner = Manner {
            signatures: !matches!(asked, Asked::Cold | Asked::Warm),
            unchecked: asked == Asked::BogusUnchecked,
        };
        let id = u16::from_be_bytes(random_bytes());
        let question = Question::new(id, name, manner).ok_or_else(|| DnsError::Name {
            name: name.to_owned(),
        })?;
        let began = mono_ns();
        let mut fate = Fate {
            sent_ns: clock.from_mono_ns(began),
            rtt_ns: None,
            answer: None,
            problem: None,
        };
        if let Err(e) = self.socket.send(&question.bytes) {
            fate.problem = Some(problem(&e));
            return Ok(fate);
        }
        let mut buf = [0; 4096];
        loop {
            let left = patience.as_nanos() as i64 - (mono_ns() - began);
            if left <= 0 {
                return Ok(fate);
            }
            let left = std::time::Duration::from_nanos(left as u64);
            let heard = self
                .socket
                .set_read_timeout(Some(left))
                .and_then(|()| self.socket.recv(&mut buf));
            let now = mono_ns();
            match heard {
                Ok(n) => {
                    fate.answer = question.read(&buf[..n]);
                    if fate.answer.is_some() {
                        fate.rtt_ns = Some(now - began);
                        return Ok(fate);
                    }
                }
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::WouldBlock
                            | io::ErrorKind::TimedOut
                            | io::ErrorKind::Interrupted
                    ) => {}
                Err(e) => {
                    fate.problem = Some(problem(&e));
                    return Ok(fate);
                }
            }
        }
    }
}

fn problem(e: &io::Error) -> String {
    match e.kind() {
        io::ErrorKind::ConnectionRefused => {
            "nothing listens there (ICMP port unreachable)".to_owned()
        }
        io::ErrorKind::NetworkUnreachable | io::ErrorKind::HostUnreachable => {
            "no route leads there".to_owned()
        }
        _ => e.to_string(),
    }
}
