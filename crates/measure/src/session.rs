//! Client side of an open session: send times of probes, the fate of each probe, and the direction of each loss.
//!
//! Each probe leaves in a slot of a fixed grid. Every slot has a number, and an unused slot is reported like any other probe.
//! The fate of a probe is written once. Answered probes are written as soon as a later answer has brought the far
//! kernel's transmit time. Unanswered ones are written when no answer is awaited any more: an answer after the limit
//! for loss and before that is late, not lost.

use crate::clock::FarClock;
use crate::keys::SessionKeys;
use crate::ledger::{Ledger, Limits, Slots, State};
use crate::wire::{
    ClientMessage, Front, Grant, Key, Kind, Refusal, Reply, ServerMessage, UNKNOWN_NS, front,
};
use base::record::{Delay, Row, Status, Text};
use base::{Duration, Time};
use std::collections::VecDeque;
use std::ops::Range;

/// Parameters of a session.
#[derive(Clone, Debug)]
pub struct Params {
    /// A probe without an answer within this time is lost; a shorter probe interval does not shorten it.
    pub lost_after: Duration,
    /// Time for which an answer is awaited; an answer after `lost_after` is recorded as late.
    pub kept_for: Duration,
    /// UNIX time of [`Time::ZERO`], ns.
    pub origin_unix_ns: i64,
    /// Name of the target in the recording.
    pub target: Text,
    /// Keys of the session, if it has any: see [`crate::handshake::Handshake::keys`].
    pub keys: Option<SessionKeys>,
    /// Grant of the server.
    pub grant: Grant,
    /// Maximum number of probes remembered; beyond it the oldest is dropped.
    pub capacity: usize,
}

/// Arrival of a datagram.
#[derive(Clone, Copy, Debug)]
pub struct Arrival {
    /// Time of the arrival.
    pub at: Time,
    /// True if the time is that of the arrival: the kernel took it, or a thread that does nothing but wait. A program that polls
    /// its socket now and then does not know it.
    pub kernel: bool,
    /// True if the wall clock, with which the kernel stamps, ran without a step since the previous reading.
    pub steady: bool,
    /// TOS or traffic-class byte.
    pub tos: Option<u8>,
}

/// Counters of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Stats {
    /// Probes sent.
    pub sent: u64,
    /// Probes answered, late ones included.
    pub received: u64,
    /// Answers after the limit for loss.
    pub late: u64,
    /// Probes lost on the uplink.
    pub lost_up: u64,
    /// Probes lost on the downlink.
    pub lost_down: u64,
    /// Probes lost, direction unknown.
    pub lost: u64,
    /// Further answers to a probe.
    pub duplicates: u64,
    /// Probes with impossible times.
    pub invalid: u64,
    /// Slots that passed unused.
    pub missed_slots: u64,
    /// Probes without the kernel's transmit time.
    pub without_tx_stamp: u64,
    /// Answers without the kernel's receive time.
    pub without_rx_stamp: u64,
    /// Answers whose far receive time is the program's, not the kernel's.
    pub far_without_rx_stamp: u64,
    /// Answers to unknown probes, and foreign datagrams.
    pub stray: u64,
    /// Datagrams of a session with a key that were not signed with it, or are copies that no path makes.
    pub untrusted: u64,
    /// Probes that the server did not answer because we were over its budget.
    pub throttled: u64,
    /// Probes that reached the server with ECN CE.
    pub marked_up: u64,
}

/// Result of one train; each arrival is (number, far receive time, near receive time), ns.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TrainResult {
    /// Arrivals in order.
    pub arrivals: Vec<(u8, i64, i64)>,
}

#[derive(Clone, Copy)]
struct Answer {
    arrival: Arrival,
    remote_rx_ns: i64,
    hold_ns: Option<i64>,
    kernel_hold_ns: Option<i64>,
    complete_by: Time,
}

/// Client's end of a session of probes.
pub struct Session {
    params: Params,
    ledger: Ledger,
    /// Answers that wait for the far kernel's transmit time, in order of arrival.
    unfinished: VecDeque<(u64, Answer)>,
    stats: Stats,
    far: FarClock,
    last_heard: Time,
    largest_rtt: Duration,
    throttled_seen: u16,
    /// Probes that the server may have dropped because we were over its budget.
    maybe_throttled: Range<u64>,
    same_clock_claim: Option<i64>,
    ended: Option<Refusal>,
    train: Option<(u16, TrainResult)>,
    trains: u16,
}

