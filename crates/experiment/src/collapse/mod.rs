//! Round trips of a long upload's packets, alone and beside a second upload.
//!
//! **Method.** Rounds of upload, whose packets are captured as they leave this host. A round trip lasts from a segment
//! to its ACK, for segments sent once. The excess over the least one is waiting, most of it in the queue that the
//! upload itself fills. In the later rounds a second upload starts some time after the first and ends before it.
//!
//! **Source.** J. S. Catalán Olmos, "Testing, Detection and Possible Solutions for the Bufferbloat Phenomenon on Networks",
//! UTFSM, sections 6.3.3 and 7.3, figures 10 to 13 (Iperf for five minutes, captured; a second upload from 50 s after the
//! beginning to 50 s before the end of the second and third round).
//!
//! **Deviations.** The second upload goes from the same host to the same server; that of the source went from another
//! host to another server. They share the uplink, which is the subject.
//!
//! **Units.** ms.

mod steps;

use super::alert::{Alert, Severity};
use super::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use super::spec::{How, Spec};
use crate::passive::{Waiting, Way, finding};
use base::Duration;
use base::noted::Noted;
use base::noted::collapse::{CollapseNote, Round};
use base::print::DELAY;
use base::print::significant;
use base::record::{Connection, Recording};
use base::spec::{Params as _, params};
use stats::Figure;
use std::collections::BTreeMap;

const DOCUMENT: &str = "Catalán 2014, section 6.3.3";

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "collapse": "How long do an upload's own packets take during minutes of load, alone and beside a second upload?", ["Catalán 2014, section 6.3.3", "RFC 6298"] {
        /// number of rounds; a second upload joins from the second on
        rounds: u32 = "3" ["1".."20"], DOCUMENT;
        /// length of a round; shorter if the budget would not be enough
        duration: Duration = "300 s" ["3 s".."3600 s"], DOCUMENT;
        /// time from a round's begin to that of the second upload, and from its end to the round's; by default a sixth
        /// of the round
        lead: Option<Duration> ["0 s".."1800 s"], DOCUMENT;
        /// flows of the first upload
        flows: u32 = "1" ["1".."64"], DOCUMENT;
        /// flows of the second upload
        second: u32 = "1" ["1".."64"], DOCUMENT;
        /// pause between two rounds
        rest: Duration = "10 s" ["0 s".."3600 s"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "15 minutes at the link's full rate up, less if the budget ends",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer: |w, recording| answer(&w.read(), recording),
};

/// Bits of one full packet.
const PACKET_BITS: f64 = 1500.0 * 8.0;
/// Points of a plot to which a series is reduced, in pairs of the least and the most.
const POINTS: usize = 500;
/// Time without a round trip that a person would call an interruption, s.
const SILENCE_S: f64 = 2.0;

/// Round trips of a connection's data: time of the ACK, ns, and length, ms.
type Trips = Vec<(i64, f64)>;

/// Round with its packets.
struct Seen {
    round: Round,
    first: Trips,
    second: Trips,
    /// Packets sent by the first upload's connections.
    sent: i64,
    again: i64,
    unique_bytes: i64,
    /// Destinations.
    towards: Vec<base::record::Text>,
}

impl Seen {
    /// True if the second upload ran at that time.
    fn beside(&self, t_ns: i64) -> bool {
        self.round
            .second
            .is_some_and(|(from, to)| (from..=to).contains(&t_ns))
    }

    fn part(&self, beside: bool) -> Vec<f64> {
        let these = self.first.iter().filter(|s| self.beside(s.0) == beside);
        these.map(|s| s.1).collect()
    }

    /// Longest time in which no segment that was sent once was acknowledged, s.
    fn silence_s(&self) -> f64 {
        let mut times: Vec<i64> = self.first.iter().map(|s| s.0).collect();
        times.push(self.round.ended_ns);
        let mut before = self.round.began_ns;
        let mut longest = 0;
        for t in times {
            longest = longest.max(t - before);
            before = t;
        }
        longest as f64 * 1e-9
    }

    fn seconds(&self) -> f64 {
        (self.round.ended_ns - self.round.began_ns) as f64 * 1e-9
    }
}

fn answer(params: &Params, recording: &Recording) -> Outcome {
    let notes: Vec<CollapseNote> = CollapseNote::all_of(recording).map(|n| n.1).collect();
    let rounds: Vec<Seen> = notes
        .iter()
        .filter_map(|n| match n {
            CollapseNote::Round(round) => Some(seen(round, recording)),
            _ => None,
        })
        .collect();
    if rounds.iter().all(|r| r.first.is_empty()) {
        return Outcome::cannot_tell("no round trip of the load's packets was captured");
    }
    let mut outcome = Outcome::default();
    for note in &notes {
        tell(note, &mut outcome);
    }
    let base_ms = base_ms(&rounds, recording);
    let of = |beside: bool| -> Vec<f64> { rounds.iter().flat_map(|r| r.part(beside)).collect() };
    let (alone, beside) = (of(false), of(true));
    figures(&rounds, base_ms, &alone, &beside, &mut outcome);
    outcome.says = says(params, base_ms, &alone, &beside);
    if let Some(base_ms) = base_ms {
        queue(&rounds, base_ms, &mut outcome);
    }
    silences(&rounds, &mut outcome);
    outcome.tables = vec![table(&rounds)];
    outcome.plots = rounds.iter().map(|r| plot(r, base_ms)).collect();
    outcome
}

/// Direction of an upload's connection that carried the data; connections that are no uploads are left out.
fn uploads<'a>(round: &Round, recording: &'a Recording) -> impl Iterator<Item = &'a Connection> {
    let (began, ended) = (round.began_ns, round.ended_ns);
    let mut by_number: BTreeMap<i64, &Connection> = BTreeMap::new();
    for c in &recording.connection {
        let slot = by_number.entry(c.flow / 2).or_insert(c);
        if c.data_bytes > slot.data_bytes {
            *slot = c;
        }
    }
    let largest = |c: &&Connection| c.data_packets >= LEAST_PACKETS;
    let inside = move |c: &&Connection| (began - SLACK_NS..=ended).contains(&c.first_ns);
    by_number.into_values().filter(largest).filter(inside)
}

