//! Waits in each direction from packets captured at both ends of a path, each on its own clock.
//!
//! **Method.** As in [`crate::clock`], but the packets of the two directions are not probes and their answers: they
//! are simply those that went up and those that went down. For a packet up, far time − near time is
//! offset + drift · t + base up + wait; for one down it is offset + drift · t − base down − wait. The highest pair
//! of lines under the one and (turned over) the other gives drift and both bases as far as they can be known. Where
//! a queue that never emptied leaves the drift open, the one is taken with which, in each fiftieth of the time, at
//! least one direction was once free of waits.
//!
//! **Source.** S. B. Moon, P. Skelly, D. Towsley, INFOCOM 1999; V. Paxson, "On calibrating measurements of packet
//! transit times", ACM SIGMETRICS 1998; RFC 7679 section 3.7.
//!
//! **Limits.** Two clocks do not tell how the base round trip divides between the two directions: the offset is known
//! to half of it, waits do not need it. A clock that was set in between shows as unevenness.

use crate::clock::{MOST_DRIFT, highest, last_above};
use stats::Figure;

/// Packet seen at both ends, with its time at each end on that end's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Time at the near end, ns.
    pub near_ns: i64,
    /// Time at the far end, ns.
    pub far_ns: i64,
    /// True if the packet went up.
    pub up: bool,
}

/// Relation of the two clocks.
#[derive(Clone, Debug, PartialEq)]
pub struct TwoClocks {
    origin_ns: i64,
    shift_ns: i64,
    span_ns: f64,
    slope: f64,
    slope_low: f64,
    slope_high: f64,
    /// Lowest lines at the origin; `None` if no packet went in that direction.
    up_ns: Option<f64>,
    down_ns: Option<f64>,
    /// Distance of the lines below the packets of the quietest stretch.
    misfit_ns: f64,
}

/// Stretches of each direction whose lowest packet is used.
const STRETCHES: usize = 4096;
/// Stretches in which the unevenness of the clocks is looked for.
const COARSE: usize = 50;
/// Usual scatter of packets that did not wait, on any host.
const JITTER_NS: f64 = 20e3;

struct Point {
    t: f64,
    v: f64,
}

/// Lowest point of each stretch of time.
fn lowest(points: impl Iterator<Item = Point>, span: f64, stretches: usize) -> Vec<Option<Point>> {
    let mut out: Vec<Option<Point>> = (0..stretches).map(|_| None).collect();
    for p in points {
        let at = ((p.t / span * stretches as f64) as usize).min(stretches - 1);
        if out[at].as_ref().is_none_or(|q| p.v < q.v) {
            out[at] = Some(p);
        }
    }
    out
}

/// # Errors
/// Reason why the clocks cannot be compared.
pub fn fit(seen: &[Seen]) -> Result<TwoClocks, String> {
    if seen.len() < 10 {
        return Err(format!(
            "{} packets were seen at both ends; 10 are needed",
            seen.len()
        ));
    }
    let origin_ns = seen.iter().map(|s| s.near_ns).min().unwrap_or(0);
    let last = seen.iter().map(|s| s.near_ns).max().unwrap_or(0);
    let span = ((last - origin_ns) as f64).max(1.0);
    let shift_ns = seen[0].far_ns - seen[0].near_ns;
    let points = |up: bool| {
        seen.iter().filter(move |s| s.up == up).map(move |s| {
            let d = (s.far_ns - s.near_ns - shift_ns) as f64;
            Point {
                t: (s.near_ns - origin_ns) as f64,
                v: if up { d } else { -d },
            }
        })
    };
    let thin = |up: bool| -> Vec<Point> {
        lowest(points(up), span, STRETCHES)
            .into_iter()
            .flatten()
            .collect()
    };
    let (up, down) = (thin(true), thin(false));
    // With one direction alone: the line that leaves the least area under the points (Moon's). With both the
    // slopes tilt against each other and the middle of time falls out.
    let middle = span / 2.0;
    let height = |s: f64| match (up.is_empty(), down.is_empty()) {
        (false, false) => line(&up, s) + line(&down, -s),
        (false, true) => line(&up, s) + s * middle,
        _ => line(&down, -s) - s * middle,
    };
    let steepest = highest(&height, -MOST_DRIFT, MOST_DRIFT);
    let top = height(steepest);
    // Lines that are first touched a round trip apart gain drift × round trip over the true ones.
    let slack = JITTER_NS + MOST_DRIFT * top.max(0.0);
    let edge = |outer| last_above(&height, steepest, outer, top - slack);
    let (slope_low, slope_high) = (edge(-MOST_DRIFT), edge(MOST_DRIFT));
    // A queue that never empties leaves many slopes equally high: the one is taken that leaves, in each stretch
    // of time, one direction or the other free of waits.
    let quieter = |s: f64| -> Vec<(f64, f64)> {
        let pairs = above(&up, s, span).into_iter().zip(above(&down, -s, span));
        pairs
            .filter(|(u, w)| u.is_finite() && w.is_finite())
            .collect()
    };
    let unrest = |s: f64| quieter(s).iter().map(|(u, w)| u.min(*w)).sum::<f64>();
    let slope = least(&unrest, slope_low, slope_high, steepest);
    // In a stretch in which both directions were once free of waits both lines are touched. A clock that was
    // set makes them touch in different stretches only.
    let both = quieter(slope).iter().map(|(u, w)| u + w).reduce(f64::min);
    Ok(TwoClocks {
        origin_ns,
        shift_ns,
        span_ns: span,
        slope,
        slope_low,
        slope_high,
        up_ns: (!up.is_empty()).then(|| line(&up, slope)),
        down_ns: (!down.is_empty()).then(|| line(&down, -slope)),
        misfit_ns: both.unwrap_or(0.0).max(0.0),
    })
}

