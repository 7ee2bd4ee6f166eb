//! Facts about this machine and its load, which a reader needs in order to judge figures.

use crate::clock::Clock;
use crate::load::CongestionControls;
use crate::ticker::Ticker;
use base::Duration;
use base::record::{Host, HostLoad, Row};
use std::collections::BTreeMap;
use std::io;
use std::ops::ControlFlow;
#[cfg(target_os = "linux")]
use std::process::Command;
use std::sync::mpsc::Sender;

fn line(path: &str) -> Option<String> {
    let text = std::fs::read_to_string(path).ok()?;
    let text = text.trim();
    (!text.is_empty()).then(|| text.to_string())
}

/// True if this process may read its terminal's keys: it is not in the background.
#[cfg(target_os = "linux")]
pub fn in_foreground() -> bool {
    let group = nix::unistd::tcgetpgrp(std::io::stdin());
    group.is_ok_and(|group| group == nix::unistd::getpgrp())
}

/// Name of this host; empty if the kernel tells none.
pub fn name() -> String {
    line("/proc/sys/kernel/hostname").unwrap_or_default()
}

/// Facts of this host, as the calling thread's network namespace shows them; unknown ones are left out.
pub fn facts(interface: Option<&str>) -> Host {
    let mut facts = BTreeMap::new();
    let mut add = |name: &str, value: Option<String>| {
        if let Some(v) = value {
            facts.insert(name.to_string(), v);
        }
    };
    let sysctl = |name: &str| line(&format!("/proc/sys/net/{name}"));
    add(
        "congestion control by default",
        sysctl("ipv4/tcp_congestion_control"),
    );
    let controls = CongestionControls::read().available;
    add(
        "congestion controls",
        (!controls.is_empty()).then(|| controls.join(" ")),
    );
    add("queue discipline by default", sysctl("core/default_qdisc"));
    add("tcp_rmem", sysctl("ipv4/tcp_rmem"));
    add("tcp_wmem", sysctl("ipv4/tcp_wmem"));
    add("processor", processor());
    #[cfg(not(target_os = "linux"))]
    let _ = interface;
    #[cfg(target_os = "linux")]
    if let Some(name) = interface {
        add("interface", Some(name.to_string()));
        add("queue discipline", discipline(name));
        let offloads = offload::of(name);
        add(
            "offloads",
            (!offloads.is_empty()).then(|| offloads.join(" ")),
        );
    }
    Host {
        kernel: line("/proc/sys/kernel/osrelease").unwrap_or_else(|| std::env::consts::OS.into()),
        cpus: std::thread::available_parallelism().map_or(0, |n| n.get() as u32),
        clock_source: line("/sys/devices/system/clocksource/clocksource0/current_clocksource")
            .unwrap_or_default(),
        facts,
    }
}

fn processor() -> Option<String> {
    let info = std::fs::read_to_string("/proc/cpuinfo").ok()?;
    let model = info.lines().find(|l| l.starts_with("model name"))?;
    Some(model.split_once(':')?.1.trim().to_string())
}

/// Root discipline with its parameters, as printed by `tc` of iproute2; none if that is not installed.
#[cfg(target_os = "linux")]
fn discipline(interface: &str) -> Option<String> {
    let out = Command::new("tc")
        .args(["qdisc", "show", "dev", interface, "root"])
        .output()
        .ok()?;
    let text = String::from_utf8(out.stdout).ok()?;
    let first = text.lines().next()?.strip_prefix("qdisc ")?;
    Some(first.trim().to_string())
}

/// Offloads of an interface: they decide how large the packets are that a queue sees.
#[cfg(target_os = "linux")]
mod offload {
    use crate::sys::interface::ethtool;

    /// Requests ETHTOOL_GTSO, ETHTOOL_GGSO, ETHTOOL_GGRO of linux/ethtool.h.
    const ASKED: [(u32, &str); 3] = [(0x1e, "tso"), (0x23, "gso"), (0x2b, "gro")];

