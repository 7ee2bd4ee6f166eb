//! The line filled by several connections, by one, and by datagrams.

use super::{Run, plain};
use base::Duration;
use base::record::Direction;
use live::throughput::{self, Plan};

pub fn run(run: Run) -> anyhow::Result<()> {
    let words = run.words;
    let plan = Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        directions: match words.choice("direction") {
            "up" => vec![Direction::Up],
            "down" => vec![Direction::Down],
            _ => vec![Direction::Up, Direction::Down],
        },
        flows: words.count("flows") as u32,
        warm_up: words.duration("warm_up"),
        hold: words.duration("hold"),
        idle: words.duration("idle"),
    };
    run.errand(Duration::ZERO, |errand| {
        throughput::run(&plan, errand).map_err(plain)
    })
}
