//! Who stands on the way, and how long each takes to answer: datagrams whose hop limit runs out on their way (RFC 792
//! time exceeded, RFC 4443 section 3.3) and ICMP echo to those who answered.
//!
//! All datagrams with a limit are of one flow, as far as routers that share load can see (addresses and ports): what
//! they find is one path. Which of them an error is about, its payload says; where a router quotes no more of it than
//! the eight bytes that it must (RFC 792), the router's address does.

use crate::clock::Clock;
use crate::outlet::Outlet;
use crate::probe::host::random;
use crate::probe::wire::{Found, Kind, Wall, Wire};
use crate::tally::Tally;
use crate::timestamp::Batch;
use base::record::{Delay, Row, Status, Text};
use base::{Duration, Time};
use experiment::ask::{End, Hop, Path};
use measure::icmp;
use std::collections::BTreeMap;
use std::io;
use std::net::IpAddr;
use std::sync::mpsc::Sender;

/// The port to which nobody listens, as tracing routes always took it.
const NOBODY: u16 = 33_434;
/// A probe unanswered for this long is lost.
const LOST_AFTER: Duration = Duration::from_secs(10);
/// From one datagram of a round to the next, and to the next large one: 1400 bytes take so long at 224 kbit/s.
const APART: Duration = Duration::from_millis(2);
const SIZED_APART: Duration = Duration::from_millis(50);
/// From one ICMP echo to the next, where so many fit into the time that all of a round may take.
const ECHO_APART: Duration = Duration::from_millis(30);
/// Interval at which sockets are read; the kernel has stamped the packets that wait there.
const LOOK: Duration = Duration::from_millis(20);
/// IPv4's destination unreachable and time exceeded; IPv6 has 1 and 3.
const UNREACHABLE: u8 = 3;
const EXCEEDED: u8 = 11;
/// Landmarks are numbered like hops, from beyond the last that a hop limit can name.
const BEYOND: usize = 256;
/// Payload of a datagram: token, number, hop.
const LEN: usize = 24;

struct Open {
    hop: usize,
    seq: i64,
    before: Time,
    left: Option<Time>,
}

struct Echo {
    wire: Wire,
    id: u16,
    target: Text,
    open: BTreeMap<u64, Open>,
}

pub struct Tracer {
    clock: Clock,
    wall: Wall,
    batch: Batch,
    rows: Sender<Row>,
    wire: Wire,
    server: IpAddr,
    outlet: Outlet,
    token: u64,
    next: u64,
    open: BTreeMap<u64, Open>,
    pub hops: Vec<Hop>,
    /// Other hosts that are asked, too.
    pub landmarks: Vec<IpAddr>,
    /// Time limit for the echoes of a round to leave.
    pub echoes_within: Duration,
    /// By hop; 0 is the server. Landmarks follow from [`BEYOND`] on.
    echoes: BTreeMap<usize, Echo>,
    /// Why there is no echo, said once.
    no_echo: Option<String>,
    seq: i64,
    /// The latest round trip of each hop, and when it ended.
    latest: BTreeMap<usize, (Time, Duration)>,
    targets: Vec<Text>,
    tally: Tally,
}

impl Tracer {
    /// # Errors
    /// No datagram socket, or no route.
    pub fn open(
        (server, outlet): (IpAddr, &Outlet),
        most: usize,
        clock: Clock,
        rows: Sender<Row>,
        tally: Tally,
    ) -> io::Result<Tracer> {
        let mut wire = Wire::open(Kind::Udp, (server, NOBODY).into(), clock, outlet)?;
        wire.listen_to_hops();
        Ok(Tracer {
            clock,
            wall: Wall::new(clock),
            batch: Batch::new(64),
            rows,
            wire,
            server,
            outlet: outlet.clone(),
            token: u64::from_be_bytes(random()?),
            next: 0,
            open: BTreeMap::new(),
            hops: vec![Hop::default(); most],
            landmarks: Vec::new(),
            echoes_within: Duration::ZERO,
            echoes: BTreeMap::new(),
            no_echo: None,
            seq: 0,
            latest: BTreeMap::new(),
            targets: (1..=most)
                .map(|h| format!("hop{h}").as_str().into())
                .collect(),
            tally,
        })
    }

