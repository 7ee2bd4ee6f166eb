//! The prober's thread: the clock and the socket around [`Session`].

use super::{ProbeError, ProbePlan, ProbeSummary, Shared, host, lock};
use crate::clock::Clock;
use crate::timestamp::{self, Batch, SentNumbers};
use base::record::Row;
use base::{BitsPerSec, Bytes, Duration, Time};
use measure::clock::WallClock;
use measure::session::{Arrival, Session, TrainResult};
use measure::wire::MAX_LEN;
use std::io;
use std::net::UdpSocket;
use std::os::fd::{AsRawFd, RawFd};
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

pub(super) enum Command {
    Interval(Duration),
    Train {
        count: u8,
        payload: usize,
        reply: Sender<TrainResult>,
    },
    Stop,
}

pub(super) struct Driver {
    socket: UdpSocket,
    session: Session,
    clock: Clock,
    plan: ProbePlan,
    rows: Sender<Row>,
    inbox: Receiver<Command>,
    shared: Arc<Mutex<Shared>>,
    wall: WallClock,
    batch: Batch,
    buffer: [u8; MAX_LEN],
    tx: SentNumbers,
    system_calls: u64,
    sends_since_look: u32,
    last_look: Time,
    trouble: Option<ProbeError>,
    /// When the trouble was last seen.
    trouble_at: Time,
    train: Option<RunningTrain>,
}

struct RunningTrain {
    count: u8,
    arrivals: usize,
    last_arrival: Time,
    give_up: Time,
    reply: Sender<TrainResult>,
}

