//! Flows of datagrams between this host and ports of the server, each with its marking and its congestion controller.
//!
//! All flows use one socket here and a port each there, so that a queue which tells flows apart tells them apart. Up, the
//! server echoes each datagram: the echo has its number and its TOS byte at arrival. Down, the controller is here as well:
//! each datagram is requested by 31 bytes with its number and its TOS byte, and the server sends it at once. Waits are round
//! trips above the smallest one of the run: this host's clock alone measures them, and answers of 28 bytes, or requests,
//! hardly queue in the other direction. The server's clock tells if requests did.

pub mod seen;
mod sender;

pub use sender::Sender;

use crate::answer::Outcome;
use crate::ask::{Heard, Marking, Opening};
use crate::course::Course;
use base::record::Direction;
use base::spec::choices;
use base::{Bytes, Duration, Time};
use congestion::ControllerSpec;
use measure::control::listen::{
    Answer, COOKIE_LEN, Echo, Knocked, Place, Pull, Pulled, TOKEN_LEN, Transport, Wanted, echoed,
    knock,
};
use seen::Codepoint;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// UDP payload of all datagrams, as most QUIC stacks start with.
pub const PAYLOAD: u64 = 1200;
/// Bytes of the IP packet of a datagram over IPv4.
pub const PACKET: u64 = PAYLOAD + 28;
const SOCKET: u32 = 0;
/// Time for which the ports stay open at most, beside the phases.
const OPEN: Duration = Duration::from_secs(60);
/// Knocks at a port that sends, and the wait for each answer.
const KNOCKS: (u32, Duration) = (5, Duration::from_millis(600));
/// Interval of single datagrams beside other flows.
const SPARSE: Duration = Duration::from_millis(20);
/// Time and interval of single datagrams of each marking on the idle link.
const FIRST: (Duration, Duration) = (Duration::from_millis(1200), Duration::from_millis(100));
/// Longest silence in the loop, so that a person sees progress and can stop it.
const TICK: Duration = Duration::from_millis(100);
/// Delay of a datagram at this host from which the host counts as too slow.
const LATE: Duration = Duration::from_millis(2);
/// Datagrams in a row that this host refuses to send, until the run ends.
const REFUSED: u32 = 50;

choices! {
    /// Directions of the flows, one after the other.
    pub enum Directions { Both = "both", Up = "up", Down = "down" }
}

impl Directions {
    /// Directions in their order.
    pub fn each(self) -> &'static [Direction] {
        match self {
            Directions::Both => &[Direction::Up, Direction::Down],
            Directions::Up => &[Direction::Up],
            Directions::Down => &[Direction::Down],
        }
    }
}

/// Name of a direction at the start of a sentence.
pub(crate) fn at(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "Up",
        Direction::Down => "Down",
    }
}

/// Answer of an experiment that tries each direction: `of` gives that of a direction, the reason why there is none, or null
/// if it was not tried.
pub(crate) fn answer(of: impl Fn(Direction) -> Option<Result<Outcome, String>>) -> Outcome {
    let all: Vec<(Direction, Result<Outcome, String>)> = [Direction::Up, Direction::Down]
        .into_iter()
        .filter_map(|d| Some((d, of(d)?)))
        .collect();
    let known = all.iter().any(|a| a.1.is_ok());
    if !known {
        let mut reasons: Vec<String> = all.into_iter().filter_map(|a| a.1.err()).collect();
        reasons.dedup();
        return Outcome::cannot_tell(match reasons.is_empty() {
            true => "the run ended before datagrams of each codepoint came back".into(),
            false => reasons.join("; "),
        });
    }
    let mut whole = Outcome::default();
    let mut says = Vec::new();
    for (direction, one) in all {
        match one {
            Err(why) => says.push(format!("Cannot tell {direction}: {why}.")),
            Ok(one) => {
                says.push(one.says);
                whole.figures.extend(one.figures);
                whole.alerts.extend(one.alerts);
                whole.evidence.extend(one.evidence);
                whole.doubts.extend(one.doubts);
                whole.tables.extend(one.tables);
                whole.plots.extend(one.plots);
            }
        }
    }
    whole.alerts.sort_by_key(|alert| alert.severity);
    whole.says = says.join(" ");
    whole
}

