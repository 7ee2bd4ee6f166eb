//! Capture files of every kind, whole and damaged.

use crate::packets::{T0, Tcp, ethernet, pcap};
use measure::capture::frame::{self, Fragment, Transport};
use measure::capture::{CaptureError, LinkType, Reader, Record};
use proptest::prelude::*;

type Owned = (Option<i64>, u16, u32, Vec<u8>);

fn read(bytes: &[u8]) -> (Vec<Owned>, Vec<measure::capture::Damage>) {
    let mut reader = Reader::new(bytes).unwrap();
    let mut all = Vec::new();
    while let Some(r) = reader.next_record().unwrap() {
        all.push((r.t_ns, r.link.0, r.original_len, r.data.to_vec()));
    }
    (all, reader.damage().to_vec())
}

fn packets(n: u32) -> Vec<(i64, Vec<u8>)> {
    (0..n)
        .map(|i| {
            let p = Tcp::there(1000 * i, 1, 100 + i as usize % 400);
            (T0 + i64::from(i) * 1_000_123_456, p.ethernet())
        })
        .collect()
}

/// pcapng blocks.
struct Ng {
    big: bool,
    out: Vec<u8>,
}

impl Ng {
    fn new(big: bool) -> Ng {
        let mut ng = Ng {
            big,
            out: Vec::new(),
        };
        ng.section(big);
        ng
    }
    fn word(&self, v: u32) -> [u8; 4] {
        if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    }
    fn half(&self, v: u16) -> [u8; 2] {
        if self.big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    }
    fn section(&mut self, big: bool) {
        self.big = big;
        let mut body = self.word(0x1a2b_3c4d).to_vec();
        body.extend(self.half(1));
        body.extend(self.half(0));
        body.extend([0xff; 8]);
        self.block(0x0a0d_0d0a, &body);
    }
    fn block(&mut self, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let total = self.word(12 + padded as u32);
        self.out.extend(self.word(kind));
        self.out.extend(total);
        self.out.extend(body);
        self.out.extend(vec![0; padded - body.len()]);
        self.out.extend(total);
    }
    fn interface(&mut self, link: u16, snaplen: u32, options: &[(u16, Vec<u8>)]) {
        let mut body = self.half(link).to_vec();
        body.extend([0, 0]);
        body.extend(self.word(snaplen));
        for (code, value) in options {
            body.extend(self.half(*code));
            body.extend(self.half(value.len() as u16));
            body.extend(value);
            body.extend(vec![0; value.len().next_multiple_of(4) - value.len()]);
        }
        self.block(1, &body);
    }
    fn packet(&mut self, interface: u32, units: u64, original: u32, data: &[u8]) {
        let mut body = self.word(interface).to_vec();
        body.extend(self.word((units >> 32) as u32));
        body.extend(self.word(units as u32));
        body.extend(self.word(data.len() as u32));
        body.extend(self.word(original));
        body.extend(data);
        self.block(6, &body);
    }
}

#[test]
fn both_byte_orders_and_both_resolutions_are_read() {
    let all = packets(5);
    for big in [false, true] {
        for nanos in [false, true] {
            let (records, damage) = read(&pcap(big, nanos, 1, 65_535, &all));
            assert_eq!(damage, []);
            assert_eq!(records.len(), 5);
            for ((t, link, len, data), (t0, data0)) in records.iter().zip(&all) {
                let unit = if nanos { 1 } else { 1000 };
                assert_eq!(*t, Some(t0 / unit * unit));
                assert_eq!((*link, *len as usize, data), (1, data0.len(), data0));
            }
        }
    }
}

#[test]
fn a_snaplen_cuts_the_data_but_not_the_length() {
    let (records, damage) = read(&pcap(false, true, 1, 64, &packets(3)));
    assert_eq!(damage, []);
    assert_eq!(records[2].2, 14 + 40 + 102);
    assert_eq!(records[2].3.len(), 64);
}

