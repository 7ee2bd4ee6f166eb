//! Hop on which packets wait.
//!
//! **Method.** Datagrams whose hop limit runs out at the first, second, … hop, one round a second, and ICMP echo to all
//! hosts that answered; beside them probes of a session with the server and fresh TCP connections. The link is idle,
//! then TCP fills the uplink, then the downlink. `differ` assigns the added delay to a hop. ICMP is favoured if echo to
//! a host waits less than datagrams to the same host do.
//!
//! **Source.** "Real-Time Applications in Smart Grids Using Internet Communications: Latency Issues and Mitigations",
//! NTNU 2014, section 4.7.2 and tables 8 and 9 (first and second hop while saturated, traceroute beside ping);
//! A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi 2012, section
//! 3.4 (c), (d) and (f) and tables 6.4.1 and 6.4.2 (gateway, landmarks, share of the last hop). RFC 792, Internet Control Message Protocol; RFC 4443, Internet
//! Control Message Protocol (ICMPv6) for the Internet Protocol Version 6 (IPv6) Specification.
//!
//! **Deviations.** Datagrams are of one flow, so that routers that share load show one path. Rounds are compared with
//! themselves rather than means with means.
//!
//! **Units.** ms.
//!
//! **Validated against.** Chains of emulated links with the kernel's own routers between them: docs/book/probe/path.md.

mod by_size;
mod differ;
mod landmarks;
pub(crate) mod seen;
mod steps;

use super::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use super::spec::{How, Spec};
use base::Duration;
use base::print::significant;
use base::record::Direction;
use base::record::Recording;
use base::spec::{Params as _, choices, params};
use base::words::Words;
use differ::{Differences, LEAST_MS, Place, differences};
use seen::{IDLE, Phase, Seen};
use stats::Figure;
use std::collections::BTreeMap;
use std::sync::Arc;

choices! {
    /// Directions to fill.
    pub enum Load { Both = "both", Up = "up", Down = "down", None = "none" }
}

impl Load {
    /// Directions to fill.
    pub fn directions(self) -> &'static [Direction] {
        match self {
            Load::Both => &[Direction::Up, Direction::Down],
            Load::Up => &[Direction::Up],
            Load::Down => &[Direction::Down],
            Load::None => &[],
        }
    }
}

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "path": "Which hops are on the path, and at which of them do packets wait under load?", ["Real-Time Applications in Smart Grids Using Internet Communications, NTNU 2014, section 4.7.2",
            "RFC 792, Internet Control Message Protocol",
            "RFC 4443, Internet Control Message Protocol (ICMPv6) for the Internet Protocol Version 6 (IPv6) Specification",] {
        /// directions to fill, one after the other
        load: Load = "both";
        /// time at rest
        idle: Duration = "15 s" ["5 s".."600 s"];
        /// length of each load, within the budget
        hold: Duration = "25 s" ["5 s".."600 s"];
        /// interval between rounds; Linux routers answer once a second
        interval: Duration = "1 s" ["100 ms".."10 s"];
        /// greatest number of hops
        hops: usize = "30" ["1".."64"];
        /// TCP flows of each load
        flows: u32 = "4" ["1".."64"];
        /// blocks of 18 rounds with packets of six sizes, to find the capacity of each hop; 0 leaves them out, 8 take 2.5 minutes
        blocks: usize = "0" ["0".."100"], "Chandele 2012, section 2.1";
        /// other hosts to ping, once a round, to find the gateway's share of each round trip
        landmarks: Vec<Arc<str>> as List(Name), "Chandele 2012, tables 6.4.1 and 6.4.2";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "90 s, 50 s of them at the link's full rate (the directions share --budget)",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer,
};

/// Milliseconds without digits that say nothing here.
fn plain(ms: f64) -> String {
    if ms.abs() < 10.0 {
        significant((ms * 10.0).round() / 10.0 + 0.0, 3)
    } else {
        significant(ms, 3)
    }
}

fn show(ms: f64) -> String {
    format!("{} ms", plain(ms))
}

fn shown(figure: &Figure) -> String {
    match figure {
        Figure::Is { value, low, high } => {
            format!("{} ms ({} to {})", plain(*value), plain(*low), plain(*high))
        }
        Figure::CannotTell { .. } => "–".into(),
    }
}

