//! `tailback probe`: one experiment, one question.

use super::{
    AccessArgs, LogInArgs, Printing, ThroughArgs, finish, print, print_json, stdout_style,
};
use crate::Outcome;
use crate::console::Console;
use crate::watch::{Face, Terminal};
use base::{BitsPerSec, Bytes, Duration};
use experiment::{PROBES, ProbeSpec};
use live::clock::Clock;
use ops::Access;
use ops::probe::{Plan, Ready};
use std::net::IpAddr;
use std::path::{Path, PathBuf};

#[derive(clap::Args, Clone)]
#[command(
    about = "Run one experiment: the highest rate without loss, the largest burst, the best size …",
    long_about = "Runs one experiment, which answers one question about a link with a number, its interval and the evidence.\n\n\
        KIND is one of the kinds below with its parameters: `sweep`, `sweep:size=1000,mode=full`; `tailback list probes` \
        prints all parameters. SERVER is a machine beyond the link that runs `tailback serve`. With --link both ends are \
        on this machine with an emulated link between them.\n\n\
        Traffic goes only to a server that has agreed, never exceeds --budget, and does not start while there is cross traffic.",
    after_help = kinds(),
)]
pub struct Args {
    /// Experiment with its parameters: KIND or KIND:key=value,key=value
    #[arg(value_name = "KIND")]
    probe: ProbeSpec,
    /// Server: a name or address, with :PORT if it is not the default port
    #[arg(required_unless_present = "link", conflicts_with = "link")]
    server: Option<String>,
    /// Run both ends on this machine, over this emulated link: a name (see `tailback list links`) or TOML file. If
    /// repeated, the first is the near end, with a router between one and the next
    #[arg(long, value_name = "NAME|FILE,...", value_delimiter = ',')]
    link: Vec<String>,
    /// Change one value of the emulated link, such as up.queue=codel; of the second of several links,
    /// hop2.up.queue=codel
    #[arg(long, requires = "link", value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Run in virtual time instead of emulating the link: needs no privileges, takes seconds
    #[arg(long = "virtual", requires = "link", conflicts_with = "every")]
    virtual_time: bool,
    /// Seed of the run in virtual time
    #[arg(long, requires = "virtual_time", value_name = "N", default_value = "1")]
    seed: u64,
    /// Add random cross traffic at this rate to the emulated uplink, in packets of mixed sizes
    #[arg(long, requires = "link", value_name = "RATE")]
    others: Option<BitsPerSec>,
    #[command(flatten)]
    pub access: AccessArgs,
    #[command(flatten)]
    log_in: LogInArgs,
    /// Address beside the server's that the probe may send to: a second address of the server, or your own public one
    /// (`nat`, `ipv6`); may be repeated [default: all addresses of the server's name]
    #[arg(long, value_name = "ADDRESS")]
    also: Vec<IpAddr>,
    /// Use IPv4 only
    #[arg(short = '4', long, conflicts_with = "ipv6")]
    ipv4: bool,
    /// Use IPv6 only
    #[arg(short = '6', long)]
    ipv6: bool,
    /// Upper limit on traffic, both directions combined
    #[arg(long, default_value = "100MB", value_name = "SIZE")]
    budget: Bytes,
    #[command(flatten)]
    through: ThroughArgs,
    /// Wait until there is no cross traffic, at most this long, instead of giving up
    #[arg(long, num_args = 0..=1, default_missing_value = "60 s", value_name = "TIME")]
    hold_off: Option<Duration>,
    /// Fail at once if another client is loading the server's uplink, instead of waiting in the queue
    #[arg(long)]
    no_wait: bool,
    /// Do not abort when there is cross traffic
    #[arg(long)]
    beside_others: bool,
    /// Repeat at this interval (start to start), each run into its own recording
    #[arg(long, value_name = "TIME", conflicts_with_all = ["output", "json"])]
    every: Option<Duration>,
    /// Number of runs with --every [default: until interrupted]
    #[arg(long, requires = "every", value_name = "N")]
    times: Option<u64>,
    /// Name of the run in its report
    #[arg(long)]
    title: Option<String>,
    /// Recording to write [default: tailback-DATE-TIME.rec in this directory]
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the answer as JSON instead of text
    #[arg(long)]
    json: bool,
    /// Show plain lines instead of a live view
    #[arg(long)]
    plain: bool,
    /// Print the plan as JSON and stop
    #[arg(long)]
    print_plan: bool,
}

/// Table of experiments with their questions and parameters: the end of `--help`.
fn kinds() -> String {
    let mut text = String::from("Kinds:\n");
    for spec in PROBES {
        text += &format!(
            "  {:10} {}\n             takes {}\n",
            spec.entry.name, spec.entry.summary, spec.takes
        );
    }
    text + "\nExamples:\n  tailback probe sweep far.example\n  \
        tailback probe sweep:direction=down,size=500 far.example\n  \
        tailback probe sweep --link shdsl\n  \
        tailback probe path --link adsl --virtual\n\n\
        `tailback list probes` shows the parameters of each kind."
}