/// Answers are read this long after the last time, or after so many probes, whichever is first: they and
/// the transmit times must fit the socket's buffer, and rows should be fresh within a second.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_SENDS: u32 = 32;
/// And this often where probes are rare.
const LOOK_AT_LEAST: Duration = Duration::from_millis(250);
/// How long to wait for a train, and for its next datagram once they have begun to come: at 65 kbit/s
/// they are up to 0.2 s apart.
const TRAIN_PATIENCE: Duration = Duration::from_secs(8);
const TRAIN_PAUSE: Duration = Duration::from_secs(1);
/// The last answers are waited for at least this long.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(
        socket: UdpSocket,
        session: Session,
        clock: Clock,
        plan: ProbePlan,
        rows: Sender<Row>,
        inbox: Receiver<Command>,
        shared: Arc<Mutex<Shared>>,
    ) -> Driver {
        Driver {
            socket,
            session,
            clock,
            plan,
            rows,
            inbox,
            shared,
            wall: WallClock::default(),
            batch: Batch::new(64),
            buffer: [0; MAX_LEN],
            tx: SentNumbers::new(),
            system_calls: 0,
            sends_since_look: 0,
            last_look: clock.now(),
            trouble: None,
            trouble_at: Time::ZERO,
            train: None,
        }
    }

    pub(super) fn run(mut self) {
        let realtime = host::wake_exactly(host::PROBES);
        self.wall.observe(timestamp::compare_clocks(self.clock));
        // The handshake's datagrams are forgotten and the kernel's count begins with the first probe.
        self.restart_numbers();
        loop {
            let wake = self.next_wake();
            self.sleep_until(wake);
            let now = self.clock.now();
            self.send_due(now);
            if now.saturating_since(self.last_look) >= LOOK || self.sends_since_look >= LOOK_SENDS {
                self.look();
                self.publish(realtime);
            }
            match self.inbox.try_recv() {
                Ok(Command::Interval(interval)) => {
                    self.session.set_interval(interval);
                }
                Ok(Command::Train {
                    count,
                    payload,
                    reply,
                }) => self.send_train(count, payload, reply),
                Ok(Command::Stop) | Err(std::sync::mpsc::TryRecvError::Disconnected) => break,
                Err(std::sync::mpsc::TryRecvError::Empty) => {}
            }
        }
        self.wait_for_the_last();
        self.session.finish();
        self.hand_over_rows();
        self.publish(realtime);
        let len = self.session.close(&mut self.buffer);
        // A courtesy: without it the server forgets us a minute later.
        let _ = timestamp::send(self.fd(), &self.buffer[..len]);
    }

    fn fd(&self) -> RawFd {
        self.socket.as_raw_fd()
    }

    fn next_wake(&self) -> Time {
        let look = self.last_look
            + if self.train.is_some() {
                LOOK
            } else {
                LOOK_AT_LEAST
            };
        match self.session.next_slot() {
            // A slot shortly after the look serves both.
            Some(slot) if slot <= look + LOOK => slot,
            _ => look,
        }
    }

    fn sleep_until(&mut self, t: Time) {
        if self.clock.now() < t {
            host::sleep_until(self.clock.mono_of(t));
            self.system_calls += 1;
        }
    }

    fn send_due(&mut self, now: Time) {
        while let Some((seq, len)) = self.session.poll_transmit(now, &mut self.buffer) {
            let before = self.clock.now();
            let sent = self.send(len, Some(seq));
            match sent {
                Ok(()) => self.session.handle_sent(seq, before, self.clock.now()),
                Err(_) => self.session.handle_send_failed(seq),
            }
            self.sends_since_look += 1;
        }
    }

    fn send(&mut self, len: usize, probe: Option<u64>) -> io::Result<()> {
        for _ in 0..3 {
            self.system_calls += 1;
            match timestamp::send(self.fd(), &self.buffer[..len]) {
                Ok(()) => {
                    self.tx.sent(probe);
                    return Ok(());
                }
                // News of an earlier datagram: this one has not been tried yet.
                Err(e) if matches!(e.raw_os_error(), Some(libc::ECONNREFUSED)) => self.closed(),
                Err(e) => {
                    self.unreachable(&e);
                    self.restart_numbers();
                    return Err(e);
                }
            }
        }
        Err(io::ErrorKind::ConnectionRefused.into())
    }

    /// Whether the kernel counted a datagram that failed is its secret: begin anew.
    fn restart_numbers(&mut self) {
        self.read_errors();
        if timestamp::enable(self.fd(), true).is_ok() {
            self.tx = SentNumbers::new();
        }
        self.system_calls += 2;
    }

    fn look(&mut self) {
        self.read_errors();
        loop {
            self.system_calls += 1;
            let got = self.batch.receive(self.fd(), libc::MSG_DONTWAIT);
            let reading = timestamp::compare_clocks(self.clock);
            let step = self.wall.observe(reading);
            let now = self.clock.now();
            if let Some(by) = step {
                self.session.report_wall_step(now, by);
            }
            let n = match got {
                Ok(n) => n,
                Err(e) if e.raw_os_error() == Some(libc::ECONNREFUSED) => {
                    self.closed();
                    continue;
                }
                Err(_) => break,
            };
            for (received, bytes) in self.batch.messages() {
                let kernel = received
                    .wall_ns
                    .and_then(|ns| self.wall.to_mono(ns))
                    .filter(|&t| t <= now);
                let arrival = Arrival {
                    at: kernel.unwrap_or(now),
                    kernel: kernel.is_some(),
                    steady: step.is_none(),
                    tos: received.tos,
                };
                self.session.handle_datagram(now, arrival, bytes);
            }
            if n < 64 {
                break;
            }
        }
        self.last_look = self.clock.now();
        self.sends_since_look = 0;
        self.session.handle_timeout(self.last_look);
        self.check_train();
        self.hand_over_rows();
    }

    /// Transmit times, and ICMP errors.
    fn read_errors(&mut self) {
        loop {
            self.system_calls += 1;
            let Ok(n) = self
                .batch
                .receive(self.fd(), libc::MSG_ERRQUEUE | libc::MSG_DONTWAIT)
            else {
                return;
            };
            let mut refused = None;
            for (received, _) in self.batch.messages() {
                let at = received.wall_ns.and_then(|ns| self.wall.to_mono(ns));
                if let (Some(seq), Some(at)) = (received.tx_id.and_then(|id| self.tx.probe(id)), at)
                {
                    self.session.handle_tx_stamp(seq, at);
                }
                refused = refused.or(received.error);
            }
            match refused {
                Some(e) if e.errno == libc::ECONNREFUSED => self.closed(),
                // A train's datagram too long for some link: it is lost, probes are not.
                Some(e) if e.errno == libc::EMSGSIZE => {}
                Some(e) => self.unreachable(&io::Error::from_raw_os_error(e.errno)),
                None => {}
            }
            if n < 64 {
                return;
            }
        }
    }

    fn closed(&mut self) {
        let server = self.plan.server;
        self.set_trouble(ProbeError::PortClosed { server });
    }

    fn unreachable(&mut self, e: &io::Error) {
        let server = self.plan.server;
        self.set_trouble(ProbeError::Unreachable {
            server,
            why: e.to_string(),
        });
    }

    /// The first sign of a trouble is an event of the recording; its end clears it.
    fn set_trouble(&mut self, trouble: ProbeError) {
        let now = self.clock.now();
        if self.trouble.is_none() {
            self.session.report_fault(now, trouble.to_string());
        }
        self.trouble = Some(trouble);
        self.trouble_at = now;
    }

    fn publish(&mut self, realtime: bool) {
        let now = self.clock.now();
        let (server, heard) = (self.plan.server, self.session.last_heard());
        let silent = now.saturating_since(heard);
        if let Some(reason) = self.session.ended() {
            self.set_trouble(ProbeError::from_refusal(
                reason,
                server,
                self.session.interval().as_nanos(),
            ));
        } else if silent >= self.plan.silent_after.max(self.session.interval() * 3) {
            self.set_trouble(ProbeError::Vanished { server, silent });
        } else if self.trouble.is_some() && heard > self.trouble_at {
            self.trouble = None;
            self.session
                .report_fault(now, format!("{server} answers again"));
        }
        // Reading the thread's processor time is one.
        self.system_calls += 1;
        let mut shared = lock(&self.shared);
        shared.trouble = self.trouble.clone();
        shared.summary = ProbeSummary {
            session: self.session.stats(),
            cpu: Duration::from_nanos(host::thread_cpu_ns()),
            system_calls: self.system_calls,
            realtime,
            far_ahead_ns: self.session.far_ahead_ns(),
        };
    }

    fn hand_over_rows(&mut self) {
        while let Some(row) = self.session.poll_row() {
            // Nobody listens any more when the run is being given up; probing ends with it.
            let _ = self.rows.send(row);
        }
    }

    fn send_train(&mut self, count: u8, payload: usize, reply: Sender<TrainResult>) {
        let train = self.session.begin_train();
        for index in 0..count {
            let len = self
                .session
                .train_datagram(train, index, count, payload, &mut self.buffer);
            // What could not be sent is missing from the result like what was lost.
            let _ = self.send(len, None);
        }
        let now = self.clock.now();
        self.train = Some(RunningTrain {
            count,
            arrivals: 0,
            last_arrival: now,
            give_up: now + TRAIN_PATIENCE,
            reply,
        });
    }

    fn check_train(&mut self) {
        let (Some(train), Some(result)) = (&mut self.train, self.session.train_result()) else {
            return;
        };
        let now = self.last_look;
        if result.arrivals.len() > train.arrivals {
            train.arrivals = result.arrivals.len();
            train.last_arrival = now;
        }
        let over = train.arrivals > 0 && now.saturating_since(train.last_arrival) >= TRAIN_PAUSE;
        if train.arrivals >= usize::from(train.count) || over || now >= train.give_up {
            // Whoever asked may have gone.
            let _ = train.reply.send(result.clone());
            self.train = None;
        }
    }

    fn wait_for_the_last(&mut self) {
        let patience = (self.session.largest_rtt() * 3)
            .max(LAST_ANSWERS)
            .min(self.plan.lost_after);
        let until = self.clock.now() + patience;
        self.look();
        while self.session.is_waiting() && self.trouble.is_none() && self.clock.now() < until {
            let t = self.clock.now() + LOOK;
            self.sleep_until(t);
            self.look();
        }
    }
}

