//! Emulator's end of a veth pair: frames come in through a ring of memory shared with the kernel, and go out many to a
//! system call.

use super::EmulateError;
use super::header::ETHERNET;
use crate::sys::message::Frames;
use crate::sys::ring::{self, Ring};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// Size of one ring: at 1 Gbit/s it holds the frames of 60 ms and more.
const RING: usize = 16 << 20;

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
    batch: Frames,
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
        let socket = ring::socket().map_err(failed("open a packet socket"))?;
        ring::set_int(&socket, libc::PACKET_IGNORE_OUTGOING, 1)
            .map_err(failed("leave out the emulator's own frames"))?;
        ring::set_int(&socket, libc::PACKET_QDISC_BYPASS, 1)
            .map_err(failed("pass by the kernel's own queue"))?;
        let ring = Ring::map(&socket, longest, RING).map_err(failed("make a receive ring"))?;
        ring::bind(&socket, index).map_err(failed("bind a packet socket"))?;
        Ok(Port {
            socket,
            ring,
            name: interface.to_string(),
            longest,
            losses: PortLosses::default(),
            batch: Frames::default(),
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
        self.losses.not_sent += self.batch.send(self.socket.as_raw_fd(), frames);
    }

    /// Losses, with the kernel's count of frames that did not fit into the ring.
    pub(super) fn losses(&mut self) -> Result<PortLosses, EmulateError> {
        let counts = ring::counts(&self.socket).map_err(EmulateError::kernel(format!(
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