#[test]
fn pcapng_knows_several_interfaces_sections_and_units() {
    for big in [false, true] {
        let mut ng = Ng::new(big);
        ng.interface(1, 0, &[]);
        ng.interface(101, 0, &[(9, vec![9])]);
        let offset = if big {
            10i64.to_be_bytes()
        } else {
            10i64.to_le_bytes()
        };
        ng.interface(276, 0, &[(9, vec![0x80 | 10]), (14, offset.to_vec())]);
        ng.block(0x0bad, b"something else");
        ng.packet(0, 1_700_000_000_000_001, 60, &[1; 60]);
        ng.packet(1, 1_700_000_000_000_000_001, 99, &[2; 33]);
        ng.packet(2, 1024 * 5 + 512, 4, &[3; 4]);
        // A section of the other byte order begins with no interfaces.
        ng.section(!big);
        ng.interface(113, 20, &[]);
        let mut simple = ng.word(100).to_vec();
        simple.extend([4; 20]);
        ng.block(3, &simple);
        let (records, damage) = read(&ng.out);
        assert_eq!(damage, []);
        assert_eq!(
            records,
            [
                (Some(1_700_000_000_000_001_000), 1, 60, vec![1; 60]),
                (Some(1_700_000_000_000_000_001), 101, 99, vec![2; 33]),
                (Some(15_500_000_000), 276, 4, vec![3; 4]),
                (None, 113, 100, vec![4; 20]),
            ]
        );
    }
}

#[test]
fn what_the_capturing_system_dropped_is_known() {
    let mut ng = Ng::new(false);
    ng.interface(1, 0, &[]);
    let mut body = vec![0; 12];
    body.extend([5, 0, 8, 0, 7, 0, 0, 0, 0, 0, 0, 0]);
    ng.block(5, &body);
    let mut reader = Reader::new(&ng.out[..]).unwrap();
    assert!(reader.next_record().unwrap().is_none());
    assert_eq!(reader.dropped(), 7);
}

#[test]
fn what_is_no_capture_is_refused_with_what_it_begins_with() {
    let told = |bytes: &[u8]| match Reader::new(bytes) {
        Err(e @ CaptureError::NotACapture { .. }) => e.to_string(),
        _ => panic!("{bytes:?} was taken for a capture"),
    };
    assert!(told(b"").contains("empty"));
    assert!(told(b"GET / HTTP/1.1\r\n").contains("47 45 54 20"));
    assert!(told(&pcap(false, false, 1, 100, &[])[..20]).contains("20 bytes"));
}

#[test]
fn a_file_cut_anywhere_gives_every_whole_packet() {
    let all = packets(4);
    let file = pcap(false, false, 1, 65_535, &all);
    let mut ends = vec![24];
    for (_, data) in &all {
        ends.push(ends.last().unwrap() + 16 + data.len());
    }
    for cut in 24..file.len() {
        let (records, damage) = read(&file[..cut]);
        let whole = ends.iter().filter(|e| **e <= cut).count() - 1;
        assert_eq!(records.len(), whole, "cut at {cut}");
        let lost: u64 = damage.iter().map(|d| d.skipped).sum();
        assert_eq!(lost, (cut - ends[whole]) as u64, "cut at {cut}");
    }
}

#[test]
fn reading_goes_on_behind_damage_and_says_how_much_is_lost() {
    let all = packets(60);
    let mut file = pcap(true, true, 1, 65_535, &all);
    let at = 24 + (0..20).map(|i| 16 + all[i].1.len()).sum::<usize>();
    // The length of one record, and all of the next one.
    for byte in &mut file[at + 8..at + 400] {
        *byte = 0xee;
    }
    let (records, damage) = read(&file);
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert_eq!(damage[0].offset, at as u64);
    assert!(records.len() >= 60 - 4, "{} of 60 left", records.len());
    assert_eq!(records[..20].len(), 20);
    assert_eq!(records.last().unwrap().3, all[59].1);

    let mut ng = Ng::new(false);
    ng.interface(1, 0, &[(9, vec![9])]);
    for (t, data) in &all {
        ng.packet(0, *t as u64, data.len() as u32, data);
    }
    let middle = ng.out.len() / 2;
    ng.out.drain(middle..middle + 37);
    let (records, damage) = read(&ng.out);
    assert_eq!(damage.len(), 1, "{damage:?}");
    assert!((57..60).contains(&records.len()));
    assert_eq!(records.last().unwrap().3, all[59].1);
}