/// Reordering tolerance: a probe counts as missing upwards only once others, sent this long or this many after it, have
/// arrived.
const REORDER_SPAN: Duration = Duration::from_millis(50);
const REORDER_PACKETS: u64 = 16;
/// Maximum number of duplicate rows beyond one for each probe.
const MOST_DUPLICATES: u64 = 100;
/// Accuracy to which two ends agree on a shared clock's origin: the time between two clock readings.
const SAME_CLOCK_SLACK_NS: i64 = 20_000;
/// Minimum wait of a row for the far kernel's transmit time; otherwise two intervals. That time comes with a later
/// answer, and answers may be read in batches.
const MIN_WAIT: Duration = Duration::from_millis(200);
const MAX_WAIT: Duration = Duration::from_millis(700);
/// Silence after which a session with a key accepts an unsigned statement that the server no longer knows it.
const SILENT: Duration = Duration::from_secs(1);
/// Maximum copies of one answer that count as duplicates of the path, in a session with a key.
const MOST_COPIES: u8 = 3;

impl Session {
    /// Creates a session whose probes leave in these slots.
    pub fn new(params: Params, slots: Slots) -> Session {
        let limits = Limits {
            lost_after: params.lost_after,
            kept_for: params.kept_for,
            capacity: params.capacity,
        };
        let ledger = Ledger::new(params.target.clone(), params.origin_unix_ns, limits, slots);
        Session {
            params,
            ledger,
            unfinished: VecDeque::new(),
            stats: Stats::default(),
            far: FarClock::default(),
            last_heard: slots.begin(),
            largest_rtt: Duration::ZERO,
            throttled_seen: 0,
            maybe_throttled: 0..0,
            same_clock_claim: None,
            ended: None,
            train: None,
            trains: 0,
        }
    }

    /// Counters so far.
    pub fn stats(&self) -> Stats {
        Stats {
            missed_slots: self.ledger.missed_slots,
            ..self.stats
        }
    }

    /// Reason why the server ended the session, if it did.
    pub fn ended(&self) -> Option<Refusal> {
        self.ended
    }

    /// Time of the last datagram from the server.
    pub fn last_heard(&self) -> Time {
        self.last_heard
    }

    /// Largest round trip so far.
    pub fn largest_rtt(&self) -> Duration {
        self.largest_rtt
    }

    /// True if some probe may still be answered.
    pub fn is_waiting(&self) -> bool {
        self.ledger.probes.iter().any(|p| p.state == State::Waiting)
    }

    /// Number of probes that are lost although their rows are not written yet.
    pub fn overdue(&self, now: Time) -> u64 {
        self.ledger.overdue(now)
    }

    /// Offset of the far clock and its bound; see [`FarClock::ahead_ns`].
    pub fn far_ahead_ns(&self) -> Option<(i64, i64)> {
        self.far.ahead_ns()
    }

    /// Interval between probes.
    pub fn interval(&self) -> Duration {
        self.ledger.slots.interval()
    }

    /// Slots not used yet.
    pub fn slots(&self) -> Slots {
        self.ledger.slots
    }

    /// Sets the interval from the next slot on. Returns the interval used: not below the server's grant.
    pub fn set_interval(&mut self, interval: Duration) -> Duration {
        let granted = interval.max(Duration::from_nanos(
            self.params.grant.min_interval_ns.max(1),
        ));
        self.ledger.slots.set_interval(granted);
        granted
    }

    /// Time of the next probe.
    pub fn next_slot(&self) -> Option<Time> {
        self.ended.is_none().then_some(self.ledger.slots.due())
    }

    /// Time of the next timer; none if no timer runs.
    pub fn next_wakeup(&self) -> Option<Time> {
        let retired = self.ledger.next_retirement();
        let unfinished = self.unfinished.front().map(|(_, a)| a.complete_by);
        [self.next_slot(), retired, unfinished]
            .into_iter()
            .flatten()
            .min()
    }

    /// Next row to write.
    pub fn poll_row(&mut self) -> Option<Row> {
        self.ledger.rows.pop_front()
    }

