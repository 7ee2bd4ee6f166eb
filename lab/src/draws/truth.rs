//! Truth about a drawn link: from its description, and from the events inside the link during the test.

use crate::draws::family::Draw;
use base::Bytes;
use base::record::Direction;
use link::DirectionSpec;
use link::qdisc::Reason;
use link::qdisc::prio::{self, Rest};
use link::qdisc::{drr, tbf};
use link::rate::Rate;
use sim::bufferbloat::{Seen, Who};

/// Kinds of discipline that an answer tells apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    DropTail,
    Aqm,
    FairAqm,
    /// A policer: what exceeds it is dropped, and nothing waits.
    Policer,
}

/// One direction as the link saw it in the phase that loaded it alone.
#[derive(Clone, Debug, Default)]
pub struct Saw {
    /// 95 % point of the probes' time in the queue, and of all that they waited for beyond the link's base; ms.
    pub probe_p95_ms: Option<(f64, f64)>,
    /// 95 % point of the time that probes spent in the queue; ms.
    pub graded_ms: Option<f64>,
    /// Longest time in the queue.
    pub most_ms: f64,
    pub median_load_ms: f64,
    /// Bytes that came out in the phase.
    pub delivered_bytes: f64,
    /// Begin and end of the phase, and the end of its warm-up; s since the start.
    pub from_s: f64,
    pub warm_s: f64,
    pub to_s: f64,
    /// Packets dropped because the queue was full, and by a law before that.
    pub dropped_full: u64,
    pub dropped_by_law: u64,
    pub policed: u64,
}

#[derive(Clone, Debug)]
pub struct DirectionTruth {
    pub direction: Direction,
    /// Rate of whole IP packets in the phase, its lowest and its highest.
    pub rate: f64,
    pub rate_low: f64,
    pub rate_high: f64,
    pub class: Class,
    /// Capacity of the queue in full packets; none for a law that drops before.
    pub queue_bytes: Option<f64>,
    /// Capacity of the queue in packets of any size; of the line's own behind a policer, which hardly fills it.
    pub limit_bytes: f64,
    pub saw: Saw,
}

impl DirectionTruth {
    /// One full packet's time, ms.
    pub fn packet_ms(&self) -> f64 {
        1500.0 * 8e3 / self.rate
    }
    pub fn varies(&self) -> bool {
        self.rate_high > self.rate_low * 1.001
    }
    pub fn queue_ms(&self) -> Option<f64> {
        self.queue_bytes.map(|b| b * 8e3 / self.rate)
    }
    /// True if the load filled the link, or met the queue's end.
    pub fn filled(&self) -> bool {
        let span = (self.saw.to_s - self.saw.from_s).max(1e-3);
        let used = self.saw.delivered_bytes * 8.0 / span / self.rate;
        used >= 0.9 || self.saw.dropped_full + self.saw.dropped_by_law + self.saw.policed >= 3
    }
}

pub struct Truth {
    /// Smallest round trip of a probe, and the largest that its base may have been; ms.
    pub base_ms: (f64, f64),
    pub up: DirectionTruth,
    pub down: DirectionTruth,
    /// True if somebody else used the link, and as the measuring host's interface could see.
    pub cross: bool,
    pub cross_here: bool,
}

/// Observations of a test beside its answer. Arrays are by direction: up, down.
pub struct Observed {
    pub saws: [Saw; 2],
    /// Smallest passage of probes in the idle phase, both directions together; ms.
    pub idle_ms: Option<f64>,
    /// Size of a probe's IP packet.
    pub probe: Bytes,
}

pub fn truth(draw: &Draw, observed: Observed) -> Truth {
    let [up, down] = observed.saws;
    let up = direction(draw, Direction::Up, up);
    let down = direction(draw, Direction::Down, down);
    let propagation = draw.link.propagation_rtt().as_millis_f64();
    let pair = [(&draw.link.up, &up), (&draw.link.down, &down)];
    let sum = |f: &dyn Fn(&DirectionSpec, &DirectionTruth) -> f64| {
        pair.map(|(s, t)| f(s, t)).iter().sum::<f64>()
    };
    let probe = observed.probe;
    let least = propagation + sum(&|s, t| probe_ms(s, probe, t.rate_high));
    let most = propagation + sum(&|s, t| probe_ms(s, probe, t.rate_low) + drift_ms(s));
    Truth {
        base_ms: (least, most.max(observed.idle_ms.unwrap_or(least))),
        cross: !draw.cross.is_empty(),
        cross_here: draw.cross.iter().any(|c| c.here),
        up,
        down,
    }
}

