//! Calculations of a file's section `[calculate]`: networks of routers, chains of hops, formulas, and regressions on them.

use crate::progress::Observer;
use crate::usage;
use base::rng::{Streams, uniform};
use report::table::{Cell, Table as Printed};
use serde::Serialize;
use sim::{Estimate, ScenarioError};
use stats::regression::Regression;
use std::collections::BTreeMap;
use std::path::Path;
use toml::{Table, Value};

/// Calculations, as messages name them.
const KNOWN: &str = "lblca, hops, regression, model";
/// Most rows that a regression is fitted to.
const MOST_ROWS: usize = 10_000;

/// Every figure of one run, by name.
///
/// # Errors
/// A calculation that is not known, or that cannot be made of these values.
pub fn figures(table: &Table, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
    let (what, rest) = parted(table);
    match what.as_str() {
        "lblca" => network(rest)?.smallest(seed),
        "model" => formula(rest),
        "hops" => rest
            .try_into::<sim::hops::Hops>()
            .map_err(|e| invalid(&e))?
            .run(seed),
        "regression" => regression(rest, seed),
        other => Err(invalid(&format!(
            "what = \"{other}\" is not known; there are: {KNOWN}"
        ))),
    }
}

/// Values of a calculation step by step, by name. Empty if it has no steps, or did not end.
///
/// # Errors
/// Errors of [`figures`].
pub fn courses(table: &Table, seed: u64) -> Result<Vec<(String, Vec<f64>)>, ScenarioError> {
    match parted(table) {
        (what, rest) if what == "lblca" => network(rest)?.courses(seed),
        _ => Ok(Vec::new()),
    }
}

/// Name of a calculation, and its keys.
pub fn parted(table: &Table) -> (String, Table) {
    let mut rest = table.clone();
    let what = rest.remove("what");
    let what = what.as_ref().and_then(Value::as_str).unwrap_or_default();
    (what.to_string(), rest)
}

/// Sections whose keys are keys of another calculation, dots included.
const OF_ANOTHER: [&str; 2] = ["predict", "vary"];

