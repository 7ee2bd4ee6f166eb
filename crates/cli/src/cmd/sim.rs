//! `tailback sim`: packets, queues and TCP in virtual time.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use ops::sim::{Plan, Shard};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Simulate a scenario, packet by packet, in virtual time",
    long_about = "Simulates a scenario, packet by packet, in virtual time: any queue discipline, any congestion controller, \
        any number of flows: bulk TCP, web pages, sessions, video, calls, probes. The same seed gives the same result, on any number of cores.",
    after_help = "Examples:\n  tailback sim scenarios/dumbbell.toml\n  \
        tailback sim scenarios/dumbbell.toml \\\n      \
        --set link.rate='2 Mbit/s' --set flow.0.count=4\n  \
        tailback sim scenarios/dumbbell.toml \\\n      \
        --sweep link.queue='fifo;codel;pie' --seeds 15\n  \
        tailback sim scenarios/dumbbell.toml --differences \\\n      \
        --seeds 15 --sweep link.queue='fifo;pie' --runs a.csv\n  \
        tailback sim scenarios/dumbbell.toml -o run.rec\n  \
        tailback sim scenarios/dumbbell.toml \\\n      \
        --pcap link=bottleneck.pcapng --pcap s0=sender.pcapng\n  \
        tailback sim scenarios/evening.toml \\\n      \
        --sweep link.queue='fifo:bytes=37625;fq_codel'\n\n\
        A scenario has a duration, [link] and at least one [[flow]] with a kind; --print shows the rest.\n\
        To choose from: tailback list sources, disciplines, controllers. Every key: docs/book/sim.md"
)]
pub struct Args {
    /// Scenario as a TOML file
    #[arg(value_name = "SCENARIO")]
    scenario: PathBuf,
    /// Change one value, such as link.rate='2 Mbit/s' or flow.0.tcp.controller=reno
    #[arg(long, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run with each of these values, such as link.queue=codel,pie (separated by ; if values contain commas)
    #[arg(long, value_name = "KEY=A,B")]
    sweep: Vec<String>,
    /// Number of seeds, starting at the scenario's; figures get 95 % confidence intervals
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u64).range(1..=100_000))]
    seeds: u64,
    /// Print the whole scenario with the origin of each value, and run nothing
    #[arg(long)]
    print: bool,
    /// Write a recording; with a sweep, a directory with one recording for each value
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Capture the packets at the entry of a link, for Wireshark: packets that enter the link, before its queue, and
    /// packets that leave the link in the other direction. LINK is the name of a link or a host; --print shows them
    #[arg(long, value_name = "LINK=FILE")]
    pcap: Vec<String>,
    /// Bytes of each packet to capture
    #[arg(long, value_name = "BYTES", default_value_t = 128, value_parser = clap::value_parser!(u32).range(64..=65_549))]
    snaplen: u32,
    /// Print the figures as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N", value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=4096))]
    threads: Option<usize>,
    /// Directory of finished runs: each run is kept there as soon as it ends, and a kept run is not made again, so that a
    /// sweep can be interrupted and continued
    #[arg(long, value_name = "DIR", conflicts_with = "output")]
    keep: Option<PathBuf>,
    /// Make only this part of the runs, such as 2/8: several processes or machines share a sweep. The same command
    /// without --shard then prints the figures of all
    #[arg(long, value_name = "I/N", requires = "keep", conflicts_with_all = ["json", "print", "pcap"])]
    shard: Option<Shard>,
    /// Write the figures of every run as numbers, one row a run: CSV, or Parquet if the name ends in .parquet
    #[arg(long, value_name = "FILE", conflicts_with_all = ["shard", "print"])]
    runs: Option<PathBuf>,
    /// Show the differences from the first value of the sweep, each seed compared with itself, instead of the figures
    #[arg(long, requires = "sweep", conflicts_with_all = ["shard", "print"])]
    differences: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        set: args.set,
        sweep: args.sweep,
        seeds: args.seeds,
        output: args.output,
        pcap: args.pcap,
        snaplen: args.snaplen,
        threads: args.threads,
        keep: args.keep,
        shard: args.shard,
        runs: args.runs,
        differences: args.differences,
        ..Plan::of_file(&args.scenario)?
    };
    if args.print {
        print(&ops::sim::describe(&plan)?)?;
        return Ok(Outcome::Done);
    }
    carry_out(&plan, args.json)
}

/// Simulates a plan, and lists missing runs.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::sim::run(plan, &mut Console::new())?;
    match json {
        true => print_json(&answer.json())?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(match answer.ended_early() {
        Some(why) => {
            eprintln!("tailback: {why}");
            Outcome::CouldNotMeasure
        }
        None => Outcome::Done,
    })
}
