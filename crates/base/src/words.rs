//! Parser and printer for a name with parameters, such as `codel:target=5ms,interval=100ms`. Every table uses them:
//! disciplines, controllers, impairments.

use crate::program::Program;
use crate::{BitsPerSec, Bytes, Duration, ParseUnitError};
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::str::FromStr;
use std::sync::Arc;

/// Unit of a parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Duration,
    Bytes,
    /// Data rate, such as `20 Mbit/s`.
    Rate,
    Packets,
    /// Whole number.
    Count,
    /// Number from 0 to 1.
    Probability,
    /// Real number.
    Number,
    /// `true` or `false`.
    Switch,
    /// Word of this list.
    Choice(&'static [&'static str]),
    /// IP address, with a port if it is not the usual one: `192.0.2.53`, `[2001:db8::53]:5353`.
    Address,
    /// DNS name: `www.example.org`.
    Name,
    /// Web address, `http://www.example.org/` or `https://…`. A comma is written as `%2C` and a semicolon as `%3B`,
    /// because the parameter syntax uses both.
    Url,
    /// Any text without a comma, such as the path of a program.
    Text,
    /// Datagrams to send, as a [`Program`] is written, with `+` for its commas: `9 x 1452+726@7 ms; pause 5 s; 50 x
    /// 200`.
    Program,
    /// List of values of this unit, such as `0.5; 1; 1.5`.
    List(&'static Unit),
}

impl fmt::Display for Unit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Unit::Duration => "time",
            Unit::Bytes => "bytes",
            Unit::Rate => "rate",
            Unit::Packets => "packets",
            Unit::Count => "count",
            Unit::Probability => "probability",
            Unit::Number => "number",
            Unit::Switch => "switch",
            Unit::Choice(words) => return f.write_str(&words.join(" or ")),
            Unit::Address => "address",
            Unit::Name => "name",
            Unit::Url => "web address",
            Unit::Text => "text",
            Unit::Program => "datagrams to send",
            Unit::List(Unit::Address) => "list of addresses",
            Unit::List(Unit::Url) => "list of web addresses",
            Unit::List(unit) => {
                return write!(f, "list of {}s", unit.to_string().trim_end_matches('s'));
            }
        })
    }
}

/// Parameter of an entry. `default`, `min` and `max` are written as a user would type them.
#[derive(Clone, Copy, Debug)]
pub struct Parameter {
    /// Name as it is written.
    pub name: &'static str,
    /// Unit and kind of the value.
    pub unit: Unit,
    /// Default value. `None`: unset unless given; `doc` describes the effect.
    pub default: Option<&'static str>,
    /// Smallest value, as it is written.
    pub min: &'static str,
    /// Largest value, as it is written.
    pub max: &'static str,
    /// Source of the default.
    pub section: &'static str,
    /// Help in one line.
    pub doc: &'static str,
    /// True if it must be given when it has no default.
    pub required: bool,
}

/// Named item of a table, with its parameters.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Name as it is written.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: &'static str,
    /// Sources: RFC, paper or book.
    pub sources: &'static [&'static str],
    /// Parameters in order.
    pub parameters: &'static [Parameter],
}

/// Value of a parameter.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Duration(Duration),
    Bytes(Bytes),
    Rate(BitsPerSec),
    Count(u64),
    Real(f64),
    Switch(bool),
    Choice(&'static str),
    /// Address, name or other text, as given.
    Text(Arc<str>),
    List(Arc<[Value]>),
}

/// Table entry with a value, given or default, for each of its parameters.
#[derive(Clone, Debug)]
pub struct Words {
    entry: &'static Entry,
    values: Vec<Option<Value>>,
}

