//! Session that survives server restarts, address changes and outages. When the server no longer knows it, it requests
//! another session; the numbers of probes and the grid of slots continue. Slots without a session are recorded as not
//! sent, so that no row is missing.

use crate::asker::json_text;
use crate::handshake::{Failure, Handshake};
use crate::keys::Credential;
use crate::ledger::{Ledger, Limits, Slots};
use crate::session::{Arrival, Params as SessionParams, Session};
use crate::wire::{Ask, Refusal, ServerMessage, boot_proof};
use base::record::{Row, Text};
use base::rng::Rng;
use base::{Duration, Time};
use rand::Rng as _;

/// Parameters of a lasting session.
#[derive(Clone, Debug)]
pub struct Params {
    /// A probe without an answer within this time is lost.
    pub lost_after: Duration,
    /// Time for which an answer is awaited; an answer after `lost_after` is recorded as late.
    pub kept_for: Duration,
    /// UNIX time of [`Time::ZERO`], ns.
    pub origin_unix_ns: i64,
    /// UNIX time at the zero of this host's clock, ns; a server on the same host has the same value.
    pub host_origin_unix_ns: i64,
    /// Name of the target in the recording.
    pub target: Text,
    /// Key that signs the probes.
    pub key: Option<Credential>,
    /// True if the key is not known yet ([`Lasting::set_key`]): nothing is sent before.
    pub awaits_key: bool,
    /// TOS or traffic-class byte of probes and answers.
    pub tos: u8,
    /// Identifier of this boot of the kernel.
    pub boot_id: Vec<u8>,
    /// Maximum number of probes remembered; beyond it the oldest is dropped.
    pub capacity: usize,
}

/// A datagram to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transmit {
    /// Datagram of the handshake.
    Greeting(usize),
    /// Probe `seq`; the caller reports it to [`Lasting::handle_sent`].
    Probe { seq: u64, len: usize },
}

enum Stage {
    Asking(Box<Handshake>),
    /// No session is requested before this time.
    Pausing(Time),
    Open(Box<Session>),
}

/// Session that survives restarts, changes of address and outages.
pub struct Lasting {
    params: Params,
    stage: Stage,
    /// Slots while there is no session.
    idle: Ledger,
    /// Ended sessions, kept until the fate of their probes is known.
    ended: Vec<Session>,
    rng: Rng,
    /// Last trouble reported; `None` while all is well.
    trouble: Option<String>,
    trouble_at: Time,
    last_heard: Time,
    /// Start of the silence, once it has been reported.
    silent_since: Option<Time>,
}

/// Maximum duration of one attempt to open a session; if nobody answers, the next attempt starts at once.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pause after a refusal.
const PAUSE: Duration = Duration::from_secs(30);
/// Silence after which the recording gets an event.
const SILENCE: Duration = Duration::from_secs(10);

impl Lasting {
    /// Creates the session, whose probes leave in these slots; `rng` needs a truly random seed if anybody could listen.
    pub fn new(params: Params, now: Time, slots: Slots, rng: Rng) -> Lasting {
        let limits = Limits {
            lost_after: params.lost_after,
            kept_for: params.kept_for,
            capacity: params.capacity,
        };
        let idle = Ledger::new(params.target.clone(), params.origin_unix_ns, limits, slots);
        let mut lasting = Lasting {
            params,
            stage: Stage::Pausing(now),
            idle,
            ended: Vec::new(),
            rng,
            trouble: None,
            trouble_at: now,
            last_heard: now,
            silent_since: None,
        };
        lasting.ask(now);
        lasting
    }

    /// Slots not used yet.
    pub fn slots(&self) -> Slots {
        match &self.stage {
            Stage::Open(session) => session.slots(),
            _ => self.idle.slots,
        }
    }

    /// True if a session is open.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// Current trouble.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Time of the last datagram from the server.
    pub fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// True while answers are awaited.
    pub fn is_waiting(&self) -> bool {
        matches!(&self.stage, Stage::Open(s) if s.is_waiting())
    }

    /// Number of probes that are lost although their rows are not written yet.
    pub fn overdue(&self, now: Time) -> u64 {
        let open = match &self.stage {
            Stage::Open(session) => session.overdue(now),
            _ => 0,
        };
        open + self.ended.iter().map(|s| s.overdue(now)).sum::<u64>()
    }

    /// True if the caller should read its socket as soon as it is readable.
    pub fn is_asking(&self) -> bool {
        matches!(self.stage, Stage::Asking(_))
    }

    /// Time of the next timer; none if no timer runs.
    pub fn next_wakeup(&self) -> Option<Time> {
        let stage = match &self.stage {
            Stage::Asking(h) => h.next_wakeup(),
            Stage::Pausing(until) => Some(*until),
            Stage::Open(s) => s.next_wakeup(),
        };
        let slot = (!self.is_open()).then(|| self.idle.slots.due());
        let ended = self.ended.iter().filter_map(Session::next_wakeup).min();
        [stage, slot, ended].into_iter().flatten().min()
    }

