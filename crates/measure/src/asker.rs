//! Probes of hosts that do not run Tailback: ICMP echo, TCP connections, HTTP and DNS requests. Slots, rows and limits
//! are the same as in a session with a Tailback server; the far end's measurements are missing.

use crate::ledger::{Ledger, Limits, Slots, State};
use base::record::{Row, Status, Text};
use base::{Duration, Time};

/// Parameters of an asker.
#[derive(Clone, Debug)]
pub struct Params {
    /// A probe without an answer within this time is lost.
    pub lost_after: Duration,
    /// Time for which an answer is awaited; an answer after `lost_after` is recorded as late.
    pub kept_for: Duration,
    /// UNIX time of [`Time::ZERO`], ns.
    pub origin_unix_ns: i64,
    /// Name of the target in the recording.
    pub target: Text,
    /// Maximum number of probes remembered; beyond it the oldest is dropped.
    pub capacity: usize,
}

/// Arrival time of an answer, and its reliability.
#[derive(Clone, Copy, Debug)]
pub struct Answer {
    /// Time of the answer.
    pub at: Time,
    /// True if both clocks ran without a step since the previous reading; see [`crate::clock::WallClock`].
    pub steady: bool,
    /// TOS or traffic-class byte.
    pub tos: Option<u8>,
    /// Times of the far end, if its protocol tells them.
    pub far: Option<Far>,
}

/// Times at which the far end received a probe and sent its answer, UNIX ns of its own clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Far {
    /// Receive time.
    pub rx_ns: i64,
    /// Transmit time.
    pub tx_ns: i64,
}

/// Asker: slots and questions to a target that is not ours.
pub struct Asker {
    ledger: Ledger,
    /// Last trouble, until a probe succeeds; reported once.
    trouble: Option<String>,
    trouble_at: Time,
    stray: u64,
}

impl Asker {
    /// Creates the prober, whose probes leave in these slots.
    pub fn new(params: Params, slots: Slots) -> Asker {
        let limits = Limits {
            lost_after: params.lost_after,
            kept_for: params.kept_for,
            capacity: params.capacity,
        };
        Asker {
            ledger: Ledger::new(params.target, params.origin_unix_ns, limits, slots),
            trouble: None,
            trouble_at: slots.begin(),
            stray: 0,
        }
    }

    /// Slots not used yet.
    pub fn slots(&self) -> Slots {
        self.ledger.slots
    }

    /// Changes the interval from the next slot on.
    pub fn set_interval(&mut self, interval: Duration) {
        self.ledger.slots.set_interval(interval);
    }

    /// Current trouble.
    pub fn trouble(&self) -> Option<&str> {
        self.trouble.as_deref()
    }

    /// Records a finding about the target.
    pub fn report(&mut self, now: Time, detail: String) {
        self.ledger.fault(now, detail);
    }

    /// True while an answer is awaited.
    pub fn is_waiting(&self) -> bool {
        self.ledger.probes.iter().any(|p| p.state == State::Waiting)
    }

    /// Number of probes that are lost although their rows are not written yet.
    pub fn overdue(&self, now: Time) -> u64 {
        self.ledger.overdue(now)
    }

    /// Number of answers to unknown probes.
    pub fn stray(&self) -> u64 {
        self.stray
    }

    /// Time of the next timer; none if no timer runs.
    pub fn next_wakeup(&self) -> Option<Time> {
        let slot = Some(self.ledger.slots.due());
        [slot, self.ledger.next_retirement()]
            .into_iter()
            .flatten()
            .min()
    }

    /// Next row to write.
    pub fn poll_row(&mut self) -> Option<Row> {
        self.ledger.rows.pop_front()
    }

    /// Number of the probe whose slot has come, if any. The caller sends it at once and reports it to
    /// [`Asker::handle_sent`].
    pub fn poll_transmit(&mut self, now: Time) -> Option<u64> {
        if now < self.ledger.slots.due() {
            return None;
        }
        for _ in 0..self.ledger.missed(now) {
            self.make_room();
            self.ledger.miss(now);
        }
        self.ledger.miss_the_rest(now);
        self.make_room();
        Some(self.ledger.take_slot(now))
    }

    /// Gives up the slot that has come because its probe cannot be sent: too many are in flight, or there is no
    /// address.
    pub fn miss(&mut self, now: Time) {
        if let Some(seq) = self.poll_transmit(now) {
            self.ledger.send_failed(seq);
        }
    }

    /// Records when the sending call started and returned.
    pub fn handle_sent(&mut self, seq: u64, before: Time, after: Time) {
        self.ledger.sent(seq, before, after);
    }

