//! Figures of documents that are reckoned, not simulated packet by packet: the section `[calculate]`.

use super::crafted::Crafted;
use super::hidden_queue::Simulated;
use super::regression::Regression;
use base::rng::{Streams, uniform};
use sim::ScenarioError;
use std::collections::BTreeMap;
use toml::{Table, Value};

/// Every figure of one run, by name.
///
/// # Errors
/// A calculation that is not known, or that cannot be made of these values.
pub fn figures(table: &Table, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
    let invalid = |text: String| ScenarioError::Invalid(text);
    let (what, rest) = parted(table);
    match what.as_str() {
        "lblca" => network(rest)?.smallest(seed),
        "model" => model(rest),
        "hops" => rest
            .try_into::<sim::hops::Hops>()
            .map_err(|e| invalid(format!("[calculate] {e}")))?
            .run(seed),
        "regression" => regression(rest, seed),
        "train" => rest
            .try_into::<Crafted>()
            .map_err(|e| invalid(format!("[calculate] {e}")))?
            .run(seed),
        "hidden-queue" => hidden(rest)?.figures(seed),
        other => Err(invalid(format!(
            "[calculate] what = \"{other}\" is not known; there are: lblca, model, hops, regression, train, hidden-queue"
        ))),
    }
}

/// Returns the values of a calculation step by step, by name. Empty if it has no steps, or did not end.
///
/// # Errors
/// Errors of [`figures`].
pub fn courses(table: &Table, seed: u64) -> Result<Vec<(String, Vec<f64>)>, ScenarioError> {
    match parted(table) {
        (what, rest) if what == "lblca" => network(rest)?.courses(seed),
        (what, rest) if what == "hidden-queue" => hidden(rest)?.courses(seed),
        _ => Ok(Vec::new()),
    }
}

/// Which calculation it is, and its keys.
fn parted(table: &Table) -> (String, Table) {
    let mut rest = table.clone();
    let what = rest.remove("what");
    let what = what.as_ref().and_then(Value::as_str).unwrap_or_default();
    (what.to_string(), rest)
}

fn network(given: Table) -> Result<sim::lblca::Network, ScenarioError> {
    let read = given.try_into::<sim::lblca::Network>();
    read.map_err(|e| ScenarioError::Invalid(format!("[calculate] {e}")))
}

fn hidden(given: Table) -> Result<Simulated, ScenarioError> {
    let read = given.try_into::<Simulated>();
    read.map_err(|e| ScenarioError::Invalid(format!("[calculate] {e}")))
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
    let (model, words) = theory::parse(&text).map_err(|e| invalid(&e))?;
    let values = model.evaluate(&words).map_err(|e| invalid(&e))?;
    let named = model.outputs.iter().zip(values);
    Ok(named
        .filter_map(|(o, v)| Some((o.name.to_string(), v?)))
        .collect())
}

/// Regression of `of`, a figure of another calculation, on values drawn uniformly between bounds.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Study {
    of: String,
    /// Rows that are fitted; as many again are only predicted.
    rows: usize,
    /// Keys of the calculation, and from where to where.
    vary: BTreeMap<String, [f64; 2]>,
    /// The calculation.
    from: Table,
}