/// Direction of notes that name none: older releases filled the uplink alone.
pub(crate) fn up() -> Direction {
    Direction::Up
}

/// Pace of a flow.
#[derive(Clone, Debug)]
pub enum Pace {
    /// A congestion controller.
    Controlled(ControllerSpec),
    /// One datagram at this interval.
    Every(Duration),
}

/// Flow to send.
#[derive(Clone, Debug)]
pub struct Flow {
    /// Name in notes.
    pub name: &'static str,
    /// TOS or traffic-class byte.
    pub tos: u8,
    /// Pace of the datagrams.
    pub pace: Pace,
}

impl Flow {
    /// Flow of a controller.
    ///
    /// # Panics
    /// If the registry has no such controller.
    pub fn controlled(name: &'static str, tos: u8, controller: &str) -> Flow {
        let controller = controller.parse().expect("a controller of the registry");
        Flow {
            name,
            tos,
            pace: Pace::Controlled(controller),
        }
    }

    /// Single datagrams beside other flows.
    pub fn sparse(name: &'static str, tos: u8) -> Flow {
        Flow {
            name,
            tos,
            pace: Pace::Every(SPARSE),
        }
    }
}

/// Datagram that arrived, by its echo or, down, by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time at which it, or its request, was sent.
    pub sent: Time,
    /// Round trip.
    pub rtt: Duration,
    /// True if it arrived with CE and did not leave so.
    pub ce: bool,
    /// Time from the request's departure to its arrival at the server, by two clocks, ns; zero up.
    pub requested_ns: i64,
}

/// Outcome of one flow in a phase.
#[derive(Clone, Debug, Default)]
pub struct Passed {
    /// Name of the flow.
    pub name: String,
    /// TOS byte at departure.
    pub tos: u8,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams, or requests, that arrived at the server, as it counts them.
    pub arrived: u32,
    /// Datagrams that came back, in the order of their echoes.
    pub samples: Vec<Sample>,
    /// Send times of those that are lost.
    pub lost: Vec<Time>,
    /// TOS byte at arrival, with counts; null if the receiver's kernel does not tell.
    pub tos_seen: BTreeMap<Option<u8>, u32>,
    /// Datagrams that left this host later than planned by more than 2 ms.
    pub late: u32,
}

/// Outcome of a phase.
#[derive(Clone, Debug, Default)]
pub struct Ran {
    /// Begin of the phase.
    pub began: Time,
    /// Length of the phase.
    pub lasted: Duration,
    /// Its flows.
    pub flows: Vec<Passed>,
}

/// Limits of a phase.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Length of the phase.
    pub lasts: Duration,
    /// Upper limit on its traffic.
    pub most: Bytes,
}

enum Sending {
    Controlled(Box<Sender>),
    Every {
        next_at: Time,
        gap: Duration,
        out: BTreeMap<u32, Time>,
    },
}

struct Running {
    sending: Sending,
    port: usize,
    passed: Passed,
    /// Greatest count that the server has told, before the phase and by now.
    counted: (u32, u32),
    next: u32,
}

/// Message of the server about a datagram.
struct Message {
    number: u32,
    count: u32,
    /// TOS byte of the datagram at arrival, if the receiver's kernel tells it.
    tos: Option<u8>,
    /// Time at which the server received the request, by its clock, ns; null up.
    at_ns: Option<u64>,
}

/// Ports of the server and a socket of ours.
pub struct Echoes {
    course: Course,
    direction: Direction,
    token: [u8; TOKEN_LEN],
    /// Cookie from each port that sends.
    cookies: Vec<[u8; COOKIE_LEN]>,
    at: Vec<SocketAddr>,
    /// First free number, and greatest count, of each port.
    ports: Vec<(u32, u32)>,
    /// Smallest round trip so far.
    pub base: Option<Duration>,
}

