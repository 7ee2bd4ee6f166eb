//! Evidence of one phase on one direction's bottleneck: waits of the probes, waits of the load's own packets, rate, and
//! congestion epochs. Size and kind of the queue are read from it.
//!
//! **Method.** The load's wait is its smoothed round trip less the base round trip and less the time its
//! own full packet takes on the link. Congestion is where a flow's count of retransmissions grew, or its
//! slow-start threshold fell; what one recovery retransmits is one epoch.
//!
//! **Source.** RFC 6298 (smoothed round trip, weight 1/8), RFC 6582 (one reduction a window).
//!
//! **Limits.** A smoothed round trip lags by a few acknowledgements and includes the receiver's delayed
//! acknowledgement, up to one packet's time a flow and, with small windows, 40 ms: differences below that
//! prove nothing.

use crate::answer::Discipline;
use crate::baseline::Baseline;
use crate::clock::ClockFit;
use crate::held_back::{self, HeldBack};
use crate::instrument;
use crate::loss;
use crate::overload::{self, Noise, Overload};
use crate::phases::{self, Phase};
use crate::rate::{self, Steadiness};
use base::record::{Delay, Direction, Flow, Recording, Status};
use stats::Figure;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// Share of an earlier load's round trips, and their least, below which a link's queues are empty again.
const DRAINED: f64 = 0.02;
const DRAINED_MS: f64 = 3.0;
/// Time of a packet above which the hosts' own delays do not hide it, ms.
const STILL_MS: f64 = 0.5;
/// Share by which a later flood has to be faster for the link's rate to have moved.
const RISES: f64 = 0.05;
/// Share of probes at rest that meet packets of others, where there is cross traffic.
const MET: (f64, f64) = (0.06, 0.5);
/// Share of the link's rate from which a load filled it.
const FILLED: f64 = 0.85;
/// The same for a policer, whose losses leave TCP less.
const POLICED: f64 = 0.5;

/// Facts that every phase of a recording shares.
#[derive(Clone, Copy)]
pub struct Scene<'a> {
    /// Recording of the test.
    pub rec: &'a Recording,
    /// Relation of the clocks; none if it is unknown.
    pub clock: Option<&'a ClockFit>,
    /// Smallest round trip of the idle link.
    pub base_rtt_ms: Option<f64>,
    /// Drift of the base delay.
    pub baseline: &'a Baseline,
    /// Size of a probe's IP packet.
    pub probe_ip_bytes: f64,
}

/// Evidence of one phase on one direction's bottleneck.
pub struct Bottleneck {
    /// Direction of the load.
    pub direction: Direction,
    /// Phase of the load.
    pub phase: Phase,
    /// (sent ns, wait in this direction in ms) of every probe of the whole phase, warm-up too.
    pub waits: Vec<(i64, f64)>,
    /// (sampled ns, wait of the load's own packets in ms), whole phase.
    pub in_flow: Vec<(i64, f64)>,
    /// Times of the congestion epochs, ns, each that of the sample which shows it. `None` while no sender has reported:
    /// the sender of a download reports when the load has stopped.
    pub epochs: Option<Vec<i64>>,
    /// Usual interval between two samples of one flow, ns.
    pub sample_ns: i64,
    /// Number of flows.
    pub flows: usize,
    /// Share of the steady part's seconds in which flows delivered something, each flow by itself.
    pub busy: f64,
    /// Payload rate of the load.
    pub goodput: Figure,
    /// Rate of the load in whole IP packets, whatever limited it; `None` where no load was sampled.
    pub carried_bps: Option<f64>,
    /// Rate of the link, claimed only with evidence that it was full.
    pub link_rate: Figure,
    /// True if, by the probes, a queue stood during most of the load.
    pub stood: bool,
    /// Limit outside the network that held the load back.
    pub held_back: Option<HeldBack>,
    /// Evidence of overload trains.
    pub overload: Option<Overload>,
    /// Wait of a probe at rest in this direction: one below it is no sign of a queue.
    pub noise: Noise,
    /// Share of probes among the packets of the load.
    pub small_share: f64,
    /// Range over which the base of this direction moved in the run, ms.
    pub base_doubt_ms: f64,
    /// Full payload segment with its headers, bytes.
    pub packet_bytes: f64,
    /// IP and TCP headers of a segment, bytes.
    pub header_bytes: f64,
    /// Variation of the full link's rate, as a share; see [`rate::moves`].
    pub rate_moves: Option<f64>,
    /// Time of one full packet on the link, ms; 0 where the rate is unknown.
    pub packet_ms: f64,
    /// Base round trip, ms.
    pub base_rtt_ms: f64,
    /// Probes sent while this direction was not loaded, and the number of them that the link itself lost.
    pub unloaded: (u64, u64),
    /// Median round trip of the load's packets in the steady part, ms.
    pub loaded_rtt_ms: f64,
}

