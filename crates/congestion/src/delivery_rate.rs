//! Delivery rate of the network, measured for each segment: the bytes delivered between its sending and its
//! acknowledgement, divided by the longer of the send and the ACK interval. Neither bursts of data nor bunched ACKs
//! therefore look like a faster link.
//!
//! **Source**: draft-ietf-ccwg-bbr-04, "BBR Congestion Control" (Cardwell, Swett, Beshay, 2025),
//! section 4.1, which took over draft-cheng-iccrg-delivery-rate-estimation, "Delivery Rate Estimation"
//! (Cheng, Cardwell, Hassas Yeganeh, Jacobson, 2022).
//!
//! **Deviations**: segments carry no number. Of segments sent at the same instant the one reported last counts as
//! newest, so report them in the order in which they were sent.
//!
//! **Units**: payload bytes, ns.
//!
//! **Validated against**: the worked example in the tests.

use crate::controller::{Lost, RateSample};
use base::{Bytes, Duration, Time};

/// State that the endpoint stores with every outstanding segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamp {
    /// Bytes delivered on the connection when the segment was sent, and the time of the last delivery.
    delivered: Bytes,
    delivered_time: Time,
    /// Start of the flight that this segment ends, and send time of the segment itself.
    first_sent: Time,
    sent: Time,
    /// Bytes outstanding, this segment included.
    tx_in_flight: Bytes,
    lost: Bytes,
    app_limited: bool,
}

impl Stamp {
    /// Time at which the segment was sent.
    #[inline]
    pub fn sent(&self) -> Time {
        self.sent
    }
}

/// Delivery information of one ACK.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delivery {
    /// Value for [`crate::Ack::prior_delivered`].
    pub prior_delivered: Bytes,
    /// Value for [`crate::Ack::rate`]; absent if the interval is shorter than the smallest RTT.
    pub rate: Option<RateSample>,
}

/// Delivery-rate estimator of one connection.
#[derive(Clone, Copy, Debug, Default)]
pub struct DeliveryRate {
    delivered: Bytes,
    lost: Bytes,
    delivered_time: Time,
    first_sent: Time,
    /// Delivered bytes up to which the connection is application-limited.
    app_limited_until: Option<Bytes>,
    /// Newest segment reported by the ACK being processed.
    newest: Option<Stamp>,
}

impl DeliveryRate {
    /// Creates an estimator of a new connection.
    pub fn new() -> DeliveryRate {
        DeliveryRate::default()
    }

    /// Returns the total payload delivered so far.
    #[inline]
    pub fn delivered(&self) -> Bytes {
        self.delivered
    }
    /// Returns the total payload deemed lost so far.
    #[inline]
    pub fn lost(&self) -> Bytes {
        self.lost
    }
    /// True while the application limits the rate.
    #[inline]
    pub fn is_app_limited(&self) -> bool {
        self.app_limited_until.is_some()
    }

    /// Records a segment sent, for the first time or again (section 4.1.2.3).
    #[inline]
    pub fn on_sent(&mut self, now: Time, inflight_before: Bytes, bytes: Bytes) -> Stamp {
        if inflight_before == Bytes::ZERO {
            // Nothing was in flight: the interval starts now.
            self.first_sent = now;
            self.delivered_time = now;
        }
        Stamp {
            delivered: self.delivered,
            delivered_time: self.delivered_time,
            first_sent: self.first_sent,
            sent: now,
            tx_in_flight: inflight_before + bytes,
            lost: self.lost,
            app_limited: self.app_limited_until.is_some(),
        }
    }

    /// Records a segment newly reported as received. Call it for each segment, then [`DeliveryRate::finish`].
    #[inline]
    pub fn on_delivered(&mut self, now: Time, stamp: &Stamp, bytes: Bytes) {
        self.delivered += bytes;
        self.delivered_time = now;
        if self.newest.is_none_or(|newest| stamp.sent >= newest.sent) {
            self.newest = Some(*stamp);
        }
    }

    /// Records a segment deemed lost; returns the argument for [`crate::Controller::on_lost`].
    pub fn on_lost(&mut self, stamp: &Stamp, bytes: Bytes) -> Lost {
        self.lost += bytes;
        Lost {
            bytes,
            tx_in_flight: stamp.tx_in_flight,
            lost_since_sent: self.lost.saturating_sub(stamp.lost),
            delivered: self.delivered,
            app_limited: stamp.app_limited,
        }
    }

    /// Finishes an ACK after all its segments are recorded; `None` if it reported none.
    #[inline]
    pub fn finish(&mut self, min_rtt: Option<Duration>) -> Option<Delivery> {
        if self
            .app_limited_until
            .is_some_and(|until| self.delivered > until)
        {
            self.app_limited_until = None;
        }
        let newest = self.newest.take()?;
        self.first_sent = newest.sent;
        // Section 4.1.1.2.4: the longer of the two gives the smaller rate.
        let send_elapsed = newest.sent.saturating_since(newest.first_sent);
        let ack_elapsed = self.delivered_time.saturating_since(newest.delivered_time);
        let interval = send_elapsed.max(ack_elapsed);
        let reliable = !interval.is_zero() && min_rtt.is_none_or(|min| interval >= min);
        Some(Delivery {
            prior_delivered: newest.delivered,
            rate: reliable.then(|| RateSample {
                delivered: self.delivered.saturating_sub(newest.delivered),
                interval,
                app_limited: newest.app_limited,
                tx_in_flight: newest.tx_in_flight,
                lost: self.lost.saturating_sub(newest.lost),
            }),
        })
    }

