//! Times at which the link was full, from its interface's counters.
//!
//! **Method.** Bytes are added up by the second, then over stretches of ten seconds, or shorter ones in a short
//! recording. If the link's rate is given, a stretch that carried at least nine tenths of it is full. Otherwise the
//! rate is the highest that was reached repeatedly over half a minute: packets counted in front of a queue come faster
//! than the link for as long as the queue takes them. The delay must then show that it was the link's rate and not only
//! the highest demand: without a longer median delay while it was reached, nothing is claimed.
//!
//! **Source.** Borlaug 2014, section 6.1.6: reliability over the whole period misleads.
//!
//! **Limits.** A link whose queue stays short under load looks like one that was never full.

use base::record::Direction;
use stats::Figure;
use std::collections::BTreeMap;

const SHARE: f64 = 0.9;

const S: i64 = 1_000_000_000;
/// Seconds in one chunk.
const CHUNK: i64 = 3600;

/// Bytes by second, down and up.
#[derive(Clone, Debug, Default)]
pub struct Carried {
    /// Chunks of an hour each, so that one wrong time among the rows costs an hour's memory and no more.
    chunks: BTreeMap<i64, Vec<[f64; 2]>>,
    /// Second of the last row and its bytes so far: the next row mostly falls into it too.
    now: i64,
    passed: [f64; 2],
}

/// Rates in bits a second over stretches of equal length.
#[derive(Clone, Debug)]
pub struct Rates {
    from_ns: i64,
    length_ns: i64,
    down: Vec<f64>,
    up: Vec<f64>,
}

/// Times at which one direction was full.
#[derive(Clone, Debug)]
pub struct Full {
    /// Direction of the traffic.
    pub direction: Direction,
    /// Rate that counts as the link's, bit/s.
    pub rate_bps: Figure,
    /// Source of the rate, in words.
    pub rate_from: String,
    /// True if the rate was found rather than given: delay has to confirm it.
    pub found: bool,
    /// Begin and end of each span.
    pub spans: Vec<(i64, i64)>,
}

impl Carried {
    /// Adds the bytes of the interval that ended at `t_ns`.
    pub fn add(&mut self, t_ns: i64, interval_ns: i64, rx: Option<i64>, tx: Option<i64>) {
        let interval_ns = interval_ns.clamp(0, 24 * 3600 * S);
        let begin = t_ns.saturating_sub(interval_ns);
        let bytes = [rx.unwrap_or(0) as f64, tx.unwrap_or(0) as f64];
        let first = begin.div_euclid(S);
        let last = (t_ns - 1).div_euclid(S).max(first);
        // An interval that reaches over several seconds gives each its part.
        for second in first..=last {
            let part = t_ns.min((second + 1) * S) - begin.max(second * S);
            let share = if interval_ns > 0 {
                part as f64 / interval_ns as f64
            } else {
                1.0
            };
            if second != self.now {
                self.keep();
                self.now = second;
            }
            self.passed[0] += bytes[0] * share;
            self.passed[1] += bytes[1] * share;
        }
    }

    fn keep(&mut self) {
        let passed = std::mem::take(&mut self.passed);
        if passed == [0.0; 2] {
            return;
        }
        let chunk = self
            .chunks
            .entry(self.now.div_euclid(CHUNK))
            // Memory that is zero already would be mapped twice: at its first reading and its first writing.
            .or_insert_with(|| (0..CHUNK).map(|_| [0.0; 2]).collect());
        let second = &mut chunk[self.now.rem_euclid(CHUNK) as usize];
        second[0] += passed[0];
        second[1] += passed[1];
    }

    /// Total bytes carried.
    pub fn bytes(&self) -> f64 {
        let kept: f64 = self.chunks.values().flatten().flatten().sum();
        kept + self.passed.iter().sum::<f64>()
    }

    /// Rates over stretches no shorter than `least_ns`.
    pub fn rates(mut self, from_ns: i64, to_ns: i64, least_ns: i64) -> Rates {
        self.keep();
        let length = least_ns.max((to_ns - from_ns).div_euclid(STRETCHES).min(LONGEST));
        let length = (length.max(1) + S - 1).div_euclid(S);
        let first = from_ns.div_euclid(S);
        let count = (to_ns - first * S).max(0).div_euclid(length * S) as usize + 1;
        let mut rates = Rates {
            from_ns: first * S,
            length_ns: length * S,
            down: vec![0.0; count],
            up: vec![0.0; count],
        };
        for (hour, chunk) in &self.chunks {
            for (i, [down, up]) in (0..).zip(chunk) {
                let stretch = (hour * CHUNK + i - first).div_euclid(length);
                if let Some(at) = usize::try_from(stretch).ok().filter(|at| *at < count) {
                    rates.down[at] += down * 8.0 / length as f64;
                    rates.up[at] += up * 8.0 / length as f64;
                }
            }
        }
        rates
    }
}

/// Number of stretches that a recording should have; none needs to be longer than that takes.
const STRETCHES: i64 = 240;
const LONGEST: i64 = 10 * S;
/// Time over which the link's rate is found.
const TO_FIND: i64 = 30 * S;

