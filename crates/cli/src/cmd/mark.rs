//! `tailback mark`: moments of a recording.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use ops::mark::Plan;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Mark moments of a recording, such as the begin of a call",
    long_about = "Adds a moment with a text to a recording, also while a monitor or a test writes it. Every plot over time, the \
        page and `tailback analyse` show it. Without TEXT and --mark-on, the moments of the recording are listed.",
    after_help = "Examples:\n  \
        tailback mark home.rec \"Skype call begins\"\n  \
        tailback mark home.rec \"upload\" --at 2026-05-16T09:20:20\n  \
        tailback mark home.rec --mark-on ./applications-in-turn.sh\n  \
        tailback mark home.rec --json\n\n\
        Times are of this host's clock. `tailback monitor --mark-on CMD` starts the command with the monitor."
)]
pub struct Args {
    /// Recording to mark
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Text of the moment, at most 120 characters
    text: Option<String>,
    /// Time of the moment, such as 2026-05-16T09:17:20 [default: now, if the recording is being written]
    #[arg(long, value_name = "TIME", requires = "text")]
    at: Option<String>,
    /// Time zone of --at and of the printed times, such as Europe/Oslo [default: this host's]
    #[arg(long, value_name = "ZONE")]
    zone: Option<String>,
    /// Command to run: each line that it prints becomes a moment, with the time at which it was printed; at most 1000
    #[arg(long, value_name = "CMD", conflicts_with = "text")]
    mark_on: Option<String>,
    /// Print JSON instead of text (schema: schema/mark.v1.json)
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        recording: args.recording,
        text: args.text,
        at: args.at,
        zone: args.zone,
        command: args.mark_on,
    };
    let answer = ops::mark::run(&plan, &mut Console::new())?;
    match args.json {
        true => print_json(&answer.marks)?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(Outcome::Done)
}