/// Height of the line of slope `s` that touches the points from below.
fn line(points: &[Point], s: f64) -> f64 {
    let low = points.iter().map(|p| p.v - s * p.t);
    low.fold(f64::INFINITY, f64::min)
}

/// Least distance of the points of each stretch of time from that line; infinite where a stretch has none.
fn above(points: &[Point], s: f64, span: f64) -> [f64; COARSE] {
    let base = line(points, s);
    let mut out = [f64::INFINITY; COARSE];
    for p in points {
        let at = ((p.t / span * COARSE as f64) as usize).min(COARSE - 1);
        out[at] = out[at].min(p.v - s * p.t - base);
    }
    out
}

/// Position of the minimum of `f` between `low` and `high`, by two searches of the whole range; `start` unless another
/// is better.
fn least(f: &impl Fn(f64) -> f64, low: f64, high: f64, start: f64) -> f64 {
    const LOOKS: usize = 100;
    let mut best = (f(start), start);
    let (mut from, mut to) = (low, high);
    for _ in 0..3 {
        let step = (to - from) / LOOKS as f64;
        for i in 0..=LOOKS {
            let s = from + i as f64 * step;
            let value = f(s);
            if value < best.0 - 1.0 {
                best = (value, s);
            }
        }
        (from, to) = ((best.1 - step).max(low), (best.1 + step).min(high));
    }
    best.1
}

impl TwoClocks {
    /// Wait of the packet beyond the quickest of its direction, ns. Below zero only by rounding.
    pub fn wait_ns(&self, s: &Seen) -> f64 {
        let t = (s.near_ns - self.origin_ns) as f64;
        let d = (s.far_ns - s.near_ns - self.shift_ns) as f64 - self.slope * t;
        if s.up {
            d - self.up_ns.unwrap_or(0.0)
        } else {
            -d - self.down_ns.unwrap_or(0.0)
        }
    }

    /// Sum of the quickest delay up and the quickest delay down, ns: no round trip was shorter.
    pub fn base_round_trip_ns(&self) -> Option<f64> {
        Some((self.up_ns? + self.down_ns?).max(0.0))
    }

    /// Far clock minus near clock at the begin, ns: the middle, and the ends at which one direction would have taken no
    /// time at all.
    pub fn offset_ns(&self) -> Figure {
        let shift = self.shift_ns as f64;
        match (self.up_ns, self.down_ns) {
            (Some(up), Some(down)) => {
                // A capture compared with itself has no delay, and sums of floating-point numbers may be below zero.
                let (a, b) = (shift - down, shift + up);
                Figure::Is {
                    value: a.midpoint(b),
                    low: a.min(b),
                    high: a.max(b),
                }
            }
            (None, None) => Figure::cannot_tell("no packet was seen at both ends"),
            _ => Figure::cannot_tell("packets were seen in one direction only"),
        }
    }

