//! `tailback whatif`: cures tried on the twin of a link.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use ops::whatif::{Filled, Goal, Of, Plan};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Try cures on the twin of a link, and rank them",
    long_about = "Tries cures on the twin of a link and ranks them by the use that matters: calls, gaming, web, bulk transfers, or \
        all. Senders react to each cure; nothing is replayed. Each figure has a 95 % interval over the seeds. Cures that \
        the simulation cannot tell apart share a place.",
    after_help = "Examples:\n  \
        tailback whatif home.rec\n  \
        tailback whatif home.rec --for calls\n  \
        tailback whatif home.rec --for calls --load evening\n  \
        tailback whatif home.rec --cure up.shaper=cake:665kbit\n  \
        tailback whatif adsl --cure up.queue=pie --for gaming\n\n\
        A cure is up.shaper=DISCIPLINE:RATE (a queue of the router's own, below the link's rate), any key of a link such as \
        up.queue, down.rate, or sender=CONTROLLER; several at once with +."
)]
pub struct Args {
    /// Recording of `tailback test`, or a link: a name (see `tailback list links`) or TOML file
    #[arg(value_name = "RECORDING|LINK")]
    of: String,
    /// Change one value of the link, such as up.queue=codel
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Cure to try; without any, the usual ones
    #[arg(long, value_name = "CURE")]
    cure: Vec<String>,
    /// Use that ranks the cures
    #[arg(long = "for", value_name = "USE", default_value = "all", value_parser = ["calls", "gaming", "web", "bulk", "all"])]
    goal: String,
    /// Directions that bulk transfers fill, or the traffic of a household: evening, work
    #[arg(long, value_name = "LOAD", default_value = "both", value_parser = ["up", "down", "both", "evening", "work"])]
    load: String,
    /// Number of seeds of each cure
    #[arg(long, default_value_t = 30, value_name = "N", value_parser = clap::value_parser!(u64).range(3..=10_000))]
    seeds: u64,
    /// First seed
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
    /// Ask a twin that its recording rejects
    #[arg(long)]
    anyway: bool,
    /// Write an HTML page with the plots to this file, too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

/// Load of this name.
pub fn load(name: &str) -> Filled {
    let named = Filled::ALL.into_iter().find(|f| f.name() == name);
    named.unwrap_or(Filled::Both)
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let goal = Goal::ALL.into_iter().find(|g| g.name() == args.goal);
    let plan = Plan {
        of: Of::parse(&args.of, &args.set)?,
        cures: args.cure,
        goal: goal.unwrap_or(Goal::All),
        load: load(&args.load),
        seeds: args.seeds,
        seed: args.seed,
        threads: args.threads,
        anyway: args.anyway,
    };
    carry_out(&plan, args.page.as_deref(), args.json)
}

/// Tries the cures of a plan, and prints their ranking.
pub fn carry_out(plan: &Plan, page: Option<&Path>, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::whatif::run(plan, &mut Console::new())?;
    if let Some(path) = page {
        ops::write_file(path, &answer.page())?;
    }
    match json {
        true => print_json(&answer.json()?)?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(Outcome::Done)
}
