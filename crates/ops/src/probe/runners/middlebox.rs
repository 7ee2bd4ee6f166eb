//! Boxes on the way that read, change or block.

use super::Run;
use base::Duration;
use base::words::Words;
use experiment::middlebox::Params;
use live::middlebox::{self, Plan};

/// Warning about what the kind fetches.
pub fn warning(words: &Words) -> Option<&'static str> {
    words.read::<Params>().eicar.then_some(
        "fetches the EICAR test string, as you asked: harmless, but antivirus programs here and on the way will raise an alarm",
    )
}

pub fn run(run: Run) -> anyhow::Result<()> {
    let Params { eicar, http, dns } = run.words.read();
    let plan = Plan {
        eicar,
        http_port: http,
        dns_port: dns,
    };
    run.afford("middlebox", plan.cost())?;
    run.errand(Duration::from_secs(5), |errand| {
        middlebox::run(&plan, errand)
    })
}
