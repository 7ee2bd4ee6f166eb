//! `tailback control`: latency control of a gateway's link.

use super::{AccessArgs, print, print_json};
use crate::Outcome;
use crate::console::{Console, is_quiet};
use base::{BitsPerSec, Bytes, Duration};
use ops::Access;
use ops::control::{Asked, Directions, Law, Plan, Settings};
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
        tailback control status --wan eth0"
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
    /// Interface towards the modem
    #[arg(long, value_name = "NAME")]
    wan: String,
    /// Machine beyond the link that runs `tailback serve`
    #[arg(long, value_name = "SERVER")]
    server: String,
    /// Mark and drop packets; otherwise nothing is changed
    #[arg(long, conflicts_with = "dry_run")]
    apply: bool,
    /// Decide and record, but change nothing (the default)
    #[arg(long)]
    dry_run: bool,
    /// Directions to control
    #[arg(long, value_name = "DIRECTION", default_value = "up")]
    direction: DirectionArg,
    /// Law that decides on uploads
    #[arg(long, value_name = "LAW", default_value = "sawtooth")]
    law: LawArg,
    /// Wait to hold
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    target: Duration,
    /// Wait above which every packet of an upload is dropped
    #[arg(long, value_name = "TIME", default_value = "40ms")]
    cap: Duration,
    /// Capacity of the uplink to start with [default: learned]
    #[arg(long, value_name = "RATE")]
    capacity: Option<BitsPerSec>,
    /// Drop ECN-capable packets instead of marking them
    #[arg(long)]
    no_ecn: bool,
    /// Interval between probes, 5 ms to 200 ms
    #[arg(long, value_name = "TIME", default_value = "20ms")]
    interval: Duration,
    /// Bytes that the link adds to each IP packet; may be negative
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 0,
        allow_negative_numbers = true
    )]
    overhead: i64,
    /// IP packets of at most this size are never marked or dropped
    #[arg(long, value_name = "SIZE", default_value = "256B")]
    small: Bytes,
    /// DSCP that is never marked or dropped; may be repeated [default: 46 and 44]
    #[arg(long, value_name = "DSCP")]
    exempt: Vec<u8>,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Recording to write; a number is added if it exists
    #[arg(short, long, default_value = "control.rec", value_name = "DIR")]
    output: PathBuf,
    /// Name of the recording in reports
    #[arg(long)]
    title: Option<String>,
    /// Thin old detail if the recording is larger than this
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Write the state for Prometheus to this file once a second (textfile collector of node_exporter)
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum DirectionArg {
    /// Uploads, whose queue is in the modem
    Up,
    /// Downloads, whose queue is at the provider
    Down,
    /// Uploads and downloads
    Both,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum LawArg {
    /// Marks or drops one packet per round trip, and more while the wait stays long
    Sawtooth,
    /// RFC 8033 on the estimated wait
    Pie,
}

fn plan(args: &RunArgs) -> Plan {
    let usual = Plan::new(&args.wan, &args.server);
    let mut settings = Settings {
        interval: args.interval,
        overhead: args.overhead,
        small: args.small,
        apply: args.apply,
        ..usual.settings
    };
    if !args.exempt.is_empty() {
        settings.exempt.clone_from(&args.exempt);
    }
    settings.upload.law = match args.law {
        LawArg::Sawtooth => Law::Sawtooth,
        LawArg::Pie => Law::Pie,
    };
    settings.directions = match args.direction {
        DirectionArg::Up => Directions::Up,
        DirectionArg::Down => Directions::Down,
        DirectionArg::Both => Directions::Both,
    };
    settings.upload.target = args.target;
    settings.download.target = args.target;
    settings.download.ecn = !args.no_ecn;
    settings.upload.cap = args.cap;
    settings.upload.capacity = args.capacity;
    settings.upload.ecn = !args.no_ecn;
    Plan {
        settings,
        ipv4: args.ipv4,
        ipv6: args.ipv6,
        output: args.output.clone(),
        title: args.title.clone(),
        max_size: args.max_size,
        duration: args.duration,
        metrics: args.metrics.clone(),
        ..usual
    }
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command {
        Command::Plan(place) => show_place(&place),
        Command::Run(args) => {
            let plan = plan(&args);
            ops::control::check(&plan)?;
            if args.print_plan {
                print_json(&serde_json::to_value(ops::Plan::Control(Box::new(plan)))?)?;
                return Ok(Outcome::Done);
            }
            carry_out(&plan, &args.access.read()?)
        }
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
pub fn carry_out(plan: &Plan, access: &Access) -> anyhow::Result<Outcome> {
    if !plan.settings.apply && !is_quiet() {
        eprintln!("tailback: a dry run: nothing is marked or dropped without --apply");
    }
    let answer = ops::control::run(plan, access, &mut Console::new())?;
    if !is_quiet() {
        eprintln!("tailback: {}", ops::control::line(&answer.status));
        eprintln!("tailback: recording: {}", answer.recording.display());
    }
    Ok(Outcome::Done)
}
