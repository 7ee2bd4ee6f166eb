//! Check that the hook, or the shaper, sees what the interface sends or receives: packets that a switch, an XDP program or
//! a raw socket forwards past it fill the link unseen, and cannot be signalled or held.

use super::ControlError;
use super::hook::Side;
use crate::traffic::Reader;
use std::io;

/// Share of the interface's bytes that the hook has to see.
const SEEN: f64 = 0.98;
/// Bytes a second below which nothing is said: other counters are read at another instant.
const FEW: u64 = 20_000;
/// Seconds in a row that are a bypass, and that end it.
const SECONDS: u32 = 2;

pub(super) struct Offload {
    reader: Reader,
    side: Side,
    judge: Judge,
}

impl Offload {
    pub fn open(interface: &str, side: Side) -> Result<Offload, ControlError> {
        let reader = Reader::open(interface).map_err(|source| ControlError::Local {
            what: "read the interface counters",
            source,
        })?;
        Ok(Offload {
            reader,
            side,
            judge: Judge::default(),
        })
    }

    /// Compares the counters; call it once a second. `seen` is what passed the hook so far, with Ethernet headers.
    pub fn check(&mut self, seen: u64) -> io::Result<bool> {
        let both = self.reader.read()?;
        let passed = both.map(|c| match self.side {
            Side::Egress => c.tx.bytes,
            Side::Ingress => c.rx.bytes,
        });
        Ok(passed.is_some_and(|passed| self.judge.check(passed, seen)))
    }
}

#[derive(Default)]
struct Judge {
    /// Bytes sent and seen a second ago.
    before: Option<(u64, u64)>,
    /// Seconds in a row that contradict the verdict.
    against: u32,
    bypassed: bool,
}

impl Judge {
    /// True while the interface sends more than the hook sees.
    fn check(&mut self, sent: u64, seen: u64) -> bool {
        let Some((sent_before, seen_before)) = self.before.replace((sent, seen)) else {
            return false;
        };
        let sent = sent.saturating_sub(sent_before);
        let seen = seen.saturating_sub(seen_before);
        let missing = sent.saturating_sub(seen) > FEW && (seen as f64) < SEEN * sent as f64;
        self.against = if missing == self.bypassed {
            0
        } else {
            self.against + 1
        };
        if self.against >= SECONDS {
            (self.bypassed, self.against) = (missing, 0);
        }
        self.bypassed
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_seconds_of_unseen_bytes_are_a_bypass_and_two_of_seen_ones_end_it() {
        let mut judge = Judge::default();
        let (mut sent, mut seen) = (5_000_000, 0);
        let mut second = |judge: &mut Judge, unseen: u64| {
            sent += 1_000_000 + unseen;
            // Headers of segments are in the hook's count alone.
            seen += 1_020_000;
            judge.check(sent, seen)
        };
        assert!(!second(&mut judge, 900_000));
        assert!(!second(&mut judge, 0));
        assert!(!second(&mut judge, 300_000));
        assert!(second(&mut judge, 300_000));
        assert!(second(&mut judge, 0));
        assert!(!second(&mut judge, 0));
        assert!(!second(&mut judge, 300_000));
        assert!(!second(&mut judge, 0));
        assert!(!second(&mut judge, 300_000));
    }
}
