//! Backup: batches of changed files go to a store, one chunk after another; the next leaves once the store has answered.
//!
//! **Source**: I. Drago, M. Mellia, M. Munafò, A. Sperotto, R. Sadre, A. Pras, "Inside Dropbox: Understanding Personal
//! Cloud Storage Services", IMC 2012: chunks of at most 4 MB, each acknowledged by the store before the next.
//!
//! **Deviations**: the sizes of the batches are ours: log-normal. An answer has 300 bytes.
//!
//! **Units**: bytes of payload.

use super::{ANSWER, Application, Ask, Done, Law, Opening, Span, THERE, Told};
use base::rng::{Rng, Streams};
use base::{Duration, Time};

/// Connection of the answers.
const ANSWERS: Opening = Opening {
    back: true,
    ..ANSWER
};
/// Bytes of an answer.
const ANSWER_BYTES: u64 = 300;

/// Laws of a backup.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// Bytes of a batch.
    pub bytes: Law,
    /// Pause between batches, s.
    pub pause_s: Law,
    /// Bytes of the largest chunk.
    pub chunk: u64,
    /// Time that the store takes for a chunk.
    pub reaction: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Waiting(Time),
    Sending,
    /// The store writes the chunk; it answers then.
    Storing(Time),
    Answering,
    Over,
}

/// Source of a backup.
#[derive(Clone, Debug)]
pub struct Backup {
    batches: Batches,
    sizes: Rng,
    pauses: Rng,
    stop: Time,
    state: State,
    /// Bytes of this batch, those that have left, and its begin.
    bytes: u64,
    sent: u64,
    began: Time,
}

impl Backup {
    /// Creates the source. `name` identifies its owner and names its random streams.
    pub fn new(batches: Batches, span: Span, streams: &Streams, name: &str) -> Backup {
        Backup {
            batches,
            sizes: streams.stream(&format!("{name}/sizes")),
            pauses: streams.stream(&format!("{name}/pauses")),
            stop: span.stop,
            state: match span.start < span.stop {
                true => State::Waiting(span.start),
                false => State::Over,
            },
            bytes: 0,
            sent: 0,
            began: span.start,
        }
    }

    fn chunk(&mut self, asks: &mut Vec<Ask>) {
        let chunk = self.batches.chunk.min(self.bytes - self.sent);
        self.sent += chunk;
        self.state = State::Sending;
        asks.push(Ask::Write(0, chunk));
    }
}

impl Application for Backup {
    fn openings(&self) -> Vec<Opening> {
        vec![THERE, ANSWERS]
    }

    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done> {
        match (what, self.state) {
            (Told::Due, State::Waiting(_)) => {
                self.bytes = self.batches.bytes.draw(&mut self.sizes).round().max(1.0) as u64;
                (self.sent, self.began) = (0, now);
                self.chunk(asks);
            }
            (Told::Arrived(0), State::Sending) => {
                self.state = State::Storing(now + self.batches.reaction);
            }
            (Told::Due, State::Storing(_)) => {
                self.state = State::Answering;
                asks.push(Ask::Write(1, ANSWER_BYTES));
            }
            (Told::Arrived(_), State::Answering) if self.sent < self.bytes => self.chunk(asks),
            (Told::Arrived(_), State::Answering) => {
                let pause = Duration::from_secs_f64(self.batches.pause_s.draw(&mut self.pauses));
                let next = Some(now + pause).filter(|next| *next < self.stop);
                self.state = next.map_or(State::Over, State::Waiting);
                return Some(Done {
                    what: "transfer",
                    began: self.began,
                    bytes: self.bytes,
                });
            }
            _ => {}
        }
        None
    }

    fn next_wakeup(&self) -> Option<Time> {
        match self.state {
            State::Waiting(due) | State::Storing(due) => Some(due),
            State::Sending | State::Answering | State::Over => None,
        }
    }

    fn is_over(&self) -> bool {
        self.state == State::Over
    }
}
