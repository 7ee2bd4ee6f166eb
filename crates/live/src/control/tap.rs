//! Answers of a server as they reach an interface, before its ingress redirects them: a shaper on an IFB interface then
//! holds them back, and the kernel stamps them anew behind it.

use crate::sys::option::{attach_filter, statement};
use crate::sys::ring;
use crate::timestamp::{self, Batch};
use nix::sys::socket::{AddressFamily, SockFlag, SockType, socket};
use std::collections::VecDeque;
use std::hash::{BuildHasher, RandomState};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, OwnedFd};

/// Most answers that wait for their match: those of ten seconds, one each 5 ms.
const MOST: usize = 2048;
const UDP: u32 = 17;
const UDP_HEADER: usize = 8;
const V6_HEADER: usize = 40;

/// Packet socket that sees the datagrams of one server.
pub(super) struct Tap {
    socket: OwnedFd,
    hasher: RandomState,
    /// Hash of a payload, and the time at which it came, UNIX ns.
    seen: VecDeque<(u64, i64)>,
}

impl Tap {
    /// Sees the datagrams of `server` that arrive at `interface` from now on.
    ///
    /// # Errors
    /// No such interface, or no right to open a packet socket.
    pub fn open(interface: &str, server: SocketAddr) -> io::Result<Tap> {
        let index = nix::net::if_::if_nametoindex(interface)?;
        let flags = SockFlag::SOCK_CLOEXEC | SockFlag::SOCK_NONBLOCK;
        let socket = socket(AddressFamily::Packet, SockType::Datagram, flags, None)?;
        let fd = socket.as_raw_fd();
        attach_filter(fd, libc::SO_ATTACH_FILTER, &mut only_from(server))?;
        timestamp::enable(fd, false)?;
        ring::bind(&socket, index)?;
        Ok(Tap {
            socket,
            hasher: RandomState::new(),
            seen: VecDeque::new(),
        })
    }

    /// Name of a payload, for [`Tap::came`].
    pub fn name(&self, payload: &[u8]) -> u64 {
        self.hasher.hash_one(payload)
    }

    /// Reads what has come since the last call.
    pub fn look(&mut self, batch: &mut Batch) {
        while let Ok(n) = batch.receive(self.socket.as_raw_fd(), libc::MSG_DONTWAIT) {
            for (received, packet) in batch.messages() {
                let payload = header_len(packet).and_then(|at| packet.get(at..));
                if let (Some(at), Some(payload)) = (received.wall_ns, payload) {
                    if self.seen.len() == MOST {
                        self.seen.pop_front();
                    }
                    self.seen.push_back((self.hasher.hash_one(payload), at));
                }
            }
            if n < 64 {
                return;
            }
        }
    }

    /// Time at which the payload of that name came, UNIX ns. Older ones are forgotten: answers keep their order.
    pub fn came(&mut self, name: u64) -> Option<i64> {
        let place = self.seen.iter().position(|s| s.0 == name)?;
        let (_, at) = self.seen[place];
        self.seen.drain(..=place);
        Some(at)
    }
}

/// Bytes before the payload of a UDP packet.
fn header_len(packet: &[u8]) -> Option<usize> {
    match packet.first()? >> 4 {
        4 => Some(usize::from(packet[0] & 0xf) * 4 + UDP_HEADER),
        6 => Some(V6_HEADER + UDP_HEADER),
        _ => None,
    }
}

/// Filter of UDP packets from that address and port.
fn only_from(server: SocketAddr) -> Vec<libc::sock_filter> {
    let load = |size, at| statement(libc::BPF_LD | size | libc::BPF_ABS, 0, 0, at);
    let ports = |mode, at| statement(libc::BPF_LD | libc::BPF_H | mode, 0, 0, at);
    // What a packet has to be: a load, and the value that it has to give.
    let mut wanted = vec![];
    let source = match server.ip() {
        IpAddr::V4(ip) => {
            wanted.push((load(libc::BPF_B, 9), UDP));
            wanted.push((load(libc::BPF_W, 12), ip.to_bits()));
            ports(libc::BPF_IND, 0)
        }
        IpAddr::V6(ip) => {
            wanted.push((load(libc::BPF_B, 6), UDP));
            let words = ip.octets();
            for (i, word) in words.chunks_exact(4).enumerate() {
                let word = u32::from_be_bytes([word[0], word[1], word[2], word[3]]);
                wanted.push((load(libc::BPF_W, 8 + 4 * i as u32), word));
            }
            ports(libc::BPF_ABS, V6_HEADER as u32)
        }
    };
    wanted.push((source, server.port().into()));
    let version = if server.is_ipv4() { 0x40 } else { 0x60 };
    let mut program = vec![
        // The length of an IPv4 header, from its first byte.
        statement(libc::BPF_LDX | libc::BPF_B | libc::BPF_MSH, 0, 0, 0),
        load(libc::BPF_B, 0),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf0),
    ];
    let is = |value, no| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, 0, no, value);
    // Each test jumps over the others, and over the statement that keeps the packet.
    let jump = |left: usize| (2 * left + 1) as u8;
    program.push(is(version, jump(wanted.len())));
    let count = wanted.len();
    for (i, (load, value)) in wanted.into_iter().enumerate() {
        program.push(load);
        program.push(is(value, jump(count - 1 - i)));
    }
    for kept in [timestamp::DATAGRAM as u32, 0] {
        program.push(statement(libc::BPF_RET | libc::BPF_K, 0, 0, kept));
    }
    program
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::UdpSocket;
    use std::time::{Duration, Instant};

    /// Number of answers that came, once there are `count` or a second is over.
    fn seen(tap: &mut Tap, count: usize) -> usize {
        let mut batch = Batch::new(64);
        let until = Instant::now() + Duration::from_secs(1);
        while tap.seen.len() < count && Instant::now() < until {
            tap.look(&mut batch);
            std::thread::sleep(Duration::from_millis(1));
        }
        tap.seen.len()
    }

    #[test]
    fn the_answers_of_one_server_are_seen_with_their_times_and_no_others() {
        for (address, other) in [("127.0.0.1:0", "127.0.0.2:0"), ("[::1]:0", "[::1]:0")] {
            let bind = |a: &str| UdpSocket::bind(a);
            let (Ok(server), Ok(other), Ok(client)) = (bind(address), bind(other), bind(address))
            else {
                continue;
            };
            let to = client.local_addr().expect("an address");
            let from = server.local_addr().expect("an address");
            let mut tap = match Tap::open("lo", from) {
                Ok(tap) => tap,
                Err(_) => return testkit::skip("packet sockets are not allowed"),
            };
            // The kernel's stamps begin a little later.
            std::thread::sleep(Duration::from_millis(50));
            let before = crate::clock::wall_ns();
            other.send_to(b"somebody else", to).expect("it is sent");
            for text in [b"one", b"two"] {
                server.send_to(text, to).expect("it is sent");
            }
            // Packets of the loopback interface pass twice: out, and in.
            assert_eq!(seen(&mut tap, 4), 4, "{address}");
            let at = tap.came(tap.name(b"one")).expect("it came");
            assert!(before <= at && at <= crate::clock::wall_ns());
            assert!(tap.came(tap.name(b"somebody else")).is_none());
            assert!(tap.came(tap.name(b"two")).is_some());
        }
    }
}
