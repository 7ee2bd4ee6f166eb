//! Options that the verbs which measure share: interfaces, access to servers, log-in pages, and the end of a run.

use super::{Outcome, usage};
use live::load::Access;
use measure::keys::{KeyFile, Pin};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Prints the paths of a run's report and recording, and its outcome.
pub fn finish(end: ops::End) -> anyhow::Result<Outcome> {
    if let Some(page) = &end.page {
        eprintln!("Report: {}", page.display());
        eprintln!("Recording: {}", end.recording.display());
    }
    if let Some(failed) = end.failed {
        return Err(failed);
    }
    Ok(match end.interrupted {
        Some(why) => {
            eprintln!(
                "tailback: {why}; what was measured until then is above and in the recording"
            );
            Outcome::CouldNotMeasure
        }
        None => Outcome::Done,
    })
}

/// Interfaces that one measurement is made through, each in turn or all at once.
#[derive(clap::Args, Clone)]
pub struct ThroughArgs {
    /// Interface that all traffic of the run is bound to, and whose counters show cross traffic. Of several, such as
    /// modems, the link through each is measured in turn, and the answers stand side by side [default: as the kernel
    /// routes to the server]
    #[arg(long, value_delimiter = ',', value_name = "NAME,...")]
    interface: Vec<String>,
    /// Measure through all of several interfaces at the same time. Downloads from one server wait for each other even so
    #[arg(long, requires = "interface")]
    at_once: bool,
}

/// Prints what was measured.
pub type Printing = Box<dyn FnOnce() -> anyhow::Result<Outcome> + Send>;

impl ThroughArgs {
    /// True if the measurement is to be made more than once.
    pub fn are_several(&self) -> bool {
        self.interface.len() > 1
    }

    /// Interface of one run.
    ///
    /// # Errors
    /// Several, which only a command line takes, and one over an emulated link.
    pub fn one(&self, emulated: bool) -> anyhow::Result<Option<String>> {
        match &self.interface[..] {
            [] => Ok(None),
            [_, ..] if emulated => Err(usage("--interface is of a real link: name a server")),
            [one] => Ok(Some(one.clone())),
            _ => Err(usage("a plan has one --interface: give each its own")),
        }
    }

    /// Runs a measurement through each of several interfaces, and lets `compare` set the recordings beside each other, by
    /// interface. `run` measures through one, into the recording that it is given; it shows its progress if it is told so.
    ///
    /// # Errors
    /// Errors of the comparison; those of a run are told, and the others go on.
    pub fn each(
        &self,
        output: Option<&Path>,
        run: &(dyn Fn(ThroughArgs, &Path, bool) -> anyhow::Result<Printing> + Sync),
        compare: &dyn Fn(Vec<(String, PathBuf)>) -> anyhow::Result<Outcome>,
    ) -> anyhow::Result<Outcome> {
        let base = output
            .map_or_else(ops::default_path, Path::to_owned)
            .with_extension("");
        let all = self.interface.iter();
        let runs = all.map(|i| (i, PathBuf::from(format!("{}-{i}.rec", base.display()))));
        let runs: Vec<(&String, PathBuf)> = runs.collect();
        let through = |interface: &String, path: &Path, shown| {
            let one = ThroughArgs {
                interface: vec![interface.clone()],
                at_once: false,
            };
            run(one, path, shown)
        };
        let (mut measured, mut latest) = (Vec::new(), Outcome::Done);
        let mut take = |interface: &String, path: PathBuf, done: anyhow::Result<Printing>| {
            match done.and_then(|printing| printing()) {
                Ok(outcome) => {
                    measured.push((interface.clone(), path));
                    latest = latest.worse(outcome);
                }
                Err(e) if ops::is_usage(&e) => return Err(e),
                Err(e) => {
                    eprintln!("tailback: through {interface}: {e:#}");
                    latest = Outcome::CouldNotMeasure;
                }
            }
            Ok(())
        };
        if self.at_once {
            let face = crate::face::face();
            let work = |(i, (interface, path)): (usize, &(&String, PathBuf))| {
                // The progress of the first stands for all.
                crate::face::within(face.clone(), || through(interface, path, i == 0))
            };
            let done: Vec<_> = std::thread::scope(|scope| {
                let threads = runs
                    .iter()
                    .enumerate()
                    .map(|r| scope.spawn(move || work(r)));
                let threads: Vec<_> = threads.collect();
                let join = |t: std::thread::ScopedJoinHandle<'_, _>| t.join();
                threads.into_iter().map(join).collect()
            });
            for ((interface, path), done) in runs.into_iter().zip(done) {
                eprintln!("Through {interface}:");
                let done = done.unwrap_or_else(|panic| std::panic::resume_unwind(panic));
                take(interface, path, done)?;
            }
        } else {
            for (interface, path) in runs {
                if crate::face::interrupted() {
                    return Ok(Outcome::CouldNotMeasure);
                }
                eprintln!("Through {interface}:");
                let done = through(interface, &path, true);
                take(interface, path, done)?;
            }
        }
        if measured.len() < 2 {
            return Ok(Outcome::CouldNotMeasure);
        }
        Ok(compare(measured)?.worse(latest))
    }
}

