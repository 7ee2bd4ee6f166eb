//! `tailback trace --traffic`: the traffic of a capture as a whole.

use super::{Plan, TrafficPlan, applications, input, live};
use crate::progress::Observer;
use crate::{usage, write_file};
use analysis::traffic::{ClassAnswer, Law, Protocol, Traffic, TrafficAnswer};
use base::Duration;
use base::print::{SIZE, significant};
use measure::applications::Applications;
use measure::capture::Record;
use measure::capture::frame::{Frame, Transport};
use measure::unsolicited::{Found, Unsolicited, Watch};
use report::table::{Cell, Column, Table, wrapped};
use serde::Serialize;
use stats::Figure;
use stats::fit::Family;
use std::fmt::Write;
use std::net::IpAddr;
use std::path::Path;

/// Figures of the traffic as a whole.
pub struct Answer {
    traffic: TrafficAnswer,
    found: Found,
    applications: applications::Applications,
    notes: Vec<String>,
}

/// Reads an address with the length of its prefix, such as 192.0.2.7 or 2001:db8::/32.
///
/// # Errors
/// The fault in the text.
pub fn prefix(text: &str) -> Result<(IpAddr, u8), String> {
    let (address, length) = text
        .split_once('/')
        .map_or((text, None), |(a, l)| (a, Some(l)));
    let address: IpAddr = address
        .parse()
        .map_err(|_| format!("{address:?} is no address; write 192.0.2.7 or 2001:db8::/32"))?;
    let most = if address.is_ipv4() { 32 } else { 128 };
    let length = match length {
        None => most,
        Some(l) => l
            .parse()
            .ok()
            .filter(|l| *l <= most)
            .ok_or_else(|| format!("{l:?} is no length of a prefix: 0 to {most}"))?,
    };
    Ok((address, length))
}

/// Protocol of an IP packet; for a fragment, that of the whole.
fn protocol(frame: &Frame<'_>) -> Protocol {
    match frame.transport {
        Transport::Tcp(_) => Protocol::Tcp,
        Transport::Udp { .. } => Protocol::Udp,
        Transport::Other { protocol } | Transport::Cut { protocol } => match protocol {
            6 => Protocol::Tcp,
            17 => Protocol::Udp,
            _ => Protocol::Other,
        },
    }
}

/// Step of time that the plan asks for.
///
/// # Errors
/// A step below a microsecond.
pub(super) fn step_ns(whole: &TrafficPlan) -> anyhow::Result<Option<i64>> {
    match whole.step {
        Some(d) if d.as_nanos() < 1_000 => {
            Err(usage("--step: a microsecond is the least; try 10ms"))
        }
        step => Ok(step.map(|d| d.as_nanos() as i64)),
    }
}

/// Reads capture files, or an interface.
pub(super) fn run(
    plan: &Plan,
    whole: &TrafficPlan,
    observer: &dyn Observer,
) -> anyhow::Result<(Answer, Option<anyhow::Error>)> {
    let mut collected = Collected {
        traffic: Traffic::new(step_ns(whole)?),
        watch: Watch::default(),
        applications: Applications::default(),
        untimed: 0,
        foreign: 0,
        joined: 0,
        packets: 0,
        bytes: 0,
    };
    let mut notes = Vec::new();
    let mut failed = None;
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
    let answer = collected.finish(whole, notes);
    if let Some(directory) = &plan.plots {
        draw(&answer.traffic, directory, observer)?;
    }
    Ok((answer, failed))
}

/// Figures of the packets so far.
struct Collected {
    traffic: Traffic,
    watch: Watch,
    applications: Applications,
    /// Packets without a time, packets that are not IP, and packets larger than a frame.
    untimed: u64,
    foreign: u64,
    joined: u64,
    packets: u64,
    bytes: u64,
}

impl Collected {
    fn take(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>) {
        self.packets += 1;
        self.bytes += u64::from(record.original_len);
        let (Some(t), Some(frame)) = (record.t_ns, frame) else {
            self.untimed += u64::from(record.t_ns.is_none());
            self.foreign += u64::from(record.t_ns.is_some());
            return;
        };
        self.joined += u64::from(frame.ip_len > LARGEST_ETHERNET);
        self.traffic.packet(t, frame.ip_len, protocol(frame));
        self.watch.packet(t, frame);
        self.applications.packet(t, frame);
    }

