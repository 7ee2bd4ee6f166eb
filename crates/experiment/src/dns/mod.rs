//! Time of name lookups, and its cause: the resolver or the link.
//!
//! **Method.** Each resolver is asked for made-up names, which no cache has, and for each of them again, which its
//! cache has now. The way there and back is timed apart, by TCP connections to the resolver's port: its kernel takes or
//! refuses them, so that nothing of the resolver itself is in it. What is left of a lookup is the resolver's own. The
//! line's own round trip, to our server, is measured meanwhile. Signatures: a signed name must come back marked as
//! checked, one whose signatures are wrong must not come back at all, unless the resolver is told not to check.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on
//! Networks", UTFSM, tables 2 and 4 (180 to 220 ms found acceptable, 1300 ms slow); Chandele 2012, table 3.1.3;
//! RFC 4035, Protocol Modifications for the DNS Security Extensions, sections 3.2 and 4.
//!
//! **Units.** ms.

mod asked_roots;
mod asked_types;
mod message;
mod resolvers;
mod roots;
mod says;
mod steps;
mod types;

use super::alert::{self, Alert};
use super::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use super::spec::{How, Spec};
use base::Duration;
use base::noted::Noted;
use base::noted::dns::{Answer, Asked, DnsNote, Origin, way_target};
use base::print::DELAY;
use base::print::significant;
use base::record::{Recording, Status};
use base::spec::{Params as _, params};
use base::words::Words;
use roots::Roots;
use says::{advice, alert_of, alert_of_handling, evidence, says};
use stats::Figure;
use std::sync::Arc;
use types::Types;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "dns": "How long do DNS lookups take, and is the resolver or the link to blame?", ["J. S. Catalán Olmos, Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks, UTFSM",
            "RFC 4035",] {
        /// resolvers to ask instead of those of this host
        resolvers: Vec<Arc<str>> as List(Address);
        /// further resolvers to compare with
        others: Vec<Arc<str>> as List(Address);
        /// also compare with 1.1.1.1, 8.8.8.8 and 9.9.9.9
        public: bool = "false", "Chandele 2012, table 3.1.3";
        /// domain for made-up names; the answer that they do not exist is an answer too
        zone: Arc<str> as Name = "example.com";
        /// made-up names for each resolver
        count: u32 = "10" ["3".."1000"];
        /// interval between lookups
        interval: Duration = "100 ms" ["10 ms".."60 s"];
        /// time after which an unanswered lookup is lost
        patience: Duration = "5 s" ["100 ms".."30 s"], "resolv.conf(5)";
        /// also ask for signatures
        dnssec: bool = "true", "Catalán 2014, table 4";
        /// name with valid signatures
        signed: Arc<str> as Name = "example.com";
        /// name with wrong signatures
        bogus: Arc<str> as Name = "dnssec-failed.org";
        /// also ask for records of many types at `zone`, and for an answer too large for a datagram
        types: bool = "true", "Catalán 2014, table 4";
        /// also ask the 13 root servers for their signatures
        roots: bool = "false", "Catalán 2014, table 4";
        /// servers to ask instead of the 13 root servers
        rootservers: Vec<Arc<str>> as List(Address);
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "four seconds for each resolver, 130 kB at most; the queries go to the resolvers, not to our server",
    beside_others: false,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer,
};

/// An answer from its cache costs a resolver well below a millisecond; so much on top of the way is a slow one.
const SLOW_WARM_MS: f64 = 30.0;
/// Catalán 2014, table 2: up to 220 ms was acceptable, 1300 ms was not. The geometric mean of the two.
const SLOW_COLD_MS: f64 = 535.0;
/// Limit of a new name's lookup, ms: half as much again as the slowest acceptable one.
const LAGGING_COLD_MS: f64 = 330.0;
/// Round trip above which every lookup feels slow, ms.
const LONG_WAY_MS: f64 = 100.0;
/// Share of lost lookups that is too many: each costs the whole patience of a system, 5 s.
const MANY_LOST: f64 = 0.05;
/// Chance below which lookups are not lost as the link's own probes are.
const BY_CHANCE: f64 = 0.01;
/// Probes lost so long before a lookup or after it share its fate: the link is out.
const TOGETHER_NS: i64 = 250_000_000;

