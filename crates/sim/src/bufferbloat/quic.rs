//! QUIC connection in virtual time: datagrams of a CUBIC sender to a port of the far side, which echoes each or, down, sends
//! it for a request.
//!
//! **Deviations.** The handshake is one exchange. The sender of data down is at the near side, as in `experiment::flows`;
//! lost data is not sent again, but does not count as delivered either.

use super::far::{COOKIE, TOKEN};
use super::world::World;
use base::record::Direction;
use base::{Bytes, Duration, Time};
use experiment::ask::{Kind, Marking, Opening, QuicLoad, QuicRan, Trouble};
use experiment::flows::Sender;
use experiment::host::Meanwhile;
use measure::control::listen::{Echo, Pull, Pulled, echoed};

/// Socket of the connection; experiments use smaller numbers.
const SOCKET: u32 = 1 << 20;
const PAYLOAD: u64 = 1200;
/// Largest part of a datagram that is data.
const DATA: u64 = 1170;
/// Interval at which the caller may stop the connection.
const TICK: Duration = Duration::from_millis(100);
/// Interval at which a handshake is tried again.
const AGAIN: Duration = Duration::from_secs(1);

impl World {
    fn quic_send(&mut self, load: &QuicLoad, number: u32) {
        let bytes = match load.direction {
            Direction::Up => echoed(&TOKEN, number, PAYLOAD as usize),
            Direction::Down => Pull {
                cookie: COOKIE,
                number,
                len: PAYLOAD as u16,
                tos: 0,
            }
            .encode(&TOKEN),
        };
        self.send_datagram(SOCKET, load.at, &bytes, Marking::default());
    }

    fn quic_heard(&mut self, load: &QuicLoad) -> Option<(Time, u32)> {
        while let Some(heard) = self.heard(SOCKET) {
            let at = Time::ZERO + self.now.saturating_since(Time::ZERO + heard.waited);
            let number = match load.direction {
                Direction::Up => Echo::decode(&heard.bytes, &TOKEN).map(|e| e.number),
                Direction::Down => Pulled::decode(&heard.bytes, &TOKEN).map(|p| p.number),
            };
            if let Some(number) = number {
                return Some((at, number));
            }
        }
        None
    }

    /// Carries a connection out.
    pub fn quic(
        &mut self,
        load: &QuicLoad,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> QuicRan {
        self.open_socket(Opening::free(SOCKET));
        let (asked, until) = (self.now, self.now + load.patience);
        let mut again = self.now;
        let handshake = loop {
            if self.now >= again {
                self.quic_send(load, u32::MAX);
                again += AGAIN;
            }
            if self.quic_heard(load).is_some() {
                break Some(self.now.saturating_since(asked));
            }
            if self.now >= until {
                break None;
            }
            self.step(until.min(again));
        };
        let Some(rtt) = handshake else {
            return QuicRan {
                trouble: Some(Trouble::new(Kind::Silence, "no handshake in time")),
                ..QuicRan::default()
            };
        };
        let mut ran = QuicRan {
            handshake,
            ..QuicRan::default()
        };
        let cubic = "cubic".parse().expect("a controller of the registry");
        let began = self.now;
        let mut sender = Sender::new(&cubic, Bytes::new(PAYLOAD), 0, began, rtt);
        let (ends, before) = (began + load.lasts, self.own);
        let (mut sent, mut lost, mut told) = (0u64, 0u64, began);
        let (mut least, mut waits) = (rtt, (Duration::ZERO, 0u64));
        while self.now < ends && self.own - before < load.most {
            while let Some((at, number)) = self.quic_heard(load) {
                if let Some(echoed) = sender.on_echo(at, number, false) {
                    least = least.min(echoed.rtt);
                    waits = (waits.0 + echoed.rtt, waits.1 + 1);
                    lost += echoed.lost.len() as u64;
                    let bin =
                        (at.saturating_since(began).as_nanos() / load.bin.as_nanos()) as usize;
                    if ran.bins.len() <= bin {
                        ran.bins.resize(bin + 1, 0);
                    }
                    ran.bins[bin] += DATA;
                }
            }
            if sender.times_out().is_some_and(|at| at <= self.now) {
                lost += sender.on_timeout(self.now).len() as u64;
            }
            if sender.due().is_some_and(|at| at <= self.now) {
                let number = sender.on_sent(self.now);
                self.quic_send(load, number);
                sent += 1;
                continue;
            }
            if self.now.saturating_since(told) >= TICK {
                told = self.now;
                let meanwhile = Meanwhile {
                    now: self.now,
                    tally: self.own,
                };
                if !going_on(meanwhile) {
                    break;
                }
            }
            let wakes = [
                sender.due(),
                sender.times_out(),
                Some(ends),
                Some(told + TICK),
            ];
            let next = wakes.into_iter().flatten().min().unwrap_or(ends);
            self.step(next.max(self.now));
        }
        let whole = (self.now.saturating_since(began).as_nanos() / load.bin.as_nanos()) as usize;
        ran.bins.resize(whole, 0);
        (ran.sent, ran.lost) = (Some(sent), Some(lost));
        ran.wait = (waits.1 > 0).then(|| (waits.0 / waits.1).saturating_sub(least));
        ran
    }
}
