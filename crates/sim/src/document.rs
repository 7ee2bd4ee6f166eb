//! What a document says of an experiment, and how near our runs come to it: the section `[document]` of a
//! scenario. Whatever can be compared is compared here, so that every host of it says the same.

use crate::estimate::Estimate;
use base::Duration;
use serde::{Deserialize, Serialize};
use toml::Table;

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
pub(crate) fn anything() -> [f64; 2] {
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
    pub(crate) fn fault(&self) -> Option<&'static str> {
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
    pub(crate) fn judge(&self, ours: &Estimate, exact: bool) -> State {
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
