//! Backlog of a queue that cannot be asked: the modem's, behind the gateway.
//!
//! **Method.** The queue grows by the bytes that the gateway hands over and shrinks by the link's capacity. Each delay
//! sample says how long one packet waited. It corrects the backlog at the time when that packet *left* the gateway, and
//! what happened since is replayed. The backlog has a floor of zero and, once the buffer's size is known, a ceiling.
//!
//! A host that reads counters knows the bytes of an interval, but not when they passed. The least backlog that they allow
//! is taken: they came evenly, or earlier. The end of the interval would add up to one interval of queue to a link whose
//! queue is nearly empty, and a law would cut the rate for a queue that is not there.
//!
//! **Source.** Borlaug 2014, section 6.3.2, equations (28) and (29): bytes and one RTT per second.
//! Both are mended here: the sum has a floor, the base is a minimum, and a sample tells of its departure.
//!
//! **Limits.** Bytes alone drift: a capacity that is wrong by 0.4 % moves the estimate by 80 ms in 20 s. Samples hold it,
//! so that an error of the capacity leaves a bias of about (error × time between samples ÷ gain).

use base::{Bytes, Duration, Time};
use std::collections::VecDeque;

/// Time that is kept for replays; a later sample is too old.
const HISTORY: Duration = Duration::from_secs(2);
/// Longest and shortest burst that shows a rate.
const BURST: Duration = Duration::from_millis(300);
const SHORTEST_BURST_S: f64 = 10e-3;
/// Bytes of the sample's own packet, at the most: the time that the link takes for them is part of the base RTT.
const OWN: f64 = 1500.0;
/// Arrivals within this time count as one.
const STEP: Duration = Duration::from_micros(500);

/// Share of the capacity that leaves a link idle now and then, and the rate that does so where the capacity is unknown.
const IDLE_SHARE: f64 = 0.9;
const IDLE_LEAST: f64 = 8_000.0;
/// Longest queue that bytes alone are taken to have left, in seconds of that rate.
const LONGEST_S: f64 = 1.0;

/// Backlog that follows from bytes alone, at a little less than the capacity: zero if they leave the link idle. `before` was
/// there `span_s` earlier, and `arrived` bytes passed since.
pub(crate) fn left_over(before: f64, arrived: f64, span_s: f64, capacity: f64) -> f64 {
    let rate = match capacity.is_finite() {
        true => IDLE_SHARE * capacity,
        false => IDLE_LEAST,
    };
    (before + arrived - rate * span_s).clamp(0.0, rate * LONGEST_S)
}

/// Departure of a packet from the gateway.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sent {
    /// Instant of the departure.
    pub departed: Time,
    /// Bytes handed over by then, this packet included.
    pub total: u64,
}

/// Arrivals of one interval, and the backlog after them. Packets whose time is known have an interval without length.
#[derive(Clone, Copy, Debug)]
struct Step {
    since: Time,
    at: Time,
    /// Bytes handed over by its end, since the start.
    total: u64,
    arrived: f64,
    backlog: f64,
    /// Backlog that follows from the bytes alone, without samples.
    unsampled: f64,
}

/// Estimate of the backlog, in bytes.
#[derive(Clone, Debug)]
pub struct HiddenQueue {
    bytes_per_s: f64,
    /// Size of the buffer, if known.
    most: Option<f64>,
    /// Bytes handed over so far.
    total: u64,
    steps: VecDeque<Step>,
}

impl HiddenQueue {
    /// An empty queue in front of a link that carries `bytes_per_s`.
    pub fn new(bytes_per_s: f64) -> HiddenQueue {
        HiddenQueue {
            bytes_per_s,
            most: None,
            total: 0,
            steps: VecDeque::new(),
        }
    }

    /// Sets the rate at which the queue is served, bytes per second.
    pub fn set_rate(&mut self, bytes_per_s: f64) {
        self.bytes_per_s = bytes_per_s;
    }

    /// Bounds the backlog by the size of the buffer.
    pub fn set_most(&mut self, bytes: Option<f64>) {
        self.most = bytes;
    }

    fn drained(&self, step: &Step, at: Time) -> f64 {
        (step.backlog - self.bytes_per_s * at.saturating_since(step.at).as_secs_f64()).max(0.0)
    }

    fn filled(&self, backlog: f64) -> f64 {
        self.most.map_or(backlog, |most| backlog.min(most))
    }

    /// Backlog at the end of `step` if `before` was there when its interval began.
    fn after(&self, before: f64, step: &Step) -> f64 {
        let served = self.bytes_per_s * step.at.saturating_since(step.since).as_secs_f64();
        self.filled((before + step.arrived - served).max(0.0))
    }

    /// Bytes handed over so far; a sample of a packet refers to this number as it was after the packet.
    pub fn total(&self) -> u64 {
        self.total
    }

