//! Summary of an emulation: packets carried, lost and dropped, and whether the host was quick enough for the figures to
//! be trusted.

use super::header::ip_len;
use super::way::Way;
use base::print::significant;
use base::{BitsPerSec, Duration};
use link::qdisc::Reason;
use schemars::JsonSchema;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// Limit of the 99th percentile of lateness above which delays are not the link's. The emulator promises it on an idle
/// machine.
pub const TRUSTED_LATENESS: Duration = Duration::from_micros(500);

/// Counts of one direction. Bytes are those of IP packets, headers included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct DirectionSummary {
    pub arrived_packets: u64,
    pub arrived_bytes: u64,
    pub delivered_packets: u64,
    pub delivered_bytes: u64,
    /// Second copies among the delivered packets.
    pub duplicated_packets: u64,
    /// Packets still in the link when it was removed.
    pub waiting_packets: u64,
    /// Packets dropped by the emulated links, by reason.
    pub dropped_packets: BTreeMap<&'static str, u64>,
    /// Packets marked with ECN CE by the emulated links.
    pub marked_packets: u64,
    /// Rate of the busiest second; null if no packet left.
    pub busiest_second_bps: Option<u64>,
    /// Packets that this host lost before the emulated link or after it.
    pub host_lost_packets: u64,
}

/// Packets of both directions, and how exactly they left.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Summary {
    pub up: DirectionSummary,
    pub down: DirectionSummary,
    /// Median lateness: departure of a packet less its due time. Null if none left.
    pub lateness_p50_ns: Option<u64>,
    pub lateness_p99_ns: Option<u64>,
    pub lateness_max_ns: Option<u64>,
    /// True if the kernel let the emulator run before other threads.
    pub real_time: bool,
    /// Processor time that the emulator used.
    pub cpu_ns: u64,
    pub duration_ns: u64,
}

/// Counts of one direction during the run.
#[derive(Default)]
pub(super) struct Carried {
    arrived: (u64, u64),
    delivered: (u64, u64),
    /// Bytes delivered in each second since the start, the current one last.
    second: (u64, u64),
    busiest: u64,
}

impl Carried {
    pub(super) fn arrived(&mut self, frame: usize) {
        self.arrived.0 += 1;
        self.arrived.1 += ip_len(frame).get();
    }

    pub(super) fn delivered(&mut self, since_start: Duration, frame: usize) {
        let bytes = ip_len(frame).get();
        self.delivered.0 += 1;
        self.delivered.1 += bytes;
        let second = since_start.as_nanos() / 1_000_000_000;
        if second != self.second.0 {
            self.second = (second, 0);
        }
        self.second.1 += bytes;
        self.busiest = self.busiest.max(self.second.1);
    }
}

/// Lateness of packets in nanoseconds, to 0.4 %.
pub(super) type Lateness = base::sketch::Sketch<7>;

impl DirectionSummary {
    pub(super) fn new(way: &Way, carried: Carried, host_lost_packets: u64) -> DirectionSummary {
        let stats: Vec<_> = way.hops().iter().map(|h| h.stats()).collect();
        let dropped = |why: Reason| {
            stats
                .iter()
                .map(|s| s.dropped_for(why).packets)
                .sum::<u64>()
        };
        DirectionSummary {
            arrived_packets: carried.arrived.0,
            arrived_bytes: carried.arrived.1,
            delivered_packets: carried.delivered.0,
            delivered_bytes: carried.delivered.1,
            duplicated_packets: stats.iter().map(|s| s.duplicated.packets).sum(),
            waiting_packets: stats
                .iter()
                .map(|s| s.backlog.packets + s.on_line.packets)
                .sum(),
            dropped_packets: Reason::ALL
                .into_iter()
                .map(|why| (why.word(), dropped(why)))
                .filter(|(_, n)| *n > 0)
                .collect(),
            marked_packets: stats.iter().map(|s| s.marked.packets).sum(),
            busiest_second_bps: (carried.busiest > 0).then_some(carried.busiest * 8),
            host_lost_packets,
        }
    }

