//! Which ports of the server can be reached.

use super::Run;
use analysis::probe::ports::Params;
use live::ports::{self, Plan};

/// Of either transport: the server opens 64 at once.
const MOST: usize = 256;

pub fn run(run: Run) -> anyhow::Result<()> {
    let list = |key: &str, mut all: Vec<u16>| -> anyhow::Result<Vec<u16>> {
        anyhow::ensure!(
            all.len() <= MOST,
            "{} ports for {key}, and at most {MOST} can be tried",
            all.len()
        );
        all.sort_unstable();
        all.dedup();
        Ok(all)
    };
    let params: Params = run.words.read();
    let plan = Plan {
        tcp: list("tcp", params.tcp)?,
        udp: list("udp", params.udp)?,
        patience: params.patience,
    };
    run.afford("ports", plan.cost())?;
    run.errand(plan.patience * 2, |errand| ports::run(&plan, errand))
}
