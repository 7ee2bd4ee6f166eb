//! Notes of the experiment `middlebox`. Bytes are written as text; bytes that are not text are escaped as `\n`, `\x00`.

use super::Noted;
use crate::record::Direction;
use serde::{Deserialize, Serialize};

/// Message exchanged with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Message {
    /// Valid HTTP, with headers of unusual case.
    Http,
    /// Lines that are not HTTP.
    NotHttp,
    /// EICAR test string, which every antivirus program detects, in an HTTP page.
    Eicar,
    /// DNS query and response.
    Dns,
    /// Bytes that are not a DNS message.
    NotDns,
}

/// First packet of a connection: the fields that a middlebox may change.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Syn {
    /// Sequence number.
    pub seq: u32,
    /// Time to live, or hop limit.
    pub ttl: u8,
    /// True if both bits that negotiate ECN are set.
    pub ecn: bool,
    /// TCP options in packet order: `mss 1460`, `sack`, `timestamps`, `window scale 7`, `option 30`.
    pub options: Vec<String>,
}

/// Notes of a run of `middlebox`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum BoxNote {
    Exchange {
        message: Message,
        port: u16,
        /// True for the control: the same message on a port without a well-known service.
        control: bool,
        /// Reason why the server did not open the port; null if it did.
        closed: Option<String>,
        connected: bool,
        refused: bool,
        sent: String,
        /// Bytes that reached the server; null if none did.
        arrived: Option<String>,
        /// Bytes that the server replied, or would have replied.
        answer: String,
        /// Bytes that came back; null if none did.
        returned: Option<String>,
        /// True if the bytes that arrived were identical; `returned_same` says this of the reply.
        arrived_same: bool,
        returned_same: bool,
    },
    FirstPacket {
        port: u16,
        control: bool,
        /// Packet as sent; null if this host may not capture.
        sent: Option<Syn>,
        /// Packet as received; null if the server's kernel keeps none.
        arrived: Option<Syn>,
        /// Options that this host's settings put into every SYN.
        asked: Vec<String>,
    },
    Fragments {
        direction: Direction,
        /// Payload of the large datagram, bytes.
        bytes: u32,
        small: bool,
        large: bool,
    },
}

impl Noted for BoxNote {
    const KIND: &'static str = "middlebox";
}
