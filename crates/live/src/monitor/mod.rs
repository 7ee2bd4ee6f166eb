//! Monitor: delays to several targets, traffic, the host's load and the interfaces' availability, for weeks.
//!
//! One thread does it all on deadlines that do not drift: it sends due probes, and reads the answers that the kernel
//! has time-stamped meanwhile. Incidents of host, link and server are events in the recording; the pure half,
//! [`measure::lasting`] and [`measure::asker`], gives every slot its row.

pub(crate) mod clocks;
mod fresh;
mod interfaces;
pub(crate) mod probed;
mod target;
mod tls;

pub use target::{Target, TargetError, TargetKind};

use crate::clock::{Clock, timespec};
use crate::host::Load;
use crate::load::Access;
use crate::probe::host::{PROBES, random, sleep_until, wake_exactly};
use crate::timestamp::Batch;
use crate::traffic::{self, TrafficError};
use base::record::{Delay, Event, Row, Status, Text};
use base::rng::Streams;
use base::{BitsPerSec, Duration, Time};
use clocks::Clocks;
use interfaces::Interfaces;
use nix::poll::{PollFd, PollFlags, ppoll};
use probed::{Probed, Resolver};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::Sender;

/// Settings that decide what is recorded; the recording stores them, so that it can be repeated and continued.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MonitorPlan {
    /// Targets to probe; none to count the traffic of the interfaces alone.
    pub targets: Vec<Target>,
    /// Time after which a probe without answer is lost.
    pub lost_after: Duration,
    /// Time for which an answer is awaited: one that comes after all is written as late.
    pub kept_for: Duration,
    /// Interfaces to watch; by default the one towards the first target.
    pub interfaces: Vec<String>,
    pub traffic_interval: Duration,
    pub load_interval: Duration,
    pub availability_interval: Duration,
    pub only_v4: bool,
    pub only_v6: bool,
}

impl Default for MonitorPlan {
    fn default() -> MonitorPlan {
        MonitorPlan {
            targets: Vec::new(),
            lost_after: Duration::from_secs(10),
            kept_for: Duration::from_secs(180),
            interfaces: Vec::new(),
            traffic_interval: Duration::from_millis(100),
            load_interval: Duration::from_secs(1),
            availability_interval: Duration::from_secs(5),
            only_v4: false,
            only_v6: false,
        }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot {what}: {source}")]
    Local {
        what: &'static str,
        source: io::Error,
    },
    #[error(transparent)]
    Interface(#[from] TrafficError),
    #[error(
        "nothing to monitor was given: name a server, a target such as icmp:192.0.2.1, or an interface with --interface"
    )]
    Nothing,
}

/// Limits of the counts of round trips: three a decade.
pub const LIMITS: [Duration; 13] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Buckets of a native histogram from one power of two to the next, as a power of two: Prometheus' schema 3.
pub const SCHEMA: i32 = 3;

/// Returns the bucket of a round trip in a native histogram: the smallest index whose limit, in seconds, is not below it.
/// The limit of index *i* is 2 to the power of *i*/8, so a bucket is 9 % wide.
pub fn bucket(rtt: Duration) -> i32 {
    // A round trip of zero has no logarithm; it counts as the shortest that can be told.
    let seconds = rtt.max(Duration::from_nanos(1)).as_secs_f64();
    let octaves = f64::from(1 << SCHEMA);
    (seconds.log2() * octaves).ceil() as i32
}

/// Appends a value and drops all but the last ten.
fn keep_ten(values: &mut VecDeque<Duration>, value: Duration) {
    values.push_back(value);
    if values.len() > 10 {
        values.pop_front();
    }
}

