//! Probes of the gateway: a lasting session with our server whose answers are read at once.

use super::ControlError;
use super::tap::Tap;
use crate::clock::Clock;
use crate::load::{Access, Peer};
use crate::probe::host::{boot_id, random};
use crate::probe::wire::{Found, Kind, Wall, Wire, told};
use crate::timestamp::Batch;
use base::record::Row;
use base::rng::Streams;
use base::{Duration, Time};
use control::agent::Answered;
use control::queue::Sent;
use measure::lasting::{Lasting, Params, Transmit};
use measure::ledger::Slots;
use measure::wire::{MAX_LEN, ServerMessage, UNKNOWN_NS};
use std::collections::VecDeque;
use std::io;
use std::net::SocketAddr;

/// Probe in flight.
#[derive(Clone, Copy)]
struct Flying {
    seq: u64,
    sent: Sent,
}

/// Most probes in flight: those of ten seconds, one each 5 ms.
const FLYING: usize = 2048;
/// Time after which a probe without answer is lost.
const LOST_AFTER: Duration = Duration::from_secs(3);
const KEPT_FOR: Duration = Duration::from_secs(10);
/// Greatest wait between two looks at the socket while a session is being opened.
const SOON: Duration = Duration::from_millis(20);

pub struct Probes {
    lasting: Lasting,
    wire: Wire,
    batch: Batch,
    wall: Wall,
    clock: Clock,
    flying: VecDeque<Flying>,
    answered: Vec<Answered>,
    /// Times of answers before a shaper of downloads, if there is one.
    tap: Option<Tap>,
    /// Answers that may have waited in that shaper, their payloads' names and arrivals.
    shaped: Vec<(u64, Time, Answered)>,
    server: SocketAddr,
}

impl Probes {
    /// Opens a session with the server. With `at_driver`, probes leave when the driver sends them, behind the interface's
    /// own queue.
    ///
    /// # Errors
    /// There is no server, it refuses us, or it does not answer within `patience`.
    pub fn open(
        server: SocketAddr,
        access: &Access,
        interval: Duration,
        patience: Duration,
        at_driver: bool,
        clock: Clock,
    ) -> Result<Probes, ControlError> {
        let local = |what| move |source| ControlError::Local { what, source };
        let refused = |why: String| ControlError::Server { server, why };
        let peer = Peer {
            server,
            access: access.clone(),
            patience,
        };
        let key = peer.probe_key().map_err(|e| refused(e.to_string()))?;
        let mut wire = Wire::open(Kind::Udp, server, clock, &access.outlet)
            .map_err(local("open a UDP socket"))?;
        if at_driver {
            wire.stamp_at_driver()
                .map_err(local("ask for times of the driver"))?;
        }
        let seed = u64::from_be_bytes(random().map_err(local("draw a random number"))?);
        let now = clock.now();
        let params = Params {
            lost_after: LOST_AFTER,
            kept_for: KEPT_FOR,
            origin_unix_ns: clock.from_mono_ns(clock.mono_of(Time::ZERO)),
            host_origin_unix_ns: clock.from_mono_ns(0),
            target: "udp".into(),
            key,
            awaits_key: false,
            tos: 0,
            boot_id: boot_id(),
            capacity: FLYING,
        };
        let slots = Slots::new(now + Duration::from_millis(100), interval, 0);
        let rng = Streams::new(seed).stream("nonce");
        let mut probes = Probes {
            // The kernel's receive times begin some milliseconds after they were asked for.
            lasting: Lasting::new(params, now, slots, rng),
            wire,
            batch: Batch::new(8),
            wall: Wall::new(clock),
            clock,
            flying: VecDeque::new(),
            answered: Vec::new(),
            tap: None,
            shaped: Vec::new(),
            server,
        };
        let end = now + patience;
        while !probes.lasting.is_open() {
            probes.lasting.handle_timeout(clock.now());
            probes.transmit(&mut || 0);
            crate::probe::host::sleep_until(clock.mono_of(clock.now() + Duration::from_millis(2)));
            probes.look();
            let over = clock.now() >= end;
            match probes.lasting.trouble() {
                Some(why) => return Err(refused(why.to_owned())),
                None if over => return Err(refused("it does not answer".to_owned())),
                None => {}
            }
        }
        Ok(probes)
    }

    /// Takes the arrivals of answers at `interface` from now on, before a shaper of downloads.
    ///
    /// # Errors
    /// No right to open a packet socket.
    pub fn tap(&mut self, interface: &str) -> io::Result<()> {
        self.tap = Some(Tap::open(interface, self.server)?);
        Ok(())
    }

    /// Server that is probed.
    pub fn server(&self) -> SocketAddr {
        self.server
    }

    /// Reason why probes are not answered, if known.
    pub fn trouble(&self) -> Option<&str> {
        self.lasting.trouble()
    }

