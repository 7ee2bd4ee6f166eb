//! Packets of an interface as they pass, in both directions.

use crate::sys::ring::{self, Ring};
use measure::capture::LinkType;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io;
use std::os::fd::{AsFd, OwnedFd};

/// Size of the ring for packets that come while this program sleeps: at snaplen 192, 65 536 packets.
const RING: usize = 32 << 20;

/// Extent of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Taking {
    /// Most bytes of each packet.
    pub snaplen: usize,
    /// Size of the ring for packets that come while this program sleeps, bytes.
    pub ring: usize,
    /// True to take packets for other hosts as well.
    pub others: bool,
}

#[derive(Debug, thiserror::Error)]
pub enum SniffError {
    #[error("no interface \"{name}\" here. There are: {}", .known.join(", "))]
    NoInterface { name: String, known: Vec<String> },
    #[error(
        "cannot capture on \"{name}\": this user may not open a packet socket. Capturing needs CAP_NET_RAW: run as root, \
         or once `setcap cap_net_raw+ep` on this program; or read a pipe: sudo tcpdump -i {name} -s 128 -w - | tailback trace -"
    )]
    NotAllowed { name: String },
    #[error(
        "\"{name}\" is of a kind (hardware type {kind}) whose packets cannot be read here. Read a pipe instead: \
         tcpdump -i {name} -s 128 -w - | tailback trace -"
    )]
    Kind { name: String, kind: u16 },
    #[error("the interface \"{name}\" went down")]
    Down { name: String },
    #[error("cannot {what} on \"{name}\": {source}")]
    Kernel {
        what: &'static str,
        name: String,
        source: io::Error,
    },
}

/// Packet that passed.
#[derive(Clone, Copy, Debug)]
pub struct Passed<'a> {
    /// Kernel's stamp, UNIX ns.
    pub t_ns: i64,
    /// Length on the wire.
    pub original_len: u32,
    /// Captured bytes.
    pub data: &'a [u8],
    pub outgoing: bool,
}

/// Capture that runs until it is dropped.
pub struct Sniffer {
    socket: OwnedFd,
    ring: Ring,
    name: String,
    link: LinkType,
    /// True for loopback, where each packet passes twice: going out, and coming in.
    loopback: bool,
    snaplen: usize,
    /// Frame whose VLAN tag was put back.
    whole: Vec<u8>,
    seen: u64,
    dropped: u64,
}

/// Hardware kinds of linux/if_arp.h.
mod hardware {
    pub const ETHER: u16 = 1;
    pub const RAWIP: u16 = 519;
    pub const TUNNEL: u16 = 768;
    pub const TUNNEL6: u16 = 769;
    pub const LOOPBACK: u16 = 772;
    pub const NONE: u16 = 0xfffe;
}

impl Sniffer {
    /// Starts a capture; at most `snaplen` bytes of each packet are kept.
    ///
    /// # Errors
    /// An unknown interface, or missing rights.
    pub fn open(name: &str, snaplen: usize) -> Result<Sniffer, SniffError> {
        let all = Taking {
            snaplen,
            ring: RING,
            others: true,
        };
        Sniffer::taking(name, &all)
    }

