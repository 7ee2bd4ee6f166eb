//! Connections, and knocks at many ports at once.

use super::trouble;
use super::watch::Watch;
use crate::clock::{Clock, mono_ns};
use crate::load::Peer;
use crate::outlet::Outlet;
use crate::tally::Tally;
use base::Duration;
use experiment::ask::{Back, Connected, Kind, Knock, Tried, Trouble};
use measure::control::listen::Transport;
use socket2::{Domain, Socket, Type};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};

/// Longest answer that is read.
const MOST: usize = 65_536;

/// Makes a connection and closes it.
pub(super) fn connected(
    (to, patience): (SocketAddr, Duration),
    outlet: &Outlet,
    clock: Clock,
    tally: &Tally,
) -> Connected {
    let began = mono_ns();
    let made = open((to, patience), outlet, tally);
    let took = mono_ns() - began;
    if let Ok(stream) = &made {
        tally.connection(stream);
    }
    Connected {
        began_ns: clock.from_mono_ns(began),
        took: Duration::from_nanos(took.max(0) as u64),
        made: made.map(drop).map_err(|e| trouble(&e)),
    }
}

/// Connects, and counts an attempt that fails.
fn open(
    (to, patience): (SocketAddr, Duration),
    outlet: &Outlet,
    tally: &Tally,
) -> io::Result<TcpStream> {
    let began = mono_ns();
    let connect = || {
        let socket = Socket::new(Domain::for_address(to), Type::STREAM, None)?;
        outlet.bind(&socket)?;
        socket.connect_timeout(&to.into(), patience.to_std())?;
        Ok(socket.into())
    };
    connect().inspect_err(|e| {
        let took = Duration::from_nanos((mono_ns() - began).max(0) as u64);
        tally.attempt(to, e, took);
    })
}

/// Knocks at all at once: a firewall that filters them costs its time only once.
pub(super) fn all(knocks: &[Knock], peer: &Peer, tally: &Tally) -> Vec<Tried> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = knocks
            .iter()
            .map(|knock| {
                scope.spawn(move || match knock.transport {
                    Transport::Tcp => connect(knock, peer, tally),
                    Transport::Udp => send(knock, &peer.access.outlet, tally),
                })
            })
            .collect();
        let join =
            |t: std::thread::ScopedJoinHandle<Tried>| t.join().expect("a knock does not panic");
        threads.into_iter().map(join).collect()
    })
}

/// An answer in place of bytes; null for an error that is none.
fn refusal(t: &Trouble) -> Option<Back> {
    match t.kind {
        Kind::Refused | Kind::Reset => Some(Back::Refusal),
        Kind::NoRoute => Some(Back::Unreachable),
        Kind::Withheld | Kind::Silence | Kind::Closed | Kind::Other => None,
    }
}

fn connect(knock: &Knock, peer: &Peer, tally: &Tally) -> Tried {
    let outlet = &peer.access.outlet;
    let watch = match knock.watched {
        true => {
            let interface = outlet.towards(peer.server).ok();
            interface.and_then(|name| Watch::start(&name, knock.at.port()))
        }
        false => None,
    };
    let tried = talk(knock, outlet, tally);
    Tried {
        first: watch.and_then(Watch::first),
        ..tried
    }
}

fn talk(knock: &Knock, outlet: &Outlet, tally: &Tally) -> Tried {
    let mut tried = Tried {
        connected: false,
        back: Back::Nothing,
        trouble: None,
        first: None,
    };
    let mut stream = match open((knock.at, knock.patience), outlet, tally) {
        Ok(stream) => stream,
        Err(e) => {
            let trouble = trouble(&e);
            tried.back = refusal(&trouble).unwrap_or(Back::Nothing);
            tried.trouble = Some(trouble);
            return tried;
        }
    };
    tried.connected = true;
    let mut said = Vec::new();
    let ended = exchange(&mut stream, knock, &mut said);
    tried.trouble = ended.err().map(|e| trouble(&e));
    tried.back = match (&said[..], &tried.trouble) {
        ([], Some(trouble)) => refusal(trouble).unwrap_or(Back::Nothing),
        ([], None) => Back::Nothing,
        _ => Back::Bytes(said),
    };
    tally.connection(&stream);
    tried
}

/// Says one thing and reads until enough has come. The other end's closing before that is an error.
fn exchange(stream: &mut TcpStream, knock: &Knock, said: &mut Vec<u8>) -> io::Result<()> {
    stream.set_read_timeout(Some(knock.patience.to_std()))?;
    stream.write_all(&knock.says)?;
    let mut buf = [0; 4096];
    while !knock.enough.is_there(said) && said.len() < MOST {
        match stream.read(&mut buf)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => said.extend_from_slice(&buf[..n]),
        }
    }
    Ok(())
}

fn send(knock: &Knock, outlet: &Outlet, tally: &Tally) -> Tried {
    let mut tried = Tried {
        connected: false,
        back: Back::Nothing,
        trouble: None,
        first: None,
    };
    // A socket that this host does not give brings nothing back.
    if let Err(e) = datagrams(knock, outlet, tally, &mut tried) {
        tried.trouble = Some(trouble(&e));
    }
    tried
}

fn datagrams(knock: &Knock, outlet: &Outlet, tally: &Tally, tried: &mut Tried) -> io::Result<()> {
    let (at, payload) = (knock.at, &knock.says);
    let socket = outlet.socket_to(at)?;
    let each = knock.patience / u64::from(knock.tries.max(1));
    for _ in 0..knock.tries {
        let until = mono_ns() + each.as_nanos() as i64;
        tally.datagram(at, payload.len());
        // The kernel reports the refusal of an earlier datagram here; this host's own filter is no answer.
        if let Err(e) = socket.send(payload) {
            refused(&e, tried);
        }
        loop {
            let left = until - mono_ns();
            if left <= 0 {
                break;
            }
            let left = std::time::Duration::from_nanos(left as u64);
            socket.set_read_timeout(Some(left))?;
            let mut buf = [0; 8192];
            match socket.recv(&mut buf) {
                Ok(n) => {
                    tally.datagram(at, n);
                    tried.back = match n {
                        0 => Back::Nothing,
                        n => Back::Bytes(buf[..n].to_vec()),
                    };
                    return Ok(());
                }
                Err(e) => {
                    if refused(&e, tried) {
                        break;
                    }
                }
            }
        }
    }
    Ok(())
}

/// True if this error is an answer.
fn refused(e: &io::Error, tried: &mut Tried) -> bool {
    let trouble = trouble(e);
    let Some(back) = refusal(&trouble) else {
        return false;
    };
    tried.back = back;
    tried.trouble = Some(trouble);
    true
}
