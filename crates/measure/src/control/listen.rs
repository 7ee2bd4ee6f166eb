//! Ports that the server opens temporarily for a client, to report arrivals and their sources.
//!
//! The connection that requested the ports stays open. On it the client asks for the arrivals, or orders datagrams to
//! addresses from which its own have come. The ports close with the connection. The server answers only packets with
//! the token, which nobody but the client knows, and only with one of a few fixed messages ([`Answer`]).
//! [`super::post`] decides.

use super::codec::{Reader, Writer};
use super::{ControlError, FlowSpec};
use crate::quote::{MOST_REST, Quote};
use crate::segment::Form;
use base::Duration;
use base::record::Direction;
use sha2::{Digest, Sha256};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Maximum number of ports per request.
pub const MOST_LISTENERS: usize = 64;
/// Maximum number of arrivals that the server keeps.
pub const MOST_ARRIVALS: usize = 512;
/// Maximum number of bytes that the server keeps of each.
pub const MOST_BYTES: usize = 512;
/// Shortest datagram that the server sends to order; the longest follows.
pub const LEAST_DATAGRAM: usize = MARK_LEN;
/// Longest datagram that the server sends on request, bytes.
pub const MOST_DATAGRAM: usize = 3000;
/// Maximum number of quotes in one report.
pub const MOST_QUOTES: usize = 512;
/// Maximum number of orders on one connection: each makes the server send one datagram or one report.
pub const MOST_ORDERS: u32 = 1024;
/// Longest time that ports stay open, to measure how long a NAT keeps its mappings (`nat:lifetime=`). Bytes sent
/// meanwhile count towards the client's budget.
pub const LONGEST: Duration = Duration::from_secs(1200);
/// Length of a token, bytes.
pub const TOKEN_LEN: usize = 8;
/// Length of the mark that proves that the server wrote a message.
pub const MARK_LEN: usize = 16;
/// Length of a cookie, bytes.
pub const COOKIE_LEN: usize = 16;
/// Length of the answer to a knock (UDP), and so of the shortest knock that is answered.
pub const KNOCK_LEN: usize = 52;
/// Length of an echo, and so of the shortest datagram that is echoed.
pub const ECHO_LEN: usize = 28;
/// Length of a request for a datagram.
pub const PULL_LEN: usize = TOKEN_LEN + COOKIE_LEN + 7;
/// Lengths of the datagrams that the server sends for such requests, bytes: the largest fits into an Ethernet frame.
pub const PULLED_LEN: std::ops::RangeInclusive<usize> = 32..=1452;
pub(super) const MOST_LISTENING_BODY: usize = MOST_LISTENERS * 256 + MOST_ADDRESSES * 17 + 64;
pub(super) const MOST_ARRIVALS_BODY: usize = MOST_ARRIVALS * (MOST_BYTES + 256) + 64;
pub(super) const MOST_QUOTES_BODY: usize = MOST_QUOTES * (MOST_REST + 48) + 2048;
const MOST_SYN: usize = 200;
const MOST_ADDRESSES: usize = 64;

/// Transport protocol of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Transport {
    Tcp,
    Udp,
}

impl Transport {
    /// Name in texts.
    pub fn name(self) -> &'static str {
        match self {
            Transport::Tcp => "TCP",
            Transport::Udp => "UDP",
        }
    }
}

/// Server address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// The address that this connection came to.
    Here,
    /// Another address of the same family and scope.
    Elsewhere,
    /// Any IPv4 address of the same scope; the next is the same for IPv6.
    V4,
    V6,
}

const PLACES: [Place; 4] = [Place::Here, Place::Elsewhere, Place::V4, Place::V6];

/// A port to open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wanted {
    /// Transport protocol of the port.
    pub transport: Transport,
    /// Address at which it opens.
    pub place: Place,
    /// Port number; 0 for any free port.
    pub port: u16,
    /// Bytes after which a connection is answered, or after a second without any. A datagram is answered at once.
    pub expect: u32,
    /// Answer to whoever shows the token.
    pub answer: Answer,
}