proptest! {
    #[test]
    fn no_input_makes_the_reader_or_the_parser_panic(
        damage in proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..40),
        cut in any::<prop::sample::Index>(),
        link in prop::sample::select(vec![0u32, 1, 9, 10, 12, 50, 51, 101, 108, 113, 228, 229, 276]),
        ng in any::<bool>(),
    ) {
        let all = packets(12);
        let mut file = if ng {
            let mut ng = Ng::new(false);
            ng.interface(link as u16, 0, &[]);
            for (t, data) in &all {
                ng.packet(0, *t as u64, data.len() as u32, data);
            }
            ng.out
        } else {
            pcap(false, false, link, 65_535, &all)
        };
        let head = if ng { 28 } else { 24 };
        let body = file.len() - head;
        for (at, byte) in damage {
            file[head + at.index(body)] = byte;
        }
        file.truncate(head + cut.index(body + 1));
        let mut reader = Reader::new(&file[..]).unwrap();
        let mut tracker = measure::track::Tracker::new(measure::track::Settings::default());
        let mut bytes = 0;
        while let Some(r) = reader.next_record().unwrap() {
            bytes += r.data.len();
            let f = frame::parse(&r);
            tracker.packet(r.t_ns, r.original_len, f.as_ref());
        }
        prop_assert!(bytes <= file.len());
        prop_assert_eq!(reader.offset(), file.len() as u64);
        tracker.finish();
    }

    #[test]
    fn no_frame_makes_the_parser_panic(
        link in 0u16..300, data in proptest::collection::vec(any::<u8>(), 0..120), original in 0u32..70_000,
    ) {
        let record = Record { t_ns: Some(0), link: LinkType(link), interface: 0, original_len: original, data: &data };
        if let Some(Transport::Tcp(tcp)) = frame::parse(&record).map(|f| f.transport) {
            tcp.parse_options();
        }
    }
}

fn parsed(link: u16, data: &[u8]) -> Option<(u32, u32)> {
    let record = Record {
        t_ns: Some(0),
        link: LinkType(link),
        interface: 0,
        original_len: data.len() as u32,
        data,
    };
    match frame::parse(&record)?.transport {
        Transport::Tcp(tcp) => Some((tcp.seq, tcp.payload)),
        _ => None,
    }
}

