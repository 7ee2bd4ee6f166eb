//! Handshake of a session: the cookie, the key, and room for one more client.

use super::{
    Arrival, COOKIE_LIFE_S, GIVES_WAY, Keyed, Pending, Reflector, Session, TRAIN_MAX, WRONG_AFTER,
};
use crate::account::Account;
use crate::bucket::{Bucket, neighbourhood, subscriber};
use crate::keys::{Identity, UserKey};
use crate::replay::Window;
use crate::wire::{
    Ask, ClientMessage, Grant, LONGEST_INTERVAL_NS, MAX_LEN, Refusal, ServerMessage, boot_proof,
    opening_user, session_keys,
};
use base::{Duration, Time};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

impl Reflector {
    pub(super) fn greet(&mut self, now: Time, arrival: Arrival, len: usize, nonce: u64) {
        let period = now.as_nanos() / 1_000_000_000 / COOKIE_LIFE_S;
        let challenge = ServerMessage::Challenge {
            nonce,
            cookie: self.cookie(arrival.from, nonce, period),
            salt: self.users.as_ref().map_or([0; 16], |u| u.salt()),
            key_needed: self.users.is_some(),
        };
        self.say_to_stranger(now, arrival, len, challenge);
    }

    fn cookie(&self, from: SocketAddr, nonce: u64, period: u64) -> [u8; 16] {
        let ip = match from.ip() {
            IpAddr::V4(ip) => ip.to_ipv6_mapped(),
            IpAddr::V6(ip) => ip,
        };
        self.secret.tag(&[
            b"cookie",
            &ip.octets(),
            &from.port().to_be_bytes(),
            &nonce.to_be_bytes(),
            &period.to_be_bytes(),
        ])
    }

    /// True if this cookie was made for this address recently.
    fn is_fresh(&self, now: Time, from: SocketAddr, nonce: u64, cookie: &[u8; 16]) -> bool {
        let period = now.as_nanos() / 1_000_000_000 / COOKIE_LIFE_S;
        [period, period.saturating_sub(1)]
            .iter()
            .any(|&p| self.cookie(from, nonce, p) == *cookie)
    }

    /// Handles a request to open a session. The cookie is checked first, so that a forged source costs no further work.
    pub(super) fn opening(
        &mut self,
        now: Time,
        arrival: Arrival,
        bytes: &[u8],
        nonce: u64,
        tagged: bool,
    ) {
        let len = bytes.len();
        if tagged && (self.users.is_some() || self.tickets.is_some()) {
            return self.signed_opening(now, arrival, bytes, nonce);
        }
        match (self.users.is_some(), tagged) {
            (_, true) => self.refuse(now, arrival, len, nonce, Refusal::NoKey),
            (true, false) => self.refuse(now, arrival, len, nonce, Refusal::WrongKey),
            (false, false) => match ClientMessage::decode(bytes, None) {
                Ok(ClientMessage::Open { cookie, ask, .. }) => {
                    self.open(now, arrival, len, (nonce, cookie), ask, None);
                }
                _ => self.stats.ignored += 1,
            },
        }
    }

    /// Handles a signed request to open a session: by a user, or if there are none, by a client with a ticket.
    fn signed_opening(&mut self, now: Time, arrival: Arrival, bytes: &[u8], nonce: u64) {
        let len = bytes.len();
        let Some((cookie, id)) = opening_user(bytes) else {
            self.stats.ignored += 1;
            return;
        };
        if !self.is_fresh(now, arrival.from, nonce, &cookie) {
            return self.refuse(now, arrival, len, nonce, Refusal::Cookie);
        }
        let ip = arrival.from.ip();
        if !self.wrong.has(now, ip) && !self.checked.take(now, ip) {
            self.stats.ignored += 1;
            return;
        }
        let mut ask = None;
        let mut check = |key: &UserKey| match ClientMessage::decode(bytes, Some(&key.opening())) {
            Ok(ClientMessage::Open { ask: asked, .. }) => {
                ask = Some(asked);
                true
            }
            _ => false,
        };
        let found = match (&self.users, &self.tickets) {
            (Some(users), _) => users
                .find(&id, arrival.rx_ns / 1_000_000_000, check)
                .map(|(identity, key)| (Some(identity), key)),
            (None, Some(tickets)) => {
                let key = tickets.key(&id);
                check(&key).then_some((None, key))
            }
            (None, None) => None,
        };
        match (found, ask) {
            (Some(found), Some(ask)) => {
                self.open(now, arrival, len, (nonce, cookie), ask, Some(found));
            }
            _ => self.wrong_key(now, arrival, len, nonce),
        }
    }

