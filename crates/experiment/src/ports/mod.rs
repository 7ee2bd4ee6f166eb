//! Ports that are blocked on the path to the server, and the manner of blocking.
//!
//! **Method.** The server opens each port for a while and reports arrivals. A connection, or a datagram, to it carries
//! a token; the server answers with bytes that nobody else can know. Both ends together distinguish silence from a
//! refusal, a refusal by the server from one by a box before it, and our server from a device that answers in its name.
//! Ports that seem blocked are tried in three rounds. If losses of the path would explain a block all the same, it is not told.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on
//! Networks", UTFSM, table 4, alert 1 (Netalyzr); RFC 9293, Transmission Control Protocol (TCP), section 3.5.3.

mod steps;

use super::alert::{Alert, Severity};
use super::answer::{Figured, Outcome, Table};
use super::spec::{How, Spec};
use base::Duration;
use base::noted::Noted;
use base::noted::ports::{Back, PortNote};
use base::record::Recording;
use base::spec::{Params as _, params};
use base::words::Words;
use stats::Figure;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "ports": "Which TCP and UDP ports are blocked on the path to the server, and how?", ["J. S. Catalán Olmos, Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks, UTFSM",
            "RFC 9293",] {
        /// TCP ports, 256 at most
        tcp: Vec<u16> = "21; 22; 25; 53; 80; 110; 143; 443; 465; 587; 853; 993; 995; 1194; 1723; 3389; 5060; 5061; 6881; 8080" ["1".."65535"], "Catalán 2014, table 4";
        /// UDP ports, 256 at most
        udp: Vec<u16> = "53; 123; 161; 443; 500; 1194; 3478; 4500; 5060; 51820" ["1".."65535"];
        /// no reply within this time counts as filtered; a lost SYN is sent again after 1 and 3 s
        patience: Duration = "4 s" ["200 ms".."60 s"], "RFC 6298";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "a second on a clear path, 25 s if ports are blocked; 130 kB at most",
    // What others' queues delay beyond the patience would be taken for blocked.
    beside_others: false,
    comes_near_budget: false,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer,
};

/// Verdict on a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Open,
    /// Filtered: nothing came through, and no answer came.
    Silent,
    /// A device on the path refused.
    Refused,
    /// A device on the path answered in the server's place.
    Somebody,
    /// The message came through, and the answer was lost.
    AnswerLost,
    /// The connection was set up at both ends, and its data did not arrive.
    Swallowed,
    /// The message came through, and the answer differs from the server's.
    Changed,
    /// Unknown: the path loses so much that an open port may stay silent.
    Lossy,
    Unknown,
}

fn verdict(n: &PortNote) -> Verdict {
    if n.closed.is_some() {
        return Verdict::Unknown;
    }
    match (n.back, n.seen) {
        (Back::Proof, _) => Verdict::Open,
        (Back::Other, true) => Verdict::Changed,
        (Back::Other, false) => Verdict::Somebody,
        // A connection that the server never saw was made by somebody else.
        (_, false) if n.connected => Verdict::Somebody,
        (Back::Refusal | Back::Unreachable, false) => Verdict::Refused,
        (Back::Refusal | Back::Unreachable, true) => Verdict::AnswerLost,
        (Back::Nothing, true) if n.whole => Verdict::AnswerLost,
        (Back::Nothing, true) if n.connected => Verdict::Swallowed,
        (Back::Nothing, true) => Verdict::AnswerLost,
        (Back::Nothing, false) => Verdict::Silent,
    }
}

/// Chance above which losses would explain a block that three rounds of knocks have met.
const BY_CHANCE: f64 = 0.003;

/// Chance that losses of the path keep an open port silent in all rounds: of the open ports, the share that stayed silent in
/// each round but the last, in which none did. None if every open port answered at once.
fn lost_by_chance(notes: &[PortNote]) -> f64 {
    let open: Vec<&PortNote> = notes.iter().filter(|n| n.back == Back::Proof).collect();
    if open.iter().all(|n| n.rounds <= 1) {
        return 0.0;
    }
    let rounds = notes.iter().map(|n| n.rounds).max().unwrap_or(1);
    let (mut chance, mut share) = (1.0, 0.5);
    for round in 1..=rounds {
        let tried = open.iter().filter(|n| n.rounds >= round).count();
        let silent = open.iter().filter(|n| n.rounds > round).count();
        if tried > 0 && round < rounds {
            // Few ports know their share badly: the round before counts for one of them.
            share = (silent as f64 + share) / (tried as f64 + 1.0);
        }
        chance *= share;
    }
    chance
}

