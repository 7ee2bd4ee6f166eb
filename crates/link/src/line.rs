//! One direction of a link: a queue, a transmitter that sends one packet at a time at the link's rate, then propagation
//! delay, drift, jitter, reordering, loss and duplication. A radio's transmitter may sleep after a long idle time. A
//! policer may drop packets in front of the queue, and a token bucket may limit the transmitter to a lower rate.
//!
//! The transmitter sends frames: a packet takes the time of its framed size ([`LinkParams::framing`]). Everything else
//! counts IP bytes: the queue and its limits, the policer, and the delivered bytes.
//!
//! The packet in transmission has left the queue: it counts neither as backlog nor towards a limit. Loss happens after
//! the queue and the transmitter, as noise on a real link does, so a lost packet has used its share of the rate.
//!
//! Departures happen at their due time, independent of polling. A host that polls late gets packets whose `at` is in
//! the past, and the next transmission started then. The rate is therefore exact even if the host is late. An arrival
//! may also be reported late, for example with the kernel's timestamp. It counts at its own time, or at the time of the
//! queue's latest event if that is later.

use crate::bucket::{Bucket, PolicerSpec, Shaper, ShaperSpec, shaped_rate};
use crate::drift::{Drift, DriftSpec};
use crate::impair::{
    Duplicate, Jitter, JitterSpec, Loss, LossSpec, Reorder, ReorderSpec, Sleep, SleepSpec,
};
use crate::qdisc::registry::{AnyQdisc, QdiscSpec};
use crate::qdisc::{Backlog, Fate, Fates, Qdisc, Reason};
use crate::rate::{Rate, Serializer};
use base::framing::Framing;
use base::record;
use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Packet, Time};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Parameters of one direction.
#[derive(Clone, Debug, PartialEq)]
pub struct LinkParams {
    /// Rate of frames on the wire.
    pub rate: Rate,
    /// Bytes on the wire for a packet.
    pub framing: Framing,
    /// Token bucket in front of the queue that drops.
    pub policer: Option<PolicerSpec>,
    /// Token bucket at the transmitter that delays.
    pub shaper: Option<ShaperSpec>,
    /// Propagation delay.
    pub delay: Duration,
    /// Slow change of the propagation delay.
    pub drift: Option<DriftSpec>,
    /// Law of the added delay.
    pub jitter: Option<JitterSpec>,
    /// Law of losses.
    pub loss: Option<LossSpec>,
    /// Law of reordering.
    pub reorder: Option<ReorderSpec>,
    /// Law of a radio's sleep.
    pub sleep: Option<SleepSpec>,
    /// Share of packets that arrive twice, 0 to 1.
    pub duplicate: f64,
    /// Queue in front of the link.
    pub queue: QdiscSpec,
}

impl LinkParams {
    /// Creates a link with only a queue, a rate and a delay.
    pub fn plain(rate: Rate, delay: Duration, queue: QdiscSpec) -> LinkParams {
        LinkParams {
            rate,
            framing: Framing::NONE,
            policer: None,
            shaper: None,
            delay,
            drift: None,
            jitter: None,
            loss: None,
            reorder: None,
            sleep: None,
            duplicate: 0.0,
            queue,
        }
    }

    /// Returns the sustainable rate in IP packets of this size: the lowest of the transmitter's mean rate, the shaper
    /// and the policer. Disciplines that shape are not considered.
    pub fn ip_rate(&self, size: Bytes) -> BitsPerSec {
        let bucket = |words: &base::words::Words| words.read::<crate::bucket::TokenBucket>().rate;
        let shaped = self.shaper.as_ref().map(shaped_rate);
        let sent = self.rate.mean().min(shaped.unwrap_or(self.rate.mean()));
        let wire = self.framing.wire(size).get().max(1);
        let ip = u128::from(sent.get()) * u128::from(size.get()) / u128::from(wire);
        let ip = BitsPerSec::new(ip as u64);
        let policed = self.policer.as_ref().map(|p| bucket(p.words()));
        ip.min(policed.unwrap_or(ip))
    }
}

/// Packet that has come out at the far end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Packet, with `ecn` as it left the queue: CE if the discipline has marked it.
    pub packet: Packet,
    /// Exit time; not later than the `now` of the poll.
    pub at: Time,
    /// Queueing delay, without the packet's own transmission time.
    pub sojourn: Duration,
    /// True if a duplicate comes out right after this packet: the host must keep its payload.
    pub again: bool,
}

/// Count of packets and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Number of packets.
    pub packets: u64,
    /// Their bytes.
    pub bytes: Bytes,
}

