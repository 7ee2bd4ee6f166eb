//! Answer of the kind `ecn`: sentences, figures, alerts and tables from the verdicts.

use super::MARKINGS;
use super::judge::{Fate, Finding, Place, findings, is_ecn};
use super::note::{EcnNote, Part};
use crate::alert::{self, Alert, Severity};
use crate::answer::{Figured, Outcome, Table};
use base::noted::Noted;
use base::record::{Direction, Recording};
use stats::Figure;
use std::net::IpAddr;

/// Answer from a recording.
pub(super) fn answer(recording: &Recording) -> Outcome {
    let all = findings(recording);
    let untried = untried(recording);
    let ways = ways(&all);
    if ways.is_empty() {
        return match untried.is_empty() {
            true => Outcome::cannot_tell("no datagrams were sent"),
            false => Outcome::cannot_tell(untried.join("; ")),
        };
    }
    let says: Vec<String> = ways.iter().map(Way::says).collect();
    let alerts = ways.iter().flat_map(Way::alerts).collect();
    Outcome {
        says: says.join(" "),
        figures: ways.iter().flat_map(Way::figures).collect(),
        alerts: alert::sorted(alerts),
        evidence: ways.iter().flat_map(Way::evidence).collect(),
        doubts: untried
            .into_iter()
            .chain(ways.iter().flat_map(Way::doubts))
            .collect(),
        tables: std::iter::once(markings(&all))
            .chain(hops(recording))
            .collect(),
        ..Outcome::default()
    }
}

fn untried(recording: &Recording) -> Vec<String> {
    let why = |(_, note)| match note {
        EcnNote::Untried { version, tcp, why } => {
            let transport = if tcp { "TCP over " } else { "" };
            Some(format!("{transport}IPv{version} was not tried: {why}"))
        }
        _ => None,
    };
    EcnNote::all_of(recording).filter_map(why).collect()
}

/// Verdicts in one direction over one version of IP and one transport.
struct Way<'a> {
    version: u8,
    direction: Direction,
    tcp: bool,
    all: Vec<&'a Finding>,
}

fn ways(all: &[Finding]) -> Vec<Way<'_>> {
    let mut ways: Vec<Way> = Vec::new();
    for finding in all {
        let (version, direction) = (finding.version, finding.direction);
        let tcp = !finding.part.is_udp();
        let its = |w: &Way| (w.version, w.direction, w.tcp) == (version, direction, tcp);
        match ways.iter_mut().find(|w| its(w)) {
            Some(way) => way.all.push(finding),
            None => ways.push(Way {
                version,
                direction,
                tcp,
                all: vec![finding],
            }),
        }
    }
    ways
}

/// Kind of marking: the two fields of the TOS byte of datagrams, and the parts of segments.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Field {
    Ecn,
    Dscp,
    Of(Part),
}

const FIELDS: [Field; 6] = [
    Field::Ecn,
    Field::Dscp,
    Field::Of(Part::Handshake),
    Field::Of(Part::TcpEcn),
    Field::Of(Part::Ace),
    Field::Of(Part::AccEcn),
];

impl Field {
    fn has(self, finding: &Finding) -> bool {
        // What a network makes of unmarked datagrams is their DSCP.
        let counts = finding.tos != 0 || matches!(finding.fate, Fate::Changed(_));
        let its = match self {
            Field::Ecn => finding.part.is_udp() && is_ecn(finding.tos),
            Field::Dscp => finding.part.is_udp() && !is_ecn(finding.tos),
            Field::Of(part) => finding.part == part,
        };
        counts && its
    }

    /// Name in texts, which the direction decides for handshakes.
    fn name(self, direction: Direction) -> &'static str {
        match self {
            Field::Ecn => "ECN codepoints",
            Field::Dscp => "DSCPs",
            Field::Of(Part::Handshake) if direction == Direction::Up => "SYNs with ECN",
            Field::Of(Part::Handshake) => "SYN-ACKs with ECN",
            Field::Of(Part::Udp | Part::TcpEcn) => "ECN codepoints of segments",
            Field::Of(Part::Ace) => "ACE flags of segments",
            Field::Of(Part::AccEcn) => "AccECN options",
        }
    }

    fn key(self) -> &'static str {
        match self {
            Field::Ecn => "ecn",
            Field::Dscp => "dscp",
            Field::Of(Part::Handshake) => "tcp_handshake",
            Field::Of(Part::Udp | Part::TcpEcn) => "tcp_ecn",
            Field::Of(Part::Ace) => "tcp_ace",
            Field::Of(Part::AccEcn) => "tcp_option",
        }
    }
}

