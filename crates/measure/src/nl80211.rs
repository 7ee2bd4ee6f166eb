//! Messages of the kernel about Wi-Fi: interfaces, the station (the access point, to a client), and the channel.
//!
//! Netlink carries attributes within attributes, in the host's byte order. Every length is checked before it is used; an
//! attribute that is too short is absent, and numbers that no radio has are left out.
//!
//! **Source.** Linux, `include/uapi/linux/nl80211.h`, `genetlink.h` and `netlink.h`; netlink(7). Numbers are those of Debian's
//! linux-libc-dev, which `tests/nl80211.rs` compares.

/// Type of messages to the controller of generic netlink.
pub const CONTROLLER: u16 = 16;
/// Command that asks the controller for a family.
pub const GET_FAMILY: u8 = 3;
/// Attribute of a family's number.
pub const FAMILY_ID: u16 = 1;
/// Attribute of a family's name.
pub const FAMILY_NAME: u16 = 2;
/// Name of the family of Wi-Fi.
pub const FAMILY: &str = "nl80211";

/// Commands of nl80211.
pub mod command {
    /// Lists interfaces.
    pub const GET_INTERFACE: u8 = 5;
    /// Lists the stations of an interface.
    pub const GET_STATION: u8 = 17;
    /// Lists channels with their use.
    pub const GET_SURVEY: u8 = 50;
    /// Asks for the state of power save.
    pub const GET_POWER_SAVE: u8 = 62;
}

/// Attributes of nl80211.
pub mod attribute {
    /// Number of an interface.
    pub const IFINDEX: u16 = 3;
    /// Name of an interface.
    pub const IFNAME: u16 = 4;
    /// Type of an interface: 2 is a client.
    pub const IFTYPE: u16 = 5;
    /// Address of a station.
    pub const MAC: u16 = 6;
    /// Attributes of a station.
    pub const STA_INFO: u16 = 21;
    /// Frequency of an interface, MHz.
    pub const WIPHY_FREQ: u16 = 38;
    /// Attributes of a channel's use.
    pub const SURVEY_INFO: u16 = 84;
    /// State of power save: 1 is on.
    pub const PS_STATE: u16 = 93;
}

/// Attributes of a station.
pub mod station {
    /// Bit rate of the last packet sent.
    pub const TX_BITRATE: u16 = 8;
    /// Signal of the last packet received, dBm.
    pub const SIGNAL: u16 = 7;
    /// Packets sent.
    pub const TX_PACKETS: u16 = 10;
    /// Packets sent again.
    pub const TX_RETRIES: u16 = 11;
    /// Packets given up.
    pub const TX_FAILED: u16 = 12;
    /// Bit rate of the last packet received.
    pub const RX_BITRATE: u16 = 14;
    /// Beacons missed.
    pub const BEACON_LOSS: u16 = 18;
    /// Bytes sent.
    pub const TX_BYTES64: u16 = 24;
    /// Statistics of each traffic class.
    pub const TID_STATS: u16 = 31;
    /// Airtime of packets received, µs.
    pub const RX_DURATION: u16 = 32;
    /// Airtime of packets sent, µs.
    pub const TX_DURATION: u16 = 39;
}

/// Attributes of a channel's use.
pub mod survey {
    /// Frequency, MHz.
    pub const FREQUENCY: u16 = 1;
    /// Flag of the channel that is used now.
    pub const IN_USE: u16 = 3;
    /// Time that the radio listened, ms.
    pub const TIME: u16 = 4;
    /// Part of it in which the channel was busy, ms.
    pub const TIME_BUSY: u16 = 5;
    /// Part of it in which this host sent, ms.
    pub const TIME_TX: u16 = 8;
}

const RATE: u16 = 1;
const RATE32: u16 = 5;
const TXQ_STATS: u16 = 6;
const BACKLOG_BYTES: u16 = 1;
const CLIENT: u32 = 2;
const HEADER: usize = 16;
const GENERIC: usize = 4;
/// Bits of an attribute's type: the others are flags.
const TYPE: u16 = 0x3fff;
const ERROR: u16 = 2;
const DONE: u16 = 3;
const FLAG_REQUEST: u16 = 1;
const FLAG_DUMP: u16 = 0x300;
/// Greatest bit rate of a radio, bit/s, by far: a greater one is an error.
const MOST_BPS: u64 = 1_000_000_000_000;
/// Longest name of an interface.
const MOST_NAME: usize = 15;

