//! Writes pcapng: packets of several interfaces in one file, with comments that Wireshark shows beside them.
//!
//! **Source.** draft-ietf-opsawg-pcapng: section header, interface description, name resolution and
//! enhanced packet blocks, and their options.
//! **Units.** Times in nanoseconds since 1970 (`if_tsresol` 9), lengths in bytes.

use super::LinkType;
use std::io::{self, Write};
use std::net::Ipv4Addr;

/// Codes of a block's options; each is written with a length and padding.
mod option {
    /// Option: comment.
    pub const COMMENT: u16 = 1;
    /// Option of a section: program that wrote it.
    pub const SHB_USERAPPL: u16 = 4;
    /// Option of an interface: name.
    pub const IF_NAME: u16 = 2;
    /// Option of an interface: description.
    pub const IF_DESCRIPTION: u16 = 3;
    /// Option of an interface: speed.
    pub const IF_SPEED: u16 = 8;
    /// Option of an interface: resolution of times.
    pub const IF_TSRESOL: u16 = 9;
    /// Option of an interface: length of the frame check sequence.
    pub const IF_FCSLEN: u16 = 13;
    /// Option of a packet: flags.
    pub const EPB_FLAGS: u16 = 2;
}

/// Interface at which packets were captured.
#[derive(Clone, Copy, Debug)]
pub struct Interface<'a> {
    /// Link layer of its packets.
    pub link: LinkType,
    /// Name of the interface.
    pub name: &'a str,
    /// Description of the interface.
    pub description: &'a str,
    /// Bits per second.
    pub speed: Option<u64>,
    /// Most bytes kept of a packet.
    pub snaplen: u32,
}

/// Direction of a packet at its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    In,
    Out,
}

/// Packet to write.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Number of the interface, in the order in which they were written.
    pub interface: u32,
    /// Capture time, UNIX ns.
    pub t_ns: i64,
    /// Length on the wire.
    pub original_len: u32,
    /// Captured bytes.
    pub data: &'a [u8],
    /// Direction of the packet, if it is known.
    pub way: Option<Way>,
    /// Comment beside the packet.
    pub comment: Option<&'a str>,
}

/// A capture being written: one section, little-endian.
pub struct Writer<W> {
    out: W,
    block: Vec<u8>,
}

impl<W: Write> Writer<W> {
    /// Starts a capture. `application` names the program that writes it.
    ///
    /// # Errors
    /// Errors of the output, here and below.
    pub fn new(out: W, application: &str, comment: &str) -> io::Result<Writer<W>> {
        let mut writer = Writer {
            out,
            block: Vec::new(),
        };
        writer.begin(0x0a0d_0d0a);
        writer.words(&[0x1a2b_3c4d, 1, u32::MAX, u32::MAX]);
        writer.option(option::COMMENT, comment.as_bytes());
        writer.option(option::SHB_USERAPPL, application.as_bytes());
        writer.end()?;
        Ok(writer)
    }

    /// Adds an interface.
    ///
    /// # Errors
    /// Errors of [`Writer::new`].
    pub fn interface(&mut self, interface: &Interface) -> io::Result<()> {
        self.begin(1);
        self.words(&[u32::from(interface.link.0), interface.snaplen]);
        self.option(option::IF_NAME, interface.name.as_bytes());
        self.option(option::IF_DESCRIPTION, interface.description.as_bytes());
        if let Some(speed) = interface.speed {
            self.option(option::IF_SPEED, &speed.to_le_bytes());
        }
        self.option(option::IF_TSRESOL, &[9]);
        // Otherwise the bytes behind an IP packet may be taken for a frame check sequence.
        self.option(option::IF_FCSLEN, &[0]);
        self.end()
    }

    /// Writes the names of hosts.
    ///
    /// # Errors
    /// Errors of [`Writer::new`].
    pub fn names<'a>(
        &mut self,
        names: impl Iterator<Item = (Ipv4Addr, &'a str)>,
    ) -> io::Result<()> {
        self.begin(4);
        for (address, name) in names {
            // A record is an address and a name that ends in a zero byte.
            let value = [&address.octets(), name.as_bytes(), &[0]].concat();
            self.option(1, &value);
        }
        self.words(&[0]);
        self.end()
    }

    /// Writes a packet.
    ///
    /// # Errors
    /// Errors of [`Writer::new`].
    pub fn packet(&mut self, packet: &Packet) -> io::Result<()> {
        self.begin(6);
        let t = packet.t_ns as u64;
        self.words(&[
            packet.interface,
            (t >> 32) as u32,
            t as u32,
            packet.data.len() as u32,
            packet.original_len,
        ]);
        self.padded(packet.data);
        if let Some(comment) = packet.comment {
            self.option(option::COMMENT, comment.as_bytes());
        }
        if let Some(way) = packet.way {
            let way: u32 = match way {
                Way::In => 1,
                Way::Out => 2,
            };
            self.option(option::EPB_FLAGS, &way.to_le_bytes());
        }
        self.end()
    }

    /// Writes the bytes still buffered; returns the output.
    ///
    /// # Errors
    /// Errors of [`Writer::new`].
    pub fn finish(mut self) -> io::Result<W> {
        self.out.flush()?;
        Ok(self.out)
    }

    fn begin(&mut self, kind: u32) {
        self.block.clear();
        self.words(&[kind, 0]);
    }

    fn words(&mut self, words: &[u32]) {
        for word in words {
            self.block.extend(word.to_le_bytes());
        }
    }

    fn padded(&mut self, bytes: &[u8]) {
        self.block.extend(bytes);
        self.block.resize(self.block.len().next_multiple_of(4), 0);
    }

    /// Writes an option. An empty one is left out; a long one is truncated to what its length field allows.
    fn option(&mut self, code: u16, value: &[u8]) {
        let value = &value[..value.len().min(65_000)];
        if !value.is_empty() {
            self.block.extend(code.to_le_bytes());
            self.block.extend((value.len() as u16).to_le_bytes());
            self.padded(value);
        }
    }

    /// Ends the block: end of options, the length at both ends; then writes it.
    fn end(&mut self) -> io::Result<()> {
        self.words(&[0]);
        let total = (self.block.len() + 4) as u32;
        self.words(&[total]);
        self.block[4..8].copy_from_slice(&total.to_le_bytes());
        self.out.write_all(&self.block)
    }
}
