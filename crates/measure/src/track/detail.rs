//! Details of a direction with more than a few packets: distributions, course over time, bursts and bunches.
//!
//! **Source.** RFC 7323 section 4 (timestamps also give the RTT of retransmitted data); Paxson 1997, section 16.3 (ACK
//! compression: ACKs closer together than the data they answer can have arrived).

use super::afar::Afar;
use super::ages::{Ages, tick_ns};
use super::bursts::Bursts;
use super::habit::Habit;
use super::limits::{Limited, Limits};
use super::tally::{Quantiles, count};
use std::collections::VecDeque;

/// Timestamps of packets that passed in a bin, summed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stamps {
    count: u32,
    /// Times at which they passed, from the begin of the bin, ns.
    at_sum_ns: i64,
    /// Ticks of the sender's clock since its first packet.
    ticks_sum: i64,
}

impl Stamps {
    #[inline]
    fn add(&mut self, at_ns: i64, ticks: i64) {
        self.count = self.count.saturating_add(1);
        self.at_sum_ns = self.at_sum_ns.saturating_add(at_ns);
        self.ticks_sum = self.ticks_sum.saturating_add(ticks);
    }

    /// Adds those of a bin that begins `later_ns` later.
    fn merge(&mut self, o: &Stamps, later_ns: i64) {
        let later = later_ns.saturating_mul(i64::from(o.count));
        self.at_sum_ns = (self.at_sum_ns.saturating_add(o.at_sum_ns)).saturating_add(later);
        self.ticks_sum = self.ticks_sum.saturating_add(o.ticks_sum);
        self.count = self.count.saturating_add(o.count);
    }
}

/// Clock of a sender, as the timestamps of its packets show it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Clock {
    /// Time at which the first packet passed, ns.
    first_ns: i64,
    value: u32,
    /// Ticks from the first packet to the latest.
    ticks: i64,
    /// Least age of a packet, ns.
    least_ns: i64,
    /// Tick, ns, or 0 while it is unknown; and the number of ticks from which it is looked for again.
    tick_ns: i64,
    check: i64,
}

impl Clock {
    /// Clock whose first timestamp passed at `first_ns`.
    pub(super) fn new(first_ns: i64, value: u32) -> Clock {
        Clock {
            first_ns,
            value,
            ticks: 0,
            least_ns: 0,
            tick_ns: 0,
            check: 0,
        }
    }

    /// Time since its first packet, and the tick, ns; `None` while the tick cannot be told. The latest packet passed at `t`.
    #[inline]
    fn time_ns(&mut self, t: i64) -> Option<(i64, i64)> {
        if self.ticks >= self.check {
            self.look(t);
        }
        (self.tick_ns > 0).then(|| (self.ticks.saturating_mul(self.tick_ns), self.tick_ns))
    }

    /// Looks for the tick, at `t`. A queue that grows seems to change it, the less the longer it lasts.
    #[cold]
    fn look(&mut self, t: i64) {
        let since = t.saturating_sub(self.first_ns);
        self.tick_ns = tick_ns(since as f64, self.ticks as f64).map_or(0, |tick| tick as i64);
        self.check = self.ticks.saturating_add(self.ticks / 2).saturating_add(1);
    }

    /// Time by which a packet that passed at `t` was later than the quickest one so far, ns; 0 while that cannot be told.
    #[inline]
    fn late_ns(&mut self, t: i64) -> i64 {
        let Some((time, _)) = self.time_ns(t) else {
            return 0;
        };
        let age = t.saturating_sub(self.first_ns).saturating_sub(time);
        self.least_ns = self.least_ns.min(age);
        age.saturating_sub(self.least_ns)
    }

    /// Ticks since the first packet. RFC 7323 section 5.2: timestamps compare modulo 2^32.
    #[inline]
    fn read(&mut self, value: u32) -> i64 {
        let since = i64::from(value.wrapping_sub(self.value) as i32);
        self.ticks = self.ticks.saturating_add(since);
        self.value = value;
        self.ticks
    }
}

