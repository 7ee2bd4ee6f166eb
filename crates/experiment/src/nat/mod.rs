//! Address translation on the path: its mapping, filtering, lifetime and hairpinning.
//!
//! **Method.** One socket sends to two ports of our server's address and to a second address of it, which says where each
//! datagram came from: that is the mapping. Another socket sends to one port only, and the server sends to it from the
//! others: that is the filtering. Fresh sockets, and one again and again, show whether the external address alternates.
//! Two sockets here send to each other's external address: hairpinning. With one address at the server, what depends
//! on addresses cannot be told from what does not. Nothing is sent to an address that only the server has named.
//!
//! **Source.** RFC 4787, Network Address Translation (NAT) Behavioral Requirements for Unicast UDP, sections 4 to 6; RFC
//! 5780, NAT Behavior Discovery Using Session Traversal Utilities for NAT (STUN), section 4; Chandele 2012, procedure j.

mod lifetime;
mod silence;
mod steps;

use super::alert::{self, Alert, Severity};
use super::answer::{Figured, Outcome, Table};
use super::spec::{How, Spec};
use base::Duration;
use base::noted::Noted;
use base::noted::nat::{Far, NatNote};
use base::print::significant;
use base::record::Recording;
use base::spec::{Params as _, params};
use lifetime::{Lives, Silence};
use stats::Figure;
use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "nat": "Are addresses translated on the path, and how does the NAT map and filter?", ["RFC 4787", "RFC 5780", "Chandele 2012, procedure j"] {
        /// fresh sockets whose external addresses are compared
        sockets: u32 = "8" ["2".."64"];
        /// time for which these sockets send, to find external addresses that change
        during: Duration = "10 s" ["0 s".."100 s"], "Chandele 2012, procedure j";
        /// longest silence to test for a mapping's lifetime, such as 5min; the test takes that long
        lifetime: Option<Duration> ["2 s".."15 min"], "RFC 4787, section 4.3";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "ten seconds, more if answers never come, 30 kB; with `lifetime=` that much longer, and 100 kB",
    // An answer that others' queues delay beyond its time would be taken for one that a filter held back.
    beside_others: false,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |w, recording| answer(&w.read(), recording),
};

/// Dependence on the other end, in the terms of RFC 4787.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Depends {
    Not,
    OnAddress,
    OnAddressAndPort,
    /// Unknown, or one of the first two.
    Unknown(String),
}

impl Depends {
    fn word(&self) -> String {
        match self {
            Depends::Not => "endpoint-independent".into(),
            Depends::OnAddress => "address-dependent".into(),
            Depends::OnAddressAndPort => "address- and port-dependent".into(),
            Depends::Unknown(why) => format!("cannot tell: {why}"),
        }
    }
}

#[derive(Default)]
struct Seen {
    /// External addresses of the first socket.
    mapped: BTreeMap<Far, Option<SocketAddr>>,
    unasked: BTreeMap<Far, bool>,
    closed: BTreeMap<Far, String>,
    /// External addresses of each socket's datagrams, in order.
    external: BTreeMap<u32, Vec<SocketAddr>>,
    pairs: Vec<(SocketAddr, SocketAddr)>,
    sent: usize,
    arrived: usize,
    answered: usize,
    tcp: Option<(SocketAddr, SocketAddr)>,
    hairpin: Option<(bool, Option<SocketAddr>, SocketAddr)>,
    /// Reason why hairpinning was not tried.
    hairpin_withheld: Option<String>,
    silences: Vec<Silence>,
}

fn seen(recording: &Recording) -> Seen {
    let mut s = Seen::default();
    for (_, note) in NatNote::all_of(recording) {
        match note {
            NatNote::Mapped {
                socket,
                local,
                to,
                external,
                answered,
            } => {
                s.sent += 1;
                s.arrived += usize::from(external.is_some());
                s.answered += usize::from(answered);
                if socket == 0 {
                    s.mapped.insert(to, external);
                }
                if let Some(external) = external {
                    s.external.entry(socket).or_default().push(external);
                    s.pairs.push((local, external));
                }
            }
            NatNote::Connected { local, external } => s.tcp = Some((local, external)),
            NatNote::Unasked { from, arrived } => {
                s.unasked.insert(from, arrived);
            }
            NatNote::Hairpin {
                arrived,
                source,
                external,
            } => s.hairpin = Some((arrived, source, external)),
            NatNote::HairpinWithheld { why, .. } => s.hairpin_withheld = Some(why),
            NatNote::Silent {
                talked,
                least_ns,
                most_ns,
                arrived,
            } => s.silences.push(Silence {
                talked,
                least_s: least_ns as f64 * 1e-9,
                most_s: most_ns as f64 * 1e-9,
                arrived,
            }),
            NatNote::Closed { at, why } => {
                s.closed.insert(at, why);
            }
        }
    }
    s
}

