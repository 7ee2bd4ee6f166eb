//! Unsolicited packets: conversations that the remote side started and home did not accept.
//!
//! **Method.** For each pair of ends (of addresses for ICMP) the first speaker, its first packet, and the answers are
//! recorded. At the end one side is *home*: the addresses that were named, or else the one address that nearly all
//! packets have in common, or else the private ones. A conversation started by the remote side is unsolicited if home
//! refused or ignored it, or cannot have caused it. A connection that home accepted is not.
//!
//! **Source.** RFC 9293 (the segments that an RST answers), RFC 792 and RFC 4443 (ICMP errors quote the packet they are
//! about), RFC 1918 and RFC 4193 (private addresses); R. Pang et al., "Characteristics of Internet background
//! radiation", IMC 2004 (the kinds).
//!
//! **Limits.** In a conversation older than the capture, the first speaker of the capture looks like its initiator;
//! such conversations are left out if both sides speak. Pairs beyond a million are not watched; their packets are
//! counted.

use crate::capture::frame::{Address, Frame, Transport, flag};
use std::collections::{BTreeMap, HashMap};
use std::net::{IpAddr, Ipv6Addr};

/// Kind of an unsolicited packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A SYN that home refused with RST.
    Refused,
    /// A SYN that home left unanswered.
    Unanswered,
    /// SYN/ACK, RST or ACK of a connection that home never started: often the echo of a forged address.
    Stray,
    /// A datagram that home did not answer.
    Datagram,
    /// An echo request or another ICMP query.
    Ping,
    /// An ICMP error about a packet that home did not send during the capture.
    Error,
    /// Another protocol.
    Other,
}

impl Kind {
    /// Word for it in texts and files.
    pub const fn word(self) -> &'static str {
        match self {
            Kind::Refused => "SYN refused",
            Kind::Unanswered => "SYN ignored",
            Kind::Stray => "stray TCP",
            Kind::Datagram => "datagram",
            Kind::Ping => "ICMP query",
            Kind::Error => "ICMP error",
            Kind::Other => "other",
        }
    }
}

/// Packets of one kind from one address to one port.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsolicited {
    /// Kind of the packets.
    pub kind: Kind,
    /// Source address.
    pub from: IpAddr,
    /// Destination address.
    pub to: IpAddr,
    /// Port at home; for ICMP type × 256 + code, for another protocol its number.
    pub port: u16,
    /// Number of packets.
    pub packets: u64,
    /// Time of the first, ns.
    pub first_ns: i64,
    /// Time of the last, ns.
    pub last_ns: i64,
}

/// Unsolicited packets of a capture.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Entries with the most packets first.
    pub list: Vec<Unsolicited>,
    /// Addresses taken as home, at most 16 of them; empty if home could not be determined.
    pub home: Vec<IpAddr>,
    /// Packets to multicast groups and to broadcast, which belong to no single host.
    pub group_packets: u64,
    /// Packets between pairs beyond those that are watched.
    pub unwatched_packets: u64,
}

const MOST: usize = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Pair {
    low: (Address, u16),
    high: (Address, u16),
    protocol: u8,
}

struct Talk {
    from: Address,
    to: Address,
    port: u16,
    protocol: u8,
    /// First packet of the first speaker: TCP's flags, or ICMP's type.
    opening: u8,
    packets: u64,
    back: u64,
    /// True if all answers were RSTs.
    refused: bool,
    /// True if any answer was not an RST.
    answered: bool,
    first_ns: i64,
    last_ns: i64,
}

/// Returns true if an address is at home.
type Inside = Box<dyn Fn(&Address) -> bool>;

/// Watch for unsolicited packets.
#[derive(Default)]
pub struct Watch {
    places: HashMap<Pair, u32>,
    talks: Vec<Talk>,
    group_packets: u64,
    unwatched_packets: u64,
    /// ICMP errors, each with the ends of the packet it quotes.
    errors: Vec<(Talk, Pair)>,
}

impl Watch {
    /// Adds a packet.
    pub fn packet(&mut self, t_ns: i64, frame: &Frame<'_>) {
        if frame.fragment.is_some_and(|f| f.offset > 0) {
            return;
        }
        if is_group(&frame.dst) {
            self.group_packets += 1;
            return;
        }
        let (protocol, ports, opening) = match &frame.transport {
            Transport::Tcp(t) => (6, (t.src_port, t.dst_port), t.flags),
            Transport::Udp {
                src_port, dst_port, ..
            } => (17, (*src_port, *dst_port), 0),
            Transport::Other {
                protocol: protocol @ (1 | 58),
            } => return self.icmp(t_ns, frame, *protocol),
            Transport::Other { protocol } => (*protocol, (0, 0), 0),
            Transport::Cut { .. } => return,
        };
        self.note(t_ns, frame, protocol, ports, opening);
    }