/// Counts since the start. Offered = dropped + backlog + on the link + delivered − duplicated, in packets and in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct LinkStats {
    /// Packets passed to [`Link::enqueue`].
    pub offered: Tally,
    /// Packets returned by [`Link::poll`], duplicates included.
    pub delivered: Tally,
    /// Bytes on the wire of the delivered packets.
    pub delivered_wire: Bytes,
    /// Duplicates among the delivered packets.
    pub duplicated: Tally,
    /// Packets dropped for each reason, in the order of [`Reason::ALL`].
    pub dropped: [Tally; Reason::ALL.len()],
    /// Packets marked with ECN CE by the discipline.
    pub marked: Tally,
    /// Backlog of the queue now.
    pub backlog: Backlog,
    /// Time in which a shaper lets the backlog out.
    pub drain: Option<Duration>,
    /// Packets in transmission or propagating now, duplicates not included.
    pub on_line: Tally,
    /// Queueing delay of the packet that left the queue last.
    pub last_sojourn: Option<Duration>,
    /// Drop or mark probability of the discipline, if it has one.
    pub probability: Option<f64>,
}

impl Tally {
    #[inline]
    pub(crate) fn add(&mut self, len: Bytes) {
        self.packets += 1;
        self.bytes += len;
    }
    #[inline]
    pub(crate) fn remove(&mut self, len: Bytes) {
        self.packets -= 1;
        self.bytes -= len;
    }
}

impl LinkStats {
    /// Packets dropped for this reason.
    pub fn dropped_for(&self, why: Reason) -> Tally {
        self.dropped[why as usize]
    }

    /// Returns the packets dropped for any reason.
    pub fn dropped_total(&self) -> Tally {
        self.dropped.iter().fold(Tally::default(), |a, b| Tally {
            packets: a.packets + b.packets,
            bytes: a.bytes + b.bytes,
        })
    }

    /// Returns the packets dropped by the queue or the policer, without loss on the link.
    pub fn dropped_by_queue(&self) -> u64 {
        self.dropped_total().packets - self.dropped_for(Reason::LineLoss).packets
    }

    /// Converts the counts to a row of a recording.
    pub fn row(&self, t_ns: i64, queue: record::Text) -> record::Queue {
        record::Queue {
            t_ns,
            queue,
            backlog_bytes: self.backlog.bytes.get() as i64,
            backlog_packets: self.backlog.packets as i64,
            sojourn_ns: self.last_sojourn.map(|d| d.as_nanos() as i64),
            drops: self.dropped_by_queue() as i64,
            marks: self.marked.packets as i64,
            probability: self.probability,
            delivered_bytes: self.delivered.bytes.get() as i64,
        }
    }
}

/// Packet in transmission.
#[derive(Clone, Copy, Debug)]
struct Sending {
    packet: Packet,
    sojourn: Duration,
    finish: Time,
}

/// Packet that others may overtake; ordered by arrival, then by transmission, so that packets with equal times come out
/// in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Straggler {
    delivery: Delivery,
    number: u64,
}

impl Ord for Straggler {
    fn cmp(&self, other: &Straggler) -> std::cmp::Ordering {
        (self.delivery.at, self.number).cmp(&(other.delivery.at, other.number))
    }
}
impl PartialOrd for Straggler {
    fn partial_cmp(&self, other: &Straggler) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

/// Link, one direction.
pub struct Link {
    qdisc: AnyQdisc,
    serializer: Serializer,
    /// Highest rate.
    peak: BitsPerSec,
    framing: Framing,
    policer: Option<Bucket>,
    shaper: Option<Shaper>,
    /// Time before which the shaper lets nothing out.
    held: Option<Time>,
    delay: Duration,
    drift: Option<Drift>,
    jitter: Option<Jitter>,
    loss: Option<Loss>,
    reorder: Option<Reorder>,
    duplicate: Option<Duplicate>,
    sleep: Option<Sleep>,
    sending: Option<Sending>,
    /// Packets that keep their order, by arrival time.
    in_order: VecDeque<Delivery>,
    stragglers: BinaryHeap<Reverse<Straggler>>,
    straggler_number: u64,
    /// Arrival time of the last packet that keeps its order.
    last_arrival: Time,
    /// Latest time passed to the discipline; its time does not go back.
    told: Time,
    stats: LinkStats,
}

impl Link {
    /// Creates a link. `name` is its direction, such as `up`; its random streams are named after it.
    pub fn new(params: &LinkParams, streams: &Streams, name: &str) -> Link {
        Link::with_qdisc(params, params.queue.build(streams, name), streams, name)
    }