/// Answer of the server to whoever shows the token. The client chooses among these and never supplies the bytes, so
/// that the server cannot be made to send an arbitrary message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer {
    Nothing,
    /// A number that only this client and this server can know; over UDP with the cookie of the source.
    Mark,
    /// An HTTP page.
    Page,
    /// The EICAR test string for antivirus programs, as an HTTP page.
    Eicar,
    /// Lines that are not HTTP.
    NotPage,
    /// A DNS answer.
    Names,
    /// Text that is no DNS answer.
    NotNames,
    /// Number and TOS byte of each datagram, and the count of those so far: an [`Echo`].
    Echo,
    /// Datagram of the requested length and TOS byte for each [`Pull`] with the cookie of its source: a [`Pulled`].
    /// A knock is answered as by [`Answer::Mark`].
    Pull,
    /// QUIC connections with one load each.
    Quic,
    /// Hand-made TCP segments, each to order: the server's kernel answers nothing there.
    Segments,
}

const ANSWERS: [Answer; 11] = [
    Answer::Nothing,
    Answer::Mark,
    Answer::Page,
    Answer::Eicar,
    Answer::NotPage,
    Answer::Names,
    Answer::NotNames,
    Answer::Echo,
    Answer::Pull,
    Answer::Quic,
    Answer::Segments,
];

impl Wanted {
    /// Port to open.
    pub fn new(transport: Transport, place: Place, port: u16) -> Wanted {
        Wanted {
            transport,
            place,
            port,
            expect: 0,
            answer: Answer::Nothing,
        }
    }
}

/// Result for a requested port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opened {
    At(SocketAddr),
    /// Port in use or forbidden, or no such address.
    Not(String),
}

/// Answer with the ports that are open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listening {
    /// Token that a message to the ports has to carry.
    pub token: [u8; TOKEN_LEN],
    /// Source of the request as the server sees it.
    pub from: SocketAddr,
    /// Time for which the ports stay open.
    pub duration: Duration,
    /// Server addresses of the same scope as the one that was asked, of both families.
    pub addresses: Vec<IpAddr>,
    /// Results in the order of the request.
    pub opened: Vec<Opened>,
}

/// An arrival at one of the ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Arrival {
    /// Index of the port, in the order of the request.
    pub listener: u32,
    /// Source address.
    pub from: Option<SocketAddr>,
    /// Number of bytes that arrived.
    pub len: u32,
    /// First bytes if they show the token, otherwise empty: they may belong to somebody else.
    pub bytes: Vec<u8>,
    /// IP and TCP headers of the first packet of a connection, if the kernel keeps them.
    pub syn: Vec<u8>,
    /// True if it carried the token and was answered.
    pub answered: bool,
    /// TOS or traffic-class byte of a datagram, if the kernel tells it.
    pub tos: Option<u8>,
}

/// Quotes of datagrams that the server has sent from the client's ports.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quoted {
    /// Reason why the server hears no ICMP errors.
    pub closed: Option<String>,
    /// Quotes since the last report.
    pub quotes: Vec<Quote>,
}

/// Client's order on the connection that keeps the ports open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    /// Reports the arrivals.
    Report,
    /// Sends a datagram of this length from a port to an address whose cookie the client has received there. Its
    /// contents follow from the token and the number: see [`datagram`].
    Send {
        listener: u32,
        to: SocketAddr,
        cookie: [u8; COOKIE_LEN],
        /// Number of the order, below [`MOST_ORDERS`].
        number: u32,
        len: u32,
        /// TOS or traffic-class byte.
        tos: u8,
        /// Hop limit; zero for the server's default.
        hops: u8,
    },
    /// Reports quotes of what the server has sent; the first such order only begins to listen.
    Quotes,
    /// Sends a TCP segment from a port with [`Answer::Segments`] to an address whose SYN came there.
    Segment {
        listener: u32,
        to: SocketAddr,
        form: Form,
        /// Number in its sequence number, below [`MOST_ORDERS`].
        number: u32,
        /// TOS or traffic-class byte.
        tos: u8,
        /// Hop limit; zero for the server's default.
        hops: u8,
    },
}

