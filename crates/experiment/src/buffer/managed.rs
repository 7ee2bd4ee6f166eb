//! Early drops: losses before the queue is full, as an AQM causes.
//!
//! **Method.** A drop-tail queue loses only packets that find it full. The backlog at the time of a loss is that of the
//! datagram before it that arrived: as many as arrived while it waited. If the queue was longer before or grew longer
//! later, the datagram was not lost for lack of space: an AQM dropped it, or the link itself. Datagrams are compared
//! rather than times, so that a link whose rate changes, or a token bucket that runs empty, does not look like an AQM.
//!
//! **Source.** RFC 7567, section 2: active queue management drops before a queue is full.
//!
//! **Units.** Datagrams.

use base::program::Train;
use stats::Figure;

/// Share of the full queue below which nothing is lost for lack of space.
const BELOW: f64 = 0.7;
/// Loss rate of the link itself up to which no AQM is assumed.
const LINE_LOSES: f64 = 0.001;
/// Queue in datagrams below which nothing can be told.
const LEAST_QUEUED: f64 = 8.0;

/// Share lost on the link, of the flood's datagrams that met a queue that was not full; none if the queue is too short
/// to tell.
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

/// True if such a share of losses shows an AQM, or a link that loses packets by itself.
pub(crate) fn is_managed(lost_early: &Figure) -> bool {
    matches!(lost_early, Figure::Is { low, .. } if *low > LINE_LOSES)
}
