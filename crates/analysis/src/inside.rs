//! Answer on a recording without probes that knows queues and transfers from inside: wait of packets in each queue,
//! throughput of each transfer, losses, and fairness.
//!
//! **Method.** A queue's wait is that of the packet that left last before each sample, counted where something left since the
//! sample before. A transfer's throughput is its payload from its first sample to its last, counted where it arrived if that was
//! watched; what it waited is its smoothed round trip less the least that it saw.
//!
//! **Limits.** Peaks between two samples are missed. A transfer whose packets met a queue from the first one on has no
//! round trip without it, so it waited longer than stated. Packets outside the recording are unknown: the delay of a
//! call beside the transfer takes probes.

use base::record::{Direction, Origin};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Version of the shape in `--json`.
pub const INSIDE_VERSION: u32 = 1;

/// Samples of queues and transfers, in the order of time.
#[derive(Clone, Debug, Default)]
pub struct Samples {
    /// Samples of each queue.
    pub queues: Vec<QueueSamples>,
    /// Samples of each transfer.
    pub flows: Vec<FlowSamples>,
}

/// Samples of one queue.
#[derive(Clone, Debug, Default)]
pub struct QueueSamples {
    /// Name of the queue.
    pub name: String,
    /// Samples in order.
    pub all: Vec<QueueSample>,
}

/// Sample of a queue.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct QueueSample {
    /// Time, UNIX ns.
    pub t_ns: i64,
    /// Bytes that wait.
    pub backlog_bytes: i64,
    /// Packets that wait.
    pub backlog_packets: i64,
    /// Wait of the packet that left last, ns.
    pub sojourn_ns: Option<i64>,
    /// Packets dropped so far.
    pub drops: i64,
    /// Packets marked so far.
    pub marks: i64,
    /// Bytes delivered so far.
    pub delivered_bytes: i64,
}

/// Samples of one transfer.
#[derive(Clone, Debug)]
pub struct FlowSamples {
    /// Number of the flow.
    pub number: i64,
    /// Name of the flow, if the recording has one.
    pub name: Option<String>,
    /// Direction of the transfer.
    pub direction: Direction,
    /// Samples in order.
    pub all: Vec<FlowSample>,
}

/// Sample of a transfer.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct FlowSample {
    /// Time, UNIX ns.
    pub t_ns: i64,
    /// Bytes acknowledged so far, at the sender.
    pub acked_bytes: Option<i64>,
    /// Bytes received so far, at the receiver.
    pub received_bytes: Option<i64>,
    /// Smoothed round trip, ns.
    pub srtt_ns: Option<i64>,
    /// Least round trip, ns.
    pub min_rtt_ns: Option<i64>,
    /// Segments retransmitted so far.
    pub retransmits: Option<i64>,
    /// Congestion window, bytes.
    pub cwnd_bytes: Option<i64>,
}

impl QueueSamples {
    /// Times, and the wait of the packet that left last; `None` if no packet left since the sample before.
    pub fn waits_ms(&self) -> impl Iterator<Item = (i64, Option<f64>)> + '_ {
        let mut before = None;
        self.all.iter().map(move |s| {
            let left = before.replace(s.delivered_bytes) != Some(s.delivered_bytes);
            let wait = s.sojourn_ns.filter(|_| left).map(|ns| ns as f64 / 1e6);
            (s.t_ns, wait)
        })
    }
}

impl FlowSamples {
    /// Times, and the payload so far: as it arrived, or else as it was acknowledged.
    pub fn bytes(&self) -> Vec<(i64, i64)> {
        let count = |of: fn(&FlowSample) -> Option<i64>| -> Vec<(i64, i64)> {
            let all = self.all.iter();
            all.filter_map(|s| Some((s.t_ns, of(s)?))).collect()
        };
        let arrived = count(|s| s.received_bytes);
        match arrived.len() > 1 {
            true => arrived,
            false => count(|s| s.acked_bytes),
        }
    }
}

