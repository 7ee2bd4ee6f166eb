//! Arguments of `reproduce`, and what it prints.

use super::{Answer, Plan};
use crate::console::Console;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Run figures and tables of documents again, and compare with what is printed",
    long_about = "Runs figures and tables of documents again, compares what comes out with what is printed, and says how far it agrees. \
        Without an ID it lists all there are.",
    after_help = "Examples:\n  tailback-lab reproduce\n  tailback-lab reproduce borlaug-2014/figure-9\n  \
        tailback-lab reproduce borlaug-2014/figure-9 -o figures\n  tailback-lab reproduce --all -o docs/book/gallery"
)]
pub struct Args {
    /// Which, such as borlaug-2014/figure-9; part of one takes all that begin so
    #[arg(value_name = "ID")]
    ids: Vec<String>,
    /// All of them
    #[arg(long, conflicts_with = "ids")]
    all: bool,
    /// Write a page with plots for each, and an index
    #[arg(short, long, value_name = "DIR")]
    output: Option<PathBuf>,
    /// Print the comparison as JSON
    #[arg(long)]
    json: bool,
    /// Cores to use [default: all]
    #[arg(long, value_name = "N")]
    threads: Option<usize>,
}

/// Makes the figures that are asked for; returns false if one of them does not agree as its file declares.
///
/// # Errors
/// Errors of [`super::run`]; standard output that cannot be written; an interrupt.
pub fn run(args: Args) -> anyhow::Result<bool> {
    let plan = Plan {
        ids: args.ids,
        all: args.all,
        output: args.output,
        threads: args.threads,
    };
    let answer = super::run(&plan, &mut Console::default())?;
    anyhow::ensure!(
        !matches!(answer, Answer::Interrupted),
        "ended early; nothing was compared"
    );
    let text = match args.json {
        true => format!("{:#}\n", answer.json()),
        false => answer.text(120),
    };
    std::io::stdout().write_all(text.as_bytes())?;
    Ok(!matches!(
        answer,
        Answer::Compared {
            as_declared: false,
            ..
        }
    ))
}
