//! The far side of the link in virtual time: ports that the server opens, and resolvers.

use super::letters::{Datagram, Then};
use super::network::{Block, FAR, FAR_V6};
use super::world::World;
use base::Duration;
use experiment::ask::{Marking, Ports};
use experiment::middlebox::messages;
use measure::control::listen::{
    Answer, Arrival, COOKIE_LEN, Echo, KNOCK_LEN, Knocked, Place, Pull, Pulled, TOKEN_LEN,
    Transport, Wanted, datagram, echo_number, mark,
};
use measure::segment::{self, Form, Seen, Segment};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

pub(super) const COOKIE: [u8; COOKIE_LEN] = [7; COOKIE_LEN];
pub(super) const TOKEN: [u8; TOKEN_LEN] = *b"in-order";
const FAR_PORT: u16 = 7_000;
/// Sequence number of the far side's first segment.
const FAR_BASE: u32 = u32::MAX - 100;
/// Answer of a middlebox in the server's name.
const SOMEBODY: &[u8] = b"220 welcome";
/// Response codes of the DNS.
const SERVFAIL: u8 = 2;
const NXDOMAIN: u8 = 3;

/// State of the far side.
#[derive(Default)]
pub(super) struct Far {
    ports: Vec<(Wanted, Result<SocketAddr, String>)>,
    arrivals: Vec<Arrival>,
    ordered: u32,
    /// Datagrams that each port has echoed.
    echoed: Vec<u32>,
    /// Sequence number of the latest SYN of each source.
    syns: BTreeMap<SocketAddr, u32>,
    /// Names that resolvers have found out, with the resolver.
    cached: BTreeSet<(SocketAddr, Vec<u8>)>,
}

impl World {
    /// Opens these ports in place of those that are open.
    pub fn listen(&mut self, wanted: &[Wanted]) -> Ports {
        self.far.arrivals.clear();
        let network = &self.plan.network;
        let open = |(i, w): (usize, &Wanted)| {
            let port = match w.port {
                0 => FAR_PORT + i as u16,
                port => port,
            };
            if network.ports.get(&(w.transport, w.port)) == Some(&Block::InUse) {
                return Err("in use".to_owned());
            }
            match w.place {
                Place::Here | Place::V4 => Ok((FAR[0], port).into()),
                Place::Elsewhere if network.second => Ok((FAR[1], port).into()),
                Place::Elsewhere => Err("there is one address only".to_owned()),
                Place::V6 if network.v6.is_some() => Ok((FAR_V6, port).into()),
                Place::V6 => Err("the server has no IPv6 address".to_owned()),
            }
        };
        let opened = wanted.iter().enumerate().map(open);
        self.far.echoed = vec![0; wanted.len()];
        self.far.ports = wanted.iter().cloned().zip(opened).collect();
        let here: SocketAddr = (FAR[0], FAR_PORT).into();
        let local: SocketAddr = (super::network::NEAR, 39_999).into();
        Ports {
            token: TOKEN,
            from: self.near_seen(here),
            local,
            at: self.far.ports.iter().map(|p| p.1.clone()).collect(),
        }
    }

    /// Closes all ports and forgets what came to them.
    pub fn close_ports(&mut self) {
        self.far.ports.clear();
        self.far.arrivals.clear();
    }

    /// Everything that has come to the ports.
    pub fn arrivals(&self) -> Vec<Arrival> {
        self.far.arrivals.clone()
    }

    /// Number of the server's port at this address.
    pub fn listener(&self, transport: Transport, at: SocketAddr) -> Option<usize> {
        let its = |(w, p): &(Wanted, Result<SocketAddr, String>)| {
            w.transport == transport && p.as_ref() == Ok(&at)
        };
        self.far.ports.iter().position(its)
    }

    /// Has the server send a datagram; gives its contents.
    pub fn order(&mut self, port: usize, to: SocketAddr, len: usize, marking: Marking) -> Vec<u8> {
        let bytes = datagram(&TOKEN, self.far.ordered, len);
        self.far.ordered += 1;
        if let Some((_, Ok(from))) = self.far.ports.get(port).cloned() {
            let datagram = Datagram {
                from,
                to,
                bytes: bytes.clone(),
                tos: marking.tos,
                tcp: false,
            };
            self.send_down(datagram, marking.hops);
        }
        bytes
    }

