//! Server's end: one connection at a time, of the client that has asked for the port.

use super::{Admitted, End, TICK, drain, fill, transport};
use crate::load::ceiling::Ceiling;
use crate::load::kernel::random_bytes;
use base::record::Direction;
use measure::control::listen::{QUIC_START_LEN, QuicReport, TOKEN_LEN, quic_direction};
use quinn_proto as quic;
use quinn_proto::crypto::rustls::QuicServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivatePkcs8KeyDer;
use rustls::version::TLS13;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Interval of the reports.
const REPORT: Duration = Duration::from_millis(50);
/// Time in which a connection has to start its load.
const START_WITHIN: Duration = Duration::from_secs(5);

/// One port for QUIC.
pub(crate) struct Service<'a> {
    pub socket: UdpSocket,
    pub client: IpAddr,
    pub token: [u8; TOKEN_LEN],
    /// Server's TLS, if it has any; otherwise a key is made for this port.
    pub tls: Option<Arc<rustls::ServerConfig>>,
    pub ceiling: &'a Ceiling,
    /// Bytes that the port has moved so far.
    pub moved: &'a AtomicU64,
    /// True once the port is to be closed.
    pub over: &'a AtomicBool,
}

/// State of the load of a connection.
#[derive(Default)]
struct Carried {
    stream: Option<quic::StreamId>,
    report: Option<quic::StreamId>,
    start: Vec<u8>,
    direction: Option<Direction>,
    received: u64,
    began: Option<Instant>,
    reported: Option<Instant>,
    /// Rest of a report that the connection had no room for.
    unsent: Vec<u8>,
}

fn config(tls: Option<Arc<rustls::ServerConfig>>) -> io::Result<quic::ServerConfig> {
    let tls = match tls {
        Some(tls) => (*tls).clone(),
        None => {
            let made = rcgen::generate_simple_self_signed(vec![crate::pipe::NAME.to_owned()])
                .map_err(io::Error::other)?;
            let key = PrivatePkcs8KeyDer::from(made.signing_key.serialize_der());
            rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
                .with_protocol_versions(&[&TLS13])
                .map_err(io::Error::other)?
                .with_no_client_auth()
                .with_single_cert(vec![made.cert.der().clone()], key.into())
                .map_err(io::Error::other)?
        }
    };
    let crypto = QuicServerConfig::try_from(tls).map_err(io::Error::other)?;
    let mut config = quic::ServerConfig::with_crypto(Arc::new(crypto));
    config
        .transport_config(transport().map_err(io::Error::other)?)
        .migration(false)
        .max_incoming(8)
        .incoming_buffer_size(16 << 10)
        .incoming_buffer_size_total(64 << 10);
    Ok(config)
}

/// Serves a port until it is over.
///
/// # Errors
/// A fault of this host.
pub(crate) fn serve(service: Service<'_>) -> io::Result<()> {
    let Service {
        socket,
        client,
        token,
        tls,
        ceiling,
        moved,
        over,
    } = service;
    let config = config(tls)?;
    let endpoint = quic::Endpoint::new(
        Arc::default(),
        Some(Arc::new(config)),
        false,
        Some(random_bytes()),
    );
    let mut end = End::new(socket, None, endpoint)?;
    let admitted = Admitted::Only(client);
    let mut carried = Carried::default();
    let mut accepted = 0;
    while !over.load(Ordering::Relaxed) {
        // ICMP errors about a client that has gone: the connection times out by itself.
        let _ = end.take(&admitted);
        if end.accepted != accepted {
            accepted = end.accepted;
            carried = Carried {
                began: Some(Instant::now()),
                ..Carried::default()
            };
        }
        if let Some((_, connection)) = &mut end.connection {
            let now = Instant::now();
            carried.step(connection, &token, now);
            let late = carried.began.is_some_and(|b| now - b > START_WITHIN);
            if late && carried.direction.is_none() && !connection.is_closed() {
                connection.close(now, 1u8.into(), Default::default());
            }
        }
        let before = end.moved.0;
        let sleeps = ceiling.wait_ns(crate::clock::mono_ns());
        if sleeps > 0 {
            end.wait(Some(Duration::from_nanos(sleeps.unsigned_abs()).min(TICK)));
            continue;
        }
        let _ = end.drive();
        ceiling.book(crate::clock::mono_ns(), end.moved.0 - before);
        moved.store(end.moved.0, Ordering::Relaxed);
        if end.connection.as_ref().is_some_and(|c| c.1.is_drained()) {
            end.connection = None;
        }
        end.wait(None);
    }
    if let Some((_, connection)) = &mut end.connection {
        connection.close(Instant::now(), 0u8.into(), Default::default());
        let _ = end.drive();
    }
    Ok(())
}

impl Carried {
    /// Reads, writes and reports.
    fn step(&mut self, connection: &mut quic::Connection, token: &[u8; TOKEN_LEN], now: Instant) {
        if connection.is_handshaking() || connection.is_closed() {
            return;
        }
        if self.stream.is_none() {
            self.stream = connection.streams().accept(quic::Dir::Bi);
        }
        let Some(stream) = self.stream else {
            return;
        };
        let got = drain(connection, stream, &mut self.start, QUIC_START_LEN);
        if self.direction.is_some() {
            self.received += got;
        } else if self.start.len() == QUIC_START_LEN {
            self.direction = quic_direction(&self.start, token);
            self.received = got.saturating_sub(QUIC_START_LEN as u64);
            if self.direction.is_none() {
                connection.close(now, 1u8.into(), Default::default());
                return;
            }
        }
        let Some(direction) = self.direction else {
            return;
        };
        if self.report.is_none() {
            self.report = connection.streams().open(quic::Dir::Uni);
        }
        let due = self.reported.is_none_or(|at| now - at >= REPORT);
        if due && self.unsent.is_empty() {
            self.reported = Some(now);
            let path = connection.stats().path;
            let told = QuicReport {
                received: self.received,
                sent: path.sent_packets,
                lost: path.lost_packets,
                wait_ns: path.rtt.saturating_sub(path.min_rtt).as_nanos() as u64,
            };
            self.unsent = told.encode().to_vec();
        }
        // Before the data of the other stream, which is without end and takes all room.
        if let Some(report) = self.report.filter(|_| !self.unsent.is_empty()) {
            let mut stream = connection.send_stream(report);
            let _ = stream.set_priority(1);
            let written = stream.write(&self.unsent).unwrap_or(0);
            self.unsent.drain(..written);
        }
        if direction == Direction::Down {
            fill(connection, stream);
        }
    }
}
