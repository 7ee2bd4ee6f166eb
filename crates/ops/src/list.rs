//! `tailback list`: links, disciplines, controllers, sources and experiments to choose from.

use base::words::Entry;
use report::table::{Column, Table, wrapped};
use serde::{Deserialize, Serialize};

/// Kind of thing to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Plan {
    /// Emulated links, and the keys of a link file.
    Links,
    /// Queue disciplines and their parameters.
    Disciplines,
    /// Congestion controllers of the simulator and their parameters.
    Controllers,
    /// Kinds of `tailback probe` and their parameters.
    Probes,
    /// Sources of the simulator and their keys.
    Sources,
}

/// All of one kind.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Listing {
    /// Kind of the entries.
    pub kind: Plan,
    /// Entries in order.
    pub entries: Vec<Item>,
    /// Keys of each direction in a link file; empty but for `links`.
    pub keys: Vec<Key>,
}

/// One that can be chosen.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Item {
    /// Name as it is written.
    pub name: &'static str,
    /// Summary in one line.
    pub summary: String,
    /// Time and bytes that it takes; of `probes` only.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub takes: Option<&'static str>,
    /// Sources: RFC, paper or book.
    pub sources: Vec<&'static str>,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
}

/// Parameter, with its values as they are written.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Parameter {
    /// Name as it is written.
    pub name: &'static str,
    /// Kind of the value.
    pub kind: String,
    /// Default; absent: unset unless given.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub default: Option<&'static str>,
    /// Smallest value; empty: none.
    pub min: &'static str,
    /// Largest value; empty: none.
    pub max: &'static str,
    /// Meaning in one line.
    pub meaning: &'static str,
    /// Source of the default; empty: none.
    pub source: &'static str,
}

/// Key of a link file.
#[derive(Clone, Debug, Serialize, schemars::JsonSchema)]
pub struct Key {
    /// Name of the key.
    pub name: &'static str,
    /// Meaning in one line.
    pub meaning: &'static str,
    /// Values to choose from; empty unless it takes a name with parameters.
    pub values: Vec<Item>,
}

impl Item {
    fn of(entry: &Entry) -> Item {
        let parameter = |p: &base::words::Parameter| Parameter {
            name: p.name,
            kind: p.unit.to_string(),
            default: p.default,
            min: p.min,
            max: p.max,
            meaning: p.doc,
            source: p.section,
        };
        Item {
            name: entry.name,
            summary: entry.summary.to_owned(),
            takes: None,
            sources: entry.sources.to_vec(),
            parameters: entry.parameters.iter().map(parameter).collect(),
        }
    }
}

/// Lists all of one kind.
///
/// # Errors
/// A preset that cannot be read, which a test rules out.
pub fn run(plan: Plan) -> anyhow::Result<Listing> {
    let items = |entries: &mut dyn Iterator<Item = &Entry>| entries.map(Item::of).collect();
    let entries: Vec<Item> = match plan {
        Plan::Links => presets()?,
        Plan::Disciplines => items(&mut link::qdisc::registry::QDISCS.iter().map(|s| &s.entry)),
        Plan::Controllers => items(&mut congestion::registry::CONTROLLERS.iter().map(|s| &s.entry)),
        Plan::Sources => items(&mut sim::source::registry::SOURCES.iter().map(|s| &s.entry)),
        Plan::Probes => {
            let probe = |spec: &experiment::spec::Spec| Item {
                takes: Some(spec.takes),
                ..Item::of(&spec.entry)
            };
            experiment::PROBES.iter().map(probe).collect()
        }
    };
    let keys = match plan {
        Plan::Links => keys(),
        _ => Vec::new(),
    };
    Ok(Listing {
        kind: plan,
        entries,
        keys,
    })
}

fn presets() -> anyhow::Result<Vec<Item>> {
    let mut items = Vec::new();
    for preset in link::PRESETS {
        items.push(Item {
            name: preset.name,
            summary: link::LinkSpec::named(preset.name)?.title,
            takes: None,
            sources: Vec::new(),
            parameters: Vec::new(),
        });
    }
    Ok(items)
}

fn keys() -> Vec<Key> {
    let laws = link::laws();
    let key = |(name, meaning): &(&'static str, &'static str)| Key {
        name,
        meaning,
        values: (laws.iter().filter(|l| l.key == *name))
            .flat_map(|l| l.entries.iter().map(|e| Item::of(e)))
            .collect(),
    };
    link::DIRECTION_KEYS.iter().map(key).collect()
}

impl Listing {
    /// Text for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let mut text = String::new();
        if self.kind != Plan::Links {
            for item in &self.entries {
                describe(&mut text, item, width);
                if let Some(takes) = item.takes {
                    lines(&mut text, "    ", &format!("takes {takes}"), width);
                }
            }
            return text;
        }
        let words = || Table::new("", ["", ""].map(Column::words));
        let presets = words().with(
            self.entries
                .iter()
                .map(|i| (i.name, vec![i.summary.clone()])),
        );
        let keys = (self.keys.iter()).map(|k| (format!("    {}", k.name), vec![k.meaning]));
        let keys = words().with(keys);
        text += &format!(
            "{}\nKeys of [up] and [down] in a link file; rate is needed:\n{}\n",
            presets.text(width),
            keys.text(width).trim_end()
        );
        for key in self.keys.iter().filter(|k| !k.values.is_empty()) {
            text += &format!("\nValues of {}:\n", key.name);
            let mut before: Vec<&str> = Vec::new();
            for item in &key.values {
                let names: Vec<&str> = item.parameters.iter().map(|p| p.name).collect();
                match names == before {
                    true => heading(&mut text, item, width),
                    false => describe(&mut text, item, width),
                }
                before = names;
            }
        }
        text
    }
}

/// Writes a text in lines that fit the terminal; the first starts with `lead`, the others are indented further.
fn lines(out: &mut String, lead: &str, text: &str, width: usize) {
    const HANGING: usize = 2;
    let room = width.saturating_sub(lead.len() + HANGING);
    for (i, line) in wrapped(text, room).iter().enumerate() {
        let indent = lead.len() + if i > 0 { HANGING } else { 0 };
        *out += &format!("{:indent$}{line}\n", "");
    }
}

fn heading(text: &mut String, item: &Item, width: usize) {
    lines(text, "", &format!("{}: {}", item.name, item.summary), width);
}

fn describe(text: &mut String, item: &Item, width: usize) {
    heading(text, item, width);
    let rows = item.parameters.iter().map(|p| {
        let meaning = match p.source {
            "" => p.meaning.to_owned(),
            source => format!("{} ({source})", p.meaning),
        };
        let cells = vec![p.default.unwrap_or("-").to_owned(), meaning];
        (format!("    {}", p.name), cells)
    });
    let table = Table::new("", ["", "", ""].map(Column::words)).with(rows);
    text.push_str(&table.text(width));
}
