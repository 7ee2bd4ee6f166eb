//! Datagrams of every marking in both directions, then datagrams with growing hop limits of those markings that do not
//! arrive as they left.

use super::judge::{PROVEN, Traced, keeps};
use super::note::{EcnNote, HopSeen};
use super::{MARKINGS, Params};
use crate::ask::{Heard, Marking, Opening};
use crate::course::{Course, OfCourse};
use crate::host::Stopped;
use crate::spec::Setting;
use base::record::Direction;
use base::{Bytes, Duration};
use measure::control::listen::{
    self, KNOCK_LEN, Knocked, MARK_LEN, MOST_ORDERS, Place, TOKEN_LEN, Transport, Wanted, knock,
};
use measure::quote::Quote;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;

/// Greatest traffic: eleven markings in both directions over both versions of IP, on a long path that changes all of them.
const MOST: Bytes = Bytes::new(3_000_000);
/// Rounds of all markings; then rounds of those that have not arrived.
const ROUNDS: u32 = 3;
/// Attempts to send a datagram: a socket reports the refusal of an earlier one in place of sending the next.
const SENDS: u32 = 3;
/// Number of cycles in which a hop is asked again.
const MOST_CYCLES: u32 = 6;
/// Number of rounds before a marking that has not arrived counts as lost.
const MOST_ROUNDS: u32 = 8;
/// Pause between two datagrams, so that a slow link holds few of them.
const APART: Duration = Duration::from_millis(5);
/// Least wait for ICMP errors.
const QUOTED_WITHIN: Duration = Duration::from_millis(400);
/// The same between two probes to one hop: Linux sends one error a second to each host, after six at once.
const QUOTED_AGAIN: Duration = Duration::from_millis(1100);
/// Limit on the answer to a knock.
const ANSWER_WITHIN: Duration = Duration::from_millis(1500);
/// Shortest datagram; the length of each tells which one an ICMP error quotes.
const LEAST: usize = 24;
const _: () = assert!(LEAST >= MARK_LEN && LEAST > TOKEN_LEN);
/// Lengths reserved for each marking: one for each hop limit, and one without.
const HOPS: usize = 32;
/// Order of the far end's ports: the one that answers and sends, and the one that only counts.
const ANSWERS: usize = 0;
const COUNTS: usize = 1;
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];

/// # Errors
/// The budget is too small.
pub(super) fn steps(params: Params, setting: &Setting) -> Result<OfCourse, Stopped> {
    setting.afford("ecn", MOST)?;
    let limit = params.hops;
    Ok(OfCourse::new(
        Duration::from_secs(4),
        move |course| async move {
            for (version, place) in [(4, Place::V4), (6, Place::V6)] {
                match Run::begin(&course, version, place, limit).await {
                    Ok(run) => run.all().await,
                    Err(why) => {
                        let note = EcnNote::Untried { version, why };
                        course.note(&note, "server").await;
                    }
                }
            }
            Ok(())
        },
    ))
}

/// Datagram of a marking, perhaps with a hop limit.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Probe {
    /// Index of the marking.
    marking: usize,
    /// Hop limit; zero without one.
    hop: u8,
}

impl Probe {
    fn len(self) -> usize {
        LEAST + self.marking * HOPS + usize::from(self.hop)
    }

    fn of_len(len: usize) -> Option<Probe> {
        let number = len.checked_sub(LEAST)?;
        let marking = number / HOPS;
        (marking < MARKINGS.len()).then_some(Probe {
            marking,
            hop: (number % HOPS) as u8,
        })
    }

    fn tos(self) -> u8 {
        MARKINGS[self.marking].tos
    }
}

/// Arrival of a probe with its TOS byte.
type Came = (Probe, Option<u8>);

