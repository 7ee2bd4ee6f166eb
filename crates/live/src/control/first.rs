//! First estimate of the uplink's capacity: one short train to the server before control begins. Without it the first slow
//! start meets a queue of unknown speed, and fills it.
//!
//! **Method.** The packets leave at once and queue in the modem; the server's receive times show its rate: bytes after
//! the first packet over the time between first and last (packet-train dispersion, RFC 9097, section 8.1, with a burst).
//!
//! **Limits.** A shaper that lets a burst pass shows its peak rate. Cross traffic makes the estimate too low. Both are
//! corrected by the first load.

use crate::clock::Clock;
use crate::craft;
use crate::load::Peer;
use base::program::{Program, Sending, Step, Train};
use base::record::Direction;
use base::{BitsPerSec, Duration};

/// Datagrams of the train, and their payload.
const COUNT: u64 = 12;
const PAYLOAD: u32 = 1400;
/// Arrivals that show a rate.
const FEWEST: usize = 8;
/// Shortest dispersion that is more than the noise of receive times, ns.
const SHORTEST_NS: i64 = 300_000;

/// Capacity that a train shows, with `overhead` bytes for each packet beyond its IP size; `None` if the server sends no
/// receive times, or the link is too fast for a short train.
pub(super) fn capacity(peer: &Peer, overhead: i64, clock: Clock) -> Option<BitsPerSec> {
    let sending = Sending {
        stage: "capacity".into(),
        direction: Direction::Up,
        programs: vec![Program::of(Step::burst(COUNT, PAYLOAD))],
        rest: Duration::ZERO,
    };
    let trains = craft::train((peer, clock), &sending, 0, &mut |_| true).ok()?;
    rate(trains.first()?, overhead)
}

fn rate(train: &Train, overhead: i64) -> Option<BitsPerSec> {
    let headers = i64::from(train.facts.headers) + overhead;
    let mut arrived: Vec<(i64, i64)> = (train.datagrams())
        .filter_map(|(due, fate)| Some((fate.received_ns?, i64::from(due.payload) + headers)))
        .collect();
    arrived.sort_unstable();
    let (first, last) = (arrived.first()?.0, arrived.last()?.0);
    if arrived.len() < FEWEST || last - first < SHORTEST_NS {
        return None;
    }
    let bytes: i64 = arrived.iter().skip(1).map(|a| a.1).sum();
    let bps = bytes as f64 * 8e9 / (last - first) as f64;
    Some(BitsPerSec::new(bps as u64))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::program::{Facts, Fate};

    fn train(arrivals_ns: impl Fn(u64) -> Option<i64>) -> Train {
        let facts = Facts {
            stage: String::new(),
            direction: Direction::Up,
            program: Program::of(Step::burst(COUNT, PAYLOAD)),
            headers: 28,
            refused: 0,
            overflowed: 0,
            fragments_sent: None,
            fragments_received: None,
        };
        let mut train = Train::new(0, facts);
        for (i, fate) in train.fates.iter_mut().enumerate() {
            *fate = Fate {
                sent_ns: Some(0),
                received_ns: arrivals_ns(i as u64),
                ecn: None,
            };
        }
        train
    }

    #[test]
    fn the_dispersion_is_the_rate_and_too_few_or_too_fast_arrivals_are_none() {
        // 1428 + 8 bytes each 1.2 ms.
        let steady = train(|i| Some(1_000_000 + 1_200_000 * i as i64));
        let bps = rate(&steady, 8).expect("a rate").get();
        assert_eq!(bps, (1436.0 * 8e9 / 1.2e6) as u64);
        let few = train(|i| (i < 7).then_some(1_200_000 * i as i64));
        assert_eq!(rate(&few, 0), None);
        let fast = train(|i| Some(10_000 * i as i64));
        assert_eq!(rate(&fast, 0), None);
    }
}
