//! Ends of routes: packets arrive, and new ones leave.

use super::*;

impl Network {
    /// Handles a packet that has reached the end of its route.
    #[inline]
    pub(super) fn arrive<O: Observer>(
        &mut self,
        number: u32,
        end: u32,
        now: Time,
        observer: &mut O,
    ) {
        // Safe: no packet is inserted before the last use of its contents.
        self.arena.free(number);
        let flying = self.arena.get(number);
        let segment = &flying.segment;
        let packet = flying.packet(number, now);
        observer.packet(now, Happening::Received, &packet, segment);
        let number = (end & kind::MASK) as usize;
        match end >> kind::BITS {
            kind::RECEIVER => {
                let connection = &mut self.connections[number];
                if flying.flow != connection.forward.flow {
                    // The packet belongs to an earlier connection in this place.
                    return;
                }
                if segment.len > 0 {
                    let delay = now.saturating_since(segment.sent);
                    connection.delay.add_span(delay);
                }
                let ack = (connection.receiver).handle_segment(now, segment, flying.ecn);
                let arrived = connection.receiver.received() >= connection.message_at;
                self.after_receiver(number, ack, now, observer);
                if arrived {
                    self.message_arrived(number, now, observer);
                }
            }
            kind::SENDER => {
                let connection = &mut self.connections[number];
                if flying.flow != connection.back.flow {
                    return;
                }
                connection.sender.handle_segment(now, segment);
                if connection.sender.is_idle() && !connection.idle {
                    self.all_acknowledged(number, now, observer);
                }
                self.after_sender(number, now, observer);
            }
            kind::SINK => {
                let flow = &mut self.datagrams[number];
                let delay = now.saturating_since(segment.sent);
                flow.received += 1;
                flow.received_bytes += u64::from(flying.len);
                flow.delay.add_span(delay);
                let size = Bytes::new(flying.len.into());
                if let Some(back) = flow.back
                    && let Some(size) = flow.source.came(now, segment.seq, size)
                {
                    let answer = Segment {
                        flags: flag::ECHO,
                        delay,
                        ..*segment
                    };
                    let (len, ecn) = (size.get() as u32, flying.ecn);
                    self.launch(back, answer, len, ecn, now, observer);
                }
            }
            kind::ANSWER => {
                let flow = &mut self.datagrams[number];
                flow.answered += 1;
                flow.rtt.add_span(now.saturating_since(segment.sent));
                flow.source.answered(now, segment.seq);
                self.agenda.set(flow.place, flow.source.next_wakeup());
                observer.answer(now, number, segment, flying.ecn);
            }
            other => unreachable!("a route ends at kind {other}"),
        }
    }

    /// Sends a packet from its host.
    #[inline]
    pub(super) fn launch<O: Observer>(
        &mut self,
        way: Way,
        segment: Segment,
        len: u32,
        ecn: Ecn,
        now: Time,
        observer: &mut O,
    ) {
        // An answer keeps the send time of its probe.
        let sent = match segment.is(flag::ECHO) {
            true => segment.sent,
            false => now,
        };
        let flying = Flying {
            position: way.position,
            len,
            flow: way.flow,
            ecn,
            dscp: way.dscp,
            segment: Segment { sent, ..segment },
        };
        let number = self.arena.insert(&flying);
        let packet = flying.packet(number, now);
        observer.packet(now, Happening::Sent, &packet, &flying.segment);
        let link = self.routes[way.position as usize] as usize;
        self.enter(number, now, way.position, len, link, observer);
    }

    /// Time of an end's next own action, and its place in the agenda.
    #[inline]
    pub(super) fn due(&self, end: u32) -> Option<(Time, u32)> {
        let number = (end & kind::MASK) as usize;
        let connection = match end >> kind::BITS {
            kind::SENDER | kind::RECEIVER => &self.connections[number],
            _ => return None,
        };
        let due = match end >> kind::BITS {
            kind::SENDER => earlier(connection.sender.next_wakeup(), connection.write_due),
            _ => connection.receiver.next_wakeup(),
        };
        due.map(|due| (due, connection.place))
    }

