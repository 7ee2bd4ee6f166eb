//! Rate of a link: fixed, a schedule of steps, or a recorded trace of delivery opportunities. The arithmetic is exact:
//! fractions of a nanosecond are carried from one packet to the next, so the rate does not drift in long runs.

use base::{BitsPerSec, Bytes, Duration, Time};
use std::sync::Arc;

/// Work units per byte. A unit is 1e-9 bit, so that a link of r bit/s does r units in each nanosecond.
const WORK_PER_BYTE: u64 = 8_000_000_000;

/// Bytes that one entry of a mahimahi trace allows: an MTU of 1500 and 4 bytes of TUN header.
pub const OPPORTUNITY: Bytes = Bytes::new(1504);

/// Rate of a link over time.
#[derive(Clone, Debug, PartialEq)]
pub enum Rate {
    Fixed(BitsPerSec),
    Steps(Steps),
    Trace(Trace),
}

/// Schedule of rates, each from its instant on; it may repeat.
#[derive(Clone, Debug, PartialEq)]
pub struct Steps {
    steps: Arc<[(Duration, BitsPerSec)]>,
    repeat: Option<Duration>,
}

/// Mahimahi trace: the milliseconds at which [`OPPORTUNITY`] bytes may pass. It wraps around after its last entry. An
/// unused opportunity is lost; small packets share one.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace {
    millis: Arc<[u64]>,
}

/// Error for a rate that cannot be used.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RateError {
    #[error(
        "a rate of 0 never delivers anything; for an outage use steps, for example steps = [{{ at = \"0 s\", rate = \"5 Mbit/s\" }}, {{ at = \"10 s\", rate = \"0 bit/s\" }}]"
    )]
    Zero,
    #[error(
        "steps: the first one is at {0}; it must be at \"0 s\", because the rate before it would be unknown"
    )]
    FirstNotAtZero(Duration),
    #[error("steps: {later} comes after {earlier}; each step must be later than the one before")]
    NotAscending { earlier: Duration, later: Duration },
    #[error("steps: at least one rate must be above 0")]
    AllZero,
    #[error("steps: repeat = \"{repeat}\" must be later than the last step, at {last}")]
    RepeatTooEarly { repeat: Duration, last: Duration },
    #[error("steps: there are none")]
    NoSteps,
    #[error("trace, line {line}: \"{text}\" is not a whole number of milliseconds")]
    NotMillis { line: usize, text: String },
    #[error("trace, line {line}: {later} ms comes after {earlier} ms; times may not go back")]
    GoesBack {
        line: usize,
        earlier: u64,
        later: u64,
    },
    #[error("trace: its last line must be above 0 ms, because the trace repeats after it")]
    EmptyTrace,
}

impl Rate {
    /// # Errors
    /// Fails for a rate of zero.
    pub fn fixed(rate: BitsPerSec) -> Result<Rate, RateError> {
        if rate == BitsPerSec::ZERO {
            Err(RateError::Zero)
        } else {
            Ok(Rate::Fixed(rate))
        }
    }

    /// Returns the mean over one repetition; for a schedule without repetition, the last step's rate.
    pub fn mean(&self) -> BitsPerSec {
        match self {
            Rate::Fixed(rate) => *rate,
            Rate::Steps(Steps {
                steps,
                repeat: None,
            }) => steps[steps.len() - 1].1,
            Rate::Steps(Steps {
                steps,
                repeat: Some(repeat),
            }) => {
                let ends = steps.iter().skip(1).map(|s| s.0).chain([*repeat]);
                let work: u128 = steps
                    .iter()
                    .zip(ends)
                    .map(|(s, end)| u128::from(s.1.get()) * u128::from((end - s.0).as_nanos()))
                    .sum();
                BitsPerSec::new((work / u128::from(repeat.as_nanos())) as u64)
            }
            Rate::Trace(Trace { millis }) => {
                let bits = OPPORTUNITY.bits() * millis.len() as u64;
                BitsPerSec::new(bits * 1000 / millis[millis.len() - 1])
            }
        }
    }
}

