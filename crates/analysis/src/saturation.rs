//! When the line was full, from what its interface carried.
//!
//! **Method.** Bytes are added up over stretches of a second or more. Where the line's rate is given, a stretch
//! that carried at least nine tenths of it is full. Where it is not, the rate is the highest that was reached again
//! and again; whether that was the line's or only the most that anybody wanted, delay must show: without a longer
//! median delay while it was reached, nothing is claimed.
//!
//! **Source.** Seed document 000, section 6.1.6: reliability over the whole period misleads.
//!
//! **Limits.** A line whose queue stays short under load looks like one that was never full.

use crate::answer::Figure;
use base::record::Direction;

const SHARE: f64 = 0.9;

/// Bytes by stretch and direction.
#[derive(Clone, Debug)]
pub struct Carried {
    from_ns: i64,
    length_ns: i64,
    down: Vec<f64>,
    up: Vec<f64>,
}

/// When one direction was full.
#[derive(Clone, Debug)]
pub struct Full {
    pub direction: Direction,
    pub rate_bps: Figure,
    pub rate_from: String,
    /// Whether the rate was found rather than given: delay has to confirm it.
    pub found: bool,
    /// Begin and end.
    pub spans: Vec<(i64, i64)>,
}

impl Carried {
    pub fn new(from_ns: i64, to_ns: i64, length_ns: i64) -> Carried {
        let length_ns = length_ns.max(1_000_000_000);
        let count = (to_ns - from_ns).max(0).div_euclid(length_ns) as usize + 1;
        Carried {
            from_ns,
            length_ns,
            down: vec![0.0; count],
            up: vec![0.0; count],
        }
    }

    /// What passed in the interval that ended at `t_ns`.
    pub fn add(&mut self, t_ns: i64, interval_ns: i64, rx: Option<i64>, tx: Option<i64>) {
        let begin = t_ns.saturating_sub(interval_ns.max(0));
        // An interval that reaches over several stretches gives each its part.
        let first = (begin - self.from_ns).div_euclid(self.length_ns);
        let last = (t_ns - 1 - self.from_ns)
            .div_euclid(self.length_ns)
            .max(first);
        for slot in first.max(0)..=last.min(self.down.len() as i64 - 1) {
            let from = self.from_ns + slot * self.length_ns;
            let part = t_ns.min(from + self.length_ns) - begin.max(from);
            let share = if interval_ns > 0 {
                part as f64 / interval_ns as f64
            } else {
                1.0
            };
            self.down[slot as usize] += rx.unwrap_or(0) as f64 * share;
            self.up[slot as usize] += tx.unwrap_or(0) as f64 * share;
        }
    }

    /// `None` where nothing was carried that way.
    pub fn full(&self, direction: Direction, given_bps: Option<f64>) -> Option<Full> {
        let bytes = match direction {
            Direction::Down => &self.down,
            Direction::Up => &self.up,
        };
        let rates: Vec<f64> = bytes
            .iter()
            .map(|b| b * 8e9 / self.length_ns as f64)
            .collect();
        let most = rates.iter().copied().fold(0.0, f64::max);
        if most <= 0.0 {
            return None;
        }
        let (rate, rate_from) = match given_bps {
            Some(bps) => (Ok(bps), "given".to_owned()),
            None => (
                reached(&rates),
                "the highest that was reached again and again".to_owned(),
            ),
        };
        let (rate_bps, spans) = match rate {
            Ok(bps) => (Figure::exactly(bps), self.spans(&rates, SHARE * bps)),
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

/// The rate of a plateau at the top.
fn reached(rates: &[f64]) -> Result<f64, String> {
    let mut sorted = rates.to_vec();
    sorted.sort_by(|a, b| b.total_cmp(a));
    let rank = (rates.len() / 50).clamp(2, 6);
    let rate = sorted.get(rank - 1).copied().unwrap_or(0.0);
    let near = sorted.iter().filter(|r| **r >= SHARE * rate).count();
    if rate <= 0.0 || near < 4 * rank {
        return Err(
            "the traffic never stayed at one highest rate: give the line's with --rate".into(),
        );
    }
    Ok(rate)
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn minute(rate: impl Fn(i64) -> i64) -> Carried {
        let mut c = Carried::new(0, 60 * S, S);
        for i in 1..=600 {
            c.add(i * S / 10, S / 10, None, Some(rate(i / 10) / 80));
        }
        c
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

    #[test]
    fn an_interval_over_several_stretches_gives_each_its_part() {
        let mut c = Carried::new(0, 4 * S, S);
        c.add(3 * S, 2 * S, Some(200), None);
        assert_eq!(c.down, [0.0, 100.0, 100.0, 0.0, 0.0]);
    }
}
