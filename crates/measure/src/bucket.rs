//! Token buckets: a single one, and one per network with a shared one for all.

use base::Time;
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A token bucket.
#[derive(Clone, Debug)]
pub struct Bucket {
    per_second: f64,
    depth: f64,
    level: f64,
    at: Time,
}

impl Bucket {
    /// Creates a full bucket.
    pub fn new(per_second: f64, depth: f64, now: Time) -> Bucket {
        Bucket {
            per_second,
            depth,
            level: depth,
            at: now,
        }
    }

    fn refill(&mut self, now: Time) {
        self.level = (self.level + self.per_second * now.saturating_since(self.at).as_secs_f64())
            .min(self.depth);
        self.at = self.at.max(now);
    }

    /// Takes `amount` tokens, if they are there.
    pub fn take(&mut self, now: Time, amount: f64) -> bool {
        self.refill(now);
        let enough = self.level >= amount;
        if enough {
            self.level -= amount;
        }
        enough
    }
}

/// Maximum number of networks remembered; beyond it, the one not seen for the longest time is forgotten.
const MOST_NETWORKS: usize = 1024;

/// A token bucket for each network and one for all of them together.
#[derive(Clone, Debug)]
pub struct ByNetwork {
    per_second: f64,
    depth: f64,
    all: Bucket,
    reserve: Bucket,
    networks: BTreeMap<IpAddr, Bucket>,
}

impl ByNetwork {
    /// Creates the buckets: rate and depth of each network's bucket, then of the shared one.
    pub fn new(each: (f64, f64), all: (f64, f64)) -> ByNetwork {
        ByNetwork {
            per_second: each.0,
            depth: each.1,
            all: Bucket::new(all.0, all.1, Time::ZERO),
            reserve: Bucket::new(0.0, 0.0, Time::ZERO),
            networks: BTreeMap::new(),
        }
    }

    /// The same with a second shared bucket, for networks whose own is full: those that have taken nothing lately. So the
    /// few that take much leave something for the rest.
    pub fn with_reserve(self, (per_second, depth): (f64, f64)) -> ByNetwork {
        ByNetwork {
            reserve: Bucket::new(per_second, depth, Time::ZERO),
            ..self
        }
    }

    /// Takes one token of this address's network and one of a shared bucket; false if either is empty.
    pub fn take(&mut self, now: Time, ip: IpAddr) -> bool {
        let network = neighbourhood(ip);
        if !self.networks.contains_key(&network) && self.networks.len() >= MOST_NETWORKS {
            let oldest = self.networks.iter().min_by_key(|(_, b)| b.at);
            let oldest = oldest.map(|(network, _)| *network);
            oldest.and_then(|network| self.networks.remove(&network));
        }
        let (per_second, depth) = (self.per_second, self.depth);
        let bucket = self
            .networks
            .entry(network)
            .or_insert_with(|| Bucket::new(per_second, depth, now));
        bucket.refill(now);
        let is_full = bucket.level >= bucket.depth;
        let shared = |all: &mut Bucket, rest: &mut Bucket| {
            all.take(now, 1.0) || is_full && rest.take(now, 1.0)
        };
        if bucket.level < 1.0 || !shared(&mut self.all, &mut self.reserve) {
            return false;
        }
        bucket.take(now, 1.0)
    }

    /// True if the network of this address has a token left.
    pub fn has(&mut self, now: Time, ip: IpAddr) -> bool {
        self.networks
            .get_mut(&neighbourhood(ip))
            .is_none_or(|bucket| {
                bucket.refill(now);
                bucket.level >= 1.0
            })
    }
}

/// Addresses of one client: an IPv4 address, or an IPv6 network of 64 bits, because a subscriber can use any address in
/// it.
pub fn subscriber(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() & !u128::from(u64::MAX)).into()),
        v4 => v4,
    }
}

/// Network that shares a budget: 256 addresses of IPv4, 48 bits of IPv6.
pub fn neighbourhood(ip: IpAddr) -> IpAddr {
    match ip.to_canonical() {
        IpAddr::V4(v4) => IpAddr::V4((v4.to_bits() & !0xff).into()),
        IpAddr::V6(v6) => IpAddr::V6((v6.to_bits() >> 80 << 80).into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Duration;
    use proptest::prelude::*;
    use std::net::Ipv4Addr;

    #[test]
    fn a_network_that_has_used_up_its_tokens_leaves_the_others_theirs() {
        let mut buckets = ByNetwork::new((1.0, 3.0), (100.0, 100.0));
        let storm = |n: u8| IpAddr::from([10, 0, 0, n]);
        let taken = (0..200u8).filter(|n| buckets.take(Time::ZERO, storm(*n)));
        assert_eq!(taken.count(), 3, "one network, whatever the address");
        assert!(!buckets.has(Time::ZERO, storm(7)));
        let other = IpAddr::from([10, 0, 1, 1]);
        assert!(buckets.has(Time::ZERO, other) && buckets.take(Time::ZERO, other));
        assert!(buckets.take(Time::from_secs(1), storm(9)));
    }

    proptest! {
        #[test]
        fn no_more_is_given_than_the_rates_allow_and_memory_is_bounded(
            asked in prop::collection::vec((0u64..40, 0u32..3000), 1..3000),
        ) {
            let mut buckets = ByNetwork::new((2.0, 4.0), (20.0, 40.0));
            let (mut now, mut given) = (Time::ZERO, 0u32);
            for (ms, network) in asked {
                now += Duration::from_millis(ms);
                given += u32::from(buckets.take(now, Ipv4Addr::from(network << 8).into()));
                prop_assert!(buckets.networks.len() <= MOST_NETWORKS);
            }
            let most = 40.0 + 20.0 * now.saturating_since(Time::ZERO).as_secs_f64();
            prop_assert!(f64::from(given) <= most + 1.0, "{given} of {most}");
        }
    }
}
