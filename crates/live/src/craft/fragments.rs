//! Counts the fragments of a train on this host's interface, where they are still apart: a packet socket sees
//! those that are never put together again.

use crate::clock::mono_ns;
use base::program::{Fragments, Program};
use nix::errno::Errno;
use nix::sys::socket::{
    AddressFamily, LinkAddr, SockFlag, SockProtocol, SockType, recvfrom, socket,
};
use std::net::{IpAddr, UdpSocket};
use std::os::fd::{AsRawFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;

/// Datagrams of at most this size are whole on every link of IPv6 (RFC 8200, Internet Protocol, Version 6, section 5).
const NEVER_CUT: u32 = 1232;
/// How long it goes on reading after it was told to stop, at most.
const DRAIN_NS: i64 = 50_000_000;
const UDP: u8 = 17;
/// RFC 8200 section 4.5.
const FRAGMENT: u8 = 44;

/// Watchers at once in a process: each of them sees all packets of the host.
const MOST: usize = 4;
static RUNNING: AtomicUsize = AtomicUsize::new(0);

struct Running;

impl Running {
    fn take() -> Option<Running> {
        let one_more = |n: usize| (n < MOST).then_some(n + 1);
        let taken = RUNNING.fetch_update(Ordering::Relaxed, Ordering::Relaxed, one_more);
        taken.ok().map(|_| Running)
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        RUNNING.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Dropping it ends its thread.
pub struct Watcher {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<Fragments>>,
}

/// Whose packets are counted.
struct Pair {
    from: IpAddr,
    to: IpAddr,
    from_port: u16,
    to_port: u16,
    /// Whether they leave this host, which a packet socket tells apart.
    outgoing: bool,
}

impl Watcher {
    /// None where nothing of it can be cut, enough are watching already, or the host does not let us (CAP_NET_RAW).
    pub fn start(train: &UdpSocket, program: &Program, outgoing: bool) -> Option<Watcher> {
        if program.largest_payload() <= NEVER_CUT {
            return None;
        }
        let running = Running::take()?;
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
        let fd = socket(
            AddressFamily::Packet,
            SockType::Datagram,
            SockFlag::SOCK_CLOEXEC,
            SockProtocol::EthAll,
        )
        .ok()?;
        nix::sys::socket::setsockopt(&fd, nix::sys::socket::sockopt::RcvBuf, &(4 << 20)).ok()?;
        crate::timestamp::set_receive_timeout(fd.as_raw_fd(), base::Duration::from_millis(20))
            .ok()?;
        let stop = Arc::new(AtomicBool::new(false));
        let its = stop.clone();
        let thread = std::thread::Builder::new()
            .name("fragments".into())
            .spawn(move || {
                let _running = running;
                count(&fd, &pair, &its)
            })
            .ok()?;
        Some(Watcher {
            stop,
            thread: Some(thread),
        })
    }

    pub fn stop(mut self) -> Fragments {
        self.end()
    }

    fn end(&mut self) -> Fragments {
        self.stop.store(true, Ordering::Relaxed);
        let thread = self.thread.take();
        thread.and_then(|t| t.join().ok()).unwrap_or_default()
    }
}

impl Drop for Watcher {
    fn drop(&mut self) {
        self.end();
    }
}

fn count(fd: &OwnedFd, pair: &Pair, stop: &AtomicBool) -> Fragments {
    let mut tally = Tally::default();
    let mut buf = [0u8; 64];
    let mut until = None;
    loop {
        let got = recvfrom::<LinkAddr>(fd.as_raw_fd(), &mut buf);
        let asked = stop.load(Ordering::Relaxed);
        match got {
            Ok((n, from)) => {
                let leaves = from.is_some_and(|a| a.pkttype() == libc::PACKET_OUTGOING);
                if leaves == pair.outgoing {
                    tally.packet(&buf[..n], pair);
                }
            }
            Err(Errno::EAGAIN | Errno::EINTR) => {
                if asked {
                    return tally.fragments;
                }
            }
            Err(_) => return tally.fragments,
        }
        // What others send never pauses for long: what was there when it was told to stop is read by then.
        if asked && mono_ns() > *until.get_or_insert_with(|| mono_ns() + DRAIN_NS) {
            return tally.fragments;
        }
    }
}

#[derive(Default)]
struct Tally {
    fragments: Fragments,
    /// How many bytes a first fragment holds.
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
    /// Where it begins in the datagram, and how much of it this is, UDP header included.
    Part {
        offset: u64,
        bytes: u64,
    },
}

type Seen = (IpAddr, IpAddr, usize, Piece);

/// RFC 791, Internet Protocol, section 3.1.
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

/// RFC 8200 sections 3 and 4.5.
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
