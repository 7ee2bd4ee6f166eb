//! `tailback control`: latency control of a gateway's link.

use super::config::Configured;
use super::control_config::Settings;
use super::{AccessArgs, print, print_json};
use crate::Outcome;
use crate::console::{Console, is_quiet};
use anyhow::Context;
use base::{Bytes, Duration};
use ops::Access;
use ops::control::{Asked, Plan};
use ops::prove::real;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Keep the modem's queue short, from the gateway in front of it",
    long_about = "Keeps the queue of the modem behind this gateway short, without shaping. Probes to a server and the bytes that \
        pass show how long packets wait there. When they wait too long, single packets are marked (ECN) or dropped before \
        they enter the queue. With --direction both, downloads are controlled too: packets that waited too long at the \
        provider are marked or dropped on arrival, so that their senders slow down.",
    after_help = "Examples:\n  \
        tailback control plan --wan eth0\n  \
        tailback control run --wan eth0 --server HOST\n  \
        tailback control run --wan eth0 --server HOST --apply\n  \
        tailback control status --wan eth0\n  \
        tailback control prove --wan eth0 --server HOST --go"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Show the hook, the signals and the blockers; change nothing
    Plan(PlaceArgs),
    /// Control the link until interrupted; a dry run without --apply
    Run(Box<RunArgs>),
    /// Show the state of a run
    Status(PlaceArgs),
    /// Stop a run and restore the interface
    Stop(PlaceArgs),
    Prove(Box<ProveArgs>),
}

#[derive(clap::Args)]
struct PlaceArgs {
    /// Interface towards the modem
    #[arg(long, value_name = "NAME")]
    wan: String,
    /// Print the answer as JSON instead of text
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(
    after_help = "Each decision is a row of the table `decision` in the recording. Stop with Ctrl-C, SIGTERM or `tailback control \
        stop`; the interface is restored, also after SIGKILL."
)]
struct RunArgs {
    /// TOML file with settings, named as the options; an option here precedes it
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// Print all settings and their origin as TOML, for --config, and stop
    #[arg(long)]
    print_config: bool,
    #[command(flatten)]
    settings: Settings,
    /// Decide and record, but change nothing (the default)
    #[arg(long, conflicts_with = "apply")]
    dry_run: bool,
    #[command(flatten)]
    access: AccessArgs,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
    /// Print the recording and the last state as JSON when the run ends
    #[arg(long)]
    json: bool,
}

#[derive(clap::Args)]
#[command(
    about = "Prove the benefit: blocks with and without control in random order",
    long_about = "Proves what control does to this link. Blocks with and without `tailback control run --apply` run in pairs, \
        in random order; in each, this gateway fills the link. The paired differences are tested by flipping their signs. \
        Without --go the plan is shown and nothing is run. Control is off at the end, also after an error, Ctrl-C or a kill.",
    after_help = "Examples:\n  \
        tailback control prove --wan eth0 --server HOST\n  \
        tailback control prove --wan eth0 --server HOST --go \\\n      \
        -- --law pie\n\n\
        Exit code 1: control harms."
)]
struct ProveArgs {
    /// Interface towards the modem
    #[arg(long, value_name = "NAME")]
    wan: String,
    /// Machine beyond the link that runs `tailback serve`
    #[arg(long, value_name = "SERVER")]
    server: String,
    /// Run the blocks, instead of showing the plan
    #[arg(long)]
    go: bool,
    /// Figure that control is to improve
    #[arg(long, value_name = "FIGURE", default_value = "delay", value_parser = ["delay", "call", "goodput"])]
    measure: String,
    /// Directions that bulk transfers fill
    #[arg(long, value_name = "LOAD", default_value = "up", value_parser = ["up", "down", "both"])]
    load: String,
    /// TCP connections in each loaded direction
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=64))]
    flows: u32,
    /// Pairs of blocks
    #[arg(long, default_value_t = 8, value_name = "N", value_parser = clap::value_parser!(u64).range(..=10_000))]
    pairs: u64,
    /// Counted part of each block
    #[arg(long, value_name = "TIME", default_value = "30 s")]
    block: Duration,
    /// Loaded time before each block
    #[arg(long, value_name = "TIME", default_value = "5 s")]
    wash_out: Duration,
    /// Upper limit on the traffic, all blocks combined
    #[arg(long, value_name = "SIZE", default_value = "4GB")]
    budget: Bytes,
    /// Seed of the order of the blocks
    #[arg(long, default_value_t = 1, value_name = "N", value_parser = clap::value_parser!(u64).range(..1 << 32))]
    seed: u64,
    /// Directory for the recordings of the blocks [default: tailback-prove-DATE-TIME in this directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Write an HTML page with the plots to this file, too
    #[arg(long, value_name = "FILE")]
    page: Option<PathBuf>,
    /// Print JSON instead of text
    #[arg(long)]
    json: bool,
    /// Options of `tailback control run`
    #[arg(last = true, value_name = "OPTIONS")]
    run: Vec<String>,
}