    /// The path so far.
    pub fn path(&self, failed: Option<String>) -> Path {
        Path {
            server: self.server,
            hops: self.hops[..self.known()].to_vec(),
            no_echo: self.no_echo.clone(),
            failed,
        }
    }

    /// The number of the hop at which the path ends, if that has been seen.
    pub fn last(&self) -> Option<usize> {
        self.hops
            .iter()
            .position(|h| h.end.is_some())
            .map(|i| i + 1)
    }

    /// The farthest that has answered.
    pub fn farthest(&self) -> usize {
        let answered = |h: &Hop| !h.addresses.is_empty();
        self.hops.iter().rposition(answered).map_or(0, |i| i + 1)
    }

    /// Up to which hop it pays to ask.
    pub fn known(&self) -> usize {
        self.last().unwrap_or_else(|| self.farthest())
    }

    /// The latest round trip to the farthest hop that answered of late.
    pub fn farthest_round_trip(&self) -> Option<(Time, Duration)> {
        self.latest.values().next_back().copied()
    }

    /// One datagram to each of the first `hops` hops; a round has one number. Each round begins at another hop: where
    /// packets that vary keep their order, one close behind another varies less.
    ///
    /// # Errors
    /// This host refuses to send.
    pub fn round(&mut self, hops: usize, bytes: Option<u32>) -> io::Result<()> {
        let seq = self.seq;
        self.seq += 1;
        let hops = hops.min(self.hops.len());
        for i in 0..hops {
            self.send((i + seq as usize) % hops + 1, seq, bytes)?;
            self.rest(if bytes.is_some() { SIZED_APART } else { APART });
        }
        Ok(())
    }

    fn send(&mut self, hop: usize, seq: i64, bytes: Option<u32>) -> io::Result<()> {
        let number = self.next;
        self.next += 1;
        let headers = crate::load::paced::headers(self.wire.remote) as usize;
        let len = bytes.map_or(LEN, |b| (b as usize).saturating_sub(headers));
        let mut payload = vec![0; len.max(LEN)];
        payload[..8].copy_from_slice(&self.token.to_be_bytes());
        payload[8..16].copy_from_slice(&number.to_be_bytes());
        payload[16..LEN].copy_from_slice(&(hop as u64).to_be_bytes());
        self.wire.set_ttl(hop as u8)?;
        let before = self.clock.now();
        self.wire.send(&payload, Some(number))?;
        self.tally.datagram(self.wire.remote, payload.len());
        let open = Open {
            hop,
            seq,
            before,
            left: None,
        };
        self.open.insert(number, open);
        Ok(())
    }

    /// ICMP echo to the server, to each address that answered for a hop, the first of several, and to landmarks.
    pub fn echo_round(&mut self) {
        let seq = self.seq - 1;
        let beyond = BEYOND..BEYOND + self.landmarks.len();
        // On a slow line one would wait behind the other.
        let apart = self.echoes_within / (self.farthest() + 1 + self.landmarks.len()) as u64;
        let apart = apart.clamp(APART, ECHO_APART);
        for hop in (0..=self.farthest()).chain(beyond) {
            let address = match hop.checked_sub(1) {
                None => self.server,
                Some(_) if hop >= BEYOND => self.landmarks[hop - BEYOND],
                Some(i) if self.hops[i].end.is_some() => continue,
                Some(i) => match self.hops[i].addresses.first() {
                    Some(&address) => address,
                    None => continue,
                },
            };
            if !self.echoes.contains_key(&hop) && self.no_echo.is_none() {
                match self.open_echo(hop, address) {
                    Ok(echo) => drop(self.echoes.insert(hop, echo)),
                    Err(e) => self.no_echo = Some(e.to_string()),
                }
            }
            let Some(echo) = self.echoes.get_mut(&hop) else {
                continue;
            };
            let (number, v6) = (self.next, address.is_ipv6());
            self.next += 1;
            let mut packet = [0; icmp::LEN];
            icmp::encode(&mut packet, v6, echo.id, self.token, number);
            let before = self.clock.now();
            if echo.wire.send(&packet, Some(number)).is_ok() {
                self.tally.icmp(echo.wire.remote, icmp::LEN);
                let open = Open {
                    hop,
                    seq,
                    before,
                    left: None,
                };
                echo.open.insert(number, open);
            }
            self.rest(apart);
        }
    }