    /// Answers a wrong key late, and at a limited rate.
    fn wrong_key(&mut self, now: Time, arrival: Arrival, limit: usize, id: u64) {
        self.stats.wrong_keys += 1;
        if !self.wrong.take(now, arrival.from.ip()) {
            self.stats.ignored += 1;
            return;
        }
        self.stats.refused += 1;
        let reason = Refusal::WrongKey;
        let pending = Pending {
            session: None,
            to: arrival.from,
            local: arrival.local,
            tos: 0,
            limit,
            pad: 0,
            message: ServerMessage::Refused { id, seq: 0, reason },
        };
        self.late.push_back((now + WRONG_AFTER, pending));
    }

    fn open(
        &mut self,
        now: Time,
        arrival: Arrival,
        limit: usize,
        (nonce, cookie): (u64, [u8; 16]),
        ask: Ask,
        user: Option<(Option<Identity>, UserKey)>,
    ) {
        if !self.is_fresh(now, arrival.from, nonce, &cookie) {
            return self.refuse(now, arrival, limit, nonce, Refusal::Cookie);
        }
        // A repeated request: our answer was lost. One without a signature has no part in a session with keys, whose
        // answers are longer.
        let known = self
            .sessions
            .values()
            .find(|s| {
                s.nonce == nonce && s.from == arrival.from && s.keys.is_some() == user.is_some()
            })
            .map(|s| s.grant);
        let grant = match known {
            Some(grant) => grant,
            None => {
                let name = user.as_ref().and_then(|(identity, _)| identity.as_ref());
                let account = self.accounts.as_ref().map_or_else(Account::default, |of| {
                    of(arrival.from.ip(), name.map(|identity| &identity.name))
                });
                let admitted = if account.has_room() {
                    self.admit(now, arrival, nonce, ask, account)
                } else {
                    Err(Refusal::Spent)
                };
                let grant = match admitted {
                    Ok(grant) => grant,
                    Err(reason) => return self.refuse(now, arrival, limit, nonce, reason),
                };
                let keyed = user.map(|(identity, key)| {
                    Box::new(Keyed {
                        keys: session_keys(&key, nonce, &cookie, grant.token),
                        identity,
                        requests: Window::default(),
                        released: None,
                    })
                });
                if let Some(session) = self.sessions.get_mut(&grant.token) {
                    session.keys = keyed;
                }
                grant
            }
        };
        self.say_to_stranger(now, arrival, limit, ServerMessage::Opened { nonce, grant });
    }

