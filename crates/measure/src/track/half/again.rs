//! Packets that start below the highest byte sent: retransmissions, copies of acknowledged data, reordered packets.

use super::*;

impl Side {
    /// Handles a packet that starts below the highest byte sent; returns how much of its payload is new.
    #[inline(never)]
    pub(super) fn again(&mut self, p: &Packet, span: Range<u64>, near: bool, sack: bool) -> u64 {
        let (t, start, end) = (p.t, span.start, span.end);
        let data_start = start + u64::from(p.has(flag::SYN));
        let data_end = data_start + u64::from(p.payload);
        let s = &mut self.state;
        if start < s.base {
            // The hole is from before the capture started.
            s.segments.add_hole(Hole {
                start,
                end: s.base,
                t,
                id: p.id,
                tsval: None,
            });
            s.base = start;
        }
        let old_next = s.next;
        let burst = self.half.detail.as_ref().map_or(0, |d| d.bursts.number());
        let sent = (t, p.frame);
        // Data recorded there was sent before; data that fills a hole comes in addition.
        let before = s.segments.resent(start, end.min(old_next), sent);
        let (mut fresh, mut fresh_data) = (0, 0);
        let mut hole = None;
        if s.segments.has_holes() {
            let mut filled = Vec::new();
            hole = s
                .segments
                .fill(start, end, |from, to| filled.push((from, to)));
            for (from, to) in filled {
                fresh += to - from;
                fresh_data += to.min(data_end).saturating_sub(from.max(data_start));
                s.segments.insert(Segment::new(from, to, sent, burst));
            }
        }
        let reordered = fresh > 0 && end <= old_next;
        let beyond = end.saturating_sub(old_next);
        fresh += beyond;
        fresh_data += data_end.saturating_sub(old_next.max(data_start));
        let counts = &mut self.half.counts;
        let old = end - start - fresh;
        let control = p.has(flag::SYN | flag::FIN);
        let keep_alive = !control && end - start <= 1 && start + 1 == old_next && s.una == s.next;
        if old > 0 {
            counts.retransmitted_packets += 1;
            counts.retransmitted_bytes += old;
        }
        if start < s.una {
            // A copy of acknowledged data: it may have triggered the next ACK.
            s.last_acked_t = s.last_acked_t.max(t);
        }
        if reordered {
            let e = self.half.events.get_or_insert_default();
            e.out_of_order += 1;
            let origin = hole.map_or(Reordering::Unknown, |h| origin(&h, p));
            match origin {
                Reordering::Repair => e.upstream_repairs += 1,
                Reordering::Reordered => e.reordered += 1,
                Reordering::Unknown => {}
            }
            e.mark(p, MarkKind::OutOfOrder(origin));
        }
        let s = &mut self.state;
        if end > old_next {
            s.segments.push(Segment::new(old_next, end, sent, burst));
            s.next = end;
        }
        if keep_alive {
            if old > 0 {
                let e = self.half.events_mut();
                e.keep_alives += 1;
                e.mark(p, MarkKind::KeepAlive);
            }
        } else if old > 0 {
            let sack = sack && (self.half.sack_permitted || self.half.isn.is_none());
            self.retransmitted(p, start..end, old, before, near, sack);
        }
        fresh_data
    }

    fn retransmitted(
        &mut self,
        p: &Packet,
        Range { start, end }: Range<u64>,
        bytes: u64,
        before: Option<Segment>,
        near: bool,
        sack: bool,
    ) {
        let t = p.t;
        let cause = self.cause(t, start..end, before, near, sack);
        self.chain((t, p.frame), start, before.map(|s| (s.t, s.frame)), cause);
        let s = &mut self.state;
        let needless = end <= s.una;
        let (una, next) = (s.una, s.next);
        let repair = s.repair_mut();
        if repair.run == 0 || una >= repair.run_end {
            repair.run = repair.run.saturating_add(1);
            repair.run_end = next;
        }
        let once = before.is_some_and(|b| b.again == 0);
        let (missed, run) = (once && repair.sack_top > end, repair.run);
        let one = Retransmission {
            t_ns: t,
            frame: p.frame,
            before_ns: before.map(|s| s.t),
            before_frame: before.map_or(0, |s| s.frame),
            position: start - self.state.base,
            bytes,
            cause,
            needless,
            reported: 0,
            arrived: if needless { bytes } else { 0 },
            missed,
            echoed: false,
            run,
            unanswered: false,
            acked_ns: None,
            burst: before.filter(|s| s.again == 0).and_then(|s| self.burst(&s)),
        };
        let e = self.half.events_mut();
        e.by_cause[cause as usize] += 1;
        e.needless += u64::from(needless);
        if e.retransmissions.len() < KEPT {
            e.retransmissions.push(one);
        }
    }

    fn burst(&self, s: &Segment) -> Option<BurstKind> {
        if s.joined == Joined::Inner {
            return Some(BurstKind::Offload);
        }
        let d = self.half.detail.as_ref()?;
        d.bursts.of(s.burst, s.start, u64::from(self.state.mss))
    }
}

/// Cause of a packet that fills a hole: sent after the data above it (retransmission) or before it (reordered).
fn origin(hole: &Hole, p: &Packet) -> Reordering {
    if let (Some(above), Some((this, _))) = (hole.tsval, p.timestamps()) {
        let ahead = this.wrapping_sub(above) as i32;
        if ahead > 0 {
            return Reordering::Repair;
        }
        if ahead < 0 {
            return Reordering::Reordered;
        }
    }
    // Hosts that count their packets show the order in the identification (RFC 6864 allows it, and does not require
    // it).
    if hole.id != 0 && p.id != 0 {
        let ahead = (p.id as u16).wrapping_sub(hole.id as u16) as i16;
        if (1..=4096).contains(&ahead) {
            return Reordering::Repair;
        }
        if (-4096..0).contains(&ahead) {
            return Reordering::Reordered;
        }
    }
    Reordering::Unknown
}