impl Scene<'_> {
    /// Wait of a probe in `direction` above the base at that time: from one-way delays, or, where those are unknown and
    /// only this direction is loaded, from the round trip.
    pub fn wait_ms(&self, d: &Delay, direction: Direction, phase: &Phase) -> Option<f64> {
        let above = match self.clock {
            Some(fit) => fit.waits(d).map(|w| match direction {
                Direction::Up => w.up_ms,
                Direction::Down => w.down_ms,
            })?,
            None if phase.loads(direction) && phase.name != "both" => {
                d.rtt_ms()? - self.base_rtt_ms?
            }
            None => return None,
        };
        Some((above - self.baseline.shift_ms(direction, d.sent_ns)).max(0.0))
    }

    /// Waits of the probes sent in `range`, with their sending times, in time order.
    fn waits(&self, phase: &Phase, range: Range<i64>, direction: Direction) -> Vec<(i64, f64)> {
        let mut waits: Vec<(i64, f64)> = phases::own_probes(self.rec, range)
            .into_iter()
            .filter_map(|d| Some((d.sent_ns, self.wait_ms(d, direction, phase)?)))
            .collect();
        waits.sort_by_key(|w| w.0);
        waits
    }

    /// Cross traffic in a phase; see [`instrument::cross_traffic_bps`].
    pub fn cross_traffic_bps(&self, phase: &Phase) -> Option<f64> {
        let drained = self.drained_ns(phase);
        instrument::cross_traffic_bps(self.rec, phase, drained, self.probe_ip_bytes)
    }

    /// Time from which the link's queues hold nothing of the load before `phase`: that of the first probe after it whose
    /// round trip is nearly the base. Until then, the sender may still have had data to send, too. `None` if no probe was
    /// that fast before the phase ended.
    fn drained_ns(&self, phase: &Phase) -> Option<i64> {
        let all = phases::phases(self.rec, None);
        let before = all
            .iter()
            .filter(|p| p.is_loaded() && p.to_ns <= phase.from_ns)
            .max_by_key(|p| p.to_ns);
        let (Some(before), Some(_)) = (before, self.base_rtt_ms) else {
            return Some(phase.from_ns);
        };
        let above = |d: &Delay| {
            Some(d.rtt_ms()? - self.base_rtt_ms? - self.baseline.rtt_shift_ms(d.sent_ns))
        };
        let stood: Vec<f64> = phases::own_probes(self.rec, before.whole())
            .into_iter()
            .filter_map(above)
            .collect();
        let full = stats::quantile_of_sorted(&stats::sorted(&stood), 0.95).unwrap_or(0.0);
        let empty = (DRAINED * full).max(DRAINED_MS);
        phases::own_probes(self.rec, before.to_ns..phase.to_ns)
            .into_iter()
            .filter(|d| above(d).is_some_and(|ms| ms <= empty))
            .map(|d| d.sent_ns)
            .min()
    }

    /// Cross traffic beside the load of a phase, on this host's interface and in the link's queue at rest.
    fn others(&self, phase: &Phase, direction: Direction, packet_ms: f64) -> rate::Others {
        let known = |bps: Option<f64>| bps.unwrap_or(0.0);
        rate::Others {
            bps: known(self.cross_traffic_bps(phase)),
            unexplained_bps: known(crate::instrument::unexplained_bps(
                self.rec,
                phase,
                direction,
                self.probe_ip_bytes,
            )),
            at_rest: self.met_at_rest(direction, packet_ms),
        }
    }

    /// True if some of the probes at rest waited for a packet or two on an otherwise idle link: they met cross traffic
    /// in its queue.
    fn met_at_rest(&self, direction: Direction, packet_ms: f64) -> bool {
        let Some(idle) = phases::phases(self.rec, None)
            .into_iter()
            .find(|p| p.name == "idle")
        else {
            return false;
        };
        if self.clock.is_none() || packet_ms < STILL_MS {
            return false;
        }
        let waits: Vec<f64> = self
            .waits(&idle, idle.steady(), direction)
            .into_iter()
            .map(|w| w.1)
            .collect();
        let sorted = stats::sorted(&waits);
        let at = |q| stats::quantile_of_sorted(&sorted, q).unwrap_or(0.0);
        let met = sorted.iter().filter(|w| **w > 0.2 * packet_ms).count() as f64
            / sorted.len().max(1) as f64;
        (MET.0..MET.1).contains(&met)
            && at(0.4) < 0.05 * packet_ms
            && at(1.0 - met / 2.0) < 3.0 * packet_ms
    }

    /// Wait of a probe at rest in `direction`.
    fn noise(&self, direction: Direction) -> Noise {
        let idle = phases::phases(self.rec, None)
            .into_iter()
            .find(|p| p.name == "idle");
        let Some(idle) = idle else {
            return Noise::default();
        };
        let waits: Vec<f64> = match self.clock {
            Some(_) => self
                .waits(&idle, idle.steady(), direction)
                .into_iter()
                .map(|w| w.1)
                .collect(),
            None => {
                let base = self.base_rtt_ms.unwrap_or(0.0);
                let rtts = phases::own_probes(self.rec, idle.steady());
                rtts.into_iter()
                    .filter_map(|d| Some(d.rtt_ms()? - base))
                    .collect()
            }
        };
        let sorted = stats::sorted(&waits);
        let at = |q| {
            stats::quantile_of_sorted(&sorted, q)
                .unwrap_or(0.0)
                .max(0.0)
        };
        Noise {
            usual_ms: at(0.5),
            most_ms: at(0.95),
        }
    }
}

