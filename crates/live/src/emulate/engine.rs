//! Emulator thread: it carries the packets of both directions, from port to port.
//!
//! The links compute with the times at which packets arrived (the kernel's stamps) and were due, never with the time at
//! which this thread happened to run. A late thread thus delivers late, and says so in its lateness, but bends neither
//! rate nor queue.

use super::EmulateError;
use super::port::Port;
use super::summary::{Carried, DirectionSummary, Lateness, Summary};
use super::way::Way;
use crate::clock::{Clock, wall_minus_mono_ns};
use crate::probe::host;
use base::record::Row;
use base::{Duration, Time};
use nix::poll::{PollFd, PollFlags, ppoll};
use nix::sys::time::TimeSpec;
use nix::time::{ClockId, clock_gettime};
use std::io::PipeReader;
use std::os::fd::AsFd;
use std::sync::mpsc::Sender;

/// Interval at which a busy emulator looks for due packets; those that fall due in between leave together. It costs at
/// most this much lateness, a tenth of what is promised, and saves most system calls at high rates.
const TOGETHER: Duration = Duration::from_micros(50);
/// Time that a sleeping processor takes to wake up, so the end of the wait for a lone packet is spent awake. It costs
/// at most a twentieth of a processor: packets that follow closer than [`LONE`] are not waited for in this way.
const AWAKE: Duration = Duration::from_micros(100);
/// Silence after which a packet is lone: none has left, or was waited for, in this time.
const LONE: Duration = Duration::from_millis(2);
/// Time for which a mapping from wall to monotonic time holds.
const REMAP: Duration = Duration::from_millis(100);
/// Lowest of the real-time priorities: it goes before all ordinary threads.
const PRIORITY: libc::c_int = 1;

pub(super) struct Engine {
    pub clock: Clock,
    /// Directions: up and down.
    pub ways: [Way; 2],
    /// Ports: near and far. Packets of direction `i` come in at port `i` and leave at the other.
    pub ports: [Port; 2],
    pub rows: Option<Sender<Row>>,
    pub sample_every: Duration,
}

impl Engine {
    /// Runs until the other end of `stop` is closed.
    pub(super) fn run(mut self, stop: &PipeReader) -> Result<Summary, EmulateError> {
        let real_time = host::wake_exactly(PRIORITY);
        let mut wall = WallClock::new(self.clock);
        let mut carried = [Carried::default(), Carried::default()];
        let mut lateness = Lateness::default();
        let started = self.clock.now();
        let mut next_sample = if self.rows.is_some() {
            started
        } else {
            Time::MAX
        };
        // No frame that is still unseen can have arrived before this.
        let mut looked = started;
        let mut busy_before = false;
        // When a packet left last, or was waited for awake.
        let mut last_hit = started;
        loop {
            let round = self.clock.now();
            wall.refresh(round);
            for ((way, port), carried) in
                self.ways.iter_mut().zip(&mut self.ports).zip(&mut carried)
            {
                port.receive(|frame, stamp| {
                    // Later than now it cannot have come either: a wall clock that stepped is caught here.
                    let at = wall.time_of(stamp).clamp(looked, self.clock.now());
                    carried.arrived(frame.len());
                    way.arrive(at, frame);
                });
            }
            looked = round;
            let now = self.clock.now();
            let mut moved = false;
            for (i, way) in self.ways.iter_mut().enumerate() {
                way.advance(now);
                if !way.has_departures() {
                    continue;
                }
                moved = true;
                self.ports[1 - i].send(way.departures().map(|(_, frame)| frame));
                let sent = self.clock.now();
                for (departure, frame) in way.departures() {
                    lateness.add_span(sent.saturating_since(departure.due));
                    carried[i].delivered(departure.due.saturating_since(started), frame.len());
                }
                way.clear();
                last_hit = sent;
            }
            if now >= next_sample {
                self.sample(now);
                // On a grid, of which a host that was held up misses some.
                let missed =
                    now.saturating_since(next_sample).as_nanos() / self.sample_every.as_nanos();
                next_sample += self.sample_every * (missed + 1);
            }
            let busy = moved && busy_before;
            busy_before = moved;
            if busy {
                // Not until the next packet, but until a handful have come.
                host::sleep_until(self.clock.mono_of(round + TOGETHER));
                if is_closed(stop) {
                    break;
                }
            } else if self.wait(next_sample, &mut last_hit, stop) {
                break;
            }
        }
        let ended = self.clock.now();
        let late = |p| lateness.quantile(p).map(|ns| ns.round() as u64);
        let [near, far] = [self.ports[0].losses()?, self.ports[1].losses()?];
        let [up, down] = &self.ways;
        let [carried_up, carried_down] = carried;
        Ok(Summary {
            up: DirectionSummary::new(
                up,
                carried_up,
                near.ring_full + near.oversized + far.not_sent,
            ),
            down: DirectionSummary::new(
                down,
                carried_down,
                far.ring_full + far.oversized + near.not_sent,
            ),
            lateness_p50_ns: late(0.5),
            lateness_p99_ns: late(0.99),
            lateness_max_ns: lateness.max(),
            real_time,
            cpu_ns: cpu_time().as_nanos(),
            duration_ns: (ended - started).as_nanos(),
        })
    }

