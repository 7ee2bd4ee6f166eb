//! Runs of `tailback control` that are killed at random moments: the kernel has to restore the interface each time.

use crate::chance::Chance;
use anyhow::{Context, ensure};
use nix::sys::signal::Signal;
use std::time::{Duration, Instant};
use testkit::networks::house::{House, Modem, end};

/// Longest time from the start of a run until it is killed.
const LONGEST: Duration = Duration::from_millis(1500);
/// Time within which the interface has to be restored.
const RESTORED: Duration = Duration::from_millis(100);

/// Kills `count` runs, and prints how long each restoration took.
///
/// # Errors
/// An interface that is not restored in time.
pub fn run(seed: u64, count: u64) -> anyhow::Result<()> {
    let mut chance = Chance::new(seed, "gateway/kills");
    let program = crate::program()?;
    let house = House::build(&program, &Modem::fixed(20e6, 5.0));
    let house = house.context("no network namespaces here")?;
    let server = house.serve();
    let far = live::emulate::FAR_V4.to_string();
    let (mut took, mut attached) = (Vec::new(), 0);
    for number in 0..count {
        let name = format!("{number}.rec");
        let run = [
            "run",
            "--wan",
            testkit::networks::house::WAN,
            "--server",
            &far,
        ];
        let child = house
            .command(&run)
            .args(["--apply", "--quiet", "-o", &name])
            .spawn()?;
        std::thread::sleep(LONGEST.mul_f64(chance.unit()));
        attached += u64::from(!house.programs().is_empty());
        let began = Instant::now();
        end(child, Signal::SIGKILL);
        while !house.programs().is_empty() {
            ensure!(
                began.elapsed() < RESTORED,
                "run {number} was not restored in {RESTORED:?}"
            );
        }
        took.push(began.elapsed().as_secs_f64() * 1e3);
        std::fs::remove_dir_all(house.dir.join(&name)).ok();
    }
    server.stop();
    took.sort_by(f64::total_cmp);
    let at = |share: f64| took[((took.len() - 1) as f64 * share) as usize];
    println!(
        "\n{count} runs killed at random moments, {attached} of them while the program was attached: all restored; p50 {:.1}, p95 {:.1}, longest {:.1} ms.",
        at(0.5),
        at(0.95),
        at(1.0)
    );
    Ok(())
}
