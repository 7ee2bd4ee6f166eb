//! Which queue the analysis says simulated lines have, beside which they have: docs/book/which-queue.md.
//! `cargo run --release -p lab -- which-queue > docs/book/which-queue.md`; with `-v`, what
//! was said where it was wrong.

mod cells;
#[cfg(test)]
mod tests;

use analysis::answer::Discipline;
use cells::{Seen, TRUTHS, Truth, judged, right};

const RATES: [u64; 3] = [2, 10, 50];
const RTTS: [u64; 2] = [20, 100];
const FLOWS: [u64; 2] = [1, 4];
const SEEDS: u64 = 3;
const SAID: [Discipline; 5] = [
    Discipline::DropTail,
    Discipline::Aqm,
    Discipline::FairQueueing,
    Discipline::FairQueueingAqm,
    Discipline::CannotTell,
];

/// Arguments of `which-queue`.
#[derive(clap::Args)]
#[command(about = "Print the table of verdicts about simulated queues")]
pub struct Args {
    /// Tell every wrong verdict
    #[arg(short, long)]
    verbose: bool,
}

/// Prints the table.
pub fn run(args: &Args) {
    let verbose = args.verbose;
    print!("{}", include_str!("page.md"));
    let (mut all, mut told, mut wrong) = (0, 0, 0);
    for seen in Seen::ALL {
        println!(
            "\n## {}\n\n| it is | queue | drop-tail | AQM | fair queueing | fair queueing, AQM | cannot tell |\n|---|---|---|---|---|---|---|",
            seen.title()
        );
        for truth in TRUTHS {
            let mut counts = [0; 5];
            for (line, said) in lines(seen, truth) {
                counts[SAID
                    .iter()
                    .position(|s| *s == said.is)
                    .expect("one of them")] += 1;
                all += 1;
                told += u64::from(said.is != Discipline::CannotTell);
                if !right(truth, said.is) {
                    wrong += 1;
                    if verbose {
                        eprintln!("{} {} {line:?}: {said:?}", seen.title(), truth.queue);
                    }
                }
            }
            let cells: Vec<String> = counts
                .iter()
                .zip(SAID)
                .map(|(n, said)| match n {
                    0 => String::new(),
                    n if right(truth, said) => n.to_string(),
                    n => format!("**{n}**"),
                })
                .collect();
            println!(
                "| {} | {} | {} |",
                word(truth.is),
                truth.label(),
                cells.join(" | ")
            );
        }
    }
    println!("\n{all} recordings: {told} verdicts, {wrong} of them wrong.");
}

/// Verdicts about one queue on every line: (rate Mbit/s, round trip ms, flows, seed).
fn lines(
    seen: Seen,
    truth: &Truth,
) -> Vec<((u64, u64, u64, u64), analysis::answer::DisciplineGuess)> {
    let mut lines = Vec::new();
    for rate in RATES {
        for rtt in RTTS {
            for flows in FLOWS {
                lines.extend((1..=SEEDS).map(|seed| (rate, rtt, flows, seed)));
            }
        }
    }
    lines
        .into_iter()
        .map(|line| (line, judged(seen, truth, line.0, line.1, line.2, line.3)))
        .collect()
}

fn word(is: Discipline) -> &'static str {
    match is {
        Discipline::DropTail => "drop-tail",
        Discipline::Aqm => "AQM",
        Discipline::FairQueueing => "fair queueing",
        Discipline::FairQueueingAqm => "fair queueing, AQM",
        Discipline::Policer => "policer",
        Discipline::CannotTell => "cannot tell",
    }
}

impl Seen {
    const ALL: [Seen; 3] = [Seen::Test, Seen::Unmarked, Seen::Monitor];
    fn title(self) -> &'static str {
        match self {
            Seen::Test => {
                "A test: phases, the load's flows, 100 probes a second (20 on the slowest line)"
            }
            Seen::Unmarked => "The same without phases",
            Seen::Monitor => "A monitor: 10 probes a second and the interface's counters",
        }
    }
}

impl Truth {
    fn label(&self) -> String {
        let set: Vec<String> = self.set.iter().map(|(k, v)| format!("{k}={v}")).collect();
        match set.is_empty() {
            true => format!("`{}`", self.queue),
            false => format!("`{}`; {}", self.queue, set.join(", ")),
        }
    }
}