impl Seen {
    /// Reason why the server's second address told nothing.
    fn no_second(&self) -> String {
        match self.closed.get(&Far::OtherAddress) {
            Some(why) => format!(
                "endpoint-independent or address-dependent; telling them apart needs a second address of the server ({why})"
            ),
            None => "endpoint-independent or address-dependent; nothing that was sent to the server's second address arrived there".into(),
        }
    }

    fn mapping(&self) -> Depends {
        let at = |far| self.mapped.get(&far).copied().flatten();
        match (at(Far::Same), at(Far::OtherPort), at(Far::OtherAddress)) {
            (Some(a), Some(b), _) if a != b => Depends::OnAddressAndPort,
            (Some(a), Some(_), Some(c)) if a == c => Depends::Not,
            (Some(_), Some(_), Some(_)) => Depends::OnAddress,
            (Some(_), Some(_), None) => Depends::Unknown(self.no_second()),
            _ => Depends::Unknown("too few datagrams reached the server".into()),
        }
    }

    fn filtering(&self) -> Depends {
        let from = |far| self.unasked.get(&far).copied();
        match (
            from(Far::Same),
            from(Far::OtherPort),
            from(Far::OtherAddress),
        ) {
            (_, _, Some(true)) => Depends::Not,
            (Some(true), Some(true), Some(false)) => Depends::OnAddress,
            (Some(true), Some(false), _) => Depends::OnAddressAndPort,
            (Some(true), Some(true), None) => Depends::Unknown(self.no_second()),
            (Some(false), ..) => Depends::Unknown(
                "not even what the server sent from the port that was asked came".into(),
            ),
            _ => Depends::Unknown("too little came back".into()),
        }
    }

    /// Lifetime of a silent socket.
    fn lives(&self, talked: bool) -> Lives {
        let comes = self.unasked.get(&Far::Same) == Some(&true);
        lifetime::lives(&self.silences, talked, comes)
    }

    fn addresses(&self) -> BTreeSet<IpAddr> {
        self.pairs.iter().map(|(_, e)| e.ip()).collect()
    }

    /// True if the external address of a socket changed while it sent to the same port of the server.
    fn changes(&self) -> bool {
        let several = |all: &Vec<SocketAddr>| {
            all.iter()
                .map(SocketAddr::ip)
                .collect::<BTreeSet<_>>()
                .len()
                > 1
        };
        self.external.iter().any(|(n, all)| *n > 0 && several(all))
    }
}

fn list(all: &BTreeSet<IpAddr>) -> String {
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    all.join(", ")
}

/// True for addresses that a provider shares among its customers (RFC 6598).
fn shared(ip: IpAddr) -> bool {
    matches!(ip, IpAddr::V4(v4) if v4.octets()[0] == 100 && v4.octets()[1] & 0xc0 == 64)
}

fn answer(params: &Params, recording: &Recording) -> Outcome {
    let s = seen(recording);
    if s.sent == 0 {
        return Outcome::cannot_tell("nothing was sent");
    }
    if s.pairs.is_empty() {
        let means = "Calls, games and much of the web (QUIC, HTTP/3) use UDP. They fail or fall back to something slower.";
        let mut outcome = Outcome::cannot_tell(
            "no datagram reached the server, although it can be reached over TCP",
        );
        outcome.alerts = vec![Alert::new(
            Severity::Serious,
            "UDP is blocked towards the server",
            means,
        )];
        return outcome;
    }
    let translated = s.pairs.iter().any(|(local, external)| local != external);
    let (mapping, filtering) = (s.mapping(), s.filtering());
    let (once, talked) = (s.lives(false), s.lives(true));
    let addresses = s.addresses();
    let kept = s.pairs.iter().filter(|(l, e)| l.port() == e.port()).count();
    let local = s.pairs[0].0.ip();
    let mut alerts = Vec::new();
    if translated {
        alerts.extend(alerts_of(&s, &mapping, &filtering, &addresses));
    } else if filtering == Depends::Not {
        alerts.push(Alert::new(
            Severity::Note,
            "no firewall keeps unasked datagrams out",
            "Whatever listens on a UDP port of this host can be reached by anybody who knows its address.",
        ));
    }
    alerts.extend(lifetime::alert(once, talked));
    let ports_depend_on_others = translated && mapping == Depends::Not && kept == s.pairs.len();
    let doubts = doubts(params, &s, ports_depend_on_others);
    let mut text = says(&s, translated, &mapping, &filtering, local, &addresses);
    if talked != Lives::Untried {
        let forgets = matches!(talked, Lives::Between(..) | Lives::LessThan(_));
        let verb = if forgets {
            "forgotten after"
        } else {
            "remembered:"
        };
        text += &format!(
            " A socket that has talked and is silent is {verb} {}.",
            talked.text()
        );
    }
    let advice = talked.safe_s().map(|s| {
        format!(
            "What waits to be called (telephones, VPNs, games) must send something more often than every {} s.",
            significant(s, 2)
        )
    });
    Outcome {
        says: text,
        figures: figures(&s, addresses.len(), kept, once, talked),
        advice: advice.into_iter().collect(),
        alerts: alert::sorted(alerts),
        evidence: evidence(&s),
        doubts,
        tables: vec![table(
            &s, translated, &mapping, &filtering, &addresses, kept,
        )],
        ..Outcome::default()
    }
}

