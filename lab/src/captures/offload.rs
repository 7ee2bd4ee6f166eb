//! Segmentation offload: a host hands its card packets larger than a segment, and takes such packets from it. A capture at
//! that host holds those.
//!
//! **Source.** Linux, Documentation/networking/segmentation-offloads.rst: generic receive offload joins segments of a flow
//! that follow each other with equal headers; the result has at most 64 KiB.

use super::raw::{ETHERNET, IPV4, Packet};
use std::collections::HashMap;
use std::net::Ipv4Addr;

/// Gap below which segments that leave were one packet: they follow each other as fast as the card sends.
const LEAVING_NS: i64 = 10_000;
/// Time for which the card holds back segments that arrive.
const ARRIVING_NS: i64 = 100_000;
/// Largest IPv4 packet.
const MOST_BYTES: usize = 65_535;

const TCP: usize = ETHERNET + IPV4;

/// A packet as a host hands it to its card, or takes it from there.
struct Joined {
    packet: Packet,
    /// Time of its latest segment.
    last_ns: i64,
}

impl Joined {
    fn total(&self) -> usize {
        usize::from(u16::from_be_bytes(self.packet.number(ETHERNET + 2)))
    }

    fn payload(&self) -> usize {
        let header = usize::from(self.packet.data[TCP + 12] >> 4) * 4;
        self.total() - IPV4 - header
    }

    fn seq(&self) -> u32 {
        u32::from_be_bytes(self.packet.number(TCP + 4))
    }

    fn flags(&self) -> u8 {
        self.packet.data[TCP + 13]
    }

    /// Addresses, ports, acknowledgement, flags but PSH, window, and options.
    fn rest(&self) -> Vec<u8> {
        let header = usize::from(self.packet.data[TCP + 12] >> 4) * 4;
        let mut rest = self.packet.data[ETHERNET + 12..TCP + 4].to_vec();
        rest.extend(&self.packet.data[TCP + 8..TCP + 13]);
        rest.push(self.packet.data[TCP + 13] & !PSH);
        rest.extend(&self.packet.data[TCP + 14..TCP + 16]);
        rest.extend(&self.packet.data[TCP + 20..TCP + header]);
        rest
    }

    /// Appends the segment that follows.
    fn join(&mut self, next: &Joined) {
        let payload = next.payload();
        let total = (self.total() + payload) as u16;
        self.packet.data[ETHERNET + 2..ETHERNET + 4].copy_from_slice(&total.to_be_bytes());
        self.packet.data[TCP + 13] |= next.packet.data[TCP + 13] & PSH;
        self.packet.original_len += payload as u32;
        self.last_ns = next.last_ns;
    }
}

const PSH: u8 = 8;
const SYN_FIN_RST: u8 = 7;

/// Addresses and ports of the packets that answer these.
fn other_way(flow: [u8; 12]) -> [u8; 12] {
    let mut answer = flow;
    answer[..8].rotate_left(4);
    answer[8..].rotate_left(2);
    answer
}

/// Packets as a host with offload captures them.
pub fn joined(packets: Vec<Packet>, host: Ipv4Addr) -> Vec<Packet> {
    let mut all: Vec<Joined> = Vec::new();
    // The last packet of each flow, by addresses and ports.
    let mut latest: HashMap<[u8; 12], usize> = HashMap::new();
    for packet in packets {
        let t_ns = packet.t_ns;
        let flow = packet.number(ETHERNET + 12);
        let leaves = packet.number(ETHERNET + 12) == host.octets();
        if leaves {
            // The host had taken what it answers.
            latest.remove(&other_way(flow));
        }
        let next = Joined {
            packet,
            last_ns: t_ns,
        };
        if let Some(before) = latest.get(&flow).map(|at| &mut all[*at]) {
            let follows = before.seq().wrapping_add(before.payload() as u32) == next.seq();
            let soon = match leaves {
                true => t_ns - before.last_ns <= LEAVING_NS,
                false => t_ns - before.packet.t_ns <= ARRIVING_NS,
            };
            let plain = [&*before, &next].map(|j| j.payload() > 0 && j.flags() & SYN_FIN_RST == 0);
            let open = before.flags() & PSH == 0;
            if follows
                && soon
                && open
                && plain == [true; 2]
                && before.total() + next.payload() <= MOST_BYTES
                && before.rest() == next.rest()
            {
                before.join(&next);
                continue;
            }
        }
        latest.insert(flow, all.len());
        all.push(next);
    }
    // What arrives is captured when it is handed up.
    for joined in &mut all {
        if joined.packet.number(ETHERNET + 12) != host.octets() {
            joined.packet.t_ns = joined.last_ns;
        }
    }
    all.sort_by_key(|j| j.packet.t_ns);
    all.into_iter().map(|j| j.packet).collect()
}
