//! State shared by both kinds of prober: the grid of slots at which probes are due, the open probes, and the rows to
//! write. Every slot gets one row, or an event counts it if a stall left too many for single rows. So expected rows
//! equal recorded rows plus slots reported missed, exactly.

use base::record::{Delay, Event, Row, Status, Text};
use base::rng::Rng;
use base::{Duration, Time};
use rand::{Rng as _, SeedableRng as _};
use std::collections::VecDeque;

/// Maximum of the random part of a send time. Packets of a call come every 20 ms, frames of a video every 17 ms or 33 ms.
const SPREAD: Duration = Duration::from_millis(20);

/// Times at which probes are due, each with its number.
///
/// Probes at exactly equal intervals keep step with other traffic of constant rate: all of them meet the same state of
/// its queue, and what they find is not what other packets find (RFC 2330, 11.1). With [`Slots::spread`] each probe
/// leaves at a random time in the first half of its slot, at most 20 ms after its begin.
#[derive(Clone, Copy, Debug)]
pub struct Slots {
    begin: Time,
    interval: Duration,
    seq: u64,
    key: Option<u64>,
}

impl Slots {
    /// Creates slots from a first time on.
    pub fn new(first: Time, interval: Duration, first_seq: u64) -> Slots {
        assert!(!interval.is_zero());
        Slots {
            begin: first,
            interval,
            seq: first_seq,
            key: None,
        }
    }

    /// Draws the send time within each slot; equal keys draw equal times.
    pub fn spread(self, key: u64) -> Slots {
        Slots {
            key: Some(key),
            ..self
        }
    }

    /// Begin of the next slot.
    pub fn begin(&self) -> Time {
        self.begin
    }

    /// Time at which the next probe leaves.
    pub fn due(&self) -> Time {
        self.begin + self.wait(self.seq)
    }

    /// Time from the begin of a slot to its probe.
    fn wait(&self, seq: u64) -> Duration {
        let Some(key) = self.key else {
            return Duration::ZERO;
        };
        let drawn = Rng::seed_from_u64(key.wrapping_add(seq)).next_u64();
        let widest = (self.interval / 2).min(SPREAD).as_nanos();
        Duration::from_nanos(drawn % widest.max(1))
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
        let passed = now.saturating_since(self.begin).as_nanos() / self.interval.as_nanos();
        let is_due = self.wait(self.seq.wrapping_add(passed))
            <= now.saturating_since(self.begin + self.interval * passed);
        passed - u64::from(passed > 0 && !is_due)
    }

    fn take(&mut self) -> (u64, Time) {
        let taken = (self.seq, self.due());
        self.seq += 1;
        self.begin += self.interval;
        taken
    }

    /// Skips `n` slots, which get no numbers.
    fn skip(&mut self, n: u64) {
        self.begin += self.interval * n;
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
            self.fault(self.slots.begin(), detail);
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

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(slots: &mut Slots, n: usize) -> Vec<Time> {
        (0..n).map(|_| slots.take().1).collect()
    }

    #[test]
    fn a_grid_without_a_key_is_exact() {
        let mut slots = Slots::new(Time::from_secs(1), Duration::from_millis(100), 7);
        assert_eq!(sent(&mut slots, 3)[2], Time::from_millis(1200));
        assert_eq!((slots.next_seq(), slots.begin()), (10, slots.due()));
    }

    /// The share of send times in each tenth of a cycle of 20 ms: a chi-squared of nine degrees is above 27.9 once in a
    /// thousand draws.
    #[test]
    fn spread_probes_meet_all_states_of_a_packet_every_20_ms() {
        let cycle = SPREAD.as_nanos();
        for (ms, key) in [(40, 1), (100, 2), (200, 3), (1000, 4), (60, 5)] {
            let grid = Slots::new(Time::from_secs(1), Duration::from_millis(ms), 0);
            let mut tenths = [0u32; 10];
            for t in sent(&mut grid.spread(key), 5_000) {
                tenths[(t.as_nanos() % cycle * 10 / cycle) as usize] += 1;
            }
            let squares = tenths
                .iter()
                .map(|n| (f64::from(*n) - 500.0).powi(2) / 500.0);
            let chi: f64 = squares.sum();
            assert!(
                chi < 27.9,
                "interval {ms} ms, key {key}: {chi:.1}, {tenths:?}"
            );
        }
    }

    #[test]
    fn spread_probes_keep_their_slots_and_half_an_interval_apart() {
        for us in [1, 500, 10_000, 39_000, 100_000, 3_600_000_000] {
            let interval = Duration::from_micros(us);
            let slots = Slots::new(Time::from_secs(1), interval, 0).spread(us);
            let widest = (interval / 2).min(SPREAD);
            let times = sent(&mut slots.clone(), 2_000);
            for (i, t) in times.iter().enumerate() {
                let begin = Time::from_secs(1) + interval * i as u64;
                assert!(*t >= begin && *t < begin + widest, "{us}: {i}");
            }
            assert!(times.windows(2).all(|w| w[1] - w[0] > interval / 2));
        }
    }

    /// A prober that wakes at any time gives up exactly those slots whose successor is due.
    #[test]
    fn missed_slots_are_those_with_a_successor_that_is_due() {
        let interval = Duration::from_millis(30);
        let mut slots = Slots::new(Time::from_secs(1), interval, 0).spread(9);
        let all = sent(&mut slots.clone(), 10_000);
        let mut rng = Rng::seed_from_u64(10);
        let mut now = Time::from_secs(1);
        while slots.next_seq() < 9_000 {
            now += Duration::from_micros(rng.next_u64() % 90_000);
            let due = all.partition_point(|t| *t <= now) as u64;
            assert_eq!(slots.missed(now), due.saturating_sub(slots.next_seq() + 1));
            while slots.next_seq() < due {
                slots.take();
            }
        }
    }
}
