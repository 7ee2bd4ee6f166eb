//! `tailback list`: links, disciplines, controllers, sources and experiments to choose from.

use base::words::Entry;
use report::table::{Column, Table, wrapped};
use serde::{Deserialize, Serialize};
use std::fmt::Write;

/// Kind of thing to list.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// Lists all of one kind as text for a terminal of this width.
///
/// # Errors
/// A preset that cannot be read, which a test rules out.
pub fn run(plan: Plan, width: usize) -> anyhow::Result<String> {
    let mut text = String::new();
    match plan {
        Plan::Links => links(&mut text, width)?,
        Plan::Disciplines => {
            for spec in link::qdisc::registry::QDISCS {
                describe(&mut text, &spec.entry, width)?;
            }
        }
        Plan::Probes => {
            for spec in experiment::PROBES {
                describe(&mut text, &spec.entry, width)?;
                lines(&mut text, "    ", &format!("takes {}", spec.takes), width);
            }
        }
        Plan::Controllers => {
            for spec in congestion::registry::CONTROLLERS {
                describe(&mut text, &spec.entry, width)?;
            }
        }
        Plan::Sources => {
            for spec in sim::source::registry::SOURCES {
                describe(&mut text, &spec.entry, width)?;
            }
        }
    }
    Ok(text)
}

fn links(text: &mut String, width: usize) -> anyhow::Result<()> {
    let words = || Table::new("", ["", ""].map(Column::words));
    let mut presets = words();
    for preset in link::PRESETS {
        presets.row(preset.name, [link::LinkSpec::named(preset.name)?.title]);
    }
    let keys = link::DIRECTION_KEYS.iter();
    let keys = words().with(keys.map(|(key, meaning)| (format!("    {key}"), vec![*meaning])));
    writeln!(
        text,
        "{}\nKeys of each direction in a link file:\n{}",
        presets.text(width),
        keys.text(width).trim_end()
    )?;
    for laws in link::laws() {
        writeln!(text, "\nValues of {}:", laws.key)?;
        let mut before: Vec<&str> = Vec::new();
        for entry in laws.entries {
            let keys: Vec<&str> = entry.parameters.iter().map(|p| p.name).collect();
            if keys == before {
                lines(
                    text,
                    "",
                    &format!("{}: {}", entry.name, entry.summary),
                    width,
                );
            } else {
                describe(text, entry, width)?;
            }
            before = keys;
        }
    }
    Ok(())
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

fn describe(text: &mut String, entry: &Entry, width: usize) -> std::fmt::Result {
    lines(
        text,
        "",
        &format!("{}: {}", entry.name, entry.summary),
        width,
    );
    let rows = entry.parameters.iter().map(|p| {
        let default = p.default.unwrap_or("-").to_owned();
        let cells = vec![
            default,
            match p.section {
                "" => p.doc.to_owned(),
                section => format!("{} ({section})", p.doc),
            },
        ];
        (format!("    {}", p.name), cells)
    });
    let table = Table::new("", ["", "", ""].map(Column::words)).with(rows);
    text.push_str(&table.text(width));
    Ok(())
}
