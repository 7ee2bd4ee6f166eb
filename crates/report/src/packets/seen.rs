//! Packets of one direction as the plots take them.

/// What can be drawn of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plot {
    /// Bytes over time.
    Sequence,
    Rtt,
    InFlight,
    Throughput,
}

impl Plot {
    pub const ALL: [Plot; 4] = [Plot::Sequence, Plot::Throughput, Plot::InFlight, Plot::Rtt];

    /// As a file is named.
    pub fn word(self) -> &'static str {
        match self {
            Plot::Sequence => "sequence",
            Plot::Rtt => "rtt",
            Plot::InFlight => "in-flight",
            Plot::Throughput => "throughput",
        }
    }
}

/// A segment. Positions are bytes of the direction from its first one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    pub t_s: f64,
    pub from: u64,
    pub to: u64,
    /// Payload that was not seen before.
    pub fresh: u64,
    pub in_flight: u64,
}

/// Everything up to a position is acknowledged, and there is room up to another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Acked {
    pub t_s: f64,
    pub to: u64,
    pub room: u64,
}

/// A segment that was sent again.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Again {
    pub t_s: f64,
    pub from: u64,
    pub to: u64,
    pub cause: base::record::Cause,
    pub needless: bool,
}

/// A packet that begins or ends something.
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

/// Everything that is drawn of a direction, in the order of time. Times in seconds since the connection began.
#[derive(Clone, Debug, Default)]
pub struct Packets {
    /// From whom to whom.
    pub name: String,
    /// What is drawn of it: begin and end.
    pub span_s: (f64, f64),
    pub sent: Vec<Sent>,
    pub acked: Vec<Acked>,
    pub again: Vec<Again>,
    /// Blocks that the receiver reported: time, from, to.
    pub sacked: Vec<(f64, u64, u64)>,
    pub marks: Vec<(f64, u64, Mark)>,
    /// Time of the ACK, and the round trip in ms.
    pub rtt: Vec<(f64, f64)>,
    /// The least round trip between the two hosts, ms.
    pub base_ms: Option<f64>,
}

impl Packets {
    /// Segments, ACKs and the rest.
    pub fn len(&self) -> usize {
        self.sent.len() + self.acked.len()
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// A cause in words, and its colour's class.
pub(crate) fn told(cause: base::record::Cause) -> (&'static str, &'static str) {
    use base::record::Cause;
    match cause {
        Cause::Timeout => ("time-out", "rto"),
        Cause::Fast => ("three duplicate ACKs", "fast"),
        Cause::Sack => ("SACK", "sack"),
        Cause::Recovery => ("recovery", "recovery"),
        Cause::TailProbe => ("tail probe", "tail"),
        Cause::Unknown => ("no reason that shows", "unknown"),
    }
}
