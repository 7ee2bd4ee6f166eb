//! Traffic of a run, counted while it runs.

use crate::load::kernel::TcpInfo;
use base::noted::Noted;
use base::noted::own::OwnTraffic;
use base::record::Event;
use base::{Bytes, Duration};
use std::io;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Largest IP packet on a usual link.
const LARGEST: u64 = 1500;
/// Size of a SYN with its usual options, without the IP header.
const SYN: u64 = 40;
/// TCP header without options.
const RESET: u64 = 20;

fn ip_header(far: SocketAddr) -> u64 {
    if far.ip().to_canonical().is_ipv4() {
        20
    } else {
        40
    }
}

/// Whole IP packets that went over the line on our behalf, both directions together, as this end saw them: what it sent,
/// also where it was lost later, and what reached it. Of connections the kernel knows it (`TcpInfo::passed`); the packets
/// that end one, and the blocks of selective acknowledgements, are not in that.
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

    /// A message of ICMP of that length, its own header included, to or from a host of that version of IP.
    pub fn icmp(&self, like: SocketAddr, len: usize) {
        self.add(1, Bytes::new(ip_header(like) + len as u64));
    }

    /// An error of ICMP that quotes so much payload of a datagram to there.
    pub fn icmp_error(&self, far: SocketAddr, quoted: usize) {
        self.icmp(far, 8 + ip_header(far) as usize + 8 + quoted);
    }

    /// All of a connection so far, once.
    pub fn connection(&self, stream: &TcpStream) {
        if let Ok(far) = stream.peer_addr() {
            self.follow(far).look(stream);
        }
    }

    /// A connection to there, from its beginning.
    pub fn follow(&self, far: SocketAddr) -> Followed {
        Followed {
            tally: self.clone(),
            ip_header: ip_header(far),
            packets: 0,
            bytes: 0,
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
        let note = OwnTraffic {
            packets: self.packets(),
            bytes: self.bytes().get(),
        };
        (note.packets > 0).then(|| note.event(t_ns, "this run"))
    }
}

/// A connection that is counted while it goes on.
#[derive(Debug)]
pub struct Followed {
    tally: Tally,
    ip_header: u64,
    packets: u64,
    bytes: u64,
}

impl Followed {
    /// Counts what has passed since the last time.
    pub fn count(&mut self, info: &TcpInfo) {
        let (packets, payload) = info.passed();
        let bytes = payload + packets * (self.ip_header + info.header_bytes());
        let more = Bytes::new(bytes.saturating_sub(self.bytes));
        self.tally.add(packets.saturating_sub(self.packets), more);
        (self.packets, self.bytes) = (packets, bytes);
    }

    pub fn look(&mut self, stream: &TcpStream) {
        if let Ok(info) = TcpInfo::read(stream) {
            self.count(&info);
        }
    }

    /// Counts packets that were in flight to us when we reset the connection: they still arrive, and each is answered with
    /// another reset.
    pub fn still_coming(&self, in_flight: u64, packet: u64) {
        if packet > 0 {
            let packets = in_flight.div_ceil(packet);
            let headers = packets * (2 * self.ip_header + RESET + 32);
            self.tally.add(2 * packets, Bytes::new(in_flight + headers));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn datagrams_are_counted_with_their_headers_and_in_pieces() {
        let v4: SocketAddr = "192.0.2.1:7".parse().expect("an address");
        let v6: SocketAddr = "[2001:db8::1]:7".parse().expect("an address");
        for (far, payload, packets, bytes) in [
            (v4, 100, 1, 128),
            (v6, 100, 1, 148),
            (v4, 1472, 1, 1500),
            (v4, 1473, 2, 1473 + 8 + 40),
        ] {
            let tally = Tally::default();
            tally.datagram(far, payload);
            assert_eq!((tally.packets(), tally.bytes().get()), (packets, bytes));
        }
        let tally = Tally::default();
        tally.icmp_error(v4, 24);
        assert_eq!(tally.bytes().get(), 20 + 8 + 20 + 8 + 24);
    }
}
