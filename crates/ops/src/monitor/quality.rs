//! Alarm for a target that answers, but slowly or not always.
//!
//! **Method.** Once a second the last minute is judged: the 95 % point of its round trips, and the share of its probes that
//! were not answered in time. A limit that is reached rings. It ends once the delay is below three quarters of its
//! limit, the loss below half of it. Between two changes lies a minute, so no probe is judged twice.
//!
//! **Limits.** Round trips are counted in buckets of 9 %, so the 95 % point is known to 5 %. A minute with fewer than ten
//! probes is not judged, so a target needs an interval of six seconds or less. Loss is known once the time for loss is
//! over.

use base::Duration;
use experiment::monitor::SCHEMA;
use std::collections::{BTreeMap, VecDeque};

/// Time that is judged.
const WINDOW: Duration = Duration::from_secs(60);
/// Smallest number of probes that is judged.
const LEAST: u64 = 10;
/// Share of the limit of the delay below which the alarm ends.
const DELAY_ENDS: f64 = 0.75;
/// Share of the limit of the loss below which the alarm ends.
const LOSS_ENDS: f64 = 0.5;

/// Limits that ring; none if there is no alarm of that kind.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Limits {
    /// 95 % point of the round trip, ms.
    pub(super) delay_ms: Option<f64>,
    /// Share of probes without an answer in time, %.
    pub(super) loss_percent: Option<f64>,
}

/// Counts of a target since the begin of the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Counts {
    pub(super) answered: u64,
    pub(super) unanswered: u64,
    /// Answers by [`experiment::monitor::bucket`].
    pub(super) buckets: BTreeMap<i32, u64>,
}

/// Figure of the last minute that has reached its limit, or no longer does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Figure {
    /// 95 % point of the round trip, ms.
    Delay(f64),
    /// Share of probes without an answer in time, %.
    Loss(f64),
}

/// Alarm of one kind.
#[derive(Clone, Copy, Debug, Default)]
struct Alarm {
    rings: bool,
    changed: Option<Duration>,
}

impl Alarm {
    /// Judges a figure; returns true if the alarm has changed.
    fn judge(&mut self, now: Duration, value: f64, limit: f64, ends: f64) -> bool {
        let changes = match self.rings {
            false => value >= limit,
            true => value < limit * ends,
        };
        let is_fresh = |at: Duration| now.saturating_sub(at) >= WINDOW;
        let changes = changes && self.changed.is_none_or(is_fresh);
        if changes {
            self.rings = !self.rings;
            self.changed = Some(now);
        }
        changes
    }
}

/// State of one target.
#[derive(Debug, Default)]
pub(super) struct Quality {
    limits: Limits,
    counts: VecDeque<(Duration, Counts)>,
    delay: Alarm,
    loss: Alarm,
}

impl Quality {
    pub(super) fn new(limits: Limits) -> Quality {
        Quality {
            limits,
            ..Quality::default()
        }
    }

    /// Forgets the last minute: the target was down, of which another alert tells.
    pub(super) fn forget(&mut self) {
        self.counts.clear();
    }

    /// Takes the counts at a time since the begin; returns what begins (`true`) or ends to ring.
    pub(super) fn step(&mut self, now: Duration, counts: Counts) -> Vec<(bool, Figure)> {
        if self.limits == Limits::default() {
            return Vec::new();
        }
        self.counts.push_back((now, counts));
        let old = |at: Duration| now.saturating_sub(at) >= WINDOW;
        while self.counts.get(1).is_some_and(|(at, _)| old(*at)) {
            self.counts.pop_front();
        }
        let (Some((at, before)), Some((_, last))) = (self.counts.front(), self.counts.back())
        else {
            return Vec::new();
        };
        let lost = last.unanswered.saturating_sub(before.unanswered);
        let judged = last.answered.saturating_sub(before.answered) + lost;
        if !old(*at) || judged < LEAST {
            return Vec::new();
        }
        let loss = 100.0 * lost as f64 / judged as f64;
        let p95 = p95_ms(&before.buckets, &last.buckets);
        let mut changes = Vec::new();
        if let (Some(limit), Some(p95)) = (self.limits.delay_ms, p95)
            && self.delay.judge(now, p95, limit, DELAY_ENDS)
        {
            changes.push((self.delay.rings, Figure::Delay(p95)));
        }
        if let Some(limit) = self.limits.loss_percent
            && self.loss.judge(now, loss, limit, LOSS_ENDS)
        {
            changes.push((self.loss.rings, Figure::Loss(loss)));
        }
        changes
    }
}

