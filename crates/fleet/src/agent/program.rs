//! Programs of a point: the one with which the agent was started, and releases that replace it.
//!
//! `programs/VERSION/tailback` is a release with its signature beside it; nothing without a valid one is ever started.
//! `program.json` says which release runs. A release is tried as a child of the program before it. It replaces that one
//! once the hub has a recording of it; otherwise the program before goes on. A program that ends three times within a minute
//! of its start gives way to the one before it; if there is none, the plan gives way to the last one, and at last to none.

use super::spool::{read, write_json};
use super::{Agent, Joined, News};
use crate::durable;
use crate::release::{AS, ReleaseKey, Version, target};
use crate::wire::{FailedRelease, Proof, ProofRequest, ReleaseOffer};
use anyhow::{Context, anyhow};
use hyper::Method;
use live::interrupted_with_parent;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::time::{Duration, Instant};

/// Variable that is set for a release on trial.
const ON_TRIAL: &str = "TAILBACK_RELEASE_TRIAL";
/// Starts in a row, each shorter than [`LIVED`], after which a program or plan gives way; and after which no plan is left.
const STARTS: u32 = 3;
const STARTS_WITHOUT_PLAN: u32 = 10;
/// Time after which a start counts as a good one.
pub(super) const LIVED: Duration = Duration::from_secs(60);
/// Ends of a release on trial after which it has failed, and trials that something ended before.
const ENDS: u32 = 3;
const TRIALS: u32 = 3;
/// Time between two questions to the hub for a recording of the release.
const ASK_EVERY: Duration = Duration::from_secs(3);
/// Time that a release on trial has to end its runs.
const GRACE: Duration = Duration::from_secs(40);
/// Time after which a plan that gave way is tried again, s.
const PLAN_AGAIN_S: i64 = 86_400;
/// Bytes of a release that are fetched before the agent looks after its runs again.
const AT_ONCE: u64 = 16 << 20;
const PIECE: u64 = crate::wire::CHUNK as u64;
/// Failed releases that are remembered.
const FAILED: usize = 16;

/// Plan that gave way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Aside {
    pub number: u64,
    at_s: i64,
    /// True if the plan before it gave way, too.
    pub both: bool,
}

/// Release that is tried, and the number of trials begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Trial {
    version: Version,
    begun: u32,
}

/// Content of `program.json`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct Programs {
    /// Release in place of the program with which the agent was started, and the one before it.
    good: Option<Version>,
    before: Option<Version>,
    trial: Option<Trial>,
    failed: BTreeMap<Version, String>,
    /// Release that failed last.
    last_failed: Option<Version>,
    /// Starts since the last good one.
    starts: u32,
    aside: Option<Aside>,
}

/// Outcome of a start.
#[derive(Debug, PartialEq, Eq)]
enum Start {
    /// Program that was started.
    Own,
    /// Release in its place.
    Release(Version),
}

fn file(home: &Path) -> PathBuf {
    home.join("program.json")
}

fn directory(home: &Path, version: Version) -> PathBuf {
    home.join("programs").join(version.to_string())
}

pub(super) fn program(home: &Path, version: Version) -> PathBuf {
    directory(home, version).join("tailback")
}

fn signature(home: &Path, version: Version) -> PathBuf {
    directory(home, version).join("tailback.minisig")
}

impl Programs {
    pub fn of(home: &Path) -> anyhow::Result<Programs> {
        Ok(read(&file(home))?.unwrap_or_default())
    }

    fn keep(&self, home: &Path) -> anyhow::Result<()> {
        write_json(&file(home), self)
    }

    fn fail(&mut self, version: Version, why: String) {
        self.last_failed = Some(version);
        self.failed.insert(version, why);
        while self.failed.len() > FAILED {
            self.failed.pop_first();
        }
    }

    pub fn last_failed(&self) -> Option<FailedRelease> {
        let version = self.last_failed?;
        let why = self.failed.get(&version)?.clone();
        Some(FailedRelease { version, why })
    }

    pub fn has_failed(&self, version: Version) -> bool {
        self.failed.contains_key(&version)
    }

    /// Plan that gave way and is not to be tried again yet.
    pub fn aside(&self, now_s: i64) -> Option<Aside> {
        self.aside
            .filter(|a| (0..PLAN_AGAIN_S).contains(&(now_s - a.at_s)))
    }

