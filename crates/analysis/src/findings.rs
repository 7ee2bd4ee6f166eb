//! Findings: one sentence a person can act on, with the numbers behind it, gravest first.
//!
//! **Method.** A direction is bloated if the 95 % point of the delay added under load exceeds 30 ms and the time of two
//! and a half packets: on a slow link one packet alone takes long. Good results are reported too.
//!
//! **Source.** 30 ms: the grade A of DSLReports' scale, and half of what ITU-T G.114 leaves a call in one
//! direction for a queue; Borlaug 2014, section 6.1.3.
//!
//! **Limits.** The sentences follow the figures: where a figure is missing, the sentence is too.

use crate::answer::{Answer, DirectionAnswer, Discipline, Finding, PhaseAnswer, QueueIs, Severity};
use crate::contract::Promised;
use crate::thresholds::{BAD_MS, NOTICEABLE_MS, WORST_MS};
use base::record::Direction;
use stats::Figure;

/// True if `added_ms` is more than a link without bloat adds, where one full packet takes `packet_ms`.
pub fn is_bloat(added_ms: f64, packet_ms: f64) -> bool {
    added_ms > NOTICEABLE_MS.max(2.5 * packet_ms)
}

fn name(d: Direction) -> &'static str {
    match d {
        Direction::Up => "Uploads",
        Direction::Down => "Downloads",
    }
}

fn kind(d: &DirectionAnswer) -> &'static str {
    match d.discipline.is {
        Discipline::DropTail => "a drop-tail queue",
        Discipline::Aqm => "a queue with AQM",
        Discipline::FairQueueing => "a fair queue",
        Discipline::FairQueueingAqm => "a fair queue with AQM",
        Discipline::Policer => "a policer",
        Discipline::CannotTell => "a queue of unknown kind",
    }
}

pub(crate) fn packet_ms(d: &DirectionAnswer) -> f64 {
    d.link_rate_bps
        .value()
        .filter(|r| *r > 0.0)
        .map_or(0.0, |r| 1500.0 * 8e3 / r)
}

/// 95 % point of the delay that load adds in each direction, beyond what the idle link adds of its own.
pub struct Added {
    /// Delay added on the downlink, ms.
    pub down: Figure,
    /// Delay added on the uplink, ms.
    pub up: Figure,
}

impl Added {
    /// The worse of the loaded directions; unknown if one of them is unknown, for it may be worse.
    pub fn worst(&self, loaded: &[Direction]) -> Figure {
        let figures = loaded.iter().map(|d| match d {
            Direction::Up => (d, &self.up),
            Direction::Down => (d, &self.down),
        });
        let known = figures.clone().filter_map(|(_, f)| Some((f.value()?, f)));
        let most = known
            .max_by(|a, b| a.0.total_cmp(&b.0))
            .map(|(v, f)| (v, f.clone()));
        let mut unknown = figures.filter_map(|(d, f)| match f {
            Figure::CannotTell { cannot_tell } => Some((d, cannot_tell)),
            Figure::Is { .. } => None,
        });
        match (most, unknown.next()) {
            (Some((_, most)), None) => most,
            (Some((v, most)), Some(_)) if v >= WORST_MS => most,
            (_, Some((d, why))) => Figure::cannot_tell(format!("{d}: {why}")),
            (None, None) => Figure::cannot_tell("no phase loaded the link"),
        }
    }
}

/// Findings of a test, gravest first.
pub fn findings(a: &Answer, added: &Added, promised: Option<&Promised>) -> Vec<Finding> {
    let mut list = Vec::new();
    let both = [
        (Direction::Up, &a.up, &added.up),
        (Direction::Down, &a.down, &added.down),
    ];
    list.extend(
        both.into_iter()
            .filter_map(|(direction, d, added)| bloat(direction, d, added)),
    );
    if let Some(promised) = promised {
        list.extend(promised.kept(a).into_iter().map(of));
    }
    list.extend(a.phases.iter().flat_map(phase));
    if !a.instrument.doubts.is_empty() {
        list.push(note(
            "This host disturbed its own measurement; see the reasons before trusting small figures.".into(),
            a.instrument.doubts.clone(),
        ));
    }
    if !a.complete {
        list.push(note(
            "The test did not run to its end; what it measured until then is given.".into(),
            Vec::new(),
        ));
    }
    list.sort_by_key(|f| std::cmp::Reverse(f.severity));
    list
}