    /// Schedules an end at or before its due time. A timer that is postponed is not moved: it fires early and is then
    /// set to the right time.
    #[inline]
    pub(super) fn expect(&mut self, end: u32) {
        if let Some((at, place)) = self.due(end)
            && at < self.agenda.get(place)
        {
            self.agenda.set(place, Some(at));
        }
    }

    #[inline]
    pub(super) fn after_sender<O: Observer>(&mut self, number: usize, now: Time, observer: &mut O) {
        loop {
            let connection = &mut self.connections[number];
            let Some(outgoing) = connection.sender.poll_transmit(now) else {
                break;
            };
            let header = connection.sender.settings().header.get() as u32;
            // RFC 3168 sections 6.1.1 and 6.1.4: a SYN is not ECN-capable, nor is a segment without data.
            let ecn = if outgoing.len == 0 {
                Ecn::NotEct
            } else {
                connection.forward_ecn
            };
            let (way, len) = (connection.forward, header + outgoing.len);
            let segment = Segment {
                seq: outgoing.seq,
                len: outgoing.len,
                flags: outgoing.flags,
                ..Segment::default()
            };
            self.launch(way, segment, len, ecn, now, observer);
        }
    }

    #[inline]
    pub(super) fn after_receiver<O: Observer>(
        &mut self,
        number: usize,
        ack: Option<Segment>,
        now: Time,
        observer: &mut O,
    ) {
        if let Some(ack) = ack {
            let connection = &self.connections[number];
            let (way, header) = (connection.back, connection.sender.settings().header);
            // RFC 2018 section 3: two bytes, and eight per block, padded to a multiple of four.
            let sack = match ack.sacks {
                0 => 0,
                n => 4 + 8 * u32::from(n),
            };
            let len = header.get() as u32 + sack;
            self.launch(way, ack, len, Ecn::NotEct, now, observer);
        }
    }

    /// Handles a connection's timers that have expired.
    pub(super) fn serve_connection<O: Observer>(&mut self, number: usize, observer: &mut O) {
        let now = self.now;
        self.agenda.set(self.connections[number].place, None);
        for end in [kind::RECEIVER, kind::SENDER].map(|kind| tag(kind, number)) {
            if self.due(end).is_some_and(|(at, _)| at <= now) {
                self.serve_end_timer(end, now, observer);
            }
            self.expect(end);
        }
    }

    /// Handles an event of an end that is due.
    pub(super) fn serve_end_timer<O: Observer>(&mut self, end: u32, now: Time, observer: &mut O) {
        self.events += 1;
        let number = (end & kind::MASK) as usize;
        let due = |at: Option<Time>| at.is_some_and(|at| at <= now);
        let connection = &mut self.connections[number];
        if end >> kind::BITS == kind::RECEIVER {
            let ack = connection.receiver.handle_timeout(now);
            self.after_receiver(number, ack, now, observer);
            return;
        }
        if due(connection.write_due) {
            connection.write_due = None;
            let application = connection.application as usize;
            self.tell(application, Told::Due, now, observer);
        }
        let sender = &mut self.connections[number].sender;
        if due(sender.next_wakeup()) {
            sender.handle_timeout(now);
        }
        self.after_sender(number, now, observer);
    }

    pub(super) fn serve_source<O: Observer>(&mut self, number: usize, observer: &mut O) {
        self.events += 1;
        let now = self.now;
        while let Some(len) = self.datagrams[number].source.poll(now) {
            let flow = &mut self.datagrams[number];
            let segment = Segment {
                seq: flow.sent,
                ..Segment::default()
            };
            flow.sent += 1;
            let (way, ecn) = (flow.way, flow.source.ecn());
            self.launch(way, segment, len.get() as u32, ecn, now, observer);
        }
        let flow = &self.datagrams[number];
        self.agenda.set(flow.place, flow.source.next_wakeup());
    }
}

fn earlier(a: Option<Time>, b: Option<Time>) -> Option<Time> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
