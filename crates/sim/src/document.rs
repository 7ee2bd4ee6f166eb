//! What a document says of an experiment, and how near our runs come to it: the section `[document]` of a
//! scenario. Whatever can be compared is compared here, so that every host of it says the same.

use crate::batch::Estimate;
use crate::scenario::{Draft, Scenario, ScenarioError};
use base::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// An experiment of a document, told in our words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub title: String,
    /// Which document, and where in it.
    #[serde(rename = "where")]
    pub place: String,
    /// What it says came out.
    pub says: String,
    /// What it leaves open, and what we took for it.
    #[serde(default)]
    pub setup: String,
    /// How far we agree; a run that says otherwise is a fault.
    pub state: State,
    /// Why it is not [`State::Reproduced`].
    #[serde(default)]
    pub because: String,
    /// Runs of each case, from the scenario's seed on.
    #[serde(default = "one")]
    pub seeds: u64,
    /// What is compared side by side; one without a name where none is given.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// A second axis: each variant is run at each of these.
    #[serde(default, rename = "at")]
    pub points: Vec<Variant>,
    #[serde(default, rename = "expect")]
    pub expectations: Vec<Expectation>,
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
}

fn one() -> u64 {
    1
}
fn anything() -> [f64; 2] {
    [f64::NEG_INFINITY, f64::INFINITY]
}
fn unscaled() -> f64 {
    1.0
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// The printed figures come out within what the document leaves open.
    Reproduced,
    /// A figure outside its band lies on the side of 1 that the document states, by another amount, with 95 % confidence.
    Trend,
    /// A figure outside its band has the same order of magnitude; no trend is claimed of it.
    Near,
    NotReproducible,
}

/// A side of 1, on which a ratio lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    Below,
    Above,
}

impl Side {
    /// True if all of a span lies there.
    fn holds(self, low: f64, high: f64) -> bool {
        match self {
            Side::Below => high < 1.0,
            Side::Above => low > 1.0,
        }
    }
}

/// Values that differ from the scenario's, under a name.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// As `--set` takes them.
    #[serde(default)]
    pub set: Table,
    /// Where it stands on the axis of a plot against a swept value.
    #[serde(default)]
    pub x: Option<f64>,
}

/// One printed figure and when ours agrees with it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// What it is, for people.
    pub label: String,
    /// Its name in the figures of a run, such as `link.sojourn_ms.mean`.
    pub figure: String,
    /// The first where it is not given.
    #[serde(default)]
    pub variant: Option<String>,
    #[serde(default)]
    pub at: Option<String>,
    /// Only from here to there; from the end of the warm-up to the end of the run where it is not given.
    #[serde(default)]
    pub window: Option<[Duration; 2]>,
    /// Compare the ratio of the figure to another.
    #[serde(default)]
    pub over: Option<Other>,
    /// Ours is multiplied by this before it is compared and shown.
    #[serde(default = "unscaled")]
    pub factor: f64,
    #[serde(default)]
    pub unit: String,
    /// As printed; absent where the document says it in words only.
    #[serde(default)]
    pub printed: Option<f64>,
    /// From here to there it is [`State::Reproduced`]; whatever it is where the document says nothing of it, and it is
    /// shown for comparison.
    #[serde(default = "anything")]
    pub reproduced: [f64; 2],
    /// From here to there it is [`State::Near`] at least: at most a factor of √10 beyond `reproduced`.
    #[serde(default)]
    pub near: Option<[f64; 2]>,
    /// The trend that the document states of a ratio: outside the band it is [`State::Trend`] where it lies on that side of 1.
    #[serde(default)]
    pub trend: Option<Side>,
}