/// Treatment of signatures by a resolver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Handling {
    /// The resolver rejects wrong signatures.
    Checks,
    /// The resolver forwards signatures without checking them.
    HandsOn,
    /// The resolver removes signatures.
    Strips,
    /// The resolver fails for names with valid signatures.
    Fails,
    Unknown(&'static str),
}

impl Handling {
    fn word(self) -> &'static str {
        match self {
            Handling::Checks => "checks",
            Handling::HandsOn => "hands on, unchecked",
            Handling::Strips => "strips signatures",
            Handling::Fails => "fails for signed names",
            Handling::Unknown(_) => "cannot tell",
        }
    }
}

/// Resolver, from the recording.
struct Resolver<'a> {
    address: &'a str,
    origin: Origin,
    name: String,
    cold: Vec<f64>,
    warm: Vec<f64>,
    /// Round trips to the resolver.
    way: Vec<f64>,
    asked: usize,
    lost: usize,
    /// Times at which the lost lookups were sent, UNIX ns.
    lost_at: Vec<i64>,
    /// Number of answers with an error code.
    failed: usize,
    failures: Vec<String>,
    problem: Option<String>,
    handling: Handling,
    types: Types,
    given_up: Option<u32>,
}

fn ours(origin: Origin) -> bool {
    origin != Origin::Alternative
}

fn median(values: &[f64]) -> Option<f64> {
    stats::quantile_of_sorted(&stats::sorted(values), 0.5)
}

fn least(values: &[f64]) -> Option<f64> {
    values.iter().copied().reduce(f64::min)
}

