//! Tables of `tailback trace` for a terminal.

use super::answer::{
    Comment, ConnectionReport, DetailReport, Direction, Held, Losses, again, seconds,
};
use super::expert::Expert;
use crate::counted;
use analysis::answer::Finding;
use analysis::passive::Waiting;
use base::print::{DELAY, RATE, SIZE, significant};
use base::record;
use measure::track::{Cause, Connection, Half};
use report::table::{Cell, Column, Table};
use std::fmt::Write;

/// Sums over all connections.
#[derive(Default)]
pub(super) struct Sums {
    connections: usize,
    conversations: usize,
    /// Directions that carried data.
    carrying: usize,
    /// Begin of the first connection, UNIX ns.
    begin_ns: Option<i64>,
    by_cause: [u64; 6],
    needless: u64,
    upstream_repairs: u64,
    reordered: u64,
    out_of_order: u64,
    copies: u64,
    doubled: u64,
    zero_windows: u64,
    window_probes: u64,
    keep_alives: u64,
    acks_of_unseen: u64,
    pub(super) losses: Losses,
}

impl Sums {
    pub(super) fn new(conversations: usize) -> Sums {
        Sums {
            conversations,
            ..Sums::default()
        }
    }

    /// Retransmitted packets by cause.
    pub(super) fn causes(&self) -> impl Iterator<Item = (Cause, u64)> {
        Cause::ALL.into_iter().zip(self.by_cause)
    }

    pub(super) fn again(&self) -> u64 {
        self.by_cause.iter().sum()
    }

    pub(super) fn connection(&mut self, c: &Connection) {
        self.began(c.first_ns, c.duplicates, c.doubled);
        c.halves.iter().for_each(|h| self.half(h));
        for direction in [0, 1] {
            self.losses.add(&Losses::of(c, direction));
        }
    }

    fn began(&mut self, first_ns: i64, copies: u64, doubled: u64) {
        self.connections += 1;
        self.copies += copies;
        self.doubled += doubled;
        self.begin_ns = Some(self.begin_ns.map_or(first_ns, |b| b.min(first_ns)));
    }

    fn half(&mut self, h: &Half) {
        let e = h.events();
        self.carrying += usize::from(h.counts.data_packets > 0);
        for (sum, n) in self.by_cause.iter_mut().zip(e.by_cause) {
            *sum += n;
        }
        self.needless += e.needless;
        self.upstream_repairs += e.upstream_repairs;
        self.reordered += e.reordered;
        self.out_of_order += e.out_of_order;
        self.zero_windows += e.zero_windows;
        self.window_probes += e.window_probes;
        self.keep_alives += e.keep_alives;
        self.acks_of_unseen += e.acks_of_unseen;
    }

    /// Adds a direction of a recording; the first one of each connection counts the connection.
    pub(super) fn recorded(&mut self, r: &record::Connection) {
        let n = |n: i64| u64::try_from(n).unwrap_or(0);
        if r.flow % 2 == 0 {
            let doubled = n(r.doubled_packets.unwrap_or(0));
            self.began(r.first_ns, n(r.copied_packets), doubled);
        }
        self.carrying += usize::from(r.data_packets > 0);
        for (sum, (_, again)) in self.by_cause.iter_mut().zip(again(r)) {
            *sum += n(again);
        }
        self.needless += n(r.needless_packets);
        self.upstream_repairs += n(r.upstream_repair_packets);
        self.reordered += n(r.reordered_packets);
        self.out_of_order += n(r.out_of_order_packets);
        self.zero_windows += n(r.zero_windows);
        self.window_probes += n(r.window_probes);
        self.keep_alives += n(r.keep_alives);
        self.acks_of_unseen += n(r.acks_of_unseen);
        self.losses.add(&Losses::recorded(r));
    }
}

/// A connection and one of its directions.
pub(super) struct Row(pub(super) ConnectionReport, pub(super) usize);

impl Row {
    fn direction(&self) -> &Direction {
        &self.0.directions[self.1]
    }

    fn name(&self) -> String {
        let d = self.direction();
        format!("{} > {}", d.from, d.to)
    }

