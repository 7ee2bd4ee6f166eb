//! TCP over a link: effect of controllers, initial windows and offload.
//!
//! **Method.** Transfers of given sizes follow each other, each kind in turn. Measured are the time of an upload until
//! all of it was acknowledged, that of a download from its request until all of it was there, retransmissions, and the
//! longest time without progress. The sender's TCP_INFO is sampled fifty times a second, at the server as often as it
//! allows. A slow flow of datagrams runs beside them, so that a break of a transfer can be told from one of the link.
//!
//! **Source.** A. R. Chandele, "Network Measurement in 2G/3G Cellular Network", Indian Institute of Technology Delhi 2012,
//! sections 5.1 and 5.2 (table 5.2.1: initial windows of 3 and 10, files of 80 kB, 400 kB and 5 MB; segmentation offload;
//! breaks of flows beside a slow flow of UDP) and 6.7 (CUBIC beside Reno).
//!
//! **Deviations.** Uploads too, and by default nothing else: their sender is ours.
//!
//! **Units.** bit/s of payload; retransmitted packets.

mod steps;

use super::answer::{Draw, Figured, Outcome, Plot, Series, Table};
use super::spec::{How, Spec};
use super::trains::Ends;
use base::Bytes;
use base::print::RATE;
use base::print::significant;
use base::record::{Delay, Direction, Recording, Status};
use base::spec::{Params as _, choices, params};
use base::words::Words;
use serde::Deserialize;
use stats::Figure;

const CHANDELE: &str = "Chandele 2012, section 5.1";
/// A transfer in which nothing is acknowledged for longer than this has a break, s.
const BREAK_S: f64 = 1.0;

choices! {
    /// Controllers to try.
    pub enum Control { All = "all", Cubic = "cubic", Reno = "reno", Bbr = "bbr" }
}

choices! {
    /// Segmentation offload.
    pub enum Offload { System = "system", Both = "both" }
}

params! {
    #[derive(Clone, Debug)]
    pub struct Params for "tcp": "How do TCP's controllers, initial windows and offload perform on this link?", ["A. R. Chandele, Network Measurement in 2G/3G Cellular Network, Indian Institute of Technology Delhi 2012",
            "RFC 6928, Increasing TCP's Initial Window",] {
        /// congestion control; by default all of the three that the sender's kernel has
        control: Control = "all";
        /// sender: this host, the server, or both in turn, which needs --budget 110MB or fewer than three repeats
        direction: Ends = "up", CHANDELE;
        /// initial windows to try in packets, such as 3; 4; 10; 30, on an emulated link (--link); by default the
        /// system's
        window: Vec<u32> ["1".."1000"], CHANDELE;
        /// with and without segmentation offload, on an emulated link; by default as the system has it
        offload: Offload = "system", CHANDELE;
        /// sizes of the transfers
        size: Vec<Bytes> = "80 kB; 400 kB; 5 MB" ["1 kB".."1 GB"], CHANDELE;
        /// transfers of each kind
        repeats: u64 = "3" ["1".."100"];
    }
}

/// Specification of the kind.
pub const SPEC: Spec = Spec {
    entry: Params::ENTRY,
    takes: "the time of 16 MB for each controller; as much again for the other direction, each further initial window and each offload setting",
    beside_others: false,
    comes_near_budget: true,
    warning: None,
    how: How::Steps(|w, setting| Ok(Box::new(steps::steps(w.read(), setting)?))),
    answer,
};

/// Transfer, from its event.
#[derive(Clone, Debug, Deserialize)]
struct Transfer {
    #[serde(default)]
    number: i64,
    /// Direction; recordings made before there were downloads lack it.
    #[serde(default = "upwards")]
    direction: Direction,
    congestion: String,
    /// Sender's window at the start of the transfer; earlier messages may have added a packet.
    window_packets: Option<u64>,
    asked_window_packets: Option<u64>,
    offload: Option<bool>,
    size_bytes: u64,
    began_ns: i64,
    took_ns: Option<i64>,
    failed: Option<String>,
    /// Retransmissions; null if the server did not report.
    retransmits: Option<u64>,
    break_ns: i64,
    break_began_ns: i64,
}

