//! Figures of documents that are reckoned, not simulated packet by packet: the section `[calculate]`.

use sim::ScenarioError;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Every figure of one run, by name.
///
/// # Errors
/// A calculation that is not known, or that cannot be made of these values.
pub fn figures(table: &Table, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
    let invalid = |text: String| ScenarioError::Invalid(text);
    let mut rest = table.clone();
    let what = rest.remove("what");
    let what = what.as_ref().and_then(Value::as_str).unwrap_or_default();
    match what {
        "lblca" => rest
            .try_into::<sim::lblca::Network>()
            .map_err(|e| invalid(format!("[calculate] {e}")))?
            .smallest(seed),
        other => Err(invalid(format!(
            "[calculate] what = \"{other}\" is not known; there is: lblca"
        ))),
    }
}
