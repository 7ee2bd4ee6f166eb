//! The one table of kinds: `tailback probe --help`, `tailback list probes`, the reference page and the accuracy
//! table loop over it.

use super::{
    answer::Outcome, buffer, burst, capacity, check, collapse, dns, envelope, ipv6, middlebox, nat,
    page, path, ports, radio, rtt, sizes, spacing, sweep, tcp, throughput, train,
};
use crate::host::Stopped;
use crate::steps::{OfTrains, Steps};
use base::Bytes;
use base::program::{Sending, Train};
use base::record::Recording;
use base::words::{Entry, Words, worded};

/// Facts of a run that steps are built from.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Upper limit on what the run puts on the line, both directions together.
    pub budget: Bytes,
}

impl Setting {
    /// Allows a kind to put as much on the line as it needs at most.
    ///
    /// # Errors
    /// The budget is smaller.
    pub fn afford(&self, stage: &str, needs: Bytes) -> Result<(), Stopped> {
        if needs <= self.budget {
            return Ok(());
        }
        Err(Stopped::Budget {
            stage: stage.into(),
            next: needs,
            spent: Bytes::ZERO,
            budget: self.budget,
        })
    }
}

/// Steps, or why they cannot begin.
pub type Built = Result<Box<dyn Steps>, Stopped>;

/// How a kind gets its rows.
#[derive(Clone, Copy)]
pub enum How {
    /// By crafted trains alone: what to send next, knowing all so far; none when it has its answer.
    Trains(fn(&Words, &[Train]) -> Option<Sending>),
    /// By steps of its own.
    Steps(fn(&Words, &Setting) -> Built),
    /// By a runner of its own in the room `live`, which the command line knows by the kind's name.
    Own,
}

/// One kind.
pub struct Spec {
    /// Its summary is the question it answers.
    pub entry: Entry,
    /// What it costs, in words: time, and bytes in terms of the line.
    pub takes: &'static str,
    /// Whether its answer is right on a line that others use too.
    pub beside_others: bool,
    pub how: How,
    pub answer: fn(&Words, &Recording) -> Outcome,
}

pub const PROBES: &[Spec] = &[
    rtt::SPEC,
    train::SPEC,
    sweep::SPEC,
    sizes::SPEC,
    spacing::SPEC,
    burst::SPEC,
    envelope::SPEC,
    buffer::SPEC,
    capacity::SPEC,
    path::SPEC,
    throughput::SPEC,
    tcp::SPEC,
    radio::SPEC,
    dns::SPEC,
    nat::SPEC,
    ipv6::SPEC,
    ports::SPEC,
    middlebox::SPEC,
    page::SPEC,
    collapse::SPEC,
    check::SPEC,
];

worded! {
    /// A kind with its parameters, written as `sweep:size=1000,mode=full`.
    ProbeSpec, "probe", PROBES.iter().map(|s| &s.entry)
}

impl ProbeSpec {
    pub fn kind(&self) -> &'static Spec {
        let name = self.words().entry().name;
        PROBES
            .iter()
            .find(|s| s.entry.name == name)
            .expect("it was read from this table")
    }

    /// What to send next; none for a kind that sends otherwise.
    pub fn next(&self, trains: &[Train]) -> Option<Sending> {
        match self.kind().how {
            How::Trains(next) => next(self.words(), trains),
            How::Steps(_) | How::Own => None,
        }
    }

    /// The kind as a state machine; none for a kind that has a runner of its own.
    ///
    /// # Errors
    /// The budget is too small for what it sends at least.
    pub fn steps(&self, setting: &Setting) -> Result<Option<Box<dyn Steps>>, Stopped> {
        match self.kind().how {
            How::Trains(next) => {
                let words = self.words().clone();
                let next = move |trains: &[Train]| next(&words, trains);
                Ok(Some(Box::new(OfTrains::new(next))))
            }
            How::Steps(build) => build(self.words(), setting).map(Some),
            How::Own => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_reads_with_its_defaults_and_asks_a_question() {
        for spec in PROBES {
            let name = spec.entry.name;
            let read: ProbeSpec = name.parse().expect("its defaults are well formed");
            assert_eq!(read.to_string(), name);
            assert!(spec.entry.summary.ends_with('?'), "{name}");
            assert!(
                !spec.takes.is_empty() && !spec.entry.sources.is_empty(),
                "{name}"
            );
            // Without a single train there is an answer: why there is none.
            let outcome = (spec.answer)(read.words(), &Recording::default());
            assert!(!outcome.says.is_empty(), "{name}");
            if let How::Trains(next) = spec.how {
                let first = next(read.words(), &[]).expect("it begins with something");
                let bytes: u64 = first.programs.iter().map(|p| p.bytes(48).get()).sum();
                assert!(
                    bytes < 50_000,
                    "{name} begins with {bytes} bytes on a line it does not know"
                );
            }
        }
    }
}
