//! Proportional integral controller, enhanced. Every few milliseconds the drop probability of arriving packets changes
//! with the delay's distance from a target and with its change. Bursts pass for a while before anything is dropped.
//!
//! **Source**: RFC 8033, "Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to
//! Address the Bufferbloat Problem" (Pan, Natarajan, Baker, White, 2017), sections 4 and 5; with
//! `variant=2013`, Pan et al., "PIE: A Lightweight Control Scheme to Address the Bufferbloat Problem", IEEE HPSR 2013,
//! as stated in the thesis's equations 16 to 21; with `variant=linux`, the differences in net/sched/sch_pie.c of Linux
//! 6, given at the lines.
//!
//! **Deviations**: PIE is always on (section 5.3 leaves switching it off below a third of the buffer to the
//! implementer). A departure is the start of a transmission here, so the packet that starts a measurement of the drain
//! rate does not count towards it. A queue that has run empty has a delay of zero. Updates are caught up at the next
//! call, see `ticks.rs`; an update precedes an arrival or departure of the same instant. The paper leaves its averaging
//! weight open: 1/8, as in the first implementation for Linux. If its law uses sojourn times, there are no
//! measurements, and the allowance runs down with the updates. Linux discards the drain rate when it fills the
//! allowance; here it is kept.
//!
//! **Units**: delays in seconds and probabilities as floating-point numbers, as the equations are
//! printed; α and β in Hz; times in ns elsewhere.
//!
//! **Validated against**: `reference/pie.py`, written from those sections and equations, by the traces in
//! `tests/golden/pie/`; the delay under a constant overload, below.

use super::store::Store;
use super::ticks::Ticks;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::{choices, params};
use base::{Bytes, Duration, Ecn, Packet, Time};

choices! {
    /// Version of PIE.
    pub enum Variant {
        Rfc8033 = "rfc8033",
        Paper2013 = "2013",
        /// RFC version with Linux's differences.
        Linux = "linux",
    }
}

impl Variant {
    fn is_paper(self) -> bool {
        self == Variant::Paper2013
    }
}

choices! {
    /// Source of the delay that the controller uses.
    pub enum Estimate {
        /// Sojourn time of the packet that left last.
        Sojourn = "sojourn",
        /// Backlog divided by the measured departure rate (Little's law).
        DrainRate = "drain_rate",
    }
}

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "pie": "proportional integral controller, enhanced: drops by chance so that the delay stays at a target", [
        "RFC 8033, Proportional Integral Controller Enhanced (PIE): A Lightweight Control Scheme to Address the Bufferbloat Problem",
        "Pan et al., PIE: A Lightweight Control Scheme to Address the Bufferbloat Problem, IEEE HPSR 2013",
    ] {
        /// RFC, the paper of 2013 with its values for all parameters not given, or Linux's version of the RFC
        variant: Variant = "rfc8033", "RFC 8033; the paper; Linux";
        /// delay to hold; 15 ms, in the variant of 2013 20 ms
        target: Duration = (Duration::from_millis(if variant.is_paper() { 20 } else { 15 })) ["1 us".."10 s"], "RFC 8033 section 4.2";
        /// interval between updates; 15 ms, in the variant of 2013 30 ms
        tupdate: Duration = (Duration::from_millis(if variant.is_paper() { 30 } else { 15 })) ["100 us".."10 s"], "RFC 8033 section 4.2";
        /// gain on the distance from the target, in Hz
        alpha: f64 = "0.125" ["0".."100"], "RFC 8033 section 4.2";
        /// gain on the change of the delay, in Hz
        beta: f64 = "1.25" ["0".."100"], "RFC 8033 section 4.2";
        /// burst allowance: time that a burst passes without drops; 150 ms, in the variant of 2013 100 ms
        burst: Duration = (Duration::from_millis(if variant.is_paper() { 100 } else { 150 })) ["0 ms".."10 s"], "RFC 8033 section 4.4";
        /// source of the delay: sojourn times, or backlog and departure rate; sojourn, in the variant of 2013
        /// drain_rate
        estimate: Estimate = (if variant.is_paper() { Estimate::DrainRate } else { Estimate::Sojourn }), "RFC 8033 section 4.3";
        /// bytes per measurement of the drain rate; 16384, in the variant of 2013 10 kB
        threshold: Bytes = (Bytes::new(if variant.is_paper() { 10_000 } else { 1 << 14 })) ["1 B".."1 GB"], "RFC 8033 section 5.2";
        /// keep drops from being too close or too far apart; true, in the variant of 2013 false
        derandomize: bool = (!variant.is_paper()), "RFC 8033 section 5.4";
        /// mark ECN-capable packets instead of dropping them
        ecn: bool = "false", "RFC 8033 section 5.1";
        /// probability at or above which ECN-capable packets are dropped, too
        mark_limit: f64 as Probability = "0.1" ["0".."1"], "RFC 8033 section 5.1";
        /// most packets queued
        limit: u64 as Packets = "1000" ["1".."100000000"], "Linux pie";
        /// most bytes queued; no limit in bytes if not given
        bytes: Option<Bytes> ["1 B".."1000 GB"], "RFC 7567 section 1";
    }
}

