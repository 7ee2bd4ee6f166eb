//! `tailback report`: pictures of a recording.

use super::{analyse, usage, write_file};
use crate::Outcome;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Draw a recording: one HTML page, or single plots as SVG",
    after_help = "The format follows the ending of --output: .html for the page, .svg for a plot."
)]
pub struct Args {
    /// The recording
    #[arg(value_name = "RECORDING")]
    recording: PathBuf,
    /// Which plot, for SVG
    #[arg(long, value_enum, default_value_t = Plot::Rtt)]
    plot: Plot,
    /// Where it goes [default: report.html in the recording]
    #[arg(short, long, value_name = "FILE")]
    output: Option<PathBuf>,
}

#[derive(Clone, Copy, clap::ValueEnum)]
enum Plot {
    /// Round trips over time, with traffic
    Rtt,
    /// Distribution of round trips, idle against loaded
    Cdf,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let (recording, answer) = analyse::load(&args.recording)?;
    let output = args
        .output
        .unwrap_or_else(|| args.recording.join("report.html"));
    let text = match output.extension().and_then(|e| e.to_str()) {
        Some("html") => report::html::page(&answer, &recording),
        Some("svg") => match args.plot {
            Plot::Rtt => report::svg::rtt_over_time(&answer, &recording),
            Plot::Cdf => report::svg::cdf(&answer, &recording),
        },
        _ => {
            return Err(usage(format!(
                "{}: end the name in .html or .svg",
                output.display()
            )));
        }
    };
    write_file(&output, &text)?;
    eprintln!("{}", output.display());
    Ok(Outcome::Done)
}