/// Answer on a recording without probes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Inside {
    /// Version of the shape, [`INSIDE_VERSION`].
    pub version: u32,
    /// Name of the recording.
    pub title: String,
    /// Origin of its rows.
    pub origin: Origin,
    /// True if the run went to its planned end.
    pub complete: bool,
    /// Begin, UNIX ns.
    pub from_ns: i64,
    /// End, UNIX ns.
    pub to_ns: i64,
    /// Figures of each queue.
    pub queues: Vec<QueueInside>,
    /// Figures of each transfer.
    pub flows: Vec<FlowInside>,
    /// Jain's index of the throughputs of several transfers in one direction: 1 if all got the same.
    pub fairness: Vec<Fairness>,
    /// Figures that are unknown, and why.
    pub cannot_tell: Vec<String>,
}

/// Figures of one queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct QueueInside {
    /// Name of the queue.
    pub queue: String,
    /// Number of samples.
    pub samples: u64,
    /// Median wait, ms.
    pub wait_p50_ms: Figure,
    /// 95 % point of the wait, ms.
    pub wait_p95_ms: Figure,
    /// 99 % point of the wait, ms.
    pub wait_p99_ms: Figure,
    /// Longest wait, ms.
    pub wait_max_ms: Figure,
    /// Share of the samples with an empty queue.
    pub empty: Figure,
    /// Largest backlog, bytes.
    pub backlog_max_bytes: i64,
    /// Largest backlog, packets.
    pub backlog_max_packets: i64,
    /// Rate of delivered packets, whole IP packets.
    pub delivered_bps: Figure,
    /// Packets dropped.
    pub drops: i64,
    /// Packets marked.
    pub marks: i64,
}

/// Figures of one transfer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FlowInside {
    /// Number of the flow.
    pub flow: i64,
    /// Name of the flow in its scenario; absent if it has none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// Direction of the transfer.
    pub direction: Direction,
    /// Time from the first sample to the last.
    pub seconds: f64,
    /// Payload bytes.
    pub bytes: i64,
    /// Payload rate.
    pub throughput_bps: Figure,
    /// Retransmitted segments: the losses, plus needless retransmissions.
    pub retransmits: Option<i64>,
    /// Least round trip, ms.
    pub rtt_min_ms: Figure,
    /// Median round trip, ms.
    pub rtt_p50_ms: Figure,
    /// 95 % point of the round trip, ms.
    pub rtt_p95_ms: Figure,
    /// Median wait of its packets beyond its least round trip.
    pub waited_p50_ms: Figure,
}

/// Fairness of the transfers in one direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fairness {
    /// Direction of the transfers.
    pub direction: Direction,
    /// Number of transfers.
    pub flows: u64,
    /// Jain's index.
    pub index: f64,
}

/// Facts about the recording besides its samples.
pub struct About {
    /// Name of the recording.
    pub title: String,
    /// Origin of its rows.
    pub origin: Origin,
    /// True if the run went to its planned end.
    pub complete: bool,
}

/// Answers from `samples`; `None` if there are none.
pub fn inside(about: About, samples: &Samples) -> Option<Inside> {
    let queue_times = samples.queues.iter().flat_map(|q| &q.all).map(|s| s.t_ns);
    let flow_times = samples.flows.iter().flat_map(|f| &f.all).map(|s| s.t_ns);
    let times = || queue_times.clone().chain(flow_times.clone());
    let (from_ns, to_ns) = (times().min()?, times().max()?);
    let flows: Vec<FlowInside> = samples.flows.iter().map(flow).collect();
    let fairness = [Direction::Up, Direction::Down]
        .into_iter()
        .filter_map(|way| fairness(way, &flows));
    Some(Inside {
        version: INSIDE_VERSION,
        title: about.title,
        origin: about.origin,
        complete: about.complete,
        from_ns,
        to_ns,
        queues: samples.queues.iter().map(queue).collect(),
        fairness: fairness.collect(),
        cannot_tell: cannot_tell(samples),
        flows,
    })
}

