//! QUIC connections that fill a direction, on both ends: `quinn-proto` over a UDP socket, driven by one thread.
//!
//! The client starts the load with the token of its ports; then either end writes as fast as its congestion control
//! allows. The server repeats a report on its end (bytes, packets, losses, round trip) on a stream of its own.
//!
//! **Source.** RFC 9000, QUIC: A UDP-Based Multiplexed and Secure Transport. A server sends no more than a Retry packet, which
//! is shorter than the client's first datagram, until the client's address is validated (section 8.1.2).

mod client;
mod server;

pub(crate) use client::load;
pub(crate) use server::{Service, serve};

use bytes::BytesMut;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use quinn_proto as quic;
use socket2::SockRef;
use std::io;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Longest wait of a turn: whoever waits for its end is served within it.
const TICK: Duration = Duration::from_millis(20);
/// Datagrams that are taken, or sent, in a turn, before timers are looked at again.
const AT_ONCE: usize = 64;
/// Silence after which a connection is over.
const IDLE: Duration = Duration::from_secs(8);
/// Receive buffer of the socket that is asked for.
const BUFFER: usize = 4 << 20;
/// Longest datagram that is read.
const MOST: usize = 2048;
/// Data that is written again and again.
static FILLER: [u8; 16 << 10] = [b'.'; 16 << 10];

/// Settings of both ends: datagrams of 1,200 bytes, as most paths carry them, and windows that no common link fills.
fn transport() -> Result<Arc<quic::TransportConfig>, quic::VarIntBoundsExceeded> {
    let mut t = quic::TransportConfig::default();
    t.enable_segmentation_offload(false)
        .mtu_discovery_config(None)
        .max_idle_timeout(Some(IDLE.try_into()?))
        .max_concurrent_bidi_streams(1u8.into())
        .max_concurrent_uni_streams(1u8.into())
        .stream_receive_window((16u32 << 20).into())
        .receive_window((16u32 << 20).into())
        .send_window(8 << 20)
        .datagram_receive_buffer_size(None);
    Ok(Arc::new(t))
}

/// An endpoint with one connection, and its socket.
struct End {
    socket: UdpSocket,
    /// The only other end of a connected socket.
    only: Option<SocketAddr>,
    endpoint: quic::Endpoint,
    connection: Option<(quic::ConnectionHandle, quic::Connection)>,
    /// Datagram that the socket has not taken yet.
    pending: Option<(Vec<u8>, SocketAddr)>,
    buf: Vec<u8>,
    /// Connections that have been accepted.
    accepted: u64,
    /// True if more may be sent at once.
    more: bool,
    /// Bytes of datagrams in both directions, IP and UDP headers included, and datagrams.
    moved: (u64, u64),
}

/// Clients that are served: all that a connected socket hears, or one address.
enum Admitted {
    Only(IpAddr),
    Anybody,
}

impl End {
    fn new(
        socket: UdpSocket,
        only: Option<SocketAddr>,
        endpoint: quic::Endpoint,
    ) -> io::Result<End> {
        socket.set_nonblocking(true)?;
        // As much as the system allows: this thread may be late.
        let _ = SockRef::from(&socket).set_recv_buffer_size(BUFFER);
        Ok(End {
            socket,
            only,
            endpoint,
            connection: None,
            pending: None,
            buf: vec![0; MOST],
            accepted: 0,
            more: false,
            moved: (0, 0),
        })
    }

    /// Counts a datagram of this length.
    fn count(&mut self, len: usize, to: SocketAddr) {
        let headers = if to.ip().to_canonical().is_ipv4() {
            28
        } else {
            48
        };
        self.moved = (self.moved.0 + len as u64 + headers, self.moved.1 + 1);
    }

    /// Sends a datagram; one that the socket has no room for waits.
    ///
    /// # Errors
    /// An ICMP error, or a fault of this host.
    fn send(&mut self, bytes: &[u8], to: SocketAddr) -> io::Result<()> {
        let sent = match self.only {
            Some(_) => self.socket.send(bytes),
            None => self.socket.send_to(bytes, to),
        };
        match sent {
            Ok(_) => {
                self.count(bytes.len(), to);
                Ok(())
            }
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => {
                self.pending = Some((bytes.to_vec(), to));
                Ok(())
            }
            Err(e) => Err(e),
        }
    }

    /// Takes datagrams that have come.
    ///
    /// # Errors
    /// An ICMP error, or a fault of this host.
    fn take(&mut self, admitted: &Admitted) -> io::Result<()> {
        for _ in 0..AT_ONCE {
            let (len, from) = match self.socket.recv_from(&mut self.buf) {
                Ok(got) => got,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => break,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => return Err(e),
            };
            let from = SocketAddr::new(from.ip().to_canonical(), from.port());
            if let Admitted::Only(ip) = admitted
                && from.ip() != *ip
            {
                continue;
            }
            self.count(len, from);
            let data = BytesMut::from(&self.buf[..len]);
            self.handle(from, data)?;
        }
        Ok(())
    }

