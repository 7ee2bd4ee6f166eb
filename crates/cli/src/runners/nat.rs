//! How addresses are translated on the way to the server.

use super::Run;
use live::nat::{self, Plan};

pub fn run(run: Run) -> anyhow::Result<()> {
    let plan = Plan {
        sockets: run.words.count("sockets") as u32,
        during: run.words.duration("during"),
        lifetime: run.words.duration_if_set("lifetime"),
    };
    run.afford("nat", plan.cost())?;
    run.errand(plan.time(), |errand| nat::run(&plan, errand))
}
