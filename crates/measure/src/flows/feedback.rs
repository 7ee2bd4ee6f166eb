//! ECN of a TCP connection: what its SYNs agree on, and the marks that each receiver reports.
//!
//! **Source.** RFC 3168 (The Addition of Explicit Congestion Notification to IP), RFC 9768 (More Accurate Explicit
//! Congestion Notification Feedback in TCP): tables 2 and 3 (handshake), sections 3.2.2 (ACE) and 3.2.3 (option).
//!
//! **Limits.** ACE counts modulo eight: if more than seven marks are reported by one acknowledgement, or some are not
//! captured, the count is too low by multiples of eight.

use crate::capture::frame::{Tcp, flag};

/// Outcome of a handshake.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Agreed {
    /// SYN or SYN-ACK is not in the capture.
    #[default]
    Unknown,
    /// No ECN was asked for, or it was declined.
    Without,
    /// Classic ECN.
    Classic,
    /// AccECN.
    Accurate,
    /// The SYN-ACK has the flags of the SYN, which no correct server sends.
    Reflected,
}

impl Agreed {
    /// Word for it in texts and files.
    pub const fn word(self) -> &'static str {
        match self {
            Agreed::Unknown => "unknown",
            Agreed::Without => "none",
            Agreed::Classic => "classic",
            Agreed::Accurate => "AccECN",
            Agreed::Reflected => "flags reflected",
        }
    }
}

/// Marks that one end reports about the packets it received.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reported {
    /// Packets with ECE (classic ECN).
    pub ece_packets: u64,
    /// Packets with CWR (classic ECN).
    pub cwr_packets: u64,
    /// Marked packets by the ACE field, at least.
    pub ace_marks: u64,
    /// Marked bytes by the AccECN option.
    pub option_bytes: u64,
    /// Packets with an AccECN option.
    pub options: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct End {
    reported: Reported,
    ace: Option<u8>,
    option: u32,
    /// Acknowledgement and sequence number of the latest packet.
    latest: Option<(u32, u32)>,
}

/// ECN of one connection.
#[derive(Clone, Debug, Default)]
pub struct Feedback {
    syn: Option<u8>,
    /// Flags of the SYN-ACK: AE, CWR, ECE.
    answer: Option<u8>,
    /// True if a SYN with ECN was followed by one without.
    pub fell_back: bool,
    ends: [End; 2],
}

/// Flags that ask for classic ECN, and for AccECN.
const CLASSIC: u8 = 0b011;
const ACCURATE: u8 = 0b111;
/// First value of a receiver's counter (RFC 9768 section 3.2.1).
const FIRST: u8 = 5;

impl Feedback {
    /// Takes a packet of the client (0) or the server (1); `body` begins with the TCP header.
    pub fn packet(&mut self, side: usize, tcp: &Tcp<'_>, body: &[u8]) {
        let ae = body.get(12).map_or(0, |b| b & 1);
        let bits = ae << 2 | u8::from(tcp.has(flag::CWR)) << 1 | u8::from(tcp.has(flag::ECE));
        if tcp.has(flag::SYN) {
            if tcp.has(flag::ACK) {
                self.answer = Some(bits);
            } else {
                self.fell_back |= self.syn.is_some_and(|s| s != 0) && bits == 0;
                self.syn = Some(bits);
            }
            return;
        }
        if tcp.has(flag::RST) || !tcp.has(flag::ACK) {
            return;
        }
        match self.agreed() {
            Agreed::Classic => {
                let r = &mut self.ends[side].reported;
                r.ece_packets += u64::from(tcp.has(flag::ECE));
                r.cwr_packets += u64::from(tcp.has(flag::CWR));
            }
            Agreed::Accurate => self.accurate(side, tcp, bits),
            _ => {}
        }
    }

    fn accurate(&mut self, side: usize, tcp: &Tcp<'_>, ace: u8) {
        // A receiver whose SYN or SYN-ACK came marked begins one higher; tables 2 and 3 have 110 for it.
        let marked = self.answer == Some(0b110);
        let end = &mut self.ends[side];
        let Some((ack, seq)) = end.latest else {
            end.latest = Some((tcp.ack, tcp.seq));
            if side == 1 {
                end.count(ace, FIRST + u8::from(marked));
                end.option(tcp.options);
            } else {
                // The client's first acknowledgement has the codepoint of the SYN-ACK instead of a count.
                end.ace = Some(FIRST + u8::from(ace == 0b110));
            }
            return;
        };
        let ahead = |new: u32, old: u32| new.wrapping_sub(old) as i32;
        let is_new = ahead(tcp.ack, ack) >= 0 && ahead(tcp.seq, seq) >= 0;
        // Repetitions of the client's first acknowledgement have no count either.
        if !is_new || (tcp.ack, tcp.seq) == (ack, seq) && tcp.payload == 0 && end.is_first() {
            return;
        }
        end.latest = Some((tcp.ack, tcp.seq));
        end.count(ace, FIRST);
        end.option(tcp.options);
    }

    /// Agreement of the handshake.
    pub fn agreed(&self) -> Agreed {
        match (self.syn, self.answer) {
            (Some(ACCURATE), Some(0b010 | 0b011 | 0b100 | 0b110)) => Agreed::Accurate,
            (Some(ACCURATE), Some(0b001 | 0b101)) | (Some(CLASSIC), Some(0b001)) => Agreed::Classic,
            (Some(s @ (ACCURATE | CLASSIC)), Some(a)) if s == a => Agreed::Reflected,
            (Some(_), Some(_)) => Agreed::Without,
            _ => Agreed::Unknown,
        }
    }

    /// Marks that each end reports, the client first.
    pub fn reported(&self) -> [Reported; 2] {
        self.ends.each_ref().map(|e| e.reported)
    }
}

impl End {
    fn is_first(&self) -> bool {
        self.reported.ace_marks == 0
    }

    /// Takes a counter; `first` is the value before the first one.
    fn count(&mut self, ace: u8, first: u8) {
        let before = self.ace.replace(ace).unwrap_or(first);
        self.reported.ace_marks += u64::from(ace.wrapping_sub(before) & 7);
    }

    /// Reads the bytes with CE of an AccECN option: the second of its three fields in either order.
    fn option(&mut self, mut options: &[u8]) {
        while let [kind, rest @ ..] = options {
            match (kind, rest) {
                (0, _) => return,
                (1, _) => options = rest,
                (_, [length, ..]) if *length >= 2 => {
                    let Some((option, next)) = options.split_at_checked(usize::from(*length))
                    else {
                        return;
                    };
                    if matches!(kind, 172 | 174) {
                        self.reported.options += 1;
                        if let Some([a, b, c]) = option.get(5..8) {
                            let bytes = u32::from_be_bytes([0, *a, *b, *c]);
                            let more = bytes.wrapping_sub(self.option) & 0xff_ffff;
                            // Half of the range and more is an older packet.
                            if more < 1 << 23 {
                                self.reported.option_bytes += u64::from(more);
                                self.option = bytes;
                            }
                        }
                    }
                    options = next;
                }
                _ => return,
            }
        }
    }
}
