//! Figures and sentences of an answer as JSON.

use serde_json::Value;

/// Value of the figure with this key.
///
/// # Panics
/// If the answer has no such figure, or the figure has no value.
#[track_caller]
pub fn figure(answer: &Value, key: &str) -> f64 {
    let figures = answer["figures"].as_array().expect("figures");
    let found = figures.iter().find(|f| f["key"] == key);
    found.unwrap_or_else(|| panic!("no {key} in {answer}"))["figure"]["value"]
        .as_f64()
        .unwrap_or_else(|| panic!("no value of {key} in {answer}"))
}

/// Sentence that answers the question.
///
/// # Panics
/// If the answer has none.
#[track_caller]
pub fn says(answer: &Value) -> &str {
    answer["says"].as_str().expect("a sentence")
}
