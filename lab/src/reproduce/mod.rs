//! `tailback-lab reproduce`: figures and tables of documents, run again and set beside what is printed.

mod calculate;
mod contents;
mod crafted;
mod gallery;
mod hidden_queue;
mod reproduction;
pub mod verb;

use base::Time;
use base::record::Recording;
use base::words::nearest;
use contents::{Contents, Found, contents, find};
use ops::{Event, Observer, Progress, Shared, threads, usage, write_file};
use report::table::{Column, Table};
use reproduction::{Case, Comparison, Reproduction, Run, in_words, overall};
use serde::{Deserialize, Serialize};
use sim::Estimate;
use sim::ScenarioError;
use sim::batch::{figures, in_parallel};
use sim::document::{PlotKind, State};
use sim::journey::{Journey, journeys};
use sim::sequence::{Departure, departures};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Every scenario of a document by its ID, such as `borlaug-2014/figure-9`.
const FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/reproductions.rs"));

/// Figures and tables to make again.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Plan {
    /// IDs such as borlaug-2014/figure-9, or their beginnings; a list of all where there is none.
    pub ids: Vec<String>,
    /// True to make all of them.
    pub all: bool,
    /// Directory of pages with plots, and of an index.
    pub output: Option<PathBuf>,
    pub threads: Option<usize>,
}

/// Figures beside those that are printed.
pub enum Answer {
    /// All that can be made.
    List(Vec<Item>),
    Compared {
        judged: Vec<Judged>,
        /// True if every item agrees as its file declares.
        as_declared: bool,
    },
    /// The run was interrupted: nothing was compared.
    Interrupted,
}

/// One item with its comparison.
pub struct Judged {
    item: Item,
    compared: Vec<Comparison>,
    state: State,
}

/// One of the files.
#[derive(Clone)]
pub struct Item {
    pub id: &'static str,
    pub reproduction: Reproduction,
}

/// Results of the runs of one item.
#[derive(Default)]
pub struct Yield {
    figures: BTreeMap<Case, Vec<BTreeMap<String, f64>>>,
    pub recordings: BTreeMap<Case, Recording>,
    pub departures: BTreeMap<Case, Vec<Departure>>,
    pub journeys: BTreeMap<Case, BTreeMap<String, Vec<Journey>>>,
    pub courses: BTreeMap<Case, Vec<(String, Vec<f64>)>>,
}

impl Yield {
    /// Returns a figure of the first run of a case.
    pub fn first(&self, case: &Case, figure: &str) -> Option<f64> {
        self.figures.get(case)?.first()?.get(figure).copied()
    }

    /// Over the runs of a case.
    pub fn mean(&self, case: &Case, figure: &str) -> Option<f64> {
        let runs = self.figures.get(case)?;
        let values: Option<Vec<f64>> = runs.iter().map(|r| r.get(figure).copied()).collect();
        Estimate::of(&values?).map(|e| e.mean)
    }
}

/// One run, on one core.
struct Task<'a> {
    item: &'a Item,
    case: Case,
    run: Run,
    seed: u64,
    what: What,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum What {
    Figures,
    Recording,
    Departures,
    Journeys,
    Courses,
}

enum Done {
    Figures(BTreeMap<String, f64>),
    Recording(Box<Recording>),
    Departures(Vec<Departure>),
    Journeys(BTreeMap<String, Vec<Journey>>),
    Courses(Vec<(String, Vec<f64>)>),
}

/// Runs figures and tables again.
///
/// # Errors
/// IDs that are not known, scenarios that cannot be run, pages that cannot be written.
pub fn run(plan: &Plan, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    let items = items()?;
    let contents = contents()?;
    let chosen = choose(&items, &contents, plan)?;
    if chosen.is_empty() {
        return Ok(Answer::List(items));
    }
    let tasks = tasks(&chosen, plan.output.is_some())?;
    let Some(mut yields) = carry_out(&tasks, threads(plan.threads), observer)? else {
        return Ok(Answer::Interrupted);
    };
    let mut as_declared = true;
    let mut judged = Vec::new();
    for item in &chosen {
        let got = yields.remove(item.id).unwrap_or_default();
        let document = &item.reproduction.document;
        let compared = item
            .reproduction
            .judge(&got.figures)
            .map_err(|e| usage(format!("{}: {e}", item.id)))?;
        let state = overall(document, &compared);
        if let Some(output) = &plan.output {
            write_page(item, &compared, &got, output, observer)?;
        }
        if state != document.state {
            as_declared = false;
            observer.warn(&format!(
                "{}: its file says {}, but this run says {}",
                item.id,
                in_words(document.state, &document.because),
                in_words(state, "a figure is outside its band")
            ));
        }
        judged.push(Judged {
            item: (*item).clone(),
            compared,
            state,
        });
    }
    if let Some(output) = &plan.output {
        let index = output.join("index.md");
        write_file(&index, &gallery::index(&items, &contents))?;
        observer.wrote(&index);
    }
    Ok(Answer::Compared {
        judged,
        as_declared,
    })
}

