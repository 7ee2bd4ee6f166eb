//! Both versions of IP to the same server.

use super::{Run, own};
use live::ipv6::{self, Plan};

pub fn run(mut run: Run) -> anyhow::Result<()> {
    let plan = Plan {
        count: run.words.count("count") as u32,
        interval: run.words.duration("interval"),
    };
    run.afford("ipv6", plan.cost())?;
    let (peer, clock, rows) = (run.peer(), run.clock, run.rows.clone());
    let whole = plan.interval * u64::from(plan.count);
    Ok(ipv6::run(
        &plan,
        &peer,
        clock,
        &rows,
        &mut own(&mut run, whole),
    )?)
}
