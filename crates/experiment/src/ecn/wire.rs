//! Probes of every marking from end to end, then with growing hop limits for those that do not arrive as they left: the same
//! for each transport.

use super::judge::{PROVEN, Traced, keeps};
use super::note::{EcnNote, HopSeen, Part};
use crate::course::Course;
use base::Duration;
use base::record::Direction;
use measure::quote::Quote;
use std::collections::{BTreeMap, BTreeSet};

/// Rounds of all markings; then rounds of those that have not arrived.
const ROUNDS: u32 = 3;
/// Number of cycles in which a hop is asked again.
const MOST_CYCLES: u32 = 6;
/// Number of rounds before a marking that has not arrived counts as lost.
pub(super) const MOST_ROUNDS: u32 = 8;
/// Least wait for ICMP errors.
const QUOTED_WITHIN: Duration = Duration::from_millis(400);
/// The same between two probes to one hop: Linux sends one error a second to each host, after six at once.
const QUOTED_AGAIN: Duration = Duration::from_millis(1100);
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// Packet of a marking, perhaps with a hop limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Probe {
    /// Index of the marking.
    pub marking: usize,
    /// Hop limit; zero without one.
    pub hop: u8,
}

/// Arrival of a probe with its TOS byte, or the value of another part.
pub(super) type Came = (Probe, Option<u8>);

/// Content of a quote.
pub(super) enum Quoted {
    /// A probe, with its value if the quote reaches that far.
    Probe(Probe, Option<u8>),
    /// Too short to tell which packet it is of.
    Short,
    /// Another packet.
    Foreign,
}

/// Both ends of a version of IP and a transport.
pub(super) trait Wire {
    fn course(&self) -> &Course;
    /// 4 or 6.
    fn version(&self) -> u8;
    /// Farthest hop that is asked.
    fn limit(&self) -> u8;
    /// Time in which a packet arrives and news of it returns.
    fn patience(&self) -> Duration;
    fn part(&self) -> Part;
    /// Values of the markings; the first is of unmarked packets.
    fn values(&self, direction: Direction) -> Vec<u8>;
    /// Sends a probe; false if no more can be sent. One that a host cannot send does not arrive.
    async fn send(&self, direction: Direction, probe: Probe) -> bool;
    /// Probes that arrive within this time, and since the last call.
    async fn gather(&self, direction: Direction, within: Duration) -> Vec<Came>;
    fn quoted(&self, direction: Direction, quote: &Quote) -> Quoted;
}

/// Tries all markings in both directions.
pub(super) async fn all(wire: &impl Wire) {
    for direction in DIRECTIONS {
        one(wire, direction).await;
    }
}

/// Tries all markings in a direction.
pub(super) async fn one(wire: &impl Wire, direction: Direction) {
    let wrong = sent(wire, direction).await;
    if !wrong.is_empty() {
        traced(wire, direction, &wrong).await;
    }
}

async fn note(wire: &impl Wire, note: &EcnNote) {
    wire.course().note(note, "server").await;
}

/// Name of a stage.
fn stage(wire: &impl Wire, what: &str, direction: Direction) -> String {
    let transport = match wire.part() {
        Part::Udp => "",
        _ => "TCP ",
    };
    let word = match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    };
    format!("{transport}{what}{word} over IPv{}", wire.version())
}

