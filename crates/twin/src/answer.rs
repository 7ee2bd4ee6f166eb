//! Figures of a twin, as `--json` prints them.

use analysis::answer::Discipline;
use base::record::Direction;
use link::{DirectionSpec, LinkSpec};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Version of this shape in `--json`.
pub const TWIN_VERSION: u32 = 1;

/// Twin of a link.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Twin {
    /// Version of the shape, [`TWIN_VERSION`].
    pub version: u32,
    /// Title of the recording.
    pub title: String,
    /// Link file of the twin.
    #[schemars(with = "serde_json::Value")]
    pub link: LinkSpec,
    /// Congestion controller of the recorded load.
    pub controller: String,
    /// Segments that leave a sender together.
    pub burst: u64,
    /// Base round trip of the recording, ms.
    pub base_rtt_ms: Figure,
    /// Figures of the uplink; none if a given link was checked instead of fitted.
    pub up: Option<Fitted>,
    /// Figures of the downlink.
    pub down: Option<Fitted>,
    /// Comparisons of link and twin, phase by phase.
    pub compared: Vec<Compared>,
    /// Verdict on the twin.
    pub trust: Trust,
    /// Evidence of the verdict, one line each.
    pub because: Vec<String>,
    /// Simulated runs that this took.
    pub runs: u64,
    /// Waits behind `compared`, for pictures.
    #[serde(skip)]
    pub waits: Vec<Waits>,
}

/// Waits of link and twin in one phase and direction.
#[derive(Clone, Debug)]
pub struct Waits {
    /// Phase of the test.
    pub phase: String,
    /// True if the twin was not fitted to this phase.
    pub held_out: bool,
    /// Direction of the waits.
    pub direction: Direction,
    /// Waits of the link: seconds since the phase began, and ms.
    pub link: Vec<(f64, f64)>,
    /// Waits of the first run of the twin, in the same form.
    pub twin: Vec<(f64, f64)>,
    /// Waits of the link after the warm-up, ms.
    pub link_steady: Vec<f64>,
    /// Waits of all runs of the twin after the warm-up, ms.
    pub twin_steady: Vec<f64>,
}

/// Verdict on a twin.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "snake_case")]
pub enum Trust {
    /// The twin reproduces a load that it was not fitted to.
    Agrees,
    /// The recording holds no such load, or only part of it is reproduced.
    Doubtful,
    /// The twin is not this link.
    Rejected,
}

/// Fit of one direction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Fitted {
    /// Rate in whole IP packets; the mean where it varies.
    pub rate_bps: Figure,
    /// Share of the time in which the rate was seen, if it varies; none for a fixed rate.
    pub rate_seen: Option<f64>,
    /// Buffer, or the reason why it does not show.
    pub buffer_bytes: Figure,
    /// Name of the discipline, or the reason why it cannot be told.
    pub discipline: Named,
    /// Kind of the discipline.
    pub kind: Discipline,
    /// Disciplines that explain the recording as well, the best first.
    pub ties: Vec<Tie>,
    /// Evidence on the kind of queue, from the load and the overload trains.
    pub evidence: Vec<String>,
}

/// Name, or the reason why there is none.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(untagged)]
pub enum Named {
    /// Name.
    Is(String),
    /// Reason why there is none.
    CannotTell { cannot_tell: String },
}

/// Discipline that explains the recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Tie {
    /// Name for people.
    pub name: String,
    /// Queue as a link file has it.
    pub queue: String,
    /// Log-likelihood below that of the best.
    pub behind: f64,
}

/// Link and twin in one phase and direction.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Compared {
    /// Phase of the test.
    pub phase: String,
    /// True if the twin was not fitted to this phase.
    pub held_out: bool,
    /// Direction of the waits.
    pub direction: Direction,
    /// Median, 95 % and 99 % points of the waits of the link, ms.
    pub link_ms: [f64; 3],
    /// The same of the twin: means over seeds.
    pub twin_ms: [f64; 3],
    /// Range of the twin's 95 % point over seeds, ms.
    pub twin_p95_range_ms: [f64; 2],
    /// Relative error of the 95 % point.
    pub p95_error: f64,
    /// Mean distance of the two distributions, ms.
    pub w1_ms: f64,
    /// The same between two runs of the twin: the noise floor, ms.
    pub floor_ms: f64,
    /// `w1_ms` / `floor_ms`.
    pub score: f64,
    /// Relative error of the rate; none if this direction was not loaded.
    pub rate_error: Option<f64>,
    /// The same with the capacity that this phase had, where the rate moves and was seen; none for a fixed rate.
    pub replayed: Option<Replayed>,
    /// Verdict on this phase and direction: of `replayed` if there is one.
    pub trust: Trust,
}

/// Twin whose rate is that of the compared phase itself: its queue and its load are held out, and the capacity is not.
/// The capacity of one minute says little about that of the next where a rate moves.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct Replayed {
    /// Median, 95 % and 99 % points of the waits of the twin, ms: means over seeds.
    pub twin_ms: [f64; 3],
    /// Relative error of the 95 % point.
    pub p95_error: f64,
    /// Mean distance of the distributions of link and twin, ms.
    pub w1_ms: f64,
    /// The same between two runs of the twin, ms.
    pub floor_ms: f64,
    /// Relative error of the rate; none if this direction was not loaded.
    pub rate_error: Option<f64>,
}

