//! Record types that a resolver processes, extended messages, and answers too large for a datagram.
//!
//! **Method.** One existing name is asked for by every type. "No such record" is an answer. An error, no reply, an
//! unreadable reply, and "no such name" are none. If even the address of the name cannot be had, nothing is claimed.
//! The keys of the root with their signatures do not fit into 512 bytes: asked for within that, the answer must say
//! that it is truncated, and come whole over TCP.
//!
//! **Source.** Table 4 of Catalán 2014, alert 9; RFC 3597, Handling of Unknown DNS Resource Record (RR) Types, section 3;
//! RFC 6891, Extension Mechanisms for DNS (EDNS(0)), sections 6 and 7; RFC 7766, DNS Transport over TCP - Implementation
//! Requirements, section 5.

use super::super::alert::{Alert, Severity};
use super::super::answer::Table;
use base::noted::dns::{Carried, DnsNote, Said};

/// Finding on one property.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Found {
    Fine(String),
    Wrong(String),
    /// Unknown, with the reason.
    Unknown(String),
}

impl Found {
    /// Finding in a word.
    pub fn text(&self) -> String {
        match self {
            Found::Fine(text) | Found::Wrong(text) => text.clone(),
            Found::Unknown(why) => format!("cannot tell: {why}"),
        }
    }
}

/// Findings on one resolver; empty if it was not asked.
#[derive(Clone, Debug, Default)]
pub struct Types {
    /// Findings by type.
    pub each: Vec<(String, Found)>,
    /// Finding on extended questions.
    pub extended: Option<Found>,
    /// Finding on large answers.
    pub large: Option<Found>,
    /// Finding on answers over TCP.
    pub tcp: Option<Found>,
}

/// Users of a record type.
fn needed_by(rtype: &str) -> &'static str {
    match rtype {
        "A" | "AAAA" => "everything",
        "MX" => "mail",
        "TXT" => "the checks that mail makes of its sender",
        "SRV" | "NAPTR" => "telephony and chat",
        "CAA" => "whoever issues certificates",
        "HTTPS" => "browsers, which wait for it before they connect",
        "DNSKEY" | "DS" => "whoever checks signatures (DNSSEC)",
        _ => "every type that is still to come (RFC 3597)",
    }
}

fn good(code: &str) -> bool {
    matches!(code, "NOERROR" | "NXDOMAIN")
}

fn code(said: &Said) -> Option<&str> {
    said.answer.as_ref().map(|a| a.code.as_str())
}

/// Reason why there is no answer.
fn none(said: &Said) -> String {
    match (&said.problem, said.garbled) {
        (_, true) => "answers nothing that can be read".into(),
        (Some(problem), _) => problem.clone(),
        _ => "no answer".into(),
    }
}

impl Types {
    /// Findings on the resolver with this address.
    pub fn of(notes: &[(&str, DnsNote)], address: &str) -> Types {
        let its = || notes.iter().filter(|(a, _)| *a == address).map(|(_, n)| n);
        let typed: Vec<(&str, &Said)> = its()
            .filter_map(|n| match n {
                DnsNote::Typed { rtype, said, .. } => Some((rtype.as_str(), said)),
                _ => None,
            })
            .collect();
        let Some((_, first)) = typed.first() else {
            return Types::default();
        };
        let by_address = code(first);
        let each = typed
            .iter()
            .map(|(rtype, said)| ((*rtype).to_owned(), processed(said, by_address)))
            .collect();
        let plain = its().find_map(|n| match n {
            DnsNote::Plain { said } => Some(said),
            _ => None,
        });
        let carried = |which| {
            its().find_map(|n| match n {
                DnsNote::Large { carried, said } if *carried == which => Some(said),
                _ => None,
            })
        };
        let [short, long, tcp] = [Carried::Short, Carried::Long, Carried::Tcp].map(carried);
        let tcp_found = tcp.map(|tcp| over_tcp(tcp, short));
        Types {
            each,
            extended: Some(extended(first, plain)),
            large: short.zip(long).map(|(short, long)| large(short, long, tcp)),
            tcp: tcp_found,
        }
    }

    fn wrong(&self) -> Vec<(&str, String)> {
        let each = self.each.iter();
        each.filter_map(|(rtype, found)| match found {
            Found::Wrong(text) => Some((rtype.as_str(), text.clone())),
            _ => None,
        })
        .collect()
    }

    /// Alerts on the resolver with this name.
    pub fn alerts(&self, name: &str) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let wrong = self.wrong();
        if !wrong.is_empty() {
            let list: Vec<String> = wrong
                .iter()
                .map(|(t, why)| format!("{t} ({why})"))
                .collect();
            let mut who: Vec<&str> = wrong.iter().map(|(t, _)| needed_by(t)).collect();
            who.dedup();
            alerts.push(Alert::new(
                Severity::Warning,
                format!("{name} does not process all types of records: {}", list.join(", ")),
                format!("They are needed by {}. Another resolver would cure that, where nothing on the way is to blame.", who.join("; ")),
            ));
        }
        if let Some(Found::Wrong(text)) = &self.extended {
            alerts.push(Alert::new(
                Severity::Warning,
                format!("{name}: extended messages (EDNS0): {text}"),
                "No signatures come this way (DNSSEC), and every answer above 512 bytes takes a connection of its own. An old resolver does that, or a firewall before it.",
            ));
        }
        if let Some(Found::Wrong(text)) = &self.large {
            alerts.push(Alert::new(
                Severity::Warning,
                format!("{name}: large answers in a datagram: {text}"),
                "Names with large answers (with signatures, with many addresses) resolve late or not at all.",
            ));
        }
        if let Some(Found::Wrong(text)) = &self.tcp {
            alerts.push(Alert::new(
                Severity::Warning,
                format!("{name}: answers over TCP: {text}"),
                "What does not fit into a datagram cannot be had: some names do not resolve. A firewall that lets only UDP pass to port 53 does that.",
            ));
        }
        alerts
    }

    /// Verdict in one line, or the reason why there is none.
    pub fn verdict(&self) -> Result<String, String> {
        if self.each.is_empty() {
            return Err("record types were not asked for".into());
        }
        let unknown = self.each.iter().find_map(|(_, found)| match found {
            Found::Unknown(why) => Some(why.clone()),
            _ => None,
        });
        let fine = self.each.iter().filter(|e| matches!(e.1, Found::Fine(_)));
        let fine = fine.count();
        match unknown {
            Some(why) if self.wrong().is_empty() => Err(why),
            _ => Ok(format!("{fine} of {} types processed", self.each.len())),
        }
    }
}

