//! Host of experiments over real sockets: it carries out what their steps say, and decides nothing.

#[cfg(not(target_os = "linux"))]
#[path = "sockets/elsewhere.rs"]
mod further;
#[cfg(target_os = "linux")]
mod further;

#[cfg(target_os = "linux")]
pub(crate) use further::Counters;

use crate::clock::Clock;
#[cfg(target_os = "linux")]
use crate::emulate::NetNs;
use crate::error::CraftError;
use crate::load::lent::Lender;
use crate::load::paced::{headers, payload_for};
use crate::load::{DatagramOutcome, Load, LoadOutcome, LoadPlan, Peer, Stopped, Turn};
use crate::probe::{ProbePlan, Prober};
use crate::tally::Tally;
use base::program::{Sending, Train};
use base::record::{Direction, Recording, Row};
use base::{Bytes, Duration, Time};
use experiment::ask::{Answer, Ask};
use experiment::host::{
    Counted, Ended, Fresh, Host, Loaded, Meanwhile, Passing, Probing, Rates, Scouted,
};
use further::Further;
use std::net::SocketAddr;
use std::sync::mpsc::Sender;
use std::sync::{Arc, Mutex, PoisonError};

/// Longest wait for the far end's report: the queue that a load has filled may still drain.
const REPORTS_WITHIN: Duration = Duration::from_secs(10);

/// Server, and the receiver of rows.
pub struct Setup<'a> {
    pub peer: Peer,
    pub clock: Clock,
    pub rows: Sender<Row>,
    /// Rows so far, if they are kept; without them steps see none.
    pub so_far: Arc<Mutex<Recording>>,
    /// Interface whose counters are read; by default the one towards the server.
    pub interface: Option<String>,
    /// Counter of traffic, without trains.
    pub tally: Tally,
    /// The far end's network namespace if that and the calling thread's are ours: their settings may be changed.
    #[cfg(target_os = "linux")]
    pub far: Option<&'a NetNs>,
    /// Second machine that makes the loads, and takes the server's uplink for them.
    pub lender: Option<Lender>,
    /// Capture of packets, if the caller offers one.
    pub capture: Option<Box<dyn Capture + 'a>>,
}

/// Capture of the packets between this host and the server, into a file and as rows.
pub trait Capture {
    /// # Errors
    /// This user may not capture, or the file cannot be written.
    fn start(&mut self, interface: &str, server: SocketAddr, file: &str) -> Result<(), String>;

    /// Ends it; all that has passed by then is in the file and in the rows.
    ///
    /// # Errors
    /// None is running; the interface went down; the file cannot be written.
    fn stop(&mut self) -> Result<Captured, String>;
}

/// Count of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Captured {
    /// Packets between this host and the server.
    pub packets: u64,
    /// Packets of the whole interface that the kernel had no room for.
    pub missed: Option<u64>,
}

impl<'a> Setup<'a> {
    /// Set-up with default settings: no rows are kept, the interface towards the server, a new counter.
    pub fn new(peer: Peer, clock: Clock, rows: Sender<Row>) -> Setup<'a> {
        Setup {
            peer,
            clock,
            rows,
            so_far: Arc::default(),
            interface: None,
            tally: Tally::default(),
            #[cfg(target_os = "linux")]
            far: None,
            lender: None,
            capture: None,
        }
    }
}

/// Host whose link begins in the network namespace of the calling thread. Dropping it ends all that runs.
pub struct Sockets<'a> {
    // In the order in which they end.
    prober: Option<Prober>,
    further: Further,
    loads: Vec<(u32, Load)>,
    stopped: Vec<(experiment::host::Load, Stopped)>,
    running: Vec<experiment::host::Load>,
    turn: Option<Turn>,
    next_flow: i64,
    setup: Setup<'a>,
}