    /// Number of the step that holds the last byte of that packet. Times would not do: the counters are read after the
    /// packet has left, so its step ends later.
    fn step_of(&self, sent: Sent) -> Option<usize> {
        let i = self.steps.partition_point(|s| s.total < sent.total);
        let step = self.steps.get(i)?;
        (sent.departed >= step.since).then_some(i)
    }

    /// Backlog at `now`, in bytes.
    pub fn backlog(&self, now: Time) -> f64 {
        self.steps.back().map_or(0.0, |s| self.drained(s, now))
    }

    /// True if the bytes handed over left the link idle when that packet departed, whatever the samples say: a delay that
    /// stays is then none of this queue.
    pub fn is_idle(&self, sent: Sent) -> bool {
        self.step_of(sent)
            .is_some_and(|i| self.steps[i].unsampled <= 0.0)
    }

    /// Time that a packet handed over at `now` waits.
    pub fn wait(&self, now: Time) -> Duration {
        Duration::from_secs_f64(self.backlog(now) / self.bytes_per_s)
    }

    /// Estimated wait of that packet; `None` if nothing is known of its time.
    pub fn wait_of(&self, sent: Sent) -> Option<Duration> {
        let step = &self.steps[self.step_of(sent)?];
        Some(Duration::from_secs_f64(
            self.drained(step, sent.departed) / self.bytes_per_s,
        ))
    }

    /// Least rate of the link that fits that packet if it waited `wait`, bytes per second: everything that was handed over
    /// from any time on until its departure, but the packet itself, had left the link by the end of that wait.
    pub fn least_rate(&self, sent: Sent, wait: Duration) -> f64 {
        let exit = sent.departed + wait;
        let end = self.step_of(sent).map_or(0, |i| i + 1);
        let begin = self
            .steps
            .partition_point(|s| s.at < sent.departed.saturating_sub(BURST));
        let (mut bytes, mut least) = (-OWN, 0.0f64);
        for i in (begin + 1..end).rev() {
            bytes += self.steps[i].arrived;
            // What a step reports came after the step before it.
            let span_s = exit.saturating_since(self.steps[i - 1].at).as_secs_f64();
            least = least.max(bytes / span_s.max(SHORTEST_BURST_S));
        }
        least
    }

    /// Records a packet handed over at `now`.
    pub fn arrived(&mut self, now: Time, len: Bytes) {
        match self.steps.back() {
            Some(last) if now.saturating_since(last.at) < STEP => {
                self.passed(last.at, last.at, len)
            }
            _ => self.passed(now, now, len),
        }
    }

    /// Records bytes handed over between `since` and `now`; no packet of a later `since` is known yet.
    pub fn passed(&mut self, since: Time, now: Time, len: Bytes) {
        let arrived = len.get() as f64;
        self.total += len.get();
        let mut step = Step {
            since,
            at: now,
            total: self.total,
            arrived,
            backlog: 0.0,
            unsampled: 0.0,
        };
        let (before, at) = (self.steps.back()).map_or((0.0, since), |s| (s.unsampled, s.at));
        let span_s = now.saturating_since(at).as_secs_f64();
        step.unsampled = left_over(before, arrived, span_s, self.bytes_per_s);
        step.backlog = self.after(self.backlog(since), &step);
        match self.steps.back_mut() {
            Some(last) if now == last.at => {
                last.total = self.total;
                last.arrived += arrived;
                last.backlog = step.backlog;
                last.unsampled = step.unsampled;
            }
            _ => self.steps.push_back(step),
        }
        let old = now.saturating_sub(HISTORY);
        while self.steps.front().is_some_and(|s| s.at < old) && self.steps.len() > 1 {
            self.steps.pop_front();
        }
    }

