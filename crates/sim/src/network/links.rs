//! Packets on links: look-ahead, merging, and losses.

use super::*;

impl Network {
    /// Determines for each link how far its output is known ahead.
    pub(super) fn look_ahead(&mut self) {
        self.changed = false;
        let is_link = |stop: u32| stop >> kind::BITS == kind::LINK;
        // A link knows its arrivals ahead if only links with a delay feed it.
        let takes_time = |slot: &LinkSlot| matches!(&slot.line, Line::Express(e) if e.takes_time());
        let mut knows: Vec<bool> = (self.links.iter())
            .map(|slot| takes_time(slot) && !slot.tapped)
            .collect();
        let mut from = None;
        for stop in &self.routes {
            if !is_link(*stop) {
                from = None;
                continue;
            }
            let to = *stop as usize;
            knows[to] &= match (from, self.links[to].fed_by) {
                (None, _) => false,
                (Some(_), Feeder::Link(_)) => true,
                (Some(from), _) => takes_time(&self.links[from]),
            };
            from = Some(to);
        }
        for (number, slot) in self.links.iter_mut().enumerate() {
            let express = matches!(slot.line, Line::Express(_)) && !slot.tapped;
            (slot.silent, slot.ahead) = (express, express);
            (slot.merge, slot.next) = (None, None);
            if let (Line::Express(express), Feeder::Several, true) =
                (&slot.line, slot.fed_by, knows[number])
            {
                slot.merge = Some(self.merges.len() as u32);
                self.actors.push(tag(kind::MERGE, self.merges.len()));
                self.merges.push(Gathering {
                    merge: Merge::default(),
                    link: number,
                    place: self.agenda.add(),
                    span: express.delay(),
                });
            }
        }
        let mut several = vec![false; self.links.len()];
        for hop in self.routes.windows(2).filter(|hop| is_link(hop[0])) {
            let (from, to) = (hop[0] as usize, hop[1]);
            let slot = &mut self.links[from];
            several[from] |= *slot.next.get_or_insert(to) != to;
            slot.silent &= is_link(to) && knows[to as usize];
        }
        for (link, several) in several.into_iter().enumerate() {
            let next = self.links[link].next.filter(|_| !several);
            self.links[link].next = next;
            self.links[link].ahead &= next.is_some_and(|next| self.sends_alone(next));
        }
    }

    /// True if an end sends into a plain link that nothing else feeds, or does not send at all. The ends of an
    /// application with several connections are never alone, because it needs their events in order.
    pub(super) fn sends_alone(&self, end: u32) -> bool {
        let number = (end & kind::MASK) as usize;
        let way = match end >> kind::BITS {
            kind::SENDER => Some(self.connections[number].forward),
            kind::RECEIVER => Some(self.connections[number].back),
            kind::SINK => self.datagrams[number].back,
            kind::LINK => return false,
            _ => None,
        };
        way.is_none_or(|way| {
            let slot = &self.links[self.routes[way.position as usize] as usize];
            matches!(slot.line, Line::Express(_)) && slot.fed_by == Feeder::End(end) && !slot.tapped
        })
    }

    /// Handles packets that leave a link, if any are due.
    #[inline]
    pub(super) fn serve_link<O: Observer>(&mut self, number: LinkIndex, observer: &mut O) {
        let slot = &mut self.links[number];
        let Line::Express(express) = &mut slot.line else {
            self.serve_any(number, observer);
            return;
        };
        if slot.ahead {
            self.serve_end(number, observer);
            return;
        }
        let exit = express.take();
        self.agenda.set(slot.place, express.next_exit());
        if let Some(exit) = exit {
            let flying = self.arena.get(exit.item);
            let packet = flying.packet(exit.item, self.now);
            observer.left(self.now, number, &packet, &flying.segment);
            self.go_on(exit.item, observer);
        }
    }

    /// Handles packets that a link delivers to its only end, each at its own time.
    pub(super) fn serve_end<O: Observer>(&mut self, link: LinkIndex, observer: &mut O) {
        let limit = if O::BLIND { self.until } else { self.now };
        let place = self.links[link].place;
        let end = self.links[link].next.expect("it delivers to one end");
        loop {
            let next = self.express(link).next_exit();
            let Some(at) = next.filter(|at| *at <= limit) else {
                self.agenda.set(place, next);
                break;
            };
            if let Some((due, of)) = self.due(end)
                && (due, of) < (at, place)
            {
                self.serve_end_timer(end, due, observer);
                continue;
            }
            let Some(exit) = self.express(link).take() else {
                break;
            };
            self.events += 1;
            self.arrive(exit.item, end, at, observer);
        }
        self.expect(end);
    }

