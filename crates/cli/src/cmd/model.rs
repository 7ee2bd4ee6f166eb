//! `tailback model`: the formulas of queues, buffers and transport as a calculator.

mod traffic;

use super::{print, stdout_style, usage, write_file};
use crate::Outcome;
use base::print::{RATE, SIZE, SPAN, Unit};
use base::units::significant;
use base::words::{Value, Words};
use report::chart::{Chart, Draw, Series};
use report::terminal::wrapped;
use serde_json::json;
use std::fmt::Write;
use std::path::PathBuf;
use theory::{MODELS, Measure, Model, Output, parse};

#[derive(clap::Args)]
#[command(
    about = "Reckon with a formula: buffer sizes, queues, TCP throughput, reliability",
    long_about = "Reckon with a formula: buffer sizes, queues, TCP throughput, reliability.\n\n\
        Without a name it lists the formulas; with a name alone it explains that one: the formula, its source, where it holds, \
        its parameters, and an example that can be checked by hand.",
    after_help = "Examples:\n  \
        tailback model bdp rate=700kbit/s rtt=19ms buffer=37625B\n  \
        tailback model mm1 rate=10Mbit/s offered=8Mbit/s\n  \
        tailback model tagged --traffic office.pcapng rate=20Mbit/s\n  \
        tailback model mm1 rate=10Mbit/s --plot offered=1Mbit/s..9.5Mbit/s --show sojourn,p99 -o mm1.svg"
)]
pub struct Args {
    /// Which formula
    name: Option<String>,
    /// Its parameters, with their units
    #[arg(value_name = "KEY=VALUE")]
    parameters: Vec<String>,
    /// Take the traffic of a capture (pcap, pcapng, gzip, zstd), or what `tailback trace --traffic --json` wrote of one
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// Draw the figures against this parameter, from a value to another
    #[arg(long, value_name = "KEY=LOW..HIGH", requires = "output")]
    plot: Option<String>,
    /// Which figures to draw, separated by commas [default: the first but the load]
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', requires = "plot")]
    show: Vec<String>,
    /// Where the drawing goes, an SVG file
    #[arg(short, long, value_name = "FILE", requires = "plot")]
    output: Option<PathBuf>,
    /// The figures as JSON, in seconds, bytes and bits per second
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let Some(name) = &args.name else {
        let mut text = String::new();
        for model in MODELS {
            writeln!(text, "{:13} {}", model.entry.name, model.entry.summary)?;
        }
        print(&text)?;
        return Ok(Outcome::Done);
    };
    let (model, _) = parse(name).map_err(|e| usage(e.to_string()))?;
    if args.parameters.is_empty() && args.plot.is_none() && args.traffic.is_none() && !args.json {
        print(&explained(model)?)?;
        return Ok(Outcome::Done);
    }
    let mut parameters = args.parameters.clone();
    if let Some(path) = &args.traffic {
        parameters.extend(traffic::fitted(path, model, &args.parameters)?);
    }
    let given = format!("{name}:{}", parameters.join(","));
    if let (Some(plot), Some(output)) = (&args.plot, &args.output) {
        if output.extension().is_none_or(|e| e != "svg") {
            return Err(usage(format!(
                "{}: the drawing is an SVG, so end the name in .svg",
                output.display()
            )));
        }
        let svg = drawing(model, &parameters, plot, &args.show)?;
        write_file(output, &svg)?;
        eprintln!("{} written", output.display());
        return Ok(Outcome::Done);
    }
    let (_, words) = parse(&given).map_err(|e| usage(e.to_string()))?;
    let values = model.evaluate(&words).map_err(|e| usage(e.to_string()))?;
    print(&if args.json {
        format!("{:#}\n", document(model, &words, &values))
    } else {
        table(model, &values)?
    })?;
    Ok(Outcome::Done)
}

