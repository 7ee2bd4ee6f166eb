//! Waits in each direction from clocks that are not synchronised.
//!
//! **Method.** A probe gives u = far receive − near send = offset + drift · t + base up + wait up, and w = rtt − u =
//! base down − offset − drift · t + wait down. No wait is negative, so every u lies above a line a + s·t and every w
//! above b − s·t. Of all such pairs of lines the highest is taken: the slope s at which a(s) + b(s) is largest, where
//! a(s) and b(s) are the lowest points of u − s·t and of w + s·t. Both directions bear on one slope, and each phase
//! that leaves one direction idle keeps its line in place. The wait of a probe is its height above the line. If both
//! ends share one clock (event `clock`, subject `same`), the slope is zero and nothing is fitted.
//!
//! **Source.** S. B. Moon, P. Skelly, D. Towsley, "Estimation and removal of clock skew from network
//! delay measurements", INFOCOM 1999 (lowest line by linear programming), here with both directions at
//! once; RFC 7679 section 3.7 (errors of one-way delay).
//!
//! **Limits.** The two clocks must drift evenly over the run: a + b then comes near the smallest round
//! trip, and the distance between the two is the error that `trust` states. A direction that is never
//! once empty shows its standing wait as base. The offset itself is known only to half the base round
//! trip; waits do not need it.

use crate::answer::ClockAnswer;
use crate::phases;
use base::record::{Delay, Recording};
use stats::Figure;

/// Highest drift that is believed: no working quartz or virtual machine is off by more.
pub(crate) const MOST_DRIFT: f64 = 1e-3;

/// Relation of the far clock to the near one.
#[derive(Clone, Debug)]
pub struct ClockFit {
    same: bool,
    origin_ns: i64,
    /// Far clock minus near clock at the first probe, removed before anything becomes a float.
    shift_ns: i128,
    /// Slope, ns per ns.
    slope: f64,
    slope_low: f64,
    slope_high: f64,
    /// Lowest line of each direction at the origin, ns.
    up_ns: f64,
    down_ns: f64,
    base_rtt_ns: f64,
    /// Tolerance, ns: a wait this far below zero still counts as zero; further below it is invalid.
    tolerance_ns: f64,
}

/// The waits of one probe in each direction, ms.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Waits {
    /// Wait on the uplink, ms.
    pub up_ms: f64,
    /// Wait on the downlink, ms.
    pub down_ms: f64,
}

struct Point {
    t: f64,
    u: f64,
    w: f64,
}

/// # Errors
/// The reason why one-way delays cannot be had.
pub fn fit(rec: &Recording) -> Result<ClockFit, String> {
    let probes = phases::own_probes(rec, i64::MIN..i64::MAX);
    let usable: Vec<(&Delay, i64, i64)> = probes
        .into_iter()
        .filter(|d| d.rtt_ms().is_some())
        .filter_map(|d| Some((d, d.rtt_ns?, d.remote_rx_ns?)))
        .collect();
    let Some((first, _, first_remote)) = usable.first().copied() else {
        let target = phases::own_target(rec);
        if !phases::is_own(target) {
            return Err(format!(
                "answers to {target} do not tell when a probe arrived; those of `tailback serve` do"
            ));
        }
        return Err("no answer told when the far end received the probe".into());
    };
    if usable.len() < 10 {
        return Err(format!(
            "{} answers with far times; 10 are needed to find the base of each direction",
            usable.len()
        ));
    }
    let origin_ns = usable
        .iter()
        .map(|(d, _, _)| d.sent_ns)
        .min()
        .unwrap_or(first.sent_ns);
    let shift_ns = i128::from(first_remote) - i128::from(first.sent_ns);
    let point = |(d, rtt, remote): &(&Delay, i64, i64)| {
        let u = (i128::from(*remote) - i128::from(d.sent_ns) - shift_ns) as f64;
        Point {
            t: (i128::from(d.sent_ns) - i128::from(origin_ns)) as f64,
            u,
            w: *rtt as f64 - u,
        }
    };
    let points: Vec<Point> = usable.iter().map(point).collect();
    Ok(through(rec, &points, origin_ns, shift_ns))
}

