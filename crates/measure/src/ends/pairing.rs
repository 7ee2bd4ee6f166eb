//! Pairs the packets of paired flows, and reports the differences between the ends.

use super::capture::{Capture, Flow, PIECES, Packet, Syn};
use super::judge::{Judge, Seen};
use super::{Matched, flows};
use crate::capture::frame::flag;
use crate::track::Endpoint;
use std::collections::{BTreeMap, HashMap, HashSet};

/// Direction of a packet: up or down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Way {
    /// Direction from the near end to the far one.
    Up,
    Down,
}

/// A packet at both ends, each time on that end's own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pair {
    /// Time at the near end, ns.
    pub near_ns: i64,
    /// Time at the far end, ns.
    pub far_ns: i64,
    /// Direction of the packet.
    pub way: Way,
    /// Number of the flow.
    pub flow: u32,
    /// Length of the IP packet at its sender's end.
    pub bytes: u32,
}

/// Reason why a packet is missing at one end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostWhy {
    /// Lost between the two captures.
    Here,
    /// The receiver acknowledged it and no other copy passed: the downstream capture has a gap.
    NotCaptured,
}

/// A packet that the downstream end did not see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lost {
    /// Time on the clock of the end that saw it, ns.
    pub t_ns: i64,
    /// Number in the capture that saw it, from 1.
    pub frame: u32,
    /// Direction of the packet.
    pub way: Way,
    /// Number of the flow.
    pub flow: u32,
    /// Bytes of the IP packet.
    pub bytes: u32,
    /// Payload bytes.
    pub payload: u32,
    /// Sequence number.
    pub seq: u32,
    /// Reason why it is missing.
    pub why: LostWhy,
}

/// Changes to the headers of one direction between the ends.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// Number of packets by the decrease of TTL or hop limit between upstream and downstream.
    pub hops: BTreeMap<i16, u64>,
    /// Packets whose DSCP differs.
    pub dscp_changed: u64,
    /// Packets whose ECN-capable codepoint was cleared.
    pub ecn_cleared: u64,
    /// Packets that were marked CE.
    pub ecn_marked: u64,
    /// Packets whose identification differs.
    pub identification_changed: u64,
    /// Packets whose timestamp differs.
    pub timestamp_changed: u64,
    /// Difference by which sequence numbers are larger downstream.
    pub sequence_shift: u32,
    /// Options of the SYN at the sender's end and at the other, if they differ.
    pub syn: Option<(Syn, Syn)>,
    /// Segments that an offload or a middlebox split or merged.
    pub cut_or_joined: u64,
}

/// A direction of a flow.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Direction {
    /// Packets that the upstream end saw while both captures ran.
    pub sent: u64,
    /// Packets of these that the downstream end saw.
    pub arrived: u64,
    /// Lost between the ends.
    pub lost: u64,
    /// Seen by the upstream end and the receiver, not by the downstream capture.
    pub not_captured: u64,
    /// Seen by the downstream end only: the upstream capture missed them, or they took another path.
    pub downstream_only: u64,
    /// Packets that came more often than they were sent.
    pub duplicated: u64,
    /// Packets that arrived after one that was sent later (RFC 4737).
    pub reordered: u64,
    /// Largest number of packets that overtook one.
    pub reordering_extent: u64,
    /// Matched to one of several equal packets, by order and delay.
    pub ambiguous: u64,
    /// TCP segments retransmitted after a copy had been lost between the ends.
    pub repeated_after_loss: u64,
    /// Segments retransmitted although a copy had arrived at the downstream end: lost beyond it, its ACK lost, or
    /// spurious.
    pub repeated_after_arrival: u64,
    /// Changes to the packets.
    pub changes: Changes,
}

