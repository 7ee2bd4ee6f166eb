//! Incidents of a recording other than those of its link: clocks that were set, a host that slept, addresses and
//! servers that changed, interfaces that were away, and times without a recorder.
//!
//! **Method.** Incidents are read from the events that a monitor writes and from its rows of availability. Labels of
//! time follow the wall clock where it was set by a second or more: a hole as long as the step is no gap, for nothing
//! is missing from it. If the clock was set back, the labels of that stretch occur twice.
//!
//! **Limits.** Only noticed incidents are listed; a clock that is wrong all the time is not noticed.

use crate::holes::{Gap, Outage};
use base::record::{Availability, Event};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;

/// Kind of an incident.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum IncidentKind {
    /// Wall clock of this host set forward by `seconds`; back if that is negative.
    ClockSet,
    /// Wall clock of the far end set.
    FarClockSet,
    /// A time service steers this host's clocks at another rate.
    ClockSteered,
    HostSlept,
    AddressChanged,
    /// The server no longer knew the session, so a new one was opened.
    ServerBeganAnew,
    InterfaceDown,
    NoAddress,
    NotWatched,
}

/// An event at `from_ns`, or one that lasted until `to_ns`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Incident {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Kind of the incident.
    pub kind: IncidentKind,
    /// Target or interface; empty if it is this host.
    pub subject: String,
    /// Duration, or size of the step; null if that has no meaning.
    pub seconds: Option<f64>,
    /// Old and new value.
    pub detail: String,
    /// Shift of the time labels, ns.
    #[serde(skip)]
    moved_ns: i64,
}

impl Incident {
    fn at(t_ns: i64, kind: IncidentKind, subject: &str) -> Incident {
        Incident {
            from_ns: t_ns,
            to_ns: t_ns,
            kind,
            subject: subject.into(),
            seconds: None,
            detail: String::new(),
            moved_ns: 0,
        }
    }
}

impl Incident {
    /// True if the incident may have to do with the target: one that is probed through one interface, such as
    /// `udp%wan0`, has nothing to do with the state of others.
    fn concerns(&self, target: &str) -> bool {
        match self.kind {
            IncidentKind::InterfaceDown | IncidentKind::NoAddress => target
                .split_once('%')
                .is_none_or(|(_, interface)| self.subject == interface),
            IncidentKind::ServerBeganAnew => self.subject == target,
            _ => true,
        }
    }
}

/// Incidents in the order of time. `events` are in the order of writing: after the clock was set back, later events
/// have earlier labels.
pub fn incidents(events: &[Event], availability: &[Availability]) -> Vec<Incident> {
    let mut found = Vec::new();
    let mut targets: BTreeMap<&str, Target> = BTreeMap::new();
    for e in events {
        let detail: Value = serde_json::from_str(&e.detail).unwrap_or_default();
        let int = |key: &str| detail.get(key).and_then(Value::as_i64);
        match &*e.kind {
            "clock" => found.extend(clock(e, &int)),
            "address" => {
                targets.entry(&e.subject).or_default().session = Session::Expected;
                let text = |key: &str| detail.get(key).and_then(Value::as_str);
                found.push(Incident {
                    detail: format!(
                        "{}, now {}",
                        text("from").unwrap_or("unknown"),
                        text("to").unwrap_or("unknown")
                    ),
                    ..Incident::at(e.t_ns, IncidentKind::AddressChanged, &e.subject)
                });
            }
            "session" => {
                let t = targets.entry(&e.subject).or_default();
                if t.session == Session::Known {
                    found.push(Incident::at(
                        e.t_ns,
                        IncidentKind::ServerBeganAnew,
                        &e.subject,
                    ));
                }
                t.session = Session::Known;
            }
            "target" => {
                let t = targets.entry(&e.subject).or_default();
                t.session = Session::Expected;
                let not_watched = |from| Incident::at(from, IncidentKind::NotWatched, &e.subject);
                match t.watch {
                    Watch::Never => {}
                    Watch::Since => found.push(Incident {
                        detail: "the monitor had ended without a word".into(),
                        ..not_watched(e.t_ns)
                    }),
                    Watch::Until(ended) => found.push(Incident {
                        to_ns: e.t_ns,
                        seconds: Some((e.t_ns - ended) as f64 / 1e9),
                        ..not_watched(ended)
                    }),
                }
                t.watch = Watch::Since;
            }
            "target_end" => {
                targets.entry(&e.subject).or_default().watch = Watch::Until(e.t_ns);
            }
            _ => {}
        }
    }
    found.extend(interfaces(availability));
    found.sort_by_key(|i| i.from_ns);
    found
}

