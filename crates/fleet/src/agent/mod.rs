//! The agent of a point: joins a hub, measures by its plan, uploads, deletes with a receipt.
//!
//! Its directory holds `agent.key` (its private key), `hub.json` (the hub it joined), `plan.json` (the last plan whose signature
//! held), `plan.before.json` (the one before it), `runs.json` (ends of runs that the hub does not have yet), `spending.json` (bytes of
//! today and this month), `program.json` and `programs/` (releases that replace the program), and the spool. It works for weeks
//! without the hub, and with a wrong clock: once the hub has told the time, starts follow that. Between its reports, a thread asks
//! the hub for news.

mod client;
mod idle;
mod program;
mod push;
mod runner;
mod spending;
pub(crate) mod spool;
mod start;

pub use client::{Address, Client, HubRefuses};
pub use program::launch;

use crate::identity::{Identity, PublicKey};
use crate::invitation::Invitation;
use crate::plan::FleetPlan;
use crate::release::{ReleaseKey, Version, target};
use crate::schedule::hash;
use crate::task::ReadTask;
use crate::unix_s;
use crate::wire::{
    AskedRun, Enrol, Enrolled, Have, Run, RunEnd, SignedPlan, State, StateAnswer, Verdict,
};
use crate::{consent, durable};
use anyhow::Context;
use client::HubBusy;
use hyper::Method;
use measure::keys::{Pin, hex};
use program::Programs;
use push::Push;
use runner::Running;
use serde::{Deserialize, Serialize};
use spending::{Limits, Spending};
use spool::{Spool, read, write_json};
use start::Wait;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant, SystemTime};

const TICK: Duration = Duration::from_millis(200);
/// Times between two tries to reach the hub: the first is half of the shortest, each further one twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Time for which joining a busy hub is tried, and the least pause between two tries.
const JOINS_WITHIN: Duration = Duration::from_secs(60);
const JOIN_PAUSE: Duration = Duration::from_secs(1);
/// Runs that are kept for the hub; of more, the oldest go.
const RUNS: usize = 10_000;
/// Runs in one report.
const RUNS_AT_ONCE: usize = 500;
/// Recordings uploaded before the agent looks after its runs again.
const UPLOADS_AT_ONCE: usize = 4;
/// Time between two tries to close what could not be closed.
const TIDY: Duration = Duration::from_secs(60);
/// Status of a hub's answer to a point whose access has ended.
const GONE: u16 = 410;
/// Pause after a failure of the agent's own disk.
const DISK_PAUSE: Duration = Duration::from_secs(5);
/// Time between two reports without a plan, s.
const NO_PLAN_S: u64 = 60;
/// Upper estimate of the bytes of a talk with the hub beside the recordings: TLS, report, answers. Measured: 4.8 kB.
const TALK_BYTES: u64 = 10_000;

/// Hub that the agent has joined.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Joined {
    hub: Address,
    pin: String,
    point: String,
    hub_key: PublicKey,
    /// Key of the releases that may replace the program; none if none may.
    #[serde(default)]
    release_key: Option<ReleaseKey>,
}

/// Ends of runs, and the last start of each measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Runs {
    next_index: u64,
    waiting: Vec<Run>,
    last: BTreeMap<String, u64>,
    /// Number of runs ever started: no two recordings have the same name, whatever the clock says.
    #[serde(default)]
    started: u64,
    /// Number of the last run out of turn that the agent has taken.
    #[serde(default)]
    asked_until: u64,
    /// Measurements that the operator asked for and that have not been attended to.
    #[serde(default)]
    asked: BTreeSet<String>,
}

/// Recording of a run that has ended.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Closed {
    /// Ready for the hub.
    Kept,
    /// The run left nothing, or nothing that can be read.
    Nothing,
    /// The disk is full: it is closed once there is room.
    Later,
}

