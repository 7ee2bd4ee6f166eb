//! Words, tables and plots of the answer.

use super::{Held, only_headers, pieces};
use crate::answer::{Draw, Plot, Series, Table};
use base::print::significant;

pub(super) fn rates_table(rates: &[(f64, f64, f64)]) -> Table {
    let show = |v: f64| significant(v, 3);
    Table::new(
        "In two fragments: B²/b and what arrived",
        ["sent, Mbit/s", "B²/b", "measured"],
        rates
            .iter()
            .map(|(b, theory, got)| vec![show(*b), show(*theory), show(*got)])
            .collect(),
    )
}

pub(super) fn rates_plot(rates: &[(f64, f64, f64)]) -> Plot {
    Plot {
        title: "Two fragments: B²/b and what arrived".into(),
        x: "sent, Mbit/s of payload".into(),
        y: "arrived, Mbit/s".into(),
        series: vec![
            Series::new(
                "measured",
                Draw::Knots,
                rates.iter().map(|r| (r.0, Some(r.2))).collect(),
            ),
            Series::new(
                "B²/b",
                Draw::Knots,
                rates.iter().map(|r| (r.0, Some(r.1))).collect(),
            ),
        ],
    }
}

pub(super) fn sizes_table(held: &[Held], line: f64, longest: u32, headers: u32) -> Table {
    Table {
        title: "Sizes".into(),
        columns: [
            "payload, bytes",
            "fragments",
            "arrived, Mbit/s",
            "if only headers cost",
        ]
        .map(String::from)
        .into(),
        rows: held
            .iter()
            .map(|h| {
                vec![
                    h.size.to_string(),
                    pieces(h.size, longest, headers).to_string(),
                    significant(h.bps / 1e6, 3),
                    significant(only_headers(h.size, line, longest, headers), 3),
                ]
            })
            .collect(),
    }
}

pub(super) fn sizes_plot(held: &[Held], line: f64, longest: u32, headers: u32) -> Plot {
    Plot {
        title: "Throughput against size".into(),
        x: "payload, bytes".into(),
        y: "arrived, Mbit/s".into(),
        series: vec![
            Series::new(
                "measured",
                Draw::Knots,
                held.iter()
                    .map(|h| (f64::from(h.size), Some(h.bps / 1e6)))
                    .collect(),
            ),
            Series::new(
                "if only headers cost",
                Draw::Thin,
                held.iter()
                    .map(|h| {
                        (
                            f64::from(h.size),
                            Some(only_headers(h.size, line, longest, headers)),
                        )
                    })
                    .collect(),
            ),
        ],
    }
}
