//! Ports of the server and sockets of our own, as the steps of experiments ask for them.

mod knock;
mod own;
mod watch;

use crate::clock::{Clock, mono_ns};
use crate::error::CraftError;
use crate::listeners::Listeners;
use crate::load::kernel::random_bytes;
use crate::load::{LoadError, Peer};
use crate::outlet::Outlet;
use crate::quotes::Quotes;
use crate::segments::Segments;
use crate::tally::Tally;
use base::Duration;
use base::record::Direction;
use experiment::ask::{
    Answer, Ask, Configured, Heard, Kind, Opening, Ports, QuicLoad, QuicRan, Trouble,
};
use measure::control::listen::Wanted;
use measure::quote::Quote;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use own::Own;
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;

/// Open ports and sockets at both ends; dropping it closes all.
#[derive(Default)]
pub struct Ends {
    listeners: Option<Listeners>,
    sockets: BTreeMap<u32, Own>,
    segments: BTreeMap<u32, Segments>,
    quotes: Option<Quotes>,
}

impl Ends {
    /// # Errors
    /// The server refuses or vanishes; there is no socket.
    pub fn ask(
        &mut self,
        ask: &Ask,
        (peer, clock): (&Peer, Clock),
        tally: &Tally,
    ) -> Result<Answer, CraftError> {
        match ask {
            Ask::Listen(wanted, open) => self.listen(wanted, *open, peer, tally),
            Ask::Arrivals => Ok(Answer::Arrivals(self.listeners()?.report()?)),
            Ask::Order {
                port,
                to,
                len,
                marking,
            } => {
                let ordered = self.listeners()?.send(*port, to, *len, *marking)?;
                Ok(Answer::Ordered(ordered))
            }
            Ask::OrderSegment {
                port,
                to,
                form,
                number,
                marking,
            } => {
                let what = (*form, *number);
                match self.listeners()?.segment((*port, *to), what, *marking) {
                    Ok(()) => Ok(Answer::Sent(Ok(()))),
                    Err(e @ LoadError::Refused { .. }) => {
                        Ok(Answer::Sent(Err(Trouble::new(Kind::Other, e.to_string()))))
                    }
                    Err(e) => Err(e.into()),
                }
            }
            Ask::Quotes(Direction::Up) => Ok(Answer::Quotes(self.quotes(peer, tally))),
            Ask::Quotes(Direction::Down) => {
                let quoted = self.listeners()?.quotes()?;
                Ok(Answer::Quotes(match quoted.closed {
                    Some(why) => Err(why),
                    None => Ok(quoted.quotes),
                }))
            }
            Ask::Knock(knocks) => Ok(Answer::Knocked(knock::all(knocks, peer, tally))),
            Ask::Open(opening) => self.open(opening, &peer.access.outlet),
            Ask::Connect { to, patience } => Ok(Answer::Connected(knock::connected(
                (*to, *patience),
                &peer.access.outlet,
                clock,
                tally,
            ))),
            Ask::PathMtu(number) => Ok(Answer::PathMtu(own::path_mtu(self.socket(*number)?))),
            Ask::Options => Ok(Answer::Options(watch::options())),
            Ask::Random(count) => Ok(Answer::Random(random(*count))),
            Ask::Resolve(name) => Ok(Answer::Resolved(resolved(name))),
            Ask::Resolvers => Ok(Answer::Resolvers(resolvers().map_err(|e| trouble(&e)))),
            Ask::Send {
                socket,
                to,
                bytes,
                marking,
            } => {
                if let Some(segments) = self.segments.get(socket) {
                    let sent = segments.send(*to, bytes, (marking.tos, marking.hops));
                    tally.datagram(*to, bytes.len());
                    return Ok(Answer::Sent(sent.map_err(|e| trouble(&e))));
                }
                let own = self.socket(*socket)?;
                // One end only: the user, this host's settings or an admitted port of the server named it.
                if own.is_free()
                    && let Err(why) = self.listeners()?.admit(*to)
                {
                    return Ok(Answer::Sent(Err(Trouble::new(Kind::Withheld, why))));
                }
                let sent = own.send(*to, bytes, *marking);
                if sent.is_ok() {
                    tally.datagram(*to, bytes.len());
                }
                Ok(Answer::Sent(sent))
            }
            Ask::Hear {
                socket,
                within,
                ordered,
            } => {
                if let Some(segments) = self.segments.get(socket) {
                    return Ok(Answer::Heard(hear_segment(segments, *within)));
                }
                let heard = self.socket(*socket)?.hear(*within);
                if let Some(heard) = heard.as_ref().ok().filter(|_| !ordered) {
                    tally.datagram(heard.from, heard.bytes.len());
                }
                Ok(Answer::Heard(heard))
            }
            Ask::Controls(_)
            | Ask::Sender(..)
            | Ask::Quic(_)
            | Ask::Wifi
            | Ask::Transfer(_)
            | Ask::Trace(_)
            | Ask::Browse(_)
            | Ask::Reach(_)
            | Ask::Capture(_)
            | Ask::StopCapture
            | Ask::Gateway => {
                let what = "answer this with ports and sockets";
                Err(experiment::Stopped::Cannot { what }.into())
            }
        }
    }

