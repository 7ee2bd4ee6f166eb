//! `tailback model`: formulas of queues, buffers and transport as a calculator.

pub mod calculation;
mod curve;
mod traffic;

use crate::progress::{Event, Observer, Shared};
use crate::{Progress, usage, write_file};
use base::print::{RATE, SIZE, SPAN, significant};
use base::words::{Words, WordsError};
use report::table::{Column, Table, wrapped};
use serde::{Deserialize, Serialize};
use std::fmt::Write;
use std::path::{Path, PathBuf};
use theory::{MODELS, Measure, Model, ModelError, parse};

/// Formula to evaluate.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// Name of the formula, or of a TOML file with a section `[calculate]`; without it, all formulas are listed.
    pub name: Option<String>,
    /// Parameters as KEY=VALUE, with their units; keys of the file that change.
    pub parameters: Vec<String>,
    /// Number of seeds of a file's calculation; zero: one.
    pub seeds: u64,
    /// Capture whose traffic gives further parameters.
    pub traffic: Option<PathBuf>,
    /// Curve to draw.
    pub curve: Option<Curve>,
    /// True to evaluate the formula without any parameter, instead of explaining it.
    pub evaluate: bool,
}

/// Curve of figures over one parameter.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curve {
    /// Parameter and its range, KEY=LOW..HIGH.
    pub over: String,
    /// Figures to draw; by default the first except the load.
    pub show: Vec<String>,
    /// SVG file to write.
    pub output: PathBuf,
}

/// Figures of a formula.
pub enum Answer {
    /// All formulas, one a line.
    List,
    /// Explanation of one formula.
    Explained(&'static Model),
    Figures {
        model: &'static Model,
        words: Words,
        values: Vec<Option<f64>>,
    },
    /// Figures of a file's calculation.
    Calculated(calculation::Calculated),
    /// Curve written to the plan's output.
    Drawn,
}

/// Evaluates, explains or draws a formula.
///
/// # Errors
/// Unknown names and values, and parameters outside the formula's limits.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let Some(name) = &plan.name else {
        return Ok(Answer::List);
    };
    let file = Path::new(name);
    if file.extension().is_some_and(|e| e == "toml") {
        if plan.curve.is_some() || plan.traffic.is_some() {
            return Err(usage(
                "--plot and --traffic are for a formula, and a file was given",
            ));
        }
        observer.tell(Event::Interruptible);
        let seeds = plan.seeds.max(1);
        let answer = calculation::run(file, &plan.parameters, seeds, observer)?;
        return Ok(Answer::Calculated(answer));
    }
    if plan.seeds > 0 {
        return Err(usage(
            "--seeds is for a file with [calculate]: a formula has no chance in it",
        ));
    }
    // Parameters may also stand behind the name, as in `bdp:rate=1Mbit/s`.
    let (name, behind) = name.split_once(':').unwrap_or((name, ""));
    let behind = behind.split(',').filter(|p| !p.trim().is_empty());
    let (model, _) = parse(name).map_err(|e| usage(e.to_string()))?;
    let mut parameters: Vec<String> = behind.map(str::to_owned).collect();
    parameters.extend_from_slice(&plan.parameters);
    let bare = parameters.is_empty() && plan.curve.is_none() && plan.traffic.is_none();
    if bare && !plan.evaluate {
        return Ok(Answer::Explained(model));
    }
    if let Some(path) = &plan.traffic {
        let fitted = traffic::fitted(path, model, &parameters)?;
        parameters.extend(fitted);
    }
    if let Some(Curve { over, show, output }) = &plan.curve {
        if output.extension().is_none_or(|e| e != "svg") {
            return Err(usage(format!(
                "{}: the drawing is an SVG, so end the name in .svg",
                output.display()
            )));
        }
        let svg = curve::drawing(model, &parameters, over, show)?;
        write_file(output, &svg)?;
        observer.say(&format!("{} written", output.display()));
        return Ok(Answer::Drawn);
    }
    let given = format!("{name}:{}", parameters.join(","));
    let (_, words) = parse(&given).map_err(|e| usage(missing(&e)))?;
    let values = model.evaluate(&words).map_err(|e| match e {
        ModelError::Words(e) => usage(missing(&e)),
        other => usage(other.to_string()),
    })?;
    Ok(Answer::Figures {
        model,
        words,
        values,
    })
}

/// Message of an error; one about a missing parameter shows how `tailback model` takes it.
fn missing(error: &WordsError) -> String {
    match error {
        WordsError::Missing {
            name, key, example, ..
        } => {
            format!("model {name} needs {key}, for example: tailback model {name} {key}={example}")
        }
        other => other.to_string(),
    }
}

impl Answer {
    /// Text of the answer for a terminal.
    ///
    /// # Errors
    /// None: a text in memory cannot fail.
    pub fn text(&self, width: usize) -> Result<String, std::fmt::Error> {
        match self {
            Answer::List => {
                let rows = MODELS.iter();
                let rows = rows.map(|m| (m.entry.name, vec![m.entry.summary]));
                Ok(words(2).with(rows).text(width))
            }
            Answer::Explained(model) => explained(model, width.min(WIDEST)),
            Answer::Figures {
                model,
                words,
                values,
            } => {
                let mut text = table(model, values).text(width);
                if let Some(doubt) = model.doubt(words) {
                    let doubt = format!("Outside the formula's validity: {doubt}.");
                    for line in wrapped(&doubt, width) {
                        writeln!(text, "{line}")?;
                    }
                }
                Ok(text)
            }
            Answer::Calculated(calculated) => Ok(calculated.text(width)),
            Answer::Drawn => Ok(String::new()),
        }
    }

