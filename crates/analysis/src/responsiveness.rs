//! Responsiveness: number of exchanges a minute that the loaded link allows.
//!
//! **Method.** Foreign: fresh TCP connections under load, the time to set one up and the time of a
//! one-byte request on it: 60 000 / ((TM(tcp) + TM(request)) / 2). Loaded: the round trips of the load's own
//! packets: 60 000 / TM(rtt). The score is the mean of both. TM is the mean of the best 95 %.
//!
//! **Source.** draft-ietf-ippm-responsiveness-09, the variants without TLS and with TCP_INFO instead of
//! requests inside the load's connections, which it allows for HTTP/1.1.
//!
//! **Limits.** Scores of other versions and tools differ several times: the harmonic form, which some of
//! them print, stands beside it, and so do both inputs.

use crate::answer::Responsiveness;
use crate::phases::{self, Phase};
use base::record::{Delay, Direction, Recording};
use stats::Figure;

const FORMULA: &str = "draft-ietf-ippm-responsiveness-09 without TLS: (60000/((TM95(tcp)+TM95(request))/2) + 60000/TM95(TCP_INFO rtt of the load))/2, single-sided";

/// Mean of the smallest 95 %, with the interval of that mean.
pub fn trimmed_mean(values: &[f64]) -> Figure {
    let finite: Vec<f64> = values.iter().copied().filter(|v| v.is_finite()).collect();
    let s = stats::sorted(&finite);
    let keep = (s.len() as f64 * 0.95).round() as usize;
    let Some(limit) = keep.checked_sub(1).map(|i| s[i]) else {
        return Figure::cannot_tell("there are no samples");
    };
    // In the order of sampling, for the sake of the interval; of equal values at the limit the first ones stay.
    let mut left = keep;
    let kept: Vec<f64> = finite
        .into_iter()
        .filter(|v| {
            let stays = *v <= limit && left > 0;
            left -= usize::from(stays);
            stays
        })
        .collect();
    stats::mean_figure(&kept)
}

/// Responsiveness of the phases in `list`.
pub fn responsiveness(rec: &Recording, list: &[Phase]) -> Responsiveness {
    let Some(phase) = ["both", "up", "down"]
        .iter()
        .find_map(|n| list.iter().find(|p| p.name == *n))
    else {
        let unknown = || Figure::cannot_tell("no loaded phase ran");
        return Responsiveness {
            formula: FORMULA.into(),
            rpm: unknown(),
            foreign_rpm: unknown(),
            loaded_rpm: unknown(),
            harmonic_rpm: unknown(),
            foreign_ms: unknown(),
            loaded_ms: unknown(),
        };
    };
    let foreign_ms = foreign(rec, phase);
    let loaded_ms = loaded(rec, phase);
    let (foreign_rpm, loaded_rpm) = (rpm(&foreign_ms), rpm(&loaded_ms));
    Responsiveness {
        formula: format!("{FORMULA}; from the phase \"{}\"", phase.name),
        rpm: mean(&foreign_rpm, &loaded_rpm),
        harmonic_rpm: rpm(&mean(&foreign_ms, &loaded_ms)),
        foreign_rpm,
        loaded_rpm,
        foreign_ms,
        loaded_ms,
    }
}

/// Mean of the times of a fresh connection and of a request on it, ms.
fn foreign(rec: &Recording, phase: &Phase) -> Figure {
    let times = |target: &str| {
        phases::probes(rec, target, phase.steady())
            .into_iter()
            .filter_map(Delay::rtt_ms)
            .collect::<Vec<_>>()
    };
    let (tcp, request) = (times("tcp-connect"), times("tcp-request"));
    match mean(&trimmed_mean(&tcp), &trimmed_mean(&request)) {
        is @ Figure::Is { .. } => is,
        Figure::CannotTell { .. } => Figure::cannot_tell(format!(
            "{} fresh connections and {} requests were answered under load",
            tcp.len(),
            request.len()
        )),
    }
}

/// Smoothed RTT of the load's own packets, ms.
fn loaded(rec: &Recording, phase: &Phase) -> Figure {
    let rtts: Vec<f64> = [Direction::Up, Direction::Down]
        .into_iter()
        .filter(|d| phase.loads(*d))
        .flat_map(|d| phases::flows(rec, d, phase.steady()))
        .filter_map(|f| f.srtt_ns.filter(|v| *v > 0).map(|v| v as f64 / 1e6))
        .collect();
    match trimmed_mean(&rtts) {
        is @ Figure::Is { .. } => is,
        Figure::CannotTell { .. } => {
            Figure::cannot_tell("the load's sender reported no round-trip times")
        }
    }
}

/// Round trips per minute that take `ms` each.
fn rpm(ms: &Figure) -> Figure {
    match ms {
        Figure::Is { value, low, high } if *value > 0.0 && *low > 0.0 => Figure::Is {
            value: 60_000.0 / value,
            low: 60_000.0 / high,
            high: 60_000.0 / low,
        },
        // An interval that reaches zero bounds no rate.
        Figure::Is { value, .. } if *value > 0.0 => Figure::exactly(60_000.0 / value),
        Figure::Is { .. } => Figure::cannot_tell("round trips of zero"),
        other => other.clone(),
    }
}

/// Mean of two figures and of the ends of their intervals.
fn mean(a: &Figure, b: &Figure) -> Figure {
    match (a, b) {
        (
            Figure::Is {
                value: a,
                low: al,
                high: ah,
            },
            Figure::Is {
                value: b,
                low: bl,
                high: bh,
            },
        ) => Figure::Is {
            value: (a + b) / 2.0,
            low: (al + bl) / 2.0,
            high: (ah + bh) / 2.0,
        },
        (Figure::CannotTell { cannot_tell }, _) | (_, Figure::CannotTell { cannot_tell }) => {
            Figure::cannot_tell(cannot_tell.clone())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_trimmed_mean_drops_the_worst_twentieth() {
        // 1 to 19 stay of 1 to 20: mean 10.
        let v: Vec<f64> = (1..=20).rev().map(f64::from).collect();
        assert_eq!(trimmed_mean(&v).value(), Some(10.0));
        // All equal: the limit's ties must not all be kept or all be dropped.
        assert_eq!(trimmed_mean(&[2.0; 40]).value(), Some(2.0));
        assert_eq!(trimmed_mean(&[]).value(), None);
    }
}
