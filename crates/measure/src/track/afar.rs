//! A sender that is not beside the capture: what it had heard of its receiver whenever it sent.
//!
//! **Source.** RFC 7323 section 4.3: a packet echoes the timestamp of the latest segment that its sender has taken in.
//! **Limits.** Without timestamps only the least time to the sender and back tells what it may have heard; a queue on that
//! way hides how much is outstanding.

use super::limits::{Limits, Moment, Offer};
use std::collections::VecDeque;

/// An ACK in flight from the capture to the sender of the data.
#[derive(Clone, Copy, Debug)]
pub(super) struct UnderWay {
    /// Time, ns.
    pub t: i64,
    /// Position of the first unacknowledged byte.
    pub una: u64,
    /// Window of the receiver.
    pub window: Offer,
    /// Timestamp of the packet.
    pub stamp: Option<u32>,
}

/// Time in which a sender that does not spread them out sends all packets that an ACK lets go, ns.
const AT_ONCE_NS: i64 = 1_500_000;
/// Maximum number of ACKs in flight to a sender.
const UNDER_WAY: usize = 65_536;

/// A packet with data, as it passes the capture.
#[derive(Clone, Copy, Debug)]
pub(super) struct Passing {
    /// Time, ns.
    pub t: i64,
    /// Timestamp that it echoes.
    pub echo: Option<u32>,
    /// Payload, bytes.
    pub bytes: u64,
    /// Position behind all data that passed before it.
    pub next: u64,
    /// True if nothing beyond it was sent.
    pub last: bool,
    /// True if it is full, so that more data was ready.
    pub more: bool,
    /// Time on its sender's clock, and the tick of that clock, ns; `None` if its timestamp does not tell them.
    pub left: Option<(i64, i64)>,
}

/// A sender seen from afar.
#[derive(Clone, Debug, Default)]
pub(super) struct Afar {
    under_way: VecDeque<UnderWay>,
    /// Highest byte acknowledged and window that the sender knew when it last sent.
    known: (u64, Offer),
    /// Bytes in flight before the latest ACK that it heard of, and the window then.
    before: (u64, Offer),
    /// Time on the sender's clock of the first packet after that ACK, ns.
    released_ns: Option<i64>,
    /// True if the packets behind it left later, as far as timestamps tell.
    spread: bool,
    /// True if the last data was short: there was no more.
    ended: bool,
    /// Least time from an ACK to the first packet that echoes its timestamp, ns; and the ACK that waits for one.
    away_ns: Option<i64>,
    /// Longest time in which an ACK had not reached the sender, ns.
    beyond_ns: i64,
    gone: Option<(u32, i64)>,
    /// Timestamp echoed last, and the bytes sent and acknowledged with it.
    tick: (u32, u64, u64),
    /// True if it sent without timestamps.
    blind: bool,
}

impl Afar {
    /// Notes an ACK that goes to the sender.
    #[inline]
    pub(super) fn goes(&mut self, t: i64, value: u32) {
        if self.gone.is_none() {
            self.gone = Some((value, t));
        }
    }

    /// Handles the timestamp that the sender echoes.
    #[inline]
    pub(super) fn came_back(&mut self, t: i64, echo: u32) {
        let Some((value, at)) = self.gone else {
            return;
        };
        let away = t.saturating_sub(at);
        if echo == value {
            self.away_ns = Some(self.away_ns.map_or(away, |least| least.min(away)));
        }
        match echo.wrapping_sub(value) as i32 {
            0.. => self.gone = None,
            // It has not heard of that ACK.
            _ => self.beyond_ns = self.beyond_ns.max(away),
        }
    }

    /// Least time from the capture to the sender and back, by timestamps, ns.
    #[inline]
    pub(super) fn away(&self) -> Option<i64> {
        self.away_ns
    }

    /// Longest time for which the sender was seen to send without having heard of an ACK, ns.
    #[inline]
    pub(super) fn beyond(&self) -> i64 {
        self.beyond_ns
    }

    /// Records an ACK in flight to the sender.
    pub(super) fn set_out(&mut self, ack: UnderWay) {
        if self.under_way.len() < UNDER_WAY {
            self.under_way.push_back(ack);
        }
    }

    /// True if the ACK had reached the sender of a packet. `away` is the least time to it and back.
    fn has_heard(&mut self, ack: &UnderWay, p: &Passing, away: i64) -> bool {
        let (Some(stamp), Some(echo)) = (ack.stamp, p.echo) else {
            self.blind = true;
            return ack.t.saturating_add(away) <= p.t;
        };
        match stamp.wrapping_sub(echo) as i32 {
            ..0 => true,
            // Several ACKs share a tick of the clock. As ACKs release data, as much was acknowledged as is sent.
            0 => self.tick.2 < self.tick.1,
            _ => false,
        }
    }

    /// Hands the sender the ACKs that it had heard of when it sent a packet, and assigns the time until then to its
    /// `limits`. `away` is the least time to it and back. A sender may answer an ACK late, so `shown` is that of its
    /// round trips alone, or 0 without any. Returns the highest byte acknowledged, and the window that it knew.
    pub(super) fn sends(
        &mut self,
        p: &Passing,
        (away, shown): (i64, i64),
        mss: u64,
        limits: &mut Limits,
    ) -> (u64, Offer) {
        if let Some(echo) = p.echo {
            if self.tick.0 != echo {
                self.tick = (echo, 0, 0);
            }
            self.tick.1 = self.tick.1.saturating_add(p.bytes);
        }
        let mut released = false;
        while let Some(ack) = self.under_way.front().copied() {
            if !self.has_heard(&ack, p, away) {
                break;
            }
            self.under_way.pop_front();
            self.released_ns = p.left.map(|(at, _)| at);
            released = true;
            if ack.stamp == p.echo && self.known.0 > 0 {
                let newly = ack.una.saturating_sub(self.known.0);
                self.tick.2 = self.tick.2.saturating_add(newly);
            }
            let before = p.next.saturating_sub(self.known.0);
            self.before = (before, self.known.1);
            self.known = (ack.una, ack.window);
            let outstanding = p.next.saturating_sub(ack.una);
            // It sent at once what an ACK let go. It was idle once all was acknowledged, unless the rest was lost on its way
            // here. By time alone it may have heard of that later.
            if outstanding == 0 && self.ended && p.echo.is_some() {
                let after = Moment {
                    outstanding,
                    window: ack.window,
                    mss,
                    more: false,
                    repairing: false,
                    before: None,
                    over: false,
                };
                let heard = ack.t.saturating_add(shown);
                limits.at(heard.min(p.t), after);
            }
        }
        if p.last {
            self.ended = !p.more;
        }
        // The first packet after an ACK leaves like those before.
        if !released {
            self.spread = match (p.left, self.released_ns) {
                (Some((at, tick)), Some(first)) => {
                    at.saturating_sub(first) > tick.saturating_add(AT_ONCE_NS)
                }
                _ => false,
            };
        }
        self.known
    }

    /// Bytes in flight before the latest ACK that it heard of, and the window then. What an ACK lets go into a full window
    /// leaves at once, and passes one by one. A sender that spreads it out is not held back by the window.
    pub(super) fn before(&self) -> Option<(u64, Offer)> {
        (!self.spread).then_some(self.before)
    }

    /// Notes that nothing tells what it had heard.
    #[inline]
    pub(super) fn blinded(&mut self) {
        self.blind = true;
    }

    /// True if timestamps told what it had heard.
    pub(super) fn is_told(&self) -> bool {
        !self.blind
    }

    pub(super) fn finish(&mut self) {
        self.under_way = VecDeque::new();
    }
}