impl Rates {
    /// Times at which `direction` was full; `None` if it carried nothing.
    pub fn full(&self, direction: Direction, given_bps: Option<f64>) -> Option<Full> {
        let rates = match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        };
        let most = rates.iter().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let (rate, rate_from) = match given_bps {
            Some(bps) => (Ok(bps), "given".to_owned()),
            None => (
                reached(&self.longer(rates)),
                "the highest that was reached again and again".to_owned(),
            ),
        };
        let (rate_bps, spans) = match rate {
            Ok(bps) => (Figure::exactly(bps), self.spans(rates, SHARE * bps)),
            Err(why) => (Figure::cannot_tell(why), Vec::new()),
        };
        Some(Full {
            direction,
            rate_bps,
            rate_from,
            found: given_bps.is_none(),
            spans,
        })
    }

    /// Means over half a minute, or over a 240th of a short recording.
    fn longer(&self, rates: &[f64]) -> Vec<f64> {
        let span = self.length_ns.saturating_mul(rates.len() as i64);
        let wanted = TO_FIND.min(span / STRETCHES);
        let group = (wanted / self.length_ns).max(1) as usize;
        rates
            .chunks(group)
            .map(|g| g.iter().sum::<f64>() / g.len() as f64)
            .collect()
    }

    fn spans(&self, rates: &[f64], least: f64) -> Vec<(i64, i64)> {
        let mut spans: Vec<(i64, i64)> = Vec::new();
        for (i, _) in rates.iter().enumerate().filter(|(_, r)| **r >= least) {
            let from = self.from_ns + i as i64 * self.length_ns;
            let to = from + self.length_ns;
            match spans.last_mut() {
                Some(last) if last.1 == from => last.1 = to,
                _ => spans.push((from, to)),
            }
        }
        spans
    }
}

/// Rate of a plateau at the top.
fn reached(rates: &[f64]) -> Result<f64, String> {
    let mut sorted = rates.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let rank = (rates.len() / 50).clamp(2, 6);
    let rate = sorted.get(rank - 1).copied().unwrap_or(0.0);
    let near = sorted.iter().filter(|r| **r >= SHARE * rate).count();
    if rate <= 0.0 || near < 4 * rank {
        return Err(
            "the traffic never stayed at one highest rate: give the link's rate with --rate-up or --rate-down".into(),
        );
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minute(rate: impl Fn(i64) -> i64) -> Rates {
        let mut c = Carried::default();
        for i in 1..=600 {
            c.add(i * S / 10, S / 10, None, Some(rate((i - 1) / 10) / 80));
        }
        c.rates(0, 60 * S, S)
    }

    #[test]
    fn a_plateau_is_the_rate_and_single_bursts_are_not() {
        let c = minute(|s| match s {
            20..40 => 700_000,
            50 => 3_000_000,
            _ => 50_000,
        });
        let f = c.full(Direction::Up, None).unwrap();
        let rate = f.rate_bps.value().unwrap();
        assert!((rate - 700_000.0).abs() < 70_000.0, "{rate}");
        assert_eq!(f.spans[0].0 / S, 20);
        assert!(c.full(Direction::Down, None).is_none());
    }

    #[test]
    fn traffic_that_comes_and_goes_has_no_plateau() {
        let f = minute(|s| 1000 * s * s).full(Direction::Up, None).unwrap();
        assert_eq!(f.rate_bps.value(), None);
        assert!(f.spans.is_empty());
    }

    /// A queue of 60 kB takes bytes above 700 kbit/s for a while.
    #[test]
    fn what_a_queue_takes_above_the_rate_is_not_the_rate() {
        let mut c = Carried::default();
        for s in 1..=36_000 {
            let rate = match s % 3600 {
                0..3 => 860_000,
                3..300 => 700_000,
                _ => 20_000,
            };
            c.add(s * S, S, None, Some(rate / 8));
        }
        let f = c.rates(0, 36_000 * S, 2 * S).full(Direction::Up, None);
        let rate = f.unwrap().rate_bps.value().unwrap();
        assert!((rate - 700_000.0).abs() < 0.04 * 700_000.0, "{rate}");
    }

    #[test]
    fn an_interval_over_several_stretches_gives_each_its_part() {
        let mut c = Carried::default();
        c.add(3 * S, 2 * S, Some(200), None);
        assert_eq!(c.bytes(), 200.0);
        let rates = c.rates(0, 4 * S, S);
        assert_eq!(rates.down, [0.0, 800.0, 800.0, 0.0, 0.0]);
    }

    #[test]
    fn a_wrong_time_costs_no_more_than_its_place() {
        let mut c = Carried::default();
        c.add(-5 * S, S, Some(8), None);
        c.add(4_000_000_000 * S, S, Some(8), None);
        c.add(2 * S, S, Some(8), None);
        let rates = c.rates(0, 4 * S, S);
        assert_eq!(rates.down, [0.0, 64.0, 0.0, 0.0, 0.0]);
    }
}
