//! Reliability: the probability that a packet and its answer arrive within a limit.
//!
//! **Method.** Share of the probes sent whose round trip was at most the limit; a lost probe was not
//! delivered in any time. Wilson's interval with the effective sample size.
//!
//! **Source.** Seed document 000, equation (1) and section 6.1.6: the idle period alone misleads, so the
//! share is given for each phase.
//!
//! **Limits.** Probes whose times were invalid are left out: whether they were in time is not known.

use crate::answer::Reliability;
use crate::loss::was_sent;
use crate::phases::rtt_ms;
use base::record::{Delay, Status};

/// Limits in ms that the services of document 000, table 2, and interactive programs ask for.
pub const LIMITS_MS: [f64; 13] = [
    10.0, 20.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 670.0, 700.0, 1000.0, 1500.0,
];

pub fn reliability(probes: &[&Delay], limits_ms: &[f64]) -> Vec<Reliability> {
    let sent: Vec<&&Delay> = probes
        .iter()
        .filter(|d| was_sent(d) && d.status != Status::Invalid)
        .collect();
    let within = |limit: f64| {
        let in_time: Vec<bool> = sent
            .iter()
            .map(|d| d.status == Status::Ok && rtt_ms(d).is_some_and(|rtt| rtt <= limit))
            .collect();
        let n = stats::effective_size_of(in_time.iter().copied());
        let share = in_time.iter().filter(|y| **y).count() as f64 / in_time.len().max(1) as f64;
        let share = if in_time.is_empty() {
            stats::Figure::cannot_tell("no probe was sent")
        } else {
            stats::wilson(share * n, n)
        };
        Reliability {
            limit_ms: limit,
            share,
        }
    };
    limits_ms.iter().map(|l| within(*l)).collect()
}
