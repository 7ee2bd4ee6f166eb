//! The emulator's end of a veth pair: frames come in through a ring of memory shared with the kernel
//! (packet(7), TPACKET_V2: unlike V3 it shows each frame at once), and go out many to a system call.

use super::EmulateError;
use super::header::ETHERNET;
use super::wire::raw;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU32, Ordering};

/// Memory of one ring: at 1 Gbit/s it holds what arrives in 60 ms and more.
const RING: usize = 16 << 20;
const BLOCK: usize = 1 << 16;
/// The ring's own header before each frame, with its alignment.
const MARGIN: usize = 128;
/// Messages of one system call; the kernel takes at most 1024.
const BATCH: usize = 256;

/// What a port lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortLosses {
    /// Frames that the kernel had no room for in the ring: this program was too late.
    pub ring_full: u64,
    /// Frames longer than the MTU: somebody switched an offload on again.
    pub oversized: u64,
    /// Frames that the kernel refused to send.
    pub not_sent: u64,
}

pub(super) struct Port {
    socket: OwnedFd,
    ring: Ring,
    name: String,
    longest: usize,
    losses: PortLosses,
    parts: Vec<libc::iovec>,
    messages: Vec<libc::mmsghdr>,
}

/// The mapping, and whose turn it is.
struct Ring {
    base: *mut u8,
    len: usize,
    frame: usize,
    next: usize,
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: `base` and `len` are those of the mapping made in `Ring::map`, and no frame outlives `self`.
        unsafe { libc::munmap(self.base.cast(), self.len) };
    }
}

impl Ring {
    fn map(socket: &OwnedFd, longest: usize) -> io::Result<Ring> {
        let frame = (longest + MARGIN).next_power_of_two();
        let request = libc::tpacket_req {
            tp_block_size: BLOCK.max(frame) as u32,
            tp_block_nr: (RING / BLOCK.max(frame)) as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (RING / frame) as u32,
        };
        set_option(socket, libc::PACKET_RX_RING, &request)?;
        // SAFETY: a fresh mapping at an address of the kernel's choice; it is unmapped in `drop`.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                RING,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED | libc::MAP_POPULATE,
                raw(socket),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring {
            base: base.cast(),
            len: RING,
            frame,
            next: 0,
        })
    }

    /// Hands the oldest frame to `f`, with its length on the wire and the kernel's stamp (wall time, ns),
    /// then gives the slot back. False where there is none.
    fn take(&mut self, f: impl FnOnce(&[u8], usize, i64)) -> bool {
        // SAFETY: `next` counts whole slots within the mapping, each of which starts with the header that
        // packet(7) describes. The kernel writes a slot only while its status word is TP_STATUS_KERNEL, which
        // it changes after the rest (read with Acquire) and we change back after the last use (Release).
        // `tp_mac` and `tp_snaplen` are the kernel's and lie within the slot, which the assert makes sure of.
        unsafe {
            let slot = self.base.add(self.next * self.frame);
            let header = slot.cast::<libc::tpacket2_hdr>();
            let status = AtomicU32::from_ptr(&raw mut (*header).tp_status);
            if status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0 {
                return false;
            }
            let (at, len) = (usize::from((*header).tp_mac), (*header).tp_snaplen as usize);
            assert!(at + len <= self.frame, "the kernel's frame leaves its slot");
            let stamp = i64::from((*header).tp_sec) * 1_000_000_000 + i64::from((*header).tp_nsec);
            f(
                std::slice::from_raw_parts(slot.add(at), len),
                (*header).tp_len as usize,
                stamp,
            );
            status.store(libc::TP_STATUS_KERNEL, Ordering::Release);
        }
        self.next = (self.next + 1) % (self.len / self.frame);
        true
    }

    fn is_empty(&self) -> bool {
        // SAFETY: as in `take`.
        let status = unsafe {
            AtomicU32::from_ptr(
                &raw mut (*self
                    .base
                    .add(self.next * self.frame)
                    .cast::<libc::tpacket2_hdr>())
                .tp_status,
            )
        };
        status.load(Ordering::Acquire) & libc::TP_STATUS_USER == 0
    }
}