/// News of an agent, for its log.
pub enum News<'n> {
    Said(&'n str),
    Failed(&'n str),
}

/// News as a line of `tailback agent --json`.
#[derive(Debug, Serialize, schemars::JsonSchema)]
#[schemars(title = "News of an agent")]
pub struct NewsLine {
    /// Time, UNIX ns.
    pub time_ns: i64,
    /// True if something failed.
    pub failed: bool,
    pub text: String,
}

impl News<'_> {
    /// These news at this time, UNIX ns.
    pub fn line(&self, time_ns: i64) -> NewsLine {
        let (failed, text) = match self {
            News::Said(text) => (false, text),
            News::Failed(text) => (true, text),
        };
        NewsLine {
            time_ns,
            failed,
            text: (*text).to_owned(),
        }
    }
}

/// Schema of each line that `tailback agent --json` prints.
pub fn schema() -> schemars::Schema {
    schemars::schema_for!(NewsLine)
}

/// Agent in its directory.
pub struct Agent {
    home: PathBuf,
    identity: Arc<Identity>,
    joined: Joined,
    read: ReadTask,
    plan: Option<(u64, Arc<FleetPlan>)>,
    runs: Runs,
    spending: Spending,
    spool: Spool,
    running: Vec<Running>,
    /// Starts that are due and wait, by measurement.
    waits: BTreeMap<String, Wait>,
    next_contact: Instant,
    failures: u32,
    /// True if the hub has ended this point's access: it measures no more, and asks now and then.
    ended: bool,
    /// Time that the hub told, UNIX s, and this machine's time since its boot then, ns.
    told: Option<(i64, i64)>,
    /// Lock that keeps other agents out of the directory; a release on trial takes it over.
    alone: Option<File>,
    programs: Programs,
    /// True if this program is a release on trial.
    on_trial: bool,
    /// True until a release on trial has begun to measure.
    trial_due: bool,
    /// Release that takes over once nothing runs.
    next_program: Option<Version>,
    /// Reason for which a release is not fetched yet.
    release_waits: Option<String>,
    /// Last start of each monitor out of its turn.
    resumed: BTreeMap<String, Instant>,
    /// Number of the newest plan that the hub has told of.
    heard_of: u64,
    /// True while a report is under way because the hub has news.
    reports_for_news: bool,
}

/// Time since the clock was synchronised, as systemd-timesyncd notes it; none where it does not run.
fn since_sync_s() -> Option<u64> {
    let noted = std::fs::metadata("/run/systemd/timesync/synchronized").ok()?;
    let age = SystemTime::now()
        .duration_since(noted.modified().ok()?)
        .ok()?;
    Some(age.as_secs())
}

