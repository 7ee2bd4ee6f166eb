//! What the kind `middlebox` notes. Bytes are written as text, with `\n`, `\x00` and the like for what is none.

use super::Noted;
use crate::record::Direction;
use serde::{Deserialize, Serialize};

/// What is exchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// HTTP as it should be, with headers of unusual case.
    Http,
    /// Lines that are no HTTP.
    NotHttp,
    /// The string that every antivirus program knows, in a page of HTTP.
    Eicar,
    /// A query and an answer of the DNS.
    Dns,
    /// Bytes that are neither.
    NotDns,
}

/// The first packet of a connection, as far as a box may change it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syn {
    pub seq: u32,
    pub ttl: u8,
    /// Both bits that ask for ECN are set.
    pub ecn: bool,
    /// Such as `mss 1460`, `sack`, `timestamps`, `window scale 7`, `option 30`; in the order of the packet.
    pub options: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum BoxNote {
    Exchange {
        message: Message,
        port: u16,
        /// The same on a port that stands for nothing.
        control: bool,
        /// Why the server did not open the port; null where it did.
        closed: Option<String>,
        connected: bool,
        refused: bool,
        sent: String,
        /// What reached the server; null where nothing did.
        arrived: Option<String>,
        /// What the server said, or would have.
        answer: String,
        /// What came back; null where nothing did.
        returned: Option<String>,
        /// Whether what arrived, and what came back, was the same to the byte.
        arrived_same: bool,
        returned_same: bool,
    },
    FirstPacket {
        port: u16,
        control: bool,
        /// As it left; null where we may not capture.
        sent: Option<Syn>,
        /// As it arrived; null where the server's kernel keeps none.
        arrived: Option<Syn>,
        /// What this host's settings make every connection ask for.
        asked: Vec<String>,
    },
    Fragments {
        direction: Direction,
        /// Payload of the large datagram.
        bytes: u32,
        small: bool,
        large: bool,
    },
}

impl Noted for BoxNote {
    const KIND: &'static str = "middlebox";
}
