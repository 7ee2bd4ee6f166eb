//! Contract of every queue discipline, checked under any sequence of operations: conservation in packets and bytes,
//! order within a flow, limits, marks, wake-ups. The property tests run it over the registry; a program runs it over a
//! discipline of its own.

use super::registry::AnyQdisc;
use super::{Backlog, Fate, Fates, Limits, Qdisc};
use base::rng::{Rng, uniform};
use base::{Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use std::collections::BTreeMap;

/// Operation on a discipline.
#[derive(Clone, Copy, Debug)]
pub enum Op {
    /// Packet of this flow arrives, with this many bytes and these ECN bits.
    Enqueue { flow: u64, len: u64, ecn: u8 },
    /// Link asks for this many packets.
    Dequeue { times: u8 },
}

/// Packets that came out, and the fates of the others: equal for two runs of the same seed.
pub type Trace = (Vec<(Time, Packet)>, Vec<(Packet, Fate)>);

/// DSCP of a flow's packets in the checks; 46 is expedited forwarding.
pub fn dscp(flow: u64) -> u8 {
    if flow == 1 || flow == 4 { 46 } else { 0 }
}

/// Draws up to 400 operations, each with the time since the one before in microseconds.
pub fn random_ops(rng: &mut Rng) -> Vec<(u64, Op)> {
    let mut below = |n: u64| (uniform(rng) * n as f64) as u64;
    let count = 1 + below(400);
    let mut ops = Vec::new();
    for _ in 0..count {
        let longest = if below(5) == 0 { 200_000 } else { 3_000 };
        let gap_us = below(longest);
        let op = match below(5) {
            0..3 => {
                let flow = below(6);
                let len = if below(2) == 0 { 40 + below(60) } else { 1500 };
                // A flow keeps its ECN field, or a discipline with two queues would have to break its order.
                let ecn = (flow % 4) as u8;
                Op::Enqueue { flow, len, ecn }
            }
            _ => Op::Dequeue {
                times: 1 + below(3) as u8,
            },
        };
        ops.push((gap_us, op));
    }
    ops
}

/// Runs the operations, drains the discipline, and checks all that must hold.
///
/// # Errors
/// A sentence that says what did not hold.
pub fn check(qdisc: &mut AnyQdisc, limits: Limits, ops: &[(u64, Op)]) -> Result<Trace, String> {
    let mut run = Run {
        qdisc,
        limits,
        inside: BTreeMap::new(),
        last_of_flow: BTreeMap::new(),
        fates: Fates::default(),
        trace: Trace::default(),
    };
    let mut now = Time::ZERO;
    // Draining: at most one dequeue for each packet offered, each a millisecond after the one before, or at the
    // discipline's wake-up.
    let drain = ops.iter().map(|_| (1_000, Op::Dequeue { times: 1 }));
    for (i, (gap_us, op)) in ops.iter().copied().chain(drain).enumerate() {
        now += Duration::from_micros(gap_us);
        if i >= ops.len() {
            now = now.max(run.qdisc.next_wakeup().unwrap_or(now));
        }
        match op {
            Op::Enqueue { flow, len, ecn } => run.enqueue(now, i as u64, (flow, len, ecn))?,
            Op::Dequeue { times } => (0..times).try_for_each(|_| run.dequeue(now))?,
        }
    }
    if !run.inside.is_empty() {
        return Err(format!("{} packets never came out", run.inside.len()));
    }
    match run.qdisc.next_wakeup() {
        Some(wake) if wake <= now => {
            Err(format!("drained at {now}, yet wants to be woken at {wake}"))
        }
        _ => Ok(run.trace),
    }
}

/// Discipline under check, beside the packets that must be in it.
struct Run<'a> {
    qdisc: &'a mut AnyQdisc,
    limits: Limits,
    inside: BTreeMap<PacketId, Packet>,
    last_of_flow: BTreeMap<FlowId, PacketId>,
    fates: Fates,
    trace: Trace,
}

impl Run<'_> {
    fn enqueue(&mut self, now: Time, id: u64, of: (u64, u64, u8)) -> Result<(), String> {
        let (flow, len, ecn) = of;
        let packet = Packet {
            id: PacketId(id),
            flow: FlowId(flow),
            len: Bytes::new(len),
            ecn: Ecn::from_bits(ecn),
            dscp: dscp(flow),
            enqueued: now,
        };
        self.inside.insert(packet.id, packet);
        let arriving = Packet {
            enqueued: Time::MAX,
            ..packet
        };
        self.qdisc.enqueue(now, arriving, &mut self.fates);
        self.judge_fates()?;
        self.judge_backlog(now)
    }

    fn dequeue(&mut self, now: Time) -> Result<(), String> {
        let out = self.qdisc.dequeue(now, &mut self.fates);
        self.judge_fates()?;
        match out {
            Some(packet) => self.judge_delivery(now, packet)?,
            None if !self.inside.is_empty()
                && self.qdisc.next_wakeup().is_none_or(|t| t <= now) =>
            {
                return Err(format!(
                    "gave nothing at {now} with {} inside and no wake-up ahead",
                    self.inside.len()
                ));
            }
            None => {}
        }
        self.judge_backlog(now)
    }

    fn judge_fates(&mut self) -> Result<(), String> {
        for (packet, fate) in &self.fates.list {
            match fate {
                Fate::Dropped(_) => {
                    let came = self.inside.remove(&packet.id);
                    came.ok_or_else(|| format!("{packet:?} dropped but not inside"))?;
                }
                Fate::Marked(_) => {
                    let came = self.inside.get_mut(&packet.id);
                    let came = came.ok_or_else(|| format!("{packet:?} marked but not inside"))?;
                    if !came.ecn.is_capable() || packet.ecn != Ecn::Ce {
                        return Err(format!(
                            "{came:?} must not be marked, or was not: {packet:?}"
                        ));
                    }
                    came.ecn = Ecn::Ce;
                }
            }
        }
        self.trace.1.append(&mut self.fates.list);
        Ok(())
    }

    fn judge_delivery(&mut self, now: Time, packet: Packet) -> Result<(), String> {
        let came = self.inside.remove(&packet.id);
        let came = came.ok_or_else(|| format!("{packet:?} delivered but not inside"))?;
        if packet != came {
            return Err(format!("went in as {came:?}, came out as {packet:?}"));
        }
        let last = self.last_of_flow.insert(packet.flow, packet.id);
        if let Some(last) = last.filter(|last| *last > packet.id) {
            return Err(format!(
                "{:?} came out after {last:?} of its flow",
                packet.id
            ));
        }
        self.trace.0.push((now, packet));
        Ok(())
    }

    fn judge_backlog(&self, now: Time) -> Result<(), String> {
        let bytes = self.inside.values().fold(Bytes::ZERO, |sum, p| sum + p.len);
        let backlog = Backlog {
            bytes,
            packets: self.inside.len() as u64,
        };
        let says = self.qdisc.backlog();
        if says != backlog {
            return Err(format!("says {says:?}, but has {backlog:?} at {now}"));
        }
        let Limits { packets, bytes } = self.limits;
        if packets.is_some_and(|l| backlog.packets > l) || bytes.is_some_and(|l| backlog.bytes > l)
        {
            return Err(format!("{backlog:?} is above {:?}", self.limits));
        }
        Ok(())
    }
}
