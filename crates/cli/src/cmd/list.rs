//! `tailback list`: links, disciplines, controllers, sources and probes to choose from.

use super::{print, print_json, table_width};
use crate::Outcome;
use ops::list::Plan;

#[derive(clap::Args)]
#[command(
    about = "List links, disciplines, controllers, sources or experiments",
    after_help = "Examples:\n  tailback list disciplines\n  tailback list probes --json"
)]
pub struct Args {
    #[arg(value_enum)]
    what: What,
    /// Print JSON, with the range of each parameter (schema: schema/list.v1.json)
    #[arg(long)]
    json: bool,
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
    let plan = match args.what {
        What::Links => Plan::Links,
        What::Disciplines => Plan::Disciplines,
        What::Controllers => Plan::Controllers,
        What::Probes => Plan::Probes,
        What::Sources => Plan::Sources,
    };
    carry_out(plan, args.json)
}

/// Prints all of one kind.
pub fn carry_out(plan: Plan, json: bool) -> anyhow::Result<Outcome> {
    let listing = ops::list::run(plan)?;
    match json {
        true => print_json(&listing)?,
        false => print(&listing.text(table_width()))?,
    }
    Ok(Outcome::Done)
}