/// Collects all evidence of one phase on one direction.
pub fn bottleneck(scene: &Scene, phase: &Phase, direction: Direction) -> Bottleneck {
    let rec = scene.rec;
    let waits = scene.waits(phase, phase.whole(), direction);
    let steady = phase.steady();
    let mss = rate::mss(rec, direction, phase.whole());
    let packet_bytes = mss + rate::header_bytes(mss);
    let carried = rate::carried(rec, direction, steady.clone());
    let rows = phases::flows(rec, direction, phase.whole());
    let noise = scene.noise(direction);
    let overload = overload::read(scene, direction, noise);
    let held_back = held_back::held_back(rec, &rows, phase);
    let unloaded = unloaded(rec, phase, direction);
    let base = scene.base_rtt_ms.unwrap_or(0.0);
    let rates = carried.as_ref().map(|carried| {
        let load = rate::Load {
            carried,
            mss,
            waits: &waits,
            probe_bps: probe_rate(scene, phase, direction),
            noise_ms: noise.most_ms,
            lag_ns: (base * 1e6) as i64,
            lost_share: unloaded.1 as f64 / (unloaded.0 as f64).max(1.0),
        };
        let limits = (overload.as_ref(), held_back.as_ref());
        rates(scene, (phase, direction), &load, limits)
    });
    let rates = rates.unwrap_or_else(|| Rates::unloaded(phase, direction));
    let packet_ms = rates
        .link
        .value()
        .or(rates.carried_bps)
        .filter(|r| *r > 0.0)
        .map_or(0.0, |r| packet_bytes * 8e3 / r);
    let moved = moving(&rows);
    let busy = busy(&moved, &rows, &steady);
    let srtt = smoothed(&moved);
    let loaded_rtt_ms = median_within(&srtt, &steady)
        .or_else(|| median_within(&waits, &steady).map(|w| w + base))
        .unwrap_or(base);
    let sample_ns = sampling_interval(&rows);
    let goodput = carried.as_ref().map(rate::Carried::goodput);
    let goodput = goodput.unwrap_or_else(|| no_load(phase, direction));
    let told = rows.iter().any(|f| f.retransmits.is_some());
    let apart = ((2e6 * loaded_rtt_ms) as i64).saturating_add(2 * sample_ns);
    Bottleneck {
        direction,
        phase: phase.clone(),
        in_flow: in_flow(scene, &srtt, packet_ms),
        epochs: told.then(|| epochs(&rows, apart)),
        sample_ns,
        flows: carried.as_ref().map_or(0, |c| c.flows),
        busy,
        goodput,
        small_share: small_share(scene, phase, direction, rates.carried_bps, packet_bytes),
        carried_bps: rates.carried_bps,
        link_rate: rates.link,
        stood: rates.stood,
        rate_moves: rates.moves,
        waits,
        held_back,
        overload,
        noise,
        base_doubt_ms: scene.baseline.doubt_ms(direction),
        packet_bytes,
        header_bytes: packet_bytes - mss,
        packet_ms,
        base_rtt_ms: base,
        unloaded,
        loaded_rtt_ms,
    }
}