#[derive(Default)]
struct Target {
    watch: Watch,
    session: Session,
}

#[derive(Default)]
enum Watch {
    #[default]
    Never,
    Since,
    Until(i64),
}

/// True if a new session means that the server restarted.
#[derive(Default, PartialEq)]
enum Session {
    #[default]
    Expected,
    Known,
}

fn clock(e: &Event, int: &dyn Fn(&str) -> Option<i64>) -> Option<Incident> {
    let seconds = |ns: i64| Some(ns as f64 / 1e9);
    let at = |kind| Incident::at(e.t_ns, kind, "");
    if let Some(by) = int("wall_clock_stepped_by_ns") {
        return Some(Incident {
            seconds: seconds(by),
            moved_ns: int("labels_move_by_ns").unwrap_or(0),
            ..at(IncidentKind::ClockSet)
        });
    }
    if let Some(by) = int("far_clock_stepped_by_about_ns") {
        return Some(Incident {
            seconds: seconds(by),
            ..at(IncidentKind::FarClockSet)
        });
    }
    if let Some(slept) = int("host_slept_for_ns") {
        return Some(Incident {
            from_ns: e.t_ns - slept,
            seconds: seconds(slept),
            ..at(IncidentKind::HostSlept)
        });
    }
    let (from, to) = (int("slew_from_ppm")?, int("slew_to_ppm")?);
    Some(Incident {
        detail: format!("by {to} parts in a million, before {from}"),
        ..at(IncidentKind::ClockSteered)
    })
}

/// Stretches in which an interface was down, or had no address that reaches beyond its link.
fn interfaces(rows: &[Availability]) -> Vec<Incident> {
    let mut found: Vec<Incident> = Vec::new();
    // Index of the stretch that goes on, for each interface.
    let mut open: BTreeMap<&str, usize> = BTreeMap::new();
    for row in rows {
        let kind = match (row.up, row.address) {
            (false, _) => IncidentKind::InterfaceDown,
            (true, false) => IncidentKind::NoAddress,
            (true, true) => {
                open.remove(&*row.interface);
                continue;
            }
        };
        let going = open.get(&*row.interface).copied();
        match going.map(|i| &mut found[i]).filter(|i| i.kind == kind) {
            Some(i) => i.to_ns = row.t_ns,
            None => {
                open.insert(&row.interface, found.len());
                found.push(Incident {
                    to_ns: row.t_ns,
                    ..Incident::at(row.t_ns - row.interval_ns, kind, &row.interface)
                });
            }
        }
    }
    for i in &mut found {
        i.seconds = Some((i.to_ns - i.from_ns) as f64 / 1e9);
    }
    found
}