    /// Time of the next thing to do.
    pub fn next_wakeup(&self) -> Time {
        let next = self.lasting.next_wakeup().unwrap_or(Time::MAX);
        match self.lasting.is_asking() {
            true => next.min(self.clock.now() + SOON),
            false => next,
        }
    }

    /// Sends what is due. `total` reads the bytes that have passed the gateway when a probe leaves it, right after each
    /// was sent.
    pub fn transmit(&mut self, total: &mut dyn FnMut() -> u64) {
        let mut buffer = [0; MAX_LEN];
        loop {
            let before = self.clock.now();
            match self.lasting.poll_transmit(before, &mut buffer) {
                None => return,
                Some(Transmit::Greeting(len)) => {
                    if let Err(e) = self.wire.send(&buffer[..len], None) {
                        self.lasting.note_trouble(before, &failure(&e));
                    }
                }
                Some(Transmit::Probe { seq, len }) => {
                    match self.wire.send(&buffer[..len], Some(seq)) {
                        Ok(()) => {
                            let total = total();
                            self.lasting.handle_sent(seq, before, self.clock.now());
                            if self.flying.len() == FLYING {
                                self.flying.pop_front();
                            }
                            let sent = Sent {
                                departed: before,
                                total,
                            };
                            self.flying.push_back(Flying { seq, sent });
                        }
                        Err(e) => {
                            let why = failure(&e);
                            self.lasting.handle_send_failed(before, seq, &why);
                        }
                    }
                }
            }
        }
    }

    /// Reads answers, and returns those since the last call.
    pub fn look(&mut self) -> std::vec::Drain<'_, Answered> {
        let Probes {
            lasting,
            wire,
            batch,
            wall,
            clock,
            flying,
            answered,
            tap,
            shaped,
            ..
        } = self;
        wire.look(batch, *clock, wall, &mut |now, found| match found {
            Found::Left(seq, at) => {
                lasting.handle_tx_stamp(seq, at);
                let probe = flying.iter_mut().rev().find(|p| p.seq == seq);
                if let Some(probe) = probe.filter(|p| p.sent.departed <= at) {
                    probe.sent.departed = at;
                }
            }
            Found::Trouble(errno) => lasting.note_trouble(now, &told(errno)),
            Found::Hop { .. } => {}
            Found::Came { arrival, bytes } => {
                let heard = lasting.handle_datagram(now, arrival, bytes);
                if let Some(ServerMessage::Reply { reply, .. }) = heard
                    && arrival.steady
                    && let Some(i) = flying.iter().position(|p| p.seq as u32 == reply.seq)
                {
                    // Earlier ones may still be answered; a copy of this one is no sample.
                    let Flying { sent, .. } = flying.remove(i).expect("it was just found");
                    let sample = sample(*clock, sent, arrival.at, reply.rx_ns, reply.hold_ns);
                    match tap {
                        Some(tap) => {
                            let name = tap.name(bytes);
                            shaped.extend(sample.map(|s| (name, arrival.at, s)));
                        }
                        None => answered.extend(sample),
                    }
                }
            }
        });
        if let Some(tap) = tap {
            tap.look(batch);
            for (name, at, mut sample) in shaped.drain(..) {
                // How long an answer that passed the interface unseen waited in the shaper is unknown.
                if let Some(came) = tap.came(name).and_then(|ns| wall.to_mono(ns)) {
                    sample.rtt = sample.rtt.saturating_sub(at.saturating_since(came));
                    answered.push(sample);
                }
            }
        }
        answered.drain(..)
    }

    /// Handles timers that are due, and hands rows over.
    pub fn advance(&mut self, rows: &mut Vec<Row>) {
        let now = self.clock.now();
        self.lasting.handle_timeout(now);
        rows.extend(std::iter::from_fn(|| self.lasting.poll_row()));
    }

    /// Ends the session and hands over the last rows.
    pub fn close(mut self, rows: &mut Vec<Row>) {
        let mut buffer = [0; MAX_LEN];
        if let Some(len) = self.lasting.close(&mut buffer) {
            // A courtesy: without it the server forgets us a minute later.
            let _ = self.wire.send(&buffer[..len], None);
        }
        self.lasting.finish();
        self.advance(rows);
    }
}

/// Sample of an answer; `None` if its times cannot be right.
fn sample(clock: Clock, sent: Sent, at: Time, far_ns: i64, hold_ns: u32) -> Option<Answered> {
    let held = match hold_ns {
        UNKNOWN_NS => Duration::ZERO,
        ns => Duration::from_nanos(ns.into()),
    };
    let there_and_back = at.saturating_since(sent.departed);
    (there_and_back > held).then(|| Answered {
        sent,
        rtt: there_and_back - held,
        up_ns: far_ns.wrapping_sub(clock.from_mono_ns(clock.mono_of(sent.departed))),
    })
}

fn failure(e: &io::Error) -> String {
    e.raw_os_error().map_or(e.to_string(), told)
}