impl Expectation {
    /// Of bands that contradict each other or the trend, what is wrong.
    fn fault(&self) -> Option<&'static str> {
        let [low, high] = self.reproduced;
        let outside = |p: f64| !(low..=high).contains(&p);
        let wider = self.near.is_none_or(|n| n[0] <= low && high <= n[1]);
        if low > high || !wider || self.printed.is_some_and(outside) {
            return Some(
                "\"reproduced\" must hold the printed value, and \"near\" must hold \"reproduced\"",
            );
        }
        let crosses = |[from, to]: [f64; 2]| from < 1.0 && 1.0 < to;
        if self.over.is_some() && outside(1.0) && self.near.is_some_and(crosses) {
            return Some(
                "\"near\" crosses 1 and \"reproduced\" does not: a ratio on the other side of 1 contradicts the document",
            );
        }
        // A factor of √10 either way is the same order of magnitude; 1 % is left for rounding.
        let most = 10f64.sqrt() * 1.01;
        let reach = |edge: f64| edge.abs() * most;
        let far = |[from, to]: [f64; 2]| {
            let below = if low > 0.0 {
                from < low / most
            } else {
                from < -reach(low)
            };
            let above = if high < 0.0 {
                to > high / most
            } else {
                to > reach(high)
            };
            below || above
        };
        if self.near.is_some_and(far) {
            return Some("\"near\" is another order of magnitude than \"reproduced\"");
        }
        match (self.trend, &self.over) {
            (Some(_), None) => Some("a trend is of a ratio: say \"over\" what"),
            (Some(Side::Below), _) if high > 1.0 => Some("\"trend\" and \"reproduced\" contradict"),
            (Some(Side::Above), _) if low < 1.0 => Some("\"trend\" and \"reproduced\" contradict"),
            _ => None,
        }
    }

    /// `exact`: every run gives the same, so that one run tells.
    fn judge(&self, ours: &Estimate, exact: bool) -> State {
        let within = |[low, high]: [f64; 2]| (low..=high).contains(&ours.mean);
        // One run of packets tells no trend.
        let half = ours.half.or(exact.then_some(0.0));
        let confirmed = |(side, half): (Side, f64)| side.holds(ours.mean - half, ours.mean + half);
        if within(self.reproduced) {
            State::Reproduced
        } else if self.trend.zip(half).is_some_and(confirmed) {
            State::Trend
        } else if self.near.is_some_and(within) {
            State::Near
        } else {
            State::NotReproducible
        }
    }
}

/// What a figure is divided by; what is not given is as in the expectation.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Other {
    #[serde(default)]
    pub figure: Option<String>,
    #[serde(default)]
    pub variant: Option<String>,
    #[serde(default)]
    pub at: Option<String>,
    #[serde(default)]
    pub window: Option<[Duration; 2]>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PlotKind {
    /// Waiting time at the watched link over time.
    QueueDelay,
    /// Shares of the samples of waiting time below a value.
    DelayCdf,
    /// Round trips of probes over time; those lost interrupt the line.
    Rtt,
    /// Shares of the answered probes with a round trip below a value.
    RttCdf,
    /// What the watched link delivers, over time.
    Throughput,
    /// Packets in the watched link's queue, over time.
    Backlog,
    /// Congestion windows over time, all flows together, in segments.
    Window,
    /// Payload that arrives in order over time, a line for each flow.
    Goodput,
    /// Number of each segment of TCP as it is sent, over time.
    Sequence,
    /// How long each packet of followed flows was under way, retransmissions included, by its number.
    Journeys,
    /// How far each differs in delay from the one before it, longer or shorter.
    Jitter,
    /// A figure against `x` of the points, or of the variants where there are no points.
    Sweep,
    /// A calculation step by step, a line for each of its parts.
    Course,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    pub kind: PlotKind,
    pub title: String,
    /// Those shown; all where none is named.
    #[serde(default)]
    pub variants: Vec<String>,
    /// At which point; the first where it is not given.
    #[serde(default)]
    pub at: Option<String>,
    /// Of a sweep: what is drawn, in the unit that `y` names.
    #[serde(default)]
    pub figure: Option<String>,
    #[serde(default = "unscaled")]
    pub factor: f64,
    /// Of a sweep: what the axes are.
    #[serde(default)]
    pub x: String,
    #[serde(default)]
    pub y: String,
    /// Of one flow, by its name; of a link, by its name.
    #[serde(default)]
    pub of: Option<String>,
    /// Curves over time are means over so much.
    #[serde(default)]
    pub step: Option<Duration>,
    /// Curves over time begin and end here.
    #[serde(default)]
    pub window: Option<[Duration; 2]>,
    /// The vertical axis ends here.
    #[serde(default)]
    pub top: Option<f64>,
    /// A straight line drawn for comparison, as units of the axes: from one point to another.
    #[serde(default)]
    pub line: Option<[[f64; 2]; 2]>,
}