/// The lines below `points` that lie highest, and the range of slopes that leave them nearly as high.
fn through(rec: &Recording, points: &[Point], origin_ns: i64, shift_ns: i128) -> ClockFit {
    let same = rec
        .event
        .iter()
        .any(|e| &*e.kind == "clock" && &*e.subject == "same");
    // A few values a thousand may be faulty without moving the lines.
    let rank = points.len() / 1000;
    let lowest = |s: f64| {
        let kth = |mut v: Vec<f64>| *v.select_nth_unstable_by(rank, f64::total_cmp).1;
        (
            kth(points.iter().map(|p| p.u - s * p.t).collect()),
            kth(points.iter().map(|p| p.w + s * p.t).collect()),
        )
    };
    let height = |s: f64| {
        let (a, b) = lowest(s);
        a + b
    };
    let slope = if same {
        0.0
    } else {
        highest(&height, -MOST_DRIFT, MOST_DRIFT)
    };
    let (up_ns, down_ns) = lowest(slope);
    let rtts = stats::sorted(&points.iter().map(|p| p.u + p.w).collect::<Vec<_>>());
    let base_rtt_ns = rtts[rank.min(rtts.len() - 1)];
    let noise = (stats::quantile_of_sorted(&rtts, 0.05).unwrap_or(base_rtt_ns) - base_rtt_ns)
        .clamp(2e3, 2e6);
    let misfit = (base_rtt_ns - (up_ns + down_ns)).max(0.0);
    let top = height(slope);
    let edge = |outer: f64| {
        if same {
            0.0
        } else {
            last_above(&height, slope, outer, top - noise)
        }
    };
    ClockFit {
        same,
        origin_ns,
        shift_ns,
        slope,
        slope_low: edge(-MOST_DRIFT),
        slope_high: edge(MOST_DRIFT),
        up_ns,
        down_ns,
        base_rtt_ns,
        tolerance_ns: noise.max(misfit).max(20e3),
    }
}

/// Position of the maximum of a function with one peak, by golden sections, to a hundredth of a ppm.
pub(crate) fn highest(f: &impl Fn(f64) -> f64, mut a: f64, mut b: f64) -> f64 {
    let ratio = (5f64.sqrt() - 1.0) / 2.0;
    let (mut x, mut y) = (b - ratio * (b - a), a + ratio * (b - a));
    let (mut fx, mut fy) = (f(x), f(y));
    while b - a > 1e-11 {
        if fx >= fy {
            (b, y, fy) = (y, x, fx);
            x = b - ratio * (b - a);
            fx = f(x);
        } else {
            (a, x, fx) = (x, y, fy);
            y = a + ratio * (b - a);
            fy = f(y);
        }
    }
    (a + b) / 2.0
}

/// The farthest point from `inner` towards `outer` where `f` is still at least `level`.
pub(crate) fn last_above(f: &impl Fn(f64) -> f64, inner: f64, outer: f64, level: f64) -> f64 {
    let (mut inside, mut outside) = (inner, outer);
    if f(outer) >= level {
        return outer;
    }
    for _ in 0..40 {
        let mid = (inside + outside) / 2.0;
        if f(mid) >= level {
            inside = mid
        } else {
            outside = mid
        }
    }
    inside
}

impl ClockFit {
    /// Waits of a probe in each direction. `None` if its times are missing or contradict the rest (a wait below zero by
    /// more than the uncertainty).
    pub fn waits(&self, d: &Delay) -> Option<Waits> {
        let (rtt, remote) = (d.rtt_ns?, d.remote_rx_ns?);
        d.rtt_ms()?;
        let t = (i128::from(d.sent_ns) - i128::from(self.origin_ns)) as f64;
        let u = (i128::from(remote) - i128::from(d.sent_ns) - self.shift_ns) as f64;
        let up = u - self.up_ns - self.slope * t;
        let down = (rtt as f64 - u) - self.down_ns + self.slope * t;
        let sound = |wait: f64| wait.is_finite() && wait >= -self.tolerance_ns;
        (sound(up) && sound(down)).then(|| Waits {
            up_ms: up.max(0.0) / 1e6,
            down_ms: down.max(0.0) / 1e6,
        })
    }

    /// Half-width of the uncertainty of a wait, ms.
    pub fn uncertainty_ms(&self) -> f64 {
        self.tolerance_ns / 1e6
    }

