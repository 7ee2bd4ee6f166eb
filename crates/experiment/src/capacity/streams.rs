//! Streams that load the link themselves: above the available rate the delay grows, by as much as the stream is too
//! fast.
//!
//! **Source.** Jain, Dovrolis, "Pathload: A Measurement Tool for End-to-End Available Bandwidth", PAM 2002 (SLoPS).
//!
//! **Deviations.** Fewer, longer streams. Pathload asks only if delays grow; the speed of their growth tells the cross
//! traffic meanwhile, and is used too. The losses of a full queue count as if they had queued.

use super::super::trains::of_stage;
use base::program::Train;
use stats::Figure;

/// Growth of the queue as a share of the time: from this on it grows; below half of it, it does not.
const GROWS: f64 = 0.02;
/// Share of the capacity below which a stream cannot tell: a few packets of a thousand, which wait by chance or find a queue
/// that is just full.
const RESOLUTION: f64 = 0.005;
/// Number of datagrams before the first loss below which a stream tells nothing.
const FEWEST: usize = 40;
/// Width at which the search ends, as a share of the capacity.
const NARROW: f64 = 0.05;
/// Greatest number of streams of the search.
pub const MOST: usize = 8;

/// Facts about the link before streams are sent.
#[derive(Clone, Copy, Debug)]
pub struct Line {
    /// Capacity in whole IP packets, bit/s.
    pub capacity: f64,
    /// Bits of a packet.
    pub bits: f64,
    /// Share that it loses while hardly anything is sent: this is not the queue's.
    pub loss: f64,
}

/// Stream, in whole IP packets.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// Rate of sending, bit/s.
    pub rate: f64,
    /// Growth of the delay in a second, s.
    pub growth: f64,
    /// True if that is the queue's growth, by its size and by the noise of delays.
    pub grows: bool,
    /// Part of the growth that losses stand for.
    pub by_losses: f64,
    /// Longest wait above the shortest, packets.
    pub packets: f64,
}

impl Stream {
    /// Available rate, if the queue was never empty.
    pub fn free(&self, capacity: f64) -> f64 {
        self.rate - capacity * self.growth
    }
}

/// Stream from a train; none if too little of it arrived.
pub fn of(train: &Train, line: &Line) -> Option<Stream> {
    let Line { capacity, bits, .. } = *line;
    // Datagrams ahead of the stream only make a queue.
    let last = train.facts.program.steps().len() - 1;
    let stream: Vec<_> = train.datagrams().filter(|(d, _)| d.step == last).collect();
    let (first, end) = (stream.first()?.1.sent_ns?, stream.last()?.1.sent_ns?);
    let rate = (stream.len() - 1) as f64 * bits / ((end - first) as f64 * 1e-9);
    let delays: Vec<Option<(f64, f64)>> = stream
        .iter()
        .map(|(_, f)| {
            let (s, r) = (f.sent_ns?, f.received_ns?);
            Some(((s - first) as f64 * 1e-9, (r - s) as f64 * 1e-9))
        })
        .collect();
    let whole: Vec<(f64, f64)> = delays.iter().flatten().copied().collect();
    if whole.len() < FEWEST {
        // All that is known is that this is far too much.
        return Some(Stream {
            rate,
            growth: (rate / capacity).max(GROWS),
            grows: true,
            by_losses: 0.0,
            packets: 0.0,
        });
    }
    let lost = (delays.len() - whole.len()) as f64 / delays.len() as f64;
    let share = (lost - line.loss).max(0.0);
    let fifth = whole.len() / 5;
    let middle = |w: &[(f64, f64)]| {
        let of = |f: fn(&(f64, f64)) -> f64| stats::sorted(&w.iter().map(f).collect::<Vec<_>>());
        (
            stats::quantile_of_sorted(&of(|p| p.0), 0.5).unwrap_or(0.0),
            stats::quantile_of_sorted(&of(|p| p.1), 0.5).unwrap_or(0.0),
        )
    };
    let (early, late) = (
        middle(&whole[..fifth]),
        middle(&whole[whole.len() - fifth..]),
    );
    // What came too much waits, or was lost: of all that came the same share as of the stream.
    let queued = (late.1 - early.1) / (late.0 - early.0);
    let by_losses = share / (1.0 - share).max(0.1);
    let growth = queued + by_losses;
    let waited = stats::sorted(&whole.iter().map(|w| w.1).collect::<Vec<_>>());
    let packets = (waited[waited.len() - 1] - waited[0]) * capacity / bits;
    // Two packets more may wait by chance.
    let waits = queued > GROWS && late.1 - early.1 > 2.0 * bits / capacity;
    Some(Stream {
        rate,
        growth,
        grows: waits || share > GROWS,
        by_losses,
        packets,
    })
}