/// Rates from the spacing of a train: what came after the first datagram, by the time it took. `None`
/// with fewer than three datagrams. Faster than one datagram a microsecond is not told apart.
pub(super) fn estimate(train: &TrainResult, ip_size: Bytes) -> Option<super::TrainEstimate> {
    let rate = |mut times: Vec<i64>| {
        times.sort_unstable();
        let gaps = u64::try_from(times.len())
            .ok()?
            .checked_sub(1)
            .filter(|&n| n >= 2)?;
        let span_ns = (times.last()? - times.first()?)
            .unsigned_abs()
            .max(gaps * 1_000);
        let bps = u128::from(ip_size.bits() * gaps) * 1_000_000_000 / u128::from(span_ns);
        u64::try_from(bps).ok().map(BitsPerSec::new)
    };
    let up = rate(train.arrivals.iter().map(|&(_, far, _)| far).collect())?;
    let down = rate(train.arrivals.iter().map(|&(_, _, near)| near).collect())?;
    Some(super::TrainEstimate { up, down })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_train_gives_the_rate_of_each_direction_by_itself() {
        let ms = 1_000_000;
        let arrivals = (0..8i64)
            .map(|i| (i as u8, 5_000 * ms + i * 10 * ms, 70 * ms + i * 2 * ms))
            .collect();
        let estimate = estimate(&TrainResult { arrivals }, Bytes::new(1200)).unwrap();
        assert_eq!(estimate.up, BitsPerSec::from_kbps(960));
        assert_eq!(estimate.down, BitsPerSec::from_kbps(4_800));
        let two = TrainResult {
            arrivals: vec![(0, 0, 0), (1, 5, 5)],
        };
        assert_eq!(super::estimate(&two, Bytes::new(1200)), None);
    }
}
