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
        "model" => model(rest),
        other => Err(invalid(format!(
            "[calculate] what = \"{other}\" is not known; there are: lblca, model"
        ))),
    }
}

/// Figures of a formula of `tailback model`: `name` says which, the other keys are its parameters.
fn model(mut given: Table) -> Result<BTreeMap<String, f64>, ScenarioError> {
    let invalid = |e: &dyn std::fmt::Display| ScenarioError::Invalid(format!("[calculate] {e}"));
    let name = given.remove("name");
    let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
    let word = |value: &Value| match value {
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    let pairs: Vec<String> = given
        .iter()
        .map(|(key, v)| format!("{key}={}", word(v)))
        .collect();
    let text = format!("{name}:{}", pairs.join(","));
    let (model, words) = analysis::theory::parse(&text).map_err(|e| invalid(&e))?;
    let values = model.evaluate(&words).map_err(|e| invalid(&e))?;
    let named = model.outputs.iter().zip(values);
    Ok(named
        .filter_map(|(o, v)| Some((o.name.to_string(), v?)))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_formula_is_reckoned_with_the_keys_of_the_section() {
        let table: Table = toml::from_str("what = \"model\"\nname = \"mm1\"\nrate = \"10 Mbit/s\"\noffered = \"8 Mbit/s\"\npacket = 1250\n").unwrap();
        assert!((figures(&table, 1).unwrap()["sojourn"] - 5e-3).abs() < 1e-12);
        let wrong: Table = toml::from_str("what = \"model\"\nname = \"mm2\"\n").unwrap();
        assert!(figures(&wrong, 1).unwrap_err().to_string().contains("mm1"));
    }
}