impl<'a> Resolver<'a> {
    fn all_of(recording: &'a Recording) -> Vec<Resolver<'a>> {
        let notes: Vec<(&str, DnsNote)> = DnsNote::all_of(recording).collect();
        let mut all: Vec<Resolver> = Vec::new();
        for (address, note) in &notes {
            if let DnsNote::Resolver { origin, name } = note {
                let times = |target: String| -> Vec<f64> {
                    let rows = recording.delay.iter().filter(|d| *d.target == *target);
                    rows.filter(|d| d.status == Status::Ok)
                        .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
                        .collect()
                };
                let lost_at = [Asked::Cold, Asked::Warm].map(|asked| {
                    let target = asked.target(address);
                    let rows = recording.delay.iter().filter(move |d| *d.target == *target);
                    rows.filter(|d| d.status.is_lost())
                        .map(|d| d.sent_ns)
                        .collect::<Vec<i64>>()
                });
                all.push(Resolver {
                    lost_at: lost_at.concat(),
                    address,
                    origin: *origin,
                    name: name.clone(),
                    cold: times(Asked::Cold.target(address)),
                    warm: times(Asked::Warm.target(address)),
                    way: times(way_target(address)),
                    asked: 0,
                    lost: 0,
                    failed: 0,
                    failures: Vec::new(),
                    problem: None,
                    handling: handling(&notes, address),
                    types: Types::of(&notes, address),
                    given_up: None,
                });
            }
        }
        for (address, note) in notes {
            let Some(resolver) = all.iter_mut().find(|r| r.address == address) else {
                continue;
            };
            match note {
                DnsNote::Lookup {
                    asked: Asked::Cold | Asked::Warm,
                    answer,
                    problem,
                    ..
                } => {
                    resolver.asked += 1;
                    match answer {
                        None => {
                            resolver.lost += 1;
                            resolver.problem = resolver.problem.take().or(problem);
                        }
                        Some(a) if !matches!(&*a.code, "NOERROR" | "NXDOMAIN") => {
                            resolver.failed += 1;
                            if !resolver.failures.contains(&a.code) {
                                resolver.failures.push(a.code);
                            }
                        }
                        Some(_) => {}
                    }
                }
                DnsNote::GivenUp { after } => resolver.given_up = Some(after),
                _ => {}
            }
        }
        all
    }

    /// Round trip to the resolver: the least set-up time of its connections; null if it takes and refuses none.
    fn way_ms(&self) -> Option<f64> {
        least(&self.way)
    }

    /// Resolver's own part of a lookup of a new name.
    fn own(&self) -> Figure {
        match (self.way_ms(), self.cold.is_empty()) {
            (_, true) => Figure::cannot_tell("it answered no lookup"),
            (None, _) => Figure::cannot_tell(
                "something swallows TCP connections to its port, so the way to it could not be timed",
            ),
            (Some(way), _) => {
                let own: Vec<f64> = self.cold.iter().map(|c| (c - way).max(0.0)).collect();
                stats::quantile_figure(&own, 0.5)
            }
        }
    }

    fn figure(values: &[f64]) -> Figure {
        if values.is_empty() {
            Figure::cannot_tell("it answered no lookup")
        } else {
            stats::quantile_figure(values, 0.5)
        }
    }

    fn called(&self) -> String {
        match self.origin {
            Origin::Stub => format!("{} ({})", self.address, self.name),
            _ => self.address.to_owned(),
        }
    }
}

fn handling(notes: &[(&str, DnsNote)], address: &str) -> Handling {
    let said = |which: Asked| -> Option<Option<&Answer>> {
        notes.iter().find_map(|(a, note)| match note {
            DnsNote::Lookup { asked, answer, .. } if *a == address && *asked == which => {
                Some(answer.as_ref())
            }
            _ => None,
        })
    };
    let (Some(signed), Some(bogus), Some(unchecked)) = (
        said(Asked::Signed),
        said(Asked::Bogus),
        said(Asked::BogusUnchecked),
    ) else {
        return Handling::Unknown("it was not asked");
    };
    let good = |a: &&Answer| a.code == "NOERROR" && a.records > 0;
    let fails = |a: Option<&Answer>| a.is_some_and(|a| a.code == "SERVFAIL");
    match (signed, bogus, unchecked) {
        (None, ..) => Handling::Unknown("no answer came to the signed name"),
        (Some(_), None, _) => Handling::Unknown("no answer came to the wrongly signed name"),
        (s, b, u) if fails(s) && fails(b) && !fails(u) => Handling::Fails,
        (s, b, u) if fails(b) && u.as_ref().is_some_and(good) && !fails(s) => Handling::Checks,
        (_, b, u) if fails(b) && fails(u) => {
            Handling::Unknown("the wrongly signed name cannot be had unchecked either")
        }
        (Some(s), Some(b), _) if good(&s) && good(&b) => {
            if s.signatures || s.authentic {
                Handling::HandsOn
            } else {
                Handling::Strips
            }
        }
        _ => Handling::Unknown("the two names did not resolve as they do elsewhere"),
    }
}

/// Cause of slow lookups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Blame {
    /// The resolver is slow even for names in its cache.
    Resolver,
    /// The resolver is slow for names that it has to look up itself.
    Recursion,
    /// The resolver is farther away than our server.
    Distance,
    /// The link's own round trip is in every lookup.
    Line,
    /// The resolver leaves many questions, or all, without an answer.
    Silence,
    /// The link loses lookups as it loses its own probes.
    Losses,
    Nobody,
    /// The round trip to the resolver is unknown.
    Unknown,
    /// Lookups were lost, and too few to tell if the resolver or the link lost them.
    Unsure,
}

/// The link's own probes to our server meanwhile.
#[derive(Default)]
struct Link {
    /// Least round trip, ms.
    base_ms: Option<f64>,
    sent: usize,
    /// Times of the lost ones, UNIX ns.
    lost_at: Vec<i64>,
}

