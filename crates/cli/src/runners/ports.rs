//! Which ports of the server can be reached.

use super::Run;
use base::words::Value;
use live::ports::{self, Plan};

/// Of either transport: the server opens 64 at once.
const MOST: usize = 256;

pub fn run(run: Run) -> anyhow::Result<()> {
    let list = |key: &str| -> anyhow::Result<Vec<u16>> {
        let values = run.words.list(key);
        anyhow::ensure!(
            values.len() <= MOST,
            "{} ports for {key}, and at most {MOST} can be tried",
            values.len()
        );
        let number = |v: &Value| match v {
            Value::Count(n) => u16::try_from(*n).ok(),
            _ => None,
        };
        let mut all: Vec<u16> = values.iter().filter_map(number).collect();
        all.sort_unstable();
        all.dedup();
        Ok(all)
    };
    let plan = Plan {
        tcp: list("tcp")?,
        udp: list("udp")?,
        patience: run.words.duration("patience"),
    };
    run.afford("ports", plan.cost())?;
    run.errand(plan.patience * 2, |errand| ports::run(&plan, errand))
}
