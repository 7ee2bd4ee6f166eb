//! Sender's record of each outstanding segment: a ring in the order of sequence numbers for acknowledgements, and a
//! queue in the order of transmission for overdue segments. The work of an ACK grows with the segments that it newly
//! reports, not with the window.
//!
//! **Source**: RFC 6675, "A Conservative Loss Recovery Algorithm Based on Selective Acknowledgment (SACK)
//! for TCP" (2012), section 4, for the pipe; RFC 8985, "The RACK-TLP Loss Detection Algorithm for TCP"
//! (Cheng, Cardwell, Dukkipati, Jha, 2021), section 6, for what is lost.
//!
//! **Deviations**: the pipe counts the bytes in flight segment by segment instead of estimating them. The reordering
//! timer fires for the first segment that becomes overdue, not for the last of them.
//!
//! **Units**: bytes of payload, ns.

use crate::ranges::Ranges;
use base::{Bytes, Duration, Time};
use congestion::{DeliveryRate, Stamp};
use std::collections::VecDeque;

/// Segment in flight.
#[derive(Clone, Copy, Debug)]
pub struct Outstanding {
    /// Position of its first byte.
    pub seq: u64,
    /// Payload bytes.
    pub len: u32,
    /// True if it is selectively acknowledged.
    pub sacked: bool,
    /// True if deemed lost and not retransmitted since.
    pub lost: bool,
    /// True if it counts towards the pipe.
    pub in_flight: bool,
    /// True if sent more than once.
    pub again: bool,
    /// Stamp for the delivery rate.
    pub stamp: Stamp,
}

impl Outstanding {
    /// Position after its last byte.
    pub fn end(&self) -> u64 {
        self.seq + u64::from(self.len)
    }
}

/// Result of one ACK: newly reported data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Told {
    /// Bytes newly acknowledged.
    pub bytes: u64,
    /// Send time of the segment sent last among them, and true if that was its first transmission.
    pub newest: Option<(Time, bool)>,
}

/// RFC 8985 section 6.2: the segment sent last among those delivered.
#[derive(Clone, Copy, Debug)]
struct Rack {
    sent: Time,
    end: u64,
    rtt: Duration,
    /// Highest byte delivered.
    forward: u64,
    reordering_seen: bool,
    /// Reordering window in quarters of the minimum RTT.
    window: u64,
    /// Sequence number until whose acknowledgement the window grows no further.
    window_until: u64,
    /// Recoveries left until the window is reset.
    persist: u32,
}

/// Segments in flight with their acknowledgements.
#[derive(Debug)]
pub struct Scoreboard {
    ring: VecDeque<Outstanding>,
    /// Number of the first segment of the ring, counted over the whole connection.
    first: u64,
    mss: u64,
    dup_thresh: u64,
    /// Segments in the order of transmission: number and time. Entries made obsolete by a later transmission or a
    /// delivery are skipped.
    sent: VecDeque<(u64, Time)>,
    /// Ranges that have been selectively acknowledged.
    sacked: Ranges,
    sacked_segments: u64,
    sacked_bytes: u64,
    /// Bytes in flight.
    pipe: u64,
    /// Segments deemed lost and not retransmitted.
    lost: u64,
    /// First segment that may be lost; none before it is.
    search_from: u64,
    rack: Rack,
}

impl Scoreboard {
    /// Creates an empty scoreboard.
    pub fn new(mss: u64, dup_thresh: u64) -> Scoreboard {
        Scoreboard {
            ring: VecDeque::new(),
            first: 0,
            mss,
            dup_thresh,
            sent: VecDeque::new(),
            sacked: Ranges::default(),
            sacked_segments: 0,
            sacked_bytes: 0,
            pipe: 0,
            lost: 0,
            search_from: 0,
            rack: Rack {
                sent: Time::ZERO,
                end: 0,
                rtt: Duration::ZERO,
                forward: 0,
                reordering_seen: false,
                window: 1,
                window_until: 0,
                persist: 0,
            },
        }
    }

