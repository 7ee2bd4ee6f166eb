//! Blocks over a real link, with the user's commands to switch the cure on and off.
//!
//! **Method.** Without `go`, the plan is shown and nothing is run. The link starts without the cure. Each block switches it,
//! fills the link for a wash-out that does not count, and then measures. At the end the cure is off again: this process
//! runs the command, and a second process waits to run it if this one is killed.

use super::text;
use super::{Answer, Measure};
use crate::progress::{Event as News, Observer, Shared};
use crate::session::Session;
use crate::{Progress, usage};
use ::twin::prove::{Block, FEWEST_PAIRS, decide, detectable, order};
use ::twin::whatif::{Figures, Filled, Scene};
use anyhow::Context;
use base::record::{FORMAT_VERSION, Meta, Origin};
use base::{Bytes, Duration};
use experiment::Bounds;
use live::load::{Access, Peer};
use live::sockets::{Setup, Sockets};
use std::io::Write;
use std::net::SocketAddr;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Instant;

/// Pairs of the pilot, without the cure.
const PILOT: u64 = 3;
/// Time after which a command is given up.
const PATIENCE: std::time::Duration = std::time::Duration::from_secs(60);
/// Time that a block takes beside its wash-out and its counted part, s.
const AROUND_S: f64 = 3.0;

/// Cure of a real link.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// Name or address of the server.
    pub server: String,
    pub ipv4: bool,
    pub ipv6: bool,
    /// Shell command that switches the cure on.
    pub on: String,
    /// Shell command that switches it off.
    pub off: String,
    pub measure: Measure,
    pub load: Filled,
    /// TCP connections of each loaded direction.
    pub flows: u32,
    /// Pairs of blocks.
    pub pairs: u64,
    /// Counted part of each block.
    pub block: Duration,
    /// Loaded time before it.
    pub wash_out: Duration,
    /// Upper limit on the traffic of all blocks.
    pub budget: Bytes,
    pub seed: u64,
    /// Directory for the recordings of the blocks.
    pub output: Option<PathBuf>,
}

impl Plan {
    fn blocks(&self) -> u64 {
        2 * (PILOT + self.pairs)
    }

    /// Description of a run, for a person who decides about it.
    pub fn described(&self, width: usize) -> String {
        let block_s = (self.wash_out + self.block).as_secs_f64() + AROUND_S;
        text::plan(self, self.blocks(), block_s * self.blocks() as f64, width)
    }
}

/// Carries a plan out.
///
/// # Errors
/// A plan with too few pairs, a command that fails, a server that does not answer, an interruption.
pub fn run(plan: &Plan, access: &Access, progress: &mut dyn Progress) -> anyhow::Result<Answer> {
    check(plan)?;
    let port = measure::control::DEFAULT_PORT;
    let server = live::resolve::server(&plan.server, port, plan.ipv4, plan.ipv6)?;
    let shared = Shared::new(progress);
    let observer: &dyn Observer = &shared;
    observer.tell(News::Interruptible);
    let folder = super::folder(plan.output.as_ref())?;
    let mut field = Field {
        plan,
        server,
        access,
        scene: Scene::blocks(plan.load, plan.flows, plan.wash_out, plan.block),
        folder: folder.clone(),
        switch: Switch::new(&plan.on, &plan.off, observer)?,
        observer,
        done: 0,
    };
    field.switch.set(false)?;
    let mut pilot = Vec::new();
    for _ in 0..PILOT {
        pilot.push([field.block(false)?, field.block(false)?]);
    }
    let all: Vec<&Figures> = pilot.iter().flatten().collect();
    let reference = Figures::mean(&all);
    let value = |f: &Figures| plan.measure.of(f, &reference);
    let chance: Vec<f64> = pilot.iter().map(|[a, b]| value(b) - value(a)).collect();
    let shown = detectable(&chance, plan.pairs);
    if let Some(difference) = shown {
        observer.say(&text::power(plan.pairs, plan.measure, difference));
    }
    let mut blocks = Vec::new();
    for (pair, first) in order(plan.pairs, plan.seed).into_iter().enumerate() {
        for on in [first, !first] {
            let figures = field.block(on)?;
            blocks.push(Block {
                pair: pair as u64,
                on,
                value: value(&figures),
            });
        }
    }
    field.switch.restore()?;
    drop(field);
    let proof = decide(plan.measure, blocks, shown, plan.seed);
    observer.tell(News::Finished);
    Ok(Answer {
        proof,
        cure: plan.on.clone(),
        recordings: Some(folder),
        on: super::On::RealLink,
    })
}

fn check(plan: &Plan) -> anyhow::Result<()> {
    if plan.pairs < FEWEST_PAIRS {
        return Err(super::too_few(plan.pairs));
    }
    super::only_bulk(plan.load)?;
    if plan.measure == Measure::Page {
        return Err(usage(
            "pages are fetched in virtual time only: choose --measure delay, call or goodput",
        ));
    }
    if plan.on.trim() == plan.off.trim() {
        return Err(usage(
            "--on and --off are the same command, so both blocks of a pair would be alike",
        ));
    }
    Ok(())
}

