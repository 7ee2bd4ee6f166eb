//! State shared by both kinds of prober: the grid of slots at which probes are due, the open probes, and the rows to
//! write. Every slot gets one row, or an event counts it if a stall left too many for single rows. So expected rows
//! equal recorded rows plus slots reported missed, exactly.

use base::record::{Delay, Event, Row, Status, Text};
use base::{Duration, Time};
use std::collections::VecDeque;

/// Times at which probes are due, each with its number.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    next: Time,
    interval: Duration,
    seq: u64,
}

impl Slots {
    /// Creates slots from a first time on.
    pub fn new(first: Time, interval: Duration, first_seq: u64) -> Slots {
        assert!(!interval.is_zero());
        Slots {
            next: first,
            interval,
            seq: first_seq,
        }
    }

    /// Time of the next slot.
    pub fn next(&self) -> Time {
        self.next
    }

    /// Number of the next probe.
    pub fn next_seq(&self) -> u64 {
        self.seq
    }

    /// Interval between slots.
    pub fn interval(&self) -> Duration {
        self.interval
    }

    /// Changes the interval from the next slot on.
    pub fn set_interval(&mut self, interval: Duration) {
        assert!(!interval.is_zero());
        self.interval = interval;
    }

    /// Number of slots whose successor is already due.
    fn missed(&self, now: Time) -> u64 {
        now.saturating_since(self.next).as_nanos() / self.interval.as_nanos()
    }

    fn take(&mut self) -> (u64, Time) {
        let taken = (self.seq, self.next);
        self.seq += 1;
        self.next += self.interval;
        taken
    }

    /// Skips `n` slots, which get no numbers.
    fn skip(&mut self, n: u64) {
        self.next += self.interval * n;
    }
}

/// Maximum number of slots reported one by one after a long stall (a suspended computer); one event counts the rest.
const MISSED_ROWS: u64 = 10_000;
/// Tolerance of a kernel transmit time outside the sending call: the accuracy to which the clocks are compared.
const STAMP_SLACK_NS: i64 = 20_000;

/// A probe in memory. Kept small: at 1 kHz fifteen thousand of them are remembered.
pub(crate) struct Probe {
    planned: Time,
    /// Start of the sending call.
    pub before: Time,
    /// Duration of the sending call, ns.
    call_ns: u32,
    /// Kernel transmit time, relative to `before`.
    pub kernel_tx_ns: Option<i32>,
    /// True if the far end received it; absent if the far end has not reported it.
    pub seen: Option<bool>,
    /// State of the probe.
    pub state: State,
    /// Answers beyond the first.
    pub copies: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    NotSent,
    Waiting,
    /// Answered; its answer is in the list of unfinished ones.
    Answered,
    Done,
}

impl Probe {
    /// Best estimate of its send time.
    pub fn sent(&self) -> Time {
        let before = self.before.as_nanos();
        Time::from_nanos(before.saturating_add_signed(self.kernel_tx_ns.unwrap_or(0).into()))
    }
}

/// Limits of what is remembered, and for how long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// A probe without an answer within this time is lost.
    pub lost_after: Duration,
    /// Time for which an answer is awaited; an answer after `lost_after` is recorded as late.
    pub kept_for: Duration,
    /// Maximum number of probes remembered.
    pub capacity: usize,
}

pub(crate) struct Ledger {
    /// Name of the target.
    pub target: Text,
    /// UNIX time of [`Time::ZERO`], ns.
    pub origin_unix_ns: i64,
    /// Limits for loss and lateness.
    pub limits: Limits,
    /// Slots of the probes.
    pub slots: Slots,
    /// Open probes in order.
    pub probes: VecDeque<Probe>,
    /// Number of the probe at the front of `probes`.
    pub first: u64,
    /// Rows to write.
    pub rows: VecDeque<Row>,
    /// Slots that passed unused.
    pub missed_slots: u64,
    /// Time ranges in which this host slept; probes in flight then have no delay.
    sleeps: VecDeque<(Time, Time)>,
}

impl Ledger {
    /// Creates an empty ledger.
    pub fn new(target: Text, origin_unix_ns: i64, limits: Limits, slots: Slots) -> Ledger {
        assert!(limits.capacity > 0);
        Ledger {
            target,
            origin_unix_ns,
            limits,
            slots,
            probes: VecDeque::new(),
            first: slots.next_seq(),
            rows: VecDeque::new(),
            missed_slots: 0,
            sleeps: VecDeque::new(),
        }
    }

    /// Time as UNIX ns.
    pub fn unix_ns(&self, t: Time) -> i64 {
        self.origin_unix_ns + t.as_nanos().cast_signed()
    }

    /// True if no further probe fits.
    pub fn is_full(&self) -> bool {
        self.probes.len() >= self.limits.capacity
    }

    fn index(&self, seq: u64) -> Option<usize> {
        seq.checked_sub(self.first)
            .and_then(|i| usize::try_from(i).ok())
    }

    /// Open probe with this number.
    pub fn probe(&self, seq: u64) -> Option<&Probe> {
        self.probes.get(self.index(seq)?)
    }

    /// Open probe with this number, for changes.
    pub fn probe_mut(&mut self, seq: u64) -> Option<&mut Probe> {
        let i = self.index(seq)?;
        self.probes.get_mut(i)
    }

    /// Number of slots to give up one by one with [`Ledger::miss`] now; an event, written here, counts the rest.
    pub fn missed(&mut self, now: Time) -> u64 {
        self.slots.missed(now).min(MISSED_ROWS)
    }

