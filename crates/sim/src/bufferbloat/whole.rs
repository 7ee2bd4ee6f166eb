//! Transfers of given sizes in virtual time, as `live::tcp` makes them.

use super::transfer::Transfer;
use super::world::World;
use crate::tcp::Settings;
use base::record::Direction;
use base::{Bytes, Duration, Time};
use experiment::ask::{self, Broken, Transferred};
use experiment::host::Meanwhile;
use std::sync::Arc;

/// Interval at which a transfer is looked at: its end is known this well.
const LOOK: Duration = Duration::from_millis(1);
/// Interval at which whoever watches is asked.
const TICK: Duration = Duration::from_millis(100);
/// Segments that leave together with segmentation offload.
const OFFLOADED: u64 = 8;

/// Longest time in which nothing moved, and when it began.
struct Pause {
    bytes: u64,
    at: Time,
    longest: (Duration, Time),
}

impl Pause {
    fn to(&mut self, now: Time, bytes: u64) {
        let still = now.saturating_since(self.at);
        if still > self.longest.0 {
            self.longest = (still, self.at);
        }
        if bytes > self.bytes {
            (self.bytes, self.at) = (bytes, now);
        }
    }
}

impl World {
    /// Carries a transfer of a given size out.
    pub fn transfer(
        &mut self,
        t: &ask::Transfer,
        going_on: &mut dyn FnMut(Meanwhile) -> bool,
    ) -> Transferred {
        let settings = self.settings(t);
        let began = self.now;
        let i = self.transfers.len();
        let limits = self.plan.hosts.limits[t.direction as usize];
        let mut transfer = Transfer::new(
            t.number,
            (u32::MAX, t.direction),
            &settings,
            limits,
            began,
            &self.streams,
        );
        transfer.only = Some(t.bytes.get());
        self.transfers.push(transfer);
        // A download begins with its request, which takes half a round trip.
        if t.direction == Direction::Down {
            let half = self.plan.link.propagation_rtt() / 2;
            self.advance(self.now + half);
        }
        self.open_now(i);
        let most = self.own + t.most;
        let mut pause = Pause {
            bytes: 0,
            at: began,
            longest: (Duration::ZERO, began),
        };
        let (mut sampled, mut told) = (began, began);
        let failed = loop {
            let moved = self.transfers[i].bytes_moved();
            pause.to(self.now, moved);
            if self.now.saturating_since(sampled) >= t.sample {
                sampled = self.now;
                self.sample_whole(i);
            }
            if moved >= t.bytes.get() {
                break None;
            }
            if let Some(broken) = self.broken(t, began, most, &pause) {
                break Some(broken);
            }
            if self.now.saturating_since(told) >= TICK {
                told = self.now;
                let meanwhile = Meanwhile {
                    now: self.now,
                    tally: self.own,
                };
                if !going_on(meanwhile) {
                    break Some(Broken::Stopped);
                }
            }
            self.advance(self.now + LOOK);
        };
        self.sample_whole(i);
        let ended = match failed {
            None => pause.at,
            Some(_) => self.now,
        };
        self.ended_whole(i, t, ended.saturating_since(began), failed, &pause)
    }

    fn ended_whole(
        &mut self,
        i: usize,
        t: &ask::Transfer,
        took: Duration,
        failed: Option<Broken>,
        pause: &Pause,
    ) -> Transferred {
        let now = self.now;
        let began_ns =
            self.unix_ns() - now.saturating_since(self.transfers[i].started).as_nanos() as i64;
        let pause_ns = super::world::EPOCH_NS + pause.longest.1.as_nanos() as i64;
        let transfer = &mut self.transfers[i];
        transfer.account(now);
        transfer.running = false;
        let window = transfer.sender_window;
        let retransmits = transfer.sender.stats().retransmits;
        let far = std::mem::take(&mut transfer.far);
        transfer.collected = true;
        self.rec.flow.extend(far);
        Transferred {
            congestion: t.congestion.clone(),
            began_ns,
            took,
            failed,
            window: Some(window),
            retransmits: Some(retransmits),
            mss: Some(self.plan.tcp.mss.get()),
            pause: pause.longest.0,
            pause_began_ns: pause_ns,
        }
    }

    fn broken(&self, t: &ask::Transfer, began: Time, most: Bytes, pause: &Pause) -> Option<Broken> {
        if self.now.saturating_since(began) >= t.longest {
            return Some(Broken::TimeUp(t.longest));
        }
        if self.now.saturating_since(pause.at) >= t.patience {
            return Some(Broken::Stalled);
        }
        (self.own >= most).then_some(Broken::Enough)
    }

    fn settings(&self, t: &ask::Transfer) -> Settings {
        let sender = self.senders[t.direction as usize];
        let known = t.congestion.parse().ok().map(Arc::new);
        let tcp = &self.plan.tcp;
        Settings {
            // The connection is there before the transfer begins.
            handshake: false,
            controller: known.unwrap_or_else(|| tcp.controller.clone()),
            initial_window: sender.window.map(u64::from).or(tcp.initial_window),
            max_pace: t.pace,
            burst: match sender.offload {
                Some(true) => OFFLOADED,
                Some(false) => 1,
                None => tcp.burst,
            },
            ..tcp.clone()
        }
    }

    fn sample_whole(&mut self, i: usize) {
        let t_ns = self.unix_ns();
        let far_ns = self.far_ns(self.now);
        let t = &mut self.transfers[i];
        match t.direction {
            Direction::Up => self.rec.flow.push(t.sender_row(t_ns)),
            Direction::Down => {
                self.rec.flow.push(t.receiver_row(t_ns));
                t.far.push(t.sender_row(far_ns));
            }
        }
    }
}