impl Way<'_> {
    fn word(&self) -> &'static str {
        match self.direction {
            Direction::Up => "up",
            Direction::Down => "down",
        }
    }

    fn title(&self) -> String {
        let word = match self.direction {
            Direction::Up => "Up",
            Direction::Down => "Down",
        };
        let transport = if self.tcp { "TCP, " } else { "" };
        let word = if self.tcp { self.word() } else { word };
        format!("{transport}{word} over IPv{}", self.version)
    }

    fn of(&self, field: Field) -> impl Iterator<Item = &Finding> {
        self.all.iter().copied().filter(move |f| field.has(f))
    }

    /// Fields of the transport.
    fn fields(&self) -> impl Iterator<Item = Field> {
        let tcp = self.tcp;
        let its = move |f: &Field| matches!(f, Field::Of(_)) == tcp;
        FIELDS.into_iter().filter(its)
    }

    fn says(&self) -> String {
        let parts: Vec<String> = self.fields().map(|field| self.field(field)).collect();
        format!("{}: {}.", self.title(), parts.join("; "))
    }

    /// Fates of the markings of a field, those of one fate at one place together.
    fn field(&self, field: Field) -> String {
        let mut groups: Vec<(String, Vec<String>)> = Vec::new();
        for finding in self.of(field) {
            let fate = fate(finding);
            let name = name(finding);
            match groups.iter_mut().find(|g| g.0 == fate) {
                Some(group) => group.1.push(name),
                None => groups.push((fate, vec![name])),
            }
        }
        if let [(fate, _)] = &groups[..] {
            return format!("all {} {fate}", field.name(self.direction));
        }
        let parts = groups
            .iter()
            .map(|(fate, names)| format!("{} {fate}", names.join(", ")));
        parts.collect::<Vec<_>>().join(", ")
    }

    fn figures(&self) -> Vec<Figured> {
        let of = |field: Field| {
            let all_kept = self.of(field).all(|f| f.fate == Fate::Kept);
            std::iter::once(self.kept(field)).chain((!all_kept).then(|| self.hop(field)))
        };
        self.fields().flat_map(of).collect()
    }

    fn kept(&self, field: Field) -> Figured {
        let known: Vec<&Finding> = self.of(field).collect();
        let unknown = known.iter().find_map(|f| match &f.fate {
            Fate::Unknown(why) => Some(why.clone()),
            _ => None,
        });
        let kept = known.iter().filter(|f| f.fate == Fate::Kept).count();
        let figure = match unknown {
            Some(why) => Figure::cannot_tell(why),
            None => Figure::exactly(kept as f64 / known.len().max(1) as f64),
        };
        let key = format!("{}_v{}_{}_kept", self.word(), self.version, field.key());
        let name = format!(
            "{} that arrive unchanged {} over IPv{}",
            field.name(self.direction),
            self.word(),
            self.version
        );
        Figured::share(&key, &name, figure)
    }

    /// First hop behind the place at which a marking of this field is changed or lost.
    fn hop(&self, field: Field) -> Figured {
        let places = self.of(field).filter_map(|f| f.place.as_ref());
        let first = places.min_by_key(|p| match p {
            Place::Between { after, .. } => *after,
            Place::Unknown(_) => u8::MAX,
        });
        let none = || Figure::cannot_tell("no marking is known to be changed or lost");
        let figure = first.map_or_else(none, behind);
        let key = format!("{}_v{}_{}_hop", self.word(), self.version, field.key());
        let name = format!(
            "first hop that sees {} changed or not at all {} over IPv{}",
            field.name(self.direction),
            self.word(),
            self.version
        );
        Figured::count(&key, &name, figure)
    }

    fn alerts(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let title = self.title();
        let mut add = |which: &dyn Fn(&Finding) -> bool, severity, what: &str, means: &str| {
            let names: Vec<String> = self
                .all
                .iter()
                .filter(|f| which(f))
                .map(|f| name(f))
                .collect();
            if !names.is_empty() {
                alerts.push(Alert::new(
                    severity,
                    format!("{title}: {what}: {}", names.join(", ")),
                    means,
                ));
            }
        };
        let changed =
            |f: &Finding, to: &dyn Fn(u8) -> bool| matches!(f.fate, Fate::Changed(tos) if to(tos));
        let segments = |f: &Finding, part| f.part == part && f.tos != 0;
        add(
            &|f| segments(f, Part::Handshake) && f.fate == Fate::Lost,
            Severity::Serious,
            "a black hole for TCP handshakes with ECN",
            "Connections with ECN do not start until the host tries without, which takes a second or more.",
        );
        add(
            &|f| segments(f, Part::TcpEcn) && f.fate == Fate::Lost,
            Severity::Serious,
            "TCP segments with ECN are dropped",
            "Connections with ECN start and then stall: hosts do not fall back inside a connection.",
        );
        add(
            &|f| segments(f, Part::TcpEcn) && changed(f, &|e| e == 3),
            Severity::Serious,
            "every TCP segment is marked CE",
            "Senders with ECN see congestion all the time, and slow down.",
        );
        add(
            &|f| segments(f, Part::TcpEcn) && changed(f, &|e| e != 3),
            Severity::Warning,
            "the ECN codepoint of TCP segments is changed",
            "Queues beyond that place see another codepoint: marks are lost, or ECN gives nothing in this direction.",
        );
        add(
            &|f| f.part == Part::Handshake && changed(f, &|_| true),
            Severity::Warning,
            "ECN flags of TCP handshakes are changed",
            "The ends agree on less than both can do, or on nothing: no ECN, or no AccECN.",
        );
        add(
            &|f| matches!(f.part, Part::Ace | Part::AccEcn) && f.tos != 0 && f.fate == Fate::Lost,
            Severity::Serious,
            "TCP segments with feedback on ECN are dropped",
            "Connections with ECN or AccECN stall when the receiver reports marks.",
        );
        add(
            &|f| matches!(f.part, Part::Ace | Part::AccEcn) && changed(f, &|_| true),
            Severity::Warning,
            "feedback on ECN in TCP headers is changed",
            "Senders do not learn of marks, or of fewer than there are.",
        );
        // The others are about datagrams.
        let datagrams = |f: &Finding| f.part.is_udp();
        let (is_ecn, changed) = (
            |f: &Finding| datagrams(f) && is_ecn(f.tos),
            |f: &Finding, to: &dyn Fn(u8) -> bool| datagrams(f) && changed(f, to),
        );
        add(
            &|f| is_ecn(f) && f.fate == Fate::Lost,
            Severity::Serious,
            "datagrams with ECN are dropped",
            "Programs that use ECN lose all of their packets until they fall back, which can take seconds.",
        );
        add(
            &|f| matches!(f.tos, 1 | 2) && changed(f, &|tos| tos & 3 == 3),
            Severity::Serious,
            "every datagram is marked CE",
            "Senders with ECN see congestion all the time, and slow down.",
        );
        add(
            &|f| is_ecn(f) && changed(f, &|tos| tos & 3 == 0),
            Severity::Warning,
            "ECN is cleared",
            "Queues beyond that place can only drop, and marks before it are lost: ECN and L4S give nothing in this direction.",
        );
        add(
            &|f| is_ecn(f) && changed(f, &|tos| matches!(tos & 3, 1 | 2)),
            Severity::Warning,
            "the ECN codepoint is replaced",
            "Low-latency queues take L4S flows for others, or others for L4S.",
        );
        add(
            &|f| datagrams(f) && !is_ecn(f) && f.fate == Fate::Lost,
            Severity::Warning,
            "datagrams with a DSCP are dropped",
            "Programs that ask for this class lose all of their packets.",
        );
        add(
            &|f| datagrams(f) && !is_ecn(f) && changed(f, &|_| true),
            Severity::Note,
            "the DSCP is changed",
            "Queues beyond that place do not see the class that the sender asks for.",
        );
        alerts
    }

    fn evidence(&self) -> Vec<String> {
        let told = self
            .all
            .iter()
            .filter(|f| f.fate != Fate::Kept || f.congested > 0);
        told.map(|f| {
            let congested = match f.congested {
                0 => String::new(),
                n => format!("; a queue marked {n} of them CE"),
            };
            format!(
                "{}: {} {}; {} of {} arrived{congested}.",
                self.title(),
                name(f),
                fate(f),
                f.arrived,
                f.sent
            )
        })
        .collect()
    }

    fn doubts(&self) -> Vec<String> {
        let mut doubts = Vec::new();
        for finding in &self.all {
            let why = match (&finding.fate, &finding.place) {
                (Fate::Unknown(why), _) if finding.tos != 0 => why,
                (_, Some(Place::Unknown(why))) => why,
                _ => continue,
            };
            let doubt = format!("{}: cannot tell: {why}", self.title());
            if !doubts.contains(&doubt) {
                doubts.push(doubt);
            }
        }
        doubts
    }
}

