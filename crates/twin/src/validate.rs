//! Comparison of a recording with runs of its twin under the same load.
//!
//! **Method.** The load is repeated over several seeds. The link's waits are compared with each run's: quantiles, the mean
//! distance of the distributions, and the same distance between runs as the noise floor. A phase that the twin was not
//! fitted to decides.

use crate::answer::{Compared, Trust};
use crate::distance::w1;
use crate::observe::Observed;
use base::record::Direction;

/// Error of a quantile of the waits up to which link and twin agree: a share of the 95 % point, packets' times, and ms.
const AGREE: (f64, f64, f64) = (0.10, 1.0, 1.0);
/// Error from which they are not the same link.
const REJECT: (f64, f64, f64) = (0.25, 2.0, 3.0);
/// Distance of the waits' distributions for the same, beyond the chance of several seeds: a share of the 95 % point,
/// packets' times, ms, and how often the distance of the run that is farthest from the others.
const UNLIKE: [((f64, f64, f64), f64); 2] = [((0.05, 0.5, 0.5), 1.3), ((0.12, 0.75, 1.5), 2.0)];
/// Errors of the rate for the same, where one direction is loaded, and where both are: there it hangs on the ACKs.
const RATES: [(f64, f64); 2] = [(0.05, 0.12), (0.10, 0.25)];

/// Compares one direction of a phase with runs of the twin. None if either has no waits.
pub fn compare(
    phase: &str,
    held_out: bool,
    real: &Observed,
    runs: &[Observed],
) -> Option<Compared> {
    const POINTS: [f64; 3] = [0.5, 0.95, 0.99];
    let of = |o: &Observed| -> Option<[f64; 3]> {
        let [a, b, c] = POINTS.map(|p| o.quantile(p));
        Some([a?, b?, c?])
    };
    let link_ms = of(real)?;
    let each: Vec<[f64; 3]> = runs.iter().filter_map(of).collect();
    if each.is_empty() {
        return None;
    }
    let mean = |i: usize| each.iter().map(|e| e[i]).sum::<f64>() / each.len() as f64;
    let twin_ms = [0, 1, 2].map(mean);
    let range = |i: usize| {
        let all = each.iter().map(|e| e[i]);
        all.fold([f64::INFINITY, f64::NEG_INFINITY], |r, v| {
            [r[0].min(v), r[1].max(v)]
        })
    };
    // Beyond half of the range over seeds, no chance explains an error.
    let beyond = |i: usize| {
        let [low, high] = range(i);
        ((twin_ms[i] - link_ms[i]).abs() - (high - low) / 2.0).max(0.0)
    };
    let off_ms = [0, 1, 2].map(beyond).into_iter().fold(0.0, f64::max);
    let range = range(1);
    let far: Vec<f64> = runs
        .iter()
        .filter_map(|o| w1(&real.steady, &o.steady))
        .collect();
    let (mut floor, mut farthest_ms) = (Vec::new(), 0f64);
    for (i, a) in runs.iter().enumerate() {
        let others = runs.iter().enumerate().filter(|(j, _)| *j != i);
        let own: Vec<f64> = others
            .filter_map(|(_, b)| w1(&a.steady, &b.steady))
            .collect();
        farthest_ms = farthest_ms.max(stats::median(&own).unwrap_or(0.0));
        floor.extend(own);
    }
    let (w1_ms, floor_ms) = (stats::median(&far)?, stats::median(&floor).unwrap_or(0.0));
    let rate_error = rate_error(real, runs);
    let error_ms = twin_ms[1] - link_ms[1];
    let trust = judge(
        real,
        off_ms,
        (range[1] - range[0]) / 2.0,
        rate_error.map(|r| r.0.abs() - r.1),
        (w1_ms, farthest_ms),
        RATES[usize::from(held_out)],
    );
    Some(Compared {
        phase: phase.into(),
        held_out,
        direction: real.direction,
        link_ms,
        twin_ms,
        twin_p95_range_ms: range,
        p95_error: error_ms / link_ms[1].max(1e-3),
        w1_ms,
        floor_ms,
        score: w1_ms / floor_ms.max(1e-3),
        rate_error: rate_error.map(|r| r.0),
        replayed: None,
        trust,
    })
}