/// Error for a name with parameters that could not be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    #[error("no {kind} \"{name}\". Known: {known}.{hint}")]
    UnknownName {
        kind: &'static str,
        name: String,
        known: String,
        hint: String,
    },
    #[error("{kind} \"{name}\" has no parameter \"{key}\". Known: {known}.{hint}")]
    UnknownKey {
        kind: &'static str,
        name: &'static str,
        key: String,
        known: String,
        hint: String,
    },
    #[error("{kind} \"{name}\": \"{part}\" is not of the form key=value. Known keys: {known}.")]
    NotKeyValue {
        kind: &'static str,
        name: &'static str,
        part: String,
        known: String,
    },
    #[error("{kind} \"{name}\": \"{key}\" is given twice")]
    Twice {
        kind: &'static str,
        name: &'static str,
        key: &'static str,
    },
    #[error("{kind} \"{name}\": {key}: {why}")]
    BadValue {
        kind: &'static str,
        name: &'static str,
        key: &'static str,
        why: String,
    },
    #[error("{kind} \"{name}\": {key}={value} is out of range: from {min} to {max}")]
    OutOfRange {
        kind: &'static str,
        name: &'static str,
        key: &'static str,
        value: String,
        min: &'static str,
        max: &'static str,
    },
    #[error("{kind} \"{name}\" needs {key}, for example \"{name}:{key}={example}\"")]
    Missing {
        kind: &'static str,
        name: &'static str,
        key: &'static str,
        example: &'static str,
    },
    #[error("\"{name}\" has other parameters")]
    Foreign { name: &'static str },
    #[error("\"{name}\": {key} is not set, or its value does not fit")]
    Unfit {
        name: &'static str,
        key: &'static str,
    },
}

impl Words {
    /// Parses `name` or `name:key=value,key=value` against a table.
    ///
    /// # Errors
    /// An unknown name or key: the error lists the known ones and the nearest match. A value of the wrong unit or out
    /// of range.
    pub fn parse(
        kind: &'static str,
        table: impl Iterator<Item = &'static Entry> + Clone,
        text: &str,
    ) -> Result<Words, WordsError> {
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let name = name.trim();
        let entry = table.clone().find(|e| e.name == name).ok_or_else(|| {
            let known: Vec<&str> = table.map(|e| e.name).collect();
            WordsError::UnknownName {
                kind,
                name: name.to_string(),
                hint: hint(name, &known),
                known: known.join(", "),
            }
        })?;
        let mut pairs = Vec::new();
        for part in rest.split(',').map(str::trim).filter(|p| !p.is_empty()) {
            let pair = part
                .split_once('=')
                .ok_or_else(|| WordsError::NotKeyValue {
                    kind,
                    name: entry.name,
                    part: part.to_string(),
                    known: keys_of(entry).join(", "),
                })?;
            pairs.push((pair.0.trim(), pair.1.trim()));
        }
        Words::with(kind, entry, pairs)
    }

    /// Builds an entry from values for some of its keys, each written as a user would type it.
    ///
    /// # Errors
    /// The same as [`Words::parse`], except for an unknown name.
    pub fn with<'a>(
        kind: &'static str,
        entry: &'static Entry,
        pairs: impl IntoIterator<Item = (&'a str, &'a str)>,
    ) -> Result<Words, WordsError> {
        let keys = keys_of(entry);
        let mut values = vec![None; keys.len()];
        for (key, value) in pairs {
            let at = keys
                .iter()
                .position(|k| *k == key)
                .ok_or_else(|| WordsError::UnknownKey {
                    kind,
                    name: entry.name,
                    key: key.to_string(),
                    hint: hint(key, &keys),
                    known: if keys.is_empty() {
                        "none".into()
                    } else {
                        keys.join(", ")
                    },
                })?;
            let parameter = &entry.parameters[at];
            if values[at].is_some() {
                return Err(WordsError::Twice {
                    kind,
                    name: entry.name,
                    key: parameter.name,
                });
            }
            values[at] = Some(parameter.read(kind, entry.name, value)?);
        }
        for (parameter, value) in entry.parameters.iter().zip(&mut values) {
            if let (None, Some(default)) = (&value, parameter.default) {
                *value = Some(parameter.read(kind, entry.name, default)?);
            }
        }
        Ok(Words { entry, values })
    }

    /// Entry that the words were read against.
    pub fn entry(&self) -> &'static Entry {
        self.entry
    }

    /// Returns the value of the parameter at index `at`. `None` if there is no such parameter.
    pub(crate) fn nth(&self, at: usize) -> Option<Option<&Value>> {
        self.values.get(at).map(Option::as_ref)
    }

    /// Returns the first required parameter without a value.
    pub fn missing(&self) -> Option<&'static Parameter> {
        let unset = |(p, v): &(&Parameter, Option<&Value>)| p.required && v.is_none();
        self.all().find(unset).map(|(p, _)| p)
    }

    /// Iterates over all parameters with their values.
    pub fn all(&self) -> impl Iterator<Item = (&'static Parameter, Option<&Value>)> {
        let values = self.values.iter().map(Option::as_ref);
        self.entry.parameters.iter().zip(values)
    }
}

