//! STAMP without keys: the Session-Reflector in stateless mode, which also serves TWAMP-Light, and the packets of a
//! Session-Sender.
//!
//! **Sources.** RFC 8762 (sections 4.2.1, 4.3.1 and 4.6), RFC 8972 (sections 3, 4 and 4.4), RFC 5905 (timestamp).
//!
//! The protocol proves no address, so strangers are few: [`Budget`]. An answer is as long as its question.

use super::{Answer, Asked, Counts, Instant, Responder};
use crate::asker::Far;
use crate::bucket::ByNetwork;
use base::Time;

/// Length of the base packet, both ways; and that of TWAMP-Light, which ends after the sender's TTL.
pub const BASE: usize = 44;
const SHORTEST: usize = 41;
/// Bytes of the sender's part: number, time, error estimate, and the identifier of the session.
const NUMBER: std::ops::Range<usize> = 0..4;
const TIME: std::ops::Range<usize> = 4..12;
const ERROR: std::ops::Range<usize> = 12..14;
const SSID: std::ops::Range<usize> = 14..16;
/// Seconds from the era of NTP to that of UNIX.
const NTP_TO_UNIX: i64 = 2_208_988_800;

/// Flags of a TLV.
const UNRECOGNISED: u8 = 0x80;
const MALFORMED: u8 = 0x40;
/// TLVs that are understood: padding, and the class of service.
const PADDING: u8 = 1;
const CLASS_OF_SERVICE: u8 = 4;
const TLV_HEAD: usize = 4;

/// Packets of a network that are answered: rate per second and burst; then those of all networks.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Budget {
    /// One network: 256 addresses of IPv4, 48 bits of IPv6.
    pub each: (f64, f64),
    /// All networks together.
    pub all: (f64, f64),
}

impl Budget {
    /// Budget of strangers, whose addresses may be forged.
    pub const STRANGERS: Budget = Budget {
        each: (10.0, 20.0),
        all: (500.0, 500.0),
    };
    /// Budget of networks that the operator names.
    pub const NAMED: Budget = Budget {
        each: (2_000.0, 2_000.0),
        all: (20_000.0, 20_000.0),
    };
}

/// State of the server's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Synchronised {
    /// Greatest error of the wall clock, ns.
    pub error_ns: u64,
}

/// Reflector.
pub struct Reflector {
    budget: ByNetwork,
    /// Own port: packets from it could come from another reflector.
    port: u16,
    synchronised: Option<Synchronised>,
    counts: Counts,
}

impl Reflector {
    /// Creates a reflector that listens on this port.
    pub fn new(port: u16, budget: Budget) -> Reflector {
        Reflector {
            budget: ByNetwork::new(budget.each, budget.all),
            port,
            synchronised: None,
            counts: Counts::default(),
        }
    }

    /// Takes the state of the wall clock; none if nothing steers it.
    pub fn set_clock(&mut self, synchronised: Option<Synchronised>) {
        self.synchronised = synchronised;
    }

    /// True if the source may be another reflector, or a service that answers anything.
    fn may_loop(&self, from: u16) -> bool {
        from == self.port || from < 1024
    }

    fn estimate(&self) -> u16 {
        let (flag, ns) = match self.synchronised {
            Some(s) => (1 << 15, s.error_ns),
            None => (0, STAMP_NS),
        };
        flag | error_estimate(ns)
    }
}

impl Responder for Reflector {
    fn answer(
        &mut self,
        now: Time,
        asked: &Asked,
        sent: Instant,
        out: &mut [u8],
    ) -> Option<Answer> {
        let bytes = asked.bytes;
        let len = bytes.len();
        if !(SHORTEST..=out.len()).contains(&len) || self.may_loop(asked.from.port()) {
            self.counts.ignored += 1;
            return None;
        }
        if !self.budget.take(now, asked.from.ip()) {
            self.counts.throttled += 1;
            return None;
        }
        let estimate = self.estimate().to_be_bytes();
        let mut base = [0; BASE];
        base[NUMBER].copy_from_slice(&bytes[NUMBER]);
        base[TIME].copy_from_slice(&ntp(sent.wall_ns));
        base[ERROR].copy_from_slice(&estimate);
        base[SSID].copy_from_slice(&bytes[SSID]);
        base[16..24].copy_from_slice(&ntp(asked.at.wall_ns));
        base[24..28].copy_from_slice(&bytes[NUMBER]);
        base[28..36].copy_from_slice(&bytes[TIME]);
        base[36..38].copy_from_slice(&bytes[ERROR]);
        // Zero says that it is not known.
        base[40] = asked.ttl.unwrap_or(0);
        let own = len.min(BASE);
        out[..own].copy_from_slice(&base[..own]);
        out[own..len].copy_from_slice(&bytes[own..]);
        let tos = extensions(&mut out[own..len], asked.tos);
        self.counts.answered += 1;
        Some(Answer { len, tos })
    }