/// What is run: a variant at a point, from here to there. Names, not numbers, so that messages read.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    pub variant: String,
    pub at: String,
    #[serde(skip)]
    pub window: Option<(Duration, Duration)>,
}

/// A scenario of which a document tells.
#[derive(Clone, Debug)]
pub struct Reproduction {
    pub document: Document,
    subject: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    /// Nothing can be run: the document says too little, or it takes more than a program.
    Nothing,
    Packets(Box<Draft>),
    /// The section `[calculate]`.
    Calculation(Table),
}

/// What a case asks for.
#[derive(Clone, Debug)]
pub enum Run {
    /// Packets in virtual time.
    Packets(Box<Scenario>),
    /// Figures without packets: the section `[calculate]`, whose key `what` says which.
    Calculation(Table),
}

fn invalid(text: String) -> ScenarioError {
    ScenarioError::Invalid(text)
}

/// Gives a value to a key such as `router.B1.arrival`, whose section must be there.
///
/// # Errors
/// A section that is not there.
pub fn set(table: &mut Table, key: &str, value: &Value) -> Result<(), ScenarioError> {
    let (sections, last) = key.rsplit_once('.').unwrap_or(("", key));
    let mut at = table;
    for section in sections.split('.').filter(|s| !s.is_empty()) {
        at = at
            .get_mut(section)
            .and_then(Value::as_table_mut)
            .ok_or_else(|| invalid(format!("set \"{key}\": there is no section \"{section}\"")))?;
    }
    at.insert(last.into(), value.clone());
    Ok(())
}

impl Reproduction {
    /// Reads and checks all of it: every variant at every point is a scenario that can be run, and every
    /// name leads somewhere.
    ///
    /// # Errors
    /// What is wrong, and where.
    pub fn read(text: &str) -> Result<Reproduction, ScenarioError> {
        #[derive(Deserialize)]
        struct Alone {
            document: Document,
        }
        let table: Table = toml::from_str(text).map_err(|e| ScenarioError::Toml(e.to_string()))?;
        let subject = match table.get("calculate") {
            Some(Value::Table(calculation)) if table.len() == 2 => {
                Subject::Calculation(calculation.clone())
            }
            Some(_) => {
                return Err(invalid(
                    "[calculate] is a section and stands alone beside [document]".into(),
                ));
            }
            None if table.len() == 1 => Subject::Nothing,
            None => Subject::Packets(Box::new(Draft::new(text)?)),
        };
        let alone: Result<Alone, _> = toml::from_str(text);
        let document = alone
            .map_err(|e| ScenarioError::Toml(e.to_string()))?
            .document;
        let reproduction = Reproduction { document, subject };
        reproduction.check()?;
        Ok(reproduction)
    }

    fn check(&self) -> Result<(), ScenarioError> {
        let d = &self.document;
        if matches!(self.subject, Subject::Nothing) && d.state != State::NotReproducible {
            return Err(invalid(
                "there is a [document] but no scenario beside it".into(),
            ));
        }
        if d.state != State::Reproduced && d.because.is_empty() {
            return Err(invalid(
                "document.because is missing: say why it is not reproduced".into(),
            ));
        }
        for e in &d.expectations {
            let places = [Some(self.case_of(e)), self.other_of(e).map(|o| o.0)];
            places
                .iter()
                .flatten()
                .try_for_each(|case| self.run_of(case).map(|_| ()))?;
            if let Some(why) = e.fault() {
                return Err(invalid(format!("expect \"{}\": {why}", e.label)));
            }
        }
        for plot in &d.plots {
            for case in self.cases_of(plot) {
                let reckoned = matches!(self.run_of(&case)?, Run::Calculation(_));
                let either = plot.kind == PlotKind::Sweep;
                if !either && reckoned != (plot.kind == PlotKind::Course) {
                    return Err(invalid(format!(
                        "plot \"{}\": of a calculation there are the kinds \"sweep\" and \"course\", and \"course\" is of nothing else",
                        plot.title
                    )));
                }
            }
            if plot.kind == PlotKind::Sweep && plot.figure.is_none() {
                return Err(invalid(format!(
                    "plot \"{}\": a sweep needs a figure, such as figure = \"link.sojourn_ms.mean\"",
                    plot.title
                )));
            }
        }
        Ok(())
    }