fn explained(model: &Model) -> Result<String, std::fmt::Error> {
    let width = stdout_style().width;
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
    writeln!(text, "{}\n\nParameters", indented("", &limits))?;
    for p in e.parameters {
        let default = match p.default {
            Some(default) => format!("[{default}]"),
            None if !p.required => String::new(),
            None => "needed".into(),
        };
        let lead = format!("  {:12} {default:14} ", p.name);
        writeln!(text, "{lead}{}", indented(&lead, p.doc))?;
    }
    writeln!(text, "Figures")?;
    for o in model.outputs {
        let lead = format!("  {:14} {:12} ", o.name, o.measure.word());
        writeln!(text, "{lead}{}", indented(&lead, o.doc))?;
    }
    let given = model.example.given.replace(',', " ");
    writeln!(
        text,
        "\nExample: tailback model {} {given}\n  {}",
        e.name,
        indented("  ", model.example.by_hand)
    )?;
    Ok(text)
}

fn table(model: &Model, values: &[Option<f64>]) -> Result<String, std::fmt::Error> {
    let mut text = String::new();
    for (output, value) in model.outputs.iter().zip(values) {
        if let Some(value) = value {
            let figure = figure(output.measure, *value);
            writeln!(text, "{:14} {figure:>16}  {}", output.name, output.doc)?;
        }
    }
    Ok(text)
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

fn document(model: &Model, words: &Words, values: &[Option<f64>]) -> serde_json::Value {
    let figures: Vec<_> = model
        .outputs
        .iter()
        .zip(values)
        .map(
            |(o, v)| json!({"name": o.name, "value": v, "unit": unit(o.measure), "meaning": o.doc}),
        )
        .collect();
    json!({"model": words.to_string(), "formula": model.formula, "figures": figures})
}

/// Steps of a curve.
const STEPS: u32 = 240;

fn drawing(model: &Model, given: &[String], plot: &str, show: &[String]) -> anyhow::Result<String> {
    let shape = || {
        usage(format!(
            "--plot {plot}: say which parameter from what to what, such as rtt=10ms..200ms"
        ))
    };
    let (key, range) = plot.split_once('=').ok_or_else(shape)?;
    let (low, high) = range.split_once("..").ok_or_else(shape)?;
    let read = |value: &str| -> anyhow::Result<Words> {
        let others = given.iter().filter(|g| g.split('=').next() != Some(key));
        let mut parts: Vec<&str> = others.map(String::as_str).collect();
        let own = format!("{key}={value}");
        parts.push(&own);
        let text = format!("{}:{}", model.entry.name, parts.join(","));
        Ok(parse(&text).map_err(|e| usage(e.to_string()))?.1)
    };
    let value = |words: Words| {
        let named = words.all().find(|(p, _)| p.name == key);
        named.and_then(|(_, value)| value.cloned())
    };
    let (from, to) = (value(read(low)?), value(read(high)?));
    let axis = Axis::of(from.ok_or_else(shape)?, to.ok_or_else(shape)?).ok_or_else(|| {
        usage(format!(
            "--plot {plot}: {key} is not a quantity that can be drawn along"
        ))
    })?;
    let points = axis
        .places()
        .into_iter()
        .map(|x| Ok((x, model.evaluate(&read(&axis.word(x))?))))
        .collect::<anyhow::Result<Vec<_>>>()?;
    // Where the formula says nothing the curve has a gap; where it never says anything, that is the answer.
    let first = points.iter().find_map(|(_, v)| v.as_ref().ok());
    let Some(first) = first else {
        let why = points.into_iter().find_map(|(_, v)| v.err());
        return Err(why.map_or_else(shape, |e| usage(e.to_string())));
    };
    let shown = shown(model, first, show)?;
    let most = points
        .iter()
        .filter_map(|(_, v)| v.as_ref().ok())
        .flat_map(|v| shown.iter().filter_map(|(at, _)| v[*at]))
        .fold(0.0, f64::max);
    let (scale, y_unit) = scale(&shown, most);
    let series = shown
        .iter()
        .enumerate()
        .map(|(colour, (at, output))| Series {
            name: output.name.replace('_', " "),
            draw: Draw::Line,
            colour,
            points: points
                .iter()
                .map(|(x, v)| {
                    let y = v.as_ref().ok().and_then(|v| v[*at]);
                    (x / axis.scale, y.map(|y| y / scale))
                })
                .collect(),
        })
        .collect();
    let chart = Chart {
        title: model.entry.summary.to_string(),
        x: match axis.unit {
            "" => key.to_string(),
            unit => format!("{key}, {unit}"),
        },
        y: y_unit,
        span: (axis.low / axis.scale, axis.high / axis.scale),
        top: None,
        series,
    };
    Ok(chart.svg())
}

/// The figures to draw and where each stands among the outputs. They share an axis, so they share a unit.
fn shown<'a>(
    model: &'a Model,
    values: &[Option<f64>],
    names: &[String],
) -> anyhow::Result<Vec<(usize, &'a Output)>> {
    let all = || model.outputs.iter().enumerate();
    if names.is_empty() {
        // The load only repeats what was asked for.
        let there = |(i, o): &(usize, &Output)| values[*i].is_some() && o.name != "load";
        return Ok(all().find(there).into_iter().collect());
    }
    let known: Vec<&str> = model.outputs.iter().map(|o| o.name).collect();
    let shown = names
        .iter()
        .map(|name| {
            all().find(|(_, o)| o.name == name).ok_or_else(|| {
                usage(format!(
                    "--show: model \"{}\" has no figure \"{name}\". Known: {}.{}",
                    model.entry.name,
                    known.join(", "),
                    base::words::hint(name, &known)
                ))
            })
        })
        .collect::<anyhow::Result<Vec<_>>>()?;
    if let Some((_, other)) = shown.iter().find(|(_, o)| o.measure != shown[0].1.measure) {
        return Err(usage(format!(
            "--show: {} and {} have different units ({}, {}) and no common axis; draw them one after the other",
            shown[0].1.name,
            other.name,
            unit(shown[0].1.measure),
            unit(other.measure)
        )));
    }
    Ok(shown)
}