    /// Next row to write.
    pub fn poll_row(&mut self) -> Option<Row> {
        if let Some(row) = self.idle.rows.pop_front() {
            return Some(row);
        }
        if let Stage::Open(session) = &mut self.stage
            && let Some(row) = session.poll_row()
        {
            return Some(row);
        }
        let row = self.ended.iter_mut().find_map(Session::poll_row);
        if row.is_none() {
            self.ended.retain(|s| !s.is_finished());
        }
        row
    }

    /// Writes the datagram to send now, if any, to `out`.
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<Transmit> {
        match &mut self.stage {
            Stage::Open(session) => {
                let (seq, len) = session.poll_transmit(now, out)?;
                Some(Transmit::Probe { seq, len })
            }
            Stage::Asking(handshake) => handshake.poll_transmit(now, out).map(Transmit::Greeting),
            Stage::Pausing(_) => None,
        }
    }

    /// Notes that a probe was sent between two times.
    pub fn handle_sent(&mut self, seq: u64, before: Time, after: Time) {
        if let Stage::Open(session) = &mut self.stage {
            session.handle_sent(seq, before, after);
        }
    }

    /// Notes that a probe could not be sent.
    pub fn handle_send_failed(&mut self, now: Time, seq: u64, why: &str) {
        if let Stage::Open(session) = &mut self.stage {
            session.handle_send_failed(seq);
        }
        self.note_trouble(now, why);
    }

    /// Handles the kernel's transmit time of a probe.
    pub fn handle_tx_stamp(&mut self, seq: u64, at: Time) {
        if let Stage::Open(session) = &mut self.stage {
            session.handle_tx_stamp(seq, at);
        }
    }

