//! The probe protocol: one UDP conversation, version 2, big-endian.
//!
//! Every datagram starts with 12 bytes: magic `Tb`, version, kind, and an identifier of 8 bytes. The identifier is the
//! client's nonce until a session is open, then the session's token. These 12 bytes are the same in all versions, so
//! that an end can refuse a version it cannot read. With a key the top bit of the kind is set and the datagram ends
//! with a tag of 16 bytes: HMAC-SHA-256 (RFC 2104) over all bytes before it.
//!
//! Open is tagged with a key derived from the user's ([`UserKey::opening`]), all later messages with the session's
//! ([`session_keys`]). Session keys depend on the nonce, the cookie and the token, and differ by direction. Hello and
//! Challenge are not tagged: neither end knows the other's keys yet.
//!
//! | kind | from | says | body after the 12 bytes |
//! |---|---|---|---|
//! | 1 Hello | client | who are you | padding |
//! | 2 Challenge | server | prove your address | cookie 16, salt 16, bit 0: keys only |
//! | 3 Open | client | here is the proof; I want | cookie 16, interval 8, duration 4, tos 1, 3 unused, boot proof 8; with a key: user 16 |
//! | 4 Opened | server | you may | token 8, shortest interval 8, duration 4, largest datagram 2, 2 unused, monotonic origin 8 |
//! | 5 Refused | server | no, because | reason 1, version 1, 2 unused, seq 4, a number 8 |
//! | 6 Request | client | probe | seq 4, send time 8, padding |
//! | 7 Reply | server | answer | see [`Reply`]: 40 bytes |
//! | 8 Train | client | hold this until the train is here | train 2, index 1, count 1, padding |
//! | 9 TrainReply | server | released | train 2, index 1, count 1, receive time 8, padding |
//! | 10 Close | client | forget me | padding |
//!
//! Sizes: a client's datagram has at least [`DATAGRAM_LEN`] bytes (52 bytes, an IP packet of 80 bytes in IPv4 and 100
//! in IPv6; 16 more with a key). The answer to a datagram of that size is never longer. So an answer is never larger
//! than its request.

use crate::control::LAST_NS;
use crate::keys::{Salt, SessionKeys, UserId, UserKey};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};
use std::fmt;

/// Version of the protocol.
pub const VERSION: u8 = 2;
/// Length of the shortest datagram a client sends and of a probe's answer, without the tag.
pub const DATAGRAM_LEN: usize = 52;
/// Length of a signature, bytes.
pub const TAG_LEN: usize = 16;
/// Longest datagram that either end builds: the payload of an Ethernet frame.
pub const MAX_LEN: usize = 1500;

/// Longest interval between probes, one an hour: a server may not ask for more, and keeps no session longer for it.
pub const LONGEST_INTERVAL_NS: u64 = 3_600_000_000_000;

const MAGIC: [u8; 2] = *b"Tb";
const HEADER_LEN: usize = 12;
const TAGGED: u8 = 0x80;
const REFUSED: u8 = 5;

/// Signing key. Its key block is hashed once, so that a probe costs two compressions.
#[derive(Clone)]
pub struct Key(Hmac<Sha256>);

impl Key {
    /// Creates a key from any bytes.
    pub fn new(secret: &[u8]) -> Key {
        Key(Hmac::new_from_slice(secret).expect("HMAC takes keys of any length"))
    }

    /// Full HMAC, for messages that have room for it.
    pub(crate) fn mac(&self, parts: &[&[u8]]) -> [u8; 32] {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.finalize().into_bytes().into()
    }

    pub(crate) fn tag(&self, parts: &[&[u8]]) -> [u8; TAG_LEN] {
        first(&self.mac(parts))
    }

    /// Compares a full HMAC in constant time.
    pub(crate) fn verify_mac(&self, parts: &[&[u8]], tag: &[u8]) -> bool {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.verify_slice(tag).is_ok()
    }

    /// Compares a tag in constant time.
    pub(crate) fn verify(&self, parts: &[&[u8]], tag: &[u8; TAG_LEN]) -> bool {
        let mut mac = self.0.clone();
        parts.iter().for_each(|part| mac.update(part));
        mac.verify_truncated_left(tag).is_ok()
    }
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Key(…)")
    }
}

fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
    std::array::from_fn(|i| bytes[i])
}

/// Proof that both ends run on the kernel booted under `boot_id`. It hides the identifier from strangers: the nonce
/// changes the number each time.
pub fn boot_proof(boot_id: &[u8], nonce: u64) -> u64 {
    let hash = Sha256::new()
        .chain_update(b"tailback boot")
        .chain_update(nonce.to_be_bytes())
        .chain_update(boot_id)
        .finalize();
    u64::from_be_bytes(first(&hash))
}

/// Keys of a probing session: `nonce` is the client's, `cookie` and `token` are the server's.
pub fn session_keys(user: &UserKey, nonce: u64, cookie: &[u8; 16], token: u64) -> SessionKeys {
    let context = [&nonce.to_be_bytes()[..], cookie, &token.to_be_bytes()].concat();
    user.session("tailback 3 probe", &context)
}

/// Client's request when it opens a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ask {
    /// Shortest interval between two probes that the client will use.
    pub interval_ns: u64,
    /// Requested duration of the session, seconds; 0 for the longest allowed.
    pub duration_s: u32,
    /// TOS or traffic-class byte that answers shall carry.
    pub tos: u8,
    /// Boot proof; see [`boot_proof`].
    pub boot_proof: u64,
}

/// Server's limits for the session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Grant {
    /// Token of the session.
    pub token: u64,
    /// Shortest interval that the server allows, ns.
    pub min_interval_ns: u64,
    /// Maximum duration, seconds; 0: without end.
    pub duration_s: u32,
    /// Largest datagram it answers, UDP payload.
    pub max_datagram: u16,
    /// Server's UNIX time at the zero of its monotonic clock, which makes the two clocks one. It is sent only to a
    /// client on the same kernel; otherwise 0.
    pub origin_unix_ns: i64,
}

/// Answer to a probe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reply {
    /// Number of the probe.
    pub seq: u32,
    /// Receive time of the probe in the server's kernel, on the server's clock, UNIX ns.
    pub rx_ns: i64,
    /// Time from `rx_ns` until the server's program sent this answer; `u32::MAX` if unknown.
    pub hold_ns: u32,
    /// Number of an earlier answer, and its hold time from its `rx_ns` until the kernel sent it. A program learns the
    /// kernel's send time only after the datagram has left. `u32::MAX`: unknown.
    pub earlier_seq: u32,
    /// Time that the server held the earlier answer, ns.
    pub earlier_hold_ns: u32,
    /// Probes that the server had received when it answered.
    pub history: History,
    /// TOS or traffic-class byte that the probe arrived with.
    pub tos: u8,
    /// Bit 0: `rx_ns` is the kernel's, not the program's. Bit 1: `tos` is known.
    pub flags: u8,
    /// Probes of this session that went unanswered because it was over its budget, modulo 65536.
    pub throttled: u16,
}

impl Reply {
    /// Flag: the receive time is the kernel's.
    pub const KERNEL_RX: u8 = 1;
    /// Flag: the TOS byte is known.
    pub const TOS_KNOWN: u8 = 2;
}

/// Value of a reply's field that is unknown.
pub const UNKNOWN_NS: u32 = u32::MAX;

/// Record of the latest probes that arrived: the highest number and the 64 before it. Numbers are compared as serial
/// numbers (RFC 1982), so a late packet sets its own bit and never moves the window back.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct History {
    /// Highest number received.
    pub highest: u32,
    /// Bit `i` stands for number `highest - 1 - i`.
    pub bits: u64,
}

impl History {
    /// History that starts at a number.
    pub fn starting_at(seq: u32) -> History {
        History {
            highest: seq,
            bits: 0,
        }
    }

    /// Notes a received number.
    pub fn record(&mut self, seq: u32) {
        let ahead = seq.wrapping_sub(self.highest).cast_signed();
        match ahead {
            1.. => {
                let shifted = self.bits.checked_shl(ahead.unsigned_abs()).unwrap_or(0);
                // The old highest becomes a bit, unless the window has left it behind.
                let old = 1u64.checked_shl(ahead.unsigned_abs() - 1).unwrap_or(0);
                self.bits = shifted | old;
                self.highest = seq;
            }
            -64..=-1 => self.bits |= 1 << (ahead.unsigned_abs() - 1),
            _ => {}
        }
    }