    /// Number of the connection, and the sender of this direction.
    fn sender(&self) -> String {
        format!("{} {}", self.0.number, self.direction().from)
    }
}

/// Selection that is shown besides the sums.
pub(super) struct Shown {
    pub(super) notes: Vec<String>,
    /// Directions with the most data, the largest first.
    pub(super) rows: Vec<Row>,
    /// Directions in which a flow broke off.
    pub(super) broken: Vec<Row>,
    pub(super) findings: Vec<Finding>,
    /// Waits on each way to and from each host, the longest first.
    pub(super) waits: Vec<Waiting>,
    pub(super) expert: Vec<Expert>,
    pub(super) comments: Vec<Comment>,
}

/// Greatest number of remarks that are shown.
const REMARKS: usize = 20;
/// Greatest number of ways whose waits are shown.
const WAITS: usize = 8;
/// Directions whose limits and bursts are shown.
const LARGEST: usize = 5;

pub(super) fn text(held: &Held, sums: &Sums, shown: &Shown, width: usize) -> String {
    let mut out = String::new();
    let share = |bytes: u64| 100.0 * bytes as f64 / held.bytes.max(1) as f64;
    let _ = writeln!(
        out,
        "{}, {} in {} s: TCP {:.1} %, UDP {:.1} % of the bytes",
        counted(held.packets, "packet"),
        SIZE.print(held.bytes as f64),
        significant(held.duration_s(), 4),
        share(held.tcp.bytes),
        share(held.udp.bytes),
    );
    for note in &shown.notes {
        let _ = writeln!(out, "! {note}");
    }
    what_was_not_read(&mut out, held);
    what_was_cut(&mut out, held);
    let carried = sums.carrying;
    let _ = writeln!(
        out,
        "{}, {}; {} carried TCP data\n",
        counted(sums.connections as u64, "TCP connection"),
        counted(sums.conversations as u64, "UDP conversation"),
        counted(carried as u64, "direction"),
    );
    if !shown.rows.is_empty() {
        out += &directions(sums, &shown.rows).text(width);
    }
    if carried > shown.rows.len() {
        let _ = writeln!(
            out,
            "… and {} more: --top {carried} shows all",
            carried - shown.rows.len()
        );
    }
    causes(&mut out, sums);
    breaks(&mut out, &shown.broken);
    losses(&mut out, &sums.losses);
    limits(&mut out, &shown.rows, width);
    bursts(&mut out, &shown.rows, width);
    experts(&mut out, &shown.expert, width);
    remarks(&mut out, &shown.comments);
    waits(&mut out, &shown.waits, width);
    for f in &shown.findings {
        let _ = writeln!(out, "\n{}: {}", severity(f.severity), f.says);
        for e in &f.evidence {
            let _ = writeln!(out, "  {e}");
        }
    }
    out
}

/// Writes counts of packets that were kept too short, and of connections that were closed or left out.
fn what_was_cut(out: &mut String, held: &Held) {
    for (n, what) in [
        (
            held.cut_packets,
            "packets were kept too short to hold a TCP or UDP header, and are in no connection",
        ),
        (
            held.cut_options_packets,
            "packets were kept too short to hold all of their TCP options: of SACK, timestamps and the window's scale is said \
             what is left of them, and of the causes that show in them nothing; 128 bytes of each packet hold them all",
        ),
        (
            held.evicted_connections,
            "connections were closed early because too many were open at once",
        ),
        (
            held.connections_not_listed,
            "small connections are not listed because there were too many",
        ),
    ] {
        if n > 0 {
            let _ = writeln!(out, "! {n} {what}");
        }
    }
}

