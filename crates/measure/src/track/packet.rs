//! A TCP packet as the tracker needs it, independent of the buffer it was read from.
//!
//! **Method.** Packets are collected in a batch and then followed. Collecting is a short loop that does not wait for
//! the effect of the previous packet on its connection. With many connections, the memory of the whole batch is fetched
//! at once instead of one after the other. Packets between the same two ends share one [`Flow`] of the batch, so their
//! ends are hashed and their connection is looked up once per batch.

use super::key::{Key, Seeds};
use crate::capture::frame::{Frame, Options, Tcp, flag, interface_place};
use crate::capture::{LinkType, Record};

#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Packet {
    /// Time, ns.
    pub t: i64,
    /// Sequence number.
    pub seq: u32,
    /// Acknowledgement number.
    pub ack: u32,
    /// Number in the capture, from 1; 0 beyond what 32 bits count.
    pub frame: u32,
    /// Capture point: equal packets at two points are a single packet that passed both.
    pub place: u32,
    /// Bytes of data on the wire.
    pub payload: u32,
    /// Sequence numbers that it takes: those of its data, SYN and FIN.
    pub occupied: u32,
    /// IP identification; 0 if there is none.
    pub id: u32,
    /// TSval, and TSecr in `echo`; 0 if absent. They are kept apart, because a value written in parts is slow to read
    /// as a whole.
    pub stamp: u32,
    echo: u32,
    stamped: bool,
    /// Window field.
    pub window: u16,
    /// Checksum.
    pub checksum: u16,
    /// Index of its other options in the batch, plus one; 0 if it has none.
    options: u16,
    /// Index of its flow in the batch.
    pub flow: u16,
    /// Flags of TCP.
    pub flags: u8,
    /// DSCP and ECN.
    pub traffic_class: u8,
    /// True if it came from the higher end of the key.
    pub swapped: bool,
}

impl Packet {
    /// True if the flag is set.
    #[inline(always)]
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    /// TSval and TSecr.
    #[inline(always)]
    pub fn timestamps(&self) -> Option<(u32, u32)> {
        self.stamped.then_some((self.stamp, self.echo))
    }

    /// Options of the packet: all of them, or none if it has timestamps alone.
    #[inline(always)]
    pub fn rest<'a>(&self, options: &'a [Options]) -> &'a Options {
        match usize::from(self.options).checked_sub(1) {
            Some(place) => &options[place],
            None => &NO_OPTIONS,
        }
    }

    /// True if the packet is marked CE (RFC 3168).
    #[inline(always)]
    pub fn is_marked(&self) -> bool {
        self.traffic_class & 3 == 3
    }
}

#[inline(always)]
fn numbered(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(0)
}

/// Capture point as one number: hops left, VLAN (12 bits) and interface (11 bits).
#[inline(always)]
fn place(ttl: u8, vlan: u16, interface: u16) -> u32 {
    u32::from(interface & 0x7ff) << 20 | u32::from(vlan & 0xfff) << 8 | u32::from(ttl)
}

/// Sequence numbers that SYN (the second bit) and FIN (the first) take.
#[inline(always)]
fn control(flags: u8) -> u32 {
    u32::from(flags & flag::FIN) + u32::from(flags >> 1 & 1)
}

/// Options of most packets, apart from timestamps.
static NO_OPTIONS: Options = Options::NONE;

/// Two ends of packets in a batch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Flow {
    /// Endpoints of the flow.
    pub key: Key,
    /// Hash of the key.
    pub hash: u64,
    /// Last known place of the connection in the table, and the connection's number.
    pub place: u32,
    /// Number of the connection.
    pub number: u32,
    /// Index among the remembered flows.
    known: u16,
}

/// Place of no connection.
const NOWHERE: u32 = u32::MAX;

/// Flow of this batch or an earlier one, and its index in the latest batch that held it.
#[derive(Clone, Copy, Debug)]
struct Known {
    flow: Flow,
    /// Ends over IPv4, as [`Key::of_ipv4`] takes them; for other flows a value that no packet has.
    ends: [u64; 2],
    batch: u64,
    at: u16,
}

