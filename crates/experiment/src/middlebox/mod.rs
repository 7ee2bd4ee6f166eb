//! Middleboxes: boxes on the path that read, change or block packets.
//!
//! **Method.** Messages of the web and of the DNS, correct and faulty ones, go to the ports that such boxes watch, and
//! again to a port without a meaning. The server reports what arrived, and answers in kind. A message that passes on
//! the one port and not on the other is known to a box that watches that port. A message that passes only when it is
//! correct is known to a box that reads it. The first packet of a connection is compared at departure and arrival;
//! fragmented datagrams go in each direction.
//!
//! **Source.** Chandele 2012, table 3.1.1, tests 2 and 3, and section 6.9.1; J. S. Catalán Olmos, "Testing, Detection and
//! Possible Solutions for the Bufferbloat Phenomenon on Networks", UTFSM, table 4, alerts 2 and 3.

pub mod messages;
mod steps;
pub mod syn;

use super::alert::{self, Alert, Severity};
use super::answer::{Figured, Outcome, Table};
use super::spec::{How, Spec};
use base::noted::Noted;
use base::noted::middlebox::{BoxNote, Message, Syn};
use base::record::{Direction, Recording};
use base::spec::{Params as _, params};
use base::words::Words;
use stats::Figure;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "middlebox": "Do middleboxes on the path read, change or block traffic?", ["Chandele 2012, table 3.1.1 and section 6.9.1",
            "J. S. Catalán Olmos, Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks, UTFSM",] {
        /// also fetch the EICAR test string: harmless, but it raises the alarm of every antivirus program that sees it,
        /// here and on the path
        eicar: bool = "false", "Chandele 2012, section 6.9.1";
        /// TCP port that web proxies watch
        http: u16 = "80" ["1".."65535"], "Chandele 2012, table 3.1.1";
        /// UDP port that DNS proxies watch
        dns: u16 = "53" ["1".."65535"], "Chandele 2012, table 3.1.1";
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "a second on a clear path, up to three minutes if much is blocked; 250 kB at most",
    // What others' queues delay beyond the patience would be taken for blocked.
    beside_others: false,
    comes_near_budget: false,
    warning: Some(warning),
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer,
};

/// Warning about the string that the kind fetches.
fn warning(words: &Words) -> Option<&'static str> {
    words.read::<Params>().eicar.then_some(
        "fetches the EICAR test string, as you asked: harmless, but antivirus programs here and on the way will raise an alarm",
    )
}

/// Outcome of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Verdict {
    Passed,
    /// The message arrived changed, or its answer did.
    Changed,
    /// The server never saw the message, yet an answer came.
    Somebody,
    /// The message did not arrive, or no answer came.
    Blocked,
    Refused,
    Unknown,
}

struct Exchange {
    message: Message,
    port: u16,
    control: bool,
    closed: Option<String>,
    verdict: Verdict,
    /// True if the answer came back unchanged.
    returned_same: bool,
    /// Changes, in words.
    changes: Vec<String>,
    seen: String,
}

fn exchange(note: BoxNote) -> Option<Exchange> {
    let BoxNote::Exchange {
        message,
        port,
        control,
        closed,
        connected,
        refused,
        sent,
        arrived,
        answer,
        returned,
        arrived_same,
        returned_same,
    } = note
    else {
        return None;
    };
    let (there, back) = (arrived.is_some(), returned.is_some());
    let verdict = match (there, back) {
        _ if closed.is_some() => Verdict::Unknown,
        (true, true) if arrived_same && returned_same => Verdict::Passed,
        (true, true) => Verdict::Changed,
        (false, true) => Verdict::Somebody,
        // A box that takes the connection itself and then says nothing blocks what it read.
        (_, false) if refused && !there => Verdict::Refused,
        (_, false) => Verdict::Blocked,
    };
    let mut changes = Vec::new();
    if let (Some(arrived), false) = (&arrived, arrived_same) {
        changes.extend(differences("up", &sent, arrived));
    }
    if let (Some(returned), false) = (&returned, returned_same) {
        changes.extend(differences("down", &answer, returned));
    }
    let seen = match verdict {
        Verdict::Unknown => closed.clone().unwrap_or_default(),
        Verdict::Passed => "the same at both ends".into(),
        Verdict::Changed => changes.join("; "),
        Verdict::Somebody => format!(
            "the server saw nothing; what came back begins {}",
            short(returned.as_deref().unwrap_or_default())
        ),
        Verdict::Refused if connected => "the connection was reset, the server saw nothing".into(),
        Verdict::Refused => "refused, and the server saw nothing".into(),
        Verdict::Blocked if there => "it arrived, and the answer did not come back".into(),
        Verdict::Blocked if connected => "it did not arrive on a connection that came about".into(),
        Verdict::Blocked => "it did not arrive".into(),
    };
    Some(Exchange {
        message,
        port,
        control,
        closed,
        verdict,
        returned_same,
        changes,
        seen,
    })
}

