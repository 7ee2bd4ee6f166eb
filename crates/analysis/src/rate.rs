//! Rates: the load's rate and the bottleneck's rate.
//!
//! **Method.** Goodput is the slope of the payload acknowledged (up) or received (down), summed over the
//! flows, over the steady part of a phase; its interval from
//! the correlated residuals. The link's rate counts
//! whole IP packets: goodput × (mss + headers) / mss, plus the probes' share. It is claimed only from stretches with a
//! standing queue, or from overload trains; a load without either gives a lower bound.
//!
//! **Source.** RFC 3148 (bulk transfer capacity); RFC 9293 section 3.7.1 (MSS), RFC 7323 (timestamps, 12 bytes a segment).
//!
//! **Limits.** Layers below IP (Ethernet, PPPoE, ATM cells) are not seen. A path whose queue is always
//! empty bounds its rate from below only. Header size is inferred from the segment size.

use crate::held_back::HeldBack;
use crate::overload::Overload;
use crate::phases;
use base::record::{Direction, Flow, Recording};
use stats::Figure;
use std::collections::BTreeMap;
use std::ops::Range;

/// Payload per segment if the sender did not say.
pub const USUAL_MSS: f64 = 1448.0;

/// Payload summed over the flows of one direction at evenly spaced instants: (seconds since the range's
/// first sample, bytes).
pub struct Carried {
    from_ns: i64,
    grid: Vec<(f64, f64)>,
    /// Number of flows.
    pub flows: usize,
    /// True if the payload was counted on delivery. Counts in order stall behind a hole and jump when it is repaired,
    /// so their short-term rate is not the link's.
    pub smooth: bool,
}

/// Payload of the load of `direction` in `range`; none if it was not sampled.
pub fn carried(rec: &Recording, direction: Direction, range: Range<i64>) -> Option<Carried> {
    let rows = phases::flows(rec, direction, range);
    let smooth = rows.iter().any(|f| f.delivered_bytes.is_some());
    let mut series: BTreeMap<i64, Vec<(i64, f64)>> = BTreeMap::new();
    for (flow, t_ns, bytes) in counted(&rows, direction) {
        series.entry(flow).or_default().push((t_ns, bytes));
    }
    series.values_mut().for_each(|s| undo_resets(s));
    let from = series
        .values()
        .filter_map(|s| s.first())
        .map(|s| s.0)
        .min()?;
    let to = series
        .values()
        .filter_map(|s| s.last())
        .map(|s| s.0)
        .max()?;
    let span = (i128::from(to) - i128::from(from)) as f64 / 1e9;
    if span < 0.5 {
        return None;
    }
    let steps = ((span / 0.1) as usize).clamp(20, 600);
    let at = |series: &[(i64, f64)], t: f64| {
        let key = |s: &(i64, f64)| (i128::from(s.0) - i128::from(from)) as f64 / 1e9;
        let i = series.partition_point(|s| key(s) <= t);
        match (i.checked_sub(1).and_then(|j| series.get(j)), series.get(i)) {
            (Some(a), Some(b)) => a.1 + (b.1 - a.1) * (t - key(a)) / (key(b) - key(a)).max(1e-9),
            (Some(only), None) | (None, Some(only)) => only.1,
            (None, None) => 0.0,
        }
    };
    let grid = (0..=steps)
        .map(|i| {
            let t = span * i as f64 / steps as f64;
            (t, series.values().map(|s| at(s, t)).sum())
        })
        .collect();
    Some(Carried {
        from_ns: from,
        grid,
        flows: series.len(),
        smooth,
    })
}

/// Payload counted so far: (flow, t_ns, bytes) of each row that tells it. Three counts differ by the data in flight and
/// by the data behind a hole: mixed they would make a zigzag. The sender's count of delivered data is the smoothest.
/// Without it, the receiver's count in order is used, or, for an upload, whose receiver is far, the acknowledged bytes.
pub fn counted(rows: &[&Flow], direction: Direction) -> Vec<(i64, i64, f64)> {
    type Count = fn(&Flow) -> Option<i64>;
    let near: [Count; 2] = match direction {
        Direction::Up => [|f| f.bytes_acked, |f| f.bytes_received],
        Direction::Down => [|f| f.bytes_received, |f| f.bytes_acked],
    };
    let counts: [Count; 3] = [|f| f.delivered_bytes, near[0], near[1]];
    let Some(count) = counts
        .into_iter()
        .find(|c| rows.iter().any(|f| c(f).is_some()))
    else {
        return Vec::new();
    };
    let told = |f: &&Flow| Some((f.flow, f.t_ns, count(f).filter(|b| *b >= 0)? as f64));
    rows.iter().filter_map(told).collect()
}