    /// Creates a link with the caller's discipline instead of `params.queue`.
    pub fn with_qdisc(params: &LinkParams, qdisc: AnyQdisc, streams: &Streams, name: &str) -> Link {
        Link {
            qdisc,
            serializer: Serializer::new(params.rate.clone()),
            peak: params.rate.peak(),
            framing: params.framing,
            policer: params.policer.as_ref().map(|p| Bucket::of(p.words())),
            shaper: params.shaper.as_ref().map(Shaper::of),
            held: None,
            delay: params.delay,
            drift: params.drift.as_ref().map(|s| Drift::new(s, streams, name)),
            jitter: params
                .jitter
                .as_ref()
                .map(|s| Jitter::new(s, streams, name)),
            loss: params.loss.as_ref().map(|s| Loss::new(s, streams, name)),
            reorder: params
                .reorder
                .as_ref()
                .map(|s| Reorder::new(s, streams, name)),
            duplicate: (params.duplicate > 0.0)
                .then(|| Duplicate::new(params.duplicate, streams, name)),
            sleep: params.sleep.as_ref().map(Sleep::new),
            sending: None,
            in_order: VecDeque::new(),
            stragglers: BinaryHeap::new(),
            straggler_number: 0,
            last_arrival: Time::ZERO,
            told: Time::ZERO,
            stats: LinkStats::default(),
        }
    }

    /// Returns the delay of a packet of `len` bytes that finds the link idle and at its highest rate.
    pub fn idle_delay(&self, len: Bytes) -> Duration {
        let sending = match self.peak {
            BitsPerSec::ZERO => Duration::ZERO,
            rate => self.framing.wire(len).serialization_delay_ceil(rate),
        };
        self.delay + sending
    }

    /// Adds a packet that arrives at the queue. Packets dropped or marked because of it, or dropped since the last
    /// call, are added to `fates`.
    #[inline]
    pub fn enqueue(&mut self, now: Time, packet: Packet, fates: &mut Fates) {
        // Departures that were due before this arrival come first: they free space.
        self.advance(now, fates);
        self.told = self.told.max(now);
        self.stats.offered.add(packet.len);
        if let Some(policer) = &mut self.policer
            && !policer.admits(self.told, packet.len)
        {
            fates.dropped(packet, Reason::Policed);
            self.stats.dropped[Reason::Policed as usize].add(packet.len);
            return;
        }
        let seen = fates.list.len();
        self.qdisc.enqueue(self.told, packet, fates);
        self.count(&fates.list[seen..]);
        if self.sending.is_none() {
            self.start(self.told, fates);
        }
    }

    /// Returns the next packet that has come out by `now`, in order of arrival; `None` if there is none yet. Call it
    /// until it returns `None`.
    #[inline]
    pub fn poll(&mut self, now: Time, fates: &mut Fates) -> Option<Delivery> {
        self.advance(now, fates);
        let delivery = if self.straggler_is_first() {
            self.stragglers.peek().filter(|s| s.0.delivery.at <= now)?;
            self.stragglers.pop()?.0.delivery
        } else {
            self.in_order.front().filter(|d| d.at <= now)?;
            self.in_order.pop_front()?
        };
        self.stats.delivered.add(delivery.packet.len);
        self.stats.delivered_wire += self.framing.wire(delivery.packet.len);
        if delivery.again {
            self.stats.duplicated.add(delivery.packet.len);
        } else {
            self.stats.on_line.remove(delivery.packet.len);
        }
        Some(delivery)
    }

