//! `tailback trace NEAR --far FAR`: what both ends of a path say together.

mod answer;
mod recording;
mod text;

use super::{input, print};
use crate::Outcome;
use crate::cmd::write_file;
use analysis::two_ends::{self, Seen, TwoClocks};
use answer::EndsAnswer;
use measure::ends::{Capture, Matched, Way, match_ends};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
#[command(next_help_heading = "Both ends of a path")]
pub struct Args {
    /// The same traffic, captured at the far end: match both packet by packet. Says what was lost between them,
    /// how long packets took each way, and what was changed. Repeat for the parts of one capture
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "csv"])]
    far: Vec<PathBuf>,
}

impl Args {
    pub fn asked(&self) -> bool {
        !self.far.is_empty()
    }
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

pub fn run(
    files: &[PathBuf],
    args: &Args,
    output: Option<&Path>,
    plots: Option<&Path>,
    top: usize,
    json: bool,
) -> anyhow::Result<Outcome> {
    let mut notes = Vec::new();
    let near = capture(files, &mut notes)?;
    let far = capture(&args.far, &mut notes)?;
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
    if let Some(directory) = plots {
        draw(&ends, directory)?;
    }
    let kept = match output {
        Some(path) => Some(recording::write(&ends, path, files, &args.far)?),
        None => None,
    };
    let answer = EndsAnswer::new(&ends);
    if json {
        print(&format!("{}\n", serde_json::to_string_pretty(&answer)?))?;
    } else {
        print(&text::text(&answer, top))?;
    }
    if let Some(path) = kept {
        eprintln!("{}", path.display());
    }
    Ok(if ends.matched.pairs.is_empty() {
        Outcome::CouldNotMeasure
    } else {
        Outcome::Done
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

fn draw(ends: &Ends, directory: &Path) -> anyhow::Result<()> {
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
        let svg = ::report::traffic::waits(title, &waits, &lost(way));
        let path = directory.join(format!("{name}.svg"));
        write_file(&path, &svg)?;
        eprintln!("{}", path.display());
    }
    Ok(())
}
