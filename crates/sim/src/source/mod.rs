//! Traffic sources: datagrams ([`Source`]) and applications over TCP ([`Application`]), all of them in one table
//! ([`registry::SOURCES`]).
//!
//! An application receives events and returns requests; it knows nothing of packets. Each of its connections carries
//! data in one direction. A client and a server need two: the first carries requests and has a handshake; the second
//! carries answers and has none. Together they behave as one connection that the client opens, except that real TCP
//! would send some ACKs along with data.
//!
//! **Source**: S. Floyd, V. Paxson, "Difficulties in Simulating the Internet", IEEE/ACM Transactions on
//! Networking 9(4), 2001, section 4: diurnal patterns, Poisson sessions, log-normal sizes, heavy tails,
//! self-similarity, telnet's packets.

mod backup;
mod bulk;
mod call;
mod datagrams;
mod law;
pub mod registry;
mod sessions;
mod telnet;
mod video;
mod web;

pub use backup::{Backup, Batches};
pub use bulk::{Bulk, Transfers};
pub use call::{Call, Shape};
pub use datagrams::{HEADERS, Pattern, SMALLEST, Source};
pub use law::{Law, Tailed, TwoPareto};
pub use sessions::Sessions;
pub use telnet::Telnet;
pub use video::Video;
pub use web::Web;

use crate::summary::Summary;
use base::{Bytes, Duration, Ecn, Time};

/// Keys that every flow has beside its source's own, for messages and documentation; a test compares them with a flow's.
pub const COMMON: [&str; 14] = [
    "name",
    "count",
    "from",
    "to",
    "backwards",
    "start",
    "stagger",
    "spread",
    "stop",
    "dscp",
    "ecn",
    "tcp",
    "routes",
    "follow",
];

/// Number of a connection of an application, from 0.
pub type Channel = usize;

/// Parameters of a connection of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// True if its data goes from the far host to the near one.
    pub back: bool,
    /// True if the connection starts with a handshake.
    pub handshake: bool,
}

/// Connection in the flow's own direction.
pub const THERE: Opening = Opening {
    back: false,
    handshake: true,
};
/// Connection for the requests of a client at the far end.
pub const REQUEST: Opening = Opening {
    back: true,
    handshake: true,
};
/// Connection for the answers of a server.
pub const ANSWER: Opening = Opening {
    back: false,
    handshake: false,
};

/// Request of an application to the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Opens a new connection, in the place of an old one or as the next channel.
    Open(Channel, Opening),
    /// Writes this many more bytes, as one message.
    Write(Channel, u64),
    /// Closes a connection: its last segment carries a FIN.
    Close(Channel),
    /// Withdraws unsent data; data in flight is repaired.
    Stop(Channel),
}

/// Event reported to an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The wake-up time that it asked for has come.
    Due,
    /// The oldest message in flight has arrived completely.
    Arrived(Channel),
    /// Acknowledgement of everything written.
    Acknowledged(Channel),
}

/// A completed request of a user.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Kind: `transfer`, `page`, `echo`, `segment`, `connection`; `stall` for a video that stopped.
    pub what: &'static str,
    /// Begin of the exchange.
    pub began: Time,
    /// Bytes of the exchange.
    pub bytes: u64,
}

/// A running application. Deterministic: its random streams are handed in when it is created.
pub trait Application: Send {
    /// Connections that it starts with.
    fn openings(&self) -> Vec<Opening>;
    /// Takes an event, and adds its requests to `asks`; returns the result once it is done.
    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done>;
    /// True if it never has more than its first connection and does not need to know when a message arrives.
    fn is_alone(&self) -> bool {
        false
    }
    /// Next time at which it wants to be woken.
    fn next_wakeup(&self) -> Option<Time>;
    /// True if it will write no more.
    fn is_over(&self) -> bool;
    /// Figures of a video so far.
    fn video(&self, _now: Time) -> Option<Watched> {
        None
    }
}

/// Figures of a video.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// Start-up delay from the first request to the first picture; absent before that.
    pub start: Option<Duration>,
    /// Played time.
    pub played: Duration,
    /// Time without data to play.
    pub stalled: Duration,
    /// Number of stalls.
    pub stalls: u64,
    /// Changes of the bitrate from one segment to the next.
    pub switches: u64,
    /// Number of segments.
    pub segments: u64,
    /// Bits of all segments that have arrived, and their playing time.
    pub bits: u64,
    /// Time spent fetching.
    pub fetched: Duration,
}

