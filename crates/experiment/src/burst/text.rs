//! Words, tables and plots of the answer.

use super::{Found, trials};
use crate::answer::{Draw, Plot, Series, Table};
use base::print::significant;
use base::program::Train;

/// Sentence on whether the queue drops the last arrivals, from a burst of twice its length.
pub(super) fn tail(train: &Train, places: f64) -> String {
    let arrived: Vec<usize> = train
        .fates
        .iter()
        .enumerate()
        .filter(|(_, f)| f.received_ns.is_some())
        .map(|(i, _)| i)
        .collect();
    let before = arrived.iter().filter(|i| (**i as f64) < places).count();
    let after = arrived.len() - before;
    let first = (places as usize).min(train.fates.len());
    let kind = if before == first && after * 10 <= train.fates.len() - first {
        "drop-tail"
    } else {
        "not drop-tail"
    };
    format!(
        "of a burst of {}, {before} of the first {first} arrived and {after} of the rest: {kind}",
        train.fates.len(),
    )
}

pub(super) fn table(all: &[Found]) -> Table {
    Table {
        title: "Sizes".into(),
        columns: [
            "payload, bytes",
            "passes",
            "loses",
            "places",
            "places in kB",
            "bursts sent",
        ]
        .map(String::from)
        .into(),
        rows: all
            .iter()
            .map(|f| {
                let places = f.places.map(|p| p.0);
                vec![
                    f.size.to_string(),
                    f.passes.to_string(),
                    f.loses.map_or("-".into(), |n| n.to_string()),
                    places.map_or("-".into(), |p| format!("{p}")),
                    places.map_or("-".into(), |p| significant(p * f.packet / 1e3, 3)),
                    f.trials.to_string(),
                ]
            })
            .collect(),
    }
}

pub(super) fn plot(trains: &[Train], sizes: &[u32]) -> Plot {
    Plot {
        title: "Loss against length of the burst".into(),
        x: "datagrams in the burst".into(),
        y: "lost".into(),
        series: sizes
            .iter()
            .map(|size| {
                let mut points: Vec<(f64, Option<f64>)> = trials(trains, *size)
                    .iter()
                    .map(|t| (t.count as f64, Some(t.train.lost() as f64)))
                    .collect();
                points.sort_by(|a, b| a.0.total_cmp(&b.0));
                Series::new(format!("{size} bytes"), Draw::Knots, points)
            })
            .collect(),
    }
}
