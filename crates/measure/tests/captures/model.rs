//! A TCP sender whose every decision is known, seen by a capture at its side: super-segments that the network card cuts,
//! random and burst losses, a bottleneck with a queue, SACK, timestamps, a receiver that holds ACKs back.

use crate::packets::{ACK, MS, SYN, T0, Tcp};
use base::rng::{Rng, Streams, uniform};
use std::collections::BTreeMap;

/// What is drawn.
#[derive(Clone, Debug)]
pub struct Plan {
    pub seed: u64,
    pub rtt: i64,
    pub bits_per_s: f64,
    /// Bytes that the bottleneck holds.
    pub buffer: u64,
    pub loss: f64,
    /// Segments of one super-segment at most; 1 without offload.
    pub joined: u64,
    pub sack: bool,
    pub stamps: bool,
    /// The receiver acknowledges every second segment, or after this time.
    pub held_back: Option<i64>,
    pub bytes: u64,
    /// The application writes so much, then pauses so long.
    pub writes: Option<(u64, i64)>,
    /// Window that the receiver offers.
    pub window: u64,
}

impl Plan {
    pub fn draw(seed: u64) -> Plan {
        let mut rng = Streams::new(seed).stream("model/plan");
        let mut between = |low: f64, high: f64| low + (high - low) * uniform(&mut rng);
        let rtt = (between(8.0, 120.0) * 1e6) as i64;
        let bits_per_s = between(5e6, 80e6);
        let bdp = bits_per_s / 8.0 * rtt as f64 / 1e9;
        Plan {
            seed,
            rtt,
            bits_per_s,
            buffer: (between(0.3, 2.0) * bdp).max(20e3) as u64,
            loss: [0.0, 0.001, 0.01, 0.03][between(0.0, 4.0) as usize],
            joined: [1, 4, 20, 44][between(0.0, 4.0) as usize],
            sack: between(0.0, 1.0) < 0.75,
            stamps: between(0.0, 1.0) < 0.6,
            held_back: (between(0.0, 1.0) < 0.7).then_some(40 * MS),
            bytes: between(3e5, 3e6) as u64,
            writes: None,
            window: 8 << 20,
        }
    }

    pub fn mss(&self) -> u64 {
        if self.stamps { 1448 } else { 1460 }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// Set off by an ACK.
    Ack,
    Timer,
}

/// A retransmission as its sender made it.
#[derive(Clone, Copy, Debug)]
pub struct Again {
    pub t: i64,
    /// From the first byte of data.
    pub start: u64,
    pub end: u64,
    pub why: Why,
    /// When its first byte was sent last before.
    pub before: i64,
    /// That was its first transmission, in the midst of a super-segment of more than two segments.
    pub from_joined: bool,
}

pub struct Run {
    pub packets: Vec<(i64, Tcp)>,
    pub again: Vec<Again>,
    /// The longest that any byte took to the receiver and its ACK back, without what the receiver held back.
    pub longest: i64,
    /// The longest wait in the queue.
    pub wait: i64,
}

enum Event {
    Arrives {
        from: u64,
        to: u64,
        stamp: u32,
    },
    Acked {
        ack: u64,
        sack: Vec<(u64, u64)>,
        echo: u32,
    },
    Timer {
        number: u64,
    },
    Late {
        number: u64,
    },
    Write,
}

/// Of one segment of the sender.
#[derive(Clone, Copy, Default)]
struct Piece {
    sent: i64,
    times: u32,
    joined: bool,
    sacked: bool,
    lost: bool,
}

struct Model {
    plan: Plan,
    rng: Rng,
    now: i64,
    events: BTreeMap<(i64, u64), Event>,
    count: u64,
    run: Run,
    // Sender
    pieces: Vec<Piece>,
    una: u64,
    next: u64,
    written: u64,
    cwnd: f64,
    ssthresh: f64,
    recover: u64,
    repairing: bool,
    duplicates: u32,
    srtt: i64,
    rttvar: i64,
    backoff: u32,
    timer: u64,
    id: u16,
    // Bottleneck
    free: i64,
    // Receiver
    got: BTreeMap<u64, u64>,
    expected: u64,
    unacked: u64,
    late: u64,
    echo: u32,
    /// The segment that arrived last.
    latest: u64,
}

pub fn run(plan: &Plan) -> Run {
    let mut m = Model {
        rng: Streams::new(plan.seed).stream("model/run"),
        plan: plan.clone(),
        now: 0,
        events: BTreeMap::new(),
        count: 0,
        run: Run {
            packets: Vec::new(),
            again: Vec::new(),
            longest: 0,
            wait: 0,
        },
        pieces: vec![Piece::default(); plan.bytes.div_ceil(plan.mss()) as usize],
        una: 0,
        next: 0,
        written: plan.writes.map_or(plan.bytes, |w| w.0),
        cwnd: 10.0 * plan.mss() as f64,
        ssthresh: 1e18,
        recover: 0,
        repairing: false,
        duplicates: 0,
        srtt: 0,
        rttvar: 0,
        backoff: 0,
        timer: 0,
        id: 0,
        free: 0,
        got: BTreeMap::new(),
        expected: 0,
        unacked: 0,
        late: 0,
        echo: 0,
        latest: 0,
    };
    m.handshake();
    if let Some((_, pause)) = plan.writes {
        m.at(m.now + pause, Event::Write);
    }
    m.send_new();
    while let Some(((t, _), event)) = m.events.pop_first() {
        m.now = t;
        m.take(event);
        if m.una >= plan.bytes || m.run.packets.len() > 200_000 {
            break;
        }
    }
    m.run.packets.sort_by_key(|p| p.0);
    m.run
}

const ISN: u32 = 1000;
const THEIRS: u32 = 5000;

impl Model {
    fn at(&mut self, t: i64, event: Event) {
        self.count += 1;
        self.events.insert((t, self.count), event);
    }

