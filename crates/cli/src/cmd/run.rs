//! `tailback run`: carries out a plan, or the plan that a recording holds, again.

use super::{
    AccessArgs, analyse, compare, import, list, model, probe, report, sim, test, trace, twin,
    whatif,
};
#[cfg(target_os = "linux")]
use super::{control, emulate, monitor, prove, serve};
use crate::Outcome;
use ops::Plan;
use ops::analyse::Format;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Run a plan, or repeat the run that made a recording",
    long_about = "Runs a plan, or repeats the run that made a recording: the same scenario, the same targets at the same intervals, the \
        same captures. A plan is a JSON file {\"verb\": …, \"plan\": …}; a recording has its own in meta.json. Captures and \
        imported files are read by their names from the current directory.",
    after_help = "Examples:\n  tailback run home.rec --output again.rec\n  tailback run plan.json --json"
)]
pub struct Args {
    /// Plan as a JSON file, or a recording whose plan is run again
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
        #[cfg(target_os = "linux")]
        Plan::Control(p) => control::carry_out(p, &args.access.read()?, args.json),
        #[cfg(target_os = "linux")]
        Plan::Emulate(p) => emulate::carry_out(p, args.json),
        Plan::Compare(p) => compare::carry_out(p, args.json),
        Plan::Import(p) => import::carry_out(p, args.json),
        Plan::List(p) => list::carry_out(*p, args.json),
        Plan::Model(p) => model::carry_out(p, args.json),
        #[cfg(target_os = "linux")]
        Plan::Monitor(p) => monitor::carry_out(p, &args.access.read()?, args.json),
        Plan::Probe(p) => probe::carry_out(p, &args.access.read()?, (false, args.json)),
        #[cfg(target_os = "linux")]
        Plan::Prove(p) => prove::carry_out(p, None, args.json),
        Plan::Report(p) => report::carry_out(p, args.json),
        #[cfg(target_os = "linux")]
        Plan::Serve(p) => serve::carry_out(p, None, args.json),
        Plan::Sim(p) => sim::carry_out(p, args.json),
        Plan::Test(p) => test::carry_out(p, &args.access.read()?, (false, args.json, false), None),
        Plan::Trace(p) => trace::carry_out(p, args.json),
        Plan::Twin(p) => twin::carry_out(p, None, args.json),
        Plan::Whatif(p) => whatif::carry_out(p, None, args.json),
    }
}
