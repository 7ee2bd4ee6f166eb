//! Virtual host of experiments that send only trains, as `live::craft` does over a real link. The link is the same
//! [`Link`] that the emulator runs. Hosts fragment datagrams as the kernel does, read their own clocks, and take
//! timestamps late.

use crate::fragments::{count, cut};
use base::program::{Facts, Fate, Fragments, Program, Sending, Train};
use base::record::{Direction, Recording, Row};
use base::rng::{Rng, Streams, uniform};
use base::{BitsPerSec, Bytes, Duration, Ecn, FlowId, Packet, PacketId, Time};
use experiment::host::{Counted, Host, Passing, Rates, Stopped};
use experiment::{Bounds, OfTrains, Unwatched};
use link::qdisc::Fates;
use link::{Link, LinkSpec, SpecError};
use std::collections::{BTreeMap, VecDeque};

/// Cross traffic on the link: Poisson arrivals, sizes as on an access link.
#[derive(Clone, Copy, Debug)]
pub struct Cross {
    /// Mean rate of the cross traffic.
    pub rate: BitsPerSec,
}

/// Sizes of whole IP packets and their shares: acknowledgements, medium packets, full packets.
const SIZES: [(u64, f64); 3] = [(40, 0.4), (576, 0.15), (1500, 0.45)];

/// Parameters of a bench besides the link.
#[derive(Clone, Copy, Debug)]
pub struct Hosts {
    /// True for IPv6, which has longer headers and fragments datagrams differently.
    pub v6: bool,
    /// Rate of the sending host's access to the link.
    pub access: BitsPerSec,
    /// Lead of the receiver's clock at the start, ns; `drift_ppm` is its drift.
    pub ahead_ns: i64,
    /// Drift of the receiver's clock, parts in a million.
    pub drift_ppm: f64,
    /// Maximum delay of a timestamp.
    pub stamp_late: Duration,
    /// Fragments of incomplete datagrams that the receiving host keeps, each for 60 s in IPv6 (RFC 8200 section 4.5)
    /// and 30 s in IPv4. Once there is no more room, no fragmented datagram is received.
    pub room: usize,
    /// Seed of the run.
    pub seed: u64,
}

impl Default for Hosts {
    fn default() -> Hosts {
        Hosts {
            v6: false,
            access: BitsPerSec::from_mbps(1_000),
            ahead_ns: 3_600_000_000_000,
            drift_ppm: 20.0,
            stamp_late: Duration::from_micros(10),
            // 4 MB, if a packet of 1500 bytes takes 2304.
            room: 1800,
            seed: 1,
        }
    }
}

/// A link between two hosts. Queues, clocks and cross traffic continue from one sending to the next.
pub struct Bench {
    ways: [Way; 2],
    hosts: Hosts,
    now: Time,
    stamps: Rng,
    /// Rows that an experiment has written.
    pub recording: Recording,
    trains: i64,
    /// Bytes sent so far, whole IP packets.
    pub spent: Bytes,
}

struct Way {
    link: Link,
    mtu: u64,
    cross: Option<Cross>,
    next_cross: Time,
    rng: Rng,
    fates: Fates,
    /// Packets of crafted datagrams in flight, by packet number.
    pieces: VecDeque<Piece>,
    first_piece: u64,
    /// Incomplete datagrams by train and number: arrival time of the first fragment, and number of fragments received.
    incomplete: BTreeMap<(i64, u64), (Time, usize)>,
}

/// Packet of a datagram: train of the sending, datagram, fragment.
#[derive(Clone, Copy)]
struct Piece {
    train: usize,
    seq: u64,
    part: usize,
}

/// First packet number of cross traffic.
const FOREIGN: u64 = 1 << 62;
/// Time without arrivals after which missing datagrams count as lost.
const QUIET: Duration = Duration::from_secs(1);

impl Way {
    fn draw_size(&mut self) -> u64 {
        let mut at = uniform(&mut self.rng);
        for (size, share) in SIZES {
            at -= share;
            if at < 0.0 {
                return size;
            }
        }
        SIZES[SIZES.len() - 1].0
    }

    /// Adds the cross traffic that arrives by `now`.
    fn others(&mut self, now: Time) {
        let Some(cross) = self.cross else { return };
        let mean: f64 = SIZES.iter().map(|(size, share)| *size as f64 * share).sum();
        while self.next_cross <= now {
            let at = self.next_cross;
            let packet = Packet {
                id: PacketId(FOREIGN),
                flow: FlowId(u64::MAX),
                len: Bytes::new(self.draw_size()),
                ecn: Ecn::NotEct,
                dscp: 0,
                enqueued: at,
            };
            self.link.enqueue(at, packet, &mut self.fates);
            let gap = -(1.0 - uniform(&mut self.rng)).ln() * mean * 8.0 / cross.rate.get() as f64;
            self.next_cross = at + Duration::from_secs_f64(gap.max(1e-9));
        }
    }
}