/// Mean packet size. With no more than two such packets queued nothing is dropped (RFC 8033 section 4.1).
const MEAN_PACKET: Bytes = Bytes::new(1024);
/// Largest frame of the device in Linux's version of that rule, here Ethernet's.
const LINUX_PACKET: Bytes = Bytes::new(1514);

/// State of the law: one for a plain queue, one per flow with fair queueing.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct PieLaw {
    probability: f64,
    /// Delay at the last update, in seconds.
    last_delay_s: f64,
    /// Remaining burst allowance.
    burst: Duration,
    /// Probability accumulated since the last drop. RFC 8033 section 5.4.
    gathered: f64,
    /// Sojourn time of the packet that left last, zero once the queue has run empty.
    sojourn: Duration,
    /// Departure time of the last packet; none since the allowance was filled. Used only by the Linux variant.
    last_departure: Option<Time>,
    drain: Drain,
}

/// Estimator of the departure rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Drain {
    /// Start of the measurement, and bytes that have left since.
    measuring: Option<(Time, Bytes)>,
    /// RFC 8033: average time for `threshold` bytes to leave, in seconds. The paper: average rate in bytes per second.
    /// `None` before the first measurement.
    average: Option<f64>,
}

impl PieLaw {
    /// Creates the law with its parameters.
    pub fn new(params: &Params) -> PieLaw {
        PieLaw {
            probability: 0.0,
            last_delay_s: 0.0,
            burst: params.burst,
            gathered: 0.0,
            sojourn: Duration::ZERO,
            last_departure: None,
            drain: Drain::default(),
        }
    }

    /// Judges an arriving packet, with `backlog` queued before it. `draw` returns a uniform number in [0, 1) and is
    /// called at most once.
    pub fn judge(
        &mut self,
        params: &Params,
        backlog: Bytes,
        ecn: Ecn,
        draw: impl FnOnce() -> f64,
    ) -> Verdict {
        // Section 4.4: while a burst is allowed, the random drop is skipped.
        if !self.burst.is_zero() || !self.strikes(params, backlog, draw) {
            return Verdict::Forward;
        }
        self.gathered = 0.0;
        // Section 5.1: marking only while the probability is low, so that a flow that ignores marks is dropped.
        if params.ecn && ecn.is_capable() && self.probability < params.mark_limit {
            Verdict::Mark
        } else {
            Verdict::Drop
        }
    }

    fn strikes(&mut self, params: &Params, backlog: Bytes, draw: impl FnOnce() -> f64) -> bool {
        // Section 4.1: drops must not empty the queue.
        let half_target_s = params.target.as_secs_f64() / 2.0;
        let bypassed = match params.variant {
            Variant::Rfc8033 => {
                let calm = self.last_delay_s < half_target_s && self.probability < 0.2;
                calm || backlog <= MEAN_PACKET + MEAN_PACKET
            }
            // Linux: the delay of the last departure, not that of the last update; and larger packets.
            Variant::Linux => {
                let delay_s = match params.estimate {
                    Estimate::Sojourn => self.sojourn.as_secs_f64(),
                    Estimate::DrainRate => self.last_delay_s,
                };
                let calm = delay_s < half_target_s && self.probability < 0.2;
                calm || backlog < LINUX_PACKET + LINUX_PACKET
            }
            Variant::Paper2013 => false,
        };
        if bypassed {
            return false;
        }
        if params.derandomize {
            // Section 5.4: at most one drop in 0.85/p packets, at least one in 8.5/p.
            if self.probability == 0.0 {
                self.gathered = 0.0;
            }
            self.gathered += self.probability;
            if self.gathered < 0.85 {
                return false;
            }
            if self.gathered >= 8.5 {
                return true;
            }
        }
        self.probability > 0.0 && draw() < self.probability
    }

