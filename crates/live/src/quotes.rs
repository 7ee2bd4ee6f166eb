//! ICMP errors about datagrams of this host, by raw sockets (CAP_NET_RAW).

use crate::sys::message;
use crate::timestamp::only_icmp;
use measure::quote::Quote;
use socket2::{Domain, Protocol, Socket, Type};
use std::io;
use std::os::fd::AsRawFd;

/// Longest ICMP error that is read whole: what RFC 1812 section 4.3.2.3 lets a router send, and the header.
const MOST: usize = 1500;

/// Raw sockets that hear ICMP errors over both versions of IP.
pub struct Quotes {
    sockets: Vec<Socket>,
}

impl Quotes {
    /// Begins to hear.
    ///
    /// # Errors
    /// The reason why this host may not.
    pub fn open() -> Result<Quotes, String> {
        let v4 = open(false).map_err(|e| match e.kind() {
            io::ErrorKind::PermissionDenied => {
                "raw sockets are not permitted: run as root, or with CAP_NET_RAW".to_owned()
            }
            _ => format!("no raw socket for ICMP: {e}"),
        })?;
        // A host without IPv6 has no such socket, and no such packets.
        let v6 = open(true).ok();
        Ok(Quotes {
            sockets: std::iter::once(v4).chain(v6).collect(),
        })
    }

    /// Quotes that have come since the last call.
    pub fn take(&mut self) -> Vec<Quote> {
        let mut quotes = Vec::new();
        let mut buf = [0; MOST];
        for socket in &self.sockets {
            // The socket does not block: an error ends what is there.
            while let Ok(received) = message::receive(socket.as_raw_fd(), &mut buf) {
                let from = received.from.map(|f| f.ip());
                quotes.extend(from.and_then(|from| Quote::read(&buf[..received.len], from)));
            }
        }
        quotes
    }
}

fn open(v6: bool) -> io::Result<Socket> {
    let (domain, protocol) = match v6 {
        true => (Domain::IPV6, Protocol::ICMPV6),
        false => (Domain::IPV4, Protocol::ICMPV4),
    };
    let socket = Socket::new(domain, Type::RAW, Some(protocol))?;
    socket.set_nonblocking(true)?;
    // Destination unreachable and time exceeded.
    only_icmp(socket.as_raw_fd(), v6, if v6 { &[1, 3] } else { &[3, 11] })?;
    Ok(socket)
}