    /// True if `seq` had arrived; `None` if it is older than the window.
    pub fn received(&self, seq: u32) -> Option<bool> {
        match self.highest.wrapping_sub(seq).cast_signed() {
            0 => Some(true),
            behind @ 1..=64 => Some(self.bits >> (behind - 1) & 1 == 1),
            _ => None,
        }
    }
}

/// Reason of a refusal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The datagram carries no tag, or one made with another key.
    WrongKey,
    /// The client uses a key and this server has none.
    NoKey,
    /// The server speaks this version only.
    Version(u8),
    /// The cookie is too old or was made for another address; say Hello again.
    Cookie,
    /// The address already has the maximum number of sessions, given here.
    SessionsOfAddress(u64),
    /// The server already has its maximum number of sessions.
    Full,
    /// Rate over the budget: the shortest interval that is allowed, ns.
    Rate(u64),
    /// The session has reached its maximum duration.
    DurationOver,
    /// The server knows no such session for this address: it was restarted, or the session was silent for too long.
    NoSession,
    /// Hourly byte budget of this client, of this user, or of all together, is used up.
    Spent,
}

/// Message of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClientMessage {
    Hello {
        nonce: u64,
    },
    Open {
        nonce: u64,
        cookie: [u8; 16],
        ask: Ask,
        /// User of the key; present if the datagram is tagged.
        user: Option<UserId>,
    },
    Request {
        token: u64,
        seq: u32,
        sent_ns: i64,
    },
    Train {
        token: u64,
        train: u16,
        index: u8,
        count: u8,
    },
    Close {
        token: u64,
    },
}

/// Message of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ServerMessage {
    Challenge {
        nonce: u64,
        cookie: [u8; 16],
        /// Salt of the server's passphrases.
        salt: Salt,
        /// True if only users with a key are served.
        key_needed: bool,
    },
    Opened {
        nonce: u64,
        grant: Grant,
    },
    /// Refusal. `id` is the nonce or token, `seq` the number of the probe that is refused.
    Refused {
        id: u64,
        seq: u32,
        reason: Refusal,
    },
    Reply {
        token: u64,
        reply: Reply,
    },
    TrainReply {
        token: u64,
        train: u16,
        index: u8,
        count: u8,
        rx_ns: i64,
    },
}

/// Reason why a datagram was not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreadable {
    /// The datagram is not of this protocol, or truncated.
    Foreign,
    /// Another version, with the identifier to answer to.
    Version { id: u64, version: u8 },
    /// The tag is missing or wrong although a key is in use.
    WrongTag { id: u64 },
    /// The datagram is tagged although no key is in use.
    Tagged { id: u64 },
}

/// Front of every datagram, read before its tag is checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Front {
    /// Kind of the message.
    pub kind: Kind,
    /// Identifier of the session.
    pub id: u64,
    /// True if the message is signed.
    pub tagged: bool,
}

/// Kinds of datagrams that are told apart before their tag can be checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Hello,
    Challenge,
    Open,
    Opened,
    Refused,
    /// Datagram of an open session.
    Within,
}

/// Reads the front of a datagram, which determines the key of its tag.
///
/// # Errors
/// The datagram is not of this protocol, or of another version.
pub fn front(bytes: &[u8]) -> Result<Front, Unreadable> {
    let mut r = Reader(bytes);
    let (magic, version, kind, id) =
        (|| Some((r.take::<2>()?, r.u8()?, r.u8()?, r.u64()?)))().ok_or(Unreadable::Foreign)?;
    if magic != MAGIC {
        return Err(Unreadable::Foreign);
    }
    let tagged = kind & TAGGED != 0;
    // Every version lays out the header and the reason of a refusal as version 1 did.
    if version != VERSION && kind != REFUSED {
        return Err(Unreadable::Version { id, version });
    }
    let kind = match kind & !TAGGED {
        1 => Kind::Hello,
        2 => Kind::Challenge,
        3 => Kind::Open,
        4 => Kind::Opened,
        REFUSED => Kind::Refused,
        _ => Kind::Within,
    };
    Ok(Front { kind, id, tagged })
}