    fn stamp(&self) -> u32 {
        (self.now / MS) as u32 + 1
    }

    fn capture(&mut self, packet: Tcp) {
        self.id = self.id.wrapping_add(1).max(1);
        let packet = packet.id(self.id);
        self.run.packets.push((T0 + self.now, packet));
    }

    fn handshake(&mut self) {
        let mut options = vec![2, 4, 0x05, 0xb4];
        options.extend(if self.plan.sack { [4, 2] } else { [1, 1] });
        options.extend(if self.plan.stamps {
            [8, 10, 0, 0, 0, 1, 0, 0, 0, 0]
        } else {
            [1; 10]
        });
        options.extend([1, 3, 3, 8]);
        self.capture(Tcp::there(ISN, 0, 0).flags(SYN).options(&options));
        self.now = self.plan.rtt;
        self.capture(
            Tcp::back(THEIRS, ISN + 1, 0)
                .flags(SYN | ACK)
                .options(&options),
        );
        self.now += 20_000;
        self.capture(Tcp::there(ISN + 1, THEIRS + 1, 0));
    }

    fn full(&self) -> u64 {
        self.plan.mss()
    }

    /// Sends `from..to`, which is cut into segments on its way.
    fn send(&mut self, from: u64, to: u64) {
        let joined = to - from > 2 * self.full();
        let mut p = Tcp::there(ISN + 1 + from as u32, THEIRS + 1, (to - from) as usize).window(500);
        if self.plan.stamps {
            p = p.timestamps(self.stamp(), 1);
        }
        self.capture(p);
        let (stamp, mut at) = (self.stamp(), from);
        while at < to {
            let end = (at + self.full()).min(to);
            let piece = &mut self.pieces[(at / self.plan.mss()) as usize];
            piece.joined = piece.times == 0 && joined && at > from;
            piece.times += 1;
            piece.sent = self.now;
            piece.lost = false;
            self.cross(at, end, stamp);
            at = end;
        }
        self.arm();
    }

    fn cross(&mut self, from: u64, to: u64, stamp: u32) {
        let wire = (to - from + 66) as f64 * 8.0 / self.plan.bits_per_s * 1e9;
        let waits = (self.free - self.now).max(0);
        let backlog = waits as f64 / 1e9 * self.plan.bits_per_s / 8.0;
        if backlog > self.plan.buffer as f64 || uniform(&mut self.rng) < self.plan.loss {
            return;
        }
        self.run.wait = self.run.wait.max(waits);
        self.free = self.now.max(self.free) + wire as i64;
        let arrives = self.free + self.plan.rtt / 2;
        self.run.longest = self.run.longest.max(arrives + self.plan.rtt / 2 - self.now);
        self.at(arrives, Event::Arrives { from, to, stamp });
    }

    fn arm(&mut self) {
        self.timer += 1;
        let rto = if self.srtt == 0 {
            1_000 * MS
        } else {
            self.srtt + (4 * self.rttvar).max(200 * MS)
        };
        let number = self.timer;
        self.at(
            self.now + (rto << self.backoff.min(6)),
            Event::Timer { number },
        );
    }

