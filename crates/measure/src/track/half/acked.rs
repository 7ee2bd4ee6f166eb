//! Acknowledgements: the effect of an ACK on the data of the other direction.

use super::*;

/// Longest tick of a clock of timestamps, ns: packets of one tick are not told apart.
const COARSE_TICK_NS: i64 = 10_000_000;
/// Longest time for which an ACK is held back, ns (RFC 9293 section 3.8.6.3).
const ACK_DELAY_NS: i64 = 500_000_000;

impl Side {
    /// Handles the acknowledgements in `from`'s packet for the data of this direction.
    #[inline(always)]
    pub fn acknowledged(
        &mut self,
        p: &Packet,
        options: &Options,
        from: &mut Side,
        told: &mut impl FnMut(Act),
    ) {
        if self.is_repeated_with_data(p, options, from) {
            self.state.ack_t = p.t;
            from.state.previous_window = p.window;
            self.tell(p.t, from, told);
            return;
        }
        let t = p.t;
        let (before, spoken) = (from.state.said, from.state.spoken);
        if !spoken || p.ack.wrapping_sub(before) as i32 > 0 {
            (from.state.said, from.state.spoken) = (p.ack, true);
        }
        let s = &mut self.state;
        if !s.started {
            return;
        }
        s.ack_t = t;
        if let Some(repair) = &s.repair
            && (repair.probed > 0 || repair.other_isn.is_some())
        {
            self.settled(p);
        }
        let s = &mut self.state;
        let ack = extend(s.una, p.ack);
        let pure = p.occupied == 0;
        count(&mut from.half.counts.pure_acks, u64::from(pure));
        let mut by_stamp = None;
        if let (Some(d), Some((value, echo))) = (&mut self.half.detail, p.timestamps()) {
            d.answered(t, value, || from.half.clock());
            by_stamp = d.echoed(t, echo);
        }
        let old = self.is_of_older(p);
        let mut by_sack = None;
        if !options.sack().is_empty() {
            from.half.events_mut().sack_acks += 1;
            let before = self.state.segments.sacked_bytes();
            by_sack = self.sacked(t, ack, options, from);
            by_sack = by_sack.filter(|_| !old);
            let reported = self.state.segments.sacked_bytes().saturating_sub(before);
            if let Some(d) = self.half.detail.as_mut().filter(|_| ack <= self.state.una) {
                d.bursts.acknowledged(t, reported);
            }
        }
        let s = &mut self.state;
        if ack > s.next {
            let e = from.half.events_mut();
            e.acks_of_unseen += 1;
            e.mark(p, MarkKind::AckOfUnseen);
            return;
        }
        let samples = self.half.rtt.count;
        if ack <= s.una {
            if ack == s.una && pure && s.repair.is_some() && !options.cut {
                self.was_doubtful(from);
            }
            let s = &self.state;
            if ack == s.una && pure && s.next > s.una {
                self.duplicate(p, spoken && before == p.ack, from);
            }
            from.state.previous_window = p.window;
            // Such an ACK gives no RTT by timestamps.
            by_stamp = None;
        } else {
            from.state.previous_window = p.window;
            s.duplicates = 0;
            s.ack_of_data |= ack > s.base + u64::from(self.half.isn.is_some());
            let newly = ack - s.una;
            s.una = ack;
            // Data that the capture does not hold may have been acknowledged before.
            let waited = match spoken {
                true => newly.min((p.ack.wrapping_sub(before) as i32).max(0) as u64),
                false => newly,
            };
            let segments = s.segments_in(waited, self.half.counts.largest);
            let counts = pure && by_sack.is_none();
            if let Some(d) = &mut self.half.detail {
                d.confirm(t, by_sack.is_none());
                if counts {
                    d.habit.count(segments);
                }
            }
            let repairing = s.recovery != Recovery::None;
            if s.repair.is_some() {
                self.repaired(t, ack);
            }
            let left = self.half.detail.as_ref().and_then(|d| d.echoed_left());
            let echoes = left
                .filter(|_| p.timestamps().is_some())
                .or_else(|| self.half.began(p));
            self.take_acked(t, ack, (newly, waited), (pure, old, echoes), told);
            if self.state.repair.is_some() {
                self.state.took(by_stamp);
            }
            // A filled gap is acknowledged at once (RFC 5681 section 4.2).
            by_stamp = by_stamp.filter(|_| repairing && newly > u64::from(self.state.mss));
            self.state.advance_t = t;
            if let Some(d) = &mut self.half.detail {
                d.acknowledged(t, newly, self.state.last_acked_t, self.state.srtt);
                let next = self.state.segments.front();
                let behind = next.map(|n| n.t.saturating_sub(self.state.last_acked_t));
                if counts && behind.is_some_and(|ns| ns <= TOGETHER_NS) {
                    d.habit.followed(segments);
                }
            }
        }
        if let Some(rtt) = by_sack.or(by_stamp)
            && self.half.rtt.count == samples
            && let Some(d) = &mut self.half.detail
        {
            d.prompt(t, rtt);
        }
        self.account(p, from);
        self.tell(t, from, told);
    }