impl Rate {
    /// Returns the mean over a time range; [`Rate::mean`] if the range is empty.
    pub fn mean_between(&self, from: Duration, to: Duration) -> BitsPerSec {
        let span = u128::from(to.saturating_sub(from).as_nanos());
        let work: u128 = match self {
            _ if span == 0 => return self.mean(),
            Rate::Fixed(rate) => return *rate,
            Rate::Steps(steps) => steps.work_until(to) - steps.work_until(from),
            Rate::Trace(trace) => {
                let first = |t: Duration| {
                    let (round, index) = first_at_or_after(trace, Time::ZERO + t);
                    u128::from(round) * trace.millis.len() as u128 + index as u128
                };
                (first(to) - first(from)) * u128::from(OPPORTUNITY.bits()) * 1_000_000_000
            }
        };
        BitsPerSec::new(u64::try_from(work / span).unwrap_or(u64::MAX))
    }

    /// Returns the highest rate; for a trace, whose opportunities have no length, the mean.
    pub fn peak(&self) -> BitsPerSec {
        match self {
            Rate::Steps(Steps { steps, .. }) => {
                let rates = steps.iter().map(|s| s.1);
                rates.max().unwrap_or(BitsPerSec::ZERO)
            }
            other => other.mean(),
        }
    }
}

impl Steps {
    /// # Errors
    /// Fails for steps that do not start at zero, do not ascend, carry nothing, or repeat before their end.
    pub fn new(
        steps: &[(Duration, BitsPerSec)],
        repeat: Option<Duration>,
    ) -> Result<Steps, RateError> {
        let (first, last) = (
            steps.first().ok_or(RateError::NoSteps)?.0,
            steps[steps.len() - 1].0,
        );
        if !first.is_zero() {
            return Err(RateError::FirstNotAtZero(first));
        }
        if let Some(w) = steps.windows(2).find(|w| w[1].0 <= w[0].0) {
            return Err(RateError::NotAscending {
                earlier: w[0].0,
                later: w[1].0,
            });
        }
        if steps.iter().all(|s| s.1 == BitsPerSec::ZERO) {
            return Err(RateError::AllZero);
        }
        match repeat {
            Some(repeat) if repeat <= last => Err(RateError::RepeatTooEarly { repeat, last }),
            _ => Ok(Steps {
                steps: steps.into(),
                repeat,
            }),
        }
    }

    /// Returns the work from the start to `t`, in 1e-9 bit.
    fn work_until(&self, t: Duration) -> u128 {
        let within = |t: Duration| {
            let ends = self
                .steps
                .iter()
                .skip(1)
                .map(|s| s.0)
                .chain([Duration::MAX]);
            let parts = self.steps.iter().zip(ends).map(|(&(at, rate), end)| {
                let span = end.min(t).saturating_sub(at).as_nanos();
                u128::from(rate.get()) * u128::from(span)
            });
            parts.sum::<u128>()
        };
        match self.repeat {
            None => within(t),
            Some(repeat) => {
                let (rounds, rest) = (
                    t.as_nanos() / repeat.as_nanos(),
                    t.as_nanos() % repeat.as_nanos(),
                );
                u128::from(rounds) * within(repeat) + within(Duration::from_nanos(rest))
            }
        }
    }

    /// Returns the rate at `ns` and the end of its validity; `None`: for ever.
    fn at(&self, ns: u64) -> (u64, Option<u64>) {
        let start = self.repeat.map_or(0, |r| ns - ns % r.as_nanos());
        let phase = Duration::from_nanos(ns - start);
        let next = self.steps.partition_point(|s| s.0 <= phase);
        let until = self.steps.get(next).map(|s| s.0).or(self.repeat);
        (
            self.steps[next - 1].1.get(),
            until.map(|u| start + u.as_nanos()),
        )
    }
}

