//! Samples of queues and transfers in a recording: the figures of a recording without probes.

use crate::scan::{self, Source};
use analysis::inside::{
    About, FlowSample, FlowSamples, Inside, QueueSample, QueueSamples, Samples, inside,
};
use base::record::{Direction, Meta, Row, TableId};
use std::collections::BTreeMap;

/// True if the recording had probes, even if their rows are lost or outside the requested time.
pub(crate) fn had_probes(from: Source<'_>) -> bool {
    from.path.join(TableId::Delay.spec().name).exists()
}

/// Samples of queues and transfers between two instants; `None` if the recording has none.
pub(crate) fn gathered(
    from: Source<'_>,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
) -> anyhow::Result<Option<(Inside, Samples)>> {
    let meta = scan::meta(from)?;
    let within = |t: i64| from_ns.is_none_or(|from| t >= from) && to_ns.is_none_or(|to| t < to);
    let samples = Samples {
        queues: queues(from, &within)?,
        flows: flows(from, &names(&meta), &within)?,
    };
    let about = About {
        title: meta.title,
        origin: meta.origin,
        complete: meta.complete,
    };
    Ok(inside(about, &samples).map(|i| (i, samples)))
}

/// Most flows that get a name.
const NAMED: u64 = 100_000;

/// Names of the flows of a simulation by their numbers: those of its scenario, numbered where several are alike.
fn names(meta: &Meta) -> Vec<String> {
    let scenario = serde_json::from_value::<sim::Scenario>(meta.plan.clone());
    let Some(scenario) = scenario.ok().filter(|_| meta.verb == "sim") else {
        return Vec::new();
    };
    if scenario
        .flows
        .iter()
        .fold(0u64, |n, f| n.saturating_add(f.count))
        > NAMED
    {
        return Vec::new();
    }
    let labels = scenario.labels().into_iter().zip(&scenario.flows);
    let all = labels.flat_map(|(label, flow)| {
        (1..=flow.count).map(move |i| match flow.count {
            1 => label.clone(),
            _ => format!("{label} {i}"),
        })
    });
    all.collect()
}

/// Samples of each queue, in the order of time.
fn queues(from: Source<'_>, within: &dyn Fn(i64) -> bool) -> anyhow::Result<Vec<QueueSamples>> {
    let mut queues: Vec<QueueSamples> = Vec::new();
    scan::each_row(from, TableId::Queue, &mut |row| {
        let Row::Queue(q) = row else { return };
        if !within(q.t_ns) {
            return;
        }
        let at = queues
            .iter()
            .position(|known| *known.name == *q.queue)
            .unwrap_or_else(|| {
                queues.push(QueueSamples {
                    name: q.queue.to_string(),
                    all: Vec::new(),
                });
                queues.len() - 1
            });
        queues[at].all.push(QueueSample {
            t_ns: q.t_ns,
            backlog_bytes: q.backlog_bytes,
            backlog_packets: q.backlog_packets,
            sojourn_ns: q.sojourn_ns,
            drops: q.drops,
            marks: q.marks,
            delivered_bytes: q.delivered_bytes,
        });
    })?;
    queues
        .iter_mut()
        .for_each(|q| q.all.sort_by_key(|s| s.t_ns));
    Ok(queues)
}

/// Samples of each transfer, in the order of time.
fn flows(
    from: Source<'_>,
    names: &[String],
    within: &dyn Fn(i64) -> bool,
) -> anyhow::Result<Vec<FlowSamples>> {
    let mut flows: Vec<FlowSamples> = Vec::new();
    // There can be thousands: each connection of a session is one.
    let mut places: BTreeMap<(i64, bool), usize> = BTreeMap::new();
    scan::each_row(from, TableId::Flow, &mut |row| {
        let Row::Flow(f) = row else { return };
        if !within(f.t_ns) {
            return;
        }
        let key = (f.flow, f.direction == Direction::Up);
        let at = *places.entry(key).or_insert_with(|| {
            flows.push(FlowSamples {
                number: f.flow,
                name: usize::try_from(f.flow)
                    .ok()
                    .and_then(|n| names.get(n).cloned()),
                direction: f.direction,
                all: Vec::new(),
            });
            flows.len() - 1
        });
        flows[at].all.push(FlowSample {
            t_ns: f.t_ns,
            acked_bytes: f.bytes_acked,
            received_bytes: f.bytes_received,
            srtt_ns: f.srtt_ns,
            min_rtt_ns: f.min_rtt_ns,
            retransmits: f.retransmits,
            cwnd_bytes: f.cwnd_bytes,
        });
    })?;
    flows.iter_mut().for_each(|f| f.all.sort_by_key(|s| s.t_ns));
    Ok(flows)
}