/// Value lower than any end.
const NO_ENDS: [u64; 2] = [u64::MAX, 0];

/// Flows remembered from batch to batch. With more connections than this, memory access takes most of the time.
const KNOWN: usize = 64;

/// Packets that were collected and not yet followed.
#[derive(Debug)]
pub(super) struct Batch {
    packets: [Packet; BATCH],
    len: usize,
    /// Flows of the batch.
    pub flows: Vec<Flow>,
    options: Vec<Options>,
    known: [Known; KNOWN],
    /// Number of the batch.
    number: u64,
}

/// Packets of a batch: they fit into a core's nearest cache.
pub(super) const BATCH: usize = 64;

impl Default for Batch {
    fn default() -> Batch {
        let flow = Flow {
            key: Key::IMPOSSIBLE,
            hash: 0,
            place: NOWHERE,
            number: 0,
            known: 0,
        };
        let known = Known {
            flow,
            ends: NO_ENDS,
            batch: 0,
            at: 0,
        };
        Batch {
            packets: [Packet::default(); BATCH],
            len: 0,
            flows: Vec::with_capacity(BATCH),
            options: Vec::new(),
            known: [known; KNOWN],
            number: 1,
        }
    }
}

impl Batch {
    /// Index in the batch of the flow between two ends over IPv4.
    #[inline(always)]
    fn flow_ipv4(&mut self, ends: [u64; 2], seeds: &Seeds) -> u16 {
        // An attacker can choose ends that collide here: they are hashed then.
        let mixed = ends[0] ^ ends[1] ^ (ends[0] ^ ends[1]) >> 6;
        let place = mixed as usize % KNOWN;
        let known = &self.known[place];
        if known.ends == ends && known.batch == self.number {
            return known.at;
        }
        self.first_of_flow(place, &Key::of_ipv4(ends), ends, seeds)
    }

    fn flow(&mut self, key: &Key, seeds: &Seeds) -> u16 {
        let place = key.hash(seeds) as usize % KNOWN;
        let known = &self.known[place];
        if known.flow.key == *key && known.batch == self.number {
            return known.at;
        }
        self.first_of_flow(place, key, NO_ENDS, seeds)
    }

    #[inline(never)]
    fn first_of_flow(&mut self, place: usize, key: &Key, ends: [u64; 2], seeds: &Seeds) -> u16 {
        let known = &mut self.known[place];
        if known.flow.key != *key {
            known.flow = Flow {
                key: *key,
                hash: key.hash(seeds),
                known: place as u16,
                place: NOWHERE,
                number: 0,
            };
        }
        known.ends = ends;
        known.batch = self.number;
        known.at = self.flows.len() as u16;
        self.flows.push(known.flow);
        known.at
    }

    /// Adds a packet to the batch.
    #[inline(always)]
    pub fn push(
        &mut self,
        (t, number): (i64, u64),
        frame: &Frame<'_>,
        tcp: &Tcp<'_>,
        seeds: &Seeds,
    ) {
        let (key, swapped) = Key::new(&frame.src, tcp.src_port, &frame.dst, tcp.dst_port);
        let (mut stamped, mut stamp, mut echo, mut options) = (false, 0, 0, 0);
        if let Some((value, answer)) = tcp.timestamps_alone() {
            (stamped, stamp, echo) = (true, value, answer);
        } else if !tcp.options.is_empty() || tcp.options_cut {
            let o = self.other_options(tcp);
            if let Some((value, answer)) = o.timestamps {
                (stamped, stamp, echo) = (true, value, answer);
            }
            options = self.options.len() as u16;
        }
        let flow = self.flow(&key, seeds);
        self.packets[self.len] = Packet {
            t,
            seq: tcp.seq,
            ack: tcp.ack,
            frame: numbered(number),
            place: place(frame.ttl, frame.vlan, frame.place),
            payload: tcp.payload,
            // No packet holds 4 GiB.
            occupied: tcp.payload.saturating_add(control(tcp.flags)),
            id: frame.id,
            stamp,
            echo,
            stamped,
            window: tcp.window,
            checksum: tcp.checksum,
            options,
            flow,
            flags: tcp.flags,
            traffic_class: frame.traffic_class,
            swapped,
        };
        self.len += 1;
    }

