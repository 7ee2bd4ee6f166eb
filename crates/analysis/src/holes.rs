//! Gaps (stretches without a record) and outages (stretches without an answer).
//!
//! **Method.** A gap lasts from one sent probe to the next, if that is longer than ten intervals and than a slot. In an
//! outage, probes were due for at least as long, at least half of them left, and none was answered in time. A stretch in which the network kept probes
//! from leaving is an outage however short: no answer could have come. Both begin and end at send times of probes, not at
//! edges of slots. Availability is the share of the probed time outside outages. This is its only definition: reports
//! and plots take it from here. Its interval holds what the probes leave open: an outage's ends lie within an interval of
//! them, and any probe lost outside outages may be an outage of one interval.
//!
//! **Limits.** An outage of lost probes that is shorter than ten intervals or than a slot does not count; it is in the
//! interval of the availability alone. An outage between two probes is not seen. A gap inside one
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
    let (mut known, kept_back) = (Known::default(), series.kept_back());
    for stretch in stretches {
        let due = (
            stretch[0].first_sent_ns,
            end(stretch) + series.plan.interval_ns,
        );
        let found = outages(stretch, shortest, series.plan.interval_ns);
        let found = with_kept_back(found, &kept_back, due, series.plan.interval_ns);
        known.add(stretch, due, &found);
        holes.due.push(due);
        holes.outages.extend(found);
    }
    if known.probed_ns > 0 {
        holes.availability = known.availability(series.plan.interval_ns);
    }
    holes
}

/// Parts of the availability.
#[derive(Default)]
struct Known {
    probed_ns: i64,
    out_ns: i64,
    outages: u64,
    /// Probes lost outside outages, and the slots that they are in.
    lost: u64,
    slots_with_losses: u64,
}

impl Known {
    fn add(&mut self, stretch: &[&Slot], due: (i64, i64), found: &[Outage]) {
        self.probed_ns += due.1 - due.0;
        self.out_ns += found.iter().map(|o| o.to_ns - o.from_ns).sum::<i64>();
        self.outages += found.len() as u64;
        let mut outages = found.iter().peekable();
        for s in stretch.iter().filter(|s| s.lost > 0) {
            while outages.next_if(|o| o.to_ns <= s.first_sent_ns).is_some() {}
            if outages.peek().is_none_or(|o| o.from_ns > s.last_sent_ns) {
                self.lost += u64::from(s.lost);
                self.slots_with_losses += 1;
            }
        }
    }

    /// The error of one outage's length is the difference of two uniform times within an interval: 0.8 intervals hold it
    /// with 95 % confidence, and errors of several add in squares.
    fn availability(&self, interval_ns: i64) -> Figure {
        let (probed, interval) = (self.probed_ns as f64, interval_ns as f64);
        let error = |outages: u64| 0.8 * (outages as f64).sqrt() * interval;
        let up = |out: f64| (1.0 - out / probed).clamp(0.0, 1.0);
        let out = self.out_ns as f64;
        let open = self.lost as f64 * interval;
        Figure::Is {
            value: up(out),
            low: up(out + open + error(self.outages + self.slots_with_losses)),
            high: up(out - error(self.outages)),
        }
    }
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
        let slots = ((to_ns - from_ns) / interval_ns).max(1) as u64;
        // A few lost probes among many that this host did not send are none.
        (to_ns - from_ns >= shortest && lost > 0 && 2 * lost >= slots).then_some(Outage {
            from_ns,
            to_ns,
            lost: lost.min(slots),
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
