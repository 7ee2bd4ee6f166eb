//! Pump: moves bytes as fast as a connection takes them, with samples on time. Both ends use it: the client's upload
//! and the server's download are one loop, as are the client's download and the server's sink.

use super::ceiling::Gate;
use super::kernel::{TcpInfo, set_notsent_lowat};
pub use super::payload::{End, Payload};
use crate::clock::{mono_ns, timespec};
use base::Duration;
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::socket::{MsgFlags, recv, send};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, AsRawFd};
use std::sync::atomic::{AtomicBool, Ordering};

/// Longest wait before the stop flag is checked.
const TICK_NS: i64 = 50_000_000;
/// Unsent data that a socket may hold, as time at the recent rate. It bridges a busy host's pauses, and limits the data
/// that a close drops.
const UNSENT_NS: u128 = 50_000_000;
/// Event: the far end has closed its side. A sender that reads nothing learns it by this.
pub const PEER_DONE: PollFlags = PollFlags::from_bits_retain(libc::POLLRDHUP);
const UNSENT_MIN: u64 = 16 << 10;
const UNSENT_MAX: u64 = 2 << 20;

/// Limit on the data that wait in a sender's socket, which follows the rate.
#[derive(Default)]
pub struct Unsent(u32);

impl Unsent {
    /// Adapts the limit to the rate that the kernel has measured.
    pub fn follow(&mut self, socket: &TcpStream, info: &TcpInfo) {
        let rate = info.sender().delivery_rate_bps.unwrap_or(1_000_000);
        let fits = (u128::from(rate) * UNSENT_NS / 8_000_000_000) as u64;
        let wanted = fits.clamp(UNSENT_MIN, UNSENT_MAX) as u32;
        // Not at every wobble of the rate.
        if wanted > self.0 || wanted < self.0 / 4 {
            self.0 = wanted;
            // An old kernel without it keeps its autotuned buffer.
            let _ = set_notsent_lowat(socket, wanted);
        }
    }
}

/// Flow at one end.
pub struct Pump<'a> {
    pub socket: &'a TcpStream,
    /// Monotonic time of the end.
    pub until: i64,
    pub sample: Duration,
    /// Longest time without progress.
    pub patience: Duration,
    /// Rate limit of this host; none at a client.
    pub gate: Option<&'a Gate<'a>>,
    pub stop: &'a AtomicBool,
}

/// Waits for `events`, for at most 50 ms. Returns those that occurred; [`PEER_DONE`] alone if that is among them.
pub fn wait(socket: &impl AsFd, events: PollFlags, ns: i64) -> PollFlags {
    let mut fds = [PollFd::new(socket.as_fd(), events)];
    let timeout = timespec(ns.clamp(0, TICK_NS));
    match ppoll(&mut fds, Some(timeout), None) {
        // What nix has no name for it does not tell, and that is the one flag of ours.
        Ok(n) if n > 0 => fds[0].revents().unwrap_or(PEER_DONE),
        _ => PollFlags::empty(),
    }
}

pub fn ended(e: Errno) -> End {
    match e {
        Errno::ECONNRESET | Errno::EPIPE => End::PeerClosed,
        other => End::Failed(other.into()),
    }
}

