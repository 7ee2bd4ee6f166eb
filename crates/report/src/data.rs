//! Data for the page's script. `cargo xtask gen` writes the same types for TypeScript, to `web/src/schema.ts`.

use crate::curves::{Cdf, Curves, Point};
use crate::words::phase;
use maud::{Markup, PreEscaped};
use schemars::JsonSchema;
use serde::Serialize;

/// Curves of a page; null where nothing was measured. Written to the element with the id `curves`.
#[derive(Serialize, JsonSchema)]
pub struct PageCurves {
    span_s: f64,
    /// UNIX time of the start, if the axis shows the date; all times then count from it.
    #[serde(skip_serializing_if = "Option::is_none")]
    from_s: Option<f64>,
    /// Name of the zone of those dates; the reader's own if absent.
    #[serde(skip_serializing_if = "Option::is_none")]
    zone: Option<String>,
    phases: Vec<PagePhase>,
    moments: Vec<PageMoment>,
    probes: Line,
    in_flow_down: Line,
    in_flow_up: Line,
    lost_s: Vec<f64>,
    bins: RateBins,
    /// Address from which a served page gets the single probes of a short time; absent in a file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) single: Option<String>,
    /// Source of the smoke, of recordings of any length.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) smoke: Option<Smoke>,
    cdf: Distributions,
}

/// Single probes of a short time, which a served page asks for when its reader has zoomed in; times from the asked start.
#[derive(Serialize, JsonSchema)]
pub struct PageProbes {
    probes: Line,
    lost_s: Vec<f64>,
    bins: RateBins,
    /// Reason why single probes cannot be drawn.
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

impl PageProbes {
    /// Takes the curves of a recording's part; `reason` tells why single probes cannot be drawn.
    pub(crate) fn of(c: &Curves, reason: Option<String>) -> PageProbes {
        let shown = curves(c);
        PageProbes {
            probes: shown.probes,
            lost_s: shown.lost_s,
            bins: shown.bins,
            reason,
        }
    }