    /// Handles a failed sending call: the probe never left.
    pub fn handle_send_failed(&mut self, now: Time, seq: u64, why: &str) {
        self.ledger.send_failed(seq);
        self.note_trouble(now, why);
    }

    /// Stores the kernel transmit time; see [`crate::session::Session::handle_tx_stamp`].
    pub fn handle_tx_stamp(&mut self, seq: u64, at: Time) {
        self.ledger.tx_stamp(seq, at);
    }

    /// Handles an answer.
    pub fn handle_answer(&mut self, now: Time, seq: u64, answer: Answer) {
        let status = match self.ledger.probe(seq).map(|p| p.state) {
            Some(State::Waiting) => Status::Ok,
            Some(State::Answered | State::Done) => Status::Duplicate,
            Some(State::NotSent) | None => {
                self.stray += 1;
                return;
            }
        };
        let Some(p) = self.ledger.probe_mut(seq) else {
            return;
        };
        let (sent, before) = (p.sent(), p.before);
        p.state = State::Done;
        let whole = answer.at.signed_since(sent).as_nanos();
        // A hold that cannot be true says that the far clock stepped, or lies: it tells nothing then.
        let held = |far: &Far| far.tx_ns.checked_sub(far.rx_ns);
        let far = answer
            .far
            .filter(|far| held(far).is_some_and(|ns| (0..whole).contains(&ns)));
        let rtt = whole - far.as_ref().and_then(held).unwrap_or(0);
        let late = answer.at.saturating_since(before) > self.ledger.limits.lost_after;
        let status = if late && status == Status::Ok {
            Status::Late
        } else {
            status
        };
        let trusted = answer.steady && rtt > 0 && !self.ledger.slept_between(sent, answer.at);
        let Some(mut row) = self.ledger.unanswered_row(seq, status) else {
            return;
        };
        row.ecn = answer.tos.map(|tos| i64::from(tos & 3));
        row.dscp = answer.tos.map(|tos| i64::from(tos >> 2));
        if trusted {
            row.rtt_ns = Some(rtt);
            row.remote_rx_ns = far.map(|far| far.rx_ns);
            row.remote_tx_ns = far.map(|far| far.tx_ns);
            row.host_ns = Some(sent.signed_since(before).as_nanos().max(0));
        } else if status != Status::Duplicate {
            row.status = Status::Invalid;
        }
        self.ledger.rows.push_back(Row::Delay(row));
        // An answer received before the trouble was reported does not end it.
        if self.trouble.is_some() && answer.at > self.trouble_at {
            self.trouble = None;
            self.ledger.fault(now, "{\"answers_again\":true}".into());
        }
    }

    /// Handles a refusal by the far end or by the path: the probe is lost at once. Recorded once until a probe is
    /// answered.
    pub fn handle_refused(&mut self, now: Time, seq: u64, why: &str) {
        if let Some(p) = self.ledger.probe_mut(seq)
            && p.state == State::Waiting
        {
            p.state = State::Done;
            let row = self.ledger.unanswered_row(seq, Status::Lost);
            self.ledger.rows.extend(row.map(Row::Delay));
        }
        self.note_trouble(now, why);
    }

    /// Records trouble, once.
    pub fn note_trouble(&mut self, now: Time, why: &str) {
        self.trouble_at = now;
        if self.trouble.as_deref() != Some(why) {
            self.trouble = Some(why.to_owned());
            let detail = json_text(why);
            self.ledger.fault(now, format!("{{\"trouble\":{detail}}}"));
        }
    }

