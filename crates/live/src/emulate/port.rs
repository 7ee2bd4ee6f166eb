//! Emulator's end of a veth pair: frames come in through a ring of memory shared with the kernel, and go out many to a
//! system call.

use super::EmulateError;
use super::header::ETHERNET;
use super::wire::raw;
use crate::ring::{Ring, set_option};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Size of one ring: at 1 Gbit/s it holds the frames of 60 ms and more.
const RING: usize = 16 << 20;
/// Messages per system call; the kernel takes at most 1024.
const BATCH: usize = 256;

/// Losses of a port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct PortLosses {
    /// Frames that did not fit into the ring: this program was too late.
    pub ring_full: u64,
    /// Frames longer than the MTU: an offload was switched on again.
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

impl Port {
    /// Opens the named interface in the calling thread's namespace.
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
        let socket = crate::ring::socket().map_err(failed("open a packet socket"))?;
        set_option(&socket, libc::PACKET_IGNORE_OUTGOING, &1i32)
            .map_err(failed("leave out the emulator's own frames"))?;
        set_option(&socket, libc::PACKET_QDISC_BYPASS, &1i32)
            .map_err(failed("pass by the kernel's own queue"))?;
        let ring = Ring::map(&socket, longest, RING).map_err(failed("make a receive ring"))?;
        crate::ring::bind(&socket, index).map_err(failed("bind a packet socket"))?;
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

    /// Hands over all arrived frames, each with the kernel's stamp, wall time in ns.
    pub(super) fn receive(&mut self, mut f: impl FnMut(&[u8], i64)) {
        let (longest, oversized) = (self.longest, &mut self.losses.oversized);
        // At most one turn of the ring, so that a flood cannot keep us here.
        for _ in 0..self.ring.frames() {
            let more = self.ring.take(|frame| {
                if frame.wire_len > longest || frame.data.len() < frame.wire_len {
                    *oversized += 1
                } else {
                    f(frame.data, frame.t_ns)
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

    /// Sends frames in order.
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

    /// Losses, with the kernel's count of frames that did not fit into the ring.
    pub(super) fn losses(&mut self) -> Result<PortLosses, EmulateError> {
        let counts = crate::ring::counts(&self.socket).map_err(EmulateError::kernel(format!(
            "read the packet counters of \"{}\"",
            self.name
        )))?;
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
