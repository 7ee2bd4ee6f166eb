//! `tailback twin`: a model of a link from its recording.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use ops::twin::Plan;
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(
    about = "Fit a model of a link to the recording of a test, and check the model",
    long_about = "Fits a model of a link to a recording of `tailback test`: rate, base delay, buffer and discipline of each \
        direction. The phases idle, up and down are fitted; the phase both is held out, and shows how far to trust the \
        model. The model is a link file for `test --link`, `emulate`, `sim` and `whatif`.",
    after_help = "Examples:\n  \
        tailback twin home.rec\n  \
        tailback twin home.rec -o home.toml\n  \
        tailback twin home.rec --export home-files\n  \
        tailback twin home.rec --link guess.toml\n\n\
        Exit code 1: the model is rejected."
)]
pub struct Args {
    /// Recording of `tailback test`
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Link to check against the recording, instead of fitting one: a name (see `tailback list links`) or TOML file
    #[arg(long, value_name = "NAME|FILE", conflicts_with = "output")]
    link: Option<String>,
    /// Change one value of that link, such as up.queue=codel
    #[arg(long, requires = "link", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Link file to write [default: twin.toml in the recording]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
    /// Write the link for mahimahi, TheaterQ, Rattan and Linux tc into this directory
    #[arg(long, value_name = "DIR")]
    export: Option<PathBuf>,
    /// First seed of the simulated runs
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
    /// Write an HTML page with the plots to this file, too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let link = args.link.as_deref();
    let plan = Plan {
        recording: args.recording,
        link: link
            .map(|name| ops::links::parse(name, &args.set))
            .transpose()?,
        output: args.output,
        export: args.export,
        seed: args.seed,
        threads: args.threads,
    };
    carry_out(&plan, args.page.as_deref(), args.json)
}

/// Fits the twin of a plan, and prints it.
pub fn carry_out(plan: &Plan, page: Option<&Path>, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::twin::run(plan, &mut Console::new())?;
    if let Some(path) = page {
        ops::write_file(path, &answer.page())?;
    }
    match json {
        true => print_json(&answer.json()?)?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(match answer.twin.trust {
        ops::twin::Trust::Rejected => Outcome::Above,
        _ => Outcome::Done,
    })
}
