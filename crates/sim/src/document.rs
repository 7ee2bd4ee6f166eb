//! Published experiments and how closely our runs reproduce them: the section `[document]` of a scenario. Every
//! comparison is made here, so that all callers report the same.

use crate::estimate::Estimate;
use base::Duration;
use serde::{Deserialize, Serialize};
use toml::Table;

/// A published experiment in our own words.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    /// Title of the figure or table.
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
    /// Figures with their printed values.
    #[serde(default, rename = "expect")]
    pub expectations: Vec<Expectation>,
    /// Plots of the page.
    #[serde(default, rename = "plot")]
    pub plots: Vec<Plot>,
}

fn one() -> u64 {
    1
}

/// Band that every value is within.
pub fn anything() -> [f64; 2] {
    [f64::NEG_INFINITY, f64::INFINITY]
}
fn unscaled() -> f64 {
    1.0
}

/// State of the reproduction.
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
    /// Name of the variant.
    pub name: String,
    /// Values by key, as for `--set`.
    #[serde(default)]
    pub set: Table,
    /// Position on the axis of a plot against a swept value.
    #[serde(default)]
    pub x: Option<f64>,
}

/// Printed figure, and the band in which ours agrees with it.
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
    /// Value of the sweep.
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
    /// Unit of the figure.
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
    pub fn fault(&self) -> Option<&'static str> {
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
    pub fn judge(&self, ours: &Estimate, exact: bool) -> State {
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
    /// Figure, if it is another one.
    #[serde(default)]
    pub figure: Option<String>,
    /// Variant, if it is another one.
    #[serde(default)]
    pub variant: Option<String>,
    /// Value of the sweep, if it is another one.
    #[serde(default)]
    pub at: Option<String>,
    /// Time range, if it is another one.
    #[serde(default)]
    pub window: Option<[Duration; 2]>,
}

/// Kind of a plot.
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

/// Plot of the page.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Plot {
    /// Kind of the plot.
    pub kind: PlotKind,
    /// Title above the plot.
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
    /// Factor of the values.
    #[serde(default = "unscaled")]
    pub factor: f64,
    /// Axis labels of a sweep.
    #[serde(default)]
    pub x: String,
    /// Name and unit of the vertical axis.
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