    /// Probe of the slot that has come, if any: its number and its length in `out`. The caller sends it at once and
    /// reports it to [`Session::handle_sent`].
    pub fn poll_transmit(&mut self, now: Time, out: &mut [u8]) -> Option<(u64, usize)> {
        if self.ended.is_some() || now < self.ledger.slots.due() {
            return None;
        }
        for _ in 0..self.ledger.missed(now) {
            self.make_room();
            self.ledger.miss(now);
        }
        self.ledger.miss_the_rest(now);
        self.make_room();
        let seq = self.ledger.take_slot(now);
        let sent_ns = self.ledger.unix_ns(now);
        let request = ClientMessage::Request {
            token: self.params.grant.token,
            seq: seq as u32,
            sent_ns,
        };
        Some((seq, request.encode(out, 0, self.up())))
    }

    /// Records when the sending call started and returned.
    pub fn handle_sent(&mut self, seq: u64, before: Time, after: Time) {
        self.stats.sent += 1;
        self.ledger.sent(seq, before, after);
    }

    /// Handles a failed sending call: the probe never left.
    pub fn handle_send_failed(&mut self, seq: u64) {
        self.ledger.send_failed(seq);
    }

    /// Stores the kernel transmit time of probe `seq`. A time outside the sending call belongs to another datagram, or
    /// a clock was set; it is ignored.
    pub fn handle_tx_stamp(&mut self, seq: u64, at: Time) {
        self.ledger.tx_stamp(seq, at);
    }

    fn up(&self) -> Option<&Key> {
        self.params.keys.as_ref().map(|k| &k.up)
    }

    /// Handles a datagram; returns its message if it is for this session.
    pub fn handle_datagram(
        &mut self,
        now: Time,
        arrival: Arrival,
        bytes: &[u8],
    ) -> Option<ServerMessage> {
        let Ok(Front { kind, id, tagged }) = front(bytes) else {
            self.stats.stray += 1;
            return None;
        };
        if id != self.params.grant.token {
            self.stats.stray += 1;
            return None;
        }
        let down = self.params.keys.as_ref().map(|k| &k.down);
        let decoded = ServerMessage::decode(bytes, down);
        if down.is_some() && kind == Kind::Refused && !tagged {
            // A restarted server no longer has our key, but neither has a forger. So this is accepted only if the
            // session is silent.
            let unknown = matches!(
                decoded,
                Ok(ServerMessage::Refused {
                    reason: Refusal::NoSession,
                    ..
                })
            );
            let silent = now.saturating_since(self.last_heard);
            if !unknown || silent < SILENT.max(self.interval() * 4) {
                self.stats.untrusted += 1;
                return None;
            }
        }
        match decoded {
            Ok(message) => self
                .handle_message(now, arrival, message)
                .then_some(message),
            Err(_) if down.is_some() => {
                self.stats.untrusted += 1;
                None
            }
            Err(_) => {
                self.stats.stray += 1;
                None
            }
        }
    }

    /// Handles a decoded message, as [`Session::handle_datagram`]. Returns true if it was for this session.
    pub fn handle_message(&mut self, now: Time, arrival: Arrival, message: ServerMessage) -> bool {
        let token = self.params.grant.token;
        match message {
            ServerMessage::Reply { token: t, reply } if t == token => {
                self.last_heard = now;
                self.handle_reply(now, arrival, reply);
            }
            ServerMessage::Refused { id, seq, reason } if id == token => {
                self.last_heard = now;
                self.handle_refusal(now, seq, reason);
            }
            ServerMessage::TrainReply {
                token: t,
                train,
                index,
                rx_ns,
                ..
            } if t == token => {
                self.last_heard = now;
                let near_ns = self.ledger.unix_ns(arrival.at);
                if let Some((number, result)) = &mut self.train
                    && *number == train
                    && arrival.kernel
                    && arrival.steady
                    && !result.arrivals.iter().any(|&(i, ..)| i == index)
                {
                    result.arrivals.push((index, rx_ns, near_ns));
                }
            }
            _ => {
                self.stats.stray += 1;
                return false;
            }
        }
        true
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
        while let Some((_, a)) = self.unfinished.front()
            && (a.kernel_hold_ns.is_some() || now >= a.complete_by)
        {
            self.finish_answered();
        }
        while self.ledger.next_retirement().is_some_and(|t| now >= t) {
            self.retire();
        }
    }

    /// Writes the rows still open: nothing more will arrive.
    pub fn finish(&mut self) {
        while !self.ledger.probes.is_empty() {
            self.retire();
        }
    }

    /// Stops sending; answers are still accepted.
    pub fn give_up(&mut self) {
        self.ended.get_or_insert(Refusal::NoSession);
    }

    /// True if no probe is open any more.
    pub fn is_finished(&self) -> bool {
        self.ledger.probes.is_empty()
    }

