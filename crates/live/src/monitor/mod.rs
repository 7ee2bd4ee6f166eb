//! Monitor: delays to several targets, traffic, the host's load and the interfaces' availability, for weeks.
//!
//! One thread does it all on deadlines that do not drift: it sends due probes, and reads the answers that the kernel
//! has time-stamped meanwhile. Incidents of host, link and server are events in the recording; the pure half,
//! [`measure::lasting`] and [`measure::asker`], gives every slot its row.

pub(crate) mod clocks;
mod fresh;
mod interfaces;
pub(crate) mod probed;
mod tls;

use crate::clock::{Clock, timespec};
use crate::host::Load;
use crate::load::Access;
use crate::probe::host::{PROBES, random, sleep_until, wake_exactly};
use crate::resolve::ResolveError;
use crate::timestamp::Batch;
use crate::traffic::{self, TrafficError};
use base::record::{Event, Row, Text};
use base::rng::Streams;
use base::{Duration, Time};
use clocks::Clocks;
use experiment::monitor::{MonitorPlan, MonitorStatus, TargetStatus};
use interfaces::Interfaces;
use nix::poll::{PollFd, PollFlags, ppoll};
use probed::{Probed, Resolver};
use std::collections::BTreeMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::mpsc::Sender;

/// Reason why a target cannot be probed.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error(transparent)]
    Resolve(#[from] ResolveError),
    #[error("cannot open a socket for {target}: {source}{}", hint(source, target))]
    Socket { target: String, source: io::Error },
}

fn hint(e: &io::Error, target: &str) -> &'static str {
    let denied = matches!(e.raw_os_error(), Some(libc::EPERM | libc::EACCES));
    if denied && target.starts_with("icmp:") {
        ". Ping needs CAP_NET_RAW, or a group within net.ipv4.ping_group_range"
    } else if e.raw_os_error() == Some(libc::ENODEV) {
        ". The interface of --interface is not there"
    } else {
        ""
    }
}

#[derive(Debug, thiserror::Error)]
pub enum MonitorError {
    #[error(transparent)]
    Target(#[from] OpenError),
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
    use experiment::monitor::Target;

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
