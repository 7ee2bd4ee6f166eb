//! The one table of kinds: `tailback probe --help`, `tailback list probes`, the reference page and the accuracy
//! table loop over it.

use super::{
    buffer, burst, capacity, check, collapse, dns, ecn, envelope, ipv6, l4s, middlebox, nat, nqb,
    page, path, ports, quic, radio, rtt, shaping, sizes, spacing, sweep, tcp, throughput, train,
    wifi,
};
use crate::answer::ProbeAnswer;
use crate::host::Stopped;
use crate::spec::{How, Setting, Spec};
use crate::steps::{OfTrains, Steps};
use base::program::{Sending, Train};
use base::record::Recording;
use base::words::worded;

/// All kinds, in the order of the help.
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
    shaping::SPEC,
    radio::SPEC,
    dns::SPEC,
    nat::SPEC,
    ipv6::SPEC,
    ports::SPEC,
    middlebox::SPEC,
    ecn::SPEC,
    l4s::SPEC,
    nqb::SPEC,
    quic::SPEC,
    wifi::SPEC,
    page::SPEC,
    collapse::SPEC,
    check::SPEC,
];

worded! {
    /// A kind with its parameters, written as `sweep:size=1000,mode=full`.
    ProbeSpec, "probe", PROBES.iter().map(|s| &s.entry)
}

impl ProbeSpec {
    /// Specification of the kind.
    pub fn kind(&self) -> &'static Spec {
        let name = self.words().entry().name;
        PROBES
            .iter()
            .find(|s| s.entry.name == name)
            .expect("it was read from this table")
    }

    /// Warning that a person must read before the run.
    pub fn warning(&self) -> Option<&'static str> {
        self.kind().warning?(self.words())
    }

    /// Next sending; none for a kind that sends otherwise.
    pub fn next(&self, trains: &[Train]) -> Option<Sending> {
        match self.kind().how {
            How::Trains(next) => next(self.words(), trains),
            How::Steps(_) => None,
        }
    }

    /// The kind as a state machine.
    ///
    /// # Errors
    /// The budget is too small for what it sends at least.
    pub fn steps(&self, setting: &Setting) -> Result<Box<dyn Steps>, Stopped> {
        match self.kind().how {
            How::Trains(next) => {
                let words = self.words().clone();
                let next = move |trains: &[Train]| next(&words, trains);
                Ok(Box::new(OfTrains::new(next)))
            }
            How::Steps(build) => build(self.words(), setting),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Recording;

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
                    "{name} begins with {bytes} bytes on a link it does not know"
                );
            }
        }
    }
}

/// Reason why a recording has no answer of this kind.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ProbeError {
    #[error("the recording is of `tailback {verb}`, and not of a probe")]
    NotAProbe { verb: String },
    #[error("the recording's plan names no probe that this version knows: {why}")]
    UnknownProbe { why: String },
}

/// Kind and parameters that a recording was made with.
///
/// # Errors
/// The recording is of something else, or of a kind that this version does not know.
pub fn spec_of(recording: &Recording) -> Result<ProbeSpec, ProbeError> {
    if recording.meta.verb != "probe" {
        return Err(ProbeError::NotAProbe {
            verb: recording.meta.verb.clone(),
        });
    }
    let text = recording.meta.plan.get("probe").and_then(|p| p.as_str());
    text.unwrap_or("")
        .parse()
        .map_err(|e: base::words::WordsError| ProbeError::UnknownProbe { why: e.to_string() })
}

/// Answer from a probe's recording.
///
/// # Errors
/// The recording is of something else, or of a kind that this version does not know.
pub fn analyse(recording: &Recording) -> Result<ProbeAnswer, ProbeError> {
    let spec = spec_of(recording)?;
    let outcome = (spec.kind().answer)(spec.words(), recording);
    let trains = Train::all_of(recording);
    Ok(ProbeAnswer::of(
        recording,
        (spec.to_string(), spec.kind().entry.summary),
        outcome,
        &trains,
    ))
}
