//! Shape of every kind's answer: `--json` prints it, the terminal shows it and the report draws it.

use super::alert::Alert;
use base::noted::Noted;
use base::noted::own::OwnTraffic;
use base::program::Train;
use base::record::Recording;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::Figure;

/// Version of this shape in `--json`.
pub const PROBE_ANSWER_VERSION: u32 = 1;

/// Unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub enum Quantity {
    #[serde(rename = "bit/s")]
    Rate,
    #[serde(rename = "ms")]
    Time,
    #[serde(rename = "bytes")]
    Size,
    /// Plain number: packets, hops, connections.
    #[serde(rename = "count")]
    Count,
    /// Share from 0 to 1.
    #[serde(rename = "share")]
    Share,
}

/// Figure of an answer.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Figured {
    /// Name for machines; ends in the unit if it has one, such as `lossless_bps`.
    pub key: String,
    /// Name for people.
    pub name: String,
    /// Unit of the figure.
    pub unit: Quantity,
    /// Value with its interval, or the reason why it is unknown.
    pub figure: Figure,
}

impl Figured {
    /// Creates a figure with its key, name and unit.
    pub fn new(key: &str, name: &str, unit: Quantity, figure: Figure) -> Figured {
        Figured {
            key: key.into(),
            name: name.into(),
            unit,
            figure,
        }
    }

    /// Rate in bit/s.
    pub fn rate(key: &str, name: &str, figure: Figure) -> Figured {
        Figured::new(key, name, Quantity::Rate, figure)
    }

    /// Time in ms.
    pub fn time(key: &str, name: &str, figure: Figure) -> Figured {
        Figured::new(key, name, Quantity::Time, figure)
    }

    /// Size in bytes.
    pub fn size(key: &str, name: &str, figure: Figure) -> Figured {
        Figured::new(key, name, Quantity::Size, figure)
    }

    /// Plain number.
    pub fn count(key: &str, name: &str, figure: Figure) -> Figured {
        Figured::new(key, name, Quantity::Count, figure)
    }

    /// Share from 0 to 1.
    pub fn share(key: &str, name: &str, figure: Figure) -> Figured {
        Figured::new(key, name, Quantity::Share, figure)
    }
}

/// Rows of texts; the first column names the row.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Table {
    /// Title above the table.
    pub title: String,
    /// Headings of the columns.
    pub columns: Vec<String>,
    /// Rows of as many texts as there are columns.
    pub rows: Vec<Vec<String>>,
}

impl Table {
    /// Creates a table whose headings are known beforehand.
    pub fn new<const N: usize>(
        title: impl Into<String>,
        columns: [&str; N],
        rows: Vec<Vec<String>>,
    ) -> Table {
        Table {
            title: title.into(),
            columns: columns.map(String::from).into(),
            rows,
        }
    }
}

/// Style of a curve.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Draw {
    Line,
    /// Line between few values, each with its dot.
    Knots,
    Dots,
    Marks,
    /// Thin line, for comparison.
    Thin,
}

/// Curve of a plot.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Series {
    /// Name in the legend.
    pub name: String,
    /// Style of the curve.
    pub draw: Draw,
    /// Points; null interrupts the line.
    pub points: Vec<(f64, Option<f64>)>,
}

impl Series {
    /// Creates a curve.
    pub fn new(name: impl Into<String>, draw: Draw, points: Vec<(f64, Option<f64>)>) -> Series {
        Series {
            name: name.into(),
            draw,
            points,
        }
    }
}

/// Plot: curves over two even axes, with units in their names.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plot {
    /// Title above the plot.
    pub title: String,
    /// Name and unit of the horizontal axis.
    pub x: String,
    /// Name and unit of the vertical axis.
    pub y: String,
    /// Curves.
    pub series: Vec<Series>,
}

impl Plot {
    /// Creates a plot with the names of its axes.
    pub fn new(title: impl Into<String>, (x, y): (&str, &str), series: Vec<Series>) -> Plot {
        Plot {
            title: title.into(),
            x: x.into(),
            y: y.into(),
            series,
        }
    }
}

