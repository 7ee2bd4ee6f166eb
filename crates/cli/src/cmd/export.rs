//! `tailback export`: recordings in other tools' formats.

use super::{print, print_json};
use crate::Outcome;
use crate::console::Console;
use ops::export::{Format, Plan};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Write a recording in another format: CSV, JSON, Parquet, irtt, flent, RIPE Atlas, OpenMetrics, qlog, OONI",
    long_about = "Writes a recording in a format that other programs read. CSV, JSON Lines and Parquet hold whole tables, a file \
        each, in a directory. irtt, flent, atlas and ooni hold probes as those tools give them, openmetrics counts them a minute, qlog has the \
        senders of transfers. What a format has no place for is said. \
        The recording stays as it is, and nothing is written over.",
    after_help = "Examples:\n  \
        tailback export home.rec\n  \
        tailback export home.rec --format parquet --tables delay\n  \
        tailback export home.rec --format irtt --target udp\n  \
        tailback export home.rec --format flent -o home.flent.gz\n  \
        tailback export weeks.rec --format openmetrics\n\n\
        Times in CSV are UTC in ISO 8601; in JSON and Parquet they are UNIX nanoseconds. Columns: docs/reference/record.md."
)]
pub struct Args {
    /// Recording to export
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Format: csv, json, parquet, irtt, flent, atlas, openmetrics, qlog or ooni
    #[arg(long, value_name = "FORMAT", default_value = "csv", value_parser = Format::named)]
    format: Format,
    /// Directory of tables, or file, to write [default: the name of the recording with the format's ending]
    #[arg(short, long, value_name = "PATH")]
    output: Option<PathBuf>,
    /// Tables to write, such as delay,flow [default: all]
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    tables: Vec<String>,
    /// Target of the probes to write [default: all; irtt: the only one]
    #[arg(long, value_name = "NAME")]
    target: Option<String>,
    /// Print JSON instead of text (schema: schema/export.v1.json)
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        recording: args.recording,
        format: args.format,
        output: args.output,
        tables: args.tables,
        target: args.target,
    };
    let exported = ops::export::run(&plan, &mut Console::new())?;
    match args.json {
        true => print_json(&exported)?,
        false => print(&exported.text())?,
    }
    Ok(Outcome::Done)
}
