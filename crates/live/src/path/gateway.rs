//! The gateway, found by itself: where this host's routing table sends packets to the server first.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Of the calling thread's network namespace.
const V4: &str = "/proc/thread-self/net/route";
const V6: &str = "/proc/thread-self/net/ipv6_route";
/// RTF_UP and RTF_GATEWAY of linux/route.h.
const UP: u32 = 1;
const GATEWAY: u32 = 2;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    pub address: IpAddr,
    pub interface: String,
}

/// None where the server is a neighbour, or no route leads there.
pub fn towards(server: IpAddr) -> Option<Gateway> {
    match server.to_canonical() {
        IpAddr::V4(ip) => v4(&std::fs::read_to_string(V4).ok()?, ip),
        IpAddr::V6(ip) => v6(&std::fs::read_to_string(V6).ok()?, ip),
    }
}

/// Of several routes the kernel takes that with the longest prefix, and of those that with the least metric.
struct Best<T>(Option<(u32, u32, T)>);

impl<T> Best<T> {
    fn offer(&mut self, prefix: u32, metric: u32, route: T) {
        let better = |(p, m, _): &(u32, u32, T)| prefix > *p || (prefix == *p && metric < *m);
        if self.0.as_ref().is_none_or(better) {
            self.0 = Some((prefix, metric, route));
        }
    }
}

/// Columns: interface, destination, gateway, flags, …, metric (7th), mask (8th); addresses in the host's byte order.
fn v4(table: &str, to: Ipv4Addr) -> Option<Gateway> {
    let mut best = Best(None);
    for line in table.lines().skip(1) {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let word = |i: usize| u32::from_str_radix(columns.get(i)?, 16).ok();
        let (Some(net), Some(gateway), Some(flags), Some(mask)) =
            (word(1), word(2), word(3), word(7))
        else {
            continue;
        };
        let metric = columns.get(6).and_then(|m| m.parse().ok()).unwrap_or(0);
        let to = u32::from_ne_bytes(to.octets());
        if flags & UP != 0 && to & mask == net {
            let found = (flags & GATEWAY != 0).then(|| Gateway {
                address: Ipv4Addr::from(gateway.to_ne_bytes()).into(),
                interface: columns[0].into(),
            });
            best.offer(mask.count_ones(), metric, found);
        }
    }
    best.0?.2
}

/// Columns: destination, its prefix, source, its prefix, next hop, metric, two counters, flags, interface; all in hex.
fn v6(table: &str, to: Ipv6Addr) -> Option<Gateway> {
    let mut best = Best(None);
    for line in table.lines() {
        let columns: Vec<&str> = line.split_whitespace().collect();
        let [net, prefix, _, _, next, metric, _, _, flags, interface] = columns[..] else {
            continue;
        };
        let address = |text| u128::from_str_radix(text, 16).ok();
        let word = |text| u32::from_str_radix(text, 16).ok();
        let (Some(net), Some(prefix), Some(next), Some(metric), Some(flags)) = (
            address(net),
            word(prefix),
            address(next),
            word(metric),
            word(flags),
        ) else {
            continue;
        };
        let mask = u128::MAX.checked_shl(128 - prefix.min(128)).unwrap_or(0);
        if flags & UP != 0 && u128::from(to) & mask == net {
            let found = (flags & GATEWAY != 0).then(|| Gateway {
                address: Ipv6Addr::from(next).into(),
                interface: interface.into(),
            });
            best.offer(prefix, metric, found);
        }
    }
    best.0?.2
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_endian = "little")]
    #[test]
    fn the_longest_prefix_and_then_the_least_metric_has_the_word() {
        let table = "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n\
             wlan0\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n\
             eth0\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n\
             eth0\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n";
        let to = |a, b, c, d| v4(table, Ipv4Addr::new(a, b, c, d));
        let found = to(203, 0, 113, 5).expect("the default route");
        assert_eq!(found.address, IpAddr::from([10, 0, 0, 1]));
        assert_eq!(found.interface, "eth0");
        assert_eq!(to(10, 0, 0, 7), None, "a neighbour");
    }

    #[test]
    fn a_default_route_of_ipv6_is_found_among_host_routes() {
        let table = "fd770000000000000000000000000001 80 00000000000000000000000000000000 00 00000000000000000000000000000000 00000000 00000001 00000000 00000001    link0\n\
             00000000000000000000000000000000 00 00000000000000000000000000000000 00 fd770000000000010000000000000001 00000400 00000001 00000000 00000003    link0\n";
        let found = v6(table, "fd77::2".parse().expect("an address")).expect("the default route");
        assert_eq!(found.address.to_string(), "fd77:0:0:1::1");
        assert_eq!(v6(table, "fd77::1".parse().expect("an address")), None);
    }
}
