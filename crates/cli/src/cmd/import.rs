//! `tailback import`: other tools' files as a recording.

use super::{print, print_json, usage};
use crate::Outcome;
use crate::console::Console;
use jiff::Timestamp;
use ops::import::{Plan, RateUnit, nanos};
use std::path::PathBuf;
use store::import::Format;

#[derive(clap::Args)]
#[command(
    about = "Make a recording from other tools' files: irtt, flent, fping, ping, SmokePing, dstat, RIPE Atlas, qlog, and \
        the delay and traffic monitors' CSV",
    after_help = "The content of a file tells its format; all files go into one recording. A line that cannot be read \
        is skipped and reported."
)]
pub struct Args {
    /// Files to import, in the order of time if one continues another
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Recording to write [default: the first file's name, ending in .rec]
    #[arg(short, long, value_name = "RECORDING")]
    output: Option<PathBuf>,
    /// Format of the files [default: found from their content]
    #[arg(long, value_name = "FORMAT", value_parser = ops::import::format)]
    format: Option<Format>,
    /// Time zone of local times in the files, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Time of the first probe, for ping and fping without -D, such as 2026-05-04T15:55:00Z [default: time of the
    /// file's last change]
    #[arg(long, value_name = "TIME")]
    start: Option<Timestamp>,
    /// Interval between probes, for ping and fping without -D [default: as the text says, or 1s]
    #[arg(long, value_name = "TIME")]
    interval: Option<String>,
    /// Unit of the traffic monitor's rates: its flag -p
    #[arg(long, value_enum, default_value_t = Unit::Kbit)]
    rate_unit: Unit,
    /// Name of the recording in reports, such as "home ADSL"
    #[arg(long, default_value = "")]
    title: String,
    /// Print the imported, skipped and repaired items as JSON
    #[arg(long)]
    json: bool,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Unit {
    Bit,
    Kbit,
    Mbit,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let interval = args
        .interval
        .as_deref()
        .map(|text| text.parse().map_err(|e| usage(format!("--interval: {e}"))));
    let plan = Plan {
        files: args.files,
        output: args.output,
        format: args.format.map(|f| f.word().to_owned()),
        zone: args.zone,
        start_ns: args.start.map(nanos),
        interval: interval.transpose()?,
        rate_unit: match args.rate_unit {
            Unit::Bit => RateUnit::Bit,
            Unit::Kbit => RateUnit::Kbit,
            Unit::Mbit => RateUnit::Mbit,
        },
        title: args.title,
    };
    carry_out(&plan, args.json)
}

/// Imports a plan's files.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::import::run(plan, &mut Console::new())?;
    if json {
        print_json(&answer.json())?;
    } else {
        print(&answer.text())?;
        eprintln!("{}", answer.recording.display());
    }
    Ok(Outcome::Done)
}
