//! Notes of the experiment `ports`: one for each port tested.

use super::Noted;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// Reply received by the client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Back {
    /// Reply that only the project's server can have sent.
    Proof,
    /// Any other reply.
    Other,
    /// Refusal: TCP reset or ICMP port unreachable.
    Refusal,
    /// ICMP error: no route to the destination.
    Unreachable,
    Nothing,
}

/// Note about one port: what was seen in any round of knocks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortNote {
    /// `TCP` or `UDP`.
    pub transport: String,
    /// Number of the port.
    pub port: u16,
    /// Reason why the server did not open the port; null if it did.
    pub closed: Option<String>,
    /// True if the TCP connection was established.
    pub connected: bool,
    /// Answer at this end.
    pub back: Back,
    /// True if the server saw traffic to that port that was, or may have been, the client's.
    pub seen: bool,
    /// True if the server received the bytes that the client sent, unchanged.
    pub whole: bool,
    /// Source address seen by the server on this port.
    pub from: Option<SocketAddr>,
    /// Source address seen by the server on the control connection.
    pub usual: Option<SocketAddr>,
    /// Number of rounds of knocks, of which all but the last brought no proof.
    #[serde(default = "one")]
    pub rounds: u32,
}

fn one() -> u32 {
    1
}

impl Noted for PortNote {
    const KIND: &'static str = "ports";
}
