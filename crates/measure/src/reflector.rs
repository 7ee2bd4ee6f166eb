//! Server side of the probe protocol. It keeps no state for strangers (the cookie is a hash), never answers with more
//! bytes than it received, and holds each client to a budget.

mod opening;

use crate::account::Account;
use crate::bucket::{Bucket, ByNetwork};
use crate::keys::{Identity, SessionKeys, Tickets, Users};
use crate::replay::{Seen, Window};
use crate::wire::{
    ClientMessage, Front, Grant, History, Key, Kind, MAX_LEN, Refusal, Reply, ServerMessage,
    TAG_LEN, UNKNOWN_NS, Unreadable, datagram_len, front,
};
use base::{BitsPerSec, Duration, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Limits for one client, and for all of them together. The defaults allow probes at 1 kHz.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Greatest number of sessions.
    pub sessions: usize,
    /// Sessions per IPv4 address, or per IPv6 network of 64 bits.
    pub sessions_per_address: usize,
    /// Shortest interval between one session's probes.
    pub min_interval: Duration,
    /// Rate of one session's datagrams, UDP payload.
    pub rate: BitsPerSec,
    /// Longest session; zero for no end.
    pub max_duration: Duration,
    /// Silence after which a session is forgotten, or three of its intervals if that is longer. It is long enough for a
    /// link that was down for minutes to deliver the datagrams it held back.
    pub idle: Duration,
    /// Answers per second to clients without a session: cookies and refusals.
    pub stateless_per_second: u32,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            sessions: 1024,
            sessions_per_address: 16,
            min_interval: Duration::from_micros(500),
            rate: BitsPerSec::from_mbps(4),
            max_duration: Duration::ZERO,
            idle: Duration::from_secs(300),
            stateless_per_second: 5_000,
        }
    }
}

/// Metadata of a datagram that arrived.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Source address.
    pub from: SocketAddr,
    /// Address it was sent to, so that the answer comes from there.
    pub local: Option<IpAddr>,
    /// Receive time on the server's clock, UNIX ns.
    pub rx_ns: i64,
    /// True if `rx_ns` is the kernel's.
    pub kernel: bool,
    /// TOS or traffic-class byte.
    pub tos: Option<u8>,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outgoing {
    /// Destination address.
    pub to: SocketAddr,
    /// Local address to send from.
    pub local: Option<IpAddr>,
    /// TOS or traffic-class byte.
    pub tos: u8,
    /// Identifier for [`Reflector::handle_tx_stamp`].
    pub id: u32,
    /// Length of the datagram.
    pub len: usize,
}

/// Counters of a reflector.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Probes answered.
    pub answered: u64,
    /// Sessions opened.
    pub opened: u64,
    /// Datagrams answered with a refusal.
    pub refused: u64,
    /// Datagrams dropped without an answer: not of this protocol, too short, or beyond the budget for strangers.
    pub ignored: u64,
    /// Probes beyond the rate of their session.
    pub throttled: u64,
    /// Datagrams of sessions with a key that were replayed, or too old to tell.
    pub replayed: u64,
    /// Requests to open a session with an unknown key.
    pub wrong_keys: u64,
    /// Answers whose kernel transmit time never came or was implausible.
    pub without_tx_stamp: u64,
}

/// Returns the account charged for a client's probes, by its address and, if it has a key, its name.
pub type Accounts = Box<dyn Fn(IpAddr, Option<&Arc<str>>) -> Account + Send>;

/// Reflector: the server's end of all sessions of probes.
pub struct Reflector {
    budget: Budget,
    /// Users that are served; everybody if there are none.
    users: Option<Arc<Users>>,
    /// Keys of clients that have the server's pin and no key.
    tickets: Option<Tickets>,
    /// Accounts to charge; `None`: probes are not charged.
    accounts: Option<Accounts>,
    /// Budget of attempts with an unknown key that are answered, each late.
    wrong: ByNetwork,
    /// Budget of attempts that are still checked once a network has no answered ones left.
    checked: ByNetwork,
    /// Delayed answers to wrong keys.
    late: VecDeque<(Time, Pending)>,
    /// Secret for cookies and tokens; random, and new at every start.
    secret: Key,
    boot_id: Vec<u8>,
    origin_unix_ns: i64,
    sessions: BTreeMap<u64, Session>,
    opened: u64,
    /// Earliest time at which a train is released; [`Time::MAX`] if none is held.
    next_release: Time,
    stateless: Bucket,
    out: VecDeque<Pending>,
    next_id: u32,
    sent: VecDeque<SentReply>,
    next_sweep: Time,
    stats: Stats,
}