/// 95 % point of the answers between two counts, ms: the geometric middle of its bucket.
fn p95_ms(before: &BTreeMap<i32, u64>, last: &BTreeMap<i32, u64>) -> Option<f64> {
    let fresh = |(bucket, n): (&i32, &u64)| (*bucket, n - before.get(bucket).unwrap_or(&0).min(n));
    let fresh: Vec<(i32, u64)> = last.iter().map(fresh).collect();
    let all: u64 = fresh.iter().map(|(_, n)| n).sum();
    let rank = (0.95 * all as f64).ceil() as u64;
    let mut below = 0;
    let (bucket, _) = fresh.iter().find(|(_, n)| {
        below += n;
        below >= rank && all > 0
    })?;
    let octaves = f64::from(1 << SCHEMA);
    Some(1e3 * ((f64::from(*bucket) - 0.5) / octaves).exp2())
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};
    use experiment::monitor::bucket;

    /// Changes by second, of ten probes a second with these round trips, ms; none is a lost probe.
    fn told(limits: Limits, rtt_ms: &[Option<f64>]) -> Vec<(u64, bool, Figure)> {
        let mut quality = Quality::new(limits);
        let mut counts = Counts::default();
        let mut all = Vec::new();
        for (i, rtt) in rtt_ms.iter().enumerate() {
            match rtt {
                Some(ms) => {
                    counts.answered += 1;
                    let rtt = Duration::from_nanos((ms * 1e6) as u64);
                    *counts.buckets.entry(bucket(rtt)).or_default() += 1;
                }
                None => counts.unanswered += 1,
            }
            if i % 10 == 9 {
                let second = i as u64 / 10 + 1;
                let changes = quality.step(Duration::from_secs(second), counts.clone());
                all.extend(changes.into_iter().map(|(begins, f)| (second, begins, f)));
            }
        }
        all
    }

    #[test]
    fn a_slow_minute_rings_once_and_a_quick_one_ends_it() {
        let limits = Limits {
            delay_ms: Some(100.0),
            ..Limits::default()
        };
        // 20 ms, and 300 ms from 100 s to 200 s.
        let rtt: Vec<_> = (0..4_000)
            .map(|i| {
                Some(if (1_000..2_000).contains(&i) {
                    300.0
                } else {
                    20.0
                })
            })
            .collect();
        let all = told(limits, &rtt);
        let [
            (begin, true, Figure::Delay(high)),
            (end, false, Figure::Delay(low)),
        ] = all[..]
        else {
            panic!("{all:?}");
        };
        // One of twenty in a minute is slow after three seconds, and the last of those has left 57 s after the end.
        assert_eq!((begin, end), (104, 257));
        assert!((high / 300.0 - 1.0).abs() < 0.05 && (low / 20.0 - 1.0).abs() < 0.05);
        assert!(told(Limits::default(), &rtt).is_empty());
    }

    #[test]
    fn loss_rings_at_its_limit_and_ends_at_half_of_it() {
        let limits = Limits {
            loss_percent: Some(2.0),
            ..Limits::default()
        };
        // Each n-th probe is lost: 1 %, then 4 %, then 1.25 %, then 0.5 %.
        let every = |n: usize, i: usize| (!i.is_multiple_of(n)).then_some(20.0);
        let rtt: Vec<_> = (1..=8_000)
            .map(|i| match i {
                ..=2_000 => every(100, i),
                2_001..=4_000 => every(25, i),
                4_001..=6_000 => every(80, i),
                _ => every(200, i),
            })
            .collect();
        let all = told(limits, &rtt);
        assert_eq!(all.len(), 2, "{all:?}");
        assert!(all[0].1 && (201..=260).contains(&all[0].0), "{all:?}");
        assert!(!all[1].1 && (601..=660).contains(&all[1].0), "{all:?}");
    }

    /// Random links about the limits: changes of a kind alternate, with a minute between them, and each is true of the
    /// minute before it.
    #[test]
    fn random_links_ring_only_with_reason_and_once_a_minute() {
        for seed in 0..100 {
            let mut rng = Streams::new(seed).stream("quality");
            let limits = Limits {
                delay_ms: Some(100.0),
                loss_percent: Some(2.0),
            };
            let (mut rtt, mut level, mut loss) = (Vec::new(), 50.0, 0.01);
            for i in 0..6_000 {
                if i % 150 == 0 {
                    level = 30.0 + 150.0 * uniform(&mut rng);
                    loss = 0.05 * uniform(&mut rng);
                }
                let is_lost = uniform(&mut rng) < loss;
                rtt.push((!is_lost).then(|| level * (0.9 + 0.2 * uniform(&mut rng))));
            }
            let all = told(limits, &rtt);
            let is_delay = |f: &Figure| matches!(f, Figure::Delay(_));
            for kind in [true, false] {
                let mine: Vec<_> = all.iter().filter(|c| is_delay(&c.2) == kind).collect();
                for (i, c) in mine.iter().enumerate() {
                    assert_eq!(c.1, i % 2 == 0, "seed {seed}: {all:?}");
                    assert!(i == 0 || c.0 - mine[i - 1].0 >= 60, "seed {seed}: {all:?}");
                }
            }
            for (second, begins, figure) in &all {
                let to = *second as usize * 10;
                let minute = &rtt[to - 600..to];
                let mut known: Vec<f64> = minute.iter().flatten().copied().collect();
                known.sort_by(f64::total_cmp);
                let (value, limit, ends) = match figure {
                    Figure::Delay(v) => {
                        let rank = (0.95 * known.len() as f64).ceil() as usize;
                        assert!((v / known[rank - 1] - 1.0).abs() < 0.05, "seed {seed}");
                        (*v, 100.0, 75.0)
                    }
                    Figure::Loss(v) => {
                        let lost = 600 - known.len();
                        assert_eq!(*v, 100.0 * lost as f64 / 600.0, "seed {seed}");
                        (*v, 2.0, 1.0)
                    }
                };
                assert!(
                    if *begins {
                        value >= limit
                    } else {
                        value < ends
                    },
                    "seed {seed}"
                );
            }
        }
    }
}