    /// Sleeps until a packet arrives, falls due or a sample is due. True when it is time to stop.
    fn wait(&self, next_sample: Time, last_hit: &mut Time, stop: &PipeReader) -> bool {
        if self.has_arrivals() {
            return is_closed(stop);
        }
        let due = self
            .ways
            .iter()
            .filter_map(Way::next_wakeup)
            .fold(Time::MAX, Time::min);
        let awake = if due.saturating_since(*last_hit) >= LONE {
            AWAKE
        } else {
            Duration::ZERO
        };
        let left = due
            .saturating_sub(awake)
            .min(next_sample)
            .saturating_since(self.clock.now());
        if left.is_zero() {
            while due.min(next_sample) > self.clock.now() && !self.has_arrivals() {
                std::hint::spin_loop();
            }
            // Where nothing leaves for a while, as at the start of a transfer, this was one of many steps.
            *last_hit = self.clock.now();
            return is_closed(stop);
        }
        let [near, far] = &self.ports;
        let mut fds = [
            PollFd::new(near.as_fd(), PollFlags::POLLIN),
            PollFd::new(far.as_fd(), PollFlags::POLLIN),
            PollFd::new(stop.as_fd(), PollFlags::POLLIN),
        ];
        // An interrupted wait is an early round, which does no harm.
        let _ = ppoll(&mut fds, Some(TimeSpec::from_duration(left.to_std())), None);
        fds[2].any().unwrap_or(false)
    }

    fn has_arrivals(&self) -> bool {
        self.ports.iter().any(Port::has_frames)
    }

    fn sample(&mut self, now: Time) {
        let t_ns = self.clock.from_mono_ns(self.clock.mono_of(now));
        let rows = self
            .ways
            .iter()
            .flat_map(Way::hops)
            .map(|hop| hop.stats().row(t_ns, hop.name.clone()));
        if let Some(sender) = &self.rows {
            for row in rows {
                if sender.send(row.into()).is_err() {
                    // Nobody listens any more; the emulation goes on for those who use it.
                    self.rows = None;
                    return;
                }
            }
        }
    }
}

/// Relation of the kernel's timestamps to our clock.
struct WallClock {
    clock: Clock,
    wall_minus_mono_ns: i64,
    /// Monotonic time of the run's time zero.
    zero_ns: i64,
    read: Time,
}

impl WallClock {
    fn new(clock: Clock) -> WallClock {
        WallClock {
            clock,
            wall_minus_mono_ns: wall_minus_mono_ns(),
            zero_ns: clock.mono_of(Time::ZERO),
            read: clock.now(),
        }
    }

    fn refresh(&mut self, now: Time) {
        if now.saturating_since(self.read) > REMAP {
            *self = WallClock::new(self.clock);
        }
    }

    fn time_of(&self, wall_ns: i64) -> Time {
        Time::from_nanos((wall_ns - self.wall_minus_mono_ns - self.zero_ns).max(0) as u64)
    }
}

fn is_closed(stop: &PipeReader) -> bool {
    let mut fds = [PollFd::new(stop.as_fd(), PollFlags::POLLIN)];
    ppoll(&mut fds, Some(TimeSpec::new(0, 0)), None).is_ok_and(|n| n > 0)
}

/// Processor time of the calling thread so far.
fn cpu_time() -> Duration {
    clock_gettime(ClockId::CLOCK_THREAD_CPUTIME_ID).map_or(Duration::ZERO, |t| {
        Duration::from_nanos(t.tv_sec() as u64 * 1_000_000_000 + t.tv_nsec() as u64)
    })
}
