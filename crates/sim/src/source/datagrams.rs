//! Sources of datagrams: constant rate, Poisson, bursts with heavy tails, speech, measurement.
//!
//! **Source**: W. Willinger, M. Taqqu, R. Sherman, D. Wilson, "Self-Similarity Through High-Variability",
//! IEEE/ACM Transactions on Networking 5(1), 1997: on/off sources with Pareto spans add up to
//! self-similar traffic; P. Brady, "A Model for Generating On-Off Speech Patterns in Two-Way
//! Conversation", Bell System Technical Journal 48, 1969: talk spurts and pauses.
//!
//! **Units**: ns; bytes of whole IP packets.

use super::Law;
use base::rng::{Rng, Streams};
use base::{Bytes, Duration, Ecn, Time};

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
