//! News for points between their reports, and live values of the points that somebody looks at.
//!
//! A point asks for news and the hub answers once it has some, so a plan, a run out of turn or a look at its live values
//! reaches a point within a second, whatever address translation lies between them.

use super::{Hub, lock};
use crate::unix_s;
use crate::wire::{HELD_S, LIVE_PROBES, LiveProbe, WaitAnswer, WaitRequest};
use serde::Serialize;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::sync::watch;
use tokio::time::timeout;

/// Questions of one point that are held at a time: a new connection may come before the hub has noticed the end of the one before.
const QUESTIONS: usize = 4;
/// Reports in a second, after a new plan.
const REPORTS_PER_S: u64 = 50;
/// Points whose questions are held at a time; others hear of news with their reports.
const POINTS: usize = 4096;
/// Time since the last request for a point's live values after which nobody looks.
const LOOKING: Duration = Duration::from_secs(10);
/// Points that are looked at, at a time, and probes that are kept of each.
const LOOKED_AT: usize = 32;
const PROBES: usize = 6000;
/// Longest name of a target or run.
const NAME: usize = 200;
/// Time since a point's last message after which it counts as away.
const HEARD: Duration = Duration::from_secs(12);

/// All that points may be told.
#[derive(Clone, Debug, Default, PartialEq)]
struct Told {
    /// Number of the present plan.
    plan: u64,
    /// Number of the last run out of turn, by point.
    asked: BTreeMap<String, u64>,
    looked_at: Vec<String>,
}

impl Told {
    /// Answer to a point while so many wait.
    fn answer(&self, point: &str, knows: &WaitRequest, waiting: usize) -> WaitAnswer {
        let asked = self.asked.get(point).copied().unwrap_or(0);
        let spread_s = waiting as u64 / REPORTS_PER_S;
        let report_within_s = match () {
            () if asked > knows.asked_until => Some(0),
            () if self.plan > knows.plan => Some(spread_s),
            () => None,
        };
        WaitAnswer {
            report_within_s,
            live: self.looked_at.iter().any(|p| p == point),
        }
    }
}

/// Live values of a point.
struct Tail {
    asked: Instant,
    /// Number of the first probe in `probes`, of all that came.
    first: u64,
    probes: VecDeque<LiveProbe>,
}

/// Points that wait for news, and live values.
#[derive(Default)]
pub struct Push {
    told: watch::Sender<Told>,
    waiting: AtomicUsize,
    /// Time of the last question or message of each point that is connected, and its open questions.
    heard: Mutex<BTreeMap<String, (Instant, usize)>>,
    tails: Mutex<BTreeMap<String, Tail>>,
}

/// Live values of a point for the page, since a number.
#[derive(Serialize)]
pub(super) struct Since {
    /// True if the point is connected.
    pub connected: bool,
    /// Number from which to go on.
    pub next: u64,
    pub probes: Vec<LiveProbe>,
}

/// Question that the hub holds, until it is dropped.
struct Held<'p> {
    push: &'p Push,
    point: &'p str,
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.push.waiting.fetch_sub(1, Ordering::Relaxed);
        if let Some((at, questions)) = lock(&self.push.heard).get_mut(self.point) {
            *at = Instant::now();
            *questions = questions.saturating_sub(1);
        }
    }
}

