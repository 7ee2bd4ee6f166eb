//! Server of irtt's protocol, version 1, without keys.
//!
//! **Source.** The packets of irtt 0.9.0, as its client and server exchange them. All numbers are little-endian.
//!
//! **Address.** The answer to an opening carries a token, and only whoever received it can send it back. It is 8 bytes
//! longer than the opening, so it is sent only if its network has sent that many bytes before: an opening that comes
//! first is answered when the client repeats it. A stranger takes no memory, as the token is a hash of what it asked for.

use super::{Answer, Asked, Counts, Ended, Instant, Responder};
use crate::account::Account;
use crate::bucket::{Bucket, neighbourhood, subscriber};
use crate::wire::{Key, MAX_LEN};
use base::{BitsPerSec, Duration, Time};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, SocketAddr};

const MAGIC: [u8; 3] = [0x14, 0xa7, 0x5b];
const OPEN: u8 = 1;
const REPLY: u8 = 2;
const CLOSE: u8 = 4;
/// Magic number and flags.
const HEAD: usize = 4;
/// With the token and the number of the packet.
const WITH_NUMBER: usize = HEAD + 8 + 4;
const VERSION: i64 = 1;
/// Fill of an answer, repeated, unless the client asks for random bytes.
const FILL: &[u8; 4] = b"irtt";

/// Limits of sessions.
#[derive(Clone, Copy, Debug)]
pub struct Budget {
    /// Greatest number of sessions, and of those of one client: an IPv4 address, or an IPv6 network of 64 bits.
    pub sessions: usize,
    /// Greatest number of one client's.
    pub of_client: usize,
    /// Shortest interval between the packets of a session.
    pub min_interval: Duration,
    /// Greatest rate of a session, UDP payload.
    pub rate: BitsPerSec,
    /// Silence after which a session is over.
    pub idle: Duration,
}

impl Default for Budget {
    fn default() -> Budget {
        Budget {
            sessions: 1024,
            of_client: 16,
            min_interval: Duration::from_micros(500),
            rate: BitsPerSec::from_mbps(4),
            idle: Duration::from_secs(60),
        }
    }
}

/// Packets that may come at once, after a pause of the network.
const BURST: f64 = 50.0;
/// Period of a token that no packet has used yet; it is valid for one to two of them.
const TOKEN_LIFE_S: u64 = 8;
/// Openings that are looked at, of all clients: rate per second and burst.
const OPENINGS: (f64, f64) = (2_000.0, 2_000.0);
/// Networks whose bytes are remembered, and the most that one may have in store.
const NETWORKS: usize = 1024;
const STORE: usize = 64;

/// Longest fields of an answer: count, window, two stamps of both clocks.
const LONGEST_FIELDS: usize = 4 + 8 + 32;

/// Reason why a datagram gets no answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dropped {
    /// Not of this protocol, too short, or of a session that is not there.
    Ignored,
    /// Beyond a budget.
    Throttled,
}
use Dropped::{Ignored, Throttled};

/// Fields of a session's answers, in one byte: it is part of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Fields(u8);

impl Fields {
    fn new(counts: i64, stamps: i64, clocks: i64, random: bool) -> Fields {
        Fields(counts as u8 | (stamps as u8) << 2 | (clocks as u8) << 5 | u8::from(random) << 7)
    }
    fn has_count(self) -> bool {
        self.0 & 1 != 0
    }
    fn has_window(self) -> bool {
        self.0 & 2 != 0
    }
    /// Stamps of the sending, of the arrival, or of the middle of both.
    fn stamps(self) -> u8 {
        self.0 >> 2 & 7
    }
    fn has_wall(self) -> bool {
        self.0 & 0x20 != 0
    }
    fn has_mono(self) -> bool {
        self.0 & 0x40 != 0
    }
    fn is_random(self) -> bool {
        self.0 & 0x80 != 0
    }