fn name(finding: &Finding) -> String {
    value_name(finding.part, finding.direction, finding.tos)
}

/// Flags AE, CWR and ECE.
fn flags(value: u8) -> String {
    let names = [(4, "AE"), (2, "CWR"), (1, "ECE")];
    let set = names.iter().filter(|(bit, _)| value & bit != 0);
    let set: Vec<&str> = set.map(|(_, name)| *name).collect();
    match set.is_empty() {
        true => "no ECN flag".to_owned(),
        false => set.join("+"),
    }
}

fn codepoint(value: u8) -> &'static str {
    ["Not-ECT", "ECT(1)", "ECT(0)", "CE"][usize::from(value & 3)]
}

/// Value of a part in words.
fn part_value(part: Part, value: u8) -> String {
    match part {
        Part::Udp => byte(value),
        Part::TcpEcn => codepoint(value).to_owned(),
        Part::Handshake | Part::Ace => flags(value),
        Part::AccEcn => ["no option", "option 172", "option 174"][usize::from(value.min(2))].into(),
    }
}

fn value_name(part: Part, direction: Direction, value: u8) -> String {
    let word = match (part, direction) {
        (Part::Udp, _) => {
            let its = MARKINGS.iter().find(|m| m.tos == value);
            return its.map_or("another marking", |m| m.name).to_owned();
        }
        (Part::Handshake, Direction::Up) => "SYN with",
        (Part::Handshake, Direction::Down) => "SYN-ACK with",
        _ => "segments with",
    };
    format!("{word} {}", part_value(part, value))
}

