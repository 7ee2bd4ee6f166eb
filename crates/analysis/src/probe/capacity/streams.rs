//! Streams that load the line themselves: above what is free the delay grows, by as much as the stream is too fast.
//!
//! **Source.** Jain, Dovrolis, "Pathload: A Measurement Tool for End-to-End Available Bandwidth", PAM 2002 (SLoPS).
//!
//! **Deviations.** Fewer, longer streams. Pathload asks only whether delays grow; how fast they do tells what others sent
//! meanwhile, and is used too. A stream is read up to its first loss, so that short buffers do no harm.

use super::super::trains::of_stage;
use crate::answer::Figure;
use crate::stats;
use base::program::Train;

/// A queue that grows by this share of the time grows; by less than half of it, it does not.
const GROWS: f64 = 0.02;
/// Fewer datagrams before the first loss say nothing.
const FEWEST: usize = 40;
/// Between these two the search has nothing more to find: shares of the capacity.
const NARROW: f64 = 0.05;
pub const MOST: usize = 8;

/// One stream, in whole IP packets.
#[derive(Clone, Copy, Debug)]
pub struct Stream {
    /// At which it left, bit/s.
    pub rate: f64,
    /// By how much the delay grew in a second, s.
    pub growth: f64,
    /// Whether that is the queue's growth, by its size and by the noise of delays.
    pub grows: bool,
}

impl Stream {
    /// What is free, if the queue was never empty.
    pub fn free(&self, capacity: f64) -> f64 {
        self.rate - capacity * self.growth
    }
}

pub fn of(train: &Train, capacity: f64, bits: f64) -> Option<Stream> {
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
    let arrived = || delays.iter().flatten();
    let fold = |f: fn(f64, f64) -> f64| arrived().map(|d| d.1).reduce(f);
    let (least, most) = (fold(f64::min)?, fold(f64::max)?);
    // Where a datagram is lost while the delay is at its highest, the queue was full.
    let high = least + 0.7 * (most - least);
    let full = delays
        .windows(2)
        .position(|two| two[1].is_none() && two[0].is_some_and(|d| d.1 > high));
    let before = full.filter(|at| *at >= FEWEST).unwrap_or(delays.len());
    let whole: Vec<(f64, f64)> = delays[..before].iter().flatten().copied().collect();
    if whole.len() < FEWEST || arrived().count() * 5 < delays.len() * 4 && before == delays.len() {
        // It was cut short at once: all that is known is that this is far too much.
        return Some(Stream {
            rate,
            growth: (rate / capacity - 1.0).max(GROWS),
            grows: true,
        });
    }
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
    let growth = (late.1 - early.1) / (late.0 - early.0);
    // Two packets more may wait by chance.
    let grows = growth > GROWS && late.1 - early.1 > 2.0 * bits / capacity;
    Some(Stream {
        rate,
        growth,
        grows,
    })
}

/// Rates between which what is free lies, as far as the search has come: shares of the capacity.
pub fn between(trains: &[Train], capacity: f64, bits: f64) -> (f64, f64, Option<f64>) {
    let all: Vec<Stream> = of_stage(trains, "stream")
        .filter_map(|t| of(t, capacity, bits))
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

/// The next rate of the search; none where it is at its end.
pub fn next_rate(trains: &[Train], capacity: f64, bits: f64) -> Option<f64> {
    let tried = of_stage(trains, "stream").count();
    let (low, high, nearest) = between(trains, capacity, bits);
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

/// What the search makes of it, to measure near.
pub fn estimate(trains: &[Train], capacity: f64, bits: f64) -> f64 {
    let (low, high, nearest) = between(trains, capacity, bits);
    nearest.map_or(high, |n| n.clamp(low, high))
}

/// What is free, from the streams that were sent a little faster than that.
pub fn free(trains: &[Train], capacity: f64, bits: f64) -> Figure {
    let all: Vec<f64> = of_stage(trains, "measure")
        .filter_map(|t| of(t, capacity, bits))
        .map(|s| s.free(capacity).clamp(0.0, capacity))
        .collect();
    if all.len() < 3 {
        return Figure::cannot_tell("fewer than three streams arrived");
    }
    let clamp = |v: f64| v.clamp(0.0, capacity);
    stats::mean_figure(&all).map(clamp)
}