/// Token in a grant whose tag is not checked yet: the key of the check depends on the token.
pub fn granted_token(bytes: &[u8]) -> Option<u64> {
    Reader(bytes.get(HEADER_LEN..)?).u64()
}

/// Cookie and user in a request to open a session whose tag is not checked yet.
pub fn opening_user(bytes: &[u8]) -> Option<([u8; 16], UserId)> {
    let mut r = Reader(bytes.get(HEADER_LEN..)?);
    let cookie = r.take()?;
    let _ask = r.take::<24>()?;
    Some((cookie, r.take()?))
}

struct Reader<'a>(&'a [u8]);

impl Reader<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*head)
    }
    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_be_bytes)
    }
    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }
    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }
    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }
    /// Reads a time of the far end's clock, UNIX ns; an impossible one makes the datagram unreadable.
    fn instant(&mut self) -> Option<i64> {
        self.i64().filter(|ns| (0..=LAST_NS).contains(ns))
    }
}

struct Writer<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl<'a> Writer<'a> {
    fn new(out: &'a mut [u8], kind: u8, id: u64) -> Writer<'a> {
        let mut w = Writer { out, at: 0 };
        w.put(&MAGIC).put(&[VERSION, kind]).put(&id.to_be_bytes());
        w
    }
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
        self
    }
    /// Pads with zeros to `len` bytes in total, the last of which are the tag if there is a key.
    fn finish(self, len: usize, key: Option<&Key>) -> usize {
        let body = len - key.map_or(0, |_| TAG_LEN);
        assert!(
            self.at <= body,
            "a message of {} bytes does not fit {body}",
            self.at
        );
        self.out[self.at..body].fill(0);
        if let Some(key) = key {
            self.out[3] |= TAGGED;
            let tag = key.tag(&[&self.out[..body]]);
            self.out[body..len].copy_from_slice(&tag);
        }
        len
    }
}

/// Checks header and tag; returns kind, identifier and body.
fn open<'a>(bytes: &'a [u8], key: Option<&Key>) -> Result<(u8, u64, Reader<'a>), Unreadable> {
    let mut r = Reader(bytes);
    let (magic, version, kind, id) =
        (|| Some((r.take::<2>()?, r.u8()?, r.u8()?, r.u64()?)))().ok_or(Unreadable::Foreign)?;
    if magic != MAGIC {
        return Err(Unreadable::Foreign);
    }
    if version != VERSION {
        return Err(Unreadable::Version { id, version });
    }
    match (key, kind & TAGGED != 0) {
        (None, false) => {}
        (None, true) => return Err(Unreadable::Tagged { id }),
        (Some(_), false) => return Err(Unreadable::WrongTag { id }),
        (Some(key), true) => {
            let (body, tag) = bytes
                .split_last_chunk::<TAG_LEN>()
                .ok_or(Unreadable::Foreign)?;
            if body.len() < HEADER_LEN {
                return Err(Unreadable::Foreign);
            }
            if !key.verify(&[body], tag) {
                return Err(Unreadable::WrongTag { id });
            }
            r = Reader(&body[HEADER_LEN..]);
        }
    }
    Ok((kind & !TAGGED, id, r))
}

/// Length of the shortest datagram that may be sent with or without a key.
pub fn datagram_len(key: Option<&Key>) -> usize {
    DATAGRAM_LEN + key.map_or(0, |_| TAG_LEN)
}

impl ClientMessage {
    /// Writes the message, padded to `len` bytes (at least [`datagram_len`]), and returns its length.
    pub fn encode(&self, out: &mut [u8], len: usize, key: Option<&Key>) -> usize {
        let len = len.max(datagram_len(key));
        match *self {
            ClientMessage::Hello { nonce } => Writer::new(out, 1, nonce).finish(len, key),
            ClientMessage::Open {
                nonce,
                cookie,
                ask,
                user,
            } => {
                let mut w = Writer::new(out, 3, nonce);
                w.put(&cookie)
                    .put(&ask.interval_ns.to_be_bytes())
                    .put(&ask.duration_s.to_be_bytes());
                w.put(&[ask.tos, 0, 0, 0])
                    .put(&ask.boot_proof.to_be_bytes());
                if let Some(user) = user {
                    w.put(&user);
                }
                let least = w.at + key.map_or(0, |_| TAG_LEN);
                w.finish(len.max(least), key)
            }
            ClientMessage::Request {
                token,
                seq,
                sent_ns,
            } => {
                let mut w = Writer::new(out, 6, token);
                w.put(&seq.to_be_bytes()).put(&sent_ns.to_be_bytes());
                w.finish(len, key)
            }
            ClientMessage::Train {
                token,
                train,
                index,
                count,
            } => {
                let mut w = Writer::new(out, 8, token);
                w.put(&train.to_be_bytes()).put(&[index, count]);
                w.finish(len, key)
            }
            ClientMessage::Close { token } => Writer::new(out, 10, token).finish(len, key),
        }
    }

