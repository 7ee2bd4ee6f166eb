//! Two queues that share a link and one controller. Packets of scalable senders (L4S) have a short queue and are marked
//! early and often. All others have a classic queue, whose probability is the square of the controller's. The square
//! makes both kinds of senders share the rate about equally.
//!
//! **Source**: RFC 9332, "Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low Loss, and
//! Scalable Throughput (L4S)" (De Schepper, Briscoe, White, 2023), sections 2.4, 2.5 and 4.2 and appendix A;
//! classification of L4S packets: RFC 9331, "The Explicit Congestion Notification (ECN) Protocol for Low Latency, Low
//! Loss, and Scalable Throughput (L4S)" (2023), section 5.1.
//!
//! **Deviations**: the limit counts packets of both queues; appendix A counts bytes. The scheduler is a weighted round
//! robin with a credit in bytes; appendix A leaves the kind open. The controller uses the larger delay of both queues,
//! so that overload by L4S packets alone is detected, too (appendix A.2). Updates are caught up at the next call, see
//! `ticks.rs`. Linux decides randomly: `random=true`. With `nqb`, packets with DSCP 45 that are not ECT(1) wait in the L4S
//! queue, and are dropped or marked there with the classic probability: our choice.
//!
//! **Units**: delays in seconds and probabilities as floating-point numbers, α and β in Hz; the scheduler's
//! credit in bytes.
//!
//! **Validated against**: `reference/dualpi2.py`, written from appendix A's pseudocode, by the traces in
//! `tests/golden/dualpi2/`; the square law p_C = (p_CL / k)² in a run, below.

use super::store::Store;
use super::ticks::Ticks;
use super::{Backlog, Fates, Qdisc, Reason, Verdict};
use base::rng::{Rng, uniform};
use base::spec::params;
use base::{Duration, Ecn, Packet, Time};

params! {
    #[derive(Clone, Copy, Debug, PartialEq)]
    pub struct Params for "dualpi2": "a short queue for L4S packets beside a classic one, coupled by one controller", [
        "RFC 9332, Dual-Queue Coupled Active Queue Management (AQM) for Low Latency, Low Loss, and Scalable Throughput (L4S)",
    ] {
        /// delay to hold in the classic queue
        target: Duration = "15 ms" ["1 us".."10 s"], "RFC 9332 appendix A.1";
        /// interval between updates
        tupdate: Duration = "16 ms" ["100 us".."10 s"], "RFC 9332 appendix A.1";
        /// gain on the distance from the target, in Hz
        alpha: f64 = "0.16" ["0".."100"], "RFC 9332 appendix A.1";
        /// gain on the change of the delay, in Hz
        beta: f64 = "3.2" ["0".."100"], "RFC 9332 appendix A.1";
        /// factor k between the L4S marking probability and the square root of the classic probability
        coupling: f64 = "2" ["0.1".."10"], "RFC 9332 section 4.2";
        /// sojourn time above which L4S packets are marked
        min_th: Duration = "800 us" ["0 ms".."1 s"], "RFC 9332 appendix A.1";
        /// range above min_th over which the marking probability rises to 1
        range: Duration = "400 us" ["0 ms".."1 s"], "RFC 9332 appendix A.1";
        /// largest L4S queue that is not marked for its own delay
        min_len: u64 as Packets = "1" ["0".."100000000"], "RFC 9332 appendix A.1";
        /// the classic queue gets one byte in this many while both queues are backlogged
        protection: u64 = "16" ["2".."1000"], "RFC 9332 appendix A.1";
        /// decide randomly, as Linux does, not by counting
        random: bool = "false", "RFC 9332 appendix A.1; Linux";
        /// give packets with DSCP 45 (NQB) to the L4S queue, too
        nqb: bool = "false", "RFC 9956";
        /// most packets queued
        limit: u64 as Packets = "10000" ["1".."100000000"], "Linux dualpi2";
    }
}

/// DSCP of non-queue-building flows (RFC 9956).
const NQB: u8 = 45;

/// State of the controller and its two deciders.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DualPi2Law {
    /// Base probability p′, from which both probabilities follow.
    base: f64,
    /// Delay at the last update, in seconds.
    last_delay_s: f64,
    /// Probability accumulated in each decider since its last mark or drop.
    l_count: f64,
    c_count: f64,
}

