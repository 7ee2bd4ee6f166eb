//! Datagrams at a rate: sent at absolute deadlines, numbered, and counted on arrival.

use super::ceiling::{Gate, HEADERS};
use super::pump::{End, PEER_DONE, Payload, wait};
use crate::clock::mono_ns;
use crate::sys::message;
use base::{BitsPerSec, Bytes, Duration};
use measure::control::DatagramCount;
use measure::control::datagram::{HEADER_LEN, HELLO_LEN, Header, Message};
use measure::control::inbox::PROOF_EVERY_NS;
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv};
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Lateness above which the schedule is shifted: a burst to catch up would be another load.
const MOST_BEHIND_NS: i64 = 10_000_000;
/// Shortest sleep: datagrams that come due within it leave together.
const BATCH_NS: i64 = 200_000;
/// Longest wait before the stop flag is checked.
const TICK_NS: i64 = 50_000_000;
/// Interval at which the sender asks for its rate.
const RATE_EVERY_NS: i64 = 10_000_000;

/// Poll events that show that a flow's TCP connection is over.
const GONE: PollFlags = PEER_DONE
    .union(PollFlags::POLLHUP)
    .union(PollFlags::POLLERR);

/// IP and UDP headers of a datagram.
pub fn headers(to: SocketAddr) -> u64 {
    if to.ip().to_canonical().is_ipv4() {
        28
    } else {
        48
    }
}

pub use measure::cadence::payload_for;

/// Input of one flow of datagrams at either end.
pub struct Paced<'a> {
    pub socket: &'a UdpSocket,
    /// TCP connection that permits the flow: when it ends, the flow ends.
    pub control: &'a TcpStream,
    pub token: u64,
    /// Monotonic time of the end.
    pub until: i64,
    pub sample: Duration,
    pub patience: Duration,
    /// Rate limit of this host; none at a client.
    pub gate: Option<&'a Gate<'a>>,
    pub stop: &'a AtomicBool,
}