/// Verdict in a run in which losses may look like blocks with this chance.
fn verdict_despite(n: &PortNote, by_chance: f64) -> Verdict {
    match verdict(n) {
        Verdict::Silent | Verdict::AnswerLost | Verdict::Swallowed | Verdict::Somebody
            if by_chance > BY_CHANCE && n.back == Back::Nothing =>
        {
            Verdict::Lossy
        }
        verdict => verdict,
    }
}

/// Number of ports, and the most that it may be where losses hide some.
pub(super) fn at_most(count: usize, most: usize) -> Figure {
    Figure::Is {
        value: count as f64,
        low: count as f64,
        high: most as f64,
    }
}

/// Number of ports of which losses hide if they are open.
pub(super) fn hidden(recording: &Recording) -> usize {
    let notes: Vec<PortNote> = PortNote::all_of(recording).map(|(_, n)| n).collect();
    let by_chance = lost_by_chance(&notes);
    let lossy = |n: &&PortNote| verdict_despite(n, by_chance) == Verdict::Lossy;
    notes.iter().filter(lossy).count()
}

/// Usual use of a port, if it is well known.
fn used_for(n: &PortNote) -> &'static str {
    match (n.transport == "TCP", n.port) {
        (true, 21) => "FTP",
        (true, 22) => "SSH",
        (true, 25) => "mail between servers",
        (_, 53) => "names (DNS)",
        (true, 80) => "the web without encryption",
        (true, 110 | 143) => "fetching mail without encryption",
        (false, 123) => "time (NTP)",
        (false, 161) => "network management (SNMP)",
        (true, 443) => "the web",
        (false, 443) => "the web over QUIC (HTTP/3)",
        (true, 465 | 587) => "sending mail",
        (false, 500 | 4500) => "VPN (IPsec)",
        (true, 853) => "names, encrypted (DNS over TLS)",
        (true, 993 | 995) => "fetching mail",
        (_, 1194) => "VPN (OpenVPN)",
        (true, 1723) => "VPN (PPTP)",
        (true, 3389) => "remote desktop",
        (false, 3478) => "calls (STUN)",
        (_, 5060 | 5061) => "telephony (SIP)",
        (true, 6881) => "BitTorrent",
        (true, 8080) => "web proxies",
        (false, 51820) => "VPN (WireGuard)",
        _ => "",
    }
}

fn word(v: Verdict) -> &'static str {
    match v {
        Verdict::Open => "open",
        Verdict::Silent => "blocked silently",
        Verdict::Refused => "refused by a box on the way",
        Verdict::Somebody => "answered by somebody else",
        Verdict::AnswerLost => "the answer is blocked",
        Verdict::Swallowed => "connected, its data is blocked",
        Verdict::Changed => "the answer is changed",
        Verdict::Lossy | Verdict::Unknown => "cannot tell",
    }
}

fn why(n: &PortNote, v: Verdict) -> String {
    let away = || n.from.map_or_else(String::new, |f| format!(" from {f}"));
    match v {
        Verdict::Open => match (n.from, n.usual) {
            (Some(from), Some(usual)) if from.ip() != usual.ip() => {
                format!(
                    "the server saw it come from {}, and this host elsewhere as {}",
                    from.ip(),
                    usual.ip()
                )
            }
            _ => String::new(),
        },
        Verdict::Silent => "the server saw nothing, nothing came back".into(),
        Verdict::Refused if n.back == Back::Unreachable => {
            "ICMP said that nothing leads there; the server saw nothing".into()
        }
        Verdict::Refused => "a refusal came, and the server, which listened, saw nothing".into(),
        Verdict::Somebody if n.back == Back::Other => {
            "an answer came that is not the server's; the server saw nothing".into()
        }
        Verdict::Somebody => "a connection came about that the server never saw".into(),
        Verdict::AnswerLost => format!(
            "the server saw it{} and answered, the answer did not come",
            away()
        ),
        Verdict::Swallowed => format!("the server saw the connection{}, and nothing in it", away()),
        Verdict::Changed => format!(
            "the server saw it{}; what came back is not what it said",
            away()
        ),
        Verdict::Lossy => "no answer came, and the path loses so much that it may be open".into(),
        Verdict::Unknown => n.closed.clone().unwrap_or_default(),
    }
}

fn names(all: &[(&PortNote, Verdict)], which: impl Fn(Verdict) -> bool) -> (usize, String) {
    let some: Vec<String> = all
        .iter()
        .filter(|(_, v)| which(*v))
        .map(|(n, _)| match used_for(n) {
            "" => format!("{} {}", n.transport, n.port),
            used => format!("{} {} ({used})", n.transport, n.port),
        })
        .collect();
    (some.len(), some.join(", "))
}

