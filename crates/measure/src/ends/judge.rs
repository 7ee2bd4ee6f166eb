//! Judges the differences between the ends of one direction.

use super::bytes::{Line, cover};
use super::capture::{Capture, Flow, Packet, Syn};
use super::pairing::{Changes, Direction, Lost, LostWhy, Pair, Raw, Span, Way};
use super::{Fragments, Matched, fragments};
use crate::capture::frame::flag;
use std::collections::{BTreeMap, HashMap};

/// A direction of a flow, and access to its packets.
pub(super) struct Judge<'a> {
    near: &'a Capture,
    far: &'a Capture,
    flow: u32,
    /// Direction of the packets.
    pub way: Way,
    tcp: bool,
    /// SYN at the upstream end and at the downstream end.
    syn: (Option<Syn>, Option<Syn>),
    /// All packets of the direction, in the order of time.
    up_list: &'a [u32],
    down_list: &'a [u32],
}

/// Matched packets, upstream and downstream.
pub(super) struct Seen<'a> {
    pairs: Vec<(u32, u32)>,
    up_only: Vec<u32>,
    down_only: Vec<u32>,
    copies: u64,
    ambiguous: u64,
    cut_or_joined: u64,
    /// Difference by which sequence numbers are larger downstream.
    shift: u32,
    up_list: &'a [u32],
    down_list: &'a [u32],
}

impl<'a> Judge<'a> {
    /// Creates a judge of one direction of a flow.
    pub fn new(
        near: &'a Capture,
        far: &'a Capture,
        flow: u32,
        way: Way,
        (n, near_way): (&'a Flow, usize),
        (f, far_way): (&'a Flow, usize),
    ) -> Judge<'a> {
        let (here, there) = (&n.packets[near_way][..], &f.packets[far_way][..]);
        let (syn_here, syn_there) = (n.syn[near_way], f.syn[far_way]);
        let up = way == Way::Up;
        Judge {
            near,
            far,
            flow,
            way,
            tcp: n.key.protocol == 6,
            syn: if up {
                (syn_here, syn_there)
            } else {
                (syn_there, syn_here)
            },
            up_list: if up { here } else { there },
            down_list: if up { there } else { here },
        }
    }

    fn up(&self, i: u32) -> &'a Packet {
        let capture = match self.way {
            Way::Up => self.near,
            Way::Down => self.far,
        };
        &capture.packets[i as usize]
    }