/// A packet that acknowledges data.
#[derive(Clone, Copy, Debug)]
struct Answer {
    /// Time at which it passed, ns.
    passed_ns: i64,
    /// Ticks of its sender's clock.
    ticks: i64,
    /// Time by which it was later than the quickest one, ns.
    late_ns: i64,
}

/// A time bin.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bin {
    /// New payload bytes, and retransmitted payload bytes.
    pub fresh_bytes: u64,
    /// Retransmitted bytes.
    pub again_bytes: u64,
    /// Payload bytes acknowledged.
    pub acked_bytes: u64,
    /// Greatest number of bytes in flight.
    pub in_flight_max: u64,
    /// Number of round trips.
    pub rtt_count: u32,
    /// RTTs without a delayed ACK: of ACKs that cannot have been held back, of SACK blocks and of retransmissions.
    pub prompt_count: u32,
    /// Sum of the round trips without a delayed ACK, ns.
    pub prompt_sum_ns: i64,
    /// Least round trip, ns.
    pub rtt_min_ns: i64,
    /// Greatest round trip, ns.
    pub rtt_max_ns: i64,
    /// Sum of the round trips, ns.
    pub rtt_sum_ns: i64,
    /// Timestamps of the data, and of the ACKs of its RTTs without a delayed ACK.
    pub stamps: [Stamps; 2],
}

impl Bin {
    #[inline]
    fn prompt(&mut self, rtt: i64) {
        self.prompt_count = self.prompt_count.saturating_add(1);
        self.prompt_sum_ns = self.prompt_sum_ns.saturating_add(rtt);
    }

    /// Mean of the RTTs without a delay of the receiver's own, ns.
    pub fn prompt_ns(&self) -> Option<i64> {
        (self.prompt_count > 0).then(|| self.prompt_sum_ns / i64::from(self.prompt_count))
    }

    /// Adds a bin that begins `later_ns` later.
    fn merge(&mut self, o: &Bin, later_ns: i64) {
        for (mine, other) in self.stamps.iter_mut().zip(&o.stamps) {
            mine.merge(other, later_ns);
        }
        self.fresh_bytes += o.fresh_bytes;
        self.again_bytes += o.again_bytes;
        self.acked_bytes += o.acked_bytes;
        self.in_flight_max = self.in_flight_max.max(o.in_flight_max);
        self.prompt_count = self.prompt_count.saturating_add(o.prompt_count);
        self.prompt_sum_ns = self.prompt_sum_ns.saturating_add(o.prompt_sum_ns);
        if o.rtt_count > 0 {
            if self.rtt_count == 0 || o.rtt_min_ns < self.rtt_min_ns {
                self.rtt_min_ns = o.rtt_min_ns;
            }
            self.rtt_max_ns = self.rtt_max_ns.max(o.rtt_max_ns);
            self.rtt_sum_ns = self.rtt_sum_ns.saturating_add(o.rtt_sum_ns);
            self.rtt_count = self.rtt_count.saturating_add(o.rtt_count);
        }
    }
}

/// Course of a direction in bins of equal width, which doubles when there are too many: memory grows with the data
/// sent, not with time.
#[derive(Clone, Debug)]
pub struct Course {
    /// Begin of the first bin, ns.
    pub begin_ns: i64,
    /// Width of a bin, ns.
    pub width_ns: i64,
    /// Bins in order.
    pub bins: Vec<Bin>,
    end: i64,
    touched: u32,
}

const WIDTH_NS: i64 = 20_000_000;
const BINS: usize = 1024;

impl Course {
    fn new(t: i64) -> Course {
        Course {
            begin_ns: t,
            width_ns: WIDTH_NS,
            bins: vec![Bin::default()],
            end: t + WIDTH_NS,
            touched: 1,
        }
    }

    #[inline]
    fn at(&mut self, t: i64) -> &mut Bin {
        if t >= self.end {
            self.advance(t);
        }
        self.bins.last_mut().expect("there is one from the start")
    }

