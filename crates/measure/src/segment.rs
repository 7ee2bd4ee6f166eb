//! Hand-made TCP segments: SYNs and data with chosen ECN flags and options, and the reader of such segments and of quotes.
//!
//! **Source.** RFC 9293, Transmission Control Protocol (TCP), section 3.1; RFC 3168, The Addition of Explicit Congestion
//! Notification (ECN) to IP, section 6.1; RFC 9768, More Accurate Explicit Congestion Notification (AccECN) Feedback in TCP,
//! sections 3.1 and 3.2.

use sha2::{Digest, Sha256};
use std::net::IpAddr;

/// Protocol number of TCP in IP headers.
pub const TCP: u8 = 6;
/// Numbers of segments that sequence numbers can tell apart.
pub const MOST_NUMBERS: u32 = 1024;
/// Longest TCP header.
pub const MOST_HEADER: usize = 60;
/// Distance of two consecutive segments in sequence space. It exceeds the payload, so that no receiver merges two.
const STRIDE: u32 = 8;
const PAYLOAD: [u8; 4] = *b"tail";
const SYN: u16 = 2;
const PSH: u16 = 8;
const ACK: u16 = 16;
/// Kinds of the AccECN options, orders 0 and 1.
const ACCECN: [u8; 2] = [172, 174];

/// Form of a hand-made segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Form {
    /// SYN, or SYN-ACK of the server, with these flags: AE 4, CWR 2, ECE 1.
    Handshake(u8),
    /// Four bytes of data with these flags.
    Data(u8),
    /// Data with an AccECN option: 0 for none, 1 for kind 172, 2 for kind 174.
    Option(u8),
}

impl Form {
    /// Byte of the form in messages.
    pub fn encode(self) -> u8 {
        match self {
            Form::Handshake(flags) => flags & 7,
            Form::Data(flags) => 0x10 | flags & 7,
            Form::Option(order) => 0x20 | order & 3,
        }
    }

    /// Reads the byte; null for an unknown form.
    pub fn decode(byte: u8) -> Option<Form> {
        match byte {
            0..=7 => Some(Form::Handshake(byte)),
            0x10..=0x17 => Some(Form::Data(byte & 7)),
            0x20..=0x22 => Some(Form::Option(byte & 3)),
            _ => None,
        }
    }
}

/// Segment to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Source and destination port.
    pub ports: (u16, u16),
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment; null in a client's SYN.
    pub ack: Option<u32>,
    /// Form of the segment.
    pub form: Form,
}

impl Segment {
    /// Encodes the segment without its checksum.
    pub fn encode(&self) -> Vec<u8> {
        let (ecn, options): (u8, &[u8]) = match self.form {
            // MSS 1460.
            Form::Handshake(flags) => (flags, &[2, 4, 5, 180]),
            Form::Data(flags) => (flags, &[]),
            Form::Option(0) => (0, &[]),
            // Three counters of three bytes, as they are before the first mark (section 3.2.3).
            Form::Option(1) => (0, &[172, 11, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1]),
            Form::Option(_) => (0, &[174, 11, 0, 0, 1, 0, 0, 0, 0, 0, 1, 1]),
        };
        let is_syn = matches!(self.form, Form::Handshake(_));
        let kind = if is_syn { SYN } else { PSH };
        let ack = if self.ack.is_some() { ACK } else { 0 };
        let offset = (20 + options.len() as u16) / 4;
        let word = offset << 12 | u16::from(ecn & 7) << 6 | kind | ack;
        let mut out = self.ports.0.to_be_bytes().to_vec();
        out.extend(self.ports.1.to_be_bytes());
        out.extend(self.seq.to_be_bytes());
        out.extend(self.ack.unwrap_or(0).to_be_bytes());
        out.extend(word.to_be_bytes());
        out.extend(64_240u16.to_be_bytes());
        out.extend([0; 4]);
        out.extend(options);
        if !is_syn {
            out.extend(PAYLOAD);
        }
        out
    }
}

