//! Quotes: the part of a packet that an ICMP error repeats.
//!
//! **Source.** RFC 792, Internet Control Message Protocol, "Time Exceeded Message"; RFC 4443, Internet Control Message
//! Protocol (ICMPv6) for the Internet Protocol Version 6 (IPv6) Specification, section 3.3. A router quotes the IP header
//! as it is when the hop limit runs out, so the quotes of consecutive hops show where a field changes.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Maximum number of bytes beyond the quoted IP header that are kept.
pub const MOST_REST: usize = 64;
/// Protocol number of UDP in IP headers.
pub const UDP: u8 = 17;

/// Quoted packet, with the sender of the ICMP error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Quote {
    /// Sender of the error.
    pub from: IpAddr,
    /// True if the hop limit ran out, false for an unreachable destination.
    pub exceeded: bool,
    /// Destination in the quoted header.
    pub to: IpAddr,
    /// TOS or traffic-class byte of the quoted header.
    pub tos: u8,
    /// Protocol in the quoted header.
    pub protocol: u8,
    /// Quoted bytes beyond the IP header.
    pub rest: Vec<u8>,
}

/// Quoted UDP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Udp {
    /// Source port.
    pub from: u16,
    /// Destination port.
    pub to: u16,
    /// Length of the payload, bytes.
    pub payload: usize,
}

impl Quote {
    /// Reads an ICMP error as a raw socket delivers it: over IPv4 with its IP header, over IPv6 without. Null for other
    /// messages, and for a quote that ends within the IP header.
    pub fn read(bytes: &[u8], from: IpAddr) -> Option<Quote> {
        match from.to_canonical() {
            IpAddr::V4(_) => Quote::read_v4(bytes),
            IpAddr::V6(from) => Quote::read_v6(bytes, from),
        }
    }

    fn read_v4(bytes: &[u8]) -> Option<Quote> {
        let icmp = bytes.get(usize::from(bytes.first()? & 15) * 4..)?;
        let exceeded = match icmp.get(..2)? {
            [11, 0] => true,
            [3, _] => false,
            _ => return None,
        };
        let quoted = icmp.get(8..)?;
        let header = quoted.get(..20).filter(|h| h[0] >> 4 == 4)?;
        Some(Quote {
            from: address_v4(bytes.get(12..16)?)?.into(),
            exceeded,
            to: address_v4(&header[16..20])?.into(),
            tos: header[1],
            protocol: header[9],
            rest: rest(quoted, usize::from(header[0] & 15) * 4),
        })
    }

    fn read_v6(icmp: &[u8], from: Ipv6Addr) -> Option<Quote> {
        let exceeded = match icmp.get(..2)? {
            [3, 0] => true,
            [1, _] => false,
            _ => return None,
        };
        let quoted = icmp.get(8..)?;
        let header = quoted.get(..40).filter(|h| h[0] >> 4 == 6)?;
        let to: [u8; 16] = header[24..40].try_into().ok()?;
        Some(Quote {
            from: from.into(),
            exceeded,
            to: Ipv6Addr::from(to).into(),
            tos: header[0] << 4 | header[1] >> 4,
            protocol: header[6],
            rest: rest(quoted, 40),
        })
    }

    /// Quoted UDP header; null for another protocol, or if the quote ends before it.
    pub fn udp(&self) -> Option<Udp> {
        let header: &[u8; 6] = self.rest.first_chunk().filter(|_| self.protocol == UDP)?;
        let word = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        Some(Udp {
            from: word(0),
            to: word(2),
            payload: usize::from(word(4)).checked_sub(8)?,
        })
    }
}

fn address_v4(bytes: &[u8]) -> Option<Ipv4Addr> {
    let octets: [u8; 4] = bytes.try_into().ok()?;
    Some(octets.into())
}

fn rest(quoted: &[u8], header: usize) -> Vec<u8> {
    let rest = quoted.get(header..).unwrap_or_default();
    rest[..rest.len().min(MOST_REST)].to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUTER: [u8; 4] = [10, 0, 0, 1];

    /// Time exceeded from `ROUTER` about a UDP datagram of 100 bytes.
    fn v4() -> Vec<u8> {
        let mut packet = vec![0x45, 0xc0, 0, 56, 0, 0, 0, 0, 64, 1, 0, 0];
        packet.extend(ROUTER);
        packet.extend([10, 0, 0, 9]);
        packet.extend([11, 0, 0, 0, 0, 0, 0, 0]);
        packet.extend([0x45, 0xb9, 0, 128, 0, 0, 0x40, 0, 1, 17, 0, 0]);
        packet.extend([10, 0, 0, 9, 192, 0, 2, 1]);
        packet.extend([0x9c, 0x40, 0x1b, 0xcd, 0, 108, 0, 0]);
        packet
    }

    #[test]
    fn a_quote_tells_the_traffic_class_and_the_datagram_over_ipv4() {
        let quote = Quote::read(&v4(), ROUTER.into()).expect("a quote");
        assert_eq!(quote.from, IpAddr::from(ROUTER));
        assert_eq!((quote.exceeded, quote.tos), (true, 0xb9));
        assert_eq!(quote.to, IpAddr::from([192, 0, 2, 1]));
        let udp = Udp {
            from: 40_000,
            to: 7117,
            payload: 100,
        };
        assert_eq!(quote.udp(), Some(udp));
    }

    #[test]
    fn a_quote_tells_the_traffic_class_and_the_datagram_over_ipv6() {
        let router: Ipv6Addr = "2001:db8::1".parse().expect("an address");
        let far: Ipv6Addr = "2001:db8:2::1".parse().expect("an address");
        let mut packet = vec![3, 0, 0, 0, 0, 0, 0, 0];
        packet.extend([0x6b, 0x90, 0, 0, 0, 108, 17, 1]);
        packet.extend(router.octets());
        packet.extend(far.octets());
        packet.extend([0x9c, 0x40, 0x1b, 0xcd, 0, 108, 0, 0]);
        let quote = Quote::read(&packet, router.into()).expect("a quote");
        assert_eq!((quote.from, quote.to), (router.into(), far.into()));
        assert_eq!((quote.exceeded, quote.tos), (true, 0xb9));
        assert_eq!(quote.udp().map(|u| u.payload), Some(100));
    }

    #[test]
    fn a_truncated_quote_tells_less_and_is_never_a_fault() {
        let whole = v4();
        for cut in 0..whole.len() {
            let quote = Quote::read(&whole[..cut], ROUTER.into());
            assert_eq!(quote.is_some(), cut >= 48, "{cut}");
            let udp = quote.and_then(|q| q.udp());
            assert_eq!(udp.is_some(), cut >= 54, "{cut}");
        }
        let mut echo = whole;
        echo[20] = 0;
        assert_eq!(Quote::read(&echo, ROUTER.into()), None);
    }
}
