//! Discipline and size of the queue that a recording of any origin shows: a test, a monitor, an import, a capture.
//!
//! **Method.** With phases, or with samples of transfers, the bottleneck is judged as in a test. With probes alone, the
//! longest time in which the delay stood up counts as loaded. The wait that the probes held then bounds the buffer from
//! below, or is its size if the losses show a ceiling. The rate is that of the busiest interface in the same time, if
//! its counters were recorded.
//!
//! **Source.** As `discipline` and `queue`.
//!
//! **Limits.** Probes alone do not tell the direction. An interface's counters include link-layer headers.

use crate::answer::{Discipline, DisciplineGuess, QueueIs};
use crate::discipline;
use crate::queue;
use base::record::{Direction, Recording};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Queue of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct WhichQueue {
    /// Direction of the queue; null where probes alone were recorded.
    pub direction: Option<Direction>,
    /// Kind of the queue, with the evidence.
    pub discipline: DisciplineGuess,
    /// Base round trip, ms.
    pub base_rtt_ms: Figure,
    /// Rate of the bottleneck while the queue stood, whole IP packets.
    pub link_rate_bps: Figure,
    /// Size in time, ms.
    pub queue_ms: Figure,
    /// Meaning of the size.
    pub queue_is: QueueIs,
    /// `queue_ms` × `link_rate_bps`.
    pub queue_bytes: Figure,
    /// Base round trip × rate.
    pub bdp_bytes: Figure,
    /// Queue divided by the bandwidth-delay product.
    pub factor_too_large: Figure,
}

/// Judges the queue of any recording.
pub fn which_queue(rec: &Recording) -> WhichQueue {
    match discipline::loaded(rec) {
        Some((b, base_rtt_ms)) => {
            let guess = discipline::discipline(&b);
            let size = queue::size(&b, guess.is, &base_rtt_ms);
            WhichQueue {
                direction: Some(b.direction),
                discipline: guess,
                base_rtt_ms,
                link_rate_bps: b.link_rate.clone(),
                queue_ms: size.ms,
                queue_is: size.is,
                queue_bytes: size.bytes,
                bdp_bytes: size.bdp_bytes,
                factor_too_large: size.factor,
            }
        }
        None => from_probes(rec),
    }
}

fn from_probes(rec: &Recording) -> WhichQueue {
    let guess = discipline::judge(rec);
    let curve = discipline::curve_levels(rec);
    let why = "the delay never stood up for 10 s: the recording shows no full queue";
    let (queue_ms, base_rtt_ms, link_rate_bps) = match curve {
        Some(c) => (c.held_ms(guess.is), c.base_ms, c.rate_bps),
        None => (
            Figure::cannot_tell(why),
            Figure::cannot_tell(why),
            Figure::cannot_tell(why),
        ),
    };
    let queue_bytes = queue_ms.bytes_at(&link_rate_bps);
    let bdp_bytes = base_rtt_ms.bytes_at(&link_rate_bps);
    let factor_too_large = queue_ms.over(&base_rtt_ms);
    WhichQueue {
        direction: None,
        queue_is: if guess.is == Discipline::DropTail {
            QueueIs::Size
        } else {
            QueueIs::AtLeast
        },
        discipline: guess,
        base_rtt_ms,
        link_rate_bps,
        queue_ms,
        queue_bytes,
        bdp_bytes,
        factor_too_large,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::{Delay, Traffic};

    /// A minute of probes over a base of 20 ms, ten a second; from 20 to 50 s they wait 50 ms more while the interface sends
    /// 1 Mbit/s.
    fn monitored() -> Recording {
        let mut rec = Recording::default();
        for i in 0..600i64 {
            let loaded = (200..500).contains(&i);
            let rtt = 20_000_000 + if loaded { 50_000_000 } else { 0 };
            rec.delay.push(Delay {
                rtt_ns: Some(rtt),
                status: base::record::Status::Ok,
                ..Delay::unanswered(i * 100_000_000, i, "udp".into())
            });
            rec.traffic.push(Traffic {
                t_ns: (i + 1) * 100_000_000,
                interface: "wan".into(),
                interval_ns: 100_000_000,
                rx_bytes: Some(0),
                tx_bytes: Some(if loaded { 12_500 } else { 0 }),
            });
        }
        rec
    }

    #[test]
    fn probes_and_counters_bound_the_buffer_from_below() {
        let found = which_queue(&monitored());
        assert_eq!(found.queue_is, QueueIs::AtLeast);
        assert_eq!(found.discipline.is, Discipline::CannotTell);
        // 50 ms at 1 Mbit/s are 6250 bytes; 20 ms are 2500.
        assert!((found.queue_ms.value().unwrap() - 50.0).abs() < 1e-6);
        assert!((found.queue_bytes.value().unwrap() - 6250.0).abs() < 1.0);
        assert!((found.bdp_bytes.value().unwrap() - 2500.0).abs() < 1.0);
        assert!((found.factor_too_large.value().unwrap() - 2.5).abs() < 1e-6);
    }

    #[test]
    fn a_recording_without_a_standing_delay_tells_nothing() {
        let mut rec = monitored();
        rec.delay.truncate(150);
        let found = which_queue(&rec);
        assert_eq!(found.queue_ms.value(), None);
        assert_eq!(found.factor_too_large.value(), None);
    }
}
