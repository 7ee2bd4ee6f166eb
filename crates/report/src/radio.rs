//! State of the radios: a table, and what they say about bad seconds.

use crate::table::{Cell, Column, Table};
use crate::words::lasting;
use analysis::radio::{Measure, RadioBeside, RadioSummary, WithinSeconds};
use base::print::{number, percent};
use stats::Figure;

/// Definitions of the figures.
pub const NOTE: &str = "As the modem, the driver or the command tells it: two modems differ by several dB in one place. \
     Least to most: of the readings. Handovers between two readings count once. Bad seconds: a probe was lost, or later \
     than its target's 95 % point.";
/// Names of technologies in a sentence; the rest is summed.
const NAMED: usize = 4;

/// Returns the radios, a row each; `None` if none was read.
pub fn table(all: &[RadioSummary]) -> Option<Table> {
    let heads = [
        "",
        "signal",
        "least",
        "25 %",
        "median",
        "most",
        "SNR",
        "cells",
        "handovers",
    ];
    let mut table = Table::new("Radio", heads.map(Column::from));
    for r in all {
        let (name, unit) = match r.signal.map(|s| s.measure) {
            Some(Measure::Rsrp) => ("RSRP, dBm", ""),
            Some(Measure::Rssi) => ("RSSI, dBm", ""),
            Some(Measure::Quality) => ("quality", " %"),
            None => ("", ""),
        };
        let told = |v: f64| Cell::Is(format!("{}{unit}", number(v)));
        let signal = match r.signal {
            Some(s) => [s.least, s.p25, s.p50, s.most].map(told),
            None => [const { Cell::Absent }; 4],
        };
        let snr = r.snr_db.map(|c| format!("{} dB", number(c.mean)));
        let cells = std::iter::once(Cell::Is(name.into())).chain(signal).chain([
            Cell::from(snr),
            r.cells.into(),
            Cell::from(r.handovers.map(|n| n.to_string())),
        ]);
        table.row(title(r), cells);
    }
    (!table.is_empty()).then_some(table)
}

/// Name of a radio, which may have none.
fn title(r: &RadioSummary) -> &str {
    match &*r.interface {
        "" => "radio",
        name => name,
    }
}

/// Returns the technologies of each radio, and what it says about each target.
pub fn sentences(all: &[RadioSummary]) -> Vec<String> {
    let mut said = Vec::new();
    for r in all {
        said.extend(technologies(r));
        said.extend(r.beside.iter().flat_map(beside));
    }
    said
}

fn technologies(r: &RadioSummary) -> Option<String> {
    let told = |name: &Option<String>| name.clone().unwrap_or_else(|| "no network".into());
    let mut parts: Vec<String> = r.technologies[..r.technologies.len().min(NAMED)]
        .iter()
        .map(|t| format!("{} {} %", told(&t.name), percent(t.share)))
        .collect();
    let rest: f64 = r.technologies.iter().skip(NAMED).map(|t| t.share).sum();
    if rest > 0.0 {
        parts.push(format!("others {} %", percent(rest)));
    }
    let of = match &r.operators[..] {
        [] => String::new(),
        names => format!(" ({})", names.join(", ")),
    };
    let watched = lasting(r.watched_s.round());
    (!parts.is_empty()).then(|| {
        format!(
            "{}{of}, watched for {watched}: {}.",
            title(r),
            parts.join(", ")
        )
    })
}

fn beside(b: &RadioBeside) -> Vec<String> {
    let mut said = Vec::new();
    if let Figure::Is { value, low, high } = b.correlation {
        let means = match (low, high) {
            (low, _) if low > 0.0 => "the stronger the signal, the longer the round trip",
            (_, high) if high < 0.0 => "the weaker the signal, the longer the round trip",
            _ => "no more than chance",
        };
        let r = |v: f64| format!("{v:.2}").replace('-', "−");
        said.push(format!(
            "{}: rank correlation of signal and round trip {} ({} to {}): {means}.",
            b.target,
            r(value),
            r(low),
            r(high)
        ));
    }
    let counts = |name: &str, cause: &str, s: &WithinSeconds| {
        let suspect = match s.are_suspect() {
            true => format!("{cause} may be the cause."),
            false => format!("No sign that {cause} is the cause."),
        };
        let mut suspect = suspect.chars();
        let first = suspect.next().map(|c| c.to_uppercase().to_string());
        format!(
            "{}: {name} in {} of {} bad seconds and in {} of {} others. {}{}",
            b.target,
            s.bad_within,
            s.bad,
            s.others_within,
            s.others,
            first.unwrap_or_default(),
            suspect.as_str()
        )
    };
    said.extend(
        b.weak
            .as_ref()
            .map(|s| counts("weak signal", "the signal", s)),
    );
    said.extend(
        b.handover
            .as_ref()
            .map(|s| counts("beside a handover", "the handover", s)),
    );
    said
}

#[cfg(test)]
mod tests {
    use super::*;
    use analysis::radio::{Signal, Technology};

    #[test]
    fn sentences_suspect_what_lies_beside_bad_seconds_alone() {
        let seconds = |bad_within| WithinSeconds {
            bad: 20,
            bad_within,
            others: 1000,
            others_within: 50,
            chance: (bad_within > 10).then_some(0.005),
        };
        let radio = |bad_within| RadioSummary {
            interface: "wwan0".into(),
            readings: 100,
            watched_s: 990.0,
            signal: Some(Signal {
                measure: Measure::Rsrp,
                readings: 100,
                least: -118.0,
                p25: -110.0,
                p50: -101.5,
                most: -90.0,
            }),
            snr_db: None,
            technologies: vec![
                Technology {
                    name: Some("lte".into()),
                    share: 0.95,
                },
                Technology {
                    name: None,
                    share: 0.05,
                },
            ],
            operators: vec!["Telenor".into()],
            cells: 3,
            handovers: Some(4),
            technology_changes: 0,
            beside: vec![RadioBeside {
                target: "udp".into(),
                correlation: Figure::Is {
                    value: -0.4,
                    low: -0.6,
                    high: -0.2,
                },
                weak: None,
                handover: Some(seconds(bad_within)),
            }],
        };
        let said = sentences(&[radio(15)]).join("\n");
        assert!(
            said.contains("wwan0 (Telenor), watched for 16 min 30 s: lte 95 %, no network 5 %."),
            "{said}"
        );
        assert!(
            said.contains("−0.40 (−0.60 to −0.20): the weaker the signal"),
            "{said}"
        );
        assert!(
            said.contains("15 of 20 bad seconds and in 50 of 1000 others. The handover may be"),
            "{said}"
        );
        assert!(
            sentences(&[radio(1)])
                .join(" ")
                .contains("No sign that the handover is")
        );
        let text = table(&[radio(1)]).expect("a table");
        assert!(!text.is_empty() && table(&[]).is_none());
    }
}