/// Effect of a load in one direction.
struct Loaded<'a> {
    phase: &'a Phase,
    differences: Differences,
    /// Reason why its differences tell nothing.
    void: Option<String>,
    icmp: Icmp,
}

/// ICMP beside datagrams to the same host.
struct Icmp {
    hosts: Vec<Asked>,
    favoured: Figure,
}

/// Delay that load adds to the round trips of one host, by kind of probe, ms.
struct Asked {
    host: String,
    datagrams: Figure,
    tcp: Figure,
    echo: Figure,
}

impl Asked {
    fn both(&self) -> bool {
        self.datagrams.value().is_some() && self.echo.value().is_some()
    }
}

struct Path<'a> {
    seen: &'a Seen,
    idle: &'a Phase,
    /// Hop of the server, if it answered.
    end: Option<usize>,
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let seen = Seen::of(recording);
    let Some(idle) = seen.phase(IDLE) else {
        return Outcome::cannot_tell("the run ended before the link was looked at");
    };
    let end = seen.hops.iter().position(|h| h.is_server()).map(|i| i + 1);
    let path = Path {
        seen: &seen,
        idle,
        end,
    };
    let loads: Vec<Loaded> = seen
        .phases
        .iter()
        .filter(|p| p.name != IDLE)
        .map(|p| path.loaded(p))
        .collect();
    let mut out = Outcome {
        says: path.says(&loads),
        doubts: path.doubts(&loads),
        ..Outcome::default()
    };
    for l in &loads {
        path.queue_figures(l, &mut out.figures);
    }
    path.round_trips(&loads, &mut out.figures);
    path.capacities(&mut out.figures);
    for l in &loads {
        let name = format!(
            "ICMP favoured under load {}wards (1 yes, 0 no)",
            l.phase.name
        );
        let key = format!("icmp_favoured_{}", l.phase.name);
        out.figures
            .push(Figured::count(&key, &name, l.icmp.favoured.clone()));
    }
    out.evidence = path.evidence(&loads);
    out.advice = path.advice(&loads);
    out.tables = path.tables(&loads);
    out.plots = path.plots(&loads);
    out
}

