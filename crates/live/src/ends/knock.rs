//! Connection attempts to many ports at once.

use crate::clock::mono_ns;
use crate::errand::{Tally, socket_to};
use base::Duration;
use experiment::ask::{Back, Knock, Tried};
use measure::control::listen::Transport;
use std::io::{self, Read, Write};
use std::net::TcpStream;

/// A firewall that swallows them costs its time only once.
pub(super) fn all(knocks: &[Knock], tally: &Tally) -> Vec<Tried> {
    std::thread::scope(|scope| {
        let threads: Vec<_> = knocks
            .iter()
            .map(|knock| {
                scope.spawn(move || match knock.transport {
                    Transport::Tcp => connect(knock, tally),
                    Transport::Udp => send(knock, tally),
                })
            })
            .collect();
        let join =
            |t: std::thread::ScopedJoinHandle<Tried>| t.join().expect("a knock does not panic");
        threads.into_iter().map(join).collect()
    })
}

fn refusal(e: &io::Error) -> Back {
    match e.kind() {
        io::ErrorKind::ConnectionRefused | io::ErrorKind::ConnectionReset => Back::Refusal,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Back::Unreachable,
        _ => Back::Nothing,
    }
}

fn came(bytes: &[u8]) -> Back {
    match bytes {
        [] => Back::Nothing,
        bytes => Back::Bytes(bytes.to_vec()),
    }
}

fn connect(knock: &Knock, tally: &Tally) -> Tried {
    let (at, patience) = (knock.at, knock.patience);
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
        stream.write_all(&knock.says)?;
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
            if said.len() >= knock.enough {
                return Ok(said);
            }
        }
    };
    let back = match talked() {
        Ok(said) => came(&said),
        Err(e) => refusal(&e),
    };
    tally.connection(&stream);
    Tried {
        connected: true,
        back,
    }
}

fn send(knock: &Knock, tally: &Tally) -> Tried {
    let (at, payload) = (knock.at, &knock.says);
    let mut back = Back::Nothing;
    let talked = || -> io::Result<()> {
        let socket = socket_to(at)?;
        let each = knock.patience / u64::from(knock.tries.max(1));
        for _ in 0..knock.tries {
            let until = mono_ns() + each.as_nanos() as i64;
            tally.datagram(at, payload.len());
            // A refusal of the one before is reported here; what this host's own filter does is no answer yet.
            if let Err(e) = socket.send(payload)
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
                        back = came(&buf[..n]);
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
