//! Growth of a receive window: it bounds the data in flight, and while it grows every segment is acknowledged.
//!
//! **Source**: Linux 6.18, `net/ipv4/tcp_input.c`: `tcp_grow_window` adds two segments to the window for each segment that
//! arrives and asks for an ACK at once; `tcp_rcv_space_adjust` lets the window be twice what came in the last RTT, more if
//! that has grown.
//!
//! **Deviations**: the RTT is the handshake's plus the growth of the one-way delay since, smoothed as an RTT is. Memory overhead of packets is
//! left out.
//!
//! **Units**: bytes of payload, ns.
//!
//! **Validated against**: Linux 7.3 over 10 Mbit/s and 100 ms, one captured start of CUBIC: 74 ACKs for 80 segments in the
//! fourth RTT, 83 for 84 in the fifth, 44 for 84 from the seventh on.

use base::{Duration, Time};

/// Window of Linux's SYN/ACK, and its first limit on the window, for a default receive buffer of 128 KiB.
pub(super) const INITIAL: u64 = 65_160;
const FIRST_LIMIT: u64 = 64_088;
/// Bytes of full segments that the default receive buffer of 128 KiB holds: 1448 in 2304 bytes of memory each.
const DEFAULT_BUFFER: u64 = 79_872;
/// Initial window of a sender, in segments.
const FIRST_FLIGHT: u64 = 10;
/// Segments added to the allowed window for small variations.
const CUSHION: u64 = 16;

/// Receive window of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Growth {
    mss: u64,
    window: u64,
    /// Largest window for what has come so far, and of the connection.
    allowed: u64,
    limit: u64,
    /// Most bytes that came in one RTT.
    most: u64,
    /// Start of this measurement, and the bytes received by then.
    began: Option<(Time, u64)>,
    /// Time of the handshake's answer, until the first data comes.
    answered: Option<Time>,
    /// RTT without the one-way delay of data.
    rest: Option<Duration>,
    /// Smoothed RTT, and the departure of the segment that gave its last sample.
    srtt: Option<(Duration, Time)>,
}

impl Growth {
    /// Creates the window of a new connection, which grows up to `limit` bytes.
    pub fn new(mss: u64, limit: u64) -> Growth {
        Growth {
            mss,
            window: FIRST_LIMIT.min(limit),
            allowed: DEFAULT_BUFFER.min(limit),
            limit,
            most: FIRST_FLIGHT * mss,
            began: None,
            answered: None,
            rest: None,
            srtt: None,
        }
    }

    /// Records the time of the SYN/ACK.
    pub fn answer(&mut self, now: Time) {
        self.answered.get_or_insert(now);
    }

    /// Records the arrival of a segment, of any size; the first one ends the handshake. Returns the RTT without the one-way
    /// delay of data.
    pub fn meet(&mut self, now: Time, delay: Duration) -> Duration {
        *self.rest.get_or_insert_with(|| match self.answered {
            Some(answered) => now.saturating_since(answered).saturating_sub(delay),
            None => delay,
        })
    }

    /// Window to offer while `early` bytes wait for those before them and take its room.
    pub fn offered(&self, early: u64) -> u64 {
        self.window.min(self.allowed.saturating_sub(early))
    }

    /// Takes a segment; `received` bytes are in order now, and `early` bytes wait. Returns true if the window grows, hence
    /// an ACK is due.
    pub fn take(&mut self, now: Time, received: u64, early: u64, delay: Duration) -> bool {
        let room = self.allowed.saturating_sub(early);
        let grows = self.window < room;
        if grows {
            self.window = (self.window + 2 * self.mss).min(room);
        }
        let rest = self.meet(now, delay);
        let srtt = self.sample(rest + delay, now.saturating_sub(delay));
        let (began, before) = *self.began.get_or_insert((now, 0));
        if now.saturating_since(began) >= srtt {
            self.measure(received.saturating_sub(before));
            self.began = Some((now, received));
        }
        grows
    }

    /// Updates the smoothed RTT by a sample. Segments that left together echo the same ACK and give one.
    fn sample(&mut self, rtt: Duration, sent: Time) -> Duration {
        let srtt = match self.srtt {
            Some((srtt, last)) if last == sent => srtt,
            Some((srtt, _)) => rtt.min((srtt * 7 + rtt) / 8),
            None => rtt,
        };
        self.srtt = Some((srtt, sent));
        srtt
    }

    /// Allows a larger window after an RTT with more bytes than any before.
    fn measure(&mut self, came: u64) {
        if came <= self.most || self.allowed == self.limit {
            return;
        }
        let base = 2 * came + CUSHION * self.mss;
        let more = u128::from(base) * u128::from(came - self.most) / u128::from(self.most.max(1));
        let wanted = u128::from(base) + 2 * more;
        self.allowed = u64::try_from(wanted)
            .map_or(self.limit, |wanted| wanted.clamp(self.allowed, self.limit));
        self.most = came;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;
    const RTT: Duration = Duration::from_millis(100);

    /// ACKs at once in each RTT, of the given numbers of segments.
    fn acks(flights: &[u64], limit: u64) -> Vec<u64> {
        let mut growth = Growth::new(MSS, limit);
        growth.answer(Time::ZERO);
        let (mut received, mut now) = (0, Time::ZERO);
        let mut all = Vec::new();
        for flight in flights {
            now += RTT;
            let mut at_once = 0;
            for i in 0..*flight {
                received += MSS;
                let gap = Duration::from_micros(1200) * i;
                at_once += u64::from(growth.take(now + gap, received, 0, RTT / 2));
            }
            all.push(at_once);
        }
        all
    }

    #[test]
    fn every_segment_of_slow_start_after_the_second_round_trip_is_acknowledged() {
        // 20 segments in the second RTT allow 168: 123 more than 45, two for each segment.
        let acks = acks(&[10, 20, 40, 80, 84, 84, 84, 84, 84], 16 << 20);
        // The default buffer holds a little more than the first limit.
        assert_eq!(acks[0], 6);
        assert!(acks[2] >= 38, "{acks:?}");
        assert!(acks[3] >= 78, "{acks:?}");
        assert_eq!(acks[8], 0, "{acks:?}");
    }

    #[test]
    fn data_beyond_a_hole_takes_the_room_of_the_window() {
        let mut growth = Growth::new(MSS, 16 << 20);
        growth.answer(Time::ZERO);
        let mut now = Time::ZERO;
        let mut received = 0;
        for flight in [10, 20, 40] {
            now += RTT;
            for i in 0..flight {
                received += MSS;
                growth.take(now + Duration::from_micros(1200) * i, received, 0, RTT / 2);
            }
        }
        // A segment is missing, those behind it arrive: what is offered shrinks by them and never beyond the buffer.
        let before = growth.offered(0);
        for early in (1..=400).map(|n| n * MSS) {
            now += Duration::from_micros(1200);
            growth.take(now, received, early, RTT / 2);
            assert!(growth.offered(early) + early <= growth.allowed.max(early));
        }
        assert!(growth.offered(0) >= before);
        assert_eq!(growth.offered(growth.allowed), 0);
    }

    #[test]
    fn window_of_a_fixed_size_costs_no_acks() {
        assert_eq!(acks(&[10, 20, 40, 45, 45], FIRST_LIMIT), [0; 5]);
    }
}
