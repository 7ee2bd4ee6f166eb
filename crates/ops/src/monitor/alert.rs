//! Alerts of a monitor: a command, a webhook or a mail when a target stops answering, and again when it answers steadily;
//! the same for delay and loss above a limit ([`super::quality`]).
//!
//! **Method.** A target is down after a silence of ten of its intervals, and of ten seconds at least: the shortest outage
//! that the analysis counts. It is up again once it has answered for as long, without a silence of a third of that. A link
//! that flaps thus gives one alert, not one a flap.

use super::quality::{Counts, Figure, Limits, Quality};
use crate::tell::{self, Ways};
use crate::usage;
use base::Duration;
use experiment::monitor::{MonitorStatus, Target, TargetStatus};

/// Shortest silence that is an outage, unless the user says otherwise.
const SHORTEST: Duration = Duration::from_secs(10);

/// Silence of a target that is an outage: ten of its intervals, and ten seconds at least.
pub(super) fn silence(interval: Duration) -> Duration {
    (interval * 10).max(SHORTEST)
}

/// Recipients of the alerts, and the silence that rings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipients {
    /// Ways in which they are told.
    pub ways: Ways,
    /// Silence after which a target is down, and time of answers after which it is up again.
    pub after: Option<Duration>,
    /// Round trip that rings if one of twenty in a minute is longer.
    pub delay: Option<Duration>,
    /// Share of a minute's probes that rings if they are lost, %.
    pub loss_percent: Option<f64>,
}

impl Recipients {
    /// # Errors
    /// A webhook that is no web address, a mail address that is none, a silence below three seconds.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.ways.check()?;
        if self
            .after
            .is_some_and(|t| t < Duration::from_secs(3) || t > Duration::from_secs(86_400))
        {
            return Err(usage("--alert-after must be from 3 s to 1 day"));
        }
        let delays = Duration::from_micros(100)..=Duration::from_secs(60);
        if self.delay.is_some_and(|d| !delays.contains(&d)) {
            return Err(usage("--alert-delay must be from 0.1 ms to 60 s"));
        }
        if self
            .loss_percent
            .is_some_and(|l| !(0.1..=100.0).contains(&l))
        {
            return Err(usage("--alert-loss must be from 0.1 to 100 %"));
        }
        Ok(())
    }

    fn limits(&self) -> Limits {
        Limits {
            delay_ms: self.delay.map(|d| d.as_millis_f64()),
            loss_percent: self.loss_percent,
        }
    }
}

/// Change of a target's state.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Change {
    target: String,
    /// True if it begins, false if it ends.
    begins: bool,
    seen: Seen,
}

/// Kind of a change, with its figure.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Seen {
    /// Time without an answer.
    Silence(Duration),
    /// Delay or loss of the last minute.
    Minute(Figure),
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
    quality: Quality,
}

/// States of all targets.
#[derive(Debug)]
pub(super) struct Alerts(Vec<Watched>);

impl Alerts {
    pub(super) fn new(targets: &[Target], to: &Recipients) -> Alerts {
        let watched = |t: &Target| Watched {
            name: t.name(),
            silence: match to.after {
                Some(after) => after.max(t.interval * 3),
                None => silence(t.interval),
            },
            answered: 0,
            heard: Duration::ZERO,
            down: None,
            steady: None,
            quality: Quality::new(to.limits()),
        };
        Alerts(targets.iter().map(watched).collect())
    }

    /// Takes the counts of each target at a time since the begin, and returns what has changed.
    pub(super) fn step<'s>(
        &mut self,
        now: Duration,
        targets: impl Iterator<Item = (&'s str, Counts)>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for (name, counts) in targets {
            if let Some(w) = self.0.iter_mut().find(|w| w.name == name) {
                changes.extend(w.step(now, counts));
            }
        }
        changes
    }
}

impl Watched {
    fn step(&mut self, now: Duration, counts: Counts) -> Vec<Change> {
        let change = self.outage(now, counts.answered);
        if self.down.is_some() || change.is_some() {
            self.quality.forget();
            return change.into_iter().collect();
        }
        let target = &self.name;
        let change = |(begins, figure)| Change {
            target: target.clone(),
            begins,
            seen: Seen::Minute(figure),
        };
        let changes = self.quality.step(now, counts);
        changes.into_iter().map(change).collect()
    }

