//! State of a monitor's targets, for a live display and for metrics.

use base::record::{Delay, Status, Text};
use base::{BitsPerSec, Duration};
use std::collections::{BTreeMap, VecDeque};

/// Limits of the counts of round trips: three a decade.
pub const LIMITS: [Duration; 13] = [
    Duration::from_millis(1),
    Duration::from_millis(2),
    Duration::from_millis(5),
    Duration::from_millis(10),
    Duration::from_millis(20),
    Duration::from_millis(50),
    Duration::from_millis(100),
    Duration::from_millis(200),
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
];

/// Buckets of a native histogram from one power of two to the next, as a power of two: Prometheus' schema 3.
pub const SCHEMA: i32 = 3;

/// Returns the bucket of a round trip in a native histogram: the smallest index whose limit, in seconds, is not below it.
/// The limit of index *i* is 2 to the power of *i*/8, so a bucket is 9 % wide.
pub fn bucket(rtt: Duration) -> i32 {
    // A round trip of zero has no logarithm; it counts as the shortest that can be told.
    let seconds = rtt.max(Duration::from_nanos(1)).as_secs_f64();
    let octaves = f64::from(1 << SCHEMA);
    (seconds.log2() * octaves).ceil() as i32
}

/// Appends a value and drops all but the last ten.
fn keep_ten(values: &mut VecDeque<Duration>, value: Duration) {
    values.push_back(value);
    if values.len() > 10 {
        values.pop_front();
    }
}

/// State of one target, for a live display.
#[derive(Clone, Debug)]
pub struct TargetStatus {
    /// Name in the recording.
    pub name: Text,
    /// Interval between its probes.
    pub interval: Duration,
    /// Latest round trip.
    pub rtt: Option<Duration>,
    /// Round trips of the last ten answers (Borlaug 2014, appendix C.2.2).
    pub recent: VecDeque<Duration>,
    /// Probes with a row.
    pub rows: u64,
    /// Answered probes, late ones included.
    pub answered: u64,
    /// Probes that were answered after the time for loss.
    pub late: u64,
    /// Probes that were never answered.
    pub lost: u64,
    /// Probes that are lost although their rows are not written yet: an answer may still come late.
    pub overdue: u64,
    /// Slots in which no probe was sent.
    pub not_sent: u64,
    /// Reason why it does not answer, if that is so.
    pub trouble: Option<String>,
    /// Round trips by the limits of [`LIMITS`]; the last counts those above all.
    pub within: [u64; LIMITS.len() + 1],
    /// Round trips by the buckets of [`bucket`].
    pub buckets: BTreeMap<i32, u64>,
    /// Sum of all round trips.
    pub sum: Duration,
    /// Largest round trip since the state before this one.
    pub largest: Option<Duration>,
    /// Sizes of the last ten steps between successive round trips (IPDV, RFC 3393).
    steps: VecDeque<Duration>,
    /// Number and round trip of the last answer.
    last: Option<(i64, Duration)>,
    /// Number of answers since availability was written last.
    answers: u64,
}

impl TargetStatus {
    /// Returns the state of a target before its first probe.
    pub fn new(name: Text, interval: Duration) -> TargetStatus {
        TargetStatus {
            name,
            interval,
            rtt: None,
            recent: VecDeque::new(),
            rows: 0,
            answered: 0,
            late: 0,
            lost: 0,
            overdue: 0,
            not_sent: 0,
            trouble: None,
            within: [0; LIMITS.len() + 1],
            buckets: BTreeMap::new(),
            sum: Duration::ZERO,
            largest: None,
            steps: VecDeque::new(),
            last: None,
            answers: 0,
        }
    }

    /// Probes that were not answered within the time for loss.
    pub fn unanswered(&self) -> u64 {
        self.lost + self.late + self.overdue
    }

    /// Probes with a known fate, without those that were not sent.
    pub fn judged(&self) -> u64 {
        (self.rows + self.overdue).saturating_sub(self.not_sent)
    }

    /// Moving average of the last ten round trips.
    pub fn mean_of_ten(&self) -> Option<Duration> {
        let n = self.recent.len() as u64;
        (n > 0).then(|| self.recent.iter().copied().sum::<Duration>() / n)
    }

    /// Mean size of the last ten steps between successive round trips.
    pub fn ipdv(&self) -> Option<Duration> {
        let n = self.steps.len() as u64;
        (n > 0).then(|| self.steps.iter().copied().sum::<Duration>() / n)
    }

    fn answered(&mut self, seq: i64, rtt: Duration) {
        self.rtt = Some(rtt);
        keep_ten(&mut self.recent, rtt);
        let above = LIMITS.iter().position(|limit| rtt <= *limit);
        self.within[above.unwrap_or(LIMITS.len())] += 1;
        *self.buckets.entry(bucket(rtt)).or_default() += 1;
        self.sum += rtt;
        self.largest = self.largest.max(Some(rtt));
        if let Some((before, earlier)) = self.last
            && seq == before + 1
        {
            let step = rtt.max(earlier).saturating_sub(rtt.min(earlier));
            keep_ten(&mut self.steps, step);
        }
        self.last = Some((seq, rtt));
    }

    /// True if anything answered since availability was written last.
    pub fn heard(&self) -> bool {
        self.answers > 0
    }

    /// Counts the answers anew: availability was written.
    pub fn restart_answers(&mut self) {
        self.answers = 0;
    }

    /// Counts the row of a probe.
    pub fn note(&mut self, d: &Delay) {
        match d.status {
            Status::Ok | Status::Late => {
                self.answered += 1;
                self.answers += 1;
                self.late += u64::from(d.status == Status::Late);
                if let Some(rtt) = d.rtt_ns {
                    self.answered(d.seq, Duration::from_nanos(rtt.unsigned_abs()));
                }
            }
            Status::Lost | Status::LostUp | Status::LostDown => self.lost += 1,
            Status::NotSent => self.not_sent += 1,
            Status::Duplicate => return,
            Status::Invalid => {}
        }
        self.rows += 1;
    }
}

/// State of a monitor, for a live display.
#[derive(Clone, Debug)]
pub struct MonitorStatus {
    /// Time since the first slot.
    pub elapsed: Duration,
    /// Targets in the order of the plan.
    pub targets: Vec<TargetStatus>,
    /// Interface whose rates are shown.
    pub interface: Option<Text>,
    /// Rate that it receives.
    pub down: Option<BitsPerSec>,
    /// Rate that it sends.
    pub up: Option<BitsPerSec>,
}
