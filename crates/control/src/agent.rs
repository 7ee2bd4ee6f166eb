//! Controller of a gateway whose kernel forwards the packets: reports of the kernel and answers to probes in, orders out.
//!
//! **Method.** The host wakes up for each probe and at [`Agent::due`], and reads the kernel's counters. The agent tells the controller
//! what passed, and turns its judgements into [`Orders`]: the number of packets to signal since the start, and the number
//! of bytes that may pass until the wait reaches the cap. [`Egress`] is the kernel's side of these orders; the simulator
//! runs it, and the eBPF program of a real gateway follows the same rules.
//!
//! **Source.** docs/decisions/0022-user-space-decides-the-kernel-obeys.md.

use crate::queue::Sent;
use crate::upload::{Controller, Decision, Room, Upload};
use base::rng::{Rng, uniform};
use base::{Bytes, Duration, Time};
use link::qdisc::Verdict;

/// Interval of the orders while the direction carries traffic.
pub const BUSY: Duration = Duration::from_millis(10);
/// Interval of the orders while the direction is idle.
pub const IDLE: Duration = Duration::from_millis(20);
/// Longest intervals of the orders, of a host that probes seldom: well below [`STALE`].
const BUSY_MOST: Duration = Duration::from_millis(25);
const IDLE_MOST: Duration = Duration::from_millis(100);
/// Age above which orders bind no longer.
pub const STALE: Duration = Duration::from_millis(250);
/// Bytes in one report above which the direction carries traffic: more than its probes and a few ACKs.
const LOADED: u64 = 600;
/// Time without such a report after which the direction is idle.
const IDLE_AFTER: Duration = Duration::from_millis(200);

/// Counts of the kernel since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets that passed; each segment of a GSO packet counts.
    pub packets: u64,
    /// Their bytes, with the link's overhead.
    pub bytes: u64,
    /// Packets marked with CE.
    pub marks: u64,
    /// Packets dropped, those above the cap included.
    pub drops: u64,
    /// Orders of single signals carried out.
    pub signalled: u64,
}

/// Orders to the kernel.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Orders {
    /// Time of the order.
    pub at: Time,
    /// Bytes that have passed at that time.
    pub passed: u64,
    /// Bytes that may pass from then on; none: no limit.
    pub room: Option<Room>,
    /// Packets to signal since the kernel began to count.
    pub signals: u64,
    /// True to mark ECN-capable packets, false to drop them too.
    pub mark: bool,
}

impl Orders {
    /// Bytes that may have passed at the time of the order, and their growth in bytes per second; `None`: no limit.
    pub fn limit(&self) -> Option<(u64, u64)> {
        let room = self.room?;
        let limit = (self.passed as f64 + room.bytes).max(0.0) as u64;
        Some((limit, room.rate.max(0.0) as u64))
    }
}

/// Answer to a probe.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Answered {
    /// Departure of the probe.
    pub sent: Sent,
    /// RTT without the time that the server held it.
    pub rtt: Duration,
    /// Far clock on arrival minus near clock on departure, ns.
    pub up_ns: i64,
}

/// Controller of one direction, as the agent needs it.
pub trait Steers {
    /// Records `bytes` in `packets` that passed since the last call, and returns the number of packets to signal. `draw`
    /// returns a uniform number in [0, 1).
    fn passed(
        &mut self,
        now: Time,
        bytes: Bytes,
        packets: u64,
        draw: &mut dyn FnMut() -> f64,
    ) -> u64;
    /// Adds the answer to a probe: its RTT, and the reading of the far clock on its arrival minus that of this clock on its
    /// departure. The clocks need not agree.
    fn probed(&mut self, now: Time, sent: Sent, rtt: Duration, up_ns: i64);
    /// Time of the next update.
    fn due(&self) -> Time;
    /// Updates capacity and law.
    fn update(&mut self, now: Time) -> Decision;
    /// RTT of the newest answer without its wait, if one came.
    fn path(&self) -> Option<Duration>;
    /// Tells if packets pass that the host does not count: then nothing is signalled.
    fn set_unseen(&mut self, unseen: bool);
    /// True while a signal to a sender would shorten the wait.
    fn signals_help(&self, now: Time) -> bool;
    /// Bytes that may pass; `None`: no limit.
    fn room(&self, now: Time) -> Option<Room>;
    /// True while ECN-capable packets are to be marked instead of dropped.
    fn marks(&self) -> bool;
}

impl Steers for Controller {
    fn passed(
        &mut self,
        now: Time,
        bytes: Bytes,
        packets: u64,
        draw: &mut dyn FnMut() -> f64,
    ) -> u64 {
        Controller::passed(self, now, bytes, packets, draw)
    }

    fn probed(&mut self, now: Time, sent: Sent, rtt: Duration, up_ns: i64) {
        Controller::probed(self, now, sent, rtt, up_ns);
    }

    fn due(&self) -> Time {
        Controller::due(self)
    }

    fn update(&mut self, now: Time) -> Decision {
        Controller::update(self, now)
    }

    fn path(&self) -> Option<Duration> {
        Controller::path(self)
    }

    fn set_unseen(&mut self, unseen: bool) {
        Controller::set_unseen(self, unseen);
    }

    fn signals_help(&self, now: Time) -> bool {
        Controller::signals_help(self, now)
    }

    fn room(&self, now: Time) -> Option<Room> {
        Controller::room(self, now)
    }

