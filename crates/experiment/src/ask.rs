//! Questions to a host about the far end's ports, sockets of our own and this machine, with their answers.
//!
//! A host sends and hears what it is told to. Waiting for the right datagram, asking again and giving up are decisions of
//! the steps.

use base::noted::middlebox::Syn;
use base::noted::page::{HttpOver, PageEnd};
use base::record::Direction;
use base::{BitsPerSec, Bytes, Duration, Time};
use measure::control::Refusal;
use measure::control::listen::{Arrival, Knocked, TOKEN_LEN, Transport, Wanted};
use measure::nl80211::{Station, Survey};
use measure::quote::Quote;
use measure::segment::Form;
use std::net::{IpAddr, SocketAddr};

/// A question to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ask {
    /// Has the far end open these ports for this long at most, in place of those that are open: [`Answer::Ports`].
    Listen(Vec<Wanted>, Duration),
    /// Has the far end say what has come to its ports: [`Answer::Arrivals`].
    Arrivals,
    /// Has the far end send a datagram of this length from one of its ports to where a knock came from:
    /// [`Answer::Ordered`].
    Order {
        port: usize,
        to: Knocked,
        len: usize,
        marking: Marking,
    },
    /// Has the far end send a TCP segment from one of its ports to the source of a SYN: [`Answer::Sent`].
    OrderSegment {
        port: usize,
        to: SocketAddr,
        form: Form,
        /// Number in its sequence number.
        number: u32,
        marking: Marking,
    },
    /// Asks for quotes of datagrams of this direction since the last such question: [`Answer::Quotes`]. The first one
    /// begins to listen.
    Quotes(Direction),
    /// Knocks at many ports at once: [`Answer::Knocked`], in their order.
    Knock(Vec<Knock>),
    /// Opens a UDP socket, in place of an older one of the same number: [`Answer::Opened`].
    Open(Opening),
    /// Makes a TCP connection and closes it: [`Answer::Connected`].
    Connect { to: SocketAddr, patience: Duration },
    /// Asks for the path MTU that this host assumes at a socket with one other end: [`Answer::PathMtu`].
    PathMtu(u32),
    /// Asks for the TCP options that this host's settings put into every SYN: [`Answer::Options`].
    Options,
    /// Asks for this many random bytes: [`Answer::Random`].
    Random(usize),
    /// Asks for this host's configuration of resolvers: [`Answer::Resolvers`].
    Resolvers,
    /// Asks for the names of the congestion controls that the sender of a direction has: [`Answer::Controls`].
    Controls(Direction),
    /// Sets up the sender of a direction, whose network namespace is ours: [`Answer::Done`].
    Sender(Direction, SenderSettings),
    /// Transfers a number of bytes and writes rows about it: [`Answer::Transferred`].
    Transfer(Transfer),
    /// Asks for the state of this host's Wi-Fi: [`Answer::Wifi`].
    Wifi,
    /// Fills a direction with one QUIC connection: [`Answer::Quic`].
    Quic(QuicLoad),
    /// Puts a question to the tracer of hops.
    Trace(Trace),
    /// Asks for the gateway towards the far end: [`Answer::Gateway`].
    Gateway,
    /// Resolves a name with this host's resolver: [`Answer::Resolved`].
    Resolve(String),
    /// Puts a question to a browser.
    Browse(Browse),
    /// Connects to the far end once, and gives up on each later exchange with it after this time: [`Answer::Done`].
    Reach(Duration),
    /// Captures packets between this host and the far end, into a file and as rows: [`Answer::Done`].
    Capture(String),
    /// Ends the capture: [`Answer::Captured`].
    StopCapture,
    /// Sends a datagram from a socket: [`Answer::Sent`]. What this host refuses to send is lost.
    Send {
        socket: u32,
        to: SocketAddr,
        bytes: Vec<u8>,
        marking: Marking,
    },
    /// Waits for the next datagram at a socket: [`Answer::Heard`]. Without time to wait, it takes one that is there.
    Hear {
        socket: u32,
        within: Duration,
        /// True if the far end was told to send it, so that it has been counted.
        ordered: bool,
    },
}

/// Fields of a datagram's IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Marking {
    /// TOS or traffic-class byte: DSCP in the upper six bits, ECN in the lower two.
    pub tos: u8,
    /// Hop limit; the system's if not given.
    pub hops: Option<u8>,
}

/// Datagram at a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Heard {
    /// Source address.
    pub from: SocketAddr,
    /// Contents.
    pub bytes: Vec<u8>,
    /// TOS or traffic-class byte, if the system tells it.
    pub tos: Option<u8>,
    /// Time from its arrival at this host until it was taken, if the system stamps arrivals; otherwise zero.
    pub waited: Duration,
}

