//! `tailback trace`: what the packets of a capture say.

mod annotate;
mod aside;
mod ends;
mod expert;
mod input;
mod keep;
mod live;
mod plots;
mod queues;
mod recorded;
mod report;
mod rows;
mod scribe;
mod single;
mod text;
mod traffic;
mod view;

pub use aside::Aside;
pub use plots::{Span, page, svg};
pub use recorded::{analyse, made};
pub use traffic::of as traffic_of;

use super::{print, usage};
use crate::Outcome;
use expert::{Expert, Experts};
use keep::Keep;
use measure::track::{Connection, Settings, Tracker, Traffic};
use report::{Comment, ConnectionReport, Each, Held, Report};
use scribe::Scribe;
use std::hash::{BuildHasher, RandomState};
use std::io::Write as _;
use std::path::PathBuf;
use text::{Row, Shown, Sums};

#[derive(clap::Args)]
#[command(
    about = "Say what the packets of a capture show: rates, retransmissions and their causes, round trips, breaks",
    long_about = "Reads packet captures (pcap and pcapng; gzip and zstd are unpacked; - is standard input) and says of each TCP \
        connection how much it carried, what was sent again and why, how long its round trips took, and where it broke off. \
        A damaged file gives everything before and after the damage.",
    after_help = "Examples:\n  tailback trace home.pcap\n  tailback trace --json home.pcapng.gz\n  \
        tailback trace home.pcap -o home.rec && tailback report home.rec\n  \
        tailback trace home.pcap --connection 17\n  \
        tailback trace home.pcap --annotate remarks.pcapng && wireshark remarks.pcapng\n  \
        tailback trace home.pcap --plots figures --connection '192.0.2.1:40000>198.51.100.7:80'\n  \
        tailback trace --traffic edge.pcap --plots figures\n  \
        tailback trace near.pcap --far far.pcap -o path.rec\n  \
        sudo tailback trace --live eth0 -o home.rec\n  \
        tcpdump -i eth0 -s 128 -w - | tailback trace -"
)]
pub struct Args {
    /// Captures; several are read one after the other, as parts of one
    #[arg(value_name = "FILE", required_unless_present = "live")]
    files: Vec<PathBuf>,
    /// Show so many directions, those with the most data first
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Count packets that were captured twice (on two interfaces, by a mirror port) as two
    #[arg(long)]
    keep_copies: bool,
    /// Write plots there as SVG: of one connection; with --traffic or --far, of all packets
    #[arg(long, value_name = "DIRECTORY")]
    plots: Option<PathBuf>,
    /// Show one connection with each of its events, and draw it with --plots: its number, or both ends as they are listed, 'A:PORT>B:PORT' [default of --plots: the one with the most data]
    #[arg(long, value_name = "CONNECTION", conflicts_with_all = ["traffic", "far"])]
    connection: Option<String>,
    /// Write a copy as pcapng, with a remark for Wireshark beside each packet that tells of trouble
    #[arg(long, value_name = "PCAPNG", conflicts_with_all = ["traffic", "far", "live"])]
    annotate: Option<PathBuf>,
    #[command(flatten)]
    keep: keep::Args,
    #[command(flatten)]
    traffic: traffic::Args,
    #[command(flatten)]
    ends: ends::Args,
    #[command(flatten)]
    live: live::Args,
    /// Print everything as JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let plots = args.plots.as_deref();
    if args.traffic.asked() {
        return traffic::run(&args.files, &args.traffic, plots, args.json);
    }
    if args.ends.asked() {
        let output = args.keep.output.as_deref();
        return ends::run(&args.files, &args.ends, output, plots, args.top, args.json);
    }
    if let Some(interface) = args.live.interface() {
        return live(&args, interface);
    }
    if args.annotate.is_some() && args.files.iter().any(|f| f.as_os_str() == "-") {
        return Err(usage(
            "--annotate reads the capture twice: give a file, not standard input",
        ));
    }
    let mut notes = Notes::default();
    let mut tracker = Tracker::new(args.settings());
    let kept = Kept::of(&args)?;
    let (traffic, keep) = if kept.what.asked() {
        let mut keep = Keep::create(&kept.what, names(&args.files), false)?;
        let mut scribe = Scribe::new(&mut keep);
        let read = args.files.iter().try_for_each(|path| {
            input::read(path, &mut notes, |record, frame| {
                scribe.begin(record.t_ns, frame);
                tracker.packet_watched(record.t_ns, record.original_len, frame, &mut scribe);
                scribe.end();
            })
        });
        if let Err(e) = read {
            keep.abandon();
            return Err(e);
        }
        (tracker.finish_watched(&mut scribe), Some(keep))
    } else {
        for path in &args.files {
            input::records(path, &mut notes, |record| tracker.record(record))?;
        }
        (tracker.finish(), None)
    };
    tell(&args, &traffic, notes, keep, true)?;
    if let Some(to) = &args.annotate {
        annotate::write(&args.files, &traffic, to)?;
        eprintln!("{}", to.display());
    }
    kept.draw(&args)
}