fn address(w: &mut Writer, a: IpAddr) {
    match a {
        IpAddr::V4(v4) => {
            w.0.push(4);
            w.0.extend(v4.octets());
        }
        IpAddr::V6(v6) => {
            w.0.push(6);
            w.0.extend(v6.octets());
        }
    }
}

fn socket_address(w: &mut Writer, a: SocketAddr) {
    address(w, a.ip());
    w.number(u64::from(a.port()));
}

fn bytes(w: &mut Writer, b: &[u8]) {
    w.number(b.len() as u64);
    w.0.extend_from_slice(b);
}

fn malformed<T>(what: &'static str) -> Result<T, ControlError> {
    Err(ControlError::Malformed { what })
}

fn read_address(r: &mut Reader) -> Result<IpAddr, ControlError> {
    Ok(match r.byte()? {
        4 => {
            let octets: [u8; 4] = r.take(4)?.try_into().expect("four were taken");
            Ipv4Addr::from(octets).into()
        }
        6 => {
            let octets: [u8; 16] = r.take(16)?.try_into().expect("sixteen were taken");
            Ipv6Addr::from(octets).into()
        }
        _ => return malformed("an address of no known family"),
    })
}

fn read_socket_address(r: &mut Reader) -> Result<SocketAddr, ControlError> {
    Ok(SocketAddr::new(read_address(r)?, r.small()?))
}

fn read_bytes(r: &mut Reader, most: usize) -> Result<Vec<u8>, ControlError> {
    let n = r.count(most)?;
    r.take(n).map(<[u8]>::to_vec)
}

pub(super) fn write_request(w: &mut Writer, spec: &FlowSpec, wanted: &[Wanted]) {
    w.spec(spec);
    w.number(wanted.len() as u64);
    for one in wanted {
        w.0.push(u8::from(one.transport == Transport::Udp));
        let place = PLACES.iter().position(|p| *p == one.place);
        w.0.push(place.expect("every place is listed") as u8);
        w.number(u64::from(one.port));
        w.number(u64::from(one.expect));
        let answer = ANSWERS.iter().position(|a| *a == one.answer);
        w.0.push(answer.expect("every answer is listed") as u8);
    }
}

pub(super) fn read_request(r: &mut Reader) -> Result<(FlowSpec, Vec<Wanted>), ControlError> {
    let spec = r.spec()?;
    let count = r.count(MOST_LISTENERS)?;
    let one = |r: &mut Reader| {
        Ok(Wanted {
            transport: if r.byte()? == 0 {
                Transport::Tcp
            } else {
                Transport::Udp
            },
            place: match PLACES.get(usize::from(r.byte()?)) {
                Some(place) => *place,
                None => return malformed("a place that is not known"),
            },
            port: r.small()?,
            expect: r.small()?,
            answer: match ANSWERS.get(usize::from(r.byte()?)) {
                Some(answer) => *answer,
                None => return malformed("an answer that is not known"),
            },
        })
    };
    let wanted = (0..count).map(|_| one(r)).collect::<Result<_, _>>()?;
    Ok((spec, wanted))
}