    /// # Errors
    /// The bytes are not a valid message under this key; the error tells why.
    pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<ClientMessage, Unreadable> {
        let (kind, id, mut r) = open(bytes, key)?;
        let message = match kind {
            1 => Some(ClientMessage::Hello { nonce: id }),
            3 => (|| {
                let cookie = r.take()?;
                let (interval_ns, duration_s, [tos, ..]) = (r.u64()?, r.u32()?, r.take::<4>()?);
                let ask = Ask {
                    interval_ns,
                    duration_s,
                    tos,
                    boot_proof: r.u64()?,
                };
                let user = match key {
                    Some(_) => Some(r.take()?),
                    None => None,
                };
                Some(ClientMessage::Open {
                    nonce: id,
                    cookie,
                    ask,
                    user,
                })
            })(),
            6 => (|| {
                Some(ClientMessage::Request {
                    token: id,
                    seq: r.u32()?,
                    sent_ns: r.i64()?,
                })
            })(),
            8 => (|| {
                Some(ClientMessage::Train {
                    token: id,
                    train: r.u16()?,
                    index: r.u8()?,
                    count: r.u8()?,
                })
            })(),
            10 => Some(ClientMessage::Close { token: id }),
            _ => None,
        };
        message.ok_or(Unreadable::Foreign)
    }
}

impl Refusal {
    fn to_parts(self) -> (u8, u8, u64) {
        match self {
            Refusal::WrongKey => (1, VERSION, 0),
            Refusal::NoKey => (2, VERSION, 0),
            Refusal::Version(v) => (3, v, 0),
            Refusal::Cookie => (4, VERSION, 0),
            Refusal::SessionsOfAddress(n) => (5, VERSION, n),
            Refusal::Full => (6, VERSION, 0),
            Refusal::Rate(ns) => (7, VERSION, ns),
            Refusal::DurationOver => (8, VERSION, 0),
            Refusal::NoSession => (9, VERSION, 0),
            Refusal::Spent => (10, VERSION, 0),
        }
    }
    fn from_parts(reason: u8, version: u8, number: u64) -> Option<Refusal> {
        Some(match reason {
            1 => Refusal::WrongKey,
            2 => Refusal::NoKey,
            3 => Refusal::Version(version),
            4 => Refusal::Cookie,
            5 => Refusal::SessionsOfAddress(number),
            6 => Refusal::Full,
            7 => Refusal::Rate(number),
            8 => Refusal::DurationOver,
            9 => Refusal::NoSession,
            10 => Refusal::Spent,
            _ => return None,
        })
    }
}

/// Rest of a refusal.
fn refused(id: u64, r: &mut Reader) -> Option<ServerMessage> {
    let ([code, version, ..], seq, number) = (r.take::<4>()?, r.u32()?, r.u64()?);
    Some(ServerMessage::Refused {
        id,
        seq,
        reason: Refusal::from_parts(code, version, number)?,
    })
}

