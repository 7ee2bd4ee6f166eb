//! Flows of a phase as notes keep them, and waits while one of them fills a queue.

use super::{PACKET, Passed, Ran};
use crate::answer::{Draw, Series};
use base::print;
use base::record::Direction;
use base::sketch::{Sketch, quantile};
use base::{Duration, Time};
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Sketch of waits in ns, to 1.6 %.
pub type Waits = Sketch<5>;

/// Width of the bins of [`FlowSeen::bins`], ms.
pub const BIN_MS: u64 = 100;
/// Bins of a second.
const SECOND: usize = 10;
/// Part of a fair share above which a fall by the second number, a share of it, has not ended.
const BEGUN: f64 = 0.3;
const FALLS: f64 = 0.04;
/// Rate in half a minute, in parts of that just after the fall, at most (drawn links with one queue of RED or CoDel).
const DIPS: f64 = 2.0;
/// Share of a phase at its start in which flows find their rate.
const START: f64 = 0.3;
/// Bins in which a flow's datagrams wait, from which on others are compared with it.
const TENTHS: usize = 5;
/// Share of a wait below which another is shorter, and from which on both are of one queue.
const SHORTER: f64 = 0.5;
const EQUAL: f64 = 0.7;
/// Least wait of a queue, and least difference of two waits, ms; on a slow link, packet times.
pub const LEAST_MS: f64 = 1.5;
/// Share of datagrams whose waits are looked at for that.
const MOST: f64 = 0.75;
/// Share of a wait from which on the uplink counts as its place.
const REQUESTS: f64 = 0.3;
const LEAST_PACKETS: f64 = 2.0;

/// Datagrams of one marking from end to end.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Codepoint {
    /// TOS byte at departure.
    pub tos: u8,
    /// Datagrams sent.
    pub sent: u32,
    /// TOS byte at arrival with counts; null if the receiver's kernel does not tell.
    pub arrived: Vec<(Option<u8>, u32)>,
}

/// A flow in a phase.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct FlowSeen {
    /// Name of the flow.
    pub name: String,
    /// TOS byte at departure.
    pub tos: u8,
    /// Datagrams sent.
    pub sent: u32,
    /// Datagrams, or down the requests of datagrams, that arrived at the server.
    pub arrived: u32,
    /// Datagrams whose echo, or down those that themselves, came here.
    pub returned: u32,
    /// Datagrams that count as lost.
    pub lost: u32,
    /// Datagrams that left this host more than 2 ms late.
    pub late: u32,
    /// Send time of the first marked datagram since the begin of the phase, ns.
    pub first_mark_ns: Option<u64>,
    /// Send time of the first lost datagram since the begin of the phase, ns.
    pub first_loss_ns: Option<u64>,
    /// Rate of whole IP packets after the start of the phase, bit/s.
    pub rate_bps: f64,
    /// Waits of unmarked datagrams, ns with counts; of a phase with several flows after its start only.
    pub unmarked: Vec<(u64, u64)>,
    /// Waits of datagrams that were marked with CE on the way.
    pub marked: Vec<(u64, u64)>,
    /// Mean wait in ms, and marks, of each 100 ms of the phase; null if nothing was sent.
    pub bins: Vec<Option<(f32, u32)>>,
    /// Datagrams that came back, of those sent in each 100 ms of the phase.
    #[serde(default)]
    pub counts: Vec<u32>,
    /// Wait of requests on their way up that three quarters stay below, ms; null up.
    #[serde(default)]
    pub requests_ms: Option<f64>,
}

/// Median and the middle 95 % of a flow's waits in tenths of a second, ms.
pub type Spread = [f64; 3];

/// A wait beside that of a full queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Beside {
    /// Less than half.
    Shorter,
    /// Share of at least 70 %.
    Equal,
    /// Between these.
    Neither,
}

