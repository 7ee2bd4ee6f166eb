//! Control of the upload queue in the modem, without shaping: the gateway drops or marks packets by the estimated wait
//! behind it, so the link stays at its full rate.
//!
//! **Method.** Bytes handed over and RTT samples feed [`HiddenQueue`]; the service curve keeps its capacity right. The law
//! decides for each packet. `Pie` is RFC 8033's, with the estimated wait in place of its own queue's. `Sawtooth` signals
//! one packet when the wait passes the target, waits one RTT for the sender's answer, and doubles the number of signals
//! per RTT while the wait stays above it. Above `cap` every packet is dropped: a slow start ends there.
//!
//! A host that holds each packet asks [`Controller::packet`], as the simulator does. A host whose kernel forwards the
//! packets reports what passed ([`Controller::passed`]), and tells its kernel how many packets to signal and how many
//! bytes may pass until the next report ([`Controller::room`]).
//!
//! **Source.** RFC 8033 (PIE); Borlaug 2014, section 6.3.2, figures 51 to 54 (an AQM at the gateway on the estimated
//! queue).
//!
//! **Limits.** Without samples for [`SILENCE`] while bytes flow, nothing is known: packets pass, and the decision says so.

use crate::baseline::Base;
use crate::capacity::{Capacity, ServiceCurve, Slope};
use crate::margin::Margin;
use crate::oneway::{OneWay, Probe};
use crate::queue::{HiddenQueue, Sent};
use crate::sawtooth::{MOST_SIGNALS, Sawtooth};
use crate::trust::{Judge, Trust};
use base::{BitsPerSec, Bytes, Duration, Ecn, Time};
use link::qdisc::Verdict;
use link::qdisc::pie::{self, PieLaw};
use serde::{Deserialize, Serialize};

/// Interval between updates of the law and of the capacity.
pub const UPDATE: Duration = Duration::from_millis(15);
/// Share of a sample's error that corrects the backlog: it grows while successive errors have the same sign, because the
/// model lags behind, and shrinks while they alternate, because the samples are noisy.
const GAIN: std::ops::RangeInclusive<f64> = 0.2..=0.9;
/// Step of the share.
const GAIN_STEP: f64 = 0.05;
/// Error of a wait that is allowed for where bursts show a rate, and the longest wait after which they do: a longer one
/// shows that the rate was exceeded, and by then it may have changed.
const SLACK: Duration = Duration::from_millis(3);
const SHOWN: Duration = Duration::from_millis(5);
/// Error of a sample that is a surprise, at the least, and the number of surprises that are a change.
const SURPRISE_S: f64 = 4e-3;
const SURPRISES: i32 = 2;
/// Error of a single exit, at the least.
const LEAST_NOISE_S: f64 = 1e-3;
/// Bytes of the packet that crosses a limit: it passes whole.
const FRAME: f64 = 1500.0;
/// Packets that may wait in any case (RFC 8033, section 4.1, for the first number), and those above which each is dropped.
const TARGET_FRAMES: f64 = 2.0;
const CAP_FRAMES: f64 = 4.0;
/// Time without samples after which the wait is unknown.
pub const SILENCE: Duration = Duration::from_secs(1);

/// Rule that decides for each packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, Default)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    Pie,
    #[default]
    Sawtooth,
}

/// Settings of the controller.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Upload {
    /// Law that decides on drops and marks.
    pub law: Law,
    /// Wait to hold.
    pub target: Duration,
    /// Wait above which every packet is dropped.
    pub cap: Duration,
    /// Capacity to start with; learned if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub capacity: Option<BitsPerSec>,
    /// Mark ECN-capable packets instead of dropping them.
    pub ecn: bool,
}

impl Default for Upload {
    fn default() -> Self {
        Upload {
            law: Law::default(),
            target: Duration::from_millis(20),
            cap: Duration::from_millis(40),
            capacity: None,
            ecn: true,
        }
    }
}

/// Reason for what the controller does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Why {
    /// No RTT sample yet, or none for a second: packets pass.
    Blind,
    /// The capacity is not known yet: the last sample stands for the wait.
    Learning,
    /// The wait is below the target.
    Short,
    /// The wait is above the target: packets are signalled.
    Long,
    /// The wait is above the cap: packets are dropped.
    Capped,
    /// Probes wait, but not behind packets of this gateway: packets pass.
    Others,
    /// The link is full and no probe waits: they do not share its queue. Packets pass.
    Bypassed,
    /// The interface sends packets that the gateway does not see: packets pass.
    Unseen,
    /// A wait jumped while that of the other direction fell: the far clock may have been set, so the jump counts as none.
    Clock,
}

