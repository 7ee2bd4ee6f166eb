//! Encoding of control messages: LEB128 numbers, short texts, and samples as differences.

use super::types::{
    ControlError, DatagramCount, Detail, ENDS, Ended, FASTEST, FlowReport, FlowSpec, LARGEST,
    LAST_NS, LONGEST, LONGEST_SAMPLE, Limits, MAX_PROGRAM, MAX_TEXT, Sample, SenderState,
    SessionId, Stamp, Stamps,
};
use base::program::{Fragments, MOST_DATAGRAMS, Program};
use base::record::Direction;
use base::{BitsPerSec, Duration};

#[derive(Default)]
pub(super) struct Writer(pub(super) Vec<u8>);

impl Writer {
    pub(super) fn number(&mut self, mut v: u64) {
        while v >= 0x80 {
            self.0.push(v as u8 | 0x80);
            v >>= 7;
        }
        self.0.push(v as u8);
    }
    /// Writes a signed number in zigzag encoding: small differences of either sign stay short.
    pub(super) fn signed(&mut self, v: i64) {
        self.number(((v << 1) ^ (v >> 63)) as u64);
    }
    /// Writes a text, truncated to the maximum that a reader accepts.
    pub(super) fn text(&mut self, text: &str) {
        let mut end = text.len().min(MAX_TEXT);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        self.number(end as u64);
        self.0.extend_from_slice(&text.as_bytes()[..end]);
    }
    pub(super) fn spec(&mut self, s: &FlowSpec) {
        self.0.extend_from_slice(&s.session.0);
        self.number(u64::from(s.flow));
        self.number(s.duration.as_nanos());
        self.number(s.sample.as_nanos());
    }
    pub(super) fn direction(&mut self, d: Direction) {
        self.0.push(match d {
            Direction::Up => 0,
            Direction::Down => 1,
        });
    }
    /// Writes stamps, each as the difference from the usual successor of the previous one: numbers count on, times are
    /// close.
    pub(super) fn stamps(&mut self, s: &Stamps) {
        self.number(s.refused);
        self.number(s.overflowed);
        self.0.push(u8::from(s.fragments.is_some()));
        if let Some(f) = s.fragments {
            for n in [f.whole, f.first, f.second, f.further] {
                self.number(n);
            }
        }
        self.number(s.stamps.len() as u64);
        let (mut next, mut at) = (0i64, 0i64);
        for stamp in &s.stamps {
            let seq = stamp.seq as i64;
            // Numbers stay far below 2^61, so two bits are left for the ECN bits.
            self.signed((seq - next) << 2 | i64::from(stamp.ecn & 3));
            self.signed(stamp.at_ns.wrapping_sub(at));
            (next, at) = (seq + 1, stamp.at_ns);
        }
    }
    pub(super) fn flow(&mut self, f: &FlowReport) {
        self.number(u64::from(f.flow));
        self.direction(f.direction);
        self.signed(f.start_ns);
        self.0.push(
            ENDS.iter()
                .position(|e| *e == f.ended)
                .expect("every end is listed") as u8,
        );
        self.text(&f.congestion);
        let l = &f.limits;
        for d in [l.busy, l.receive_window, l.send_buffer, l.server_ceiling] {
            self.number(d.as_nanos());
        }
        self.number(f.samples.len() as u64);
        let mut before = [0; COLUMNS];
        for s in &f.samples {
            let (kind, now) = columns(s);
            let present = now
                .iter()
                .enumerate()
                .fold(0u16, |bits, (i, c)| bits | u16::from(c.is_some()) << i);
            self.number(u64::from(present) << 2 | kind);
            for (last, value) in before.iter_mut().zip(now) {
                if let Some(v) = value {
                    self.signed(v.wrapping_sub(*last) as i64);
                    *last = v;
                }
            }
        }
    }
}

/// Number of columns of a sample, so that one loop writes the differences of all of them.
const COLUMNS: usize = 11;

fn columns(s: &Sample) -> (u64, [Option<u64>; COLUMNS]) {
    let mut row = [None; COLUMNS];
    row[0] = Some(s.at.as_nanos());
    row[1] = Some(s.bytes);
    let kind = match s.detail {
        Detail::Receiver => 0,
        Detail::Sender(t) => {
            row[2..].copy_from_slice(&[
                Some(t.cwnd_bytes),
                t.ssthresh_bytes,
                t.srtt_ns,
                t.rttvar_ns,
                t.min_rtt_ns,
                Some(t.retransmits),
                t.delivery_rate_bps,
                Some(t.mss_bytes),
                t.delivered_bytes,
            ]);
            1
        }
        Detail::Datagrams(d) => {
            row[2..5].copy_from_slice(&[Some(d.received), Some(d.expected), Some(d.reordered)]);
            2
        }
    };
    (kind, row)
}