/// TOS byte in words.
fn byte(tos: u8) -> String {
    if let Some(marking) = MARKINGS.iter().find(|m| m.tos == tos) {
        return marking.name.to_owned();
    }
    let ecn = ["", ", ECT(1)", ", ECT(0)", ", CE"][usize::from(tos & 3)];
    format!("DSCP {}{ecn}", tos >> 2)
}

/// Changed field of a marking in words.
fn value(finding: &Finding, tos: u8) -> String {
    match is_ecn(finding.tos) {
        _ if !finding.part.is_udp() => part_value(finding.part, tos),
        true => ["Not-ECT", "ECT(1)", "ECT(0)", "CE"][usize::from(tos & 3)].to_owned(),
        false if tos == 0 => "DSCP 0".to_owned(),
        false => byte(tos),
    }
}

/// Fate with its place.
fn fate(finding: &Finding) -> String {
    let place = || {
        finding
            .place
            .as_ref()
            .map_or_else(String::new, |p| at(finding, p))
    };
    match &finding.fate {
        Fate::Kept => "arrive unchanged".into(),
        Fate::Changed(tos) => format!("arrive as {}, changed{}", value(finding, *tos), place()),
        Fate::Lost => format!("are dropped{}", place()),
        Fate::Unknown(why) => format!("cannot be told ({why})"),
    }
}