    /// Marks the connection as application-limited: the window and pacing allow more, but there is nothing to send
    /// (section 4.1.2.5). Samples of the next RTT say little about the network.
    pub fn app_limited(&mut self, inflight: Bytes) {
        self.app_limited_until = Some((self.delivered + inflight).max(Bytes::new(1)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::BitsPerSec;

    const MSS: Bytes = Bytes::new(1000);

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    /// Sends ten segments at once over a link of 8 Mbit/s (1 ms each) with 50 ms of propagation delay.
    fn flight() -> (DeliveryRate, Vec<Stamp>) {
        let mut rate = DeliveryRate::new();
        let stamps = (0..10).map(|i| rate.on_sent(ms(0), MSS * i, MSS)).collect();
        (rate, stamps)
    }

    #[test]
    fn a_burst_over_a_slow_line_measures_the_line() {
        let (mut rate, stamps) = flight();
        let mut last = None;
        for (i, stamp) in stamps.iter().enumerate() {
            rate.on_delivered(ms(51 + i as u64), stamp, MSS);
            last = rate.finish(Some(Duration::from_millis(51)));
            assert_eq!(last.unwrap().prior_delivered, Bytes::ZERO);
        }
        // 10 segments in 60 ms since the first was sent: the interval includes the link's latency once.
        let sample = last.unwrap().rate.unwrap();
        assert_eq!(
            (sample.delivered, sample.interval),
            (MSS * 10, Duration::from_millis(60))
        );

        // The next round trip is sent as ACKs come.
        let mut rate = flight().0;
        let (_, first) = flight();
        let mut second = Vec::new();
        for (i, stamp) in first.iter().enumerate() {
            let now = ms(51 + i as u64);
            rate.on_delivered(now, stamp, MSS);
            rate.finish(None);
            second.push(rate.on_sent(now, MSS * 9, MSS));
        }
        for (i, stamp) in second.iter().enumerate() {
            rate.on_delivered(ms(102 + i as u64), stamp, MSS);
            last = rate.finish(Some(Duration::from_millis(51)));
        }
        let sample = last.unwrap().rate.unwrap();
        // Sent at 60 ms when 10 were delivered, reported at 111 ms when 20 were: 51 ms; but the flight
        // that it ends began with the last segment of the burst, at 0 ms: 60 ms to send.
        assert_eq!(
            (sample.delivered, sample.interval),
            (MSS * 10, Duration::from_millis(60))
        );
        assert!(sample.rate() < BitsPerSec::from_mbps(8));
        assert_eq!(sample.tx_in_flight, MSS * 10);
    }

    #[test]
    fn bunched_acks_do_not_look_like_a_faster_line() {
        let mut rate = DeliveryRate::new();
        // One segment every 10 ms, all acknowledged at once at 150 ms.
        let stamps: Vec<Stamp> = (0..10)
            .map(|i| rate.on_sent(ms(10 * i), MSS * i, MSS))
            .collect();
        for stamp in &stamps {
            rate.on_delivered(ms(150), stamp, MSS);
        }
        let sample = rate.finish(None).unwrap().rate.unwrap();
        assert_eq!(
            (sample.delivered, sample.interval),
            (MSS * 10, Duration::from_millis(150))
        );
    }

    #[test]
    fn a_sample_shorter_than_the_least_round_trip_is_absent_and_the_round_still_counts() {
        let (mut rate, stamps) = flight();
        rate.on_delivered(ms(5), &stamps[0], MSS);
        let delivery = rate.finish(Some(Duration::from_millis(51))).unwrap();
        assert_eq!(
            (delivery.prior_delivered, delivery.rate),
            (Bytes::ZERO, None)
        );
        assert_eq!(rate.finish(None), None);
    }

    #[test]
    fn samples_stay_limited_by_the_application_for_a_round_trip() {
        let (mut rate, stamps) = flight();
        rate.app_limited(MSS * 10);
        let marked = rate.on_sent(ms(20), MSS * 10, MSS);
        for stamp in &stamps {
            rate.on_delivered(ms(60), stamp, MSS);
        }
        assert!(!rate.finish(None).unwrap().rate.unwrap().app_limited);
        assert!(rate.is_app_limited());
        rate.on_delivered(ms(80), &marked, MSS);
        assert!(rate.finish(None).unwrap().rate.unwrap().app_limited);
        assert!(!rate.is_app_limited());
    }

    #[test]
    fn losses_are_counted_since_the_segment_was_sent() {
        let (mut rate, stamps) = flight();
        let lost = rate.on_lost(&stamps[0], MSS);
        assert_eq!((lost.lost_since_sent, lost.tx_in_flight), (MSS, MSS));
        let later = rate.on_sent(ms(10), MSS * 9, MSS);
        rate.on_lost(&stamps[1], MSS);
        rate.on_delivered(ms(60), &later, MSS);
        assert_eq!(rate.finish(None).unwrap().rate.unwrap().lost, MSS);
    }

    #[test]
    fn of_segments_sent_at_once_the_last_reported_is_the_newest() {
        let mut rate = DeliveryRate::new();
        let first = rate.on_sent(ms(0), Bytes::ZERO, MSS);
        let second = rate.on_sent(ms(0), MSS, MSS);
        rate.on_delivered(ms(50), &first, MSS);
        rate.on_delivered(ms(50), &second, MSS);
        let sample = rate.finish(None).unwrap().rate.unwrap();
        assert_eq!(sample.tx_in_flight, MSS * 2);
    }
}
