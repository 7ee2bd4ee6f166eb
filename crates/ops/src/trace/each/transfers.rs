//! Figures of the transfers in a capture: table 6.6.1 and figures 6.7.1 and 6.7.2 of Chandele 2012.

use super::{Figures, Kind};
use crate::trace::answer::Losses;
use crate::trace::packets::settings;
use crate::trace::{Plan, input};
use base::print::{DELAY, PERCENT, RATE, SPAN};
use measure::track::{Connection, Tracker};
use std::path::Path;

pub(super) const KINDS: &[Kind] = &[
    Kind {
        key: "goodput_bps",
        name: "Goodput",
        unit: Some(RATE),
    },
    Kind {
        key: "rtt_p50_ms",
        name: "RTT, median",
        unit: Some(DELAY),
    },
    Kind {
        key: "retransmitted_packets",
        name: "Retransmitted packets",
        unit: None,
    },
    Kind {
        key: "lost_percent",
        name: "Lost packets",
        unit: Some(PERCENT),
    },
    Kind {
        key: "lost_in_breaks_percent",
        name: "Losses in flow breaks",
        unit: Some(PERCENT),
    },
    Kind {
        key: "lost_in_bursts_percent",
        name: "Losses in bursts",
        unit: Some(PERCENT),
    },
    Kind {
        key: "time_in_breaks_s",
        name: "Time in flow breaks",
        unit: Some(SPAN),
    },
];

pub(super) const LEGEND: &str = "  The first three are of the largest transfer: the direction with the most\n  \
    payload. Lost packets are a share of the capture's data packets, losses in\n  \
    breaks and bursts a share of the lost ones. Bursts are those of offload, and\n  \
    those that one ACK released. n counts the captures that have the figure.\n  \
    No losses are told where more than a tenth may be needless repairs.\n";

/// Figures of one capture, and the time of its first packet.
pub(super) fn read(path: &Path, plan: &Plan, notes: &mut Vec<String>) -> anyhow::Result<Figures> {
    let mut tracker = Tracker::new(settings(plan));
    input::records(path, notes, |record| tracker.record(record))?;
    let traffic = tracker.finish();
    let halves = traffic
        .connections
        .iter()
        .flat_map(|c| [0, 1].map(|d| (c, d)));
    let carried = |(c, d): &(&Connection, usize)| c.halves[*d].counts.unique_bytes;
    let largest = halves.max_by_key(carried).filter(|h| carried(h) > 0);
    let largest = largest.map(|(c, d)| crate::trace::answer::Direction::of(c, d));
    let mut losses = Losses::default();
    for c in &traffic.connections {
        for direction in [0, 1] {
            losses.add(&Losses::of(c, direction));
        }
    }
    let share = |part: u64, of: u64| (of > 0).then(|| 100.0 * part as f64 / of as f64);
    // Repairs of receivers without SACK are an upper end of the losses.
    let are_known = losses.perhaps_needless * 10 <= losses.lost;
    let lost = |part: u64, of: u64| share(part, of).filter(|_| are_known);
    let in_bursts = losses.in_bursts_of_offload + losses.in_bursts_after_acks;
    let has_data = losses.data_packets > 0;
    let figures = vec![
        largest.as_ref().and_then(|d| d.goodput_bps),
        largest.as_ref().and_then(|d| d.rtt_p50_ms),
        largest.as_ref().map(|d| d.retransmitted_packets as f64),
        lost(losses.lost, losses.data_packets),
        lost(losses.in_breaks, losses.lost),
        lost(in_bursts, losses.lost),
        has_data.then_some(losses.time_in_breaks_s),
    ];
    Ok((traffic.totals.first_ns, figures))
}
