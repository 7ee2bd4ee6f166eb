//! `[[flow]]`: a traffic source, its hosts, its start and its number of flows. A source's own keys stand beside the
//! keys that every flow has.

use crate::marking::{Dscp, EcnWord};
use crate::source::COMMON;
use crate::source::registry::{Spec, all, check};
use base::Duration;
use base::words::{Value as Word, Words, hint};
use serde::{Deserialize, Deserializer, Serialize, Serializer, de, ser};
use toml::{Table, Value};

/// Identical flows, one or more.
#[derive(Clone, Debug, PartialEq)]
pub struct Flow {
    /// Traffic source with its own keys.
    pub source: Words,
    /// Keys that all kinds have.
    pub common: Common,
}

/// Way of a flow's packets from a time on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Turn {
    /// Time from which packets that leave take it.
    #[serde(default)]
    pub at: Duration,
    /// Nodes that they pass, in this order; answers pass them the other way round. None: the shortest way.
    #[serde(default)]
    pub via: Vec<String>,
}

/// Keys that every flow has.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Common {
    /// Name in tables and recordings; default: the kind of the source.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub name: String,
    /// Number of equal flows.
    #[serde(default = "one")]
    pub count: u64,
    /// Sending host; default: the next pair of the topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// Receiving host; by default the next pair's.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// True if the flow runs from right to left.
    #[serde(default)]
    pub backwards: bool,
    /// Start of the first flow.
    #[serde(default)]
    pub start: Duration,
    /// Delay between the starts of successive flows.
    #[serde(default)]
    pub stagger: Duration,
    /// Upper limit of a random delay added to each start.
    #[serde(default)]
    pub spread: Duration,
    /// End of new transfers; default: the end of the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub stop: Option<Duration>,
    /// DSCP of its packets in both directions: a number, or a name such as `ef`.
    #[serde(default, skip_serializing_if = "Dscp::is_default")]
    pub dscp: Dscp,
    /// ECN bits of its datagrams; TCP negotiates ECN (`tcp.ecn`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub ecn: Option<EcnWord>,
    /// Overrides of `[tcp]`.
    #[serde(default, skip_serializing_if = "Table::is_empty")]
    pub tcp: Table,
    /// Ways of its packets, each from a time on; by default the shortest.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub routes: Vec<Turn>,
    /// Follow each packet of the first of these flows from its first departure to its arrival: delay with
    /// retransmissions, and jitter.
    #[serde(default)]
    pub follow: bool,
}

fn one() -> u64 {
    1
}

impl std::ops::Deref for Flow {
    type Target = Common;
    fn deref(&self) -> &Common {
        &self.common
    }
}

impl Flow {
    /// Name of the source.
    pub fn kind(&self) -> &'static str {
        self.source.entry().name
    }
    /// Specification of the source.
    pub fn spec(&self) -> &'static Spec {
        Spec::named(self.kind()).expect("it was made from the table")
    }
    /// True if the source sends TCP.
    pub fn is_tcp(&self) -> bool {
        self.spec().is_tcp()
    }
    /// Name in tables.
    pub fn label(&self) -> String {
        match self.name.as_str() {
            "" => self.kind().to_string(),
            name => name.to_string(),
        }
    }

    fn of(mut table: Table) -> Result<Flow, String> {
        let kinds: Vec<&str> = all().map(|s| s.entry.name).collect();
        let kind = match table.remove("kind") {
            Some(Value::String(kind)) => kind,
            Some(other) => return Err(format!("kind = {other}: one of {}", kinds.join(", "))),
            None => {
                return Err(format!(
                    "a [[flow]] needs a kind: one of {}",
                    kinds.join(", ")
                ));
            }
        };
        let spec = Spec::named(&kind).ok_or_else(|| {
            let near = hint(&kind, &kinds);
            format!("no source \"{kind}\". Known: {}.{near}", kinds.join(", "))
        })?;
        let own: Vec<&str> = spec.entry.parameters.iter().map(|p| p.name).collect();
        let mut pairs: Vec<(String, String)> = Vec::new();
        let mut common = Table::new();
        for (key, value) in table {
            if own.contains(&key.as_str()) {
                pairs.push((key, text_of(&value)));
            } else if COMMON.contains(&key.as_str()) {
                common.insert(key, value);
            } else {
                return Err(unknown(&kind, &key, &own));
            }
        }
        let borrowed = pairs.iter().map(|(k, v)| (k.as_str(), v.as_str()));
        let source = Words::with("source", &spec.entry, borrowed).map_err(|e| e.to_string())?;
        check(&source).map_err(|why| format!("source \"{kind}\": {why}"))?;
        let common = Common::deserialize(common).map_err(|e| e.message().to_string())?;
        Ok(Flow { source, common })
    }
}

