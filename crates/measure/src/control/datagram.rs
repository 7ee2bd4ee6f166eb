//! Datagrams of UDP load and of crafted trains. They share a port with probes; their first four bytes differ. The token
//! names their flow and proves that their sender was admitted over TCP.
//!
//! TCP proves the client's address but not its UDP port, behind which another customer of the same NAT may be. So a
//! client that wants datagrams says [`Message::Hello`] and gets a cookie in an answer of the same length. It returns
//! the cookie in [`Message::Proof`], and repeats that while it receives: see [`super::inbox`].

use super::DatagramCount;

/// First bytes of every datagram of load.
pub const MAGIC: [u8; 4] = *b"TBL2";
/// Length of the header before the padding.
pub const HEADER_LEN: usize = 20;
/// Largest payload, bytes: it fits any path that carries IPv6, tunnels included.
pub const MAX_LEN: usize = 1200;
/// Length of a hello and of the challenge that answers it.
pub const HELLO_LEN: usize = HEADER_LEN + COOKIE_LEN;
const PROOF_LEN: usize = HELLO_LEN + 8;
/// Length of a cookie, bytes.
pub const COOKIE_LEN: usize = 16;
/// Sequence number of a hello; such special numbers are not load.
const HELLO: u64 = u64::MAX;
const CHALLENGE: u64 = u64::MAX - 1;
const PROOF: u64 = u64::MAX - 2;

/// Header before the padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// Token of the flow.
    pub token: u64,
    /// Sequence number, from 0.
    pub seq: u64,
}

impl Header {
    /// Encodes the header.
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4..12].copy_from_slice(&self.token.to_be_bytes());
        out[12..].copy_from_slice(&self.seq.to_be_bytes());
        out
    }

    /// Reads a header; `None` if the bytes are no datagram of load.
    pub fn decode(bytes: &[u8]) -> Option<Header> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (token, rest) = rest.split_first_chunk()?;
        let (seq, _) = rest.split_first_chunk()?;
        Some(Header {
            token: u64::from_be_bytes(*token),
            seq: u64::from_be_bytes(*seq),
        })
    }
}

/// A decoded datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// Client: requests a cookie.
    Hello,
    /// Server: the client must return this cookie from the same address.
    Challenge { cookie: [u8; COOKIE_LEN] },
    /// Client: the cookie, and payload bytes received so far.
    Proof {
        cookie: [u8; COOKIE_LEN],
        received: u64,
    },
    /// Load, with its number.
    Load(u64),
}

impl Message {
    /// Reads token and message; `None` if the datagram is foreign or truncated.
    pub fn decode(bytes: &[u8]) -> Option<(u64, Message)> {
        let Header { token, seq } = Header::decode(bytes)?;
        let rest = &bytes[HEADER_LEN..];
        let message = match seq {
            // The answer to a shorter hello could exceed it.
            HELLO => (rest.len() >= COOKIE_LEN).then_some(Message::Hello)?,
            CHALLENGE => Message::Challenge {
                cookie: *rest.first_chunk()?,
            },
            PROOF => {
                let (cookie, rest) = rest.split_first_chunk()?;
                Message::Proof {
                    cookie: *cookie,
                    received: u64::from_be_bytes(*rest.first_chunk()?),
                }
            }
            seq => Message::Load(seq),
        };
        Some((token, message))
    }

    /// Encodes the message with the token of its flow.
    pub fn encode(&self, token: u64) -> Vec<u8> {
        let seq = match self {
            Message::Hello => HELLO,
            Message::Challenge { .. } => CHALLENGE,
            Message::Proof { .. } => PROOF,
            Message::Load(seq) => *seq,
        };
        let mut out = Header { token, seq }.encode().to_vec();
        match self {
            Message::Hello => out.resize(HELLO_LEN, 0),
            Message::Challenge { cookie } => out.extend_from_slice(cookie),
            Message::Proof { cookie, received } => {
                out.extend_from_slice(cookie);
                out.extend_from_slice(&received.to_be_bytes());
                debug_assert_eq!(out.len(), PROOF_LEN);
            }
            Message::Load(_) => {}
        }
        out
    }
}

impl DatagramCount {
    /// Counts a datagram.
    pub fn count(&mut self, seq: u64) {
        self.received = self.received.saturating_add(1);
        match seq.checked_add(1) {
            Some(next) if next > self.expected => self.expected = next,
            _ => self.reordered = self.reordered.saturating_add(1),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn what_came_late_is_not_counted_as_lost() {
        let mut c = DatagramCount::default();
        [0, 1, 3, 2, 6].into_iter().for_each(|seq| c.count(seq));
        assert_eq!(
            c,
            DatagramCount {
                received: 5,
                expected: 7,
                reordered: 1
            }
        );
    }

    proptest! {
        #[test]
        fn headers_read_back_the_same_whatever_follows(token in any::<u64>(), seq in any::<u64>(), rest in prop::collection::vec(any::<u8>(), 0..40)) {
            let header = Header { token, seq };
            let mut bytes = header.encode().to_vec();
            bytes.extend(&rest);
            prop_assert_eq!(Header::decode(&bytes), Some(header));
            prop_assert_eq!(Header::decode(&bytes[..HEADER_LEN - 1]), None);
            let _ = Header::decode(&rest);
        }

        #[test]
        fn messages_read_back_the_same_and_any_bytes_are_read_without_panic(
            token: u64, cookie: [u8; 16], received: u64, seq in 0..u64::MAX - 2, cut: prop::sample::Index,
        ) {
            let all = [
                Message::Hello,
                Message::Challenge { cookie },
                Message::Proof { cookie, received },
                Message::Load(seq),
            ];
            for message in all {
                let bytes = message.encode(token);
                prop_assert_eq!(Message::decode(&bytes), Some((token, message)));
                let cut = &bytes[..cut.index(bytes.len())];
                prop_assert_eq!(Message::decode(cut), None);
            }
        }
    }
}