/// Rates that a load shows.
struct Rates {
    /// Rate of the load in whole IP packets.
    carried_bps: Option<f64>,
    link: Figure,
    stood: bool,
    /// How much the rate of the full link moves, as a share.
    moves: Option<f64>,
}

impl Rates {
    /// Rates of a direction whose load was sampled too briefly.
    fn unloaded(phase: &Phase, direction: Direction) -> Self {
        Rates {
            carried_bps: None,
            link: no_load(phase, direction),
            stood: false,
            moves: None,
        }
    }
}

fn no_load(phase: &Phase, direction: Direction) -> Figure {
    Figure::cannot_tell(format!(
        "the load in direction {direction} was sampled for less than half a second of the phase \"{}\"",
        phase.name
    ))
}

/// Rates of `load`, the rate of the link among them if it was full.
fn rates(
    scene: &Scene,
    (phase, direction): (&Phase, Direction),
    load: &rate::Load,
    (overload, held_back): (Option<&Overload>, Option<&HeldBack>),
) -> Rates {
    let own = moves(load, overload);
    let packet_bytes = load.mss + rate::header_bytes(load.mss);
    let steadiness = Steadiness {
        own,
        neighbour: moves_opposite(scene, direction, packet_bytes),
    };
    let others = scene.others(phase, direction, load.packet_ms());
    let rated = rate::link_rate(load, overload, held_back, &others, &steadiness);
    Rates {
        carried_bps: load.carried_bps(),
        moves: steadiness
            .suspect()
            .or(own)
            .into_iter()
            .chain(rated.apart)
            .reduce(f64::max),
        link: rated.figure,
        stood: rated.stood,
    }
}

/// Smoothed RTT of each sample of a flow that delivers, ms.
fn smoothed(moved: &[&Flow]) -> Vec<(i64, f64)> {
    let told = |f: &&Flow| Some((f.t_ns, f.srtt_ns.filter(|v| *v > 0)? as f64 / 1e6));
    moved.iter().filter_map(told).collect()
}

/// Waits of the load's own packets, ms: smoothed RTT less base RTT less one packet's time.
fn in_flow(scene: &Scene, srtt: &[(i64, f64)], packet_ms: f64) -> Vec<(i64, f64)> {
    let Some(base) = scene.base_rtt_ms else {
        return Vec::new();
    };
    let wait = |(t, ms): &(i64, f64)| {
        let base = base + scene.baseline.rtt_shift_ms(*t);
        (*t, (ms - base - packet_ms).max(0.0))
    };
    srtt.iter().map(wait).collect()
}

fn median_within(series: &[(i64, f64)], range: &Range<i64>) -> Option<f64> {
    let within: Vec<f64> = (series.iter())
        .filter(|(t, _)| range.contains(t))
        .map(|s| s.1)
        .collect();
    stats::quantile_of_sorted(&stats::sorted(&within), 0.5)
}

