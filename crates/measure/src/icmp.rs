//! ICMP echo (RFC 792, RFC 4443 section 4). Requests carry a number of their own, because the protocol's has 16 bits
//! and wraps within about a minute at 1 kHz.

/// Length of the ICMP message sent, bytes.
pub const LEN: usize = 8 + 16;

/// Writes the request of probe `seq`. `token` distinguishes our answers from those to others; `id` is the protocol's.
pub fn encode(out: &mut [u8; LEN], v6: bool, id: u16, token: u64, seq: u64) {
    out.fill(0);
    out[0] = if v6 { 128 } else { 8 };
    out[4..6].copy_from_slice(&id.to_be_bytes());
    out[6..8].copy_from_slice(&(seq as u16).to_be_bytes());
    out[8..16].copy_from_slice(&token.to_be_bytes());
    out[16..24].copy_from_slice(&seq.to_be_bytes());
    // The kernel computes it for IPv6: the sum covers the addresses.
    let sum = if v6 { 0 } else { checksum(out) };
    out[2..4].copy_from_slice(&sum.to_be_bytes());
}

/// Number of the probe that this answers, if it is one of ours. `bytes` may start with an IPv4 header, as raw sockets
/// deliver it.
pub fn decode(bytes: &[u8], v6: bool, with_header: bool, token: u64) -> Option<u64> {
    let header = match bytes.first() {
        Some(first) if with_header && !v6 => usize::from(first & 15) * 4,
        _ => 0,
    };
    let icmp = bytes.get(header..)?;
    let reply = if v6 { 129 } else { 0 };
    let word = |at: usize| Some(u64::from_be_bytes(*icmp.get(at..at + 8)?.first_chunk()?));
    (*icmp.first()? == reply && word(8)? == token).then(|| word(16))?
}

/// Internet checksum, RFC 1071.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2);
    let mut sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], *w.get(1).unwrap_or(&0)])))
        .sum();
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_is_known_by_its_token_and_its_own_number() {
        let mut out = [0; LEN];
        encode(&mut out, false, 7, 0xfeed, 65_536 * 3 + 5);
        assert_eq!(checksum(&out), 0, "the sum of a whole packet is zero");
        out[0] = 0;
        assert_eq!(decode(&out, false, false, 0xfeed), Some(65_536 * 3 + 5));
        assert_eq!(decode(&out, false, false, 0xbeef), None);
        let mut raw = vec![0; 20];
        raw[0] = 0x45;
        raw.extend(out);
        assert_eq!(decode(&raw, false, true, 0xfeed), Some(65_536 * 3 + 5));
        out[0] = 8;
        assert_eq!(decode(&out, false, false, 0xfeed), None, "our own request");
        assert_eq!(decode(&out[..20], false, false, 0xfeed), None);
    }
}