    /// Tells why there are none.
    pub fn none(reason: &str) -> PageProbes {
        PageProbes {
            probes: line(&[]),
            lost_s: Vec::new(),
            bins: RateBins {
                step_s: 1.0,
                down_bps: Vec::new(),
                up_bps: Vec::new(),
            },
            reason: Some(reason.to_owned()),
        }
    }
}

/// Phase of a test.
#[derive(Serialize, JsonSchema)]
struct PagePhase {
    name: String,
    label: String,
    from_s: f64,
    to_s: f64,
}

/// Moment that the user marked.
#[derive(Serialize, JsonSchema)]
struct PageMoment {
    t_s: f64,
    text: String,
}

/// Delays over time; null interrupts the line.
#[derive(Serialize, JsonSchema)]
struct Line {
    t_s: Vec<f64>,
    ms: Vec<Option<f64>>,
}

/// Rates of equal steps of time.
#[derive(Serialize, JsonSchema)]
struct RateBins {
    step_s: f64,
    down_bps: Vec<Option<i64>>,
    up_bps: Vec<Option<i64>>,
}

/// Distributions of all phases on one axis of delays.
#[derive(Serialize, JsonSchema)]
struct Distributions {
    ms: Vec<f64>,
    phases: Vec<PhaseShares>,
}

/// Share of a phase's probes answered within each delay.
#[derive(Serialize, JsonSchema)]
struct PhaseShares {
    name: String,
    label: String,
    percent: Vec<f64>,
}

/// Counts from which smoke of any span can be drawn.
#[derive(Serialize, JsonSchema)]
pub struct Smoke {
    pub(crate) cells: usize,
    pub(crate) steps_per_octave: u32,
    /// Fewest cells of a column: an interval of thinned detail is longer than a cell.
    pub(crate) least: f64,
    /// Largest share of losses of each colour.
    pub(crate) losses: Vec<f64>,
    /// Each cell in base64: losses, number of steps, and for each the steps skipped and its count, as varints.
    pub(crate) data: String,
}

/// Packets of one direction, in an element of the class `packets`; times in microseconds.
#[derive(Serialize, JsonSchema)]
pub struct PacketsOfWay {
    pub(crate) name: String,
    /// Start and end, s since the connection began.
    pub(crate) span_s: (f64, f64),
    pub(crate) base_ms: Option<f64>,
    /// Largest number of neighbouring packets that are drawn as one.
    pub(crate) each: usize,
    /// Columns of numbers, each as its length, then the difference of each value to the one before: base64, deflated.
    pub(crate) data: String,
}

/// Returns JSON for a script element: `<` is escaped, so that no text in it can end the element.
pub fn inline(json: &str) -> Markup {
    PreEscaped(json.replace('<', "\\u003c"))
}

/// Returns data as JSON for a script element.
pub(crate) fn embedded(data: &impl Serialize) -> Markup {
    inline(&serde_json::to_string(data).expect("the data of a page is plain"))
}

/// Returns curves in as many digits as can be seen: further ones would only enlarge the page.
pub(crate) fn curves(c: &Curves) -> PageCurves {
    let phases = c.phases.iter().map(|p| PagePhase {
        name: p.name.clone(),
        label: phase(&p.name).to_owned(),
        from_s: p.from_s,
        to_s: p.to_s,
    });
    let moments = c.moments.iter().map(|(t_s, text)| PageMoment {
        t_s: rounded(*t_s, 1e3),
        text: text.clone(),
    });
    let (from_s, zone) = c.civil.clone().unzip();
    PageCurves {
        span_s: c.span_s,
        from_s,
        zone: zone.flatten(),
        phases: phases.collect(),
        moments: moments.collect(),
        probes: line(&c.probes),
        in_flow_down: line(&c.in_flow_down),
        in_flow_up: line(&c.in_flow_up),
        lost_s: c.lost_s.iter().map(|t| rounded(*t, 1e4)).collect(),
        bins: RateBins {
            step_s: c.bins.step_s,
            down_bps: whole(&c.bins.down_bps),
            up_bps: whole(&c.bins.up_bps),
        },
        single: None,
        smoke: None,
        cdf: distributions(&c.cdf),
    }
}

/// Returns all phases on one RTT axis, as the plot needs them.
fn distributions(phases: &[Cdf]) -> Distributions {
    let steps = phases.iter().flat_map(|c| &c.steps);
    let mut ms: Vec<f64> = steps.map(|s| rounded(s.0, 1e3)).collect();
    ms.sort_by(f64::total_cmp);
    ms.dedup();
    let percent = |c: &Cdf| -> Vec<f64> {
        let share = |v: &f64| {
            let below = c.steps.partition_point(|s| rounded(s.0, 1e3) <= *v);
            below
                .checked_sub(1)
                .map_or(0.0, |i| rounded(c.steps[i].1 * 100.0, 1e3))
        };
        ms.iter().map(share).collect()
    };
    let phases = phases.iter().map(|c| PhaseShares {
        name: c.phase.clone(),
        label: phase(&c.phase).to_owned(),
        percent: percent(c),
    });
    let phases = phases.collect();
    Distributions { ms, phases }
}

fn line(points: &[Point]) -> Line {
    Line {
        t_s: points.iter().map(|p| rounded(p.t_s, 1e4)).collect(),
        ms: points
            .iter()
            .map(|p| p.ms.map(|v| rounded(v, 1e3)))
            .collect(),
    }
}

fn whole(values: &[Option<f64>]) -> Vec<Option<i64>> {
    values.iter().map(|v| v.map(|v| v.round() as i64)).collect()
}

/// Rounds to one of `parts` parts of the unit.
fn rounded(v: f64, parts: f64) -> f64 {
    (v * parts).round() / parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_can_end_the_element_it_stands_in() {
        let json = serde_json::to_string("</script><!-- <script>").unwrap();
        let inside = inline(&json).into_string();
        assert!(!inside.contains('<'));
        assert_eq!(
            serde_json::from_str::<String>(&inside).unwrap(),
            "</script><!-- <script>"
        );
    }

    #[test]
    fn curves_of_all_phases_share_one_axis_and_never_fall() {
        let one = Cdf {
            phase: "idle".into(),
            steps: vec![(1.0, 0.0), (1.0, 0.5), (3.0, 1.0)],
        };
        let two = Cdf {
            phase: "up".into(),
            steps: vec![(2.0, 0.0), (2.0, 0.5), (4.0, 0.9)],
        };
        let v = distributions(&[one, two]);
        assert_eq!(v.ms, [1.0, 2.0, 3.0, 4.0]);
        assert_eq!(v.phases[0].percent, [50.0, 50.0, 100.0, 100.0]);
        assert_eq!(v.phases[1].percent, [0.0, 50.0, 50.0, 90.0]);
    }
}
