//! Transfers of a given size, from the first byte to the last: the client's upload and the server's answer to a request
//! for one are one loop. [`Pump`](super::pump::Pump) moves bytes for a time; this moves a number of bytes.

use super::ceiling::Gate;
use super::kernel::{TcpInfo, set_notsent_lowat};
use super::pump::{End, PEER_DONE, Payload, ended, wait};
use crate::clock::mono_ns;
use base::{BitsPerSec, Duration};
use nix::errno::Errno;
use nix::poll::PollFlags;
use nix::sys::socket::{MsgFlags, recv, send};
use std::net::TcpStream;
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Interval of the checks for new acknowledgements: the end of a transfer is known to this precision.
const LOOK_NS: i64 = 1_000_000;
/// Unsent data that the socket holds: 4 Gbit/s at one check a millisecond.
const MOST_UNSENT: u32 = 512 << 10;

pub struct Whole<'a> {
    pub socket: &'a TcpStream,
    pub bytes: u64,
    /// Monotonic time of the end.
    pub until: i64,
    pub sample: Duration,
    /// Longest time without progress.
    pub patience: Duration,
    /// Rate limit of this host; none at a client.
    pub gate: Option<&'a Gate<'a>>,
    /// Upper limit on the rate of what is sent, segment by segment. The kernel's own pacing lets the first ten segments go at once,
    /// and later two at a time.
    pub pace: Option<Pace>,
    pub stop: &'a AtomicBool,
}

/// Rate at which segments of this length leave one by one.
#[derive(Clone, Copy, Debug)]
pub struct Pace {
    pub rate: BitsPerSec,
    pub segment: u64,
}

impl Pace {
    /// Bytes that may leave now, in whole segments, of those that are left.
    fn may(self, elapsed_ns: i64, sent: u64, left: u64) -> u64 {
        let earned = u128::from(self.rate.get()) * elapsed_ns.max(0) as u128 / 8_000_000_000;
        let may = u64::try_from(earned)
            .unwrap_or(u64::MAX)
            .saturating_add(self.segment)
            .saturating_sub(sent);
        if may >= left {
            return left;
        }
        may - may % self.segment.max(1)
    }
}

/// Outcome of a transfer.
#[derive(Debug)]
pub struct Went {
    /// Reason why the transfer is incomplete.
    pub result: Result<(), End>,
    /// Monotonic time at which the last byte was acknowledged, or came.
    pub ended: i64,
    /// Longest time without progress, ns, and its begin, monotonic.
    pub longest: (i64, i64),
}

/// Receiver of the monotonic time, the bytes acknowledged or received so far, and TCP_INFO.
pub type OnSample<'a> = &'a mut dyn FnMut(i64, u64, &TcpInfo) -> ControlFlow<()>;

/// Bytes moved so far, with times.
struct Moved {
    bytes: u64,
    at: i64,
    longest: (i64, i64),
}

impl Moved {
    fn begin(now: i64) -> Moved {
        Moved {
            bytes: 0,
            at: now,
            longest: (0, now),
        }
    }

    fn to(&mut self, now: i64, bytes: u64) {
        if bytes > self.bytes {
            self.longest = self.longest.max((now - self.at, self.at));
            (self.bytes, self.at) = (bytes, now);
        }
    }

    fn went(mut self, result: Result<(), End>) -> Went {
        let now = mono_ns();
        if result.is_err() {
            self.longest = self.longest.max((now - self.at, self.at));
        }
        Went {
            ended: if result.is_ok() { self.at } else { now },
            result,
            longest: self.longest,
        }
    }
}