/// Link, and all that a block needs.
struct Field<'a> {
    plan: &'a Plan,
    server: SocketAddr,
    access: &'a Access,
    scene: Scene,
    folder: PathBuf,
    switch: Switch<'a>,
    observer: &'a dyn Observer,
    done: u64,
}

impl Field<'_> {
    /// Switches the cure, and runs one block.
    fn block(&mut self, on: bool) -> anyhow::Result<Figures> {
        self.switch.set(on)?;
        self.done += 1;
        let word = if on { "on" } else { "off" };
        let path = self.folder.join(format!("{:03}-{word}.rec", self.done));
        let figures = self.record(&path, word)?;
        let all = self.plan.blocks();
        self.observer.share(self.done as f64 / all as f64);
        Ok(figures)
    }

    fn record(&self, path: &Path, word: &str) -> anyhow::Result<Figures> {
        let session = Session::start(Some(path), |clock| {
            Ok(Meta {
                format: FORMAT_VERSION,
                writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
                origin: Origin::Measured,
                verb: "prove".into(),
                title: format!("The line to {}, cure {word}", self.plan.server),
                started_ns: clock.unix_ns(),
                host: live::host::facts(None),
                ..Meta::default()
            })
        })?;
        let mut watch = session.watch(self.observer);
        let peer = Peer {
            server: self.server,
            access: self.access.clone(),
            patience: Duration::from_secs(10),
        };
        let setup = Setup {
            so_far: session.recorder.shared.clone(),
            ..Setup::new(peer, session.clock, session.recorder.rows.clone())
        };
        let each = self.plan.budget.get() / self.plan.blocks().max(1);
        let bounds = Bounds::of(Bytes::new(each));
        // The sockets are closed before the recorder waits for the last row.
        let ran = {
            let mut sockets = Sockets::new(setup);
            experiment::run(&mut self.scene.steps(), &bounds, &mut sockets, &mut watch)
        };
        let result = ran.map(drop).map_err(anyhow::Error::from);
        let closed = session.finish(&result);
        result?;
        closed.written?;
        self.scene.read(&closed.recording).with_context(|| {
            format!(
                "the block in {} has no answered probes under load",
                path.display()
            )
        })
    }
}

/// The user's commands. The cure is off when this is dropped, and also when the process is killed.
struct Switch<'a> {
    on: &'a str,
    off: &'a str,
    observer: &'a dyn Observer,
    guard: Child,
    /// True if the cure may be on.
    changed: bool,
}

impl<'a> Switch<'a> {
    fn new(on: &'a str, off: &'a str, observer: &'a dyn Observer) -> anyhow::Result<Switch<'a>> {
        // The pipe ends when this process does, however that happens.
        let script =
            "read -r word || true; if [ \"${word:-}\" != done ]; then exec sh -c \"$1\"; fi";
        let guard = shell(script)
            .args(["guard", off])
            .stdin(Stdio::piped())
            .spawn()
            .context("cannot start sh, which runs the commands of --on and --off")?;
        Ok(Switch {
            on,
            off,
            observer,
            guard,
            changed: true,
        })
    }

    fn set(&mut self, on: bool) -> anyhow::Result<()> {
        if self.observer.interrupted() {
            anyhow::bail!("interrupted; the cure is switched off");
        }
        self.changed = true;
        match on {
            true => command("--on", self.on),
            false => command("--off", self.off),
        }
    }

    /// Switches the cure off for good.
    fn restore(&mut self) -> anyhow::Result<()> {
        if !std::mem::take(&mut self.changed) {
            return Ok(());
        }
        let result = command("--off", self.off);
        if let Some(mut pipe) = self.guard.stdin.take() {
            // A guard that is gone has nothing more to do.
            let _ = pipe.write_all(b"done\n");
        }
        let _ = self.guard.wait();
        result
    }
}

impl Drop for Switch<'_> {
    fn drop(&mut self) {
        if let Err(why) = self.restore() {
            self.observer.warn(&format!(
                "the cure may still be on: {why:#}. Run the command of --off yourself: {}",
                self.off
            ));
        }
    }
}

/// Shell in a group of its own, which Ctrl-C in the terminal does not reach.
fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command
        .args(["-c", script])
        .process_group(0)
        .stdout(Stdio::null());
    command
}

/// Runs a command to its end.
fn command(option: &str, text: &str) -> anyhow::Result<()> {
    let mut child = shell(text)
        .stdin(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run the command of {option}"))?;
    let started = Instant::now();
    loop {
        match child.try_wait()? {
            Some(status) if status.success() => return Ok(()),
            Some(status) => anyhow::bail!("the command of {option} failed ({status}): {text}"),
            None if started.elapsed() > PATIENCE => {
                let _ = child.kill();
                let _ = child.wait();
                anyhow::bail!(
                    "the command of {option} did not end within {} s: {text}",
                    PATIENCE.as_secs()
                );
            }
            None => std::thread::sleep(std::time::Duration::from_millis(20)),
        }
    }
}