    fn down(&self, i: u32) -> &'a Packet {
        let capture = match self.way {
            Way::Up => self.far,
            Way::Down => self.near,
        };
        &capture.packets[i as usize]
    }

    /// Converts near and far into upstream and downstream; split or merged segments are matched with their pieces.
    pub fn seen(&self, raw: &Raw) -> Seen<'a> {
        let join = |a: &[u32], b: &[u32]| {
            let mut all = [a, b].concat();
            all.sort_unstable();
            all
        };
        let up = self.way == Way::Up;
        let mut seen = Seen {
            pairs: if up {
                raw.pairs.clone()
            } else {
                let mut turned: Vec<(u32, u32)> = raw.pairs.iter().map(|(n, f)| (*f, *n)).collect();
                turned.sort_unstable();
                turned
            },
            up_only: if up {
                join(&raw.near_only, &raw.near_more)
            } else {
                join(&raw.far_only, &raw.far_more)
            },
            down_only: if up {
                raw.far_only.clone()
            } else {
                raw.near_only.clone()
            },
            copies: if up {
                raw.far_more.len()
            } else {
                raw.near_more.len()
            } as u64,
            ambiguous: raw.ambiguous,
            cut_or_joined: 0,
            shift: if up {
                raw.shift.0
            } else {
                raw.shift.0.wrapping_neg()
            },
            up_list: self.up_list,
            down_list: self.down_list,
        };
        if self.tcp {
            self.pieces_of_segments(&mut seen);
        }
        seen
    }

    /// Extends the time span in which both ends saw packets by this direction's packets.
    pub fn widen(&self, seen: &Seen<'_>, span: &mut Span) {
        for (u, v) in &seen.pairs {
            span.widen(self.up(*u).t_ns, self.down(*v).t_ns);
        }
    }

    fn pair(&self, up: &Packet, down: &Packet) -> Pair {
        let (near_ns, far_ns) = match self.way {
            Way::Up => (up.t_ns, down.t_ns),
            Way::Down => (down.t_ns, up.t_ns),
        };
        Pair {
            near_ns,
            far_ns,
            way: self.way,
            flow: self.flow,
            bytes: up.ip_len,
        }
    }

    /// Counts of the direction.
    pub fn direction(
        &self,
        mut t: Seen<'_>,
        other: &Raw,
        span: Span,
        out: &mut Matched,
    ) -> Direction {
        let mut d = Direction {
            duplicated: t.copies,
            ambiguous: t.ambiguous,
            ..Direction::default()
        };
        d.changes.sequence_shift = t.shift;
        d.changes.cut_or_joined = t.cut_or_joined;
        if let (Some(a), Some(b)) = self.syn
            && !(a.cut || b.cut)
            && (a.mss, a.window_scale, a.sack_permitted, a.timestamps)
                != (b.mss, b.window_scale, b.sack_permitted, b.timestamps)
        {
            d.changes.syn = Some((a, b));
        }
        for (u, v) in &t.pairs {
            let (u, v) = (self.up(*u), self.down(*v));
            d.changes.note(u, v);
            out.pairs.push(self.pair(u, v));
        }
        d.arrived = t.pairs.len() as u64;
        reordering(&t.pairs, &mut d);
        let (up_before, down_before) = (t.up_only.len(), t.down_only.len());
        let ends = t.pairs.first().zip(t.pairs.last());
        let between = ends.filter(|_| d.reordered == 0).map(|(a, b)| (a.0, b.0));
        t.up_only
            .retain(|i| span.decides(*i, self.up(*i).t_ns, between));
        t.down_only
            .retain(|i| within(span.downstream, self.down(*i)));
        d.downstream_only = t.down_only.len() as u64;
        out.outside += (up_before - t.up_only.len() + down_before - t.down_only.len()) as u64;
        d.sent = d.arrived + t.up_only.len() as u64;
        let known = self.tcp.then(|| self.known(&t, other));
        for i in &t.up_only {
            let p = self.up(*i);
            let why = match &known {
                Some(known) if known.not_captured(*i, p) => LostWhy::NotCaptured,
                _ => LostWhy::Here,
            };
            match why {
                LostWhy::Here => d.lost += 1,
                LostWhy::NotCaptured => d.not_captured += 1,
            }
            out.lost.push(Lost {
                t_ns: p.t_ns,
                frame: p.frame,
                way: self.way,
                flow: self.flow,
                bytes: p.ip_len,
                payload: p.payload,
                seq: p.seq,
                why,
            });
        }
        if let Some(known) = &known {
            self.repeated(&t, known, span, &mut d);
        }
        d
    }

    /// Unwrapped sequence numbers of all segments: upstream numbers, and downstream ones minus the shift.
    fn places(&self, t: &Seen<'_>, shift: u32) -> (HashMap<u32, i64>, HashMap<u32, i64>) {
        let first = t
            .up_list
            .first()
            .map(|i| self.up(*i).seq)
            .or(t
                .down_list
                .first()
                .map(|i| self.down(*i).seq.wrapping_sub(shift)))
            .unwrap_or(0);
        let (mut a, mut b) = (Line::new(first), Line::new(first));
        let up = t.up_list.iter().map(|i| (*i, a.place(self.up(*i).seq)));
        let up = up.collect();
        let down = t
            .down_list
            .iter()
            .map(|i| (*i, b.place(self.down(*i).seq.wrapping_sub(shift))));
        (up, down.collect())
    }

    /// Pairs segments that an offload split or merged: the first piece stands for the whole.
    fn pieces_of_segments(&self, t: &mut Seen<'_>) {
        let with_data = |p: &Packet| p.space() > 0;
        if !t.up_only.iter().any(|i| with_data(self.up(*i)))
            || !t.down_only.iter().any(|i| with_data(self.down(*i)))
        {
            return;
        }
        let (up, down) = self.places(t, t.shift);
        let sent: Vec<(usize, i64, &Packet)> = t
            .up_only
            .iter()
            .map(|i| (*i as usize, up[i], self.up(*i)))
            .filter(|s| with_data(s.2))
            .collect();
        let got: Vec<(usize, i64, &Packet)> = t
            .down_only
            .iter()
            .map(|i| (*i as usize, down[i], self.down(*i)))
            .filter(|s| with_data(s.2))
            .collect();
        let mut lags: Vec<i64> = t
            .pairs
            .iter()
            .map(|(u, v)| self.down(*v).t_ns - self.up(*u).t_ns)
            .collect();
        let middle = lags.len() / 2;
        let lag = if lags.is_empty() {
            got[0].2.t_ns - sent[0].2.t_ns
        } else {
            *lags.select_nth_unstable(middle).1
        };
        let covered = cover(&sent, &got, lag);
        let mut whole: Vec<u32> = Vec::new();
        for (u, v, all) in covered.arrived {
            t.cut_or_joined += 1;
            // A segment with a missing piece counts as lost: it will be retransmitted.
            if all {
                t.pairs.push((u as u32, v as u32));
                whole.push(u as u32);
            }
        }
        whole.sort_unstable();
        t.up_only.retain(|i| whole.binary_search(i).is_err());
        let mut explained: Vec<u32> = covered.explained.iter().map(|i| *i as u32).collect();
        explained.sort_unstable();
        t.down_only.retain(|i| explained.binary_search(i).is_err());
        t.pairs.sort_unstable();
    }

    fn known(&self, t: &Seen<'_>, other: &Raw) -> Known {
        let (places, down) = self.places(t, t.shift);
        let arrived: Vec<u32> = t.pairs.iter().map(|p| p.0).collect();
        let mut ranges: Vec<(i64, i64)> = t
            .down_list
            .iter()
            .map(|i| (down[i], down[i] + i64::from(self.down(*i).space())))
            .filter(|r| r.1 > r.0)
            .collect();
        ranges.sort_unstable();
        let mut merged: Vec<(i64, i64)> = Vec::new();
        for (from, to) in ranges {
            match merged.last_mut() {
                Some(last) if from <= last.1 => last.1 = last.1.max(to),
                _ => merged.push((from, to)),
            }
        }
        // Acknowledgements come from the other direction; the upstream end's copies are in upstream numbers.
        let first = t.up_list.first().map_or(0, |i| self.up(*i).seq);
        let mut line = Line::new(first);
        let mut acked = i64::MIN;
        let mut all: Vec<u32> = match self.way {
            Way::Up => other.pairs.iter().map(|p| p.0).collect(),
            Way::Down => other.pairs.iter().map(|p| p.1).collect(),
        };
        all.extend(match self.way {
            Way::Up => &other.near_only,
            Way::Down => &other.far_only,
        });
        all.sort_unstable();
        for i in all {
            let p = self.up(i);
            if p.flags & flag::ACK != 0 && p.flags & flag::RST == 0 {
                acked = acked.max(line.place(p.ack));
            }
        }
        Known {
            places,
            merged,
            acked,
            arrived,
        }
    }

    fn repeated(&self, t: &Seen<'_>, known: &Known, span: Span, d: &mut Direction) {
        const LONGEST: i64 = 1 << 20;
        let mut before: BTreeMap<i64, Vec<(i64, bool)>> = BTreeMap::new();
        let mut top = i64::MIN;
        for i in t.up_list {
            let p = self.up(*i);
            if p.space() == 0 || !within(span.upstream, p) {
                continue;
            }
            let (from, to) = (known.places[i], known.places[i] + i64::from(p.space()));
            if from < top {
                let copies = before
                    .range(from - LONGEST..=from)
                    .flat_map(|(_, list)| list)
                    .filter(|(end, _)| *end > from);
                let (mut any, mut arrived) = (false, false);
                for (_, came) in copies {
                    any = true;
                    arrived |= *came;
                }
                d.repeated_after_arrival += u64::from(any && arrived);
                d.repeated_after_loss += u64::from(any && !arrived);
            }
            top = top.max(to);
            let came = known.arrived.binary_search(i).is_ok();
            before.entry(from).or_default().push((to, came));
        }
    }

    /// Counts the fragments of both directions.
    pub fn pieces(&self, t: &Seen<'_>, span: Span, out: &mut [Fragments; 2]) {
        let arrived: Vec<u32> = t.pairs.iter().map(|p| p.0).collect();
        let pieces = t
            .up_list
            .iter()
            .map(|i| (self.up(*i), arrived.binary_search(i).is_ok()))
            .filter(|(p, _)| within(span.upstream, p));
        fragments::count(pieces, &mut out[usize::from(self.way == Way::Down)]);
    }
}

