//! Draws over network namespaces: real kernel TCP and the program as it is installed.

use crate::draws::family::{Draw, Kind, draw};
use crate::draws::hosts::{self, Quota};
use crate::draws::judge::judge;
use crate::draws::results::{Result, describe};
use crate::draws::truth::{Class, Observed, Saw, quantile, truth};
use analysis::answer::Answer;
use anyhow::Context;
use base::Bytes;
use base::record::{Direction, Recording};
use std::path::Path;
use std::process::{Command, Stdio};

/// True if the draw needs ends of its own, whose programs do more than the test.
fn own_ends(draw: &Draw) -> bool {
    let windows = draw.hosts.limits.iter().any(|l| l.receive_window.is_some());
    let slow = draw.processor.iter().any(Option::is_some);
    windows || slow || !draw.cross.is_empty()
}

/// Recording of the queues, where the test does not make it itself.
const QUEUES: &str = "queues.rec";

/// Names of the two ends, this host first.
const ENDS: [&str; 2] = ["near", "far"];

/// Commands of an end's shell before its program; near is 0, far is 1.
fn before(draw: &Draw, end: usize, quotas: &[Option<Quota>; 2]) -> anyhow::Result<String> {
    let mut words = String::new();
    // Each namespace has its own limits of receive buffers; half of a buffer is window (tcp_adv_win_scale 1).
    let received = [Direction::Down, Direction::Up][end];
    if let Some(w) = draw.hosts.limits[received as usize].receive_window {
        words += &format!(
            "echo \"4096 {0} {0}\" > /proc/sys/net/ipv4/tcp_rmem; ",
            (2 * w.get()).max(4096)
        );
    }
    for x in &draw.cross {
        words += &match x.direction == received {
            true => hosts::takes()?,
            false => hosts::sends(x, ENDS[1 - end], draw.seed)?,
        };
    }
    if let Some(quota) = &quotas[end] {
        words += &quota.enters();
    }
    Ok(words)
}

/// The command that runs one draw, its link in `dir`.
fn command(
    program: &Path,
    draw: &Draw,
    dir: &Path,
    quotas: &[Option<Quota>; 2],
) -> anyhow::Result<Command> {
    let link = dir.join("link.toml");
    let rec = dir.join("test.rec");
    let mut c = Command::new(program);
    if !own_ends(draw) {
        c.arg("test").arg("--json").arg("--link").arg(link);
        c.arg("--output").arg(rec);
        return Ok(c);
    }
    let path = program.display();
    let far = format!("{}exec '{path}' serve", before(draw, 1, quotas)?);
    let near = format!(
        "sleep 1; {}exec '{path}' test far --json --output '{}'",
        before(draw, 0, quotas)?,
        rec.display()
    );
    c.arg("emulate").arg(link).arg("--quiet");
    c.arg("--output").arg(dir.join(QUEUES)).arg("--far");
    c.arg(far).args(["--", "sh", "-c"]).arg(near);
    Ok(c)
}

/// Runs one draw; its answer and its recording.
fn run(draw: &Draw, dir: &Path) -> anyhow::Result<(Answer, Recording)> {
    std::fs::write(dir.join("link.toml"), draw.link.to_toml())?;
    let mut quotas = [None, None];
    for (end, share) in draw.processor.iter().enumerate() {
        if let Some(share) = share {
            let name = format!("{}-{}", draw.number, ENDS[end]);
            quotas[end] = Some(Quota::new(&name, *share)?);
        }
    }
    let output = command(&crate::program()?, draw, dir, &quotas)?
        .stdin(Stdio::null())
        .output()?;
    let answer = serde_json::from_slice(&output.stdout).with_context(|| {
        format!(
            "draw {}: {}",
            draw.number,
            String::from_utf8_lossy(&output.stderr)
        )
    })?;
    let mut rec = store::read(dir.join("test.rec"))?;
    if own_ends(draw) {
        let seen = store::read(dir.join(QUEUES))?;
        rec.queue = seen.queue;
        rec.event
            .extend(seen.event.into_iter().filter(|e| &*e.kind == "doubt"));
    }
    Ok((answer, rec))
}

/// Bytes by which an IPv6 header exceeds IPv4's: the far end of `emulate --far` has an IPv6 address.
fn header_beyond_ipv4(draw: &Draw) -> Bytes {
    Bytes::new(if own_ends(draw) { 20 } else { 0 })
}