/// Removes resets: a counter that falls restarted with a new connection, and its earlier count stays counted.
fn undo_resets(series: &mut [(i64, f64)]) {
    let (mut carried, mut last) = (0.0, 0.0);
    for (_, bytes) in series {
        if *bytes < last {
            carried += last;
        }
        last = *bytes;
        *bytes += carried;
    }
}

impl Carried {
    /// Mean rates of `count` equal stretches: (start ns, end ns, bit/s).
    pub fn batches(&self, count: usize) -> Vec<(i64, i64, f64)> {
        let steps = self.grid.len() - 1;
        let count = count.clamp(1, steps);
        (0..count)
            .map(|i| {
                let (a, b) = (
                    self.grid[steps * i / count],
                    self.grid[steps * (i + 1) / count],
                );
                let ns = |s: f64| self.from_ns.saturating_add((s * 1e9) as i64);
                (ns(a.0), ns(b.0), (b.1 - a.1) * 8.0 / (b.0 - a.0).max(1e-9))
            })
            .collect()
    }

    /// Length of the series, s.
    pub fn seconds(&self) -> f64 {
        self.grid.last().map_or(0.0, |g| g.0)
    }

    /// Payload bytes of the series.
    pub fn bytes(&self) -> f64 {
        self.grid.last().map_or(0.0, |g| g.1) - self.grid.first().map_or(0.0, |g| g.1)
    }

    /// Slope by least squares: a stall at either end, while TCP repairs a hole, weighs less than in a difference of
    /// ends.
    pub fn goodput(&self) -> Figure {
        let n = self.grid.len() as f64;
        let (mt, mb) = (
            self.grid.iter().map(|g| g.0).sum::<f64>() / n,
            self.grid.iter().map(|g| g.1).sum::<f64>() / n,
        );
        let cov: f64 = self.grid.iter().map(|g| (g.0 - mt) * (g.1 - mb)).sum();
        let var: f64 = self.grid.iter().map(|g| (g.0 - mt).powi(2)).sum();
        let value = cov / var * 8.0;
        if !(value.is_finite() && value > 0.0) {
            return Figure::cannot_tell("the load carried nothing");
        }
        // What the line does not explain, seen as correlated noise: its effective size sets the slope's error.
        let residuals: Vec<f64> = self
            .grid
            .iter()
            .map(|g| g.1 - mb - cov / var * (g.0 - mt))
            .collect();
        let independent = stats::effective_size(&residuals);
        let sd = (residuals.iter().map(|r| r * r).sum::<f64>() / n).sqrt();
        let half = stats::student_t95((independent - 2.0).max(1.0)) * sd
            / (independent * var / n).sqrt()
            * 8.0;
        Figure::Is {
            value,
            low: (value - half).max(0.0),
            high: value + half,
        }
    }
}

/// Bytes of IP and TCP headers that go with a segment of `mss` bytes: those that make up a usual MTU,
/// else IPv4 with timestamps.
pub fn header_bytes(mss: f64) -> f64 {
    const MTUS: [f64; 9] = [
        1492.0, 1480.0, 1460.0, 1420.0, 1400.0, 1280.0, 576.0, 9000.0, 65_535.0,
    ];
    // IPv4 and IPv6, with and without timestamps (RFC 7323: 10 bytes and 2 of padding).
    const HEADERS: [f64; 4] = [52.0, 72.0, 40.0, 60.0];
    let ethernet = HEADERS[..3].iter().find(|h| mss + **h == 1500.0);
    ethernet
        .or_else(|| HEADERS.iter().find(|h| MTUS.contains(&(mss + **h))))
        .copied()
        .unwrap_or(52.0)
}

/// The segment size the senders used in `direction`.
pub fn mss(rec: &Recording, direction: Direction, range: Range<i64>) -> f64 {
    let sizes = phases::flows(rec, direction, range)
        .into_iter()
        .filter_map(|f| f.mss_bytes);
    sizes
        .filter(|m| (88..=65_535).contains(m))
        .max()
        .map_or(USUAL_MSS, |m| m as f64)
}