/// One version of IP.
struct Run {
    course: Course,
    version: u8,
    /// Farthest hop that is asked.
    limit: u8,
    token: [u8; TOKEN_LEN],
    /// Addresses of the far end's ports.
    at: [SocketAddr; 2],
    knocked: Knocked,
    /// Time in which a datagram arrives and news of it returns.
    patience: Duration,
    /// Orders that the far end still takes.
    orders: Cell<u32>,
    /// Arrivals at the far end that have been read.
    read: Cell<usize>,
    /// Contents of datagrams that the far end was told to send.
    ordered: RefCell<BTreeMap<Vec<u8>, Probe>>,
}

impl Run {
    /// Opens ports and sockets; gives the reason if this version of IP cannot be tried.
    async fn begin(course: &Course, version: u8, place: Place, limit: u8) -> Result<Run, String> {
        course.stage(&format!("markings over IPv{version}")).await;
        let wanted = [listen::Answer::Mark, listen::Answer::Nothing].map(|answer| Wanted {
            answer,
            ..Wanted::new(Transport::Udp, place, 0)
        });
        let open = Duration::from_secs(600);
        let ports = course.listen(wanted.to_vec(), open).await;
        let ports = ports.ok_or("the server opens no ports")?;
        let port = |i: usize| {
            let none = || Err("the server did not name this port".to_owned());
            ports.at.get(i).cloned().unwrap_or_else(none)
        };
        let at = [port(ANSWERS)?, port(COUNTS)?];
        for (number, to) in at.iter().enumerate() {
            let opened = course.open(Opening::towards(number as u32, *to)).await;
            opened.map_err(|e| format!("this host cannot send there: {}", e.text))?;
        }
        let (knocked, took) = answer(course, at[ANSWERS], &ports.token)
            .await
            .ok_or("no answer to datagrams: UDP may be filtered")?;
        Ok(Run {
            course: course.clone(),
            version,
            limit,
            token: ports.token,
            at,
            knocked,
            patience: (took * 2).max(Duration::from_millis(200)),
            orders: Cell::new(MOST_ORDERS - 64),
            read: Cell::new(0),
            ordered: RefCell::default(),
        })
    }

    async fn all(&self) {
        for direction in DIRECTIONS {
            let wrong = self.sent(direction).await;
            if !wrong.is_empty() {
                self.traced(direction, &wrong).await;
            }
        }
    }

    async fn note(&self, note: &EcnNote) {
        self.course.note(note, "server").await;
    }

    /// Sends a probe. One that a host cannot send does not arrive.
    async fn send(&self, direction: Direction, probe: Probe) {
        let marking = Marking {
            tos: probe.tos(),
            hops: (probe.hop > 0).then_some(probe.hop),
        };
        if direction == Direction::Up {
            let bytes = knock_of(&self.token, probe.len());
            for _ in 0..SENDS {
                let (course, to) = (&self.course, self.at[COUNTS]);
                let sending = course.send_marked(COUNTS as u32, to, bytes.clone(), marking);
                if sending.await.is_ok() {
                    break;
                }
            }
        } else if let Some(left) = self.orders.get().checked_sub(1) {
            self.orders.set(left);
            let order = self
                .course
                .order_marked(ANSWERS, self.knocked, probe.len(), marking);
            if let Some(bytes) = order.await {
                self.ordered.borrow_mut().insert(bytes, probe);
            }
        }
        self.course.wait(APART).await;
    }

    /// Probes that arrive within this time, and since the last call.
    async fn gather(&self, direction: Direction, within: Duration) -> Vec<Came> {
        if direction == Direction::Up {
            self.course.wait(within).await;
            let all = self.course.arrivals().await;
            let new = &all[self.read.get().min(all.len())..];
            self.read.set(all.len());
            let ours = new
                .iter()
                .filter(|a| a.listener == COUNTS as u32 && !a.bytes.is_empty());
            return ours
                .filter_map(|a| Some((Probe::of_len(a.len as usize)?, a.tos)))
                .collect();
        }
        let until = self.course.now() + within;
        let mut came = Vec::new();
        loop {
            let left = until.saturating_since(self.course.now());
            let heard = self.course.heard(ANSWERS as u32, (left, true)).await;
            let Ok(Heard { bytes, tos, .. }) = heard else {
                return came;
            };
            let ordered = self.ordered.borrow().get(&bytes).copied();
            came.extend(ordered.map(|probe| (probe, tos)));
        }
    }