fn short(text: &str) -> String {
    let end = text.char_indices().nth(60).map_or(text.len(), |(i, _)| i);
    let more = if end < text.len() { "…" } else { "" };
    format!("\"{}{more}\"", &text[..end])
}

/// Differences line by line, as headers are: added lines, missing lines.
fn differences(way: &str, before: &str, after: &str) -> Vec<String> {
    let lines = |text: &str| -> Vec<String> {
        text.split("\\r\\n")
            .filter(|l| !l.is_empty())
            .map(str::to_owned)
            .collect()
    };
    let (old, new) = (lines(before), lines(after));
    let gone = old.iter().filter(|l| !new.contains(l));
    let come = new.iter().filter(|l| !old.contains(l));
    let gone: Vec<String> = gone
        .map(|l| format!("{way}: without {}", short(l)))
        .collect();
    let come: Vec<String> = come.map(|l| format!("{way}: with {}", short(l))).collect();
    if gone.is_empty() && come.is_empty() {
        return vec![format!("{way}: the same lines in another order or number")];
    }
    gone.into_iter().chain(come).collect()
}

fn name(message: Message) -> &'static str {
    match message {
        Message::Http => "a message of the web (HTTP)",
        Message::NotHttp => "what is no HTTP",
        Message::Eicar => "the EICAR test string over HTTP",
        Message::Dns => "a query for a name (DNS)",
        Message::NotDns => "what is no DNS",
    }
}

fn word(v: Verdict) -> &'static str {
    match v {
        Verdict::Passed => "passes unchanged",
        Verdict::Changed => "is changed",
        Verdict::Somebody => "is answered by somebody else",
        Verdict::Blocked => "is blocked",
        Verdict::Refused => "is refused on the way",
        Verdict::Unknown => "cannot tell",
    }
}

/// Finding on one kind of box.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Found {
    Absent,
    Present(String),
    Unknown(String),
}

impl Found {
    pub(super) fn word(&self) -> String {
        match self {
            Found::Absent => "none found".into(),
            Found::Present(what) => what.clone(),
            Found::Unknown(why) => format!("cannot tell: {why}"),
        }
    }
    fn present(&self) -> bool {
        matches!(self, Found::Present(_))
    }
}

fn of(all: &[Exchange], message: Message, control: bool) -> Option<&Exchange> {
    all.iter()
        .find(|e| e.message == message && e.control == control)
}