/// Error for a key that neither the source nor every flow has.
fn unknown(kind: &str, key: &str, own: &[&str]) -> String {
    let elsewhere = all().any(|s| s.entry.parameters.iter().any(|p| p.name == key));
    let what = match elsewhere {
        true => "has no meaning for",
        false => "is no key of",
    };
    let every = ["kind"].into_iter().chain(COMMON);
    let known: Vec<&str> = own.iter().copied().chain(every).collect();
    let near = match elsewhere {
        true => String::new(),
        false => hint(key, &known),
    };
    let own = match own.is_empty() {
        true => "none".to_string(),
        false => own.join(", "),
    };
    format!(
        "{key} {what} kind = \"{kind}\". Its own keys: {own}; every flow's: {}.{near}",
        COMMON.join(", ")
    )
}

/// Value as a user would write it; several values are separated by semicolons.
fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Array(list) => list.iter().map(text_of).collect::<Vec<_>>().join("; "),
        other => other.to_string(),
    }
}

fn value_of(word: &Word) -> Value {
    match word {
        Word::Count(n) => Value::Integer(i64::try_from(*n).unwrap_or(i64::MAX)),
        Word::Real(r) => Value::Float(*r),
        Word::Switch(b) => Value::Boolean(*b),
        Word::List(list) => Value::Array(list.iter().map(value_of).collect()),
        other => Value::String(other.to_string()),
    }
}

impl<'de> Deserialize<'de> for Flow {
    fn deserialize<D: Deserializer<'de>>(d: D) -> Result<Flow, D::Error> {
        Flow::of(Table::deserialize(d)?).map_err(de::Error::custom)
    }
}

impl Serialize for Flow {
    fn serialize<S: Serializer>(&self, s: S) -> Result<S::Ok, S::Error> {
        let mut table = Table::try_from(&self.common).map_err(ser::Error::custom)?;
        table.insert("kind".into(), Value::String(self.kind().into()));
        for (parameter, value) in self.source.all() {
            if let Some(value) = value {
                table.insert(parameter.name.into(), value_of(value));
            }
        }
        table.serialize(s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(text: &str) -> Result<Flow, String> {
        toml::from_str(text).map_err(|e: toml::de::Error| e.message().to_string())
    }

    #[test]
    fn a_flow_reads_back_to_the_same() {
        for text in [
            "kind = \"bulk\"",
            "kind = \"web\"\nthink = \"5 s\"\nobjects = 12.5\nhttp = \"1.1\"\ntcp.sack = false",
            "kind = \"sessions\"\nprofile = [1, 2.5, 1]\nday = \"10 min\"\ncount = 3",
            "kind = \"video\"\nladder = [\"1 Mbit/s\", \"2 Mbit/s\"]\nstop = \"9 s\"\ndscp = \"af41\"",
        ] {
            let read = flow(text).unwrap();
            let again = flow(&toml::to_string(&read).unwrap()).unwrap();
            assert_eq!(read, again, "{text}");
        }
    }

    #[test]
    fn the_list_of_common_keys_is_that_of_the_struct() {
        let e = toml::from_str::<Common>("nothing = 1").unwrap_err();
        let listed: Vec<&str> = e.message().split('`').skip(3).step_by(2).collect();
        assert_eq!(listed, COMMON);
        // A source's key with the name of a common key would be ambiguous.
        for spec in all() {
            let own = spec.entry.parameters.iter();
            assert!(
                own.clone()
                    .all(|p| !COMMON.contains(&p.name) && p.name != "kind")
            );
        }
    }

    #[test]
    fn a_wrong_key_or_value_is_answered_with_what_there_is() {
        for (text, said) in [
            ("kind = \"wep\"", "Did you mean \"web\"?"),
            ("kind = \"web\"\nthnik = \"1 s\"", "Did you mean \"think\"?"),
            (
                "kind = \"web\"\nbackwrds = true",
                "Did you mean \"backwards\"?",
            ),
            (
                "kind = \"web\"\nrate = \"1 Mbit/s\"",
                "rate has no meaning for kind = \"web\"",
            ),
            ("kind = \"web\"\nthink = \"5 m/s\"", "think"),
            ("kind = \"video\"\nladder = [\"1 Mbit/s\", \"x\"]", "ladder"),
            ("count = 3", "needs a kind"),
        ] {
            let error = flow(text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }
}
