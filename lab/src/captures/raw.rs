//! Packets of a simulated capture, to be changed before `tailback trace` reads them.

use measure::capture::pcapng::{self, Interface, Writer};
use measure::capture::{LinkType, Reader};

/// Lengths of the Ethernet and IPv4 headers of a simulated capture.
pub const ETHERNET: usize = 14;
pub const IPV4: usize = 20;

pub struct Packet {
    pub t_ns: i64,
    pub original_len: u32,
    pub data: Vec<u8>,
}

impl Packet {
    pub fn number<const N: usize>(&self, at: usize) -> [u8; N] {
        std::array::from_fn(|i| self.data[at + i])
    }
}

/// The packets of a capture file.
///
/// # Errors
/// A capture that cannot be read.
pub fn read(file: &[u8]) -> anyhow::Result<Vec<Packet>> {
    let mut packets = Vec::new();
    let mut reader = Reader::new(file)?;
    while let Some(record) = reader.next_record()? {
        packets.push(Packet {
            t_ns: record.t_ns.unwrap_or(0),
            original_len: record.original_len,
            data: record.data.to_vec(),
        });
    }
    Ok(packets)
}

/// A capture file of packets.
///
/// # Errors
/// A capture that cannot be written.
pub fn write(packets: &[Packet]) -> anyhow::Result<Vec<u8>> {
    let mut writer = Writer::new(Vec::new(), "tailback-lab", "a changed capture")?;
    writer.interface(&Interface {
        link: LinkType::ETHERNET,
        name: "host",
        description: "",
        speed: None,
        snaplen: super::taken::SNAPLEN,
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