fn upwards() -> Direction {
    Direction::Up
}

/// Noun for a transfer in that direction.
fn noun(direction: Direction) -> &'static str {
    match direction {
        Direction::Up => "upload",
        Direction::Down => "download",
    }
}

impl Transfer {
    fn kind(&self) -> (Direction, String, Option<u64>, Option<bool>) {
        (
            self.direction,
            self.congestion.clone(),
            self.asked_window_packets,
            self.offload,
        )
    }

    fn bps(&self) -> Option<f64> {
        self.took_ns
            .filter(|ns| *ns > 0)
            .map(|ns| self.size_bytes as f64 * 8e9 / ns as f64)
    }

    fn ended_ns(&self) -> i64 {
        self.began_ns + self.took_ns.unwrap_or(0)
    }
}

/// Transfers of one size, direction, controller, window and offload.
struct Group<'a> {
    size: u64,
    direction: Direction,
    congestion: String,
    window: Option<u64>,
    offload: Option<bool>,
    all: Vec<&'a Transfer>,
}

impl Group<'_> {
    /// Controller, with the variant if there is one.
    fn named(&self) -> String {
        let variant = self.variant();
        match variant.is_empty() {
            true => self.congestion.clone(),
            false => format!("{} ({variant})", self.congestion),
        }
    }

    /// Rate with its interval, or the reason why it is unknown.
    fn rated(&self) -> String {
        match self.rate() {
            Figure::Is { value, low, high } => {
                let bps = |v: f64| RATE.print(v);
                let [value, low, high] = [value, low, high].map(bps);
                match low == high {
                    true => value,
                    false => format!("{value} ({low} to {high})"),
                }
            }
            Figure::CannotTell { cannot_tell } => cannot_tell,
        }
    }

    fn rate(&self) -> Figure {
        mean(&self.all.iter().filter_map(|t| t.bps()).collect::<Vec<_>>())
    }

    fn again(&self) -> Figure {
        let known = self.all.iter().filter_map(|t| t.retransmits);
        mean(&known.map(|n| n as f64).collect::<Vec<_>>())
    }

    /// Settings of a group, without its controller if that stands elsewhere.
    fn variant(&self) -> String {
        let mut words = Vec::new();
        if let Some(w) = self.window {
            words.push(format!("window {w}"));
        }
        if let Some(on) = self.offload {
            words.push(format!("offload {}", if on { "on" } else { "off" }));
        }
        words.join(", ")
    }
}

/// Mean with Student's interval: the transfers are independent.
fn mean(values: &[f64]) -> Figure {
    match stats::moments(values) {
        None => Figure::cannot_tell("no transfer came to its end"),
        Some(m) if m.n < 2 => Figure::cannot_tell(format!(
            "one transfer only, which took {}; repeats=2 or more give an interval",
            significant(m.mean, 3)
        )),
        Some(m) => {
            let by = stats::student_t95((m.n - 1) as f64) * m.sd / (m.n as f64).sqrt();
            Figure::Is {
                value: m.mean,
                low: (m.mean - by).max(0.0),
                high: m.mean + by,
            }
        }
    }
}