/// Returns true as often as the probability says (appendix A.1, `recur`); deterministic without `chance`.
fn recur(count: &mut f64, likelihood: f64, chance: Option<&mut Rng>) -> bool {
    if let Some(rng) = chance {
        return likelihood > 0.0 && uniform(rng) < likelihood;
    }
    *count += likelihood;
    if *count > 1.0 {
        *count -= 1.0;
        return true;
    }
    false
}

impl DualPi2Law {
    /// Updates the base probability with the longer delay of the two queues (appendix A.1, `dualpi2_update`).
    fn update(&mut self, params: &Params, delay: Duration) {
        let delay_s = delay.as_secs_f64();
        self.base += params.alpha * (delay_s - params.target.as_secs_f64())
            + params.beta * (delay_s - self.last_delay_s);
        self.base = self.base.clamp(0.0, 1.0);
        self.last_delay_s = delay_s;
    }

    /// Returns p_CL, the probability with which L4S packets are marked on behalf of the classic queue.
    pub fn coupled(&self, params: &Params) -> f64 {
        params.coupling * self.base
    }

    /// Returns p_C, the probability with which classic packets are dropped or marked.
    pub fn classic(&self) -> f64 {
        self.base * self.base
    }

    /// Judges an L4S packet that leaves after `sojourn`; `packets` were queued, this one included.
    fn judge_l4s(
        &mut self,
        params: &Params,
        sojourn: Duration,
        packets: u64,
        chance: Option<&mut Rng>,
    ) -> Verdict {
        let coupled = self.coupled(params);
        if coupled >= 1.0 {
            // Appendix A.2: marking is exhausted; drop as in the classic queue, mark all other packets.
            let classic = self.classic();
            if recur(&mut self.l_count, classic, chance) {
                return Verdict::Drop;
            }
            return Verdict::Mark;
        }
        let native = if packets > params.min_len {
            ramp(params, sojourn)
        } else {
            0.0
        };
        if recur(&mut self.l_count, native.max(coupled), chance) {
            Verdict::Mark
        } else {
            Verdict::Forward
        }
    }

    fn judge_classic(&mut self, params: &Params, ecn: Ecn, chance: Option<&mut Rng>) -> Verdict {
        let p = self.classic();
        if !recur(&mut self.c_count, p, chance) {
            Verdict::Forward
        } else if ecn.is_capable() && p < (1.0 / (params.coupling * params.coupling)).min(1.0) {
            Verdict::Mark
        } else {
            // Appendix A.2: from p_Cmax on packets are dropped instead of marked.
            Verdict::Drop
        }
    }
}

/// Returns the L4S queue's own marking probability (appendix A.1, `laqm`).
fn ramp(params: &Params, sojourn: Duration) -> f64 {
    if sojourn >= params.min_th + params.range {
        1.0
    } else if sojourn > params.min_th {
        (sojourn - params.min_th).as_secs_f64() / params.range.as_secs_f64()
    } else {
        0.0
    }
}

#[derive(Clone, Debug)]
struct State {
    l4s: Store,
    classic: Store,
    law: DualPi2Law,
    ticks: Ticks,
    /// Bytes of L4S packets since the classic queue's last turn, minus the cost of that turn.
    credit: i64,
    decide: Rng,
}

/// Counters of the discipline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Packets refused because the queue was full.
    pub overlimits: u64,
    /// L4S packets marked with CE.
    pub l4s_marks: u64,
    /// L4S packets dropped.
    pub l4s_drops: u64,
    /// Classic packets marked with CE.
    pub classic_marks: u64,
    /// Classic packets dropped.
    pub classic_drops: u64,
}

/// Queue pair of DualPI2: L4S and classic.
#[derive(Clone, Debug)]
pub struct DualPi2 {
    params: Params,
    state: State,
    stats: Stats,
}

