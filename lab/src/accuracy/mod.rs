//! Accuracy of every kind of probe over links whose truth it does not know: docs/book/probe/accuracy.md.
//!
//! `make accuracy` runs it: in virtual time over a grid of lines, then with the kernel's own packets over emulated ones, fifty
//! minutes on two processors. Names of kinds do those alone; `--virtual` leaves out the second part. `probe-draws`
//! draws links in virtual time instead (`make probe-draws`: docs/book/probe/random.md). The page goes to standard output,
//! progress and the time left to standard error.

mod around;
mod bench;
mod cell;
mod cells;
mod kernel;
mod line;
mod random;
mod rows;
mod simulated;

use cell::{Cell, On};
use experiment::PROBES;
use sim::bufferbloat::Network;
use std::panic::AssertUnwindSafe;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// Duration of a cell with the kernel's own packets, s: the remaining time follows from it.
fn about_s(kind: &str) -> f64 {
    match kind {
        "radio" | "envelope" => 260.0,
        "spacing" | "sizes" => 70.0,
        "check" | "path" | "burst" | "capacity" => 42.0,
        "l4s" | "nqb" => 25.0,
        "quic" => 80.0,
        "collapse" => 33.0,
        "tcp" | "buffer" | "page" | "sweep" => 17.0,
        _ => 8.0,
    }
}

fn run_cell(cell: &Cell) -> Result<rows::Said, String> {
    let run = || match &cell.on {
        On::Bench(line) => bench::run(&cell.probe, line),
        On::Simulated(line) => simulated::run(&cell.probe, line, Network::default(), 1),
        On::Around(line, network) => simulated::run(&cell.probe, line, Network::clone(network), 1),
        On::Link(line) => kernel::over_a_link(&cell.probe, line),
        On::Network { line, plants, .. } => kernel::in_a_network(&cell.probe, line, plants),
    };
    // What a network is made of ends a test where it cannot be made; here it ends a cell.
    std::panic::catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err("the network could not be made: see above".into()))
}

/// Arguments of `accuracy`.
#[derive(clap::Args)]
#[command(about = "Run every kind of probe over lines whose truth is known, and print the table")]
pub struct Args {
    /// Kinds of probe to run [default: all]
    kinds: Vec<String>,
    /// Leave out the lines with the kernel's own packets
    #[arg(long = "virtual")]
    in_virtual_time: bool,
}

/// Arguments of `probe-draws`.
#[derive(clap::Args)]
#[command(about = "Run kinds of probe over random links in virtual time, and print the table")]
pub struct DrawArgs {
    /// Kinds of probe to run [default: all]
    kinds: Vec<String>,
    /// Seed of the draws
    #[arg(long)]
    seed: u64,
    /// Number of links
    #[arg(long)]
    count: u64,
}

/// # Errors
/// A kind that is not known.
fn known(kinds: &[String]) -> anyhow::Result<()> {
    let names: Vec<&str> = PROBES.iter().map(|p| p.entry.name).collect();
    match kinds.iter().find(|k| !names.contains(&k.as_str())) {
        Some(what) => Err(ops::usage(format!(
            "\"{what}\" is no kind: {}",
            names.join(", ")
        ))),
        None => Ok(()),
    }
}

/// Prints the table of random links.
///
/// # Errors
/// A kind that is not known.
pub fn draws(args: &DrawArgs) -> anyhow::Result<()> {
    known(&args.kinds)?;
    random::page(args.seed, args.count, &args.kinds);
    Ok(())
}

/// Prints the table of accuracy.
///
/// # Errors
/// A kind that is not known, a host that allows no namespaces.
pub fn run(args: &Args) -> anyhow::Result<()> {
    known(&args.kinds)?;
    let kinds = &args.kinds;
    let asked = |c: &Cell| kinds.is_empty() || kinds.iter().any(|k| k.as_str() == c.kind());
    let [bench, mut kernel] = cells::all();
    if args.in_virtual_time {
        kernel.clear();
    }
    print!("{}", include_str!("page.md"));
    let mut whole = (0, 0);
    for (title, cells) in [
        ("In virtual time", bench),
        ("With the kernel's own packets", kernel),
    ] {
        let cells: Vec<Cell> = cells.into_iter().filter(asked).collect();
        if !cells.is_empty() {
            println!("\n## {title}\n\n{}", rows::HEAD);
            let (held, of) = all(&cells);
            whole = (whole.0 + held, whole.1 + of);
        }
    }
    eprintln!("{} of {} are within.", whole.0, whole.1);
    Ok(())
}

/// Kinds that wait more than they send, and whose answer a busy machine does not change: they run beside the others.
const QUIET: [&str; 6] = ["radio", "nat", "ports", "middlebox", "ipv6", "ecn"];

/// Rows of a cell, and how many of its truths hold, of how many.
type Judged = (Vec<String>, (usize, usize));

/// Prints their rows, in their order; how many truths hold, of how many.
fn all(cells: &[Cell]) -> (usize, usize) {
    let done: Vec<OnceLock<Judged>> = cells.iter().map(|_| OnceLock::new()).collect();
    let printed = Mutex::new(0);
    let print = || {
        let mut printed = printed.lock().expect("nobody panics while printing");
        while let Some((rows, _)) = done.get(*printed).and_then(OnceLock::get) {
            println!("{}", rows.join("\n"));
            *printed += 1;
        }
    };
    let quiet = |c: &Cell| QUIET.contains(&c.kind());
    std::thread::scope(|s| {
        s.spawn(|| lane(cells, &done, quiet, print));
        lane(cells, &done, |c| !quiet(c), print);
    });
    let judged = done.iter().filter_map(OnceLock::get);
    judged.fold((0, 0), |sum, (_, of)| (sum.0 + of.0, sum.1 + of.1))
}

/// Runs these, one after the other.
fn lane(
    cells: &[Cell],
    done: &[OnceLock<Judged>],
    takes: impl Fn(&Cell) -> bool,
    print: impl Fn(),
) {
    let began = Instant::now();
    let cost = |c: &Cell| match c.on {
        On::Bench(_) | On::Simulated(_) | On::Around(..) => 1.0,
        _ => about_s(c.kind()),
    };
    let ours = || cells.iter().zip(done).filter(|(c, _)| takes(c));
    let whole: f64 = ours().map(|(c, _)| cost(c)).sum();
    let mut passed = 0.0;
    for (cell, slot) in ours() {
        let so_far = began.elapsed().as_secs_f64();
        // What was expected, until half a minute tells how fast this machine is.
        let pace = if so_far > 30.0 { so_far / passed } else { 1.0 };
        let left = ((whole - passed) * pace / 60.0).ceil();
        eprintln!("[{left} min left] {}: {}", cell.probe, cell.place());
        passed += cost(cell);
        let mut said = run_cell(cell);
        // Once more where this machine was too busy to be the line.
        if let Ok(rows::Said {
            doubt: Some(why), ..
        }) = &said
        {
            eprintln!("  once more: {why}");
            said = run_cell(cell);
        }
        let judged = match said {
            Ok(said) => rows::rows(cell, &said),
            Err(why) => (vec![rows::failed(cell, &why)], (0, cell.truths.len())),
        };
        let _ = slot.set(judged);
        print();
    }
}
