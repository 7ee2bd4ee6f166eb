//! Published experiments and how closely our runs reproduce them: the section `[document]` of a scenario. Every
//! comparison is made here, so that all callers report the same.

use crate::batch::Estimate;
use crate::scenario::{Draft, Scenario, ScenarioError};
use base::Duration;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// A published experiment in our own words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    pub title: String,
    /// Source, and the place in it.
    #[serde(rename = "where")]
    pub place: String,
    /// Published result.
    pub says: String,
    /// Settings that the source leaves open, and the values taken for them.
    #[serde(default)]
    pub setup: String,
    /// Expected state of agreement; a run with another state is a fault.
    pub state: State,
    /// Reason why the state is not [`State::Reproduced`].
    #[serde(default)]
    pub because: String,
    /// Runs of each case, with consecutive seeds from the scenario's.
    #[serde(default = "one")]
    pub seeds: u64,
    /// Variants to compare; default: a single one without a name.
    #[serde(default, rename = "variant")]
    pub variants: Vec<Variant>,
    /// Second axis: each variant is run at each of these points.
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
    /// The printed figures are reproduced within what the source leaves open.
    Reproduced,
    /// A figure outside its band lies on the side of 1 that the source states, by another amount, with 95 % confidence.
    Trend,
    /// A figure outside its band has the same order of magnitude; no trend is claimed for it.
    Near,
    NotReproducible,
}

/// Side of 1 on which a ratio lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Side {
    Below,
    Above,
}

impl Side {
    /// True if the whole interval lies on this side.
    fn holds(self, low: f64, high: f64) -> bool {
        match self {
            Side::Below => high < 1.0,
            Side::Above => low > 1.0,
        }
    }
}

/// Named set of values that differ from the scenario's.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Variant {
    pub name: String,
    /// Values by key, as for `--set`.
    #[serde(default)]
    pub set: Table,
    /// Position on the axis of a plot against a swept value.
    #[serde(default)]
    pub x: Option<f64>,
}

/// One printed figure, and the band in which ours agrees with it.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Expectation {
    /// Description of the figure.
    pub label: String,
    /// Name among the figures of a run, such as `link.sojourn_ms.mean`.
    pub figure: String,
    /// Variant; default: the first.
    #[serde(default)]
    pub variant: Option<String>,
    #[serde(default)]
    pub at: Option<String>,
    /// Time window of the figure; default: from the end of the warm-up to the end of the run.
    #[serde(default)]
    pub window: Option<[Duration; 2]>,
    /// Second figure: the ratio to it is compared.
    #[serde(default)]
    pub over: Option<Other>,
    /// Factor applied to our figure before it is compared and shown.
    #[serde(default = "unscaled")]
    pub factor: f64,
    #[serde(default)]
    pub unit: String,
    /// Printed value; absent if the source gives it in words only.
    #[serde(default)]
    pub printed: Option<f64>,
    /// Band of [`State::Reproduced`]. Unbounded if the source gives no value, and our figure is shown for comparison.
    #[serde(default = "anything")]
    pub reproduced: [f64; 2],
    /// Band of [`State::Near`] at least: at most a factor of √10 beyond `reproduced`.
    #[serde(default)]
    pub near: Option<[f64; 2]>,
    /// Trend of a ratio that the source states. A ratio outside the band but on this side of 1 is [`State::Trend`].
    #[serde(default)]
    pub trend: Option<Side>,
}

impl Expectation {
    /// Error in bands that contradict each other or the trend.
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
        // A factor of √10 up or down is the same order of magnitude; 1 % is left for rounding.
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