impl Echoes {
    /// Opens so many ports for flows of a direction, whose phases last so long together; gives the reason if that fails.
    pub async fn open(
        course: &Course,
        (direction, count): (Direction, usize),
        phases: Duration,
    ) -> Result<Echoes, String> {
        let wanted = Wanted {
            answer: match direction {
                Direction::Up => Answer::Echo,
                Direction::Down => Answer::Pull,
            },
            ..Wanted::new(Transport::Udp, Place::Here, 0)
        };
        let ports = course.listen(vec![wanted; count], phases + OPEN).await;
        let ports = ports.ok_or("the server opens no ports")?;
        let at: Vec<SocketAddr> = ports.at.into_iter().collect::<Result<_, _>>()?;
        if at.len() < count {
            return Err("the server did not name all ports".into());
        }
        let opened = course.open(Opening::free(SOCKET)).await;
        opened.map_err(|e| format!("this host has no socket for it: {}", e.text))?;
        let mut echoes = Echoes {
            course: course.clone(),
            direction,
            token: ports.token,
            cookies: Vec::new(),
            ports: vec![(0, 0); at.len()],
            at,
            base: None,
        };
        if direction == Direction::Down {
            echoes.prove().await?;
        }
        Ok(echoes)
    }

    /// Address of the first port.
    pub fn to(&self) -> SocketAddr {
        self.at[0]
    }

    /// Proves to each port that this socket receives what it sends there.
    async fn prove(&mut self) -> Result<(), String> {
        for at in self.at.clone() {
            let mut cookie = None;
            for _ in 0..KNOCKS.0 {
                let says = knock(&self.token, 0);
                // What this host does not send is lost, as on the way.
                let _ = self.course.send(SOCKET, at, says).await;
                let is_it =
                    |bytes: &[u8], from| Knocked::decode(bytes, &self.token).filter(|_| from == at);
                let within = (KNOCKS.1, false);
                if let Ok(knocked) = self.course.hear(SOCKET, within, is_it).await {
                    cookie = Some(knocked.cookie);
                    break;
                }
            }
            let none = "no datagram came back: UDP may be filtered";
            self.cookies.push(cookie.ok_or(none)?);
        }
        Ok(())
    }

    /// Starts one of `count` flows. Those at an interval start in turn, so that they do not queue behind each other.
    fn start(&self, (port, count): (usize, usize), flow: &Flow) -> Running {
        let (first, counted) = self.ports[port];
        let now = self.course.now();
        let sending = match &flow.pace {
            Pace::Controlled(spec) => {
                let rtt = self.base.unwrap_or(TICK);
                Sending::Controlled(Box::new(Sender::new(
                    spec,
                    Bytes::new(PAYLOAD),
                    first,
                    now,
                    rtt,
                )))
            }
            Pace::Every(gap) => Sending::Every {
                next_at: now + *gap * port as u64 / count.max(1) as u64,
                gap: *gap,
                out: BTreeMap::new(),
            },
        };
        Running {
            sending,
            port,
            passed: Passed {
                name: flow.name.into(),
                tos: flow.tos,
                ..Passed::default()
            },
            counted: (counted, counted),
            next: first,
        }
    }

    /// Sends single datagrams of each marking over the idle link.
    ///
    /// # Errors
    /// This host refuses to send, or nothing comes back.
    pub async fn markings<const N: usize>(
        &mut self,
        tos: [u8; N],
    ) -> Result<Vec<Codepoint>, String> {
        let flows = tos.map(|tos| Flow {
            pace: Pace::Every(FIRST.1),
            ..Flow::sparse("single", tos)
        });
        let limits = Limits {
            lasts: FIRST.0,
            most: Bytes::new(1_000_000),
        };
        let ran = self.run("markings", &flows, limits).await?;
        if self.base.is_none() {
            return Err("no datagram came back: UDP may be filtered".into());
        }
        let all = ran.flows.into_iter().map(|f| Codepoint {
            tos: f.tos,
            sent: f.sent,
            arrived: f.tos_seen.into_iter().collect(),
        });
        Ok(all.collect())
    }