/// Bounds of the available rate so far: shares of the capacity.
pub fn between(trains: &[Train], line: &Line) -> (f64, f64, Option<f64>) {
    let capacity = line.capacity;
    let all: Vec<Stream> = of_stage(trains, "stream")
        .filter_map(|t| of(t, line))
        .collect();
    let low = all
        .iter()
        .filter(|s| !s.grows)
        .map(|s| s.rate)
        .fold(0.0, f64::max);
    let high = all
        .iter()
        .filter(|s| s.grows)
        .map(|s| s.rate)
        .fold(capacity, f64::min);
    let nearest = all
        .iter()
        .filter(|s| s.grows)
        .min_by(|a, b| a.rate.total_cmp(&b.rate))
        .map(|s| s.free(capacity).clamp(0.0, capacity));
    (low.min(high), high.max(low.min(capacity)), nearest)
}

/// Next rate of the search; none at its end.
pub fn next_rate(trains: &[Train], line: &Line) -> Option<f64> {
    let capacity = line.capacity;
    let tried = of_stage(trains, "stream").count();
    let (low, high, nearest) = between(trains, line);
    if tried >= MOST || high - low < NARROW * capacity {
        return None;
    }
    let middle = low.midpoint(high);
    // The nearest stream that was too fast says where the edge is: both sides of that come first.
    let guess = match (tried % 2, nearest) {
        (1, Some(n)) => n + NARROW * capacity * 0.6,
        (0, Some(n)) => n - NARROW * capacity * 0.4,
        _ => middle,
    };
    let room = 0.15 * (high - low);
    let next = if (low + room..high - room).contains(&guess) {
        guess
    } else {
        middle
    };
    Some(next.max(0.03 * capacity))
}

/// Estimate of the search, which measuring streams stay close to.
pub fn estimate(trains: &[Train], line: &Line) -> f64 {
    let (low, high, nearest) = between(trains, line);
    nearest.map_or(high, |n| n.clamp(low, high))
}

/// Packets that the queue holds, if it is so short that what streams send too much is lost rather than waits.
pub fn short_queue(trains: &[Train], line: &Line) -> Option<f64> {
    let all: Vec<Stream> = of_stage(trains, "measure")
        .filter_map(|t| of(t, line))
        .collect();
    let lossy = all.iter().filter(|s| s.by_losses > 0.5 * s.growth);
    let packets = all.iter().map(|s| s.packets).fold(1.0, f64::max);
    (2 * lossy.count() > all.len()).then_some(packets)
}

/// Available rate by the streams that were sent a little faster than that.
pub fn free(trains: &[Train], line: &Line) -> Figure {
    let capacity = line.capacity;
    let all: Vec<f64> = of_stage(trains, "measure")
        .filter_map(|t| of(t, line))
        .map(|s| s.free(capacity).clamp(0.0, capacity))
        .collect();
    if all.len() < 3 {
        return Figure::cannot_tell("fewer than three streams arrived");
    }
    match stats::mean_figure(&all) {
        Figure::Is { value, low, high } => Figure::Is {
            value: value.clamp(0.0, capacity),
            low: (low - RESOLUTION * capacity).clamp(0.0, capacity),
            high: (high + RESOLUTION * capacity).clamp(0.0, capacity),
        },
        unknown => unknown,
    }
}