    fn send_new(&mut self) {
        loop {
            let in_flight = self.in_flight() as f64;
            let room = self
                .cwnd
                .min(self.plan.window as f64 - (self.next - self.una) as f64 + in_flight)
                - in_flight;
            let whole = (room / self.full() as f64).max(0.0) as u64;
            let ready = self.written.min(self.plan.bytes) - self.next;
            let segments = whole.min(self.plan.joined);
            let bytes = (segments * self.full()).min(ready);
            // Nagle: a short segment waits until it is the last.
            if bytes == 0
                || bytes < self.full()
                    && self.written < self.plan.bytes
                    && self.plan.writes.is_none()
            {
                return;
            }
            let (from, to) = (self.next, self.next + bytes);
            self.next = to;
            self.send(from, to);
            self.now += 2_000;
        }
    }

    fn pieces(&self) -> std::ops::Range<usize> {
        (self.una / self.full()) as usize..self.next.div_ceil(self.full()) as usize
    }

    fn in_flight(&self) -> u64 {
        let range = self.pieces();
        self.pieces[range]
            .iter()
            .filter(|p| !p.sacked && !p.lost)
            .count() as u64
            * self.full()
    }

    /// Sends what is known to be lost, as far as the window lets it; neighbours go together.
    fn repair(&mut self, why: Why, at_least: bool) {
        let mut first = at_least;
        loop {
            let range = self.pieces();
            let Some(at) = range.clone().find(|i| self.pieces[*i].lost) else {
                return;
            };
            if !first && self.in_flight() + self.full() > self.cwnd as u64 {
                return;
            }
            let mut end = at + 1;
            while !first
                && end < range.end
                && self.pieces[end].lost
                && ((end - at) as u64) < self.plan.joined
                && self.in_flight() + (end + 1 - at) as u64 * self.full() <= self.cwnd as u64
            {
                end += 1;
            }
            first = false;
            let (from, to) = (
                at as u64 * self.full(),
                (end as u64 * self.full()).min(self.next),
            );
            let piece = self.pieces[at];
            self.run.again.push(Again {
                t: T0 + self.now,
                start: from,
                end: to,
                why,
                before: T0 + piece.sent,
                from_joined: piece.joined && piece.times == 1,
            });
            self.send(from, to);
            self.now += 2_000;
        }
    }

    fn take(&mut self, event: Event) {
        match event {
            Event::Arrives { from, to, stamp } => self.arrives(from, to, stamp),
            Event::Acked { ack, sack, echo } => self.acked(ack, &sack, echo),
            Event::Timer { number } if number == self.timer && self.next > self.una => {
                self.time_out()
            }
            Event::Late { number } if number == self.late && self.unacked > 0 => self.acknowledge(),
            Event::Write => {
                let (bytes, pause) = self.plan.writes.expect("it writes");
                self.written += bytes;
                if self.written < self.plan.bytes {
                    self.at(self.now + pause, Event::Write);
                }
                self.send_new();
            }
            _ => {}
        }
    }

    fn time_out(&mut self) {
        self.ssthresh = (self.in_flight() as f64 / 2.0).max(2.0 * self.full() as f64);
        self.cwnd = self.full() as f64;
        for i in self.pieces() {
            self.pieces[i].lost = !self.pieces[i].sacked;
        }
        self.recover = self.next;
        self.repairing = true;
        self.backoff += 1;
        self.repair(Why::Timer, true);
    }

    fn acked(&mut self, ack: u64, sack: &[(u64, u64)], echo: u32) {
        let full = self.full();
        let mut p =
            Tcp::back(THEIRS + 1, ISN + 1 + ack as u32, 0).window((self.plan.window >> 8) as u16);
        let edges = |(l, r): &(u64, u64)| (ISN + 1 + *l as u32, ISN + 1 + *r as u32);
        let blocks: Vec<(u32, u32)> = sack.iter().take(3).map(edges).collect();
        if self.plan.stamps {
            p = p.timestamps(7, echo);
        }
        if !blocks.is_empty() {
            p = p.and(Tcp::back(0, 0, 0).sack(&blocks));
        }
        self.capture(p);
        for (l, r) in sack {
            for i in (l / full) as usize..r.div_ceil(full) as usize {
                self.pieces[i].sacked = true;
                self.pieces[i].lost = false;
            }
        }
        if ack > self.una {
            self.advance(ack);
        } else if self.next > self.una {
            self.duplicates += 1;
        }
        self.notice();
        if self.repairing {
            self.now += 15_000;
            self.repair(Why::Ack, false);
        } else {
            self.now += 15_000;
        }
        self.send_new();
    }

