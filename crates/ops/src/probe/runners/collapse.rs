//! Minutes of load and its packets.

use super::Run;
use crate::trace::BackgroundCapture;
use base::Duration;
use base::noted::Noted;
use base::noted::collapse::CollapseNote;
use experiment::collapse::Params;
use live::collapse::{self, Plan};
use live::traffic::interface_towards;

/// Within the recording.
const FILE: &str = "capture/collapse.pcapng";

pub fn run(run: Run) -> anyhow::Result<()> {
    let params: Params = run.words.read();
    let duration = params.duration;
    let lead = params.lead.unwrap_or(duration / 6);
    anyhow::ensure!(
        params.rounds < 2 || lead + lead < duration,
        "with lead={lead} no time of a round of {duration} is left for the second upload: make it less than {}",
        duration / 2
    );
    let plan = Plan {
        budget: run.plan.budget,
        interface: run.plan.interface.clone(),
        rounds: params.rounds,
        duration,
        lead,
        flows: params.flows,
        second_flows: params.second,
        rest: params.rest,
    };
    let interface = match &run.plan.interface {
        Some(name) => name.clone(),
        None => interface_towards(run.plan.peer.server)?,
    };
    let file = run.recording.join(FILE);
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory)?;
    }
    let capture =
        BackgroundCapture::start(&interface, run.plan.peer.server, &file, run.rows.clone())?;
    let (rows, clock) = (run.rows.clone(), run.clock);
    let result = run.errand(Duration::ZERO, |errand| collapse::run(&plan, errand));
    let passed = capture.stop()?;
    let note = CollapseNote::Captured {
        file: FILE.into(),
        packets: passed.packets,
        missed: passed.missed,
    };
    // The recorder outlives the run; if it is gone, the run is being torn down.
    let _ = rows.send(note.event(clock.unix_ns(), "").into());
    result
}
