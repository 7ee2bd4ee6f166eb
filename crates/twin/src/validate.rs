//! Comparison of a recording with runs of its twin under the same load.
//!
//! **Method.** The load is repeated over several seeds. The link's waits are compared with each run's: quantiles, the mean
//! distance of the distributions, and the same distance between runs as the noise floor. A phase that the twin was not
//! fitted to decides.

use crate::answer::{Compared, Trust};
use crate::distance::w1;
use crate::observe::Observed;
use base::record::Direction;

/// Error of the 95 % point up to which link and twin agree: a share, packets' times, and ms.
const AGREE: (f64, f64, f64) = (0.10, 1.5, 1.0);
/// Error from which they are not the same link.
const REJECT: (f64, f64, f64) = (0.25, 3.0, 3.0);
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
    let p95: Vec<f64> = stats::sorted(&each.iter().map(|e| e[1]).collect::<Vec<_>>());
    let range = [p95[0], p95[p95.len() - 1]];
    let far: Vec<f64> = runs
        .iter()
        .filter_map(|o| w1(&real.steady, &o.steady))
        .collect();
    let mut floor = Vec::new();
    for (i, a) in runs.iter().enumerate() {
        for b in &runs[i + 1..] {
            floor.extend(w1(&a.steady, &b.steady));
        }
    }
    let (w1_ms, floor_ms) = (stats::median(&far)?, stats::median(&floor).unwrap_or(0.0));
    let rate_error = rate_error(real, runs);
    let error_ms = twin_ms[1] - link_ms[1];
    let trust = judge(
        real,
        (error_ms, range),
        rate_error.map(|r| r.0.abs() - r.1),
        w1_ms,
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
        trust,
    })
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
    (error_ms, range): (f64, [f64; 2]),
    rate_off: Option<f64>,
    w1_ms: f64,
    rates: (f64, f64),
) -> Trust {
    let p95 = real.quantile(0.95).unwrap_or(0.0);
    let within =
        |(share, packets, ms): (f64, f64, f64)| (share * p95).max(packets * real.packet_ms).max(ms);
    let scatter = (range[1] - range[0]) / 2.0;
    let off = (error_ms.abs() - scatter).max(0.0);
    let rate = rate_off.unwrap_or(0.0);
    if off > within(REJECT) || rate > rates.1 || w1_ms > within(REJECT) + scatter {
        Trust::Rejected
    } else if off > within(AGREE) || rate > rates.0 || w1_ms > within(AGREE) + scatter {
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
        because.push(format!(
            "phase {}, {}: the 95 % point of the waits is {:.1} ms on the link and {:.1} ms on the twin{}",
            c.phase,
            c.direction,
            c.link_ms[1],
            c.twin_ms[1],
            c.rate_error
                .map_or(String::new(), |e| format!(
                    ", the rate differs by {:.1} %",
                    100.0 * e
                ))
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
