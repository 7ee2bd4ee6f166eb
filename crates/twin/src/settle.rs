//! Unit of a plain queue's limit where the phases of one direction leave it open.
//!
//! **Method.** The phase both fills the uplink's queue with ACKs, which are small: a queue of packets has room for fewer
//! bytes then, a queue of bytes has not. The two are tried on that phase, and the likelier is taken.
//!
//! **Limits.** The phase both is no longer held out for this one choice, and the answer says so.

use crate::TwinError;
use crate::answer::Fitted;
use crate::fit::{Side, TIE, Work, of, of_both};
use crate::likeness::{features, likelihood};
use crate::load::Load;
use crate::validate::DIRECTIONS;
use link::LinkSpec;
use link::qdisc::registry::QdiscSpec;
use stats::Figure;

/// Queues of both directions, and their log-likelihood.
struct Choice {
    likely: f64,
    queues: [QdiscSpec; 2],
}

impl Work<'_> {
    /// Settles the unit in both directions. Gives a sentence about what was settled.
    pub(crate) fn settle(
        &self,
        twin: &mut LinkSpec,
        fitted: &mut [Option<Fitted>; 2],
        sides: &[Side; 2],
    ) -> Result<Option<String>, TwinError> {
        let choices = [0, 1].map(|d| open(&fitted[d], &of(twin, DIRECTIONS[d]).queue));
        let both = self.facts.phase("both").filter(|_| self.facts.one_way());
        let (Some(both), true) = (both, choices.iter().any(|c| c.len() > 1)) else {
            return Ok(None);
        };
        let load = self.load_of_both(both, sides);
        let real =
            DIRECTIONS.map(|d| features(&self.facts.observed(&load.part_of(both), d), load.warm));
        let mut tried = Vec::new();
        for up in &choices[0] {
            for down in &choices[1] {
                let queues = [up.clone(), down.clone()];
                let runs = self.runs_of_both(twin, &queues, &load, sides)?;
                let likely = DIRECTIONS.map(|d| {
                    let features: Vec<_> = runs
                        .iter()
                        .map(|r| features(&r[d as usize], load.warm))
                        .collect();
                    likelihood(&real[d as usize], &features).0
                });
                tried.push(Choice {
                    likely: likely.iter().sum(),
                    queues,
                });
            }
        }
        tried.sort_by(|a, b| b.likely.total_cmp(&a.likely));
        let Some(best) = tried.first() else {
            return Ok(None);
        };
        let unit = |c: &Choice| [0, 1].map(|d| c.queues[d].limits().packets.is_some());
        let other = tried.iter().find(|c| unit(c) != unit(best));
        let sure = other.is_none_or(|o| best.likely - o.likely > TIE);
        for d in [0, 1].into_iter().filter(|d| choices[*d].len() > 1) {
            of(twin, DIRECTIONS[d]).queue = best.queues[d].clone();
            if let Some(f) = &mut fitted[d] {
                settled(f, &sides[d], &best.queues[d], sure);
            }
        }
        Ok((sure && other.is_some()).then(|| {
            "the phase both was used to tell a limit in bytes from one in packets; all else was fitted without it".into()
        }))
    }

    fn runs_of_both(
        &self,
        twin: &LinkSpec,
        queues: &[QdiscSpec; 2],
        load: &Load,
        sides: &[Side; 2],
    ) -> Result<Vec<Vec<crate::observe::Observed>>, TwinError> {
        let mut tried = twin.clone();
        for (direction, queue) in DIRECTIONS.into_iter().zip(queues) {
            of(&mut tried, direction).queue = queue.clone();
        }
        self.repeat(&tried, load, &DIRECTIONS, of_both(sides))
    }
}

/// Plain queues that explain a direction alike; the present one alone if there is nothing to choose.
fn open(fitted: &Option<Fitted>, own: &QdiscSpec) -> Vec<QdiscSpec> {
    let ties = fitted.iter().flat_map(|f| &f.ties);
    let plain = ties.filter_map(|t| t.queue.parse::<QdiscSpec>().ok());
    let mut found: Vec<QdiscSpec> = plain.filter(|q| q.name() == "fifo").collect();
    found.dedup();
    match found.len() >= 2 && own.name() == "fifo" {
        true => found,
        false => vec![own.clone()],
    }
}

/// Writes the queue that was settled into the figures of its direction.
fn settled(f: &mut Fitted, side: &Side, queue: &QdiscSpec, sure: bool) {
    let in_packets = |q: &QdiscSpec| q.limits().packets.is_some();
    if sure {
        f.ties.retain(|t| {
            let tie: Option<QdiscSpec> = t.queue.parse().ok();
            tie.is_some_and(|q| q.name() != "fifo" || in_packets(&q) == in_packets(queue))
        });
    }
    let limits = queue.limits();
    let packets = limits.packets.map(|n| n as f64 * side.real.packet_bytes);
    let bytes = limits.bytes.map(|b| b.get() as f64).or(packets);
    if let (
        Some(value),
        Figure::Is {
            value: old,
            low,
            high,
        },
    ) = (bytes, &f.buffer_bytes)
    {
        f.buffer_bytes = Figure::Is {
            value,
            low: (value - (old - low)).max(0.0),
            high: value + (high - old),
        };
    }
}
