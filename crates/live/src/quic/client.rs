//! Client's end: one connection that starts a load, and counts what is delivered.

use super::{Admitted, End, drain, fill, transport};
use crate::load::Peer;
use crate::load::kernel::random_bytes;
use crate::pipe::{NAME, pinned, unchecked};
use crate::tally::Tally;
use base::record::Direction;
use base::{Bytes, Duration};
use experiment::ask::{Kind, QuicLoad, QuicRan, Trouble};
use measure::control::listen::{QUIC_REPORT_LEN, QuicReport, TOKEN_LEN, quic_start};
use quinn_proto as quic;
use quinn_proto::crypto::rustls::QuicClientConfig;
use std::io;
use std::net::UdpSocket;
use std::sync::Arc;
use std::time::Instant;

/// Reports that are kept, and so the longest connection by far.
const MOST_REPORTS: usize = 1 << 16;

/// One connection of a client.
struct Client {
    end: End,
    token: [u8; TOKEN_LEN],
    load: QuicLoad,
    stream: Option<quic::StreamId>,
    report: Option<quic::StreamId>,
    /// Bytes of a report that is not whole yet.
    rest: Vec<u8>,
    told: QuicReport,
    /// Sum and number of the waits that the sender told.
    waits: (f64, u32),
    /// Payload that has been delivered.
    delivered: u64,
    /// Traffic that the run's tally has counted.
    tallied: (u64, u64),
}

fn trouble(e: &io::Error) -> Trouble {
    let kind = match e.kind() {
        io::ErrorKind::ConnectionRefused => Kind::Refused,
        io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => Kind::NoRoute,
        _ => Kind::Other,
    };
    Trouble::new(kind, e.to_string())
}

fn config(peer: &Peer) -> io::Result<quic::ClientConfig> {
    let tls = match peer.access.pin {
        Some(pin) => pinned(pin, &Arc::default())?,
        None => unchecked()?,
    };
    let crypto = QuicClientConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quic::ClientConfig::new(Arc::new(crypto));
    config.transport_config(transport().map_err(io::Error::other)?);
    Ok(config)
}

/// Carries a connection out. `going_on` is asked now and then.
pub(crate) fn load(
    load: &QuicLoad,
    token: [u8; TOKEN_LEN],
    (peer, tally): (&Peer, &Tally),
    going_on: &mut dyn FnMut() -> bool,
) -> QuicRan {
    let failed = |e: &io::Error| QuicRan {
        trouble: Some(trouble(e)),
        ..QuicRan::default()
    };
    let socket = match peer.access.outlet.socket_to(load.at) {
        Ok(socket) => socket,
        Err(e) => return failed(&e),
    };
    match Client::connect(load, token, peer, socket) {
        Ok(mut client) => {
            let ran = client.run(tally, going_on);
            client.tell(tally);
            ran
        }
        Err(e) => failed(&e),
    }
}

impl Client {
    fn connect(
        load: &QuicLoad,
        token: [u8; TOKEN_LEN],
        peer: &Peer,
        socket: UdpSocket,
    ) -> io::Result<Client> {
        let endpoint = quic::Endpoint::new(Arc::default(), None, false, Some(random_bytes()));
        let mut end = End::new(socket, Some(load.at), endpoint)?;
        let at = std::net::SocketAddr::new(load.at.ip().to_canonical(), load.at.port());
        let made = end
            .endpoint
            .connect(Instant::now(), config(peer)?, at, NAME);
        end.connection = Some(made.map_err(io::Error::other)?);
        Ok(Client {
            end,
            token,
            load: *load,
            stream: None,
            report: None,
            rest: Vec::new(),
            told: QuicReport::default(),
            waits: (0.0, 0),
            delivered: 0,
            tallied: (0, 0),
        })
    }

