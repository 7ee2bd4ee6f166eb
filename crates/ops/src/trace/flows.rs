//! `tailback trace --flows`: DSCP, ECN and QUIC of every flow.

use super::{Plan, input, live};
use crate::progress::Observer;
use base::print::{DELAY, SIZE, significant};
use measure::capture::Record;
use measure::capture::frame::Frame;
use measure::flows::feedback::{Agreed, Feedback};
use measure::flows::spin::{Median, RoundTrips};
use measure::flows::{self, Flow, Flows, Protocol, Quic};
use report::table::{Cell, Column, Table, wrapped};
use schemars::JsonSchema;
use serde::Serialize;
use stats::Figure;
use std::fmt::Write;

/// Every flow of a capture.
pub struct Answer {
    whole: Whole,
    top: usize,
}

/// The answer as `--json` prints it.
#[derive(Serialize, JsonSchema)]
pub(super) struct Whole {
    notes: Vec<String>,
    /// Handshakes of TCP by the ECN that they agree on.
    handshakes: Handshakes,
    /// Flows, those with the most bytes first.
    flows: Vec<FlowRow>,
    /// Packets of flows beyond those that are watched.
    unwatched_packets: u64,
}

#[derive(Default, Serialize, JsonSchema)]
struct Handshakes {
    acc_ecn: u64,
    classic: u64,
    none: u64,
    /// The SYN-ACK repeats the flags of the SYN.
    reflected: u64,
    /// The capture does not hold both packets.
    unknown: u64,
    /// Clients that asked for ECN first, and then without it.
    fell_back: u64,
}

#[derive(Serialize, JsonSchema)]
struct FlowRow {
    /// TCP, UDP or QUIC.
    protocol: &'static str,
    client: String,
    server: String,
    first_ns: i64,
    last_ns: i64,
    from_client: DirectionRow,
    from_server: DirectionRow,
    tcp: Option<TcpRow>,
    quic: Option<QuicRow>,
}

#[derive(Serialize, JsonSchema)]
struct DirectionRow {
    packets: u64,
    bytes: u64,
    not_ect_packets: u64,
    ect1_packets: u64,
    ect0_packets: u64,
    ce_packets: u64,
    /// CE packets among those with an ECN codepoint; absent if there are none.
    ce_share: Option<f64>,
    /// Number of packets by DSCP.
    dscp: Vec<DscpRow>,
}

#[derive(Serialize, JsonSchema)]
struct DscpRow {
    dscp: u8,
    packets: u64,
}

#[derive(Serialize, JsonSchema)]
struct TcpRow {
    /// Agreement of the handshake: AccECN, classic, none, flags reflected, unknown.
    ecn: &'static str,
    fell_back: bool,
    client_reports: ReportedRow,
    server_reports: ReportedRow,
}

/// Marks that one end reports about the packets it received.
#[derive(Serialize, JsonSchema)]
struct ReportedRow {
    ece_packets: u64,
    cwr_packets: u64,
    /// Marked packets by the ACE field; more by a multiple of eight if acknowledgements are missing.
    ace_marked_packets: u64,
    /// Marked bytes by the AccECN option.
    option_marked_bytes: u64,
    packets_with_option: u64,
}

#[derive(Serialize, JsonSchema)]
struct QuicRow {
    /// Version, such as 1; absent if no handshake was captured.
    version: Option<String>,
    server_name: Option<String>,
    short_packets: u64,
    /// Number of round trips of the spin bit.
    round_trips: u64,
    rtt_ms: Figure,
    /// Part from the capture to the client and back.
    client_side_ms: Figure,
    /// Part from the capture to the server and back.
    server_side_ms: Figure,
}

/// Reads capture files, or an interface.
pub(super) fn run(
    plan: &Plan,
    observer: &dyn Observer,
) -> anyhow::Result<(Answer, Option<anyhow::Error>)> {
    let mut collected = Collected::default();
    let (mut notes, mut failed) = (Vec::new(), None);
    match &plan.live {
        Some(watched) => {
            let open = live::open(watched)?;
            let (_, copied) = live::capture(watched, open, &mut collected, &mut notes, observer);
            failed = copied.err();
        }
        None => {
            for path in &plan.files {
                input::read(path, &mut notes, |record, frame| {
                    collected.take(record, frame);
                })?;
            }
        }
    }
    Ok((collected.finish(notes, plan.top), failed))
}

#[derive(Default)]
struct Collected {
    flows: Flows,
    packets: u64,
    untimed: u64,
    foreign: u64,
}

impl Collected {
    fn take(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>) {
        self.packets += 1;
        match (record.t_ns, frame) {
            (Some(t), Some(frame)) => self.flows.packet(t, frame),
            (None, _) => self.untimed += 1,
            (_, None) => self.foreign += 1,
        }
    }