    fn note(&mut self, t: i64, f: &Frame<'_>, protocol: u8, ports: (u16, u16), opening: u8) {
        let pair = Pair::new((f.src, ports.0), (f.dst, ports.1), protocol);
        let Some(place) = self.places.get(&pair) else {
            if self.talks.len() >= MOST {
                self.unwatched_packets += 1;
                return;
            }
            self.places.insert(pair, self.talks.len() as u32);
            self.talks.push(Talk::new(t, f, protocol, ports.1, opening));
            return;
        };
        let talk = &mut self.talks[*place as usize];
        talk.last_ns = talk.last_ns.max(t);
        if talk.from == f.src {
            talk.packets += 1;
        } else {
            talk.back += 1;
            let reset = protocol == 6 && opening & flag::RST != 0;
            talk.refused |= reset;
            talk.answered |= !reset;
        }
    }

    fn icmp(&mut self, t: i64, frame: &Frame<'_>, protocol: u8) {
        let [kind, code, _, _, id @ ..] = frame.body else {
            return;
        };
        // ICMP payload: the packet quoted by an error, or the identifier of a query.
        let error = match protocol {
            1 => matches!(kind, 3 | 4 | 5 | 11 | 12),
            _ => matches!(kind, 1..=4),
        };
        if !error {
            // Neighbour discovery and group membership are no queries.
            if protocol == 58 && matches!(kind, 130..=137 | 143) {
                return;
            }
            let id = id.first_chunk::<2>().map_or(0, |i| u16::from_be_bytes(*i));
            return self.note(t, frame, protocol, (id, id), *kind);
        }
        let quoted = frame.body.get(8..).unwrap_or(&[]);
        let Some(pair) = quoted_ends(quoted) else {
            return;
        };
        if self.errors.len() < MOST {
            let port = u16::from(*kind) << 8 | u16::from(*code);
            self.errors
                .push((Talk::new(t, frame, protocol, port, *kind), pair));
        }
    }

    /// Evaluates the capture. `home` lists the address prefixes at home, as address and length; if it is empty, home is
    /// inferred.
    pub fn finish(self, home: &[(IpAddr, u8)]) -> Found {
        let mut found = Found {
            group_packets: self.group_packets,
            unwatched_packets: self.unwatched_packets,
            ..Found::default()
        };
        let Some(inside) = self.home(home) else {
            return found;
        };
        let mut seen: Vec<Address> = self
            .talks
            .iter()
            .flat_map(|t| [t.from, t.to])
            .filter(|a| inside(a))
            .collect();
        seen.sort_unstable();
        seen.dedup();
        found.home = seen.iter().take(16).map(|a| address(*a)).collect();
        let asked = |pair: &Pair| {
            let place = self.places.get(pair)?;
            let talk = &self.talks[*place as usize];
            Some(inside(&talk.from) || talk.back > 0)
        };
        let talks = self.talks.iter().filter_map(|t| Some((t.kind()?, t)));
        let errors = self
            .errors
            .iter()
            .filter(|(_, pair)| asked(pair) != Some(true))
            .map(|(t, _)| (Kind::Error, t));
        let mut groups: BTreeMap<(Kind, Address, Address, u16), Unsolicited> = BTreeMap::new();
        for (kind, t) in talks.chain(errors) {
            if inside(&t.from) || !inside(&t.to) {
                continue;
            }
            let key = (kind, t.from, t.to, t.port);
            let entry = groups.entry(key).or_insert(Unsolicited {
                kind,
                from: address(t.from),
                to: address(t.to),
                port: t.port,
                packets: 0,
                first_ns: t.first_ns,
                last_ns: t.last_ns,
            });
            entry.packets += t.packets;
            entry.first_ns = entry.first_ns.min(t.first_ns);
            entry.last_ns = entry.last_ns.max(t.last_ns);
        }
        found.list = groups.into_values().collect();
        found
            .list
            .sort_by_key(|u| (std::cmp::Reverse(u.packets), u.first_ns, u.from, u.port));
        found
    }

