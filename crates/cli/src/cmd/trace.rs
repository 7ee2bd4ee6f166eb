//! `tailback trace`: what the packets of a capture say.

use super::{print, usage};
use crate::Outcome;
use base::units::significant;
use base::{BitsPerSec, Bytes};
use measure::capture::{Damage, Reader, frame};
use measure::track::{Cause, Connection, Half, Settings, Totals, Tracker, Traffic};
use serde::Serialize;
use std::fmt::Write;
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

/// What `--json` prints. Times in UNIX ns, sizes in bytes, rates in bit/s; what is not known is null.
#[derive(Serialize)]
struct Report {
    notes: Vec<String>,
    packets: u64,
    bytes: u64,
    duration_s: f64,
    tcp: Share,
    udp: Share,
    other_packets: u64,
    cut_packets: u64,
    first_fragments: u64,
    later_fragments: u64,
    /// Connections closed before their end because too many were open at once.
    evicted_connections: u64,
    connections: Vec<ConnectionReport>,
    udp_conversations: Vec<Conversation>,
}

#[derive(Serialize)]
struct Share {
    packets: u64,
    bytes: u64,
}

#[derive(Serialize)]
struct Conversation {
    a: String,
    b: String,
    first_ns: i64,
    duration_s: f64,
    packets: [u64; 2],
    payload_bytes: [u64; 2],
}

#[derive(Serialize)]
struct ConnectionReport {
    a: String,
    b: String,
    first_ns: i64,
    duration_s: f64,
    reset: bool,
    /// Captured twice and left out.
    copies: u64,
    /// Packets that the capture holds out of order of time.
    backward: u64,
    directions: [Direction; 2],
}

#[derive(Serialize)]
struct Direction {
    from: String,
    to: String,
    packets: u64,
    data_packets: u64,
    data_bytes: u64,
    unique_bytes: u64,
    /// Unique bytes over the connection's whole duration.
    goodput_bps: Option<f64>,
    retransmitted_packets: u64,
    retransmitted_bytes: u64,
    out_of_order: u64,
    upstream_repairs: u64,
    reordered: u64,
    /// By cause; see the book's page on traces.
    retransmissions: Vec<(&'static str, u64)>,
    needless_retransmissions: u64,
    rtt_samples: u64,
    rtt_min_ms: Option<f64>,
    rtt_mean_ms: Option<f64>,
    rtt_max_ms: Option<f64>,
    duplicate_acks: u64,
    triple_duplicate_acks: u64,
    sack_acks: u64,
    dsacks: u64,
    zero_windows: u64,
    window_probes: u64,
    keep_alives: u64,
    outstanding_max_bytes: u64,
    in_flight_max_bytes: u64,
    initial_window_bytes: u64,
    mss_bytes: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    timestamps: bool,
    longest_silence_ms: f64,
    ce_packets: u64,
    ece_packets: u64,
    /// Bytes that were acknowledged or numbered but are not in the capture.
    missing_bytes: u64,
    acks_of_unseen: u64,
    breaks: Vec<Break>,
}

#[derive(Serialize)]
struct Break {
    begin_ns: i64,
    /// Between the transmissions of the segment that was lost again and again.
    waits_s: Vec<f64>,
    resumed_ns: Option<i64>,
}

impl Report {
    fn new(traffic: Traffic, notes: Vec<String>) -> Report {
        let t: &Totals = &traffic.totals;
        Report {
            notes,
            packets: t.packets,
            bytes: t.bytes,
            duration_s: t
                .first_ns
                .zip(t.last_ns)
                .map_or(0.0, |(a, b)| seconds(b - a)),
            tcp: Share {
                packets: t.tcp_packets,
                bytes: t.tcp_bytes,
            },
            udp: Share {
                packets: t.udp_packets,
                bytes: t.udp_bytes,
            },
            other_packets: t.other_packets,
            cut_packets: t.cut_packets,
            first_fragments: t.first_fragments,
            later_fragments: t.later_fragments,
            evicted_connections: t.evicted,
            connections: traffic
                .connections
                .iter()
                .map(ConnectionReport::new)
                .collect(),
            udp_conversations: traffic
                .conversations
                .iter()
                .map(|c| Conversation {
                    a: c.a.to_string(),
                    b: c.b.to_string(),
                    first_ns: c.first_ns,
                    duration_s: seconds(c.last_ns - c.first_ns),
                    packets: c.packets,
                    payload_bytes: c.bytes,
                })
                .collect(),
        }
    }

