//! Starts of runs: what is due, what forbids it, and what it waits for.

use super::idle::Watch;
use super::runner::{self, Running};
use super::spool::write_json;
use super::{Agent, News, TALK_BYTES};
use crate::plan::{FleetPlan, Measurement};
use crate::schedule::{Due, hash, next_start};
use crate::task::Task;
use crate::wire::{RunEnd, TurnAnswer, TurnRequest};
use anyhow::Context;
use base::record::{Row, TableId};
use base::{Bytes, Duration};
use hyper::Method;
use std::time::Instant;

/// Least rest of a budget with which a test or probe is worth its start.
const LEAST: Bytes = Bytes::new(1_000_000);
/// Free space below which nothing is started.
const LEAST_FREE: u64 = 16_000_000;
/// Time beyond the longest run for which a turn holds: the run ends, closes its recording, gives the turn back.
const TURN_MARGIN_S: u64 = 60;
/// Shortest time between two starts of a monitor out of its turn.
const RESUME_EVERY: std::time::Duration = std::time::Duration::from_secs(60);
/// Time before its next turn within which a monitor is not started out of it, s.
const RESUME_LEAST_S: u64 = 5;
/// Length of a monitor's run with which a release proves itself, s.
const TRIAL_RUN_S: u64 = 15;
/// Longest time between two questions for a turn.
const ASK_AGAIN_S: u64 = 5;

/// Start that is due, and waits.
pub(super) struct Wait {
    due: Due,
    pub why: String,
    watch: Option<Watch>,
    ask_turn: Instant,
    /// Server whose turn was asked for.
    wants: Option<String>,
    /// Server at which the hub gave the turn.
    turn: Option<String>,
    /// Time since which the hub does not answer, UNIX s.
    silent_since_s: Option<u64>,
    /// True if the operator asked for it out of turn.
    is_asked: bool,
}

impl Wait {
    /// True if the patience of this start has ended.
    fn is_over(&self, now_s: u64, m: &Measurement) -> bool {
        now_s >= self.due.at_s + m.patience_s()
    }

    fn new(due: Due) -> Wait {
        Wait {
            due,
            why: String::new(),
            watch: None,
            ask_turn: Instant::now(),
            wants: None,
            turn: None,
            silent_since_s: None,
            is_asked: false,
        }
    }
}

/// Time at which a point goes ahead without a hub that has been silent since `since_s`, UNIX s: after a quarter to three
/// quarters of its patience by its `share`, and before it would give up at `last_s`.
fn goes_ahead_s(since_s: u64, last_s: u64, patience_s: u64, share: u64) -> u64 {
    let spread_s = patience_s / 4 + share % (patience_s / 2 + 1);
    since_s
        .saturating_add(spread_s)
        .min(last_s.saturating_sub(1))
}

