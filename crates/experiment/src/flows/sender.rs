//! Sender of datagrams that a congestion controller paces, with feedback for each datagram.
//!
//! **Method.** The window and the pacing rate are the controller's. A datagram is lost once one that was sent three later
//! has been echoed, or one sent later and 9/8 round trips have passed (RFC 9002 section 6.1). Losses and marks become events
//! of the controller as TCP reports them: one loss event in each round trip, and the marked bytes of each echo. Nothing is
//! sent again: the data has no contents.
//!
//! **Source.** RFC 9002, QUIC Loss Detection and Congestion Control, sections 6.1 and 6.2; `congestion` has the controllers.

use base::rng::Streams;
use base::{BitsPerSec, Bytes, Duration, Time};
use congestion::rtt::Params;
use congestion::{
    Ack, AnyController, Congestion, Controller, ControllerSpec, DeliveryRate, RttEstimator, Sent,
    Setup, Stamp, window_rate,
};
use std::collections::BTreeMap;

/// Datagrams that are echoed after one that counts as lost (RFC 9002 section 6.1.1).
const REORDERED: u32 = 3;
/// Time that a late sender may catch up.
const CATCH_UP: Duration = Duration::from_millis(2);
/// Factor on the window's rate while the window doubles, and later, for a controller that does not pace (Linux).
const GAINS: (f64, f64) = (2.0, 1.2);

struct Out {
    at: Time,
    stamp: Stamp,
}

/// Echo of a datagram as the sender understands it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Echoed {
    /// Round trip of the datagram.
    pub rtt: Duration,
    /// Time at which it was sent.
    pub sent: Time,
    /// Send times of datagrams that count as lost from now on.
    pub lost: Vec<Time>,
}

/// Paced sender of one flow.
pub struct Sender {
    controller: AnyController,
    rtt: RttEstimator,
    rate: DeliveryRate,
    out: BTreeMap<u32, Out>,
    len: Bytes,
    next: u32,
    next_at: Time,
    /// Time since which the window has room.
    room_at: Time,
    /// First number that was sent after the latest loss event.
    recovered_from: u32,
    timed_out: bool,
}

impl Sender {
    /// Creates a sender of datagrams with a payload of `len`, whose numbers start at `first`.
    pub fn new(
        controller: &ControllerSpec,
        len: Bytes,
        first: u32,
        now: Time,
        rtt: Duration,
    ) -> Sender {
        let setup = Setup::new(len);
        let mut controller = controller.build(&setup, now, &Streams::new(1), "flow");
        controller.on_established(now, rtt);
        let mut estimator = RttEstimator::new(Params::linux());
        estimator.on_sample(rtt);
        Sender {
            controller,
            rtt: estimator,
            rate: DeliveryRate::new(),
            out: BTreeMap::new(),
            len,
            next: first,
            next_at: now,
            room_at: now,
            recovered_from: first,
            timed_out: false,
        }
    }

    fn inflight(&self) -> Bytes {
        self.len * self.out.len() as u64
    }

    /// Time from which the next datagram may be sent; null while the window is full.
    pub fn due(&self) -> Option<Time> {
        self.has_room().then_some(self.next_at.max(self.room_at))
    }

    fn has_room(&self) -> bool {
        self.inflight() + self.len <= self.controller.cwnd()
    }

    /// Time at which the oldest datagram counts as lost without further echoes.
    pub fn times_out(&self) -> Option<Time> {
        let oldest = self.out.values().next()?;
        Some(oldest.at + self.rtt.rto())
    }

    fn gap(&self) -> Duration {
        let own = self.controller.pacing_rate();
        let rate = own.or_else(|| {
            let starts = self
                .controller
                .ssthresh()
                .is_none_or(|s| self.controller.cwnd() < s / 2);
            let gain = if starts { GAINS.0 } else { GAINS.1 };
            window_rate(self.controller.cwnd(), self.rtt.srtt()?, gain)
        });
        let rate = rate.unwrap_or(BitsPerSec::from_mbps(1));
        self.len
            .serialization_delay_ceil(rate.max(BitsPerSec::new(8)))
    }

    /// Records that a datagram leaves now; returns its number.
    pub fn on_sent(&mut self, now: Time) -> u32 {
        let number = self.next;
        self.next = self.next.wrapping_add(1);
        let inflight_before = self.inflight();
        let stamp = self.rate.on_sent(now, inflight_before, self.len);
        self.controller.on_sent(
            now,
            &Sent {
                bytes: self.len,
                inflight_before,
                idle: None,
            },
        );
        self.out.insert(number, Out { at: now, stamp });
        let kept = Time::ZERO + now.saturating_since(Time::ZERO + CATCH_UP);
        self.next_at = (self.next_at + self.gap()).max(kept);
        number
    }