    /// Statement on the clocks for the answer.
    pub fn answer(&self) -> ClockAnswer {
        if self.same {
            return ClockAnswer {
                offset_ms: Figure::exactly(0.0),
                drift_ppm: Figure::exactly(0.0),
                trust: "both ends read one clock: one-way delays are as good as round trips".into(),
            };
        }
        // The far clock minus the near one lies between u − base rtt and u: the way up takes between nothing and all of it.
        let at_most = (self.shift_ns as f64 + self.up_ns) / 1e6;
        let base = self.base_rtt_ns / 1e6;
        let misfit = (self.base_rtt_ns - self.up_ns - self.down_ns).max(0.0) / 1e6;
        let steady = if misfit > 0.5 + 0.02 * base {
            format!("; the clocks did not run evenly, waits may be off by {misfit:.1} ms")
        } else {
            String::new()
        };
        ClockAnswer {
            offset_ms: Figure::Is {
                value: at_most - base / 2.0,
                low: at_most - base,
                high: at_most,
            },
            drift_ppm: Figure::Is {
                value: self.slope * 1e6,
                low: self.slope_low * 1e6,
                high: self.slope_high * 1e6,
            },
            trust: format!(
                "two clocks: the offset is known to half the base round trip ({:.2} ms), waits to {:.2} ms, because each direction's smallest delay is taken as its base{steady}",
                base / 2.0,
                self.uncertainty_ms()
            ),
        }
    }
}

/// Statement on the clocks where nothing could be fitted.
pub fn unknown(why: &str) -> ClockAnswer {
    ClockAnswer {
        offset_ms: Figure::cannot_tell(why),
        drift_ppm: Figure::cannot_tell(why),
        trust: format!("one-way delays are unknown: {why}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::{Event, Status};

    /// 100 s of probes, ten a second, over a base of 10 ms up and 9 ms down; every other one waits 5 ms up.
    /// `far` turns our time into the far clock's.
    fn recording(far: impl Fn(i64) -> i64) -> Recording {
        let delay = (0..1000i64).map(|i| {
            let sent_ns = 1_700_000_000_000_000_000 + i * 100_000_000;
            let wait = if i % 2 == 0 { 5_000_000 } else { 0 };
            Delay {
                rtt_ns: Some(19_000_000 + wait),
                remote_rx_ns: Some(far(sent_ns + 10_000_000 + wait)),
                status: Status::Ok,
                ..Delay::unanswered(sent_ns, i, "udp".into())
            }
        });
        Recording {
            delay: delay.collect(),
            ..Recording::default()
        }
    }

    #[test]
    fn waits_come_out_whatever_the_far_clock_shows() {
        // Seven minutes slow and 80 ppm fast.
        let start = 1_700_000_000_000_000_000;
        let rec = recording(|t| t - 420_000_000_000 + (t - start) / 12_500);
        let fit = fit(&rec).unwrap();
        for d in &rec.delay {
            let w = fit.waits(d).unwrap();
            let truth = if d.seq % 2 == 0 { 5.0 } else { 0.0 };
            assert!(
                (w.up_ms - truth).abs() < 0.02 && w.down_ms < 0.02,
                "{}: {w:?}",
                d.seq
            );
        }
        let Figure::Is { value, low, high } = fit.answer().drift_ppm else {
            panic!("no drift")
        };
        assert!(
            (value - 80.0).abs() < 0.1 && low <= 80.0 && 80.0 <= high,
            "{value} {low} {high}"
        );
        assert!(!fit.answer().trust.contains("did not run evenly"));
    }

    #[test]
    fn a_wait_below_zero_is_no_wait_at_all() {
        let rec = recording(|t| t);
        let fit = fit(&rec).unwrap();
        let early = Delay {
            remote_rx_ns: rec.delay[1].remote_rx_ns.map(|t| t - 3_000_000),
            ..rec.delay[1].clone()
        };
        assert_eq!(fit.waits(&early), None);
    }

    #[test]
    fn clocks_that_run_unevenly_are_told() {
        // The far clock is slewed back by 20 ms in the second half.
        let middle = 1_700_000_050_000_000_000;
        let rec = recording(|t| t - (t - middle).max(0) / 2500);
        let said = fit(&rec).unwrap().answer().trust;
        assert!(said.contains("did not run evenly"), "{said}");
    }

    #[test]
    fn one_clock_for_both_ends_needs_no_fit() {
        let mut rec = recording(|t| t);
        rec.event.push(Event {
            t_ns: 0,
            kind: "clock".into(),
            subject: "same".into(),
            detail: "".into(),
        });
        let answer = fit(&rec).unwrap().answer();
        assert_eq!(answer.drift_ppm, Figure::exactly(0.0));
        assert!(answer.trust.contains("one clock"));
    }

    #[test]
    fn without_far_times_the_reason_is_given() {
        assert!(
            fit(&Recording::default())
                .unwrap_err()
                .contains("no answer told")
        );
    }
}
