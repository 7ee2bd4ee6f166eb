//! Phases of a test: the rows that belong to each, and those of them that count.
//!
//! **Method.** A phase begins at its `phase` event and ends at `phase_end`, at the next phase, or with
//! the last row. Figures are taken from `warmup_end` on; a loaded phase without one loses its first
//! tenth, at most 3 s. Rows inside the recording's exclusions are left out everywhere.
//!
//! **Limits.** A phase name that comes twice is two phases; the answers use the first of each name.

use base::record::{Delay, Direction, Flow, Recording};
use stats::Figure;
use std::ops::Range;

/// Phase of a test.
#[derive(Clone, Debug, PartialEq)]
pub struct Phase {
    /// Name: idle, down, up, both.
    pub name: String,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End of the warm-up: from here on figures count.
    pub warm_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// True if the phase ended by plan and not with the recording.
    pub ended: bool,
}

impl Phase {
    /// True if this phase puts load on `direction`.
    pub fn loads(&self, direction: Direction) -> bool {
        self.name == "both" || self.name == direction.word()
    }
    /// True if the phase puts load on a direction.
    pub fn is_loaded(&self) -> bool {
        self.loads(Direction::Up) || self.loads(Direction::Down)
    }
    /// Time without the warm-up, UNIX ns.
    pub fn steady(&self) -> Range<i64> {
        self.warm_ns..self.to_ns
    }
    /// Whole time, UNIX ns.
    pub fn whole(&self) -> Range<i64> {
        self.from_ns..self.to_ns
    }
}

/// Phases of a test in the order in which they ran; `drain` and unknown phases are left out. `now_ns` ends a phase that
/// is still running.
pub fn phases(rec: &Recording, now_ns: Option<i64>) -> Vec<Phase> {
    let mut events: Vec<_> = rec
        .event
        .iter()
        .filter(|e| matches!(&*e.kind, "phase" | "phase_end" | "warmup_end"))
        .collect();
    events.sort_by_key(|e| e.t_ns);
    let end = now_ns.unwrap_or_else(|| last_ns(rec));
    let mut found: Vec<Phase> = Vec::new();
    let mut warm: Option<i64> = None;
    let mut open = false;
    for e in events.iter().take_while(|e| e.t_ns <= end) {
        let close = |p: Option<&mut Phase>, warm: Option<i64>| {
            if let Some(p) = p {
                p.to_ns = e.t_ns;
                p.ended = true;
                p.warm_ns = warm_end(p, warm);
            }
        };
        match &*e.kind {
            "phase" => {
                if open {
                    close(found.last_mut(), warm);
                }
                found.push(Phase {
                    name: e.subject.to_string(),
                    from_ns: e.t_ns,
                    warm_ns: e.t_ns,
                    to_ns: end.max(e.t_ns),
                    ended: false,
                });
                (open, warm) = (true, None);
            }
            "phase_end" if open => {
                close(found.last_mut(), warm);
                open = false;
            }
            "warmup_end" if open => warm = Some(e.t_ns),
            _ => {}
        }
    }
    if open && let Some(p) = found.last_mut() {
        p.warm_ns = warm_end(p, warm);
    }
    found.retain(|p| matches!(p.name.as_str(), "idle" | "down" | "up" | "both"));
    found
}

fn warm_end(p: &Phase, said: Option<i64>) -> i64 {
    let tenth = if p.is_loaded() {
        (p.to_ns.saturating_sub(p.from_ns) / 10).min(3_000_000_000)
    } else {
        0
    };
    said.unwrap_or(p.from_ns.saturating_add(tenth))
        .clamp(p.from_ns, p.to_ns.max(p.from_ns))
}

/// Latest instant in the recording.
pub fn last_ns(rec: &Recording) -> i64 {
    let delay = rec.delay.iter().map(|r| {
        r.sent_ns
            .saturating_add(r.rtt_ns.unwrap_or(0).clamp(0, 60_000_000_000))
    });
    delay
        .chain(rec.flow.iter().map(|r| r.t_ns))
        .chain(rec.traffic.iter().map(|r| r.t_ns))
        .chain(rec.event.iter().map(|r| r.t_ns))
        .chain(rec.host.iter().map(|r| r.t_ns))
        .max()
        .unwrap_or(rec.meta.started_ns)
}

fn counts(rec: &Recording, t: i64) -> bool {
    !rec.meta
        .exclusions
        .iter()
        .any(|x| (x.from_ns..x.to_ns).contains(&t))
}

/// Target of the test's own probes: the subject of the event `probe`, or `udp` in a recording without one.
pub fn own_target(rec: &Recording) -> &str {
    let told = rec.event.iter().find(|e| &*e.kind == "probe");
    told.map_or("udp", |e| &*e.subject)
}