/// Puts the checksum into a segment (RFC 9293 section 3.1, RFC 8200 section 8.1).
pub fn seal(bytes: &mut [u8], from: IpAddr, to: IpAddr) {
    let Some(field) = bytes.get_mut(16..18) else {
        return;
    };
    field.fill(0);
    let octets = |ip: IpAddr| match ip.to_canonical() {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let mut covered = octets(from);
    covered.extend(octets(to));
    covered.extend([0, TCP]);
    covered.extend((bytes.len() as u16).to_be_bytes());
    covered.extend_from_slice(bytes);
    let words = covered.chunks(2);
    let sum: u32 = words
        .map(|w| u32::from(u16::from_be_bytes([w[0], w.get(1).copied().unwrap_or(0)])))
        .sum();
    let sum = (sum & 0xffff) + (sum >> 16);
    let sum = (sum & 0xffff) + (sum >> 16);
    bytes[16..18].copy_from_slice(&(!(sum as u16)).to_be_bytes());
}

/// Parts of a TCP header that arrived, or that a router quotes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seen {
    /// Source port.
    pub from: u16,
    /// Destination port.
    pub to: u16,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgment and flags; null if the header ends before them.
    pub rest: Option<SeenFlags>,
    /// AccECN option as in [`Form::Option`]; null if the header ends before its last option.
    pub option: Option<u8>,
}

/// Second half of the fixed TCP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SeenFlags {
    /// Acknowledgment, valid with the flag ACK.
    pub ack: u32,
    /// True for SYN and for ACK.
    pub syn: bool,
    /// True with the flag ACK.
    pub acks: bool,
    /// True with the flag RST.
    pub reset: bool,
    /// AE 4, CWR 2, ECE 1.
    pub ecn: u8,
}

impl Seen {
    /// Reads as much of a header as there is; null without both ports and the sequence number.
    pub fn read(bytes: &[u8]) -> Option<Seen> {
        let head: &[u8; 8] = bytes.first_chunk()?;
        let half = |at: usize| u16::from_be_bytes([head[at], head[at + 1]]);
        let fixed: Option<&[u8; 14]> = bytes.first_chunk();
        let rest = fixed.map(|f| {
            let word = u16::from_be_bytes([f[12], f[13]]);
            SeenFlags {
                ack: u32::from_be_bytes([f[8], f[9], f[10], f[11]]),
                syn: word & SYN != 0,
                acks: word & ACK != 0,
                reset: word & 4 != 0,
                ecn: (word >> 6 & 7) as u8,
            }
        });
        Some(Seen {
            from: half(0),
            to: half(2),
            seq: u32::from_be_bytes([head[4], head[5], head[6], head[7]]),
            rest,
            option: options(bytes).map(accecn),
        })
    }
}

/// Options of a header; null if it is not all there.
fn options(bytes: &[u8]) -> Option<&[u8]> {
    bytes.get(20..usize::from(bytes.get(12)? >> 4) * 4)
}

fn accecn(mut options: &[u8]) -> u8 {
    loop {
        options = match options {
            [] | [0, ..] => return 0,
            [1, rest @ ..] => rest,
            [kind, len, ..] => {
                if let Some(order) = ACCECN.iter().position(|k| k == kind) {
                    return order as u8 + 1;
                }
                match options.get(usize::from((*len).max(2))..) {
                    Some(rest) => rest,
                    None => return 0,
                }
            }
            [_] => return 0,
        };
    }
}

/// Sequence number of the client's segment 0, which only the holder of the token knows.
pub fn base(token: &[u8]) -> u32 {
    let hash = Sha256::new()
        .chain_update(b"tailback segment")
        .chain_update(token)
        .finalize();
    u32::from_be_bytes(std::array::from_fn(|i| hash[i]))
}

/// Sequence number of a segment with this number: one behind the SYN's place for data.
pub fn seq(base: u32, number: u32, form: Form) -> u32 {
    let data = !matches!(form, Form::Handshake(_));
    base.wrapping_add(number * STRIDE + u32::from(data))
}

