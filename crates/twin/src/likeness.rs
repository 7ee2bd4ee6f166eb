//! Likeness of a recording to the runs of one candidate.
//!
//! **Method.** A run is reduced to a dozen figures: rate, quantiles and roughness of the waits, losses, waits of the load's
//! own packets. Several seeds of a candidate give each figure's mean and scatter. The recording's figures are then judged
//! as one more draw, by Student's distribution, so that no single figure decides. The figures depend on each other; the sum
//! counts half.
//!
//! **Source.** S. N. Wood, "Statistical inference for noisy nonlinear ecological dynamic systems", Nature 466 (2010):
//! synthetic likelihood; here with a diagonal covariance and heavy tails.

use crate::observe::Observed;
use base::Duration;

/// Degrees of freedom of the tails.
const TAILS: f64 = 4.0;
/// Weight of the sum: its figures depend on each other.
const WEIGHT: f64 = 0.5;

/// Figure of a run, and the error below which it says nothing.
#[derive(Clone, Copy, Debug)]
pub struct Feature {
    value: f64,
    floor: f64,
}

/// Figures of a run, in a fixed order; none where the run does not tell.
pub fn features(o: &Observed, warm: Duration) -> Vec<Option<Feature>> {
    let wait = |v: f64| Feature {
        value: v,
        floor: 0.3 * o.packet_ms + 0.1 + 0.02 * v,
    };
    let of = |v: &[f64], p| stats::quantile(v, p);
    let moments = stats::moments(&o.steady);
    let roughness = {
        let steps: Vec<f64> = o.steady.windows(2).map(|w| (w[1] - w[0]).abs()).collect();
        stats::moments(&steps).map(|m| m.mean)
    };
    let share = |part: f64, of: f64| Feature {
        value: ((part + 0.5) / (of + 1.0)).ln(),
        floor: (1.0 / (part + 0.5)).sqrt().max(0.1),
    };
    vec![
        o.carried_bps.filter(|r| *r > 0.0).map(|r| Feature {
            value: r.ln(),
            floor: 0.004,
        }),
        of(&o.steady, 0.05).map(wait),
        of(&o.steady, 0.25).map(wait),
        of(&o.steady, 0.5).map(wait),
        of(&o.steady, 0.75).map(wait),
        of(&o.steady, 0.95).map(wait),
        of(&o.steady, 0.99).map(wait),
        moments.map(|m| wait(m.sd)),
        roughness.map(wait),
        o.first_peak(warm).map(wait),
        (o.sent >= 20.0).then(|| share(o.lost, o.sent)),
        (o.segments >= 20.0).then(|| share(o.again, o.segments)),
        of(&o.in_flow, 0.5).map(|v| Feature {
            floor: 1.0 + 0.7 * o.packet_ms + 0.05 * v,
            value: v,
        }),
        of(&o.in_flow, 0.95).map(|v| Feature {
            floor: 1.0 + 0.7 * o.packet_ms + 0.05 * v,
            value: v,
        }),
    ]
}

/// Log-likelihood of the recording's figures among those of the runs, and its sum of squared standard scores for each
/// figure.
pub fn likelihood(real: &[Option<Feature>], runs: &[Vec<Option<Feature>>]) -> (f64, Vec<f64>) {
    let (mut sum, mut scores) = (0.0, Vec::new());
    for (i, real) in real.iter().enumerate() {
        let Some(real) = real else { continue };
        let values: Vec<f64> = runs.iter().filter_map(|r| r[i].map(|f| f.value)).collect();
        let Some(m) = stats::moments(&values).filter(|m| m.n >= 2) else {
            // No run of the candidate shows this figure at all.
            sum -= 5.0;
            continue;
        };
        // The scatter of few seeds is itself uncertain.
        let widened = m.sd * (1.0 + 1.0 / m.n as f64).sqrt() * (1.0 + 1.0 / (m.n as f64 - 1.0));
        let sd = widened.hypot(real.floor);
        let z = (real.value - m.mean) / sd;
        scores.push(z);
        sum -= (TAILS + 1.0) / 2.0 * (z * z / TAILS).ln_1p() + (sd / real.floor).ln();
    }
    (WEIGHT * sum, scores)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(values: &[f64]) -> Vec<Option<Feature>> {
        let feature = |v: &f64| {
            Some(Feature {
                value: *v,
                floor: 0.1,
            })
        };
        values.iter().map(feature).collect()
    }

    #[test]
    fn the_candidate_whose_runs_scatter_around_the_recording_is_likelier() {
        let real = run(&[1.0, 2.0]);
        let near = [run(&[0.9, 2.1]), run(&[1.1, 1.9]), run(&[1.0, 2.0])];
        let far = [run(&[3.0, 2.1]), run(&[3.2, 1.9]), run(&[2.8, 2.0])];
        let vague = [run(&[-9.0, 2.1]), run(&[11.0, 1.9]), run(&[1.0, 2.0])];
        let of = |runs: &[Vec<Option<Feature>>]| likelihood(&real, runs).0;
        assert!(of(&near) > of(&far) + 2.0);
        assert!(of(&near) > of(&vague) + 1.0);
    }
}