    /// Returns the earliest time at which a packet may come out; polling before is useless. `None` if nothing can
    /// happen before the next arrival. The transmitter needs no wake-up of its own: the next call processes its events
    /// at the times at which they were due.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        let mut first = match &self.sending {
            // Impairments can only add to the propagation delay.
            Some(sending) if sending.finish < Time::MAX => sending.finish + self.delay,
            Some(_) => Time::MAX,
            None => match self.held {
                Some(held) => held + self.delay,
                None => self.qdisc.next_wakeup().unwrap_or(Time::MAX),
            },
        };
        if let Some(delivery) = self.in_order.front() {
            first = first.min(delivery.at);
        }
        if let Some(Reverse(straggler)) = self.stragglers.peek() {
            first = first.min(straggler.delivery.at);
        }
        (first < Time::MAX).then_some(first)
    }

    /// Returns the counts as of the latest `enqueue` or `poll`. To sample the queue at some time, poll at that time
    /// first.
    pub fn stats(&self) -> LinkStats {
        LinkStats {
            backlog: self.qdisc.backlog(),
            drain: self.shaper.map(|shaper| {
                let backlog = self.qdisc.backlog().bytes;
                shaper.drain(self.told, backlog, self.peak)
            }),
            probability: self.qdisc.probability(),
            ..self.stats
        }
    }

    /// Changes the rate, which must be above zero; the packet in transmission ends at its old rate. Poll first, so that
    /// transmissions due before have started.
    pub fn set_rate(&mut self, rate: BitsPerSec) {
        self.serializer.change(rate);
    }

    /// Discipline of the link's queue.
    pub fn qdisc(&self) -> &AnyQdisc {
        &self.qdisc
    }

    /// Advances the transmitter to `now`, each step at its due time.
    fn advance(&mut self, now: Time, fates: &mut Fates) {
        loop {
            match self.sending {
                Some(sending) if sending.finish <= now => {
                    self.propagate(sending, fates);
                    self.start(sending.finish, fates);
                }
                Some(_) => return,
                None => {
                    if let Some(held) = self.held {
                        if held > now {
                            return;
                        }
                        self.start(held.max(self.told), fates);
                        continue;
                    }
                    // Idle; a discipline that holds packets back may need a call.
                    let Some(due) = self.qdisc.next_wakeup().filter(|t| *t <= now) else {
                        return;
                    };
                    self.start(due.max(self.told), fates);
                    let again = self.qdisc.next_wakeup();
                    assert!(
                        self.sending.is_some() || again.is_none_or(|t| t > due),
                        "a discipline asked to be woken at {due}, gave nothing, and asks for {again:?} again"
                    );
                }
            }
        }
    }

    /// Takes the next packet from the discipline for transmission at `at`.
    #[inline]
    fn start(&mut self, at: Time, fates: &mut Fates) {
        self.told = at;
        self.held = (self.shaper.as_mut())
            .filter(|_| self.qdisc.backlog().packets > 0)
            .and_then(|shaper| shaper.held(at));
        if self.held.is_some() {
            self.sending = None;
            return;
        }
        let seen = fates.list.len();
        let packet = self.qdisc.dequeue(at, fates);
        self.count(&fates.list[seen..]);
        self.sending = packet.map(|packet| {
            let sojourn = at.saturating_since(packet.enqueued);
            self.stats.last_sojourn = Some(sojourn);
            self.stats.on_line.add(packet.len);
            let frame = self.framing.wire(packet.len);
            let awake = at + self.sleep.map_or(Duration::ZERO, |s| s.wait(at));
            let begin = match &mut self.shaper {
                Some(shaper) => shaper.release(awake, frame),
                None => awake,
            };
            let finish = self.serializer.finish(begin, frame);
            if let Some(sleep) = &mut self.sleep {
                sleep.sent(finish);
            }
            Sending {
                packet,
                sojourn,
                finish,
            }
        });
    }

    /// Passes a packet whose last bit has left the transmitter to the propagation stage.
    #[inline]
    fn propagate(&mut self, sending: Sending, fates: &mut Fates) {
        let Sending {
            packet,
            sojourn,
            finish,
        } = sending;
        // Every packet draws from every stream, so that one impairment does not change another's draws.
        let lost = self.loss.as_mut().is_some_and(|l| l.draw(finish));
        let jitter = self.jitter.as_mut().map_or(Duration::ZERO, Jitter::draw);
        let held_back = self.reorder.as_mut().and_then(Reorder::draw);
        let twice = self.duplicate.as_mut().is_some_and(Duplicate::draw);
        let drift = self.drift.as_mut().map_or(Duration::ZERO, |d| d.at(finish));
        if lost {
            fates.dropped(packet, Reason::LineLoss);
            self.stats.dropped[Reason::LineLoss as usize].add(packet.len);
            self.stats.on_line.remove(packet.len);
            return;
        }
        let mut delivery = Delivery {
            packet,
            at: finish + self.delay + drift + jitter,
            sojourn,
            again: twice,
        };
        let on_its_own =
            held_back.is_some() || self.jitter.as_ref().is_some_and(|j| j.may_overtake);
        delivery.at += held_back.unwrap_or_default();
        if !on_its_own {
            delivery.at = delivery.at.max(self.last_arrival);
            self.last_arrival = delivery.at;
        }
        for again in [true, false] {
            let delivery = Delivery { again, ..delivery };
            if again && !twice {
                continue;
            }
            if on_its_own {
                self.stragglers.push(Reverse(Straggler {
                    delivery,
                    number: self.straggler_number,
                }));
                self.straggler_number += 1;
            } else {
                self.in_order.push_back(delivery);
            }
        }
    }

    #[inline]
    fn straggler_is_first(&self) -> bool {
        match (self.stragglers.peek(), self.in_order.front()) {
            (Some(s), Some(d)) => s.0.delivery.at < d.at,
            (straggler, _) => straggler.is_some(),
        }
    }

    #[inline]
    fn count(&mut self, fates: &[(Packet, Fate)]) {
        for (packet, fate) in fates {
            match fate {
                Fate::Dropped(why) => self.stats.dropped[*why as usize].add(packet.len),
                Fate::Marked(_) => self.stats.marked.add(packet.len),
            }
        }
    }
}
