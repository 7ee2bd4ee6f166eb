//! Probes of one target as printed by a text tool: by index, with or without a time; lost ones often are only missing.

use super::file::{Imported, Settings};
use super::out::Out;
use base::record::{Delay, Status, Text};

const SECOND_NS: i64 = 1_000_000_000;
/// Largest gap between indexes; a larger one is damage, because nobody loses a million probes in a row.
const LONGEST_GAP: i64 = 1_000_000;

#[derive(Clone, Copy)]
struct Seen {
    index: i64,
    /// Send time, if the text gives it.
    sent_ns: Option<i64>,
    /// Time at which the tool gave up, if the text gives it: the send time plus an unknown time-out.
    given_up_ns: Option<i64>,
    rtt_ns: Option<i64>,
    status: Status,
}

pub struct Train {
    target: Text,
    seen: Vec<Seen>,
    /// Number of probes sent, as the tool reports.
    pub transmitted: Option<i64>,
    /// Number of answers, as the tool reports, for comparison.
    pub received: Option<i64>,
    /// Time between probes, if the text gives it.
    pub interval_ns: Option<i64>,
    /// Index of the first probe, if the tool fixes it.
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

    /// Returns the index of the latest probe, for counters that wrap.
    pub fn last(&self) -> Option<i64> {
        self.seen.last().map(|s| s.index)
    }

    /// True if a probe of this index can follow those seen so far.
    pub fn follows(&self, index: i64) -> bool {
        index >= 0 && (index - self.last().or(self.first).unwrap_or(index)).abs() <= LONGEST_GAP
    }

    /// Adds an answer. `received_ns`: its arrival time.
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

    /// Adds a lost probe. `at_ns`: time at which the tool reported it.
    pub fn lost(&mut self, index: i64, at_ns: Option<i64>) {
        self.seen.push(Seen {
            given_up_ns: at_ns,
            ..absent(index)
        });
    }

    /// Writes one row per probe. Probes missing from the text are lost; their time is interpolated by index.
    pub fn finish(mut self, settings: &Settings, out: &mut Out, told: &mut Imported) {
        // An answer overrides an earlier "no answer yet" for the same probe.
        self.seen
            .sort_by_key(|s| (s.index, s.status == Status::Duplicate, s.rtt_ns.is_none()));
        let mut rows: Vec<Seen> = Vec::new();
        for s in std::mem::take(&mut self.seen) {
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

        self.place(whole, first, settings, out, told);
    }

    /// Hands on a row of each probe, with the times that the text lacks put between those it has.
    fn place(
        self,
        whole: Vec<Seen>,
        first: i64,
        settings: &Settings,
        out: &mut Out,
        told: &mut Imported,
    ) {
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
        // Damaged times may be as far apart as the range of an i64.
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