/// Load of one phase and direction, as input for its rate.
pub struct Load<'a> {
    /// Payload of the load.
    pub carried: &'a Carried,
    /// Payload of a full segment, bytes.
    pub mss: f64,
    /// Waits of the probes in this direction: sending time in ns, wait in ms.
    pub waits: &'a [(i64, f64)],
    /// Rate of the probes themselves, whole IP packets.
    pub probe_bps: f64,
    /// Wait of a probe at rest, 95 % point, ms.
    pub noise_ms: f64,
    /// Base round trip, ns: deliveries are known that much later than the queue that they passed.
    pub lag_ns: i64,
    /// Share of probes that the link lost without load: the loss behind the bottleneck takes as much of the load.
    pub lost_share: f64,
}

/// Cross traffic beside a load.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Others {
    /// Rate on this host's interface that the test does not account for, both directions.
    pub bps: f64,
    /// Rate in the load's direction that may be cross traffic, below the threshold that counts as such.
    pub unexplained_bps: f64,
    /// True if probes at rest met cross traffic in the link's queue.
    pub at_rest: bool,
}

/// Evidence on whether the link keeps its rate.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Steadiness {
    /// Variation of the full link's rate in this direction, as in [`moves`]; `None` if the link was full too seldom.
    pub own: Option<f64>,
    /// Variation of the other direction's rate.
    pub neighbour: Option<f64>,
}

impl Steadiness {
    /// True if the rate varies.
    fn varies(&self) -> bool {
        self.own.is_some_and(|m| m > STEADY)
    }

    /// Share of the rate by which it may be another a little later, though it is steady enough to be one rate: two
    /// standard deviations of what sampling does not explain.
    fn room(&self) -> f64 {
        2.0 * (self.own.unwrap_or(0.0) - SAMPLING).max(0.0)
    }

    /// Variation of the other direction that this direction may share.
    pub fn suspect(&self) -> Option<f64> {
        self.neighbour
            .filter(|m| *m > STEADY && self.own.is_none_or(|own| own > 0.5 * STEADY))
    }
}

/// Rate of the link and the evidence for it.
pub struct Rated {
    /// Rate with its interval, or the reason why it is unknown.
    pub figure: Figure,
    /// True if a queue stood during most of the load.
    pub stood: bool,
    /// Difference of the rates of the load and of overload trains, as a share, if it shifts levels of delay.
    pub apart: Option<f64>,
}

/// Difference below which the rates of a full link count as one rate: sampling alone makes a few per cent.
pub const STEADY: f64 = 0.10;
/// Variation that sampling makes on a link of constant rate.
const SAMPLING: f64 = 0.02;
/// Sampling errors that repeat in every stretch: half of a per cent.
const SYSTEMATIC: f64 = 0.005;
/// Half-width of an interval, as a share of the rate, from which the rate counts as unknown.
const WIDEST: f64 = 0.25;
/// Share of the load's stretches in which a queue has to stand for the load to have filled the link.
const STOOD: f64 = 0.7;
/// Cross traffic above this share of the load makes the load's rate a lower bound.
const OTHERS: f64 = 0.03;
/// Difference of the rates of load and trains above which their levels of delay cannot be compared.
const LEVELS_MOVE: f64 = 0.15;
/// Rates of the load and of overload trains that differ by less agree.
const AGREE: f64 = 0.05;