/// Compares a wait with that of a full queue, which is longer than `least`; all in ms.
pub fn beside(wait: f64, full: f64, least: f64) -> Beside {
    if wait < full * SHORTER && full - wait >= least {
        Beside::Shorter
    } else if wait >= full * EQUAL {
        Beside::Equal
    } else {
        Beside::Neither
    }
}

/// Least wait of a queue between these flows, ms: at the greatest rate of any, two packet times.
pub fn least_ms<'a>(flows: impl Iterator<Item = &'a FlowSeen>) -> f64 {
    let most = flows.map(|f| f.rate_bps).fold(1e3, f64::max);
    LEAST_MS.max(PACKET as f64 * 8e3 / most * LEAST_PACKETS)
}

/// Waits of flows in those bins in which the flow of index `full` waits at least `least`; null with too few of them.
pub fn tenths<const N: usize>(
    flows: [&FlowSeen; N],
    full: usize,
    least: f64,
) -> Option<[Spread; N]> {
    let bins = flows.iter().map(|f| f.bins.len()).min().unwrap_or(0);
    let of_bin = |i: usize| {
        let mut waits = [0.0; N];
        for (wait, flow) in std::iter::zip(&mut waits, flows) {
            *wait = f64::from(flow.bins[i]?.0);
        }
        Some(waits)
    };
    let all = (0..bins)
        .filter_map(of_bin)
        .filter(|waits| waits[full] >= least);
    let all: Vec<[f64; N]> = all.collect();
    let spread = |i: usize| {
        let mut waits: Vec<f64> = all.iter().map(|w| w[i]).collect();
        waits.sort_by(f64::total_cmp);
        let at = |p| quantile(waits.len() as u64, p, |rank| waits[rank as usize]);
        [0.5, 0.025, 0.975].map(|p| at(p).unwrap_or_default())
    };
    (all.len() >= TENTHS).then(|| std::array::from_fn(spread))
}

/// Reason why flows down tell nothing: their requests waited on their way up, like the datagrams on their way down.
pub fn requests_waited<'a>(flows: impl Iterator<Item = &'a FlowSeen>) -> Option<String> {
    let waited = |f: &FlowSeen| {
        let requests = f.requests_ms?;
        let all = waits(f).quantile(MOST)? * 1e-6;
        (requests > LEAST_MS && requests > all * REQUESTS).then_some((requests, all))
    };
    let most = flows.filter_map(waited).max_by(|a, b| a.0.total_cmp(&b.0));
    most.map(|(requests, all)| {
        format!(
            "requests for datagrams waited {requests:.1} ms on their way up, of {all:.1} ms in all: the uplink was full, or the server is slow"
        )
    })
}