    /// Has the server send a TCP segment.
    pub fn order_segment(
        &mut self,
        (port, to): (usize, SocketAddr),
        (form, number): (Form, u32),
        marking: Marking,
    ) -> Result<(), String> {
        let Some((_, Ok(from))) = self.far.ports.get(port).cloned() else {
            return Err(format!("no port {port} is open"));
        };
        let Some(syn) = self.far.syns.get(&to) else {
            return Err(format!("no SYN from {to} has come"));
        };
        let segment = Segment {
            ports: (from.port(), to.port()),
            seq: segment::seq(FAR_BASE, number, form),
            ack: Some(syn.wrapping_add(1)),
            form,
        };
        let datagram = Datagram {
            from,
            to,
            bytes: segment.encode(),
            tos: marking.tos,
            tcp: true,
        };
        self.send_down(datagram, marking.hops);
        Ok(())
    }

    /// A TCP segment has reached the far side, whose kernel answers nothing.
    fn segment_heard(&mut self, segment: &Datagram) {
        let listener = self.listener(Transport::Tcp, segment.to);
        let block = self.block(Transport::Tcp, segment.to.port());
        let (Some(listener), None) = (listener, block) else {
            return;
        };
        let seen = Seen::read(&segment.bytes);
        if let Some(seen) = seen.filter(|s| s.rest.is_some_and(|f| f.syn)) {
            self.far.syns.insert(segment.from, seen.seq);
        }
        self.far.arrivals.push(Arrival {
            listener: listener as u32,
            from: Some(segment.from),
            len: segment.bytes.len() as u32,
            bytes: segment.bytes.clone(),
            tos: Some(segment.tos),
            ..Arrival::default()
        });
    }

    /// A datagram has reached the far side.
    pub fn far_heard(&mut self, datagram: &Datagram) {
        if datagram.tcp {
            return self.segment_heard(datagram);
        }
        let Datagram {
            from, to, bytes, ..
        } = datagram;
        let (from, to) = (*from, *to);
        if let Some(resolver) = self.plan.network.resolver(to).copied() {
            if resolver.silent {
                return;
            }
            let (reply, after) = self.resolved(to, bytes);
            let after = resolver.farther * 2 + after;
            let reply = Datagram {
                from: to,
                to: from,
                bytes: reply,
                tos: 0,
                tcp: false,
            };
            self.later(after, Then::Near(reply));
            return;
        }
        let Some(listener) = self.listener(Transport::Udp, to) else {
            return;
        };
        let block = self.block(Transport::Udp, to.port());
        let Some(came) = passed(block, bytes) else {
            if block == Some(Block::Somebody) {
                self.answer(to, from, SOMEBODY.to_vec());
            }
            return;
        };
        let wanted = self.far.ports[listener].0.answer;
        let pull = Pull::decode(&came, &TOKEN).filter(|p| p.cookie == COOKIE);
        // A QUIC connection in virtual time: data up is echoed, data down is requested.
        if wanted == Answer::Echo || wanted == Answer::Quic && pull.is_none() {
            if let Some(number) = echo_number(&came, &TOKEN) {
                self.far.echoed[listener] += 1;
                let echo = Echo {
                    number,
                    count: self.far.echoed[listener],
                    tos: Some(datagram.tos),
                };
                self.answer(to, from, echo.encode(&TOKEN).to_vec());
            }
            return;
        }
        if let (Answer::Pull | Answer::Quic, Some(pull)) = (wanted, pull) {
            self.far.echoed[listener] += 1;
            let pulled = Pulled {
                number: pull.number,
                count: self.far.echoed[listener],
                at_ns: self.now.as_nanos(),
            };
            let datagram = Datagram {
                from: to,
                to: from,
                bytes: pulled.encode(&TOKEN, usize::from(pull.len)),
                tos: pull.tos,
                tcp: false,
            };
            self.send_down(datagram, None);
            return;
        }
        let ours = shows(&came);
        self.arrived(listener, from, &came, Vec::new());
        if let Some(arrival) = self.far.arrivals.last_mut() {
            arrival.tos = Some(datagram.tos);
        }
        let answer = match wanted {
            Answer::Mark | Answer::Pull if came.len() >= KNOCK_LEN => {
                let cookie = COOKIE;
                Knocked { from, cookie }.encode(&TOKEN).to_vec()
            }
            Answer::Mark | Answer::Pull | Answer::Nothing | Answer::Segments => return,
            other => messages::answer(other, &TOKEN),
        };
        if ours && let Some(answer) = returned(block, answer) {
            self.answer(to, from, answer);
        }
    }

