//! Notes of the experiment `ecn`.

use base::noted::Noted;
use base::record::Direction;
use serde::{Deserialize, Serialize};
use std::net::IpAddr;

/// Probes to one hop with one marking.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HopSeen {
    /// Hop limit of the probes, counted from the sender.
    pub hop: u8,
    /// Probes sent.
    pub sent: u32,
    /// Router and quoted TOS byte of each ICMP error.
    pub quotes: Vec<(IpAddr, u8)>,
    /// Probes among these that were repeated beside unmarked ones and not answered.
    pub tries: u32,
    /// Tries before and after which the hop answered unmarked probes.
    pub proven: u32,
}

/// Notes of a run of `ecn`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "note", rename_all = "snake_case")]
pub enum EcnNote {
    /// Version of IP that was not tried, with the reason.
    Untried {
        /// 4 or 6.
        version: u8,
        /// Reason in words.
        why: String,
    },
    /// Datagrams of one marking from end to end.
    Sent {
        /// 4 or 6.
        version: u8,
        /// Direction of the datagrams.
        direction: Direction,
        /// TOS or traffic-class byte at departure.
        tos: u8,
        /// Datagrams sent.
        sent: u32,
        /// TOS byte at arrival and number of datagrams that arrived with it; null if the receiver's kernel does not tell.
        arrived: Vec<(Option<u8>, u32)>,
    },
    /// Hops in a direction cannot be asked, with the reason.
    Hopless {
        /// 4 or 6.
        version: u8,
        /// Direction of the datagrams.
        direction: Direction,
        /// Reason in words.
        why: String,
    },
    /// Datagrams of one marking with growing hop limits.
    Traced {
        /// 4 or 6.
        version: u8,
        /// Direction of the datagrams.
        direction: Direction,
        /// TOS or traffic-class byte at departure.
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
    /// Version of IP and direction that the note is about; null if it is about both directions.
    pub fn way(&self) -> Option<(u8, Direction)> {
        match self {
            EcnNote::Untried { .. } => None,
            EcnNote::Sent {
                version, direction, ..
            }
            | EcnNote::Hopless {
                version, direction, ..
            }
            | EcnNote::Traced {
                version, direction, ..
            } => Some((*version, *direction)),
        }
    }
}

impl Noted for EcnNote {
    const KIND: &'static str = "ecn";
}