impl Listening {
    pub(super) fn write(&self, w: &mut Writer) {
        w.0.extend(self.token);
        socket_address(w, self.from);
        w.number(self.duration.as_nanos());
        w.number(self.addresses.len().min(MOST_ADDRESSES) as u64);
        for a in self.addresses.iter().take(MOST_ADDRESSES) {
            address(w, *a);
        }
        w.number(self.opened.len() as u64);
        for one in &self.opened {
            match one {
                Opened::At(at) => {
                    w.0.push(1);
                    socket_address(w, *at);
                }
                Opened::Not(why) => {
                    w.0.push(0);
                    w.text(why);
                }
            }
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<Listening, ControlError> {
        let token = r.take(TOKEN_LEN)?.try_into().expect("so many were taken");
        let from = read_socket_address(r)?;
        let duration = r.span(super::LONGEST)?;
        let addresses = r.count(MOST_ADDRESSES)?;
        let addresses = (0..addresses)
            .map(|_| read_address(r))
            .collect::<Result<_, _>>()?;
        let opened = r.count(MOST_LISTENERS)?;
        let one = |r: &mut Reader| {
            Ok(match r.byte()? {
                0 => Opened::Not(r.text()?),
                _ => Opened::At(read_socket_address(r)?),
            })
        };
        Ok(Listening {
            token,
            from,
            duration,
            addresses,
            opened: (0..opened).map(|_| one(r)).collect::<Result<_, _>>()?,
        })
    }
}

pub(super) fn write_arrivals(w: &mut Writer, all: &[Arrival]) {
    w.number(all.len().min(MOST_ARRIVALS) as u64);
    for a in all.iter().take(MOST_ARRIVALS) {
        w.number(u64::from(a.listener));
        w.0.push(
            u8::from(a.tos.is_some()) << 2 | u8::from(a.answered) << 1 | u8::from(a.from.is_some()),
        );
        w.0.extend(a.tos);
        if let Some(from) = a.from {
            socket_address(w, from);
        }
        w.number(u64::from(a.len));
        bytes(w, &a.bytes[..a.bytes.len().min(MOST_BYTES)]);
        bytes(w, &a.syn[..a.syn.len().min(MOST_SYN)]);
    }
}

pub(super) fn read_arrivals(r: &mut Reader) -> Result<Vec<Arrival>, ControlError> {
    let count = r.count(MOST_ARRIVALS)?;
    let one = |r: &mut Reader| {
        let listener = r.small()?;
        let flags = r.byte()?;
        let tos = match flags & 4 {
            0 => None,
            _ => Some(r.byte()?),
        };
        let from = if flags & 1 != 0 {
            Some(read_socket_address(r)?)
        } else {
            None
        };
        Ok(Arrival {
            listener,
            from,
            len: r.small()?,
            bytes: read_bytes(r, MOST_BYTES)?,
            syn: read_bytes(r, MOST_SYN)?,
            answered: flags & 2 != 0,
            tos,
        })
    };
    (0..count).map(|_| one(r)).collect()
}

impl Quoted {
    pub(super) fn write(&self, w: &mut Writer) {
        w.text(self.closed.as_deref().unwrap_or_default());
        w.number(self.quotes.len().min(MOST_QUOTES) as u64);
        for q in self.quotes.iter().take(MOST_QUOTES) {
            address(w, q.from);
            address(w, q.to);
            w.0.extend([u8::from(q.exceeded), q.tos, q.protocol]);
            bytes(w, &q.rest[..q.rest.len().min(MOST_REST)]);
        }
    }

    pub(super) fn read(r: &mut Reader) -> Result<Quoted, ControlError> {
        let closed = Some(r.text()?).filter(|why| !why.is_empty());
        let count = r.count(MOST_QUOTES)?;
        let one = |r: &mut Reader| {
            Ok(Quote {
                from: read_address(r)?,
                to: read_address(r)?,
                exceeded: r.byte()? != 0,
                tos: r.byte()?,
                protocol: r.byte()?,
                rest: read_bytes(r, MOST_REST)?,
            })
        };
        let quotes = (0..count).map(|_| one(r)).collect::<Result<_, _>>()?;
        Ok(Quoted { closed, quotes })
    }
}

impl Order {
    /// Body of a [frame](super::seal).
    pub fn encode(&self) -> Vec<u8> {
        let mut w = Writer::default();
        match self {
            Order::Report => w.0.push(0),
            Order::Send {
                listener,
                to,
                cookie,
                number,
                len,
                tos,
                hops,
            } => {
                w.0.push(1);
                w.number(u64::from(*listener));
                socket_address(&mut w, *to);
                w.0.extend_from_slice(cookie);
                w.number(u64::from(*number));
                w.number(u64::from(*len));
                w.0.extend([*tos, *hops]);
            }
            Order::Quotes => w.0.push(2),
            Order::Segment {
                listener,
                to,
                form,
                number,
                tos,
                hops,
            } => {
                w.0.push(3);
                w.number(u64::from(*listener));
                socket_address(&mut w, *to);
                w.number(u64::from(*number));
                w.0.extend([form.encode(), *tos, *hops]);
            }
        }
        debug_assert!(w.0.len() <= super::types::MOST_FRAME);
        w.0
    }

    /// Reads the order in the body of a frame.
    ///
    /// # Errors
    /// The body is malformed; the connection is then unusable.
    pub fn decode(body: &[u8]) -> Result<Order, ControlError> {
        let mut r = Reader(body);
        let order = match r.byte()? {
            0 => Order::Report,
            1 => Order::Send {
                listener: r.small()?,
                to: read_socket_address(&mut r)?,
                cookie: r.take(COOKIE_LEN)?.try_into().expect("so many were taken"),
                number: r.small()?,
                len: r.small()?,
                tos: r.byte()?,
                hops: r.byte()?,
            },
            2 => Order::Quotes,
            3 => {
                let (listener, to) = (r.small()?, read_socket_address(&mut r)?);
                let number = r.small()?;
                Order::Segment {
                    listener,
                    to,
                    number,
                    form: match Form::decode(r.byte()?) {
                        Some(form) => form,
                        None => return malformed("a segment of no known form"),
                    },
                    tos: r.byte()?,
                    hops: r.byte()?,
                }
            }
            _ => return malformed("an unknown order"),
        };
        r.end()?;
        Ok(order)
    }
}

/// Mark for a number: 0 is that of an answer, the others are those of ordered datagrams.
fn numbered(token: &[u8; TOKEN_LEN], number: u32) -> [u8; MARK_LEN] {
    let hash = Sha256::new()
        .chain_update(b"tailback listen")
        .chain_update(token)
        .chain_update(number.to_be_bytes())
        .finalize();
    std::array::from_fn(|i| hash[i])
}

/// Mark with which the server answers.
pub fn mark(token: &[u8; TOKEN_LEN]) -> [u8; MARK_LEN] {
    numbered(token, 0)
}

/// Contents of an ordered datagram: its mark, then dots.
pub fn datagram(token: &[u8; TOKEN_LEN], number: u32, len: usize) -> Vec<u8> {
    let mut out = numbered(token, number.saturating_add(1)).to_vec();
    out.resize(len.max(MARK_LEN), b'.');
    out
}

/// Answer to a knock over UDP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Knocked {
    /// Source of the knock as the server sees it.
    pub from: SocketAddr,
    /// Cookie, which proves to the server that its holder receives at this address.
    pub cookie: [u8; COOKIE_LEN],
}

/// Mask that hides an address from NATs that rewrite bytes which look like one (RFC 8489 section 5).
fn mask(token: &[u8; TOKEN_LEN]) -> [u8; MARK_LEN] {
    numbered(token, u32::MAX)
}

impl Knocked {
    /// Encodes the answer to a knock.
    pub fn encode(&self, token: &[u8; TOKEN_LEN]) -> [u8; KNOCK_LEN] {
        let mut out = [0; KNOCK_LEN];
        out[..16].copy_from_slice(&mark(token));
        out[16..32].copy_from_slice(&self.cookie);
        let ip = match self.from.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped(),
            IpAddr::V6(v6) => v6,
        };
        let mask = mask(token);
        for (i, (byte, mask)) in ip.octets().iter().zip(mask).enumerate() {
            out[32 + i] = byte ^ mask;
        }
        let port = self.from.port() ^ u16::from_be_bytes([mask[0], mask[1]]);
        out[48..50].copy_from_slice(&port.to_be_bytes());
        out
    }

