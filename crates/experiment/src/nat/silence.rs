//! Lifetime of a silent socket: many sockets at once, each silent for another time. Then the server is asked over TCP
//! to send to them. Nothing that leaves this host keeps any of them alive meanwhile.

use super::steps::{ANSWER_WITHIN, Own, Run, TRIES};
use base::noted::nat::NatNote;
use base::{Duration, Time};
use measure::control::listen::Knocked;
use std::collections::VecDeque;

/// Number of silences; with the ratio below one is a sixth longer than the one before.
const SILENCES: u32 = 24;
/// Ratio of the longest silence to the shortest.
const RATIO: f64 = 32.0;
/// Time of talk in both directions after which Linux takes a flow for a stream (`nf_conntrack_udp_timeout_stream`).
const LINUX_TALK: Duration = Duration::from_secs(2);
/// The same with a margin.
const TALK: Duration = Duration::from_millis(2500);
/// Datagrams that the server sends to a socket: one that is lost on the path must not count as filtered.
const WAKES: u32 = 3;
const TICK: Duration = Duration::from_millis(100);
/// Numbers of these sockets.
const FIRST: u32 = 2000;
/// Cost of such a socket at most: its datagrams, its part of a report, the order to send to it.
pub(super) const COST: u64 =
    2 * SILENCES as u64 * (3 * TRIES as u64 * 2 * 80 + 3 * 250 + WAKES as u64 * 300);
const STAGE: &str = "how long it remembers a silent socket";

/// Socket during its silence.
struct Silent {
    own: Own,
    talked: bool,
    silence: Duration,
    /// Times of the latest datagram sent, and of the latest answer.
    sent: Time,
    heard: Option<Time>,
    /// Time of the first datagram sent.
    began: Option<Time>,
    /// External address, from the answer.
    external: Option<Knocked>,
}

impl Silent {
    fn due(&self) -> Time {
        self.heard.unwrap_or(self.sent) + self.silence
    }
}

/// Socket that was sent to, and the time until which that may arrive.
struct Woken {
    own: Own,
    talked: bool,
    /// Contents of the datagrams that it is sent.
    marks: Vec<Vec<u8>>,
    least: Duration,
    most: Duration,
    until: Time,
}

/// Silences to try, shortest first.
fn ladder(longest: Duration) -> Vec<Duration> {
    let steps = f64::from(SILENCES - 1);
    let shorter = |i: u32| RATIO.powf((f64::from(i) - steps) / steps);
    (0..SILENCES)
        .map(|i| Duration::from_nanos((longest.as_nanos() as f64 * shorter(i)) as u64))
        .collect()
}

impl Run {
    /// Runs the test of RFC 4787 section 4.3.
    pub(super) async fn lifetime(&self, longest: Duration) {
        self.stage(STAGE).await;
        let mut all = Vec::new();
        for (i, silence) in ladder(longest).into_iter().enumerate() {
            for talked in [false, true] {
                all.push(Silent {
                    own: self.own(FIRST + 2 * i as u32 + u32::from(talked)).await,
                    talked,
                    silence,
                    sent: Time::ZERO,
                    heard: None,
                    began: None,
                    external: None,
                });
            }
        }
        let began = self.course.now();
        for part in 0..3 {
            self.until(began + TALK / 2 * part).await;
            // Those that ask but once do so last, when the others have talked.
            self.exchange(&mut all, |s| s.talked || part == 2).await;
        }
        all.sort_by_key(Silent::due);
        let mut woken: VecDeque<Woken> = VecDeque::new();
        for s in &all {
            self.until(s.due()).await;
            woken.extend(self.wake(s).await);
            while woken.front().is_some_and(|w| self.course.now() >= w.until) {
                self.tell(woken.pop_front()).await;
            }
        }
        while let Some(last) = woken.pop_front() {
            self.until(last.until).await;
            self.tell(Some(last)).await;
        }
    }

    async fn until(&self, at: Time) {
        loop {
            self.stage(STAGE).await;
            let left = at.saturating_since(self.course.now());
            if left == Duration::ZERO {
                return;
            }
            self.course.wait(left.min(TICK)).await;
        }
    }

    /// Lets each of these sockets ask until it is answered; an unanswered one asks again.
    async fn exchange(&self, all: &mut [Silent], its: impl Fn(&Silent) -> bool) {
        let Some(to) = self.at(0) else { return };
        let mut waiting: Vec<usize> = (0..all.len()).filter(|i| its(&all[*i])).collect();
        for _ in 0..TRIES {
            for &i in &waiting {
                let s = &mut all[i];
                self.send(s.own, to, &self.payload(s.own)).await;
                s.sent = self.course.now();
                s.began.get_or_insert(s.sent);
            }
            // All have the same time, which the first that is not answered uses up.
            let until = self.course.now() + ANSWER_WITHIN;
            let mut silent = Vec::new();
            for i in waiting {
                let s = &mut all[i];
                let left = until.saturating_since(self.course.now());
                let left = left.max(Duration::from_millis(1));
                if let Some(knocked) = self.answer(s.own, to, left).await {
                    s.heard = Some(self.course.now());
                    s.external = Some(knocked);
                }
                // One answer is enough for each time it asks.
                if s.heard.is_none_or(|heard| heard < s.sent) {
                    silent.push(i);
                }
            }
            waiting = silent;
            if waiting.is_empty() {
                break;
            }
            self.stage(STAGE).await;
        }
    }

    /// Asks the server to send to it.
    async fn wake(&self, s: &Silent) -> Option<Woken> {
        let (external, heard) = (s.external?, s.heard?);
        let talked_for = heard.saturating_since(s.began?);
        // One that had to ask again and again has talked, too.
        if !s.talked && talked_for + TICK > LINUX_TALK {
            return None;
        }
        let mut marks = Vec::new();
        let before = self.course.now();
        // One after the other, without waiting: what is lost of one is not lost of all.
        for _ in 0..WAKES {
            marks.push(self.order(0, external).await?);
        }
        let after = self.course.now();
        Some(Woken {
            own: s.own,
            talked: s.talked,
            marks,
            least: before.saturating_since(heard),
            most: after.saturating_since(s.sent),
            until: after + ANSWER_WITHIN,
        })
    }

    /// Writes the fate of a socket that was sent to long enough ago.
    async fn tell(&self, woken: Option<Woken>) {
        let Some(w) = woken else { return };
        // What came is in the socket's buffer.
        let at_once = Duration::from_millis(1);
        let is_it = |bytes: &[u8], _| w.marks.iter().any(|m| bytes == m).then_some(());
        let arrived = self.hear(w.own, (at_once, true), is_it).await.is_some();
        self.note(&NatNote::Silent {
            talked: w.talked,
            least_ns: w.least.as_nanos() as i64,
            most_ns: w.most.as_nanos() as i64,
            arrived,
        })
        .await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn silences_grow_by_a_sixth_up_to_the_longest() {
        let all = ladder(Duration::from_secs(320));
        assert_eq!(all.len(), SILENCES as usize);
        assert!((all[0].as_secs_f64() - 10.0).abs() < 1e-6);
        assert_eq!(all.last(), Some(&Duration::from_secs(320)));
        for pair in all.windows(2) {
            let ratio = pair[1].as_secs_f64() / pair[0].as_secs_f64();
            assert!((ratio - 32f64.powf(1.0 / 23.0)).abs() < 1e-6, "{ratio}");
        }
    }
}