impl PartialEq for Words {
    fn eq(&self, other: &Words) -> bool {
        self.entry.name == other.entry.name && self.values == other.values
    }
}

/// Prints the values that differ from the defaults; parsing the text gives the same value.
impl fmt::Display for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.entry.name)?;
        let mut separator = ':';
        for (parameter, value) in self.entry.parameters.iter().zip(&self.values) {
            let default = parameter.default.and_then(|d| parameter.unit.read(d).ok());
            if let Some(value) = value.as_ref().filter(|v| default.as_ref() != Some(v)) {
                write!(f, "{separator}{}={value}", parameter.name)?;
                separator = ',';
            }
        }
        Ok(())
    }
}

impl Parameter {
    fn read(
        &self,
        kind: &'static str,
        name: &'static str,
        text: &str,
    ) -> Result<Value, WordsError> {
        let value = self.unit.read(text).map_err(|why| WordsError::BadValue {
            kind,
            name,
            key: self.name,
            why,
        })?;
        let unit = match self.unit {
            Unit::List(unit) => *unit,
            unit => unit,
        };
        let bound = |text| {
            unit.read(text)
                .expect("the bounds of a table are well formed")
        };
        let bounded = !matches!(
            unit,
            Unit::Choice(_)
                | Unit::Switch
                | Unit::Address
                | Unit::Name
                | Unit::Url
                | Unit::Text
                | Unit::Program
        );
        if bounded && (value.below(&bound(self.min)) || bound(self.max).below(&value)) {
            return Err(WordsError::OutOfRange {
                kind,
                name,
                key: self.name,
                value: value.to_string(),
                min: self.min,
                max: self.max,
            });
        }
        Ok(value)
    }
}

/// Domain name: labels of 63 characters at most.
fn name(text: &str) -> Result<Value, String> {
    let plain = text.strip_suffix('.').unwrap_or(text);
    let known = plain.len() <= 253
        && plain.split('.').all(|label| {
            (1..=63).contains(&label.len())
                && label
                    .bytes()
                    .all(|b| b.is_ascii_alphanumeric() || b"-_".contains(&b))
        });
    known
        .then(|| Value::Text(plain.into()))
        .ok_or_else(|| format!("\"{text}\" is no name, such as \"www.example.org\""))
}

/// Address of a page, with its scheme.
fn url(text: &str) -> Result<Value, String> {
    let rest = text
        .strip_prefix("http://")
        .or(text.strip_prefix("https://"));
    let known = rest.is_some_and(|r| !r.is_empty() && !r.starts_with('/'))
        && !text.contains(|c: char| c.is_whitespace() || c.is_control());
    known.then(|| Value::Text(text.into())).ok_or_else(|| {
        format!("\"{text}\" is no web address, such as \"https://www.example.org/\"")
    })
}

/// Quantity of `text`, which has a unit.
fn parsed<T: FromStr<Err = ParseUnitError>>(
    text: &str,
    value: impl FnOnce(T) -> Value,
) -> Result<Value, String> {
    text.parse().map(value).map_err(|e| e.to_string())
}