    /// Reads the answer; `None` if it is not the server's answer to the holder of this token.
    pub fn decode(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Option<Knocked> {
        let bytes: &[u8; KNOCK_LEN] = bytes.try_into().ok()?;
        if bytes[..16] != mark(token) {
            return None;
        }
        let mask = mask(token);
        let ip: [u8; 16] = std::array::from_fn(|i| bytes[32 + i] ^ mask[i]);
        let port =
            u16::from_be_bytes([bytes[48], bytes[49]]) ^ u16::from_be_bytes([mask[0], mask[1]]);
        Some(Knocked {
            from: SocketAddr::new(IpAddr::V6(ip.into()).to_canonical(), port),
            cookie: std::array::from_fn(|i| bytes[16 + i]),
        })
    }
}

/// Answer of a port that echoes: feedback for each datagram, without a copy of its contents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Echo {
    /// Number of the datagram.
    pub number: u32,
    /// Datagrams that have arrived at the port so far, this one included.
    pub count: u32,
    /// TOS or traffic-class byte at arrival, if the kernel tells it.
    pub tos: Option<u8>,
}

impl Echo {
    /// Encodes the feedback. The mask keeps the client from choosing the bytes that the server sends.
    pub fn encode(&self, token: &[u8; TOKEN_LEN]) -> [u8; ECHO_LEN] {
        let mut out = [0; ECHO_LEN];
        out[..16].copy_from_slice(&mark(token));
        out[16..20].copy_from_slice(&(self.number ^ echo_mask(token)).to_be_bytes());
        out[20..24].copy_from_slice(&self.count.to_be_bytes());
        out[24] = u8::from(self.tos.is_some());
        out[25] = self.tos.unwrap_or(0);
        out
    }

