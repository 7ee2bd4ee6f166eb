//! How a translator of addresses maps and filters, in the manner of RFC 5780: datagrams from fresh sockets to several
//! ports and addresses of our server, which says where each came from, and which sends some unasked.

mod lifetime;

use crate::clock::mono_ns;
use crate::craft::CraftError;
use crate::errand::{Errand, any};
use crate::listeners::Listeners;
use crate::load::kernel::random_bytes;
use base::noted::nat::{Far, NatNote};
use base::{Bytes, Duration};
use measure::control::listen::{
    Answer, Arrival, KNOCK_LEN, Knocked, MARK_LEN, Place, TOKEN_LEN, Transport, Wanted, knock,
};
use std::io;
use std::net::{SocketAddr, UdpSocket};

/// A datagram is sent so often before it counts as lost on the way.
const TRIES: u32 = 4;
/// An answer may take this long.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// Headers and payload of the datagrams sent here.
const DATAGRAM: u64 = 80;

#[derive(Clone, Debug)]
pub struct Plan {
    /// Fresh sockets whose external addresses are compared.
    pub sockets: u32,
    /// Over so long, so that an address that alternates with time is seen.
    pub during: Duration,
    /// The longest silence after which a socket is sent to; none where that is not asked about.
    pub lifetime: Option<Duration>,
}

impl Plan {
    /// The most that this puts on the line, reports included.
    pub fn cost(&self) -> Bytes {
        let datagrams = u64::from(self.sockets * 2 + 12) * u64::from(TRIES) * 2;
        let silent = self.lifetime.map_or(0, |_| lifetime::COST);
        Bytes::new(datagrams * DATAGRAM * 4 + 20_000 + silent)
    }

    /// How long it takes where answers come soon.
    pub fn time(&self) -> Duration {
        self.during + self.lifetime.unwrap_or(Duration::ZERO)
    }
}

/// Order of the listeners at the server.
const FARS: [Far; 3] = [Far::Same, Far::OtherPort, Far::OtherAddress];

struct Run<'a, 'b> {
    errand: &'a mut Errand<'b>,
    listeners: Listeners,
}

/// One of our sockets.
struct Own {
    socket: UdpSocket,
    number: u32,
    local: SocketAddr,
}

/// Carries it out.
///
/// # Errors
/// The server cannot be reached or refuses; there is no socket; the user wants no more.
pub fn run(plan: &Plan, errand: &mut Errand) -> Result<(), CraftError> {
    let wanted = [Place::Here, Place::Here, Place::Elsewhere].map(|place| Wanted {
        answer: Answer::Mark,
        ..Wanted::new(Transport::Udp, place, 0)
    });
    let open = plan.time() + Duration::from_secs(60);
    let listeners = errand.listeners(wanted.to_vec(), open)?;
    let mut run = Run { errand, listeners };
    let connected = NatNote::Connected {
        local: run
            .listeners
            .local()
            .map_err(CraftError::socket("read our own address"))?,
        external: run.listeners.listening.from,
    };
    run.note(&connected);
    for (i, at) in FARS.into_iter().enumerate() {
        if let Err(why) = run.listeners.at(i) {
            let why = why.to_owned();
            run.note(&NatNote::Closed { at, why });
        }
    }
    run.mapping()?;
    run.filtering()?;
    run.alternating(plan)?;
    run.hairpin()?;
    if let Some(longest) = plan.lifetime {
        run.lifetime(longest)?;
    }
    Ok(())
}

impl Run<'_, '_> {
    fn note(&self, note: &NatNote) {
        self.errand.note(note, "server");
    }

    fn stage(&mut self, stage: &str) -> Result<(), CraftError> {
        self.errand.stage(stage)
    }

    /// A fresh socket, at the address that leads to the server.
    fn own(&self, number: u32) -> Result<Own, CraftError> {
        let toward = self.listeners.at(0).map_err(|why| CraftError::Socket {
            what: "use the server's port",
            source: io::Error::other(why.to_owned()),
        })?;
        let made = || -> io::Result<(UdpSocket, SocketAddr)> {
            let scout = UdpSocket::bind(any(toward))?;
            scout.connect(toward)?;
            let ip = scout.local_addr()?.ip();
            let socket = UdpSocket::bind((ip, 0))?;
            let local = socket.local_addr()?;
            Ok((socket, local))
        };
        let (socket, local) = made().map_err(CraftError::socket("open a UDP socket"))?;
        Ok(Own {
            socket,
            number,
            local,
        })
    }

    /// The token, which lets the server answer, and what tells this datagram from others.
    fn payload(&self, own: &Own) -> Vec<u8> {
        let mut bytes = knock(self.listeners.token(), KNOCK_LEN);
        bytes[TOKEN_LEN..TOKEN_LEN + 4].copy_from_slice(&own.number.to_be_bytes());
        bytes
    }

    /// Sends until the server's answer is here; gives it.
    fn ask(&mut self, own: &Own, far: usize) -> Result<Option<Knocked>, CraftError> {
        let Ok(to) = self.listeners.at(far) else {
            return Ok(None);
        };
        let payload = self.payload(own);
        for _ in 0..TRIES {
            // What the kernel refuses is as lost as what the line loses.
            let _ = own.socket.send_to(&payload, to);
            self.errand.tally.datagram(to, payload.len());
            if let Some(answer) = answer(&self.listeners, own, to, ANSWER_WITHIN) {
                self.errand.tally.datagram(to, KNOCK_LEN);
                return Ok(Some(answer));
            }
            self.stage("waiting for an answer")?;
        }
        Ok(None)
    }

