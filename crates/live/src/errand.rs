//! What the kinds of probe without trains share: where their rows go, whether they may go on, how much they put on the
//! line, and what they run beside their own measurement.

mod tally;

pub use tally::{Followed, Tally};

use crate::clock::Clock;
use crate::craft::{CraftError, Progress, Watch};
use crate::listeners::Listeners;
use crate::load::{Load, LoadError, LoadPlan, Peer, Turn};
use crate::probe::{ProbeError, ProbePlan, Prober};
use crate::traffic::{HOLD_OFF_UP, TrafficMonitor};
use base::noted::Noted;
use base::record::{Delay, Direction, Event, Row, Status};
use base::{BitsPerSec, Bytes, Duration, Time};
use experiment::Stopped;
use measure::control::listen::Wanted;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::mpsc::Sender;

/// How often whoever watches hears of it, counters are read, and loads are sampled.
pub const TICK: Duration = Duration::from_millis(100);
/// Own probes of a session: a tenth of a second shows what a load does, and costs 8 kbit/s each way.
const SESSION: Duration = Duration::from_millis(100);
/// Expected length of a run that loads the link: others in the queue hear it.
pub const TURN: Duration = Duration::from_secs(60);
/// What a load has left on the line is gone by then.
const QUIET: Duration = Duration::from_secs(1);
/// How long others are looked at.
const WINDOW: Duration = Duration::from_secs(1);
/// The queue that a load has filled may still drain when the far end is asked for its report.
pub const REPORTS_WITHIN: Duration = Duration::from_secs(10);

/// How far a run is.
#[derive(Clone, Debug)]
pub struct Stage<'a> {
    pub name: &'a str,
    /// From 1.
    pub number: usize,
    pub elapsed: Duration,
    /// How long it takes, as far as that can be known.
    pub whole: Duration,
    pub note: String,
}

/// One run of such a kind.
pub struct Errand<'a> {
    pub peer: Peer,
    pub clock: Clock,
    pub rows: Sender<Row>,
    pub tally: Tally,
    /// Whether others may use the line meanwhile.
    beside_others: bool,
    /// True to wait while another client loads the server's uplink.
    pub waits: bool,
    turn: Option<Turn>,
    watch: &'a mut dyn Watch,
    began: Time,
    /// About how long all of it takes, for stages that do not know it themselves.
    whole: Duration,
    stages: usize,
    latest: String,
    next_flow: i64,
}

