//! Files of a simulation: recordings and captures.

use super::Point;
use crate::progress::{Event, Observer};
use crate::{usage, write_file};
use anyhow::Context;
use base::record::{FORMAT_VERSION, Meta, Origin};
use sim::Scenario;
use std::fs::{File, OpenOptions};
use std::io::BufWriter;
use std::path::{Path, PathBuf};

/// Path of each point's recording; paths that cannot be created are found before anything runs.
pub fn recordings(points: &[Point], output: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if let [_] = points {
        try_name(output)?;
        return Ok(vec![output.to_owned()]);
    }
    std::fs::create_dir_all(output)
        .map_err(|e| usage(format!("cannot create {}: {e}", output.display())))?;
    let paths: Vec<PathBuf> = points
        .iter()
        .map(|point| output.join(format!("{}.rec", file_name(point))))
        .collect();
    paths.iter().try_for_each(|path| try_name(path))?;
    Ok(paths)
}

/// Creates the directory and removes it again.
fn try_name(path: &Path) -> anyhow::Result<()> {
    let made = std::fs::create_dir(path).and_then(|()| std::fs::remove_dir(path));
    made.map_err(|e| match e.kind() {
        std::io::ErrorKind::AlreadyExists => {
            usage(store::StoreError::Exists { path: path.into() }.to_string())
        }
        _ => usage(format!("cannot create {}: {e}", path.display())),
    })
}

/// Writes the recording of the first seed of each point. Returns the figures of the runs that came to their end.
pub fn record_points(
    points: &[Point],
    paths: &[PathBuf],
    observer: &dyn Observer,
) -> anyhow::Result<Vec<Option<sim::Outcome>>> {
    let mut outcomes = Vec::new();
    for (number, (point, path)) in points.iter().zip(paths).enumerate() {
        if observer.interrupted() {
            break;
        }
        let outcome = record(&point.scenario, path, observer, &|share| {
            observer.share((number as f64 + share) / points.len() as f64);
        })?;
        write_file(
            &path.join("scenario.toml"),
            &toml::to_string(&point.scenario).context("the scenario as TOML")?,
        )?;
        outcomes.push(outcome);
        observer.wrote(path);
    }
    observer.tell(Event::Finished);
    Ok(outcomes)
}

fn file_name(point: &Point) -> String {
    let parts: Vec<String> = point
        .labels
        .iter()
        .map(|(k, v)| format!("{k}={v}"))
        .collect();
    parts
        .join(",")
        .chars()
        .map(|c| {
            if c.is_alphanumeric() || "=,.-_".contains(c) {
                c
            } else {
                '_'
            }
        })
        .collect()
}

fn record(
    scenario: &Scenario,
    path: &Path,
    observer: &dyn Observer,
    progress: &dyn Fn(f64),
) -> anyhow::Result<Option<sim::Outcome>> {
    let mut meta = Meta {
        format: FORMAT_VERSION,
        writer: format!("tailback {}", env!("CARGO_PKG_VERSION")),
        origin: Origin::Simulated,
        verb: "sim".into(),
        title: scenario.title.clone(),
        started_ns: sim::run::began_ns(scenario),
        plan: serde_json::to_value(scenario).context("the scenario")?,
        ..Meta::default()
    };
    let mut writer = store::Writer::create(path, meta.clone())?;
    let mut failed = None;
    let mut seal_at_ns = meta.started_ns + DAY_NS + GRACE_NS;
    let outcome = sim::run(
        scenario,
        scenario.seed,
        Some(&mut |row| {
            if failed.is_none() {
                let t_ns = row.time_ns();
                failed = writer.write(row).map_err(anyhow::Error::from).err();
                if t_ns >= seal_at_ns {
                    seal_at_ns = t_ns + DAY_NS;
                    failed = failed.take().or(seal(&mut writer, t_ns).err());
                }
            }
        }),
        &mut |now| {
            progress(now.as_secs_f64() / scenario.duration.as_secs_f64());
            !observer.interrupted()
        },
    )?;
    if let Some(e) = failed {
        return Err(e);
    }
    let end_ns = (outcome.simulated_s * 1e9).round() as i64;
    meta.ended_ns = Some(meta.started_ns + end_ns);
    meta.complete = outcome.simulated_s >= scenario.duration.as_secs_f64() * 0.999_999;
    let complete = meta.complete;
    writer.close(meta)?;
    Ok(complete.then_some(outcome))
}

/// Turns past days into Parquet during the run: as streams, weeks would take ten times the space.
fn seal(writer: &mut store::Writer, now_ns: i64) -> anyhow::Result<()> {
    writer.release_days_before(now_ns - GRACE_NS)?;
    if let Some(first) = writer.first_open_day() {
        store::seal_days(writer.path(), &first, &|| true)?;
    }
    Ok(())
}

const DAY_NS: i64 = 86_400_000_000_000;
/// Time from midnight until a day is sealed: rows of slow answers come that much later.
const GRACE_NS: i64 = 600_000_000_000;

/// Requested captures, each with its open file.
pub struct Captures {
    points: Vec<(sim::capture::Point, BufWriter<File>)>,
    paths: Vec<PathBuf>,
    snaplen: u32,
}

/// Creates the captures; each of `asked` is LINK=FILE.
pub fn captures(scenario: &Scenario, asked: &[String], snaplen: u32) -> anyhow::Result<Captures> {
    let mut found = Vec::new();
    for pair in asked {
        let (link, path) = super::split(pair, "--pcap", "link=bottleneck.pcapng")?;
        let point =
            sim::capture::find(scenario, link).map_err(|e| usage(format!("--pcap {pair}: {e}")))?;
        found.push((point, PathBuf::from(path)));
    }
    let mut captures = Captures {
        points: Vec::new(),
        paths: Vec::new(),
        snaplen,
    };
    for (point, path) in found {
        let file = create(&path).map_err(|e| {
            // What was begun holds nothing yet; the names must be free for the next attempt.
            for begun in captures.paths.iter().filter(|p| p.is_file()) {
                let _ = std::fs::remove_file(begun);
            }
            usage(format!("cannot create the capture {}: {e}", path.display()))
        })?;
        captures
            .points
            .push((point, BufWriter::with_capacity(1 << 18, file)));
        captures.paths.push(path);
    }
    Ok(captures)
}

/// Opens a new file, or an existing pipe.
fn create(path: &Path) -> std::io::Result<File> {
    match path.metadata() {
        Ok(found) if !found.is_file() => OpenOptions::new().write(true).open(path),
        // A link that leads nowhere exists as well.
        _ => File::create_new(path).map_err(|e| match e.kind() {
            std::io::ErrorKind::AlreadyExists => std::io::Error::new(
                e.kind(),
                "it exists already. Choose another name, or remove it first",
            ),
            _ => e,
        }),
    }
}

impl Captures {
    /// Runs the scenario's first seed with all captures.
    pub fn write(self, scenario: &Scenario, observer: &dyn Observer) -> anyhow::Result<()> {
        write_all(self.points, scenario, self.snaplen, observer)?;
        observer.tell(Event::Finished);
        for path in self.paths {
            observer.wrote(&path);
        }
        Ok(())
    }
}

fn write_all(
    points: Vec<(sim::capture::Point, BufWriter<File>)>,
    scenario: &Scenario,
    snaplen: u32,
    observer: &dyn Observer,
) -> anyhow::Result<()> {
    let whole = scenario.duration.as_secs_f64();
    sim::capture::run(scenario, scenario.seed, snaplen, points, &mut |now| {
        observer.share(now.as_secs_f64() / whole);
        !observer.interrupted()
    })?;
    Ok(())
}