/// Number of a segment with this sequence number; null if it is none of the numbers.
pub fn number(base: u32, seq: u32) -> Option<u32> {
    let distance = seq.wrapping_sub(base);
    let fits = distance % STRIDE <= 1 && distance / STRIDE < MOST_NUMBERS;
    fits.then_some(distance / STRIDE)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_syn_with_accecn_is_these_bytes() {
        let segment = Segment {
            ports: (0x1234, 0x5678),
            seq: 0x0102_0304,
            ack: None,
            form: Form::Handshake(7),
        };
        let mut bytes = segment.encode();
        let expected = [
            0x12, 0x34, 0x56, 0x78, 1, 2, 3, 4, 0, 0, 0, 0, 0x61, 0xc2, 0xfa, 0xf0, 0, 0, 0, 0, 2,
            4, 5, 0xb4,
        ];
        assert_eq!(bytes, expected);
        // The sum over the pseudo-header and the segment is all ones.
        let (from, to) = ([10, 0, 0, 1], [192, 0, 2, 9]);
        seal(&mut bytes, from.into(), to.into());
        let pseudo = [&from[..], &to[..], &[0, 6, 0, 24], &bytes].concat();
        let sum: u32 = pseudo
            .chunks(2)
            .map(|w| u32::from(w[0]) << 8 | u32::from(w[1]))
            .sum();
        assert_eq!((sum & 0xffff) + (sum >> 16), 0xffff);
    }

    #[test]
    fn the_programs_reader_of_captures_reads_what_is_written() {
        use crate::capture::frame::{Transport, flag, parse};
        use crate::capture::{LinkType, Record};
        for form in [Form::Handshake(3), Form::Data(5), Form::Option(2)] {
            let segment = Segment {
                ports: (40_000, 443),
                seq: 7,
                ack: Some(9),
                form,
            };
            let bytes = segment.encode();
            let mut packet = vec![
                0x45,
                0,
                0,
                20 + bytes.len() as u8,
                0,
                0,
                0x40,
                0,
                64,
                6,
                0,
                0,
            ];
            packet.extend([10, 0, 0, 1, 192, 0, 2, 9]);
            packet.extend(&bytes);
            let record = Record {
                t_ns: None,
                link: LinkType::RAW,
                interface: 0,
                original_len: packet.len() as u32,
                data: &packet,
            };
            let frame = parse(&record).expect("a frame");
            let Transport::Tcp(tcp) = frame.transport else {
                panic!("no TCP in {:?}", frame.transport);
            };
            assert_eq!(
                (tcp.src_port, tcp.dst_port, tcp.seq, tcp.ack),
                (40_000, 443, 7, 9)
            );
            let is_syn = matches!(form, Form::Handshake(_));
            assert_eq!((tcp.has(flag::SYN), tcp.has(flag::ACK)), (is_syn, true));
            assert_eq!(tcp.payload, if is_syn { 0 } else { 4 });
            let flags = [Form::Handshake(3), Form::Data(5)].contains(&form);
            assert_eq!(tcp.has(flag::ECE), flags);
            assert_eq!(tcp.has(flag::CWR), form == Form::Handshake(3));
            let option = tcp.options.first().copied();
            assert_eq!(option == Some(174), form == Form::Option(2));
        }
    }

    proptest! {
        #[test]
        fn what_is_written_is_read_and_a_part_of_it_tells_less(form in 0u8..0x23, seq: u32, ack: u32, cut in 0usize..40) {
            let Some(form) = Form::decode(form) else { return Ok(()) };
            prop_assert_eq!(Form::decode(form.encode()), Some(form));
            let segment = Segment { ports: (1, 2), seq, ack: Some(ack), form };
            let bytes = segment.encode();
            let seen = Seen::read(&bytes).expect("a header");
            let rest = seen.rest.expect("flags");
            prop_assert_eq!((seen.from, seen.to, seen.seq, rest.ack), (1, 2, seq, ack));
            let (ecn, option) = match form {
                Form::Handshake(flags) | Form::Data(flags) => (flags, 0),
                Form::Option(order) => (0, order),
            };
            prop_assert_eq!((rest.ecn, seen.option), (ecn, Some(option)));
            let part = Seen::read(&bytes[..cut.min(bytes.len())]);
            prop_assert_eq!(part.is_some(), cut >= 8);
            if let Some(part) = part {
                prop_assert_eq!(part.seq, seq);
                prop_assert!(part.rest.is_none() || part.rest == seen.rest);
                prop_assert!(part.option.is_none() || part.option == seen.option);
            }
        }

        #[test]
        fn hostile_headers_are_read_or_refused(bytes: Vec<u8>) {
            let _ = Seen::read(&bytes);
        }

        #[test]
        fn numbers_return_from_sequence_numbers(base: u32, which in 0..MOST_NUMBERS, other: u32) {
            for form in [Form::Handshake(0), Form::Data(0)] {
                prop_assert_eq!(number(base, seq(base, which, form)), Some(which));
            }
            prop_assert!(number(base, other).is_none_or(|n| n < MOST_NUMBERS));
        }
    }
}
