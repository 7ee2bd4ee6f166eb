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

/// Law of a source's packets.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pattern {
    /// Gap from one packet to the next, seconds.
    pub gap_s: Law,
    /// Size of the whole IP packet, bytes.
    pub size: Law,
    /// Lengths of the on and off spans, seconds; packets are sent in the first.
    pub on_off_s: Option<(Law, Law)>,
    /// True if the far end echoes each packet.
    pub echo: bool,
    /// ECN bits and DSCP of the packets; echoes have the same DSCP.
    pub ecn: Ecn,
    /// Differentiated services code point.
    pub dscp: u8,
}

/// Headers of a datagram without options, bytes: IPv4 (RFC 791 section 3.1) and UDP (RFC 768).
pub const HEADERS: u64 = 28;
/// Smallest packet: a datagram without payload.
pub const SMALLEST: Bytes = Bytes::new(HEADERS);

/// Smallest and largest packet that a law of sizes may give, bytes.
const SIZES: (f64, f64) = (HEADERS as f64, 65_535.0);

impl Pattern {
    /// Packets of constant size and gap.
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

/// A running source.
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
    /// Creates a source. `name` identifies its owner, such as `flow/3`, and names its random streams.
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
            // The first arrival of a Poisson process also follows a gap.
            source.step();
        }
        source
    }

    /// Size of its packets, if all have the same.
    pub fn constant_size(&self) -> Option<Bytes> {
        match self.pattern.size {
            Law::Constant(size) => Some(Bytes::new(size.round().clamp(SIZES.0, SIZES.1) as u64)),
            _ => None,
        }
    }
    /// True if the receiver answers.
    pub fn echoes(&self) -> bool {
        self.pattern.echo
    }
    /// ECN codepoint of its datagrams.
    pub fn ecn(&self) -> Ecn {
        self.pattern.ecn
    }
    /// Differentiated services code point of its datagrams.
    pub fn dscp(&self) -> u8 {
        self.pattern.dscp
    }
    /// Time of the next timer; none if no timer runs.
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
