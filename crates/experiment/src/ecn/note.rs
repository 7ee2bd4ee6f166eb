//! Notes of the experiment `ecn`.

use base::noted::Noted;
use base::record::Direction;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Part of a packet that markings are of.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// TOS or traffic-class byte of UDP datagrams.
    #[default]
    Udp,
    /// Flags AE (4), CWR (2) and ECE (1) of SYNs upwards and of SYN-ACKs downwards.
    Handshake,
    /// ECN codepoint in the IP header of TCP segments with data.
    TcpEcn,
    /// Flags AE (4), CWR (2) and ECE (1) of TCP segments with data.
    Ace,
    /// AccECN option of TCP segments with data: 1 for kind 172, 2 for kind 174.
    AccEcn,
}

impl Part {
    /// True for the markings of UDP datagrams.
    pub fn is_udp(&self) -> bool {
        *self == Part::Udp
    }
}

/// Probes to one hop with one marking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSeen {
    /// Hop limit of the probes, counted from the sender.
    pub hop: u8,
    /// Probes sent.
    pub sent: u32,
    /// Router and quoted value of each ICMP error.
    pub quotes: Vec<(IpAddr, u8)>,
    /// Routers whose ICMP errors quote too little of the packet to show the marking.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub vague: Vec<IpAddr>,
    /// Probes among these that were repeated beside unmarked ones and not answered.
    pub tries: u32,
    /// Tries before and after which the hop answered unmarked probes.
    pub proven: u32,
}

impl HopSeen {
    /// True if the hop has answered.
    pub fn answers(&self) -> bool {
        !self.quotes.is_empty() || !self.vague.is_empty()
    }
}

/// Notes of a run of `ecn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum EcnNote {
    /// Version of IP that was not tried, with the reason.
    Untried {
        /// 4 or 6.
        version: u8,
        /// True if only TCP was not tried.
        #[serde(default, skip_serializing_if = "std::ops::Not::not")]
        tcp: bool,
        /// Reason in words.
        why: String,
    },
    /// Datagrams of one marking from end to end.
    Sent {
        /// 4 or 6.
        version: u8,
        /// Direction of the datagrams.
        direction: Direction,
        /// Part of the packets.
        #[serde(default, skip_serializing_if = "Part::is_udp")]
        part: Part,
        /// TOS or traffic-class byte at departure, or the value of another part.
        tos: u8,
        /// Datagrams sent.
        sent: u32,
        /// The same at arrival, and number of packets that arrived with it; null if the receiver's kernel does not tell.
        arrived: Vec<(Option<u8>, u32)>,
    },
    /// Hops in a direction cannot be asked, with the reason.
    Hopless {
        /// 4 or 6.
        version: u8,
        /// Direction of the datagrams.
        direction: Direction,
        /// Part of the packets.
        #[serde(default, skip_serializing_if = "Part::is_udp")]
        part: Part,
        /// Reason in words.
        why: String,
    },
    /// Datagrams of one marking with growing hop limits.
    Traced {
        /// 4 or 6.
        version: u8,
        /// Direction of the datagrams.
        direction: Direction,
        /// Part of the packets.
        #[serde(default, skip_serializing_if = "Part::is_udp")]
        part: Part,
        /// TOS or traffic-class byte at departure, or the value of another part.
        tos: u8,
        /// Lowest hop limit that reaches the other end; null if none did.
        end: Option<u8>,
        /// Quotes that are too short to tell which datagram they are of.
        short: u32,
        /// Hops up to the end of the path.
        hops: Vec<HopSeen>,
    },
}

impl EcnNote {
    /// Version of IP, direction and part that the note is about; null if it is about both directions.
    pub fn way(&self) -> Option<(u8, Direction, Part)> {
        match self {
            EcnNote::Untried { .. } => None,
            EcnNote::Sent {
                version,
                direction,
                part,
                ..
            }
            | EcnNote::Hopless {
                version,
                direction,
                part,
                ..
            }
            | EcnNote::Traced {
                version,
                direction,
                part,
                ..
            } => Some((*version, *direction, *part)),
        }
    }
}

impl Noted for EcnNote {
    const KIND: &'static str = "ecn";
}