fn of((severity, says, evidence): (Severity, String, Vec<String>)) -> Finding {
    Finding {
        severity,
        says,
        evidence,
    }
}

fn note(says: String, evidence: Vec<String>) -> Finding {
    of((Severity::Note, says, evidence))
}

/// Bloat of one direction, or its absence; nothing where no probe met its load.
fn bloat(direction: Direction, d: &DirectionAnswer, added: &Figure) -> Option<Finding> {
    if d.added.count == 0 {
        return None;
    }
    let p95 = match added {
        Figure::Is { value, .. } => *value,
        Figure::CannotTell { cannot_tell } => {
            return Some(note(
                format!(
                    "Whether {} meet a long queue cannot be told.",
                    name(direction).to_lowercase()
                ),
                vec![cannot_tell.clone()],
            ));
        }
    };
    let evidence = queue_evidence(direction, d);
    if !is_bloat(p95, packet_ms(d)) {
        let says = format!(
            "No bloat found {direction}: {} add {p95:.0} ms at most times (95 %).",
            name(direction).to_lowercase()
        );
        return Some(of((Severity::Good, says, evidence)));
    }
    let severity = if p95 >= BAD_MS {
        Severity::Bad
    } else {
        Severity::Warning
    };
    let wait = d.queue_ms.value().unwrap_or(p95);
    let most = if matches!(d.queue_is, QueueIs::Size) {
        "wait up to"
    } else {
        "wait about"
    };
    let says = format!(
        "{} make everything else {most} {wait:.0} ms in {} before the {direction}link.",
        name(direction),
        kind(d)
    );
    Some(of((severity, says, evidence)))
}

/// Added delay, size of the queue against the bandwidth-delay product, and signs of its discipline.
fn queue_evidence(direction: Direction, d: &DirectionAnswer) -> Vec<String> {
    let mut evidence = vec![format!(
        "delay added {direction} under load: median {}, 95 % {}, most {}",
        text(&d.added.p50_ms),
        text(&d.added.p95_ms),
        text(&d.added.max_ms)
    )];
    if let (Some(bytes), Some(bdp), Some(factor)) = (
        d.queue_bytes.value(),
        d.bdp_bytes.value(),
        d.factor_too_large.value(),
    ) {
        let size = match d.queue_is {
            QueueIs::Size => "the queue holds",
            QueueIs::AtLeast => "the queue holds at least",
            QueueIs::Controlled => "the queue is let grow to",
        };
        evidence.push(format!("{size} {bytes:.0} bytes, {factor:.1} times the bandwidth-delay product of {bdp:.0} bytes"));
    }
    evidence.extend(d.discipline.evidence.iter().cloned());
    evidence
}

/// Loss of the idle link, instability and cross traffic of one phase.
fn phase(p: &PhaseAnswer) -> Vec<Finding> {
    let mut list = Vec::new();
    if p.name == "idle" && p.loss.percent.value().is_some_and(|l| l >= 1.0) && p.loss.lost >= 3 {
        let says = format!(
            "The idle link loses packets: {} of {} probes.",
            p.loss.lost, p.loss.sent
        );
        let pattern = vec![format!("pattern: {}", p.loss.pattern)];
        list.push(of((Severity::Warning, says, pattern)));
    }
    if !p.stable {
        list.push(note(
            format!(
                "The figures of the phase \"{}\" were not stable when it ended.",
                p.name
            ),
            vec![p.stability.clone()],
        ));
    }
    let own = [&p.goodput_up_bps, &p.goodput_down_bps]
        .into_iter()
        .flatten()
        .filter_map(|f| f.value())
        .sum::<f64>();
    if let Some(cross) = p.cross_traffic_bps.filter(|c| *c > 0.0 && *c > 0.1 * own) {
        list.push(note(
            format!(
                "Others used the link during the phase \"{}\"; test again when it is quiet.",
                p.name
            ),
            vec![format!(
                "{:.0} kbit/s on the interface were not the test's",
                cross / 1e3
            )],
        ));
    }
    list
}

fn text(f: &Figure) -> String {
    f.value()
        .map_or_else(|| "unknown".into(), |v| format!("{v:.0} ms"))
}