    /// Adds an RTT without a delay of the receiver's own, and what the ACK that gave it tells.
    #[inline]
    fn prompt(&mut self, t: i64, rtt: i64, answer: Option<Answer>) {
        self.at(t);
        let Some(answer) = answer else {
            return self.at(t).prompt(rtt);
        };
        let at = t.saturating_sub(answer.late_ns);
        let (mut i, mut begin_ns) = (self.bins.len() - 1, self.end - self.width_ns);
        if at < begin_ns {
            i = (at.saturating_sub(self.begin_ns).max(0) / self.width_ns) as usize;
            begin_ns = self.begin_ns + i as i64 * self.width_ns;
        }
        let bin = &mut self.bins[i];
        bin.prompt(rtt);
        bin.stamps[1].add(answer.passed_ns - begin_ns, answer.ticks);
    }

    /// Adds the timestamp of data.
    #[inline]
    fn stamped(&mut self, t: i64, ticks: i64) {
        if t >= self.end {
            self.advance(t);
        }
        let at_ns = t - (self.end - self.width_ns);
        let bin = self.bins.last_mut().expect("there is one from the start");
        bin.stamps[0].add(at_ns, ticks);
    }

    /// Ages of the packets in each bin, by the clock of their sender.
    fn ages(&self, which: usize, clock: &Clock) -> Option<Ages> {
        let begin = |i: usize| self.begin_ns + i as i64 * self.width_ns;
        let means = self.bins.iter().enumerate().map(|(i, bin)| {
            let stamps = &bin.stamps[which];
            (stamps.count > 0).then(|| {
                let n = f64::from(stamps.count);
                let at = (begin(i) - clock.first_ns) as f64 + stamps.at_sum_ns as f64 / n;
                (at, stamps.ticks_sum as f64 / n)
            })
        });
        Ages::of(&means.collect::<Vec<_>>())
    }

    #[cold]
    fn advance(&mut self, t: i64) {
        self.touched = self.touched.saturating_add(1);
        // An idle connection of a day needs no more bins than a busy one of a second.
        let most = BINS.min(16 + 4 * self.touched as usize);
        while (t - self.begin_ns) / self.width_ns >= most as i64 {
            self.width_ns *= 2;
            let n = self.bins.len();
            for i in 0..n.div_ceil(2) {
                let mut bin = self.bins[2 * i];
                if let Some(other) = self.bins.get(2 * i + 1) {
                    bin.merge(other, self.width_ns / 2);
                }
                self.bins[i] = bin;
            }
            self.bins.truncate(n.div_ceil(2));
        }
        let at = ((t - self.begin_ns) / self.width_ns) as usize;
        if self.bins.len() <= at {
            self.bins.resize(at + 1, Bin::default());
        }
        self.end = self.begin_ns + (at as i64 + 1) * self.width_ns;
    }
}

/// ACK compression: rows of three or more ACKs that took less than a third of the sending time of the data that they
/// acknowledge.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bunches {
    /// ACKs in bunches.
    pub acks: u64,
    /// Number of bunches.
    pub rows: u64,
    first_t: i64,
    last_t: i64,
    first_sent: i64,
    last_sent: i64,
    row: u32,
}

impl Bunches {
    /// Handles an ACK at `t` of data that was sent last at `sent`.
    #[inline]
    fn ack(&mut self, t: i64, sent: i64, gap: i64) {
        if self.row > 0 && t - self.last_t <= gap {
            self.row = self.row.saturating_add(1);
        } else {
            self.close();
            (self.first_t, self.first_sent, self.row) = (t, sent, 1);
        }
        (self.last_t, self.last_sent) = (t, sent);
    }

    fn close(&mut self) {
        if self.row >= 3 && self.last_t - self.first_t < (self.last_sent - self.first_sent) / 3 {
            self.acks += u64::from(self.row);
            self.rows += 1;
        }
        self.row = 0;
    }
}

/// Non-negative time: a clock that steps back gives 0.
fn whole(ns: i64) -> u64 {
    ns.max(0) as u64
}

