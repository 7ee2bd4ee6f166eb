//! One kind carried out over sockets.

use crate::recorder::Shared;
use crate::trace::BackgroundCapture;
use base::record::Row;
use experiment::spec::Far;
use experiment::{ProbeSpec, Setting};
use live::CraftError;
use live::clock::Clock;
use live::craft;
use live::emulate::NetNs;
use live::sockets::{Capture, Captured, Setup, Sockets};
use live::tally::Tally;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::mpsc::Sender;

/// Surroundings of a run, which measures from the calling thread's network namespace.
pub struct Run<'a> {
    /// The far end, and what may be sent.
    pub plan: &'a craft::Plan,
    /// The far end's network namespace if that and the one that this runs in are ours: their settings may be changed.
    pub far: Option<&'a NetNs>,
    pub clock: Clock,
    pub rows: Sender<Row>,
    /// Rows so far.
    pub so_far: Shared,
    /// The recording's directory, for captures.
    pub recording: &'a Path,
    /// Count of the traffic that is in no row.
    pub tally: Tally,
    pub watch: &'a mut dyn craft::Watch,
}

/// Carries one kind out.
///
/// # Errors
/// The first thing that made going on pointless; rows up to then were sent.
pub fn carry_out(probe: &ProbeSpec, run: Run) -> anyhow::Result<()> {
    let setting = Setting {
        budget: run.plan.budget,
        far: match run.far {
            Some(_) => Far::Namespace,
            None => Far::Elsewhere,
        },
    };
    let mut steps = probe.steps(&setting).map_err(CraftError::from)?;
    let setup = Setup {
        so_far: run.so_far,
        interface: run.plan.interface.clone(),
        tally: run.tally,
        far: run.far,
        capture: Some(Box::new(Capturing {
            recording: run.recording.to_owned(),
            rows: run.rows.clone(),
            running: None,
        })),
        ..Setup::new(run.plan.peer.clone(), run.clock, run.rows)
    };
    let mut sockets = Sockets::new(setup);
    experiment::run(&mut *steps, &run.plan.bounds(), &mut sockets, run.watch)?;
    Ok(())
}

/// Captures into the recording's directory.
struct Capturing {
    recording: PathBuf,
    rows: Sender<Row>,
    running: Option<BackgroundCapture>,
}

impl Capture for Capturing {
    fn start(&mut self, interface: &str, server: SocketAddr, file: &str) -> Result<(), String> {
        let file = self.recording.join(file);
        let started = || -> anyhow::Result<BackgroundCapture> {
            if let Some(directory) = file.parent() {
                std::fs::create_dir_all(directory)?;
            }
            BackgroundCapture::start(interface, server, &file, self.rows.clone())
        };
        self.running = Some(started().map_err(|e| format!("{e:#}"))?);
        Ok(())
    }

    fn stop(&mut self) -> Result<Captured, String> {
        let running = self.running.take().ok_or("no capture is running")?;
        let passed = running.stop().map_err(|e| format!("{e:#}"))?;
        Ok(Captured {
            packets: passed.packets,
            missed: passed.missed,
        })
    }
}
