//! Frames and capture files, built byte by byte.

use measure::capture::{LinkType, Record};
use measure::track::{Settings, Tracker, Traffic};

/// Tracks these packets, of which so many bytes were captured.
pub fn track(packets: &[(i64, Tcp)], snaplen: usize) -> Traffic {
    let mut tracker = Tracker::new(Settings::default());
    for (t, p) in packets {
        let data = p.ethernet();
        tracker.record(&Record {
            t_ns: Some(*t),
            link: LinkType::ETHERNET,
            interface: 0,
            original_len: data.len() as u32,
            data: &data[..data.len().min(snaplen)],
        });
    }
    tracker.finish()
}

pub const FIN: u8 = 1;
pub const SYN: u8 = 2;
pub const RST: u8 = 4;
pub const PSH: u8 = 8;
pub const ACK: u8 = 16;

/// A TCP packet over IPv4 and Ethernet; its payload is zeros.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// From the first host to the second, or back.
    pub back: bool,
    pub seq: u32,
    pub ack: u32,
    pub flags: u8,
    pub window: u16,
    pub payload: usize,
    pub options: Vec<u8>,
    pub id: u16,
    pub ttl: u8,
}

impl Tcp {
    pub fn there(seq: u32, ack: u32, payload: usize) -> Tcp {
        Tcp {
            back: false,
            seq,
            ack,
            flags: ACK,
            window: 0xffff,
            payload,
            options: Vec::new(),
            id: 0,
            ttl: 64,
        }
    }
    pub fn back(seq: u32, ack: u32, payload: usize) -> Tcp {
        Tcp {
            back: true,
            ..Tcp::there(seq, ack, payload)
        }
    }
    pub fn flags(self, flags: u8) -> Tcp {
        Tcp { flags, ..self }
    }
    pub fn id(self, id: u16) -> Tcp {
        Tcp { id, ..self }
    }
    pub fn window(self, window: u16) -> Tcp {
        Tcp { window, ..self }
    }
    pub fn options(self, options: &[u8]) -> Tcp {
        assert!(options.len().is_multiple_of(4));
        Tcp {
            options: options.to_vec(),
            ..self
        }
    }
    pub fn sack(self, blocks: &[(u32, u32)]) -> Tcp {
        let mut o = vec![1, 1, 5, 2 + 8 * blocks.len() as u8];
        for (l, r) in blocks {
            o.extend(l.to_be_bytes());
            o.extend(r.to_be_bytes());
        }
        self.options(&o)
    }
    pub fn timestamps(self, value: u32, echo: u32) -> Tcp {
        let mut o = vec![1, 1, 8, 10];
        o.extend(value.to_be_bytes());
        o.extend(echo.to_be_bytes());
        self.options(&o)
    }
    /// These options and those that it has.
    pub fn and(self, other: Tcp) -> Tcp {
        let both = [self.options.as_slice(), other.options.as_slice()].concat();
        self.options(&both)
    }

    /// The IPv4 packet.
    pub fn ip(&self) -> Vec<u8> {
        let header = 20 + self.options.len();
        let total = 20 + header + self.payload;
        let (src, dst) = ([10, 0, 0, 1], [10, 0, 0, 2]);
        let (src, dst) = if self.back { (dst, src) } else { (src, dst) };
        let (from, to): (u16, u16) = if self.back {
            (443, 50_000)
        } else {
            (50_000, 443)
        };
        let mut p = vec![0x45, 0];
        p.extend((total as u16).to_be_bytes());
        p.extend(self.id.to_be_bytes());
        p.extend([0x40, 0, self.ttl, 6, 0, 0]);
        p.extend(src);
        p.extend(dst);
        p.extend(from.to_be_bytes());
        p.extend(to.to_be_bytes());
        p.extend(self.seq.to_be_bytes());
        p.extend(self.ack.to_be_bytes());
        p.extend([(header as u8 / 4) << 4, self.flags]);
        p.extend(self.window.to_be_bytes());
        p.extend([0, 0, 0, 0]);
        p.extend(&self.options);
        p.extend(vec![0; self.payload]);
        p
    }

    pub fn ethernet(&self) -> Vec<u8> {
        ethernet(0x0800, &self.ip())
    }
}

pub fn ethernet(kind: u16, payload: &[u8]) -> Vec<u8> {
    let mut f = vec![2; 12];
    f.extend(kind.to_be_bytes());
    f.extend(payload);
    f
}

/// A file of the classic format. `big`: big-endian; `nanos`: nanoseconds.
pub fn pcap(
    big: bool,
    nanos: bool,
    link: u32,
    snaplen: usize,
    packets: &[(i64, Vec<u8>)],
) -> Vec<u8> {
    let word = |v: u32| {
        if big {
            v.to_be_bytes()
        } else {
            v.to_le_bytes()
        }
    };
    let mut out = Vec::new();
    out.extend(word(if nanos { 0xa1b2_3c4d } else { 0xa1b2_c3d4 }));
    out.extend(word(if big { 0x0002_0004 } else { 0x0004_0002 }));
    out.extend([0; 8]);
    out.extend(word(snaplen as u32));
    out.extend(word(link));
    for (t, data) in packets {
        let kept = data.len().min(snaplen);
        out.extend(word((t / 1_000_000_000) as u32));
        let fraction = t % 1_000_000_000 / if nanos { 1 } else { 1000 };
        out.extend(word(fraction as u32));
        out.extend(word(kept as u32));
        out.extend(word(data.len() as u32));
        out.extend(&data[..kept]);
    }
    out
}

pub const MS: i64 = 1_000_000;
pub const T0: i64 = 1_700_000_000_000_000_000;
