//! The line filled by several connections, by one, and by datagrams.

use super::{Run, plain};
use analysis::probe::throughput::Params;
use base::Duration;
use live::throughput::{self, Plan};

pub fn run(run: Run) -> anyhow::Result<()> {
    let params: Params = run.words.read();
    let plan = Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        directions: params.direction.directions().to_vec(),
        flows: params.flows,
        warm_up: params.warm_up,
        hold: params.hold,
        idle: params.idle,
    };
    run.errand(Duration::ZERO, |errand| {
        throughput::run(&plan, errand).map_err(plain)
    })
}
