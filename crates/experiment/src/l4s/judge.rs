//! Verdict on the queue of a direction: does it mark ECT(1) datagrams in time, and do flows have queues of their own?
//!
//! **Rules.** The threshold is the wait that best separates marked from unmarked datagrams of Prague alone (Youden's J).
//! Marks are *immediate* if most datagrams that wait up to half as long again, or longer, are marked. A classic AQM marks
//! few of them. Queues are told by medians over those tenths of a second in which CUBIC's datagrams wait: if single
//! unmarked datagrams wait less than half as long, flows have queues of their own; if only Prague's do, it is a dual
//! queue; if none do, it is one queue. Between these, and if CUBIC builds no queue, there is no verdict.
//!
//! **Source.** W. J. Youden, "Index for rating diagnostic tests", Cancer 3 (1950); RFC 9331, The Explicit Congestion
//! Notification (ECN) Protocol for Low Latency, Low Loss, and Scalable Throughput (L4S), sections 4.3 and 5.

use super::note::{L4sNote, Phase};
use super::{CE, ECT1, NOT_ECT};
use crate::ecn;
use crate::flows::PACKET;
use crate::flows::seen::{
    self, Codepoint, FlowSeen, LEAST_MS, Spread, least_ms, sketch, tenths, waits,
};
use base::noted::Noted;
use base::record::{Direction, Recording};
use stats::Figure;
use std::collections::BTreeMap;

/// Share of datagrams above the threshold that are marked, from which on marks are immediate.
const IMMEDIATE: f64 = 0.6;
/// Marks from which on there is a threshold.
const MARKS: u64 = 10;
/// Wait above the threshold, as a factor and a further time in ms, up to which the share of marks becomes large.
const STEEP: (f64, f64) = (1.5, 0.5);
/// Share of datagrams that left this host late from which on the host, not the link, shaped the queue.
const LATE: f64 = 0.3;
/// Prague's share of CUBIC's rate below which ECT(1) is policed.
const POLICED: f64 = 0.6;

/// Queues of the flows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Queues {
    /// One for ECT(1) and one for all others.
    Dual,
    /// One for each flow.
    Fair,
    /// One for all.
    One,
    /// The reason why they are unknown.
    Unknown(String),
}

/// Verdict on the uplink.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Immediate marks in a queue that CUBIC does not fill.
    Works,
    /// Immediate marks in the queue that CUBIC fills.
    OneQueue,
    /// Marks of a classic AQM, in one queue or in one for each flow.
    ClassicMarks,
    /// ECT(1) arrives with this codepoint.
    Changed(u8),
    /// ECT(1) datagrams do not arrive.
    Lost,
    /// CE marks do not arrive.
    Erased,
    /// Losses, and no marks.
    NoMarks,
    /// ECT(1) is limited below the rate of other datagrams, without a queue.
    Policed,
    /// The reason why there is no verdict.
    Unknown(String),
}

/// Wait that separates marked from unmarked datagrams.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// Wait, ms.
    pub ms: f64,
    /// Interval of thresholds that separate nearly as well, and a packet's time more on both sides, ms: so exactly a wait
    /// is known, because another packet may be on its way already when a datagram comes.
    pub interval: (f64, f64),
    /// Share of marks among datagrams that wait longer than `steep`.
    pub marked: f64,
    /// Wait near the threshold above which that share is largest, ms.
    pub steep: f64,
}

/// Waits while both flows run and CUBIC's datagrams wait.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beside {
    /// Datagrams of Prague.
    pub l4s: Spread,
    /// Datagrams of CUBIC.
    pub classic: Spread,
    /// Single unmarked datagrams.
    pub sparse: Spread,
}

/// All that a recording shows.
#[derive(Clone, Debug, PartialEq)]
pub struct Judged {
    /// Verdict.
    pub verdict: Verdict,
    /// Queues of the flows.
    pub queues: Queues,
    /// Threshold of Prague alone; null with too few marks.
    pub threshold: Option<Threshold>,
    /// Median wait and its quartiles of marked datagrams of Prague alone, ms; null without marks.
    pub at_marks: Option<[f64; 3]>,
    /// Waits while both flows run; null if CUBIC's datagrams do not wait.
    pub beside: Option<Beside>,
    /// CUBIC's rate beside Prague in parts of half the rate of both: 1 is fair, less is harm.
    pub classic_of_fair: Figure,
    /// Codepoint that does not arrive as it left, with the hops between which that happens; null with another verdict.
    pub hop: Option<ecn::Finding>,
}

