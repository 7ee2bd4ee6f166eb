//! Probes of a server that is not ours: ICMP echo where it is answered, else fresh TCP connections to the server's port.

use super::target::Target;
use crate::clock::Clock;
use crate::load::Access;
use crate::monitor::clocks::Clocks;
use crate::monitor::probed::Probed;
use crate::monitor::{LOOK, LOOK_SENDS, OpenError, Out, wait_for};
use crate::outlet::Outlet;
use crate::probe::host::{PROBES, random, sleep_until, wake_exactly};
use crate::tally::Tally;
use crate::timestamp::Batch;
use base::record::{Row, Status, Text};
use base::rng::Streams;
use base::{Bytes, Duration, Time};
use experiment::monitor::{self, MonitorPlan, TargetKind};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// Shortest interval between echo requests: other people's servers get no more than fifty a second.
const ECHO: Duration = Duration::from_millis(20);
/// Shortest interval between fresh connections.
const CONNECT: Duration = Duration::from_millis(100);
/// Requests of the trial, the interval between them, and the answers that are enough.
const TRIAL: (Duration, usize) = (Duration::from_millis(50), 3);
/// Longest trial.
const TRIED: Duration = Duration::from_millis(1500);
/// Longest wait for the last answers, and the pause between looks at them.
const LAST: (Duration, Duration) = (Duration::from_secs(1), Duration::from_millis(20));
/// Sizes of the ICMP message, and of the packets of a connection in one direction, without IP headers.
const SIZES: (u64, u64) = (24, 92);

/// Way of probing that a server answers.
#[derive(Clone, Debug)]
pub(super) struct Way {
    target: monitor::Target,
    server: SocketAddr,
    outlet: Outlet,
}

impl Way {
    fn new(kind: TargetKind, server: SocketAddr, outlet: &Outlet) -> Way {
        let interval = match kind {
            TargetKind::Icmp(_) => ECHO,
            _ => CONNECT,
        };
        Way {
            target: monitor::Target {
                kind,
                interval,
                interface: None,
                group: None,
            },
            outlet: outlet.clone(),
            server,
        }
    }

    /// Finds a way that works. Echo is tried for a moment.
    ///
    /// # Errors
    /// The reason why nothing is answered that may be asked.
    pub fn find(
        target: &Target,
        (server, outlet): (SocketAddr, &Outlet),
        clock: Clock,
    ) -> Result<Way, String> {
        let host = server.ip().to_canonical().to_string();
        let echo = Way::new(TargetKind::Icmp(host.clone()), server, outlet);
        let refused = match echo.answers(clock) {
            Ok(true) => return Ok(echo),
            Ok(false) => format!("{host} does not answer ICMP echo"),
            Err(e) => e.to_string(),
        };
        if target.takes_handshakes() {
            let port = server.port();
            return Ok(Way::new(TargetKind::Tcp { host, port }, server, outlet));
        }
        Err(format!(
            "no probe can measure the delay: {refused}, and a server of iperf3 takes no connections beside its test. Try `tailback serve` at the far end, or a server that answers ping"
        ))
    }

    /// True if requests are answered.
    fn answers(&self, clock: Clock) -> Result<bool, OpenError> {
        let (rows, came) = channel();
        let mut trial = self.clone();
        trial.target.interval = TRIAL.0;
        let mut driver = Driver::open(&trial, clock, rows, Tally::default())?;
        let until = clock.now() + TRIED;
        let mut answered = 0;
        while clock.now() < until && answered < TRIAL.1 {
            driver.step(Duration::ZERO);
            let ok = |row: &Row| matches!(row, Row::Delay(d) if d.status == Status::Ok);
            answered += came.try_iter().filter(ok).count();
            sleep_until(clock.mono_of(clock.now() + LAST.1));
        }
        Ok(answered >= TRIAL.1)
    }

    /// Name of the target in the recording.
    pub fn name(&self) -> Text {
        self.target.name().into()
    }

    /// Size of a probe's IP packets in one direction.
    pub fn size(&self) -> Bytes {
        let header = if self.server.ip().to_canonical().is_ipv4() {
            20
        } else {
            40
        };
        Bytes::new(match self.target.kind {
            TargetKind::Icmp(_) => header + SIZES.0,
            _ => header + SIZES.1,
        })
    }

    /// Interval that is kept, at most the one that is wanted.
    fn interval(&self, wanted: Duration) -> Duration {
        wanted.max(self.target.interval)
    }
}

/// Running probes. Dropping it stops them.
pub(super) struct Probes {
    way: Way,
    commands: Option<Sender<Duration>>,
    thread: Option<JoinHandle<()>>,
}