    fn advance(&mut self, ack: u64) {
        let full = self.full();
        let last = &self.pieces[((ack - 1) / full) as usize];
        if last.times == 1 && !last.sacked && !self.repairing {
            let rtt = self.now - last.sent;
            if self.srtt == 0 {
                (self.srtt, self.rttvar) = (rtt, rtt / 2);
            } else {
                self.rttvar += ((self.srtt - rtt).abs() - self.rttvar) / 4;
                self.srtt += (rtt - self.srtt) / 8;
            }
        }
        let newly = (ack - self.una) as f64;
        self.una = ack;
        self.duplicates = 0;
        self.backoff = 0;
        if self.repairing && ack >= self.recover {
            self.repairing = false;
            self.cwnd = self.ssthresh.min(self.cwnd.max(2.0 * full as f64));
        } else if !self.repairing || self.cwnd < self.ssthresh {
            let slow = self.cwnd < self.ssthresh;
            self.cwnd += if slow {
                newly
            } else {
                full as f64 * newly / self.cwnd
            };
        }
        // RFC 6582 section 3.2: a partial ACK tells of the next loss.
        if self.repairing && !self.plan.sack {
            let i = (self.una / full) as usize;
            if self.una < self.next && self.pieces[i].sent < self.now - self.srtt / 2 {
                self.pieces[i].lost = true;
                self.cwnd = self.cwnd.max(self.in_flight() as f64 + 2.0 * full as f64);
            }
        }
        self.arm();
    }

    /// Three duplicates, or three segments that SACK reports above a loss.
    fn notice(&mut self) {
        let (full, range) = (self.full(), self.pieces());
        let above = |m: &Model, i: usize| {
            m.pieces[i + 1..range.end]
                .iter()
                .filter(|p| p.sacked)
                .count()
        };
        if range.is_empty() {
            return;
        }
        let by_sack = self.plan.sack && above(self, range.start) >= 3;
        if !self.repairing && (self.duplicates >= 3 || by_sack) && !self.pieces[range.start].sacked
        {
            self.repairing = true;
            self.recover = self.next;
            self.ssthresh = (self.in_flight() as f64 / 2.0).max(2.0 * full as f64);
            self.pieces[range.start].lost = true;
            self.cwnd = self.ssthresh;
            self.repair(Why::Ack, true);
        }
        if self.repairing && self.plan.sack {
            for i in range.clone() {
                let p = self.pieces[i];
                if !p.sacked
                    && p.times == 1
                    && ((i as u64) * full) < self.recover
                    && above(self, i) >= 3
                {
                    self.pieces[i].lost = true;
                }
            }
        }
    }

    fn arrives(&mut self, from: u64, to: u64, stamp: u32) {
        self.latest = from;
        if from == self.expected {
            self.echo = stamp;
        }
        let fresh = to > self.expected;
        let in_order = from <= self.expected && self.got.is_empty();
        if fresh {
            self.got.insert(from, to);
        }
        while let Some((f, t)) = self.got.first_key_value().map(|(f, t)| (*f, *t)) {
            if f > self.expected {
                break;
            }
            self.expected = self.expected.max(t);
            self.got.remove(&f);
        }
        self.unacked += 1;
        if !in_order || !fresh || self.unacked >= 2 || self.plan.held_back.is_none() {
            self.acknowledge();
        } else {
            self.late += 1;
            let number = self.late;
            self.at(
                self.now + self.plan.held_back.unwrap_or(0),
                Event::Late { number },
            );
        }
    }

    fn acknowledge(&mut self) {
        self.unacked = 0;
        self.late += 1;
        let mut sack: Vec<(u64, u64)> = Vec::new();
        if self.plan.sack {
            for (f, t) in &self.got {
                match sack.last_mut() {
                    Some(last) if last.1 >= *f => last.1 = last.1.max(*t),
                    _ => sack.push((*f, *t)),
                }
            }
            // RFC 2018 section 4: the block of the segment that just came stands first.
            sack.reverse();
            let newest = |(f, t): &(u64, u64)| !(*f..*t).contains(&self.latest);
            sack.sort_by_key(newest);
        }
        let event = Event::Acked {
            ack: self.expected,
            sack,
            echo: self.echo,
        };
        self.at(self.now + self.plan.rtt / 2, event);
    }
}