impl Load<'_> {
    fn factor(&self) -> f64 {
        (self.mss + header_bytes(self.mss)) / self.mss
    }

    /// Rate of the load in whole IP packets, probes included.
    pub fn carried_bps(&self) -> Option<f64> {
        self.carried
            .goodput()
            .value()
            .map(|v| v * self.factor() + self.probe_bps)
    }

    /// Time of a full packet at the load's rate, ms.
    pub fn packet_ms(&self) -> f64 {
        self.carried_bps()
            .filter(|r| *r > 0.0)
            .map_or(0.0, |r| self.mss * self.factor() * 8e3 / r)
    }

    /// Rates of the stretches in which a queue stood, whole IP packets, and how many stretches have enough probes to say.
    fn full(&self) -> (Vec<f64>, usize) {
        let least = (0.5 * self.packet_ms() + 0.05).max(self.noise_ms + 0.1 * self.packet_ms());
        // Eight probes a stretch where they are sparse: one may be lost.
        let spacing_s = self.carried.seconds() / self.waits.len().max(1) as f64;
        let length_s = (8.0 * spacing_s).max(1.0);
        let stood: Vec<(bool, f64)> = self
            .carried
            .batches((self.carried.seconds() / length_s) as usize)
            .iter()
            .filter_map(|(from, to, bps)| {
                let rate = bps * self.factor() + self.probe_bps;
                Some((
                    stood(self.waits, from.saturating_sub(self.lag_ns), *to, least)?,
                    rate,
                ))
            })
            .collect();
        let full = stood.iter().filter(|s| s.0).map(|s| s.1).collect();
        (full, stood.len())
    }

    /// Reason why a link whose rate varies has no one rate.
    fn varying(&self) -> Figure {
        let rates: Vec<f64> = self
            .carried
            .batches(self.carried.seconds() as usize)
            .iter()
            .map(|b| b.2 * self.factor() + self.probe_bps)
            .collect();
        let sorted = stats::sorted(&rates);
        let at = |q| stats::quantile_of_sorted(&sorted, q).unwrap_or(0.0) / 1e6;
        Figure::cannot_tell(format!(
            "its rate varies: the load carried between {:.3} and {:.3} Mbit/s (10 % and 90 % of the seconds)",
            at(0.1),
            at(0.9)
        ))
    }

    /// Rate while a queue stood; `None` if it stood too seldom.
    fn while_full(&self) -> (Option<Figure>, bool) {
        let (full, all) = self.full();
        let stood = all > 0 && full.len() as f64 >= STOOD * all as f64;
        let whole = self
            .carried
            .goodput()
            .map(|v| v * self.factor() + self.probe_bps);
        let figure = match (stats::mean_figure(&full), whole) {
            // The slope over the whole weighs stalls less than means of stretches do.
            (_, Figure::Is { value, low, high }) if all > 0 && full.len() == all => {
                Some(Figure::Is { value, low, high })
            }
            (Figure::Is { value, low, high }, _) if full.len() >= 4 => {
                Some(Figure::Is { value, low, high })
            }
            _ => None,
        };
        (figure.map(|f| widen(&f, SYSTEMATIC)), stood)
    }
}

/// Adds a relative error that no repetition shows.
fn widen(f: &Figure, share: f64) -> Figure {
    match f {
        Figure::Is { value, low, high } => Figure::Is {
            value: *value,
            low: value - (value - low).hypot(share * value),
            high: value + (high - value).hypot(share * value),
        },
        other => other.clone(),
    }
}

/// Variation of a full link's rate: the standard deviation of its rate in stretches with a standing queue, as a share
/// of their median. `None` if too few stretches were full. A link of constant rate keeps it under any queue; on a link
/// of varying rate (radio) the delays vary too. Few stretches, or a queue of a packet or less, show only that a rate moves much, never
/// that it does not. `noise_ms` is the wait of a probe at rest.
pub fn moves(
    carried: &Carried,
    waits: &[(i64, f64)],
    packet_ms: f64,
    noise_ms: f64,
) -> Option<f64> {
    if !carried.smooth {
        return None;
    }
    // Long enough for thirty packets, whose number then varies by a thirtieth.
    let length_s = (30.0 * packet_ms / 1e3).max(1.0);
    let stretches = carried.batches((carried.seconds() / length_s) as usize);
    let rates = |least_ms: f64| -> Vec<f64> {
        let full = stretches
            .iter()
            .filter(|(from, to, _)| stood(waits, *from, *to, least_ms) == Some(true));
        full.map(|b| b.2).collect()
    };
    let full = rates(2.0 * packet_ms);
    if full.len() >= MANY {
        return variation(&full);
    }
    let busy = rates((0.5 * packet_ms).max(noise_ms + 0.1 * packet_ms));
    variation(&busy).filter(|moves| *moves > MUCH)
}

/// Variation of a link that was hardly full from which its rate moves: sampling and gaps of the load make a tenth.
const MUCH: f64 = 0.15;

/// Number of stretches from which their middle four fifths tell the variation.
const MANY: usize = 5;
/// Mean range of two, three and four normally distributed values, in standard deviations.
const RANGES: [f64; 3] = [1.128, 1.693, 2.059];