impl Link {
    fn of(recording: &Recording) -> Link {
        let rows = || recording.delay.iter().filter(|d| &*d.target == "udp");
        let lost = rows().filter(|d| d.status.is_lost());
        Link {
            base_ms: least(&line(recording)),
            sent: rows().count(),
            lost_at: lost.map(|d| d.sent_ns).collect(),
        }
    }

    /// Cause of lookups without an answer.
    fn losses(&self, r: &Resolver) -> Blame {
        let with_probes = |at: &&i64| {
            let near = |l: &&i64| l.abs_diff(**at) <= TOGETHER_NS as u64;
            self.lost_at.iter().filter(near).count() > 2
        };
        // In an outage both are lost, and nothing is learnt of the resolver.
        let together = r.lost_at.iter().filter(with_probes).count();
        let (alone, asked) = (r.lost_at.len() - together, r.asked - together.min(r.asked));
        if self.sent == 0 {
            return Blame::Unsure;
        }
        match stats::fisher(
            (alone as u64, asked as u64),
            (self.lost_at.len() as u64, self.sent as u64),
        ) {
            p if p < BY_CHANCE => Blame::Silence,
            // A link that loses some does not explain that nothing came.
            _ if self.lost_at.is_empty() || r.cold.len() + r.warm.len() == 0 => Blame::Unsure,
            _ => Blame::Losses,
        }
    }
}

/// Judges one resolver over this link.
fn blame(r: &Resolver, link: &Link) -> Blame {
    let base_ms = link.base_ms;
    let many = |n: usize| n > 1 && n as f64 > MANY_LOST * r.asked as f64;
    if many(r.failed) {
        return Blame::Silence;
    }
    if many(r.lost + r.failed) {
        return link.losses(r);
    }
    let (Some(cold), Some(warm)) = (median(&r.cold), median(&r.warm)) else {
        return link.losses(r);
    };
    let Some(way) = r.way_ms() else {
        // All of it together is no more than what is fine on any line.
        let fine = warm < SLOW_WARM_MS + base_ms.unwrap_or(0.0) && cold < LAGGING_COLD_MS;
        return if fine { Blame::Nobody } else { Blame::Unknown };
    };
    let slow_warm = warm - way > SLOW_WARM_MS.max(way / 2.0);
    if slow_warm {
        return Blame::Resolver;
    }
    if cold - way > LAGGING_COLD_MS {
        return Blame::Recursion;
    }
    if way > LONG_WAY_MS {
        return match base_ms {
            Some(base) if way > 1.5 * base + 10.0 => Blame::Distance,
            Some(_) => Blame::Line,
            None => Blame::Unknown,
        };
    }
    Blame::Nobody
}

fn told(of: Option<f64>) -> String {
    of.map_or_else(|| "?".to_owned(), |v| DELAY.print(v))
}