    /// Records that a packet was refused because the queue was full.
    pub fn overflowed(&mut self) {
        self.gathered = 0.0;
    }

    /// Records that a packet of `len` leaves after `sojourn`, with `backlog` still queued behind it.
    pub fn departed(
        &mut self,
        params: &Params,
        now: Time,
        len: Bytes,
        sojourn: Duration,
        backlog: Bytes,
    ) {
        self.sojourn = if backlog == Bytes::ZERO {
            Duration::ZERO
        } else {
            sojourn
        };
        if params.estimate == Estimate::Sojourn {
            if params.variant == Variant::Linux {
                // Linux: departures, not updates, run the allowance down.
                let since = self
                    .last_departure
                    .map_or(Duration::ZERO, |last| now.saturating_since(last));
                self.burst = self.burst.saturating_sub(since);
                self.last_departure = Some(now);
            }
            return;
        }
        if let Some((since, bytes)) = &mut self.drain.measuring {
            *bytes += len;
            if *bytes >= params.threshold {
                let (took, bytes) = (now - *since, *bytes);
                self.drain.measuring = None;
                self.measured(params, took, bytes);
            }
        }
        // Section 5.2: only a long enough queue leaves at the link's rate.
        if self.drain.measuring.is_none() && backlog >= params.threshold {
            self.drain.measuring = Some((now, Bytes::ZERO));
        }
    }

    fn measured(&mut self, params: &Params, took: Duration, bytes: Bytes) {
        if took.is_zero() {
            return;
        }
        let (sample, weight) = match params.variant {
            // Section 5.2: the weight is the threshold divided by 2^16.
            Variant::Rfc8033 => (
                took.as_secs_f64(),
                (params.threshold.get() as f64 / 65_536.0).min(1.0),
            ),
            // Linux averages the rate too, as the paper does.
            Variant::Paper2013 | Variant::Linux => {
                // Equations 19 and 20; each measurement runs the burst allowance down.
                self.burst = self.burst.saturating_sub(took);
                (bytes.get() as f64 / took.as_secs_f64(), 0.125)
            }
        };
        // Equation 21.
        self.drain.average = Some(match self.drain.average {
            None => sample,
            Some(average) => (1.0 - weight) * average + weight * sample,
        });
    }

    /// Returns the delay that a packet arriving now can expect, in seconds.
    fn delay_s(&self, params: &Params, backlog: Bytes) -> f64 {
        match (params.estimate, params.variant, self.drain.average) {
            (Estimate::Sojourn, _, _) => self.sojourn.as_secs_f64(),
            (Estimate::DrainRate, _, None) => 0.0,
            // Section 4.3: Little's law.
            (Estimate::DrainRate, Variant::Rfc8033, Some(time_s)) => {
                backlog.get() as f64 * time_s / params.threshold.get() as f64
            }
            // Equation 18.
            (Estimate::DrainRate, Variant::Paper2013 | Variant::Linux, Some(bytes_per_s)) => {
                backlog.get() as f64 / bytes_per_s
            }
        }
    }

    /// Updates the probability; returns true if another update would change nothing.
    pub fn update(&mut self, params: &Params, backlog: Bytes) -> bool {
        let before = *self;
        let delay_s = self.delay_s(params, backlog);
        let target_s = params.target.as_secs_f64();
        // Section 4.2; equation 16.
        let mut step =
            params.alpha * (delay_s - target_s) + params.beta * (delay_s - self.last_delay_s);
        let p = self.probability;
        match params.variant {
            Variant::Rfc8033 | Variant::Linux => {
                // Section 4.2: small steps if the probability is small.
                step /= match p {
                    p if p < 0.000_001 => 2048.0,
                    p if p < 0.000_01 => 512.0,
                    p if p < 0.000_1 => 128.0,
                    p if p < 0.001 => 32.0,
                    p if p < 0.01 => 8.0,
                    p if p < 0.1 => 2.0,
                    _ => 1.0,
                };
                // Section 5.5: no more than 2 % at once if it is large.
                if p >= 0.1 {
                    step = step.min(0.02);
                }
                let silent = delay_s == 0.0 && self.last_delay_s == 0.0;
                if params.variant == Variant::Linux {
                    // Linux: 2 % more per update above 250 ms; 1/64 less when idle, not 1/50.
                    if delay_s > 0.25 {
                        step += 0.02;
                    }
                    self.probability = (self.probability + step).clamp(0.0, 1.0);
                    if silent && backlog == Bytes::ZERO {
                        self.probability -= self.probability / 64.0;
                    }
                } else {
                    self.probability += step;
                    // Section 4.2: faster than linearly once congestion is over.
                    if silent {
                        self.probability *= 0.98;
                    }
                    self.burst = self.burst.saturating_sub(params.tupdate);
                }
            }
            Variant::Paper2013 => {
                step /= match p {
                    p if p < 0.01 => 8.0,
                    p if p < 0.1 => 2.0,
                    _ => 1.0,
                };
                self.probability += step;
                if params.estimate == Estimate::Sojourn {
                    self.burst = self.burst.saturating_sub(params.tupdate);
                }
            }
        }
        self.probability = self.probability.clamp(0.0, 1.0);
        // Section 4.4: congestion is over; the next burst is allowed again.
        let half_s = target_s / 2.0;
        if self.probability == 0.0 && delay_s < half_s && self.last_delay_s < half_s {
            self.burst = params.burst;
            self.last_departure = None;
        }
        self.last_delay_s = delay_s;
        *self == before
    }