impl DualPi2 {
    /// Creates the discipline; the stream `decide` is used if the parameters ask for random decisions.
    pub fn new(params: Params, decide: Rng) -> DualPi2 {
        DualPi2 {
            params,
            state: State {
                l4s: Store::default(),
                classic: Store::default(),
                law: DualPi2Law::default(),
                ticks: Ticks::new(params.tupdate),
                credit: 0,
                decide,
            },
            stats: Stats::default(),
        }
    }
    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }
    /// Law in its present state.
    pub fn law(&self) -> &DualPi2Law {
        &self.state.law
    }

    fn catch_up(&mut self, now: Time) {
        let State {
            l4s,
            classic,
            law,
            ticks,
            ..
        } = &mut self.state;
        let heads = [l4s.front(), classic.front()];
        let oldest = heads.into_iter().flatten().map(|p| p.enqueued).min();
        ticks.pass(now, |tick| {
            let before = *law;
            law.update(
                &self.params,
                oldest.map_or(Duration::ZERO, |t| tick.saturating_since(t)),
            );
            oldest.is_none() && *law == before
        });
    }

    /// True if the classic queue is next: if the other is empty, or once it has earned its share.
    fn classic_is_next(&self) -> bool {
        let State {
            l4s,
            classic,
            credit,
            ..
        } = &self.state;
        match (l4s.front(), classic.front()) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(_), Some(head)) => *credit >= self.price(head),
        }
    }

    /// Returns the cost of a classic packet in credit: the L4S bytes that it stands for.
    fn price(&self, packet: &Packet) -> i64 {
        (packet.len.get() * (self.params.protection - 1)) as i64
    }
}