    /// State of agreement of one figure. `exact`: every run gives the same value, so one run suffices.
    fn judge(&self, ours: &Estimate, exact: bool) -> State {
        let within = |[low, high]: [f64; 2]| (low..=high).contains(&ours.mean);
        // A single run of packets cannot show a trend.
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

/// Divisor of a figure; missing parts are as in the expectation.
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
    /// Sojourn time at the watched link over time.
    QueueDelay,
    /// CDF of the sojourn time samples.
    DelayCdf,
    /// RTT of probes over time; lost probes interrupt the curve.
    Rtt,
    /// CDF of the RTT of answered probes.
    RttCdf,
    /// Throughput of the watched link over time.
    Throughput,
    /// Backlog of the watched link over time, in packets.
    Backlog,
    /// Congestion window over time, sum of all flows, in segments.
    Window,
    /// Goodput over time, one curve per flow.
    Goodput,
    /// Sequence number of each TCP segment as it is sent, over time.
    Sequence,
    /// Delay of each packet of the followed flows by its number, retransmissions included.
    Journeys,
    /// Jitter: difference in delay between each packet and the one before it, positive or negative.
    Jitter,
    /// A figure against `x` of the points, or of the variants if there are no points.
    Sweep,
    /// A calculation step by step, one curve for each of its parts.
    Course,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    pub kind: PlotKind,
    pub title: String,
    /// Variants shown; default: all.
    #[serde(default)]
    pub variants: Vec<String>,
    /// Point shown; default: the first.
    #[serde(default)]
    pub at: Option<String>,
    /// Figure of a sweep, in the unit that `y` names.
    #[serde(default)]
    pub figure: Option<String>,
    #[serde(default = "unscaled")]
    pub factor: f64,
    /// Axis labels of a sweep.
    #[serde(default)]
    pub x: String,
    #[serde(default)]
    pub y: String,
    /// Name of the flow or link shown.
    #[serde(default)]
    pub of: Option<String>,
    /// Averaging interval of curves over time.
    #[serde(default)]
    pub step: Option<Duration>,
    /// Start and end of curves over time.
    #[serde(default)]
    pub window: Option<[Duration; 2]>,
    /// Upper end of the vertical axis.
    #[serde(default)]
    pub top: Option<f64>,
    /// Straight reference line from one point to another, in units of the axes.
    #[serde(default)]
    pub line: Option<[[f64; 2]; 2]>,
}

/// One case to run: a variant at a point, in a time window. Names, not numbers, so that messages are readable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    pub variant: String,
    pub at: String,
    #[serde(skip)]
    pub window: Option<(Duration, Duration)>,
}

/// A scenario that reproduces a published experiment.
#[derive(Clone, Debug)]
pub struct Reproduction {
    pub document: Document,
    subject: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    /// Nothing can be run: the source says too little, or the experiment takes more than a program.
    Nothing,
    Packets(Box<Draft>),
    /// The section `[calculate]`.
    Calculation(Table),
}

/// Kind of work that a case needs.
#[derive(Clone, Debug)]
pub enum Run {
    /// Packets in virtual time.
    Packets(Box<Scenario>),
    /// Figures without packets: the section `[calculate]`, whose key `what` names the calculation.
    Calculation(Table),
}

fn invalid(text: String) -> ScenarioError {
    ScenarioError::Invalid(text)
}

/// Sets the value of a key such as `router.B1.arrival`, whose section must exist.
///
/// # Errors
/// The section does not exist.
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
    /// Reads and checks everything: every variant at every point must be a scenario that can be run, and every name
    /// must exist.
    ///
    /// # Errors
    /// The fault and its place.
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

    /// Case that an expectation is about.
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

    /// Cases that a plot shows.
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

    /// Every case whose figures are needed, once, in order.
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

    /// Work that a case needs, with the values of its variant and its point.
    ///
    /// # Errors
    /// A name that does not exist, or a scenario that cannot be run.
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
                    // The same seed gives the same run, so this is the same window of the whole run.
                    (scenario.warmup, scenario.duration) = (from, to);
                    crate::plan::check(&scenario)?;
                }
                Ok(Run::Packets(Box::new(scenario)))
            }
        }
    }

    /// Scenario of a case that is simulated packet by packet.
    ///
    /// # Errors
    /// As [`Reproduction::run_of`]; also a case that is a calculation.
    pub fn scenario(&self, case: &Case) -> Result<Scenario, ScenarioError> {
        match self.run_of(case)? {
            Run::Packets(scenario) => Ok(*scenario),
            Run::Calculation(_) => Err(invalid("this is reckoned, not simulated".into())),
        }
    }

    /// Compares our figures with the printed ones. `figures` holds those of each run of each case.
    ///
    /// # Errors
    /// An expectation names a figure that runs do not have.
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
    /// True if the source gives nothing to compare this figure with.
    pub fn is_ours_alone(&self) -> bool {
        self.reproduced == anything()
    }
}

/// State of the whole document: that of its worst figure.
pub fn overall(document: &Document, comparisons: &[Comparison]) -> State {
    let worst = comparisons.iter().map(|c| c.state).max();
    match document.state {
        State::NotReproducible if comparisons.is_empty() => State::NotReproducible,
        _ => worst.unwrap_or(State::NotReproducible),
    }
}

/// State in one readable line.
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
            // Two runs are too few: their interval reaches below 1.
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