    /// Writes the fields that the client asked for.
    fn write(self, count: u32, window: u64, came: Instant, sent: Instant, out: &mut Vec<u8>) {
        if self.has_count() {
            out.extend(count.to_le_bytes());
        }
        if self.has_window() {
            out.extend(window.to_le_bytes());
        }
        let middle = Instant {
            wall_ns: came.wall_ns.midpoint(sent.wall_ns),
            mono_ns: came.mono_ns.midpoint(sent.mono_ns),
        };
        let stamps: &[Instant] = match self.stamps() {
            1 => &[sent],
            2 => &[came],
            3 => &[came, sent],
            4 => &[middle],
            _ => &[],
        };
        for at in stamps {
            if self.has_wall() {
                out.extend(at.wall_ns.to_le_bytes());
            }
            if self.has_mono() {
                out.extend(at.mono_ns.to_le_bytes());
            }
        }
    }
}

/// Parameters of an opening.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Wanted {
    version: i64,
    duration: i64,
    interval: i64,
    length: i64,
    counts: i64,
    stamps: i64,
    clocks: i64,
    dscp: i64,
    fill: Option<Vec<u8>>,
}

impl Wanted {
    /// Reads the parameters; `None` if they are not understood.
    fn read(mut bytes: &[u8]) -> Option<Wanted> {
        let mut wanted = Wanted {
            version: 0,
            duration: 0,
            interval: 0,
            length: 0,
            counts: 0,
            stamps: 0,
            clocks: 0,
            dscp: 0,
            fill: None,
        };
        while !bytes.is_empty() {
            let kind = varint(&mut bytes)?;
            if kind == 9 {
                let len = usize::try_from(varint(&mut bytes)?).ok()?;
                let (fill, rest) = bytes.split_at_checked(len)?;
                (wanted.fill, bytes) = (Some(fill.to_vec()), rest);
                continue;
            }
            let value = zigzag(varint(&mut bytes)?);
            *match kind {
                1 => &mut wanted.version,
                2 => &mut wanted.duration,
                3 => &mut wanted.interval,
                4 => &mut wanted.length,
                5 => &mut wanted.counts,
                6 => &mut wanted.stamps,
                7 => &mut wanted.clocks,
                8 => &mut wanted.dscp,
                _ => return None,
            } = value;
        }
        Some(wanted)
    }

    /// Parameters that are granted of these.
    fn granted(self, budget: &Budget) -> Wanted {
        let shortest = budget.min_interval.as_nanos() as i64;
        Wanted {
            version: VERSION,
            duration: self.duration.max(0),
            interval: self.interval.max(shortest),
            length: self.length.clamp(0, MAX_LEN as i64),
            counts: self.counts.clamp(0, 3),
            stamps: self.stamps.clamp(0, 4),
            clocks: self.clocks.clamp(0, 3),
            dscp: self.dscp.clamp(0, 255),
            fill: self.fill.filter(|f| f == b"rand"),
        }
    }

    fn fields(&self) -> Fields {
        Fields::new(self.counts, self.stamps, self.clocks, self.fill.is_some())
    }

    fn write(&self, out: &mut Vec<u8>) {
        let values = [
            self.version,
            self.duration,
            self.interval,
            self.length,
            self.counts,
            self.stamps,
            self.clocks,
            self.dscp,
        ];
        for (kind, value) in (1..).zip(values).filter(|(_, v)| *v != 0) {
            put_varint(out, kind);
            put_varint(out, (value << 1 ^ value >> 63).cast_unsigned());
        }
        if let Some(fill) = &self.fill {
            put_varint(out, 9);
            put_varint(out, fill.len() as u64);
            out.extend(fill);
        }
    }
}