/// True for the probes of our own server, alone (`udp`), through one interface (`udp%wan0`), or of a browser.
pub fn is_own(target: &str) -> bool {
    matches!(
        target.split('%').next(),
        Some("udp" | crate::browser::WEBTRANSPORT | crate::browser::WEBSOCKET)
    )
}

/// The test's own probes sent in `range`, in the order of their numbers.
pub fn own_probes(rec: &Recording, range: Range<i64>) -> Vec<&Delay> {
    probes(rec, own_target(rec), range)
}

/// The session's probes that were answered in `range`, and those without an answer that were sent in it: a long queue lets out
/// what was sent before.
pub fn crossing(rec: &Recording, range: Range<i64>) -> Vec<&Delay> {
    let target = own_target(rec);
    let at = |d: &Delay| d.sent_ns.saturating_add(d.rtt_ns.unwrap_or(0));
    let all = rec.delay.iter();
    all.filter(|d| *d.target == *target && range.contains(&at(d)) && counts(rec, d.sent_ns))
        .collect()
}

/// Probes of `target` sent in `range`, in the order of their numbers.
pub fn probes<'a>(rec: &'a Recording, target: &str, range: Range<i64>) -> Vec<&'a Delay> {
    let mut found: Vec<&Delay> = rec
        .delay
        .iter()
        .filter(|d| *d.target == *target && range.contains(&d.sent_ns) && counts(rec, d.sent_ns))
        .collect();
    found.sort_by_key(|d| (d.seq, d.sent_ns));
    found
}

/// Least time that the hosts take and that no stamp shows, ms.
const HOST_MS: f64 = 0.03;

/// Smallest round trip of the idle phase; else that of the probes `before`; else, if those are too few, that of all
/// probes.
pub fn base_rtt(rec: &Recording, list: &[Phase], before: i64) -> Figure {
    let of = |range| {
        own_probes(rec, range)
            .into_iter()
            .filter_map(Delay::rtt_ms)
            .collect::<Vec<_>>()
    };
    let mut idle: Vec<f64> = list
        .iter()
        .filter(|p| p.name == "idle")
        .flat_map(|p| of(p.steady()))
        .collect();
    if idle.len() < 5 {
        idle = of(i64::MIN..before);
    }
    let from = if idle.len() >= 5 {
        idle
    } else {
        of(i64::MIN..i64::MAX)
    };
    let below = stats::endpoint_below(&from).map(|f| match f {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low: (low - HOST_MS).max(0.0),
            high,
        },
        other => other,
    });
    below.unwrap_or_else(|| {
        Figure::cannot_tell(match own_target(rec) {
            "udp" => "no probe was answered: is the server reachable by UDP?".into(),
            other => format!("no probe to {other} was answered"),
        })
    })
}

/// Samples of the load in one direction, in time order.
pub fn flows(rec: &Recording, direction: Direction, range: Range<i64>) -> Vec<&Flow> {
    let mut found: Vec<&Flow> = rec
        .flow
        .iter()
        .filter(|f| f.direction == direction && range.contains(&f.t_ns) && counts(rec, f.t_ns))
        .collect();
    found.sort_by_key(|f| f.t_ns);
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Event;

    fn event(t_s: i64, kind: &str, subject: &str) -> Event {
        Event {
            t_ns: t_s * 1_000_000_000,
            kind: kind.into(),
            subject: subject.into(),
            detail: "".into(),
        }
    }

    #[test]
    fn a_phase_lasts_to_its_end_or_the_next_or_the_last_row() {
        let events = vec![
            event(0, "phase", "idle"),
            event(5, "phase", "down"),
            event(7, "warmup_end", "down"),
            event(20, "phase_end", "down"),
            event(20, "phase", "drain"),
            event(22, "phase", "up"),
            event(30, "fault", "server"),
        ];
        let rec = Recording {
            event: events,
            ..Recording::default()
        };
        let s = |p: &Phase| {
            (
                p.name.clone(),
                p.from_ns / 1_000_000_000,
                p.warm_ns / 1_000_000,
                p.to_ns / 1_000_000_000,
                p.ended,
            )
        };
        let got: Vec<_> = phases(&rec, None).iter().map(s).collect();
        let expected = [
            ("idle", 0, 0, 5, true),
            ("down", 5, 7000, 20, true),
            ("up", 22, 22_800, 30, false),
        ];
        assert_eq!(
            got,
            expected.map(|(n, a, b, c, d)| (n.to_string(), a, b, c, d))
        );
    }
}