/// A line through the rows, and how it fares with rows that it has not seen: `r2`, `r2_left_out`, `r2_new`, `deviation`
/// over the mean, shares `outside…` of the 95 % intervals, `coefficient.KEY`, and `row.N.…` in the columns of Thombre 2020,
/// appendix A, in the order of size.
fn regression(given: Table, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
    let invalid = |e: &dyn std::fmt::Display| ScenarioError::Invalid(format!("[calculate] {e}"));
    let study: Study = given.try_into().map_err(|e| invalid(&e))?;
    let mut rng = Streams::new(seed).stream("rows");
    let (mut rows, mut values) = (Vec::new(), Vec::new());
    let mut tried = 0u64;
    while rows.len() < 2 * study.rows {
        tried += 1;
        if tried > 20 * study.rows as u64 {
            return Err(invalid(&format!(
                "hardly any of {tried} draws has a figure \"{}\"",
                study.of
            )));
        }
        let mut table = study.from.clone();
        let mut row = Vec::new();
        for (key, [low, high]) in &study.vary {
            let value = low + (high - low) * uniform(&mut rng);
            super::reproduction::set(&mut table, key, &Value::Float(value))?;
            row.push(value);
        }
        if let Some(value) = figures(&table, seed.wrapping_add(tried))?.get(&study.of) {
            rows.push(row);
            values.push(*value);
        }
    }
    let (seen, new) = rows.split_at(study.rows);
    let (known, unknown) = values.split_at(study.rows);
    let line = Regression::fit(seen, known).map_err(|e| invalid(&e))?;
    let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len() as f64;
    let outside = |rows: &[Vec<f64>], values: &[f64]| {
        let pairs = rows.iter().zip(values);
        let out = pairs.filter(|(row, value)| {
            let p = line.predict(row);
            !(p.low..=p.high).contains(*value)
        });
        out.count() as f64 / values.len() as f64
    };
    let middle = mean(unknown);
    let spread: f64 = unknown.iter().map(|v| (v - middle).powi(2)).sum();
    let pairs = new.iter().zip(unknown);
    let missed: f64 = pairs
        .map(|(r, v)| (v - line.predict(r).value).powi(2))
        .sum();
    let mut all = BTreeMap::from([
        ("r2".to_string(), line.r2),
        ("r2_left_out".into(), line.r2_left_out),
        ("r2_new".into(), 1.0 - missed / spread),
        ("deviation".into(), line.deviation / mean(known)),
        ("outside".into(), outside(seen, known)),
        ("outside_left_out".into(), line.outside_left_out),
        ("outside_new".into(), outside(new, unknown)),
    ]);
    for (key, value) in study.vary.keys().zip(&line.coefficients[1..]) {
        all.insert(format!("coefficient.{key}"), *value);
    }
    let mut order: Vec<usize> = (0..study.rows).collect();
    order.sort_by(|a, b| known[*a].total_cmp(&known[*b]));
    for (number, i) in order.into_iter().enumerate() {
        let p = line.predict(&seen[i]);
        let cells = [known[i], p.value, p.standard_error, p.low, p.high];
        for (name, value) in TABLE_A1.iter().zip(cells) {
            all.insert(format!("row.{}.{name}", number + 1), value);
        }
    }
    Ok(all)
}

/// The columns of a row of a regression, after table A.1 of Thombre 2020.
pub const TABLE_A1: [&str; 5] = ["actual", "predicted", "standard_error", "low", "high"];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_laid_through_the_figures_of_another_calculation() {
        let table: Table = toml::from_str(
            r#"
what = "regression"
of = "at_most"
rows = 30
[vary]
arrivals = [1.0, 2.0]
[from]
what = "model"
name = "gg1"
rate = "10 Mbit/s"
offered = "5 Mbit/s"
sizes = 0
"#,
        )
        .unwrap();
        let all = figures(&table, 1).unwrap();
        // Kingman's bound is a straight line in the spread of the arrivals.
        assert!(
            all["r2"] > 0.999_999 && all["r2_new"] > 0.999_999,
            "{all:?}"
        );
        assert_eq!(all.keys().filter(|k| k.starts_with("row.")).count(), 150);
    }

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

    #[test]
    fn a_formula_is_reckoned_with_the_keys_of_the_section() {
        let table: Table = toml::from_str("what = \"model\"\nname = \"mm1\"\nrate = \"10 Mbit/s\"\noffered = \"8 Mbit/s\"\npacket = 1250\n").unwrap();
        assert!((figures(&table, 1).unwrap()["sojourn"] - 5e-3).abs() < 1e-12);
        let wrong: Table = toml::from_str("what = \"model\"\nname = \"mm2\"\n").unwrap();
        assert!(figures(&wrong, 1).unwrap_err().to_string().contains("mm1"));
    }
}