/// Facts of one update that name the reason of its decision.
pub(crate) struct Findings {
    /// Wait that is known.
    pub wait: Option<Duration>,
    /// Wait to hold.
    pub target: Duration,
    /// Wait above which every packet is dropped; [`Duration::MAX`]: none.
    pub cap: Duration,
    /// Verdict on the signal.
    pub trust: Trust,
    /// True while packets pass that the host does not count.
    pub unseen: bool,
    /// True if a wait jumped as it does when a clock is set.
    pub doubtful: bool,
    /// True while the capacity is unknown.
    pub learning: bool,
}

impl Why {
    /// Reason of a decision: the first doubt, or the place of the wait.
    pub(crate) fn of(f: &Findings) -> Why {
        match f.wait {
            None => Why::Blind,
            Some(_) if f.unseen => Why::Unseen,
            Some(_) if f.trust == Trust::Others => Why::Others,
            Some(_) if f.trust == Trust::Bypassed => Why::Bypassed,
            Some(w) if w > f.cap => Why::Capped,
            Some(w) if w > f.target => Why::Long,
            Some(_) if f.doubtful => Why::Clock,
            Some(_) if f.learning => Why::Learning,
            Some(_) => Why::Short,
        }
    }

    /// True while the wait is known and that of this gateway's own queue.
    pub fn is_own(self) -> bool {
        !matches!(self, Why::Blind | Why::Others | Why::Bypassed | Why::Unseen)
    }
}

/// Bytes that may pass before the hidden queue exceeds the cap.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Room {
    /// Bytes that may pass at once; negative while the wait is above the cap.
    pub bytes: f64,
    /// Growth, bytes per second; zero while the capacity is unknown.
    pub rate: f64,
}

/// State of the controller at one update.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Decision {
    /// Instant of the update.
    pub at: Time,
    /// Estimated wait in the hidden queue.
    pub wait: Duration,
    /// Capacity in use and its interval, bytes per second.
    pub capacity: Option<Capacity>,
    /// Wait of the newest sample, unless it is too old.
    pub probed: Option<Duration>,
    /// Signals (drops and marks) since the last update.
    pub signals: u64,
    /// Reason of the decision.
    pub why: Why,
}

/// Controller of one direction.
#[derive(Clone, Debug)]
pub struct Controller {
    settings: Upload,
    queue: HiddenQueue,
    curve: ServiceCurve,
    /// RTT, of a host that sees ACKs.
    base: Base,
    /// RTT without the wait, as of the newest sample: with the queue of the other direction.
    path: Duration,
    /// One-way delay up, of a host whose probes show it.
    up: OneWay,
    /// Capacity in use, bytes per second.
    capacity: Option<Capacity>,
    pie: (pie::Params, PieLaw),
    sawtooth: Sawtooth,
    margin: Margin,
    /// Time of the last report of such a host.
    reported: Time,
    /// Arrival and wait of the newest sample.
    newest: Option<(Time, Duration)>,
    surprise: Surprise,
    judge: Judge,
    trust: Trust,
    /// True while packets leave that the host does not count.
    unseen: bool,
    due: Time,
    signals: u64,
}

impl Controller {
    /// Creates a controller with these settings.
    pub fn new(settings: Upload) -> Controller {
        let known = |rate: BitsPerSec| {
            let value = rate.get() as f64 / 8.0;
            Capacity {
                value,
                low: 0.0,
                high: f64::INFINITY,
            }
        };
        let params = pie::Params {
            target: settings.target,
            ecn: settings.ecn,
            ..pie::Params::default()
        };
        let capacity = settings.capacity.map(known);
        let mut judge = Judge::default();
        if let Some(c) = capacity {
            judge.expect(Time::ZERO, c.value);
        }
        Controller {
            queue: HiddenQueue::new(capacity.map_or(f64::INFINITY, |c| c.value)),
            curve: ServiceCurve::default(),
            base: Base::default(),
            path: Duration::ZERO,
            up: OneWay::default(),
            capacity,
            pie: (params, PieLaw::new(&params)),
            sawtooth: Sawtooth::default(),
            margin: Margin::default(),
            settings,
            reported: Time::ZERO,
            newest: None,
            surprise: Surprise::default(),
            judge,
            trust: Trust::default(),
            unseen: false,
            due: Time::ZERO,
            signals: 0,
        }
    }

