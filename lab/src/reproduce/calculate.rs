//! Figures of documents that are reckoned, not simulated packet by packet: the section `[calculate]`. Those of `tailback
//! model`, and two that only documents need.

use super::crafted::Crafted;
use super::hidden_queue::Simulated;
use ops::model::calculation;
use sim::ScenarioError;
use std::collections::BTreeMap;
use toml::Table;

/// Every figure of one run, by name.
///
/// # Errors
/// A calculation that is not known, or that cannot be made of these values.
pub fn figures(table: &Table, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
    match calculation::parted(table) {
        (what, rest) if what == "train" => rest
            .try_into::<Crafted>()
            .map_err(|e| ScenarioError::Invalid(format!("[calculate] {e}")))?
            .run(seed),
        (what, rest) if what == "hidden-queue" => hidden(rest)?.figures(seed),
        _ => calculation::figures(table, seed),
    }
}

/// Values of a calculation step by step, by name. Empty if it has no steps, or did not end.
///
/// # Errors
/// Errors of [`figures`].
pub fn courses(table: &Table, seed: u64) -> Result<Vec<(String, Vec<f64>)>, ScenarioError> {
    match calculation::parted(table) {
        (what, rest) if what == "hidden-queue" => hidden(rest)?.courses(seed),
        _ => calculation::courses(table, seed),
    }
}

fn hidden(given: Table) -> Result<Simulated, ScenarioError> {
    let read = given.try_into::<Simulated>();
    read.map_err(|e| ScenarioError::Invalid(format!("[calculate] {e}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_over_the_line_of_gao_2012_loses_what_is_beyond_51() {
        let burst = |count: u32| {
            let text = format!(
                "what = \"train\"\nlink = \"shdsl\"\nv6 = true\na = 500\npattern = \"burst\"\naccess = \"1 Gbit/s\"\ncount = {count}\n"
            );
            figures(&toml::from_str(&text).unwrap(), 1).unwrap()["lost"]
        };
        assert_eq!((burst(51), burst(52), burst(80)), (0.0, 1.0, 29.0));
        let lost: Table = toml::from_str("what = \"train\"\nlink = \"shdls\"\na = 500\n").unwrap();
        assert!(figures(&lost, 1).unwrap_err().to_string().contains("shdsl"));
    }
}