/// Standard deviation of rates as a share of their median; none of fewer than two.
fn variation(rates: &[f64]) -> Option<f64> {
    let sorted = stats::sorted(rates);
    let at = |q| stats::quantile_of_sorted(&sorted, q);
    let middle = at(0.5).filter(|m| *m > 0.0)?;
    let deviation = if rates.len() >= MANY {
        // What the middle four fifths of a normal distribution have: a stall, and what is told after it at once, are two
        // outliers and no rate.
        (at(0.9)? - at(0.1)?) / 2.563
    } else {
        (at(1.0)? - at(0.0)?) / RANGES.get(rates.len().checked_sub(2)?)?
    };
    Some(deviation / middle)
}

/// True if nine of ten probes between two instants waited longer than `least_ms`; `None` where fewer than four tell.
fn stood(waits: &[(i64, f64)], from: i64, to: i64, least_ms: f64) -> Option<bool> {
    let seen = waits.iter().filter(|(t, _)| (from..to).contains(t));
    let (n, stood) = seen.fold((0, 0), |(n, s), w| (n + 1, s + usize::from(w.1 > least_ms)));
    (n >= 4).then_some(stood * 10 >= n * 9)
}

/// Rate of the link in whole IP packets: that of the load while a queue stood, else that of overload trains. Without
/// either, the load's rate is a lower bound, and the reason says so.
pub fn link_rate(
    load: &Load,
    overload: Option<&Overload>,
    held_back: Option<&HeldBack>,
    others: &Others,
    steadiness: &Steadiness,
) -> Rated {
    let Some(carried) = load.carried_bps() else {
        return Rated::unknown("the load carried nothing", false);
    };
    let (while_full, stood) = load.while_full();
    let shared = others.bps > OTHERS * carried || others.at_rest;
    let trains = overload
        .filter(|o| o.confirmed && !shared)
        .map(|o| widen(&o.rate_bps, SYSTEMATIC));
    let behind = |f: Figure| match f {
        Figure::Is { value, low, high } => Figure::Is {
            value,
            low,
            high: high + 1.5 * load.lost_share * value + others.unexplained_bps,
        },
        other => other,
    };
    // A train shows one second; a load that carried more over its phase met another rate.
    let slower = match &trains {
        Some(Figure::Is { high, .. }) if *high < 0.97 * carried => Some(*high),
        _ => None,
    };
    let least = carried.max(overload.map_or(0.0, |o| o.at_least_bps));
    if steadiness.varies() {
        return Rated {
            figure: load.varying(),
            stood,
            apart: None,
        };
    }
    if let Some(share) = steadiness.suspect() {
        return Rated::unknown(
            format!(
                "the rate of the other direction varies by {:.0} %, and this one was not full for long enough to see that it does not: at least {:.3} Mbit/s",
                100.0 * share,
                least / 1e6
            ),
            stood,
        );
    }
    let moved = |f: Figure| widen(&f, steadiness.room());
    let while_full = while_full.filter(|_| !shared).map(behind).map(moved);
    let trains = trains.map(behind).map(moved);
    let apart = match (slower, &while_full, &trains) {
        (Some(high), ..) => Some((carried, high)),
        (None, Some(tcp), Some(trains)) => disagree(tcp, trains),
        _ => None,
    };
    if let Some((tcp, trains)) = apart {
        return Rated::apart(tcp, trains, stood);
    }
    let figure = match (while_full, trains) {
        (Some(tcp), Some(trains)) => narrower(tcp, trains),
        (Some(one), None) | (None, Some(one)) => one,
        (None, None) => at_least(least, shared, held_back, others),
    };
    Rated {
        figure: useful(figure, carried),
        stood,
        apart: None,
    }
}

impl Rated {
    /// Unknown rate of a link that carried `tcp` bit/s of the load and `trains` bit/s of a train.
    fn apart(tcp: f64, trains: f64, stood: bool) -> Rated {
        let why = format!(
            "the load got {:.3} Mbit/s, a train of datagrams {:.3} Mbit/s: its rate varies, or others share it",
            tcp / 1e6,
            trains / 1e6
        );
        Rated {
            apart: Some(((tcp - trains) / tcp).abs()).filter(|a| *a > LEVELS_MOVE),
            ..Rated::unknown(why, stood)
        }
    }

    fn unknown(why: impl Into<String>, stood: bool) -> Self {
        Rated {
            figure: Figure::cannot_tell(why),
            stood,
            apart: None,
        }
    }
}