/// Number of data packets below which a connection is a request or an answer.
const LEAST_PACKETS: i64 = 20;
/// Largest difference between the clocks of the note before an upload's connection and of its packets.
const SLACK_NS: i64 = 100_000_000;

fn seen(round: &Round, recording: &Recording) -> Seen {
    let is_second = |c: &Connection| {
        round
            .second
            .is_some_and(|(from, _)| c.first_ns >= from - SLACK_NS)
    };
    let (second, first): (Vec<&Connection>, Vec<&Connection>) =
        uploads(round, recording).partition(|c| is_second(c));
    let trips = |of: &[&Connection]| -> Trips {
        let data: Vec<i64> = of.iter().map(|c| c.flow).collect();
        let mut trips: Trips = recording
            .segment
            .iter()
            // The ACK is the other direction's packet.
            .filter(|s| data.contains(&(s.flow ^ 1)))
            .filter(|s| (round.began_ns..=round.ended_ns).contains(&s.t_ns))
            .filter_map(|s| Some((s.t_ns, s.rtt_ns? as f64 * 1e-6)))
            .collect();
        trips.sort_by_key(|t| t.0);
        trips
    };
    let sum = |f: fn(&Connection) -> i64| first.iter().map(|c| f(c)).sum();
    Seen {
        first: trips(&first),
        second: trips(&second),
        sent: sum(|c| c.data_packets),
        again: sum(|c| c.retransmitted_packets),
        unique_bytes: sum(|c| c.unique_bytes),
        towards: first.iter().map(|c| c.destination.clone()).collect(),
        round: round.clone(),
    }
}

/// Least round trip of all packets to the uploads' destinations: handshakes find the link empty. Packets from there are
/// answered by this host itself.
fn base_ms(rounds: &[Seen], recording: &Recording) -> Option<f64> {
    let towards = |c: &&Connection| rounds.iter().any(|r| r.towards.contains(&c.destination));
    let there = recording.connection.iter().filter(towards);
    let least = there.filter_map(|c| c.rtt_min_ns).min()?;
    Some(least as f64 * 1e-6)
}

