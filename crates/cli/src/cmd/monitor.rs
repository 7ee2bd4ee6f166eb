//! `tailback monitor`: delay and traffic for weeks.

use super::{AccessArgs, print_json};
use crate::Outcome;
use crate::console::Console;
use base::{Bytes, Duration};
use live::monitor::MonitorPlan;
use ops::Access;
use ops::monitor::Plan;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Record delay, traffic and availability for weeks",
    long_about = "Probes one or more targets at a fixed interval, for weeks. It records each probe's fate, the traffic \
        of the interface towards the first target, this host's load and the interface's availability. It \
        continues through outages, restarts of the server, changes of address, clock steps and suspends, and \
        records each of them. Every slot gets a row.\n\n\
        Targets: SERVER (a machine running `tailback serve`), icmp:HOST, tcp:HOST:PORT (time to connect), \
        http://HOST/PATH or https://HOST/PATH (fresh connection to first byte), dns:NAME@SERVER. Append \
        ,TIME for an interval of its own; the default for TCP, HTTP and DNS is one second.",
    after_help = "Examples:\n  \
        tailback monitor far.example\n  \
        tailback monitor far.example icmp:192.0.2.1 \\\n      \
        dns:example.org@192.0.2.53 --output home.rec\n  \
        tailback monitor icmp:192.0.2.1,1s --quiet -o home.rec &\n\n\
        If started again with the same targets and --output, it continues the same recording. Stop with Ctrl-C or SIGTERM."
)]
pub struct Args {
    /// Targets to probe; at most one SERVER
    #[arg(required = true, value_name = "TARGET")]
    targets: Vec<String>,
    /// Interval between probes, 1 ms to 1 h
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    interval: Duration,
    #[command(flatten)]
    access: AccessArgs,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Interface whose traffic and availability are recorded; may be repeated [default: the interface towards the first
    /// target]
    #[arg(long, value_name = "NAME")]
    interface: Vec<String>,
    /// Interval between readings of the interface's counters
    #[arg(long, default_value = "100ms", value_name = "TIME")]
    traffic_interval: Duration,
    /// Time after which an unanswered probe is lost; an answer after that is recorded as late
    #[arg(long, default_value = "10s", value_name = "TIME")]
    lost_after: Duration,
    /// Interval at which rows are written to disk: a power cut costs at most this much
    #[arg(long, default_value = "500ms", value_name = "TIME")]
    flush: Duration,
    /// Thin old detail if less than this is left on the disk [default: 5 % of it, at most 1 GB]
    #[arg(long, value_name = "SIZE")]
    keep_free: Option<Bytes>,
    /// Thin old detail if the recording is larger than this
    #[arg(long, value_name = "SIZE")]
    max_size: Option<Bytes>,
    /// Name of the recording in reports
    #[arg(long)]
    title: Option<String>,
    /// Recording to write; an existing one is continued
    #[arg(short, long, default_value = "monitor.rec", value_name = "DIR")]
    output: PathBuf,
    /// Stop after this time
    #[arg(long, value_name = "TIME")]
    duration: Option<Duration>,
    /// Command to run when a target stops answering for 10 s, and when it answers steadily again. It finds the target in
    /// $TAILBACK_TARGET, `down` or `up` in $TAILBACK_STATE, and the silence in $TAILBACK_SECONDS
    #[arg(long, value_name = "CMD")]
    on_outage: Option<String>,
    /// File to write the state to, in Prometheus' text format, for the textfile collector of node_exporter
    #[arg(long, value_name = "FILE")]
    metrics: Option<PathBuf>,
    /// Do not show the live view
    #[arg(short, long)]
    quiet: bool,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
}

fn plan(args: &Args) -> anyhow::Result<Plan> {
    let monitor = MonitorPlan {
        targets: ops::monitor::targets(&args.targets, args.interval)?,
        lost_after: args.lost_after,
        interfaces: args.interface.clone(),
        traffic_interval: args.traffic_interval,
        only_v4: args.ipv4,
        only_v6: args.ipv6,
        ..MonitorPlan::default()
    };
    Ok(Plan {
        monitor,
        names: args.targets.clone(),
        title: args.title.clone(),
        output: args.output.clone(),
        flush: args.flush,
        keep_free: args.keep_free,
        max_size: args.max_size,
        duration: args.duration,
        on_outage: args.on_outage.clone(),
        metrics: args.metrics.clone(),
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = plan(&args)?;
    ops::monitor::check(&plan)?;
    if args.print_plan {
        print_json(&serde_json::to_value(&plan.monitor)?)?;
        return Ok(Outcome::Done);
    }
    let access = args.access.read()?;
    carry_out(&plan, &access, args.quiet)
}

/// Records until the plan ends or is interrupted.
pub fn carry_out(plan: &Plan, access: &Access, quiet: bool) -> anyhow::Result<Outcome> {
    let answer = ops::monitor::run(plan, access, &mut Console::new(quiet))?;
    if !quiet {
        eprintln!("tailback: recording: {}", answer.recording.display());
    }
    Ok(Outcome::Done)
}