    fn first(list: &[Variant]) -> String {
        list.first().map_or_else(String::new, |v| v.name.clone())
    }

    /// The case that an expectation is about.
    pub fn case_of(&self, e: &Expectation) -> Case {
        let d = &self.document;
        Case {
            variant: e
                .variant
                .clone()
                .unwrap_or_else(|| Self::first(&d.variants)),
            at: e.at.clone().unwrap_or_else(|| Self::first(&d.points)),
            window: e.window.map(|[a, b]| (a, b)),
        }
    }

    fn other_of(&self, e: &Expectation) -> Option<(Case, String)> {
        let other = e.over.as_ref()?;
        let mut case = self.case_of(e);
        if let Some(variant) = &other.variant {
            case.variant.clone_from(variant);
        }
        if let Some(at) = &other.at {
            case.at.clone_from(at);
        }
        if let Some([a, b]) = other.window {
            case.window = Some((a, b));
        }
        Some((case, other.figure.clone().unwrap_or(e.figure.clone())))
    }

    /// The cases that a plot shows.
    pub fn cases_of(&self, plot: &Plot) -> Vec<Case> {
        let d = &self.document;
        let mut variants = plot.variants.clone();
        if variants.is_empty() {
            variants = d.variants.iter().map(|v| v.name.clone()).collect();
        }
        if variants.is_empty() {
            variants.push(String::new());
        }
        let points: Vec<String> = match (plot.kind, &plot.at) {
            (PlotKind::Sweep, None) if !d.points.is_empty() => {
                d.points.iter().map(|p| p.name.clone()).collect()
            }
            (_, Some(at)) => vec![at.clone()],
            (_, None) => vec![Self::first(&d.points)],
        };
        let cases = variants.iter().flat_map(|variant| {
            points.iter().map(|at| Case {
                variant: variant.clone(),
                at: at.clone(),
                window: None,
            })
        });
        cases.collect()
    }

    /// Every case whose figures something needs, once, in order.
    pub fn cases(&self) -> Vec<Case> {
        let d = &self.document;
        let mut cases: Vec<Case> = Vec::new();
        for e in &d.expectations {
            cases.push(self.case_of(e));
            cases.extend(self.other_of(e).map(|o| o.0));
        }
        for plot in d.plots.iter().filter(|p| p.kind == PlotKind::Sweep) {
            cases.extend(self.cases_of(plot));
        }
        cases.sort();
        cases.dedup();
        cases
    }

    /// What a case asks for, with the values of its variant and its point.
    ///
    /// # Errors
    /// A name that is not there, or a scenario that cannot be run.
    pub fn run_of(&self, case: &Case) -> Result<Run, ScenarioError> {
        let d = &self.document;
        let mut given: Vec<(&str, &Value, &str)> = Vec::new();
        for (what, list, name) in [
            ("variant", &d.variants, &case.variant),
            ("at", &d.points, &case.at),
        ] {
            let found = list.iter().find(|v| v.name == *name);
            if found.is_none() && !(list.is_empty() && name.is_empty()) {
                let known: Vec<&str> = list.iter().map(|v| v.name.as_str()).collect();
                return Err(invalid(format!(
                    "no [[document.{what}]] is named \"{name}\"; there are: {}",
                    known.join(", ")
                )));
            }
            let values = found.iter().flat_map(|v| &v.set);
            given.extend(values.map(|(key, value)| (key.as_str(), value, name.as_str())));
        }
        match &self.subject {
            Subject::Nothing => Err(invalid(format!("there is nothing to run: {}", d.because))),
            Subject::Calculation(calculation) => {
                let mut table = calculation.clone();
                for (key, value, _) in given {
                    set(&mut table, key, value)?;
                }
                Ok(Run::Calculation(table))
            }
            Subject::Packets(draft) => {
                let mut draft = draft.clone();
                for (key, value, name) in given {
                    let text = match value {
                        Value::String(text) => text.clone(),
                        other => other.to_string(),
                    };
                    draft.set(key, &text, name)?;
                }
                let mut scenario = draft.finish()?;
                if let Some((from, to)) = case.window {
                    // The same seed goes the same way, so this is the stretch of the whole run.
                    (scenario.warmup, scenario.duration) = (from, to);
                    crate::plan::check(&scenario)?;
                }
                Ok(Run::Packets(Box::new(scenario)))
            }
        }
    }