impl ServerMessage {
    /// Writes the message, padded to `len` bytes or more if it needs them, and returns its length. A refusal for a
    /// stranger has no tag: its client has no key to check it with.
    pub fn encode(&self, out: &mut [u8], len: usize, key: Option<&Key>) -> usize {
        let least = |body: usize| len.max(body + key.map_or(0, |_| TAG_LEN));
        match *self {
            ServerMessage::Challenge {
                nonce,
                cookie,
                salt,
                key_needed,
            } => {
                let mut w = Writer::new(out, 2, nonce);
                w.put(&cookie).put(&salt).put(&[u8::from(key_needed)]);
                w.finish(least(45), key)
            }
            ServerMessage::Opened { nonce, grant } => {
                let mut w = Writer::new(out, 4, nonce);
                w.put(&grant.token.to_be_bytes())
                    .put(&grant.min_interval_ns.to_be_bytes())
                    .put(&grant.duration_s.to_be_bytes());
                w.put(&grant.max_datagram.to_be_bytes())
                    .put(&[0, 0])
                    .put(&grant.origin_unix_ns.to_be_bytes());
                w.finish(least(44), key)
            }
            ServerMessage::Refused { id, seq, reason } => {
                let (code, version, number) = reason.to_parts();
                let mut w = Writer::new(out, REFUSED, id);
                w.put(&[code, version, 0, 0])
                    .put(&seq.to_be_bytes())
                    .put(&number.to_be_bytes());
                w.finish(least(28), key)
            }
            ServerMessage::Reply { token, reply } => {
                let mut w = Writer::new(out, 7, token);
                w.put(&reply.seq.to_be_bytes())
                    .put(&reply.rx_ns.to_be_bytes())
                    .put(&reply.hold_ns.to_be_bytes());
                w.put(&reply.earlier_seq.to_be_bytes())
                    .put(&reply.earlier_hold_ns.to_be_bytes());
                w.put(&reply.history.highest.to_be_bytes())
                    .put(&reply.history.bits.to_be_bytes());
                w.put(&[reply.tos, reply.flags])
                    .put(&reply.throttled.to_be_bytes());
                w.finish(least(DATAGRAM_LEN), key)
            }
            ServerMessage::TrainReply {
                token,
                train,
                index,
                count,
                rx_ns,
            } => {
                let mut w = Writer::new(out, 9, token);
                w.put(&train.to_be_bytes())
                    .put(&[index, count])
                    .put(&rx_ns.to_be_bytes());
                w.finish(least(24), key)
            }
        }
    }