    /// Gives up the next slot.
    pub fn miss(&mut self, now: Time) {
        let seq = self.push(State::NotSent, now);
        self.missed_slots += 1;
        let planned = self.probes.back().map_or(now, |p| p.planned);
        let row = self.blank_row(seq, planned, Status::NotSent);
        self.rows.push_back(Row::Delay(row));
    }

    /// Gives up, without rows, every remaining slot whose successor is due; an event counts them.
    pub fn miss_the_rest(&mut self, now: Time) {
        let more = self.slots.missed(now);
        if more > 0 {
            let detail = format!(
                "{{\"slots_missed\":{more},\"interval_ns\":{}}}",
                self.slots.interval().as_nanos()
            );
            self.fault(self.slots.next(), detail);
            self.slots.skip(more);
            self.missed_slots += more;
        }
    }

    /// Forgets probes whose fate is recorded: for an owner that sends none.
    pub fn forget(&mut self) {
        self.probes.clear();
        self.first = self.slots.next_seq();
    }

    /// Takes the next slot for a probe that is about to be sent; returns its number.
    pub fn take_slot(&mut self, now: Time) -> u64 {
        self.push(State::Waiting, now)
    }

    fn push(&mut self, state: State, now: Time) -> u64 {
        let (seq, planned) = self.slots.take();
        self.probes.push_back(Probe {
            planned,
            before: now,
            call_ns: 0,
            kernel_tx_ns: None,
            seen: None,
            state,
            copies: 0,
        });
        seq
    }

    /// Notes that a probe was sent between two times.
    pub fn sent(&mut self, seq: u64, before: Time, after: Time) {
        if let Some(p) = self.probe_mut(seq) {
            p.before = before;
            let call = after.saturating_since(before).as_nanos();
            p.call_ns = u32::try_from(call).unwrap_or(u32::MAX);
        }
    }

    /// Handles a failed sending call: the probe never left.
    pub fn send_failed(&mut self, seq: u64) {
        let Some(p) = self.probe_mut(seq) else { return };
        p.state = State::NotSent;
        let planned = p.planned;
        self.missed_slots += 1;
        let row = self.blank_row(seq, planned, Status::NotSent);
        self.rows.push_back(Row::Delay(row));
    }

    /// Stores the kernel transmit time of probe `seq`. A time outside the sending call belongs to another datagram, or
    /// a clock was set; it is ignored.
    pub fn tx_stamp(&mut self, seq: u64, at: Time) {
        let Some(p) = self.probe_mut(seq) else { return };
        let from_call = at.signed_since(p.before).as_nanos();
        if (-STAMP_SLACK_NS..=i64::from(p.call_ns) + STAMP_SLACK_NS).contains(&from_call) {
            p.kernel_tx_ns = i32::try_from(from_call).ok();
        }
    }

    /// Time at which the oldest probe may be forgotten: once an answer would count as lost. If it has no answer yet,
    /// once none is awaited any more.
    pub fn next_retirement(&self) -> Option<Time> {
        let p = self.probes.front()?;
        let wait = match p.state {
            State::Waiting => self.limits.kept_for,
            _ => self.limits.lost_after + self.limits.lost_after / 2,
        };
        Some(p.planned + wait.min(self.limits.kept_for))
    }

    /// Number of probes that are lost at a time although their rows are not written, since an answer may still come late.
    pub fn overdue(&self, now: Time) -> u64 {
        let after = self.limits.lost_after;
        let due = self.probes.iter().take_while(|p| p.planned + after <= now);
        let is_lost = |p: &&Probe| {
            p.state == State::Waiting && !self.slept_between(p.before, p.before + after)
        };
        due.filter(is_lost).count() as u64
    }

    /// Records that this host slept at some time between these two times.
    pub fn slept(&mut self, from: Time, to: Time) {
        while self
            .sleeps
            .front()
            .is_some_and(|(_, t)| *t + self.limits.kept_for < from)
        {
            self.sleeps.pop_front();
        }
        self.sleeps.push_back((from, to));
    }

    /// True if the host slept while a probe, sent at `sent`, was in flight until `until`.
    pub fn slept_between(&self, sent: Time, until: Time) -> bool {
        self.sleeps
            .iter()
            .any(|&(from, to)| sent <= to && until > from)
    }

    /// Row of a probe that was never answered.
    pub fn unanswered_row(&self, seq: u64, status: Status) -> Option<Delay> {
        let p = self.probe(seq)?;
        let sent = p.sent();
        let mut row = self.blank_row(seq, sent, status);
        row.late_send_ns = Some(sent.signed_since(p.planned).as_nanos());
        Some(row)
    }

    fn blank_row(&self, seq: u64, at: Time, status: Status) -> Delay {
        Delay {
            status,
            ..Delay::unanswered(self.unix_ns(at), seq.cast_signed(), self.target.clone())
        }
    }

    /// Writes an event about a fault.
    pub fn fault(&mut self, at: Time, detail: String) {
        let target = self.target.clone();
        self.event(at, "fault", &target, detail);
    }

    /// Writes an event.
    pub fn event(&mut self, at: Time, kind: &str, subject: &str, detail: String) {
        let t_ns = self.unix_ns(at);
        self.rows.push_back(Row::Event(Event {
            t_ns,
            kind: kind.into(),
            subject: subject.into(),
            detail: detail.into(),
        }));
    }
}
