//! `tailback trace NEAR --far FAR`: the joint answer of captures at both ends of a path.

mod answer;
mod recording;
mod text;

use super::Plan;
use super::input;
use crate::progress::Observer;
use crate::write_file;
use analysis::two_ends::{self, Seen, TwoClocks};
use answer::EndsAnswer;
use measure::ends::{Capture, Matched, Way, match_ends};
use std::path::{Path, PathBuf};

/// Figures of two captures of one path.
pub struct Answer {
    figures: EndsAnswer,
    /// Flows that the text shows.
    top: usize,
    /// Packets that both ends have.
    matched: usize,
}

impl Answer {
    /// True if no packet was found at both ends.
    pub fn is_empty(&self) -> bool {
        self.matched == 0
    }

    /// Returns the tables for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        text::text(&self.figures, self.top, width)
    }

    /// All figures as JSON.
    ///
    /// # Errors
    /// Errors of the receiver.
    pub fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        serde_json::to_writer_pretty(out, &self.figures)
    }
}

/// Schema of the JSON.
pub(super) fn schema() -> schemars::Schema {
    schemars::schema_for!(EndsAnswer)
}

/// Both captures matched, and their clocks beside each other.
struct Ends {
    matched: Matched,
    seen: Vec<Seen>,
    clocks: Result<TwoClocks, String>,
    near_packets: usize,
    far_packets: usize,
    notes: Vec<String>,
}

/// Matches both captures packet by packet.
pub(super) fn run(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<Answer> {
    let mut notes = Vec::new();
    let near = capture(&plan.files, &mut notes)?;
    let far = capture(&plan.far, &mut notes)?;
    let (near_packets, far_packets) = (near.len(), far.len());
    let matched = match_ends(&near, &far);
    drop((near, far));
    let seen: Vec<Seen> = matched
        .pairs
        .iter()
        .map(|p| Seen {
            near_ns: p.near_ns,
            far_ns: p.far_ns,
            up: p.way == Way::Up,
        })
        .collect();
    let ends = Ends {
        clocks: two_ends::fit(&seen),
        matched,
        seen,
        near_packets,
        far_packets,
        notes,
    };
    if let Some(directory) = &plan.plots {
        draw(&ends, directory, observer)?;
    }
    let kept = match &plan.output {
        Some(path) => Some(recording::write(&ends, path, plan)?),
        None => None,
    };
    let figures = EndsAnswer::new(&ends);
    if let Some(path) = kept {
        observer.wrote(&path);
    }
    Ok(Answer {
        figures,
        top: plan.top,
        matched: ends.matched.pairs.len(),
    })
}

fn capture(files: &[PathBuf], notes: &mut Vec<String>) -> anyhow::Result<Capture> {
    let mut capture = Capture::default();
    for path in files {
        input::read(path, notes, |record, frame| {
            if let (Some(t), Some(frame)) = (record.t_ns, frame) {
                capture.packet(t, frame);
            } else {
                capture.pass();
            }
        })?;
    }
    Ok(capture)
}

fn draw(ends: &Ends, directory: &Path, observer: &dyn Observer) -> anyhow::Result<()> {
    let Ok(clocks) = &ends.clocks else {
        return Ok(());
    };
    std::fs::create_dir_all(directory)
        .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
    let origin = ends.seen.iter().map(|s| s.near_ns).min().unwrap_or(0);
    let waits = |up: bool| -> Vec<(f64, f64)> {
        ends.seen
            .iter()
            .filter(|s| s.up == up)
            .map(|s| {
                let t = (s.near_ns - origin) as f64 / 1e9;
                (t, clocks.wait_ns(s).max(0.0) / 1e6)
            })
            .collect()
    };
    let lost = |way: Way| -> Vec<f64> {
        ends.matched
            .lost
            .iter()
            .filter(|l| l.way == way && l.why == measure::ends::LostWhy::Here)
            .map(|l| {
                let near_ns = match way {
                    Way::Up => l.t_ns,
                    Way::Down => clocks.near_of(l.t_ns),
                };
                (near_ns - origin) as f64 / 1e9
            })
            .collect()
    };
    for (name, title, way) in [
        ("wait-up", "near to far", Way::Up),
        ("wait-down", "far to near", Way::Down),
    ] {
        let waits = waits(way == Way::Up);
        if waits.is_empty() {
            continue;
        }
        let svg = report::traffic::waits(title, &waits, &lost(way));
        let path = directory.join(format!("{name}.svg"));
        write_file(&path, &svg)?;
        observer.wrote(&path);
    }
    Ok(())
}