/// Unsigned number of seven bits a byte, the lowest first.
fn varint(bytes: &mut &[u8]) -> Option<u64> {
    let mut value = 0;
    for shift in (0..64).step_by(7) {
        let (&byte, rest) = bytes.split_first()?;
        *bytes = rest;
        let bits = u64::from(byte & 0x7f);
        if bits << shift >> shift != bits {
            return None;
        }
        value |= bits << shift;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

fn zigzag(value: u64) -> i64 {
    (value >> 1).cast_signed() ^ -(value & 1).cast_signed()
}

fn put_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

/// Returns the account that a client is charged to.
pub type Accounts = Box<dyn Fn(IpAddr) -> Account + Send>;

/// Session of a client whose address is proven.
struct Session {
    from: SocketAddr,
    fields: Fields,
    account: Account,
    began: Time,
    last: Time,
    packets: Bucket,
    bits: Bucket,
    moved: u64,
    /// Packets that have come.
    count: u32,
    /// Highest number, and which of the 64 up to it have come; bit 0 is the highest itself.
    newest: Option<u32>,
    window: u64,
}

impl Session {
    /// Notes packet `number`; returns the window as of that packet: bit n is set if packet `number − n` has come.
    fn arrived(&mut self, number: u32) -> u64 {
        self.count = self.count.wrapping_add(1);
        let newest = *self.newest.get_or_insert(number);
        let ahead = number.wrapping_sub(newest).cast_signed();
        if ahead >= 0 {
            self.window = self.window.checked_shl(ahead.unsigned_abs()).unwrap_or(0) | 1;
            self.newest = Some(number);
            return self.window;
        }
        let behind = ahead.unsigned_abs();
        self.window |= 1u64.checked_shl(behind).unwrap_or(0);
        // Of a packet older than the window itself is known, nothing else.
        self.window.checked_shr(behind).unwrap_or(1)
    }
}

/// Server of irtt's clients.
pub struct Server {
    budget: Budget,
    /// Secret of the tokens; random, and new at every start.
    secret: Key,
    accounts: Accounts,
    /// Sessions by token.
    sessions: BTreeMap<u64, Session>,
    ended: VecDeque<Ended>,
    next_sweep: Time,
    openings: Bucket,
    /// Bytes that networks have sent and not got back, for openings.
    store: BTreeMap<IpAddr, usize>,
    order: VecDeque<IpAddr>,
    /// State of the random fill.
    noise: u64,
    counts: Counts,
}

impl Server {
    /// Creates a server. `secret`: random bytes.
    pub fn new(budget: Budget, secret: [u8; 32], accounts: Accounts) -> Server {
        let [a, b, c, d, e, f, g, h, ..] = secret;
        Server {
            budget,
            secret: Key::new(&secret),
            accounts,
            sessions: BTreeMap::new(),
            ended: VecDeque::new(),
            next_sweep: Time::ZERO,
            openings: Bucket::new(OPENINGS.0, OPENINGS.1, Time::ZERO),
            store: BTreeMap::new(),
            order: VecDeque::new(),
            noise: u64::from_le_bytes([a, b, c, d, e, f, g, h]) | 1,
            counts: Counts::default(),
        }
    }

    /// Takes `len` bytes out of what this network has in store after putting `came` in; false if there is not enough.
    fn pays(&mut self, from: IpAddr, came: usize, len: usize) -> bool {
        let network = neighbourhood(from);
        if !self.store.contains_key(&network) {
            if self.order.len() >= NETWORKS {
                let oldest = self.order.pop_front();
                oldest.and_then(|n| self.store.remove(&n));
            }
            self.order.push_back(network);
        }
        let store = self.store.entry(network).or_default();
        *store += came;
        let pays = *store >= len;
        if pays {
            *store -= len;
        }
        *store = (*store).min(STORE);
        pays
    }

    fn token(&self, from: SocketAddr, fields: Fields, period: u8) -> u64 {
        let ip = match from.ip().to_canonical() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().octets(),
            IpAddr::V6(v6) => v6.octets(),
        };
        let kind: &[u8] = b"irtt";
        let mac = self
            .secret
            .mac(&[kind, &ip, &from.port().to_be_bytes(), &[fields.0, period]]);
        u64::from_le_bytes([
            fields.0, period, mac[0], mac[1], mac[2], mac[3], mac[4], mac[5],
        ])
    }

    /// Fields of a token that was made for this address not long ago.
    fn verified(&self, now: Time, from: SocketAddr, token: u64) -> Option<Fields> {
        let [fields, period, ..] = token.to_le_bytes();
        let fields = Fields(fields);
        let age = period_of(now).wrapping_sub(period);
        (age <= 1 && self.token(from, fields, period) == token).then_some(fields)
    }

    fn opening(&mut self, now: Time, asked: &Asked, out: &mut [u8]) -> Result<Answer, Dropped> {
        if !self.openings.take(now, 1.0) {
            return Err(Throttled);
        }
        let flags = asked.bytes[HEAD - 1];
        let only_asks = flags & CLOSE != 0;
        let wanted = Wanted::read(&asked.bytes[HEAD..]).ok_or(Ignored)?;
        let granted = wanted.granted(&self.budget);
        let token = match only_asks {
            true => 0,
            false => self.token(asked.from, granted.fields(), period_of(now)),
        };
        let mut answer = MAGIC.to_vec();
        answer.push(flags | REPLY);
        answer.extend(token.to_le_bytes());
        granted.write(&mut answer);
        if !self.pays(asked.from.ip(), asked.bytes.len(), answer.len()) {
            return Err(Throttled);
        }
        out[..answer.len()].copy_from_slice(&answer);
        Ok(Answer {
            len: answer.len(),
            tos: 0,
        })
    }

    /// Ends the session whose token this is, if it belongs to this address.
    fn close(&mut self, from: SocketAddr, token: &[u8]) {
        let token = token.first_chunk().map(|t| u64::from_le_bytes(*t));
        if let Some(token) = token
            && self.sessions.get(&token).is_some_and(|s| s.from == from)
        {
            self.end(token, true);
        }
    }

    /// Makes room for a session of this client.
    fn make_room(&mut self, client: IpAddr) {
        let own = |s: &Session| subscriber(s.from.ip()) == client;
        let its = self.sessions.values().filter(|s| own(s)).count();
        let full = self.sessions.len() >= self.budget.sessions;
        if its < self.budget.of_client && !full {
            return;
        }
        let among = self
            .sessions
            .iter()
            .filter(|(_, s)| own(s) || its < self.budget.of_client);
        let silent = among.min_by_key(|(_, s)| s.last).map(|(token, _)| *token);
        if let Some(token) = silent {
            self.end(token, false);
        }
    }

    fn end(&mut self, token: u64, by_client: bool) {
        if let Some(s) = self.sessions.remove(&token) {
            self.ended.push_back(Ended {
                from: s.from,
                bytes: s.moved,
                duration: s.last.saturating_since(s.began),
                by_client,
            });
        }
    }

    /// Session with this token at this address, opened if the token is fresh.
    fn session(&mut self, now: Time, from: SocketAddr, token: u64) -> Option<&mut Session> {
        if self.sessions.get(&token).is_none_or(|s| s.from != from) {
            let fields = self.verified(now, from, token)?;
            let client = subscriber(from.ip());
            self.make_room(client);
            let per_second = 1.0 / self.budget.min_interval.as_secs_f64();
            let rate = self.budget.rate.get() as f64;
            self.sessions.insert(
                token,
                Session {
                    from,
                    fields,
                    account: (self.accounts)(from.ip()),
                    began: now,
                    last: now,
                    packets: Bucket::new(per_second, BURST, now),
                    bits: Bucket::new(rate, BURST * 8.0 * MAX_LEN as f64, now),
                    moved: 0,
                    count: 0,
                    newest: None,
                    window: 0,
                },
            );
        }
        self.sessions.get_mut(&token)
    }

    fn echo(
        &mut self,
        now: Time,
        asked: &Asked,
        sent: Instant,
        out: &mut [u8],
    ) -> Result<Answer, Dropped> {
        let (bytes, len) = (asked.bytes, asked.bytes.len());
        let (&head, _) = bytes.split_first_chunk::<WITH_NUMBER>().ok_or(Ignored)?;
        let [_, _, _, _, token @ .., a, b, c, d] = head;
        let token = u64::from_le_bytes(token);
        let session = self.session(now, asked.from, token).ok_or(Ignored)?;
        let mut fields = Vec::with_capacity(LONGEST_FIELDS);
        session.fields.write(0, 0, asked.at, sent, &mut fields);
        if len < WITH_NUMBER + fields.len() {
            return Err(Ignored);
        }
        let is_within = session.packets.take(now, 1.0)
            && session.bits.take(now, 8.0 * len as f64)
            && session.account.charge(2 * len as u64);
        if !is_within {
            return Err(Throttled);
        }
        session.last = now;
        session.moved += 2 * len as u64;
        let window = session.arrived(u32::from_le_bytes([a, b, c, d]));
        fields.clear();
        let its = session.fields;
        its.write(session.count, window, asked.at, sent, &mut fields);
        out[..WITH_NUMBER].copy_from_slice(&head);
        out[HEAD - 1] = REPLY;
        let (own, fill) = out[WITH_NUMBER..len].split_at_mut(fields.len());
        own.copy_from_slice(&fields);
        self.fill(fill, its.is_random());
        Ok(Answer {
            len,
            tos: asked.tos & !3,
        })
    }

    /// Fills the rest of an answer. No byte of the client's comes back.
    fn fill(&mut self, rest: &mut [u8], random: bool) {
        for chunk in rest.chunks_mut(FILL.len()) {
            let mut source = *FILL;
            if random {
                // Marsaglia's xorshift: the bytes need not be secret, only hard to compress.
                self.noise ^= self.noise << 13;
                self.noise ^= self.noise >> 7;
                self.noise ^= self.noise << 17;
                source = (self.noise as u32).to_le_bytes();
            }
            chunk.copy_from_slice(&source[..chunk.len()]);
        }
    }
}

impl Responder for Server {
    fn answer(
        &mut self,
        now: Time,
        asked: &Asked,
        sent: Instant,
        out: &mut [u8],
    ) -> Option<Answer> {
        let (bytes, len) = (asked.bytes, asked.bytes.len());
        let [a, b, c, flags, rest @ ..] = bytes else {
            self.counts.ignored += 1;
            return None;
        };
        let answered = match flags {
            _ if [*a, *b, *c] != MAGIC || len > out.len().min(MAX_LEN) => Err(Ignored),
            _ if flags & !CLOSE == OPEN => self.opening(now, asked, out),
            &CLOSE => {
                self.close(asked.from, rest);
                return None;
            }
            0 => self.echo(now, asked, sent, out),
            _ => Err(Ignored),
        };
        match answered {
            Ok(_) => self.counts.answered += 1,
            Err(Ignored) => self.counts.ignored += 1,
            Err(Throttled) => self.counts.throttled += 1,
        }
        answered.ok()
    }

    fn counts(&self) -> Counts {
        Counts {
            sessions: self.sessions.len(),
            ..self.counts
        }
    }

    fn poll_ended(&mut self, now: Time) -> Option<Ended> {
        if now >= self.next_sweep {
            self.next_sweep = now + Duration::from_secs(1);
            let idle = self.budget.idle;
            let silent = |s: &Session| now.saturating_since(s.last) > idle;
            let over: Vec<u64> = (self.sessions.iter())
                .filter(|(_, s)| silent(s))
                .map(|(token, _)| *token)
                .collect();
            over.into_iter().for_each(|token| self.end(token, false));
        }
        self.ended.pop_front()
    }
}

fn period_of(now: Time) -> u8 {
    (now.as_nanos() / 1_000_000_000 / TOKEN_LIFE_S) as u8
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Opening of `irtt client -i 20ms -d 100ms`, version 0.9.0, and the parameters in its server's answer.
    const OPENING: &str = "14a75b010102028084af5f0380b48913050606060706";
    /// Opening of `irtt client -n`, as flent sends it to see whether there is a server.
    const LOOK: &str = "14a75b0501020280e0ba84bf030380a8d6b907050606060706";
    /// Opening with random fill, DSCP 46, 172 bytes, and an interval of 1 ms.
    const VOICE: &str = "14a75b01010202809c9c390380897a04d802050606060706085c0904";

    fn hex(text: &str) -> Vec<u8> {
        let digits = (0..text.len()).step_by(2);
        digits
            .map(|i| u8::from_str_radix(&text[i..i + 2], 16).expect("hexadecimal"))
            .collect()
    }

    struct Net {
        server: Server,
        now: Time,
        from: SocketAddr,
    }

    fn net() -> Net {
        let accounts: Accounts = Box::new(|_| Account::default());
        Net {
            server: Server::new(Budget::default(), [7; 32], accounts),
            now: Time::from_secs(100),
            from: SocketAddr::from(([192, 0, 2, 1], 40000)),
        }
    }

    impl Net {
        fn send(&mut self, bytes: &[u8]) -> Option<Vec<u8>> {
            let came = Instant {
                wall_ns: 0x1111,
                mono_ns: 0x2222,
            };
            let sent = Instant {
                wall_ns: 0x3333,
                mono_ns: 0x4444,
            };
            let asked = Asked {
                from: self.from,
                at: came,
                ttl: None,
                tos: 0xb9,
                bytes,
            };
            let mut out = [0xee; MAX_LEN];
            let answer = self.server.answer(self.now, &asked, sent, &mut out)?;
            Some(out[..answer.len].to_vec())
        }

        /// Repeats the opening as the client does; returns the answer.
        fn open(&mut self, opening: &str) -> Vec<u8> {
            let opening = hex(opening);
            (0..4)
                .find_map(|_| self.send(&opening))
                .expect("an answer to the second or third")
        }

        fn echo(&mut self, token: &[u8], number: u32, len: usize) -> Option<Vec<u8>> {
            let mut packet = hex("14a75b00");
            packet.extend(token);
            packet.extend(number.to_le_bytes());
            packet.resize(len, 0x55);
            self.send(&packet)
        }
    }

    #[test]
    fn an_opening_is_answered_as_irtts_own_server_does() {
        let mut net = net();
        let answer = net.open(OPENING);
        assert_eq!(answer[..4], hex("14a75b03"));
        assert_ne!(answer[4..12], [0; 8]);
        assert_eq!(answer[12..], hex(OPENING)[4..], "all is granted");
        let answer = net.open(LOOK);
        assert_eq!(answer[..12], hex("14a75b070000000000000000"));
        assert_eq!(answer[12..], hex(LOOK)[4..]);
        let answer = net.open(&(VOICE.to_owned() + "72616e64"));
        assert_eq!(answer[12..], hex(&(VOICE.to_owned() + "72616e64"))[4..]);
        let answer = net.open(&(VOICE.to_owned() + "65766965"));
        assert_eq!(
            answer[12..],
            hex(VOICE)[4..VOICE.len() / 2 - 2],
            "no other fill"
        );
        // 100 µs between packets are more than a session gets: it is told 500 µs.
        let answer = net.open("14a75b01010203c09a0c");
        assert_eq!(
            answer[12..],
            hex("01020380897a")[..2]
                .iter()
                .copied()
                .chain(hex("03c0843d"))
                .collect::<Vec<u8>>()
        );
    }

    #[test]
    fn an_echo_has_the_fields_of_irtts_own_server() {
        let mut net = net();
        let answer = net.open(OPENING);
        let token = answer[4..12].to_vec();
        let echo = net.echo(&token, 0, 60).expect("an echo");
        let mut wanted = hex("14a75b02");
        wanted.extend(&token);
        wanted.extend(hex("00000000"));
        wanted.extend(hex("010000000100000000000000"));
        wanted.extend(hex(
            "1111000000000000222200000000000033330000000000004444000000000000",
        ));
        assert_eq!(echo, wanted);
        let echo = net.echo(&token, 1, 66).expect("an echo");
        assert_eq!(echo[60..], *b"irttir");
        assert_eq!(net.echo(&token, 2, 59), None, "no room for the fields");
        let counts = net.server.counts();
        assert_eq!((counts.sessions, counts.ignored), (1, 1));
    }

    #[test]
    fn windows_are_right_after_reordering() {
        let mut net = net();
        let token = net.open(OPENING)[4..12].to_vec();
        let mut window = |number| {
            let echo = net.echo(&token, number, 60).expect("an echo");
            u64::from_le_bytes(echo[20..28].try_into().expect("eight bytes"))
        };
        let told = [0, 1, 2, 4, 3, 5].map(&mut window);
        assert_eq!(told, [0b1, 0b11, 0b111, 0b11101, 0b1111, 0b111111]);
        assert_eq!(window(5), 0b111111, "a copy");
        assert_eq!(window(105), 1);
        assert_eq!(window(1), 1, "too old to tell");
    }

    #[test]
    fn strangers_get_no_more_than_they_send_and_leave_nothing_behind() {
        let mut net = net();
        let (mut came, mut went) = (0, 0);
        for n in 0..5000u32 {
            net.from = SocketAddr::from((n.to_be_bytes(), 40000));
            net.now += Duration::from_millis(1);
            let opening = hex([OPENING, LOOK][n as usize % 2]);
            came += opening.len();
            went += net.send(&opening).map_or(0, |a| a.len());
            assert!(went <= came, "{went} of {came} after {n}");
        }
        assert!(net.server.sessions.is_empty() && net.server.store.len() <= NETWORKS);
        assert!(went > came / 2, "honest clients are answered in the end");
        assert_eq!(net.echo(&[9; 8], 0, 60), None, "a token that nobody gave");
    }

    #[test]
    fn a_token_is_of_one_address_and_of_a_short_time() {
        let mut net = net();
        let token = net.open(OPENING)[4..12].to_vec();
        let here = net.from;
        net.from = SocketAddr::from(([192, 0, 2, 2], 40000));
        assert_eq!(net.echo(&token, 0, 60), None);
        net.from = here;
        net.now += Duration::from_secs(17);
        assert_eq!(net.echo(&token, 0, 60), None);
        let token = net.open(OPENING)[4..12].to_vec();
        assert!(net.echo(&token, 0, 60).is_some());
        net.now += Duration::from_secs(50);
        assert!(net.echo(&token, 1, 60).is_some(), "a session that is open");
        net.send(&[hex("14a75b04"), token.clone()].concat());
        let ended = net.server.poll_ended(net.now).expect("it has ended");
        assert_eq!(
            (ended.from, ended.bytes, ended.by_client),
            (here, 240, true)
        );
        assert_eq!(ended.duration, Duration::from_secs(50));
        assert_eq!(net.echo(&token, 2, 60), None);
    }

    #[test]
    fn a_session_has_its_rate_and_a_client_its_sessions() {
        let mut net = net();
        let token = net.open(OPENING)[4..12].to_vec();
        let mut echoes = (0..1000).filter_map(|n| net.echo(&token, n, 60));
        assert_eq!(echoes.by_ref().count(), BURST as usize);
        for port in 1..40 {
            net.from = SocketAddr::from(([192, 0, 2, 1], port));
            net.now += Duration::from_millis(1);
            let token = net.open(OPENING)[4..12].to_vec();
            assert!(net.echo(&token, 0, 60).is_some());
        }
        assert_eq!(net.server.sessions.len(), 16);
        net.now += Duration::from_secs(61);
        let ended = std::iter::from_fn(|| net.server.poll_ended(net.now));
        assert_eq!(ended.filter(|e| !e.by_client).count(), 40);
    }

    proptest! {
        #[test]
        fn numbers_are_read_as_they_were_written(value: i64) {
            let mut bytes = Vec::new();
            put_varint(&mut bytes, (value << 1 ^ value >> 63).cast_unsigned());
            prop_assert_eq!(varint(&mut &bytes[..]).map(zigzag), Some(value));
        }

        #[test]
        fn no_answer_is_longer_than_all_that_came(
            packets in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..80), 1..50),
            flags in prop::collection::vec(0u8..16, 50),
        ) {
            let mut net = net();
            let (mut came, mut went) = (0, 0);
            for (packet, flags) in packets.iter().zip(flags) {
                let packet = [&MAGIC[..], &[flags], packet].concat();
                came += packet.len();
                went += net.send(&packet).map_or(0, |a| a.len());
                prop_assert!(went <= came);
            }
        }
    }
}
