//! A cell in virtual time, with the simulator's TCP: what `tailback probe KIND --link LINE --virtual` says.

use crate::accuracy::line::Line;
use crate::accuracy::rows::Said;
use base::Bytes;
use base::record::Direction;
use base::record::Queue;
use experiment::spec::Far;
use experiment::{Bounds, ProbeSpec, Setting, Unwatched};
use sim::bufferbloat::{self, EPOCH_NS, Network};

/// More than any cell sends.
const BUDGET: Bytes = Bytes::new(4_000_000_000);

/// Runs the kind; the recording has the true waits of the uplink as rows of the queue `up`.
pub fn run(probe: &str, line: &Line, network: Network, seed: u64) -> Result<Said, String> {
    let spec: ProbeSpec = probe.parse().expect("a kind of ours");
    let setting = Setting {
        budget: BUDGET,
        far: Far::Virtual,
    };
    let mut steps = spec.steps(&setting).map_err(|e| e.to_string())?;
    let plan = bufferbloat::Plan {
        network,
        ..bufferbloat::Plan::new(line.spec(), seed)
    };
    let bounds = Bounds::of(BUDGET);
    let (outcome, went) = bufferbloat::observe(&plan, &mut *steps, &bounds, &mut Unwatched)
        .map_err(|e| e.to_string())?;
    went.map_err(|e| e.to_string())?;
    let mut recording = outcome.recording;
    recording.meta.verb = "probe".into();
    recording.meta.plan = serde_json::json!({ "probe": spec });
    let answer = experiment::analyse(&recording).map_err(|e| e.to_string())?;
    let up = outcome
        .seen
        .waits
        .iter()
        .filter(|w| w.direction == Direction::Up);
    recording.queue = up
        .map(|w| Queue {
            t_ns: EPOCH_NS + w.t_ns as i64,
            queue: "up".into(),
            sojourn_ns: Some(w.sojourn_ns as i64),
            backlog_bytes: 0,
            backlog_packets: 0,
            delivered_bytes: 0,
            drops: 0,
            marks: 0,
            probability: None,
        })
        .collect();
    Ok(Said {
        answer: serde_json::to_value(answer).map_err(|e| e.to_string())?,
        recording,
        ..Said::default()
    })
}