/// Variation of the full link's rate, by the load's stretches and by floods that came out faster than earlier ones.
fn moves(load: &rate::Load, overload: Option<&Overload>) -> Option<f64> {
    let steps = overload.map(|o| o.rises).filter(|r| *r > RISES);
    rate::moves(load.carried, load.waits, load.packet_ms(), load.noise_ms)
        .into_iter()
        .chain(steps.map(|r| r.max(1.01 * rate::STEADY)))
        .reduce(f64::max)
}

/// Variation of the other direction's rate, from the phase that loads it alone: on a radio link both directions vary.
fn moves_opposite(scene: &Scene, direction: Direction, packet_bytes: f64) -> Option<f64> {
    let other = match direction {
        Direction::Up => Direction::Down,
        Direction::Down => Direction::Up,
    };
    let list = phases::phases(scene.rec, None);
    let phase = list.iter().find(|p| p.name == other.word())?;
    let carried = rate::carried(scene.rec, other, phase.steady())?;
    let waits = scene.waits(phase, phase.whole(), other);
    let noise = scene.noise(other);
    let overload = overload::read(scene, other, noise);
    let load = rate::Load {
        carried: &carried,
        mss: packet_bytes - rate::header_bytes(packet_bytes),
        waits: &waits,
        probe_bps: probe_rate(scene, phase, other),
        noise_ms: noise.most_ms,
        lag_ns: 0,
        lost_share: 0.0,
    };
    moves(&load, overload.as_ref())
}

/// Rate of the probes that crossed `direction` in the steady part of a phase, whole IP packets.
fn probe_rate(scene: &Scene, phase: &Phase, direction: Direction) -> f64 {
    let probes = phases::own_probes(scene.rec, phase.steady());
    let seconds = (phase.to_ns.saturating_sub(phase.warm_ns) as f64 / 1e9).max(1e-3);
    loss::crossed(&probes, direction) / seconds * scene.probe_ip_bytes * 8.0
}

/// Share of probes among the packets of the steady part, where each takes a place in a queue that counts packets.
fn small_share(
    scene: &Scene,
    phase: &Phase,
    direction: Direction,
    carried_bps: Option<f64>,
    packet_bytes: f64,
) -> f64 {
    let probes = probe_rate(scene, phase, direction) / (scene.probe_ip_bytes * 8.0).max(1.0);
    let full = carried_bps.unwrap_or(0.0) / (packet_bytes * 8.0).max(1.0);
    if full > 0.0 {
        probes / (probes + full)
    } else {
        0.0
    }
}

/// Share of the steady part's seconds in which flows delivered something, each flow by itself.
fn busy(moved: &[&Flow], rows: &[&Flow], steady: &Range<i64>) -> f64 {
    let seconds_of = |rows: &[&Flow]| {
        let steady = rows.iter().filter(|f| steady.contains(&f.t_ns));
        let seconds: BTreeSet<_> = steady.map(|f| (f.flow, f.t_ns / 1_000_000_000)).collect();
        seconds.len()
    };
    seconds_of(moved) as f64 / seconds_of(rows).max(1) as f64
}

fn unloaded(rec: &Recording, phase: &Phase, direction: Direction) -> (u64, u64) {
    let list = phases::phases(rec, None);
    let mut ranges: Vec<_> = list
        .iter()
        .filter(|p| !p.loads(direction))
        .map(Phase::steady)
        .collect();
    if ranges.is_empty() {
        ranges.push(i64::MIN..phase.from_ns);
    }
    let other = match direction {
        Direction::Up => Status::LostDown,
        Direction::Down => Status::LostUp,
    };
    let (mut sent, mut lost) = (0, 0);
    for d in ranges
        .into_iter()
        .flat_map(|range| phases::own_probes(rec, range))
    {
        sent += u64::from(d.status.was_sent());
        lost += u64::from(d.status.is_lost() && d.status != other);
    }
    (sent, lost)
}

/// Samples of flows that have delivered data since their previous sample. An idle flow still reports its last smoothed
/// round trip.
fn moving<'a>(rows: &[&'a Flow]) -> Vec<&'a Flow> {
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    let mut found = Vec::new();
    for f in rows {
        let bytes = f.delivered_bytes.or(f.bytes_acked).or(f.bytes_received);
        let before = bytes.and_then(|now| last.insert(f.flow, now));
        if bytes.is_none() || before != bytes {
            found.push(*f);
        }
    }
    found
}