    /// Sends these flows, each to the port of its index, for a time; then waits until nothing of them is in flight.
    ///
    /// # Errors
    /// This host refuses to send.
    pub async fn run(
        &mut self,
        stage: &str,
        flows: &[Flow],
        limits: Limits,
    ) -> Result<Ran, String> {
        self.course.stage(stage).await;
        let began = self.course.now();
        let spent = self.course.tally();
        let start = |(i, flow)| self.start((i, flows.len()), flow);
        let mut running: Vec<Running> = flows.iter().enumerate().map(start).collect();
        let (mut shown, mut refused) = (began, 0);
        let ends = began + limits.lasts;
        loop {
            let now = self.course.now();
            if now >= ends || self.course.tally() - spent >= limits.most {
                break;
            }
            if now.saturating_since(shown) >= TICK {
                self.course.stage(stage).await;
                shown = now;
            }
            running.iter_mut().for_each(|r| r.time_out(now));
            let due = running
                .iter()
                .enumerate()
                .filter_map(|(i, r)| Some((r.due()?, i)))
                .min();
            let wakes = running.iter().filter_map(Running::times_out);
            let until = wakes
                .chain(due.map(|d| d.0))
                .fold(ends.min(now + TICK), Time::min);
            self.hear(&mut running, until.saturating_since(now)).await;
            if let Some((at, i)) = due.filter(|d| d.0 <= self.course.now()) {
                refused = if self.send(&mut running[i], at).await {
                    0
                } else {
                    refused + 1
                };
                if refused > REFUSED {
                    return Err("this host does not send its datagrams".into());
                }
            }
        }
        let lasted = self.course.now().saturating_since(began);
        self.settle(&mut running).await;
        for r in &running {
            self.ports[r.port] = (r.next, r.counted.1);
        }
        let now = self.course.now();
        Ok(Ran {
            began,
            lasted,
            flows: running.into_iter().map(|r| r.finish(now)).collect(),
        })
    }

    /// Sends the next datagram of a flow; false if this host refuses it.
    async fn send(&mut self, running: &mut Running, due: Time) -> bool {
        let (number, tos) = (running.next, running.passed.tos);
        let (bytes, tos) = match self.cookies.get(running.port) {
            None => (echoed(&self.token, number, PAYLOAD as usize), tos),
            Some(cookie) => {
                let pull = Pull {
                    cookie: *cookie,
                    number,
                    len: PAYLOAD as u16,
                    tos,
                };
                (pull.encode(&self.token), 0)
            }
        };
        let marking = Marking { tos, hops: None };
        let now = self.course.now();
        let sent = self
            .course
            .send_marked(SOCKET, self.at[running.port], bytes, marking)
            .await;
        if sent.is_err() {
            // A full queue of this host: the datagram is sent a little later.
            self.course.wait(Duration::from_millis(1)).await;
            return false;
        }
        running.on_sent(now);
        if now.saturating_since(due) > LATE {
            running.passed.late += 1;
        }
        true
    }

    /// Waits for an echo, and hands it to its flow.
    async fn hear(&mut self, running: &mut [Running], within: Duration) -> bool {
        let Ok(heard) = self.course.heard(SOCKET, (within, false)).await else {
            return false;
        };
        let now = Time::ZERO
            + self
                .course
                .now()
                .saturating_since(Time::ZERO + heard.waited);
        let from = heard.from;
        let its = running.iter_mut().find(|r| self.at[r.port] == from);
        let (Some(running), Some(message)) = (its, self.message(&heard)) else {
            return true;
        };
        if let Some(rtt) = running.on_message(now, &message) {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        }
        true
    }