impl<'a> Sockets<'a> {
    pub fn new(setup: Setup<'a>) -> Sockets<'a> {
        Sockets {
            prober: None,
            further: Further::default(),
            loads: Vec::new(),
            stopped: Vec::new(),
            running: Vec::new(),
            turn: None,
            next_flow: 0,
            setup,
        }
    }

    fn session(&self, probing: Probing) -> ProbePlan {
        ProbePlan {
            interval: probing.interval,
            shortest_interval: probing.shortest,
            access: self.setup.peer.access.clone(),
            tally: self.setup.tally.clone(),
            interface: self.further.interface().map(Into::into),
            ..ProbePlan::new(self.setup.peer.server)
        }
    }

    /// Has the interface's counters read at each probe while a load runs: the service curve of a link needs a queue.
    fn count_loads(&self) {
        if let Some(prober) = &self.prober {
            prober.count(!self.loads.is_empty());
        }
    }

    /// Counts its datagrams as whole packets, and returns the counts of both ends.
    fn datagrams(&self, load: &experiment::host::Load, outcome: &LoadOutcome) -> DatagramOutcome {
        let Some(rate) = load.datagrams else {
            return DatagramOutcome::default();
        };
        let each = u64::from(payload_for(rate)) + headers(self.setup.peer.server);
        for d in outcome.flows.iter().filter_map(|f| f.datagrams) {
            // What passed this end: sent by it, or received.
            let passed = match load.direction {
                Direction::Up => d.sent,
                Direction::Down => d.received,
            };
            let packets = passed.unwrap_or(0);
            self.setup.tally.add(packets, Bytes::new(packets * each));
        }
        let first = outcome.flows.iter().find_map(|f| f.datagrams);
        first.unwrap_or_default()
    }
}

fn unusable(why: String) -> experiment::Stopped {
    experiment::Stopped::Unusable { why }
}

impl Host for Sockets<'_> {
    type Error = CraftError;

    fn now(&self) -> Time {
        self.setup.clock.now()
    }

    fn unix_ns(&self) -> i64 {
        self.setup.clock.unix_ns()
    }

    fn wait(&mut self, time: Duration) -> Result<(), CraftError> {
        std::thread::sleep(time.to_std());
        if let Some(prober) = &self.prober {
            prober.health()?;
        }
        Ok(())
    }