/// Writes the packets that belong to no connection, and the faults of clocks.
fn what_was_not_read(out: &mut String, held: &Held) {
    for (n, what) in [
        (
            held.unread_packets,
            "packets are not IP, or of a link layer that is not read; they are in no connection"
                .into(),
        ),
        (
            held.untimed_packets,
            "packets have no time and are in no connection".into(),
        ),
        (
            held.later_fragments,
            format!(
                "packets are later fragments and in no connection, {} are first ones: of a fragmented TCP segment only the first counts",
                held.first_fragments
            ),
        ),
        (
            held.backward_packets,
            format!(
                "packets are stamped before the one ahead of them, by up to {} ms: the capturing clock was set back, or the \
                 capture is not in order. Within a connection they count at the time of the one ahead",
                significant(held.backward_most_ms, 3)
            ),
        ),
    ] {
        if n > 0 {
            let _ = writeln!(out, "! {n} {what}");
        }
    }
    for (kind, n) in &held.tunnelled_packets {
        let _ = writeln!(
            out,
            "! {n} packets are of a tunnel ({kind}): what is inside is not read"
        );
    }
}

/// Writes the kinds of problems, gravest first.
fn experts(out: &mut String, list: &[Expert], width: usize) {
    if list.is_empty() {
        return;
    }
    let place = |e: &Expert| {
        let thing = match e.kind {
            "reset" => "connection",
            _ => "direction",
        };
        let first = e.first_frame.map_or(String::new(), |frame| {
            format!(
                ", first in packet {frame} of connection {}",
                e.first_connection
            )
        });
        format!("in {}{first}", counted(e.directions, thing))
    };
    let heads = [
        Column::words("Expert list"),
        "times".into(),
        Column::words(""),
        Column::words(""),
    ];
    let rows = list.iter().map(|e| {
        let cells: Vec<Cell> = vec![e.count.into(), e.says.into(), place(e).into()];
        (severity(e.severity), cells)
    });
    let table = Table::new("", heads).with(rows).text(width);
    let _ = writeln!(
        out,
        "\n{table}--connection N shows each with the number of its packet; --annotate writes them for Wireshark"
    );
}

/// Writes how long packets waited on their way to and from each host.
fn waits(out: &mut String, list: &[Waiting], width: usize) {
    if list.is_empty() {
        return;
    }
    let heads = [
        Column::words("Waits on the way"),
        "median".into(),
        "95 %".into(),
        "most".into(),
    ];
    let rows = list.iter().take(WAITS).map(|w| {
        let cells = vec![
            w.told(&w.median_ms),
            w.told(&w.p95_ms),
            DELAY.print(w.max_ms),
        ];
        (w.words(), cells)
    });
    let table = Table::new("", heads).with(rows).text(width);
    let _ = write!(out, "\n{table}");
    if list.len() > WAITS {
        let _ = writeln!(out, "… and {} more: --json has all", list.len() - WAITS);
    }
}

/// Writes the remarks in the file.
fn remarks(out: &mut String, comments: &[Comment]) {
    for c in comments.iter().take(REMARKS) {
        let at = match c.frame {
            Some(frame) => format!("packet {frame}"),
            None => "the file".into(),
        };
        let _ = writeln!(
            out,
            "Remark in the file, on {at}: {}",
            c.text.escape_debug()
        );
    }
    if comments.len() > REMARKS {
        let _ = writeln!(
            out,
            "… and {} remarks more: --json has all",
            comments.len() - REMARKS
        );
    }
}

fn severity(s: analysis::answer::Severity) -> &'static str {
    use analysis::answer::Severity;
    match s {
        Severity::Bad => "Bad",
        Severity::Warning => "Warning",
        Severity::Note => "Note",
        Severity::Good => "Good",
    }
}