/// Sets a key, whose sections are separated by dots.
///
/// # Errors
/// A section that is not there.
pub fn set(table: &mut Table, key: &str, value: &Value) -> Result<(), ScenarioError> {
    if let Some((section, inner)) = key.split_once('.')
        && OF_ANOTHER.contains(&section)
    {
        let at = table
            .entry(section)
            .or_insert_with(|| Value::Table(Table::new()));
        if let Value::Table(at) = at {
            at.insert(inner.into(), value.clone());
        }
        return Ok(());
    }
    let (sections, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    for section in sections.split('.').filter(|s| !s.is_empty()) {
        at = at
            .get_mut(section)
            .and_then(Value::as_table_mut)
            .ok_or_else(|| {
                ScenarioError::Invalid(format!("set \"{key}\": there is no section \"{section}\""))
            })?;
    }
    at.insert(last.into(), value.clone());
    Ok(())
}

fn invalid(e: &dyn std::fmt::Display) -> ScenarioError {
    ScenarioError::Invalid(format!("[calculate] {e}"))
}

fn network(given: Table) -> Result<sim::lblca::Network, ScenarioError> {
    given.try_into().map_err(|e| invalid(&e))
}

/// Figures of a formula of `tailback model`: `name` says which, the other keys are its parameters.
fn formula(mut given: Table) -> Result<BTreeMap<String, f64>, ScenarioError> {
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
    /// Values of the same keys, whose figure is predicted with its 95 % interval.
    #[serde(default)]
    predict: BTreeMap<String, f64>,
}

impl Study {
    /// Values whose figure is to be predicted, in the order of the varied keys; `None` if nothing is.
    fn predicted(&self) -> Result<Option<Vec<f64>>, ScenarioError> {
        if self.predict.is_empty() {
            return Ok(None);
        }
        let keys: Vec<&str> = self.vary.keys().map(String::as_str).collect();
        if !self.predict.keys().eq(self.vary.keys()) {
            return Err(invalid(&format!(
                "predict needs a value of each varied key: {}",
                keys.join(", ")
            )));
        }
        // A line says nothing about where it was not fitted.
        for ((key, value), [low, high]) in self.predict.iter().zip(self.vary.values()) {
            if !(low..=high).contains(&value) {
                return Err(invalid(&format!(
                    "predict.{key}={value}: the line is fitted from {low} to {high}; vary.{key}=[LOW, HIGH] changes that"
                )));
            }
        }
        Ok(Some(self.predict.values().copied().collect()))
    }
}

/// A line through the rows, and how it fares with rows that it has not seen: `r2`, `r2_left_out`, `r2_new`, `deviation`
/// over the mean, shares `outside…` of the 95 % intervals, `coefficient.KEY`, and `row.N.…` in the columns of Thombre 2020,
/// appendix A, in the order of size. With `predict`, `predicted` and the ends of its interval, `predicted_low` and
/// `predicted_high`.
fn regression(given: Table, seed: u64) -> Result<BTreeMap<String, f64>, ScenarioError> {
    let study: Study = given.try_into().map_err(|e| invalid(&e))?;
    if !(1..=MOST_ROWS).contains(&study.rows) {
        return Err(invalid(&format!("rows: from 1 to {MOST_ROWS}")));
    }
    if parted(&study.from).0 == "regression" {
        return Err(invalid(&"a regression of a regression is not calculated"));
    }
    let asked = study.predicted()?;
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
            set(&mut table, key, &Value::Float(value))?;
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
    if let Some(row) = asked {
        let p = line.predict(&row);
        let named = [("", p.value), ("_low", p.low), ("_high", p.high)];
        all.extend(named.map(|(end, v)| (format!("predicted{end}"), v)));
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

/// Begin of the names of a regression's rows, which the text leaves out.
const ROW: &str = "row.";

/// Figures of a calculation over its seeds; `tailback model FILE.toml --json` prints them.
#[derive(Clone, Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Calculated {
    /// Path of the file.
    pub file: String,
    /// Calculation: `lblca`, `hops`, `regression` or `model`.
    pub what: String,
    /// Keys that the command line changed.
    pub set: BTreeMap<String, String>,
    /// Figures by name, in the units of the calculation: the mean over the seeds that have the figure.
    pub figures: BTreeMap<String, Estimate>,
}

/// Calculates a file with some keys changed, once a seed.
///
/// # Errors
/// A file without `[calculate]`, and values that nothing can be calculated of.
pub(super) fn run(
    file: &Path,
    pairs: &[String],
    seeds: u64,
    observer: &dyn Observer,
) -> anyhow::Result<Calculated> {
    let shown = file.display();
    let text =
        std::fs::read_to_string(file).map_err(|e| usage(format!("cannot read {shown}: {e}")))?;
    let whole: Table = toml::from_str(&text).map_err(|e| usage(format!("{shown}: {e}")))?;
    let Some(Value::Table(mut table)) = whole.get("calculate").cloned() else {
        return Err(usage(format!(
            "{shown} has no section [calculate]. `tailback sim` simulates a scenario of links and flows"
        )));
    };
    let mut changed = BTreeMap::new();
    for pair in pairs {
        let (key, text) = pair.split_once('=').ok_or_else(|| {
            usage(format!(
                "{pair}: write KEY=VALUE, such as router.B1.arrival=300"
            ))
        })?;
        let value = toml::from_str::<Table>(&format!("v = {text}"));
        let value = value.ok().and_then(|mut t| t.remove("v"));
        let value = value.unwrap_or_else(|| Value::String(text.to_owned()));
        set(&mut table, key.trim(), &value).map_err(|e| usage(e.to_string()))?;
        changed.insert(key.trim().to_owned(), text.to_owned());
    }
    let mut values: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for seed in 1..=seeds {
        if observer.interrupted() {
            observer.warn(&format!("interrupted after {} of {seeds} seeds", seed - 1));
            break;
        }
        let found = figures(&table, seed).map_err(|e| usage(format!("{shown}: {e}")))?;
        for (name, value) in found {
            values.entry(name).or_default().push(value);
        }
        observer.share(seed as f64 / seeds as f64);
    }
    observer.tell(crate::Event::Finished);
    let named = values.into_iter();
    let figures = named.filter_map(|(name, values)| Some((name, Estimate::of(&values)?)));
    Ok(Calculated {
        file: shown.to_string(),
        what: parted(&table).0,
        set: changed,
        figures: figures.collect(),
    })
}

impl Calculated {
    /// Table for a terminal of this width.
    pub(super) fn text(&self, width: usize) -> String {
        let mut table = Printed::new("", ["", "mean ± 95 %"]);
        let shown = self.figures.iter();
        let mut shown: Vec<_> = shown.filter(|(name, _)| !name.starts_with(ROW)).collect();
        shown.sort_by_cached_key(|(name, _)| counted(name));
        for (name, e) in shown {
            let number = |v: f64| base::print::significant(v, 4);
            let cell = Cell::Estimate {
                mean: number(e.mean),
                half: e.half.map_or(String::new(), |h| format!("± {}", number(h))),
            };
            table.row(&**name, [cell]);
        }
        table.text(width)
    }
}

/// Key by which the second hop precedes the tenth: numbers as long as any.
fn counted(name: &str) -> String {
    let mut key = String::new();
    for part in name.split_inclusive(|c: char| !c.is_ascii_digit()) {
        let digits = part.bytes().take_while(u8::is_ascii_digit).count();
        let (number, rest) = part.split_at(digits);
        key += &match number {
            "" => rest.to_owned(),
            number => format!("{number:0>20}{rest}"),
        };
    }
    key
}

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
    fn a_formula_is_reckoned_with_the_keys_of_the_section() {
        let table: Table = toml::from_str("what = \"model\"\nname = \"mm1\"\nrate = \"10 Mbit/s\"\noffered = \"8 Mbit/s\"\npacket = 1250\n").unwrap();
        assert!((figures(&table, 1).unwrap()["sojourn"] - 5e-3).abs() < 1e-12);
        let wrong: Table = toml::from_str("what = \"model\"\nname = \"mm2\"\n").unwrap();
        assert!(figures(&wrong, 1).unwrap_err().to_string().contains("mm1"));
    }

    #[test]
    fn a_value_that_was_never_drawn_lies_in_its_predicted_interval() {
        let study = |predict: &str| -> Table {
            let text = format!(
                "what = \"regression\"\nof = \"buffer.B2\"\nrows = 20\n[vary]\n\"router.B1.arrival\" = [80.0, 160.0]\n\
                 {predict}\n[from]\nwhat = \"lblca\"\nsteps = 200\n[from.router.B1]\narrival = 120\nnext = \"B2\"\n[from.router.B2]\narrival = 50\n"
            );
            toml::from_str(&text).unwrap()
        };
        let (mut inside, draws) = (0, 200);
        for seed in 0..draws {
            let arrival = 80.0 + 0.4 * seed as f64;
            let predict = format!("[predict]\n\"router.B1.arrival\" = {arrival}");
            let told = figures(&study(&predict), seed).unwrap();
            let mut own = study("")["from"].as_table().unwrap().clone();
            set(&mut own, "router.B1.arrival", &Value::Float(arrival)).unwrap();
            let truth = figures(&own, 1000 + seed).unwrap()["buffer.B2"];
            inside += u64::from((told["predicted_low"]..=told["predicted_high"]).contains(&truth));
        }
        assert!(inside * 100 >= draws * 91, "{inside} of {draws}");
        let beyond = study("[predict]\n\"router.B1.arrival\" = 161.0");
        let refused = figures(&beyond, 1).unwrap_err().to_string();
        assert!(refused.contains("from 80 to 160"), "{refused}");
        let other = study("[predict]\n\"router.B2.arrival\" = 3.0");
        assert!(
            figures(&other, 1)
                .unwrap_err()
                .to_string()
                .contains("router.B1.arrival")
        );
    }

    #[test]
    fn endless_calculations_are_refused_before_they_begin() {
        for change in [
            ("steps", Value::Integer(i64::MAX)),
            ("unit", Value::Float(1e-9)),
            ("router.B1.arrival", Value::Float(1e300)),
            ("router.B1.arrival", Value::Float(f64::NAN)),
        ] {
            let mut table: Table =
                toml::from_str("what = \"lblca\"\n[router.B1]\narrival = 100\n").unwrap();
            set(&mut table, change.0, &change.1).unwrap();
            assert!(figures(&table, 1).is_err(), "{change:?}");
        }
    }
}
