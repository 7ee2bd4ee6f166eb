//! `tailback trace`: the figures of packet captures.

use super::{print, print_with, stdout_style};
use crate::Outcome;
use crate::console::Console;
use base::Duration;
use ops::trace::{Live, Plan, TrafficPlan, prefix};
use std::net::IpAddr;
use std::path::PathBuf;

#[derive(clap::Args)]
#[command(
    about = "Analyse a packet capture: rates, retransmissions and their causes, round trips, breaks",
    long_about = "Reads packet captures (pcap and pcapng; gzip and zstd are unpacked; - is standard input). The answer \
        has the payload, the retransmissions with their causes, the round trips and the breaks of each TCP \
        connection. A damaged file gives everything before and after the damage.",
    after_help = "Examples:\n  tailback trace home.pcap\n  tailback trace --json home.pcapng.gz\n  \
        tailback trace home.pcap -o home.rec\n  \
        tailback trace home.pcap --connection 17\n  \
        tailback trace home.pcap --annotate remarks.pcapng\n  \
        tailback trace home.pcap --plots figures \\\n      \
        --connection '192.0.2.1:40000>198.51.100.7:80'\n  \
        tailback trace --traffic edge.pcap --plots figures\n  \
        tailback trace --flows edge.pcap\n  \
        tailback trace --each cubic/ reno/ --plots figures\n  \
        tailback trace --traffic --each week/ --plots figures\n  \
        tailback trace near.pcap --far far.pcap -o path.rec\n  \
        sudo tailback trace --live eth0 -o home.rec\n  \
        tcpdump -i eth0 -s 128 -w - | tailback trace -"
)]
pub struct Args {
    /// Captures to read; several are read in order, as parts of one
    #[arg(value_name = "FILE", required_unless_present = "live")]
    files: Vec<PathBuf>,
    /// Number of directions or flows to show, those with the most data first
    #[arg(long, value_name = "N", default_value_t = 20)]
    top: usize,
    /// Read each capture as a run of its own: mean and standard deviation of each figure, by directory. Directories stand
    /// for the captures in them. With --traffic: the laws of each capture, by the hour and by TCP's share
    #[arg(long, conflicts_with_all = ["live", "far", "connection", "annotate", "output", "csv", "home"])]
    each: bool,
    /// Count packets that were captured twice (on two interfaces, by a mirror port) as two
    #[arg(long)]
    keep_copies: bool,
    /// Directory to write plots to, as SVG: of one connection; with --traffic or --far, of all packets
    #[arg(long, value_name = "DIRECTORY")]
    plots: Option<PathBuf>,
    /// Show one connection with each of its events, and plot it with --plots: its number, or both ends as they are
    /// listed, 'A:PORT>B:PORT' [default of --plots: the one with the most data]
    #[arg(long, value_name = "CONNECTION", conflicts_with_all = ["traffic", "far"])]
    connection: Option<String>,
    /// Write a copy as pcapng, with a remark for Wireshark beside each packet that shows a problem
    #[arg(long, value_name = "PCAPNG", conflicts_with_all = ["traffic", "far", "live"])]
    annotate: Option<PathBuf>,
    /// Keep every connection and packet as a recording (Parquet tables), for `tailback analyse` and `tailback report`
    #[arg(short, long, value_name = "RECORDING", conflicts_with = "traffic")]
    output: Option<PathBuf>,
    /// Directory to write the tables to, as CSV
    #[arg(long, value_name = "DIRECTORY", conflicts_with = "traffic")]
    csv: Option<PathBuf>,
    /// Print everything as JSON instead of a table
    #[arg(long)]
    json: bool,
    /// List every flow instead of TCP connections: DSCP, ECN, marks that receivers report, and QUIC with version, server name
    /// and the round trips of its spin bit
    #[arg(long, conflicts_with_all = ["traffic", "far", "each", "connection", "annotate", "output", "csv", "plots"])]
    flows: bool,
    #[command(flatten)]
    traffic: TrafficArgs,
    #[command(flatten)]
    ends: EndsArgs,
    #[command(flatten)]
    live: LiveArgs,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Traffic as a whole")]
struct TrafficArgs {
    /// Describe the traffic as a whole: arrival rates, sizes and gaps of TCP, UDP and both, the distributions that fit
    /// them, the Hurst parameter, traffic by service and server, and unsolicited packets
    #[arg(long)]
    traffic: bool,
    /// Step of time for counting arrivals, such as 10ms [default: ten packets on average]
    #[arg(long, value_name = "TIME", requires = "traffic")]
    step: Option<Duration>,
    /// Local addresses: packets from elsewhere that these did not ask for are unsolicited [default: the one address
    /// that is in nearly all packets, or the private ones]
    #[arg(long, value_name = "ADDRESS[/LENGTH]", requires = "traffic", value_parser = prefix)]
    home: Vec<(IpAddr, u8)>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "Both ends of a path")]
struct EndsArgs {
    /// Capture of the same traffic at the far end: both are matched packet by packet. Reports losses between them,
    /// delays in each direction, and changes to packets. Repeat for the parts of one capture
    #[arg(long, value_name = "FILE", conflicts_with_all = ["traffic", "csv"])]
    far: Vec<PathBuf>,
}

#[derive(clap::Args)]
#[command(next_help_heading = "An interface, live")]
struct LiveArgs {
    /// Capture packets on this interface until Ctrl-C, or for --duration; needs root or CAP_NET_RAW
    #[arg(long, value_name = "INTERFACE", conflicts_with_all = ["files", "far"])]
    live: Option<String>,
    /// Stop after this time, such as 10min
    #[arg(long, value_name = "TIME", requires = "live")]
    duration: Option<Duration>,
    /// Write the captured packets to this file as well, as pcapng
    #[arg(long, value_name = "FILE.pcapng", requires = "live")]
    write: Option<PathBuf>,
    /// Bytes of each packet to read and keep: 192 hold the headers, 2048 also the names of servers [default: 192, with
    /// --traffic or --flows 2048]
    #[arg(long, value_name = "BYTES", requires = "live", value_parser = clap::value_parser!(u32).range(96..=65_536))]
    snaplen: Option<u32>,
}

pub fn run(args: Args) -> anyhow::Result<Outcome> {
    let TrafficArgs {
        traffic,
        step,
        home,
    } = args.traffic;
    let LiveArgs {
        live,
        duration,
        write,
        snaplen,
    } = args.live;
    let plan = Plan {
        files: args.files,
        far: args.ends.far,
        live: live.map(|interface| Live {
            interface,
            duration,
            write,
            snaplen: snaplen.unwrap_or(if traffic || args.flows { 2048 } else { 192 }),
        }),
        traffic: traffic.then_some(TrafficPlan { step, home }),
        flows: args.flows,
        each: args.each,
        keep_copies: args.keep_copies,
        connection: args.connection,
        plots: args.plots,
        annotate: args.annotate,
        output: args.output,
        csv: args.csv,
        top: args.top,
    };
    carry_out(&plan, args.json)
}

/// Reads a plan's captures. Figures are shown even if there was an error after them.
pub fn carry_out(plan: &Plan, json: bool) -> anyhow::Result<Outcome> {
    let answer = ops::trace::run(plan, &mut Console::new())?;
    match json {
        true => print_with(|out| answer.json(out))?,
        false => print(&answer.text(stdout_style().width))?,
    }
    let outcome = match answer.is_empty() {
        true => Outcome::CouldNotMeasure,
        false => Outcome::Done,
    };
    match answer.failed {
        Some(failed) => Err(failed),
        None => Ok(outcome),
    }
}