    /// The link's look-ahead implementation.
    #[inline]
    pub(super) fn express(&mut self, link: LinkIndex) -> &mut Express<u32> {
        match &mut self.links[link].line {
            Line::Express(express) => express,
            Line::Any(_) => unreachable!("only a plain link knows ahead"),
        }
    }

    /// Handles packets that reach a merge.
    pub(super) fn serve_merge<O: Observer>(&mut self, number: usize, observer: &mut O) {
        self.merges[number].merge.sort();
        let link = self.merges[number].link;
        while let Some(arrival) = self.merges[number].merge.take(self.now) {
            self.events += 1;
            let Arrival { number, at, .. } = arrival;
            self.enter(number, at, arrival.position, arrival.len, link, observer);
        }
        self.merges[number].merge.done();
        let next = self.merges[number].merge.first();
        let at = next.map(|first| self.gathered(number, first, O::BLIND));
        self.agenda.set(self.merges[number].place, at);
    }

    /// Time at which the gathered packets enter their link; the first of them arrives at `first`.
    #[inline]
    pub(super) fn gathered(&self, number: usize, first: Time, blind: bool) -> Time {
        if blind && first < self.until {
            (first + self.merges[number].span).min(self.until)
        } else {
            first
        }
    }

    /// Takes the packets that have left a link, and schedules the next check.
    pub(super) fn serve_any<O: Observer>(&mut self, number: LinkIndex, observer: &mut O) {
        loop {
            let slot = &mut self.links[number];
            let Line::Any(link) = &mut slot.line else {
                return;
            };
            let delivery = link.poll(self.now, &mut self.fates);
            if let (Some(d), Some(watch)) = (&delivery, &mut slot.watch) {
                watch.sojourn.add_span(d.sojourn);
            }
            let again = link.next_wakeup();
            self.agenda.set(slot.place, again);
            self.bury(observer);
            if let Some(delivery) = delivery {
                let mut packet_number = delivery.packet.id.0 as u32;
                let flying = self.arena.get_mut(packet_number);
                flying.ecn = delivery.packet.ecn;
                let packet = flying.packet(packet_number, self.now);
                observer.left(self.now, number, &packet, &flying.segment);
                let verdict = match self.links[number].tapped {
                    true => observer.exit(self.now, number, &packet, &flying.segment),
                    false => Verdict::Forward,
                };
                if delivery.again {
                    // The second copy needs a place of its own.
                    let copy = *flying;
                    packet_number = self.arena.insert(&copy);
                    let name = PacketId(u64::from(packet_number));
                    observer.copied(packet.id, name);
                }
                if verdict == Verdict::Mark {
                    self.arena.get_mut(packet_number).ecn = Ecn::Ce;
                }
                match verdict {
                    Verdict::Drop => {
                        self.lose(self.now, packet_number, Reason::TargetExceeded, observer);
                    }
                    _ => self.go_on(packet_number, observer),
                }
            }
            if again.is_none_or(|at| at > self.now) {
                return;
            }
        }
    }

    /// Frees packets that a discipline or a link has dropped.
    #[inline]
    pub(super) fn bury<O: Observer>(&mut self, observer: &mut O) {
        if self.fates.list.is_empty() {
            return;
        }
        let mut list = std::mem::take(&mut self.fates.list);
        for (packet, fate) in list.drain(..) {
            if let Fate::Dropped(why) = fate {
                self.lose(self.now, packet.id.0 as u32, why, observer);
            }
        }
        self.fates.list = list;
    }

    pub(super) fn lose<O: Observer>(
        &mut self,
        now: Time,
        number: u32,
        why: Reason,
        observer: &mut O,
    ) {
        let flying = self.arena.get(number);
        let owner = self.owners[flying.flow as usize];
        let index = (owner & kind::MASK) as usize;
        match owner >> kind::BITS {
            kind::SINK => self.datagrams[index].lost += 1,
            // As the count of packets sent: SYNs and FINs alone have no payload.
            kind::RECEIVER if flying.segment.len > 0 => self.connections[index].lost += 1,
            _ => {}
        }
        let packet = flying.packet(number, now);
        observer.packet(now, Happening::Dropped(why), &packet, &flying.segment);
        self.arena.free(number);
    }