impl Bench {
    /// # Errors
    /// The link specification is invalid.
    pub fn new(spec: &LinkSpec, hosts: Hosts) -> Result<Bench, SpecError> {
        let streams = Streams::new(hosts.seed);
        let way = |name: &str, d: &link::DirectionSpec| -> Result<Way, SpecError> {
            Ok(Way {
                link: Link::new(&d.params()?, &streams, name),
                mtu: d.mtu.get(),
                cross: None,
                next_cross: Time::ZERO,
                rng: streams.stream(&format!("craft/others/{name}")),
                fates: Fates::default(),
                pieces: VecDeque::new(),
                first_piece: 0,
                incomplete: BTreeMap::new(),
            })
        };
        Ok(Bench {
            ways: [way("up", &spec.up)?, way("down", &spec.down)?],
            hosts,
            now: Time::ZERO,
            stamps: streams.stream("craft/stamps"),
            recording: Recording::default(),
            trains: 0,
            spent: Bytes::ZERO,
        })
    }

    /// Adds cross traffic in a direction from now on.
    pub fn share_with(&mut self, direction: Direction, cross: Cross) {
        let now = self.now;
        let way = &mut self.ways[direction as usize];
        (way.cross, way.next_cross) = (Some(cross), now);
    }

    /// Runs an experiment that sends only trains, and returns its trains.
    ///
    /// # Panics
    /// The experiment requests any other step.
    pub fn run(&mut self, next: impl FnMut(&[Train]) -> Option<Sending>) -> Vec<Train> {
        let bounds = Bounds {
            first_train: self.trains,
            ..Bounds::of(Bytes::new(u64::MAX))
        };
        experiment::run(&mut OfTrains::new(next), &bounds, self, &mut Unwatched)
            .expect("trains are all that it asks for")
    }

    fn header_bytes(&self) -> u32 {
        if self.hosts.v6 { 48 } else { 28 }
    }

    fn received_ns(&mut self, at: Time) -> i64 {
        let late = uniform(&mut self.stamps) * self.hosts.stamp_late.as_nanos() as f64;
        let drift = at.as_nanos() as f64 * self.hosts.drift_ppm * 1e-6;
        at.as_nanos() as i64 + self.hosts.ahead_ns + (late + drift) as i64
    }

    /// Train of a program of which nothing has been sent; counts its bytes as spent.
    fn train(&mut self, sending: &Sending, program: &Program) -> Train {
        let headers = self.header_bytes();
        let facts = Facts {
            stage: sending.stage.clone(),
            direction: sending.direction,
            program: program.clone(),
            headers,
            refused: 0,
            overflowed: 0,
            fragments_sent: Some(Fragments::default()),
            fragments_received: Some(Fragments::default()),
        };
        self.trains += 1;
        self.spent += program.bytes(headers);
        Train::new(self.trains - 1, facts)
    }

    /// Runs a sending, until its last datagram has arrived or is lost.
    pub fn send(&mut self, sending: &Sending) -> Vec<Train> {
        let v6 = self.hosts.v6;
        let start = self.now + sending.rest;
        let programs = &sending.programs;
        let mut trains: Vec<Train> = programs.iter().map(|p| self.train(sending, p)).collect();
        let mut due: Vec<_> = programs.iter().map(|p| p.datagrams().peekable()).collect();
        let mut missing: Vec<Vec<u16>> = programs
            .iter()
            .map(|p| vec![0; p.count() as usize])
            .collect();
        // The sending host puts one packet after the other onto its own wire.
        let mut wire = start;
        let way = sending.direction as usize;
        while let Some((i, at)) = due
            .iter_mut()
            .enumerate()
            .filter_map(|(i, d)| Some((i, d.peek()?.at)))
            .min_by_key(|(_, at)| *at)
        {
            let Some(datagram) = due[i].next() else { break };
            let at = (start + at).max(wire);
            self.advance(way, at, &mut trains, &mut missing);
            let mtu = self.ways[way].mtu;
            let Some(parts) = cut(datagram.payload, v6, mtu, datagram.marking.whole) else {
                trains[i].facts.refused += 1;
                continue;
            };
            trains[i].fates[datagram.seq as usize].sent_ns = Some(at.as_nanos() as i64);
            missing[i][datagram.seq as usize] = parts.len() as u16;
            count(&mut trains[i].facts.fragments_sent, parts.len(), None);
            for (part, bytes) in parts.iter().enumerate() {
                let len = Bytes::new(*bytes);
                wire = wire.max(at) + len.serialization_delay_ceil(self.hosts.access);
                let arrives = wire;
                self.advance(way, arrives, &mut trains, &mut missing);
                let w = &mut self.ways[way];
                let packet = Packet {
                    id: PacketId(w.first_piece + w.pieces.len() as u64),
                    flow: FlowId(i as u64),
                    len,
                    ecn: datagram.marking.ecn,
                    dscp: datagram.marking.dscp,
                    enqueued: arrives,
                };
                w.pieces.push_back(Piece {
                    train: i,
                    seq: datagram.seq,
                    part: if parts.len() == 1 { usize::MAX } else { part },
                });
                w.link.enqueue(arrives, packet, &mut w.fates);
            }
        }
        let longest = sending.programs.iter().map(Program::time).max();
        let end = (start + longest.unwrap_or_default()).max(wire);
        self.drain(way, end, &mut trains, &mut missing);
        trains
    }

