//! Reliability: the probability that a packet and its answer arrive within a limit.
//!
//! **Method.** Share of the probes sent whose round trip was at most the limit; a lost probe exceeds every limit.
//! Wilson's interval with the effective sample size.
//!
//! **Source.** Borlaug 2014, equation (1) and section 6.1.6: the idle period alone misleads, so the
//! share is given for each phase.
//!
//! **Limits.** Probes whose times were invalid are left out: whether they were in time is not known.

use crate::answer::Reliability;
use base::record::{Delay, Status};

/// Limits in ms that the services of Borlaug 2014, table 2, and interactive programs ask for.
pub const LIMITS_MS: [f64; 13] = [
    10.0, 20.0, 50.0, 100.0, 150.0, 200.0, 300.0, 400.0, 500.0, 670.0, 700.0, 1000.0, 1500.0,
];

/// Share of the probes within each limit.
pub fn reliability(probes: &[&Delay], limits_ms: &[f64]) -> Vec<Reliability> {
    let sent: Vec<&&Delay> = probes
        .iter()
        .filter(|d| d.status.was_sent() && d.status != Status::Invalid)
        .collect();
    let within = |limit: f64| {
        let in_time: Vec<bool> = sent
            .iter()
            .map(|d| d.status == Status::Ok && d.rtt_ms().is_some_and(|rtt| rtt <= limit))
            .collect();
        let share = match in_time.is_empty() {
            true => stats::Figure::cannot_tell("no probe was sent"),
            false => stats::share(&in_time),
        };
        Reliability {
            limit_ms: limit,
            share,
        }
    };
    limits_ms.iter().map(|l| within(*l)).collect()
}
