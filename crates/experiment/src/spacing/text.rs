//! Words, tables and plots of the answer.

use super::{Counts, Params};
use crate::answer::{Draw, Plot, Series, Table};
use base::print::significant;

pub(super) fn table(params: &Params, title: &str, rows: &[Counts]) -> Table {
    let mbit = |r: f64| significant(r / 1e6, 3);
    let of = |n: (u64, u64)| format!("{} of {}", n.1, n.0);
    Table {
        title: title.into(),
        columns: vec![
            "targeted, Mbit/s".into(),
            format!("A ({}) arrived", params.a),
            format!("B ({}) arrived", params.b),
            "achieved, Mbit/s".into(),
        ],
        rows: rows
            .iter()
            .map(|c| vec![mbit(c.targeted), of(c.a), of(c.b), mbit(c.achieved)])
            .collect(),
    }
}

pub(super) fn plot(pairs: &[Counts], even: &[Counts]) -> Plot {
    let series = |name: &str, rows: &[Counts], which: fn(&Counts) -> (u64, u64)| {
        Series::new(
            name,
            Draw::Knots,
            rows.iter()
                .rev()
                .map(|c| {
                    let (sent, got) = which(c);
                    (
                        c.targeted / 1e6,
                        (sent > 0).then(|| 100.0 * got as f64 / sent as f64),
                    )
                })
                .collect(),
        )
    };
    Plot::new(
        "Datagrams that get through",
        ("targeted, Mbit/s of payload", "arrived, %"),
        vec![
            series("pairs: first", pairs, |c| c.a),
            series("pairs: second", pairs, |c| c.b),
            series("evenly: first", even, |c| c.a),
            series("evenly: second", even, |c| c.b),
        ],
    )
}
