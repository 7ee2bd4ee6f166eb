//! UDP load at the server's end. It shares the port with the probes: a filter in the kernel tells the two
//! apart by their first bytes, so that neither waits behind the other.
//!
//! Only a flow that was admitted over TCP has a token, and datagrams go only to an address and port that has returned a
//! cookie: `measure::control::inbox` decides.

use super::line::Line;
use super::quota::{FlowPermit, IDLE, TOO_FAST};
use super::{Shared, lock};
use crate::clock::mono_ns;
use crate::load::ceiling::{Gate, HEADERS};
use crate::load::kernel::random_bytes;
use crate::load::paced::Paced;
use crate::load::pump::{End, Payload};
use crate::sys::message;
use crate::sys::option::{attach_filter, statement};
use base::record::Direction;
use base::{BitsPerSec, Duration};
use measure::control::datagram::{Header, MAGIC};
use measure::control::inbox::Inbox;
use measure::control::{DatagramCount, Detail, Sample};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, SocketAddr, TcpStream, UdpSocket};
use std::ops::ControlFlow;
use std::os::fd::AsRawFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

/// Time for which a download waits for the datagram that shows it the path.
pub const SHOWN_WITHIN_NS: i64 = 10_000_000_000;

/// Inbox of a flow, and the address of this host that its client knows: datagrams leave from there, even if the way to
/// the client leads through an interface with another address.
#[derive(Clone)]
struct SharedInbox {
    inbox: Arc<Mutex<Inbox>>,
    here: IpAddr,
}

#[derive(Clone, Default)]
pub struct Inboxes(Arc<Mutex<BTreeMap<u64, SharedInbox>>>);

/// Inbox that stays open until this is dropped.
pub struct Open<'a> {
    inboxes: &'a Inboxes,
    pub token: u64,
    shared: SharedInbox,
}

impl Inboxes {
    /// Opens an inbox for the client of this connection.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn open(&self, control: &TcpStream) -> io::Result<Open<'_>> {
        let token = u64::from_ne_bytes(random_bytes());
        let from = control.peer_addr()?.ip();
        let shared = SharedInbox {
            inbox: Arc::new(Mutex::new(Inbox::new(from, token, random_bytes()))),
            here: control.local_addr()?.ip().to_canonical(),
        };
        lock(&self.0).insert(token, shared.clone());
        Ok(Open {
            inboxes: self,
            token,
            shared,
        })
    }
}

impl Open<'_> {
    /// Address at which the client has proven that it receives.
    pub fn address(&self) -> Option<SocketAddr> {
        lock(&self.shared.inbox).address()
    }
}

impl Drop for Open<'_> {
    fn drop(&mut self) {
        lock(&self.inboxes.0).remove(&self.token);
    }
}

/// Makes the kernel hand datagrams of load to the second socket of a port, and all others to the first.
///
/// # Errors
/// The kernel has no such filter (before 4.6).
pub fn divide_port(second: &UdpSocket) -> io::Result<()> {
    // linux/bpf_common.h; the offset is into the UDP payload, and a load beyond its end gives 0.
    let mut program = [
        statement(libc::BPF_LD | libc::BPF_W | libc::BPF_ABS, 0, 0, 0),
        statement(
            libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K,
            0,
            1,
            u32::from_be_bytes(MAGIC),
        ),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, 1),
        statement(libc::BPF_RET | libc::BPF_K, 0, 0, 0),
    ];
    let option = libc::SO_ATTACH_REUSEPORT_CBPF;
    attach_filter(second.as_raw_fd(), option, &mut program)
}

/// Receives for all flows of a port until `stop` is set.
pub fn receive(socket: &UdpSocket, inboxes: &Inboxes, stop: &AtomicBool) -> io::Result<()> {
    socket.set_read_timeout(Some(std::time::Duration::from_millis(100)))?;
    let mut buf = [0u8; 2048];
    while !stop.load(Ordering::Relaxed) {
        let (n, from) = match socket.recv_from(&mut buf) {
            Ok(came) => came,
            // A time-out, or an ICMP error about an answer of ours.
            Err(e) if is_passing(&e) => continue,
            Err(e) => return Err(e),
        };
        let Some(header) = Header::decode(&buf[..n]) else {
            continue;
        };
        let Some(SharedInbox { inbox, here }) = lock(&inboxes.0).get(&header.token).cloned() else {
            continue;
        };
        let answer = lock(&inbox).datagram(mono_ns(), from, &buf[..n]);
        if let Some(answer) = answer {
            // Lost or refused here, it will be asked for again.
            let _ = message::send_to(socket.as_raw_fd(), &answer, from, Some(here), 0);
        }
    }
    Ok(())
}

fn is_passing(e: &io::Error) -> bool {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, Interrupted, NetworkUnreachable, TimedOut, WouldBlock,
    };
    matches!(
        e.kind(),
        ConnectionRefused
            | HostUnreachable
            | Interrupted
            | NetworkUnreachable
            | TimedOut
            | WouldBlock
    )
}

/// Flow of datagrams, from the request to its end.
pub struct Carrier<'a> {
    pub stream: &'a Line<'a>,
    pub socket: &'a UdpSocket,
    pub shared: &'a Shared,
    pub rate: BitsPerSec,
    pub payload_bytes: u16,
}