    /// Bytes in flight.
    #[inline]
    pub fn pipe(&self) -> u64 {
        self.pipe
    }
    /// Number of segments that wait for retransmission.
    #[inline]
    pub fn lost(&self) -> u64 {
        self.lost
    }
    /// True if a segment that was lost has not been acknowledged since.
    pub fn is_repairing(&self) -> bool {
        (self.ring.iter()).any(|segment| !segment.sacked && (segment.lost || segment.again))
    }

    /// Bytes selectively acknowledged.
    #[inline]
    pub fn sacked_bytes(&self) -> u64 {
        self.sacked_bytes
    }
    /// True if no segment is in flight.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }
    /// Oldest segment in flight.
    pub fn first(&self) -> Option<&Outstanding> {
        self.ring.front()
    }
    /// Number of the latest segment.
    pub fn last_number(&self) -> Option<u64> {
        (!self.ring.is_empty()).then(|| self.first + self.ring.len() as u64 - 1)
    }
    /// Segment with this number.
    pub fn get(&self, number: u64) -> &Outstanding {
        &self.ring[(number - self.first) as usize]
    }

    /// Records a new segment that has been sent.
    #[inline]
    pub fn push(&mut self, seq: u64, len: u32, stamp: Stamp) {
        self.sent
            .push_back((self.first + self.ring.len() as u64, stamp.sent()));
        self.pipe += u64::from(len);
        self.ring.push_back(Outstanding {
            seq,
            len,
            sacked: false,
            lost: false,
            in_flight: true,
            again: false,
            stamp,
        });
    }

    /// Records a retransmission.
    pub fn push_again(&mut self, number: u64, stamp: Stamp) {
        let segment = &mut self.ring[(number - self.first) as usize];
        if segment.lost {
            segment.lost = false;
            self.lost -= 1;
        }
        if !segment.in_flight {
            segment.in_flight = true;
            self.pipe += u64::from(segment.len);
        }
        segment.again = true;
        segment.stamp = stamp;
        self.sent.push_back((number, stamp.sent()));
    }

    /// First segment that is to be retransmitted.
    #[inline]
    pub fn next_lost(&mut self) -> Option<u64> {
        if self.lost == 0 {
            return None;
        }
        let mut number = self.search_from.max(self.first);
        while !self.get(number).lost {
            number += 1;
        }
        self.search_from = number;
        Some(number)
    }

    /// Acknowledges everything before `ack`. The segment that triggered the ACK was sent at `echo` (RFC 7323 section
    /// 3), so a later retransmission cannot be the copy that arrived.
    pub fn acknowledge(
        &mut self,
        now: Time,
        ack: u64,
        echo: Time,
        min_rtt: Option<Duration>,
        rate: &mut DeliveryRate,
        told: &mut Told,
    ) {
        while self.ring.front().is_some_and(|s| s.end() <= ack) {
            let Some(segment) = self.ring.pop_front() else {
                break;
            };
            self.first += 1;
            if segment.sacked {
                self.sacked_segments -= 1;
                self.sacked_bytes -= u64::from(segment.len);
            } else {
                self.deliver(now, &segment, echo, min_rtt, rate, told);
            }
        }
        while self.sent.front().is_some_and(|s| s.0 < self.first) {
            self.sent.pop_front();
        }
        if !self.sacked.is_empty() {
            self.sacked.remove_before(ack);
        }
    }

