//! Trend of the delays of packets, and its verdict on the queue.
//!
//! Packets that leave within 5 ms form a group. From one group to the next the delay changes by what the last packets'
//! arrivals differ beyond their departures. The slope of the summed and smoothed changes over 20 groups, times a gain, is
//! compared with a threshold that adapts to what is seen: slowly upwards, so that a queue of somebody else does not make
//! the call starve, and faster downwards.

use base::Time;
use std::collections::VecDeque;

/// State of the queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Usage {
    /// The queue shrinks.
    Under,
    /// Neither.
    #[default]
    Normal,
    /// The queue grows.
    Over,
}

/// Departures within this time form a group, ms. Draft section 5.2: 5 ms.
const GROUP_MS: f64 = 5.0;
/// Longest span of arrivals of a group that goes on because its packets overtake their gaps, ms (libwebrtc).
const BURST_MS: f64 = 100.0;
/// Groups of the regression, weight of the old in smoothing, gain (libwebrtc).
const GROUPS: usize = 20;
const SMOOTHING: f64 = 0.9;
const GAIN: f64 = 4.0;
/// Number of changes by which a slope is multiplied at most (libwebrtc).
const MOST_CHANGES: u32 = 60;
/// First threshold and its limits, ms. Draft section 5.4 and libwebrtc.
const THRESHOLD_MS: f64 = 12.5;
const THRESHOLDS_MS: (f64, f64) = (6.0, 600.0);
/// Rates at which the threshold follows a larger and a smaller trend, per ms (libwebrtc; the draft has 0.01, 0.00018).
const FOLLOW_UP: f64 = 0.0087;
const FOLLOW_DOWN: f64 = 0.039;
/// Excess over the threshold above which it does not follow, ms. Draft section 5.4: 15.
const TOO_FAR_MS: f64 = 15.0;
/// Longest time that counts for following, ms (libwebrtc).
const LONGEST_MS: f64 = 100.0;
/// Time for which the queue has to grow, ms. Draft section 5.4: 10 ms.
const OVERUSE_MS: f64 = 10.0;

/// Packets that left together: departures and arrivals of the first and the last.
#[derive(Clone, Copy, Debug)]
struct Group {
    first_sent: Time,
    last_sent: Time,
    first_came: Time,
    last_came: Time,
}

/// Trend of the delays of one flow.
#[derive(Clone, Debug)]
pub struct Trend {
    group: Option<Group>,
    before: Option<Group>,
    /// Arrival of a group and the smoothed sum of the changes, ms.
    points: VecDeque<(f64, f64)>,
    began: Option<Time>,
    sum_ms: f64,
    smoothed_ms: f64,
    changes: u32,
    slope: f64,
    threshold_ms: f64,
    followed: Option<Time>,
    /// Time for which the trend has been above the threshold, ms, and how often in a row.
    over_ms: Option<f64>,
    overs: u32,
    usage: Usage,
}

impl Default for Trend {
    fn default() -> Trend {
        Trend {
            group: None,
            before: None,
            points: VecDeque::with_capacity(GROUPS + 1),
            began: None,
            sum_ms: 0.0,
            smoothed_ms: 0.0,
            changes: 0,
            slope: 0.0,
            threshold_ms: THRESHOLD_MS,
            followed: None,
            over_ms: None,
            overs: 0,
            usage: Usage::Normal,
        }
    }
}

fn ms(later: Time, earlier: Time) -> f64 {
    later.signed_since(earlier).as_nanos() as f64 / 1e6
}

impl Trend {
    /// State of the queue.
    pub fn usage(&self) -> Usage {
        self.usage
    }

    /// Takes a packet that came; one that left before the present group does not count.
    pub fn packet(&mut self, sent: Time, came: Time) {
        let Some(group) = &mut self.group else {
            self.group = Some(Group::of(sent, came));
            return;
        };
        if sent < group.first_sent {
            return;
        }
        if group.takes(sent, came) {
            group.last_sent = group.last_sent.max(sent);
            group.last_came = group.last_came.max(came);
            return;
        }
        let done = *group;
        self.group = Some(Group::of(sent, came));
        if let Some(before) = self.before.replace(done) {
            self.change(&before, &done);
        }
    }