    fn open_echo(&self, hop: usize, address: IpAddr) -> io::Result<Echo> {
        Ok(Echo {
            wire: Wire::open(Kind::Icmp, (address, 0).into(), self.clock, &self.outlet)?,
            id: u16::from_be_bytes(random()?),
            target: match hop {
                0 => "icmp".into(),
                _ if hop >= BEYOND => format!("landmark{}", hop - BEYOND + 1).as_str().into(),
                _ => format!("echo{hop}").as_str().into(),
            },
            open: BTreeMap::new(),
        })
    }

    pub fn rest(&self, time: Duration) {
        crate::probe::host::sleep_until(self.clock.mono_of(self.clock.now() + time));
    }

    /// Takes in answers for as long as `time`, or until nothing is under way.
    pub fn listen(&mut self, time: Duration, until_all: bool) {
        let end = self.clock.now() + time;
        loop {
            self.look();
            let left = end.saturating_since(self.clock.now());
            if left.is_zero() || (until_all && self.open.is_empty()) {
                return;
            }
            self.rest(left.min(LOOK));
        }
    }

    fn look(&mut self) {
        let clock = self.clock;
        let mut heard = Vec::new();
        let (open, token) = (&mut self.open, self.token);
        let (tally, far) = (&self.tally, self.wire.remote);
        self.wire.look(
            &mut self.batch,
            clock,
            &mut self.wall,
            &mut |_, found| match found {
                Found::Left(number, at) => {
                    if let Some(open) = open.get_mut(&number) {
                        open.left = Some(at);
                    }
                }
                Found::Hop {
                    at,
                    steady,
                    error,
                    bytes,
                } => {
                    tally.icmp_error(far, bytes.len());
                    let word = |at: usize| {
                        let word = bytes.get(at..at + 8)?.first_chunk()?;
                        Some(u64::from_be_bytes(*word))
                    };
                    let number = word(0).filter(|t| *t == token).and_then(|_| word(8));
                    heard.push((at, steady, error, number));
                }
                Found::Trouble(_) | Found::Came { .. } => {}
            },
        );
        let v6 = self.server.is_ipv6();
        for (at, steady, error, number) in heard {
            let Some(from) = error.offender else { continue };
            // The oldest that is open at the hop of that address.
            let at_hop = || {
                let hop = self.hops.iter().position(|h| h.addresses.contains(&from))? + 1;
                let mut open = self.open.iter();
                open.find(|(_, o)| o.hop == hop).map(|(n, _)| *n)
            };
            let Some(open) = number
                .or_else(at_hop)
                .and_then(|number| self.open.remove(&number))
            else {
                continue;
            };
            let hop = &mut self.hops[open.hop - 1];
            if !hop.addresses.contains(&from) {
                hop.addresses.push(from);
            }
            let exceeded = error.icmp_type == if v6 { 3 } else { EXCEEDED };
            let unreachable = error.icmp_type == if v6 { 1 } else { UNREACHABLE };
            if !exceeded && hop.end.is_none() {
                hop.end = Some(match from == self.server {
                    true if unreachable => End::Server,
                    _ => End::Refuses(error.icmp_type, error.icmp_code),
                });
            }
            self.answered(self.targets[open.hop - 1].clone(), &open, at, steady, true);
        }
        self.look_at_echoes();
        self.bury();
    }

