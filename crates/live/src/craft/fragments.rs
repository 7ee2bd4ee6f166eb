//! Counter of a train's fragments on this host's interface. A packet socket sees them before the kernel puts them
//! together, even those that it never puts together.

use crate::sys::option::{attach_filter, statement};
use base::program::{Fragments, Program};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket,
};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::thread::JoinHandle;

/// Largest datagram that is whole on every link of IPv6 (RFC 8200, Internet Protocol, Version 6, section 5).
const NEVER_CUT: u32 = 1232;
/// Time after a train's end in which the kernel's remaining packets are read.
const DRAIN: std::time::Duration = std::time::Duration::from_millis(50);
/// Bytes of each packet that are read.
const HEADERS: usize = 64;
const UDP: u8 = 17;
/// Next header value of a fragment header (RFC 8200 section 4.5).
const FRAGMENT: u8 = 44;

/// Packet sockets of this process: one for each network namespace, shared by all its trains.
static HUBS: Mutex<BTreeMap<Namespace, Weak<Hub>>> = Mutex::new(BTreeMap::new());

/// Device and inode of a network namespace.
type Namespace = (u64, u64);

/// Reader of one namespace's packet socket, for as long as a train needs it.
struct Hub {
    watched: Arc<Mutex<Vec<Arc<Watched>>>>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// Counts of one train.
struct Watched {
    pair: Pair,
    tally: Mutex<Tally>,
}

/// Counter of one train's fragments. Dropping it ends the count.
pub struct Watcher {
    hub: Arc<Hub>,
    watched: Arc<Watched>,
}

/// Addresses and ports of the counted packets.
struct Pair {
    from: IpAddr,
    to: IpAddr,
    from_port: u16,
    to_port: u16,
    /// True if the packets leave this host, which a packet socket can tell.
    outgoing: bool,
}

impl Watcher {
    /// Starts a counter. `None` if no datagram of the program can be fragmented, or if this process lacks CAP_NET_RAW.
    pub fn start(train: &UdpSocket, program: &Program, outgoing: bool) -> Option<Watcher> {
        if program.largest_payload() <= NEVER_CUT {
            return None;
        }
        let (here, there) = (train.local_addr().ok()?, train.peer_addr().ok()?);
        let (from, to) = if outgoing {
            (here, there)
        } else {
            (there, here)
        };
        let pair = Pair {
            from: from.ip().to_canonical(),
            to: to.ip().to_canonical(),
            from_port: from.port(),
            to_port: to.port(),
            outgoing,
        };
        let hub = Hub::of_this_namespace()?;
        let watched = Arc::new(Watched {
            pair,
            tally: Mutex::default(),
        });
        lock(&hub.watched).push(watched.clone());
        Some(Watcher { hub, watched })
    }

    /// Stops the count, after the kernel's remaining packets have been read.
    pub fn stop(self) -> Fragments {
        std::thread::sleep(DRAIN);
        lock(&self.watched.tally).fragments
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        lock(&self.hub.watched).retain(|w| !Arc::ptr_eq(w, &self.watched));
    }
}

impl Hub {
    fn of_this_namespace() -> Option<Arc<Hub>> {
        let about = std::fs::metadata("/proc/thread-self/ns/net").ok()?;
        let mut hubs = lock(&HUBS);
        hubs.retain(|_, hub| hub.strong_count() > 0);
        let key = (about.dev(), about.ino());
        if let Some(hub) = hubs.get(&key).and_then(Weak::upgrade) {
            return Some(hub);
        }
        let hub = Arc::new(Hub::open()?);
        hubs.insert(key, Arc::downgrade(&hub));
        Some(hub)
    }