    fn text(&self, top: usize) -> String {
        let mut out = String::new();
        let share = |s: &Share| 100.0 * s.bytes as f64 / self.bytes.max(1) as f64;
        let _ = writeln!(
            out,
            "{} packets, {} in {} s: TCP {:.1} %, UDP {:.1} % of the bytes",
            self.packets,
            bytes(self.bytes),
            significant(self.duration_s, 4),
            share(&self.tcp),
            share(&self.udp),
        );
        for note in &self.notes {
            let _ = writeln!(out, "! {note}");
        }
        let mut rows: Vec<(&ConnectionReport, &Direction)> = self
            .connections
            .iter()
            .flat_map(|c| c.directions.iter().map(move |d| (c, d)))
            .filter(|(_, d)| d.data_packets > 0)
            .collect();
        let _ = writeln!(
            out,
            "{} TCP connections, {} UDP conversations; {} directions carried TCP data\n",
            self.connections.len(),
            self.udp_conversations.len(),
            rows.len()
        );
        rows.sort_by_key(|(c, d)| (std::cmp::Reverse(d.unique_bytes), c.first_ns));
        let begin = self
            .connections
            .iter()
            .map(|c| c.first_ns)
            .min()
            .unwrap_or(0);
        let shown = &rows[..rows.len().min(top)];
        let width = shown
            .iter()
            .map(|(_, d)| d.from.len() + d.to.len() + 3)
            .max()
            .unwrap_or(0);
        if !shown.is_empty() {
            let _ = writeln!(
                out,
                "{:width$} {:>9} {:>8} {:>9} {:>11} {:>7} {:>6} {:>23} {:>6}",
                "from > to",
                "begin s",
                "lasts s",
                "payload",
                "goodput",
                "again",
                "%",
                "RTT min/mean/max ms",
                "breaks"
            );
        }
        for (c, d) in shown {
            let again = 100.0 * d.retransmitted_packets as f64 / d.data_packets as f64;
            let rtt = match (d.rtt_min_ms, d.rtt_mean_ms, d.rtt_max_ms) {
                (Some(min), Some(mean), Some(max)) => format!("{min:.1}/{mean:.1}/{max:.1}"),
                _ => "not seen".to_string(),
            };
            let _ = writeln!(
                out,
                "{:width$} {:>9.3} {:>8} {:>9} {:>11} {:>7} {:>6.2} {:>23} {:>6}",
                format!("{} > {}", d.from, d.to),
                seconds(c.first_ns - begin),
                significant(c.duration_s, 4),
                bytes(d.unique_bytes),
                d.goodput_bps.map_or("-".into(), rate),
                d.retransmitted_packets,
                again,
                rtt,
                d.breaks.len(),
            );
        }
        if rows.len() > top {
            let _ = writeln!(
                out,
                "… and {} more: --top {} shows all",
                rows.len() - top,
                rows.len()
            );
        }
        self.causes(&mut out);
        out
    }

    /// Everything that went wrong, of all connections together.
    fn causes(&self, out: &mut String) {
        let directions = || self.connections.iter().flat_map(|c| &c.directions);
        let sum = |f: &dyn Fn(&Direction) -> u64| directions().map(f).sum::<u64>();
        let again = sum(&|d| d.retransmissions.iter().map(|(_, n)| n).sum());
        if again > 0 {
            let parts: Vec<String> = Cause::ALL
                .iter()
                .enumerate()
                .filter_map(|(i, cause)| {
                    let n = sum(&|d| d.retransmissions[i].1);
                    (n > 0).then(|| format!("{n} {}", words(*cause)))
                })
                .collect();
            let _ = writeln!(out, "\nSent again: {again} packets: {}", parts.join(", "));
            let needless = sum(&|d| d.needless_retransmissions);
            if needless > 0 {
                let _ = writeln!(
                    out,
                    "  {needless} of them had been acknowledged before: needless"
                );
            }
        }
        let (repairs, reordered, filled) = (
            sum(&|d| d.upstream_repairs),
            sum(&|d| d.reordered),
            sum(&|d| d.out_of_order),
        );
        if filled > 0 {
            let _ = writeln!(
                out,
                "Out of order: {filled} packets: {repairs} repairs of losses ahead of the capture, {reordered} overtaken, {} cannot be told",
                filled - repairs - reordered
            );
        }
        let copies: u64 = self.connections.iter().map(|c| c.copies).sum();
        if copies > 0 {
            let _ = writeln!(out, "{copies} packets were captured twice and counted once");
        }
        let unseen = sum(&|d| d.acks_of_unseen);
        if unseen > 0 {
            let _ = writeln!(
                out,
                "{unseen} ACKs are for data that the capture does not hold: it lost packets, the network may not have"
            );
        }
        for d in directions() {
            for b in &d.breaks {
                let waits: Vec<String> = b.waits_s.iter().map(|w| significant(*w, 3)).collect();
                let end = match b.resumed_ns {
                    Some(t) => format!(
                        "went on after {} s",
                        significant(seconds(t - b.begin_ns), 3)
                    ),
                    None => "never went on".to_string(),
                };
                let _ = writeln!(
                    out,
                    "Flow break, {} > {}: waits of {} s, {end}",
                    d.from,
                    d.to,
                    waits.join(", ")
                );
            }
        }
    }
}

fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Timeout => "after a time-out",
        Cause::Fast => "after three duplicate ACKs",
        Cause::Sack => "after SACK",
        Cause::Recovery => "in the recovery that followed",
        Cause::TailProbe => "as tail loss probes",
        Cause::Unknown => "for no reason that shows",
    }
}