/// Notes of a run in order.
#[derive(Default)]
pub(super) struct Notes {
    /// Single datagrams of each marking on the idle link.
    pub codepoints: Vec<Codepoint>,
    phases: BTreeMap<u8, Vec<FlowSeen>>,
    /// Reason why the run ended early.
    pub untried: Option<String>,
    /// Fates of codepoints that do not arrive as they left, with their places.
    hops: Vec<ecn::Finding>,
}

impl Notes {
    /// Notes of a recording about a direction.
    pub fn of(recording: &Recording, direction: Direction) -> Notes {
        let mut notes = Notes::default();
        let all = L4sNote::all_of(recording).map(|n| n.1);
        for note in all.filter(|n| n.direction() == direction) {
            match note {
                L4sNote::Untried { why, .. } => notes.untried = Some(why),
                L4sNote::Codepoints { all, .. } => notes.codepoints = all,
                L4sNote::Phase { phase, flows, .. } => {
                    notes.phases.insert(phase as u8, flows);
                }
            }
        }
        let ours = |f: &ecn::Finding| f.direction == direction && f.part == ecn::Part::Udp;
        notes.hops = ecn::findings(recording).into_iter().filter(ours).collect();
        notes
    }

    /// Fate of the codepoint that the verdict is about, with its place; null if no hops were asked, or if they tell another
    /// fate.
    fn place(&self, verdict: &Verdict) -> Option<&ecn::Finding> {
        let of = |tos| self.hops.iter().find(move |f| f.tos == tos);
        match verdict {
            Verdict::Changed(to) => of(ECT1).filter(|f| f.fate == ecn::Fate::Changed(*to)),
            Verdict::Lost => of(ECT1).filter(|f| f.fate == ecn::Fate::Lost),
            Verdict::Erased => of(CE).filter(|f| matches!(f.fate, ecn::Fate::Changed(_))),
            _ => None,
        }
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
        self.untried.is_none() && self.phases.is_empty() && self.codepoints.is_empty()
    }

    /// All flows of all phases.
    pub fn flows(&self) -> impl Iterator<Item = &FlowSeen> {
        self.phases.values().flatten()
    }
}

pub(super) fn ms(ns: f64) -> f64 {
    ns * 1e-6
}

/// Verdict on a direction from a recording.
pub fn judged(recording: &Recording, direction: Direction) -> Judged {
    judge(&Notes::of(recording, direction))
}

pub(super) fn judge(notes: &Notes) -> Judged {
    let alone = notes.flow(Phase::Alone, "l4s");
    let least = least_ms(notes.flows());
    let beside = beside(notes, least);
    let queues = beside.map_or_else(
        || Queues::Unknown("CUBIC built no queue beside Prague".into()),
        |b| queues(b, least),
    );
    let marks = alone.map(|f| sketch(&f.marked)).filter(|m| !m.is_empty());
    let verdict = verdict(notes, &queues);
    Judged {
        hop: notes.place(&verdict).cloned(),
        verdict,
        threshold: alone.and_then(threshold),
        at_marks: marks.map(|m| [0.25, 0.5, 0.75].map(|p| ms(m.quantile(p).unwrap_or_default()))),
        beside,
        classic_of_fair: match beside {
            Some(_) => classic_of_fair(notes, &queues),
            None => Figure::cannot_tell("CUBIC built no queue beside Prague"),
        },
        queues,
    }
}

fn classic_of_fair(notes: &Notes, queues: &Queues) -> Figure {
    let of = |name| notes.flow(Phase::Together, name);
    match (of("l4s"), of("classic")) {
        (Some(l4s), Some(classic)) => seen::of_fair(l4s, classic, matches!(queues, Queues::One)),
        _ => Figure::cannot_tell("the flows did not run together"),
    }
}

