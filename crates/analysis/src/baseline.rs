//! Base delay over the run: the delay of each direction without a queue, and its drift.
//!
//! **Method.** Up to eight parts of the idle phase and the tail of each drain between phases are quiet windows. The lowest delay
//! of each is a knot. Where the knots differ by more than the idle delay scatters, the base drifts: waits are taken above
//! the line between the knots, and the range of the knots is their uncertainty.
//!
//! **Source.** RFC 7679 section 3.7 (what a one-way delay is compared with); RFC 6817 section 4.2 (base delay by minima of
//! intervals).
//!
//! **Limits.** A drain that the test cut short, or that cross traffic kept busy, is no quiet window. Between two knots the
//! base is assumed to move evenly.

use crate::clock::ClockFit;
use crate::phases::{self, Phase};
use base::record::{Direction, Recording};
use std::ops::Range;

/// Lowest delays of one quiet window, ms above the run's base.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Knot {
    t_ns: i64,
    up_ms: f64,
    down_ms: f64,
    rtt_ms: f64,
}

/// Drift of the base delay; without knots there is none.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Baseline {
    knots: Vec<Knot>,
}

/// Delays of one probe above the run's base, ms: time, up, down, round trip.
type Sample = (i64, f64, f64, f64);

struct Window {
    samples: Vec<Sample>,
}

fn quantile(samples: &[Sample], of: impl Fn(&Sample) -> f64, p: f64) -> f64 {
    let values: Vec<f64> = samples.iter().map(of).collect();
    stats::quantile_of_sorted(&stats::sorted(&values), p).unwrap_or(0.0)
}

impl Window {
    fn spread(&self) -> f64 {
        quantile(&self.samples, |s| s.3, 0.9) - quantile(&self.samples, |s| s.3, 0.0)
    }

    fn knot(&self) -> Knot {
        let low = |of: fn(&Sample) -> f64| quantile(&self.samples, of, 0.0);
        Knot {
            t_ns: self.samples[self.samples.len() / 2].0,
            up_ms: low(|s| s.1),
            down_ms: low(|s| s.2),
            rtt_ms: low(|s| s.3),
        }
    }
}

/// Times of the drains: from each event to its end.
fn drains(rec: &Recording) -> Vec<Range<i64>> {
    let mut events: Vec<_> = rec
        .event
        .iter()
        .filter(|e| matches!(&*e.kind, "phase" | "phase_end"))
        .collect();
    events.sort_by_key(|e| e.t_ns);
    events
        .windows(2)
        .filter(|w| &*w[0].kind == "phase" && &*w[0].subject == "drain")
        .map(|w| w[0].t_ns..w[1].t_ns)
        .collect()
}

/// Answered probes of `range`: when sent, and delays up, down and of the round trip, ms.
fn samples(rec: &Recording, clock: Option<&ClockFit>, range: Range<i64>) -> Vec<Sample> {
    let sample = |d: &base::record::Delay| {
        let rtt = d.rtt_ms()?;
        let (up, down) = match clock {
            Some(fit) => fit.waits(d).map(|w| (w.up_ms, w.down_ms))?,
            None => (rtt, rtt),
        };
        Some((d.sent_ns, up, down, rtt))
    };
    phases::own_probes(rec, range)
        .into_iter()
        .filter_map(sample)
        .collect()
}

