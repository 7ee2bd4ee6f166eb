//! Limits of plausible values, checked before memory is allocated or anything overflows.

use crate::error::ScenarioError;
use crate::flow::Flow;
use crate::scenario::Scenario;
use crate::topology::Graph;
use base::{BitsPerSec, Bytes, Duration};
use std::collections::HashSet;
use std::fmt::Display;
use std::sync::Arc;

/// Latest start of a flow; also the longest link delay and the longest timer.
const LONGEST_START: Duration = Duration::from_secs(365 * 86_400);
const LONGEST_WAIT: Duration = Duration::from_secs(86_400);
/// Highest rate: 1 Pbit/s.
pub const FASTEST: BitsPerSec = BitsPerSec::new(1_000_000_000_000_000);
/// RFC 791 section 3.1: the total length has 16 bits.
const LONGEST_PACKET: u64 = 65_535;
/// Widest window: RFC 7323 section 2.3 limits the window that can be announced to 2^30.
const WIDEST_WINDOW: Bytes = Bytes::new(1 << 30);
const MOST_SEGMENTS: u64 = 1_000_000;
/// Smallest header: an ACK consists of a header alone, and a packet of 0 bytes is none.
const LEAST_HEADER: Bytes = Bytes::new(1);
const LARGEST_HEADER: Bytes = Bytes::new(256);

fn refuse<T>(text: String) -> Result<T, ScenarioError> {
    Err(ScenarioError::Invalid(text))
}

fn within<T: PartialOrd + Display>(
    key: &str,
    value: T,
    least: T,
    most: T,
) -> Result<(), ScenarioError> {
    match value >= least && value <= most {
        true => Ok(()),
        false => refuse(format!("{key} = \"{value}\": from {least} to {most}")),
    }
}

/// Checks that a scenario stays within the limits of the engine.
pub fn check(scenario: &Scenario, graph: &Graph) -> Result<(), ScenarioError> {
    scenario
        .flows
        .iter()
        .try_for_each(|flow| check_flow(scenario, flow))?;
    let mut names = HashSet::new();
    let mut checked = None;
    for edge in &graph.edges {
        let name = &edge.name;
        // The links of the shapes have names of their own; only those of [[edge]] tables can be alike.
        if !scenario.edges.is_empty() && !names.insert(name) {
            return refuse(format!(
                "two links are called \"{name}\": give one of them another name, name = \"…\" in its [[edge]]"
            ));
        }
        if checked.is_some_and(|link| Arc::ptr_eq(link, &edge.link)) {
            continue;
        }
        checked = Some(&edge.link);
        within(
            &format!("{name}: delay"),
            edge.link.delay,
            Duration::ZERO,
            LONGEST_WAIT,
        )?;
        if let Some(why) = edge.link.queue.contradiction() {
            return refuse(format!("{name}: queue = \"{}\": {why}", edge.link.queue));
        }
        if let Ok(params) = edge.link.params() {
            within(
                &format!("{name}: rate"),
                params.rate.peak(),
                BitsPerSec::new(1),
                FASTEST,
            )?;
        }
    }
    Ok(())
}

fn check_flow(scenario: &Scenario, flow: &Flow) -> Result<(), ScenarioError> {
    let label = flow.label();
    let key = |key: &str| format!("flow \"{label}\": {key}");
    let stagger = u128::from(flow.stagger.as_nanos()) * u128::from(flow.count.saturating_sub(1));
    let last = u128::from(flow.start.as_nanos()) + u128::from(flow.spread.as_nanos()) + stagger;
    if last > u128::from(LONGEST_START.as_nanos()) {
        return refuse(format!(
            "{}: with start = \"{}\", stagger = \"{}\" and spread = \"{}\" the last of {} begins after more than {LONGEST_START}",
            key("start"),
            flow.start,
            flow.stagger,
            flow.spread,
            flow.count
        ));
    }
    if flow.is_tcp() {
        let tcp = scenario.tcp_of(flow)?;
        within(&key("header"), tcp.header, LEAST_HEADER, LARGEST_HEADER)?;
        let largest = Bytes::new(LONGEST_PACKET - tcp.header.get());
        within(&key("mss"), tcp.mss, Bytes::new(1), largest)?;
        within(
            &key("receive_window"),
            tcp.receive_window,
            tcp.mss,
            WIDEST_WINDOW,
        )?;
        within(&key("dup_thresh"), tcp.dup_thresh, 1, MOST_SEGMENTS)?;
        if let Some(window) = tcp.initial_window {
            within(&key("initial_window"), window, 1, MOST_SEGMENTS)?;
        }
        within(&key("burst"), tcp.burst, 1, MOST_SEGMENTS)?;
        within(
            &key("ack_every"),
            u64::from(tcp.ack_every),
            1,
            MOST_SEGMENTS,
        )?;
        for (name, wait) in [
            ("ack_delay", tcp.ack_delay),
            ("min_rto", tcp.min_rto),
            ("initial_rto", tcp.initial_rto),
        ] {
            within(&key(name), wait, Duration::ZERO, LONGEST_WAIT)?;
        }
    }
    Ok(())
}
