//! Load of the measuring host: its processors, and whether the host itself may be the cause of bad seconds.
//!
//! **Method.** A host is busy while [`BUSY`] of all its processors' time or more is used. A second is bad if a probe that
//! was sent in it was lost, or answered later than the 95 % point of its target. The host may be the cause if it was busy
//! in at least [`LEAST`] bad seconds, their share is more than [`TIMES`] times that of the other seconds, and chance does not
//! explain it. Bad seconds come in groups, and so does load: one group that meets another proves nothing. So the busy times
//! are shifted against the seconds, around the end to the begin, by [`SHIFTS`] steps. Chance explains what more than
//! [`RARE`] of these reach.
//!
//! **Source.** Borlaug 2014, section 4.6.3 and figure 40 (load of the router beside the probes).
//!
//! **Limits.** A share of all processors hides a single one that is full. Probes known only by distributions have no
//! seconds. A busy host beside bad seconds is no proof: the same traffic may load both the host and the link.

use base::record::{HostLoad, Status};
use base::sketch::Sketch;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Share of all processors from which a host is busy.
pub const BUSY: f64 = 0.9;
/// Fewest busy bad seconds of a suspicion.
pub const LEAST: u64 = 5;
/// Least ratio of the busy shares of bad and other seconds.
pub const TIMES: f64 = 2.0;
/// Longest interval of a sample: ten minutes of a thinned recording, and some slack.
const LONGEST_NS: i64 = 660_000_000_000;
/// Number of shifts.
pub const SHIFTS: usize = 200;
/// Seconds that are shifted: the first 46 days.
const SHIFTED: usize = 4_000_000;
/// Share of the shifts above which chance explains as many bad seconds.
pub const RARE: f64 = 0.02;
const S: i64 = 1_000_000_000;
/// Time after which rows of a second are complete: losses are written some seconds late.
const OPEN_S: i64 = 600;
/// Resolution of a share.
const MILLIONTH: f64 = 1e-6;

/// Load of the measuring host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct HostSummary {
    /// Number of samples.
    pub samples: u64,
    /// Busy share of all processors: user, system, interrupt and stolen time.
    pub cpu: Option<Shares>,
    /// Share of user time; null if it is unknown, as in recordings of earlier versions.
    pub cpu_user: Option<Shares>,
    /// Share of system time, interrupts excluded.
    pub cpu_system: Option<Shares>,
    /// Share of interrupts.
    pub cpu_interrupt: Option<Shares>,
    /// Share of idle time in which a disk was waited for; no part of `cpu`.
    pub cpu_wait: Option<Shares>,
    /// Time in which the host was busy, s.
    pub busy_s: f64,
    /// Busy and other seconds of each target, if the host was ever busy.
    pub seconds: Vec<BusySeconds>,
}

/// Distribution of a share of the processors' time, each 0 to 1.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Shares {
    /// Mean of the samples.
    pub mean: f64,
    /// Share that half of the samples are below.
    pub p50: f64,
    /// Share that 95 % of the samples are below.
    pub p95: f64,
    /// Largest share.
    pub most: f64,
}

/// Seconds with probes of a target, counted by their quality and the host's load.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BusySeconds {
    /// Name of the target.
    pub target: String,
    /// Seconds with a lost probe, or one above the 95 % point.
    pub bad: u64,
    /// Bad seconds in which the host was busy.
    pub bad_busy: u64,
    /// Other seconds.
    pub others: u64,
    /// Other seconds in which the host was busy.
    pub others_busy: u64,
    /// Share of the shifts that have as many busy bad seconds; null where the counts alone show that nothing is suspect.
    #[serde(default)]
    pub chance: Option<f64>,
}

impl BusySeconds {
    /// True if the host may be the cause of the bad seconds.
    pub fn suspects_host(&self) -> bool {
        self.chance.is_some_and(|share| share <= RARE)
    }
}

/// Seconds with probes, in order: which are within some times, and which are bad.
#[derive(Default)]
struct Order {
    within: Vec<u64>,
    bad: Vec<u32>,
    len: usize,
}