    /// Summary of a chain, from that of its first links and that of the further ones, in the direction of its packets.
    fn followed_by(self, behind: DirectionSummary) -> DirectionSummary {
        let mut dropped_packets = self.dropped_packets;
        for (why, packets) in behind.dropped_packets {
            *dropped_packets.entry(why).or_default() += packets;
        }
        DirectionSummary {
            arrived_packets: self.arrived_packets,
            arrived_bytes: self.arrived_bytes,
            delivered_packets: behind.delivered_packets,
            delivered_bytes: behind.delivered_bytes,
            duplicated_packets: self.duplicated_packets + behind.duplicated_packets,
            waiting_packets: self.waiting_packets + behind.waiting_packets,
            dropped_packets,
            marked_packets: self.marked_packets + behind.marked_packets,
            busiest_second_bps: behind.busiest_second_bps,
            host_lost_packets: self.host_lost_packets + behind.host_lost_packets,
        }
    }

    /// Packets dropped by the emulated links, for any reason.
    pub fn dropped_total(&self) -> u64 {
        self.dropped_packets.values().sum()
    }
}

impl Summary {
    /// Summary of a chain, from that of the links nearer to the near end and that of the further ones. Its lateness is
    /// the worse of both.
    pub(super) fn followed_by(self, behind: Summary) -> Summary {
        Summary {
            up: self.up.followed_by(behind.up),
            down: behind.down.followed_by(self.down),
            lateness_p50_ns: self.lateness_p50_ns.max(behind.lateness_p50_ns),
            lateness_p99_ns: self.lateness_p99_ns.max(behind.lateness_p99_ns),
            lateness_max_ns: self.lateness_max_ns.max(behind.lateness_max_ns),
            real_time: self.real_time && behind.real_time,
            cpu_ns: self.cpu_ns + behind.cpu_ns,
            duration_ns: self.duration_ns.max(behind.duration_ns),
        }
    }

    /// Reason why the figures of this emulation should not be trusted, if there is one.
    pub fn doubt(&self) -> Option<String> {
        let lost = self.up.host_lost_packets + self.down.host_lost_packets;
        let late = self
            .lateness_p99_ns
            .map(Duration::from_nanos)
            .filter(|l| *l > TRUSTED_LATENESS);
        let late = late.map(|l| {
            format!("1 % of the packets left at least {l:.2} late (more than {TRUSTED_LATENESS})")
        });
        let lost = (lost > 0)
            .then(|| format!("{lost} packets were lost by this host outside the emulated link"));
        let reasons: Vec<String> = [late, lost].into_iter().flatten().collect();
        if reasons.is_empty() {
            return None;
        }
        let remedy = if self.real_time {
            "stop other work on this machine"
        } else {
            "stop other work on this machine, or run as root so that the emulator goes first"
        };
        Some(format!(
            "do not trust the delays of this run: {}. The host was too busy: {remedy}",
            reasons.join(", and ")
        ))
    }
}

impl fmt::Display for Summary {
    /// Writes one paragraph for people.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let seconds = significant(self.duration_ns as f64 / 1e9, 3);
        write!(
            f,
            "Emulated for {seconds} s. Up {}. Down {}.",
            self.up, self.down
        )?;
        let packets = self.up.delivered_packets + self.down.delivered_packets;
        if let (Some(p50), Some(p99), Some(max)) = (
            self.lateness_p50_ns,
            self.lateness_p99_ns,
            self.lateness_max_ns,
        ) {
            let [p50, p99, max] = [p50, p99, max].map(Duration::from_nanos);
            write!(
                f,
                " Packets left {p50:.2} late in the middle, {p99:.2} at the 99th percentile, {max:.2} at most;"
            )?;
            write!(
                f,
                " {:.2} of processor time a packet.",
                Duration::from_nanos(self.cpu_ns / packets)
            )?;
        }
        Ok(())
    }
}

impl fmt::Display for DirectionSummary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} of {} packets delivered",
            self.delivered_packets, self.arrived_packets
        )?;
        if let Some(bps) = self.busiest_second_bps {
            write!(f, " ({:.3} in the busiest second)", BitsPerSec::new(bps))?;
        }
        for (why, packets) in &self.dropped_packets {
            write!(f, ", {packets} dropped ({})", why.replace('_', " "))?;
        }
        if self.marked_packets > 0 {
            write!(f, ", {} marked", self.marked_packets)?;
        }
        if self.waiting_packets > 0 {
            write!(f, ", {} still on their way", self.waiting_packets)?;
        }
        Ok(())
    }
}
