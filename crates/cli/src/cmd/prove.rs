//! `tailback prove`: a cure on and off, in random blocks.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use base::Duration;
use ops::prove::{Measure, Plan, Verdict};
use ops::whatif::{Filled, Of};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Prove a cure: on and off in random blocks, with a test of the difference",
    long_about = "Proves a cure on the twin of a link. Blocks with and without the cure run in pairs, in random order; each starts \
        with a wash-out that does not count. The paired differences are tested by flipping their signs. The number of pairs \
        is fixed in advance, and the difference that they can show is printed first.\n\n\
        By default, this kernel's TCP runs over emulated links; --virtual simulates the blocks in seconds.",
    after_help = "Examples:\n  \
        tailback prove home.rec --cure best --virtual\n  \
        tailback prove adsl --cure up.shaper=cake:665kbit\n  \
        tailback prove home.rec --cure up.queue=pie --pairs 8\n\n\
        Exit code 1: the cure harms."
)]
pub struct Args {
    /// Recording of `tailback test`, or a link: a name (see `tailback list links`) or TOML file
    #[arg(value_name = "RECORDING|LINK")]
    of: String,
    /// Change one value of the link, such as up.queue=codel
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Cure as in `tailback whatif`, or "best" for the best of the usual ones
    #[arg(long, value_name = "CURE", required = true)]
    cure: String,
    /// Figure that the cure is to improve
    #[arg(long, value_name = "FIGURE", default_value = "delay", value_parser = ["delay", "call", "page", "goodput"])]
    measure: String,
    /// Directions that bulk transfers fill
    #[arg(long, value_name = "LOAD", default_value = "both", value_parser = ["up", "down", "both"])]
    load: String,
    /// Pairs of blocks
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    pairs: u64,
    /// Counted part of each block [default: 10 s; by the link's rate in virtual time]
    #[arg(long, value_name = "TIME")]
    block: Option<Duration>,
    /// Simulate the blocks in virtual time: needs no privileges, takes seconds
    #[arg(long = "virtual")]
    virtual_time: bool,
    /// Seed of the order of the blocks, and of simulated ones
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
    /// Cores to use in virtual time [default: all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
    /// Ask a twin that its recording rejects
    #[arg(long)]
    anyway: bool,
    /// Directory for the recordings of the blocks [default: tailback-prove-DATE-TIME in this directory]
    #[arg(short, long, value_name = "DIR", conflicts_with = "virtual_time")]
    output: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let measure = Measure::ALL.into_iter().find(|m| m.name() == args.measure);
    let plan = Plan {
        of: Of::parse(&args.of, &args.set)?,
        cure: args.cure,
        measure: measure.unwrap_or(Measure::Delay),
        load: match &*args.load {
            "up" => Filled::Up,
            "down" => Filled::Down,
            _ => Filled::Both,
        },
        pairs: args.pairs,
        block: args.block,
        seed: args.seed,
        virtual_time: args.virtual_time,
        threads: args.threads,
        anyway: args.anyway,
        output: args.output,
    };
    carry_out(&plan, args.json)
}

/// Carries the proof of a plan out, and prints it.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::prove::run(plan, &mut Console::new(false))?;
    match json {
        true => print_json(&answer.json()?)?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(match answer.proof.verdict {
        Verdict::Harms => Outcome::Above,
        _ => Outcome::Done,
    })
}