impl Path<'_> {
    /// Round trips of a hop by round.
    fn place(&self, hop: usize, loaded: &Phase) -> Place {
        let rounds = |phase| -> BTreeMap<i64, f64> {
            let series = self.seen.in_phase(&format!("hop{hop}"), phase);
            series
                .into_iter()
                .filter_map(|(seq, (_, ms))| Some((seq, ms?)))
                .collect()
        };
        Place {
            hop: Some(hop),
            idle: rounds(self.idle),
            loaded: rounds(loaded),
            lost: self.lost(&format!("hop{hop}"), loaded),
        }
    }

    /// Share of a target's probes that load loses, beyond those that are lost at rest.
    fn lost(&self, target: &str, loaded: &Phase) -> f64 {
        let share = |phase| {
            let asked = self.seen.in_phase(target, phase).len().max(1);
            1.0 - self.seen.answered(target, phase).len() as f64 / asked as f64
        };
        (share(loaded) - share(self.idle)).max(0.0)
    }

    fn loaded<'a>(&self, phase: &'a Phase) -> Loaded<'a> {
        let hops = self.end.map_or(self.seen.hops.len(), |n| n - 1);
        let mut places: Vec<Place> = (1..=hops).map(|h| self.place(h, phase)).collect();
        let session = Place {
            hop: self.end,
            idle: self.seen.session_at_rounds(self.idle),
            loaded: self.seen.session_at_rounds(phase),
            lost: self.lost("udp", phase),
        };
        // The server itself answers both ways: by its kernel's ICMP, and in the session.
        let void = self.end.and_then(|n| {
            match differ::added(&self.place(n, phase), &session) {
                Figure::Is { value, low, .. } if low > LEAST_MS => Some(format!(
                    "the server's own answers to datagrams with a hop limit waited {} less than its answers in the session: what \
                     tells of hops does not wait where the load does (ICMP is favoured, or flows are kept apart)",
                    show(value)
                )),
                _ => None,
            }
        });
        places.push(session);
        Loaded {
            phase,
            differences: differences(&places),
            void,
            icmp: self.icmp(phase, hops),
        }
    }

    /// Delay that load adds to the round trips of a target.
    fn added(&self, target: &str, phase: &Phase) -> Figure {
        differ::less(
            &self.seen.answered(target, phase),
            &self.seen.answered(target, self.idle),
        )
    }

    fn icmp(&self, phase: &Phase, hops: usize) -> Icmp {
        let mut hosts: Vec<Asked> = (1..=hops)
            .map(|h| Asked {
                host: format!("hop {h}"),
                datagrams: self.added(&format!("hop{h}"), phase),
                tcp: Figure::cannot_tell("not asked"),
                echo: self.added(&format!("echo{h}"), phase),
            })
            .collect();
        hosts.push(Asked {
            host: "server".into(),
            datagrams: self.added("udp", phase),
            tcp: self.added("tcp-connect", phase),
            echo: self.added("icmp", phase),
        });
        hosts.retain(|a| a.datagrams.value().is_some() || a.echo.value().is_some());
        // The farthest host that answers both ways has every queue before it.
        let favoured = match hosts.iter().rev().find(|a| a.both()) {
            Some(asked) => favoured(asked),
            None => Figure::cannot_tell(match &self.seen.no_echo {
                Some(why) => format!(
                    "this host may not send ICMP echo ({why}); as root: sysctl -w net.ipv4.ping_group_range='0 2147483647'"
                ),
                None => "no host answered both datagrams and ICMP echo".into(),
            }),
        };
        Icmp { hosts, favoured }
    }

    /// Name of a hop for people.
    fn named(&self, hop: usize) -> String {
        if Some(hop) == self.end {
            return format!("hop {hop} (the server)");
        }
        let who = hop.checked_sub(1).and_then(|i| self.seen.hops.get(i));
        let address = who.and_then(|w| w.addresses.first());
        let gateway = if hop == 1 && self.seen.gateway.is_some() {
            "the gateway, "
        } else {
            ""
        };
        match address {
            Some(a) => format!("hop {hop} ({gateway}{a})"),
            None => format!("hop {hop}"),
        }
    }

    fn stretch(&self, s: &differ::Stretch) -> String {
        match s.to {
            Some(to) if to == s.behind + 1 => format!("on the way to {}", self.named(to)),
            Some(to) => format!("between {} and {}", self.behind(s.behind), self.named(to)),
            None => format!("behind {}, before the server", self.behind(s.behind)),
        }
    }

    fn behind(&self, hop: usize) -> String {
        match hop {
            0 => "this host".into(),
            _ => self.named(hop),
        }
    }

    fn says(&self, loads: &[Loaded]) -> String {
        let mut said = match (self.end, self.seen.hops.len()) {
            (Some(1), _) => "The server is a neighbour: no router lies between.".into(),
            (Some(n), _) => format!("{n} hops to the server."),
            (None, 0) => "No hop says anything of itself.".to_string(),
            (None, n) => format!("{n} hops are seen; the server says nothing of its own."),
        };
        for l in loads {
            let way = format!(" Loaded {}wards, ", l.phase.name);
            said += &way;
            if l.void.is_some() {
                said += "it cannot be told on which hop packets wait.";
                continue;
            }
            match l.differences.queue() {
                Some(s) => {
                    said += &format!(
                        "packets wait {}, {} longer than at rest.",
                        self.stretch(s),
                        shown(&s.added)
                    );
                }
                None => match self.added("udp", l.phase) {
                    Figure::Is { high, .. } if high < 5.0 * LEAST_MS => {
                        said +=
                            &format!("packets wait nowhere: load adds less than {}.", show(high));
                    }
                    all => {
                        said += &format!(
                            "it cannot be told on which hop packets wait, {} longer in all.",
                            shown(&all)
                        );
                    }
                },
            }
        }
        if let Some((hop, ms)) = self.varying() {
            said += &format!(
                " At rest already round trips vary by {} from {} on, as over a radio link, or where these datagrams take so long that they wait for each other: no queue of this load's.",
                show(ms),
                self.named(hop)
            );
        }
        said
    }

    /// First hop from which on round trips vary at rest.
    fn varying(&self) -> Option<(usize, f64)> {
        let spreads: Vec<(usize, f64)> = (1..=self.seen.hops.len())
            .filter_map(|h| {
                let ms = self.seen.answered(&format!("hop{h}"), self.idle);
                Some((h, differ::spread(&ms)?))
            })
            .collect();
        let all: Vec<f64> = spreads.iter().map(|s| s.1).collect();
        let (i, ms) = differ::varies(&all)?;
        Some((spreads[i].0, ms))
    }

    /// Capacity of the link before each hop, if packets of several sizes were sent.
    fn capacities(&self, figures: &mut Vec<Figured>) {
        if self.seen.sized.is_empty() {
            return;
        }
        let hops = self.end.unwrap_or(self.seen.hops.len());
        let samples: Vec<_> = (1..=hops).map(|h| self.seen.by_size(h)).collect();
        for (h, figure) in (1..).zip(by_size::capacities(&samples)) {
            let name = format!(
                "capacity of the link before {}, by packet size",
                self.named(h)
            );
            figures.push(Figured::rate(
                &format!("capacity_hop{h}_bps"),
                &name,
                figure,
            ));
        }
    }

    fn queue_figures(&self, l: &Loaded, figures: &mut Vec<Figured>) {
        let way = &l.phase.name;
        let (hop, ms) = match (&l.void, l.differences.queue()) {
            (Some(why), _) => (
                Figure::cannot_tell(why.clone()),
                Figure::cannot_tell(why.clone()),
            ),
            (None, Some(s)) => {
                let low = (s.behind + 1) as f64;
                let hop = match s.to {
                    Some(to) => Figure::Is {
                        value: to as f64,
                        low,
                        high: to as f64,
                    },
                    None => Figure::cannot_tell(format!(
                        "behind hop {}, and how many follow until the server is not known",
                        s.behind
                    )),
                };
                (hop, s.added.clone())
            }
            (None, None) => {
                let why = match self.added("udp", l.phase) {
                    Figure::Is { value, .. } => format!(
                        "load adds {} in all, and on no hop by itself more than {}",
                        show(value),
                        show(LEAST_MS)
                    ),
                    Figure::CannotTell { cannot_tell } => cannot_tell,
                };
                (Figure::cannot_tell(why.clone()), Figure::cannot_tell(why))
            }
        };
        figures.extend([
            Figured::count(
                &format!("queue_hop_{way}"),
                &format!("packets wait on the way to hop, loaded {way}wards"),
                hop,
            ),
            Figured::time(
                &format!("queue_{way}_ms"),
                &format!("how much longer there, loaded {way}wards"),
                ms,
            ),
            Figured::time(
                &format!("added_{way}_ms"),
                &format!("how much longer in all, loaded {way}wards"),
                self.added("udp", l.phase),
            ),
        ]);
        // What BFind calls the buffer, seen from the first two hops.
        for (hop, key, name) in [
            (1, "first_hop", "first hop"),
            (2, "second_hop", "second hop"),
        ] {
            if hop <= self.seen.hops.len() {
                figures.push(Figured::time(
                    &format!("{key}_added_{way}_ms"),
                    &format!("how much longer to the {name}, loaded {way}wards"),
                    self.added(&format!("hop{hop}"), l.phase),
                ));
            }
        }
    }

    fn round_trips(&self, loads: &[Loaded], figures: &mut Vec<Figured>) {
        let mean = |target: &str, phase: &Phase| {
            let ms = self.seen.answered(target, phase);
            match ms.is_empty() {
                true => Figure::cannot_tell("no answer"),
                false => stats::mean_figure(&ms),
            }
        };
        let phases = std::iter::once(self.idle).chain(loads.iter().map(|l| l.phase));
        for phase in phases {
            let when = match phase.name.as_str() {
                IDLE => "at rest".to_string(),
                way => format!("loaded {way}wards"),
            };
            for (key, name, target) in [
                ("first_hop", "first hop", "hop1"),
                ("second_hop", "second hop", "hop2"),
                ("server", "server", self.seen.whole()),
            ] {
                if target == "hop2" && self.seen.hops.len() < 2 {
                    continue;
                }
                figures.push(Figured::time(
                    &format!("{key}_{}_ms", phase.name),
                    &format!("round trip to the {name}, {when}"),
                    mean(target, phase),
                ));
            }
        }
        for (hop, key, name) in [
            (1, "first_hop_share", "first"),
            (2, "second_hop_share", "second"),
        ] {
            if hop <= self.seen.hops.len() && Some(hop) != self.end {
                figures.push(Figured::share(key, &format!("share of the way to the {name} hop in the round trip to the server, at rest"), self.share(hop)));
            }
        }
        figures.extend(landmarks::figures(self.seen, self.idle));
    }

    /// Median round trip of a hop at rest as a share of the server's.
    fn share(&self, hop: usize) -> Figure {
        let median =
            |target: &str| stats::quantile_figure(&self.seen.answered(target, self.idle), 0.5);
        match (median(&format!("hop{hop}")), median(self.seen.whole())) {
            (
                Figure::Is { value, low, high },
                Figure::Is {
                    value: whole,
                    low: least,
                    high: most,
                },
            ) if least > 0.0 => Figure::Is {
                value: value / whole,
                low: low / most,
                high: high / least,
            },
            _ => Figure::cannot_tell("one of them did not answer"),
        }
    }

    fn evidence(&self, loads: &[Loaded]) -> Vec<String> {
        let mut out = Vec::new();
        for l in loads {
            let way = &l.phase.name;
            for s in l
                .differences
                .stretches
                .iter()
                .filter(|s| s.added.value().is_some())
            {
                out.push(format!(
                    "Loaded {way}wards, {} round trips grow by {}.",
                    self.stretch(s),
                    shown(&s.added)
                ));
            }
            for (hop, ms) in &l.differences.own {
                out.push(format!(
                    "Loaded {way}wards, {} answers at least {} later than hops behind it do: its own answering, and no queue on the way.",
                    self.named(*hop),
                    show(*ms)
                ));
            }
            if let Some(why) = &l.void {
                out.push(format!("Loaded {way}wards, {why}."));
            }
        }
        let (sent, answered) = self.seen.counts("udp");
        if sent > 0 {
            out.push(format!(
                "{} of {sent} probes of the session were lost.",
                sent - answered
            ));
        }
        out
    }

    fn advice(&self, loads: &[Loaded]) -> Vec<String> {
        let mut out = Vec::new();
        for l in loads.iter().filter(|l| l.void.is_none()) {
            let Some(s) = l.differences.queue() else {
                continue;
            };
            let up = l.phase.name == "up";
            let gateway = self.seen.gateway.is_some();
            out.push(match (s.behind, s.to, up) {
                (0, Some(1), _) if gateway => "Between this host and its gateway: the Wi-Fi, or a cable that is slower than the link. Try it by cable, or \
                    put fair queueing where Wi-Fi is sent from.".into(),
                (0, Some(1), true) => "On the first stretch: an AQM on this host's own interface, at a rate a little below the link's, takes the queue away.".into(),
                (1, Some(2), true) if gateway => "In the gateway or the modem behind it: an AQM with fair queueing there (fq_codel, CAKE) at a rate a little below the link's.".into(),
                (_, _, false) if s.behind <= 1 => "At the provider's end of the access line: shape what comes in, in the gateway, to a little less than the link's rate.".into(),
                _ => format!("Beyond the access line, {}: nothing that this end can set; the provider can.", self.stretch(s)),
            });
        }
        out.dedup();
        out
    }

    fn doubts(&self, loads: &[Loaded]) -> Vec<String> {
        let mut out = self.seen.budget.clone();
        if let Some(why) = &self.seen.no_echo {
            out.push(format!("no ICMP echo: {why}"));
        }
        for l in loads {
            let rounds = self.seen.in_phase("hop1", l.phase).len();
            if rounds < 10 {
                out.push(format!(
                    "loaded {}wards there were {rounds} rounds only",
                    l.phase.name
                ));
            }
        }
        out
    }

    /// Peculiarity of a hop's answers.
    fn remark(&self, hop: usize, loads: &[Loaded]) -> String {
        let mut remarks: Vec<String> = Vec::new();
        let who = &self.seen.hops[hop - 1];
        let share = |h: usize| {
            let (sent, answered) = self.seen.counts(&format!("hop{h}"));
            (sent > 0).then(|| answered as f64 / sent as f64)
        };
        if Some(hop) == self.end {
            remarks.push("the server".into());
        }
        if hop == 1 && self.seen.gateway.is_some() && Some(1) != self.end {
            let is = self.seen.gateway.as_ref();
            let same = is.is_some_and(|g| who.addresses.contains(g));
            remarks.push(match (same, is) {
                (false, Some(g)) if !who.addresses.is_empty() => format!("the gateway, here {g}"),
                _ => "the gateway".into(),
            });
        }
        let farther = (hop + 1..=self.seen.hops.len())
            .filter_map(share)
            .fold(0.0, f64::max);
        match share(hop) {
            Some(0.0) | None => remarks.push("says nothing".into()),
            Some(s) if s < 0.9 && farther > s + 0.1 => remarks.push(format!(
                "answers {} % only, and hops behind it more: it limits its answers",
                significant(s * 100.0, 2)
            )),
            Some(_) => {}
        }
        if who.addresses.len() > 1 {
            remarks.push(format!("{} addresses", who.addresses.len()));
        }
        if who.end.is_object() {
            let code = |key: &str| {
                who.end
                    .get(key)
                    .and_then(serde_json::Value::as_u64)
                    .unwrap_or(0)
            };
            remarks.push(format!(
                "lets nothing pass (ICMP type {}, code {})",
                code("icmp_type"),
                code("icmp_code")
            ));
        }
        if loads.iter().any(|l| l.differences.own.contains_key(&hop)) {
            remarks.push("slow to answer by itself".into());
        }
        remarks.join("; ")
    }

    fn tables(&self, loads: &[Loaded]) -> Vec<Table> {
        let mut tables = vec![self.hop_table(loads)];
        tables.extend(landmarks::table(self.seen, self.idle));
        let mean = |hop: usize, phase: &Phase| {
            stats::moments(&self.seen.answered(&format!("hop{hop}"), phase))
        };
        let rows: Vec<Vec<String>> = std::iter::once(self.idle)
            .chain(loads.iter().map(|l| l.phase))
            .map(|phase| {
                let (one, two) = (mean(1, phase), mean(2, phase));
                let cell = |m: &Option<stats::Moments>, f: fn(&stats::Moments) -> f64| {
                    m.as_ref().map_or("–".into(), |m| significant(f(m), 3))
                };
                let n = self.seen.answered("hop1", phase).len();
                vec![
                    phase.name.clone(),
                    n.to_string(),
                    cell(&one, |m| m.mean),
                    cell(&two, |m| m.mean),
                    cell(&one, |m| m.sd),
                    cell(&two, |m| m.sd),
                ]
            })
            .collect();
        tables.push(Table::new(
            "First and second hop, at rest and while the link is full",
            [
                "phase",
                "samples",
                "first hop, mean ms",
                "second hop, mean ms",
                "first hop, SD",
                "second hop, SD",
            ],
            rows,
        ));
        let rows: Vec<Vec<String>> = loads
            .iter()
            .flat_map(|l| {
                l.icmp.hosts.iter().map(|a| {
                    vec![
                        a.host.clone(),
                        l.phase.name.clone(),
                        shown(&a.datagrams),
                        shown(&a.tcp),
                        shown(&a.echo),
                    ]
                })
            })
            .collect();
        if !rows.is_empty() {
            tables.push(Table::new(
                "What load adds, by how the same host is asked",
                ["host", "loaded", "datagrams", "TCP set-up", "ICMP echo"],
                rows,
            ));
        }
        tables
    }

    fn hop_table(&self, loads: &[Loaded]) -> Table {
        let median = |target: &str, phase: &Phase| {
            let ms = stats::sorted(&self.seen.answered(target, phase));
            stats::quantile_of_sorted(&ms, 0.5)
        };
        let cell = |ms: Option<f64>| ms.map_or("–".into(), |ms| significant(ms, 3));
        let session = self.seen.whole();
        let whole = median(session, self.idle);
        let mut columns: Vec<String> = ["hop", "address", "at rest, ms", "share"]
            .map(String::from)
            .to_vec();
        for l in loads {
            columns.push(format!("loaded {}, ms", l.phase.name));
        }
        columns.extend(["echo at rest, ms", "answered", "remarks"].map(String::from));
        let mut rows = Vec::new();
        for hop in 1..=self.seen.hops.len() {
            let target = format!("hop{hop}");
            let rest = median(&target, self.idle);
            let (sent, answered) = self.seen.counts(&target);
            let address = self.seen.hops[hop - 1].addresses.first().cloned();
            let share = rest.zip(whole).map(|(r, w)| r / w * 100.0);
            let mut row = vec![
                hop.to_string(),
                address.unwrap_or("–".into()),
                cell(rest),
                share.map_or("–".into(), |s| format!("{} %", significant(s, 2))),
            ];
            row.extend(loads.iter().map(|l| cell(median(&target, l.phase))));
            row.extend([
                cell(median(&format!("echo{hop}"), self.idle)),
                format!("{answered} of {sent}"),
                self.remark(hop, loads),
            ]);
            rows.push(row);
        }
        let (sent, answered) = self.seen.counts(session);
        let mut row = vec![
            "server".into(),
            self.seen.server.clone().unwrap_or("–".into()),
            cell(whole),
            whole.map_or("–".into(), |_| "100 %".into()),
        ];
        row.extend(loads.iter().map(|l| cell(median(session, l.phase))));
        row.extend([
            cell(median("icmp", self.idle)),
            format!("{answered} of {sent}"),
            match session {
                "udp" => "probes of our session with it".into(),
                _ => "ICMP echo".into(),
            },
        ]);
        rows.push(row);
        Table {
            title: "Hops".into(),
            columns,
            rows,
        }
    }

    fn plots(&self, loads: &[Loaded]) -> Vec<Plot> {
        let by_hop = std::iter::once(self.idle)
            .chain(loads.iter().map(|l| l.phase))
            .map(|phase| {
                let at = |hop: usize| {
                    let ms = stats::sorted(&self.seen.answered(&format!("hop{hop}"), phase));
                    stats::quantile_of_sorted(&ms, 0.5)
                };
                let hops = (1..=self.seen.hops.len()).map(|h| (h as f64, at(h)));
                Series::new(
                    match phase.name.as_str() {
                        IDLE => "at rest".into(),
                        way => format!("loaded {way}"),
                    },
                    Draw::Knots,
                    std::iter::once((0.0, Some(0.0)))
                        .chain(hops.filter(|p| p.1.is_some()))
                        .collect(),
                )
            })
            .collect();
        let mut course = vec![Series::new(
            "server",
            Draw::Thin,
            self.seen.course(self.seen.whole()),
        )];
        for hop in (1..=self.seen.hops.len())
            .filter(|h| Some(*h) != self.end)
            .take(4)
        {
            course.push(Series::new(
                format!("hop {hop}"),
                Draw::Marks,
                self.seen.course(&format!("hop{hop}")),
            ));
        }
        vec![
            Plot::new("Median round trip to each hop", ("hop", "ms"), by_hop),
            Plot::new("Round trips while it ran", ("s", "ms"), course),
        ]
    }
}

/// Figure: 1 if ICMP echo waits less than datagrams do, 0 if it waits as long.
fn favoured(asked: &Asked) -> Figure {
    let (
        Figure::Is { value, low, high },
        Figure::Is {
            value: echo,
            low: echo_low,
            high: echo_high,
        },
    ) = (&asked.datagrams, &asked.echo)
    else {
        return Figure::cannot_tell("one of them was not answered");
    };
    if *low > echo_high + LEAST_MS && *echo < 0.7 * value {
        Figure::exactly(1.0)
    } else if *low > LEAST_MS && *echo_low > LEAST_MS && *echo > 0.7 * value {
        Figure::exactly(0.0)
    } else if *high < 2.0 * LEAST_MS {
        Figure::cannot_tell(format!(
            "load adds {} to datagrams: too little to compare",
            show(*value)
        ))
    } else {
        Figure::cannot_tell(format!(
            "load adds {} to datagrams to the {} and {} to ICMP echo, which overlap",
            shown(&asked.datagrams),
            asked.host,
            shown(&asked.echo)
        ))
    }
}