    fn finish(self, mut notes: Vec<String>, top: usize) -> Answer {
        let found = self.flows.finish();
        for (n, what) in [
            (self.untimed, "have no time and are left out"),
            (self.foreign, "are not IP and are left out"),
            (
                found.other_packets,
                "are neither TCP nor UDP, or are later fragments",
            ),
            (
                found.unwatched_packets,
                "belong to flows beyond the 200,000 that are watched",
            ),
        ] {
            if n > 0 {
                notes.push(format!("{n} packets {what}"));
            }
        }
        let mut handshakes = Handshakes::default();
        for flow in &found.flows {
            if let Protocol::Tcp(feedback) = &flow.protocol {
                handshakes.add(feedback);
            }
        }
        Answer {
            whole: Whole {
                notes,
                handshakes,
                flows: found.flows.iter().map(FlowRow::new).collect(),
                unwatched_packets: found.unwatched_packets,
            },
            top,
        }
    }
}

impl live::Receiver for Collected {
    fn packet(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>) {
        self.take(record, frame);
    }

    fn second(&mut self, since_ns: i64, dropped: u64) -> String {
        let packets = crate::counted(self.packets, "packet");
        format!(
            "{} s: {packets}, the kernel dropped {dropped}",
            since_ns / 1_000_000_000
        )
    }
}

impl Handshakes {
    fn add(&mut self, feedback: &Feedback) {
        let count = match feedback.agreed() {
            Agreed::Accurate => &mut self.acc_ecn,
            Agreed::Classic => &mut self.classic,
            Agreed::Without => &mut self.none,
            Agreed::Reflected => &mut self.reflected,
            Agreed::Unknown => &mut self.unknown,
        };
        *count += 1;
        self.fell_back += u64::from(feedback.fell_back);
    }
}

impl FlowRow {
    fn new(flow: &Flow) -> FlowRow {
        let (protocol, tcp, quic) = match &flow.protocol {
            Protocol::Tcp(feedback) => ("TCP", Some(TcpRow::new(feedback)), None),
            Protocol::Quic(quic) => ("QUIC", None, Some(QuicRow::new(quic))),
            Protocol::Udp => ("UDP", None, None),
        };
        let [client, server] = flow.ends.map(|e| e.to_string());
        let [from_client, from_server] = flow.directions.each_ref().map(DirectionRow::new);
        FlowRow {
            protocol,
            client,
            server,
            first_ns: flow.first_ns,
            last_ns: flow.last_ns,
            from_client,
            from_server,
            tcp,
            quic,
        }
    }
}

impl DirectionRow {
    fn new(d: &flows::Direction) -> DirectionRow {
        let [not_ect_packets, ect1_packets, ect0_packets, ce_packets] = d.ecn;
        let capable = ect1_packets + ect0_packets + ce_packets;
        let dscp = d
            .dscp
            .iter()
            .map(|(&dscp, &packets)| DscpRow { dscp, packets });
        DirectionRow {
            packets: d.packets,
            bytes: d.bytes,
            not_ect_packets,
            ect1_packets,
            ect0_packets,
            ce_packets,
            ce_share: (capable > 0).then(|| ce_packets as f64 / capable as f64),
            dscp: dscp.collect(),
        }
    }

    /// Codepoints with their shares, such as `ECT(0) 98 %, CE 2 %`.
    fn ecn(&self) -> String {
        let counts = [
            ("-", self.not_ect_packets),
            ("ECT(1)", self.ect1_packets),
            ("ECT(0)", self.ect0_packets),
            ("CE", self.ce_packets),
        ];
        shares(
            counts.into_iter().map(|(n, c)| (n.to_string(), c)),
            self.packets,
        )
    }

    fn dscps(&self) -> String {
        let counts = self.dscp.iter().map(|d| (d.dscp.to_string(), d.packets));
        shares(counts, self.packets)
    }
}

/// Names with their shares of a whole; a name that has all of it stands alone.
fn shares(counts: impl Iterator<Item = (String, u64)>, whole: u64) -> String {
    let told = counts
        .filter(|c| c.1 > 0)
        .map(|(name, count)| match count == whole {
            true => name,
            false => format!(
                "{name} {} %",
                significant(100.0 * count as f64 / whole as f64, 3)
            ),
        });
    told.collect::<Vec<_>>().join(", ")
}

impl TcpRow {
    fn new(feedback: &Feedback) -> TcpRow {
        let [client_reports, server_reports] = feedback.reported().map(|r| ReportedRow {
            ece_packets: r.ece_packets,
            cwr_packets: r.cwr_packets,
            ace_marked_packets: r.ace_marks,
            option_marked_bytes: r.option_bytes,
            packets_with_option: r.options,
        });
        TcpRow {
            ecn: feedback.agreed().word(),
            fell_back: feedback.fell_back,
            client_reports,
            server_reports,
        }
    }
}

impl QuicRow {
    fn new(quic: &Quic) -> QuicRow {
        let figure = |of: fn(&RoundTrips) -> &Median| match &quic.round_trips {
            Ok(r) => {
                let m = of(r);
                let [value, low, high] = [m.ns, m.low_ns, m.high_ns].map(|ns| ns as f64 / 1e6);
                Figure::Is { value, low, high }
            }
            Err(why) => Figure::cannot_tell(why.to_string()),
        };
        let version = |v: u32| match v {
            1 => "1".into(),
            0x6b33_43cf => "2".into(),
            draft => format!("draft {}", draft & 0xff),
        };
        QuicRow {
            version: quic.version.map(version),
            server_name: quic.name.clone(),
            short_packets: quic.short_packets,
            round_trips: quic.round_trips.as_ref().map_or(0, |r| r.count),
            rtt_ms: figure(|r| &r.rtt),
            client_side_ms: figure(|r| &r.client),
            server_side_ms: figure(|r| &r.server),
        }
    }
}