    /// Shifts the time labels of the rows from now on: the wall clock was set, and the recording follows.
    pub fn relabel(&mut self, by_ns: i64) {
        self.ledger.origin_unix_ns += by_ns;
        self.far = FarClock::default();
    }

    /// Records that this host slept at some time between these two times: probes in flight then have no delay.
    pub fn handle_sleep(&mut self, from: Time, to: Time) {
        self.ledger.slept(from, to);
    }

    /// Tests the server's claim that it reads our clock, with an origin that is ahead by `far_ahead_ns`. If the first
    /// answer confirms the claim, it is recorded. A time namespace or a restored virtual machine can have our kernel
    /// and another clock.
    pub fn expect_same_clock(&mut self, far_ahead_ns: i64) {
        self.same_clock_claim = Some(far_ahead_ns);
    }

    /// Records that the wall clock was set by `by_ns`.
    pub fn report_wall_step(&mut self, now: Time, by_ns: i64) {
        let detail = format!("{{\"wall_clock_stepped_by_ns\":{by_ns}}}");
        self.ledger.event(now, "clock", "near", detail);
    }

    /// Records a finding about the server or the path.
    pub fn report_fault(&mut self, now: Time, detail: String) {
        self.ledger.fault(now, detail);
    }

    /// Starts a train of datagrams, which [`Session::train_datagram`] writes; returns its number.
    pub fn begin_train(&mut self) -> u16 {
        self.trains = self.trains.wrapping_add(1);
        self.train = Some((self.trains, TrainResult::default()));
        self.trains
    }

    /// Writes one datagram of a train, `len` bytes of UDP payload; returns its length in `out`.
    pub fn train_datagram(
        &self,
        train: u16,
        index: u8,
        count: u8,
        len: usize,
        out: &mut [u8],
    ) -> usize {
        let len = len.min(usize::from(self.params.grant.max_datagram));
        ClientMessage::Train {
            token: self.params.grant.token,
            train,
            index,
            count,
        }
        .encode(out, len, self.up())
    }

    /// Result of the train so far.
    pub fn train_result(&self) -> Option<&TrainResult> {
        self.train.as_ref().map(|(_, result)| result)
    }

    /// Writes the last datagram of a session, which frees the server's state of it; returns its length.
    pub fn close(&self, out: &mut [u8]) -> usize {
        ClientMessage::Close {
            token: self.params.grant.token,
        }
        .encode(out, 0, self.up())
    }

    fn make_room(&mut self) {
        if self.ledger.is_full() {
            self.retire();
        }
    }

    /// Number whose low half is `seq`, nearest to the latest one sent.
    fn unwrap_seq(&self, seq: u32) -> Option<u64> {
        let latest = self.ledger.slots.next_seq().checked_sub(1)?;
        let ahead = seq.wrapping_sub(latest as u32).cast_signed();
        latest.checked_add_signed(i64::from(ahead))
    }

    fn handle_reply(&mut self, now: Time, arrival: Arrival, reply: Reply) {
        self.learn_history(reply);
        self.learn_hold(reply);
        // One event per probe at most, whatever the server says.
        let answers_one = self
            .unwrap_seq(reply.seq)
            .and_then(|seq| self.ledger.probe(seq))
            .is_some_and(|p| p.state == State::Waiting);
        let throttled = reply.throttled.wrapping_sub(self.throttled_seen);
        // Answers may be reordered; a lower count belongs to an older answer.
        if answers_one && (1..0x8000).contains(&throttled) {
            self.throttled_seen = reply.throttled;
            self.stats.throttled += u64::from(throttled);
            let (first, latest) = (self.ledger.first, self.ledger.slots.next_seq());
            let from = self.maybe_throttled.start.max(first);
            self.maybe_throttled = if self.maybe_throttled.end < first {
                first
            } else {
                from
            }..latest;
            self.ledger
                .fault(now, format!("{{\"throttled_by_server\":{throttled}}}"));
        }
        let wait = (self.interval() * 2).max(MIN_WAIT).min(MAX_WAIT);
        let answer = Answer {
            arrival,
            remote_rx_ns: reply.rx_ns,
            hold_ns: (reply.hold_ns != UNKNOWN_NS).then_some(i64::from(reply.hold_ns)),
            kernel_hold_ns: None,
            complete_by: now + wait,
        };
        let Some(seq) = self.unwrap_seq(reply.seq) else {
            self.stats.stray += 1;
            return;
        };
        let keyed = self.params.keys.is_some();
        let marked = reply.flags & Reply::TOS_KNOWN != 0 && reply.tos & 3 == 3;
        match self.ledger.probe_mut(seq).map(|p| (p.state, p)) {
            Some((State::Waiting, p)) => {
                p.state = State::Answered;
                self.unfinished.push_back((seq, answer));
                self.stats.received += 1;
                self.stats.marked_up += u64::from(marked);
                self.stats.far_without_rx_stamp += u64::from(reply.flags & Reply::KERNEL_RX == 0);
                self.handle_timeout(now);
            }
            Some((State::Answered | State::Done, p)) => {
                if keyed && p.copies >= MOST_COPIES {
                    self.stats.untrusted += 1;
                    return;
                }
                p.copies = p.copies.saturating_add(1);
                self.stats.duplicates += 1;
                // A path duplicates some answers; the rows are limited so that a faulty server fills no disk. All are
                // counted.
                if self.stats.duplicates > self.stats.sent + MOST_DUPLICATES {
                    return;
                }
                let row = self.answered_row(seq, answer, Status::Duplicate);
                self.ledger.rows.extend(row.map(Row::Delay));
            }
            Some((State::NotSent, _)) | None => self.stats.stray += 1,
        }
    }