    fn handle(&mut self, from: SocketAddr, data: BytesMut) -> io::Result<()> {
        let (now, mut answer) = (Instant::now(), Vec::new());
        let event = self
            .endpoint
            .handle(now, from, None, None, data, &mut answer);
        let reply = match event {
            Some(quic::DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((own, connection)) = &mut self.connection
                    && *own == handle
                {
                    connection.handle_event(event);
                }
                None
            }
            Some(quic::DatagramEvent::NewConnection(incoming)) => {
                self.admit(incoming, now, &mut answer)
            }
            Some(quic::DatagramEvent::Response(transmit)) => Some(transmit),
            None => None,
        };
        match reply {
            Some(t) => self.send(&answer[..t.size], t.destination),
            None => Ok(()),
        }
    }

    /// Takes a connection, or asks its client to prove its address first.
    fn admit(
        &mut self,
        incoming: quic::Incoming,
        now: Instant,
        answer: &mut Vec<u8>,
    ) -> Option<quic::Transmit> {
        if !incoming.remote_address_validated() {
            return self.endpoint.retry(incoming, answer).ok();
        }
        // A client has one connection at a time: a new one shows that the end of the old one was lost.
        if let Some((old, _)) = self.connection.take() {
            let drained = quic::EndpointEvent::drained();
            let _ = self.endpoint.handle_event(old, drained);
        }
        match self.endpoint.accept(incoming, now, answer, None) {
            Ok(made) => {
                self.connection = Some(made);
                self.accepted += 1;
                None
            }
            Err(e) => e.response,
        }
    }

    /// Lets timers expire and sends what is due. Returns the events of the connection.
    ///
    /// # Errors
    /// An ICMP error, or a fault of this host.
    fn drive(&mut self) -> io::Result<Vec<quic::Event>> {
        let mut events = Vec::new();
        let Some((handle, connection)) = &mut self.connection else {
            return Ok(events);
        };
        let now = Instant::now();
        if connection.poll_timeout().is_some_and(|t| t <= now) {
            connection.handle_timeout(now);
        }
        while let Some(event) = connection.poll_endpoint_events() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                connection.handle_event(event);
            }
        }
        while let Some(event) = connection.poll() {
            events.push(event);
        }
        if let Some((bytes, to)) = self.pending.take() {
            self.send(&bytes, to)?;
        }
        self.more = true;
        for _ in 0..AT_ONCE {
            let Some((_, connection)) = &mut self.connection else {
                break;
            };
            let mut out = Vec::with_capacity(MOST);
            if self.pending.is_some() {
                self.more = false;
                break;
            }
            let Some(t) = connection.poll_transmit(now, 1, &mut out) else {
                self.more = false;
                break;
            };
            self.send(&out[..t.size], t.destination)?;
        }
        Ok(events)
    }

    /// Waits for a datagram, a timer or a tick.
    fn wait(&mut self, sleeps: Option<Duration>) {
        if self.more && sleeps.is_none() {
            return;
        }
        let now = Instant::now();
        let timer = self.connection.as_mut().and_then(|c| c.1.poll_timeout());
        let left = timer.map_or(TICK, |t| t.saturating_duration_since(now));
        let left = left.min(sleeps.unwrap_or(TICK)).min(TICK);
        let mut flags = PollFlags::POLLIN;
        if self.pending.is_some() {
            flags |= PollFlags::POLLOUT;
        }
        // Whole milliseconds, and the rest by looking again: pacing within a millisecond is one burst.
        let ms = u16::try_from(left.as_millis()).unwrap_or(u16::MAX);
        let mut fds = [PollFd::new(self.socket.as_fd(), flags)];
        let ready = poll(&mut fds, PollTimeout::from(ms)).unwrap_or(0);
        if ready == 0 && ms == 0 && !left.is_zero() {
            std::thread::sleep(left);
        }
    }
}

/// Writes as much as the connection takes.
fn fill(connection: &mut quic::Connection, stream: quic::StreamId) {
    while connection.send_stream(stream).write(&FILLER).is_ok() {}
}

/// Takes all data that has come on a stream; returns its length, and keeps up to `keep` bytes of it.
fn drain(
    connection: &mut quic::Connection,
    stream: quic::StreamId,
    keep: &mut Vec<u8>,
    most: usize,
) -> u64 {
    let mut got = 0;
    let mut receiving = connection.recv_stream(stream);
    if let Ok(mut chunks) = receiving.read(true) {
        while let Ok(Some(chunk)) = chunks.next(usize::MAX) {
            got += chunk.bytes.len() as u64;
            let room = most.saturating_sub(keep.len()).min(chunk.bytes.len());
            keep.extend_from_slice(&chunk.bytes[..room]);
        }
        let _ = chunks.finalize();
    }
    got
}
