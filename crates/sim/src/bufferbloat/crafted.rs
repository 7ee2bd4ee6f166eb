//! Crafted trains, as `live::craft` sends them. A datagram larger than the link's MTU is refused.

use super::world::{Body, World};
use base::program::{Due, Facts, Sending, Train};
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
    missing: u64,
}

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
                fragments_sent: None,
                fragments_received: None,
            };
            Train::new(first + i as i64, facts)
        });
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
        let len = Bytes::new(u64::from(datagram.payload + HEADERS));
        let now_ns = match direction {
            Direction::Up => self.unix_ns(),
            Direction::Down => self.far_ns(self.now),
        };
        let Some(crafted) = &mut self.crafted else {
            return self.now;
        };
        if len > mtu {
            crafted.trains[train].facts.refused += 1;
            return self.now;
        }
        crafted.trains[train].fates[datagram.seq as usize].sent_ns = Some(now_ns);
        crafted.missing += 1;
        let body = Body::Crafted(word(train, datagram.seq));
        self.send(direction, FIRST_FLOW + train as u64, len.get(), body);
        self.now + len.serialization_delay_ceil(ACCESS)
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

    /// Handles the arrival of a crafted datagram.
    pub fn crafted_arrived(&mut self, word: u64, ecn: Ecn) {
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