    /// Bytes handed over so far; a sample of a packet refers to this number as it was after the packet.
    pub fn total(&self) -> u64 {
        self.queue.total()
    }

    /// Estimated wait of a packet handed over at `now`, if one is known.
    pub fn wait(&self, now: Time) -> Option<Duration> {
        let (at, wait) = self.newest?;
        if now.saturating_since(at) > SILENCE {
            return None;
        }
        Some(match self.capacity {
            Some(_) => self.queue.wait(now),
            None => wait.saturating_sub(now.saturating_since(at)),
        })
    }

    /// Wait that the law acts on; `None` if it is unknown or not this gateway's.
    fn own_wait(&self, now: Time) -> Option<Duration> {
        let trusted = self.trust == Trust::Good && !self.unseen;
        self.wait(now).filter(|_| trusted)
    }

    /// Tells if packets leave that the host does not count: then nothing is signalled.
    pub fn set_unseen(&mut self, unseen: bool) {
        self.unseen = unseen;
    }

    /// RTT of the newest sample without its wait, if one came.
    pub fn path(&self) -> Option<Duration> {
        self.newest.map(|_| self.path)
    }

    /// Wait to hold: no sender sends less than a packet at a time, so a slow link takes the time of two.
    fn target(&self) -> Duration {
        (self.settings.target + self.margin.get()).max(self.frames(TARGET_FRAMES))
    }

    /// Wait above which every packet is dropped.
    fn cap(&self) -> Duration {
        (self.settings.cap + self.margin.get()).max(self.frames(CAP_FRAMES))
    }

    /// Time that the link takes for so many packets; zero while its capacity is unknown.
    fn frames(&self, count: f64) -> Duration {
        let capacity = self.capacity.map_or(f64::INFINITY, |c| c.value);
        Duration::from_secs_f64((count * FRAME / capacity).min(1.0))
    }

    /// True while a signal to a sender would shorten the wait.
    pub fn signals_help(&self, now: Time) -> bool {
        self.own_wait(now).is_some_and(|w| w > self.target() / 2)
    }

    /// Judges a packet that is about to be handed over, and counts it unless it is dropped. `draw` returns a uniform
    /// number in [0, 1).
    pub fn packet(
        &mut self,
        now: Time,
        len: Bytes,
        ecn: Ecn,
        draw: impl FnOnce() -> f64,
    ) -> Verdict {
        let verdict = match self.own_wait(now) {
            None => Verdict::Forward,
            Some(wait) if wait > self.cap() => Verdict::Drop,
            Some(wait) => self.judge(now, wait, ecn, draw),
        };
        self.signals += u64::from(verdict != Verdict::Forward);
        if verdict != Verdict::Drop {
            self.queue.arrived(now, len);
        }
        verdict
    }

    /// Records `bytes` in `packets` (segments of GSO packets counted) that passed since the last call, and returns the
    /// number of packets to signal. `draw` returns a uniform number in [0, 1).
    pub fn passed(
        &mut self,
        now: Time,
        bytes: Bytes,
        packets: u64,
        mut draw: impl FnMut() -> f64,
    ) -> u64 {
        let since = std::mem::replace(&mut self.reported, now);
        if bytes == Bytes::ZERO {
            return 0;
        }
        self.queue.passed(since, now, bytes);
        let Some(wait) = self.own_wait(now) else {
            return 0;
        };
        // Single packets, as `packet` would meet them; more than these in one report are a burst that the cap bounds.
        let judged = packets.min(MOST_SIGNALS.into());
        let signals = (0..judged)
            .filter(|_| self.judge(now, wait, Ecn::Ect0, &mut draw) != Verdict::Forward)
            .count() as u64;
        self.signals += signals;
        signals
    }

    /// Bytes that may pass until the wait exceeds the cap. `None` while the wait is unknown, or bounded by nothing.
    pub fn room(&self, now: Time) -> Option<Room> {
        let wait = self.own_wait(now)?;
        match self.capacity {
            Some(c) => Some(Room {
                bytes: self.cap().as_secs_f64() * c.value - self.queue.backlog(now) - FRAME,
                rate: c.value,
            }),
            None => (wait > self.cap()).then_some(Room {
                bytes: 0.0,
                rate: 0.0,
            }),
        }
    }