struct Session {
    keys: Option<Box<Keyed>>,
    account: Account,
    from: SocketAddr,
    local: Option<IpAddr>,
    nonce: u64,
    grant: Grant,
    tos: u8,
    ends: Option<Time>,
    last: Time,
    /// Silence after which the session is forgotten.
    idle: Duration,
    packets: Bucket,
    bytes: Bucket,
    throttled: u16,
    told_throttled: Time,
    history: Option<History>,
    earlier: Option<(u32, u32)>,
    train: Option<Train>,
}

/// Additional state of a session with a key.
struct Keyed {
    keys: SessionKeys,
    /// User of the key; `None` for a key that came inside TLS.
    identity: Option<Identity>,
    requests: Window,
    /// Latest train that has been released.
    released: Option<u16>,
}

/// Datagrams held until their train is complete. They then leave at once, so that the downward direction is measured by
/// itself.
struct Train {
    number: u16,
    count: u8,
    release: Time,
    held: Vec<(u8, i64, usize)>,
}

/// Time after the last arrival at which an incomplete train is released: at 65 kbit/s a full datagram takes 185 ms.
const TRAIN_PATIENCE: Duration = Duration::from_millis(600);
const TRAIN_MAX: u8 = 32;
const SWEEP: Duration = Duration::from_secs(1);
/// Maximum number of answers whose transmit time is awaited. The kernel reports it within the sending call.
const SENT_KEPT: usize = 256;
/// Period of a cookie, seconds: a cookie is valid for one to two of them.
const COOKIE_LIFE_S: u64 = 8;
/// Silence after which a session is closed if the same client needs room for another one.
const GIVES_WAY: Duration = Duration::from_secs(20);
const TELL_THROTTLED: Duration = Duration::from_millis(100);

/// Delay of the answer to a wrong key.
const WRONG_AFTER: Duration = Duration::from_secs(1);
/// Wrong keys that are answered for one network: rate per second and burst; then for all networks.
const WRONG_OF_NETWORK: (f64, f64) = (1.0, 5.0);
const WRONG_OF_ALL: (f64, f64) = (50.0, 50.0);
/// Keys that are checked for a network whose wrong keys are no longer answered: rate per second and burst; then for
/// all.
const CHECKED_OF_NETWORK: (f64, f64) = (20.0, 20.0);
const CHECKED_OF_ALL: (f64, f64) = (2_000.0, 2_000.0);

struct Pending {
    /// Session whose key signs the answer; none for an answer to a stranger.
    session: Option<u64>,
    to: SocketAddr,
    local: Option<IpAddr>,
    tos: u8,
    /// Maximum length: that of the datagram it answers.
    limit: usize,
    pad: usize,
    message: ServerMessage,
}

struct SentReply {
    id: u32,
    token: u64,
    seq: u32,
    rx_ns: i64,
    sent_ns: i64,
}

impl Reflector {
    /// Creates a reflector. `secret`: 32 random bytes. `boot_id` and `origin_unix_ns` (UNIX time at monotonic zero) let
    /// a client on the same kernel know that both ends share one clock.
    pub fn new(
        budget: Budget,
        users: Option<Arc<Users>>,
        secret: [u8; 32],
        boot_id: &[u8],
        origin_unix_ns: i64,
    ) -> Reflector {
        let strangers = f64::from(budget.stateless_per_second);
        Reflector {
            budget,
            users,
            tickets: None,
            accounts: None,
            wrong: ByNetwork::new(WRONG_OF_NETWORK, WRONG_OF_ALL),
            checked: ByNetwork::new(CHECKED_OF_NETWORK, CHECKED_OF_ALL),
            late: VecDeque::new(),
            secret: Key::new(&secret),
            boot_id: boot_id.to_vec(),
            origin_unix_ns,
            sessions: BTreeMap::new(),
            opened: 0,
            next_release: Time::MAX,
            stateless: Bucket::new(strangers, strangers, Time::ZERO),
            out: VecDeque::new(),
            next_id: 0,
            sent: VecDeque::new(),
            next_sweep: Time::ZERO,
            stats: Stats::default(),
        }
    }

