//! Size of the queue in front of a link, in time and in bytes, and its token bucket.
//!
//! **Method.** Small datagrams at rest give the base delay. Then twice the link's rate is sent until the delay grows no
//! more and datagrams are lost: the queue is full. The queue in ms is the median delay then, less the base and less the
//! rest of the transmission that a datagram meets. (Netalyzr and BFind take the difference of loaded and idle round
//! trips; here it is that of one direction alone.) Its size in bytes is that times the rate of arrivals. A flood that
//! is too short to fill the queue is repeated four times as long. Arrivals in equal stretches of time show a token
//! bucket as a step down of the rate: the bytes before the step above the rate after it are the bucket's size. The
//! queue then has two delays: the same bytes leave at the higher rate first and at the lower one later.
//!
//! **Source.** A. Akella, S. Seshan, A. Shaikh, "An empirical evaluation of wide-area Internet bottlenecks", IMC 2003 (BFind);
//! C. Kreibich, N. Weaver, B. Nechaev, V. Paxson, "Netalyzr: illuminating the edge network", IMC 2010; P. Kanuparthy,
//! C. Dovrolis, "ShaperProbe: end-to-end detection of ISP traffic shaping using active methods", IMC 2011 (the step).
//!
//! The sending host's own queue is measured separately (`own`) and subtracted: if that host's interface is the slowest
//! part, its queue is the one that fills.
//!
//! **Limits.** A queue may count bytes or packets: both sizes hold for datagrams of the flood's size. A queue that
//! counts bytes may have room for less than one datagram more; the interval in bytes is wider by that.
//!
//! **Deviations.** One-way delays in place of round trips. ShaperProbe sends at the capacity, this above it.
//!
//! **Units.** Sizes in bytes of whole IP packets, rates of whole IP packets.

mod answer;
mod managed;
mod own;
mod steps;
mod text;

use super::spec::{How, Spec};
use super::trains::{of_stage, waits};
use base::program::{MOST_DATAGRAMS, Program, Sending, Shot, Step, Train};
use base::record::Direction;
use base::spec::{Params as _, params};
use base::{BitsPerSec, Bytes, Duration};
pub(super) use managed::is_managed;

/// Payload of a small datagram.
const SMALL: u32 = 50;

/// Number of small datagrams before a flood, which give the delay of an empty queue.
const RESTING: u64 = 20;

const LONGEST_FLOOD: Duration = Duration::from_secs(100);

/// Name and length in s of the stage after the last flood.
const AFTER: &str = "rest";

/// Silence before each flood.
const REST: Duration = Duration::from_secs(2);

