//! Messages between the server and the page of `tailback serve --web`.
//!
//! They travel as datagrams of WebTransport, or as messages of a WebSocket. A probe is the datagram of a session of ours
//! behind one byte. Everything that a page sends is hostile until it is parsed here.
//!
//! **Units.** Integers are little-endian; times are UNIX nanoseconds on the server's clock, durations milliseconds.

use crate::control::SessionId;
use crate::wire;
use base::Duration;

/// Longest message, bytes: the largest probe and its first byte.
pub const MOST: usize = wire::MAX_LEN + 1;
/// Length of every message that is no probe. Questions and answers have the same length.
pub const LEN: usize = 32;
/// Longest load that a page may ask for.
pub const LONGEST: Duration = Duration::from_secs(60);
/// Interval of the samples of an upload.
pub const SAMPLE: Duration = Duration::from_millis(50);

const PROBE: u8 = 0;
const TURN: u8 = 1;
const OVER: u8 = 2;
const SAMPLED: u8 = 3;
const REFUSED: u8 = 4;

/// Message of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FromPage<'a> {
    /// Datagram of a session of probes.
    Probe(&'a [u8]),
    /// Question for the place in the queue for the server's uplink. A page repeats it each second.
    Turn {
        /// Expected length of all loads.
        lasts: Duration,
    },
    /// The loads are over: the uplink is free.
    Over,
}

/// Message of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ToPage<'a> {
    /// Datagram of a session of probes.
    Probe(&'a [u8]),
    /// Place in the queue for the uplink; zero if the page may load.
    Turn {
        /// Number of clients before this one.
        place: u16,
        /// Expected time until the turn comes.
        after: Duration,
    },
    /// Too many clients wait for the uplink, or the turn is over.
    Refused,
    /// Bytes of an upload that have arrived so far.
    Sampled(Sampled),
}

/// Sample of an upload, or its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sampled {
    /// Number of the flow.
    pub flow: u32,
    /// Time of the sample on the server's clock, UNIX ns.
    pub at_ns: i64,
    /// Payload so far.
    pub bytes: u64,
    /// True if nothing more will come.
    pub ended: bool,
}

fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}

impl FromPage<'_> {
    /// Reads a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<FromPage<'_>> {
        if bytes.len() > MOST {
            return None;
        }
        let (first, rest) = bytes.split_first()?;
        match *first {
            PROBE => Some(FromPage::Probe(rest)),
            _ if bytes.len() != LEN => None,
            TURN => {
                let ms = u32::from_le_bytes(number(rest, 0)?);
                let lasts = Duration::from_millis(u64::from(ms));
                Some(FromPage::Turn { lasts })
            }
            OVER => Some(FromPage::Over),
            _ => None,
        }
    }

    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; LEN];
        match self {
            FromPage::Probe(bytes) => return [&[PROBE], *bytes].concat(),
            FromPage::Turn { lasts } => {
                out[0] = TURN;
                out[1..5].copy_from_slice(&millis(*lasts).to_le_bytes());
            }
            FromPage::Over => out[0] = OVER,
        }
        out
    }
}

fn millis(time: Duration) -> u32 {
    u32::try_from(time.as_nanos() / 1_000_000).unwrap_or(u32::MAX)
}

impl ToPage<'_> {
    /// Reads a message; `None` if it is none.
    pub fn decode(bytes: &[u8]) -> Option<ToPage<'_>> {
        if bytes.len() > MOST {
            return None;
        }
        let (first, rest) = bytes.split_first()?;
        match *first {
            PROBE => Some(ToPage::Probe(rest)),
            _ if bytes.len() != LEN => None,
            TURN => {
                let after = u32::from_le_bytes(number(rest, 2)?);
                Some(ToPage::Turn {
                    place: u16::from_le_bytes(number(rest, 0)?),
                    after: Duration::from_millis(u64::from(after)),
                })
            }
            REFUSED => Some(ToPage::Refused),
            SAMPLED => Some(ToPage::Sampled(Sampled {
                flow: u32::from_le_bytes(number(rest, 0)?),
                at_ns: i64::from_le_bytes(number(rest, 4)?),
                bytes: u64::from_le_bytes(number(rest, 12)?),
                ended: rest[20] == 1,
            })),
            _ => None,
        }
    }

    /// The message as bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut out = vec![0; LEN];
        match self {
            ToPage::Probe(bytes) => return [&[PROBE], *bytes].concat(),
            ToPage::Turn { place, after } => {
                out[0] = TURN;
                out[1..3].copy_from_slice(&place.to_le_bytes());
                out[3..7].copy_from_slice(&millis(*after).to_le_bytes());
            }
            ToPage::Refused => out[0] = REFUSED,
            ToPage::Sampled(s) => {
                out[0] = SAMPLED;
                out[1..5].copy_from_slice(&s.flow.to_le_bytes());
                out[5..13].copy_from_slice(&s.at_ns.to_le_bytes());
                out[13..21].copy_from_slice(&s.bytes.to_le_bytes());
                out[21] = u8::from(s.ended);
            }
        }
        out
    }
}

