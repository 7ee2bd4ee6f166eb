//! Controller of a gateway whose kernel forwards the packets: reports of the kernel and answers to probes in, orders out.
//!
//! **Method.** The host wakes up for each probe and at [`Agent::due`], and reads the kernel's counters. The agent tells the controller
//! what passed, and turns its judgements into [`Orders`]: the number of packets to signal since the start, and the number
//! of bytes that may pass until the wait reaches the cap. [`Egress`] is the kernel's side of these orders; the simulator
//! runs it, and the eBPF program of a real gateway follows the same rules.
//!
//! **Source.** docs/decisions/0022-user-space-decides-the-kernel-obeys.md.

use crate::upload::{Controller, Decision, Room, Sent, Upload};
use base::rng::{Rng, uniform};
use base::{Bytes, Duration, Time};
use link::qdisc::Verdict;

/// Interval of the orders while the direction carries traffic.
pub const BUSY: Duration = Duration::from_millis(10);
/// Interval of the orders while the direction is idle.
pub const IDLE: Duration = Duration::from_millis(20);
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

/// State of the gateway's user space.
#[derive(Clone, Debug)]
pub struct Agent {
    controller: Controller,
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
}

impl Agent {
    /// Agent that starts now; its random draws come from that stream.
    pub fn new(settings: Upload, draws: Rng, now: Time) -> Agent {
        Agent {
            controller: Controller::new(settings),
            draws,
            seen: Counts::default(),
            signals: 0,
            pending: 0,
            tick: now,
            busy_until: now,
        }
    }

    /// Controller of the direction.
    pub fn controller(&self) -> &Controller {
        &self.controller
    }

    /// Tells the controller if packets leave that the kernel does not count.
    pub fn set_unseen(&mut self, unseen: bool) {
        self.controller.set_unseen(unseen);
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
            || uniform(draws),
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
        self.tick = now + if now < self.busy_until { BUSY } else { IDLE };
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
