//! Control of the download's queue at the provider, without shaping: the gateway marks or drops packets that have left it.
//!
//! **Method.** The queue stands before the gateway, so the bytes that arrive while it stands are the capacity, and the
//! wait is that of the newest answer alone. The law is the sawtooth of the upload. There is no cap: a packet that has
//! crossed the link shortens no queue by being dropped, it only tells its sender.
//!
//! **Source.** Borlaug 2014, section 6.3.2: figure 54, a controller of the inbound direction. It kept the arriving rate below
//! the capacity; this one leaves the link at its full rate.
//!
//! **Limits.** A slow start is noticed one wait late, because its first signal leaves with the first packet that waited.
//! Senders that ignore marks and drops are not held back.

use crate::agent::Steers;
use crate::capacity::{Capacity, ServiceCurve, Slope};
use crate::oneway::{OneWay, Probe};
use crate::passed::Passed;
use crate::queue::{self, Sent};
use crate::sawtooth::{MOST_SIGNALS, Sawtooth};
use crate::trust::{Judge, Trust};
use crate::upload::{Decision, Findings, Room, SILENCE, UPDATE, Why};
use base::{Bytes, Duration, Time};
use serde::{Deserialize, Serialize};

/// Settings of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Download {
    /// Wait to hold.
    pub target: Duration,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for Download {
    fn default() -> Download {
        Download {
            target: Duration::from_millis(20),
            ecn: true,
        }
    }
}

/// Controller of the direction towards the gateway.
#[derive(Clone, Debug)]
pub struct Inbound {
    settings: Download,
    /// RTT of the newest answer without its wait.
    path: Duration,
    down: OneWay,
    curve: ServiceCurve,
    capacity: Option<Capacity>,
    sawtooth: Sawtooth,
    judge: Judge,
    trust: Trust,
    /// True while packets arrive that the host does not count.
    unseen: bool,
    /// Time of the last report, and bytes received by then.
    received: (Time, u64),
    /// Reports of the last seconds: an answer may be told long after it arrived.
    earlier: Passed,
    /// Bytes received above those that leave the link idle; zero: it is idle.
    load: f64,
    /// Arrival and wait of answers since the last report.
    fresh: Vec<(Time, Duration)>,
    /// Arrival and wait of the newest answer.
    newest: Option<(Time, Duration)>,
    due: Time,
    signals: u64,
}

impl Inbound {
    /// Creates a controller with these settings.
    pub fn new(settings: Download) -> Inbound {
        Inbound {
            settings,
            path: Duration::ZERO,
            down: OneWay::default(),
            curve: ServiceCurve::default(),
            capacity: None,
            sawtooth: Sawtooth::default(),
            judge: Judge::default(),
            trust: Trust::default(),
            unseen: false,
            received: (Time::ZERO, 0),
            earlier: Passed::default(),
            load: 0.0,
            fresh: Vec::new(),
            newest: None,
            due: Time::ZERO,
            signals: 0,
        }
    }

    /// Wait of the newest answer, unless it is too old.
    pub fn wait(&self, now: Time) -> Option<Duration> {
        let (at, wait) = self.newest?;
        (now.saturating_since(at) <= SILENCE).then_some(wait)
    }

    /// Wait that the law acts on; `None` if it is unknown or not that of this gateway's traffic.
    fn own_wait(&self, now: Time) -> Option<Duration> {
        let trusted = self.trust == Trust::Good && !self.unseen;
        self.wait(now).filter(|_| trusted)
    }

    /// Places the answers on the service curve.
    fn place(&mut self, now: Time, total: u64) {
        let (before, had) = self.received;
        let span_s = now.saturating_since(before).as_secs_f64();
        let capacity = self.capacity.map_or(f64::INFINITY, |c| c.value);
        self.load = queue::left_over(self.load, (total - had) as f64, span_s, capacity);
        self.earlier.read(now, total);
        for (at, wait) in self.fresh.drain(..) {
            let by_then = self.earlier.at(at).unwrap_or(total);
            self.curve.sample(at.saturating_sub(wait), by_then, wait);
        }
        self.received = (now, total);
    }
}

impl Steers for Inbound {
    fn passed(
        &mut self,
        now: Time,
        bytes: Bytes,
        packets: u64,
        _draw: &mut dyn FnMut() -> f64,
    ) -> u64 {
        self.place(now, self.received.1 + bytes.get());
        let Some(wait) = self.own_wait(now) else {
            return 0;
        };
        let rtt = self.path + wait;
        let long = wait > self.settings.target;
        let signals = (0..packets.min(MOST_SIGNALS.into()))
            .filter(|_| self.sawtooth.strikes(now, long, rtt))
            .count() as u64;
        self.signals += signals;
        signals
    }

    fn probed(&mut self, now: Time, sent: Sent, rtt: Duration, up_ns: i64) {
        let probe = Probe {
            departed: sent.departed,
            rtt,
            reading_ns: (rtt.as_nanos() as i64).wrapping_sub(up_ns),
            idle: self.load <= 0.0,
            predicted: None,
        };
        let (wait, longer) = self.down.probed(now, probe);
        if longer {
            self.curve = ServiceCurve::default();
        }
        self.path = rtt.saturating_sub(wait);
        let arrived = sent.departed + rtt;
        self.newest = Some((now, wait));
        self.judge.sample(wait);
        self.fresh.push((arrived, wait));
    }

    fn due(&self) -> Time {
        self.due
    }

    fn update(&mut self, now: Time) -> Decision {
        self.due = (self.due + UPDATE).max(now + UPDATE / 2);
        let newest = self.newest.map_or(Duration::ZERO, |n| n.1);
        self.trust = self.judge.judge(now, self.received.1, newest);
        match (
            self.curve.slope(self.capacity, Duration::ZERO),
            self.capacity,
        ) {
            _ if self.trust == Trust::Others => {}
            (Some(Slope::Full(seen)), _) => {
                self.capacity = Some(seen.after(self.capacity));
                self.judge.proven(now, seen.value, seen.low);
            }
            (Some(Slope::AtLeast(seen)), Some(c)) if seen.low > c.value => {
                self.capacity = Some(seen.after(self.capacity));
            }
            _ => {}
        }
        self.judge.signalled(self.signals);
        let wait = self.wait(now);
        let why = Why::of(&Findings {
            wait,
            target: self.settings.target,
            cap: Duration::MAX,
            trust: self.trust,
            unseen: self.unseen,
            doubtful: self.down.is_doubtful(now),
            learning: self.capacity.is_none(),
        });
        Decision {
            at: now,
            wait: wait.unwrap_or_default(),
            capacity: self.capacity,
            probed: wait,
            signals: std::mem::take(&mut self.signals),
            why,
        }
    }

    fn path(&self) -> Option<Duration> {
        self.newest.map(|_| self.path)
    }

    fn set_unseen(&mut self, unseen: bool) {
        self.unseen = unseen;
    }

    fn signals_help(&self, now: Time) -> bool {
        self.own_wait(now)
            .is_some_and(|w| w > self.settings.target / 2)
    }

    fn room(&self, _now: Time) -> Option<Room> {
        None
    }

    fn marks(&self) -> bool {
        self.settings.ecn
    }
}
