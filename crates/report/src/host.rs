//! Load of the measuring host: a table, and what it says about bad seconds.

use crate::table::{Cell, Column, Table};
use crate::words::lasting;
use analysis::counted::InterfaceTraffic;
use analysis::host_load::{BUSY, BusySeconds, HostSummary};
use analysis::uplinks::Uplink;
use base::print::{RATE, percent, significant};

/// Definitions of the figures.
pub const NOTE: &str = "Shares of all processors: one that is full may hide in them. Waiting for a disk is idle time, \
     and no part of busy.";

/// Returns the load of the processors and interfaces, a row each; `None` if neither was recorded.
pub fn table(host: Option<&HostSummary>, interfaces: &[InterfaceTraffic]) -> Option<Table> {
    let heads = ["", "mean", "median", "95 %", "most"].map(Column::from);
    let mut table = Table::new("This host", heads);
    let parts = host.map(|h| {
        [
            ("processors busy", h.cpu),
            ("  user", h.cpu_user),
            ("  system", h.cpu_system),
            ("  interrupts", h.cpu_interrupt),
            ("waiting for a disk", h.cpu_wait),
        ]
    });
    for (name, shares) in parts.into_iter().flatten() {
        if let Some(s) = shares {
            let cells = [s.mean, s.p50, s.p95, s.most];
            table.row(name, cells.map(|v| Cell::Is(share(v))));
        }
    }
    let cell = |v: Option<f64>| Cell::from(v.map(|v| RATE.print(v)));
    for i in interfaces {
        for (direction, r) in [("down", &i.whole.down), ("up", &i.whole.up)] {
            let cells = [r.mean_bps, r.p50_bps, r.p95_bps, r.most_bps].map(cell);
            table.row(format!("{} {direction}", i.interface), cells);
        }
    }
    (!table.is_empty()).then_some(table)
}

/// Returns the stability of the watched interfaces; `None` if none was watched.
pub fn uplinks(all: &[Uplink]) -> Option<Table> {
    let heads = ["", "watched", "up", "address", "answered", "stability"];
    let mut table = Table::new("Interfaces", heads.map(Column::from));
    for u in all {
        let times = [u.watched_s, u.up_s, u.address_s, u.good_s];
        let times = times.map(|s| Cell::Is(lasting(s)));
        let stability = Cell::printed(&u.stability, |v| format!("{} %", percent(v)));
        table.row(&*u.interface, times.into_iter().chain([stability]));
    }
    (!table.is_empty()).then_some(table)
}

/// Formats a share in percent, rounded: the counters tick 100 times a second.
fn share(v: f64) -> String {
    format!("{} %", significant(100.0 * v, 2))
}

/// Returns what the host's load says about each target, suspicions first; empty if the host was never busy.
pub fn sentences(host: Option<&HostSummary>) -> Vec<String> {
    let Some(host) = host.filter(|h| h.busy_s > 0.0) else {
        return Vec::new();
    };
    let mut seconds: Vec<&BusySeconds> = host.seconds.iter().collect();
    seconds.sort_by_key(|s| !s.suspects_host());
    let mut said = vec![format!(
        "Busy, with {} % of all processors or more, for {}.",
        percent(BUSY),
        lasting(host.busy_s)
    )];
    said.extend(seconds.into_iter().map(|s| {
        let counts = format!(
            "busy in {} of {} bad seconds and in {} of {} others",
            s.bad_busy, s.bad, s.others_busy, s.others
        );
        match s.suspects_host() {
            true => format!("{}: {counts}. This host may be the cause.", s.target),
            false => format!(
                "{}: {counts}. No sign that this host is the cause.",
                s.target
            ),
        }
    }));
    said
}

/// Returns the means of the processors' shares by kind of work; `None` if no part is known.
pub fn parts(host: Option<&HostSummary>) -> Option<String> {
    let host = host?;
    let parts = [
        ("user", host.cpu_user),
        ("system", host.cpu_system),
        ("interrupts", host.cpu_interrupt),
        ("waiting for a disk", host.cpu_wait),
    ];
    let known = parts
        .into_iter()
        .filter_map(|(name, shares)| Some(format!("{name} {}", share(shares?.mean))));
    let known: Vec<String> = known.collect();
    (!known.is_empty()).then(|| format!("on average {}", known.join(", ")))
}

/// Definition of a bad second.
pub const BAD: &str = "Bad seconds: a probe was lost, or later than its target's 95 % point.";

#[cfg(test)]
mod tests {
    use super::*;

    fn host(bad_busy: u64, others_busy: u64) -> HostSummary {
        let seconds = BusySeconds {
            target: "udp".into(),
            bad: 20,
            bad_busy,
            others: 200,
            others_busy,
            chance: (bad_busy > 10).then_some(0.005),
        };
        HostSummary {
            samples: 220,
            cpu: None,
            cpu_user: None,
            cpu_system: None,
            cpu_interrupt: None,
            cpu_wait: None,
            busy_s: (bad_busy + others_busy) as f64,
            seconds: vec![seconds],
        }
    }

    #[test]
    fn a_host_busy_in_bad_seconds_is_named_and_an_idle_one_is_not() {
        let said = sentences(Some(&host(12, 3)));
        assert!(said[1].contains("12 of 20 bad seconds") && said[1].contains("may be the cause"));
        let said = sentences(Some(&host(4, 60)));
        assert!(said[1].contains("No sign"), "{said:?}");
        assert!(sentences(Some(&host(0, 0))).is_empty() && sentences(None).is_empty());
        assert!(table(Some(&host(1, 1)), &[]).is_none(), "nothing is known");
    }
}