    fn counts(&self) -> Counts {
        self.counts
    }
}

/// Error of a stamp, where nobody knows that of the clock.
const STAMP_NS: u64 = 100_000;

/// Writes the sender's packet of probe `seq`, sent at this time.
pub fn encode(out: &mut [u8; BASE], seq: u64, ssid: u16, wall_ns: i64) {
    out.fill(0);
    out[NUMBER].copy_from_slice(&(seq as u32).to_be_bytes());
    out[TIME].copy_from_slice(&ntp(wall_ns));
    out[ERROR].copy_from_slice(&error_estimate(STAMP_NS).to_be_bytes());
    out[SSID].copy_from_slice(&ssid.to_be_bytes());
}

/// Reads a reflected packet: the number that the sender gave it, modulo 2^32, and the reflector's times near `wall_ns`. A
/// reflector of RFC 8762 alone returns no session.
pub fn decode(bytes: &[u8], ssid: u16, wall_ns: i64) -> Option<(u32, Far)> {
    let base: &[u8; SHORTEST] = bytes.first_chunk()?;
    let word = |at: usize| u32::from_be_bytes([base[at], base[at + 1], base[at + 2], base[at + 3]]);
    let session = u16::from_be_bytes([base[14], base[15]]);
    if session != ssid && session != 0 {
        return None;
    }
    let is_ptp = base[12] & 0x40 != 0;
    let time = |at: usize| match is_ptp {
        true => i64::from(word(at)) * 1_000_000_000 + i64::from(word(at + 4)),
        false => unix_ns(word(at), word(at + 4), wall_ns),
    };
    let far = Far {
        rx_ns: time(16),
        tx_ns: time(4),
    };
    Some((word(24), far))
}

/// UNIX time of an NTP timestamp, in the era that brings it nearest to `wall_ns`.
fn unix_ns(seconds: u32, fraction: u32, wall_ns: i64) -> i64 {
    let now = wall_ns.div_euclid(1_000_000_000) + NTP_TO_UNIX;
    let ahead = seconds.wrapping_sub(now as u32).cast_signed();
    let seconds = now - NTP_TO_UNIX + i64::from(ahead);
    let ns = (u64::from(fraction) * 1_000_000_000).div_ceil(1 << 32);
    seconds
        .saturating_mul(1_000_000_000)
        .saturating_add(ns as i64)
}

/// Fills in the TLVs in place; returns the TOS byte of the answer.
fn extensions(mut rest: &mut [u8], tos: u8) -> u8 {
    // The DSCP comes back, ECN does not: this is another packet.
    let mut answer = tos & !3;
    while rest.len() >= TLV_HEAD {
        let kind = rest[1];
        let len = usize::from(u16::from_be_bytes([rest[2], rest[3]]));
        if rest[..TLV_HEAD] == [0; TLV_HEAD] {
            // Padding of a sender without TLVs.
            break;
        }
        let Some(value) = rest.get_mut(TLV_HEAD..TLV_HEAD + len) else {
            rest[0] = MALFORMED;
            break;
        };
        rest[0] = match (kind, value) {
            (PADDING, _) => 0,
            (CLASS_OF_SERVICE, [first, second, ..]) if len == 4 => {
                let wanted = *first >> 2;
                let arrived = tos >> 2;
                *first = wanted << 2 | arrived >> 4;
                *second = arrived << 4 | (tos & 3) << 2;
                answer = wanted << 2;
                0
            }
            (CLASS_OF_SERVICE, _) => MALFORMED,
            _ => UNRECOGNISED,
        };
        rest = &mut rest[TLV_HEAD + len..];
    }
    answer
}

/// Timestamp of NTP: seconds of its era, and their fraction.
fn ntp(unix_ns: i64) -> [u8; 8] {
    let s = unix_ns.div_euclid(1_000_000_000) + NTP_TO_UNIX;
    let ns = unix_ns.rem_euclid(1_000_000_000) as u64;
    let fraction = (ns << 32) / 1_000_000_000;
    // The era wraps in 2036, as its definition says.
    ((s as u32 as u64) << 32 | fraction).to_be_bytes()
}

