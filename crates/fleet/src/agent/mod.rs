//! The agent of a point: joins a hub, measures by its plan, uploads, deletes with a receipt.
//!
//! Its directory holds `agent.key` (its private key), `hub.json` (the hub it joined), `plan.json` (the last plan whose signature
//! held), `runs.json` (ends of runs that the hub does not have yet), and the spool. It works for weeks without the hub.

mod client;
mod runner;
mod spool;

pub use client::{Address, Client, HubRefuses};

use crate::durable;
use crate::identity::{Identity, PublicKey};
use crate::invitation::Invitation;
use crate::plan::{FleetPlan, Measurement};
use crate::schedule::{hash, next_start};
use crate::unix_s;
use crate::wire::{Enrol, Enrolled, Run, RunEnd, SignedPlan, State, StateAnswer, Verdict};
use anyhow::Context;
use hyper::Method;
use measure::keys::{Pin, hex};
use runner::Running;
use serde::{Deserialize, Serialize};
use spool::{Spool, read, write_json};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

const TICK: Duration = Duration::from_millis(200);
/// Times between two tries to reach the hub: the first is half of the shortest, each further one twice the one before.
const FIRST_PAUSE: Duration = Duration::from_secs(5);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Runs that are kept for the hub; of more, the oldest go.
const RUNS: usize = 10_000;
/// Runs in one report.
const RUNS_AT_ONCE: usize = 500;
/// Recordings uploaded before the agent looks after its runs again.
const UPLOADS_AT_ONCE: usize = 4;
/// Time for which a start waits for the run before it.
const WAIT_FOR_LAST_S: u64 = 60;

/// Hub that the agent has joined.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct Joined {
    hub: Address,
    pin: String,
    point: String,
    hub_key: PublicKey,
}

/// Ends of runs, and the last start of each measurement.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
struct Runs {
    next_index: u64,
    waiting: Vec<Run>,
    last: BTreeMap<String, u64>,
}