/// What is kept, and for how long.
struct Kept {
    what: keep::Args,
    /// Packets that are kept for nothing but the plots.
    passing: Option<PathBuf>,
}

impl Kept {
    fn of(args: &Args) -> anyhow::Result<Kept> {
        let mut what = args.keep.clone();
        let mut passing = None;
        if let (Some(directory), None) = (&args.plots, &what.output) {
            std::fs::create_dir_all(directory)
                .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
            let name = format!(".packets-{}.rec", std::process::id());
            passing = Some(directory.join(name));
            what.output.clone_from(&passing);
        }
        Ok(Kept { what, passing })
    }

    fn draw(&self, args: &Args) -> anyhow::Result<Outcome> {
        if let (Some(directory), Some(recording)) = (&args.plots, &self.what.output) {
            plots::all(recording, directory, args.connection.as_deref())?;
        }
        Ok(Outcome::Done)
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        if let Some(path) = &self.passing {
            let _ = std::fs::remove_dir_all(path);
        }
    }
}

/// The packets of an interface, until it ends.
fn live(args: &Args, interface: &str) -> anyhow::Result<Outcome> {
    // Before anything is made: it may not be allowed.
    let open = live::open(&args.live)?;
    let kept = Kept::of(args)?;
    let mut keep = match kept.what.asked() {
        true => Some(Keep::create(&kept.what, interface.to_owned(), true)?),
        false => None,
    };
    let mut notes = Notes::default();
    let settings = args.settings();
    let seen = live::run(&args.live, settings, open, keep.as_mut(), &mut notes.said);
    let told = tell(args, &seen.traffic, notes, keep, seen.complete);
    seen.copied.and(told)?;
    kept.draw(args)
}

/// Prints the figures, and ends what is kept.
fn tell(
    args: &Args,
    traffic: &Traffic,
    mut notes: Notes,
    keep: Option<Keep>,
    complete: bool,
) -> anyhow::Result<()> {
    let held = Held::from(&traffic.totals);
    let mut kept = Ok(());
    if let Some(mut keep) = keep {
        keep.whole(traffic, &held, &mut notes);
        kept = keep.close(complete);
    }
    if args.json {
        print_json(|out| json(traffic, notes, held, out))?;
    } else if let Some(connection) = &args.connection {
        let begin = traffic.totals.first_ns.unwrap_or(0);
        let found = single::find(traffic, connection).ok_or_else(|| {
            usage(format!(
                "--connection {connection}: no TCP connection has that number or these ends, as they are listed"
            ))
        })?;
        print(&single::text(found, begin))?;
    } else {
        let shown = shown(traffic, notes, args.top);
        print(&text::text(&held, &sums(traffic), &shown))?;
    }
    kept?;
    if let Some(path) = &args.keep.output {
        eprintln!("{}", path.display());
    }
    Ok(())
}

/// Notes on the files that a reader of the figures needs, and remarks found in them.
#[derive(Default)]
struct Notes {
    said: Vec<String>,
    comments: Vec<Comment>,
}

/// All figures as JSON, connection by connection.
fn json(
    traffic: &Traffic,
    notes: Notes,
    held: Held,
    out: &mut dyn std::io::Write,
) -> serde_json::Result<()> {
    let report = Report {
        notes: notes.said,
        comments: notes.comments,
        duration_s: held.duration_s(),
        held,
        losses: sums(traffic).losses,
        findings: queues::of_traffic(&traffic.connections),
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

/// Hands standard output to `write`, and ends the line.
fn print_json(
    write: impl FnOnce(&mut dyn std::io::Write) -> serde_json::Result<()>,
) -> anyhow::Result<()> {
    let out = crate::say::Json::new(std::io::stdout().lock());
    let mut out = std::io::BufWriter::with_capacity(1 << 16, out);
    write(&mut out).map_err(std::io::Error::from)?;
    writeln!(out)?;
    out.flush()?;
    Ok(())
}

fn experts(traffic: &Traffic) -> Vec<Expert> {
    let mut experts = Experts::default();
    traffic
        .connections
        .iter()
        .for_each(|c| experts.connection(c));
    experts.list()
}

impl Args {
    fn settings(&self) -> Settings {
        Settings {
            deduplicate: !self.keep_copies,
            seed: RandomState::new().hash_one(0),
            ..Settings::default()
        }
    }
}

/// File names without their directories, as a title.
fn names(files: &[PathBuf]) -> String {
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
    Shown {
        notes: notes.said,
        comments: notes.comments,
        expert: experts(traffic),
        rows: rows.into_iter().map(line).collect(),
        broken: all()
            .filter(|(c, d)| !c.halves[*d].events().breaks.is_empty())
            .map(line)
            .collect(),
        findings: queues::of_traffic(&traffic.connections),
    }
}