/// State of one target, for a live display.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    pub name: Text,
    /// Interval between its probes.
    pub interval: Duration,
    pub rtt: Option<Duration>,
    /// Round trips of the last ten answers (Borlaug 2014, appendix C.2.2).
    pub recent: VecDeque<Duration>,
    pub rows: u64,
    pub answered: u64,
    pub late: u64,
    pub lost: u64,
    /// Probes that are lost although their rows are not written yet: an answer may still come late.
    pub overdue: u64,
    pub not_sent: u64,
    pub trouble: Option<String>,
    /// Round trips by the limits of [`LIMITS`]; the last counts those above all.
    pub within: [u64; LIMITS.len() + 1],
    /// Round trips by the buckets of [`bucket`].
    pub buckets: BTreeMap<i32, u64>,
    /// Sum of all round trips.
    pub sum: Duration,
    /// Largest round trip since the state before this one.
    pub largest: Option<Duration>,
    /// Sizes of the last ten steps between successive round trips (IPDV, RFC 3393).
    steps: VecDeque<Duration>,
    /// Number and round trip of the last answer.
    last: Option<(i64, Duration)>,
    /// Number of answers since availability was written last.
    answers: u64,
}

impl TargetStatus {
    /// Returns the state of a target before its first probe.
    pub fn new(name: Text, interval: Duration) -> TargetStatus {
        TargetStatus {
            name,
            interval,
            rtt: None,
            recent: VecDeque::new(),
            rows: 0,
            answered: 0,
            late: 0,
            lost: 0,
            overdue: 0,
            not_sent: 0,
            trouble: None,
            within: [0; LIMITS.len() + 1],
            buckets: BTreeMap::new(),
            sum: Duration::ZERO,
            largest: None,
            steps: VecDeque::new(),
            last: None,
            answers: 0,
        }
    }

    /// Probes that were not answered within the time for loss.
    pub fn unanswered(&self) -> u64 {
        self.lost + self.late + self.overdue
    }

    /// Probes with a known fate, without those that were not sent.
    pub fn judged(&self) -> u64 {
        (self.rows + self.overdue).saturating_sub(self.not_sent)
    }

    /// Moving average of the last ten round trips.
    pub fn mean_of_ten(&self) -> Option<Duration> {
        let n = self.recent.len() as u64;
        (n > 0).then(|| self.recent.iter().copied().sum::<Duration>() / n)
    }

    /// Mean size of the last ten steps between successive round trips.
    pub fn ipdv(&self) -> Option<Duration> {
        let n = self.steps.len() as u64;
        (n > 0).then(|| self.steps.iter().copied().sum::<Duration>() / n)
    }

    fn answered(&mut self, seq: i64, rtt: Duration) {
        self.rtt = Some(rtt);
        keep_ten(&mut self.recent, rtt);
        let above = LIMITS.iter().position(|limit| rtt <= *limit);
        self.within[above.unwrap_or(LIMITS.len())] += 1;
        *self.buckets.entry(bucket(rtt)).or_default() += 1;
        self.sum += rtt;
        self.largest = self.largest.max(Some(rtt));
        if let Some((before, earlier)) = self.last
            && seq == before + 1
        {
            let step = rtt.max(earlier).saturating_sub(rtt.min(earlier));
            keep_ten(&mut self.steps, step);
        }
        self.last = Some((seq, rtt));
    }

    /// True if anything answered since availability was written last.
    fn heard(&self) -> bool {
        self.answers > 0
    }

    fn restart_answers(&mut self) {
        self.answers = 0;
    }

    fn note(&mut self, d: &Delay) {
        match d.status {
            Status::Ok | Status::Late => {
                self.answered += 1;
                self.answers += 1;
                self.late += u64::from(d.status == Status::Late);
                if let Some(rtt) = d.rtt_ns {
                    self.answered(d.seq, Duration::from_nanos(rtt.unsigned_abs()));
                }
            }
            Status::Lost | Status::LostUp | Status::LostDown => self.lost += 1,
            Status::NotSent => self.not_sent += 1,
            Status::Duplicate => return,
            Status::Invalid => {}
        }
        self.rows += 1;
    }
}

#[derive(Clone, Debug)]
pub struct MonitorStatus {
    pub elapsed: Duration,
    pub targets: Vec<TargetStatus>,
    pub interface: Option<Text>,
    pub down: Option<BitsPerSec>,
    pub up: Option<BitsPerSec>,
}