impl Unit {
    fn read(self, text: &str) -> Result<Value, String> {
        match self {
            Unit::Duration => parsed(text, Value::Duration),
            // A size in bytes may be given without a unit.
            Unit::Bytes if text.bytes().all(|b| b.is_ascii_digit()) && !text.is_empty() => {
                parsed(&format!("{text} B"), Value::Bytes)
            }
            Unit::Bytes => parsed(text, Value::Bytes),
            Unit::Rate => parsed(text, Value::Rate),
            Unit::Packets | Unit::Count => text
                .parse()
                .map(Value::Count)
                .map_err(|_| format!("\"{text}\" is not a whole number, such as \"100\"")),
            Unit::Probability => match text.parse::<f64>() {
                Ok(p) if p.is_finite() => Ok(Value::Real(p)),
                _ => Err(format!(
                    "\"{text}\" is not a number from 0 to 1, such as \"0.01\""
                )),
            },
            Unit::Switch => match text {
                "true" | "yes" | "on" => Ok(Value::Switch(true)),
                "false" | "no" | "off" => Ok(Value::Switch(false)),
                _ => Err(format!("\"{text}\" is neither true nor false")),
            },
            Unit::Number => match text.parse::<f64>() {
                Ok(n) if n.is_finite() => Ok(Value::Real(n)),
                _ => Err(format!("\"{text}\" is not a number, such as \"0.5\"")),
            },
            Unit::Choice(known) => known
                .iter()
                .find(|k| **k == text)
                .map(|k| Value::Choice(k))
                .ok_or_else(|| {
                    format!(
                        "\"{text}\" is none of {}.{}",
                        known.join(", "),
                        hint(text, known)
                    )
                }),
            Unit::Address => {
                let plain = text.trim_start_matches('[').trim_end_matches(']');
                let known = plain.parse::<IpAddr>().is_ok() || text.parse::<SocketAddr>().is_ok();
                known.then(|| Value::Text(text.into())).ok_or_else(|| {
                    format!("\"{text}\" is no IP address, such as \"192.0.2.53\" or \"[2001:db8::53]:5353\"")
                })
            }
            Unit::Name => name(text),
            Unit::Url => url(text),
            Unit::Text if text.is_empty() => Err("it is empty".into()),
            Unit::Text => Ok(Value::Text(text.into())),
            Unit::Program => match text.replace('+', ",").parse::<Program>() {
                Ok(_) => Ok(Value::Text(text.into())),
                Err(e) => Err(e.to_string()),
            },
            Unit::List(unit) => {
                let parts = text.split(';').map(|part| unit.read(part.trim()));
                parts.collect::<Result<_, _>>().map(Value::List)
            }
        }
    }
}

impl Value {
    /// True if the value, or any element of a list, is less than `other`, or less than any of its elements.
    fn below(&self, other: &Value) -> bool {
        match (self, other) {
            (Value::List(list), bound) => list.iter().any(|v| v.below(bound)),
            (bound, Value::List(list)) => list.iter().any(|v| bound.below(v)),
            (Value::Duration(a), Value::Duration(b)) => a < b,
            (Value::Bytes(a), Value::Bytes(b)) => a < b,
            (Value::Rate(a), Value::Rate(b)) => a < b,
            (Value::Count(a), Value::Count(b)) => a < b,
            (Value::Real(a), Value::Real(b)) => a < b,
            _ => false,
        }
    }
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Duration(d) => d.fmt(f),
            Value::Bytes(b) => b.fmt(f),
            Value::Rate(r) => r.fmt(f),
            Value::Count(n) => n.fmt(f),
            Value::Real(r) => r.fmt(f),
            Value::Switch(b) => b.fmt(f),
            Value::Choice(c) => c.fmt(f),
            Value::Text(t) => t.fmt(f),
            Value::List(list) => {
                for (i, value) in list.iter().enumerate() {
                    f.write_str(if i > 0 { "; " } else { "" })?;
                    value.fmt(f)?;
                }
                Ok(())
            }
        }
    }
}

fn keys_of(entry: &Entry) -> Vec<&'static str> {
    entry.parameters.iter().map(|p| p.name).collect()
}

/// Returns ` Did you mean "…"?` with the nearest of `known`, or an empty string if none is near.
pub fn hint(word: &str, known: &[&str]) -> String {
    nearest(word, known).map_or_else(String::new, |n| format!(" Did you mean \"{n}\"?"))
}

/// Returns the known word with the fewest typing errors, if they are few for its length.
pub fn nearest<'a>(word: &str, known: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    known
        .iter()
        .map(|k| (slips(&word, &k.to_lowercase()), *k))
        .filter(|(n, k)| *n <= 1 + k.chars().count() / 3)
        .min_by_key(|(n, _)| *n)
        .map(|(_, k)| k)
}

/// Counts the letters added, omitted, changed, or swapped with their neighbour between `a` and `b`.
fn slips(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().collect(), b.chars().collect());
    let mut d = vec![vec![0; b.len() + 1]; a.len() + 1];
    for i in 0..=a.len() {
        for j in 0..=b.len() {
            d[i][j] = if i == 0 || j == 0 {
                i + j
            } else {
                let changed = d[i - 1][j - 1] + usize::from(a[i - 1] != b[j - 1]);
                let best = changed.min(d[i - 1][j] + 1).min(d[i][j - 1] + 1);
                if i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] {
                    best.min(d[i - 2][j - 2] + 1)
                } else {
                    best
                }
            };
        }
    }
    d[a.len()][b.len()]
}

