//! Which flow of the one capture is which of the other.

use super::capture::{Capture, Flow, Packet};
use std::collections::HashMap;

/// A flow at both ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Both {
    pub near: usize,
    pub far: usize,
    /// The far end's directions are the other way round: changed addresses changed their order.
    pub turned: bool,
}

/// Packets of a flow that are looked at to recognise it.
const LOOKED_AT: usize = 200;

/// By addresses and ports; then, of what is left, by what the packets hold.
pub(super) fn pair(near: &Capture, far: &Capture) -> Vec<Both> {
    let by_key: HashMap<_, usize> = far
        .flows
        .iter()
        .enumerate()
        .map(|(i, f)| (f.key, i))
        .collect();
    let mut taken = vec![false; far.flows.len()];
    let mut both = Vec::new();
    let mut left = Vec::new();
    for (i, f) in near.flows.iter().enumerate() {
        match by_key.get(&f.key) {
            Some(j) => {
                taken[*j] = true;
                both.push(Both {
                    near: i,
                    far: *j,
                    turned: false,
                });
            }
            None => left.push(i),
        }
    }
    // What a packet holds, and which flows hold it, in which direction.
    let mut holders: HashMap<u64, Vec<(usize, usize)>> = HashMap::new();
    for (j, f) in far.flows.iter().enumerate().filter(|(j, _)| !taken[*j]) {
        for way in 0..2 {
            for p in telling(f, way, &far.packets) {
                let at = holders.entry(content(p, f)).or_default();
                if at.last() != Some(&(j, way)) {
                    at.push((j, way));
                }
            }
        }
    }
    for i in left {
        let f = &near.flows[i];
        let mut votes: HashMap<(usize, bool), u32> = HashMap::new();
        let mut cast = 0;
        for way in 0..2 {
            for p in telling(f, way, &near.packets) {
                cast += 1;
                for (j, far_way) in holders.get(&content(p, f)).into_iter().flatten() {
                    *votes.entry((*j, *far_way != way)).or_default() += 1;
                }
            }
        }
        let mut ranked: Vec<((usize, bool), u32)> = votes.into_iter().collect();
        ranked.sort_by_key(|((j, turned), n)| (std::cmp::Reverse(*n), *j, *turned));
        let free = ranked.iter().find(|((j, _), _)| !taken[*j]);
        // Half of the packets, or a SYN's own number and one more.
        if let Some(((j, turned), n)) = free
            && (2 * n >= cast || *n >= 10)
        {
            taken[*j] = true;
            both.push(Both {
                near: i,
                far: *j,
                turned: *turned,
            });
        }
    }
    both
}

/// Packets that are hardly like any other: with data, or a SYN.
fn telling<'a>(
    f: &'a Flow,
    way: usize,
    packets: &'a [Packet],
) -> impl Iterator<Item = &'a Packet> + 'a {
    f.packets[way]
        .iter()
        .map(|i| &packets[*i as usize])
        .filter(|p| p.space() > 0)
        .take(LOOKED_AT)
}

fn content(p: &Packet, f: &Flow) -> u64 {
    super::pairing::mixed(&[f.key.protocol.into(), p.seq, p.payload, p.timestamp, p.hash])
}