    fn finish(self, whole: &TrafficPlan, mut notes: Vec<String>) -> Answer {
        let traffic = self.traffic.finish();
        let found = self.watch.finish(&whole.home);
        let applications = applications::Applications::new(&self.applications.finish());
        let mut note = |n: u64, what: &str| {
            if n > 0 {
                notes.push(format!("{n} packets {what}"));
            }
        };
        note(self.untimed, "have no time and are left out");
        note(self.foreign, "are not IP and are left out");
        note(
            self.joined,
            "are larger than a frame can be: the capturing host's offload joined them; sizes and gaps are those before it \
             cuts, or after it joins. Capture on a router, or switch it off (ethtool -K IFACE tso off gso off gro off)",
        );
        note(
            traffic.backward_packets,
            "stand behind later ones in the file and count at the time of those",
        );
        note(
            traffic.oversized_packets,
            "claim more than 1 MiB, which no link carries: the file is damaged there, and they are left out",
        );
        note(
            found.unwatched_packets,
            "belong to pairs beyond the million that are watched for unsolicited ones",
        );
        notes.extend(applications.notes());
        Answer {
            traffic,
            found,
            applications,
            notes,
        }
    }
}

impl live::Receiver for Collected {
    fn packet(&mut self, record: &Record<'_>, frame: Option<&Frame<'_>>) {
        self.take(record, frame);
    }

    fn second(&mut self, since_ns: i64, dropped: u64) -> String {
        let missed = match dropped {
            0 => String::new(),
            n => format!("; the kernel dropped {n}"),
        };
        format!(
            "{} s: {}, {}{missed}",
            since_ns / 1_000_000_000,
            crate::counted(self.packets, "packet"),
            SIZE.print(self.bytes as f64)
        )
    }
}

impl Answer {
    /// Returns the tables for a terminal of this width.
    pub fn text(&self, width: usize) -> String {
        let mut out = text(&self.traffic, &self.notes, width);
        self.applications.text(&mut out, width);
        unsolicited(&self.found, &mut out, width);
        out
    }

    /// All figures as JSON.
    ///
    /// # Errors
    /// Errors of the receiver.
    pub fn json(&self, out: &mut dyn std::io::Write) -> serde_json::Result<()> {
        let list = self.found.list.iter().map(UnsolicitedRow::new).collect();
        let whole = Whole {
            notes: self.notes.clone(),
            traffic: self.traffic.clone(),
            applications: &self.applications,
            home: self.found.home.iter().map(IpAddr::to_string).collect(),
            unsolicited: list,
            group_packets: self.found.group_packets,
        };
        serde_json::to_writer_pretty(out, &whole)
    }
}

/// Laws of one capture's arrivals and sizes, for `tailback model`.
pub(crate) fn of(path: &Path) -> anyhow::Result<TrafficAnswer> {
    Ok(of_with(path, None, &mut Vec::new())?.0)
}

/// The same with a step of its own, and the time of the first packet; notes on the file go to `notes`.
pub(super) fn of_with(
    path: &Path,
    step_ns: Option<i64>,
    notes: &mut Vec<String>,
) -> anyhow::Result<(TrafficAnswer, Option<i64>)> {
    let mut traffic = Traffic::new(step_ns);
    let mut first_ns = None;
    input::read(path, notes, |record, frame| {
        if let (Some(t), Some(frame)) = (record.t_ns, frame) {
            first_ns = first_ns.or(Some(t));
            traffic.packet(t, frame.ip_len, protocol(frame));
        }
    })?;
    Ok((traffic.finish(), first_ns))
}

/// Largest IP packet of an Ethernet frame without jumbo size.
const LARGEST_ETHERNET: u32 = 1500;

#[derive(Serialize, schemars::JsonSchema)]
pub(super) struct Whole<'a> {
    notes: Vec<String>,
    #[serde(flatten)]
    traffic: TrafficAnswer,
    /// Sessions of services and servers.
    applications: &'a applications::Applications,
    /// Local addresses, at most 16 of them.
    home: Vec<String>,
    unsolicited: Vec<UnsolicitedRow>,
    /// Multicast and broadcast packets.
    group_packets: u64,
}