    fn look_at_echoes(&mut self) {
        let mut echoes = std::mem::take(&mut self.echoes);
        for echo in echoes.values_mut() {
            let (raw, v6, token) = (echo.wire.raw, echo.wire.remote.is_ipv6(), self.token);
            let open = &mut echo.open;
            let mut came = Vec::new();
            echo.wire.look(
                &mut self.batch,
                self.clock,
                &mut self.wall,
                &mut |_, found| match found {
                    Found::Left(number, at) => {
                        if let Some(open) = open.get_mut(&number) {
                            open.left = Some(at);
                        }
                    }
                    Found::Came { arrival, bytes } => {
                        let number = icmp::decode(bytes, v6, raw, token);
                        came.extend(number.map(|n| (n, arrival.at, arrival.steady)));
                    }
                    Found::Trouble(_) | Found::Hop { .. } => {}
                },
            );
            for (number, at, steady) in came {
                self.tally.icmp(echo.wire.remote, icmp::LEN);
                if let Some(open) = echo.open.remove(&number) {
                    self.answered(echo.target.clone(), &open, at, steady, false);
                }
            }
        }
        self.echoes = echoes;
    }

    fn answered(&mut self, target: Text, open: &Open, at: Time, steady: bool, of_hop: bool) {
        let left = open.left.unwrap_or(open.before);
        let rtt = at.saturating_since(left);
        if of_hop {
            self.latest.insert(open.hop, (at, rtt));
        }
        let status = if steady { Status::Ok } else { Status::Invalid };
        self.write(Delay {
            rtt_ns: Some(rtt.as_nanos() as i64),
            status,
            ..Delay::unanswered(self.unix(left), open.seq, target)
        });
    }

    /// Whatever is open for too long is lost.
    fn bury(&mut self) {
        let now = self.clock.now();
        let old = |o: &Open| now.saturating_since(o.before) > LOST_AFTER;
        let mut lost = Vec::new();
        let gone = |open: &mut BTreeMap<u64, Open>| {
            let late: Vec<u64> = open
                .iter()
                .filter(|(_, o)| old(o))
                .map(|(n, _)| *n)
                .collect();
            let taken = late.into_iter().filter_map(|n| open.remove(&n));
            taken.collect::<Vec<_>>()
        };
        for o in gone(&mut self.open) {
            lost.push((self.targets[o.hop - 1].clone(), o));
        }
        for echo in self.echoes.values_mut() {
            for o in gone(&mut echo.open) {
                lost.push((echo.target.clone(), o));
            }
        }
        for (target, o) in lost {
            self.write(Delay::unanswered(self.unix(o.before), o.seq, target));
        }
    }

    /// Ends the trace: echoes without a reply for a second are lost, later ones are unknown.
    pub fn finish(mut self) {
        self.listen(Duration::from_secs(1), true);
        let enough = self.clock.now();
        let open = std::mem::take(&mut self.open).into_values();
        let hops = open.map(|o| (self.targets[o.hop - 1].clone(), o));
        let echoes = std::mem::take(&mut self.echoes).into_values();
        let echoes = echoes.flat_map(|e| e.open.into_values().map(move |o| (e.target.clone(), o)));
        let all: Vec<_> = hops.chain(echoes).collect();
        for (target, o) in all {
            if enough.saturating_since(o.before) >= Duration::from_secs(1) {
                self.write(Delay::unanswered(self.unix(o.before), o.seq, target));
            }
        }
    }

    fn unix(&self, t: Time) -> i64 {
        self.clock.from_mono_ns(self.clock.mono_of(t))
    }

    fn write(&self, delay: Delay) {
        // The recorder outlives the run; if it is gone, the run is being torn down.
        let _ = self.rows.send(delay.into());
    }
}
