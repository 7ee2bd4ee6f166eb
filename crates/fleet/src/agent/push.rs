//! Thread that keeps a connection to the hub between reports: it hears of plans and runs at once, and sends what running
//! measurements record while somebody looks.

use super::Joined;
use super::client::HubRefuses;
use crate::identity::Identity;
use crate::schedule::hash;
use crate::wire::{
    HELD_S, LIVE_PROBES, LiveAnswer, LiveProbe, LiveValues, WaitAnswer, WaitRequest,
};
use base::record::{Delay, Row, TableId};
use hyper::Method;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};
use store::Follow;

/// Time for an answer beyond that for which the hub holds a question.
const BEYOND: Duration = Duration::from_secs(60);
/// Pauses after the first failure and after many; each is twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(900);
/// Time between two looks at the recordings, and between two messages with nothing new.
const LIVE_EVERY: Duration = Duration::from_millis(200);
const NOTHING_EVERY: Duration = Duration::from_secs(4);
/// Age of the oldest probe that is sent when somebody begins to look.
const LIVE_SPAN_MS: i64 = 60_000;
const STOP_POLL: Duration = Duration::from_millis(200);
/// Upper estimate of the bytes of a question or message beside its values: TLS, headers and signature, with the answer.
const TALK_BYTES: u64 = 900;
const MS: i64 = 1_000_000;

/// Age of a question from which its loss may be a middlebox's.
const FORGOTTEN: Duration = Duration::from_secs(10);
/// Shortest time for which a question is held, s.
const LEAST_HELD_S: u64 = 15;
/// Answers in a row after which a question is held longer again.
const TRUSTED: u32 = 200;

/// Time for which questions are held. Each that is lost halves it: a middlebox between point and hub may forget idle connections
/// sooner than the hub answers.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Held {
    seconds: u64,
    answers: u32,
}

impl Held {
    fn answered(&mut self) {
        self.answers += 1;
        if self.answers >= TRUSTED {
            (self.seconds, self.answers) = ((2 * self.seconds).min(HELD_S), 0);
        }
    }

    fn lost(&mut self) {
        (self.seconds, self.answers) = ((self.seconds / 2).max(LEAST_HELD_S), 0);
    }
}

/// State that the agent and the thread share.
#[derive(Default)]
pub(super) struct Shared {
    /// Number of the newest plan that the agent has heard of, and of the last run out of turn that it has taken.
    pub plan: AtomicU64,
    pub asked_until: AtomicU64,
    /// True if the plan and the budget allow the connection.
    pub allowed: AtomicBool,
    /// True once the hub has news, until the agent reports.
    pub report: AtomicBool,
    /// Bytes that are not charged to the budget yet.
    pub bytes: AtomicU64,
    /// Recordings of the runs under way.
    runs: Mutex<Vec<PathBuf>>,
    stop: AtomicBool,
}

/// Thread, which ends soon after this is dropped.
pub(super) struct Push(Arc<Shared>);

impl Drop for Push {
    fn drop(&mut self) {
        self.0.stop.store(true, Ordering::Relaxed);
    }
}

impl std::ops::Deref for Push {
    type Target = Shared;
    fn deref(&self) -> &Shared {
        &self.0
    }
}

impl Push {
    pub(super) fn start(joined: Joined, identity: Arc<Identity>) -> std::io::Result<Push> {
        let shared = Arc::new(Shared::default());
        let talk = Talk {
            joined,
            identity,
            shared: shared.clone(),
        };
        std::thread::Builder::new()
            .name("push".into())
            .stack_size(512 << 10)
            .spawn(move || talk.run())?;
        Ok(Push(shared))
    }
}

impl Shared {
    fn runs(&self) -> MutexGuard<'_, Vec<PathBuf>> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn set_runs(&self, runs: Vec<PathBuf>) {
        *self.runs() = runs;
    }
}

struct Talk {
    joined: Joined,
    identity: Arc<Identity>,
    shared: Arc<Shared>,
}

impl Talk {
    fn run(&self) {
        let mut failures = 0u32;
        let mut held = Held {
            seconds: HELD_S,
            answers: 0,
        };
        while !self.is_over() {
            if !self.shared.allowed.load(Ordering::Relaxed) {
                std::thread::sleep(STOP_POLL);
                continue;
            }
            let before = held;
            // A connection that breaks is made anew. Its failure is nobody's news: reports tell if the hub is away.
            let Err(e) = self.converse(&mut held) else {
                continue;
            };
            if held != before {
                // It was open: what broke it is no hub that is away.
                failures = 0;
            }
            failures = match e.downcast_ref::<HubRefuses>() {
                // A hub before this one, or the end of this point's access.
                Some(_) => u32::MAX,
                None => failures.saturating_add(1),
            };
            let pause = (FIRST_PAUSE * 2u32.pow(failures.min(9) - 1)).min(LONGEST_PAUSE);
            let share = hash(&[&self.joined.point, &failures.to_string()]) % 1000;
            self.rest(pause.mul_f64(0.5 + share as f64 / 2000.0));
        }
    }

    fn is_over(&self) -> bool {
        self.shared.stop.load(Ordering::Relaxed)
    }

    /// Sleeps, but not beyond the agent's end.
    fn rest(&self, pause: Duration) {
        let end = Instant::now() + pause;
        while !self.is_over() && Instant::now() < end {
            std::thread::sleep(STOP_POLL.min(end.saturating_duration_since(Instant::now())));
        }
    }