    /// The scenario of a case that is run packet by packet.
    ///
    /// # Errors
    /// As [`Reproduction::run_of`]; a case that is reckoned.
    pub fn scenario(&self, case: &Case) -> Result<Scenario, ScenarioError> {
        match self.run_of(case)? {
            Run::Packets(scenario) => Ok(*scenario),
            Run::Calculation(_) => Err(invalid("this is reckoned, not simulated".into())),
        }
    }

    /// Compares what came out with what is printed. `figures` has those of each run of each case.
    ///
    /// # Errors
    /// An expectation of a figure that runs do not have.
    pub fn judge(
        &self,
        figures: &BTreeMap<Case, Vec<BTreeMap<String, f64>>>,
    ) -> Result<Vec<Comparison>, ScenarioError> {
        let value = |case: &Case, name: &str| -> Result<Vec<f64>, ScenarioError> {
            let runs = figures.get(case).map_or(&[][..], Vec::as_slice);
            let values: Option<Vec<f64>> = runs.iter().map(|r| r.get(name).copied()).collect();
            values.filter(|v| !v.is_empty()).ok_or_else(|| {
                let known: Vec<&str> = runs
                    .first()
                    .into_iter()
                    .flat_map(|r| r.keys().map(String::as_str))
                    .collect();
                let near = base::words::nearest(name, &known)
                    .map_or(String::new(), |n| format!(". Did you mean \"{n}\"?"));
                invalid(format!("no run has a figure \"{name}\"{near}"))
            })
        };
        let mut all = Vec::new();
        for e in &self.document.expectations {
            let case = self.case_of(e);
            let mut values = value(&case, &e.figure)?;
            if let Some((other, name)) = self.other_of(e) {
                let under = value(&other, &name)?;
                values = values.iter().zip(under).map(|(a, b)| a / b).collect();
            }
            for v in &mut values {
                *v *= e.factor;
            }
            let ours = Estimate::of(&values)
                .filter(|e| e.mean.is_finite())
                .ok_or_else(|| invalid(format!("expect \"{}\": ours is no number", e.label)))?;
            let exact = matches!(self.subject, Subject::Calculation(_));
            let state = e.judge(&ours, exact);
            all.push(Comparison {
                label: e.label.clone(),
                figure: e.figure.clone(),
                case,
                printed: e.printed,
                unit: e.unit.clone(),
                ours,
                reproduced: e.reproduced,
                near: e.near,
                trend: e.trend,
                state,
            });
        }
        Ok(all)
    }
}

/// A printed figure beside ours.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Comparison {
    pub label: String,
    pub figure: String,
    pub case: Case,
    pub printed: Option<f64>,
    pub unit: String,
    pub ours: Estimate,
    pub reproduced: [f64; 2],
    pub near: Option<[f64; 2]>,
    pub trend: Option<Side>,
    pub state: State,
}

impl Comparison {
    /// The document says nothing that it could be compared with.
    pub fn is_ours_alone(&self) -> bool {
        self.reproduced == anything()
    }
}

/// The whole is as good as its worst part.
pub fn overall(document: &Document, comparisons: &[Comparison]) -> State {
    let worst = comparisons.iter().map(|c| c.state).max();
    match document.state {
        State::NotReproducible if comparisons.is_empty() => State::NotReproducible,
        _ => worst.unwrap_or(State::NotReproducible),
    }
}