    /// Counts a start, and decides what gives way if the last ones were too short.
    fn begin(&mut self, plan: Option<u64>, now_s: i64) -> Start {
        self.starts += 1;
        if self.starts > STARTS {
            if let Some(bad) = self.good.take() {
                self.fail(
                    bad,
                    format!("it ended {STARTS} times within a minute of its start"),
                );
                self.good = self.before.take();
                self.starts = 1;
            } else if let Some(number) = plan {
                let both = self.starts > STARTS_WITHOUT_PLAN;
                self.aside = Some(Aside {
                    number,
                    at_s: now_s,
                    both,
                });
            }
        }
        self.good.map_or(Start::Own, Start::Release)
    }

    /// Notes that this start was a good one. True if that changes anything.
    fn lived(&mut self) -> bool {
        std::mem::take(&mut self.starts) != 0
    }

    /// Notes that a trial begins. False if too many were cut short before.
    fn begin_trial(&mut self, version: Version) -> bool {
        let begun = self.trial.filter(|t| t.version == version);
        let begun = begun.map_or(0, |t| t.begun) + 1;
        self.trial = Some(Trial { version, begun });
        begun <= TRIALS
    }

    fn end_trial(&mut self, version: Version, why: Option<String>) {
        self.trial = None;
        match why {
            Some(why) => self.fail(version, why),
            None => {
                self.before = self.good.replace(version);
                self.starts = 0;
            }
        }
    }
}

/// Number of the plan on the disk.
fn plan_number(home: &Path) -> Option<u64> {
    let plan: Option<crate::wire::SignedPlan> = read(&home.join("plan.json")).ok()?;
    plan.map(|p| p.number)
}

/// Becomes another program in this process. It returns only if that fails, or if this one is to stop.
fn become_program(
    path: &Path,
    version: Option<Version>,
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    live::signal::hold_interrupts();
    if stop() {
        live::signal::release_interrupts();
        return Ok(());
    }
    let mut command = Command::new(path);
    command.args(std::env::args_os().skip(1));
    command.env_remove(ON_TRIAL).env_remove(AS);
    if let Some(version) = version {
        command.env(AS, version.to_string());
    }
    let failed = command.exec();
    live::signal::release_interrupts();
    Err(failed).with_context(|| format!("cannot start {}", path.display()))
}

/// True if this process is a release on trial.
pub(super) fn is_on_trial() -> bool {
    std::env::var_os(ON_TRIAL).is_some()
}

/// True if this process was started as a release by the program before it.
fn is_release() -> bool {
    std::env::var_os(AS).is_some()
}