impl Port {
    /// Opens the interface of that name in the calling thread's namespace.
    pub(super) fn open(interface: &str, mtu: u32) -> Result<Port, EmulateError> {
        let failed = |what: &str| {
            EmulateError::kernel(format!(
                "{what} for the emulator's interface \"{interface}\""
            ))
        };
        let index = nix::net::if_::if_nametoindex(interface).map_err(EmulateError::errno(
            format!("find the emulator's interface \"{interface}\""),
        ))?;
        let longest = mtu as usize + ETHERNET;
        // Protocol 0: nothing comes in before the ring stands and the socket is bound to its interface.
        // SAFETY: the call has no pointers; a socket that it returns is ours alone.
        let socket = unsafe {
            let fd = libc::socket(
                libc::AF_PACKET,
                libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK,
                0,
            );
            if fd < 0 {
                return Err(failed("open a packet socket")(io::Error::last_os_error()));
            }
            OwnedFd::from_raw_fd(fd)
        };
        set_option(
            &socket,
            libc::PACKET_VERSION,
            &(libc::tpacket_versions::TPACKET_V2 as libc::c_int),
        )
        .map_err(failed("choose the ring's version"))?;
        set_option(&socket, libc::PACKET_IGNORE_OUTGOING, &1i32)
            .map_err(failed("leave out the emulator's own frames"))?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1i32)
            .map_err(failed("pass by the kernel's own queue"))?;
        let ring = Ring::map(&socket, longest).map_err(failed("make a receive ring"))?;
        // SAFETY: `sockaddr_ll` is plain data, for which all zeroes is a value.
        let mut address: libc::sockaddr_ll = unsafe { std::mem::zeroed() };
        address.sll_family = libc::AF_PACKET as u16;
        address.sll_protocol = (libc::ETH_P_ALL as u16).to_be();
        address.sll_ifindex = index as i32;
        // SAFETY: the address is valid for the length given and is only read.
        let bound = unsafe {
            libc::bind(
                raw(&socket),
                (&raw const address).cast(),
                size_of_val(&address) as u32,
            )
        };
        if bound < 0 {
            return Err(failed("bind a packet socket")(io::Error::last_os_error()));
        }
        Ok(Port {
            socket,
            ring,
            name: interface.to_string(),
            longest,
            losses: PortLosses::default(),
            parts: Vec::new(),
            messages: Vec::new(),
        })
    }

    /// Hands over all that has arrived: each frame with the kernel's stamp, wall time in ns.
    pub(super) fn receive(&mut self, mut f: impl FnMut(&[u8], i64)) {
        let (longest, oversized) = (self.longest, &mut self.losses.oversized);
        // At most one turn of the ring, so that a flood cannot keep us here.
        for _ in 0..self.ring.len / self.ring.frame {
            let more = self.ring.take(|frame, wire_len, stamp| {
                if wire_len > longest || frame.len() < wire_len {
                    *oversized += 1
                } else {
                    f(frame, stamp)
                }
            });
            if !more {
                return;
            }
        }
    }

    pub(super) fn has_frames(&self) -> bool {
        !self.ring.is_empty()
    }

    /// Sends the frames in order.
    pub(super) fn send<'a>(&mut self, frames: impl Iterator<Item = &'a [u8]>) {
        let mut frames = frames.peekable();
        while frames.peek().is_some() {
            self.parts.clear();
            self.parts
                .extend(frames.by_ref().take(BATCH).map(|f| libc::iovec {
                    iov_base: f.as_ptr().cast_mut().cast(),
                    iov_len: f.len(),
                }));
            self.messages.clear();
            for part in &mut self.parts {
                // SAFETY: `mmsghdr` is plain data, for which all zeroes is a value: no address, no control data.
                let mut message: libc::mmsghdr = unsafe { std::mem::zeroed() };
                message.msg_hdr.msg_iov = part;
                message.msg_hdr.msg_iovlen = 1;
                self.messages.push(message);
            }
            let mut done = 0;
            while done < self.messages.len() {
                let rest = &mut self.messages[done..];
                // SAFETY: each message points to one part, each part to a frame that is borrowed until this function
                // returns and that the kernel only reads; neither vector changes meanwhile.
                let sent = unsafe {
                    libc::sendmmsg(raw(&self.socket), rest.as_mut_ptr(), rest.len() as u32, 0)
                };
                if sent > 0 {
                    done += sent as usize;
                } else {
                    // The first message failed, the others were not tried.
                    self.losses.not_sent += 1;
                    done += 1;
                }
            }
        }
    }

    /// With the kernel's count of what did not fit into the ring.
    pub(super) fn losses(&mut self) -> Result<PortLosses, EmulateError> {
        let mut counts = libc::tpacket_stats {
            tp_packets: 0,
            tp_drops: 0,
        };
        let mut len = size_of_val(&counts) as libc::socklen_t;
        // SAFETY: the kernel writes at most `len` bytes of `counts`, both of which live across the call.
        let done = unsafe {
            libc::getsockopt(
                raw(&self.socket),
                libc::SOL_PACKET,
                libc::PACKET_STATISTICS,
                (&raw mut counts).cast(),
                &raw mut len,
            )
        };
        if done < 0 {
            return Err(EmulateError::kernel(format!(
                "read the packet counters of \"{}\"",
                self.name
            ))(io::Error::last_os_error()));
        }
        // Reading sets the kernel's counters back.
        self.losses.ring_full += u64::from(counts.tp_drops);
        Ok(self.losses)
    }
}

impl AsFd for Port {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.socket.as_fd()
    }
}

fn set_option<T>(socket: &OwnedFd, option: libc::c_int, value: &T) -> io::Result<()> {
    // SAFETY: the kernel reads the value for its whole length, and every caller passes the plain type of its option.
    let done = unsafe {
        libc::setsockopt(
            raw(socket),
            libc::SOL_PACKET,
            option,
            ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    };
    if done < 0 {
        Err(io::Error::last_os_error())
    } else {
        Ok(())
    }
}