/// Questions of the monitor to its caller, about once a second.
pub trait Overseer {
    fn status(&mut self, status: &MonitorStatus);
    /// True if the user asked to stop.
    fn interrupted(&mut self) -> bool;
}

/// Interval at which answers are read; they are read earlier after many probes of one target.
pub(crate) const LOOK: Duration = Duration::from_millis(200);
pub(crate) const LOOK_SENDS: u32 = 32;
/// Interval while a session is being opened.
const LOOK_SOON: Duration = Duration::from_millis(20);
/// Shortest and longest wait for the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(1);
const LAST_ANSWERS_MOST: Duration = Duration::from_secs(3);
const SECOND: Duration = Duration::from_secs(1);

/// Receiver of rows, which counts them.
pub(crate) struct Out {
    rows: Sender<Row>,
    status: BTreeMap<Text, TargetStatus>,
}

impl Out {
    /// Receiver without states for a display.
    pub(crate) fn new(rows: Sender<Row>) -> Out {
        Out {
            rows,
            status: BTreeMap::new(),
        }
    }

    fn row(&mut self, row: Row) {
        if let Row::Delay(d) = &row
            && let Some(status) = self.status.get_mut(&d.target)
        {
            status.note(d);
        }
        // Nobody listens any more when the run is being given up.
        let _ = self.rows.send(row);
    }

    fn event(&mut self, t_ns: i64, kind: &str, subject: &str, detail: String) {
        self.row(Row::Event(Event {
            t_ns,
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.into(),
        }));
    }
}

pub struct Monitor {
    plan: MonitorPlan,
    clock: Clock,
    out: Out,
    probed: Vec<Probed>,
    resolver: Resolver,
    clocks: Clocks,
    batch: Batch,
    interfaces: Interfaces,
    load: Load,
    last_look: Time,
    next_load: Time,
    next_second: Time,
    began: Time,
}

impl Monitor {
    /// Resolves the targets and opens their sockets. `first_seq` holds the first number of each target's probes.
    ///
    /// # Errors
    /// An unknown name, or a socket that is not allowed.
    pub fn new(
        plan: MonitorPlan,
        access: &Access,
        clock: Clock,
        rows: Sender<Row>,
        first_seq: &BTreeMap<String, u64>,
    ) -> Result<Monitor, MonitorError> {
        if plan.targets.is_empty() {
            if plan.interfaces.is_empty() {
                return Err(MonitorError::Nothing);
            }
            // Without targets nothing else would show that a name is misspelt.
            plan.interfaces.iter().try_for_each(|n| traffic::known(n))?;
        }
        let local = |what| move |source| MonitorError::Local { what, source };
        let seed = u64::from_be_bytes(random().map_err(local("draw a random number"))?);
        let streams = Streams::new(seed);
        // A moment for the kernel's receive times to begin.
        let first_slot = clock.now() + Duration::from_millis(100);
        let mut probed = Vec::new();
        let count = plan.targets.len() as u64;
        for (i, target) in (0u64..).zip(&plan.targets) {
            let seq = first_seq.get(&target.name()).copied().unwrap_or(0);
            // Apart, so that no probe waits behind another target's on a slow link.
            let at = (first_slot + target.interval * i / count, seq);
            probed.push(Probed::open(target, &plan, access, clock, at, &streams)?);
        }
        let interfaces = Interfaces::new(&plan, clock, rows.clone(), first_slot)
            .map_err(local("read the interface counters"))?;
        let status = probed.iter().map(|p| {
            let status = TargetStatus::new(p.name().clone(), p.slots().interval());
            (p.name().clone(), status)
        });
        let status = status.collect();
        let mut load = Load::default();
        load.since_last(0);
        Ok(Monitor {
            clock,
            out: Out { rows, status },
            probed,
            resolver: Resolver::new(&plan),
            clocks: Clocks::new(clock),
            batch: Batch::new(64),
            interfaces,
            load,
            last_look: clock.now(),
            next_load: first_slot + plan.load_interval,
            next_second: first_slot,
            began: first_slot,
            plan,
        })
    }