    /// Runs until nothing of the sending is in flight.
    fn drain(&mut self, way: usize, end: Time, trains: &mut [Train], missing: &mut [Vec<u16>]) {
        let mut quiet_from = end;
        self.advance(way, end, trains, missing);
        let all = |trains: &[Train]| {
            trains.iter().all(|t| {
                t.fates
                    .iter()
                    .all(|f| f.sent_ns.is_none() || f.received_ns.is_some())
            })
        };
        while !all(trains) && self.now < quiet_from + QUIET {
            let next = self.now + Duration::from_millis(20);
            if self.advance(way, next, trains, missing) > 0 {
                quiet_from = next;
            }
        }
        let w = &mut self.ways[way];
        // Packets still in the link no longer belong to a train.
        w.first_piece += w.pieces.len() as u64;
        w.pieces.clear();
    }

    /// Advances everything to `now`; returns the number of own packets that arrived.
    fn advance(
        &mut self,
        way: usize,
        now: Time,
        trains: &mut [Train],
        missing: &mut [Vec<u16>],
    ) -> usize {
        let mut came = 0;
        self.ways[way].others(now);
        loop {
            let w = &mut self.ways[way];
            let Some(delivery) = w.link.poll(now, &mut w.fates) else {
                break;
            };
            let number = delivery.packet.id.0;
            let piece = number
                .checked_sub(w.first_piece)
                .and_then(|at| w.pieces.get(at as usize).copied());
            let Some(piece) = piece else { continue };
            let at = self.received_ns(delivery.at);
            came += 1;
            let train = &mut trains[piece.train];
            let left = &mut missing[piece.train][piece.seq as usize];
            if piece.part == usize::MAX {
                count(&mut train.facts.fragments_received, 1, None);
            } else {
                count(&mut train.facts.fragments_received, 2, Some(piece.part));
            }
            if piece.part != usize::MAX {
                let stay = Duration::from_secs(if self.hosts.v6 { 60 } else { 30 });
                let datagram = (train.number, piece.seq);
                let kept = &mut self.ways[way].incomplete;
                kept.retain(|_, (came, _)| delivery.at.saturating_since(*came) < stay);
                let held: usize = kept.values().map(|k| k.1).sum();
                if held >= self.hosts.room {
                    continue;
                }
                kept.entry(datagram).or_insert((delivery.at, 0)).1 += 1;
                if *left == 1 {
                    kept.remove(&datagram);
                }
            }
            if *left > 0 {
                *left -= 1;
                if *left == 0 {
                    let fate: &mut Fate = &mut train.fates[piece.seq as usize];
                    fate.received_ns = Some(at);
                    fate.ecn = Some(delivery.packet.ecn.bits());
                }
            }
        }
        self.ways[way].fates.list.clear();
        self.now = self.now.max(now);
        came
    }
}

impl Host for Bench {
    type Error = Stopped;

    fn now(&self) -> Time {
        self.now
    }

    fn unix_ns(&self) -> i64 {
        self.now.as_nanos() as i64
    }

    /// Queues advance when the next packet enters them.
    fn wait(&mut self, time: Duration) -> Result<(), Stopped> {
        self.now += time;
        Ok(())
    }

    fn row(&mut self, row: Row) {
        self.recording.push(row);
    }

    fn so_far(&self, read: &mut dyn FnMut(&Recording)) {
        read(&self.recording);
    }

    fn headers(&self) -> u32 {
        self.header_bytes()
    }

    fn train(
        &mut self,
        sending: &Sending,
        first: i64,
        _: &mut dyn FnMut(Passing) -> bool,
    ) -> Result<Vec<Train>, Stopped> {
        self.trains = first;
        let at_once = Sending {
            rest: Duration::ZERO,
            ..sending.clone()
        };
        Ok(self.send(&at_once))
    }