impl Push {
    /// Number of questions that are held.
    pub(super) fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Relaxed)
    }

    /// Takes a place for a question; nothing if there is none.
    fn hold<'p>(&'p self, point: &'p str) -> Option<Held<'p>> {
        let mut heard = lock(&self.heard);
        let (_, questions) = heard.entry(point.to_owned()).or_insert((Instant::now(), 0));
        if self.waiting() >= POINTS || *questions >= QUESTIONS {
            return None;
        }
        *questions += 1;
        self.waiting.fetch_add(1, Ordering::Relaxed);
        Some(Held { push: self, point })
    }

    /// Answers once there is news for a point, or when its time is over. Nothing if too many wait.
    pub(super) async fn wait(&self, point: &str, knows: &WaitRequest) -> Option<WaitAnswer> {
        let _held = self.hold(point)?;
        let answer = |told: &Told| told.answer(point, knows, self.waiting());
        let mut told = self.told.subscribe();
        let news = told.wait_for(|told| answer(told) != WaitAnswer::default());
        let held = Duration::from_secs(knows.held_s.clamp(1, HELD_S));
        Some(match timeout(held, news).await {
            Ok(Ok(told)) => answer(&told),
            _ => WaitAnswer::default(),
        })
    }

    /// Takes live values of a point; true while somebody looks.
    pub(super) fn take(&self, point: &str, probes: Vec<LiveProbe>) -> bool {
        let now = Instant::now();
        lock(&self.heard)
            .entry(point.to_owned())
            .or_insert((now, 0))
            .0 = now;
        let mut tails = lock(&self.tails);
        let Some(tail) = tails.get_mut(point) else {
            return false;
        };
        let short = |text: &str| -> String { base::text::clean(text).chars().take(NAME).collect() };
        let probes = probes.into_iter().take(LIVE_PROBES);
        tail.probes.extend(probes.map(|p| LiveProbe {
            run: short(&p.run),
            target: short(&p.target),
            ..p
        }));
        let excess = tail.probes.len().saturating_sub(PROBES);
        tail.probes.drain(..excess);
        tail.first += excess as u64;
        true
    }

    /// Returns the live values of a point from number `since` on, and notes that somebody looks. Nothing if too many points are
    /// looked at.
    pub(super) fn look(&self, point: &str, since: u64) -> Option<Since> {
        let mut tails = lock(&self.tails);
        let is_new = !tails.contains_key(point);
        if is_new && tails.len() >= LOOKED_AT {
            return None;
        }
        let now = Instant::now();
        let tail = tails.entry(point.to_owned()).or_insert_with(|| Tail {
            asked: now,
            first: 0,
            probes: VecDeque::new(),
        });
        tail.asked = now;
        let next = tail.first + tail.probes.len() as u64;
        // A page of an earlier look begins anew.
        let since = if since > next { 0 } else { since };
        let skipped = since.saturating_sub(tail.first) as usize;
        let probes = tail.probes.iter().skip(skipped).cloned().collect();
        if is_new {
            let all: Vec<String> = tails.keys().cloned().collect();
            self.told.send_modify(|told| told.looked_at = all);
        }
        drop(tails);
        let heard = lock(&self.heard);
        let is_here = |&(at, questions): &(Instant, usize)| questions > 0 || at.elapsed() < HEARD;
        Some(Since {
            connected: heard.get(point).is_some_and(is_here),
            next,
            probes,
        })
    }

    /// Tells points of plans and runs that the operator has put into the ledger, and forgets what nobody looks at.
    pub(super) fn refresh(&self, hub: &Hub) -> anyhow::Result<()> {
        let (plan, asked) = {
            let ledger = hub.ledger();
            let plan = ledger.plan()?.map_or(0, |plan| plan.number);
            (plan, ledger.last_asked(unix_s())?)
        };
        lock(&self.heard).retain(|_, (at, questions)| *questions > 0 || at.elapsed() < HEARD);
        // Held to the end: a point whose message finds no tail must not be told to look for one.
        let mut tails = lock(&self.tails);
        tails.retain(|_, tail| tail.asked.elapsed() < LOOKING);
        let fresh = Told {
            plan,
            asked,
            looked_at: tails.keys().cloned().collect(),
        };
        self.told.send_if_modified(|told| {
            let differs = *told != fresh;
            *told = fresh;
            differs
        });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn probe(seq: i64) -> LiveProbe {
        LiveProbe {
            run: "watch.1.rec".into(),
            target: "far\u{1b}[2J".into(),
            seq,
            sent_ms: seq * 100,
            rtt_ms: Some(1.0),
        }
    }

    #[test]
    fn a_look_brings_each_probe_once_and_nothing_is_kept_for_nobody() {
        let push = Push::default();
        assert!(!push.take("a", vec![probe(0)]), "nobody looks");
        let first = push.look("a", 0).unwrap();
        assert_eq!((first.next, first.probes.len()), (0, 0));
        assert!(first.connected, "it has just sent something");
        let mut next = first.next;
        let mut seen = Vec::new();
        for round in 0..20 {
            let some = (0..LIVE_PROBES as i64).map(|i| probe(round * 500 + i));
            assert!(push.take("a", some.collect()));
            let since = push.look("a", next).unwrap();
            seen.extend(since.probes.iter().map(|p| p.seq));
            next = since.next;
        }
        assert_eq!(seen, (0..10_000).collect::<Vec<_>>());
        // Who comes late gets the newest; a number of an earlier hub begins anew.
        for since in [0, u64::MAX] {
            let late = push.look("a", since).unwrap();
            assert_eq!(late.probes.len(), PROBES);
            assert!(late.probes[0].target.chars().all(|c| !c.is_control()));
        }
        assert!(!push.look("b", 0).unwrap().connected);
        let others = (2..LOOKED_AT + 5).filter(|i| push.look(&format!("p{i}"), 0).is_some());
        assert_eq!(others.count(), LOOKED_AT - 2);
    }

    #[test]
    fn a_point_takes_few_places_and_gives_them_back() {
        let push = Push::default();
        let held: Vec<_> = (0..QUESTIONS + 3).map(|_| push.hold("a")).collect();
        assert_eq!(held.iter().flatten().count(), QUESTIONS);
        assert!(push.hold("b").is_some());
        assert_eq!(push.waiting(), QUESTIONS);
        drop(held);
        assert_eq!(push.waiting(), 0);
        assert!(push.hold("a").is_some());
    }

    #[test]
    fn a_point_is_told_what_concerns_it_alone() {
        let told = Told {
            plan: 3,
            asked: [("a".into(), 7)].into(),
            looked_at: vec!["b".into()],
        };
        let says = |point: &str, plan, asked_until| {
            let answer = told.answer(
                point,
                &WaitRequest {
                    plan,
                    asked_until,
                    held_s: HELD_S,
                },
                1000,
            );
            (answer.report_within_s, answer.live)
        };
        assert_eq!(says("a", 3, 6), (Some(0), false));
        assert_eq!(says("a", 2, 6), (Some(0), false));
        assert_eq!(says("a", 3, 7), (None, false));
        assert_eq!(says("b", 3, 0), (None, true));
        assert_eq!(says("c", 2, 0), (Some(20), false));
        assert_eq!(says("c", 4, 0), (None, false));
    }
}
