//! Both versions of IP to the same server.

use super::Run;
use experiment::ipv6::Params;
use live::ipv6::{self, Plan};

pub fn run(run: Run) -> anyhow::Result<()> {
    let Params {
        count,
        interval,
        within,
    } = run.words.read();
    let plan = Plan {
        count,
        interval,
        within,
    };
    run.afford("ipv6", plan.cost())?;
    let whole = plan.interval * u64::from(plan.count);
    run.errand(whole, |errand| ipv6::run(&plan, errand))
}
