//! How addresses are translated on the way to the server.

use super::{Run, own};
use live::nat::{self, Plan};

pub fn run(mut run: Run) -> anyhow::Result<()> {
    let plan = Plan {
        sockets: run.words.count("sockets") as u32,
        during: run.words.duration("during"),
    };
    run.afford("nat", plan.cost())?;
    let (peer, clock, rows) = (run.peer(), run.clock, run.rows.clone());
    let whole = plan.during;
    Ok(nat::run(
        &plan,
        &peer,
        clock,
        &rows,
        &mut own(&mut run, whole),
    )?)
}
