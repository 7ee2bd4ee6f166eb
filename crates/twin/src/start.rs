//! First estimate of a link, from a test's recording alone: rate, base delay, jitter, loss at rest.
//!
//! **Method.** The base round trip less the probe's own transmission times is divided evenly between the directions: a
//! recording with two clocks does not tell their shares, and no wait depends on them. Waits at rest become the law of
//! jitter that is nearest to them. Losses at rest become independent ones, or bursts if they come in runs.

use crate::observe::Facts;
use base::{BitsPerSec, Bytes, Duration};
use link::{DirectionSpec, LinkSpec, RateSpec};

/// Waits at rest below which a link has no jitter, ms: hosts make as much.
const STILL_MS: f64 = 0.25;
/// Fewest losses at rest that show a lossy link.
const FEWEST_LOSSES: usize = 3;
/// Mean length of a run of losses, relative to independent ones, from which losses come in bursts.
const BURSTY: f64 = 1.5;

/// Link with these rates, bit/s up and down, whose queues are still to be found.
pub fn link(facts: &Facts, rates: [f64; 2], packet_bytes: f64) -> LinkSpec {
    let base_ms = facts.base_rtt.value().unwrap_or(0.0);
    let own_ms: f64 = rates
        .iter()
        .map(|r| facts.probe_bytes() * 8e3 / r.max(1.0))
        .sum();
    let delay = milliseconds((base_ms - own_ms).max(0.0) / 2.0);
    let [up, down] = [base::record::Direction::Up, base::record::Direction::Down].map(|d| {
        let rate = rates[d as usize];
        let lost = facts.lost_at_rest(d);
        DirectionSpec {
            queue: "fifo".parse().expect("fifo is in the table"),
            delay,
            mtu: Bytes::new((packet_bytes as u64).clamp(1500, 65_535)),
            framing: None,
            policer: None,
            shaper: None,
            drift: None,
            delays: None,
            jitter: jitter(&facts.at_rest(d)).and_then(|text| text.parse().ok()),
            loss: loss(&lost).and_then(|text| text.parse().ok()),
            reorder: None,
            sleep: None,
            duplicate: 0.0,
            rate: fixed(rate),
        }
    });
    LinkSpec {
        name: "twin".into(),
        title: format!("Twin of: {}", facts.rec.meta.title),
        up,
        down,
    }
}

/// Fixed rate.
pub fn fixed(bps: f64) -> RateSpec {
    RateSpec::Fixed(BitsPerSec::new(bps.round().max(1.0) as u64))
}

/// Duration of so many milliseconds, to the microsecond.
pub fn milliseconds(ms: f64) -> Duration {
    Duration::from_nanos((ms.max(0.0) * 1e3).round() as u64 * 1000)
}

/// Law of jitter nearest to these waits at rest; none if they are the hosts' own.
fn jitter(waits: &[f64]) -> Option<String> {
    let sorted = stats::sorted(waits);
    let at = |p| stats::quantile_of_sorted(&sorted, p);
    let (median, high, most) = (at(0.5)?, at(0.95)?, at(0.99)?);
    if high < STILL_MS || waits.len() < 50 {
        return None;
    }
    // 1 - exp(-(x/scale)^k): the median and the 95 % point give both.
    let k = ((20f64.ln() / 2f64.ln()).ln() / (high / median.max(1e-3)).ln()).clamp(0.2, 50.0);
    let scale = high / 20f64.ln().powf(1.0 / k);
    let sd = (high - median) / 1.645;
    type Law<'a> = (String, Box<dyn Fn(f64) -> f64 + 'a>);
    let laws: [Law; 3] = [
        (
            format!("uniform:width={most:.3}ms"),
            Box::new(|p: f64| p * most),
        ),
        (
            format!("normal:mean={median:.3}ms,sd={sd:.3}ms"),
            Box::new(|p: f64| (median + sd * probit(p)).max(0.0)),
        ),
        (
            format!("weibull:shape={k:.3},scale={scale:.3}ms"),
            Box::new(|p: f64| scale * (-(1.0 - p).ln()).powf(1.0 / k)),
        ),
    ];
    let misfit = |law: &dyn Fn(f64) -> f64| -> f64 {
        (1..100)
            .map(|i| f64::from(i) / 100.0)
            .map(|p| (law(p) - at(p).unwrap_or(0.0)).abs())
            .sum()
    };
    let nearest = laws
        .iter()
        .min_by(|a, b| misfit(&*a.1).total_cmp(&misfit(&*b.1)));
    nearest.map(|law| law.0.clone())
}

/// Quantile of the normal distribution, by bisection of its distribution function.
fn probit(p: f64) -> f64 {
    let (mut low, mut high) = (-8.0, 8.0);
    for _ in 0..60 {
        let mid = (low + high) / 2.0;
        if stats::normal_cdf(mid) < p {
            low = mid
        } else {
            high = mid
        }
    }
    (low + high) / 2.0
}

/// Law of losses at rest; none if there were hardly any.
fn loss(lost: &[bool]) -> Option<String> {
    let count = lost.iter().filter(|l| **l).count();
    if count < FEWEST_LOSSES {
        return None;
    }
    let share = count as f64 / lost.len() as f64;
    let runs = lost.chunk_by(|a, b| a == b).filter(|run| run[0]).count();
    let mean_run = count as f64 / runs.max(1) as f64;
    if mean_run * (1.0 - share) < BURSTY || share > 0.5 {
        return Some(format!("random:probability={share:.6}"));
    }
    let r = 1.0 / mean_run;
    let p = share * r / (1.0 - share);
    Some(format!("gilbert_elliott:p={p:.8},r={r:.6}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    #[test]
    fn jitter_of_each_law_is_recognised_and_a_still_link_has_none() {
        let mut rng = Streams::new(3).stream("jitter");
        let mut draw = |f: &dyn Fn(f64) -> f64| -> Vec<f64> {
            (0..2000).map(|_| f(uniform(&mut rng))).collect()
        };
        assert_eq!(jitter(&draw(&|u| u * 0.1)), None);
        assert!(jitter(&draw(&|u| u * 8.0)).unwrap().starts_with("uniform"));
        let exponential = jitter(&draw(&|u| -(1.0 - u).ln() * 3.0)).unwrap();
        assert!(exponential.starts_with("weibull"), "{exponential}");
        let normal = draw(&|u| (10.0 + 2.0 * probit(u.clamp(1e-9, 1.0 - 1e-9))).max(0.0));
        assert!(jitter(&normal).unwrap().starts_with("normal"));
    }

    #[test]
    fn losses_at_rest_are_independent_or_in_bursts() {
        let mut single = vec![false; 1000];
        for i in (0..1000).step_by(100) {
            single[i] = true;
        }
        assert_eq!(loss(&single).unwrap(), "random:probability=0.010000");
        let mut burst = vec![false; 1000];
        for i in (0..1000).step_by(200) {
            burst[i..i + 5].fill(true);
        }
        assert!(loss(&burst).unwrap().starts_with("gilbert_elliott"));
        assert_eq!(loss(&[false, true, true]), None);
    }
}