fn tell(note: &CollapseNote, outcome: &mut Outcome) {
    match note {
        CollapseNote::Round(_) => {}
        CollapseNote::Shortened { planned_s, to_s } => outcome.evidence.push(format!(
            "rounds are {} s long instead of {} s: at the rate of this link the budget allows no more, see --budget",
            significant(*to_s, 3),
            significant(*planned_s, 3)
        )),
        CollapseNote::CutShort { round, why } => {
            outcome.doubts.push(format!("round {round} ended early: {why}"));
        }
        CollapseNote::Captured {
            file,
            packets,
            missed,
        } => {
            outcome.evidence.push(format!(
                "{packets} packets to and from the server are in {file} of the recording: `tailback trace` reads and draws them"
            ));
            if let Some(missed) = missed.filter(|n| *n > 0) {
                outcome.doubts.push(format!(
                    "the kernel had no room for {missed} packets of the interface: what lacks in the capture may not be lost"
                ));
            }
        }
    }
}

fn at(values: &[f64], p: f64) -> Option<f64> {
    stats::quantile_of_sorted(&stats::sorted(values), p)
}

fn says(params: &Params, base_ms: Option<f64>, alone: &[f64], beside: &[f64]) -> String {
    let empty = base_ms.map_or(String::new(), |b| {
        format!(" instead of {} on the empty line", DELAY.print(b))
    });
    let (Some(a), Some(most)) = (at(alone, 0.5), at(alone, 1.0)) else {
        return "Cannot tell: no round trip of the first upload alone was captured.".into();
    };
    let first = format!(
        "An upload's packets take {} there and back{empty} (median; {} at most)",
        DELAY.print(a),
        DELAY.print(most)
    );
    match (at(beside, 0.5), at(beside, 1.0)) {
        (Some(b), Some(most)) => format!(
            "{first}, and {} beside a second upload ({} at most).",
            DELAY.print(b),
            DELAY.print(most)
        ),
        _ if params.rounds < 2 => format!("{first}."),
        _ => format!("{first}; no round with a second upload came so far."),
    }
}

fn figures(
    rounds: &[Seen],
    base_ms: Option<f64>,
    alone: &[f64],
    together: &[f64],
    outcome: &mut Outcome,
) {
    let none = "no round trip was captured";
    // Round trips that follow each other are alike, so the interval is that of the rounds.
    let quantile = |beside: bool, p: f64| {
        let (values, none) = match beside {
            true => (together, "no second upload ran"),
            false => (alone, none),
        };
        let Some(value) = at(values, p) else {
            return Figure::cannot_tell(none);
        };
        let each = rounds.iter().filter_map(|r| at(&r.part(beside), p));
        let (low, high) = each.fold((value, value), |(l, h), v| (l.min(v), h.max(v)));
        Figure::Is { value, low, high }
    };
    let all: Vec<f64> = alone.iter().chain(together).copied().collect();
    let known = |v: Option<f64>| v.map_or(Figure::cannot_tell(none), Figure::exactly);
    let rate = |r: &Seen| r.unique_bytes as f64 * 8.0 / r.seconds();
    let sums = rounds
        .iter()
        .fold((0, 0), |s, r| (s.0 + r.again, s.1 + r.sent));
    let times = [
        (
            "alone_ms",
            "round trip of an upload's packets, median",
            quantile(false, 0.5),
        ),
        (
            "beside_ms",
            "beside a second upload, median",
            quantile(true, 0.5),
        ),
        (
            "alone_p95_ms",
            "95 % of round trips alone are below",
            quantile(false, 0.95),
        ),
        (
            "beside_p95_ms",
            "95 % beside a second upload are below",
            quantile(true, 0.95),
        ),
        ("most_ms", "longest round trip", known(at(&all, 1.0))),
        ("base_ms", "least round trip", known(base_ms)),
    ];
    outcome.figures = times
        .map(|(key, name, figure)| Figured::time(key, name, figure))
        .into();
    outcome.figures.extend([
        Figured::rate(
            "rate_bps",
            "rate of the first round's upload",
            known(rounds.first().map(rate)),
        ),
        Figured::share(
            "again_share",
            "packets of the first upload sent again",
            match sums {
                (_, 0) => Figure::cannot_tell("it sent no data"),
                (again, sent) => Figure::exactly(again as f64 / sent as f64),
            },
        ),
    ]);
}