/// Sends every marking from end to end; gives those that do not arrive as they left.
async fn sent(wire: &impl Wire, direction: Direction) -> Vec<usize> {
    wire.course().stage(&stage(wire, "", direction)).await;
    let values = wire.values(direction);
    let mut sent = vec![0u32; values.len()];
    let mut arrived: Vec<BTreeMap<Option<u8>, u32>> = vec![BTreeMap::new(); values.len()];
    for round in 0..MOST_ROUNDS {
        let missing = |i: usize| round < ROUNDS || arrived[i].is_empty();
        let mut now: Vec<usize> = (0..values.len()).filter(|i| missing(*i)).collect();
        if now.is_empty() {
            break;
        }
        if now[0] != 0 {
            now.insert(0, 0);
        }
        for marking in now {
            let left = wire.send(direction, Probe { marking, hop: 0 }).await;
            sent[marking] += u32::from(left);
        }
        for (probe, tos) in wire.gather(direction, wire.patience()).await {
            *arrived[probe.marking].entry(tos).or_default() += 1;
        }
    }
    let mut wrong = Vec::new();
    for (i, value) in values.iter().enumerate() {
        let mut seen = arrived[i].keys().flatten();
        let kept = seen.any(|tos| keeps(wire.part(), *value, *tos));
        let gone = i == 0 && arrived[i].is_empty();
        if !kept && !gone {
            wrong.push(i);
        }
        let one = EcnNote::Sent {
            version: wire.version(),
            direction,
            part: wire.part(),
            tos: *value,
            sent: sent[i],
            arrived: arrived[i].clone().into_iter().collect(),
        };
        note(wire, &one).await;
    }
    // If unmarked datagrams do not arrive, the others tell nothing.
    if arrived[0].is_empty() {
        wrong.clear();
    }
    wrong
}

/// Finds the hops at which these markings are changed or lost.
async fn traced(wire: &impl Wire, direction: Direction, wrong: &[usize]) {
    wire.course().stage(&stage(wire, "hops ", direction)).await;
    // The first question begins to listen.
    if let Err(why) = wire.course().quotes(direction).await {
        let hopless = EcnNote::Hopless {
            version: wire.version(),
            direction,
            part: wire.part(),
            why: hopless(direction, &why),
        };
        return note(wire, &hopless).await;
    }
    let values = wire.values(direction);
    let none = Traced {
        part: wire.part(),
        ..Traced::default()
    };
    let mut trace = Trace {
        wire,
        direction,
        traced: vec![none; values.len()],
        values,
    };
    trace.unmarked().await;
    let marked: Vec<usize> = wrong.iter().copied().filter(|i| *i > 0).collect();
    trace.sweep(&marked).await;
    trace.repeat(&marked).await;
    for marking in std::iter::once(&0).chain(&marked) {
        let traced = &trace.traced[*marking];
        let one = EcnNote::Traced {
            version: wire.version(),
            direction,
            part: wire.part(),
            tos: trace.values[*marking],
            end: trace.traced[0].end,
            short: traced.short,
            hops: traced.hops.values().cloned().collect(),
        };
        note(wire, &one).await;
    }
}

/// Probes with hop limits in one direction.
struct Trace<'a, W> {
    wire: &'a W,
    direction: Direction,
    /// Hops of each marking, by its index.
    traced: Vec<Traced>,
    values: Vec<u8>,
}