/// By what to divide, and the name of the axis, so that its marks are short numbers.
fn scale(shown: &[(usize, &Output)], most: f64) -> (f64, String) {
    let (scale, unit) = fitting(shown[0].1.measure, most);
    let name = match shown {
        [(_, only)] => format!("{}, {unit}", only.name.replace('_', " ")),
        _ => unit.to_string(),
    };
    (scale, name)
}

fn fitting(measure: Measure, most: f64) -> (f64, &'static str) {
    let among = |unit: Unit| {
        let (name, size) = unit.fitting(most);
        (size, name)
    };
    match measure {
        Measure::Time => among(SPAN),
        Measure::Size => among(SIZE),
        Measure::Rate => among(RATE),
        Measure::Share => (0.01, "%"),
        Measure::Number(unit) => (1.0, unit),
    }
}

/// The axis of what is varied, in the units that the models reckon in.
struct Axis {
    low: f64,
    high: f64,
    scale: f64,
    unit: &'static str,
    measure: Measure,
    whole: bool,
}

impl Axis {
    fn of(from: Value, to: Value) -> Option<Axis> {
        let number = |value| {
            Some(match value {
                Value::Duration(d) => (d.as_secs_f64(), Measure::Time),
                Value::Bytes(b) => (b.get() as f64, Measure::Size),
                Value::Rate(r) => (r.get() as f64, Measure::Rate),
                Value::Count(n) => (n as f64, Measure::Number("")),
                Value::Real(r) => (r, Measure::Number("")),
                Value::Switch(_) | Value::Choice(_) | Value::Text(_) | Value::List(_) => {
                    return None;
                }
            })
        };
        let whole = matches!(from, Value::Count(_));
        let ((low, measure), (high, _)) = (number(from)?, number(to)?);
        let (scale, unit) = fitting(measure, high);
        (low < high).then_some(Axis {
            low,
            high,
            scale,
            unit,
            measure,
            whole,
        })
    }

    /// Where the curve is reckoned: in even steps, of what is counted at whole numbers only.
    fn places(&self) -> Vec<f64> {
        let even = (0..=STEPS)
            .map(|i| self.low + (self.high - self.low) * f64::from(i) / f64::from(STEPS));
        let mut places: Vec<f64> = match self.whole {
            true => even.map(f64::round).collect(),
            false => even.collect(),
        };
        places.dedup();
        places
    }

    /// A value as one would write it for the parameter.
    fn word(&self, value: f64) -> String {
        match self.measure {
            Measure::Time => format!("{}ns", (value * 1e9).round()),
            Measure::Size => format!("{}B", value.round()),
            Measure::Rate => format!("{}bit/s", value.round()),
            _ if self.whole => format!("{}", value.round()),
            _ => format!("{value}"),
        }
    }
}