/// Load or channel that a page asks for by the query of its address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Asked {
    /// Session of the page: 128 random bits.
    pub session: SessionId,
    /// Number of the flow.
    pub flow: u32,
    /// Longest time of the flow.
    pub duration: Duration,
}

impl Asked {
    /// Reads a query such as `session=0123456789abcdef0123456789abcdef&flow=3&ms=20000`. Missing numbers are zero.
    ///
    /// # Errors
    /// The part that is wrong.
    pub fn read(query: &str) -> Result<Asked, String> {
        let (mut session, mut flow, mut ms) = (None, 0, 0);
        for part in query.split('&').filter(|p| !p.is_empty()).take(8) {
            let wrong = || format!("\"{}\" is unknown", base::text::clean(&short(part)));
            let (name, value) = part.split_once('=').ok_or_else(wrong)?;
            match name {
                "session" => session = Some(hexadecimal(value).ok_or_else(wrong)?),
                "flow" => flow = value.parse().map_err(|_| wrong())?,
                "ms" => ms = value.parse::<u32>().map_err(|_| wrong())?,
                _ => return Err(wrong()),
            }
        }
        let session = session.ok_or("the session is missing")?;
        let duration = Duration::from_millis(u64::from(ms)).min(LONGEST);
        Ok(Asked {
            session: SessionId(session),
            flow,
            duration,
        })
    }
}

fn short(text: &str) -> String {
    text.chars().take(40).collect()
}

fn hexadecimal(text: &str) -> Option<[u8; 16]> {
    if text.len() != 32 || !text.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let mut out = [0; 16];
    for (byte, digits) in out.iter_mut().zip(text.as_bytes().chunks(2)) {
        *byte = u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_query_names_its_session_and_says_what_is_wrong() {
        let id = "00112233445566778899aabbccddeeff";
        let asked = Asked::read(&format!("session={id}&flow=7&ms=20000")).expect("right");
        assert_eq!(asked.session.0[..3], [0, 0x11, 0x22]);
        assert_eq!((asked.flow, asked.duration), (7, Duration::from_secs(20)));
        let long = Asked::read(&format!("session={id}&ms=4000000000")).expect("cut");
        assert_eq!(long.duration, LONGEST);
        for (query, why) in [
            ("", "missing"),
            ("flow=3", "missing"),
            ("session=0011", "session=0011"),
            ("session=zz112233445566778899aabbccddeeff", "unknown"),
            ("session=+0112233445566778899aabbccddeeff", "unknown"),
            (&format!("session={id}&flow=-1"), "flow=-1"),
            (&format!("session={id}&ms=5000000000"), "ms=5000000000"),
            (&format!("session={id}&rate=1"), "rate=1"),
        ] {
            let e = Asked::read(query).expect_err(query);
            assert!(e.contains(why), "{query}: {e}");
        }
    }

    #[test]
    fn answers_are_as_long_as_their_questions() {
        let turn = FromPage::Turn {
            lasts: Duration::from_secs(60),
        };
        let answer = ToPage::Turn {
            place: 3,
            after: Duration::from_secs(40),
        };
        assert_eq!(turn.encode().len(), answer.encode().len());
        assert_eq!(
            FromPage::Over.encode().len(),
            ToPage::Refused.encode().len()
        );
        assert_eq!(FromPage::decode(&turn.encode()[..31]), None);
    }

    proptest! {
        #[test]
        fn what_is_written_is_read(
            flow: u32, at_ns: i64, bytes: u64, ended: bool, place: u16, ms: u32,
            probe in prop::collection::vec(any::<u8>(), 0..MOST),
        ) {
            let after = Duration::from_millis(u64::from(ms));
            let sampled = ToPage::Sampled(Sampled { flow, at_ns, bytes, ended });
            for message in [sampled, ToPage::Turn { place, after }, ToPage::Refused, ToPage::Probe(&probe)] {
                let bytes = message.encode();
                prop_assert_eq!(ToPage::decode(&bytes), Some(message));
            }
            for message in [FromPage::Turn { lasts: after }, FromPage::Over, FromPage::Probe(&probe)] {
                let bytes = message.encode();
                prop_assert_eq!(FromPage::decode(&bytes), Some(message));
            }
        }

        #[test]
        fn any_bytes_and_any_query_are_read_or_refused(
            bytes in prop::collection::vec(any::<u8>(), 0..80),
            query in "[a-z0-9=&%+-]{0,90}",
        ) {
            if let Some(message) = FromPage::decode(&bytes) {
                prop_assert!(message.encode().len() == bytes.len());
            }
            let _ = ToPage::decode(&bytes);
            let _ = Asked::read(&query);
        }
    }
}
