//! `tailback model`: the formulas of queues, buffers and transport as a calculator.

use super::{print, print_json, table_width, usage};
use crate::Outcome;
use crate::console::Console;
use ops::model::{Curve, Plan};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Evaluate a formula: buffer sizes, queues, TCP throughput, reliability",
    long_about = "Evaluates a formula: buffer sizes, queues, TCP throughput, reliability.\n\n\
        Without a name it lists the formulas. With a name alone it explains that one: the formula, its \
        source, its limits, its parameters, and an example that can be checked by hand.\n\n\
        A TOML file in place of the name has a section [calculate]: buffers of routers under link-by-link congestion \
        avoidance (lblca), datagrams over a chain of routers (hops), or a regression of one figure on the values of \
        others, with the prediction for values of your own. Pairs KEY=VALUE change its keys.",
    after_help = "Examples:\n  \
        tailback model bdp rate=700kbit/s rtt=19ms\n  \
        tailback model mm1 rate=10Mbit/s offered=8Mbit/s\n  \
        tailback model tagged rate=20Mbit/s --traffic a.pcapng\n  \
        tailback model mm1 rate=10Mbit/s \\\n      \
        --plot offered=1Mbit/s..9.5Mbit/s -o mm1.svg\n  \
        tailback model scenarios/thombre-2020/table-6.1.toml \\\n      \
        router.B1.arrival=300 --seeds 15"
)]
pub struct Args {
    /// Name of the formula, or a TOML file with a section [calculate]
    name: Option<String>,
    /// Parameters of the formula, with their units; keys of the file that change
    #[arg(value_name = "KEY=VALUE")]
    parameters: Vec<String>,
    /// Use the traffic of a capture (pcap, pcapng, gzip, zstd), or of the output of `tailback trace --traffic --json`
    #[arg(long, value_name = "FILE")]
    traffic: Option<PathBuf>,
    /// Plot the figures against this parameter, over a range of its values
    #[arg(long, value_name = "KEY=LOW..HIGH", requires = "output")]
    plot: Option<String>,
    /// Figures to plot, separated by commas [default: the first except the load]
    #[arg(long, value_name = "FIGURES", value_delimiter = ',', requires = "plot")]
    show: Vec<String>,
    /// SVG file to write the plot to
    #[arg(short, long, value_name = "FILE", requires = "plot")]
    output: Option<PathBuf>,
    /// Number of seeds of a file's calculation; figures get 95 % confidence intervals [default: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: Option<u64>,
    /// Print the figures as JSON, in seconds, bytes and bits per second
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let curve = args.plot.zip(args.output).map(|(over, output)| Curve {
        over,
        show: args.show,
        output,
    });
    let plan = Plan {
        name: args.name,
        parameters: args.parameters,
        seeds: args.seeds.unwrap_or(0),
        traffic: args.traffic,
        curve,
        evaluate: args.json,
    };
    carry_out(&plan, args.json)
}

/// Evaluates a plan.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::model::run(plan, &mut Console::new())?;
    match json {
        true => print_json(&answer.json()?.ok_or_else(|| {
            usage("--json is for a formula's figures: name a formula, and leave --plot out")
        })?)?,
        false => print(&answer.text(table_width())?)?,
    }
    Ok(Outcome::Done)
}