impl Answer {
    /// Returns the tables for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let w = &self.whole;
        let of = |p: &str| w.flows.iter().filter(|f| f.protocol == p).count();
        let mut out = format!(
            "{}: {} of TCP, {} of QUIC, {} of other UDP\n",
            crate::counted(w.flows.len() as u64, "flow"),
            of("TCP"),
            of("QUIC"),
            of("UDP")
        );
        for line in w
            .notes
            .iter()
            .flat_map(|n| wrapped(&format!("! {n}"), width))
        {
            let _ = writeln!(out, "{line}");
        }
        self.marks(&mut out, width);
        self.tcp(&mut out, width);
        self.quic(&mut out, width);
        out
    }

    fn marks(&self, out: &mut String, width: usize) {
        let _ = writeln!(out, "\nDSCP and ECN of each flow, by direction");
        let heads = ["packets", "bytes"].map(Column::from);
        let words = ["DSCP", "ECN"].map(Column::words);
        let columns = std::iter::once("".into()).chain(heads).chain(words);
        let mut table = Table::new("", columns);
        for f in self.whole.flows.iter().take(self.top) {
            for (arrow, d) in [("→", &f.from_client), ("←", &f.from_server)] {
                if d.packets > 0 {
                    let name = format!("{} {} {arrow} {}", f.protocol, f.client, f.server);
                    let bytes = SIZE.print(d.bytes as f64);
                    table.row(name, [d.packets.to_string(), bytes, d.dscps(), d.ecn()]);
                }
            }
        }
        *out += &table.text(width);
        if self.whole.flows.len() > self.top {
            let more = self.whole.flows.len() - self.top;
            let _ = writeln!(out, "  … and {more} more flows: --top or --json has them");
        }
    }

    fn tcp(&self, out: &mut String, width: usize) {
        let h = &self.whole.handshakes;
        let all = [
            ("AccECN", h.acc_ecn),
            ("classic", h.classic),
            ("none", h.none),
            ("flags reflected", h.reflected),
            ("unknown (no handshake in the capture)", h.unknown),
            ("asked again without ECN", h.fell_back),
        ];
        let told: Vec<String> = all
            .iter()
            .filter(|x| x.1 > 0)
            .map(|(n, c)| format!("{n} {c}"))
            .collect();
        if told.is_empty() {
            return;
        }
        let _ = writeln!(out, "\nECN of TCP's handshakes: {}", told.join(", "));
        let heads = [
            "receiver of the marks",
            "ECN",
            "marked, by ACE",
            "bytes, by option",
            "packets with ECE",
        ];
        let mut table = Table::new("", heads.map(Column::from));
        for f in self.whole.flows.iter().take(self.top) {
            let Some(t) = &f.tcp else { continue };
            for (from, to, r) in [
                (&f.client, &f.server, &t.client_reports),
                (&f.server, &f.client, &t.server_reports),
            ] {
                if r.ace_marked_packets + r.ece_packets + r.option_marked_bytes > 0 {
                    let cells = [r.ace_marked_packets, r.option_marked_bytes, r.ece_packets];
                    let cells = cells.map(|n| Cell::from(n.to_string()));
                    let row = std::iter::once(t.ecn.into()).chain(cells);
                    table.row(format!("{from}, from {to}"), row);
                }
            }
        }
        if !table.is_empty() {
            *out += &table.text(width);
        }
    }

    fn quic(&self, out: &mut String, width: usize) {
        let rows: Vec<_> = self
            .whole
            .flows
            .iter()
            .filter(|f| f.quic.is_some())
            .collect();
        if rows.is_empty() {
            return;
        }
        let _ = writeln!(
            out,
            "\nQUIC: median round trip by the spin bit, and its two parts from the capture"
        );
        let words = ["connection", "version", "server"].map(Column::words);
        let heads = ["round trip", "client's side", "server's side"].map(Column::from);
        let mut table = Table::new("", words.into_iter().chain(heads));
        for f in rows.into_iter().take(self.top) {
            let Some(q) = &f.quic else { continue };
            let cells = [
                q.version.clone().into(),
                q.server_name.clone().into(),
                Cell::figure(&q.rtt_ms, DELAY),
                Cell::printed(&q.client_side_ms, |ms| DELAY.print(ms)),
                Cell::printed(&q.server_side_ms, |ms| DELAY.print(ms)),
            ];
            table.row(format!("{} → {}", f.client, f.server), cells);
        }
        *out += &table.text(width);
    }

    /// All figures as JSON.
    ///
    /// # Errors
    /// Errors of the receiver.
    pub fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        serde_json::to_writer_pretty(out, &self.whole)
    }
}