/// A flow that both ends saw.
#[derive(Clone, Debug)]
pub struct FlowPair {
    /// Number of the IP protocol.
    pub protocol: u8,
    /// True for fragmented datagrams between two addresses.
    pub pieces: bool,
    /// Sender and receiver of the direction from near to far, as the near end saw it and as the far end did.
    pub near: (Endpoint, Endpoint),
    /// Endpoints at the far end.
    pub far: (Endpoint, Endpoint),
    /// Counts of the uplink.
    pub up: Direction,
    /// Counts of the downlink.
    pub down: Direction,
}

impl FlowPair {
    /// True if addresses or ports differ between the ends.
    pub fn addresses_changed(&self) -> bool {
        self.near != self.far
    }

    /// Counts of one direction.
    pub fn way(&self, way: Way) -> &Direction {
        match way {
            Way::Up => &self.up,
            Way::Down => &self.down,
        }
    }
}

/// Hash that multiplies and folds.
pub(super) fn mixed(words: &[u32]) -> u64 {
    words.iter().fold(0x243f_6a88_85a3_08d3, |h, w| {
        let product = u128::from(h ^ u64::from(*w)) * 0x9e37_79b9_7f4a_7c15_u128;
        (product >> 64) as u64 ^ product as u64
    })
}

/// Fields that are compared; a middlebox may rewrite the others.
#[derive(Clone, Copy, Debug)]
struct Fields {
    id: bool,
    timestamp: bool,
    hash: bool,
}

const TCP_FIELDS: [Fields; 4] = [
    fields(true, true, true),
    fields(false, true, true),
    fields(false, false, true),
    fields(false, false, false),
];
const OTHER_FIELDS: [Fields; 3] = [
    fields(true, true, true),
    fields(false, true, true),
    fields(true, true, false),
];

const fn fields(id: bool, timestamp: bool, hash: bool) -> Fields {
    Fields {
        id,
        timestamp,
        hash,
    }
}

/// TCP flags that are compared. Congestion control and offloads may change the others without making another packet.
const KEPT_FLAGS: u8 = flag::SYN | flag::FIN | flag::RST | flag::ACK;

fn key(p: &Packet, f: Fields, (seq, ack): (u32, u32)) -> u64 {
    let pick = |used: bool, v: u32| if used { v } else { 0 };
    let syn = p.flags & flag::SYN != 0;
    mixed(&[
        p.seq.wrapping_sub(seq),
        if p.ack == 0 {
            0
        } else {
            p.ack.wrapping_sub(ack)
        },
        p.payload,
        u32::from(p.flags & KEPT_FLAGS),
        pick(f.timestamp && !syn, p.timestamp),
        pick(f.id, p.id),
        pick(f.hash, p.hash),
    ])
}

/// A direction of a flow, matched but not yet judged. Indices are those of the captures' packets.
#[derive(Default)]
pub(super) struct Raw {
    /// Indexes of the same packet at both ends.
    pub pairs: Vec<(u32, u32)>,
    /// Indexes of packets that only the near capture has.
    pub near_only: Vec<u32>,
    /// Indexes of packets that only the far capture has.
    pub far_only: Vec<u32>,
    /// Further copies of a packet that has its twin.
    pub near_more: Vec<u32>,
    /// Further copies of packets in the far capture.
    pub far_more: Vec<u32>,
    /// Packets told apart by order and delay.
    pub ambiguous: u64,
    /// Offsets of the sequence numbers between the ends.
    pub shift: (u32, u32),
}

impl Raw {
    /// Median packet's far clock minus near clock.
    fn middle(&self, near: &Capture, far: &Capture) -> Option<i64> {
        let mut all: Vec<i64> = self
            .pairs
            .iter()
            .map(|(n, f)| far.packets[*f as usize].t_ns - near.packets[*n as usize].t_ns)
            .collect();
        if all.is_empty() {
            return None;
        }
        let middle = all.len() / 2;
        Some(*all.select_nth_unstable(middle).1)
    }
}