    fn row(&mut self, row: Row) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.setup.rows.send(row);
    }

    fn so_far(&self, read: &mut dyn FnMut(&Recording)) {
        let rows = self.setup.so_far.lock();
        read(&rows.unwrap_or_else(PoisonError::into_inner));
    }

    fn headers(&self) -> u32 {
        headers(self.setup.peer.server) as u32
    }

    fn train(
        &mut self,
        sending: &Sending,
        first: i64,
        passing: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, CraftError> {
        further::train(&self.setup, sending, first, passing)
    }

    fn reset(&mut self) {
        self.stop_probes();
        self.further = Further::default();
        self.loads.clear();
        self.stopped.clear();
        self.running.clear();
        self.turn = None;
        self.next_flow = 0;
    }

    fn tally(&self) -> Bytes {
        self.setup.tally.bytes()
    }

    fn count(&mut self, what: Counted) -> Result<(), CraftError> {
        self.further.count(what, &self.setup)
    }

    fn rates(&self, window: Duration) -> Option<Rates> {
        self.further.rates(window)
    }

    fn interface(&self) -> String {
        self.further.interface().unwrap_or_default().into()
    }

    fn turn(
        &mut self,
        lasts: Duration,
        wait: &mut dyn FnMut(Duration, String) -> bool,
    ) -> Result<(), CraftError> {
        if let Some(lender) = &mut self.setup.lender {
            let turn = lender.turn(lasts, wait);
            return Ok(turn.map_err(unusable)?);
        }
        let turn = self.setup.peer.turn(lasts, &mut |standing| {
            wait(standing.after, standing.to_string())
        })?;
        self.turn = Some(turn);
        Ok(())
    }

    fn probe(&mut self, probing: Probing) -> Result<(), CraftError> {
        match &self.prober {
            Some(prober) => {
                prober.set_interval(probing.interval);
            }
            None => {
                let plan = self.session(probing);
                let prober = Prober::start(plan, self.setup.clock, self.setup.rows.clone())?;
                self.prober = Some(prober);
                self.count_loads();
            }
        }
        Ok(())
    }

    fn probe_size(&self) -> Bytes {
        let any = Duration::from_secs(1);
        let probing = Probing {
            interval: any,
            shortest: any,
        };
        self.session(probing).ip_size()
    }

    fn stop_probes(&mut self) {
        if let Some(prober) = self.prober.take() {
            prober.stop();
        }
    }

    fn scout(&mut self, count: u8, size: Bytes) -> Result<Option<Scouted>, CraftError> {
        let Some(prober) = &self.prober else {
            return Err(experiment::Stopped::Cannot {
                what: "send packets without a session",
            }
            .into());
        };
        let rates = prober.train(count, size)?;
        Ok(rates.map(|r| Scouted {
            up: r.up,
            down: r.down,
        }))
    }

    fn load(&mut self, load: &experiment::host::Load) -> Result<(), CraftError> {
        if let Some(lender) = &mut self.setup.lender {
            return Ok(lender.load(load).map_err(unusable)?);
        }
        let plan = LoadPlan {
            peer: self.setup.peer.clone(),
            direction: load.direction,
            flows: load.flows,
            first_flow: self.next_flow,
            congestion: load.congestion.clone(),
            duration: load.duration,
            sample: load.sample,
            udp_rate: load.datagrams,
            tally: self.setup.tally.clone(),
        };
        self.next_flow += i64::from(load.flows);
        let started = Load::start(plan, self.setup.clock, self.setup.rows.clone())?;
        self.loads.push((load.number, started));
        self.running.push(load.clone());
        self.count_loads();
        Ok(())
    }

    fn loads(&mut self) -> Vec<Loaded> {
        if let Some(lender) = &self.setup.lender {
            return lender.loads();
        }
        let state = |(number, load): &(u32, Load)| {
            let progress = load.progress();
            Loaded {
                number: *number,
                direction: load.direction(),
                bytes: Bytes::new(progress.bytes),
                rate: progress.rate,
                alive: progress.alive,
                still_for: progress.still_for,
            }
        };
        self.loads.iter().map(state).collect()
    }

    fn stop_load(&mut self, number: Option<u32>) {
        if let Some(lender) = &mut self.setup.lender {
            return lender.stop(number);
        }
        let its = |load: &experiment::host::Load| number.is_none_or(|n| load.number == n);
        for plan in self.running.extract_if(.., |load| its(load)) {
            let at = self.loads.iter().position(|(n, _)| *n == plan.number);
            if let Some(at) = at {
                self.stopped.push((plan, self.loads.remove(at).1.stop()));
            }
        }
        self.count_loads();
    }

    fn collect(&mut self) -> Vec<Ended> {
        if let Some(lender) = &mut self.setup.lender {
            return lender.collect();
        }
        let mut all = Vec::new();
        for (load, stopped) in std::mem::take(&mut self.stopped) {
            let outcome = stopped.collect(REPORTS_WITHIN);
            let counts = self.datagrams(&load, &outcome);
            let failed = outcome.flows.iter().filter_map(|f| f.error.as_ref());
            let faults = failed.chain(&outcome.report_error);
            all.push(Ended {
                number: load.number,
                faults: faults.map(ToString::to_string).collect(),
                sent: counts.sent,
                received: counts.received,
            });
        }
        all
    }

    fn ask(
        &mut self,
        ask: &Ask,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Result<Answer, CraftError> {
        if let Ask::Reach(patience) = ask {
            self.setup.peer.patience = *patience;
            self.setup.peer.connect(None)?;
            return Ok(Answer::Done);
        }
        let Sockets {
            further,
            setup,
            loads,
            ..
        } = self;
        further.ask(ask, setup, loads, going_on)
    }

    fn fresh(&mut self, fresh: Option<Fresh>) -> Result<(), CraftError> {
        self.further.fresh(fresh, &self.setup)
    }
}