    fn message(&self, heard: &Heard) -> Option<Message> {
        match self.direction {
            Direction::Up => Echo::decode(&heard.bytes, &self.token).map(|echo| Message {
                number: echo.number,
                count: echo.count,
                tos: echo.tos,
                at_ns: None,
            }),
            Direction::Down => Pulled::decode(&heard.bytes, &self.token).map(|pulled| Message {
                number: pulled.number,
                count: pulled.count,
                tos: heard.tos,
                at_ns: Some(pulled.at_ns),
            }),
        }
    }

    /// Waits until nothing comes any more.
    async fn settle(&mut self, running: &mut [Running]) {
        let quiet = self.base.unwrap_or(TICK) * 2 + Duration::from_millis(300);
        let ends = self.course.now() + Duration::from_secs(10);
        while running.iter().any(Running::waits) && self.course.now() < ends {
            if !self.hear(running, quiet).await {
                break;
            }
        }
    }
}

impl Running {
    fn due(&self) -> Option<Time> {
        match &self.sending {
            Sending::Controlled(sender) => sender.due(),
            Sending::Every { next_at, .. } => Some(*next_at),
        }
    }

    fn times_out(&self) -> Option<Time> {
        match &self.sending {
            Sending::Controlled(sender) => sender.times_out(),
            Sending::Every { .. } => None,
        }
    }

    fn time_out(&mut self, now: Time) {
        if let Sending::Controlled(sender) = &mut self.sending
            && sender.times_out().is_some_and(|at| at <= now)
        {
            self.passed.lost.extend(sender.on_timeout(now));
        }
    }

    fn on_sent(&mut self, now: Time) {
        match &mut self.sending {
            Sending::Controlled(sender) => {
                sender.on_sent(now);
            }
            Sending::Every { next_at, gap, out } => {
                out.insert(self.next, now);
                *next_at = (*next_at + *gap).max(now);
            }
        }
        self.next = self.next.wrapping_add(1);
        self.passed.sent += 1;
    }

    /// Takes a message of the server; returns the datagram's round trip.
    fn on_message(&mut self, now: Time, echo: &Message) -> Option<Duration> {
        let ce = self.passed.tos & 3 != 3 && echo.tos.is_some_and(|tos| tos & 3 == 3);
        let (sent, rtt) = match &mut self.sending {
            Sending::Controlled(sender) => {
                let echoed = sender.on_echo(now, echo.number, ce)?;
                self.passed.lost.extend(echoed.lost);
                (echoed.sent, echoed.rtt)
            }
            Sending::Every { out, .. } => {
                let sent = out.remove(&echo.number)?;
                (sent, now.saturating_since(sent))
            }
        };
        // A server that counts more than was sent is not believed.
        let most = self.counted.0.saturating_add(self.passed.sent);
        self.counted.1 = self.counted.1.max(echo.count.min(most));
        *self.passed.tos_seen.entry(echo.tos).or_default() += 1;
        let requested_ns = echo.at_ns.map_or(0, |at| {
            // The server's clock is not believed to be near ours: any difference is a number.
            at.wrapping_sub(sent.as_nanos()).cast_signed()
        });
        self.passed.samples.push(Sample {
            sent,
            rtt,
            ce,
            requested_ns,
        });
        Some(rtt)
    }

    fn waits(&self) -> bool {
        match &self.sending {
            Sending::Controlled(sender) => sender.times_out().is_some(),
            Sending::Every { out, .. } => !out.is_empty(),
        }
    }

    fn finish(mut self, now: Time) -> Passed {
        // Nothing has come for a while: datagrams in flight are lost.
        match &mut self.sending {
            Sending::Every { out, .. } => self.passed.lost.extend(out.values()),
            Sending::Controlled(sender) => self.passed.lost.extend(sender.on_timeout(now)),
        }
        self.passed.arrived = self.counted.1 - self.counted.0;
        self.passed
    }
}
