//! Packet captures. Reading: pcap and pcapng files as records ([`Reader`]), records as headers ([`frame`]). Writing:
//! headers as frames ([`compose`]), frames as a file ([`pcapng`]).

pub mod compose;
pub mod frame;
pub mod pcapng;
mod reader;

pub use reader::{CaptureError, Comment, Damage, Reader, Record};

/// Link-layer header type of a record, by its registered number.
///
/// **Source.** The registry of link-layer header types (draft-ietf-opsawg-pcaplinktype).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct LinkType(pub u16);

impl LinkType {
    /// BSD loopback, in the host's byte order.
    pub const NULL: LinkType = LinkType(0);
    /// Ethernet.
    pub const ETHERNET: LinkType = LinkType(1);
    /// PPP.
    pub const PPP: LinkType = LinkType(9);
    /// FDDI.
    pub const FDDI: LinkType = LinkType(10);
    /// PPP in HDLC-like framing.
    pub const PPP_HDLC: LinkType = LinkType(50);
    /// PPP over Ethernet.
    pub const PPP_ETHER: LinkType = LinkType(51);
    /// Raw IP.
    pub const RAW: LinkType = LinkType(101);
    /// OpenBSD loopback, in network byte order.
    pub const LOOP: LinkType = LinkType(108);
    /// Linux cooked capture.
    pub const LINUX_SLL: LinkType = LinkType(113);
    /// Raw IPv4.
    pub const IPV4: LinkType = LinkType(228);
    /// Raw IPv6.
    pub const IPV6: LinkType = LinkType(229);
    /// Linux cooked capture, version 2.
    pub const LINUX_SLL2: LinkType = LinkType(276);
}