/// Time that a probe takes at a rate of the line; buckets have tokens for it.
fn probe_ms(spec: &DirectionSpec, probe: Bytes, rate: f64) -> f64 {
    let Ok(params) = spec.params() else {
        return 0.0;
    };
    let rate = match params.rate {
        Rate::Fixed(r) => r.get() as f64,
        _ => rate,
    };
    params.framing.wire(probe).get() as f64 * 8e3 / rate
}

/// Most that the base delay drifts.
fn drift_ms(spec: &DirectionSpec) -> f64 {
    let reach = spec.drift.as_ref().map(link::DriftSpec::reach);
    reach.map_or(0.0, |d| d.as_millis_f64())
}

pub fn in_virtual_time(draw: &Draw, seen: &Seen) -> Observed {
    Observed {
        saws: [
            saw(&draw.link.up, Direction::Up, seen),
            saw(&draw.link.down, Direction::Down, seen),
        ],
        idle_ms: idle_minimum(seen),
        probe: sim::bufferbloat::probe_size(),
    }
}

fn idle_minimum(seen: &Seen) -> Option<f64> {
    let idle = seen.phase("idle")?;
    let least = |d| {
        seen.waits(d, Who::Probe, idle.from_ns..idle.to_ns)
            .map(|w| w.passage_ns)
            .min()
    };
    Some((least(Direction::Up)? + least(Direction::Down)?) as f64 / 1e6)
}

fn direction(draw: &Draw, direction: Direction, saw: Saw) -> DirectionTruth {
    let spec = match direction {
        Direction::Up => &draw.link.up,
        Direction::Down => &draw.link.down,
    };
    let (mean, low, high) = rates(spec, &saw);
    let (class, limit_bytes) = class(spec);
    let full = (limit_bytes / 1500.0).floor() * 1500.0;
    DirectionTruth {
        direction,
        rate: mean,
        rate_low: low,
        rate_high: high,
        class,
        queue_bytes: match class {
            Class::DropTail => Some(full),
            Class::Policer => Some(0.0),
            _ => None,
        },
        limit_bytes,
        saw,
    }
}

/// The values of a sorted list between which its quantile lies, by whatever definition.
pub fn quantile(sorted: &[f64], share: f64) -> Option<(f64, f64)> {
    let at = (sorted.len() as f64 - 1.0) * share;
    let value = |at: f64| sorted.get(at.max(0.0) as usize).copied();
    value(at.floor()).zip(value(at.ceil()))
}

fn saw(spec: &DirectionSpec, direction: Direction, seen: &Seen) -> Saw {
    let Some(phase) = seen.phase(direction.word()) else {
        return Saw::default();
    };
    let d = direction as usize;
    let steady = phase.warm_ns..phase.to_ns;
    let sorted = |mut v: Vec<f64>| {
        v.sort_by(f64::total_cmp);
        v
    };
    let ms = |ns: u64| ns as f64 / 1e6;
    let of = |who| seen.waits(direction, who, steady.clone());
    let base = spec.delay.as_millis_f64();
    let probes = sorted(of(Who::Probe).map(|w| ms(w.sojourn_ns)).collect());
    // Drift is not added by the load, so it is no part of what a test may call added.
    let beyond = |w: &sim::bufferbloat::Wait| match spec.drift {
        Some(_) => ms(w.sojourn_ns),
        None => ms(w.passage_ns) - base,
    };
    let beyond = sorted(of(Who::Probe).map(beyond).collect());
    let load = sorted(of(Who::Load).map(|w| ms(w.sojourn_ns)).collect());
    let last = |v: &[f64]| v.last().copied().unwrap_or(0.0);
    let dropped =
        |why: &[Reason]| -> u64 { why.iter().map(|w| phase.dropped[d][*w as usize]).sum() };
    Saw {
        graded_ms: quantile(&probes, 0.95).map(|q| q.0),
        probe_p95_ms: quantile(&probes, 0.95)
            .zip(quantile(&beyond, 0.95))
            .map(|(queue, all)| (queue.0, all.1)),
        most_ms: last(&load).max(last(&probes)),
        median_load_ms: quantile(&load, 0.5).map_or(0.0, |q| q.0),
        delivered_bytes: phase.delivered_bytes[d] as f64,
        from_s: phase.from_ns as f64 / 1e9,
        warm_s: phase.warm_ns as f64 / 1e9,
        to_s: phase.to_ns as f64 / 1e9,
        dropped_full: dropped(&[Reason::Overlimit, Reason::FlowEvicted]),
        dropped_by_law: dropped(&[Reason::TargetExceeded, Reason::EarlyDrop]),
        policed: dropped(&[Reason::Policed]),
    }
}