impl Carrier<'_> {
    /// Carries the flow. `accept` tells the client the token and returns the flow's start.
    pub fn carry(
        &self,
        flow: &mut FlowPermit,
        direction: Direction,
        accept: impl FnOnce(&FlowPermit, u64) -> io::Result<i64>,
    ) -> io::Result<End> {
        let open = self.shared.datagrams.open(self.stream)?;
        let began = accept(flow, open.token)?;
        let gate = Gate::new(&self.shared.ceiling);
        let paced = Paced {
            socket: self.socket,
            control: self.stream,
            token: open.token,
            until: began + flow.duration.as_nanos() as i64,
            sample: flow.sample,
            patience: super::connection::PATIENCE,
            gate: Some(&gate),
            stop: &self.shared.stop,
        };
        let mut upward = Upward::new(self.rate, began);
        let came = || {
            let inbox = lock(&open.shared.inbox);
            (inbox.bytes, inbox.count)
        };
        let end = match direction {
            Direction::Up => paced.idle(&mut |now| {
                let (bytes, count) = came();
                record(flow, began, now, bytes, count);
                gate.book(now, upward.more(now, bytes, count.received));
                let wrong = upward.wrong(now);
                if flow.spend(bytes) && wrong.is_none_or(|why| flow.give_up(why)) {
                    ControlFlow::Continue(())
                } else {
                    ControlFlow::Break(())
                }
            }),
            Direction::Down => {
                let mut to = None;
                let shown = paced.idle(&mut |now| {
                    to = open.address();
                    if to.is_some() || now - began > SHOWN_WITHIN_NS {
                        ControlFlow::Break(())
                    } else {
                        ControlFlow::Continue(())
                    }
                });
                match to {
                    None => match shown {
                        // Nobody has shown the way in time: UDP does not get through.
                        End::Enough => End::Stalled,
                        end => end,
                    },
                    Some(to) => {
                        let filling = self.shared.payload.get_or_init(Payload::new);
                        let mut sent_rate = SentRate::default();
                        let SharedInbox { inbox, here } = &open.shared;
                        paced.send(
                            Some((to, *here)),
                            &mut |now, sent| {
                                let inbox = lock(inbox);
                                if inbox.is_silent(now) {
                                    return None;
                                }
                                let bytes = sent * u64::from(self.payload_bytes);
                                let may = inbox.allowance(now, sent_rate.of_late(now, bytes));
                                Some(may.min(self.rate))
                            },
                            self.payload_bytes,
                            filling,
                            &mut |now, sent| {
                                let bytes = sent * u64::from(self.payload_bytes);
                                let count = DatagramCount {
                                    expected: sent,
                                    ..DatagramCount::default()
                                };
                                record(flow, began, now, bytes, count);
                                if flow.spend(bytes) {
                                    ControlFlow::Continue(())
                                } else {
                                    ControlFlow::Break(())
                                }
                            },
                        )
                    }
                }
            }
        };
        Ok(end)
    }
}

/// Checks on a flow to the server: datagrams keep coming, and no faster than granted.
struct Upward {
    granted: BitsPerSec,
    began: i64,
    moved: i64,
    bytes: u64,
    whole: u64,
}

impl Upward {
    fn new(granted: BitsPerSec, began: i64) -> Upward {
        Upward {
            granted,
            began,
            moved: began,
            bytes: 0,
            whole: 0,
        }
    }

    /// Takes the payload bytes and the datagrams so far. Returns the bytes of whole packets since the last call.
    fn more(&mut self, now: i64, bytes: u64, datagrams: u64) -> u64 {
        if bytes > self.bytes {
            (self.bytes, self.moved) = (bytes, now);
        }
        let whole = bytes.saturating_add(datagrams.saturating_mul(HEADERS));
        let more = whole.saturating_sub(self.whole);
        self.whole = self.whole.max(whole);
        more
    }

    /// Reason to end the flow. A queue that drains may deliver a second's worth at once.
    fn wrong(&self, now: i64) -> Option<&'static str> {
        const SLACK: Duration = Duration::from_secs(2);
        let elapsed = Duration::from_nanos((now - self.began).max(0).unsigned_abs()) + SLACK;
        let most = self.granted.bytes_in_floor(elapsed).get();
        if self.bytes > most.saturating_add(most / 4) {
            return Some(TOO_FAST);
        }
        (now - self.moved > super::connection::PATIENCE.as_nanos() as i64).then_some(IDLE)
    }
}

/// Recent rate of sent datagrams.
#[derive(Default)]
struct SentRate {
    before: (i64, u64),
    rate: BitsPerSec,
}

impl SentRate {
    fn of_late(&mut self, now: i64, bytes: u64) -> BitsPerSec {
        let (then, before) = self.before;
        let span = now - then;
        if then == 0 {
            self.before = (now, bytes);
        } else if span >= 100_000_000 {
            let bits = u128::from(bytes.saturating_sub(before)) * 8_000_000_000;
            let bps = bits / u128::from(span.unsigned_abs());
            self.rate = BitsPerSec::new(u64::try_from(bps).unwrap_or(u64::MAX));
            self.before = (now, bytes);
        }
        self.rate
    }
}

fn record(flow: &FlowPermit, began: i64, now: i64, bytes: u64, count: DatagramCount) {
    flow.sampled(Sample {
        at: Duration::from_nanos((now - began).max(0) as u64),
        bytes,
        detail: Detail::Datagrams(count),
    });
}