/// Details of a direction with more than a few data packets.
#[derive(Clone, Debug)]
pub struct Detail {
    /// RTTs as in [`super::RoundTrips`], and those by timestamps, ns.
    pub rtt: Quantiles,
    /// Round trips by timestamps.
    pub rtt_by_timestamps: Quantiles,
    /// Least RTT before the course starts.
    pub rtt_before_ns: Option<i64>,
    /// Course over time.
    pub course: Course,
    /// Bursts of the direction.
    pub bursts: Bursts,
    /// Bunches of ACKs for it.
    pub bunches: Bunches,
    /// Timestamps that wait for their echo.
    stamps: VecDeque<(u32, i64)>,
    echoed: Option<u32>,
    /// Time at which the packet left whose timestamp was echoed last, if it is known, ns.
    echoed_left: Option<i64>,
    /// Clock of the sender of the data, and of the one that acknowledges it.
    clocks: [Option<Clock>; 2],
    /// The latest ACK with a timestamp.
    answer: Option<Answer>,
    /// RTT of an ACK without delay, if the next ACK confirms that by acknowledging more; and that ACK's answer.
    pending: Option<(i64, Option<Answer>)>,
    /// Number of segments that the receiver waits for.
    pub(super) habit: Habit,
    pub(super) limits: Limits,
    pub(super) afar: Afar,
}

/// Maximum number of timestamps in flight: a window of a second at the usual tick.
const STAMPS: usize = 4096;

impl Detail {
    /// Creates the details. `before` holds the RTTs seen earlier.
    pub(super) fn new(t: i64, before: &[i64], clock: Option<Clock>) -> Detail {
        let mut rtt = Quantiles::default();
        before.iter().for_each(|ns| rtt.add(whole(*ns)));
        Detail {
            rtt,
            rtt_by_timestamps: Quantiles::default(),
            rtt_before_ns: before.iter().min().copied(),
            course: Course::new(t),
            bursts: Bursts::default(),
            bunches: Bunches::default(),
            stamps: VecDeque::new(),
            echoed: None,
            echoed_left: None,
            clocks: [clock, None],
            answer: None,
            pending: None,
            habit: Habit::default(),
            limits: Limits::default(),
            afar: Afar::default(),
        }
    }

    #[inline]
    pub(super) fn sent(&mut self, t: i64, fresh: u64, again: u64, in_flight: u64) {
        let bin = self.course.at(t);
        count(&mut bin.fresh_bytes, fresh);
        count(&mut bin.again_bytes, again);
        bin.in_flight_max = bin.in_flight_max.max(in_flight);
    }

    /// Ages of the data, and of the packets that acknowledge it, in each bin of the course.
    pub fn ages(&self) -> [Option<Ages>; 2] {
        [0, 1].map(|which| self.course.ages(which, self.clocks[which].as_ref()?))
    }

    /// Reads the timestamp of a packet that acknowledges the data, from an end whose first packet was `first`.
    #[inline]
    pub(super) fn answered(&mut self, t: i64, value: u32, first: impl Fn() -> Option<Clock>) {
        if self.clocks[1].is_none() {
            self.clocks[1] = first();
        }
        self.answer = (self.clocks[1].as_mut()).map(|clock| Answer {
            passed_ns: t,
            ticks: clock.read(value),
            late_ns: clock.late_ns(t),
        });
    }

    #[inline]
    pub(super) fn stamped(&mut self, t: i64, value: u32) {
        if let Some(clock) = &mut self.clocks[0] {
            let ticks = clock.read(value);
            self.course.stamped(t, ticks);
        }
        match self.stamps.back() {
            Some((last, _)) if value.wrapping_sub(*last) as i32 <= 0 => {}
            None if self
                .echoed
                .is_some_and(|e| value.wrapping_sub(e) as i32 <= 0) => {}
            _ => {
                if self.stamps.len() >= STAMPS {
                    self.stamps.pop_front();
                }
                self.stamps.push_back((value, t));
            }
        }
    }

    /// Time on its sender's clock of the latest data, which passed at `t`, and the tick of that clock, ns.
    #[inline]
    pub(super) fn left_ns(&mut self, t: i64) -> Option<(i64, i64)> {
        self.clocks[0].as_mut()?.time_ns(t)
    }

