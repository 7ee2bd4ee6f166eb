//! Pairs and trains of packets, back to back.
//!
//! **Source.** Kapoor, Chen, Lao, Gerla, Sanadidi, "CapProbe: A Simple and Accurate Capacity Estimation Technique",
//! SIGCOMM 2004: of pairs whose delays add up to the least, neither packet waited for others, and what lies between them
//! is the bottleneck's time for one. Dovrolis, Ramanathan, Moore, "Packet-Dispersion Techniques and a Capacity-Estimation
//! Methodology", IEEE/ACM ToN 2004: a long train comes out at a rate between what is free and what the line carries.
//! Strauss, Katabi, Kaashoek, "A Measurement Study of Available Bandwidth Estimation Tools", IMC 2003 (Spruce): what
//! comes between the packets of a pair that is sent as wide as the bottleneck's time for one is the others' traffic.

use super::super::trains::of_stage;
use base::program::Train;
use stats::Figure;

/// Number of undisturbed pairs below which they decide nothing.
const FEWEST: usize = 5;
/// Scatter of undisturbed pairs above which something else disturbs them.
const SCATTER: f64 = 0.15;

/// Share of a transmission time below which gaps are too short for the link; the second number is the share of such
/// gaps that shows jitter.
const CLOSE: f64 = 0.9;
const MANY: f64 = 0.05;

/// Two datagrams sent one after the other.
struct Pair {
    /// Gaps between them at departure and at arrival, s.
    sent: f64,
    arrived: f64,
    /// Sum of both delays, s above an unknown offset.
    delays: f64,
}

fn pairs_of<'a>(trains: &'a [Train], stage: &'a str) -> impl Iterator<Item = Pair> + 'a {
    of_stage(trains, stage).flat_map(|t| {
        t.fates.chunks_exact(2).filter_map(|two| {
            let (s1, s2) = (two[0].sent_ns?, two[1].sent_ns?);
            let (r1, r2) = (two[0].received_ns?, two[1].received_ns?);
            (r2 > r1).then(|| Pair {
                sent: (s2 - s1) as f64 * 1e-9,
                arrived: (r2 - r1) as f64 * 1e-9,
                delays: (r1 - s1 + r2 - s2) as f64 * 1e-9,
            })
        })
    })
}

/// Rate at which `bits` pass in a time, with its interval inverted.
pub fn rate_of(time_s: &Figure, bits: f64) -> Figure {
    match time_s {
        Figure::Is { value, low, high } if *low > 0.0 => Figure::Is {
            value: bits / value,
            low: bits / high,
            high: bits / low,
        },
        Figure::Is { .. } => Figure::cannot_tell("the times scatter down to nothing"),
        other => other.clone(),
    }
}

/// Capacity by the pairs that met no cross traffic; `bits` of a packet.
pub fn capacity(trains: &[Train], bits: f64) -> Figure {
    let pairs: Vec<Pair> = pairs_of(trains, "pairs").collect();
    let gaps = |p: &[&Pair]| p.iter().map(|p| p.arrived).collect::<Vec<_>>();
    let all = stats::sorted(&gaps(&pairs.iter().collect::<Vec<_>>()));
    let (Some(middle), Some(least)) = (
        stats::quantile_of_sorted(&all, 0.5),
        pairs.iter().map(|p| p.delays).reduce(f64::min),
    ) else {
        return Figure::cannot_tell("no pair arrived in order");
    };
    let free: Vec<&Pair> = pairs
        .iter()
        .filter(|p| p.delays < least + 0.1 * middle)
        .collect();
    if free.len() < FEWEST {
        return Figure::cannot_tell(format!(
            "of {} pairs {} met an empty queue, and {FEWEST} are needed",
            pairs.len(),
            free.len()
        ));
    }
    let times = gaps(&free);
    let sorted = stats::sorted(&times);
    let at = |p| stats::quantile_of_sorted(&sorted, p).unwrap_or(0.0);
    if at(0.75) - at(0.25) > SCATTER * at(0.5) {
        return Figure::cannot_tell(format!(
            "pairs that met nobody came {:.3} to {:.3} ms apart: their time is not the link's (jitter, or several links side by side)",
            at(0.25) * 1e3,
            at(0.75) * 1e3
        ));
    }
    let sent = stats::sorted(&free.iter().map(|p| p.sent).collect::<Vec<_>>());
    if stats::quantile_of_sorted(&sent, 0.5).unwrap_or(0.0) > 0.8 * at(0.5) {
        return Figure::cannot_tell("this host sends no faster than the link carries");
    }
    rate_of(&stats::quantile_figure(&times, 0.5), bits)
}

/// Available rate by the cross traffic between the packets of pairs that were sent one transmission time apart.
pub fn free(trains: &[Train], capacity: f64, bits: f64) -> Figure {
    let own = bits / capacity;
    if let Some(why) = jitter(pairs_of(trains, "between").map(|p| p.arrived), own) {
        return Figure::cannot_tell(why);
    }
    let shares: Vec<f64> = pairs_of(trains, "between")
        // A gap that the sender's host stretched lets the queue run empty.
        .filter(|p| (p.sent - own).abs() < 0.1 * own)
        .map(|p| (p.arrived - own) / p.sent)
        .collect();
    if shares.len() < 30 {
        return Figure::cannot_tell(format!(
            "{} pairs left as they should, and 30 are needed",
            shares.len()
        ));
    }
    flip(&stats::mean_figure(&shares), capacity)
}

/// Reason to distrust gaps: two full packets leave a link at least the transmission time of one apart, so many shorter
/// gaps are jitter behind the link.
pub fn jitter(gaps_s: impl Iterator<Item = f64>, own_s: f64) -> Option<String> {
    let (mut all, mut short) = (0usize, 0usize);
    for gap in gaps_s {
        all += 1;
        short += usize::from(gap < CLOSE * own_s);
    }
    (all > 0 && short as f64 > MANY * all as f64).then(|| {
        format!("{short} of {all} gaps are shorter than the link needs for a packet: jitter")
    })
}

/// Available rate if cross traffic takes this share.
fn flip(share: &Figure, capacity: f64) -> Figure {
    match share {
        Figure::Is { value, low, high } => Figure::Is {
            value: capacity * (1.0 - value).clamp(0.0, 1.0),
            low: capacity * (1.0 - high).clamp(0.0, 1.0),
            high: capacity * (1.0 - low).clamp(0.0, 1.0),
        },
        other => other.clone(),
    }
}

/// Rate of arrivals of trains that left at once.
pub fn dispersion(trains: &[Train], bits: f64) -> Figure {
    let rates: Vec<f64> = of_stage(trains, "train")
        .flat_map(|t| {
            let steps = t.facts.program.steps().len();
            (0..steps).filter_map(move |step| {
                let mut at: Vec<i64> = t
                    .datagrams()
                    .filter(|(due, _)| due.step == step)
                    .filter_map(|(_, f)| f.received_ns)
                    .collect();
                at.sort_unstable();
                let time = (at.last()? - at.first()?) as f64 * 1e-9;
                (at.len() > 10).then(|| (at.len() - 1) as f64 * bits / time)
            })
        })
        .collect();
    if rates.len() < 3 {
        return Figure::cannot_tell("fewer than three trains arrived");
    }
    stats::mean_figure(&rates)
}