/// Ways of being blocked.
const BLOCKED: [Blocked; 4] = [
    Blocked {
        key: "silent",
        name: "blocked silently",
        verdicts: &[Verdict::Silent],
        severity: Severity::Warning,
        what: "blocked silently",
        means: "Programs that use them hang until they give up, which can take minutes.",
    },
    Blocked {
        key: "refused",
        name: "refused on the way",
        verdicts: &[Verdict::Refused],
        severity: Severity::Warning,
        what: "refused by a box on the way",
        means: "Programs that use them fail at once. Other ports of the same service may be open.",
    },
    Blocked {
        key: "somebody",
        name: "answered by somebody else",
        verdicts: &[Verdict::Somebody, Verdict::Changed],
        severity: Severity::Serious,
        what: "somebody on the way answers for the server",
        means: "What is said there is heard, and may be changed, by a box between here and the server. Use encrypted services only.",
    },
    Blocked {
        key: "one_way",
        name: "let through one way only",
        verdicts: &[Verdict::AnswerLost, Verdict::Swallowed],
        severity: Severity::Warning,
        what: "let through one way only",
        means: "Programs that use them connect or send, and hang.",
    },
];

/// Way of being blocked: its figure, and its alert with the consequence for programs.
struct Blocked {
    key: &'static str,
    name: &'static str,
    verdicts: &'static [Verdict],
    severity: Severity,
    what: &'static str,
    means: &'static str,
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let notes: Vec<PortNote> = PortNote::all_of(recording).map(|(_, n)| n).collect();
    let by_chance = lost_by_chance(&notes);
    let verdicts = notes.iter().map(|n| (n, verdict_despite(n, by_chance)));
    let all: Vec<(&PortNote, Verdict)> = verdicts.collect();
    if all.is_empty() {
        return Outcome::cannot_tell("no port was tried");
    }
    let of = |which: &[Verdict]| names(&all, |v| which.contains(&v));
    let (open, _) = of(&[Verdict::Open]);
    let (closed, closed_names) = of(&[Verdict::Unknown]);
    let (lossy, lossy_names) = of(&[Verdict::Lossy]);
    let unknown = closed + lossy;
    let blocked = BLOCKED.map(|b| {
        let (count, names) = of(b.verdicts);
        (b, count, names)
    });
    let mut found: Vec<_> = blocked.iter().filter(|(_, count, _)| *count > 0).collect();
    found.sort_by_key(|(b, ..)| b.severity);
    let alerts = found
        .iter()
        .map(|(b, _, names)| Alert::new(b.severity, format!("{}: {names}", b.what), b.means));
    let tried = all.len() - unknown;
    let says = if tried == 0 {
        let why = match lossy {
            0 => "the server could open none of",
            _ => "the path loses too much to knock at",
        };
        format!("Cannot tell: {why} the {} ports.", all.len())
    } else if open == tried && lossy == 0 {
        format!("All {tried} ports that were tried can be reached.")
    } else {
        let parts = found
            .iter()
            .map(|(b, _, names)| format!("{}: {names}", b.name));
        let lossy = (lossy > 0).then(|| format!("cannot tell: {lossy_names}"));
        let parts: Vec<String> = parts.chain(lossy).collect();
        format!(
            "{open} of {tried} ports can be reached; {}.",
            parts.join("; ")
        )
    };
    let figured =
        |key: &str, name: &str, n: usize| Figured::count(key, name, Figure::exactly(n as f64));
    let open_figure = at_most(open, open + lossy);
    let mut figures = vec![Figured::count("open", "can be reached", open_figure)];
    figures.extend(
        blocked
            .iter()
            .map(|(b, count, _)| figured(b.key, b.name, *count)),
    );
    figures.push(figured("untried", "could not be tried", unknown));
    Outcome {
        says,
        figures,
        alerts: alerts.collect(),
        doubts: doubts((closed, &closed_names), (lossy, &lossy_names)),
        tables: vec![table(&all)],
        ..Outcome::default()
    }
}

/// Ports of which nothing can be told, with their number: those that the server could not open, and those that losses may hide.
fn doubts((closed, names): (usize, &str), (lossy, hidden): (usize, &str)) -> Vec<String> {
    let closed = (closed > 0).then(|| {
        format!(
            "{closed} ports could not be tried, because the server could not open them: {names}"
        )
    });
    let lossy = (lossy > 0).then(|| {
        format!("{lossy} ports gave no answer, on a path that loses much: they may be open or blocked: {hidden}")
    });
    closed.into_iter().chain(lossy).collect()
}

fn table(all: &[(&PortNote, Verdict)]) -> Table {
    let row = |(n, v): &(&PortNote, Verdict)| {
        vec![
            format!("{} {}", n.transport, n.port),
            word(*v).to_owned(),
            used_for(n).to_owned(),
            why(n, *v),
        ]
    };
    Table::new(
        "Ports",
        ["port", "found", "used for", "seen"],
        all.iter().map(row).collect(),
    )
}