/// Alerts about the resolvers in use, or why there can be none.
pub(super) struct Verdicts {
    /// Alerts on the time and the failures of lookups.
    pub names: Result<Vec<Alert>, String>,
    /// Verdict on signatures, with its alerts.
    pub signatures: Result<(&'static str, Vec<Alert>), String>,
    /// Verdict on record types and on their transport.
    pub types: Result<(String, Vec<Alert>), String>,
    /// Verdict on root servers; none if they were not asked.
    pub roots: Option<(String, Vec<Alert>)>,
}

pub(super) fn verdicts(recording: &Recording) -> Verdicts {
    let resolvers = Resolver::all_of(recording);
    let link = Link::of(recording);
    let asked: Vec<&Resolver> = resolvers
        .iter()
        .filter(|r| r.asked > 0 && ours(r.origin))
        .collect();
    let roots = Roots::of(recording).map(|r| (r.text(), r.alerts()));
    let Some(first) = asked.first() else {
        let why = || "no resolver was asked".to_owned();
        return Verdicts {
            names: Err(why()),
            signatures: Err(why()),
            types: Err(why()),
            roots,
        };
    };
    let alerts: Vec<Alert> = asked
        .iter()
        .filter_map(|r| alert_of(r, blame(r, &link), &link))
        .collect();
    let names = match blame(first, &link) {
        why @ (Blame::Unknown | Blame::Unsure) if alerts.is_empty() => Err(says(first, why, &link)),
        _ => Ok(alerts),
    };
    let unknown = asked.iter().find_map(|r| match r.handling {
        Handling::Unknown(why) => Some(why),
        _ => None,
    });
    let alerts: Vec<Alert> = asked.iter().filter_map(|r| alert_of_handling(r)).collect();
    let signatures = match unknown {
        Some(why) if alerts.is_empty() => Err(why.to_owned()),
        _ => Ok((first.handling.word(), alerts)),
    };
    let alerts: Vec<Alert> = asked.iter().flat_map(|r| alerts_of_types(r)).collect();
    let types = match (first.types.verdict(), alerts.is_empty()) {
        (Ok(text), _) => Ok((text, alerts)),
        (Err(why), true) => Err(why),
        (Err(why), false) => Ok((why, alerts)),
    };
    Verdicts {
        names,
        signatures,
        types,
        roots,
    }
}

fn alerts_of_types(r: &Resolver) -> Vec<Alert> {
    r.types.alerts(&r.called())
}

/// Round trips of the link itself meanwhile, ms.
fn line(recording: &Recording) -> Vec<f64> {
    recording
        .delay
        .iter()
        .filter(|d| &*d.target == "udp" && d.status == Status::Ok)
        .filter_map(|d| Some(d.rtt_ns? as f64 * 1e-6))
        .collect()
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let resolvers = Resolver::all_of(recording);
    let line = line(recording);
    let link = Link::of(recording);
    // A person's programs ask the first; behind a stub is another story of the same lookups.
    let Some(first) = resolvers.iter().find(|r| ours(r.origin) && r.asked > 0) else {
        return Outcome::cannot_tell("no resolver was asked");
    };
    let blamed: Vec<(&Resolver, Blame)> = resolvers
        .iter()
        .filter(|r| r.asked > 0)
        .map(|r| (r, blame(r, &link)))
        .collect();
    let in_use = || blamed.iter().filter(|(r, _)| ours(r.origin));
    let mut alerts: Vec<Alert> = in_use()
        .filter_map(|(r, b)| alert_of(r, *b, &link))
        .collect();
    alerts.extend(in_use().filter_map(|(r, _)| alert_of_handling(r)));
    alerts.extend(in_use().flat_map(|(r, _)| alerts_of_types(r)));
    let roots = Roots::of(recording);
    alerts.extend(roots.iter().flat_map(Roots::alerts));
    let (worst, why) = in_use()
        .find(|(_, b)| !matches!(b, Blame::Nobody | Blame::Unknown | Blame::Unsure))
        .or_else(|| in_use().next())
        .copied()
        .expect("the first is one of them");
    let typed: Vec<(&str, &Types)> = blamed.iter().map(|(r, _)| (r.address, &r.types)).collect();
    let mut tables = vec![table(&blamed)];
    tables.extend(types::table(&typed));
    tables.extend(roots.iter().map(Roots::table));
    Outcome {
        says: says(worst, why, &link),
        figures: figures(first, link.base_ms, roots.as_ref()),
        alerts: alert::sorted(alerts),
        evidence: evidence(&resolvers, &link),
        advice: advice(&resolvers, first, why),
        doubts: doubts(first, line.is_empty()),
        tables,
        plots: vec![plot(recording, first.address)],
    }
}

/// Reasons to distrust the figures of the first resolver; `silent` if our server answered no probe.
fn doubts(first: &Resolver, silent: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    if silent {
        doubts.push(
            "our server answered no probe meanwhile: the link's own round trip is unknown".into(),
        );
    }
    if let (Some(cold), Some(warm)) = (median(&first.cold), median(&first.warm))
        && warm > 0.8 * cold
        && cold - first.way_ms().unwrap_or(0.0) > 10.0
    {
        doubts.push(format!(
            "asking {} again is hardly faster: either it keeps no answers, or several machines behind its address do not share them",
            first.address
        ));
    }
    doubts
}

/// Figures of the first resolver, and of the root servers if they were asked.
fn figures(first: &Resolver, base: Option<f64>, roots: Option<&Roots>) -> Vec<Figured> {
    let share = stats::wilson(first.lost as f64, first.asked as f64);
    let base_figure = base.map_or_else(
        || Figure::cannot_tell("our server answered no probe"),
        Figure::exactly,
    );
    let way = first.way_ms().map_or_else(
        || Figure::cannot_tell("it takes and refuses no TCP connections"),
        Figure::exactly,
    );
    vec![
        Figured::time(
            "cold_ms",
            "lookup of a new name",
            Resolver::figure(&first.cold),
        ),
        Figured::time("warm_ms", "asked again", Resolver::figure(&first.warm)),
        Figured::time("way_ms", "round trip to the resolver", way),
        Figured::time(
            "own_ms",
            "the resolver's own share of a new name",
            first.own(),
        ),
        Figured::time(
            "base_ms",
            "the link's round trip to our server",
            base_figure,
        ),
        Figured::share("unanswered", "unanswered", share),
    ]
    .into_iter()
    .chain(roots.iter().map(|r| {
        Figured::count(
            "roots_signed",
            "root servers whose signatures came",
            Figure::exactly(r.signed() as f64),
        )
    }))
    .collect()
}

fn table(blamed: &[(&Resolver, Blame)]) -> Table {
    let columns = [
        "resolver",
        "is",
        "way, ms",
        "known, ms",
        "new, ms",
        "unanswered",
        "signatures",
        "to blame",
    ];
    let number = |v: Option<f64>| v.map_or_else(|| "?".to_owned(), |v| significant(v, 3));
    Table {
        title: "Resolvers".into(),
        columns: columns.map(str::to_owned).to_vec(),
        rows: blamed
            .iter()
            .map(|(r, why)| {
                let is = match r.origin {
                    Origin::InUse => "in use".to_owned(),
                    Origin::Stub => format!("in use: {}", r.name),
                    Origin::BehindStub | Origin::Given => r.name.clone(),
                    Origin::Alternative if r.name == "given" => "alternative".to_owned(),
                    Origin::Alternative => format!("alternative ({})", r.name),
                };
                let to_blame = match why {
                    Blame::Resolver => "the resolver",
                    Blame::Recursion => "the resolver, for new names",
                    Blame::Distance => "its distance",
                    Blame::Line => "the link",
                    Blame::Silence => "the resolver: no answer",
                    Blame::Losses => "the link: it loses packets",
                    Blame::Nobody => "nobody",
                    Blame::Unknown | Blame::Unsure => "cannot tell",
                };
                vec![
                    r.address.to_owned(),
                    is,
                    number(r.way_ms()),
                    number(median(&r.warm)),
                    number(median(&r.cold)),
                    format!("{} of {}", r.lost, r.asked),
                    r.handling.word().to_owned(),
                    to_blame.to_owned(),
                ]
            })
            .collect(),
    }
}

fn plot(recording: &Recording, address: &str) -> Plot {
    let began = recording.delay.iter().map(|d| d.sent_ns).min().unwrap_or(0);
    let series = |name: &str, target: String, draw: Draw| {
        Series::new(
            name.to_owned(),
            draw,
            recording
                .delay
                .iter()
                .filter(|d| *d.target == *target)
                .map(|d| {
                    (
                        (d.sent_ns - began) as f64 * 1e-9,
                        d.rtt_ns.map(|ns| ns as f64 * 1e-6),
                    )
                })
                .collect(),
        )
    };
    Plot::new(
        format!("Lookups at {address}"),
        ("s", "ms"),
        vec![
            series("new names", Asked::Cold.target(address), Draw::Marks),
            series("known names", Asked::Warm.target(address), Draw::Marks),
            series("the way there and back", way_target(address), Draw::Thin),
        ],
    )
}
