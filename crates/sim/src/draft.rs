//! A scenario as it is put together: the text of a file, then single values set from outside, then all of it checked.

use crate::error::ScenarioError;
use crate::scenario::{ReadFile, Scenario, hinted};
use base::words::Words;
use link::DirectionSpec;
use toml::{Table, Value};

/// A scenario under construction: the text of a file, then single overrides.
#[derive(Clone, Debug)]
pub struct Draft {
    text: String,
    table: Table,
    /// Keys set after the file was read, and who set each.
    set: Vec<(String, String)>,
}

impl Draft {
    /// # Errors
    /// The text is not TOML.
    pub fn new(text: &str) -> Result<Draft, ScenarioError> {
        let table = toml::from_str(text).map_err(|e| ScenarioError::Toml(e.to_string()))?;
        Ok(Draft {
            text: text.to_string(),
            table,
            set: Vec::new(),
        })
    }

    /// Sets one value by its dotted key, such as `link.queue` or `flow.0.tcp.controller`. The value is TOML if it
    /// parses as TOML, otherwise text. `by` names the origin, such as `--set`.
    ///
    /// # Errors
    /// The key does not exist.
    pub fn set(&mut self, key: &str, value: &str, by: &str) -> Result<(), ScenarioError> {
        let failed = |why: String| ScenarioError::Set {
            key: key.into(),
            value: value.into(),
            why,
        };
        let parsed = toml::from_str::<Table>(&format!("v = {value}"))
            .ok()
            .and_then(|mut t| t.remove("v"));
        let path: Vec<&str> = key.split('.').map(str::trim).collect();
        let (last, parents) = path.split_last().expect("a split has a part");
        let mut at = &mut self.table;
        let mut parents = parents.iter().peekable();
        while let Some(part) = parents.next() {
            let entry = at
                .entry(part.to_string())
                .or_insert_with(|| Value::Table(Table::new()));
            at = match entry {
                Value::Table(table) => table,
                Value::Array(list) => {
                    let n = list.len();
                    let index = parents.next().and_then(|i| i.parse::<usize>().ok());
                    index
                        .and_then(|i| list.get_mut(i)?.as_table_mut())
                        .ok_or_else(|| {
                            failed(format!(
                                "\"{part}\" is a list of {n}: write {part}.0 to {part}.{}",
                                n.max(1) - 1
                            ))
                        })?
                }
                _ => return Err(failed(format!("\"{part}\" is a value, it has no parts"))),
            };
        }
        let was_text = at.get(*last).is_some_and(Value::is_str);
        let parsed = parsed.filter(|v| v.is_table() || v.is_str() || !was_text);
        at.insert(
            last.to_string(),
            parsed.unwrap_or_else(|| Value::String(value.to_string())),
        );
        self.set.push((path.join("."), by.to_string()));
        Ok(())
    }

    /// Builds a scenario that names no files.
    ///
    /// # Errors
    /// An unknown key (the message gives the nearest known one) or an invalid value.
    pub fn finish(&self) -> Result<Scenario, ScenarioError> {
        self.finish_reading(&mut |_| Err("no files can be read here".into()))
    }

    /// Builds a scenario; files named by its rates are read through `read`, which gets the path as written.
    ///
    /// # Errors
    /// Errors of [`Draft::finish`], and errors from `read`.
    pub fn finish_reading(&self, read: ReadFile) -> Result<Scenario, ScenarioError> {
        let mut scenario = self.parse()?;
        scenario.load_traces(read)?;
        crate::plan::check(&scenario)?;
        Ok(scenario)
    }

    fn parse(&self) -> Result<Scenario, ScenarioError> {
        // Parses the original text if nothing was overridden, so that a message can show the line.
        let read: Result<Scenario, _> = match self.set.is_empty() {
            true => toml::from_str(&self.text),
            false => self.table.clone().try_into(),
        };
        read.map_err(|e| ScenarioError::Toml(hinted(&e.to_string())))
    }