/// Rate of the second flow in parts of half the rate of both, after the phase's start: 1 is fair. The interval is twice
/// that of single seconds: a flow's rate swings over many round trips, and seconds in a row are alike.
///
/// The first flow yields less to marks than the second if both share `one_queue`. A flow that began with its fair share then
/// loses it over seconds, tens of them on a fast and long link, and the rate is untold while it still falls. Afterwards it
/// comes back a little, so the interval reaches up to twice the rate.
pub fn of_fair(first: &FlowSeen, second: &FlowSeen, one_queue: bool) -> Figure {
    let bins = first.counts.len().min(second.counts.len());
    let from = (bins as f64 * START).ceil() as usize;
    // The last tenth is cut off by the end of the phase.
    let range = from..bins.saturating_sub(1).max(from);
    let blocks = |counts: &[u32]| -> Vec<f64> {
        let blocks = counts[range.clone()].chunks_exact(SECOND);
        blocks.map(|b| f64::from(b.iter().sum::<u32>())).collect()
    };
    // Of each second, what the second flow got and half of what both got.
    let seconds: Vec<(f64, f64)> = std::iter::zip(blocks(&first.counts), blocks(&second.counts))
        .map(|(a, b)| (b, (a + b) / 2.0))
        .collect();
    let ratio_of = |seconds: &[(f64, f64)]| {
        let sum: f64 = seconds.iter().map(|s| s.1).sum();
        (sum > 0.0).then(|| seconds.iter().map(|s| s.0).sum::<f64>() / sum)
    };
    let (Some(ratio), true) = (ratio_of(&seconds), seconds.len() >= 3) else {
        return Figure::cannot_tell("both flows ran together for too short a time");
    };
    let ends = [&seconds[..2], &seconds[seconds.len() - 2..]].map(ratio_of);
    if let [Some(begin), Some(end)] = ends
        && one_queue
        && end > BEGUN
        && begin - end > FALLS * begin
    {
        return Figure::cannot_tell(format!(
            "it still fell, from {begin:.2} to {end:.2}: more time shows where it ends"
        ));
    }
    let dips = if one_queue { DIPS } else { 1.0 };
    let mean = seconds.iter().map(|s| s.1).sum::<f64>() / seconds.len() as f64;
    // Delta method: the ratio's error is that of the mean of these residuals.
    let residuals = (seconds.iter()).map(|(s, b)| ratio + (s - ratio * b) / mean);
    match stats::mean_figure(&residuals.collect::<Vec<f64>>()) {
        Figure::Is { low, high, .. } => Figure::Is {
            value: ratio,
            low: (2.0 * low - ratio).max(0.0),
            high: (2.0 * high - ratio).max(ratio * dips).min(2.0),
        },
        unknown => unknown,
    }
}

/// Waits of all datagrams of a flow.
pub fn waits(flow: &FlowSeen) -> Waits {
    let mut all = sketch(&flow.unmarked);
    all.merge(&sketch(&flow.marked));
    all
}

/// Mean waits of a flow over the time of its phase.
pub fn curve(flow: &FlowSeen, name: &str) -> Series {
    let points = flow.bins.iter().enumerate().filter_map(|(i, bin)| {
        let (wait, _) = (*bin)?;
        let at = (i as f64 + 0.5) * BIN_MS as f64 * 1e-3;
        Some((at, Some(f64::from(wait))))
    });
    Series::new(name, Draw::Line, points.collect())
}

/// Row of a table of flows: rate, median wait, wait that 99 % stay below, marked and lost.
pub fn row(phase: &str, flow: &FlowSeen, name: &str) -> Vec<String> {
    let all = waits(flow);
    let at = |p| {
        let wait = all.quantile(p);
        wait.map_or("–".into(), |ns| print::TIME.print(ns))
    };
    let marks: u64 = flow.marked.iter().map(|m| m.1).sum();
    let share = |n: u64, of: u64| format!("{:.2} %", n as f64 * 100.0 / of.max(1) as f64);
    vec![
        phase.into(),
        name.into(),
        print::RATE.print(flow.rate_bps),
        at(0.5),
        at(0.99),
        share(marks, all.count()),
        share(u64::from(flow.lost), u64::from(flow.sent)),
    ]
}

/// Headings of these rows.
pub const ROW: [&str; 7] = [
    "phase",
    "flow",
    "rate",
    "median wait",
    "99 % below",
    "marked",
    "lost",
];

/// Doubt about datagrams that left this host late, if they are many.
pub fn lateness<'a>(flows: impl Iterator<Item = &'a FlowSeen>) -> Option<String> {
    let (late, sent) = flows.fold((0, 0), |(l, s), f| (l + f.late, s + f.sent));
    (late > sent / 50).then(|| {
        format!(
            "this host was busy: {late} of {sent} datagrams left more than 2 ms late, in bursts"
        )
    })
}