    /// Present probability, 0 to 1.
    pub fn probability(&self) -> f64 {
        self.probability
    }
}

#[derive(Clone, Debug)]
struct State {
    queue: Store,
    law: PieLaw,
    ticks: Ticks,
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

/// Queue whose arrivals PIE drops.
#[derive(Clone, Debug)]
pub struct Pie {
    params: Params,
    state: State,
    stats: Stats,
}

impl Pie {
    /// Creates the discipline; the stream `early_drop` decides which packets are dropped.
    pub fn new(params: Params, early_drop: Rng) -> Pie {
        Pie {
            params,
            state: State {
                queue: Store::default(),
                law: PieLaw::new(&params),
                ticks: Ticks::new(params.tupdate),
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
    pub fn law(&self) -> &PieLaw {
        &self.state.law
    }

    fn catch_up(&mut self, now: Time) {
        let State {
            queue, law, ticks, ..
        } = &mut self.state;
        ticks.pass(now, |_| law.update(&self.params, queue.bytes()));
    }
}

impl Qdisc for Pie {
    fn enqueue(&mut self, now: Time, mut packet: Packet, fates: &mut Fates) {
        self.catch_up(now);
        let State {
            queue,
            law,
            early_drop,
            ..
        } = &mut self.state;
        let full = self
            .params
            .bytes
            .is_some_and(|most| queue.bytes() + packet.len > most);
        if full || queue.len() >= self.params.limit {
            law.overflowed();
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        match law.judge(&self.params, queue.bytes(), packet.ecn, || {
            uniform(early_drop)
        }) {
            Verdict::Forward => {}
            Verdict::Mark => {
                packet.ecn = Ecn::Ce;
                self.stats.marks += 1;
                fates.marked(packet, Reason::EarlyDrop);
            }
            Verdict::Drop => {
                self.stats.drops += 1;
                fates.dropped(packet, Reason::EarlyDrop);
                return;
            }
        }
        queue.push(now, packet);
    }

    fn dequeue(&mut self, now: Time, _: &mut Fates) -> Option<Packet> {
        self.catch_up(now);
        let State { queue, law, .. } = &mut self.state;
        let packet = queue.pop()?;
        let sojourn = now.saturating_since(packet.enqueued);
        law.departed(&self.params, now, packet.len, sojourn, queue.bytes());
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
    use base::{FlowId, PacketId};

    /// Offers `per_s` packets of 1000 bytes per second to a link of 10 Mbit/s for `seconds`. Returns the mean sojourn
    /// time in ms and the share dropped over the second half.
    fn overload(params: Params, per_s: u64, seconds: u64) -> (f64, f64) {
        let mut pie = Pie::new(params, Streams::new(8033).stream("overload"));
        let (mut fates, mut waited, mut out, mut offered, mut dropped) =
            (Fates::default(), 0.0, 0u64, 0u64, 0u64);
        let served = Duration::from_micros(800);
        let mut free = Time::ZERO;
        for id in 0..per_s * seconds {
            let now = Time::from_nanos(id * 1_000_000_000 / per_s);
            let counts = now >= Time::from_secs(seconds / 2);
            while free <= now {
                match pie.dequeue(free, &mut fates) {
                    Some(p) if counts => {
                        waited += (free - p.enqueued).as_millis_f64();
                        out += 1;
                    }
                    _ => {}
                }
                free += served;
            }
            let packet = Packet {
                id: PacketId(id),
                flow: FlowId(1),
                len: Bytes::new(1000),
                ecn: Ecn::NotEct,
                dscp: 0,
                enqueued: Time::ZERO,
            };
            pie.enqueue(now, packet, &mut fates);
            if counts {
                offered += 1;
                dropped += fates.list.len() as u64;
            }
            fates.list.clear();
        }
        (waited / out as f64, dropped as f64 / offered as f64)
    }

    #[test]
    fn holds_its_target_under_a_constant_overload_and_drops_what_is_too_much() {
        // 1563 packets per second into a link of 1250: a fifth is too much. The integral term is stable only at the
        // target. The standing queue of 15 ms is 19 packets, so the mean is accurate to about one packet.
        for (variant, target_ms) in [(Variant::Rfc8033, 15.0), (Variant::Paper2013, 20.0)] {
            for estimate in [Estimate::Sojourn, Estimate::DrainRate] {
                let params = Params {
                    estimate,
                    ..base::spec::given([("variant", variant.word())]).unwrap()
                };
                let (delay_ms, share) = overload(params, 1563, 120);
                assert!(
                    (delay_ms - target_ms).abs() < 1.0,
                    "{variant:?} {estimate:?}: {delay_ms} ms"
                );
                assert!(
                    (share - 0.2).abs() < 0.005,
                    "{variant:?} {estimate:?}: {share}"
                );
            }
        }
    }

    #[test]
    fn lets_a_burst_pass_that_is_shorter_than_its_allowance() {
        let mut pie = Pie::new(Params::default(), Streams::new(1).stream("burst"));
        let mut fates = Fates::default();
        for id in 0..400 {
            // 120 ms of 40 Mbit/s into 10 Mbit/s; the delay rises to 90 ms.
            let now = Time::from_micros(id * 300);
            let packet = Packet {
                id: PacketId(id),
                flow: FlowId(1),
                len: Bytes::new(1500),
                ecn: Ecn::NotEct,
                dscp: 0,
                enqueued: now,
            };
            pie.enqueue(now, packet, &mut fates);
            if id % 4 == 0 {
                pie.dequeue(now, &mut fates);
            }
        }
        assert!(pie.law().probability() > 0.0);
        assert_eq!(fates.list, []);
    }

    #[test]
    fn forgets_congestion_in_a_silence_however_long() {
        let params = Params::default();
        let mut pie = Pie::new(params, Streams::new(1).stream("silence"));
        pie.state.law.probability = 0.9;
        pie.state.law.burst = Duration::ZERO;
        // Section 4.2: factor 0.98 per period, plus α · target: from 0.9 to zero in about 3 s.
        pie.catch_up(Time::from_secs(1));
        let after_1_s = pie.law().probability();
        assert!((0.1..0.25).contains(&after_1_s), "{after_1_s}");
        pie.catch_up(Time::from_secs(10));
        assert_eq!(pie.state.law, PieLaw::new(&params));
        // A century later: the ticks between are skipped.
        pie.catch_up(Time::from_secs(3_000_000_000));
        assert_eq!(pie.state.law, PieLaw::new(&params));
    }

    #[test]
    fn drops_are_neither_too_close_nor_too_far_apart() {
        let params = Params::default();
        // Section 5.4 with a probability of a half: small draws drop each second packet, large ones each 17th.
        for (draw, gap) in [(0.0, 2), (0.99, 17)] {
            let mut law = PieLaw {
                probability: 0.5,
                burst: Duration::ZERO,
                ..PieLaw::new(&params)
            };
            let backlog = Bytes::new(30_000);
            for i in 1..=3 * gap {
                let verdict = law.judge(&params, backlog, Ecn::NotEct, || draw);
                assert_eq!(verdict == Verdict::Drop, i % gap == 0, "{draw}: {i}");
            }
        }
    }

    #[test]
    fn steps_are_smaller_where_the_probability_is() {
        let params = Params::default();
        for (p, divisor) in [
            (0.0, 2048.0),
            (0.000_001, 512.0),
            (0.000_01, 128.0),
            (0.000_1, 32.0),
            (0.001, 8.0),
            (0.01, 2.0),
        ] {
            let mut law = PieLaw {
                probability: p,
                last_delay_s: 0.025,
                sojourn: Duration::from_millis(25),
                ..PieLaw::new(&params)
            };
            law.update(&params, Bytes::new(30_000));
            // α · 10 ms and no change.
            let step = law.probability - p;
            assert!(
                (step * divisor - 0.125 * 0.010).abs() < 1e-12,
                "{p}: {step}"
            );
        }
    }
}
