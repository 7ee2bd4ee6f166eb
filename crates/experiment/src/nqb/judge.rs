//! Verdict on the queue of datagrams with DSCP 45, and on its protection.
//!
//! **Rules.** Waits are compared over those tenths of a second in which CUBIC's datagrams wait. If single unmarked datagrams
//! wait less than half as long, flows have queues of their own, and NQB adds nothing. If only those with DSCP 45 do, NQB
//! has a queue of its own; if neither do, it has none. The queue is protected if single NQB datagrams wait less than half
//! as long as those of the flow that cheats, and if few of them are lost. If that flow builds no queue, nothing is told.

use super::note::{NqbNote, Phase};
use super::{NQB, PLAIN};
use crate::flows::seen::Beside::{Equal, Shorter};
use crate::flows::seen::{Codepoint, FlowSeen, Spread, beside, least_ms, requests_waited, tenths};
use base::noted::Noted;
use base::record::{Direction, Recording};
use std::collections::BTreeMap;

/// Share of NQB datagrams lost beside a flow that cheats, from which on they are not protected.
const LOST: f64 = 0.02;
/// Share of datagrams that left this host late from which on the host shaped the queue.
const LATE: f64 = 0.3;

/// Verdict on the queue of DSCP 45.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// NQB has a queue of its own, which CUBIC does not fill.
    Own,
    /// Each flow has a queue of its own; DSCP 45 changes nothing.
    Fair,
    /// NQB waits in CUBIC's queue.
    Shared,
    /// The DSCP arrives as this one; waits may still be told.
    Changed(u8),
    /// Datagrams with DSCP 45 do not arrive.
    Lost,
    /// The reason why there is no verdict.
    Unknown(String),
}

/// Protection of NQB datagrams against a flow that cheats.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Protection {
    /// NQB datagrams wait, and are lost, no more.
    Protected,
    /// NQB datagrams wait in the queue of the flow that cheats, or are lost.
    Exposed,
    /// The reason why it is unknown, or does not matter.
    Unknown(String),
}

/// All that a recording shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Verdict.
    pub verdict: Verdict,
    /// Protection of the queue.
    pub protection: Protection,
    /// Waits of NQB, CUBIC and single unmarked datagrams, ms; null if CUBIC's do not wait.
    pub beside: Option<[Spread; 3]>,
    /// Waits of NQB and of the flow that cheats, ms.
    pub cheated: Option<[Spread; 2]>,
}

/// Notes of a run.
#[derive(Default)]
pub(super) struct Notes {
    /// Single datagrams of each marking on the idle link.
    pub markings: Vec<Codepoint>,
    phases: BTreeMap<u8, Vec<FlowSeen>>,
    /// Reason why the run ended early.
    pub untried: Option<String>,
}

impl Notes {
    /// Notes of a recording about a direction.
    pub fn of(recording: &Recording, direction: Direction) -> Notes {
        let mut notes = Notes::default();
        let all = NqbNote::all_of(recording).map(|n| n.1);
        for note in all.filter(|n| n.direction() == direction) {
            match note {
                NqbNote::Untried { why, .. } => notes.untried = Some(why),
                NqbNote::Markings { all, .. } => notes.markings = all,
                NqbNote::Phase { phase, flows, .. } => {
                    notes.phases.insert(phase as u8, flows);
                }
            }
        }
        notes
    }

    /// A flow of a phase.
    pub fn flow(&self, phase: Phase, name: &str) -> Option<&FlowSeen> {
        self.phases
            .get(&(phase as u8))?
            .iter()
            .find(|f| f.name == name)
    }

    /// True if the direction was not tried.
    pub fn is_empty(&self) -> bool {
        self.untried.is_none() && self.phases.is_empty() && self.markings.is_empty()
    }

    /// All flows of all phases.
    pub fn flows(&self) -> impl Iterator<Item = &FlowSeen> {
        self.phases.values().flatten()
    }
}

