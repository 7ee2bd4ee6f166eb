//! Host of an experiment: clock, trains, probes, loads and counters, as a trait.
//!
//! `live::sockets` implements it over real sockets, `sim` in virtual time. A host obeys: it does not decide what is
//! sent, when, or for how long.

use crate::ask::{Answer, Ask};
use base::program::{Sending, Train};
use base::record::{Direction, Recording, Row, Text};
use base::{BitsPerSec, Bytes, Duration, Time};
use serde::{Deserialize, Serialize};

/// Rate of downlink cross traffic above which a measurement should wait (Borlaug 2014, section 3.5.1).
pub const HOLD_OFF_DOWN: BitsPerSec = BitsPerSec::from_kbps(64);
/// Rate of uplink cross traffic above which a measurement should wait.
pub const HOLD_OFF_UP: BitsPerSec = BitsPerSec::from_kbps(32);

/// Reason why the loop ends a run before its steps do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Stopped {
    #[error(
        "the next step ({stage}) would send {next:.3}, and {spent:.3} of the {budget:.3} allowed are spent: give a larger --budget"
    )]
    Budget {
        stage: String,
        next: Bytes,
        spent: Bytes,
        budget: Bytes,
    },
    #[error(
        "others use the link: {down:.3} down, {up:.3} up while this sends nothing. Wait for them with --hold-off, or measure beside them with --beside-others"
    )]
    Others { down: BitsPerSec, up: BitsPerSec },
    #[error(
        "others kept using the link for {waited:.3}: {down:.3} down, {up:.3} up. Wait for them to finish, or leave out --hold-off: the report shows their share"
    )]
    LineBusy {
        waited: Duration,
        down: BitsPerSec,
        up: BitsPerSec,
    },
    #[error("{why}")]
    Unusable { why: String },
    #[error("this host cannot {what}")]
    Cannot { what: &'static str },
    #[error("it took longer than the {allowed:.0} that it had")]
    Late { allowed: Duration },
    #[error("interrupted")]
    Interrupted,
}

/// Error of a host.
pub trait Failure: std::error::Error + From<Stopped> {
    /// True if the user stopped the run.
    fn interrupted(&self) -> bool;
}

impl Failure for Stopped {
    fn interrupted(&self) -> bool {
        *self == Stopped::Interrupted
    }
}

/// Mean rates of an interface over a stretch of time, link-layer headers included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rates {
    /// Rate of the downlink.
    pub down: BitsPerSec,
    /// Rate of the uplink.
    pub up: BitsPerSec,
}

impl Rates {
    /// True if there is too much cross traffic to measure beside it.
    pub fn others_use_the_link(&self) -> bool {
        self.down > HOLD_OFF_DOWN || self.up > HOLD_OFF_UP
    }
}

/// Sending in progress.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    /// Time since the begin of the sending.
    pub elapsed: Duration,
    /// Datagrams that have been sent, or have arrived.
    pub datagrams: u64,
}

/// State of a host that is about to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meanwhile {
    /// Time since the run began.
    pub now: Time,
    /// Bytes that the run has cost so far, as [`Host::tally`] counts them.
    pub tally: Bytes,
}

/// Rows that a host writes by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Counted {
    /// Bytes that pass the interface.
    Interface,
    /// Load of the host's processors.
    Processor,
}

/// Session of probes with the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    /// Interval between probes.
    pub interval: Duration,
    /// Shortest interval that is set later.
    pub shortest: Duration,
}

/// Rough rates of whole IP packets, from a few packets back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scouted {
    /// Rate of the uplink.
    pub up: BitsPerSec,
    /// Rate of the downlink.
    pub down: BitsPerSec,
}

impl Scouted {
    /// Rate of one direction.
    pub fn rate(self, direction: Direction) -> BitsPerSec {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

/// Transfers, or datagrams at a rate, that fill the link in one direction.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Load {
    /// Name of the load within its run.
    pub number: u32,
    /// Direction of the load.
    pub direction: Direction,
    /// Number of flows.
    pub flows: u32,
    /// Congestion control of the flows; by default CUBIC, if the kernel allows it.
    pub congestion: Option<String>,
    /// Time after which the flows end by themselves.
    pub duration: Duration,
    /// Time between two samples of a flow.
    pub sample: Duration,
    /// Rate of datagrams in whole IP packets, for a load without TCP.
    pub datagrams: Option<BitsPerSec>,
}

/// State of a running load.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Loaded {
    /// Number of the load within its run.
    pub number: u32,
    /// Direction of the load.
    pub direction: Direction,
    /// Payload so far: acknowledged for uploads, received for downloads.
    pub bytes: Bytes,
    /// Rate over about the last second; null until there are two readings.
    pub rate: Option<BitsPerSec>,
    /// Flows that still run.
    pub alive: u32,
    /// Time since the latest byte.
    pub still_for: Duration,
}

