//! Which ports of the server can be reached.

use super::{Run, own};
use base::words::Value;
use live::ports::{self, Plan};

/// Of either transport: the server opens 64 at once.
const MOST: usize = 256;

pub fn run(mut run: Run) -> anyhow::Result<()> {
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
    let (peer, clock, rows) = (run.peer(), run.clock, run.rows.clone());
    let whole = plan.patience * 2;
    Ok(ports::run(
        &plan,
        &peer,
        clock,
        &rows,
        &mut own(&mut run, whole),
    )?)
}