/// Verdict on a direction from a recording.
pub fn judged(recording: &Recording, direction: Direction) -> Judged {
    judge(&Notes::of(recording, direction))
}

pub(super) fn judge(notes: &Notes) -> Judged {
    let least = least_ms(notes.flows());
    let beside = waits_beside(notes, least);
    let cheated = waits_cheated(notes, least);
    let verdict = verdict(notes, beside, least);
    let protection = match verdict {
        Verdict::Own | Verdict::Fair => protection(notes, cheated, least),
        _ => Protection::Unknown("there is no queue to protect".into()),
    };
    Judged {
        verdict,
        protection,
        beside,
        cheated,
    }
}

fn waits_beside(notes: &Notes, least: f64) -> Option<[Spread; 3]> {
    let of = |name| notes.flow(Phase::Beside, name);
    let (nqb, classic) = (of("nqb")?, of("classic")?);
    let with = |name| tenths([nqb, classic, of(name)?], 1, least);
    let all = ["sparse", "sparse2"].into_iter().filter_map(with);
    all.min_by(|a, b| a[2][0].total_cmp(&b[2][0]))
}

fn waits_cheated(notes: &Notes, least: f64) -> Option<[Spread; 2]> {
    let of = |name| notes.flow(Phase::Cheat, name);
    tenths([of("nqb")?, of("cheat")?], 1, least)
}

fn verdict(notes: &Notes, waits: Option<[Spread; 3]>, least: f64) -> Verdict {
    if let Some(why) = &notes.untried {
        return Verdict::Unknown(why.clone());
    }
    let arrived = |tos: u8| {
        let its = notes.markings.iter().find(|m| m.tos == tos);
        its.map_or(&[][..], |m| &m.arrived)
    };
    let count = |all: &[(Option<u8>, u32)]| all.iter().map(|a| a.1).sum::<u32>();
    if count(arrived(PLAIN)) == 0 {
        return Verdict::Unknown("the run ended before datagrams came back".into());
    }
    if count(arrived(NQB)) == 0 {
        return Verdict::Lost;
    }
    let late = notes
        .flows()
        .find(|f| f64::from(f.late) > f64::from(f.sent) * LATE);
    if let Some(late) = late {
        return Verdict::Unknown(format!(
            "this host is too slow: {} of {} datagrams left more than 2 ms late",
            late.late, late.sent
        ));
    }
    if let Some(why) = requests_waited(notes.flows()) {
        return Verdict::Unknown(why);
    }
    let Some([nqb, classic, sparse]) = waits.map(|w| w.map(|spread| spread[0])) else {
        return Verdict::Unknown("CUBIC built no queue".into());
    };
    let is = |wait| beside(wait, classic, least);
    match (is(sparse), is(nqb)) {
        (Shorter, Shorter) => Verdict::Fair,
        (Equal, Shorter) => Verdict::Own,
        // The marking may have been removed before the queue.
        (Equal, Equal) => changed(arrived(NQB)).map_or(Verdict::Shared, Verdict::Changed),
        _ => Verdict::Unknown(format!(
            "waits are too alike: {nqb:.1} ms with DSCP 45, {classic:.1} ms of CUBIC and {sparse:.1} ms of single datagrams without"
        )),
    }
}

/// DSCP at arrival if no datagram arrives with 45.
fn changed(arrived: &[(Option<u8>, u32)]) -> Option<u8> {
    let known = arrived
        .iter()
        .filter_map(|(tos, n)| Some((tos.as_ref()? >> 2, *n)));
    let most = known.clone().max_by_key(|k| k.1)?;
    known
        .clone()
        .all(|(dscp, _)| dscp != NQB >> 2)
        .then_some(most.0)
}

