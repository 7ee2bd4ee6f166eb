//! `tailback reproduce`: figures and tables of documents, run again and set beside what is printed.

use super::{print, print_json, table_width};
use crate::Outcome;
use crate::console::Console;
use ops::reproduce::{Answer, Plan};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Run figures and tables of documents again, and compare with what is printed",
    long_about = "Runs figures and tables of documents again, compares what comes out with what is printed, and says how far it agrees. \
        Without an ID it lists all there are.",
    after_help = "Examples:\n  tailback reproduce\n  tailback reproduce 000/figure-9\n  \
        tailback reproduce 000/figure-9 -o figures\n  tailback reproduce --all -o docs/book/gallery"
)]
pub struct Args {
    /// Which, such as 000/figure-9; part of one takes all that begin so
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

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plan = Plan {
        ids: args.ids,
        all: args.all,
        output: args.output,
        threads: args.threads,
    };
    carry_out(&plan, args.json)
}

/// Makes a plan's figures, and tells whether they agree as declared.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::reproduce::run(plan, &mut Console::new(false))?;
    if matches!(answer, Answer::Interrupted) {
        eprintln!("tailback: ended early; nothing was compared");
        return Ok(Outcome::CouldNotMeasure);
    }
    match json {
        true => print_json(&answer.json())?,
        false => print(&answer.text(table_width()))?,
    }
    Ok(match answer {
        Answer::Compared {
            as_declared: false, ..
        } => Outcome::Above,
        _ => Outcome::Done,
    })
}