/// Finding on one type; `by_address` is the answer to the question for the address of the same name.
fn processed(said: &Said, by_address: Option<&str>) -> Found {
    match (code(said), by_address) {
        (_, None) => Found::Unknown("the name cannot even be had by its address".into()),
        (_, Some(other)) if !good(other) => Found::Unknown(format!(
            "the name cannot even be had by its address ({other})"
        )),
        (Some("NXDOMAIN"), Some("NOERROR")) => {
            Found::Wrong("says that there is no such name".into())
        }
        (Some(code), _) if good(code) => Found::Fine("yes".into()),
        (Some(code), _) => Found::Wrong(code.into()),
        (None, _) => Found::Wrong(none(said)),
    }
}

/// Finding from an extended question and from a plain one.
fn extended(said: &Said, plain: Option<&Said>) -> Found {
    match (&said.answer, plain) {
        (Some(a), _) if good(&a.code) && a.extended => Found::Fine("yes".into()),
        (Some(a), _) if good(&a.code) => Found::Wrong("the answer is not extended".into()),
        (_, Some(plain)) if code(plain).is_some_and(good) => {
            let why = code(said).map_or_else(|| none(said), str::to_owned);
            Found::Wrong(format!("{why}, where a plain question is answered"))
        }
        _ => Found::Unknown("it answers neither extended nor plain questions".into()),
    }
}

/// Finding from the keys of the root in 512 bytes and in 1232.
fn large(short: &Said, long: &Said, tcp: Option<&Said>) -> Found {
    let usable = |said: &Said| said.answer.clone().filter(|a| a.code == "NOERROR");
    let whole = tcp.and_then(usable);
    match (usable(short), usable(long)) {
        (Some(s), Some(_))
            if !s.truncated && whole.as_ref().is_some_and(|w| w.records > s.records) =>
        {
            Found::Wrong("they are cut without a word".into())
        }
        (_, Some(l)) if l.truncated => Found::Fine(match &whole {
            Some(w) if w.bytes <= 1232 => {
                "cut, and told to ask over TCP, although 1232 bytes would do".into()
            }
            _ => "cut, and told to ask over TCP".into(),
        }),
        (_, Some(l)) => Found::Fine(format!("{} bytes came", l.bytes)),
        (Some(_), None) => Found::Wrong(format!("of up to 1232 bytes: {}", why(long))),
        (None, None) => Found::Unknown(format!(
            "the keys of the root cannot be had ({})",
            why(short)
        )),
    }
}

fn why(said: &Said) -> String {
    code(said).map_or_else(|| none(said), str::to_owned)
}

fn over_tcp(tcp: &Said, short: Option<&Said>) -> Found {
    let in_datagram = short.and_then(|s| s.answer.as_ref());
    match (&tcp.answer, in_datagram) {
        (Some(a), _) if a.code == "NOERROR" && a.records > 0 && !a.truncated => {
            Found::Fine(format!("yes, {} bytes", a.bytes))
        }
        (Some(a), _) if a.truncated => Found::Wrong("cut even over TCP".into()),
        (_, Some(datagram)) if datagram.code == "NOERROR" => {
            let cut = match datagram.truncated {
                true => ", where an answer in a datagram says that it is cut",
                false => "",
            };
            Found::Wrong(format!("{}{cut}", why(tcp)))
        }
        _ => Found::Unknown(format!("the keys of the root cannot be had ({})", why(tcp))),
    }
}

/// Table with a column for each tested resolver, by address; none if there was none.
pub fn table(all: &[(&str, &Types)]) -> Option<Table> {
    let asked: Vec<_> = all.iter().filter(|(_, t)| !t.each.is_empty()).collect();
    let (_, first) = asked.first()?;
    let mut columns = vec!["asked for".to_owned()];
    columns.extend(asked.iter().map(|(address, _)| (*address).to_owned()));
    let mut rows: Vec<Vec<String>> = Vec::new();
    for (rtype, _) in &first.each {
        let mut row = vec![rtype.clone()];
        row.extend(asked.iter().map(|(_, types)| {
            let found = types.each.iter().find(|(t, _)| t == rtype);
            found.map_or_else(String::new, |(_, found)| found.text())
        }));
        rows.push(row);
    }
    let text = |found: &Option<Found>| found.as_ref().map_or_else(String::new, Found::text);
    let mut property = |name: &str, of: &dyn Fn(&Types) -> &Option<Found>| {
        let mut row = vec![name.to_owned()];
        row.extend(asked.iter().map(|(_, types)| text(of(types))));
        rows.push(row);
    };
    property("extended messages (EDNS0)", &|t| &t.extended);
    property("large answers in a datagram", &|t| &t.large);
    property("answers over TCP", &|t| &t.tcp);
    Some(Table {
        title: "What the resolvers process".into(),
        columns,
        rows,
    })
}
