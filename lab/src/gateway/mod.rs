//! Latency control at a gateway over drawn links, beside its rivals: the tables of docs/book/control.md.
//!
//! `cargo run --release -p lab -- gateway --seed 1 --virtual 60 --namespaces 6`

mod autorate;
mod family;
mod hours;
mod kills;
mod namespaces;
mod virtual_time;

use family::{Draw, Family};
use std::fmt::Write as _;
use testkit::networks::house::Seen;

/// Arguments of `gateway`.
#[derive(clap::Args)]
#[command(about = "Run latency control over drawn links, beside its rivals, and print the figures")]
pub struct Args {
    /// Seed of the draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Links of each family in virtual time
    #[arg(long = "virtual", default_value_t = 0)]
    in_virtual_time: u64,
    /// Links of each family over network namespaces, in real time
    #[arg(long, default_value_t = 0)]
    namespaces: u64,
    /// Runs that are killed at random moments
    #[arg(long, default_value_t = 0)]
    kills: u64,
    /// Hours of a household behind drawn links, in virtual time
    #[arg(long, default_value_t = 0)]
    hours: u64,
    /// Number of the first of these hours, to go on with them
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// Draw links of this family alone: fixed, halved or walk
    #[arg(long)]
    family: Option<Family>,
    /// Print every run
    #[arg(short, long)]
    verbose: bool,
}

/// Controls that are compared: the name of each, and the law of those that are ours.
const OURS: [&str; 2] = ["sawtooth", "pie"];

/// Figures of one run.
struct Figures {
    control: &'static str,
    seen: Seen,
    /// Time above twice the target after the capacity was halved, ms.
    above_ms: Option<f64>,
    /// Processor time over the length of the run, and resident memory in MB, of `tailback control`.
    cost: Option<(f64, f64)>,
}

/// Runs of one link under all controls.
type Run = fn(&Draw) -> anyhow::Result<Vec<Figures>>;

/// Twice the target of 20 ms.
const LONG_MS: f64 = 40.0;

/// Time that samples (time in s, wait in ms) spend above [`LONG_MS`] from `from_s` on, ms.
fn above_ms(samples: &[(f64, f64)], from_s: f64) -> f64 {
    let pairs = samples.iter().zip(samples.iter().skip(1));
    let long = pairs.filter(|(a, _)| a.0 >= from_s && a.1 > LONG_MS);
    long.fold(0.0, |sum, (a, b)| sum + (b.0 - a.0) * 1e3)
}

/// Runs what is asked for.
///
/// # Errors
/// A run that fails, or a host that allows no namespaces.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let families: Vec<Family> = match args.family {
        Some(family) => vec![family],
        None => Family::ALL.to_vec(),
    };
    println!("Seed {}.", args.seed);
    let runs: [(&str, u64, Run); 2] = [
        ("virtual time", args.in_virtual_time, virtual_time::figures),
        ("network namespaces", args.namespaces, namespaces::figures),
    ];
    for (place, count, figures) in runs {
        for &family in families.iter().filter(|_| count > 0) {
            let mut all = Vec::new();
            for number in 0..count {
                let draw = family::draw(args.seed, number, family);
                let these = figures(&draw)?;
                if args.verbose {
                    these
                        .iter()
                        .for_each(|f| eprintln!("{number} {draw}: {}", line(f)));
                }
                all.extend(these);
            }
            print!("\n{} links, {family}, {place}:\n\n{}", count, table(&all));
        }
    }
    if args.hours > 0 {
        hours::run(args.seed, args.from..args.from + args.hours, args.verbose)?;
    }
    if args.kills > 0 {
        kills::run(args.seed, args.kills)?;
    }
    Ok(())
}

fn line(f: &Figures) -> String {
    let above = f
        .above_ms
        .map(|a| format!(", {a:.0} ms above {LONG_MS:.0} ms"));
    let cost = (f.cost).map(|(cpu, mb)| format!(", {:.2} % of a core, {mb:.1} MB", 100.0 * cpu));
    format!(
        "{}: {}{}{}",
        f.control,
        f.seen,
        above.unwrap_or_default(),
        cost.unwrap_or_default()
    )
}

/// Row of each control: median and worst of all runs.
fn table(all: &[Figures]) -> String {
    let mut out = String::from(
        "| control | use: median, least | p50 | p95: median, worst | peak: median, worst | above 40 ms after halving: median, worst | processor, memory |\n|---|---|---|---|---|---|---|\n",
    );
    let mut names: Vec<&str> = Vec::new();
    for f in all {
        if !names.contains(&f.control) {
            names.push(f.control);
        }
    }
    for name in names {
        let these = || all.iter().filter(|f| f.control == name);
        let of = |figure: &dyn Fn(&Figures) -> Option<f64>| {
            let mut all: Vec<f64> = these().filter_map(figure).collect();
            all.sort_by(f64::total_cmp);
            let median = all.get(all.len() / 2).copied();
            median.zip(all.first().copied()).zip(all.last().copied())
        };
        let middle = |v: Option<((f64, f64), f64)>, unit: &str, least: bool| match v {
            Some(((median, low), high)) => {
                format!("{median:.1}, {:.1}{unit}", if least { low } else { high })
            }
            None => String::new(),
        };
        let used = middle(of(&|f| Some(100.0 * f.seen.used)), " %", true);
        let p50 = of(&|f| Some(f.seen.p50_ms)).map_or(0.0, |v| v.0.0);
        let p95 = middle(of(&|f| Some(f.seen.p95_ms)), " ms", false);
        let peak = middle(of(&|f| Some(f.seen.peak_ms)), " ms", false);
        let above = middle(of(&|f| f.above_ms), " ms", false);
        let cpu = of(&|f| f.cost.map(|c| 100.0 * c.0)).zip(of(&|f| f.cost.map(|c| c.1)));
        let cost = cpu.map_or(String::new(), |(cpu, mb)| {
            format!("{:.2} %, {:.1} MB", cpu.0.0, mb.1)
        });
        let _ = writeln!(
            out,
            "| {name} | {used} | {p50:.1} ms | {p95} | {peak} | {above} | {cost} |"
        );
    }
    out
}