impl Trace {
    /// Parses mahimahi's text: one whole number of milliseconds per line, not descending.
    ///
    /// # Errors
    /// Fails with the number of the invalid line, and the reason.
    pub fn parse(text: &str) -> Result<Trace, RateError> {
        let mut millis: Vec<u64> = Vec::new();
        for (i, text) in text.lines().map(str::trim).enumerate() {
            let line = i + 1;
            if text.is_empty() {
                continue;
            }
            let ms = text.parse().map_err(|_| RateError::NotMillis {
                line,
                text: text.chars().take(40).collect(),
            })?;
            if let Some(&earlier) = millis.last().filter(|&&earlier| ms < earlier) {
                return Err(RateError::GoesBack {
                    line,
                    earlier,
                    later: ms,
                });
            }
            millis.push(ms);
        }
        Trace::from_millis(millis)
    }

    /// # Errors
    /// Fails for times that go back, or if none is above zero.
    pub fn from_millis(millis: Vec<u64>) -> Result<Trace, RateError> {
        if let Some(i) = millis.windows(2).position(|w| w[1] < w[0]) {
            return Err(RateError::GoesBack {
                line: i + 2,
                earlier: millis[i],
                later: millis[i + 1],
            });
        }
        match millis.last() {
            None | Some(0) => Err(RateError::EmptyTrace),
            Some(_) => Ok(Trace {
                millis: millis.into(),
            }),
        }
    }

    /// Times of the opportunities, ms.
    pub fn millis(&self) -> &[u64] {
        &self.millis
    }

    fn time(&self, round: u64, index: usize) -> Time {
        Time::from_millis(round * self.millis[self.millis.len() - 1] + self.millis[index])
    }
}

/// Serializer of a fixed rate: transmits one packet after the other.
#[derive(Clone, Debug)]
pub(crate) struct Steady {
    rate: u64,
    /// Time at which the link is free: `carry` units of work after the instant `tick`, less than a nanosecond's worth.
    tick: u64,
    carry: u64,
    /// First whole nanosecond in which the link is free.
    free: u64,
    /// Cache: a length and its transmission time, in whole nanoseconds and remainder. Most packets have the same size,
    /// and a division costs as much as everything else.
    len: u32,
    whole: u64,
    rest: u64,
}

impl Steady {
    /// Creates a serializer for a rate above zero.
    pub(crate) fn new(rate: BitsPerSec) -> Steady {
        Steady {
            rate: rate.get(),
            tick: 0,
            carry: 0,
            free: 0,
            len: 0,
            whole: 0,
            rest: 0,
        }
    }

    pub(crate) fn rate(&self) -> u64 {
        self.rate
    }

    #[cold]
    fn measure(&mut self, len: u32) {
        let work = u64::from(len) * WORK_PER_BYTE;
        (self.len, self.whole, self.rest) = (len, work / self.rate, work % self.rate);
    }

    /// Returns the start of transmission of a packet that arrives at this time, and the end, rounded up to the
    /// nanosecond. If it follows the preceding packet without a gap, fractions are carried over.
    #[inline(always)]
    pub(crate) fn take(&mut self, arrived: Time, len: u32) -> (Time, Time) {
        if len != self.len {
            self.measure(len);
        }
        let arrived = arrived.as_nanos();
        let start = arrived.max(self.free);
        if arrived > self.free {
            (self.tick, self.carry) = (arrived, 0);
        }
        self.tick += self.whole;
        self.carry += self.rest;
        if self.carry >= self.rate {
            self.tick += 1;
            self.carry -= self.rate;
        }
        self.free = self.tick + u64::from(self.carry > 0);
        (Time::from_nanos(start), Time::from_nanos(self.free))
    }
}

/// Serializer of any rate: transmits one packet after the other.
#[derive(Clone, Debug)]
pub(crate) enum Serializer {
    Steady(Steady),
    Varying { rate: Rate, at: Progress },
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Progress {
    /// Time at which the link is free: `carry` units of work after the instant `tick`, less than a nanosecond's worth.
    Work { tick: u64, carry: u64 },
    /// Opportunity of a trace at which `left` bytes may still pass.
    Opportunity { round: u64, index: usize, left: u64 },
}

impl Serializer {
    pub(crate) fn new(rate: Rate) -> Serializer {
        let at = match rate {
            // `Rate::fixed` rejects zero; a zero rate made directly never delivers.
            Rate::Fixed(rate) if rate.get() > 0 => return Serializer::Steady(Steady::new(rate)),
            Rate::Trace(_) => Progress::Opportunity {
                round: 0,
                index: 0,
                left: OPPORTUNITY.get(),
            },
            _ => Progress::Work { tick: 0, carry: 0 },
        };
        Serializer::Varying { rate, at }
    }

