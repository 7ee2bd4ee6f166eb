//! Pages in a browser, on the idle line and beside a load.

use super::Run;
use base::Duration;
use base::record::Direction;
use base::words::{Value, Words};
use live::craft::CraftError;
use live::page::{self, PageError, Plan};
use std::path::PathBuf;

pub fn run(run: Run) -> anyhow::Result<()> {
    let plan = plan(&run)?;
    run.errand(Duration::ZERO, |errand| {
        page::run(&plan, errand).map_err(|e| match e {
            // As itself, so that an interruption is known for one.
            PageError::Craft(e @ CraftError::Interrupted) => anyhow::Error::from(e),
            other => other.into(),
        })
    })
}

fn plan(run: &Run) -> anyhow::Result<Plan> {
    let words = run.words;
    let urls: Vec<String> = texts(words, "url");
    anyhow::ensure!(
        !urls.is_empty(),
        "which page? Name it, for example: tailback probe page:url=https://www.example.org/ SERVER"
    );
    let beside_load = words.list_if_set("loaded");
    let beside_load = beside_load.iter().filter_map(|v| match v {
        Value::Count(n) => Some(*n),
        _ => None,
    });
    Ok(Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        urls,
        iterations: words.count("iterations") as u32,
        loads: words.count("loads") as u32,
        beside_load: beside_load.collect(),
        directions: match words.choice("direction") {
            "up" => vec![Direction::Up],
            "down" => vec![Direction::Down],
            _ => vec![Direction::Up, Direction::Down],
        },
        flows: words.count("flows") as u32,
        settle: words.duration("settle"),
        patience: words.duration("patience"),
        browser: words.text_if_set("browser").map(|p| PathBuf::from(&*p)),
        trust: texts(words, "trust"),
    })
}

fn texts(words: &Words, key: &str) -> Vec<String> {
    let all = words.list_if_set(key);
    all.iter().map(ToString::to_string).collect()
}
