//! `tailback list`: links, disciplines, controllers, sources and experiments to choose from.

use base::words::Entry;
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

/// Lists all of one kind as text.
///
/// # Errors
/// A preset that cannot be read, which a test rules out.
pub fn run(plan: Plan) -> anyhow::Result<String> {
    let mut text = String::new();
    match plan {
        Plan::Links => links(&mut text)?,
        Plan::Disciplines => {
            for spec in link::qdisc::registry::QDISCS {
                describe(&mut text, &spec.entry)?;
            }
        }
        Plan::Probes => {
            for spec in experiment::PROBES {
                describe(&mut text, &spec.entry)?;
                writeln!(text, "    takes {}", spec.takes)?;
            }
        }
        Plan::Controllers => {
            for spec in congestion::registry::CONTROLLERS {
                describe(&mut text, &spec.entry)?;
            }
        }
        Plan::Sources => {
            for spec in sim::source::registry::SOURCES {
                describe(&mut text, &spec.entry)?;
            }
        }
    }
    Ok(text)
}

fn links(text: &mut String) -> anyhow::Result<()> {
    for preset in link::PRESETS {
        let title = link::LinkSpec::named(preset.name)?.title;
        writeln!(text, "{:8} {title}", preset.name)?;
    }
    writeln!(text, "\nKeys of each direction in a link file:")?;
    for (key, meaning) in link::DIRECTION_KEYS {
        writeln!(text, "    {key:16} {meaning}")?;
    }
    for laws in link::laws() {
        writeln!(text, "\nValues of {}:", laws.key)?;
        let mut before: Vec<&str> = Vec::new();
        for entry in laws.entries {
            let keys: Vec<&str> = entry.parameters.iter().map(|p| p.name).collect();
            if keys == before {
                writeln!(text, "{}: {}", entry.name, entry.summary)?;
            } else {
                describe(text, entry)?;
            }
            before = keys;
        }
    }
    Ok(())
}

fn describe(text: &mut String, entry: &Entry) -> std::fmt::Result {
    writeln!(text, "{}: {}", entry.name, entry.summary)?;
    for p in entry.parameters {
        let default = p.default.unwrap_or("-");
        writeln!(
            text,
            "    {:16} {default:10} {} ({})",
            p.name, p.doc, p.section
        )?;
    }
    Ok(())
}