    fn outage(&mut self, now: Duration, answered: u64) -> Option<Change> {
        let fresh = answered > self.answered;
        self.answered = answered;
        let silent = now.saturating_sub(self.heard);
        if fresh {
            self.heard = now;
        }
        let change = |begins: bool, silent: Duration| Change {
            target: self.name.clone(),
            begins,
            seen: Seen::Silence(silent),
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

impl Change {
    fn state(&self) -> &'static str {
        match (self.seen, self.begins) {
            (Seen::Silence(_), true) => "down",
            (Seen::Silence(_), false) => "up",
            (Seen::Minute(Figure::Delay(_)), true) => "slow",
            (Seen::Minute(Figure::Delay(_)), false) => "quick",
            (Seen::Minute(Figure::Loss(_)), true) => "lossy",
            (Seen::Minute(Figure::Loss(_)), false) => "clean",
        }
    }

    /// Figure with its key in JSON and its variable of the environment.
    fn figure(&self) -> (&'static str, &'static str, f64) {
        match self.seen {
            Seen::Silence(d) => ("silent_s", "TAILBACK_SECONDS", d.as_secs_f64().round()),
            Seen::Minute(Figure::Delay(ms)) => ("p95_ms", "TAILBACK_P95_MS", rounded(ms)),
            Seen::Minute(Figure::Loss(loss)) => {
                ("loss_percent", "TAILBACK_LOSS_PERCENT", rounded(loss))
            }
        }
    }

    /// Change in the form in which it is told.
    fn told(&self, host: &str) -> tell::Change {
        let (key, variable, value) = self.figure();
        let (target, state) = (&self.target, self.state());
        tell::Change {
            about: target.clone(),
            environment: vec![
                ("TAILBACK_TARGET", target.clone()),
                ("TAILBACK_STATE", state.into()),
                (variable, value.to_string()),
            ],
            json: serde_json::json!({
                "target": target,
                "state": state,
                key: value,
                "host": host,
            }),
            subject: format!("tailback on {host}: {target} is {state}"),
            text: format!("{target} {}", self.says()),
        }
    }

    /// Sentence of which the target is the subject.
    fn says(&self) -> String {
        let (_, _, value) = self.figure();
        match (self.seen, self.begins) {
            (Seen::Silence(_), true) => format!("has not answered for {value} s."),
            (Seen::Silence(_), false) => format!("answers again, after {value} s of silence."),
            (Seen::Minute(Figure::Delay(_)), true) => {
                format!("is slow: 5 % of the last minute's round trips took {value} ms or more.")
            }
            (Seen::Minute(Figure::Delay(_)), false) => {
                format!(
                    "is quick again: 95 % of the last minute's round trips took less than {value} ms."
                )
            }
            (Seen::Minute(Figure::Loss(_)), _) => {
                format!("did not answer {value} % of the last minute's probes.")
            }
        }
    }
}

/// Rounds to a thousandth: more digits than the figure has.
fn rounded(value: f64) -> f64 {
    (value * 1e3).round() / 1e3
}

/// Changes of the targets in a monitor's state, as they are told. The name of the host tells one monitor's alerts from another's.
pub(super) fn changes(
    alerts: &mut Alerts,
    status: &MonitorStatus,
    host: &str,
) -> Vec<tell::Change> {
    let counts = |t: &TargetStatus| Counts {
        answered: t.answered,
        unanswered: t.unanswered(),
        buckets: t.buckets.clone(),
    };
    let targets = status.targets.iter().map(|t| (&*t.name, counts(t)));
    let changes = alerts.step(status.elapsed, targets);
    changes.iter().map(|c| c.told(host)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::rng::{Streams, uniform};

    fn alerts() -> Alerts {
        let target = Target::parse("icmp:192.0.2.1", Duration::from_millis(100));
        Alerts::new(&[target.expect("a target")], &Recipients::default())
    }

    /// Steps once a second over whether an answer came in that second.
    fn told(answers: &[bool]) -> Vec<(usize, bool, u64)> {
        let mut alerts = alerts();
        let mut count = 0;
        let mut all = Vec::new();
        for (i, answer) in answers.iter().enumerate() {
            count += u64::from(*answer);
            let now = Duration::from_secs(i as u64 + 1);
            let counts = Counts {
                answered: count,
                ..Counts::default()
            };
            for c in alerts.step(now, std::iter::once(("icmp:192.0.2.1", counts))) {
                all.push((i + 1, c.begins, c.figure().2 as u64));
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

    #[test]
    fn recipients_cannot_be_options_or_second_headers() {
        let with = |webhook: Option<&str>, mail: Option<&str>| {
            let ways = Ways {
                webhook: webhook.map(str::to_owned),
                mail: mail.map(str::to_owned),
                ..Ways::default()
            };
            let to = Recipients {
                ways,
                ..Recipients::default()
            };
            to.check().is_ok()
        };
        assert!(with(
            Some("https://example.org/hook?a=b"),
            Some("noc@example.org")
        ));
        for bad in [
            "example.org",
            "file:///etc/passwd",
            "-K/etc/x",
            "http://a b",
            "http://a\n",
        ] {
            assert!(!with(Some(bad), None), "{bad}");
        }
        for bad in [
            "noc",
            "-oQ/tmp@example.org",
            "a@b\nBcc: c@d",
            "a b@c",
            "@",
            "a@",
        ] {
            assert!(!with(None, Some(bad)), "{bad}");
        }
        let change = Change {
            target: "icmp:x".into(),
            begins: true,
            seen: Seen::Silence(Duration::from_secs(12)),
        };
        let told = change.told("here");
        assert_eq!(told.text, "icmp:x has not answered for 12 s.");
        assert_eq!(told.json["silent_s"], 12.0);
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
