//! Values in control messages, with their bounds: sessions, flows, samples, stamps, and the fault of a message.

use base::program::Fragments;
use base::record::Direction;
use base::{BitsPerSec, Duration};

/// Version of these messages. A server answers no other.
pub const VERSION: u8 = 4;
/// Longest duration that either end may name; a longer one is an attack or a mistake.
pub const LONGEST: Duration = Duration::from_secs(7 * 86_400);
/// Limits of received values, checked when they are read, so that arithmetic cannot overflow.
pub(super) const LONGEST_SAMPLE: Duration = Duration::from_secs(60);
pub(super) const FASTEST: BitsPerSec = BitsPerSec::new(1_000_000_000_000);
/// Last valid time, UNIX ns: in the year 2096.
pub const LAST_NS: i64 = 4_000_000_000_000_000_000;
/// Largest amount: a floating-point number holds it exactly.
pub const LARGEST: u64 = 1 << 53;

/// Length of the longest program as text, with the maximum number of steps and shots.
pub(super) const MAX_PROGRAM: usize = 12 << 10;
pub(super) const MAX_TEXT: usize = 1024;
/// Longest body of a frame.
pub const MOST_FRAME: usize = 128;

/// Fault of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    #[error(
        "the far end does not speak Tailback's control protocol: is it another service on that port?"
    )]
    NotTailback,
    #[error(
        "the far end speaks version {theirs} of the control protocol, this build version {VERSION}: use the same release at both ends"
    )]
    Version { theirs: u8 },
    #[error("wrong key: the server has no such user and key")]
    WrongKey,
    #[error("the server serves only users with a key, and the request has none")]
    KeyNeeded,
    #[error(
        "the server has no keys, and one was given: leave it out, or start `tailback serve` with --keys"
    )]
    NoKeyThere,
    #[error(
        "the answer does not carry the server's signature: somebody on the path answers in its place, or changes what it says"
    )]
    Unsigned,
    #[error("a message of {bytes} bytes, where at most {limit} are allowed")]
    TooLong { bytes: usize, limit: usize },
    #[error("a malformed message: {what}")]
    Malformed { what: &'static str },
}

/// Identifier of a load run at the server. The client draws it at random and tells nobody else, so that only the client
/// that started a session can read its report.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SessionId(pub [u8; 16]);

/// Parameters common to flows of every kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FlowSpec {
    /// Session that the flow belongs to.
    pub session: SessionId,
    /// Client's number for the flow; the report uses it.
    pub flow: u32,
    /// Maximum duration of the flow.
    pub duration: Duration,
    /// Interval between the server's samples.
    pub sample: Duration,
}

/// End of a flow as the server saw it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ended {
    Running,
    TimeUp,
    ByClient,
    Budget,
    Failed,
    /// Complete: all data requested was sent and acknowledged.
    Whole,
}

pub(super) const ENDS: [Ended; 6] = [
    Ended::Running,
    Ended::TimeUp,
    Ended::ByClient,
    Ended::Budget,
    Ended::Failed,
    Ended::Whole,
];

/// Sender's TCP_INFO at one moment; null for fields that the kernel did not know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderState {
    /// Congestion window.
    pub cwnd_bytes: u64,
    /// Slow-start threshold; null before the first congestion.
    pub ssthresh_bytes: Option<u64>,
    /// Smoothed RTT.
    pub srtt_ns: Option<u64>,
    /// RTT variation (RFC 6298).
    pub rttvar_ns: Option<u64>,
    /// Minimum RTT in the kernel's window.
    pub min_rtt_ns: Option<u64>,
    /// Segments retransmitted so far.
    pub retransmits: u64,
    /// Payload that has arrived, counted when first acknowledged, selectively or not.
    pub delivered_bytes: Option<u64>,
    /// Latest delivery rate.
    pub delivery_rate_bps: Option<u64>,
    /// Maximum segment size.
    pub mss_bytes: u64,
}

/// Datagram counters of a receiver. For a sender `expected` is the number it sent, and the rest is zero.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DatagramCount {
    /// Datagrams received.
    pub received: u64,
    /// Highest sequence number seen, plus one.
    pub expected: u64,
    /// Datagrams that arrived after one with a higher number.
    pub reordered: u64,
}

/// State of a flow's endpoint, by its role.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Detail {
    /// A receiver of bytes has no further state.
    Receiver,
    Sender(SenderState),
    Datagrams(DatagramCount),
}

/// Sample of a flow at the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time since the flow's start.
    pub at: Duration,
    /// Payload bytes so far: acknowledged if the server sends; received if it receives.
    pub bytes: u64,
    /// State of the endpoint.
    pub detail: Detail,
}

/// Times for which something other than the network limited a sender (tcpi_busy_time and related fields).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Time with data to send.
    pub busy: Duration,
    /// Time limited by the receive window.
    pub receive_window: Duration,
    /// Time limited by the send buffer.
    pub send_buffer: Duration,
    /// Time limited by the rate ceiling that the server's operator set.
    pub server_ceiling: Duration,
}

/// Report of one flow at its end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlowReport {
    /// Client's number for the flow.
    pub flow: u32,
    /// Direction of the data.
    pub direction: Direction,
    /// Server's clock at the start of the flow: the `server_ns` it accepted with.
    pub start_ns: i64,
    /// Reason of the end.
    pub ended: Ended,
    /// Congestion controller of the sending socket.
    pub congestion: String,
    /// Limits on the sender.
    pub limits: Limits,
    /// Samples, in order of time.
    pub samples: Vec<Sample>,
}

/// Send or arrival time of a datagram of a train.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Number in the program.
    pub seq: u64,
    /// Time on the server's clock, UNIX ns.
    pub at_ns: i64,
    /// ECN bits with which it left or arrived.
    pub ecn: u8,
}

/// Datagrams of a train that the server sent or received.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    /// Stamps in the order in which the datagrams passed.
    pub stamps: Vec<Stamp>,
    /// Datagrams that the server's own host refused, when it sent.
    pub refused: u64,
    /// Datagrams that overflowed the server's own receive buffer, when it received.
    pub overflowed: u64,
    /// Fragment counters; null if the server may not watch its interface.
    pub fragments: Option<Fragments>,
}