fn protection(notes: &Notes, cheated: Option<[Spread; 2]>, least: f64) -> Protection {
    let Some(nqb) = notes.flow(Phase::Cheat, "nqb") else {
        return Protection::Unknown("the run ended before the flow that cheats".into());
    };
    if f64::from(nqb.lost) > f64::from(nqb.sent) * LOST {
        return Protection::Exposed;
    }
    // A flow that yields to losses before it builds a queue does not show what one that does not yield would do.
    let Some([honest, cheat]) = cheated else {
        return Protection::Unknown("the flow that cheats built no queue".into());
    };
    match beside(honest[0], cheat[0], least) {
        Shorter => Protection::Protected,
        Equal => Protection::Exposed,
        _ => Protection::Unknown(format!(
            "waits are too alike: {:.1} ms of single NQB datagrams, {:.1} ms of the flow that cheats",
            honest[0], cheat[0]
        )),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, ms: f32) -> FlowSeen {
        FlowSeen {
            name: name.into(),
            sent: 400,
            arrived: 400,
            returned: 400,
            rate_bps: 10e6,
            unmarked: vec![((ms * 1e6) as u64, 400)],
            bins: vec![Some((ms, 0)); 50],
            ..FlowSeen::default()
        }
    }

    /// Waits of NQB, CUBIC and single datagrams; then of NQB and the flow that cheats.
    fn notes(beside: [f32; 3], cheat: [f32; 2]) -> Notes {
        let marking = |tos| Codepoint {
            tos,
            sent: 12,
            arrived: vec![(Some(tos), 12)],
        };
        let names = ["nqb", "classic", "sparse"];
        let first = std::iter::zip(names, beside).map(|(n, ms)| flow(n, ms));
        let second = std::iter::zip(["nqb", "cheat"], cheat).map(|(n, ms)| flow(n, ms));
        Notes {
            markings: vec![marking(PLAIN), marking(NQB)],
            phases: BTreeMap::from([
                (Phase::Beside as u8, first.collect()),
                (Phase::Cheat as u8, second.collect()),
            ]),
            untried: None,
        }
    }

    #[test]
    fn a_queue_of_its_own_is_told_from_fair_queues_and_from_none() {
        for (waits, cheat, expected, protection) in [
            (
                [0.4, 20.0, 19.0],
                [0.4, 12.0],
                Verdict::Own,
                Protection::Protected,
            ),
            (
                [0.4, 20.0, 19.0],
                [11.0, 12.0],
                Verdict::Own,
                Protection::Exposed,
            ),
            (
                [0.4, 20.0, 19.0],
                [0.3, 0.5],
                Verdict::Own,
                Protection::Unknown("the flow that cheats built no queue".into()),
            ),
            (
                [0.4, 20.0, 0.4],
                [0.4, 12.0],
                Verdict::Fair,
                Protection::Protected,
            ),
        ] {
            let found = judge(&notes(waits, cheat));
            assert_eq!(
                (&found.verdict, &found.protection),
                (&expected, &protection),
                "{waits:?} {cheat:?}: {found:?}"
            );
        }
        assert_eq!(judge(&notes([20.0; 3], [20.0; 2])).verdict, Verdict::Shared);
        for none in [[0.4, 1.0, 0.9], [12.0, 20.0, 19.0]] {
            let found = judge(&notes(none, [0.4, 12.0]));
            assert!(matches!(found.verdict, Verdict::Unknown(_)), "{found:?}");
        }
    }

    #[test]
    fn losses_beside_a_flow_that_cheats_expose_and_a_removed_dscp_is_named() {
        let mut all = notes([0.4, 20.0, 19.0], [0.4, 12.0]);
        let cheat = all
            .phases
            .get_mut(&(Phase::Cheat as u8))
            .expect("it is there");
        cheat[0].lost = 20;
        assert_eq!(judge(&all).protection, Protection::Exposed);
        let mut all = notes([20.0; 3], [20.0; 2]);
        all.markings[1].arrived = vec![(Some(0), 12)];
        assert_eq!(judge(&all).verdict, Verdict::Changed(0));
        all.markings[1].arrived.clear();
        assert_eq!(judge(&all).verdict, Verdict::Lost);
    }
}
