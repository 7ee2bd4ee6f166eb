//! Sources of datagrams: constant rate, Poisson, bursts with heavy tails, speech, measurement.
//!
//! **Source**: W. Willinger, M. Taqqu, R. Sherman, D. Wilson, "Self-Similarity Through High-Variability",
//! IEEE/ACM Transactions on Networking 5(1), 1997: on/off sources with Pareto spans add up to
//! self-similar traffic; P. Brady, "A Model for Generating On-Off Speech Patterns in Two-Way
//! Conversation", Bell System Technical Journal 48, 1969: talk spurts and pauses.
//!
//! **Units**: ns; bytes of whole IP packets.

use base::rng::{Rng, Streams, uniform};
use base::{Bytes, Duration, Ecn, Time};

/// How long, how large: a law and its mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Law {
    Constant(f64),
    Exponential(f64),
    /// Mean and shape; a shape of 2 or less has no variance, one of 1 or less no mean.
    Pareto(f64, f64),
}

impl Law {
    pub fn draw(self, rng: &mut Rng) -> f64 {
        match self {
            Law::Constant(mean) => mean,
            Law::Exponential(mean) => -mean * (1.0 - uniform(rng)).ln(),
            // The least value is mean·(shape-1)/shape.
            Law::Pareto(mean, shape) => {
                mean * (shape - 1.0) / shape * (1.0 - uniform(rng)).powf(-1.0 / shape)
            }
        }
    }
    pub fn mean(self) -> f64 {
        match self {
            Law::Constant(mean) | Law::Exponential(mean) | Law::Pareto(mean, _) => mean,
        }
    }
}

/// What a source sends.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// From one packet to the next, in seconds.
    pub gap_s: Law,
    /// Of the whole IP packet, in bytes.
    pub size: Law,
    /// Sends during the first span and is silent during the second, in seconds.
    pub on_off_s: Option<(Law, Law)>,
    /// The far end sends each packet back.
    pub echo: bool,
    /// What the packets say of ECN, and what they ask for; answers ask for the same.
    pub ecn: Ecn,
    pub dscp: u8,
}

/// The least and the largest packet that a law of sizes may give.
const SIZES: (f64, f64) = (28.0, 65_535.0);

impl Pattern {
    /// The same packet at the same distance.
    pub fn constant(size: Bytes, gap: Duration) -> Pattern {
        Pattern {
            gap_s: Law::Constant(gap.as_secs_f64()),
            size: Law::Constant(size.get() as f64),
            on_off_s: None,
            echo: false,
            ecn: Ecn::NotEct,
            dscp: 0,
        }
    }

    /// G.711 speech, a packet of 200 bytes every 20 ms in talk spurts of 1.2 s with pauses of 1.8 s.
    pub fn voice() -> Pattern {
        Pattern {
            on_off_s: Some((Law::Exponential(1.2), Law::Exponential(1.8))),
            ..Pattern::constant(Bytes::new(200), Duration::from_millis(20))
        }
    }

    /// A phasor measurement unit: 50 frames a second (IEEE C37.118.2), 110 bytes of IP packet.
    pub fn pmu() -> Pattern {
        Pattern::constant(Bytes::new(110), Duration::from_millis(20))
    }

    /// The delay monitor's probe: a small packet that comes back.
    pub fn probe(gap: Duration) -> Pattern {
        Pattern {
            echo: true,
            ..Pattern::constant(Bytes::new(100), gap)
        }
    }
}

/// A source at work.
#[derive(Clone, Debug)]
pub struct Source {
    pattern: Pattern,
    gaps: Rng,
    sizes: Rng,
    spans: Rng,
    next: Time,
    stop: Time,
    /// End of the span in which it sends.
    on_until: Time,
}

