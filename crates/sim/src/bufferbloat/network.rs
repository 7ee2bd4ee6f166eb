//! Surroundings of the link in virtual time: address translation, middleboxes, versions of IP, resolvers and hops, all
//! known, so that the result of an experiment can be compared with them.
//!
//! **Source.** RFC 4787, Network Address Translation (NAT) Behavioral Requirements for Unicast UDP, sections 4 to 6.
//!
//! **Deviations.** Middleboxes, hops and resolvers add a fixed delay and have no queues of their own.

use super::letters::Datagram;
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration};
use measure::control::listen::Transport;
use measure::segment::Seen;
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// Dependence of a NAT's behaviour on the other end (RFC 4787 sections 4.1 and 5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Depends {
    Not,
    OnAddress,
    OnAddressAndPort,
}

impl Depends {
    /// Part of the other end that it depends on.
    pub(super) fn part(self, of: SocketAddr) -> Option<(IpAddr, u16)> {
        match self {
            Depends::Not => None,
            Depends::OnAddress => Some((of.ip(), 0)),
            Depends::OnAddressAndPort => Some((of.ip(), of.port())),
        }
    }
}

/// Middlebox or service in front of a port of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Block {
    /// Filtered: nothing gets through, and nothing returns.
    Silent,
    /// A middlebox refuses.
    Refused,
    /// The knock gets through, and the answer does not return.
    AnswerLost,
    /// A middlebox answers in the server's name.
    Somebody,
    /// The server uses this port for something else.
    InUse,
    /// A middlebox rewrites messages in both directions.
    Changed,
    /// A middlebox drops messages that are invalid in the protocol of the port.
    Reads,
}

/// Address translation between the near host and the link.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Nat {
    /// True if there is a NAT; otherwise `filtering` and `lifetime` are those of a firewall.
    pub translates: bool,
    /// Dependence of the mapping on the other end.
    pub mapping: Depends,
    /// Dependence of the filter on the other end.
    pub filtering: Depends,
    /// Number of external addresses, which mappings of new sockets take in turn.
    pub addresses: u8,
    /// Silence after which a mapping is forgotten: for a mapping that was answered once, and for one used for more than
    /// two seconds. A firewall that translates nothing does not forget.
    pub lifetime: (Duration, Duration),
    /// True if hosts inside reach each other by their external addresses.
    pub hairpin: bool,
}

impl Nat {
    /// Neither translation nor filter.
    pub fn none() -> Nat {
        Nat {
            translates: false,
            filtering: Depends::Not,
            ..Nat::default()
        }
    }
}

impl Default for Nat {
    fn default() -> Nat {
        Nat {
            translates: true,
            mapping: Depends::Not,
            filtering: Depends::OnAddressAndPort,
            addresses: 1,
            lifetime: (Duration::from_secs(30), Duration::from_secs(120)),
            hairpin: false,
        }
    }
}

/// Treatment of one version of IP on the path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Version {
    /// Largest packet of the path.
    pub mtu: Bytes,
    /// True if routers report packets that are too large.
    pub tells_mtu: bool,
    /// True if fragments pass.
    pub fragments: bool,
    /// True if IPv6 extension headers pass: hop-by-hop options, destination options.
    pub extensions: [bool; 2],
    /// True if nothing of this version passes.
    pub blocked: bool,
}

impl Default for Version {
    fn default() -> Version {
        Version {
            mtu: Bytes::new(1500),
            tells_mtu: true,
            fragments: true,
            extensions: [true; 2],
            blocked: false,
        }
    }
}

/// Resolver beyond the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Resolver {
    /// Address of the resolver, at port 53.
    pub address: IpAddr,
    /// Additional time of the path to it, one way.
    pub farther: Duration,
    /// Time that it takes for a name in its cache, and for one that it has to find out.
    pub known: Duration,
    /// The same for a name that it has to find out.
    pub new: Duration,
    /// True if it checks signatures.
    pub checks: bool,
    /// True if it accepts connections; otherwise it refuses them.
    pub tcp: bool,
    /// True if it answers nothing.
    pub silent: bool,
}