    /// Handles an ACK that echoes a timestamp; returns the RTT if the timestamp is echoed for the first time.
    #[inline]
    pub(super) fn echoed(&mut self, t: i64, value: u32) -> Option<i64> {
        if self.echoed == Some(value) {
            return None;
        }
        let mut left = None;
        while let Some((v, sent)) = self.stamps.front().copied() {
            if value.wrapping_sub(v) as i32 > 0 {
                self.stamps.pop_front();
                continue;
            }
            if v == value {
                self.stamps.pop_front();
                self.rtt_by_timestamps.add(whole(t - sent));
                left = Some(sent);
            }
            break;
        }
        (self.echoed, self.echoed_left) = (Some(value), left);
        left.map(|left| t - left)
    }

    /// Time at which the packet left whose timestamp was echoed last, if it is known, ns.
    #[inline]
    pub(super) fn echoed_left(&self) -> Option<i64> {
        self.echoed_left
    }

    #[inline]
    pub(super) fn acknowledged(&mut self, t: i64, newly: u64, sent: i64, srtt: i64) {
        count(&mut self.course.at(t).acked_bytes, newly);
        self.bursts.acknowledged(t, newly);
        self.bunches
            .ack(t, sent, (srtt / 64).clamp(100_000, 5_000_000));
    }

    /// Adds an RTT without a delay of the receiver's own that is no sample of its data, by the latest ACK.
    pub(super) fn prompt(&mut self, t: i64, rtt: i64) {
        self.course.prompt(t, rtt, self.answer);
    }

    /// Keeps an RTT by the latest ACK until the next one shows if it was without delay.
    pub(super) fn perhaps_prompt(&mut self, rtt: i64) {
        self.pending = Some((rtt, self.answer));
    }

    /// Forgets that RTT: the next segment was lost or reordered.
    pub(super) fn not_prompt(&mut self) {
        self.pending = None;
    }

    /// Adds that RTT, if it counts.
    #[inline]
    pub(super) fn confirm(&mut self, t: i64, counts: bool) {
        if let Some((rtt, answer)) = self.pending.take()
            && counts
        {
            self.course.prompt(t, rtt, answer);
        }
    }

    /// Adds an RTT. `prompt`: it contains no delay of the receiver's own.
    #[inline]
    pub(super) fn round_trip(&mut self, t: i64, rtt: i64, prompt: bool) {
        self.rtt.add(whole(rtt));
        let bin = self.course.at(t);
        if bin.rtt_count == 0 || rtt < bin.rtt_min_ns {
            bin.rtt_min_ns = rtt;
        }
        bin.rtt_max_ns = bin.rtt_max_ns.max(rtt);
        bin.rtt_sum_ns = bin.rtt_sum_ns.saturating_add(rtt);
        bin.rtt_count = bin.rtt_count.saturating_add(1);
        if prompt {
            self.course.prompt(t, rtt, self.answer);
        }
    }

    /// Highest acknowledged rate over `window_ns` or more, bit/s; `None` for less than two such windows.
    pub fn peak_bps(&self, window_ns: i64) -> Option<f64> {
        let n =
            (window_ns.max(100_000_000) as usize).div_ceil(self.course.width_ns.max(1) as usize);
        let bins = &self.course.bins;
        if bins.len() < 2 * n {
            return None;
        }
        let seconds = n as f64 * self.course.width_ns as f64 / 1e9;
        let most = bins
            .windows(n)
            .map(|w| w.iter().map(|b| b.acked_bytes).sum::<u64>())
            .max()?;
        Some(most as f64 * 8.0 / seconds)
    }

    /// Time for which each limit held the sender back.
    pub fn limited(&self) -> Limited {
        self.limits.spent
    }

    /// False if the network and the receiver's window cannot be told apart: the scale of the windows is not `known` and they
    /// may have been full, or the sender was seen from afar, without timestamps.
    pub(super) fn windows_told(&self, known: bool) -> bool {
        (known || self.limits.were_open()) && self.afar.is_told()
    }

    pub(super) fn finish(&mut self, mss: u64) {
        self.bursts.close(mss);
        self.bunches.close();
        self.stamps = VecDeque::new();
        self.afar.finish();
    }
}