    /// Starts a capture of this extent.
    ///
    /// # Errors
    /// An unknown interface, or missing rights.
    pub fn taking(name: &str, taking: &Taking) -> Result<Sniffer, SniffError> {
        let snaplen = taking.snaplen;
        let index = nix::net::if_::if_nametoindex(name).map_err(|_| SniffError::NoInterface {
            name: name.to_owned(),
            known: interfaces(),
        })?;
        let failed = |what: &'static str| {
            move |source: io::Error| match source.raw_os_error() {
                Some(libc::EPERM | libc::EACCES) => SniffError::NotAllowed { name: name.into() },
                _ => SniffError::Kernel {
                    what,
                    name: name.into(),
                    source,
                },
            }
        };
        let socket = ring::socket().map_err(failed("open a packet socket"))?;
        let ring =
            Ring::map(&socket, snaplen, taking.ring).map_err(failed("make a receive ring"))?;
        if taking.others {
            ring::receive_all(&socket, index).map_err(failed("see what is for others"))?;
        }
        let kind = ring::bind(&socket, index).map_err(failed("bind a packet socket"))?;
        let link = match kind {
            hardware::ETHER | hardware::LOOPBACK => LinkType::ETHERNET,
            hardware::NONE | hardware::RAWIP | hardware::TUNNEL | hardware::TUNNEL6 => {
                LinkType::RAW
            }
            kind => {
                return Err(SniffError::Kind {
                    name: name.into(),
                    kind,
                });
            }
        };
        Ok(Sniffer {
            socket,
            ring,
            name: name.to_owned(),
            link,
            loopback: kind == hardware::LOOPBACK,
            snaplen,
            whole: Vec::new(),
            seen: 0,
            dropped: 0,
        })
    }

    pub fn link(&self) -> LinkType {
        self.link
    }

    /// Waits for a packet, at most `most_ms` milliseconds.
    ///
    /// # Errors
    /// The interface went down or away.
    pub fn wait(&self, most_ms: u16) -> Result<(), SniffError> {
        if !self.ring.is_empty() {
            return Ok(());
        }
        let mut polled = [PollFd::new(self.socket.as_fd(), PollFlags::POLLIN)];
        match poll(&mut polled, PollTimeout::from(most_ms)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(e) => return Err(self.kernel("wait for packets", e.into())),
        }
        let said = polled[0].revents().unwrap_or(PollFlags::empty());
        if !said.contains(PollFlags::POLLERR) {
            return Ok(());
        }
        let error =
            nix::sys::socket::getsockopt(&self.socket, nix::sys::socket::sockopt::SocketError);
        match error {
            Ok(0) => Ok(()),
            Ok(libc::ENETDOWN | libc::ENODEV | libc::ENXIO) => Err(SniffError::Down {
                name: self.name.clone(),
            }),
            Ok(n) => Err(self.kernel("capture", io::Error::from_raw_os_error(n))),
            Err(e) => Err(self.kernel("capture", e.into())),
        }
    }

    fn kernel(&self, what: &'static str, source: io::Error) -> SniffError {
        SniffError::Kernel {
            what,
            name: self.name.clone(),
            source,
        }
    }

    /// Hands over the next packet; false if there is none yet.
    pub fn take(&mut self, f: impl FnOnce(&Passed<'_>)) -> bool {
        let (loopback, snaplen, whole) = (self.loopback, self.snaplen, &mut self.whole);
        self.ring.take(|frame| {
            if loopback && frame.outgoing {
                return;
            }
            let kept = &frame.data[..frame.data.len().min(snaplen)];
            let (data, tag) = match frame.vlan {
                // The tag stands between the addresses and the type.
                Some((protocol, tag)) if kept.len() >= 12 => {
                    whole.clear();
                    whole.extend(&kept[..12]);
                    whole.extend(protocol.to_be_bytes());
                    whole.extend(tag.to_be_bytes());
                    whole.extend(&kept[12..]);
                    (&whole[..], 4)
                }
                _ => (kept, 0),
            };
            f(&Passed {
                t_ns: frame.t_ns,
                original_len: frame.wire_len as u32 + tag,
                data,
                outgoing: frame.outgoing,
            });
        })
    }

    /// Packets that passed so far, and the number of those that the kernel dropped.
    ///
    /// # Errors
    /// Errors of the kernel.
    pub fn counts(&mut self) -> Result<(u64, u64), SniffError> {
        let now =
            ring::counts(&self.socket).map_err(|e| self.kernel("read the packet counters", e))?;
        // Reading sets the kernel's counters back.
        self.seen += u64::from(now.tp_packets);
        self.dropped += u64::from(now.tp_drops);
        Ok((self.seen, self.dropped))
    }
}

fn interfaces() -> Vec<String> {
    let all = nix::net::if_::if_nameindex();
    all.map_or(Vec::new(), |all| {
        all.iter()
            .map(|i| i.name().to_string_lossy().into_owned())
            .collect()
    })
}