#[test]
fn the_packet_is_found_behind_every_link_layer() {
    let ip = Tcp::there(77, 1, 5).ip();
    let with = |head: &[u8]| [head, &ip].concat();
    let mac = [2; 12];
    let frames: Vec<(u16, Vec<u8>)> = vec![
        (1, with(&[&mac[..], &[8, 0]].concat())),
        (1, with(&[&mac[..], &[0x81, 0, 0, 5, 8, 0]].concat())),
        (
            1,
            with(&[&mac[..], &[0x88, 0xa8, 0, 5, 0x81, 0, 0, 6, 8, 0]].concat()),
        ),
        (
            1,
            with(&[&mac[..], &[0x88, 0x64, 0x11, 0, 0, 1, 0, 47, 0, 0x21]].concat()),
        ),
        (
            1,
            with(&[&mac[..], &[0x88, 0x47, 0, 1, 0, 64, 0, 2, 1, 64]].concat()),
        ),
        (
            1,
            with(&[&mac[..], &[0, 60, 0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat()),
        ),
        (0, with(&[2, 0, 0, 0])),
        (108, with(&[0, 0, 0, 2])),
        (9, with(&[0xff, 3, 0, 0x21])),
        (9, with(&[0, 0x21])),
        (
            10,
            with(&[&[0; 13][..], &[0xaa, 0xaa, 3, 0, 0, 0, 8, 0]].concat()),
        ),
        (101, ip.clone()),
        (228, ip.clone()),
        (113, with(&[&[0; 14][..], &[8, 0]].concat())),
        (276, with(&[&[8, 0][..], &[0; 18]].concat())),
    ];
    for (link, data) in frames {
        assert_eq!(parsed(link, &data), Some((77, 5)), "link type {link}");
    }
    assert_eq!(parsed(1, &ethernet(0x0806, &ip)), None);
    assert_eq!(parsed(147, &ip), None);
}

#[test]
fn lengths_come_from_ip_and_not_from_what_was_kept() {
    let mut frame = Tcp::there(1, 1, 1000).ethernet();
    let record = |data: &[u8], original| {
        let r = Record {
            t_ns: None,
            link: LinkType(1),
            interface: 0,
            original_len: original,
            data,
        };
        match frame::parse(&r).unwrap().transport {
            Transport::Tcp(t) => t.payload,
            other => panic!("{other:?}"),
        }
    };
    // Ethernet pads short frames; a snaplen cuts long ones.
    let short = [Tcp::there(1, 1, 0).ethernet(), vec![0; 6]].concat();
    assert_eq!(record(&short, 60), 0);
    assert_eq!(record(&frame[..54], 1054), 1000);
    // Total length 0: the host's own segment before the card cut it.
    frame[16..18].copy_from_slice(&[0, 0]);
    assert_eq!(record(&frame[..60], 70_054), 70_000);
}

#[test]
fn ipv6_extension_headers_are_no_payload() {
    let tcp = &Tcp::there(9, 1, 30).ip()[20..];
    let hop_by_hop = [44, 0, 1, 4, 0, 0, 0, 0];
    let atomic = [6, 0, 0, 0, 0, 0, 0, 7];
    let body = [&hop_by_hop[..], &atomic, tcp].concat();
    let mut p = vec![0x60, 0, 0, 0];
    p.extend((body.len() as u16).to_be_bytes());
    p.extend([0, 64]);
    p.extend([1; 32]);
    p.extend(&body);
    assert_eq!(parsed(229, &p), Some((9, 30)));
}

#[test]
fn a_later_fragment_is_told_from_the_first() {
    let mut p = Tcp::there(1, 1, 40).ip();
    let of = |p: &[u8]| {
        let r = Record {
            t_ns: None,
            link: LinkType(101),
            interface: 0,
            original_len: 80,
            data: p,
        };
        let f = frame::parse(&r).unwrap();
        (f.fragment, matches!(f.transport, Transport::Tcp(_)))
    };
    p[6..8].copy_from_slice(&[0x20, 0]);
    assert_eq!(
        of(&p),
        (
            Some(Fragment {
                offset: 0,
                more: true
            }),
            true
        )
    );
    p[6..8].copy_from_slice(&[0x00, 185]);
    assert_eq!(
        of(&p),
        (
            Some(Fragment {
                offset: 1480,
                more: false
            }),
            false
        )
    );
}

#[test]
fn every_option_that_matters_is_read_and_nonsense_is_left() {
    let tcp = Tcp::there(1, 1, 0).options(&[
        2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 9, 0, 0, 0, 8, 1, 3, 3, 15, 5, 10, 0, 0, 0, 1, 0, 0,
        0, 2, 0, 0,
    ]);
    let packet = tcp.ethernet();
    let r = Record {
        t_ns: None,
        link: LinkType(1),
        interface: 0,
        original_len: packet.len() as u32,
        data: &packet,
    };
    let Transport::Tcp(t) = frame::parse(&r).unwrap().transport else {
        panic!("it is TCP")
    };
    let o = t.parse_options();
    assert_eq!(
        (o.mss, o.sack_permitted, o.window_scale),
        (Some(1460), true, Some(14))
    );
    assert_eq!(o.timestamps, Some((9, 8)));
    assert_eq!(o.sack(), [(1, 2)]);
}

#[test]
fn remarks_of_a_pcapng_file_are_read_with_the_packets_that_they_stand_beside() {
    use measure::capture::pcapng::{Interface, Packet, Writer};
    let mut w = Writer::new(Vec::new(), "test", "on all").unwrap();
    let interface = Interface {
        link: LinkType::ETHERNET,
        name: "eth0",
        description: "",
        speed: None,
        snaplen: 0,
    };
    w.interface(&interface).unwrap();
    for i in 0..5u32 {
        let text = format!("remark {i}");
        w.packet(&Packet {
            interface: 0,
            t_ns: T0 + i64::from(i),
            original_len: 61,
            data: &[7; 61],
            way: None,
            comment: (i % 2 == 1).then_some(&*text),
        })
        .unwrap();
    }
    let file = w.finish().unwrap();
    let mut reader = Reader::new(&file[..]).unwrap();
    let mut n = 0;
    while let Some(r) = reader.next_record().unwrap() {
        assert_eq!((r.t_ns, r.data), (Some(T0 + n), &[7u8; 61][..]));
        n += 1;
    }
    let said: Vec<_> = reader
        .comments()
        .iter()
        .map(|c| (c.packet, &*c.text))
        .collect();
    assert_eq!(
        said,
        [
            (None, "on all"),
            (Some(2), "remark 1"),
            (Some(4), "remark 3")
        ]
    );
    assert_eq!((n, reader.damage()), (5, &[][..]));
}
