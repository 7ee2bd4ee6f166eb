//! Compact JSON of the curves for the page's script. `web/src/page.ts` declares the same structure.

use crate::curves::{Cdf, Curves, Point};
use crate::words::phase;
use maud::{Markup, PreEscaped};
use serde_json::{Value, json};

/// Returns JSON for a script element: `<` is escaped, so that no text in it can end the element.
pub fn inline(json: &str) -> Markup {
    PreEscaped(json.replace('<', "\\u003c"))
}

pub fn curves(c: &Curves) -> Value {
    let mut whole_page = json!({
        "span_s": c.span_s,
        "phases": c.phases.iter().map(|p| json!({ "name": p.name, "label": phase(&p.name), "from_s": p.from_s, "to_s": p.to_s })).collect::<Vec<_>>(),
        "probes": line(&c.probes),
        "in_flow_down": line(&c.in_flow_down),
        "in_flow_up": line(&c.in_flow_up),
        "lost_s": c.lost_s.iter().map(|t| rounded(*t, 1e4)).collect::<Vec<_>>(),
        "bins": {
            "step_s": c.bins.step_s,
            "down_bps": whole(&c.bins.down_bps),
            "up_bps": whole(&c.bins.up_bps),
        },
        "cdf": cdf(&c.cdf),
    });
    if let Some((from_s, zone)) = &c.civil {
        whole_page["from_s"] = json!(from_s);
        whole_page["zone"] = json!(zone);
    }
    whole_page
}

/// Returns all phases on one RTT axis, as the plot needs them.
fn cdf(phases: &[Cdf]) -> Value {
    let mut ms: Vec<f64> = phases
        .iter()
        .flat_map(|c| c.steps.iter().map(|s| rounded(s.0, 1e3)))
        .collect();
    ms.sort_by(f64::total_cmp);
    ms.dedup();
    let shares = |c: &Cdf| -> Vec<f64> {
        let below = |v: f64| c.steps.partition_point(|s| rounded(s.0, 1e3) <= v);
        ms.iter()
            .map(|v| {
                below(*v)
                    .checked_sub(1)
                    .map_or(0.0, |i| rounded(c.steps[i].1 * 100.0, 1e3))
            })
            .collect()
    };
    json!({ "ms": ms, "phases": phases.iter().map(|c| json!({ "name": c.phase, "label": phase(&c.phase), "percent": shares(c) })).collect::<Vec<_>>() })
}

fn line(points: &[Point]) -> Value {
    json!({
        "t_s": points.iter().map(|p| rounded(p.t_s, 1e4)).collect::<Vec<_>>(),
        "ms": points.iter().map(|p| p.ms.map(|v| rounded(v, 1e3))).collect::<Vec<_>>(),
    })
}

fn whole(values: &[Option<f64>]) -> Vec<Option<i64>> {
    values.iter().map(|v| v.map(|v| v.round() as i64)).collect()
}

/// Rounds to one of `parts` parts of the unit: further digits are invisible and would only enlarge the page.
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
        let v = cdf(&[one, two]);
        assert_eq!(v["ms"], json!([1.0, 2.0, 3.0, 4.0]));
        assert_eq!(v["phases"][0]["percent"], json!([50.0, 50.0, 100.0, 100.0]));
        assert_eq!(v["phases"][1]["percent"], json!([0.0, 50.0, 50.0, 90.0]));
    }
}
