//! Events for the controllers' tests: a full window, acknowledged piece by piece.

use crate::controller::{Ack, Congestion, Controller, Idle, RateSample, Sent};
use crate::delivery_rate::{DeliveryRate, Stamp};
use crate::rtt::{Params, RttEstimator};
use base::{BitsPerSec, Bytes, Duration, Time};
use std::collections::VecDeque;

/// Makes an ACK for `bytes` of a full window.
pub fn ack(controller: &impl Controller, bytes: u64) -> Ack {
    let flight = controller.cwnd();
    Ack {
        newly_acked: Bytes::new(bytes),
        inflight_before: flight,
        inflight: flight.saturating_sub(Bytes::new(bytes)),
        rtt: Some(Duration::from_millis(100)),
        min_rtt: Some(Duration::from_millis(100)),
        srtt: Some(Duration::from_millis(100)),
        cwnd_limited: true,
        ..Ack::default()
    }
}
/// Returns the bytes outstanding in a full window.
pub fn flight(controller: &impl Controller) -> u64 {
    controller.cwnd().get()
}
/// Congestion by a loss with `flight` bytes in flight.
pub fn loss(flight: u64) -> Congestion {
    Congestion::Loss {
        flight: Bytes::new(flight),
    }
}
/// Congestion by a time-out with `flight` bytes in flight.
pub fn rto(flight: u64) -> Congestion {
    Congestion::Rto {
        flight: Bytes::new(flight),
        repeated: false,
    }
}
/// Segment sent after a silence.
pub fn idle(restart: bool) -> Sent {
    Sent {
        bytes: Bytes::new(1000),
        inflight_before: Bytes::ZERO,
        idle: Some(Idle {
            lasted: Duration::from_secs(10),
            restart,
        }),
    }
}

/// Flow whose window is always full, acknowledged round trip by round trip.
pub struct Flow {
    /// Present time.
    pub now: Time,
    min_rtt: Duration,
    delivered: Bytes,
    prior_delivered: Bytes,
    /// Marked segments out of every hundred.
    pub marked_of_hundred: u64,
    count: u64,
}

impl Flow {
    /// Creates a flow with its least round trip.
    pub fn new(min_rtt: Duration) -> Flow {
        Flow {
            now: Time::ZERO,
            min_rtt,
            delivered: Bytes::ZERO,
            prior_delivered: Bytes::ZERO,
            marked_of_hundred: 0,
            count: 0,
        }
    }

    /// Returns the next ACK, for one segment.
    pub fn ack(&mut self, controller: &impl Controller, mss: u64, rtt: Duration) -> Ack {
        self.delivered += Bytes::new(mss);
        self.count += 1;
        let marked = self.count % 100 < self.marked_of_hundred;
        let interval = rtt.max(Duration::from_nanos(1));
        Ack {
            rtt: Some(rtt),
            one_way_delay: Some(rtt / 2),
            min_rtt: Some(self.min_rtt),
            srtt: Some(rtt),
            ce_bytes: Bytes::new(if marked { mss } else { 0 }),
            delivered: self.delivered,
            prior_delivered: self.prior_delivered,
            rate: Some(RateSample {
                delivered: controller.cwnd(),
                interval,
                app_limited: false,
                tx_in_flight: controller.cwnd(),
                lost: Bytes::ZERO,
            }),
            ..ack(controller, mss)
        }
    }

    /// Runs one round trip: an ACK for each segment that the window held at its start.
    pub fn round(&mut self, controller: &mut impl Controller, mss: u64, rtt: Duration) {
        let segments = (controller.cwnd().get() / mss).max(1);
        self.prior_delivered = self.delivered;
        for _ in 0..segments {
            self.now += rtt / segments;
            let ack = self.ack(controller, mss, rtt);
            controller.on_ack(self.now, &ack);
        }
    }
}

/// Link of one rate and one delay with unlimited buffer, and a sender that always has data: enough to see a controller
/// find bandwidth and RTT.
pub struct Line {
    /// Present time.
    pub now: Time,
    rate: BitsPerSec,
    rtt: Duration,
    delivery: DeliveryRate,
    estimator: RttEstimator,
    /// Segments in flight: when the sender learns of its fate, the stamp made at sending, and true if it arrives.
    underway: VecDeque<(Time, Stamp, bool)>,
    inflight: Bytes,
    line_free: Time,
    next_send: Time,
    queued: Duration,
    /// Queue limit in segments, above which segments are dropped; none by default.
    pub buffer: Option<u64>,
    recovery_until: Option<Bytes>,
    newly_lost: Bytes,
    /// Dropped segments.
    pub drops: u64,
}

