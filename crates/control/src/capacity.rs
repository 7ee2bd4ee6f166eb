//! Capacity of the link behind the gateway, from the service curve: bytes handed over against the times at which they left
//! the modem.
//!
//! **Method.** A packet that left the gateway at t and waited q left the modem at t + q. While the queue never empties, the
//! modem sends without a break, so all bytes handed over between two such packets took the time between their exits:
//! A(t₂) − A(t₁) = C · ((t₂ + q₂) − (t₁ + q₁)). C is the slope of a regression over the last [`WINDOW`], longer on slow
//! links. The interval follows from the residuals. Where the queue ran empty meanwhile, the slope is what the link
//! carried: a lower bound of C.
//!
//! **Source.** Service curves: J.-Y. Le Boudec and P. Thiran, *Network Calculus*, Springer 2001, section 1.3; dispersion
//! with a standing queue as in RFC 9097, section 8.
//!
//! **Limits.** Bytes that the modem drops were handed over, so the slope is too high while its buffer overflows. Cross
//! traffic that does not pass the gateway makes it too low: it is then the share left for the gateway.

use base::{Duration, Time};
use std::collections::VecDeque;

/// Span of the regression.
pub const WINDOW: Duration = Duration::from_millis(300);
/// Waits below this do not show that the queue stood.
const STOOD: Duration = Duration::from_millis(3);
/// Bytes that may wait although the queue runs empty in between: packets that came together. The time that they take is
/// bounded, so that slow links have a capacity, too.
const FEW: f64 = 4500.0;
const FEW_MOST_S: f64 = 10e-3;
/// Samples needed for a slope.
const FEWEST: usize = 8;
/// Samples that are enough if they lie on a line, as those of probes do, and the width of the interval, as a share of
/// the estimate, up to which they do.
const FEWEST_EXACT: usize = 4;
const EXACT: f64 = 0.3;
/// Share of [`WINDOW`] that the samples have to span.
const SPAN: f64 = 0.15;
/// Share of the known capacity below which a slope has to be shown by the waits, and the standard deviation of waits that
/// shows it, as a multiple of that of the exits about their line.
const LOWER: f64 = 0.9;
const FOLLOWED: f64 = 2.0;
/// Share of the capacity that has to arrive between two packets for the growth of their waits to show a lower one.
const LOADED: f64 = 0.5;
/// Most points kept.
const MOST: usize = 2048;

/// Rate with its 95 % interval, bytes per second.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Capacity {
    /// Estimate.
    pub value: f64,
    /// Lower end of the interval.
    pub low: f64,
    /// Upper end of the interval.
    pub high: f64,
}

/// Weight of a new slope in the capacity.
const LEARN: f64 = 0.2;

impl Capacity {
    /// Capacity after a new slope, if `before` was in use until then.
    pub fn after(self, before: Option<Capacity>) -> Capacity {
        let value = match before {
            // A capacity outside the slope's interval has changed, or was a guess.
            Some(c) if (self.low..=self.high).contains(&c.value) => {
                c.value + LEARN * (self.value - c.value)
            }
            _ => self.value,
        };
        Capacity { value, ..self }
    }
}

/// Slope of the service curve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Slope {
    /// The queue stood all the time: the link's capacity.
    Full(Capacity),
    /// The queue ran empty at times: a lower bound of the capacity.
    AtLeast(Capacity),
}

/// Exits of the last packets.
#[derive(Clone, Debug, Default)]
pub struct ServiceCurve {
    /// Exit time in seconds, bytes handed over until that packet, and its wait in seconds.
    points: VecDeque<(f64, f64, f64)>,
    /// Exit time of the last packet that met no queue.
    empty: Option<f64>,
}

impl ServiceCurve {
    /// Records a packet that left the gateway at `departed` as the last of `total` bytes and waited `wait`.
    pub fn sample(&mut self, departed: Time, total: u64, wait: Duration) {
        let exit = (departed + wait).as_secs_f64();
        if wait < STOOD {
            self.empty = Some(exit);
        }
        self.points
            .push_back((exit, total as f64, wait.as_secs_f64()));
        let old = exit - self.window_s();
        while self.points.front().is_some_and(|p| p.0 < old) || self.points.len() > MOST {
            self.points.pop_front();
        }
    }

    /// Forgets all but the newest `kept` packets: the capacity changed before them.
    pub fn restart(&mut self, kept: usize) {
        self.points.drain(..self.points.len().saturating_sub(kept));
    }