fn answer(_: &Words, recording: &Recording) -> Outcome {
    let events = || recording.event.iter().filter(|e| &*e.kind == "tcp");
    let transfers: Vec<Transfer> = events()
        .filter_map(|e| {
            let number = e.subject.parse().ok()?;
            let transfer: Transfer = serde_json::from_str(&e.detail).ok()?;
            Some(Transfer { number, ..transfer })
        })
        .collect();
    let missing: Vec<String> = events()
        .filter(|e| &*e.subject == "missing")
        .map(|e| e.detail.to_string())
        .collect();
    if transfers.is_empty() {
        let why = missing.first().cloned();
        return Outcome::cannot_tell(why.unwrap_or("no transfer was made".into()));
    }
    let groups = groups(&transfers);
    let largest = transfers.iter().map(|t| t.size_bytes).max().unwrap_or(0);
    let of = |way| transfers.iter().any(move |t| t.direction == way);
    let mut ways = vec![Direction::Up, Direction::Down];
    ways.retain(|&way| of(way));
    let sentences = ways.iter().map(|&way| says(&groups, way, largest));
    let mut out = Outcome {
        says: sentences.collect::<Vec<_>>().join(" "),
        doubts: missing,
        ..Outcome::default()
    };
    for g in groups.iter().filter(|g| g.size == largest) {
        out.figures.extend(figures(g, recording));
    }
    out.evidence = breaks(&transfers, &recording.delay);
    for &way in &ways {
        told(&transfers, way, &mut out);
    }
    let failed = transfers.iter().filter(|t| t.failed.is_some());
    out.doubts.extend(failed.map(|t| {
        let why = t.failed.as_deref().unwrap_or("");
        format!(
            "the {} of {} by {} did not come to its end: {why}",
            noun(t.direction),
            Bytes::new(t.size_bytes),
            t.congestion
        )
    }));
    for way in ways {
        out.tables.extend(tables(&groups, way));
        out.plots.extend(plots(&transfers, way, largest, recording));
    }
    out
}

/// Rate, retransmissions and round trip of transfers of one kind.
fn figures(g: &Group, recording: &Recording) -> [Figured; 3] {
    let variant = g.variant();
    let mut key = g.congestion.clone();
    let mut name = format!("{} by {}", noun(g.direction), g.congestion);
    if g.direction == Direction::Down {
        key += "_down";
    }
    if !variant.is_empty() {
        key += &format!("_{}", variant.replace([' ', ','], ""));
        name += &format!(", {variant}");
    }
    let srtt = srtt(g, recording);
    [
        Figured::rate(&format!("{key}_bps"), &format!("{name}: rate"), g.rate()),
        Figured::count(
            &format!("{key}_again"),
            &format!("{name}: packets sent again"),
            g.again(),
        ),
        Figured::time(
            &format!("{key}_srtt_ms"),
            &format!("{name}: its own round trip, median"),
            srtt,
        ),
    ]
}

/// Adds the initial window of a direction, and the transfers whose server sent no report.
fn told(transfers: &[Transfer], way: Direction, out: &mut Outcome) {
    let of_way = || transfers.iter().filter(move |t| t.direction == way);
    let window = of_way().filter_map(|t| t.window_packets).min();
    if let (true, Some(window)) = (of_way().all(|t| t.asked_window_packets.is_none()), window) {
        let whose = match way {
            Direction::Up => "this host's",
            Direction::Down => "the server's",
        };
        out.evidence.push(format!(
            "The initial window of {}s is {whose}: {window} packets were allowed when they began.",
            noun(way)
        ));
    }
    let silent = of_way().filter(|t| t.retransmits.is_none()).count();
    if silent > 0 {
        out.doubts.push(format!(
            "Of {silent} of {} {}s nobody knows what was sent again, nor their windows: the server's report did not come",
            of_way().count(),
            noun(way)
        ));
    }
}

fn groups(transfers: &[Transfer]) -> Vec<Group<'_>> {
    let mut groups: Vec<Group> = Vec::new();
    for t in transfers {
        let (direction, congestion, window, offload) = t.kind();
        let same = |g: &&mut Group| {
            g.size == t.size_bytes
                && g.direction == direction
                && (&g.congestion, g.window, g.offload) == (&congestion, window, offload)
        };
        match groups.iter_mut().find(same) {
            Some(g) => g.all.push(t),
            None => groups.push(Group {
                size: t.size_bytes,
                direction,
                congestion,
                window,
                offload,
                all: vec![t],
            }),
        }
    }
    groups
}