fn sampling_interval(rows: &[&Flow]) -> i64 {
    let mut last: BTreeMap<i64, i64> = BTreeMap::new();
    let mut gaps: Vec<f64> = Vec::new();
    for f in rows.iter().filter(|f| f.retransmits.is_some()) {
        if let Some(before) = last.insert(f.flow, f.t_ns) {
            gaps.push(f.t_ns.saturating_sub(before) as f64);
        }
    }
    stats::quantile_of_sorted(&stats::sorted(&gaps), 0.5).map_or(0, |g| g.clamp(0.0, 2e9) as i64)
}

/// Times at which each flow met congestion. Retransmissions of one recovery follow each other within `apart` ns and
/// leave the threshold alone; one that lasts longer than four times that is another loss.
fn epochs(rows: &[&Flow], apart: i64) -> Vec<i64> {
    struct Last {
        retransmits: i64,
        threshold: Option<i64>,
        began: i64,
        latest: i64,
    }
    let mut flows: BTreeMap<i64, Last> = BTreeMap::new();
    let mut found = Vec::new();
    for f in rows {
        let Some(retransmits) = f.retransmits else {
            continue;
        };
        let Some(last) = flows.get_mut(&f.flow) else {
            flows.insert(
                f.flow,
                Last {
                    retransmits,
                    threshold: f.ssthresh_bytes,
                    began: i64::MIN,
                    latest: i64::MIN,
                },
            );
            continue;
        };
        let fell = matches!((last.threshold, f.ssthresh_bytes), (Some(before), Some(now)) if now < before - before / 10);
        if retransmits > last.retransmits || fell {
            let same = f.t_ns.saturating_sub(last.latest) <= apart
                && f.t_ns.saturating_sub(last.began) <= apart.saturating_mul(4)
                && last.threshold == f.ssthresh_bytes;
            if !same {
                found.push(f.t_ns);
                last.began = f.t_ns;
            }
            last.latest = f.t_ns;
        }
        (last.retransmits, last.threshold) = (retransmits, f.ssthresh_bytes);
    }
    found.sort_unstable();
    found
}

/// True if a base delay that may have moved by `doubt_ms` leaves nothing to say about a wait of this size.
pub(crate) fn drowns(doubt_ms: f64, wait_ms: f64) -> bool {
    doubt_ms > (0.25 * wait_ms).max(2.0)
}

/// True if the interval of a delay reaches beyond three times of it, and 10 ms more: too few probes met the worst.
pub(crate) fn is_vague(value_ms: f64, high_ms: f64) -> bool {
    high_ms > 3.0 * value_ms + 10.0
}

impl Bottleneck {
    /// Values of `series` within the steady part.
    pub fn steady(&self, series: &[(i64, f64)]) -> Vec<f64> {
        let range = self.phase.steady();
        series
            .iter()
            .filter(|(t, _)| range.contains(t))
            .map(|s| s.1)
            .collect()
    }

    /// Means of `waits` and `in_flow` in the same stretches of time, each long enough for the smoothed round
    /// trip to have caught up: (mean wait of probes, mean wait of the load's packets).
    pub fn side_by_side(&self) -> Vec<(f64, f64)> {
        let length = ((2.0 * self.loaded_rtt_ms).max(500.0) * 1e6) as i64;
        let count =
            (self.phase.to_ns.saturating_sub(self.phase.from_ns) / length.max(1)).clamp(0, 10_000);
        let mean = |series: &[(i64, f64)], from: i64| {
            let a = series.partition_point(|s| s.0 < from);
            let b = series.partition_point(|s| s.0 < from.saturating_add(length));
            stats::moments(
                series
                    .get(a..b)?
                    .iter()
                    .map(|s| s.1)
                    .collect::<Vec<_>>()
                    .as_slice(),
            )
            .map(|m| m.mean)
        };
        (0..count)
            .filter_map(|i| {
                let from = self.phase.from_ns.saturating_add(i * length);
                Some((mean(&self.waits, from)?, mean(&self.in_flow, from)?))
            })
            .collect()
    }