#[derive(Serialize, schemars::JsonSchema)]
struct UnsolicitedRow {
    kind: &'static str,
    from: String,
    to: String,
    /// Local port; for ICMP 256 × type + code, or the query's identifier; for another protocol its number.
    port: u16,
    packets: u64,
    first_ns: i64,
    last_ns: i64,
}

impl UnsolicitedRow {
    fn new(u: &Unsolicited) -> UnsolicitedRow {
        UnsolicitedRow {
            kind: u.kind.word(),
            from: u.from.to_string(),
            to: u.to.to_string(),
            port: u.port,
            packets: u.packets,
            first_ns: u.first_ns,
            last_ns: u.last_ns,
        }
    }
}

/// The three quantities of table 3.1: heading, unit, its size in the answer's unit, and accessor.
pub(super) type Quantity = (&'static str, &'static str, f64, fn(&ClassAnswer) -> &Law);

pub(super) fn quantities() -> [Quantity; 3] {
    [
        ("Arrival rate", "packets/s", 1.0, |c| &c.arrivals),
        ("Datagram size", "bytes", 1.0, |c| &c.sizes),
        ("Inter-arrival time", "ms", 1e-3, |c| &c.gaps),
    ]
}

fn text(a: &TrafficAnswer, notes: &[String], width: usize) -> String {
    let mut out = String::new();
    let [tcp, udp, _] = &a.classes[..] else {
        unreachable!("three classes")
    };
    let percent = |share: Option<f64>| {
        share.map_or("none".to_string(), |s| {
            format!("{} %", significant(100.0 * s, 3))
        })
    };
    let _ = writeln!(
        out,
        "{} packets of TCP, {} of UDP, {} others in {} s\nTCP fraction: {} of the packets, {} of the bytes",
        tcp.packets,
        udp.packets,
        a.other_packets,
        significant(a.span_s, 4),
        percent(a.tcp_share_of_packets),
        percent(a.tcp_share_of_bytes),
    );
    for n in notes {
        let _ = writeln!(out, "! {n}");
    }
    table_3_1(a, &mut out, width);
    ranking(a, &mut out);
    self_similarity(a, &mut out, width);
    out
}

/// Writes the document's table 3.1 with intervals.
fn table_3_1(a: &TrafficAnswer, out: &mut String, width: usize) {
    let _ = writeln!(
        out,
        "\nParameters of the Weibull distribution, 95 % intervals beside them"
    );
    let mut table = Table::new("", ["", "TCP only", "UDP only", "TCP+UDP"]);
    for (name, unit, size, pick) in quantities() {
        let step = if name == "Arrival rate" {
            format!(" in steps of {} ms", significant(a.step_s * 1e3, 3))
        } else {
            String::new()
        };
        let laws: Vec<_> = a
            .classes
            .iter()
            .map(|c| pick(c).of(Family::Weibull))
            .collect();
        table.row(format!("{name}, {unit}{step}"), [""; 3]);
        for (i, (label, size)) in [("  a) shape (β)", 1.0), ("  b) scale (η)", size)]
            .iter()
            .enumerate()
        {
            let cells = laws
                .iter()
                .map(|l| l.map(|f| estimate(&f.parameters[i].1.map(|v| v / size))));
            table.row(*label, cells);
        }
    }
    *out += &table.text(width);
    for c in a.classes.iter().filter(|c| c.packets > 0) {
        for (name, _, _, pick) in quantities() {
            if let ([], [why, ..]) = (&pick(c).fits[..], &pick(c).without[..]) {
                let _ = writeln!(out, "  {}, {}: {why}", c.name, name.to_lowercase());
            }
        }
    }
}

/// Value and interval as two cells.
fn estimate(f: &Figure) -> Cell {
    match f {
        Figure::Is { value, low, high } => Cell::Estimate {
            mean: significant(*value, 5),
            half: format!("({}–{})", significant(*low, 4), significant(*high, 4)),
        },
        Figure::CannotTell { .. } => Cell::Absent,
    }
}