/// Result of a kind.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Outcome {
    /// Answer in a sentence or two that a person can act on.
    pub says: String,
    /// Figures; the one that answers the question comes first.
    pub figures: Vec<Figured>,
    /// Alerts, gravest first; empty if nothing is wrong.
    pub alerts: Vec<Alert>,
    /// Evidence, one line for each observation, with its numbers.
    pub evidence: Vec<String>,
    /// Recommendations; empty if there are none.
    pub advice: Vec<String>,
    /// Reasons to distrust the answer; empty if there are none.
    pub doubts: Vec<String>,
    /// Tables of the report.
    pub tables: Vec<Table>,
    /// Plots of the report.
    pub plots: Vec<Plot>,
}

impl Outcome {
    /// Outcome without an answer, with the reason.
    pub fn cannot_tell(why: impl Into<String>) -> Outcome {
        let why = why.into();
        Outcome {
            says: format!("Cannot tell: {why}."),
            doubts: vec![why],
            ..Outcome::default()
        }
    }

    /// # Panics
    /// If there is no figure of that key, which only a test asks for.
    pub fn figure(&self, key: &str) -> &Figure {
        let known = || {
            self.figures
                .iter()
                .map(|f| f.key.as_str())
                .collect::<Vec<_>>()
        };
        let found = self.figures.iter().find(|f| f.key == key);
        &found
            .unwrap_or_else(|| panic!("no figure {key} among {:?}: {}", known(), self.says))
            .figure
    }
}

/// Answer of a recording's experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ProbeAnswer {
    /// Version of the JSON shape.
    pub version: u32,
    /// Name of the run.
    pub title: String,
    /// Kind with its parameters: `sweep:size=1000 B`.
    pub probe: String,
    /// Question that the kind answers.
    pub question: String,
    /// Start of the run, UNIX ns.
    pub started_ns: i64,
    /// Length of the run, s.
    pub duration_s: f64,
    /// True if the run went to its planned end.
    pub complete: bool,
    /// Traffic of the run itself, both directions combined: whole IP packets.
    pub own_bytes: u64,
    /// Number of IP packets of the run itself, both directions combined.
    pub own_packets: u64,
    /// Result of the kind.
    #[serde(flatten)]
    pub outcome: Outcome,
}

impl ProbeAnswer {
    pub(super) fn of(
        recording: &Recording,
        (probe, question): (String, &str),
        mut outcome: Outcome,
        trains: &[Train],
    ) -> ProbeAnswer {
        let meta = &recording.meta;
        let events = recording.event.iter();
        for e in events.filter(|e| matches!(&*e.kind, "doubt" | "fault" | "cross_traffic")) {
            let what = match &*e.kind {
                "cross_traffic" => format!("others used the link: {}", e.detail),
                _ => format!("{}: {}", e.subject, e.detail),
            };
            outcome.doubts.push(what);
        }
        for t in trains {
            if t.facts.overflowed > 0 {
                outcome.doubts.push(format!(
                    "{} datagrams of train {} ({}) reached the receiving host, which had no room for them: they count as lost and were not lost by the link",
                    t.facts.overflowed, t.number, t.facts.stage
                ));
            }
        }
        let latest = trains
            .iter()
            .flat_map(|t| &t.fates)
            .filter_map(|f| f.sent_ns)
            .max();
        let ended = meta.ended_ns.or(latest).unwrap_or(meta.started_ns);
        let own = recording
            .datagram
            .iter()
            .map(|d| d.size_bytes.max(0) as u64);
        let (trains_bytes, trains_packets) = (own.clone().sum::<u64>(), own.count() as u64);
        let noted = OwnTraffic::all_of(recording).map(|(_, n)| (n.bytes, n.packets));
        let (own_bytes, own_packets) = noted.fold(
            (trains_bytes, trains_packets),
            |(b, p), (bytes, packets)| (b + bytes, p + packets),
        );
        ProbeAnswer {
            version: PROBE_ANSWER_VERSION,
            title: meta.title.clone(),
            probe,
            question: question.into(),
            started_ns: meta.started_ns,
            duration_s: (ended - meta.started_ns).max(0) as f64 * 1e-9,
            complete: meta.complete,
            own_bytes,
            own_packets,
            outcome,
        }
    }
}
