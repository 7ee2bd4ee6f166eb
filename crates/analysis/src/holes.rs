//! Gaps (stretches without a record) and outages (stretches without an answer).
//!
//! **Method.** A gap lasts from one sent probe to the next, if that is longer than ten intervals and than a slot. In an
//! outage, probes were due for at least as long, and none was answered in time. A stretch in which the network kept probes
//! from leaving is an outage however short: no answer could have come. Both begin and end at send times of probes, not at
//! edges of slots. Availability is the share of the probed time outside outages. This is its only definition: reports
//! and plots take it from here.
//!
//! **Limits.** An outage of lost probes that is shorter than ten intervals or than a slot does not count. A gap inside one
//! slot is not seen. Excluded stretches are not looked at.

use crate::series::{KeptBack, Series, slots::Slot};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// A stretch in which nothing was recorded.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gap {
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Reason from the exclusion that covers the gap, or from an incident at that time; empty if neither is known.
    pub reason: String,
}

/// A stretch in which probes were sent and none was answered in time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outage {
    /// First probe that was not answered.
    pub from_ns: i64,
    /// First answered probe after the outage, or the end of the recording.
    pub to_ns: i64,
    /// Probes lost in it, or kept from leaving by the network.
    pub lost: u64,
    /// True if an answer ended the outage.
    pub ended: bool,
    /// Incident of this host at that time, such as an interface that was down; empty if none is known.
    #[serde(default)]
    pub cause: String,
}

/// Gaps, outages and availability of a target.
pub struct Holes {
    /// Gaps in order.
    pub gaps: Vec<Gap>,
    /// Outages in order.
    pub outages: Vec<Outage>,
    /// Share of the probed time outside outages.
    pub availability: Figure,
    /// Stretches in which probes were due, in order; outages are included.
    pub due: Vec<(i64, i64)>,
}

/// Finds the gaps and outages of a series.
pub fn holes(series: &Series) -> Holes {
    let shortest = series.plan.shortest_hole_ns();
    let slots: Vec<&Slot> = series.slots.all.iter().filter(|s| s.sent > 0).collect();
    // Stretches in which probes were sent without a gap.
    let stretches: Vec<&[&Slot]> = slots
        .chunk_by(|a, b| b.first_sent_ns - a.last_sent_ns <= shortest)
        .collect();
    let mut holes = Holes {
        gaps: stretches
            .windows(2)
            .map(|w| gap(series, end(w[0]), w[1][0].first_sent_ns))
            .collect(),
        outages: Vec::new(),
        availability: Figure::cannot_tell("no probe was due"),
        due: Vec::new(),
    };
    let (mut probed, mut out, kept_back) = (0, 0, series.kept_back());
    for stretch in stretches {
        let due = (
            stretch[0].first_sent_ns,
            end(stretch) + series.plan.interval_ns,
        );
        let found = outages(stretch, shortest, series.plan.interval_ns);
        let found = with_kept_back(found, &kept_back, due, series.plan.interval_ns);
        probed += due.1 - due.0;
        holes.due.push(due);
        out += found.iter().map(|o| o.to_ns - o.from_ns).sum::<i64>();
        holes.outages.extend(found);
    }
    if probed > 0 {
        holes.availability = Figure::exactly(1.0 - out as f64 / probed as f64);
    }
    holes
}

/// Adds the stretches in which the network kept probes from leaving to the outages of the time in which probes were due,
/// and joins what overlaps.
fn with_kept_back(
    mut found: Vec<Outage>,
    kept_back: &[KeptBack],
    (begin, end): (i64, i64),
    interval_ns: i64,
) -> Vec<Outage> {
    let first = kept_back.partition_point(|k| k.to_ns <= begin);
    let within = kept_back[first..].iter().take_while(|k| k.from_ns < end);
    found.extend(within.map(|k| Outage {
        from_ns: k.from_ns.max(begin),
        to_ns: k.to_ns.min(end),
        lost: k.count,
        ended: k.to_ns < end,
        cause: String::new(),
    }));
    found.sort_by_key(|o| o.from_ns);
    let mut apart: Vec<Outage> = Vec::new();
    for o in found {
        match apart.last_mut().filter(|last| o.from_ns <= last.to_ns) {
            Some(last) => {
                if o.to_ns > last.to_ns {
                    (last.to_ns, last.ended) = (o.to_ns, o.ended);
                }
                // Those kept back may be counted in both.
                let due = ((last.to_ns - last.from_ns) / interval_ns).max(1) as u64;
                last.lost = last.lost.saturating_add(o.lost).min(due);
            }
            None => apart.push(o),
        }
    }
    apart
}

fn end(stretch: &[&Slot]) -> i64 {
    stretch[stretch.len() - 1].last_sent_ns
}

fn gap(series: &Series, from_ns: i64, to_ns: i64) -> Gap {
    let about = series
        .plan
        .cuts
        .exclusions
        .iter()
        .filter(|x| x.from_ns < to_ns && from_ns < x.to_ns)
        .max_by_key(|x| x.to_ns.min(to_ns) - x.from_ns.max(from_ns));
    Gap {
        from_ns,
        to_ns,
        reason: about.map_or(String::new(), |x| x.reason.clone()),
    }
}

fn outages(stretch: &[&Slot], shortest: i64, interval_ns: i64) -> Vec<Outage> {
    let mut found = Vec::new();
    let mut last_ok = None;
    let mut lost = 0u64;
    let begin = stretch[0].first_sent_ns;
    let hole = |last_ok: Option<i64>, to_ns: i64, lost: u64, ended: bool| {
        let from_ns = last_ok.map_or(begin, |t| t + interval_ns);
        (to_ns - from_ns >= shortest && lost > 0).then_some(Outage {
            from_ns,
            to_ns,
            lost: lost.min(((to_ns - from_ns) / interval_ns).max(1) as u64),
            ended,
            cause: String::new(),
        })
    };
    for s in stretch {
        if s.first_ok_ns <= s.last_ok_ns {
            found.extend(hole(last_ok, s.first_ok_ns, lost + u64::from(s.lost), true));
            last_ok = Some(s.last_ok_ns);
            // Those lost before the slot's last answer are not the next hole's; how many there are is not known.
            lost = u64::from(s.lost);
        } else {
            lost += u64::from(s.lost);
        }
    }
    found.extend(hole(last_ok, end(stretch) + interval_ns, lost, false));
    found
}