/// Stretches in which the network kept `target`'s probes from leaving: from a refusal to send until the next answer. An
/// interface that was down or had no address counts where the target itself tells nothing: what is known of interfaces is
/// coarse, and a probe may have waited for its session meanwhile. They are in order and do not overlap; one that nothing
/// ended lasts to `end_ns`. A probe that was not sent for another reason, such as a stopped process, is in none of them.
pub fn cut_off(
    events: &[Event],
    incidents: &[Incident],
    target: &str,
    end_ns: i64,
) -> Vec<(i64, i64)> {
    let mut spans: Vec<(i64, i64)> = Vec::new();
    let mut since = None;
    let faults = events
        .iter()
        .filter(|e| &*e.kind == "fault" && &*e.subject == target);
    for e in faults {
        let detail: Value = serde_json::from_str(&e.detail).unwrap_or_default();
        let says = |key: &str| detail.get(key).is_some();
        if says("trouble") || says("silent_for_ns") {
            since.get_or_insert(e.t_ns);
        } else if says("answers_again") || says("answers_again_after_ns") {
            spans.extend(since.take().map(|from| (from, e.t_ns)));
        }
    }
    spans.extend(since.map(|from| (from, end_ns)));
    let own = spans.clone();
    let is_down = |i: &&Incident| {
        use IncidentKind::{InterfaceDown, NoAddress};
        let is_told = own.iter().any(|o| o.0 <= i.to_ns && i.from_ns <= o.1);
        matches!(i.kind, InterfaceDown | NoAddress) && i.concerns(target) && !is_told
    };
    spans.extend(
        incidents
            .iter()
            .filter(is_down)
            .map(|i| (i.from_ns, i.to_ns)),
    );
    spans.retain(|(from, to)| from < to);
    spans.sort_unstable();
    let mut merged: Vec<(i64, i64)> = Vec::new();
    for (from, to) in spans {
        match merged.last_mut() {
            Some(last) if from <= last.1 => last.1 = last.1.max(to),
            _ => merged.push((from, to)),
        }
    }
    merged
}

/// Gives gaps of `target` their known reasons, and drops false ones: holes in the labels that a clock left when it was
/// set forward. `slack_ns`: greatest distance of a gap's ends from its cause.
pub fn explain(gaps: Vec<Gap>, target: &str, incidents: &[Incident], slack_ns: i64) -> Vec<Gap> {
    let near = |g: &Gap, i: &Incident| {
        i.from_ns <= g.to_ns.saturating_add(slack_ns)
            && g.from_ns.saturating_sub(slack_ns) <= i.to_ns
    };
    let mut left = Vec::new();
    for mut g in gaps {
        let about: Vec<&Incident> = incidents.iter().filter(|i| near(&g, i)).collect();
        let moved: i64 = about.iter().map(|i| i.moved_ns).sum();
        if moved > 0 && g.to_ns - g.from_ns - moved <= slack_ns {
            continue;
        }
        let why = about.iter().find_map(|i| match i.kind {
            IncidentKind::HostSlept => Some("this host slept"),
            IncidentKind::NotWatched if i.subject == target => Some("the monitor was not running"),
            IncidentKind::ClockSet if i.moved_ns > 0 => {
                Some("the clock was set forward in it: less is missing than it looks")
            }
            _ => None,
        });
        if let (true, Some(why)) = (g.reason.is_empty(), why) {
            g.reason = why.into();
        }
        left.push(g);
    }
    left
}

/// Interval at which the monitor reads the state of interfaces, ns: their incidents begin up to this late.
const READ_NS: i64 = 5_000_000_000;