impl<'a> Errand<'a> {
    /// `whole` is about how long it takes; zero where its stages know it.
    pub fn new(
        peer: Peer,
        clock: Clock,
        rows: Sender<Row>,
        tally: Tally,
        beside_others: bool,
        watch: &'a mut dyn Watch,
        whole: Duration,
    ) -> Errand<'a> {
        Errand {
            peer,
            clock,
            rows,
            tally,
            beside_others,
            waits: true,
            turn: None,
            watch,
            began: clock.now(),
            whole,
            stages: 0,
            latest: String::new(),
            next_flow: 0,
        }
    }

    /// The next stage of one whose stages are short, or the same one further on.
    ///
    /// # Errors
    /// The user wants no more.
    pub fn stage(&mut self, name: &str) -> Result<(), CraftError> {
        if name != self.latest {
            self.stages += 1;
            name.clone_into(&mut self.latest);
        }
        self.go_on(Stage {
            name,
            number: self.stages,
            elapsed: self.clock.now() - self.began,
            whole: self.whole,
            note: String::new(),
        })
    }

    /// Tells how far it is.
    ///
    /// # Errors
    /// The user wants no more.
    pub fn go_on(&mut self, stage: Stage) -> Result<(), CraftError> {
        self.watch.progress(&Progress {
            stage: stage.name,
            number: stage.number,
            elapsed: stage.elapsed,
            whole: stage.whole,
            spent: self.tally.bytes(),
            note: stage.note,
            ..Progress::default()
        });
        match self.watch.interrupted() {
            true => Err(Stopped::Interrupted.into()),
            false => Ok(()),
        }
    }

    pub fn row(&self, row: impl Into<Row>) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(row.into());
    }

    pub fn note(&self, note: &impl Noted, subject: &str) {
        self.row(note.event(self.clock.unix_ns(), subject));
    }

    pub fn event(&self, kind: &str, subject: &str, detail: &str) {
        self.row(Event {
            t_ns: self.clock.unix_ns(),
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.into(),
        });
    }

    /// How long something took that began at this monotonic instant; null where it did not come to its end.
    pub fn delay(&self, target: &str, seq: i64, began: i64, took: Option<i64>) {
        self.row(Delay {
            sent_ns: self.clock.from_mono_ns(began),
            seq,
            target: target.into(),
            rtt_ns: took,
            owd_up_ns: None,
            owd_down_ns: None,
            remote_rx_ns: None,
            remote_tx_ns: None,
            host_ns: None,
            late_send_ns: None,
            status: if took.is_some() {
                Status::Ok
            } else {
                Status::Lost
            },
            ecn: None,
            dscp: None,
        });
    }

    /// The counters of an interface, of the one that leads to the server where none is named.
    ///
    /// # Errors
    /// As [`TrafficMonitor::start`].
    pub fn traffic(&self, interface: Option<&str>) -> Result<TrafficMonitor, CraftError> {
        let (server, rows) = (self.peer.server, self.rows.clone());
        Ok(TrafficMonitor::start(
            interface, server, TICK, self.clock, rows,
        )?)
    }

    /// Probes of a session with the server, ten a second.
    ///
    /// # Errors
    /// As [`Prober::start`].
    pub fn session(&self) -> Result<Prober, ProbeError> {
        let plan = ProbePlan {
            interval: SESSION,
            shortest_interval: SESSION,
            access: self.peer.access.clone(),
            tally: self.tally.clone(),
            ..ProbePlan::new(self.peer.server)
        };
        Prober::start(plan, self.clock, self.rows.clone())
    }

    /// Waits until the server's uplink is free of other clients' load, and keeps it until the run ends. Runs that load the
    /// link call it before they measure anything.
    ///
    /// # Errors
    /// As [`Peer::turn`]; the user wants no more.
    pub fn take_turn(&mut self, lasts: Duration) -> Result<(), CraftError> {
        let peer = self.peer.clone();
        let mut interrupted = false;
        let began = self.clock.now();
        let turn = peer.turn(lasts, &mut |standing| {
            let went_on = self.go_on(Stage {
                name: "queue",
                number: 0,
                elapsed: self.clock.now() - began,
                whole: standing.after,
                note: standing.to_string(),
            });
            interrupted = went_on.is_err();
            self.waits && !interrupted
        });
        if interrupted {
            return Err(Stopped::Interrupted.into());
        }
        self.turn = Some(turn?);
        Ok(())
    }

    /// So many flows at once, which end by themselves after `duration`.
    ///
    /// # Errors
    /// As [`Load::start`].
    pub fn load(
        &mut self,
        direction: Direction,
        flows: u32,
        duration: Duration,
    ) -> Result<Load, CraftError> {
        self.start(direction, flows, duration, None)
    }

    /// Datagrams at this rate of whole IP packets. They are not in the tally.
    ///
    /// # Errors
    /// As [`Load::start`].
    pub fn datagrams(
        &mut self,
        direction: Direction,
        rate: BitsPerSec,
        duration: Duration,
    ) -> Result<Load, CraftError> {
        self.start(direction, 1, duration, Some(rate))
    }

    fn start(
        &mut self,
        direction: Direction,
        flows: u32,
        duration: Duration,
        udp_rate: Option<BitsPerSec>,
    ) -> Result<Load, CraftError> {
        let plan = LoadPlan {
            peer: self.peer.clone(),
            direction,
            flows,
            first_flow: self.next_flow,
            congestion: None,
            duration,
            sample: TICK,
            udp_rate,
            tally: self.tally.clone(),
        };
        self.next_flow += i64::from(flows);
        Ok(Load::start(plan, self.clock, self.rows.clone())?)
    }

    /// Ends a run while others use the line (Borlaug 2014, section 3.5.1). Takes two seconds, in which no load of ours may run.
    ///
    /// # Errors
    /// Others use it, or the user wants no more.
    pub fn look_for_others(
        &mut self,
        traffic: &TrafficMonitor,
        number: usize,
    ) -> Result<(), CraftError> {
        if self.beside_others {
            return Ok(());
        }
        let name = "looking for others on the line";
        let (began, whole) = (self.clock.now(), QUIET + WINDOW);
        let mut before = self.tally.bytes();
        loop {
            let elapsed = self.clock.now() - began;
            if elapsed >= whole {
                break;
            }
            if elapsed < QUIET {
                before = self.tally.bytes();
            }
            self.go_on(Stage {
                name,
                number,
                elapsed,
                whole,
                note: String::new(),
            })?;
            std::thread::sleep(whole.saturating_sub(elapsed).min(TICK).to_std());
        }
        let Some(rates) = traffic.idle_rate(WINDOW) else {
            return Ok(());
        };
        // Probes of ours, both ways, in hardly more than the window; the interface counts link headers too.
        let own = self.spent_since(before) * 8 * 5 / 4;
        let all = rates.down.get() + rates.up.get();
        if rates.others_use_the_link() && all > own.get() + HOLD_OFF_UP.get() {
            let detail = format!(
                "{:.3} down, {:.3} up between two loads",
                rates.down, rates.up
            );
            self.event("cross_traffic", traffic.interface(), &detail);
            return Err(Stopped::Others {
                down: rates.down,
                up: rates.up,
            }
            .into());
        }
        Ok(())
    }

    /// What was put on the line since the tally stood there.
    pub fn spent_since(&self, before: Bytes) -> Bytes {
        self.tally.bytes() - before
    }

    /// # Errors
    /// As [`Listeners::open`].
    pub fn listeners(&self, wanted: Vec<Wanted>, open: Duration) -> Result<Listeners, LoadError> {
        Listeners::open(&self.peer, wanted, open, self.tally.clone())
    }
}

/// A UDP socket that talks to that address only.
///
/// # Errors
/// The kernel gives none, or no way leads there.
pub fn socket_to(at: SocketAddr) -> io::Result<UdpSocket> {
    let socket = UdpSocket::bind(any(at))?;
    socket.connect(at)?;
    Ok(socket)
}

/// The unspecified address of the same version of IP.
pub fn any(like: SocketAddr) -> SocketAddr {
    if like.is_ipv4() {
        ([0u8; 4], 0).into()
    } else {
        ([0u16; 8], 0).into()
    }
}