/// Finding on a box that knows the protocol on this port: correct and faulty messages, there and elsewhere.
fn aware(all: &[Exchange], right: Message, wrong: Message) -> Found {
    let (Some(good), Some(bad)) = (of(all, right, false), of(all, wrong, false)) else {
        return Found::Unknown("it was not tried".into());
    };
    if let Some(why) = &good.closed {
        return Found::Unknown(format!("port {}: {why}", good.port));
    }
    let elsewhere = |m| of(all, m, true).map(|e| e.verdict);
    let fine = |v: Option<Verdict>| v == Some(Verdict::Passed);
    if !fine(elsewhere(right)) && !fine(elsewhere(wrong)) {
        return Found::Unknown(format!(
            "not even the port that stands for nothing lets messages pass ({})",
            of(all, right, true).map_or("not tried", |e| word(e.verdict))
        ));
    }
    match (good.verdict, bad.verdict) {
        (Verdict::Passed, Verdict::Passed) => Found::Absent,
        (Verdict::Passed, v) => Found::Present(format!(
            "one that reads: the right message passes on port {}, the wrong one {}",
            good.port,
            word(v)
        )),
        (Verdict::Changed, v) => Found::Present(format!(
            "one that reads and changes: {} (the wrong message {})",
            good.seen,
            word(v)
        )),
        (Verdict::Somebody, _) => Found::Present(format!(
            "one that answers in the server's place on port {}",
            good.port
        )),
        (Verdict::Blocked | Verdict::Refused, Verdict::Blocked | Verdict::Refused) => {
            Found::Present(format!(
                "one that closes port {} altogether: the right message {}, and the wrong one likewise",
                good.port,
                word(good.verdict)
            ))
        }
        (Verdict::Blocked | Verdict::Refused, v) => Found::Present(format!(
            "one that blocks the right message on port {} (the wrong one {})",
            good.port,
            word(v)
        )),
        (Verdict::Unknown, _) => Found::Unknown("it was not tried".into()),
    }
}

/// Finding on a virus scanner: the same page passes with another text.
fn antivirus(all: &[Exchange]) -> Found {
    let Some(bad) = of(all, Message::Eicar, false) else {
        return Found::Unknown("not asked for: add eicar=true".into());
    };
    let Some(good) = of(all, Message::Http, false) else {
        return Found::Unknown("no harmless text was fetched".into());
    };
    match (good.returned_same, bad.returned_same) {
        _ if bad.verdict == Verdict::Unknown => Found::Unknown(bad.seen.clone()),
        (_, true) => Found::Absent,
        (true, false) => Found::Present(format!(
            "a harmless text comes back as it was said, the EICAR test string {}",
            word(bad.verdict)
        )),
        (false, false) => {
            Found::Unknown("the harmless text does not come back as it was said either".into())
        }
    }
}

/// Names of options without their values, and the MSS apart.
fn bare(syn: &Syn) -> Vec<String> {
    let bare = |o: &String| match o.split_once(' ') {
        Some(("mss", _)) => "mss".to_owned(),
        Some(("window", _)) => "window scale".to_owned(),
        _ => o.clone(),
    };
    syn.options.iter().map(bare).collect()
}

fn mss(syn: &Syn) -> Option<&str> {
    syn.options.iter().find_map(|o| o.strip_prefix("mss "))
}

struct First {
    options: Found,
    sequence: Found,
    segment: Option<String>,
}

/// Options of a first packet that were taken away or added. Without a capture here, only the options that this host's
/// settings ask for are known.
fn options(port: u16, want: &[String], come: &[String], captured: bool) -> Found {
    let beyond = |of: &[String], others: &[String]| -> Vec<String> {
        of.iter().filter(|o| !others.contains(o)).cloned().collect()
    };
    let gone = beyond(want, come);
    let added = if captured {
        beyond(come, want)
    } else {
        Vec::new()
    };
    if !gone.is_empty() || !added.is_empty() {
        let parts = [("taken away", gone), ("added", added)];
        let parts: Vec<String> = parts
            .iter()
            .filter(|(_, o)| !o.is_empty())
            .map(|(what, o)| format!("{what}: {}", o.join(", ")))
            .collect();
        Found::Present(format!("port {port}: {}", parts.join("; ")))
    } else if captured {
        Found::Absent
    } else {
        Found::Unknown("all that this host's settings ask for arrived; whether more was changed needs the right to capture (CAP_NET_RAW)".into())
    }
}