    /// Corrects the estimate by a packet that waited `wait`: by `gain` of the error, which is returned in seconds. `None` if
    /// nothing is known of its time.
    pub fn measured(&mut self, sent: Sent, wait: Duration, gain: f64) -> Option<f64> {
        let first = self.step_of(sent)?;
        let predicted = self.drained(&self.steps[first], sent.departed);
        let error = wait.as_secs_f64() * self.bytes_per_s - predicted;
        let corrected = (self.steps[first].backlog + gain * error).max(0.0);
        self.steps[first].backlog = self.filled(corrected);
        for at in first + 1..self.steps.len() {
            let left = self.drained(&self.steps[at - 1], self.steps[at].since);
            self.steps[at].backlog = self.after(left, &self.steps[at]);
        }
        Some(error / self.bytes_per_s)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 Mbit/s.
    const RATE: f64 = 1.25e6;

    fn ms(ms: u64) -> Time {
        Time::from_millis(ms)
    }

    fn sent(ms: u64, total: u64) -> Sent {
        Sent {
            departed: Time::from_millis(ms),
            total,
        }
    }

    #[test]
    fn a_burst_drains_at_the_capacity_and_not_below_zero() {
        let mut q = HiddenQueue::new(RATE);
        for _ in 0..10 {
            q.arrived(ms(0), Bytes::new(1500));
        }
        // 15 000 bytes take 12 ms.
        assert!((q.wait(ms(0)).as_millis_f64() - 12.0).abs() < 1e-6);
        assert!((q.wait(ms(5)).as_millis_f64() - 7.0).abs() < 1e-6);
        assert_eq!(q.backlog(ms(20)), 0.0);
        q.arrived(ms(20), Bytes::new(1500));
        assert_eq!(q.backlog(ms(20)), 1500.0);
    }

    #[test]
    fn a_sample_corrects_the_past_and_what_followed_is_replayed() {
        let mut q = HiddenQueue::new(RATE);
        q.arrived(ms(0), Bytes::new(15_000));
        q.arrived(ms(40), Bytes::new(12_500));
        // At 0 the queue held 30 ms more than was known: 42 ms, of which 2 are left when the next packets come.
        let error = q
            .measured(sent(0, 15_000), Duration::from_millis(42), 1.0)
            .unwrap();
        assert!((error - 0.030).abs() < 1e-9);
        assert!((q.wait(ms(40)).as_millis_f64() - 12.0).abs() < 1e-6);
        // A correction of half of it would leave nothing at 40 ms: the floor holds in the replay, too.
        let mut q = HiddenQueue::new(RATE);
        q.arrived(ms(0), Bytes::new(15_000));
        q.arrived(ms(40), Bytes::new(12_500));
        q.measured(sent(0, 15_000), Duration::from_millis(42), 0.5);
        assert!((q.wait(ms(40)).as_millis_f64() - 10.0).abs() < 1e-6);
    }

    #[test]
    fn a_buffer_of_known_size_holds_no_more() {
        let mut q = HiddenQueue::new(RATE);
        q.set_most(Some(62_500.0));
        for i in 0..100 {
            q.arrived(ms(i), Bytes::new(3000));
        }
        assert!(q.wait(ms(99)).as_millis_f64() <= 50.0);
    }

    #[test]
    fn a_wrong_capacity_leaves_a_small_bias_while_samples_come() {
        // 1 % too fast: bytes alone would be empty after seconds; 100 samples a second hold it at 20 ms.
        let mut q = HiddenQueue::new(1.01 * RATE);
        q.arrived(ms(0), Bytes::new(25_000));
        for t in 1..10_000 {
            q.arrived(ms(t), Bytes::new(1250));
            if t % 10 == 0 {
                q.measured(sent(t, 25_000 + 1250 * t), Duration::from_millis(20), 0.2);
            }
        }
        let wait = q.wait(ms(9999)).as_millis_f64();
        assert!((wait - 20.0).abs() < 2.0, "{wait}");
        let mut drifts = HiddenQueue::new(1.01 * RATE);
        drifts.arrived(ms(0), Bytes::new(25_000));
        (1..10_000).for_each(|t| drifts.arrived(ms(t), Bytes::new(1250)));
        assert!(drifts.wait(ms(9999)).as_millis_f64() < 3.0);
    }

    #[test]
    fn a_report_of_a_busy_link_is_no_queue_and_a_burst_in_it_is_one() {
        let mut q = HiddenQueue::new(RATE);
        // 10 ms of bytes each 10 ms: the link is full, and nothing waits.
        for t in 1..100 {
            q.passed(ms(10 * t - 10), ms(10 * t), Bytes::new(12_500));
            assert_eq!(q.backlog(ms(10 * t)), 0.0);
        }
        q.passed(ms(990), ms(1000), Bytes::new(25_000));
        assert!((q.wait(ms(1000)).as_millis_f64() - 10.0).abs() < 1e-6);
        // The probe left with the last byte, half a millisecond before the counters were read.
        let probe = Sent {
            departed: Time::from_micros(999_500),
            total: q.total(),
        };
        let wait = q.wait_of(probe).expect("it is known").as_millis_f64();
        assert!((wait - 10.0).abs() < 1e-6, "{wait}");
        assert_eq!(q.measured(probe, Duration::from_millis(10), 1.0), Some(0.0));
    }

    #[test]
    fn a_sample_from_before_all_records_changes_nothing() {
        let mut q = HiddenQueue::new(RATE);
        assert_eq!(
            q.measured(sent(5, 500), Duration::from_millis(9), 0.2),
            None
        );
        q.arrived(ms(10), Bytes::new(1500));
        assert_eq!(
            q.measured(sent(5, 500), Duration::from_millis(9), 0.2),
            None
        );
    }
}
