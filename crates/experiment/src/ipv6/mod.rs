//! Comparison of IPv6 with IPv4: reachability of the server, delay, and packets that IPv6 lets through.
//!
//! **Method.** Connections and datagrams over both versions in turn. Over IPv6 also: fragmented datagrams in each
//! direction, packets of growing size that must not be fragmented, and packets with further headers.
//!
//! **Source.** Chandele 2012, section 6.9.2; RFC 8200, Internet Protocol, Version 6 (IPv6) Specification, sections 4 and 5;
//! RFC 8201, Path MTU Discovery for IP version 6.
//!
//! **Units.** ms, bytes of whole packets.

mod steps;

use super::alert::{self, Alert, Severity};
use super::answer::{Figured, Outcome, Table};
use super::spec::{How, Spec};
use base::Duration;
use base::noted::Noted;
use base::noted::ipv6::{V6Note, target};
use base::print::significant;
use base::record::{Direction, Recording, Status};
use base::spec::{Params as _, params};
use base::words::Words;
use stats::Figure;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "ipv6": "Is the server reached over IPv6 as well as IPv4, and which is faster?", ["Chandele 2012, section 6.9.2", "RFC 8200", "RFC 8201"] {
        /// connections and datagrams of each version
        count: u32 = "20" ["3".."1000"];
        /// interval from one pair to the next
        interval: Duration = "50 ms" ["0 ms".."10 s"];
        /// time limit; fewer pairs, but at least five of each version, if they take longer
        within: Duration = "60 s" ["0 s".."600 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "four seconds, more if answers never come; 150 kB",
    beside_others: false,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer,
};

#[derive(Default)]
struct Version {
    server: Option<String>,
    local: Option<String>,
    why: Option<String>,
    tcp: Vec<f64>,
    udp: Vec<f64>,
    tried: usize,
}

impl Version {
    fn of(recording: &Recording, version: u8) -> Version {
        let mut v = Version::default();
        for (_, note) in V6Note::all_of(recording) {
            if let V6Note::Family {
                version: which,
                server,
                local,
                why,
            } = note
                && which == version
            {
                (v.server, v.local, v.why) = (server, local, why);
            }
        }
        let mut times = |transport: &str| -> Vec<f64> {
            let name = target(transport, version);
            let rows: Vec<_> = recording
                .delay
                .iter()
                .filter(|d| *d.target == *name)
                .collect();
            v.tried += rows.len();
            rows.iter()
                .filter(|d| d.status == Status::Ok)
                .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
                .collect()
        };
        let (tcp, udp) = (times("tcp"), times("udp"));
        (v.tcp, v.udp) = (tcp, udp);
        v
    }

    fn works(&self) -> bool {
        !self.tcp.is_empty() || !self.udp.is_empty()
    }

    fn figure(&self) -> Figure {
        match (&self.why, self.tcp.is_empty()) {
            (_, false) => stats::quantile_figure(&self.tcp, 0.5),
            (Some(why), true) => Figure::cannot_tell(why.clone()),
            (None, true) => Figure::cannot_tell("no connection came about"),
        }
    }

    fn state(&self) -> String {
        let answered = self.tcp.len() + self.udp.len();
        match (&self.why, answered) {
            (Some(why), 0) => format!("not tried: {why}"),
            (None, 0) => "nothing comes back".into(),
            (_, n) if self.tcp.is_empty() => {
                format!("datagrams only, {n} of {} answered", self.tried)
            }
            (_, n) if self.udp.is_empty() => {
                format!("connections only, {n} of {} answered", self.tried)
            }
            (_, n) => format!("works, {n} of {} answered", self.tried),
        }
    }
}

fn bounds(f: &Figure) -> Option<(f64, f64, f64)> {
    match f {
        Figure::Is { value, low, high } => Some((*value, *low, *high)),
        Figure::CannotTell { .. } => None,
    }
}

/// Sentence on the version that is faster by more than chance.
fn faster(v4: &Figure, v6: &Figure) -> Option<String> {
    let (Some((a, a_low, a_high)), Some((b, b_low, b_high))) = (bounds(v4), bounds(v6)) else {
        return None;
    };
    let ms = |v: f64| significant(v, 3);
    // Less than a twentieth, or half a millisecond, is no reason to prefer either.
    let matters = (a - b).abs() > (0.05 * a.min(b)).max(0.5);
    Some(if matters && b_high < a_low {
        format!(
            "IPv6 is faster: a connection takes {} ms instead of {} ms",
            ms(b),
            ms(a)
        )
    } else if matters && a_high < b_low {
        format!(
            "IPv4 is faster: a connection takes {} ms instead of {} ms",
            ms(a),
            ms(b)
        )
    } else {
        format!(
            "Neither is faster for certain: a connection takes {} ms over IPv4 and {} ms over IPv6",
            ms(a),
            ms(b)
        )
    })
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let (v4, v6) = (Version::of(recording, 4), Version::of(recording, 6));
    if v4.tried + v6.tried == 0 && v6.why.is_none() {
        return Outcome::cannot_tell("nothing was tried");
    }
    let (connect4, connect6) = (v4.figure(), v6.figure());
    let mut alerts = Vec::new();
    let mut rows = vec![
        vec!["IPv4".to_owned(), v4.state()],
        vec!["IPv6".to_owned(), v6.state()],
    ];
    let (says, alert) = reach(&v4, &v6);
    alerts.extend(alert);
    for way in [Direction::Up, Direction::Down] {
        if let Some((text, alert)) = fragments(recording, way) {
            rows.push(vec![format!("datagrams in pieces, {way}"), text]);
            alerts.extend(alert);
        }
    }
    let [mtu4, mtu6] = [4, 6].map(|version| {
        let (figure, text, alert) = path_mtu(recording, version);
        if let Some(text) = text {
            rows.push(vec![format!("largest packet of IPv{version}, up"), text]);
        }
        alerts.extend(alert);
        figure
    });
    for (_, note) in V6Note::all_of(recording) {
        if let V6Note::Extension { header, arrived } = note {
            let text = match arrived {
                Some(true) => "arrive",
                Some(false) => "are dropped on the way (many networks do)",
                None => "cannot tell: sending them needs CAP_NET_RAW",
            };
            rows.push(vec![format!("packets with {header}"), text.to_owned()]);
        }
    }
    let figured = |key: &str, name: &str, f: Figure| Figured::time(key, name, f);
    Outcome {
        says,
        figures: vec![
            figured("connect_v4_ms", "connection over IPv4", connect4),
            figured("connect_v6_ms", "connection over IPv6", connect6),
            figured(
                "udp_v4_ms",
                "datagram there and back over IPv4",
                datagrams(&v4),
            ),
            figured(
                "udp_v6_ms",
                "datagram there and back over IPv6",
                datagrams(&v6),
            ),
            Figured::size("path_mtu_bytes", "largest packet of IPv6, up", mtu6),
            Figured::size("path_mtu_v4_bytes", "largest packet of IPv4, up", mtu4),
        ],
        alerts: alert::sorted(alerts),
        tables: vec![Table::new("What gets through", ["what", "found"], rows)],
        ..Outcome::default()
    }
}

/// Versions over which the server is reached, and an alert if one is missing.
fn reach(v4: &Version, v6: &Version) -> (String, Option<Alert>) {
    let mut alert = None;
    let says = match (v4.works(), v6.works()) {
        (true, true) => match faster(&v4.figure(), &v6.figure()) {
            Some(faster) => format!("The server is reached over both versions. {faster}."),
            None => "The server is reached over both versions.".into(),
        },
        (false, true) => "The server is reached over IPv6 only.".into(),
        (true, false) if v6.server.is_none() => format!(
            "Cannot tell: the server has no address of IPv6 to be asked ({}). It is reached over IPv4.",
            v6.why.as_deref().unwrap_or("it named none")
        ),
        (true, false) if v6.local.is_none() => {
            alert = Some(Alert::new(
                Severity::Note,
                "this host has no IPv6",
                "What exists under IPv6 only cannot be reached. Ask the provider, or see whether the router has it switched off.",
            ));
            "This host has no way to IPv6; the server is reached over IPv4 only.".into()
        }
        (true, false) => {
            alert = Some(Alert::new(
                Severity::Serious,
                "IPv6 is configured here, and nothing gets through",
                "Programs try IPv6 first and wait before they fall back to IPv4: everything begins late. Mend it, or switch IPv6 off.",
            ));
            "The server is reached over IPv4 only: this host has an address of IPv6, and nothing that it sends over it is answered.".into()
        }
        (false, false) => {
            "Cannot tell: the server answers over neither version on the ports that it opened."
                .into()
        }
    };
    (says, alert)
}

/// Versions over which the server is reached, from a recording.
pub(super) fn reached(recording: &Recording) -> (String, Option<Alert>) {
    reach(&Version::of(recording, 4), &Version::of(recording, 6))
}

/// Fate of fragmented datagrams over IPv6 in a direction; none if none was sent.
fn fragments(recording: &Recording, which: Direction) -> Option<(String, Option<Alert>)> {
    let (bytes, small, large) = V6Note::all_of(recording).find_map(|(_, n)| match n {
        V6Note::Fragments {
            direction,
            bytes,
            small,
            large,
        } if direction == which => Some((bytes, small, large)),
        _ => None,
    })?;
    Some(match (small, large) {
        (_, true) => ("arrive".to_owned(), None),
        (true, false) => (
            format!("{bytes} bytes did not arrive, however often they were sent; small ones did"),
            Some(Alert::new(
                Severity::Warning,
                format!("datagrams in pieces do not arrive over IPv6 ({which})"),
                "Large answers of the DNS and programs that send large datagrams fail over IPv6.",
            )),
        ),
        (false, false) => (
            "cannot tell: small datagrams do not arrive either".to_owned(),
            None,
        ),
    })
}

/// Directions in which fragments over IPv6 were tried, with the findings.
pub(super) fn pieces(recording: &Recording) -> Vec<(Direction, String, Option<Alert>)> {
    [Direction::Up, Direction::Down]
        .into_iter()
        .filter_map(|way| fragments(recording, way).map(|(text, alert)| (way, text, alert)))
        .collect()
}

fn datagrams(v: &Version) -> Figure {
    if v.udp.is_empty() {
        Figure::cannot_tell(
            v.why
                .clone()
                .unwrap_or_else(|| "no datagram was answered".into()),
        )
    } else {
        stats::quantile_figure(&v.udp, 0.5)
    }
}

/// Largest packet of a version that gets through, the routers' messages about larger ones, and an alert if it is too
/// small.
pub(super) fn path_mtu(
    recording: &Recording,
    version: u8,
) -> (Figure, Option<String>, Option<Alert>) {
    let found = V6Note::all_of(recording).find_map(|(_, n)| match n {
        V6Note::PathMtu {
            version: which,
            arrived,
            believed,
            interface,
            ..
        } if which == version => Some((arrived, believed, interface)),
        _ => None,
    });
    let unknown = |why: String| (Figure::cannot_tell(why), None, None);
    let Some((arrived, believed, interface)) = found else {
        return unknown(format!("nothing passes over IPv{version}"));
    };
    let Some(arrived) = arrived else {
        return unknown(match version {
            6 => "not even packets of 1280 bytes arrived, which every link of IPv6 carries".into(),
            _ => "not even packets of 576 bytes arrived, which every host takes".into(),
        });
    };
    let below = interface.is_some_and(|i| arrived < i.min(1500));
    let learned = believed == Some(arrived);
    let (text, alert) = match (below, learned) {
        (false, _) => (
            format!("{arrived} bytes, as much as this host's interface takes"),
            None,
        ),
        (true, true) => (format!("{arrived} bytes; a router said so (ICMP)"), None),
        (true, false) => {
            let (severity, means) = match version {
                6 => (
                    Severity::Serious,
                    "Pages open and then hang: connections begin, and their large packets never arrive. Some router drops the messages that would tell (RFC 8201 section 1).",
                ),
                // Routers of access lines mend it for TCP by lowering the segment size that both ends agree to.
                _ => (
                    Severity::Warning,
                    "Some router drops the messages that would tell (RFC 2923 section 2.1). Connections hang where no box on the way lowers their segment size; VPNs and calls that send large datagrams fail.",
                ),
            };
            (
                format!("{arrived} bytes; larger ones vanish, and no router says so"),
                Some(Alert::new(
                    severity,
                    format!("packets of IPv{version} above {arrived} bytes vanish without a word"),
                    means,
                )),
            )
        }
    };
    (Figure::exactly(f64::from(arrived)), Some(text), alert)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_reached_by_datagrams_alone_is_told_without_a_comparison() {
        let version = |tcp: &[f64]| Version {
            server: Some("2001:db8::1".into()),
            local: Some("2001:db8::2".into()),
            tcp: tcp.to_vec(),
            udp: vec![1.0; 20],
            tried: 40,
            ..Version::default()
        };
        let full_stops = |a: &[f64], b: &[f64]| {
            let (says, _) = reach(&version(a), &version(b));
            assert!(!says.contains(". .") && !says.contains(".."), "{says}");
            says.matches(". ").count() + usize::from(says.ends_with('.'))
        };
        let times: Vec<f64> = (0..20).map(|i| 10.0 + f64::from(i % 3)).collect();
        assert_eq!(full_stops(&[], &[]), 1);
        assert_eq!(full_stops(&times, &[]), 1);
        assert_eq!(full_stops(&times, &times), 2);
    }
}