    /// Sends every marking from end to end; gives those that do not arrive as they left.
    async fn sent(&self, direction: Direction) -> Vec<usize> {
        self.course
            .stage(&format!("{} over IPv{}", word(direction), self.version))
            .await;
        let mut sent = [0u32; MARKINGS.len()];
        let mut arrived: Vec<BTreeMap<Option<u8>, u32>> = vec![BTreeMap::new(); MARKINGS.len()];
        for round in 0..MOST_ROUNDS {
            let missing = |i: usize| round < ROUNDS || arrived[i].is_empty();
            let mut now: Vec<usize> = (0..MARKINGS.len()).filter(|i| missing(*i)).collect();
            if now.is_empty() {
                break;
            }
            if now[0] != 0 {
                now.insert(0, 0);
            }
            for marking in now {
                sent[marking] += 1;
                self.send(direction, Probe { marking, hop: 0 }).await;
            }
            for (probe, tos) in self.gather(direction, self.patience).await {
                *arrived[probe.marking].entry(tos).or_default() += 1;
            }
        }
        let mut wrong = Vec::new();
        for (i, marking) in MARKINGS.iter().enumerate() {
            let mut seen = arrived[i].keys().flatten();
            let kept = seen.any(|tos| keeps(marking.tos, *tos));
            let gone = i == 0 && arrived[i].is_empty();
            if !kept && !gone {
                wrong.push(i);
            }
            self.note(&EcnNote::Sent {
                version: self.version,
                direction,
                tos: marking.tos,
                sent: sent[i],
                arrived: arrived[i].clone().into_iter().collect(),
            })
            .await;
        }
        // If unmarked datagrams do not arrive, the others tell nothing.
        if arrived[0].is_empty() {
            wrong.clear();
        }
        wrong
    }

    /// Finds the hops at which these markings are changed or lost.
    async fn traced(&self, direction: Direction, wrong: &[usize]) {
        let stage = format!("hops {} over IPv{}", word(direction), self.version);
        self.course.stage(&stage).await;
        // The first question begins to listen.
        if let Err(why) = self.course.quotes(direction).await {
            let (version, why) = (self.version, hopless(direction, &why));
            let note = EcnNote::Hopless {
                version,
                direction,
                why,
            };
            return self.note(&note).await;
        }
        let mut trace = Trace {
            run: self,
            direction,
            traced: vec![Traced::default(); MARKINGS.len()],
        };
        trace.unmarked().await;
        let marked: Vec<usize> = wrong.iter().copied().filter(|i| *i > 0).collect();
        trace.sweep(&marked).await;
        trace.repeat(&marked).await;
        for marking in std::iter::once(&0).chain(&marked) {
            let traced = &trace.traced[*marking];
            self.note(&EcnNote::Traced {
                version: self.version,
                direction,
                tos: MARKINGS[*marking].tos,
                end: trace.traced[0].end,
                short: traced.short,
                hops: traced.hops.values().cloned().collect(),
            })
            .await;
        }
    }
}

/// Probes with hop limits in one direction.
struct Trace<'a> {
    run: &'a Run,
    direction: Direction,
    /// By the index of the marking.
    traced: Vec<Traced>,
}

