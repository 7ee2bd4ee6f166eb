//! Log of a server for machines: one entry for each session that ends, each refusal and each reading of the key file.
//!
//! Entries pass through a bounded channel, so a reader that stands still delays nobody. Their number is limited; the
//! next entry counts those that were left out.

use super::sync::lock;
use crate::clock::Clock;
use base::Duration;
use measure::control::Refusal;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Mutex};

/// Entries a second in the long run, and the largest burst.
const PER_SECOND: f64 = 20.0;
const AT_ONCE: f64 = 200.0;

/// Entry of the log.
#[derive(Clone, Debug, PartialEq, serde::Serialize)]
pub struct Entry {
    /// UNIX time, ns.
    pub time_ns: i64,
    pub event: Happened,
    /// Address of the client, without port; absent if no client is concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub client: Option<IpAddr>,
    /// User whose key the client has; absent if the server needs no keys, and in refusals.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub user: Option<Arc<str>>,
    /// Kind of the session or of the request, such as `download`.
    pub what: &'static str,
    /// Payload bytes that the session moved, both directions combined.
    pub bytes: u64,
    /// Length of the session.
    #[serde(serialize_with = "seconds", rename = "duration_s")]
    pub duration: Duration,
    /// End of a session, or reason of a refusal, such as `time-up` or `busy`.
    pub why: &'static str,
    /// Reason in words; empty for sessions.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub text: String,
    /// Entries that were left out before this one.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Happened {
    Session,
    Refused,
    /// Result of reading the key file.
    Keys,
}

fn seconds<S: serde::Serializer>(d: &Duration, s: S) -> Result<S::Ok, S::Error> {
    s.serialize_f64(d.as_secs_f64())
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

/// Name of a refusal in the log and in the counters.
pub fn name(why: Refusal) -> &'static str {
    match why {
        Refusal::WrongKey => "wrong_key",
        Refusal::KeyNeeded => "key_needed",
        Refusal::Busy => "busy",
        Refusal::Loaded => "loaded",
        Refusal::Spent => "spent",
        Refusal::UnknownCongestion => "unknown_congestion",
        Refusal::UnknownSession => "unknown_session",
        Refusal::Malformed => "malformed",
        Refusal::Failed => "failed",
        Refusal::Forbidden => "forbidden",
    }
}

/// Number of entries and sum of their bytes, by event, kind and reason.
pub type Counts = BTreeMap<(&'static str, &'static str, &'static str), (u64, u64)>;

struct Pace {
    level: f64,
    at_ns: i64,
    left_out: u64,
    left_out_in_all: u64,
    counts: Counts,
}

impl Entry {
    /// Entry about a client, whose time the journal fills in.
    pub fn about(event: Happened, client: IpAddr) -> Entry {
        Entry {
            client: Some(client),
            ..Entry::of(event)
        }
    }

    /// Entry that concerns no client.
    pub fn of(event: Happened) -> Entry {
        Entry {
            time_ns: 0,
            event,
            client: None,
            user: None,
            what: "",
            bytes: 0,
            duration: Duration::ZERO,
            why: "",
            text: String::new(),
            left_out: 0,
        }
    }
}

/// Sender of entries.
pub struct Journal {
    clock: Clock,
    to: Option<SyncSender<Entry>>,
    pace: Mutex<Pace>,
}

impl Journal {
    pub fn new(to: Option<SyncSender<Entry>>, clock: Clock) -> Journal {
        let pace = Pace {
            level: AT_ONCE,
            at_ns: i64::MIN,
            left_out: 0,
            left_out_in_all: 0,
            counts: Counts::new(),
        };
        Journal {
            clock,
            to,
            pace: Mutex::new(pace),
        }
    }

    /// All entries so far, those left out included, and the number of those.
    pub fn counts(&self) -> (Counts, u64) {
        let pace = lock(&self.pace);
        (pace.counts.clone(), pace.left_out_in_all)
    }

    /// Hands an entry on, or leaves it out if there have been too many. Never waits.
    pub fn write(&self, entry: Entry) {
        let time_ns = self.clock.unix_ns();
        self.write_at(Entry { time_ns, ..entry });
    }

    fn write_at(&self, mut entry: Entry) {
        let mut pace = lock(&self.pace);
        let event = match entry.event {
            Happened::Session => "session",
            Happened::Refused => "refused",
            Happened::Keys => "keys",
        };
        let count = pace
            .counts
            .entry((event, entry.what, entry.why))
            .or_default();
        *count = (count.0 + 1, count.1.saturating_add(entry.bytes));
        let Some(to) = &self.to else {
            return;
        };
        let since = entry.time_ns.saturating_sub(pace.at_ns).max(0);
        pace.level = (pace.level + since as f64 / 1e9 * PER_SECOND).min(AT_ONCE);
        pace.at_ns = entry.time_ns;
        entry.left_out = pace.left_out;
        if pace.level >= 1.0 && to.try_send(entry).is_ok() {
            pace.level -= 1.0;
            pace.left_out = 0;
        } else {
            pace.left_out += 1;
            pace.left_out_in_all += 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(time_ns: i64) -> Entry {
        Entry {
            time_ns,
            event: Happened::Refused,
            client: Some([192, 0, 2, 1].into()),
            user: Some("anna".into()),
            what: "request",
            bytes: 0,
            duration: Duration::ZERO,
            why: name(Refusal::Busy),
            text: "full".into(),
            left_out: 0,
        }
    }

    #[test]
    fn entries_are_limited_and_those_left_out_are_counted() {
        let (to, from) = std::sync::mpsc::sync_channel(1000);
        let journal = Journal::new(Some(to), Clock::start());
        for _ in 0..1000 {
            journal.write_at(entry(0));
        }
        assert_eq!(from.try_iter().count(), AT_ONCE as usize);
        journal.write_at(entry(1_000_000_000));
        let after = from.try_recv().expect("a second later there is room");
        assert_eq!(after.left_out, 1000 - AT_ONCE as u64);
        let line = serde_json::to_string(&after).expect("plain data");
        let expected = r#"{"time_ns":1000000000,"event":"refused","client":"192.0.2.1","user":"anna","what":"request","bytes":0,"duration_s":0.0,"why":"busy","text":"full","left_out":800}"#;
        assert_eq!(line, expected);
    }

    #[test]
    fn a_reader_that_stands_still_delays_nobody() {
        let (to, _from) = std::sync::mpsc::sync_channel(1);
        let journal = Journal::new(Some(to), Clock::start());
        for n in 0..10 {
            journal.write_at(entry(n));
        }
        assert_eq!(lock(&journal.pace).left_out, 9);
    }
}