impl Source {
    /// `name` is whose it is, such as `flow/3`: its random streams are named after it.
    pub fn new(pattern: Pattern, start: Time, stop: Time, streams: &Streams, name: &str) -> Source {
        let mut source = Source {
            pattern,
            gaps: streams.stream(&format!("{name}/gaps")),
            sizes: streams.stream(&format!("{name}/sizes")),
            spans: streams.stream(&format!("{name}/spans")),
            next: start,
            stop,
            on_until: Time::MAX,
        };
        if let Some((on, _)) = pattern.on_off_s {
            source.on_until = start + Duration::from_secs_f64(on.draw(&mut source.spans));
        }
        if matches!(pattern.gap_s, Law::Exponential(_)) {
            // The first arrival of a Poisson process comes after a gap, too.
            source.step();
        }
        source
    }

    pub fn echoes(&self) -> bool {
        self.pattern.echo
    }
    pub fn ecn(&self) -> Ecn {
        self.pattern.ecn
    }
    pub fn dscp(&self) -> u8 {
        self.pattern.dscp
    }
    pub fn next_wakeup(&self) -> Option<Time> {
        Some(self.next).filter(|t| *t < self.stop)
    }

    /// Size of the packet that is due now.
    pub fn poll(&mut self, now: Time) -> Option<Bytes> {
        if self.next > now || self.next >= self.stop {
            return None;
        }
        let size = self.pattern.size.draw(&mut self.sizes);
        self.step();
        Some(Bytes::new(size.round().clamp(SIZES.0, SIZES.1) as u64))
    }

    fn step(&mut self) {
        let gap = self.pattern.gap_s.draw(&mut self.gaps);
        self.next += Duration::from_secs_f64(gap);
        if let Some((on, off)) = self.pattern.on_off_s {
            while self.next >= self.on_until {
                let silent = Duration::from_secs_f64(off.draw(&mut self.spans));
                self.next = self.next.max(self.on_until + silent);
                let begins = self.on_until + silent;
                self.on_until = begins + Duration::from_secs_f64(on.draw(&mut self.spans));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn times(pattern: Pattern, until: Time) -> Vec<Time> {
        let streams = Streams::new(3);
        let mut source = Source::new(pattern, Time::ZERO, until, &streams, "flow/0");
        let mut times = Vec::new();
        while let Some(now) = source.next_wakeup() {
            assert!(source.poll(now).is_some());
            times.push(now);
        }
        times
    }

    #[test]
    fn fifty_frames_a_second_are_evenly_spaced() {
        let times = times(Pattern::pmu(), Time::from_secs(10));
        assert_eq!(times.len(), 500);
        assert!(
            times
                .windows(2)
                .all(|w| w[1] - w[0] == Duration::from_millis(20))
        );
    }

    #[test]
    fn poisson_gaps_have_mean_and_deviation_alike() {
        let pattern = Pattern {
            gap_s: Law::Exponential(0.001),
            ..Pattern::constant(Bytes::new(100), Duration::ZERO)
        };
        let times = times(pattern, Time::from_secs(100));
        let gaps: Vec<f64> = times
            .windows(2)
            .map(|w| (w[1] - w[0]).as_secs_f64())
            .collect();
        let n = gaps.len() as f64;
        let mean = gaps.iter().sum::<f64>() / n;
        let sd = (gaps.iter().map(|g| (g - mean).powi(2)).sum::<f64>() / n).sqrt();
        // 100 000 gaps: the standard error of the mean is 0.3 %, of the deviation 0.45 %.
        assert!((mean / 0.001 - 1.0).abs() < 0.015, "{mean}");
        assert!((sd / 0.001 - 1.0).abs() < 0.02, "{sd}");
    }

    #[test]
    fn speech_is_silent_three_fifths_of_the_time() {
        let n = times(Pattern::voice(), Time::from_secs(2000)).len() as f64;
        // 667 spurts of 1.2 s: the standard error of the share is about 3 %.
        assert!((n / (2000.0 * 50.0 * 0.4) - 1.0).abs() < 0.12, "{n}");
    }
}