/// Gives outages of `target` their causes: what this host noted of its interface, of itself or of the server at that
/// time. A state that lasted for a part of the outage explains that part only.
pub fn blame(outages: &mut [Outage], target: &str, incidents: &[Incident]) {
    const ORDER: [IncidentKind; 5] = [
        IncidentKind::InterfaceDown,
        IncidentKind::NoAddress,
        IncidentKind::HostSlept,
        IncidentKind::ServerBeganAnew,
        IncidentKind::AddressChanged,
    ];
    for o in outages {
        let near = |i: &&Incident| {
            let before_end = i.from_ns <= o.to_ns.saturating_add(READ_NS);
            i.concerns(target) && before_end && o.from_ns.saturating_sub(READ_NS) <= i.to_ns
        };
        let of = |kind: &IncidentKind| {
            let mut near = incidents.iter().filter(near);
            near.find(|i| i.kind == *kind)
        };
        let Some(found) = ORDER.iter().find_map(of) else {
            continue;
        };
        let covers = found.from_ns <= o.from_ns.saturating_add(READ_NS)
            && o.to_ns <= found.to_ns.saturating_add(READ_NS);
        let what = match found.kind {
            IncidentKind::InterfaceDown => format!("{} was down", found.subject),
            IncidentKind::NoAddress => format!("{} had no address", found.subject),
            IncidentKind::HostSlept => "this host slept".into(),
            IncidentKind::ServerBeganAnew => "the server began anew".into(),
            _ => format!("addresses of {} changed", found.subject),
        };
        let is_state = found.to_ns > found.from_ns;
        o.cause = match covers || !is_state {
            true => what,
            false => format!("in part: {what}"),
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: i64 = 1_000_000_000;

    fn event(s: i64, kind: &str, subject: &str, detail: &str) -> Event {
        Event {
            t_ns: s * S,
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.into(),
        }
    }

    #[test]
    fn an_outage_is_blamed_on_what_the_host_noted_then_and_on_nothing_else() {
        let outage = |from: i64, to: i64| Outage {
            from_ns: from * S,
            to_ns: to * S,
            lost: 10,
            ended: true,
            cause: String::new(),
        };
        let lasting = |kind, from: i64, to: i64| Incident {
            to_ns: to * S,
            ..Incident::at(from * S, kind, "wan")
        };
        let incidents = [
            lasting(IncidentKind::InterfaceDown, 104, 115),
            lasting(IncidentKind::ServerBeganAnew, 301, 301),
        ];
        let mut outages = [
            outage(100, 116),
            outage(200, 210),
            outage(300, 310),
            outage(0, 150),
        ];
        blame(&mut outages, "udp", &incidents);
        let causes = outages.each_ref().map(|o| o.cause.as_str());
        assert_eq!(causes, ["wan was down", "", "", "in part: wan was down"]);
        blame(&mut outages, "wan", &incidents);
        assert_eq!(outages[2].cause, "the server began anew");
    }

    fn gap(from: i64, to: i64) -> Gap {
        Gap {
            from_ns: from * S,
            to_ns: to * S,
            reason: String::new(),
        }
    }

    fn kinds(found: &[Incident]) -> Vec<(IncidentKind, i64)> {
        found.iter().map(|i| (i.kind, i.from_ns / S)).collect()
    }

    #[test]
    fn a_hole_that_a_clock_left_in_the_labels_is_no_gap_and_a_longer_one_is() {
        let step = event(
            100,
            "clock",
            "near",
            r#"{"wall_clock_stepped_by_ns":60000000000,"labels_move_by_ns":60000000000}"#,
        );
        let found = incidents(&[step], &[]);
        assert_eq!(kinds(&found), [(IncidentKind::ClockSet, 100)]);
        assert_eq!(found[0].seconds, Some(60.0));
        assert_eq!(explain(vec![gap(100, 160)], "udp", &found, 2 * S), []);
        let longer = explain(vec![gap(100, 190)], "udp", &found, 2 * S);
        assert!(longer[0].reason.contains("less is missing"), "{longer:?}");
        let elsewhere = explain(vec![gap(300, 360)], "udp", &found, 2 * S);
        assert_eq!(elsewhere, [gap(300, 360)]);
    }

    #[test]
    fn probes_are_kept_back_from_a_refusal_to_the_next_answer_and_while_an_interface_is_down() {
        let fault = |s, detail: &str| event(s, "fault", "udp", detail);
        let row = |s: i64, up, address| Availability {
            t_ns: s * S,
            interval_ns: 5 * S,
            interface: "wan".into(),
            up,
            address,
            reachable: None,
        };
        let events = [
            fault(100, r#"{"trouble":"network is unreachable"}"#),
            fault(101, r#"{"trouble":"no route to host"}"#),
            event(
                102,
                "fault",
                "tcp:a:1",
                r#"{"trouble":"connection refused"}"#,
            ),
            fault(115, r#"{"answers_again":true}"#),
            fault(300, r#"{"silent_for_ns":10000000000}"#),
            fault(320, r#"{"answers_again_after_ns":30000000000}"#),
            fault(400, r#"{"throttled_by_server":3}"#),
            fault(900, r#"{"trouble":"network is unreachable"}"#),
        ];
        let rows = [
            row(110, true, true),
            row(120, false, false),
            row(125, true, false),
            row(130, true, true),
        ];
        let found = incidents(&events, &rows);
        let spans = cut_off(&events, &found, "udp", 1_000 * S);
        let seconds: Vec<_> = spans.iter().map(|(a, b)| (a / S, b / S)).collect();
        // The answer at 115 s is known to the second, the interface only to five.
        let told = [(100, 115), (120, 125), (300, 320), (900, 1_000)];
        assert_eq!(seconds, told);
    }

    #[test]
    fn a_step_that_moved_no_labels_excuses_no_gap() {
        let step = event(
            100,
            "clock",
            "near",
            r#"{"wall_clock_stepped_by_ns":400000000}"#,
        );
        let found = incidents(&[step], &[]);
        assert_eq!(
            explain(vec![gap(99, 105)], "udp", &found, S),
            [gap(99, 105)]
        );
    }

    #[test]
    fn sleep_and_a_monitor_that_was_stopped_explain_their_gaps() {
        let found = incidents(
            &[
                event(0, "target", "udp", "{}"),
                event(
                    500,
                    "clock",
                    "near",
                    r#"{"host_slept_for_ns":300000000000}"#,
                ),
                event(600, "target_end", "udp", "{}"),
                event(900, "target", "udp", "{}"),
                event(2000, "target", "udp", "{}"),
            ],
            &[],
        );
        assert_eq!(
            kinds(&found),
            [
                (IncidentKind::HostSlept, 200),
                (IncidentKind::NotWatched, 600),
                (IncidentKind::NotWatched, 2000)
            ]
        );
        // Power failed at 1950.
        let gaps = vec![gap(200, 500), gap(600, 900), gap(1950, 2000)];
        let gaps = explain(gaps, "udp", &found, S);
        assert_eq!(gaps[0].reason, "this host slept");
        assert_eq!(gaps[1].reason, "the monitor was not running");
        assert_eq!(gaps[2].reason, "the monitor was not running");
        let other = explain(vec![gap(600, 900)], "dns:a", &found, S);
        assert_eq!(other[0].reason, "");
    }

    #[test]
    fn only_a_session_that_nothing_else_asked_for_means_that_the_server_began_anew() {
        let found = incidents(
            &[
                event(0, "target", "udp", "{}"),
                event(1, "session", "udp", "{}"),
                event(50, "address", "udp", r#"{"from":"a","to":"b"}"#),
                event(51, "session", "udp", "{}"),
                event(90, "session", "udp", "{}"),
            ],
            &[],
        );
        assert_eq!(
            kinds(&found),
            [
                (IncidentKind::AddressChanged, 50),
                (IncidentKind::ServerBeganAnew, 90)
            ]
        );
        assert_eq!(found[0].detail, "a, now b");
    }

    #[test]
    fn an_interface_is_away_once_for_as_long_as_its_rows_say() {
        let row = |s: i64, up, address| Availability {
            t_ns: s * S,
            interval_ns: 5 * S,
            interface: "eth0".into(),
            up,
            address,
            reachable: None,
        };
        let rows = [
            row(5, true, true),
            row(10, false, false),
            row(15, false, false),
            row(20, true, false),
            row(25, true, true),
            row(30, false, false),
        ];
        let found = incidents(&[], &rows);
        assert_eq!(
            kinds(&found),
            [
                (IncidentKind::InterfaceDown, 5),
                (IncidentKind::NoAddress, 15),
                (IncidentKind::InterfaceDown, 25)
            ]
        );
        assert_eq!(found[0].seconds, Some(10.0));
    }
}