    pub fn of(interface: &str) -> Vec<String> {
        let mut found = Vec::new();
        for (command, name) in ASKED {
            // struct ethtool_value: command, value.
            let mut value = [command, 0];
            if ethtool(interface, &mut value).is_ok() {
                let on = if value[1] != 0 { "on" } else { "off" };
                found.push(format!("{name}={on}"));
            }
        }
        found
    }
}

/// Free bytes and total size of the file system of `path`; `None` if it does not say.
#[cfg(target_os = "linux")]
pub fn disk_space(path: &std::path::Path) -> Option<(u64, u64)> {
    let s = nix::sys::statvfs::statvfs(path).ok()?;
    // These have as many bits as the processor.
    let (block, free, all) = (s.fragment_size(), s.blocks_available(), s.blocks());
    let bytes = |blocks| u64::try_from(u128::from(block) * blocks).unwrap_or(u64::MAX);
    Some((bytes(u128::from(free)), bytes(u128::from(all))))
}

#[cfg(target_os = "linux")]
pub use crate::sys::memory::release as release_memory;
#[cfg(target_os = "linux")]
pub use crate::sys::thread::be_nice;

/// Processor time since boot, in ticks, over all processors.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Ticks {
    user: u64,
    system: u64,
    interrupt: u64,
    stolen: u64,
    wait: u64,
    idle: u64,
}

/// Reads the first line of `/proc/stat`, proc_stat(5): user nice system idle iowait irq softirq steal …; guest time,
/// which comes after, is in user time already.
fn parse(stat: &str) -> Option<Ticks> {
    let line = stat.lines().next()?.strip_prefix("cpu ")?;
    let t: Vec<u64> = line
        .split_ascii_whitespace()
        .take(8)
        .map_while(|n| n.parse().ok())
        .collect();
    let [user, nice, system, idle, ..] = t[..] else {
        return None;
    };
    let at = |i: usize| t.get(i).copied().unwrap_or(0);
    Some(Ticks {
        user: user.checked_add(nice)?,
        system,
        interrupt: at(5).checked_add(at(6))?,
        stolen: at(7),
        wait: at(4),
        idle,
    })
}

impl Ticks {
    /// Busy ticks by part: user, system, interrupt, stolen.
    fn busy(self) -> [u64; 4] {
        [self.user, self.system, self.interrupt, self.stolen]
    }
}

/// Shares of the processors in between, in the order of [`HostLoad::shares`]; stolen time is busy, waiting is idle.
fn shares(before: Ticks, after: Ticks) -> [Option<f64>; 5] {
    // Idle and waiting time can run backwards by a tick (proc_stat(5)).
    let passed = |part: fn(&Ticks) -> u64| part(&after).saturating_sub(part(&before));
    let mut busy = before.busy();
    for (from, to) in busy.iter_mut().zip(after.busy()) {
        *from = to.saturating_sub(*from);
    }
    let (idle, wait) = (passed(|t| t.idle), passed(|t| t.wait));
    let sum: u64 = busy.iter().sum();
    let all = sum.saturating_add(idle).saturating_add(wait);
    if all == 0 {
        return [None; 5];
    }
    let share = |ticks: u64| Some(ticks as f64 / all as f64);
    let [user, system, interrupt, _stolen] = busy;
    [sum, user, system, interrupt, wait].map(share)
}

/// Load of the processors since the previous call.
#[derive(Default)]
pub(crate) struct Load(Option<Ticks>);

impl Load {
    /// Sample that ends at `t_ns`; unknown at the first call.
    pub fn since_last(&mut self, t_ns: i64) -> HostLoad {
        let text = std::fs::read_to_string("/proc/stat").ok();
        let after = text.as_deref().and_then(parse);
        let before = std::mem::replace(&mut self.0, after);
        let known = before.zip(after);
        HostLoad::of(t_ns, known.map_or([None; 5], |(b, a)| shares(b, a)))
    }
}

