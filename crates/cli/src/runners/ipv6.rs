//! Both versions of IP to the same server.

use super::Run;
use live::ipv6::{self, Plan};

pub fn run(run: Run) -> anyhow::Result<()> {
    let plan = Plan {
        count: run.words.count("count") as u32,
        interval: run.words.duration("interval"),
        within: run.words.duration("within"),
    };
    run.afford("ipv6", plan.cost())?;
    let whole = plan.interval * u64::from(plan.count);
    run.errand(whole, |errand| ipv6::run(&plan, errand))
}
