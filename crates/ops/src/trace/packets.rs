//! Captures at one place: figures of each connection.

use super::answer::{Comment, ConnectionReport, Each, Held, Report};
use super::expert::{Expert, Experts};
use super::keep::{Keep, Outputs};
use super::packet_rows::PacketRows;
use super::text::{self, Row, Shown, Sums};
use super::{Live, Plan, annotate, input, live, plots, queues, rows, single};
use crate::progress::Observer;
use crate::scan::Source;
use crate::usage;
use measure::track::{Connection, Settings, Tracker, Traffic};
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

/// Figures of captures at one place.
pub struct Packets {
    traffic: Traffic,
    notes: Notes,
    held: Held,
    /// Number of the one connection that the text shows.
    connection: Option<u32>,
    /// Directions that the text shows.
    top: usize,
}

/// Figures, and the failure after they were complete.
pub(super) struct Outcome {
    pub(super) packets: Packets,
    pub(super) failed: Option<anyhow::Error>,
}

/// Notes on the files for readers of the figures, and remarks found in them.
#[derive(Clone, Default)]
pub(super) struct Notes {
    pub(super) said: Vec<String>,
    pub(super) comments: Vec<Comment>,
}

/// Reads capture files.
pub(super) fn files(plan: &Plan, observer: &dyn Observer) -> anyhow::Result<Outcome> {
    if plan.annotate.is_some() && plan.files.iter().any(|f| f.as_os_str() == "-") {
        return Err(usage(
            "--annotate reads the capture twice: give a file, not standard input",
        ));
    }
    let mut notes = Notes::default();
    let mut tracker = Tracker::new(settings(plan));
    let kept = Kept::of(plan)?;
    let (traffic, keep) = if kept.outputs.any() {
        let mut keep = Keep::create(&kept.outputs, names(&plan.files), recorded(plan), false)?;
        let mut packet_rows = PacketRows::new(&mut keep);
        let read = plan.files.iter().try_for_each(|path| {
            input::read(path, &mut notes, |record, frame| {
                packet_rows.begin(record.t_ns, frame);
                tracker.packet_watched(record.t_ns, record.original_len, frame, &mut packet_rows);
                packet_rows.end();
            })
        });
        if let Err(e) = read {
            keep.abandon();
            return Err(e);
        }
        (tracker.finish_watched(&mut packet_rows), Some(keep))
    } else {
        for path in &plan.files {
            input::records(path, &mut notes, |record| tracker.record(record))?;
        }
        (tracker.finish(), None)
    };
    conclude(plan, traffic, notes, keep, true, |traffic, kept_well| {
        kept_well?;
        if let Some(path) = &plan.output {
            observer.wrote(path);
        }
        if let Some(to) = &plan.annotate {
            annotate::write(&plan.files, traffic, to)?;
            observer.wrote(to);
        }
        kept.draw(plan, observer)
    })
}

/// Captures packets on an interface until the end.
pub(super) fn interface(
    plan: &Plan,
    watched: &Live,
    observer: &dyn Observer,
) -> anyhow::Result<Outcome> {
    // Before anything is made: it may not be allowed.
    let open = live::open(watched)?;
    let kept = Kept::of(plan)?;
    let title = watched.interface.clone();
    let mut keep = match kept.outputs.any() {
        true => Some(Keep::create(&kept.outputs, title, recorded(plan), true)?),
        false => None,
    };
    let mut notes = Notes::default();
    let seen = live::run(
        watched,
        settings(plan),
        open,
        keep.as_mut(),
        &mut notes.said,
        observer,
    );
    let copied = seen.copied;
    conclude(
        plan,
        seen.traffic,
        notes,
        keep,
        seen.complete,
        |_, kept_well| {
            if let (Ok(()), Some(path)) = (&kept_well, &plan.output) {
                observer.wrote(path);
            }
            copied.and(kept_well)?;
            kept.draw(plan, observer)
        },
    )
}

/// Closes the outputs, and then does the `rest`, whose failure leaves the figures complete.
fn conclude(
    plan: &Plan,
    traffic: Traffic,
    mut notes: Notes,
    keep: Option<Keep>,
    complete: bool,
    rest: impl FnOnce(&Traffic, anyhow::Result<()>) -> anyhow::Result<()>,
) -> anyhow::Result<Outcome> {
    let held = Held::from(&traffic.totals);
    let mut kept_well = Ok(());
    if let Some(mut keep) = keep {
        keep.whole(&traffic, &held, &mut notes);
        kept_well = keep.close(complete);
    }
    let connection = match &plan.connection {
        None => None,
        Some(connection) => {
            let found = single::find(&traffic, connection).ok_or_else(|| {
                usage(format!(
                    "--connection {connection}: no TCP connection has that number or these ends, as they are listed"
                ))
            })?;
            Some(found.number)
        }
    };
    let failed = rest(&traffic, kept_well).err();
    Ok(Outcome {
        packets: Packets {
            traffic,
            notes,
            held,
            connection,
            top: plan.top,
        },
        failed,
    })
}

