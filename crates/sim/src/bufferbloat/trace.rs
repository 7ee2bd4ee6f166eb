//! Rounds of datagrams with growing hop limits and of ICMP echo in virtual time, as `live::path` sends them.

use super::letters::{Shape, Then};
use super::network::{FAR, Router};
use super::world::{Due, World};
use base::record::{Delay, Direction, Status};
use base::{Duration, Time};
use experiment::Stopped;
use experiment::ask::{Answer, End, Hop, Path, Trace, Tracing};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Payload of a datagram with a hop limit, of ICMP echo, and of an ICMP error, above eight bytes.
const DATAGRAM: usize = 24;
const ECHO: usize = 24;
const ERROR: usize = 52;
/// Time after which an unanswered probe is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// Interval of the datagrams of a round, and of one of large datagrams.
const APART: Duration = Duration::from_millis(2);
const SIZED_APART: Duration = Duration::from_millis(50);
/// Headers of IPv4 and UDP.
const HEADERS: u32 = 28;
/// Landmarks are numbered like hops, from beyond the last that a hop limit can name.
const BEYOND: usize = 256;

/// Probe of a hop on its way.
#[derive(Clone, Copy)]
struct Open {
    hop: usize,
    seq: i64,
    sent: Time,
    echo: bool,
    back: bool,
}

pub(super) struct Tracer {
    tracing: Tracing,
    hops: Vec<Hop>,
    open: BTreeMap<u64, Open>,
    next: u64,
    seq: i64,
    interval: Option<Duration>,
    /// Latest round trip of each hop, and when it ended.
    latest: BTreeMap<usize, (Time, Duration)>,
    /// Time of the latest ICMP error of each router.
    answered: BTreeMap<usize, Time>,
}

impl Tracer {
    fn known(&self) -> usize {
        let ends = self.hops.iter().position(|h| h.end.is_some());
        let answered = |h: &Hop| !h.addresses.is_empty();
        let farthest = || self.hops.iter().rposition(answered);
        ends.or_else(farthest).map_or(0, |i| i + 1)
    }

    fn path(&self) -> Path {
        Path {
            server: FAR[0].into(),
            hops: self.hops[..self.known()].to_vec(),
            no_echo: None,
            failed: None,
        }
    }
}

impl World {
    /// Answers a question to the tracer.
    pub fn trace(&mut self, trace: &Trace) -> Result<Answer, Stopped> {
        if let Trace::Open(tracing) = trace {
            self.tracer = Some(Tracer {
                hops: vec![Hop::default(); tracing.hops],
                tracing: tracing.clone(),
                open: BTreeMap::new(),
                next: 0,
                seq: 0,
                interval: None,
                latest: BTreeMap::new(),
                answered: BTreeMap::new(),
            });
            return Ok(Answer::Done);
        }
        let Some(tracer) = &mut self.tracer else {
            let what = "trace hops without a tracer";
            return Err(Stopped::Cannot { what });
        };
        Ok(match trace {
            Trace::Open(_) => Answer::Done,
            Trace::Round {
                hops,
                bytes,
                within,
            } => {
                self.round(*hops, *bytes);
                let until = self.now + *within;
                while self.now < until && self.traces() {
                    self.step(until);
                }
                self.path()
            }
            Trace::On(interval) => {
                tracer.interval = Some(*interval);
                self.at(self.now, Due::Round(false));
                Answer::Done
            }
            Trace::Latest => {
                let farthest = tracer.latest.values().next_back();
                Answer::RoundTrip(farthest.copied())
            }
            Trace::End => {
                tracer.interval = None;
                let until = self.now + Duration::from_secs(1);
                while self.now < until && self.traces() {
                    self.step(until);
                }
                let path = self.path();
                self.lose_open();
                self.tracer = None;
                path
            }
        })
    }

    /// True while a probe is open.
    fn traces(&self) -> bool {
        self.tracer.as_ref().is_some_and(|t| !t.open.is_empty())
    }

    fn path(&self) -> Answer {
        let none = || Path {
            server: FAR[0].into(),
            hops: Vec::new(),
            no_echo: None,
            failed: None,
        };
        Answer::Path(self.tracer.as_ref().map_or_else(none, Tracer::path))
    }

    /// A round of the tracer is due: of datagrams, or of ICMP echo half an interval later.
    pub fn round_due(&mut self, echo: bool) {
        let Some(tracer) = &self.tracer else { return };
        let Some(interval) = tracer.interval else {
            return;
        };
        match echo {
            false => self.round(tracer.known(), None),
            true => self.echo_round(),
        }
        self.lose_old();
        self.at(self.now + interval / 2, Due::Round(!echo));
    }