/// A UDP socket, or one for hand-made TCP segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opening {
    /// Number by which later questions name it.
    pub number: u32,
    /// The only other end; without one, the socket is at the address that leads to the far end and hears everybody.
    pub to: Option<SocketAddr>,
    /// True to forbid fragments on the whole path, false to allow them; the system's choice if not given.
    pub whole: Option<bool>,
    /// Extension header of IPv6 in all of its packets.
    pub header: Option<Extension>,
    /// True for hand-made TCP segments in place of datagrams: the kernel answers nothing at its port.
    pub segments: bool,
}

impl Opening {
    /// Hears everybody.
    pub fn free(number: u32) -> Opening {
        Opening {
            number,
            to: None,
            whole: None,
            header: None,
            segments: false,
        }
    }

    /// Has one other end.
    pub fn towards(number: u32, to: SocketAddr) -> Opening {
        Opening {
            to: Some(to),
            ..Opening::free(number)
        }
    }
}

/// Configuration of a host's resolvers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Configured {
    /// Text that every program reads (resolv.conf(5)).
    pub resolv_conf: String,
    /// The same of systemd-resolved for itself; empty if it does not run.
    pub behind: String,
}

/// Initial window in packets, and segmentation offload; the system's if not given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SenderSettings {
    /// Initial window, packets.
    pub window: Option<u32>,
    /// True for segmentation offload.
    pub offload: Option<bool>,
}

/// Transfer of a number of bytes over a connection of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Number of its rows in the table `flow`.
    pub number: i64,
    /// Direction of the data.
    pub direction: Direction,
    /// Congestion control of the sender.
    pub congestion: String,
    /// Payload to transfer.
    pub bytes: Bytes,
    /// Upper limit on the rate of an upload, whose segments then leave one by one.
    pub pace: Option<BitsPerSec>,
    /// Limit that is asked of the far end.
    pub longest: Duration,
    /// Interval of the samples.
    pub sample: Duration,
    /// Longest pause in which nothing moves.
    pub patience: Duration,
    /// Upper limit on this host's traffic until it ends, trains not included.
    pub most: Bytes,
}

/// Outcome of a transfer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Transferred {
    /// Congestion control that the sender used.
    pub congestion: String,
    /// Time of its beginning, UNIX ns.
    pub began_ns: i64,
    /// Time until the last byte was acknowledged or received, or until the transfer broke.
    pub took: Duration,
    /// Reason why some of it was not transferred.
    pub failed: Option<Broken>,
    /// Sender's window at the beginning in packets, its retransmissions and its MSS in bytes, if known.
    pub window: Option<u64>,
    /// Packets that the sender sent again.
    pub retransmits: Option<u64>,
    /// Sender's MSS, bytes.
    pub mss: Option<u64>,
    /// Longest time in which nothing moved, and when it began.
    pub pause: Duration,
    /// Beginning of that time, UNIX ns.
    pub pause_began_ns: i64,
}

/// State of a Wi-Fi interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wifi {
    /// Name of the interface.
    pub interface: String,
    /// Access point that it is connected to.
    pub station: Station,
    /// Frequency, MHz.
    pub mhz: Option<u32>,
    /// Use of its channel, if the driver tells it.
    pub survey: Option<Survey>,
    /// True if power save is on, if the driver tells it.
    pub power_save: Option<bool>,
}

/// QUIC connection that fills a direction for a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QuicLoad {
    /// Number of the far end's port, in the order of the request.
    pub port: usize,
    /// Address of the port.
    pub at: SocketAddr,
    /// Direction of the data.
    pub direction: Direction,
    /// Time from the handshake on.
    pub lasts: Duration,
    /// Width of the bins of its bytes.
    pub bin: Duration,
    /// Longest wait for the handshake.
    pub patience: Duration,
    /// Upper limit on this host's traffic until it ends.
    pub most: Bytes,
}

/// Outcome of a QUIC connection.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QuicRan {
    /// Time of the handshake; null if there was none.
    pub handshake: Option<Duration>,
    /// Bytes of payload delivered in each bin.
    pub bins: Vec<u64>,
    /// Packets that the sender sent; null if it does not tell.
    pub sent: Option<u64>,
    /// Packets that it counts as lost.
    pub lost: Option<u64>,
    /// Mean of its smoothed round trip above its smallest.
    pub wait: Option<Duration>,
    /// Reason why it ended early, or was not made.
    pub trouble: Option<Trouble>,
}

/// End of a transfer before all of it was transferred.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Broken {
    /// The far end allowed it no more than this.
    TimeUp(Duration),
    Stalled,
    /// The limit on traffic was reached.
    Enough,
    Closed,
    Stopped,
    Failed(String),
}