    /// Handles the echo of a datagram that arrived at `now`; null if that datagram is not in flight.
    pub fn on_echo(&mut self, now: Time, number: u32, ce: bool) -> Option<Echoed> {
        let (inflight_before, had_room) = (self.inflight(), self.has_room());
        let out = self.out.remove(&number)?;
        let rtt = now.saturating_since(out.at);
        self.rtt.on_sample(rtt);
        self.timed_out = false;
        let patience = self.rtt.srtt().unwrap_or(rtt).max(rtt) * 9 / 8;
        let is_lost = |(n, o): &(&u32, &Out)| {
            **n + REORDERED <= number || now.saturating_since(o.at) >= patience
        };
        let before = self.out.range(..number);
        let lost: Vec<u32> = before.filter(is_lost).map(|(n, _)| *n).collect();
        let times = self.lose(now, &lost);
        if lost.iter().any(|n| *n >= self.recovered_from) {
            self.recovered_from = self.next;
            let flight = inflight_before;
            self.controller
                .on_congestion(now, &Congestion::Loss { flight });
        }
        self.rate.on_delivered(now, &out.stamp, self.len);
        let delivery = self.rate.finish(self.rtt.min_rtt());
        let ack = Ack {
            newly_acked: self.len,
            inflight_before,
            inflight: self.inflight(),
            paced_for: Duration::ZERO,
            rtt: Some(rtt),
            one_way_delay: None,
            min_rtt: self.rtt.min_rtt(),
            srtt: self.rtt.srtt(),
            ce_bytes: if ce { self.len } else { Bytes::ZERO },
            newly_lost: self.len * lost.len() as u64,
            delivered: self.rate.delivered(),
            prior_delivered: delivery.map_or(Bytes::ZERO, |d| d.prior_delivered),
            rate: delivery.and_then(|d| d.rate),
            cwnd_limited: true,
            in_recovery: number < self.recovered_from,
        };
        self.controller.on_ack(now, &ack);
        if !had_room {
            self.room_at = now;
        }
        Some(Echoed {
            rtt,
            sent: out.at,
            lost: times,
        })
    }

    /// Handles a time-out: all datagrams in flight are lost. Returns their send times.
    pub fn on_timeout(&mut self, now: Time) -> Vec<Time> {
        let flight = self.inflight();
        let all: Vec<u32> = self.out.keys().copied().collect();
        let times = self.lose(now, &all);
        self.rtt.on_timeout();
        self.recovered_from = self.next;
        let repeated = std::mem::replace(&mut self.timed_out, true);
        self.controller
            .on_congestion(now, &Congestion::Rto { flight, repeated });
        self.room_at = now;
        times
    }

    fn lose(&mut self, now: Time, numbers: &[u32]) -> Vec<Time> {
        let mut times = Vec::new();
        for number in numbers {
            if let Some(out) = self.out.remove(number) {
                let lost = self.rate.on_lost(&out.stamp, self.len);
                self.controller.on_lost(now, &lost);
                times.push(out.at);
            }
        }
        times
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: Bytes = Bytes::new(1000);

    fn sender(controller: &str) -> Sender {
        let spec = controller.parse().expect("a controller");
        Sender::new(&spec, LEN, 0, Time::ZERO, Duration::from_millis(20))
    }

    /// Sends what the window allows, spaced as the sender wants it; returns the numbers.
    fn fill(s: &mut Sender, mut now: Time) -> Vec<u32> {
        let mut sent = Vec::new();
        while let Some(at) = s.due() {
            now = now.max(at);
            sent.push(s.on_sent(now));
        }
        sent
    }

    #[test]
    fn it_fills_its_window_and_paces() {
        let mut s = sender("prague");
        let first = s.due();
        let sent = fill(&mut s, Time::ZERO);
        assert_eq!((first, sent.len()), (Some(Time::ZERO), 10));
        // Ten datagrams at two windows in 20 ms: one a millisecond.
        assert!(
            s.next_at >= Time::ZERO + Duration::from_millis(8),
            "{:?}",
            s.next_at
        );
    }

    #[test]
    fn a_gap_of_three_is_one_loss_event_and_marks_reach_the_controller() {
        let mut s = sender("prague");
        let sent = fill(&mut s, Time::ZERO);
        let now = Time::ZERO + Duration::from_millis(30);
        // The first three do not come back; the sixth shows that the first three are lost.
        for n in &sent[3..5] {
            let echoed = s.on_echo(now, *n, false).expect("it was in flight");
            assert!(echoed.lost.len() <= 2);
        }
        let before = s.controller.cwnd();
        s.on_echo(now, sent[6], true);
        assert_eq!(s.on_echo(now, sent[0], false), None);
        assert!(s.controller.cwnd() <= before);
        assert_eq!(s.on_timeout(now).len(), s.next as usize - 3 - 3);
        assert_eq!(s.inflight(), Bytes::ZERO);
    }
}