    /// Rate between the exits of the newest two packets, whose errors are at most `noise`; `None` unless the second
    /// left the gateway while the first still waited, so that the queue stood, and waited longer: after a step of the
    /// route, both wait alike. Unless the bytes between them loaded the link, of the capacity `before`, the step itself may lie
    /// between them.
    pub fn newest_rate(&self, noise: Duration, before: f64) -> Option<Capacity> {
        let n = self.points.len();
        let (a, b) = (self.points.get(n.checked_sub(2)?)?, self.points.back()?);
        let (span, bytes) = (b.0 - a.0, b.1 - a.1);
        let noise = 2.0 * noise.as_secs_f64();
        let stood = b.0 - b.2 <= a.0 && span > noise && bytes > 0.0;
        let grew = b.2 - a.2 > noise;
        let loaded = bytes >= LOADED * before * (span + a.2 - b.2);
        (stood && grew && loaded).then(|| Capacity {
            value: bytes / span,
            low: bytes / (span + noise),
            high: bytes / (span - noise),
        })
    }

    /// Long enough for 10 samples on a slow link, at most 3 s.
    fn window_s(&self) -> f64 {
        let window = WINDOW.as_secs_f64();
        match (self.points.front(), self.points.back()) {
            (Some(a), Some(b)) if self.points.len() >= 2 => {
                let spacing = (b.0 - a.0) / (self.points.len() - 1) as f64;
                (10.0 * spacing).clamp(window, 3.0)
            }
            _ => window,
        }
    }

    /// Slope since the queue was last empty, if that is long enough; else that of the whole window. A slope below `known`
    /// is a lower capacity only if the waits follow the bytes, by more than the usual error of a wait, `noise`: a longer route
    /// delays each packet alike, and the slope is then that of the arrivals.
    pub fn slope(&self, known: Option<Capacity>, noise: Duration) -> Option<Slope> {
        let since = self
            .empty
            .map_or(0, |t| self.points.partition_point(|p| p.0 <= t));
        let stood = |c: &Capacity| {
            let few_s = (FEW / c.value).clamp(STOOD.as_secs_f64(), FEW_MOST_S);
            self.points.iter().skip(since).all(|p| p.2 >= few_s)
        };
        // The standard deviation of a normal law with this mean deviation.
        let noise_s = 1.25 * noise.as_secs_f64();
        let lower = |c: &Capacity| known.is_some_and(|k| c.value < LOWER * k.value);
        self.regress(since)
            .filter(|(c, error_s)| {
                stood(c) && (!lower(c) || self.follows(since, error_s.max(noise_s)))
            })
            .map(|(c, _)| Slope::Full(c))
            .or_else(|| self.regress(0).map(|(c, _)| Slope::AtLeast(c)))
    }

    /// True if the waits vary by more than the exits do about their line, of that standard deviation.
    fn follows(&self, since: usize, error_s: f64) -> bool {
        let waits = || self.points.iter().skip(since).map(|p| p.2);
        let count = waits().count() as f64;
        let mean = waits().sum::<f64>() / count;
        let variance = waits().map(|w| (w - mean).powi(2)).sum::<f64>() / count;
        variance > (FOLLOWED * error_s).powi(2)
    }