    fn run(&mut self, tally: &Tally, going_on: &mut dyn FnMut() -> bool) -> QuicRan {
        let mut ran = QuicRan::default();
        let asked = Instant::now();
        let (mut began, mut counted) = (None, 0);
        loop {
            if let Err(e) = self.end.take(&Admitted::Anybody) {
                ran.trouble = Some(trouble(&e));
                break;
            }
            let events = self.end.drive();
            let now = Instant::now();
            match events {
                Err(e) => ran.trouble = Some(trouble(&e)),
                Ok(events) => {
                    let lost = events.into_iter().find_map(|e| match e {
                        quic::Event::ConnectionLost { reason } => Some(reason.to_string()),
                        _ => None,
                    });
                    ran.trouble = lost.map(|why| Trouble::new(Kind::Closed, why));
                }
            }
            if ran.trouble.is_some() {
                break;
            }
            let Some((_, connection)) = &mut self.end.connection else {
                break;
            };
            let Some(start) = began else {
                if !connection.is_handshaking() {
                    ran.handshake = Some(Duration::from_secs_f64((now - asked).as_secs_f64()));
                    began = Some(now);
                } else if now - asked >= self.load.patience.to_std() {
                    ran.trouble = Some(Trouble::new(Kind::Silence, "no handshake in time"));
                    break;
                }
                self.end.wait(None);
                continue;
            };
            self.step();
            let elapsed = now - start;
            let bin = (elapsed.as_nanos() / u128::from(self.load.bin.as_nanos())) as usize;
            if bin > ran.bins.len() {
                let new = bin - ran.bins.len();
                let each = (self.delivered - counted) / new as u64;
                ran.bins.extend(std::iter::repeat_n(each, new));
                counted = self.delivered;
                self.tell(tally);
                if !going_on() {
                    break;
                }
            }
            let spent = Bytes::new(self.end.moved.0);
            if elapsed >= self.load.lasts.to_std() || spent >= self.load.most {
                break;
            }
            self.end.wait(None);
        }
        self.close(&mut ran);
        ran
    }

    /// Counts the traffic since the last call.
    fn tell(&mut self, tally: &Tally) {
        let (bytes, packets) = self.end.moved;
        tally.add(packets - self.tallied.1, Bytes::new(bytes - self.tallied.0));
        self.tallied = self.end.moved;
    }

    /// Writes, reads and counts.
    fn step(&mut self) {
        let Some((_, connection)) = &mut self.end.connection else {
            return;
        };
        if self.stream.is_none()
            && let Some(stream) = connection.streams().open(quic::Dir::Bi)
        {
            let start = quic_start(&self.token, self.load.direction);
            // A fresh stream takes these few bytes at once.
            let _ = connection.send_stream(stream).write(&start);
            self.stream = Some(stream);
        }
        let Some(stream) = self.stream else {
            return;
        };
        match self.load.direction {
            Direction::Up => fill(connection, stream),
            Direction::Down => {
                self.delivered += drain(connection, stream, &mut Vec::new(), 0);
            }
        }
        if self.report.is_none() {
            self.report = connection.streams().accept(quic::Dir::Uni);
        }
        if let Some(report) = self.report {
            drain(connection, report, &mut self.rest, MOST_REPORTS);
            let whole = self.rest.len() / QUIC_REPORT_LEN * QUIC_REPORT_LEN;
            let parts: Vec<u8> = self.rest.drain(..whole).collect();
            let own = connection.stats();
            for part in parts.chunks_exact(QUIC_REPORT_LEN) {
                let told: [u8; QUIC_REPORT_LEN] = part.try_into().expect("chunks are exact");
                self.told = QuicReport::decode(&told);
                let wait_ns = match self.load.direction {
                    Direction::Up => {
                        own.path.rtt.saturating_sub(own.path.min_rtt).as_nanos() as f64
                    }
                    Direction::Down => self.told.wait_ns as f64,
                };
                self.waits = (self.waits.0 + wait_ns, self.waits.1 + 1);
            }
            if self.load.direction == Direction::Up {
                // A server that claims more than was sent is not believed.
                let most = own.udp_tx.bytes;
                self.delivered = self.delivered.max(self.told.received.min(most));
            }
        }
    }

    fn close(&mut self, ran: &mut QuicRan) {
        let Some((_, connection)) = &mut self.end.connection else {
            return;
        };
        let path = connection.stats().path;
        let (sent, lost) = match self.load.direction {
            Direction::Up => (path.sent_packets, path.lost_packets),
            Direction::Down => (self.told.sent, self.told.lost),
        };
        if ran.handshake.is_some() && sent > 0 && lost <= sent {
            (ran.sent, ran.lost) = (Some(sent), Some(lost));
        }
        let (sum, n) = self.waits;
        let mean_ns = sum / f64::from(n.max(1));
        let believed = n > 0 && mean_ns < 60e9;
        ran.wait = believed.then(|| Duration::from_nanos(mean_ns as u64));
        if !connection.is_closed() {
            connection.close(Instant::now(), 0u8.into(), Default::default());
            let _ = self.end.drive();
        }
    }
}