    /// Predicate for addresses at home; `None` if home cannot be determined.
    fn home(&self, named: &[(IpAddr, u8)]) -> Option<Inside> {
        if !named.is_empty() {
            let prefixes: Vec<(u128, u32)> = named
                .iter()
                .map(|(ip, length)| match ip {
                    IpAddr::V4(four) => (
                        u128::from(four.to_ipv6_mapped()),
                        u32::from(*length).min(32) + 96,
                    ),
                    IpAddr::V6(six) => (u128::from(*six), u32::from(*length).min(128)),
                })
                .collect();
            return Some(Box::new(move |a: &Address| {
                let a = u128::from_be_bytes(*a);
                prefixes
                    .iter()
                    .any(|(p, length)| (a ^ p).checked_shr(128 - length).unwrap_or(0) == 0)
            }));
        }
        // An address in at least nine of ten packets of its family belongs to the capturing host.
        let mut counts: HashMap<Address, u64> = HashMap::new();
        let mut all = [0u64; 2];
        for t in &self.talks {
            let n = t.packets + t.back;
            all[usize::from(is_four(&t.from))] += n;
            *counts.entry(t.from).or_default() += n;
            *counts.entry(t.to).or_default() += n;
        }
        let mut own: Vec<Address> = Vec::new();
        for t in &self.talks {
            for (mine, other) in [(t.from, t.to), (t.to, t.from)] {
                let most = all[usize::from(is_four(&mine))] * 9 / 10;
                // Between only two hosts, each is in every packet: neither is home.
                if counts[&mine] > most.max(1) && counts[&other] <= most && !own.contains(&mine) {
                    own.push(mine);
                }
            }
        }
        if !own.is_empty() {
            return Some(Box::new(move |a| own.contains(a)));
        }
        let both = self
            .talks
            .iter()
            .any(|t| is_private(&t.from) != is_private(&t.to));
        both.then(|| Box::new(is_private) as Inside)
    }
}

impl Pair {
    fn new(a: (Address, u16), b: (Address, u16), protocol: u8) -> Pair {
        let (low, high) = if a <= b { (a, b) } else { (b, a) };
        Pair {
            low,
            high,
            protocol,
        }
    }
}

impl Talk {
    fn new(t: i64, frame: &Frame<'_>, protocol: u8, port: u16, opening: u8) -> Talk {
        Talk {
            from: frame.src,
            to: frame.dst,
            port,
            protocol,
            opening,
            packets: 1,
            back: 0,
            refused: false,
            answered: false,
            first_ns: t,
            last_ns: t,
        }
    }

    /// Kind of unsolicited traffic, if the receiver is home.
    fn kind(&self) -> Option<Kind> {
        match self.protocol {
            6 if self.answered => None,
            6 => Some(match self.opening & (flag::SYN | flag::ACK | flag::RST) {
                flag::SYN if self.refused => Kind::Refused,
                flag::SYN => Kind::Unanswered,
                // Data and ACKs without an answer: a connection seen in one direction only.
                flag::ACK if !self.refused && self.packets > 1 => return None,
                _ => Kind::Stray,
            }),
            // Answered: a service that home offers.
            17 | 1 | 58 if self.answered => None,
            17 => Some(Kind::Datagram),
            // Echo replies, and answers to other queries that nobody sent, are strays of ICMP.
            1 | 58 => Some(Kind::Ping),
            _ if self.back > 0 => None,
            _ => Some(Kind::Other),
        }
    }
}

/// Ends of the packet that an ICMP error quotes.
fn quoted_ends(d: &[u8]) -> Option<Pair> {
    let word = |at: usize| Some(u16::from_be_bytes([*d.get(at)?, *d.get(at + 1)?]));
    let (src, dst, protocol, at) = match d.first()? >> 4 {
        4 => {
            let mapped = |at: usize| {
                let mut a = [0; 16];
                (a[10], a[11]) = (0xff, 0xff);
                a[12..].copy_from_slice(d.get(at..at + 4)?);
                Some(a)
            };
            let header = usize::from(d[0] & 15) * 4;
            (mapped(12)?, mapped(16)?, *d.get(9)?, header)
        }
        6 => (
            d.get(8..24)?.try_into().ok()?,
            d.get(24..40)?.try_into().ok()?,
            *d.get(6)?,
            40,
        ),
        _ => return None,
    };
    let ports = match protocol {
        6 | 17 => (word(at)?, word(at + 2)?),
        1 | 58 => (word(at + 4)?, word(at + 4)?),
        _ => (0, 0),
    };
    Some(Pair::new((src, ports.0), (dst, ports.1), protocol))
}

fn address(a: Address) -> IpAddr {
    Ipv6Addr::from(a).to_canonical()
}

fn is_four(a: &Address) -> bool {
    address(*a).is_ipv4()
}

fn is_group(a: &Address) -> bool {
    match address(*a) {
        IpAddr::V4(four) => four.is_multicast() || four.is_broadcast() || four.octets()[3] == 255,
        IpAddr::V6(six) => six.is_multicast(),
    }
}

fn is_private(a: &Address) -> bool {
    match address(*a) {
        IpAddr::V4(four) => four.is_private() || four.is_link_local() || four.is_loopback(),
        IpAddr::V6(six) => {
            matches!(six.segments()[0] & 0xfe00, 0xfc00) || six.is_unicast_link_local()
        }
    }
}