fn says(groups: &[Group], way: Direction, largest: u64) -> String {
    let groups = groups.iter().filter(|g| g.direction == way);
    let of_largest: Vec<&Group> = groups.clone().filter(|g| g.size == largest).collect();
    let by_rate = |a: &&&Group, b: &&&Group| {
        let of = |g: &&Group| g.rate().value().unwrap_or(0.0);
        of(a).total_cmp(&of(b))
    };
    let known = || of_largest.iter().filter(|g| g.rate().value().is_some());
    let (Some(best), Some(worst)) = (known().max_by(by_rate), known().min_by(by_rate)) else {
        return format!(
            "{} {}s; too few of each kind to compare.",
            groups.map(|g| g.all.len()).sum::<usize>(),
            noun(way)
        );
    };
    let size = format!("{}s of {}", noun(way), Bytes::new(largest));
    let size = format!("{}{}", size[..1].to_uppercase(), &size[1..]);
    let mut said = match (best.rate(), worst.rate()) {
        (Figure::Is { low, .. }, Figure::Is { high, .. }) if low > high => format!(
            "{size} are fastest with {}, at {}, and slowest with {}, at {}.",
            best.named(),
            best.rated(),
            worst.named(),
            worst.rated()
        ),
        _ => format!(
            "{size} go at {} with {}; no difference between the kinds can be told.",
            best.rated(),
            best.named()
        ),
    };
    let again = |g: &&&Group| g.again().value().unwrap_or(0.0);
    let order = |a: &&&Group, b: &&&Group| again(a).total_cmp(&again(b));
    if let (Some(least), Some(most)) = (known().min_by(order), known().max_by(order))
        && let (
            Figure::Is {
                value: few, high, ..
            },
            Figure::Is {
                value: many, low, ..
            },
        ) = (least.again(), most.again())
        && low > high
    {
        said += &format!(
            " {} sends {} packets again, {} only {}.",
            most.named(),
            significant(many, 3),
            least.named(),
            significant(few, 3)
        );
    }
    said
}

/// Smoothed round trip of the samples of its transfers, ms.
fn srtt(group: &Group, recording: &Recording) -> Figure {
    let ours = |flow: i64| group.all.iter().any(|t| t.number == flow);
    let ms: Vec<f64> = recording
        .flow
        .iter()
        .filter(|f| ours(f.flow))
        .filter_map(|f| Some(f.srtt_ns? as f64 * 1e-6))
        .collect();
    stats::quantile_figure(&ms, 0.5)
}

/// Breaks of transfers, with those of the slow flow beside them.
fn breaks(transfers: &[Transfer], delay: &[Delay]) -> Vec<String> {
    let longest = transfers.iter().map(|t| t.break_ns).max().unwrap_or(0) as f64 * 1e-9;
    let broken: Vec<&Transfer> = transfers
        .iter()
        .filter(|t| t.break_ns as f64 * 1e-9 > BREAK_S)
        .collect();
    let mut out = vec![format!(
        "{} of {} transfers had a break of more than {} s; the longest time in which nothing moved was {} s.",
        broken.len(),
        transfers.len(),
        BREAK_S,
        significant(longest, 2)
    )];
    let beside: Vec<&Delay> = delay.iter().filter(|d| &*d.target == "udp").collect();
    let answered = |from: i64, to: i64| {
        let within = beside.iter().filter(|d| (from..to).contains(&d.sent_ns));
        let ok = within.clone().filter(|d| d.status == Status::Ok).count();
        (ok, within.count())
    };
    for t in broken.iter().take(5) {
        let (ok, sent) = answered(t.break_began_ns, t.break_began_ns + t.break_ns);
        let blame = match 2 * ok > sent {
            true => "so the break was TCP's",
            false => "so the link carried nothing",
        };
        out.push(format!(
            "{} of {}: nothing moved for {} s; of the {sent} datagrams beside it {ok} were answered, {blame}.",
            t.congestion,
            Bytes::new(t.size_bytes),
            significant(t.break_ns as f64 * 1e-9, 3)
        ));
    }
    let all: (usize, usize) = transfers
        .iter()
        .map(|t| answered(t.began_ns, t.ended_ns()))
        .fold((0, 0), |a, b| (a.0 + b.0, a.1 + b.1));
    if all.1 > 0 {
        out.push(format!(
            "Of the slow flow's {} datagrams beside the transfers {} were answered.",
            all.1, all.0
        ));
    }
    out
}

