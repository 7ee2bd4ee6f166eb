//! Formulas of queues, buffers and transport as calculators. Each is a [`Model`] with its formula, its source, its
//! limits, and an example that a person can check by hand. `tailback model` and its pages are made from [`MODELS`].
#![deny(clippy::disallowed_methods)]
#![forbid(unsafe_code)]

mod mixture;
mod model;
mod path;
mod queues;
mod sizing;
mod tagged;
mod tcp;

use base::words::{Words, WordsError};
pub use mixture::weibull_scale;
pub use model::{Example, Measure, Model, ModelError, OutOfModel, Output};

/// All models, in the order of the questions that they answer.
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
/// An unknown model or parameter, answered with the nearest one; a value of the wrong unit or out of its
/// range.
pub fn parse(text: &str) -> Result<(&'static Model, Words), WordsError> {
    let words = Words::parse("model", MODELS.iter().map(|m| &m.entry), text)?;
    let model = MODELS
        .iter()
        .find(|m| m.entry.name == words.entry().name)
        .expect("the words are of one of them");
    Ok((model, words))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Figure `name` of a model with its parameters.
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
    fn parameters_outside_the_stated_validity_are_doubted() {
        let doubt = |text: &str| {
            let (model, words) = parse(text).unwrap();
            assert!(model.evaluate(&words).is_ok(), "{text}");
            model.doubt(&words)
        };
        for (inside, outside) in [
            ("mathis:rtt=100ms,loss=0.02", "mathis:rtt=100ms,loss=0.021"),
            ("cubic:rtt=100ms,loss=0.001", "cubic:rtt=100ms,loss=0.5"),
            (
                "padhye:rtt=1s,loss=0.01,rto=1s",
                "padhye:rtt=1.1s,loss=0.01,rto=1s",
            ),
            (
                "sizing:rate=1Gbit/s,rtt=50ms,flows=500",
                "sizing:rate=1Gbit/s,rtt=50ms,flows=2",
            ),
            (
                "occupancy:rate=1Gbit/s,rtt=50ms,flows=5000,buffer=1MB",
                "occupancy:rate=1Gbit/s,rtt=50ms,flows=1,buffer=1MB",
            ),
        ] {
            assert_eq!(doubt(inside), None, "{inside}");
            assert!(doubt(outside).is_some(), "{outside}");
        }
        // One flow needs the whole product, which is a figure of the same answer.
        assert_eq!(doubt("sizing:rate=1Gbit/s,rtt=50ms"), None);
    }

    #[test]
    fn a_parameter_that_was_left_out_is_asked_for_with_an_example() {
        let (model, words) = parse("bdp:rate=1Mbit/s").unwrap();
        let why = model.evaluate(&words).unwrap_err().to_string();
        assert_eq!(why, "model \"bdp\" needs rtt, for example \"bdp:rtt=19ms\"");
        assert!(parse("bdb").err().unwrap().to_string().contains("\"bdp\""));
    }
}
