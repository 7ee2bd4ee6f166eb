//! `tailback trace`: what the packets of a capture say.

mod ends;
mod input;
mod queues;
mod report;
mod text;
mod traffic;

use super::{print, usage};
use crate::Outcome;
use measure::track::{Settings, Tracker};
use report::Report;
use std::hash::{BuildHasher, RandomState};
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Say what the packets of a capture show: rates, retransmissions and their causes, round trips, breaks",
    long_about = "Reads packet captures (pcap and pcapng; gzip and zstd are unpacked; - is standard input) and says of each TCP \
        connection how much it carried, what was sent again and why, how long its round trips took, and where it broke off. \
        A damaged file gives everything before and after the damage.",
    after_help = "Examples:\n  tailback trace home.pcap\n  tailback trace --json home.pcapng.gz\n  \
        tailback trace --traffic edge.pcap --plots figures\n  \
        tailback trace near.pcap --far far.pcap -o path.rec\n  \
        tcpdump -i eth0 -s 128 -w - | tailback trace -"
)]
pub struct Args {
    /// Captures; several are read one after the other, as parts of one
    #[arg(value_name = "FILE", required = true)]
    files: Vec<PathBuf>,
    /// Show so many directions, those with the most data first
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Count packets that were captured twice (on two interfaces, by a mirror port) as two
    #[arg(long)]
    keep_copies: bool,
    /// Write plots there as SVG, with --traffic or --far
    #[arg(long, value_name = "DIRECTORY")]
    plots: Option<PathBuf>,
    #[command(flatten)]
    traffic: traffic::Args,
    #[command(flatten)]
    ends: ends::Args,
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
        return ends::run(&args.files, &args.ends, plots, args.top, args.json);
    }
    if plots.is_some() {
        return Err(usage("--plots: say of what, with --traffic or --far FILE"));
    }
    let mut tracker = Tracker::new(Settings {
        deduplicate: !args.keep_copies,
        seed: RandomState::new().hash_one(0),
        ..Settings::default()
    });
    let mut notes = Vec::new();
    for path in &args.files {
        input::records(path, &mut notes, |record| tracker.record(record))?;
    }
    let traffic = tracker.finish();
    if args.json {
        let report = Report::new(&traffic, notes, traffic.connections.iter());
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        print(&text::text(&traffic, notes, args.top))?;
    }
    Ok(Outcome::Done)
}
