//! Figures of every run as plain numbers, one row a run, for other programs: CSV or Parquet.

use super::Point;
use crate::usage;
use anyhow::Context;
use std::collections::BTreeMap;
use std::path::Path;
use store::figures::{self, Values};

/// Checks that the name of the file says its format, and that its directory exists.
pub fn check(path: &Path) -> anyhow::Result<()> {
    let place = path.parent().filter(|place| !place.as_os_str().is_empty());
    if let Some(place) = place.filter(|place| !place.is_dir()) {
        return Err(usage(format!(
            "runs: there is no directory {}",
            place.display()
        )));
    }
    match extension(path) {
        "csv" | "parquet" => Ok(()),
        _ => Err(usage(format!(
            "runs: {}: end the name in .csv or .parquet",
            path.display()
        ))),
    }
}

fn extension(path: &Path) -> &str {
    path.extension().and_then(|e| e.to_str()).unwrap_or("")
}

/// Writes the complete runs of all points.
///
/// # Errors
/// A file that cannot be written.
pub fn write(path: &Path, results: &[(&Point, Vec<&sim::Outcome>)]) -> anyhow::Result<()> {
    let columns = columns(results);
    let bytes = match extension(path) {
        "parquet" => figures::parquet(columns).context("runs as Parquet")?,
        _ => csv(&columns).into_bytes(),
    };
    store::disk::write_whole(path, &bytes)
        .map_err(|e| usage(format!("cannot write {}: {e}", path.display())))
}

/// Swept values, seed and figures; a figure that a run does not have is absent.
fn columns(results: &[(&Point, Vec<&sim::Outcome>)]) -> Vec<(String, Values)> {
    let runs = results
        .iter()
        .flat_map(|(point, outcomes)| outcomes.iter().map(move |outcome| (*point, *outcome)));
    let (mut seeds, mut figures) = (Vec::new(), BTreeMap::<String, Vec<Option<f64>>>::new());
    let mut swept: Vec<(String, Vec<String>)> = Vec::new();
    for (row, (point, outcome)) in runs.enumerate() {
        if row == 0 {
            let keys = point.labels.iter().map(|(key, _)| key.clone());
            swept = keys.map(|key| (key, Vec::new())).collect();
        }
        for ((_, value), (_, column)) in point.labels.iter().zip(&mut swept) {
            column.push(value.clone());
        }
        seeds.push(outcome.seed);
        for (name, value) in sim::batch::figures(outcome) {
            let column = figures.entry(name).or_default();
            column.resize(row, None);
            column.push(Some(value));
        }
    }
    let rows = seeds.len();
    let swept = swept.into_iter().map(|(key, v)| (key, Values::Words(v)));
    let seeds = [("seed".to_string(), Values::Counts(seeds))];
    let figures = figures.into_iter().map(|(name, mut column)| {
        column.resize(rows, None);
        (name, Values::Numbers(column))
    });
    swept.chain(seeds).chain(figures).collect()
}

fn csv(columns: &[(String, Values)]) -> String {
    let quoted = |text: &str| match text.contains(['"', ',', '\n']) {
        true => format!("\"{}\"", text.replace('"', "\"\"")),
        false => text.to_string(),
    };
    let line = |cells: Vec<String>| cells.join(",") + "\n";
    let rows = columns.first().map_or(0, |(_, values)| match values {
        Values::Words(v) => v.len(),
        Values::Counts(v) => v.len(),
        Values::Numbers(v) => v.len(),
    });
    let cell = |values: &Values, row: usize| match values {
        Values::Words(v) => quoted(&v[row]),
        Values::Counts(v) => v[row].to_string(),
        Values::Numbers(v) => v[row].map_or(String::new(), |number| number.to_string()),
    };
    let row = |row| line(columns.iter().map(|(_, v)| cell(v, row)).collect());
    let head = line(columns.iter().map(|(name, _)| quoted(name)).collect());
    std::iter::once(head).chain((0..rows).map(row)).collect()
}