/// A message of the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message<'a> {
    /// Attributes of one thing.
    Attributes(&'a [u8]),
    /// Error number; zero is an acknowledgement.
    Error(i32),
    /// End of a list.
    Done,
}

/// Splits what the kernel has sent into messages; the rest of a malformed one is left out.
pub fn messages(mut bytes: &[u8]) -> impl Iterator<Item = Message<'_>> {
    std::iter::from_fn(move || {
        let len = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?) as usize;
        let kind = u16::from_ne_bytes(bytes.get(4..6)?.try_into().ok()?);
        let body = bytes.get(HEADER..len)?;
        bytes = bytes.get(padded(len)..).unwrap_or_default();
        Some(match kind {
            ERROR => Message::Error(i32::from_ne_bytes(body.get(..4)?.try_into().ok()?)),
            DONE => Message::Done,
            _ => Message::Attributes(body.get(GENERIC..)?),
        })
    })
}

fn padded(len: usize) -> usize {
    len.saturating_add(3) & !3
}

/// Attributes of a message, or within an attribute.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let len = usize::from(u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & TYPE;
        let value = bytes.get(4..len)?;
        bytes = bytes.get(padded(len)..).unwrap_or_default();
        Some((kind, value))
    })
}

fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find(|a| a.0 == kind).map(|a| a.1)
}

/// Unsigned number of one, two, four or eight bytes.
fn number(value: &[u8]) -> Option<u64> {
    Some(match value.len() {
        1 => u64::from(value[0]),
        2 => u64::from(u16::from_ne_bytes(value.try_into().ok()?)),
        4 => u64::from(u32::from_ne_bytes(value.try_into().ok()?)),
        8 => u64::from_ne_bytes(value.try_into().ok()?),
        _ => return None,
    })
}

/// Adds an attribute.
pub fn put(out: &mut Vec<u8>, kind: u16, value: &[u8]) {
    out.extend((4 + value.len() as u16).to_ne_bytes());
    out.extend(kind.to_ne_bytes());
    out.extend(value);
    out.resize(padded(out.len()), 0);
}

/// Request of generic netlink. A list has any number of answers, and an end.
pub fn request(family: u16, command: u8, is_list: bool, attributes: &[u8]) -> Vec<u8> {
    let flags = FLAG_REQUEST | if is_list { FLAG_DUMP } else { 0 };
    let len = (HEADER + GENERIC + attributes.len()) as u32;
    let mut out = len.to_ne_bytes().to_vec();
    out.extend(family.to_ne_bytes());
    out.extend(flags.to_ne_bytes());
    out.extend([0; 8]);
    out.extend([command, 0, 0, 0]);
    out.extend(attributes);
    out
}

/// Request for the number of the family.
pub fn family_request() -> Vec<u8> {
    let mut name = Vec::new();
    put(&mut name, FAMILY_NAME, b"nl80211\0");
    request(CONTROLLER, GET_FAMILY, false, &name)
}

/// Number of the family from the controller's answer.
pub fn family(attributes: &[u8]) -> Option<u16> {
    u16::try_from(number(find(attributes, FAMILY_ID)?)?).ok()
}

/// Wi-Fi interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// Number.
    pub index: u32,
    /// Name.
    pub name: String,
    /// True for a client of an access point.
    pub is_client: bool,
    /// Frequency, MHz; null if it is not connected.
    pub mhz: Option<u32>,
}

/// Reads an interface; null without a number and a name.
pub fn interface(attributes: &[u8]) -> Option<Interface> {
    let of = |kind| find(attributes, kind);
    let name = of(attribute::IFNAME)?;
    let name = name.strip_suffix(&[0]).unwrap_or(name);
    let name = std::str::from_utf8(name).ok().filter(|n| {
        !n.is_empty() && n.len() <= MOST_NAME && n.bytes().all(|b| b.is_ascii_graphic())
    })?;
    Some(Interface {
        index: u32::try_from(number(of(attribute::IFINDEX)?)?).ok()?,
        name: name.to_owned(),
        is_client: of(attribute::IFTYPE).and_then(number) == Some(u64::from(CLIENT)),
        mhz: of(attribute::WIPHY_FREQ).and_then(mhz),
    })
}

fn mhz(value: &[u8]) -> Option<u32> {
    let mhz = u32::try_from(number(value)?).ok()?;
    (500..100_000).contains(&mhz).then_some(mhz)
}

