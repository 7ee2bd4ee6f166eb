//! Sources: what hosts send, and why. Datagrams ([`Source`]) and applications over TCP ([`Application`]), all of
//! them in one table ([`registry::SOURCES`]).
//!
//! An application is told what happens and asks for what it wants; it knows nothing of packets. Its
//! connections each carry data one way. Where a client asks a server, there are two: the first from the
//! client, with a handshake, carries requests, the second answers without one. Together they behave as one
//! connection that the client opens, but for ACKs that real TCP would send along with data.
//!
//! **Source**: S. Floyd, V. Paxson, "Difficulties in Simulating the Internet", IEEE/ACM Transactions on
//! Networking 9(4), 2001, section 4: diurnal patterns, Poisson sessions, log-normal sizes, heavy tails,
//! self-similarity, telnet's packets.

mod bulk;
mod datagrams;
mod law;
pub mod registry;
mod sessions;
mod telnet;
mod video;
mod web;

pub use bulk::{Bulk, Transfers};
pub use datagrams::{Pattern, Source};
pub use law::{Law, Tailed, TwoPareto};
pub use sessions::Sessions;
pub use telnet::Telnet;
pub use video::Video;
pub use web::Web;

use crate::summary::Summary;
use base::{Duration, Time};

/// Number of a connection of an application, from 0.
pub type Channel = usize;

/// One connection of an application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Its data goes from the far host to the near one.
    pub back: bool,
    pub handshake: bool,
}

/// What a flow's own direction is made of.
pub const THERE: Opening = Opening {
    back: false,
    handshake: true,
};
/// What a client, who is at the far end, asks on.
pub const REQUEST: Opening = Opening {
    back: true,
    handshake: true,
};
/// What a server answers on.
pub const ANSWER: Opening = Opening {
    back: false,
    handshake: false,
};

/// What an application asks of the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ask {
    /// A new connection in the place of an old one, or the next new one.
    Open(Channel, Opening),
    /// So many bytes more, as one message.
    Write(Channel, u64),
    /// Nothing more will be written on a connection: its last segment says so.
    Close(Channel),
    /// What has not been sent yet shall not be sent; what is under way is repaired.
    Stop(Channel),
}

/// What an application is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Told {
    /// The time has come that it asked for.
    Due,
    /// The oldest message on its way has arrived whole.
    Arrived(Channel),
    /// All that was written has been acknowledged.
    Acknowledged(Channel),
}

/// Something that a user waited for is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// `transfer`, `page`, `echo`, `segment`, `connection`; `stall` for a video that stood still.
    pub what: &'static str,
    pub began: Time,
    pub bytes: u64,
}

/// An application at work. Deterministic: chance is handed in as streams when it is made.
pub trait Application: Send {
    /// The connections that it begins with.
    fn openings(&self) -> Vec<Opening>;
    fn told(&mut self, now: Time, what: Told, asks: &mut Vec<Ask>) -> Option<Done>;
    /// Whether the one connection that it begins with is all that it ever has, and it does not care when a
    /// message arrives.
    fn is_alone(&self) -> bool {
        false
    }
    /// When it wants to be told that time has passed.
    fn next_wakeup(&self) -> Option<Time>;
    /// It will write no more.
    fn is_over(&self) -> bool;
    /// How a video has gone until now.
    fn video(&self, _now: Time) -> Option<Watched> {
        None
    }
}

/// How a video went.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Watched {
    /// From asking for the first segment to the first picture, where that has come.
    pub start: Option<Duration>,
    pub played: Duration,
    pub stalled: Duration,
    pub stalls: u64,
    /// Changes of the bitrate from one segment to the next.
    pub switches: u64,
    pub segments: u64,
    /// Bits of all segments that have arrived, and how long they play.
    pub bits: u64,
    pub fetched: Duration,
}

impl Watched {
    /// What has come to pass since `before`.
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

/// Upper bounds of the sizes by which times are told apart; above the last there is one class more.
pub const SIZES: [u64; 3] = [10_000, 100_000, 1_000_000];

/// What users of an application have waited for.
#[derive(Clone, Debug, Default)]
pub struct Seen {
    /// From the wish to its fulfilment, ns.
    pub took: Summary,
    pub by_size: [Summary; SIZES.len() + 1],
    pub bytes: u64,
}

impl Seen {
    pub fn add(&mut self, now: Time, done: &Done) {
        let took = now.saturating_since(done.began);
        self.took.add_span(took);
        let class = SIZES.iter().position(|s| done.bytes <= *s);
        self.by_size[class.unwrap_or(SIZES.len())].add_span(took);
        self.bytes += done.bytes;
    }
    pub fn merge(&mut self, other: &Seen) {
        self.took.merge(&other.took);
        for (mine, theirs) in self.by_size.iter_mut().zip(&other.by_size) {
            mine.merge(theirs);
        }
        self.bytes += other.bytes;
    }
}

/// When a source begins and ends; from `stop` on it begins nothing new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    pub start: Time,
    pub stop: Time,
}

impl Span {
    pub fn from(start: Time) -> Span {
        Span {
            start,
            stop: Time::MAX,
        }
    }
}