impl Answer {
    /// Returns the answer for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        match self {
            Answer::List(items) => list(items).text(width),
            Answer::Compared { judged, .. } => judged
                .iter()
                .map(|j| gallery::text(&j.item, &j.compared, j.state, width))
                .collect(),
            Answer::Interrupted => String::new(),
        }
    }

    /// The comparison as JSON.
    pub fn json(&self) -> serde_json::Value {
        match self {
            Answer::List(items) => items
                .iter()
                .map(|i| as_json(i, &[], i.reproduction.document.state))
                .collect(),
            Answer::Compared { judged, .. } => judged
                .iter()
                .map(|j| as_json(&j.item, &j.compared, j.state))
                .collect(),
            Answer::Interrupted => serde_json::Value::Array(Vec::new()),
        }
    }
}

fn items() -> anyhow::Result<Vec<Item>> {
    let read = |(id, text): &(&'static str, &str)| {
        let reproduction =
            Reproduction::read(text).map_err(|e| usage(format!("scenarios/{id}.toml: {e}")))?;
        Ok(Item { id, reproduction })
    };
    FILES.iter().map(read).collect()
}

fn choose<'a>(
    items: &'a [Item],
    contents: &[Contents],
    plan: &Plan,
) -> anyhow::Result<Vec<&'a Item>> {
    if plan.all {
        return Ok(items.iter().collect());
    }
    let mut chosen: Vec<&Item> = Vec::new();
    for id in &plan.ids {
        let listed = find(contents, id);
        let made_by = match &listed {
            Some(Found::Here(page)) => page,
            _ => id.as_str(),
        };
        let exact = items.iter().filter(|i| i.id == made_by);
        let mut found: Vec<&Item> = exact.collect();
        if found.is_empty() {
            elsewhere(id, listed.as_ref())?;
        }
        if found.is_empty() {
            found = items
                .iter()
                .filter(|i| i.id.starts_with(id.as_str()))
                .collect();
        }
        if found.is_empty() {
            let known: Vec<&str> = items.iter().map(|i| i.id).collect();
            let near =
                nearest(id, &known).map_or(String::new(), |n| format!(". Did you mean \"{n}\"?"));
            return Err(usage(format!(
                "no reproduction \"{id}\"{near} `tailback-lab reproduce` lists all {}",
                known.len()
            )));
        }
        chosen.extend(found);
    }
    chosen.sort_by_key(|i| i.id);
    chosen.dedup_by_key(|i| i.id);
    Ok(chosen)
}

/// # Errors
/// A figure that another command makes, or none.
fn elsewhere(id: &str, listed: Option<&Found>) -> anyhow::Result<()> {
    let told = match listed {
        Some(Found::Elsewhere(e)) => {
            let by = match e.run.as_str() {
                "" => "made by no command".to_string(),
                run => format!("made by `{run}`"),
            };
            let page = match e.book.as_str() {
                "" => String::new(),
                book => format!(", see docs/book/{book}"),
            };
            format!("{by}{page}: {}", in_words(e.state, &e.because))
        }
        Some(Found::Nothing) => "a drawing, a screen or a list: there is nothing to compute".into(),
        Some(Found::Here(_)) | None => return Ok(()),
    };
    Err(usage(format!("{id} is {told}")))
}

fn list(items: &[Item]) -> Table {
    let rows = items.iter().map(|item| {
        let d = &item.reproduction.document;
        (
            item.id,
            vec![d.title.clone(), in_words(d.state, &d.because)],
        )
    });
    Table::new("", ["", "", ""].map(Column::words)).with(rows)
}