impl From<Compared> for Replayed {
    fn from(c: Compared) -> Replayed {
        Replayed {
            twin_ms: c.twin_ms,
            p95_error: c.p95_error,
            w1_ms: c.w1_ms,
            floor_ms: c.floor_ms,
            rate_error: c.rate_error,
        }
    }
}

/// Least relative error of a twin's delays.
const LEAST_SHARE: f64 = 0.02;
/// Least error of a twin's delays in times of a full packet: a queue is no better known.
const LEAST_PACKETS: f64 = 0.3;

/// Errors of a twin's delays, from the load that it was not fitted to. A known link has none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Doubt([Option<Part>; 2]);

/// Error of the delays of one direction.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Part {
    /// Relative error of the 95 % point.
    share: f64,
    /// Delay up to which the share applies, ms: the link's 95 % point. A larger delay is in the other direction.
    most_ms: f64,
    /// Error in any case, ms.
    least_ms: f64,
}

impl Doubt {
    /// Error of a delay that both directions add, ms.
    pub fn of(&self, delay_ms: f64) -> f64 {
        let parts = self.0.iter().flatten();
        parts
            .map(|p| (p.share * delay_ms.clamp(0.0, p.most_ms)).hypot(p.least_ms))
            .fold(0.0, f64::hypot)
    }
}

impl Twin {
    /// Errors of its delays on the held-out load.
    pub fn doubt(&self) -> Doubt {
        let mut doubt = Doubt::default();
        for c in &self.compared {
            let own = &mut doubt.0[c.direction as usize];
            // Only a phase that the twin was not fitted to tells its error.
            if c.held_out || own.is_none() {
                let spec = match c.direction {
                    Direction::Up => &self.link.up,
                    Direction::Down => &self.link.down,
                };
                let bps = crate::whatif::cure::mean_bps(spec).max(1.0);
                *own = Some(Part {
                    share: c.p95_error.abs().clamp(LEAST_SHARE, 1.0),
                    most_ms: c.link_ms[1],
                    least_ms: LEAST_PACKETS * spec.mtu.get() as f64 * 8e3 / bps,
                });
            }
        }
        doubt
    }

    /// Links that explain the recording alike, the best first: at most this many with other disciplines, and those with
    /// the ends of the buffers' intervals.
    pub fn alike(&self, most: usize) -> Vec<LinkSpec> {
        let mut all = vec![self.link.clone()];
        let pair = [("up", &self.up), ("down", &self.down)];
        for (direction, fitted) in pair {
            for tie in fitted.iter().flat_map(|f| &f.ties) {
                let mut link = self.link.clone();
                // A queue that this program wrote is one that it reads.
                let set = link.set(&format!("{direction}.queue"), &tie.queue);
                if set.is_ok() && !all.contains(&link) && all.len() < most {
                    all.push(link);
                }
            }
        }
        for end in [0, 1] {
            let mut link = self.link.clone();
            for (direction, fitted) in pair {
                if let Some(share) = fitted.as_ref().and_then(|f| f.buffer_share(end)) {
                    let own = match direction {
                        "up" => &mut link.up,
                        _ => &mut link.down,
                    };
                    resize(own, share);
                }
            }
            if !all.contains(&link) {
                all.push(link);
            }
        }
        all
    }
}

/// Size of a buffer whose end was never met, relative to the level that it reached: an assumption, for an interval.
const UNMET: f64 = 3.0;
/// Half of a buffer's interval, relative to it, up to which the buffer is known.
const KNOWN: f64 = 0.02;

impl Fitted {
    /// Lower (0) or upper (1) end of the interval of a plain buffer, relative to the fitted one; none if it is known.
    fn buffer_share(&self, end: usize) -> Option<f64> {
        if self.kind != Discipline::DropTail {
            return None;
        }
        match &self.buffer_bytes {
            Figure::CannotTell { .. } => (end == 1).then_some(UNMET),
            Figure::Is { value, low, high } => {
                let share = [*low, *high][end] / value.max(1.0);
                ((share - 1.0).abs() > KNOWN).then_some(share.max(0.2))
            }
        }
    }
}

/// Changes the size of a plain queue.
fn resize(spec: &mut DirectionSpec, share: f64) {
    let limits = spec.queue.limits();
    let text = match (limits.bytes, limits.packets) {
        (Some(bytes), _) => {
            // No smaller than a full packet.
            let bytes = (bytes.get() as f64 * share).max(spec.mtu.get() as f64);
            format!("fifo:bytes={bytes:.0} B")
        }
        (None, Some(packets)) => format!("fifo:packets={:.0}", (packets as f64 * share).max(1.0)),
        (None, None) => return,
    };
    if let Ok(queue) = text.parse() {
        spec.queue = queue;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_error_of_a_short_queue_does_not_widen_the_delays_of_a_long_one() {
        let part = |share, most_ms, least_ms| {
            Some(Part {
                share,
                most_ms,
                least_ms,
            })
        };
        let doubt = Doubt([part(0.7, 64.0, 3.4), part(0.02, 1541.0, 0.25)]);
        // 0.7 of 64 ms is 45 ms, and 2 % of 1541 ms are 31 ms.
        assert!((doubt.of(1541.0) - 45f64.hypot(31.0)).abs() < 1.0);
        assert!((doubt.of(20.0) - 14f64.hypot(3.4)).abs() < 0.1);
        assert_eq!(Doubt::default().of(100.0), 0.0);
    }
}