    fn admit(
        &mut self,
        now: Time,
        arrival: Arrival,
        nonce: u64,
        ask: Ask,
        account: Account,
    ) -> Result<Grant, Refusal> {
        let budget = self.budget;
        let min_interval_ns = budget.min_interval.as_nanos();
        if ask.interval_ns < min_interval_ns {
            return Err(Refusal::Rate(min_interval_ns));
        }
        self.make_room(now, arrival);
        let client = subscriber(arrival.from.ip());
        let of_client = |s: &&Session| subscriber(s.from.ip()) == client;
        let most = budget.sessions_per_address;
        if self.sessions.values().filter(of_client).count() >= most {
            return Err(Refusal::SessionsOfAddress(most as u64));
        }
        if self.sessions.len() >= budget.sessions && !self.evict(now, arrival) {
            return Err(Refusal::Full);
        }
        self.opened += 1;
        let opened = self.opened.to_be_bytes();
        let tag = self.secret.tag(&[b"token", &opened, &nonce.to_be_bytes()]);
        let token = u64::from_be_bytes(*tag.first_chunk().expect("a tag has 16 bytes"));
        let asked = (ask.duration_s > 0).then_some(Duration::from_secs(u64::from(ask.duration_s)));
        let allowed = (!budget.max_duration.is_zero()).then_some(budget.max_duration);
        let duration = [asked, allowed].into_iter().flatten().min();
        let same_kernel = ask.boot_proof == boot_proof(&self.boot_id, nonce);
        let grant = Grant {
            token,
            min_interval_ns,
            duration_s: duration.map_or(0, |d| {
                u32::try_from(d.as_nanos().div_ceil(1_000_000_000)).unwrap_or(u32::MAX)
            }),
            max_datagram: (MAX_LEN - 48) as u16,
            origin_unix_ns: if same_kernel { self.origin_unix_ns } else { 0 },
        };
        let per_second = 1e9 / min_interval_ns.max(1) as f64;
        // Burst of one second: a client that its own host held up may catch up.
        let bytes = budget.rate.get() as f64 / 8.0;
        let session = Session {
            keys: None,
            account,
            from: arrival.from,
            local: arrival.local,
            nonce,
            grant,
            tos: ask.tos,
            ends: duration.map(|d| now + d + Duration::from_secs(1)),
            last: now,
            idle: budget
                .idle
                .max(Duration::from_nanos(ask.interval_ns.min(LONGEST_INTERVAL_NS)) * 3),
            packets: Bucket::new(per_second * 1.02, per_second.max(f64::from(TRAIN_MAX)), now),
            bytes: Bucket::new(bytes, bytes.max(f64::from(TRAIN_MAX) * MAX_LEN as f64), now),
            throttled: 0,
            told_throttled: Time::ZERO,
            history: None,
            earlier: None,
            train: None,
        };
        self.sessions.insert(token, session);
        self.stats.opened += 1;
        Ok(grant)
    }

    /// Makes room for a client that returns from another port or address and leaves its old session behind. If its
    /// network's sessions are all in use, the one silent for the longest time is closed.
    fn make_room(&mut self, now: Time, arrival: Arrival) {
        let client = subscriber(arrival.from.ip());
        let of_client = || {
            let sessions = self.sessions.iter();
            sessions.filter(|(_, s)| subscriber(s.from.ip()) == client)
        };
        if of_client().count() < self.budget.sessions_per_address {
            return;
        }
        let silent = of_client()
            .filter(|(_, s)| now.saturating_since(s.last) >= GIVES_WAY)
            .min_by_key(|(_, s)| s.last)
            .map(|(&token, _)| token);
        if let Some(token) = silent {
            self.sessions.remove(&token);
        }
    }

    /// Closes one session if the table is full. Candidate is the most silent session of the network that holds the
    /// most, if that exceeds the newcomer's own share; otherwise the most silent of all, if it is silent enough. So a
    /// network that has filled the table keeps nobody else out.
    fn evict(&mut self, now: Time, arrival: Arrival) -> bool {
        let mut held: BTreeMap<IpAddr, usize> = BTreeMap::new();
        for s in self.sessions.values() {
            *held.entry(neighbourhood(s.from.ip())).or_default() += 1;
        }
        let own = held
            .get(&neighbourhood(arrival.from.ip()))
            .copied()
            .unwrap_or(0);
        let heavy = held.into_iter().max_by_key(|(_, n)| *n);
        let heavy = heavy
            .filter(|(_, n)| *n > own + 1)
            .map(|(network, _)| network);
        let its = self.sessions.iter().filter(|(_, s)| {
            heavy.map_or(now.saturating_since(s.last) >= GIVES_WAY, |heavy| {
                neighbourhood(s.from.ip()) == heavy
            })
        });
        let victim = its
            .min_by_key(|(token, s)| (s.last, **token))
            .map(|(token, _)| *token);
        victim
            .and_then(|token| self.sessions.remove(&token))
            .is_some()
    }
}
