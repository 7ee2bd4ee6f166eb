//! Errors of probing, with their remedies.

use base::Duration;
use measure::handshake::Failure;
use measure::wire::{Refusal, VERSION};
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use thiserror::Error;

#[derive(Clone, Debug, Error)]
pub enum ProbeError {
    #[error("cannot {what} for probing {server}: {source}")]
    Local {
        what: &'static str,
        server: SocketAddr,
        source: Arc<io::Error>,
    },
    #[error("nothing listens on UDP port {} of {} (ICMP port unreachable). Start \"tailback serve\" there, or check the port.", server.port(), server.ip())]
    PortClosed { server: SocketAddr },
    #[error("cannot reach {server}: {why}. Check the address and the route to it.")]
    Unreachable { server: SocketAddr, why: String },
    #[error("{server} answered none of {sent} UDP datagrams in {waited}. It may be down, or a firewall drops UDP port {}: open it, or start \"tailback serve\" on another port.", server.port())]
    Silent {
        server: SocketAddr,
        sent: u32,
        waited: Duration,
    },
    #[error(
        "{server} refuses us: wrong key. It has no such user and key; a key may have expired. \"tailback serve keys list\" shows the users there."
    )]
    WrongKey { server: SocketAddr },
    #[error("{server} serves only users with a key: give one with --key-file.")]
    KeyNeeded { server: SocketAddr },
    #[error(
        "{server} has no keys, and one was given. Leave --key-file out, or start \"tailback serve\" with --keys."
    )]
    NoKeyThere { server: SocketAddr },
    #[error(
        "what answers at {server} does not know our key: its answers are signed wrongly. Check the key and the address."
    )]
    Untrusted { server: SocketAddr },
    #[error("{server} speaks version {theirs} of the probe protocol, we speak {ours}. Bring both ends to one release.", ours = VERSION)]
    Version { server: SocketAddr, theirs: u8 },
    #[error(
        "{server} already has {limit} sessions with this address, as many as it allows. Wait five minutes for old ones to expire, or raise the server's limit."
    )]
    TooManySessions { server: SocketAddr, limit: u64 },
    #[error("{server} has as many sessions as it can take. Try again later.")]
    Full { server: SocketAddr },
    #[error(
        "{server} allows one probe every {allowed} and we want one every {asked}. Use a longer interval, or raise the server's limit."
    )]
    TooFast {
        server: SocketAddr,
        allowed: Duration,
        asked: Duration,
    },
    #[error(
        "the session with {server} has lasted as long as the server allows. Start another, or raise the server's limit."
    )]
    DurationOver { server: SocketAddr },
    #[error(
        "the bytes that {server} allows this client, its user or all clients in an hour are used up: try again within the hour."
    )]
    Spent { server: SocketAddr },
    #[error("no key for probes: {0}")]
    Key(Arc<crate::load::LoadError>),
    #[error(
        "{server} no longer knows our session: it was restarted, or did not hear us for too long."
    )]
    SessionLost { server: SocketAddr },
    #[error("{server} stopped answering: nothing for {silent}.")]
    Vanished {
        server: SocketAddr,
        silent: Duration,
    },
    #[error("the prober of {server} has ended")]
    Ended { server: SocketAddr },
}

impl ProbeError {
    pub(super) fn from_failure(failure: Failure, server: SocketAddr, asked_ns: u64) -> ProbeError {
        match failure {
            Failure::Silent { sent, waited } => ProbeError::Silent {
                server,
                sent,
                waited,
            },
            Failure::Untrusted => ProbeError::Untrusted { server },
            Failure::KeyNeeded => ProbeError::KeyNeeded { server },
            Failure::Refused(reason) => ProbeError::from_refusal(reason, server, asked_ns),
        }
    }

    pub(super) fn from_refusal(reason: Refusal, server: SocketAddr, asked_ns: u64) -> ProbeError {
        match reason {
            Refusal::WrongKey => ProbeError::WrongKey { server },
            Refusal::NoKey => ProbeError::NoKeyThere { server },
            Refusal::Version(theirs) => ProbeError::Version { server, theirs },
            Refusal::SessionsOfAddress(limit) => ProbeError::TooManySessions { server, limit },
            Refusal::Full => ProbeError::Full { server },
            Refusal::Rate(allowed) => ProbeError::TooFast {
                server,
                allowed: Duration::from_nanos(allowed),
                asked: Duration::from_nanos(asked_ns),
            },
            Refusal::DurationOver => ProbeError::DurationOver { server },
            Refusal::Spent => ProbeError::Spent { server },
            Refusal::Cookie | Refusal::NoSession => ProbeError::SessionLost { server },
        }
    }
}