    /// Updates which probes had reached the server when it wrote this answer.
    fn learn_history(&mut self, reply: Reply) {
        let Some(highest) = self.unwrap_seq(reply.history.highest) else {
            return;
        };
        let Some(sent_highest) = self.ledger.probe(highest).map(|p| p.before) else {
            return;
        };
        for seq in highest.saturating_sub(64)..=highest {
            let Some(received) = reply.history.received(seq as u32) else {
                continue;
            };
            let Some(p) = self.ledger.probe_mut(seq) else {
                continue;
            };
            if p.state != State::Waiting {
                continue;
            }
            let overtaken = highest - seq >= REORDER_PACKETS
                || sent_highest.saturating_since(p.before) >= REORDER_SPAN;
            if received {
                p.seen = Some(true);
            } else if overtaken && p.seen.is_none() {
                p.seen = Some(false);
            }
        }
    }

    /// Stores how long the server's kernel held an earlier answer.
    fn learn_hold(&mut self, reply: Reply) {
        if reply.earlier_hold_ns == UNKNOWN_NS {
            return;
        }
        let Some(seq) = self.unwrap_seq(reply.earlier_seq) else {
            return;
        };
        if let Some((_, a)) = self.unfinished.iter_mut().find(|(s, _)| *s == seq) {
            let hold = i64::from(reply.earlier_hold_ns);
            // The kernel sends after the program does; any other time belongs to another copy of the probe.
            a.kernel_hold_ns = a.hold_ns.filter(|&user| hold >= user).map(|_| hold);
        }
    }

    fn handle_refusal(&mut self, now: Time, seq: u32, reason: Refusal) {
        let probe = self.unwrap_seq(seq);
        match reason {
            Refusal::Rate(_) => {
                if let Some(seq) = probe
                    && let Some(p) = self.ledger.probe_mut(seq)
                    && p.state == State::Waiting
                {
                    p.state = State::Done;
                    self.stats.invalid += 1;
                    let row = self.ledger.unanswered_row(seq, Status::Invalid);
                    self.ledger.rows.extend(row.map(Row::Delay));
                }
            }
            reason => {
                if self.ended.is_none() {
                    self.ledger.fault(
                        now,
                        format!("{{\"session_ended_by_server\":\"{reason:?}\"}}"),
                    );
                }
                self.ended = Some(reason);
            }
        }
    }

    /// Forgets the oldest probe and writes its row.
    fn retire(&mut self) {
        let seq = self.ledger.first;
        let front = self.ledger.probes.front();
        match front.map(|p| (p.state, p.seen)) {
            Some((State::Answered, _)) => {
                while self
                    .ledger
                    .probes
                    .front()
                    .is_some_and(|p| p.state == State::Answered)
                {
                    self.finish_answered();
                }
            }
            Some((State::Waiting, seen)) => {
                let lost_after = self.ledger.limits.lost_after;
                let slept = self
                    .ledger
                    .probe(seq)
                    .is_some_and(|p| self.ledger.slept_between(p.before, p.before + lost_after));
                let status = match seen {
                    _ if slept => Status::Invalid,
                    Some(true) => Status::LostDown,
                    Some(false) if !self.maybe_throttled.contains(&seq) => Status::LostUp,
                    _ => Status::Lost,
                };
                *match status {
                    Status::LostDown => &mut self.stats.lost_down,
                    Status::LostUp => &mut self.stats.lost_up,
                    Status::Invalid => &mut self.stats.invalid,
                    _ => &mut self.stats.lost,
                } += 1;
                let row = self.ledger.unanswered_row(seq, status);
                self.ledger.rows.extend(row.map(Row::Delay));
            }
            _ => {}
        }
        self.ledger.probes.pop_front();
        self.ledger.first += 1;
    }