    /// Accepts clients whose keys come from these tickets, unless users are required.
    pub fn with_tickets(self, tickets: Option<Tickets>) -> Reflector {
        Reflector { tickets, ..self }
    }

    /// Charges probes and their answers to these accounts.
    pub fn with_accounts(self, accounts: Accounts) -> Reflector {
        Reflector {
            accounts: Some(accounts),
            ..self
        }
    }

    /// Counters so far.
    pub fn stats(&self) -> Stats {
        self.stats
    }

    /// Number of open sessions.
    pub fn sessions(&self) -> usize {
        self.sessions.len()
    }

    /// Handles a datagram of a client.
    pub fn handle_datagram(&mut self, now: Time, arrival: Arrival, bytes: &[u8]) {
        // The answer to a shorter datagram could exceed it.
        if bytes.len() < datagram_len(None) || bytes.len() > MAX_LEN {
            self.stats.ignored += 1;
            return;
        }
        let Front { kind, id, tagged } = match front(bytes) {
            Ok(front) => front,
            Err(Unreadable::Version { id, .. }) => {
                let reason = Refusal::Version(crate::wire::VERSION);
                return self.refuse(now, arrival, bytes.len(), id, reason);
            }
            Err(_) => {
                self.stats.ignored += 1;
                return;
            }
        };
        match kind {
            Kind::Hello => self.greet(now, arrival, bytes.len(), id),
            Kind::Open => self.opening(now, arrival, bytes, id, tagged),
            Kind::Within => self.within(now, arrival, bytes, id, tagged),
            Kind::Challenge | Kind::Opened | Kind::Refused => self.stats.ignored += 1,
        }
    }

    /// Changes the users: sessions of keys that are no longer valid end.
    pub fn set_users(&mut self, users: Option<Arc<Users>>) {
        self.users = users;
    }

    /// Ends sessions whose key was removed or has expired by this time, UNIX s.
    pub fn end_invalid(&mut self, now_s: i64) {
        let users = &self.users;
        self.sessions.retain(|_, s| {
            let identity = s.keys.as_ref().and_then(|k| k.identity.as_ref());
            match (identity, users) {
                (Some(identity), Some(users)) => users.has(identity, now_s),
                (identity, users) => identity.is_some() == users.is_some(),
            }
        });
    }

    /// Handles a datagram of an open session, or of an unknown one.
    fn within(&mut self, now: Time, arrival: Arrival, bytes: &[u8], token: u64, tagged: bool) {
        let session = self.sessions.get(&token).filter(|s| s.from == arrival.from);
        let key = session.and_then(|s| s.keys.as_ref().map(|k| &k.keys.up));
        if session.is_none() {
            let whole = datagram_len(None) + if tagged { TAG_LEN } else { 0 };
            if bytes.len() >= whole {
                self.refuse(now, arrival, bytes.len(), token, Refusal::NoSession);
            } else {
                self.stats.ignored += 1;
            }
            return;
        }
        let (least, decoded) = (datagram_len(key), ClientMessage::decode(bytes, key));
        let (Ok(message), true) = (decoded, bytes.len() >= least) else {
            self.stats.ignored += 1;
            return;
        };
        match message {
            ClientMessage::Request { token, seq, .. } => {
                self.request(now, arrival, bytes.len(), token, seq)
            }
            ClientMessage::Train {
                token,
                train,
                index,
                count,
            } => self.train(now, arrival, bytes.len(), token, (train, index, count)),
            ClientMessage::Close { token } => {
                self.sessions.remove(&token);
            }
            ClientMessage::Hello { .. } | ClientMessage::Open { .. } => self.stats.ignored += 1,
        }
    }