impl Default for Resolver {
    fn default() -> Resolver {
        Resolver {
            address: Ipv4Addr::new(192, 0, 2, 53).into(),
            farther: Duration::from_millis(2),
            known: Duration::from_micros(300),
            new: Duration::from_millis(40),
            checks: true,
            tcp: true,
            silent: false,
        }
    }
}

/// Router on the path. The time to it is counted from the near host, without the link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Router {
    /// Address that its ICMP messages come from.
    pub address: IpAddr,
    /// Time one way.
    pub delay: Duration,
    /// True if it is beyond the link.
    pub beyond: bool,
    /// Shortest interval between two of its ICMP errors; zero for no limit.
    pub at_most_every: Duration,
    /// True if it sends no ICMP errors.
    pub silent: bool,
    /// Bytes beyond the IP header that its ICMP errors quote.
    pub quotes: usize,
}

/// Markings that a router treats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Which {
    /// Every datagram.
    Every,
    /// ECT and CE.
    Ecn,
    /// One ECN codepoint.
    Codepoint(u8),
    /// DSCPs other than zero.
    Dscps,
    /// One DSCP.
    Dscp(u8),
    /// ECT and CE of TCP segments.
    TcpEcn,
    /// SYNs and SYN-ACKs with AE, CWR or ECE: a rewrite concerns these three bits.
    Handshakes,
    /// The same of other TCP segments.
    Ace,
    /// AccECN options: a rewrite strips them.
    AccEcn,
}

impl Which {
    /// True for this TOS byte of a datagram.
    pub(super) fn has(self, tos: u8) -> bool {
        match self {
            Which::Every => true,
            Which::Ecn => tos & 3 != 0,
            Which::Codepoint(codepoint) => tos & 3 == codepoint,
            Which::Dscps => tos >> 2 != 0,
            Which::Dscp(dscp) => tos >> 2 == dscp,
            Which::TcpEcn | Which::Handshakes | Which::Ace | Which::AccEcn => false,
        }
    }

    /// True for this packet.
    fn concerns(self, packet: &Datagram) -> bool {
        let seen = Seen::read(&packet.bytes).filter(|_| packet.tcp);
        let flags = seen.and_then(|s| s.rest);
        match self {
            Which::TcpEcn => packet.tcp && packet.tos & 3 != 0,
            Which::Handshakes => flags.is_some_and(|f| f.syn && f.ecn != 0),
            Which::Ace => flags.is_some_and(|f| !f.syn && f.ecn != 0),
            Which::AccEcn => seen.is_some_and(|s| s.option.is_some_and(|o| o != 0)),
            other => other.has(packet.tos),
        }
    }

    /// Keeps and sets bits of the part that it is about.
    fn rewrite(self, packet: &mut Datagram, (keep, set): (u8, u8)) {
        match self {
            Which::Handshakes | Which::Ace => {
                let word = u16::from_be_bytes([packet.bytes[12], packet.bytes[13]]);
                let ecn = (word >> 6 & 7) as u8 & keep | set & 7;
                let word = word & !(7 << 6) | u16::from(ecn) << 6;
                packet.bytes[12..14].copy_from_slice(&word.to_be_bytes());
            }
            Which::AccEcn => {
                let end = usize::from(packet.bytes[12] >> 4) * 4;
                packet.bytes[20..end].fill(1);
            }
            _ => packet.tos = packet.tos & keep | set,
        }
    }
}

/// Treatment of marked datagrams by a router.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Treatment {
    /// Number of the router, from 1 at the near host.
    pub router: usize,
    /// Direction of the datagrams.
    pub direction: Direction,
    /// True if it happens after the hop limit is checked, so that the router itself quotes the marking as it was.
    pub leaving: bool,
    /// Markings that it concerns.
    pub which: Which,
    /// Bits of the TOS byte, or of the flags, that are kept, and bits that are set then; null to drop the datagram.
    pub rewrite: Option<(u8, u8)>,
}

/// End of a datagram's path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reached {
    /// The other end.
    End,
    /// Hop limit at the router of this index.
    Router(usize),
    /// A router has dropped it.
    Nowhere,
}