fn as_json(item: &Item, compared: &[Comparison], state: State) -> serde_json::Value {
    let d = &item.reproduction.document;
    serde_json::json!({
        "id": item.id,
        "title": d.title,
        "where": d.place,
        "state": state,
        "because": d.because,
        "declared": d.state,
        "figures": compared,
    })
}

/// Every run that is needed, the longest first, so that no core is left alone with one at the end.
fn tasks<'a>(items: &[&'a Item], plots: bool) -> anyhow::Result<Vec<Task<'a>>> {
    let mut tasks = Vec::new();
    for item in items {
        let r = &item.reproduction;
        let mut needed: Vec<(Case, What)> =
            r.cases().into_iter().map(|c| (c, What::Figures)).collect();
        for plot in r.document.plots.iter().filter(|_| plots) {
            let what = match plot.kind {
                PlotKind::Sweep => continue,
                PlotKind::Sequence => What::Departures,
                PlotKind::Journeys | PlotKind::Jitter => What::Journeys,
                PlotKind::Course => What::Courses,
                _ => What::Recording,
            };
            needed.extend(r.cases_of(plot).into_iter().map(|c| (c, what)));
        }
        needed.sort();
        needed.dedup();
        for (case, what) in needed {
            let run = r
                .run_of(&case)
                .map_err(|e| usage(format!("{}: {e}", item.id)))?;
            let first = match &run {
                Run::Packets(scenario) => scenario.seed,
                Run::Calculation(_) => 1,
            };
            let seeds = match what {
                What::Figures => r.document.seeds,
                _ => 1,
            };
            tasks.extend((0..seeds).map(|i| Task {
                item,
                case: case.clone(),
                seed: first.wrapping_add(i),
                run: run.clone(),
                what,
            }));
        }
    }
    tasks.sort_by_key(|t| std::cmp::Reverse(bits(&t.run)));
    Ok(tasks)
}

/// Bits that the link can carry: an estimate of a run's cost. A calculation costs as much as some seconds of a fast link.
fn bits(run: &Run) -> u128 {
    let Run::Packets(scenario) = run else {
        return 500_000_000;
    };
    let edges = scenario.edges.iter().filter(|e| e.watch).map(|e| &e.link);
    let links = scenario.link.iter().chain(edges);
    let rates = links.map(|link| link.params().map_or(0, |p| p.rate.mean().get()));
    let rate = rates.max().unwrap_or(0);
    u128::from(rate) * u128::from(scenario.duration.as_nanos()) / 1_000_000_000
}

/// `None` where it was interrupted.
fn carry_out(
    tasks: &[Task],
    threads: usize,
    observer: &dyn Observer,
) -> anyhow::Result<Option<BTreeMap<&'static str, Yield>>> {
    observer.tell(Event::Interruptible);
    let stop = AtomicBool::new(false);
    let all: f64 = tasks.iter().map(|t| bits(&t.run) as f64).sum();
    let parts = Mutex::new(vec![0.0; tasks.len()]);
    let results = in_parallel(tasks, threads, &|at, task: &Task| {
        let whole = match &task.run {
            Run::Packets(scenario) => scenario.duration.as_secs_f64(),
            Run::Calculation(_) => 1.0,
        };
        carry_out_one(task, &mut |share_s| {
            let mut parts = parts.lock().expect("no holder panicked");
            parts[at] = share_s / whole * bits(&task.run) as f64;
            observer.share(parts.iter().sum::<f64>() / all);
            if observer.interrupted() {
                stop.store(true, Ordering::Relaxed);
            }
            !stop.load(Ordering::Relaxed)
        })
    });
    observer.tell(Event::Finished);
    if stop.load(Ordering::Relaxed) {
        return Ok(None);
    }
    let mut yields: BTreeMap<&'static str, Yield> = BTreeMap::new();
    // Seeds in their order: ratios are taken run by run.
    let mut done: Vec<(&Task, Done)> = Vec::new();
    for (task, result) in tasks.iter().zip(results) {
        done.push((
            task,
            result.map_err(|e| usage(format!("{}: {e}", task.item.id)))?,
        ));
    }
    done.sort_by_key(|(task, _)| task.seed);
    for (task, done) in done {
        let to = yields.entry(task.item.id).or_default();
        match done {
            Done::Figures(f) => to.figures.entry(task.case.clone()).or_default().push(f),
            Done::Recording(r) => {
                to.recordings.insert(task.case.clone(), *r);
            }
            Done::Departures(d) => {
                to.departures.insert(task.case.clone(), d);
            }
            Done::Journeys(j) => {
                to.journeys.insert(task.case.clone(), j);
            }
            Done::Courses(c) => {
                to.courses.insert(task.case.clone(), c);
            }
        }
    }
    Ok(Some(yields))
}