    /// Writes the next datagram to send to `out`. `now_ns` is the time on the server's clock, UNIX ns.
    pub fn poll_transmit(&mut self, now_ns: i64, out: &mut [u8; MAX_LEN]) -> Option<Outgoing> {
        let (mut pending, key) = self.next_pending()?;
        let id = self.next_id;
        self.next_id = self.next_id.wrapping_add(1);
        if let ServerMessage::Reply { token, reply } = &mut pending.message {
            if let Some(earlier) = self.sessions.get(token).and_then(|s| s.earlier) {
                (reply.earlier_seq, reply.earlier_hold_ns) = earlier;
            }
            reply.hold_ns = hold(reply.rx_ns, now_ns);
            let sent = SentReply {
                id,
                token: *token,
                seq: reply.seq,
                rx_ns: reply.rx_ns,
                sent_ns: now_ns,
            };
            if self.sent.len() == SENT_KEPT {
                self.sent.pop_front();
                self.stats.without_tx_stamp += 1;
            }
            self.sent.push_back(sent);
            self.stats.answered += 1;
        }
        let len = pending.message.encode(out, pending.pad, key.as_ref());
        if len > pending.limit {
            debug_assert!(false, "{len} bytes for {}", pending.limit);
            // No answer is longer than its question; and a fault here must not end the server.
            self.stats.ignored += 1;
            return self.poll_transmit(now_ns, out);
        }
        Some(Outgoing {
            to: pending.to,
            local: pending.local,
            tos: pending.tos,
            id,
            len,
        })
    }

    /// Next answer and the key that signs it; skips answers of sessions that have ended since.
    fn next_pending(&mut self) -> Option<(Pending, Option<Key>)> {
        loop {
            let pending = self.out.pop_front()?;
            let Some(token) = pending.session else {
                return Some((pending, None));
            };
            if let Some(session) = self.sessions.get(&token) {
                let key = session.keys.as_ref().map(|k| k.keys.down.clone());
                return Some((pending, key));
            }
        }
    }

    /// Stores the kernel transmit time of the datagram with the identifier `id` from [`Reflector::poll_transmit`], on
    /// the server's clock, UNIX ns.
    pub fn handle_tx_stamp(&mut self, id: u32, at_ns: i64) {
        while let Some(sent) = self.sent.front() {
            let behind = id.wrapping_sub(sent.id).cast_signed();
            if behind < 0 {
                return;
            }
            let SentReply {
                token,
                seq,
                rx_ns,
                sent_ns,
                ..
            } = *sent;
            self.sent.pop_front();
            // A time before its sending call belongs to another datagram.
            if behind > 0 || at_ns < sent_ns {
                self.stats.without_tx_stamp += 1;
                continue;
            }
            if let Some(session) = self.sessions.get_mut(&token) {
                session.earlier = Some((seq, hold(rx_ns, at_ns)));
            }
            return;
        }
    }

    /// Handles a step of the server's wall clock: times across the step are unusable.
    pub fn handle_clock_step(&mut self) {
        self.sent.clear();
        self.sessions.values_mut().for_each(|s| s.earlier = None);
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        while self.late.front().is_some_and(|(at, _)| now >= *at) {
            let due = self.late.pop_front().map(|(_, pending)| pending);
            self.out.extend(due);
        }
        if now >= self.next_release {
            let due: Vec<u64> = self
                .sessions
                .iter()
                .filter(|(_, s)| s.train.as_ref().is_some_and(|t| now >= t.release))
                .map(|(&t, _)| t)
                .collect();
            due.into_iter().for_each(|token| self.release(token));
            let held = self
                .sessions
                .values()
                .filter_map(|s| s.train.as_ref().map(|t| t.release));
            self.next_release = held.min().unwrap_or(Time::MAX);
        }
        if now >= self.next_sweep {
            self.sessions.retain(|_, s| {
                let ended = s.ends.is_some_and(|end| now >= end + s.idle);
                now.saturating_since(s.last) < s.idle && !ended
            });
            self.next_sweep = now + SWEEP;
        }
    }

