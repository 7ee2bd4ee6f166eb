//! How addresses are translated on the way to the server.

use super::Run;
use analysis::probe::nat::Params;
use live::nat::{self, Plan};

pub fn run(run: Run) -> anyhow::Result<()> {
    let Params {
        sockets,
        during,
        lifetime,
    } = run.words.read();
    let plan = Plan {
        sockets,
        during,
        lifetime,
    };
    run.afford("nat", plan.cost())?;
    run.errand(plan.time(), |errand| nat::run(&plan, errand))
}