/// Mean in the phase, lowest and highest; in packets of 1500 bytes.
fn rates(spec: &DirectionSpec, saw: &Saw) -> (f64, f64, f64) {
    let Ok(params) = spec.params() else {
        return (0.0, 0.0, 0.0);
    };
    let full = base::Bytes::new(1500);
    let framed = 1500.0 / params.framing.wire(full).get() as f64;
    let rate = |words: &base::words::Words| words.read::<link::TokenBucket>().rate.get() as f64;
    let shaped = params
        .shaper
        .as_ref()
        .map_or(f64::INFINITY, |s| rate(s.words()));
    let policed = params
        .policer
        .as_ref()
        .map_or(f64::INFINITY, |p| rate(p.words()));
    let own = token_rate(spec).unwrap_or(f64::INFINITY);
    let cap = |r: f64| (r.min(shaped) * framed).min(policed).min(own);
    let span = |s: f64| base::Duration::from_secs_f64(s.max(0.0));
    let mean =
        |from: f64, to: f64| cap(params.rate.mean_between(span(from), span(to)).get() as f64);
    let whole = mean(saw.warm_s, saw.to_s);
    if matches!(params.rate, Rate::Fixed(_)) {
        return (whole, whole, whole);
    }
    let each = 0.5;
    let parts = ((saw.to_s - saw.from_s) / each).floor().max(1.0) as usize;
    let values = (0..parts).map(|i| {
        let from = saw.from_s + i as f64 * each;
        mean(from, from + each)
    });
    let (low, high) = values.fold((whole, whole), |(l, h), v| (l.min(v), h.max(v)));
    (whole, low, high)
}

fn token_rate(spec: &DirectionSpec) -> Option<f64> {
    (spec.queue.name() == "tbf").then(|| spec.queue.words().read::<tbf::Params>().rate.get() as f64)
}

/// The kind of a queue that unmarked packets of several flows meet, and how many bytes of full packets it holds.
pub fn class(spec: &DirectionSpec) -> (Class, f64) {
    let name = spec.queue.name();
    let limits = spec.queue.limits();
    let bytes = limits.bytes.map(|b| b.get() as f64);
    let packets = limits.packets.map(|p| p as f64 * 1500.0);
    let limit = match (bytes, packets) {
        (Some(b), Some(p)) => b.min(p),
        (b, p) => b.or(p).unwrap_or(f64::INFINITY),
    };
    // The classes of prio and drr are told apart by DSCP, which nobody here sets: all wait in the rest.
    let rest = |rest: Rest| match rest {
        Rest::Fifo => Class::DropTail,
        Rest::FqCodel => Class::FairAqm,
        _ => Class::Aqm,
    };
    match name {
        // A burst that the policer lets pass may wait for the faster line behind it.
        _ if spec.policer.is_some() => {
            let depth = spec
                .policer
                .as_ref()
                .map(|p| p.words().read::<link::TokenBucket>().burst.get());
            (Class::Policer, limit.min(depth.unwrap_or(0) as f64))
        }
        "fifo" | "tbf" => (Class::DropTail, limit),
        "fq_codel" | "fq_pie" | "cake" => (Class::FairAqm, limit),
        "prio" => {
            let p: prio::Params = spec.queue.words().read();
            (rest(p.rest), p.limit as f64 * 1500.0)
        }
        "drr" => {
            let p: drr::Params = spec.queue.words().read();
            (rest(p.rest), p.limit as f64 * 1500.0)
        }
        _ => (Class::Aqm, limit),
    }
}
