//! Probes of a browser: a session of ours, whose datagrams a channel of the server's site carries.
//!
//! **Limits.** A script takes the times, not a kernel: a busy browser takes them late. How late its timers are shows in
//! the column `late_send_ns`, and `analysis::browser` compares it with the delays.

use base::record::{Direction, Flow, lines};
use base::{Duration, Time};
use measure::handshake::Handshake;
use measure::ledger::Slots;
use measure::session::{Arrival, Params, Session};
use measure::web::{FromPage, ToPage};
use measure::wire::{Ask, MAX_LEN};
use serde::Deserialize;

/// Time within which the server has to grant a session.
const PATIENCE: Duration = Duration::from_secs(10);
const LOST_AFTER: Duration = Duration::from_secs(10);
const KEPT_FOR: Duration = Duration::from_secs(12);
/// Maximum number of probes in flight.
const CAPACITY: usize = 4096;
/// Longest session, and shortest interval asked for.
const LASTS_S: u32 = 900;
const SHORTEST: Duration = Duration::from_millis(5);

/// Settings of the probes.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Open {
    /// Random number.
    pub nonce: u64,
    /// UNIX time of the page's time zero, ns.
    pub origin_ns: i64,
    /// `webtransport` or `websocket`.
    pub target: String,
    /// Interval between probes, ms.
    pub interval_ms: f64,
}

/// State of the session.
enum State {
    Opening(Box<Handshake>),
    Running(Box<Session>),
    Failed(String),
}

/// Probes of one page.
pub struct Probes {
    open: Open,
    interval: Duration,
    state: State,
    /// Probe that the caller sends now.
    sending: Option<u64>,
    rows: String,
}

/// Page's time, in milliseconds since its zero, as ours.
pub fn time(ms: f64) -> Time {
    Time::from_nanos((ms.max(0.0) * 1e6) as u64)
}

fn span(ms: f64) -> Duration {
    Duration::from_nanos((ms.max(0.0) * 1e6) as u64)
}

impl Probes {
    /// Starts with the handshake.
    pub fn new(now: Time, open: Open) -> Probes {
        let ask = Ask {
            interval_ns: SHORTEST.as_nanos(),
            duration_s: LASTS_S,
            tos: 0,
            boot_proof: 0,
        };
        let handshake = Handshake::new(now, open.nonce, ask, None, PATIENCE);
        Probes {
            interval: span(open.interval_ms).max(SHORTEST),
            open,
            state: State::Opening(Box::new(handshake)),
            sending: None,
            rows: String::new(),
        }
    }

    /// True once probes run; the reason if they never will.
    ///
    /// # Errors
    /// The server has not answered, or refused.
    pub fn is_open(&self) -> Result<bool, &str> {
        match &self.state {
            State::Opening(_) => Ok(false),
            State::Running(_) => Ok(true),
            State::Failed(why) => Err(why),
        }
    }

    /// Sets the interval between probes.
    pub fn set_interval(&mut self, ms: f64) {
        self.interval = span(ms).max(SHORTEST);
        if let State::Running(session) = &mut self.state {
            session.set_interval(self.interval);
        }
    }

    /// Time of the next thing to do.
    pub fn next(&self) -> Option<Time> {
        match &self.state {
            State::Opening(handshake) => handshake.next_wakeup(),
            State::Running(session) => session.next_wakeup(),
            State::Failed(_) => None,
        }
    }

    /// Handles timers, and gives the message to send now, if there is one. The caller calls it until there is none.
    pub fn wake(&mut self, now: Time) -> Option<Vec<u8>> {
        let mut out = [0; MAX_LEN];
        let len = match &mut self.state {
            State::Opening(handshake) => {
                handshake.handle_timeout(now);
                let len = handshake.poll_transmit(now, &mut out);
                self.begin(now);
                len
            }
            State::Running(session) => {
                session.handle_timeout(now);
                session.poll_transmit(now, &mut out).map(|(seq, len)| {
                    self.sending = Some(seq);
                    len
                })
            }
            State::Failed(_) => None,
        };
        self.collect();
        len.map(|len| FromPage::Probe(&out[..len]).encode())
    }

    /// Records when the message was handed over.
    pub fn sent(&mut self, before: Time, after: Time) {
        if let (Some(seq), State::Running(session)) = (self.sending.take(), &mut self.state) {
            session.handle_sent(seq, before, after);
        }
    }

    /// Starts the session once it is granted.
    fn begin(&mut self, now: Time) {
        let State::Opening(handshake) = &self.state else {
            return;
        };
        self.state = match handshake.outcome() {
            None => return,
            Some(Err(failure)) => State::Failed(format!("{failure:?}")),
            Some(Ok(grant)) => {
                let params = Params {
                    lost_after: LOST_AFTER,
                    kept_for: KEPT_FOR,
                    origin_unix_ns: self.open.origin_ns,
                    target: self.open.target.as_str().into(),
                    keys: None,
                    grant,
                    capacity: CAPACITY,
                };
                let slots = Slots::new(now + self.interval, self.interval, 0);
                State::Running(Box::new(Session::new(
                    params,
                    slots.spread(self.open.nonce),
                )))
            }
        };
    }

    /// Handles a message of the server; gives its news for the page, as JSON.
    pub fn heard(&mut self, now: Time, bytes: &[u8]) -> Option<String> {
        match ToPage::decode(bytes)? {
            ToPage::Probe(datagram) => {
                match &mut self.state {
                    State::Opening(handshake) => {
                        handshake.handle_datagram(now, datagram);
                        self.begin(now);
                    }
                    State::Running(session) => {
                        let arrival = Arrival {
                            at: now,
                            // The only time there is; see the limits above.
                            kernel: true,
                            steady: true,
                            tos: None,
                        };
                        session.handle_datagram(now, arrival, datagram);
                    }
                    State::Failed(_) => {}
                }
                self.collect();
                None
            }
            ToPage::Turn { place, after } => Some(
                serde_json::json!({ "place": place, "after_s": after.as_secs_f64() }).to_string(),
            ),
            ToPage::Refused => Some(serde_json::json!({ "refused": true }).to_string()),
            ToPage::Sampled(s) => {
                let flow = i64::from(s.flow);
                if let (State::Running(session), false) = (&self.state, s.ended)
                    && let Some((ahead, _)) = session.far_ahead_ns()
                {
                    let row = Flow {
                        bytes_received: i64::try_from(s.bytes).ok(),
                        ..Flow::about(s.at_ns.saturating_sub(ahead), flow, Direction::Up)
                    };
                    lines::write(&row.into(), &mut self.rows);
                }
                s.ended
                    .then(|| serde_json::json!({ "ended": flow }).to_string())
            }
        }
    }

    fn collect(&mut self) {
        if let State::Running(session) = &mut self.state {
            while let Some(row) = session.poll_row() {
                lines::write(&row, &mut self.rows);
            }
        }
    }

    /// Rows since the last call, as lines.
    pub fn rows(&mut self) -> String {
        std::mem::take(&mut self.rows)
    }

    /// Writes the open rows, and gives the last message of the session.
    pub fn close(&mut self) -> Option<Vec<u8>> {
        let State::Running(session) = &mut self.state else {
            return None;
        };
        let mut out = [0; MAX_LEN];
        let len = session.close(&mut out);
        session.finish();
        self.collect();
        Some(FromPage::Probe(&out[..len]).encode())
    }
}
