//! Pairs of probes sent one after the other, whose rows come in the order of their answers.
//!
//! **Method.** The last probes are kept in the order of sending. The oldest leaves when enough newer ones have come, and
//! makes a pair with the one that left before it, if both were sent in neighbouring slots. A probe that was lost makes no
//! pair, nor does the one after it (RFC 3393, section 2.2).
//!
//! **Limits.** A row that comes later than [`KEPT`] newer ones makes no pair: pairs are then fewer, and none is wrong.

use std::collections::VecDeque;

/// Number of probes that are kept to bring their rows into order.
const KEPT: usize = 256;

/// Probes that wait for older ones.
#[derive(Clone, Debug, Default)]
pub(super) struct Successive {
    /// Send times and round trips, ns, in the order of sending.
    waiting: VecDeque<(i64, i64)>,
    last: Option<(i64, i64)>,
    interval_ns: i64,
}

impl Successive {
    /// Creates an empty list for probes at this interval.
    pub(super) fn new(interval_ns: i64) -> Successive {
        Successive {
            interval_ns,
            ..Successive::default()
        }
    }

    /// Adds an answered probe. Returns the send time of the later probe of a pair, and the difference of the two round
    /// trips, ns.
    pub(super) fn add(&mut self, sent_ns: i64, rtt_ns: i64) -> Option<(i64, i64)> {
        if self.last.is_some_and(|(t, _)| sent_ns <= t) {
            return None;
        }
        match self.waiting.back() {
            Some((t, _)) if *t > sent_ns => {
                let at = self.waiting.partition_point(|(t, _)| *t < sent_ns);
                self.waiting.insert(at, (sent_ns, rtt_ns));
            }
            _ => self.waiting.push_back((sent_ns, rtt_ns)),
        }
        match self.waiting.len() > KEPT {
            true => self.next(),
            false => None,
        }
    }

    /// True once no probe waits.
    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Lets the oldest probe leave.
    pub(super) fn next(&mut self) -> Option<(i64, i64)> {
        let (sent, rtt) = self.waiting.pop_front()?;
        let before = self.last.replace((sent, rtt));
        let (t, earlier) = before?;
        let apart = sent.saturating_sub(t);
        // Neighbouring slots are one interval apart; one that was left out would make it two.
        let neighbours = apart > self.interval_ns / 2 && apart < self.interval_ns / 2 * 3;
        neighbours.then(|| (sent, rtt.saturating_sub(earlier)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    /// Random streams with losses, whose rows come in the order of their answers: the pairs are those of the definition
    /// in `stats`, which is told the numbers of the probes.
    #[test]
    fn pairs_are_those_of_neighbouring_numbers_in_whatever_order_rows_come() {
        const INTERVAL: i64 = 100_000_000;
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("pairs");
            let mut draw = |most: f64| uniform(&mut rng) * most;
            let longest = 0.01 + draw(5.0);
            let mut rows: Vec<(i64, i64)> = Vec::new();
            for n in 0..2_000 {
                if draw(1.0) > 0.1 {
                    rows.push((n, (draw(longest) * 1e9) as i64));
                }
            }
            let delays: Vec<(i64, f64)> = rows.iter().map(|(n, ns)| (*n, *ns as f64)).collect();
            let mut expected: Vec<(i64, i64)> = stats::ipdv(&delays)
                .map(|(n, ns)| (n * INTERVAL, ns as i64))
                .collect();
            rows.sort_by_key(|(n, rtt)| n * INTERVAL + rtt);
            let mut pairs = Successive::new(INTERVAL);
            let mut found = Vec::new();
            for (n, rtt) in rows {
                found.extend(pairs.add(n * INTERVAL, rtt));
            }
            while !pairs.is_empty() {
                found.extend(pairs.next());
            }
            expected.sort_unstable();
            assert_eq!(
                found, expected,
                "seed {seed}, round trips up to {longest} s"
            );
        }
    }
}
