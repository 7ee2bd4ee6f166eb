//! A model: its formula, its source, where it holds, an example, and how it is computed.

use base::words::{Entry, Words, WordsError};
use base::{BitsPerSec, Bytes, Duration};
use std::ops::Range;

/// What a figure of a model is measured in. Times are in seconds, sizes in bytes, rates in bits per second.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    Time,
    Size,
    Rate,
    /// From 0 to 1.
    Share,
    /// A plain number of this.
    Number(&'static str),
}

impl Measure {
    /// As the parameters' units are named.
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

/// One figure that a model gives.
#[derive(Clone, Copy, Debug)]
pub struct Output {
    pub name: &'static str,
    pub measure: Measure,
    pub doc: &'static str,
}

/// A case that a person can reckon.
#[derive(Clone, Copy, Debug)]
pub struct Example {
    /// As on the command line, separated by commas.
    pub given: &'static str,
    /// The reckoning, in words and figures.
    pub by_hand: &'static str,
    /// Outputs and what the reckoning gives for them.
    pub gives: &'static [(&'static str, f64)],
}

pub struct Model {
    pub entry: Entry,
    pub formula: &'static str,
    /// What must be so for the formula to hold.
    pub limits: &'static str,
    pub outputs: &'static [Output],
    pub example: Example,
    /// One value for each of `outputs`; `None` where there is none for these parameters.
    pub(crate) compute: fn(&Words) -> Result<Vec<Option<f64>>, OutOfModel>,
}

/// The parameters are readable, yet the formula says nothing about them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct OutOfModel(pub String);

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

impl Model {
    /// One value for each of `outputs`.
    ///
    /// # Errors
    /// Parameters without a default that were not given; parameters that the formula does not cover.
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

/// Widest ranges in which the arithmetic is safe and a link could be.
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