fn beside(notes: &Notes, least: f64) -> Option<Beside> {
    let of = |name| notes.flow(Phase::Together, name);
    let (l4s, classic) = (of("l4s")?, of("classic")?);
    let with = |name| tenths([l4s, classic, of(name)?], 1, least);
    let all = ["sparse", "sparse2"].into_iter().filter_map(with);
    let [l4s, classic, sparse] = all.min_by(|a, b| a[2][0].total_cmp(&b[2][0]))?;
    Some(Beside {
        l4s,
        classic,
        sparse,
    })
}

fn queues(b: Beside, least: f64) -> Queues {
    use seen::Beside::{Equal, Shorter};
    let (l4s, classic, sparse) = (b.l4s[0], b.classic[0], b.sparse[0]);
    let is = |wait| seen::beside(wait, classic, least);
    match (is(sparse), is(l4s)) {
        (Shorter, _) => Queues::Fair,
        (Equal, Shorter) => Queues::Dual,
        (Equal, Equal) => Queues::One,
        _ => Queues::Unknown(format!(
            "waits are too alike: {l4s:.1} ms of Prague, {classic:.1} ms of CUBIC and {sparse:.1} ms of single datagrams"
        )),
    }
}

/// Fate of a codepoint: null if it arrives, otherwise the codepoint that arrives instead; null in that if none does.
fn changed(codepoint: &Codepoint) -> Option<Option<u8>> {
    let known = codepoint
        .arrived
        .iter()
        .filter_map(|(tos, n)| Some((tos.as_ref()? & 3, *n)));
    let mut counts: BTreeMap<u8, u32> = BTreeMap::new();
    for (codepoint, n) in known {
        *counts.entry(codepoint).or_default() += n;
    }
    if counts.contains_key(&codepoint.tos) {
        return None;
    }
    let most = counts.into_iter().max_by_key(|c| c.1);
    Some(most.map(|c| c.0))
}

fn verdict(notes: &Notes, queues: &Queues) -> Verdict {
    let of = |tos| notes.codepoints.iter().find(|c| c.tos == tos);
    let arrived = |tos| of(tos).map_or(0, |c| c.arrived.iter().map(|a| a.1).sum::<u32>());
    if let Some(why) = &notes.untried {
        return Verdict::Unknown(why.clone());
    }
    let (Some(ect1), Some(ce)) = (of(ECT1), of(CE)) else {
        return Verdict::Unknown(
            "the run ended before datagrams of each codepoint came back".into(),
        );
    };
    if arrived(NOT_ECT) > 3 && arrived(ECT1) == 0 {
        return Verdict::Lost;
    }
    if ect1.arrived.iter().all(|(tos, _)| tos.is_none()) {
        return Verdict::Unknown(
            "the receiver's kernel does not tell the codepoint at arrival".into(),
        );
    }
    // A queue that marks every datagram of the idle link, but not those of Prague, is a short one on a slow link.
    let spared = |f: &FlowSeen| !f.unmarked.is_empty();
    let spares = notes.flow(Phase::Alone, "l4s").is_some_and(spared);
    match (changed(ect1), changed(ce)) {
        (Some(Some(CE)), _) if spares => {}
        (Some(Some(codepoint)), _) => return Verdict::Changed(codepoint),
        (None, Some(Some(_))) => return Verdict::Erased,
        _ => {}
    }
    let flows = (
        notes.flow(Phase::Alone, "l4s"),
        notes.flow(Phase::Classic, "classic"),
    );
    let (Some(alone), Some(classic)) = flows else {
        return Verdict::Unknown("the run ended before all flows had run".into());
    };
    if let Some(late) = notes
        .flows()
        .find(|f| f64::from(f.late) > f64::from(f.sent) * LATE)
    {
        return Verdict::Unknown(format!(
            "this host is too slow: {} of {} datagrams left more than 2 ms late",
            late.late, late.sent
        ));
    }
    if let Some(why) = seen::requests_waited(notes.flows()) {
        return Verdict::Unknown(why);
    }
    of_marks(notes, alone, classic, queues)
}

