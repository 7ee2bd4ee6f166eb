//! `tailback fleet`: the operator's view of a fleet.

use super::{operator::Of, print, task};
use crate::Outcome;
use crate::console::Console;
use base::Duration;
use fleet::hub::Hub;
use fleet::{Order, Subject, Told};
use jiff::civil::Date;
use ops::{Event, Progress};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Show the state of a fleet, publish its plan and releases, compare its points",
    after_help = "Examples:\n  tailback fleet status --data hub\n  tailback fleet plan plan.toml --data hub\n  tailback fleet label --name village-17 technology=lte\n  \
        tailback fleet report --by technology -o fleet.html\n  tailback fleet report --point village-17 -o point.html\n  tailback fleet upgrade tailback-x86_64 --data hub\n  \
        tailback fleet status --hub https://hub.org:8443 --token t"
)]
pub struct Args {
    #[command(subcommand)]
    command: Command,
}

#[derive(clap::Subcommand)]
enum Command {
    /// Print the state of each point, judged by the data that came back
    Status {
        #[command(flatten)]
        of: Of,
        /// Print JSON instead of a table
        #[arg(long)]
        json: bool,
    },
    /// Print who changed what: invitations, plans, releases, labels, withdrawals
    Log {
        #[command(flatten)]
        of: Of,
        /// Print JSON instead of lines
        #[arg(long)]
        json: bool,
    },
    /// Check, sign and publish a plan; points fetch it with their next report
    Plan {
        /// Plan as TOML; docs/book/fleet.md shows one
        #[arg(value_name = "FILE")]
        file: PathBuf,
        #[command(flatten)]
        of: Of,
    },
    /// Ask points for a run of a measurement now, out of its turn; they hear of it with their next report
    RunNow {
        /// Measurement of the plan, such as load
        #[arg(value_name = "MEASUREMENT")]
        measurement: String,
        /// Names of the points, such as village-17,village-18
        #[arg(long, value_name = "NAMES", required = true, value_delimiter = ',')]
        name: Vec<String>,
        #[command(flatten)]
        of: Of,
        /// Print JSON instead of lines
        #[arg(long)]
        json: bool,
    },
    /// Hand out a release: signed programs that replace those of the points, a few points first
    #[command(
        long_about = "Hands out a release. Each FILE is the program for one processor, with its signature beside it in FILE.minisig, made by \
            `minisign -S -t 'tailback 1.2.0 x86_64-linux' -m FILE`: version and processor are signed, too. Points check it with the key \
            that they were told when they joined.\n\n\
            A point runs a release on trial. If a recording of it reaches the hub within the plan's upgrade_within_s (15 minutes), the \
            release replaces the program; otherwise the point returns to the program before, by itself, and reports why. The release \
            goes to a share of the points, and to the next share once it has proved itself there. If more than one point of fifty \
            returns from it, it halts.",
        after_help = "Examples:\n  tailback fleet upgrade --key minisign.pub\n  tailback fleet upgrade tailback --stages 5,25,100\n  \
            tailback fleet upgrade --halt"
    )]
    Upgrade {
        /// Programs, one version for one processor or more; on the hub's machine only
        #[arg(value_name = "FILE", conflicts_with = "hub")]
        files: Vec<PathBuf>,
        #[command(flatten)]
        of: Of,
        /// Public key that signs releases, as minisign prints it or its .pub file; points that join from then on are told. On the hub's
        /// machine only
        #[arg(long, value_name = "KEY", conflicts_with = "hub")]
        key: Option<String>,
        /// Shares of the points, per cent, to which it goes one after another
        #[arg(
            long,
            value_name = "SHARES",
            value_delimiter = ',',
            default_value = "1,10,100"
        )]
        stages: Vec<u64>,
        /// Shortest time of a share
        #[arg(long, value_name = "TIME", default_value = "1 h")]
        stage_time: Duration,
        /// Halt the newest release: no further point gets it
        #[arg(long, conflicts_with_all = ["files", "key"])]
        halt: bool,
        /// Let the newest release go on; points that returned from it are left out
        #[arg(long, conflicts_with_all = ["files", "key", "halt"])]
        resume: bool,
    },
    /// Compare the points: delays, losses and tests of each, and of groups with the same label
    Report {
        #[command(flatten)]
        of: Of,
        /// Label that groups the points, such as provider
        #[arg(long, value_name = "LABEL")]
        by: Option<String>,
        /// Follow this point over its days instead: delays of each day and weekday, its tests
        #[arg(long, value_name = "NAME", conflicts_with = "by")]
        point: Option<String>,
        /// First day (UTC), such as 2026-11-01
        #[arg(long, value_name = "DATE")]
        from: Option<Date>,
        /// Last day (UTC)
        #[arg(long, value_name = "DATE")]
        to: Option<Date>,
        /// Page (.html) to write, with the tables and the distributions of the round trips
        #[arg(short, long, value_name = "FILE")]
        output: Option<PathBuf>,
        /// Print JSON instead of tables
        #[arg(long)]
        json: bool,
    },
    /// Set labels of a point: facts by which reports group points, and the rates that its provider promises
    Label {
        #[command(flatten)]
        of: Of,
        /// Name of the point
        #[arg(long, value_name = "NAME")]
        name: String,
        /// Labels, such as provider=Acme technology=lte down='20 Mbit/s' up='2 Mbit/s'; KEY= removes one
        #[arg(value_name = "KEY=VALUE", required = true)]
        labels: Vec<String>,
    },
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    match args.command {
        Command::Status { of, json } => of.shown(&Order::Status, json)?,
        Command::Log { of, json } => of.shown(&Order::Log, json)?,
        Command::Plan { file, of } => {
            let text = ops::read_text(&file)?;
            of.shown(&Order::Plan { text }, false)?;
        }
        Command::RunNow {
            measurement,
            name,
            of,
            json,
        } => {
            let points = name;
            let order = Order::RunNow {
                points,
                measurement,
            };
            of.shown(&order, json)?;
        }
        Command::Report {
            of,
            by,
            point,
            from,
            to,
            output,
            json,
        } => {
            let date = |d: Option<Date>| d.map(|d| d.to_string()).unwrap_or_default();
            let order = Order::Report {
                subject: point.map_or(Subject::Points { by }, |name| Subject::Point { name }),
                from: date(from),
                to: date(to),
            };
            let mut console = Console::new();
            let told = of.told(&order, &mut console)?;
            report(told, output, json, &mut console)?;
        }
        Command::Upgrade {
            files,
            of,
            key,
            stages,
            stage_time,
            halt,
            resume,
        } => {
            if let Some(key) = &key {
                let key = super::agent::release_key(key)?;
                let key = key.ok_or_else(|| super::usage("--key: no key"))?;
                Hub::open(&of.data, task::read)?.trust(&key)?;
            }
            if halt || resume {
                of.shown(&Order::Release { halt }, false)?;
            } else if !files.is_empty() {
                let hub = Hub::open(&of.data, task::read)?;
                for label in hub.add_release(&files, &stages, stage_time)? {
                    print(&format!("release {} for {}\n", label.version, label.target))?;
                }
            } else if key.is_none() {
                return Err(super::usage(
                    "give the programs of a release, --key, --halt or --resume",
                ));
            }
        }
        Command::Label { of, name, labels } => {
            let point = name;
            of.shown(&Order::Label { point, labels }, false)?;
        }
    }
    Ok(Outcome::Done)
}

/// Prints a report, and writes the page about it.
fn report(
    told: Told,
    output: Option<PathBuf>,
    json: bool,
    console: &mut Console,
) -> anyhow::Result<()> {
    for left_out in &told.left_out {
        eprintln!("tailback: {}", base::text::clean(left_out));
    }
    match json {
        true => print(&format!("{}\n", told.json))?,
        false => print(&told.text)?,
    }
    if let Some((output, page)) = output.zip(told.page) {
        ops::write_file(&output, &page)?;
        console.tell(Event::Wrote(&output));
    }
    Ok(())
}
