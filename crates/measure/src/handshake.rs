//! Client side of the handshake: Hello, the server's cookie, Open, the server's grant. Each message is repeated after a
//! growing pause until the time is up.
//!
//! With a key, only a grant with the session's tag opens a session. A refusal may have no tag, because the server
//! shares no key with a client whose key is wrong. So an attacker on the path can prevent a session, but cannot
//! impersonate the server.

use crate::keys::{Credential, Salt, SessionKeys};
use crate::wire::{
    Ask, ClientMessage, Grant, Kind, Refusal, ServerMessage, Unreadable, front, granted_token,
    session_keys,
};
use base::{Duration, Time};

const FIRST_PAUSE: Duration = Duration::from_millis(250);

/// Reason why no session was opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Silence: nothing readable came back. Number of requests sent, and the time waited.
    Silent { sent: u32, waited: Duration },
    /// The server refused.
    Refused(Refusal),
    /// An answer was signed with no key or with another key.
    Untrusted,
    /// The server requires a key and the client has none.
    KeyNeeded,
}

/// Handshake of a session of probes.
#[derive(Clone, Debug)]
pub struct Handshake {
    nonce: u64,
    ask: Ask,
    key: Option<Credential>,
    challenge: Option<([u8; 16], Salt)>,
    keys: Option<SessionKeys>,
    began: Time,
    give_up: Time,
    next_send: Time,
    pause: Duration,
    sent: u32,
    untrusted: bool,
    outcome: Option<Result<Grant, Failure>>,
}

impl Handshake {
    /// Starts a handshake. `nonce` must be random: it distinguishes the server's answers from forged ones.
    pub fn new(
        now: Time,
        nonce: u64,
        ask: Ask,
        key: Option<Credential>,
        patience: Duration,
    ) -> Handshake {
        Handshake {
            nonce,
            ask,
            key,
            challenge: None,
            keys: None,
            began: now,
            give_up: now + patience,
            next_send: now,
            pause: FIRST_PAUSE,
            sent: 0,
            untrusted: false,
            outcome: None,
        }
    }

    /// Grant, or the reason why there is none; `None` while the handshake is open.
    pub fn outcome(&self) -> Option<Result<Grant, Failure>> {
        self.outcome
    }

    /// Keys of the session, once it is granted; `None` without a key.
    pub fn keys(&self) -> Option<SessionKeys> {
        self.keys.clone()
    }

    /// Time of the next timer; none if no timer runs.
    pub fn next_wakeup(&self) -> Option<Time> {
        self.outcome
            .is_none()
            .then_some(self.next_send.min(self.give_up))
    }

    /// Handles all timers that are due.
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

    /// Writes the datagram to send now, if any, and returns its length in `out`.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<usize> {
        if self.outcome.is_some() || now < self.next_send {
            return None;
        }
        self.next_send = now + self.pause;
        self.pause = self.pause * 2;
        self.sent += 1;
        let (Some((cookie, salt)), nonce, ask) = (self.challenge, self.nonce, self.ask) else {
            let hello = ClientMessage::Hello { nonce: self.nonce };
            return Some(hello.encode(out, 0, None));
        };
        let open = |user| ClientMessage::Open {
            nonce,
            cookie,
            ask,
            user,
        };
        Some(match &self.key {
            Some(key) => {
                let opening = key.key(&salt).opening();
                open(Some(key.id(&salt))).encode(out, 0, Some(&opening))
            }
            None => open(None).encode(out, 0, None),
        })
    }

    /// Handles a datagram of the server.
    pub fn handle_datagram(&mut self, now: Time, bytes: &[u8]) {
        if self.outcome.is_some() {
            return;
        }
        let Ok(front) = front(bytes) else {
            return;
        };
        if front.id != self.nonce {
            return;
        }
        match front.kind {
            Kind::Challenge => self.challenged(now, bytes),
            Kind::Opened => self.opened(bytes),
            Kind::Refused => match ServerMessage::decode(bytes, None) {
                // The cookie was too old when it came back: start again.
                Ok(ServerMessage::Refused {
                    reason: Refusal::Cookie,
                    ..
                }) => self.challenge = None,
                Ok(ServerMessage::Refused { reason, .. }) => {
                    self.outcome = Some(Err(Failure::Refused(reason)));
                }
                _ => {}
            },
            _ => {}
        }
    }

    fn challenged(&mut self, now: Time, bytes: &[u8]) {
        let Ok(ServerMessage::Challenge {
            cookie,
            salt,
            key_needed,
            ..
        }) = ServerMessage::decode(bytes, None)
        else {
            return;
        };
        match (&self.key, key_needed) {
            (None, true) => self.outcome = Some(Err(Failure::KeyNeeded)),
            (Some(key), true) if key.is_ticket() => self.outcome = Some(Err(Failure::KeyNeeded)),
            (Some(key), false) if !key.is_ticket() => {
                self.outcome = Some(Err(Failure::Refused(Refusal::NoKey)));
            }
            _ if self.challenge.is_none() => {
                self.challenge = Some((cookie, salt));
                self.pause = FIRST_PAUSE;
                self.next_send = now;
            }
            // Two answers to two Hellos: both cookies are valid.
            _ => {}
        }
    }

    fn opened(&mut self, bytes: &[u8]) {
        let keys = match (&self.key, self.challenge) {
            (Some(key), Some((cookie, salt))) => {
                let Some(token) = granted_token(bytes) else {
                    return;
                };
                Some(session_keys(&key.key(&salt), self.nonce, &cookie, token))
            }
            (Some(_), None) => return,
            (None, _) => None,
        };
        match ServerMessage::decode(bytes, keys.as_ref().map(|k| &k.down)) {
            Ok(ServerMessage::Opened { grant, .. }) => {
                self.keys = keys;
                self.outcome = Some(Ok(grant));
            }
            Err(Unreadable::WrongTag { .. } | Unreadable::Tagged { .. }) => self.untrusted = true,
            _ => {}
        }
    }
}