/// In one line, as people read it.
pub fn in_words(state: State, because: &str) -> String {
    match state {
        State::Reproduced => "reproduced".into(),
        State::Trend => format!("reproduced in trend: {because}"),
        State::Near => format!("nearly reproduced: {because}"),
        State::NotReproducible => format!("not reproducible, because {because}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = r#"
duration = "1 s"
link = { rate = "1 Mbit/s", delay = "5 ms" }
[[flow]]
kind = "bulk"
[document]
title = "t"
where = "000, figure 0"
says = "s"
state = "trend"
because = "the document keeps its buffer to itself"
[[document.variant]]
name = "small"
set = { "link.queue" = "fifo:packets=10" }
[[document.variant]]
name = "large"
set = { "link.queue" = "fifo:packets=100", "flow.0.count" = 2 }
[[document.expect]]
label = "waits"
figure = "link.sojourn_ms.mean"
variant = "large"
over = { variant = "small" }
printed = 9
reproduced = [8, 10]
near = [3, 30]
trend = "above"
[[document.expect]]
label = "early"
figure = "link.utilisation"
window = ["0 s", "500 ms"]
reproduced = [0.5, 1]
"#;

    fn figures(small: &[f64], large: &[f64]) -> BTreeMap<Case, Vec<BTreeMap<String, f64>>> {
        let case = |variant: &str, window| Case {
            variant: variant.into(),
            at: String::new(),
            window,
        };
        let runs = |values: &[f64]| -> Vec<BTreeMap<String, f64>> {
            let one = |v: &f64| BTreeMap::from([("link.sojourn_ms.mean".to_string(), *v)]);
            values.iter().map(one).collect()
        };
        let early = BTreeMap::from([("link.utilisation".to_string(), 0.9)]);
        let window = Some((Duration::ZERO, Duration::from_millis(500)));
        BTreeMap::from([
            (case("small", None), runs(small)),
            (case("large", None), runs(large)),
            (case("small", window), vec![early; small.len()]),
        ])
    }

    #[test]
    fn each_case_that_is_needed_is_run_once_with_its_values() {
        let r = Reproduction::read(TEXT).unwrap();
        let cases = r.cases();
        assert_eq!(cases.len(), 3, "{cases:?}");
        let large = r.scenario(&cases[0]).unwrap();
        assert_eq!(large.flows[0].count, 2);
        assert_eq!(large.link.queue.to_string(), "fifo:packets=100");
        let early = r.scenario(&cases[2]).unwrap();
        assert_eq!(early.duration, Duration::from_millis(500));
    }

    #[test]
    fn a_ratio_is_taken_run_by_run_and_judged_by_its_bands() {
        let r = Reproduction::read(TEXT).unwrap();
        for (small, large, ratio, state) in [
            ([1.0, 2.0], [9.0, 18.0], 9.0, State::Reproduced),
            ([1.0, 1.0], [4.0, 4.2], 4.1, State::Trend),
            // The two runs say too little: their interval reaches below 1.
            ([1.0, 2.0], [3.0, 10.0], 4.0, State::Near),
            ([1.0, 2.0], [1.0, 2.0], 1.0, State::NotReproducible),
            ([1.0, 2.0], [0.9, 1.8], 0.9, State::NotReproducible),
        ] {
            let all = r.judge(&figures(&small, &large)).unwrap();
            assert_eq!((all[0].ours.mean, all[0].state), (ratio, state));
            assert_eq!(all[1].state, State::Reproduced);
            assert_eq!(overall(&r.document, &all), state);
        }
    }

    #[test]
    fn wrong_names_and_bands_are_refused_with_what_would_be_right() {
        for (from, to, told) in [
            (
                "variant = \"large\"",
                "variant = \"lagre\"",
                "there are: small, large",
            ),
            ("flow.0.count", "flow.0.cuont", "Did you mean \"count\"?"),
            ("printed = 9", "printed = 11", "must hold the printed value"),
            ("near = [3, 30]", "near = [0.9, 30]", "crosses 1"),
            ("near = [3, 30]", "near = [2, 30]", "order of magnitude"),
            ("\"above\"", "\"below\"", "contradict"),
            (
                "over = { variant = \"small\" }",
                "",
                "a trend is of a ratio",
            ),
            ("because = ", "# ", "say why"),
            ("printed = 9", "print = 9", "unknown field `print`"),
        ] {
            let e = Reproduction::read(&TEXT.replace(from, to)).unwrap_err();
            assert!(e.to_string().contains(told), "{from}: {e}");
        }
        let wrong = TEXT.replace("link.utilisation", "link.utilization");
        let e = Reproduction::read(&wrong).unwrap();
        let e = e.judge(&figures(&[1.0], &[9.0])).unwrap_err();
        assert!(
            e.to_string().contains("Did you mean \"link.utilisation\""),
            "{e}"
        );
    }
}
