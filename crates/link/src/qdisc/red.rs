//! Random early detection: the average queue length, updated at each arrival, sets the probability with which the
//! arriving packet is dropped or marked. The average lets bursts pass. Above the upper threshold (with `gentle`, twice
//! that) every packet is dropped.
//!
//! **Source**: Floyd, Jacobson, "Random Early Detection Gateways for Congestion Avoidance", IEEE/ACM
//! Transactions on Networking 1(4), 1993; `gentle`: Floyd, "Recommendation on using the gentle variant of
//! RED", 2000; `adaptive`: Floyd, Gummadi, Shenker, "Adaptive RED: An Algorithm for Increasing the
//! Robustness of RED's Active Queue Management", 2001; marking as RFC 3168, "The Addition of Explicit Congestion
//! Notification (ECN) to IP" (2001), section 7, specifies it; `nodrop`: Linux 7.3, `net/sched/sch_red.c`, `TC_RED_NODROP`.
//!
//! **Deviations**: the idle time counts in whole slots (section 4 leaves it open). Lengths in bytes, drops by bytes and
//! `wait` are from ns-2: a packet counts as its share of `mean`, and with the queue in bytes the limit is that many
//! mean packets. Adaptive RED changes only `max_p`, at multiples of 0.5 s; thresholds and weight stay as given, because
//! the link's rate is not known here. A packet refused by a full queue counts as a drop and restarts the count, as in
//! ns-2. Further differences of ns-2 are in the variant `ns2`, see [`Variant`].
//!
//! **Units**: the average in packets (with `queue_in_bytes` in packets of the mean size); probabilities
//! as floating-point numbers.
//!
//! **Validated against**: `reference/red.py`, written from figure 2 and section 7 of the paper of 1993
//! and section 4 of that of 2001, by the traces in `tests/golden/red/`; the spacing of drops in steady
//! state against section 7, below.

use super::store::Store;
use super::ticks::Ticks;
use super::{Backlog, Fates, Limits, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::{choices, params};
use base::{Bytes, Duration, Ecn, Packet, Time};

choices! {
/// Version of RED.
pub enum Variant {
    /// RED as in the papers.
    Floyd = "floyd",
    /// RED as in ns-2.35 with its defaults: lengths and drops in bytes, `wait`. Drops above the upper threshold keep
    /// their spacing, too (`use_mark_p_`), so that small packets never lose more than the share which `wait` leaves. A
    /// packet that finds an empty queue is never dropped, and counts as one empty arrival even if the link is busy. The
    /// idle time starts when the last packet has left the link. The first packet at an average of `min` or more only
    /// starts the count.
    Ns2 = "ns2",
}
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "red": "random early detection: drops by chance as the average queue grows", [
        "Floyd, Jacobson, Random Early Detection Gateways for Congestion Avoidance, 1993",
        "Floyd, Gummadi, Shenker, Adaptive RED, 2001",
    ] {
        /// RED of the papers, or of ns-2 with its values for all parameters not given
        variant: Variant = "floyd", "Floyd 1993; ns-2.35";
        /// average at or above which packets may be dropped
        min: u64 as Packets = "5" ["1".."100000000"], "Floyd 1993 section 8";
        /// average at which the probability reaches max_p; all packets are dropped from here on, with gentle from
        /// twice this on
        max: u64 as Packets = "15" ["1".."100000000"], "Floyd 1993 section 8";
        /// drop probability at max
        max_p: f64 as Probability = "0.1" ["0.0001".."1"], "ns-2";
        /// weight of one arrival in the average
        weight: f64 as Probability = "0.002" ["0.00001".."1"], "Floyd 1993 section 6";
        /// let the probability rise to 1 between max and twice max
        gentle: bool = "true", "Floyd 2000";
        /// adjust max_p so that the average stays midway
        adaptive: bool = "false", "Floyd 2001";
        /// keep drops at least 1/p packets apart; false, in the variant ns2 true
        wait: bool = (variant == Variant::Ns2), "ns-2";
        /// measure the queue in bytes, as packets of the mean size; false, in the variant ns2 true
        queue_in_bytes: bool = (variant == Variant::Ns2), "ns-2";
        /// drop large packets more often than small ones; false, in the variant ns2 true
        drop_in_bytes: bool = (variant == Variant::Ns2), "ns-2";
        /// packet size assumed if lengths count in bytes
        mean: Bytes = "500 B" ["1 B".."1 MB"], "ns-2";
        /// transmission time of a small packet, for the average of an idle link
        slot: Duration = "400 us" ["1 ns".."10 s"], "Floyd 1993 section 4";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "RFC 3168 section 7";
        /// with ecn, drop nothing before the queue is full: packets that cannot be marked pass, and the others are marked above
        /// max, too
        nodrop: bool = "false", "Linux red";
        /// most packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux red";
    }
}

impl Params {
    /// Returns the limits of the backlog: in packets, or in bytes with the queue in bytes.
    pub fn limits(&self) -> Limits {
        Limits {
            packets: (!self.queue_in_bytes).then_some(self.limit),
            bytes: self.queue_in_bytes.then(|| self.limit_bytes()),
        }
    }

    /// Returns `limit` in bytes, for a queue in bytes.
    pub fn limit_bytes(&self) -> Bytes {
        Bytes::new(self.limit.saturating_mul(self.mean.get()))
    }

    /// True if the packet fits; ns-2 admits the packet that crosses the limit.
    fn fits(&self, backlog: Backlog, len: Bytes) -> bool {
        match (self.queue_in_bytes, self.variant) {
            (false, _) => backlog.packets < self.limit,
            (true, Variant::Floyd) => backlog.bytes + len <= self.limit_bytes(),
            (true, Variant::Ns2) => backlog.bytes < self.limit_bytes(),
        }
    }

    /// Returns the transmission time of a packet, derived from `slot`.
    fn on_line(&self, len: Bytes) -> Duration {
        self.slot * len.get() / self.mean.get()
    }
}

/// Constants of the paper of 2001, section 4: `interval`, `beta` and the bounds of `max_p`.
const ADAPT_EVERY: Duration = Duration::from_millis(500);
const ADAPT_DOWN: f64 = 0.9;
const MAX_P: (f64, f64) = (0.01, 0.5);

/// Law of RED with its state.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RedLaw {
    average: f64,
    max_p: f64,
    /// Packets and bytes since the last drop, `None` while the average is below `min`.
    since: Option<(u64, Bytes)>,
    /// Probability at the last arrival, before the spacing of drops.
    probability: f64,
}