fn ranking(a: &TrafficAnswer, out: &mut String) {
    let _ = writeln!(
        out,
        "\nWhich law fits, the best first by Akaike's criterion; how far its curve is off\n\
         where it is off most, % (Kolmogorov–Smirnov); * not rejected (Anderson–Darling)"
    );
    for (name, _, _, pick) in quantities() {
        let _ = writeln!(out, "{name}");
        for c in &a.classes {
            let fits = &pick(c).fits;
            if fits.is_empty() {
                continue;
            }
            let told: Vec<String> = fits
                .iter()
                .map(|f| {
                    let mark = if f.rejected { "" } else { "*" };
                    format!(
                        "{}{mark} {}",
                        f.family,
                        significant(100.0 * f.kolmogorov_smirnov, 2)
                    )
                })
                .collect();
            let _ = writeln!(out, "  {:<7} {}", c.name, told.join(", "));
        }
    }
}

fn self_similarity(a: &TrafficAnswer, out: &mut String, width: usize) {
    let _ = writeln!(
        out,
        "\nHurst parameter of the packets in steps of {} ms",
        significant(a.hurst_step_s * 1e3, 3)
    );
    let mut table = Table::new("", ["", "variance–time", "R/S", "wavelet"]);
    let mut remarks = Vec::new();
    for c in &a.classes {
        let cell = |f: &Figure| match f {
            Figure::Is { value, low, high } => Cell::Is(format!("{value:.2} ({low:.2}–{high:.2})")),
            Figure::CannotTell { .. } => Cell::Absent,
        };
        let h = &c.hurst;
        table.row(
            c.name,
            [&h.variance_time, &h.rescaled_range, &h.wavelet].map(cell),
        );
        if let Some(scales) = &h.scales {
            let over = |[from, to]: [f64; 2]| {
                let span = |steps: f64| Duration::from_secs_f64(steps * a.hurst_step_s);
                format!("{:.2}–{:.2}", span(from), span(to))
            };
            table.row("  over", scales.map(over));
        }
        if let Figure::CannotTell { cannot_tell } = &h.wavelet {
            remarks.push(format!("{}: cannot tell: {cannot_tell}", c.name));
        }
        if h.unsteady {
            remarks.push(format!(
                "{}: the rate changed its level (it drifted, or came in phases): that, and not self-similarity, \
                 is what these values show",
                c.name
            ));
        }
    }
    *out += &table.text(width);
    for line in remarks.iter().flat_map(|r| wrapped(r, width)) {
        let _ = writeln!(out, "{line}");
    }
}

/// Greatest number of rows of unsolicited packets that are shown.
const SHOWN: usize = 15;

fn unsolicited(found: &Found, out: &mut String, width: usize) {
    if found.home.is_empty() {
        let _ = writeln!(
            out,
            "\nUnsolicited packets: cannot tell which side is at home; name it with --home ADDRESS"
        );
        return;
    }
    let home: Vec<String> = found.home.iter().take(3).map(IpAddr::to_string).collect();
    let more = if found.home.len() > 3 { ", …" } else { "" };
    let total: u64 = found.list.iter().map(|u| u.packets).sum();
    let _ = writeln!(
        out,
        "\nUnsolicited: {total} packets that home ({}{more}) had not asked for",
        home.join(", ")
    );
    let mut table = Table::new("", ["packets", "kind", "from", "to"].map(Column::words));
    for u in found.list.iter().take(SHOWN) {
        let what = match u.kind {
            measure::unsolicited::Kind::Error => {
                format!("type {} code {}", u.port >> 8, u.port & 255)
            }
            measure::unsolicited::Kind::Ping => String::new(),
            measure::unsolicited::Kind::Other => format!("protocol {}", u.port),
            _ => format!("port {}", u.port),
        };
        table.row(u.packets, [u.kind.word(), &u.from.to_string(), &what]);
    }
    *out += &table.text(width);
    if found.list.len() > SHOWN {
        let _ = writeln!(
            out,
            "  … and {} more rows: --json has all",
            found.list.len() - SHOWN
        );
    }
    if found.group_packets > 0 {
        let _ = writeln!(
            out,
            "  {:>7}  to groups and to everyone, not judged",
            found.group_packets
        );
    }
}

fn draw(a: &TrafficAnswer, directory: &Path, observer: &dyn Observer) -> anyhow::Result<()> {
    std::fs::create_dir_all(directory)
        .map_err(|e| anyhow::anyhow!("cannot create {}: {e}", directory.display()))?;
    for (name, svg) in report::traffic::plots(a) {
        let path = directory.join(format!("{name}.svg"));
        write_file(&path, &svg)?;
        observer.wrote(&path);
    }
    Ok(())
}