    /// Counts an ACK that acknowledges nothing new while data is in flight.
    fn duplicate(&mut self, p: &Packet, repeated: bool, from: &mut Side) {
        if let Some(d) = &mut self.half.detail {
            d.not_prompt();
        }
        self.state.duplicates += 1;
        if repeated && from.state.previous_window == p.window {
            let e = from.half.events_mut();
            e.duplicate_acks += 1;
            if self.state.duplicates == 3 {
                e.triple_duplicate_acks += 1;
                e.mark(p, MarkKind::TripleDuplicate);
            }
        }
    }

    /// Handles an ACK of nothing new, without SACK. A repair is acknowledged at once (RFC 5681 section 4.2). So, where one ACK
    /// was for two, only the first was needed, or an ACK was lost; the second of the first kind is answered by a duplicate.
    #[cold]
    fn was_doubtful(&mut self, from: &Side) {
        if from.half.events().sack_acks > 0 {
            return;
        }
        let base = self.state.base;
        if let Some(range) = self.state.repair_mut().doubtful.pop_front()
            && let Some(e) = &mut self.half.events
        {
            e.had_already(
                range.start.saturating_sub(base),
                range.end.saturating_sub(base),
            );
        }
    }

    /// True for an ACK of a packet from before the capture: it acknowledges what was sent again since then.
    #[inline]
    fn is_of_older(&mut self, p: &Packet) -> bool {
        if self.state.echoed {
            return false;
        }
        let (Some((_, echo)), Some(first)) = (p.timestamps(), self.half.first_stamp) else {
            return false;
        };
        let older = echo != 0 && (echo.wrapping_sub(first) as i32) < 0;
        self.state.echoed = echo != 0 && !older;
        older
    }

    /// Accounts for what limits the sender after an ACK.
    fn account(&mut self, p: &Packet, from: &Side) {
        let away = self.half.away(from);
        let near = self.state.is_near(away, self.least_round_trip());
        let (t, s) = (p.t, &mut self.state);
        if let Some(d) = &mut self.half.detail {
            let window = from.offer();
            if let Some((value, _)) = p.timestamps() {
                d.afar.goes(t, value);
            }
            if !near {
                d.afar.set_out(UnderWay {
                    t,
                    una: s.una,
                    window,
                    stamp: p.timestamps().map(|x| x.0),
                });
            } else {
                // The receiver may be beside the capture, and answer late: then more is on its way from the sender.
                let more = away.is_none() && s.prompt_ns < FAR_NS && s.full;
                let outstanding = s.next - s.una;
                if more && outstanding == 0 {
                    d.afar.blinded();
                }
                let moment = Moment {
                    outstanding: outstanding.max(u64::from(more)),
                    window,
                    mss: u64::from(s.mss),
                    more: s.full,
                    repairing: s.recovery != Recovery::None,
                    before: None,
                    over: s.fin > 0 && s.una >= s.fin,
                };
                d.limits.at(t, moment);
            }
        }
    }

