//! Telnet: a user types at a remote machine, which echoes each character.
//!
//! **Source**: V. Paxson, S. Floyd, "Wide-Area Traffic: The Failure of Poisson Modeling", IEEE/ACM Transactions
//! on Networking 3(3), 1995, section 4: the times between a typist's packets are the same everywhere, those
//! of tcplib (P. Danzig, S. Jamin, 1991), with a Pareto body of shape 0.9 and a Pareto tail of shape 0.95 in
//! the upper 3 %, and about 1.1 s on average.
//!
//! **Deviations**: with those shapes there would be no mean; the longest gap bounds it. The least gap is chosen so that
//! 15 % of the gaps are longer than a second.

use super::{ANSWER, Application, Ask, Done, Law, Opening, Span, THERE, Told};
use base::rng::{Rng, Streams};
use base::{Duration, Time};
use std::collections::VecDeque;

/// Connection of the echoes. The remote machine is the flow's `to`, so typed characters take the flow's own direction.
const ECHO: Opening = Opening {
    back: true,
    ..ANSWER
};

/// Source of a typist whose characters are echoed.
pub struct Telnet {
    gap_s: Law,
    gaps: Rng,
    stop: Time,
    due: Option<Time>,
    /// Characters whose echo has not arrived.
    typed: VecDeque<Time>,
}

impl Telnet {
    /// Creates the source. `name` identifies its owner and names its random streams.
    pub fn new(gap_s: Law, span: Span, streams: &Streams, name: &str) -> Telnet {
        Telnet {
            gap_s,
            gaps: streams.stream(&format!("{name}/gaps")),
            stop: span.stop,
            due: Some(span.start).filter(|t| *t < span.stop),
            typed: VecDeque::new(),
        }
    }
}

impl Application for Telnet {
    fn openings(&self) -> Vec<Opening> {
        vec![THERE, ECHO]
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match what {
            Told::Due => {
                let gap = Duration::from_secs_f64(self.gap_s.draw(&mut self.gaps));
                self.due = Some(now + gap).filter(|t| *t < self.stop);
                self.typed.push_back(now);
                asks.push(Ask::Write(0, 1));
            }
            Told::Arrived(0) => asks.push(Ask::Write(1, 1)),
            Told::Arrived(_) => {
                return self.typed.pop_front().map(|began| Done {
                    what: "echo",
                    began,
                    bytes: 1,
                });
            }
            Told::Acknowledged(_) => {}
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        self.due
    }

    fn is_over(&self) -> bool {
        self.due.is_none() && self.typed.is_empty()
    }
}
