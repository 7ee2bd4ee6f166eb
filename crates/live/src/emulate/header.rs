//! Headers as far as the emulator reads them: length of the IP packet, flow, ECN bits; and marking with CE. Sources:
//! RFC 791, RFC 8200 section 4, RFC 3168 section 5, RFC 1624 (updating a checksum).

use base::{Ecn, FlowId};

/// Ethernet header: two addresses and the type.
pub(super) const ETHERNET: usize = 14;
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

const TCP: u8 = 6;
const UDP: u8 = 17;
const SCTP: u8 = 132;
const UDP_LITE: u8 = 136;
const ICMP: u8 = 1;
const ICMPV6: u8 = 58;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Kind {
    pub flow: FlowId,
    pub ecn: Ecn,
    pub dscp: u8,
}

/// FNV-1a with a final mix, fixed for ever: the same flow has the same id in each run and on each machine. A fair queue
/// that must resist deliberate collisions perturbs the id by its own seed.
#[derive(Clone, Copy)]
struct Hash(u64);

impl Hash {
    const START: Hash = Hash(0xcbf2_9ce4_8422_2325);
    fn with(self, bytes: &[u8]) -> Hash {
        Hash(bytes.iter().fold(self.0, |h, b| {
            (h ^ u64::from(*b)).wrapping_mul(0x0100_0000_01b3)
        }))
    }
    fn finish(self) -> FlowId {
        let h = (self.0 ^ (self.0 >> 32)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        FlowId(h ^ (h >> 29))
    }
}

/// Reads a whole frame. A frame that is not IP, or is cut short, is a flow by its addresses and type.
pub(super) fn classify(frame: &[u8]) -> Kind {
    let ip = frame.get(ETHERNET..).unwrap_or_default();
    let kind = match frame.get(12..14).map(|t| [t[0], t[1]]) {
        Some(IPV4) => v4(ip),
        Some(IPV6) => v6(ip),
        _ => None,
    };
    kind.unwrap_or_else(|| Kind {
        flow: Hash::START
            .with(frame.get(..ETHERNET).unwrap_or(frame))
            .finish(),
        ecn: Ecn::NotEct,
        dscp: 0,
    })
}

fn v4(ip: &[u8]) -> Option<Kind> {
    if ip.len() < 20 || ip[0] >> 4 != 4 {
        return None;
    }
    let header = usize::from(ip[0] & 0xf) * 4;
    // Fragments after the first have no ports. All of a datagram must stay in one flow, so none of them count.
    let fragment = u16::from_be_bytes([ip[6], ip[7]]) & 0x3fff != 0;
    let hash = Hash::START.with(&ip[12..20]).with(&ip[9..10]);
    Some(Kind {
        flow: with_ports(hash, ip[9], ip.get(header..).filter(|_| !fragment)).finish(),
        ecn: Ecn::from_bits(ip[1]),
        dscp: ip[1] >> 2,
    })
}

fn v6(ip: &[u8]) -> Option<Kind> {
    if ip.len() < 40 || ip[0] >> 4 != 6 {
        return None;
    }
    let (mut next, mut at, mut fragment) = (ip[6], 40, false);
    // RFC 8200 section 4: hop-by-hop 0, routing 43, fragment 44, destination options 60. A chain longer
    // than that is nobody's ordinary packet.
    for _ in 0..8 {
        let Some(extension) = ip.get(at..at + 2) else {
            break;
        };
        match next {
            0 | 43 | 60 => at += 8 + usize::from(extension[1]) * 8,
            44 => {
                at += 8;
                fragment = true;
            }
            _ => break,
        }
        next = extension[0];
    }
    let hash = Hash::START.with(&ip[8..40]).with(&[next]);
    let ecn = Ecn::from_bits(ip[1] >> 4);
    let dscp = ((ip[0] << 4) | (ip[1] >> 4)) >> 2;
    Some(Kind {
        flow: with_ports(hash, next, ip.get(at..).filter(|_| !fragment)).finish(),
        ecn,
        dscp,
    })
}

fn with_ports(hash: Hash, protocol: u8, payload: Option<&[u8]>) -> Hash {
    let Some(payload) = payload else { return hash };
    match protocol {
        TCP | UDP | SCTP | UDP_LITE => payload.get(..4).map_or(hash, |ports| hash.with(ports)),
        // An echo's identifier is what tells one ping from another.
        ICMP | ICMPV6 => payload.get(4..6).map_or(hash, |id| hash.with(id)),
        _ => hash,
    }
}

/// Sets CE in the header, and updates the IPv4 checksum. IPv6 has none.
pub(super) fn set_ce(frame: &mut [u8]) {
    let kind = frame.get(12..14).map(|t| [t[0], t[1]]);
    let Some(ip) = frame.get_mut(ETHERNET..) else {
        return;
    };
    match kind {
        Some(IPV4) if ip.len() >= 20 => {
            let old = u16::from_be_bytes([ip[0], ip[1]]);
            ip[1] |= Ecn::Ce.bits();
            let new = u16::from_be_bytes([ip[0], ip[1]]);
            // RFC 1624 equation 3: HC' = ~(~HC + ~m + m').
            let sum =
                u32::from(!u16::from_be_bytes([ip[10], ip[11]])) + u32::from(!old) + u32::from(new);
            let sum = (sum & 0xffff) + (sum >> 16);
            let sum = (sum & 0xffff) + (sum >> 16);
            ip[10..12].copy_from_slice(&(!(sum as u16)).to_be_bytes());
        }
        Some(IPV6) if ip.len() >= 40 => ip[1] |= Ecn::Ce.bits() << 4,
        _ => {}
    }
}

/// Bytes of the IP packet in a frame.
pub(super) fn ip_len(frame: usize) -> base::Bytes {
    base::Bytes::new(frame.saturating_sub(ETHERNET) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame_v4(protocol: u8, tos: u8, fragment: u16, payload: &[u8]) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 8, 0];
        f.extend([0x45, tos, 0, (20 + payload.len()) as u8, 0x12, 0x34]);
        f.extend(fragment.to_be_bytes());
        f.extend([64, protocol, 0, 0, 10, 77, 0, 1, 10, 77, 0, 2]);
        let sum = !sum(&f[14..34]);
        f[24..26].copy_from_slice(&sum.to_be_bytes());
        f.extend(payload);
        f
    }

