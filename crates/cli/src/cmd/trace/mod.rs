//! `tailback trace`: what the packets of a capture say.

mod report;
mod text;

use super::{print, usage};
use crate::Outcome;
use measure::capture::{Damage, Reader, frame};
use measure::track::{Settings, Tracker};
use report::Report;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Say what the packets of a capture show: rates, retransmissions and their causes, round trips, breaks",
    long_about = "Reads packet captures (pcap and pcapng; gzip and zstd are unpacked; - is standard input) and says of each TCP \
        connection how much it carried, what was sent again and why, how long its round trips took, and where it broke off. \
        A damaged file gives everything before and after the damage.",
    after_help = "Examples:\n  tailback trace home.pcap\n  tailback trace --json home.pcapng.gz\n  \
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
    /// Print everything as JSON instead of a table
    #[arg(long)]
    json: bool,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let mut tracker = Tracker::new(Settings {
        deduplicate: !args.keep_copies,
        ..Settings::default()
    });
    let mut notes = Vec::new();
    for path in &args.files {
        let name = path.display();
        let input = live::capture::open(path).map_err(|e| usage(format!("{name}: {e}")))?;
        let mut reader = Reader::new(input).map_err(|e| usage(format!("{name}: {e}")))?;
        loop {
            match reader.next_record() {
                Ok(Some(record)) => {
                    let frame = frame::parse(&record);
                    tracker.packet(record.t_ns, record.original_len, frame.as_ref());
                }
                Ok(None) => break,
                Err(e) => {
                    notes.push(format!("{name}: {e}; what came before it is counted"));
                    break;
                }
            }
        }
        notes.extend(
            reader
                .damage()
                .iter()
                .map(|d| format!("{name}: {}", told(d))),
        );
        if reader.dropped() > 0 {
            notes.push(format!(
                "{name}: the capturing system itself dropped {} packets: what is missing here may not be missing on the line",
                reader.dropped()
            ));
        }
    }
    let report = Report::new(tracker.finish(), notes);
    if args.json {
        print(&format!("{}\n", serde_json::to_string_pretty(&report)?))?;
    } else {
        print(&report.text(args.top))?;
    }
    Ok(Outcome::Done)
}

fn told(d: &Damage) -> String {
    match d.skipped {
        0 => format!("{} at byte {}", d.why, d.offset),
        n => format!("{} at byte {}: {n} bytes passed over", d.why, d.offset),
    }
}