fn cannot_tell(samples: &Samples) -> Vec<String> {
    let mut all = vec![
        "What another packet would meet, how reliable that is and which services it can carry: no probe was sent. A scenario has them with [[flow]] kind = \"probe\"."
            .to_owned(),
    ];
    if samples.flows.is_empty() {
        all.push(
            "Who got how much, and who waited: no transfer was sampled. Flows of datagrams leave no rows."
                .into(),
        );
    }
    if samples.queues.is_empty() {
        all.push("Where packets waited, and where they were dropped: no queue was sampled.".into());
    }
    all
}

fn queue(q: &QueueSamples) -> QueueInside {
    let waits: Vec<f64> = q.waits_ms().filter_map(|w| w.1).collect();
    let point = |p: f64| match waits.is_empty() {
        true => Figure::cannot_tell("nothing left this queue"),
        false => stats::quantile_figure(&waits, p),
    };
    let idle: Vec<f64> = q
        .all
        .iter()
        .map(|s| f64::from(u8::from(s.backlog_packets == 0)))
        .collect();
    let most = |of: fn(&QueueSample) -> i64| q.all.iter().map(of).max().unwrap_or(0);
    let rose = |of: fn(&QueueSample) -> i64| match &q.all[..] {
        [first, .., last] => of(last) - of(first),
        _ => 0,
    };
    let span_s = rose(|s| s.t_ns) as f64 / 1e9;
    QueueInside {
        queue: q.name.clone(),
        samples: q.all.len() as u64,
        wait_p50_ms: point(0.5),
        wait_p95_ms: point(0.95),
        wait_p99_ms: point(0.99),
        wait_max_ms: match waits.iter().copied().reduce(f64::max) {
            Some(ms) => Figure::exactly(ms),
            None => point(1.0),
        },
        empty: stats::mean_figure(&idle).map(|share| share.clamp(0.0, 1.0)),
        backlog_max_bytes: most(|s| s.backlog_bytes),
        backlog_max_packets: most(|s| s.backlog_packets),
        delivered_bps: match span_s > 0.0 {
            true => Figure::exactly(rose(|s| s.delivered_bytes) as f64 * 8.0 / span_s),
            false => Figure::cannot_tell("there is one sample only"),
        },
        drops: rose(|s| s.drops),
        marks: rose(|s| s.marks),
    }
}

fn flow(f: &FlowSamples) -> FlowInside {
    let bytes = f.bytes();
    let (first, last) = match &bytes[..] {
        [first, .., last] => (*first, *last),
        _ => ((0, 0), (0, 0)),
    };
    let seconds = (last.0 - first.0) as f64 / 1e9;
    let carried = last.1 - first.1;
    let rtts: Vec<f64> = f
        .all
        .iter()
        .filter_map(|s| Some(s.srtt_ns? as f64 / 1e6))
        .collect();
    let least = f.all.iter().filter_map(|s| s.min_rtt_ns).min();
    let none = || Figure::cannot_tell("no round trip of it was measured");
    let point = |p: f64| match rtts.is_empty() {
        true => none(),
        false => stats::quantile_figure(&rtts, p),
    };
    let again = |s: Option<&FlowSample>| s.and_then(|s| s.retransmits);
    let sent_again = again(f.all.last());
    let before = again(f.all.first());
    let rtt_p50_ms = point(0.5);
    FlowInside {
        flow: f.number,
        name: f.name.clone(),
        direction: f.direction,
        seconds,
        bytes: carried,
        throughput_bps: match seconds > 0.0 {
            true => Figure::exactly(carried as f64 * 8.0 / seconds),
            false => Figure::cannot_tell("its bytes were counted once only"),
        },
        retransmits: sent_again.map(|n| n - before.unwrap_or(0)),
        rtt_min_ms: least.map_or_else(none, |ns| Figure::exactly(ns as f64 / 1e6)),
        waited_p50_ms: match least {
            Some(ns) => rtt_p50_ms.clone().map(|ms| (ms - ns as f64 / 1e6).max(0.0)),
            None => none(),
        },
        rtt_p50_ms,
        rtt_p95_ms: point(0.95),
    }
}

