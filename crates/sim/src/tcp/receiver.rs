//! TCP receiver: puts data in order and decides when to acknowledge.
//!
//! **Source**: RFC 9293, "Transmission Control Protocol (TCP)" (Eddy, 2022), section 3.8; RFC 5681, "TCP
//! Congestion Control" (2009), section 4.2, delayed ACKs; RFC 2018, "TCP Selective Acknowledgment
//! Options" (1996), section 4; RFC 2883, "An Extension to the Selective Acknowledgement (SACK) Option for
//! TCP" (2000); RFC 8257, "Data Center TCP (DCTCP): TCP Congestion Control for Data Centers" (2017),
//! section 3.2.
//!
//! **Deviations**: CE is counted in payload bytes and the count returned on every ACK, as in the AccECN option of
//! RFC 9768. DCTCP gets it too, so its echo loses nothing. Data is read at once, so the window never shrinks.
//!
//! **Units**: bytes of payload, ns.
//!
//! **Validated against**: the traces in `tests/tcp.rs`.

use super::growth::{Growth, INITIAL};
use crate::ranges::Ranges;
use crate::segment::{SACK_BLOCKS, Segment, flag, window_scale};
use crate::tcp::Settings;
use base::{Duration, Ecn, Time};

/// Least payload of a segment that makes Linux's window grow.
const LEAST_GROWING: u32 = 128;

/// Receiving end of a connection.
#[derive(Debug)]
pub struct Receiver {
    sack: bool,
    ack_every: u32,
    ack_delay: Duration,
    /// ACKs left that leave at once. While the window grows it is odd, as in Linux: one is always left.
    quick: u32,
    /// Receive window, if every segment is acknowledged while it grows.
    growth: Option<Growth>,
    /// Largest receive window, its scale, and the end of what has been offered.
    most: u64,
    scale: u8,
    edge: u64,
    /// Next byte expected: the number of bytes received in order.
    next: u64,
    early: Ranges,
    /// A byte in each of the blocks reported last, newest first.
    recent: [u64; SACK_BLOCKS],
    recents: usize,
    /// Segments in order that have not been acknowledged.
    waiting: u32,
    ack_due: Option<Time>,
    /// True from a CE until CWR arrives: ECE is set (RFC 3168 section 6.1.3).
    echo: bool,
    ce_bytes: u64,
    last_ce: bool,
    /// Delay of the latest segment, one way.
    delay: Duration,
    /// Segments whose data had already arrived.
    duplicates: u64,
    /// End of the data, once it is known.
    ends_at: u64,
    /// FIN flag, set once all data has arrived: this end closes too.
    fin: u8,
}

impl Receiver {
    /// Creates the receiver of a new connection.
    pub fn new(settings: &Settings) -> Receiver {
        Receiver {
            sack: settings.sack,
            ack_every: if settings.delayed_ack {
                settings.ack_every
            } else {
                1
            },
            ack_delay: settings.ack_delay,
            quick: settings.quick_acks,
            growth: (settings.delayed_ack && settings.window_growth)
                .then(|| Growth::new(settings.mss.get(), settings.receive_window.get())),
            most: settings.receive_window.get(),
            scale: window_scale(settings.receive_window.get()),
            edge: INITIAL.min(settings.receive_window.get()),
            next: 0,
            early: Ranges::default(),
            recent: [0; SACK_BLOCKS],
            recents: 0,
            waiting: 0,
            ack_due: None,
            echo: false,
            ce_bytes: 0,
            last_ce: false,
            delay: Duration::ZERO,
            duplicates: 0,
            ends_at: u64::MAX,
            fin: 0,
        }
    }

    /// Payload bytes that have arrived in order.
    pub fn received(&self) -> u64 {
        self.next
    }
    /// Segments whose data had already arrived.
    pub fn duplicates(&self) -> u64 {
        self.duplicates
    }
    /// Time of the next timer; none if no timer runs.
    #[inline]
    pub fn next_wakeup(&self) -> Option<Time> {
        self.ack_due
    }

    /// Takes the bytes of a segment; returns true if it is acknowledged at once, and the bytes if they came before.
    #[inline]
    fn take(&mut self, from: u64, to: u64) -> (bool, Option<(u64, u64)>) {
        let mut duplicate = None;
        let at_once = if to <= self.next || (from < self.next && self.early.is_empty()) {
            self.next = self.next.max(to);
            self.duplicates += 1;
            duplicate = Some((from, to));
            true
        } else if from <= self.next {
            self.next = to;
            if self.early.is_empty() {
                false
            } else {
                if let Some((_, end)) = self.early.around(self.next) {
                    self.next = end;
                }
                self.early.remove_before(self.next);
                // RFC 5681 section 4.2: a segment that fills a gap is acknowledged at once.
                true
            }
        } else {
            let mut fresh = false;
            self.early.insert(from, to, |_, _| fresh = true);
            if !fresh {
                self.duplicates += 1;
                duplicate = Some((from, to));
            }
            self.remember(from);
            true
        };
        (at_once, duplicate)
    }

