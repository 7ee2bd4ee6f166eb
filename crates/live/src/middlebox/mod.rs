//! Boxes on the way that understand what passes: messages that are right and wrong, on the ports that such boxes watch
//! and on one that stands for nothing, with what both ends saw of them.

pub(crate) mod messages;
mod syn;

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::errand::{Errand, Tally, socket_to};
use crate::listeners::Listeners;
use crate::timestamp::set_whole;
use crate::traffic::interface_towards;
use base::noted::middlebox::{BoxNote, Message};
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::listen::{
    Answer, Arrival, KNOCK_LEN, MARK_LEN, Place, Transport, Wanted, knock,
};
use messages::Letter;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::os::fd::AsRawFd;
use syn::Watch;

/// What has brought nothing for so long does not come: a lost SYN is sent again after one and three seconds.
const PATIENCE: Duration = Duration::from_secs(4);
/// A datagram is sent so often before it counts as lost on the way.
const TRIES: u32 = 3;
/// Payload that takes three pieces on any link of 1500 bytes.
const LARGE: usize = 3000;
/// What all of it puts on the line at most.
const COST: Bytes = Bytes::new(80_000);

#[derive(Clone, Debug)]
pub struct Plan {
    /// Fetch the string that every antivirus program knows. It is harmless, and it raises alarms.
    pub eicar: bool,
    /// The ports that boxes for the web and for names watch.
    pub http_port: u16,
    pub dns_port: u16,
}

impl Plan {
    /// The most that this puts on the line.
    pub fn cost(&self) -> Bytes {
        COST
    }
}

struct Run<'a, 'b> {
    plan: &'a Plan,
    errand: &'a mut Errand<'b>,
    /// Whose packets are captured, to see the first one of a connection as it leaves.
    interface: Option<String>,
}

/// Carries it out.
///
/// # Errors
/// The server cannot be reached or refuses; there is no socket; the user wants no more.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), CraftError> {
    let mut run = Run {
        plan,
        interface: interface_towards(errand.peer.server).ok(),
        errand,
    };
    run.exchange(Message::Http, "messages of the web")?;
    run.exchange(Message::NotHttp, "what is no message of the web")?;
    run.exchange(Message::Dns, "queries for names")?;
    run.exchange(Message::NotDns, "what is no query")?;
    if plan.eicar {
        run.exchange(Message::Eicar, "the test string of antivirus programs")?;
    }
    run.fragments()
}

/// What came back of an exchange.
#[derive(Default)]
struct Back {
    connected: bool,
    refused: bool,
    returned: Option<Vec<u8>>,
}

impl Run<'_, '_> {
    fn note(&self, note: &BoxNote, subject: &str) {
        self.errand.note(note, subject);
    }

    fn stage(&mut self, stage: &str) -> Result<(), CraftError> {
        self.errand.stage(stage)
    }

    /// The same message on the port that is watched and on one that stands for nothing.
    fn exchange(&mut self, message: Message, stage: &str) -> Result<(), CraftError> {
        self.stage(stage)?;
        let letter = Letter::of(message);
        let port = match message {
            Message::Dns | Message::NotDns => self.plan.dns_port,
            _ => self.plan.http_port,
        };
        let wanted = [port, 0].map(|port| Wanted {
            expect: letter.expect,
            answer: letter.answer,
            ..Wanted::new(letter.transport, Place::Here, port)
        });
        let listeners = self
            .errand
            .listeners(wanted.to_vec(), Duration::from_secs(60))?;
        let sent = letter.sent(listeners.token());
        let answer = messages::answer(letter.answer, listeners.token());
        for (i, control) in [false, true].into_iter().enumerate() {
            let at = listeners.at(i);
            let watch = match (&at, letter.transport) {
                (Ok(at), Transport::Tcp) => {
                    let name = self.interface.as_deref();
                    name.and_then(|name| Watch::start(name, at.port()))
                }
                _ => None,
            };
            let back = match (&at, letter.transport) {
                (Ok(at), Transport::Tcp) => talk(*at, &sent, &self.errand.tally),
                (Ok(at), Transport::Udp) => {
                    ask(*at, &sent, &self.errand.tally).map_err(|source| CraftError::Socket {
                        what: "open a UDP socket",
                        source,
                    })?
                }
                (Err(_), _) => Back::default(),
            };
            let left = watch.and_then(Watch::first);
            let arrivals = listeners.report()?;
            let its = arrivals.iter().filter(|a| a.listener == i as u32);
            // Somebody else may knock there as well: what is most like ours is ours.
            let came = its.max_by_key(|a| (a.bytes == sent, a.answered, a.len));
            let arrived = came.filter(|a| a.len > 0);
            let text = |bytes: &[u8]| match message {
                // No recording shall be taken for a virus.
                Message::Eicar => format!("({} bytes)", bytes.len()),
                _ => bytes.escape_ascii().to_string(),
            };
            let note = BoxNote::Exchange {
                message,
                port: at.as_ref().map_or(port, SocketAddr::port),
                control,
                closed: at.as_ref().err().cloned(),
                connected: back.connected,
                refused: back.refused,
                sent: text(&sent),
                arrived: arrived.map(|a| match a.bytes.is_empty() {
                    // The server shows nobody what does not carry the token.
                    true => format!("({} bytes without our token)", a.len),
                    false => text(&a.bytes),
                }),
                answer: text(&answer),
                returned: back.returned.as_deref().map(text),
                arrived_same: arrived.is_some_and(|a| a.bytes == sent),
                returned_same: back.returned.as_deref() == Some(&*answer),
            };
            self.note(&note, stage);
            if message == Message::Http && at.is_ok() {
                self.first_packet(i, control, left, came, &listeners);
            }
        }
        Ok(())
    }

