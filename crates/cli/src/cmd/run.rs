//! `tailback run`: a plan, or what a recording says of how it came about, carried out again.

use super::{
    AccessArgs, analyse, import, model, monitor, print, probe, report, reproduce, sim, test, trace,
};
use crate::Outcome;
use ops::Plan;
use ops::analyse::Format;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Run a plan, or repeat what made a recording",
    long_about = "Runs a plan, or repeats what made a recording: the same scenario, the same targets at the same intervals, the same \
        captures. A plan is a JSON file {\"verb\": …, \"plan\": …}; a recording keeps its own in meta.json. Captures and imported files are \
        looked for by their names in the current directory.",
    after_help = "Examples:\n  tailback run home.rec --output again.rec\n  tailback run plan.json --json"
)]
pub struct Args {
    /// Plan as a JSON file, or a recording
    #[arg(value_name = "PLAN")]
    plan: PathBuf,
    /// Recording or report to write [default: as the plan says]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
    /// Print the answer as JSON instead of text
    #[arg(long)]
    json: bool,
    /// No live line
    #[arg(short, long)]
    quiet: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut plan = Plan::read(&args.plan)?;
    if let Some(output) = &args.output {
        plan.set_output(output)?;
    }
    if args.print_plan {
        super::print_json(&serde_json::to_value(&plan)?)?;
        return Ok(Outcome::Done);
    }
    match &plan {
        Plan::Analyse(p) => {
            let format = match args.json {
                true => Format::Json,
                false => Format::Text,
            };
            analyse::carry_out(p, format)
        }
        Plan::Import(p) => import::carry_out(p, args.json),
        Plan::List(p) => {
            print(&ops::list::run(*p, super::table_width())?)?;
            Ok(Outcome::Done)
        }
        Plan::Model(p) => model::carry_out(p, args.json),
        Plan::Monitor(p) => monitor::carry_out(p, &args.access.read()?, args.quiet),
        Plan::Probe(p) => probe::carry_out(p, &args.access.read()?, (args.quiet, args.json)),
        Plan::Report(p) => report::carry_out(p),
        Plan::Reproduce(p) => reproduce::carry_out(p, args.json),
        Plan::Sim(p) => sim::carry_out(p, args.json),
        Plan::Test(p) => test::carry_out(p, &args.access.read()?, (args.quiet, args.json), None),
        Plan::Trace(p) => trace::carry_out(p, args.json),
    }
}