fn first_packets(recording: &Recording) -> First {
    let none = |why: &str| First {
        options: Found::Unknown(why.into()),
        sequence: Found::Unknown(why.into()),
        segment: None,
    };
    let mut seen: Option<First> = None;
    for (_, note) in BoxNote::all_of(recording) {
        let BoxNote::FirstPacket {
            port,
            control,
            sent,
            arrived,
            asked,
        } = note
        else {
            continue;
        };
        let Some(arrived) = arrived else {
            continue;
        };
        let come = bare(&arrived);
        let want: Vec<String> = sent.as_ref().map_or(asked, bare);
        let options = options(port, &want, &come, sent.is_some());
        let sequence = match &sent {
            Some(sent) if sent.seq == arrived.seq => Found::Absent,
            Some(_) => Found::Present(format!(
                "port {port}: another first number arrived than was sent"
            )),
            None => Found::Unknown(
                "seeing what was sent needs the right to capture (CAP_NET_RAW)".into(),
            ),
        };
        let segment = sent
            .as_ref()
            .and_then(|s| Some((mss(s)?, mss(&arrived)?)))
            .filter(|(a, b)| a != b)
            .map(|(a, b)| format!("largest segment {a} became {b}"));
        let now = First {
            options,
            sequence,
            segment,
        };
        // What is found on either port counts; the one that stands for nothing says more about the rest.
        let better = |old: &First| !old.options.present() && !old.sequence.present();
        if seen.as_ref().is_none_or(|old| {
            better(old) && (now.options.present() || now.sequence.present() || control)
        }) {
            seen = Some(now);
        }
    }
    seen.unwrap_or_else(|| none("no connection reached the server with its first packet"))
}

fn fragments(recording: &Recording, which: Direction) -> Found {
    let found = BoxNote::all_of(recording).find_map(|(_, n)| match n {
        BoxNote::Fragments {
            direction,
            bytes,
            small,
            large,
        } if direction == which => Some((bytes, small, large)),
        _ => None,
    });
    match found {
        None => Found::Unknown("no datagram showed the way".into()),
        Some((_, _, true)) => Found::Absent,
        Some((bytes, true, false)) => Found::Present(format!(
            "datagrams of {bytes} bytes do not arrive, however often they are sent; small ones do"
        )),
        Some((_, false, false)) => Found::Unknown("small datagrams do not arrive either".into()),
    }
}

fn exchanges(recording: &Recording) -> Vec<Exchange> {
    BoxNote::all_of(recording)
        .filter_map(|(_, n)| exchange(n))
        .collect()
}

/// Name of the box that is looked for only on request.
pub(super) const VIRUSES: &str = "against viruses";