    /// Writes the row of the oldest answer.
    fn finish_answered(&mut self) {
        let lost_after = self.params.lost_after;
        let Some((seq, answer)) = self.unfinished.pop_front() else {
            return;
        };
        let Some(p) = self.ledger.probe_mut(seq) else {
            return;
        };
        p.state = State::Done;
        let late = answer.arrival.at.saturating_since(p.before) > lost_after;
        let Some(row) =
            self.answered_row(seq, answer, if late { Status::Late } else { Status::Ok })
        else {
            return;
        };
        match row.status {
            Status::Invalid => self.stats.invalid += 1,
            Status::Late => self.stats.late += 1,
            _ => {}
        }
        if let (Some(rtt), Some(remote_rx), Some(remote_tx)) =
            (row.rtt_ns, row.remote_rx_ns, row.remote_tx_ns)
        {
            self.largest_rtt = self
                .largest_rtt
                .max(Duration::from_nanos(rtt.unsigned_abs()));
            let at = answer.arrival.at;
            let received = self.ledger.unix_ns(at);
            let step = self
                .far
                .observe(row.sent_ns, remote_rx, remote_tx, received);
            if let Some(by) = step {
                let detail = format!("{{\"far_clock_stepped_by_about_ns\":{by}}}");
                self.ledger.event(at, "clock", "far", detail);
            }
            self.check_same_clock(at);
        }
        self.ledger.rows.push_back(Row::Delay(row));
    }

    fn check_same_clock(&mut self, at: Time) {
        let Some(claim) = self.same_clock_claim.take() else {
            return;
        };
        let Some((ahead, plus_minus)) = self.far.ahead_ns() else {
            return;
        };
        if (claim - ahead).abs() <= plus_minus + SAME_CLOCK_SLACK_NS {
            let detail = format!("{{\"far_ahead_ns\":{claim}}}");
            self.ledger.event(at, "clock", "same", detail);
        }
    }

    /// Row of an answer. If its times cannot be trusted it is invalid and has no delay; if it is late and the server's hold
    /// is unknown, it is late and has no delay.
    fn answered_row(&mut self, seq: u64, a: Answer, status: Status) -> Option<Delay> {
        let p = self.ledger.probe(seq)?;
        let (sent, before, has_tx) = (p.sent(), p.before, p.kernel_tx_ns.is_some());
        if status != Status::Duplicate {
            self.stats.without_tx_stamp += u64::from(!has_tx);
            self.stats.without_rx_stamp += u64::from(!a.arrival.kernel);
        }
        let mut row = self.ledger.unanswered_row(seq, status)?;
        let hold = a.kernel_hold_ns.or(a.hold_ns);
        let rtt = hold.map(|hold| a.arrival.at.signed_since(sent).as_nanos() - hold);
        let timed =
            a.arrival.kernel && a.arrival.steady && !self.ledger.slept_between(sent, a.arrival.at);
        let trusted = timed && rtt.is_some_and(|rtt| rtt > 0);
        // A server that stood still tells no hold. The answer was late by our clock alone; only its delay is unknown.
        let late_for_sure = timed && hold.is_none() && status == Status::Late;
        row.ecn = a.arrival.tos.map(|tos| i64::from(tos & 3));
        row.dscp = a.arrival.tos.map(|tos| i64::from(tos >> 2));
        if trusted {
            row.rtt_ns = rtt;
            row.remote_rx_ns = Some(a.remote_rx_ns);
            row.remote_tx_ns = hold.and_then(|hold| a.remote_rx_ns.checked_add(hold));
            // Our own time from kernel to program is not counted: nobody waits there, see `live::probe`.
            row.host_ns = hold.map(|hold| hold + sent.signed_since(before).as_nanos().max(0));
        } else if status != Status::Duplicate && !late_for_sure {
            row.status = Status::Invalid;
        }
        Some(row)
    }
}