    fn charge(&self, bytes: u64) {
        self.shared
            .bytes
            .fetch_add(TALK_BYTES + bytes, Ordering::Relaxed);
    }

    /// Asks for news until the connection breaks or the plan ends it.
    fn converse(&self, held: &mut Held) -> anyhow::Result<()> {
        let mut client = self.joined.client(self.identity.clone())?;
        while !self.is_over() && self.shared.allowed.load(Ordering::Relaxed) {
            let knows = WaitRequest {
                plan: self.shared.plan.load(Ordering::Relaxed),
                asked_until: self.shared.asked_until.load(Ordering::Relaxed),
                held_s: held.seconds,
            };
            self.charge(0);
            let body = serde_json::to_vec(&knows)?;
            client.answers_within(Duration::from_secs(held.seconds) + BEYOND);
            let asked = Instant::now();
            let answer = client.call(Method::POST, "/v1/wait", None, body);
            match &answer {
                Ok(_) => held.answered(),
                // At once is a hub that is away or refuses.
                Err(_) if asked.elapsed() >= FORGOTTEN => held.lost(),
                Err(_) => {}
            }
            let news: WaitAnswer = answer?;
            if let Some(within_s) = news.report_within_s {
                let turn = hash(&[&self.joined.point, &knows.plan.to_string()]) % (within_s + 1);
                self.rest(Duration::from_secs(turn));
                self.shared.report.store(true, Ordering::Relaxed);
                while self.shared.report.load(Ordering::Relaxed) && !self.is_over() {
                    std::thread::sleep(STOP_POLL);
                }
                // A report that brought nothing is not repeated at once.
                if knows.plan == self.shared.plan.load(Ordering::Relaxed)
                    && knows.asked_until == self.shared.asked_until.load(Ordering::Relaxed)
                {
                    self.rest(LONGEST_PAUSE);
                }
            }
            if news.live {
                self.show(&mut client)?;
                self.rest(LIVE_EVERY);
            }
        }
        Ok(())
    }

    /// Sends what the runs under way record, while somebody looks.
    fn show(&self, client: &mut super::Client) -> anyhow::Result<()> {
        let mut followed: Vec<(PathBuf, Follow)> = Vec::new();
        let mut last = Instant::now();
        while !self.is_over() && self.shared.allowed.load(Ordering::Relaxed) {
            let runs = self.shared.runs().clone();
            followed.retain(|(path, _)| runs.contains(path));
            for path in runs {
                if !followed.iter().any(|(p, _)| *p == path) {
                    let rows = Follow::new(&path, TableId::Delay);
                    followed.push((path, rows));
                }
            }
            let probes = fresh(&mut followed);
            if probes.is_empty() && last.elapsed() < NOTHING_EVERY {
                std::thread::sleep(LIVE_EVERY);
                continue;
            }
            last = Instant::now();
            let body = serde_json::to_vec(&LiveValues { probes })?;
            self.charge(body.len() as u64);
            let answer: LiveAnswer = client.call(Method::POST, "/v1/live", None, body)?;
            if !answer.go_on {
                break;
            }
            std::thread::sleep(LIVE_EVERY);
        }
        Ok(())
    }
}

/// Newest of the probes that the recordings have gained. The first time, those of the last minute.
fn fresh(followed: &mut [(PathBuf, Follow)]) -> Vec<LiveProbe> {
    let mut probes = Vec::new();
    for (path, rows) in followed {
        let run = path.file_name().unwrap_or_default().to_string_lossy();
        let mut of_run: Vec<Delay> = Vec::new();
        // A recording that cannot be read is judged when it is closed.
        let _ = rows.rows(&mut |row| {
            if let Row::Delay(row) = row {
                let newest = of_run.last().map_or(i64::MIN, |d| d.sent_ns);
                // A day of probes at once takes no more memory than its last minute.
                if of_run.len() >= 2 * LIVE_PROBES {
                    of_run.retain(|d| d.sent_ns > newest - LIVE_SPAN_MS * MS);
                    let excess = of_run.len().saturating_sub(LIVE_PROBES);
                    of_run.drain(..excess);
                }
                of_run.push(row);
            }
        });
        let newest = of_run.iter().map(|d| d.sent_ns).max().unwrap_or(0);
        of_run.retain(|d| d.sent_ns > newest - LIVE_SPAN_MS * MS);
        probes.extend(of_run.into_iter().map(|d| LiveProbe {
            run: run.clone().into_owned(),
            target: d.target.to_string(),
            seq: d.seq,
            sent_ms: d.sent_ns.div_euclid(MS),
            rtt_ms: d.rtt_ns.map(|ns| ns as f64 / MS as f64),
        }));
    }
    let excess = probes.len().saturating_sub(LIVE_PROBES);
    probes.drain(..excess);
    probes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_middlebox_that_forgets_after_a_minute_loses_two_questions_and_later_one_in_200() {
        let mut held = Held {
            seconds: HELD_S,
            answers: 0,
        };
        let mut lost = 0;
        for _ in 0..1000 {
            if held.seconds > 60 {
                held.lost();
                lost += 1;
            } else {
                held.answered();
            }
        }
        assert_eq!(lost, 2 + 4);
        for _ in 0..20 {
            held.lost();
        }
        assert_eq!(held.seconds, LEAST_HELD_S);
        for _ in 0..4 * TRUSTED {
            held.answered();
        }
        assert_eq!(held.seconds, HELD_S);
    }
}