    /// Handles a segment that has arrived; returns the acknowledgement to send now, if one is due.
    pub fn handle_segment(&mut self, now: Time, segment: &Segment, ecn: Ecn) -> Option<Segment> {
        if segment.is(flag::SYN) {
            if let Some(growth) = &mut self.growth {
                growth.answer(now);
            }
            return Some(Segment {
                flags: flag::SYN | flag::ACK,
                ack: self.next,
                window: self.offer(),
                ..Segment::default()
            });
        }
        if segment.len == 0 {
            // Ignores the last ACK of the handshake.
            return None;
        }
        if segment.is(flag::CWR | flag::FIN) {
            self.echo &= !segment.is(flag::CWR);
            if segment.is(flag::FIN) {
                self.ends_at = segment.end();
            }
        }
        self.delay = now.saturating_since(segment.sent);
        let ce = ecn == Ecn::Ce;
        if ce {
            self.echo = true;
            self.ce_bytes += u64::from(segment.len);
        }
        // RFC 8257 section 3.2: a change of CE is acknowledged at once, so that the echo is not averaged.
        let changed = std::mem::replace(&mut self.last_ce, ce) != ce;
        let (from, to) = (segment.seq, segment.end());
        let (at_once, duplicate) = self.take(from, to);
        self.waiting += 1;
        let (received, delay) = (self.next, self.delay);
        if let Some(growth) = &mut self.growth {
            growth.meet(now, delay);
            let early = self.early.bytes();
            if segment.len >= LEAST_GROWING && growth.take(now, received, early, delay) {
                self.quick |= 1;
            }
        }
        let quick = self.quick > 0;
        // A FIN is answered at once with this end's own, as by an application that closes once it has read everything.
        let over = self.next == self.ends_at;
        if over {
            self.fin = flag::FIN;
        }
        if over || at_once || changed || quick || self.waiting >= self.ack_every {
            return Some(self.acknowledge(duplicate));
        }
        if self.ack_due.is_none() {
            self.ack_due = Some(now + self.ack_delay);
        }
        None
    }

    /// Returns the delayed ACK when it is due.
    pub fn handle_timeout(&mut self, now: Time) -> Option<Segment> {
        self.ack_due.filter(|due| *due <= now)?;
        Some(self.acknowledge(None))
    }

    fn acknowledge(&mut self, duplicate: Option<(u64, u64)>) -> Segment {
        self.waiting = 0;
        self.ack_due = None;
        self.quick = self.quick.saturating_sub(1);
        let mut ack = Segment {
            ack: self.next,
            ce_bytes: self.ce_bytes,
            delay: self.delay,
            window: self.offer(),
            flags: flag::ACK | self.fin | if self.echo { flag::ECE } else { 0 },
            ..Segment::default()
        };
        if self.sack {
            if let Some(block) = duplicate {
                ack.flags |= flag::DSACK;
                push(&mut ack, block);
            }
            for i in 0..self.recents {
                if let Some(block) = self.early.around(self.recent[i]) {
                    push(&mut ack, block);
                }
            }
        }
        ack
    }

    /// Window field: it never takes back what has been offered (RFC 9293 section 3.8.6).
    fn offer(&mut self) -> u16 {
        let offered = match &self.growth {
            Some(growth) => growth.offered(self.early.bytes()),
            None => self.most,
        };
        // Up to a whole unit.
        let kept = self.edge.saturating_sub(self.next) + (1 << self.scale) - 1;
        let units = (offered.max(kept) >> self.scale).min(0xffff);
        self.edge = self.edge.max(self.next + (units << self.scale));
        units as u16
    }

    /// Updates the blocks to report. RFC 2018 section 4: the newest first, then those reported most recently.
    fn remember(&mut self, at: u64) {
        let Some(block) = self.early.around(at) else {
            return;
        };
        let mut kept = [block.0; SACK_BLOCKS];
        let mut n = 1;
        for i in 0..self.recents {
            let other = self.early.around(self.recent[i]);
            if n < SACK_BLOCKS && other.is_some_and(|o| o.0 != block.0) {
                kept[n] = self.recent[i];
                n += 1;
            }
        }
        (self.recent, self.recents) = (kept, n);
    }
}

fn push(ack: &mut Segment, block: (u64, u64)) {
    if usize::from(ack.sacks) < SACK_BLOCKS {
        ack.sack[usize::from(ack.sacks)] = block;
        ack.sacks += 1;
    }
}
