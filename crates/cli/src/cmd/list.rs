//! `tailback list`: links, disciplines, controllers, sources and probes to choose from.

use super::{print, table_width};
use crate::Outcome;
use ops::list::Plan;

#[derive(clap::Args)]
#[command(about = "List links, disciplines, controllers, sources or experiments")]
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
    let plan = match args.what {
        What::Links => Plan::Links,
        What::Disciplines => Plan::Disciplines,
        What::Controllers => Plan::Controllers,
        What::Probes => Plan::Probes,
        What::Sources => Plan::Sources,
    };
    print(&ops::list::run(plan, table_width())?)?;
    Ok(Outcome::Done)
}