fn of_marks(notes: &Notes, alone: &FlowSeen, classic: &FlowSeen, queues: &Queues) -> Verdict {
    let beside = notes.flow(Phase::Together, "l4s");
    let count = |f: &FlowSeen| sketch(&f.marked).count();
    let marks = count(alone) + beside.map_or(0, count);
    if marks == 0 {
        return unmarked(alone, classic, beside);
    }
    let Some(threshold) = threshold(alone).or_else(|| beside.and_then(threshold)) else {
        return Verdict::Unknown(format!("there were only {marks} marks"));
    };
    match (threshold.marked >= IMMEDIATE, queues) {
        (true, Queues::Dual | Queues::Fair) => Verdict::Works,
        (true, Queues::One) => Verdict::OneQueue,
        (false, Queues::Fair | Queues::One) => Verdict::ClassicMarks,
        (false, Queues::Dual) => {
            Verdict::Unknown("Prague has a queue of its own, and its marks fit no threshold".into())
        }
        (_, Queues::Unknown(why)) => Verdict::Unknown(why.clone()),
    }
}

fn unmarked(alone: &FlowSeen, classic: &FlowSeen, beside: Option<&FlowSeen>) -> Verdict {
    let highest = |f: &FlowSeen| ms(waits(f).quantile(0.99).unwrap_or_default());
    let lost = alone.lost + beside.map_or(0, |f| f.lost);
    if lost == 0 {
        return Verdict::Unknown(
            "Prague met neither marks nor losses: the link's queue may not have filled".into(),
        );
    }
    let no_queue = highest(alone) < LEAST_MS && highest(classic) > 3.0 * LEAST_MS;
    if no_queue && alone.lost > 5 && alone.rate_bps < classic.rate_bps * POLICED {
        return Verdict::Policed;
    }
    Verdict::NoMarks
}

