//! Pairs the flows of one capture with those of the other.

use super::capture::{Capture, Flow, Packet};
use crate::track::Endpoint;
use std::collections::{BTreeSet, HashMap};
use std::net::IpAddr;

/// A flow at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both {
    /// Index of the flow in the near capture.
    pub near: usize,
    /// Index of the flow in the far capture.
    pub far: usize,
    /// True if the far end's directions are reversed: translated addresses changed their order.
    pub turned: bool,
    /// True if addresses or ports differ while the contents of the packets are the same.
    pub translated: bool,
}

/// Packets of a flow that are examined to recognise it.
const LOOKED_AT: usize = 200;

/// Number of distinct packets that suffices if neither end has the same address and port.
const ENOUGH: usize = 3;

/// Pairs flows by addresses and ports; then the rest by the contents of their packets.
pub(super) fn pair(near: &Capture, far: &Capture) -> Vec<Both> {
    let crosses = |f: &&Flow| !stays(f);
    let far_flows = far.flows.iter().enumerate();
    let by_key: HashMap<_, usize> = far_flows
        .filter(|(_, f)| crosses(f))
        .map(|(i, f)| (f.key, i))
        .collect();
    let mut taken = vec![false; far.flows.len()];
    let mut both = Vec::new();
    let mut left = Vec::new();
    for (i, f) in near.flows.iter().enumerate().filter(|(_, f)| crosses(f)) {
        match by_key.get(&f.key) {
            Some(j) => {
                taken[*j] = true;
                both.push(Both {
                    near: i,
                    far: *j,
                    turned: false,
                    translated: false,
                });
            }
            None if group(f) => {}
            None => left.push(i),
        }
    }
    // Flows and directions that hold each packet content.
    let mut holders: HashMap<u64, BTreeSet<(usize, usize)>> = HashMap::new();
    for (j, f) in far.flows.iter().enumerate() {
        if taken[j] || stays(f) || group(f) {
            continue;
        }
        for way in 0..2 {
            for p in telling(f, way, &far.packets) {
                holders.entry(content(p, f)).or_default().insert((j, way));
            }
        }
    }
    for i in left {
        let found = translated(near, far, i, &holders, &taken);
        if let Some(found) = found {
            taken[found.far] = true;
            both.push(found);
        }
    }
    both
}

/// Far flow with the contents of near flow `i`, if there is exactly one.
fn translated(
    near: &Capture,
    far: &Capture,
    i: usize,
    holders: &HashMap<u64, BTreeSet<(usize, usize)>>,
    taken: &[bool],
) -> Option<Both> {
    let f = &near.flows[i];
    let mut votes: HashMap<(usize, bool), usize> = HashMap::new();
    let mut cast = 0;
    for way in 0..2 {
        // Equal packets, such as a repeated query, count once.
        let distinct: BTreeSet<u64> = telling(f, way, &near.packets)
            .map(|p| content(p, f))
            .collect();
        cast += distinct.len();
        for (j, far_way) in distinct.iter().filter_map(|c| holders.get(c)).flatten() {
            *votes.entry((*j, *far_way != way)).or_default() += 1;
        }
    }
    let mut ranked: Vec<((usize, bool), usize)> = votes.into_iter().collect();
    ranked.sort_by_key(|((j, turned), n)| (std::cmp::Reverse(*n), *j, *turned));
    ranked.retain(|((j, _), _)| !taken[*j]);
    let ((j, turned), n) = *ranked.first()?;
    // A match that two flows share is ambiguous and rejected.
    let alone = ranked
        .get(1)
        .is_none_or(|((other, _), m)| *other == j || *m < n);
    let g = &far.flows[j];
    let [a, b, c, d] = [f.key.low, f.key.high, g.key.low, g.key.high];
    let shared = a == c || a == d || b == c || b == d;
    // Half of the packets, or a SYN's own number and one more. A sequence number identifies a packet almost uniquely,
    // the start of a datagram hardly.
    let least = match (shared, f.key.protocol) {
        (true, 6) => 1,
        (true, _) => 2,
        (false, _) => ENOUGH,
    };
    let enough = (2 * n >= cast || n >= 10) && n >= least;
    (alone && enough).then_some(Both {
        near: i,
        far: j,
        turned,
        translated: true,
    })
}

/// True for a flow that no router forwards: equal ones at both ends are different flows.
fn stays(f: &Flow) -> bool {
    let local = |end: &Endpoint| match end.ip() {
        IpAddr::V4(four) => {
            let group = four.octets();
            four.is_link_local()
                || four.is_broadcast()
                || four.is_unspecified()
                || four.is_loopback()
                || group[..3] == [224, 0, 0]
        }
        IpAddr::V6(six) => {
            let [first, ..] = six.segments();
            six.is_unspecified()
                || six.is_loopback()
                || first & 0xffc0 == 0xfe80
                // RFC 4291 section 2.7: interface-local and link-local groups.
                || matches!(first & 0xff0f, 0xff01 | 0xff02)
        }
    };
    local(&f.key.low) || local(&f.key.high)
}

/// True for a flow to a multicast group, which no NAT translates.
fn group(f: &Flow) -> bool {
    [f.key.low, f.key.high]
        .iter()
        .any(|end| end.ip().is_multicast())
}

/// Packets that are almost unique: with data, or a SYN.
fn telling<'a>(
    f: &'a Flow,
    way: usize,
    packets: &'a [Packet],
) -> impl Iterator<Item = &'a Packet> + 'a {
    f.packets[way]
        .iter()
        .map(|i| &packets[*i as usize])
        .filter(|p| p.space() > 0 && (f.key.protocol == 6 || p.hash != 0))
        .take(LOOKED_AT)
}

fn content(p: &Packet, f: &Flow) -> u64 {
    super::pairing::mixed(&[f.key.protocol.into(), p.seq, p.payload, p.timestamp, p.hash])
}