impl Qdisc for DualPi2 {
    fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        self.catch_up(now);
        if self.backlog().packets >= self.params.limit {
            self.stats.overlimits += 1;
            fates.dropped(packet, Reason::Overlimit);
            return;
        }
        // RFC 9331 section 5.1: ECT(1) and CE are L4S.
        match packet.ecn {
            Ecn::Ect1 | Ecn::Ce => self.state.l4s.push(now, packet),
            _ if self.params.nqb && packet.dscp == NQB => self.state.l4s.push(now, packet),
            Ecn::Ect0 | Ecn::NotEct => self.state.classic.push(now, packet),
        }
    }

    fn dequeue(&mut self, now: Time, fates: &mut Fates) -> Option<Packet> {
        self.catch_up(now);
        loop {
            let from_classic = self.classic_is_next();
            let State {
                l4s,
                classic,
                law,
                decide,
                ..
            } = &mut self.state;
            let chance = self.params.random.then_some(decide);
            let (mut packet, verdict) = if from_classic {
                let packet = classic.pop()?;
                let verdict = law.judge_classic(&self.params, packet.ecn, chance);
                (packet, verdict)
            } else {
                let waiting = l4s.len();
                let packet = l4s.pop()?;
                let sojourn = now.saturating_since(packet.enqueued);
                let verdict = match packet.ecn {
                    // NQB packets of a classic sender.
                    Ecn::NotEct | Ecn::Ect0 => law.judge_classic(&self.params, packet.ecn, chance),
                    Ecn::Ect1 | Ecn::Ce => law.judge_l4s(&self.params, sojourn, waiting, chance),
                };
                (packet, verdict)
            };
            if verdict == Verdict::Drop {
                let drops = if from_classic {
                    &mut self.stats.classic_drops
                } else {
                    &mut self.stats.l4s_drops
                };
                *drops += 1;
                fates.dropped(packet, Reason::EarlyDrop);
                continue;
            }
            if verdict == Verdict::Mark {
                let marks = if from_classic {
                    &mut self.stats.classic_marks
                } else {
                    &mut self.stats.l4s_marks
                };
                *marks += 1;
                packet.ecn = Ecn::Ce;
                fates.marked(packet, Reason::EarlyDrop);
            }
            if from_classic {
                self.state.credit -= self.price(&packet);
            } else {
                self.state.credit += packet.len.get() as i64;
            }
            // Only time in which both queues are backlogged is shared.
            if self.state.l4s.is_empty() || self.state.classic.is_empty() {
                self.state.credit = 0;
            }
            return Some(packet);
        }
    }

    fn backlog(&self) -> Backlog {
        let (l, c) = (self.state.l4s.backlog(), self.state.classic.backlog());
        Backlog {
            bytes: l.bytes + c.bytes,
            packets: l.packets + c.packets,
        }
    }

    fn next_wakeup(&self) -> Option<Time> {
        None
    }

    /// Returns the classic queue's probability; L4S packets are marked with k times its root, or more.
    fn probability(&self) -> Option<f64> {
        Some(self.state.law.classic())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::Streams;
    use base::{Bytes, FlowId, PacketId};

    fn packet(id: u64, ecn: Ecn) -> Packet {
        Packet {
            id: PacketId(id),
            flow: FlowId(u64::from(ecn.bits())),
            len: Bytes::new(1000),
            ecn,
            dscp: 0,
            enqueued: Time::ZERO,
        }
    }

    #[test]
    fn classic_drops_are_the_square_of_coupled_marks_over_k() {
        // 10 Mbit/s, one packet per 0.8 ms. Classic packets arrive every 0.86 ms, and an L4S packet every 10 ms, so
        // that L4S packets never wait for each other and are marked only because of the coupling. The load is 0.8/0.86
        // + 0.08 = 1.01, so classic packets are dropped with p_C of about 1.1 %.
        let mut q = DualPi2::new(Params::default(), Streams::new(1).stream("decide"));
        let mut fates = Fates::default();
        let (mut free, mut id, mut delay, mut left) = (Time::ZERO, 0, 0.0, 0u32);
        let (mut classic, mut dropped, mut l4s, mut marked) = (0u32, 0u32, 0u32, 0u32);
        for us in (0..400_000_000u64).step_by(20) {
            let now = Time::from_micros(us);
            let counts = us >= 100_000_000;
            let mut arrive = |ecn| {
                id += 1;
                q.enqueue(now, packet(id, ecn), &mut fates);
            };
            if us % 860 == 0 {
                arrive(Ecn::NotEct);
                classic += u32::from(counts);
            }
            if us % 10_000 == 0 {
                arrive(Ecn::Ect1);
                l4s += u32::from(counts);
            }
            if free <= now {
                if let Some(p) = q.dequeue(now, &mut fates)
                    && p.ecn == Ecn::NotEct
                    && counts
                {
                    delay += (now - p.enqueued).as_millis_f64();
                    left += 1;
                }
                free = now + Duration::from_micros(800);
            }
            for (p, _) in fates.list.drain(..) {
                if counts && p.ecn == Ecn::Ce {
                    marked += 1;
                } else if counts {
                    dropped += 1;
                }
            }
        }
        let p_c = f64::from(dropped) / f64::from(classic);
        let p_cl = f64::from(marked) / f64::from(l4s);
        assert!((p_c - 0.0107).abs() < 0.001, "p_C = {p_c}");
        assert!(
            (p_c - (p_cl / 2.0).powi(2)).abs() < 0.05 * p_c,
            "p_C = {p_c}, p_CL = {p_cl}"
        );
        let mean = delay / f64::from(left);
        assert!((mean - 15.0).abs() < 1.5, "{mean} ms");
    }

    #[test]
    fn an_l4s_packet_passes_a_standing_classic_queue_but_cannot_starve_it() {
        let mut q = DualPi2::new(Params::default(), Streams::new(1).stream("decide"));
        let mut fates = Fates::default();
        for id in 0..200 {
            q.enqueue(Time::ZERO, packet(id, Ecn::NotEct), &mut fates);
            q.enqueue(Time::ZERO, packet(1000 + id, Ecn::Ect1), &mut fates);
        }
        let out: Vec<bool> = (0..160)
            .map(|_| q.dequeue(Time::ZERO, &mut fates).unwrap().id.0 < 1000)
            .collect();
        assert!(out[..15].iter().all(|classic| !classic));
        assert_eq!(out.iter().filter(|classic| **classic).count(), 10);
    }

    #[test]
    fn marks_l4s_packets_at_once_when_their_own_queue_is_long() {
        let mut q = DualPi2::new(Params::default(), Streams::new(1).stream("decide"));
        let mut fates = Fates::default();
        for id in 0..4 {
            q.enqueue(Time::ZERO, packet(id, Ecn::Ect1), &mut fates);
        }
        for us in [800, 1000, 1200, 9000] {
            q.dequeue(Time::from_micros(us), &mut fates);
        }
        // None at 800 µs; half at 1000 µs and all at 1200 µs make one mark; the last packet is alone.
        let marked: Vec<u64> = fates.list.iter().map(|f| f.0.id.0).collect();
        assert_eq!(marked, [2]);
    }
}
