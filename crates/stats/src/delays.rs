//! Delays of packets: their distribution, and their variation from one packet to the next.

use crate::{Figure, Histogram, mean_figure, moments, quantile_figure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Distribution of delays: figures for people, a histogram for merging.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Delays {
    /// Number of delays.
    pub count: u64,
    /// Smallest delay, ms.
    pub min_ms: Figure,
    /// Mean, ms.
    pub mean_ms: Figure,
    /// Mean deviation from the mean, ms.
    pub mdev_ms: Figure,
    /// Median, ms.
    pub p50_ms: Figure,
    /// 95 % point, ms.
    pub p95_ms: Figure,
    /// 99 % point, ms.
    pub p99_ms: Figure,
    /// Largest delay, ms.
    pub max_ms: Figure,
    /// HdrHistogram in microseconds, V2 deflate-free encoding, base64: histograms can be added.
    pub histogram: String,
}

/// Sizes of the packet delay variation of a stream ([`ipdv`]). RFC 5481 (section 3.1) calls this form IPDV: it tells how
/// much the delay changes from one packet to the next.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Ipdv {
    /// Pairs of packets, sent one after the other, that were both answered.
    pub pairs: u64,
    /// Mean size (jitter), ms.
    pub mean_ms: Figure,
    /// 95 % point of the size, ms.
    pub p95_ms: Figure,
}

impl Default for Ipdv {
    fn default() -> Ipdv {
        Ipdv::unknown("no two packets in a row were answered")
    }
}

impl Ipdv {
    /// Unknown variation, with the reason.
    pub fn unknown(because: &str) -> Ipdv {
        Ipdv {
            pairs: 0,
            mean_ms: Figure::cannot_tell(because),
            p95_ms: Figure::cannot_tell(because),
        }
    }

    /// Sizes of the variation of delays in ms, which have their numbers and are in the order of sending.
    pub fn of(delays_ms: &[(i64, f64)]) -> Ipdv {
        let steps: Vec<f64> = ipdv(delays_ms).map(|(_, ms)| ms.abs()).collect();
        if steps.is_empty() {
            return Ipdv::default();
        }
        Ipdv {
            pairs: steps.len() as u64,
            mean_ms: mean_figure(&steps).map(|ms| ms.max(0.0)),
            p95_ms: quantile_figure(&steps, 0.95),
        }
    }
}

/// IP packet delay variation (RFC 3393, section 2.2): the delay of each packet less that of the packet sent just before
/// it, with the packet's number. `delays` are numbers and delays in the order of sending, in any unit. A lost packet
/// has no variation, nor has the one after it.
pub fn ipdv(delays: &[(i64, f64)]) -> impl Iterator<Item = (i64, f64)> + '_ {
    let successive = delays.windows(2).filter(|w| w[1].0 == w[0].0 + 1);
    successive.map(|w| (w[1].0, w[1].1 - w[0].1))
}

/// Jitter: the mean size of the packet delay variation ([`ipdv`]).
pub fn jitter(delays_ms: &[(i64, f64)]) -> Figure {
    Ipdv::of(delays_ms).mean_ms
}

/// Distribution of delays in milliseconds, given in the order of sampling. `none` is the reason to state if there are
/// none.
pub fn delays(ms: &[f64], none: &str) -> Delays {
    let ms: Vec<f64> = ms.iter().copied().filter(|v| v.is_finite()).collect();
    let mut histogram = Histogram::new();
    for v in &ms {
        histogram.record_ms(*v);
    }
    let missing = || Figure::cannot_tell(none);
    let Some(m) = moments(&ms) else {
        return Delays {
            count: 0,
            min_ms: missing(),
            mean_ms: missing(),
            mdev_ms: missing(),
            p50_ms: missing(),
            p95_ms: missing(),
            p99_ms: missing(),
            max_ms: missing(),
            histogram: histogram.to_base64(),
        };
    };
    let deviations: Vec<f64> = ms.iter().map(|v| (v - m.mean).abs()).collect();
    Delays {
        count: ms.len() as u64,
        min_ms: Figure::exactly(m.min),
        mean_ms: mean_figure(&ms),
        mdev_ms: mean_figure(&deviations),
        p50_ms: quantile_figure(&ms, 0.50),
        p95_ms: quantile_figure(&ms, 0.95),
        p99_ms: quantile_figure(&ms, 0.99),
        max_ms: Figure::exactly(m.max),
        histogram: histogram.to_base64(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jitter_is_the_mean_step_between_neighbours_and_knows_where_one_is_missing() {
        // Steps of 2 and 4; from packet 2 to packet 5 there is none.
        let delays = [(0, 10.0), (1, 12.0), (2, 8.0), (5, 100.0)];
        assert_eq!(jitter(&delays).value(), Some(3.0));
        assert_eq!(ipdv(&delays).collect::<Vec<_>>(), [(1, 2.0), (2, -4.0)]);
        // Another train begins with its own number 0.
        assert_eq!(jitter(&[(1, 5.0), (0, 9.0)]).value(), None);
    }

    #[test]
    fn no_samples_is_a_reason_and_not_a_zero() {
        let d = delays(&[], "no probe was answered");
        assert_eq!(d.count, 0);
        assert_eq!(d.p95_ms, Figure::cannot_tell("no probe was answered"));
    }

    #[test]
    fn one_sample_has_a_median_but_no_tail() {
        let d = delays(&[7.0], "none");
        assert_eq!(d.p50_ms.value(), Some(7.0));
        assert_eq!(d.p99_ms.value(), None);
    }
}
