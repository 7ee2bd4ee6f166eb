//! Crafted trains, as `live::craft` sends them. Hosts fragment datagrams as the kernel does.

use super::world::{Body, World};
use crate::fragments::{count, cut};
use base::program::{Due, Facts, Fragments, Sending, Train};
use base::record::Direction;
use base::{Bytes, Duration, Ecn};

/// Length of the IP and UDP headers, bytes.
pub(super) const HEADERS: u32 = 28;
/// Time without arrivals after which missing datagrams count as lost.
const QUIET: Duration = Duration::from_secs(1);
const FIRST_FLOW: u64 = 4_000_000;
/// Rate of the sending host's access to the link.
const ACCESS: base::BitsPerSec = base::BitsPerSec::from_mbps(1_000);

/// Trains in flight.
pub(super) struct Crafted {
    trains: Vec<Train>,
    /// Datagrams that have not arrived.
    missing: u64,
}

/// Number of a fragment that is a whole datagram.
const WHOLE: u8 = u8::MAX;

/// Train and number of a datagram in one word.
fn word(train: usize, seq: u64) -> u64 {
    (train as u64) << 48 | seq
}

impl World {
    /// Runs a sending, until its last datagram has arrived or is lost.
    pub fn craft(&mut self, sending: &Sending, first: i64) -> Vec<Train> {
        let start = self.now;
        let trains = sending.programs.iter().enumerate().map(|(i, program)| {
            let facts = Facts {
                stage: sending.stage.clone(),
                direction: sending.direction,
                program: program.clone(),
                headers: HEADERS,
                refused: 0,
                overflowed: 0,
                fragments_sent: Some(Fragments::default()),
                fragments_received: Some(Fragments::default()),
            };
            Train::new(first + i as i64, facts)
        });
        for assembly in &mut self.assembly {
            assembly.forget_numbers();
        }
        self.crafted = Some(Crafted {
            trains: trains.collect(),
            missing: 0,
        });
        let mut due: Vec<(usize, Due)> = (sending.programs.iter().enumerate())
            .flat_map(|(i, p)| p.datagrams().map(move |d| (i, d)))
            .collect();
        due.sort_by_key(|(_, d)| d.at);
        let mut wire = start;
        for (i, datagram) in due {
            let at = (start + datagram.at).max(wire);
            self.advance(at);
            wire = self.send_crafted(sending.direction, i, &datagram);
        }
        self.await_crafted();
        self.crafted.take().map(|c| c.trains).unwrap_or_default()
    }

    /// Sends one datagram; returns the time at which the sending host's wire is free again.
    fn send_crafted(&mut self, direction: Direction, train: usize, datagram: &Due) -> base::Time {
        let mtu = match direction {
            Direction::Up => self.plan.link.up.mtu,
            Direction::Down => self.plan.link.down.mtu,
        };
        let now_ns = match direction {
            Direction::Up => self.unix_ns(),
            Direction::Down => self.far_ns(self.now),
        };
        let Some(crafted) = &mut self.crafted else {
            return self.now;
        };
        let its = &mut crafted.trains[train];
        let whole = datagram.marking.whole;
        let Some(parts) = cut(datagram.payload, false, mtu.get(), whole) else {
            its.facts.refused += 1;
            return self.now;
        };
        its.fates[datagram.seq as usize].sent_ns = Some(now_ns);
        count(&mut its.facts.fragments_sent, parts.len(), None);
        crafted.missing += 1;
        let word = word(train, datagram.seq);
        let marks = (datagram.marking.ecn, datagram.marking.dscp);
        let fragmented = parts.len() > 1;
        if fragmented {
            self.assembly[direction as usize].expect(word, parts.len() as u16);
        }
        let mut wire = self.now;
        for (part, len) in parts.into_iter().enumerate() {
            let part = if fragmented { part as u8 } else { WHOLE };
            wire += Bytes::new(len).serialization_delay_ceil(ACCESS);
            if fragmented {
                self.advance(wire);
            }
            let flow = FIRST_FLOW + train as u64;
            self.send_marked(direction, flow, len, Body::Crafted(word, part), marks);
        }
        wire
    }

    fn await_crafted(&mut self) {
        let mut quiet_from = self.now;
        let mut missing = u64::MAX;
        while self.now < quiet_from + QUIET {
            let left = self.crafted.as_ref().map_or(0, |c| c.missing);
            if left == 0 {
                break;
            }
            if left < missing {
                (missing, quiet_from) = (left, self.now);
            }
            self.advance(self.now + Duration::from_millis(20));
        }
    }

    /// Handles the arrival of a packet of a crafted datagram.
    pub fn crafted_arrived(&mut self, direction: Direction, (word, part): (u64, u8), ecn: Ecn) {
        let train = (word >> 48) as usize;
        if let Some(train) = self.crafted.as_mut().and_then(|c| c.trains.get_mut(train)) {
            let received = &mut train.facts.fragments_received;
            match part {
                WHOLE => count(received, 1, None),
                part => count(received, 2, Some(usize::from(part))),
            }
        }
        let now = self.now;
        if part != WHOLE && !self.assembly[direction as usize].take(now, word) {
            return;
        }
        let stamped = self.now + self.lateness();
        let (near, far) = (
            super::world::EPOCH_NS + stamped.as_nanos() as i64,
            self.far_ns(stamped),
        );
        let Some(crafted) = &mut self.crafted else {
            return;
        };
        let (train, seq) = ((word >> 48) as usize, (word & ((1 << 48) - 1)) as usize);
        let Some(train) = crafted.trains.get_mut(train) else {
            return;
        };
        let at = match train.facts.direction {
            Direction::Up => far,
            Direction::Down => near,
        };
        let Some(fate) = train.fates.get_mut(seq) else {
            return;
        };
        if fate.received_ns.is_none() && fate.sent_ns.is_some() {
            fate.received_ns = Some(at);
            fate.ecn = Some(ecn.bits());
            crafted.missing -= 1;
        }
    }
}
