//! Traffic by application: sessions of each service and of each server, named by what packets show in the clear.
//!
//! **Method.** A session is a TCP connection or a UDP conversation between two pairs of address and port. It ends with FINs or an
//! RST, or after a silence: [`TCP_SILENCE_NS`], [`UDP_SILENCE_NS`]. Its service follows from the server's port, or from a
//! handshake of QUIC. Its server has the name in the ClientHello (TLS or QUIC); without one, the name whose DNS answer held
//! the address before.
//!
//! **Source.** RFC 6335 (port numbers; names after the IANA registry), RFC 6066 (server names), RFC 9001 (QUIC), RFC 1035
//! (DNS); the silences are those of flow exporters (RFC 5470 section 5.1, 15 s to 30 min).
//!
//! **Limits.** Encrypted ClientHellos show the name of the provider only. Ports are a convention. Sessions beyond
//! [`MOST_SESSIONS`] at once are counted, not watched.

mod answers;
pub mod hello;
mod quic;

pub use answers::read as read_answer;
pub use quic::Initials;

use crate::capture::frame::{Address, Frame, Tcp, Transport, flag};
use hashbrown::HashMap;
use hello::Hello;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv6Addr};

/// Silence after which a TCP connection counts as over.
pub const TCP_SILENCE_NS: i64 = 900_000_000_000;
/// Silence after which a UDP conversation counts as over.
pub const UDP_SILENCE_NS: i64 = 60_000_000_000;
/// Sessions that are watched at once.
pub const MOST_SESSIONS: usize = 1_000_000;
/// Servers with a name, and addresses with one.
const MOST_NAMES: usize = 100_000;
/// Handshakes that are read at once.
const MOST_HANDSHAKES: usize = 10_000;
/// Latest time, in the year 2116.
const LATEST_NS: i64 = 1 << 62;
/// Packets of a session after which its handshake is no longer looked for.
const MOST_TRIES: u8 = 24;

/// Length of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Length {
    /// Time from its first packet to its last, ns.
    pub ns: u64,
    /// False if the capture ended before the session did: it lasted at least so long.
    pub is_whole: bool,
}

/// Sum over sessions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Number of sessions.
    pub sessions: u64,
    /// Packets, both directions.
    pub packets: u64,
    /// Bytes of IP packets, both directions.
    pub bytes: u64,
    /// Lengths of the sessions whose begin was captured.
    pub lengths: Vec<Length>,
}

/// Place of a server's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Via {
    /// ClientHello over TCP.
    Tls,
    /// ClientHello in a QUIC Initial.
    Quic,
    /// DNS answer with the server's address.
    Dns,
}

impl Via {
    /// Word for it in texts and files.
    pub const fn word(self) -> &'static str {
        match self {
            Via::Tls => "TLS",
            Via::Quic => "QUIC",
            Via::Dns => "DNS",
        }
    }
}

/// Traffic by application.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Services by name.
    pub services: BTreeMap<String, Sum>,
    /// Servers by name, with the places where the name was read.
    pub servers: BTreeMap<String, (Sum, Vec<Via>)>,
    /// Sum of the sessions of servers without a name.
    pub nameless: Sum,
    /// Packets of sessions beyond those that are watched.
    pub unwatched_packets: u64,
    /// Handshakes that the capture holds in part only.
    pub cut_handshakes: u64,
}

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    low: (Address, u16),
    high: (Address, u16),
    is_tcp: bool,
}

/// Handshake of a session while it is read.
enum Handshake {
    /// Data from the client, from this sequence number on.
    Tls {
        first: u32,
        bytes: Vec<u8>,
    },
    Quic(Initials),
}

struct Session {
    first_ns: i64,
    last_ns: i64,
    packets: u64,
    bytes: u64,
    /// Address and port of the server.
    server: (Address, u16),
    /// True if the first packet of the session is in the capture.
    is_begun: bool,
    /// Number of FINs, or true end by an RST.
    ends: u8,
    is_quic: bool,
    tries: u8,
    /// True if its handshake could not be read to its end.
    is_cut: bool,
    handshake: Option<Box<Handshake>>,
    name: Option<(String, Via)>,
}

