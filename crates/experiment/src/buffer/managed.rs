//! Whether a queue drops before it is full, as one that is managed (AQM) does.
//!
//! **Method.** A drop-tail queue loses what finds it full, and nothing else. How much was queued when a datagram was lost, the
//! datagram before it tells that arrived: as many as arrived while it waited. What was lost in front of a queue that had been
//! longer, or grew longer, something else than its end dropped: its management, or the line itself. Datagrams are compared
//! rather than times, so that a line whose rate changes, or a token bucket that runs empty, is none.
//!
//! **Source.** RFC 7567, section 2: active queue management drops before a queue is full.
//!
//! **Units.** Datagrams.

use base::program::Train;
use stats::Figure;

/// Below this part of the full queue nothing is lost for want of room.
const BELOW: f64 = 0.7;
/// A line that loses one in a thousand is not called managed for it.
const LINE_LOSES: f64 = 0.001;
/// A shorter queue tells nothing.
const LEAST_QUEUED: f64 = 8.0;

/// Of the flood's datagrams that came to a queue that was not full, the share that was lost on the line; none where the queue is too
/// short to tell.
pub(super) fn lost_early(train: &Train) -> Option<Figure> {
    let least = train.delays().map(|d| d.1).min()?;
    let flood = || train.datagrams().filter(|(due, _)| due.step == 1);
    let mut arrived: Vec<i64> = flood().filter_map(|(_, f)| f.received_ns).collect();
    arrived.sort_unstable();
    let until = |t: i64| arrived.partition_point(|a| *a <= t);
    let mut found = 0.0;
    let (mut queued, mut lost) = (Vec::new(), Vec::new());
    for (_, fate) in flood() {
        match (fate.sent_ns, fate.received_ns) {
            (Some(sent), Some(received)) => {
                found = (until(received) - until(sent + least)) as f64;
                queued.push(found);
            }
            (Some(_), None) => lost.push(found),
            (None, _) => {}
        }
    }
    let full = stats::quantile_of_sorted(&stats::sorted(&queued), 0.95)?;
    if full < LEAST_QUEUED {
        return None;
    }
    let early = |all: &[f64]| all.iter().filter(|n| **n < BELOW * full).count() as f64;
    let (lost, came) = (early(&lost), early(&queued));
    (came > 0.0).then(|| stats::wilson(lost, lost + came))
}

/// Whether such a share makes the queue a managed one, or the line one that loses by itself.
pub(crate) fn is_managed(lost_early: &Figure) -> bool {
    matches!(lost_early, Figure::Is { low, .. } if *low > LINE_LOSES)
}