    /// Handles all timers that are due.
    pub fn handle_timeout(&mut self, now: Time) {
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

    /// Shifts the time labels of the rows; see [`crate::session::Session::relabel`].
    pub fn relabel(&mut self, by_ns: i64) {
        self.ledger.origin_unix_ns += by_ns;
    }

    /// Records that the host slept; see [`crate::session::Session::handle_sleep`].
    pub fn handle_sleep(&mut self, from: Time, to: Time) {
        self.ledger.slept(from, to);
    }

    fn make_room(&mut self) {
        if self.ledger.is_full() {
            self.retire();
        }
    }

    fn retire(&mut self) {
        let seq = self.ledger.first;
        let waiting = self.ledger.probe(seq).filter(|p| p.state == State::Waiting);
        if let Some(before) = waiting.map(|p| p.before) {
            let slept = self
                .ledger
                .slept_between(before, before + self.ledger.limits.lost_after);
            let status = if slept { Status::Invalid } else { Status::Lost };
            let row = self.ledger.unanswered_row(seq, status);
            self.ledger.rows.extend(row.map(Row::Delay));
        }
        self.ledger.probes.pop_front();
        self.ledger.first += 1;
    }
}

/// Text as a JSON string.
pub(crate) fn json_text(text: &str) -> String {
    let mut out = String::from("\"");
    for c in text.chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            c if u32::from(c) < 0x20 => out.push(' '),
            c => out.push(c),
        }
    }
    out.push('"');
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asker() -> Asker {
        let params = Params {
            lost_after: Duration::from_secs(10),
            kept_for: Duration::from_secs(180),
            origin_unix_ns: 0,
            target: "icmp:far".into(),
            capacity: 4096,
        };
        Asker::new(
            params,
            Slots::new(Time::ZERO, Duration::from_millis(100), 0),
        )
    }

    fn at(ms: u64) -> Answer {
        Answer {
            at: Time::from_millis(ms),
            steady: true,
            tos: None,
            far: None,
        }
    }

    fn rows(a: &mut Asker) -> Vec<(i64, Status, Option<i64>)> {
        std::iter::from_fn(|| a.poll_row())
            .filter_map(|r| match r {
                Row::Delay(d) => Some((d.seq, d.status, d.rtt_ns)),
                _ => None,
            })
            .collect()
    }

    fn send(a: &mut Asker, ms: u64) -> u64 {
        let now = Time::from_millis(ms);
        let seq = a.poll_transmit(now).unwrap();
        a.handle_sent(seq, now, now);
        seq
    }

    #[test]
    fn an_answer_after_154_seconds_is_late_and_belongs_to_its_own_probe() {
        let mut a = asker();
        let first = send(&mut a, 0);
        for ms in (100..154_000).step_by(100) {
            send(&mut a, ms);
            a.handle_timeout(Time::from_millis(ms));
        }
        assert_eq!(rows(&mut a), [], "nobody's fate is known yet");
        let now = Time::from_millis(154_690);
        a.handle_answer(now, first, at(154_690));
        assert_eq!(rows(&mut a), [(0, Status::Late, Some(154_690_000_000))]);
        // The rest are lost once three minutes are over, each exactly once.
        a.handle_timeout(Time::from_secs(154 + 180));
        let rest = rows(&mut a);
        assert_eq!(rest.len(), 1539);
        assert!(
            rest.iter()
                .all(|(_, s, rtt)| *s == Status::Lost && rtt.is_none())
        );
    }

    #[test]
    fn a_refusal_is_a_loss_that_is_explained_once() {
        let mut a = asker();
        for ms in [0, 100, 200] {
            let seq = send(&mut a, ms);
            a.handle_refused(Time::from_millis(ms), seq, "connection \"refused\"");
        }
        let seq = send(&mut a, 300);
        a.handle_answer(Time::from_millis(310), seq, at(310));
        let all: Vec<Row> = std::iter::from_fn(|| a.poll_row()).collect();
        let events: Vec<_> = all
            .iter()
            .filter_map(|r| match r {
                Row::Event(e) => Some(e.detail.to_string()),
                _ => None,
            })
            .collect();
        assert_eq!(
            events,
            [
                r#"{"trouble":"connection \"refused\""}"#,
                r#"{"answers_again":true}"#
            ]
        );
        assert_eq!(all.len(), 4 + 2);
    }

    #[test]
    fn what_was_under_way_while_the_host_slept_has_no_delay() {
        let mut a = asker();
        let before = send(&mut a, 0);
        let under_way = send(&mut a, 100);
        a.handle_answer(Time::from_millis(20), before, at(20));
        // Last polled at 110 ms, then asleep until an hour later.
        a.handle_sleep(Time::from_millis(110), Time::from_secs(3600));
        a.handle_answer(Time::from_secs(3600), under_way, at(3_600_001));
        assert_eq!(
            rows(&mut a),
            [
                (0, Status::Ok, Some(20_000_000)),
                (1, Status::Invalid, None)
            ]
        );
        send(&mut a, 3_600_100);
        let (mut missed, mut told) = (0, 0);
        while let Some(row) = a.poll_row() {
            match row {
                Row::Delay(d) => missed += u64::from(d.status == Status::NotSent),
                Row::Event(e) => {
                    told = e
                        .detail
                        .split(&[':', ','][..])
                        .nth(1)
                        .unwrap()
                        .parse()
                        .unwrap();
                }
                _ => {}
            }
        }
        // Slots at 200, 300, … 3 600 000 ms; the one of 3 600 100 ms was used.
        assert_eq!((missed, told), (10_000, 35_999 - 10_000));
    }
}