/// Length of a flood below which it tells nothing, s.
const SHORTEST_FLOOD: f64 = 0.2;

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "buffer": "How much does the queue in front of this link hold, in time and bytes, and is there a burst allowance?", ["C. Kreibich et al., Netalyzr: illuminating the edge network, IMC 2010",
            "A. Akella, S. Seshan, A. Shaikh, An empirical evaluation of wide-area Internet bottlenecks, IMC 2003",
            "P. Kanuparthy, C. Dovrolis, ShaperProbe, IMC 2011",] {
        /// direction of the flood
        direction: Direction = "up";
        /// payload of each datagram of the flood; a queue that counts packets holds fewer bytes of smaller ones
        size: Bytes = "1452 B" ["100 B".."65507 B"], "whole in 1500 bytes, IPv4 and IPv6; Netalyzr takes 1024 B";
        /// length of the flood; by default 4 s, and longer until the queue is full
        hold: Option<Duration> ["1 s".."100 s"];
        /// time of small datagrams before and after the flood; 30 s with hold=30s is the usual plot of a flood
        before: Duration = "1 s" ["1 s".."60 s"];
        /// first find how much the sending host itself holds: datagrams as fast as it can, until it refuses one
        own: bool = "false", "Chandele 2012, table 3.1.3";
        /// time limit for the floods, draining included; a queue that they do not fill is reported as "at least"
        within: Option<Duration> ["8 s".."1000 s"];
        /// upper limit on the bytes sent
        most: Option<Bytes> ["10 kB".."100 GB"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "about 15 s with a second of queue, at twice the link's rate",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Trains(|w, trains| steps::next(&w.read(), trains)),
    answer: |w, recording| answer::answer(&w.read(), &Train::all_of(recording)),
};

/// Program of a flood between small datagrams, which continue while the queue drains.
fn flood(params: &Params, rate: f64, time: Duration) -> Program {
    let payload = params.size.get() as u32;
    let before = params.before;
    let small = Shot {
        payload: SMALL,
        gap: Duration::from_nanos(before.as_nanos() / RESTING),
    };
    let steps = vec![
        Step::new(RESTING, vec![small]),
        Step::steady(payload, BitsPerSec::new(rate as u64), time),
    ];
    Program::within(steps)
}

fn sending(params: &Params, rate: f64, time: Duration) -> Sending {
    // A rate far above what a first look saw may be more than a program takes.
    let payload = params.size.get() as f64;
    let most = 0.9 * MOST_DATAGRAMS as f64 * payload * 8.0 / time.as_secs_f64();
    Sending {
        stage: "flood".into(),
        direction: params.direction,
        programs: vec![flood(params, rate.min(most), time)],
        rest: REST,
    }
}

/// Rest of the given time and bytes.
struct Bounds {
    within: Option<f64>,
    most: Option<f64>,
    before: f64,
    packet: f64,
    payload: f64,
}

impl Bounds {
    fn of(params: &Params, trains: &[Train]) -> Bounds {
        let took = |t: &Train| {
            let waited = waits(t).iter().map(|w| w.1 * 1e-3).fold(0.0, f64::max);
            // Agreeing on a train and getting its stamps takes some round trips.
            t.facts.program.time().as_secs_f64() + waited + 0.5
        };
        let rests = of_stage(trains, "flood").count() as f64 * REST.as_secs_f64();
        let time: f64 = trains.iter().map(took).sum();
        let bytes: u64 = trains
            .iter()
            .map(|t| t.facts.program.bytes(t.facts.headers).get())
            .sum();
        let payload = params.size.get() as f64;
        Bounds {
            within: params
                .within
                .map(|w| w.as_secs_f64() - time - rests - REST.as_secs_f64()),
            most: params.most.map(|m| m.get() as f64 - bytes as f64),
            before: params.before.as_secs_f64(),
            // IPv6 has the longer headers.
            packet: payload + 48.0,
            payload,
        }
    }

    /// Longest flood at this payload rate, s. The backlog that it leaves in the queue takes as long again to drain.
    fn longest(&self, rate: f64) -> f64 {
        let time = self.within.map(|left| (left - self.before - 1.0) / 2.0);
        let small = RESTING as f64 * 100.0;
        let bytes = self
            .most
            .map(|left| (left - small) * 8.0 / (rate * self.packet / self.payload));
        [time, bytes]
            .into_iter()
            .flatten()
            .fold(LONGEST_FLOOD.as_secs_f64(), f64::min)
            .max(0.0)
    }
}

/// Evidence of one flood.
struct Seen {
    /// Time since the train began, s, and wait, ms, of every datagram of the flood that arrived.
    waits: Vec<(f64, f64)>,
    /// IP bytes a second in equal stretches of arrival time, and the length of one, s.
    rates: Vec<f64>,
    stretch: f64,
    /// True if more came in than went out.
    overloaded: bool,
    /// True if datagrams were lost after the delay had ceased to grow.
    full: bool,
    /// True if some were lost on the link, rather than refused by the sending host.
    lost_on_line: bool,
    packet: f64,
}

fn look(train: &Train) -> Option<Seen> {
    let flood: Vec<_> = train.datagrams().filter(|(due, _)| due.step == 1).collect();
    let packet =
        f64::from(train.facts.program.steps().get(1)?.shots.first()?.payload + train.facts.headers);
    let began = train.began_ns()?;
    let arrived: Vec<i64> = {
        let mut all: Vec<i64> = flood.iter().filter_map(|(_, f)| f.received_ns).collect();
        all.sort_unstable();
        all
    };
    let sent: Vec<i64> = flood.iter().filter_map(|(_, f)| f.sent_ns).collect();
    if arrived.len() < 60 || sent.len() < 2 {
        return None;
    }
    // A base that small datagrams gave is less than that of a large one by the time it takes on the line.
    let least = train.delays().map(|d| d.1).min()?;
    let waits: Vec<(f64, f64)> = flood
        .iter()
        .filter_map(|(_, f)| {
            let (sent, received) = (f.sent_ns?, f.received_ns?);
            Some((
                (sent - began) as f64 * 1e-9,
                (received - sent - least) as f64 * 1e-6,
            ))
        })
        .collect();
    // While the flood lasts, so that what drains afterwards counts too, but at its own pace.
    let span = (arrived[arrived.len() - 1] - arrived[0]) as f64 * 1e-9;
    let stretches = (arrived.len() / 12).clamp(8, 120);
    let stretch = span / stretches as f64;
    let rates = rates(&arrived, packet, stretch, stretches);
    let took = (sent[sent.len() - 1] - sent[0]) as f64;
    let overloaded = span * 1e9 > 1.1 * took || arrived.len() < flood.len() * 93 / 100;
    let third = waits.len() / 3;
    let median = |w: &[(f64, f64)]| {
        stats::quantile_of_sorted(
            &stats::sorted(&w.iter().map(|w| w.1).collect::<Vec<_>>()),
            0.5,
        )
    };
    let (middle, last) = (
        median(&waits[third..2 * third])?,
        median(&waits[2 * third..])?,
    );
    let lost_late = flood[flood.len() / 2..]
        .iter()
        // Lost by the line, or refused by a host whose own queue was full.
        .any(|(_, f)| f.received_ns.is_none());
    let lost_on_line = flood
        .iter()
        .any(|(_, f)| f.sent_ns.is_some() && f.received_ns.is_none());
    Some(Seen {
        lost_on_line,
        waits,
        rates,
        stretch,
        overloaded,
        full: lost_late && last < 1.08 * middle + 1.0,
        packet,
    })
}

/// Rates in equal stretches from the first arrival on, bit/s. The time between two arrivals counts to both of the
/// stretches that it lies in: a stretch of a dozen packets would otherwise be off by one of them.
fn rates(arrived: &[i64], packet: f64, stretch: f64, stretches: usize) -> Vec<f64> {
    let mut rates = vec![0.0; stretches];
    let at = |t: i64| (t - arrived[0]) as f64 * 1e-9 / stretch;
    for two in arrived.windows(2) {
        let (from, to) = (at(two[0]), at(two[1]));
        let last = (to as usize).min(stretches - 1);
        let first = (from as usize).min(last);
        for (i, rate) in rates.iter_mut().enumerate().take(last + 1).skip(first) {
            let begin = from.max(i as f64);
            let end = if i == last { to } else { i as f64 + 1.0 };
            let share = if to > from {
                (end - begin) / (to - from)
            } else {
                1.0
            };
            *rate += share * packet * 8.0 / stretch;
        }
    }
    rates
}