/// External addresses, ports kept, and lifetimes of mappings.
fn figures(s: &Seen, addresses: usize, kept: usize, once: Lives, talked: Lives) -> Vec<Figured> {
    let mut figures = vec![
        Figured::count(
            "external_addresses",
            "external addresses seen",
            Figure::exactly(addresses as f64),
        ),
        Figured::share(
            "ports_kept",
            "ports kept as they are",
            stats::wilson(kept as f64, s.pairs.len() as f64),
        ),
    ];
    if talked != Lives::Untried {
        for (key, name, lives) in [
            (
                "lifetime_ms",
                "a silent socket that talked is forgotten after",
                talked,
            ),
            ("lifetime_once_ms", "one that asked only once, after", once),
        ] {
            figures.push(Figured::time(key, name, lives.figure()));
        }
    }
    figures
}

/// Reasons to doubt the answer. `ports_depend_on_others` is true if ports are kept while no other host uses them.
fn doubts(params: &Params, s: &Seen, ports_depend_on_others: bool) -> Vec<String> {
    let mut doubts = Vec::new();
    let longest = s.silences.iter().map(|s| s.least_s).fold(0.0, f64::max);
    if let Some(wanted) = params.lifetime
        && longest < 0.9 * wanted.as_secs_f64()
    {
        doubts.push(format!(
            "silences of up to {} s were seen to their end, of {wanted:.0} that were asked for",
            significant(longest, 3)
        ));
    }
    let lost = lifetime::lost(&s.silences);
    if lost > 0 {
        doubts.push(format!(
            "after {lost} silences nothing came although something came after longer ones: it was lost on the way"
        ));
    }
    if ports_depend_on_others {
        doubts.push("ports are kept as they are while nobody else uses them: whether the mapping stays endpoint-independent when two hosts use the same port cannot be told from one host".into());
    }
    if s.arrived > s.answered {
        doubts.push(format!(
            "{} of {} answers of the server did not come back",
            s.arrived - s.answered,
            s.arrived
        ));
    }
    if s.arrived < s.sent {
        doubts.push(format!(
            "{} of {} datagrams, each sent up to four times, did not arrive",
            s.sent - s.arrived,
            s.sent
        ));
    }
    doubts
}

fn says(
    s: &Seen,
    translated: bool,
    mapping: &Depends,
    filtering: &Depends,
    local: IpAddr,
    addresses: &BTreeSet<IpAddr>,
) -> String {
    if !translated {
        let closed = match filtering {
            Depends::Not => "and nothing on the way keeps unasked datagrams out".to_owned(),
            Depends::Unknown(_) => "what is let in unasked cannot be told".to_owned(),
            other => format!(
                "but a firewall lets in only what was asked for ({} filtering)",
                other.word()
            ),
        };
        return format!(
            "Nothing translates addresses: the server sees {local} as it is, {closed}."
        );
    }
    let mut text = format!(
        "Addresses are translated: {local} appears as {}. Mapping: {}. Filtering: {}.",
        list(addresses),
        mapping.word(),
        filtering.word()
    );
    if s.changes() {
        text += " The external address of one and the same socket alternates.";
    } else if addresses.len() > 1 && *mapping == Depends::Not {
        text += " Different sockets get different external addresses.";
    }
    text
}

