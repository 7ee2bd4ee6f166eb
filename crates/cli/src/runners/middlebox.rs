//! Boxes on the way that read, change or block.

use super::{Run, own};
use base::Duration;
use live::middlebox::{self, Plan};

pub fn run(mut run: Run) -> anyhow::Result<()> {
    let port = |key: &str| run.words.count(key) as u16;
    let plan = Plan {
        eicar: run.words.switch("eicar"),
        http_port: port("http"),
        dns_port: port("dns"),
    };
    run.afford("middlebox", plan.cost())?;
    if plan.eicar {
        eprintln!(
            "Fetches the EICAR test string, as you asked: harmless, but antivirus programs here and on the way will raise an alarm."
        );
    }
    let (peer, clock, rows) = (run.peer(), run.clock, run.rows.clone());
    let mut going_on = own(&mut run, Duration::from_secs(5));
    Ok(middlebox::run(&plan, &peer, clock, &rows, &mut going_on)?)
}