    /// Reads the feedback; `None` if it is not the server's to the holder of this token.
    pub fn decode(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Option<Echo> {
        let bytes: &[u8; ECHO_LEN] = bytes.try_into().ok()?;
        if bytes[..16] != mark(token) {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Echo {
            number: word(16) ^ echo_mask(token),
            count: word(20),
            tos: (bytes[24] == 1).then_some(bytes[25]),
        })
    }
}

fn echo_mask(token: &[u8; TOKEN_LEN]) -> u32 {
    let mask = mask(token);
    u32::from_be_bytes(std::array::from_fn(|i| mask[4 + i]))
}

/// Datagram whose arrival is echoed: the token and its number, padded to `len` bytes.
pub fn echoed(token: &[u8; TOKEN_LEN], number: u32, len: usize) -> Vec<u8> {
    let mut out = token.to_vec();
    out.extend(number.to_be_bytes());
    out.resize(len.max(ECHO_LEN), b'.');
    out
}

/// Number of a datagram to a port that echoes; `None` if it does not start with the token.
pub fn echo_number(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Option<u32> {
    let number = bytes.strip_prefix(token)?.get(..4)?;
    Some(u32::from_be_bytes(number.try_into().ok()?))
}

/// Request for one datagram from a port, with the cookie that the port has given to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pull {
    /// Cookie of the source, from a [`Knocked`] of the same port.
    pub cookie: [u8; COOKIE_LEN],
    /// Number of the datagram.
    pub number: u32,
    /// Length of the datagram, bytes.
    pub len: u16,
    /// TOS or traffic-class byte of the datagram.
    pub tos: u8,
}

impl Pull {
    /// Encodes the request.
    pub fn encode(&self, token: &[u8; TOKEN_LEN]) -> Vec<u8> {
        let mut out = token.to_vec();
        out.extend(self.cookie);
        out.extend(self.number.to_be_bytes());
        out.extend(self.len.to_be_bytes());
        out.push(self.tos);
        out
    }