/// Refusal of a transfer by the far end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// Reason, for programs.
    pub why: Refusal,
    /// Reason in words.
    pub text: String,
}

/// Question to a browser.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Browse {
    /// Finds the browser at this path, or any, which shall accept certificates with these keys: [`Answer::Done`].
    Find {
        path: Option<String>,
        trust: Vec<String>,
    },
    /// Starts one for each of these transports and loads a page that needs no network: [`Answer::Browser`]. The hosts and
    /// ports are those that QUIC asks at once.
    Start {
        over: Vec<HttpOver>,
        origins: Vec<String>,
    },
    /// Loads a page with nothing cached: [`Answer::Visited`].
    Visit(Visiting),
    /// Closes all: [`Answer::Browsed`], in the order of the visits.
    Stop,
}

/// Page load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Visiting {
    /// Address of the page.
    pub url: String,
    /// Transport, which is one of those that were started.
    pub over: HttpOver,
    /// Limit on its time.
    pub patience: Duration,
    /// Upper limit on this host's traffic until it ends.
    pub most: Bytes,
    /// Time in which nothing of a load moves, after which that counts as ended; null if there is no load.
    pub stuck: Option<Duration>,
}

/// Outcome of a page load.
#[derive(Clone, Debug, PartialEq)]
pub struct Visit {
    /// Outcome as the browser tells it.
    pub end: PageEnd,
    /// Start of the navigation, UNIX ns.
    pub began_ns: i64,
    /// Time at which the outcome was known, UNIX ns.
    pub ended_ns: i64,
}

/// Reason why a page load was ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// The load beside it has ended.
    Load,
    /// The limit on traffic was reached.
    Traffic,
}

/// Connections and names of a page load, from the browser's log.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Logged {
    /// Connections opened to the addresses of the page.
    pub opened: u32,
    /// Names looked up.
    pub lookups: u32,
    /// Longest lookup, ms; null if there was none.
    pub longest_ms: Option<f64>,
}

/// Question to the tracer of hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Trace {
    /// Makes a tracer: [`Answer::Done`].
    Open(Tracing),
    /// Sends one datagram to each of the first hops and waits for all answers, no longer than this: [`Answer::Path`]. With a
    /// size, in bytes of the IP packet, one datagram does not wait behind another.
    Round {
        hops: usize,
        bytes: Option<u32>,
        within: Duration,
    },
    /// Sends a round of datagrams and of ICMP echo at this interval from now on: [`Answer::Done`].
    On(Duration),
    /// Asks for the latest round trip: [`Answer::RoundTrip`].
    Latest,
    /// Ends the tracer and writes all that is open: [`Answer::Path`].
    End,
}

/// Parameters of a tracer of hops.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tracing {
    /// Farthest hop that will be asked.
    pub hops: usize,
    /// Other hosts that get an ICMP echo a round.
    pub landmarks: Vec<IpAddr>,
    /// Time in which the echoes of a round leave.
    pub echoes_within: Duration,
}

/// A path, as far as it has been traced.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Address of the far end.
    pub server: IpAddr,
    /// Hops up to the last one that answered.
    pub hops: Vec<Hop>,
    /// Reason why this host cannot send ICMP echo.
    pub no_echo: Option<String>,
    /// Reason why the tracer ended by itself.
    pub failed: Option<String>,
}

impl Path {
    /// True if the end of the path has answered.
    pub fn ends(&self) -> bool {
        self.hops.iter().any(|h| h.end.is_some())
    }
}

/// Place on a path.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hop {
    /// Several if routers share load, or answer from several addresses.
    pub addresses: Vec<IpAddr>,
    /// Reason why the path ends here.
    pub end: Option<End>,
}

/// End of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    Server,
    /// Refusal with this ICMP type and code.
    Refuses(u8, u8),
}

/// Extension header of IPv6 with eight bytes of padding (RFC 8200 sections 4.3 and 4.6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extension {
    HopByHop,
    Destination,
}

/// Kind of a failed sending, reception or connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// TCP reset in place of a connection, or ICMP port unreachable.
    Refused,
    /// Reset of a connection that had come about.
    Reset,
    /// ICMP error, or a routing table, that says that nothing leads there.
    NoRoute,
    /// The host sends nothing to an address that only the far end has named.
    Withheld,
    /// Nothing came in time.
    Silence,
    /// The other end closed the connection.
    Closed,
    Other,
}

/// Failure of a sending, reception or connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trouble {
    /// Kind of failure, for programs.
    pub kind: Kind,
    /// The system's words for it.
    pub text: String,
}