    /// Where the latest datagram of this socket to that port came from.
    fn external(&self, all: &[Arrival], own: &Own, far: usize) -> Option<SocketAddr> {
        let payload = self.payload(own);
        let its = all
            .iter()
            .rev()
            .find(|a| a.listener == far as u32 && a.bytes == payload);
        its.and_then(|a| a.from)
    }

    fn mapped(
        &mut self,
        own: &Own,
        far: usize,
        answer: Option<Knocked>,
    ) -> Result<Option<SocketAddr>, CraftError> {
        let all = self.listeners.report()?;
        let external = self.external(&all, own, far);
        self.note(&NatNote::Mapped {
            socket: own.number,
            local: own.local,
            to: FARS[far],
            external,
            answered: answer.is_some(),
        });
        Ok(external)
    }

    /// RFC 5780 section 4.3: one socket to several ports and addresses.
    fn mapping(&mut self) -> Result<(), CraftError> {
        self.stage("how ports are mapped")?;
        let own = self.own(0)?;
        for far in 0..FARS.len() {
            if self.listeners.at(far).is_ok() {
                let answer = self.ask(&own, far)?;
                self.mapped(&own, far, answer)?;
            }
        }
        Ok(())
    }

    /// RFC 5780 section 4.4: a socket that has sent to one port only hears from others, or does not.
    fn filtering(&mut self) -> Result<(), CraftError> {
        self.stage("who may send back")?;
        let own = self.own(1)?;
        let answer = self.ask(&own, 0)?;
        self.mapped(&own, 0, answer)?;
        // Without an answer there is no proof that we receive, and the server sends nothing.
        let Some(external) = answer else {
            return Ok(());
        };
        // From afar first: nothing that is let in may open the door for the next.
        for far in [2, 1, 0] {
            if self.listeners.at(far).is_err() {
                continue;
            }
            let mut arrived = false;
            for _ in 0..TRIES {
                let mark = self.listeners.send(far, &external, MARK_LEN)?;
                if hear(&own, ANSWER_WITHIN, &|bytes, _| bytes == mark).is_some() {
                    arrived = true;
                    break;
                }
                self.stage("who may send back")?;
            }
            self.note(&NatNote::Unasked {
                from: FARS[far],
                arrived,
            });
        }
        Ok(())
    }

    /// Fresh sockets, and the first of them again and again.
    fn alternating(&mut self, plan: &Plan) -> Result<(), CraftError> {
        let pause = plan.during / u64::from(plan.sockets.max(1));
        let first = self.own(10)?;
        for i in 0..plan.sockets {
            self.stage("whether addresses alternate")?;
            let fresh = self.own(11 + i)?;
            for own in [&first, &fresh] {
                let answer = self.ask(own, 0)?;
                self.mapped(own, 0, answer)?;
            }
            if i + 1 < plan.sockets {
                std::thread::sleep(pause.to_std());
            }
        }
        Ok(())
    }

    /// RFC 4787 section 6: two sockets here by their external addresses.
    fn hairpin(&mut self) -> Result<(), CraftError> {
        self.stage("whether hosts inside reach each other by outside addresses")?;
        let (a, b) = (self.own(1000)?, self.own(1001)?);
        let answer = self.ask(&a, 0)?;
        let at_a = self.mapped(&a, 0, answer)?;
        let answer = self.ask(&b, 0)?;
        let at_b = self.mapped(&b, 0, answer)?;
        let (Some(at_a), Some(at_b)) = (at_a, at_b) else {
            return Ok(());
        };
        if at_a == a.local {
            // Nothing translates: they would talk as neighbours do.
            return Ok(());
        }
        let mark: [u8; 16] = random_bytes();
        let mut heard = None;
        for _ in 0..TRIES {
            // Each has then sent to the other, so that no filter stands between them.
            let _ = b.socket.send_to(&mark, at_a);
            let _ = a.socket.send_to(&mark, at_b);
            self.errand.tally.datagram(at_a, mark.len());
            self.errand.tally.datagram(at_b, mark.len());
            heard = hear(&b, ANSWER_WITHIN / 3, &|bytes, _| bytes == mark);
            if heard.is_some() {
                break;
            }
        }
        self.note(&NatNote::Hairpin {
            arrived: heard.is_some(),
            source: heard,
            external: at_a,
        });
        Ok(())
    }
}

/// Waits for the server's answer from there.
fn answer(
    listeners: &Listeners,
    own: &Own,
    from: SocketAddr,
    patience: Duration,
) -> Option<Knocked> {
    let found = std::cell::Cell::new(None);
    let is_it = |bytes: &[u8], source: SocketAddr| {
        found.set(listeners.knocked(bytes).filter(|_| source == from));
        found.get().is_some()
    };
    hear(own, patience, &is_it)?;
    found.get()
}

/// Waits for a datagram that is the one; gives where it came from.
fn hear(
    own: &Own,
    patience: Duration,
    is_it: &dyn Fn(&[u8], SocketAddr) -> bool,
) -> Option<SocketAddr> {
    let until = mono_ns() + patience.as_nanos() as i64;
    let mut buf = [0; 2048];
    loop {
        let left = until - mono_ns();
        if left <= 0 {
            return None;
        }
        let left = std::time::Duration::from_nanos(left as u64);
        if own.socket.set_read_timeout(Some(left)).is_err() {
            return None;
        }
        // An error here is the refusal of an earlier datagram, or that nothing came.
        if let Ok((n, from)) = own.socket.recv_from(&mut buf)
            && is_it(&buf[..n], from)
        {
            return Some(from);
        }
    }
}