    fn count(&mut self, _: Counted) -> Result<(), Stopped> {
        Ok(())
    }

    /// Cross traffic does not use this host's interface.
    fn rates(&self, _: Duration) -> Option<Rates> {
        let none = BitsPerSec::new(0);
        Some(Rates {
            down: none,
            up: none,
        })
    }

    fn interface(&self) -> String {
        "near".into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn line(up: &str) -> Bench {
        let text =
            format!("name = \"t\"\ntitle = \"t\"\n[up]\n{up}\n[down]\nrate = \"8 Mbit/s\"\n");
        Bench::new(&LinkSpec::parse(&text).expect("a link"), Hosts::default()).expect("a bench")
    }

    fn sending(program: &str, rest: Duration) -> Sending {
        Sending {
            stage: "t".into(),
            direction: Direction::Up,
            programs: vec![program.parse().expect("a program")],
            rest,
        }
    }

    #[test]
    fn a_burst_fills_the_queue_and_the_one_in_transmission_and_no_more() {
        let mut bench = line("rate = \"2 Mbit/s\"\nqueue = \"fifo:packets=50\"");
        for (size, passes) in [(50, 51), (1452, 51)] {
            let train = &bench.send(&sending(&format!("60 x {size}"), Duration::from_secs(1)))[0];
            let first_lost = train.fates.iter().position(|f| f.received_ns.is_none());
            assert_eq!(first_lost, Some(passes), "{size}");
        }
    }

    #[test]
    fn what_is_cut_arrives_whole_or_not_at_all_and_is_counted() {
        let mut bench = line("rate = \"2 Mbit/s\"\nqueue = \"fifo:packets=4\"");
        let train = &bench.send(&sending("10 x 1473", Duration::ZERO))[0];
        let (sent, got) = (
            train.facts.fragments_sent.unwrap(),
            train.facts.fragments_received.unwrap(),
        );
        assert_eq!((sent.first, sent.second), (10, 10));
        // A packet in transmission and four waiting are five: two datagrams and a first half.
        assert_eq!((got.first, got.second), (3, 2));
        assert_eq!(train.sent() - train.lost(), 2);
        let refused = &bench.send(&sending("3 x 1473 df", Duration::ZERO))[0];
        assert_eq!((refused.facts.refused, refused.sent()), (3, 0));
    }

    #[test]
    fn a_host_full_of_incomplete_datagrams_puts_none_together_until_it_forgets_them() {
        let mut bench = line("rate = \"20 Mbit/s\"\nloss = \"random:probability=0.3\"");
        bench.hosts.room = 100;
        let mut arrive = |rest| {
            let train = &bench.send(&sending("500 x 1473@2 ms", rest))[0];
            let got = train.fates.iter().map(|f| f.received_ns.is_some());
            let got: Vec<bool> = got.collect();
            let of = |some: &[bool]| some.iter().filter(|g| **g).count();
            (of(&got[..200]), of(&got[400..]))
        };
        // 0.42 of 240 lack a fragment and fill the room; of the 200 before that, 98 have both.
        let (early, late) = arrive(Duration::ZERO);
        assert!((78..118).contains(&early) && late == 0, "{early} {late}");
        assert_eq!(arrive(Duration::from_secs(20)), (0, 0));
        assert!(arrive(Duration::from_secs(31)).0 > 78);
    }

    #[test]
    fn sizes_of_fragments_are_those_of_the_document() {
        // Gao 2012, section 3.3: 1470 bytes over IPv6 are frames of 1510 and 92 bytes, 14 of
        // them Ethernet's.
        assert_eq!(cut(1470, true, 1500, false), Some(vec![1496, 78]));
        assert_eq!(cut(1452, true, 1500, false), Some(vec![1500]));
        assert_eq!(cut(2888, true, 1500, false).map(|p| p.len()), Some(2));
        assert_eq!(cut(2889, true, 1500, false).map(|p| p.len()), Some(3));
        assert_eq!(cut(1472, false, 1500, true), Some(vec![1500]));
        assert_eq!(cut(1473, false, 1500, true), None);
    }

    #[test]
    fn others_take_their_share_of_the_rate() {
        let mut bench = line("rate = \"10 Mbit/s\"\nqueue = \"fifo:packets=100\"");
        bench.share_with(
            Direction::Up,
            Cross {
                rate: BitsPerSec::from_mbps(5),
            },
        );
        // 12 Mbit/s of ours beside 5 of cross traffic on 10: our share of the arrivals is in proportion.
        let train = &bench.send(&sending("10000 x 1472@1 ms", Duration::from_secs(1)))[0];
        let share = 1.0 - train.lost() as f64 / train.sent() as f64;
        assert!((0.5..0.7).contains(&share), "{share}");
    }
}