impl<W: Wire> Trace<'_, W> {
    async fn send(&mut self, marking: usize, hop: u8) {
        let left = self.wire.send(self.direction, Probe { marking, hop }).await;
        self.seen(marking, hop).sent += u32::from(left);
    }

    fn seen(&mut self, marking: usize, hop: u8) -> &mut HopSeen {
        let seen = self.traced[marking].hops.entry(hop).or_default();
        seen.hop = hop;
        seen
    }

    /// Waits, and takes in arrivals and quotes. Gives the probes that were quoted.
    async fn gather(&mut self, within: Duration) -> Vec<Probe> {
        let came = self.wire.gather(self.direction, within).await;
        for (probe, _) in came {
            if probe.marking == 0 && probe.hop > 0 {
                let end = self.traced[0].end.get_or_insert(probe.hop);
                *end = probe.hop.min(*end);
            }
        }
        let quotes = self.wire.course().quotes(self.direction).await;
        let mut quoted = Vec::new();
        for quote in quotes.unwrap_or_default() {
            match self.wire.quoted(self.direction, &quote) {
                Quoted::Probe(probe, value) if quote.exceeded && probe.hop > 0 => {
                    let seen = self.seen(probe.marking, probe.hop);
                    match value {
                        Some(value) => seen.quotes.push((quote.from, value)),
                        None => seen.vague.push(quote.from),
                    }
                    quoted.push(probe);
                }
                Quoted::Short if quote.exceeded => {
                    self.traced.iter_mut().for_each(|t| t.short += 1);
                }
                _ => {}
            }
        }
        quoted
    }

    /// Asks all hops with unmarked probes, those that do not answer three times.
    async fn unmarked(&mut self) {
        for _ in 0..ROUNDS {
            let beyond = self.traced[0].end.unwrap_or(self.wire.limit() + 1);
            let silent = |hop: &u8| {
                let seen = self.traced[0].hops.get(hop);
                seen.is_none_or(|h| !h.answers())
            };
            let hops: Vec<u8> = (1..beyond).filter(silent).collect();
            if hops.is_empty() {
                break;
            }
            for hop in hops {
                self.send(0, hop).await;
            }
            self.gather(self.soon()).await;
        }
        let end = self.traced[0].end.unwrap_or(u8::MAX);
        self.traced[0].hops.retain(|hop, _| *hop < end);
    }

    /// Asks each hop that answers once with each of these markings.
    async fn sweep(&mut self, wrong: &[usize]) {
        let hops: Vec<u8> = self.traced[0].answered().collect();
        for marking in wrong {
            for hop in &hops {
                self.send(*marking, *hop).await;
            }
        }
        self.gather(self.soon()).await;
    }

    /// Time in which routers answer that do not limit their errors.
    fn soon(&self) -> Duration {
        self.wire.patience().max(QUOTED_WITHIN)
    }

    /// The same for those that do.
    fn later(&self) -> Duration {
        self.wire.patience().max(QUOTED_AGAIN)
    }

    /// Asks hops again that may have lost a probe or limit their errors. A try proves something if the hop answers two
    /// unmarked probes before it, as far apart, and one after it: then no limit has swallowed the error.
    async fn repeat(&mut self, marked: &[usize]) {
        for _ in 0..MOST_CYCLES {
            let open = marked.iter().map(|marking| (*marking, self.open(*marking)));
            let open: Vec<(usize, Vec<u8>)> = open.filter(|(_, hops)| !hops.is_empty()).collect();
            let all: BTreeSet<u8> = open.iter().flat_map(|(_, hops)| hops.clone()).collect();
            if all.is_empty() {
                return;
            }
            let mut first = self.control(&all).await;
            for (marking, hops) in open {
                let second = self.control(&all).await;
                for hop in &hops {
                    self.send(marking, *hop).await;
                }
                let quoted = self.gather(self.later()).await;
                let third = self.control(&all).await;
                for hop in hops {
                    if quoted.contains(&Probe { marking, hop }) {
                        continue;
                    }
                    let proves = [&first, &second, &third].iter().all(|c| c.contains(&hop));
                    let seen = self.seen(marking, hop);
                    seen.tries += 1;
                    seen.proven += u32::from(proves);
                }
                first = third;
            }
        }
    }

    /// Sends unmarked probes to these hops; gives those that answer.
    async fn control(&mut self, hops: &BTreeSet<u8>) -> BTreeSet<u8> {
        for hop in hops {
            self.send(0, *hop).await;
        }
        let quoted = self.gather(self.later()).await;
        let unmarked = quoted.iter().filter(|p| p.marking == 0);
        unmarked.map(|p| p.hop).collect()
    }

    /// Hops whose answer would narrow the place down, and which have not been asked often enough.
    fn open(&self, marking: usize) -> Vec<u8> {
        let (traced, unmarked) = (&self.traced[marking], &self.traced[0]);
        let asked = |hop: &u8| {
            let seen = traced.hops.get(hop);
            seen.is_some_and(|h| h.proven >= PROVEN || h.tries >= MOST_CYCLES)
        };
        let (after, next) = traced.reached(unmarked);
        let tos = self.values[marking];
        let (kept, changed) = traced.changed(tos);
        let between = unmarked.answered().filter(|hop| {
            let inside = *hop > kept && changed.is_none_or(|by| *hop < by);
            let silent = traced.hops.get(hop).is_none_or(|h| !h.answers());
            inside && silent && (*hop <= after || Some(*hop) == next)
        });
        between.filter(|hop| !asked(hop)).collect()
    }
}

fn hopless(direction: Direction, why: &str) -> String {
    match direction {
        Direction::Up => why.to_owned(),
        Direction::Down => format!("at the server, {why}"),
    }
}
