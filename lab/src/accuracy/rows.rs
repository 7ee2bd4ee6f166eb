//! Rows of the page: a kind's claims beside the truth.

use crate::accuracy::cell::{At, Cell, Is, Truth};
use base::print::significant;
use base::record::Recording;
use serde_json::Value;
use stats::Figure;

pub const HEAD: &str = "| kind | line | figure | truth | said (interval) | off | within |\n|---|---|---|---|---|---|---|";

/// Text in place of a row that an answer lacks.
pub const NOT_SAID: &str = "not said";

/// Result of a run.
#[derive(Default)]
pub struct Said {
    /// As `--json` has it.
    pub answer: Value,
    pub recording: Recording,
    /// Connections that the site took, by port.
    pub connections: Value,
    /// Why the emulation is not to be trusted: this machine was too busy for it.
    pub doubt: Option<String>,
}

/// Last four columns of a row.
pub struct Judged {
    pub truth: String,
    pub said: String,
    off: String,
    pub within: Within,
}

#[derive(Clone, Copy, PartialEq)]
pub enum Within {
    Yes,
    No,
    /// It says that it cannot tell, which is not wrong.
    Untold,
}

impl From<bool> for Within {
    fn from(yes: bool) -> Within {
        if yes { Within::Yes } else { Within::No }
    }
}

/// Its rows; and how many of its truths hold, of how many.
pub fn rows(cell: &Cell, said: &Said) -> (Vec<String>, (usize, usize)) {
    let mut held = 0;
    let rows = cell.truths.iter().map(|t| {
        let judged = judge(t, said);
        held += usize::from(judged.within == Within::Yes);
        format!(
            "| {} | {} | {} | {} | {} | {} | {} |",
            cell.kind(),
            cell.place(),
            name(&t.at),
            plain(&judged.truth),
            plain(&judged.said),
            judged.off,
            match judged.within {
                Within::Yes => "yes",
                Within::No => "**no**",
                Within::Untold => "–",
            }
        )
    });
    let rows = rows.collect();
    (rows, (held, cell.truths.len()))
}

/// In place of rows where there was no answer.
pub fn failed(cell: &Cell, why: &str) -> String {
    format!(
        "| {} | {} | | | {} | | **no** |",
        cell.kind(),
        cell.place(),
        plain(why)
    )
}

/// A cell of a table of Markdown.
fn plain(text: &str) -> String {
    text.replace('|', "\\|").replace('\n', " ")
}

pub fn name(at: &At) -> String {
    let bare = |key: &str| {
        let units = ["_bps", "_ms", "_bytes", "_packets"];
        let unit = units.iter().find_map(|u| key.strip_suffix(u));
        unit.unwrap_or(key).to_owned()
    };
    match at {
        At::Figures(keys) => keys.iter().map(|k| bare(k)).collect::<Vec<_>>().join(" + "),
        At::Row(name, _) => (*name).into(),
        At::Says => "answer".into(),
        At::Evidence(word) => (*word).into(),
        At::Alerts => "alerts".into(),
    }
}

/// A figure with the truth and the bounds in which it is right.
pub struct Number {
    pub said: Figure,
    /// The one true value; none where only bounds are known.
    pub truth: Option<f64>,
    pub low: f64,
    pub high: f64,
}

/// The number that a truth about figures is about.
///
/// # Errors
/// Says why there is none: the truth is unknown or a text, or the figure was not given.
pub fn number_of(truth: &Truth, said: &Said) -> Result<Number, String> {
    let At::Figures(keys) = &truth.at else {
        return Err("no number".into());
    };
    let (value, low, high) = match &truth.is {
        Is::Near { value, by } => (Some(*value), value - by, value + by),
        Is::Between(low, high) => (None, *low, *high),
        Is::Seen { of, share, plus } => {
            let v = of(&said.recording)?;
            let by = share * v + plus;
            (Some(v), v - by, v + by)
        }
        Is::Counted { port, loads } => {
            let counted = said.connections[port.to_string()].as_f64();
            let n = counted.ok_or("the site did not count")? / loads;
            (Some(n), n, n)
        }
        Is::CannotTell | Is::Words(_) | Is::Exactly(_) | Is::Blames(_) | Is::Nothing => {
            return Err("no number".into());
        }
    };
    Ok(Number {
        said: figure(&said.answer, keys)?,
        truth: value,
        low,
        high,
    })
}

