//! Probes of one target as a text tool tells them: by their index, with or without a time, the lost ones often by
//! their absence only.

use super::file::{Imported, Settings};
use super::out::Out;
use base::record::{Delay, Status, Text};

const SECOND_NS: i64 = 1_000_000_000;
/// An index further from the one before it is damage: nobody loses a million probes in a row and goes on counting.
const LONGEST_GAP: i64 = 1_000_000;

#[derive(Clone, Copy)]
struct Seen {
    index: i64,
    /// When it left, where the text says it.
    sent_ns: Option<i64>,
    /// When it was given up, where the text says it: later than it left by a time-out that the text does not say.
    given_up_ns: Option<i64>,
    rtt_ns: Option<i64>,
    status: Status,
}

pub struct Train {
    target: Text,
    seen: Vec<Seen>,
    /// How many the tool says it sent.
    pub transmitted: Option<i64>,
    /// How many answers the tool counts, for comparison.
    pub received: Option<i64>,
    /// Time between probes, where the text tells it.
    pub interval_ns: Option<i64>,
    /// Index of the first probe, where the tool fixes it.
    pub first: Option<i64>,
}

impl Train {
    pub fn new(target: &str) -> Train {
        Train {
            target: target.into(),
            seen: Vec::new(),
            transmitted: None,
            received: None,
            interval_ns: None,
            first: None,
        }
    }

    pub fn is_empty(&self) -> bool {
        self.seen.is_empty() && self.transmitted.is_none()
    }

    /// Index of the latest probe, for counters that wrap.
    pub fn last(&self) -> Option<i64> {
        self.seen.last().map(|s| s.index)
    }

    /// Whether a probe of this index can follow those seen so far.
    pub fn follows(&self, index: i64) -> bool {
        index >= 0 && (index - self.last().or(self.first).unwrap_or(index)).abs() <= LONGEST_GAP
    }

    /// `received_ns`: when the answer came.
    pub fn answer(&mut self, index: i64, received_ns: Option<i64>, rtt_ns: i64, duplicate: bool) {
        self.seen.push(Seen {
            index,
            sent_ns: received_ns.map(|t| t.saturating_sub(rtt_ns)),
            given_up_ns: None,
            rtt_ns: Some(rtt_ns),
            status: if duplicate {
                Status::Duplicate
            } else {
                Status::Ok
            },
        });
    }

    /// `at_ns`: when the tool said so.
    pub fn lost(&mut self, index: i64, at_ns: Option<i64>) {
        self.seen.push(Seen {
            given_up_ns: at_ns,
            ..absent(index)
        });
    }

    /// One row a probe: those that the text passes over are lost, and have the time that their index has between
    /// those around them.
    pub fn finish(mut self, settings: &Settings, out: &mut Out, told: &mut Imported) {
        // An answer outweighs an earlier "no answer yet" for the same probe.
        self.seen
            .sort_by_key(|s| (s.index, s.status == Status::Duplicate, s.rtt_ns.is_none()));
        let mut rows: Vec<Seen> = Vec::new();
        for s in self.seen {
            match rows.last() {
                Some(r) if r.index == s.index && s.rtt_ns.is_none() => {}
                _ => rows.push(s),
            }
        }
        let first = self
            .first
            .or(rows.first().map(|r| r.index))
            .unwrap_or_default();
        let most = rows.last().map_or(first, |r| r.index) + LONGEST_GAP;
        let transmitted = self.transmitted.filter(|n| (0..=most - first).contains(n));
        if transmitted != self.transmitted {
            told.notes.push(format!(
                "{}: the text says that {} probes were sent, which cannot be; probes after the last answer are not counted",
                self.target,
                self.transmitted.unwrap_or_default()
            ));
        }
        let end = match (rows.last(), transmitted) {
            (last, Some(n)) => (first + n).max(last.map_or(first, |r| r.index + 1)),
            (Some(last), None) => last.index + 1,
            (None, None) => return,
        };
        let mut whole: Vec<Seen> = Vec::with_capacity(rows.len());
        let mut next = first;
        for row in rows {
            while next < row.index {
                whole.push(absent(next));
                next += 1;
            }
            next = row.index + 1;
            whole.push(row);
        }
        whole.extend((next..end).map(absent));

        let answered = whole.iter().filter(|r| r.status == Status::Ok).count() as i64;
        if let Some(count) = self.received
            && count != answered
        {
            told.notes.push(format!(
                "{}: {answered} answers stand in the text, its own summary counts {count}",
                self.target
            ));
        }
        let stamps = |of: fn(&Seen) -> Option<i64>| -> Vec<(i64, i64)> {
            let stamped = whole.iter().filter_map(|r| Some((r.index, of(r)?)));
            stamped.collect()
        };
        let mut known = stamps(|r| r.sent_ns);
        if known.is_empty() {
            known = stamps(|r| r.given_up_ns);
        }
        let interval_ns = match known[..] {
            [(i0, t0), .., (i1, t1)] if i1 > i0 => t1.saturating_sub(t0) / (i1 - i0),
            _ => settings
                .interval_ns
                .or(self.interval_ns)
                .unwrap_or(SECOND_NS),
        };
        if known.is_empty() {
            told.notes.push(format!(
                "{}: the text has no times: those of its probes are reckoned, {} ms apart from the start on",
                self.target,
                interval_ns as f64 / 1e6
            ));
        }
        // Damaged times may be as far apart as an i64 goes.
        let later = |t: i64, step: i64, count: i64| t.saturating_add(step.saturating_mul(count));
        let mut around = 0;
        for row in whole {
            while known.get(around).is_some_and(|(i, _)| *i < row.index) {
                around += 1;
            }
            let before = around.checked_sub(1).map(|i| known[i]);
            let sent_ns = row
                .sent_ns
                .unwrap_or_else(|| match (before, known.get(around)) {
                    (Some((i0, t0)), Some((i1, t1))) if *i1 > i0 => {
                        later(t0, t1.saturating_sub(t0) / (i1 - i0), row.index - i0)
                    }
                    (Some((i0, t0)), _) => later(t0, interval_ns, row.index - i0),
                    (None, Some((i1, t1))) => later(*t1, interval_ns, row.index - i1),
                    (None, None) => later(settings.start_ns, interval_ns, row.index - first),
                });
            out.push(&Delay {
                rtt_ns: row.rtt_ns,
                status: row.status,
                ..Delay::unanswered(sent_ns, row.index, self.target.clone())
            });
        }
    }
}

fn absent(index: i64) -> Seen {
    Seen {
        index,
        sent_ns: None,
        given_up_ns: None,
        rtt_ns: None,
        status: Status::Lost,
    }
}