/// `go_on` is told the simulated seconds and says whether to go on.
fn carry_out_one(task: &Task, go_on: &mut dyn FnMut(f64) -> bool) -> Result<Done, ScenarioError> {
    let scenario = match &task.run {
        Run::Packets(scenario) => scenario,
        Run::Calculation(table) => {
            let done = match task.what {
                What::Courses => Done::Courses(calculate::courses(table, task.seed)?),
                _ => Done::Figures(calculate::figures(table, task.seed)?),
            };
            go_on(1.0);
            return Ok(done);
        }
    };
    let mut step = |now: Time| go_on(now.as_secs_f64());
    Ok(match task.what {
        What::Figures => {
            let outcome = sim::run(scenario, task.seed, None, &mut step)?;
            Done::Figures(figures(&outcome))
        }
        What::Recording => {
            let mut recording = Box::<Recording>::default();
            let mut keep = |row| recording.push(row);
            sim::run(scenario, task.seed, Some(&mut keep), &mut step)?;
            Done::Recording(recording)
        }
        What::Courses => unreachable!("only a calculation has steps, which the file's check knows"),
        What::Departures => {
            let all = departures(scenario, task.seed)?;
            step(Time::ZERO + scenario.duration);
            Done::Departures(all)
        }
        What::Journeys => {
            let all = journeys(scenario, task.seed)?;
            step(Time::ZERO + scenario.duration);
            Done::Journeys(all)
        }
    })
}

/// The page and its pictures, as `DIR/borlaug-2014/figure-9.md` and `DIR/borlaug-2014/figure-9-1.svg`.
fn write_page(
    item: &Item,
    compared: &[Comparison],
    got: &Yield,
    output: &Path,
    observer: &dyn Observer,
) -> anyhow::Result<()> {
    let page = output.join(format!("{}.md", item.id));
    let folder = page.parent().unwrap_or(output);
    std::fs::create_dir_all(folder)
        .map_err(|e| usage(format!("cannot create {}: {e}", folder.display())))?;
    let pictures = gallery::pictures(item, got).map_err(|e| usage(format!("{}: {e}", item.id)))?;
    for (i, picture) in pictures.iter().enumerate() {
        write_file(
            &output.join(format!("{}-{}.svg", item.id, i + 1)),
            &picture.svg(),
        )?;
    }
    write_file(&page, &gallery::page(item, compared, got, &pictures))?;
    observer.wrote(&page);
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_can_be_read_and_each_of_its_runs_made() {
        for item in items().unwrap() {
            assert!(tasks(&[&item], true).is_ok(), "{}", item.id);
        }
    }

    fn asked(id: &str) -> Plan {
        Plan {
            ids: vec![id.into()],
            ..Plan::default()
        }
    }

    #[test]
    fn every_scenario_is_listed_and_a_figure_is_made_by_the_one_that_has_it() {
        let (items, contents) = (items().unwrap(), contents().unwrap());
        let chosen = choose(&items, &contents, &asked("thombre-2020/figure-6.13")).unwrap();
        assert_eq!(chosen[0].id, "thombre-2020/table-6.4");
        for (id, part) in [
            (
                "borlaug-2014/figure-26",
                "made by `tailback report rindadalsvegen.rec",
            ),
            ("borlaug-2014/figure-25", "nothing to compute"),
        ] {
            let Err(e) = choose(&items, &contents, &asked(id)) else {
                panic!("{id} is not made here")
            };
            assert!(e.to_string().contains(part), "{e}");
        }
        let index = gallery::index(&items, &contents);
        for item in &items {
            assert!(index.contains(&format!("({}.md)", item.id)), "{}", item.id);
        }
    }

    #[test]
    fn a_wrong_id_is_answered_with_the_nearest() {
        let items = items().unwrap();
        let args = asked("borlaug-2014/figure-99");
        let Err(e) = choose(&items, &contents().unwrap(), &args) else {
            panic!("there is no such figure")
        };
        assert!(
            e.to_string()
                .contains("Did you mean \"borlaug-2014/figure-9\"?"),
            "{e}"
        );
    }
}
