//! `tailback status`: state of a monitor that runs elsewhere.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use base::Duration;
use ops::status::Plan;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Show the state of a monitor that runs elsewhere, from its recording",
    long_about = "Reads the recording that a monitor writes, and shows for each target the latest round trip, the figures of \
        the last hour, and if it answers now. The monitor need not be asked: it may run as a service or for another user.",
    after_help = "Examples:\n  \
        tailback status home.rec\n  \
        tailback status home.rec --last 5min --json\n  \
        tailback status home.rec --max-silence 1min > /dev/null\n\n\
        A probe is lost after the monitor's --lost-after, 10 s by default, so the loss of the last seconds is a lower limit."
)]
pub struct Args {
    /// Recording of a monitor
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Time before now to which the figures belong, at most 7 days
    #[arg(long, default_value = "1h", value_name = "TIME")]
    last: Duration,
    /// Exit with 1 if a target has not answered for longer than this, or if no process writes the recording
    #[arg(long, value_name = "TIME")]
    max_silence: Option<Duration>,
    /// Print JSON instead of text
    #[arg(long, conflicts_with = "csv")]
    json: bool,
    /// Print one row a target with plain numbers
    #[arg(long)]
    csv: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        recording: args.recording,
        last: args.last,
    };
    let answer = ops::status::run(&plan, &mut Console::new())?;
    match (args.json, args.csv) {
        (true, _) => print_json(&answer.json()?)?,
        (_, true) => print(&answer.csv())?,
        _ => print(&answer.text(table_width()))?,
    }
    let silent = args.max_silence.is_some_and(|t| answer.is_silent_for(t));
    Ok(if silent {
        Outcome::Above
    } else {
        Outcome::Done
    })
}