/// Watch of the sessions in a capture.
#[derive(Default)]
pub struct Applications {
    sessions: HashMap<Key, Session>,
    names: HashMap<IpAddr, String>,
    handshakes: usize,
    first_ns: Option<i64>,
    last_ns: i64,
    found: Found,
}

impl Applications {
    /// Takes the next packet, which arrived at this time.
    pub fn packet(&mut self, t_ns: i64, frame: &Frame<'_>) {
        // A damaged file may claim any time, and differences must have room.
        let t_ns = t_ns.clamp(0, LATEST_NS);
        let first_ns = *self.first_ns.get_or_insert(t_ns);
        self.last_ns = self.last_ns.max(t_ns);
        let (is_tcp, ports) = match &frame.transport {
            Transport::Tcp(t) => (true, (t.src_port, t.dst_port)),
            Transport::Udp {
                src_port, dst_port, ..
            } => (false, (*src_port, *dst_port)),
            _ => return,
        };
        let ends = [(frame.src, ports.0), (frame.dst, ports.1)];
        let [low, high] = if ends[0] <= ends[1] {
            ends
        } else {
            [ends[1], ends[0]]
        };
        let key = Key { low, high, is_tcp };
        if !is_tcp && ports.0 == 53 {
            self.answer(frame.body.get(8..).unwrap_or_default());
        }
        let mut is_over = false;
        if let Some(session) = self.sessions.get_mut(&key) {
            is_over = session.is_over(t_ns, frame, is_tcp);
            if !is_over {
                self.handshakes = session.packet(t_ns, frame, self.handshakes);
                return;
            }
        }
        if is_over {
            self.end(&key, true);
        }
        if self.sessions.len() >= MOST_SESSIONS {
            self.found.unwatched_packets += 1;
            return;
        }
        let mut session = Session::new(t_ns, first_ns, frame, ends, is_tcp);
        self.handshakes = session.packet(t_ns, frame, self.handshakes);
        self.sessions.insert(key, session);
    }

    fn answer(&mut self, bytes: &[u8]) {
        let Some((name, addresses)) = answers::read(bytes) else {
            return;
        };
        for address in addresses {
            if self.names.len() < MOST_NAMES || self.names.contains_key(&address) {
                self.names.insert(address, name.clone());
            }
        }
    }

    /// Adds a session to the sums.
    fn end(&mut self, key: &Key, is_whole: bool) {
        let Some(session) = self.sessions.remove(key) else {
            return;
        };
        self.handshakes -= usize::from(session.handshake.is_some());
        let is_cut = session.is_cut || session.handshake.is_some();
        self.found.cut_handshakes += u64::from(is_cut);
        let service = session.service(key.is_tcp);
        self.found
            .services
            .entry(service)
            .or_default()
            .add(&session, is_whole);
        let address = IpAddr::V6(Ipv6Addr::from(session.server.0)).to_canonical();
        let known = || Some((self.names.get(&address)?.clone(), Via::Dns));
        let name = session.name.clone().or_else(known);
        let servers = &mut self.found.servers;
        match name {
            Some((name, via)) if servers.len() < MOST_NAMES || servers.contains_key(&name) => {
                let (sum, all) = servers.entry(name).or_default();
                sum.add(&session, is_whole);
                if let Err(place) = all.binary_search(&via) {
                    all.insert(place, via);
                }
            }
            _ => self.found.nameless.add(&session, is_whole),
        }
    }

    /// Evaluates the capture.
    pub fn finish(mut self) -> Found {
        let keys: Vec<Key> = self.sessions.keys().copied().collect();
        let last_ns = self.last_ns;
        for key in keys {
            let is_whole = self.sessions[&key].is_whole(last_ns, key.is_tcp);
            self.end(&key, is_whole);
        }
        self.found
    }
}

impl Sum {
    fn add(&mut self, session: &Session, is_whole: bool) {
        self.sessions += 1;
        self.packets += session.packets;
        self.bytes += session.bytes;
        if session.is_begun {
            let ns = u64::try_from(session.last_ns - session.first_ns).unwrap_or(0);
            self.lengths.push(Length { ns, is_whole });
        }
    }
}