    /// Handles refusals that are due: packets handed on ahead of time that meet a full queue.
    pub(super) fn serve_refusals<O: Observer>(&mut self, observer: &mut O) {
        while let Some(&Reverse((at, link, number))) = self.refusals.peek() {
            if at > self.now {
                break;
            }
            self.refusals.pop();
            if let Line::Express(express) = &mut self.links[link].line {
                express.refuse(self.arena.get(number).len);
            }
            self.lose(at, number, Reason::Overlimit, observer);
        }
        let next = self.refusals.peek().map(|r| r.0.0);
        self.agenda.set(REFUSALS, next);
    }

    /// Puts a packet into a link, and into the following ones as far as its future is known.
    #[inline]
    pub(super) fn enter<O: Observer>(
        &mut self,
        number: u32,
        mut at: Time,
        mut position: u32,
        len: u32,
        mut link: LinkIndex,
        observer: &mut O,
    ) {
        loop {
            if !O::BLIND {
                let flying = self.arena.get(number);
                observer.entered(at, link, &flying.packet(number, at), &flying.segment);
            }
            let slot = &mut self.links[link];
            if slot.watch.is_some() {
                slot.sample_before(at, self.until);
            }
            let Line::Express(express) = &mut slot.line else {
                self.arena.get_mut(number).position = position;
                self.enter_any(link, number, observer);
                return;
            };
            if express.is_full() {
                slot.make_room(self.now);
            }
            let Line::Express(express) = &mut slot.line else {
                return;
            };
            let Some(exit) = express.enqueue(at, len, number) else {
                if at > self.now {
                    self.refusals.push(Reverse((at, link, number)));
                    let first = self.refusals.peek().map(|r| r.0.0);
                    self.agenda.set(REFUSALS, first);
                } else {
                    express.refuse(len);
                    self.lose(at, number, Reason::Overlimit, observer);
                }
                return;
            };
            if !slot.silent {
                if !slot.ahead {
                    self.arena.get_mut(number).position = position;
                }
                if express.is_single() {
                    self.agenda.set(slot.place, Some(exit));
                }
                return;
            }
            express.hand_on();
            let from = slot.place;
            (at, position) = (exit, position + 1);
            link = match slot.next {
                Some(next) => next as usize,
                None => self.routes[position as usize] as usize,
            };
            if let Some(merge) = self.links[link].merge {
                self.gather(
                    merge as usize,
                    Arrival {
                        at,
                        from,
                        number,
                        position,
                        len,
                    },
                    O::BLIND,
                );
                return;
            }
        }
    }

    /// Adds a packet in flight to a merge.
    #[inline]
    pub(super) fn gather(&mut self, number: usize, arrival: Arrival, blind: bool) {
        let gathering = &mut self.merges[number];
        if gathering.merge.push(arrival) {
            let place = gathering.place;
            let at = self.gathered(number, arrival.at, blind);
            if at < self.agenda.get(place) {
                self.agenda.set(place, Some(at));
            }
        }
    }

    pub(super) fn enter_any<O: Observer>(
        &mut self,
        link: LinkIndex,
        number: u32,
        observer: &mut O,
    ) {
        let slot = &mut self.links[link];
        if !O::BLIND && slot.tapped {
            let flying = self.arena.get_mut(number);
            let packet = flying.packet(number, self.now);
            match observer.admit(self.now, link, &packet, &flying.segment) {
                Verdict::Forward => {}
                Verdict::Mark => flying.ecn = Ecn::Ce,
                Verdict::Drop => {
                    self.lose(self.now, number, Reason::TargetExceeded, observer);
                    return;
                }
            }
        }
        if let Line::Any(link) = &mut slot.line {
            let packet = self.arena.get(number).packet(number, self.now);
            link.enqueue(self.now, packet, &mut self.fates);
            let again = link.next_wakeup();
            if again != Some(self.agenda.get(slot.place)) {
                self.agenda.set(slot.place, again);
            }
        }
        self.bury(observer);
    }

    /// Moves a packet that has left a link into the next one, or to its end.
    #[inline]
    pub(super) fn go_on<O: Observer>(&mut self, number: u32, observer: &mut O) {
        self.events += 1;
        let flying = self.arena.get_mut(number);
        let (from, position, len) = (flying.position, flying.position + 1, flying.len);
        let next = self.routes[position as usize];
        if next >> kind::BITS != kind::LINK {
            self.arrive(number, next, self.now, observer);
            self.expect(next);
            return;
        }
        let link = next as usize;
        match self.links[link].merge {
            Some(merge) => {
                let from = self.links[self.routes[from as usize] as usize].place;
                let at = self.now;
                let arrival = Arrival {
                    at,
                    from,
                    number,
                    position,
                    len,
                };
                self.gather(merge as usize, arrival, O::BLIND);
            }
            None => self.enter(number, self.now, position, len, link, observer),
        }
    }
}