impl RedLaw {
    /// Creates the law with its parameters.
    pub fn new(params: &Params) -> RedLaw {
        RedLaw {
            average: 0.0,
            max_p: params.max_p,
            since: None,
            probability: 0.0,
        }
    }

    /// Probability at an average below the upper end of the gentle range.
    fn below_top(&self, min: f64, max: f64) -> f64 {
        if self.average >= max {
            self.max_p + (1.0 - self.max_p) * (self.average - max) / max
        } else if self.average >= min {
            self.max_p * (self.average - min) / (max - min)
        } else {
            0.0
        }
    }

    /// Judges an arriving packet of `len`, with `backlog` queued before it; `idle` is how long the queue has been
    /// empty. `draw` returns a uniform number in [0, 1) and is called at most once.
    pub fn judge(
        &mut self,
        params: &Params,
        backlog: Backlog,
        idle: Duration,
        len: Bytes,
        ecn: Ecn,
        draw: impl FnOnce() -> f64,
    ) -> Verdict {
        let ns2 = params.variant == Variant::Ns2;
        let mean = params.mean.get() as f64;
        let length = if params.queue_in_bytes {
            backlog.bytes.get() as f64 / mean
        } else {
            backlog.packets as f64
        };
        // Figure 2: "for each packet arrival calculate the average queue size".
        if backlog.packets == 0 {
            let slots = idle.as_nanos() / params.slot.as_nanos() + u64::from(ns2);
            self.average *= power(1.0 - params.weight, slots);
        } else {
            self.average += params.weight * (length - self.average);
        }
        let (min, max) = (params.min as f64, params.max as f64);
        let average = self.average;
        let top = average >= if params.gentle { 2.0 * max } else { max };
        self.probability = if top { 1.0 } else { self.below_top(min, max) };
        if average < min && average < max || ns2 && backlog.packets == 0 {
            self.since = None;
            return Verdict::Forward;
        }
        let (packets, bytes) = match self.since {
            None if ns2 => {
                self.since = Some((1, len));
                return Verdict::Forward;
            }
            None => (0, Bytes::ZERO),
            Some((packets, bytes)) => (packets + 1, bytes + len),
        };
        self.since = Some((packets, bytes));
        let strikes = top && !ns2 || {
            let count = if params.drop_in_bytes {
                (bytes.get() / params.mean.get()) as f64
            } else {
                packets as f64
            };
            let mut p = spaced(self.probability, count, params.wait);
            if params.drop_in_bytes && !(ns2 && p >= 1.0) {
                p *= len.get() as f64 / mean;
            }
            p > 0.0 && draw() < p
        };
        if !strikes {
            return Verdict::Forward;
        }
        self.since = Some((0, Bytes::ZERO));
        let markable = params.ecn && ecn.is_capable();
        if params.ecn && params.nodrop {
            return match markable {
                true => Verdict::Mark,
                false => Verdict::Forward,
            };
        }
        // RFC 3168 section 7: marks signal incipient congestion; above the upper threshold packets are dropped.
        if markable && average < max {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    /// Records that a packet was refused because the queue was full.
    pub fn overflowed(&mut self) {
        if let Some(since) = &mut self.since {
            *since = (0, Bytes::ZERO);
        }
    }

    /// Adjusts `max_p` (paper of 2001, figure 1); returns true if another call would change nothing.
    pub fn adapt(&mut self, params: &Params) -> bool {
        let (min, max) = (params.min as f64, params.max as f64);
        let at = |share: f64| min + share * (max - min);
        let before = self.max_p;
        if self.average > at(0.6) && self.max_p <= MAX_P.1 {
            self.max_p += (self.max_p / 4.0).min(0.01);
        } else if self.average < at(0.4) && self.max_p >= MAX_P.0 {
            self.max_p *= ADAPT_DOWN;
        }
        self.max_p == before
    }

    /// Average queue, packets or bytes as configured.
    pub fn average(&self) -> f64 {
        self.average
    }
    /// Present probability at the upper threshold.
    pub fn max_p(&self) -> f64 {
        self.max_p
    }
}

/// Returns a probability that grows with the packets since the last drop and so spaces drops evenly (section 7, method
/// 2).
fn spaced(p: f64, count: f64, wait: bool) -> f64 {
    let passed = count * p;
    let over = if wait { 2.0 } else { 1.0 };
    if wait && passed < 1.0 {
        0.0
    } else if passed < over {
        p / (over - passed)
    } else {
        1.0
    }
}

/// Raises `base` to a whole power by squaring: the same on every machine.
fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[derive(Clone, Debug)]
struct State {
    queue: Store,
    law: RedLaw,
    ticks: Ticks,
    /// Time since which the queue is empty.
    idle_since: Time,
    early_drop: Rng,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets refused because the queue was full.
    pub overlimits: u64,
    /// Packets that the law dropped.
    pub drops: u64,
    /// Packets that the law marked with CE.
    pub marks: u64,
}

/// Queue whose arrivals RED drops.
#[derive(Clone, Debug)]
pub struct Red {
    params: Params,
    state: State,
    stats: Stats,
}

impl Red {
    /// Creates the discipline; the stream `early_drop` decides which packets are dropped.
    pub fn new(params: Params, early_drop: Rng) -> Red {
        Red {
            params,
            state: State {
                queue: Store::default(),
                law: RedLaw::new(&params),
                ticks: Ticks::new(ADAPT_EVERY),
                idle_since: Time::ZERO,
                early_drop,
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
    /// Law in its present state.
    pub fn law(&self) -> &RedLaw {
        &self.state.law
    }
}

impl Qdisc for Red {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        let State {
            queue,
            law,
            ticks,
            idle_since,
            early_drop,
        } = &mut self.state;
        if self.params.adaptive {
            ticks.pass(now, |_| law.adapt(&self.params));
        }
        let idle = now.saturating_since(*idle_since);
        let verdict = law.judge(
            &self.params,
            queue.backlog(),
            idle,
            packet.len,
            packet.ecn,
            || uniform(early_drop),
        );
        if verdict == Verdict::Drop {
            self.stats.drops += 1;
            fates.dropped(packet, Reason::EarlyDrop);
        } else if !self.params.fits(queue.backlog(), packet.len) {
            law.overflowed();
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
        } else {
            if verdict == Verdict::Mark {
                packet.ecn = Ecn::Ce;
                self.stats.marks += 1;
                fates.marked(packet, Reason::EarlyDrop);
            }
            queue.push(now, packet);
        }
        // An arrival at an empty queue has used up the idle time, admitted or not.
        *idle_since = now;
    }

    fn dequeue(&mut self, now: Time, _: &mut Fates) -> Option<Packet> {
        let packet = self.state.queue.pop()?;
        self.state.idle_since = match self.params.variant {
            Variant::Floyd => now,
            Variant::Ns2 => now + self.params.on_line(packet.len),
        };
        Some(packet)
    }

    fn backlog(&self) -> Backlog {
        self.state.queue.backlog()
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    fn probability(&self) -> Option<f64> {
        Some(self.state.law.probability)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;

    /// Returns the gaps between drops with the average held at `average` packets.
    fn gaps(params: &Params, average: u64, drops: usize) -> Vec<u64> {
        let mut rng = Streams::new(1993).stream("gaps");
        let mut law = RedLaw {
            average: average as f64,
            since: Some((0, Bytes::ZERO)),
            ..RedLaw::new(params)
        };
        let backlog = Backlog {
            bytes: Bytes::new(average * 500),
            packets: average,
        };
        let (mut gaps, mut gap) = (Vec::new(), 0);
        while gaps.len() < drops {
            gap += 1;
            let verdict = law.judge(
                params,
                backlog,
                Duration::ZERO,
                Bytes::new(500),
                Ecn::NotEct,
                || uniform(&mut rng),
            );
            if verdict == Verdict::Drop {
                gaps.push(std::mem::take(&mut gap));
            }
        }
        gaps
    }

    #[test]
    fn drops_in_steady_state_are_spaced_uniformly_as_section_7_derives() {
        // An average midway: p = max_p/2 = 1/20. Section 7: the gap is uniform on 1, 2, … 1/p, with mean 1/(2p) + 1/2 =
        // 10.5 and standard deviation √((400 − 1)/12) = 5.8. The standard error of 10 000 gaps is 0.058; five of these.
        let gaps = gaps(&Params::default(), 10, 10_000);
        let mean = gaps.iter().sum::<u64>() as f64 / 10_000.0;
        // The first packet after a drop has count 1, not 0: one step of the 20 is left out.
        assert!((mean - 10.0).abs() < 0.29, "{mean}");
        assert!(gaps.iter().all(|g| (1..=20).contains(g)));
        let of = |g| gaps.iter().filter(|x| **x == g).count() as f64;
        for g in 1..=19 {
            assert!(
                (of(g) - 10_000.0 / 19.0).abs() < 5.0 * 22.4,
                "{g}: {}",
                of(g)
            );
        }
    }

    #[test]
    fn with_wait_no_two_drops_are_closer_than_the_reciprocal_of_the_probability() {
        let params = Params {
            wait: true,
            ..Params::default()
        };
        let gaps = gaps(&params, 10, 1_000);
        assert!(gaps.iter().all(|g| (20..=40).contains(g)), "{gaps:?}");
    }

    #[test]
    fn the_average_forgets_while_the_line_is_idle() {
        let params = Params::default();
        let mut law = RedLaw {
            average: 12.0,
            ..RedLaw::new(&params)
        };
        // One time constant: 500 slots of 0.4 ms leave (1 − 0.002)^500 = 0.3675 of the average.
        let none = Backlog::default();
        law.judge(
            &params,
            none,
            Duration::from_millis(200),
            Bytes::new(500),
            Ecn::NotEct,
            || 0.5,
        );
        assert!((law.average - 12.0 * 0.998f64.powi(500)).abs() < 1e-9);
        assert!((law.average - 4.41).abs() < 0.01);
    }

    #[test]
    fn adaptation_brings_max_p_between_its_bounds_and_rests_midway() {
        let params = Params::default();
        let mut law = RedLaw::new(&params);
        for (average, max_p) in [(14.0, 0.5..0.52), (10.0, 0.5..0.52), (6.0, 0.009..0.01)] {
            law.average = average;
            let rests = (0..200).any(|_| law.adapt(&params));
            assert!(
                rests && max_p.contains(&law.max_p),
                "{average}: {}",
                law.max_p
            );
        }
    }
}