/// News of an agent, for its log.
pub enum News<'n> {
    Said(&'n str),
    Failed(&'n str),
}

/// Agent in its directory.
pub struct Agent {
    home: PathBuf,
    identity: Arc<Identity>,
    joined: Joined,
    plan: Option<(u64, FleetPlan)>,
    runs: Runs,
    spool: Spool,
    running: Vec<Running>,
    next_contact: Instant,
    failures: u32,
}

/// Time since the clock was synchronised, as systemd-timesyncd notes it; none where it does not run.
fn since_sync_s() -> Option<u64> {
    let noted = std::fs::metadata("/run/systemd/timesync/synchronized").ok()?;
    let age = SystemTime::now()
        .duration_since(noted.modified().ok()?)
        .ok()?;
    Some(age.as_secs())
}

/// Joins the hub that gave the code. Repeating it with the same code is allowed until the agent has joined.
///
/// # Errors
/// The hub cannot be reached, the code is not valid, or the agent has joined another hub.
pub fn join(home: &Path, hub: &Address, invitation: &Invitation) -> anyhow::Result<String> {
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
    let mut client = Client::connect(hub, invitation.pin, None)?;
    let asked = Enrol {
        secret: hex(&invitation.secret),
        public_key: identity.public(),
        agent: env!("CARGO_PKG_VERSION").into(),
    };
    let answer: Enrolled =
        client.call(Method::POST, "/v1/enrol", None, serde_json::to_vec(&asked)?)?;
    let joined = Joined {
        hub: hub.clone(),
        pin: invitation.pin.to_string(),
        point: answer.point,
        hub_key: answer.hub_key,
    };
    write_json(&home.join("hub.json"), &joined)?;
    Ok(joined.point)
}

impl Agent {
    /// Opens the directory of an agent that has joined a hub.
    ///
    /// # Errors
    /// The agent has not joined, or a file is damaged.
    pub fn open(home: &Path) -> anyhow::Result<Agent> {
        let joined: Option<Joined> = read(&home.join("hub.json"))?;
        let joined = joined.ok_or_else(|| {
            ops::usage(format!(
                "{} belongs to no hub yet: give --join https://HUB:PORT CODE once",
                home.display()
            ))
        })?;
        // A plan that this version does not understand is fetched anew; it must not keep the agent from uploading.
        let plan = read::<SignedPlan>(&home.join("plan.json"))?
            .filter(|plan| plan.is_signed_by(&joined.hub_key))
            .and_then(|plan| Some((plan.number, FleetPlan::parse(&plan.text).ok()?)));
        Ok(Agent {
            identity: Arc::new(Identity::kept_in(&home.join("agent.key"))?),
            spool: Spool::open(home)?,
            runs: read(&home.join("runs.json"))?.unwrap_or_default(),
            home: home.to_owned(),
            joined,
            plan,
            running: Vec::new(),
            next_contact: Instant::now(),
            failures: 0,
        })
    }

    /// Name of the point.
    pub fn point(&self) -> &str {
        &self.joined.point
    }

    /// Measures and uploads until `stop` says so.
    ///
    /// # Errors
    /// The agent's own directory cannot be read or written. A hub that is away is no error.
    pub fn run(
        &mut self,
        news: &mut dyn FnMut(News<'_>),
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<()> {
        self.close_left_over(news)?;
        while !stop() {
            self.end_runs(news)?;
            self.start_runs(news)?;
            if Instant::now() >= self.next_contact {
                self.contact(news);
            }
            std::thread::sleep(TICK);
        }
        for run in &mut self.running {
            run.ask();
        }
        while !self.running.is_empty() {
            self.end_runs(news)?;
            std::thread::sleep(TICK);
        }
        // What was measured until now goes to the hub, if it is there.
        self.contact(news);
        Ok(())
    }

    /// Closes recordings of runs that an end of the agent interrupted.
    fn close_left_over(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<()> {
        for name in self.spool.open_recordings()? {
            self.close(&name, news)?;
        }
        Ok(())
    }

    /// Closes a recording; one that nothing can be made of is set aside. True if it is in the spool now.
    fn close(&mut self, name: &str, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<bool> {
        if !self.spool.recording(name).join("meta.json").exists() {
            return Ok(false);
        }
        let plan = self.plan.as_ref().map_or(0, |p| p.0);
        let closed = self.spool.close(name, &|manifest| {
            manifest.plan = plan;
            manifest.since_sync_s = since_sync_s();
        });
        match closed {
            Ok(_) => Ok(true),
            Err(e) => {
                news(News::Failed(&format!("{name} is set aside: {e:#}")));
                self.spool.reject(name)?;
                Ok(false)
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
        let mut at = 0;
        while at < self.running.len() {
            let Some(ended) = self.running[at].poll()? else {
                at += 1;
                continue;
            };
            let run = self.running.remove(at);
            let kept = self.close(&run.recording, news)?;
            let end = if ended.complete && kept {
                RunEnd::Done
            } else {
                RunEnd::Incomplete
            };
            let reason = ended
                .reason
                .or_else(|| (!kept).then(|| "it left no recording".into()));
            let recording = kept.then(|| run.recording.clone());
            self.note(
                (&run.measurement, run.number, run.due_s),
                end,
                reason,
                recording,
            )?;
            self.next_contact = Instant::now();
        }
        Ok(())
    }

    fn start_runs(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<()> {
        let Some((_, plan)) = self.plan.clone() else {
            return Ok(());
        };
        let now = unix_s().unsigned_abs();
        if plan
            .expires
            .is_some_and(|t| t.as_second() < now.cast_signed())
        {
            return Ok(());
        }
        let (_, spooled) = self.spool.waiting();
        let point = self.joined.point.clone();
        for m in plan.measurement.iter().filter(|m| m.concerns(&point)) {
            let last = self.runs.last.get(&m.name).copied();
            // A start that was missed by less than a tick is on time; the agent was off for the others.
            let since = now.saturating_sub(WAIT_FOR_LAST_S.min(m.every_s - 1));
            let due = next_start((&point, &m.name), (m.every_s, m.jitter_s), since, last);
            if due.at_s > now {
                continue;
            }
            let slot = (&*m.name, due.number, due.at_s);
            if self.running.iter().any(|r| r.measurement == m.name) {
                if now >= due.at_s + WAIT_FOR_LAST_S.min(m.every_s.saturating_sub(2)) {
                    self.note(
                        slot,
                        RunEnd::Deferred,
                        Some("the run before was still under way".into()),
                        None,
                    )?;
                }
                continue;
            }
            if !m.may_start(due.at_s) {
                continue;
            }
            if spooled > plan.spool.get() {
                let why = format!(
                    "{spooled} bytes wait for the hub, the plan allows {}",
                    plan.spool.get()
                );
                self.note(slot, RunEnd::Skipped, Some(why), None)?;
                continue;
            }
            self.start(m, (due.number, due.at_s), news)?;
        }
        Ok(())
    }

    fn start(
        &mut self,
        m: &Measurement,
        (number, due_s): (u64, u64),
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<()> {
        let began = jiff::Timestamp::now().strftime("%Y-%m-%dt%H-%M-%Sz");
        let recording = format!("{}.{began}.rec", m.name);
        match runner::start(&self.home, m, (number, due_s), &recording) {
            Ok(running) => {
                // A restart of the agent must not start the same number again.
                self.runs.last.insert(m.name.clone(), number);
                write_json(&self.home.join("runs.json"), &self.runs)?;
                self.running.push(running);
            }
            Err(e) => {
                news(News::Failed(&format!("{}: {e:#}", m.name)));
                self.note(
                    (&m.name, number, due_s),
                    RunEnd::Skipped,
                    Some(format!("{e:#}")),
                    None,
                )?;
            }
        }
        Ok(())
    }

    /// Talks to the hub once, and sets the time of the next try.
    fn contact(&mut self, news: &mut dyn FnMut(News<'_>)) {
        let every = self
            .plan
            .as_ref()
            .map_or(Duration::from_secs(60), |(_, p)| {
                Duration::from_secs(p.report_every_s)
            });
        match self.talk(news) {
            Ok(more) => {
                self.failures = 0;
                self.next_contact = Instant::now() + if more { Duration::ZERO } else { every };
            }
            Err(e) => {
                news(News::Failed(&format!("{e:#}")));
                self.failures = self.failures.saturating_add(1);
                let pause = (FIRST_PAUSE * 2u32.pow(self.failures.min(8))).min(LONGEST_PAUSE);
                // Points that lost the hub together must not come back together.
                let share = hash(&[&self.joined.point, &self.failures.to_string()]) % 1000;
                self.next_contact = Instant::now() + pause.mul_f64(0.5 + share as f64 / 2000.0);
            }
        }
    }

    /// Reports, fetches a new plan, uploads. True if there is more to upload.
    fn talk(&mut self, news: &mut dyn FnMut(News<'_>)) -> anyhow::Result<bool> {
        let pin: Pin = self.joined.pin.parse().map_err(anyhow::Error::msg)?;
        let signer = (self.joined.point.clone(), self.identity.clone());
        let mut client = Client::connect(&self.joined.hub, pin, Some(signer))?;
        let mut answer = self.report(&mut client)?;
        if answer.plan != self.plan.as_ref().map_or(0, |p| p.0) {
            self.fetch_plan(&mut client, news)?;
        }
        let mut uploaded = 0;
        while uploaded < UPLOADS_AT_ONCE
            && let Some(name) = self.spool.oldest()
        {
            let verdict =
                self.spool
                    .upload(&name, &mut client, &self.joined.point, &self.joined.hub_key)?;
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
        let runs_left =
            !self.runs.waiting.is_empty() && self.runs.waiting[0].index < answer.runs_until;
        Ok(self.spool.oldest().is_some() || runs_left)
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
        let disk = nix::sys::statvfs::statvfs(&self.home).context("cannot look at the disk")?;
        let state = State {
            agent: env!("CARGO_PKG_VERSION").into(),
            plan: self.plan.as_ref().map_or(0, |p| p.0),
            unix_s: unix_s(),
            since_sync_s: since_sync_s(),
            spool_recordings,
            spool_bytes,
            disk_free: disk.blocks_available().saturating_mul(disk.fragment_size()),
            rows_closed,
            recordings_closed,
            runs,
        };
        let answer: StateAnswer =
            client.call(Method::POST, "/v1/state", None, serde_json::to_vec(&state)?)?;
        let before = self.runs.waiting.len();
        self.runs.waiting.retain(|r| r.index >= answer.runs_until);
        if self.runs.waiting.len() != before {
            write_json(&self.home.join("runs.json"), &self.runs)?;
        }
        Ok(answer)
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
        if self
            .plan
            .as_ref()
            .is_some_and(|(present, _)| *present >= fetched.number)
        {
            return Ok(());
        }
        let parsed = FleetPlan::parse(&fetched.text).with_context(|| {
            format!(
                "plan {} is not understood; the last one goes on",
                fetched.number
            )
        })?;
        write_json(&self.home.join("plan.json"), &fetched)?;
        news(News::Said(&format!(
            "plan {}: {}",
            fetched.number,
            ops::counted(parsed.measurement.len() as u64, "measurement")
        )));
        self.plan = Some((fetched.number, parsed));
        Ok(())
    }
}