impl Whole<'_> {
    fn must_end(&self, now: i64, moved: &Moved) -> Option<End> {
        if self.stop.load(Ordering::Relaxed) {
            Some(End::Stopped)
        } else if now >= self.until {
            Some(End::TimeUp)
        } else if now - moved.at > self.patience.as_nanos() as i64 {
            Some(End::Stalled)
        } else {
            None
        }
    }

    fn step_ns(&self) -> i64 {
        self.sample.as_nanos().max(1_000_000) as i64
    }

    /// Sends all bytes and waits until they are acknowledged. Bytes that were acknowledged earlier are not counted, nor
    /// are `before` bytes that were sent and may yet be acknowledged.
    pub fn send(&self, payload: &Payload, before: u64, on_sample: OnSample) -> Went {
        let (fd, began) = (self.socket.as_raw_fd(), mono_ns());
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_NOSIGNAL;
        let mut moved = Moved::begin(began);
        // A receiver that reads nothing leaves no more than this in the kernel. An old kernel without it has its buffer.
        let _ = set_notsent_lowat(self.socket, MOST_UNSENT);
        let (mut sent, mut due, mut gone) = (0u64, began, false);
        let mut delivered = 0;
        let result = loop {
            let now = mono_ns();
            let info = match TcpInfo::read_after(self.socket, &mut delivered) {
                Ok(info) => info,
                Err(e) => break Err(End::Failed(e)),
            };
            moved.to(now, info.bytes_acked().unwrap_or(0).saturating_sub(before));
            let whole = moved.bytes >= self.bytes;
            if now >= due || whole {
                due = now + self.step_ns();
                let more = on_sample(now, moved.bytes.min(self.bytes), &info);
                if more.is_break() && !whole {
                    break Err(End::Enough);
                }
            }
            if whole {
                break Ok(());
            }
            // Whoever has all of it may close at once: its last acknowledgement was looked for after that.
            if gone {
                break Err(End::PeerClosed);
            }
            if let Some(end) = self.must_end(now, &moved) {
                break Err(end);
            }
            let mut events = PEER_DONE;
            if self.gate.is_some_and(|g| g.sleeps(now, LOOK_NS)) {
                continue;
            }
            let left = self.bytes - sent;
            let may = self.pace.map_or(left, |p| p.may(now - began, sent, left));
            if may > 0 {
                let chunk = payload.chunk(sent as usize);
                let most = chunk.len().min(may as usize);
                let most = self.gate.map_or(most, |g| g.chunk().min(most));
                match send(fd, &chunk[..most], flags) {
                    Ok(n) => {
                        if let Some(gate) = self.gate {
                            gate.book(now, n as u64);
                        }
                        sent += n as u64;
                        continue;
                    }
                    Err(Errno::EAGAIN) => events |= PollFlags::POLLOUT,
                    Err(Errno::EINTR) => {}
                    Err(e) => break Err(ended(e)),
                }
            }
            let closed = PEER_DONE | PollFlags::POLLHUP;
            gone = wait(self.socket, events, LOOK_NS).intersects(closed);
        };
        moved.went(result)
    }

    /// Discards all bytes as they come.
    pub fn receive(&self, on_sample: OnSample) -> Went {
        let (fd, began) = (self.socket.as_raw_fd(), mono_ns());
        // tcp(7): with MSG_TRUNC the bytes are discarded and the buffer is left alone.
        let flags = MsgFlags::MSG_DONTWAIT | MsgFlags::MSG_TRUNC;
        let mut nowhere = vec![0u8; 1 << 20];
        let mut moved = Moved::begin(began);
        let mut due = began;
        let result = loop {
            let now = mono_ns();
            let whole = moved.bytes >= self.bytes;
            if now >= due || whole {
                due = now + self.step_ns();
                match TcpInfo::read(self.socket) {
                    Ok(info) if on_sample(now, moved.bytes, &info).is_break() && !whole => {
                        break Err(End::Enough);
                    }
                    Ok(_) => {}
                    Err(e) => break Err(End::Failed(e)),
                }
            }
            if whole {
                break Ok(());
            }
            if let Some(end) = self.must_end(now, &moved) {
                break Err(end);
            }
            match recv(fd, &mut nowhere, flags) {
                Ok(0) => break Err(End::PeerClosed),
                Ok(n) => {
                    let bytes = moved.bytes + n as u64;
                    moved.to(mono_ns(), bytes);
                }
                Err(Errno::EAGAIN) => {
                    wait(self.socket, PollFlags::POLLIN, due - now);
                }
                Err(Errno::EINTR) => {}
                Err(e) => break Err(ended(e)),
            }
        };
        moved.went(result)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::kernel::random_bytes;
    use crate::load::{Access, LoadError, Peer};
    use crate::serve::{ServeConfig, Server};
    use measure::control::{Detail, Ended, FlowSpec, Refusal, Request, Response, SessionId};

    fn fetch(server: &Server, congestion: &str, bytes: u64) -> Result<Response, LoadError> {
        let peer = Peer {
            server: server.local_addr(),
            access: Access::default(),
            patience: Duration::from_secs(5),
        };
        let stop = AtomicBool::new(false);
        let session = SessionId(random_bytes());
        let spec = FlowSpec {
            session,
            flow: 0,
            duration: Duration::from_secs(20),
            sample: Duration::from_millis(20),
        };
        let stream = peer.connect(None)?;
        let request = Request::Fetch {
            spec,
            congestion: congestion.into(),
            bytes,
        };
        peer.ask(&stream, &request, &stop)?;
        let whole = Whole {
            socket: &stream,
            bytes,
            until: mono_ns() + 20_000_000_000,
            sample: Duration::from_millis(20),
            patience: Duration::from_secs(20),
            gate: None,
            pace: None,
            stop: &stop,
        };
        let mut seen = 0;
        let went = whole.receive(&mut |_, moved, _| {
            seen = moved;
            ControlFlow::Continue(())
        });
        went.result.expect("all of it comes");
        assert_eq!(seen, bytes, "and no more");
        let again = peer.connect(None)?;
        peer.ask(&again, &Request::Report { session }, &stop)
            .map(|a| a.0)
    }

    fn server() -> Server {
        Server::start(ServeConfig {
            listen: vec!["127.0.0.1:0".parse().expect("an address")],
            ..ServeConfig::default()
        })
        .expect("it serves")
    }

    #[test]
    fn so_much_is_fetched_as_was_asked_for_and_its_sender_reports() {
        let server = server();
        let answer = fetch(&server, "reno", 300_001).expect("it is sent");
        let Response::Report(flows) = answer else {
            panic!("{answer:?}")
        };
        let [flow] = &flows[..] else {
            panic!("{flows:?}")
        };
        assert_eq!((flow.ended, &*flow.congestion), (Ended::Whole, "reno"));
        let last = flow.samples.last().expect("a sample");
        assert_eq!(last.bytes, 300_001);
        assert!(
            matches!(last.detail, Detail::Sender(s) if s.cwnd_bytes > 0 && s.srtt_ns.is_some())
        );
    }

    #[test]
    fn a_controller_that_the_server_lacks_is_refused_with_those_that_it_has() {
        let e = fetch(&server(), "cubik", 10).expect_err("there is none");
        assert!(
            matches!(
                e,
                LoadError::Refused {
                    why: Refusal::UnknownCongestion,
                    ..
                }
            ),
            "{e}"
        );
        assert!(e.to_string().contains("at the server"), "{e}");
    }
}