    /// Prints the whole scenario with the origin of each value: the file, an override, or the default.
    ///
    /// # Errors
    /// Errors of [`Draft::finish_reading`].
    pub fn describe(&self, read: ReadFile) -> Result<String, ScenarioError> {
        let loaded = self.finish_reading(read)?;
        // Shows the names of files, not their contents.
        let mut scenario = self.parse()?;
        if let Some(link) = &scenario.link {
            scenario.reverse = Some(crate::plan::reverse(&scenario, link));
        }
        let has_access = scenario.topology.words().entry().name != "linear";
        if let Some(link) = loaded.link.as_ref().filter(|_| has_access) {
            scenario.access = Some(crate::plan::access(&loaded, link)?);
        }
        let table = Table::try_from(&scenario).expect("a scenario is plain data");
        let mut out = String::new();
        self.describe_table(&table, &mut Vec::new(), &mut out);
        out.push_str("\n# Parameters of the names above, with their defaults:\n");
        for (key, words) in words(&scenario) {
            let name = words.entry().name;
            let given = words.all().map(|(parameter, value)| {
                let value = value.map_or("not set".into(), ToString::to_string);
                format!("{}={value}", parameter.name)
            });
            let given: Vec<String> = given.collect();
            if !given.is_empty() {
                out.push_str(&format!("# {key} = {name}: {}\n", given.join(", ")));
            }
        }
        for (key, link) in links(&scenario) {
            let table = Table::try_from(link).expect("a link is plain data");
            let missing = link::DIRECTION_KEYS.iter().map(|(key, _)| *key);
            let missing: Vec<&str> = missing.filter(|key| !table.contains_key(*key)).collect();
            out.push_str(&format!("# {key}: not set: {}\n", missing.join(", ")));
        }
        Ok(out)
    }

    fn describe_table(&self, table: &Table, path: &mut Vec<String>, out: &mut String) {
        let nested = |v: &Value| match v {
            Value::Table(_) => true,
            Value::Array(list) => list.first().is_some_and(Value::is_table),
            _ => false,
        };
        for (key, value) in table.iter().filter(|(_, v)| !nested(v)) {
            path.push(key.clone());
            let line = format!("{key} = {value}");
            out.push_str(&format!("{line:46} # {}\n", self.origin(path)));
            path.pop();
        }
        for (key, value) in table.iter().filter(|(_, v)| nested(v)) {
            path.push(key.clone());
            let named: Vec<&str> = path
                .iter()
                .filter(|p| p.parse::<usize>().is_err())
                .map(String::as_str)
                .collect();
            let name = named.join(".");
            match value {
                Value::Array(list) => {
                    for (i, item) in list.iter().enumerate() {
                        out.push_str(&format!("\n[[{name}]]\n"));
                        path.push(i.to_string());
                        if let Value::Table(item) = item {
                            self.describe_table(item, path, out);
                        }
                        path.pop();
                    }
                }
                Value::Table(inner) => {
                    out.push_str(&format!("\n[{name}]\n"));
                    self.describe_table(inner, path, out);
                }
                _ => {}
            }
            path.pop();
        }
    }

    fn origin(&self, path: &[String]) -> String {
        let key = path.join(".");
        let by = self.set.iter().rev().find(|(k, _)| {
            *k == key
                || key
                    .strip_prefix(k.as_str())
                    .is_some_and(|rest| rest.starts_with('.'))
        });
        if let Some((_, by)) = by {
            return by.clone();
        }
        let mut at: Option<&Value> = None;
        for part in path {
            at = match (at, part.parse::<usize>()) {
                (None, _) => self.table.get(part),
                (Some(Value::Array(list)), Ok(i)) => list.get(i),
                (Some(Value::Table(table)), _) => table.get(part),
                _ => None,
            };
            if at.is_none() {
                return "default".into();
            }
        }
        "file".into()
    }
}

/// Links of a scenario by their keys.
fn links(scenario: &Scenario) -> Vec<(String, &DirectionSpec)> {
    let mut links: Vec<(String, &DirectionSpec)> = Vec::new();
    links.extend(scenario.link.iter().map(|l| ("link".to_string(), l)));
    links.extend(scenario.reverse.iter().map(|l| ("reverse".to_string(), l)));
    links.extend(scenario.access.iter().map(|l| ("access".to_string(), l)));
    for (i, edge) in scenario.edges.iter().enumerate() {
        links.push((format!("edge.{i}.link"), &edge.link));
        links.extend(edge.back.iter().map(|l| (format!("edge.{i}.back"), l)));
    }
    links
}

/// Names with parameters in a scenario, by their keys; sources of flows have keys of their own.
fn words(scenario: &Scenario) -> Vec<(String, &Words)> {
    let mut all = vec![
        ("topology".to_string(), scenario.topology.words()),
        (
            "tcp.controller".to_string(),
            scenario.tcp.controller.words(),
        ),
    ];
    for (key, link) in links(scenario) {
        let laws = [
            ("queue", Some(link.queue.words())),
            ("policer", link.policer.as_ref().map(|w| w.words())),
            ("shaper", link.shaper.as_ref().map(|w| w.words())),
            ("drift", link.drift.as_ref().map(|w| w.words())),
            ("jitter", link.jitter.as_ref().map(|w| w.words())),
            ("loss", link.loss.as_ref().map(|w| w.words())),
            ("reorder", link.reorder.as_ref().map(|w| w.words())),
            ("sleep", link.sleep.as_ref().map(|w| w.words())),
        ];
        let named = laws.into_iter();
        all.extend(named.filter_map(|(law, words)| Some((format!("{key}.{law}"), words?))));
    }
    all
}