/// Scale and multiplier of an error: multiplier · 2^(scale − 32) s, rounded up, and never zero.
fn error_estimate(ns: u64) -> u16 {
    let mut multiplier = (u128::from(ns) << 32).div_ceil(1_000_000_000).max(1);
    let mut scale = 0;
    while multiplier > 255 && scale < 63 {
        multiplier = multiplier.div_ceil(2);
        scale += 1;
    }
    scale << 8 | multiplier.min(255) as u16
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::net::SocketAddr;

    const AT: Instant = Instant {
        wall_ns: 1_700_000_000_500_000_000,
        mono_ns: 7,
    };
    const SENT: Instant = Instant {
        wall_ns: 1_700_000_000_500_020_000,
        mono_ns: 20_007,
    };

    fn asked(bytes: &[u8], from: u16, tos: u8) -> Asked<'_> {
        Asked {
            from: SocketAddr::from(([192, 0, 2, 1], from)),
            at: AT,
            ttl: Some(61),
            tos,
            bytes,
        }
    }

    fn reflect(bytes: &[u8], tos: u8) -> Option<(Vec<u8>, u8)> {
        let mut reflector = Reflector::new(862, Budget::STRANGERS);
        let mut out = [0xee; 1500];
        let answer = reflector.answer(Time::ZERO, &asked(bytes, 40000, tos), SENT, &mut out)?;
        Some((out[..answer.len].to_vec(), answer.tos))
    }

    /// Packet of RFC 8762, figure 2, with the fields of RFC 8972, written out by hand.
    fn sender() -> Vec<u8> {
        let mut packet = vec![0, 0, 0x12, 0x34];
        packet.extend([0xe8, 0xfe, 0x3f, 0x80, 0x40, 0, 0, 0]);
        packet.extend([0x80, 0x01, 0xab, 0xcd]);
        packet.resize(44, 0);
        packet
    }

    #[test]
    fn the_fields_are_where_the_rfc_has_them() {
        let (packet, tos) = reflect(&sender(), 0xb9).expect("an answer");
        assert_eq!(packet.len(), 44);
        assert_eq!(packet[..4], [0, 0, 0x12, 0x34]);
        // 1 700 000 000 s after 1970 are 3 908 988 800 s after 1900.
        let seconds = 3_908_988_800_u32.to_be_bytes();
        assert_eq!(packet[4..8], seconds);
        assert_eq!(packet[16..20], seconds);
        assert_eq!(packet[20..24], [0x80, 0, 0, 0], "half a second");
        let fraction = u32::from_be_bytes(packet[8..12].try_into().expect("four bytes"));
        assert_eq!(fraction, 0x8000_0000 + 85_899, "and 20 µs");
        assert_eq!(packet[14..16], [0xab, 0xcd], "SSID");
        assert_eq!(packet[24..38], sender()[..14], "the sender's fields");
        assert_eq!(packet[38..], [0, 0, 61, 0, 0, 0]);
        assert_eq!(packet[12] & 0xc0, 0, "not synchronised, NTP");
        assert_ne!(packet[13], 0, "a multiplier of zero is not allowed");
        assert_eq!(tos, 0xb8);
    }

    #[test]
    fn twamp_light_gets_its_41_bytes_and_shorter_packets_nothing() {
        let (packet, _) = reflect(&sender()[..41], 0).expect("an answer");
        assert_eq!((packet.len(), packet[40]), (41, 61));
        assert_eq!(reflect(&sender()[..40], 0), None);
        assert_eq!(reflect(&[], 0), None);
    }

    #[test]
    fn tlvs_are_flagged_and_the_class_of_service_is_obeyed() {
        let tlv = |kind: u8, value: &[u8]| {
            let mut bytes = vec![UNRECOGNISED, kind, 0, value.len() as u8];
            bytes.extend(value);
            bytes
        };
        let of = |tlvs: &[Vec<u8>], tos| {
            let mut packet = sender();
            packet.extend(tlvs.concat());
            let (packet, tos) = reflect(&packet, tos).expect("an answer");
            (packet[44..].to_vec(), tos)
        };
        // DSCP 10 asked for; EF and CE arrived.
        let (flags, tos) = of(
            &[
                tlv(1, &[9; 5]),
                tlv(4, &[10 << 2, 0, 0, 0]),
                tlv(200, &[1, 2]),
            ],
            46 << 2 | 3,
        );
        assert_eq!((flags[0], &flags[4..9]), (0, &[9; 5][..]));
        assert_eq!(flags[9..17], [0, 4, 0, 4, 0x2a, 0xec, 0, 0]);
        assert_eq!(flags[17..], [UNRECOGNISED, 200, 0, 2, 1, 2]);
        assert_eq!(tos, 10 << 2);
        let (flags, _) = of(&[vec![UNRECOGNISED, 1, 0, 9, 1, 2]], 0);
        assert_eq!(flags, [MALFORMED, 1, 0, 9, 1, 2], "longer than the packet");
        let (padding, _) = of(&[vec![0; 20]], 0);
        assert_eq!(padding, [0; 20]);
    }

    #[test]
    fn reflectors_do_not_answer_each_other_and_strangers_are_few() {
        let mut reflector = Reflector::new(8620, Budget::STRANGERS);
        let mut out = [0; 1500];
        let packet = sender();
        for port in [8620, 862, 53, 7] {
            let answer = reflector.answer(Time::ZERO, &asked(&packet, port, 0), SENT, &mut out);
            assert_eq!(answer, None, "{port}");
        }
        let mut tries = (0..100)
            .map(|_| reflector.answer(Time::ZERO, &asked(&packet, 40000, 0), SENT, &mut out));
        assert_eq!(tries.by_ref().flatten().count(), 20);
        let counts = reflector.counts();
        assert_eq!(
            (counts.answered, counts.ignored, counts.throttled),
            (20, 4, 80)
        );
    }

    #[test]
    fn a_sender_reads_what_a_reflector_tells() {
        let mut packet = [0; BASE];
        encode(&mut packet, (7 << 32) + 9, 0xabcd, AT.wall_ns - 1_000_000);
        let (answer, _) = reflect(&packet, 0).expect("an answer");
        let far = Far {
            rx_ns: AT.wall_ns,
            tx_ns: SENT.wall_ns,
        };
        assert_eq!(decode(&answer, 0xabcd, AT.wall_ns), Some((9, far)));
        assert_eq!(decode(&answer, 0xabce, AT.wall_ns), None, "another session");
        assert_eq!(decode(&answer[..40], 0xabcd, AT.wall_ns), None);
        // Eight years later the era of NTP has ended once.
        let later = AT.wall_ns + 16 * 31_557_600_000_000_000;
        let seconds = ntp(later);
        let word = |at: usize| u32::from_be_bytes(seconds[at..at + 4].try_into().expect("four"));
        assert_eq!(unix_ns(word(0), word(4), later - 5_000_000_000), later);
        // Times of PTP: seconds since 1970, and nanoseconds.
        let mut ptp = answer;
        ptp[12] |= 0x40;
        ptp[4..12].copy_from_slice(&[0, 0, 0, 2, 0, 0, 0, 7]);
        let (_, far) = decode(&ptp, 0xabcd, AT.wall_ns).expect("an answer");
        assert_eq!(far.tx_ns, 2_000_000_007);
    }

    #[test]
    fn errors_are_rounded_up() {
        let value = |e: u16| f64::from(e & 0xff) * 2f64.powi(i32::from(e >> 8 & 0x3f) - 32) * 1e9;
        for ns in [0, 1, 100_000, 16_000_000_000, u64::MAX / 4] {
            let told = value(error_estimate(ns));
            assert!(
                told >= ns as f64 * 0.999 && told <= ns as f64 * 1.02 + 1.0,
                "{ns} {told}"
            );
        }
    }

    proptest! {
        #[test]
        fn times_come_back_to_the_nanosecond(unix in 0i64..4_000_000_000_000_000_000, off in -1_000_000_000_000i64..1_000_000_000_000) {
            let bytes = ntp(unix);
            let word = |at: usize| u32::from_be_bytes(bytes[at..at + 4].try_into().expect("four"));
            prop_assert_eq!(unix_ns(word(0), word(4), unix + off), unix);
        }

        #[test]
        fn any_answer_is_read_or_not(bytes in prop::collection::vec(any::<u8>(), 0..100), ssid: u16, wall: i64) {
            let _ = decode(&bytes, ssid, wall);
        }

        #[test]
        fn an_answer_is_as_long_as_its_question(bytes in prop::collection::vec(any::<u8>(), 0..1600), tos: u8) {
            if let Some((packet, _)) = reflect(&bytes, tos) {
                prop_assert_eq!(packet.len(), bytes.len());
            }
        }
    }
}