    /// True for data with the ACK of the packet before it, to an end that has sent little or nothing: most packets of a
    /// bulk transfer. Such an ACK carries no news.
    #[inline(always)]
    fn is_repeated_with_data(&self, p: &Packet, options: &Options, from: &Side) -> bool {
        let s = &self.state;
        p.occupied > 0
            && p.ack == s.una as u32
            && p.ack == from.state.said
            && from.state.spoken
            && s.started
            && s.repair.is_none()
            && self.half.detail.is_none()
            && options.sack().is_empty()
    }

    #[inline(always)]
    fn tell(&self, t: i64, from: &Side, told: &mut impl FnMut(Act)) {
        let s = &self.state;
        told(Act::Acknowledged {
            t,
            position: s.una.saturating_sub(s.base),
            base: s.base as u32,
            window: from.window(),
        });
    }

    /// Resolves questions that were open until an ACK: which of two SYN-ACKs counts, and if a byte into a closed window
    /// was accepted.
    #[inline(never)]
    fn settled(&mut self, p: &Packet) {
        let s = &self.state;
        if let Some(isn) = s.repair().other_isn
            && s.una == s.base
            && p.ack == isn.wrapping_add(1)
        {
            self.rebase(isn);
        }
        let s = &mut self.state;
        let ack = extend(s.una, p.ack);
        if ack > s.next && ack <= s.repair().probed {
            self.half.counts.unique_bytes += ack - s.next;
            s.next = ack;
        }
    }

    /// Handles an ACK of something new, after a loss.
    #[inline(never)]
    fn repaired(&mut self, t: i64, ack: u64) {
        let s = &mut self.state;
        if let Some(repair) = &mut s.repair {
            repair.doubtful.clear();
        }
        if ack >= s.repair().recover {
            s.recovery = Recovery::None;
        }
        if s.repair().chain.as_ref().is_some_and(|c| ack > c.at) {
            self.end_chain(Some(t));
        }
    }

    #[inline(always)]
    fn take_acked(
        &mut self,
        t: i64,
        ack: u64,
        (newly, waited): (u64, u64),
        (pure, old, echoes): (bool, bool, Option<i64>),
        told: &mut impl FnMut(Act),
    ) {
        let s = &mut self.state;
        let (mut latest, una) = (s.last_acked_t, ack - newly);
        let waits_for = self
            .half
            .detail
            .as_ref()
            .map_or(Some(2), |d| d.habit.segments());
        while let Some(front) = s.segments.front().copied().filter(|f| f.start < ack) {
            if front.end() > ack {
                s.segments.trim_front(ack);
                // Segments of one super-segment wait for each other on their way: the first ones are samples, too.
                let joined = front.joined != Joined::No && front.again == 0 && !front.cut;
                if joined
                    && latest <= front.t
                    && pure
                    && !old
                    && s.is_prompt(waited, self.half.counts.largest, waits_for)
                    && let Some(d) = &mut self.half.detail
                {
                    d.prompt(t, t - front.t);
                }
                break;
            }
            if front.again > 0 && front.start > una {
                s.repair_mut().doubtful.push_back(front.start..front.end());
            }
            if front.again > 0 {
                let first = front.start <= una;
                self.half.arrived(s.base, &front, (t, echoes), first);
            }
            s.segments.pop_front();
            s.last_acked_t = s.last_acked_t.max(front.t);
            if front.end() == ack {
                if latest > front.t {
                    self.half.events.get_or_insert_default().acked_after_loss += 1;
                } else if front.again > 0 || front.cut || old {
                    self.half.events.get_or_insert_default().acked_ambiguously += 1;
                } else {
                    let rtt = t - front.t;
                    // RFC 6298 section 2.3
                    if s.srtt == 0 {
                        (s.srtt, s.rttvar) = (rtt.max(1), rtt / 2);
                    } else {
                        s.rttvar += ((s.srtt - rtt).abs() - s.rttvar) / 4;
                        s.srtt = (s.srtt + (rtt - s.srtt) / 8).max(1);
                    }
                    let largest = self.half.counts.largest;
                    let prompt = pure && s.is_prompt(waited, largest, waits_for);
                    // A SYN is answered at once.
                    if prompt || self.half.isn.is_some() && front.start == s.base {
                        s.answered_in(rtt);
                    }
                    self.half.round_trip(t, rtt, prompt);
                    if pure
                        && !prompt
                        && s.is_alone(&front, waited, largest)
                        && let Some(d) = &mut self.half.detail
                    {
                        d.perhaps_prompt(rtt);
                    }
                    let sent = front.t;
                    told(Act::RoundTrip { sent, rtt, prompt });
                }
            } else {
                count(&mut self.half.counts.acked_cumulatively, 1);
            }
            latest = latest.max(front.t);
        }
    }