/// Findings on the queue, in the words of `trace`.
fn queue(rounds: &[Seen], base_ms: f64, outcome: &mut Outcome) {
    let waits: Vec<f64> = rounds
        .iter()
        .flat_map(|r| &r.first)
        .map(|t| t.1 - base_ms)
        .collect();
    let rates = rounds
        .iter()
        .map(|r| r.unique_bytes as f64 * 8.0 / r.seconds());
    let rate = rates.fold(0.0, f64::max);
    let (Some(median_ms), Some(p95_ms), Some(max_ms)) =
        (at(&waits, 0.5), at(&waits, 0.95), at(&waits, 1.0))
    else {
        return;
    };
    let found = finding(&Waiting {
        host: "the server".into(),
        way: Way::RoundTrip,
        base_ms: Some(base_ms),
        median_ms: Figure::exactly(median_ms),
        p95_ms: Figure::exactly(p95_ms),
        max_ms,
        packet_ms: if rate > 0.0 {
            PACKET_BITS / rate * 1e3
        } else {
            0.0
        },
        at_least: false,
        measured_s: rounds.iter().map(Seen::seconds).sum(),
    });
    match found {
        Some(found) => {
            let severity = match p95_ms >= 200.0 {
                true => Severity::Serious,
                false => Severity::Warning,
            };
            let means = "While anybody uploads, calls break up and pages open late.";
            outcome.alerts.push(Alert::new(
                severity,
                found.says.trim_end_matches('.'),
                means,
            ));
            outcome.evidence.extend(found.evidence);
            outcome.advice.push(
                "`tailback test` finds the queue's kind and says how to keep it short".into(),
            );
        }
        None => outcome.evidence.push(format!(
            "hardly anything waits: {} are added at the median and {} at the most",
            DELAY.print(median_ms),
            DELAY.print(max_ms)
        )),
    }
}

fn silences(rounds: &[Seen], outcome: &mut Outcome) {
    for r in rounds {
        let silence = r.silence_s();
        if silence >= SILENCE_S {
            outcome.evidence.push(format!(
                "in round {} there is no round trip for {} s on end: only packets that were sent again were on their way, or none",
                r.round.number,
                significant(silence, 2)
            ));
        }
    }
}

fn table(rounds: &[Seen]) -> Table {
    let cell = |v: Option<f64>| v.map_or("–".to_owned(), |v| significant(v, 3));
    let rows = rounds.iter().flat_map(|r| {
        let parts: &[(&str, bool)] = match r.round.second {
            None => &[("alone", false)],
            Some(_) => &[("alone", false), ("beside", true)],
        };
        parts.iter().map(move |(name, beside)| {
            let times = r.part(*beside);
            vec![
                format!("{} {name}", r.round.number),
                times.len().to_string(),
                cell(at(&times, 0.0)),
                cell(at(&times, 0.5)),
                cell(at(&times, 0.95)),
                cell(at(&times, 1.0)),
            ]
        })
    });
    Table::new(
        "Round trips of the first upload's packets, ms",
        ["round", "round trips", "least", "median", "95 %", "most"],
        rows.collect(),
    )
}

/// Least and greatest values of groups of neighbours.
fn thinned(trips: &Trips, began_ns: i64) -> Vec<(f64, Option<f64>)> {
    let each = trips.len().div_ceil(POINTS).max(1);
    let point = |t: &(i64, f64)| ((t.0 - began_ns) as f64 * 1e-9, Some(t.1));
    let parts = trips.chunks(each).flat_map(|part| {
        let by = |a: &&(i64, f64), b: &&(i64, f64)| a.1.total_cmp(&b.1);
        let (least, most) = (part.iter().min_by(by), part.iter().max_by(by));
        let mut two: Vec<&(i64, f64)> = least.into_iter().chain(most).collect();
        two.sort_by_key(|t| t.0);
        two.dedup();
        two
    });
    parts.map(point).collect()
}

fn plot(r: &Seen, base_ms: Option<f64>) -> Plot {
    let began = r.round.began_ns;
    let since = |t: i64| (t - began) as f64 * 1e-9;
    let mut series = vec![Series::new(
        "first upload",
        Draw::Dots,
        thinned(&r.first, began),
    )];
    if !r.second.is_empty() {
        series.push(Series::new(
            "second upload",
            Draw::Dots,
            thinned(&r.second, began),
        ));
    }
    if let Some(base) = base_ms {
        series.push(Series::new(
            "least",
            Draw::Thin,
            vec![(0.0, Some(base)), (since(r.round.ended_ns), Some(base))],
        ));
    }
    let what = match r.round.second {
        None => "one upload".into(),
        Some((from, to)) => format!(
            "a second upload from {:.0} to {:.0} s",
            since(from),
            since(to)
        ),
    };
    Plot::new(
        format!("Round trips, round {}: {what}", r.round.number),
        ("s since the round began", "ms"),
        series,
    )
}
