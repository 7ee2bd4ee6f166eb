//! Backlog of a queue that cannot be asked: the modem's, behind the gateway.
//!
//! **Method.** The queue grows by the bytes that the gateway hands over and shrinks by the link's capacity. Each delay
//! sample says how long one packet waited. It corrects the backlog at the time when that packet *left* the gateway, and
//! what happened since is replayed. The backlog has a floor of zero and, once the buffer's size is known, a ceiling.
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

/// Arrivals that begin at one time, and the backlog after them.
#[derive(Clone, Copy, Debug)]
struct Step {
    at: Time,
    arrived: f64,
    backlog: f64,
}

/// Estimate of the backlog, in bytes.
#[derive(Clone, Debug)]
pub struct HiddenQueue {
    bytes_per_s: f64,
    /// Size of the buffer, if known.
    most: Option<f64>,
    steps: VecDeque<Step>,
}

impl HiddenQueue {
    /// An empty queue in front of a link that carries `bytes_per_s`.
    pub fn new(bytes_per_s: f64) -> HiddenQueue {
        HiddenQueue {
            bytes_per_s,
            most: None,
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

    /// Backlog at `now`, in bytes.
    pub fn backlog(&self, now: Time) -> f64 {
        self.steps.back().map_or(0.0, |s| self.drained(s, now))
    }

    /// Time that a packet handed over at `now` waits.
    pub fn wait(&self, now: Time) -> Duration {
        Duration::from_secs_f64(self.backlog(now) / self.bytes_per_s)
    }

    /// Estimated wait of a packet that left at `departed`; `None` if nothing is known of that time.
    pub fn wait_at(&self, departed: Time) -> Option<Duration> {
        let i = self.steps.partition_point(|s| s.at <= departed);
        let step = &self.steps[i.checked_sub(1)?];
        Some(Duration::from_secs_f64(
            self.drained(step, departed) / self.bytes_per_s,
        ))
    }

    /// Least rate of the link that fits a packet which left the gateway at `departed` and waited `wait`, bytes per second:
    /// everything that was handed over from any time on until `departed`, but the packet itself, had left the link by the
    /// end of that wait.
    pub fn least_rate(&self, departed: Time, wait: Duration) -> f64 {
        let exit = departed + wait;
        let end = self.steps.partition_point(|s| s.at <= departed);
        let begin = self
            .steps
            .partition_point(|s| s.at < departed.saturating_sub(BURST));
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
        let len = len.get() as f64;
        match self.steps.back_mut() {
            Some(last) if now.saturating_since(last.at) < STEP => {
                last.arrived += len;
                last.backlog += len;
            }
            _ => {
                let backlog = self.backlog(now) + len;
                self.steps.push_back(Step {
                    at: now,
                    arrived: len,
                    backlog,
                });
                let old = now.saturating_sub(HISTORY);
                while self.steps.front().is_some_and(|s| s.at < old) && self.steps.len() > 1 {
                    self.steps.pop_front();
                }
            }
        }
        if let (Some(last), Some(most)) = (self.steps.back_mut(), self.most) {
            last.backlog = last.backlog.min(most);
        }
    }

    /// Corrects the estimate by a packet that left the gateway at `departed` and waited `wait`: by `gain` of the error,
    /// which is returned in seconds. `None` if nothing is known of that time.
    pub fn measured(&mut self, departed: Time, wait: Duration, gain: f64) -> Option<f64> {
        let i = self.steps.partition_point(|s| s.at <= departed);
        let first = i.checked_sub(1)?;
        let predicted = self.drained(&self.steps[first], departed);
        let error = wait.as_secs_f64() * self.bytes_per_s - predicted;
        let corrected = (self.steps[first].backlog + gain * error).max(0.0);
        self.steps[first].backlog = self.filled(corrected);
        for at in first + 1..self.steps.len() {
            let left = self.drained(&self.steps[at - 1], self.steps[at].at);
            let backlog = self.filled(left + self.steps[at].arrived);
            self.steps[at].backlog = backlog;
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
        let error = q.measured(ms(0), Duration::from_millis(42), 1.0).unwrap();
        assert!((error - 0.030).abs() < 1e-9);
        assert!((q.wait(ms(40)).as_millis_f64() - 12.0).abs() < 1e-6);
        // A correction of half of it would leave nothing at 40 ms: the floor holds in the replay, too.
        let mut q = HiddenQueue::new(RATE);
        q.arrived(ms(0), Bytes::new(15_000));
        q.arrived(ms(40), Bytes::new(12_500));
        q.measured(ms(0), Duration::from_millis(42), 0.5);
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
                q.measured(ms(t - 1), Duration::from_millis(20), 0.2);
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
    fn a_sample_from_before_all_records_changes_nothing() {
        let mut q = HiddenQueue::new(RATE);
        assert_eq!(q.measured(ms(5), Duration::from_millis(9), 0.2), None);
        q.arrived(ms(10), Bytes::new(1500));
        assert_eq!(q.measured(ms(5), Duration::from_millis(9), 0.2), None);
    }
}