fn alerts_of(
    s: &Seen,
    mapping: &Depends,
    filtering: &Depends,
    addresses: &BTreeSet<IpAddr>,
) -> Vec<Alert> {
    let mut alerts = Vec::new();
    if matches!(mapping, Depends::OnAddress | Depends::OnAddressAndPort) {
        alerts.push(Alert::new(
            Severity::Warning,
            format!("the mapping is {}", mapping.word()),
            "Two hosts behind such translators cannot find each other directly: calls, games and file transfers between homes go by way of a relay, or fail.",
        ));
    }
    if s.changes() || addresses.len() > 1 && *mapping != Depends::OnAddress {
        alerts.push(Alert::new(
            Severity::Warning,
            format!("the external address alternates between {}", list(addresses)),
            "Services that tie a login to an address may throw you out; calls may connect and stay silent.",
        ));
    }
    if *filtering == Depends::Not {
        alerts.push(Alert::new(
            Severity::Note,
            "anybody can send to a port that is in use inside",
            "Good for games and calls; it also means that the translator is no firewall while a program talks.",
        ));
    }
    if let Some((false, ..)) = s.hairpin {
        alerts.push(Alert::new(
            Severity::Note,
            "hosts inside cannot reach each other by their external address",
            "A server at home is not found under its public name from inside.",
        ));
    }
    if s.pairs.iter().any(|(l, _)| shared(l.ip())) {
        alerts.push(Alert::new(
            Severity::Note,
            "this host's address is one that a provider shares among customers (100.64.0.0/10)",
            "The provider translates too; ports cannot be forwarded from outside.",
        ));
    }
    alerts
}

fn evidence(s: &Seen) -> Vec<String> {
    let mut lines = Vec::new();
    for (far, external) in &s.mapped {
        let to = match far {
            Far::Same => "to the server's first port",
            Far::OtherPort => "to another port of it",
            Far::OtherAddress => "to its second address",
        };
        lines.push(match external {
            Some(e) => format!("the same socket, {to}, appeared as {e}"),
            None => format!("the same socket, {to}: nothing arrived"),
        });
    }
    for (far, arrived) in &s.unasked {
        let from = match far {
            Far::Same => "the port that was sent to",
            Far::OtherPort => "another port of the server",
            Far::OtherAddress => "the server's second address",
        };
        let what = if *arrived {
            "arrived"
        } else {
            "did not arrive"
        };
        lines.push(format!("what was sent back from {from} {what}"));
    }
    let fresh = s
        .external
        .keys()
        .filter(|n| (10..1000).contains(*n))
        .count();
    lines.push(format!(
        "{fresh} sockets were compared over time; {} datagrams in all",
        s.sent
    ));
    if let Some((local, external)) = s.tcp {
        lines.push(format!(
            "a connection (TCP) from {local} appeared as {external}"
        ));
    }
    lines
}

fn hairpin(s: &Seen, translated: bool) -> String {
    match s.hairpin {
        _ if !translated => "nothing to ask".to_owned(),
        None => {
            let why = s.hairpin_withheld.as_deref();
            format!(
                "cannot tell: {}",
                why.unwrap_or("no two sockets reached the server")
            )
        }
        Some((false, ..)) => "no".to_owned(),
        Some((true, Some(source), external)) if source == external => {
            "yes, under the external address".to_owned()
        }
        Some((true, ..)) => "yes, under the internal address".to_owned(),
    }
}

fn table(
    s: &Seen,
    translated: bool,
    mapping: &Depends,
    filtering: &Depends,
    addresses: &BTreeSet<IpAddr>,
    kept: usize,
) -> Table {
    let hairpin = hairpin(s, translated);
    let pooling = if !translated {
        "nothing to ask".to_owned()
    } else if s.changes() {
        format!("alternates for one socket: {}", list(addresses))
    } else if addresses.len() > 1 {
        format!("differs: {}", list(addresses))
    } else {
        "one address".to_owned()
    };
    let tcp = match (s.tcp, addresses.first()) {
        (Some((_, external)), _) if addresses.contains(&external.ip()) => "the same address",
        (Some(_), Some(_)) => "another address than datagrams",
        _ => "cannot tell",
    };
    let ports = match (translated, kept) {
        (false, _) => "nothing to ask".to_owned(),
        (true, n) if n == s.pairs.len() => "kept".to_owned(),
        (true, 0) => "changed".to_owned(),
        (true, n) => format!("kept {n} times of {}", s.pairs.len()),
    };
    let row =
        |name: &str, found: String, section: &str| vec![name.to_owned(), found, section.to_owned()];
    Table::new(
        "What the way does to addresses",
        ["property", "found", "RFC 4787"],
        vec![
            row(
                "translation",
                if translated { "yes" } else { "no" }.into(),
                "2",
            ),
            row(
                "mapping",
                if translated {
                    mapping.word()
                } else {
                    "nothing to ask".into()
                },
                "4.1",
            ),
            row("external address", pooling, "4.1"),
            row("ports", ports, "4.2.1"),
            row("filtering", filtering.word(), "5"),
            row("hairpinning", hairpin, "6"),
            row("a silent socket is remembered", s.lives(true).text(), "4.3"),
            row("one that asked only once", s.lives(false).text(), "4.3"),
            row("connections (TCP)", tcp.to_owned(), ""),
        ],
    )
}