    fn frame_v6(next: u8, class: u8, payload: &[u8]) -> Vec<u8> {
        let mut f = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 0x86, 0xdd];
        f.extend([
            0x60 | class >> 4,
            class << 4,
            0,
            0,
            0,
            payload.len() as u8,
            next,
            64,
        ]);
        f.extend([[0xfd; 16], [0xfe; 16]].concat());
        f.extend(payload);
        f
    }

    fn sum(header: &[u8]) -> u16 {
        let mut s: u32 = header
            .chunks(2)
            .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
            .sum();
        while s > 0xffff {
            s = (s & 0xffff) + (s >> 16);
        }
        s as u16
    }

    const PORTS_A: &[u8] = &[0x10, 0, 0, 80, 0, 0, 0, 0];
    const PORTS_B: &[u8] = &[0x10, 1, 0, 80, 0, 0, 0, 0];

    #[test]
    fn connections_are_flows_of_their_own_and_packets_of_one_are_together() {
        for protocol in [TCP, UDP] {
            assert_eq!(
                classify(&frame_v4(protocol, 0, 0, PORTS_A)).flow,
                classify(&frame_v4(protocol, 2, 0x4000, PORTS_A)).flow
            );
            assert_ne!(
                classify(&frame_v4(protocol, 0, 0, PORTS_A)).flow,
                classify(&frame_v4(protocol, 0, 0, PORTS_B)).flow
            );
            assert_ne!(
                classify(&frame_v6(protocol, 0, PORTS_A)).flow,
                classify(&frame_v6(protocol, 0, PORTS_B)).flow
            );
        }
        assert_ne!(
            classify(&frame_v4(TCP, 0, 0, PORTS_A)).flow,
            classify(&frame_v4(UDP, 0, 0, PORTS_A)).flow
        );
        let ping = |id: u8| classify(&frame_v4(ICMP, 0, 0, &[8, 0, 1, 2, 0, id, 0, 9])).flow;
        assert_ne!(ping(1), ping(2));
    }

    #[test]
    fn fragments_of_one_datagram_are_one_flow() {
        let first = classify(&frame_v4(UDP, 0, 0x2000, PORTS_A)).flow;
        let second = classify(&frame_v4(UDP, 0, 0x00b9, &[9; 8])).flow;
        assert_eq!(first, second);
        let extension = |payload: &[u8]| [&[UDP, 0, 0, 1, 0, 0, 0, 7], payload].concat();
        let first = classify(&frame_v6(44, 0, &extension(PORTS_A))).flow;
        let second = classify(&frame_v6(44, 0, &extension(&[9; 8]))).flow;
        assert_eq!(first, second);
    }

    #[test]
    fn extension_headers_do_not_hide_the_ports() {
        let behind = |ports: &[u8]| {
            classify(&frame_v6(
                60,
                0,
                &[&[UDP, 0, 1, 4, 0, 0, 0, 0], ports].concat(),
            ))
            .flow
        };
        assert_ne!(behind(PORTS_A), behind(PORTS_B));
    }

    #[test]
    fn ecn_bits_and_dscp_are_read_where_each_version_has_them() {
        for (bits, ecn) in [
            (0, Ecn::NotEct),
            (1, Ecn::Ect1),
            (2, Ecn::Ect0),
            (3, Ecn::Ce),
        ] {
            let v4 = classify(&frame_v4(TCP, 0xb8 | bits, 0, PORTS_A));
            let v6 = classify(&frame_v6(TCP, 0xb8 | bits, PORTS_A));
            // 0xb8 is expedited forwarding, DSCP 46.
            assert_eq!((v4.ecn, v4.dscp), (ecn, 46));
            assert_eq!((v6.ecn, v6.dscp), (ecn, 46));
        }
    }

    #[test]
    fn a_mark_sets_ce_keeps_the_dscp_and_leaves_the_checksum_right() {
        // Every TOS byte, so that carries of the one's complement sum are met as well.
        for tos in 0..=255u8 {
            let mut f = frame_v4(TCP, tos, 0, PORTS_A);
            set_ce(&mut f);
            assert_eq!(f[15], tos | 3);
            assert_eq!(sum(&f[14..34]), 0xffff, "TOS {tos:#x}");
            let mut f = frame_v6(TCP, tos, PORTS_A);
            set_ce(&mut f);
            assert_eq!((f[14] << 4) | (f[15] >> 4), tos | 3);
        }
    }

    #[test]
    fn what_is_cut_short_or_not_ip_is_carried_all_the_same() {
        let whole = frame_v6(60, 0, &[UDP, 255, 1, 4, 0, 0, 0, 0]);
        for n in 0..whole.len() {
            classify(&whole[..n]);
            set_ce(&mut whole[..n].to_vec());
        }
        assert_eq!(
            classify(&[2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 1, 8, 6]).ecn,
            Ecn::NotEct
        );
    }
}