/// Defines a public type for one table. It parses and prints as words; in TOML and JSON it is a string.
/// The crate that uses the macro needs serde.
#[macro_export]
macro_rules! worded {
    ($(#[$meta:meta])* $name:ident, $kind:literal, $table:expr) => {
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name($crate::words::Words);

        impl $name {
            /// Name and parameters.
            pub fn words(&self) -> &$crate::words::Words {
                &self.0
            }
        }
        impl std::str::FromStr for $name {
            type Err = $crate::words::WordsError;
            fn from_str(text: &str) -> Result<Self, Self::Err> {
                $crate::words::Words::parse($kind, $table, text).map($name)
            }
        }
        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                self.0.fmt(f)
            }
        }
        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
                s.collect_str(self)
            }
        }
        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(d: D) -> Result<Self, D::Error> {
                <String as serde::Deserialize>::deserialize(d)?.parse().map_err(serde::de::Error::custom)
            }
        }
    };
}
pub use worded;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::{Params as _, choices, params};

    #[test]
    fn the_nearest_word_is_found_for_slips_and_not_for_nonsense() {
        let known = ["fifo", "codel", "fq_codel"];
        assert_eq!(nearest("codle", &known), Some("codel"));
        assert_eq!(nearest("fq-codel", &known), Some("fq_codel"));
        assert_eq!(nearest("FIFO", &known), Some("fifo"));
        assert_eq!(nearest("red", &known), None);
        assert_eq!(slips("codle", "codel"), 1);
        assert_eq!(slips("", "abc"), 3);
    }

    #[test]
    fn addresses_and_names_are_kept_as_written_and_nothing_else_passes_for_one() {
        let read = |unit: Unit, text| unit.read(text).map(|v| v.to_string());
        for text in [
            "192.0.2.53",
            "192.0.2.53:5353",
            "2001:db8::53",
            "[2001:db8::53]:53",
        ] {
            assert_eq!(read(Unit::Address, text), Ok(text.to_owned()));
        }
        for text in ["far.example", "192.0.2", "192.0.2.53:dns", ""] {
            assert!(read(Unit::Address, text).is_err(), "{text}");
        }
        assert_eq!(
            read(Unit::Name, "a-b.example."),
            Ok("a-b.example".to_owned())
        );
        for text in ["", "a..b", "a b.example", "exa;mple"] {
            assert!(read(Unit::Name, text).is_err(), "{text}");
        }
        let long = "x".repeat(64);
        assert!(read(Unit::Name, &long).is_err());
        for text in ["http://a", "https://a.example:8080/b?c=d;e#f"] {
            assert!(read(Unit::Url, text).is_ok(), "{text}");
        }
        for text in [
            "",
            "a.example",
            "ftp://a",
            "http://",
            "https:///b",
            "http://a b",
        ] {
            assert!(read(Unit::Url, text).is_err(), "{text}");
        }
    }

    #[test]
    fn a_choice_and_a_plain_number_read_and_print() {
        choices! {
            enum Mode { Off = "off", Classic = "classic" }
        }
        params! {
            #[derive(Debug, PartialEq)]
            struct Thing for "thing": "a thing", [] {
                /// gain
                gain: f64 = "2.5" ["-1".."10"];
                /// mode
                mode: Mode = "off";
            }
        }
        let read = |text| Words::parse("thing", [&Thing::ENTRY].into_iter(), text);
        let words = read("thing:mode=classic,gain=-0.5").unwrap();
        let (gain, mode) = (-0.5, Mode::Classic);
        assert_eq!(words.read::<Thing>(), Thing { gain, mode });
        assert_eq!(words.to_string(), "thing:gain=-0.5,mode=classic");
        assert_eq!(read("thing:mode=off").unwrap().to_string(), "thing");
        assert!(
            read("thing:mode=clasic")
                .unwrap_err()
                .to_string()
                .ends_with("\"clasic\" is none of off, classic. Did you mean \"classic\"?")
        );
        assert!(read("thing:gain=11").is_err());
        assert!(read("thing:gain=NaN").is_err());
    }
}
