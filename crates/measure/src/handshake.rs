//! The client's way into a session: Hello, the server's cookie, Open, the server's grant. Each is sent
//! again after a growing pause until the time is up.

use crate::wire::{Ask, ClientMessage, Grant, Key, Refusal, ServerMessage, Unreadable};
use base::{Duration, Time};

const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Why no session came about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing that we could read came back; how often we asked and for how long.
    Silent { sent: u32, waited: Duration },
    /// The server said no.
    Refused(Refusal),
    /// Something came back that was made without our key or with another one.
    Untrusted,
}

#[derive(Clone, Debug)]
pub struct Handshake {
    nonce: u64,
    ask: Ask,
    key: Option<Key>,
    cookie: Option<[u8; 16]>,
    began: Time,
    give_up: Time,
    next_send: Time,
    pause: Duration,
    sent: u32,
    untrusted: bool,
    outcome: Option<Result<Grant, Failure>>,
}

impl Handshake {
    /// `nonce` must be random: it is what tells the server's answers from anyone else's.
    pub fn new(now: Time, nonce: u64, ask: Ask, key: Option<Key>, patience: Duration) -> Handshake {
        Handshake {
            nonce,
            ask,
            key,
            cookie: None,
            began: now,
            give_up: now + patience,
            next_send: now,
            pause: FIRST_PAUSE,
            sent: 0,
            untrusted: false,
            outcome: None,
        }
    }

    /// The grant, or why there is none; `None` while it is still open.
    pub fn outcome(&self) -> Option<Result<Grant, Failure>> {
        self.outcome
    }

    pub fn next_wakeup(&self) -> Option<Time> {
        self.outcome
            .is_none()
            .then_some(self.next_send.min(self.give_up))
    }

    pub fn handle_timeout(&mut self, now: Time) {
        if self.outcome.is_none() && now >= self.give_up {
            let silent = Failure::Silent {
                sent: self.sent,
                waited: now.saturating_since(self.began),
            };
            self.outcome = Some(Err(if self.untrusted {
                Failure::Untrusted
            } else {
                silent
            }));
        }
    }

    /// The datagram to send now, if any: its length in `out`.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if self.outcome.is_some() || now < self.next_send {
            return None;
        }
        self.next_send = now + self.pause;
        self.pause = self.pause * 2;
        self.sent += 1;
        let message = match self.cookie {
            None => ClientMessage::Hello { nonce: self.nonce },
            Some(cookie) => ClientMessage::Open {
                nonce: self.nonce,
                cookie,
                ask: self.ask,
            },
        };
        Some(message.encode(out, 0, self.key.as_ref()))
    }

    pub fn handle_datagram(&mut self, now: Time, bytes: &[u8]) {
        if self.outcome.is_some() {
            return;
        }
        match ServerMessage::decode(bytes, self.key.as_ref()) {
            Ok(ServerMessage::Challenge { nonce, cookie }) if nonce == self.nonce => {
                self.cookie = Some(cookie);
                self.pause = FIRST_PAUSE;
                self.next_send = now;
            }
            Ok(ServerMessage::Opened { nonce, grant }) if nonce == self.nonce => {
                self.outcome = Some(Ok(grant))
            }
            // Too old by the time it came back: begin again.
            Ok(ServerMessage::Refused {
                id,
                reason: Refusal::Cookie,
                ..
            }) if id == self.nonce => self.cookie = None,
            Ok(ServerMessage::Refused { id, reason, .. }) if id == self.nonce => {
                self.outcome = Some(Err(Failure::Refused(reason)));
            }
            Ok(_) | Err(Unreadable::Foreign | Unreadable::Version { .. }) => {}
            Err(Unreadable::WrongTag { id } | Unreadable::Tagged { id }) => {
                self.untrusted |= id == self.nonce
            }
        }
    }
}