/// Facts of the plan that a recording stores: names of captures without their directories, and the options.
fn recorded(plan: &Plan) -> serde_json::Value {
    let (captures, live) = match &plan.live {
        Some(live) => (live.interface.clone(), true),
        None => (names(&plan.files), false),
    };
    serde_json::json!({ "captures": captures, "live": live, "again": plan.recorded() })
}

/// Outputs, and how long they stay.
struct Kept {
    outputs: Outputs,
    /// Temporary packet rows, for the plots only.
    passing: Option<PathBuf>,
}

impl Kept {
    fn of(plan: &Plan) -> anyhow::Result<Kept> {
        let mut outputs = Outputs {
            output: plan.output.clone(),
            csv: plan.csv.clone(),
        };
        let mut passing = None;
        if let (Some(directory), None) = (&plan.plots, &outputs.output) {
            std::fs::create_dir_all(directory)
                .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
            let name = format!(".packets-{}.rec", std::process::id());
            passing = Some(directory.join(name));
            outputs.output.clone_from(&passing);
        }
        Ok(Kept { outputs, passing })
    }

    fn draw(&self, plan: &Plan, observer: &dyn Observer) -> anyhow::Result<()> {
        if let (Some(directory), Some(path)) = (&plan.plots, &self.outputs.output) {
            let from = Source { path, observer };
            plots::all(from, directory, plan.connection.as_deref())?;
        }
        Ok(())
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(path) = &self.passing {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

impl Packets {
    /// Text for a terminal: the tables, or the one connection that the plan names.
    pub fn text(&self, width: usize) -> String {
        let begin = self.traffic.totals.first_ns.unwrap_or(0);
        let all = &self.traffic.connections;
        let one = |number: u32| all.iter().find(|c| c.number == number);
        match self.connection.and_then(one) {
            Some(one) => single::text(one, begin, width),
            None => {
                let shown = shown(&self.traffic, self.notes.clone(), self.top);
                text::text(&self.held, &sums(&self.traffic), &shown, width)
            }
        }
    }

    /// Writes all figures as JSON, connection by connection.
    ///
    /// # Errors
    /// Errors of the receiver.
    pub fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        let traffic = &self.traffic;
        let waits = queues::of_traffic(&traffic.connections);
        let report = Report {
            notes: self.notes.said.clone(),
            comments: self.notes.comments.clone(),
            duration_s: self.held.duration_s(),
            held: self.held.clone(),
            losses: sums(traffic).losses,
            findings: queues::findings(&waits),
            waits,
            expert: experts(traffic),
            connections: Each(|| traffic.connections.iter().map(ConnectionReport::of)),
            udp_conversations: traffic
                .conversations
                .iter()
                .map(|c| rows::conversation(c).into())
                .collect(),
        };
        serde_json::to_writer_pretty(out, &report)
    }
}

fn experts(traffic: &Traffic) -> Vec<Expert> {
    let mut experts = Experts::default();
    traffic
        .connections
        .iter()
        .for_each(|c| experts.connection(c));
    experts.list()
}

pub(super) fn settings(plan: &Plan) -> Settings {
    Settings {
        deduplicate: !plan.keep_copies,
        seed: RandomState::new().hash_one(0),
        ..Settings::default()
    }
}

/// File names without their directories, as a title.
pub(super) fn names(files: &[PathBuf]) -> String {
    let name = |p: &PathBuf| p.file_name().map(|n| n.to_string_lossy().into_owned());
    files.iter().filter_map(name).collect::<Vec<_>>().join(" ")
}

fn sums(traffic: &Traffic) -> Sums {
    let mut sums = Sums::new(traffic.conversations.len());
    traffic.connections.iter().for_each(|c| sums.connection(c));
    sums
}

fn shown(traffic: &Traffic, notes: Notes, top: usize) -> Shown {
    let all = || traffic.connections.iter().flat_map(|c| [(c, 0), (c, 1)]);
    let line = |(c, direction): (&Connection, usize)| Row(ConnectionReport::of(c), direction);
    let mut rows: Vec<(&Connection, usize)> = all()
        .filter(|(c, d)| c.halves[*d].counts.data_packets > 0)
        .collect();
    let order = |(c, d): &(&Connection, usize)| {
        let carried = std::cmp::Reverse(c.halves[*d].counts.unique_bytes);
        (carried, c.first_ns, c.number, *d)
    };
    if top < rows.len() {
        rows.select_nth_unstable_by_key(top, order);
        rows.truncate(top);
    }
    rows.sort_by_key(order);
    let waits = queues::of_traffic(&traffic.connections);
    Shown {
        notes: notes.said,
        comments: notes.comments,
        expert: experts(traffic),
        rows: rows.into_iter().map(line).collect(),
        broken: all()
            .filter(|(c, d)| !c.halves[*d].events().breaks.is_empty())
            .map(line)
            .collect(),
        findings: queues::findings(&waits),
        waits,
    }
}
