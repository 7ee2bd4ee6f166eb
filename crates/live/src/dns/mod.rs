//! Lookups that are timed: of names that no cache has, and of the same again; and what a resolver makes of signatures.
//!
//! The way to a resolver is timed apart, by TCP connections to its port, which its kernel answers, whether it takes or
//! refuses them. What is left of a lookup is the resolver's own.

mod message;
mod resolvers;
mod roots;
mod types;

use message::Manner;
pub use resolvers::{PUBLIC, Resolver, in_use};
pub use roots::root_servers;

use crate::clock::mono_ns;
use crate::errand::{Errand, Tally, any};
use crate::load::kernel::random_bytes;
use base::noted::dns::{Answer, Asked, DnsNote, way_target};
use base::{Bytes, Duration};
use domain::base::iana::Rtype;
use std::io;
use std::net::{TcpStream, UdpSocket};

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
    /// Ask for records of many types, and for what is too large for a datagram.
    pub types: bool,
    /// Root servers to ask; none where nobody asked for that.
    pub roots: Vec<Resolver>,
}

impl Plan {
    /// The most that this puts on the line.
    pub fn cost(&self) -> Bytes {
        let each = u64::from(self.count) * 3 + if self.signed.is_some() { 3 } else { 0 };
        let types = if self.types { types::QUESTIONS } else { 0 };
        let roots = self.roots.len() as u64 * 3;
        Bytes::new((self.resolvers.len() as u64 * (each + types) + roots) * LOOKUP)
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
    /// Monotonic.
    began: i64,
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

/// Asks every resolver in turn; the stage is the one that is asked.
///
/// # Errors
/// There is no socket, or the user wants no more.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), DnsError> {
    let mut askers = plan
        .resolvers
        .iter()
        .map(|resolver| {
            let note = DnsNote::Resolver {
                origin: resolver.origin,
                name: resolver.name.clone(),
            };
            errand.note(&note, &resolver.text());
            Asker::new(resolver)
        })
        .collect::<Result<Vec<_>, _>>()?;
    let mut run = Run {
        plan,
        errand,
        due: mono_ns(),
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
    if plan.types {
        for asker in &askers {
            types::ask(&mut run, asker)?;
        }
    }
    roots::ask(&mut run)
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
    /// When the next lookup may begin, monotonic.
    due: i64,
}

impl Run<'_, '_> {
    fn stage(&mut self, stage: &str) -> Result<(), DnsError> {
        let going_on = self.errand.stage(stage);
        going_on.map_err(|_| DnsError::Interrupted)
    }

    /// The way there and back.
    fn way(&self, asker: &mut Asker) {
        if asker.left_alone || asker.ways_lost >= GIVEN_UP_AFTER {
            return;
        }
        let began = mono_ns();
        let at = asker.resolver.address;
        let made = TcpStream::connect_timeout(&at, WAY_WITHIN.to_std());
        let took = mono_ns() - began;
        match &made {
            Ok(stream) => self.errand.tally.connection(stream),
            Err(e) => {
                let took = Duration::from_nanos(took.max(0) as u64);
                self.errand.tally.attempt(at, e, took);
            }
        }
        // A refusal comes from there as well.
        let answered = match made {
            Ok(_) => true,
            Err(e) => e.kind() == io::ErrorKind::ConnectionRefused,
        };
        asker.ways_lost = if answered { 0 } else { asker.ways_lost + 1 };
        let target = way_target(&asker.resolver.text());
        self.errand
            .delay(&target, asker.ways, began, answered.then_some(took));
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
        self.stage(&resolver)?;
        self.due = mono_ns() + self.plan.interval.as_nanos() as i64;
        let fate = asker.ask(asked, name, self.plan.patience, &self.errand.tally)?;
        let (seq, timed) = match asked {
            Asked::Cold => (asker.lookups, true),
            Asked::Warm => (asker.lookups, true),
            _ => (0, false),
        };
        if asked == Asked::Warm {
            asker.lookups += 1;
        }
        if timed {
            self.errand
                .delay(&asked.target(&resolver), seq, fate.began, fate.rtt_ns);
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
        self.errand.note(&note, &resolver);
        // While signatures are asked about, silence is an answer of its own.
        if timed && asker.silent >= GIVEN_UP_AFTER {
            asker.left_alone = true;
            let note = DnsNote::GivenUp {
                after: asker.silent,
            };
            self.errand.note(&note, &resolver);
        }
        Ok(())
    }
}

impl<'a> Asker<'a> {
    fn new(resolver: &'a Resolver) -> Result<Asker<'a>, DnsError> {
        let failed = |source| DnsError::Socket {
            resolver: resolver.text(),
            source,
        };
        let socket = UdpSocket::bind(any(resolver.address)).map_err(failed)?;
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
        tally: &Tally,
    ) -> Result<Fate, DnsError> {
        let manner = Manner {
            signatures: !matches!(asked, Asked::Cold | Asked::Warm),
            unchecked: asked == Asked::BogusUnchecked,
            ..Manner::default()
        };
        let question = types::question(name, Rtype::A, manner)?;
        let began = mono_ns();
        let mut fate = Fate {
            began,
            rtt_ns: None,
            answer: None,
            problem: None,
        };
        if let Err(e) = self.socket.send(&question.bytes) {
            fate.problem = Some(problem(&e));
            return Ok(fate);
        }
        let far = self.resolver.address;
        tally.datagram(far, question.bytes.len());
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
                    tally.datagram(far, n);
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
