//! What the kind `ports` notes: one note for each port that was tried.

use super::Noted;
use serde::{Deserialize, Serialize};
use std::net::SocketAddr;

/// What came back to this end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Back {
    /// What only our server can have said.
    Proof,
    /// Something else.
    Other,
    /// A refusal: TCP reset or ICMP port unreachable.
    Refusal,
    /// An ICMP error that says that nothing leads there.
    Unreachable,
    Nothing,
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PortNote {
    /// `TCP` or `UDP`.
    pub transport: String,
    pub port: u16,
    /// Why the server did not open it; null where it did.
    pub closed: Option<String>,
    /// A connection came about (TCP).
    pub connected: bool,
    pub back: Back,
    /// The server saw something come to that port that was ours, or may have been.
    pub seen: bool,
    /// It carried what we had sent.
    pub whole: bool,
    /// Where the server saw it come from.
    pub from: Option<SocketAddr>,
    /// Where the server saw our control connection come from.
    pub usual: Option<SocketAddr>,
}

impl Noted for PortNote {
    const KIND: &'static str = "ports";
}