/// Returns the table of directions, one row each.
pub(super) fn directions(sums: &Sums, rows: &[Row]) -> Table {
    let heads = [
        "#".into(),
        Column::words("from > to"),
        Column::of("begin", "s"),
        Column::of("lasts", "s"),
        "payload".into(),
        "goodput".into(),
        "again".into(),
        Column::of("", "%"),
        Column::of("RTT min", "ms"),
        Column::of("median", "ms"),
        Column::of("95 %", "ms"),
        "breaks".into(),
    ];
    let ms = |v: Option<f64>| Cell::from(v.map(|v| format!("{v:.1}")));
    Table::new("Connections", heads)
        .numbered()
        .with(rows.iter().map(|r| {
            let (c, d) = (&r.0, r.direction());
            // By bytes: a super-segment is one packet here, and its repairs are several.
            let again = 100.0 * d.retransmitted_bytes as f64 / d.data_bytes.max(1) as f64;
            let cells = vec![
                r.name().into(),
                format!("{:.3}", seconds(c.first_ns - sums.begin_ns.unwrap_or(0))).into(),
                significant(c.duration_s, 4).into(),
                SIZE.print(d.unique_bytes as f64).into(),
                d.goodput_bps.map(|v| RATE.print(v)).into(),
                d.retransmitted_packets.into(),
                format!("{again:.2}").into(),
                ms(d.rtt_min_ms),
                ms(d.rtt_p50_ms),
                ms(d.rtt_p95_ms),
                d.breaks.len().to_string().into(),
            ];
            (c.number.to_string(), cells)
        }))
}

/// Returns the causes of retransmissions with their packets; `None` if nothing was sent again.
pub(super) fn causes_table(sums: &Sums) -> Option<Table> {
    let causes = sums.causes().filter(|(_, n)| *n > 0);
    let table = Table::new("Why it was sent again", ["Sent again", "Packets"])
        .with(causes.map(|(cause, n)| (words(cause), vec![n])));
    (!table.rows.is_empty()).then_some(table)
}

/// Returns the causes of losses with their packets; `None` if nothing was lost.
pub(super) fn losses_table(all: &Losses) -> Option<Table> {
    let shares = all.shares().filter(|(_, n)| *n > 0);
    let heads = ["Put down to".into(), "Packets".into(), Column::of("", "%")];
    let table =
        Table::new("What the losses are put down to", heads).with(shares.map(|(what, n)| {
            let share = 100.0 * n as f64 / all.lost.max(1) as f64;
            let cells: Vec<Cell> = vec![n.into(), significant(share, 3).into()];
            (what, cells)
        }));
    (!table.rows.is_empty()).then_some(table)
}

/// Writes the retransmissions of all connections by cause.
fn causes(out: &mut String, s: &Sums) {
    let again = s.again();
    if again > 0 {
        let parts: Vec<String> = s
            .causes()
            .filter(|(_, n)| *n > 0)
            .map(|(cause, n)| format!("{n} {}", words(cause)))
            .collect();
        let _ = writeln!(
            out,
            "\nSent again: {}: {}",
            counted(again, "packet"),
            parts.join(", ")
        );
        if s.needless > 0 {
            let _ = writeln!(out, "  {} of them had arrived before: needless", s.needless);
        }
    }
    if s.out_of_order > 0 {
        let _ = writeln!(
            out,
            "Out of order: {}: {} repairs of losses ahead of the capture, {} overtaken, {} cannot be told",
            counted(s.out_of_order, "packet"),
            s.upstream_repairs,
            s.reordered,
            s.out_of_order - s.upstream_repairs - s.reordered
        );
    }
    if s.copies > 0 {
        let _ = writeln!(
            out,
            "Captured twice and counted once: {}",
            counted(s.copies, "packet")
        );
    }
    if s.doubled > 0 {
        let _ = writeln!(
            out,
            "Delivered twice by the network and counted once: {}",
            counted(s.doubled, "packet")
        );
    }
    if s.zero_windows + s.window_probes > 0 {
        let _ = writeln!(
            out,
            "Closed windows: offered by {}, asked about by {}",
            counted(s.zero_windows, "packet"),
            counted(s.window_probes, "probe")
        );
    }
    if s.keep_alives > 0 {
        let _ = writeln!(out, "Keep-alives: {}", counted(s.keep_alives, "packet"));
    }
    if s.acks_of_unseen > 0 {
        let _ = writeln!(
            out,
            "{} ACKs are for data that the capture does not hold: it lost packets, the network may not have",
            s.acks_of_unseen
        );
    }
}

fn breaks(out: &mut String, broken: &[Row]) {
    for r in broken {
        for b in &r.direction().breaks {
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
                "Flow break, {}: waits of {} s, {end}",
                r.name(),
                waits.join(", ")
            );
        }
    }
}