/// Waits in the emulator's samples of its queues, for directions whose probes share the load's queue.
fn observed(draw: &Draw, answer: &Answer, rec: &Recording) -> Observed {
    let saw = |direction: Direction| {
        let mut rows: Vec<_> = (rec.queue.iter())
            .filter(|q| *q.queue == *direction.word())
            .collect();
        rows.sort_by_key(|q| q.t_ns);
        let phase = answer.phases.iter().find(|p| p.name == direction.word());
        let Some(phase) = phase else {
            return Saw::default();
        };
        let seconds = |t: i64| (t - rec.meta.started_ns) as f64 / 1e9;
        let warm = (rec.event.iter())
            .find(|e| &*e.kind == "warmup_end" && *e.subject == *phase.name)
            .map_or(phase.from_ns, |e| e.t_ns);
        let within = |from: i64| {
            rows.iter()
                .filter(move |q| (from..phase.to_ns).contains(&q.t_ns))
        };
        let mut waits: Vec<f64> = within(warm)
            .map(|q| match q.backlog_packets {
                0 => 0.0,
                _ => q.sojourn_ns.unwrap_or(0) as f64 / 1e6,
            })
            .collect();
        waits.sort_by(f64::total_cmp);
        let change = |f: fn(&base::record::Queue) -> i64| {
            let first = within(phase.from_ns).next().map_or(0, |q| f(q));
            within(phase.from_ns)
                .next_back()
                .map_or(0, |q| f(q) - first)
                .max(0) as u64
        };
        let spec = match direction {
            Direction::Up => &draw.link.up,
            Direction::Down => &draw.link.down,
        };
        let (class, limit) = crate::draws::truth::class(spec);
        // A law whose own limit was met dropped as a plain queue does.
        let most = within(phase.from_ns).map(|q| q.backlog_packets).max();
        let met = most.unwrap_or(0) as f64 * 1500.0 >= 0.95 * limit;
        let drops = change(|q| q.drops);
        let shared = matches!(class, Class::DropTail | Class::Aqm);
        let plain = spec.jitter.is_none() && spec.reorder.is_none();
        let p95 = quantile(&waits, 0.95).filter(|_| shared);
        // Probes and the emulator take their samples at different times.
        let spread = quantile(&waits, 0.92).zip(quantile(&waits, 0.97));
        let spread = spread.map(|(low, high)| (low.0, high.1));
        Saw {
            graded_ms: p95.map(|p| p.0),
            probe_p95_ms: spread.filter(|_| shared && plain),
            most_ms: waits.last().copied().unwrap_or(0.0),
            median_load_ms: quantile(&waits, 0.5).map_or(0.0, |q| q.0),
            delivered_bytes: change(|q| q.delivered_bytes) as f64,
            from_s: seconds(phase.from_ns),
            warm_s: seconds(warm),
            to_s: seconds(phase.to_ns),
            dropped_full: if class == Class::DropTail || (met && class == Class::Aqm) {
                drops
            } else {
                0
            },
            dropped_by_law: if matches!(class, Class::Aqm | Class::FairAqm) {
                drops
            } else {
                0
            },
            policed: if class == Class::Policer { drops } else { 0 },
        }
    };
    let idle = answer.phases.iter().find(|p| p.name == "idle");
    Observed {
        saws: [saw(Direction::Up), saw(Direction::Down)],
        idle_ms: idle.and_then(|p| p.rtt.min_ms.value()),
        probe: sim::bufferbloat::probe_size() + header_beyond_ipv4(draw),
    }
}

/// # Errors
/// The program could not be run, or gave no answer.
pub fn result(seed: u64, number: u64, verbose: bool) -> anyhow::Result<Result> {
    let draw = draw(seed, number, Kind::Namespaces);
    let began = std::time::Instant::now();
    let (answer, rec) = run(&draw, &testkit::TempDir::new("draws"))?;
    let truth = truth(&draw, observed(&draw, &answer, &rec));
    if verbose {
        println!("{}\n{:?}\n{:?}", describe(&draw), truth.up, truth.down);
        println!("{}", serde_json::to_string_pretty(&answer)?);
    }
    Ok(Result {
        number,
        kind: Kind::Namespaces,
        family: draw.family,
        link: describe(&draw),
        judged: judge(&answer, &truth),
        took_s: began.elapsed().as_secs_f64(),
        lasted_s: answer.duration_s,
        doubt: rec.event.iter().any(|e| &*e.kind == "doubt"),
        complete: rec.meta.complete,
    })
}