    /// Runs until it is told to stop; every slot has its row then.
    pub fn run(mut self, overseer: &mut dyn Overseer) {
        wake_exactly(PROBES);
        for p in &self.probed {
            let detail = format!(
                "{{\"first_slot_ns\":{},\"first_seq\":{},\"interval_ns\":{}}}",
                p.slots().begin().as_nanos(),
                p.slots().next_seq(),
                p.slots().interval().as_nanos()
            );
            self.out
                .event(self.clock.unix_ns(), "target", p.name(), detail);
        }
        while !overseer.interrupted() {
            self.step(overseer);
            self.wait();
        }
        self.wait_for_the_last();
        let now = self.clock.now();
        for p in &mut self.probed {
            p.finish(now, &mut self.out);
            let detail = format!(
                "{{\"next_slot_ns\":{},\"next_seq\":{}}}",
                p.slots().begin().as_nanos(),
                p.slots().next_seq()
            );
            let t_ns = self.clock.unix_ns();
            self.out.event(t_ns, "target_end", p.name(), detail);
        }
    }

    fn step(&mut self, overseer: &mut dyn Overseer) {
        let now = self.clock.now();
        self.watch_clocks(now);
        // What is to leave on time first.
        for p in &mut self.probed {
            p.send_due(self.clock, &mut self.out);
        }
        self.interfaces.sample(now);
        let now = self.clock.now();
        let soon = self.probed.iter().any(Probed::is_asking);
        let busy = self.probed.iter().any(|p| p.sends() >= LOOK_SENDS);
        let pause = if soon { LOOK_SOON } else { LOOK };
        if busy || now.saturating_since(self.last_look) >= pause {
            self.look();
        }
        for p in &mut self.probed {
            p.advance(now, self.clock, &mut self.out);
        }
        if now >= self.next_load {
            let load = self.load.since_last(self.clock.unix_ns());
            self.out.row(Row::HostLoad(load));
            self.next_load = after(self.next_load, self.plan.load_interval, now);
        }
        if now >= self.next_second {
            self.next_second = after(self.next_second, SECOND, now);
            self.each_second(now, overseer);
        }
    }

    fn look(&mut self) {
        for p in &mut self.probed {
            p.look(
                &mut self.batch,
                self.clock,
                &mut self.clocks.wall,
                &mut self.out,
            );
        }
        self.last_look = self.clock.now();
        self.report_steps();
    }

    /// Reports steps of the wall clock. Once labels are more than a second off, they follow it.
    fn report_steps(&mut self) {
        while let Some(by) = self.clocks.take_step() {
            let move_by = self.clocks.label_error_ns();
            let follow = move_by.abs() >= SECOND.as_nanos() as i64;
            let detail = if follow {
                format!("{{\"wall_clock_stepped_by_ns\":{by},\"labels_move_by_ns\":{move_by}}}")
            } else {
                format!("{{\"wall_clock_stepped_by_ns\":{by}}}")
            };
            self.out
                .event(self.clock.unix_ns(), "clock", "near", detail);
            if follow {
                self.clock = self.clock.relabelled(move_by);
                self.clocks.labels_moved(move_by);
                self.interfaces.relabel(self.clock);
                self.probed.iter_mut().for_each(|p| p.relabel(move_by));
            }
        }
    }

    fn watch_clocks(&mut self, now: Time) {
        if let Some((from, to, slept_ns)) = self.clocks.slept(now) {
            let detail = format!("{{\"host_slept_for_ns\":{slept_ns}}}");
            let t_ns = self.clock.unix_ns();
            self.out.event(t_ns, "clock", "near", detail);
            self.probed
                .iter_mut()
                .for_each(|p| p.handle_sleep(from, to));
        }
    }

