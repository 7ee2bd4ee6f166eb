//! `tailback control plan`: the hook, the signal and the blockers of an interface. Nothing is changed.

use live::control::{ControlError, PROGRAM};
use serde::Serialize;
use std::fmt::Write as _;

/// Findings at the place where control would act.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, schemars::JsonSchema)]
pub struct Answer {
    pub wan: String,
    /// Hook for marks and drops; none if the host offers none.
    pub hook: Option<&'static str>,
    /// Other programs at the hook, which run first.
    pub programs: Vec<String>,
    /// Other programs at the ingress, where downloads are controlled.
    pub ingress: Vec<String>,
    /// Queue discipline of the interface, if known.
    pub qdisc: Option<String>,
    /// Sources of the wait.
    pub signals: Vec<&'static str>,
    /// Reasons why `run --apply` would refuse.
    pub blockers: Vec<String>,
    /// Doubts that do not stop a run.
    pub notes: Vec<String>,
}

/// Disciplines that hold a queue of their own in front of the modem.
const SHAPERS: [&str; 4] = ["cake", "htb", "hfsc", "tbf"];

/// Looks at the interface.
///
/// # Errors
/// There is no such interface.
pub fn plan(wan: &str) -> anyhow::Result<Answer> {
    let mut answer = Answer {
        wan: wan.into(),
        hook: None,
        programs: Vec::new(),
        ingress: Vec::new(),
        qdisc: None,
        signals: vec![
            "one-way delay of probes to our server (--server)",
            "bytes that pass the interface",
        ],
        blockers: Vec::new(),
        notes: Vec::new(),
    };
    match live::control::inspect(wan) {
        Ok(place) => {
            answer.hook = Some("TCX egress (eBPF)");
            if place.owned {
                let interface = wan.to_owned();
                answer
                    .blockers
                    .push(ControlError::Owned { interface }.to_string());
            }
            let others = |all: Vec<String>| all.into_iter().filter(|p| p != PROGRAM).collect();
            answer.programs = others(place.programs);
            answer.ingress = others(place.ingress);
        }
        Err(e @ ControlError::NoInterface { .. }) => return Err(super::told(e)),
        Err(e) => answer.blockers.push(e.to_string()),
    }
    let facts = live::host::facts(Some(wan)).facts;
    answer.qdisc = facts.get("queue discipline").cloned();
    if let Some(qdisc) = &answer.qdisc
        && SHAPERS.iter().any(|s| qdisc.contains(s))
    {
        answer.notes.push(format!(
            "{qdisc} shapes this interface: the queue stands there, not in the modem, and signals would see both as one; `--shape-up {wan}` changes its rate instead"
        ));
    }
    if !answer.programs.is_empty() {
        answer.notes.push(format!(
            "{} at the hook run first: packets that they redirect or drop are not counted",
            answer.programs.join(", ")
        ));
    }
    Ok(answer)
}

impl Answer {
    /// Findings as text.
    pub fn text(&self) -> String {
        let mut out = String::new();
        let none = || "none".to_owned();
        let list = |l: &[String]| if l.is_empty() { none() } else { l.join("; ") };
        let _ = writeln!(out, "Interface: {}", self.wan);
        let _ = writeln!(out, "Hook: {}", self.hook.unwrap_or("none"));
        let _ = writeln!(out, "Other programs at the hook: {}", list(&self.programs));
        if !self.ingress.is_empty() {
            let _ = writeln!(
                out,
                "Other programs at the ingress: {}",
                list(&self.ingress)
            );
        }
        let qdisc = self.qdisc.as_deref().unwrap_or("unknown");
        let _ = writeln!(out, "Queue discipline: {qdisc}");
        let _ = writeln!(out, "Signals: {}", self.signals.join("; "));
        let _ = writeln!(
            out,
            "Action: mark or drop single packets of uploads, and of downloads if asked to, without shaping; small packets and the real-time band pass"
        );
        for note in &self.notes {
            let _ = writeln!(out, "Note: {note}");
        }
        let _ = writeln!(out, "Blockers: {}", list(&self.blockers));
        out
    }
}