/// Joins the hub that gave the code; the caller has shown [`crate::CONSENT`] to the owner. Repeating it with the same code is allowed until the agent has joined.
/// A busy hub is asked again for a minute: many points may be switched on together.
///
/// # Errors
/// The hub cannot be reached, the code is not valid, or the agent has joined another hub.
pub fn join(
    home: &Path,
    hub: &Address,
    invitation: &Invitation,
    news: &mut dyn FnMut(News<'_>),
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<String> {
    durable::create_directories(home)?;
    if let Some(joined) = read::<Joined>(&home.join("hub.json"))? {
        return match joined.hub == *hub {
            true => Ok(joined.point),
            false => Err(ops::usage(format!(
                "{} has joined {} already; give another --data",
                home.display(),
                joined.hub
            ))),
        };
    }
    let identity = Identity::kept_in(&home.join("agent.key"))?;
    let end = Instant::now() + JOINS_WITHIN;
    // Points that were refused together come again one after the other.
    let apart = Duration::from_millis(hash(&[&identity.public().to_string()]) % 2000);
    let mut client = loop {
        match Client::connect(hub, invitation.pin, None) {
            Err(e) if e.is::<HubBusy>() && Instant::now() < end && !stop() => {
                news(News::Failed(&format!(
                    "{e:#}; it is asked again, for a minute"
                )));
                std::thread::sleep(JOIN_PAUSE + apart);
            }
            done => break done?,
        }
    };
    let asked = Enrol {
        secret: hex(&invitation.secret),
        public_key: identity.public(),
        agent: Version::running().to_string(),
        consent: consent::version(consent::CONSENT),
    };
    let answer: Enrolled =
        client.call(Method::POST, "/v1/enrol", None, serde_json::to_vec(&asked)?)?;
    let joined = Joined {
        hub: hub.clone(),
        pin: invitation.pin.to_string(),
        point: answer.point,
        hub_key: answer.hub_key,
        release_key: answer.release_key,
    };
    write_json(&home.join("hub.json"), &joined)?;
    Ok(joined.point)
}

/// Plan by which the agent measures: the last one whose signature holds, unless it gave way to the one before.
fn present_plan(
    home: &Path,
    programs: &Programs,
    hub_key: &PublicKey,
    read_task: ReadTask,
) -> anyhow::Result<Option<(u64, Arc<FleetPlan>)>> {
    let mut name = "plan.json";
    if let Some(aside) = programs.aside(unix_s()) {
        let newest: Option<SignedPlan> = read(&home.join(name))?;
        if newest.is_some_and(|p| p.number == aside.number) {
            if aside.both {
                return Ok(None);
            }
            name = "plan.before.json";
        }
    }
    // A plan that this version does not understand is fetched anew; it must not keep the agent from uploading.
    let plan = read::<SignedPlan>(&home.join(name))?
        .filter(|plan| plan.is_signed_by(hub_key))
        .and_then(|plan| {
            let parsed = FleetPlan::parse(&plan.text, read_task).ok()?;
            Some((plan.number, Arc::new(parsed)))
        });
    Ok(plan)
}

/// Deletes at the hub what the point of this directory has sent, and ends its access. The directory stays.
///
/// # Errors
/// The agent has not joined, or the hub cannot be reached.
pub fn withdraw(home: &Path) -> anyhow::Result<String> {
    let joined: Option<Joined> = read(&home.join("hub.json"))?;
    let joined =
        joined.ok_or_else(|| ops::usage(format!("{} belongs to no hub", home.display())))?;
    let identity = Identity::kept_in(&home.join("agent.key"))?;
    let mut client = joined.client(Arc::new(identity))?;
    match client.call::<Have>(Method::POST, "/v1/withdraw", None, Vec::new()) {
        Ok(_) => Ok(joined.point),
        Err(e) => match e.downcast_ref::<HubRefuses>() {
            // The hub has ended its access already; what it sent may still be there.
            Some(refused) if refused.status == GONE => Err(e.context(
                "ask the operator for `tailback hub forget`, which deletes what the point has sent",
            )),
            _ => Err(e),
        },
    }
}

impl Joined {
    fn client(&self, identity: Arc<Identity>) -> anyhow::Result<Client> {
        let pin: Pin = self.pin.parse().map_err(anyhow::Error::msg)?;
        Client::connect(&self.hub, pin, Some((self.point.clone(), identity)))
    }
}

impl Agent {
    /// Opens the directory of an agent that has joined a hub.
    ///
    /// # Errors
    /// The agent has not joined, or a file is damaged.
    pub fn open(home: &Path, read_task: ReadTask) -> anyhow::Result<Agent> {
        let joined: Option<Joined> = read(&home.join("hub.json"))?;
        let joined = joined.ok_or_else(|| {
            ops::usage(format!(
                "{} belongs to no hub yet: give --join https://HUB:PORT CODE once",
                home.display()
            ))
        })?;
        let alone = File::create(home.join("agent.lock"))
            .with_context(|| format!("cannot write to {}", home.display()))?;
        if alone.try_lock().is_err() {
            return Err(ops::usage(format!(
                "another agent runs in {}: end it, or give another --data",
                home.display()
            )));
        }
        let programs = Programs::of(home)?;
        let plan = present_plan(home, &programs, &joined.hub_key, read_task)?;
        let mut spending: Spending = read(&home.join("spending.json"))?.unwrap_or_default();
        spending.settle_all(unix_s().unsigned_abs());
        Ok(Agent {
            identity: Arc::new(Identity::kept_in(&home.join("agent.key"))?),
            spool: Spool::open(home)?,
            runs: read(&home.join("runs.json"))?.unwrap_or_default(),
            home: home.to_owned(),
            joined,
            read: read_task,
            plan,
            spending,
            running: Vec::new(),
            waits: BTreeMap::new(),
            next_contact: Instant::now(),
            failures: 0,
            ended: false,
            told: None,
            alone: Some(alone),
            programs,
            on_trial: program::is_on_trial(),
            trial_due: program::is_on_trial(),
            next_program: None,
            release_waits: None,
            resumed: BTreeMap::new(),
            heard_of: 0,
            reports_for_news: false,
        })
    }

    /// Key of the releases that may replace the program; none if none may.
    pub fn release_key(&self) -> Option<&ReleaseKey> {
        self.joined.release_key.as_ref()
    }

    /// Sets the key of the releases that may replace the program.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn trust(&mut self, key: Option<ReleaseKey>) -> anyhow::Result<()> {
        self.joined.release_key = key;
        write_json(&self.home.join("hub.json"), &self.joined)
    }

    /// True if the agent of this directory has joined a hub.
    pub fn has_joined(home: &Path) -> bool {
        home.join("hub.json").exists()
    }

    /// Name of the point.
    pub fn point(&self) -> &str {
        &self.joined.point
    }

    /// Time now, UNIX s: as the hub told it, or else by this machine's clock.
    fn now_s(&self) -> u64 {
        let told = self.told.map(|(told_s, at_ns)| {
            told_s + (live::clock::mono_ns() - at_ns).div_euclid(1_000_000_000)
        });
        told.unwrap_or_else(unix_s).unsigned_abs()
    }

    fn limits(&self) -> Limits {
        let plan = self.plan.as_ref().map(|(_, plan)| plan);
        Limits {
            day: plan.and_then(|p| p.day_budget),
            month: plan.and_then(|p| p.month_budget),
        }
    }

    /// Measures and uploads until `stop` says so. Neither a hub that is away nor a full disk ends it.
    ///
    /// # Errors
    /// A run in progress cannot be ended.
    pub fn run(
        &mut self,
        news: &mut dyn FnMut(News<'_>),
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<()> {
        let mut next_tidy = Instant::now();
        let mut failed = String::new();
        let began = Instant::now();
        let push = Push::start(self.joined.clone(), self.identity.clone())
            .context("cannot start a thread")?;
        while !stop() {
            self.hear(&push);
            if began.elapsed() > program::LIVED {
                self.has_lived()?;
            }
            if let Some(version) = self.next_program
                && self.make_way()
            {
                // The release keeps a connection of its own.
                push.allowed.store(false, Ordering::Relaxed);
                self.try_release(version, news, stop)?;
                return Ok(());
            }
            let done = self.step(&mut next_tidy, news);
            let mut pause = TICK;
            if let Err(e) = done {
                let text = format!("{e:#}");
                if text != failed {
                    news(News::Failed(&text));
                    failed = text;
                }
                pause = DISK_PAUSE;
            }
            std::thread::sleep(pause);
        }
        for run in &mut self.running {
            run.ask();
        }
        while !self.running.is_empty() {
            self.end_runs(news)?;
            std::thread::sleep(TICK);
        }
        self.tidy(news)?;
        // What was measured until now goes to the hub, if it is there.
        self.contact(news);
        self.has_lived()
    }

    /// Exchanges state with the thread that keeps the connection to the hub.
    fn hear(&mut self, push: &Push) {
        let bytes = push.bytes.swap(0, Ordering::Relaxed);
        if bytes > 0 {
            self.spending.charge(self.now_s(), bytes);
        }
        let (now_s, limits) = (self.now_s(), self.limits());
        let affordable = self
            .spending
            .left(now_s, limits)
            .is_none_or(|b| b.get() > 0);
        let plan = self.plan.as_ref().map(|(_, plan)| plan);
        let allowed = plan.is_none_or(|p| p.push) && affordable && !self.ended;
        push.allowed.store(allowed, Ordering::Relaxed);
        let spool = |run: &Running| self.spool.recording(&run.recording);
        push.set_runs(self.running.iter().map(spool).collect());
        push.plan.store(self.heard_of, Ordering::Relaxed);
        push.asked_until
            .store(self.runs.asked_until, Ordering::Relaxed);
        if push.report.load(Ordering::Relaxed) && self.failures == 0 {
            match self.reports_for_news {
                false => self.next_contact = Instant::now(),
                // What that report brought is known by now.
                true => push.report.store(false, Ordering::Relaxed),
            }
            self.reports_for_news = !self.reports_for_news;
        }
    }

    fn step(
        &mut self,
        next_tidy: &mut Instant,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        self.end_runs(news)?;
        if Instant::now() >= *next_tidy {
            self.tidy(news)?;
            *next_tidy = Instant::now() + TIDY;
        }
        if self.next_program.is_none() {
            self.start_runs(news)?;
        }
        if Instant::now() >= self.next_contact {
            self.contact(news);
        }
        Ok(())
    }

    /// Closes recordings of runs that an end of the agent or a full disk interrupted.
    fn tidy(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<()> {
        for name in self.spool.open_recordings()? {
            if !self.running.iter().any(|r| r.recording == name) {
                self.close(&name, news)?;
            }
        }
        Ok(())
    }

    /// Closes a recording; one that nothing can be made of is set aside.
    fn close(&mut self, name: &str, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<Closed> {
        let directory = self.spool.recording(name);
        if !directory.exists() {
            return Ok(Closed::Nothing);
        }
        if store::Lock::held_by(&directory).is_some() {
            // A run of an agent that was killed has not ended yet.
            return Ok(Closed::Later);
        }
        let plan = self.plan.as_ref().map_or(0, |p| p.0);
        let closed = self.spool.close(name, &|manifest| {
            manifest.plan = plan;
            manifest.since_sync_s = since_sync_s();
        });
        match closed {
            Ok(_) => Ok(Closed::Kept),
            Err(e) if durable::is_full(&e) => {
                news(News::Failed(&format!(
                    "{name} is closed once the disk has room: {e:#}"
                )));
                Ok(Closed::Later)
            }
            Err(e) => {
                news(News::Failed(&format!("{name} is set aside: {e:#}")));
                self.spool.reject(name)?;
                Ok(Closed::Nothing)
            }
        }
    }

    /// Notes the end of a run, so that the hub learns it.
    fn note(
        &mut self,
        run: (&str, u64, u64),
        end: RunEnd,
        reason: Option<String>,
        recording: Option<String>,
    ) -> anyhow::Result<()> {
        let (measurement, number, due_s) = run;
        self.runs.waiting.push(Run {
            index: self.runs.next_index,
            measurement: measurement.into(),
            number,
            due_s,
            ended_s: unix_s().unsigned_abs(),
            end,
            reason,
            recording,
        });
        self.runs.next_index += 1;
        self.runs.last.insert(measurement.into(), number);
        let excess = self.runs.waiting.len().saturating_sub(RUNS);
        self.runs.waiting.drain(..excess);
        write_json(&self.home.join("runs.json"), &self.runs)
    }

    fn end_runs(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<()> {
        if self.ended {
            self.running.iter_mut().for_each(Running::ask);
        }
        self.hand_over();
        let mut at = 0;
        while at < self.running.len() {
            let Some(ended) = self.running[at].poll()? else {
                at += 1;
                continue;
            };
            let run = self.running.remove(at);
            if let Some(server) = &run.turn {
                self.release_turn(server);
            }
            let spent = self.spent(&run);
            let now_s = self.now_s();
            self.spending.settle(now_s, &run.recording, spent);
            let closed = self.close(&run.recording, news)?;
            let end = if ended.complete && closed == Closed::Kept {
                RunEnd::Done
            } else {
                RunEnd::Incomplete
            };
            let why = match closed {
                Closed::Kept => run.waited,
                Closed::Nothing => Some("it left no recording".into()),
                Closed::Later => Some("the disk is full; the recording is kept".into()),
            };
            let recording = (closed != Closed::Nothing).then(|| run.recording.clone());
            self.note(
                (&run.measurement, run.number, run.due_s),
                end,
                ended.reason.or(why),
                recording,
            )?;
            write_json(&self.home.join("spending.json"), &self.spending)?;
            self.next_contact = Instant::now();
        }
        Ok(())
    }

    /// Ends each run whose successor records by now: a monitor goes on without a gap.
    fn hand_over(&mut self) {
        let alive: Vec<String> = self.running.iter().map(|r| r.recording.clone()).collect();
        for run in &mut self.running {
            let records = |next: &String| self.spool.recording(next).join("delay").exists();
            match &run.successor {
                Some(next) if !alive.contains(next) => run.successor = None,
                Some(next) if records(next) => run.ask(),
                _ => {}
            }
        }
    }

    /// Talks to the hub once, and sets the time of the next try.
    fn contact(&mut self, news: &mut dyn FnMut(News<'_>)) {
        match self.talk(news) {
            Ok(more) => {
                self.failures = 0;
                self.ended = false;
                let plan = self.plan.as_ref().map(|(_, plan)| plan);
                let every = Duration::from_secs(plan.map_or(NO_PLAN_S, |p| p.report_every_s));
                self.next_contact = Instant::now() + if more { Duration::ZERO } else { every };
            }
            Err(e) => {
                news(News::Failed(&format!("{e:#}")));
                let refused = e.downcast_ref::<HubRefuses>();
                self.ended |= refused.is_some_and(|r| r.status == GONE);
                self.failures = self.failures.saturating_add(1);
                let pause = (FIRST_PAUSE * 2u32.pow(self.failures.min(8))).min(LONGEST_PAUSE);
                // Points that lost the hub together must not come back together.
                let share = hash(&[&self.joined.point, &self.failures.to_string()]) % 1000;
                self.next_contact = Instant::now() + pause.mul_f64(0.5 + share as f64 / 2000.0);
            }
        }
    }

    fn client(&self) -> anyhow::Result<Client> {
        self.joined.client(self.identity.clone())
    }

    /// Closed recording to upload next; none while a run loads the link, or if the budget does not allow it.
    fn next_upload(&mut self) -> Option<String> {
        if self.running.iter().any(|r| r.task.server().is_some()) {
            return None;
        }
        let (name, bytes) = self.spool.oldest()?;
        let (now_s, limits) = (self.now_s(), self.limits());
        let left = self.spending.left(now_s, limits);
        left.is_none_or(|left| left.get() >= bytes).then_some(name)
    }

    /// Reports, fetches a new plan, uploads. True if there is more to upload.
    fn talk(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<bool> {
        let mut client = self.client()?;
        let mut answer = self.report(&mut client)?;
        self.spending.charge(self.now_s(), TALK_BYTES);
        let present = self.plan.as_ref().map_or(0, |p| p.0);
        if answer.plan != present {
            self.fetch_plan(&mut client, news)?;
            if self.plan.as_ref().map_or(0, |p| p.0) != present {
                // The operator sees at once by which plan the point goes on.
                answer = self.report(&mut client)?;
            }
        }
        let mut uploaded = 0;
        while uploaded < UPLOADS_AT_ONCE
            && let Some(name) = self.next_upload()
        {
            let before = client.sent;
            let done =
                self.spool
                    .upload(&name, &mut client, &self.joined.point, &self.joined.hub_key);
            self.spending.charge(self.now_s(), client.sent - before);
            let verdict = done?;
            if verdict == Verdict::Quarantined {
                news(News::Failed(&format!(
                    "the hub has put {name} into quarantine; a copy is in rejected/"
                )));
            }
            uploaded += 1;
        }
        if uploaded > 0 {
            answer = self.report(&mut client)?;
        }
        write_json(&self.home.join("spending.json"), &self.spending)?;
        let runs_left =
            !self.runs.waiting.is_empty() && self.runs.waiting[0].index < answer.runs_until;
        let release_left = match &answer.release {
            Some(offer) => self.fetch_release(&mut client, offer, news)?,
            None => false,
        };
        Ok(self.next_upload().is_some() || runs_left || release_left)
    }

    /// Sentences about what waits at this point.
    fn remarks(&mut self) -> Vec<String> {
        let waits = self.waits.iter();
        let mut remarks: Vec<String> = waits
            .map(|(name, wait)| format!("{name} waits: {}", wait.why))
            .collect();
        let loads = self.running.iter().any(|r| r.task.server().is_some());
        let (waiting, bytes) = self.spool.waiting();
        remarks.extend(self.release_waits.clone());
        if let Some(aside) = self.programs.aside(unix_s()) {
            let number = aside.number;
            let now = self
                .plan
                .as_ref()
                .map_or("no plan is followed".into(), |(n, _)| {
                    format!("plan {n} goes on")
                });
            remarks.push(format!(
                "plan {number} is set aside for a day: the agent ended again and again within a minute of its start; {now}"
            ));
        }
        if waiting > 0 && !loads && self.next_upload().is_none() {
            remarks.push(format!(
                "uploads wait: the budget of this day or month does not allow {}",
                base::Bytes::new(bytes)
            ));
        }
        remarks
    }

    fn report(&mut self, client: &mut Client) -> anyhow::Result<StateAnswer> {
        let (spool_recordings, spool_bytes) = self.spool.waiting();
        let (recordings_closed, rows_closed) = self.spool.ever_closed();
        let runs: Vec<Run> = self
            .runs
            .waiting
            .iter()
            .take(RUNS_AT_ONCE)
            .cloned()
            .collect();
        let (free, _) = live::host::disk_space(&self.home).context("cannot look at the disk")?;
        let state = State {
            agent: Version::running().to_string(),
            target: target(),
            release_key: self.joined.release_key.clone(),
            failed_release: self.programs.last_failed(),
            plan: self.plan.as_ref().map_or(0, |p| p.0),
            unix_s: unix_s(),
            since_sync_s: since_sync_s(),
            spool_recordings,
            spool_bytes,
            disk_free: free,
            rows_closed,
            recordings_closed,
            spent_today: self.spending.spent().0,
            spent_this_month: self.spending.spent().1,
            asked_until: self.runs.asked_until,
            remarks: self.remarks(),
            runs,
        };
        let answer: StateAnswer =
            client.call(Method::POST, "/v1/state", None, serde_json::to_vec(&state)?)?;
        self.told = Some((answer.unix_s, live::clock::mono_ns()));
        self.heard_of = answer.plan;
        self.take(&answer.asked)?;
        let before = self.runs.waiting.len();
        self.runs.waiting.retain(|r| r.index >= answer.runs_until);
        if self.runs.waiting.len() != before {
            write_json(&self.home.join("runs.json"), &self.runs)?;
        }
        Ok(answer)
    }

    /// Takes the runs that the operator asks for. They are on the disk before the hub hears that they are taken.
    fn take(&mut self, asked: &[AskedRun]) -> anyhow::Result<()> {
        let fresh = asked.iter().filter(|a| a.number > self.runs.asked_until);
        let fresh: Vec<&AskedRun> = fresh.collect();
        let Some(last) = fresh.iter().map(|a| a.number).max() else {
            return Ok(());
        };
        self.runs.asked_until = last;
        let names = fresh.into_iter().map(|a| a.measurement.clone());
        self.runs.asked.extend(names);
        write_json(&self.home.join("runs.json"), &self.runs)
    }

    /// Keeps a plan on the disk, and the one by which the agent measured until now.
    fn keep_plan(&mut self, fetched: &SignedPlan) -> anyhow::Result<()> {
        let present = self.plan.as_ref().map(|(number, _)| *number);
        let last: Option<SignedPlan> = read(&self.home.join("plan.json")).unwrap_or_default();
        if let Some(last) = last.filter(|p| Some(p.number) == present) {
            write_json(&self.home.join("plan.before.json"), &last)?;
        }
        write_json(&self.home.join("plan.json"), fetched)?;
        self.plan_is_new()
    }

    /// Fetches the plan. One that is not signed, older than the present one or not understood changes nothing.
    fn fetch_plan(
        &mut self,
        client: &mut Client,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        let fetched: Option<SignedPlan> = client.call(Method::GET, "/v1/plan", None, Vec::new())?;
        let Some(fetched) = fetched else {
            return Ok(());
        };
        if !fetched.is_signed_by(&self.joined.hub_key) {
            anyhow::bail!("plan {} is not signed by the hub", fetched.number);
        }
        let aside = self.programs.aside(unix_s()).map(|a| a.number);
        let present = self.plan.as_ref().map(|(number, _)| *number);
        if present.max(aside).is_some_and(|n| n >= fetched.number) {
            return Ok(());
        }
        let parsed = FleetPlan::parse(&fetched.text, self.read).with_context(|| {
            format!(
                "plan {} is not understood; the last one goes on",
                fetched.number
            )
        })?;
        self.keep_plan(&fetched)?;
        news(News::Said(&format!(
            "plan {}: {}",
            fetched.number,
            ops::counted(parsed.measurements().count() as u64, "measurement")
        )));
        self.plan = Some((fetched.number, Arc::new(parsed)));
        Ok(())
    }
}
