//! Loads of datagrams at a rate, as `live::load::paced` sends them.

use super::crafted::HEADERS;
use super::world::{Body, Due, World};
use base::record::{Direction, Flow};
use base::{BitsPerSec, Bytes, Duration};
use experiment::host::Ended;
use measure::cadence::payload_for;

const FIRST_FLOW: u64 = 5_000_000;

/// A load of datagrams.
pub(super) struct Paced {
    /// Number of the load.
    pub load: u32,
    /// Number among all loads of datagrams, carried in its packets.
    id: u32,
    direction: Direction,
    payload: u64,
    gap: Duration,
    running: bool,
    sent: u64,
    received: u64,
    /// Samples of the far end, which the near end gets when the load is over.
    far: Vec<Flow>,
}

impl Paced {
    /// Payload bytes that have passed this end.
    pub fn bytes_moved(&self) -> u64 {
        let packets = match self.direction {
            Direction::Up => self.sent,
            Direction::Down => self.received,
        };
        packets * self.payload
    }
}

impl World {
    /// Starts a load of datagrams at a rate.
    pub fn start_paced(&mut self, load: u32, direction: Direction, rate: BitsPerSec) {
        let payload = u64::from(payload_for(rate));
        let packet = Bytes::new(payload + u64::from(HEADERS));
        let id = self.paced_begun;
        self.paced_begun += 1;
        self.paced.push(Paced {
            load,
            id,
            direction,
            payload,
            gap: packet.serialization_delay_ceil(rate),
            running: true,
            sent: 0,
            received: 0,
            far: Vec::new(),
        });
        self.at(self.now, Due::Paced(id));
    }

    /// Sends the datagram that is due.
    pub fn paced_due(&mut self, id: u32) {
        let Some(paced) = self.paced.iter_mut().find(|p| p.id == id && p.running) else {
            return;
        };
        paced.sent += 1;
        let (direction, gap) = (paced.direction, paced.gap);
        let len = paced.payload + u64::from(HEADERS);
        self.send(direction, FIRST_FLOW + u64::from(id), len, Body::Paced(id));
        self.at(self.now + gap, Due::Paced(id));
    }

    /// Handles the arrival of a datagram.
    pub fn paced_arrived(&mut self, id: u32) {
        if let Some(paced) = self.paced.iter_mut().find(|p| p.id == id) {
            paced.received += 1;
        }
    }

    /// Writes a row with the receiving end's counters for each load.
    pub fn sample_paced(&mut self, t_ns: i64) {
        for paced in self.paced.iter_mut().filter(|p| p.running) {
            let row = Flow {
                bytes_received: Some((paced.received * paced.payload) as i64),
                ..Flow::about(
                    t_ns,
                    FIRST_FLOW as i64 + i64::from(paced.id),
                    paced.direction,
                )
            };
            match paced.direction {
                Direction::Up => paced.far.push(row),
                Direction::Down => self.rec.flow.push(row),
            }
        }
    }

    /// Stops the load of this number, or all of them.
    pub fn stop_paced(&mut self, load: Option<u32>) {
        for paced in &mut self.paced {
            paced.running &= load.is_some_and(|load| paced.load != load);
        }
    }

    /// Returns both ends' counters of loads that were stopped, and adds this end's bytes to the experiment's own
    /// traffic.
    pub fn collect_paced(&mut self) -> Vec<Ended> {
        let mut all = Vec::new();
        for paced in self.paced.extract_if(.., |p| !p.running) {
            let packets = match paced.direction {
                Direction::Up => paced.sent,
                Direction::Down => paced.received,
            };
            self.rec.flow.extend(paced.far);
            self.own += Bytes::new(packets * (paced.payload + u64::from(HEADERS)));
            all.push(Ended {
                number: paced.load,
                faults: Vec::new(),
                sent: Some(paced.sent),
                received: Some(paced.received),
            });
        }
        all
    }
}