/// Kinds of boxes with the findings on each.
fn findings(recording: &Recording, all: &[Exchange]) -> [(&'static str, Found); 7] {
    let first = first_packets(recording);
    [
        (
            "for the web (HTTP)",
            aware(all, Message::Http, Message::NotHttp),
        ),
        ("for names (DNS)", aware(all, Message::Dns, Message::NotDns)),
        (VIRUSES, antivirus(all)),
        ("that changes options of connections", first.options),
        ("that renumbers connections", first.sequence),
        (
            "that blocks datagrams in pieces, up",
            fragments(recording, Direction::Up),
        ),
        (
            "that blocks datagrams in pieces, down",
            fragments(recording, Direction::Down),
        ),
    ]
}

/// Kinds of boxes with the findings, from a recording alone; none if nothing was exchanged.
pub(super) fn found(recording: &Recording) -> Vec<(&'static str, Found)> {
    let all = exchanges(recording);
    if all.is_empty() {
        return Vec::new();
    }
    findings(recording, &all).into()
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let all = exchanges(recording);
    if all.is_empty() {
        return Outcome::cannot_tell("no message was exchanged");
    }
    let findings = findings(recording, &all);
    let segment = first_packets(recording).segment;
    let elsewhere: Vec<&Exchange> = all
        .iter()
        .filter(|e| e.control && !matches!(e.verdict, Verdict::Passed | Verdict::Unknown))
        .collect();
    let present: Vec<&(&str, Found)> = findings.iter().filter(|(_, f)| f.present()).collect();
    let says = says(&findings, &present, &elsewhere);
    let alerts = present.iter().map(|(n, f)| alert_of(n, f)).collect();
    let mut evidence: Vec<String> = all
        .iter()
        .flat_map(|e| {
            e.changes
                .iter()
                .map(|c| format!("port {}, {}: {c}", e.port, name(e.message)))
        })
        .collect();
    evidence.extend(segment);
    let doubts = elsewhere
        .iter()
        .map(|e| {
            format!(
                "on port {}, which stands for nothing, {} {}: {}",
                e.port,
                name(e.message),
                word(e.verdict),
                e.seen
            )
        })
        .collect();
    let boxes = Figured::count("boxes", "findings", Figure::exactly(present.len() as f64));
    Outcome {
        says,
        figures: vec![boxes],
        alerts: alert::sorted(alerts),
        evidence,
        doubts,
        tables: tables(&findings, &all),
        ..Outcome::default()
    }
}

/// Headline: boxes that were found, or what cannot be told.
fn says(findings: &[(&str, Found)], present: &[&(&str, Found)], elsewhere: &[&Exchange]) -> String {
    let unknown: Vec<&str> = findings
        .iter()
        .filter(|(n, f)| matches!(f, Found::Unknown(_)) && *n != VIRUSES)
        .map(|(n, _)| *n)
        .collect();
    if present.is_empty() && elsewhere.is_empty() {
        let rest = if unknown.is_empty() {
            String::new()
        } else {
            format!(" Cannot tell of a box {}.", unknown.join(", or "))
        };
        format!("No box was found that reads, changes or blocks what passes.{rest}")
    } else if present.is_empty() {
        format!(
            "Something on the way meddles on a port that stands for nothing: {} {}.",
            name(elsewhere[0].message),
            word(elsewhere[0].verdict)
        )
    } else {
        let parts: Vec<String> = present
            .iter()
            .map(|(n, f)| format!("{n} ({})", f.word()))
            .collect();
        format!("There is a box on the way {}.", parts.join("; and one "))
    }
}

fn tables(findings: &[(&str, Found)], all: &[Exchange]) -> Vec<Table> {
    vec![
        Table::new(
            "Boxes on the way",
            ["a box", "found"],
            findings
                .iter()
                .map(|(n, f)| vec![(*n).to_owned(), f.word()])
                .collect(),
        ),
        Table::new(
            "Messages",
            ["message", "port", "it", "seen"],
            all.iter()
                .map(|e| {
                    let port = if e.control {
                        format!("{} (stands for nothing)", e.port)
                    } else {
                        e.port.to_string()
                    };
                    vec![
                        name(e.message).to_owned(),
                        port,
                        word(e.verdict).to_owned(),
                        e.seen.clone(),
                    ]
                })
                .collect(),
        ),
    ]
}

pub(super) fn alert_of(which: &str, found: &Found) -> Alert {
    let (severity, means) = match which {
        "for the web (HTTP)" => (
            Severity::Warning,
            "What is read without encryption is read, and may be changed, on the way. Encrypted pages (https) are not affected; programs that speak something else on port 80 may fail.",
        ),
        "for names (DNS)" => (
            Severity::Warning,
            "Queries for names are read on the way and may be answered by somebody else than whom you asked. Encrypted queries (DNS over TLS or HTTPS) are not affected.",
        ),
        "against viruses" => (
            Severity::Note,
            "A program on the way looks into unencrypted downloads. It cannot see into encrypted ones, and may hold up large files.",
        ),
        "that changes options of connections" => (
            Severity::Warning,
            "Connections lose what makes them fast over long or lossy lines.",
        ),
        "that renumbers connections" => (
            Severity::Note,
            "Harmless where it is done consistently; with selective acknowledgements that are not renumbered, connections stall.",
        ),
        _ => (
            Severity::Warning,
            "Large answers of the DNS, some VPNs and calls that send large datagrams fail without a word.",
        ),
    };
    Alert::new(severity, format!("a box {which}: {}", found.word()), means)
}