const SEGMENT: Bytes = Bytes::new(1000);

impl Line {
    /// Creates a link with its rate and base round trip.
    pub fn new(rate: BitsPerSec, rtt: Duration) -> Line {
        Line {
            now: Time::ZERO,
            rate,
            rtt,
            delivery: DeliveryRate::new(),
            estimator: RttEstimator::new(Params::default()),
            underway: VecDeque::new(),
            inflight: Bytes::ZERO,
            line_free: Time::ZERO,
            next_send: Time::ZERO,
            queued: Duration::ZERO,
            buffer: None,
            recovery_until: None,
            newly_lost: Bytes::ZERO,
            drops: 0,
        }
    }

    /// Returns the fraction of the link's capacity used since the start.
    pub fn utilisation(&self) -> f64 {
        let capacity = self.rate.bytes_in_floor(self.now - Time::ZERO);
        self.delivery.delivered().get() as f64 / capacity.get() as f64
    }
    /// Returns the mean queueing delay.
    pub fn mean_queue(&self) -> Duration {
        self.queued / (self.delivery.delivered().get() / SEGMENT.get()).max(1)
    }

    /// Runs the controller over the link until `until`.
    pub fn run(&mut self, c: &mut impl Controller, until: Time) {
        loop {
            let may_send = self.inflight + SEGMENT <= c.cwnd();
            let send_at = may_send.then_some(self.next_send.max(self.now));
            let ack_at = self.underway.front().map(|(at, ..)| *at);
            let Some(next) = [send_at, ack_at].into_iter().flatten().min() else {
                panic!("nothing to do: the window {} is below a segment", c.cwnd());
            };
            if next > until {
                self.now = until;
                return;
            }
            self.now = next;
            if send_at == Some(next) {
                self.send(c);
            } else {
                self.acknowledge(c);
            }
        }
    }

    fn send(&mut self, c: &mut impl Controller) {
        let stamp = self.delivery.on_sent(self.now, self.inflight, SEGMENT);
        c.on_sent(
            self.now,
            &Sent {
                bytes: SEGMENT,
                inflight_before: self.inflight,
                idle: None,
            },
        );
        self.inflight += SEGMENT;
        let time = SEGMENT.serialization_delay_ceil(self.rate);
        let waits = self.line_free.saturating_since(self.now);
        if let Some(rate) = c.pacing_rate() {
            let gap = SEGMENT.serialization_delay_ceil(rate);
            self.next_send = self.next_send.max(self.now) + gap;
        }
        if self.buffer.is_some_and(|most| waits > time * most) {
            // The sender learns of it by the ACK of the segment before it.
            self.drops += 1;
            self.underway
                .push_back((self.line_free + self.rtt, stamp, false));
            return;
        }
        self.queued += waits;
        self.line_free = self.now.max(self.line_free) + time;
        self.underway
            .push_back((self.line_free + self.rtt, stamp, true));
    }

    fn acknowledge(&mut self, c: &mut impl Controller) {
        let (_, stamp, arrives) = self.underway.pop_front().expect("an ACK is due");
        let inflight_before = self.inflight;
        self.inflight -= SEGMENT;
        if !arrives {
            let lost = self.delivery.on_lost(&stamp, SEGMENT);
            self.newly_lost += SEGMENT;
            c.on_lost(self.now, &lost);
            if self.recovery_until.is_none() {
                self.recovery_until = Some(self.delivery.delivered() + self.inflight);
                c.on_congestion(self.now, &loss(inflight_before.get()));
            }
            return;
        }
        let rtt = self.now - stamp.sent();
        self.estimator.on_sample(rtt);
        self.delivery.on_delivered(self.now, &stamp, SEGMENT);
        let delivery = self
            .delivery
            .finish(self.estimator.min_rtt())
            .expect("one was delivered");
        if self
            .recovery_until
            .is_some_and(|until| self.delivery.delivered() >= until)
        {
            self.recovery_until = None;
        }
        let ack = Ack {
            newly_acked: SEGMENT,
            newly_lost: std::mem::take(&mut self.newly_lost),
            inflight_before,
            inflight: self.inflight,
            rtt: Some(rtt),
            one_way_delay: Some(rtt - self.rtt / 2),
            min_rtt: self.estimator.min_rtt(),
            srtt: self.estimator.srtt(),
            delivered: self.delivery.delivered(),
            prior_delivered: delivery.prior_delivered,
            rate: delivery.rate,
            cwnd_limited: true,
            in_recovery: self.recovery_until.is_some(),
            ..Ack::default()
        };
        c.on_ack(self.now, &ack);
    }
}
