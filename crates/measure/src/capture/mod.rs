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
    pub const NULL: LinkType = LinkType(0);
    pub const ETHERNET: LinkType = LinkType(1);
    pub const PPP: LinkType = LinkType(9);
    pub const FDDI: LinkType = LinkType(10);
    pub const PPP_HDLC: LinkType = LinkType(50);
    pub const PPP_ETHER: LinkType = LinkType(51);
    pub const RAW: LinkType = LinkType(101);
    pub const LOOP: LinkType = LinkType(108);
    pub const LINUX_SLL: LinkType = LinkType(113);
    pub const IPV4: LinkType = LinkType(228);
    pub const IPV6: LinkType = LinkType(229);
    pub const LINUX_SLL2: LinkType = LinkType(276);
}
