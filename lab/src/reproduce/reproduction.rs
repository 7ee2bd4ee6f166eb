//! Runs of published experiments: the runs that a document needs, and the comparison of our figures with the printed
//! ones.

use base::Duration;
use ops::model::calculation::set;
use serde::{Deserialize, Serialize};
use sim::Draft;
use sim::Estimate;
use sim::Scenario;
use sim::ScenarioError;
use sim::document::{Document, Expectation, Plot, PlotKind, Side, State, Variant, anything};
use std::collections::BTreeMap;
use toml::{Table, Value};

/// A case to run: a variant at a point, in a time window. Names, not numbers, so that messages are readable.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Case {
    /// Name of the variant.
    pub variant: String,
    /// Value of the sweep.
    pub at: String,
    /// Time range of the figure.
    #[serde(skip)]
    pub window: Option<(Duration, Duration)>,
}

/// A scenario that reproduces a published experiment.
#[derive(Clone, Debug)]
pub struct Reproduction {
    /// Figures of the publication.
    pub document: Document,
    subject: Subject,
}

#[derive(Clone, Debug)]
enum Subject {
    /// No subject: the source says too little, or the experiment takes more than a program.
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
                    sim::plan::check(&scenario)?;
                }
                Ok(Run::Packets(Box::new(scenario)))
            }
        }
    }

    /// Scenario of a case that is simulated packet by packet.
    ///
    /// # Errors
    /// Errors of [`Reproduction::run_of`]; also a case that is a calculation.
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
    /// Label of the row.
    pub label: String,
    /// Name of the figure.
    pub figure: String,
    /// Case that it belongs to.
    pub case: Case,
    /// Printed value.
    pub printed: Option<f64>,
    /// Unit of the values.
    pub unit: String,
    /// Our value with its interval.
    pub ours: Estimate,
    /// Range that counts as reproduced.
    pub reproduced: [f64; 2],
    /// Range that counts as nearly reproduced.
    pub near: Option<[f64; 2]>,
    /// Comparison that the publication states.
    pub trend: Option<Side>,
    /// Verdict.
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
where = "Borlaug 2014, figure 0"
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
        assert_eq!(
            large.link.expect("it has one").queue.to_string(),
            "fifo:packets=100"
        );
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
