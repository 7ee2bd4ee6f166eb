//! The datagrams of UDP load. They share a port with probes and are told from them by their first four
//! bytes; the token says which flow they belong to, and proves that whoever sent them was let in over TCP.

use super::DatagramCount;

/// The first bytes of every datagram of load.
pub const MAGIC: [u8; 4] = *b"TBL1";
/// Length of what stands before the filling.
pub const HEADER_LEN: usize = 20;
/// Largest payload: fits any path that carries IPv6, tunnels included.
pub const MAX_LEN: usize = 1200;
/// Sequence number of a datagram that only shows the way back to the client.
pub const HELLO: u64 = u64::MAX;

/// What stands before the filling.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    pub token: u64,
    /// From 0.
    pub seq: u64,
}

impl Header {
    pub fn encode(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[..4].copy_from_slice(&MAGIC);
        out[4..12].copy_from_slice(&self.token.to_be_bytes());
        out[12..].copy_from_slice(&self.seq.to_be_bytes());
        out
    }

    /// None where it is no datagram of load.
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

impl DatagramCount {
    pub fn count(&mut self, seq: u64) {
        self.received += 1;
        match seq.checked_add(1) {
            Some(next) if next > self.expected => self.expected = next,
            _ => self.reordered += 1,
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
    }
}