    /// Collects the most common record: complete TCP over IPv4 over Ethernet, without options or with timestamps alone.
    /// `false` for anything else.
    #[inline(always)]
    pub fn push_plain(
        &mut self,
        (t, number): (i64, u64),
        record: &Record<'_>,
        seeds: &Seeds,
    ) -> bool {
        let Some(d) = record.data.first_chunk::<54>() else {
            return false;
        };
        let two = |at: usize| u16::from_be_bytes([d[at], d[at + 1]]);
        let four = |at: usize| u32::from_be_bytes([d[at], d[at + 1], d[at + 2], d[at + 3]]);
        let (ip_len, header) = (u32::from(two(16)), u32::from(d[46] >> 4) * 4);
        // A header of 20 bytes, no fragment; RFC 791 section 3.1.
        let plain = two(12) == 0x0800 && d[14] == 0x45 && two(20) & 0x3fff == 0 && d[23] == 6;
        if record.link != LinkType::ETHERNET || !plain || header < 20 || ip_len < 20 + header {
            return false;
        }
        let (mut stamp, mut echo) = (0, 0);
        if header != 20 {
            let Some(o) = record.data[54..].first_chunk::<12>() else {
                return false;
            };
            let four = |at: usize| u32::from_be_bytes([o[at], o[at + 1], o[at + 2], o[at + 3]]);
            // Two no-operations, then timestamps (RFC 7323 appendix A).
            if header != 32 || four(0) != 0x0101_080a {
                return false;
            }
            (stamp, echo) = (four(4), four(8));
        }
        let payload = ip_len - 20 - header;
        let end =
            |address: usize, port: usize| u64::from(four(address)) << 16 | u64::from(two(port));
        let (from, to) = (end(26, 34), end(30, 36));
        let swapped = from > to;
        let flow = self.flow_ipv4([from.min(to), from.max(to)], seeds);
        self.packets[self.len] = Packet {
            t,
            seq: four(38),
            ack: four(42),
            frame: numbered(number),
            place: place(d[22], 0, interface_place(record.interface)),
            payload,
            occupied: payload + control(d[47]),
            id: u32::from(two(18)),
            stamp,
            echo,
            stamped: header != 20,
            window: two(48),
            checksum: two(50),
            options: 0,
            flow,
            flags: d[47],
            traffic_class: d[15],
            swapped,
        };
        self.len += 1;
        true
    }

    #[inline(never)]
    fn other_options(&mut self, tcp: &Tcp<'_>) -> &Options {
        self.options.push(tcp.parse_options());
        self.options.last().expect("it was just put there")
    }

    /// Packets, their flows, and the options for [`Packet::rest`].
    pub fn parts(&mut self) -> (&mut [Packet], &mut [Flow], &[Options]) {
        (
            &mut self.packets[..self.len],
            &mut self.flows,
            &self.options,
        )
    }

    /// True if no further packet fits.
    #[inline(always)]
    pub fn is_full(&self) -> bool {
        self.len >= BATCH
    }

    /// Starts the next batch; the places of connections are remembered.
    pub fn clear(&mut self) {
        for (at, flow) in self.flows.iter().enumerate() {
            let known = &mut self.known[usize::from(flow.known) % KNOWN];
            if known.batch == self.number && usize::from(known.at) == at {
                (known.flow.place, known.flow.number) = (flow.place, flow.number);
            }
        }
        self.number += 1;
        self.len = 0;
        self.flows.clear();
        self.options.clear();
    }
}