    fn change(&mut self, before: &Group, group: &Group) {
        let gap_ms = ms(group.last_sent, before.last_sent);
        let change_ms = ms(group.last_came, before.last_came) - gap_ms;
        self.changes = (self.changes + 1).min(1000);
        let began = *self.began.get_or_insert(group.last_came);
        self.sum_ms += change_ms;
        self.smoothed_ms = SMOOTHING * self.smoothed_ms + (1.0 - SMOOTHING) * self.sum_ms;
        self.points
            .push_back((ms(group.last_came, began), self.smoothed_ms));
        if self.points.len() > GROUPS {
            self.points.pop_front();
        }
        let before = self.slope;
        if self.points.len() == GROUPS {
            self.slope = slope(&self.points).unwrap_or(before);
        }
        self.judge(before, gap_ms, group.last_came);
    }

    fn judge(&mut self, before: f64, gap_ms: f64, now: Time) {
        if self.changes < 2 {
            return;
        }
        let trend_ms = f64::from(self.changes.min(MOST_CHANGES)) * self.slope * GAIN;
        if trend_ms > self.threshold_ms {
            let over_ms = self.over_ms.map_or(gap_ms / 2.0, |over| over + gap_ms);
            self.over_ms = Some(over_ms);
            self.overs += 1;
            if over_ms > OVERUSE_MS && self.overs > 1 && self.slope >= before {
                (self.over_ms, self.overs) = (Some(0.0), 0);
                self.usage = Usage::Over;
            }
        } else {
            (self.over_ms, self.overs) = (None, 0);
            self.usage = match trend_ms < -self.threshold_ms {
                true => Usage::Under,
                false => Usage::Normal,
            };
        }
        self.follow(trend_ms.abs(), now);
    }

    fn follow(&mut self, trend_ms: f64, now: Time) {
        let last = self.followed.replace(now).unwrap_or(now);
        if trend_ms > self.threshold_ms + TOO_FAR_MS {
            return;
        }
        let rate = match trend_ms < self.threshold_ms {
            true => FOLLOW_DOWN,
            false => FOLLOW_UP,
        };
        let span_ms = ms(now, last).clamp(0.0, LONGEST_MS);
        self.threshold_ms += rate * (trend_ms - self.threshold_ms) * span_ms;
        self.threshold_ms = self.threshold_ms.clamp(THRESHOLDS_MS.0, THRESHOLDS_MS.1);
    }
}

impl Group {
    fn of(sent: Time, came: Time) -> Group {
        Group {
            first_sent: sent,
            last_sent: sent,
            first_came: came,
            last_came: came,
        }
    }

    /// True if a packet belongs to it: it left soon after the first, or came in one burst with the last.
    fn takes(&self, sent: Time, came: Time) -> bool {
        let gap_ms = ms(came, self.last_came);
        let overtakes = gap_ms < ms(sent, self.last_sent);
        ms(sent, self.first_sent) <= GROUP_MS
            || overtakes && gap_ms <= GROUP_MS && ms(came, self.first_came) < BURST_MS
    }
}

/// Slope of the line of least squares; none if all points have one abscissa.
fn slope(points: &VecDeque<(f64, f64)>) -> Option<f64> {
    let n = points.len() as f64;
    let mean_x = points.iter().map(|p| p.0).sum::<f64>() / n;
    let mean_y = points.iter().map(|p| p.1).sum::<f64>() / n;
    let xy: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.1 - mean_y)).sum();
    let xx: f64 = points.iter().map(|p| (p.0 - mean_x) * (p.0 - mean_x)).sum();
    (xx > 0.0).then(|| xy / xx)
}