fn silence_ns(is_tcp: bool) -> i64 {
    if is_tcp {
        TCP_SILENCE_NS
    } else {
        UDP_SILENCE_NS
    }
}

impl Session {
    fn new(
        t_ns: i64,
        first_ns: i64,
        frame: &Frame<'_>,
        ends: [(Address, u16); 2],
        is_tcp: bool,
    ) -> Session {
        let opening = match &frame.transport {
            Transport::Tcp(t) => t.flags & (flag::SYN | flag::ACK),
            _ => 0,
        };
        let is_begun = match is_tcp {
            true => opening & flag::SYN != 0,
            false => t_ns - first_ns > UDP_SILENCE_NS,
        };
        let server = match opening {
            flag::SYN => ends[1],
            _ if opening & flag::SYN != 0 => ends[0],
            _ => likely_server(ends, is_tcp),
        };
        Session {
            first_ns: t_ns,
            last_ns: t_ns,
            packets: 0,
            bytes: 0,
            server,
            is_begun,
            ends: 0,
            is_quic: false,
            tries: 0,
            is_cut: false,
            handshake: None,
            name: None,
        }
    }

    /// True if this packet belongs to a new session of the same ends.
    fn is_over(&self, t_ns: i64, frame: &Frame<'_>, is_tcp: bool) -> bool {
        let is_new = matches!(&frame.transport,
            Transport::Tcp(t) if t.flags & (flag::SYN | flag::ACK) == flag::SYN && self.ends > 0);
        is_new || t_ns - self.last_ns > silence_ns(is_tcp)
    }

    /// True if the session was over when the capture ended.
    fn is_whole(&self, end_ns: i64, is_tcp: bool) -> bool {
        self.ends >= 2 || end_ns - self.last_ns > silence_ns(is_tcp)
    }

    /// Takes a packet while so many handshakes are being read; returns how many are being read then.
    fn packet(&mut self, t_ns: i64, frame: &Frame<'_>, reading: usize) -> usize {
        self.count(t_ns, frame);
        if self.name.is_some() || self.tries >= MOST_TRIES {
            return reading;
        }
        let had = usize::from(self.handshake.is_some());
        self.handshake(frame, reading < MOST_HANDSHAKES);
        reading - had + usize::from(self.handshake.is_some())
    }

    fn count(&mut self, t_ns: i64, frame: &Frame<'_>) {
        self.last_ns = self.last_ns.max(t_ns);
        self.packets += 1;
        self.bytes += u64::from(frame.ip_len);
        if let Transport::Tcp(t) = &frame.transport {
            self.ends = match (t.flags & flag::RST != 0, t.flags & flag::FIN != 0) {
                (true, _) => 2,
                (_, true) => self.ends.saturating_add(1),
                _ => self.ends,
            };
        }
    }

    /// Reads on in the client's handshake, if this packet has a part of it.
    fn handshake(&mut self, frame: &Frame<'_>, may_begin: bool) {
        let is_client = (frame.dst, port_to(frame)) == self.server;
        let hello = match &frame.transport {
            Transport::Tcp(t) if is_client && t.payload > 0 => self.tls(t, frame.body, may_begin),
            Transport::Udp { .. } if is_client => self.quic(frame.body, may_begin),
            _ => return,
        };
        self.tries += 1;
        match hello {
            Hello::Cut if self.tries < MOST_TRIES => return,
            Hello::Name(name) => {
                let via = if self.is_quic { Via::Quic } else { Via::Tls };
                self.name = Some((name, via));
            }
            Hello::Cut => self.is_cut = true,
            Hello::Without => {}
        }
        self.handshake = None;
        self.tries = MOST_TRIES;
    }

    fn tls(&mut self, tcp: &Tcp<'_>, body: &[u8], may_begin: bool) -> Hello {
        let offset = body.get(12).map_or(20, |b| usize::from(b >> 4) * 4);
        let data = body.get(offset..).unwrap_or_default();
        if self.handshake.is_none() {
            // What is no handshake of TLS is not kept.
            let may_be = !data.is_empty() && data.iter().zip([22, 3]).all(|(a, b)| *a == b);
            if !may_begin || !may_be {
                return Hello::Without;
            }
            let (first, bytes) = (tcp.seq, Vec::new());
            self.handshake = Some(Box::new(Handshake::Tls { first, bytes }));
        }
        let Some(Handshake::Tls { first, bytes }) = self.handshake.as_deref_mut() else {
            return Hello::Without;
        };
        let at = tcp.seq.wrapping_sub(*first) as usize;
        if at <= bytes.len() && at + data.len() <= hello::MOST {
            bytes.extend(data.iter().skip(bytes.len() - at));
        }
        hello::in_records(bytes)
    }