    /// Figures in seconds, bytes and bits per second, those of a file in its own units; `None` if there are none.
    ///
    /// # Errors
    /// None: figures are plain data.
    pub fn json(&self) -> anyhow::Result<Option<serde_json::Value>> {
        Ok(match self {
            Answer::Figures {
                model,
                words,
                values,
            } => Some(serde_json::to_value(Document::new(model, words, values))?),
            Answer::Calculated(calculated) => Some(serde_json::to_value(calculated)?),
            _ => None,
        })
    }
}

fn explained(model: &Model, width: usize) -> Result<String, std::fmt::Error> {
    let indented = |lead: &str, text: &str| {
        let lines = wrapped(text, width.saturating_sub(lead.chars().count()).max(30));
        lines.join(&format!("\n{:1$}", "", lead.chars().count()))
    };
    let e = &model.entry;
    let mut text = format!("{}\n\n", indented("", e.summary));
    for part in model.formula.split(";  ") {
        writeln!(text, "  {part}")?;
    }
    let source = format!("Source: {}.", e.sources.join("; "));
    writeln!(text, "\n{}", indented("", &source))?;
    let limits = format!("Holds for: {}", model.limits);
    let parameters = e.parameters.iter().map(|p| {
        let default = match p.default {
            Some(default) => format!("[{default}]"),
            None if !p.required => String::new(),
            None => "needed".into(),
        };
        (format!("  {}", p.name), vec![default, p.doc.to_owned()])
    });
    let figures = model.outputs.iter();
    let figures = figures.map(|o| (format!("  {}", o.name), vec![o.measure.word(), o.doc]));
    writeln!(
        text,
        "{}\n\nParameters\n{}Figures\n{}",
        indented("", &limits),
        words(3).with(parameters).text(width),
        words(3).with(figures).text(width).trim_end()
    )?;
    let given = model.example.given.replace(',', " ");
    writeln!(
        text,
        "\nExample: tailback model {} {given}\n  {}",
        e.name,
        indented("  ", model.example.by_hand)
    )?;
    Ok(text)
}

/// Greatest width of an explanation, columns; longer lines are hard to read.
const WIDEST: usize = 100;

/// Returns a table of words without headings.
fn words(columns: usize) -> Table {
    Table::new("", vec![Column::words(""); columns])
}

fn table(model: &Model, values: &[Option<f64>]) -> Table {
    let known = model.outputs.iter().zip(values);
    let known = known.filter_map(|(o, value)| Some((o, (*value)?)));
    Table::new("", ["".into(), "".into(), Column::words("")])
        .with(known.map(|(o, value)| (o.name, vec![figure(o.measure, value), o.doc.to_owned()])))
}

fn figure(measure: Measure, value: f64) -> String {
    match measure {
        Measure::Time if value < 3600.0 => SPAN.print_to(value, 4),
        Measure::Time => format!("{} h", significant(value / 3600.0, 4)),
        Measure::Size => SIZE.print_to(value, 4),
        Measure::Rate => RATE.print_to(value, 4),
        // What is left of adding shares up.
        Measure::Share if value > 0.0 && value < 1e-12 => "below 1e-10 %".into(),
        // A reliability of many nines must show them.
        Measure::Share if value > 0.99 && value < 1.0 => {
            let nines = (-(1.0 - value).log10()).ceil().max(2.0) as usize;
            format!("{:.*} %", nines, 100.0 * value)
        }
        Measure::Share => format!("{} %", significant(100.0 * value, 4)),
        Measure::Number(unit) => format!("{} {unit}", significant(value, 4)),
    }
}

fn unit(measure: Measure) -> &'static str {
    match measure {
        Measure::Time => "s",
        Measure::Size => "B",
        Measure::Rate => "bit/s",
        Measure::Share => "1",
        Measure::Number(unit) => unit,
    }
}

/// Output of `tailback model --json`.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct Document {
    /// Name of the formula with all its parameters.
    pub model: String,
    pub formula: &'static str,
    pub figures: Vec<ModelFigure>,
    /// Reason why the parameters are outside the formula's validity; absent within it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub doubt: Option<String>,
}

/// Figure of a formula, in seconds, bytes, bits per second, or the unit that it names.
#[derive(Debug, PartialEq, Serialize, schemars::JsonSchema)]
pub struct ModelFigure {
    pub name: &'static str,
    /// Value; null if the formula gives none for these parameters.
    pub value: Option<f64>,
    /// Unit; 1 for a share.
    pub unit: &'static str,
    pub meaning: &'static str,
}

impl Document {
    fn new(model: &Model, words: &Words, values: &[Option<f64>]) -> Document {
        let figures = model.outputs.iter().zip(values);
        let figures = figures.map(|(o, value)| ModelFigure {
            name: o.name,
            value: *value,
            unit: unit(o.measure),
            meaning: o.doc,
        });
        Document {
            model: words.to_string(),
            formula: model.formula,
            figures: figures.collect(),
            doubt: model.doubt(words),
        }
    }
}
