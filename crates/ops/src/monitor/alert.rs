//! Alerts of a monitor: a command, a webhook or a mail when a target stops answering, and again when it answers steadily;
//! the same for delay and loss above a limit ([`super::quality`]).
//!
//! **Method.** A target is down after a silence of ten of its intervals, and of ten seconds at least: the shortest outage
//! that the analysis counts. It is up again once it has answered for as long, without a silence of a third of that. A link
//! that flaps thus gives one alert, not one a flap.

use super::quality::{Counts, Figure, Limits, Quality};
use crate::progress::Observer;
use crate::usage;
use base::Duration;
use live::monitor::{MonitorStatus, Target, TargetStatus};
use std::ffi::OsString;
use std::io::Write;
use std::process::{Child, Command, Stdio};

/// Shortest silence that is an outage, unless the user says otherwise.
const SHORTEST: Duration = Duration::from_secs(10);
/// Largest number of commands that run at a time.
const MOST: usize = 8;

/// Silence of a target that is an outage: ten of its intervals, and ten seconds at least.
pub(super) fn silence(interval: Duration) -> Duration {
    (interval * 10).max(SHORTEST)
}

/// Recipients of the alerts, and the silence that rings.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Recipients {
    /// Command for `sh`.
    pub command: Option<String>,
    /// Address to which JSON is posted, http:// or https://.
    pub webhook: Option<String>,
    /// Mail address, for sendmail(8).
    pub mail: Option<String>,
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
        let is_plain = |text: &str| !text.contains(|c: char| c.is_whitespace() || c.is_control());
        if let Some(url) = &self.webhook {
            let is_web = url.starts_with("http://") || url.starts_with("https://");
            if !is_web || !is_plain(url) {
                return Err(usage(format!(
                    "--webhook {url}: give an http:// or https:// address"
                )));
            }
        }
        if let Some(to) = &self.mail {
            let is_address = to
                .split_once('@')
                .is_some_and(|(a, b)| !a.is_empty() && !b.is_empty());
            if !is_address || !is_plain(to) || to.starts_with('-') {
                return Err(usage(format!(
                    "--mail {to}: give an address such as noc@example.org"
                )));
            }
        }
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

/// Runner of the programs that tell an alert.
pub(super) struct Runner {
    to: Recipients,
    /// Name of this host, which tells one monitor's alerts from another's.
    host: String,
    running: Vec<(&'static str, Child)>,
}

impl Runner {
    pub(super) fn new(to: &Recipients, host: &str) -> Runner {
        Runner {
            to: to.clone(),
            host: host.to_owned(),
            running: Vec::new(),
        }
    }

    /// Starts the programs for each change, without waiting for them: probes go on meanwhile. One that failed is reported.
    pub(super) fn tell(&mut self, changes: &[Change], observer: &dyn Observer) {
        self.running
            .retain_mut(|(option, child)| match child.try_wait() {
                Ok(None) => true,
                Ok(Some(status)) if !status.success() => {
                    observer.warn(&format!(
                        "an alert was not told: {option} ended with {status}"
                    ));
                    false
                }
                _ => false,
            });
        for change in changes {
            for (option, command, input) in self.programs(change) {
                if self.running.len() >= MOST {
                    let target = &change.target;
                    observer.warn(&format!(
                        "{MOST} programs of alerts still run: {option} was not started for {target}"
                    ));
                    continue;
                }
                match start(command, input) {
                    Ok(child) => self.running.push((option, child)),
                    Err(why) => {
                        observer.warn(&format!("cannot start the program of {option}: {why}"))
                    }
                }
            }
        }
    }

    /// Programs for a change: the option that asks for each, and its standard input.
    fn programs(&self, change: &Change) -> Vec<(&'static str, Command, Option<String>)> {
        let mut all = Vec::new();
        let (key, env, value) = change.figure();
        if let Some(line) = &self.to.command {
            let mut command = Command::new("sh");
            command
                .args(["-c", line])
                .env("TAILBACK_TARGET", &change.target)
                .env("TAILBACK_STATE", change.state())
                .env(env, value.to_string());
            all.push(("--on-outage", command, None));
        }
        if let Some(url) = &self.to.webhook {
            let mut command = Command::new("curl");
            command
                .args(["-sSf", "-m", "20", "-H", "Content-Type: application/json"])
                .args(["-d", "@-", "-o", "/dev/null", url]);
            let body = serde_json::json!({
                "target": change.target,
                "state": change.state(),
                key: value,
                "host": self.host,
            });
            all.push(("--webhook", command, Some(body.to_string())));
        }
        if let Some(to) = &self.to.mail {
            let mut command = Command::new("sendmail");
            command.args(["-i", "--", to]).env("PATH", mail_path());
            all.push(("--mail", command, Some(self.letter(to, change))));
        }
        all
    }

    fn letter(&self, to: &str, change: &Change) -> String {
        // A header ends at a line's end: names are cleaned of those.
        let target = base::text::clean(&change.target);
        let host = base::text::clean(&self.host);
        let says = format!("{target} {}", change.says());
        let state = change.state();
        format!(
            "To: {to}\nSubject: tailback on {host}: {target} is {state}\nAuto-Submitted: auto-generated\n\
             Content-Type: text/plain; charset=utf-8\n\n{says}\n"
        )
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

/// Starts a program with this standard input, and without output.
fn start(mut command: Command, input: Option<String>) -> std::io::Result<Child> {
    let stdin = match &input {
        Some(_) => Stdio::piped(),
        None => Stdio::null(),
    };
    let mut child = command.stdin(stdin).stdout(Stdio::null()).spawn()?;
    if let (Some(text), Some(mut to)) = (input, child.stdin.take()) {
        // Shorter than a pipe's buffer, so this never waits. A program that reads nothing fails by itself.
        let _ = to.write_all(text.as_bytes());
    }
    Ok(child)
}

/// Search path with the directories of system programs, in which Debian has sendmail.
fn mail_path() -> OsString {
    let mut path = std::env::var_os("PATH").unwrap_or_default();
    path.push(":/usr/sbin:/usr/lib");
    path
}

/// Changes of the targets in a monitor's state.
pub(super) fn changes(alerts: &mut Alerts, status: &MonitorStatus) -> Vec<Change> {
    let counts = |t: &TargetStatus| Counts {
        answered: t.answered,
        unanswered: t.unanswered(),
        buckets: t.buckets.clone(),
    };
    let targets = status.targets.iter().map(|t| (&*t.name, counts(t)));
    alerts.step(status.elapsed, targets)
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
            let to = Recipients {
                webhook: webhook.map(str::to_owned),
                mail: mail.map(str::to_owned),
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
        let runner = Runner::new(&Recipients::default(), "h\nost");
        let change = Change {
            target: "icmp:x\nBcc: all@example.org".into(),
            begins: true,
            seen: Seen::Silence(Duration::from_secs(12)),
        };
        let letter = runner.letter("noc@example.org", &change);
        let head = letter.split("\n\n").next().expect("a head");
        assert_eq!(head.lines().count(), 4, "{letter}");
        assert!(letter.ends_with("has not answered for 12 s.\n"), "{letter}");
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