/// Starts the release that replaces this program, in this process. Returns if there is none.
///
/// # Errors
/// The agent's files cannot be read or written.
pub fn launch(
    home: &Path,
    news: &mut dyn FnMut(News<'_>),
    stop: &dyn Fn() -> bool,
) -> anyhow::Result<()> {
    if is_release() || !Agent::has_joined(home) {
        return Ok(());
    }
    let joined: Joined = read(&home.join("hub.json"))?.context("hub.json is empty")?;
    let mut programs = Programs::of(home)?;
    let mut start = programs.begin(plan_number(home), crate::unix_s());
    if let Start::Release(version) = start
        && version <= Version::own()
    {
        // A package has brought a newer program.
        (programs.good, programs.before) = (None, None);
        start = Start::Own;
    }
    programs.keep(home)?;
    clean(home, &programs)?;
    let (Start::Release(version), Some(key)) = (start, &joined.release_key) else {
        return Ok(());
    };
    let started = verified(home, key, version)
        .and_then(|()| become_program(&program(home, version), Some(version), stop));
    let Err(failed) = started else {
        return Ok(());
    };
    news(News::Failed(&format!("release {version}: {failed:#}")));
    programs.fail(version, format!("{failed:#}"));
    programs.good = programs.before.take();
    programs.keep(home)
}

/// Removes releases that are neither in use nor the one before, and what was fetched in part.
fn clean(home: &Path, programs: &Programs) -> anyhow::Result<()> {
    let all = home.join("programs");
    if !all.exists() {
        return Ok(());
    }
    let trial = programs.trial.map(|t| t.version);
    let used = [programs.good, programs.before, trial].map(|v| v.map(|v| v.to_string()));
    for name in durable::names(&all)? {
        let path = all.join(&name);
        if name.ends_with(".part") {
            // Of a part that an earlier process fetched, a power cut may have lost pieces.
            std::fs::remove_file(path)?;
        } else if !used.contains(&Some(name)) {
            std::fs::remove_dir_all(path)?;
        }
    }
    Ok(())
}

/// Checks a release on the disk.
fn verified(home: &Path, key: &ReleaseKey, version: Version) -> anyhow::Result<()> {
    let signature = std::fs::read_to_string(signature(home, version))
        .context("the release has lost its signature")?;
    named(key, &program(home, version), &signature, version)
}

fn named(key: &ReleaseKey, file: &Path, signature: &str, version: Version) -> anyhow::Result<()> {
    let label = key.verified(file, signature)?;
    if label.version != version || label.target != target() {
        return Err(anyhow!(
            "the hub offered it as {version} for {}, it is signed as {} for {}",
            target(),
            label.version,
            label.target
        ));
    }
    Ok(())
}

impl Agent {
    /// Notes that this program has lived for a while, or has ended as it should.
    pub(super) fn has_lived(&mut self) -> anyhow::Result<()> {
        if !self.on_trial && self.programs.lived() {
            self.programs.keep(&self.home)?;
        }
        Ok(())
    }

    /// Forgets the plan that gave way, as there is a newer one.
    pub(super) fn plan_is_new(&mut self) -> anyhow::Result<()> {
        if self.programs.aside.take().is_some() {
            self.programs.keep(&self.home)?;
        }
        Ok(())
    }

    /// Fetches the release that the hub offers. True if more of it is to come.
    pub(super) fn fetch_release(
        &mut self,
        client: &mut super::Client,
        offer: &ReleaseOffer,
        news: &mut dyn FnMut(News<'_>),
    ) -> anyhow::Result<bool> {
        let version = offer.version;
        let Some(key) = self.joined.release_key.clone() else {
            return Ok(false);
        };
        let loads = self.running.iter().any(|r| r.task.server().is_some());
        let is_wanted = version > Version::running() && !self.programs.has_failed(version);
        if self.on_trial || self.next_program.is_some() || !is_wanted || loads {
            return Ok(false);
        }
        let part = self.home.join("programs").join(format!("{version}.part"));
        durable::create_directories(&self.home.join("programs"))?;
        if !program(&self.home, version).exists() {
            let have = std::fs::metadata(&part).map_or(0, |m| m.len());
            if let Some(why) = self.unwelcome(offer.bytes.saturating_sub(have)) {
                self.release_waits = Some(format!("release {version} waits: {why}"));
                return Ok(false);
            }
            self.release_waits = None;
            let until = offer.bytes.min(have + AT_ONCE);
            self.fetch_until(client, version, &part, (have, until))?;
            if until < offer.bytes {
                return Ok(true);
            }
        }
        match self.install(&key, offer, &part) {
            Ok(()) => {
                news(News::Said(&format!("release {version} is here and signed")));
                self.next_program = Some(version);
            }
            Err(e) if durable::is_full(&e) => return Err(e),
            Err(e) => {
                let _ = std::fs::remove_file(&part);
                let _ = std::fs::remove_dir_all(directory(&self.home, version));
                news(News::Failed(&format!("release {version}: {e:#}")));
                self.programs.fail(version, format!("{e:#}"));
                self.programs.keep(&self.home)?;
            }
        }
        Ok(false)
    }

    /// Reason for which so many bytes of a release cannot come now.
    fn unwelcome(&mut self, bytes: u64) -> Option<String> {
        let (now_s, limits) = (self.now_s(), self.limits());
        if let Some(left) = self.spending.left(now_s, limits)
            && left.get() < bytes
        {
            let needed = base::Bytes::new(bytes);
            return Some(format!(
                "the budget of this day or month has {left} left, it needs {needed}"
            ));
        }
        let (free, _) = live::host::disk_space(&self.home)?;
        let needed = bytes.saturating_mul(2).saturating_add(64_000_000);
        (free < needed).then(|| format!("{} free on the disk", base::Bytes::new(free)))
    }

    fn fetch_until(
        &mut self,
        client: &mut super::Client,
        version: Version,
        part: &Path,
        (mut have, until): (u64, u64),
    ) -> anyhow::Result<()> {
        let path = format!("/v1/releases/{version}/{}", target());
        let mut options = OpenOptions::new();
        let opened = options.create(true).append(true).open(part);
        let mut to = opened.with_context(|| format!("cannot write {}", part.display()))?;
        while have < until {
            let n = (until - have).min(PIECE);
            let piece = client.fetch(&path, (have, have + n - 1))?;
            self.spending.charge(self.now_s(), piece.len() as u64);
            if piece.is_empty() || piece.len() as u64 > n {
                return Err(anyhow!("the hub sent {} of {n} bytes", piece.len()));
            }
            to.write_all(&piece)?;
            have += piece.len() as u64;
        }
        to.sync_all()?;
        Ok(())
    }

    /// Checks a fetched release, and puts it into its place.
    fn install(&self, key: &ReleaseKey, offer: &ReleaseOffer, part: &Path) -> anyhow::Result<()> {
        let version = offer.version;
        if program(&self.home, version).exists() {
            return verified(&self.home, key, version);
        }
        named(key, part, &offer.signature, version)?;
        durable::create_directories(&directory(&self.home, version))?;
        durable::write(&signature(&self.home, version), offer.signature.as_bytes())?;
        std::fs::set_permissions(part, Permissions::from_mode(0o755))?;
        durable::rename(part, &program(&self.home, version))
    }

    /// Ends what this program measures, so that a release can take over: true once nothing runs.
    pub(super) fn make_way(&mut self) -> bool {
        // A test or probe comes to its own end.
        for run in self.running.iter_mut().filter(|r| r.task.is_endless()) {
            run.ask();
        }
        self.running.is_empty()
    }

    /// Tries a release. In the end this process becomes the release, or starts anew as what it was; it returns if it was
    /// asked to stop.
    ///
    /// # Errors
    /// The agent's files cannot be written, or no program can be started.
    pub(super) fn try_release(
        &mut self,
        version: Version,
        news: &mut dyn FnMut(News<'_>),
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<()> {
        let may = self.programs.begin_trial(version);
        self.programs.keep(&self.home)?;
        let ended = if may {
            news(News::Said(&format!("trying release {version}")));
            self.alone = None;
            self.watch(version, stop)?
        } else {
            Some(Err(format!("{TRIALS} trials were cut short")))
        };
        let Some(ended) = ended else {
            return Ok(());
        };
        let why = ended.err();
        match &why {
            Some(why) => news(News::Failed(&format!("release {version}: {why}"))),
            None => news(News::Said(&format!("release {version} has proved itself"))),
        }
        let failed = why.is_some();
        self.programs.end_trial(version, why);
        self.programs.keep(&self.home)?;
        clean(&self.home, &self.programs)?;
        if !failed {
            return become_program(&program(&self.home, version), Some(version), stop);
        }
        let own = std::env::current_exe().context("cannot find the program itself")?;
        become_program(&own, is_release().then(Version::running), stop)
    }

    /// Watches a release on trial: proved, failed and why, or none if this agent is to stop.
    fn watch(
        &self,
        version: Version,
        stop: &dyn Fn() -> bool,
    ) -> anyhow::Result<Option<Result<(), String>>> {
        let plan = self.plan.as_ref();
        let mut left = Duration::from_secs(plan.map_or(900, |(_, p)| p.upgrade_within_s));
        let mut child = match self.start_release(version) {
            Ok(child) => child,
            Err(e) => return Ok(Some(Err(format!("{e:#}")))),
        };
        let (mut ends, mut asked) = (0, Instant::now());
        loop {
            std::thread::sleep(super::TICK);
            if stop() {
                end(&mut child)?;
                return Ok(None);
            }
            if let Some(status) = child.try_wait()? {
                ends += 1;
                if ends == ENDS {
                    return Ok(Some(Err(format!("it ended {ENDS} times: {status}"))));
                }
                child = match self.start_release(version) {
                    Ok(child) => child,
                    Err(e) => return Ok(Some(Err(format!("{e:#}")))),
                };
            }
            if asked.elapsed() < ASK_EVERY {
                continue;
            }
            let waited = asked.elapsed();
            match self.proof(version) {
                Ok(proof) if proof.stored > 0 => {
                    end(&mut child)?;
                    return Ok(Some(Ok(())));
                }
                Ok(_) => left = left.saturating_sub(waited),
                // Without the hub nothing can come back, whatever the program: the time stands still.
                Err(_) => {}
            }
            asked = Instant::now();
            if left.is_zero() {
                end(&mut child)?;
                let s = plan.map_or(900, |(_, p)| p.upgrade_within_s);
                let why = format!("no recording of it reached the hub within {s} s");
                return Ok(Some(Err(why)));
            }
        }
    }

    fn start_release(&self, version: Version) -> anyhow::Result<Child> {
        let path = program(&self.home, version);
        let mut command = Command::new(&path);
        command
            .args(std::env::args_os().skip(1))
            .env(AS, version.to_string())
            .env(ON_TRIAL, "1");
        interrupted_with_parent(&mut command)
            .spawn()
            .with_context(|| format!("cannot start {}", path.display()))
    }

    fn proof(&self, version: Version) -> anyhow::Result<Proof> {
        let body = serde_json::to_vec(&ProofRequest { version })?;
        self.client()?.call(Method::POST, "/v1/proof", None, body)
    }
}

/// Ends a release on trial.
fn end(child: &mut Child) -> anyhow::Result<()> {
    let pid = Pid::from_raw(child.id().cast_signed());
    // If it has ended meanwhile, there is nothing to ask.
    let _ = kill(pid, Signal::SIGINT);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if child.try_wait()?.is_some() {
            return Ok(());
        }
        std::thread::sleep(super::TICK);
    }
    child.kill()?;
    child.wait()?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::RngExt;

    fn version(text: &str) -> Version {
        text.parse().unwrap()
    }

    #[test]
    fn a_release_that_ends_three_times_soon_gives_way_to_the_one_before() {
        let (old, new) = (version("1.0.0"), version("1.1.0"));
        let mut programs = Programs::default();
        programs.end_trial(old, None);
        programs.end_trial(new, None);
        for _ in 0..STARTS {
            assert_eq!(programs.begin(Some(7), 0), Start::Release(new));
        }
        assert_eq!(programs.begin(Some(7), 0), Start::Release(old));
        assert!(programs.has_failed(new));
        for _ in 1..STARTS {
            assert_eq!(programs.begin(Some(7), 0), Start::Release(old));
        }
        assert_eq!(programs.begin(Some(7), 0), Start::Own);
        // Then the plan gives way, and after it the plan before.
        for start in 1..STARTS_WITHOUT_PLAN {
            let both = programs.aside(0).map(|a| a.both);
            let expected = (start > STARTS).then_some(false);
            assert_eq!(both, expected, "start {start}");
            assert_eq!(programs.begin(Some(7), 0), Start::Own);
        }
        assert_eq!(programs.begin(Some(7), 0), Start::Own);
        assert_eq!(programs.aside(0).map(|a| a.both), Some(true));
        assert_eq!(programs.aside(PLAN_AGAIN_S), None);
    }

    /// Starts drawn at random: nothing gives way as long as one of three lives for a minute.
    #[test]
    fn nothing_gives_way_while_one_start_of_three_is_good() {
        let mut rng = base::rng::Streams::new(20_261_127).stream("starts");
        let new = version("1.1.0");
        let mut programs = Programs::default();
        programs.end_trial(new, None);
        let mut short = 0;
        for _ in 0..2000 {
            assert_eq!(programs.begin(Some(1), 0), Start::Release(new));
            short += 1;
            if short == STARTS || rng.random_range(0..2) == 0 {
                programs.lived();
                short = 0;
            }
        }
        assert_eq!(programs.aside(0), None);
    }

    #[test]
    fn trials_that_are_cut_short_are_counted() {
        let mut programs = Programs::default();
        let new = version("1.1.0");
        for _ in 0..TRIALS {
            assert!(programs.begin_trial(new));
        }
        assert!(!programs.begin_trial(new));
        assert!(programs.begin_trial(version("1.2.0")));
    }
}
