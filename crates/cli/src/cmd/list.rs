//! `tailback list`: what there is to choose from.

use super::print;
use crate::Outcome;
use std::fmt::Write;

#[derive(clap::Args)]
#[command(
    about = "List what there is to choose from: links, disciplines, controllers, sources, probes"
)]
pub struct Args {
    #[arg(value_enum)]
    what: What,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Emulated links for `test --link` and `emulate`, and the keys of a link file
    Links,
    /// Queue disciplines and their parameters for `--set up.queue=…`
    #[value(alias = "qdiscs")]
    Disciplines,
    /// Congestion controllers of the simulator and their parameters
    Controllers,
    /// Kinds of `tailback probe` and their parameters
    Probes,
    /// Sources of the simulator, and the keys of each in `[[flow]]`
    Sources,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut text = String::new();
    match args.what {
        What::Links => {
            for preset in link::PRESETS {
                writeln!(
                    text,
                    "{:8} {}",
                    preset.name,
                    link::LinkSpec::named(preset.name)?.title
                )?;
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
                        describe(&mut text, entry)?;
                    }
                    before = keys;
                }
            }
        }
        What::Disciplines => {
            for spec in link::qdisc::registry::QDISCS {
                describe(&mut text, &spec.entry)?;
            }
        }
        What::Probes => {
            for spec in experiment::PROBES {
                describe(&mut text, &spec.entry)?;
                writeln!(text, "    takes {}", spec.takes)?;
            }
        }
        What::Controllers => {
            for spec in congestion::registry::CONTROLLERS {
                describe(&mut text, &spec.entry)?;
            }
        }
        What::Sources => {
            for spec in sim::source::registry::SOURCES {
                describe(&mut text, &spec.entry)?;
            }
        }
    }
    print(&text)?;
    Ok(Outcome::Done)
}

fn describe(text: &mut String, entry: &base::words::Entry) -> std::fmt::Result {
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