impl Compared {
    /// The comparison with that of runs which had the capacity of the phase: these decide. Where a capacity is unknown, a
    /// difference may be its own and rejects nothing.
    pub(crate) fn with(self, replayed: Option<Compared>, unknown: bool) -> Compared {
        let trust = replayed.as_ref().map_or(self.trust, |r| r.trust);
        Compared {
            trust: if unknown {
                trust.min(Trust::Doubtful)
            } else {
                trust
            },
            replayed: replayed.map(Into::into),
            ..self
        }
    }
}

/// Relative error of the mean rate of the runs, and half of their range.
fn rate_error(real: &Observed, runs: &[Observed]) -> Option<(f64, f64)> {
    let carried: Vec<f64> = runs.iter().filter_map(|o| o.carried_bps).collect();
    let link = real.carried_bps.filter(|r| *r > 0.0)?;
    let twin = stats::moments(&carried)?;
    Some((twin.mean / link - 1.0, (twin.max - twin.min) / 2.0 / link))
}

/// Verdict on one direction.
fn judge(
    real: &Observed,
    off_ms: f64,
    scatter: f64,
    rate_off: Option<f64>,
    (w1_ms, farthest_ms): (f64, f64),
    rates: (f64, f64),
) -> Trust {
    let p95 = real.quantile(0.95).unwrap_or(0.0);
    let within =
        |(share, packets, ms): (f64, f64, f64)| (share * p95).max(packets * real.packet_ms).max(ms);
    let rate = rate_off.unwrap_or(0.0);
    let unlike = UNLIKE.map(|(least, times)| w1_ms > within(least) && w1_ms > times * farthest_ms);
    let far = |bound| off_ms > within(bound) || w1_ms > within(bound) + scatter;
    if far(REJECT) || rate > rates.1 || unlike[1] {
        Trust::Rejected
    } else if far(AGREE) || rate > rates.0 || unlike[0] {
        Trust::Doubtful
    } else {
        Trust::Agrees
    }
}

/// Verdict on the twin, and the reasons.
pub fn verdict(compared: &[Compared]) -> (Trust, Vec<String>) {
    let mut because = Vec::new();
    let worst = compared.iter().map(|c| c.trust).max();
    for c in compared.iter().filter(|c| c.trust != Trust::Agrees) {
        let replayed = c.replayed.as_ref();
        let (twin_ms, rate_error) =
            replayed.map_or((c.twin_ms, c.rate_error), |r| (r.twin_ms, r.rate_error));
        because.push(format!(
            "phase {}, {}: the 95 % point of the waits is {:.1} ms on the link and {:.1} ms on the twin{}{}",
            c.phase,
            c.direction,
            c.link_ms[1],
            twin_ms[1],
            if replayed.is_some() { " of the same capacity" } else { "" },
            rate_error
                .map_or(String::new(), |e| format!(
                    ", the rate differs by {:.1} %",
                    100.0 * e
                ))
        ));
    }
    for c in compared.iter().filter(|c| c.replayed.is_some()) {
        because.push(format!(
            "phase {}, {}: with the capacity of the phase {}, the 95 % point of the twin differs by {:+.0} %: so much may change from one minute to the next",
            c.phase,
            c.direction,
            c.direction.word(),
            100.0 * c.p95_error
        ));
    }
    if !compared.iter().any(|c| c.held_out) {
        because.push(
            "no phase is left to check the twin on: record a test with all phases, idle, down, up and both".into(),
        );
        return (
            worst.unwrap_or(Trust::Doubtful).max(Trust::Doubtful),
            because,
        );
    }
    (worst.unwrap_or(Trust::Doubtful), because)
}

/// Both directions.
pub const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];