    /// Handles the blocks of a SACK option. Returns the RTT of the latest byte reported for the first time: data
    /// received out of order is acknowledged at once (RFC 5681 section 4.2).
    #[inline(never)]
    fn sacked(&mut self, t: i64, ack: u64, options: &Options, from: &mut Side) -> Option<i64> {
        let s = &mut self.state;
        let mut latest: Option<Segment> = None;
        for (i, (left, right)) in options.sack().iter().enumerate() {
            let (left, right) = (extend(ack, *left), extend(ack, *right));
            if left >= right || right > s.next {
                continue;
            }
            // RFC 2883 section 4: the first block may lie below the ACK, or within the second.
            let within_second = i == 0
                && options
                    .sack()
                    .get(1)
                    .is_some_and(|(l, r)| extend(ack, *l) <= left && right <= extend(ack, *r));
            if i == 0 && (right <= ack || within_second) {
                from.half.events_mut().dsacks += 1;
                let base = s.base;
                if let Some(e) = &mut self.half.events {
                    e.had_already(left.saturating_sub(base), right.saturating_sub(base));
                }
                continue;
            }
            let repair = s.repair_mut();
            repair.sack_top = repair.sack_top.max(right);
            let found = s.segments.sack(left.max(s.una), right);
            // RFC 2018 section 4: the first block holds the segment that triggered this ACK.
            latest = latest.or(found.filter(|_| i == 0));
        }
        let rtt = latest.map(|l| t - l.t);
        if latest.is_some_and(|l| l.again == 0) {
            self.state.took(rtt);
        }
        rtt
    }
}

impl State {
    /// Takes the least round trip after a loss, when ACKs of data sent once are few.
    fn took(&mut self, rtt: Option<i64>) {
        let repair = self.repair_mut();
        repair.least_ns = repair.least_ns.into_iter().chain(rtt).min();
    }
}

impl Half {
    /// Time of the first packet, if this one echoes its timestamp.
    fn began(&self, p: &Packet) -> Option<i64> {
        let echo = p.timestamps()?.1;
        self.first_ns.filter(|_| self.first_stamp == Some(echo))
    }

    /// Handles the ACK, at `t`, of a segment that was sent again, with the timestamp of a packet that left at `sent`: a
    /// transmission after that one was for nothing (RFC 3522). RFC 7323 section 4.3: the timestamp is of the `first` segment of
    /// those that the ACK is for. The others came no later than the longest delay of an ACK. Positions count from `base`.
    #[cold]
    fn arrived(
        &mut self,
        base: u64,
        segment: &Segment,
        (t, sent): (i64, Option<i64>),
        first: bool,
    ) {
        let [from, to] = [segment.start, segment.end()].map(|at| at.saturating_sub(base));
        let Some(e) = &mut self.events else { return };
        e.was_acked((from, to), segment.t, t);
        let later_ns = if first { COARSE_TICK_NS } else { ACK_DELAY_NS };
        if first && sent == Some(segment.t) {
            e.had_not_arrived(from, to, segment.t);
        }
        // The receiver had acknowledged it before, if it echoes a later packet: that ACK was not captured.
        if first && sent.is_some_and(|sent| sent > segment.t.saturating_add(COARSE_TICK_NS)) {
            e.was_acked_unseen(from, to);
        }
        let since = sent.map(|sent| sent.saturating_add(later_ns));
        if let Some(since) = since.filter(|since| segment.t > *since) {
            e.had_arrived(from, to, since);
        }
    }
}