/// Matches the packets of two captures.
pub fn match_ends(near: &Capture, far: &Capture) -> Matched {
    let mut both = flows::pair(near, far);
    let mut raws: Vec<[Raw; 2]> = both
        .iter()
        .map(|b| {
            let (n, f) = (&near.flows[b.near], &far.flows[b.far]);
            [0, 1].map(|way| one_by_one(near, far, n, f, way, way ^ usize::from(b.turned)))
        })
        .collect();
    let agree = on_one_clock(near, far, &both, &raws);
    let mut at = agree.iter();
    both.retain(|_| *at.next().unwrap_or(&true));
    let mut at = agree.iter();
    raws.retain(|_| *at.next().unwrap_or(&true));
    let ways = ways(near, far, &raws);
    let judges: Vec<[Judge<'_>; 2]> = both
        .iter()
        .zip(&ways)
        .enumerate()
        .map(|(i, (b, ways))| {
            let (n, f) = (&near.flows[b.near], &far.flows[b.far]);
            [0, 1].map(|w| {
                Judge::new(
                    near,
                    far,
                    i as u32,
                    ways[w],
                    (n, w),
                    (f, w ^ usize::from(b.turned)),
                )
            })
        })
        .collect();
    let seen: Vec<[Seen<'_>; 2]> = judges
        .iter()
        .zip(&raws)
        .map(|(j, r)| [j[0].seen(&r[0]), j[1].seen(&r[1])])
        .collect();
    let mut spans = [Span::NONE; 2];
    for (judge, seen) in judges.iter().flatten().zip(seen.iter().flatten()) {
        judge.widen(seen, &mut spans[usize::from(judge.way == Way::Down)]);
    }
    let mut out = Matched {
        near_only_flows: alone(near, both.iter().map(|b| b.near), &spans, Way::Up),
        far_only_flows: alone(far, both.iter().map(|b| b.far), &spans, Way::Down),
        near_copies: near.copies,
        far_copies: far.copies,
        ..Matched::default()
    };
    for (i, (b, seen)) in both.iter().zip(seen).enumerate() {
        let up = usize::from(ways[i][0] != Way::Up);
        let mut pair = flow_pair(&near.flows[b.near], &far.flows[b.far], up, b.turned);
        for (w, seen) in seen.into_iter().enumerate() {
            let judge = &judges[i][w];
            let span = spans[usize::from(judge.way == Way::Down)];
            if pair.pieces {
                judge.pieces(&seen, span, &mut out.fragments);
            }
            let direction = judge.direction(seen, &raws[i][1 - w], span, &mut out);
            match judge.way {
                Way::Up => pair.up = direction,
                Way::Down => pair.down = direction,
            }
        }
        out.flows.push(pair);
    }
    out.pairs.sort_by_key(|p| (p.near_ns, p.far_ns, p.flow));
    out.lost.sort_by_key(|l| (l.t_ns, l.flow, l.seq));
    out
}

/// Number of flows that one end saw alone: not among those `paired`, and a packet passed while the other end captured too.
/// The end sends in the direction `sends`.
fn alone(
    end: &Capture,
    paired: impl Iterator<Item = usize>,
    spans: &[Span; 2],
    sends: Way,
) -> usize {
    let paired: HashSet<usize> = paired.collect();
    let [up, down] = spans;
    let (sent, received) = match sends {
        Way::Up => (up, down),
        Way::Down => (down, up),
    };
    let seen_by_both = |i: &u32| {
        let t = end.packets[*i as usize].t_ns;
        sent.would_arrive(t) && received.was_sent(t)
    };
    let flows = end.flows.iter().enumerate();
    flows
        .filter(|(i, f)| !paired.contains(i) && f.packets.iter().flatten().any(seen_by_both))
        .count()
}

/// Addresses of a flow at both ends, that of the sender of `up` first.
fn flow_pair(near: &Flow, far: &Flow, up: usize, turned: bool) -> FlowPair {
    let ends = |flow: &Flow, from_low: bool| {
        if from_low {
            (flow.key.low, flow.key.high)
        } else {
            (flow.key.high, flow.key.low)
        }
    };
    FlowPair {
        protocol: (near.key.protocol & 0xff) as u8,
        pieces: near.key.protocol & PIECES != 0,
        near: ends(near, up == 0),
        far: ends(far, (up == 0) != turned),
        up: Direction::default(),
        down: Direction::default(),
    }
}

/// Packets of one direction with their twins.
fn one_by_one(
    near: &Capture,
    far: &Capture,
    n: &Flow,
    f: &Flow,
    near_way: usize,
    far_way: usize,
) -> Raw {
    let shift_of = |near_way: usize, far_way: usize| match (n.syn[near_way], f.syn[far_way]) {
        (Some(a), Some(b)) => b.seq.wrapping_sub(a.seq),
        _ => 0,
    };
    let shift = (
        shift_of(near_way, far_way),
        shift_of(1 - near_way, 1 - far_way),
    );
    let (ours, theirs) = (&n.packets[near_way], &f.packets[far_way]);
    let tcp = n.key.protocol == 6;
    let options: &[Fields] = if tcp { &TCP_FIELDS } else { &OTHER_FIELDS };
    // Any set of fields that finds nine tenths of the best set's matches is enough; the first is the strictest.
    let near_key = |i: u32, o| key(&near.packets[i as usize], o, (0, 0));
    let far_key = |i: u32, o| key(&far.packets[i as usize], o, shift);
    let found: Vec<usize> = (options.iter())
        .map(|o| in_common(ours, theirs, |i| near_key(i, *o), |i| far_key(i, *o)))
        .collect();
    let most = found.iter().copied().max().unwrap_or(0);
    let chosen = found.iter().position(|c| 10 * c >= 9 * most).unwrap_or(0);
    let o = options[chosen];
    let mut raw = Raw {
        shift,
        ..Raw::default()
    };
    let mut unsure = Vec::new();
    for (a, b) in groups(ours, theirs, |i| near_key(i, o), |i| far_key(i, o)) {
        if a.len() == b.len() {
            raw.pairs.extend(a.iter().copied().zip(b.iter().copied()));
        } else if b.is_empty() {
            raw.near_only.extend(a);
        } else if a.is_empty() {
            raw.far_only.extend(b);
        } else {
            unsure.push((a, b));
        }
    }
    settle(near, far, unsure, &mut raw);
    raw.pairs.sort_unstable();
    raw
}

/// Number of packets with the same key on both sides.
fn in_common(
    ours: &[u32],
    theirs: &[u32],
    near: impl Fn(u32) -> u64,
    far: impl Fn(u32) -> u64,
) -> usize {
    let mut counts: HashMap<u64, u32> = HashMap::new();
    for i in ours {
        *counts.entry(near(*i)).or_default() += 1;
    }
    let there = theirs.iter().filter(|i| {
        counts.get_mut(&far(**i)).is_some_and(|c| {
            let left = *c > 0;
            *c -= u32::from(left);
            left
        })
    });
    there.count()
}

/// Packets of both sides by key, in the order in which the keys appear first.
fn groups(
    ours: &[u32],
    theirs: &[u32],
    near: impl Fn(u32) -> u64,
    far: impl Fn(u32) -> u64,
) -> Vec<(Vec<u32>, Vec<u32>)> {
    let mut places: HashMap<u64, usize> = HashMap::new();
    let mut groups: Vec<(Vec<u32>, Vec<u32>)> = Vec::new();
    let mut place = |k: u64, groups: &mut Vec<_>| {
        *places.entry(k).or_insert_with(|| {
            groups.push(Default::default());
            groups.len() - 1
        })
    };
    for i in ours {
        let at = place(near(*i), &mut groups);
        groups[at].0.push(*i);
    }
    for i in theirs {
        let at = place(far(*i), &mut groups);
        groups[at].1.push(*i);
    }
    groups
}

/// Pairs packets whose keys both sides have in different numbers: in order, with the lag of their certain neighbours.
fn settle(near: &Capture, far: &Capture, unsure: Vec<(Vec<u32>, Vec<u32>)>, raw: &mut Raw) {
    let time = |n: u32, f: u32| (near.packets[n as usize].t_ns, far.packets[f as usize].t_ns);
    let mut lags: Vec<(i64, i64)> = raw
        .pairs
        .iter()
        .map(|(n, f)| {
            let (at_near, at_far) = time(*n, *f);
            (at_near, at_far - at_near)
        })
        .collect();
    lags.sort_unstable();
    for (a, b) in unsure {
        let (pairs, left) = in_order(&a, &b, |n, f| {
            let (at_near, at_far) = time(n, f);
            let at = lags
                .partition_point(|l| l.0 < at_near)
                .min(lags.len().saturating_sub(1));
            let lag = lags.get(at).map_or(at_far - at_near, |l| l.1);
            (at_far - at_near - lag).abs()
        });
        raw.ambiguous += pairs.len() as u64;
        raw.pairs.extend(pairs);
        if a.len() > b.len() {
            raw.near_more.extend(left);
        } else {
            raw.far_more.extend(left);
        }
    }
}

/// Pairs in order, each of the shorter list with the one of the longer that has the least error; and the unpaired rest.
fn in_order(a: &[u32], b: &[u32], error: impl Fn(u32, u32) -> i64) -> (Vec<(u32, u32)>, Vec<u32>) {
    let near_is_short = a.len() <= b.len();
    let (short, long) = if near_is_short { (a, b) } else { (b, a) };
    let mut pairs = Vec::with_capacity(short.len());
    let mut left = Vec::new();
    let mut from = 0;
    for (i, s) in short.iter().enumerate() {
        // Enough must remain for those that come after.
        let until = long.len() - (short.len() - i - 1);
        let of = |l: u32| {
            if near_is_short {
                error(*s, l)
            } else {
                error(l, *s)
            }
        };
        let best = (from..until)
            .min_by_key(|j| of(long[*j]))
            .expect("the longer list has one left");
        left.extend(&long[from..best]);
        pairs.push(if near_is_short {
            (*s, long[best])
        } else {
            (long[best], *s)
        });
        from = best + 1;
    }
    left.extend(&long[from..]);
    (pairs, left)
}

/// Maximum time in flight of a packet, ns.
const ON_THE_WAY_NS: i64 = 2_000_000_000;

/// False for each flow that was matched by contents and whose clocks differ by more than those of the reference flows.
/// Reference flows are those with the same addresses; if there are none, the flow with the most packets.
fn on_one_clock(
    near: &Capture,
    far: &Capture,
    both: &[flows::Both],
    raws: &[[Raw; 2]],
) -> Vec<bool> {
    let middles: Vec<Vec<i64>> = raws
        .iter()
        .map(|r| r.iter().filter_map(|r| r.middle(near, far)).collect())
        .collect();
    let certain = both.iter().zip(&middles).filter(|(b, _)| !b.translated);
    let mut known: Vec<i64> = certain.flat_map(|(_, m)| m.clone()).collect();
    if known.is_empty() {
        let pairs = |r: &[Raw; 2]| r.iter().map(|r| r.pairs.len()).sum::<usize>();
        let largest = (0..raws.len()).max_by_key(|i| (pairs(&raws[*i]), std::cmp::Reverse(*i)));
        known = largest.map_or(Vec::new(), |i| middles[i].clone());
    }
    let low = known.iter().min().copied().unwrap_or(i64::MIN / 2);
    let high = known.iter().max().copied().unwrap_or(i64::MAX / 2);
    let span = low.saturating_sub(ON_THE_WAY_NS)..=high.saturating_add(ON_THE_WAY_NS);
    both.iter()
        .zip(&middles)
        .map(|(b, m)| !b.translated || m.iter().all(|m| span.contains(m)))
        .collect()
}

/// Up or down for both directions of each flow.
fn ways(near: &Capture, far: &Capture, raws: &[[Raw; 2]]) -> Vec<[Way; 2]> {
    let middles: Vec<[Option<i64>; 2]> = raws
        .iter()
        .map(|r| [r[0].middle(near, far), r[1].middle(near, far)])
        .collect();
    // The clock offset lies between the largest downward value and the smallest upward one.
    let sides: Vec<(i64, i64)> = middles
        .iter()
        .filter_map(|m| m[0].zip(m[1]))
        .map(|(a, b)| (a.min(b), a.max(b)))
        .collect();
    let offset = sides
        .iter()
        .map(|s| s.0)
        .max()
        .zip(sides.iter().map(|s| s.1).min())
        .map(|(down, up)| down / 2 + up / 2);
    let fewer_hops = |raw: &Raw| {
        raw.pairs
            .first()
            .is_none_or(|(n, f)| far.packets[*f as usize].ttl <= near.packets[*n as usize].ttl)
    };
    middles
        .iter()
        .zip(raws)
        .map(|(m, raw)| {
            let first_is_up = match (m[0], m[1], offset) {
                (Some(a), Some(b), _) => a >= b,
                (Some(a), None, Some(o)) => a >= o,
                (None, Some(b), Some(o)) => b < o,
                (Some(_), None, None) => fewer_hops(&raw[0]),
                _ => !fewer_hops(&raw[1]),
            };
            if first_is_up {
                [Way::Up, Way::Down]
            } else {
                [Way::Down, Way::Up]
            }
        })
        .collect()
}

/// Time span in which packets of one direction were seen at both ends. Packets sent later were still in flight when a
/// capture ended, or the other one had ended.
#[derive(Clone, Copy)]
pub(super) struct Span {
    /// Time range of the upstream capture, ns.
    pub upstream: (i64, i64),
    /// Time range of the downstream capture, ns.
    pub downstream: (i64, i64),
    /// Least and greatest time between the captures, by their clocks, ns.
    lags: (i64, i64),
}

impl Span {
    const NONE: Span = Span {
        upstream: (i64::MAX, i64::MIN),
        downstream: (i64::MAX, i64::MIN),
        lags: (i64::MAX, i64::MIN),
    };

    /// Widens both ranges.
    pub fn widen(&mut self, up: i64, down: i64) {
        self.upstream = (self.upstream.0.min(up), self.upstream.1.max(up));
        self.downstream = (self.downstream.0.min(down), self.downstream.1.max(down));
        let lag = down.saturating_sub(up);
        self.lags = (self.lags.0.min(lag), self.lags.1.max(lag));
    }

    /// True if a packet that did not arrive would have been captured otherwise: one of its flow that was sent earlier arrived,
    /// and one that was sent later, `between` whose numbers its own lies, unless the flow was reordered; or it would have come within
    /// the downstream capture with any wait that was seen. Queues of several flows have waits of their own.
    pub fn decides(&self, number: u32, sent_ns: i64, between: Option<(u32, u32)>) -> bool {
        let (first, last) = between.unwrap_or((u32::MAX, 0));
        let began = number > first || sent_ns.saturating_add(self.lags.0) >= self.downstream.0;
        let ended = number < last || sent_ns.saturating_add(self.lags.1) <= self.downstream.1;
        self.lags.0 <= self.lags.1 && began && ended
    }

    /// True if a packet sent at this time would have come within the downstream capture with any wait that was seen, or if no
    /// wait is known.
    fn would_arrive(&self, sent_ns: i64) -> bool {
        let (from, to) = self.downstream;
        self.lags.0 > self.lags.1
            || sent_ns.saturating_add(self.lags.0) >= from
                && sent_ns.saturating_add(self.lags.1) <= to
    }

    /// True if a packet that arrived at this time was sent within the upstream capture with any wait that was seen, or if no
    /// wait is known.
    fn was_sent(&self, arrived_ns: i64) -> bool {
        let (from, to) = self.upstream;
        self.lags.0 > self.lags.1
            || arrived_ns.saturating_sub(self.lags.1) >= from
                && arrived_ns.saturating_sub(self.lags.0) <= to
    }
}