    /// Fills a direction with a QUIC connection to one of the server's ports.
    ///
    /// # Errors
    /// No port was asked for.
    pub fn quic(
        &self,
        load: &QuicLoad,
        around: (&Peer, &Tally),
        going_on: &mut dyn FnMut() -> bool,
    ) -> Result<QuicRan, CraftError> {
        let listeners = self.listeners()?;
        if let Err(why) = listeners.admit(load.at) {
            return Ok(QuicRan {
                trouble: Some(Trouble::new(Kind::Withheld, why)),
                ..QuicRan::default()
            });
        }
        Ok(crate::quic::load(
            load,
            *listeners.token(),
            around,
            going_on,
        ))
    }

    fn listeners(&self) -> Result<&Listeners, CraftError> {
        let open = self.listeners.as_ref();
        open.ok_or_else(|| missing("use the server's port", "none was asked for"))
    }

    /// Quotes of datagrams of ours.
    fn quotes(&mut self, peer: &Peer, tally: &Tally) -> Result<Vec<Quote>, String> {
        let quotes = match &mut self.quotes {
            Some(quotes) => quotes,
            none => none.insert(Quotes::open()?),
        };
        let quotes = quotes.take();
        for quote in &quotes {
            tally.icmp_error(peer.server, quote.rest.len().saturating_sub(8));
        }
        Ok(quotes)
    }

    fn socket(&self, number: u32) -> Result<&Own, CraftError> {
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

    fn open(&mut self, opening: &Opening, outlet: &Outlet) -> Result<Answer, CraftError> {
        if let Some(to) = opening.to.filter(|_| opening.segments) {
            let local = outlet.socket_to(to).and_then(|s| s.local_addr());
            let at = local.map(|local| SocketAddr::new(local.ip(), 0));
            let opened = at.and_then(|at| Segments::open(at, outlet));
            return Ok(Answer::Opened(match opened {
                Ok(segments) => {
                    let local = segments.local();
                    self.segments.insert(opening.number, segments);
                    Ok(local)
                }
                Err(e) => Err(trouble(&e)),
            }));
        }
        let opened = match opening.to {
            Some(to) => Own::towards(to, opening, outlet),
            None => {
                let toward = self.listeners()?.at(0);
                let toward = toward.map_err(|why| missing("use the server's port", &why))?;
                Own::free(toward, outlet)
            }
        };
        let opened = opened.and_then(|own| Ok((own.local()?, own)));
        Ok(Answer::Opened(match opened {
            Ok((local, own)) => {
                self.sockets.insert(opening.number, own);
                Ok(local)
            }
            Err(e) => Err(trouble(&e)),
        }))
    }
}

/// Waits for the next segment.
fn hear_segment(segments: &Segments, within: Duration) -> Result<Heard, Trouble> {
    let until = mono_ns() + within.as_nanos() as i64;
    loop {
        if let Some((from, tos, bytes)) = segments.take() {
            return Ok(Heard {
                from,
                bytes,
                tos,
                waited: Duration::ZERO,
            });
        }
        let left = until - mono_ns();
        if left <= 0 {
            return Err(Trouble::new(Kind::Silence, "nothing came in time"));
        }
        let mut fds = [PollFd::new(segments.as_fd(), PollFlags::POLLIN)];
        let millis = (left / 1_000_000 + 1).min(1000) as u16;
        let _ = poll(&mut fds, PollTimeout::from(millis));
    }
}

fn missing(what: &'static str, why: &str) -> CraftError {
    CraftError::socket(what)(io::Error::other(why.to_owned()))
}

/// An error of the system as the steps know it.
fn trouble(e: &io::Error) -> Trouble {
    let kind = match e.kind() {
        io::ErrorKind::ConnectionRefused => Kind::Refused,
        io::ErrorKind::ConnectionReset => Kind::Reset,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Kind::NoRoute,
        io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => Kind::Silence,
        io::ErrorKind::UnexpectedEof => Kind::Closed,
        _ => Kind::Other,
    };
    Trouble::new(kind, e.to_string())
}

fn random(count: usize) -> Vec<u8> {
    let some = (0..count.div_ceil(8)).flat_map(|_| random_bytes::<8>());
    some.take(count).collect()
}

/// Configuration of this host's resolvers: the file that every program reads, and systemd-resolved's own.
fn resolvers() -> io::Result<Configured> {
    Ok(Configured {
        resolv_conf: std::fs::read_to_string("/etc/resolv.conf")?,
        // Where systemd-resolved does not run there is no such file.
        behind: std::fs::read_to_string("/run/systemd/resolve/resolv.conf").unwrap_or_default(),
    })
}

fn resolved(name: &str) -> Result<IpAddr, Trouble> {
    let address = crate::resolve::server(name, 0, false, false);
    address
        .map(|a| a.ip().to_canonical())
        .map_err(|e| Trouble::new(Kind::Other, e.to_string()))
}