    /// True while ECN-capable packets are to be marked instead of dropped.
    pub fn marks(&self) -> bool {
        self.settings.ecn && self.pie.1.probability() < self.pie.0.mark_limit
    }

    fn judge(
        &mut self,
        now: Time,
        wait: Duration,
        ecn: Ecn,
        draw: impl FnOnce() -> f64,
    ) -> Verdict {
        let backlog = Bytes::new(self.queue.backlog(now).min(1e12) as u64);
        match self.settings.law {
            Law::Pie => {
                let (params, law) = &mut self.pie;
                law.judge(params, backlog, ecn, draw)
            }
            Law::Sawtooth => {
                let rtt = self.path + wait;
                if !self.sawtooth.strikes(now, wait > self.target(), rtt) {
                    Verdict::Forward
                } else if self.settings.ecn && ecn.is_capable() {
                    Verdict::Mark
                } else {
                    Verdict::Drop
                }
            }
        }
    }

    /// Adds an RTT sample. An ACK that was delayed by the receiver (not `prompt`) can only show that the wait is shorter
    /// than estimated.
    pub fn sample(&mut self, now: Time, sent: Sent, rtt: Duration, prompt: bool) {
        if self.base.sample(now, rtt, self.queue.is_idle(sent)) {
            self.curve = ServiceCurve::default();
        }
        let base = self.base.get().unwrap_or(rtt);
        self.path = base;
        self.waited(now, sent, rtt.saturating_sub(base), prompt);
    }

    /// Adds the answer to a probe: its RTT, and the reading of the far clock on its arrival minus that of this clock on
    /// its departure. The clocks need not agree.
    pub fn probed(&mut self, now: Time, sent: Sent, rtt: Duration, up_ns: i64) {
        let probe = Probe {
            departed: sent.departed,
            rtt,
            reading_ns: up_ns,
            idle: self.queue.is_idle(sent),
            predicted: self.capacity.and_then(|_| self.queue.wait_of(sent)),
        };
        let (wait, longer) = self.up.probed(now, probe);
        if longer {
            self.curve = ServiceCurve::default();
        }
        self.path = rtt.saturating_sub(wait);
        self.waited(now, sent, wait, true);
    }

    /// Adds the wait of one packet.
    fn waited(&mut self, now: Time, sent: Sent, wait: Duration, prompt: bool) {
        let Sent { departed, total } = sent;
        let predicted = self.queue.wait_of(sent);
        if !prompt && predicted.is_none_or(|p| p <= wait) {
            // It still shows that the path answers.
            self.newest = Some((now, self.newest.map_or(wait, |n| n.1.min(wait))));
            return;
        }
        self.newest = Some((now, wait));
        self.judge.sample(wait);
        self.curve.sample(departed, total, wait);
        if let Some(c) = self.capacity {
            // Bursts of more than the capacity that met no queue: the link is faster.
            let least = self.queue.least_rate(sent, wait + SLACK);
            if wait < SHOWN && least > c.value && !self.up.may_hide(now) {
                self.learn(Capacity {
                    value: least,
                    low: least,
                    high: f64::INFINITY,
                });
            }
            let error_s = predicted.map_or(0.0, |p| wait.as_secs_f64() - p.as_secs_f64());
            let gain = match self.surprise.note(error_s) {
                Some(samples) => {
                    self.curve.restart(samples);
                    self.fall(now, c);
                    1.0
                }
                None => self.surprise.gain,
            };
            self.queue.measured(sent, wait, gain);
        }
    }

    /// Lowers the capacity at the second surprise, without waiting for a regression: meanwhile the queue grows.
    fn fall(&mut self, now: Time, before: Capacity) {
        let own = self.judge.is_loaded(now, self.total(), before.value);
        if !own || self.trust != Trust::Good {
            return;
        }
        let noise = Duration::from_secs_f64((2.0 * self.surprise.noise_s).max(LEAST_NOISE_S));
        if let Some(seen) =
            (self.curve.newest_rate(noise, before.value)).filter(|s| s.high < before.value)
        {
            self.learn(seen);
        }
    }

    /// Probability of a signal per packet, of a law that has one.
    pub fn probability(&self) -> Option<f64> {
        (self.settings.law == Law::Pie).then(|| self.pie.1.probability())
    }