fn fairness(direction: Direction, flows: &[FlowInside]) -> Option<Fairness> {
    let rates: Vec<f64> = flows
        .iter()
        .filter(|f| f.direction == direction)
        .filter_map(|f| f.throughput_bps.value())
        .collect();
    let sum: f64 = rates.iter().sum();
    let squares: f64 = rates.iter().map(|r| r * r).sum();
    (rates.len() > 1 && squares > 0.0).then(|| Fairness {
        direction,
        flows: rates.len() as u64,
        index: sum * sum / (rates.len() as f64 * squares),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: i64 = 1_000_000;

    fn about() -> About {
        About {
            title: String::new(),
            origin: Origin::Simulated,
            complete: true,
        }
    }

    /// A packet of 1 000 bytes leaves each 10 ms after 40 ms of waiting, for half of the time.
    fn queue_of(name: &str) -> QueueSamples {
        let all = (0..200).map(|i: i64| {
            let busy = i < 100;
            QueueSample {
                t_ns: i * 10 * MS,
                backlog_bytes: if busy { 4_000 } else { 0 },
                backlog_packets: if busy { 4 } else { 0 },
                sojourn_ns: (i > 0).then_some(40 * MS),
                drops: 3 + i / 50,
                marks: 0,
                delivered_bytes: 1_000 * i.min(100),
            }
        });
        QueueSamples {
            name: name.into(),
            all: all.collect(),
        }
    }

    fn flow_of(number: i64, rate_bytes: i64) -> FlowSamples {
        let all = (0..=10).map(|i: i64| FlowSample {
            t_ns: i * 100 * MS,
            acked_bytes: Some(0),
            received_bytes: Some(i * rate_bytes / 10),
            srtt_ns: Some(60 * MS),
            min_rtt_ns: Some(20 * MS),
            retransmits: Some(5 + i),
            cwnd_bytes: Some(14_480),
        });
        FlowSamples {
            number,
            name: None,
            direction: Direction::Up,
            all: all.collect(),
        }
    }

    #[test]
    fn a_packet_that_left_once_is_counted_once() {
        let samples = Samples {
            queues: vec![queue_of("link")],
            flows: Vec::new(),
        };
        let all = inside(about(), &samples).unwrap();
        let q = &all.queues[0];
        assert_eq!(
            samples.queues[0]
                .waits_ms()
                .filter(|w| w.1.is_some())
                .count(),
            100
        );
        assert_eq!(q.wait_p50_ms.value(), Some(40.0));
        assert_eq!((q.drops, q.backlog_max_packets), (3, 4));
        assert_eq!(q.empty.value(), Some(0.5));
        // 100 kB in 1.99 s.
        assert!((q.delivered_bps.value().unwrap() - 800e3 / 1.99).abs() < 1e-6);
        assert!(all.cannot_tell.iter().any(|c| c.contains("no transfer")));
    }

    #[test]
    fn transfers_say_what_they_got_and_how_long_they_waited() {
        let samples = Samples {
            queues: Vec::new(),
            flows: vec![flow_of(0, 1_000_000), flow_of(1, 3_000_000)],
        };
        let all = inside(about(), &samples).unwrap();
        assert_eq!(all.flows[1].throughput_bps.value(), Some(24e6));
        assert_eq!(all.flows[0].waited_p50_ms.value(), Some(40.0));
        assert_eq!(all.flows[0].retransmits, Some(10));
        // (1 + 3)² / (2 · (1 + 9)).
        assert!((all.fairness[0].index - 0.8).abs() < 1e-12);
        assert!(inside(about(), &Samples::default()).is_none());
    }
}