    /// Time of the next timer; none if no timer runs.
    pub fn next_wakeup(&self) -> Option<Time> {
        let trains = (self.next_release < Time::MAX).then_some(self.next_release);
        let sweep = (!self.sessions.is_empty()).then_some(self.next_sweep);
        let late = self.late.front().map(|(at, _)| *at);
        [trains, sweep, late].into_iter().flatten().min()
    }

    fn say_to_stranger(
        &mut self,
        now: Time,
        arrival: Arrival,
        limit: usize,
        message: ServerMessage,
    ) {
        if !self.stateless.take(now, 1.0) {
            self.stats.ignored += 1;
            return;
        }
        let session = match message {
            ServerMessage::Opened { grant, .. } => Some(grant.token),
            _ => None,
        };
        self.out.push_back(Pending {
            session,
            to: arrival.from,
            local: arrival.local,
            tos: 0,
            limit,
            pad: 0,
            message,
        });
    }

    fn refuse(&mut self, now: Time, arrival: Arrival, limit: usize, id: u64, reason: Refusal) {
        self.stats.refused += 1;
        self.say_to_stranger(
            now,
            arrival,
            limit,
            ServerMessage::Refused { id, seq: 0, reason },
        );
    }

    /// Session named by `token`, if its budget allows `len` more bytes; otherwise the client is refused.
    fn charge(
        &mut self,
        now: Time,
        arrival: Arrival,
        len: usize,
        token: u64,
        seq: u32,
    ) -> Option<&mut Session> {
        let refusal = match self.sessions.get_mut(&token) {
            None => Refusal::NoSession,
            Some(session) => {
                session.last = now;
                if session.ends.is_some_and(|end| now >= end) {
                    Refusal::DurationOver
                } else {
                    let allowed =
                        session.packets.take(now, 1.0) && session.bytes.take(now, len as f64);
                    // The answer is as long as the probe.
                    let paid = allowed && session.account.charge(2 * len as u64);
                    if paid {
                        return self.sessions.get_mut(&token);
                    }
                    session.throttled = session.throttled.wrapping_add(1);
                    self.stats.throttled += 1;
                    let told = session.told_throttled;
                    if told != Time::ZERO && now.saturating_since(told) < TELL_THROTTLED {
                        return None;
                    }
                    session.told_throttled = now;
                    if allowed {
                        Refusal::Spent
                    } else {
                        Refusal::Rate(session.grant.min_interval_ns)
                    }
                }
            }
        };
        self.say_within(now, arrival, len, (token, seq), refusal);
        None
    }

    /// Refuses a datagram of an open session.
    fn say_within(
        &mut self,
        now: Time,
        arrival: Arrival,
        limit: usize,
        (token, seq): (u64, u32),
        reason: Refusal,
    ) {
        self.stats.refused += 1;
        if !self.stateless.take(now, 1.0) {
            self.stats.ignored += 1;
            return;
        }
        self.out.push_back(Pending {
            session: Some(token),
            to: arrival.from,
            local: arrival.local,
            tos: 0,
            limit,
            pad: 0,
            message: ServerMessage::Refused {
                id: token,
                seq,
                reason,
            },
        });
    }

    /// True if this number may be answered. Replayed datagrams of a session with a key may not.
    fn is_new(&mut self, now: Time, arrival: Arrival, len: usize, token: u64, seq: u32) -> bool {
        let session = self.sessions.get_mut(&token);
        let Some(keyed) = session.and_then(|s| s.keys.as_mut()) else {
            return true;
        };
        match keyed.requests.note(seq) {
            Seen::Never | Seen::Once => true,
            Seen::Replayed => {
                self.stats.replayed += 1;
                false
            }
            Seen::UsedUp => {
                self.say_within(now, arrival, len, (token, seq), Refusal::DurationOver);
                false
            }
        }
    }

