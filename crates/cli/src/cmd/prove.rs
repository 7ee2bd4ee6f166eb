//! `tailback prove`: a cure on and off, in random blocks.

use super::{AccessArgs, print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use base::{Bytes, Duration};
use ops::prove::{Answer, Measure, Plan, Verdict, real};
use ops::whatif::Of;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Prove a cure: on and off in random blocks, with a test of the difference",
    long_about = "Proves a cure on the twin of a link. Blocks with and without the cure run in pairs, in random order; each starts \
        with a wash-out that does not count. The paired differences are tested by flipping their signs. The number of pairs \
        is fixed in advance, and the difference that they can show is printed first.\n\n\
        By default, this kernel's TCP runs over emulated links; --virtual simulates the blocks in seconds.\n\n\
        With a server and the commands --on and --off, the blocks run over the real link. Without --go the plan is shown \
        and nothing is run. The cure is off at the end, also after an error, Ctrl-C or a kill.",
    after_help = "Examples:\n  \
        tailback prove home.rec --cure best --virtual\n  \
        tailback prove adsl --cure up.shaper=cake:665kbit\n  \
        tailback prove home.rec --cure up.queue=pie --pairs 8\n  \
        tailback prove far.example --on ./on --off ./off\n\n\
        Exit code 1: the cure harms."
)]
pub struct Args {
    /// Recording of `tailback test`, or a link: a name (see `tailback list links`) or TOML file; with --on, a server
    #[arg(value_name = "RECORDING|LINK|SERVER")]
    of: String,
    /// Change one value of the link, such as up.queue=codel
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Cure as in `tailback whatif`, or "best" for the best of the usual ones
    #[arg(long, value_name = "CURE", required_unless_present = "on")]
    cure: Option<String>,
    /// Shell command that switches the cure on; with a server
    #[arg(long, value_name = "CMD", requires = "off", conflicts_with_all = ["cure", "virtual_time", "set"])]
    on: Option<String>,
    /// Shell command that switches the cure off
    #[arg(long, value_name = "CMD", requires = "on")]
    off: Option<String>,
    /// Run the commands and fill the link, instead of showing the plan
    #[arg(long, requires = "on")]
    go: bool,
    /// Loaded time before each block on a real link
    #[arg(long, value_name = "TIME", requires = "on", default_value = "5 s")]
    wash_out: Duration,
    /// TCP connections in each loaded direction of a real link
    #[arg(long, value_name = "N", requires = "on", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    flows: u32,
    /// Upper limit on the traffic over a real link, all blocks combined
    #[arg(long, value_name = "SIZE", requires = "on", default_value = "4GB")]
    budget: Bytes,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, requires = "on", conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long, requires = "on")]
    ipv6: bool,
    /// Figure that the cure is to improve
    #[arg(long, value_name = "FIGURE", default_value = "delay", value_parser = ["delay", "call", "page", "goodput"])]
    measure: String,
    /// Directions that bulk transfers fill, or the traffic of a household: evening, work
    #[arg(long, value_name = "LOAD", default_value = "both", value_parser = ["up", "down", "both", "evening", "work"])]
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
    /// Write an HTML page with the plots to this file, too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let measure = measure(&args.measure);
    let load = super::whatif::load(&args.load);
    if let (Some(on), Some(off)) = (&args.on, &args.off) {
        let plan = real::Plan {
            server: args.of.clone(),
            ipv4: args.ipv4,
            ipv6: args.ipv6,
            on: on.clone(),
            off: off.clone(),
            measure,
            load,
            flows: args.flows,
            pairs: args.pairs,
            block: args.block.unwrap_or(Duration::from_secs(30)),
            wash_out: args.wash_out,
            budget: args.budget,
            seed: args.seed,
            output: args.output.clone(),
        };
        return on_real_link(
            &plan,
            args.go,
            &args.access,
            args.page.as_deref(),
            args.json,
        );
    }
    let plan = Plan {
        of: Of::parse(&args.of, &args.set)?,
        cure: args.cure.unwrap_or_default(),
        measure,
        load,
        pairs: args.pairs,
        block: args.block,
        seed: args.seed,
        virtual_time: args.virtual_time,
        threads: args.threads,
        anyway: args.anyway,
        output: args.output,
    };
    carry_out(&plan, args.page.as_deref(), args.json)
}

/// Carries the proof of a plan out, and prints it.
pub fn carry_out(plan: &Plan, page: Option<&Path>, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::prove::run(plan, &mut Console::new())?;
    told(&answer, page, json)
}

/// Figure of that name.
pub fn measure(name: &str) -> Measure {
    let found = Measure::ALL.into_iter().find(|m| m.name() == name);
    found.unwrap_or(Measure::Delay)
}

/// Shows the plan of a proof on a real link, or carries it out with `go`.
pub fn on_real_link(
    plan: &real::Plan,
    go: bool,
    access: &AccessArgs,
    page: Option<&Path>,
    json: bool,
) -> anyhow::Result<Outcome> {
    if !go && page.is_some() {
        return Err(ops::usage(
            "--page draws blocks that have run: add --go, which runs them",
        ));
    }
    if !go {
        print(&plan.described(table_width()))?;
        return Ok(Outcome::Done);
    }
    let answer = real::run(plan, &access.read()?, &mut Console::new())?;
    told(&answer, page, json)
}

fn told(answer: &Answer, page: Option<&Path>, json: bool) -> anyhow::Result<Outcome> {
    if let Some(path) = page {
        ops::write_file(path, &answer.page())?;
    }
    match json {
        true => print_json(&answer.json()?)?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(match answer.proof.verdict {
        Verdict::Harms => Outcome::Above,
        _ => Outcome::Done,
    })
}
