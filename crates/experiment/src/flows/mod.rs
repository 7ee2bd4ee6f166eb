//! Flows of datagrams to ports of the server that echo, each with its marking and its congestion controller.
//!
//! All flows leave from one socket to a port each, so that a queue which tells flows apart tells them apart. The echo has
//! the number of the datagram and its TOS byte at arrival. Waits are round trips above the smallest one of the run: this
//! host's clock alone measures them, and answers of 28 bytes hardly queue downwards.

pub mod seen;
mod sender;

pub use sender::Sender;

use crate::ask::{Marking, Opening};
use crate::course::Course;
use base::{Bytes, Duration, Time};
use congestion::ControllerSpec;
use measure::control::listen::{Answer, Echo, Place, TOKEN_LEN, Transport, Wanted, echoed};
use seen::Codepoint;
use std::collections::BTreeMap;
use std::net::SocketAddr;

/// UDP payload of all datagrams, as most QUIC stacks start with.
pub const PAYLOAD: u64 = 1200;
/// Bytes of the IP packet of a datagram over IPv4.
pub const PACKET: u64 = PAYLOAD + 28;
const SOCKET: u32 = 0;
/// Time for which the ports stay open at most.
const OPEN: Duration = Duration::from_secs(600);
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

/// Datagram that came back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// Time at which it was sent.
    pub sent: Time,
    /// Round trip.
    pub rtt: Duration,
    /// True if it arrived at the server with CE and did not leave so.
    pub ce: bool,
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
    /// Datagrams that arrived at the server, as it counts them.
    pub arrived: u32,
    /// Datagrams that came back, in the order of their echoes.
    pub samples: Vec<Sample>,
    /// Send times of those that are lost.
    pub lost: Vec<Time>,
    /// TOS byte at arrival, with counts; null if the server's kernel does not tell.
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

/// Ports of the server and a socket of ours.
pub struct Echoes {
    course: Course,
    token: [u8; TOKEN_LEN],
    at: Vec<SocketAddr>,
    /// First free number, and greatest count, of each port.
    ports: Vec<(u32, u32)>,
    /// Smallest round trip so far.
    pub base: Option<Duration>,
}

impl Echoes {
    /// Opens so many ports; gives the reason if that fails.
    pub async fn open(course: &Course, count: usize) -> Result<Echoes, String> {
        let wanted = Wanted {
            answer: Answer::Echo,
            ..Wanted::new(Transport::Udp, Place::Here, 0)
        };
        let ports = course.listen(vec![wanted; count], OPEN).await;
        let ports = ports.ok_or("the server opens no ports")?;
        let at: Vec<SocketAddr> = ports.at.into_iter().collect::<Result<_, _>>()?;
        if at.len() < count {
            return Err("the server did not name all ports".into());
        }
        let opened = course.open(Opening::free(SOCKET)).await;
        opened.map_err(|e| format!("this host has no socket for it: {}", e.text))?;
        Ok(Echoes {
            course: course.clone(),
            token: ports.token,
            ports: vec![(0, 0); at.len()],
            at,
            base: None,
        })
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
        let bytes = echoed(&self.token, running.next, PAYLOAD as usize);
        let marking = Marking {
            tos: running.passed.tos,
            hops: None,
        };
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
        let (Some(running), Some(echo)) = (its, Echo::decode(&heard.bytes, &self.token)) else {
            return true;
        };
        if let Some(rtt) = running.on_echo(now, echo) {
            self.base = Some(self.base.map_or(rtt, |base| base.min(rtt)));
        }
        true
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

    /// Takes an echo; returns its round trip.
    fn on_echo(&mut self, now: Time, echo: Echo) -> Option<Duration> {
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
        self.passed.samples.push(Sample { sent, rtt, ce });
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
