//! `tailback analyse`: what a recording says.

use super::{print, stdout_style};
use crate::Outcome;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(about = "Say what a recording shows, also one that was cut short")]
pub struct Args {
    /// The recording
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Print the answer as JSON instead of text
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let (recording, answer) = load(&args.recording)?;
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
    } else {
        print(&report::terminal::text(&answer, &recording, stdout_style()))?;
    }
    Ok(Outcome::Done)
}

pub fn load(
    path: &std::path::Path,
) -> anyhow::Result<(base::record::Recording, analysis::answer::Answer)> {
    let (recording, notes) = store::read_noting(path)?;
    for note in notes {
        eprintln!("{}: {note}", path.display());
    }
    let answer = analysis::analyse_test(&recording, &analysis::Options::default())?;
    Ok((recording, answer))
}