impl ConnectionReport {
    fn new(c: &Connection) -> ConnectionReport {
        let duration = c.last_ns - c.first_ns;
        let [there, back] = &c.halves;
        ConnectionReport {
            a: c.a.to_string(),
            b: c.b.to_string(),
            first_ns: c.first_ns,
            duration_s: seconds(duration),
            reset: c.reset,
            copies: c.duplicates,
            backward: c.backward,
            directions: [
                Direction::new(there, c.a.to_string(), c.b.to_string(), duration),
                Direction::new(back, c.b.to_string(), c.a.to_string(), duration),
            ],
        }
    }
}

impl Direction {
    fn new(h: &Half, from: String, to: String, duration: i64) -> Direction {
        let c = &h.counts;
        let timed = h.rtt.count > 0;
        Direction {
            from,
            to,
            packets: c.packets,
            data_packets: c.data_packets,
            data_bytes: c.data_bytes,
            unique_bytes: c.unique_bytes,
            goodput_bps: (duration > 0).then(|| 8.0 * c.unique_bytes as f64 / seconds(duration)),
            retransmitted_packets: c.retransmitted_packets,
            retransmitted_bytes: c.retransmitted_bytes,
            out_of_order: c.out_of_order,
            upstream_repairs: c.upstream_repairs,
            reordered: c.reordered,
            retransmissions: Cause::ALL
                .iter()
                .map(|cause| {
                    let n = h
                        .retransmissions
                        .iter()
                        .filter(|r| r.cause == *cause)
                        .count();
                    (cause.word(), n as u64)
                })
                .collect(),
            needless_retransmissions: h.retransmissions.iter().filter(|r| r.needless).count()
                as u64,
            rtt_samples: h.rtt.count,
            rtt_min_ms: timed.then_some(h.rtt.min_ns as f64 / 1e6),
            rtt_mean_ms: h.rtt.mean_ns().map(|m| m / 1e6),
            rtt_max_ms: timed.then_some(h.rtt.max_ns as f64 / 1e6),
            duplicate_acks: c.duplicate_acks,
            triple_duplicate_acks: c.triple_duplicate_acks,
            sack_acks: c.sack_acks,
            dsacks: c.dsacks,
            zero_windows: c.zero_windows,
            window_probes: c.window_probes,
            keep_alives: c.keep_alives,
            outstanding_max_bytes: c.outstanding_max,
            in_flight_max_bytes: c.in_flight_max,
            initial_window_bytes: c.initial_window,
            mss_bytes: h.mss,
            window_scale: h.window_scale,
            sack_permitted: h.sack_permitted,
            timestamps: h.timestamps,
            longest_silence_ms: c.longest_silence_ns as f64 / 1e6,
            ce_packets: c.ce,
            ece_packets: c.ece,
            missing_bytes: h.missing_bytes(),
            acks_of_unseen: c.acks_of_unseen,
            breaks: h
                .breaks
                .iter()
                .map(|b| Break {
                    begin_ns: b.sent_ns[0],
                    waits_s: b.sent_ns.windows(2).map(|w| seconds(w[1] - w[0])).collect(),
                    resumed_ns: b.resumed_ns,
                })
                .collect(),
        }
    }
}

fn seconds(ns: i64) -> f64 {
    ns as f64 / 1e9
}

fn bytes(n: u64) -> String {
    format!("{:.3}", Bytes::new(n))
}

fn rate(bps: f64) -> String {
    format!("{:.3}", BitsPerSec::new(bps.round() as u64))
}