/// Tables like table 5.2.1 of the source: sizes by windows, rate and retransmissions, mean ± half the interval.
fn tables(groups: &[Group], way: Direction) -> Vec<Table> {
    let groups: Vec<&Group> = groups.iter().filter(|g| g.direction == way).collect();
    let mut variants: Vec<String> = Vec::new();
    let mut lines: Vec<(u64, String)> = Vec::new();
    for g in &groups {
        let (variant, line) = (g.variant(), (g.size, g.congestion.clone()));
        if !variants.contains(&variant) {
            variants.push(variant);
        }
        if !lines.contains(&line) {
            lines.push(line);
        }
    }
    let pm = |f: Figure, scale: f64| match f {
        Figure::Is { value, high, .. } => format!(
            "{} ± {}",
            significant(value * scale, 3),
            significant((high - value) * scale, 2)
        ),
        Figure::CannotTell { .. } => "–".into(),
    };
    let mut columns = vec!["transfer".to_string()];
    for v in &variants {
        let v = if v.is_empty() {
            String::new()
        } else {
            format!("{v}: ")
        };
        columns.push(format!("{v}kB/s"));
        columns.push(format!("{v}sent again"));
    }
    let rows = lines.iter().map(|(size, congestion)| {
        let mut row = vec![format!("{} {congestion}", Bytes::new(*size))];
        for v in &variants {
            let of = groups
                .iter()
                .find(|g| (g.size, &g.congestion) == (*size, congestion) && g.variant() == *v);
            row.push(of.map_or("–".into(), |g| pm(g.rate(), 1.0 / 8e3)));
            row.push(of.map_or("–".into(), |g| pm(g.again(), 1.0)));
        }
        row
    });
    vec![Table {
        title: match way {
            Direction::Up => "Uploads: rate and packets sent again, means ± 95 %".into(),
            Direction::Down => "Downloads: rate and packets sent again, means ± 95 %".into(),
        },
        columns,
        rows: rows.collect(),
    }]
}

/// Plots of the last transfer of the largest size of each controller, of one variant.
fn plots(transfers: &[Transfer], way: Direction, largest: u64, recording: &Recording) -> Vec<Plot> {
    let mut shown: Vec<&Transfer> = Vec::new();
    let of_way = transfers.iter().rev().filter(|t| t.direction == way);
    for t in of_way.filter(|t| t.size_bytes == largest) {
        if !shown.iter().any(|s| s.congestion == t.congestion) {
            shown.push(t);
        }
    }
    shown.reverse();
    let series = |of: fn(&base::record::Flow) -> Option<f64>| -> Vec<Series> {
        shown
            .iter()
            .map(|t| {
                Series::new(
                    t.congestion.clone(),
                    Draw::Line,
                    recording
                        .flow
                        .iter()
                        // Its sender's: of a download there are the receiver's, too.
                        .filter(|f| f.flow == t.number && f.cwnd_bytes.is_some())
                        .map(|f| ((f.t_ns - t.began_ns) as f64 * 1e-9, of(f)))
                        .collect(),
                )
            })
            .collect()
    };
    let plot = |title: &str, y: &str, series| {
        Plot::new(
            format!("{title}, {}s", noun(way)),
            ("s since it began", y),
            series,
        )
    };
    vec![
        plot(
            "Congestion window",
            "kB",
            series(|f| Some(f.cwnd_bytes? as f64 * 1e-3)),
        ),
        plot(
            "Slow-start threshold",
            "kB",
            series(|f| Some(f.ssthresh_bytes? as f64 * 1e-3)),
        ),
        plot(
            "Smoothed round trip",
            "ms",
            series(|f| Some(f.srtt_ns? as f64 * 1e-6)),
        ),
    ]
}