impl Paced<'_> {
    fn must_end(&self, now: i64) -> Option<End> {
        if self.stop.load(Ordering::Relaxed) {
            Some(End::Stopped)
        } else if now >= self.until {
            Some(End::TimeUp)
        } else {
            None
        }
    }

    fn next_after(&self, due: i64, now: i64) -> i64 {
        let step = self.sample.as_nanos().max(1_000_000) as i64;
        due + ((now - due) / step + 1) * step
    }

    fn control_gone(&self) -> bool {
        wait(self.control, PEER_DONE, 0).intersects(GONE)
    }

    /// Waits for the end, sampling the counts of others.
    pub fn idle(&self, on_sample: &mut dyn FnMut(i64) -> ControlFlow<()>) -> End {
        let mut due = mono_ns();
        let end = loop {
            let now = mono_ns();
            if let Some(end) = self.must_end(now) {
                break end;
            }
            if now >= due {
                due = self.next_after(due, now);
                if on_sample(now).is_break() {
                    return End::Enough;
                }
            }
            let seen = wait(self.control, PEER_DONE, due.min(self.until) - now);
            if seen.intersects(GONE) {
                break End::PeerClosed;
            }
        };
        let _ = on_sample(mono_ns());
        end
    }

    /// Sends to this address from this local one, or to the address that the socket is connected to. `rate` is of whole IP packets. It is asked at intervals,
    /// with the monotonic time and the number sent: zero is a pause, and none is the end. `on_sample` gets the same
    /// arguments.
    pub fn send(
        &self,
        to: Option<(SocketAddr, IpAddr)>,
        rate: &mut dyn FnMut(i64, u64) -> Option<BitsPerSec>,
        payload_bytes: u16,
        filling: &Payload,
        on_sample: &mut dyn FnMut(i64, u64) -> ControlFlow<()>,
    ) -> End {
        let far = to.map_or_else(|| self.socket.peer_addr(), |(far, _)| Ok(far));
        let far = match far {
            Ok(a) => a,
            Err(e) => return End::Failed(e),
        };
        let packet = Bytes::new(u64::from(payload_bytes) + headers(far));
        let gap_at = |rate| {
            let gap = packet.serialization_delay_ceil(rate).as_nanos();
            gap.clamp(1, i64::MAX as u64 / 4) as i64
        };
        let (mut gap, mut paused, mut rate_due) = (TICK_NS, true, 0);
        let mut bytes = filling.chunk(0)[..usize::from(payload_bytes).max(HEADER_LEN)].to_vec();
        let mut sample_due = mono_ns();
        let mut due = sample_due;
        let mut sent = 0u64;
        let end = loop {
            let now = mono_ns();
            if let Some(end) = self.must_end(now) {
                break end;
            }
            if now >= sample_due {
                sample_due = self.next_after(sample_due, now);
                if on_sample(now, sent).is_break() {
                    break End::Enough;
                }
                if self.control_gone() {
                    break End::PeerClosed;
                }
            }
            if now >= rate_due {
                rate_due = now + RATE_EVERY_NS;
                match rate(now, sent) {
                    None => break End::Stalled,
                    Some(BitsPerSec::ZERO) => paused = true,
                    Some(rate) => {
                        if paused {
                            due = now;
                        }
                        (gap, paused) = (gap_at(rate), false);
                    }
                }
            }
            if paused {
                std::thread::sleep(Duration::from_nanos(RATE_EVERY_NS as u64).to_std());
                continue;
            }
            if now < due {
                let sleep = (due - now).max(BATCH_NS).min(sample_due - now).min(TICK_NS);
                std::thread::sleep(Duration::from_nanos(sleep.max(0) as u64).to_std());
                continue;
            }
            if self.gate.is_some_and(|g| g.sleeps(now, RATE_EVERY_NS)) {
                continue;
            }
            if now - due > MOST_BEHIND_NS {
                due = now;
            }
            let header = Header {
                token: self.token,
                seq: sent,
            };
            bytes[..HEADER_LEN].copy_from_slice(&header.encode());
            let fd = self.socket.as_raw_fd();
            let done = match to {
                Some((far, here)) => message::send_to(fd, &bytes, far, Some(here), 0),
                None => message::send(fd, &bytes),
            };
            match done.map_err(|e| (e.raw_os_error().map(Errno::from_raw), e)) {
                Ok(()) => {
                    if let Some(gate) = self.gate {
                        gate.book(now, bytes.len() as u64 + HEADERS);
                    }
                    sent += 1;
                    due += gap;
                }
                // This host's own queue is full: it is the bottleneck, and what was not sent has no number.
                Err((Some(Errno::EAGAIN | Errno::ENOBUFS), _)) => due = now + gap.max(1_000_000),
                Err((Some(Errno::EINTR), _)) => {}
                // The answer to an earlier datagram: nobody listens there any more.
                Err((Some(Errno::ECONNREFUSED), _)) => break End::PeerClosed,
                Err((_, e)) => break End::Failed(e),
            }
        };
        let _ = on_sample(mono_ns(), sent);
        end
    }

    /// Receives on a connected socket; `on_sample` gets the monotonic time, the payload bytes so far and the count.
    /// Meanwhile it shows the far end that it receives.
    pub fn receive(
        &self,
        on_sample: &mut dyn FnMut(i64, u64, &DatagramCount) -> ControlFlow<()>,
    ) -> End {
        let hello = Message::Hello.encode(self.token);
        let mut cookie = None;
        let mut buf = [0u8; HELLO_LEN];
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let mut count = DatagramCount::default();
        let mut total = 0u64;
        let mut due = mono_ns();
        let mut moved = due;
        let mut hello_due = due;
        let end = loop {
            let now = mono_ns();
            if let Some(end) = self.must_end(now) {
                break end;
            }
            if now - moved > self.patience.as_nanos() as i64 {
                break End::Stalled;
            }
            if now >= due {
                due = self.next_after(due, now);
                if on_sample(now, total, &count).is_break() {
                    break End::Enough;
                }
                if self.control_gone() {
                    break End::PeerClosed;
                }
            }
            if now >= hello_due {
                hello_due = now + PROOF_EVERY_NS;
                // Lost or refused, the next one will tell.
                let _ = match cookie {
                    None => self.socket.send(&hello),
                    Some(cookie) => {
                        let received = total;
                        let proof = Message::Proof { cookie, received };
                        self.socket.send(&proof.encode(self.token))
                    }
                };
            }
            // With MSG_TRUNC the length is that of the datagram, and no more of it than fits is copied.
            match recv(self.socket.as_raw_fd(), &mut buf, flags) {
                Ok(n) => {
                    let message = Message::decode(&buf[..n.min(HELLO_LEN)]);
                    match message.filter(|m| m.0 == self.token) {
                        Some((_, Message::Load(seq))) => {
                            count.count(seq);
                            total = total.saturating_add(n as u64);
                            moved = now;
                        }
                        Some((_, Message::Challenge { cookie: given })) if cookie.is_none() => {
                            cookie = Some(given);
                            hello_due = now;
                        }
                        _ => {}
                    }
                }
                Err(Errno::EAGAIN) => {
                    let next = due.min(self.until).min(hello_due);
                    wait(self.socket, PollFlags::POLLIN, next - now);
                }
                Err(Errno::EINTR | Errno::ECONNREFUSED) => {}
                Err(e) => break End::Failed(e.into()),
            }
        };
        let _ = on_sample(mono_ns(), total, &count);
        end
    }
}