fn from_columns(kind: u64, row: [Option<u64>; COLUMNS]) -> Option<Sample> {
    let detail = match kind {
        0 => Detail::Receiver,
        1 => Detail::Sender(SenderState {
            cwnd_bytes: row[2]?,
            ssthresh_bytes: row[3],
            srtt_ns: row[4],
            rttvar_ns: row[5],
            min_rtt_ns: row[6],
            retransmits: row[7]?,
            delivery_rate_bps: row[8],
            mss_bytes: row[9]?,
            delivered_bytes: row[10],
        }),
        2 => Detail::Datagrams(DatagramCount {
            received: row[2]?,
            expected: row[3]?,
            reordered: row[4]?,
        }),
        _ => return None,
    };
    Some(Sample {
        at: Duration::from_nanos(row[0]?),
        bytes: row[1]?,
        detail,
    })
}

const OUT_OF_RANGE: ControlError = ControlError::Malformed {
    what: "a number out of its range",
};

fn in_range(amount: u64) -> Result<u64, ControlError> {
    if amount <= LARGEST {
        Ok(amount)
    } else {
        Err(OUT_OF_RANGE)
    }
}

const CUT: ControlError = ControlError::Malformed {
    what: "it ends too early",
};

pub(super) struct Reader<'a>(pub(super) &'a [u8]);