/// Sampler of the host's load at an interval. Dropping it stops it.
pub struct CpuSampler(Ticker);

impl CpuSampler {
    /// # Errors
    /// Failure to start the thread.
    pub fn start(interval: Duration, clock: Clock, rows: Sender<Row>) -> io::Result<CpuSampler> {
        let mut load = Load::default();
        load.since_last(0);
        Ticker::start("host-load", interval, move |now| {
            match rows.send(Row::HostLoad(load.since_last(clock.from_mono_ns(now)))) {
                Ok(()) => ControlFlow::Continue(()),
                Err(_) => ControlFlow::Break(()),
            }
        })
        .map(CpuSampler)
    }

    pub fn stop(self) {
        self.0.stop();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_a_disk_is_idle_and_stolen_time_is_busy() {
        let before = parse("cpu  90 10 50 800 50 0 0 0 0 0\ncpu0 1 2 3 4\n").unwrap();
        let after = parse("cpu  95 15 55 835 80 3 7 10 99 99\n").unwrap();
        // 100 ticks: 10 user and nice, 5 system, 10 interrupts, 10 stolen; 35 idle and 30 waiting are not busy.
        let want = [0.35, 0.1, 0.05, 0.1, 0.3].map(Some);
        assert_eq!(shares(before, after), want);
        assert_eq!(shares(before, before), [None; 5], "no time has passed");
        assert_eq!(parse("intr 5"), None);
        assert_eq!(parse("cpu  1 2 3"), None);
        assert_eq!(parse(""), None);
    }

    /// Old kernels have four columns, and idle and waiting time may run backwards.
    #[test]
    fn shares_stay_within_one_whatever_the_counters_do() {
        use base::rng::{Streams, uniform};
        for seed in 0..500 {
            let mut rng = Streams::new(seed).stream("ticks");
            let mut draw = |most: f64| (uniform(&mut rng) * most) as i64;
            let (mut at, mut line) = ([1000i64; 8], String::new());
            let columns = 4 + draw(5.0) as usize;
            let mut read = |at: &[i64; 8]| {
                line = at[..columns].iter().map(|n| format!(" {n}")).collect();
                parse(&format!("cpu {line}\n")).unwrap()
            };
            let before = read(&at);
            for (i, n) in at.iter_mut().enumerate() {
                let back = if i == 3 || i == 4 { 2 } else { 0 };
                *n += draw(50.0) - back;
            }
            let [busy, user, system, interrupt, wait] = shares(before, read(&at));
            if let (Some(busy), Some(wait)) = (busy, wait) {
                assert!((0.0..=1.0).contains(&busy) && busy + wait <= 1.0 + 1e-12);
                let parts = [user, system, interrupt].map(|p| p.unwrap());
                assert!(parts.iter().sum::<f64>() <= busy + 1e-12, "seed {seed}");
            }
        }
    }

    #[test]
    fn this_host_is_described() {
        let host = facts(Some("lo"));
        assert!(!host.kernel.is_empty() && host.cpus > 0);
        assert!(
            host.facts.contains_key("congestion control by default"),
            "{host:?}"
        );
        assert!(
            host.facts
                .get("offloads")
                .is_some_and(|o| o.contains("gso=")),
            "{host:?}"
        );
        let nowhere = facts(Some("no-such-interface-of-any-host"));
        assert!(!nowhere.facts.contains_key("offloads"));
    }

    #[test]
    fn the_load_of_this_host_is_a_share() {
        let (rows, taken) = std::sync::mpsc::channel();
        let sampler = CpuSampler::start(Duration::from_millis(60), Clock::start(), rows).unwrap();
        let Row::HostLoad(row) = taken.recv().unwrap() else {
            panic!("another row")
        };
        sampler.stop();
        let sound = |c: Option<f64>| c.is_none_or(|c| (0.0..=1.0).contains(&c));
        assert!(row.shares().into_iter().all(sound), "{row:?}");
    }
}
