//! Words, tables and plots of the answer.

use super::{Seen, look};
use crate::answer::{Draw, Plot, Series};
use crate::trains::waits;
use base::print::significant;
use base::program::{Due, Train};

/// Row on a flood without the small datagrams before it; its arrivals without the time in which the queue filled.
pub(super) fn row(train: &Train) -> Vec<String> {
    let flood = || train.datagrams().filter(|(due, _)| due.step == 1);
    let bits = |due: &Due| f64::from(due.payload + train.facts.headers) * 8.0;
    let per_second = |mut at: Vec<(i64, f64)>| {
        at.sort_unstable_by_key(|a| a.0);
        let ((first, _), (last, _)) = (at.first()?, at.last()?);
        let seconds = (last - first) as f64 * 1e-9;
        (seconds > 0.0).then(|| (seconds, at[1..].iter().map(|a| a.1).sum::<f64>() / seconds))
    };
    let sent = per_second(
        flood()
            .filter_map(|(d, f)| Some((f.sent_ns?, bits(&d))))
            .collect(),
    );
    let came: Vec<(i64, f64)> = flood()
        .filter_map(|(d, f)| Some((f.received_ns?, bits(&d))))
        .collect();
    let came = per_second(came[came.len() * 3 / 10..].to_vec());
    let mbps = |rate: Option<(f64, f64)>| rate.map_or("?".into(), |r| significant(r.1 / 1e6, 3));
    vec![
        sent.map_or("?".into(), |s| significant(s.0, 3)),
        mbps(sent),
        mbps(came),
        train.lost().to_string(),
        look(train)
            .map_or("?", |s| if s.full { "yes" } else { "no" })
            .into(),
    ]
}

pub(super) fn delay_plot(train: &Train) -> Plot {
    let all = waits(train);
    // A picture has a thousand columns.
    let each = all.len().div_ceil(1500).max(1);
    Plot::new(
        "Delay",
        ("s", "ms above the least"),
        vec![Series::new(
            "",
            Draw::Dots,
            all.iter().step_by(each).map(|w| (w.0, Some(w.1))).collect(),
        )],
    )
}

pub(super) fn rate_plot(seen: &Seen) -> Plot {
    Plot {
        title: "What comes out".into(),
        x: "s since the first arrival of the flood".into(),
        y: "Mbit/s of IP packets".into(),
        series: vec![Series::new(
            "",
            Draw::Line,
            seen.rates
                .iter()
                .enumerate()
                .map(|(i, r)| ((i as f64 + 0.5) * seen.stretch, Some(r / 1e6)))
                .collect(),
        )],
    }
}