impl Probes {
    /// Starts probes at an interval.
    ///
    /// # Errors
    /// A socket that is not allowed, or no thread.
    pub fn start(
        way: &Way,
        interval: Duration,
        clock: Clock,
        rows: Sender<Row>,
        tally: Tally,
    ) -> Result<Probes, OpenError> {
        let mut first = way.clone();
        first.target.interval = way.interval(interval);
        let mut driver = Driver::open(&first, clock, rows, tally)?;
        let (commands, inbox) = channel();
        let thread = std::thread::Builder::new()
            .name("probe".into())
            .spawn(move || driver.run(&inbox))
            .map_err(|source| OpenError::Socket {
                target: way.target.name(),
                source,
            })?;
        Ok(Probes {
            way: way.clone(),
            commands: Some(commands),
            thread: Some(thread),
        })
    }

    /// Changes the interval from the next slot on.
    pub fn set_interval(&self, interval: Duration) {
        if let Some(commands) = &self.commands {
            // A thread that has ended has nothing to change.
            let _ = commands.send(self.way.interval(interval));
        }
    }
}

impl Drop for Probes {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// Thread of the probes.
struct Driver {
    probed: Probed,
    clock: Clock,
    clocks: Clocks,
    batch: Batch,
    out: Out,
    /// Rows of the target before they are counted.
    came: Receiver<Row>,
    rows: Sender<Row>,
    tally: Tally,
    size: Bytes,
    last_look: Time,
}

impl Driver {
    fn open(way: &Way, clock: Clock, rows: Sender<Row>, tally: Tally) -> Result<Driver, OpenError> {
        let seed = random().map_err(|source| OpenError::Socket {
            target: way.target.name(),
            source,
        })?;
        let streams = Streams::new(u64::from_be_bytes(seed));
        // A moment for the kernel's receive times to begin.
        let first = clock.now() + Duration::from_millis(50);
        let access = Access {
            outlet: way.outlet.clone(),
            ..Access::default()
        };
        let plan = MonitorPlan::default();
        let probed = Probed::open(&way.target, &plan, &access, clock, (first, 0), &streams)?;
        let (own, came) = channel();
        Ok(Driver {
            probed,
            clock,
            clocks: Clocks::new(clock),
            batch: Batch::new(64),
            out: Out::new(own),
            came,
            rows,
            tally,
            size: way.size(),
            last_look: clock.now(),
        })
    }

    fn run(&mut self, inbox: &Receiver<Duration>) {
        wake_exactly(PROBES);
        loop {
            match inbox.try_recv() {
                Ok(interval) => self.probed.set_interval(interval),
                Err(TryRecvError::Empty) => {}
                Err(TryRecvError::Disconnected) => break,
            }
            self.step(LOOK);
            let wake = self.probed.slots().due().min(self.last_look + LOOK);
            wait_for(&self.probed.poll_fds(), wake, self.clock);
        }
        self.finish();
    }

    /// Sends what is due, and reads what has come if the last look is so long ago.
    fn step(&mut self, pause: Duration) {
        self.probed.send_due(self.clock, &mut self.out);
        let now = self.clock.now();
        if self.probed.sends() >= LOOK_SENDS || now.saturating_since(self.last_look) >= pause {
            self.look();
        }
        self.probed.advance(now, self.clock, &mut self.out);
        self.forward();
    }

    fn look(&mut self) {
        let (batch, wall) = (&mut self.batch, &mut self.clocks.wall);
        self.probed.look(batch, self.clock, wall, &mut self.out);
        self.last_look = self.clock.now();
    }

    /// Hands the rows on, and counts the packets of each probe.
    fn forward(&mut self) {
        for row in self.came.try_iter() {
            if let Row::Delay(d) = &row {
                let packets = u64::from(d.status.was_sent()) + u64::from(d.status.is_answered());
                self.tally
                    .add(packets, Bytes::new(packets * self.size.get()));
            }
            // The recorder outlives the run; if it is gone, the run is being torn down.
            let _ = self.rows.send(row);
        }
    }

    /// Waits for the last answers and writes all open slots.
    fn finish(&mut self) {
        let until = self.clock.now() + LAST.0;
        while self.probed.is_waiting() && self.clock.now() < until {
            self.look();
            self.probed
                .advance(self.clock.now(), self.clock, &mut self.out);
            sleep_until(self.clock.mono_of(self.clock.now() + LAST.1));
        }
        self.probed.finish(self.clock.now(), &mut self.out);
        self.forward();
    }
}