    /// Time of the next update.
    pub fn due(&self) -> Time {
        self.due
    }

    /// Updates capacity and law; call it at [`due`](Self::due).
    pub fn update(&mut self, now: Time) -> Decision {
        // Updates that come late do not make the next ones later.
        self.due = (self.due + UPDATE).max(now + UPDATE / 2);
        let probed = self.newest.map_or(Duration::ZERO, |n| n.1);
        self.trust = self.judge.judge(now, self.total(), probed);
        // A link that is loaded shows its queue; else waits have to show more than they scatter.
        let is_loaded =
            (self.capacity).is_some_and(|c| self.judge.is_loaded(now, self.total(), c.value));
        let noise = match is_loaded {
            true => Duration::ZERO,
            false => Duration::from_secs_f64(self.surprise.noise_s),
        };
        match (self.curve.slope(self.capacity, noise), self.capacity) {
            // The rate of others' queue is not that of the link.
            _ if self.trust == Trust::Others => {}
            (Some(Slope::Full(seen)), _) => {
                self.learn(seen);
                self.judge.proven(now, seen.value, seen.low);
            }
            // The link carried more than it was believed to carry.
            (Some(Slope::AtLeast(seen)), Some(c))
                if seen.low > c.value && !self.up.may_hide(now) =>
            {
                self.learn(seen)
            }
            _ => {}
        }
        let wait = self.wait(now);
        if let (Law::Pie, Some(wait)) = (self.settings.law, wait) {
            let (params, law) = &mut self.pie;
            let backlog = Bytes::new(self.queue.backlog(now).min(1e12) as u64);
            law.departed(params, now, Bytes::ZERO, wait, backlog);
            law.update(params, backlog);
        }
        if let (Law::Sawtooth, Some(c)) = (self.settings.law, self.capacity) {
            let wait = self.own_wait(now).filter(|_| is_loaded);
            (self.margin).look(now, self.signals, (wait, c.value), self.settings.target);
        }
        self.judge.signalled(self.signals);
        let why = Why::of(&Findings {
            wait,
            target: self.target(),
            cap: self.cap(),
            trust: self.trust,
            unseen: self.unseen,
            doubtful: self.up.is_doubtful(now),
            learning: self.capacity.is_none(),
        });
        Decision {
            at: now,
            wait: wait.unwrap_or_default(),
            capacity: self.capacity,
            probed: self
                .newest
                .filter(|n| now.saturating_since(n.0) <= SILENCE)
                .map(|n| n.1),
            signals: std::mem::take(&mut self.signals),
            why,
        }
    }

    fn learn(&mut self, seen: Capacity) {
        let capacity = seen.after(self.capacity);
        self.capacity = Some(capacity);
        self.queue.set_rate(capacity.value);
    }
}

/// Errors of successive samples: a change of the link shows in several of the same sign.
#[derive(Clone, Copy, Debug)]
struct Surprise {
    /// Share of the next error that corrects the backlog.
    gain: f64,
    /// Error of the last sample, seconds.
    last_s: f64,
    /// Mean absolute error of samples that were no surprise, seconds.
    noise_s: f64,
    /// Successive surprises; negative if the samples were shorter than predicted.
    run: i32,
}

impl Default for Surprise {
    fn default() -> Surprise {
        Surprise {
            gain: 0.5,
            last_s: 0.0,
            noise_s: 0.0,
            run: 0,
        }
    }
}

impl Surprise {
    /// Records an error in seconds. Returns the number of samples since the link changed, if it did.
    fn note(&mut self, error_s: f64) -> Option<usize> {
        let step = if error_s * self.last_s > 0.0 {
            GAIN_STEP
        } else {
            -GAIN_STEP
        };
        self.gain = (self.gain + step).clamp(*GAIN.start(), *GAIN.end());
        self.last_s = error_s;
        if error_s.abs() <= SURPRISE_S.max(4.0 * self.noise_s) {
            self.noise_s += 0.05 * (error_s.abs() - self.noise_s);
            self.run = 0;
            return None;
        }
        let sign = if error_s > 0.0 { 1 } else { -1 };
        self.run = if self.run * sign > 0 {
            self.run + sign
        } else {
            sign
        };
        (self.run.abs() >= SURPRISES).then_some(self.run.unsigned_abs() as usize)
    }
}