impl Watched {
    /// Difference to the earlier figures `before`.
    pub fn since(&self, before: &Watched) -> Watched {
        Watched {
            start: self.start,
            played: self.played - before.played,
            stalled: self.stalled - before.stalled,
            stalls: self.stalls - before.stalls,
            switches: self.switches - before.switches,
            segments: self.segments - before.segments,
            bits: self.bits - before.bits,
            fetched: self.fetched - before.fetched,
        }
    }
}

/// Sender of datagrams.
#[derive(Debug)]
pub enum Sending {
    /// Datagrams of a law, whatever the network does.
    Law(Box<Source>),
    /// Call whose rate follows the network.
    Call(Box<Call>),
}

impl From<Source> for Sending {
    fn from(source: Source) -> Sending {
        Sending::Law(Box::new(source))
    }
}

impl Sending {
    /// Size of its packets, if all have the same.
    pub fn constant_size(&self) -> Option<Bytes> {
        match self {
            Sending::Law(source) => source.constant_size(),
            Sending::Call(_) => None,
        }
    }
    /// Size that a path has to carry, if it is known.
    pub fn largest(&self) -> Option<Bytes> {
        match self {
            Sending::Law(source) => source.constant_size(),
            Sending::Call(call) => Some(call.largest()),
        }
    }
    /// True if the receiver answers.
    pub fn is_answered(&self) -> bool {
        match self {
            Sending::Law(source) => source.echoes(),
            Sending::Call(_) => true,
        }
    }
    /// ECN codepoint of its packets.
    pub fn ecn(&self) -> Ecn {
        match self {
            Sending::Law(source) => source.ecn(),
            Sending::Call(call) => call.ecn(),
        }
    }
    /// Differentiated services code point of its packets.
    pub fn dscp(&self) -> u8 {
        match self {
            Sending::Law(source) => source.dscp(),
            Sending::Call(call) => call.dscp(),
        }
    }
    /// Time of the next timer; none if no timer runs.
    pub fn next_wakeup(&self) -> Option<Time> {
        match self {
            Sending::Law(source) => source.next_wakeup(),
            Sending::Call(call) => call.next_wakeup(),
        }
    }
    /// Size of the packet that is due now.
    pub fn poll(&mut self, now: Time) -> Option<Bytes> {
        match self {
            Sending::Law(source) => source.poll(now),
            Sending::Call(call) => call.poll(now),
        }
    }
    /// Takes packet `number` of that size at the receiver; returns the size of the answer, if one leaves.
    pub fn came(&mut self, now: Time, number: u64, size: Bytes) -> Option<Bytes> {
        match self {
            Sending::Law(source) => source.echoes().then_some(size),
            Sending::Call(call) => call.came(now, number),
        }
    }
    /// Takes the answer that left with packet `number`, at the sender.
    pub fn answered(&mut self, now: Time, number: u64) {
        match self {
            Sending::Law(_) => {}
            Sending::Call(call) => call.reported(now, number),
        }
    }
}

/// Upper bounds of the size classes, bytes; larger sizes form one more class.
pub const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// Completed requests of an application's users.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// Time from request to completion, ns.
    pub took: Summary,
    /// Times by size.
    pub by_size: [Summary; SIZES.len() + 1],
    /// Bytes of all exchanges.
    pub bytes: u64,
}

impl Seen {
    /// Adds an exchange.
    pub fn add(&mut self, now: Time, done: &Done) {
        let took = now.saturating_since(done.began);
        self.took.add_span(took);
        let class = SIZES.iter().position(|s| done.bytes <= *s);
        self.by_size[class.unwrap_or(SIZES.len())].add_span(took);
        self.bytes += done.bytes;
    }
    /// Adds the exchanges of another flow.
    pub fn merge(&mut self, other: &Seen) {
        self.took.merge(&other.took);
        for (mine, theirs) in self.by_size.iter_mut().zip(&other.by_size) {
            mine.merge(theirs);
        }
        self.bytes += other.bytes;
    }
}

/// Start and end of a source; from `stop` on it starts nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// Begin of the source.
    pub start: Time,
    /// End of the source.
    pub stop: Time,
}

impl Span {
    /// Span from a start to the end of the run.
    pub fn from(start: Time) -> Span {
        Span {
            start,
            stop: Time::MAX,
        }
    }
}
