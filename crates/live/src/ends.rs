//! Ports of the server and sockets of our own, as the steps of experiments ask for them.

mod knock;

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::errand::{Tally, any};
use crate::listeners::Listeners;
use crate::load::Peer;
use base::Duration;
use experiment::ask::{Answer, Ask, Ports};
use measure::control::listen::Wanted;
use std::collections::BTreeMap;
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// Longest datagram that is received whole.
const MOST: usize = 8192;

/// Open ports and sockets at both ends; dropping it closes all.
#[derive(Default)]
pub struct Ends {
    listeners: Option<Listeners>,
    sockets: BTreeMap<u32, UdpSocket>,
}

impl Ends {
    /// # Errors The server refuses or vanishes; there is no socket.
    pub fn ask(&mut self, ask: &Ask, peer: &Peer, tally: &Tally) -> Result<Answer, CraftError> {
        match ask {
            Ask::Listen(wanted, open) => self.listen(wanted, *open, peer, tally),
            Ask::Arrivals => Ok(Answer::Arrivals(self.listeners()?.report()?)),
            Ask::Order { port, to, len } => {
                Ok(Answer::Ordered(self.listeners()?.send(*port, to, *len)?))
            }
            Ask::Knock(knocks) => {
                for knock in knocks {
                    let at = self.listeners()?.admit(knock.at);
                    at.map_err(|why| missing("send to that address", &why))?;
                }
                Ok(Answer::Knocked(knock::all(knocks, tally)))
            }
            Ask::Socket(number) => self.open(*number),
            Ask::Send { socket, to, bytes } => {
                if let Err(why) = self.listeners()?.admit(*to) {
                    return Ok(Answer::Withheld(why));
                }
                // What the kernel refuses is as lost as what the line loses.
                let _ = self.socket(*socket)?.send_to(bytes, to);
                tally.datagram(*to, bytes.len());
                Ok(Answer::Sent)
            }
            Ask::Hear {
                socket,
                within,
                ordered,
            } => {
                let heard = hear(self.socket(*socket)?, *within);
                if let Some((from, bytes)) = heard.as_ref().filter(|_| !ordered) {
                    tally.datagram(*from, bytes.len());
                }
                Ok(Answer::Heard(heard))
            }
        }
    }

    fn listeners(&self) -> Result<&Listeners, CraftError> {
        let open = self.listeners.as_ref();
        open.ok_or_else(|| missing("use the server's port", "none was asked for"))
    }

    fn socket(&self, number: u32) -> Result<&UdpSocket, CraftError> {
        let open = self.sockets.get(&number);
        open.ok_or_else(|| missing("use a UDP socket", "it was not opened"))
    }

    fn listen(
        &mut self,
        wanted: &[Wanted],
        open: Duration,
        peer: &Peer,
        tally: &Tally,
    ) -> Result<Answer, CraftError> {
        self.listeners = None;
        let listeners = Listeners::open(peer, wanted.to_vec(), open, tally.clone())?;
        let local = listeners.local();
        let at = |i| listeners.at(i);
        let ports = Ports {
            token: *listeners.token(),
            from: listeners.listening.from,
            local: local.map_err(CraftError::socket("read our own address"))?,
            at: (0..wanted.len()).map(at).collect(),
        };
        self.listeners = Some(listeners);
        Ok(Answer::Ports(ports))
    }

    /// Opens a socket at the address that leads to the server.
    fn open(&mut self, number: u32) -> Result<Answer, CraftError> {
        let toward = self.listeners()?.at(0);
        let toward = toward.map_err(|why| missing("use the server's port", &why))?;
        let made = || -> io::Result<(UdpSocket, SocketAddr)> {
            let scout = UdpSocket::bind(any(toward))?;
            scout.connect(toward)?;
            let ip = scout.local_addr()?.ip();
            let socket = UdpSocket::bind((ip, 0))?;
            let local = socket.local_addr()?;
            Ok((socket, local))
        };
        let (socket, local) = made().map_err(CraftError::socket("open a UDP socket"))?;
        self.sockets.insert(number, socket);
        Ok(Answer::Local(local))
    }
}

fn missing(what: &'static str, why: &str) -> CraftError {
    CraftError::socket(what)(io::Error::other(why.to_owned()))
}

/// Waits for the next datagram.
fn hear(socket: &UdpSocket, within: Duration) -> Option<(SocketAddr, Vec<u8>)> {
    let until = mono_ns() + within.as_nanos() as i64;
    let mut buf = [0; MOST];
    loop {
        let left = until - mono_ns();
        if left <= 0 {
            return None;
        }
        let left = std::time::Duration::from_nanos(left as u64);
        socket.set_read_timeout(Some(left)).ok()?;
        // An error here is the refusal of an earlier datagram, or that nothing came.
        if let Ok((n, from)) = socket.recv_from(&mut buf) {
            return Some((from, buf[..n].to_vec()));
        }
    }
}
