//! Sessions of many users: they arrive as a Poisson process whose rate follows the hours of the day. Each makes some
//! connections, one after another, of log-normal size with a Pareto tail.
//!
//! **Source**: V. Paxson, S. Floyd, "Wide-Area Traffic: The Failure of Poisson Modeling", IEEE/ACM Transactions
//! on Networking 3(3), 1995: sessions arrive as Poisson processes with fixed hourly rates, the connections
//! of a session do not; P. Lewis, G. Shedler, "Simulation of Nonhomogeneous Poisson Processes by Thinning",
//! Naval Research Logistics Quarterly 26, 1979.
//!
//! **Deviations**: the connections of a session follow each other without overlap.

use super::{Application, Ask, Channel, Done, Law, Opening, Span, THERE, Told};
use base::rng::{Rng, Streams, uniform};
use base::{Duration, Time};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Parameters of the sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Crowd {
    /// Mean time from one session to the next, over a whole day, seconds.
    pub gap_s: f64,
    /// Relative session rate in each equal part of the day.
    pub profile: Vec<f64>,
    /// Length of a day.
    pub day: Duration,
    /// Mean number of connections of a session; at least one.
    pub connections: f64,
    /// Pause from the end of one connection to the next, seconds.
    pub pause_s: Law,
    /// Sizes of the connections.
    pub sizes: Law,
}

/// An active connection.
#[derive(Clone, Copy, Debug)]
struct Busy {
    began: Time,
    bytes: u64,
    /// Connections of the session that follow.
    left: u64,
}

/// Source of sessions of many users.
pub struct Sessions {
    crowd: Crowd,
    /// Highest value of the profile over its mean.
    peak: f64,
    arrivals: Rng,
    thinning: Rng,
    counts: Rng,
    pauses: Rng,
    sizes: Rng,
    stop: Time,
    next_session: Option<Time>,
    /// Sessions between two connections: time, order of arrival, and connections left.
    resting: BinaryHeap<Reverse<(Time, u64, u64)>>,
    rests: u64,
    busy: Vec<Option<Busy>>,
    free: BinaryHeap<Reverse<Channel>>,
    under_way: usize,
}

impl Sessions {
    /// Creates the source. `name` identifies its owner and names its random streams.
    pub fn new(crowd: Crowd, span: Span, streams: &Streams, name: &str) -> Sessions {
        let mean = crowd.profile.iter().sum::<f64>() / crowd.profile.len() as f64;
        let peak = crowd.profile.iter().copied().fold(0.0, f64::max) / mean;
        let mut sessions = Sessions {
            crowd,
            peak,
            arrivals: streams.stream(&format!("{name}/arrivals")),
            thinning: streams.stream(&format!("{name}/thinning")),
            counts: streams.stream(&format!("{name}/connections")),
            pauses: streams.stream(&format!("{name}/pauses")),
            sizes: streams.stream(&format!("{name}/sizes")),
            stop: span.stop,
            next_session: None,
            resting: BinaryHeap::new(),
            rests: 0,
            busy: vec![None],
            free: BinaryHeap::from([Reverse(0)]),
            under_way: 0,
        };
        sessions.next_session = sessions.arrival_after(span.start);
        sessions
    }

    /// Session rate at a time, relative to the highest; simulated time zero is midnight.
    fn relative_rate(&self, at: Time) -> f64 {
        let profile = &self.crowd.profile;
        let share = at.as_nanos() % self.crowd.day.as_nanos();
        let part =
            u128::from(share) * profile.len() as u128 / u128::from(self.crowd.day.as_nanos());
        let highest = profile.iter().copied().fold(0.0, f64::max);
        profile[part as usize] / highest
    }

    /// Lewis and Shedler's thinning: candidates arrive at the highest rate; each is kept with the ratio of the current
    /// rate to it.
    fn arrival_after(&mut self, from: Time) -> Option<Time> {
        let gap = Law::Exponential(self.crowd.gap_s / self.peak);
        let mut at = from;
        loop {
            at += Duration::from_secs_f64(gap.draw(&mut self.arrivals));
            if at >= self.stop || at == Time::MAX {
                return None;
            }
            if uniform(&mut self.thinning) < self.relative_rate(at) {
                return Some(at);
            }
        }
    }

    fn connect(&mut self, now: Time, left: u64, asks: &mut Vec<Ask>) {
        let channel = match self.free.pop() {
            Some(Reverse(channel)) => channel,
            None => {
                self.busy.push(None);
                self.busy.len() - 1
            }
        };
        let bytes = self.crowd.sizes.draw(&mut self.sizes).round().max(1.0) as u64;
        self.busy[channel] = Some(Busy {
            began: now,
            bytes,
            left,
        });
        self.under_way += 1;
        asks.push(Ask::Open(channel, THERE));
        asks.push(Ask::Close(channel));
        asks.push(Ask::Write(channel, bytes));
    }

    /// Number of connections after the first: geometric, with the mean that was asked for.
    fn others(&mut self) -> u64 {
        let mean = self.crowd.connections;
        if mean <= 1.0 {
            return 0;
        }
        let go_on = 1.0 - 1.0 / mean;
        (((1.0 - uniform(&mut self.counts)).ln() / go_on.ln()).floor() as u64).min(1_000_000)
    }
}

impl Application for Sessions {
    fn openings(&self) -> Vec<Opening> {
        vec![THERE]
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match what {
            Told::Due => {
                while let Some(Reverse((at, _, left))) = self.resting.peek().copied() {
                    if at > now {
                        break;
                    }
                    self.resting.pop();
                    self.connect(now, left - 1, asks);
                }
                if self.next_session.is_some_and(|at| at <= now) {
                    let others = self.others();
                    self.connect(now, others, asks);
                    self.next_session = self.arrival_after(now);
                }
            }
            Told::Acknowledged(channel) => {
                let busy = self.busy[channel].take()?;
                self.under_way -= 1;
                self.free.push(Reverse(channel));
                let pause = Duration::from_secs_f64(self.crowd.pause_s.draw(&mut self.pauses));
                if busy.left > 0 && now + pause < self.stop {
                    self.resting
                        .push(Reverse((now + pause, self.rests, busy.left)));
                    self.rests += 1;
                }
                return Some(Done {
                    what: "connection",
                    began: busy.began,
                    bytes: busy.bytes,
                });
            }
            Told::Arrived(_) => {}
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        let rest = self.resting.peek().map(|Reverse((at, _, _))| *at);
        rest.into_iter().chain(self.next_session).min()
    }

    fn is_over(&self) -> bool {
        self.next_session.is_none() && self.resting.is_empty() && self.under_way == 0
    }
}