impl Pump<'_> {
    /// Time of the next sample, on deadlines that do not drift; a missed one is left out.
    fn next_after(&self, due: i64, now: i64) -> i64 {
        let step = self.sample.as_nanos().max(1_000_000) as i64;
        due + ((now - due) / step + 1) * step
    }

    /// Waits until the next sample at most while the rate limit is reached. True if it waited.
    fn held(&self, now: i64, due: i64) -> bool {
        let most = (due.min(self.until) - now).clamp(1_000_000, TICK_NS);
        self.gate.is_some_and(|g| g.sleeps(now, most))
    }

    fn book(&self, now: i64, bytes: usize) {
        if let Some(gate) = self.gate {
            gate.book(now, bytes as u64);
        }
    }

    fn must_end(&self, now: i64, moved: i64) -> Option<End> {
        if self.stop.load(Ordering::Relaxed) {
            Some(End::Stopped)
        } else if now >= self.until {
            Some(End::TimeUp)
        } else if now - moved > self.patience.as_nanos() as i64 {
            Some(End::Stalled)
        } else {
            None
        }
    }

    /// Sends until the end; `on_sample` gets the monotonic time, the bytes that the socket has taken, and TCP_INFO, and once
    /// more at the very end.
    pub fn send(
        &self,
        payload: &Payload,
        on_sample: &mut dyn FnMut(i64, u64, &TcpInfo) -> ControlFlow<()>,
    ) -> End {
        let fd = self.socket.as_raw_fd();
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let mut due = mono_ns();
        let mut moved = due;
        let mut place = 0usize;
        let (mut unsent, mut delivered) = (Unsent::default(), 0);
        let mut sample = |now, taken| match TcpInfo::read_after(self.socket, &mut delivered) {
            Ok(info) => {
                unsent.follow(self.socket, &info);
                on_sample(now, taken, &info)
            }
            Err(_) => ControlFlow::Continue(()),
        };
        let end = loop {
            let now = mono_ns();
            if let Some(end) = self.must_end(now, moved) {
                break end;
            }
            if now >= due {
                due = self.next_after(due, now);
                if sample(now, place as u64).is_break() {
                    break End::Enough;
                }
                if wait(self.socket, PEER_DONE, 0).intersects(PEER_DONE) {
                    break End::PeerClosed;
                }
            }
            if self.held(now, due) {
                continue;
            }
            let chunk = payload.chunk(place);
            let most = self
                .gate
                .map_or(chunk.len(), |g| g.chunk().min(chunk.len()));
            match send(fd, &chunk[..most], flags) {
                Ok(n) => {
                    self.book(now, n);
                    place += n;
                    moved = now;
                }
                Err(Errno::EAGAIN) => {
                    let seen = wait(
                        self.socket,
                        PollFlags::POLLOUT | PEER_DONE,
                        due.min(self.until) - now,
                    );
                    if seen.intersects(PEER_DONE | PollFlags::POLLHUP) {
                        break End::PeerClosed;
                    }
                }
                Err(Errno::EINTR) => {}
                Err(e) => break ended(e),
            }
        };
        let _ = sample(mono_ns(), place as u64);
        end
    }

    /// Discards received bytes inside the kernel; `on_sample` gets the monotonic time and the bytes so far, and once
    /// more at the very end.
    pub fn receive(&self, on_sample: &mut dyn FnMut(i64, u64) -> ControlFlow<()>) -> End {
        let fd = self.socket.as_raw_fd();
        // tcp(7): with MSG_TRUNC the bytes are discarded and the buffer is left alone, so that its pages
        // are never even touched.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let mut nowhere = vec![0u8; 1 << 20];
        let mut due = mono_ns();
        let mut moved = due;
        let mut total = 0u64;
        let end = loop {
            let now = mono_ns();
            if let Some(end) = self.must_end(now, moved) {
                break end;
            }
            if now >= due {
                due = self.next_after(due, now);
                if on_sample(now, total).is_break() {
                    break End::Enough;
                }
            }
            if self.held(now, due) {
                continue;
            }
            let most = self
                .gate
                .map_or(nowhere.len(), |g| g.chunk().min(nowhere.len()));
            match recv(fd, &mut nowhere[..most], flags) {
                Ok(0) => break End::PeerClosed,
                Ok(n) => {
                    self.book(now, n);
                    total += n as u64;
                    moved = now;
                }
                Err(Errno::EAGAIN) => {
                    wait(self.socket, PollFlags::POLLIN, due.min(self.until) - now);
                }
                Err(Errno::EINTR) => {}
                Err(e) => break ended(e),
            }
        };
        let _ = on_sample(mono_ns(), total);
        end
    }
}