    /// Drift of the far clock against the near one, parts in a million.
    pub fn drift_ppm(&self) -> Figure {
        Figure::Is {
            value: self.slope * 1e6,
            low: self.slope_low * 1e6,
            high: self.slope_high * 1e6,
        }
    }

    /// Uncertainty of a wait, ns.
    pub fn uncertainty_ns(&self) -> f64 {
        self.misfit_ns.max(JITTER_NS)
    }

    /// Error of the waits at one end of the captures if the drift were another that explains the packets as well, ns.
    /// It exceeds [`TwoClocks::uncertainty_ns`] if a direction was hardly ever free of waits.
    pub fn bend_ns(&self) -> f64 {
        (self.slope_high - self.slope).max(self.slope - self.slope_low) * self.span_ns
    }

    /// True if the clocks ran so unevenly that waits are bent.
    pub fn uneven(&self) -> bool {
        self.misfit_ns > 5e5 + 0.02 * self.base_round_trip_ns().unwrap_or(0.0)
    }

    /// A far time on the near clock, as if the quickest packets of both directions took equally long.
    pub fn near_of(&self, far_ns: i64) -> i64 {
        let half = (self.up_ns.unwrap_or(0.0) - self.down_ns.unwrap_or(0.0)) / 2.0;
        let t = (far_ns - self.shift_ns - self.origin_ns) as f64;
        far_ns - self.shift_ns - (half + self.slope * t) as i64
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};
    use proptest::prelude::*;

    const BASE_UP: f64 = 12e6;
    const BASE_DOWN: f64 = 7e6;

