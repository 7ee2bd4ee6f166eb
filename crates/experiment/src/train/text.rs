//! Words, tables and plots of the answer.

use super::Way;
use crate::answer::{Draw, Plot, Series, Table};
use crate::trains::waits;
use base::BitsPerSec;
use base::print::significant;
use base::program::Train;

pub(super) fn said(way: &Way) -> String {
    let (sent, lost) = (way.sum(Train::sent), way.sum(Train::lost));
    let rate = way.rate().value();
    let rate = rate.map_or_else(String::new, |bps| {
        format!(" at {:.3}", BitsPerSec::new(bps.round() as u64))
    });
    let waits = stats::sorted(&way.waits());
    let waited = stats::quantile_of_sorted(&waits, 0.95);
    let waited = waited.map_or_else(String::new, |ms| {
        format!(
            "; 95 % of them took up to {} ms longer than the fastest",
            significant(ms, 3)
        )
    });
    format!(
        "Of {sent} datagrams {} {} arrived{rate}, {lost} were lost{waited}.",
        way.direction.word(),
        sent - lost
    )
}

/// Table by the datagrams' sizes, which fare differently on some links.
pub(super) fn table(ways: &[Way]) -> Table {
    let mut rows = Vec::new();
    for w in ways {
        let mut sizes: Vec<u32> = w
            .trains
            .iter()
            .flat_map(|t| t.facts.program.steps())
            .flat_map(|s| s.shots.iter().map(|shot| shot.payload))
            .collect();
        sizes.sort_unstable();
        sizes.dedup();
        for size in sizes {
            let (mut sent, mut came) = (0u64, 0u64);
            let of_size = w.trains.iter().flat_map(|t| t.datagrams());
            for (_, fate) in of_size.filter(|(due, _)| due.payload == size) {
                sent += u64::from(fate.sent_ns.is_some());
                came += u64::from(fate.received_ns.is_some());
            }
            let share = stats::wilson((sent - came.min(sent)) as f64, sent as f64);
            rows.push(vec![
                w.direction.word().to_owned(),
                size.to_string(),
                sent.to_string(),
                came.to_string(),
                share
                    .value()
                    .map_or("–".into(), |v| significant(v * 100.0, 3)),
            ]);
        }
    }
    Table::new(
        "By size of payload",
        ["way", "bytes", "sent", "arrived", "lost, %"],
        rows,
    )
}

/// Plot of the first repeat.
pub(super) fn plot(way: &Way) -> Plot {
    let train = way.trains.first();
    let lost = train.map_or_else(Vec::new, |t| {
        let began = t.began_ns().unwrap_or(0);
        let gone = t.fates.iter().filter(|f| f.received_ns.is_none());
        gone.filter_map(|f| Some(((f.sent_ns? - began) as f64 * 1e-9, Some(0.0))))
            .collect()
    });
    let came = train.map_or_else(Vec::new, |t| {
        waits(t).into_iter().map(|(s, ms)| (s, Some(ms))).collect()
    });
    let mut series = vec![Series::new("arrived", Draw::Dots, came)];
    if !lost.is_empty() {
        series.push(Series::new("lost", Draw::Marks, lost));
    }
    Plot::new(
        format!("Delay above the least, {}", way.direction.word()),
        ("s since the first left", "ms"),
        series,
    )
}
