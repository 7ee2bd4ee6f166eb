//! `tailback compare`: recordings side by side.

use super::{print, print_with, stdout_style};
use crate::Outcome;
use crate::console::Console;
use ops::compare::{Network, Plan};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Compare recordings: before and after, networks, media and rounds",
    long_about = "Compares recordings with the first of them. Tests show their grades, added delays, rates and queues, \
        with intervals, and if a change is more than chance. NAME=RECORDING,RECORDING… is a network with several rounds: \
        its figures are means, and their intervals come from the spread between the rounds. MEDIUM/NAME=… names its \
        medium, too: media are compared by the means of their networks, with the spread between these. Other recordings show their \
        statistics side by side.",
    after_help = "Examples:\n  \
        tailback compare before.rec after.rec\n  \
        tailback compare adsl.rec lte.rec fiber.rec --json\n  \
        tailback compare adsl=a1.rec,a2.rec,a3.rec \\\n      \
        lte=l1.rec,l2.rec,l3.rec -o networks.html\n  \
        tailback compare cable/adsl=a1.rec,a2.rec \\\n      \
        cable/fiber=f.rec radio/lte=l.rec -o media.html\n\n\
        `tailback report A B` draws their distributions over each other."
)]
pub struct Args {
    /// Recordings to compare, or [MEDIUM/]NAME=RECORDING,RECORDING… for rounds; the first is the reference
    #[arg(value_name = "RECORDING", required = true, num_args = 2..)]
    recordings: Vec<String>,
    /// Page (.html) to write, with the tables and the distributions of all networks in one plot a phase
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        networks: args.recordings.iter().map(|r| Network::parse(r)).collect(),
        output: args.output,
    };
    carry_out(&plan, args.json)
}

/// Compares the recordings of a plan.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::compare::run(plan, &mut Console::new())?;
    let style = stdout_style();
    if json {
        print_with(|out| answer.write(true, style, out))?;
        return Ok(Outcome::Done);
    }
    let mut text = Vec::new();
    answer.write(false, style, &mut text)?;
    print(&String::from_utf8(text)?)?;
    Ok(Outcome::Done)
}