impl Trace<'_> {
    async fn send(&mut self, marking: usize, hop: u8) {
        self.seen(marking, hop).sent += 1;
        self.run.send(self.direction, Probe { marking, hop }).await;
    }

    fn seen(&mut self, marking: usize, hop: u8) -> &mut HopSeen {
        let seen = self.traced[marking].hops.entry(hop).or_default();
        seen.hop = hop;
        seen
    }

    /// Waits, and takes in arrivals and quotes. Gives the probes that were quoted.
    async fn gather(&mut self, within: Duration) -> Vec<Probe> {
        let came = self.run.gather(self.direction, within).await;
        for (probe, _) in came {
            if probe.marking == 0 && probe.hop > 0 {
                let end = self.traced[0].end.get_or_insert(probe.hop);
                *end = probe.hop.min(*end);
            }
        }
        let quotes = self.run.course.quotes(self.direction).await;
        let mut quoted = Vec::new();
        for quote in quotes.unwrap_or_default() {
            match self.probe(&quote) {
                Some(probe) => {
                    let seen = self.seen(probe.marking, probe.hop);
                    seen.quotes.push((quote.from, quote.tos));
                    quoted.push(probe);
                }
                None if is_short(&quote) => {
                    self.traced.iter_mut().for_each(|t| t.short += 1);
                }
                None => {}
            }
        }
        quoted
    }

    /// Probe that is quoted.
    fn probe(&self, quote: &Quote) -> Option<Probe> {
        let udp = quote.udp().filter(|_| quote.exceeded)?;
        let ours = match self.direction {
            Direction::Up => udp.to == self.run.at[COUNTS].port(),
            Direction::Down => udp.from == self.run.at[ANSWERS].port(),
        };
        Probe::of_len(udp.payload).filter(|p| ours && p.hop > 0)
    }

    /// Asks all hops with unmarked probes, those that do not answer three times.
    async fn unmarked(&mut self) {
        for _ in 0..ROUNDS {
            let beyond = self.traced[0].end.unwrap_or(self.run.limit + 1);
            let silent = |hop: &u8| {
                let seen = self.traced[0].hops.get(hop);
                seen.is_none_or(|h| h.quotes.is_empty())
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
        self.run.patience.max(QUOTED_WITHIN)
    }

    /// The same for those that do.
    fn later(&self) -> Duration {
        self.run.patience.max(QUOTED_AGAIN)
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
        let tos = MARKINGS[marking].tos;
        let (kept, changed) = traced.changed(tos);
        let between = unmarked.answered().filter(|hop| {
            let inside = *hop > kept && changed.is_none_or(|by| *hop < by);
            let silent = traced.hops.get(hop).is_none_or(|h| h.quotes.is_empty());
            inside && silent && (*hop <= after || Some(*hop) == next)
        });
        between.filter(|hop| !asked(hop)).collect()
    }
}

/// True for a quote of UDP that ends before the length of the datagram.
fn is_short(quote: &Quote) -> bool {
    quote.exceeded && quote.udp().is_none() && quote.protocol == measure::quote::UDP
}

fn word(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "up",
        Direction::Down => "down",
    }
}

fn hopless(direction: Direction, why: &str) -> String {
    match direction {
        Direction::Up => why.to_owned(),
        Direction::Down => format!("at the server, {why}"),
    }
}

/// Token, padded.
fn knock_of(token: &[u8; TOKEN_LEN], len: usize) -> Vec<u8> {
    let mut bytes = token.to_vec();
    bytes.resize(len, b'.');
    bytes
}

/// Knocks until the server answers; gives the answer and the round trip.
async fn answer(
    course: &Course,
    at: SocketAddr,
    token: &[u8; TOKEN_LEN],
) -> Option<(Knocked, Duration)> {
    for _ in 0..MOST_ROUNDS {
        let began = course.now();
        let sent = course.send(ANSWERS as u32, at, knock(token, KNOCK_LEN));
        let _ = sent.await;
        let is_it = |bytes: &[u8], _| Knocked::decode(bytes, token);
        let heard = course.hear(ANSWERS as u32, (ANSWER_WITHIN, false), is_it);
        if let Ok(knocked) = heard.await {
            return Some((knocked, course.now().saturating_since(began)));
        }
    }
    None
}