    fn request(&mut self, now: Time, arrival: Arrival, len: usize, token: u64, seq: u32) {
        if !self.is_new(now, arrival, len, token, seq) {
            return;
        }
        let Some(session) = self.charge(now, arrival, len, token, seq) else {
            return;
        };
        let history = match &mut session.history {
            Some(history) => {
                history.record(seq);
                *history
            }
            none => *none.insert(History::starting_at(seq)),
        };
        let kernel = if arrival.kernel { Reply::KERNEL_RX } else { 0 };
        let tos_known = if arrival.tos.is_some() {
            Reply::TOS_KNOWN
        } else {
            0
        };
        let reply = Reply {
            seq,
            rx_ns: arrival.rx_ns,
            // Both are filled in at the moment of sending.
            hold_ns: UNKNOWN_NS,
            earlier_hold_ns: UNKNOWN_NS,
            earlier_seq: 0,
            history,
            tos: arrival.tos.unwrap_or(0),
            flags: kernel | tos_known,
            throttled: session.throttled,
        };
        let (to, local, tos) = (session.from, arrival.local, session.tos);
        self.out.push_back(Pending {
            session: Some(token),
            to,
            local,
            tos,
            limit: len,
            pad: len,
            message: ServerMessage::Reply { token, reply },
        });
    }

    fn train(
        &mut self,
        now: Time,
        arrival: Arrival,
        len: usize,
        token: u64,
        (number, index, count): (u16, u8, u8),
    ) {
        if self.is_old_train(token, number, index) {
            self.stats.replayed += 1;
            return;
        }
        let Some(session) = self.charge(now, arrival, len, token, u32::MAX) else {
            return;
        };
        if !(1..=TRAIN_MAX).contains(&count)
            || index >= count
            || len > usize::from(session.grant.max_datagram)
        {
            self.stats.ignored += 1;
            return;
        }
        session.local = arrival.local;
        if session.train.as_ref().is_some_and(|t| t.number != number) {
            self.release(token);
        }
        let Some(session) = self.sessions.get_mut(&token) else {
            return;
        };
        let train = session.train.get_or_insert_with(|| Train {
            number,
            count,
            release: now,
            held: Vec::new(),
        });
        train.release = now + TRAIN_PATIENCE;
        self.next_release = self.next_release.min(train.release);
        train.held.push((index, arrival.rx_ns, len));
        // A path may reorder or duplicate, so the count decides.
        if train.held.len() >= usize::from(train.count) {
            self.release(token);
        }
    }

    /// True if a session with a key has already received this datagram of a train, or a later train.
    fn is_old_train(&self, token: u64, number: u16, index: u8) -> bool {
        let session = self.sessions.get(&token);
        let Some((session, keyed)) = session.and_then(|s| Some((s, s.keys.as_ref()?))) else {
            return false;
        };
        let newer_than = |than: u16| number.wrapping_sub(than).cast_signed() > 0;
        match &session.train {
            Some(train) if train.number == number => train.held.iter().any(|(i, ..)| *i == index),
            Some(train) => !newer_than(train.number),
            None => keyed.released.is_some_and(|r| !newer_than(r)),
        }
    }

    fn release(&mut self, token: u64) {
        let Some(session) = self.sessions.get_mut(&token) else {
            return;
        };
        let Some(train) = session.train.take() else {
            return;
        };
        if let Some(keyed) = &mut session.keys {
            keyed.released = Some(train.number);
        }
        for (index, rx_ns, len) in train.held {
            let message = ServerMessage::TrainReply {
                token,
                train: train.number,
                index,
                count: train.count,
                rx_ns,
            };
            self.out.push_back(Pending {
                session: Some(token),
                to: session.from,
                local: session.local,
                tos: session.tos,
                limit: len,
                pad: len,
                message,
            });
        }
    }
}

/// Hold time of an answer; unknown if negative or above four seconds.
fn hold(rx_ns: i64, tx_ns: i64) -> u32 {
    u32::try_from(tx_ns.saturating_sub(rx_ns)).unwrap_or(UNKNOWN_NS)
}
