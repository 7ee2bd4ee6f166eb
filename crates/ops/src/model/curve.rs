//! Curves of a formula's figures over one of its parameters.

use super::unit;
use crate::usage;
use base::print::{RATE, SIZE, SPAN, Unit};
use base::words::{Value, Words};
use report::plot::{self, Draw, PlotSpec, Series};
use theory::{Measure, Model, Output, parse};

/// Steps of a curve.
const STEPS: u32 = 240;

/// Draws figures over one parameter, as SVG.
pub(super) fn drawing(
    model: &Model,
    given: &[String],
    plot: &str,
    show: &[String],
) -> anyhow::Result<String> {
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
    let series = series(&shown, &points, axis.scale, scale);
    let x = match axis.unit {
        "" => key.to_string(),
        unit => format!("{key}, {unit}"),
    };
    let x = plot::Axis::even(x, axis.low / axis.scale, axis.high / axis.scale);
    Ok(PlotSpec::lines(model.entry.summary, x, y_unit, series).svg())
}

/// Position on the axis, and the figures there.
type Evaluated<E> = (f64, Result<Vec<Option<f64>>, E>);

/// Series of each figure, each value divided by the scale of its axis.
fn series<E>(
    shown: &[(usize, &Output)],
    points: &[Evaluated<E>],
    x_scale: f64,
    y_scale: f64,
) -> Vec<Series> {
    let line = |(colour, (at, output)): (usize, &(usize, &Output))| {
        let points = points.iter().map(|(x, v)| {
            let y = v.as_ref().ok().and_then(|v| v[*at]);
            (x / x_scale, y.map(|y| y / y_scale))
        });
        let name = output.name.replace('_', " ");
        Series::numbered(name, Draw::Line, colour, points.collect())
    };
    shown.iter().enumerate().map(line).collect()
}

/// Figures to draw, with their positions among the outputs. They share an axis, so they must share a unit.
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

/// Divisor and name of the axis, chosen so that its labels are short numbers.
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

/// Axis of the varied parameter, in the units of the models.
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

    /// Positions at which the curve is computed: even steps, or whole numbers for a count.
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

    /// Value as one would write it for the parameter.
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
