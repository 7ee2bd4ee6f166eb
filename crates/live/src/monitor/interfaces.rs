//! Interfaces that lead to the targets: their traffic, and their availability.

use super::probed::Probed;
use super::{Out, after};
use crate::clock::Clock;
use crate::traffic::{Rates, Sampler};
use base::record::{Availability, Row, Text};
use base::{Duration, Time};
use experiment::monitor::MonitorPlan;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::Sender;

pub struct Interfaces {
    samplers: Vec<Sampler>,
    /// True to watch the interface towards the first target, whichever it is.
    follow: bool,
    clock: Clock,
    rows: Sender<Row>,
    interval: Duration,
    next_sample: Time,
    availability_interval: Duration,
    next_availability: Time,
    availability_since: Time,
}

/// Interface as the kernel has it now.
struct Seen {
    name: String,
    up: bool,
    addresses: Vec<IpAddr>,
}

impl Interfaces {
    /// # Errors
    /// The counters cannot be read.
    pub fn new(
        plan: &MonitorPlan,
        clock: Clock,
        rows: Sender<Row>,
        first: Time,
    ) -> io::Result<Interfaces> {
        let mut interfaces = Interfaces {
            samplers: Vec::new(),
            follow: plan.interfaces.is_empty(),
            clock,
            rows,
            interval: plan.traffic_interval,
            next_sample: first + plan.traffic_interval,
            availability_interval: plan.availability_interval,
            next_availability: first + plan.availability_interval,
            availability_since: first,
        };
        for name in &plan.interfaces {
            interfaces.watch(name)?;
        }
        Ok(interfaces)
    }

    fn watch(&mut self, name: &str) -> io::Result<()> {
        let sampler = Sampler::new(name, self.clock, self.rows.clone())?;
        self.samplers.push(sampler);
        Ok(())
    }

    pub fn next_sample(&self) -> Time {
        self.next_sample
    }

    pub fn sample(&mut self, now: Time) {
        if now < self.next_sample {
            return;
        }
        self.next_sample = after(self.next_sample, self.interval, now);
        for sampler in &mut self.samplers {
            // Nobody listens any more when the run is being given up.
            let _ = sampler.sample();
        }
    }

    pub fn relabel(&mut self, clock: Clock) {
        self.clock = clock;
        self.samplers.iter_mut().for_each(|s| s.clock = clock);
    }

    /// First interface and its traffic of the last second.
    pub fn rates(&self) -> (Option<Text>, Option<Rates>) {
        let first = self.samplers.first();
        (
            first.map(|s| s.interface().clone()),
            first.and_then(Sampler::rates),
        )
    }

    /// Writes availability when it is due.
    pub fn each_second(&mut self, now: Time, clock: Clock, probed: &[Probed], out: &mut Out) {
        let due = now >= self.next_availability;
        let unknown = self.follow && self.samplers.is_empty();
        if !due && !unknown {
            return;
        }
        let seen = look();
        if self.follow
            && let Some(name) = leads_to(&seen, probed.first())
            && !self.samplers.iter().any(|s| **s.interface() == name)
        {
            let what = "{\"leads_to_the_first_target\":true}".into();
            if self.watch(&name).is_ok() {
                out.event(clock.unix_ns(), "interface", &name, what);
            }
        }
        if !due {
            return;
        }
        self.next_availability = after(self.next_availability, self.availability_interval, now);
        let interval_ns = now.saturating_since(self.availability_since).as_nanos() as i64;
        self.availability_since = now;
        for sampler in &self.samplers {
            let name = sampler.interface();
            let found = seen.iter().find(|s| *s.name == **name);
            let reachable = found.and_then(|s| reached(s, probed, out));
            out.row(Row::Availability(Availability {
                t_ns: clock.unix_ns(),
                interval_ns,
                interface: name.clone(),
                up: found.is_some_and(|s| s.up),
                address: found.is_some_and(|s| s.addresses.iter().any(reaches_beyond)),
                reachable,
            }));
        }
        out.status.values_mut().for_each(|s| s.restart_answers());
    }
}

/// True if a target that is reached by this interface answered; `None` if there is none, or none was probed.
fn reached(interface: &Seen, probed: &[Probed], out: &Out) -> Option<bool> {
    let mut asked = false;
    for p in probed {
        let by_it = match p.interface() {
            Some(bound) => bound == interface.name,
            None => {
                let local = p.local();
                local.is_some_and(|ip| interface.addresses.contains(&ip))
                    || interface.addresses.contains(&p.remote().ip())
            }
        };
        let Some(status) = out.status.get(p.name()).filter(|_| by_it) else {
            continue;
        };
        if status.heard() {
            return Some(true);
        }
        asked |= p.asked_lately();
    }
    asked.then_some(false)
}

fn look() -> Vec<Seen> {
    let mut seen: Vec<Seen> = Vec::new();
    // An interface that cannot be listed is not there.
    for entry in getifaddrs().into_iter().flatten() {
        let name = entry.interface_name;
        let flags = InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING;
        let up = entry.flags.contains(flags);
        let address = entry
            .address
            .and_then(|a| match (a.as_sockaddr_in(), a.as_sockaddr_in6()) {
                (Some(v4), _) => Some(IpAddr::from(v4.ip())),
                (_, Some(v6)) => Some(IpAddr::from(v6.ip())),
                _ => None,
            });
        match seen.iter_mut().find(|s| s.name == name) {
            Some(s) => s.addresses.extend(address),
            None => seen.push(Seen {
                name,
                up,
                addresses: address.into_iter().collect(),
            }),
        }
    }
    seen
}

fn leads_to(seen: &[Seen], target: Option<&Probed>) -> Option<String> {
    let target = target?;
    // What a host sends to itself, by whatever address, passes the loopback interface.
    let to_itself = seen
        .iter()
        .any(|s| s.addresses.contains(&target.remote().ip()));
    let local = target.local()?;
    let found = seen.iter().find(|s| {
        if to_itself {
            s.addresses.iter().any(IpAddr::is_loopback)
        } else {
            s.addresses.contains(&local)
        }
    });
    found.map(|s| s.name.clone())
}

/// True if the address reaches beyond its link. Loopback counts, because it is only watched if a target is this host.
fn reaches_beyond(ip: &IpAddr) -> bool {
    match ip {
        IpAddr::V4(ip) => !ip.is_link_local() && !ip.is_unspecified(),
        IpAddr::V6(ip) => !ip.is_unicast_link_local() && !ip.is_unspecified(),
    }
}
