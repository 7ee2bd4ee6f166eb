//! The first packet of a connection: as it left here, and as it arrived there.

use crate::sniff::Sniffer;
use base::noted::middlebox::Syn;

/// Ethernet header, IP header with options, TCP header with options.
const SNAPLEN: usize = 192;

/// Watches an interface for the first packet to a port.
pub struct Watch {
    sniffer: Sniffer,
    port: u16,
}

impl Watch {
    /// None where we may not capture there.
    pub fn start(interface: &str, port: u16) -> Option<Watch> {
        let sniffer = Sniffer::open(interface, SNAPLEN).ok()?;
        Some(Watch { sniffer, port })
    }

    /// The packet, if it has passed.
    pub fn first(mut self) -> Option<Syn> {
        let port = self.port;
        // Whatever has left has passed by now; a busy host hands it over a little later.
        self.sniffer.wait(200).ok()?;
        let mut found = None;
        loop {
            let more = self.sniffer.take(|passed| {
                let ip = match after_ethernet(passed.data) {
                    Some(ip) if passed.outgoing => ip,
                    _ => return,
                };
                if found.is_none() && destination(ip) == Some(port) {
                    found = read(ip);
                }
            });
            if !more {
                return found;
            }
        }
    }
}

/// The IP packet, where there is an Ethernet header before it.
fn after_ethernet(frame: &[u8]) -> Option<&[u8]> {
    match frame.get(12..14)? {
        [0x08, 0x00] | [0x86, 0xdd] => frame.get(14..),
        _ => Some(frame),
    }
}

/// The TCP header of a packet.
fn tcp(ip: &[u8]) -> Option<(&[u8], u8)> {
    match ip.first()? >> 4 {
        4 if *ip.get(9)? == 6 => Some((ip.get(usize::from(ip[0] & 15) * 4..)?, ip[8])),
        6 if *ip.get(6)? == 6 => Some((ip.get(40..)?, ip[7])),
        _ => None,
    }
}

fn destination(ip: &[u8]) -> Option<u16> {
    let (tcp, _) = tcp(ip)?;
    // A first packet has SYN and no ACK.
    let first = tcp.get(13)? & 0x12 == 0x02;
    first.then(|| u16::from_be_bytes([tcp[2], tcp[3]]))
}

/// What a box may change of it, from the IP header on; none where it is no first packet.
pub fn read(ip: &[u8]) -> Option<Syn> {
    let (tcp, ttl) = tcp(ip)?;
    let flags = *tcp.get(13)?;
    if flags & 0x12 != 0x02 {
        return None;
    }
    let end = (usize::from(tcp[12] >> 4) * 4).min(tcp.len());
    let mut rest = tcp.get(20..end)?;
    let mut options = Vec::new();
    while let Some(kind) = rest.first() {
        // RFC 9293 section 3.1: 0 ends the list, 1 fills up; all others have a length.
        let len = match kind {
            0 => break,
            1 => 1,
            _ => usize::from(*rest.get(1)?).max(2),
        };
        let body = rest.get(2..len).unwrap_or_default();
        match (kind, body) {
            (1, _) => {}
            (2, [a, b]) => options.push(format!("mss {}", u16::from_be_bytes([*a, *b]))),
            (3, [shift]) => options.push(format!("window scale {shift}")),
            (4, _) => options.push("sack".to_owned()),
            (8, _) => options.push("timestamps".to_owned()),
            (kind, _) => options.push(format!("option {kind}")),
        }
        rest = rest.get(len..).unwrap_or_default();
    }
    Some(Syn {
        seq: u32::from_be_bytes(tcp[4..8].try_into().expect("four bytes")),
        ttl,
        ecn: flags & 0xc0 == 0xc0,
        options,
    })
}

/// What this host's settings make every connection ask for.
pub fn asked() -> Vec<String> {
    let on = |key: &str| {
        let text = std::fs::read_to_string(format!("/proc/sys/net/ipv4/{key}"));
        text.is_ok_and(|t| t.trim() != "0")
    };
    let known = [
        ("tcp_sack", "sack"),
        ("tcp_timestamps", "timestamps"),
        ("tcp_window_scaling", "window scale"),
    ];
    let set = known.into_iter().filter(|(key, _)| on(key));
    set.map(|(_, name)| name.to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_first_packet_is_read_with_its_options() {
        let mut ip = vec![
            0x45, 0, 0, 60, 0, 0, 0, 0, 63, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2,
        ];
        ip.extend([
            0x9c, 0x40, 0, 80, 1, 2, 3, 4, 0, 0, 0, 0, 0xa0, 0xc2, 0xfa, 0xf0, 0, 0, 0, 0,
        ]);
        ip.extend([
            2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
        ]);
        let syn = read(&ip).expect("it is one");
        assert_eq!((syn.seq, syn.ttl, syn.ecn), (0x0102_0304, 63, true));
        assert_eq!(
            syn.options,
            ["mss 1460", "sack", "timestamps", "window scale 7"]
        );
        assert_eq!(destination(&ip), Some(80));
        // An answer is no first packet.
        ip[33] = 0x12;
        assert_eq!(read(&ip), None);
        // What is cut, or lies about its length, is no reason to fail.
        ip[33] = 0x02;
        for cut in 0..ip.len() {
            read(&ip[..cut]);
        }
        ip[41] = 200;
        assert!(read(&ip).is_some());
    }
}