    /// Acknowledges the bytes of a SACK block.
    pub fn selectively_acknowledge(
        &mut self,
        now: Time,
        block: (u64, u64),
        echo: Time,
        min_rtt: Option<Duration>,
        rate: &mut DeliveryRate,
        told: &mut Told,
    ) {
        let (Some(first), Some(last)) = (self.ring.front(), self.ring.back()) else {
            return;
        };
        let (from, to) = (block.0.max(first.seq), block.1.min(last.end()));
        let mut sacked = std::mem::take(&mut self.sacked);
        sacked.insert(from, to, |from, to| {
            let mut at = self.find(from);
            while let Some(segment) = self.ring.get(at).copied().filter(|s| s.end() <= to) {
                if !segment.sacked && segment.seq >= from {
                    self.deliver(now, &segment, echo, min_rtt, rate, told);
                    let kept = &mut self.ring[at];
                    (kept.sacked, kept.lost, kept.in_flight) = (true, false, false);
                    self.sacked_segments += 1;
                    self.sacked_bytes += u64::from(segment.len);
                }
                at += 1;
            }
        });
        self.sacked = sacked;
    }

    /// Place in the ring of the first segment that ends after `seq`.
    fn find(&self, seq: u64) -> usize {
        let Some(first) = self.ring.front() else {
            return 0;
        };
        // Most segments are full, so the distance gives the place.
        let guess = (seq.saturating_sub(first.seq) / self.mss) as usize;
        match self.ring.get(guess) {
            Some(s) if s.seq <= seq && seq < s.end() => guess,
            _ => self.ring.partition_point(|s| s.end() <= seq),
        }
    }

    #[inline]
    fn deliver(
        &mut self,
        now: Time,
        segment: &Outstanding,
        echo: Time,
        min_rtt: Option<Duration>,
        rate: &mut DeliveryRate,
        told: &mut Told,
    ) {
        let len = u64::from(segment.len);
        told.bytes += len;
        if segment.in_flight {
            self.pipe -= len;
        }
        if segment.lost {
            self.lost -= 1;
        }
        rate.on_delivered(now, &segment.stamp, Bytes::new(len));
        let sent = segment.stamp.sent();
        if told.newest.is_none_or(|(newest, _)| sent >= newest) {
            told.newest = Some((sent, !segment.again));
        }
        // RFC 8985 section 6.2 step 2: an ACK of the first copy must not be attributed to the second.
        let rtt = now - sent;
        let rack = &mut self.rack;
        let may_be_the_last = echo >= sent && min_rtt.is_none_or(|min| rtt >= min);
        if !segment.again || may_be_the_last {
            rack.rtt = rtt;
            if (sent, segment.end()) > (rack.sent, rack.end) {
                (rack.sent, rack.end) = (sent, segment.end());
            }
        }
        // Step 3.
        if segment.end() > rack.forward {
            rack.forward = segment.end();
        } else if !segment.again {
            rack.reordering_seen = true;
        }
    }

    /// RFC 8985 section 6.2 step 4: handles a reported duplicate, the sign of a spurious retransmission.
    pub fn duplicate_reported(&mut self, una: u64, next: u64) {
        if una >= self.rack.window_until {
            self.rack.window_until = next;
            self.rack.window += 1;
            self.rack.persist = 16;
        }
    }

    /// Handles the end of a recovery: after 16 of them a widened reordering window is reset.
    pub fn recovered(&mut self) {
        match self.rack.persist {
            0 => self.rack.window = 1,
            n => self.rack.persist = n - 1,
        }
    }

    /// Step 5: deems lost each overdue segment that was sent before the newest delivered one, and reports each. Returns
    /// the time at which the next one becomes overdue.
    pub fn detect(
        &mut self,
        now: Time,
        in_recovery: bool,
        min_rtt: Option<Duration>,
        srtt: Option<Duration>,
        mut lost: impl FnMut(&Outstanding),
    ) -> Option<Time> {
        // Usually no segment sent before the newest delivered one is still in flight.
        if self.sent.front().is_none_or(|s| s.1 > self.rack.sent) {
            return None;
        }
        let window = if !self.rack.reordering_seen
            && (in_recovery || self.sacked_segments >= self.dup_thresh)
        {
            Duration::ZERO
        } else {
            let quarter = min_rtt.unwrap_or_default() / 4;
            (quarter * self.rack.window).min(srtt.unwrap_or(quarter))
        };
        while let Some(&(number, sent)) = self.sent.front() {
            let current = number >= self.first && {
                let segment = self.get(number);
                segment.in_flight && segment.stamp.sent() == sent
            };
            if !current {
                self.sent.pop_front();
                continue;
            }
            let end = self.get(number).end();
            if (sent, end) >= (self.rack.sent, self.rack.end) {
                return None;
            }
            let due = sent + self.rack.rtt + window;
            if due > now {
                return Some(due);
            }
            self.sent.pop_front();
            self.lose(number, &mut lost);
        }
        None
    }