impl Order {
    fn push(&mut self, bad: bool, within: bool) {
        if self.len == SHIFTED {
            return;
        }
        if self.len.is_multiple_of(64) {
            self.within.push(0);
        }
        if let Some(last) = self.within.last_mut() {
            *last |= u64::from(within) << (self.len % 64);
        }
        if bad {
            self.bad.extend(u32::try_from(self.len).ok());
        }
        self.len += 1;
    }

    /// Bad seconds within the times after these are shifted by so many seconds.
    fn met(&self, shift: usize) -> u64 {
        let at = |i: usize| self.within[i / 64] >> (i % 64) & 1;
        let met = self
            .bad
            .iter()
            .map(|b| at((*b as usize + shift) % self.len));
        met.sum()
    }

    /// Share of the shifts with as many bad seconds within as without a shift.
    fn chance(&self) -> f64 {
        let met = self.met(0);
        let shifts = SHIFTS.min(self.len.saturating_sub(1));
        let shift = |k: usize| k * self.len / (shifts + 1);
        let as_many = (1..=shifts).filter(|k| self.met(shift(*k)) >= met).count();
        (1 + as_many) as f64 / (1 + shifts) as f64
    }
}

/// Samples of a host, added in the order of time.
#[derive(Default)]
pub struct HostSamples {
    samples: u64,
    columns: [Sketch<8>; 5],
    before_ns: Option<i64>,
    busy: Vec<(i64, i64)>,
}

impl HostSamples {
    /// Adds a sample. Shares that cannot be right count as unknown.
    pub fn add(&mut self, row: &HostLoad) {
        let sound = |v: &f64| v.is_finite() && (0.0..=1.0).contains(v);
        let shares = row.shares().map(|s| s.filter(sound));
        self.samples += 1;
        for (column, share) in self.columns.iter_mut().zip(shares) {
            if let Some(share) = share {
                column.add((share / MILLIONTH).round() as u64);
            }
        }
        let before = self.before_ns.replace(row.t_ns);
        let Some(from_ns) =
            before.filter(|b| (1..=LONGEST_NS).contains(&row.t_ns.saturating_sub(*b)))
        else {
            return;
        };
        if shares[0].is_some_and(|cpu| cpu >= BUSY) {
            match self.busy.last_mut() {
                Some(last) if last.1 == from_ns => last.1 = row.t_ns,
                _ => self.busy.push((from_ns, row.t_ns)),
            }
        }
    }

    /// Summary of the samples; `None` if there are none.
    pub fn summary(&self) -> Option<HostSummary> {
        let shares = |c: &Sketch<8>| {
            let share = |millionths: f64| millionths * MILLIONTH;
            Some(Shares {
                mean: share(c.mean()?),
                p50: share(c.quantile(0.5)?),
                p95: share(c.quantile(0.95)?),
                most: share(c.max()? as f64),
            })
        };
        let [cpu, cpu_user, cpu_system, cpu_interrupt, cpu_wait] =
            self.columns.each_ref().map(shares);
        let length_s = |(from, to): &(i64, i64)| to.saturating_sub(*from) as f64 / 1e9;
        let busy_s = self.busy.iter().map(length_s).fold(0.0, |a, b| a + b);
        (self.samples > 0).then(|| HostSummary {
            samples: self.samples,
            cpu,
            cpu_user,
            cpu_system,
            cpu_interrupt,
            cpu_wait,
            busy_s,
            seconds: Vec::new(),
        })
    }

    /// Times in which the host was busy, in order and without overlap.
    pub fn busy(mut self) -> Vec<(i64, i64)> {
        self.busy.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::with_capacity(self.busy.len());
        for (from, to) in self.busy {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        merged
    }
}

/// Counter of a target's seconds.
pub struct SecondCounter<'b> {
    busy: &'b [(i64, i64)],
    slow_ns: i64,
    /// Seconds that may still get rows, each with its quality.
    open: BTreeMap<i64, bool>,
    order: Order,
    counted: BusySeconds,
}