/// Threshold of a flow's marks.
fn threshold(flow: &FlowSeen) -> Option<Threshold> {
    let (marked, unmarked) = (sketch(&flow.marked), sketch(&flow.unmarked));
    let (m, u) = (marked.count(), unmarked.count());
    if m < MARKS || u < MARKS {
        return None;
    }
    let mut values: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
    for (value, n) in marked.counts() {
        values.entry(value).or_default().0 += n;
    }
    for (value, n) in unmarked.counts() {
        values.entry(value).or_default().1 += n;
    }
    let values: Vec<(u64, (u64, u64))> = values.into_iter().collect();
    // Edges between two values: the wait, J, and the datagrams above it.
    let (mut above, mut edges) = ((m, u), Vec::new());
    for pair in values.windows(2) {
        let (wait, (marks, others)) = pair[0];
        above = (above.0 - marks, above.1 - others);
        let j = above.0 as f64 / m as f64 - above.1 as f64 / u as f64;
        edges.push(((wait, pair[1].0), j, above));
    }
    let best = edges.iter().map(|e| e.1).fold(0.0, f64::max);
    let error = 2.0 * (best * (1.0 - best) / m as f64).sqrt() + 1.0 / m as f64;
    let near = edges.iter().filter(|e| e.1 >= best - error);
    let low = near.clone().map(|e| e.0.0).min()?;
    let high = near.map(|e| e.0.1).max()?;
    let ((from, to), _, above) = edges.iter().find(|e| e.1 == best)?;
    let at = ms((*from + *to) as f64 / 2.0);
    let limit = at * STEEP.0 + STEEP.1;
    let share = |above: &(u64, u64)| above.0 as f64 / (above.0 + above.1).max(1) as f64;
    let steep = edges
        .iter()
        .filter(|e| e.0.0 >= *from && ms(e.0.0 as f64) <= limit && e.2.0 >= MARKS)
        .map(|e| (share(&e.2), ms(e.0.0 as f64)))
        .max_by(|a, b| a.0.total_cmp(&b.0));
    let (marked, steep) = steep.unwrap_or((share(above), at));
    let packet_ms = (PACKET * 8) as f64 / flow.rate_bps.max(1.0) * 1e3;
    Some(Threshold {
        ms: at,
        interval: (
            (ms(low as f64) - packet_ms).max(0.0),
            ms(high as f64) + packet_ms,
        ),
        marked,
        steep,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(name: &str, unmarked: &[(u64, u64)], marked: &[(u64, u64)]) -> FlowSeen {
        let ns = |all: &[(u64, u64)]| all.iter().map(|(us, n)| (us * 1000, *n)).collect();
        FlowSeen {
            name: name.into(),
            tos: ECT1,
            sent: 1000,
            arrived: 1000,
            returned: 1000,
            rate_bps: 10e6,
            unmarked: ns(unmarked),
            marked: ns(marked),
            ..FlowSeen::default()
        }
    }

    fn notes(alone: FlowSeen, classic: FlowSeen, together: [u64; 3]) -> Notes {
        let codepoint = |tos| Codepoint {
            tos,
            sent: 25,
            arrived: vec![(Some(tos), 25)],
        };
        let names = ["l4s", "classic", "sparse"];
        let beside = std::iter::zip(names, together).map(|(n, us)| FlowSeen {
            bins: vec![Some((us as f32 * 1e-3, 0)); 50],
            ..flow(n, &[(us, 500)], &[])
        });
        Notes {
            codepoints: [0, 1, 2, 3].map(codepoint).to_vec(),
            phases: BTreeMap::from([
                (Phase::Alone as u8, vec![alone]),
                (Phase::Classic as u8, vec![classic]),
                (Phase::Together as u8, beside.collect()),
            ]),
            untried: None,
            hops: Vec::new(),
        }
    }

    fn step(name: &str) -> FlowSeen {
        flow(name, &[(200, 500), (900, 300)], &[(1100, 100), (2000, 50)])
    }

    fn filled() -> FlowSeen {
        flow("classic", &[(20_000, 900)], &[])
    }

    #[test]
    fn a_threshold_lies_between_the_last_unmarked_and_the_first_marked_wait() {
        let t = threshold(&step("l4s")).expect("there are marks");
        assert!((t.ms - 1.0).abs() < 0.03, "{t:?}");
        assert!(t.interval.0 < 0.92 && t.interval.1 > 1.08, "{t:?}");
        assert_eq!(t.marked, 1.0);
        assert_eq!(threshold(&flow("l4s", &[(200, 500)], &[(900, 3)])), None);
    }

    #[test]
    fn queues_are_told_by_who_waits_beside_cubic() {
        for (together, expected) in [
            ([600, 20_000, 19_000], Verdict::Works),
            ([600, 20_000, 500], Verdict::Works),
            ([20_000, 20_000, 20_000], Verdict::OneQueue),
            (
                [100, 1000, 900],
                Verdict::Unknown("CUBIC built no queue beside Prague".into()),
            ),
        ] {
            let judged = judge(&notes(step("l4s"), filled(), together));
            assert_eq!(judged.verdict, expected, "{together:?}: {judged:?}");
        }
        let judged = judge(&notes(step("l4s"), filled(), [12_000, 20_000, 19_000]));
        assert!(matches!(judged.verdict, Verdict::Unknown(_)), "{judged:?}");
    }

    #[test]
    fn few_marks_above_the_target_are_those_of_a_classic_aqm() {
        let codel = flow(
            "l4s",
            &[(2000, 500), (9000, 400)],
            &[(8000, 20), (12_000, 5)],
        );
        let judged = judge(&notes(codel, filled(), [20_000, 20_000, 20_000]));
        assert_eq!(judged.verdict, Verdict::ClassicMarks, "{judged:?}");
    }

    #[test]
    fn no_marks_are_tail_drop_policing_or_nothing_that_can_be_told() {
        let lossy = |lost, rate_bps, us| FlowSeen {
            lost,
            rate_bps,
            ..flow("l4s", &[(us, 900)], &[])
        };
        let of = |alone| judge(&notes(alone, filled(), [20_000; 3])).verdict;
        assert_eq!(of(lossy(20, 9e6, 15_000)), Verdict::NoMarks);
        assert_eq!(of(lossy(20, 2e6, 300)), Verdict::Policed);
        assert!(matches!(of(lossy(0, 9e6, 300)), Verdict::Unknown(_)));
    }

    #[test]
    fn a_codepoint_that_arrives_as_another_ends_the_matter() {
        let mut all = notes(step("l4s"), filled(), [600, 20_000, 19_000]);
        all.codepoints[1].arrived = vec![(Some(0), 25)];
        assert_eq!(judge(&all).verdict, Verdict::Changed(0));
        all.codepoints[1].arrived.clear();
        assert_eq!(judge(&all).verdict, Verdict::Lost);
        all.codepoints[1].arrived = vec![(Some(1), 25)];
        all.codepoints[3].arrived = vec![(Some(1), 25)];
        assert_eq!(judge(&all).verdict, Verdict::Erased);
    }
}