    fn each_second(&mut self, now: Time, overseer: &mut dyn Overseer) {
        if let Some((from, to)) = self.clocks.slew() {
            let detail = format!("{{\"slew_from_ppm\":{from},\"slew_to_ppm\":{to}}}");
            let t_ns = self.clock.unix_ns();
            self.out.event(t_ns, "clock", "near", detail);
        }
        for p in &mut self.probed {
            p.each_second(now, self.clock, &mut self.resolver, &mut self.out);
        }
        self.interfaces
            .each_second(now, self.clock, &self.probed, &mut self.out);
        for p in &self.probed {
            if let Some(status) = self.out.status.get_mut(p.name()) {
                status.trouble = p.trouble();
                status.overdue = p.overdue(now);
            }
        }
        let (interface, rates) = self.interfaces.rates();
        overseer.status(&MonitorStatus {
            elapsed: now.saturating_since(self.began),
            targets: self
                .probed
                .iter()
                .filter_map(|p| self.out.status.get(p.name()).cloned())
                .collect(),
            interface,
            down: rates.map(|r| r.down),
            up: rates.map(|r| r.up),
        });
        for status in self.out.status.values_mut() {
            status.largest = None;
        }
    }

    /// Waits until something is due or a connection moves.
    fn wait(&mut self) {
        let soon = self.probed.iter().any(Probed::is_asking);
        let look = self.last_look + if soon { LOOK_SOON } else { LOOK };
        let slot = self.probed.iter().map(|p| p.slots().due());
        let due = slot.chain([self.interfaces.next_sample()]).min();
        // What is due shortly after the look serves both.
        let wake = match due {
            Some(due) if due <= look + LOOK => due.min(look + LOOK),
            _ => look,
        };
        let wake = if soon { wake.min(look) } else { wake };
        let fds: Vec<_> = self.probed.iter().flat_map(Probed::poll_fds).collect();
        wait_for(&fds, wake, self.clock);
    }

    fn wait_for_the_last(&mut self) {
        let rtts = self.out.status.values().flat_map(|s| s.recent.iter());
        let longest = rtts.max().copied().unwrap_or(Duration::ZERO);
        let patience = (longest * 3).clamp(LAST_ANSWERS, LAST_ANSWERS_MOST);
        let until = self.clock.now() + patience;
        loop {
            self.look();
            let now = self.clock.now();
            for p in &mut self.probed {
                p.advance(now, self.clock, &mut self.out);
            }
            if now >= until || !self.probed.iter().any(Probed::is_waiting) {
                return;
            }
            sleep_until(self.clock.mono_of(now + LOOK_SOON));
        }
    }
}

/// Waits until `wake`, or until one of the connections moves.
pub(crate) fn wait_for(fds: &[(BorrowedFd<'_>, PollFlags)], wake: Time, clock: Clock) {
    let now = clock.now();
    if fds.is_empty() {
        if now < wake {
            sleep_until(clock.mono_of(wake));
        }
        return;
    }
    let mut fds: Vec<PollFd> = fds.iter().map(|(fd, e)| PollFd::new(*fd, *e)).collect();
    let wait = wake.saturating_since(now).as_nanos();
    let wait = timespec(i64::try_from(wait).unwrap_or(i64::MAX));
    // An interrupted wait is a wake-up like any other.
    let _ = ppoll(&mut fds, Some(wait), None);
}

/// Next deadline of a series that does not drift, past `now`.
fn after(due: Time, interval: Duration, now: Time) -> Time {
    let late = now.saturating_since(due).as_nanos() / interval.as_nanos().max(1);
    due + interval * (late + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn probes_of_targets_with_one_interval_never_leave_together() {
        let names = ["tcp:127.0.0.1:1", "tcp:127.0.0.1:2", "tcp:127.0.0.1:3"];
        let interval = Duration::from_secs(3);
        let target = |name| Target::parse(name, interval).expect("a target");
        let plan = MonitorPlan {
            targets: names.into_iter().map(target).collect(),
            ..MonitorPlan::default()
        };
        let (rows, _) = std::sync::mpsc::channel();
        let (clock, none) = (Clock::start(), BTreeMap::new());
        let monitor = Monitor::new(plan, &Access::default(), clock, rows, &none);
        let monitor = monitor.expect("it starts");
        let due: Vec<Time> = monitor.probed.iter().map(|p| p.slots().due()).collect();
        let apart = Duration::from_secs(1);
        assert_eq!([due[1] - due[0], due[2] - due[1]], [apart; 2]);
    }
}
