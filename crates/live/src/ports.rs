//! Which ports of our server can be reached: it opens them for a while, we knock, and both say what they saw.

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::errand::{Errand, Tally, socket_to};
use base::noted::ports::{Back, PortNote};
use base::{Bytes, Duration};
use measure::control::listen::{
    Answer, Arrival, Knocked, MARK_LEN, MOST_LISTENERS, Place, TOKEN_LEN, Transport, Wanted, knock,
    mark,
};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// A datagram is sent so often before it counts as lost on the way.
const TRIES: u32 = 3;
/// What one port puts on the line at most: a connection with its repeats, or datagrams, and its part of the report.
const PORT: u64 = 1200;

#[derive(Clone, Debug)]
pub struct Plan {
    pub tcp: Vec<u16>,
    pub udp: Vec<u16>,
    /// What has not been answered by then is taken for blocked.
    pub patience: Duration,
}

impl Plan {
    /// The most that this puts on the line.
    pub fn cost(&self) -> Bytes {
        Bytes::new((self.tcp.len() + self.udp.len()) as u64 * PORT + 5_000)
    }
}

/// What this end saw of one port.
struct Tried {
    connected: bool,
    back: Back,
}

/// Carries it out.
///
/// # Errors
/// The server cannot be reached or refuses; the user wants no more.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), CraftError> {
    let tcp = plan.tcp.iter().map(|p| (Transport::Tcp, *p));
    let all: Vec<(Transport, u16)> = tcp
        .chain(plan.udp.iter().map(|p| (Transport::Udp, *p)))
        .collect();
    for some in all.chunks(MOST_LISTENERS) {
        errand.stage("knocking at ports")?;
        let wanted = some.iter().map(|(transport, port)| Wanted {
            expect: 8,
            answer: Answer::Mark,
            ..Wanted::new(*transport, Place::Here, *port)
        });
        let listeners = errand.listeners(wanted.collect(), Duration::from_secs(60))?;
        let token = *listeners.token();
        let tally = &errand.tally;
        // All at once: a firewall that swallows them costs its time only once.
        let knocked: Vec<Option<Tried>> = std::thread::scope(|scope| {
            let threads: Vec<_> = some
                .iter()
                .enumerate()
                .map(|(i, (transport, _))| {
                    let at = listeners.at(i).ok()?;
                    let knock = move || match transport {
                        Transport::Tcp => connect(at, &token, plan.patience, tally),
                        Transport::Udp => send(at, &token, plan.patience, tally),
                    };
                    Some(scope.spawn(knock))
                })
                .collect();
            let join =
                |t: std::thread::ScopedJoinHandle<Tried>| t.join().expect("a knock does not panic");
            threads.into_iter().map(|t| t.map(join)).collect()
        });
        let arrivals = listeners.report()?;
        for (i, knocked) in knocked.into_iter().enumerate() {
            let (transport, port) = some[i];
            let its: Vec<&Arrival> = arrivals.iter().filter(|a| a.listener == i as u32).collect();
            // The server gives contents only of what shows the token.
            let shows = |a: &&&Arrival| !a.bytes.is_empty();
            let ours = its.iter().find(shows).or_else(|| its.first());
            let note = PortNote {
                transport: transport.name().to_owned(),
                port,
                closed: listeners.at(i).err().map(str::to_owned),
                connected: knocked.as_ref().is_some_and(|k| k.connected),
                back: knocked.map_or(Back::Nothing, |k| k.back),
                seen: ours.is_some(),
                whole: its.iter().any(|a| shows(&a)),
                from: ours.and_then(|a| a.from),
                usual: Some(listeners.listening.from),
            };
            let subject = format!("{} {port}", note.transport);
            errand.note(&note, &subject);
        }
    }
    Ok(())
}

fn refusal(e: &io::Error) -> Back {
    match e.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Back::Refusal,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Back::Unreachable,
        _ => Back::Nothing,
    }
}

fn judge(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Back {
    if bytes == mark(token) || Knocked::decode(bytes, token).is_some() {
        Back::Proof
    } else if bytes.is_empty() {
        Back::Nothing
    } else {
        Back::Other
    }
}

fn connect(at: SocketAddr, token: &[u8; TOKEN_LEN], patience: Duration, tally: &Tally) -> Tried {
    let began = mono_ns();
    let mut stream = match TcpStream::connect_timeout(&at, patience.to_std()) {
        Ok(stream) => stream,
        Err(e) => {
            let took = Duration::from_nanos((mono_ns() - began).max(0) as u64);
            tally.attempt(at, &e, took);
            return Tried {
                connected: false,
                back: refusal(&e),
            };
        }
    };
    let mut talked = || -> io::Result<Vec<u8>> {
        stream.write_all(token)?;
        stream.set_read_timeout(Some(patience.to_std()))?;
        let mut said = Vec::new();
        let mut buf = [0; 256];
        // The server says one thing and hangs up.
        loop {
            match stream.read(&mut buf) {
                Ok(0) => return Ok(said),
                Ok(n) => said.extend_from_slice(&buf[..n]),
                Err(e) if said.is_empty() => return Err(e),
                Err(_) => return Ok(said),
            }
            if said.len() >= MARK_LEN {
                return Ok(said);
            }
        }
    };
    let back = match talked() {
        Ok(said) => judge(&said, token),
        Err(e) => refusal(&e),
    };
    tally.connection(&stream);
    Tried {
        connected: true,
        back,
    }
}

fn send(at: SocketAddr, token: &[u8; TOKEN_LEN], patience: Duration, tally: &Tally) -> Tried {
    let payload = knock(token, 0);
    let mut back = Back::Nothing;
    let talked = || -> io::Result<()> {
        let socket = socket_to(at)?;
        let each = patience / u64::from(TRIES);
        for _ in 0..TRIES {
            let until = mono_ns() + each.as_nanos() as i64;
            tally.datagram(at, payload.len());
            // A refusal of the one before is reported here; what this host's own filter does is no answer yet.
            if let Err(e) = socket.send(&payload)
                && refusal(&e) != Back::Nothing
            {
                back = refusal(&e);
            }
            loop {
                let left = until - mono_ns();
                if left <= 0 {
                    break;
                }
                let left = std::time::Duration::from_nanos(left as u64);
                socket.set_read_timeout(Some(left))?;
                let mut buf = [0; 512];
                match socket.recv(&mut buf) {
                    Ok(n) => {
                        tally.datagram(at, n);
                        back = judge(&buf[..n], token);
                        return Ok(());
                    }
                    Err(e) if refusal(&e) == Back::Nothing => {}
                    Err(e) => {
                        back = refusal(&e);
                        break;
                    }
                }
            }
        }
        Ok(())
    };
    // A socket that this host does not give brings nothing back.
    let _ = { talked }();
    Tried {
        connected: false,
        back,
    }
}