/// Lower bound of the rate, with the reason why the link was not full.
fn at_least(least: f64, shared: bool, held_back: Option<&HeldBack>, others: &Others) -> Figure {
    let why = if others.at_rest {
        "packets of others waited in the queue already at rest".to_owned()
    } else if shared {
        format!(
            "cross traffic of {:.3} Mbit/s shared the link",
            others.bps / 1e6
        )
    } else if let Some(held) = held_back {
        held.says()
    } else {
        "the load did not fill the link".into()
    };
    Figure::cannot_tell(format!(
        "{why}: its rate is at least {:.3} Mbit/s",
        least / 1e6
    ))
}

/// The figure, or a lower bound where its interval is too wide to be of use.
fn useful(figure: Figure, carried: f64) -> Figure {
    match figure {
        Figure::Is { value, low, high } if high - low > 2.0 * WIDEST * value => {
            Figure::cannot_tell(format!(
                "too little was seen of the full link: its rate is at least {:.3} Mbit/s",
                low.max(carried.min(value)) / 1e6
            ))
        }
        figure => figure,
    }
}

/// Rates of the load and of the trains, where they differ by more than [`AGREE`] and by more than their intervals.
fn disagree(tcp: &Figure, trains: &Figure) -> Option<(f64, f64)> {
    let (
        Figure::Is {
            value: a,
            low: al,
            high: ah,
        },
        Figure::Is {
            value: b,
            low: bl,
            high: bh,
        },
    ) = (tcp, trains)
    else {
        return None;
    };
    let near = (a - b).abs() <= AGREE * a.max(*b);
    (!near && (al > bh || bl > ah)).then_some((*a, *b))
}