fn within((from, to): (i64, i64), p: &Packet) -> bool {
    (from..=to).contains(&p.t_ns)
}

/// Known facts about the bytes of a TCP direction.
struct Known {
    places: HashMap<u32, i64>,
    /// Bytes of which some copy was seen downstream.
    merged: Vec<(i64, i64)>,
    /// Sequence number below which the receiver has acknowledged everything.
    acked: i64,
    /// Upstream packets that arrived.
    arrived: Vec<u32>,
}

impl Known {
    fn not_captured(&self, i: u32, p: &Packet) -> bool {
        if p.space() == 0 {
            return false;
        }
        let from = self.places[&i];
        let to = from + i64::from(p.space());
        if self.acked < to {
            return false;
        }
        let at = self.merged.partition_point(|r| r.1 <= from);
        // Not all of its bytes passed in another copy.
        self.merged.get(at).is_none_or(|r| r.0 > from || r.1 < to)
    }
}

impl Changes {
    fn note(&mut self, up: &Packet, down: &Packet) {
        *self
            .hops
            .entry(i16::from(up.ttl) - i16::from(down.ttl))
            .or_default() += 1;
        let (a, b) = (up.traffic_class, down.traffic_class);
        self.dscp_changed += u64::from(a >> 2 != b >> 2);
        match (a & 3, b & 3) {
            (1 | 2, 3) => self.ecn_marked += 1,
            (1..=3, 0) => self.ecn_cleared += 1,
            _ => {}
        }
        self.identification_changed += u64::from(up.id != down.id);
        self.timestamp_changed += u64::from(
            // 0 if it was not captured.
            up.timestamp != down.timestamp && up.timestamp != 0 && down.timestamp != 0,
        );
    }
}

/// Reordering. RFC 4737 section 3.3: a packet is reordered if one that was sent later arrives before it.
fn reordering(pairs: &[(u32, u32)], d: &mut Direction) {
    // Pairs are in the order of sending.
    let mut by_arrival: Vec<(u32, usize)> =
        pairs.iter().enumerate().map(|(i, p)| (p.1, i)).collect();
    by_arrival.sort_unstable();
    let mut newest = 0;
    for (_, position) in by_arrival {
        if position < newest {
            d.reordered += 1;
            d.reordering_extent = d.reordering_extent.max((newest - position) as u64);
        }
        newest = newest.max(position);
    }
}