    /// Wait of packets at the begin of each congestion epoch: the highest within one and a half round trips before the
    /// sender noticed. With `apart`, the load stands in queues of its own and its own packets are used. Otherwise the
    /// probes are used, helped out by the load's packets where probes are sparse.
    pub fn levels(&self, apart: bool) -> Vec<f64> {
        self.levels_at(self.epochs.iter().flatten().copied(), apart)
    }

    /// Waits of packets at the given times, as in [`Bottleneck::levels`].
    pub fn levels_at(&self, times: impl Iterator<Item = i64>, apart: bool) -> Vec<f64> {
        let back = ((1.6e6 * self.loaded_rtt_ms) as i64).saturating_add(self.sample_ns);
        let seen = |series: &[(i64, f64)], t: i64| {
            let a = series.partition_point(|s| s.0 < t.saturating_sub(back));
            let b = series.partition_point(|s| s.0 <= t);
            let within = series.get(a..b).unwrap_or_default();
            (within.len(), within.iter().map(|s| s.1).reduce(f64::max))
        };
        // Delayed acknowledgements make the load's samples longer, never the probes': none is believed above these.
        let most = if self.waits.len() >= 30 {
            self.top(&self.waits).unwrap_or(f64::INFINITY)
        } else {
            f64::INFINITY
        };
        let trusted = |load: f64| (load - self.packet_ms).max(0.0).min(most);
        let level = |t: i64| {
            let (_, load) = seen(&self.in_flow, t);
            let (probes, probe) = seen(&self.waits, t);
            match (probe, load) {
                (_, load) if apart => load,
                (Some(p), _) if probes >= 8 => Some(p),
                (Some(p), Some(l)) => Some(p.max(trusted(l))),
                (p, l) => p.or(l.map(trusted)),
            }
        };
        times.filter_map(level).collect()
    }

    /// `Ok` if the load filled the link, so that delays beside it are those of a full link; else the reason why not.
    ///
    /// # Errors
    /// The limit other than the link, as a sentence.
    pub fn filled(&self, kind: Discipline) -> Result<(), String> {
        let needed = if kind == Discipline::Policer {
            POLICED
        } else {
            FILLED
        };
        let share = self
            .carried_bps
            .zip(self.link_rate.value())
            .map(|(c, r)| c / r.max(1.0));
        // A window ends the growth of a queue before the queue does.
        let met = self.epochs.as_ref().is_some_and(|e| e.len() >= 3);
        let bounded = self.held_back.is_some() && !met;
        // A plain queue drops nothing before it is full.
        let overflowed = kind == Discipline::DropTail && met;
        if overflowed || !bounded && (self.stood || share.is_some_and(|s| s >= needed)) {
            return Ok(());
        }
        Err(match (&self.held_back, share, &self.link_rate) {
            (Some(held), _, _) => held.says(),
            (None, Some(share), _) => format!(
                "the load used {:.0} % of the link: it did not fill it",
                100.0 * share
            ),
            (None, None, Figure::CannotTell { cannot_tell }) => cannot_tell.clone(),
            (None, None, Figure::Is { .. }) => "no load was carried in this direction".into(),
        })
    }

    /// Level that the queue held: the highest that three successive probes of the steady part exceed, less the wait of
    /// probes at rest. Single answers that were reordered or delayed on the path do not count.
    pub fn held(&self) -> Option<f64> {
        let waits = self.steady(&self.waits);
        let held = waits
            .windows(3)
            .map(|w| w[0].min(w[1]).min(w[2]))
            .reduce(f64::max)?;
        Some((held - self.noise.dense_ms() - self.packet_ms - self.base_doubt_ms).max(0.0))
    }

    /// True if what the base may have moved by leaves nothing to say about a wait of this size.
    pub fn drowns(&self, wait_ms: f64) -> bool {
        drowns(self.base_doubt_ms, wait_ms)
    }

    /// The highest level of `series` that is no single outlier.
    pub fn top(&self, series: &[(i64, f64)]) -> Option<f64> {
        stats::quantile_of_sorted(
            &stats::sorted(&series.iter().map(|s| s.1).collect::<Vec<_>>()),
            0.995,
        )
    }
}