    fn open() -> Option<Hub> {
        let fd = socket(
            AddressFamily::Packet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )
        .ok()?;
        only_udp(&fd).ok()?;
        nix::sys::socket::setsockopt(&fd, nix::sys::socket::sockopt::RcvBuf, &(4 << 20)).ok()?;
        crate::timestamp::set_receive_timeout(fd.as_raw_fd(), base::Duration::from_millis(20))
            .ok()?;
        let (watched, stop) = (Arc::<Mutex<Vec<Arc<Watched>>>>::default(), Arc::default());
        let (its, until) = (watched.clone(), Arc::<AtomicBool>::clone(&stop));
        let thread = std::thread::Builder::new()
            .name("fragments".into())
            .spawn(move || read(&fd, &its, &until))
            .ok()?;
        Some(Hub {
            watched,
            stop,
            thread: Mutex::new(Some(thread)),
        })
    }
}

impl Drop for Hub {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = lock(&self.thread).take().map(JoinHandle::join);
    }
}

/// Limits the socket to UDP and its fragments, so that the host's other traffic costs nothing here.
fn only_udp(fd: &OwnedFd) -> io::Result<()> {
    let byte = |at| statement(libc::BPF_LD | libc::BPF_B | libc::BPF_ABS, 0, 0, at);
    let is =
        |value, yes, no| statement(libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K, yes, no, value);
    let mut program = [
        byte(0),
        statement(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0, 0, 0xf0),
        is(0x40, 0, 2),
        byte(9),
        is(u32::from(UDP), 4, 5),
        is(0x60, 0, 4),
        byte(6),
        is(u32::from(UDP), 1, 0),
        is(u32::from(FRAGMENT), 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, HEADERS as u32),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    attach_filter(fd.as_raw_fd(), libc::SO_ATTACH_FILTER, &mut program)
}

/// Hands each packet to the trains of its direction, until told to stop.
fn read(fd: &OwnedFd, watched: &Mutex<Vec<Arc<Watched>>>, stop: &AtomicBool) {
    let mut buf = [0u8; HEADERS];
    while !stop.load(Ordering::Relaxed) {
        match recvfrom::<LinkAddr>(fd.as_raw_fd(), &mut buf) {
            Ok((n, from)) => {
                let leaves = from.is_some_and(|a| a.pkttype() == libc::PACKET_OUTGOING);
                for w in lock(watched).iter().filter(|w| w.pair.outgoing == leaves) {
                    lock(&w.tally).packet(&buf[..n], &w.pair);
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {}
            Err(_) => return,
        }
    }
}

fn lock<T>(m: &Mutex<T>) -> MutexGuard<'_, T> {
    m.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct Tally {
    fragments: Fragments,
    /// Payload bytes of the first fragment.
    first_bytes: u64,
}

impl Tally {
    fn packet(&mut self, ip: &[u8], pair: &Pair) {
        let Some((from, to, at, piece)) = (match ip.first().map(|b| b >> 4) {
            Some(4) => v4(ip),
            Some(6) => v6(ip),
            _ => None,
        }) else {
            return;
        };
        if (from, to) != (pair.from, pair.to) {
            return;
        }
        let ports = |at: usize| {
            let bytes = ip.get(at..at + 4)?;
            Some((
                u16::from_be_bytes([bytes[0], bytes[1]]),
                u16::from_be_bytes([bytes[2], bytes[3]]),
            ))
        };
        let ours = || ports(at) == Some((pair.from_port, pair.to_port));
        let f = &mut self.fragments;
        match piece {
            Piece::Whole if ours() => f.whole += 1,
            Piece::Whole => {}
            Piece::Part { offset: 0, bytes } => {
                if ours() {
                    f.first += 1;
                    self.first_bytes = bytes;
                }
            }
            // Only the first one has ports; between these two hosts others are hardly anybody else's.
            Piece::Part { offset, .. } => {
                if self.first_bytes == 0 || offset <= self.first_bytes {
                    f.second += 1;
                } else {
                    f.further += 1;
                }
            }
        }
    }
}

enum Piece {
    Whole,
    /// Offset of the part in its datagram, and its length, UDP header included.
    Part {
        offset: u64,
        bytes: u64,
    },
}

type Seen = (IpAddr, IpAddr, usize, Piece);

/// Reads an IPv4 packet (RFC 791, Internet Protocol, section 3.1).
fn v4(ip: &[u8]) -> Option<Seen> {
    let head = ip.get(..20)?;
    if head[9] != UDP {
        return None;
    }
    let word = u16::from_be_bytes([head[6], head[7]]);
    let (more, offset) = (word & 0x2000 != 0, u64::from(word & 0x1fff) * 8);
    let at = usize::from(head[0] & 0xf) * 4;
    let bytes = u64::from(u16::from_be_bytes([head[2], head[3]])).saturating_sub(at as u64);
    let address = |i: usize| IpAddr::from([head[i], head[i + 1], head[i + 2], head[i + 3]]);
    let piece = if more || offset > 0 {
        Piece::Part { offset, bytes }
    } else {
        Piece::Whole
    };
    Some((address(12), address(16), at, piece))
}

/// Reads an IPv6 packet (RFC 8200 sections 3 and 4.5).
fn v6(ip: &[u8]) -> Option<Seen> {
    let head = ip.get(..40)?;
    let address = |i: usize| -> Option<IpAddr> {
        let bytes: [u8; 16] = head[i..i + 16].try_into().ok()?;
        Some(IpAddr::from(bytes))
    };
    let (from, to) = (address(8)?, address(24)?);
    match head[6] {
        UDP => Some((from, to, 40, Piece::Whole)),
        FRAGMENT => {
            let part = ip.get(40..48)?;
            if part[0] != UDP {
                return None;
            }
            let offset = u64::from(u16::from_be_bytes([part[2], part[3]]) & 0xfff8);
            let bytes = u64::from(u16::from_be_bytes([head[4], head[5]])).saturating_sub(8);
            Some((from, to, 48, Piece::Part { offset, bytes }))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// Counts of many trains stay apart, although all of them share one packet socket.
    #[test]
    fn trains_share_a_socket_and_count_their_own() {
        let program: Program = "3 x 1400@1ms".parse().expect("a program");
        let sockets: Vec<(UdpSocket, UdpSocket)> = (0..64)
            .map(|_| {
                let far = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                let near = UdpSocket::bind("127.0.0.1:0").expect("a socket");
                near.connect(far.local_addr().expect("bound"))
                    .expect("loopback");
                (near, far)
            })
            .collect();
        let watchers: Vec<Watcher> = sockets
            .iter()
            .filter_map(|(near, _)| Watcher::start(near, &program, true))
            .collect();
        if watchers.is_empty() {
            eprintln!("without CAP_NET_RAW there is nothing to watch with");
            return;
        }
        assert_eq!(watchers.len(), 64);
        assert!(
            watchers
                .iter()
                .all(|w| Arc::ptr_eq(&w.hub, &watchers[0].hub))
        );
        for (n, (near, _)) in sockets.iter().enumerate() {
            for _ in 0..=n {
                near.send(&[7; 1400]).expect("sent");
            }
            // The socket holds what a busy machine has not read yet, but not all of them.
            std::thread::sleep(Duration::from_millis(5));
        }
        let seen = |w: &Watcher| lock(&w.watched.tally).fragments.whole;
        let all = (1..=64).sum();
        let late = Instant::now() + Duration::from_secs(10);
        while watchers.iter().map(seen).sum::<u64>() < all && Instant::now() < late {
            std::thread::sleep(DRAIN);
        }
        let hub = Arc::downgrade(&watchers[0].hub);
        for (n, watcher) in watchers.into_iter().enumerate() {
            assert_eq!(seen(&watcher), n as u64 + 1);
        }
        assert_eq!(
            hub.strong_count(),
            0,
            "the socket is closed with the last train"
        );
    }
}
