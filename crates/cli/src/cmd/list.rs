//! `tailback list`: what there is to choose from.

use super::print;
use crate::Outcome;
use std::fmt::Write;

#[derive(clap::Args)]
#[command(about = "List what there is to choose from: links, disciplines")]
pub struct Args {
    #[arg(value_enum)]
    what: What,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum What {
    /// Emulated lines for `test --link` and `emulate`
    Links,
    /// Queue disciplines and their parameters for `--set up.queue=…`
    Disciplines,
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
        }
        What::Disciplines => {
            for spec in link::qdisc::registry::QDISCS {
                writeln!(text, "{}: {}", spec.entry.name, spec.entry.summary)?;
                for p in spec.entry.parameters {
                    let default = p.default.unwrap_or("-");
                    writeln!(
                        text,
                        "    {:14} {default:10} {} ({})",
                        p.name, p.doc, p.section
                    )?;
                }
            }
        }
    }
    print(&text)?;
    Ok(Outcome::Done)
}