    fn marks(&self) -> bool {
        Controller::marks(self)
    }
}

/// State of the gateway's user space for one direction.
#[derive(Clone, Debug)]
pub struct Agent<C = Controller> {
    controller: C,
    draws: Rng,
    seen: Counts,
    /// Signals ordered so far.
    signals: u64,
    /// Signals ordered and not carried out yet.
    pending: u64,
    /// Time of the next orders.
    tick: Time,
    /// End of the time in which the direction counts as busy.
    busy_until: Time,
    /// Intervals of the orders while the direction is busy and idle.
    pace: (Duration, Duration),
}

impl Agent {
    /// Agent of the upload that starts now; its random draws come from that stream.
    pub fn new(settings: Upload, draws: Rng, now: Time) -> Agent {
        Agent::of(Controller::new(settings), draws, now)
    }
}

impl<C: Steers> Agent<C> {
    /// Agent of that controller that starts now; its random draws come from that stream.
    pub fn of(controller: C, draws: Rng, now: Time) -> Agent<C> {
        Agent {
            controller,
            draws,
            seen: Counts::default(),
            signals: 0,
            pending: 0,
            tick: now,
            busy_until: now,
            pace: (BUSY, IDLE),
        }
    }

    /// Tells the controller if packets pass that the kernel does not count.
    pub fn set_unseen(&mut self, unseen: bool) {
        self.controller.set_unseen(unseen);
    }

    /// Sets the interval between probes: orders need not be renewed much more often.
    pub fn set_interval(&mut self, interval: Duration) {
        self.pace = (
            (interval / 2).clamp(BUSY, BUSY_MOST),
            interval.clamp(IDLE, IDLE_MOST),
        );
    }

    /// Controller of the direction.
    pub fn controller(&self) -> &C {
        &self.controller
    }

    /// Counts of the last report.
    pub fn seen(&self) -> Counts {
        self.seen
    }

    /// Signals ordered so far.
    pub fn signals(&self) -> u64 {
        self.signals
    }

    /// Time of the next orders.
    pub fn due(&self) -> Time {
        self.tick
    }

    /// Takes a report of the kernel.
    pub fn passed(&mut self, now: Time, counts: Counts) {
        let bytes = counts.bytes.saturating_sub(self.seen.bytes);
        if bytes > LOADED {
            self.busy_until = now + IDLE_AFTER;
        }
        let draws = &mut self.draws;
        let signals = self.controller.passed(
            now,
            Bytes::new(bytes),
            counts.packets.saturating_sub(self.seen.packets),
            &mut || uniform(draws),
        );
        self.signals += signals;
        let carried_out = counts.signalled.saturating_sub(self.seen.signalled);
        self.pending = self.pending.saturating_sub(carried_out) + signals;
        self.seen = counts;
    }

    /// Takes the answer to a probe.
    pub fn answered(&mut self, now: Time, a: &Answered) {
        self.controller.probed(now, a.sent, a.rtt, a.up_ns);
    }

    /// Takes a report, updates law and capacity if that is due, and returns the orders that follow. Call it at
    /// [`due`](Self::due) after the answers to probes, or earlier if the host is awake anyway.
    pub fn wake(&mut self, now: Time, counts: Counts) -> (Option<Decision>, Orders) {
        self.passed(now, counts);
        let decision = (now >= self.controller.due()).then(|| self.controller.update(now));
        if !self.controller.signals_help(now) {
            // Nobody took them while the queue was long; later they would meet the wrong packets.
            self.pending = 0;
        }
        let (busy, idle) = self.pace;
        self.tick = now + if now < self.busy_until { busy } else { idle };
        let orders = Orders {
            at: now,
            passed: counts.bytes,
            room: self.controller.room(now),
            signals: counts.signalled + self.pending,
            mark: self.controller.marks(),
        };
        (decision, orders)
    }
}

/// Kernel's side: counts packets, and marks or drops them as ordered.
#[derive(Clone, Debug, Default)]
pub struct Egress {
    counts: Counts,
    orders: Option<Orders>,
}

impl Egress {
    /// Counts so far.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// Replaces the orders.
    pub fn order(&mut self, orders: Orders) {
        self.orders = Some(orders);
    }

    /// Judges a packet at `now`. An `exempt` packet passes always.
    pub fn packet(&mut self, now: Time, len: Bytes, capable: bool, exempt: bool) -> Verdict {
        let verdict = match &self.orders {
            Some(o) if !exempt && now.saturating_since(o.at) <= STALE => {
                let age_s = now.saturating_since(o.at).as_secs_f64();
                let above = |(limit, rate): (u64, u64)| {
                    self.counts.bytes > limit + (rate as f64 * age_s) as u64
                };
                if o.limit().is_some_and(above) {
                    Verdict::Drop
                } else if self.counts.signalled < o.signals {
                    self.counts.signalled += 1;
                    match o.mark && capable {
                        true => Verdict::Mark,
                        false => Verdict::Drop,
                    }
                } else {
                    Verdict::Forward
                }
            }
            _ => Verdict::Forward,
        };
        match verdict {
            Verdict::Drop => self.counts.drops += 1,
            Verdict::Mark => self.counts.marks += 1,
            Verdict::Forward => {}
        }
        if verdict != Verdict::Drop {
            self.counts.packets += 1;
            self.counts.bytes += len.get();
        }
        verdict
    }
}