pub fn judge(truth: &Truth, said: &Said) -> Judged {
    let At::Figures(keys) = &truth.at else {
        return judge_words(truth, said);
    };
    let key = keys[0];
    let Number {
        said: found,
        truth: is,
        low,
        high,
    } = match number_of(truth, said) {
        Ok(number) => number,
        Err(why) => {
            let found = figure(&said.answer, keys);
            let untold = matches!(found, Ok(Figure::CannotTell { .. }));
            let asked = matches!(truth.is, Is::CannotTell);
            return Judged {
                truth: if asked { "cannot be told".into() } else { why },
                said: told(key, &found),
                off: String::new(),
                within: (asked && untold).into(),
            };
        }
    };
    let value = found.value();
    let off = match (value, is) {
        (Some(v), Some(is)) if is != 0.0 => {
            format!("{} %", significant((v / is - 1.0) * 100.0, 2))
        }
        _ => String::new(),
    };
    Judged {
        truth: match (is, &truth.is) {
            (Some(n), Is::Counted { .. }) => number(n),
            (Some(v), _) => with_unit(key, v, v),
            (None, _) => with_unit(key, low, high),
        },
        off,
        within: value.map_or(Within::Untold, |v| {
            (low - 1e-9..=high + 1e-9).contains(&v).into()
        }),
        said: told(key, &Ok(found)),
    }
}

/// The figure, or the sum of several of one unit.
fn figure(answer: &Value, keys: &[&str]) -> Result<Figure, String> {
    let mut sum: Option<Figure> = None;
    for key in keys {
        let all = answer["figures"].as_array();
        let found = all.and_then(|a| a.iter().find(|f| f["key"] == *key));
        let found = found.ok_or("not said")?;
        let next: Figure =
            serde_json::from_value(found["figure"].clone()).map_err(|e| e.to_string())?;
        sum = Some(match (sum, next) {
            (None, next) => next,
            (
                Some(Figure::Is { value, low, high }),
                Figure::Is {
                    value: v,
                    low: l,
                    high: h,
                },
            ) => Figure::Is {
                value: value + v,
                low: low + l,
                high: high + h,
            },
            (Some(untold @ Figure::CannotTell { .. }), _) | (_, untold) => untold,
        });
    }
    sum.ok_or_else(|| "no figure was asked for".into())
}

pub fn told(key: &str, found: &Result<Figure, String>) -> String {
    match found {
        Ok(Figure::Is { value, low, high }) => format!(
            "{} ({}–{})",
            shown(key, *value),
            shown(key, *low),
            shown(key, *high)
        ),
        Ok(Figure::CannotTell { cannot_tell }) => format!("cannot tell: {cannot_tell}"),
        Err(why) => why.clone(),
    }
}

fn number(v: f64) -> String {
    significant(v, 4)
}

/// In the unit that its key ends with.
fn shown(key: &str, v: f64) -> String {
    match key {
        k if k.ends_with("_bps") => number(v / 1e6),
        _ => number(v),
    }
}

pub fn with_unit(key: &str, low: f64, high: f64) -> String {
    let unit = match key {
        k if k.ends_with("_bps") => " Mbit/s",
        k if k.ends_with("_ms") => " ms",
        k if k.ends_with("_bytes") => " bytes",
        _ => "",
    };
    match low == high {
        true => format!("{}{unit}", shown(key, low)),
        false => format!("{} to {}{unit}", shown(key, low), shown(key, high)),
    }
}

fn judge_words(truth: &Truth, said: &Said) -> Judged {
    let text = match &truth.at {
        At::Row(name, column) => cell_of(&said.answer, name, *column),
        At::Says => said.answer["says"].as_str().map(str::to_owned),
        At::Evidence(word) => said.answer["evidence"].as_array().and_then(|all| {
            let mut lines = all.iter().filter_map(Value::as_str);
            lines.find(|l| l.contains(word)).map(str::to_owned)
        }),
        At::Alerts => said.answer["alerts"].as_array().map(|all| {
            let above = all.iter().filter(|a| a["severity"] != "note");
            let what: Vec<&str> = above.filter_map(|a| a["what"].as_str()).collect();
            what.join("; ")
        }),
        At::Figures(_) => None,
    };
    let (is, within) = match (&truth.is, &text) {
        (Is::Words(words), Some(text)) => (words.clone(), text.contains(words.as_str())),
        (Is::Nothing, Some(text)) => ("none".into(), text.is_empty()),
        (Is::Blames(words), Some(text)) => (
            (*words).into(),
            text == words || text == "the link: it loses packets",
        ),
        (Is::Exactly(words), Some(text)) => ((*words).into(), text == words),
        (Is::Words(words), None) => (words.clone(), false),
        _ => ("no text".into(), false),
    };
    let said = match text {
        Some(none) if none.is_empty() => "none".into(),
        Some(text) => text,
        None => NOT_SAID.into(),
    };
    let untold = !within && said.starts_with("cannot tell");
    Judged {
        truth: is,
        said,
        off: String::new(),
        within: match untold {
            true => Within::Untold,
            false => within.into(),
        },
    }
}

fn cell_of(answer: &Value, name: &str, column: usize) -> Option<String> {
    let rows = answer["tables"][0]["rows"].as_array()?;
    let begins = |r: &&Value| r[0].as_str().is_some_and(|t| t.starts_with(name));
    let row = rows.iter().find(begins)?;
    row[column].as_str().map(str::to_owned)
}