    /// Handles a datagram of the server; returns its message if it is for this session.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        arrival: Arrival,
        bytes: &[u8],
    ) -> Option<ServerMessage> {
        if let Stage::Asking(handshake) = &mut self.stage {
            handshake.handle_datagram(now, bytes);
            self.check(now);
        }
        let mut heard = None;
        if let Stage::Open(session) = &mut self.stage {
            heard = session.handle_datagram(now, arrival, bytes);
        }
        if heard.is_none() {
            let mut ended = self.ended.iter_mut();
            heard = ended.find_map(|s| s.handle_datagram(now, arrival, bytes));
        }
        let answered = matches!(heard, Some(ServerMessage::Reply { .. }));
        // A datagram received before the trouble was reported does not end it.
        if answered && (self.trouble.is_none() || arrival.at > self.trouble_at) {
            self.hear(now);
        }
        self.check(now);
        heard
    }

    /// Records that the network reported an unreachable or closed destination. It is recorded once; probes that stay
    /// without an answer are lost.
    pub fn note_trouble(&mut self, now: Time, why: &str) {
        self.trouble_at = now;
        if self.trouble.as_deref() != Some(why) {
            self.trouble = Some(why.to_owned());
            let text = json_text(why);
            self.idle.fault(now, format!("{{\"trouble\":{text}}}"));
        }
    }

    /// Hands over the key that was awaited, and opens a session with it.
    pub fn set_key(&mut self, now: Time, key: Credential) {
        self.params.key = Some(key);
        self.params.awaits_key = false;
        if !self.is_open() {
            self.ask(now);
        }
    }

    /// Handles a socket that was reopened because one of the two addresses changed. The server knows the session by the
    /// old addresses, so another session is needed.
    pub fn handle_new_path(&mut self, now: Time, detail: String) {
        let target = self.params.target.clone();
        self.idle.event(now, "address", &target, detail);
        self.end_session();
        self.ask(now);
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        match &mut self.stage {
            Stage::Asking(handshake) => handshake.handle_timeout(now),
            Stage::Pausing(until) if now >= *until => self.ask(now),
            Stage::Pausing(_) => {}
            Stage::Open(session) => session.handle_timeout(now),
        }
        self.check(now);
        for session in &mut self.ended {
            session.handle_timeout(now);
        }
        if !self.is_open() && now >= self.idle.slots.due() {
            // There is nothing to send without a session: each slot that comes is given up.
            for _ in 0..=self.idle.missed(now) {
                if self.idle.slots.due() <= now {
                    self.idle.miss(now);
                }
            }
            self.idle.miss_the_rest(now);
            self.idle.forget();
        }
        let silent = now.saturating_since(self.last_heard);
        if self.is_open() && self.silent_since.is_none() && silent >= self.silence() {
            self.silent_since = Some(self.last_heard);
            let ns = silent.as_nanos();
            self.idle.fault(now, format!("{{\"silent_for_ns\":{ns}}}"));
        }
    }

    /// Writes the rows still open: nothing more will arrive.
    pub fn finish(&mut self) {
        self.end_session();
        self.ended.iter_mut().for_each(Session::finish);
    }

    /// Writes the last datagram, which frees the server's state of the session; returns its length in `out`.
    pub fn close(&self, out: &mut [u8]) -> Option<usize> {
        match &self.stage {
            Stage::Open(session) => Some(session.close(out)),
            _ => None,
        }
    }

    /// Shifts the time labels of the rows; see [`Session::relabel`].
    pub fn relabel(&mut self, by_ns: i64) {
        self.params.origin_unix_ns += by_ns;
        self.params.host_origin_unix_ns += by_ns;
        self.idle.origin_unix_ns += by_ns;
        if let Stage::Open(session) = &mut self.stage {
            session.relabel(by_ns);
        }
        self.ended.iter_mut().for_each(|s| s.relabel(by_ns));
    }

    /// Records that the host slept; see [`Session::handle_sleep`].
    pub fn handle_sleep(&mut self, from: Time, to: Time) {
        if let Stage::Open(session) = &mut self.stage {
            session.handle_sleep(from, to);
        }
        self.ended.iter_mut().for_each(|s| s.handle_sleep(from, to));
    }

    fn silence(&self) -> Duration {
        SILENCE.max(self.slots().interval() * 3)
    }

    fn hear(&mut self, now: Time) {
        if let Some(since) = self.silent_since.take() {
            let ns = now.saturating_since(since).as_nanos();
            let detail = format!("{{\"answers_again_after_ns\":{ns}}}");
            self.idle.fault(now, detail);
            self.trouble = None;
        } else if self.trouble.take().is_some() {
            self.idle.fault(now, "{\"answers_again\":true}".into());
        }
        self.last_heard = now;
    }

    fn ask(&mut self, now: Time) {
        if self.params.awaits_key {
            self.stage = Stage::Pausing(Time::MAX);
            return;
        }
        let nonce = self.rng.next_u64();
        let ask = Ask {
            interval_ns: self.slots().interval().as_nanos(),
            duration_s: 0,
            tos: self.params.tos,
            boot_proof: boot_proof(&self.params.boot_id, nonce),
        };
        let key = self.params.key.clone();
        self.stage = Stage::Asking(Box::new(Handshake::new(now, nonce, ask, key, PATIENCE)));
    }

    /// Moves from one stage to the next if it is time.
    fn check(&mut self, now: Time) {
        let outcome = match &self.stage {
            Stage::Asking(handshake) => handshake.outcome(),
            Stage::Open(session) if session.ended().is_some() => {
                self.end_session();
                self.ask(now);
                return;
            }
            _ => None,
        };
        let keys = match &self.stage {
            Stage::Asking(handshake) => handshake.keys(),
            _ => None,
        };
        match outcome {
            Some(Ok(grant)) => {
                let p = &self.params;
                let params = SessionParams {
                    lost_after: p.lost_after,
                    kept_for: p.kept_for,
                    origin_unix_ns: p.origin_unix_ns,
                    target: p.target.clone(),
                    keys,
                    grant,
                    capacity: p.capacity,
                };
                let mut session = Session::new(params, self.idle.slots);
                if grant.origin_unix_ns != 0 {
                    session.expect_same_clock(grant.origin_unix_ns - p.host_origin_unix_ns);
                }
                let detail = format!("{{\"first_seq\":{}}}", self.idle.slots.next_seq());
                let target = self.params.target.clone();
                self.idle.event(now, "session", &target, detail);
                self.stage = Stage::Open(Box::new(session));
                self.hear(now);
            }
            Some(Err(failure)) => {
                let (why, pause) = told(failure);
                self.note_trouble(now, &why);
                self.stage = Stage::Pausing(now + pause);
                if pause.is_zero() {
                    self.ask(now);
                }
            }
            None => {}
        }
    }

    fn end_session(&mut self) {
        if let Stage::Open(mut session) =
            std::mem::replace(&mut self.stage, Stage::Pausing(Time::MAX))
        {
            session.give_up();
            self.idle.slots = session.slots();
            self.idle.forget();
            self.ended.push(*session);
        }
    }
}

/// Reason why there is no session, and the pause before the next attempt.
fn told(failure: Failure) -> (String, Duration) {
    match failure {
        Failure::Silent { .. } => ("the server does not answer".into(), Duration::ZERO),
        Failure::Untrusted => ("what answers does not know our key".into(), PAUSE),
        Failure::KeyNeeded => (
            "the server serves only users with a key, and we have none".into(),
            PAUSE,
        ),
        Failure::Refused(Refusal::WrongKey) => ("the server refuses us: wrong key".into(), PAUSE),
        Failure::Refused(Refusal::NoKey) => {
            ("the server has no key, and we were given one".into(), PAUSE)
        }
        Failure::Refused(Refusal::Rate(ns)) => {
            let allowed = Duration::from_nanos(ns);
            let why = format!("the server allows one probe every {allowed}: use a longer interval");
            (why, PAUSE)
        }
        Failure::Refused(Refusal::SessionsOfAddress(limit)) => {
            let why = format!("the server has {limit} sessions with this address already");
            (why, PAUSE)
        }
        Failure::Refused(Refusal::Spent) => {
            let why = "the bytes that the server allows in an hour are used up";
            (why.into(), PAUSE)
        }
        Failure::Refused(reason) => (format!("the server refuses us: {reason:?}"), PAUSE),
    }
}
