//! Root servers' signatures, and the origin of the answers.
//!
//! **Method.** Each is asked for the begin of the root zone with its signature, and to find out nothing. Each of them has
//! both and says that it is its own (AA); whoever offers to find out more (RA) is somebody else on the way.
//!
//! **Source.** Table 4 of Catalán 2014, alert 8; RFC 4035, Protocol Modifications for the DNS Security Extensions, section
//! 3.1.

use super::super::alert::{Alert, Severity};
use super::super::answer::Table;
use base::noted::Noted;
use base::noted::dns::{DnsNote, Said};
use base::record::Recording;

struct Root {
    address: String,
    name: String,
    said: Said,
}

impl Root {
    fn signed(&self) -> bool {
        self.said.answer.as_ref().is_some_and(|a| a.signatures)
    }

    /// True if the answer came from a server that has the zone and asks no other.
    fn somebody(&self) -> bool {
        let answer = self.said.answer.as_ref();
        answer.is_some_and(|a| !a.authoritative || a.recursive)
    }

    fn answered(&self) -> bool {
        self.said.answer.is_some()
    }
}

/// Answers of all servers that were asked.
pub struct Roots(Vec<Root>);

impl Roots {
    /// Answers in a recording; none if no server was asked.
    pub fn of(recording: &Recording) -> Option<Roots> {
        let all: Vec<Root> = DnsNote::all_of(recording)
            .filter_map(|(address, note)| match note {
                DnsNote::Root { name, said } => Some(Root {
                    address: address.to_owned(),
                    name,
                    said,
                }),
                _ => None,
            })
            .collect();
        (!all.is_empty()).then_some(Roots(all))
    }

    fn count(&self, which: impl Fn(&Root) -> bool) -> usize {
        self.0.iter().filter(|r| which(r)).count()
    }

    /// Number of servers that were asked.
    pub fn asked(&self) -> usize {
        self.0.len()
    }

    /// Number of servers whose signatures came through.
    pub fn signed(&self) -> usize {
        self.count(Root::signed)
    }

    /// Verdict in one sentence.
    pub fn text(&self) -> String {
        format!(
            "{} of {} answered, {} with signatures",
            self.count(Root::answered),
            self.asked(),
            self.signed()
        )
    }

    /// Alerts on missing signatures and foreign answers.
    pub fn alerts(&self) -> Vec<Alert> {
        let mut alerts = Vec::new();
        let (asked, answered) = (self.asked(), self.count(Root::answered));
        let list = |which: &dyn Fn(&Root) -> bool| {
            let names = self.0.iter().filter(|r| which(r)).map(|r| r.name.as_str());
            names.collect::<Vec<_>>().join(", ")
        };
        let somebody = self.count(Root::somebody);
        if somebody > 0 {
            alerts.push(Alert::new(
                Severity::Warning,
                format!("{somebody} of {asked} root servers are answered for by somebody else on the way"),
                "Questions for names are led astray, whomever you ask: another resolver outside would not be reached either, and what comes back may be anything. Only names over TLS or HTTPS get by.",
            ));
        }
        let bare = |r: &Root| r.answered() && !r.signed();
        if self.count(bare) > 0 {
            alerts.push(Alert::new(
                Severity::Warning,
                format!(
                    "only {} of {asked} root servers returned signatures (DNSSEC); without: {}",
                    self.signed(),
                    list(&bare)
                ),
                "Something on the way takes signatures away: a resolver of your own that checks them cannot work here.",
            ));
        }
        if answered == 0 {
            alerts.push(Alert::new(
                Severity::Warning,
                format!("none of {asked} root servers can be reached"),
                "Questions for names may go to the provider's resolver only: one of your own cannot work here.",
            ));
        } else if answered < asked {
            alerts.push(Alert::new(
                Severity::Note,
                format!(
                    "{} of {asked} root servers did not answer: {}",
                    asked - answered,
                    list(&|r: &Root| !r.answered())
                ),
                "Each question was sent three times. A resolver asks another then; where many are missing, something on the way drops what they say.",
            ));
        }
        alerts
    }

    /// Table of the servers.
    pub fn table(&self) -> Table {
        let row = |r: &Root| {
            let told = match &r.said {
                Said {
                    answer: Some(a), ..
                } => a.code.clone(),
                Said { garbled: true, .. } => "nothing that can be read".into(),
                Said {
                    problem: Some(p), ..
                } => p.clone(),
                _ => "nothing".into(),
            };
            let yes = |is: bool| if is { "yes" } else { "no" }.to_owned();
            let of_answer = |text: String| if r.answered() { text } else { "–".into() };
            let from = if r.somebody() {
                "somebody else"
            } else {
                "itself"
            };
            vec![
                r.name.clone(),
                r.address.clone(),
                told,
                of_answer(yes(r.signed())),
                of_answer(from.to_owned()),
            ]
        };
        Table::new(
            "Root servers",
            ["server", "address", "answers", "signatures", "answer from"],
            self.0.iter().map(row).collect(),
        )
    }
}