    fn round(&mut self, hops: usize, bytes: Option<u32>) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let seq = tracer.seq;
        tracer.seq += 1;
        let hops = hops.min(tracer.hops.len());
        for i in 0..hops {
            let hop = (i + seq as usize) % hops + 1;
            let payload = bytes.map_or(DATAGRAM, |b| b.saturating_sub(HEADERS) as usize);
            self.probe_hop(hop, seq, Some(payload));
            // The rounds of a tracer that is on are events, which do not advance the time.
            if self.tracer.as_ref().is_some_and(|t| t.interval.is_none()) {
                let apart = if bytes.is_some() { SIZED_APART } else { APART };
                self.advance(self.now + apart);
            }
        }
    }

    fn echo_round(&mut self) {
        let Some(tracer) = &self.tracer else { return };
        let seq = tracer.seq - 1;
        let farthest = tracer.known();
        let landmarks = BEYOND..BEYOND + tracer.tracing.landmarks.len();
        for hop in (0..=farthest).chain(landmarks) {
            let answers = self
                .tracer
                .as_ref()
                .is_some_and(|t| match hop.checked_sub(1) {
                    None => true,
                    Some(i) => match t.hops.get(i) {
                        Some(h) => h.end.is_none() && !h.addresses.is_empty(),
                        None => hop >= BEYOND,
                    },
                });
            if answers {
                self.probe_hop(hop, seq, None);
            }
        }
    }

    /// The router of that number, from 1; null for the server and for landmarks.
    fn router(&self, hop: usize) -> Option<Router> {
        let i = hop.checked_sub(1)?;
        self.plan.network.routers.get(i).copied()
    }

    /// Sends a datagram with this payload, or an echo.
    fn probe_hop(&mut self, hop: usize, seq: i64, payload: Option<usize>) {
        let (now, router, echo) = (self.now, self.router(hop), payload.is_none());
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let number = tracer.next;
        tracer.next += 1;
        let open = Open {
            hop,
            seq,
            sent: now,
            echo,
            back: false,
        };
        tracer.open.insert(number, open);
        if let Some(router) = router.filter(|r| !r.beyond) {
            if let Some(open) = tracer.open.get_mut(&number) {
                open.back = true;
            }
            if self.router_answers(hop, &router, echo) {
                self.later(router.delay * 2, Then::Hop(number));
            }
            return;
        }
        let len = payload.unwrap_or(ECHO);
        let shape = Shape::plain(IpAddr::V4(FAR[0]), len);
        self.post(Direction::Up, shape, Then::Hop(number));
    }

    /// True if a router answers now; its ICMP errors are limited, its echoes are not.
    fn router_answers(&mut self, hop: usize, router: &Router, echo: bool) -> bool {
        if echo {
            return true;
        }
        let now = self.now;
        let Some(tracer) = &mut self.tracer else {
            return false;
        };
        let latest = tracer.answered.get(&hop).copied();
        let free = latest.is_none_or(|at| now.saturating_since(at) >= router.at_most_every);
        if router.silent || !free {
            return false;
        }
        tracer.answered.insert(hop, now);
        true
    }

    /// A probe has reached its hop, or its answer the near host.
    pub fn hop_arrived(&mut self, number: u64) {
        let Some(open) = self
            .tracer
            .as_ref()
            .and_then(|t| t.open.get(&number).copied())
        else {
            return;
        };
        if open.back {
            self.hop_answered(number, open);
            return;
        }
        let router = self.router(open.hop);
        let answers = match &router {
            Some(router) => self.router_answers(open.hop, router, open.echo),
            None => true,
        };
        if let Some(open) = self.tracer.as_mut().and_then(|t| t.open.get_mut(&number)) {
            open.back = true;
        }
        if answers {
            // Time beyond the link, as a delay of the answer.
            let len = if open.echo { ECHO } else { ERROR };
            let shape = Shape::plain(IpAddr::V4(FAR[0]), len);
            self.post(Direction::Down, shape, Then::Hop(number));
        }
    }

    fn hop_answered(&mut self, number: u64, open: Open) {
        let now = self.now;
        let router = self.router(open.hop);
        let beyond = router.filter(|r| r.beyond);
        // The path of a router beyond the link is longer by its own delay, both ways.
        let rtt = now.saturating_since(open.sent) + beyond.map_or(Duration::ZERO, |r| r.delay * 2);
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        tracer.open.remove(&number);
        if !open.echo {
            tracer.latest.insert(open.hop, (now, rtt));
            if let Some(hop) = tracer.hops.get_mut(open.hop - 1) {
                let address = router.map_or(IpAddr::V4(FAR[0]), |r| r.address);
                if !hop.addresses.contains(&address) {
                    hop.addresses.push(address);
                }
                if router.is_none() {
                    hop.end = Some(End::Server);
                }
            }
        }
        self.hop_row(open, Some(rtt));
    }

    fn hop_row(&mut self, open: Open, rtt: Option<Duration>) {
        let target = match (open.echo, open.hop) {
            (false, hop) => format!("hop{hop}"),
            (true, 0) => "icmp".to_owned(),
            (true, hop) if hop >= BEYOND => format!("landmark{}", hop - BEYOND + 1),
            (true, hop) => format!("echo{hop}"),
        };
        let sent_ns = super::world::EPOCH_NS + open.sent.as_nanos() as i64;
        self.rec.delay.push(Delay {
            rtt_ns: rtt.map(|r| r.as_nanos() as i64),
            status: match rtt {
                Some(_) => Status::Ok,
                None => Status::Lost,
            },
            ..Delay::unanswered(sent_ns, open.seq, target.as_str().into())
        });
    }

    fn lose(&mut self, is_lost: impl Fn(&Open) -> bool) {
        let Some(tracer) = &mut self.tracer else {
            return;
        };
        let lost: Vec<Open> = tracer
            .open
            .extract_if(.., |_, open| is_lost(open))
            .map(|(_, open)| open)
            .collect();
        for open in lost {
            self.hop_row(open, None);
        }
    }

    fn lose_old(&mut self) {
        let now = self.now;
        self.lose(|open| now.saturating_since(open.sent) > LOST_AFTER);
    }

    /// Probes that have had a second for their answers are lost; the fate of the others is unknown.
    fn lose_open(&mut self) {
        let now = self.now;
        self.lose(|open| now.saturating_since(open.sent) >= Duration::from_secs(1));
    }
}