impl Reader<'_> {
    pub(super) fn byte(&mut self) -> Result<u8, ControlError> {
        let (first, rest) = self.0.split_first().ok_or(CUT)?;
        self.0 = rest;
        Ok(*first)
    }
    pub(super) fn number(&mut self) -> Result<u64, ControlError> {
        let mut value = 0u64;
        for shift in (0..64).step_by(7) {
            let b = self.byte()?;
            let bits = u64::from(b & 0x7f);
            if shift == 63 && bits > 1 {
                break;
            }
            value |= bits << shift;
            if b & 0x80 == 0 {
                return Ok(value);
            }
        }
        Err(ControlError::Malformed {
            what: "a number of more than 64 bits",
        })
    }
    pub(super) fn signed(&mut self) -> Result<i64, ControlError> {
        let v = self.number()?;
        Ok((v >> 1) as i64 ^ -((v & 1) as i64))
    }
    /// Reads an amount: bytes, counts, rates.
    pub(super) fn amount(&mut self) -> Result<u64, ControlError> {
        in_range(self.number()?)
    }
    pub(super) fn rate(&mut self) -> Result<BitsPerSec, ControlError> {
        match BitsPerSec::new(self.number()?) {
            rate if rate <= FASTEST => Ok(rate),
            _ => Err(OUT_OF_RANGE),
        }
    }
    pub(super) fn span(&mut self, longest: Duration) -> Result<Duration, ControlError> {
        match Duration::from_nanos(self.number()?) {
            span if span <= longest => Ok(span),
            _ => Err(OUT_OF_RANGE),
        }
    }
    /// Reads a time of the other end's clock, UNIX ns.
    pub(super) fn instant(&mut self) -> Result<i64, ControlError> {
        match self.signed()? {
            ns @ 0..=LAST_NS => Ok(ns),
            _ => Err(OUT_OF_RANGE),
        }
    }
    /// Time that is told as the difference from another.
    pub(super) fn after(&mut self, other: i64) -> Result<i64, ControlError> {
        match other.wrapping_add(self.signed()?) {
            ns @ 0..=LAST_NS => Ok(ns),
            _ => Err(OUT_OF_RANGE),
        }
    }
    pub(super) fn small<T: TryFrom<u64>>(&mut self) -> Result<T, ControlError> {
        T::try_from(self.number()?).map_err(|_| OUT_OF_RANGE)
    }
    pub(super) fn count(&mut self, limit: usize) -> Result<usize, ControlError> {
        let n: usize = self.small()?;
        if n > limit {
            return Err(ControlError::Malformed {
                what: "more entries than allowed",
            });
        }
        Ok(n)
    }
    pub(super) fn take(&mut self, n: usize) -> Result<&[u8], ControlError> {
        if n > self.0.len() {
            return Err(CUT);
        }
        let (head, rest) = self.0.split_at(n);
        self.0 = rest;
        Ok(head)
    }
    /// Reads a text and escapes characters as `\u{…}` that would move a terminal's cursor or hide a part of it.
    pub(super) fn text(&mut self) -> Result<String, ControlError> {
        let n = self.count(MAX_TEXT)?;
        let bytes = self.take(n)?;
        match std::str::from_utf8(bytes) {
            Ok(text) => Ok(base::text::clean(text).into_owned()),
            Err(_) => Err(ControlError::Malformed {
                what: "text that is not UTF-8",
            }),
        }
    }
    /// Reads the rest of the message as a program.
    pub(super) fn program(&mut self) -> Result<Program, ControlError> {
        let bytes = self.take(self.0.len().min(MAX_PROGRAM))?;
        let text = std::str::from_utf8(bytes).ok();
        text.and_then(|t| t.parse().ok())
            .ok_or(ControlError::Malformed {
                what: "a program that cannot be read or is too long",
            })
    }
    pub(super) fn stamps(&mut self) -> Result<Stamps, ControlError> {
        let (refused, overflowed) = (self.amount()?, self.amount()?);
        let fragments = match self.byte()? {
            0 => None,
            _ => Some(Fragments {
                whole: self.amount()?,
                first: self.amount()?,
                second: self.amount()?,
                further: self.amount()?,
            }),
        };
        let count = self.count(MOST_DATAGRAMS as usize)?;
        let (mut next, mut at) = (0i64, 0i64);
        let mut stamps = Vec::new();
        for _ in 0..count {
            let head = self.signed()?;
            let seq = (head >> 2).wrapping_add(next);
            at = at.wrapping_add(self.signed()?);
            let number = u64::try_from(seq).ok().filter(|n| *n < MOST_DATAGRAMS);
            if !(0..=LAST_NS).contains(&at) {
                return Err(OUT_OF_RANGE);
            }
            stamps.push(Stamp {
                seq: number.ok_or(ControlError::Malformed {
                    what: "a stamp of no datagram",
                })?,
                at_ns: at,
                ecn: (head & 3) as u8,
            });
            next = seq.wrapping_add(1);
        }
        Ok(Stamps {
            stamps,
            refused,
            overflowed,
            fragments,
        })
    }
    pub(super) fn session(&mut self) -> Result<SessionId, ControlError> {
        self.array().map(SessionId)
    }
    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N], ControlError> {
        let mut array = [0; N];
        array.copy_from_slice(self.take(N)?);
        Ok(array)
    }
    pub(super) fn spec(&mut self) -> Result<FlowSpec, ControlError> {
        Ok(FlowSpec {
            session: self.session()?,
            flow: self.small()?,
            duration: self.span(LONGEST)?,
            sample: self.span(LONGEST_SAMPLE)?,
        })
    }
    pub(super) fn direction(&mut self) -> Result<Direction, ControlError> {
        match self.byte()? {
            0 => Ok(Direction::Up),
            1 => Ok(Direction::Down),
            _ => Err(ControlError::Malformed {
                what: "a direction that is neither up nor down",
            }),
        }
    }
    pub(super) fn flow(&mut self, room: &mut usize) -> Result<FlowReport, ControlError> {
        let mut report = FlowReport {
            flow: self.small()?,
            direction: self.direction()?,
            start_ns: self.instant()?,
            ended: *ENDS
                .get(usize::from(self.byte()?))
                .unwrap_or(&Ended::Failed),
            congestion: self.text()?,
            limits: Limits {
                busy: self.span(LONGEST)?,
                receive_window: self.span(LONGEST)?,
                send_buffer: self.span(LONGEST)?,
                server_ceiling: self.span(LONGEST)?,
            },
            samples: Vec::new(),
        };
        let samples = self.count(*room)?;
        *room -= samples;
        let mut before = [0u64; COLUMNS];
        for _ in 0..samples {
            let head = self.number()?;
            let mut row = [None; COLUMNS];
            for (i, (cell, last)) in row.iter_mut().zip(&mut before).enumerate() {
                if head >> (2 + i) & 1 != 0 {
                    *last = in_range(last.wrapping_add(self.signed()? as u64))?;
                    *cell = Some(*last);
                }
            }
            report
                .samples
                .push(from_columns(head & 3, row).ok_or(ControlError::Malformed {
                    what: "a sample without its columns",
                })?);
        }
        Ok(report)
    }
    pub(super) fn end(&self) -> Result<(), ControlError> {
        if self.0.is_empty() {
            Ok(())
        } else {
            Err(ControlError::Malformed {
                what: "bytes after its end",
            })
        }
    }
}
