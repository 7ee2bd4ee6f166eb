//! Packets for the page's script in few bytes: columns of differences as variable-length numbers, deflated, in base64.
//! `web/src/packets.ts` reads them.

use super::{Mark, Packets};
use crate::data::PacketsOfWay;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use flate2::Compression;
use flate2::write::DeflateEncoder;
use std::io::Write;

/// Encodes one direction for the script, thinned to about `most` packets.
pub(super) fn way(p: &Packets, most: usize) -> PacketsOfWay {
    let each = p.len().div_ceil(most.max(1)).max(1);
    let thin = if each > 1 {
        Some(p.thinned(each))
    } else {
        None
    };
    let p = thin.as_ref().unwrap_or(p);
    let mut c = Columns::default();
    let us = |t_s: f64| (t_s * 1e6).round() as i64;
    c.put(p.sent.iter().map(|s| us(s.t_s)));
    c.put(p.sent.iter().map(|s| s.from as i64));
    c.put(p.sent.iter().map(|s| s.to as i64));
    c.put(p.sent.iter().map(|s| s.fresh as i64));
    c.put(p.sent.iter().map(|s| s.in_flight as i64));
    c.put(p.acked.iter().map(|a| us(a.t_s)));
    c.put(p.acked.iter().map(|a| a.to as i64));
    c.put(p.acked.iter().map(|a| a.room as i64));
    c.put(p.again.iter().map(|a| us(a.t_s)));
    c.put(p.again.iter().map(|a| a.from as i64));
    c.put(p.again.iter().map(|a| a.to as i64));
    c.put(p.again.iter().map(|a| a.cause as i64));
    c.put(p.again.iter().map(|a| i64::from(a.needless)));
    c.put(p.sacked.iter().map(|s| us(s.0)));
    c.put(p.sacked.iter().map(|s| s.1 as i64));
    c.put(p.sacked.iter().map(|s| s.2 as i64));
    c.put(p.marks.iter().map(|m| us(m.0)));
    c.put(p.marks.iter().map(|m| m.1 as i64));
    c.put(p.marks.iter().map(|m| match m.2 {
        Mark::Syn => 0,
        Mark::Fin => 1,
        Mark::Reset => 2,
    }));
    c.put(p.rtt.iter().map(|r| us(r.0)));
    c.put(p.rtt.iter().map(|r| (r.1 * 1e3).round() as i64));
    PacketsOfWay {
        name: p.name.clone(),
        span_s: p.span_s,
        base_ms: p.base_ms,
        each,
        data: c.packed(),
    }
}

#[derive(Default)]
struct Columns(Vec<u8>);

impl Columns {
    /// Appends a column: its length, then each value's difference to the preceding one as LEB128, the sign in the
    /// lowest bit.
    fn put(&mut self, values: impl ExactSizeIterator<Item = i64>) {
        self.number(values.len() as u64);
        let mut before = 0i64;
        for v in values {
            let d = v.wrapping_sub(before);
            self.number(((d << 1) ^ (d >> 63)) as u64);
            before = v;
        }
    }

    fn number(&mut self, mut n: u64) {
        while n >= 128 {
            self.0.push(n as u8 | 128);
            n >>= 7;
        }
        self.0.push(n as u8);
    }

    fn packed(&self) -> String {
        let mut deflated = DeflateEncoder::new(Vec::new(), Compression::default());
        deflated.write_all(&self.0).expect("memory takes all");
        STANDARD.encode(deflated.finish().expect("memory takes all"))
    }
}

impl Packets {
    /// Merges each `each` neighbours into one with their extremes. Retransmissions and marks are kept; of the SACK
    /// blocks, one of `each` is kept.
    fn thinned(&self, each: usize) -> Packets {
        let sent = self.sent.chunks(each).map(|part| {
            let first = part[0];
            part.iter().skip(1).fold(first, |mut all, s| {
                all.from = all.from.min(s.from);
                all.to = all.to.max(s.to);
                all.fresh += s.fresh;
                all.in_flight = all.in_flight.max(s.in_flight);
                all
            })
        });
        let acked = self.acked.chunks(each).map(|part| part[part.len() - 1]);
        // Smallest and largest RTT of twice as many neighbours.
        let rtt = self.rtt.chunks(2 * each).flat_map(|part| {
            let by = |a: &&(f64, f64), b: &&(f64, f64)| a.1.total_cmp(&b.1);
            let least = part.iter().min_by(by).copied();
            let most = part.iter().max_by(by).copied();
            let (a, b) = (least.unwrap_or_default(), most.unwrap_or_default());
            if a.0 <= b.0 { [a, b] } else { [b, a] }
        });
        Packets {
            sent: sent.collect(),
            acked: acked.collect(),
            rtt: rtt.collect(),
            sacked: self.sacked.iter().step_by(each).copied().collect(),
            again: self.again.clone(),
            marks: self.marks.clone(),
            name: self.name.clone(),
            ..*self
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Acked, Again, Sent};
    use super::*;

    #[test]
    fn numbers_are_short_where_little_changes_and_keep_their_sign() {
        let mut c = Columns::default();
        c.put([1000, 1001, 999, -70_000].into_iter());
        assert_eq!(c.0, [4, 0xd0, 0x0f, 2, 3, 0xad, 0xd5, 0x08]);
    }

    #[test]
    fn thinning_keeps_what_was_sent_again_and_the_longest_round_trip() {
        let p = Packets {
            name: "a > b".into(),
            span_s: (0.0, 1.0),
            sent: (0..1000)
                .map(|i| Sent {
                    t_s: i as f64 / 1e3,
                    from: i * 10,
                    to: i * 10 + 10,
                    fresh: 10,
                    in_flight: if i == 500 { 99 } else { 20 },
                })
                .collect(),
            acked: (0..1000)
                .map(|i| Acked {
                    t_s: i as f64 / 1e3,
                    to: i * 10,
                    room: i * 10 + 100,
                })
                .collect(),
            again: vec![Again {
                t_s: 0.5,
                from: 0,
                to: 10,
                cause: base::record::Cause::Sack,
                needless: true,
            }],
            rtt: (0..1000)
                .map(|i| (i as f64 / 1e3, if i == 777 { 80.0 } else { 20.0 }))
                .collect(),
            ..Packets::default()
        };
        let thin = p.thinned(10);
        assert_eq!((thin.sent.len(), thin.acked.len()), (100, 100));
        assert_eq!(thin.sent.iter().map(|s| s.fresh).sum::<u64>(), 10_000);
        assert_eq!(thin.sent.iter().map(|s| s.in_flight).max(), Some(99));
        assert_eq!(thin.again, p.again);
        assert!(thin.rtt.contains(&(0.777, 80.0)));
        assert!(thin.rtt.is_sorted_by(|a, b| a.0 <= b.0));
        assert_eq!(way(&p, 200).each, 10);
        assert_eq!(way(&p, 5000).each, 1);
    }
}
