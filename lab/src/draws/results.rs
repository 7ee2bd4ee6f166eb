//! Draws with what was said of them, from either kind of run.

use crate::draws::family::{Draw, Family, Kind};
use crate::draws::judge::Judged;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A draw with what was said of it.
pub struct Result {
    pub number: u64,
    pub kind: Kind,
    pub family: Family,
    /// The link in a line.
    pub link: String,
    pub judged: Vec<Judged>,
    /// Time that the run took, s.
    pub took_s: f64,
    /// Simulated or real duration of the test, s.
    pub lasted_s: f64,
    /// True if the emulator says that this machine was too busy to be the link.
    pub doubt: bool,
    /// False if a phase of the test could not run.
    pub complete: bool,
}

/// The link and its hosts in a line.
pub fn describe(draw: &Draw) -> String {
    let mut text = format!(
        "up {} | down {}",
        direction(&draw.link.up),
        direction(&draw.link.down)
    );
    for (name, l) in ["up", "down"].iter().zip(&draw.hosts.limits) {
        if let Some(w) = l.receive_window {
            text += &format!(" | {name} window {w:.3}");
        }
        if let Some(r) = l.application {
            text += &format!(" | {name} application {r:.3}");
        }
        if let Some(r) = l.reader {
            text += &format!(" | {name} reader {r:.3}");
        }
    }
    for (name, share) in ["this host", "server"].iter().zip(draw.processor) {
        if let Some(share) = share {
            text += &format!(" | {name} gets {:.1} % of a processor", share * 100.0);
        }
    }
    for x in &draw.cross {
        let whose = if x.here { "here" } else { "elsewhere" };
        text += &format!(" | cross {} {:.3} {whose}", x.direction, x.rate);
    }
    text
}

fn direction(d: &link::DirectionSpec) -> String {
    let rate = match &d.rate {
        link::RateSpec::Fixed(r) => format!("{r:.3}"),
        link::RateSpec::Steps { steps, .. } => {
            format!("{} steps from {:.3}", steps.len(), steps[0].rate)
        }
        _ => "opportunities".into(),
    };
    let mut parts = vec![rate, d.queue.to_string(), format!("{:.3}", d.delay)];
    parts.extend(d.framing.as_ref().map(|f| format!("framing {f}")));
    parts.extend(d.policer.as_ref().map(|p| format!("policer {p}")));
    parts.extend(d.shaper.as_ref().map(|s| format!("shaper {s}")));
    parts.extend(d.drift.as_ref().map(|s| format!("drift {s}")));
    parts.extend(d.jitter.as_ref().map(|j| format!("jitter {j}")));
    parts.extend(d.loss.as_ref().map(|l| format!("loss {l}")));
    parts.extend(d.reorder.as_ref().map(|r| format!("reorder {r}")));
    parts.join(" ")
}

/// Runs the draws of these numbers on `threads` threads.
///
/// # Errors
/// The first draw that could not be run.
pub fn many(
    numbers: &[u64],
    threads: usize,
    one: impl Fn(u64) -> anyhow::Result<Result> + Sync,
) -> anyhow::Result<Vec<Result>> {
    let next = AtomicUsize::new(0);
    let done: Mutex<Vec<anyhow::Result<Result>>> = Mutex::default();
    std::thread::scope(|scope| {
        for _ in 0..threads.max(1) {
            scope.spawn(|| {
                while let Some(number) = numbers.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let result = one(*number);
                    done.lock().expect("no holder panicked").push(result);
                }
            });
        }
    });
    let done = done.into_inner().expect("no holder panicked");
    let mut all: Vec<Result> = done.into_iter().collect::<anyhow::Result<_>>()?;
    all.sort_by_key(|r| r.number);
    Ok(all)
}