    /// Reads a message. A refusal without a tag is accepted even if a key is in use: [`front`] tells that it has none.
    ///
    /// # Errors
    /// The bytes are not a valid message under this key; the error tells why.
    pub fn decode(bytes: &[u8], key: Option<&Key>) -> Result<ServerMessage, Unreadable> {
        // Every version lays out the header and the reason of a refusal as version 1 did.
        if bytes.len() >= 28 && bytes[..2] == MAGIC && bytes[3] == REFUSED {
            let id = Reader(&bytes[4..]).u64().ok_or(Unreadable::Foreign)?;
            return refused(id, &mut Reader(&bytes[HEADER_LEN..])).ok_or(Unreadable::Foreign);
        }
        let (kind, id, mut r) = open(bytes, key)?;
        let message = match kind {
            2 => (|| {
                Some(ServerMessage::Challenge {
                    nonce: id,
                    cookie: r.take()?,
                    salt: r.take()?,
                    key_needed: r.u8()? & 1 != 0,
                })
            })(),
            REFUSED => refused(id, &mut r),
            4 => (|| {
                let (token, min_interval_ns, duration_s) = (r.u64()?, r.u64()?, r.u32()?);
                let (max_datagram, _) = (r.u16()?, r.u16()?);
                let grant = Grant {
                    token,
                    min_interval_ns,
                    duration_s,
                    max_datagram,
                    origin_unix_ns: r.instant()?,
                };
                let sane = min_interval_ns <= LONGEST_INTERVAL_NS
                    && (DATAGRAM_LEN..=MAX_LEN).contains(&usize::from(max_datagram));
                sane.then_some(ServerMessage::Opened { nonce: id, grant })
            })(),
            7 => (|| {
                let (seq, rx_ns, hold_ns) = (r.u32()?, r.instant()?, r.u32()?);
                let (earlier_seq, earlier_hold_ns) = (r.u32()?, r.u32()?);
                let history = History {
                    highest: r.u32()?,
                    bits: r.u64()?,
                };
                let ([tos, flags], throttled) = (r.take::<2>()?, r.u16()?);
                let reply = Reply {
                    seq,
                    rx_ns,
                    hold_ns,
                    earlier_seq,
                    earlier_hold_ns,
                    history,
                    tos,
                    flags,
                    throttled,
                };
                Some(ServerMessage::Reply { token: id, reply })
            })(),
            9 => (|| {
                let (train, index, count) = (r.u16()?, r.u8()?, r.u8()?);
                Some(ServerMessage::TrainReply {
                    token: id,
                    train,
                    index,
                    count,
                    rx_ns: r.instant()?,
                })
            })(),
            _ => None,
        };
        message.ok_or(Unreadable::Foreign)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn arrivals(seqs: &[u32]) -> History {
        let mut h = History::starting_at(seqs[0]);
        seqs[1..].iter().for_each(|&s| h.record(s));
        h
    }

    /// irtt 0.9.0 and 0.9.2 forget their whole window here and step back to 3. They then show a downward loss as an
    /// upward one.
    #[test]
    fn a_late_packet_fills_its_bit_and_leaves_the_window_where_it_is() {
        let h = arrivals(&[0, 1, 2, 4, 3, 5]);
        assert_eq!(
            h,
            History {
                highest: 5,
                bits: 0b11111
            }
        );
        assert_eq!(
            arrivals(&[0, 1, 2, 4, 3]),
            History {
                highest: 4,
                bits: 0b1111
            }
        );
    }

    #[test]
    fn the_window_crosses_the_wrap_of_the_number() {
        let h = arrivals(&[u32::MAX - 1, 1, u32::MAX]);
        assert_eq!(h.highest, 1);
        assert_eq!(
            [u32::MAX - 1, u32::MAX, 0, 1, 2].map(|s| h.received(s)),
            [Some(true), Some(true), Some(false), Some(true), None]
        );
    }

    proptest! {
        #[test]
        fn the_window_equals_the_set_of_arrivals(steps in prop::collection::vec(-90i64..90, 1..200)) {
            let mut seq = 1_000i64;
            let mut h = History::starting_at(1_000);
            let mut seen = std::collections::BTreeSet::from([1_000i64]);
            let mut highest = 1_000i64;
            for step in steps {
                seq = (seq + step).max(0);
                // Numbers older than the window are forgotten and rightly unknown.
                if seq >= highest - 64 { seen.insert(seq); }
                h.record(seq as u32);
                highest = highest.max(seq);
                prop_assert_eq!(i64::from(h.highest), highest);
                for back in 0..=64 {
                    let s = highest - back;
                    if s >= 0 {
                        prop_assert_eq!(h.received(s as u32), Some(seen.contains(&s)), "{} of {}", s, highest);
                    }
                }
                prop_assert_eq!(h.received((highest + 65536) as u32), None);
            }
        }

        #[test]
        fn no_bytes_make_a_reader_panic(bytes in prop::collection::vec(any::<u8>(), 0..120), kind in 0u8..12, header in any::<bool>()) {
            let mut bytes = bytes;
            if header && bytes.len() >= 4 {
                bytes[..4].copy_from_slice(&[b'T', b'b', VERSION, kind]);
            }
            let key = Key::new(b"k");
            for key in [None, Some(&key)] {
                let _ = ClientMessage::decode(&bytes, key);
                let _ = ServerMessage::decode(&bytes, key);
            }
        }

        #[test]
        fn a_reply_comes_back_as_it_was_written(
            token: u64, seq: u32, rx_ns in 0..=LAST_NS, hold_ns: u32, earlier_seq: u32, earlier_hold_ns: u32,
            highest: u32, bits: u64, tos: u8, flags: u8, throttled: u16, tagged: bool,
        ) {
            let key = tagged.then(|| Key::new(b"secret"));
            let history = History { highest, bits };
            let reply = Reply { seq, rx_ns, hold_ns, earlier_seq, earlier_hold_ns, history, tos, flags, throttled };
            let message = ServerMessage::Reply { token, reply };
            let mut buf = [0u8; MAX_LEN];
            let n = message.encode(&mut buf, 0, key.as_ref());
            prop_assert_eq!(n, datagram_len(key.as_ref()));
            prop_assert_eq!(ServerMessage::decode(&buf[..n], key.as_ref()), Ok(message));
        }

        #[test]
        fn one_changed_bit_breaks_the_tag(bit in 0usize..DATAGRAM_LEN * 8 + TAG_LEN * 8) {
            let key = Key::new(b"secret");
            let mut buf = [0u8; MAX_LEN];
            let n = ClientMessage::Request { token: 7, seq: 9, sent_ns: 11 }.encode(&mut buf, 0, Some(&key));
            buf[bit / 8] ^= 1 << (bit % 8);
            prop_assert!(ClientMessage::decode(&buf[..n], Some(&key)).is_err());
        }
    }

    #[test]
    fn every_message_comes_back_as_it_was_written() {
        let ask = Ask {
            interval_ns: 10_000_000,
            duration_s: 60,
            tos: 0xb8,
            boot_proof: 3,
        };
        let grant = Grant {
            token: 5,
            min_interval_ns: 1_000_000,
            duration_s: 3600,
            max_datagram: 1472,
            origin_unix_ns: 4,
        };
        let client = [
            ClientMessage::Hello { nonce: 1 },
            ClientMessage::Open {
                nonce: 1,
                cookie: [9; 16],
                ask,
                user: None,
            },
            ClientMessage::Request {
                token: 5,
                seq: u32::MAX,
                sent_ns: -1,
            },
            ClientMessage::Train {
                token: 5,
                train: 2,
                index: 3,
                count: 8,
            },
            ClientMessage::Close { token: 5 },
        ];
        let reasons = [
            Refusal::WrongKey,
            Refusal::NoKey,
            Refusal::Version(1),
            Refusal::Cookie,
            Refusal::SessionsOfAddress(4),
            Refusal::Full,
            Refusal::Rate(1_000_000),
            Refusal::DurationOver,
            Refusal::NoSession,
            Refusal::Spent,
        ];
        let server = [
            ServerMessage::Challenge {
                nonce: 1,
                cookie: [9; 16],
                salt: [3; 16],
                key_needed: true,
            },
            ServerMessage::Opened { nonce: 1, grant },
            ServerMessage::TrainReply {
                token: 5,
                train: 2,
                index: 3,
                count: 8,
                rx_ns: 1 << 60,
            },
        ];
        let refused = reasons.map(|reason| ServerMessage::Refused {
            id: 5,
            seq: 4,
            reason,
        });
        let mut buf = [0u8; MAX_LEN];
        for key in [None, Some(Key::new(b"secret"))] {
            for mut message in client {
                let mut len = datagram_len(key.as_ref());
                if let (ClientMessage::Open { user, .. }, Some(_)) = (&mut message, &key) {
                    (*user, len) = (Some([6; 16]), len + 16);
                }
                let n = message.encode(&mut buf, 0, key.as_ref());
                assert_eq!(n, len);
                assert_eq!(ClientMessage::decode(&buf[..n], key.as_ref()), Ok(message));
            }
            for message in server.iter().chain(&refused) {
                let n = message.encode(&mut buf, 0, key.as_ref());
                assert!(
                    n <= datagram_len(key.as_ref()),
                    "{message:?} takes {n} bytes"
                );
                assert_eq!(ServerMessage::decode(&buf[..n], key.as_ref()), Ok(*message));
            }
        }
    }

    #[test]
    fn each_kind_of_misunderstanding_has_its_own_name() {
        let mut buf = [0u8; MAX_LEN];
        let (right, wrong) = (Key::new(b"right"), Key::new(b"wrong"));
        let n = ClientMessage::Hello { nonce: 8 }.encode(&mut buf, 0, Some(&wrong));
        assert_eq!(
            ClientMessage::decode(&buf[..n], Some(&right)),
            Err(Unreadable::WrongTag { id: 8 })
        );
        assert_eq!(
            ClientMessage::decode(&buf[..n], None),
            Err(Unreadable::Tagged { id: 8 })
        );
        let n = ClientMessage::Hello { nonce: 8 }.encode(&mut buf, 0, None);
        assert_eq!(
            ClientMessage::decode(&buf[..n], Some(&right)),
            Err(Unreadable::WrongTag { id: 8 })
        );
        buf[2] = 9;
        assert_eq!(
            ClientMessage::decode(&buf[..n], None),
            Err(Unreadable::Version { id: 8, version: 9 })
        );
    }
}