fn prove(args: ProveArgs) -> anyhow::Result<Outcome> {
    crate::face::only_as_a_process("control prove")?;
    let program = std::env::current_exe().context("cannot find this program")?;
    let mut run = vec![
        program.into_os_string(),
        "--quiet".into(),
        "control".into(),
        "run".into(),
    ];
    run.extend(["--server".into(), args.server.clone().into()]);
    run.extend(args.access.options());
    run.extend(args.ipv4.then(|| "--ipv4".into()));
    run.extend(args.ipv6.then(|| "--ipv6".into()));
    run.extend(args.run.iter().map(Into::into));
    let switch = ops::control::switch(&args.wan, &run)?;
    let plan = real::Plan {
        server: args.server,
        ipv4: args.ipv4,
        ipv6: args.ipv6,
        on: switch.on,
        off: switch.off,
        measure: super::prove::measure(&args.measure),
        load: super::whatif::load(&args.load),
        flows: args.flows,
        pairs: args.pairs,
        block: args.block,
        wash_out: args.wash_out,
        budget: args.budget,
        seed: args.seed,
        output: args.output,
    };
    super::prove::on_real_link(
        &plan,
        args.go,
        &args.access,
        args.page.as_deref(),
        args.json,
    )
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command {
        Command::Plan(place) => show_place(&place),
        Command::Run(args) => {
            let file = args.config.as_deref().map(Settings::read).transpose()?;
            if args.print_config {
                print(&args.settings.printed(file.as_ref())?)?;
                return Ok(Outcome::Done);
            }
            let mut plan = args.settings.over(&file.unwrap_or_default()).plan()?;
            plan.settings.apply &= !args.dry_run;
            ops::control::check(&plan)?;
            if args.print_plan {
                print_json(&serde_json::to_value(ops::Plan::Control(Box::new(plan)))?)?;
                return Ok(Outcome::Done);
            }
            carry_out(&plan, &args.access.read()?, args.json)
        }
        Command::Prove(args) => prove(*args),
        Command::Status(place) => ask(&place, Asked::Status),
        Command::Stop(place) => ask(&place, Asked::Stop),
    }
}

fn show_place(place: &PlaceArgs) -> anyhow::Result<Outcome> {
    let answer = ops::control::plan(&place.wan)?;
    match place.json {
        true => print_json(&serde_json::to_value(&answer)?)?,
        false => print(&answer.text())?,
    }
    Ok(match answer.blockers.is_empty() {
        true => Outcome::Done,
        false => Outcome::CouldNotMeasure,
    })
}

fn ask(place: &PlaceArgs, asked: Asked) -> anyhow::Result<Outcome> {
    let status = ops::control::ask(&place.wan, asked)?;
    if place.json {
        print_json(&serde_json::to_value(&status)?)?;
    } else {
        print(&format!("{}\n", ops::control::line(&status)))?;
    }
    Ok(Outcome::Done)
}

/// Controls until the plan ends or is interrupted.
pub fn carry_out(plan: &Plan, access: &Access, json: bool) -> anyhow::Result<Outcome> {
    if !plan.settings.apply && !is_quiet() {
        eprintln!("tailback: a dry run: nothing is marked or dropped without --apply");
    }
    let answer = ops::control::run(plan, access, &mut Console::new())?;
    if json {
        print_json(&answer)?;
    } else if !is_quiet() {
        eprintln!("tailback: {}", ops::control::line(&answer.status));
        eprintln!("tailback: recording: {}", answer.recording.display());
    }
    Ok(Outcome::Done)
}
