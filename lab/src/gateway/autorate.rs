//! Law of cake-autorate 3.5 as a rival: hunts the rate of a shaper by the RTT.
//!
//! **Source.** lynxthecat/cake-autorate, `cake-autorate.sh` and `defaults.sh`, as of August 2026, with its default
//! thresholds. **Deviations.** The delay of one direction is the whole RTT's rise, because only the upload is loaded;
//! there is one reflector; the shaper is the kernel's TBF, because this kernel has no CAKE.
//! **Units.** Rates in bit/s, delays in ms, times in s.

use std::collections::VecDeque;

/// Rise of the RTT that counts as bloat, and samples of the last six that have to exceed it.
const BLOAT_MS: f64 = 30.0;
const WINDOW: usize = 6;
const BLOATED: usize = 3;
/// Rise at which the rate is cut most, and at which it is raised most.
const CUT_MOST_MS: f64 = 60.0;
const RAISE_MOST_MS: f64 = 10.0;
/// Factors of a cut, of a raise, and of the decay towards the base rate.
const CUT: (f64, f64) = (0.99, 0.75);
const RAISE: (f64, f64) = (1.00, 1.04);
const DECAY: (f64, f64) = (0.99, 1.01);
/// Load above which a rate is raised, as a share of the shaper's.
const HIGH_LOAD: f64 = 0.75;
/// Refractory times after a cut and after a decay, and the interval of raises.
const AFTER_CUT_S: f64 = 0.3;
const AFTER_DECAY_S: f64 = 1.0;
const RAISES_S: f64 = 0.2;
/// Weights of a new RTT in the baseline, above it and below it.
const BASELINE: (f64, f64) = (0.001, 0.9);

/// State of the law.
pub struct Autorate {
    least: f64,
    base: f64,
    most: f64,
    rate: f64,
    baseline_ms: Option<f64>,
    rises_ms: VecDeque<f64>,
    cut_s: f64,
    decayed_s: f64,
    raised_s: f64,
    sampled_s: f64,
}

impl Autorate {
    pub fn new(least: f64, base: f64, most: f64) -> Autorate {
        Autorate {
            least,
            base,
            most,
            rate: base,
            baseline_ms: None,
            rises_ms: VecDeque::new(),
            cut_s: f64::NEG_INFINITY,
            decayed_s: f64::NEG_INFINITY,
            raised_s: f64::NEG_INFINITY,
            sampled_s: f64::NEG_INFINITY,
        }
    }

    pub fn rate(&self) -> f64 {
        self.rate
    }

    /// Takes an RTT while the shaper passes `carried` bit/s; returns the new rate if it changes. Samples that come
    /// faster than 20 a second are skipped.
    pub fn sample(&mut self, at_s: f64, rtt_ms: f64, carried: f64) -> Option<f64> {
        if at_s - self.sampled_s < 0.05 {
            return None;
        }
        self.sampled_s = at_s;
        let baseline = self.baseline_ms.get_or_insert(rtt_ms);
        let weight = if rtt_ms > *baseline {
            BASELINE.0
        } else {
            BASELINE.1
        };
        *baseline += weight * (rtt_ms - *baseline);
        self.rises_ms.push_back(rtt_ms - *baseline);
        if self.rises_ms.len() > WINDOW {
            self.rises_ms.pop_front();
        }
        let mean = self.rises_ms.iter().sum::<f64>() / self.rises_ms.len() as f64;
        let bloated = self.rises_ms.iter().filter(|r| **r > BLOAT_MS).count() >= BLOATED;
        let between =
            |(from, to): (f64, f64), share: f64| from + (to - from) * share.clamp(0.0, 1.0);
        let factor = if bloated {
            if at_s - self.cut_s < AFTER_CUT_S {
                return None;
            }
            self.cut_s = at_s;
            between(CUT, (mean - BLOAT_MS) / (CUT_MOST_MS - BLOAT_MS))
        } else if carried > HIGH_LOAD * self.rate {
            if at_s - self.raised_s < RAISES_S || at_s - self.cut_s < AFTER_CUT_S {
                return None;
            }
            self.raised_s = at_s;
            between(RAISE, (BLOAT_MS - mean) / (BLOAT_MS - RAISE_MOST_MS))
        } else {
            if at_s - self.decayed_s < AFTER_DECAY_S {
                return None;
            }
            self.decayed_s = at_s;
            match self.rate > self.base {
                true => (self.base / self.rate).max(DECAY.0),
                false => (self.base / self.rate).min(DECAY.1),
            }
        };
        let rate = (self.rate * factor).clamp(self.least, self.most);
        let changed = (rate / self.rate - 1.0).abs() > 1e-4;
        self.rate = rate;
        changed.then_some(rate)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bloat_cuts_the_rate_and_load_without_bloat_raises_it() {
        let mut law = Autorate::new(2e6, 8e6, 20e6);
        for i in 0..20 {
            law.sample(0.05 * f64::from(i), 20.0, 7.9e6);
        }
        let raised = law.rate();
        assert!(raised > 8e6, "{raised}");
        for i in 20..60 {
            law.sample(0.05 * f64::from(i), 120.0, 7.9e6);
        }
        assert!(law.rate() < 0.4 * raised, "{}", law.rate());
        assert!(law.rate() >= 2e6);
    }
}