/// Place at which the marking is changed or lost, such as " between hop 2 (10.0.0.2) and the server"; null if it is unknown.
pub(crate) fn place(finding: &Finding) -> Option<String> {
    match finding.place.as_ref()? {
        Place::Unknown(_) => None,
        known => Some(at(finding, known)),
    }
}

/// First hop behind the place at which the marking is changed or lost; null if it is kept.
pub(crate) fn hop(finding: &Finding) -> Option<Figure> {
    finding.place.as_ref().map(behind)
}

fn behind(place: &Place) -> Figure {
    match place {
        Place::Unknown(why) => Figure::cannot_tell(why.clone()),
        Place::Between { by: None, .. } => Figure::cannot_tell("the length of the path is unknown"),
        Place::Between {
            after,
            by: Some(by),
        } => Figure::Is {
            value: f64::from(*by),
            low: f64::from(*after),
            high: f64::from(*by),
        },
    }
}

fn at(finding: &Finding, place: &Place) -> String {
    let sender = match finding.direction {
        Direction::Up => "this host",
        Direction::Down => "the server",
    };
    let receiver = match finding.direction {
        Direction::Up => "the server",
        Direction::Down => "this host",
    };
    let Place::Between { after, by } = place else {
        return " at an unknown hop".into();
    };
    let hop = |number: u8, router: Option<IpAddr>| match router {
        Some(address) => format!("hop {number} ({address})"),
        None => format!("hop {number}"),
    };
    let [before, behind] = finding.routers;
    let after = match after {
        0 => sender.to_owned(),
        n => hop(*n, before),
    };
    let from_server = match finding.direction {
        Direction::Up => "",
        Direction::Down => ", counted from the server",
    };
    match by {
        None => format!(" beyond {after}{from_server}"),
        Some(_) if finding.at_end => format!(" between {after} and {receiver}{from_server}"),
        Some(by) => format!(" between {after} and {}{from_server}", hop(*by, behind)),
    }
}

fn markings(all: &[Finding]) -> Table {
    let row = |f: &Finding| {
        vec![
            format!(
                "IPv{} {}",
                f.version,
                if f.direction == Direction::Up {
                    "up"
                } else {
                    "down"
                }
            ),
            name(f),
            fate(f),
            format!("{} of {}", f.arrived, f.sent),
        ]
    };
    let marked = all.iter().filter(|f| f.tos != 0);
    Table::new(
        "Markings",
        ["direction", "sent as", "found", "arrived"],
        marked.map(row).collect(),
    )
}

/// Hops that were asked, with the TOS byte that each quotes; none if no marking is changed or lost.
fn hops(recording: &Recording) -> Option<Table> {
    let mut rows = Vec::new();
    for (_, note) in EcnNote::all_of(recording) {
        let EcnNote::Traced {
            version,
            direction,
            part,
            tos,
            hops,
            ..
        } = note
        else {
            continue;
        };
        let word = if direction == Direction::Up {
            "up"
        } else {
            "down"
        };
        for seen in hops {
            let quoting = seen.quotes.first().map(|q| q.0);
            let address = quoting.or(seen.vague.first().copied());
            let address = address.map_or("–".to_owned(), |a| a.to_string());
            let mut quoted: Vec<String> =
                seen.quotes.iter().map(|q| part_value(part, q.1)).collect();
            quoted.dedup();
            let quoted = match (quoted.is_empty(), seen.answers()) {
                (true, false) => "no answer".to_owned(),
                (true, true) => "too short to tell".to_owned(),
                (false, _) => quoted.join("; "),
            };
            let way = format!("IPv{version} {word}");
            let sent = match part {
                Part::Udp => byte(tos),
                _ => value_name(part, direction, tos),
            };
            rows.push(vec![way, sent, seen.hop.to_string(), address, quoted]);
        }
    }
    (!rows.is_empty()).then(|| {
        Table::new(
            "Hops, counted from the sender",
            ["direction", "sent as", "hop", "router", "quoted"],
            rows,
        )
    })
}
