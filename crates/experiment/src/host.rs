//! The capabilities that an experiment asks of whoever carries it out: a clock, trains, probes, loads, counters.
//!
//! `live::sockets` has them over real sockets, `sim` in virtual time. A host obeys: it decides nothing about what is
//! sent, when, or for how long.

use crate::ask::{Answer, Ask};
use base::program::{Sending, Train};
use base::record::{Direction, Recording, Row};
use base::{BitsPerSec, Bytes, Duration, Time};

/// Above this rate others use the link down, so that a measurement should wait (000 §3.5.1).
pub const HOLD_OFF_DOWN: BitsPerSec = BitsPerSec::from_kbps(64);
/// The same, up.
pub const HOLD_OFF_UP: BitsPerSec = BitsPerSec::from_kbps(32);

/// Why the loop ends a run before its steps do.
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
        "others use the line: {down:.3} down, {up:.3} up while this sends nothing. Wait for them with --hold-off, or measure beside them with --beside-others"
    )]
    Others { down: BitsPerSec, up: BitsPerSec },
    #[error(
        "others kept using the line for {waited:.3}: {down:.3} down, {up:.3} up. Wait for them to finish, or leave out --hold-off: the report shows their share"
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

/// An error of a host.
pub trait Failure: std::error::Error + From<Stopped> {
    /// True if the user wants no more.
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
    pub down: BitsPerSec,
    pub up: BitsPerSec,
}

impl Rates {
    /// True if others use the link too much to measure beside them.
    pub fn others_use_the_link(&self) -> bool {
        self.down > HOLD_OFF_DOWN || self.up > HOLD_OFF_UP
    }
}

/// A sending on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Passing {
    pub elapsed: Duration,
    /// Datagrams that have left, or arrived.
    pub datagrams: u64,
}

/// State of a host that is about to answer a question.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Meanwhile {
    pub now: Time,
    /// As [`Host::tally`].
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

/// A session of probes with the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Probing {
    pub interval: Duration,
    /// The shortest interval that will be asked for later.
    pub shortest: Duration,
}

/// Rough rates of whole IP packets, from a few packets back to back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scouted {
    pub up: BitsPerSec,
    pub down: BitsPerSec,
}

impl Scouted {
    pub fn rate(self, direction: Direction) -> BitsPerSec {
        match direction {
            Direction::Up => self.up,
            Direction::Down => self.down,
        }
    }
}

/// Transfers, or datagrams at a rate, that fill the line in one direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Load {
    /// Name of the load within its run.
    pub number: u32,
    pub direction: Direction,
    pub flows: u32,
    /// Congestion control of the flows; CUBIC where the kernel allows it, if not given.
    pub congestion: Option<String>,
    /// The flows end by themselves after this time.
    pub duration: Duration,
    /// Time between two samples of a flow.
    pub sample: Duration,
    /// Datagrams at this rate of whole IP packets instead of TCP.
    pub datagrams: Option<BitsPerSec>,
}

/// State of a running load.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loaded {
    pub number: u32,
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

/// A load that is over, with the far end's account of it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    pub number: u32,
    /// Reasons for which flows ended early or the far end gave no report.
    pub faults: Vec<String>,
    /// Of datagrams: sent and received, where both ends told.
    pub sent: Option<u64>,
    pub received: Option<u64>,
}

/// Fresh TCP connections at an interval, each with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fresh {
    pub interval: Duration,
    /// Connections that may be open at a time.
    pub at_once: usize,
}

/// One that carries an experiment out. A capability that it lacks is [`Stopped::Cannot`].
pub trait Host {
    type Error: Failure;

    /// Time since the run began.
    fn now(&self) -> Time;

    /// The same as recordings write it.
    fn unix_ns(&self) -> i64;

    /// Lets this much time pass.
    ///
    /// # Errors
    /// Something that runs meanwhile has ended.
    fn wait(&mut self, time: Duration) -> Result<(), Self::Error>;

    /// Writes a row into the recording.
    fn row(&mut self, row: Row);

    /// Shows the rows so far.
    fn so_far(&self, read: &mut dyn FnMut(&Recording));

    /// Bytes of the IP and UDP headers of a datagram to the far end.
    fn headers(&self) -> u32;

    /// Carries a sending out at once, its rest being over, and numbers its trains from `first` on. `passing` hears how far it
    /// is and says whether to go on.
    ///
    /// # Errors
    /// The far end refuses, vanishes or is out of reach; `passing` wants no more.
    fn train(
        &mut self,
        sending: &Sending,
        first: i64,
        passing: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, Self::Error>;

    /// Ends all that runs: probes, loads, counters, ports, sockets, the turn.
    fn reset(&mut self) {}

    /// Bytes of whole IP packets of everything but trains, both directions together.
    fn tally(&self) -> Bytes {
        Bytes::ZERO
    }

    /// Begins to write rows of counters.
    ///
    /// # Errors
    /// There are no such counters.
    fn count(&mut self, what: Counted) -> Result<(), Self::Error>;

    /// Mean rates of the interface over the last `window`; null until it has been watched that long.
    fn rates(&self, window: Duration) -> Option<Rates>;

    /// Name of that interface.
    fn interface(&self) -> String;

    /// Takes the far end's uplink for this long. While another client has it, `wait` hears each second how long that will
    /// take and says whether to go on waiting.
    ///
    /// # Errors
    /// `wait` wants no more; the far end refuses or vanishes.
    fn turn(
        &mut self,
        lasts: Duration,
        wait: &mut dyn FnMut(Duration, String) -> bool,
    ) -> Result<(), Self::Error> {
        let _ = (lasts, wait);
        Ok(())
    }

    /// Begins a session of probes, or changes the interval of the one that runs.
    ///
    /// # Errors
    /// There is no session to be had.
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

    /// Ends the session and writes all that is open.
    fn stop_probes(&mut self) {}

    /// Sends packets back to back within the session; null where too few came back.
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

    /// Begins a load.
    ///
    /// # Errors
    /// No flow could be begun.
    fn load(&mut self, load: &Load) -> Result<(), Self::Error> {
        let _ = load;
        Err(Stopped::Cannot {
            what: "load a line",
        }
        .into())
    }

    /// States of the running loads. Asked once after each wait.
    fn loads(&mut self) -> Vec<Loaded> {
        Vec::new()
    }

    /// Ends the load of this number, all of them without one.
    fn stop_load(&mut self, number: Option<u32>) {
        let _ = number;
    }

    /// Fetches the far end's account of the loads that were stopped.
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

    /// Begins fresh connections, or ends them.
    ///
    /// # Errors
    /// They cannot be had.
    fn fresh(&mut self, fresh: Option<Fresh>) -> Result<(), Self::Error> {
        let _ = fresh;
        Err(Stopped::Cannot {
            what: "open connections",
        }
        .into())
    }
}