/// Load that is over, with the server's report.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ended {
    /// Number of the load within its run.
    pub number: u32,
    /// Reasons why flows ended early or the server gave no report.
    pub faults: Vec<String>,
    /// Datagrams sent; null unless both ends reported.
    pub sent: Option<u64>,
    /// Datagrams received; null unless both ends reported.
    pub received: Option<u64>,
}

/// Fresh TCP connections at an interval, each with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    /// Interval between two connections.
    pub interval: Duration,
    /// Greatest number of open connections.
    pub at_once: usize,
}

/// Host that carries an experiment out. A missing capability is [`Stopped::Cannot`].
pub trait Host {
    /// Fault of the host itself.
    type Error: Failure;

    /// Time since the run began.
    fn now(&self) -> Time;

    /// Present time in the form of recordings.
    fn unix_ns(&self) -> i64;

    /// Lets this much time pass.
    ///
    /// # Errors
    /// A background task has ended.
    fn wait(&mut self, time: Duration) -> Result<(), Self::Error>;

    /// Writes a row into the recording.
    fn row(&mut self, row: Row);

    /// Shows the rows so far.
    fn so_far(&self, read: &mut dyn FnMut(&Recording));

    /// Bytes of the IP and UDP headers of a datagram to the far end.
    fn headers(&self) -> u32;

    /// Sends trains at once, after their rest, and numbers them from `first` on. `passing` is told the progress and
    /// decides if the run continues.
    ///
    /// # Errors
    /// The server refuses, vanishes or is unreachable; `passing` stops the run.
    fn train(
        &mut self,
        sending: &Sending,
        first: i64,
        passing: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, Self::Error>;

    /// Ends all that runs: probes, loads, counters, ports, sockets, the turn.
    fn reset(&mut self) {}

    /// Bytes of whole IP packets of everything but trains, both directions combined.
    fn tally(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Starts rows of counters.
    ///
    /// # Errors
    /// There are no such counters.
    fn count(&mut self, what: Counted) -> Result<(), Self::Error>;

    /// Mean rates of the interface over the last `window`; null until it has been watched that long.
    fn rates(&self, window: Duration) -> Option<Rates>;

    /// Name of that interface.
    fn interface(&self) -> String;

    /// Takes the server's uplink for this long. While another client has it, `wait` gets the expected time each second
    /// and decides if the wait continues.
    ///
    /// # Errors
    /// `wait` stops the run; the server refuses or vanishes.
    fn turn(
        &mut self,
        lasts: Duration,
        wait: &mut dyn FnMut(Duration, String) -> bool,
    ) -> Result<(), Self::Error> {
        let _ = (lasts, wait);
        Ok(())
    }

    /// Starts a session of probes, or changes the interval of the running one.
    ///
    /// # Errors
    /// No session could be opened.
    fn probe(&mut self, probing: Probing) -> Result<(), Self::Error> {
        let _ = probing;
        Err(Stopped::Cannot {
            what: "send probes",
        }
        .into())
    }

    /// Size of the IP packet of a probe, and of its answer.
    fn probe_size(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Target of the probes in the recording: `udp` is a session with our server.
    fn probe_target(&self) -> Text {
        "udp".into()
    }

    /// Ends the session and writes all open slots.
    fn stop_probes(&mut self) {}

    /// Sends packets back to back within the session; null if too few came back.
    ///
    /// # Errors
    /// There is no session.
    fn scout(&mut self, count: u8, size: Bytes) -> Result<Option<Scouted>, Self::Error> {
        let _ = (count, size);
        Err(Stopped::Cannot {
            what: "send probes",
        }
        .into())
    }

    /// Starts a load.
    ///
    /// # Errors
    /// No flow could be started.
    fn load(&mut self, load: &Load) -> Result<(), Self::Error> {
        let _ = load;
        Err(Stopped::Cannot {
            what: "load a link",
        }
        .into())
    }

    /// States of the running loads. Asked once after each wait.
    fn loads(&mut self) -> Vec<Loaded> {
        Vec::new()
    }

    /// Stops the load of this number, or all of them without one.
    fn stop_load(&mut self, number: Option<u32>) {
        let _ = number;
    }

    /// Fetches the server's reports on the stopped loads.
    fn collect(&mut self) -> Vec<Ended> {
        Vec::new()
    }

    /// Answers a question. `going_on` is asked now and then while that takes long; once it says no, the answer is not
    /// used.
    ///
    /// # Errors
    /// The far end refuses or vanishes; there is no socket.
    fn ask(
        &mut self,
        ask: &Ask,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, Self::Error> {
        let _ = (ask, going_on);
        Err(Stopped::Cannot {
            what: "answer questions",
        }
        .into())
    }

    /// Starts fresh connections, or stops them.
    ///
    /// # Errors
    /// Connections cannot be opened.
    fn fresh(&mut self, fresh: Option<Fresh>) -> Result<(), Self::Error> {
        let _ = fresh;
        Err(Stopped::Cannot {
            what: "open connections",
        }
        .into())
    }
}
