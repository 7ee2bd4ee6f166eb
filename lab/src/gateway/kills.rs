//! Runs of `tailback control` that are killed at random moments: the kernel has to restore the interface each time.

use crate::chance::Chance;
use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use testkit::networks::house::{House, Modem, WAN, end};

/// Longest time from the attachment of the program until its run is killed.
const LONGEST: Duration = Duration::from_millis(500);
/// Runs for which one server has sessions.
const FEW: u64 = 10;
/// Time within which the program has to be attached, and the interface to be restored.
const ATTACHED: Duration = Duration::from_secs(30);
const RESTORED: Duration = Duration::from_secs(2);

/// Kills `count` runs at random moments after their programs were attached, and prints how long each restoration took.
///
/// # Errors
/// A run that does not attach its program, or an interface that is not restored.
pub fn run(seed: u64, count: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed, "gateway/kills");
    let program = crate::program()?;
    let house = House::build(&program, &Modem::fixed(20e6, 5.0));
    let house = house.context("no network namespaces here")?;
    let mut server = house.serve();
    let mut took = Vec::new();
    for number in 0..count {
        if number % FEW == FEW - 1 {
            // A killed run does not take its leave, and the server keeps its session for a minute.
            server.stop();
            server = house.serve();
        }
        took.push(kill(&house, number, LONGEST.mul_f64(chance.unit()))?);
    }
    server.stop();
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    let late = took.iter().filter(|t| **t > 100.0).count();
    println!(
        "\n{count} runs killed at random moments while their programs were attached: all restored; p50 {:.1}, p95 {:.1}, longest {:.1} ms, {late} above 100 ms.",
        at(0.5),
        at(0.95),
        at(1.0)
    );
    Ok(())
}

/// Starts a run, kills it `after` its program was attached, and returns the time until it is detached, ms.
fn kill(house: &House, number: u64, after: Duration) -> anyhow::Result<f64> {
    let far = live::emulate::FAR_V4.to_string();
    let name = format!("{number}.rec");
    let args = ["run", "--wan", WAN, "--server", &far, "--apply", "--quiet"];
    let child = house.command(&args).args(["-o", &name]).spawn()?;
    let began = Instant::now();
    while house.programs().is_empty() {
        ensure!(began.elapsed() < ATTACHED, "run {number} did not attach");
        std::thread::sleep(Duration::from_millis(2));
    }
    std::thread::sleep(after);
    ensure!(!house.programs().is_empty(), "run {number} ended by itself");
    let began = Instant::now();
    end(child, Signal::SIGKILL);
    while !house.programs().is_empty() {
        ensure!(
            began.elapsed() < RESTORED,
            "run {number} was not restored in {RESTORED:?}"
        );
    }
    let took_ms = began.elapsed().as_secs_f64() * 1e3;
    std::fs::remove_dir_all(house.dir.join(&name)).ok();
    Ok(took_ms)
}
