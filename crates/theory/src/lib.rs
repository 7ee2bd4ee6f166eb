//! Formulas of queues, buffers and transport as calculators: each a [`Model`] with its formula, its source, where it
//! holds, and an example that a person can check by hand. `tailback model` and its pages are made from [`MODELS`].
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod mixture;
mod path;
mod queues;
mod sizing;
mod tagged;
mod tcp;

use base::words::{Entry, Words, WordsError};
use base::{BitsPerSec, Bytes, Duration};
pub use mixture::weibull_scale;
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
    compute: fn(&Words) -> Result<Vec<Option<f64>>, OutOfModel>,
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

/// Every model, in the order in which one meets the questions.
pub static MODELS: &[&Model] = &[
    &sizing::BDP,
    &sizing::SIZING,
    &sizing::OCCUPANCY,
    &path::DELIVERY,
    &path::RELIABILITY,
    &path::REDUNDANCY,
    &path::FRAGMENTS,
    &queues::LITTLE,
    &queues::MM1,
    &queues::MM1K,
    &queues::MD1,
    &queues::MG1,
    &queues::GG1,
    &mixture::MIXTURE,
    &tagged::TAGGED,
    &tcp::MATHIS,
    &tcp::PADHYE,
    &tcp::CUBIC,
    &tcp::CUBIC_WINDOW,
];

/// Reads `name` or `name:key=value,key=value`.
///
/// # Errors
/// An unknown model or parameter, answered with the nearest; a value of the wrong unit or out of its range.
pub fn parse(text: &str) -> Result<(&'static Model, Words), WordsError> {
    let words = Words::parse("model", MODELS.iter().map(|m| &m.entry), text)?;
    let model = MODELS
        .iter()
        .find(|m| m.entry.name == words.entry().name)
        .expect("the words are of one of them");
    Ok((model, words))
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

const fn output(name: &'static str, measure: Measure, doc: &'static str) -> Output {
    Output { name, measure, doc }
}

/// Widest ranges in which the arithmetic is safe and a link could be.
const RATES: Range<&str> = "1 bit/s".."100000 Gbit/s";
const TIMES: Range<&str> = "1us".."1h";
const SIZES: Range<&str> = "1B".."1000GB";
const PACKETS: Range<&str> = "1B".."65535B";
const SHARES: Range<&str> = "0".."1";

/// Seconds as a number.
fn seconds(duration: Duration) -> f64 {
    duration.as_secs_f64()
}

/// Bits per second as a number.
fn bps(rate: BitsPerSec) -> f64 {
    rate.get() as f64
}

/// Bytes as a number.
fn bytes(bytes: Bytes) -> f64 {
    bytes.get() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The figure of that name for what is given.
    pub fn figure(text: &str, name: &str) -> f64 {
        let (model, words) = parse(text).unwrap();
        let at = model.outputs.iter().position(|o| o.name == name).unwrap();
        model.evaluate(&words).unwrap()[at].unwrap()
    }

    #[test]
    fn every_example_gives_what_its_reckoning_says() {
        for model in MODELS {
            let text = format!("{}:{}", model.entry.name, model.example.given);
            assert!(!model.example.gives.is_empty(), "{text}");
            for (name, expected) in model.example.gives {
                let got = figure(&text, name);
                // By hand means four digits.
                assert!(
                    (got - expected).abs() <= 6e-4 * expected.abs(),
                    "{text}: {name} is {got}, by hand {expected}"
                );
            }
        }
    }

    #[test]
    fn a_parameter_that_was_left_out_is_asked_for_with_an_example() {
        let (model, words) = parse("bdp:rate=1Mbit/s").unwrap();
        let why = model.evaluate(&words).unwrap_err().to_string();
        assert_eq!(why, "model \"bdp\" needs rtt, for example \"bdp:rtt=19ms\"");
        assert!(parse("bdb").err().unwrap().to_string().contains("\"bdp\""));
    }
}
