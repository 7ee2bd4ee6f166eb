//! Twins of links drawn at random, in virtual time, judged against the truth: docs/book/twin-draws.md.
//!
//! `cargo run --release -p lab -- twin-draws --seed 1 --count 40`

mod beyond;
mod cures;
mod fits;
mod page;
mod wrong;

use crate::draws::family::{self, Draw, Kind};
use base::record::Recording;
use link::{DirectionSpec, RateSpec};
use std::sync::atomic::AtomicBool;
use twin::{Means, TwinError};

/// Arguments of `twin-draws`.
#[derive(clap::Args)]
#[command(about = "Fit twins to tests of random links whose truth is known, and judge them")]
pub struct Args {
    /// Seed of the draws
    #[arg(long, default_value_t = 1)]
    seed: u64,
    /// Links of each family
    #[arg(long, default_value_t = 40)]
    count: u64,
    /// Proofs without an effect
    #[arg(long, default_value_t = 200)]
    proofs: u64,
    /// Write the page here
    #[arg(long)]
    page: Option<std::path::PathBuf>,
    /// Print every fit
    #[arg(short, long)]
    verbose: bool,
    /// Threads of a fit
    #[arg(long, default_value_t = 2)]
    threads: usize,
    /// Judge this part alone, and write no page
    #[arg(long, value_enum, conflicts_with = "page")]
    only: Option<Part>,
}

/// Part of the page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Part {
    Fixed,
    Radio,
    Disciplines,
    Wrong,
    Beyond,
    Cures,
    Proofs,
}

/// Families of links, by what is asked of their twins.
const FIXED: &[&str] = &["clean"];
const RADIO: &[&str] = &["cellular", "rate steps", "rate walk"];
const DISCIPLINES: &[&str] = &["discipline"];

/// Draws and judges.
///
/// # Errors
/// A page that cannot be written.
pub fn run(args: &Args) -> anyhow::Result<()> {
    let wanted = |part: Part| args.only.is_none_or(|only| only == part);
    let fits = |part: Part, families: &[&str]| match wanted(part) {
        true => fits::fits(args, families),
        false => Ok(fits::Fits::default()),
    };
    let fixed = fits(Part::Fixed, FIXED)?;
    let radio = fits(Part::Radio, RADIO)?;
    let disciplines = fits(Part::Disciplines, DISCIPLINES)?;
    let wrong = match wanted(Part::Wrong) {
        true => wrong::caught(args)?,
        false => Vec::new(),
    };
    let beyond = match wanted(Part::Beyond) {
        true => beyond::beyond(args)?,
        false => Vec::new(),
    };
    let cures = match wanted(Part::Cures) {
        true => [
            cures::agreement(args, FIXED)?,
            cures::agreement(args, RADIO)?,
        ],
        false => Default::default(),
    };
    let false_positives = match wanted(Part::Proofs) {
        true => cures::without_effect(args)?,
        false => 0,
    };
    let text = page::page(
        args,
        &[
            ("fixed links", &fixed),
            ("radio links", &radio),
            ("disciplines", &disciplines),
        ],
        (&wrong, &beyond),
        &cures,
        false_positives,
    );
    match &args.page {
        Some(path) => std::fs::write(path, text)?,
        None => print!("{text}"),
    }
    Ok(())
}

/// Draws of these families, as many as are asked for of all of them together.
fn drawn(args: &Args, families: &[&str]) -> anyhow::Result<Vec<Draw>> {
    let each = args.count.div_ceil(families.len() as u64);
    let mut all = Vec::new();
    for name in families {
        for number in family::numbers(args.seed, each, Kind::Virtual, Some(name))? {
            all.push(family::draw(args.seed, number, Kind::Virtual));
        }
    }
    Ok(all)
}

/// Recording of the test over a draw, and over a second bottleneck before it.
fn record(draw: &Draw, router: Option<link::LinkSpec>) -> anyhow::Result<Recording> {
    let plan = sim::bufferbloat::Plan {
        router,
        ..crate::draws::virtual_time::plan(draw)
    };
    Ok(sim::bufferbloat::run(&plan)?.recording)
}

/// Calls with the means of a fit.
fn with_means<T>(
    args: &Args,
    seed: u64,
    call: impl FnOnce(&Means) -> Result<T, TwinError>,
) -> Result<T, TwinError> {
    call(&Means {
        threads: args.threads,
        seed,
        stop: &AtomicBool::new(false),
        progress: &|_| {},
    })
}

/// Processor time of this process so far, s: a busy machine does not lengthen it.
fn processor_s() -> f64 {
    let usage = nix::sys::resource::getrusage(nix::sys::resource::UsageWho::RUSAGE_SELF);
    let seconds = |t: nix::sys::time::TimeVal| t.tv_sec() as f64 + t.tv_usec() as f64 / 1e6;
    usage.map_or(0.0, |u| seconds(u.user_time()) + seconds(u.system_time()))
}

/// Mean rate of a direction, bit/s.
fn mean_bps(spec: &DirectionSpec) -> f64 {
    match &spec.rate {
        RateSpec::Fixed(rate) => rate.get() as f64,
        _ => spec.params().map_or(0.0, |p| p.rate.mean().get() as f64),
    }
}