/// Doubt about losses of a flow that may be of the other direction.
pub fn lost_elsewhere(direction: Direction, flow: &FlowSeen, name: &str) -> Option<String> {
    if direction == Direction::Down {
        let requests = flow.sent.saturating_sub(flow.arrived);
        return (requests > flow.sent / 200 + 2).then(|| {
            format!(
                "{requests} of {} requests for datagrams of {name} were lost on their way up, and count as its losses",
                flow.sent
            )
        });
    }
    let answers = flow.arrived.saturating_sub(flow.returned);
    (answers > flow.arrived / 200 + 2).then(|| {
        format!(
            "{answers} answers to {} datagrams of {name} were lost on the way back, and count as its losses",
            flow.arrived
        )
    })
}

fn counts(waits: &Waits) -> Vec<(u64, u64)> {
    waits.counts().collect()
}

/// Sketch of stored counts.
pub fn sketch(counts: &[(u64, u64)]) -> Waits {
    let mut all = Waits::default();
    for (value, times) in counts {
        all.add_many(*value, *times);
    }
    all
}

/// Flows of a phase, above the smallest round trip of the run.
pub fn flows(direction: Direction, ran: &Ran, base: Duration) -> Vec<FlowSeen> {
    let start = Duration::from_secs_f64(ran.lasted.as_secs_f64() * START);
    let all = ran.flows.iter();
    all.map(|f| seen(f, (direction, ran), base, start))
        .collect()
}

/// A flow of a phase, above the smallest round trip of the run. Rates, and in a phase of several flows waits, count after the
/// phase's first `start`.
fn seen(
    flow: &Passed,
    (direction, ran): (Direction, &Ran),
    base: Duration,
    start: Duration,
) -> FlowSeen {
    let since = |t: Time| t.saturating_since(ran.began);
    let (mut marked, mut unmarked) = (Waits::default(), Waits::default());
    let mut bins: Vec<(f64, u32, u32)> = Vec::new();
    let least = flow.samples.iter().map(|s| s.requested_ns).min();
    let mut requests = Waits::default();
    let mut counted = 0u64;
    for sample in &flow.samples {
        let (at, wait) = (since(sample.sent), sample.rtt.saturating_sub(base));
        let requested = least.map_or(0, |least| sample.requested_ns.saturating_sub(least));
        requests.add_span(Duration::from_nanos(requested.unsigned_abs()));
        if at >= start || ran.flows.len() == 1 {
            let its = if sample.ce {
                &mut marked
            } else {
                &mut unmarked
            };
            its.add_span(wait);
        }
        counted += u64::from(at >= start);
        let bin = (at.as_nanos() / (BIN_MS * 1_000_000)) as usize;
        if bins.len() <= bin {
            bins.resize(bin + 1, (0.0, 0, 0));
        }
        let (sum, count, marks) = &mut bins[bin];
        *sum += wait.as_secs_f64() * 1e3;
        *count += 1;
        *marks += u32::from(sample.ce);
    }
    let first = |times: &mut dyn Iterator<Item = Time>| times.min().map(|t| since(t).as_nanos());
    let time = ran.lasted.saturating_sub(start).as_secs_f64();
    FlowSeen {
        name: flow.name.clone(),
        tos: flow.tos,
        sent: flow.sent,
        arrived: flow.arrived,
        returned: flow.samples.len() as u32,
        lost: flow.lost.len() as u32,
        late: flow.late,
        first_mark_ns: first(&mut flow.samples.iter().filter(|s| s.ce).map(|s| s.sent)),
        first_loss_ns: first(&mut flow.lost.iter().copied()),
        rate_bps: (counted * PACKET * 8) as f64 / time.max(1e-3),
        counts: bins.iter().map(|b| b.1).collect(),
        requests_ms: (direction == Direction::Down)
            .then(|| requests.quantile(MOST).map(|ns| ns * 1e-6))
            .flatten(),
        unmarked: counts(&unmarked),
        marked: counts(&marked),
        bins: bins
            .into_iter()
            .map(|(sum, n, marks)| (n > 0).then(|| ((sum / f64::from(n)) as f32, marks)))
            .collect(),
    }
}
