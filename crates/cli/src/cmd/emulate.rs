//! `tailback emulate`: any program behind a link.

use super::print_json;
use crate::Outcome;
use crate::console::{Console, is_quiet};
use ops::emulate::Plan;
use std::ffi::OsString;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Run any program behind an emulated link",
    long_about = "Runs a program behind an emulated link: a network namespace of its own, real kernel TCP, both \
        directions separate. The far end of the link is the host `far` (10.77.0.2, fd77::2); --far starts a \
        program there. Several links are chained in the order given. Nothing is left behind when it ends.",
    after_help = "Examples:\n  tailback emulate adsl -- ping -c 5 far\n  \
        tailback emulate adsl --far 'iperf3 -s -1' -- \\\n      \
        iperf3 -c far\n  \
        tailback emulate lte --set up.queue=fq_codel -- ./program\n  \
        tailback emulate fiber adsl --routed -- traceroute far\n  \
        tailback emulate adsl --output queues.rec -- ./program\n  \
        tailback emulate adsl --json -- ./program 2> log"
)]
pub struct Args {
    /// Links by name (see `tailback list links`) or TOML file, near end first
    #[arg(required = true, value_name = "LINK")]
    links: Vec<String>,
    /// Change one value of every link, such as up.queue=codel, or of one link, such as hop2.up.queue=codel
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Shell command to run at the far end at the same time
    #[arg(long, value_name = "COMMAND")]
    far: Option<String>,
    /// Put a router between one link and the next: each link is a hop of its own
    #[arg(long)]
    routed: bool,
    /// Seed of losses and jitter: the same seed gives the same losses and jitter
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Record the queues of the links: a recording for `analyse` and `report`
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Print the packets of each direction as JSON; the programs' standard output then goes to standard error
    #[arg(long)]
    json: bool,
    /// Program to run behind the link, and its arguments
    #[arg(last = true, required = true, value_name = "PROGRAM")]
    command: Vec<OsString>,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        links: ops::links::chain(&args.links, &args.set)?,
        command: args.command,
        far: args.far,
        routed: args.routed,
        seed: args.seed,
        output: args.output,
    };
    carry_out(&plan, args.json)
}

/// Runs the programs of a plan; the near one's status becomes this program's.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    crate::face::only_as_a_process("emulate")?;
    let answer = ops::emulate::run(plan, json, &mut Console::new())?;
    if json {
        print_json(&answer)?;
    }
    if !is_quiet() && !json {
        eprintln!("{}", answer.summary);
    }
    if let Some(path) = answer.recording.as_ref().filter(|_| !is_quiet()) {
        eprintln!("Recording: {}", path.display());
    }
    if let Some(doubt) = &answer.doubt {
        eprintln!("tailback: {doubt}");
    }
    Ok(Outcome::Child(answer.code))
}
