//! Segmentation offload: a host hands its card packets larger than a segment, and takes such packets from it. A capture at
//! that host holds those.
//!
//! **Source.** Linux, Documentation/networking/segmentation-offloads.rst: generic receive offload joins segments of a flow
//! that follow each other with equal headers; the result has at most 64 KiB.

use measure::capture::pcapng::{self, Interface, Writer};
use measure::capture::{LinkType, Reader};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Gap below which segments that leave were one packet: they follow each other as fast as the card sends.
const LEAVING_NS: i64 = 10_000;
/// Time for which the card holds back segments that arrive.
const ARRIVING_NS: i64 = 100_000;
/// Largest IPv4 packet.
const MOST_BYTES: usize = 65_535;

/// Lengths of the Ethernet and IPv4 headers of a simulated capture.
const ETHERNET: usize = 14;
const IPV4: usize = 20;
const TCP: usize = ETHERNET + IPV4;

struct Packet {
    t_ns: i64,
    /// Time of its latest segment.
    last_ns: i64,
    original_len: u32,
    data: Vec<u8>,
}

impl Packet {
    fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.data[at + i])
    }

    fn total(&self) -> usize {
        usize::from(u16::from_be_bytes(self.number(ETHERNET + 2)))
    }

    fn payload(&self) -> usize {
        let header = usize::from(self.data[TCP + 12] >> 4) * 4;
        self.total() - IPV4 - header
    }

    fn seq(&self) -> u32 {
        u32::from_be_bytes(self.number(TCP + 4))
    }

    /// Addresses, ports, acknowledgement, flags but PSH, window, and options.
    fn rest(&self) -> Vec<u8> {
        let header = usize::from(self.data[TCP + 12] >> 4) * 4;
        let mut rest = self.data[ETHERNET + 12..TCP + 4].to_vec();
        rest.extend(&self.data[TCP + 8..TCP + 13]);
        rest.push(self.data[TCP + 13] & !PSH);
        rest.extend(&self.data[TCP + 14..TCP + 16]);
        rest.extend(&self.data[TCP + 20..TCP + header]);
        rest
    }

    /// Appends the segment that follows.
    fn join(&mut self, next: &Packet) {
        let payload = next.payload();
        let total = (self.total() + payload) as u16;
        self.data[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
        self.data[TCP + 13] |= next.data[TCP + 13] & PSH;
        self.original_len += payload as u32;
        self.last_ns = next.t_ns;
    }
}

const PSH: u8 = 8;
const SYN_FIN_RST: u8 = 7;

/// A capture as a host with offload would have taken it.
///
/// # Errors
/// A capture that cannot be read.
pub fn joined(file: &[u8], host: Ipv4Addr) -> anyhow::Result<Vec<u8>> {
    let mut packets: Vec<Packet> = Vec::new();
    // The last packet of each flow, by addresses and ports.
    let mut latest: HashMap<[u8; 12], usize> = HashMap::new();
    let mut reader = Reader::new(file)?;
    while let Some(record) = reader.next_record()? {
        let t_ns = record.t_ns.unwrap_or(0);
        let packet = Packet {
            t_ns,
            last_ns: t_ns,
            original_len: record.original_len,
            data: record.data.to_vec(),
        };
        let flow = packet.number(ETHERNET + 12);
        let leaves = packet.number(ETHERNET + 12) == host.octets();
        let gap_ns = if leaves { LEAVING_NS } else { ARRIVING_NS };
        if let Some(before) = latest.get(&flow).map(|at| &mut packets[*at]) {
            let follows = before.seq().wrapping_add(before.payload() as u32) == packet.seq();
            let soon = match leaves {
                true => t_ns - before.last_ns <= gap_ns,
                false => t_ns - before.t_ns <= gap_ns,
            };
            let plain =
                [&*before, &packet].map(|p| p.payload() > 0 && p.data[TCP + 13] & SYN_FIN_RST == 0);
            let open = before.data[TCP + 13] & PSH == 0;
            if follows
                && soon
                && open
                && plain == [true; 2]
                && before.total() + packet.payload() <= MOST_BYTES
                && before.rest() == packet.rest()
            {
                before.join(&packet);
                continue;
            }
        }
        latest.insert(flow, packets.len());
        packets.push(packet);
    }
    // What arrives is captured when it is handed up.
    for packet in &mut packets {
        if packet.number(ETHERNET + 12) != host.octets() {
            packet.t_ns = packet.last_ns;
        }
    }
    packets.sort_by_key(|p| p.t_ns);
    write(&packets)
}

fn write(packets: &[Packet]) -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), "tailback-lab", "segmentation offload")?;
    writer.interface(&Interface {
        link: LinkType::ETHERNET,
        name: "host",
        description: "",
        speed: None,
        snaplen: super::SNAPLEN,
    })?;
    for packet in packets {
        writer.packet(&pcapng::Packet {
            interface: 0,
            t_ns: packet.t_ns,
            original_len: packet.original_len,
            data: &packet.data,
            way: None,
            comment: None,
        })?;
    }
    Ok(writer.finish()?)
}