impl<'b> SecondCounter<'b> {
    /// Counter of a target whose 95 % point is `slow_ms`; `busy` is in order.
    pub fn new(target: &str, slow_ms: f64, busy: &'b [(i64, i64)]) -> SecondCounter<'b> {
        SecondCounter {
            busy,
            slow_ns: (slow_ms * 1e6) as i64,
            open: BTreeMap::new(),
            order: Order::default(),
            counted: BusySeconds {
                target: target.to_owned(),
                ..BusySeconds::default()
            },
        }
    }

    /// Adds a probe.
    pub fn probe(&mut self, sent_ns: i64, rtt_ns: Option<i64>, status: Status) {
        let bad = match status {
            Status::Ok => rtt_ns.is_some_and(|rtt| rtt > self.slow_ns),
            Status::Late | Status::Lost | Status::LostUp | Status::LostDown => true,
            Status::Duplicate | Status::Invalid | Status::NotSent => return,
        };
        let second = sent_ns.div_euclid(S);
        *self.open.entry(second).or_default() |= bad;
        let newest = self.open.last_key_value().map_or(second, |(s, _)| *s);
        while let Some(first) = self.open.first_entry()
            && *first.key() < newest - OPEN_S
        {
            let (second, bad) = first.remove_entry();
            self.count(second, bad);
        }
    }

    fn count(&mut self, second: i64, bad: bool) {
        let (from, to) = (second.saturating_mul(S), (second + 1).saturating_mul(S));
        let next = self.busy.partition_point(|b| b.1 <= from);
        let is_busy = self.busy.get(next).is_some_and(|b| b.0 < to);
        self.order.push(bad, is_busy);
        let c = &mut self.counted;
        let (all, with) = match bad {
            true => (&mut c.bad, &mut c.bad_busy),
            false => (&mut c.others, &mut c.others_busy),
        };
        *all += 1;
        *with += u64::from(is_busy);
    }

    /// Counts the seconds that are still open, and returns all.
    pub fn finish(mut self) -> BusySeconds {
        for (second, bad) in std::mem::take(&mut self.open) {
            self.count(second, bad);
        }
        let c = &mut self.counted;
        let share = |within: u64, all: u64| within as f64 / all.max(1) as f64;
        let is_more = share(c.bad_busy, c.bad) > TIMES * share(c.others_busy, c.others);
        c.chance = (c.bad_busy >= LEAST && is_more).then(|| self.order.chance());
        self.counted
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    /// Random loads and probes, losses written late: counts equal those of a table of all seconds.
    #[test]
    fn seconds_are_counted_as_a_slow_table_counts_them() {
        for seed in 0..200 {
            let mut rng = Streams::new(seed).stream("host");
            let mut draw = || uniform(&mut rng);
            let mut samples = HostSamples::default();
            let mut loads = Vec::new();
            for s in 0..400 {
                let cpu = (draw() > 0.1).then(|| if draw() < 0.3 { 0.95 } else { draw() * 0.9 });
                samples.add(&HostLoad::busy(s * S, cpu));
                loads.push(cpu.is_some_and(|c| c >= BUSY) && s > 0);
            }
            let summary = samples.summary().unwrap();
            let busy_s = loads.iter().filter(|b| **b).count() as f64;
            assert!((summary.busy_s - busy_s).abs() < 1e-6, "seed {seed}");
            let busy = samples.busy();
            let mut counter = SecondCounter::new("udp", 50.0, &busy);
            let (mut table, mut late) = (BTreeMap::new(), Vec::new());
            for i in 0..4000i64 {
                let (sent, second) = (i * S / 10, i / 10);
                let kind = draw();
                let bad = kind < 0.03;
                *table.entry(second).or_insert(false) |= bad;
                match kind {
                    k if k < 0.01 => late.push((i + 100, sent)),
                    k if k < 0.03 => counter.probe(sent, Some(60_000_000), Status::Ok),
                    _ => counter.probe(sent, Some(20_000_000), Status::Ok),
                }
                counter.probe(sent, None, Status::NotSent);
                while let Some((_, sent)) = late.first().filter(|l| l.0 <= i).copied() {
                    counter.probe(sent, None, Status::Lost);
                    late.remove(0);
                }
            }
            for (_, sent) in late {
                counter.probe(sent, None, Status::Lost);
            }
            let found = counter.finish();
            // Sample s covers the second before it.
            let is_busy = |s: i64| loads.get(s as usize + 1).is_some_and(|b| *b);
            let count = |bad: bool, busy: Option<bool>| {
                let rows = table
                    .iter()
                    .filter(|(s, b)| **b == bad && busy.is_none_or(|want| is_busy(**s) == want));
                rows.count() as u64
            };
            let want = BusySeconds {
                target: "udp".into(),
                chance: found.chance,
                bad: count(true, None),
                bad_busy: count(true, Some(true)),
                others: count(false, None),
                others_busy: count(false, Some(true)),
            };
            assert_eq!(found, want, "seed {seed}");
        }
    }

    /// Times in which a thing is so, in groups of random lengths.
    fn groups(rng: &mut base::rng::Rng, seconds: i64, share: f64, mean: f64) -> Vec<(i64, i64)> {
        let (mut at, mut all) = (0, Vec::new());
        let mut draw = |mean: f64| 1 + (-mean * (1.0 - uniform(rng)).ln()) as i64;
        while at < seconds {
            let from = at + draw(mean * (1.0 - share) / share);
            at = from + draw(mean);
            all.push((from * S, at * S));
        }
        all
    }

    /// Load in groups and bad seconds in groups of random lengths, 20 to 200 minutes of them. Where they have nothing to do
    /// with each other, the host is suspected in 2 % of the draws; where load makes most of the bad seconds, in nearly all.
    #[test]
    fn groups_that_meet_by_chance_are_not_suspect() {
        let (mut wrong, mut missed) = (0, 0);
        for seed in 0..600u64 {
            let mut rng = Streams::new(seed).stream("groups");
            let seconds = 1200 + (uniform(&mut rng) * 10_800.0) as i64;
            let mean = 1.0 + 30.0 * uniform(&mut rng);
            let share = 0.02 + 0.3 * uniform(&mut rng);
            let busy = groups(&mut rng, seconds, share, mean);
            let mean = 1.0 + 30.0 * uniform(&mut rng);
            let share = 0.01 + 0.1 * uniform(&mut rng);
            let own = groups(&mut rng, seconds, share, mean);
            let is_cause = seed % 2 == 0;
            let mut counter = SecondCounter::new("udp", 50.0, &busy);
            let within =
                |all: &[(i64, i64)], s: i64| all.iter().any(|g| (g.0..g.1).contains(&(s * S)));
            for s in 0..seconds {
                let loaded = is_cause && within(&busy, s) && uniform(&mut rng) < 0.7;
                let bad = loaded || within(&own, s);
                let status = if bad { Status::Lost } else { Status::Ok };
                counter.probe(s * S, (!bad).then_some(20_000_000), status);
            }
            let suspected = counter.finish().suspects_host();
            wrong += u64::from(suspected && !is_cause);
            missed += u64::from(!suspected && is_cause);
        }
        println!("{wrong} of 300 wrong, {missed} of 300 missed");
        assert!(wrong <= 12, "{wrong} of 300 wrong");
        assert!(missed <= 30, "{missed} of 300 missed");
    }

    #[test]
    fn one_group_of_bad_seconds_in_one_group_of_load_is_no_sign() {
        let busy = [(100 * S, 140 * S)];
        let mut counter = SecondCounter::new("udp", 50.0, &busy);
        for s in 0..150 {
            let bad = (120..129).contains(&s);
            let status = if bad { Status::Lost } else { Status::Ok };
            counter.probe(s * S, (!bad).then_some(20_000_000), status);
        }
        let found = counter.finish();
        assert_eq!((found.bad, found.bad_busy), (9, 9));
        assert!(!found.suspects_host(), "{found:?}");
    }

    #[test]
    fn impossible_shares_are_unknown_and_long_gaps_are_not_busy() {
        let mut samples = HostSamples::default();
        for (t, cpu) in [(0, 0.95), (1, f64::NAN), (2, -3.0), (3, 7.0), (4000, 0.95)] {
            samples.add(&HostLoad::busy(t * S, Some(cpu)));
        }
        samples.add(&HostLoad::busy(3999 * S, Some(1.0)));
        let summary = samples.summary().unwrap();
        assert_eq!((summary.samples, summary.busy_s), (6, 0.0));
        assert!(summary.cpu.unwrap().most == 1.0 && summary.cpu_wait.is_none());
    }
}