/// Counters and state of a station since it was joined. What the driver does not tell is null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Station {
    /// Address of the access point.
    pub bssid: [u8; 6],
    /// Signal, dBm.
    pub signal_dbm: Option<i8>,
    /// Bit rate of the last packet sent, bit/s.
    pub tx_bps: Option<u64>,
    /// Bit rate of the last packet received, bit/s.
    pub rx_bps: Option<u64>,
    /// Packets sent.
    pub tx_packets: Option<u64>,
    /// Packets sent again.
    pub tx_retries: Option<u64>,
    /// Packets given up.
    pub tx_failed: Option<u64>,
    /// Bytes sent.
    pub tx_bytes: Option<u64>,
    /// Airtime of packets sent, µs.
    pub tx_airtime_us: Option<u64>,
    /// Airtime of packets received, µs.
    pub rx_airtime_us: Option<u64>,
    /// Beacons missed.
    pub beacons_missed: Option<u64>,
    /// Bytes that wait in this host's queues for the station.
    pub backlog_bytes: Option<u64>,
}

fn rate(value: &[u8]) -> Option<u64> {
    let of = |kind| find(value, kind).and_then(number);
    // In units of 100 kbit/s; the older field has sixteen bits.
    let bps = of(RATE32).or_else(|| of(RATE))?.checked_mul(100_000)?;
    (1..=MOST_BPS).contains(&bps).then_some(bps)
}

/// Reads a station; null without an address.
pub fn station(attributes_of: &[u8]) -> Option<Station> {
    let bssid = find(attributes_of, attribute::MAC)?.try_into().ok()?;
    let info = find(attributes_of, attribute::STA_INFO).unwrap_or_default();
    let of = |kind| find(info, kind);
    let count = |kind| of(kind).and_then(number);
    let backlog = |tid: &[u8]| number(find(find(tid, TXQ_STATS)?, BACKLOG_BYTES)?);
    let tids = of(station::TID_STATS).unwrap_or_default();
    let backlogs = attributes(tids).filter_map(|(_, tid)| backlog(tid));
    Some(Station {
        bssid,
        signal_dbm: of(station::SIGNAL)
            .and_then(|v| Some(v.first()?.cast_signed()))
            .filter(|dbm| *dbm < 0),
        tx_bps: of(station::TX_BITRATE).and_then(rate),
        rx_bps: of(station::RX_BITRATE).and_then(rate),
        tx_packets: count(station::TX_PACKETS),
        tx_retries: count(station::TX_RETRIES),
        tx_failed: count(station::TX_FAILED),
        tx_bytes: count(station::TX_BYTES64),
        tx_airtime_us: count(station::TX_DURATION),
        rx_airtime_us: count(station::RX_DURATION),
        beacons_missed: count(station::BEACON_LOSS),
        backlog_bytes: backlogs.reduce(u64::saturating_add),
    })
}

/// Use of a channel since the radio chose it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Survey {
    /// Frequency, MHz.
    pub mhz: u32,
    /// True for the channel that is used now.
    pub is_used: bool,
    /// Time that the radio listened, ms.
    pub active_ms: Option<u64>,
    /// Part of it in which the channel was busy, ms.
    pub busy_ms: Option<u64>,
    /// Part of it in which this host sent, ms.
    pub tx_ms: Option<u64>,
}

/// Reads a channel's use; null without a frequency.
pub fn survey(attributes_of: &[u8]) -> Option<Survey> {
    let info = find(attributes_of, attribute::SURVEY_INFO)?;
    let of = |kind| find(info, kind);
    Some(Survey {
        mhz: of(survey::FREQUENCY).and_then(mhz)?,
        is_used: of(survey::IN_USE).is_some(),
        active_ms: of(survey::TIME).and_then(number),
        busy_ms: of(survey::TIME_BUSY).and_then(number),
        tx_ms: of(survey::TIME_TX).and_then(number),
    })
}