    fn quic(&mut self, body: &[u8], may_begin: bool) -> Hello {
        let data = body.get(8..).unwrap_or_default();
        if self.handshake.is_none() {
            let mut initials = Initials::default();
            if !may_begin || !initials.datagram(data) {
                return Hello::Without;
            }
            self.is_quic = true;
            let read = hello::bare(&initials.handshake());
            self.handshake = Some(Box::new(Handshake::Quic(initials)));
            return read;
        }
        let Some(Handshake::Quic(initials)) = self.handshake.as_deref_mut() else {
            return Hello::Without;
        };
        initials.datagram(data);
        hello::bare(&initials.handshake())
    }

    /// Name of the service.
    fn service(&self, is_tcp: bool) -> String {
        let port = self.server.1;
        if self.is_quic {
            return if port == 443 {
                "QUIC".into()
            } else {
                format!("QUIC {port}")
            };
        }
        let protocol = if is_tcp { "TCP" } else { "UDP" };
        match service(port, is_tcp) {
            Some(name) => format!("{name} ({protocol} {port})"),
            None => format!("{protocol} {port}"),
        }
    }
}

fn port_to(frame: &Frame<'_>) -> u16 {
    match &frame.transport {
        Transport::Tcp(t) => t.dst_port,
        Transport::Udp { dst_port, .. } => *dst_port,
        _ => 0,
    }
}

/// Server of a session whose begin is unknown: the end with a known port, otherwise that with the lower one.
pub(crate) fn likely_server(ends: [(Address, u16); 2], is_tcp: bool) -> (Address, u16) {
    let is_known = ends.map(|e| service(e.1, is_tcp).is_some());
    match is_known {
        [true, false] => ends[0],
        [false, true] => ends[1],
        _ if ends[0].1 < ends[1].1 => ends[0],
        _ => ends[1],
    }
}

/// Names of services: port, name, and true if the name holds over TCP, over UDP.
const SERVICES: &[(u16, &str, bool, bool)] = &[
    (20, "ftp-data", true, false),
    (21, "ftp", true, false),
    (22, "ssh", true, false),
    (23, "telnet", true, false),
    (25, "smtp", true, false),
    (53, "dns", true, true),
    (67, "dhcp", false, true),
    (68, "dhcp", false, true),
    (80, "http", true, false),
    (110, "pop3", true, false),
    (123, "ntp", false, true),
    (143, "imap", true, false),
    (161, "snmp", false, true),
    (443, "https", true, true),
    (465, "submissions", true, false),
    (500, "isakmp", false, true),
    (514, "syslog", false, true),
    (546, "dhcpv6", false, true),
    (547, "dhcpv6", false, true),
    (587, "submission", true, false),
    (853, "dns over TLS", true, true),
    (862, "twamp", true, true),
    (993, "imaps", true, false),
    (995, "pop3s", true, false),
    (1194, "openvpn", true, true),
    (1883, "mqtt", true, false),
    (1900, "ssdp", false, true),
    (2112, "irtt", false, true),
    (3389, "rdp", true, true),
    (3478, "stun", true, true),
    (4500, "ipsec-nat-t", false, true),
    (5060, "sip", true, true),
    (5201, "iperf3", true, true),
    (5222, "xmpp", true, false),
    (5353, "mdns", false, true),
    (7117, "tailback", true, true),
    (8080, "http-alt", true, false),
    (8883, "mqtt over TLS", true, false),
    (51820, "wireguard", false, true),
];

fn service(port: u16, is_tcp: bool) -> Option<&'static str> {
    let entry = SERVICES.iter().find(|s| s.0 == port)?;
    let holds = if is_tcp { entry.2 } else { entry.3 };
    holds.then_some(entry.1)
}