    fn answer(&mut self, from: SocketAddr, to: SocketAddr, bytes: Vec<u8>) {
        let datagram = Datagram {
            from,
            to,
            bytes,
            tos: 0,
            tcp: false,
        };
        self.send_down(datagram, None);
    }

    fn arrived(&mut self, listener: usize, from: SocketAddr, bytes: &[u8], syn: Vec<u8>) {
        let ours = shows(bytes);
        self.far.arrivals.push(Arrival {
            listener: listener as u32,
            from: Some(from),
            len: bytes.len() as u32,
            bytes: if ours { bytes.to_vec() } else { Vec::new() },
            syn,
            answered: ours,
            tos: None,
        });
    }

    /// A connection's message has reached the far side. Returns true if its answer leaves at once.
    pub fn request_at_far(&mut self, i: usize) -> bool {
        if self.exchanges[i].answer.is_some() {
            return true;
        }
        let (at, says) = {
            let knock = &self.exchanges[i].knock;
            (knock.at, knock.says.clone())
        };
        if let Some(resolver) = self.plan.network.resolver(at).copied() {
            let message = says.get(2..).unwrap_or_default();
            let (reply, after) = self.resolved(at, message);
            let mut framed = (reply.len() as u16).to_be_bytes().to_vec();
            framed.extend(reply);
            self.exchanges[i].answer = Some(framed);
            let then = Then::Tcp(i, super::knock::Step::Response);
            self.later(resolver.farther * 2 + after, then);
            return false;
        }
        let block = self.block(Transport::Tcp, at.port());
        if block == Some(Block::Somebody) {
            self.exchanges[i].answer = Some(SOMEBODY.to_vec());
            return true;
        }
        let (Some(listener), Some(came)) =
            (self.listener(Transport::Tcp, at), passed(block, &says))
        else {
            return false;
        };
        let from = self.near_seen(at);
        self.arrived(listener, from, &came, syn_bytes());
        let answer = match self.far.ports[listener].0.answer {
            Answer::Nothing => return false,
            Answer::Mark => mark(&TOKEN).to_vec(),
            other => messages::answer(other, &TOKEN),
        };
        match returned(block, answer) {
            Some(answer) if shows(&came) => {
                self.exchanges[i].answer = Some(answer);
                true
            }
            _ => false,
        }
    }

    /// A resolver's reply to a query, and the time that it takes.
    fn resolved(&mut self, at: SocketAddr, query: &[u8]) -> (Vec<u8>, Duration) {
        let Some(resolver) = self.plan.network.resolver(at).copied() else {
            return (Vec::new(), Duration::ZERO);
        };
        let Some(question) = question(query) else {
            return (Vec::new(), resolver.known);
        };
        let name = &query[12..question];
        let new = self.far.cached.insert((at, name.to_vec()));
        let after = if new { resolver.new } else { resolver.known };
        (reply(query, question, resolver.checks), after)
    }
}

/// True if a message shows the token, as bytes or as text.
fn shows(bytes: &[u8]) -> bool {
    let text: String = TOKEN.iter().map(|b| format!("{b:02x}")).collect();
    let text = text.as_bytes();
    bytes.starts_with(&TOKEN) || bytes.windows(text.len()).any(|w| w == text)
}

/// A message behind a middlebox on its way up; null if it does not get through.
fn passed(block: Option<Block>, bytes: &[u8]) -> Option<Vec<u8>> {
    match block {
        Some(Block::Silent | Block::Refused | Block::Somebody) => None,
        Some(Block::Reads) if !is_valid(bytes) => None,
        Some(Block::Changed) => Some(rewritten(bytes)),
        _ => Some(bytes.to_vec()),
    }
}

/// The same of an answer on its way down.
fn returned(block: Option<Block>, bytes: Vec<u8>) -> Option<Vec<u8>> {
    match block {
        Some(Block::AnswerLost) => None,
        Some(Block::Changed) => Some(rewritten(&bytes)),
        _ => Some(bytes),
    }
}

