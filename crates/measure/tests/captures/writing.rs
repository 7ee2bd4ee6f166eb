//! Captures that are written, against those that the other tests build byte by byte.

use crate::packets::{self, SYN};
use measure::capture::compose::{self, Outer, Tcp, Udp};
use measure::capture::frame::{self, Transport};
use measure::capture::pcapng::{Interface, Packet, Way, Writer};
use measure::capture::{LinkType, Reader};
use std::net::Ipv4Addr;

fn outer() -> Outer {
    Outer {
        src_mac: [2; 6],
        dst_mac: [2; 6],
        src: Ipv4Addr::new(10, 0, 0, 1),
        dst: Ipv4Addr::new(10, 0, 0, 2),
        id: 7,
        ttl: 64,
        traffic_class: 0,
    }
}

fn segment(payload: u32) -> Tcp<'static> {
    Tcp {
        src_port: 50_000,
        dst_port: 443,
        seq: 0xffff_ff00,
        ack: 9,
        flags: packets::ACK,
        accurate: false,
        window: 0xffff,
        mss: None,
        window_scale: None,
        sack_permitted: false,
        timestamps: None,
        sack: &[],
        payload,
    }
}

/// RFC 1071 section 1: over everything, its own field included, the sum is all ones.
fn sums_up(bytes: impl Iterator<Item = u8>) -> bool {
    let mut bytes: Vec<u8> = bytes.collect();
    bytes.resize(bytes.len().next_multiple_of(2), 0);
    let mut sum: u32 = bytes
        .chunks_exact(2)
        .map(|p| u32::from(p[0]) << 8 | u32::from(p[1]))
        .sum();
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum == 0xffff
}

#[track_caller]
fn checksums_are_right(frame: &[u8]) {
    let ip = &frame[14..];
    let total = usize::from(u16::from_be_bytes([ip[2], ip[3]]));
    assert!(sums_up(ip[..20].iter().copied()));
    let transport = &ip[20..total];
    let pseudo = [0, ip[9]];
    let len = (transport.len() as u16).to_be_bytes();
    let all = ip[12..20]
        .iter()
        .chain(&pseudo)
        .chain(&len)
        .chain(transport);
    assert!(sums_up(all.copied()));
}

#[test]
fn a_segment_differs_from_one_built_by_hand_in_its_checksums_alone() {
    for payload in [0, 1, 1447, 1448] {
        let composed = compose::tcp(&outer(), &segment(payload));
        let by_hand = packets::Tcp::there(0xffff_ff00, 9, payload as usize)
            .id(7)
            .ethernet();
        let mut whole = composed.kept(u32::MAX);
        assert_eq!(whole.len(), by_hand.len());
        checksums_are_right(&whole);
        whole[24..26].fill(0);
        whole[50..52].fill(0);
        assert_eq!(whole, by_hand);
    }
}

#[test]
fn what_is_composed_is_parsed_as_it_was_said() {
    let syn = Tcp {
        flags: SYN,
        mss: Some(1460),
        window_scale: Some(9),
        sack_permitted: true,
        timestamps: Some((5, 0)),
        ..segment(0)
    };
    let ack = Tcp {
        timestamps: Some((5, 6)),
        sack: &[(1, 2), (3, 4), (0xffff_ffff, 1)],
        ..segment(0)
    };
    let bare = Tcp {
        sack: &[(1, 2), (3, 4), (5, 6), (7, 8)],
        ..segment(0)
    };
    for (said, header) in [(&syn, 40), (&ack, 60), (&bare, 56)] {
        let frame = compose::tcp(&outer(), said).kept(u32::MAX);
        checksums_are_right(&frame);
        assert_eq!(frame.len(), 34 + header);
        let record = measure::capture::Record {
            t_ns: None,
            link: LinkType::ETHERNET,
            interface: 0,
            original_len: frame.len() as u32,
            data: &frame,
        };
        let Transport::Tcp(read) = frame::parse(&record).unwrap().transport else {
            panic!("it is TCP")
        };
        let options = read.parse_options();
        assert_eq!((read.seq, read.ack), (said.seq, said.ack));
        assert_eq!((read.payload, read.flags), (0, said.flags));
        assert_eq!(options.mss, said.mss);
        assert_eq!(options.window_scale, said.window_scale);
        assert_eq!(options.sack_permitted, said.sack_permitted);
        assert_eq!(options.timestamps, said.timestamps);
        assert_eq!(options.sack(), said.sack);
    }
}

#[test]
fn a_datagram_has_its_checksum_over_the_beginning_of_its_payload() {
    for payload in [0, 3, 8, 182] {
        let udp = Udp {
            src_port: 1,
            dst_port: 2,
            head: &[0, 0, 0, 0, 0, 0, 0x12, 0x34],
            payload,
        };
        let frame = compose::udp(&outer(), &udp).kept(u32::MAX);
        assert_eq!(frame.len(), 42 + payload as usize);
        checksums_are_right(&frame);
    }
    // RFC 768: what comes out as zero is sent as ones.
    let sum = u16::from_be_bytes([0x0a + 0x0a, 3]) + 17 + 9 * 2 + 3;
    let tail = (!sum).to_be_bytes();
    let udp = Udp {
        src_port: 1,
        dst_port: 2,
        head: &[tail[0], tail[1]],
        payload: 2,
    };
    let len_less = u16::from_be_bytes(tail) + 18 - 20;
    let head = len_less.to_be_bytes();
    let frame = compose::udp(&outer(), &Udp { head: &head, ..udp }).kept(u32::MAX);
    assert_eq!(frame[40..42], [0xff, 0xff]);
}

#[test]
fn a_file_gives_back_its_packets_times_and_lengths_and_what_was_cut() {
    let mut writer = Writer::new(Vec::new(), "test", "").unwrap();
    for (name, snaplen) in [("one", 60), ("two", 1500)] {
        writer
            .interface(&Interface {
                link: LinkType::ETHERNET,
                name,
                description: "",
                speed: Some(5),
                snaplen,
            })
            .unwrap();
    }
    writer
        .names([(Ipv4Addr::LOCALHOST, "me")].into_iter())
        .unwrap();
    let frames: Vec<_> = [0, 7, 999]
        .map(|payload| compose::tcp(&outer(), &segment(payload)))
        .into();
    for (i, frame) in frames.iter().enumerate() {
        let data = frame.clone().kept(61);
        writer
            .packet(&Packet {
                interface: i as u32 % 2,
                t_ns: packets::T0 + i as i64,
                original_len: frame.original_len,
                data: &data,
                way: Some(Way::Out),
                comment: (i == 1).then_some("dropped"),
            })
            .unwrap();
    }
    let file = writer.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    for (i, frame) in frames.iter().enumerate() {
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(record.t_ns, Some(packets::T0 + i as i64));
        assert_eq!(record.original_len, frame.original_len);
        assert_eq!(record.data, frame.clone().kept(61));
    }
    assert!(reader.next_record().unwrap().is_none());
    assert!(reader.damage().is_empty());
}