/// Options for access to a server and for its identity.
#[derive(clap::Args, Clone)]
pub struct AccessArgs {
    /// File with one line "NAME KEY", as printed by `tailback serve keys add` (or set TAILBACK_KEY to the line)
    #[arg(long, value_name = "FILE")]
    key_file: Option<PathBuf>,
    /// Public key of the server, sha256:…, as printed by `tailback serve`: control messages then travel inside TLS 1.3,
    /// and UDP probes are signed
    #[arg(long, value_name = "PIN")]
    pub pin: Option<Pin>,
}

/// Options for log-in pages of the network (captive portals).
#[derive(clap::Args, Clone)]
pub struct LogInArgs {
    /// Ask this host by plain HTTP, before the measurement, if a log-in page of the network answers in its place
    #[arg(long, value_name = "HOST[:PORT]", conflicts_with = "link")]
    login_check: Option<String>,
    /// Command that passes a log-in page, for up to 60 s; TAILBACK_LOGIN_URL has the page's address. The measurement
    /// then goes on
    #[arg(long, value_name = "COMMAND", conflicts_with = "link")]
    login_cmd: Option<String>,
}

impl LogInArgs {
    /// Treatment of log-in pages that the options describe.
    pub fn read(&self) -> ops::LogIn {
        ops::LogIn {
            check: self.login_check.clone(),
            command: self.login_cmd.clone(),
            ..ops::LogIn::default()
        }
    }
}

impl AccessArgs {
    /// These options as another run of this program takes them.
    pub fn options(&self) -> Vec<OsString> {
        let file = self.key_file.as_ref();
        let file = file.map(|f| ["--key-file".into(), f.clone().into_os_string()]);
        let pin = self.pin.map(|p| ["--pin".into(), p.to_string().into()]);
        file.into_iter().chain(pin).flatten().collect()
    }

    pub fn read(&self) -> anyhow::Result<Access> {
        let (file, place) = match &self.key_file {
            Some(path) => (key_file(path)?, path.display().to_string()),
            None => match std::env::var("TAILBACK_KEY") {
                Ok(line) => (
                    KeyFile::parse(&line)
                        .map_err(|e| usage(format!("TAILBACK_KEY: {}", e.what)))?,
                    "TAILBACK_KEY".into(),
                ),
                Err(_) => {
                    return Ok(Access {
                        pin: self.pin,
                        ..Access::default()
                    });
                }
            },
        };
        let (key, pin) = file.single().map_err(|e| usage(format!("{place}: {e}")))?;
        Ok(Access {
            key: Some(key),
            pin: self.pin.or(pin),
            ..Access::default()
        })
    }
}

/// Reads a file of keys that only its owner may read.
#[cfg(target_os = "linux")]
fn key_file(path: &Path) -> anyhow::Result<KeyFile> {
    live::serve::keys::read(path).map_err(|e| usage(e.to_string()))
}

/// Reads a file of keys.
#[cfg(not(target_os = "linux"))]
fn key_file(path: &Path) -> anyhow::Result<KeyFile> {
    let text = ops::read_text(path)?;
    KeyFile::parse(&text).map_err(|e| usage(format!("{}: {}", path.display(), e.what)))
}