    /// Reads the request; `None` if it does not start with the token or has another length.
    pub fn decode(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Option<Pull> {
        let bytes: &[u8; PULL_LEN] = bytes.try_into().ok()?;
        let rest = bytes.strip_prefix(token)?;
        Some(Pull {
            cookie: rest[..COOKIE_LEN].try_into().ok()?,
            number: u32::from_be_bytes(rest[16..20].try_into().ok()?),
            len: u16::from_be_bytes(rest[20..22].try_into().ok()?),
            tos: rest[22],
        })
    }
}

/// Head of a datagram that the server sends for a [`Pull`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pulled {
    /// Number of the datagram.
    pub number: u32,
    /// Requests that have arrived at the port so far, this one included.
    pub count: u32,
    /// Time at which the request arrived, by a clock of the server, ns: differences alone have a meaning.
    pub at_ns: u64,
}

impl Pulled {
    /// Encodes the datagram of `len` bytes. As in an [`Echo`], the client chooses none of its bytes.
    pub fn encode(&self, token: &[u8; TOKEN_LEN], len: usize) -> Vec<u8> {
        let mut out = mark(token).to_vec();
        out.extend((self.number ^ echo_mask(token)).to_be_bytes());
        out.extend(self.count.to_be_bytes());
        out.extend(self.at_ns.to_be_bytes());
        out.resize(len.max(*PULLED_LEN.start()), b'.');
        out
    }

    /// Reads the head; `None` if it is not the server's to the holder of this token.
    pub fn decode(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Option<Pulled> {
        if !PULLED_LEN.contains(&bytes.len()) || bytes[..16] != mark(token) {
            return None;
        }
        let word = |at: usize| u32::from_be_bytes(std::array::from_fn(|i| bytes[at + i]));
        Some(Pulled {
            number: word(16) ^ echo_mask(token),
            count: word(20),
            at_ns: u64::from_be_bytes(std::array::from_fn(|i| bytes[24 + i])),
        })
    }
}

/// Length of the message with which a client starts the load of a QUIC connection.
pub const QUIC_START_LEN: usize = TOKEN_LEN + 1;
/// Length of the server's report on a QUIC connection.
pub const QUIC_REPORT_LEN: usize = 32;

/// First message of a QUIC connection: the token, and the direction of the data.
pub fn quic_start(token: &[u8; TOKEN_LEN], direction: Direction) -> [u8; QUIC_START_LEN] {
    let mut out = [0; QUIC_START_LEN];
    out[..TOKEN_LEN].copy_from_slice(token);
    out[TOKEN_LEN] = u8::from(direction == Direction::Down);
    out
}

/// Direction of the data that a client starts; `None` without the token.
pub fn quic_direction(bytes: &[u8], token: &[u8; TOKEN_LEN]) -> Option<Direction> {
    match bytes.strip_prefix(token)? {
        [0] => Some(Direction::Up),
        [1] => Some(Direction::Down),
        _ => None,
    }
}

/// Server's report on its end of a QUIC connection, repeated while that lasts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QuicReport {
    /// Payload received.
    pub received: u64,
    /// Packets sent.
    pub sent: u64,
    /// Packets lost.
    pub lost: u64,
    /// Smoothed round trip above the smallest, ns.
    pub wait_ns: u64,
}

impl QuicReport {
    /// Encodes the report.
    pub fn encode(&self) -> [u8; QUIC_REPORT_LEN] {
        let all = [self.received, self.sent, self.lost, self.wait_ns];
        let mut out = [0; QUIC_REPORT_LEN];
        for (part, value) in std::iter::zip(out.chunks_exact_mut(8), all) {
            part.copy_from_slice(&value.to_be_bytes());
        }
        out
    }

    /// Reads the report; a server that is hostile may claim any numbers.
    pub fn decode(bytes: &[u8; QUIC_REPORT_LEN]) -> QuicReport {
        let word = |i: usize| u64::from_be_bytes(std::array::from_fn(|k| bytes[i * 8 + k]));
        QuicReport {
            received: word(0),
            sent: word(1),
            lost: word(2),
            wait_ns: word(3),
        }
    }
}

/// Datagram that asks for an answer: the token, padded to `len` bytes.
pub fn knock(token: &[u8; TOKEN_LEN], len: usize) -> Vec<u8> {
    let mut out = token.to_vec();
    out.resize(len.max(KNOCK_LEN), b'.');
    out
}
