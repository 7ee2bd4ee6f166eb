//! The first packet of a connection, read from its bytes.

use base::noted::middlebox::Syn;

/// The TCP header of a packet.
fn tcp(ip: &[u8]) -> Option<(&[u8], u8)> {
    match ip.first()? >> 4 {
        4 if *ip.get(9)? == 6 => Some((ip.get(usize::from(ip[0] & 15) * 4..)?, ip[8])),
        6 if *ip.get(6)? == 6 => Some((ip.get(40..)?, ip[7])),
        _ => None,
    }
}

/// Port that a first packet goes to; null if it is another packet.
pub fn destination(ip: &[u8]) -> Option<u16> {
    let (tcp, _) = tcp(ip)?;
    // A first packet has SYN and no ACK.
    let first = tcp.get(13)? & 0x12 == 0x02;
    first.then(|| u16::from_be_bytes([tcp[2], tcp[3]]))
}

/// Fields that a middlebox may change, read from the IP header on; null if it is another packet.
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