    /// Data up that queues behind itself, ACKs down that rarely wait; the far clock is off and drifts.
    fn seen(offset_ns: i64, ppm: f64, seconds: f64, set: impl Fn(f64) -> f64) -> Vec<(Seen, f64)> {
        let mut rng = Streams::new(4).stream("two ends");
        let far = |t: f64| t + t * ppm / 1e6 + offset_ns as f64 + set(t);
        let start = 1_700_000_000_000_000_000i64;
        let mut out = Vec::new();
        for i in 0..(seconds * 200.0) as usize {
            let t = i as f64 * 5e6;
            // A queue that fills and drains every 3 s.
            let queue = (t / 3e9).fract() * 80e6 * uniform(&mut rng);
            let up = Seen {
                near_ns: start + t as i64,
                far_ns: start + far(t + BASE_UP + queue) as i64,
                up: true,
            };
            out.push((up, queue));
            let wait = if uniform(&mut rng) < 0.7 {
                0.0
            } else {
                2e6 * uniform(&mut rng)
            };
            let down = Seen {
                near_ns: start + (t + 1e6 + BASE_DOWN + wait) as i64,
                far_ns: start + far(t + 1e6) as i64,
                up: false,
            };
            out.push((down, wait));
        }
        out
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(12))]
        #[test]
        fn offset_and_drift_are_found_within_what_is_stated(
            offset in -3_600_000_000_000i64..3_600_000_000_000, ppm in -150.0f64..150.0, seconds in 20.0f64..120.0,
        ) {
            let with_truth = seen(offset, ppm, seconds, |_| 0.0);
            let all: Vec<Seen> = with_truth.iter().map(|s| s.0).collect();
            let fit = fit(&all).unwrap();
            let Figure::Is { low, high, .. } = fit.offset_ns() else { panic!("no offset") };
            let slack = 1e3 + ppm.abs() * 20.0;
            prop_assert!(low <= offset as f64 + slack && offset as f64 - slack <= high, "{low} {offset} {high}");
            prop_assert!((high - low - BASE_UP - BASE_DOWN).abs() < 0.3e6, "{}", high - low);
            let Figure::Is { low, high, value } = fit.drift_ppm() else { panic!("no drift") };
            prop_assert!(low <= ppm && ppm <= high, "{low} {ppm} {high}");
            prop_assert!((value - ppm).abs() < 3.0, "{value} {ppm}");
            let stated = fit.uncertainty_ns();
            let worst = with_truth.iter().map(|(s, w)| (fit.wait_ns(s) - w).abs()).fold(0.0, f64::max);
            prop_assert!(worst < stated + 0.1e6, "{worst} {stated}");
            prop_assert!(!fit.uneven());
        }
    }

    /// A capture beside itself, or beside its copy with a constant offset: one clock, no delay.
    #[test]
    fn the_offset_of_a_capture_to_itself_lies_in_its_interval() {
        for seed in 0..500 {
            let mut rng = Streams::new(seed).stream("itself");
            let mut draw = |most: f64| (uniform(&mut rng) * most) as i64;
            let start = 1_700_000_000_000_000_000 + draw(1e15);
            let shift = [0, draw(3.6e12)][seed as usize % 2];
            let mut at = start;
            let both = (0..200 + draw(500.0)).map(|_| {
                at += 1 + draw(1e8);
                (at, draw(2.0) == 0)
            });
            let seen = both.map(|(near_ns, up)| Seen {
                near_ns,
                far_ns: near_ns + shift,
                up,
            });
            let offset = fit(&seen.collect::<Vec<_>>()).unwrap().offset_ns();
            let Figure::Is { value, low, high } = offset else {
                panic!("seed {seed}: {offset:?}")
            };
            assert!(low <= value && value <= high, "seed {seed}: {offset:?}");
            assert!(
                (value - shift as f64).abs() < 1e3,
                "seed {seed}: {offset:?}"
            );
        }
    }

    #[test]
    fn a_clock_that_was_set_in_between_is_told() {
        let all = seen(5, 0.0, 60.0, |t| if t > 30e9 { 25e6 } else { 0.0 });
        let all: Vec<Seen> = all.into_iter().map(|s| s.0).collect();
        let fit = fit(&all).unwrap();
        assert!(fit.uneven(), "{fit:?}");
    }

    #[test]
    fn a_queue_that_never_empties_is_not_taken_for_a_drift() {
        let mut rng = Streams::new(4).stream("standing");
        let all: Vec<Seen> = (0..20_000i64)
            .map(|i| {
                let t = i * 3_000_000;
                let wait = if t < 200_000_000 {
                    0.0
                } else {
                    6e7 + 2e7 * uniform(&mut rng)
                };
                match i % 2 {
                    0 => Seen {
                        near_ns: t,
                        far_ns: t + 10_000_000 + wait as i64,
                        up: true,
                    },
                    _ => Seen {
                        near_ns: t + 10_000_000,
                        far_ns: t,
                        up: false,
                    },
                }
            })
            .collect();
        let fit = fit(&all).unwrap();
        let Figure::Is { value, low, high } = fit.drift_ppm() else {
            panic!("no drift")
        };
        assert!(
            value.abs() < 0.5 && low <= 0.0 && high > 90.0,
            "{value} {low} {high}"
        );
        assert!(fit.bend_ns() > 5e6, "{}", fit.bend_ns());
        assert!(fit.wait_ns(&all[19_998]) > 59e6);
        assert!(fit.wait_ns(&all[19_999]) < 0.1e6);
    }

    #[test]
    fn one_direction_alone_has_waits_but_no_offset() {
        let with_truth = seen(-77_000_000, 40.0, 60.0, |_| 0.0);
        let up: Vec<(Seen, f64)> = with_truth.into_iter().filter(|s| s.0.up).collect();
        let fit = fit(&up.iter().map(|s| s.0).collect::<Vec<_>>()).unwrap();
        assert_eq!(fit.offset_ns().value(), None);
        assert_eq!(fit.base_round_trip_ns(), None);
        for (s, wait) in &up {
            assert!(
                (fit.wait_ns(s) - wait).abs() < 0.5e6,
                "{} {wait}",
                fit.wait_ns(s)
            );
        }
    }

    #[test]
    fn a_far_time_comes_back_to_the_near_clock() {
        let all: Vec<Seen> = seen(9_000_000_000, 100.0, 60.0, |_| 0.0)
            .into_iter()
            .map(|s| s.0)
            .collect();
        let fit = fit(&all).unwrap();
        // A packet without a wait: half the base round trip after it was sent.
        let s = all
            .iter()
            .filter(|s| s.up)
            .min_by_key(|s| fit.wait_ns(s) as i64)
            .unwrap();
        let half = (BASE_UP + BASE_DOWN) / 2.0;
        assert!(((fit.near_of(s.far_ns) - s.near_ns) as f64 - half).abs() < 0.1e6);
    }
}
