//! A model: its formula, source, limits, example and computation.

use base::words::{Entry, Words, WordsError};
use base::{BitsPerSec, Bytes, Duration};
use std::ops::Range;

/// Unit of a model's figure. Times are in seconds, sizes in bytes, rates in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Time,
    Size,
    Rate,
    /// Share from 0 to 1.
    Share,
    /// Plain number of the named things.
    Number(&'static str),
}

impl Measure {
    /// Name of the unit, as for parameters.
    pub fn word(self) -> &'static str {
        match self {
            Measure::Time => "time",
            Measure::Size => "bytes",
            Measure::Rate => "rate",
            Measure::Share => "share",
            Measure::Number(unit) => unit,
        }
    }
}

/// Figure that a model gives.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    /// Name in JSON and in tests.
    pub name: &'static str,
    /// Unit of the figure.
    pub measure: Measure,
    /// Meaning of the figure.
    pub doc: &'static str,
}

/// Worked example that a person can check by hand.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// Parameters as on the command line, separated by commas.
    pub given: &'static str,
    /// Calculation in words and numbers.
    pub by_hand: &'static str,
    /// Outputs with their results in the calculation.
    pub gives: &'static [(&'static str, f64)],
}

/// Model: a formula with its parameters, outputs, limits and example.
pub struct Model {
    /// Name, summary, sources and parameters.
    pub entry: Entry,
    /// Formula as text.
    pub formula: &'static str,
    /// Conditions under which the formula holds.
    pub limits: &'static str,
    /// Figures that it gives, in order.
    pub outputs: &'static [Output],
    /// Worked example.
    pub example: Example,
    /// Computes one value for each of `outputs`; `None` if there is none for these parameters.
    pub(crate) compute: fn(&Words) -> Result<Vec<Option<f64>>, OutOfModel>,
    /// Returns the reason why the figures are doubtful for these parameters.
    pub(crate) doubt: fn(&Words) -> Option<String>,
}

/// Parameters that can be read but that the formula does not cover.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutOfModel(pub String);

/// Reason why a model could not be evaluated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ModelError {
    #[error(transparent)]
    Words(#[from] WordsError),
    #[error("model \"{model}\": {why}")]
    OutOfModel {
        model: &'static str,
        #[source]
        why: OutOfModel,
    },
}

/// Absence of doubt: the formula holds for all parameters that can be read.
pub(crate) const SURE: fn(&Words) -> Option<String> = |_| None;

impl Model {
    /// Returns the reason why these parameters are outside the formula's validity; `None` within it. The figures of
    /// parameters outside are computed, and doubtful.
    pub fn doubt(&self, words: &Words) -> Option<String> {
        (self.doubt)(words)
    }

    /// Computes one value for each of `outputs`.
    ///
    /// # Errors
    /// Missing parameters without a default; parameters that the formula does not cover.
    pub fn evaluate(&self, words: &Words) -> Result<Vec<Option<f64>>, ModelError> {
        if let Some(p) = words.missing() {
            return Err(WordsError::Missing {
                kind: "model",
                name: self.entry.name,
                key: p.name,
                example: example_of(self.example.given, p.name),
            }
            .into());
        }
        let values = (self.compute)(words).map_err(|why| ModelError::OutOfModel {
            model: self.entry.name,
            why,
        })?;
        assert_eq!(values.len(), self.outputs.len(), "{}", self.entry.name);
        Ok(values)
    }
}

fn example_of(given: &'static str, key: &str) -> &'static str {
    given
        .split(',')
        .filter_map(|part| part.split_once('='))
        .find(|(k, _)| *k == key)
        .map_or("…", |(_, value)| value)
}

pub(crate) const fn output(name: &'static str, measure: Measure, doc: &'static str) -> Output {
    Output { name, measure, doc }
}

/// Widest ranges in which the arithmetic is safe and that a link could have.
pub(crate) const RATES: Range<&str> = "1 bit/s".."100000 Gbit/s";
pub(crate) const TIMES: Range<&str> = "1us".."1h";
pub(crate) const SIZES: Range<&str> = "1B".."1000GB";
pub(crate) const PACKETS: Range<&str> = "1B".."65535B";
pub(crate) const SHARES: Range<&str> = "0".."1";

/// Seconds as a number.
pub(crate) fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Bits per second as a number.
pub(crate) fn bps(rate: BitsPerSec) -> f64 {
    rate.get() as f64
}

/// Bytes as a number.
pub(crate) fn bytes(bytes: Bytes) -> f64 {
    bytes.get() as f64
}