    /// Deems lost each segment sent `dup_thresh` places or more before the newest delivered one.
    pub fn detect_by_count(&mut self, mut lost: impl FnMut(&Outstanding)) {
        let places = self.dup_thresh as usize;
        while let Some(&(number, sent)) = self.sent.front() {
            let current = number >= self.first && {
                let segment = self.get(number);
                segment.in_flight && segment.stamp.sent() == sent
            };
            if current {
                let newest = (self.rack.sent, self.rack.end);
                let overtaken = self.sent.get(places).is_some_and(|&(later, sent)| {
                    let end = if later < self.first {
                        0
                    } else {
                        self.get(later).end()
                    };
                    (sent, end) <= newest
                });
                if !overtaken {
                    return;
                }
                self.lose(number, &mut lost);
            }
            self.sent.pop_front();
        }
    }

    /// Deems one segment lost.
    pub fn lose(&mut self, number: u64, lost: &mut impl FnMut(&Outstanding)) {
        let at = (number - self.first) as usize;
        let segment = &mut self.ring[at];
        if segment.lost || segment.sacked {
            return;
        }
        if segment.in_flight {
            segment.in_flight = false;
            self.pipe -= u64::from(segment.len);
        }
        segment.lost = true;
        self.lost += 1;
        self.search_from = self.search_from.min(number);
        lost(&self.ring[at]);
    }

    /// Deems every outstanding segment lost.
    pub fn lose_all(&mut self, mut lost: impl FnMut(&Outstanding)) {
        for number in self.first..self.first + self.ring.len() as u64 {
            self.lose(number, &mut lost);
        }
        self.sent.clear();
    }

    /// Number of the first outstanding segment.
    pub fn first_number(&self) -> u64 {
        self.first
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u32 = 1000;

    fn ms(n: u64) -> Time {
        Time::ZERO + Duration::from_millis(n)
    }

    /// Sends five segments 1 ms apart, and the first of them again at 1 s. At 1.2 s its ACK arrives, for the copy sent
    /// at `echo`. Returns the number of the others that are then deemed lost.
    fn lost_when_the_ack_of(echo: Time) -> usize {
        let mut rate = DeliveryRate::new();
        let mut board = Scoreboard::new(u64::from(MSS), 3);
        let len = Bytes::new(u64::from(MSS));
        for n in 0..5 {
            let stamp = rate.on_sent(ms(n), Bytes::new(board.pipe()), len);
            board.push(n * u64::from(MSS), MSS, stamp);
        }
        board.lose(0, &mut |_| ());
        let stamp = rate.on_sent(ms(1000), Bytes::new(board.pipe()), len);
        board.push_again(0, stamp);
        let min_rtt = Some(Duration::from_millis(100));
        let mut told = Told::default();
        board.acknowledge(
            ms(1200),
            u64::from(MSS),
            echo,
            min_rtt,
            &mut rate,
            &mut told,
        );
        let mut lost = 0;
        board.detect(ms(1200), false, min_rtt, min_rtt, |_| lost += 1);
        lost
    }

    #[test]
    fn the_ack_of_a_first_copy_that_waited_long_says_nothing_of_the_second() {
        assert_eq!(lost_when_the_ack_of(ms(0)), 0);
        assert_eq!(lost_when_the_ack_of(ms(1000)), 4);
    }
}
