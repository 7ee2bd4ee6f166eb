//! How long a translator remembers a socket that is silent: many sockets at once, each silent for another time, and then
//! sent to by the server, which is told to over TCP. Nothing that goes out keeps any of them alive meanwhile.

use super::{Own, Run, TRIES, answer, hear};
use crate::clock::mono_ns;
use crate::craft::CraftError;
use base::Duration;
use base::noted::nat::NatNote;
use measure::control::listen::{KNOCK_LEN, Knocked, MARK_LEN};
use std::collections::VecDeque;

/// Silences that are tried; with the ratio below one is a sixth longer than the one before.
const SILENCES: u32 = 24;
/// The longest is so many times the shortest.
const RATIO: f64 = 32.0;
/// After two seconds of talk both ways Linux takes a flow for one that lasts (`nf_conntrack_udp_timeout_stream`).
const TALK: Duration = Duration::from_millis(2500);
/// Datagrams that the server sends to it: one that is lost on the way shall not count for one that is kept out.
const WAKES: u32 = 3;
const TICK: Duration = Duration::from_millis(100);
/// Numbers of these sockets.
const FIRST: u32 = 2000;
/// Of such sockets, each with what it costs at most: its datagrams, its part of a report, the order to send to it.
pub const COST: u64 =
    2 * SILENCES as u64 * (3 * TRIES as u64 * 2 * 80 + 3 * 250 + WAKES as u64 * 300);

/// A socket on its way through its silence.
struct Silent {
    own: Own,
    talked: bool,
    silence: Duration,
    /// When the latest datagram was sent, and when the latest was heard of, monotonic.
    sent: i64,
    heard: Option<i64>,
    /// Where it was answered at.
    external: Option<Knocked>,
}

impl Silent {
    fn due(&self) -> i64 {
        self.heard.unwrap_or(self.sent) + self.silence.as_nanos() as i64
    }
}

/// One that was sent to, and until when that may arrive.
struct Woken<'s> {
    silent: &'s Silent,
    /// What it is sent.
    marks: Vec<Vec<u8>>,
    least_ns: i64,
    most_ns: i64,
    until: i64,
}

impl Woken<'_> {
    fn over(&self) -> bool {
        mono_ns() >= self.until
    }
}

/// The silences that are tried, shortest first.
fn ladder(longest: Duration) -> Vec<Duration> {
    let steps = f64::from(SILENCES - 1);
    let shorter = |i: u32| RATIO.powf((f64::from(i) - steps) / steps);
    (0..SILENCES)
        .map(|i| Duration::from_nanos((longest.as_nanos() as f64 * shorter(i)) as u64))
        .collect()
}

impl Run<'_, '_> {
    /// RFC 4787 section 4.3.
    pub(super) fn lifetime(&mut self, longest: Duration) -> Result<(), CraftError> {
        self.stage("how long it remembers a silent socket")?;
        let mut all = Vec::new();
        for (i, silence) in ladder(longest).into_iter().enumerate() {
            for talked in [false, true] {
                all.push(Silent {
                    own: self.own(FIRST + 2 * i as u32 + u32::from(talked))?,
                    talked,
                    silence,
                    sent: 0,
                    heard: None,
                    external: None,
                });
            }
        }
        let began = mono_ns();
        for part in 0..3 {
            let at = began + (TALK.as_nanos() / 2 * part) as i64;
            self.until(at)?;
            // Those that ask but once do so last, when the others have talked.
            let its = |s: &Silent| s.talked || part == 2;
            self.exchange(&mut all, &its)?;
        }
        all.sort_by_key(Silent::due);
        let mut woken = VecDeque::new();
        for s in &all {
            self.until(s.due())?;
            woken.extend(self.wake(s)?);
            while woken.front().is_some_and(Woken::over) {
                self.tell(woken.pop_front());
            }
        }
        while let Some(last) = woken.pop_front() {
            self.until(last.until)?;
            self.tell(Some(last));
        }
        Ok(())
    }

    fn until(&mut self, at: i64) -> Result<(), CraftError> {
        loop {
            self.stage("how long it remembers a silent socket")?;
            let left = at - mono_ns();
            if left <= 0 {
                return Ok(());
            }
            let left = std::time::Duration::from_nanos(left as u64);
            std::thread::sleep(left.min(TICK.to_std()));
        }
    }

    /// Each of these sockets asks, and is answered; what is not is asked again.
    fn exchange(
        &mut self,
        all: &mut [Silent],
        its: &dyn Fn(&Silent) -> bool,
    ) -> Result<(), CraftError> {
        let Ok(to) = self.listeners.at(0) else {
            return Ok(());
        };
        let mut waiting: Vec<usize> = (0..all.len()).filter(|i| its(&all[*i])).collect();
        for _ in 0..TRIES {
            for i in &waiting {
                let s = &mut all[*i];
                let payload = self.payload(&s.own);
                // What the kernel refuses is as lost as what the line loses.
                let _ = s.own.socket.send_to(&payload, to);
                s.sent = mono_ns();
                self.errand.tally.datagram(to, payload.len());
            }
            // All have the same time, which the first that is not answered uses up.
            let until = mono_ns() + super::ANSWER_WITHIN.as_nanos() as i64;
            waiting.retain(|i| {
                let left = Duration::from_nanos((until - mono_ns()).max(1_000_000) as u64);
                let s = &mut all[*i];
                if let Some(knocked) = answer(&self.listeners, &s.own, to, left) {
                    s.heard = Some(mono_ns());
                    s.external = Some(knocked);
                    self.errand.tally.datagram(to, KNOCK_LEN);
                }
                // One answer is enough for each time it asks.
                s.heard.is_none_or(|heard| heard < s.sent)
            });
            if waiting.is_empty() {
                break;
            }
            self.stage("how long it remembers a silent socket")?;
        }
        Ok(())
    }

    /// Has the server send to it.
    fn wake<'s>(&mut self, s: &'s Silent) -> Result<Option<Woken<'s>>, CraftError> {
        let (Some(external), Some(heard)) = (s.external, s.heard) else {
            return Ok(None);
        };
        let mut marks = Vec::new();
        let before = mono_ns();
        // One after the other, without waiting: what is lost of one is not lost of all.
        for _ in 0..WAKES {
            marks.push(self.listeners.send(0, &external, MARK_LEN)?);
        }
        let after = mono_ns();
        Ok(Some(Woken {
            silent: s,
            marks,
            least_ns: before - heard,
            most_ns: after - s.sent,
            until: after + super::ANSWER_WITHIN.as_nanos() as i64,
        }))
    }

    /// What became of one that was sent to long enough ago.
    fn tell(&self, woken: Option<Woken>) {
        let Some(w) = woken else { return };
        // What came is in the socket's buffer.
        let at_once = Duration::from_millis(1);
        let arrived = hear(&w.silent.own, at_once, &|bytes, _| {
            w.marks.iter().any(|mark| bytes == mark)
        })
        .is_some();
        self.note(&NatNote::Silent {
            talked: w.silent.talked,
            least_ns: w.least_ns,
            most_ns: w.most_ns,
            arrived,
        });
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