    /// Changes to a fixed rate from the end of the current transmission on.
    pub(crate) fn change(&mut self, rate: BitsPerSec) {
        let free = match self {
            Serializer::Steady(steady) if steady.rate == rate.get() => return,
            Serializer::Steady(steady) => steady.free,
            Serializer::Varying { .. } => 0,
        };
        *self = Serializer::Steady(Steady {
            tick: free,
            free,
            ..Steady::new(rate)
        });
    }

    /// Returns the end of transmission of a packet that may start at `start`, rounded up to the nanosecond;
    /// [`Time::MAX`] if the rate stays zero from then on. A packet that starts at the instant returned for the
    /// preceding one follows it without a gap, fractions included.
    #[inline]
    pub(crate) fn finish(&mut self, start: Time, len: Bytes) -> Time {
        match self {
            Serializer::Steady(steady) => {
                let len = u32::try_from(len.get()).expect("a packet of less than 4 GB");
                steady.take(start, len).1
            }
            Serializer::Varying { rate, at } => finish_varying(rate, at, start, len),
        }
    }
}

fn finish_varying(rate: &Rate, at: &mut Progress, start: Time, len: Bytes) -> Time {
    match (rate, at) {
        (Rate::Trace(trace), Progress::Opportunity { round, index, left }) => {
            if trace.time(*round, *index) < start {
                (*round, *index) = first_at_or_after(trace, start);
                *left = OPPORTUNITY.get();
            }
            let mut remaining = len.get();
            loop {
                let taken = remaining.min(*left);
                *left -= taken;
                remaining -= taken;
                if remaining == 0 {
                    return trace.time(*round, *index);
                }
                *index += 1;
                if *index == trace.millis.len() {
                    (*round, *index) = (*round + 1, 0);
                }
                *left = OPPORTUNITY.get();
            }
        }
        (rate, Progress::Work { tick, carry }) => {
            let start = start.as_nanos();
            if start > *tick + u64::from(*carry > 0) {
                (*tick, *carry) = (start, 0);
            }
            let mut remaining = len.get() * WORK_PER_BYTE + *carry;
            loop {
                let (rate, until) = match rate {
                    Rate::Steps(steps) => steps.at(*tick),
                    Rate::Fixed(rate) => (rate.get(), None),
                    Rate::Trace(_) => unreachable!("a trace has opportunities"),
                };
                let done_by_then = match until {
                    None => None,
                    Some(until) => {
                        let possible = u128::from(rate) * u128::from(until - *tick);
                        (possible < u128::from(remaining)).then_some((possible as u64, until))
                    }
                };
                match done_by_then {
                    Some((done, until)) => {
                        remaining -= done;
                        *tick = until;
                    }
                    None if rate == 0 => return Time::MAX,
                    None => {
                        *tick += remaining / rate;
                        *carry = remaining % rate;
                        return Time::from_nanos(*tick + u64::from(*carry > 0));
                    }
                }
            }
        }
        (_, Progress::Opportunity { .. }) => unreachable!("only a trace has opportunities"),
    }
}

/// Returns the round and index of the first opportunity at or after `start`.
fn first_at_or_after(trace: &Trace, start: Time) -> (u64, usize) {
    let period = Time::from_millis(trace.millis[trace.millis.len() - 1]).as_nanos();
    // The end of one round is the start of the next; its last entries belong to the earlier one.
    let round = start.as_nanos().saturating_sub(1) / period;
    let index = trace
        .millis
        .partition_point(|ms| round * period + ms * 1_000_000 < start.as_nanos());
    (round, index)
}