/// Surroundings of a link.
#[derive(Clone, Debug, PartialEq)]
pub struct Network {
    /// Address translation before the link.
    pub nat: Nat,
    /// True if the server has a second address.
    pub second: bool,
    /// Fate of messages to a port of the server; other ports are open.
    pub ports: BTreeMap<(Transport, u16), Block>,
    /// Treatment of IPv4.
    pub v4: Version,
    /// Null if the server has no IPv6 address.
    pub v6: Option<Version>,
    /// The first is the one that the near host uses.
    pub resolvers: Vec<Resolver>,
    /// Routers in the order of the path.
    pub routers: Vec<Router>,
    /// Treatments of marked datagrams, in the order in which a router applies them.
    pub treatments: Vec<Treatment>,
    /// Policer of datagrams before the link.
    pub policer: Option<Policer>,
    /// Share of datagrams lost in each direction, beside those that the link loses.
    pub loss: f64,
    /// Web page that a virtual browser loads.
    pub page: Page,
}

/// Token bucket that drops some datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Policer {
    /// Direction of the datagrams.
    pub direction: Direction,
    /// Datagrams that it counts.
    pub which: Which,
    /// Rate of their contents that passes.
    pub rate: BitsPerSec,
    /// Size of the bucket.
    pub burst: Bytes,
    /// Age of a flow from which on it is policed.
    pub after: Duration,
}

/// Web page at the server: objects that a browser loads over several connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Number of objects.
    pub objects: u32,
    /// Size of each.
    pub size: Bytes,
    /// Connections at a time.
    pub connections: u32,
}

impl Default for Network {
    fn default() -> Network {
        let router = |last, millis, beyond| Router {
            address: Ipv4Addr::new(192, 168, 1, last).into(),
            delay: Duration::from_micros(millis),
            beyond,
            at_most_every: Duration::ZERO,
            silent: false,
            quotes: 28,
        };
        Network {
            nat: Nat::none(),
            second: true,
            ports: BTreeMap::new(),
            v4: Version::default(),
            v6: None,
            resolvers: vec![Resolver::default()],
            // One on either side of the link.
            routers: vec![router(1, 200, false), router(254, 400, true)],
            treatments: Vec::new(),
            policer: None,
            loss: 0.0,
            page: Page {
                objects: 12,
                size: Bytes::new(40_000),
                connections: 6,
            },
        }
    }
}

/// Addresses of both ends.
pub(super) const NEAR: Ipv4Addr = Ipv4Addr::new(192, 168, 1, 2);
pub(super) const NEAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 1, 0, 0, 0, 0, 2);
pub(super) const FAR: [Ipv4Addr; 2] =
    [Ipv4Addr::new(203, 0, 113, 1), Ipv4Addr::new(203, 0, 113, 2)];
pub(super) const FAR_V6: Ipv6Addr = Ipv6Addr::new(0x2001, 0xdb8, 2, 0, 0, 0, 0, 1);

impl Network {
    /// Treatment of packets to that address; null if there is no route.
    pub(super) fn version(&self, to: IpAddr) -> Option<&Version> {
        match to {
            IpAddr::V4(_) => Some(&self.v4),
            IpAddr::V6(_) => self.v6.as_ref(),
        }
    }

    /// Follows a datagram with this hop limit from router to router, which may change it.
    pub(super) fn reached(
        &self,
        direction: Direction,
        packet: &mut Datagram,
        hops: Option<u8>,
    ) -> Reached {
        let count = self.routers.len();
        for hop in 1..=count {
            let router = match direction {
                Direction::Up => hop,
                Direction::Down => count + 1 - hop,
            };
            for leaving in [false, true] {
                if leaving && hops == Some(hop as u8) {
                    return Reached::Router(router - 1);
                }
                let its = self.treatments.iter().filter(|t| {
                    t.router == router && t.direction == direction && t.leaving == leaving
                });
                for treatment in its {
                    match treatment.rewrite {
                        _ if !treatment.which.concerns(packet) => {}
                        Some(bits) => treatment.which.rewrite(packet, bits),
                        None => return Reached::Nowhere,
                    }
                }
            }
        }
        Reached::End
    }

    pub(super) fn resolver(&self, to: SocketAddr) -> Option<&Resolver> {
        let its = |r: &&Resolver| r.address == to.ip() && to.port() == 53;
        self.resolvers.iter().find(its)
    }
}