    fn first_packet(
        &self,
        i: usize,
        control: bool,
        sent: Option<base::noted::middlebox::Syn>,
        came: Option<&Arrival>,
        listeners: &Listeners,
    ) {
        let note = BoxNote::FirstPacket {
            port: listeners.at(i).map_or(0, |at| at.port()),
            control,
            sent,
            arrived: came.and_then(|a| syn::read(&a.syn)),
            asked: syn::asked(),
        };
        self.note(&note, "first packet");
    }

    /// Datagrams that do not fit into one packet, each way.
    fn fragments(&mut self) -> Result<(), CraftError> {
        self.stage("datagrams in pieces")?;
        let wanted = Wanted {
            answer: Answer::Mark,
            ..Wanted::new(Transport::Udp, Place::Here, 0)
        };
        let listeners = self
            .errand
            .listeners(vec![wanted], Duration::from_secs(60))?;
        let Ok(at) = listeners.at(0) else {
            return Ok(());
        };
        let failed = CraftError::socket("open a UDP socket");
        let socket = socket_to(at).map_err(&failed)?;
        let tally = self.errand.tally.clone();
        set_whole(socket.as_raw_fd(), at.is_ipv6(), false).map_err(failed)?;
        let mut arrived = [false; 2];
        let mut seen = None;
        for (i, len) in [KNOCK_LEN, LARGE].into_iter().enumerate() {
            let payload = knock(listeners.token(), len);
            for _ in 0..TRIES {
                // What this host refuses to send does not arrive.
                let _ = socket.send(&payload);
                tally.datagram(at, payload.len());
                let heard = hear(&socket, &|bytes| listeners.knocked(bytes).is_some());
                if let Some(bytes) = heard {
                    tally.datagram(at, bytes.len());
                    seen = listeners.knocked(&bytes);
                    break;
                }
            }
            let all = listeners.report()?;
            arrived[i] = all.iter().any(|a| a.len as usize == payload.len());
        }
        let bytes = LARGE as u32;
        let up = BoxNote::Fragments {
            direction: Direction::Up,
            bytes,
            small: arrived[0],
            large: arrived[1],
        };
        self.note(&up, "fragments");
        // Without an answer there is no proof that we receive, and the server sends nothing.
        let Some(to) = seen else {
            return Ok(());
        };
        let mut came = [false; 2];
        for (i, size) in [MARK_LEN, LARGE].into_iter().enumerate() {
            for _ in 0..TRIES {
                let sent = listeners.send(0, &to, size)?;
                if hear(&socket, &|bytes| bytes == sent).is_some() {
                    came[i] = true;
                    break;
                }
            }
        }
        let down = BoxNote::Fragments {
            direction: Direction::Down,
            bytes,
            small: came[0],
            large: came[1],
        };
        self.note(&down, "fragments");
        Ok(())
    }
}

/// Waits for a datagram that is the one, or for any where it is none.
fn hear(socket: &UdpSocket, is_it: &dyn Fn(&[u8]) -> bool) -> Option<Vec<u8>> {
    let until = mono_ns() + (PATIENCE / u64::from(TRIES)).as_nanos() as i64;
    let mut buf = [0; 8192];
    loop {
        let left = until - mono_ns();
        if left <= 0 {
            return None;
        }
        let left = std::time::Duration::from_nanos(left as u64);
        socket.set_read_timeout(Some(left)).ok()?;
        match socket.recv(&mut buf) {
            Ok(n) if is_it(&buf[..n]) => return Some(buf[..n].to_vec()),
            Err(e) if e.kind() == io::ErrorKind::ConnectionRefused => return None,
            _ => {}
        }
    }
}

/// One question over a connection, and all that comes until it is closed.
fn talk(at: SocketAddr, sent: &[u8], tally: &Tally) -> Back {
    let mut back = Back::default();
    let began = mono_ns();
    let mut stream = match TcpStream::connect_timeout(&at, PATIENCE.to_std()) {
        Ok(stream) => stream,
        Err(e) => {
            let took = Duration::from_nanos((mono_ns() - began).max(0) as u64);
            tally.attempt(at, &e, took);
            back.refused = e.kind() == io::ErrorKind::ConnectionRefused;
            return back;
        }
    };
    back.connected = true;
    let mut said = Vec::new();
    let mut talked = || -> io::Result<()> {
        stream.set_read_timeout(Some(PATIENCE.to_std()))?;
        stream.write_all(sent)?;
        let mut buf = [0; 4096];
        while said.len() < 65536 {
            match stream.read(&mut buf)? {
                0 => break,
                n => said.extend_from_slice(&buf[..n]),
            }
        }
        Ok(())
    };
    if let Err(e) = talked() {
        back.refused = e.kind() == io::ErrorKind::ConnectionReset;
    }
    tally.connection(&stream);
    back.returned = (!said.is_empty()).then_some(said);
    back
}

/// One question in a datagram, and the first that comes back.
fn ask(at: SocketAddr, sent: &[u8], tally: &Tally) -> io::Result<Back> {
    let socket = socket_to(at)?;
    let mut back = Back::default();
    for _ in 0..TRIES {
        if let Err(e) = socket.send(sent) {
            back.refused |= e.kind() == io::ErrorKind::ConnectionRefused;
        }
        tally.datagram(at, sent.len());
        back.returned = hear(&socket, &|_| true);
        if let Some(heard) = &back.returned {
            tally.datagram(at, heard.len());
            break;
        }
    }
    Ok(back)
}