impl Agent {
    pub(super) fn start_runs(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<()> {
        let Some((_, plan)) = self.plan.clone() else {
            return Ok(());
        };
        let now_s = self.now_s();
        let is_over = |t: jiff::Timestamp| t.as_second() < now_s.cast_signed();
        if self.ended || plan.expires.is_some_and(is_over) {
            return Ok(());
        }
        // What the plan does not have any longer must not wait for a later plan.
        let is_planned = |name: &String| plan.measurements().any(|(m, _)| m.name == *name);
        self.runs.asked.retain(is_planned);
        let point = self.joined.point.clone();
        if self.trial_due {
            return self.start_trial_run(&plan, now_s, news);
        }
        for (m, task) in plan.measurements().filter(|(m, _)| m.concerns(&point)) {
            let last = self.runs.last.get(&m.name).copied();
            // The agent was off for starts before that.
            let since = now_s.saturating_sub(m.patience_s());
            let due = next_start((&point, &m.name), (m.every_s, m.jitter_s), since, last);
            if let Some(asked) = self.asked_for(m, due)? {
                self.attend(&plan, (m, task), asked, news)?;
                continue;
            }
            if let Some(wait) = self.waits.remove(&m.name) {
                match wait.due == due {
                    true => drop(self.waits.insert(m.name.clone(), wait)),
                    // The agent was busy when its patience ended.
                    false => self.defer(m, wait)?,
                }
            }
            if due.at_s <= now_s && m.may_start(due.at_s) {
                self.attend(&plan, (m, task), due, news)?;
            } else {
                self.resume(&plan, (m, task), due, news)?;
            }
        }
        Ok(())
    }

    /// Start out of turn that the operator asked for: a new one, or one that waits. `next` is the next one in turn.
    fn asked_for(&mut self, m: &Measurement, next: Due) -> anyhow::Result<Option<Due>> {
        let is_new = self.runs.asked.remove(&m.name);
        if is_new {
            write_json(&self.home.join("runs.json"), &self.runs)?;
        }
        if let Some(wait) = self.waits.get(&m.name) {
            // One that is due anyway, and waits, stands for the run that was asked for.
            return Ok(wait.is_asked.then_some(wait.due));
        }
        if !is_new {
            return Ok(None);
        }
        let due = Due {
            number: next.number.saturating_sub(1),
            at_s: self.now_s(),
        };
        let wait = Wait {
            is_asked: true,
            ..Wait::new(due)
        };
        self.waits.insert(m.name.clone(), wait);
        Ok(Some(due))
    }

    /// Starts a monitor before its turn if it goes on without a gap and none runs: the agent or the run has ended, or the plan is
    /// new. The next one in turn takes over from it.
    fn resume(
        &mut self,
        plan: &FleetPlan,
        (m, task): (&Measurement, &Task),
        next: Due,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        let now_s = self.now_s();
        let is_whole = task.is_endless() && m.at_most_s >= m.every_s;
        let runs = self.running.iter().any(|r| r.measurement == m.name);
        let last = self.resumed.get(&m.name);
        let is_soon = last.is_some_and(|last| last.elapsed() < RESUME_EVERY);
        let takes_over_soon = next.at_s <= now_s + RESUME_LEAST_S;
        if !is_whole || runs || is_soon || takes_over_soon || !m.may_start(now_s) {
            return Ok(());
        }
        self.resumed.insert(m.name.clone(), Instant::now());
        if self.prohibition(plan, (m, task))?.is_some() {
            return Ok(());
        }
        let due = Due {
            number: next.number.saturating_sub(1),
            at_s: now_s,
        };
        self.start((m, task), Wait::new(due), news)
    }

    /// Starts one short run of a release on trial: what it records is the proof that it works. A monitor gives it soonest.
    fn start_trial_run(
        &mut self,
        plan: &FleetPlan,
        now_s: u64,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        let point = self.joined.point.clone();
        let mine = || plan.measurements().filter(|(m, _)| m.concerns(&point));
        let monitor = mine().find(|(_, task)| task.is_endless());
        let Some((m, task)) = monitor.or_else(|| mine().next()) else {
            return Ok(());
        };
        // A skipped run proves nothing, and another try of it each moment would only be noted.
        if self.prohibition(plan, (m, task))?.is_some() {
            return Ok(());
        }
        let mut short = m.clone();
        if task.is_endless() {
            short.at_most_s = m.at_most_s.min(TRIAL_RUN_S);
        }
        let last = self.runs.last.get(&m.name).copied();
        let due = next_start((&point, &m.name), (m.every_s, m.jitter_s), now_s, last);
        let due = Due {
            number: due.number.saturating_sub(1),
            at_s: now_s,
        };
        let before = self.running.len();
        let waited = self.waits.remove(&m.name).filter(|w| !w.is_over(now_s, m));
        let due = waited.as_ref().map_or(due, |w| w.due);
        if let Some(wait) = waited {
            self.waits.insert(m.name.clone(), wait);
        }
        self.attend(plan, (&short, task), due, news)?;
        self.trial_due = self.running.len() == before;
        Ok(())
    }

    /// Starts what is due, or finds out why not.
    fn attend(
        &mut self,
        plan: &FleetPlan,
        (m, task): (&Measurement, &Task),
        due: Due,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        if let Some(why) = self.prohibition(plan, (m, task))? {
            self.waits.remove(&m.name);
            return self.note(
                (&m.name, due.number, due.at_s),
                RunEnd::Skipped,
                Some(why),
                None,
            );
        }
        let waited = self.waits.remove(&m.name);
        let mut wait = waited.unwrap_or_else(|| Wait::new(due));
        match self.obstacle((m, task), &mut wait, news) {
            None => self.start((m, task), wait, news),
            Some(why) => {
                wait.why = why;
                if wait.is_over(self.now_s(), m) {
                    return self.defer(m, wait);
                }
                self.waits.insert(m.name.clone(), wait);
                Ok(())
            }
        }
    }

    fn defer(&mut self, m: &Measurement, wait: Wait) -> anyhow::Result<()> {
        if let Some(server) = &wait.wants {
            self.release_turn(server);
        }
        let slot = (&*m.name, wait.due.number, wait.due.at_s);
        self.note(slot, RunEnd::Deferred, Some(wait.why), None)
    }

    /// Reason for which a run must not start at all.
    fn prohibition(
        &mut self,
        plan: &FleetPlan,
        (m, task): (&Measurement, &Task),
    ) -> anyhow::Result<Option<String>> {
        let (_, spooled) = self.spool.waiting();
        if spooled > plan.spool.get() {
            return Ok(Some(format!(
                "{} wait for the hub, the plan allows {}",
                Bytes::new(spooled),
                plan.spool
            )));
        }
        let (free, _) = live::host::disk_space(&self.home).context("cannot look at the disk")?;
        if free < LEAST_FREE {
            return Ok(Some(format!("{} free on the disk", Bytes::new(free))));
        }
        let wanted = task.most_bytes(Duration::from_secs(m.at_most_s));
        let needed = if task.is_endless() {
            wanted
        } else {
            wanted.min(LEAST)
        };
        let (now_s, limits) = (self.now_s(), self.limits());
        Ok(match self.spending.left(now_s, limits) {
            Some(left) if left < needed => Some(format!(
                "the budget of this day or month has {left} left, a run needs {needed}"
            )),
            _ => None,
        })
    }

    /// Reason for which a run must wait.
    fn obstacle(
        &mut self,
        (m, task): (&Measurement, &Task),
        wait: &mut Wait,
        news: &mut dyn FnMut(News<'_>),
    ) -> Option<String> {
        let mut same = self.running.iter().filter(|r| r.measurement == m.name);
        if same.any(|r| !task.is_endless() || r.successor.is_some()) {
            return Some("the run before is in progress".into());
        }
        let server = task.server()?;
        if let Some(other) = self.running.iter().find(|r| r.task.server().is_some()) {
            return Some(format!("{} loads the link", other.measurement));
        }
        if m.idle_link && wait.turn.is_none() {
            if wait.watch.is_none() {
                match Watch::start(server, task.interface()) {
                    Ok(watch) => wait.watch = Some(watch),
                    Err(e) => return Some(format!("{e:#}")),
                }
            }
            let busy = wait.watch.as_ref().and_then(Watch::obstacle);
            if busy.is_some() {
                return busy;
            }
        }
        self.turn(m, server, wait, news)
    }

    /// Asks the hub for the turn at a server. Without the hub, the server's own queue keeps the order. While the hub starts
    /// anew its points wait, so that they do not all go ahead at once.
    fn turn(
        &mut self,
        m: &Measurement,
        server: &str,
        wait: &mut Wait,
        news: &mut dyn FnMut(News<'_>),
    ) -> Option<String> {
        if self.failures > 0 || self.told.is_none() {
            return self.waits_for_hub(m, wait);
        }
        let why = format!("another point measures with {server}");
        if Instant::now() < wait.ask_turn {
            return match wait.silent_since_s {
                Some(_) => self.waits_for_hub(m, wait),
                None => Some(why),
            };
        }
        wait.wants = Some(server.into());
        match self.ask_turn(server, m.at_most_s + TURN_MARGIN_S) {
            Ok(TurnAnswer { wait_s: None }) => {
                wait.turn = Some(server.into());
                None
            }
            Ok(TurnAnswer { wait_s: Some(s) }) => {
                wait.silent_since_s = None;
                let pause = std::time::Duration::from_secs(s.clamp(1, ASK_AGAIN_S));
                wait.ask_turn = Instant::now() + pause;
                Some(why)
            }
            Err(e) => {
                news(News::Failed(&format!("{}: no turn: {e:#}", m.name)));
                wait.ask_turn = Instant::now() + std::time::Duration::from_secs(ASK_AGAIN_S);
                self.waits_for_hub(m, wait)
            }
        }
    }

    /// Reason to wait for a hub that does not answer; none once this point goes ahead without it.
    fn waits_for_hub(&self, m: &Measurement, wait: &mut Wait) -> Option<String> {
        let now_s = self.now_s();
        let since_s = *wait.silent_since_s.get_or_insert(now_s);
        let last_s = wait.due.at_s + m.patience_s();
        let share = hash(&[&self.joined.point, &m.name, &wait.due.number.to_string()]);
        let ahead_s = goes_ahead_s(since_s, last_s, m.patience_s(), share);
        (now_s < ahead_s).then(|| "the hub, which gives the turns, does not answer".into())
    }

    fn ask_turn(&mut self, server: &str, for_s: u64) -> anyhow::Result<TurnAnswer> {
        let asked = TurnRequest {
            server: server.into(),
            for_s,
        };
        let body = serde_json::to_vec(&asked)?;
        self.spending.charge(self.now_s(), TALK_BYTES);
        self.client()?.call(Method::POST, "/v1/turn", None, body)
    }

    pub(super) fn release_turn(&mut self, server: &str) {
        // A turn that is not given back ends by itself.
        let _ = self.ask_turn(server, 0);
    }

    fn start(
        &mut self,
        (m, task): (&Measurement, &Task),
        wait: Wait,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        let slot = (wait.due.number, wait.due.at_s);
        let (now_s, limits) = (self.now_s(), self.limits());
        let wanted = task.most_bytes(Duration::from_secs(m.at_most_s));
        let left = self.spending.left(now_s, limits);
        let budget = left.map_or(wanted, |left| left.min(wanted));
        let began = jiff::Timestamp::now().strftime("%Y-%m-%dt%H-%M-%Sz");
        let recording = format!("{}.{began}.{}.rec", m.name, self.runs.started);
        // On the disk first: a restart of the agent must neither start the same number again nor forget the budget.
        self.runs.started += 1;
        self.runs.last.insert(m.name.clone(), slot.0);
        write_json(&self.home.join("runs.json"), &self.runs)?;
        self.spending.reserve(&recording, budget);
        write_json(&self.home.join("spending.json"), &self.spending)?;
        match runner::start(&self.home, m, task.limited(budget), slot, &recording) {
            Ok(mut running) => {
                let late_s = now_s.saturating_sub(slot.1);
                let late = || format!("{late_s} s late: {}", wait.why);
                running.waited = (!wait.why.is_empty()).then(late);
                running.turn = wait.turn;
                let last = self.running.iter_mut().find(|r| r.measurement == m.name);
                if let Some(last) = last {
                    last.hand_over_to(&recording, m.every_s);
                }
                self.running.push(running);
                Ok(())
            }
            Err(e) => {
                self.spending.settle(now_s, &recording, Some(0));
                if let Some(server) = &wait.turn {
                    self.release_turn(server);
                }
                news(News::Failed(&format!("{}: {e:#}", m.name)));
                let why = Some(format!("{e:#}"));
                self.note((&m.name, slot.0, slot.1), RunEnd::Skipped, why, None)
            }
        }
    }

    /// Bytes that a run spent, at most; none if nothing is known. The interface's counters have cross traffic, too.
    pub(super) fn spent(&self, run: &Running) -> Option<u64> {
        let directory = self.spool.recording(&run.recording);
        let most = run.task.most_bytes(run.elapsed()).get();
        if run.task.server().is_none() {
            return Some(most);
        }
        let (mut rows, mut bytes) = (0u64, 0u64);
        let add = &mut |row| {
            if let Row::Traffic(t) = row {
                rows += 1;
                let both = t.rx_bytes.unwrap_or(0).max(0) + t.tx_bytes.unwrap_or(0).max(0);
                bytes = bytes.saturating_add(both.unsigned_abs());
            }
        };
        store::each_row(&directory, TableId::Traffic, add).ok()?;
        (rows > 0).then_some(bytes.min(most))
    }
}

#[cfg(test)]
mod tests {
    use super::goes_ahead_s;

    #[test]
    fn points_whose_hub_falls_silent_go_ahead_one_after_the_other_and_before_they_give_up() {
        let ahead = |share| goes_ahead_s(1000, 1055, 60, share);
        let times: std::collections::BTreeSet<u64> = (0..500).map(ahead).collect();
        assert_eq!(times.first(), Some(&1015));
        assert_eq!(times.last(), Some(&1045));
        assert!(times.len() > 25);
        assert_eq!(goes_ahead_s(1050, 1055, 60, 7), 1054);
        // Without patience there is nothing to wait for.
        assert_eq!(goes_ahead_s(1000, 1000, 0, 9), 999);
    }
}
