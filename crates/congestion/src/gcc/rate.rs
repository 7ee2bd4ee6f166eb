//! Rate by the trend of delays: draft section 5.5, with libwebrtc's estimate of the link.

use super::growth;
use super::trend::Usage;
use base::{Duration, Time};

/// Part of what arrives that is kept when the queue grows. Section 5.5: 0.85.
const KEPT: f64 = 0.85;
/// Rate that is taken off beside, bit/s, if there is more than that (libwebrtc).
const TAKEN_OFF: f64 = 5000.0;
/// Limit beside what arrives: 1.5 times (section 5.5), and 10 kbit/s (libwebrtc).
const AHEAD: f64 = 1.5;
const AHEAD_BPS: f64 = 10_000.0;
/// Smallest growth, bit/s: of a step, and per second near the limit.
const STEP_BPS: f64 = 1000.0;
const LEAST_GROWTH_BPS: f64 = 4000.0;
/// Time that a sender needs to react beside an RTT. Section 5.5: 100 ms.
const REACTION: Duration = Duration::from_millis(100);
/// Limits of the time between two cuts, beside that of an RTT (libwebrtc).
const CUTS: (Duration, Duration) = (Duration::from_millis(10), Duration::from_millis(200));
/// Frames per second and bytes of a packet from which an increase by a packet is computed (libwebrtc).
const FRAMES: f64 = 30.0;
const PACKET_BITS: f64 = 1200.0 * 8.0;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Hold,
    Increase,
}

/// Rate by delays.
#[derive(Clone, Debug)]
pub(super) struct DelayBased {
    rate: f64,
    state: State,
    changed: Option<Time>,
    link: Option<Link>,
}

/// Rate at which queues grew, and its relative variance; kbit/s.
#[derive(Clone, Copy, Debug)]
struct Link {
    mean: f64,
    variance: f64,
}

impl Link {
    /// Weight of a new value, and limits of the relative variance, kbit/s (libwebrtc).
    const WEIGHT: f64 = 0.05;
    const VARIANCES: (f64, f64) = (0.4, 2.5);

    fn of(kbps: f64) -> Link {
        Link {
            mean: kbps,
            variance: Link::VARIANCES.0,
        }
    }

    fn add(&mut self, kbps: f64) {
        self.mean = (1.0 - Link::WEIGHT) * self.mean + Link::WEIGHT * kbps;
        let error = self.mean - kbps;
        let relative = error * error / self.mean.max(1.0);
        let variance = (1.0 - Link::WEIGHT) * self.variance + Link::WEIGHT * relative;
        self.variance = variance.clamp(Link::VARIANCES.0, Link::VARIANCES.1);
    }

    /// Three standard deviations.
    fn spread(&self) -> f64 {
        3.0 * (self.variance * self.mean).sqrt()
    }
}

impl DelayBased {
    /// State of a new call.
    pub fn new(rate: f64) -> DelayBased {
        DelayBased {
            rate,
            state: State::Hold,
            changed: None,
            link: None,
        }
    }

    /// Rate, bit/s.
    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Keeps the rate within limits.
    pub fn clamp(&mut self, least: f64, most: f64) {
        self.rate = self.rate.clamp(least, most);
    }

    /// Takes what a probe has found.
    pub fn set(&mut self, now: Time, rate: f64) {
        (self.rate, self.changed) = (rate, Some(now));
    }

    /// Follows a report; `arriving` is the rate that arrives, if known.
    pub fn update(&mut self, now: Time, usage: Usage, arriving: Option<f64>, rtt: Duration) {
        match usage {
            Usage::Over if self.may_cut(now, arriving, rtt) => self.cut(now, arriving),
            Usage::Over => {}
            Usage::Under => self.state = State::Hold,
            Usage::Normal => {
                if self.state == State::Hold {
                    (self.state, self.changed) = (State::Increase, Some(now));
                }
                self.grow(now, arriving, rtt);
            }
        }
    }

    /// True once the last change had time to show, or if less than half arrives.
    fn may_cut(&self, now: Time, arriving: Option<f64>, rtt: Duration) -> bool {
        let pause = rtt.clamp(CUTS.0, CUTS.1);
        let shown = self
            .changed
            .is_none_or(|c| now.saturating_since(c) >= pause);
        shown || arriving.is_some_and(|a| a < 0.5 * self.rate)
    }

    fn cut(&mut self, now: Time, arriving: Option<f64>) {
        let Some(arriving) = arriving else {
            self.rate *= 0.5;
            (self.state, self.changed) = (State::Hold, Some(now));
            return;
        };
        let mut lower = KEPT * arriving;
        if lower > TAKEN_OFF {
            lower -= TAKEN_OFF;
        }
        if lower > self.rate
            && let Some(link) = self.link
        {
            lower = KEPT * link.mean * 1e3;
        }
        self.rate = self.rate.min(lower);
        let kbps = arriving / 1e3;
        match &mut self.link {
            Some(link) if kbps >= link.mean - link.spread() => link.add(kbps),
            link => *link = Some(Link::of(kbps)),
        }
        (self.state, self.changed) = (State::Hold, Some(now));
    }

    fn grow(&mut self, now: Time, arriving: Option<f64>, rtt: Duration) {
        let kbps = arriving.map(|a| a / 1e3);
        self.link = self
            .link
            .filter(|l| kbps.is_none_or(|kbps| kbps <= l.mean + l.spread()));
        let last = self.changed.replace(now).unwrap_or(now);
        let span = now.saturating_since(last);
        let limit = arriving.map_or(f64::INFINITY, |a| AHEAD * a + AHEAD_BPS);
        if self.rate >= limit {
            return;
        }
        let grown = match self.link {
            Some(_) => self.rate + near_limit(self.rate, rtt) * span.as_secs_f64(),
            None => self.rate + (self.rate * (growth(span) - 1.0)).max(STEP_BPS),
        };
        self.rate = grown.min(limit);
    }
}

/// Growth near a known limit, bit/s each second: a packet of mean size in twice the time that a reaction takes.
fn near_limit(rate: f64, rtt: Duration) -> f64 {
    let frame = rate / FRAMES;
    let packet = frame / (frame / PACKET_BITS).ceil().max(1.0);
    let reaction = 2.0 * (rtt + REACTION).as_secs_f64();
    (packet / reaction).max(LEAST_GROWTH_BPS)
}