    /// Slope of the packets from that index on, and the standard deviation of the exits about it, seconds.
    fn regress(&self, since: usize) -> Option<(Capacity, f64)> {
        let kept = || self.points.iter().skip(since);
        let n = self.points.len() - since.min(self.points.len());
        let (first, last) = (self.points.get(since)?, self.points.back()?);
        if n < FEWEST_EXACT || last.0 - first.0 < SPAN * WINDOW.as_secs_f64() {
            return None;
        }
        let (x0, y0, _) = *first;
        let points = || kept().map(|p| (p.0 - x0, p.1 - y0));
        let count = n as f64;
        let (mx, my) = points().fold((0.0, 0.0), |m, p| (m.0 + p.0 / count, m.1 + p.1 / count));
        // Bytes are exact; the exits have the noise of ACKs. So exits are regressed on bytes.
        let (sxy, syy) = points().fold((0.0, 0.0), |s, p| {
            (s.0 + (p.0 - mx) * (p.1 - my), s.1 + (p.1 - my).powi(2))
        });
        let time_per_byte = sxy / syy;
        if !(time_per_byte.is_finite() && time_per_byte > 0.0) {
            return None;
        }
        let residuals: f64 = points()
            .map(|p| (p.0 - mx - time_per_byte * (p.1 - my)).powi(2))
            .sum();
        let deviation_s = (residuals / (count - 2.0)).sqrt();
        let error = deviation_s / syy.sqrt() * stats::student_t95(count - 2.0);
        let rate = |time: f64| 1.0 / time.max(1e-12);
        let capacity = Capacity {
            value: rate(time_per_byte),
            low: rate(time_per_byte + error),
            high: if time_per_byte > error {
                rate(time_per_byte - error)
            } else {
                f64::INFINITY
            },
        };
        let exact = capacity.high - capacity.low <= EXACT * capacity.value;
        (n >= FEWEST || exact).then_some((capacity, deviation_s))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fed(rate: f64, samples: u32, noise_ms: impl Fn(u32) -> f64) -> ServiceCurve {
        let mut curve = ServiceCurve::default();
        let mut total = 0;
        for i in 0..samples {
            total += 3000;
            // Packets leave the gateway every 2 ms; the modem sends them at `rate`.
            let departed = Time::from_millis(u64::from(2 * i));
            let exit = 0.020 + f64::from(i + 1) * 3000.0 / rate + noise_ms(i) / 1e3;
            let wait = exit - departed.as_secs_f64();
            curve.sample(departed, total, Duration::from_secs_f64(wait.max(0.0)));
        }
        curve
    }

    fn full(curve: &ServiceCurve) -> Capacity {
        match curve.slope(None, Duration::ZERO) {
            Some(Slope::Full(c)) => c,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_slope_is_the_capacity_whatever_the_arrivals_do() {
        let c = full(&fed(1.25e6, 100, |_| 0.0));
        assert!((c.value / 1.25e6 - 1.0).abs() < 1e-6, "{c:?}");
        assert!(c.low <= c.value && c.value <= c.high);
    }

    #[test]
    fn the_interval_holds_the_truth_in_95_of_100_draws_of_noise() {
        let streams = base::rng::Streams::new(7);
        let mut held = 0;
        for draw in 0..400 {
            let mut rng = streams.stream(&format!("noise/{draw}"));
            let noise: Vec<f64> = (0..100)
                .map(|_| 8.0 * base::rng::uniform(&mut rng))
                .collect();
            let c = full(&fed(1.25e6, 100, |i| noise[i as usize]));
            held += u32::from(c.low <= 1.25e6 && 1.25e6 <= c.high);
        }
        assert!((368..=392).contains(&held), "{held} of 400");
    }

    #[test]
    fn four_probes_on_a_line_are_enough_and_four_beside_it_are_not() {
        let probes = |noise_ms: [f64; 4]| {
            let mut curve = ServiceCurve::default();
            for (i, noise) in noise_ms.into_iter().enumerate() {
                // 1.25 MB/s; 30 kB arrive every 20 ms, so each probe waits 4 ms longer than the one before.
                let wait = Duration::from_secs_f64((5.0 + 4.0 * i as f64 + noise) / 1e3);
                curve.sample(Time::from_millis(20 * i as u64), 30_000 * i as u64, wait);
            }
            curve.slope(None, Duration::ZERO)
        };
        let Some(Slope::Full(c)) = probes([0.0, 0.3, -0.3, 0.0]) else {
            panic!("{:?}", probes([0.0, 0.3, -0.3, 0.0]));
        };
        assert!((c.value / 1.25e6 - 1.0).abs() < 0.02, "{c:?}");
        assert_eq!(probes([0.0, 9.0, -1.0, 6.0]), None);
    }

    #[test]
    fn two_packets_of_a_standing_queue_show_a_rate_and_two_that_met_none_do_not() {
        let mut curve = ServiceCurve::default();
        let ms = Duration::from_millis;
        // 1 MB/s: 30 kB leave the modem in 30 ms.
        curve.sample(Time::from_millis(0), 20_000, ms(30));
        assert_eq!(curve.newest_rate(ms(1), 2e6), None);
        curve.sample(Time::from_millis(20), 50_000, ms(40));
        let c = curve.newest_rate(ms(1), 2e6).expect("the queue stood");
        assert!((c.value - 1e6).abs() < 1.0, "{c:?}");
        assert!((c.low * 32e-3 - 30e3).abs() < 1.0 && (c.high * 28e-3 - 30e3).abs() < 1.0);
        curve.sample(Time::from_millis(40), 70_000, ms(40));
        assert_eq!(
            curve.newest_rate(ms(1), 2e6),
            None,
            "a longer route delays both alike"
        );
        curve.sample(Time::from_millis(60), 100_000, ms(50));
        assert_eq!(curve.newest_rate(ms(16), 2e6), None, "noise hides the span");
        // A route that became longer between two packets, and next to nothing sent meanwhile.
        curve.sample(Time::from_millis(62), 101_500, ms(55));
        assert_eq!(curve.newest_rate(ms(1), 2e6), None);
        // The first one has left when the next one comes.
        curve.sample(Time::from_millis(120), 160_000, ms(55));
        assert_eq!(curve.newest_rate(ms(1), 2e6), None);
    }

    #[test]
    fn an_empty_queue_bounds_the_capacity_from_below() {
        let mut curve = ServiceCurve::default();
        // 1500 bytes every 2 ms through a link of 10 Mbit/s: none waits.
        for i in 0..200u64 {
            curve.sample(Time::from_millis(2 * i), 1500 * (i + 1), Duration::ZERO);
        }
        let Some(Slope::AtLeast(c)) = curve.slope(None, Duration::ZERO) else {
            panic!("{:?}", curve.slope(None, Duration::ZERO));
        };
        assert!((c.value / 0.75e6 - 1.0).abs() < 1e-6, "{c:?}");
    }
}