/// Finds the drift of the base delay of a test.
pub fn baseline(rec: &Recording, list: &[Phase], clock: Option<&ClockFit>) -> Baseline {
    let samples = |range| samples(rec, clock, range);
    let idle: Vec<Sample> = list
        .iter()
        .filter(|p| p.name == "idle")
        .flat_map(|p| samples(p.steady()))
        .collect();
    if idle.len() < 20 {
        return Baseline::default();
    }
    // So short that a base which moves does so from one part to the next, not within them.
    let parts = (idle.len() / 10).clamp(2, 8);
    let mut windows: Vec<Window> = (idle.chunks(idle.len().div_ceil(parts)))
        .map(|s| Window {
            samples: s.to_vec(),
        })
        .collect();
    let scatter = windows.iter().map(Window::spread).fold(0.0, f64::max);
    let base = windows
        .iter()
        .map(|w| w.knot().rtt_ms)
        .fold(f64::INFINITY, f64::min);
    let still = scatter.max(0.5).max(0.02 * base);
    for range in drains(rec) {
        let all = samples(range.clone());
        // The last 300 ms, or the last five answers: before them the load still drains.
        let late = all
            .iter()
            .filter(|s| s.0 >= range.end - 300_000_000)
            .count()
            .max(5);
        let tail = all
            .get(all.len().saturating_sub(late)..)
            .unwrap_or_default();
        let window = Window {
            samples: tail.to_vec(),
        };
        // A queue that still drains, or that others fill, falls by more than the idle delay scatters.
        if tail.len() >= 5 && window.spread() <= still.max(1.5 * scatter) {
            windows.push(window);
        }
    }
    let mut knots: Vec<Knot> = windows.iter().map(Window::knot).collect();
    knots.sort_by_key(|k| k.t_ns);
    let moved = |of: fn(&Knot) -> f64| {
        let values = knots.iter().map(of);
        values.clone().fold(f64::NEG_INFINITY, f64::max) - values.fold(f64::INFINITY, f64::min)
    };
    if moved(|k| k.rtt_ms) <= still && moved(|k| k.up_ms) <= still && moved(|k| k.down_ms) <= still
    {
        return Baseline::default();
    }
    for k in &mut knots {
        k.rtt_ms -= base;
    }
    if clock.is_none() {
        for k in &mut knots {
            (k.up_ms, k.down_ms) = (k.rtt_ms, k.rtt_ms);
        }
    }
    Baseline { knots }
}

impl Baseline {
    fn at(&self, t_ns: i64, of: impl Fn(&Knot) -> f64) -> f64 {
        let i = self.knots.partition_point(|k| k.t_ns <= t_ns);
        match (
            i.checked_sub(1).and_then(|j| self.knots.get(j)),
            self.knots.get(i),
        ) {
            (Some(a), Some(b)) => {
                let share = (t_ns - a.t_ns) as f64 / (b.t_ns - a.t_ns).max(1) as f64;
                of(a) + (of(b) - of(a)) * share
            }
            (Some(only), None) | (None, Some(only)) => of(only),
            (None, None) => 0.0,
        }
    }

    /// Base of `direction` at `t_ns` above the run's base, ms.
    pub fn shift_ms(&self, direction: Direction, t_ns: i64) -> f64 {
        self.at(t_ns, |k| match direction {
            Direction::Up => k.up_ms,
            Direction::Down => k.down_ms,
        })
    }

    /// Base round trip at `t_ns` above that of the idle phase, ms.
    pub fn rtt_shift_ms(&self, t_ns: i64) -> f64 {
        self.at(t_ns, |k| k.rtt_ms)
    }

    /// Uncertainty of the waits in `direction`, ms: the range over which its base moved in the run. Between two quiet
    /// windows the base may have been anywhere in it.
    pub fn doubt_ms(&self, direction: Direction) -> f64 {
        let values = self.knots.iter().map(|k| match direction {
            Direction::Up => k.up_ms,
            Direction::Down => k.down_ms,
        });
        let (least, most) = values.fold((f64::INFINITY, f64::NEG_INFINITY), |(a, b), v| {
            (a.min(v), b.max(v))
        });
        (most - least).max(0.0)
    }

    /// Lowest and highest base round trip of the run relative to the idle phase's, ms, where it drifts.
    pub fn drift_ms(&self) -> Option<(f64, f64)> {
        let values = self.knots.iter().map(|k| k.rtt_ms);
        let range = (
            values.clone().fold(f64::INFINITY, f64::min),
            values.fold(f64::NEG_INFINITY, f64::max),
        );
        (!self.knots.is_empty()).then_some(range)
    }
}