/// True for HTTP requests and for DNS queries with one question.
fn is_valid(bytes: &[u8]) -> bool {
    bytes.starts_with(b"GET ") || bytes.get(4..6) == Some(&[0, 1])
}

/// The message as a proxy writes it: header names in lower case. Other bytes stay as they are.
fn rewritten(bytes: &[u8]) -> Vec<u8> {
    match std::str::from_utf8(bytes) {
        Ok(text) => text
            .replace("uSeR-aGeNt", "User-Agent")
            .replace("x-tAiLbAcK-oDd", "X-Tailback-Odd")
            .into_bytes(),
        Err(_) => bytes.to_vec(),
    }
}

/// A SYN as it arrives after one router.
fn syn_bytes() -> Vec<u8> {
    let mut ip = vec![
        0x45, 0, 0, 60, 0, 0, 0, 0, 63, 6, 0, 0, 192, 168, 1, 2, 203, 0, 113, 1,
    ];
    ip.extend([0x9c, 0x3f, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0]);
    ip.extend([0xa0, 0x02, 0xfa, 0xf0, 0, 0, 0, 0]);
    ip.extend([
        2, 4, 5, 0xb4, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
    ]);
    ip
}

/// End of the question of a DNS query (RFC 1035 section 4.1.2); null if it has none.
fn question(query: &[u8]) -> Option<usize> {
    let mut at = 12;
    while *query.get(at)? != 0 {
        at += usize::from(query[at]) + 1;
    }
    let end = at + 5;
    (end <= query.len()).then_some(end)
}

/// A resolver's reply (RFC 1035 section 4.1). Names that begin with `tailback-` do not exist; names that contain
/// `dnssec-failed` have invalid signatures.
fn reply(query: &[u8], question: usize, checks: bool) -> Vec<u8> {
    let name: Vec<u8> = query[12..question].to_ascii_lowercase();
    let holds = |part: &[u8]| name.windows(part.len()).any(|w| w == part);
    let rtype = u16::from_be_bytes([query[question - 4], query[question - 3]]);
    let edns = query.len() > question;
    // The bit DO is the first of the OPT record's flags, its seventh byte (RFC 6891 section 6.1.3).
    let signed = edns && query.get(question + 7).is_some_and(|b| b & 0x80 != 0);
    let unchecked = query[3] & 0x10 != 0;
    let room = match edns {
        true => u16::from_be_bytes([query[question + 3], query[question + 4]]),
        false => 512,
    };
    let code = match () {
        () if checks && !unchecked && holds(b"dnssec-failed") => SERVFAIL,
        () if holds(b"tailback-") => NXDOMAIN,
        () => 0,
    };
    let record = |rtype: u16, data: &[u8]| {
        let mut record = vec![0xc0, 12];
        record.extend(rtype.to_be_bytes());
        record.extend([0, 1, 0, 0, 0, 60]);
        record.extend((data.len() as u16).to_be_bytes());
        record.extend(data);
        record
    };
    // A (1) has an address; DNSKEY (48) is long, as the root's is; other types have no records.
    let mut records = match (code, rtype) {
        (0, 1) => vec![record(1, &[192, 0, 2, 77])],
        (0, 48) => vec![record(48, &[3; 264]), record(48, &[4; 264])],
        _ => Vec::new(),
    };
    if signed && !records.is_empty() {
        records.push(record(46, &[5; 300]));
    }
    let whole = question + records.iter().map(Vec::len).sum::<usize>() + 11;
    let truncated = whole > usize::from(room.max(512));
    if truncated {
        records.clear();
    }
    let authentic = checks && signed && code != SERVFAIL && !unchecked;
    let mut out = query[..2].to_vec();
    out.push(0x80 | (query[2] & 1) | u8::from(truncated) << 1);
    out.push(0x80 | u8::from(authentic) << 5 | (query[3] & 0x10) | code);
    out.extend([0, 1, 0, records.len() as u8, 0, 0, 0, u8::from(edns)]);
    out.extend(&query[12..question]);
    records.iter().for_each(|r| out.extend(r));
    if edns {
        let flags = if signed { 0x80 } else { 0 };
        out.extend([0, 0, 41, 4, 208, 0, 0, flags, 0, 0, 0]);
    }
    out
}
