//! Alerts of a monitor: a command when a target stops answering, and again when it answers steadily.
//!
//! **Method.** A target is down after a silence of ten of its intervals, and of ten seconds at least: the shortest outage
//! that the analysis counts. It is up again once it has answered for as long, without a silence of a third of that. A link
//! that flaps thus gives one alert, not one a flap.

use crate::progress::Observer;
use base::Duration;
use live::monitor::{MonitorStatus, Target};
use std::process::{Child, Command, Stdio};

/// Shortest silence that is an outage.
const SHORTEST: Duration = Duration::from_secs(10);
/// Largest number of commands that run at a time.
const MOST: usize = 8;

/// Change of a target's state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    target: String,
    /// True if the target has stopped answering.
    down: bool,
    /// Time without an answer.
    silent: Duration,
}

/// State of one target.
#[derive(Debug)]
struct Watched {
    name: String,
    silence: Duration,
    answered: u64,
    /// Time of the last answer, or of the begin.
    heard: Duration,
    /// Begin of the outage.
    down: Option<Duration>,
    /// Begin of the answers that may end it.
    steady: Option<Duration>,
}

/// States of all targets.
#[derive(Debug)]
pub(super) struct Alerts(Vec<Watched>);

impl Alerts {
    pub(super) fn new(targets: &[Target]) -> Alerts {
        let watched = |t: &Target| Watched {
            name: t.name(),
            silence: (t.interval * 10).max(SHORTEST),
            answered: 0,
            heard: Duration::ZERO,
            down: None,
            steady: None,
        };
        Alerts(targets.iter().map(watched).collect())
    }

    /// Takes the number of answers of each target at a time since the begin, and returns what has changed.
    pub(super) fn step<'s>(
        &mut self,
        now: Duration,
        answered: impl Iterator<Item = (&'s str, u64)>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, answered) in answered {
            if let Some(w) = self.0.iter_mut().find(|w| w.name == name) {
                changes.extend(w.step(now, answered));
            }
        }
        changes
    }
}

impl Watched {
    fn step(&mut self, now: Duration, answered: u64) -> Option<Change> {
        let fresh = answered > self.answered;
        self.answered = answered;
        let silent = now.saturating_sub(self.heard);
        if fresh {
            self.heard = now;
        }
        let change = |down: bool, silent: Duration| Change {
            target: self.name.clone(),
            down,
            silent,
        };
        let Some(began) = self.down else {
            let is_down = !fresh && silent >= self.silence;
            return is_down.then(|| {
                let alert = change(true, silent);
                self.down = Some(self.heard);
                self.steady = None;
                alert
            });
        };
        if !fresh && silent >= self.silence / 3 {
            self.steady = None;
        }
        if fresh && self.steady.is_none() {
            self.steady = Some(now);
        }
        let is_over = |from: &Duration| fresh && now.saturating_sub(*from) >= self.silence;
        let steady = self.steady.filter(is_over)?;
        let alert = change(false, steady.saturating_sub(began));
        self.down = None;
        self.steady = None;
        Some(alert)
    }
}

/// Runner of the user's command.
pub(super) struct Runner {
    command: String,
    running: Vec<Child>,
}

impl Runner {
    pub(super) fn new(command: &str) -> Runner {
        Runner {
            command: command.to_owned(),
            running: Vec::new(),
        }
    }

    /// Starts the command for each change, without waiting for it: probes go on meanwhile.
    pub(super) fn tell(&mut self, changes: &[Change], observer: &dyn Observer) {
        self.running
            .retain_mut(|c| matches!(c.try_wait(), Ok(None)));
        for change in changes {
            if self.running.len() >= MOST {
                observer.warn(&format!(
                    "{MOST} commands of --on-outage still run: none was started for {}",
                    change.target
                ));
                continue;
            }
            let state = if change.down { "down" } else { "up" };
            let started = Command::new("sh")
                .args(["-c", &self.command])
                .env("TAILBACK_TARGET", &change.target)
                .env("TAILBACK_STATE", state)
                .env(
                    "TAILBACK_SECONDS",
                    format!("{:.0}", change.silent.as_secs_f64()),
                )
                .stdin(Stdio::null())
                .stdout(Stdio::null())
                .spawn();
            match started {
                Ok(child) => self.running.push(child),
                Err(why) => observer.warn(&format!("cannot run the command of --on-outage: {why}")),
            }
        }
    }
}

/// Changes of the targets in a monitor's state.
pub(super) fn changes(alerts: &mut Alerts, status: &MonitorStatus) -> Vec<Change> {
    let answered = status.targets.iter().map(|t| (&*t.name, t.answered));
    alerts.step(status.elapsed, answered)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    fn alerts() -> Alerts {
        let target = Target::parse("icmp:192.0.2.1", Duration::from_millis(100));
        Alerts::new(&[target.expect("a target")])
    }

    /// Steps once a second over whether an answer came in that second.
    fn told(answers: &[bool]) -> Vec<(usize, bool, u64)> {
        let mut alerts = alerts();
        let mut count = 0;
        let mut all = Vec::new();
        for (i, answer) in answers.iter().enumerate() {
            count += u64::from(*answer);
            let now = Duration::from_secs(i as u64 + 1);
            for c in alerts.step(now, std::iter::once(("icmp:192.0.2.1", count))) {
                all.push((i + 1, c.down, c.silent.as_secs_f64().round() as u64));
            }
        }
        all
    }

    #[test]
    fn an_outage_gives_one_alert_and_its_end_another() {
        let seconds: Vec<bool> = (0..100).map(|i| !(20..50).contains(&i)).collect();
        // The last answer before it is at 20 s; the first after it at 51 s.
        assert_eq!(told(&seconds), [(30, true, 10), (61, false, 31)]);
        assert_eq!(told(&[false; 40]), [(10, true, 10)]);
        assert!(told(&[true; 100]).is_empty());
    }

    /// Random links that flap: alerts alternate, none comes within ten seconds of the one before, and each outage of more
    /// than eleven seconds that begins while the target is up is told.
    #[test]
    fn a_link_that_flaps_does_not_ring_all_the_time() {
        for seed in 0..300 {
            let mut rng = Streams::new(seed).stream("flap");
            let mut seconds: Vec<bool> = Vec::new();
            while seconds.len() < 1_000 {
                let length = 1 + (uniform(&mut rng) * 25.0) as usize;
                let up = seconds.last().is_none_or(|up| !up);
                seconds.extend(std::iter::repeat_n(up, length));
            }
            let all = told(&seconds);
            for pair in all.windows(2) {
                assert!(pair[0].1 != pair[1].1, "seed {seed}: {all:?}");
                assert!(pair[1].0 - pair[0].0 >= 10, "seed {seed}: {all:?}");
            }
            let mut down = false;
            for (at, second) in seconds.iter().enumerate() {
                let changed = all.iter().find(|c| c.0 == at + 1);
                down = changed.map_or(down, |c| c.1);
                let silent = seconds[..=at].iter().rev().take_while(|s| !**s).count();
                assert!(silent < 11 || down, "seed {seed}: at {at} {second}");
            }
        }
    }
}
