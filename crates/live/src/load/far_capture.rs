//! Capture at the server: the packets between this host and the server as they pass there, told when it ends.

use super::LoadError;
use super::exchange::{Line, Peer};
use crate::clock::mono_ns;
use crate::load::kernel::random_bytes;
use base::Duration;
use measure::control::packets::CapturedPacket;
use measure::control::{ControlError, FlowSpec, Request, Response, SessionId, finished};
use std::sync::atomic::AtomicBool;

/// Longest capture that is asked for.
const LONGEST: Duration = Duration::from_secs(1200);
/// Longest wait for a part of the capture, even over GPRS.
const PART_WITHIN_NS: i64 = 120_000_000_000;
/// Most packets that are taken from a server, which keeps far fewer.
const MOST: u64 = 2_000_000;

/// Capture that runs until it is stopped.
pub struct FarCapture {
    peer: Peer,
    line: Line,
}

impl FarCapture {
    /// # Errors
    /// The server is unreachable, or refuses: its operator has not allowed it, or it may not capture.
    pub fn start(peer: &Peer) -> Result<FarCapture, LoadError> {
        let line = peer.connect(None)?;
        let request = Request::Capture {
            spec: FlowSpec {
                session: SessionId(random_bytes()),
                flow: 0,
                duration: LONGEST,
                sample: Duration::from_secs(1),
            },
        };
        match peer.ask(&line, &request, &AtomicBool::new(false))?.0 {
            Response::Accepted(_) => Ok(FarCapture {
                peer: peer.clone(),
                line,
            }),
            _ => Err(strange(peer, "another answer than the one to the request")),
        }
    }

    /// Ends it and hands over its packets in their order. Returns the number of those that the server had no room for.
    ///
    /// # Errors
    /// The server does not tell them all.
    pub fn stop(self, each: &mut dyn FnMut(&CapturedPacket)) -> Result<u64, LoadError> {
        let FarCapture { peer, line } = self;
        line.say(&finished(0)).map_err(|source| LoadError::Talk {
            server: peer.server,
            what: "the end of the capture",
            source,
        })?;
        let mut count = 0;
        loop {
            let until = mono_ns() + PART_WITHIN_NS;
            let Response::Packets(part) = peer.hear(&line, until, &AtomicBool::new(false))? else {
                return Err(strange(&peer, "another answer than captured packets"));
            };
            count += part.packets.len() as u64;
            if count > MOST || part.more && part.packets.is_empty() {
                return Err(strange(&peer, "a capture without end"));
            }
            part.packets.iter().for_each(&mut *each);
            if !part.more {
                return Ok(part.missed);
            }
        }
    }
}

fn strange(peer: &Peer, what: &'static str) -> LoadError {
    LoadError::Protocol {
        server: peer.server,
        error: ControlError::Malformed { what },
    }
}
