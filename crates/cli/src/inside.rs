//! The samples of queues and transfers in a recording: what there is to say where no probe was sent.

use crate::gather;
use analysis::inside::{
    About, FlowSample, FlowSamples, Inside, QueueSample, QueueSamples, Samples, inside,
};
use base::record::{Direction, Row, TableId};
use std::collections::BTreeMap;
use std::path::Path;

/// Whether probes were part of it, be their rows lost or beyond what is asked for.
pub fn had_probes(path: &Path) -> bool {
    path.join(TableId::Delay.spec().name).exists()
}

/// Between these instants. `None` of a recording without samples of queues and transfers.
pub fn gathered(
    path: &Path,
    from_ns: Option<i64>,
    to_ns: Option<i64>,
) -> anyhow::Result<Option<(Inside, Samples)>> {
    let meta = gather::meta(path)?;
    let within = |t: i64| from_ns.is_none_or(|from| t >= from) && to_ns.is_none_or(|to| t < to);
    let mut samples = Samples::default();
    gather::each_row(path, TableId::Queue, &mut |row| {
        let Row::Queue(q) = row else { return };
        if !within(q.t_ns) {
            return;
        }
        let queues = &mut samples.queues;
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
    // There can be thousands: each connection of a session is one.
    let mut places: BTreeMap<(i64, bool), usize> = BTreeMap::new();
    gather::each_row(path, TableId::Flow, &mut |row| {
        let Row::Flow(f) = row else { return };
        if !within(f.t_ns) {
            return;
        }
        let flows = &mut samples.flows;
        let key = (f.flow, f.direction == Direction::Up);
        let at = *places.entry(key).or_insert_with(|| {
            flows.push(FlowSamples {
                number: f.flow,
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
        });
    })?;
    samples
        .queues
        .iter_mut()
        .for_each(|q| q.all.sort_by_key(|s| s.t_ns));
    samples
        .flows
        .iter_mut()
        .for_each(|f| f.all.sort_by_key(|s| s.t_ns));
    let about = About {
        title: meta.title,
        origin: meta.origin,
        complete: meta.complete,
    };
    Ok(inside(about, &samples).map(|i| (i, samples)))
}
