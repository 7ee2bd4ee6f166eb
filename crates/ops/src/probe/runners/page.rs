//! Pages in a browser, on the idle line and beside a load.

use super::Run;
use base::Duration;
use experiment::Failure as _;
use experiment::page::Params;
use live::page::{self, PageError, Plan};
use std::path::PathBuf;
use std::sync::Arc;

pub fn run(run: Run) -> anyhow::Result<()> {
    let plan = plan(&run)?;
    run.errand(Duration::ZERO, |errand| {
        page::run(&plan, errand).map_err(|e| match e {
            // As itself, so that an interruption is known for one.
            PageError::Craft(e) if e.interrupted() => anyhow::Error::from(e),
            other => other.into(),
        })
    })
}

fn plan(run: &Run) -> anyhow::Result<Plan> {
    let params: Params = run.words.read();
    anyhow::ensure!(
        !params.url.is_empty(),
        "which page? Name it, for example: tailback probe page:url=https://www.example.org/ SERVER"
    );
    let texts = |all: &[Arc<str>]| all.iter().map(ToString::to_string).collect();
    Ok(Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        urls: texts(&params.url),
        iterations: params.iterations,
        loads: params.loads,
        beside_load: params.loaded,
        directions: params.direction.directions().to_vec(),
        flows: params.flows,
        settle: params.settle,
        patience: params.patience,
        browser: params.browser.map(|p| PathBuf::from(&*p)),
        trust: texts(&params.trust),
    })
}
