//! Packets of one direction, as the plots use them.

/// Kind of plot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Sequence: bytes over time.
    Sequence,
    Rtt,
    InFlight,
    Throughput,
}

impl Plot {
    pub const ALL: [Plot; 4] = [Plot::Sequence, Plot::Throughput, Plot::InFlight, Plot::Rtt];

    /// Returns the name used in file names.
    pub fn word(self) -> &'static str {
        match self {
            Plot::Sequence => "sequence",
            Plot::Rtt => "rtt",
            Plot::InFlight => "in-flight",
            Plot::Throughput => "throughput",
        }
    }
}

/// Segment. Positions are bytes from the first byte of the direction.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub t_s: f64,
    pub from: u64,
    pub to: u64,
    /// New payload: bytes not seen before.
    pub fresh: u64,
    pub in_flight: u64,
}

/// ACK: data is acknowledged up to `to`, and the receive window ends at `room`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    pub t_s: f64,
    pub to: u64,
    pub room: u64,
}

/// Retransmitted segment.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Again {
    pub t_s: f64,
    pub from: u64,
    pub to: u64,
    pub cause: base::record::Cause,
    pub needless: bool,
}

/// Packet that starts or ends a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    Syn,
    Fin,
    Reset,
}

impl Mark {
    pub(super) fn letter(self) -> &'static str {
        match self {
            Mark::Syn => "S",
            Mark::Fin => "F",
            Mark::Reset => "R",
        }
    }
}

/// Data for all plots of one direction, in the order of time. Times are in seconds since the start of the connection.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// Sender and receiver.
    pub name: String,
    /// Time range drawn: start and end.
    pub span_s: (f64, f64),
    pub sent: Vec<Sent>,
    pub acked: Vec<Acked>,
    pub again: Vec<Again>,
    /// SACK blocks reported by the receiver: time, start, end.
    pub sacked: Vec<(f64, u64, u64)>,
    pub marks: Vec<(f64, u64, Mark)>,
    /// Time of the ACK, and the RTT in ms.
    pub rtt: Vec<(f64, f64)>,
    /// Smallest RTT between the two hosts, ms.
    pub base_ms: Option<f64>,
}

impl Packets {
    /// Returns the number of segments and ACKs.
    pub fn len(&self) -> usize {
        self.sent.len() + self.acked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Returns a cause in words, and its colour's class.
pub(crate) fn told(cause: base::record::Cause) -> (&'static str, &'static str) {
    use base::record::Cause;
    match cause {
        Cause::Timeout => ("time-out", "rto"),
        Cause::Fast => ("three duplicate ACKs", "fast"),
        Cause::Sack => ("SACK", "sack"),
        Cause::Recovery => ("recovery", "recovery"),
        Cause::TailProbe => ("tail probe", "tail"),
        Cause::Unknown => ("no reason that shows", "puzzle"),
    }
}
