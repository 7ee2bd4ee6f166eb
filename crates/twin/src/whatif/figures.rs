//! Figures of one run: delay, call quality, page, goodput.

use analysis::phases::{self, Phase};
use analysis::rate;
use base::record::{Direction, Recording};

/// Size of the fetched page.
pub const PAGE_BYTES: u64 = 250_000;

/// Delay that a packet voice call adds at its ends, ms: 20 ms of speech a packet, and coding (ITU-T G.114 annex).
const CODING_MS: f64 = 25.0;

/// Figures of one run of a cure.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Figures {
    /// 95 % point of the delay added to the round trip, ms.
    pub added_p95_ms: f64,
    /// 99 % point of it, ms.
    pub added_p99_ms: f64,
    /// Quality of a call, 0 to 100.
    pub call: f64,
    /// Time to fetch a page, s; none in a run without one.
    pub page_s: f64,
    /// Goodput of the uplink, bit/s.
    pub up_bps: f64,
    /// Goodput of the downlink, bit/s.
    pub down_bps: f64,
}

impl Figures {
    /// Reads the figures of a run; `base_ms` is the round trip at rest.
    pub fn of(rec: &Recording, phase: &Phase, base_ms: f64, page_s: f64) -> Figures {
        let probes = phases::own_probes(rec, phase.steady());
        let rtts: Vec<f64> = probes.iter().filter_map(|d| d.rtt_ms()).collect();
        let lost = probes.iter().filter(|d| d.status.is_lost()).count() as f64;
        let sorted = stats::sorted(&rtts);
        let at = |p| stats::quantile_of_sorted(&sorted, p).unwrap_or(f64::NAN) - base_ms;
        let goodput = |d| {
            rate::carried(rec, d, phase.steady())
                .and_then(|c| c.goodput().value())
                .unwrap_or(0.0)
        };
        Figures {
            added_p95_ms: at(0.95).max(0.0),
            added_p99_ms: at(0.99).max(0.0),
            call: quality(&sorted, lost, base_ms),
            page_s,
            up_bps: goodput(Direction::Up),
            down_bps: goodput(Direction::Down),
        }
    }

    /// Mean of several runs.
    pub fn mean(runs: &[&Figures]) -> Figures {
        let of = |f: &dyn Fn(&Figures) -> f64| {
            runs.iter().map(|r| f(r)).sum::<f64>() / runs.len().max(1) as f64
        };
        Figures {
            added_p95_ms: of(&|f| f.added_p95_ms),
            added_p99_ms: of(&|f| f.added_p99_ms),
            call: of(&|f| f.call),
            page_s: of(&|f| f.page_s),
            up_bps: of(&|f| f.up_bps),
            down_bps: of(&|f| f.down_bps),
        }
    }

    /// Goodput as a share of that of another run, the mean of the loaded directions.
    pub fn share_of(&self, other: &Figures) -> f64 {
        let pairs = [(self.up_bps, other.up_bps), (self.down_bps, other.down_bps)];
        let shares: Vec<f64> = pairs
            .iter()
            .filter(|p| p.1 > 0.0)
            .map(|p| p.0 / p.1)
            .collect();
        shares.iter().sum::<f64>() / shares.len().max(1) as f64
    }
}

/// Rating of a call by the E-model: the best choice of a fixed jitter buffer, which makes later packets losses.
fn quality(sorted_ms: &[f64], lost: f64, base_ms: f64) -> f64 {
    let sent = sorted_ms.len() as f64 + lost;
    if sorted_ms.is_empty() {
        return 0.0;
    }
    let rating = |share: f64| {
        let rtt = stats::quantile_of_sorted(sorted_ms, share).unwrap_or(base_ms);
        let late = (1.0 - share) * sorted_ms.len() as f64;
        rated(rtt / 2.0 + CODING_MS, 100.0 * (lost + late) / sent.max(1.0))
    };
    [0.9, 0.95, 0.98, 0.99, 0.995, 1.0]
        .into_iter()
        .map(rating)
        .fold(0.0, f64::max)
}

/// R of ITU-T G.107 at its defaults: 93.2 less the impairments of delay and of loss (G.113: Ie 0, Bpl 25.1).
fn rated(one_way_ms: f64, loss_percent: f64) -> f64 {
    let beyond = (one_way_ms - 177.3).max(0.0);
    let delay = 0.024 * one_way_ms + 0.11 * beyond;
    let loss = 95.0 * loss_percent / (loss_percent + 25.1);
    (93.2 - delay - loss).clamp(0.0, 100.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_e_model_agrees_with_a_calculation_by_hand() {
        // 100 ms: 2.4. 277.3 ms: 6.6552 + 11. 1 % loss: 95 / 26.1 = 3.6398.
        assert!((rated(100.0, 0.0) - 90.8).abs() < 1e-9);
        assert!((rated(277.3, 0.0) - (93.2 - 6.6552 - 11.0)).abs() < 1e-9);
        assert!((rated(100.0, 1.0) - (90.8 - 95.0 / 26.1)).abs() < 1e-9);
        assert_eq!(rated(2000.0, 50.0), 0.0);
    }

    #[test]
    fn a_jitter_buffer_gives_up_few_late_packets() {
        let mut rtts = vec![40.0; 990];
        rtts.extend([2000.0; 10]);
        let with = quality(&rtts, 0.0, 40.0);
        assert!(with > 85.0, "{with}");
        let steady = quality(&vec![40.0; 1000], 0.0, 40.0);
        assert!(steady > with);
        assert!(quality(&vec![2000.0; 1000], 0.0, 40.0) < 10.0);
        assert_eq!(quality(&[], 10.0, 40.0), 0.0);
    }
}