/// Writes the losses by cause: the thesis's table 6.6.1.
fn losses(out: &mut String, all: &Losses) {
    if all.lost == 0 {
        return;
    }
    let of_lost = |n: u64| 100.0 * n as f64 / all.lost as f64;
    let _ = writeln!(
        out,
        "\nLost: {} of {} data packets on the wire ({} %). Put down to",
        all.number(),
        all.data_packets,
        all.said(|n| format!("{:.2}", 100.0 * n as f64 / all.data_packets.max(1) as f64))
    );
    for (what, n) in all.shares() {
        if n > 0 {
            let _ = writeln!(out, "  {:5.1} %  {what}", of_lost(n));
        }
    }
    if all.time_in_breaks_s > 0.0 {
        let _ = writeln!(
            out,
            "  {} s were spent in flow breaks",
            significant(all.time_in_breaks_s, 3)
        );
    }
}

/// Writes what held the largest directions back.
fn limits(out: &mut String, rows: &[Row], width: usize) {
    let rows = largest(rows).map(|(name, d)| {
        let both = d.receiver_or_network_limited_s;
        let told = [d.receiver_limited_s, d.network_limited_s];
        let told_s = told.iter().flatten().sum::<f64>();
        let all_s = (d.sender_limited_s + both.unwrap_or(0.0) + told_s).max(1e-9);
        let share = |s: f64| format!("{:.0} %", 100.0 * s / all_s);
        let [receiver, network] = told.map(|s| s.map_or("?".into(), share));
        let least = d.receiver_limited_at_least_s.filter(|s| *s > 0.0);
        let cells = vec![
            share(d.sender_limited_s),
            least.map_or(receiver, |s| format!("at least {}", share(s))),
            network,
            both.map_or(String::new(), share),
        ];
        (name, cells)
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let untold = rows.iter().any(|(_, cells)| !cells[3].is_empty());
    let heads = [
        Column::words("What senders waited for"),
        "application".into(),
        "receiver's window".into(),
        "network".into(),
        "either".into(),
    ];
    let columns = if untold { 5 } else { 4 };
    let rows = rows.into_iter().map(|(name, mut cells)| {
        cells.truncate(columns - 1);
        (name, cells)
    });
    let heads = heads.into_iter().take(columns);
    let table = Table::new("", heads).with(rows).text(width);
    let _ = write!(out, "\n{table}");
    if untold {
        let _ = writeln!(
            out,
            "either: the window or the network, which this capture cannot tell apart"
        );
    }
}

/// Writes the bursts of the largest directions, and the ACKs that came together.
fn bursts(out: &mut String, rows: &[Row], width: usize) {
    let rows = largest(rows).filter_map(|(name, d)| {
        let counts = d.bursts.map(|(_, n)| n);
        let bursts = counts.iter().sum::<u64>();
        let mut cells: Vec<Cell> = counts.map(Cell::from).into();
        cells.push(SIZE.print(d.burst_max_bytes as f64).into());
        cells.push(d.bunched_acks.into());
        (bursts + d.bunched_acks > 0).then_some((name, cells))
    });
    let rows: Vec<_> = rows.collect();
    if rows.is_empty() {
        return;
    }
    let heads = [
        Column::words("Bursts of"),
        "offload".into(),
        "one ACK".into(),
        "application".into(),
        "unknown".into(),
        "largest".into(),
        "bunched ACKs".into(),
    ];
    let table = Table::new("", heads).with(rows).text(width);
    let _ = write!(out, "\n{table}");
}

/// The largest directions with details, and their names.
fn largest(rows: &[Row]) -> impl Iterator<Item = (String, &DetailReport)> {
    (rows.iter().take(LARGEST)).filter_map(|r| Some((r.sender(), r.direction().detail.as_ref()?)))
}

pub(super) fn words(cause: Cause) -> &'static str {
    match cause {
        Cause::Timeout => "after a time-out",
        Cause::Fast => "after three duplicate ACKs",
        Cause::Sack => "after SACK",
        Cause::Recovery => "in the recovery that followed",
        Cause::TailProbe => "as tail loss probes",
        Cause::Unknown => "for no reason that shows",
    }
}