/// State of power save from its answer; null if it does not tell.
pub fn power_save(attributes: &[u8]) -> Option<bool> {
    Some(number(find(attributes, attribute::PS_STATE)?)? == 1)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message(kind: u16, body: &[u8]) -> Vec<u8> {
        let mut out = (HEADER as u32 + body.len() as u32).to_ne_bytes().to_vec();
        out.extend(kind.to_ne_bytes());
        out.extend([0; 10]);
        out.extend(body);
        out.resize(padded(out.len()), 0);
        out
    }

    fn nested(parts: &[(u16, &[u8])]) -> Vec<u8> {
        let mut out = Vec::new();
        for (kind, value) in parts {
            put(&mut out, *kind, value);
        }
        out
    }

    #[test]
    fn a_list_of_stations_is_read_and_ends() {
        let bitrate = nested(&[
            (RATE, &866u16.to_ne_bytes()),
            (RATE32, &12_009u32.to_ne_bytes()),
        ]);
        let backlog =
            |n: u32| nested(&[(TXQ_STATS, &nested(&[(BACKLOG_BYTES, &n.to_ne_bytes())]))]);
        let tids = nested(&[(1, &backlog(3000)), (2, &backlog(500))]);
        let info = nested(&[
            (station::SIGNAL, &[(-61i8).cast_unsigned()]),
            (station::TX_BITRATE, &bitrate),
            (station::TX_PACKETS, &7u32.to_ne_bytes()),
            (station::TX_RETRIES, &2u32.to_ne_bytes()),
            (station::TX_BYTES64, &9_000_000_000u64.to_ne_bytes()),
            (station::TID_STATS | 0x8000, &tids),
        ]);
        let mut body = vec![19, 1, 0, 0];
        body.extend(nested(&[
            (attribute::IFINDEX, &3u32.to_ne_bytes()),
            (attribute::MAC, &[2, 0, 0, 0, 0, 1]),
            (attribute::STA_INFO | 0x8000, &info),
        ]));
        let bytes = [message(28, &body), message(DONE, &[0; 4])].concat();
        let all: Vec<Message> = messages(&bytes).collect();
        let [Message::Attributes(found), Message::Done] = all[..] else {
            panic!("{all:?}");
        };
        let expected = Station {
            bssid: [2, 0, 0, 0, 0, 1],
            signal_dbm: Some(-61),
            tx_bps: Some(1_200_900_000),
            tx_packets: Some(7),
            tx_retries: Some(2),
            tx_bytes: Some(9_000_000_000),
            backlog_bytes: Some(3500),
            ..Station::default()
        };
        assert_eq!(station(found), Some(expected));
    }

    #[test]
    fn an_interface_a_channel_and_an_error_are_read() {
        let of = nested(&[
            (attribute::IFINDEX, &3u32.to_ne_bytes()),
            (attribute::IFNAME, b"wlan0\0"),
            (attribute::IFTYPE, &2u32.to_ne_bytes()),
            (attribute::WIPHY_FREQ, &5180u32.to_ne_bytes()),
        ]);
        let expected = Interface {
            index: 3,
            name: "wlan0".into(),
            is_client: true,
            mhz: Some(5180),
        };
        assert_eq!(interface(&of), Some(expected));
        let used = nested(&[
            (survey::FREQUENCY, &5180u32.to_ne_bytes()),
            (survey::IN_USE, &[]),
            (survey::TIME, &1000u64.to_ne_bytes()),
            (survey::TIME_BUSY, &400u64.to_ne_bytes()),
        ]);
        let found = survey(&nested(&[(attribute::SURVEY_INFO, &used)]));
        let expected = Survey {
            mhz: 5180,
            is_used: true,
            active_ms: Some(1000),
            busy_ms: Some(400),
            tx_ms: None,
        };
        assert_eq!(found, Some(expected));
        let bytes = message(ERROR, &(-2i32).to_ne_bytes());
        assert_eq!(messages(&bytes).next(), Some(Message::Error(-2)));
        let hidden = nested(&[
            (attribute::IFINDEX, &[1; 4]),
            (attribute::IFNAME, b"a\x1bb\0"),
        ]);
        assert_eq!(interface(&hidden), None);
    }

    #[test]
    fn requests_have_the_kernels_form() {
        let bytes = family_request();
        assert_eq!(
            bytes.len() as u32,
            u32::from_ne_bytes(bytes[..4].try_into().expect("four"))
        );
        assert_eq!(
            bytes[4..8],
            [16, 0, 1, 0],
            "type and flags, on a little-endian host"
        );
        assert_eq!(bytes[16..20], [3, 0, 0, 0]);
        assert_eq!(bytes[20..], *b"\x0c\0\x02\0nl80211\0");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_end_or_panic(bytes in prop::collection::vec(any::<u8>(), 0..600)) {
            let all: Vec<Message> = messages(&bytes).collect();
            prop_assert!(all.len() <= bytes.len() / HEADER);
            for one in [&bytes[..]].into_iter().chain(all.iter().filter_map(|m| match m {
                Message::Attributes(a) => Some(*a),
                _ => None,
            })) {
                prop_assert!(attributes(one).count() <= one.len() / 4);
                if let Some(s) = station(one) {
                    prop_assert!(s.tx_bps.is_none_or(|r| r <= MOST_BPS));
                }
                let _ = (interface(one), survey(one), power_save(one), family(one));
            }
        }
    }
}
