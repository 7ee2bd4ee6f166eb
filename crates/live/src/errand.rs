//! What the kinds of probe without trains share: where their rows go, whether they may go on, and how much they put
//! on the line.

use crate::clock::Clock;
use crate::craft::CraftError;
use crate::listeners::Listeners;
use crate::load::kernel::TcpInfo;
use crate::load::{LoadError, Peer};
use base::noted::Noted;
use base::record::{Delay, Event, Row, Status};
use base::{Bytes, Duration};
use measure::control::listen::Wanted;
use std::io;
use std::net::{SocketAddr, TcpStream, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::Sender;

/// What one packet carries beyond IP's header on any usual line.
const LARGEST: u64 = 1500;
/// TCP's header with timestamps, as every current system sends it.
const TCP: u64 = 32;
/// A first packet with its usual options, and what refuses it.
const SYN: u64 = 40;

fn ip_header(far: SocketAddr) -> u64 {
    if far.ip().to_canonical().is_ipv4() {
        20
    } else {
        40
    }
}

/// Whole IP packets that went over the line on our behalf, both directions together. Connections are counted when they
/// are over, by what the kernel knows of them; the three packets that end one are not in that.
#[derive(Clone, Debug, Default)]
pub struct Tally(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    bytes: AtomicU64,
    packets: AtomicU64,
}

impl Tally {
    pub fn add(&self, packets: u64, bytes: Bytes) {
        self.0.packets.fetch_add(packets, Ordering::Relaxed);
        self.0.bytes.fetch_add(bytes.get(), Ordering::Relaxed);
    }

    pub fn bytes(&self) -> Bytes {
        Bytes::new(self.0.bytes.load(Ordering::Relaxed))
    }

    pub fn packets(&self) -> u64 {
        self.0.packets.load(Ordering::Relaxed)
    }

    /// A datagram to or from there, in as many pieces as it takes.
    pub fn datagram(&self, far: SocketAddr, payload: usize) {
        let header = ip_header(far);
        let carried = payload as u64 + 8;
        let pieces = carried.div_ceil(LARGEST - header);
        self.add(pieces, Bytes::new(carried + pieces * header));
    }

    /// All of a connection so far.
    pub fn connection(&self, stream: &TcpStream) {
        let far = stream.peer_addr();
        if let (Ok(far), Ok(info)) = (far, TcpInfo::read(stream)) {
            let (packets, payload) = info.passed();
            let headers = packets * (ip_header(far) + TCP);
            self.add(packets, Bytes::new(payload + headers));
        }
    }

    /// A connection that did not come about, by how long that took: what is not answered is sent again after one, three
    /// and seven seconds (RFC 6298 section 2); what is refused is answered.
    pub fn attempt(&self, far: SocketAddr, failed: &io::Error, took: Duration) {
        let packets = match failed.kind() {
            io::ErrorKind::ConnectionRefused => 2,
            _ => {
                let again = [1, 3, 7].map(Duration::from_secs);
                1 + again.iter().filter(|a| took > **a).count() as u64
            }
        };
        self.add(packets, Bytes::new(packets * (ip_header(far) + SYN)));
    }

    /// As a row of the recording; none where nothing was counted.
    pub fn event(&self, t_ns: i64) -> Option<Event> {
        let note = base::noted::own::OwnTraffic {
            packets: self.packets(),
            bytes: self.bytes().get(),
        };
        (note.packets > 0).then(|| note.event(t_ns, "this run"))
    }
}

/// One run of such a kind.
pub struct Errand<'a> {
    pub peer: Peer,
    pub clock: Clock,
    pub rows: Sender<Row>,
    pub tally: Tally,
    /// Told the stage; false to end.
    pub going_on: &'a mut dyn FnMut(&str) -> bool,
}

impl Errand<'_> {
    /// # Errors
    /// The user wants no more.
    pub fn stage(&mut self, stage: &str) -> Result<(), CraftError> {
        if (self.going_on)(stage) {
            Ok(())
        } else {
            Err(CraftError::Interrupted)
        }
    }

    pub fn row(&self, row: impl Into<Row>) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(row.into());
    }

    pub fn note(&self, note: &impl Noted, subject: &str) {
        self.row(note.event(self.clock.unix_ns(), subject));
    }

    /// How long something took that began at this monotonic instant; null where it did not come to its end.
    pub fn delay(&self, target: &str, seq: i64, began: i64, took: Option<i64>) {
        self.row(Delay {
            sent_ns: self.clock.from_mono_ns(began),
            seq,
            target: target.into(),
            rtt_ns: took,
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: None,
            remote_tx_ns: None,
            host_ns: None,
            late_send_ns: None,
            status: if took.is_some() {
                Status::Ok
            } else {
                Status::Lost
            },
            ecn: None,
            dscp: None,
        });
    }

    /// # Errors
    /// As [`Listeners::open`].
    pub fn listeners(&self, wanted: Vec<Wanted>, open: Duration) -> Result<Listeners, LoadError> {
        Listeners::open(&self.peer, wanted, open, self.tally.clone())
    }
}

/// A UDP socket that talks to that address only.
///
/// # Errors
/// The kernel gives none, or no way leads there.
pub fn socket_to(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any(at))?;
    socket.connect(at)?;
    Ok(socket)
}

/// The unspecified address of the same version of IP.
pub fn any(like: SocketAddr) -> SocketAddr {
    if like.is_ipv4() {
        ([0u8; 4], 0).into()
    } else {
        ([0u16; 8], 0).into()
    }
}
