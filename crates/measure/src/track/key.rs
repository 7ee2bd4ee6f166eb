//! Key of a connection: its two ends, in either order.

use crate::capture::frame::Address;
use std::net::{IpAddr, Ipv6Addr};

/// End of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Endpoint {
    /// Address of the endpoint.
    pub address: Address,
    /// Port of the endpoint.
    pub port: u16,
}

impl std::fmt::Display for Endpoint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.ip() {
            IpAddr::V4(four) => write!(f, "{four}:{}", self.port),
            IpAddr::V6(six) => write!(f, "[{six}]:{}", self.port),
        }
    }
}

impl Endpoint {
    /// Address as a user writes it: IPv4 unmapped.
    pub fn ip(&self) -> IpAddr {
        Ipv6Addr::from(self.address).to_canonical()
    }
}

/// Both ends in a fixed order: as numbers, which compare faster than bytes.
#[derive(Clone, Copy, Debug)]
pub struct Key {
    low: [u64; 2],
    high: [u64; 2],
    ports: u32,
}

impl PartialEq for Key {
    /// Compares in registers: a key just made is not yet in memory as a whole.
    #[inline(always)]
    fn eq(&self, o: &Key) -> bool {
        let far = (self.low[0] ^ o.low[0]) | (self.high[0] ^ o.high[0]);
        let near = (self.low[1] ^ o.low[1]) | (self.high[1] ^ o.high[1]);
        far | near | u64::from(self.ports ^ o.ports) == 0
    }
}

/// Hash seeds, drawn anew for each run, so that nobody can choose addresses that all collide.
#[derive(Clone, Copy, Debug)]
pub struct Seeds([u64; 5]);

impl Seeds {
    /// Seeds from a number.
    pub fn new(seed: u64) -> Seeds {
        // The fractional part of pi, for a seed of 0.
        let mut state = seed ^ 0x243f_6a88_85a3_08d3;
        // SplitMix64 (Steele, Lea, Flood 2014): neighbouring seeds give unrelated numbers.
        Seeds(std::array::from_fn(|_| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let z = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
            z ^ z >> 31
        }))
    }
}

/// Folds both halves of the full product: each of its bits depends on all bits of both factors.
#[inline(always)]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    (product >> 64) as u64 ^ product as u64
}

impl Key {
    /// Key that no packet has: its lower end is the higher one.
    pub const IMPOSSIBLE: Key = Key {
        low: [u64::MAX; 2],
        high: [0; 2],
        ports: 0,
    };

    /// Makes a key; returns true as well if `a` is the higher end.
    #[inline(always)]
    pub fn new(a: &Address, a_port: u16, b: &Address, b_port: u16) -> (Key, bool) {
        // Eight bytes at once: bytes just written in halves cannot be loaded as a whole without a stall.
        let words = |a: &Address| {
            let half = |i: usize| {
                let bytes = [
                    a[i],
                    a[i + 1],
                    a[i + 2],
                    a[i + 3],
                    a[i + 4],
                    a[i + 5],
                    a[i + 6],
                    a[i + 7],
                ];
                u64::from_be_bytes(bytes)
            };
            [half(0), half(8)]
        };
        let (x, y) = (words(a), words(b));
        let swapped = (x, a_port) > (y, b_port);
        let (low, high, p, q) = if swapped {
            (y, x, b_port, a_port)
        } else {
            (x, y, a_port, b_port)
        };
        let ports = u32::from(p) << 16 | u32::from(q);
        (Key { low, high, ports }, swapped)
    }

    /// Key of two ends over IPv4, the lower first: each an address followed by a port.
    pub fn of_ipv4([low, high]: [u64; 2]) -> Key {
        Key {
            low: [0, 0xffff_0000_0000 | low >> 16],
            high: [0, 0xffff_0000_0000 | high >> 16],
            ports: (low as u32) << 16 | high as u32 & 0xffff,
        }
    }

    /// Ends of the key: the lower, then the higher.
    pub fn ends(&self) -> [Endpoint; 2] {
        let end = |[far, near]: [u64; 2], port| Endpoint {
            address: (u128::from(far) << 64 | u128::from(near)).to_be_bytes(),
            port,
        };
        [
            end(self.low, (self.ports >> 16) as u16),
            end(self.high, self.ports as u16),
        ]
    }

    /// Hash of the key.
    #[inline(always)]
    pub fn hash(&self, Seeds([a, b, c, d, e]): &Seeds) -> u64 {
        let far = fold(self.low[0] ^ a, self.high[0] ^ b);
        let near = fold(self.low[1] ^ c, self.high[1] ^ d);
        fold(far ^ near.rotate_left(17) ^ u64::from(self.ports), *e)
    }
}
