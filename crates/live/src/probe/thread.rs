//! Prober's thread: the clock and the [`Wire`] around [`Session`].

use super::wire::{Batch, Found, Wall, Wire, told};
use super::{ProbeError, ProbePlan, ProbeSummary, Shared, host, lock};
use crate::clock::Clock;
use crate::traffic::Reader;
use base::record::{Counter, Row};
use base::{BitsPerSec, Bytes, Duration, Time};
use measure::session::{Session, TrainResult};
use measure::wire::MAX_LEN;
use std::sync::mpsc::{Receiver, Sender};
use std::sync::{Arc, Mutex};

pub(super) enum Command {
    Interval(Duration),
    /// Reads the interface's counters at each probe, or no longer.
    Count(bool),
    Train {
        count: u8,
        payload: usize,
        reply: Sender<TrainResult>,
    },
    Stop,
}

pub(super) struct Driver {
    wire: Wire,
    session: Session,
    clock: Clock,
    plan: ProbePlan,
    rows: Sender<Row>,
    inbox: Receiver<Command>,
    shared: Arc<Mutex<Shared>>,
    wall: Wall,
    batch: Batch,
    buffer: [u8; MAX_LEN],
    /// System calls besides those of the wire.
    system_calls: u64,
    last_look: Time,
    trouble: Option<ProbeError>,
    /// Time at which the trouble was last seen.
    trouble_at: Time,
    train: Option<RunningTrain>,
    /// Packets in the plan's tally.
    counted: u64,
    /// Counters of the interface, which are read at each probe while `counting`.
    pub(super) counters: Option<Reader>,
    counting: bool,
    /// Readings since rows were handed over: a row at each probe would wake their receiver each time.
    readings: Vec<Counter>,
}

struct RunningTrain {
    count: u8,
    arrivals: usize,
    last_arrival: Time,
    give_up: Time,
    reply: Sender<TrainResult>,
}

/// Interval at which answers are read, or sooner after many probes: answers and transmit times must fit the socket's
/// buffer, and rows should be fresh within a second.
const LOOK: Duration = Duration::from_millis(50);
const LOOK_SENDS: u32 = 32;
/// Interval at which answers are read if probes are rare.
const LOOK_AT_LEAST: Duration = Duration::from_millis(250);
/// Longest wait for a train, and for its next datagram once they have begun to come: at 65 kbit/s they are up to 0.2 s
/// apart.
const TRAIN_PATIENCE: Duration = Duration::from_secs(8);
const TRAIN_PAUSE: Duration = Duration::from_secs(1);
/// Shortest wait for the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);

impl Driver {
    pub(super) fn new(
        wire: Wire,
        session: Session,
        clock: Clock,
        plan: ProbePlan,
        rows: Sender<Row>,
        inbox: Receiver<Command>,
        shared: Arc<Mutex<Shared>>,
    ) -> Driver {
        Driver {
            wire,
            session,
            clock,
            plan,
            rows,
            inbox,
            shared,
            wall: Wall::new(clock),
            batch: Batch::new(64),
            buffer: [0; MAX_LEN],
            system_calls: 0,
            last_look: clock.now(),
            trouble: None,
            trouble_at: Time::ZERO,
            train: None,
            counted: 0,
            counters: None,
            counting: false,
            readings: Vec::new(),
        }
    }

    pub(super) fn run(mut self) {
        let realtime = host::wake_exactly(host::PROBES);
        loop {
            let wake = self.next_wake();
            self.sleep_until(wake);
            let now = self.clock.now();
            self.send_due(now);
            if now.saturating_since(self.last_look) >= LOOK || self.wire.sends >= LOOK_SENDS {
                self.look();
                self.publish(realtime);
            }
            match self.inbox.try_recv() {
                Ok(Command::Interval(interval)) => {
                    self.session.set_interval(interval);
                }
                Ok(Command::Count(counting)) => self.counting = counting,
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
        if self.wire.send(&self.buffer[..len], None).is_ok() {
            self.plan.tally.datagram(self.plan.server, len);
        }
    }

    /// Counts probes and answers since the last call.
    fn count(&mut self) {
        let stats = self.session.stats();
        let packets = stats.sent + stats.received;
        let more = packets - self.counted;
        let size = self.plan.ip_size();
        self.plan.tally.add(more, Bytes::new(more * size.get()));
        self.counted = packets;
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
            match self.wire.send(&self.buffer[..len], Some(seq)) {
                Ok(()) => {
                    self.session.handle_sent(seq, before, self.clock.now());
                    self.read_counters();
                }
                Err(e) => {
                    self.session.handle_send_failed(seq);
                    self.note(e.raw_os_error().unwrap_or(libc::EIO));
                }
            }
        }
    }

    fn read_counters(&mut self) {
        let Some(counters) = self.counters.as_mut().filter(|_| self.counting) else {
            return;
        };
        self.system_calls += 1;
        self.readings.extend(counters.row(self.clock));
    }

    fn look(&mut self) {
        let mut trouble = None;
        let session = &mut self.session;
        self.wire.look(
            &mut self.batch,
            self.clock,
            &mut self.wall,
            &mut |now, found| match found {
                Found::Left(seq, at) => session.handle_tx_stamp(seq, at),
                Found::Trouble(errno) => trouble = trouble.or(Some(errno)),
                Found::Hop { .. } => {}
                Found::Came { arrival, bytes } => {
                    session.handle_datagram(now, arrival, bytes);
                }
            },
        );
        self.last_look = self.clock.now();
        while let Some(by) = self.wall.take_step() {
            self.session.report_wall_step(self.last_look, by);
        }
        // A train's datagram too long for some link is lost, probes are not.
        if let Some(errno) = trouble.filter(|e| *e != libc::EMSGSIZE) {
            self.note(errno);
        }
        self.session.handle_timeout(self.last_look);
        self.check_train();
        self.hand_over_rows();
    }

    fn note(&mut self, errno: i32) {
        let server = self.plan.server;
        self.set_trouble(match errno {
            libc::ECONNREFUSED => ProbeError::PortClosed { server },
            other => ProbeError::Unreachable {
                server,
                why: told(other),
            },
        });
    }

    /// Reports a trouble when it begins, as an event of the recording; its end clears it.
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
        self.count();
        let mut shared = lock(&self.shared);
        shared.trouble = self.trouble.clone();
        shared.summary = ProbeSummary {
            session: self.session.stats(),
            cpu: Duration::from_nanos(host::thread_cpu_ns()),
            system_calls: self.system_calls + self.wire.system_calls,
            realtime,
            far_ahead_ns: self.session.far_ahead_ns(),
        };
    }

    fn hand_over_rows(&mut self) {
        let fates = std::iter::from_fn(|| self.session.poll_row());
        for row in fates.chain(self.readings.drain(..).map(Row::Counter)) {
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
            let _ = self.wire.send(&self.buffer[..len], None);
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

/// Rates from the spacing of a train: bytes after the first datagram, by the time they took. `None` with fewer than
/// three datagrams. Rates above one datagram a microsecond are not told apart.
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