/// Plan that the arguments describe.
pub fn plan(args: &Args) -> anyhow::Result<Plan> {
    let args = args.clone();
    Ok(Plan {
        links: ops::links::chain(&args.link, &args.set)?,
        probe: args.probe,
        server: args.server,
        virtual_seed: args.virtual_time.then_some(args.seed),
        others: args.others,
        budget: args.budget,
        interface: args.through.one(!args.link.is_empty())?,
        hold_off: args.hold_off,
        waits: !args.no_wait,
        beside_others: args.beside_others,
        also: args.also,
        ipv4: args.ipv4,
        ipv6: args.ipv6,
        title: args.title,
        output: args.output,
        log_in: args.log_in.read(),
    })
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let access = args.access.read()?;
    if args.through.are_several() && !args.print_plan && args.every.is_none() {
        let (json, output) = (args.json, args.output.as_deref());
        let run = |through, path: &Path, shown: bool| -> anyhow::Result<Printing> {
            let plan = plan(&Args {
                through,
                output: Some(path.to_owned()),
                ..args.clone()
            })?;
            let mut terminal = Terminal::new(Face::Probe, args.plain, json || !shown);
            let answer = ops::probe::run(&plan, &access, &mut terminal)?;
            Ok(Box::new(move || {
                if !json {
                    let (figures, meta) = (&answer.figures, &answer.meta);
                    print(&report::terminal::probe(figures, meta, stdout_style()))?;
                }
                finish(answer.end)
            }))
        };
        return args
            .through
            .each(output, &run, &|measured| beside(measured, json));
    }
    let plan = plan(&args)?;
    if args.print_plan {
        print_json(&plan.recorded()?)?;
        return Ok(Outcome::Done);
    }
    let shown = (args.plain, args.json);
    match args.every {
        None => carry_out(&plan, &access, shown),
        Some(every) => repeat(&plan, &access, shown, every, args.times),
    }
}

/// Prints the figures of each interface beside those of the others.
fn beside(measured: Vec<(String, PathBuf)>, json: bool) -> anyhow::Result<Outcome> {
    let plan = ops::analyse::Plan {
        recordings: measured.into_iter().map(|(_, path)| path).collect(),
        ..ops::analyse::Plan::default()
    };
    let answer = ops::analyse::run(&plan, &mut Console::new())?;
    let format = match json {
        true => ops::analyse::Format::Json,
        false => ops::analyse::Format::Text,
    };
    super::print_with(|out| answer.write(format, stdout_style(), out))?;
    Ok(Outcome::Done)
}

/// Runs a plan's experiment once.
pub fn carry_out(plan: &Plan, access: &Access, shown: (bool, bool)) -> anyhow::Result<Outcome> {
    once(&ops::probe::ready(plan, access)?, shown)
}

fn once(ready: &Ready, (plain, json): (bool, bool)) -> anyhow::Result<Outcome> {
    let answer = ready.run(&mut Terminal::new(Face::Probe, plain, json))?;
    match json {
        true => print(&format!(
            "{}\n",
            serde_json::to_string_pretty(&answer.figures)?
        ))?,
        false => print(&report::terminal::probe(
            &answer.figures,
            &answer.meta,
            stdout_style(),
        ))?,
    }
    finish(answer.end)
}

/// Interval at which the wait for the next run checks for an interruption.
const LOOK: Duration = Duration::from_millis(200);

/// Runs the experiment at an interval, start to start.
fn repeat(
    plan: &Plan,
    access: &Access,
    shown: (bool, bool),
    every: Duration,
    times: Option<u64>,
) -> anyhow::Result<Outcome> {
    let ready = ops::probe::ready(plan, access)?;
    crate::face::catch_interrupt();
    let began = Clock::start();
    let mut latest = Outcome::Done;
    for n in 1.. {
        match once(&ready, shown) {
            Ok(outcome) => latest = outcome,
            // A line that is down for an hour is back in the next.
            Err(e) => {
                eprintln!("tailback: run {n}: {e:#}");
                latest = Outcome::CouldNotMeasure;
            }
        }
        if times.is_some_and(|times| n >= times) {
            break;
        }
        // A run that took longer than that is followed by the next at once.
        let due = Duration::from_nanos(every.as_nanos() * n);
        let mut told = false;
        loop {
            if crate::face::interrupted() {
                return Ok(latest);
            }
            let left = due.saturating_sub(began.now() - base::Time::ZERO);
            if left == Duration::ZERO {
                break;
            }
            if !told {
                told = true;
                eprintln!("Run {} begins in {:.0}.", n + 1, left);
            }
            std::thread::sleep(left.min(LOOK).to_std());
        }
    }
    Ok(latest)
}