/// The more certain one of two rates that agree, with an interval that holds both.
fn narrower(tcp: Figure, trains: Figure) -> Figure {
    match (&tcp, &trains) {
        (
            Figure::Is {
                value: a,
                low: al,
                high: ah,
            },
            Figure::Is {
                value: b,
                low: bl,
                high: bh,
            },
        ) => {
            let (value, low, high) = if ah - al <= bh - bl {
                (a, al, ah)
            } else {
                (b, bl, bh)
            };
            Figure::Is {
                value: *value,
                low: low.min(*a).min(*b),
                high: high.max(*a).max(*b),
            }
        }
        (Figure::Is { .. }, _) => tcp,
        _ => trains,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::record::Flow;

    fn row(t_ms: i64, flow: i64, acked: i64) -> Flow {
        Flow {
            bytes_acked: Some(acked),
            mss_bytes: Some(1448),
            ..Flow::about(t_ms * 1_000_000, flow, Direction::Up)
        }
    }

    #[test]
    fn two_flows_of_half_the_rate_add_up_across_a_counter_that_begins_anew() {
        let mut rec = Recording::default();
        for i in 0..=100i64 {
            rec.flow.push(row(i * 100, 1, i * 4000));
            rec.flow.push(row(
                i * 100,
                2,
                if i < 50 { i * 4000 } else { (i - 50) * 4000 },
            ));
        }
        let c = carried(&rec, Direction::Up, 0..i64::MAX).unwrap();
        // 8 kB every 100 ms: 640 kbit/s; the step that is lost at the reset weighs 1.5 × 3.2 kbit/s.
        let g = c.goodput().value().unwrap();
        assert!((g - 635.2e3).abs() < 100.0, "{g}");
        assert_eq!(c.flows, 2);
    }

    #[test]
    fn whole_packets_and_probes_make_the_links_rate() {
        let mut rec = Recording::default();
        for i in 0..=100i64 {
            rec.flow.push(row(i * 100, 1, i * 8447));
        }
        let c = carried(&rec, Direction::Up, 0..i64::MAX).unwrap();
        // 84 470 B/s of payload × 1500/1448 × 8 = 700.02 kbit/s, and 8 kbit/s of probes.
        let waits: Vec<(i64, f64)> = (0..1000).map(|i| (i * 10_000_000, 50.0)).collect();
        let load = |waits| Load {
            carried: &c,
            mss: 1448.0,
            waits,
            probe_bps: 8e3,
            noise_ms: 0.0,
            lag_ns: 0,
            lost_share: 0.0,
        };
        let r = link_rate(
            &load(&waits),
            None,
            None,
            &Others::default(),
            &Steadiness::default(),
        )
        .figure
        .value()
        .unwrap();
        assert!((r - 708_028.0).abs() < 100.0, "{r}");
        // A rate that moved by 7 %, 2 % of which is sampling, may be a tenth off.
        let half = |own: Option<f64>| {
            let steadiness = Steadiness {
                own,
                neighbour: None,
            };
            let others = Others::default();
            match link_rate(&load(&waits), None, None, &others, &steadiness).figure {
                Figure::Is { value, low, .. } => (value - low) / value,
                Figure::CannotTell { cannot_tell } => panic!("{cannot_tell}"),
            }
        };
        assert!(half(None) < 0.01 && half(Some(0.02)) < 0.01);
        assert!((half(Some(0.07)) - 0.1).abs() < 0.001);
        // Without a standing queue, TCP's rate is a lower bound, and so it is beside cross traffic.
        assert_eq!(
            link_rate(
                &load(&[]),
                None,
                None,
                &Others::default(),
                &Steadiness::default()
            )
            .figure
            .value(),
            None
        );
        assert_eq!(
            link_rate(
                &load(&waits),
                None,
                None,
                &Others {
                    bps: 1e5,
                    ..Others::default()
                },
                &Steadiness::default()
            )
            .figure
            .value(),
            None
        );
    }

    #[test]
    fn headers_follow_from_the_segment_size() {
        let of = [
            (1448.0, 52.0),
            (1460.0, 40.0),
            (1428.0, 72.0),
            (1440.0, 52.0),
            (1368.0, 52.0),
            (1234.0, 52.0),
        ];
        for (mss, headers) in of {
            assert_eq!(header_bytes(mss), headers, "{mss}");
        }
    }

    fn is(value: f64, share: f64) -> Figure {
        Figure::Is {
            value,
            low: value * (1.0 - share),
            high: value * (1.0 + share),
        }
    }

    #[test]
    fn a_flood_that_gets_more_than_the_load_did_shows_others() {
        // 19 % of 44.4 Mbit/s are others': a flood at three times the rate gets 42 Mbit/s, TCP 36.
        assert!(disagree(&is(36e6, 0.01), &is(42e6, 0.01)).is_some());
        assert!(disagree(&is(36e6, 0.01), &is(37e6, 0.01)).is_none());
        // What is not known to a sixth does not disagree.
        assert!(disagree(&is(36e6, 0.2), &is(42e6, 0.01)).is_none());
    }

    #[test]
    fn a_neighbour_that_moves_is_believed_unless_this_direction_kept_still() {
        let seen = |own, neighbour| Steadiness { own, neighbour };
        assert_eq!(seen(None, Some(0.25)).suspect(), Some(0.25));
        assert_eq!(seen(Some(0.08), Some(0.25)).suspect(), Some(0.25));
        assert_eq!(seen(Some(0.01), Some(0.25)).suspect(), None);
        assert_eq!(seen(None, Some(0.05)).suspect(), None);
        assert!(seen(Some(0.25), None).varies() && !seen(Some(0.08), None).varies());
    }

    #[test]
    fn one_stall_moves_no_rate_and_two_levels_do() {
        let of = |rates: &[f64]| {
            let mut total = 0.0;
            let mut grid = vec![(0.0, 0.0)];
            for i in 0..rates.len() * 10 {
                total += rates[i / 10] / 80.0;
                grid.push(((i + 1) as f64 / 10.0, total));
            }
            let carried = Carried {
                from_ns: 0,
                grid,
                flows: 1,
                smooth: true,
            };
            let waits: Vec<(i64, f64)> = (0..rates.len() as i64 * 100)
                .map(|i| (i * 10_000_000, 50.0))
                .collect();
            moves(&carried, &waits, 1.0, 0.0)
        };
        // Three stretches show that a rate moves, and not that it does not.
        assert_eq!(of(&[10e6, 10e6, 9e6]), None);
        assert!(of(&[10e6, 10e6, 5e6]).is_some_and(|m| m > MUCH));
        let of = |rates: &[f64]| of(rates).unwrap();
        let mut rates = [10e6; 14];
        assert!(of(&rates) < 0.001);
        (rates[6], rates[7]) = (1e6, 19e6);
        assert!(of(&rates) < 0.01, "{}", of(&rates));
        rates = [
            10e6, 10e6, 10e6, 10e6, 10e6, 10e6, 10e6, 5e6, 5e6, 5e6, 5e6, 5e6, 5e6, 5e6,
        ];
        assert!(of(&rates) > STEADY, "{}", of(&rates));
    }
}
