//! How near every kind of probe comes to the truth of lines that it does not know: docs/book/probe/accuracy.md.
//!
//! `make accuracy` runs it: in virtual time over a grid of lines, then with the kernel's own packets over emulated ones, fifty
//! minutes on two processors. Names of kinds do those alone; `--virtual` leaves out the second part. `--random SEED COUNT`
//! draws links in virtual time instead (`make probe-draws`: docs/book/probe/random.md). The page goes to standard output,
//! progress and the time left to standard error.

mod bench;
mod cell;
mod cells;
mod kernel;
mod line;
mod random;
mod rows;

/// That of `draws`, which uses more of it.
#[path = "../draws/chance.rs"]
#[allow(dead_code)]
mod chance;

/// The tests' own.
#[path = "../../tests/networks/doubles"]
mod doubles {
    pub mod impostor;
    pub mod lines;
    pub mod network;
    pub mod planted;
    pub mod resolver;
    pub mod site;
}

use cell::{Cell, On};
use experiment::PROBES;
use std::panic::AssertUnwindSafe;
use std::process::ExitCode;
use std::sync::{Mutex, OnceLock};
use std::time::Instant;

/// What a cell with the kernel's own packets takes, s: to tell how long the rest will take.
fn about_s(kind: &str) -> f64 {
    match kind {
        "radio" | "envelope" => 260.0,
        "spacing" | "sizes" => 70.0,
        "check" | "path" | "burst" | "capacity" => 42.0,
        "collapse" => 33.0,
        "tcp" | "buffer" | "page" | "sweep" => 17.0,
        _ => 8.0,
    }
}

fn run(cell: &Cell) -> Result<rows::Said, String> {
    let run = || match &cell.on {
        On::Bench(line) => bench::run(&cell.probe, line),
        On::Link(line) => kernel::over_a_link(&cell.probe, line),
        On::Network { line, plants, .. } => kernel::in_a_network(&cell.probe, line, plants),
    };
    // What a network is made of ends a test where it cannot be made; here it ends a cell.
    std::panic::catch_unwind(AssertUnwindSafe(run))
        .unwrap_or_else(|_| Err("the network could not be made: see above".into()))
}

fn main() -> ExitCode {
    if let Err(e) = live::emulate::prepare() {
        eprintln!("{e}");
        return ExitCode::FAILURE;
    }
    let mut args: Vec<String> = std::env::args().skip(1).collect();
    if let Some(at) = args.iter().position(|a| a == "--random") {
        let number = |i: usize| args.get(at + i).and_then(|a| a.parse().ok());
        let (Some(seed), Some(count)) = (number(1), number(2)) else {
            eprintln!("--random takes a seed and a count: --random 7 200");
            return ExitCode::FAILURE;
        };
        args.drain(at..at + 3);
        random::page(seed, count, &args);
        return ExitCode::SUCCESS;
    }
    let (options, kinds): (Vec<_>, Vec<_>) = args.iter().partition(|a| a.starts_with('-'));
    let known = |k: &str| PROBES.iter().any(|p| p.entry.name == k);
    let unknown = kinds.iter().find(|k| !known(k));
    if let Some(what) = unknown.or(options.iter().find(|o| o.as_str() != "--virtual")) {
        let names: Vec<&str> = PROBES.iter().map(|p| p.entry.name).collect();
        eprintln!(
            "\"{what}\" is neither --virtual nor a kind: {}",
            names.join(", ")
        );
        return ExitCode::FAILURE;
    }
    let asked = |c: &Cell| kinds.is_empty() || kinds.iter().any(|k| k.as_str() == c.kind());
    let [bench, mut kernel] = cells::all();
    if !options.is_empty() {
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
    ExitCode::SUCCESS
}

/// Kinds that wait more than they send, and whose answer a busy machine does not change: they run beside the others.
const QUIET: [&str; 5] = ["radio", "nat", "ports", "middlebox", "ipv6"];

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
        On::Bench(_) => 1.0,
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
        let mut said = run(cell);
        // Once more where this machine was too busy to be the line.
        if let Ok(rows::Said {
            doubt: Some(why), ..
        }) = &said
        {
            eprintln!("  once more: {why}");
            said = run(cell);
        }
        let judged = match said {
            Ok(said) => rows::rows(cell, &said),
            Err(why) => (vec![rows::failed(cell, &why)], (0, cell.truths.len())),
        };
        let _ = slot.set(judged);
        print();
    }
}
