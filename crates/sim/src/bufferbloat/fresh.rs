//! Probes on fresh connections: seven small packets each, set-up and one request.

use super::world::{Body, Due, World};
use base::record::{Delay, Direction, Status};
use base::{Duration, Time};
use std::collections::BTreeMap;

const FIRST_FLOW: u64 = 2_000_000;
const AT_ONCE: usize = 4;
const PATIENCE: Duration = Duration::from_secs(10);

/// Steps of a connection, carried in its packets.
mod step {
    /// Step of the handshake: SYN.
    pub const SYN: u8 = 0;
    /// Step of the handshake: SYN and ACK.
    pub const SYN_ACK: u8 = 1;
    /// Step of the exchange: the request.
    pub const REQUEST: u8 = 2;
    /// Step of the exchange: the response.
    pub const RESPONSE: u8 = 3;
    /// Step of the exchange: the rest.
    pub const REST: u8 = 4;
}

struct Connection {
    from: Time,
    /// Current step: [`step::SYN`] or [`step::REQUEST`].
    stage: u8,
    rto: Duration,
}

#[derive(Default)]
pub(super) struct Fresh {
    interval: Option<Duration>,
    number: i64,
    open: BTreeMap<i64, Connection>,
}

impl World {
    /// Starts fresh connections at an interval.
    pub fn start_fresh(&mut self, interval: Duration) {
        self.fresh.interval = Some(interval);
        self.at(self.now + interval, Due::Fresh);
    }

    /// Stops the connections. Open ones get no row, because their result is unknown.
    pub fn stop_fresh(&mut self) {
        self.fresh.interval = None;
        self.fresh.open.clear();
    }

    /// Opens the connection that is due.
    pub fn fresh_due(&mut self) {
        let Some(interval) = self.fresh.interval else {
            return;
        };
        let number = self.fresh.number;
        self.fresh.number += 1;
        if self.fresh.open.len() >= AT_ONCE {
            self.fresh_row(number, step::SYN, self.now, Status::NotSent, None);
        } else {
            let connection = Connection {
                from: self.now,
                stage: step::SYN,
                rto: Duration::from_secs(1),
            };
            self.fresh.open.insert(number, connection);
            self.send_fresh(number, step::SYN);
            let again = self.now + Duration::from_secs(1);
            self.at(again, Due::FreshAgain(number, step::SYN, 1));
        }
        self.at(self.now + interval, Due::Fresh);
    }

    fn send_fresh(&mut self, number: i64, step: u8) {
        let (direction, len) = match step {
            step::SYN => (Direction::Up, 60),
            step::SYN_ACK => (Direction::Down, 60),
            step::REQUEST => (Direction::Up, 100),
            step::RESPONSE => (Direction::Down, 100),
            _ => (Direction::Up, 52),
        };
        let flow = FIRST_FLOW + number as u64;
        self.send(direction, flow, len, Body::Fresh(number, step));
    }

    fn fresh_row(&mut self, number: i64, stage: u8, from: Time, status: Status, rtt: Option<i64>) {
        let target = match stage {
            step::SYN => "tcp-connect",
            _ => "tcp-request",
        };
        let sent_ns = super::world::EPOCH_NS + from.as_nanos() as i64;
        self.rec.delay.push(Delay {
            rtt_ns: rtt,
            status,
            ..Delay::unanswered(sent_ns, number, target.into())
        });
    }

    /// Handles the arrival of a connection's packet.
    pub fn fresh_arrived(&mut self, number: i64, step: u8) {
        match step {
            step::SYN => self.send_fresh(number, step::SYN_ACK),
            step::REQUEST => self.send_fresh(number, step::RESPONSE),
            step::SYN_ACK | step::RESPONSE => self.fresh_answered(number, step - 1),
            _ => {}
        }
    }

    fn fresh_answered(&mut self, number: i64, stage: u8) {
        let now = self.now;
        let Some(c) = self.fresh.open.get_mut(&number) else {
            return;
        };
        if c.stage != stage {
            return;
        }
        let from = c.from;
        let rtt = now.saturating_since(from);
        (c.from, c.stage) = (now, step::REQUEST);
        c.rto = (rtt * 3).max(Duration::from_millis(200));
        let rto = c.rto;
        self.fresh_row(number, stage, from, Status::Ok, Some(rtt.as_nanos() as i64));
        self.send_fresh(number, step::REST);
        if stage == step::SYN {
            self.send_fresh(number, step::REQUEST);
            self.at(now + rto, Due::FreshAgain(number, step::REQUEST, 1));
        } else {
            self.send_fresh(number, step::REST);
            self.fresh.open.remove(&number);
        }
    }

    /// Sends a connection's packet again after a time-out.
    pub fn fresh_again(&mut self, number: i64, stage: u8, tries: u8) {
        let now = self.now;
        let Some(c) = self
            .fresh
            .open
            .get_mut(&number)
            .filter(|c| c.stage == stage)
        else {
            return;
        };
        c.rto = c.rto * 2;
        let (from, rto) = (c.from, c.rto);
        if now.saturating_since(from) >= PATIENCE {
            self.fresh.open.remove(&number);
            self.fresh_row(number, stage, from, Status::Lost, None);
            return;
        }
        self.send_fresh(number, stage);
        let next = (now + rto).min(from + PATIENCE);
        self.at(next, Due::FreshAgain(number, stage, tries + 1));
    }
}