impl Trouble {
    /// Makes a failure of this kind.
    pub fn new(kind: Kind, text: impl Into<String>) -> Trouble {
        Trouble {
            kind,
            text: text.into(),
        }
    }
}

/// Outcome of an attempt to connect.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Connected {
    /// Time of the attempt, as recordings write it.
    pub began_ns: i64,
    /// Time until the connection, or until the failure.
    pub took: Duration,
    /// Reason why there is no connection.
    pub made: Result<(), Trouble>,
}

/// A connection to a port, or datagrams to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Knock {
    /// Transport protocol: TCP or UDP.
    pub transport: Transport,
    /// Address to knock at.
    pub at: SocketAddr,
    /// Bytes to send there.
    pub says: Vec<u8>,
    /// End of what is waited for (TCP).
    pub enough: Enough,
    /// Datagrams that are sent before it counts as lost on the way, each with its part of the patience.
    pub tries: u32,
    /// Longest wait for an answer.
    pub patience: Duration,
    /// True to capture the first packet of the connection as it leaves.
    pub watched: bool,
}

/// End of what a connection brings, unless the other end closes it before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Enough {
    Bytes(usize),
    /// Message with its length in the first two bytes (RFC 1035 section 4.2.2).
    Framed,
}

impl Enough {
    /// True if nothing more is waited for.
    pub fn is_there(self, said: &[u8]) -> bool {
        match (self, said) {
            (Enough::Bytes(n), said) => said.len() >= n,
            (Enough::Framed, [a, b, rest @ ..]) => {
                rest.len() >= usize::from(u16::from_be_bytes([*a, *b]))
            }
            (Enough::Framed, _) => false,
        }
    }
}

/// Answer to a knock at this end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Back {
    Bytes(Vec<u8>),
    /// TCP reset or ICMP port unreachable.
    Refusal,
    /// An ICMP error that says that nothing leads there.
    Unreachable,
    Nothing,
}

/// Outcome of a knock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tried {
    /// True if a connection came about (TCP).
    pub connected: bool,
    /// Answer that came back.
    pub back: Back,
    /// Failure that ended it, also one after bytes had come.
    pub trouble: Option<Trouble>,
    /// First packet of the connection, if it was captured.
    pub first: Option<Syn>,
}

/// The ports that the far end has opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ports {
    /// Token that a datagram to the ports has to carry.
    pub token: [u8; TOKEN_LEN],
    /// Source of the request, as the far end sees it; then as this end does.
    pub from: SocketAddr,
    /// Local address of the request's connection.
    pub local: SocketAddr,
    /// Addresses to send to, in the order of the request, or the reason why a port is not open.
    pub at: Vec<Result<SocketAddr, String>>,
}

/// Answer of a host.
#[derive(Clone, Debug, PartialEq)]
pub enum Answer {
    Ports(Ports),
    Arrivals(Vec<Arrival>),
    Knocked(Vec<Tried>),
    /// Contents of the datagram that the far end has sent.
    Ordered(Vec<u8>),
    /// Local address of the socket, or why there is none.
    Opened(Result<SocketAddr, Trouble>),
    Connected(Connected),
    /// Null if this host does not say.
    PathMtu(Option<u32>),
    Options(Vec<String>),
    Random(Vec<u8>),
    /// Null if the sender does not say.
    Controls(Option<Vec<String>>),
    Done,
    Quic(QuicRan),
    /// State, or why there is none.
    Wifi(Result<Wifi, String>),
    /// Outcome, or why the far end does not do it.
    Transferred(Result<Transferred, Refused>),
    /// True if there is a file, packets, and packets of the whole interface that the system's buffer had no room for.
    Captured {
        written: bool,
        packets: u64,
        missed: Option<u64>,
    },
    /// Name and version of the browser.
    Browser(String),
    /// Outcome of a page load, or why it was ended.
    Visited(Result<Visit, Halt>),
    /// Log of each page load since the browser was started; null where the log was truncated.
    Browsed(Vec<Option<Logged>>),
    /// The tracer's view of the path.
    Path(Path),
    /// Round trip to the farthest hop that answered of late, and when it ended.
    RoundTrip(Option<(Time, Duration)>),
    /// Address and interface; null if the far end is a neighbour.
    Gateway(Option<(IpAddr, String)>),
    Resolved(Result<IpAddr, Trouble>),
    /// Configuration, or why it cannot be read.
    Resolvers(Result<Configured, Trouble>),
    Sent(Result<(), Trouble>),
    /// A datagram, or why there is none.
    Heard(Result<Heard, Trouble>),
    /// Quotes, or why the sender hears no ICMP errors.
    Quotes(Result<Vec<Quote>, String>),
}
